/*
 * perf_rows.c - turns perf's records into rows: samples, spans on a core, wake-ups, names, losses.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/perf_private.h"
#include "base/choose.h"
#include "record/python.h"

/* ---- context switches ---- */

void ws_perf_off(struct ws_perf *perf, struct ws_perf_thread *thread, uint64_t time,
		 enum ws_sched_after after)
{
	struct ws_sink *sink = thread->image->sink;
	uint64_t start = ws_max(thread->on, perf->from);
	struct ws_row_sched *row;

	if (!thread->on)
		return;
	ws_perf_ran(perf, thread, time);
	thread->on = 0;
	if (!perf->options.switches)
		return;
	if (!sink || !perf->from || time <= start || (perf->to && start >= perf->to))
		return;
	if (perf->to && time > perf->to) {
		time = perf->to;
		after = WS_AFTER_UNKNOWN;
	}
	ws_perf_put_gaps(perf, sink);
	ws_perf_put_pauses(perf, sink);
	row = ws_writer_row(sink->writer, WS_TABLE_sched, sink->stage[WS_TABLE_sched]);
	*row = (struct ws_row_sched){
		.start = start,
		.end = time,
		.thread = ws_perf_thread_id(perf, thread),
		.cpu = thread->cpu,
		.after = (uint8_t)after,
		.woken = thread->woken && thread->woken <= start ? thread->woken : WS_NO_TIME,
		.waker = thread->woken ? thread->waker : 0};
	thread->woken = 0;
	thread->waker = 0;
	sink->events++;
	perf->switches++;
}

static void switched_in(struct ws_perf *perf, struct ws_perf_thread *thread,
			const struct ws_perf_rec *record)
{
	ws_perf_lose_track(perf, thread, record->time);
	thread->on = thread->since = record->time;
	thread->off = 0;
	thread->strayed = false;
	thread->looked = thread->named = false;
	thread->cpu = record->cpu;
	thread->seen = true;
}

static void switched_out(struct ws_perf *perf, struct ws_perf_thread *thread,
			 const struct ws_perf_rec *record)
{
	bool preempted = record->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT;

	ws_perf_must_run(perf, thread, record->cpu);
	ws_perf_appear(perf, thread, record->time, record->cpu);
	thread->seen = true;
	thread->strayed = false;
	ws_perf_off(perf, thread, record->time, preempted ? WS_AFTER_PREEMPTED : WS_AFTER_BLOCKED);
	if (!preempted)
		ws_perf_put_call(perf, thread, record->time);
	thread->off = preempted ? 0 : record->time;
	thread->woken = preempted ? record->time : 0; /* it is runnable at once */
	thread->waker = 0;
}

/* ---- samples ---- */

#define TOGETHER_NS 1000000u /* between the two records of one sample */

/* The Python frames that came before the sample in its buffer; NULL when there are none. */
static const struct ws_py_stack *python_of(struct ws_perf *perf, struct ws_sink *sink,
					   const struct ws_perf_event *ev,
					   const struct ws_perf_rec *record, uint8_t *gil)
{
	struct ws_perf_ring *ring = perf->ring;
	uint64_t apart;

	if (!ring || !ring->python_tid || !ev->time)
		return NULL;
	apart = record->time > ring->python_time ? record->time - ring->python_time
						 : ring->python_time - record->time;
	if (ring->python_tid != record->tid || apart > TOGETHER_NS) /* its sample got lost */
		return NULL;
	return ws_python_decode_stack(perf->drain->python, sink, record->tid, ring->python,
				      ring->python_n, gil);
}

/* Decode what Python's program in the kernel wrote. */
static void decode_python(struct ws_perf *perf, const struct ws_perf_rec *record)
{
	struct ws_perf_ring *ring = perf->ring;

	if (!ws_python_decode_frames(record->sample.raw, record->sample.raw_size)) {
		ws_python_decode(perf->drain->python, record->sample.raw, record->sample.raw_size);
	} else if (ring) {
		if (ring->python_cap < record->sample.raw_size) {
			ring->python_cap = record->sample.raw_size;
			ring->python = ws_realloc(ring->python, ring->python_cap);
		}
		memcpy(ring->python, record->sample.raw, record->sample.raw_size);
		ring->python_n = record->sample.raw_size;
		ring->python_tid = record->tid;
		ring->python_time = record->time;
	}
}

/* The time that the event itself says the sample stands for; for a counter, from what it
 * has counted per nanosecond so far. The kernel goes on reporting the period that a clock was
 * opened with when it has been given another. */
static uint64_t period_ns(struct ws_perf *perf, const struct ws_perf_event *ev, uint64_t period,
			  const struct ws_perf_rec *record)
{
	if (ev->clock)
		return period * ws_perf_count_periods(perf, record->cpu, record->time);
	return perf->known_cycles ? (uint64_t)((double)period * (double)perf->known_ns /
					       (double)perf->known_cycles)
				  : 0;
}

/* Weight and time of a sample by the event that paces them. */
static void set_time(struct ws_perf *perf, struct ws_perf_thread *thread,
		     const struct ws_perf_event *ev, const struct ws_perf_rec *record,
		     struct ws_row_sample *row)
{
	bool strayed = thread->strayed; /* then the counter has not counted its time */

	row->time = ws_perf_time_of(perf, thread, record->time, record->cpu,
				    period_ns(perf, ev, row->weight, record));
	perf->ran += row->time;
	if (ev->clock) {
		row->weight = row->time;
	} else if (!strayed) {
		perf->known_cycles += row->weight;
		perf->known_ns += row->time;
	}
}

static void sampled(struct ws_perf *perf, struct ws_perf_thread *thread,
		    const struct ws_perf_event *ev, const struct ws_perf_rec *record)
{
	struct ws_sink *sink = thread->image->sink;
	struct ws_row_sample row = {.start = record->time,
				    .cpu = record->cpu,
				    .state = WS_STATE_RUNNING,
				    .weight = record->sample.period,
				    .event = ev->row,
				    .flags = ev->clock ? WS_SAMPLE_CLOCK : 0};
	const struct ws_py_stack *python;

	/* Threads that run Python are sampled in user space by a clock and a signal of their own:
	 * see python.h. */
	if (ev->time && (record->misc & PERF_RECORD_MISC_CPUMODE_MASK) != PERF_RECORD_MISC_KERNEL &&
	    ws_python_covers(perf->drain->python, thread->tid, record->time))
		return;
	row.thread = ws_perf_thread_id(perf, thread);
	python = python_of(perf, sink, ev, record, &row.gil);
	if (python)
		row.weight *= ws_python_bpf_every(perf->drain->python);
	if (ev->time)
		set_time(perf, thread, ev, record, &row);
	ws_perf_stack(perf, thread, ev, record, python, &row);
	if (ev->time)
		ws_perf_note_sample(thread, &row);
	ws_perf_describe(perf, sink);
	*(struct ws_row_sample *)ws_writer_row(sink->writer, WS_TABLE_sample,
					       sink->stage[WS_TABLE_sample]) = row;
	sink->events++;
	perf->samples++;
}

/* sched_waking: `pid` becomes runnable. The thread in whose context that happens wakes it, unless
 * an interrupt does. */
static void waking(struct ws_perf *perf, const struct ws_perf_event *ev,
		   const struct ws_perf_rec *record, struct ws_perf_thread *thread)
{
	enum { IN_INTERRUPT = 0x08 | 0x10 }; /* of common_flags: hard and soft */
	struct ws_perf_thread *by;
	int64_t flags = 0;

	if (thread->on || thread->woken) /* it runs, or was woken already */
		return;
	thread->woken = record->time;
	thread->waker = 0;
	ws_trace_number(ev->format, "common_flags", record->sample.raw, record->sample.raw_size,
			&flags);
	by = flags & IN_INTERRUPT ? NULL
				  : ws_perf_thread(perf, record->pid, record->tid, record->time,
						   perf->options.switches == WS_SCOPE_SYSTEM);
	if (by && by->image->id && by->image->sink == thread->image->sink)
		thread->waker = ws_perf_thread_id(perf, by);
}

/* The thread that a wake-up is about; NULL when it is none of ours. */
static struct ws_perf_thread *wakee(struct ws_perf *perf, const struct ws_perf_event *ev,
				    const struct ws_perf_rec *record)
{
	int64_t tid;

	if (!ws_trace_number(ev->format, "pid", record->sample.raw, record->sample.raw_size,
			     &tid) ||
	    tid <= 0)
		return NULL;
	return (struct ws_perf_thread *)(uintptr_t)ws_map_get(&perf->threads, (uint64_t)tid, NULL);
}

static void traced(struct ws_perf *perf, struct ws_perf_thread *thread,
		   const struct ws_perf_event *ev, const struct ws_perf_rec *record)
{
	struct ws_sink *sink = thread ? thread->image->sink : perf->main;
	struct ws_row_ftrace row = {.start = record->time,
				    .thread = thread ? ws_perf_thread_id(perf, thread) : 0,
				    .cpu = record->cpu};
	struct ws_text text = {0};

	ws_trace_text(ev->format, record->sample.raw, record->sample.raw_size, &text);
	row.name = ws_sink_string(sink, ev->name);
	row.text = ws_writer_passing_string(sink->writer, text.text, text.len);
	ws_text_free(&text);
	ws_writer_add(sink->writer, WS_TABLE_ftrace, &row);
	sink->events++;
}

/* ---- one record ---- */

static bool in_collection(const struct ws_perf *perf, uint64_t time)
{
	return perf->from && time >= perf->from && (!perf->to || time <= perf->to);
}

/* The thread that a record makes a row for; NULL when it makes none. */
static struct ws_perf_thread *subject(struct ws_perf *perf, const struct ws_perf_event *ev,
				      const struct ws_perf_rec *record)
{
	bool any = false;

	if (record->type == PERF_RECORD_SAMPLE && ev->role == WS_PERF_WAKE)
		return wakee(perf, ev, record);
	if (record->type == PERF_RECORD_SAMPLE) {
		any = perf->options.sample == WS_SCOPE_SYSTEM && ev->role == WS_PERF_SAMPLE;
		if (!in_collection(perf, record->time))
			return NULL;
	} else {
		any = perf->options.switches == WS_SCOPE_SYSTEM;
	}
	return ws_perf_thread(perf, record->pid, record->tid, record->time, any);
}

static uint32_t name_syscall(struct ws_sink *sink, uint32_t number)
{
	const char *name = ws_name_syscall(number);
	char other[32];

	if (name)
		return ws_sink_string(sink, name);
	snprintf(other, sizeof(other), "syscall %u", number);
	return ws_sink_string(sink, other);
}

/* A system call has returned. It belongs to the collection even if it began before. */
static void put_syscall(struct ws_perf *perf, struct ws_perf_thread *thread,
			const struct ws_perf_rec *record, const struct ws_syscall_record *call)
{
	struct ws_sink *sink = thread->image->sink;
	struct ws_row_syscall row = {.start = record->time - ws_min(call->duration, record->time),
				     .end = record->time,
				     .number = call->number,
				     .result = call->result};

	row.thread = ws_perf_thread_id(perf, thread);
	row.name = name_syscall(sink, call->number);
	ws_writer_add(sink->writer, WS_TABLE_syscall, &row);
	sink->events++;
}

static void note_call(struct ws_perf *perf, struct ws_perf_thread *thread,
		      const struct ws_perf_rec *record)
{
	struct ws_syscall_record made;
	struct ws_wait_call call;

	if (ws_syscalls_read(record->sample.raw, record->sample.raw_size, &made)) {
		put_syscall(perf, thread, record, &made);
		return;
	}
	if (ws_wait_calls_read(record->sample.raw, record->sample.raw_size, &call))
		ws_perf_note_call(thread, &call, record->time);
}

static void about_thread(struct ws_perf *perf, const struct ws_perf_event *ev,
			 const struct ws_perf_rec *record, const void *rec, size_t size)
{
	struct ws_perf_thread *thread = subject(perf, ev, record);

	if (!thread) {
		if (record->type == PERF_RECORD_SAMPLE && ev->role == WS_PERF_FTRACE &&
		    in_collection(perf, record->time))
			traced(perf, NULL, ev, record);
		return;
	}
	/* A pause saves the target nothing when other programs do the switching. */
	if (record->type != PERF_RECORD_SAMPLE && perf->ring && !thread->image->outside)
		perf->ring->switches++;
	if ((record->type != PERF_RECORD_SAMPLE || ev->role == WS_PERF_WAKE) &&
	    ws_perf_is_paused(perf, record->time))
		return; /* only some cores recorded it, since cores are turned off one by one */
	if (thread->image->target &&
	    !thread->image->exec) /* the recorder's own code, before the target starts */
		return;
	if (!thread->image->id &&
	    (thread->image->waiting_n || !ws_perf_resolve(perf, thread->image, false))) {
		ws_perf_wait(perf, thread->image, rec, size, record->time);
		return;
	}
	ws_perf_pass_gaps(perf, thread, record->time);
	thread->heard = record->time;
	if (!ev || ev->role != WS_PERF_WAKE) /* which its waker's core writes */
		ws_perf_meet_on(perf, thread, record);
	if (record->type != PERF_RECORD_SAMPLE)
		record->misc &PERF_RECORD_MISC_SWITCH_OUT ? switched_out(perf, thread, record)
							  : switched_in(perf, thread, record);
	else if (ev->role == WS_PERF_WAKE)
		waking(perf, ev, record, thread);
	else if (ev->role == WS_PERF_FTRACE)
		traced(perf, thread, ev, record);
	else if (ev->role == WS_PERF_OUTPUT)
		note_call(perf, thread, record);
	else
		sampled(perf, thread, ev, record);
}

static void exited(struct ws_perf *perf, const struct ws_perf_rec *record, const void *rec,
		   size_t size, bool again)
{
	struct ws_perf_thread *thread =
		(struct ws_perf_thread *)(uintptr_t)ws_map_get(&perf->threads, record->tid, NULL);

	if (!thread || thread->image->pid != record->pid)
		return;
	if (!again && ws_perf_false_end(perf, thread, record->time)) {
		thread->doubt = record->time;
		perf->doubts = true;
		if (!thread->image->outside)
			ws_perf_shift(perf);
		return;
	}
	if (!again && !thread->image->outside)
		ws_perf_lived(perf, thread->start, record->time);
	if (!again && thread->image->waiting_n &&
	    thread->image->threads > 1) { /* in the order of waiting records */
		ws_perf_wait(perf, thread->image, rec, size, record->time);
		return;
	}
	if (!again && !thread->image->id && (thread->on || thread->image->waiting_n))
		ws_perf_resolve(perf, thread->image, true);
	ws_perf_pass_gaps(perf, thread, record->time);
	ws_perf_meet_on(perf, thread, record);
	ws_perf_must_run(perf, thread, record->cpu);
	ws_perf_appear(perf, thread, record->time, record->cpu);
	ws_perf_off(perf, thread, record->time, WS_AFTER_DEAD);
	/* It may be switched out once more in the last steps of its end. */
	ws_map_set(&perf->strangers, thread->tid, 1);
	ws_perf_gone(perf, thread, record->time);
}

static void lost(struct ws_perf *perf, const struct ws_perf_rec *record)
{
	perf->lost += record->lost;
	if (perf->ring && record->type == PERF_RECORD_LOST)
		ws_perf_add_gap(perf, perf->ring, record->time, record->lost);
}

/* Whether a record that the kernel paused an event is about the event that takes no samples. */
static bool is_of_calls(const struct ws_perf *perf, const void *rec, size_t size)
{
	const struct {
		struct perf_event_header header;
		uint64_t time, id;
	} *record = rec;
	uint64_t i = 0;

	if (size >= sizeof(*record))
		i = ws_map_get(&perf->set.by_id, record->id, NULL);
	return i && perf->set.events[i - 1].role == WS_PERF_CALLS;
}

void ws_perf_record(struct ws_perf *perf, const void *rec, size_t size, bool again)
{
	const struct perf_event_header *header = rec;
	const struct ws_perf_event *ev = NULL;
	struct ws_syscall_record made;
	struct ws_wait_call call;
	struct ws_perf_rec record;

	if (header->type == PERF_RECORD_SAMPLE) {
		uint64_t i = ws_map_get(&perf->set.by_id, ws_perf_id(rec, size), NULL);

		if (!i)
			return;
		ev = &perf->set.events[i - 1];
	}
	if (!ws_perf_parse(rec, size, ev ? ev->attr.sample_type : 0, ev ? ev->regs : 0, &record))
		return;
	if (ev && ev->role == WS_PERF_OUTPUT &&
	    !ws_wait_calls_read(record.sample.raw, record.sample.raw_size, &call) &&
	    !ws_syscalls_read(record.sample.raw, record.sample.raw_size, &made)) {
		decode_python(perf, &record);
		return;
	}
	perf->now = record.time;
	switch (record.type) {
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
	case PERF_RECORD_SAMPLE:
		about_thread(perf, ev, &record, rec, size);
		if (perf->ring && ev && ev->time)
			perf->ring->python_tid = 0;
		break;
	case PERF_RECORD_MMAP2:
		ws_perf_mapped(perf, &record);
		break;
	case PERF_RECORD_COMM:
		record.misc &PERF_RECORD_MISC_COMM_EXEC ? ws_perf_exec(perf, &record)
							: ws_perf_rename(perf, &record);
		break;
	case PERF_RECORD_FORK:
		ws_perf_fork(perf, &record);
		break;
	case PERF_RECORD_EXIT:
		exited(perf, &record, rec, size, again);
		break;
	case PERF_RECORD_LOST:
	case PERF_RECORD_LOST_SAMPLES:
		lost(perf, &record);
		break;
	case PERF_RECORD_THROTTLE:
		if (!is_of_calls(perf, rec, size))
			perf->throttled++;
		break;
	default:
		break;
	}
}
