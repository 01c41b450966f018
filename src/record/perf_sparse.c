/*
 * perf_sparse.c - takes fewer samples on cores where each of them delays other threads too.
 *
 * A sample interrupts its thread for some 20 microseconds, two percent of the time at 1 kHz, most
 * of which the interrupt itself takes on a virtual machine. A thread that works alone loses just
 * that. But where threads pass a lock around, all others wait meanwhile; and a rank of MPI that
 * exchanges short messages delays its peer, which is interrupted as often. So the samples of a core
 * become sparse, one for every fourth period, while its threads switch very often or one of them
 * calls a library without pause.
 *
 * Cores whose clock is an event of their own get another period. No copy of an event that threads
 * have inherited can be changed: there the standby event of the core takes over meanwhile, and the
 * threads' own events are off on that core.
 */
#include <stdio.h>
#include <sys/ioctl.h>

#include "base/choose.h"
#include "record/perf_private.h"

#define CROWD 8000.0	   /* switches a second on a core */
#define ALIGN_MOST 8u	   /* cores: each is interrupted */
#define STAY_NS 200000000u /* a core stays sparse for this long after the last reason */

void ws_perf_want_sparse(struct ws_perf *perf, struct ws_perf_ring *ring, uint64_t until)
{
	if (!perf->options.all_switches)
		ring->sparse_until = ws_max(ring->sparse_until, until);
}

void ws_perf_note_rate(struct ws_perf *perf, struct ws_perf_ring *ring, double rate, uint64_t now)
{
	ring->switch_rate = rate;
	if (rate > CROWD)
		ws_perf_want_sparse(perf, ring, now + STAY_NS);
}

static struct ws_perf_ring *find_ring(struct ws_perf *perf, uint32_t cpu)
{
	for (size_t i = 0; i < perf->set.rings_n; i++)
		if (perf->set.rings[i].cpu == cpu && !perf->set.rings[i].copy)
			return &perf->set.rings[i];
	return NULL;
}

void ws_perf_note_storm(struct ws_perf *perf, uint32_t tid, uint64_t now)
{
	struct ws_perf_thread *thread;
	struct ws_perf_ring *ring;

	if (!perf || !perf->active || perf->over)
		return;
	thread = (void *)(uintptr_t)ws_map_get(&perf->threads, tid, NULL);
	ring = thread ? find_ring(perf, thread->cpu) : NULL;
	if (ring)
		ws_perf_want_sparse(perf, ring, now + STAY_NS);
}

/* ---- what is in force ---- */

unsigned ws_perf_count_periods(struct ws_perf *perf, uint32_t cpu, uint64_t time)
{
	const struct ws_perf_ring *ring =
		perf->ring && perf->ring->cpu == cpu ? perf->ring : find_ring(perf, cpu);

	return ring && ws_perf_is_in_span(&ring->sparse, time) ? WS_PERF_SPARSE : 1;
}

/* Whether the event samples the whole core, now or as the one that stands by. */
static bool can_space_out(const struct ws_perf_event *event)
{
	return event->clock && !event->attr.inherit &&
	       (event->role == WS_PERF_SAMPLE || event->role == WS_PERF_STANDBY);
}

/* Give the core's own clock another period. False when it has none, or the kernel refuses it. */
static bool set_period(const struct ws_perf_set *set, const struct ws_perf_ring *ring, uint64_t ns)
{
	bool done = false;

	for (size_t k = 0; ns && k < ring->fds_n; k++)
		if (ring->fds[k] >= 0 && can_space_out(&set->events[k % set->events_n]))
			done |= !ioctl(ring->fds[k], PERF_EVENT_IOC_PERIOD, &ns);
	return done;
}

/* Have the core's own clock sample instead of the threads', which is the event before it, or these
 * again. */
static void stand_in(const struct ws_perf *perf, const struct ws_perf_ring *ring, bool on)
{
	size_t standby = ws_perf_find_role(&perf->set, WS_PERF_STANDBY);

	if (standby == perf->set.events_n || perf->shifted)
		return;
	ws_perf_switch_on(&perf->set, ring, standby - 1, !on);
	ws_perf_switch_on(&perf->set, ring, standby, on);
}

static uint64_t choose_period(const struct ws_perf *perf, bool sparse)
{
	return (uint64_t)perf->timer_ns * (sparse ? WS_PERF_SPARSE : 1);
}

static void change_core(struct ws_perf *perf, struct ws_perf_ring *ring, uint64_t now, bool sparse)
{
	if (!set_period(&perf->set, ring, choose_period(perf, sparse))) {
		ring->sparse_until = 0;
		if (sparse)
			return;
	}
	stand_in(perf, ring, sparse);
	if (sparse)
		ws_perf_begin_span(&ring->sparse, now);
	else
		ws_perf_end_span(&ring->sparse, now);
}

/* Threads that wait for one another are delayed once, not twice, by two samples at a time: have the
 * clocks of such cores begin anew together. */
static void align_cores(const struct ws_perf *perf)
{
	for (size_t i = 0; i < perf->set.rings_n; i++)
		if (ws_perf_span_lasts(&perf->set.rings[i].sparse))
			set_period(&perf->set, &perf->set.rings[i], choose_period(perf, true));
}

void ws_perf_pace_samples(struct ws_perf *perf, uint64_t now)
{
	bool changed = false;

	if (!perf || !perf->active || !perf->from || perf->over)
		return;
	for (size_t i = 0; i < perf->set.rings_n; i++) {
		struct ws_perf_ring *ring = &perf->set.rings[i];
		bool wanted = now < ring->sparse_until;

		if (wanted == ws_perf_span_lasts(&ring->sparse))
			continue;
		change_core(perf, ring, now, wanted);
		changed |= wanted;
	}
	if (changed && perf->set.rings_n <= ALIGN_MOST)
		align_cores(perf);
}

void ws_perf_take_all_samples(struct ws_perf *perf, uint64_t now)
{
	for (size_t i = 0; i < perf->set.rings_n; i++) {
		struct ws_perf_ring *ring = &perf->set.rings[i];

		ring->sparse_until = 0;
		if (ws_perf_span_lasts(&ring->sparse))
			change_core(perf, ring, now, false);
		ring->sparse.n = 0;
	}
}

void ws_perf_say_sparse(struct ws_perf *perf)
{
	uint64_t most = 0;
	char text[400];

	for (size_t i = 0; i < perf->set.rings_n; i++)
		most = ws_max(most, ws_perf_sum_spans(&perf->set.rings[i].sparse, perf->to));
	if (!most)
		return;
	snprintf(text, sizeof(text),
		 "For up to %.3f s of a core, only one of %d samples was taken, and stands for "
		 "%d periods: threads waited for one another there, or called MPI without pause, "
		 "and each sample delays all of them. --lossless takes all.",
		 (double)most / 1e9, WS_PERF_SPARSE, WS_PERF_SPARSE);
	ws_perf_say(perf, WS_INFO, text);
}
