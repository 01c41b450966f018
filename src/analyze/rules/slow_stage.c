/*
 * slow_stage.c - threads that hand work on to each other, of which one computes all the time while
 * the others wait for it.
 *
 * Of processes with pipes between them slow-reader tells the same with certainty.
 */
#include "analyze/java.h"
#include "analyze/rules/rules.h"

enum { LEAST_WAITS = 20, LEAST_OTHERS = 2 };
#define LEAST_BUSY 0.7	  /* of the window */
#define LEAST_WAITING 0.3 /* of the window, for each of the others */
#define MOST_DEMAND 0.9	  /* of the cores */

static bool is_for_work(const struct ws_model_state *state)
{
	if (state->doing != WS_DOING_WAIT)
		return false;
	return state->wait == WS_WAIT_CONDITION || state->wait == WS_WAIT_SEMAPHORE ||
	       state->wait == WS_WAIT_FUTEX || state->wait == WS_WAIT_POLL ||
	       state->wait == WS_WAIT_IO;
}

/* Whether a thread waits for another one again and again. */
static bool waits_for(const struct ws_analysis *analysis, uint32_t id, uint32_t stage,
		      struct ws_span *longest)
{
	const struct ws_model *model = analysis->model;
	const struct ws_model_thread *thread = &model->threads[id];
	uint64_t ns = 0, count = 0;

	for (size_t i = 0; i < thread->count; i++) {
		const struct ws_model_state *state = &thread->states[i];
		uint64_t start = ws_max(state->start, model->from),
			 end = ws_min(state->end, model->to);

		if (end <= start || state->waker != stage || !is_for_work(state))
			continue;
		ns += end - start;
		count++;
		if (end - start > longest->end - longest->start)
			*longest = (struct ws_span){start, end};
	}
	return count >= LEAST_WAITS && ws_analysis_part(analysis, ns) >= LEAST_WAITING;
}

static uint32_t find_busiest(const struct ws_model *model)
{
	uint32_t busiest = 0;

	for (uint32_t id = 1; id < model->thread_count; id++)
		if (ws_find_thread(model->who, id)->process == model->process &&
		    (!busiest || model->threads[id].running > model->threads[busiest].running))
			busiest = id;
	return busiest;
}

static const struct ws_usage_row *find_code(const struct ws_analysis *analysis, uint32_t thread)
{
	for (size_t i = 0; i < analysis->usage.count; i++)
		if (analysis->usage.rows[i].thread == thread &&
		    analysis->usage.rows[i].kind == WS_USAGE_CODE)
			return &analysis->usage.rows[i];
	return NULL;
}

static bool is_explained_already(const struct ws_findings *findings)
{
	static const struct ws_rule *const others[] = {
		&ws_rule_gil,	      &ws_rule_handovers,    &ws_rule_lock_contention,
		&ws_rule_imbalance,   &ws_rule_busy_waiting, &ws_rule_serial_section,
		&ws_rule_slow_reader, &ws_rule_process_data};

	for (size_t i = 0; i < WS_COUNT(others); i++)
		if (ws_findings_have(findings, others[i]))
			return true;
	return false;
}

static void report_stage(const struct ws_analysis *analysis, uint32_t stage, uint64_t others,
			 const struct ws_span *longest, struct ws_findings *findings)
{
	const struct ws_usage_row *code = find_code(analysis, stage);
	uint64_t cost = ws_min(analysis->model->threads[stage].running, analysis->window);
	struct ws_finding *finding =
		ws_findings_add_fault(analysis, findings, &ws_rule_slow_stage, cost, cost / 2);
	struct ws_text thread = {0}, place = {0};

	finding->level = ws_min(finding->level, WS_LEVEL_WARNING);
	ws_put_thread(analysis, stage, &thread);
	if (code) {
		ws_put_at_place(analysis, &code->place, &place);
		ws_limit_to_users(analysis, finding, &code->place);
	}
	finding->title =
		ws_format("Thread %s is the slowest stage: it computes all the time%s, "
			  "and %llu other threads wait for it again and again",
			  thread.text, ws_text_or(place.text, ""), (unsigned long long)others);
	finding->advice = ws_strdup("Let several threads do the work of this stage, or make it "
				    "cheaper: the others have time, and cores are free.");
	finding->assumption = ws_strdup("two threads share its work");
	ws_finding_add_evidence(finding, "the longest wait for it", NULL, longest->start,
				longest->end);
	ws_text_free(&thread);
	ws_text_free(&place);
}

static void check_stages(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_model *model = analysis->model;
	uint32_t stage = find_busiest(model);
	struct ws_span longest = {0};
	uint64_t others = 0;

	if (!stage || model->has_cuda || analysis->cores < 2 ||
	    analysis->demand > MOST_DEMAND * analysis->cores ||
	    ws_analysis_part(analysis, model->threads[stage].running +
					       model->threads[stage].runnable) < LEAST_BUSY ||
	    is_explained_already(findings) || ws_is_interpreters_thread(analysis, stage))
		return;
	for (uint32_t id = 1; id < model->thread_count; id++)
		if (id != stage && ws_find_thread(model->who, id)->process == model->process &&
		    !ws_is_java_helper(model, id))
			others += waits_for(analysis, id, stage, &longest);
	if (others >= LEAST_OTHERS)
		report_stage(analysis, stage, others, &longest, findings);
}

const struct ws_rule ws_rule_slow_stage = {
	.name = "slow-stage",
	.title = "A thread that others wait for",
	.about = "One thread is on a core, or wants one, for 70 % of the time or more, and two or "
		 "more others of its process wait for it at least 20 times, each for 30 % of the "
		 "time or more, while a core is free: the slowest stage of several. Never more "
		 "than a warning.",
	.find_obstacle = ws_need_scheduling,
	.query = ws_proof_cores,
	.check = check_stages,
};
