/*
 * proj.c - see proj.h.
 *
 * Work is added to the node of its launch (enclose.h), then each node to the one around it, from
 * the inside out: a node's parent has a lower number.
 */
#include "stats/proj.h"
#include "base/choose.h"

#include <stdlib.h>
#include <string.h>

#include "stats/cuda.h"

struct pass {
	struct ws_launches *launches;
	const struct ws_cuda_columns *columns;
	struct ws_proj_span *node;
	uint64_t unended, backwards;
};

static void least(uint64_t *values, uint64_t x)
{
	uint64_t old = __atomic_load_n(values, __ATOMIC_RELAXED);

	while (x < old && !__atomic_compare_exchange_n(values, &old, x, true, __ATOMIC_RELAXED,
						       __ATOMIC_RELAXED))
		;
}

static void most(uint64_t *values, uint64_t x)
{
	uint64_t old = __atomic_load_n(values, __ATOMIC_RELAXED);

	while (x > old && !__atomic_compare_exchange_n(values, &old, x, true, __ATOMIC_RELAXED,
						       __ATOMIC_RELAXED))
		;
}

static int scan(void *ctx, const struct ws_batch *batch)
{
	struct pass *pass = ctx;
	const uint64_t *start = batch->col[pass->columns->start],
		       *end = batch->col[pass->columns->end];
	const uint64_t *process = batch->col[pass->columns->process],
		       *correlation = batch->col[pass->columns->correlation];

	for (size_t i = 0; i < batch->rows; i++) {
		uint32_t node = ws_launches_node(pass->launches, process[i], correlation[i]);

		if (!node)
			continue;
		if (ws_unlikely(end[i] == WS_NO_TIME || end[i] < start[i])) {
			__atomic_fetch_add(end[i] == WS_NO_TIME ? &pass->unended : &pass->backwards,
					   1, __ATOMIC_RELAXED);
			continue;
		}
		least(&pass->node[node].first, start[i]);
		most(&pass->node[node].last, end[i]);
		__atomic_fetch_add(&pass->node[node].ops, 1, __ATOMIC_RELAXED);
	}
	return 0;
}

static void merge(struct ws_proj_span *to, const struct ws_proj_span *from)
{
	if (!from->ops)
		return;
	to->first = ws_min(from->first, to->first);
	to->last = ws_max(from->last, to->last);
	to->ops += from->ops;
}

static struct ws_proj_span *new_spans(size_t n)
{
	struct ws_proj_span *span = ws_malloc(n * sizeof(*span));

	for (size_t i = 0; i < n; i++)
		span[i] = (struct ws_proj_span){.first = UINT64_MAX};
	return span;
}

static void scan_all(struct ws_stats *stats, struct pass *pass)
{
	for (int i = WS_CUDA_KERNEL; i < WS_CUDA_SOURCES; i++) {
		const struct ws_cuda_columns *columns = pass->columns = &ws_cuda_columns[i];
		struct ws_scan sc = {
			.table = columns->table,
			.columns = UINT64_C(1) << columns->start | UINT64_C(1) << columns->end |
				   UINT64_C(1) << columns->process |
				   UINT64_C(1) << columns->correlation,
			.time_min = stats->time_min,
			.time_max = stats->time_max,
		};
		uint64_t damaged = 0;

		ws_scan_run(stats->report, &sc, scan, pass, &damaged);
		stats->damaged += damaged;
	}
	stats->unended += pass->unended;
	stats->backwards += pass->backwards;
}

int ws_proj_load(struct ws_stats *stats, struct ws_proj *proj, struct ws_err *err)
{
	struct pass pass = {0};
	const struct ws_enclose *enclose;

	memset(proj, 0, sizeof(*proj));
	pass.launches = proj->launches = ws_launches_open(stats, true, err);
	if (!proj->launches)
		return -1;
	enclose = &proj->launches->enclose;
	pass.node = new_spans(enclose->n);
	scan_all(stats, &pass);
	proj->span = new_spans(proj->launches->ranges.n);
	for (uint32_t i = enclose->n; --i;) {
		merge(&pass.node[enclose->node[i].parent], &pass.node[i]);
		merge(&proj->span[enclose->node[i].range], &pass.node[i]);
	}
	free(pass.node);
	proj->parent = ws_malloc(proj->launches->ranges.n * sizeof(*proj->parent));
	proj->level = ws_malloc(proj->launches->ranges.n * sizeof(*proj->level));
	proj->children = ws_calloc(proj->launches->ranges.n, sizeof(*proj->children));
	ws_ranges_nest(&proj->launches->ranges, proj->parent, proj->level);
	for (uint32_t i = 0; i < proj->launches->ranges.n; i++)
		if (proj->span[i].ops && proj->parent[i] != WS_NO_RANGE)
			proj->children[proj->parent[i]]++;
	return 0;
}

void ws_proj_free(struct ws_proj *proj)
{
	ws_launches_close(proj->launches);
	free(proj->span);
	free(proj->parent);
	free(proj->level);
	free(proj->children);
}
