/* steps.c - see steps.h. */
#include "query/steps.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/choose.h"

struct step_search {
	const struct ws_report *report;
	const struct ws_names_by_id *who;
	const char *name;
	struct ws_steps *steps;
	uint8_t *
		is_step; /* by string id: 1 a step's name, 2 another; read and written atomically */
	pthread_mutex_t lock; /* of steps */
};

static void add_step(struct step_search *search, uint64_t thread, uint64_t start, uint64_t end,
		     uint64_t text)
{
	struct ws_steps *steps = search->steps;

	pthread_mutex_lock(&search->lock);
	ws_grow(steps->steps, steps->cap, steps->count + 1);
	steps->steps[steps->count++] =
		(struct ws_step){.start = start,
				 .end = end,
				 .process = ws_find_thread(search->who, (uint32_t)thread)->process,
				 .thread = (uint32_t)thread,
				 .text = (uint32_t)text};
	pthread_mutex_unlock(&search->lock);
}

static bool is_step_name(struct step_search *search, uint64_t id)
{
	size_t len;
	const char *text;
	uint8_t known;

	if (id > ws_report_string_count(search->report))
		return false;
	known = __atomic_load_n(&search->is_step[id], __ATOMIC_RELAXED);
	if (!known) {
		text = ws_report_string(search->report, (uint32_t)id, &len);
		known = 2 - ws_is_step_name(text, len, search->name);
		__atomic_store_n(&search->is_step[id], known, __ATOMIC_RELAXED);
	}
	return known == 1;
}

static int find_in_annotations(void *context, const struct ws_batch *batch)
{
	struct step_search *search = context;

	for (size_t i = 0; i < batch->rows; i++)
		if (batch->col[ws_op_kind][i] == WS_OP_ANNOTATION &&
		    batch->col[ws_op_end][i] != WS_NO_TIME &&
		    batch->col[ws_op_end][i] > batch->col[ws_op_start][i] &&
		    is_step_name(search, batch->col[ws_op_name][i]))
			add_step(search, batch->col[ws_op_thread][i], batch->col[ws_op_start][i],
				 batch->col[ws_op_end][i], batch->col[ws_op_name][i]);
	return 0;
}

static int find_in_ranges(void *context, const struct ws_batch *batch)
{
	struct step_search *search = context;

	for (size_t i = 0; i < batch->rows; i++) {
		uint64_t type = batch->col[ws_nvtx_type][i], start = batch->col[ws_nvtx_start][i],
			 end = batch->col[ws_nvtx_end][i];

		if ((type == WS_NVTX_PUSHPOP || type == WS_NVTX_STARTEND) && end != WS_NO_TIME &&
		    end > start && is_step_name(search, batch->col[ws_nvtx_text][i]))
			add_step(search, batch->col[ws_nvtx_thread][i], start, end,
				 batch->col[ws_nvtx_text][i]);
	}
	return 0;
}

static void find_steps(struct step_search *search)
{
	struct ws_scan annotations = {.table = WS_TABLE_op,
				      .columns = WS_COLUMN_BIT(op, start) | WS_COLUMN_BIT(op, end) |
						 WS_COLUMN_BIT(op, thread) |
						 WS_COLUMN_BIT(op, kind) | WS_COLUMN_BIT(op, name),
				      .time_max = UINT64_MAX},
		       ranges = {.table = WS_TABLE_nvtx,
				 .columns = WS_COLUMN_BIT(nvtx, start) | WS_COLUMN_BIT(nvtx, end) |
					    WS_COLUMN_BIT(nvtx, thread) |
					    WS_COLUMN_BIT(nvtx, type) | WS_COLUMN_BIT(nvtx, text),
				 .time_max = UINT64_MAX};
	uint64_t damaged = 0;

	ws_run_scan(search->report, &annotations, find_in_annotations, search, &damaged);
	search->steps->damaged += damaged;
	if (search->steps->count)
		return;
	ws_run_scan(search->report, &ranges, find_in_ranges, search, &damaged);
	search->steps->damaged += damaged;
}

static int compare_places(const void *first, const void *second)
{
	const struct ws_step *left = first, *right = second;

	if (left->thread != right->thread)
		return ws_compare(left->thread, right->thread);
	if (left->start != right->start)
		return ws_compare(left->start, right->start);
	if (left->end != right->end)
		return ws_compare(right->end, left->end);
	return ws_compare(left->text, right->text);
}

/* Leaves out the steps inside another of their thread. */
static void keep_outermost(struct ws_steps *steps)
{
	size_t kept = 0;

	if (steps->count)
		qsort(steps->steps, steps->count, sizeof(*steps->steps), compare_places);
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
	struct step_search search = {.report = report,
				     .who = who,
				     .name = name,
				     .steps = steps,
				     .lock = PTHREAD_MUTEX_INITIALIZER};

	memset(steps, 0, sizeof(*steps));
	search.is_step = ws_calloc((size_t)ws_report_string_count(report) + 1, 1);
	find_steps(&search);
	free(search.is_step);
	keep_outermost(steps);
	if (steps->count)
		qsort(steps->steps, steps->count, sizeof(*steps->steps), compare_steps);
	for (size_t i = 1; i < steps->count; i++)
		if (steps->steps[i].process == steps->steps[i - 1].process)
			steps->steps[i].number = steps->steps[i - 1].number + 1;
	(void)err; /* running out of memory ends the program; damage is counted */
	return 0;
}

void ws_steps_free(struct ws_steps *steps)
{
	free(steps->steps);
	memset(steps, 0, sizeof(*steps));
}
