/* columns.c - see columns.h. */
#include "serve/columns.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/choose.h"
#include "text/text.h"

/* ---- one column ---- */

struct blocks { /* of one table */
	size_t n;
	uint64_t *first; /* row of each block */
	uint64_t **rows; /* NULL: not read yet */
	int column;	 /* -1: the table lacks it */
};

struct ws_column {
	const struct ws_api_call *call;
	struct blocks of[WS_EVENT_KINDS];
};

int ws_find_table_column(enum ws_table table, const char *name)
{
	for (uint32_t i = 0; i < ws_tables[table].column_count; i++)
		if (!strcmp(ws_tables[table].columns[i].name, name))
			return (int)i;
	return -1;
}

static void open_blocks(struct blocks *blocks, const struct ws_report *report, enum ws_table table)
{
	uint64_t row = 0;

	blocks->n = ws_report_count_blocks(report, table);
	blocks->first = ws_calloc(blocks->n + 1, sizeof(*blocks->first));
	blocks->rows = ws_calloc(blocks->n + 1, sizeof(*blocks->rows));
	for (size_t i = 0; i < blocks->n; i++) {
		blocks->first[i] = row;
		row += ws_report_block_info(report, table, i).rows;
	}
	blocks->first[blocks->n] = row;
}

struct ws_column *ws_column_open(const struct ws_api_call *call, const char *name)
{
	struct ws_column *column = ws_calloc(1, sizeof(*column));
	bool any = false;

	column->call = call;
	for (size_t i = 0; i < WS_EVENT_KINDS; i++) {
		struct blocks *blocks = &column->of[i];

		blocks->column = -1;
		if (!ws_event_kinds[i].is_computed)
			blocks->column = ws_find_table_column(ws_event_kinds[i].table, name);
		if (blocks->column < 0)
			continue;
		any = true;
		open_blocks(blocks, call->rep->report, ws_event_kinds[i].table);
	}
	if (any)
		return column;
	free(column);
	return NULL;
}

void ws_column_free(struct ws_column *column)
{
	if (!column)
		return;
	for (size_t i = 0; i < WS_EVENT_KINDS; i++) {
		struct blocks *blocks = &column->of[i];

		for (size_t k = 0; blocks->rows && k < blocks->n; k++)
			free(blocks->rows[k]);
		free(blocks->rows);
		free(blocks->first);
	}
	free(column);
}

static uint64_t *read_block(const struct ws_report *report, enum ws_table table, size_t i,
			    int column)
{
	uint64_t *out[WS_MAX_COLUMNS] = {NULL};
	uint32_t rows = ws_report_block_info(report, table, i).rows;

	out[column] = ws_calloc((size_t)rows + 1, 8);
	if (ws_report_decode_block(report, table, i, UINT64_C(1) << column, out, NULL))
		memset(out[column], 0, (size_t)rows * 8);
	return out[column];
}

/* The column's description, with the stored value in *v; NULL when the event's table lacks it. */
static const struct ws_column_desc *read_stored(struct ws_column *column,
						const struct ws_level *level, uint32_t event,
						uint64_t *v)
{
	size_t source = level->src[event] & WS_EVENT_SOURCE, low = 0, high;
	struct blocks *blocks = &column->of[source];
	enum ws_table table = ws_event_kinds[source].table;
	uint64_t row = level->ref[event];

	if (blocks->column < 0 || row >= blocks->first[blocks->n])
		return NULL;
	for (high = blocks->n; high - low > 1;) {
		size_t middle = (low + high) / 2;

		if (blocks->first[middle] <= row)
			low = middle;
		else
			high = middle;
	}
	if (!blocks->rows[low])
		blocks->rows[low] =
			read_block(column->call->rep->report, table, low, blocks->column);
	*v = blocks->rows[low][row - blocks->first[low]];
	return &ws_tables[table].columns[blocks->column];
}

static void set_text(struct ws_column_value *value, const char *text)
{
	value->text = text;
	value->length = strlen(text);
}

static long double read_number(const struct ws_api_call *call, enum ws_type type, uint64_t v)
{
	double real;

	memcpy(&real, &v, 8);
	if (type == WS_T_F64)
		return real;
	if (type == WS_T_TIME || type == WS_T_NTIME)
		return (long double)(int64_t)(v - call->lanes->zero);
	if (ws_types[type].is_signed)
		return (long double)(int64_t)v;
	return (long double)v;
}

void ws_column_set_who(struct ws_column_value *value, const struct ws_names_by_id *who, uint32_t id,
		       bool is_thread)
{
	if (is_thread) {
		const struct ws_thread_info *info = ws_find_thread(who, id);

		value->number = info->tid;
		set_text(value, info->name[0] ? info->name : info->process_name);
		return;
	}
	value->number = ws_find_process(who, id)->pid;
	set_text(value, ws_find_process(who, id)->name);
}

/* What is no number is shown as none. */
static bool is_nan(uint64_t v)
{
	double real;

	memcpy(&real, &v, 8);
	return real != real;
}

struct ws_column_value ws_column_read(struct ws_column *column, const struct ws_level *level,
				      uint32_t event)
{
	const struct ws_api_call *call = column->call;
	struct ws_column_value value = {.is_null = true};
	uint64_t v = 0;
	const struct ws_column_desc *desc = read_stored(column, level, event, &v);

	if (!desc || ws_is_column_null(desc->type, v))
		return value;
	if (desc->type == WS_T_F64 && is_nan(v))
		return value;
	value.is_null = false;
	value.has_number = desc->type != WS_T_STR;
	if (desc->type == WS_T_STR) {
		value.text = ws_report_string(call->rep->report, (uint32_t)v, &value.length);
	} else if (desc->type == WS_T_THREAD || desc->type == WS_T_NTHREAD) {
		ws_column_set_who(&value, call->lanes->who, (uint32_t)v, true);
	} else if (desc->type == WS_T_PROCESS) {
		ws_column_set_who(&value, call->lanes->who, (uint32_t)v, false);
	} else {
		value.number = read_number(call, desc->type, v);
	}
	return value;
}

/* Tables have whole numbers, times and doubles side by side: what a column can hold is what any of
 * its tables has. */
struct ws_column_holds ws_column_find_types(const struct ws_column *column)
{
	struct ws_column_holds holds = {false, false};

	for (size_t i = 0; i < WS_EVENT_KINDS; i++) {
		const struct blocks *blocks = &column->of[i];
		enum ws_type type;

		if (blocks->column < 0)
			continue;
		type = ws_tables[ws_event_kinds[i].table].columns[blocks->column].type;
		holds.numbers |= type != WS_T_STR;
		holds.texts |= type == WS_T_STR || type == WS_T_THREAD || type == WS_T_NTHREAD ||
			       type == WS_T_PROCESS;
	}
	return holds;
}

uint64_t ws_column_key(const struct ws_column_value *value)
{
	double real = (double)value->number;
	uint64_t bits, sign = UINT64_C(1) << 63;

	memcpy(&bits, &real, 8);
	return bits & sign ? ~bits : bits | sign;
}

void ws_column_put(struct ws_column *column, const struct ws_level *level, uint32_t event)
{
	uint64_t v;
	const struct ws_column_desc *desc = read_stored(column, level, event, &v);

	if (desc)
		ws_put_column_value(column->call->out, column->call, desc, v);
}

/* Whether events of one of these lanes come from a table. States of threads are computed from rows,
 * and have none themselves. */
static bool feeds_any(const struct ws_api_call *call, const struct ws_event_kind *kind,
		      const uint32_t *lanes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < kind->feeds; k++)
			if (call->lanes->lane[lanes[i]]->kind == kind->feed[k].kind &&
			    kind->feed[k].kind != WS_LANE_STATE &&
			    !ws_lane_descs[kind->feed[k].kind].counter)
				return true;
	return false;
}

static bool is_listed(const enum ws_table *tables, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (ws_find_table_column(tables[i], name) >= 0)
			return true;
	return false;
}

void ws_put_columns(const struct ws_api_call *call, const uint32_t *lanes, size_t n)
{
	enum ws_table seen[WS_EVENT_KINDS];
	size_t tables = 0;

	ws_put_json_key(call->out, "columns");
	ws_text_puts(call->out, "[");
	for (size_t i = 0; i < WS_EVENT_KINDS; i++) {
		const struct ws_event_kind *kind = &ws_event_kinds[i];
		const struct ws_table_desc *desc = &ws_tables[kind->table];

		if (kind->is_computed || !ws_report_count_rows(call->rep->report, kind->table) ||
		    !feeds_any(call, kind, lanes, n))
			continue;
		for (uint32_t k = 0; k < desc->column_count; k++) {
			if (is_listed(seen, tables, desc->columns[k].name))
				continue;
			ws_put_json_comma(call->out);
			ws_text_puts(call->out, "{");
			ws_put_json_string(call->out, "name", desc->columns[k].name);
			ws_put_json_string(call->out, "doc", desc->columns[k].doc);
			ws_put_json_string(call->out, "type", ws_types[desc->columns[k].type].name);
			ws_text_puts(call->out, "}");
		}
		seen[tables++] = kind->table;
	}
	ws_text_puts(call->out, "]");
}
