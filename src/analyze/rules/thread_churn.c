/* thread_churn.c - a new thread for every small piece of work. */
#include "analyze/rules/rules.h"

/* To start a thread, switch to it and join it; threads of Python wait for each other besides. */
enum { LEAST_THREADS = 100, THREAD_NS = 30000, PYTHONS_THREAD_NS = 100000 };

static bool is_thread_wait(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	const char *name = ws_report_string(analysis->model->report, row->name, NULL);

	return row->cause != WS_CAUSE_CPU && row->place.leaf &&
	       (!strcmp(name, "pthread_join") || !strcmp(name, "pthread_create"));
}

/* Where they are started, or else where they are waited for. */
static struct ws_code_place find_place(const struct ws_analysis *analysis)
{
	const struct ws_breakdown_row *row = ws_find_path_row(analysis, is_thread_wait);

	for (size_t i = 0; i < analysis->usage.count; i++) {
		const struct ws_usage_row *used = &analysis->usage.rows[i];

		if (used->kind == WS_USAGE_THREAD && used->place.users)
			return used->place;
	}
	if (row)
		return row->place;
	return analysis->parallel.wait_place;
}

/* What Python's threads wait for until each has started. */
static bool is_start_wait(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	static const char name[] = "Thread.start";
	const struct ws_function *function =
		ws_stacks_get_function(analysis->model->stacks, row->place.leaf);
	size_t length = sizeof(name) - 1;

	return row->cause != WS_CAUSE_CPU && row->place.leaf && function->len >= length &&
	       !memcmp(function->name + function->len - length, name, length);
}

/* On a busy machine starting and joining takes longer than usual: what the path shows of it. */
static uint64_t measure_cost(const struct ws_analysis *analysis, uint64_t usual)
{
	enum { MOST_TIMES = 4 };
	uint64_t seen = ws_sum_path_rows(analysis, is_thread_wait);

	for (size_t i = 0; i < analysis->usage.count; i++)
		if (analysis->usage.rows[i].kind == WS_USAGE_THREAD)
			seen += analysis->usage.rows[i].path_ns;
	return ws_max(usual, ws_min(seen, usual * MOST_TIMES));
}

static void check_threads(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_parallel *parallel = &analysis->parallel;
	uint64_t each = analysis->model->python ? PYTHONS_THREAD_NS : THREAD_NS,
		 brief = parallel->brief_threads, starts = 0, cost;
	struct ws_code_place code;
	struct ws_finding *finding;
	struct ws_text place = {0};

	if (brief < LEAST_THREADS)
		return;
	starts = ws_sum_path_rows(analysis, is_start_wait);
	each = ws_max(each, starts / brief);
	cost = brief * each;
	if (ws_analysis_share(analysis, cost) < 0.05)
		return;
	cost = measure_cost(analysis, cost);
	code = find_place(analysis);
	code.leaf = code.function;
	ws_put_at_place(analysis, &code, &place);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_thread_churn, cost, cost);
	ws_limit_to_users(analysis, finding, &code);
	finding->title = ws_format("%llu threads are started that run for less than 5 ms each%s",
				   (unsigned long long)brief, ws_text_or(place.text, ""));
	finding->advice = ws_strdup("Keep a few threads and give them the work through a queue (a "
				    "pool: std::async does not, ThreadPoolExecutor does). Make "
				    "the pool itself once, and keep it.");
	finding->assumption = ws_format("starting and joining a thread costs %llu us",
					(unsigned long long)(cost / brief / 1000));
	finding->next = ws_strdup("warpsight stats -r sched_sum REPORT");
	ws_text_free(&place);
}

const struct ws_rule ws_rule_thread_churn = {
	.name = "thread-churn",
	.title = "A thread for every small piece of work",
	.about = "The program starts 100 threads or more that run for less than 5 ms, so many that "
		 "starting and joining them, at 30 us each (in Python 100), takes 5 % of the time "
		 "or more.",
	.find_obstacle = ws_need_scheduling,
	.query = ws_proof_cores,
	.check = check_threads,
};
