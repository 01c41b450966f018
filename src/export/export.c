/*
 * export.c - one export: opening, strings, the pipeline from blocks to rows, and the file's way to
 * its name.
 *
 * For formats of rows, a table is written by two threads: one merges blocks and turns rows into
 * cells (which decodes ahead), the other hands cells to the format. They pass batches through a
 * ring of four. Formats of columns take whole blocks (columns.c).
 */
#include "export/export.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "export/choose.h"
#include "export/outfile.h"
#include "export/progress.h"
#include "export/tables.h"
#include "export/text.h"
#include "stats/stats.h"

/* ---- strings, threads, times ---- */

enum { STRING_CLEAN = 1, STRING_BROKEN = 2, STRING_USED = WS_STRING_USED };

/* Beside this thread, those of columns.c note which texts are used. */
static void note(struct ws_export *x, uint32_t id, uint8_t what)
{
	if (!(__atomic_load_n(&x->strings[id], __ATOMIC_RELAXED) & what))
		__atomic_fetch_or(&x->strings[id], what, __ATOMIC_RELAXED);
}

/* Valid text of a string id. Ids beyond the dictionary are empty strings. */
const char *ws_x_bytes(struct ws_export *x, uint32_t id, size_t *len)
{
	const char *s = ws_report_string(x->r, id, len);
	struct ws_text t = {0};

	if (id > x->string_count || x->strings[id] & STRING_CLEAN)
		return s;
	if (!(x->strings[id] & STRING_BROKEN) && ws_utf8_valid(s, *len)) {
		note(x, id, STRING_CLEAN);
		return s;
	}
	note(x, id, STRING_BROKEN);
	if (!x->repaired)
		x->repaired = ws_calloc(x->string_count + 1, sizeof(*x->repaired));
	if (!x->repaired[id]) {
		ws_text_utf8(&t, s, *len);
		x->repaired[id] = t.s; /* holds no NUL */
	}
	*len = strlen(x->repaired[id]);
	return x->repaired[id];
}

struct ws_xcell ws_x_text(struct ws_export *x, uint32_t id)
{
	struct ws_xcell c = {.kind = id && id <= x->string_count ? WS_X_TEXT : WS_X_NULL, .id = id};

	if (c.kind == WS_X_TEXT && !x->ids_only)
		c.s = ws_x_bytes(x, id, &c.n);
	return c;
}

struct ws_xcell ws_x_blob(struct ws_export *x, uint32_t id)
{
	struct ws_xcell c = {.kind = id && !x->no_blobs ? WS_X_BLOB : WS_X_NULL, .id = id};

	if (c.kind == WS_X_BLOB && !x->ids_only)
		c.s = ws_report_string(x->r, id, &c.n);
	return c;
}

struct ws_xcell ws_x_string(struct ws_export *x, uint32_t id)
{
	struct ws_xcell c = {.kind = WS_X_NULL};

	if (!id || id > x->string_count)
		return c;
	c.kind = WS_X_STRING;
	c.id = ws_report_string_key(x->r, id);
	if (c.id > x->string_count)
		c.id = id;
	if (x->ids_only)
		return c;
	c.s = ws_x_bytes(x, c.id, &c.n);
	note(x, c.id, STRING_USED);
	return c;
}

/* The report's own number of a text, or 0: so that an export's import, exported again, has the same
 * numbers. */
static uint32_t text_id(struct ws_export *x, const char *s, size_t n)
{
	const char *none = ws_report_string(
		x->r, 0, NULL); /* what is read of numbers that the report does not define */
	uint32_t id;
	size_t len;

	for (uint32_t i = x->texts.n ? 0 : x->string_count; i;
	     i--) { /* of equal ones the first counts */
		const char *text = ws_report_string(x->r, i, &len);

		if (text != none)
			ws_map_set(&x->texts, XXH3_64bits(text, len), i);
	}
	id = (uint32_t)ws_map_get(&x->texts, XXH3_64bits(s, n), NULL);
	if (!id)
		return 0;
	s = memcmp(ws_report_string(x->r, id, &len), s, len < n ? len : n) ? NULL : s;
	return s && len == n ? id : 0;
}

struct ws_xcell ws_x_extra(struct ws_export *x, const char *s, size_t n)
{
	struct ws_text *t, made = {0};
	size_t i = 0;
	uint32_t id = text_id(x, s, n);

	if (id)
		return ws_x_string(x, id);
	ws_text_puts(&made, "");
	ws_text_utf8(&made, s, n);
	while (i < x->extra_count &&
	       (x->extra[i].len != made.len || memcmp(x->extra[i].s, made.s, made.len)))
		i++; /* there are few */
	if (i < x->extra_count) {
		t = &x->extra[i];
		ws_text_free(&made);
		return (struct ws_xcell){.kind = WS_X_STRING,
					 .id = x->string_count + (uint32_t)i + 1,
					 .s = t->s,
					 .n = t->len};
	}
	ws_grow(x->extra, x->extra_cap, x->extra_count + 1);
	t = &x->extra[x->extra_count++];
	*t = made;
	return (struct ws_xcell){.kind = WS_X_STRING,
				 .id = x->string_count + (uint32_t)x->extra_count,
				 .s = t->s,
				 .n = t->len};
}

struct ws_xcell ws_x_own(struct ws_export *x, const char *s)
{
	struct ws_text *t;

	ws_grow(x->own, x->own_cap, x->own_count + 1);
	t = &x->own[x->own_count++];
	memset(t, 0, sizeof(*t));
	ws_text_puts(t, "");
	ws_text_utf8(t, s, strlen(s));
	return (struct ws_xcell){.kind = WS_X_TEXT, .s = t->s, .n = t->len};
}

struct ws_xcell ws_x_thread(struct ws_export *x, uint64_t id)
{
	return id ? ws_x_int((int64_t)ws_who_thread(x->who, (uint32_t)id)->global_tid)
		  : ws_x_null();
}

struct ws_xcell ws_x_process(struct ws_export *x, uint64_t id)
{
	return id ? ws_x_int((int64_t)ws_who_process(x->who, (uint32_t)id)->global_pid)
		  : ws_x_null();
}

struct ws_xcell ws_x_time(struct ws_export *x, uint64_t t)
{
	return ws_x_int((int64_t)(t - x->base));
}

struct ws_xcell ws_x_ntime(struct ws_export *x, uint64_t t)
{
	return t == WS_NO_TIME ? ws_x_null() : ws_x_time(x, t);
}

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

static void free_pile(struct ws_export *x)
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

static int export_strings(struct ws_export *x, struct ws_err *e)
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
		} else if (x->strings[id] & STRING_USED ||
			   (x->all_strings && ws_report_string_key(x->r, (uint32_t)id) == id)) {
			cells[1].s = ws_x_bytes(x, (uint32_t)id, &cells[1].n);
			if (!cells[1].n &&
			    !(x->strings[id] &
			      STRING_USED)) /* numbers between those of texts stand for none */
				continue;
		} else {
			continue;
		}
		if (ws_export_row(x, cells, e) < 0)
			return -1;
	}
	return 0;
}

/* ---- one export ---- */

static char *default_output(const char *path, const struct ws_xformat *f)
{
	size_t n = strlen(path);

	if (n > 6 && !strcmp(path + n - 6, ".wsrep"))
		n -= 6;
	return ws_format("%.*s%s", (int)n, path, f->extension);
}

static int write_tables(struct ws_export *x, const struct ws_xformat *f, const struct ws_xtarget *t,
			struct ws_err *e)
{
	int rc;

	x->w = f->open(t, e);
	if (!x->w)
		return -1;
	rc = ws_export_tables(x, e);
	if (!rc)
		rc = export_strings(x, e);
	if (!rc)
		rc = ws_export_table_end(x, e);
	if (x->w->close(x->w, !rc, e) < 0)
		rc = -1;
	return rc;
}

static int write_all(struct ws_export *x, const struct ws_xformat *f, struct ws_outfile *out,
		     const struct ws_export_request *q, struct ws_err *e)
{
	struct ws_xtarget t = {.path = out->temporary,
			       .name = x->output,
			       .append = x->append,
			       .separate_strings = q->separate_strings};

	if (f->flags & WS_FF_PATH && out->f) { /* it opens the file by itself */
		fclose(out->f);
		out->f = NULL;
	}
	t.f = out->f;
	return f->open ? write_tables(x, f, &t, e) : f->write(x, out->f, e);
}

void ws_export_begin(struct ws_export *x, const struct ws_report *r)
{
	memset(x, 0, sizeof(*x));
	x->r = r;
	x->input = ws_report_path(r);
	x->who = ws_who_open(r);
	x->zero = x->base = ws_time_zero(r);
	x->last = ws_time_last(r);
	x->string_count = ws_report_string_count(r);
	x->strings = ws_calloc((size_t)x->string_count + 1, 1);
}

void ws_export_end(struct ws_export *x)
{
	for (uint32_t i = 0; x->repaired && i <= x->string_count; i++)
		free(x->repaired[i]);
	for (size_t i = 0; i < x->extra_count; i++)
		ws_text_free(&x->extra[i]);
	free(x->repaired);
	for (size_t i = 0; i < x->own_count; i++)
		ws_text_free(&x->own[i]);
	free(x->own);
	free(x->extra);
	free_pile(x);
	free(x->strings);
	ws_choose_free(x);
	ws_map_free(&x->texts);
	ws_export_foreign_free(x);
	ws_who_close(x->who);
}

/* The rows that the tables of the report have: how much work there is, about. */
static uint64_t all_rows(const struct ws_report *r)
{
	uint64_t n = 0;

	for (int t = 0; t < WS_TABLE_COUNT; t++)
		n += ws_report_rows(r, (enum ws_table)t);
	return n;
}

static int open_output(struct ws_outfile *out, const struct ws_xformat *f,
		       const struct ws_export_request *q, const char *output, struct ws_err *e)
{
	size_t n = strlen(output);

	if (!strcmp(output, "-") && !(f->flags & WS_FF_STDOUT))
		return ws_fail(e, "%s cannot be written to standard output; name a %s with -o",
			       f->name, f->flags & WS_FF_FOLDER ? "folder" : "file");
	if (f->flags & WS_FF_FOLDER)
		return ws_outfile_open_folder(out, output, q->overwrite, q->append, e);
	if (q->append)
		return ws_outfile_open_copy(out, output, 0600, e);
	if (ws_outfile_open(out, output, 0600, q->overwrite, e) < 0)
		return -1;
	if (!(f->flags & WS_FF_GZIP) || n < 3 || strcmp(output + n - 3, ".gz") != 0 ||
	    !ws_outfile_gzip(out, e))
		return 0;
	ws_outfile_abort(out);
	return -1;
}

static int export_report(const struct ws_report *r, const struct ws_xformat *f,
			 const struct ws_export_request *q, const char *output, struct ws_err *e)
{
	struct ws_export x;
	struct ws_outfile out;
	int rc;

	ws_export_begin(&x, r);
	x.type = f->name;
	x.output = output;
	x.lazy = q->lazy;
	x.no_blobs = !q->blobs;
	x.show = q->show;
	x.by = q->by;
	x.quiet = q->quiet;
	x.append = q->append;
	x.normalized = q->normalize;
	x.all_strings = q->append || q->table_count;
	if (ws_choose(&x, q, q->normalize ? ws_export_epoch(&x) : 0, e) < 0 ||
	    open_output(&out, f, q, output, e) < 0) {
		ws_export_end(&x);
		return -1;
	}
	ws_outfile_watch();
	x.progress = ws_progress_begin(q->quiet ? NULL : "export", all_rows(r));
	rc = write_all(&x, f, &out, q, e);
	ws_progress_end(x.progress);
	if (rc < 0 && out.path) {
		ws_outfile_abort(&out);
	} else {
		struct ws_err *first = rc < 0 ? NULL : e; /* of standard output, this finds out
							     whether the reader went away */
		int end = ws_outfile_commit(&out, first);

		rc = end < rc ? end : rc;
	}
	if (x.damaged)
		ws_warn("%s: %" PRIu64 " blocks could not be read; their rows are missing", x.input,
			x.damaged);
	if (!rc && !q->quiet && strcmp(output, "-"))
		ws_say("wrote %s: %" PRIu64 " rows", output, x.rows);
	ws_export_end(&x);
	return rc;
}

/* Options that the format does not take. */
static int check_options(const struct ws_xformat *f, const struct ws_export_request *q,
			 struct ws_err *e)
{
	const struct {
		bool given;
		unsigned needs;
		const char *name;
	} options[] = {
		{q->table_count > 0, WS_XO_TABLES, "--tables"},
		{q->time_count > 0, WS_XO_TABLES | WS_XO_TIMES | WS_XO_STACKS | WS_XO_SPAN,
		 "--times"},
		{q->shift != 0, WS_XO_TABLES | WS_XO_TIMES, "--ts-shift"},
		{q->normalize, WS_XO_TABLES | WS_XO_TIMES, "--ts-normalize"},
		{q->append, WS_XO_APPEND, "--append"},
		{!q->blobs, WS_XO_BLOBS, "--include-blobs=false"},
		{q->separate_strings, WS_XO_STRINGS, "--separate-strings"},
		{!q->lazy, WS_XO_TABLES, "--lazy=false"},
		{q->show != NULL, WS_XO_STACKS, "--show"},
		{q->by != NULL, WS_XO_STACKS, "--by"},
	};

	for (size_t i = 0; i < WS_COUNT(options); i++)
		if (options[i].given && !(f->takes & options[i].needs))
			return ws_fail(e, "%s means nothing to the type %s", options[i].name,
				       f->name);
	if (q->append && q->overwrite)
		return ws_fail(e, "--append keeps what is there and --force-overwrite replaces it; "
				  "give one of them");
	return ws_choose_check(q, e);
}

int ws_export_file(const char *path, const struct ws_export_request *q)
{
	const struct ws_xformat *f = ws_xformat_find(q->type);
	char *file, *output;
	struct ws_report *r;
	struct ws_err e;
	int rc;

	if (check_options(f, q, &e) < 0) {
		ws_say("export: %s", e.msg);
		return WS_EXPORT_USAGE;
	}
	file = ws_report_operand(path);
	r = ws_report_open(file, &e);
	free(file);
	if (!r) {
		ws_say("%s", e.msg);
		return -1;
	}
	for (size_t i = 0; ws_report_damage(r, i); i++)
		ws_warn("%s: %s", ws_report_path(r), ws_report_damage(r, i));
	output = q->output ? ws_strdup(q->output) : default_output(ws_report_path(r), f);
	rc = export_report(r, f, q, output, &e);
	ws_outfile_end_if_interrupted();
	if (rc == -1)
		ws_say("%s", e.msg);
	free(output);
	ws_report_close(r);
	return rc;
}
