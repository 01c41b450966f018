/*
 * handovers.c - threads or processes that hand over to each other in tiny pieces.
 *
 * A wait costs a switch to another thread and one back, the wake-up and cold caches: some 10 us,
 * and more where cores sleep or the calls do much in the kernel. Where threads run for less than
 * that between two waits, the machine mostly switches.
 */
#include "analyze/askers.h"
#include "analyze/rules/rules.h"
#include "analyze/tasks.h"

enum { SWITCH_NS = 10000, MOST_SWITCH_NS = 30000, LONGEST_RUN_NS = 60000, LEAST_WAITS = 2000 };

static bool is_broadcast(const struct ws_parallel *parallel, const char *call)
{
	return parallel->threads > 4 && strstr(call, "pthread_cond") != NULL;
}

/* Whether the program connects again and again: a few per cent of its time go into that. */
static bool connects_often(const struct ws_analysis *analysis)
{
	const double least = 0.03;
	uint64_t connecting = 0, all = 0;

	for (size_t i = 0; i < analysis->usage.count; i++) {
		const struct ws_usage_row *row = &analysis->usage.rows[i];

		all += row->ns;
		if (!strcmp(row->name, "connect"))
			connecting += row->ns;
	}
	return (double)connecting > least * (double)all;
}

static const char *choose_advice(const struct ws_analysis *analysis, const char *call,
				 const struct ws_asker *asker)
{
	const struct ws_parallel *parallel = &analysis->parallel;

	if (asker->advice)
		return asker->advice;
	if (connects_often(analysis))
		return "Keep the connection open and send many requests over it: each new one "
		       "(connect, accept) takes several turns.";
	/* Python waits for the GIL in a condition. */
	if (!analysis->model->python && is_broadcast(parallel, call))
		return "Wake only the thread that can go on: pthread_cond_signal, or a condition "
		       "of its own for each; pthread_cond_broadcast wakes all, and most of them "
		       "wait again at once.";
	return "Hand over more at once: many items in one message or one turn with the lock, or do "
	       "the work where the data are.";
}

/* Counted from switches, or from samples where records of switches were lost. */
static uint64_t sum_running(const struct ws_analysis *analysis)
{
	uint64_t sampled = 0;

	for (size_t i = 0; i < analysis->usage.count; i++)
		sampled += analysis->usage.rows[i].ns;
	return ws_max(sampled, analysis->parallel.running);
}

/* Whether a row of the path is a wait that handing over has no part in. */
static bool is_pause(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	(void)analysis;
	return row->cause == WS_CAUSE_SLEEP || row->cause == WS_CAUSE_CHILD;
}

/* What the threads do for themselves: neither locks nor messages, nor other calls of the system
 * that go with them. Asking many descriptors is another fault. */
static uint64_t sum_own_work(const struct ws_analysis *analysis)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < analysis->usage.count; i++) {
		const struct ws_usage_row *row = &analysis->usage.rows[i];

		if (row->kind == WS_USAGE_CODE || row->kind == WS_USAGE_POLL ||
		    row->kind == WS_USAGE_FAULT || row->kind == WS_USAGE_FILE_FAULT)
			sum += row->ns;
	}
	return sum;
}

/* What handing over takes of the window: all that is neither work nor a pause, up to 30 us a wait.
 * Samples show calls of the system and locks as work, too, outside of the kernel: at least 10 us a
 * wait. */
static uint64_t find_cost(const struct ws_analysis *analysis, uint64_t cores)
{
	uint64_t waits = analysis->parallel.waits,
		 least = ws_min(waits * SWITCH_NS / cores, analysis->window),
		 others = sum_own_work(analysis) / cores + ws_sum_path_rows(analysis, is_pause);

	if (!analysis->usage.count)
		return least;
	return ws_max(least, ws_min(analysis->rated - ws_min(others, analysis->rated),
				    waits * MOST_SWITCH_NS));
}

/* Who asks for something by a message and waits for the answer: otherwise the place may be that of
 * who answers. */
static struct ws_asker find_asker(const struct ws_analysis *analysis, const char *call)
{
	uint8_t wait = ws_classify_osrt_call(call);
	struct ws_asker asker = {.by = NULL};

	if (wait == WS_WAIT_IO || wait == WS_WAIT_POLL || !*call)
		ws_find_asker(analysis->model, &asker);
	return asker;
}

/* Threads of a pool say nothing of who hands them so little: that is where the main thread waits,
 * or the task that its event loop works for. */
static struct ws_code_place find_users_place(const struct ws_model *model)
{
	struct ws_task_chain chain;

	if (ws_has_task_steps(model) && ws_find_task_chain(model, model->thread, &chain))
		return chain.places[chain.count - 1].place;
	return ws_find_longest_wait(model, model->thread);
}

static void check_handovers(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_parallel *parallel = &analysis->parallel;
	double seconds = (double)analysis->window / 1e9;
	uint64_t running = sum_running(analysis), cost, cores;
	const char *call = ws_report_string(analysis->model->report, parallel->wait_function, NULL);
	struct ws_code_place code = parallel->wait_place;
	struct ws_finding *finding;
	struct ws_text place = {0};
	struct ws_asker asker;

	if (!analysis->window || parallel->waits < LEAST_WAITS ||
	    running / parallel->waits > LONGEST_RUN_NS || analysis->model->has_cuda ||
	    ws_findings_have(findings, &ws_rule_thread_churn))
		return;
	cores = (uint64_t)ws_max(ws_min(analysis->demand, (double)analysis->cores), 1.0);
	if (ws_analysis_share(analysis, parallel->waits * SWITCH_NS / cores) < 0.1)
		return;
	cost = find_cost(analysis, cores);
	asker = find_asker(analysis, call);
	if (asker.place.function)
		code = asker.place;
	if (!code.users && analysis->model->python) {
		struct ws_code_place users = find_users_place(analysis->model);

		code = users.users ? users : code;
	}
	code.leaf = code.function;
	ws_put_at_place(analysis, &code, &place);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_handovers, cost,
					cost - cost / 10);
	finding->title = ws_format(
		"Threads hand over to each other %.0f times a second, and run for %.0f us in "
		"between, mostly by %s%s%s%s%s",
		(double)parallel->waits / seconds, (double)running / (double)parallel->waits / 1e3,
		ws_text_or(call, "calls that were not recorded"), ws_text_or(place.text, ""),
		asker.by ? ", by " : "", ws_or(asker.by, ""),
		connects_often(analysis) ? ", with a new connection each time" : "");
	finding->advice = ws_strdup(choose_advice(analysis, call, &asker));
	finding->assumption = ws_strdup("a tenth of what is neither work nor a pause remains, "
					"or of 10 us a wait");
	finding->next = ws_strdup("warpsight stats -r thread_wait_sum REPORT");
	ws_limit_to_users(analysis, finding, &code);
	ws_text_free(&place);
}

const struct ws_rule ws_rule_handovers = {
	.name = "handovers",
	.title = "Threads that hand over to each other in tiny pieces",
	.about = "Threads and processes of the program wait for each other 2,000 times or more, "
		 "run for less than 60 us between two such waits on average, and switching, at 10 "
		 "us a wait, takes 10 % of the time or more: pipes and sockets with one small "
		 "message at a "
		 "time, queues with one small item, conditions that wake everybody.",
	.find_obstacle = ws_need_scheduling,
	.query = ws_proof_waits,
	.check = check_handovers,
};
