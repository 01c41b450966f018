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
#include "text/text.h"
#include "serve/api.h"
#include "lanes/names.h"

struct event {
	struct ws_call *c;
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

static bool read_row(const struct ws_report *r, enum ws_table t, uint64_t row, uint64_t *v)
{
	uint64_t *out[WS_MAX_COLUMNS] = {NULL};
	uint32_t columns = ws_tables[t].column_count;
	bool ok = false;

	for (size_t i = 0; i < ws_report_blocks(r, t); i++) {
		uint32_t rows = ws_report_block(r, t, i).rows;

		if (row >= rows) {
			row -= rows;
			continue;
		}
		for (uint32_t k = 0; k < columns; k++)
			out[k] = ws_malloc((size_t)rows * 8);
		ok = !ws_report_decode(r, t, i, UINT64_MAX, out, NULL);
		for (uint32_t k = 0; k < columns; k++) {
			v[k] = ok ? out[k][row] : 0;
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

static void put_value(struct ws_text *t, const struct ws_call *c, const struct ws_column_desc *d,
		      uint64_t v)
{
	double f;
	size_t n;
	const char *s;

	ws_put_string(t, "name", d->name);
	ws_put_string(t, "doc", d->doc);
	ws_put_string(t, "type", ws_types[d->type].name);
	if (is_null(d->type, v))
		return;
	if (d->type == WS_T_STR) {
		s = ws_report_string(c->rep->r, (uint32_t)v, &n);
		ws_put_text(t, "text", s, n < 65536 ? n : 65536);
		return;
	}
	if (d->type == WS_T_THREAD || d->type == WS_T_NTHREAD) {
		const struct ws_thread_info *w = ws_who_thread(c->l->who, (uint32_t)v);

		ws_put_string(t, "text", w->name[0] ? w->name : w->process_name);
		ws_put_int(t, "value", w->tid);
		return;
	}
	if (d->type == WS_T_PROCESS) {
		ws_put_string(t, "text", ws_who_process(c->l->who, (uint32_t)v)->name);
		ws_put_int(t, "value", ws_who_process(c->l->who, (uint32_t)v)->pid);
		return;
	}
	ws_put_key(t, "value");
	memcpy(&f, &v, 8);
	if (d->type == WS_T_F64)
		ws_text_printf(t, f == f && f < 1e300 && f > -1e300 ? "%.17g" : "null", f);
	else if (d->type == WS_T_TIME || d->type == WS_T_NTIME)
		ws_text_printf(t, "\"%" PRId64 "\"", (int64_t)(v - c->l->zero));
	else
		ws_text_printf(
			t, ws_types[d->type].is_signed ? "\"%" PRId64 "\"" : "\"%" PRIu64 "\"", v);
}

static void put_columns(const struct event *e)
{
	struct ws_text *t = e->c->out;
	enum ws_table table = e->source->table;

	ws_put_string(t, "table", ws_tables[table].name);
	ws_put_string(t, "sqlite", ws_tables[table].sqlite);
	ws_put_key(t, "columns");
	ws_text_puts(t, "[");
	for (uint32_t k = 0; k < ws_tables[table].column_count; k++) {
		ws_put_comma(t);
		ws_text_puts(t, "{");
		put_value(t, e->c, &ws_tables[table].columns[k], e->v[k]);
		ws_text_puts(t, "}");
	}
	ws_text_puts(t, "]");
}

/* ---- states of threads ---- */

enum { AROUND = 1 }; /* ns: what ends where a wait begins touches it */

struct wanted_state {
	struct event *e;
	uint32_t thread;
};

/* Those who may hold what it waits for come as well, on other workers, and cut to the same time. */
static void take_state(void *ctx, uint32_t worker, const struct ws_state *st)
{
	const struct wanted_state *want = ctx;

	(void)worker;
	if (st->thread == want->thread && st->start == want->e->start && st->end == want->e->end)
		want->e->state = *st;
}

/* What else there is to say of it, from the rows around it. A call that never returned may have
 * begun long before: then less. */
static void read_state(struct event *e, uint32_t thread, uint32_t ref)
{
	uint8_t *threads = ws_calloc((size_t)thread + 1, 1);
	struct ws_states_part part = {.threads = threads, .n = (size_t)thread + 1, .holders = true};
	struct wanted_state want = {e, thread};
	struct ws_states *s;

	threads[thread] = 1;
	part.from = e->start > AROUND ? e->start - AROUND : 0;
	part.to = e->end + AROUND;
	s = ws_states_open_part(e->c->rep->r, e->c->l->who, &part, NULL);
	ws_states_run(s, e->start, e->end, take_state, &want);
	ws_states_close(s);
	free(threads);
	if (e->state.doing != ws_state_doing(ref) || e->state.wait != ws_state_wait(ref))
		e->state = (struct ws_state){.cpu = WS_NO_U32};
	e->state.thread = thread;
	e->state.doing = (uint8_t)ws_state_doing(ref);
	e->state.wait = (uint8_t)ws_state_wait(ref);
	e->state.after = (uint8_t)(ref >> 8);
}

static void put_word(const struct event *e, const struct ws_column_desc *d, const char *word)
{
	ws_put_string(e->c->out, "name", d->name);
	ws_put_string(e->c->out, "doc", d->doc);
	ws_put_string(e->c->out, "type", "WORD");
	if (word)
		ws_put_string(e->c->out, "text", word);
}

static void put_state(const struct event *e)
{
	ws_put_string(e->c->out, "table", "state");
	ws_put_string(e->c->out, "sqlite", "");
	ws_put_key(e->c->out, "columns");
	ws_text_puts(e->c->out, "[");
	for (uint32_t k = 0; k < WS_STATE_COLUMNS; k++) {
		ws_put_comma(e->c->out);
		ws_text_puts(e->c->out, "{");
		if (ws_state_is_word(k))
			put_word(e, &ws_state_columns[k], ws_state_word(&e->state, k));
		else
			put_value(e->c->out, e->c, &ws_state_columns[k],
				  ws_state_value(&e->state, k));
		ws_text_puts(e->c->out, "}");
	}
	ws_text_puts(e->c->out, "]");
}

/* ---- links ---- */

static void put_link(struct event *e, const char *role, const struct ws_spot *s)
{
	ws_put_comma(e->c->out);
	ws_text_puts(e->c->out, "{");
	ws_put_string(e->c->out, "role", role);
	ws_put_spot(e->c->out, e->c->l, s);
	ws_text_puts(e->c->out, "}");
}

static int source_of(enum ws_table t)
{
	for (size_t i = 0; i < ws_source_count; i++)
		if (ws_sources[i].table == t)
			return (int)i;
	return -1;
}

/* Blocks of a table in the order of how far they are from `t`. */
struct near {
	size_t block;
	uint64_t away;
};

static int by_away(const void *a, const void *b)
{
	const struct near *x = a, *y = b;

	return x->away != y->away    ? (x->away < y->away ? -1 : 1)
	       : x->block < y->block ? -1
				     : x->block > y->block;
}

static struct near *nearest_blocks(const struct ws_report *r, enum ws_table table, uint64_t t,
				   size_t *n)
{
	struct near *v;

	*n = ws_report_blocks(r, table);
	v = ws_malloc((*n + 1) * sizeof(*v));
	for (size_t i = 0; i < *n; i++) {
		struct ws_block_info b = ws_report_block(r, table, i);

		v[i] = (struct near){i, t < b.time_min	 ? b.time_min - t
					: t > b.time_max ? t - b.time_max
							 : 0};
	}
	if (*n)
		qsort(v, *n, sizeof(*v), by_away);
	return v;
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
	struct hit *v;
	size_t n, cap, most;
};

enum { BLOCKS_SEARCHED = 48 };

/*
 * Rows of `process` whose correlation id is in `wanted`, from the blocks nearest to `t` on, until
 * `found->most` are found or enough has been searched.
 */
static void find_correlated(const struct ws_call *c, const struct joined *j, uint32_t process,
			    const struct ws_map *wanted, uint64_t t, struct hits *found)
{
	uint64_t columns =
		UINT64_C(1) << j->start | UINT64_C(1) << j->owner | UINT64_C(1) << j->correlation;
	uint64_t *out[WS_MAX_COLUMNS] = {NULL}, base;
	size_t n;
	struct near *near = nearest_blocks(c->rep->r, j->table, t, &n);

	for (size_t i = 0; i < n && i < BLOCKS_SEARCHED && found->n < found->most; i++) {
		uint32_t rows = ws_report_block(c->rep->r, j->table, near[i].block).rows;

		for (uint32_t k = 0; k < WS_MAX_COLUMNS; k++)
			if (columns >> k & 1)
				out[k] = ws_realloc(out[k], (size_t)rows * 8);
		if (ws_report_decode(c->rep->r, j->table, near[i].block, columns, out, NULL))
			continue;
		base = 0;
		for (size_t b = 0; b < near[i].block; b++)
			base += ws_report_block(c->rep->r, j->table, b).rows;
		for (uint32_t k = 0; k < rows && found->n < found->most; k++) {
			uint64_t owner = out[j->owner][k];
			bool is;

			ws_map_get(wanted, out[j->correlation][k], &is);
			if (!is || (j->thread ? ws_who_thread(c->l->who, (uint32_t)owner)->process
					      : owner) != process)
				continue;
			ws_grow(found->v, found->cap, found->n + 1);
			found->v[found->n++] =
				(struct hit){base + k, out[j->start][k], (uint32_t)owner,
					     (uint32_t)out[j->correlation][k]};
		}
	}
	for (uint32_t k = 0; k < WS_MAX_COLUMNS; k++)
		free(out[k]);
	free(near);
}

/* ---- stacks ---- */

/* The functions of a frame, those inlined into it first. */
static void put_frame(const struct event *e, uint32_t frame)
{
	const struct ws_stacks *st = e->c->l->stacks;
	const struct ws_frame_info *f = ws_stacks_frame(st, frame);
	const struct ws_place *place = ws_stacks_places(st, f);
	struct ws_text *t = e->c->out;

	for (uint32_t i = 0; i < f->count; i++) {
		const struct ws_function *fn = ws_stacks_function(st, place[i].function);
		const char *module = ws_stacks_module(st, f->module)->path;
		size_t n;
		const char *file = ws_report_string(e->c->rep->r, place[i].file, &n);

		ws_put_comma(t);
		ws_text_puts(t, "{");
		ws_put_text(t, "name", fn->name, fn->len < 16384 ? fn->len : 16384);
		ws_put_text(t, "file", file, n < 4096 ? n : 4096);
		ws_put_int(t, "line", place[i].line);
		ws_put_text(t, "module", module, strnlen(module, 4096));
		ws_put_int(t, "kind", f->kind);
		ws_text_puts(t, "}");
	}
}

/* Call stack of the call that launched work on a GPU; 0 when there is none. */
static uint64_t launch_stack(const struct event *e)
{
	const struct joined *j = NULL;
	struct hits h = {.most = 1};
	struct ws_map wanted = {0};
	uint64_t v[WS_MAX_COLUMNS], stack = 0;

	for (size_t i = 0; i < WS_COUNT(work_joins); i++)
		j = work_joins[i].table == e->source->table ? &work_joins[i] : j;
	if (!j || e->v[j->correlation] == WS_NO_U32 || !e->v[j->correlation])
		return 0;
	ws_map_set(&wanted, e->v[j->correlation], 1);
	find_correlated(e->c, &api_join, (uint32_t)e->v[j->owner], &wanted, e->start, &h);
	if (h.n && read_row(e->c->rep->r, WS_TABLE_cuda_api, h.v[0].row, v))
		stack = v[ws_cuda_api_callchain];
	ws_map_free(&wanted);
	free(h.v);
	return stack;
}

static void put_stack(const struct event *e)
{
	uint32_t path[WS_STACKS_DEEPEST];
	uint64_t stack = 0, leaf = 0;
	size_t n;

	if (e->source->table == WS_TABLE_sample) {
		leaf = e->v[ws_sample_frame];
		stack = e->v[ws_sample_callers];
	} else if (e->source->table == WS_TABLE_python_sample) {
		stack = e->v[ws_python_sample_stack];
	} else if (e->source->table == WS_TABLE_osrt) {
		stack = e->v[ws_osrt_callchain];
	} else if (e->is_state) {
		stack = e->state.callchain;
	} else if (e->source->table == WS_TABLE_cuda_api) {
		stack = e->v[ws_cuda_api_callchain];
	} else {
		stack = launch_stack(e);
	}
	n = ws_stacks_walk(e->c->l->stacks, (uint32_t)leaf,
			   stack == WS_NO_U32 ? 0 : (uint32_t)stack, path, WS_STACKS_DEEPEST);
	ws_put_key(e->c->out, "stack");
	ws_text_puts(e->c->out, "[");
	for (size_t i = 0; i < n; i++)
		put_frame(e, path[i]);
	ws_text_puts(e->c->out, "]");
}

/* ---- what is tied to what ---- */

/* Where a row of GPU work is shown: in its stream, or a wait among waits. */
static bool spot_of_work(const struct ws_call *c, enum ws_table table, const struct hit *h,
			 struct ws_spot *s)
{
	int source = source_of(table);
	uint8_t kind = table == WS_TABLE_cuda_sync ? WS_LANE_SYNC : WS_LANE_STREAM;

	for (uint32_t i = 0; source >= 0 && i < c->l->n; i++)
		if (c->l->lane[i]->kind == kind && c->l->lane[i]->key[0] == h->owner &&
		    ws_find_event(c->l, i, (uint8_t)source, (uint32_t)h->row, h->start, s))
			return true;
	return false;
}

static bool spot_of_call(const struct ws_call *c, const struct hit *h, struct ws_spot *s)
{
	uint32_t key[4] = {h->owner};

	return ws_find_event(c->l, ws_find_lane(c->l, WS_LANE_CUDA_API, key),
			     (uint8_t)source_of(WS_TABLE_cuda_api), (uint32_t)h->row, h->start, s);
}

/* NVTX ranges and operators of the thread around a moment, innermost first. */
static void link_ranges(struct event *e, uint32_t thread, uint64_t t)
{
	const struct ws_lanes *l = e->c->l;

	for (uint32_t i = 0; i < l->n; i++) {
		const struct ws_lane *n = l->lane[i];

		if ((n->kind != WS_LANE_NVTX && n->kind != WS_LANE_OP) || n->key[0] != thread ||
		    !ws_lane_ready(n))
			continue;
		for (uint32_t k = n->levels; k--;) {
			uint32_t from, to;

			ws_level_range(&n->level[k], (int64_t)t, (int64_t)t + 1, &from, &to);
			if (from < to && !(n->level[k].src[from] & WS_EVENT_MOMENT))
				put_link(e, "range", &(struct ws_spot){i, k, from});
		}
	}
}

/* From work on the GPU to its call and the ranges around that. */
static void link_to_call(struct event *e, uint32_t process, uint64_t correlation)
{
	struct hits h = {.most = 1};
	struct ws_map wanted = {0};
	struct ws_spot s;

	if (correlation == WS_NO_U32 || !correlation)
		return;
	ws_map_set(&wanted, correlation, 1);
	find_correlated(e->c, &api_join, process, &wanted, e->start, &h);
	if (h.n && spot_of_call(e->c, &h.v[0], &s)) {
		put_link(e, "call", &s);
		link_ranges(e, h.v[0].owner, h.v[0].start);
	}
	ws_map_free(&wanted);
	free(h.v);
}

/* The last work to end before the wait did, on the stream it waited for, or on the whole device. */
static void link_waited(struct event *e, uint32_t process, uint32_t device, uint64_t stream)
{
	const struct ws_lanes *l = e->c->l;
	struct ws_spot best = {0};
	uint64_t best_end = 0;

	for (uint32_t i = 0; i < l->n; i++) {
		const struct ws_lane *n = l->lane[i];

		if (n->kind != WS_LANE_STREAM || n->key[0] != process || n->key[1] != device ||
		    !ws_lane_ready(n) || (stream != WS_NO_U32 && n->key[3] != stream))
			continue;
		for (uint32_t k = 0; k < n->levels; k++) {
			const struct ws_level *v = &n->level[k];
			uint32_t at = ws_level_seek(v, 0, v->n, e->end);

			if (at && ws_level_end(v, at - 1) > e->end)
				at--;
			if (at && ws_level_end(v, at - 1) > best_end) {
				best = (struct ws_spot){i, k, at - 1};
				best_end = ws_level_end(v, at - 1);
			}
		}
	}
	if (best_end > e->start)
		put_link(e, "waited", &best);
}

static int by_hit_start(const void *a, const void *b)
{
	const struct hit *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

enum { WORK_SHOWN = 64, WORK_MOST = 4096 };

/* From calls, by their correlation ids, to the work they caused; from a call that waits to what it
 * waited for. */
static void link_to_work(struct event *e, uint32_t process, const struct ws_map *wanted,
			 const char *role)
{
	uint64_t v[WS_MAX_COLUMNS];
	struct ws_spot s;

	for (size_t i = 0; i < WS_COUNT(work_joins); i++) {
		const char *as = work_joins[i].table == WS_TABLE_cuda_sync ? "wait" : role;
		struct hits h = {.most = wanted->n > 1 ? WORK_MOST : 4};

		if (!ws_report_rows(e->c->rep->r, work_joins[i].table))
			continue;
		find_correlated(e->c, &work_joins[i], process, wanted, e->start, &h);
		if (h.n)
			qsort(h.v, h.n, sizeof(*h.v), by_hit_start);
		for (size_t k = 0; k < h.n && k < WORK_SHOWN; k++)
			if (spot_of_work(e->c, work_joins[i].table, &h.v[k], &s))
				put_link(e, as, &s);
		if (work_joins[i].table == WS_TABLE_cuda_sync && h.n == 1 &&
		    read_row(e->c->rep->r, WS_TABLE_cuda_sync, h.v[0].row, v))
			link_waited(e, process, (uint32_t)v[ws_cuda_sync_device],
				    v[ws_cuda_sync_stream]);
		free(h.v);
	}
}

/* Work launched by calls of the range's thread while it was open. */
static void link_range_to_work(struct event *e, uint64_t thread)
{
	uint32_t key[4] = {(uint32_t)thread}, i = ws_find_lane(e->c->l, WS_LANE_CUDA_API, key);
	const struct ws_lane *n = i < e->c->l->n ? e->c->l->lane[i] : NULL;
	struct ws_map wanted = {0};
	uint64_t v[WS_MAX_COLUMNS];

	if (!n || !ws_lane_ready(n))
		return;
	for (uint32_t k = 0; k < n->levels; k++) {
		uint32_t from, to, at;

		ws_level_range(&n->level[k], (int64_t)e->start, (int64_t)e->end, &from, &to);
		/* The first few and the last, which the page says. */
		e->more_work |= to > from && to - from > 8;
		for (at = from; at < to && wanted.n<8; at += to - from> 8 && at - from == 3
					? to - from - 7
					: 1)
			if (read_row(e->c->rep->r, WS_TABLE_cuda_api, n->level[k].ref[at], v) &&
			    v[ws_cuda_api_correlation] != WS_NO_U32)
				ws_map_set(&wanted, v[ws_cuda_api_correlation], 1);
	}
	if (wanted.n)
		link_to_work(e, ws_who_thread(e->c->l->who, key[0])->process, &wanted, "work");
	ws_map_free(&wanted);
}

/* ---- waits of threads ---- */

/*
 * What a thread was about at a moment: of its calls, ranges and operators the one that began last,
 * else the span in which it ran. False when nothing of it was recorded then.
 */
static bool doing_at(const struct ws_lanes *l, uint32_t thread, uint64_t t, struct ws_spot *s)
{
	static const uint8_t kinds[] = {WS_LANE_OSRT, WS_LANE_CUDA_API, WS_LANE_NVTX,
					WS_LANE_OP,   WS_LANE_SLICE,	WS_LANE_STATE};
	uint64_t latest = 0;
	bool found = false;

	for (uint32_t i = 0; i < l->n; i++) {
		const struct ws_lane *n = l->lane[i];
		bool wanted = n->key[0] == thread && memchr(kinds, n->kind, sizeof(kinds)) &&
			      ws_lane_ready(n);

		for (uint32_t k = 0;
		     wanted && k < n->levels && !(found && n->kind == WS_LANE_STATE); k++) {
			uint32_t from, to;

			ws_level_range(&n->level[k], (int64_t)t, (int64_t)t + 1, &from, &to);
			if (from == to || n->level[k].src[from] & WS_EVENT_MOMENT ||
			    (found && n->level[k].start[from] < latest))
				continue;
			*s = (struct ws_spot){i, k, from};
			latest = n->level[k].start[from];
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
static void link_holder(struct event *e)
{
	uint32_t holder = e->v[ws_osrt_holder]
				  ? thread_by_tid(e->c->l->who, (uint32_t)e->v[ws_osrt_thread],
						  (uint32_t)e->v[ws_osrt_holder])
				  : 0;
	struct ws_spot s;

	if (holder && doing_at(e->c->l, holder, e->start, &s))
		put_link(e, "holder", &s);
}

struct woken {
	uint32_t thread;
	uint64_t after, before; /* it ran again after the one, before the other */
	uint64_t start, at;	/* when it ran again, and was woken for that */
	uint32_t waker;
};

static int find_woken(void *ctx, const struct ws_batch *b)
{
	struct woken *w = ctx;

	for (size_t i = 0; i < b->rows; i++) {
		uint64_t start = b->col[ws_sched_start][i];

		if (b->col[ws_sched_thread][i] != w->thread || start <= w->after ||
		    start >= w->before || start < w->start)
			continue;
		w->start = start;
		w->at = b->col[ws_sched_woken][i];
		w->waker = (uint32_t)b->col[ws_sched_waker][i];
	}
	return 0;
}

/* Who woke the thread, by the span in which it ran again: the one that began last before the end.
 */
static void link_waker(struct event *e, uint32_t thread)
{
	struct woken w = {.thread = thread, .after = e->start, .before = e->end};
	struct ws_scan sc = {.table = WS_TABLE_sched,
			     .columns = WS_COL(sched, start) | WS_COL(sched, thread) |
					WS_COL(sched, woken) | WS_COL(sched, waker),
			     .time_min = e->end,
			     .time_max = e->end,
			     .workers = 1};
	struct ws_spot s;

	ws_scan_run(e->c->rep->r, &sc, find_woken, &w, NULL);
	if (w.waker && w.at != WS_NO_TIME && doing_at(e->c->l, w.waker, w.at, &s))
		put_link(e, "waker", &s);
}

/* Which thread of the process held the GIL last while this one waited for it. */
static void link_gil(struct event *e)
{
	const struct ws_lanes *l = e->c->l;
	uint32_t process = ws_who_thread(l->who, (uint32_t)e->v[ws_gil_thread])->process;
	struct ws_spot best = {0};
	uint64_t last = 0;

	if (e->v[ws_gil_state] != WS_GIL_WAITS || e->end <= e->start)
		return;
	for (uint32_t i = 0; i < l->n; i++) {
		const struct ws_lane *n = l->lane[i];

		if (n->kind != WS_LANE_GIL || n->key[0] == e->v[ws_gil_thread] ||
		    !ws_lane_ready(n) || ws_who_thread(l->who, n->key[0])->process != process)
			continue;
		for (uint32_t k = 0; k < n->levels; k++) {
			const struct ws_level *v = &n->level[k];
			uint32_t at = ws_level_seek(v, 0, v->n, e->end);

			/* Who lets go of it often begins to wait for it at once. */
			while (at &&
			       v->name[at - 1] !=
				       WS_NAME(WS_NAME_OURS, WS_OWN_GIL + WS_GIL_HOLDS) &&
			       v->start[at - 1] > e->start)
				at--;
			if (!at || ws_level_end(v, at - 1) <= (last ? last : e->start) ||
			    v->name[at - 1] != WS_NAME(WS_NAME_OURS, WS_OWN_GIL + WS_GIL_HOLDS))
				continue;
			best = (struct ws_spot){i, k, at - 1};
			last = ws_level_end(v, at - 1);
		}
	}
	if (last)
		put_link(e, "holder", &best);
}

/* From a range as the GPU saw it to the range itself. */
static void link_to_projected(struct event *e)
{
	const uint32_t *at = e->c->l->lane[e->spot.lane]->key, key[4] = {at[2], at[3]};
	struct ws_spot s;

	if (ws_find_event(e->c->l, ws_find_lane(e->c->l, WS_LANE_NVTX, key), e->source_number,
			  e->row, e->start, &s))
		put_link(e, "range", &s);
}

enum { PROJECTED_SEARCHED = 4096 };

/* From a range to itself as GPUs saw it: there it begins no earlier, and seldom much later. */
static void link_to_gpu(struct event *e)
{
	const struct ws_lanes *l = e->c->l;
	const uint32_t *at = l->lane[e->spot.lane]->key;

	for (uint32_t i = 0; i < l->n; i++) {
		const struct ws_lane *n = l->lane[i];

		if (n->kind != WS_LANE_PROJECTED || n->key[2] != at[0] || n->key[3] != at[1] ||
		    !ws_lane_ready(n))
			continue;
		for (uint32_t k = 0; k < n->levels; k++) {
			const struct ws_level *v = &n->level[k];
			uint32_t first = ws_level_seek(v, 0, v->n, e->start);

			for (uint32_t j = first; j < v->n && j - first < PROJECTED_SEARCHED; j++)
				if (v->ref[j] == e->row &&
				    (v->src[j] & WS_EVENT_SOURCE) == e->source_number)
					put_link(e, "on_gpu", &(struct ws_spot){i, k, j});
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
static bool span_at(const struct ws_lanes *l, uint64_t thread, uint64_t track, uint64_t t,
		    struct ws_spot *s)
{
	uint64_t latest = 0;
	bool found = false;

	for (uint32_t i = 0; t < INT64_MAX && i < l->n; i++) {
		const struct ws_lane *n = l->lane[i];

		if (track ? n->kind != WS_LANE_TRACK || n->key[0] != track
			  : !takes_arrows(n->kind) || n->key[0] != thread)
			continue;
		for (uint32_t k = 0; ws_lane_ready(n) && k < n->levels; k++) {
			const struct ws_level *v = &n->level[k];
			uint32_t from, to;

			ws_level_range(v, (int64_t)t, (int64_t)t + 1, &from, &to);
			if (from == to || v->src[from] & WS_EVENT_MOMENT ||
			    (found && v->start[from] < latest))
				continue;
			*s = (struct ws_spot){i, k, from};
			latest = v->start[from];
			found = true;
		}
	}
	return found;
}

static bool same_spot(const struct ws_spot *a, const struct ws_spot *b)
{
	return a->lane == b->lane && a->level == b->level && a->event == b->event;
}

/* An arrow that begins or ends in the event leads to the span at its other end. */
static bool link_flow(struct event *e, uint64_t thread, uint64_t track, uint64_t *const *out,
		      uint32_t k)
{
	const struct ws_lanes *l = e->c->l;
	uint64_t t0 = out[ws_flow_start][k], t1 = out[ws_flow_end][k];
	uint64_t from = out[ws_flow_from_thread][k], to = out[ws_flow_to_thread][k];
	uint64_t from_track = out[ws_flow_from_track][k], to_track = out[ws_flow_to_track][k];
	struct ws_spot here, there;

	if (t1 == WS_NO_TIME)
		return false;
	if (from == thread && from_track == track && t0 >= e->start && t0 <= e->end &&
	    span_at(l, from, from_track, t0, &here) && same_spot(&here, &e->spot) &&
	    span_at(l, to, to_track, t1, &there)) {
		put_link(e, "flow_to", &there);
		return true;
	}
	if (to == thread && to_track == track && t1 >= e->start && t1 <= e->end &&
	    span_at(l, to, to_track, t1, &here) && same_spot(&here, &e->spot) &&
	    span_at(l, from, from_track, t0, &there)) {
		put_link(e, "flow_from", &there);
		return true;
	}
	return false;
}

enum { FLOWS_SHOWN = 64 };

/* Arrows from and to a span. They are few and short compared with the spans, so that the nearest
 * blocks hold them. */
static void link_flows(struct event *e)
{
	const struct ws_report *r = e->c->rep->r;
	const struct ws_lane *lane = e->c->l->lane[e->spot.lane];
	bool is_track = lane->kind == WS_LANE_TRACK;
	uint64_t thread = is_track ? 0 : lane->key[0], track = is_track ? lane->key[0] : 0;
	uint64_t *out[WS_MAX_COLUMNS] = {NULL};
	uint32_t columns = ws_tables[WS_TABLE_flow].column_count, shown = 0;
	struct near *near;
	size_t n;

	if ((!is_track && !takes_arrows(lane->kind)) || !ws_report_rows(r, WS_TABLE_flow))
		return;
	near = nearest_blocks(r, WS_TABLE_flow, e->start, &n);
	for (size_t i = 0; i < n && i < BLOCKS_SEARCHED && shown < FLOWS_SHOWN; i++) {
		uint32_t rows = ws_report_block(r, WS_TABLE_flow, near[i].block).rows;

		for (uint32_t k = 0; k < columns; k++)
			out[k] = ws_realloc(out[k], (size_t)rows * 8);
		if (ws_report_decode(r, WS_TABLE_flow, near[i].block, UINT64_MAX, out, NULL))
			continue;
		for (uint32_t k = 0; k < rows && shown < FLOWS_SHOWN; k++)
			shown += link_flow(e, thread, track, out, k);
	}
	for (uint32_t k = 0; k < columns; k++)
		free(out[k]);
	free(near);
}

/* From a state to the call that the thread was in, who had what it waited for, and who ended the
 * wait. */
static void link_state(struct event *e)
{
	const struct ws_lanes *l = e->c->l;
	uint32_t holder =
		e->state.holder ? thread_by_tid(l->who, e->state.thread, e->state.holder) : 0;
	struct ws_spot s;

	if (e->state.function &&
	    doing_at(l, e->state.thread, e->start + (e->end - e->start) / 2, &s) &&
	    l->lane[s.lane]->kind != WS_LANE_STATE)
		put_link(e, "inside", &s);
	if (holder && doing_at(l, holder, e->start, &s))
		put_link(e, "holder", &s);
	if (e->state.waker && doing_at(l, e->state.waker, e->end, &s))
		put_link(e, "waker", &s);
}

static void put_links(struct event *e)
{
	struct ws_map wanted = {0};
	const uint64_t *v = e->v;

	if (e->is_state) {
		link_state(e);
		return;
	}
	switch (e->source->table) {
	case WS_TABLE_cuda_kernel:
		link_to_call(e, (uint32_t)v[ws_cuda_kernel_process], v[ws_cuda_kernel_correlation]);
		break;
	case WS_TABLE_cuda_memcpy:
		link_to_call(e, (uint32_t)v[ws_cuda_memcpy_process], v[ws_cuda_memcpy_correlation]);
		break;
	case WS_TABLE_cuda_memset:
		link_to_call(e, (uint32_t)v[ws_cuda_memset_process], v[ws_cuda_memset_correlation]);
		break;
	case WS_TABLE_cuda_graph_trace:
		link_to_call(e, (uint32_t)v[ws_cuda_graph_trace_process],
			     v[ws_cuda_graph_trace_correlation]);
		break;
	case WS_TABLE_cuda_sync:
		link_to_call(e, (uint32_t)v[ws_cuda_sync_process], v[ws_cuda_sync_correlation]);
		link_waited(e, (uint32_t)v[ws_cuda_sync_process], (uint32_t)v[ws_cuda_sync_device],
			    v[ws_cuda_sync_stream]);
		break;
	case WS_TABLE_cuda_api:
		link_ranges(e, (uint32_t)v[ws_cuda_api_thread], e->start);
		if (v[ws_cuda_api_correlation] == WS_NO_U32)
			break;
		ws_map_set(&wanted, v[ws_cuda_api_correlation], 1);
		link_to_work(e,
			     ws_who_thread(e->c->l->who, (uint32_t)v[ws_cuda_api_thread])->process,
			     &wanted, "work");
		ws_map_free(&wanted);
		break;
	case WS_TABLE_nvtx:
		if (e->c->l->lane[e->spot.lane]->kind == WS_LANE_PROJECTED)
			link_to_projected(e);
		else
			link_to_gpu(e);
		link_range_to_work(e, v[ws_nvtx_thread]);
		break;
	case WS_TABLE_osrt:
		link_holder(e);
		link_waker(e, (uint32_t)v[ws_osrt_thread]);
		break;
	case WS_TABLE_gil:
		link_gil(e);
		break;
	case WS_TABLE_op:
		link_range_to_work(e, v[ws_op_thread]);
		break;
	default:
		break;
	}
}

int ws_api_event(struct ws_call *c, struct ws_err *e)
{
	struct event x = {.c = c};
	int64_t lane, level, event;
	const struct ws_level *v;

	if (!ws_param_int(c, "lane", 0, (int64_t)c->l->n - 1, 0, &lane, e) ||
	    !ws_param_int(c, "level", 0, UINT32_MAX, 0, &level, e) ||
	    !ws_param_int(c, "event", 0, UINT32_MAX, 0, &event, e))
		return 400;
	if (!c->l->n || !ws_lane_ready(c->l->lane[lane]) || level >= c->l->lane[lane]->levels ||
	    ws_lane_descs[c->l->lane[lane]->kind].counter ||
	    event >= c->l->lane[lane]->level[level].n) {
		ws_fail(e, "there is no such event");
		return 404;
	}
	v = &c->l->lane[lane]->level[level];
	x.spot = (struct ws_spot){(uint32_t)lane, (uint32_t)level, (uint32_t)event};
	x.source_number = v->src[event] & WS_EVENT_SOURCE;
	x.source = &ws_sources[x.source_number];
	x.row = v->ref[event];
	x.start = v->start[event];
	x.end = ws_level_end(v, x.spot.event);
	x.is_state = c->l->lane[lane]->kind == WS_LANE_STATE;
	if (x.is_state)
		read_state(&x, c->l->lane[lane]->key[0], x.row);
	else if (!read_row(c->rep->r, x.source->table, x.row, x.v)) {
		ws_fail(e, "the part of the report that holds this event is damaged");
		return 500;
	}
	if (c->l->lane[lane]->kind ==
	    WS_LANE_PROJECTED) { /* what it is tied to goes by the range's own times */
		x.start = x.v[ws_nvtx_start];
		x.end = x.v[ws_nvtx_end];
	}
	ws_text_puts(c->out, "{");
	ws_put_spot(c->out, c->l, &x.spot);
	if (x.is_state)
		put_state(&x);
	else
		put_columns(&x);
	put_stack(&x);
	ws_put_key(c->out, "links");
	ws_text_puts(c->out, "[");
	put_links(&x);
	link_flows(&x);
	ws_text_puts(c->out, "]");
	ws_put_int(c->out, "more_work", x.more_work);
	ws_put_int(c->out, "of", v->n);
	ws_text_puts(c->out, "}");
	return 0;
}
