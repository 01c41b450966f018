/*
 * api_event.c - one event with all its columns, its stack, and related events: a launch and its
 * kernel, a range and the work it caused, a wait and what it waited for: work on a GPU, the thread
 * that held the lock, the thread that woke it.
 *
 * There is no index for this. Related events are close in time, so blocks are searched starting
 * with the nearest, and the first few usually contain them.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/choose.h"
#include "text/text.h"
#include "serve/api.h"
#include "serve/links.h"
#include "lanes/lane.h"
#include "views/library_shape.h"

struct event {
	struct ws_api_call *call;
	struct ws_spot spot;
	const struct ws_event_kind *kind;
	uint32_t row;
	uint64_t start, end;
	bool more_work; /* only the first and last work of a range is linked */
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

	for (size_t i = 0; i < ws_report_count_blocks(report, table); i++) {
		uint32_t rows = ws_report_block_info(report, table, i).rows;

		if (row >= rows) {
			row -= rows;
			continue;
		}
		for (uint32_t k = 0; k < columns; k++)
			out[k] = ws_malloc((size_t)rows * 8);
		ok = !ws_report_decode_block(report, table, i, UINT64_MAX, out, NULL);
		for (uint32_t k = 0; k < columns; k++) {
			values[k] = ok ? out[k][row] : 0;
			free(out[k]);
		}
		break;
	}
	return ok;
}

bool ws_is_column_null(enum ws_type type, uint64_t v)
{
	return ((type == WS_T_NTIME || type == WS_T_NU64) && v == UINT64_MAX) ||
	       (type == WS_T_NU32 && v == WS_NO_U32) ||
	       ((type == WS_T_STR || type == WS_T_NTHREAD) && !v);
}

void ws_put_column_value(struct ws_text *text, const struct ws_api_call *call,
			 const struct ws_column_desc *desc, uint64_t v)
{
	double f;
	size_t n;
	const char *word;

	ws_put_json_string(text, "name", desc->name);
	ws_put_json_string(text, "doc", desc->doc);
	ws_put_json_string(text, "type", ws_types[desc->type].name);
	if (ws_is_column_null(desc->type, v))
		return;
	if (desc->type == WS_T_STR) {
		word = ws_report_string(call->rep->report, (uint32_t)v, &n);
		ws_put_json_text(text, "text", word, ws_min(n, 65536));
		return;
	}
	if (desc->type == WS_T_THREAD || desc->type == WS_T_NTHREAD) {
		const struct ws_thread_info *info = ws_find_thread(call->lanes->who, (uint32_t)v);

		ws_put_json_string(text, "text", info->name[0] ? info->name : info->process_name);
		ws_put_json_int(text, "value", info->tid);
		return;
	}
	if (desc->type == WS_T_PROCESS) {
		ws_put_json_string(text, "text",
				   ws_find_process(call->lanes->who, (uint32_t)v)->name);
		ws_put_json_int(text, "value", ws_find_process(call->lanes->who, (uint32_t)v)->pid);
		return;
	}
	ws_put_json_key(text, "value");
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
	enum ws_table table = event->kind->table;

	ws_put_json_string(text, "table", ws_tables[table].name);
	ws_put_json_string(text, "sqlite", ws_tables[table].sqlite);
	ws_put_json_key(text, "columns");
	ws_text_puts(text, "[");
	for (uint32_t k = 0; k < ws_tables[table].column_count; k++) {
		ws_put_json_comma(text);
		ws_text_puts(text, "{");
		ws_put_column_value(text, event->call, &ws_tables[table].columns[k], event->v[k]);
		ws_text_puts(text, "}");
	}
	ws_text_puts(text, "]");
}

/* ---- states of threads ---- */

enum { AROUND = 1 }; /* ns: an event that ends where a wait begins touches it */

struct wanted_state {
	struct event *event;
	uint32_t thread;
};

/* Threads that may hold what it waits for are read too, by other workers, and cut to the same
 * time. */
static void keep_wanted_state(void *ctx, uint32_t worker, const struct ws_state *st)
{
	const struct wanted_state *want = ctx;

	(void)worker;
	if (st->thread == want->thread && st->start == want->event->start &&
	    st->end == want->event->end)
		want->event->state = *st;
}

/* Adds what the rows around an event say about it. Less is known about a call that never returned,
 * which may have begun long before. */
static void read_state(struct event *event, uint32_t thread, uint32_t ref)
{
	uint8_t *threads = ws_calloc((size_t)thread + 1, 1);
	struct ws_states_part part = {
		.threads = threads, .count = (size_t)thread + 1, .holders = true};
	struct wanted_state want = {event, thread};
	struct ws_states *states;

	threads[thread] = 1;
	part.from = event->start > AROUND ? event->start - AROUND : 0;
	part.to = event->end + AROUND;
	states =
		ws_states_open_part(event->call->rep->report, event->call->lanes->who, &part, NULL);
	ws_walk_states(states, event->start, event->end, keep_wanted_state, &want);
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
	ws_put_json_string(event->call->out, "name", desc->name);
	ws_put_json_string(event->call->out, "doc", desc->doc);
	ws_put_json_string(event->call->out, "type", "WORD");
	if (word)
		ws_put_json_string(event->call->out, "text", word);
}

static void put_state(const struct event *event)
{
	ws_put_json_string(event->call->out, "table", "state");
	ws_put_json_string(event->call->out, "sqlite", "");
	ws_put_json_key(event->call->out, "columns");
	ws_text_puts(event->call->out, "[");
	for (uint32_t k = 0; k < WS_STATE_COLUMNS; k++) {
		ws_put_json_comma(event->call->out);
		ws_text_puts(event->call->out, "{");
		if (ws_state_is_word(k))
			put_word(event, &ws_state_columns[k], ws_state_word(&event->state, k));
		else
			ws_put_column_value(event->call->out, event->call, &ws_state_columns[k],
					    ws_state_value(&event->state, k));
		ws_text_puts(event->call->out, "}");
	}
	ws_text_puts(event->call->out, "]");
}

/* ---- links ---- */

static void put_link(struct event *event, const char *role, const struct ws_spot *spot)
{
	ws_put_json_comma(event->call->out);
	ws_text_puts(event->call->out, "{");
	ws_put_json_string(event->call->out, "role", role);
	ws_put_spot(event->call->out, event->call->lanes, spot);
	ws_text_puts(event->call->out, "}");
}

/* A link to a call of a library, with its arguments in short. */
static void put_library_link(struct event *event, const struct ws_spot *spot, uint32_t args)
{
	struct ws_library_shape shape = ws_read_library_shape(event->call->rep->report, args);

	ws_put_json_comma(event->call->out);
	ws_text_puts(event->call->out, "{");
	ws_put_json_string(event->call->out, "role", "library");
	ws_put_spot(event->call->out, event->call->lanes, spot);
	ws_put_json_text(event->call->out, "shape", ws_text_or(shape.text.text, ""),
			 ws_min(shape.text.len, (size_t)1024));
	ws_text_puts(event->call->out, "}");
	ws_text_free(&shape.text);
}

static uint8_t kind_number(const struct ws_event_kind *kind)
{
	return (uint8_t)(kind - ws_event_kinds);
}

/* Blocks of a table in the order of their distance from `t`. */
struct near {
	size_t block;
	uint64_t away;
};

static int compare_distances(const void *first, const void *second)
{
	const struct near *left = first, *right = second;

	if (left->away != right->away)
		return ws_compare(left->away, right->away);
	return ws_compare(left->block, right->block);
}

static uint64_t distance_to_block(const struct ws_block_info *block, uint64_t t)
{
	if (t < block->time_min)
		return block->time_min - t;
	if (t > block->time_max)
		return t - block->time_max;
	return 0;
}

static struct near *nearest_blocks(const struct ws_report *report, enum ws_table table, uint64_t t,
				   size_t *n)
{
	struct near *near;

	*n = ws_report_count_blocks(report, table);
	near = ws_malloc((*n + 1) * sizeof(*near));
	for (size_t i = 0; i < *n; i++) {
		struct ws_block_info block_info = ws_report_block_info(report, table, i);

		near[i] = (struct near){i, distance_to_block(&block_info, t)};
	}
	if (*n)
		qsort(near, *n, sizeof(*near), compare_distances);
	return near;
}

/* The kind of event of the calls that cause work. */
static const struct ws_event_kind *kind_of_calls(void)
{
	for (size_t i = 0; i < WS_EVENT_KINDS; i++)
		if (ws_event_kinds[i].link == WS_LINK_CALL)
			return &ws_event_kinds[i];
	return NULL;
}

static bool is_caused_by_call(const struct ws_event_kind *kind)
{
	return kind->link == WS_LINK_WORK || kind->link == WS_LINK_WAIT;
}

/* The column that says what a row belongs to: its thread, otherwise its process. */
static uint8_t owner_column(const struct ws_event_kind *kind)
{
	if (kind->thread)
		return kind->thread;
	return kind->process;
}

static uint32_t process_of_owner(const struct ws_api_call *call, const struct ws_event_kind *kind,
				 uint64_t owner)
{
	if (kind->thread)
		return ws_find_thread(call->lanes->who, (uint32_t)owner)->process;
	return (uint32_t)owner;
}

struct hit {
	uint64_t row, start;
	uint32_t owner, correlation;
};

struct hits {
	struct hit *hits;
	size_t n, cap, most;
};

enum { BLOCKS_SEARCHED = 48 };

struct search {
	const struct ws_api_call *call;
	const struct ws_event_kind *kind;
	uint32_t process;
	const struct ws_map *wanted; /* correlation ids */
	uint64_t *out[WS_MAX_COLUMNS];
};

static uint64_t searched_columns(const struct ws_event_kind *kind)
{
	return 1 | UINT64_C(1) << owner_column(kind) | UINT64_C(1) << kind->correlation;
}

static uint64_t first_row_of_block(const struct ws_report *report, enum ws_table table,
				   size_t block)
{
	uint64_t rows = 0;

	for (size_t i = 0; i < block; i++)
		rows += ws_report_block_info(report, table, i).rows;
	return rows;
}

static void search_block(struct search *search, size_t block, struct hits *found)
{
	const struct ws_event_kind *kind = search->kind;
	const struct ws_report *report = search->call->rep->report;
	uint64_t columns = searched_columns(kind), base;
	uint32_t rows = ws_report_block_info(report, kind->table, block).rows;

	for (uint32_t k = 0; k < WS_MAX_COLUMNS; k++)
		if (columns >> k & 1)
			search->out[k] = ws_realloc(search->out[k], (size_t)rows * 8);
	if (ws_report_decode_block(report, kind->table, block, columns, search->out, NULL))
		return;
	base = first_row_of_block(report, kind->table, block);
	for (uint32_t k = 0; k < rows && found->n < found->most; k++) {
		uint64_t owner = search->out[owner_column(kind)][k],
			 correlation = search->out[kind->correlation][k];
		bool is_wanted;

		ws_map_get(search->wanted, correlation, &is_wanted);
		if (!is_wanted || process_of_owner(search->call, kind, owner) != search->process)
			continue;
		ws_grow(found->hits, found->cap, found->n + 1);
		found->hits[found->n++] = (struct hit){base + k, search->out[0][k], (uint32_t)owner,
						       (uint32_t)correlation};
	}
}

/*
 * Rows of `process` whose correlation id is in `wanted`, from the blocks nearest to `t` on, until
 * `found->most` are found or enough has been searched.
 */
static void find_correlated(const struct ws_api_call *call, const struct ws_event_kind *kind,
			    uint32_t process, const struct ws_map *wanted, uint64_t t,
			    struct hits *found)
{
	struct search search = {call, kind, process, wanted, {NULL}};
	size_t n;
	struct near *near = nearest_blocks(call->rep->report, kind->table, t, &n);

	for (size_t i = 0; i < n && i < BLOCKS_SEARCHED && found->n < found->most; i++)
		search_block(&search, near[i].block, found);
	for (uint32_t k = 0; k < WS_MAX_COLUMNS; k++)
		free(search.out[k]);
	free(near);
}

/* ---- stacks ---- */

/* The functions of a frame, those inlined into it first. */
static void put_frame(const struct event *event, uint32_t frame)
{
	const struct ws_stacks *st = event->call->lanes->stacks;
	const struct ws_frame_info *frame_info = ws_stacks_get_frame(st, frame);
	const struct ws_place *place = ws_stacks_get_places(st, frame_info);
	struct ws_text *text = event->call->out;

	for (uint32_t i = 0; i < frame_info->count; i++) {
		const struct ws_function *fn = ws_stacks_get_function(st, place[i].function);
		const char *module = ws_stacks_get_module(st, frame_info->module)->path;
		size_t n;
		const char *file = ws_report_string(event->call->rep->report, place[i].file, &n);

		ws_put_json_comma(text);
		ws_text_puts(text, "{");
		ws_put_json_text(text, "name", fn->name, ws_min(fn->len, 16384));
		ws_put_json_text(text, "file", file, ws_min(n, 4096));
		ws_put_json_int(text, "line", place[i].line);
		ws_put_json_text(text, "module", module, strnlen(module, 4096));
		ws_put_json_int(text, "kind", frame_info->kind);
		ws_text_puts(text, "}");
	}
}

/* Call stack of the call that launched work on a GPU; 0 when there is none. */
static uint64_t launch_stack(const struct event *event)
{
	const struct ws_event_kind *calls = kind_of_calls();
	uint64_t correlation = event->v[event->kind->correlation], v[WS_MAX_COLUMNS], stack = 0;
	struct hits hits = {.most = 1};
	struct ws_map wanted = {0};

	if (!is_caused_by_call(event->kind) || correlation == WS_NO_U32 || !correlation)
		return 0;
	ws_map_set(&wanted, correlation, 1);
	find_correlated(event->call, calls, (uint32_t)event->v[event->kind->process], &wanted,
			event->start, &hits);
	if (hits.n && read_row(event->call->rep->report, calls->table, hits.hits[0].row, v))
		stack = v[calls->callchain];
	ws_map_free(&wanted);
	free(hits.hits);
	return stack;
}

/* The innermost frame, 0 for none, and the stack of its callers. */
static uint64_t own_stack(const struct event *event, uint64_t *frame)
{
	*frame = 0;
	if (event->is_state)
		return event->state.callchain;
	if (!event->kind->callchain)
		return launch_stack(event);
	if (event->kind->frame)
		*frame = event->v[event->kind->frame];
	return event->v[event->kind->callchain];
}

static void put_stack(const struct event *event)
{
	uint32_t path[WS_STACKS_DEEPEST];
	uint64_t frame, stack = own_stack(event, &frame);
	size_t n;

	if (stack == WS_NO_U32)
		stack = 0;
	n = ws_stacks_list_frames(event->call->lanes->stacks, (uint32_t)frame, (uint32_t)stack,
				  path, WS_STACKS_DEEPEST);
	ws_put_json_key(event->call->out, "stack");
	ws_text_puts(event->call->out, "[");
	for (size_t i = 0; i < n; i++)
		put_frame(event, path[i]);
	ws_text_puts(event->call->out, "]");
}

/* ---- related events ---- */

/* Where a row of GPU work is shown: in its stream, or a wait among waits. */
static bool spot_of_work(const struct ws_api_call *call, const struct ws_event_kind *kind,
			 const struct hit *hit, struct ws_spot *spot)
{
	uint8_t lane_kind = kind->feed[kind->feeds - 1].kind;

	for (uint32_t i = 0; i < call->lanes->n; i++)
		if (call->lanes->lane[i]->kind == lane_kind &&
		    call->lanes->lane[i]->key[0] == hit->owner &&
		    ws_find_event(call->lanes, i, kind_number(kind), (uint32_t)hit->row, hit->start,
				  spot))
			return true;
	return false;
}

static uint32_t lane_of_calls(const struct ws_api_call *call, uint32_t thread)
{
	uint32_t key[4] = {thread};

	return ws_find_lane(call->lanes, kind_of_calls()->feed[0].kind, key);
}

static bool spot_of_call(const struct ws_api_call *call, const struct hit *hit,
			 struct ws_spot *spot)
{
	return ws_find_event(call->lanes, lane_of_calls(call, hit->owner),
			     kind_number(kind_of_calls()), (uint32_t)hit->row, hit->start, spot);
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

/* Whether a row is for the calls of a library. */
static bool has_library_calls(const struct ws_lane *lane)
{
	return lane->kind == WS_LANE_SLICE && lane->key[1];
}

/* The calls of libraries that the thread was in, the outermost of each library: the one that the
 * program made. */
static void link_libraries(struct event *event, uint32_t thread, uint64_t t)
{
	const struct ws_lanes *lanes = event->call->lanes;
	uint64_t v[WS_MAX_COLUMNS];

	for (uint32_t i = 0; i < lanes->n; i++) {
		const struct ws_lane *lane = lanes->lane[i];
		uint32_t from = 0, to = 0, k = 0;

		if (!has_library_calls(lane) || lane->key[0] != thread || !ws_lane_ready(lane))
			continue;
		for (; k < lane->levels && from == to; k++)
			ws_level_range(&lane->level[k], (int64_t)t, (int64_t)t + 1, &from, &to);
		if (from < to && read_row(event->call->rep->report, WS_TABLE_slice,
					  lane->level[k - 1].ref[from], v))
			put_library_link(event, &(struct ws_spot){i, k - 1, from},
					 (uint32_t)v[ws_slice_args]);
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
	find_correlated(event->call, kind_of_calls(), process, &wanted, event->start, &hits);
	if (hits.n && spot_of_call(event->call, &hits.hits[0], &spot)) {
		put_link(event, "call", &spot);
		link_libraries(event, hits.hits[0].owner, hits.hits[0].start);
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

static int compare_hits(const void *first, const void *second)
{
	const struct hit *left = first, *right = second;

	return ws_compare(left->start, right->start);
}

enum { WORK_SHOWN = 64, WORK_MOST = 4096 };

/* From calls, by their correlation ids, to the work that they launched; from a waiting call to what
 * it waited for. */
static void link_to_work(struct event *event, uint32_t process, const struct ws_map *wanted,
			 const char *role)
{
	uint64_t v[WS_MAX_COLUMNS];
	struct ws_spot spot;

	for (size_t i = 0; i < WS_EVENT_KINDS; i++) {
		const struct ws_event_kind *kind = &ws_event_kinds[i];
		const char *as = kind->link == WS_LINK_WAIT ? "wait" : role;
		struct hits hits = {.most = wanted->count > 1 ? WORK_MOST : 4};

		if (!is_caused_by_call(kind) ||
		    !ws_report_count_rows(event->call->rep->report, kind->table))
			continue;
		find_correlated(event->call, kind, process, wanted, event->start, &hits);
		if (hits.n)
			qsort(hits.hits, hits.n, sizeof(*hits.hits), compare_hits);
		for (size_t k = 0; k < hits.n && k < WORK_SHOWN; k++)
			if (spot_of_work(event->call, kind, &hits.hits[k], &spot))
				put_link(event, as, &spot);
		if (kind->link == WS_LINK_WAIT && hits.n == 1 &&
		    read_row(event->call->rep->report, kind->table, hits.hits[0].row, v))
			link_waited(event, process, (uint32_t)v[kind->device], v[kind->stream]);
		free(hits.hits);
	}
}

/* Work launched by calls of the range's thread while it was open. */
static void link_range_to_work(struct event *event, uint64_t thread)
{
	const struct ws_event_kind *calls = kind_of_calls();
	uint32_t i = lane_of_calls(event->call, (uint32_t)thread);
	const struct ws_lane *lane = i < event->call->lanes->n ? event->call->lanes->lane[i] : NULL;
	struct ws_map wanted = {0};
	uint64_t v[WS_MAX_COLUMNS];

	if (!lane || !ws_lane_ready(lane))
		return;
	for (uint32_t k = 0; k < lane->levels; k++) {
		uint32_t from, to, at;

		ws_level_range(&lane->level[k], (int64_t)event->start, (int64_t)event->end, &from,
			       &to);
		/* Only the first few and the last are linked; the page says so. */
		event->more_work |= to > from && to - from > 8;
		for (at = from; at < to && wanted.count<8; at += to - from> 8 && at - from == 3
					? to - from - 7
					: 1)
			if (read_row(event->call->rep->report, calls->table, lane->level[k].ref[at],
				     v) &&
			    v[calls->correlation] != WS_NO_U32)
				ws_map_set(&wanted, v[calls->correlation], 1);
	}
	if (wanted.count)
		link_to_work(event,
			     ws_find_thread(event->call->lanes->who, (uint32_t)thread)->process,
			     &wanted, "work");
	ws_map_free(&wanted);
}

/* ---- waits of threads ---- */

/*
 * What a thread was doing at a moment: of its calls, ranges and operators the one that began last,
 * otherwise the span in which it ran. False when nothing was recorded for it then.
 */
static bool find_doing_at(const struct ws_lanes *lanes, uint32_t thread, uint64_t t,
			  struct ws_spot *spot)
{
	uint64_t latest = 0;
	bool found = false;

	for (uint32_t i = 0; i < lanes->n; i++) {
		const struct ws_lane *lane = lanes->lane[i];
		bool wanted = lane->key[0] == thread &&
			      ws_lane_descs[lane->kind].flags & WS_LANE_IS_ENCLOSES &&
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
static uint32_t thread_by_tid(const struct ws_names_by_id *who, uint32_t like, uint32_t tid)
{
	uint32_t process = ws_find_thread(who, like)->process;

	for (uint32_t i = 1; i <= ws_highest_thread_id(who); i++)
		if (ws_find_thread(who, i)->tid == tid &&
		    ws_find_thread(who, i)->process == process)
			return i;
	return 0;
}

/* The thread that held the lock when the call began to wait. */
static void link_holder(struct event *event)
{
	uint32_t holder =
		event->v[ws_osrt_holder]
			? thread_by_tid(event->call->lanes->who, (uint32_t)event->v[ws_osrt_thread],
					(uint32_t)event->v[ws_osrt_holder])
			: 0;
	struct ws_spot spot;

	if (holder && find_doing_at(event->call->lanes, holder, event->start, &spot))
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

/* The thread that woke this one, from the span in which it ran again: the one that began last
 * before the end.
 */
static void link_waker(struct event *event, uint32_t thread)
{
	struct woken woken_w = {.thread = thread, .after = event->start, .before = event->end};
	struct ws_scan sc = {.table = WS_TABLE_sched,
			     .columns = WS_COLUMN_BIT(sched, start) | WS_COLUMN_BIT(sched, thread) |
					WS_COLUMN_BIT(sched, woken) | WS_COLUMN_BIT(sched, waker),
			     .time_min = event->end,
			     .time_max = event->end,
			     .workers = 1};
	struct ws_spot spot;

	ws_run_scan(event->call->rep->report, &sc, find_woken, &woken_w, NULL);
	if (woken_w.waker && woken_w.at != WS_NO_TIME &&
	    find_doing_at(event->call->lanes, woken_w.waker, woken_w.at, &spot))
		put_link(event, "waker", &spot);
}

/* Which thread of the process held the GIL last while this one waited for it. */
static void link_gil(struct event *event)
{
	const struct ws_lanes *lanes = event->call->lanes;
	uint32_t process = ws_find_thread(lanes->who, (uint32_t)event->v[ws_gil_thread])->process;
	struct ws_spot best = {0};
	uint64_t last = 0;

	if (event->v[ws_gil_state] != WS_GIL_WAITS || event->end <= event->start)
		return;
	for (uint32_t i = 0; i < lanes->n; i++) {
		const struct ws_lane *lane = lanes->lane[i];

		if (lane->kind != WS_LANE_GIL || lane->key[0] == event->v[ws_gil_thread] ||
		    !ws_lane_ready(lane) ||
		    ws_find_thread(lanes->who, lane->key[0])->process != process)
			continue;
		for (uint32_t k = 0; k < lane->levels; k++) {
			const struct ws_level *level = &lane->level[k];
			uint32_t at = ws_level_seek(level, 0, level->n, event->end);

			/* A thread that drops the GIL often begins to wait for it at once. */
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

static bool is_projected(const struct event *event)
{
	return event->call->lanes->lane[event->spot.lane]->kind == WS_LANE_PROJECTED;
}

/* From a range as the GPU saw it to the range itself. */
static void link_to_projected(struct event *event)
{
	const uint32_t *at = event->call->lanes->lane[event->spot.lane]->key,
		       key[4] = {at[2], at[3]};
	struct ws_spot spot;

	if (ws_find_event(event->call->lanes, ws_find_lane(event->call->lanes, WS_LANE_NVTX, key),
			  kind_number(event->kind), event->row, event->start, &spot))
		put_link(event, "range", &spot);
}

enum { PROJECTED_SEARCHED = 4096 };

/* From a range to its projection to GPUs, which begins no earlier, and seldom much later. */
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
				    (level->src[j] & WS_EVENT_SOURCE) == kind_number(event->kind))
					put_link(event, "on_gpu", &(struct ws_spot){i, k, j});
		}
	}
}

/* ---- arrows of imported traces ---- */

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
	    ws_find_span_at(lanes, from, from_track, t0, &here) && same_spot(&here, &event->spot) &&
	    ws_find_span_at(lanes, to, to_track, t1, &there)) {
		put_link(event, "flow_to", &there);
		return true;
	}
	if (to == thread && to_track == track && t1 >= event->start && t1 <= event->end &&
	    ws_find_span_at(lanes, to, to_track, t1, &here) && same_spot(&here, &event->spot) &&
	    ws_find_span_at(lanes, from, from_track, t0, &there)) {
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

	if ((!is_track && !ws_takes_arrows(lane->kind)) ||
	    !ws_report_count_rows(report, WS_TABLE_flow))
		return;
	near = nearest_blocks(report, WS_TABLE_flow, event->start, &n);
	for (size_t i = 0; i < n && i < BLOCKS_SEARCHED && shown < FLOWS_SHOWN; i++) {
		uint32_t rows = ws_report_block_info(report, WS_TABLE_flow, near[i].block).rows;

		for (uint32_t k = 0; k < columns; k++)
			out[k] = ws_realloc(out[k], (size_t)rows * 8);
		if (ws_report_decode_block(report, WS_TABLE_flow, near[i].block, UINT64_MAX, out,
					   NULL))
			continue;
		for (uint32_t k = 0; k < rows && shown < FLOWS_SHOWN; k++)
			shown += link_flow(event, thread, track, out, k);
	}
	for (uint32_t k = 0; k < columns; k++)
		free(out[k]);
	free(near);
}

/* From a state to the call that the thread was in, the thread that had what it waited for, and the
 * thread that ended the wait. */
static void link_state(struct event *event)
{
	const struct ws_lanes *lanes = event->call->lanes;
	uint32_t holder = event->state.holder ? thread_by_tid(lanes->who, event->state.thread,
							      event->state.holder)
					      : 0;
	struct ws_spot spot;

	if (event->state.function &&
	    find_doing_at(lanes, event->state.thread,
			  event->start + (event->end - event->start) / 2, &spot) &&
	    lanes->lane[spot.lane]->kind != WS_LANE_STATE)
		put_link(event, "inside", &spot);
	if (holder && find_doing_at(lanes, holder, event->start, &spot))
		put_link(event, "holder", &spot);
	if (event->state.waker && find_doing_at(lanes, event->state.waker, event->end, &spot))
		put_link(event, "waker", &spot);
}

static void link_work(struct event *event)
{
	link_to_call(event, (uint32_t)event->v[event->kind->process],
		     event->v[event->kind->correlation]);
}

static void link_wait(struct event *event)
{
	link_work(event);
	link_waited(event, (uint32_t)event->v[event->kind->process],
		    (uint32_t)event->v[event->kind->device], event->v[event->kind->stream]);
}

static void link_call(struct event *event)
{
	uint32_t thread = (uint32_t)event->v[event->kind->thread];
	uint64_t correlation = event->v[event->kind->correlation];
	struct ws_map wanted = {0};

	link_ranges(event, thread, event->start);
	if (correlation == WS_NO_U32)
		return;
	ws_map_set(&wanted, correlation, 1);
	link_to_work(event, ws_find_thread(event->call->lanes->who, thread)->process, &wanted,
		     "work");
	ws_map_free(&wanted);
}

static void link_operator(struct event *event)
{
	link_range_to_work(event, event->v[event->kind->thread]);
}

static void link_range(struct event *event)
{
	if (is_projected(event))
		link_to_projected(event);
	else
		link_to_gpu(event);
	link_operator(event);
}

static void link_os_call(struct event *event)
{
	link_holder(event);
	link_waker(event, (uint32_t)event->v[event->kind->thread]);
}

/* From a call of a library to the work that it launched. */
static void link_slice(struct event *event)
{
	if (has_library_calls(event->call->lanes->lane[event->spot.lane]))
		link_operator(event);
	ws_put_message_links(event->call, event->v);
}

static void (*const link_makers[WS_LINKS])(struct event *event) = {
	[WS_LINK_CALL] = link_call,	    [WS_LINK_WORK] = link_work,
	[WS_LINK_WAIT] = link_wait,	    [WS_LINK_RANGE] = link_range,
	[WS_LINK_OPERATOR] = link_operator, [WS_LINK_OS_CALL] = link_os_call,
	[WS_LINK_GIL] = link_gil,	    [WS_LINK_MESSAGE] = link_slice,
};

static void put_links(struct event *event)
{
	ws_put_json_key(event->call->out, "links");
	ws_text_puts(event->call->out, "[");
	if (event->is_state)
		link_state(event);
	else if (link_makers[event->kind->link])
		link_makers[event->kind->link](event);
	link_flows(event);
	ws_text_puts(event->call->out, "]");
}

/* Read what an event's lane does not have of it. Returns 0, or a status of HTTP with `err` set. */
static int read_event(struct event *event, struct ws_err *err)
{
	const struct ws_lane *lane = event->call->lanes->lane[event->spot.lane];
	const struct ws_level *level = &lane->level[event->spot.level];
	uint32_t at = event->spot.event;

	event->kind = &ws_event_kinds[level->src[at] & WS_EVENT_SOURCE];
	event->row = level->ref[at];
	event->start = level->start[at];
	event->end = ws_level_end(level, at);
	event->is_state = event->kind->is_computed;
	if (event->is_state) {
		read_state(event, lane->key[0], event->row);
		return 0;
	}
	if (!read_row(event->call->rep->report, event->kind->table, event->row, event->v)) {
		ws_fail(err, "the part of the report that holds this event is damaged");
		return 500;
	}
	if (is_projected(event)) { /* links are found by the range's own times */
		event->start = event->v[0];
		event->end = event->v[event->kind->end];
	}
	return 0;
}

static bool has_event(const struct ws_lanes *lanes, int64_t lane, int64_t level, int64_t event)
{
	return lanes->n && ws_lane_ready(lanes->lane[lane]) && level < lanes->lane[lane]->levels &&
	       event < lanes->lane[lane]->level[level].n;
}

/* The value of a counter, which is all there is to it. */
static void put_counter_value(const struct event *event)
{
	struct ws_text *text = event->call->out;
	const struct ws_lane *lane = event->call->lanes->lane[event->spot.lane];
	static const struct ws_column_desc desc = {
		.name = "value", .type = WS_T_F64, .doc = "The value, until the next one"};
	uint64_t bits;

	memcpy(&bits, &lane->level[event->spot.level].value[event->spot.event], 8);
	ws_text_puts(text, "{");
	ws_put_spot(text, event->call->lanes, &event->spot);
	ws_put_json_string(text, "table", ws_lane_descs[lane->kind].name);
	ws_put_json_string(text, "sqlite", "");
	ws_put_json_key(text, "columns");
	ws_text_puts(text, "[{");
	ws_put_column_value(text, event->call, &desc, bits);
	ws_text_puts(text, "}],\"stack\":[],\"links\":[]");
	ws_put_json_int(text, "of", lane->level[event->spot.level].n);
	ws_text_puts(text, "}");
}

/* The event's time without that of events directly inside it. */
static void put_own_time(const struct event *event)
{
	const struct ws_lane *lane = event->call->lanes->lane[event->spot.lane];
	uint32_t below = 0;

	if (ws_lane_nests(lane))
		ws_put_json_int(event->call->out, "self",
				(int64_t)ws_lane_own_time(lane, &lane->level[event->spot.level],
							  event->spot.event, 0, INT64_MAX, &below));
}

int ws_api_event(struct ws_api_call *call, struct ws_err *err)
{
	struct event event = {.call = call};
	int64_t lane, level, number;
	int status;

	if (!ws_param_int(call, "lane", ws_make_range(0, (int64_t)call->lanes->n - 1, 0), &lane,
			  err) ||
	    !ws_param_int(call, "level", ws_make_range(0, UINT32_MAX, 0), &level, err) ||
	    !ws_param_int(call, "event", ws_make_range(0, UINT32_MAX, 0), &number, err))
		return 400;
	if (!has_event(call->lanes, lane, level, number)) {
		ws_fail(err, "there is no such event");
		return 404;
	}
	event.spot = (struct ws_spot){(uint32_t)lane, (uint32_t)level, (uint32_t)number};
	if (ws_lane_descs[call->lanes->lane[lane]->kind].counter) {
		put_counter_value(&event);
		return 0;
	}
	status = read_event(&event, err);
	if (status)
		return status;
	ws_text_puts(call->out, "{");
	ws_put_spot(call->out, call->lanes, &event.spot);
	if (event.is_state)
		put_state(&event);
	else
		put_columns(&event);
	put_stack(&event);
	put_links(&event);
	ws_put_json_int(call->out, "more_work", event.more_work);
	put_own_time(&event);
	ws_put_json_int(call->out, "of", call->lanes->lane[lane]->level[level].n);
	ws_text_puts(call->out, "}");
	return 0;
}
