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

static bool run_timed(const struct ws_kernel_launch *launch, struct ws_kernel_outcome *outcome)
{
	uint64_t began = ws_read_raw_ns();

	outcome->error = "it could not be run again";
	if (!ws_kernel_runs(launch))
		return false;
	outcome->duration = ws_read_raw_ns() - began;
	return true;
}

/*
 * If caches are not to be flushed, do as Nsight Compute does, since users compare with it: its
 * first pass finds what saving all memory has left there, in the order of addresses: what lies
 * highest, as far as the level-2 cache holds it, and nothing that has to be written back. Further
 * passes find what the pass before has left, and what has been restored. (In between, memory was
 * compared, and other launches were made: a run of the kernel takes the place of the pass before.)
 * Its first pass is that of samples over time, if there is one, else one of counters. Each pass
 * launches as many kernels, WS_KERNEL_RANGES.
 */
static bool prepare_caches(const struct ws_kernel_launch *launch, struct ws_kernel_saved *saved,
			   bool first, struct ws_kernel_outcome *outcome)
{
	bool cold = ws_kernel_flushes_caches();

	if (cold && !ws_kernel_empties_caches(saved, outcome->duration))
		return ws_kernel_flush_caches(saved, &outcome->error);
	if (!run_timed(launch, outcome) || !ws_kernel_restore(saved, &outcome->error))
		return false;
	if (cold)
		ws_kernel_empty_caches(saved);
	else if (first)
		ws_kernel_save_in_vain(saved);
	return true;
}

/* How long the kernel takes, with its launch, and what it changes. */
static bool time_kernel(const struct ws_kernel_launch *launch, struct ws_kernel_saved *saved,
			struct ws_kernel_outcome *outcome)
{
	return run_timed(launch, outcome) && ws_kernel_find_changes(saved, &outcome->error) &&
	       ws_kernel_restore(saved, &outcome->error);
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
		      struct ws_kernel_saved *saved, bool first, bool *more,
		      struct ws_kernel_outcome *outcome)
{
	bool ran = !is_graph(launch) || prepare_caches(launch, saved, first, outcome);
	int rc = ran ? ws_kernel_begin_pass(counters) : 0;

	*more = false;
	if (rc)
		outcome->error = ws_kernel_explain(rc);
	if (!ran || rc)
		return false;
	ran = is_graph(launch) || prepare_caches(launch, saved, first, outcome);
	if (ran) {
		outcome->error = "it could not be run again";
		ran = ws_kernel_runs(launch);
	}
	rc = ws_kernel_end_pass(counters, more);
	if (rc && ran)
		outcome->error = ws_kernel_explain(rc);
	return ran && !rc;
}

static bool make_passes(const struct ws_kernel_launch *launch, struct ws_kernel_counters *counters,
			struct ws_kernel_saved *saved, struct ws_kernel_outcome *outcome)
{
	struct ws_kernel_passes passes = {.own_range = is_graph(launch),
					  .ranges = is_graph(launch) ? 1 : WS_KERNEL_RANGES};
	bool more = true, first = ws_kernel_counts_first(launch);
	int rc = ws_kernel_begin_passes(counters, &passes);

	if (rc) {
		outcome->error = ws_kernel_explain(rc);
		return false;
	}
	if (!outcome->duration && !time_kernel(launch, saved, outcome))
		return false;
	for (uint32_t pass = 0; more; pass++, outcome->passes++) {
		outcome->error = "CUPTI asks for more and more passes";
		if (pass == WS_KERNEL_PASSES_MOST ||
		    (pass && !ws_kernel_restore(saved, &outcome->error)) ||
		    !make_pass(launch, counters, saved, first && !pass, &more, outcome))
			return false;
		/* A kernel may write to other places when it runs again. */
		if (pass < 2 && !ws_kernel_find_changes(saved, &outcome->error))
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

bool ws_kernel_look(const struct ws_kernel_launch *launch, size_t pass,
		    struct ws_kernel_outcome *outcome)
{
	bool ran;

	if (!ws_kernel_begin_look(launch, pass, outcome->duration, &outcome->details))
		return true;
	ran = ws_kernel_runs(launch);
	ws_kernel_end_look(launch, pass);
	outcome->passes++;
	return ran;
}

static bool look_once(const struct ws_kernel_launch *launch, struct ws_kernel_saved *saved,
		      size_t pass, struct ws_kernel_outcome *outcome)
{
	const char **why = &outcome->error;

	if (!prepare_caches(launch, saved, ws_kernel_is_first_look(pass), outcome))
		return false;
	*why = "it could not be run again";
	return !ws_kernel_driver.synchronize() && ws_kernel_look(launch, pass, outcome) &&
	       ws_kernel_restore(saved, why);
}

/*
 * Passes that look into the kernel come before the others: CUPTI samples no program counters while
 * the range profiler is enabled, and, once it has been, attributes samples only to functions that
 * were sampled before.
 */
static bool look_into(const struct ws_kernel_launch *launch, struct ws_kernel_counters *counters,
		      struct ws_kernel_saved *saved, struct ws_kernel_outcome *outcome)
{
	if (!ws_kernel_looks_into(launch) || ws_kernel_pause_counters(counters))
		return true;
	if (!time_kernel(launch, saved, outcome))
		return false;
	for (size_t pass = 0; pass < WS_KERNEL_LOOKS; pass++)
		if (ws_kernel_wants_look(pass) && !look_once(launch, saved, pass, outcome))
			return false;
	return true;
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
	range = ws_max(ws_kernel_count_ranges(counters), (size_t)1) - 1;
	ws_kernel_take_values(counters, image, range, outcome);
	ws_kernel_keep_one(counters, launch, image, range);
}

static void measure_kernel(const struct ws_kernel_launch *launch, struct ws_kernel_outcome *outcome)
{
	struct ws_kernel_counters *counters;
	struct ws_kernel_saved *saved;
	const char *why;
	bool ok;

	counters = ws_kernel_find_counters(launch->context, (int)launch->device, &outcome->error);
	if (!counters)
		return;
	outcome->error = "work of the program before it failed";
	if (ws_kernel_driver.synchronize())
		return;
	saved = ws_kernel_save(launch, &outcome->error);
	if (!saved)
		return;
	ok = look_into(launch, counters, saved, outcome) &&
	     find_shared(launch, saved, &outcome->error) &&
	     make_passes(launch, counters, saved, outcome);
	if (ok)
		evaluate(launch, counters, outcome);
	else
		ws_kernel_find_changes(saved, &why);
	if (!ws_kernel_restore(saved, &why))
		ws_kernel_report(WS_ERROR, "%s: %s: the program's results may be wrong.",
				 launch->symbol, why);
	ws_kernel_free_saved(saved);
	ws_kernel_leave_counters(counters, launch->context);
}

void ws_kernel_leave_counters(struct ws_kernel_counters *counters, void *context)
{
	if (ws_kernel_awaits_more() && !ws_kernel_pause_counters(counters))
		ws_kernel_watch_functions(context);
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
		outcome.passes = outcome.duration = 0;
	ws_kernel_write_result(launch, &outcome);
	ws_kernel_driver.exchange_mode(&mode);
}
