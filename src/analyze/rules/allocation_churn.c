/* allocation_churn.c - memory of the GPU is allocated and freed in every step. */
#include "analyze/rules/rules.h"

static const char *const allocations[] = {"cudaMalloc",
					  "cudaFree",
					  "cudaMallocHost",
					  "cudaFreeHost",
					  "cudaHostAlloc",
					  "cudaMallocPitch",
					  "cudaMallocManaged",
					  "cuMemAlloc*",
					  "cuMemFree*",
					  "cuMemHostAlloc",
					  "cudaHostRegister",
					  "cudaHostUnregister",
					  NULL};

static void check_allocations(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	uint64_t on_path = ws_sum_path_calls(analysis, allocations);
	struct ws_call_fact calls;
	struct ws_finding *finding;
	struct ws_text place = {0};

	if (ws_analysis_share(analysis, on_path) < 0.03 ||
	    !ws_facts_sum_calls(analysis->model, &analysis->facts, allocations, &calls) ||
	    calls.count < 4)
		return;
	ws_put_at_place(analysis, &calls.place, &place);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_allocation_churn, on_path,
					on_path);
	finding->title = ws_format("GPU or pinned memory is allocated and freed again and again: "
				   "%llu calls%s",
				   (unsigned long long)calls.count, ws_text_or(place.text, ""));
	finding->advice =
		ws_strdup("Allocate once before the loop and use it again, or allocate from a pool "
			  "(cudaMallocAsync, a framework's caching allocator): cudaFree also waits "
			  "for the whole GPU.");
	finding->assumption = ws_strdup("nothing is allocated within the steps");
	ws_finding_add_evidence(finding, "the longest of these calls", NULL, calls.longest.start,
				calls.longest.end);
	ws_text_free(&place);
}

const struct ws_rule ws_rule_allocation_churn = {
	.name = "allocation-churn",
	.title = "Memory is allocated and freed in every step",
	.about = "Calls that allocate or free memory of the GPU, or pin memory, take 3 % of the "
		 "critical path or more.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_cuda_calls,
	.check = check_allocations,
};
