/*
 * lock_contention.c - threads take turns with a lock.
 *
 * The path goes through the threads that held the lock, so that it does not show the waits
 * themselves. What they cost is the time of all threads in such waits: without them, the work of
 * all would be shared out among them.
 */
#include "analyze/rules/rules.h"

#include "base/map.h"

struct lock_waits {
	uint64_t ns, count;
	uint32_t function;
	uint32_t callchain;
	uint64_t longest_ns;
	struct ws_span longest;
	uint64_t threads;
	uint64_t running; /* of the threads that wait so */
};

static bool is_lock_wait(const struct ws_model_state *state)
{
	return state->doing == WS_DOING_WAIT && state->wait == WS_WAIT_LOCK;
}

static void add_thread(const struct ws_model *model, uint32_t id, struct lock_waits *waits)
{
	const struct ws_model_thread *thread = &model->threads[id];
	uint64_t here = 0;

	for (size_t i = 0; i < thread->count; i++) {
		const struct ws_model_state *state = &thread->states[i];
		uint64_t start = ws_max(state->start, model->from),
			 end = ws_min(state->end, model->to);

		if (end <= start || !is_lock_wait(state))
			continue;
		here += end - start;
		waits->count++;
		if (end - start > waits->longest_ns) {
			waits->longest_ns = end - start;
			waits->longest = (struct ws_span){start, end};
			waits->function = state->function;
		}
		if (state->callchain && state->callchain != WS_NO_U32 && !waits->callchain)
			waits->callchain = state->callchain;
	}
	if (!here)
		return;
	waits->ns += here;
	waits->threads++;
	waits->running += thread->running;
}

static void check_locks(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_model *model = analysis->model;
	struct lock_waits waits = {0};
	struct ws_finding *finding;
	struct ws_code_place code = {0};
	struct ws_text place = {0};
	uint64_t gain;

	for (uint32_t id = 1; id < model->thread_count; id++)
		if (ws_find_thread(model->who, id)->process == model->process)
			add_thread(model, id, &waits);
	if (waits.threads < 2 || (double)waits.ns < 0.1 * (double)(waits.ns + waits.running))
		return;
	gain = (uint64_t)((double)analysis->rated * (double)waits.ns /
			  (double)(waits.ns + waits.running));
	if (analysis->cores) /* which the threads still have to share */
		gain = ws_min(gain, analysis->window - ws_min(waits.running / analysis->cores,
							      analysis->window));
	if (waits.callchain) {
		code = ws_code_find_place(model, 0, waits.callchain);
		ws_put_at_place(analysis, &code, &place);
	}
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_lock_contention,
					waits.ns / waits.threads, gain);
	ws_limit_to_users(analysis, finding, &code);
	finding->title = ws_format("%llu threads wait for a lock, %.0f %% of their time%s",
				   (unsigned long long)waits.threads,
				   100.0 * (double)waits.ns / (double)(waits.ns + waits.running),
				   ws_text_or(place.text, ""));
	finding->advice = ws_strdup(
		"Hold the lock for less: compute outside and only store inside, give each thread a "
		"part of its own and combine at the end, or use several locks or atomics.");
	finding->assumption = ws_strdup("nobody waits and all cores are free");
	finding->next = ws_strdup("warpsight stats -r thread_wait_sum REPORT");
	ws_finding_add_evidence(finding, "the longest wait", NULL, waits.longest.start,
				waits.longest.end);
	ws_text_free(&place);
}

const struct ws_rule ws_rule_lock_contention = {
	.name = "lock-contention",
	.title = "Threads that wait for each other's locks",
	.about = "Two threads or more wait for locks for 10 % or more of the time that they run or "
		 "wait so.",
	.find_obstacle = ws_need_scheduling,
	.check = check_locks,
};
