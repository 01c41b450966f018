/*
 * data_loading.c - computation waits because data come too late.
 *
 * Time of the path inside a framework's loader, in the training process or in its workers. With w
 * workers, loading for one step takes w times the step's length of their work. This gives the
 * number of workers with which the rest of the step hides it.
 *
 * Workers that are started anew for each short epoch load nothing ahead of it: copying the process
 * and waiting for the first data cost the more, the shorter the epochs are.
 */
#include <math.h>

#include "analyze/rules/rules.h"

enum { LEAST_GENERATIONS = 3 };

static bool is_worker(const struct ws_analysis *analysis, uint32_t thread)
{
	const char *name = ws_find_thread(analysis->model->who, thread)->name;

	return strstr(name, "data_worker") || strstr(name, "DataLoader");
}

static bool is_wait(const struct ws_breakdown_row *row)
{
	return row->cause == WS_CAUSE_IO || row->cause == WS_CAUSE_POLL ||
	       row->cause == WS_CAUSE_LOCK || row->cause == WS_CAUSE_OTHER_WAIT;
}

static bool is_loading(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	switch (row->cause) {
	case WS_CAUSE_GPU_COMPUTE:
	case WS_CAUSE_GPU_COMM:
	case WS_CAUSE_GPU_COPY:
	case WS_CAUSE_LAUNCH:
	case WS_CAUSE_GPU_DELAY:
		return false;
	default:
		break;
	}
	if (row->thread && is_worker(analysis, row->thread))
		return true;
	if (!row->place.loader)
		return false;
	/* With workers, the training process's work to fetch a batch is not loading. Its wait for a
	 * batch is, where it is not known which worker ended the wait. */
	return !analysis->facts.loader_workers || is_wait(row) ||
	       ws_find_thread(analysis->model->who, row->thread)->process !=
		       analysis->model->process;
}

static bool is_elsewhere(const struct ws_analysis *analysis, uint32_t thread)
{
	return ws_find_thread(analysis->model->who, thread)->process != analysis->model->process;
}

/* The same with all that the training process itself does for its workers. */
static bool is_loading_or_starting(const struct ws_analysis *analysis,
				   const struct ws_breakdown_row *row)
{
	return is_loading(analysis, row) ||
	       (row->place.loader && row->thread &&
		(row->cause == WS_CAUSE_CPU || row->cause == WS_CAUSE_CHILD));
}

static bool is_starting(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	return is_loading_or_starting(analysis, row) && row->place.users &&
	       ws_find_thread(analysis->model->who, row->thread)->process ==
		       analysis->model->process;
}

/* Returns whether it is so. */
static bool check_starts(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_facts *facts = &analysis->facts;
	uint64_t cost = ws_sum_path_rows(analysis, is_loading_or_starting);
	const struct ws_breakdown_row *row = ws_find_path_row(analysis, is_starting);
	struct ws_finding *finding;
	struct ws_text place = {0};

	if (!row || !facts->loader_workers ||
	    facts->loader_starts < LEAST_GENERATIONS * facts->loader_workers ||
	    ws_analysis_share(analysis, cost) < 0.05)
		return false;
	ws_put_at_place(analysis, &row->place, &place);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_data_loading, cost, cost);
	finding->title =
		ws_format("The %llu workers of the data loader are started anew about %.0f times: "
			  "%.0f %% of the time goes into that and into waiting for them%s",
			  (unsigned long long)facts->loader_workers,
			  (double)facts->loader_starts / (double)facts->loader_workers,
			  100 * ws_analysis_share(analysis, cost), ws_text_or(place.text, ""));
	ws_point_at(finding, &row->place);
	finding->advice = ws_strdup(
		"Keep the workers from epoch to epoch: persistent_workers=True in PyTorch, with "
		"one loader that is made before the loop; or make epochs longer (a sampler that "
		"goes through the data several times). Each start copies the process, and nothing "
		"is loaded ahead until then.");
	finding->assumption = ws_strdup("workers that are kept have the next data ready");
	ws_finding_add_evidence(finding, "the longest of it", NULL, row->longest.start,
				row->longest.end);
	ws_text_free(&place);
	return true;
}

/* With enough workers, their work costs nothing. They may hand data over in ways that were not
 * recorded, so the estimate is never less than half. */
static uint64_t estimate_gain(const struct ws_analysis *analysis, uint64_t gain)
{
	const struct ws_thread_cost cost = {is_elsewhere};

	return ws_max(gain / 2, ws_estimate_bound(analysis, gain, ws_cost_without_threads, &cost));
}

static void check_loading(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint64_t loading = ws_sum_path_rows(analysis, is_loading), rest, gain,
		 own = analysis->model->threads[analysis->model->thread].running;
	const struct ws_breakdown_row *row = ws_find_path_row(analysis, is_loading);
	uint64_t workers = analysis->facts.loader_workers;
	struct ws_finding *finding;
	struct ws_text what = {0};
	double needed;

	if (check_starts(analysis, findings) || !row || ws_analysis_share(analysis, loading) < 0.05)
		return;
	rest = ws_max(analysis->window - loading, analysis->window / 64);
	rest = ws_max(rest, ws_analysis_gpu_busy(analysis));
	needed = ceil((workers ? (double)workers * (double)analysis->window : (double)loading) /
		      (double)rest);
	ws_put_at_place(analysis, &row->place, &what);
	/* No step is shorter than the training thread's own computation. */
	gain = loading;
	if (workers)
		gain = estimate_gain(
			analysis, ws_min(gain, analysis->window - ws_min(analysis->window, own)));
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_data_loading, loading, gain);
	finding->title =
		ws_format("Data come too late: %.0f %% of the time is loading%s, %s",
			  100 * ws_analysis_share(analysis, loading), ws_text_or(what.text, ""),
			  workers ? "in too few workers" : "in the training process");
	ws_point_at(finding, &row->place);
	finding->advice =
		ws_format("Load ahead in %s%.0f worker processes (now there are %llu; in PyTorch "
			  "num_workers=%.0f, with pin_memory=True, persistent_workers=True and a "
			  "prefetch_factor of 2 to 4), or make the loading itself cheaper.",
			  workers ? "at least " : "", needed, (unsigned long long)workers, needed);
	finding->assumption = ws_strdup("enough cores are free for that many workers");
	ws_finding_add_evidence(finding, "the longest stretch of loading on the critical path",
				NULL, row->longest.start, row->longest.end);
	ws_text_free(&what);
}

const struct ws_rule ws_rule_data_loading = {
	.name = "data-loading",
	.title = "Data come too late, and whoever computes on them waits",
	.about = "At least 5 % of the critical path is code of a data loader (PyTorch, TensorFlow, "
		 "WebDataset, DALI, or classes of the program whose names end with DataLoader or "
		 "Dataset), in the process itself or in its workers. Workers that load ahead while "
		 "the GPU, or the process, computes hide it. Where three times as many workers "
		 "are started as there are at once, starting them is the fault.",
	.query = ws_proof_waits,
	.check = check_loading,
};
