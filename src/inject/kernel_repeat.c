/*
 * kernel_repeat.c - ranges that are repeated within one run of the program (--replay-mode range).
 * When a range begins, the memory of the GPU is kept. The program then makes its calls as ever,
 * while they are recorded (kernel_calls.c). When the range ends, they are made again from the same
 * memory, once for each pass, and memory is brought back to what the program had made of it. A
 * range with a call that cannot be repeated is not measured: the first such call is named.
 */
#include <stdio.h>
#include <stdlib.h>

#include "inject/kernel.h"

static struct {
	struct ws_kernel_launch unit;
	struct ws_kernel_outcome outcome;
	struct ws_kernel_counters *counters;
	struct ws_kernel_versions *versions;
	struct ws_kernel_calls *calls;
	struct ws_kernel_writes writes;
	char refusal[256];
} range;
static _Atomic uint32_t range_lock;
static _Atomic bool recording;

bool ws_kernel_repeats_ranges(void)
{
	return !strcmp(ws_kernel_settings.replay, "range");
}

/* ---- beginning ---- */

static const char *find_hindrance(void)
{
	if (!ws_kernel_can_repeat_calls())
		return "the driver lacks what repeating needs";
	if (ws_kernel_forbids_waiting())
		return "the program has memory that cannot be brought back, or that others write "
		       "to: arrays, or memory of other processes or network cards";
	if (ws_kernel_shares_memory((int)range.unit.device))
		return "the program has managed memory or uses several GPUs";
	return NULL;
}

static bool keep_beginning(void)
{
	range.outcome.error = find_hindrance();
	if (range.outcome.error)
		return false;
	range.counters = ws_kernel_get_counters(range.unit.context, (int)range.unit.device,
						&range.outcome.error);
	if (!range.counters)
		return false;
	range.outcome.error = "work of the program before it failed";
	if (ws_kernel_driver.synchronize())
		return false;
	range.outcome.error = "the GPU has no memory left to save what the range may write";
	range.calls = ws_kernel_make_calls();
	range.versions = ws_kernel_make_versions(&range.unit);
	if (!range.calls || !range.versions || !ws_kernel_keep_version(range.versions, &range.unit))
		return false;
	range.outcome.error = NULL;
	return true;
}

static void free_range(void)
{
	if (range.calls)
		ws_kernel_free_calls(range.calls);
	if (range.versions)
		ws_kernel_free_versions(range.versions);
	free(range.writes.pieces);
	memset(&range, 0, sizeof(range));
}

bool ws_kernel_begin_recording(const struct ws_kernel_launch *unit)
{
	memset(&range, 0, sizeof(range));
	range.unit = *unit;
	range.outcome.start = ws_read_raw_ns();
	ws_kernel_begin_call();
	if (!ws_kernel_begin_measuring())
		range.outcome.error = "calls of other threads do not return";
	else if (keep_beginning())
		atomic_store(&recording, true);
	ws_kernel_end_call();
	if (atomic_load(&recording))
		return true;
	ws_kernel_write_result(&range.unit, &range.outcome);
	free_range();
	return false;
}

/* ---- recording ---- */

bool ws_kernel_is_recording(void)
{
	return atomic_load_explicit(&recording, memory_order_relaxed);
}

static void refuse(const char *why)
{
	if (why && !*range.refusal)
		snprintf(range.refusal, sizeof(range.refusal),
			 "%s: measure it with --replay-mode app-range", why);
}

/* What a kernel of a module that is new may write is kept before it runs for the first time. */
static void prepare_launch(const struct ws_kernel_launch *launch)
{
	int status = 0;

	if (launch->context != range.unit.context)
		refuse("it uses several contexts");
	else if (ws_kernel_driver.is_capturing(launch->stream, &status) || status)
		refuse("a stream is captured in it");
	else if (ws_kernel_find_refusal(launch))
		refuse(ws_kernel_find_refusal(launch));
	else if (!ws_kernel_extend_version(range.versions, launch))
		refuse("a kernel in it writes to memory of the host, or its memory cannot be "
		       "saved");
}

static void record_call(const struct ws_kernel_launch *launch,
			const struct cupti_callback *callback)
{
	const int *result = callback->result;

	if (callback->site == CUPTI_SITE_ENTER) {
		if (launch)
			prepare_launch(launch);
	} else if (result && *result) {
		return;
	} else if (launch) {
		refuse(ws_kernel_add_launch(range.calls, launch, callback->function));
	} else {
		refuse(ws_kernel_add_call(range.calls, callback));
	}
}

void ws_kernel_record_call(const struct ws_kernel_launch *launch,
			   const struct cupti_callback *callback)
{
	int mode = WS_KERNEL_RELAXED;
	bool was = ws_kernel_set_inside(true);

	ws_kernel_driver.exchange_mode(&mode);
	ws_kernel_lock(&range_lock);
	if (ws_kernel_is_recording() && !*range.refusal)
		record_call(launch, callback);
	ws_kernel_unlock(&range_lock);
	ws_kernel_driver.exchange_mode(&mode);
	ws_kernel_set_inside(was);
}

/* ---- passes ---- */

static bool restore(const char **why)
{
	*why = "the memory that it found could not be restored: the driver failed";
	ws_kernel_choose_version(range.versions, 0);
	ws_kernel_mark_written(range.versions, &range.writes);
	return ws_kernel_restore_version(range.versions, NULL) && !ws_kernel_driver.synchronize();
}

static bool repeat(const char **why)
{
	*why = "its calls could not be made again";
	return ws_kernel_repeat_calls(range.calls);
}

/* Find out what it writes; twice, since that may differ. */
static bool try_range(const char **why)
{
	for (int i = 0; i < 2; i++) {
		if (!restore(why) || !repeat(why))
			return false;
		*why = "what it changed could not be found: the driver failed";
		if (!ws_kernel_find_writes(range.versions, &range.writes))
			return false;
	}
	return true;
}

static bool prepare_pass(const char **why)
{
	if (!restore(why))
		return false;
	if (ws_kernel_flushes_caches())
		return ws_kernel_flush_versions(range.versions, &range.unit, why);
	return repeat(why) && restore(why);
}

static bool make_pass(bool *more, const char **why)
{
	int rc = ws_kernel_begin_pass(range.counters), ended;
	bool ran;

	*more = false;
	*why = ws_kernel_explain(rc);
	if (rc)
		return false;
	ran = repeat(why);
	ended = ws_kernel_end_pass(range.counters, more);
	if (ran)
		*why = ws_kernel_explain(ended);
	return ran && !ended;
}

static bool make_passes(const char **why)
{
	struct ws_kernel_passes how = {.own_range = true};
	bool more = true;
	int rc = ws_kernel_begin_passes(range.counters, &how);

	*why = ws_kernel_explain(rc);
	if (rc)
		return false;
	for (range.outcome.passes = 0; more; range.outcome.passes++) {
		*why = "CUPTI asks for more and more passes";
		if (range.outcome.passes == WS_KERNEL_PASSES_MOST || !prepare_pass(why) ||
		    !make_pass(&more, why))
			return false;
	}
	rc = ws_kernel_decode(range.counters);
	*why = ws_kernel_explain(rc);
	return !rc;
}

static void measure_range(void)
{
	const uint8_t *image;
	const char *why;
	size_t bytes;

	if (!try_range(&why) || !make_passes(&why)) {
		range.outcome.error = why;
		return;
	}
	image = ws_kernel_get_image(range.counters, &bytes);
	ws_kernel_take_values(range.counters, image, 0, &range.outcome);
	ws_kernel_keep_one(range.counters, &range.unit, image, 0);
}

/* ---- ending ---- */

static void measure_recorded(void)
{
	range.outcome.error = "work in it failed";
	if (ws_kernel_driver.synchronize())
		return;
	range.outcome.error = "nothing was launched in it";
	if (!ws_kernel_count_calls(range.calls))
		return;
	range.outcome.error = "the GPU has no memory left to save what the range has written";
	if (!ws_kernel_keep_end(range.versions))
		return;
	range.outcome.error = NULL;
	measure_range();
	ws_kernel_return_to_end(range.versions);
}

void ws_kernel_end_recording(void)
{
	ws_kernel_begin_call();
	if (!ws_kernel_begin_measuring())
		refuse("calls of other threads do not return");
	ws_kernel_lock(&range_lock);
	atomic_store(&recording, false);
	ws_kernel_unlock(&range_lock);
	if (*range.refusal)
		range.outcome.error = range.refusal;
	else
		measure_recorded();
	if (range.outcome.error)
		range.outcome.passes = 0;
	ws_kernel_write_result(&range.unit, &range.outcome);
	free_range();
	ws_kernel_end_call();
}
