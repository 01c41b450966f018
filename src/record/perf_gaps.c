/*
 * perf_gaps.c - handles records that perf lost, and what is unknown because of that.
 *
 * When a buffer is full the kernel drops records of its core and says how many with the next record
 * that it writes. Between the last record before and that one, any thread may have come to the core
 * or left it, and may have ended. So a span on the core ends with the last record before the gap.
 * What a thread did is unknown from there until its next record, whatever it did before: a thread
 * that slept may have run in the gap. A thread counts as running only if it was seen to run, so no
 * core is shown busier than it can be.
 *
 * Gaps are kept in the order of their ends, and each thread passes them one by one as its records
 * come. Records of some processes wait (perf_tree.c) and are handled later than those of others.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "record/perf_private.h"
#include "base/choose.h"

#define ROOM 20480u	     /* bytes that hold any record of ours */
#define CHECK_NS 500000000u  /* between two checks of which threads still exist */
#define DOUBT_NS 1000000000u /* a thread that lives this long after a record of its end goes on */

/* ---- the gaps ---- */

void ws_perf_add_gap(struct ws_perf *perf, const struct ws_perf_ring *ring, uint64_t time,
		     uint64_t events)
{
	struct ws_perf_gap gap = {
		.from = ws_min(ring->last, time), .to = time, .cpu = ring->cpu, .events = events};

	if (!gap.from) /* nothing of this core was seen yet */
		gap.from = ws_min(perf->from, time);
	ws_grow(perf->gaps, perf->gaps_cap, perf->gaps_n + 1);
	perf->gaps[perf->gaps_n++] = gap;
}

void ws_perf_put_gaps(struct ws_perf *perf, struct ws_sink *sink)
{
	for (; sink->gaps < perf->gaps_n; sink->gaps++) {
		const struct ws_perf_gap *gap = &perf->gaps[sink->gaps];
		struct ws_row_sched_gap row = {.start = ws_max(gap->from, perf->from),
					       .end = gap->to,
					       .cpu = gap->cpu,
					       .events = gap->events};

		if (perf->to)
			row.end = ws_min(row.end, perf->to);
		if (perf->from && perf->options.switches && row.start < row.end)
			ws_writer_add(sink->writer, WS_TABLE_sched_gap, &row);
	}
}

void ws_perf_note_full(struct ws_perf *perf)
{
	for (size_t i = 0; i < perf->set.rings_n; i++) {
		struct ws_perf_ring *ring = &perf->set.rings[i];
		uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);

		if (head - ring->tail + ROOM > ring->bytes)
			ring->full_at = head;
	}
}

/* A record that the kernel writes after a loss reports it. A buffer into which nothing was written
 * after it had been full never did. */
void ws_perf_add_last_gaps(struct ws_perf *perf, uint64_t time)
{
	for (size_t i = 0; i < perf->set.rings_n; i++) {
		const struct ws_perf_ring *ring = &perf->set.rings[i];

		if (ring->full_at && ring->tail <= ring->full_at)
			ws_perf_add_gap(perf, ring, time, 0);
	}
}

/* ---- threads ---- */

static void pass_gap(struct ws_perf *perf, struct ws_perf_thread *thread,
		     const struct ws_perf_gap *gap)
{
	if (thread->on && (thread->cpu != gap->cpu || thread->on >= gap->to))
		return; /* no records of its own core were lost */
	if (thread->on)
		ws_perf_off(perf, thread, ws_max(gap->from, thread->on), WS_AFTER_UNKNOWN);
	thread->strayed = true;
	thread->off = thread->woken = 0;
	thread->waker = 0;
}

void ws_perf_pass_gaps(struct ws_perf *perf, struct ws_perf_thread *thread, uint64_t time)
{
	ws_perf_pass_pauses(perf, thread, time);
	while (thread->gaps < perf->gaps_n && perf->gaps[thread->gaps].to <= time)
		pass_gap(perf, thread, &perf->gaps[thread->gaps++]);
}

void ws_perf_appear(struct ws_perf *perf, struct ws_perf_thread *thread, uint64_t time,
		    uint32_t cpu)
{
	if (!thread->strayed || thread->on)
		return;
	thread->strayed = false;
	thread->cpu = cpu;
	thread->on = thread->since = ws_max(time - 1, perf->from);
}

/* The time before `time` until which everything on the core is known. */
static uint64_t known_until(const struct ws_perf *perf, uint32_t cpu, uint64_t time)
{
	for (size_t i = perf->gaps_n; i--;)
		if (perf->gaps[i].cpu == cpu && perf->gaps[i].from <= time &&
		    perf->gaps[i].to >= time)
			return perf->gaps[i].from;
	for (size_t i = 0; i < perf->set.rings_n; i++)
		if (perf->set.rings[i].cpu == cpu)
			return ws_min(perf->set.rings[i].last, time);
	return 0;
}

void ws_perf_lose_track(struct ws_perf *perf, struct ws_perf_thread *thread, uint64_t time)
{
	if (!thread->on)
		return;
	ws_perf_off(perf, thread, ws_max(known_until(perf, thread->cpu, time), thread->on),
		    WS_AFTER_UNKNOWN);
	thread->strayed = true;
}

void ws_perf_meet_on(struct ws_perf *perf, struct ws_perf_thread *thread,
		     const struct ws_perf_rec *record)
{
	if (thread->on && thread->cpu != record->cpu)
		ws_perf_lose_track(perf, thread, record->time);
}

/* ---- ends that were lost ---- */

bool ws_perf_has_ended(uint32_t pid, uint32_t tid)
{
	char path[64], text[512], *state;
	FILE *file;

	if (syscall(SYS_tgkill, (int)pid, (int)tid, 0) && errno == ESRCH)
		return true;
	snprintf(path, sizeof(path), "/proc/%u/task/%u/stat", pid, tid);
	file = fopen(path, "re");
	if (!file)
		return errno == ENOENT;
	text[fread(text, 1, sizeof(text) - 1, file)] = 0;
	fclose(file);
	state = strrchr(text, ')');
	return state && state[1] == ' ' && strchr("ZXx", state[2]);
}

uint64_t ws_perf_guess_end(const struct ws_perf *perf, const struct ws_perf_thread *thread,
			   uint64_t time)
{
	for (size_t i = 0; i < perf->gaps_n; i++)
		if (perf->gaps[i].to > thread->heard)
			return ws_min(perf->gaps[i].to, time);
	return time;
}

/* A record of its end came while it still existed; now it is gone. */
static void end_doubted(struct ws_perf *perf, struct ws_perf_thread *thread)
{
	uint64_t end = thread->doubt;

	ws_map_set(&perf->strangers, thread->tid, 1);
	if (!thread->image->id)
		ws_perf_resolve(perf, thread->image, true);
	ws_perf_pass_gaps(perf, thread, end);
	ws_perf_off(perf, thread, ws_max(end, thread->on), WS_AFTER_DEAD);
	ws_perf_gone(perf, thread, end);
}

/* With `ask`, note the thread if it has ended. A thread noted before `horizon`, or with `all` at
 * any time, is gone. */
static void look_at_thread(struct ws_perf *perf, struct ws_perf_thread *thread, uint64_t horizon,
			   bool ask, bool all)
{
	if (ask && !thread->dead && perf->has_ended(thread->image->pid, thread->tid))
		thread->dead = perf->checked;
	if (!thread->dead || (!all && thread->dead >= horizon))
		return;
	thread->image->end_lost = true;
	ws_perf_gone(perf, thread, ws_perf_guess_end(perf, thread, horizon));
}

/* The ids of all known threads; owned by the caller. */
static uint64_t *list_threads(const struct ws_perf *perf, size_t *n)
{
	uint64_t *tids = ws_malloc((perf->threads.count + 1) * sizeof(*tids));

	*n = 0;
	for (size_t i = 0; i < perf->threads.size; i++)
		if (perf->threads.used[i])
			tids[(*n)++] = perf->threads.slots[i].key;
	return tids;
}

static void look_at_doubted(struct ws_perf *perf)
{
	size_t n;
	uint64_t *tids = list_threads(perf, &n);

	perf->doubts = false;
	for (size_t i = 0; i < n; i++) {
		struct ws_perf_thread *thread =
			(void *)(uintptr_t)ws_map_get(&perf->threads, tids[i], NULL);

		if (!thread || !thread->doubt)
			continue;
		if (perf->has_ended(thread->image->pid, thread->tid))
			end_doubted(perf, thread);
		else if (perf->now - thread->doubt < DOUBT_NS)
			perf->doubts = true;
		else
			thread->doubt = 0; /* it goes on */
	}
	free(tids);
}

void ws_perf_find_ended(struct ws_perf *perf, uint64_t horizon, bool all)
{
	uint64_t now = ws_read_raw_ns(), *tids;
	bool ask = all || (perf->gaps_checked != perf->gaps_n && now - perf->checked > CHECK_NS);
	size_t n;

	if (perf->doubts)
		look_at_doubted(perf);
	if (!perf->gaps_n || !perf->has_ended)
		return;
	if (ask) {
		perf->gaps_checked = perf->gaps_n;
		perf->checked = now;
	}
	tids = list_threads(perf, &n);
	for (size_t i = 0; i < n; i++) { /* one that is gone may take others with it */
		struct ws_perf_thread *thread =
			(void *)(uintptr_t)ws_map_get(&perf->threads, tids[i], NULL);

		if (thread)
			look_at_thread(perf, thread, horizon, ask, all);
	}
	free(tids);
}
