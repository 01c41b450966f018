/*
 * scopes.c - see scopes.h. Rows come by (thread, start, longer first), so one stack of open scopes
 * for each thread is enough.
 *
 * There may be tens of millions of scopes of a few nanoseconds. Beyond a limit of memory, time is
 * kept in slices, whose length is chosen so that there are about a million of them. Each slice has
 * one name; the time of other names in it is kept as their credit, so that over many slices each
 * name gets its share.
 */
#include "analyze/scopes.h"

#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"
#include "base/search.h"

enum {
	DEEPEST = 512,
	PART = 1000000,	      /* rows that are in memory at a time */
	MOST_EXACT = 1000000, /* scopes that are kept as they are */
	CREDITS = 16	      /* names that share the slices of a thread */
};

struct open_scope {
	uint64_t end;
	uint32_t name;
};

struct credit {
	uint32_t name;
	int64_t ns; /* time of the thread in this name that no slice has used yet */
};

struct thread_sweep {
	struct open_scope open[DEEPEST];
	size_t depth;
	struct ws_scope_change *changes;
	size_t count, cap;
	/* Only where slices are kept: */
	struct credit credits[CREDITS];
	uint64_t slice, at; /* where the slice began; until when credits are given */
	uint32_t name;	    /* from there on */
};

struct sweep {
	const struct scope_source *source;
	struct thread_sweep **threads; /* by id; NULL without scopes */
	size_t thread_count;
	uint64_t slice_ns; /* 0: changes are kept as they are */
};

static void keep_change(struct thread_sweep *thread, uint64_t at, uint32_t name)
{
	struct ws_scope_change *last = NULL;

	if (thread->count)
		last = &thread->changes[thread->count - 1];
	if (last && last->name == name)
		return;
	if (last && last->at == at) {
		last->name = name;
		return;
	}
	ws_grow(thread->changes, thread->cap, thread->count + 1);
	thread->changes[thread->count++] = (struct ws_scope_change){.at = at, .name = name};
}

/* The credit of a name; a new name replaces the one whose credit is nearest to 0. */
static struct credit *find_credit(struct thread_sweep *thread, uint32_t name)
{
	struct credit *least = &thread->credits[0];

	for (size_t i = 0; i < CREDITS; i++) {
		if (thread->credits[i].name == name)
			return &thread->credits[i];
		if (llabs(thread->credits[i].ns) < llabs(least->ns))
			least = &thread->credits[i];
	}
	*least = (struct credit){.name = name};
	return least;
}

/* Ends the slice, which gets the name with the most credit. */
static void give_slice(struct thread_sweep *thread, uint64_t length)
{
	struct credit *most = &thread->credits[0];

	for (size_t i = 1; i < CREDITS; i++)
		if (thread->credits[i].ns > most->ns)
			most = &thread->credits[i];
	most->ns -= (int64_t)length;
	keep_change(thread, thread->slice, most->name);
	thread->slice += length;
}

/* Adds the time up to `until` to the credit of the name that it was spent in. */
static void spend_time(struct thread_sweep *thread, uint64_t until, uint64_t slice_ns)
{
	struct credit *credit = find_credit(thread, thread->name);

	while (until >= thread->slice + slice_ns) {
		credit->ns += (int64_t)(thread->slice + slice_ns - thread->at);
		thread->at = thread->slice + slice_ns;
		give_slice(thread, slice_ns);
		if (until - thread->at <= slice_ns)
			continue;
		/* Whole slices of one name. */
		keep_change(thread, thread->slice, thread->name);
		thread->slice = thread->at = until - (until - thread->at) % slice_ns;
	}
	credit->ns += (int64_t)(until - thread->at);
	thread->at = until;
}

static void add_change(const struct sweep *sweep, struct thread_sweep *thread, uint64_t at,
		       uint32_t name)
{
	if (!sweep->slice_ns) {
		keep_change(thread, at, name);
		return;
	}
	if (!thread->at)
		thread->slice = thread->at = at;
	spend_time(thread, ws_max(at, thread->at), sweep->slice_ns);
	thread->name = name;
}

/* Close what ends at or before `until`. An inner scope that outlives the outer ends with it. */
static void close_scopes(const struct sweep *sweep, struct thread_sweep *thread, uint64_t until)
{
	while (thread->depth && thread->open[thread->depth - 1].end <= until) {
		uint64_t end = thread->open[--thread->depth].end;
		uint32_t outer = 0;

		if (thread->depth)
			outer = thread->open[thread->depth - 1].name;
		add_change(sweep, thread, end, outer);
	}
}

static void open_scope(const struct sweep *sweep, struct thread_sweep *thread, uint64_t start,
		       uint64_t end, uint32_t name)
{
	close_scopes(sweep, thread, start);
	if (thread->depth == DEEPEST)
		return;
	if (thread->depth)
		end = ws_min(end, thread->open[thread->depth - 1].end);
	if (end <= start)
		return;
	thread->open[thread->depth++] = (struct open_scope){end, name};
	add_change(sweep, thread, start, name);
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

static struct thread_sweep *find_thread(struct sweep *sweep, uint64_t id)
{
	if (id >= sweep->thread_count)
		return NULL;
	if (!sweep->threads[id])
		sweep->threads[id] = ws_calloc(1, sizeof(*sweep->threads[id]));
	return sweep->threads[id];
}

static void sweep_rows(void *context, const struct ws_rows *rows)
{
	struct sweep *sweep = context;
	const struct scope_source *source = sweep->source;

	for (size_t i = 0; i < rows->rows; i++) {
		uint64_t end = rows->col[source->end][i], type = rows->col[source->type][i];
		struct thread_sweep *thread;

		if (type > 63 || !(source->wanted >> type & 1) || end == WS_NO_TIME)
			continue;
		thread = find_thread(sweep, rows->col[source->thread][i]);
		if (thread)
			open_scope(sweep, thread, rows->col[source->start][i], end,
				   (uint32_t)rows->col[source->name][i]);
	}
}

/* Closes what is open and moves all changes to `scopes`, by thread. */
static void gather_changes(struct sweep *sweep, struct ws_scopes *scopes)
{
	for (size_t id = 0; id < sweep->thread_count; id++) {
		struct thread_sweep *thread = sweep->threads[id];

		if (!thread)
			continue;
		close_scopes(sweep, thread, UINT64_MAX);
		if (sweep->slice_ns && thread->at > thread->slice)
			give_slice(thread, thread->at - thread->slice);
		if (sweep->slice_ns)
			keep_change(thread, thread->at, 0);
		ws_grow(scopes->changes, scopes->cap, scopes->count + thread->count);
		for (size_t i = 0; i < thread->count; i++) {
			scopes->changes[scopes->count] = thread->changes[i];
			scopes->changes[scopes->count++].thread = (uint32_t)id;
		}
		free(thread->changes);
		free(thread);
	}
}

static void load_source(const struct ws_report *report, const struct scope_source *source,
			size_t thread_count, struct ws_scopes *scopes)
{
	struct ws_scan scan = {.table = source->table,
			       .columns = UINT64_C(1) << source->start |
					  UINT64_C(1) << source->end |
					  UINT64_C(1) << source->thread |
					  UINT64_C(1) << source->name | UINT64_C(1) << source->type,
			       .time_max = UINT64_MAX};
	struct sweep sweep = {.source = source, .thread_count = thread_count};
	uint64_t first, last;

	if (ws_report_count_rows(report, source->table) > MOST_EXACT &&
	    ws_find_event_span(report, &first, &last))
		sweep.slice_ns = (last - first) / MOST_EXACT + 1;
	sweep.threads = ws_calloc(thread_count, sizeof(struct thread_sweep *));
	ws_rows_load_parts(report, &scan, PART, sweep_rows, &sweep);
	gather_changes(&sweep, scopes);
	free(sweep.threads);
}

void ws_scopes_load(const struct ws_report *report, size_t thread_count, struct ws_scopes *scopes)
{
	memset(scopes, 0, sizeof(*scopes));
	for (size_t i = 0; i < WS_COUNT(sources) && !scopes->count; i++)
		if (ws_report_count_rows(report, sources[i].table))
			load_source(report, &sources[i], thread_count, scopes);
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
