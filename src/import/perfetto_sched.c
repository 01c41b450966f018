/*
 * perfetto_sched.c - context switches in Perfetto's traces: ftrace's events of each core, one by
 * one or in the compact form, in which each of their fields is a list of numbers and times are
 * differences.
 *
 * A span lasts from the switch to a thread until the next switch on that core. The event that made
 * the thread runnable is often in another core's bundle, so it is kept by thread until the thread
 * is switched to.
 */
#include "import/perfetto.h"

enum { MOST_NAMES = 4096 };

static uint32_t find_thread(struct perfetto *perfetto, uint64_t tid, const struct field *comm)
{
	bool found;
	uint64_t pid = ws_map_get(&perfetto->pids, tid, &found);
	uint32_t id = ws_perfetto_find_thread(perfetto, found ? pid : tid, tid);

	if (comm && comm->length)
		ws_importer_name_thread(perfetto->importer, id, (const char *)comm->bytes,
					comm->length, 5);
	return id;
}

static void put_span(struct perfetto *perfetto, uint32_t cpu, uint64_t end, uint8_t after)
{
	struct ws_row_sched *row;

	if (!perfetto->cpu[cpu].thread)
		return;
	row = ws_importer_add_row(perfetto->importer, WS_TABLE_sched);
	*row = (struct ws_row_sched){.start = perfetto->cpu[cpu].start,
				     .end = end,
				     .thread = perfetto->cpu[cpu].thread,
				     .cpu = cpu,
				     .woken = perfetto->cpu[cpu].woken,
				     .waker = perfetto->cpu[cpu].waker,
				     .after = after};
}

/* What a thread does after it was switched out, from the bits of prev_state as the kernel prints
 * them. A running thread, which has none, was preempted. */
static uint8_t classify_state(uint64_t state)
{
	if (state == 0 || state == 0x100 || state == 0x800)
		return WS_AFTER_PREEMPTED;
	if (state & 1)
		return WS_AFTER_SLEEPING;
	if (state & 2)
		return WS_AFTER_UNINTERRUPTIBLE;
	return WS_AFTER_UNKNOWN;
}

static void read_switch(struct perfetto *perfetto, uint32_t cpu, uint64_t at, uint64_t state,
			uint64_t next, const struct field *comm)
{
	uint64_t woken, waker = 0;

	put_span(perfetto, cpu, at, classify_state(state));
	perfetto->cpu[cpu].start = at;
	perfetto->cpu[cpu].thread = 0;
	if (next)
		perfetto->cpu[cpu].thread = find_thread(perfetto, next, comm);
	perfetto->cpu[cpu].woken = WS_NO_TIME;
	perfetto->cpu[cpu].waker = 0;
	if (next && ws_map_remove(&perfetto->woken, next, &woken)) {
		ws_map_remove(&perfetto->wakers, next, &waker);
		if (woken <= at) {
			perfetto->cpu[cpu].woken = woken;
			perfetto->cpu[cpu].waker = (uint32_t)waker;
		}
	}
	ws_importer_include_time(perfetto->importer, at);
}

static void read_waking(struct perfetto *perfetto, uint64_t at, uint64_t tid, uint64_t by)
{
	uint32_t waker = 0;

	if (!tid || perfetto->woken.count >= WS_IMPORT_LIMIT ||
	    ws_map_get(&perfetto->woken, tid, NULL))
		return; /* sched_wakeup repeats sched_waking */
	ws_map_set(&perfetto->woken, tid, at);
	if (by)
		waker = find_thread(perfetto, by, NULL);
	ws_map_set(&perfetto->wakers, tid, waker);
}

/* Session time of a stamp of ftrace's clock; 0 is the default one. */
static uint64_t convert_time(struct perfetto *perfetto, uint64_t stamp, uint32_t clock)
{
	if (!clock)
		return stamp;
	return ws_perfetto_convert_time(perfetto, NULL, stamp, clock);
}

static bool read_ftrace_event(struct perfetto *perfetto, uint32_t cpu, const struct field *event,
			      uint32_t clock)
{
	struct field data = ws_pb_find_field(event, 4);
	uint64_t at = convert_time(perfetto, ws_pb_find_field(event, 1).value, clock);

	if (data.wire == 2 && data.length) {
		struct field comm = ws_pb_find_field(&data, 5);

		read_switch(perfetto, cpu, at, ws_pb_find_field(&data, 4).value,
			    ws_pb_find_field(&data, 6).value, comm.wire == 2 ? &comm : NULL);
		return true;
	}
	for (uint32_t waking = 17; waking <= 20; waking += 3) { /* sched_wakeup, sched_waking */
		data = ws_pb_find_field(event, waking);
		if (data.wire == 2 && data.length) {
			read_waking(perfetto, at, ws_pb_find_field(&data, 2).value,
				    ws_pb_find_field(event, 2).value);
			return true;
		}
	}
	return false;
}

/* ---- the compact form ---- */

static struct message get_list(const struct field *in, uint32_t number)
{
	struct field field = ws_pb_find_field(in, number);

	if (field.wire != 2)
		return (struct message){0};
	return ws_pb_open_message(&field);
}

static uint64_t read_number(struct message *message, bool *ok)
{
	uint64_t value = 0;

	*ok &= message->bytes < message->end &&
	       ws_pb_read_varint(&message->bytes, message->end, &value);
	return value;
}

static void read_compact_sched(struct perfetto *perfetto, uint32_t cpu, const struct field *compact,
			       uint32_t clock)
{
	struct field names[256], field;
	struct message message = ws_pb_open_message(compact), times = get_list(compact, 1),
		       states = get_list(compact, 2), next = get_list(compact, 3);
	struct message comms = get_list(compact, 6), waking = get_list(compact, 7),
		       woken = get_list(compact, 8);
	uint64_t at = 0, count = 0;
	bool ok = true;

	while (ws_pb_next_field(&message, &field) && count < MOST_NAMES)
		if (field.number == 5 && field.wire == 2) {
			if (count < WS_COUNT(names))
				names[count] = field;
			count++;
		}
	for (bool all = true; all && waking.bytes < waking.end;) {
		uint64_t step = read_number(&waking, &all), tid = read_number(&woken, &all);

		at += step;
		if (all)
			read_waking(perfetto, convert_time(perfetto, at, clock), tid, 0);
	}
	at = 0;
	while (times.bytes < times.end) {
		uint64_t step = read_number(&times, &ok), state = read_number(&states, &ok),
			 tid = read_number(&next, &ok);
		bool named = true;
		uint64_t name = read_number(&comms, &named);
		const struct field *comm = NULL;

		if (!ok) {
			ws_importer_add_note(perfetto->importer,
					     "A compact list of switches is broken; what stands "
					     "before was read.");
			return;
		}
		at += step;
		if (named && name < count && name < WS_COUNT(names))
			comm = &names[name];
		read_switch(perfetto, cpu, convert_time(perfetto, at, clock), state, tid, comm);
	}
}

void ws_perfetto_read_ftrace(struct perfetto *perfetto, const struct field *bundle)
{
	enum { FTRACE_RAW = 4, CLOCK_RAW = 5 };
	struct message message = ws_pb_open_message(bundle);
	uint64_t cpu = ws_pb_find_field(bundle, 1).value;
	uint32_t clock = 0;
	struct field field;

	if (ws_pb_find_field(bundle, 5).value == FTRACE_RAW)
		clock = CLOCK_RAW;

	if (cpu >= WS_COUNT(perfetto->cpu)) {
		ws_importer_add_note(perfetto->importer,
				     "Events of cores beyond number %zu were left out.",
				     WS_COUNT(perfetto->cpu) - 1);
		return;
	}
	while (ws_pb_next_field(&message, &field)) {
		if (field.wire != 2)
			continue;
		if (field.number == 4)
			read_compact_sched(perfetto, (uint32_t)cpu, &field, clock);
		else if (field.number == 2 &&
			 !read_ftrace_event(perfetto, (uint32_t)cpu, &field, clock))
			perfetto->unknown_packets++;
	}
}

void ws_perfetto_finish_sched(struct perfetto *perfetto)
{
	for (uint32_t cpu = 0; cpu < WS_COUNT(perfetto->cpu); cpu++)
		put_span(perfetto, cpu, WS_NO_TIME, WS_AFTER_UNKNOWN);
}
