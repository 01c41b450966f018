/* steps.c - see steps.h. */
#include "query/steps.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/choose.h"

static void add_step(struct ws_steps *steps, const struct ws_names_by_id *who, uint64_t thread,
		     uint64_t start, uint64_t end, uint64_t text)
{
	ws_grow(steps->steps, steps->cap, steps->count + 1);
	steps->steps[steps->count++] =
		(struct ws_step){.start = start,
				 .end = end,
				 .process = ws_find_thread(who, (uint32_t)thread)->process,
				 .thread = (uint32_t)thread,
				 .text = (uint32_t)text};
}

struct step_search {
	const struct ws_report *report;
	const struct ws_names_by_id *who;
	const char *name;
	struct ws_steps *steps;
	uint8_t *is_step; /* by string id: 1 a step's name, 2 not */
};

static bool is_step_name(struct step_search *search, uint64_t id)
{
	size_t len;
	const char *text;

	if (id > ws_report_string_count(search->report))
		return false;
	if (!search->is_step[id]) {
		text = ws_report_string(search->report, (uint32_t)id, &len);
		search->is_step[id] = 2 - ws_is_step_name(text, len, search->name);
	}
	return search->is_step[id] == 1;
}

static int find_in_ops(struct step_search *search, struct ws_err *err)
{
	struct ws_scan scan = {.table = WS_TABLE_op,
			       .columns = WS_COLUMN_BIT(op, start) | WS_COLUMN_BIT(op, end) |
					  WS_COLUMN_BIT(op, thread) | WS_COLUMN_BIT(op, kind) |
					  WS_COLUMN_BIT(op, name),
			       .time_max = UINT64_MAX};
	struct ws_rows rows;

	if (ws_rows_load(search->report, &scan, &rows, err) < 0)
		return -1;
	search->steps->damaged += rows.damaged;
	for (size_t i = 0; i < rows.rows; i++)
		if (rows.col[ws_op_kind][i] == WS_OP_ANNOTATION &&
		    rows.col[ws_op_end][i] != WS_NO_TIME &&
		    rows.col[ws_op_end][i] > rows.col[ws_op_start][i] &&
		    is_step_name(search, rows.col[ws_op_name][i]))
			add_step(search->steps, search->who, rows.col[ws_op_thread][i],
				 rows.col[ws_op_start][i], rows.col[ws_op_end][i],
				 rows.col[ws_op_name][i]);
	ws_rows_free(&rows);
	return 0;
}

static int find_in_ranges(struct step_search *search, struct ws_err *err)
{
	struct ws_scan scan = {.table = WS_TABLE_nvtx,
			       .columns = WS_COLUMN_BIT(nvtx, start) | WS_COLUMN_BIT(nvtx, end) |
					  WS_COLUMN_BIT(nvtx, thread) | WS_COLUMN_BIT(nvtx, type) |
					  WS_COLUMN_BIT(nvtx, text),
			       .time_max = UINT64_MAX};
	struct ws_rows rows;

	if (ws_rows_load(search->report, &scan, &rows, err) < 0)
		return -1;
	search->steps->damaged += rows.damaged;
	for (size_t i = 0; i < rows.rows; i++) {
		uint64_t type = rows.col[ws_nvtx_type][i], start = rows.col[ws_nvtx_start][i],
			 end = rows.col[ws_nvtx_end][i];

		if ((type == WS_NVTX_PUSHPOP || type == WS_NVTX_STARTEND) && end != WS_NO_TIME &&
		    end > start && is_step_name(search, rows.col[ws_nvtx_text][i]))
			add_step(search->steps, search->who, rows.col[ws_nvtx_thread][i], start,
				 end, rows.col[ws_nvtx_text][i]);
	}
	ws_rows_free(&rows);
	return 0;
}

/* Rows are in order of (thread, start, longer first): leaves out those inside the one before on
 * their thread. */
static void keep_outermost(struct ws_steps *steps)
{
	size_t kept = 0;

	for (size_t i = 0; i < steps->count; i++)
		if (!kept || steps->steps[i].thread != steps->steps[kept - 1].thread ||
		    steps->steps[i].end > steps->steps[kept - 1].end)
			steps->steps[kept++] = steps->steps[i];
	steps->count = kept;
}

static int compare_steps(const void *first, const void *second)
{
	const struct ws_step *left = first, *right = second;

	if (left->process != right->process)
		return ws_compare(left->process, right->process);
	if (left->start != right->start)
		return ws_compare(left->start, right->start);
	return ws_compare(left->thread, right->thread);
}

int ws_steps_load(const struct ws_report *report, const struct ws_names_by_id *who,
		  const char *name, struct ws_steps *steps, struct ws_err *err)
{
	struct step_search search = {.report = report, .who = who, .name = name, .steps = steps};
	int rc;

	memset(steps, 0, sizeof(*steps));
	search.is_step = ws_calloc((size_t)ws_report_string_count(report) + 1, 1);
	rc = find_in_ops(&search, err);
	if (!rc && !steps->count)
		rc = find_in_ranges(&search, err);
	free(search.is_step);
	keep_outermost(steps);
	if (steps->count)
		qsort(steps->steps, steps->count, sizeof(*steps->steps), compare_steps);
	for (size_t i = 1; i < steps->count; i++)
		if (steps->steps[i].process == steps->steps[i - 1].process)
			steps->steps[i].number = steps->steps[i - 1].number + 1;
	return rc;
}

void ws_steps_free(struct ws_steps *steps)
{
	free(steps->steps);
	memset(steps, 0, sizeof(*steps));
}
