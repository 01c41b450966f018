/* print.c - see print.h. */
#include "sql/print.h"

#include <stdlib.h>
#include <string.h>

static enum ws_kind kind_of(const char *name, size_t *len)
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
		size_t n = strlen(known[i].end);

		if (*len > n && !strcmp(name + *len - n, known[i].end)) {
			*len -= n;
			return known[i].kind;
		}
	}
	return WS_KIND_VALUE;
}

static void drop_columns(struct ws_sql_print *print)
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

static int begin(void *ctx, const char *const *names, size_t columns, struct ws_err *err)
{
	struct ws_sql_print *print = ctx;

	ws_sql_print_end(print);
	print->names = ws_calloc(columns + 1, sizeof(*print->names));
	print->columns = ws_calloc(columns + 1, sizeof(*print->columns));
	for (size_t i = 0; i < columns; i++) {
		size_t len = strlen(names[i]);
		enum ws_kind kind = kind_of(names[i], &len);

		print->names[i] = ws_strndup(names[i], len);
		print->columns[i] = (struct ws_column){print->names[i], kind};
	}
	print->printer.columns = print->columns;
	print->printer.column_count = columns;
	print->printer.texts = 0;
	print->open = true;
	print->begun = false;
	return print->late ? 0 : write_header(print, err);
}

static int row(void *ctx, const struct ws_cell *cells, struct ws_err *err)
{
	struct ws_sql_print *print = ctx;

	if (!print->begun && write_header(print, err) < 0)
		return -1;
	ws_print_row(&print->printer, cells);
	return ferror(print->printer.file) ? ws_fail(err, "cannot write the rows of the query") : 0;
}

struct ws_sql_sink ws_sql_print_sink(struct ws_sql_print *print)
{
	return (struct ws_sql_sink){begin, row, print};
}

void ws_sql_print_end(struct ws_sql_print *print)
{
	if (print->open && print->begun) {
		ws_print_end(&print->printer);
		fflush(print->printer.file); /* before the next statement takes its time, or a
					 message comes */
	}
	print->open = print->begun = false;
	drop_columns(print);
}
