/* tables_known.c - makes the tables of known.def and enums.def: the tables and enumerations of
 * other tools' exports. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "views/tables.h"

/* ---- known tables ---- */

static const struct {
	const char *table, *columns;
} known[] = {
#define WS_KNOWN(table, columns) {table, columns},
#include "schema/known.def"
#undef WS_KNOWN
};

static struct ws_view_table tables[WS_COUNT(known)];

/* "name:T!*": a type (:T or :R, else an integer), ! for NOT NULL, * for the key. */
static struct ws_view_column parse_column(const char *text, size_t length)
{
	struct ws_view_column column = {.type = "INTEGER"};
	size_t name = 0;

	while (name < length && !strchr(":!*", text[name]))
		name++;
	column.name = ws_strndup(text, name);
	if (memmem(text, length, ":T", 2))
		column.type = "TEXT";
	else if (memmem(text, length, ":R", 2))
		column.type = "REAL";
	column.not_null = memchr(text, '!', length) != NULL;
	column.key = memchr(text, '*', length) != NULL;
	return column;
}

static void parse_known_tables(void)
{
	for (size_t i = 0; i < WS_COUNT(known); i++) {
		const char *text = known[i].columns;
		struct ws_view_column *columns = NULL;
		size_t count = 0, capacity = 0;

		while (*text) {
			size_t length = strcspn(text, " ");

			ws_grow(columns, capacity, count + 1);
			columns[count++] = parse_column(text, length);
			text += length + (text[length] == ' ');
		}
		tables[i] = (struct ws_view_table){known[i].table,
						   "Known from other exports; nothing fills it",
						   columns, count};
	}
}

static const struct ws_view_table *find_known_tables(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, parse_known_tables);
	return tables;
}

const struct ws_view_column *ws_find_known_columns(const char *table, size_t *count)
{
	const struct ws_view_table *known_table = find_known_tables();

	for (size_t i = 0; i < WS_COUNT(known); i++)
		if (!strcmp(known_table[i].name, table)) {
			*count = known_table[i].column_count;
			return known_table[i].columns;
		}
	*count = 0;
	return NULL;
}

bool ws_is_own_table(const char *name)
{
	static const char *const made[] = {"StringIds",
					   "ThreadNames",
					   "ProcessStreams",
					   "TARGET_INFO_SYSTEM_ENV",
					   "PROCESSES",
					   "ANALYSIS_DETAILS",
					   "META_DATA_EXPORT",
					   "TARGET_INFO_SESSION_START_TIME",
					   "TARGET_INFO_GPU",
					   "COMPOSITE_EVENTS",
					   "SCHED_EVENTS",
					   "SAMPLING_CALLCHAINS",
					   "OSRT_CALLCHAINS",
					   "CUDA_CALLCHAINS",
					   "PERF_EVENT_CPU_RAW_EVENT"};

	const struct ws_table_view *view = ws_find_view(name);

	for (size_t i = 0; i < WS_COUNT(made); i++)
		if (!strcasecmp(made[i], name))
			return true;
	return !strncasecmp(name, "ENUM_", 5) || !strncasecmp(name, "sqlite_", 7) ||
	       !strncasecmp(name, "TARGET_INFO_CUDA_DEVICE", 24) || ws_is_metric_table(name) ||
	       (view && !view->gives_way);
}

int ws_write_known_tables(struct ws_cell_context *export, struct ws_err *err)
{
	const struct ws_view_table *table = find_known_tables();

	for (size_t i = 0; i < WS_COUNT(known); i++)
		if (!ws_is_own_table(table[i].name) && !ws_is_metric_info_table(table[i].name) &&
		    !ws_find_view(table[i].name) && !ws_is_foreign_table(export, table[i].name) &&
		    ws_begin_table(export, &table[i], err) < 0)
			return -1;
	return 0;
}

/* ---- enumerations ---- */

struct enum_value {
	int id;
	const char *name, *label;
};

#define WS_ENUM(name, doc) static const struct enum_value name##_values[] = {
#define WS_VALUE(id, name, label) {id, name, label},
#define WS_ENUM_END(name) \
	}                 \
	;
#include "views/enums.def"

static const struct {
	const char *name, *doc;
	const struct enum_value *meanings;
	size_t count;
} enums[] = {
#define WS_ENUM(name, doc) {#name, doc, name##_values, WS_COUNT(name##_values)},
#include "views/enums.def"
};

static int export_enum(struct ws_cell_context *export, size_t i, struct ws_err *err)
{
	static const struct ws_view_column columns[] = {
		{"id", "INTEGER", true, true, "Number"},
		{"name", "TEXT", false, false, "Name"},
		{"label", "TEXT", false, false, "Name for people"},
	};
	struct ws_view_table table = {enums[i].name, enums[i].doc, columns, WS_COUNT(columns)};

	if (ws_begin_table(export, &table, err) < 0)
		return -1;
	for (size_t k = 0; k < enums[i].count; k++) {
		const struct enum_value *value = &enums[i].meanings[k];

		if (ws_add_table_row(export,
				     (struct ws_view_cell[]){ws_make_int_cell(value->id),
							     ws_make_literal_cell(value->name),
							     ws_make_literal_cell(value->label)},
				     err) < 0)
			return -1;
	}
	return 0;
}

int ws_write_enum_tables(struct ws_cell_context *export, struct ws_err *err)
{
	for (size_t i = 0; i < WS_COUNT(enums); i++)
		if (export_enum(export, i, err) < 0)
			return -1;
	return 0;
}
