/*
 * page_detail.c - see page_detail.h.
 *
 * Column by column, as the report has them: a value that is the same in every row stands once,
 * texts, threads, processes, frames and stacks by number in tables of their own. A hundred bytes an
 * event, where each event's own answer from the server would be thousands.
 */
#include "export/html_detail.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lanes/lane_json.h"

enum { MOST_TEXT = 4000, MOST_STACKS = 20000, MOST_FRAMES = 200 };

struct stack_key {
	uint32_t leaf, stack;
};

struct details {
	const struct ws_lanes *l;
	struct ws_text *t;
	struct ws_map texts, threads, processes;
	struct ws_map stacks; /* leaf << 32 | stack: number */
	struct stack_key *stack;
	size_t stack_n, stack_cap;
};

/* ---- which rows ---- */

static int by_number(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

size_t ws_page_rows_unify(struct ws_page_rows v[WS_PAGE_SOURCES])
{
	size_t all = 0;

	for (int s = 0; s < WS_PAGE_SOURCES; s++) {
		size_t n = 0;

		if (v[s].n)
			qsort(v[s].row, v[s].n, sizeof(*v[s].row), by_number);
		for (size_t i = 0; i < v[s].n; i++)
			if (!n || v[s].row[i] != v[s].row[n - 1])
				v[s].row[n++] = v[s].row[i];
		v[s].n = n;
		all += n;
	}
	return all;
}

/* The rows of a table, a column after the other; rows of damaged blocks are 0. */
static uint64_t *load(const struct ws_report *r, enum ws_table t, const struct ws_page_rows *v)
{
	uint32_t columns = ws_tables[t].column_count;
	uint64_t *values = ws_calloc((size_t)columns * v->n, sizeof(*values)),
		 *out[WS_MAX_COLUMNS] = {NULL};
	uint64_t base = 0;
	size_t at = 0;

	for (size_t b = 0; b < ws_report_blocks(r, t) && at < v->n; b++) {
		uint32_t rows = ws_report_block(r, t, b).rows;
		size_t to = at;
		bool ok;

		while (to < v->n && v->row[to] < base + rows)
			to++;
		for (uint32_t k = 0; k < columns && to > at; k++)
			out[k] = ws_realloc(out[k], (size_t)rows * 8);
		ok = to > at && !ws_report_decode(r, t, b, UINT64_MAX, out, NULL);
		for (; at < to; at++)
			for (uint32_t k = 0; ok && k < columns; k++)
				values[k * v->n + at] = out[k][v->row[at] - base];
		base += rows;
	}
	for (uint32_t k = 0; k < columns; k++)
		free(out[k]);
	return values;
}

/* ---- values ---- */

static void put_value(struct details *d, enum ws_type type, uint64_t v)
{
	struct ws_text *t = d->t;
	double f;

	if (((type == WS_T_NTIME || type == WS_T_NU64) && v == UINT64_MAX) ||
	    (type == WS_T_NU32 && v == WS_NO_U32) ||
	    ((type == WS_T_STR || type == WS_T_NTHREAD) && !v)) {
		ws_text_puts(t, "null");
		return;
	}
	if (type == WS_T_F64) {
		memcpy(&f, &v, 8);
		ws_text_printf(t, f == f && f < 1e300 && f > -1e300 ? "%.17g" : "null", f);
		return;
	}
	if (type == WS_T_STR)
		ws_map_set(&d->texts, v, 1);
	else if (type == WS_T_THREAD || type == WS_T_NTHREAD)
		ws_map_set(&d->threads, v, 1);
	else if (type == WS_T_PROCESS)
		ws_map_set(&d->processes, v, 1);
	else if (type == WS_T_TIME || type == WS_T_NTIME)
		v -= d->l->zero;
	if (ws_types[type].is_signed || type == WS_T_TIME || type == WS_T_NTIME)
		ws_text_printf(
			t, (int64_t)v >> 52 && ~((int64_t)v >> 52) ? "\"%" PRId64 "\"" : "%" PRId64,
			(int64_t)v);
	else
		ws_text_printf(t, v >> 53 ? "\"%" PRIu64 "\"" : "%" PRIu64, v);
}

static void put_column(struct details *d, const struct ws_column_desc *c, const uint64_t *v,
		       size_t n)
{
	bool same = true;

	for (size_t i = 1; i < n && same; i++)
		same = v[i] == v[0];
	ws_put_comma(d->t);
	ws_text_puts(d->t, "{");
	ws_put_string(d->t, "name", c->name);
	ws_put_string(d->t, "doc", c->doc);
	ws_put_string(d->t, "type", ws_types[c->type].name);
	ws_put_key(d->t, same ? "same" : "values");
	if (same) {
		put_value(d, c->type, v[0]);
	} else {
		ws_text_puts(d->t, "[");
		for (size_t i = 0; i < n; i++) {
			ws_put_comma(d->t);
			put_value(d, c->type, v[i]);
		}
		ws_text_puts(d->t, "]");
	}
	ws_text_puts(d->t, "}");
}

/* ---- stacks ---- */

/* The columns that say a row's stack; -1 for none. */
static const struct stack_columns {
	enum ws_table table;
	int leaf, stack;
} stack_columns[] = {
	{WS_TABLE_sample, ws_sample_frame, ws_sample_callers},
	{WS_TABLE_python_sample, -1, ws_python_sample_stack},
	{WS_TABLE_osrt, -1, ws_osrt_callchain},
	{WS_TABLE_cuda_api, -1, ws_cuda_api_callchain},
};

/* Number of a stack from 1, 0 for none or when there are too many. */
static uint64_t stack_number(struct details *d, uint32_t leaf, uint32_t stack)
{
	uint64_t key = (uint64_t)leaf << 32 | stack, n;
	bool known;

	stack = stack == WS_NO_U32 ? 0 : stack;
	if (!leaf && !stack)
		return 0;
	n = ws_map_get(&d->stacks, key, &known);
	if (known || d->stack_n == MOST_STACKS)
		return known ? n : 0;
	ws_grow(d->stack, d->stack_cap, d->stack_n + 1);
	d->stack[d->stack_n++] = (struct stack_key){leaf, stack};
	ws_map_set(&d->stacks, key, d->stack_n);
	return d->stack_n;
}

static void put_row_stacks(struct details *d, enum ws_table t, const uint64_t *values, size_t n)
{
	const struct stack_columns *c = NULL;

	for (size_t i = 0; i < WS_COUNT(stack_columns); i++)
		c = stack_columns[i].table == t ? &stack_columns[i] : c;
	if (!c)
		return;
	ws_put_key(d->t, "stack");
	ws_text_puts(d->t, "[");
	for (size_t i = 0; i < n; i++) {
		uint32_t leaf = c->leaf < 0 ? 0 : (uint32_t)values[(size_t)c->leaf * n + i];

		ws_put_comma(d->t);
		ws_text_printf(d->t, "%" PRIu64,
			       stack_number(d, leaf, (uint32_t)values[(size_t)c->stack * n + i]));
	}
	ws_text_puts(d->t, "]");
}

static void put_frame(struct details *d, uint32_t frame)
{
	const struct ws_stacks *st = d->l->stacks;
	const struct ws_frame_info *f = ws_stacks_frame(st, frame);
	const struct ws_place *place = ws_stacks_places(st, f);
	const char *module = ws_stacks_module(st, f->module)->path;

	ws_put_comma(d->t);
	ws_text_printf(d->t, "[%" PRIu32 ",[", frame);
	for (uint32_t i = 0; i < f->count; i++) {
		const struct ws_function *fn = ws_stacks_function(st, place[i].function);
		size_t n;
		const char *file = ws_report_string(d->l->r, place[i].file, &n);

		ws_put_comma(d->t);
		ws_text_puts(d->t, "{");
		ws_put_text(d->t, "name", fn->name, fn->len < MOST_TEXT ? fn->len : MOST_TEXT);
		ws_put_text(d->t, "file", file, n < MOST_TEXT ? n : MOST_TEXT);
		ws_put_int(d->t, "line", place[i].line);
		ws_put_text(d->t, "module", module, strnlen(module, MOST_TEXT));
		ws_put_int(d->t, "kind", f->kind);
		ws_text_puts(d->t, "}");
	}
	ws_text_puts(d->t, "]]");
}

static void put_stacks(struct details *d)
{
	uint32_t *path = ws_malloc(WS_STACKS_DEEPEST * sizeof(*path));
	struct ws_map frames = {0};

	ws_put_key(d->t, "stacks");
	ws_text_puts(d->t, "[");
	for (size_t i = 0; i < d->stack_n; i++) {
		size_t n = ws_stacks_walk(d->l->stacks, d->stack[i].leaf, d->stack[i].stack, path,
					  MOST_FRAMES);

		ws_put_comma(d->t);
		ws_text_puts(d->t, "[");
		for (size_t k = 0; k < n; k++) {
			ws_put_comma(d->t);
			ws_text_printf(d->t, "%" PRIu32, path[k]);
			ws_map_set(&frames, path[k], 1);
		}
		ws_text_puts(d->t, "]");
	}
	ws_text_puts(d->t, "]");
	ws_put_key(d->t, "frames");
	ws_text_puts(d->t, "[");
	for (size_t i = 0; i < frames.size; i++)
		if (frames.used[i])
			put_frame(d, (uint32_t)frames.slots[i].key);
	ws_text_puts(d->t, "]");
	ws_map_free(&frames);
	free(path);
}

/* ---- who ---- */

static void put_who(struct details *d)
{
	ws_put_key(d->t, "threads");
	ws_text_puts(d->t, "[");
	for (size_t i = 0; i < d->threads.size; i++) {
		const struct ws_thread_info *w;
		const char *name;

		if (!d->threads.used[i])
			continue;
		w = ws_who_thread(d->l->who, (uint32_t)d->threads.slots[i].key);
		name = w->name[0] ? w->name : w->process_name;
		ws_put_comma(d->t);
		ws_text_printf(d->t, "[%" PRIu64 ",%" PRIu32 ",%" PRIu32 ",",
			       d->threads.slots[i].key, w->tid, w->process);
		ws_text_json(d->t, name, strnlen(name, MOST_TEXT));
		ws_text_puts(d->t, "]");
	}
	ws_text_puts(d->t, "]");
	ws_put_key(d->t, "processes");
	ws_text_puts(d->t, "[");
	for (size_t i = 0; i < d->processes.size; i++) {
		const struct ws_process_info *p;

		if (!d->processes.used[i])
			continue;
		p = ws_who_process(d->l->who, (uint32_t)d->processes.slots[i].key);
		ws_put_comma(d->t);
		ws_text_printf(d->t, "[%" PRIu64 ",%" PRIu32 ",", d->processes.slots[i].key,
			       p->pid);
		ws_text_json(d->t, p->name, strnlen(p->name, MOST_TEXT));
		ws_text_puts(d->t, "]");
	}
	ws_text_puts(d->t, "]");
}

static void put_texts(struct details *d)
{
	ws_put_key(d->t, "texts");
	ws_text_puts(d->t, "[");
	for (size_t i = 0; i < d->texts.size; i++) {
		const char *s;
		size_t n;

		if (!d->texts.used[i])
			continue;
		s = ws_report_string(d->l->r, (uint32_t)d->texts.slots[i].key, &n);
		ws_put_comma(d->t);
		ws_text_printf(d->t, "[%" PRIu64 ",", d->texts.slots[i].key);
		ws_text_json(d->t, s, n < MOST_TEXT ? n : MOST_TEXT);
		ws_text_puts(d->t, "]");
	}
	ws_text_puts(d->t, "]");
}

/* ---- states of threads ---- */

static int by_thread_and_time(const void *a, const void *b)
{
	const struct ws_page_state *x = *(struct ws_page_state *const *)a,
				   *y = *(struct ws_page_state *const *)b;

	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return x->start < y->start ? -1 : x->start > y->start;
}

struct sorted_states {
	struct ws_page_state **v;
	size_t n;
};

static void take_state(void *ctx, uint32_t worker, const struct ws_state *st)
{
	const struct sorted_states *s = ctx;
	struct ws_page_state wanted = {.thread = st->thread, .start = st->start}, *key = &wanted,
			     **is = bsearch(&key, s->v, s->n, sizeof(key), by_thread_and_time);

	(void)worker;
	if (is && (*is)->end == st->end &&
	    (*is)->ref == ws_state_ref(st->doing, st->wait, st->after))
		(*is)->st = *st;
}

/* Once more what the states are, with all that is known of them. */
static void read_states(const struct ws_lanes *l, struct ws_page_states *s)
{
	struct ws_states_part part = {
		.from = UINT64_MAX, .n = (size_t)ws_who_threads(l->who) + 1, .holders = true};
	uint8_t *threads = ws_calloc(part.n, 1);
	struct sorted_states sorted = {.v = ws_calloc(s->n, sizeof(*sorted.v)), .n = s->n};
	struct ws_states *all;

	for (size_t i = 0; i < s->n; i++) {
		struct ws_page_state *x = &s->v[i];

		x->st = (struct ws_state){.thread = x->thread,
					  .cpu = WS_NO_U32,
					  .doing = (uint8_t)ws_state_doing(x->ref),
					  .wait = (uint8_t)ws_state_wait(x->ref),
					  .after = (uint8_t)(x->ref >> 8)};
		sorted.v[i] = x;
		threads[x->thread] = 1;
		part.from = x->start < part.from ? x->start : part.from;
		part.to = x->end > part.to ? x->end : part.to;
	}
	part.threads = threads;
	part.from -= part.from != 0;
	part.to++;
	qsort(sorted.v, sorted.n, sizeof(*sorted.v), by_thread_and_time);
	all = ws_states_open_part(l->r, l->who, &part, NULL);
	ws_states_run(all, part.from, part.to, take_state, &sorted);
	ws_states_close(all);
	free(sorted.v);
	free(threads);
}

static void put_words(struct details *d, const struct ws_page_states *s, uint32_t column)
{
	ws_put_comma(d->t);
	ws_text_puts(d->t, "{");
	ws_put_string(d->t, "name", ws_state_columns[column].name);
	ws_put_string(d->t, "doc", ws_state_columns[column].doc);
	ws_put_string(d->t, "type", "WORD");
	ws_put_key(d->t, "values");
	ws_text_puts(d->t, "[");
	for (size_t i = 0; i < s->n; i++) {
		const char *word = ws_state_word(&s->v[i].st, column);

		ws_put_comma(d->t);
		if (word)
			ws_text_json(d->t, word, strlen(word));
		else
			ws_text_puts(d->t, "null");
	}
	ws_text_puts(d->t, "]}");
}

static void put_states(struct details *d, const struct ws_page_states *s)
{
	uint64_t *values = ws_calloc(s->n, sizeof(*values));

	ws_put_comma(d->t);
	ws_text_puts(d->t, "{");
	ws_put_int(d->t, "source", s->source);
	ws_put_string(d->t, "table", "state");
	ws_put_string(d->t, "sqlite", "");
	ws_put_key(d->t, "row");
	ws_text_puts(d->t, "[");
	for (size_t i = 0; i < s->n; i++) {
		ws_put_comma(d->t);
		ws_text_printf(d->t, "%zu", i);
	}
	ws_text_puts(d->t, "]");
	ws_put_key(d->t, "stack");
	ws_text_puts(d->t, "[");
	for (size_t i = 0; i < s->n; i++) {
		ws_put_comma(d->t);
		ws_text_printf(d->t, "%" PRIu64, stack_number(d, 0, s->v[i].st.callchain));
	}
	ws_text_puts(d->t, "]");
	ws_put_key(d->t, "columns");
	ws_text_puts(d->t, "[");
	for (uint32_t k = 0; k < WS_STATE_COLUMNS; k++) {
		for (size_t i = 0; i < s->n; i++)
			values[i] = ws_state_value(&s->v[i].st, k);
		if (ws_state_is_word(k))
			put_words(d, s, k);
		else
			put_column(d, &ws_state_columns[k], values, s->n);
	}
	ws_text_puts(d->t, "]}");
	free(values);
}

/* ---- all of it ---- */

static void put_source(struct details *d, uint32_t source, const struct ws_page_rows *v)
{
	enum ws_table t = ws_sources[source].table;
	uint64_t *values = load(d->l->r, t, v);

	ws_put_comma(d->t);
	ws_text_puts(d->t, "{");
	ws_put_int(d->t, "source", source);
	ws_put_string(d->t, "table", ws_tables[t].name);
	ws_put_string(d->t, "sqlite", ws_tables[t].sqlite);
	ws_put_key(d->t, "row");
	ws_text_puts(d->t, "[");
	for (size_t i = 0; i < v->n; i++) {
		ws_put_comma(d->t);
		ws_text_printf(d->t, "%" PRIu32, v->row[i]);
	}
	ws_text_puts(d->t, "]");
	put_row_stacks(d, t, values, v->n);
	ws_put_key(d->t, "columns");
	ws_text_puts(d->t, "[");
	for (uint32_t k = 0; k < ws_tables[t].column_count; k++)
		put_column(d, &ws_tables[t].columns[k], values + k * v->n, v->n);
	ws_text_puts(d->t, "]}");
	free(values);
}

void ws_page_put_details(struct ws_text *t, const struct ws_lanes *l,
			 const struct ws_page_rows v[WS_PAGE_SOURCES],
			 struct ws_page_states *states)
{
	struct details d = {.l = l, .t = t};

	ws_put_key(t, "details");
	ws_text_puts(t, "{");
	ws_put_key(t, "tables");
	ws_text_puts(t, "[");
	for (uint32_t s = 0; s < ws_source_count; s++)
		if (v[s].n)
			put_source(&d, s, &v[s]);
	if (states->n) {
		read_states(l, states);
		put_states(&d, states);
	}
	ws_text_puts(t, "]");
	put_stacks(&d);
	put_texts(&d);
	put_who(&d);
	ws_text_puts(t, "}");
	ws_map_free(&d.texts);
	ws_map_free(&d.threads);
	ws_map_free(&d.processes);
	ws_map_free(&d.stacks);
	free(d.stack);
}
