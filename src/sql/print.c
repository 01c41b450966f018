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

static void drop_columns(struct ws_sql_print *p)
{
	for (size_t i = 0; i < p->printer.column_count; i++)
		free(p->names[i]);
	free(p->names);
	free(p->columns);
	p->names = NULL;
	p->columns = NULL;
	p->printer.column_count = 0;
}

static int write_header(struct ws_sql_print *p, struct ws_err *e)
{
	if (p->ready && p->ready(p->ready_ctx, e) < 0)
		return -1;
	if (p->tables++)
		fputs("\n", p->printer.f);
	p->begun = true;
	ws_print_begin(&p->printer);
	return 0;
}

static int begin(void *ctx, const char *const *names, size_t columns, struct ws_err *e)
{
	struct ws_sql_print *p = ctx;

	ws_sql_print_end(p);
	p->names = ws_calloc(columns + 1, sizeof(*p->names));
	p->columns = ws_calloc(columns + 1, sizeof(*p->columns));
	for (size_t i = 0; i < columns; i++) {
		size_t len = strlen(names[i]);
		enum ws_kind kind = kind_of(names[i], &len);

		p->names[i] = ws_strndup(names[i], len);
		p->columns[i] = (struct ws_column){p->names[i], kind};
	}
	p->printer.columns = p->columns;
	p->printer.column_count = columns;
	p->printer.texts = 0;
	p->open = true;
	p->begun = false;
	return p->late ? 0 : write_header(p, e);
}

static int row(void *ctx, const struct ws_cell *cells, struct ws_err *e)
{
	struct ws_sql_print *p = ctx;

	if (!p->begun && write_header(p, e) < 0)
		return -1;
	ws_print_row(&p->printer, cells);
	return ferror(p->printer.f) ? ws_fail(e, "cannot write the rows of the query") : 0;
}

struct ws_sql_sink ws_sql_print_sink(struct ws_sql_print *p)
{
	return (struct ws_sql_sink){begin, row, p};
}

void ws_sql_print_end(struct ws_sql_print *p)
{
	if (p->open && p->begun) {
		ws_print_end(&p->printer);
		fflush(p->printer.f); /* before the next statement takes its time, or a message
					 comes */
	}
	p->open = p->begun = false;
	drop_columns(p);
}
