/*
 * explain.c - see explain.h.
 *
 * Dividing by steps and runs leaves remainders. They are carried from row to row, so that rounding
 * moves a nanosecond from one row to the next but loses none.
 */
#include "compare/explain.h"

#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"

/* Divides amounts, one after the other, so that the results add up to the sum divided. */
struct divider {
	uint64_t sum, given, by;
};

static uint64_t divide_next(struct divider *divider, uint64_t amount)
{
	uint64_t upto, result;

	divider->sum += amount;
	upto = divider->sum / divider->by;
	result = upto - divider->given;
	divider->given = upto;
	return result;
}

static struct ws_explained_row *find_or_add_row(struct ws_explanation *explanation,
						const char *cause, const char *what)
{
	struct ws_explained_row *row;

	for (size_t i = 0; i < explanation->count; i++) {
		row = &explanation->rows[i];
		if (!strcmp(row->cause, cause) && !strcmp(row->what, what))
			return row;
	}
	ws_grow(explanation->rows, explanation->cap, explanation->count + 1);
	row = &explanation->rows[explanation->count++];
	*row = (struct ws_explained_row){.cause = ws_strdup(cause), .what = ws_strdup(what)};
	return row;
}

static const char *find_thread_name(const struct ws_model *model, uint32_t thread)
{
	const struct ws_thread_info *info = ws_find_thread(model->who, thread);

	if (*info->name)
		return info->name;
	return info->process_name;
}

static bool is_on_gpu(const struct ws_breakdown_row *row)
{
	return row->cause == WS_CAUSE_GPU_COMPUTE || row->cause == WS_CAUSE_GPU_COMM ||
	       row->cause == WS_CAUSE_GPU_COPY || row->cause == WS_CAUSE_GPU_DELAY;
}

/* What a row of a breakdown is about, without the numbers that each run gives its threads. */
static void put_what(const struct ws_model *model, const struct ws_breakdown_row *row,
		     struct ws_text *text)
{
	struct ws_breakdown_row bare = *row;

	bare.thread = 0;
	bare.place.line = 0; /* line numbers change when code is edited */
	ws_breakdown_put_row(model, &bare, text);
	if (row->thread && !is_on_gpu(row))
		ws_text_printf(text, "%s[%s]", text->len ? " " : "",
			       find_thread_name(model, row->thread));
}

static void add_breakdown(const struct ws_model *model, const struct ws_breakdown *breakdown,
			  const char *prefix, size_t side, struct divider *divider,
			  struct ws_explanation *explanation)
{
	enum { MOST_ROWS = 500 }; /* the rest is one row per cause */

	for (size_t i = 0; i < breakdown->count; i++) {
		const struct ws_breakdown_row *row = &breakdown->rows[i];
		char *cause = ws_format("%s%s", prefix, ws_name_cause((enum ws_cause)row->cause));
		struct ws_text what = {0};

		if (i < MOST_ROWS)
			put_what(model, row, &what);
		find_or_add_row(explanation, cause, ws_text_or(what.text, ""))->sum[side] +=
			divide_next(divider, row->ns);
		ws_text_free(&what);
		free(cause);
	}
}

void ws_explain_path(const struct ws_analysis *analysis, size_t side,
		     struct ws_explanation *explanation)
{
	struct divider divider = {.by = analysis->steps};

	add_breakdown(analysis->model, &analysis->breakdown, "", side, &divider, explanation);
}

void ws_explain_gpu(const struct ws_analysis *analysis, size_t gpu, size_t side,
		    struct ws_explanation *explanation)
{
	const struct ws_gpu_budget *budget = &analysis->gpus[gpu];
	struct divider divider = {.by = analysis->steps};
	const struct {
		const char *name;
		uint64_t ns;
	} parts[] = {{"computation", budget->compute},
		     {"communication that nothing hides", budget->exposed_comm},
		     {"copies that nothing hides", budget->exposed_copies}};

	for (size_t i = 0; i < WS_COUNT(parts); i++)
		find_or_add_row(explanation, parts[i].name, "")->sum[side] +=
			divide_next(&divider, parts[i].ns);
	add_breakdown(analysis->model, &budget->idle, "idle: ", side, &divider, explanation);
}

static int compare_rows(const void *first, const void *second)
{
	const struct ws_explained_row *left = first, *right = second;
	int64_t left_change = llabs(left->ns[1] - left->ns[0]),
		right_change = llabs(right->ns[1] - right->ns[0]);

	if (left_change != right_change)
		return ws_compare(right_change, left_change);
	if (left->ns[0] != right->ns[0])
		return ws_compare(right->ns[0], left->ns[0]);
	return strcmp(left->cause, right->cause);
}

static struct ws_explained_row *find_or_add_cause(struct ws_explanation *explanation,
						  const char *cause)
{
	for (size_t i = 0; i < explanation->cause_count; i++)
		if (!strcmp(explanation->causes[i].cause, cause))
			return &explanation->causes[i];
	ws_grow(explanation->causes, explanation->cause_cap, explanation->cause_count + 1);
	explanation->causes[explanation->cause_count] =
		(struct ws_explained_row){.cause = ws_strdup(cause)};
	return &explanation->causes[explanation->cause_count++];
}

void ws_explanation_finish(struct ws_explanation *explanation, const size_t runs[WS_SIDES])
{
	for (size_t side = 0; side < WS_SIDES; side++) {
		struct divider divider = {.by = runs[side]};

		for (size_t i = 0; i < explanation->count; i++) {
			struct ws_explained_row *row = &explanation->rows[i];

			row->ns[side] = (int64_t)divide_next(&divider, row->sum[side]);
			explanation->total[side] += row->ns[side];
			find_or_add_cause(explanation, row->cause)->ns[side] += row->ns[side];
		}
	}
	if (!explanation->count)
		return;
	qsort(explanation->rows, explanation->count, sizeof(*explanation->rows), compare_rows);
	qsort(explanation->causes, explanation->cause_count, sizeof(*explanation->causes),
	      compare_rows);
}

void ws_explanation_free(struct ws_explanation *explanation)
{
	for (size_t i = 0; i < explanation->count; i++) {
		free(explanation->rows[i].cause);
		free(explanation->rows[i].what);
	}
	for (size_t i = 0; i < explanation->cause_count; i++)
		free(explanation->causes[i].cause);
	free(explanation->rows);
	free(explanation->causes);
	free(explanation->title);
	memset(explanation, 0, sizeof(*explanation));
}
