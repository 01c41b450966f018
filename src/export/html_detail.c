/*
 * page_detail.c - see page_detail.h.
 *
 * Column by column, as the report has them: a value that is the same in every row stands once,
 * texts, threads, processes, frames and stacks by number in tables of their own. A hundred bytes an
 * event, where each event's own answer from the server would be thousands.
 */
#include "export/html_detail.h"
#include "base/choose.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lanes/lane_json.h"

enum { MOST_TEXT = 4000, MOST_STACKS = 20000, MOST_FRAMES = 200 };

struct stack_key {
	uint32_t leaf, stack;
};

struct details {
	const struct ws_lanes *lanes;
	struct ws_text *text;
	struct ws_map texts, threads, processes;
	struct ws_map stacks; /* leaf << 32 | stack: number */
	struct stack_key *stack;
	size_t stack_n, stack_cap;
};

/* ---- which rows ---- */

static int by_number(const void *first, const void *second)
{
	uint32_t x = *(const uint32_t *)first, y = *(const uint32_t *)second;

	return ws_compare(x, y);
}

size_t ws_page_rows_unify(struct ws_page_rows rows[WS_PAGE_SOURCES])
{
	size_t all = 0;

	for (int s = 0; s < WS_PAGE_SOURCES; s++) {
		size_t n = 0;

		if (rows[s].n)
			qsort(rows[s].row, rows[s].n, sizeof(*rows[s].row), by_number);
		for (size_t i = 0; i < rows[s].n; i++)
			if (!n || rows[s].row[i] != rows[s].row[n - 1])
				rows[s].row[n++] = rows[s].row[i];
		rows[s].n = n;
		all += n;
	}
	return all;
}

/* The rows of a table, a column after the other; rows of damaged blocks are 0. */
static uint64_t *load(const struct ws_report *report, enum ws_table table,
		      const struct ws_page_rows *page_rows)
{
	uint32_t columns = ws_tables[table].column_count;
	uint64_t *values = ws_calloc((size_t)columns * page_rows->n, sizeof(*values)),
		 *out[WS_MAX_COLUMNS] = {NULL};
	uint64_t base = 0;
	size_t at = 0;

	for (size_t b = 0; b < ws_report_blocks(report, table) && at < page_rows->n; b++) {
		uint32_t rows = ws_report_block(report, table, b).rows;
		size_t to = at;
		bool ok;

		while (to < page_rows->n && page_rows->row[to] < base + rows)
			to++;
		for (uint32_t k = 0; k < columns && to > at; k++)
			out[k] = ws_realloc(out[k], (size_t)rows * 8);
		ok = to > at && !ws_report_decode(report, table, b, UINT64_MAX, out, NULL);
		for (; at < to; at++)
			for (uint32_t k = 0; ok && k < columns; k++)
				values[k * page_rows->n + at] = out[k][page_rows->row[at] - base];
		base += rows;
	}
	for (uint32_t k = 0; k < columns; k++)
		free(out[k]);
	return values;
}

/* ---- values ---- */

static void put_value(struct details *details, enum ws_type type, uint64_t v)
{
	struct ws_text *text = details->text;
	double f;

	if (((type == WS_T_NTIME || type == WS_T_NU64) && v == UINT64_MAX) ||
	    (type == WS_T_NU32 && v == WS_NO_U32) ||
	    ((type == WS_T_STR || type == WS_T_NTHREAD) && !v)) {
		ws_text_puts(text, "null");
		return;
	}
	if (type == WS_T_F64) {
		memcpy(&f, &v, 8);
		ws_text_printf(text, f == f && f < 1e300 && f > -1e300 ? "%.17g" : "null", f);
		return;
	}
	if (type == WS_T_STR)
		ws_map_set(&details->texts, v, 1);
	else if (type == WS_T_THREAD || type == WS_T_NTHREAD)
		ws_map_set(&details->threads, v, 1);
	else if (type == WS_T_PROCESS)
		ws_map_set(&details->processes, v, 1);
	else if (type == WS_T_TIME || type == WS_T_NTIME)
		v -= details->lanes->zero;
	if (ws_types[type].is_signed || type == WS_T_TIME || type == WS_T_NTIME)
		ws_text_printf(text,
			       (int64_t)v >> 52 && ~((int64_t)v >> 52) ? "\"%" PRId64 "\""
								       : "%" PRId64,
			       (int64_t)v);
	else
		ws_text_printf(text, v >> 53 ? "\"%" PRIu64 "\"" : "%" PRIu64, v);
}

static void put_column(struct details *details, const struct ws_column_desc *desc,
		       const uint64_t *values, size_t n)
{
	bool same = true;

	for (size_t i = 1; i < n && same; i++)
		same = values[i] == values[0];
	ws_put_comma(details->text);
	ws_text_puts(details->text, "{");
	ws_put_string(details->text, "name", desc->name);
	ws_put_string(details->text, "doc", desc->doc);
	ws_put_string(details->text, "type", ws_types[desc->type].name);
	ws_put_key(details->text, same ? "same" : "values");
	if (same) {
		put_value(details, desc->type, values[0]);
	} else {
		ws_text_puts(details->text, "[");
		for (size_t i = 0; i < n; i++) {
			ws_put_comma(details->text);
			put_value(details, desc->type, values[i]);
		}
		ws_text_puts(details->text, "]");
	}
	ws_text_puts(details->text, "}");
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
static uint64_t stack_number(struct details *details, uint32_t leaf, uint32_t stack)
{
	uint64_t key = (uint64_t)leaf << 32 | stack, n;
	bool known;

	stack = stack == WS_NO_U32 ? 0 : stack;
	if (!leaf && !stack)
		return 0;
	n = ws_map_get(&details->stacks, key, &known);
	if (known || details->stack_n == MOST_STACKS)
		return known ? n : 0;
	ws_grow(details->stack, details->stack_cap, details->stack_n + 1);
	details->stack[details->stack_n++] = (struct stack_key){leaf, stack};
	ws_map_set(&details->stacks, key, details->stack_n);
	return details->stack_n;
}

static void put_row_stacks(struct details *details, enum ws_table table, const uint64_t *values,
			   size_t n)
{
	const struct stack_columns *columns = NULL;

	for (size_t i = 0; i < WS_COUNT(stack_columns); i++)
		columns = stack_columns[i].table == table ? &stack_columns[i] : columns;
	if (!columns)
		return;
	ws_put_key(details->text, "stack");
	ws_text_puts(details->text, "[");
	for (size_t i = 0; i < n; i++) {
		uint32_t leaf =
			columns->leaf < 0 ? 0 : (uint32_t)values[(size_t)columns->leaf * n + i];

		ws_put_comma(details->text);
		ws_text_printf(details->text, "%" PRIu64,
			       stack_number(details, leaf,
					    (uint32_t)values[(size_t)columns->stack * n + i]));
	}
	ws_text_puts(details->text, "]");
}

static void put_frame(struct details *details, uint32_t frame)
{
	const struct ws_stacks *st = details->lanes->stacks;
	const struct ws_frame_info *frame_info = ws_stacks_frame(st, frame);
	const struct ws_place *place = ws_stacks_places(st, frame_info);
	const char *module = ws_stacks_module(st, frame_info->module)->path;

	ws_put_comma(details->text);
	ws_text_printf(details->text, "[%" PRIu32 ",[", frame);
	for (uint32_t i = 0; i < frame_info->count; i++) {
		const struct ws_function *fn = ws_stacks_function(st, place[i].function);
		size_t n;
		const char *file = ws_report_string(details->lanes->report, place[i].file, &n);

		ws_put_comma(details->text);
		ws_text_puts(details->text, "{");
		ws_put_text(details->text, "name", fn->name, ws_min(fn->len, MOST_TEXT));
		ws_put_text(details->text, "file", file, ws_min(n, MOST_TEXT));
		ws_put_int(details->text, "line", place[i].line);
		ws_put_text(details->text, "module", module, strnlen(module, MOST_TEXT));
		ws_put_int(details->text, "kind", frame_info->kind);
		ws_text_puts(details->text, "}");
	}
	ws_text_puts(details->text, "]]");
}

static void put_stacks(struct details *details)
{
	uint32_t *path = ws_malloc(WS_STACKS_DEEPEST * sizeof(*path));
	struct ws_map frames = {0};

	ws_put_key(details->text, "stacks");
	ws_text_puts(details->text, "[");
	for (size_t i = 0; i < details->stack_n; i++) {
		size_t n = ws_stacks_walk(details->lanes->stacks, details->stack[i].leaf,
					  details->stack[i].stack, path, MOST_FRAMES);

		ws_put_comma(details->text);
		ws_text_puts(details->text, "[");
		for (size_t k = 0; k < n; k++) {
			ws_put_comma(details->text);
			ws_text_printf(details->text, "%" PRIu32, path[k]);
			ws_map_set(&frames, path[k], 1);
		}
		ws_text_puts(details->text, "]");
	}
	ws_text_puts(details->text, "]");
	ws_put_key(details->text, "frames");
	ws_text_puts(details->text, "[");
	for (size_t i = 0; i < frames.size; i++)
		if (frames.used[i])
			put_frame(details, (uint32_t)frames.slots[i].key);
	ws_text_puts(details->text, "]");
	ws_map_free(&frames);
	free(path);
}

/* ---- who ---- */

static void put_who(struct details *details)
{
	ws_put_key(details->text, "threads");
	ws_text_puts(details->text, "[");
	for (size_t i = 0; i < details->threads.size; i++) {
		const struct ws_thread_info *info;
		const char *name;

		if (!details->threads.used[i])
			continue;
		info = ws_who_thread(details->lanes->who, (uint32_t)details->threads.slots[i].key);
		name = info->name[0] ? info->name : info->process_name;
		ws_put_comma(details->text);
		ws_text_printf(details->text, "[%" PRIu64 ",%" PRIu32 ",%" PRIu32 ",",
			       details->threads.slots[i].key, info->tid, info->process);
		ws_text_json(details->text, name, strnlen(name, MOST_TEXT));
		ws_text_puts(details->text, "]");
	}
	ws_text_puts(details->text, "]");
	ws_put_key(details->text, "processes");
	ws_text_puts(details->text, "[");
	for (size_t i = 0; i < details->processes.size; i++) {
		const struct ws_process_info *process_info;

		if (!details->processes.used[i])
			continue;
		process_info = ws_who_process(details->lanes->who,
					      (uint32_t)details->processes.slots[i].key);
		ws_put_comma(details->text);
		ws_text_printf(details->text, "[%" PRIu64 ",%" PRIu32 ",",
			       details->processes.slots[i].key, process_info->pid);
		ws_text_json(details->text, process_info->name,
			     strnlen(process_info->name, MOST_TEXT));
		ws_text_puts(details->text, "]");
	}
	ws_text_puts(details->text, "]");
}

static void put_texts(struct details *details)
{
	ws_put_key(details->text, "texts");
	ws_text_puts(details->text, "[");
	for (size_t i = 0; i < details->texts.size; i++) {
		const char *text;
		size_t n;

		if (!details->texts.used[i])
			continue;
		text = ws_report_string(details->lanes->report,
					(uint32_t)details->texts.slots[i].key, &n);
		ws_put_comma(details->text);
		ws_text_printf(details->text, "[%" PRIu64 ",", details->texts.slots[i].key);
		ws_text_json(details->text, text, ws_min(n, MOST_TEXT));
		ws_text_puts(details->text, "]");
	}
	ws_text_puts(details->text, "]");
}

/* ---- states of threads ---- */

static int by_thread_and_time(const void *first, const void *second)
{
	const struct ws_page_state *left = *(struct ws_page_state *const *)first,
				   *right = *(struct ws_page_state *const *)second;

	if (left->thread != right->thread)
		return left->thread < right->thread ? -1 : 1;
	return ws_compare(left->start, right->start);
}

struct sorted_states {
	struct ws_page_state **v;
	size_t n;
};

static void take_state(void *ctx, uint32_t worker, const struct ws_state *st)
{
	const struct sorted_states *states = ctx;
	struct ws_page_state wanted = {.thread = st->thread, .start = st->start}, *key = &wanted,
			     **is = bsearch(&key, states->v, states->n, sizeof(key),
					    by_thread_and_time);

	(void)worker;
	if (is && (*is)->end == st->end &&
	    (*is)->ref == ws_state_ref(st->doing, st->wait, st->after))
		(*is)->st = *st;
}

/* Once more what the states are, with all that is known of them. */
static void read_states(const struct ws_lanes *lanes, struct ws_page_states *states)
{
	struct ws_states_part part = {
		.from = UINT64_MAX, .n = (size_t)ws_who_threads(lanes->who) + 1, .holders = true};
	uint8_t *threads = ws_calloc(part.n, 1);
	struct sorted_states sorted = {.v = ws_calloc(states->n, sizeof(*sorted.v)),
				       .n = states->n};
	struct ws_states *all;

	for (size_t i = 0; i < states->n; i++) {
		struct ws_page_state *page_state = &states->page_states[i];

		page_state->st =
			(struct ws_state){.thread = page_state->thread,
					  .cpu = WS_NO_U32,
					  .doing = (uint8_t)ws_state_doing(page_state->ref),
					  .wait = (uint8_t)ws_state_wait(page_state->ref),
					  .after = (uint8_t)(page_state->ref >> 8)};
		sorted.v[i] = page_state;
		threads[page_state->thread] = 1;
		part.from = ws_min(page_state->start, part.from);
		part.to = ws_max(page_state->end, part.to);
	}
	part.threads = threads;
	part.from -= part.from != 0;
	part.to++;
	qsort(sorted.v, sorted.n, sizeof(*sorted.v), by_thread_and_time);
	all = ws_states_open_part(lanes->report, lanes->who, &part, NULL);
	ws_states_run(all, part.from, part.to, take_state, &sorted);
	ws_states_close(all);
	free(sorted.v);
	free(threads);
}

static void put_words(struct details *details, const struct ws_page_states *states, uint32_t column)
{
	ws_put_comma(details->text);
	ws_text_puts(details->text, "{");
	ws_put_string(details->text, "name", ws_state_columns[column].name);
	ws_put_string(details->text, "doc", ws_state_columns[column].doc);
	ws_put_string(details->text, "type", "WORD");
	ws_put_key(details->text, "values");
	ws_text_puts(details->text, "[");
	for (size_t i = 0; i < states->n; i++) {
		const char *word = ws_state_word(&states->page_states[i].st, column);

		ws_put_comma(details->text);
		if (word)
			ws_text_json(details->text, word, strlen(word));
		else
			ws_text_puts(details->text, "null");
	}
	ws_text_puts(details->text, "]}");
}

static void put_states(struct details *details, const struct ws_page_states *states)
{
	uint64_t *values = ws_calloc(states->n, sizeof(*values));

	ws_put_comma(details->text);
	ws_text_puts(details->text, "{");
	ws_put_int(details->text, "source", states->source);
	ws_put_string(details->text, "table", "state");
	ws_put_string(details->text, "sqlite", "");
	ws_put_key(details->text, "row");
	ws_text_puts(details->text, "[");
	for (size_t i = 0; i < states->n; i++) {
		ws_put_comma(details->text);
		ws_text_printf(details->text, "%zu", i);
	}
	ws_text_puts(details->text, "]");
	ws_put_key(details->text, "stack");
	ws_text_puts(details->text, "[");
	for (size_t i = 0; i < states->n; i++) {
		ws_put_comma(details->text);
		ws_text_printf(details->text, "%" PRIu64,
			       stack_number(details, 0, states->page_states[i].st.callchain));
	}
	ws_text_puts(details->text, "]");
	ws_put_key(details->text, "columns");
	ws_text_puts(details->text, "[");
	for (uint32_t k = 0; k < WS_STATE_COLUMNS; k++) {
		for (size_t i = 0; i < states->n; i++)
			values[i] = ws_state_value(&states->page_states[i].st, k);
		if (ws_state_is_word(k))
			put_words(details, states, k);
		else
			put_column(details, &ws_state_columns[k], values, states->n);
	}
	ws_text_puts(details->text, "]}");
	free(values);
}

/* ---- all of it ---- */

static void put_source(struct details *details, uint32_t source, const struct ws_page_rows *rows)
{
	enum ws_table table = ws_sources[source].table;
	uint64_t *values = load(details->lanes->report, table, rows);

	ws_put_comma(details->text);
	ws_text_puts(details->text, "{");
	ws_put_int(details->text, "source", source);
	ws_put_string(details->text, "table", ws_tables[table].name);
	ws_put_string(details->text, "sqlite", ws_tables[table].sqlite);
	ws_put_key(details->text, "row");
	ws_text_puts(details->text, "[");
	for (size_t i = 0; i < rows->n; i++) {
		ws_put_comma(details->text);
		ws_text_printf(details->text, "%" PRIu32, rows->row[i]);
	}
	ws_text_puts(details->text, "]");
	put_row_stacks(details, table, values, rows->n);
	ws_put_key(details->text, "columns");
	ws_text_puts(details->text, "[");
	for (uint32_t k = 0; k < ws_tables[table].column_count; k++)
		put_column(details, &ws_tables[table].columns[k], values + k * rows->n, rows->n);
	ws_text_puts(details->text, "]}");
	free(values);
}

void ws_page_put_details(struct ws_text *text, const struct ws_lanes *lanes,
			 const struct ws_page_rows rows[WS_PAGE_SOURCES],
			 struct ws_page_states *states)
{
	struct details details = {.lanes = lanes, .text = text};

	ws_put_key(text, "details");
	ws_text_puts(text, "{");
	ws_put_key(text, "tables");
	ws_text_puts(text, "[");
	for (uint32_t s = 0; s < ws_source_count; s++)
		if (rows[s].n)
			put_source(&details, s, &rows[s]);
	if (states->n) {
		read_states(lanes, states);
		put_states(&details, states);
	}
	ws_text_puts(text, "]");
	put_stacks(&details);
	put_texts(&details);
	put_who(&details);
	ws_text_puts(text, "}");
	ws_map_free(&details.texts);
	ws_map_free(&details.threads);
	ws_map_free(&details.processes);
	ws_map_free(&details.stacks);
	free(details.stack);
}
