/*
 * judge.c - all results with their findings, and what could be saved in the whole run: the time of
 * a kernel there, times the estimate of its first finding.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "kernel/places.h"
#include "kernel/print.h"
#include "query/query.h"

/* Sum the time of each kernel in the time line, by its name with arguments; no sums without a time
 * line. */
static void sum_time_line(const struct ws_report *report, struct ws_map *times)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_cuda_kernel, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		uint64_t start = values[ws_cuda_kernel_start], end = values[ws_cuda_kernel_end],
			 name = values[ws_cuda_kernel_demangled];

		if (end != WS_NO_TIME && end > start)
			ws_map_set(times, name, ws_map_get(times, name, NULL) + end - start);
	}
	ws_cursor_close(cursor);
}

static void sum_results(const struct ws_kernel_results *results, struct ws_map *times)
{
	for (size_t i = 0; i < results->count; i++) {
		const struct ws_kernel_result *result = &results->results[i];
		uint64_t name = result->row.demangled;

		if (!isnan(result->duration_ns))
			ws_map_set(times, name,
				   ws_map_get(times, name, NULL) +
					   (uint64_t)llround(result->duration_ns));
	}
}

static void judge_result(const struct ws_report *report, struct ws_kernel_judged *judged)
{
	ws_kernel_judge_placed(report, judged->result, &judged->findings);
	for (size_t i = 0; i < judged->findings.count; i++) {
		const struct ws_kernel_finding *finding = &judged->findings.findings[i];

		if (finding->kind == WS_KERNEL_CAUSE && finding->estimate > judged->estimate)
			judged->estimate = finding->estimate;
	}
}

void ws_kernel_judge_all(const struct ws_kernel_results *results,
			 struct ws_kernel_judgement *judgement)
{
	struct ws_map line = {0}, measured = {0};

	judgement->count = results->count;
	judgement->judged = ws_calloc(results->count + 1, sizeof(*judgement->judged));
	sum_time_line(results->report, &line);
	sum_results(results, &measured);
	for (size_t i = 0; i < results->count; i++) {
		struct ws_kernel_judged *judged = &judgement->judged[i];
		uint64_t name = results->results[i].row.demangled, ns;

		judged->result = &results->results[i];
		judge_result(results->report, judged);
		ns = ws_map_get(&line, name, NULL);
		if (!ns)
			ns = ws_map_get(&measured, name, NULL);
		judged->run_ns = (double)ns;
		judged->saved_ns = judged->run_ns * judged->estimate;
	}
	ws_map_free(&line);
	ws_map_free(&measured);
}

void ws_kernel_judgement_free(struct ws_kernel_judgement *judgement)
{
	for (size_t i = 0; i < judgement->count; i++)
		ws_kernel_findings_free(&judgement->judged[i].findings);
	free(judgement->judged);
	*judgement = (struct ws_kernel_judgement){0};
}
