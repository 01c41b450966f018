/*
 * perf_time.c - how much time a sample stands for.
 *
 * Counting samples, or adding up what their events counted, is not time: an event on cycles begins
 * with a period of 1 and takes a dozen samples to find its way, the kernel takes fewer samples than
 * asked for when its interrupts take long, and each new thread begins in the middle of a period. So
 * whatever event took a sample, it stands for what its thread has run since the one before, by the
 * context switches. What a thread ran after its last sample, or without any, becomes a row of its
 * own when the thread ends (WS_SAMPLE_REST): the rows of a thread add up to its time on cores.
 *
 * A sample of the clock that comes as expected stands for its period to the nanosecond, and what it
 * is late is given to the next one: such rows take next to no room in the report. Where two events
 * share a thread, one in user space and one in the kernel, more is left over: each is to have its
 * own part, however often it comes.
 *
 * Samples that threads take of themselves (Python by signal) come by another way, earlier or later
 * than perf's records of the same moments. They wait here until those have been read up to them.
 */
#include <stdlib.h>
#include <string.h>

#include "record/perf_private.h"

/* ---- what a thread has run ---- */

/* From when on the present span counts: neither before the collection nor before the last sample.
 */
static uint64_t counts_from(const struct ws_perf *p, const struct ws_perf_thread *t)
{
	uint64_t from = t->since > t->on ? t->since : t->on;

	return from > p->from ? from : p->from;
}

void ws_perf_ran(const struct ws_perf *p, struct ws_perf_thread *t, uint64_t until)
{
	uint64_t from = counts_from(p, t);

	if (!p->from || !t->on)
		return;
	if (p->to && until > p->to)
		until = p->to;
	if (until > from) {
		t->ran += until - from;
		t->since = until;
	}
}

void ws_perf_must_run(const struct ws_perf *p, struct ws_perf_thread *t, uint32_t cpu)
{
	if (t->on || t->seen || t->start >= p->from)
		return;
	t->on = p->from;
	t->cpu = cpu;
}

/* Records were lost, and this sample shows where the thread is: it runs from now on. What it ran
 * since its last record is known to nobody; the event's own period is the best there is.
 */
static uint64_t found_again(struct ws_perf *p, struct ws_perf_thread *t, uint64_t time,
			    uint32_t cpu, uint64_t period_ns)
{
	uint64_t all = t->ran + period_ns;

	t->strayed = false;
	t->on = t->since = time;
	t->cpu = cpu;
	t->ran = 0;
	p->guessed += period_ns;
	return all;
}

uint64_t ws_perf_time_of(struct ws_perf *p, struct ws_perf_thread *t, uint64_t time, uint32_t cpu,
			 uint64_t period_ns)
{
	uint64_t slack = t->slack, paid;

	ws_perf_must_run(p, t, cpu);
	if (t->strayed && !t->on)
		return found_again(p, t, time, cpu, period_ns);
	ws_perf_ran(p, t, time);
	if (slack < period_ns / 4)
		slack = period_ns / 4;
	paid = t->ran;
	if (period_ns && paid >= period_ns)
		paid = paid - period_ns < slack ? period_ns : paid - slack;
	t->ran -= paid;
	return paid;
}

/* ---- what is left at a thread's end ---- */

void ws_perf_note_sample(struct ws_perf_thread *t, const struct ws_row_sample *row)
{
	t->last_frame = row->frame;
	t->last_callers = row->callers;
	t->sampled = true;
}

void ws_perf_settle_time(struct ws_perf *p, struct ws_perf_thread *t)
{
	struct ws_sink *sink = t->image->sink;
	struct ws_row_sample row = {.start = t->since,
				    .cpu = t->cpu,
				    .state = WS_STATE_RUNNING,
				    .time = t->ran,
				    .event = p->timer_row,
				    .flags = WS_SAMPLE_REST};
	bool wanted = p->o.sample == WS_SCOPE_SYSTEM || !t->image->outside;

	t->ran = 0;
	if (!row.time || !sink || !p->o.sample || !wanted)
		return;
	row.thread = ws_perf_thread_id(p, t);
	if (p->timer_is_clock) {
		row.weight = row.time;
		row.flags |= WS_SAMPLE_CLOCK;
	}
	row.frame = t->sampled ? t->last_frame : ws_stackset_unsampled(ws_stackset_of(sink));
	row.callers = t->sampled ? t->last_callers : 0;
	p->unsampled += t->sampled ? 0 : row.time;
	p->ran += row.time;
	ws_perf_describe(p, sink);
	ws_writer_add(sink->writer, WS_TABLE_sample, &row);
}

/* ---- samples that come by another way ---- */

bool ws_perf_hold_sample(struct ws_perf *p, uint32_t tid, struct ws_sink *sink,
			 const struct ws_row_sample *row)
{
	if (!p || !p->active || p->over || !p->o.sample)
		return false;
	ws_grow(p->held, p->held_cap, p->held_n + 1);
	p->held[p->held_n++] = (struct ws_perf_held){tid, sink, *row};
	p->held_mixed = true;
	return true;
}

void ws_perf_expect_held(struct ws_perf *p, uint64_t horizon)
{
	if (p->held_n && p->waiting)
		p->now = horizon;
	for (size_t i = p->held_done; i < p->held_n && p->waiting; i++) {
		struct ws_perf_thread *t =
			(void *)(uintptr_t)ws_map_get(&p->threads, p->held[i].tid, NULL);

		if (t && t->image->waiting_n)
			ws_perf_resolve(p, t->image, false);
	}
}

static int by_start(const void *a, const void *b)
{
	uint64_t x = ((const struct ws_perf_held *)a)->row.start,
		 y = ((const struct ws_perf_held *)b)->row.start;

	return x < y ? -1 : x > y;
}

/* They come from one thread's ring after the other's. */
static void sort_held(struct ws_perf *p)
{
	p->held_n -= p->held_done;
	memmove(p->held, p->held + p->held_done, p->held_n * sizeof(*p->held));
	p->held_done = 0;
	if (p->held_mixed)
		qsort(p->held, p->held_n, sizeof(*p->held), by_start);
	p->held_mixed = false;
}

static void put_held(struct ws_perf *p, struct ws_perf_held *h)
{
	struct ws_perf_thread *t =
		(struct ws_perf_thread *)(uintptr_t)ws_map_get(&p->threads, h->tid, NULL);

	if (t && p->from && h->row.start >= p->from && (t->on || t->seen || t->start < p->from)) {
		t->slack = h->row.weight > p->timer_ns ? h->row.weight : p->timer_ns;
		h->row.time = ws_perf_time_of(p, t, h->row.start, h->row.cpu, h->row.weight);
		h->row.weight = h->row.time;
		p->ran += h->row.time;
		ws_perf_note_sample(t, &h->row);
	}
	ws_writer_add(h->sink->writer, WS_TABLE_sample, &h->row);
}

void ws_perf_put_held(struct ws_perf *p, uint64_t until)
{
	if (p->held_mixed)
		sort_held(p);
	while (p->held_done < p->held_n && p->held[p->held_done].row.start <= until)
		put_held(p, &p->held[p->held_done++]);
	if (p->held_done == p->held_n)
		p->held_done = p->held_n = 0;
}
