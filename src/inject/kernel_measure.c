/*
 * kernel_measure.c - one launch, pass by pass: save what the kernel may write, run it once for each
 * pass that its metrics need, each time on the same memory contents and with the caches as
 * --cache-control asks, and leave everything as it was for the program's own launch, which follows.
 * Whatever fails, that launch runs once on the memory that the program gave it.
 */
#include "inject/kernel.h"

enum { CAPTURE_RELAXED = 2 };

/* Kernels that wait for other kernels, which are not repeated with them. */
static const char *const partners[] = {"ncclDevKernel", "ncclKernel", "nvshmem",
				       "_Z13ncclDevKernel", "_Z19ncclDevKernel"};

const char *ws_kernel_find_refusal(const struct ws_kernel_launch *launch)
{
	for (size_t i = 0; i < WS_COUNT(partners); i++)
		if (strstr(launch->symbol, partners[i]))
			return "it works together with kernels of other GPUs or processes, which "
			       "would not be repeated with it";
	return NULL;
}

bool ws_kernel_runs(const struct ws_kernel_launch *launch)
{
	if (ws_kernel_launch_again(launch))
		return false;
	if (launch->per_thread && !launch->stream)
		return !ws_kernel_driver.synchronize();
	return !ws_kernel_driver.wait_stream(launch->stream);
}

bool ws_kernel_flushes_caches(void)
{
	return strcmp(ws_kernel_settings.cache_control, "none") != 0;
}

/*
 * If caches are not to be flushed, do as Nsight Compute does, since users compare with it: the
 * first pass finds only the allocations that the kernel writes, which have just been restored;
 * further passes find what the pass before has left, too. (Saving and comparing memory have filled
 * the caches with other data, so a run of the kernel takes the place of the pass before.)
 */
static bool prepare_caches(const struct ws_kernel_launch *launch, struct ws_kernel_saved *saved,
			   uint32_t pass, const char **why)
{
	if (ws_kernel_flushes_caches())
		return ws_kernel_flush_caches(saved, why);
	if (pass || !ws_kernel_flush_caches(saved, why)) {
		*why = "it could not be run again";
		if (!ws_kernel_runs(launch))
			return false;
	}
	return ws_kernel_restore_allocations(saved, why);
}

/* Without flushes, find out before the first pass what the kernel changes. */
static bool prepare_passes(const struct ws_kernel_launch *launch, struct ws_kernel_saved *saved,
			   const char **why)
{
	*why = "it could not be run again";
	return ws_kernel_flushes_caches() ||
	       (ws_kernel_runs(launch) && ws_kernel_find_changes(saved, why) &&
		ws_kernel_restore(saved, why));
}

/* Before the range profiler counts anything. */
static bool find_shared(const struct ws_kernel_launch *launch, struct ws_kernel_saved *saved,
			const char **why)
{
	*why = "it could not be run again";
	return !ws_kernel_lacks_shared(launch) ||
	       (ws_kernel_run_for_shared(launch) && ws_kernel_find_changes(saved, why) &&
		ws_kernel_restore(saved, why));
}

static bool is_graph(const struct ws_kernel_launch *launch)
{
	return launch->call == WS_KERNEL_LAUNCH_GRAPH;
}

/*
 * To begin a pass takes 20 ms, in which the GPU comes to rest. What prepares the caches comes after
 * that, as a range of its own, so that the kernel finds the GPU at work. A range of ours, around a
 * graph, has begun by then: its caches are prepared before.
 */
static bool make_pass(const struct ws_kernel_launch *launch, struct ws_kernel_counters *counters,
		      struct ws_kernel_saved *saved, struct ws_kernel_outcome *outcome, bool *more)
{
	const char **why = &outcome->error;
	bool ran = !is_graph(launch) || prepare_caches(launch, saved, outcome->passes, why);
	int rc = ran ? ws_kernel_begin_pass(counters) : 0;

	*more = false;
	if (rc)
		*why = ws_kernel_explain(rc);
	if (!ran || rc)
		return false;
	ran = is_graph(launch) || prepare_caches(launch, saved, outcome->passes, why);
	if (ran) {
		*why = "it could not be run again";
		ran = ws_kernel_runs(launch);
	}
	rc = ws_kernel_end_pass(counters, more);
	if (rc && ran)
		*why = ws_kernel_explain(rc);
	return ran && !rc;
}

static bool make_passes(const struct ws_kernel_launch *launch, struct ws_kernel_counters *counters,
			struct ws_kernel_saved *saved, struct ws_kernel_outcome *outcome)
{
	struct ws_kernel_passes passes = {.own_range = is_graph(launch),
					  .ranges = is_graph(launch) ? 1 : 2};
	bool more = true;
	int rc = ws_kernel_begin_passes(counters, &passes);

	if (rc) {
		outcome->error = ws_kernel_explain(rc);
		return false;
	}
	if (!prepare_passes(launch, saved, &outcome->error))
		return false;
	for (outcome->passes = 0; more; outcome->passes++) {
		outcome->error = "CUPTI asks for more and more passes";
		if (outcome->passes == WS_KERNEL_PASSES_MOST ||
		    (outcome->passes && !ws_kernel_restore(saved, &outcome->error)) ||
		    !make_pass(launch, counters, saved, outcome, &more))
			return false;
		/* A kernel may write to other places when it runs again. */
		if (outcome->passes < 2 && !ws_kernel_find_changes(saved, &outcome->error))
			return false;
	}
	outcome->error = NULL;
	return true;
}

void ws_kernel_take_values(struct ws_kernel_counters *counters, const uint8_t *image, size_t range,
			   struct ws_kernel_outcome *outcome)
{
	const char *const *names, *const *units;
	size_t count = ws_kernel_metric_names(counters, &names, &units);

	outcome->values = ws_kernel_evaluate(counters, image, range);
	outcome->counters = counters;
	if (!outcome->values)
		outcome->error = "CUPTI gives no values for it";
	for (size_t i = 0; i < count && outcome->values; i++)
		if (!strcmp(names[i], "gpu__time_duration.sum") && outcome->values[i] > 0)
			outcome->duration = (uint64_t)outcome->values[i];
}

/* One pass that looks into the kernel: at single instructions, or at its time. */
static bool make_source_pass(const struct ws_kernel_launch *launch, struct ws_kernel_saved *saved,
			     size_t pass, const struct ws_kernel_outcome *outcome)
{
	const char *why;

	if (!ws_kernel_restore(saved, &why) ||
	    !prepare_caches(launch, saved, outcome->passes, &why) ||
	    !ws_kernel_begin_source(launch, pass, outcome->duration))
		return false;
	ws_kernel_runs(launch);
	ws_kernel_end_source(launch, pass);
	return true;
}

/* What fails in these passes costs only what they look at. Those that need a pause come last. */
static void make_source_passes(const struct ws_kernel_launch *launch,
			       struct ws_kernel_counters *counters, struct ws_kernel_saved *saved,
			       struct ws_kernel_outcome *outcome)
{
	size_t passes = ws_kernel_source_passes(launch);
	bool paused = false;

	for (size_t pass = 0; pass < passes; pass++) {
		if (!ws_kernel_wants_source_pass(pass))
			continue;
		if (ws_kernel_needs_pause(pass) && !paused && ws_kernel_pause_counters(counters))
			continue;
		paused |= ws_kernel_needs_pause(pass);
		outcome->passes += make_source_pass(launch, saved, pass, outcome);
	}
	if (paused)
		ws_kernel_resume_counters(counters);
}

/*
 * CUPTI attributes samples to the program's code only if sampling was used in a context before the
 * range profiler was enabled there. So, before the first launch is measured, one run is sampled
 * seldom, and the samples are dropped.
 */
static void prime_sampling(const struct ws_kernel_launch *launch)
{
	enum { LONG_NS = 1000000000 };
	size_t passes = ws_kernel_source_passes(launch);
	struct ws_kernel_saved *saved;
	const char *why;

	if (ws_kernel_has_counters(launch->context))
		return;
	for (size_t pass = 0; pass < passes; pass++) {
		if (!ws_kernel_needs_priming(pass) || !ws_kernel_wants_source_pass(pass) ||
		    ws_kernel_driver.synchronize() || !(saved = ws_kernel_save(launch, &why)))
			continue;
		if (ws_kernel_begin_source(launch, pass, LONG_NS)) {
			ws_kernel_runs(launch);
			ws_kernel_end_source(launch, pass);
		}
		ws_kernel_find_changes(saved, &why);
		if (!ws_kernel_restore(saved, &why))
			ws_kernel_report(WS_ERROR, "%s: %s: the program's results may be wrong.",
					 launch->symbol, why);
		ws_kernel_free_saved(saved);
	}
}

static void evaluate(const struct ws_kernel_launch *launch, struct ws_kernel_counters *counters,
		     struct ws_kernel_outcome *outcome)
{
	const uint8_t *image;
	size_t bytes, range;

	outcome->error = "CUPTI gives no values for it";
	if (ws_kernel_decode(counters))
		return;
	outcome->error = NULL;
	image = ws_kernel_get_image(counters, &bytes);
	range = ws_kernel_count_ranges(counters) > 1;
	ws_kernel_take_values(counters, image, range, outcome);
	ws_kernel_keep_one(counters, launch, image, range);
}

static void measure_kernel(const struct ws_kernel_launch *launch, struct ws_kernel_outcome *outcome)
{
	struct ws_kernel_counters *counters;
	struct ws_kernel_saved *saved;
	const char *why;
	bool ok;

	prime_sampling(launch);
	counters = ws_kernel_get_counters(launch->context, (int)launch->device, &outcome->error);
	if (!counters)
		return;
	outcome->error = "work of the program before it failed";
	if (ws_kernel_driver.synchronize())
		return;
	saved = ws_kernel_save(launch, &outcome->error);
	if (!saved)
		return;
	ok = find_shared(launch, saved, &outcome->error) &&
	     make_passes(launch, counters, saved, outcome);
	if (ok)
		evaluate(launch, counters, outcome);
	else
		ws_kernel_find_changes(saved, &why);
	if (ok && !outcome->error)
		make_source_passes(launch, counters, saved, outcome);
	if (!ws_kernel_restore(saved, &why))
		ws_kernel_report(WS_ERROR, "%s: %s: the program's results may be wrong.",
				 launch->symbol, why);
	ws_kernel_free_saved(saved);
}

void ws_kernel_measure(struct ws_kernel_launch *launch)
{
	struct ws_kernel_outcome outcome = {0};
	int mode = CAPTURE_RELAXED;

	/* Calls that are unsafe while another thread captures a stream are allowed on this one. */
	ws_kernel_driver.exchange_mode(&mode);
	outcome.start = ws_read_raw_ns();
	outcome.error = ws_kernel_find_refusal(launch);
	if (!ws_kernel_begin_measuring())
		outcome.error = "calls of other threads do not return";
	if (!outcome.error)
		measure_kernel(launch, &outcome);
	if (outcome.error)
		outcome.passes = 0;
	ws_kernel_write_result(launch, &outcome);
	ws_kernel_driver.exchange_mode(&mode);
}
