/*
 * nvtx_steps.c - steps of the program, known by its NVTX ranges, that begin and end a collection
 * (--steps). Called by nvtx_capture.c before a range opens and after it has closed.
 *
 * A step is a range with the name that was given or, where none was, with a usual name of steps; of
 * nested ranges it is the outermost. Its number is the one at the end of its name; without one,
 * steps are counted from 0 on their thread. Where no such range has been seen, the outermost ranges
 * are counted by their names: the first name to reach the number of the first wanted step marks the
 * steps, each of which lasts until the next of that name.
 */
#include "base/choose.h"
#include "inject/capture.h"
#include "inject/nvtx_state.h"
#include "schema/step_name.h"

enum { RANGES = 64, TRIES = 1000, FEWEST = 2 };

/* Ranges of one name on one thread. */
struct step_ranges {
	uint32_t tid, count, number; /* number: of the last */
	uint64_t hash; /* of the name without its number; 0: any usual name of steps */
};

static _Atomic uint32_t lock;
static struct {
	uint32_t generation, serial;
	uint32_t used;
	struct step_ranges ranges[RANGES];
	struct step_ranges *taken; /* the ranges that have begun the collection */
	bool has_steps;		   /* some range was called a step */
	bool over;
} steps;

/* Fails if a signal handler has interrupted the thread that holds the lock. */
static bool lock_steps(void)
{
	struct ws_capture_state *capture = &ws_rt->arena->capture;

	for (int i = 0; atomic_exchange_explicit(&lock, 1, memory_order_acquire); i++) {
		if (i == TRIES)
			return false;
		ws_raw_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
	}
	if (steps.generation != ws_rt->generation || steps.serial != capture->serial) {
		memset(&steps, 0, sizeof(steps));
		steps.generation = ws_rt->generation;
		steps.serial = capture->serial;
	}
	return true;
}

static void unlock_steps(void)
{
	atomic_store_explicit(&lock, 0, memory_order_release);
}

static uint32_t find_tid(void)
{
	return ws_self ? ws_self->tid : ws_rt_find_tid();
}

static uint64_t hash_name(const char *text, size_t len)
{
	uint64_t hash = UINT64_C(14695981039346656037);

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ (uint8_t)text[i]) * UINT64_C(1099511628211);
	return ws_or(hash, 1);
}

static struct step_ranges *find_ranges(uint32_t tid, uint64_t hash)
{
	for (uint32_t i = 0; i < steps.used; i++)
		if (steps.ranges[i].tid == tid && steps.ranges[i].hash == hash)
			return &steps.ranges[i];
	if (steps.used == RANGES)
		return NULL;
	steps.ranges[steps.used] = (struct step_ranges){.tid = tid, .hash = hash};
	return &steps.ranges[steps.used++];
}

/* For messages: what the last step was, or might have been. */
static void describe_step(enum ws_step_source source, const char *text, size_t len, uint32_t number)
{
	struct ws_capture_state *capture = &ws_rt->arena->capture;

	len = ws_min(len, sizeof(capture->step_text) - 1);
	memcpy(capture->step_text, text, len);
	capture->step_text[len] = 0;
	atomic_store(&capture->step_last, number);
	atomic_store(&capture->step_source, source);
}

static uint32_t number_range(struct step_ranges *ranges, const char *text, size_t len)
{
	if (!ws_read_step_number(text, len, &ranges->number))
		ranges->number = ranges->count;
	ranges->count++;
	return ranges->number;
}

enum effect { NOTHING = 0, BEGIN = 1, END = 2, WATCH = 4 };

static bool is_wanted(uint32_t number)
{
	const struct ws_capture_state *capture = &ws_rt->arena->capture;

	return number >= capture->steps_first && number <= capture->steps_last;
}

static void take_steps(struct step_ranges *ranges)
{
	steps.taken = ranges;
	atomic_store(&ws_rt->arena->capture.step_begun, ranges->number);
}

static unsigned begin_step(struct step_ranges *ranges, const char *text, size_t len)
{
	uint32_t number = number_range(ranges, text, len);

	steps.has_steps = true;
	if (!steps.taken || steps.taken == ranges)
		describe_step(WS_STEP_RANGE, text, ws_step_stem(text, len), number);
	if (!steps.taken && is_wanted(number)) {
		take_steps(ranges);
		return BEGIN | WATCH;
	}
	if (steps.taken == ranges && !is_wanted(number)) {
		steps.over = true;
		return END;
	}
	return WATCH;
}

/* A range without a usual name of steps, with no range around it. */
static unsigned count_outermost(const char *text, size_t len)
{
	size_t stem = ws_step_stem(text, len);
	struct step_ranges *ranges = find_ranges(find_tid(), hash_name(text, stem));
	uint32_t number;

	if (!ranges || (steps.taken && steps.taken != ranges))
		return NOTHING;
	number = number_range(ranges, text, len);
	if (ranges->count <= FEWEST)
		return NOTHING;
	describe_step(WS_STEP_OUTERMOST, text, stem, number);
	if (!steps.taken && number == ws_rt->arena->capture.steps_first) {
		take_steps(ranges);
		return BEGIN;
	}
	if (steps.taken && !is_wanted(number)) {
		steps.over = true;
		return END;
	}
	return NOTHING;
}

/* Libraries have their own domains, which say nothing about the program's steps. "NVTX" is the
 * default domain of Python's nvtx package. */
static bool is_own_domain(const struct nvtx_domain *domain)
{
	return !domain || domain == &ws_nvtx_default ||
	       (domain->name && !strcmp(domain->name, "NVTX"));
}

static bool is_outermost(void)
{
	const struct ws_ring *ring = ws_self ? ws_self->nest[0].ring : NULL;

	return !ring || !atomic_load_explicit(&ring->open_depth, memory_order_relaxed);
}

/* See cuda_steps.c. */
static bool is_known_by_launches(void)
{
	return atomic_load_explicit(&ws_rt->arena->capture.step_source, memory_order_relaxed) ==
	       WS_STEP_LAUNCHES;
}

static unsigned look_at_range(const struct nvtx_domain *domain, const char *text)
{
	const char *wanted = ws_rt->arena->capture.range;
	size_t len = strlen(text);
	struct step_ranges *ranges;

	if (steps.over || is_known_by_launches())
		return NOTHING;
	if (ws_is_step_name(text, len, *wanted ? wanted : NULL)) {
		ranges = find_ranges(find_tid(), 0);
		return ranges ? begin_step(ranges, text, len) : NOTHING;
	}
	if (*wanted || (steps.has_steps && !steps.taken) || !is_own_domain(domain) ||
	    !is_outermost())
		return NOTHING;
	return count_outermost(text, len);
}

bool ws_nvtx_open_step(const struct nvtx_domain *domain, const char *text)
{
	unsigned effect;

	/* Steps are counted from when a collection may begin: before that, a step could not begin
	 * one. */
	if (!text || !ws_capture_is_armed() || !lock_steps())
		return false;
	effect = look_at_range(domain, text);
	unlock_steps();
	if (effect & BEGIN)
		ws_capture_open();
	if (effect & END)
		ws_capture_close();
	return effect & WATCH;
}

void ws_nvtx_close_step(bool any_thread)
{
	bool ends;

	if (!lock_steps())
		return;
	ends = !steps.over && steps.taken && !steps.taken->hash &&
	       (any_thread || steps.taken->tid == find_tid()) &&
	       steps.taken->number >= ws_rt->arena->capture.steps_last;
	steps.over |= ends;
	unlock_steps();
	if (ends)
		ws_capture_close();
}
