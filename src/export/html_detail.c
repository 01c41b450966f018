/*
 * html_detail.c - see html_detail.h.
 *
 * Details are written column by column, as the report has them: a value that is the same in every
 * row is written once; texts, threads, processes, frames and stacks are numbers into tables of
 * their own. This takes about a hundred bytes per event, while the server's answer for one takes
 * thousands.
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

struct detail_writer {
	const struct ws_lanes *lanes;
	struct ws_text *text;
	struct ws_map texts, threads, processes;
	struct ws_map stacks; /* leaf << 32 | stack: number */
	struct stack_key *stack_keys;
	size_t stack_count, stack_capacity;
};

/* ---- rows ---- */

static int compare_row_numbers(const void *first, const void *second)
{
	uint32_t left = *(const uint32_t *)first, right = *(const uint32_t *)second;

	return ws_compare(left, right);
}

size_t ws_unify_page_rows(struct ws_page_rows rows[WS_PAGE_SOURCES])
{
	size_t all = 0;

	for (int source = 0; source < WS_PAGE_SOURCES; source++) {
		size_t kept = 0;

		if (rows[source].count)
			qsort(rows[source].rows, rows[source].count, sizeof(*rows[source].rows),
			      compare_row_numbers);
		for (size_t i = 0; i < rows[source].count; i++)
			if (!kept || rows[source].rows[i] != rows[source].rows[kept - 1])
				rows[source].rows[kept++] = rows[source].rows[i];
		rows[source].count = kept;
		all += kept;
	}
	return all;
}

/* Read the rows of a table, one column after another; rows of damaged blocks are 0. The caller
 * frees them. */
static uint64_t *read_rows(const struct ws_report *report, enum ws_table table,
			   const struct ws_page_rows *page_rows)
{
	uint32_t columns = ws_tables[table].column_count;
	uint64_t *values = ws_calloc((size_t)columns * page_rows->count, sizeof(*values)),
		 *out[WS_MAX_COLUMNS] = {NULL};
	uint64_t first_row = 0;
	size_t row = 0;

	for (size_t block = 0;
	     block < ws_report_count_blocks(report, table) && row < page_rows->count; block++) {
		uint32_t rows = ws_report_block_info(report, table, block).rows;
		size_t to = row;
		bool ok;

		while (to < page_rows->count && page_rows->rows[to] < first_row + rows)
			to++;
		for (uint32_t column = 0; column < columns && to > row; column++)
			out[column] = ws_realloc(out[column], (size_t)rows * 8);
		ok = to > row &&
		     !ws_report_decode_block(report, table, block, UINT64_MAX, out, NULL);
		for (; row < to; row++)
			for (uint32_t k = 0; ok && k < columns; k++)
				values[k * page_rows->count + row] =
					out[k][page_rows->rows[row] - first_row];
		first_row += rows;
	}
	for (uint32_t k = 0; k < columns; k++)
		free(out[k]);
	return values;
}

/* ---- values ---- */

/* JavaScript's numbers have 53 bits: larger ones are written as strings. */
static void put_signed_number(struct ws_text *text, int64_t number)
{
	if (number >> 52 && ~(number >> 52))
		ws_text_printf(text, "\"%" PRId64 "\"", number);
	else
		ws_text_printf(text, "%" PRId64, number);
}

static void put_unsigned_number(struct ws_text *text, uint64_t number)
{
	if (number >> 53)
		ws_text_printf(text, "\"%" PRIu64 "\"", number);
	else
		ws_text_printf(text, "%" PRIu64, number);
}

static void put_real(struct ws_text *text, double number)
{
	if (number == number && number < 1e300 && number > -1e300)
		ws_text_printf(text, "%.17g", number);
	else
		ws_text_puts(text, "null");
}

static void put_value(struct detail_writer *writer, enum ws_type type, uint64_t bits)
{
	struct ws_text *text = writer->text;
	double number;

	if (((type == WS_T_NTIME || type == WS_T_NU64) && bits == UINT64_MAX) ||
	    (type == WS_T_NU32 && bits == WS_NO_U32) ||
	    ((type == WS_T_STR || type == WS_T_NTHREAD) && !bits)) {
		ws_text_puts(text, "null");
		return;
	}
	if (type == WS_T_F64) {
		memcpy(&number, &bits, 8);
		put_real(text, number);
		return;
	}
	if (type == WS_T_STR)
		ws_map_set(&writer->texts, bits, 1);
	else if (type == WS_T_THREAD || type == WS_T_NTHREAD)
		ws_map_set(&writer->threads, bits, 1);
	else if (type == WS_T_PROCESS)
		ws_map_set(&writer->processes, bits, 1);
	else if (type == WS_T_TIME || type == WS_T_NTIME)
		bits -= writer->lanes->zero;
	if (ws_types[type].is_signed || type == WS_T_TIME || type == WS_T_NTIME)
		put_signed_number(text, (int64_t)bits);
	else
		put_unsigned_number(text, bits);
}

static void put_column(struct detail_writer *writer, const struct ws_column_desc *desc,
		       const uint64_t *values, size_t rows)
{
	bool same = true;

	for (size_t i = 1; i < rows && same; i++)
		same = values[i] == values[0];
	ws_put_json_comma(writer->text);
	ws_text_puts(writer->text, "{");
	ws_put_json_string(writer->text, "name", desc->name);
	ws_put_json_string(writer->text, "doc", desc->doc);
	ws_put_json_string(writer->text, "type", ws_types[desc->type].name);
	if (same) {
		ws_put_json_key(writer->text, "same");
		put_value(writer, desc->type, values[0]);
	} else {
		ws_put_json_key(writer->text, "values");
		ws_text_puts(writer->text, "[");
		for (size_t i = 0; i < rows; i++) {
			ws_put_json_comma(writer->text);
			put_value(writer, desc->type, values[i]);
		}
		ws_text_puts(writer->text, "]");
	}
	ws_text_puts(writer->text, "}");
}

/* ---- stacks ---- */

/* The number of a stack, from 1; 0 for none, or when there are too many. */
static uint64_t find_stack_number(struct detail_writer *writer, uint32_t leaf, uint32_t stack)
{
	uint64_t key = (uint64_t)leaf << 32 | stack, number;
	bool known;

	if (stack == WS_NO_U32)
		stack = 0;
	if (!leaf && !stack)
		return 0;
	number = ws_map_get(&writer->stacks, key, &known);
	if (known)
		return number;
	if (writer->stack_count == MOST_STACKS)
		return 0;
	ws_grow(writer->stack_keys, writer->stack_capacity, writer->stack_count + 1);
	writer->stack_keys[writer->stack_count++] = (struct stack_key){leaf, stack};
	ws_map_set(&writer->stacks, key, writer->stack_count);
	return writer->stack_count;
}

static void put_row_stacks(struct detail_writer *writer, enum ws_table table,
			   const uint64_t *values, size_t rows)
{
	const struct ws_event_kind *kind = ws_event_kind_of(table);

	if (!kind || !kind->callchain)
		return;
	ws_put_json_key(writer->text, "stack");
	ws_text_puts(writer->text, "[");
	for (size_t i = 0; i < rows; i++) {
		uint32_t leaf = 0;

		if (kind->frame)
			leaf = (uint32_t)values[(size_t)kind->frame * rows + i];
		ws_put_json_comma(writer->text);
		ws_text_printf(
			writer->text, "%" PRIu64,
			find_stack_number(writer, leaf,
					  (uint32_t)values[(size_t)kind->callchain * rows + i]));
	}
	ws_text_puts(writer->text, "]");
}

static void put_frame(struct detail_writer *writer, uint32_t frame)
{
	const struct ws_stacks *stacks = writer->lanes->stacks;
	const struct ws_frame_info *info = ws_stacks_get_frame(stacks, frame);
	const struct ws_place *place = ws_stacks_get_places(stacks, info);
	const char *module = ws_stacks_get_module(stacks, info->module)->path;

	ws_put_json_comma(writer->text);
	ws_text_printf(writer->text, "[%" PRIu32 ",[", frame);
	for (uint32_t i = 0; i < info->count; i++) {
		const struct ws_function *function =
			ws_stacks_get_function(stacks, place[i].function);
		size_t length;
		const char *file = ws_report_string(writer->lanes->report, place[i].file, &length);

		ws_put_json_comma(writer->text);
		ws_text_puts(writer->text, "{");
		ws_put_json_text(writer->text, "name", function->name,
				 ws_min(function->len, MOST_TEXT));
		ws_put_json_text(writer->text, "file", file, ws_min(length, MOST_TEXT));
		ws_put_json_int(writer->text, "line", place[i].line);
		ws_put_json_text(writer->text, "module", module, strnlen(module, MOST_TEXT));
		ws_put_json_int(writer->text, "kind", info->kind);
		ws_text_puts(writer->text, "}");
	}
	ws_text_puts(writer->text, "]]");
}

static void put_stacks(struct detail_writer *writer)
{
	uint32_t *path = ws_malloc(WS_STACKS_DEEPEST * sizeof(*path));
	struct ws_map frames = {0};

	ws_put_json_key(writer->text, "stacks");
	ws_text_puts(writer->text, "[");
	for (size_t i = 0; i < writer->stack_count; i++) {
		size_t depth =
			ws_stacks_list_frames(writer->lanes->stacks, writer->stack_keys[i].leaf,
					      writer->stack_keys[i].stack, path, MOST_FRAMES);

		ws_put_json_comma(writer->text);
		ws_text_puts(writer->text, "[");
		for (size_t k = 0; k < depth; k++) {
			ws_put_json_comma(writer->text);
			ws_text_printf(writer->text, "%" PRIu32, path[k]);
			ws_map_set(&frames, path[k], 1);
		}
		ws_text_puts(writer->text, "]");
	}
	ws_text_puts(writer->text, "]");
	ws_put_json_key(writer->text, "frames");
	ws_text_puts(writer->text, "[");
	for (size_t i = 0; i < frames.size; i++)
		if (frames.used[i])
			put_frame(writer, (uint32_t)frames.slots[i].key);
	ws_text_puts(writer->text, "]");
	ws_map_free(&frames);
	free(path);
}

/* ---- threads, processes and texts ---- */

static void put_threads_and_processes(struct detail_writer *writer)
{
	ws_put_json_key(writer->text, "threads");
	ws_text_puts(writer->text, "[");
	for (size_t i = 0; i < writer->threads.size; i++) {
		const struct ws_thread_info *info;
		const char *name;

		if (!writer->threads.used[i])
			continue;
		info = ws_find_thread(writer->lanes->who, (uint32_t)writer->threads.slots[i].key);
		name = info->name;
		if (!*name)
			name = info->process_name;
		ws_put_json_comma(writer->text);
		ws_text_printf(writer->text, "[%" PRIu64 ",%" PRIu32 ",%" PRIu32 ",",
			       writer->threads.slots[i].key, info->tid, info->process);
		ws_put_quoted_json(writer->text, name, strnlen(name, MOST_TEXT));
		ws_text_puts(writer->text, "]");
	}
	ws_text_puts(writer->text, "]");
	ws_put_json_key(writer->text, "processes");
	ws_text_puts(writer->text, "[");
	for (size_t i = 0; i < writer->processes.size; i++) {
		const struct ws_process_info *process_info;

		if (!writer->processes.used[i])
			continue;
		process_info = ws_find_process(writer->lanes->who,
					       (uint32_t)writer->processes.slots[i].key);
		ws_put_json_comma(writer->text);
		ws_text_printf(writer->text, "[%" PRIu64 ",%" PRIu32 ",",
			       writer->processes.slots[i].key, process_info->pid);
		ws_put_quoted_json(writer->text, process_info->name,
				   strnlen(process_info->name, MOST_TEXT));
		ws_text_puts(writer->text, "]");
	}
	ws_text_puts(writer->text, "]");
}

static void put_texts(struct detail_writer *writer)
{
	ws_put_json_key(writer->text, "texts");
	ws_text_puts(writer->text, "[");
	for (size_t i = 0; i < writer->texts.size; i++) {
		const char *text;
		size_t length;

		if (!writer->texts.used[i])
			continue;
		text = ws_report_string(writer->lanes->report, (uint32_t)writer->texts.slots[i].key,
					&length);
		ws_put_json_comma(writer->text);
		ws_text_printf(writer->text, "[%" PRIu64 ",", writer->texts.slots[i].key);
		ws_put_quoted_json(writer->text, text, ws_min(length, MOST_TEXT));
		ws_text_puts(writer->text, "]");
	}
	ws_text_puts(writer->text, "]");
}

/* ---- states of threads ---- */

static int compare_states(const void *first, const void *second)
{
	const struct ws_page_state *left = *(struct ws_page_state *const *)first,
				   *right = *(struct ws_page_state *const *)second;

	if (left->thread != right->thread)
		return ws_compare(left->thread, right->thread);
	return ws_compare(left->start, right->start);
}

struct sorted_states {
	struct ws_page_state **states;
	size_t count;
};

static void keep_state_details(void *context, uint32_t worker, const struct ws_state *state)
{
	const struct sorted_states *states = context;
	struct ws_page_state wanted = {.thread = state->thread, .start = state->start},
			     *key = &wanted,
			     **found = bsearch(&key, states->states, states->count, sizeof(key),
					       compare_states);

	(void)worker;
	if (found && (*found)->end == state->end &&
	    (*found)->ref == ws_state_ref(state->doing, state->wait, state->after))
		(*found)->st = *state;
}

/* Compute the states again, this time with all details. */
static void compute_states(const struct ws_lanes *lanes, struct ws_page_states *states)
{
	struct ws_states_part part = {.from = UINT64_MAX,
				      .count = (size_t)ws_highest_thread_id(lanes->who) + 1,
				      .holders = true};
	uint8_t *threads = ws_calloc(part.count, 1);
	struct sorted_states sorted = {.states = ws_calloc(states->count, sizeof(*sorted.states)),
				       .count = states->count};
	struct ws_states *all;

	for (size_t i = 0; i < states->count; i++) {
		struct ws_page_state *page_state = &states->states[i];

		page_state->st =
			(struct ws_state){.thread = page_state->thread,
					  .cpu = WS_NO_U32,
					  .doing = (uint8_t)ws_state_doing(page_state->ref),
					  .wait = (uint8_t)ws_state_wait(page_state->ref),
					  .after = (uint8_t)(page_state->ref >> 8)};
		sorted.states[i] = page_state;
		threads[page_state->thread] = 1;
		part.from = ws_min(page_state->start, part.from);
		part.to = ws_max(page_state->end, part.to);
	}
	part.threads = threads;
	part.from -= part.from != 0;
	part.to++;
	qsort(sorted.states, sorted.count, sizeof(*sorted.states), compare_states);
	all = ws_states_open_part(lanes->report, lanes->who, &part, NULL);
	ws_walk_states(all, part.from, part.to, keep_state_details, &sorted);
	ws_states_close(all);
	free(sorted.states);
	free(threads);
}

static void put_word_column(struct detail_writer *writer, const struct ws_page_states *states,
			    uint32_t column)
{
	ws_put_json_comma(writer->text);
	ws_text_puts(writer->text, "{");
	ws_put_json_string(writer->text, "name", ws_state_columns[column].name);
	ws_put_json_string(writer->text, "doc", ws_state_columns[column].doc);
	ws_put_json_string(writer->text, "type", "WORD");
	ws_put_json_key(writer->text, "values");
	ws_text_puts(writer->text, "[");
	for (size_t i = 0; i < states->count; i++) {
		const char *word = ws_state_word(&states->states[i].st, column);

		ws_put_json_comma(writer->text);
		if (word)
			ws_put_quoted_json(writer->text, word, strlen(word));
		else
			ws_text_puts(writer->text, "null");
	}
	ws_text_puts(writer->text, "]}");
}

static void put_state_table(struct detail_writer *writer, const struct ws_page_states *states)
{
	uint64_t *values = ws_calloc(states->count, sizeof(*values));

	ws_put_json_comma(writer->text);
	ws_text_puts(writer->text, "{");
	ws_put_json_int(writer->text, "source", states->source);
	ws_put_json_string(writer->text, "table", "state");
	ws_put_json_string(writer->text, "sqlite", "");
	ws_put_json_key(writer->text, "row");
	ws_text_puts(writer->text, "[");
	for (size_t i = 0; i < states->count; i++) {
		ws_put_json_comma(writer->text);
		ws_text_printf(writer->text, "%zu", i);
	}
	ws_text_puts(writer->text, "]");
	ws_put_json_key(writer->text, "stack");
	ws_text_puts(writer->text, "[");
	for (size_t i = 0; i < states->count; i++) {
		ws_put_json_comma(writer->text);
		ws_text_printf(writer->text, "%" PRIu64,
			       find_stack_number(writer, 0, states->states[i].st.callchain));
	}
	ws_text_puts(writer->text, "]");
	ws_put_json_key(writer->text, "columns");
	ws_text_puts(writer->text, "[");
	for (uint32_t column = 0; column < WS_STATE_COLUMNS; column++) {
		for (size_t i = 0; i < states->count; i++)
			values[i] = ws_state_value(&states->states[i].st, column);
		if (ws_state_is_word(column))
			put_word_column(writer, states, column);
		else
			put_column(writer, &ws_state_columns[column], values, states->count);
	}
	ws_text_puts(writer->text, "]}");
	free(values);
}

/* ---- everything ---- */

static void put_source_table(struct detail_writer *writer, uint32_t source,
			     const struct ws_page_rows *rows)
{
	enum ws_table table = ws_event_kinds[source].table;
	uint64_t *values = read_rows(writer->lanes->report, table, rows);

	ws_put_json_comma(writer->text);
	ws_text_puts(writer->text, "{");
	ws_put_json_int(writer->text, "source", source);
	ws_put_json_string(writer->text, "table", ws_tables[table].name);
	ws_put_json_string(writer->text, "sqlite", ws_tables[table].sqlite);
	ws_put_json_key(writer->text, "row");
	ws_text_puts(writer->text, "[");
	for (size_t i = 0; i < rows->count; i++) {
		ws_put_json_comma(writer->text);
		ws_text_printf(writer->text, "%" PRIu32, rows->rows[i]);
	}
	ws_text_puts(writer->text, "]");
	put_row_stacks(writer, table, values, rows->count);
	ws_put_json_key(writer->text, "columns");
	ws_text_puts(writer->text, "[");
	for (uint32_t column = 0; column < ws_tables[table].column_count; column++)
		put_column(writer, &ws_tables[table].columns[column], values + column * rows->count,
			   rows->count);
	ws_text_puts(writer->text, "]}");
	free(values);
}

void ws_put_page_details(struct ws_text *text, const struct ws_lanes *lanes,
			 const struct ws_page_rows rows[WS_PAGE_SOURCES],
			 struct ws_page_states *states)
{
	struct detail_writer writer = {.lanes = lanes, .text = text};

	ws_put_json_key(text, "details");
	ws_text_puts(text, "{");
	ws_put_json_key(text, "tables");
	ws_text_puts(text, "[");
	for (uint32_t source = 0; source < WS_EVENT_KINDS; source++)
		if (rows[source].count)
			put_source_table(&writer, source, &rows[source]);
	if (states->count) {
		compute_states(lanes, states);
		put_state_table(&writer, states);
	}
	ws_text_puts(text, "]");
	put_stacks(&writer);
	put_texts(&writer);
	put_threads_and_processes(&writer);
	ws_text_puts(text, "}");
	ws_map_free(&writer.texts);
	ws_map_free(&writer.threads);
	ws_map_free(&writer.processes);
	ws_map_free(&writer.stacks);
	free(writer.stack_keys);
}
