/*
 * gil.c - Python threads that wait for each other's turn with the interpreter.
 *
 * Where the GIL was traced, waits for it are recorded. Otherwise a wait for a condition with a time
 * limit counts, if the interpreter itself called it below Python code: CPython waits for the GIL
 * that way.
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

/* Python code of other threads of the process on the path, while the main thread waits. */
static bool is_other_python(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	return row->cause == WS_CAUSE_CPU && row->place.python && row->thread &&
	       row->thread != analysis->model->thread && !row->place.loader &&
	       ws_find_thread(analysis->model->who, row->thread)->process ==
		       analysis->model->process;
}

struct gil_totals {
	uint64_t waits, running, threads;
};

static uint64_t sum_gil_waits(const struct ws_model *model, const struct ws_model_thread *thread)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < thread->count; i++)
		if (thread->states[i].wait == WS_WAIT_GIL &&
		    thread->states[i].doing == WS_DOING_WAIT &&
		    thread->states[i].end > model->from && thread->states[i].start < model->to)
			sum += thread->states[i].end - thread->states[i].start;
	return sum;
}

/* The GIL waits of all threads: the path goes through whoever holds it and shows few of them. */
static void sum_gil(const struct ws_model *model, struct gil_totals *totals)
{
	for (uint32_t id = 1; id < model->thread_count; id++) {
		const struct ws_model_thread *thread = &model->threads[id];
		uint64_t waits;

		if (ws_find_thread(model->who, id)->process != model->process)
			continue;
		waits = sum_gil_waits(model, thread);
		if (!waits)
			continue;
		totals->waits += waits;
		totals->running += thread->running;
		totals->threads++;
	}
}

static void put_holder(const struct ws_analysis *analysis, struct ws_text *text)
{
	const struct ws_breakdown_row *holder = ws_find_path_row(analysis, is_other_python);
	const struct ws_thread_info *info;
	struct ws_code_place code;

	if (!holder)
		return;
	info = ws_find_thread(analysis->model->who, holder->thread);
	code = holder->place;
	code.leaf = code.function;
	ws_put_at_place(analysis, &code, text);
	ws_text_printf(text, " on thread %s %u", info->name, info->tid);
}

/*
 * Where Python computes on several threads, separate processes would run in parallel, as far as
 * there are cores; where a thread that launches GPU work is held up, all time of the other threads
 * is saved.
 */
static uint64_t estimate_gain(const struct ws_analysis *analysis, uint64_t on_path)
{
	struct gil_totals totals = {0};
	double parallel;

	sum_gil(analysis->model, &totals);
	if (analysis->model->has_cuda || totals.threads < 2 ||
	    totals.waits * 10 < totals.waits + totals.running)
		return on_path;
	parallel = (double)ws_min(totals.threads, (uint64_t)ws_max(analysis->cores, 1u));
	/* On a busy machine the holder waits for a core, and the others for the holder. */
	return (uint64_t)((double)analysis->rated *
			  ws_min(1 - 1 / parallel, ws_analysis_part(analysis, totals.waits)));
}

static bool is_contended(const struct ws_analysis *analysis, uint64_t waits)
{
	struct gil_totals totals = {0};

	if (ws_analysis_share(analysis, waits) >= 0.01)
		return true;
	sum_gil(analysis->model, &totals);
	return totals.threads > 1 && totals.waits * 10 > totals.waits + totals.running;
}

/* Python code that only asks whether something has come holds the GIL for nothing. */
static bool has_spinning(const struct ws_findings *findings)
{
	for (size_t i = 0; i < findings->count; i++)
		if (findings->findings[i].rule == &ws_rule_busy_waiting &&
		    findings->findings[i].level > WS_LEVEL_NOTE)
			return true;
	return false;
}

static void check_gil(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint64_t waits = ws_sum_path_rows(analysis, is_gil_wait),
		 others = ws_sum_path_rows(analysis, is_other_python), gain;
	const struct ws_breakdown_row *wait = ws_find_path_row(analysis, is_gil_wait);
	struct ws_finding *finding;
	struct ws_text place = {0};

	if (!is_contended(analysis, waits))
		return;
	/* Where threads really take turns, half of the time or more is on the path: a pool's own
	 * threads wait for each other now and then, while others do the work. */
	gain = ws_min(estimate_gain(analysis, waits + others), 2 * (waits + others));
	/* Packing data holds the GIL too, but the rule process-data knows more about it. */
	if (ws_analysis_share(analysis, gain) < 0.05 ||
	    ws_findings_have(findings, &ws_rule_process_data) || has_spinning(findings))
		return;
	put_holder(analysis, &place);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_gil, waits + others, gain);
	finding->title = ws_format("Python threads wait for the GIL, which others hold%s",
				   ws_text_or(place.text, ""));
	finding->advice = ws_strdup(
		"Move that work into a process of its own (multiprocessing), or into code that "
		"releases the GIL (NumPy, PyTorch, C); threads of Python never compute at once.");
	finding->assumption = ws_strdup("the other threads' Python no longer stands in the way");
	if (wait)
		ws_finding_add_evidence(finding, "the longest such wait", NULL, wait->longest.start,
					wait->longest.end);
	ws_text_free(&place);
}

const struct ws_rule ws_rule_gil = {
	.name = "gil",
	.title = "Python threads that wait for the GIL",
	.about = "Waits for Python's global interpreter lock, with the Python that other threads "
		 "run on the critical path meanwhile, take 5 % of the time or more. Not where one "
		 "of them waits busily.",
	.find_obstacle = ws_need_scheduling,
	.query = ws_proof_gil,
	.check = check_gil,
};
