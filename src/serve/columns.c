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

static int find_column(enum ws_table table, const char *name)
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
			blocks->column = find_column(ws_event_kinds[i].table, name);
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

struct ws_column_value ws_column_read(struct ws_column *column, const struct ws_level *level,
				      uint32_t event)
{
	const struct ws_api_call *call = column->call;
	struct ws_column_value value = {.is_null = true};
	uint64_t v = 0;
	const struct ws_column_desc *desc = read_stored(column, level, event, &v);

	if (!desc || ws_is_column_null(desc->type, v))
		return value;
	value.is_null = false;
	value.has_number = desc->type != WS_T_STR;
	if (desc->type == WS_T_STR) {
		value.text = ws_report_string(call->rep->report, (uint32_t)v, &value.length);
	} else if (desc->type == WS_T_THREAD || desc->type == WS_T_NTHREAD) {
		const struct ws_thread_info *info = ws_find_thread(call->lanes->who, (uint32_t)v);

		value.number = info->tid;
		set_text(&value, info->name[0] ? info->name : info->process_name);
	} else if (desc->type == WS_T_PROCESS) {
		value.number = ws_find_process(call->lanes->who, (uint32_t)v)->pid;
		set_text(&value, ws_find_process(call->lanes->who, (uint32_t)v)->name);
	} else {
		value.number = read_number(call, desc->type, v);
	}
	return value;
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

/* Whether events of one of these lanes come from a table. */
static bool feeds_any(const struct ws_api_call *call, const struct ws_event_kind *kind,
		      const uint32_t *lanes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (uint32_t k = 0; k < kind->feeds; k++)
			if (call->lanes->lane[lanes[i]]->kind == kind->feed[k].kind &&
			    !ws_lane_descs[kind->feed[k].kind].counter)
				return true;
	return false;
}

static bool is_listed(const enum ws_table *tables, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (find_column(tables[i], name) >= 0)
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

/* ---- conditions ---- */

enum { MOST_CONDITIONS = 16, MOST_WORD = 256 };
enum relation { EQUAL, UNEQUAL, AT_MOST, AT_LEAST, LESS, MORE, CONTAINS };
/* In the order in which they are tried: longer ones first. */
static const struct {
	const char *text;
	enum relation relation;
} relations[] = {{"!=", UNEQUAL}, {"<>", UNEQUAL}, {"<=", AT_MOST}, {">=", AT_LEAST}, {"==", EQUAL},
		 {"=", EQUAL},	  {"<", LESS},	   {">", MORE},	    {"~", CONTAINS}};
static const struct {
	const char *text;
	double size;
} units[] = {{"", 1},	    {"ns", 1},	      {"us", 1e3},	  {"µs", 1e3}, {"ms", 1e6},
	     {"s", 1e9},    {"B", 1},	      {"KB", 1e3},	  {"MB", 1e6}, {"GB", 1e9},
	     {"KiB", 1024}, {"MiB", 1048576}, {"GiB", 1073741824}};

struct condition {
	struct ws_column *column; /* NULL: the event's duration */
	enum relation relation;
	bool is_number;
	long double number;
	char text[MOST_WORD];
};

struct ws_where {
	struct condition conditions[MOST_CONDITIONS];
	size_t n;
};

static void skip_space(const char **at)
{
	while (isspace((unsigned char)**at))
		(*at)++;
}

static bool read_column_name(const char **at, char name[MOST_WORD])
{
	size_t n = 0;

	skip_space(at);
	while ((isalnum((unsigned char)**at) || **at == '_') && n + 1 < MOST_WORD)
		name[n++] = *(*at)++;
	name[n] = 0;
	skip_space(at);
	return n > 0;
}

static bool read_relation(const char **at, enum relation *relation)
{
	for (size_t i = 0; i < WS_COUNT(relations); i++) {
		size_t n = strlen(relations[i].text);

		if (strncmp(*at, relations[i].text, n))
			continue;
		*at += n;
		*relation = relations[i].relation;
		skip_space(at);
		return true;
	}
	return false;
}

/* Where a value ends that is not quoted: before ` and `. */
static size_t measure_value(const char *at)
{
	size_t n = 0;

	while (at[n] && !(isspace((unsigned char)at[n]) && !strncasecmp(at + n + 1, "and ", 4)))
		n++;
	while (n && isspace((unsigned char)at[n - 1]))
		n--;
	return n;
}

static void read_unit(struct condition *condition)
{
	char *end;
	long double number = strtold(condition->text, &end);

	if (end == condition->text)
		return;
	while (isspace((unsigned char)*end))
		end++;
	for (size_t i = 0; i < WS_COUNT(units); i++)
		if (!strcmp(end, units[i].text)) {
			condition->is_number = true;
			condition->number = number * units[i].size;
		}
}

static bool read_value(const char **at, struct condition *condition)
{
	char quote = **at == '\'' || **at == '"' ? **at : 0;
	const char *from = *at + (quote != 0), *end = NULL;
	size_t n;

	if (quote)
		end = strchr(from, quote);
	if (quote && !end)
		return false;
	n = end ? (size_t)(end - from) : measure_value(from);
	if (n >= MOST_WORD || (!n && !quote))
		return false;
	memcpy(condition->text, from, n);
	condition->text[n] = 0;
	*at = from + n + (quote != 0);
	if (!quote)
		read_unit(condition);
	skip_space(at);
	/* Words such as `7 or stream` are a mistake; texts with spaces are quoted. */
	return quote || condition->is_number || !strpbrk(condition->text, " \t");
}

static int read_condition(const struct ws_api_call *call, const char **at,
			  struct condition *condition, struct ws_err *err)
{
	char name[MOST_WORD];

	if (!read_column_name(at, name) || !read_relation(at, &condition->relation) ||
	    !read_value(at, condition))
		return ws_fail(err, "a filter is `column > value`, with =, !=, <, <=, >, >= or ~ "
				    "(contains), and `and` between several; texts with spaces "
				    "are quoted");
	if (!strcmp(name, "duration"))
		return 0;
	condition->column = ws_column_open(call, name);
	if (!condition->column)
		return ws_fail(err, "no events have a column %s", name);
	return 0;
}

struct ws_where *ws_make_where(const struct ws_api_call *call, struct ws_err *err)
{
	struct ws_where *where = ws_calloc(1, sizeof(*where));
	const char *at = ws_text_or(ws_param(call, "where"), "");

	skip_space(&at);
	while (*at) {
		if (where->n == MOST_CONDITIONS) {
			ws_fail(err, "a filter has %d conditions at most", MOST_CONDITIONS);
			break;
		}
		if (read_condition(call, &at, &where->conditions[where->n++], err))
			break;
		if (!*at)
			return where;
		if (strncasecmp(at, "and ", 4)) {
			ws_fail(err, "`and` is missing before %.40s in the filter", at);
			break;
		}
		at += 4;
		skip_space(&at);
		if (!*at)
			ws_fail(err, "a condition is missing after `and`");
	}
	if (!where->n)
		return where;
	ws_where_free(where);
	return NULL;
}

void ws_where_free(struct ws_where *where)
{
	for (size_t i = 0; where && i < where->n; i++)
		ws_column_free(where->conditions[i].column);
	free(where);
}

static bool is_related(enum relation relation, int order)
{
	switch (relation) {
	case EQUAL:
		return order == 0;
	case UNEQUAL:
		return order != 0;
	case AT_MOST:
		return order <= 0;
	case AT_LEAST:
		return order >= 0;
	case LESS:
		return order < 0;
	default:
		return order > 0;
	}
}

static int compare_text(const char *text, size_t length, const char *with)
{
	size_t n = strlen(with);
	int order = memcmp(text, with, ws_min(length, n));

	return order ? order : ws_compare(length, n);
}

/* What has no value, and what is a text where a number is asked for, meets no condition. */
static bool meets(struct condition *condition, const struct ws_level *level, uint32_t event)
{
	struct ws_column_value value = {.has_number = true};

	if (condition->column)
		value = ws_column_read(condition->column, level, event);
	else if (level->src[event] & (WS_EVENT_OPEN | WS_EVENT_MOMENT))
		return false;
	else
		value.number = (long double)ws_level_dur(level, event);
	if (value.is_null)
		return false;
	if (condition->relation == CONTAINS)
		return value.text &&
		       memmem(value.text, value.length, condition->text, strlen(condition->text));
	if (condition->is_number && value.has_number)
		return is_related(condition->relation, ws_compare(value.number, condition->number));
	return value.text && is_related(condition->relation,
					compare_text(value.text, value.length, condition->text));
}

bool ws_where_holds(struct ws_where *where, const struct ws_level *level, uint32_t event)
{
	for (size_t i = 0; i < where->n; i++)
		if (!meets(&where->conditions[i], level, event))
			return false;
	return true;
}
