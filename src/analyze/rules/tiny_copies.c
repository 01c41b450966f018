/* tiny_copies.c - many copies of few bytes: each costs a call. */
#include "analyze/rules/rules.h"

static const char *const copy_calls[] = {"cudaMemcpy*", "cuMemcpy*", NULL};

static void check_tiny(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint64_t small = 0, small_ns = 0, all = 0, least = 4, cost, gain;
	struct ws_call_fact calls = {.count = 0};
	struct ws_finding *finding;
	struct ws_text place = {0};

	for (int direction = 0; direction < WS_MIGRATED; direction++)
		for (int pageable = 0; pageable < 2; pageable++) {
			const struct ws_copy_fact *fact =
				&analysis->facts.copies[direction][pageable];

			small += fact->small;
			small_ns += fact->small_ns;
			all += fact->count;
		}
	cost = ws_max(ws_sum_path_calls(analysis, copy_calls), ws_min(small_ns, analysis->window));
	/* What repeats may be less than a step of the program: copies count beside kernels. */
	if (analysis->model->step_source == WS_STEPS_REPEATED &&
	    small * 4 >= analysis->facts.kernel_instances)
		least = 1;
	if (small < least * analysis->steps || small < 100 || small * 10 < all * 8 ||
	    ws_analysis_share(analysis, cost) < 0.05)
		return;
	ws_facts_sum_calls(analysis->model, &analysis->facts, copy_calls, &calls);
	ws_put_at_place(analysis, &calls.place, &place);
	gain = cost;
	/* The time of the loop around the calls is saved too. */
	if (analysis->model->calls.rows.rows)
		gain = ws_max(gain, ws_estimate_gain(analysis, ws_cost_without_copy_loops, NULL));
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_tiny_copies,
					ws_max(cost, gain), gain - gain / 10);
	finding->title =
		ws_format("%llu copies of less than 64 KiB, %.0f a step%s",
			  (unsigned long long)small, (double)small / (double)analysis->steps,
			  ws_text_or(place.text, ""));
	ws_point_at(finding, &calls.place);
	finding->advice = ws_strdup("Gather the data in one pinned buffer and copy that once a "
				    "step: a small copy costs a call, not bytes.");
	finding->assumption = ws_strdup("one copy takes the place of ten or more");
	ws_finding_add_evidence(finding, "the longest call", NULL, calls.longest.start,
				calls.longest.end);
	ws_text_free(&place);
}

const struct ws_rule ws_rule_tiny_copies = {
	.name = "tiny-copies",
	.title = "Many small copies",
	.about = "At least 100 copies of less than 64 KiB, four a step or more (one for four "
		 "kernels where "
		 "steps were found by what repeats) and 80 % of all "
		 "copies, take 5 % of the time or more: bound by latency, not by bandwidth.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_copies,
	.check = check_tiny,
};
