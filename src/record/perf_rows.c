/*
 * perf_rows.c - from perf's records to rows: samples, spans on a core, wake-ups, names, losses.
 */
#include <stdlib.h>
#include <string.h>

#include "record/perf_private.h"
#include "record/python.h"

/* ---- context switches ---- */

void ws_perf_off(struct ws_perf *p, struct ws_perf_thread *t, uint64_t time,
		 enum ws_sched_after after)
{
	struct ws_sink *sink = t->image->sink;
	uint64_t start = t->on < p->from ? p->from : t->on;
	struct ws_row_sched *row;

	if (!t->on)
		return;
	if (time != WS_NO_TIME)
		ws_perf_ran(p, t, time);
	t->on = 0;
	if (!p->o.switches)
		return;
	if (!sink || !p->from || time <= start || (p->to && start >= p->to))
		return;
	if (p->to && time > p->to && time != WS_NO_TIME) {
		time = p->to;
		after = WS_AFTER_UNKNOWN;
	}
	row = ws_writer_row(sink->writer, WS_TABLE_sched, sink->stage[WS_TABLE_sched]);
	*row = (struct ws_row_sched){.start = start,
				     .end = time,
				     .thread = ws_perf_thread_id(p, t),
				     .cpu = t->cpu,
				     .after = (uint8_t)after,
				     .woken = t->woken && t->woken <= start ? t->woken : WS_NO_TIME,
				     .waker = t->woken ? t->waker : 0};
	t->woken = 0;
	t->waker = 0;
	sink->events++;
	p->switches++;
}

static void switched_in(struct ws_perf *p, struct ws_perf_thread *t, const struct ws_perf_rec *r)
{
	ws_perf_off(p, t, WS_NO_TIME, WS_AFTER_UNKNOWN); /* that it was switched out got lost */
	t->on = t->since = r->time;
	t->off = 0;
	t->strayed = false;
	t->looked = false;
	t->cpu = r->cpu;
	t->seen = true;
}

static void switched_out(struct ws_perf *p, struct ws_perf_thread *t, const struct ws_perf_rec *r)
{
	bool preempted = r->misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT;

	ws_perf_must_run(p, t, r->cpu);
	t->seen = true;
	t->strayed = false;
	ws_perf_off(p, t, r->time, preempted ? WS_AFTER_PREEMPTED : WS_AFTER_BLOCKED);
	t->off = preempted ? 0 : r->time;
	t->woken = preempted ? r->time : 0; /* it wants to go on at once */
	t->waker = 0;
}

/* Records of a CPU were lost: who ran there may have left, and any other may have come. */
static void forget_running(struct ws_perf *p, uint32_t cpu)
{
	for (size_t i = 0; i < p->threads.size; i++) {
		struct ws_perf_thread *t =
			p->threads.used[i] ? (void *)(uintptr_t)p->threads.slots[i].value : NULL;

		if (t && t->on && t->cpu == cpu)
			ws_perf_off(p, t, WS_NO_TIME, WS_AFTER_UNKNOWN);
		if (t && !t->on)
			t->strayed = true;
	}
}

/* ---- samples ---- */

#define TOGETHER_NS 1000000u /* between the two records of one sample */

/* The Python frames that stood before the sample in its buffer; NULL when there are none. */
static const struct ws_py_stack *python_of(struct ws_perf *p, struct ws_sink *sink,
					   const struct ws_perf_event *ev,
					   const struct ws_perf_rec *r, uint8_t *gil)
{
	struct ws_perf_ring *ring = p->ring;
	uint64_t apart;

	if (!ring || !ring->python_tid || !ev->time)
		return NULL;
	apart = r->time > ring->python_time ? r->time - ring->python_time
					    : ring->python_time - r->time;
	if (ring->python_tid != r->tid || apart > TOGETHER_NS) /* its sample got lost */
		return NULL;
	return ws_python_told_stack(p->drain->python, sink, r->tid, ring->python, ring->python_n,
				    gil);
}

/* What Python's program in the kernel wrote. */
static void told(struct ws_perf *p, const struct ws_perf_rec *r)
{
	struct ws_perf_ring *ring = p->ring;

	if (!ws_python_told_frames(r->sample.raw, r->sample.raw_size)) {
		ws_python_told(p->drain->python, r->sample.raw, r->sample.raw_size);
	} else if (ring) {
		if (ring->python_cap < r->sample.raw_size) {
			ring->python_cap = r->sample.raw_size;
			ring->python = ws_realloc(ring->python, ring->python_cap);
		}
		memcpy(ring->python, r->sample.raw, r->sample.raw_size);
		ring->python_n = r->sample.raw_size;
		ring->python_tid = r->tid;
		ring->python_time = r->time;
	}
}

/* What the event itself says that the sample stands for; a counter says it by what it has counted
 * a nanosecond so far. */
static uint64_t period_ns(const struct ws_perf *p, const struct ws_perf_event *ev, uint64_t period)
{
	if (ev->clock)
		return period;
	return p->known_cycles
		       ? (uint64_t)((double)period * (double)p->known_ns / (double)p->known_cycles)
		       : 0;
}

/* Weight and time of a sample by the event that paces them. */
static void set_time(struct ws_perf *p, struct ws_perf_thread *t, const struct ws_perf_event *ev,
		     const struct ws_perf_rec *r, struct ws_row_sample *row)
{
	uint64_t guessed = p->guessed;

	row->time = ws_perf_time_of(p, t, r->time, r->cpu, period_ns(p, ev, row->weight));
	p->ran += row->time;
	if (ev->clock) {
		row->weight = row->time;
	} else if (guessed == p->guessed) {
		p->known_cycles += row->weight;
		p->known_ns += row->time;
	}
}

static void sampled(struct ws_perf *p, struct ws_perf_thread *t, const struct ws_perf_event *ev,
		    const struct ws_perf_rec *r)
{
	struct ws_sink *sink = t->image->sink;
	struct ws_row_sample row = {.start = r->time,
				    .cpu = r->cpu,
				    .state = WS_STATE_RUNNING,
				    .weight = r->sample.period,
				    .event = ev->row,
				    .flags = ev->clock ? WS_SAMPLE_CLOCK : 0};
	const struct ws_py_stack *python;

	/* Threads that run Python are sampled in user space by a clock and a signal of their own:
	 * see python.h. */
	if (ev->time && (r->misc & PERF_RECORD_MISC_CPUMODE_MASK) != PERF_RECORD_MISC_KERNEL &&
	    ws_python_covers(p->drain->python, t->tid, r->time))
		return;
	row.thread = ws_perf_thread_id(p, t);
	python = python_of(p, sink, ev, r, &row.gil);
	if (python)
		row.weight *= ws_python_bpf_every(p->drain->python);
	if (ev->time)
		set_time(p, t, ev, r, &row);
	ws_perf_stack(p, t, ev, r, python, &row);
	if (ev->time)
		ws_perf_note_sample(t, &row);
	ws_perf_describe(p, sink);
	*(struct ws_row_sample *)ws_writer_row(sink->writer, WS_TABLE_sample,
					       sink->stage[WS_TABLE_sample]) = row;
	sink->events++;
	p->samples++;
}

/* sched_waking: `pid` becomes runnable, by the thread in whose context that happens unless an
 * interrupt does it. */
static void waking(struct ws_perf *p, const struct ws_perf_event *ev, const struct ws_perf_rec *r,
		   struct ws_perf_thread *t)
{
	enum { IN_INTERRUPT = 0x08 | 0x10 }; /* of common_flags: hard and soft */
	struct ws_perf_thread *by;
	int64_t flags = 0;

	if (t->on || t->woken) /* it runs, or was woken already */
		return;
	t->woken = r->time;
	t->waker = 0;
	ws_trace_number(ev->format, "common_flags", r->sample.raw, r->sample.raw_size, &flags);
	by = flags & IN_INTERRUPT
		     ? NULL
		     : ws_perf_thread(p, r->pid, r->tid, r->time, p->o.switches == WS_SCOPE_SYSTEM);
	if (by && by->image->id && by->image->sink == t->image->sink)
		t->waker = ws_perf_thread_id(p, by);
}

/* The thread that a wake-up is about; NULL when it is none of ours. */
static struct ws_perf_thread *wakee(struct ws_perf *p, const struct ws_perf_event *ev,
				    const struct ws_perf_rec *r)
{
	int64_t tid;

	if (!ws_trace_number(ev->format, "pid", r->sample.raw, r->sample.raw_size, &tid) ||
	    tid <= 0)
		return NULL;
	return (struct ws_perf_thread *)(uintptr_t)ws_map_get(&p->threads, (uint64_t)tid, NULL);
}

static void traced(struct ws_perf *p, struct ws_perf_thread *t, const struct ws_perf_event *ev,
		   const struct ws_perf_rec *r)
{
	struct ws_sink *sink = t ? t->image->sink : p->main;
	struct ws_row_ftrace row = {
		.start = r->time, .thread = t ? ws_perf_thread_id(p, t) : 0, .cpu = r->cpu};
	struct ws_text text = {0};

	ws_trace_text(ev->format, r->sample.raw, r->sample.raw_size, &text);
	row.name = ws_sink_string(sink, ev->name);
	row.text = ws_writer_string(sink->writer, text.text, text.len);
	ws_text_free(&text);
	ws_writer_add(sink->writer, WS_TABLE_ftrace, &row);
	sink->events++;
}

/* ---- one record ---- */

static bool in_collection(const struct ws_perf *p, uint64_t time)
{
	return p->from && time >= p->from && (!p->to || time <= p->to);
}

/* The thread that a record makes a row for; NULL when it makes none. */
static struct ws_perf_thread *subject(struct ws_perf *p, const struct ws_perf_event *ev,
				      const struct ws_perf_rec *r)
{
	bool any = false;

	if (r->type == PERF_RECORD_SAMPLE && ev->role == WS_PERF_WAKE)
		return wakee(p, ev, r);
	if (r->type == PERF_RECORD_SAMPLE) {
		any = p->o.sample == WS_SCOPE_SYSTEM && ev->role == WS_PERF_SAMPLE;
		if (!in_collection(p, r->time))
			return NULL;
	} else {
		any = p->o.switches == WS_SCOPE_SYSTEM;
	}
	return ws_perf_thread(p, r->pid, r->tid, r->time, any);
}

static void about_thread(struct ws_perf *p, const struct ws_perf_event *ev,
			 const struct ws_perf_rec *r, const void *rec, size_t size)
{
	struct ws_perf_thread *t = subject(p, ev, r);

	if (!t) {
		if (r->type == PERF_RECORD_SAMPLE && ev->role == WS_PERF_FTRACE &&
		    in_collection(p, r->time))
			traced(p, NULL, ev, r);
		return;
	}
	if (t->image->target &&
	    !t->image->exec) /* the recorder's own code, before the target begins */
		return;
	if (!t->image->id && (t->image->waiting_n || !ws_perf_resolve(p, t->image, false))) {
		ws_perf_wait(p, t->image, rec, size, r->time);
		return;
	}
	if (r->type != PERF_RECORD_SAMPLE)
		r->misc &PERF_RECORD_MISC_SWITCH_OUT ? switched_out(p, t, r) : switched_in(p, t, r);
	else if (ev->role == WS_PERF_WAKE)
		waking(p, ev, r, t);
	else if (ev->role == WS_PERF_FTRACE)
		traced(p, t, ev, r);
	else
		sampled(p, t, ev, r);
}

static void exited(struct ws_perf *p, const struct ws_perf_rec *r, const void *rec, size_t size,
		   bool again)
{
	struct ws_perf_thread *t =
		(struct ws_perf_thread *)(uintptr_t)ws_map_get(&p->threads, r->tid, NULL);

	if (!t || t->image->pid != r->pid)
		return;
	if (!again && ws_perf_false_end(t, r->time)) {
		if (!t->image->outside)
			ws_perf_shift(p);
		return;
	}
	if (!again && !t->image->outside)
		ws_perf_lived(p, t->start, r->time);
	if (!again && t->image->waiting_n &&
	    t->image->threads > 1) { /* in the order of what waits */
		ws_perf_wait(p, t->image, rec, size, r->time);
		return;
	}
	if (!again && !t->image->id && (t->on || t->image->waiting_n))
		ws_perf_resolve(p, t->image, true);
	ws_perf_must_run(p, t, r->cpu);
	ws_perf_off(p, t, r->time, WS_AFTER_DEAD);
	ws_perf_gone(p, t, r->time);
}

static void lost(struct ws_perf *p, const struct ws_perf_rec *r)
{
	p->lost += r->lost;
	forget_running(p, r->cpu);
}

void ws_perf_record(struct ws_perf *p, const void *rec, size_t size, bool again)
{
	const struct perf_event_header *h = rec;
	const struct ws_perf_event *ev = NULL;
	struct ws_perf_rec r;

	if (h->type == PERF_RECORD_SAMPLE) {
		uint64_t i = ws_map_get(&p->set.by_id, ws_perf_id(rec, size), NULL);

		if (!i)
			return;
		ev = &p->set.events[i - 1];
	}
	if (!ws_perf_parse(rec, size, ev ? ev->attr.sample_type : 0, ev ? ev->regs : 0, &r))
		return;
	if (ev && ev->role == WS_PERF_PYTHON) {
		told(p, &r);
		return;
	}
	p->now = r.time;
	switch (r.type) {
	case PERF_RECORD_SAMPLE:
	case PERF_RECORD_SWITCH:
	case PERF_RECORD_SWITCH_CPU_WIDE:
		about_thread(p, ev, &r, rec, size);
		if (p->ring && ev && ev->time)
			p->ring->python_tid = 0;
		break;
	case PERF_RECORD_MMAP2:
		ws_perf_mapped(p, &r);
		break;
	case PERF_RECORD_COMM:
		r.misc &PERF_RECORD_MISC_COMM_EXEC ? ws_perf_exec(p, &r) : ws_perf_rename(p, &r);
		break;
	case PERF_RECORD_FORK:
		ws_perf_fork(p, &r);
		break;
	case PERF_RECORD_EXIT:
		exited(p, &r, rec, size, again);
		break;
	case PERF_RECORD_LOST:
	case PERF_RECORD_LOST_SAMPLES:
		lost(p, &r);
		break;
	case PERF_RECORD_THROTTLE:
		p->throttled++;
		break;
	default:
		break;
	}
}
