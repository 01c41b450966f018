/*
 * kernel_ranges.c - ranges of the program as units (--replay-mode app-range): all that is launched
 * from the beginning of a range to its end is counted as one. A range is what lies between
 * cudaProfilerStart and cudaProfilerStop, or an NVTX range that --nvtx-include names. One range is
 * counted at a time; its end waits for the work of its context. With --replay-mode range its calls
 * are repeated instead (kernel_repeat.c).
 */
#include <stdio.h>

#include "inject/kernel.h"

enum opener { NOBODY, PROFILER, PUSHED, STARTED };

static struct {
	enum opener opener;
	bool counted; /* otherwise the filters left it out, or it failed */
	void *context;
	char name[256];
} range;
static _Atomic uint32_t range_lock;
static _Atomic bool is_open, has_begun; /* it is known whether it is counted */
static uint64_t ranges;			/* that have begun */
/* This thread has pushed the range that is open. */
static __thread bool owns_range __attribute__((tls_model("initial-exec")));

bool ws_kernel_measures_ranges(void)
{
	return !strcmp(ws_kernel_settings.replay, "app-range") || ws_kernel_repeats_ranges();
}

static bool uses_nvtx(void)
{
	return *ws_kernel_settings.nvtx_include != 0;
}

static void fill_place(struct ws_kernel_launch *unit)
{
	if (ws_cupti.GetDeviceId)
		ws_cupti.GetDeviceId(unit->context, &unit->device);
	if (ws_cupti.GetContextId)
		ws_cupti.GetContextId(unit->context, &unit->context_uid);
}

static void forget_range(void)
{
	range.opener = NOBODY;
	owns_range = false;
	range.counted = false;
	atomic_store(&has_begun, false);
	atomic_store(&is_open, false);
}

static bool begin_unit(const struct ws_kernel_launch *unit)
{
	if (ws_kernel_repeats_ranges())
		return ws_kernel_begin_recording(unit);
	return ws_kernel_begin_unit(unit);
}

static void end_unit(void)
{
	if (ws_kernel_repeats_ranges())
		ws_kernel_end_recording();
	else
		ws_kernel_end_unit();
}

static void begin_counting(void *context)
{
	struct ws_kernel_launch unit = {
		.call = WS_KERNEL_RANGE, .context = context, .symbol = "", .range = range.name};

	fill_place(&unit);
	unit.number = unit.instance = ranges++;
	range.context = context;
	atomic_store(&has_begun, true);
	if (!ws_kernel_wants_range(&unit))
		return;
	range.counted = begin_unit(&unit);
	if (!range.counted)
		ws_kernel_finish_unit();
}

/* The context may only be made in the range: then its first launch begins it. */
static void open_range(enum opener opener)
{
	void *context = NULL;

	range.opener = opener;
	atomic_store(&is_open, true);
	if (ws_kernel_driver.get_context && !ws_kernel_driver.get_context(&context) && context)
		begin_counting(context);
}

static void close_range(void)
{
	void *context = NULL;
	bool pushed;

	if (range.counted) {
		pushed = ws_kernel_driver.push_context && ws_kernel_driver.pop_context &&
			 !ws_kernel_driver.push_context(range.context);
		end_unit();
		if (pushed)
			ws_kernel_driver.pop_context(&context);
		ws_kernel_finish_unit();
	}
	forget_range();
}

/* Between the two, this thread may call the driver. False when it would have to wait and must not:
 * another thread that begins a range may be waiting for this thread's launch. */
static bool begin_work(bool may_wait, int *mode)
{
	uint32_t was = 0;

	if (may_wait)
		ws_kernel_lock(&range_lock);
	else if (!atomic_compare_exchange_strong(&range_lock, &was, 1))
		return false;
	ws_kernel_set_inside(true);
	*mode = WS_KERNEL_RELAXED;
	ws_kernel_driver.exchange_mode(mode);
	return true;
}

static void end_work(int mode)
{
	ws_kernel_unlock(&range_lock);
	ws_kernel_driver.exchange_mode(&mode);
	ws_kernel_set_inside(false);
}

/* An NVTX range has opened or closed on this thread, or before CUDA was initialised. */
static void follow_nvtx(bool may_wait)
{
	char name[sizeof(range.name)] = "";
	bool pushed, started;
	int mode;

	if (ws_kernel_is_inside() || ws_kernel_is_done())
		return;
	pushed = ws_kernel_is_in_pushed_range(name, sizeof(name));
	started = ws_kernel_is_in_started_range(name, sizeof(name));
	if (!pushed && !started && !atomic_load_explicit(&is_open, memory_order_relaxed))
		return;
	if (!begin_work(may_wait, &mode))
		return;
	if (range.opener == PUSHED && owns_range && !pushed)
		close_range();
	else if (range.opener == STARTED && !started)
		close_range();
	if (range.opener == NOBODY && (pushed || started)) {
		snprintf(range.name, sizeof(range.name), "%s", name);
		owns_range = pushed;
		open_range(pushed ? PUSHED : STARTED);
	}
	end_work(mode);
}

static void handle_nvtx(void)
{
	follow_nvtx(true);
}

void ws_kernel_note_profiler(bool start)
{
	int mode;

	if (uses_nvtx() || ws_kernel_is_done())
		return;
	begin_work(true, &mode);
	if (start && range.opener == NOBODY) {
		snprintf(range.name, sizeof(range.name), "cudaProfilerStart");
		open_range(PROFILER);
	} else if (!start && range.opener == PROFILER) {
		close_range();
	}
	end_work(mode);
}

void ws_kernel_note_launch(const struct cupti_callback *callback)
{
	int mode;

	if (uses_nvtx() && !atomic_load_explicit(&is_open, memory_order_relaxed))
		follow_nvtx(false);
	if (!atomic_load_explicit(&is_open, memory_order_relaxed) ||
	    atomic_load_explicit(&has_begun, memory_order_relaxed) || !begin_work(false, &mode))
		return;
	if (range.opener != NOBODY && !atomic_load(&has_begun))
		begin_counting(callback->context);
	end_work(mode);
}

void ws_kernel_prepare_units(void)
{
	if (ws_kernel_measures_ranges() && uses_nvtx())
		atomic_store_explicit(&ws_nvtx_changed, handle_nvtx, memory_order_release);
}
