/*
 * rt_capture.c - ranges of the program that begin and end collections; see struct ws_capture_state
 * in ring.h.
 *
 * Everything is done by the thread that opens or closes the range, before its call returns: what it
 * does next is recorded, or is not. The recorder learns of it by the phase and the times beside it,
 * which are there before anything is recorded.
 */
#include <linux/futex.h>

#include "inject/capture.h"
#include "inject/rt_state.h"

enum { SLICE_MS = 20 }; /* one step of a wait, after which a recorder that has died is noticed */

void (*_Atomic ws_capture_switched)(bool on);

static uint32_t get_phase(uint32_t state)
{
	return state % WS_CAPTURE_PHASES;
}

static uint32_t count_open(uint32_t state)
{
	return state / WS_CAPTURE_PHASES;
}

/* From one phase to another; the count stays. False when it is another phase by now. */
static bool change_phase(struct ws_capture_state *capture, uint32_t from, uint32_t to)
{
	uint32_t old = atomic_load(&capture->state);

	while (get_phase(old) == from)
		if (atomic_compare_exchange_weak(&capture->state, &old, old - from + to))
			return true;
	return false;
}

static void wake_everyone(_Atomic uint32_t *word)
{
	if (!ws_rt_kept.sandboxed)
		ws_raw_syscall(SYS_futex, (long)word, FUTEX_WAKE, 1 << 30, 0, 0, 0);
}

static void switch_hooks(bool on)
{
	void (*switched)(bool) = atomic_load(&ws_capture_switched);

	atomic_store(&ws_rt->arena->collecting, on);
	wake_everyone(&ws_rt->arena->collecting);
	if (switched)
		switched(on);
}

/* The phase is BEGINNING or ENDING, by us. */
static void end_collecting(struct ws_arena *arena, uint64_t time)
{
	struct ws_capture_state *capture = &arena->capture;

	/* What ends from here on and began in the collection is still recorded. */
	atomic_store(&arena->idle, 0);
	atomic_store(&arena->ended_at, time);
	capture->end = time;
	switch_hooks(false);
	change_phase(capture, WS_CAPTURE_ENDING, WS_CAPTURE_ENDED);
	wake_everyone(&capture->state);
	wake_recorder(arena);
}

/* The phase is BEGINNING, by us. */
static void begin_collecting(struct ws_arena *arena)
{
	struct ws_capture_state *capture = &arena->capture;

	capture->begin_pid = (uint32_t)ws_raw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
	capture->begin_tid = (uint32_t)ws_raw_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
	capture->begin = ws_rt_read_ticks();
	change_phase(capture, WS_CAPTURE_BEGINNING, WS_CAPTURE_ON);
	switch_hooks(true);
	wake_everyone(&capture->state);
	wake_recorder(arena);
	/* A thread that closed the range meanwhile found no collection to end. */
	if (!count_open(atomic_load(&capture->state)) && capture->ends &&
	    change_phase(capture, WS_CAPTURE_ON, WS_CAPTURE_ENDING))
		end_collecting(arena, ws_rt_read_ticks());
}

static void wait_for_change(struct ws_capture_state *capture, uint32_t state)
{
	struct timespec slice = {0, SLICE_MS * 1000000};

	ws_raw_syscall(SYS_futex, (long)&capture->state, FUTEX_WAIT, (long)state, (long)&slice, 0,
		       0);
}

/* Begin a collection with a range that is open, as soon as one may begin; do nothing if one is
 * already on or may not begin. */
static void begin_when_ready(struct ws_arena *arena)
{
	struct ws_capture_state *capture = &arena->capture;
	uint64_t until = 0;

	for (;;) {
		uint32_t state = atomic_load(&capture->state), phase = get_phase(state);

		if (phase == WS_CAPTURE_OFF || phase == WS_CAPTURE_ON ||
		    atomic_load(&arena->closed))
			return;
		if (phase == WS_CAPTURE_READY) {
			if (change_phase(capture, WS_CAPTURE_READY, WS_CAPTURE_BEGINNING)) {
				begin_collecting(arena);
				return;
			}
			continue;
		}
		if (!until)
			until = ws_read_raw_ns() + WS_CAPTURE_WAIT_MS * UINT64_C(1000000);
		if (ws_rt_kept.sandboxed || ws_read_raw_ns() > until) {
			atomic_fetch_add(&capture->skipped, 1);
			return;
		}
		wait_for_change(capture, state);
	}
}

bool ws_capture_wants(uint32_t trigger)
{
	struct ws_arena *arena = ws_rt->arena;

	return arena && ws_rt->home &&
	       atomic_load_explicit(&arena->capture.triggers, memory_order_relaxed) & trigger &&
	       !atomic_load_explicit(&arena->closed, memory_order_relaxed);
}

bool ws_capture_is_armed(void)
{
	return get_phase(atomic_load_explicit(&ws_rt->arena->capture.state,
					      memory_order_acquire)) != WS_CAPTURE_OFF;
}

void ws_capture_open(void)
{
	struct ws_arena *arena = ws_rt->arena;

	if (!arena || !ws_rt->home)
		return;
	atomic_fetch_add(&ws_rt->home->ranges_open, 1);
	atomic_fetch_add(&arena->capture.state, WS_CAPTURE_PHASES);
	begin_when_ready(arena);
}

/* Count one open range of this process less; false when none is open. */
static bool take_own_range(void)
{
	uint32_t open = atomic_load(&ws_rt->home->ranges_open);

	while (open)
		if (atomic_compare_exchange_weak(&ws_rt->home->ranges_open, &open, open - 1))
			return true;
	return false;
}

void ws_capture_close(void)
{
	struct ws_arena *arena = ws_rt->arena;
	struct ws_capture_state *capture;
	uint32_t old, next;
	uint64_t time;

	if (!arena || !ws_rt->home || !take_own_range())
		return;
	capture = &arena->capture;
	old = atomic_load(&capture->state);
	do {
		if (!count_open(old))
			return;
		next = old - WS_CAPTURE_PHASES;
		if (!count_open(next) && get_phase(next) == WS_CAPTURE_ON && capture->ends)
			next = WS_CAPTURE_ENDING;
		time = ws_rt_read_ticks();
	} while (!atomic_compare_exchange_weak(&capture->state, &old, next));
	if (next == WS_CAPTURE_ENDING && get_phase(old) == WS_CAPTURE_ON)
		end_collecting(arena, time);
}

void ws_capture_turn(_Atomic uint32_t *open, bool on)
{
	uint32_t generation = ws_rt->generation;

	/* What a forked child inherits is of its parent's generation: it has opened nothing. */
	if (on && atomic_exchange(open, generation) != generation) {
		ws_capture_open();
	} else if (!on && atomic_load(open) == generation) {
		atomic_store(open, 0);
		ws_capture_close();
	}
}

/* ---- the program's own calls: warpsight/annotate.h ---- */

static _Atomic uint32_t program_open;

WS_EXPORT void warpsight_collect(int on);
void warpsight_collect(int on)
{
	ws_rt_init();
	if (ws_capture_wants(WS_TRIGGER_PROGRAM))
		ws_capture_turn(&program_open, on);
}

/* ---- cudaProfilerStart and cudaProfilerStop ---- */

static _Atomic uint32_t profiler_open;

void ws_capture_turn_profiler(bool on)
{
	ws_rt_init();
	if (ws_capture_wants(WS_TRIGGER_CUDA))
		ws_capture_turn(&profiler_open, on);
}
