/* print_text.c - an analysis as text for people: where the time went, then the findings. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyze/print.h"
#include "analyze/source_line.h"
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

static void print_slow_steps(const struct ws_analysis *analysis, FILE *file)
{
	const struct ws_slow_steps *slow = &analysis->slow;

	for (size_t i = 0; i < slow->shown; i++) {
		const struct ws_slow_step *step = &slow->steps[i];

		fprintf(file, "  slow: step %u took %.3f ms",
			analysis->model->steps.steps[step->step].number, as_ms(step->ns));
		if (step->more)
			fprintf(file, ", %.3f ms more of it %s", as_ms(step->more),
				ws_name_cause(step->cause));
		if (step->more && step->name)
			fprintf(file, " (%s)",
				ws_report_string(analysis->model->report, step->name, NULL));
		fprintf(file, "\n");
	}
	if (slow->count > slow->shown)
		fprintf(file, "  and %zu more that took over %.1f times the median\n",
			slow->count - slow->shown, WS_SLOW_STEP);
}

static void print_phases(const struct ws_analysis *analysis, FILE *file)
{
	const struct ws_phases *phases = &analysis->phases;

	if (!phases->known)
		return;
	fprintf(file, "\nPhases of a step (%s",
		phases->marked ? "as marked" : "by what the CPU launched and loaded");
	if (phases->steps < analysis->steps)
		fprintf(file, "; of the first %zu steps", phases->steps);
	fprintf(file, "), and the GPU work launched in them:\n");
	for (int phase = 0; phase < WS_PHASES; phase++)
		if (phases->ns[phase])
			fprintf(file, "  %5.1f %% %12.3f ms %12.3f ms  %s\n",
				100 * (double)phases->ns[phase] / (double)phases->total,
				as_ms(phases->ns[phase]) / (double)phases->steps,
				as_ms(phases->gpu_ns[phase]) / (double)phases->steps,
				ws_name_phase((enum ws_phase)phase));
}

static void print_share(const struct ws_analysis *analysis, uint64_t ns, const char *name,
			FILE *file)
{
	fprintf(file, "  %5.1f %% %12.3f ms  %s\n", 100 * ws_analysis_part(analysis, ns),
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

/* Details of the causes: the rows that take the most time. */
static void print_rows(const struct ws_analysis *analysis, const struct ws_breakdown *breakdown,
		       FILE *file)
{
	for (size_t i = 0; i < breakdown->count && i < ROWS_SHOWN; i++) {
		const struct ws_breakdown_row *row = &breakdown->rows[i];
		struct ws_text text = {0};

		if (ws_analysis_part(analysis, row->ns) < LEAST_SHARE)
			break;
		ws_breakdown_put_row(analysis->model, row, &text);
		fprintf(file, "    %5.1f %%  %s: %s\n", 100 * ws_analysis_part(analysis, row->ns),
			ws_name_cause((enum ws_cause)row->cause), ws_text_or(text.text, ""));
		ws_text_free(&text);
	}
}

static void print_gpu(const struct ws_analysis *analysis, size_t gpu, FILE *file)
{
	const struct ws_gpu_budget *budget = &analysis->gpus[gpu];
	struct ws_text name = {0};

	ws_analysis_put_gpu(analysis, gpu, &name);
	fprintf(file, "\nWhere the time of %s went%s:\n", name.text,
		analysis->steps > 1 ? ", a step" : "");
	print_share(analysis, budget->compute, "computation", file);
	print_share(analysis, budget->exposed_comm, "communication that nothing hides", file);
	print_share(analysis, budget->exposed_copies, "copies that nothing hides", file);
	print_causes(analysis, &budget->idle, "idle: ", file);
	print_rows(analysis, &budget->idle, file);
	if (budget->overlapped)
		fprintf(file, "  (computation hides %.3f ms of communication and copies)\n",
			as_ms(budget->overlapped) / (double)analysis->steps);
	ws_text_free(&name);
}

/* When a report was finished, nanoseconds since 1970; 0 when not known. */
static uint64_t find_report_time(const char *path)
{
	struct stat info;

	if (!path || stat(path, &info))
		return 0;
	return (uint64_t)info.st_mtime * 1000000000;
}

/* The source line tells what the program does there, if the file is still as it was. Returns
 * whether it was printed. */
static bool print_source(const struct ws_analysis_view *view, const struct ws_finding *finding)
{
	const char *path = ws_report_string(view->analysis->model->report, finding->file, NULL);
	struct ws_text line = {0};
	bool known = finding->file && finding->line &&
		     ws_put_source_line(path, finding->line, find_report_time(view->path), &line);

	if (known)
		fprintf(view->file, "   the line: %s\n", line.text);
	ws_text_free(&line);
	return known;
}

/* `spare` is how many source lines may still be printed. */
static void print_finding(const struct ws_analysis_view *view, const struct ws_finding *finding,
			  size_t number, size_t *spare)
{
	const struct ws_analysis *analysis = view->analysis;
	const char *unit = analysis->steps > 1 ? " a step" : "";

	fprintf(view->file, "%zu. %s: %s\n", number, ws_name_level(finding->level), finding->title);
	if (*spare && print_source(view, finding))
		--*spare;
	if (finding->gain_ns)
		fprintf(view->file,
			"   costs %.3f ms%s (%.1f %%), could gain %.3f ms (%.1f %%)%s%s\n",
			as_ms(finding->cost_ns) / (double)analysis->steps, unit,
			100 * ws_analysis_share(analysis, finding->cost_ns),
			as_ms(finding->gain_ns) / (double)analysis->steps,
			100 * ws_analysis_share(analysis, finding->gain_ns),
			finding->assumption ? " if " : "", ws_text_or(finding->assumption, ""));
	if (finding->advice)
		fprintf(view->file, "   %s\n", finding->advice);
	/* What gains nothing by itself is only worth a next look. */
	if (finding->next && (!view->brief || !finding->gain_ns)) {
		char *next = ws_fill_in_report(finding->next, view->path);

		fprintf(view->file, "   next: %s\n", next);
		free(next);
	}
}

/* The first note about time that is worth a look, where nothing is wrong. */
static const struct ws_finding *find_note(const struct ws_analysis_view *view)
{
	const double least_share = 0.1;

	for (size_t i = 0; i < view->findings->count; i++) {
		const struct ws_finding *finding = &view->findings->findings[i];

		if (finding->level == WS_LEVEL_NOTE &&
		    ws_analysis_share(view->analysis, finding->cost_ns) >= least_share)
			return finding;
	}
	return NULL;
}

enum { MOST_BRIEF_FINDINGS = 3, MOST_BRIEF_LINES = 11 /* and one that names the report */ };

static size_t count_lines(const struct ws_finding *finding)
{
	return 1 + (finding->gain_ns > 0) + (finding->advice != NULL) +
	       (finding->next && !finding->gain_ns);
}

/* After a recording: only findings that cost something, three at most; where there are none, what
 * takes the time. The first findings show their source lines, as far as there is room. */
static void print_brief(const struct ws_analysis_view *view)
{
	const struct ws_finding *shown[MOST_BRIEF_FINDINGS] = {find_note(view)};
	const struct ws_findings *findings = view->findings;
	size_t faults = 0, spare = MOST_BRIEF_LINES, count;

	for (size_t i = 0; i < findings->count && i < MOST_BRIEF_FINDINGS; i++)
		if (findings->findings[i].level >= WS_LEVEL_WARNING)
			shown[faults++] = &findings->findings[i];
	count = ws_max(faults, (size_t)(shown[0] != NULL));
	for (size_t i = 0; i < count; i++)
		spare -= count_lines(shown[i]);
	for (size_t i = 0; i < count; i++)
		print_finding(view, shown[i], i + 1, &spare);
}

static void print_unlooked(const struct ws_analysis_view *view)
{
	const struct ws_unlooked *unlooked = view->findings->unlooked;
	const char *last = "";

	for (size_t i = 0; i < view->findings->unlooked_count; i++) {
		if (strcmp(unlooked[i].why, last))
			fprintf(view->file, "\nNot looked for, because %s: %s", unlooked[i].why,
				unlooked[i].rule->name);
		else
			fprintf(view->file, ", %s", unlooked[i].rule->name);
		last = unlooked[i].why;
	}
	if (*last)
		fprintf(view->file, "\n");
}

static void print_what_ifs(const struct ws_analysis_view *view)
{
	if (view->what_if_count)
		fprintf(view->file, "\nWhat if:\n");
	for (size_t i = 0; i < view->what_if_count; i++) {
		const struct ws_what_if_answer *answer = &view->what_ifs[i];
		struct ws_text text = {0};

		ws_put_what_if(&answer->result, view->analysis->model->step_source != WS_STEPS_NONE,
			       &text);
		fprintf(view->file, "  %s: %s\n    assumed: %s\n", answer->text, text.text,
			answer->assumption);
		ws_text_free(&text);
	}
}

static void print_checklist(const struct ws_analysis_view *view)
{
	for (size_t i = 0; i < WS_CHECKS; i++) {
		const struct ws_check *check = &view->checklist->checks[i];

		if (!i)
			fprintf(view->file, "\nFive points:\n");
		if (i == WS_CHECK_POINTS)
			fprintf(view->file, "\nEight self-checks:\n");
		fprintf(view->file, "%2zu. %-14s %s\n    %s\n",
			i < WS_CHECK_POINTS ? i + 1 : i + 1 - WS_CHECK_POINTS,
			ws_name_verdict(check->verdict), check->question, check->answer);
		if (check->next && check->verdict == WS_VERDICT_LOOK) {
			char *next = ws_fill_in_report(check->next, view->path);

			fprintf(view->file, "    next: %s\n", next);
			free(next);
		}
	}
}

void ws_print_analysis_text(const struct ws_analysis_view *view)
{
	const struct ws_analysis *analysis = view->analysis;
	const char *unit = analysis->steps > 1 ? ", a step" : "";
	size_t spare = SIZE_MAX;

	if (view->brief) {
		print_brief(view);
		return;
	}
	print_steps(analysis, view->file);
	print_slow_steps(analysis, view->file);
	print_phases(analysis, view->file);
	fprintf(view->file, "\nWhat made it take that long (the critical path)%s:\n", unit);
	print_causes(analysis, &analysis->breakdown, "", view->file);
	print_rows(analysis, &analysis->breakdown, view->file);
	for (size_t i = 0; i < analysis->model->work.gpus; i++)
		print_gpu(analysis, i, view->file);
	ws_print_launches_text(analysis, view->file);
	print_what_ifs(view);
	if (view->checklist)
		print_checklist(view);
	fprintf(view->file, "\nFindings:\n");
	for (size_t i = 0; i < view->findings->count; i++)
		print_finding(view, &view->findings->findings[i], i + 1, &spare);
	if (!view->findings->count)
		fprintf(view->file, "none\n");
	print_unlooked(view);
}
