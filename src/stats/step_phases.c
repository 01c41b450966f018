/*
 * step_phases.c - what the steps of a training loop consist of: the ranges directly inside them,
 * and the time that none of these covers.
 *
 * One pass over a thread's ranges and steps, both in order of start (outer first): a range counts
 * when it lies in a step and in no other range within that step. Where steps are a framework's
 * annotations, so are the phases.
 */
#include <stdlib.h>
#include <string.h>

#include "query/steps.h"
#include "base/choose.h"
#include "stats/keyed.h"
#include "stats/summary_rows.h"

static const struct ws_column columns[] = {WS_SUMMARY_COLUMNS("Instances"),
					   {"Phase", WS_KIND_TEXT}};

static const char rest_name[] = "[rest of the step]";

struct phases {
	struct ws_stats *stats;
	struct ws_steps steps;
	struct ws_keyed_dists times; /* by string key + 1; 0 for the rest of each step */
	uint64_t *covered;	     /* by step: time of its phases, ns */
};

static int compare_steps(const void *first, const void *second)
{
	const struct ws_step *left = first, *right = second;

	if (left->thread != right->thread)
		return ws_compare(left->thread, right->thread);
	return ws_compare(left->start, right->start);
}

static bool is_in_window(const struct phases *phases, const struct ws_step *step)
{
	return step->end >= phases->stats->time_min && step->start <= phases->stats->time_max;
}

static void add_phase(struct phases *phases, uint64_t key, uint64_t ns)
{
	ws_dist_add(ws_keyed_get(&phases->times, &key), ns);
}

/* A table with ranges: its columns, and the two types of rows that may be phases. */
struct phase_source {
	enum ws_table table;
	int start, end, thread, name, type;
	uint64_t first_type, second_type;
};

static const struct phase_source phase_sources[] = {
	{WS_TABLE_op, ws_op_start, ws_op_end, ws_op_thread, ws_op_name, ws_op_kind,
	 WS_OP_ANNOTATION, WS_OP_ANNOTATION},
	{WS_TABLE_nvtx, ws_nvtx_start, ws_nvtx_end, ws_nvtx_thread, ws_nvtx_text, ws_nvtx_type,
	 WS_NVTX_PUSHPOP, WS_NVTX_STARTEND},
};

/* Find phases among the rows of one table, which are by (thread, start, longer first). Returns how
 * many there were. */
static size_t find_phases(struct phases *phases, const struct phase_source *source,
			  const struct ws_rows *rows)
{
	uint64_t *const *col = rows->col, inside = 0; /* inside: end of the last phase */
	size_t step = 0, count = 0;

	for (size_t i = 0; i < rows->rows; i++) {
		uint64_t thread = col[source->thread][i], start = col[source->start][i],
			 end = col[source->end][i];
		const struct ws_step *current;

		if ((col[source->type][i] != source->first_type &&
		     col[source->type][i] != source->second_type) ||
		    end == WS_NO_TIME || end < start)
			continue;
		while (step < phases->steps.count && (phases->steps.steps[step].thread < thread ||
						      (phases->steps.steps[step].thread == thread &&
						       phases->steps.steps[step].end <= start))) {
			step++;
			inside = 0;
		}
		current = &phases->steps.steps[step];
		if (step == phases->steps.count || current->thread != thread ||
		    start < current->start || end > current->end || start < inside ||
		    !is_in_window(phases, current) ||
		    (start == current->start && end == current->end))
			continue;
		inside = end;
		add_phase(phases,
			  (uint64_t)ws_report_string_key(phases->stats->report,
							 (uint32_t)col[source->name][i]) +
				  1,
			  end - start);
		phases->covered[step] += end - start;
		count++;
	}
	return count;
}

static int read_phases(struct phases *phases, struct ws_err *err)
{
	for (size_t i = 0; i < WS_COUNT(phase_sources); i++) {
		const struct phase_source *source = &phase_sources[i];
		struct ws_scan scan = {
			.table = source->table,
			.columns = UINT64_C(1) << source->start | UINT64_C(1) << source->end |
				   UINT64_C(1) << source->thread | UINT64_C(1) << source->name |
				   UINT64_C(1) << source->type,
			.time_max = UINT64_MAX};
		struct ws_rows rows;
		size_t count;

		if (ws_rows_load(phases->stats->report, &scan, &rows, err) < 0)
			return -1;
		phases->stats->damaged += rows.damaged;
		count = find_phases(phases, source, &rows);
		ws_rows_free(&rows);
		if (count)
			break;
	}
	return 0;
}

static void print_phases(struct phases *phases)
{
	struct ws_keyed_sums sums;
	struct ws_summary_row *lines;

	for (size_t i = 0; i < phases->steps.count; i++) {
		uint64_t took = phases->steps.steps[i].end - phases->steps.steps[i].start;

		if (is_in_window(phases, &phases->steps.steps[i]))
			add_phase(phases, 0, took - phases->covered[i]);
	}
	ws_keyed_merge(&phases->times, 1, NULL, NULL, &sums);
	lines = ws_calloc(sums.count + 1, sizeof(*lines));
	for (size_t i = 0; i < sums.count; i++) {
		lines[i].summary = &sums.summaries[i];
		lines[i].name = rest_name;
		lines[i].name_length = strlen(rest_name);
		if (sums.keys[i])
			lines[i].name = ws_report_string(phases->stats->report,
							 (uint32_t)(sums.keys[i] - 1),
							 &lines[i].name_length);
	}
	ws_print_summary_rows(phases->stats, lines, sums.count);
	free(lines);
	ws_keyed_sums_free(&sums);
}

static int make_step_phases_rows(struct ws_stats *stats, struct ws_err *err)
{
	const char *name = ws_get_stats_arg(stats, "step=*");
	struct phases phases = {.stats = stats, .times = {.words = 1, .dists_per_key = 1}};
	char *wanted = NULL;
	int status;

	if (name)
		wanted = ws_strndup(name, strcspn(name, ":"));
	status = ws_steps_load(stats->report, stats->who, wanted, &phases.steps, err);
	free(wanted);
	stats->damaged += phases.steps.damaged;
	if (phases.steps.count)
		qsort(phases.steps.steps, phases.steps.count, sizeof(*phases.steps.steps),
		      compare_steps);
	phases.covered = ws_calloc(phases.steps.count + 1, sizeof(*phases.covered));
	if (!status && phases.steps.count)
		status = read_phases(&phases, err);
	if (!status && phases.steps.count)
		print_phases(&phases);
	ws_steps_free(&phases.steps);
	free(phases.covered);
	return status;
}

static const char *const args[] = {"step=*", NULL};

const struct ws_stats_report ws_stat_step_phases = {
	.name = "step_phases",
	.title = "Phases of Training Steps",
	.about = "The ranges directly inside of steps, by name, with their share of the steps' "
		 "time on the CPU, and what no range "
		 "covers. Steps are "
		 "annotations ProfilerStep#N, or NVTX ranges called step, iteration and the like; "
		 ":step=NAME names others",
	.what = "steps",
	.args = args,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_step_phases_rows,
};
