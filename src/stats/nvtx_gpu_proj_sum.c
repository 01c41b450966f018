/* nvtx_gpu_proj_sum.c - NVTX ranges by name, with the time that the GPU spent on the work launched
 * inside (projection.c). */
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "stats/keyed.h"
#include "stats/projection.h"
#include "stats/summary_rows.h"

static const struct ws_column columns[] = {
	{"Range", WS_KIND_TEXT},
	{"Style", WS_KIND_TEXT},
	{"Total Proj Time", WS_KIND_TIME},
	{"Total Range Time", WS_KIND_TIME},
	{"Range Instances", WS_KIND_COUNT},
	{"Proj Avg", WS_KIND_MEAN},
	{"Proj Med", WS_KIND_MEAN},
	{"Proj Min", WS_KIND_TIME},
	{"Proj Max", WS_KIND_TIME},
	{"Proj StdDev", WS_KIND_MEAN},
	{"Total GPU Ops", WS_KIND_COUNT},
	{"Avg GPU Ops", WS_KIND_RATIO},
	{"Avg Range Lvl", WS_KIND_RATIO},
	{"Avg Num Child", WS_KIND_RATIO},
	{"Helper Ops", WS_KIND_COUNT},
};

struct range_sums { /* in addition to the distribution of projected times */
	uint64_t range_ns, ops, levels, children, helped;
};

/* Names that never repeat make a million groups: they are stored in arrays, not allocated one by
 * one. */
struct projection_group {
	struct ws_summary summary; /* first: the group's line points to it */
	struct range_sums more;
};

static void print_projection_sum(struct ws_stats *stats, const struct ws_summary_row *line)
{
	const struct projection_group *group = (const struct projection_group *)line->summary;
	long double instances = (long double)group->summary.count;

	stats->row(stats, (struct ws_cell[]){
				  ws_cell_text(line->name, line->name_length),
				  ws_cell_text(line->style, strlen(line->style)),
				  ws_cell_int((int64_t)group->summary.total),
				  ws_cell_int((int64_t)group->more.range_ns),
				  ws_cell_int((int64_t)group->summary.count),
				  ws_cell_real(ws_compute_summary_mean(&group->summary)),
				  ws_cell_real(ws_compute_summary_median(&group->summary)),
				  ws_cell_int((int64_t)group->summary.min),
				  ws_cell_int((int64_t)group->summary.max),
				  ws_cell_real(group->summary.stddev),
				  ws_cell_int((int64_t)group->more.ops),
				  ws_cell_real((long double)group->more.ops / instances),
				  ws_cell_real((long double)group->more.levels / instances),
				  ws_cell_real((long double)group->more.children / instances),
				  ws_cell_int((int64_t)group->more.helped),
			  });
}

enum { AHEAD = 16 }; /* keys or lines that are prefetched */

static void add_projected_range(const struct ws_projection *proj, uint32_t range,
				struct ws_dist *dist, struct range_sums *sums)
{
	uint64_t start = ws_range_get(&proj->launches->ranges, range, ws_nvtx_start),
		 end = ws_range_get(&proj->launches->ranges, range, ws_nvtx_end);

	ws_dist_add(dist, proj->span[range].last - proj->span[range].first);
	if (end != WS_NO_TIME)
		sums->range_ns += end - start;
	sums->ops += proj->span[range].ops;
	sums->levels += proj->level[range];
	sums->children += proj->children[range];
	sums->helped += proj->span[range].helped;
}

/* Group the ranges that have work by name; (*sums)[i] gets the sums of group i. */
static void group_ranges(const struct ws_projection *proj, struct ws_keyed_dists *groups,
			 struct range_sums **sums)
{
	size_t capacity = 0;

	for (uint32_t from = 0, count; from < proj->launches->ranges.count; from += count) {
		uint64_t key[AHEAD];

		count = ws_min(proj->launches->ranges.count - from, AHEAD);
		for (uint32_t i = 0; i < count; i++) {
			if (!proj->span[from + i].ops)
				continue;
			key[i] = ws_make_range_key(proj->launches, from + i);
			ws_keyed_prefetch(groups, &key[i]);
		}
		for (uint32_t i = 0; i < count; i++) {
			struct ws_dist *dist;

			if (!proj->span[from + i].ops)
				continue;
			dist = ws_keyed_get(groups, &key[i]);
			if (groups->count > capacity) {
				size_t old = capacity;

				ws_grow(*sums, capacity, groups->count);
				memset(*sums + old, 0, (capacity - old) * sizeof(**sums));
			}
			add_projected_range(proj, from + i, dist, &(*sums)[groups->last]);
		}
	}
}

/* Set the lines of all groups. Returns the *owned_count names that were allocated; the caller frees
 * them and the array. */
static char **name_projection_lines(const struct ws_projection *proj,
				    const struct ws_keyed_dists *groups,
				    const struct projection_group *group,
				    struct ws_summary_row *lines, size_t *owned_count)
{
	char **owned = NULL;
	size_t count = 0, capacity = 0;

	for (size_t i = 0; i < groups->count; i++) {
		char *made = NULL;

		lines[i] = (struct ws_summary_row){
			.summary = &group[i].summary,
			.style = ws_get_range_style_name(groups->keys[i] & WS_RANGE_STARTEND)};
		lines[i].name = ws_get_range_name_text(proj->launches, groups->keys[i],
						       &lines[i].name_length, &made);
		if (!made)
			continue;
		ws_grow(owned, capacity, count + 1);
		owned[count++] = made;
	}
	*owned_count = count;
	return owned;
}

static void print_projection_sums(struct ws_stats *stats, const struct ws_projection *proj,
				  struct ws_keyed_dists *groups, const struct range_sums *sums)
{
	struct ws_summary_row *lines = ws_malloc((groups->count + 1) * sizeof(*lines));
	struct projection_group *group = ws_malloc((groups->count + 1) * sizeof(*group));
	size_t owned_count;
	char **owned;

	for (size_t i = 0; i < groups->count; i++) {
		struct ws_dist *dist = &groups->dists[i];

		group[i] = (struct projection_group){ws_summarise_dists(&dist, 1), sums[i]};
	}
	owned = name_projection_lines(proj, groups, group, lines, &owned_count);
	ws_sort_summary_rows(lines, groups->count);
	for (size_t i = 0; i < groups->count; i++) {
		if (i + AHEAD < groups->count) {
			__builtin_prefetch(lines[i + AHEAD].summary);
			__builtin_prefetch((const char *)lines[i + AHEAD].summary + sizeof(*group) -
					   1);
			__builtin_prefetch(lines[i + AHEAD].name);
		}
		print_projection_sum(stats, &lines[i]);
	}
	while (owned_count)
		free(owned[--owned_count]);
	free(owned);
	free(lines);
	free(group);
}

static int make_nvtx_gpu_proj_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	struct ws_keyed_dists groups = {.words = 1, .dists_per_key = 1};
	struct range_sums *sums = NULL;
	struct ws_projection proj;
	int status = ws_load_projection(stats, &proj, err);

	if (!status) {
		proj.launches->fold = stats->fold;
		group_ranges(&proj, &groups, &sums);
		print_projection_sums(stats, &proj, &groups, sums);
	}
	ws_keyed_free(&groups);
	free(sums);
	ws_free_projection(&proj);
	return status;
}

static const char *const args[] = {WS_HELPER_ARG, NULL};

const struct ws_stats_report ws_stat_nvtx_gpu_proj_sum = {
	.name = "nvtx_gpu_proj_sum",
	.title = "NVTX GPU Projection Summary",
	.about = "NVTX ranges by name and style, projected to the GPU: from the start of the first "
		 "kernel, copy or memset that was "
		 "launched inside, on the same thread, to the end of the last. Ranges without such "
		 "work are not here" WS_HELPER_HELP,
	.what = "NVTX ranges with work on a GPU",
	.unended = "held work without times",
	.args = args,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.last_column_arg = WS_HELPER_ARG,
	.run = make_nvtx_gpu_proj_sum_rows,
};
