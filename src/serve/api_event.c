/*
 * api_event.c - one event with all its columns, its stack, and what it is tied to: a launch and its
 * kernel, a range and the work it caused, a wait and what it waited for: work on a GPU, the thread
 * that held the lock, the thread that woke it.
 *
 * Nothing is indexed for this. What belongs together lies close in time, so blocks are searched
 * from the nearest on, and the first few hold it.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/choose.h"
#include "text/text.h"
#include "serve/api.h"
#include "lanes/names.h"

struct event {
	struct ws_call *call;
	struct ws_spot spot;
	const struct ws_source *source;
	uint8_t source_number;
	uint32_t row;
	uint64_t start, end;
	bool more_work; /* only the first and the last work of a range is among the links */
	uint64_t v[WS_MAX_COLUMNS];
	bool is_state; /* of a thread (thread_states.c), which is no row of a table */
	struct ws_state state;
};

/* ---- the row ---- */

static bool read_row(const struct ws_report *report, enum ws_table table, uint64_t row,
		     uint64_t *values)
{
	uint64_t *out[WS_MAX_COLUMNS] = {NULL};
	uint32_t columns = ws_tables[table].column_count;
	bool ok = false;

	for (size_t i = 0; i < ws_report_blocks(report, table); i++) {
		uint32_t rows = ws_report_block(report, table, i).rows;

		if (row >= rows) {
			row -= rows;
			continue;
		}
		for (uint32_t k = 0; k < columns; k++)
			out[k] = ws_malloc((size_t)rows * 8);
		ok = !ws_report_decode(report, table, i, UINT64_MAX, out, NULL);
		for (uint32_t k = 0; k < columns; k++) {
			values[k] = ok ? out[k][row] : 0;
			free(out[k]);
		}
		break;
	}
	return ok;
}

static bool is_null(enum ws_type type, uint64_t v)
{
	return ((type == WS_T_NTIME || type == WS_T_NU64) && v == UINT64_MAX) ||
	       (type == WS_T_NU32 && v == WS_NO_U32) ||
	       ((type == WS_T_STR || type == WS_T_NTHREAD) && !v);
}

static void put_value(struct ws_text *text, const struct ws_call *call,
		      const struct ws_column_desc *desc, uint64_t v)
{
	double f;
	size_t n;
	const char *word;

	ws_put_string(text, "name", desc->name);
	ws_put_string(text, "doc", desc->doc);
	ws_put_string(text, "type", ws_types[desc->type].name);
	if (is_null(desc->type, v))
		return;
	if (desc->type == WS_T_STR) {
		word = ws_report_string(call->rep->report, (uint32_t)v, &n);
		ws_put_text(text, "text", word, ws_min(n, 65536));
		return;
	}
	if (desc->type == WS_T_THREAD || desc->type == WS_T_NTHREAD) {
		const struct ws_thread_info *info = ws_who_thread(call->lanes->who, (uint32_t)v);

		ws_put_string(text, "text", info->name[0] ? info->name : info->process_name);
		ws_put_int(text, "value", info->tid);
		return;
	}
	if (desc->type == WS_T_PROCESS) {
		ws_put_string(text, "text", ws_who_process(call->lanes->who, (uint32_t)v)->name);
		ws_put_int(text, "value", ws_who_process(call->lanes->who, (uint32_t)v)->pid);
		return;
	}
	ws_put_key(text, "value");
	memcpy(&f, &v, 8);
	if (desc->type == WS_T_F64)
		ws_text_printf(text, f == f && f < 1e300 && f > -1e300 ? "%.17g" : "null", f);
	else if (desc->type == WS_T_TIME || desc->type == WS_T_NTIME)
		ws_text_printf(text, "\"%" PRId64 "\"", (int64_t)(v - call->lanes->zero));
	else
		ws_text_printf(
			text,
			ws_types[desc->type].is_signed ? "\"%" PRId64 "\"" : "\"%" PRIu64 "\"", v);
}

static void put_columns(const struct event *event)
{
	struct ws_text *text = event->call->out;
	enum ws_table table = event->source->table;

	ws_put_string(text, "table", ws_tables[table].name);
	ws_put_string(text, "sqlite", ws_tables[table].sqlite);
	ws_put_key(text, "columns");
	ws_text_puts(text, "[");
	for (uint32_t k = 0; k < ws_tables[table].column_count; k++) {
		ws_put_comma(text);
		ws_text_puts(text, "{");
		put_value(text, event->call, &ws_tables[table].columns[k], event->v[k]);
		ws_text_puts(text, "}");
	}
	ws_text_puts(text, "]");
}

/* ---- states of threads ---- */

enum { AROUND = 1 }; /* ns: what ends where a wait begins touches it */

struct wanted_state {
	struct event *event;
	uint32_t thread;
};

/* Those who may hold what it waits for come as well, on other workers, and cut to the same time. */
static void take_state(void *ctx, uint32_t worker, const struct ws_state *st)
{
	const struct wanted_state *want = ctx;

	(void)worker;
	if (st->thread == want->thread && st->start == want->event->start &&
	    st->end == want->event->end)
		want->event->state = *st;
}

/* What else there is to say of it, from the rows around it. A call that never returned may have
 * begun long before: then less. */
static void read_state(struct event *event, uint32_t thread, uint32_t ref)
{
	uint8_t *threads = ws_calloc((size_t)thread + 1, 1);
	struct ws_states_part part = {.threads = threads, .n = (size_t)thread + 1, .holders = true};
	struct wanted_state want = {event, thread};
	struct ws_states *states;

	threads[thread] = 1;
	part.from = event->start > AROUND ? event->start - AROUND : 0;
	part.to = event->end + AROUND;
	states =
		ws_states_open_part(event->call->rep->report, event->call->lanes->who, &part, NULL);
	ws_states_run(states, event->start, event->end, take_state, &want);
	ws_states_close(states);
	free(threads);
	if (event->state.doing != ws_state_doing(ref) || event->state.wait != ws_state_wait(ref))
		event->state = (struct ws_state){.cpu = WS_NO_U32};
	event->state.thread = thread;
	event->state.doing = (uint8_t)ws_state_doing(ref);
	event->state.wait = (uint8_t)ws_state_wait(ref);
	event->state.after = (uint8_t)(ref >> 8);
}

static void put_word(const struct event *event, const struct ws_column_desc *desc, const char *word)
{
	ws_put_string(event->call->out, "name", desc->name);
	ws_put_string(event->call->out, "doc", desc->doc);
	ws_put_string(event->call->out, "type", "WORD");
	if (word)
		ws_put_string(event->call->out, "text", word);
}

static void put_state(const struct event *event)
{
	ws_put_string(event->call->out, "table", "state");
	ws_put_string(event->call->out, "sqlite", "");
	ws_put_key(event->call->out, "columns");
	ws_text_puts(event->call->out, "[");
	for (uint32_t k = 0; k < WS_STATE_COLUMNS; k++) {
		ws_put_comma(event->call->out);
		ws_text_puts(event->call->out, "{");
		if (ws_state_is_word(k))
			put_word(event, &ws_state_columns[k], ws_state_word(&event->state, k));
		else
			put_value(event->call->out, event->call, &ws_state_columns[k],
				  ws_state_value(&event->state, k));
		ws_text_puts(event->call->out, "}");
	}
	ws_text_puts(event->call->out, "]");
}

/* ---- links ---- */

static void put_link(struct event *event, const char *role, const struct ws_spot *spot)
{
	ws_put_comma(event->call->out);
	ws_text_puts(event->call->out, "{");
	ws_put_string(event->call->out, "role", role);
	ws_put_spot(event->call->out, event->call->lanes, spot);
	ws_text_puts(event->call->out, "}");
}

static int source_of(enum ws_table table)
{
	for (size_t i = 0; i < ws_source_count; i++)
		if (ws_sources[i].table == table)
			return (int)i;
	return -1;
}

/* Blocks of a table in the order of how far they are from `t`. */
struct near {
	size_t block;
	uint64_t away;
};

static int by_away(const void *first, const void *second)
{
	const struct near *left = first, *right = second;

	return left->away != right->away ? (left->away < right->away ? -1 : 1)
					 : ws_compare(left->block, right->block);
}

static struct near *nearest_blocks(const struct ws_report *report, enum ws_table table, uint64_t t,
				   size_t *n)
{
	struct near *near;

	*n = ws_report_blocks(report, table);
	near = ws_malloc((*n + 1) * sizeof(*near));
	for (size_t i = 0; i < *n; i++) {
		struct ws_block_info block_info = ws_report_block(report, table, i);

		near[i] = (struct near){i, t < block_info.time_min   ? block_info.time_min - t
					   : t > block_info.time_max ? t - block_info.time_max
								     : 0};
	}
	if (*n)
		qsort(near, *n, sizeof(*near), by_away);
	return near;
}

/* The columns of a table that a search by correlation needs. `owner` is the thread or the process.
 */
struct joined {
	enum ws_table table;
	int start, owner, correlation;
	bool thread;
};
static const struct joined api_join = {WS_TABLE_cuda_api, ws_cuda_api_start, ws_cuda_api_thread,
				       ws_cuda_api_correlation, true};
static const struct joined work_joins[] = {
	{WS_TABLE_cuda_kernel, ws_cuda_kernel_start, ws_cuda_kernel_process,
	 ws_cuda_kernel_correlation, false},
	{WS_TABLE_cuda_memcpy, ws_cuda_memcpy_start, ws_cuda_memcpy_process,
	 ws_cuda_memcpy_correlation, false},
	{WS_TABLE_cuda_memset, ws_cuda_memset_start, ws_cuda_memset_process,
	 ws_cuda_memset_correlation, false},
	{WS_TABLE_cuda_graph_trace, ws_cuda_graph_trace_start, ws_cuda_graph_trace_process,
	 ws_cuda_graph_trace_correlation, false},
	{WS_TABLE_cuda_sync, ws_cuda_sync_start, ws_cuda_sync_process, ws_cuda_sync_correlation,
	 false},
};

struct hit {
	uint64_t row, start;
	uint32_t owner, correlation;
};

struct hits {
	struct hit *hits;
	size_t n, cap, most;
};

enum { BLOCKS_SEARCHED = 48 };

/*
 * Rows of `process` whose correlation id is in `wanted`, from the blocks nearest to `t` on, until
 * `found->most` are found or enough has been searched.
 */
static void find_correlated(const struct ws_call *call, const struct joined *joined,
			    uint32_t process, const struct ws_map *wanted, uint64_t t,
			    struct hits *found)
{
	uint64_t columns = UINT64_C(1) << joined->start | UINT64_C(1) << joined->owner |
			   UINT64_C(1) << joined->correlation;
	uint64_t *out[WS_MAX_COLUMNS] = {NULL}, base;
	size_t n;
	struct near *near = nearest_blocks(call->rep->report, joined->table, t, &n);

	for (size_t i = 0; i < n && i < BLOCKS_SEARCHED && found->n < found->most; i++) {
		uint32_t rows =
			ws_report_block(call->rep->report, joined->table, near[i].block).rows;

		for (uint32_t k = 0; k < WS_MAX_COLUMNS; k++)
			if (columns >> k & 1)
				out[k] = ws_realloc(out[k], (size_t)rows * 8);
		if (ws_report_decode(call->rep->report, joined->table, near[i].block, columns, out,
				     NULL))
			continue;
		base = 0;
		for (size_t b = 0; b < near[i].block; b++)
			base += ws_report_block(call->rep->report, joined->table, b).rows;
		for (uint32_t k = 0; k < rows && found->n < found->most; k++) {
			uint64_t owner = out[joined->owner][k];
			bool is;

			ws_map_get(wanted, out[joined->correlation][k], &is);
			if (!is ||
			    (joined->thread
				     ? ws_who_thread(call->lanes->who, (uint32_t)owner)->process
				     : owner) != process)
				continue;
			ws_grow(found->hits, found->cap, found->n + 1);
			found->hits[found->n++] =
				(struct hit){base + k, out[joined->start][k], (uint32_t)owner,
					     (uint32_t)out[joined->correlation][k]};
		}
	}
	for (uint32_t k = 0; k < WS_MAX_COLUMNS; k++)
		free(out[k]);
	free(near);
}

/* ---- stacks ---- */

/* The functions of a frame, those inlined into it first. */
static void put_frame(const struct event *event, uint32_t frame)
{
	const struct ws_stacks *st = event->call->lanes->stacks;
	const struct ws_frame_info *frame_info = ws_stacks_frame(st, frame);
	const struct ws_place *place = ws_stacks_places(st, frame_info);
	struct ws_text *text = event->call->out;

	for (uint32_t i = 0; i < frame_info->count; i++) {
		const struct ws_function *fn = ws_stacks_function(st, place[i].function);
		const char *module = ws_stacks_module(st, frame_info->module)->path;
		size_t n;
		const char *file = ws_report_string(event->call->rep->report, place[i].file, &n);

		ws_put_comma(text);
		ws_text_puts(text, "{");
		ws_put_text(text, "name", fn->name, ws_min(fn->len, 16384));
		ws_put_text(text, "file", file, ws_min(n, 4096));
		ws_put_int(text, "line", place[i].line);
		ws_put_text(text, "module", module, strnlen(module, 4096));
		ws_put_int(text, "kind", frame_info->kind);
		ws_text_puts(text, "}");
	}
}

/* Call stack of the call that launched work on a GPU; 0 when there is none. */
static uint64_t launch_stack(const struct event *event)
{
	const struct joined *joined = NULL;
	struct hits hits = {.most = 1};
	struct ws_map wanted = {0};
	uint64_t v[WS_MAX_COLUMNS], stack = 0;

	for (size_t i = 0; i < WS_COUNT(work_joins); i++)
		joined = work_joins[i].table == event->source->table ? &work_joins[i] : joined;
	if (!joined || event->v[joined->correlation] == WS_NO_U32 || !event->v[joined->correlation])
		return 0;
	ws_map_set(&wanted, event->v[joined->correlation], 1);
	find_correlated(event->call, &api_join, (uint32_t)event->v[joined->owner], &wanted,
			event->start, &hits);
	if (hits.n && read_row(event->call->rep->report, WS_TABLE_cuda_api, hits.hits[0].row, v))
		stack = v[ws_cuda_api_callchain];
	ws_map_free(&wanted);
	free(hits.hits);
	return stack;
}

static void put_stack(const struct event *event)
{
	uint32_t path[WS_STACKS_DEEPEST];
	uint64_t stack = 0, leaf = 0;
	size_t n;

	if (event->source->table == WS_TABLE_sample) {
		leaf = event->v[ws_sample_frame];
		stack = event->v[ws_sample_callers];
	} else if (event->source->table == WS_TABLE_python_sample) {
		stack = event->v[ws_python_sample_stack];
	} else if (event->source->table == WS_TABLE_osrt) {
		stack = event->v[ws_osrt_callchain];
	} else if (event->is_state) {
		stack = event->state.callchain;
	} else if (event->source->table == WS_TABLE_cuda_api) {
		stack = event->v[ws_cuda_api_callchain];
	} else {
		stack = launch_stack(event);
	}
	n = ws_stacks_walk(event->call->lanes->stacks, (uint32_t)leaf,
			   stack == WS_NO_U32 ? 0 : (uint32_t)stack, path, WS_STACKS_DEEPEST);
	ws_put_key(event->call->out, "stack");
	ws_text_puts(event->call->out, "[");
	for (size_t i = 0; i < n; i++)
		put_frame(event, path[i]);
	ws_text_puts(event->call->out, "]");
}

/* ---- what is tied to what ---- */

/* Where a row of GPU work is shown: in its stream, or a wait among waits. */
static bool spot_of_work(const struct ws_call *call, enum ws_table table, const struct hit *hit,
			 struct ws_spot *spot)
{
	int source = source_of(table);
	uint8_t kind = table == WS_TABLE_cuda_sync ? WS_LANE_SYNC : WS_LANE_STREAM;

	for (uint32_t i = 0; source >= 0 && i < call->lanes->n; i++)
		if (call->lanes->lane[i]->kind == kind &&
		    call->lanes->lane[i]->key[0] == hit->owner &&
		    ws_find_event(call->lanes, i, (uint8_t)source, (uint32_t)hit->row, hit->start,
				  spot))
			return true;
	return false;
}

static bool spot_of_call(const struct ws_call *call, const struct hit *hit, struct ws_spot *spot)
{
	uint32_t key[4] = {hit->owner};

	return ws_find_event(call->lanes, ws_find_lane(call->lanes, WS_LANE_CUDA_API, key),
			     (uint8_t)source_of(WS_TABLE_cuda_api), (uint32_t)hit->row, hit->start,
			     spot);
}

/* NVTX ranges and operators of the thread around a moment, innermost first. */
static void link_ranges(struct event *event, uint32_t thread, uint64_t t)
{
	const struct ws_lanes *lanes = event->call->lanes;

	for (uint32_t i = 0; i < lanes->n; i++) {
		const struct ws_lane *lane = lanes->lane[i];

		if ((lane->kind != WS_LANE_NVTX && lane->kind != WS_LANE_OP) ||
		    lane->key[0] != thread || !ws_lane_ready(lane))
			continue;
		for (uint32_t k = lane->levels; k--;) {
			uint32_t from, to;

			ws_level_range(&lane->level[k], (int64_t)t, (int64_t)t + 1, &from, &to);
			if (from < to && !(lane->level[k].src[from] & WS_EVENT_MOMENT))
				put_link(event, "range", &(struct ws_spot){i, k, from});
		}
	}
}

/* From work on the GPU to its call and the ranges around that. */
static void link_to_call(struct event *event, uint32_t process, uint64_t correlation)
{
	struct hits hits = {.most = 1};
	struct ws_map wanted = {0};
	struct ws_spot spot;

	if (correlation == WS_NO_U32 || !correlation)
		return;
	ws_map_set(&wanted, correlation, 1);
	find_correlated(event->call, &api_join, process, &wanted, event->start, &hits);
	if (hits.n && spot_of_call(event->call, &hits.hits[0], &spot)) {
		put_link(event, "call", &spot);
		link_ranges(event, hits.hits[0].owner, hits.hits[0].start);
	}
	ws_map_free(&wanted);
	free(hits.hits);
}

/* The last work to end before the wait did, on the stream it waited for, or on the whole device. */
static void link_waited(struct event *event, uint32_t process, uint32_t device, uint64_t stream)
{
	const struct ws_lanes *lanes = event->call->lanes;
	struct ws_spot best = {0};
	uint64_t best_end = 0;

	for (uint32_t i = 0; i < lanes->n; i++) {
		const struct ws_lane *lane = lanes->lane[i];

		if (lane->kind != WS_LANE_STREAM || lane->key[0] != process ||
		    lane->key[1] != device || !ws_lane_ready(lane) ||
		    (stream != WS_NO_U32 && lane->key[3] != stream))
			continue;
		for (uint32_t k = 0; k < lane->levels; k++) {
			const struct ws_level *level = &lane->level[k];
			uint32_t at = ws_level_seek(level, 0, level->n, event->end);

			if (at && ws_level_end(level, at - 1) > event->end)
				at--;
			if (at && ws_level_end(level, at - 1) > best_end) {
				best = (struct ws_spot){i, k, at - 1};
				best_end = ws_level_end(level, at - 1);
			}
		}
	}
	if (best_end > event->start)
		put_link(event, "waited", &best);
}

static int by_hit_start(const void *first, const void *second)
{
	const struct hit *left = first, *right = second;

	return ws_compare(left->start, right->start);
}

enum { WORK_SHOWN = 64, WORK_MOST = 4096 };

/* From calls, by their correlation ids, to the work they caused; from a call that waits to what it
 * waited for. */
static void link_to_work(struct event *event, uint32_t process, const struct ws_map *wanted,
			 const char *role)
{
	uint64_t v[WS_MAX_COLUMNS];
	struct ws_spot spot;

	for (size_t i = 0; i < WS_COUNT(work_joins); i++) {
		const char *as = work_joins[i].table == WS_TABLE_cuda_sync ? "wait" : role;
		struct hits hits = {.most = wanted->n > 1 ? WORK_MOST : 4};

		if (!ws_report_rows(event->call->rep->report, work_joins[i].table))
			continue;
		find_correlated(event->call, &work_joins[i], process, wanted, event->start, &hits);
		if (hits.n)
			qsort(hits.hits, hits.n, sizeof(*hits.hits), by_hit_start);
		for (size_t k = 0; k < hits.n && k < WORK_SHOWN; k++)
			if (spot_of_work(event->call, work_joins[i].table, &hits.hits[k], &spot))
				put_link(event, as, &spot);
		if (work_joins[i].table == WS_TABLE_cuda_sync && hits.n == 1 &&
		    read_row(event->call->rep->report, WS_TABLE_cuda_sync, hits.hits[0].row, v))
			link_waited(event, process, (uint32_t)v[ws_cuda_sync_device],
				    v[ws_cuda_sync_stream]);
		free(hits.hits);
	}
}

/* Work launched by calls of the range's thread while it was open. */
static void link_range_to_work(struct event *event, uint64_t thread)
{
	uint32_t key[4] = {(uint32_t)thread},
		 i = ws_find_lane(event->call->lanes, WS_LANE_CUDA_API, key);
	const struct ws_lane *lane = i < event->call->lanes->n ? event->call->lanes->lane[i] : NULL;
	struct ws_map wanted = {0};
	uint64_t v[WS_MAX_COLUMNS];

	if (!lane || !ws_lane_ready(lane))
		return;
	for (uint32_t k = 0; k < lane->levels; k++) {
		uint32_t from, to, at;

		ws_level_range(&lane->level[k], (int64_t)event->start, (int64_t)event->end, &from,
			       &to);
		/* The first few and the last, which the page says. */
		event->more_work |= to > from && to - from > 8;
		for (at = from; at < to && wanted.n<8; at += to - from> 8 && at - from == 3
					? to - from - 7
					: 1)
			if (read_row(event->call->rep->report, WS_TABLE_cuda_api,
				     lane->level[k].ref[at], v) &&
			    v[ws_cuda_api_correlation] != WS_NO_U32)
				ws_map_set(&wanted, v[ws_cuda_api_correlation], 1);
	}
	if (wanted.n)
		link_to_work(event, ws_who_thread(event->call->lanes->who, key[0])->process,
			     &wanted, "work");
	ws_map_free(&wanted);
}

/* ---- waits of threads ---- */

/*
 * What a thread was about at a moment: of its calls, ranges and operators the one that began last,
 * else the span in which it ran. False when nothing of it was recorded then.
 */
static bool doing_at(const struct ws_lanes *lanes, uint32_t thread, uint64_t t,
		     struct ws_spot *spot)
{
	static const uint8_t kinds[] = {WS_LANE_OSRT, WS_LANE_CUDA_API, WS_LANE_NVTX,
					WS_LANE_OP,   WS_LANE_SLICE,	WS_LANE_STATE};
	uint64_t latest = 0;
	bool found = false;

	for (uint32_t i = 0; i < lanes->n; i++) {
		const struct ws_lane *lane = lanes->lane[i];
		bool wanted = lane->key[0] == thread && memchr(kinds, lane->kind, sizeof(kinds)) &&
			      ws_lane_ready(lane);

		for (uint32_t k = 0;
		     wanted && k < lane->levels && !(found && lane->kind == WS_LANE_STATE); k++) {
			uint32_t from, to;

			ws_level_range(&lane->level[k], (int64_t)t, (int64_t)t + 1, &from, &to);
			if (from == to || lane->level[k].src[from] & WS_EVENT_MOMENT ||
			    (found && lane->level[k].start[from] < latest))
				continue;
			*spot = (struct ws_spot){i, k, from};
			latest = lane->level[k].start[from];
			found = true;
		}
	}
	return found;
}

/* A thread of the same process by the number that the system gives it; 0 when there is none. */
static uint32_t thread_by_tid(const struct ws_who *who, uint32_t like, uint32_t tid)
{
	uint32_t process = ws_who_thread(who, like)->process;

	for (uint32_t i = 1; i <= ws_who_threads(who); i++)
		if (ws_who_thread(who, i)->tid == tid && ws_who_thread(who, i)->process == process)
			return i;
	return 0;
}

/* Who held the lock when the call began to wait. */
static void link_holder(struct event *event)
{
	uint32_t holder =
		event->v[ws_osrt_holder]
			? thread_by_tid(event->call->lanes->who, (uint32_t)event->v[ws_osrt_thread],
					(uint32_t)event->v[ws_osrt_holder])
			: 0;
	struct ws_spot spot;

	if (holder && doing_at(event->call->lanes, holder, event->start, &spot))
		put_link(event, "holder", &spot);
}

struct woken {
	uint32_t thread;
	uint64_t after, before; /* it ran again after the one, before the other */
	uint64_t start, at;	/* when it ran again, and was woken for that */
	uint32_t waker;
};

static int find_woken(void *ctx, const struct ws_batch *batch)
{
	struct woken *woken = ctx;

	for (size_t i = 0; i < batch->rows; i++) {
		uint64_t start = batch->col[ws_sched_start][i];

		if (batch->col[ws_sched_thread][i] != woken->thread || start <= woken->after ||
		    start >= woken->before || start < woken->start)
			continue;
		woken->start = start;
		woken->at = batch->col[ws_sched_woken][i];
		woken->waker = (uint32_t)batch->col[ws_sched_waker][i];
	}
	return 0;
}

/* Who woke the thread, by the span in which it ran again: the one that began last before the end.
 */
static void link_waker(struct event *event, uint32_t thread)
{
	struct woken woken_w = {.thread = thread, .after = event->start, .before = event->end};
	struct ws_scan sc = {.table = WS_TABLE_sched,
			     .columns = WS_COL(sched, start) | WS_COL(sched, thread) |
					WS_COL(sched, woken) | WS_COL(sched, waker),
			     .time_min = event->end,
			     .time_max = event->end,
			     .workers = 1};
	struct ws_spot spot;

	ws_scan_run(event->call->rep->report, &sc, find_woken, &woken_w, NULL);
	if (woken_w.waker && woken_w.at != WS_NO_TIME &&
	    doing_at(event->call->lanes, woken_w.waker, woken_w.at, &spot))
		put_link(event, "waker", &spot);
}

/* Which thread of the process held the GIL last while this one waited for it. */
static void link_gil(struct event *event)
{
	const struct ws_lanes *lanes = event->call->lanes;
	uint32_t process = ws_who_thread(lanes->who, (uint32_t)event->v[ws_gil_thread])->process;
	struct ws_spot best = {0};
	uint64_t last = 0;

	if (event->v[ws_gil_state] != WS_GIL_WAITS || event->end <= event->start)
		return;
	for (uint32_t i = 0; i < lanes->n; i++) {
		const struct ws_lane *lane = lanes->lane[i];

		if (lane->kind != WS_LANE_GIL || lane->key[0] == event->v[ws_gil_thread] ||
		    !ws_lane_ready(lane) ||
		    ws_who_thread(lanes->who, lane->key[0])->process != process)
			continue;
		for (uint32_t k = 0; k < lane->levels; k++) {
			const struct ws_level *level = &lane->level[k];
			uint32_t at = ws_level_seek(level, 0, level->n, event->end);

			/* Who lets go of it often begins to wait for it at once. */
			while (at &&
			       level->name[at - 1] !=
				       WS_NAME(WS_NAME_OURS, WS_OWN_GIL + WS_GIL_HOLDS) &&
			       level->start[at - 1] > event->start)
				at--;
			if (!at || ws_level_end(level, at - 1) <= (last ? last : event->start) ||
			    level->name[at - 1] != WS_NAME(WS_NAME_OURS, WS_OWN_GIL + WS_GIL_HOLDS))
				continue;
			best = (struct ws_spot){i, k, at - 1};
			last = ws_level_end(level, at - 1);
		}
	}
	if (last)
		put_link(event, "holder", &best);
}

/* From a range as the GPU saw it to the range itself. */
static void link_to_projected(struct event *event)
{
	const uint32_t *at = event->call->lanes->lane[event->spot.lane]->key,
		       key[4] = {at[2], at[3]};
	struct ws_spot spot;

	if (ws_find_event(event->call->lanes, ws_find_lane(event->call->lanes, WS_LANE_NVTX, key),
			  event->source_number, event->row, event->start, &spot))
		put_link(event, "range", &spot);
}

enum { PROJECTED_SEARCHED = 4096 };

/* From a range to itself as GPUs saw it: there it begins no earlier, and seldom much later. */
static void link_to_gpu(struct event *event)
{
	const struct ws_lanes *lanes = event->call->lanes;
	const uint32_t *at = lanes->lane[event->spot.lane]->key;

	for (uint32_t i = 0; i < lanes->n; i++) {
		const struct ws_lane *lane = lanes->lane[i];

		if (lane->kind != WS_LANE_PROJECTED || lane->key[2] != at[0] ||
		    lane->key[3] != at[1] || !ws_lane_ready(lane))
			continue;
		for (uint32_t k = 0; k < lane->levels; k++) {
			const struct ws_level *level = &lane->level[k];
			uint32_t first = ws_level_seek(level, 0, level->n, event->start);

			for (uint32_t j = first; j < level->n && j - first < PROJECTED_SEARCHED;
			     j++)
				if (level->ref[j] == event->row &&
				    (level->src[j] & WS_EVENT_SOURCE) == event->source_number)
					put_link(event, "on_gpu", &(struct ws_spot){i, k, j});
		}
	}
}

/* ---- arrows of imported traces ---- */

static bool takes_arrows(uint8_t kind)
{
	return kind == WS_LANE_OP || kind == WS_LANE_SLICE || kind == WS_LANE_CUDA_API ||
	       kind == WS_LANE_NVTX;
}

/* The innermost span of a thread, or of a track, at a moment: an arrow's end is a moment, and
 * belongs to the span around it. */
static bool span_at(const struct ws_lanes *lanes, uint64_t thread, uint64_t track, uint64_t t,
		    struct ws_spot *spot)
{
	uint64_t latest = 0;
	bool found = false;

	for (uint32_t i = 0; t < INT64_MAX && i < lanes->n; i++) {
		const struct ws_lane *lane = lanes->lane[i];

		if (track ? lane->kind != WS_LANE_TRACK || lane->key[0] != track
			  : !takes_arrows(lane->kind) || lane->key[0] != thread)
			continue;
		for (uint32_t k = 0; ws_lane_ready(lane) && k < lane->levels; k++) {
			const struct ws_level *level = &lane->level[k];
			uint32_t from, to;

			ws_level_range(level, (int64_t)t, (int64_t)t + 1, &from, &to);
			if (from == to || level->src[from] & WS_EVENT_MOMENT ||
			    (found && level->start[from] < latest))
				continue;
			*spot = (struct ws_spot){i, k, from};
			latest = level->start[from];
			found = true;
		}
	}
	return found;
}

static bool same_spot(const struct ws_spot *left, const struct ws_spot *right)
{
	return left->lane == right->lane && left->level == right->level &&
	       left->event == right->event;
}

/* An arrow that begins or ends in the event leads to the span at its other end. */
static bool link_flow(struct event *event, uint64_t thread, uint64_t track, uint64_t *const *out,
		      uint32_t k)
{
	const struct ws_lanes *lanes = event->call->lanes;
	uint64_t t0 = out[ws_flow_start][k], t1 = out[ws_flow_end][k];
	uint64_t from = out[ws_flow_from_thread][k], to = out[ws_flow_to_thread][k];
	uint64_t from_track = out[ws_flow_from_track][k], to_track = out[ws_flow_to_track][k];
	struct ws_spot here, there;

	if (t1 == WS_NO_TIME)
		return false;
	if (from == thread && from_track == track && t0 >= event->start && t0 <= event->end &&
	    span_at(lanes, from, from_track, t0, &here) && same_spot(&here, &event->spot) &&
	    span_at(lanes, to, to_track, t1, &there)) {
		put_link(event, "flow_to", &there);
		return true;
	}
	if (to == thread && to_track == track && t1 >= event->start && t1 <= event->end &&
	    span_at(lanes, to, to_track, t1, &here) && same_spot(&here, &event->spot) &&
	    span_at(lanes, from, from_track, t0, &there)) {
		put_link(event, "flow_from", &there);
		return true;
	}
	return false;
}

enum { FLOWS_SHOWN = 64 };

/* Arrows from and to a span. They are few and short compared with the spans, so that the nearest
 * blocks hold them. */
static void link_flows(struct event *event)
{
	const struct ws_report *report = event->call->rep->report;
	const struct ws_lane *lane = event->call->lanes->lane[event->spot.lane];
	bool is_track = lane->kind == WS_LANE_TRACK;
	uint64_t thread = is_track ? 0 : lane->key[0], track = is_track ? lane->key[0] : 0;
	uint64_t *out[WS_MAX_COLUMNS] = {NULL};
	uint32_t columns = ws_tables[WS_TABLE_flow].column_count, shown = 0;
	struct near *near;
	size_t n;

	if ((!is_track && !takes_arrows(lane->kind)) || !ws_report_rows(report, WS_TABLE_flow))
		return;
	near = nearest_blocks(report, WS_TABLE_flow, event->start, &n);
	for (size_t i = 0; i < n && i < BLOCKS_SEARCHED && shown < FLOWS_SHOWN; i++) {
		uint32_t rows = ws_report_block(report, WS_TABLE_flow, near[i].block).rows;

		for (uint32_t k = 0; k < columns; k++)
			out[k] = ws_realloc(out[k], (size_t)rows * 8);
		if (ws_report_decode(report, WS_TABLE_flow, near[i].block, UINT64_MAX, out, NULL))
			continue;
		for (uint32_t k = 0; k < rows && shown < FLOWS_SHOWN; k++)
			shown += link_flow(event, thread, track, out, k);
	}
	for (uint32_t k = 0; k < columns; k++)
		free(out[k]);
	free(near);
}

/* From a state to the call that the thread was in, who had what it waited for, and who ended the
 * wait. */
static void link_state(struct event *event)
{
	const struct ws_lanes *lanes = event->call->lanes;
	uint32_t holder = event->state.holder ? thread_by_tid(lanes->who, event->state.thread,
							      event->state.holder)
					      : 0;
	struct ws_spot spot;

	if (event->state.function &&
	    doing_at(lanes, event->state.thread, event->start + (event->end - event->start) / 2,
		     &spot) &&
	    lanes->lane[spot.lane]->kind != WS_LANE_STATE)
		put_link(event, "inside", &spot);
	if (holder && doing_at(lanes, holder, event->start, &spot))
		put_link(event, "holder", &spot);
	if (event->state.waker && doing_at(lanes, event->state.waker, event->end, &spot))
		put_link(event, "waker", &spot);
}

static void put_links(struct event *event)
{
	struct ws_map wanted = {0};
	const uint64_t *values = event->v;

	if (event->is_state) {
		link_state(event);
		return;
	}
	switch (event->source->table) {
	case WS_TABLE_cuda_kernel:
		link_to_call(event, (uint32_t)values[ws_cuda_kernel_process],
			     values[ws_cuda_kernel_correlation]);
		break;
	case WS_TABLE_cuda_memcpy:
		link_to_call(event, (uint32_t)values[ws_cuda_memcpy_process],
			     values[ws_cuda_memcpy_correlation]);
		break;
	case WS_TABLE_cuda_memset:
		link_to_call(event, (uint32_t)values[ws_cuda_memset_process],
			     values[ws_cuda_memset_correlation]);
		break;
	case WS_TABLE_cuda_graph_trace:
		link_to_call(event, (uint32_t)values[ws_cuda_graph_trace_process],
			     values[ws_cuda_graph_trace_correlation]);
		break;
	case WS_TABLE_cuda_sync:
		link_to_call(event, (uint32_t)values[ws_cuda_sync_process],
			     values[ws_cuda_sync_correlation]);
		link_waited(event, (uint32_t)values[ws_cuda_sync_process],
			    (uint32_t)values[ws_cuda_sync_device], values[ws_cuda_sync_stream]);
		break;
	case WS_TABLE_cuda_api:
		link_ranges(event, (uint32_t)values[ws_cuda_api_thread], event->start);
		if (values[ws_cuda_api_correlation] == WS_NO_U32)
			break;
		ws_map_set(&wanted, values[ws_cuda_api_correlation], 1);
		link_to_work(event,
			     ws_who_thread(event->call->lanes->who,
					   (uint32_t)values[ws_cuda_api_thread])
				     ->process,
			     &wanted, "work");
		ws_map_free(&wanted);
		break;
	case WS_TABLE_nvtx:
		if (event->call->lanes->lane[event->spot.lane]->kind == WS_LANE_PROJECTED)
			link_to_projected(event);
		else
			link_to_gpu(event);
		link_range_to_work(event, values[ws_nvtx_thread]);
		break;
	case WS_TABLE_osrt:
		link_holder(event);
		link_waker(event, (uint32_t)values[ws_osrt_thread]);
		break;
	case WS_TABLE_gil:
		link_gil(event);
		break;
	case WS_TABLE_op:
		link_range_to_work(event, values[ws_op_thread]);
		break;
	default:
		break;
	}
}

int ws_api_event(struct ws_call *call, struct ws_err *err)
{
	struct event event_x = {.call = call};
	int64_t lane, level, event;
	const struct ws_level *level_v;

	if (!ws_param_int(call, "lane", 0, (int64_t)call->lanes->n - 1, 0, &lane, err) ||
	    !ws_param_int(call, "level", 0, UINT32_MAX, 0, &level, err) ||
	    !ws_param_int(call, "event", 0, UINT32_MAX, 0, &event, err))
		return 400;
	if (!call->lanes->n || !ws_lane_ready(call->lanes->lane[lane]) ||
	    level >= call->lanes->lane[lane]->levels ||
	    ws_lane_descs[call->lanes->lane[lane]->kind].counter ||
	    event >= call->lanes->lane[lane]->level[level].n) {
		ws_fail(err, "there is no such event");
		return 404;
	}
	level_v = &call->lanes->lane[lane]->level[level];
	event_x.spot = (struct ws_spot){(uint32_t)lane, (uint32_t)level, (uint32_t)event};
	event_x.source_number = level_v->src[event] & WS_EVENT_SOURCE;
	event_x.source = &ws_sources[event_x.source_number];
	event_x.row = level_v->ref[event];
	event_x.start = level_v->start[event];
	event_x.end = ws_level_end(level_v, event_x.spot.event);
	event_x.is_state = call->lanes->lane[lane]->kind == WS_LANE_STATE;
	if (event_x.is_state)
		read_state(&event_x, call->lanes->lane[lane]->key[0], event_x.row);
	else if (!read_row(call->rep->report, event_x.source->table, event_x.row, event_x.v)) {
		ws_fail(err, "the part of the report that holds this event is damaged");
		return 500;
	}
	if (call->lanes->lane[lane]->kind ==
	    WS_LANE_PROJECTED) { /* what it is tied to goes by the range's own times */
		event_x.start = event_x.v[ws_nvtx_start];
		event_x.end = event_x.v[ws_nvtx_end];
	}
	ws_text_puts(call->out, "{");
	ws_put_spot(call->out, call->lanes, &event_x.spot);
	if (event_x.is_state)
		put_state(&event_x);
	else
		put_columns(&event_x);
	put_stack(&event_x);
	ws_put_key(call->out, "links");
	ws_text_puts(call->out, "[");
	put_links(&event_x);
	link_flows(&event_x);
	ws_text_puts(call->out, "]");
	ws_put_int(call->out, "more_work", event_x.more_work);
	ws_put_int(call->out, "of", level_v->n);
	ws_text_puts(call->out, "}");
	return 0;
}
