/*
 * perf_time.c - how much time a sample stands for.
 *
 * Counting samples, or adding up what their events counted, does not give time: an event on cycles
 * begins with a period of 1 and takes a dozen samples to settle, the kernel takes fewer samples
 * than asked for when its interrupts take long, and each new thread begins in the middle of a
 * period. So whatever event took a sample, it stands for the time that its thread has run since the
 * previous sample, according to the context switches. The time after a thread's last sample, or of
 * a thread without any, becomes a row of its own when the thread ends (WS_SAMPLE_REST): the rows of
 * a thread add up to its time on cores.
 *
 * A clock sample that comes when expected stands for exactly its period, and the time by which it
 * is late is added to the next one: such rows take almost no room in the report. Where two events
 * share a thread, one in user space and one in the kernel, more is left over: each gets its own
 * part, however often it comes.
 *
 * Samples that threads take of themselves (Python by signal) come by another path, earlier or later
 * than perf's records of the same moments. They wait here until perf's records up to them have been
 * read.
 */
#include <stdlib.h>
#include <string.h>

#include "record/perf_private.h"
#include "base/choose.h"

/* ---- what a thread has run ---- */

/* From when the present span counts: not before the collection, nor before the last sample. */
static uint64_t counts_from(const struct ws_perf *perf, const struct ws_perf_thread *thread)
{
	uint64_t from = ws_max(thread->since, thread->on);

	return ws_max(from, perf->from);
}

void ws_perf_ran(const struct ws_perf *perf, struct ws_perf_thread *thread, uint64_t until)
{
	uint64_t from = counts_from(perf, thread);

	if (!perf->from || !thread->on)
		return;
	if (perf->to && until > perf->to)
		until = perf->to;
	if (until > from) {
		thread->ran += until - from;
		thread->since = until;
	}
}

void ws_perf_must_run(const struct ws_perf *perf, struct ws_perf_thread *thread, uint32_t cpu)
{
	if (thread->on || thread->seen || thread->strayed || thread->start >= perf->from)
		return;
	thread->on = perf->from;
	thread->cpu = cpu;
}

/* Records were lost, and this sample shows where the thread is: it runs from now on. Nobody knows
 * how long it ran since its last record, and that time is not given to the sample. */
static uint64_t found_again(struct ws_perf_thread *thread, uint64_t time, uint32_t cpu)
{
	uint64_t paid = thread->ran;

	thread->strayed = false;
	thread->on = thread->since = time;
	thread->cpu = cpu;
	thread->ran = 0;
	return paid;
}

uint64_t ws_perf_time_of(struct ws_perf *perf, struct ws_perf_thread *thread, uint64_t time,
			 uint32_t cpu, uint64_t period_ns)
{
	uint64_t slack = thread->slack, paid;

	ws_perf_pass_gaps(perf, thread, time);
	ws_perf_must_run(perf, thread, cpu);
	if (ws_perf_is_paused(perf, time))
		return period_ns; /* nothing else is known about it */
	if (thread->strayed && !thread->on)
		return found_again(thread, time, cpu);
	ws_perf_ran(perf, thread, time);
	if (slack < period_ns / 4)
		slack = period_ns / 4;
	paid = thread->ran;
	if (period_ns && paid >= period_ns)
		paid = paid - period_ns < slack ? period_ns : paid - slack;
	thread->ran -= paid;
	return paid;
}

/* ---- what is left at a thread's end ---- */

void ws_perf_note_sample(struct ws_perf_thread *thread, const struct ws_row_sample *row)
{
	thread->last_frame = row->frame;
	thread->last_callers = row->callers;
	thread->sampled = true;
}

void ws_perf_settle_time(struct ws_perf *perf, struct ws_perf_thread *thread)
{
	struct ws_sink *sink = thread->image->sink;
	struct ws_row_sample row = {.start = thread->since,
				    .cpu = thread->cpu,
				    .state = WS_STATE_RUNNING,
				    .time = thread->ran,
				    .event = perf->timer_row,
				    .flags = WS_SAMPLE_REST};
	bool wanted = perf->options.sample == WS_SCOPE_SYSTEM || !thread->image->outside;

	thread->ran = 0;
	if (perf->to && row.start > perf->to) /* it has been switched in again since */
		row.start = perf->to;
	if (!row.time || !sink || !perf->options.sample || !wanted)
		return;
	row.thread = ws_perf_thread_id(perf, thread);
	if (perf->timer_is_clock) {
		row.weight = row.time;
		row.flags |= WS_SAMPLE_CLOCK;
	}
	row.frame =
		thread->sampled ? thread->last_frame : ws_stackset_unsampled(ws_stackset_of(sink));
	row.callers = thread->sampled ? thread->last_callers : 0;
	perf->unsampled += thread->sampled ? 0 : row.time;
	perf->ran += row.time;
	ws_perf_describe(perf, sink);
	ws_writer_add(sink->writer, WS_TABLE_sample, &row);
}

/* ---- samples that come by another way ---- */

bool ws_perf_hold_sample(struct ws_perf *perf, uint32_t tid, struct ws_sink *sink,
			 const struct ws_row_sample *row)
{
	if (!perf || !perf->active || perf->over || !perf->options.sample)
		return false;
	ws_grow(perf->held, perf->held_cap, perf->held_n + 1);
	perf->held[perf->held_n++] = (struct ws_perf_held){tid, sink, *row};
	perf->held_mixed = true;
	return true;
}

void ws_perf_expect_held(struct ws_perf *perf, uint64_t horizon)
{
	if (perf->held_n && perf->waiting)
		perf->now = horizon;
	for (size_t i = perf->held_done; i < perf->held_n && perf->waiting; i++) {
		struct ws_perf_thread *thread =
			(void *)(uintptr_t)ws_map_get(&perf->threads, perf->held[i].tid, NULL);

		if (thread && thread->image->waiting_n)
			ws_perf_resolve(perf, thread->image, false);
	}
}

static int by_start(const void *first, const void *second)
{
	uint64_t x = ((const struct ws_perf_held *)first)->row.start,
		 y = ((const struct ws_perf_held *)second)->row.start;

	return ws_compare(x, y);
}

/* They come from the rings of one thread after the other. */
static void sort_held(struct ws_perf *perf)
{
	perf->held_n -= perf->held_done;
	memmove(perf->held, perf->held + perf->held_done, perf->held_n * sizeof(*perf->held));
	perf->held_done = 0;
	if (perf->held_mixed)
		qsort(perf->held, perf->held_n, sizeof(*perf->held), by_start);
	perf->held_mixed = false;
}

static void put_held(struct ws_perf *perf, struct ws_perf_held *held)
{
	struct ws_perf_thread *thread =
		(struct ws_perf_thread *)(uintptr_t)ws_map_get(&perf->threads, held->tid, NULL);

	if (thread && perf->from && held->row.start >= perf->from &&
	    (thread->on || thread->seen || thread->start < perf->from)) {
		thread->slack = ws_max(held->row.weight, perf->timer_ns);
		held->row.time = ws_perf_time_of(perf, thread, held->row.start, held->row.cpu,
						 held->row.weight);
		held->row.weight = held->row.time;
		perf->ran += held->row.time;
		ws_perf_note_sample(thread, &held->row);
	}
	ws_writer_add(held->sink->writer, WS_TABLE_sample, &held->row);
}

void ws_perf_put_held(struct ws_perf *perf, uint64_t until)
{
	if (perf->held_mixed)
		sort_held(perf);
	while (perf->held_done < perf->held_n && perf->held[perf->held_done].row.start <= until)
		put_held(perf, &perf->held[perf->held_done++]);
	if (perf->held_done == perf->held_n)
		perf->held_done = perf->held_n = 0;
}
