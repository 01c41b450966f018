/*
 * export.c - one export: opening, strings, the pipeline from blocks to rows, and the file's way to its name.
 *
 * A table is written by two threads: one merges blocks and turns rows into cells (which decodes ahead), the other hands cells to
 * the format. They pass batches through a ring of four.
 */
#include "export/export.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "export/outfile.h"
#include "export/text.h"
#include "stats/stats.h"

/* ---- strings, threads, times ---- */

enum { STRING_CLEAN = 1, STRING_BROKEN = 2, STRING_USED = 4 };

/* Valid text of a string id. Ids beyond the dictionary are empty strings. */
static const char *string_text(struct ws_export *x, uint32_t id, size_t *len)
{
	const char *s = ws_report_string(x->r, id, len);
	struct ws_text t = {0};

	if (id > x->string_count || x->strings[id] & STRING_CLEAN)
		return s;
	if (!(x->strings[id] & STRING_BROKEN) && ws_utf8_valid(s, *len)) {
		x->strings[id] |= STRING_CLEAN;
		return s;
	}
	x->strings[id] |= STRING_BROKEN;
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
	struct ws_xcell c = {.kind = id ? WS_X_TEXT : WS_X_NULL};

	if (id)
		c.s = string_text(x, id, &c.n);
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
	c.s = string_text(x, c.id, &c.n);
	x->strings[c.id] |= STRING_USED;
	return c;
}

struct ws_xcell ws_x_extra(struct ws_export *x, const char *s, size_t n)
{
	struct ws_text *t;

	ws_grow(x->extra, x->extra_cap, x->extra_count + 1);
	t = &x->extra[x->extra_count++];
	memset(t, 0, sizeof(*t));
	ws_text_utf8(t, s, n);
	if (!t->s)
		ws_text_puts(t, "");
	return (struct ws_xcell){.kind = WS_X_STRING, .id = x->string_count + (uint32_t)x->extra_count, .s = t->s, .n = t->len};
}

struct ws_xcell ws_x_own(struct ws_export *x, const char *s, size_t n)
{
	struct ws_text *t;

	ws_grow(x->own, x->own_cap, x->own_count + 1);
	t = &x->own[x->own_count++];
	memset(t, 0, sizeof(*t));
	ws_text_puts(t, "");
	ws_text_utf8(t, s, n);
	return (struct ws_xcell){.kind = WS_X_TEXT, .s = t->s, .n = t->len};
}

struct ws_xcell ws_x_thread(struct ws_export *x, uint64_t id)
{
	return id ? ws_x_int((int64_t)ws_who_thread(x->who, (uint32_t)id)->global_tid) : ws_x_null();
}

struct ws_xcell ws_x_process(struct ws_export *x, uint64_t id)
{
	return id ? ws_x_int((int64_t)ws_who_process(x->who, (uint32_t)id)->global_pid) : ws_x_null();
}

struct ws_xcell ws_x_time(struct ws_export *x, uint64_t t)
{
	return ws_x_int((int64_t)(t - x->zero));
}

struct ws_xcell ws_x_ntime(struct ws_export *x, uint64_t t)
{
	return t == WS_NO_TIME ? ws_x_null() : ws_x_time(x, t);
}

/* ---- the pipeline ---- */

enum { BATCH_ROWS = 1024, BATCHES = 4 };

struct pipe {
	struct ws_export *x;
	const struct ws_xtable *t;
	enum ws_table source;
	ws_x_fill *fill;
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
		rows += p->fill(p->x, values, p->cells[p->made % BATCHES] + rows * p->t->column_count);
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
		bool bad = p->x->w->rows(p->x->w, p->cells[p->used % BATCHES], rows, e) < 0;

		p->x->rows += rows;
		batch_used(p, bad);
		if (bad)
			return -1;
	}
	return 0;
}

int ws_export_rows(struct ws_export *x, const struct ws_xtable *t, enum ws_table source, ws_x_fill *fill, struct ws_err *e)
{
	struct pipe p = {
	    .x = x, .t = t, .source = source, .fill = fill, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
	pthread_t thread;
	int rc;

	if (x->lazily)
		return x->lazily(x, t, source, fill, e);
	if (ws_export_table(x, t, e) < 0)
		return -1;
	for (int i = 0; i < BATCHES; i++)
		p.cells[i] = ws_calloc(BATCH_ROWS * t->column_count, sizeof(*p.cells[i]));
	rc = pthread_create(&thread, NULL, produce, &p);
	if (rc) {
		errno = rc;
		rc = ws_fail_errno(e, "cannot start a thread");
	} else {
		rc = consume(&p, e);
		pthread_join(thread, NULL);
	}
	for (int i = 0; i < BATCHES; i++)
		free(p.cells[i]);
	return rc;
}

int ws_export_table(struct ws_export *x, const struct ws_xtable *t, struct ws_err *e)
{
	return x->w->table(x->w, t, e);
}

int ws_export_row(struct ws_export *x, const struct ws_xcell *cells, struct ws_err *e)
{
	x->rows++;
	return x->w->rows(x->w, cells, 1, e);
}

/* ---- StringIds: what the other tables have pointed to ---- */

static int export_strings(struct ws_export *x, struct ws_err *e)
{
	static const struct ws_xcolumn columns[] = {
	    {"id", "INTEGER", true, true, "Number of the text"},
	    {"value", "TEXT", true, false, "The text"},
	};
	static const struct ws_xtable table = {"StringIds", "Texts that other tables point to", columns, WS_COUNT(columns)};

	if (ws_export_table(x, &table, e) < 0)
		return -1;
	for (uint64_t id = 1; id <= x->string_count + x->extra_count; id++) {
		struct ws_xcell cells[2] = {ws_x_int((int64_t)id), {.kind = WS_X_TEXT}};

		if (id > x->string_count) {
			cells[1].s = x->extra[id - x->string_count - 1].s;
			cells[1].n = x->extra[id - x->string_count - 1].len;
		} else if (x->strings[id] & STRING_USED) {
			cells[1].s = string_text(x, (uint32_t)id, &cells[1].n);
		} else {
			continue;
		}
		if (ws_export_row(x, cells, e) < 0)
			return -1;
	}
	return 0;
}

/* ---- one export ---- */

static bool is_sqlite(const char *type)
{
	return !strcmp(type, "sqlite");
}

static char *default_output(const char *path, const char *type)
{
	size_t n = strlen(path);

	if (n > 6 && !strcmp(path + n - 6, ".wsrep"))
		n -= 6;
	return ws_format("%.*s.%s", (int)n, path, is_sqlite(type) ? "sqlite" : "jsonl");
}

static int write_all(struct ws_export *x, struct ws_outfile *out, struct ws_err *e)
{
	bool direct = is_sqlite(x->type);
	int rc;

	if (direct) { /* SQLite opens the file by itself */
		fclose(out->f);
		out->f = NULL;
	}
	x->w = direct ? ws_sqlite_writer(out->temporary, e) : ws_jsonlines_writer(out->f);
	if (!x->w)
		return -1;
	rc = ws_export_tables(x, e);
	if (!rc)
		rc = export_strings(x, e);
	if (x->w->close(x->w, !rc, e) < 0)
		rc = -1;
	return rc;
}

void ws_export_begin(struct ws_export *x, const struct ws_report *r)
{
	x->r = r;
	x->who = ws_who_open(r);
	x->zero = ws_time_zero(r);
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
	free(x->strings);
	ws_who_close(x->who);
}

static int export_report(const struct ws_report *r, const struct ws_export_request *q, const char *output, struct ws_err *e)
{
	struct ws_export x = {.type = q->type, .input = ws_report_path(r), .output = output};
	struct ws_outfile out;
	int rc;

	if (!strcmp(output, "-") && is_sqlite(q->type))
		return ws_fail(e, "an SQLite database cannot be written to standard output; name a file with -o");
	if (ws_outfile_open(&out, output, 0600, q->overwrite, e) < 0)
		return -1;
	ws_export_begin(&x, r);
	rc = write_all(&x, &out, e);
	if (rc < 0 && out.path) {
		ws_outfile_abort(&out);
	} else {
		struct ws_err *first = rc < 0 ? NULL : e; /* of standard output, this finds out whether the reader went away */
		int end = ws_outfile_commit(&out, first);

		rc = end < rc ? end : rc;
	}
	if (!rc && !q->quiet && strcmp(output, "-"))
		ws_say("wrote %s: %" PRIu64 " rows", output, x.rows);
	ws_export_end(&x);
	return rc;
}

int ws_export_file(const char *path, const struct ws_export_request *q)
{
	char *file = ws_report_operand(path), *output;
	struct ws_err e;
	struct ws_report *r = ws_report_open(file, &e);
	int rc;

	free(file);
	if (!r) {
		ws_say("%s", e.msg);
		return -1;
	}
	for (size_t i = 0; ws_report_damage(r, i); i++)
		ws_warn("%s: %s", ws_report_path(r), ws_report_damage(r, i));
	output = q->output ? ws_strdup(q->output) : default_output(ws_report_path(r), q->type);
	rc = export_report(r, q, output, &e);
	if (rc == -1)
		ws_say("%s", e.msg);
	free(output);
	ws_report_close(r);
	return rc;
}
