/*
 * flame_gpu.c - the time of GPUs by what launched the work: the operators and ranges around the
 * launch, or its call stack.
 *
 * query/profile.h knows NVTX ranges. Frameworks' traces have operators instead, and calls of Python
 * as a stack; recordings with
 * --cudabacktrace have the stacks of calls themselves. The lanes of a thread hold the first two by
 * depth: on each level at most one event spans a call, so that a path is as many searches as there
 * are levels, once for each innermost event.
 */
#include <stdlib.h>
#include <string.h>

#include "query/correlate.h"
#include "base/choose.h"
#include "query/gpu.h"
#include "serve/flame.h"

struct making {
	struct ws_api_call *call;
	struct ws_profile *profile;
	bool by_stack, fold;
	struct ws_calls calls;
	struct ws_map chains;	 /* process << 32 | correlation: stack of the call */
	struct ws_map units;	 /* name: unit */
	struct ws_map ops;	 /* source << 32 | name: unit */
	struct ws_map lane_from; /* thread: its first in `lanes` */
	struct path_lane {
		uint32_t thread, lane;
	} * lanes; /* by thread; outermost first */
	size_t lane_n, lane_cap;
	const struct ws_cuda_columns *columns;
	enum ws_cuda_source source;
	uint32_t unread;
};

/* ---- where launches were made ---- */

/* Python calls enclose operators; without stacks, ranges and operators it is. */
static int rank_of(const struct making *making, const struct ws_lane *lane)
{
	if (lane->kind == WS_LANE_OP && lane->key[1])
		return making->by_stack ? 1 : -1;
	if (lane->kind == WS_LANE_OP)
		return 3;
	return lane->kind == WS_LANE_NVTX && !lane->key[2] && !making->by_stack ? 2 : -1;
}

static int compare_threads(const void *first, const void *second, void *ctx)
{
	const struct making *making = ctx;
	const struct path_lane *left = first, *right = second;

	if (left->thread != right->thread)
		return ws_compare(left->thread, right->thread);
	return rank_of(making, making->call->lanes->lane[left->lane]) -
	       rank_of(making, making->call->lanes->lane[right->lane]);
}

static void find_lanes(struct making *making)
{
	for (uint32_t i = 0; i < making->call->lanes->n; i++) {
		const struct ws_lane *lane = making->call->lanes->lane[i];

		if (rank_of(making, lane) < 0)
			continue;
		if (!ws_lane_ready(lane)) {
			ws_lanes_want(making->call->lanes, i);
			making->unread += ws_lane_reading(lane);
			continue;
		}
		ws_grow(making->lanes, making->lane_cap, making->lane_n + 1);
		making->lanes[making->lane_n++] = (struct path_lane){lane->key[0], i};
	}
	if (making->lane_n)
		qsort_r(making->lanes, making->lane_n, sizeof(*making->lanes), compare_threads,
			making);
	for (size_t i = making->lane_n; i--;)
		ws_map_set(&making->lane_from, making->lanes[i].thread, i);
}

static uint32_t unit_of_name(struct making *making, uint32_t name)
{
	const struct ws_lanes *lanes = making->call->lanes;
	uint32_t key = making->fold ? ws_lane_fold_key(lanes, name) : ws_lane_name_key(lanes, name);
	bool known;
	uint64_t unit = ws_map_get(&making->units, key, &known);
	size_t len;
	const char *text;

	if (known)
		return (uint32_t)unit;
	text = making->fold ? ws_lane_fold_name(lanes, name, &len)
			    : ws_lane_name(lanes, name, &len);
	unit = ws_calltree_add_made_unit(&making->profile->tree, text, len);
	ws_map_set(&making->units, key, unit);
	return (uint32_t)unit;
}

/* The node of what was under way around a call, from the outside in. */
static uint32_t path_node(struct making *making, uint32_t thread, uint64_t start, uint64_t end)
{
	uint32_t node = 0;
	bool known;

	for (size_t i = ws_map_get(&making->lane_from, thread, &known);
	     known && i < making->lane_n && making->lanes[i].thread == thread; i++) {
		const struct ws_lane *lane = making->call->lanes->lane[making->lanes[i].lane];

		for (uint32_t k = 0; k < lane->levels; k++) {
			const struct ws_level *level = &lane->level[k];
			uint32_t at = ws_level_seek(level, 0, level->n, start + 1);

			if (at-- && ws_level_end(level, at) >= end &&
			    !(level->src[at] & WS_EVENT_MOMENT))
				node = ws_calltree_find_or_add_child(&making->profile->tree, node,
								     unit_of_name(making,
										  level->name[at]));
		}
	}
	return node;
}

static int add_chain(void *ctx, const struct ws_batch *batch)
{
	struct making *making = ctx;

	for (size_t i = 0; i < batch->rows; i++) {
		uint64_t chain = batch->col[ws_cuda_api_callchain][i],
			 id = batch->col[ws_cuda_api_correlation][i];

		if (chain != WS_NO_U32 && chain && id != WS_NO_U32)
			ws_map_set(&making->chains,
				   (uint64_t)ws_find_thread(
					   making->call->lanes->who,
					   (uint32_t)batch->col[ws_cuda_api_thread][i])
							   ->process
						   << 32 |
					   (uint32_t)id,
				   chain);
	}
	return 0;
}

static void load_chains(struct making *making)
{
	struct ws_scan scan = {.table = WS_TABLE_cuda_api,
			       .columns = WS_COLUMN_BIT(cuda_api, thread) |
					  WS_COLUMN_BIT(cuda_api, correlation) |
					  WS_COLUMN_BIT(cuda_api, callchain),
			       .time_max = UINT64_MAX,
			       .workers = 1};

	ws_run_scan(making->call->rep->report, &scan, add_chain, making, NULL);
}

static uint32_t launch_node(struct making *making, uint64_t process, uint64_t correlation)
{
	uint32_t call = ws_calls_find(&making->calls, process, correlation), node = 0;
	bool known;
	uint64_t chain = ws_map_get(&making->chains, process << 32 | (uint32_t)correlation, &known);

	if (known)
		return ws_calltree_find_node(&making->profile->tree, 0, 0, (uint32_t)chain);
	if (call != WS_NO_CALL)
		node = path_node(making, (uint32_t)making->calls.rows.col[ws_cuda_api_thread][call],
				 making->calls.rows.col[ws_cuda_api_start][call],
				 making->calls.rows.col[ws_cuda_api_end][call]);
	if (!node && making->by_stack)
		node = ws_calltree_find_or_add_child(
			&making->profile->tree, 0,
			ws_calltree_add_made_unit(&making->profile->tree, "[no stack]", 10));
	return node;
}

/* ---- the work ---- */

static uint32_t unit_of_work(struct making *making, uint64_t name)
{
	uint64_t key = (uint64_t)making->source << 32 | (uint32_t)name;
	bool known;
	uint64_t unit = ws_map_get(&making->ops, key, &known);
	char buf[64];
	const char *text = buf;
	size_t len;

	if (known)
		return (uint32_t)unit;
	if (making->source == WS_CUDA_KERNEL)
		text = ws_fold_name(making->fold ? making->call->lanes->fold : NULL,
				    making->call->rep->report, (uint32_t)name, &len);
	else
		len = strlen(text = ws_format_cuda_op_name(making->source, name, buf, sizeof(buf)));
	unit = ws_calltree_add_made_unit(&making->profile->tree, text, len);
	ws_map_set(&making->ops, key, unit);
	return (uint32_t)unit;
}

static int add_work(void *ctx, const struct ws_batch *batch)
{
	struct making *making = ctx;
	const struct ws_cuda_columns *columns = making->columns;

	for (size_t i = 0; i < batch->rows; i++) {
		uint64_t start = batch->col[columns->start][i], end = batch->col[columns->end][i];
		struct ws_cost cost = {1, end - start, end - start};
		uint32_t node;

		if (end == WS_NO_TIME || end < start)
			continue;
		node = launch_node(making, batch->col[columns->process][i],
				   batch->col[columns->correlation][i]);
		node = ws_calltree_find_or_add_child(
			&making->profile->tree, node,
			unit_of_work(making, columns->name < 0 ? 0 : batch->col[columns->name][i]));
		ws_cost_add(&making->profile->tree.nodes[node].self, &cost);
		ws_cost_add(&making->profile->total, &cost);
	}
	return 0;
}

int ws_flame_gpu(struct ws_api_call *call, const struct ws_flame_window *window,
		 struct ws_profile *profile, uint32_t *unread, struct ws_err *err)
{
	struct making making = {.call = call, .profile = profile, .by_stack = window->by_stack};
	int rc;

	memset(profile, 0, sizeof(*profile));
	if (!ws_param_fold(call, &making.fold, err))
		return -1;
	profile->weight = "nanoseconds";
	profile->timed = true;
	profile->stacks = ws_stacks_open(call->rep->report, &profile->damaged);
	ws_calltree_init(&profile->tree, profile->stacks, WS_UNIT_FUNCTION, WS_FRAMES_ALL);
	rc = ws_calls_load(call->rep->report, call->lanes->who, 0, &making.calls, err) < 0;
	if (!rc && window->by_stack)
		load_chains(&making);
	find_lanes(&making);
	*unread = making.unread;
	for (making.source = WS_CUDA_KERNEL; !rc && making.source < WS_CUDA_SOURCES;
	     making.source++) {
		const struct ws_cuda_columns *columns = making.columns =
			&ws_cuda_columns[making.source];
		struct ws_scan scan = {
			.table = columns->table,
			.columns = UINT64_C(1) << columns->start | UINT64_C(1) << columns->end |
				   UINT64_C(1) << columns->process |
				   UINT64_C(1) << columns->correlation |
				   (columns->name < 0 ? 0 : UINT64_C(1) << columns->name),
			.time_min = (uint64_t)ws_max(window->t0, 0),
			.time_max = (uint64_t)ws_max(window->t1, 0),
			.workers = 1};

		ws_run_scan(call->rep->report, &scan, add_work, &making, &profile->damaged);
	}
	ws_calls_free(&making.calls);
	ws_map_free(&making.chains);
	ws_map_free(&making.units);
	ws_map_free(&making.ops);
	ws_map_free(&making.lane_from);
	free(making.lanes);
	return rc;
}
