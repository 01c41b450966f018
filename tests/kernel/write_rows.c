/*
 * write_rows.c - write a report of rows given as text: write_rows REPORT < ROWS
 *
 * Each line is a row: the name of a table of tables.def, then tab-separated column=value pairs.
 * Strings are texts; null, or a column that is left out where the type has a null, is null, and
 * any other column that is left out is 0. Empty lines and lines that begin with # are skipped.
 * Tests of everything that reads kernel results write their reports with it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "store/store.h"

static uint64_t null_of(enum ws_type type)
{
	switch (type) {
	case WS_T_NTIME:
		return WS_NO_TIME;
	case WS_T_NU32:
		return WS_NO_U32;
	case WS_T_NU64:
		return WS_NO_U64;
	default:
		return 0;
	}
}

static uint64_t parse_value(struct ws_writer *writer, enum ws_type type, const char *text)
{
	double real;
	uint64_t bits;

	if (!strcmp(text, "null"))
		return null_of(type);
	if (type == WS_T_STR)
		return ws_writer_string(writer, text, strlen(text));
	if (type != WS_T_F64)
		return text[0] == '-' ? (uint64_t)strtoll(text, NULL, 0) : strtoull(text, NULL, 0);
	real = strtod(text, NULL);
	memcpy(&bits, &real, sizeof(bits));
	return bits;
}

static int set_column(struct ws_writer *writer, enum ws_table table, void *row, char *pair)
{
	char *equals = strchr(pair, '=');
	int column;

	if (!equals)
		return -1;
	*equals = 0;
	column = ws_column_find(table, pair);
	if (column < 0)
		return -1;
	ws_row_set(table, row, (uint32_t)column,
		   parse_value(writer, ws_tables[table].columns[column].type, equals + 1));
	return 0;
}

static int add_row(struct ws_writer *writer, char *line)
{
	char *at = line;
	int table = ws_table_find(strsep(&at, "\t"));
	uint64_t row[WS_MAX_COLUMNS] = {0}; /* no column takes more than eight bytes */
	char *pair;

	if (table < 0)
		return -1;
	for (uint32_t i = 0; i < ws_tables[table].column_count; i++)
		ws_row_set((enum ws_table)table, row, i, null_of(ws_tables[table].columns[i].type));
	while ((pair = strsep(&at, "\t")))
		if (*pair && set_column(writer, (enum ws_table)table, row, pair) < 0)
			return -1;
	ws_writer_add(writer, (enum ws_table)table, row);
	return 0;
}

static int add_lines(struct ws_writer *writer)
{
	char *line = NULL;
	size_t capacity = 0;
	int number = 0, rc = 0;

	while (!rc && getline(&line, &capacity, stdin) > 0) {
		number++;
		line[strcspn(line, "\n")] = 0;
		if (*line && *line != '#')
			rc = add_row(writer, line);
	}
	if (rc)
		ws_say("line %d is not a row of a table of tables.def", number);
	free(line);
	return rc;
}

int main(int argc, char **argv)
{
	struct ws_writer_opts options = {.overwrite = true};
	struct ws_writer *writer;
	struct ws_err err;
	int rc;

	if (argc != 2) {
		fprintf(stderr, "usage: write_rows REPORT < ROWS\n");
		return 2;
	}
	writer = ws_writer_create(argv[1], &options, &err);
	if (!writer) {
		ws_say("%s", err.msg);
		return 1;
	}
	rc = add_lines(writer);
	if (ws_writer_close(writer, &err) < 0) {
		ws_say("%s", err.msg);
		return 1;
	}
	return rc != 0;
}
