/*
 * nvtx_gpu_proj_trace.c - every NVTX range in which work was launched, in order of start, with its
 * projection to the GPU (proj.c).
 *
 * RangeId numbers all ranges of the report, those without work too, so it does not depend on
 * filters.
 */
#include <stdlib.h>
#include <string.h>

#include "stats/proj.h"
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
};

static int by_start(const void *first, const void *second, void *ctx)
{
	const struct ws_ranges *ranges = ctx;
	uint32_t x = *(const uint32_t *)first, y = *(const uint32_t *)second;
	uint64_t sx = ws_range_get(ranges, x, ws_nvtx_start),
		 sy = ws_range_get(ranges, y, ws_nvtx_start);

	if (sx != sy)
		return sx < sy ? -1 : 1;
	if (ws_range_get(ranges, x, ws_nvtx_thread) !=
	    ws_range_get(ranges, y,
			 ws_nvtx_thread)) /* the later thread first, as nvtx_pushpop_trace */
		return x < y ? 1 : -1;
	return ws_compare(x, y); /* longer first */
}

/* Levels shown of a nesting; deeper ones only a broken program or file has. */
enum { DEEPEST = 1000 };

/* ":1:5:6": the ids of the ranges around it and its own; of too deep ones, dots and the nearest. */
static void put_stack(const struct ws_proj *proj, const uint32_t *id, uint32_t i,
		      struct ws_text *out)
{
	uint32_t ids[DEEPEST], depth = proj->level[i] < DEEPEST ? proj->level[i] + 1 : DEEPEST;

	out->len = 0;
	if (proj->level[i] >= DEEPEST)
		ws_text_puts(out, ":...");
	for (uint32_t n = depth; n--; i = proj->parent[i])
		ids[n] = id[i];
	for (uint32_t n = 0; n < depth; n++)
		ws_text_printf(out, ":%u", (unsigned)ids[n]);
}

static void print_range(struct ws_stats *stats, const struct ws_proj *proj, const uint32_t *id,
			uint32_t i, struct ws_text *stack)
{
	const struct ws_ranges *ranges = &proj->launches->ranges;
	uint64_t start = ws_range_get(ranges, i, ws_nvtx_start),
		 end = ws_range_get(ranges, i, ws_nvtx_end);
	const struct ws_thread_info *thread =
		ws_who_thread(stats->who, (uint32_t)ws_range_get(ranges, i, ws_nvtx_thread));
	const char *style = ws_proj_style(proj, i);
	size_t len;
	char *name =
		ws_launches_range_name(proj->launches, ws_launches_key(proj->launches, i), &len);

	put_stack(proj, id, i, stack);
	stats->row(stats,
		   (struct ws_cell[]){
			   ws_cell_text(name, len),
			   ws_cell_int((int64_t)(proj->span[i].first - stats->zero)),
			   ws_cell_int((int64_t)(proj->span[i].last - proj->span[i].first)),
			   ws_cell_int((int64_t)(start - stats->zero)),
			   end == WS_NO_TIME ? ws_cell_null() : ws_cell_int((int64_t)(end - start)),
			   ws_cell_text(style, strlen(style)),
			   ws_cell_int(thread->pid),
			   ws_cell_int(thread->tid),
			   ws_cell_int((int64_t)proj->span[i].ops),
			   ws_cell_int(proj->level[i]),
			   ws_cell_int(proj->children[i]),
			   ws_cell_int(id[i]),
			   proj->parent[i] == WS_NO_RANGE ? ws_cell_null()
							  : ws_cell_int(id[proj->parent[i]]),
			   ws_cell_text(stack->text, stack->len),
		   });
	free(name);
}

static void print(struct ws_stats *stats, const struct ws_proj *proj)
{
	uint32_t n = proj->launches->ranges.n, *order = ws_malloc(n * sizeof(*order)),
		 *id = ws_malloc(n * sizeof(*id));
	struct ws_text stack = {0};

	for (uint32_t i = 0; i < n; i++)
		order[i] = i;
	if (n)
		qsort_r(order, n, sizeof(*order), by_start, &proj->launches->ranges);
	for (uint32_t i = 0; i < n; i++)
		id[order[i]] = i + 1;
	for (uint32_t i = 0; i < n; i++)
		if (proj->span[order[i]].ops)
			print_range(stats, proj, id, order[i], &stack);
	ws_text_free(&stack);
	free(order);
	free(id);
}

static int run(struct ws_stats *stats, struct ws_err *err)
{
	struct ws_proj proj;
	int rc = ws_proj_load(stats, &proj, err);

	if (!rc)
		print(stats, &proj);
	ws_proj_free(&proj);
	return rc;
}

const struct ws_stat ws_stat_nvtx_gpu_proj_trace = {
	.name = "nvtx_gpu_proj_trace",
	.title = "NVTX GPU Projection Trace",
	.about = "Every NVTX range in which work was launched, by start, projected to the GPU as "
		 "in nvtx_gpu_proj_sum, with its place in "
		 "the nesting of its thread; NumChild counts the ranges directly inside that have "
		 "work.",
	.what = "NVTX ranges with work on a GPU",
	.unended = "held work without times",
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = run,
};
