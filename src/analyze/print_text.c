/* print_text.c - an analysis as text for people: where the time went, then the findings. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/print.h"
#include "base/choose.h"

static double as_ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

static int compare_lengths(const void *first, const void *second)
{
	return ws_compare(*(const uint64_t *)first, *(const uint64_t *)second);
}

static void print_steps(const struct ws_analysis *analysis, FILE *file)
{
	const struct ws_model *model = analysis->model;
	const struct ws_step *steps = model->steps.steps + model->first_step;
	uint64_t *lengths;

	if (model->step_source == WS_STEPS_NONE) {
		fprintf(file, "The whole run: %.3f ms\n", as_ms(analysis->window));
		return;
	}
	lengths = ws_malloc(analysis->steps * sizeof(*lengths));
	for (size_t i = 0; i < analysis->steps; i++)
		lengths[i] = steps[i].end - steps[i].start;
	qsort(lengths, analysis->steps, sizeof(*lengths), compare_lengths);
	fprintf(file, "%zu steps (%s; %zu before them left out as warm-up): median %.3f ms, ",
		analysis->steps,
		model->step_source == WS_STEPS_MARKED ? "as marked"
						      : "as the sequence of kernels repeats",
		model->first_step, as_ms(lengths[analysis->steps / 2]));
	fprintf(file, "shortest %.3f ms, longest %.3f ms\n", as_ms(lengths[0]),
		as_ms(lengths[analysis->steps - 1]));
	free(lengths);
}

static void print_share(const struct ws_analysis *analysis, uint64_t ns, const char *name,
			FILE *file)
{
	fprintf(file, "  %5.1f %% %12.3f ms  %s\n", 100 * ws_analysis_share(analysis, ns),
		as_ms(ns) / (double)analysis->steps, name);
}

static void print_causes(const struct ws_analysis *analysis, const struct ws_breakdown *breakdown,
			 const char *prefix, FILE *file)
{
	for (int i = 0; i < WS_CAUSES; i++) {
		char *name;

		if (!breakdown->by_cause[i])
			continue;
		name = ws_format("%s%s", prefix, ws_name_cause((enum ws_cause)i));
		print_share(analysis, breakdown->by_cause[i], name, file);
		free(name);
	}
}

enum { ROWS_SHOWN = 8 };
#define LEAST_SHARE 0.02

/* What stands behind the causes: the rows that take the most. */
static void print_rows(const struct ws_analysis *analysis, const struct ws_breakdown *breakdown,
		       FILE *file)
{
	for (size_t i = 0; i < breakdown->count && i < ROWS_SHOWN; i++) {
		const struct ws_breakdown_row *row = &breakdown->rows[i];
		struct ws_text text = {0};

		if (ws_analysis_share(analysis, row->ns) < LEAST_SHARE)
			break;
		ws_breakdown_put_row(analysis->model, row, &text);
		fprintf(file, "    %5.1f %%  %s: %s\n", 100 * ws_analysis_share(analysis, row->ns),
			ws_name_cause((enum ws_cause)row->cause), ws_text_or(text.text, ""));
		ws_text_free(&text);
	}
}

static void print_gpu(const struct ws_analysis *analysis, size_t gpu, FILE *file)
{
	const struct ws_gpu_budget *budget = &analysis->gpus[gpu];
	struct ws_text name = {0};

	ws_analysis_put_gpu(analysis, gpu, &name);
	fprintf(file, "\nWhere the time of %s went, a step:\n", name.text);
	print_share(analysis, budget->compute, "computation", file);
	print_share(analysis, budget->exposed_comm, "communication that nothing hides", file);
	print_share(analysis, budget->exposed_copies, "copies that nothing hides", file);
	print_causes(analysis, &budget->idle, "idle: ", file);
	print_rows(analysis, &budget->idle, file);
	fprintf(file, "  (%.3f ms of communication and copies a step are hidden by computation)\n",
		as_ms(budget->overlapped) / (double)analysis->steps);
	ws_text_free(&name);
}

static void print_finding(const struct ws_analysis *analysis, const struct ws_finding *finding,
			  size_t number, FILE *file)
{
	fprintf(file, "%zu. %s: %s\n", number, ws_name_level(finding->level), finding->title);
	if (finding->cost_ns || finding->gain_ns)
		fprintf(file,
			"   costs %.3f ms a step (%.1f %%), could gain %.3f ms (%.1f %%)%s%s\n",
			as_ms(finding->cost_ns) / (double)analysis->steps,
			100 * ws_analysis_share(analysis, finding->cost_ns),
			as_ms(finding->gain_ns) / (double)analysis->steps,
			100 * ws_analysis_share(analysis, finding->gain_ns),
			finding->assumption ? " if " : "", ws_text_or(finding->assumption, ""));
	if (finding->advice)
		fprintf(file, "   %s\n", finding->advice);
	if (finding->next)
		fprintf(file, "   next: %s\n", finding->next);
}

void ws_print_analysis_text(const struct ws_analysis *analysis, const struct ws_findings *findings,
			    FILE *file)
{
	print_steps(analysis, file);
	fprintf(file, "\nWhat made it take that long (the critical path), a step:\n");
	print_causes(analysis, &analysis->breakdown, "", file);
	print_rows(analysis, &analysis->breakdown, file);
	for (size_t i = 0; i < analysis->model->work.gpus; i++)
		print_gpu(analysis, i, file);
	fprintf(file, "\nFindings:\n");
	for (size_t i = 0; i < findings->count; i++)
		print_finding(analysis, &findings->findings[i], i + 1, file);
	if (!findings->count)
		fprintf(file, "none\n");
}
