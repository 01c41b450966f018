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

static int write_rows(struct ws_export *x, const struct ws_xcell *cells, size_t rows,
		      struct ws_err *e)
{
	if (x->skipped)
		return 0;
	if (ws_outfile_interrupted())
		return ws_fail(e, "interrupted");
	if (!x->created && x->w->table(x->w, x->open, e) < 0)
		return -1;
	x->created = true;
	x->rows += rows;
	ws_progress_step(x->progress, rows);
	return x->w->rows(x->w, cells, rows, e);
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

static int write_pile(struct ws_export *x, struct ws_err *e)
{
	struct ws_xpile *p = x->pile;
	size_t n;
	int rc;

	if (!p || !p->rows)
		return 0;
	n = p->rows * x->open->column_count;
	for (size_t i = 0; i < n; i++)
		if (p->cells[i].kind == WS_X_TEXT || p->cells[i].kind == WS_X_BLOB)
			p->cells[i].s = p->bytes.s + (uintptr_t)p->cells[i].s;
	rc = write_rows(x, p->cells, p->rows, e);
	p->rows = p->bytes.len = 0;
	return rc;
}

int ws_export_row(struct ws_export *x, const struct ws_xcell *cells, struct ws_err *e)
{
	struct ws_xpile *p = x->pile;
	struct ws_xcell *to;

	if (x->skipped)
		return 0;
	if (!p) {
		p = x->pile = ws_calloc(1, sizeof(*p));
		p->cells = ws_malloc(sizeof(*p->cells) * PILE_ROWS * WS_MAX_COLUMNS);
		ws_text_puts(&p->bytes, "");
	}
	to = p->cells + p->rows++ * x->open->column_count;
	for (size_t i = 0; i < x->open->column_count; i++) {
		to[i] = cells[i];
		if (cells[i].kind != WS_X_TEXT && cells[i].kind != WS_X_BLOB)
			continue;
		to[i].s = (const char *)(uintptr_t)p->bytes.len;
		ws_text_add(&p->bytes, cells[i].s, cells[i].n);
	}
	return p->rows == PILE_ROWS || p->bytes.len > PILE_BYTES ? write_pile(x, e) : 0;
}

void ws_export_free_pile(struct ws_export *x)
{
	if (!x->pile)
		return;
	free(x->pile->cells);
	ws_text_free(&x->pile->bytes);
	free(x->pile);
}

int ws_export_table(struct ws_export *x, const struct ws_xtable *t, struct ws_err *e)
{
	if (ws_export_table_end(x, e) < 0)
		return -1;
	x->table = *t;
	x->open = &x->table;
	x->created = false;
	x->skipped = !ws_export_wants(x, t->name) ||
		     (x->append && x->w->has && x->w->has(x->w, t->name));
	if (x->skipped || x->lazy)
		return 0;
	x->created = true;
	return x->w->table(x->w, x->open, e);
}

int ws_export_table_end(struct ws_export *x, struct ws_err *e)
{
	int rc = write_pile(x, e);

	x->open = NULL;
	x->skipped = true;
	return rc;
}

/* ---- the pipeline ---- */

enum { BATCH_ROWS = 1024, BATCHES = 4 };

struct pipe {
	struct ws_export *x;
	const struct ws_xtable *t;
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
static bool pass_on(struct pipe *p, size_t rows, bool last)
{
	bool go;

	pthread_mutex_lock(&p->lock);
	p->rows[p->made % BATCHES] = rows;
	p->made += rows > 0;
	p->done = last;
	pthread_cond_broadcast(&p->changed);
	while (p->made - p->used == BATCHES && !p->stop)
		pthread_cond_wait(&p->changed, &p->lock);
	go = !p->stop;
	pthread_mutex_unlock(&p->lock);
	return go;
}

static void *produce(void *arg)
{
	struct pipe *p = arg;
	struct ws_cursor *c = ws_cursor_open(p->x->r, p->source, 0, UINT64_MAX);
	const uint64_t *values;
	size_t rows = 0;
	bool go = true;

	while (go && ws_cursor_next(c, &values)) {
		rows += p->fill(p->ctx, values,
				p->cells[p->made % BATCHES] + rows * p->t->column_count);
		if (rows == BATCH_ROWS) {
			go = pass_on(p, rows, false);
			rows = 0;
		}
	}
	ws_cursor_close(c);
	pass_on(p, rows, true);
	return NULL;
}

/* Rows of the next batch, 0 at the end. */
static size_t next_batch(struct pipe *p)
{
	size_t rows;

	pthread_mutex_lock(&p->lock);
	while (p->used == p->made && !p->done)
		pthread_cond_wait(&p->changed, &p->lock);
	rows = p->used < p->made ? p->rows[p->used % BATCHES] : 0;
	pthread_mutex_unlock(&p->lock);
	return rows;
}

static void batch_used(struct pipe *p, bool stop)
{
	pthread_mutex_lock(&p->lock);
	p->used += !stop;
	p->stop = stop;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

static int consume(struct pipe *p, struct ws_err *e)
{
	size_t rows;

	while ((rows = next_batch(p))) {
		bool bad = write_rows(p->x, p->cells[p->used % BATCHES], rows, e) < 0;

		batch_used(p, bad);
		if (bad)
			return -1;
	}
	return 0;
}

static int run_pipe(struct pipe *p, struct ws_err *e)
{
	pthread_t thread;
	int rc;

	for (int i = 0; i < BATCHES; i++)
		p->cells[i] = ws_calloc(BATCH_ROWS * p->t->column_count, sizeof(*p->cells[i]));
	rc = pthread_create(&thread, NULL, produce, p);
	if (rc) {
		errno = rc;
		rc = ws_fail_errno(e, "cannot start a thread");
	} else {
		rc = consume(p, e);
		pthread_join(thread, NULL);
	}
	for (int i = 0; i < BATCHES; i++)
		free(p->cells[i]);
	return rc;
}

int ws_export_rows(struct ws_export *x, const struct ws_xtable *t, enum ws_table source,
		   ws_x_fill *fill, void *ctx, struct ws_err *e)
{
	struct pipe p = {.x = x,
			 .t = t,
			 .source = source,
			 .fill = fill,
			 .ctx = ctx,
			 .lock = PTHREAD_MUTEX_INITIALIZER,
			 .changed = PTHREAD_COND_INITIALIZER};

	if (ws_export_table(x, t, e) < 0)
		return -1;
	return x->skipped || !ws_report_rows(x->r, source) ? 0 : run_pipe(&p, e);
}

/* ---- views ---- */

struct viewing {
	struct ws_export *x;
	const struct ws_xview *v;
};

static bool fill_view(void *ctx, const uint64_t *values, struct ws_xcell *cells)
{
	struct viewing *g = ctx;

	return ws_xview_cells(g->x, g->v, values, cells);
}

int ws_export_view(struct ws_export *x, const struct ws_xview *v, struct ws_err *e)
{
	struct viewing g = {x, v};
	uint64_t rows = 0;

	if (!v->t.column_count)
		return 0;
	if (!x->w->view)
		return ws_export_rows(x, &v->t, v->source, fill_view, &g, e);
	if (ws_export_table_end(x, e) < 0)
		return -1;
	if (!ws_export_wants(x, v->t.name) ||
	    (x->append && x->w->has && x->w->has(x->w, v->t.name)) ||
	    (x->lazy && !ws_report_rows(x->r, v->source)))
		return 0;
	if (x->w->view(x->w, x, v, &rows, e) < 0)
		return -1;
	x->rows += rows;
	return 0;
}

/* ---- StringIds: what the other tables have pointed to ---- */

int ws_export_strings(struct ws_export *x, struct ws_err *e)
{
	static const struct ws_xcolumn columns[] = {
		{"id", "INTEGER", true, true, "Number of the text"},
		{"value", "TEXT", true, false, "The text"},
	};
	static const struct ws_xtable table = {"StringIds", "Texts that other tables point to",
					       columns, WS_COUNT(columns)};

	bool lazy = x->lazy;
	int rc;

	x->lazy = false; /* everyone's queries join it: it is there even when nothing is named */
	rc = ws_export_table(x, &table, e);
	x->lazy = lazy;
	if (rc < 0)
		return -1;
	for (uint64_t id = 1; !x->skipped && id <= x->string_count + x->extra_count; id++) {
		struct ws_xcell cells[2] = {ws_x_int((int64_t)id), {.kind = WS_X_TEXT}};

		if (id > x->string_count) {
			cells[1].s = x->extra[id - x->string_count - 1].s;
			cells[1].n = x->extra[id - x->string_count - 1].len;
		} else if (x->strings[id] & WS_STRING_USED ||
			   (x->all_strings && ws_report_string_key(x->r, (uint32_t)id) == id)) {
			cells[1].s = ws_x_bytes(x, (uint32_t)id, &cells[1].n);
			if (!cells[1].n &&
			    !(x->strings[id] &
			      WS_STRING_USED)) /* numbers between those of texts stand for none */
				continue;
		} else {
			continue;
		}
		if (ws_export_row(x, cells, e) < 0)
			return -1;
	}
	return 0;
}
