/*
 * rows.c - tables, row by row: batches of rows made one by one, the pipeline from blocks to rows,
 * views.
 *
 * Two threads write a table: one merges blocks and turns rows into cells (decoding ahead), the
 * other hands cells to the format. They pass batches through a ring of four. Formats that store
 * columns take whole blocks instead (export/columns.c).
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "text/output_file.h"
#include "text/progress.h"
#include "views/tables.h"

/* ---- tables and rows ---- */

static int write_rows(struct ws_cell_context *export, const struct ws_view_cell *cells, size_t rows,
		      struct ws_err *err)
{
	if (export->skipped)
		return 0;
	if (ws_is_interrupted())
		return ws_fail(err, "interrupted");
	if (!export->created && export->writer->begin_table(export->writer, export->open, err) < 0)
		return -1;
	export->created = true;
	export->rows += rows;
	ws_step_progress(export->progress, rows);
	return export->writer->write_rows(export->writer, cells, rows, err);
}

/*
 * Rows that are made one by one are collected, with their texts, until they are a batch, because a
 * call of the format's writer costs more than a row.
 */
struct ws_pending_rows {
	struct ws_view_cell *cells;
	size_t rows;
	struct ws_text bytes; /* of texts; until the batch is written, their cells hold the offset
				 in place of the address */
};

enum { PENDING_ROWS = 1024, PENDING_BYTES = 1 << 20 };

static int write_pending_rows(struct ws_cell_context *export, struct ws_err *err)
{
	struct ws_pending_rows *pending = export->pile;
	size_t count;
	int rc;

	if (!pending || !pending->rows)
		return 0;
	count = pending->rows * export->open->column_count;
	for (size_t i = 0; i < count; i++)
		if (pending->cells[i].kind == WS_VIEW_TEXT ||
		    pending->cells[i].kind == WS_VIEW_BLOB)
			pending->cells[i].text =
				pending->bytes.text + (uintptr_t)pending->cells[i].text;
	rc = write_rows(export, pending->cells, pending->rows, err);
	pending->rows = pending->bytes.len = 0;
	return rc;
}

int ws_add_table_row(struct ws_cell_context *export, const struct ws_view_cell *cells,
		     struct ws_err *err)
{
	struct ws_pending_rows *pending = export->pile;
	struct ws_view_cell *target;

	if (export->skipped)
		return 0;
	if (!pending) {
		pending = export->pile = ws_calloc(1, sizeof(*pending));
		pending->cells = ws_malloc(sizeof(*pending->cells) * PENDING_ROWS * WS_MAX_COLUMNS);
		ws_text_puts(&pending->bytes, "");
	}
	target = pending->cells + pending->rows++ * export->open->column_count;
	for (size_t i = 0; i < export->open->column_count; i++) {
		target[i] = cells[i];
		if (cells[i].kind != WS_VIEW_TEXT && cells[i].kind != WS_VIEW_BLOB)
			continue;
		target[i].text = (const char *)(uintptr_t)pending->bytes.len;
		ws_text_add(&pending->bytes, cells[i].text, cells[i].n);
	}
	if (pending->rows == PENDING_ROWS || pending->bytes.len > PENDING_BYTES)
		return write_pending_rows(export, err);
	return 0;
}

void ws_free_pending_rows(struct ws_cell_context *export)
{
	if (!export->pile)
		return;
	free(export->pile->cells);
	ws_text_free(&export->pile->bytes);
	free(export->pile);
}

/* With --append: whether the existing file has the table. */
static bool is_already_written(const struct ws_cell_context *export, const char *table)
{
	return export->append && export->writer->has_table &&
	       export->writer->has_table(export->writer, table);
}

int ws_begin_table(struct ws_cell_context *export, const struct ws_view_table *table,
		   struct ws_err *err)
{
	if (ws_end_table(export, err) < 0)
		return -1;
	export->table = *table;
	export->open = &export->table;
	export->created = false;
	export->skipped =
		!ws_is_table_wanted(export, table->name) || is_already_written(export, table->name);
	if (export->skipped || export->lazy)
		return 0;
	export->created = true;
	return export->writer->begin_table(export->writer, export->open, err);
}

int ws_end_table(struct ws_cell_context *export, struct ws_err *err)
{
	int rc = write_pending_rows(export, err);

	export->open = NULL;
	export->skipped = true;
	return rc;
}

/* ---- the pipeline ---- */

enum { BATCH_ROWS = 1024, BATCHES = 4 };

struct batch_pipe {
	struct ws_cell_context *export;
	const struct ws_view_table *table;
	enum ws_table source;
	ws_fill_cells *fill_row;
	void *context;
	struct ws_view_cell *cells[BATCHES];
	size_t rows[BATCHES];
	uint64_t batches_made, batches_used; /* batches */
	bool done, stop;
	pthread_mutex_t lock;
	pthread_cond_t changed;
};

/* Hand over a batch and wait for space for the next. Returns false when the reader has given up. */
static bool pass_batch(struct batch_pipe *pipe, size_t rows, bool last)
{
	bool running;

	pthread_mutex_lock(&pipe->lock);
	pipe->rows[pipe->batches_made % BATCHES] = rows;
	pipe->batches_made += rows > 0;
	pipe->done = last;
	pthread_cond_broadcast(&pipe->changed);
	while (pipe->batches_made - pipe->batches_used == BATCHES && !pipe->stop)
		pthread_cond_wait(&pipe->changed, &pipe->lock);
	running = !pipe->stop;
	pthread_mutex_unlock(&pipe->lock);
	return running;
}

static void *produce_batches(void *argument)
{
	struct batch_pipe *pipe = argument;
	struct ws_cursor *cursor =
		ws_cursor_open(pipe->export->report, pipe->source, 0, UINT64_MAX);
	const uint64_t *values;
	size_t rows = 0;
	bool running = true;

	while (running && ws_cursor_next(cursor, &values)) {
		rows += pipe->fill_row(pipe->context, values,
				       pipe->cells[pipe->batches_made % BATCHES] +
					       rows * pipe->table->column_count);
		if (rows == BATCH_ROWS) {
			running = pass_batch(pipe, rows, false);
			rows = 0;
		}
	}
	ws_cursor_close(cursor);
	pass_batch(pipe, rows, true);
	return NULL;
}

/* Wait for the next batch. Returns its rows, 0 at the end. */
static size_t wait_for_batch(struct batch_pipe *pipe)
{
	size_t rows;

	pthread_mutex_lock(&pipe->lock);
	while (pipe->batches_used == pipe->batches_made && !pipe->done)
		pthread_cond_wait(&pipe->changed, &pipe->lock);
	rows = 0;
	if (pipe->batches_used < pipe->batches_made)
		rows = pipe->rows[pipe->batches_used % BATCHES];
	pthread_mutex_unlock(&pipe->lock);
	return rows;
}

static void release_batch(struct batch_pipe *pipe, bool stop)
{
	pthread_mutex_lock(&pipe->lock);
	pipe->batches_used += !stop;
	pipe->stop = stop;
	pthread_cond_broadcast(&pipe->changed);
	pthread_mutex_unlock(&pipe->lock);
}

static int write_batches(struct batch_pipe *pipe, struct ws_err *err)
{
	size_t rows;

	while ((rows = wait_for_batch(pipe))) {
		bool bad = write_rows(pipe->export, pipe->cells[pipe->batches_used % BATCHES], rows,
				      err) < 0;

		release_batch(pipe, bad);
		if (bad)
			return -1;
	}
	return 0;
}

static int write_through_pipe(struct batch_pipe *pipe, struct ws_err *err)
{
	pthread_t thread;
	int rc;

	for (int i = 0; i < BATCHES; i++)
		pipe->cells[i] =
			ws_calloc(BATCH_ROWS * pipe->table->column_count, sizeof(*pipe->cells[i]));
	rc = pthread_create(&thread, NULL, produce_batches, pipe);
	if (rc) {
		errno = rc;
		rc = ws_fail_errno(err, "cannot start a thread");
	} else {
		rc = write_batches(pipe, err);
		pthread_join(thread, NULL);
	}
	for (int i = 0; i < BATCHES; i++)
		free(pipe->cells[i]);
	return rc;
}

int ws_write_table_rows(struct ws_cell_context *export, const struct ws_view_table *table,
			enum ws_table source, ws_fill_cells *fill_row, void *context,
			struct ws_err *err)
{
	struct batch_pipe pipe = {.export = export,
				  .table = table,
				  .source = source,
				  .fill_row = fill_row,
				  .context = context,
				  .lock = PTHREAD_MUTEX_INITIALIZER,
				  .changed = PTHREAD_COND_INITIALIZER};

	if (ws_begin_table(export, table, err) < 0)
		return -1;
	if (export->skipped || !ws_report_count_rows(export->report, source))
		return 0;
	return write_through_pipe(&pipe, err);
}

/* ---- views ---- */

struct view_filler {
	struct ws_cell_context *export;
	const struct ws_table_view *view;
};

static bool fill_view_row(void *context, const uint64_t *values, struct ws_view_cell *cells)
{
	struct view_filler *filler = context;

	return ws_make_row_cells(filler->export, filler->view, values, cells);
}

int ws_write_view(struct ws_cell_context *export, const struct ws_table_view *view,
		  struct ws_err *err)
{
	struct view_filler filler = {export, view};
	uint64_t rows = 0;

	if (!view->table.column_count)
		return 0;
	if (!export->writer->write_view)
		return ws_write_table_rows(export, &view->table, view->source, fill_view_row,
					   &filler, err);
	if (ws_end_table(export, err) < 0)
		return -1;
	if (!ws_is_table_wanted(export, view->table.name) ||
	    is_already_written(export, view->table.name) ||
	    (export->lazy && !ws_report_count_rows(export->report, view->source)))
		return 0;
	if (export->writer->write_view(export->writer, export, view, &rows, err) < 0)
		return -1;
	export->rows += rows;
	return 0;
}

/* ---- StringIds: the texts that the other tables refer to ---- */

/* The text with that id; false when StringIds does not need it. */
static bool make_string_cell(struct ws_cell_context *export, uint64_t id, struct ws_view_cell *cell)
{
	bool used;

	*cell = (struct ws_view_cell){.kind = WS_VIEW_TEXT};
	if (id > export->string_count) {
		const struct ws_text *extra = &export->extra_texts[id - export->string_count - 1];

		cell->text = extra->text;
		cell->n = extra->len;
		return true;
	}
	used = export->strings[id] & WS_STRING_USED;
	if (!used &&
	    (!export->all_strings || ws_report_string_key(export->report, (uint32_t)id) != id))
		return false;
	cell->text = ws_find_valid_text(export, (uint32_t)id, &cell->n);
	return used || cell->n; /* some ids between those of texts stand for no text */
}

int ws_write_string_table(struct ws_cell_context *export, struct ws_err *err)
{
	static const struct ws_view_column columns[] = {
		{"id", "INTEGER", true, true, "Number of the text"},
		{"value", "TEXT", true, false, "The text"},
	};
	static const struct ws_view_table table = {"StringIds", "Texts that other tables point to",
						   columns, WS_COUNT(columns)};

	bool lazy = export->lazy;
	int rc;

	/* Many queries join it, so it exists even when no table refers to a text. */
	export->lazy = false;
	rc = ws_begin_table(export, &table, err);
	export->lazy = lazy;
	if (rc < 0)
		return -1;
	for (uint64_t id = 1;
	     !export->skipped && id <= export->string_count + export->extra_text_count; id++) {
		struct ws_view_cell cells[2] = {ws_make_int_cell((int64_t)id)};

		if (make_string_cell(export, id, &cells[1]) &&
		    ws_add_table_row(export, cells, err) < 0)
			return -1;
	}
	return 0;
}
