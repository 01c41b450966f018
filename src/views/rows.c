/*
 * rows.c - tables, row by row: batches of rows made one by one, the pipeline from blocks to rows,
 * views.
 *
 * A table is written by two threads: one merges blocks and turns rows into cells (which decodes
 * ahead), the other hands cells to the format. They pass batches through a ring of four. Formats of
 * columns take whole blocks (export/columns.c).
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "text/outfile.h"
#include "text/progress.h"
#include "views/tables.h"

/* ---- tables and rows ---- */

static int write_rows(struct ws_export *export, const struct ws_xcell *cells, size_t rows,
		      struct ws_err *err)
{
	if (export->skipped)
		return 0;
	if (ws_outfile_interrupted())
		return ws_fail(err, "interrupted");
	if (!export->created && export->writer->table(export->writer, export->open, err) < 0)
		return -1;
	export->created = true;
	export->rows += rows;
	ws_progress_step(export->progress, rows);
	return export->writer->rows(export->writer, cells, rows, err);
}

/*
 * Rows that come one by one are collected, with their texts, until they are a batch: what a format
 * does for a batch may cost it more than a row.
 */
struct ws_xpile {
	struct ws_xcell *cells;
	size_t rows;
	struct ws_text bytes; /* of texts; their cells have the offset for an address until the pile
				 is written */
};

enum { PILE_ROWS = 1024, PILE_BYTES = 1 << 20 };

static int write_pile(struct ws_export *export, struct ws_err *err)
{
	struct ws_xpile *pile = export->pile;
	size_t n;
	int rc;

	if (!pile || !pile->rows)
		return 0;
	n = pile->rows * export->open->column_count;
	for (size_t i = 0; i < n; i++)
		if (pile->cells[i].kind == WS_X_TEXT || pile->cells[i].kind == WS_X_BLOB)
			pile->cells[i].text = pile->bytes.text + (uintptr_t)pile->cells[i].text;
	rc = write_rows(export, pile->cells, pile->rows, err);
	pile->rows = pile->bytes.len = 0;
	return rc;
}

int ws_export_row(struct ws_export *export, const struct ws_xcell *cells, struct ws_err *err)
{
	struct ws_xpile *pile = export->pile;
	struct ws_xcell *to;

	if (export->skipped)
		return 0;
	if (!pile) {
		pile = export->pile = ws_calloc(1, sizeof(*pile));
		pile->cells = ws_malloc(sizeof(*pile->cells) * PILE_ROWS * WS_MAX_COLUMNS);
		ws_text_puts(&pile->bytes, "");
	}
	to = pile->cells + pile->rows++ * export->open->column_count;
	for (size_t i = 0; i < export->open->column_count; i++) {
		to[i] = cells[i];
		if (cells[i].kind != WS_X_TEXT && cells[i].kind != WS_X_BLOB)
			continue;
		to[i].text = (const char *)(uintptr_t)pile->bytes.len;
		ws_text_add(&pile->bytes, cells[i].text, cells[i].n);
	}
	return pile->rows == PILE_ROWS || pile->bytes.len > PILE_BYTES ? write_pile(export, err)
								       : 0;
}

void ws_export_free_pile(struct ws_export *export)
{
	if (!export->pile)
		return;
	free(export->pile->cells);
	ws_text_free(&export->pile->bytes);
	free(export->pile);
}

int ws_export_table(struct ws_export *export, const struct ws_xtable *table, struct ws_err *err)
{
	if (ws_export_table_end(export, err) < 0)
		return -1;
	export->table = *table;
	export->open = &export->table;
	export->created = false;
	export->skipped = !ws_export_wants(export, table->name) ||
			  (export->append && export->writer->has &&
			   export->writer->has(export->writer, table->name));
	if (export->skipped || export->lazy)
		return 0;
	export->created = true;
	return export->writer->table(export->writer, export->open, err);
}

int ws_export_table_end(struct ws_export *export, struct ws_err *err)
{
	int rc = write_pile(export, err);

	export->open = NULL;
	export->skipped = true;
	return rc;
}

/* ---- the pipeline ---- */

enum { BATCH_ROWS = 1024, BATCHES = 4 };

struct pipe {
	struct ws_export *export;
	const struct ws_xtable *table;
	enum ws_table source;
	ws_x_fill *fill;
	void *ctx;
	struct ws_xcell *cells[BATCHES];
	size_t rows[BATCHES];
	uint64_t made, used; /* batches */
	bool done, stop;
	pthread_mutex_t lock;
	pthread_cond_t changed;
};

/* Hand over a batch and wait for room for the next. Returns false when the reader has given up. */
static bool pass_on(struct pipe *pipe, size_t rows, bool last)
{
	bool go;

	pthread_mutex_lock(&pipe->lock);
	pipe->rows[pipe->made % BATCHES] = rows;
	pipe->made += rows > 0;
	pipe->done = last;
	pthread_cond_broadcast(&pipe->changed);
	while (pipe->made - pipe->used == BATCHES && !pipe->stop)
		pthread_cond_wait(&pipe->changed, &pipe->lock);
	go = !pipe->stop;
	pthread_mutex_unlock(&pipe->lock);
	return go;
}

static void *produce(void *arg)
{
	struct pipe *pipe = arg;
	struct ws_cursor *cursor =
		ws_cursor_open(pipe->export->report, pipe->source, 0, UINT64_MAX);
	const uint64_t *values;
	size_t rows = 0;
	bool go = true;

	while (go && ws_cursor_next(cursor, &values)) {
		rows += pipe->fill(pipe->ctx, values,
				   pipe->cells[pipe->made % BATCHES] +
					   rows * pipe->table->column_count);
		if (rows == BATCH_ROWS) {
			go = pass_on(pipe, rows, false);
			rows = 0;
		}
	}
	ws_cursor_close(cursor);
	pass_on(pipe, rows, true);
	return NULL;
}

/* Rows of the next batch, 0 at the end. */
static size_t next_batch(struct pipe *pipe)
{
	size_t rows;

	pthread_mutex_lock(&pipe->lock);
	while (pipe->used == pipe->made && !pipe->done)
		pthread_cond_wait(&pipe->changed, &pipe->lock);
	rows = pipe->used < pipe->made ? pipe->rows[pipe->used % BATCHES] : 0;
	pthread_mutex_unlock(&pipe->lock);
	return rows;
}

static void batch_used(struct pipe *pipe, bool stop)
{
	pthread_mutex_lock(&pipe->lock);
	pipe->used += !stop;
	pipe->stop = stop;
	pthread_cond_broadcast(&pipe->changed);
	pthread_mutex_unlock(&pipe->lock);
}

static int consume(struct pipe *pipe, struct ws_err *err)
{
	size_t rows;

	while ((rows = next_batch(pipe))) {
		bool bad =
			write_rows(pipe->export, pipe->cells[pipe->used % BATCHES], rows, err) < 0;

		batch_used(pipe, bad);
		if (bad)
			return -1;
	}
	return 0;
}

static int run_pipe(struct pipe *pipe, struct ws_err *err)
{
	pthread_t thread;
	int rc;

	for (int i = 0; i < BATCHES; i++)
		pipe->cells[i] =
			ws_calloc(BATCH_ROWS * pipe->table->column_count, sizeof(*pipe->cells[i]));
	rc = pthread_create(&thread, NULL, produce, pipe);
	if (rc) {
		errno = rc;
		rc = ws_fail_errno(err, "cannot start a thread");
	} else {
		rc = consume(pipe, err);
		pthread_join(thread, NULL);
	}
	for (int i = 0; i < BATCHES; i++)
		free(pipe->cells[i]);
	return rc;
}

int ws_export_rows(struct ws_export *export, const struct ws_xtable *table, enum ws_table source,
		   ws_x_fill *fill, void *ctx, struct ws_err *err)
{
	struct pipe pipe = {.export = export,
			    .table = table,
			    .source = source,
			    .fill = fill,
			    .ctx = ctx,
			    .lock = PTHREAD_MUTEX_INITIALIZER,
			    .changed = PTHREAD_COND_INITIALIZER};

	if (ws_export_table(export, table, err) < 0)
		return -1;
	return export->skipped || !ws_report_rows(export->report, source) ? 0
									  : run_pipe(&pipe, err);
}

/* ---- views ---- */

struct viewing {
	struct ws_export *export;
	const struct ws_xview *views;
};

static bool fill_view(void *ctx, const uint64_t *values, struct ws_xcell *cells)
{
	struct viewing *viewing = ctx;

	return ws_xview_cells(viewing->export, viewing->views, values, cells);
}

int ws_export_view(struct ws_export *export, const struct ws_xview *view, struct ws_err *err)
{
	struct viewing viewing = {export, view};
	uint64_t rows = 0;

	if (!view->table.column_count)
		return 0;
	if (!export->writer->view)
		return ws_export_rows(export, &view->table, view->source, fill_view, &viewing, err);
	if (ws_export_table_end(export, err) < 0)
		return -1;
	if (!ws_export_wants(export, view->table.name) ||
	    (export->append && export->writer->has &&
	     export->writer->has(export->writer, view->table.name)) ||
	    (export->lazy && !ws_report_rows(export->report, view->source)))
		return 0;
	if (export->writer->view(export->writer, export, view, &rows, err) < 0)
		return -1;
	export->rows += rows;
	return 0;
}

/* ---- StringIds: what the other tables have pointed to ---- */

int ws_export_strings(struct ws_export *export, struct ws_err *err)
{
	static const struct ws_xcolumn columns[] = {
		{"id", "INTEGER", true, true, "Number of the text"},
		{"value", "TEXT", true, false, "The text"},
	};
	static const struct ws_xtable table = {"StringIds", "Texts that other tables point to",
					       columns, WS_COUNT(columns)};

	bool lazy = export->lazy;
	int rc;

	export->lazy =
		false; /* everyone's queries join it: it is there even when nothing is named */
	rc = ws_export_table(export, &table, err);
	export->lazy = lazy;
	if (rc < 0)
		return -1;
	for (uint64_t id = 1; !export->skipped && id <= export->string_count + export->extra_count;
	     id++) {
		struct ws_xcell cells[2] = {ws_x_int((int64_t)id), {.kind = WS_X_TEXT}};

		if (id > export->string_count) {
			cells[1].text = export->extra[id - export->string_count - 1].text;
			cells[1].n = export->extra[id - export->string_count - 1].len;
		} else if (export->strings[id] & WS_STRING_USED ||
			   (export->all_strings &&
			    ws_report_string_key(export->report, (uint32_t)id) == id)) {
			cells[1].text = ws_x_bytes(export, (uint32_t)id, &cells[1].n);
			if (!cells[1].n &&
			    !(export->strings[id] &
			      WS_STRING_USED)) /* numbers between those of texts stand for none */
				continue;
		} else {
			continue;
		}
		if (ws_export_row(export, cells, err) < 0)
			return -1;
	}
	return 0;
}
