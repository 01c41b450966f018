/*
 * gil.c - Python threads that wait for each other's turn with the interpreter.
 *
 * Where the GIL was traced, waits for it say so. Else a wait for a condition with a time limit,
 * called by the interpreter itself below code of Python, is one: that is how CPython waits for it.
 */
#include "analyze/rules/rules.h"

static bool is_gil_wait(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	if (row->cause == WS_CAUSE_GIL)
		return true;
	if (row->cause != WS_CAUSE_LOCK || !row->place.python)
		return false;
	return !strcmp(ws_report_string(analysis->model->report, row->name, NULL),
		       "pthread_cond_timedwait");
}

/* Python that other threads of the process run on the path, while the main one waits. */
static bool is_other_python(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	return row->cause == WS_CAUSE_CPU && row->place.python && row->thread &&
	       row->thread != analysis->model->thread && !row->place.loader &&
	       ws_find_thread(analysis->model->who, row->thread)->process ==
		       analysis->model->process;
}

static void check_gil(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint64_t waits = ws_sum_path_rows(analysis, is_gil_wait),
		 others = ws_sum_path_rows(analysis, is_other_python);
	const struct ws_breakdown_row *holder = ws_find_path_row(analysis, is_other_python);
	const struct ws_breakdown_row *wait = ws_find_path_row(analysis, is_gil_wait);
	struct ws_finding *finding;
	struct ws_text place = {0};

	if (!wait || ws_analysis_share(analysis, waits + others) < 0.05 ||
	    ws_analysis_share(analysis, waits) < 0.01)
		return;
	if (holder) {
		const struct ws_thread_info *info =
			ws_find_thread(analysis->model->who, holder->thread);

		ws_put_at_place(analysis, &holder->place, &place);
		ws_text_printf(&place, " on thread %s %u", info->name, info->tid);
	}
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_gil, waits + others,
					waits + others);
	finding->title = ws_format("Python threads wait for the GIL, which others hold%s",
				   ws_text_or(place.text, ""));
	finding->advice = ws_strdup(
		"Move that work into a process of its own (multiprocessing), or into code that "
		"releases the GIL (NumPy, PyTorch, C); threads of Python never compute at once.");
	finding->assumption = ws_strdup("the other threads' Python no longer stands in the way");
	ws_finding_add_evidence(finding, "the longest such wait", NULL, wait->longest.start,
				wait->longest.end);
	ws_text_free(&place);
}

const struct ws_rule ws_rule_gil = {
	.name = "gil",
	.title = "Python threads that wait for the GIL",
	.about = "Waits for Python's global interpreter lock, with the Python that other threads "
		 "run on the critical path meanwhile, take 5 % of the time or more.",
	.find_obstacle = ws_need_scheduling,
	.check = check_gil,
};
