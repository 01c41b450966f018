/* sleeping.c - threads on the critical path that sleep for a time. */
#include "analyze/rules/blocked_loop.h"
#include "analyze/stack_sums.h"

static bool is_sleep(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	(void)analysis;
	return row->cause == WS_CAUSE_SLEEP && !row->place.loader;
}

/* A server that looks now and then whether it is to end (multiprocessing.Manager's) has nothing to
 * do: others do not wait for that. */
static bool is_servers_wait(const struct ws_model *model, const struct ws_breakdown_row *row)
{
	uint64_t at = row->longest.start + (row->longest.end - row->longest.start) / 2;
	const struct ws_model_state *state = ws_model_find_state(model, row->thread, at);
	uint32_t frames[WS_CODE_DEEPEST];
	size_t count = 0;

	if (row->thread && state)
		count = ws_stacks_list_frames(model->stacks, 0,
					      ws_model_get_call(model, state)->callchain, frames,
					      WS_CODE_DEEPEST);
	for (size_t i = 0; i < count; i++)
		if (ws_is_frame_of(model, frames[i], "Server.serve_forever") ||
		    ws_is_frame_of(model, frames[i], "BaseServer.serve_forever"))
			return true;
	return false;
}

/* Waits with a time limit that no thread ended: they sleep until the time is over. Python waits for
 * its GIL like this too. */
static bool is_timed_wait(const struct ws_analysis *analysis, const struct ws_breakdown_row *row)
{
	static const char *const timed[] = {"pthread_cond_timedwait",
					    "pthread_cond_clockwait",
					    "sem_timedwait",
					    "sem_clockwait",
					    "mq_timedreceive",
					    "sigtimedwait",
					    NULL};
	const char *name = ws_report_string(analysis->model->report, row->name, NULL);

	if (row->cause != WS_CAUSE_LOCK || row->place.loader ||
	    (row->place.python && !strcmp(name, "pthread_cond_timedwait")))
		return false;
	return ws_is_name_among(name, strlen(name), timed) &&
	       !is_servers_wait(analysis->model, row);
}

static void check_timed_waits(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint64_t all = ws_sum_path_rows(analysis, is_timed_wait);
	const struct ws_breakdown_row *row = ws_find_path_row(analysis, is_timed_wait);
	struct ws_finding *finding;
	struct ws_text what = {0};

	if (!row || ws_analysis_share(analysis, all) < 0.05 ||
	    ws_is_loop_blocked(analysis, findings, row))
		return;
	ws_breakdown_put_row(analysis->model, row, &what);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_sleeping, all, all);
	ws_limit_to_users(analysis, finding, &row->place);
	finding->title = ws_format("The program waits until a time limit is over, and nobody wakes "
				   "it: %s",
				   ws_text_or(what.text, ""));
	finding->advice = ws_strdup("Wake it when there is something to do: "
				    "pthread_cond_signal, notify, sem_post by the thread that has "
				    "made it.");
	finding->assumption = ws_strdup("it is woken at once");
	ws_finding_add_evidence(finding, "the longest of these waits", NULL, row->longest.start,
				row->longest.end);
	ws_text_free(&what);
}

/* Whether many threads sleep at the same time: what they wait for takes its time, and they already
 * do it side by side. */
static bool sleep_side_by_side(const struct ws_model *model, uint64_t on_path)
{
	enum { SIDE_BY_SIDE = 4 };
	uint64_t sum = 0;

	for (uint32_t id = 1; id < model->thread_count; id++) {
		const struct ws_model_thread *thread = &model->threads[id];

		if (!ws_is_explained(model, ws_find_thread(model->who, id)->process))
			continue;
		for (size_t i = 0; i < thread->count; i++) {
			const struct ws_model_state *state = &thread->states[i];
			uint64_t from = ws_max(state->start, model->from),
				 to = ws_min(state->end, model->to);

			if (state->doing == WS_DOING_WAIT && state->wait == WS_WAIT_SLEEP &&
			    to > from)
				sum += to - from;
		}
	}
	return sum / SIDE_BY_SIDE >= on_path;
}

/* That another process sleeps before each of its answers is not what the program could do better:
 * to ask for more at once is, which has been said. */
static bool is_before_answers(const struct ws_model *model, const struct ws_findings *findings,
			      const struct ws_breakdown_row *row)
{
	return ws_findings_have(findings, &ws_rule_round_trips) &&
	       ws_find_thread(model->who, row->thread)->process != model->process;
}

static void check_pauses(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint64_t all = ws_sum_path_rows(analysis, is_sleep);
	const struct ws_breakdown_row *row = ws_find_path_row(analysis, is_sleep);
	struct ws_finding *finding;
	struct ws_text what = {0};

	if (!row || ws_analysis_share(analysis, all) < 0.02 ||
	    ws_is_loop_blocked(analysis, findings, row))
		return;
	ws_breakdown_put_row(analysis->model, row, &what);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_sleeping, all, all);
	if (ws_is_tool_of_script(analysis->model,
				 ws_find_thread(analysis->model->who, row->thread)->process))
		finding->level = ws_min(finding->level, WS_LEVEL_WARNING);
	else
		ws_limit_to_users(analysis, finding, &row->place);
	if (sleep_side_by_side(analysis->model, all) ||
	    is_before_answers(analysis->model, findings, row))
		finding->level = WS_LEVEL_NOTE;
	finding->title = ws_format("The program sleeps: %s", ws_text_or(what.text, ""));
	finding->advice = ws_strdup("Wait for the event itself (a condition variable, a "
				    "descriptor) instead of for a time, or leave the pause out.");
	finding->assumption = ws_strdup("there is nothing to wait for");
	ws_say_lone_worker(analysis, row, finding);
	ws_say_results_in_turn(analysis, row->thread, finding);
	ws_put_starting_line(analysis, row->thread, finding);
	ws_finding_add_evidence(finding, "the longest sleep", NULL, row->longest.start,
				row->longest.end);
	ws_text_free(&what);
}

static void check_sleeps(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	check_pauses(analysis, findings);
	check_timed_waits(analysis, findings);
}

const struct ws_rule ws_rule_sleeping = {
	.name = "sleeping",
	.title = "Sleeping on the critical path",
	.about = "Calls that sleep for a time (nanosleep, usleep, select without descriptors) take "
		 "2 % of the critical path or more, a note where four threads or more sleep at the "
		 "same time, a warning at most in scripts of shells; or waits with a time limit "
		 "that no thread "
		 "ended, 5 %.",
	.find_obstacle = ws_need_scheduling,
	.query = ws_proof_waits,
	.check = check_sleeps,
};
