/*
 * tables_foreign.c - unknown tables that an import kept, under their original names.
 *
 * Spans of threads became slices, with the table as category and its other columns as arguments;
 * other rows became rows of `foreign`. A fact of the import says which columns each table had
 * (schema/foreign.h). The tables are recreated from these, so that queries and tools that use
 * MPI_P2P_EVENTS find them; metrics are in tables_metrics.c. WARPSIGHT_SLICE and WARPSIGHT_FOREIGN
 * have the rows too, for imports of the export.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "views/tables.h"
#include "text/text.h"
#include "schema/foreign.h"
#include "text/json.h"

enum role {
	ROLE_NONE,
	ROLE_START = 's',
	ROLE_END = 'e',
	ROLE_THREAD = 't',
	ROLE_LABEL = 'n',
	ROLE_ID = 'i'
};

struct ws_foreign_view {
	struct ws_view_table table;
	struct ws_view_column *columns;
	enum role roles[WS_MAX_COLUMNS];
	bool string_ids[WS_MAX_COLUMNS];
	char *name;
	bool from_slices;
	/* while it is written */
	struct ws_cell_context *export;
	uint64_t last_label; /* string id of the table name that was compared last */
	bool last_matches;   /* whether it is this table's */
	struct ws_text scratch;
};

/* ---- which tables there are ---- */

static bool is_table_name(const char *text, size_t length)
{
	bool good = length > 0 && length <= 100 && !(text[0] >= '0' && text[0] <= '9');

	for (size_t i = 0; good && i < length; i++)
		good = (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z') ||
		       (text[i] >= '0' && text[i] <= '9') || text[i] == '_';
	return good;
}

/* Parse "globalTid/t textId/@n size": names, with letters for their use. False when it is not such
 * a list. */
static bool parse_columns(struct ws_foreign_view *foreign, const char *text)
{
	size_t capacity = 0;

	while (*text) {
		size_t length = strcspn(text, " "), name_length = strcspn(text, "/ ");
		struct ws_view_column column = {.type = "INTEGER", .doc = ""};
		size_t count = foreign->table.column_count;

		if (!is_table_name(text, name_length) || count == WS_MAX_COLUMNS)
			return false;
		for (size_t i = 0; i < count; i++)
			if (strlen(foreign->columns[i].name) == name_length &&
			    !strncasecmp(foreign->columns[i].name, text, name_length))
				return false;
		for (size_t i = name_length + 1; i < length; i++) {
			if (text[i] == 'T')
				column.type = "TEXT";
			else if (text[i] == 'R')
				column.type = "REAL";
			else if (text[i] == '@')
				foreign->string_ids[count] = true;
			else
				foreign->roles[count] = (enum role)text[i];
		}
		column.name = ws_strndup(text, name_length);
		ws_grow(foreign->columns, capacity, count + 1);
		foreign->columns[foreign->table.column_count++] = column;
		text += length + (text[length] == ' ');
	}
	return foreign->table.column_count > 0;
}

static void free_foreign_table(struct ws_foreign_view *foreign)
{
	for (size_t i = 0; i < foreign->table.column_count; i++)
		free((char *)foreign->columns[i].name);
	free(foreign->columns);
	free(foreign->name);
	ws_text_free(&foreign->scratch);
	free(foreign);
}

static struct ws_foreign_view *make_foreign_table(const char *name, const char *columns)
{
	struct ws_foreign_view *foreign = ws_calloc(1, sizeof(*foreign));

	foreign->name = ws_strdup(name);
	foreign->from_slices = *columns == 'S';
	if ((*columns != 'S' && *columns != 'F') || columns[1] != ' ' ||
	    !is_table_name(name, strlen(name)) || !parse_columns(foreign, columns + 2)) {
		free_foreign_table(foreign);
		return NULL;
	}
	foreign->table = (struct ws_view_table){foreign->name, "Read from another tool's export",
						foreign->columns, foreign->table.column_count};
	return foreign;
}

bool ws_is_foreign_table(const struct ws_cell_context *export, const char *name)
{
	for (size_t i = 0; i < export->foreign_count; i++)
		if (!strcasecmp(export->foreign[i]->name, name))
			return true;
	return false;
}

void ws_find_foreign_tables(struct ws_cell_context *export)
{
	enum { MOST = 512 };
	static const char fact[] = WS_FOREIGN_TABLE_FACT;
	struct ws_cursor *cursor = ws_cursor_open(export->report, WS_TABLE_meta, 0, UINT64_MAX);
	const uint64_t *values;
	size_t capacity = 0;

	if (export->foreign_known) {
		ws_cursor_close(cursor);
		return;
	}
	export->foreign_known = true;
	while (ws_cursor_next(cursor, &values) && export->foreign_count < MOST) {
		const char *name =
			ws_report_string(export->report, (uint32_t)values[ws_meta_name], NULL) +
			sizeof(fact) - 1;
		struct ws_foreign_view *foreign;

		if (strncmp(name - (sizeof(fact) - 1), fact, sizeof(fact) - 1) ||
		    ws_is_own_table(name) || ws_is_foreign_table(export, name))
			continue;
		foreign = make_foreign_table(name, ws_report_string(export->report,
								    (uint32_t)values[ws_meta_value],
								    NULL));
		if (!foreign)
			continue;
		foreign->export = export;
		ws_grow(export->foreign, capacity, export->foreign_count + 1);
		export->foreign[export->foreign_count++] = foreign;
	}
	ws_cursor_close(cursor);
}

void ws_free_foreign_tables(struct ws_cell_context *export)
{
	for (size_t i = 0; i < export->foreign_count; i++)
		free_foreign_table(export->foreign[i]);
	free(export->foreign);
}

/* ---- rows ---- */

/* Whether `label`, a string id, is the name of this table. */
static bool is_own_row(struct ws_foreign_view *foreign, uint64_t label)
{
	size_t len;
	const char *text;

	if (label != foreign->last_label) {
		text = ws_report_string(foreign->export->report, (uint32_t)label, &len);
		foreign->last_label = label;
		foreign->last_matches =
			len == strlen(foreign->name) && !memcmp(text, foreign->name, len);
	}
	return foreign->last_matches;
}

/* A text of the report's, or one that lives as long as the export. */
static struct ws_view_cell make_text_cell(struct ws_foreign_view *foreign,
					  const struct ws_json_value *value, bool pointer)
{
	size_t n;
	const char *text = ws_unescape_json_text(value, &foreign->scratch, &n);

	if (pointer)
		return ws_make_extra_string_cell(foreign->export, text, n);
	if (!value->escaped && ws_is_valid_utf8(text, n) && !memchr(text, 0, n))
		return (struct ws_view_cell){.kind = WS_VIEW_TEXT, .text = text, .n = n};
	if (text != foreign->scratch.text) {
		foreign->scratch.len = 0;
		ws_text_add(&foreign->scratch, text, n);
	}
	ws_text_add(&foreign->scratch, "", 1);
	return ws_make_own_text_cell(foreign->export, foreign->scratch.text);
}

static struct ws_view_cell make_value_cell(struct ws_foreign_view *foreign, size_t column,
					   const struct ws_json_value *value)
{
	const struct ws_view_column *description = &foreign->columns[column];
	bool ok;

	if (value->type == WS_JSON_STRING &&
	    (foreign->string_ids[column] || *description->type == 'T'))
		return make_text_cell(foreign, value, foreign->string_ids[column]);
	if (value->type != WS_JSON_NUMBER && value->type != WS_JSON_STRING)
		return ws_make_null_cell();
	if (*description->type == 'R') {
		double number = ws_parse_json_double(value, &ok);

		if (!ok)
			return ws_make_null_cell();
		return ws_make_real_cell(number);
	}
	if (*description->type == 'T')
		return (struct ws_view_cell){
			.kind = WS_VIEW_TEXT, .text = value->text, .n = value->length};
	return ws_make_int_cell(ws_parse_json_fixed(value, 0, &ok));
}

static void fill_from_json(struct ws_foreign_view *foreign, uint64_t id, struct ws_view_cell *cells)
{
	size_t len, column = 0;
	const char *text = ws_report_string(foreign->export->report, (uint32_t)id, &len);
	struct ws_json_value object, key, value;
	struct ws_json_walk walk;
	bool more;

	if (!ws_read_json_value(text, text + len, &object, &more) || object.type != WS_JSON_OBJECT)
		return;
	walk = ws_begin_json_walk(&object);
	while (ws_next_json_member(&walk, &key, &value)) {
		size_t first = column;

		while (!ws_is_json_string(
			&key,
			foreign->columns[column].name)) { /* they are in the order of the columns */
			column = (column + 1) % foreign->table.column_count;
			if (column == first)
				break;
		}
		if (ws_is_json_string(&key, foreign->columns[column].name)) {
			cells[column] = make_value_cell(foreign, column, &value);
			column = (column + 1) % foreign->table.column_count;
		}
	}
}

/* A number that no other call has: of those on a thread each has its own start. Threads are
 * numbered in the order in which they appeared. */
static struct ws_view_cell make_id_cell(struct ws_foreign_view *foreign, const uint64_t *values)
{
	enum { THREADS = 1 << 12 };
	uint64_t start = (uint64_t)ws_make_time_cell(foreign->export, values[ws_slice_start]).i;

	return ws_make_int_cell((int64_t)(start * THREADS + values[ws_slice_thread] % THREADS));
}

static struct ws_view_cell make_slice_cell(struct ws_foreign_view *foreign, size_t column,
					   const uint64_t *values)
{
	switch (foreign->roles[column]) {
	case ROLE_START:
		return ws_make_time_cell(foreign->export, values[ws_slice_start]);
	case ROLE_END:
		return ws_make_end_time_cell(foreign->export, values[ws_slice_end]);
	case ROLE_THREAD:
		return ws_make_thread_cell(foreign->export, values[ws_slice_thread]);
	case ROLE_LABEL:
		if (foreign->string_ids[column])
			return ws_make_string_cell(foreign->export,
						   (uint32_t)values[ws_slice_name]);
		return ws_make_text_cell(foreign->export, (uint32_t)values[ws_slice_name]);
	case ROLE_ID:
		return make_id_cell(foreign, values);
	default:
		return ws_make_null_cell();
	}
}

static bool fill_slice_row(void *context, const uint64_t *values, struct ws_view_cell *cells)
{
	struct ws_foreign_view *foreign = context;

	if (!is_own_row(foreign, values[ws_slice_category]) ||
	    !ws_is_in_time(foreign->export, values[ws_slice_start], values[ws_slice_end]))
		return false;
	for (size_t column = 0; column < foreign->table.column_count; column++)
		cells[column] = make_slice_cell(foreign, column, values);
	if (values[ws_slice_args])
		fill_from_json(foreign, values[ws_slice_args], cells);
	return true;
}

/* Times in a row are those of the imported file: they are shifted by the same amount as the row's
 * start. */
static bool fill_foreign_row(void *context, const uint64_t *values, struct ws_view_cell *cells)
{
	struct ws_foreign_view *foreign = context;
	int64_t shift = 0;

	if (!is_own_row(foreign, values[ws_foreign_table]))
		return false;
	for (size_t c = 0; c < foreign->table.column_count; c++)
		cells[c] = ws_make_null_cell();
	fill_from_json(foreign, values[ws_foreign_row], cells);
	for (size_t c = 0; c < foreign->table.column_count; c++)
		if (foreign->roles[c] == ROLE_START && cells[c].kind == WS_VIEW_INT) {
			if (!ws_is_in_time(foreign->export, values[ws_foreign_start],
					   values[ws_foreign_start]))
				return false;
			shift = ws_make_time_cell(foreign->export, values[ws_foreign_start]).i -
				cells[c].i;
		}
	for (size_t c = 0; c < foreign->table.column_count; c++)
		if ((foreign->roles[c] == ROLE_START || foreign->roles[c] == ROLE_END) &&
		    cells[c].kind == WS_VIEW_INT)
			cells[c].i = (int64_t)((uint64_t)cells[c].i + (uint64_t)shift);
	return true;
}

int ws_write_foreign_tables(struct ws_cell_context *export, struct ws_err *err)
{
	ws_find_foreign_tables(export);
	for (size_t i = 0; i < export->foreign_count; i++) {
		struct ws_foreign_view *foreign = export->foreign[i];
		enum ws_table source = WS_TABLE_foreign;
		ws_fill_cells *fill = fill_foreign_row;

		if (foreign->from_slices) {
			source = WS_TABLE_slice;
			fill = fill_slice_row;
		}
		if (ws_write_table_rows(export, &foreign->table, source, fill, foreign, err) < 0)
			return -1;
	}
	return 0;
}
