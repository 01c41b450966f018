/*
 * cuda_steps.c - recognises the steps of a program that does not mark them, by its repeating
 * launches (step_finder.c finds them). Such steps begin and end a collection (--steps), as ranges
 * that mark steps do.
 *
 * CUPTI is turned on one step earlier. The call that launches the first work of the first wanted
 * step begins the collection, and the call that launches the first work after the last wanted step
 * ends it, each before the call is made; their correlations tell the recorder what was launched
 * inside.
 */
#include <string.h>
#include <sys/syscall.h>

#include "base/choose.h"
#include "inject/capture.h"
#include "inject/cuda.h"
#include "inject/step_finder.h"

enum { TEXT = 512 };

static _Atomic bool watching; /* launches are counted */
_Atomic bool ws_cuda_early;   /* CUPTI must be on before the collection begins */
static uint64_t calls[2][WS_CUDA_CBIDS / 64];

static _Atomic uint32_t lock;
static struct ws_step_finder finder;
static bool begun;

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

	/* In that case callbacks count the calls, and they do so in the same place. */
	if (ws_cuda_api_by_callback || !ws_capture_wants(WS_TRIGGER_STEPS) || *capture->range)
		return false;
	finder.wanted = capture->steps_first;
	atomic_store(&watching, true);
	return true;
}

void ws_cuda_forget_launches(void)
{
	atomic_store(&watching, false);
	memset(&finder, 0, sizeof(finder));
	begun = false;
}

/* ---- steps ---- */

static uint64_t hash_name(const char *text)
{
	uint64_t hash = UINT64_C(14695981039346656037);

	for (int i = 0; i < TEXT && text[i]; i++)
		hash = (hash ^ (uint8_t)text[i]) * UINT64_C(1099511628211);
	return ws_or(hash, 1);
}

static void stop_watching(void)
{
	atomic_store(&watching, false);
}

/* For messages; `text`: the kernel that begins each step. */
static void describe_steps(enum ws_step_source source, const char *text)
{
	struct ws_capture_state *capture = &ws_rt->arena->capture;
	size_t len = ws_min(strlen(text), sizeof(capture->step_text) - 1);

	memcpy(capture->step_text, text, len);
	capture->step_text[len] = 0;
	atomic_store(&capture->step_launches, finder.period);
	atomic_store(&capture->step_begun, finder.number);
	atomic_store(&capture->step_last, finder.number);
	atomic_store(&capture->step_source, source);
}

enum effect { NOTHING, BEGIN, END };

/* A recognised step begins with this launch. */
static enum effect count_step(const char *text, uint32_t correlation)
{
	struct ws_capture_state *capture = &ws_rt->arena->capture;

	if (!begun && finder.number == capture->steps_first) {
		begun = true;
		describe_steps(WS_STEP_LAUNCHES, text);
		capture->begin_call = correlation;
		return BEGIN;
	}
	if (begun && finder.number > capture->steps_last) {
		capture->end_call = correlation;
		stop_watching();
		return END;
	}
	return NOTHING;
}

/* What to report if the collection never begins; the first observation of each kind is kept. */
static void describe_what_is_seen(const char *text, enum ws_finder_state before)
{
	static const enum ws_step_source sources[] = {[WS_FINDER_COUNTS] = WS_STEP_AHEAD,
						      [WS_FINDER_KNOWS] = WS_STEP_AHEAD,
						      [WS_FINDER_UNSURE] = WS_STEP_UNSURE,
						      [WS_FINDER_LATE] = WS_STEP_TOO_LATE};
	enum ws_step_source source = sources[finder.state];

	if (source == WS_STEP_AHEAD || (source && finder.state != before))
		describe_steps(source, text);
	if (finder.final)
		stop_watching();
}

static enum effect count_launch(const char *text, uint32_t correlation)
{
	uint32_t source = atomic_load(&ws_rt->arena->capture.step_source);
	enum ws_finder_state before = finder.state;
	enum effect effect = NOTHING;

	if (source == WS_STEP_RANGE || source == WS_STEP_OUTERMOST) {
		stop_watching(); /* the program marks its steps */
		return NOTHING;
	}
	if (!ws_finder_add(&finder, hash_name(text)))
		return NOTHING;
	if (before == WS_FINDER_KNOWS)
		effect = count_step(text, correlation);
	if (!begun)
		describe_what_is_seen(text, before);
	return effect;
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

/* The step that begins next begins the collection. */
static bool is_next(void)
{
	return finder.state == WS_FINDER_KNOWS && !begun && finder.number + 1 == finder.wanted;
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
