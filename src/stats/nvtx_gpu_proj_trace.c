/*
 * nvtx_gpu_proj_trace.c - every NVTX range in which work was launched, in order of start, with its
 * projection to the GPU (projection.c).
 *
 * RangeId numbers all ranges of the report, including those without work, so that it does not
 * depend on filters.
 */
#include <stdlib.h>
#include <string.h>

#include "stats/projection.h"
#include "base/choose.h"

static const struct ws_column columns[] = {
	{"Name", WS_KIND_TEXT},
	{"Projected Start", WS_KIND_TIME},
	{"Projected Duration", WS_KIND_TIME},
	{"Orig Start", WS_KIND_TIME},
	{"Orig Duration", WS_KIND_TIME},
	{"Style", WS_KIND_TEXT},
	{"PID", WS_KIND_ID},
	{"TID", WS_KIND_ID},
	{"NumGPUOps", WS_KIND_COUNT},
	{"Lvl", WS_KIND_ID},
	{"NumChild", WS_KIND_COUNT},
	{"RangeId", WS_KIND_ID},
	{"ParentId", WS_KIND_ID},
	{"RangeStack", WS_KIND_TEXT},
	{"Helper Ops", WS_KIND_COUNT},
};

static int compare_range_starts(const void *first, const void *second, void *context)
{
	const struct ws_ranges *ranges = context;
	uint32_t left = *(const uint32_t *)first, right = *(const uint32_t *)second;
	uint64_t left_start = ws_range_get(ranges, left, ws_nvtx_start),
		 right_start = ws_range_get(ranges, right, ws_nvtx_start);

	if (left_start != right_start)
		return ws_compare(left_start, right_start);
	/* Ranges of the later thread first, as in nvtx_pushpop_trace; of one thread, longer first.
	 */
	if (ws_range_get(ranges, left, ws_nvtx_thread) !=
	    ws_range_get(ranges, right, ws_nvtx_thread))
		return ws_compare(right, left);
	return ws_compare(left, right);
}

/* How many nesting levels are shown; only broken programs or files have more. */
enum { DEEPEST = 1000 };

/* ":1:5:6": the ids of the ranges around range i and its own; if there are too many, "..." and the
 * innermost ones. */
static void put_range_stack(const struct ws_projection *proj, const uint32_t *id, uint32_t range,
			    struct ws_text *out)
{
	uint32_t ids[DEEPEST], depth = ws_min(proj->level[range], DEEPEST - 1u) + 1;

	out->len = 0;
	if (proj->level[range] >= DEEPEST)
		ws_text_puts(out, ":...");
	for (uint32_t level = depth; level--; range = proj->parent[range])
		ids[level] = id[range];
	for (uint32_t level = 0; level < depth; level++)
		ws_text_printf(out, ":%u", (unsigned)ids[level]);
}

static void print_projected_range(struct ws_stats *stats, const struct ws_projection *proj,
				  const uint32_t *id, uint32_t range, struct ws_text *stack)
{
	const struct ws_ranges *ranges = &proj->launches->ranges;
	uint64_t start = ws_range_get(ranges, range, ws_nvtx_start),
		 end = ws_range_get(ranges, range, ws_nvtx_end);
	const struct ws_thread_info *thread =
		ws_find_thread(stats->who, (uint32_t)ws_range_get(ranges, range, ws_nvtx_thread));
	const char *style = ws_get_projected_style(proj, range);
	struct ws_cell parent = ws_cell_null();
	size_t length;
	char *name = ws_make_range_name(proj->launches, ws_make_range_key(proj->launches, range),
					&length);

	if (proj->parent[range] != WS_NO_RANGE)
		parent = ws_cell_int(id[proj->parent[range]]);
	put_range_stack(proj, id, range, stack);
	stats->row(stats,
		   (struct ws_cell[]){
			   ws_cell_text(name, length),
			   ws_cell_int((int64_t)(proj->span[range].first - stats->zero)),
			   ws_cell_int((int64_t)(proj->span[range].last - proj->span[range].first)),
			   ws_cell_int((int64_t)(start - stats->zero)),
			   ws_cell_int_if(end != WS_NO_TIME, (int64_t)(end - start)),
			   ws_cell_text(style, strlen(style)),
			   ws_cell_int(thread->pid),
			   ws_cell_int(thread->tid),
			   ws_cell_int((int64_t)proj->span[range].ops),
			   ws_cell_int(proj->level[range]),
			   ws_cell_int(proj->children[range]),
			   ws_cell_int(id[range]),
			   parent,
			   ws_cell_text(stack->text, stack->len),
			   ws_cell_int((int64_t)proj->span[range].helped),
		   });
	free(name);
}

static void print_projected_ranges(struct ws_stats *stats, const struct ws_projection *proj)
{
	uint32_t count = proj->launches->ranges.count, *order = ws_malloc(count * sizeof(*order)),
		 *id = ws_malloc(count * sizeof(*id));
	struct ws_text stack = {0};

	for (uint32_t i = 0; i < count; i++)
		order[i] = i;
	if (count)
		qsort_r(order, count, sizeof(*order), compare_range_starts,
			&proj->launches->ranges);
	for (uint32_t i = 0; i < count; i++)
		id[order[i]] = i + 1;
	for (uint32_t i = 0; i < count; i++)
		if (proj->span[order[i]].ops)
			print_projected_range(stats, proj, id, order[i], &stack);
	ws_text_free(&stack);
	free(order);
	free(id);
}

static int make_nvtx_gpu_proj_trace_rows(struct ws_stats *stats, struct ws_err *err)
{
	struct ws_projection proj;
	int status = ws_load_projection(stats, &proj, err);

	if (!status)
		print_projected_ranges(stats, &proj);
	ws_free_projection(&proj);
	return status;
}

static const char *const args[] = {WS_HELPER_ARG, NULL};

const struct ws_stats_report ws_stat_nvtx_gpu_proj_trace = {
	.name = "nvtx_gpu_proj_trace",
	.title = "NVTX GPU Projection Trace",
	.about = "Every NVTX range in which work was launched, by start, projected to the GPU as "
		 "in nvtx_gpu_proj_sum, with its place in "
		 "the nesting of its thread; NumChild counts the ranges directly inside that have "
		 "work" WS_HELPER_HELP,
	.what = "NVTX ranges with work on a GPU",
	.unended = "held work without times",
	.args = args,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.last_column_arg = WS_HELPER_ARG,
	.run = make_nvtx_gpu_proj_trace_rows,
};
