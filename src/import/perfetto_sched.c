/*
 * perfetto_sched.c - switches of threads in Perfetto's traces: ftrace's events of each core, one by
 * one or in the compact form, in which each of their fields is a list of numbers and times are
 * differences.
 *
 * A span is from the switch to a thread to the next switch on that core. What made it runnable
 * comes in another core's bundle, often, so that is kept by thread until the thread is switched to.
 */
#include "import/perfetto.h"

enum { MOST_NAMES = 4096 };

static uint32_t known_thread(struct perfetto *perfetto, uint64_t tid, const struct field *comm)
{
	bool found;
	uint64_t pid = ws_map_get(&perfetto->pids, tid, &found);
	uint32_t id = ws_perfetto_thread(perfetto, found ? pid : tid, tid);

	if (comm && comm->n)
		ws_into_name_thread(perfetto->into, id, (const char *)comm->bytes, comm->n, 5);
	return id;
}

static void put_span(struct perfetto *perfetto, uint32_t cpu, uint64_t end, uint8_t after)
{
	struct ws_row_sched *row;

	if (!perfetto->cpu[cpu].thread)
		return;
	row = ws_into_row(perfetto->into, WS_TABLE_sched);
	*row = (struct ws_row_sched){.start = perfetto->cpu[cpu].start,
				     .end = end,
				     .thread = perfetto->cpu[cpu].thread,
				     .cpu = cpu,
				     .woken = perfetto->cpu[cpu].woken,
				     .waker = perfetto->cpu[cpu].waker,
				     .after = after};
}

/* Bits of prev_state as the kernel prints them; 0 is running: preempted. */
static uint8_t after_of(uint64_t state)
{
	return state == 0 || state == 0x100 || state == 0x800 ? WS_AFTER_PREEMPTED
	       : state & 1				      ? WS_AFTER_SLEEPING
	       : state & 2				      ? WS_AFTER_UNINTERRUPTIBLE
							      : WS_AFTER_UNKNOWN;
}

static void take_switch(struct perfetto *perfetto, uint32_t cpu, uint64_t at, uint64_t state,
			uint64_t next, const struct field *comm)
{
	uint64_t woken, waker = 0;

	put_span(perfetto, cpu, at, after_of(state));
	perfetto->cpu[cpu].start = at;
	perfetto->cpu[cpu].thread = next ? known_thread(perfetto, next, comm) : 0;
	perfetto->cpu[cpu].woken = WS_NO_TIME;
	perfetto->cpu[cpu].waker = 0;
	if (next && ws_map_take(&perfetto->woken, next, &woken)) {
		ws_map_take(&perfetto->wakers, next, &waker);
		if (woken <= at) {
			perfetto->cpu[cpu].woken = woken;
			perfetto->cpu[cpu].waker = (uint32_t)waker;
		}
	}
	ws_into_time(perfetto->into, at);
}

static void take_waking(struct perfetto *perfetto, uint64_t at, uint64_t tid, uint64_t by)
{
	if (!tid || perfetto->woken.n >= WS_INTO_MOST || ws_map_get(&perfetto->woken, tid, NULL))
		return; /* sched_wakeup repeats what sched_waking said */
	ws_map_set(&perfetto->woken, tid, at);
	ws_map_set(&perfetto->wakers, tid, by ? known_thread(perfetto, by, NULL) : 0);
}

static bool take_event(struct perfetto *perfetto, uint32_t cpu, const struct field *event,
		       uint32_t clock)
{
	struct field data = ws_pb_find(event, 4);
	uint64_t at = ws_pb_find(event, 1).value;

	if (clock)
		at = ws_perfetto_time(perfetto, NULL, at, clock);
	if (data.wire == 2 && data.n) {
		struct field comm = ws_pb_find(&data, 5);

		take_switch(perfetto, cpu, at, ws_pb_find(&data, 4).value,
			    ws_pb_find(&data, 6).value, comm.wire == 2 ? &comm : NULL);
		return true;
	}
	for (uint32_t waking = 17; waking <= 20; waking += 3) { /* sched_wakeup, sched_waking */
		data = ws_pb_find(event, waking);
		if (data.wire == 2 && data.n) {
			take_waking(perfetto, at, ws_pb_find(&data, 2).value,
				    ws_pb_find(event, 2).value);
			return true;
		}
	}
	return false;
}

/* ---- the compact form ---- */

static struct message list(const struct field *in, uint32_t number)
{
	struct field field = ws_pb_find(in, number);

	return field.wire == 2 ? ws_pb_inside(&field) : (struct message){0};
}

static uint64_t take_number(struct message *message, bool *ok)
{
	uint64_t v = 0;

	*ok &= message->bytes < message->end && ws_pb_varint(&message->bytes, message->end, &v);
	return v;
}

static void take_compact(struct perfetto *perfetto, uint32_t cpu, const struct field *compact,
			 uint32_t clock)
{
	struct field names[256], field;
	struct message message = ws_pb_inside(compact), times = list(compact, 1),
		       states = list(compact, 2), next = list(compact, 3);
	struct message comms = list(compact, 6), waking = list(compact, 7),
		       woken = list(compact, 8);
	uint64_t at = 0, n = 0;
	bool ok = true;

	while (ws_pb_next(&message, &field) && n < MOST_NAMES)
		if (field.number == 5 && field.wire == 2) {
			if (n < WS_COUNT(names))
				names[n] = field;
			n++;
		}
	for (bool all = true; all && waking.bytes < waking.end;) {
		uint64_t step = take_number(&waking, &all), tid = take_number(&woken, &all);

		at += step;
		if (all)
			take_waking(perfetto,
				    clock ? ws_perfetto_time(perfetto, NULL, at, clock) : at, tid,
				    0);
	}
	at = 0;
	while (times.bytes < times.end) {
		uint64_t step = take_number(&times, &ok), state = take_number(&states, &ok),
			 tid = take_number(&next, &ok);
		bool named = true;
		uint64_t name = take_number(&comms, &named);

		if (!ok) {
			ws_into_note(perfetto->into,
				     "A compact list of switches is broken; what stands "
				     "before was read.");
			return;
		}
		at += step;
		take_switch(perfetto, cpu, clock ? ws_perfetto_time(perfetto, NULL, at, clock) : at,
			    state, tid,
			    named && name < n && name < WS_COUNT(names) ? &names[name] : NULL);
	}
}

void ws_perfetto_ftrace(struct perfetto *perfetto, const struct field *bundle)
{
	enum { FTRACE_RAW = 4, CLOCK_RAW = 5 };
	struct message message = ws_pb_inside(bundle);
	uint64_t cpu = ws_pb_find(bundle, 1).value;
	uint32_t clock = ws_pb_find(bundle, 5).value == FTRACE_RAW ? CLOCK_RAW : 0;
	struct field field;

	if (cpu >= WS_COUNT(perfetto->cpu)) {
		ws_into_note(perfetto->into, "Events of cores beyond number %zu were left out.",
			     WS_COUNT(perfetto->cpu) - 1);
		return;
	}
	while (ws_pb_next(&message, &field)) {
		if (field.wire != 2)
			continue;
		if (field.number == 4)
			take_compact(perfetto, (uint32_t)cpu, &field, clock);
		else if (field.number == 2 && !take_event(perfetto, (uint32_t)cpu, &field, clock))
			perfetto->others++;
	}
}

void ws_perfetto_sched_end(struct perfetto *perfetto)
{
	for (uint32_t cpu = 0; cpu < WS_COUNT(perfetto->cpu); cpu++)
		put_span(perfetto, cpu, WS_NO_TIME, WS_AFTER_UNKNOWN);
}
