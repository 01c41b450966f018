/* where.c - see where.h. */
#include "serve/where.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/choose.h"
#include "text/text.h"
#include "views/view.h"

/* ---- reading ---- */

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
	char name[MOST_WORD];	  /* of the column */
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
	for (size_t i = 0; i < WS_COUNT(units) && isfinite(number); i++)
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

/* Numbers are not compared with texts: nothing would ever satisfy such a condition. */
static int check_types(struct condition *condition, struct ws_err *err)
{
	struct ws_column_holds holds = {.numbers = true};

	if (condition->column)
		holds = ws_column_find_types(condition->column);
	if (holds.texts)
		return 0;
	if (condition->relation == CONTAINS)
		return ws_fail(err, "the column %s has numbers, and ~ looks for a part of a text",
			       condition->name);
	if (!condition->is_number)
		read_unit(condition);
	if (condition->is_number)
		return 0;
	return ws_fail(err, "the column %s has numbers, and '%.40s' is none", condition->name,
		       condition->text);
}

static int read_condition(const struct ws_api_call *call, const char **at,
			  struct condition *condition, struct ws_err *err)
{
	char *name = condition->name;

	if (!read_column_name(at, name) || !read_relation(at, &condition->relation) ||
	    !read_value(at, condition))
		return ws_fail(err, "a filter is `column > value`, with =, !=, <, <=, >, >= or ~ "
				    "(contains), and `and` between several; texts with spaces "
				    "are quoted");
	if (strcmp(name, "duration")) {
		condition->column = ws_column_open(call, name);
		if (!condition->column)
			return ws_fail(err, "no events have a column %s", name);
	}
	return check_types(condition, err);
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

/* ---- asking ---- */

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

/* Texts are compared with texts; numbers with numbers, where the condition has one. */
static bool is_met_by(const struct condition *condition, const struct ws_column_value *value)
{
	if (value->is_null)
		return false;
	if (condition->relation == CONTAINS)
		return value->text &&
		       memmem(value->text, value->length, condition->text, strlen(condition->text));
	if (condition->is_number && value->has_number)
		return is_related(condition->relation,
				  ws_compare(value->number, condition->number));
	return value->text && is_related(condition->relation,
					 compare_text(value->text, value->length, condition->text));
}

/* An event without a value satisfies no condition. */
static bool meets(struct condition *condition, const struct ws_level *level, uint32_t event)
{
	struct ws_column_value value = {.has_number = true};

	if (condition->column)
		value = ws_column_read(condition->column, level, event);
	else if (level->src[event] & (WS_EVENT_OPEN | WS_EVENT_MOMENT))
		return false;
	else
		value.number = (long double)ws_level_dur(level, event);
	return is_met_by(condition, &value);
}

bool ws_where_holds(struct ws_where *where, const struct ws_level *level, uint32_t event)
{
	for (size_t i = 0; i < where->n; i++)
		if (!meets(&where->conditions[i], level, event))
			return false;
	return true;
}

/* ---- as SQL ---- */

static const char *const sql_relations[] = {[EQUAL] = "=",     [UNEQUAL] = "<>", [AT_MOST] = "<=",
					    [AT_LEAST] = ">=", [LESS] = "<",	 [MORE] = ">"};

void ws_put_sql_text(struct ws_text *out, const char *text)
{
	ws_text_puts(out, "'");
	for (; *text; text++)
		ws_text_puts(out, *text == '\'' ? "''" : (char[]){*text, 0});
	ws_text_puts(out, "'");
}

/* Whole numbers as they are, others with all digits of a double. */
static void put_sql_number(struct ws_text *out, long double number)
{
	if (number == floorl(number) && fabsl(number) < 0x1p63L)
		ws_text_printf(out, "%" PRId64, (int64_t)number);
	else
		ws_text_printf(out, "%.17g", (double)number);
}

/* The column of the exported table that has a column of the report; NULL for none, or when it is
 * computed from several. */
static const struct ws_view_column *find_view_column(const struct ws_event_kind *kind, int column)
{
	const struct ws_table_view *view =
		ws_find_view(ws_text_or(kind->sql_table, ws_tables[kind->table].sqlite));

	for (size_t i = 0; view && view->source == kind->table && i < view->table.column_count;
	     i++) {
		const struct ws_view_column *found = &view->table.columns[i];

		if (found->from >= WS_FROM_INT && found->from < WS_FROM_FUNCTION &&
		    found->source == column)
			return found;
	}
	return NULL;
}

/* Threads and processes have numbers and names, and the export has neither in these columns: those
 * that satisfy the condition are listed. */
static void put_sql_members(struct ws_text *out, const struct condition *condition,
			    const struct ws_names_by_id *who, bool threads)
{
	uint32_t most = threads ? ws_highest_thread_id(who) : ws_highest_process_id(who);
	bool first = true;

	ws_text_puts(out, " IN (");
	for (uint32_t id = 1; id <= most; id++) {
		struct ws_column_value value = {.has_number = true};

		ws_column_set_who(&value, who, id, threads);
		if (!is_met_by(condition, &value))
			continue;
		ws_text_printf(out, first ? "%" PRIu64 : ", %" PRIu64,
			       threads ? (uint64_t)ws_find_thread(who, id)->global_tid
				       : (uint64_t)ws_find_process(who, id)->global_pid);
		first = false;
	}
	ws_text_puts(out, ")");
}

static void put_sql_comparison(struct ws_text *out, const struct condition *condition,
			       const char *value, bool is_number)
{
	if (condition->relation == CONTAINS) {
		ws_text_printf(out, "instr(%s, ", value);
		ws_put_sql_text(out, condition->text);
		ws_text_puts(out, ") > 0");
		return;
	}
	ws_text_printf(out, "%s %s ", value, sql_relations[condition->relation]);
	if (is_number)
		put_sql_number(out, condition->number);
	else
		ws_put_sql_text(out, condition->text);
}

static void put_sql_column(struct ws_text *out, const struct condition *condition,
			   const struct ws_view_column *column, const struct ws_names_by_id *who)
{
	bool is_text = false;
	char value[256];

	snprintf(value, sizeof(value), "\"%s\"", column->name);
	switch (column->from) {
	case WS_FROM_THREAD:
	case WS_FROM_PROCESS:
		ws_text_puts(out, value);
		put_sql_members(out, condition, who, column->from == WS_FROM_THREAD);
		return;
	case WS_FROM_STRING:
	case WS_FROM_STRING_OR_ZERO:
		snprintf(value, sizeof(value), "(SELECT value FROM StringIds WHERE id = \"%s\")",
			 column->name);
		is_text = true;
		break;
	case WS_FROM_TEXT:
		is_text = true;
		break;
	case WS_FROM_ID: /* 0 is a value in the report, and none in the export */
		snprintf(value, sizeof(value), "ifnull(\"%s\", 0)", column->name);
		break;
	default:
		break;
	}
	put_sql_comparison(out, condition, value, !is_text);
}

void ws_put_sql_duration(struct ws_text *out, const struct ws_event_kind *kind)
{
	const struct ws_table_desc *table = &ws_tables[kind->table];

	if (!kind->end) {
		ws_text_puts(out, "NULL");
		return;
	}
	ws_text_puts(out, "CASE WHEN \"end\" >= start");
	if (kind->shaping == WS_SHAPED_BY_TYPE)
		ws_text_printf(out, " AND %s <> %d", table->columns[kind->shaped_by].sqlite,
			       WS_NVTX_MARK);
	if (kind->shaping == WS_SHAPED_BY_FLAGS)
		ws_text_printf(out, " AND NOT %s & %d", table->columns[kind->shaped_by].sqlite,
			       WS_SLICE_INSTANT);
	ws_text_puts(out, " THEN \"end\" - start END");
}

static int put_sql_condition(struct ws_text *out, const struct condition *condition,
			     const struct ws_event_kind *kind, const struct ws_names_by_id *who,
			     struct ws_err *err)
{
	const struct ws_view_column *column;
	int number;

	ws_text_puts(out, " AND ");
	if (!condition->column) {
		ws_put_sql_duration(out, kind);
		put_sql_comparison(out, condition, "", true);
		return 0;
	}
	number = ws_find_table_column(kind->table, condition->name);
	if (number < 0) { /* an event without a value satisfies no condition */
		ws_text_puts(out, "0");
		return 0;
	}
	if (kind->sql_name && number == kind->name) {
		put_sql_comparison(out, condition, kind->sql_name, false);
		return 0;
	}
	column = find_view_column(kind, number);
	if (!column)
		return ws_fail(err, "%s has no column for %s: there is no query with this filter.",
			       ws_text_or(kind->sql_table, ws_tables[kind->table].sqlite),
			       condition->name);
	put_sql_column(out, condition, column, who);
	return 0;
}

int ws_where_put_sql(const struct ws_where *where, const struct ws_event_kind *kind,
		     const struct ws_names_by_id *who, struct ws_text *out, struct ws_err *err)
{
	for (size_t i = 0; i < where->n; i++)
		if (put_sql_condition(out, &where->conditions[i], kind, who, err))
			return -1;
	return 0;
}
