/* imbalance.c - threads that share work wait at a barrier for the slowest. */
#include "analyze/rules/rules.h"

struct group {
	uint64_t threads, running, most, waiting;
	uint32_t slowest;
	struct ws_span longest;
};

static uint64_t sum_barrier_waits(const struct ws_model *model,
				  const struct ws_model_thread *thread, struct ws_span *longest)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < thread->count; i++) {
		const struct ws_model_state *state = &thread->states[i];
		uint64_t start = ws_max(state->start, model->from),
			 end = ws_min(state->end, model->to);

		if (state->wait != WS_WAIT_BARRIER || state->doing != WS_DOING_WAIT || end <= start)
			continue;
		sum += end - start;
		if (end - start > longest->end - longest->start)
			*longest = (struct ws_span){start, end};
	}
	return sum;
}

/* Those that wait at barriers, and the one that comes last and therefore never does. */
static void gather_group(const struct ws_model *model, struct group *group)
{
	uint32_t busiest = 0;
	bool counted = false;

	for (uint32_t id = 1; id < model->thread_count; id++) {
		const struct ws_model_thread *thread = &model->threads[id];
		uint64_t waiting;

		if (ws_find_thread(model->who, id)->process != model->process)
			continue;
		waiting = sum_barrier_waits(model, thread, &group->longest);
		if (!busiest || thread->running > model->threads[busiest].running) {
			busiest = id;
			counted = waiting > 0;
		}
		if (!waiting)
			continue;
		group->threads++;
		group->running += thread->running;
		group->waiting += waiting;
	}
	if (busiest && !counted) {
		group->threads++;
		group->running += model->threads[busiest].running;
	}
	group->slowest = busiest;
	group->most = model->threads[busiest].running;
}

static void check_balance(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_model *model = analysis->model;
	struct group group = {0};
	struct ws_finding *finding;
	uint64_t gain;

	gather_group(model, &group);
	if (group.threads < 2 || !group.waiting)
		return;
	gain = group.most - group.running / group.threads;
	if (ws_analysis_share(analysis, gain) < 0.05)
		return;
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_imbalance,
					group.waiting / group.threads, gain);
	finding->title = ws_format("%llu threads share the work unevenly: %s %u computes for %.0f "
				   "%% of the time, and others wait for it at a barrier",
				   (unsigned long long)group.threads,
				   ws_find_thread(model->who, group.slowest)->name,
				   ws_find_thread(model->who, group.slowest)->tid,
				   100 * ws_analysis_share(analysis, group.most));
	finding->advice = ws_strdup("Share the work out in smaller pieces that free threads take "
				    "(a queue, dynamic scheduling), or in parts of equal cost.");
	finding->assumption = ws_strdup("each thread gets the same share");
	ws_finding_add_evidence(finding, "the longest wait at the barrier", NULL,
				group.longest.start, group.longest.end);
}

const struct ws_rule ws_rule_imbalance = {
	.name = "imbalance",
	.title = "Threads with unequal shares of the work",
	.about = "Threads wait at barriers for one that computes longer: equal shares would make "
		 "the run 5 % shorter or more.",
	.find_obstacle = ws_need_scheduling,
	.check = check_balance,
};
