/* print.c - see print.h. */
#include "sql/print.h"

#include <stdlib.h>
#include <string.h>

static enum ws_kind split_kind_suffix(const char *name, size_t *length)
{
	static const struct {
		const char *end;
		enum ws_kind kind;
	} known[] = {{":dur_ns", WS_KIND_TIME},
		     {":ts_ns", WS_KIND_TIME},
		     {":mem_B", WS_KIND_SIZE},
		     {":thru_B", WS_KIND_RATE},
		     {":ratio_%", WS_KIND_PERCENT}};

	for (size_t i = 0; i < WS_COUNT(known); i++) {
		size_t suffix_length = strlen(known[i].end);

		if (*length > suffix_length &&
		    !strcmp(name + *length - suffix_length, known[i].end)) {
			*length -= suffix_length;
			return known[i].kind;
		}
	}
	return WS_KIND_VALUE;
}

static void free_columns(struct ws_sql_print *print)
{
	for (size_t i = 0; i < print->printer.column_count; i++)
		free(print->names[i]);
	free(print->names);
	free(print->columns);
	print->names = NULL;
	print->columns = NULL;
	print->printer.column_count = 0;
}

static int write_header(struct ws_sql_print *print, struct ws_err *err)
{
	if (print->ready && print->ready(print->ready_ctx, err) < 0)
		return -1;
	if (print->tables++)
		fputs("\n", print->printer.file);
	print->begun = true;
	ws_print_begin(&print->printer);
	return 0;
}

static int begin_printed_table(void *context, const char *const *names, size_t columns,
			       struct ws_err *err)
{
	struct ws_sql_print *print = context;

	ws_sql_end_print(print);
	print->names = ws_calloc(columns + 1, sizeof(*print->names));
	print->columns = ws_calloc(columns + 1, sizeof(*print->columns));
	for (size_t i = 0; i < columns; i++) {
		size_t length = strlen(names[i]);
		enum ws_kind kind = split_kind_suffix(names[i], &length);

		print->names[i] = ws_strndup(names[i], length);
		print->columns[i] = (struct ws_column){print->names[i], kind};
	}
	print->printer.columns = print->columns;
	print->printer.column_count = columns;
	print->printer.texts = 0;
	print->open = true;
	print->begun = false;
	if (print->late)
		return 0;
	return write_header(print, err);
}

static int print_sql_row(void *context, const struct ws_cell *cells, struct ws_err *err)
{
	struct ws_sql_print *print = context;

	if (!print->begun && write_header(print, err) < 0)
		return -1;
	ws_print_row(&print->printer, cells);
	if (ferror(print->printer.file))
		return ws_fail(err, "cannot write the rows of the query");
	return 0;
}

struct ws_sql_sink ws_sql_make_print_sink(struct ws_sql_print *print)
{
	return (struct ws_sql_sink){begin_printed_table, print_sql_row, print};
}

void ws_sql_end_print(struct ws_sql_print *print)
{
	if (print->open && print->begun) {
		ws_print_end(&print->printer);
		/* Do this before the next statement starts, which may be slow, or a message is
		 * written. */
		fflush(print->printer.file);
	}
	print->open = print->begun = false;
	free_columns(print);
}
