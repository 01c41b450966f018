/* oversubscription.c - more threads want to run than there are cores. */
#include "analyze/rules/rules.h"

static uint64_t count_busy_threads(const struct ws_analysis *analysis)
{
	uint64_t count = 0;

	for (uint32_t id = 1; id < analysis->model->thread_count; id++) {
		const struct ws_model_thread *thread = &analysis->model->threads[id];

		count += (thread->running + thread->runnable) * 4 > analysis->window;
	}
	return count;
}

static void check_demand(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint64_t waiting = analysis->breakdown.by_cause[WS_CAUSE_CORE];
	uint64_t busy = count_busy_threads(analysis);
	struct ws_finding *finding;

	if (!analysis->cores || analysis->demand < 1.5 * analysis->cores ||
	    busy < 2 * (uint64_t)analysis->cores || ws_analysis_share(analysis, waiting) < 0.1)
		return;
	/* The work is the same with fewer threads: the gain is the cost of switching and of lost
	 * caches. */
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_oversubscription, waiting,
					analysis->rated / 10);
	if (busy < 3 * (uint64_t)analysis->cores)
		finding->level = WS_LEVEL_NOTE;
	finding->title = ws_format("%llu threads compute at the same time on %u cores: each waits "
				   "for a core for %.0f %% of the time",
				   (unsigned long long)busy, analysis->cores,
				   100 * ws_analysis_share(analysis, waiting));
	finding->advice = ws_strdup("Use as many threads as there are cores (OMP_NUM_THREADS, "
				    "torch.set_num_threads, num_workers, make -j).");
	finding->assumption = ws_strdup("switching between threads costs a tenth");
	finding->next = ws_strdup("warpsight stats -r sched_sum REPORT");
}

const struct ws_rule ws_rule_oversubscription = {
	.name = "oversubscription",
	.title = "More threads than cores",
	.about = "Twice as many threads as cores or more want to run for a quarter of the time "
		 "each, together half as much again as there are cores, and waiting for one is 10 "
		 "% of the critical path or more. A note below three times as many.",
	.find_obstacle = ws_need_scheduling,
	.query = ws_proof_cores,
	.check = check_demand,
};
