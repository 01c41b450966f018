/* pageable_copies.c - copies from or to memory that is not pinned. */
#include "analyze/rules/rules.h"

#define PINNED_GAIN                                                                  \
	0.65 /* of a pageable copy's time: pinned ones are about three times as fast \
	      */

static const char *const copy_calls[] = {"cudaMemcpy*", "cuMemcpy*", NULL};

static void check_copies(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	const struct ws_copy_fact *to = &analysis->facts.copies[WS_TO_DEVICE][1],
				  *from = &analysis->facts.copies[WS_TO_HOST][1];
	uint64_t bytes = to->bytes + from->bytes, ns = to->ns + from->ns, exposed = 0, cost;
	struct ws_call_fact calls = {.count = 0};
	struct ws_finding *finding;
	struct ws_text place = {0};

	for (size_t i = 0; i < analysis->model->work.gpus; i++)
		exposed = ws_max(exposed, analysis->gpus[i].exposed_copies);
	/* The call itself copies into a staging buffer: that is part of the cost. */
	cost = ws_min(exposed, ns) + ws_sum_path_calls(analysis, copy_calls);
	cost = ws_min(cost, analysis->window);
	if (ws_analysis_share(analysis, cost) < 0.02 || bytes < (1 << 20) ||
	    bytes / ws_max(to->count + from->count, (uint64_t)1) < WS_SMALL_COPY_BYTES)
		return;
	ws_facts_sum_calls(analysis->model, &analysis->facts, copy_calls, &calls);
	ws_put_at_place(analysis, &calls.place, &place);
	finding = ws_findings_add_fault(analysis, findings, &ws_rule_pageable_copies, cost,
					(uint64_t)((double)cost * PINNED_GAIN));
	finding->title =
		ws_format("%.1f MB are copied from or to pageable memory in %llu copies "
			  "(%.1f GB/s)%s",
			  (double)bytes / 1e6, (unsigned long long)(to->count + from->count),
			  (double)bytes / (double)ws_max(ns, (uint64_t)1),
			  ws_text_or(place.text, ""));
	finding->advice = ws_strdup(
		"Pin the memory once (pin_memory=True, tensor.pin_memory(), cudaMallocHost) and "
		"copy with non_blocking=True or cudaMemcpyAsync: the copy is faster and the CPU "
		"goes on meanwhile.");
	finding->assumption = ws_strdup("pinned copies are about three times as fast");
	finding->next = ws_strdup("warpsight stats -r cuda_gpu_mem_size_sum REPORT");
	ws_finding_add_evidence(
		finding, "the longest such copy",
		"SELECT start, end - start AS ns, bytes, srcKind, dstKind FROM "
		"CUPTI_ACTIVITY_KIND_MEMCPY WHERE srcKind = 0 OR dstKind = 0 ORDER BY ns DESC",
		to->longest.start ? to->longest.start : from->longest.start,
		to->longest.start ? to->longest.end : from->longest.end);
	ws_text_free(&place);
}

const struct ws_rule ws_rule_pageable_copies = {
	.name = "pageable-copies",
	.title = "Copies from or to pageable memory",
	.about = "Copies of 64 KiB and more on average between the GPU and memory that is not "
		 "pinned take 2 % of the time or more: the driver stages them through a buffer of "
		 "its own, and the calling thread waits.",
	.find_obstacle = ws_need_cuda,
	.query = ws_proof_copies,
	.check = check_copies,
};
