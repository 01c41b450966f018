/* capture.c - see capture.h. Everything in the arena may have been overwritten by the program: an
 * impossible phase counts as off. */
#include "record/capture.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/choose.h"
#include "record/chunks.h"

static enum ws_capture_phase get_phase(uint32_t state)
{
	return (enum ws_capture_phase)(state % WS_CAPTURE_PHASES);
}

/* Change the phase and keep the count; wakes the threads that wait for it. */
static void set_phase(struct ws_arena *arena, enum ws_capture_phase phase)
{
	_Atomic uint32_t *state = &arena->capture.state;
	uint32_t old = atomic_load(state);

	while (!atomic_compare_exchange_weak(state, &old, old - old % WS_CAPTURE_PHASES + phase))
		;
	syscall(SYS_futex, state, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void ws_capture_set(struct ws_arena *arena, const struct ws_plan *plan, const char *range,
		    const char *domain)
{
	static const uint32_t triggers[WS_CAPTURES] = {
		[WS_CAPTURE_CUDA] = WS_TRIGGER_CUDA,
		[WS_CAPTURE_NVTX] = WS_TRIGGER_NVTX,
		[WS_CAPTURE_PROGRAM] = WS_TRIGGER_PROGRAM,
		[WS_CAPTURE_STEPS] = WS_TRIGGER_STEPS,
	};
	struct ws_capture_state *capture = &arena->capture;

	snprintf(capture->range, sizeof(capture->range), "%s", ws_text_or(range, ""));
	snprintf(capture->domain, sizeof(capture->domain), "%s", ws_text_or(domain, ""));
	capture->serial++;
	capture->begin_call = capture->end_call = 0;
	capture->steps_first = plan->first_step;
	capture->steps_last = plan->last_step;
	atomic_store(&capture->step_source, WS_STEP_UNKNOWN);
	capture->ends = plan->range_end != WS_RANGE_END_NONE;
	atomic_store(&capture->triggers, triggers[plan->capture]);
}

void ws_capture_arm(struct ws_arena *arena)
{
	set_phase(arena, WS_CAPTURE_READY);
}

void ws_capture_disarm(struct ws_arena *arena)
{
	set_phase(arena, WS_CAPTURE_OFF);
}

void ws_capture_end(struct ws_arena *arena)
{
	set_phase(arena, WS_CAPTURE_ENDED);
}

struct ws_capture_look ws_capture_look(struct ws_arena *arena)
{
	const struct ws_capture_state *capture = &arena->capture;
	enum ws_capture_phase phase = get_phase(atomic_load(&arena->capture.state));
	struct ws_capture_look look = {.begun = phase >= WS_CAPTURE_ON,
				       .ended = phase == WS_CAPTURE_ENDED};

	look.begin = ws_read_shared(capture->begin);
	look.end = ws_read_shared(capture->end);
	return look;
}

bool ws_capture_drop(struct ws_arena *arena, uint32_t ranges)
{
	_Atomic uint32_t *state = &arena->capture.state;
	uint32_t old = atomic_load(state), next, open;

	do {
		open = old / WS_CAPTURE_PHASES;
		open -= ws_min(open, ranges);
		next = open * WS_CAPTURE_PHASES + get_phase(old);
	} while (!atomic_compare_exchange_weak(state, &old, next));
	return !open && get_phase(next) > WS_CAPTURE_READY && get_phase(next) < WS_CAPTURE_ENDED &&
	       ws_read_shared(arena->capture.ends);
}

uint32_t ws_capture_take_skipped(struct ws_arena *arena)
{
	return atomic_exchange(&arena->capture.skipped, 0);
}

struct ws_capture_step ws_capture_look_at_step(struct ws_arena *arena)
{
	struct ws_capture_state *capture = &arena->capture;
	struct ws_capture_step step = {.begun = atomic_load(&capture->step_begun),
				       .last = atomic_load(&capture->step_last),
				       .launches = atomic_load(&capture->step_launches)};
	uint32_t source = atomic_load(&capture->step_source);

	if (source < WS_STEP_SOURCES)
		step.source = (enum ws_step_source)source;
	memcpy(step.text, capture->step_text, sizeof(step.text));
	step.text[sizeof(step.text) - 1] = 0;
	for (char *c = step.text; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 127)
			*c = '?';
	return step;
}
