/*
 * projection.c - see projection.h.
 *
 * Work is added to the node of its launch (query/enclose.h), then each node to the one around it,
 * from the inside out: a node's parent has a lower number.
 */
#include "stats/projection.h"
#include "base/choose.h"

#include <stdlib.h>
#include <string.h>

#include "stats/cuda.h"

struct projection {
	struct ws_launches *launches;
	const struct ws_cuda_columns *columns;
	struct ws_projected_span *node;
	uint64_t unended, backwards;
};

/* Lower *minimum to `value`, if that is less; several threads do so. */
static void lower_minimum(uint64_t *minimum, uint64_t value)
{
	uint64_t old = __atomic_load_n(minimum, __ATOMIC_RELAXED);

	while (value < old && !__atomic_compare_exchange_n(minimum, &old, value, true,
							   __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static void raise_maximum(uint64_t *maximum, uint64_t value)
{
	uint64_t old = __atomic_load_n(maximum, __ATOMIC_RELAXED);

	while (value > old && !__atomic_compare_exchange_n(maximum, &old, value, true,
							   __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static int scan_projected_work(void *context, const struct ws_batch *batch)
{
	struct projection *projection = context;
	const struct ws_enclose *enclose = &projection->launches->enclose;
	const uint64_t *start = batch->col[projection->columns->start],
		       *end = batch->col[projection->columns->end];
	const uint64_t *process = batch->col[projection->columns->process],
		       *correlation = batch->col[projection->columns->correlation];

	for (size_t i = 0; i < batch->rows; i++) {
		uint32_t call =
			ws_find_launch_call(projection->launches, process[i], correlation[i]);
		uint32_t node = 0;

		if (call != WS_NO_CALL)
			node = enclose->node_of_call[call];
		if (!node)
			continue;
		if (ws_unlikely(end[i] == WS_NO_TIME || end[i] < start[i])) {
			ws_count_left_out_shared(end[i], &projection->unended,
						 &projection->backwards);
			continue;
		}
		lower_minimum(&projection->node[node].first, start[i]);
		raise_maximum(&projection->node[node].last, end[i]);
		__atomic_fetch_add(&projection->node[node].ops, 1, __ATOMIC_RELAXED);
		if (enclose->helped && enclose->helped[call])
			__atomic_fetch_add(&projection->node[node].helped, 1, __ATOMIC_RELAXED);
	}
	return 0;
}

static void merge_span(struct ws_projected_span *to, const struct ws_projected_span *from)
{
	if (!from->ops)
		return;
	to->first = ws_min(from->first, to->first);
	to->last = ws_max(from->last, to->last);
	to->ops += from->ops;
	to->helped += from->helped;
}

/* Add the work of a node to the node around it and to its range. */
static void merge_node(struct projection *projection, struct ws_projection *proj, uint32_t i)
{
	const struct ws_enclose *enclose = &projection->launches->enclose;
	struct ws_projected_span span = projection->node[i];

	merge_span(&projection->node[enclose->node[i].parent], &span);
	if (enclose->helped && i >= enclose->own) /* the range of the thread that launched it */
		span.helped = 0;
	merge_span(&proj->span[enclose->node[i].range], &span);
}

static struct ws_projected_span *make_empty_spans(size_t count)
{
	struct ws_projected_span *span = ws_malloc(count * sizeof(*span));

	for (size_t i = 0; i < count; i++)
		span[i] = (struct ws_projected_span){.first = UINT64_MAX};
	return span;
}

static void scan_all_work(struct ws_stats *stats, struct projection *projection)
{
	for (int i = WS_CUDA_KERNEL; i < WS_CUDA_SOURCES; i++) {
		const struct ws_cuda_columns *columns = projection->columns = &ws_cuda_columns[i];
		struct ws_scan scan = {
			.table = columns->table,
			.columns = UINT64_C(1) << columns->start | UINT64_C(1) << columns->end |
				   UINT64_C(1) << columns->process |
				   UINT64_C(1) << columns->correlation,
			.time_min = stats->time_min,
			.time_max = stats->time_max,
		};
		uint64_t damaged = 0;

		ws_run_scan(stats->report, &scan, scan_projected_work, projection, &damaged);
		stats->damaged += damaged;
	}
	stats->unended += projection->unended;
	stats->backwards += projection->backwards;
}

int ws_load_projection(struct ws_stats *stats, struct ws_projection *proj, struct ws_err *err)
{
	struct projection projection = {0};
	const struct ws_enclose *enclose;

	memset(proj, 0, sizeof(*proj));
	projection.launches = proj->launches = ws_launches_open(stats, true, err);
	if (!proj->launches || ws_put_helper_launches(stats, proj->launches, err) < 0)
		return -1;
	enclose = &proj->launches->enclose;
	projection.node = make_empty_spans(enclose->count);
	scan_all_work(stats, &projection);
	proj->span = make_empty_spans(proj->launches->ranges.count);
	for (uint32_t i = enclose->count; --i;)
		merge_node(&projection, proj, i);
	free(projection.node);
	proj->parent = ws_malloc(proj->launches->ranges.count * sizeof(*proj->parent));
	proj->level = ws_malloc(proj->launches->ranges.count * sizeof(*proj->level));
	proj->children = ws_calloc(proj->launches->ranges.count, sizeof(*proj->children));
	ws_ranges_find_parents(&proj->launches->ranges, proj->parent, proj->level);
	for (uint32_t i = 0; i < proj->launches->ranges.count; i++)
		if (proj->span[i].ops && proj->parent[i] != WS_NO_RANGE)
			proj->children[proj->parent[i]]++;
	return 0;
}

void ws_free_projection(struct ws_projection *proj)
{
	ws_launches_close(proj->launches);
	free(proj->span);
	free(proj->parent);
	free(proj->level);
	free(proj->children);
}
