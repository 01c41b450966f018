/*
 * columns.c - see columns.h.
 *
 * A worker takes a block from the scan, drops the rows that --times or the view leave out, converts
 * column after column in tight loops, lets the format make its bytes, and then waits until all
 * blocks before its own are written. So the output is the same however many threads there are, and
 * as many blocks are in memory as there are workers.
 */
#include "export/columns.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "text/outfile.h"
#include "text/progress.h"

/* ---- types ---- */

static enum ws_xtype stored_type(const struct ws_xview *v, const struct ws_xcolumn *c)
{
	switch (ws_tables[v->source].columns[c->source].type) {
	case WS_T_U8:
		return WS_XT_U8;
	case WS_T_I32:
		return WS_XT_I32;
	case WS_T_I64:
		return WS_XT_I64;
	case WS_T_U64:
	case WS_T_NU64:
		return WS_XT_U64;
	case WS_T_F64:
		return WS_XT_F64;
	default:
		return WS_XT_U32;
	}
}

static enum ws_xtype shaped_type(enum ws_xshape s)
{
	static const enum ws_xtype types[] = {
		[WS_SHAPE_INT] = WS_XT_I64,   [WS_SHAPE_UINT] = WS_XT_U64,
		[WS_SHAPE_REAL] = WS_XT_F64,  [WS_SHAPE_STRING] = WS_XT_STRING,
		[WS_SHAPE_TEXT] = WS_XT_TEXT, [WS_SHAPE_BLOB] = WS_XT_BLOB};

	return types[s];
}

enum ws_xtype ws_xcolumn_type(const struct ws_xview *v, const struct ws_xcolumn *c)
{
	switch (c->from) {
	case WS_XF_MADE:
	case WS_XF_NULL:
		return WS_XT_NULL;
	case WS_XF_INT:
	case WS_XF_UINT:
	case WS_XF_REAL:
	case WS_XF_UNLESS:
	case WS_XF_ID:
		return stored_type(v, c);
	case WS_XF_CALL:
		return shaped_type(c->shape);
	case WS_XF_CONST:
		return WS_XT_I32;
	case WS_XF_STRING:
	case WS_XF_STRING0:
		return WS_XT_STRING;
	case WS_XF_TEXT:
		return WS_XT_TEXT;
	case WS_XF_BLOB:
		return WS_XT_BLOB;
	default:
		return WS_XT_I64;
	}
}

unsigned ws_xtype_width(enum ws_xtype t)
{
	static const unsigned width[] = {
		[WS_XT_NULL] = 0, [WS_XT_U8] = 1,  [WS_XT_U32] = 4, [WS_XT_I32] = 4,
		[WS_XT_U64] = 8,  [WS_XT_I64] = 8, [WS_XT_F64] = 8, [WS_XT_STRING] = 4,
		[WS_XT_TEXT] = 4, [WS_XT_BLOB] = 4};

	return width[t];
}

static bool name_taken(const struct ws_xtable *t, const char *name)
{
	for (size_t i = 0; i < t->column_count; i++)
		if (!strcmp(t->columns[i].name, name))
			return true;
	return false;
}

char *ws_xcolumn_text_name(const struct ws_xtable *t, const struct ws_xcolumn *c)
{
	size_t n = strlen(c->name);
	char *name;

	if (n > 2 && !strcmp(c->name + n - 2, "Id")) {
		name = ws_strndup(c->name, n - 2);
		if (!name_taken(t, name))
			return name;
		free(name);
	}
	return ws_format("%sValue", c->name);
}

/* ---- one column ---- */

static void narrow(struct ws_xvector *o, const uint64_t *v, size_t n)
{
	uint32_t *d4 = o->data;
	uint8_t *d1 = o->data;

	switch (ws_xtype_width(o->type)) {
	case 8:
		memcpy(o->data, v, n * 8);
		break;
	case 4:
		for (size_t i = 0; i < n; i++)
			d4[i] = (uint32_t)v[i];
		break;
	default:
		for (size_t i = 0; i < n; i++)
			d1[i] = (uint8_t)v[i];
	}
}

/* Null where the value is `none`. */
static void mark_nulls(struct ws_xvector *o, const uint64_t *v, size_t n, uint64_t none)
{
	size_t nulls = 0;

	for (size_t i = 0; i < n; i++)
		nulls += v[i] == none;
	o->nulls = nulls;
	if (!nulls)
		return;
	o->valid = o->bitmap;
	memset(o->valid, 0, (n + 7) / 8);
	for (size_t i = 0; nulls < n && i < n; i++)
		o->valid[i >> 3] |= (uint8_t)((v[i] != none) << (i & 7));
}

static void shift_times(struct ws_xvector *o, const uint64_t *v, size_t n, uint64_t base)
{
	uint64_t *d = o->data;

	for (size_t i = 0; i < n; i++)
		d[i] = v[i] - base;
}

static void map_who(struct ws_export *x, struct ws_xvector *o, const uint64_t *v, size_t n,
		    bool threads)
{
	uint64_t *d = o->data, last = UINT64_MAX, global = 0;

	for (size_t i = 0; i < n; i++) {
		if (v[i] != last) {
			last = v[i];
			global = threads ? ws_who_thread(x->who, (uint32_t)last)->global_tid
					 : ws_who_process(x->who, (uint32_t)last)->global_pid;
		}
		d[i] = global;
	}
	mark_nulls(o, v, n, 0);
}

/* StringIds will have it. From several threads; nearly all texts have been met before, and then
 * nothing is written. */
static void use_string(struct ws_export *x, uint32_t id)
{
	if (id <= x->string_count &&
	    !(__atomic_load_n(&x->strings[id], __ATOMIC_RELAXED) & WS_STRING_USED))
		__atomic_fetch_or(&x->strings[id], WS_STRING_USED, __ATOMIC_RELAXED);
}

/* Texts that are not there at all are null, as ws_x_string has it; the empty number of STRING0 is
 * 0. */
static void map_strings(struct ws_export *x, struct ws_xvector *o, uint64_t *v, size_t n)
{
	uint32_t *d = o->data;

	for (size_t i = 0; i < n; i++) {
		uint32_t id = (uint32_t)v[i], key;

		if (id && o->type != WS_XT_BLOB) {
			key = id > x->string_count ? 0 : ws_report_string_key(x->r, id);
			id = key > x->string_count ? id : key;
		}
		if (id && o->type == WS_XT_STRING)
			use_string(x, id);
		v[i] = d[i] = id;
	}
}

static void call_cells(struct ws_export *x, const struct ws_xcolumn *c, struct ws_xvector *o,
		       const uint64_t *const *col, size_t n)
{
	uint64_t row[WS_MAX_COLUMNS] = {0};
	unsigned reads[WS_MAX_COLUMNS], count = 0;
	size_t nulls = 0;

	for (unsigned k = 0; k < WS_MAX_COLUMNS; k++)
		if (c->needs >> k & 1)
			reads[count++] = k;
	o->valid = o->bitmap;
	memset(o->valid, 0, (n + 7) / 8);
	for (size_t i = 0; i < n; i++) {
		struct ws_xcell cell = {0};
		uint64_t bits;

		if (!c->gated || col[c->source][i]) {
			for (unsigned k = 0; k < count; k++)
				row[reads[k]] = col[reads[k]][i];
			cell = c->cell(x, row);
		}
		bits = cell.kind == WS_X_NULL	? 0
		       : cell.kind >= WS_X_TEXT ? cell.id
						: (uint64_t)cell.i;
		if (ws_xtype_width(o->type) == 8)
			((uint64_t *)o->data)[i] = bits;
		else
			((uint32_t *)o->data)[i] = (uint32_t)bits;
		if (cell.kind == WS_X_STRING)
			use_string(x, cell.id);
		o->valid[i >> 3] |= (uint8_t)((cell.kind != WS_X_NULL) << (i & 7));
		nulls += cell.kind == WS_X_NULL;
	}
	o->nulls = nulls;
	if (!nulls)
		o->valid = NULL;
}

/* Wholly null without a look at the rows: most columns of payloads are. */
static bool gate_is_shut(const struct ws_xcolumn *c, const uint64_t *const *col, size_t n)
{
	uint64_t any = 0;

	if (!c->gated)
		return false;
	for (size_t i = 0; i < n; i++)
		any |= col[c->source][i];
	return !any;
}

static void all_null(struct ws_xvector *o, size_t n)
{
	o->nulls = n;
	o->valid = o->bitmap;
	memset(o->valid, 0, (n + 7) / 8);
	if (o->data)
		memset(o->data, 0, n * ws_xtype_width(o->type));
}

static void convert(struct ws_export *x, const struct ws_xcolumn *c, struct ws_xvector *o,
		    uint64_t *const *col, size_t n)
{
	uint64_t *v = c->from >= WS_XF_INT && c->from < WS_XF_CALL ? col[c->source] : NULL;

	o->valid = NULL;
	o->nulls = 0;
	switch (c->from) {
	case WS_XF_MADE:
	case WS_XF_NULL:
		all_null(o, n);
		break;
	case WS_XF_CONST:
		for (size_t i = 0; i < n; i++)
			((uint32_t *)o->data)[i] = (uint32_t)c->value;
		break;
	case WS_XF_INT:
	case WS_XF_UINT:
	case WS_XF_REAL:
		narrow(o, v, n);
		break;
	case WS_XF_UNLESS:
		narrow(o, v, n);
		mark_nulls(o, v, n, c->value);
		break;
	case WS_XF_ID:
		narrow(o, v, n);
		mark_nulls(o, v, n, 0);
		break;
	case WS_XF_TIME:
		shift_times(o, v, n, x->base);
		break;
	case WS_XF_NTIME:
		shift_times(o, v, n, x->base);
		mark_nulls(o, v, n, WS_NO_TIME);
		break;
	case WS_XF_THREAD:
	case WS_XF_PROCESS:
		map_who(x, o, v, n, c->from == WS_XF_THREAD);
		break;
	case WS_XF_BLOB:
	case WS_XF_TEXT:
	case WS_XF_STRING:
	case WS_XF_STRING0:
		map_strings(x, o, v, n);
		if (c->from != WS_XF_STRING0)
			mark_nulls(o, v, n, 0);
		if (c->from == WS_XF_BLOB && x->no_blobs)
			all_null(o, n);
		break;
	case WS_XF_CALL:
		if (gate_is_shut(c, (const uint64_t *const *)col, n))
			all_null(o, n);
		else
			call_cells(x, c, o, (const uint64_t *const *)col, n);
		break;
	}
}

/* ---- a run ---- */

struct worker {
	struct ws_xbatch batch;
	size_t room; /* rows */
};

struct run {
	struct ws_export *x;
	const struct ws_xview *v;
	uint64_t wanted;
	const struct ws_xcolumns_user *u;
	struct worker *workers;
	pthread_mutex_t lock;
	pthread_cond_t next;
	size_t turn; /* block that is to be written */
	bool failed;
	uint64_t rows;
	struct ws_err *e;
};

static void make_room(struct run *run, struct worker *w, size_t rows)
{
	if (rows <= w->room)
		return;
	for (size_t i = 0; i < run->v->t.column_count; i++) {
		struct ws_xvector *o = &w->batch.col[i];

		if (!(run->wanted >> i & 1))
			continue;
		o->type = ws_xcolumn_type(run->v, &run->v->t.columns[i]);
		o->data = ws_realloc(o->data, rows * 8);
		o->bitmap = ws_realloc(o->bitmap, (rows + 7) / 8 + 8);
	}
	w->room = rows;
}

/* Drop rows that are not wanted, in place; returns how many stay. */
static size_t filter(struct run *run, size_t rows, uint64_t *const *col)
{
	uint64_t row[WS_MAX_COLUMNS] = {0};
	size_t n = 0;

	if (!run->v->keep && !(run->x->span_count && run->v->timed))
		return rows;
	for (size_t i = 0; i < rows; i++) {
		for (uint32_t k = 0; k < WS_MAX_COLUMNS; k++)
			if (col[k])
				row[k] = col[k][i];
		if (!ws_xview_keeps(run->x, run->v, row))
			continue;
		for (uint32_t k = 0; k < WS_MAX_COLUMNS; k++)
			if (col[k])
				col[k][n] = col[k][i];
		n++;
	}
	return n;
}

/* Wait for the blocks before; false when one of them failed. Returns locked. */
static bool wait_turn(struct run *run, size_t block)
{
	pthread_mutex_lock(&run->lock);
	while (run->turn != block && !run->failed)
		pthread_cond_wait(&run->next, &run->lock);
	return !run->failed;
}

static int done(struct run *run, bool ok)
{
	run->failed |= !ok;
	run->turn++;
	pthread_cond_broadcast(&run->next);
	pthread_mutex_unlock(&run->lock);
	return ok ? 0 : -1;
}

static int on_block(void *ctx, const struct ws_batch *b)
{
	struct run *run = ctx;
	struct worker *w = &run->workers[b->worker];
	uint64_t *col[WS_MAX_COLUMNS];
	struct ws_err e = {""};
	bool ok = true;

	for (uint32_t k = 0; k < WS_MAX_COLUMNS; k++)
		col[k] = (uint64_t *)b->col[k]; /* the worker's own buffers: changed in place */
	w->batch.rows = b->rows ? filter(run, b->rows, col) : 0;
	make_room(run, w, b->rows);
	for (size_t i = 0; w->batch.rows && i < run->v->t.column_count; i++)
		if (run->wanted >> i & 1)
			convert(run->x, &run->v->t.columns[i], &w->batch.col[i], col,
				w->batch.rows);
	if (w->batch.rows)
		ok = run->u->make(run->u->ctx, &w->batch, &e) == 0;
	if (!wait_turn(run, b->block))
		return done(run, false);
	if (ok && ws_outfile_interrupted())
		ok = ws_fail(&e, "interrupted") == 0;
	if (ok && w->batch.rows && run->u->put)
		ok = run->u->put(run->u->ctx, &w->batch, &e) == 0;
	run->rows += w->batch.rows;
	if (!ok)
		ws_fail(run->e, "%s", e.msg);
	ws_progress_step(run->u->put ? run->x->progress : NULL, b->rows);
	return done(run, ok);
}

static uint64_t columns_read(const struct run *run)
{
	uint64_t reads = 0;

	for (size_t i = 0; i < run->v->t.column_count; i++)
		if (run->wanted >> i & 1)
			reads |= ws_xcolumn_reads(&run->v->t.columns[i]);
	if (run->v->keep || run->x->span_count) {
		struct ws_xview times = *run->v;

		times.t.column_count = 0;
		reads |= ws_xview_reads(&times);
	}
	return reads;
}

uint32_t ws_xcolumns_workers(void)
{
	struct ws_scan s = {0};

	return ws_scan_workers(&s);
}

int ws_xcolumns_run(struct ws_export *x, const struct ws_xview *v, uint64_t wanted,
		    const struct ws_xcolumns_user *u, uint64_t *rows, struct ws_err *e)
{
	struct run run = {.x = x,
			  .v = v,
			  .wanted = wanted,
			  .u = u,
			  .lock = PTHREAD_MUTEX_INITIALIZER,
			  .next = PTHREAD_COND_INITIALIZER,
			  .e = e};
	uint32_t workers = ws_xcolumns_workers();
	struct ws_scan scan = {.table = v->source,
			       .columns = columns_read(&run),
			       .time_max = UINT64_MAX,
			       .empty = true};
	uint64_t damaged = 0;
	int rc;

	run.workers = ws_calloc(workers, sizeof(*run.workers));
	for (uint32_t i = 0; i < workers; i++)
		run.workers[i].batch = (struct ws_xbatch){.view = v, .worker = i};
	x->ids_only = true;
	rc = ws_scan_run(x->r, &scan, on_block, &run, &damaged);
	x->ids_only = false;
	for (uint32_t i = 0; i < workers; i++) {
		for (size_t k = 0; k < WS_MAX_COLUMNS; k++) {
			free(run.workers[i].batch.col[k].data);
			free(run.workers[i].batch.col[k].bitmap);
		}
	}
	free(run.workers);
	if (rows)
		*rows = run.rows;
	if (u->put)
		x->damaged += damaged;
	return rc ? -1 : 0;
}
