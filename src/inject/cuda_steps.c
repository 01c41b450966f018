/*
 * cuda_steps.c - recognises the steps of a program that marks none by its repeating launches. Such
 * steps begin and end a collection (--steps) as ranges that are steps do.
 *
 * A step is recognised by an anchor, a kernel that comes once in each, as `analyze` does: of the
 * names whose launches come at even distances, the one that comes least often. Here it must be
 * chosen while the program runs. A name is even when most of its distances, counted in launches,
 * are within a tenth of the one before, and these cover half of what has been launched since it
 * first came. It is the anchor when it has been the best for a third of all launches. Steps are
 * numbered by its launches from 0, the first before it was chosen included; the step that is wanted
 * must not have begun by then.
 *
 * CUPTI is on from the step before. The call that launches the first wanted anchor begins the
 * collection, and the call that launches the first unwanted one after it ends it, each before the
 * call is made; their correlations tell the recorder what was launched inside.
 */
#include <string.h>
#include <sys/syscall.h>

#include "base/choose.h"
#include "inject/capture.h"
#include "inject/cuda.h"

enum { NAMES = 4096, FEWEST = 4, LOOK_FIRST = 16, TEXT = 512 };

/* The launches of one kernel. */
struct kernel_name {
	uint64_t hash; /* 0: free */
	uint32_t uses;
	uint32_t first, last; /* numbers of launches */
	uint32_t distance;    /* between the last two */
	uint32_t compared, even, covered;
};

static _Atomic bool watching; /* launches are counted */
_Atomic bool ws_cuda_early;   /* CUPTI is to be on before the collection begins */
static uint64_t calls[2][WS_CUDA_CBIDS / 64];

static _Atomic uint32_t lock;
static struct {
	uint32_t launches, next_look;
	struct kernel_name names[NAMES];
	struct kernel_name *candidate, *anchor;
	uint32_t candidate_since;
	bool begun;
} steps;

/* ---- which calls launch ---- */

bool ws_cuda_watches_launches(void)
{
	return atomic_load_explicit(&watching, memory_order_relaxed);
}

void ws_cuda_find_launch_call(int driver, uint32_t cbid, const char *name)
{
	static const char *const prefixes[2][4] = {
		{"cudaLaunchKernel", "cudaLaunchCooperativeKernel", "cudaGraphLaunch",
		 "cudaLaunch_"},
		{"cuLaunchKernel", "cuLaunchCooperativeKernel", "cuGraphLaunch", "cuLaunchGrid"}};

	for (int i = 0; i < 4 && cbid < WS_CUDA_CBIDS; i++)
		if (!strncmp(name, prefixes[driver][i], strlen(prefixes[driver][i])))
			calls[driver][cbid / 64] |= UINT64_C(1) << cbid % 64;
}

bool ws_cuda_is_launch(int driver, uint32_t cbid)
{
	return cbid < WS_CUDA_CBIDS && calls[driver][cbid / 64] >> cbid % 64 & 1;
}

bool ws_cuda_counts_launch(int driver, uint32_t cbid)
{
	return ws_cuda_watches_launches() && ws_cuda_is_launch(driver, cbid);
}

bool ws_cuda_watch_launches(void)
{
	const struct ws_capture_state *capture = &ws_rt->arena->capture;

	/* There calls are counted by callbacks that count in the same place. */
	if (ws_cuda_api_by_callback || !ws_capture_wants(WS_TRIGGER_STEPS) || *capture->range)
		return false;
	atomic_store(&watching, true);
	return true;
}

/* ---- names ---- */

static uint64_t hash_name(const char *text)
{
	uint64_t hash = UINT64_C(14695981039346656037);

	for (int i = 0; i < TEXT && text[i]; i++)
		hash = (hash ^ (uint8_t)text[i]) * UINT64_C(1099511628211);
	return ws_or(hash, 1);
}

static struct kernel_name *find_name(uint64_t hash)
{
	for (uint32_t i = 0; i < NAMES; i++) {
		struct kernel_name *name = &steps.names[(hash + i) % NAMES];

		if (name->hash == hash)
			return name;
		if (!name->hash) {
			name->hash = hash;
			return name;
		}
	}
	return NULL;
}

static void count_use(struct kernel_name *name)
{
	uint32_t now = steps.launches, distance = now - name->last;
	uint32_t difference = ws_max(distance, name->distance) - ws_min(distance, name->distance);

	if (!name->uses)
		name->first = now;
	if (name->uses > 1) {
		name->compared++;
		if (difference <= name->distance / 10) {
			name->even++;
			name->covered += distance;
		}
	}
	if (name->uses)
		name->distance = distance;
	name->last = now;
	name->uses++;
}

/* ---- the anchor ---- */

static bool is_even(const struct kernel_name *name)
{
	return name->uses >= FEWEST && name->even * 10 >= name->compared * 7 &&
	       name->covered * UINT64_C(2) >= steps.launches - name->first;
}

/* Of the even names that come least often, take the first: it begins the step. In the current step
 * some have come once more than others. */
static struct kernel_name *find_best_name(void)
{
	struct kernel_name *best = NULL;
	uint32_t least = UINT32_MAX;

	for (uint32_t i = 0; i < NAMES; i++)
		if (steps.names[i].hash && is_even(&steps.names[i]))
			least = ws_min(least, steps.names[i].uses);
	for (uint32_t i = 0; i < NAMES; i++) {
		struct kernel_name *name = &steps.names[i];

		if (name->hash && is_even(name) && name->uses - least <= 1 &&
		    (!best || name->first < best->first))
			best = name;
	}
	return best;
}

static void stop_watching(void)
{
	atomic_store(&watching, false);
}

static void describe_steps(enum ws_step_source source, const char *text, uint32_t number)
{
	struct ws_capture_state *capture = &ws_rt->arena->capture;
	size_t len = ws_min(strlen(text), sizeof(capture->step_text) - 1);

	memcpy(capture->step_text, text, len);
	capture->step_text[len] = 0;
	atomic_store(&capture->step_begun, number);
	atomic_store(&capture->step_last, number);
	atomic_store(&capture->step_source, source);
}

/* Look for an anchor. This is done now and then and costs as much as a few launches. */
static void look_for_anchor(void)
{
	struct kernel_name *best = find_best_name();

	steps.next_look = steps.launches + steps.launches / 16 + LOOK_FIRST;
	if (best != steps.candidate) {
		steps.candidate = best;
		steps.candidate_since = steps.launches;
	}
	if (!best || steps.launches - steps.candidate_since < steps.launches / 3)
		return;
	steps.anchor = best;
	if (best->uses <= ws_rt->arena->capture.steps_first)
		return;
	describe_steps(WS_STEP_TOO_LATE, "", best->uses - 1);
	stop_watching();
}

/* ---- steps ---- */

enum effect { NOTHING, BEGIN, END };

static enum effect count_step(const char *text, uint32_t correlation)
{
	struct ws_capture_state *capture = &ws_rt->arena->capture;
	uint32_t number = steps.anchor->uses - 1;

	if (!steps.begun && number == capture->steps_first) {
		steps.begun = true;
		describe_steps(WS_STEP_LAUNCHES, text, number);
		capture->begin_call = correlation;
		return BEGIN;
	}
	if (steps.begun && number > capture->steps_last) {
		capture->end_call = correlation;
		stop_watching();
		return END;
	}
	return NOTHING;
}

static enum effect count_launch(const char *text, uint32_t correlation)
{
	uint32_t source = atomic_load(&ws_rt->arena->capture.step_source);
	struct kernel_name *name;

	if (source == WS_STEP_RANGE || source == WS_STEP_OUTERMOST) {
		stop_watching(); /* the program marks its steps */
		return NOTHING;
	}
	steps.launches++;
	name = find_name(hash_name(text));
	if (name)
		count_use(name);
	if (!steps.anchor && steps.launches >= steps.next_look)
		look_for_anchor();
	if (!steps.anchor || steps.anchor != name || !ws_cuda_watches_launches())
		return NOTHING;
	return count_step(text, correlation);
}

static void lock_steps(void)
{
	while (atomic_exchange_explicit(&lock, 1, memory_order_acquire))
		ws_raw_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
}

static void unlock_steps(void)
{
	atomic_store_explicit(&lock, 0, memory_order_release);
}

/* The next anchor may begin the collection. */
static bool is_next(void)
{
	return steps.anchor && !steps.begun &&
	       steps.anchor->uses == ws_rt->arena->capture.steps_first;
}

static void begin_launch(const struct cupti_callback *callback)
{
	/* Graphs have no names, so all of them count as one. */
	const char *name = callback->symbol ? callback->symbol : callback->function;
	enum effect effect = NOTHING;

	if (!callback->symbol && name && !strstr(name, "GraphLaunch"))
		return;
	lock_steps();
	if (ws_cuda_watches_launches() && name)
		effect = count_launch(name, callback->correlation);
	unlock_steps();
	if (effect == BEGIN)
		ws_capture_open();
	else if (effect == END)
		ws_capture_close();
}

void ws_cuda_count_launch(const struct cupti_callback *callback)
{
	struct ws_cuda_open *open = &ws_cuda_open;
	bool early;

	if (callback->site == CUPTI_SITE_ENTER) {
		if (!open->calls++)
			begin_launch(callback);
		return;
	}
	if (!open->calls || --open->calls)
		return;
	lock_steps();
	early = is_next() && ws_cuda_watches_launches();
	unlock_steps();
	if (early && !atomic_exchange(&ws_cuda_early, true))
		ws_cuda_switch_early();
}
