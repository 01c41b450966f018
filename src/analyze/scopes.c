/* scopes.c - see scopes.h. Rows come by (thread, start, longer first), so that a stack of open
 * scopes is all that is needed. */
#include "analyze/scopes.h"

#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"
#include "base/search.h"

enum { DEEPEST = 512 };

struct sweep {
	struct ws_scopes *scopes;
	uint32_t thread;
	struct {
		uint64_t end;
		uint32_t name;
	} open[DEEPEST];
	size_t depth;
};

static void add_change(struct sweep *sweep, uint64_t at, uint32_t name)
{
	struct ws_scopes *scopes = sweep->scopes;

	if (scopes->count && scopes->changes[scopes->count - 1].thread == sweep->thread &&
	    scopes->changes[scopes->count - 1].at == at) {
		scopes->changes[scopes->count - 1].name = name;
		return;
	}
	ws_grow(scopes->changes, scopes->cap, scopes->count + 1);
	scopes->changes[scopes->count++] = (struct ws_scope_change){at, sweep->thread, name};
}

/* Close what ends at or before `until`. An inner scope that outlives the outer ends with it. */
static void close_scopes(struct sweep *sweep, uint64_t until)
{
	while (sweep->depth && sweep->open[sweep->depth - 1].end <= until) {
		uint64_t end = sweep->open[--sweep->depth].end;
		uint32_t outer = 0;

		if (sweep->depth)
			outer = sweep->open[sweep->depth - 1].name;
		add_change(sweep, end, outer);
	}
}

static void open_scope(struct sweep *sweep, uint64_t start, uint64_t end, uint32_t name)
{
	close_scopes(sweep, start);
	if (sweep->depth == DEEPEST)
		return;
	if (sweep->depth)
		end = ws_min(end, sweep->open[sweep->depth - 1].end);
	if (end <= start)
		return;
	sweep->open[sweep->depth].end = end;
	sweep->open[sweep->depth++].name = name;
	add_change(sweep, start, name);
}

struct scope_source {
	enum ws_table table;
	int start, end, thread, name, type;
	uint64_t wanted; /* bit by value of the type */
};

static const struct scope_source sources[] = {
	{WS_TABLE_op, ws_op_start, ws_op_end, ws_op_thread, ws_op_name, ws_op_kind,
	 1u << WS_OP_CPU | 1u << WS_OP_ANNOTATION | 1u << WS_OP_PYTHON},
	{WS_TABLE_nvtx, ws_nvtx_start, ws_nvtx_end, ws_nvtx_thread, ws_nvtx_text, ws_nvtx_type,
	 UINT64_C(1) << WS_NVTX_PUSHPOP},
};

static void sweep_rows(const struct scope_source *source, const struct ws_rows *rows,
		       struct ws_scopes *scopes)
{
	struct sweep sweep = {.scopes = scopes};

	for (size_t i = 0; i < rows->rows; i++) {
		uint64_t end = rows->col[source->end][i], thread = rows->col[source->thread][i];

		if (rows->col[source->type][i] > 63 ||
		    !(source->wanted >> rows->col[source->type][i] & 1) || end == WS_NO_TIME)
			continue;
		if (thread != sweep.thread) {
			close_scopes(&sweep, UINT64_MAX);
			sweep.thread = (uint32_t)thread;
		}
		open_scope(&sweep, rows->col[source->start][i], end,
			   (uint32_t)rows->col[source->name][i]);
	}
	close_scopes(&sweep, UINT64_MAX);
}

int ws_scopes_load(const struct ws_report *report, struct ws_scopes *scopes, struct ws_err *err)
{
	memset(scopes, 0, sizeof(*scopes));
	for (size_t i = 0; i < WS_COUNT(sources) && !scopes->count; i++) {
		const struct scope_source *source = &sources[i];
		struct ws_scan scan = {
			.table = source->table,
			.columns = UINT64_C(1) << source->start | UINT64_C(1) << source->end |
				   UINT64_C(1) << source->thread | UINT64_C(1) << source->name |
				   UINT64_C(1) << source->type,
			.time_max = UINT64_MAX};
		struct ws_rows rows;

		if (ws_rows_load(report, &scan, &rows, err) < 0)
			return -1;
		sweep_rows(source, &rows, scopes);
		ws_rows_free(&rows);
	}
	return 0;
}

void ws_scopes_free(struct ws_scopes *scopes)
{
	free(scopes->changes);
	memset(scopes, 0, sizeof(*scopes));
}

size_t ws_scopes_find(const struct ws_scopes *scopes, uint32_t thread, uint64_t at)
{
	size_t low = ws_find_first_not(0, scopes->count, middle,
				       scopes->changes[middle].thread < thread ||
					       (scopes->changes[middle].thread == thread &&
						scopes->changes[middle].at <= at));

	if (!low || scopes->changes[low - 1].thread != thread)
		return SIZE_MAX;
	return low - 1;
}
