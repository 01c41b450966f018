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

static enum ws_xtype stored_type(const struct ws_xview *view, const struct ws_xcolumn *column)
{
	switch (ws_tables[view->source].columns[column->source].type) {
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

static enum ws_xtype shaped_type(enum ws_xshape xshape)
{
	static const enum ws_xtype types[] = {
		[WS_SHAPE_INT] = WS_XT_I64,   [WS_SHAPE_UINT] = WS_XT_U64,
		[WS_SHAPE_REAL] = WS_XT_F64,  [WS_SHAPE_STRING] = WS_XT_STRING,
		[WS_SHAPE_TEXT] = WS_XT_TEXT, [WS_SHAPE_BLOB] = WS_XT_BLOB};

	return types[xshape];
}

enum ws_xtype ws_xcolumn_type(const struct ws_xview *view, const struct ws_xcolumn *column)
{
	switch (column->from) {
	case WS_XF_MADE:
	case WS_XF_NULL:
		return WS_XT_NULL;
	case WS_XF_INT:
	case WS_XF_UINT:
	case WS_XF_REAL:
	case WS_XF_UNLESS:
	case WS_XF_ID:
		return stored_type(view, column);
	case WS_XF_CALL:
		return shaped_type(column->shape);
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

unsigned ws_xtype_width(enum ws_xtype xtype)
{
	static const unsigned width[] = {
		[WS_XT_NULL] = 0, [WS_XT_U8] = 1,  [WS_XT_U32] = 4, [WS_XT_I32] = 4,
		[WS_XT_U64] = 8,  [WS_XT_I64] = 8, [WS_XT_F64] = 8, [WS_XT_STRING] = 4,
		[WS_XT_TEXT] = 4, [WS_XT_BLOB] = 4};

	return width[xtype];
}

static bool name_taken(const struct ws_xtable *table, const char *name)
{
	for (size_t i = 0; i < table->column_count; i++)
		if (!strcmp(table->columns[i].name, name))
			return true;
	return false;
}

char *ws_xcolumn_text_name(const struct ws_xtable *table, const struct ws_xcolumn *column)
{
	size_t n = strlen(column->name);
	char *name;

	if (n > 2 && !strcmp(column->name + n - 2, "Id")) {
		name = ws_strndup(column->name, n - 2);
		if (!name_taken(table, name))
			return name;
		free(name);
	}
	return ws_format("%sValue", column->name);
}

/* ---- one column ---- */

static void narrow(struct ws_xvector *vector, const uint64_t *values, size_t n)
{
	uint32_t *d4 = vector->data;
	uint8_t *d1 = vector->data;

	switch (ws_xtype_width(vector->type)) {
	case 8:
		memcpy(vector->data, values, n * 8);
		break;
	case 4:
		for (size_t i = 0; i < n; i++)
			d4[i] = (uint32_t)values[i];
		break;
	default:
		for (size_t i = 0; i < n; i++)
			d1[i] = (uint8_t)values[i];
	}
}

/* Null where the value is `none`. */
static void mark_nulls(struct ws_xvector *vector, const uint64_t *values, size_t n, uint64_t none)
{
	size_t nulls = 0;

	for (size_t i = 0; i < n; i++)
		nulls += values[i] == none;
	vector->nulls = nulls;
	if (!nulls)
		return;
	vector->valid = vector->bitmap;
	memset(vector->valid, 0, (n + 7) / 8);
	for (size_t i = 0; nulls < n && i < n; i++)
		vector->valid[i >> 3] |= (uint8_t)((values[i] != none) << (i & 7));
}

static void shift_times(struct ws_xvector *vector, const uint64_t *values, size_t n, uint64_t base)
{
	uint64_t *d = vector->data;

	for (size_t i = 0; i < n; i++)
		d[i] = values[i] - base;
}

static void map_who(struct ws_export *export, struct ws_xvector *vector, const uint64_t *values,
		    size_t n, bool threads)
{
	uint64_t *d = vector->data, last = UINT64_MAX, global = 0;

	for (size_t i = 0; i < n; i++) {
		if (values[i] != last) {
			last = values[i];
			global = threads ? ws_who_thread(export->who, (uint32_t)last)->global_tid
					 : ws_who_process(export->who, (uint32_t)last)->global_pid;
		}
		d[i] = global;
	}
	mark_nulls(vector, values, n, 0);
}

/* StringIds will have it. From several threads; nearly all texts have been met before, and then
 * nothing is written. */
static void use_string(struct ws_export *export, uint32_t id)
{
	if (id <= export->string_count &&
	    !(__atomic_load_n(&export->strings[id], __ATOMIC_RELAXED) & WS_STRING_USED))
		__atomic_fetch_or(&export->strings[id], WS_STRING_USED, __ATOMIC_RELAXED);
}

/* Texts that are not there at all are null, as ws_x_string has it; the empty number of STRING0 is
 * 0. */
static void map_strings(struct ws_export *export, struct ws_xvector *vector, uint64_t *values,
			size_t n)
{
	uint32_t *d = vector->data;

	for (size_t i = 0; i < n; i++) {
		uint32_t id = (uint32_t)values[i], key;

		if (id && vector->type != WS_XT_BLOB) {
			key = id > export->string_count ? 0
							: ws_report_string_key(export->report, id);
			id = key > export->string_count ? id : key;
		}
		if (id && vector->type == WS_XT_STRING)
			use_string(export, id);
		values[i] = d[i] = id;
	}
}

static void call_cells(struct ws_export *export, const struct ws_xcolumn *column,
		       struct ws_xvector *vector, const uint64_t *const *col, size_t n)
{
	uint64_t row[WS_MAX_COLUMNS] = {0};
	unsigned reads[WS_MAX_COLUMNS], count = 0;
	size_t nulls = 0;

	for (unsigned k = 0; k < WS_MAX_COLUMNS; k++)
		if (column->needs >> k & 1)
			reads[count++] = k;
	vector->valid = vector->bitmap;
	memset(vector->valid, 0, (n + 7) / 8);
	for (size_t i = 0; i < n; i++) {
		struct ws_xcell cell = {0};
		uint64_t bits;

		if (!column->gated || col[column->source][i]) {
			for (unsigned k = 0; k < count; k++)
				row[reads[k]] = col[reads[k]][i];
			cell = column->cell(export, row);
		}
		bits = cell.kind == WS_X_NULL	? 0
		       : cell.kind >= WS_X_TEXT ? cell.id
						: (uint64_t)cell.i;
		if (ws_xtype_width(vector->type) == 8)
			((uint64_t *)vector->data)[i] = bits;
		else
			((uint32_t *)vector->data)[i] = (uint32_t)bits;
		if (cell.kind == WS_X_STRING)
			use_string(export, cell.id);
		vector->valid[i >> 3] |= (uint8_t)((cell.kind != WS_X_NULL) << (i & 7));
		nulls += cell.kind == WS_X_NULL;
	}
	vector->nulls = nulls;
	if (!nulls)
		vector->valid = NULL;
}

/* Wholly null without a look at the rows: most columns of payloads are. */
static bool gate_is_shut(const struct ws_xcolumn *column, const uint64_t *const *col, size_t n)
{
	uint64_t any = 0;

	if (!column->gated)
		return false;
	for (size_t i = 0; i < n; i++)
		any |= col[column->source][i];
	return !any;
}

static void all_null(struct ws_xvector *vector, size_t n)
{
	vector->nulls = n;
	vector->valid = vector->bitmap;
	memset(vector->valid, 0, (n + 7) / 8);
	if (vector->data)
		memset(vector->data, 0, n * ws_xtype_width(vector->type));
}

static void convert(struct ws_export *export, const struct ws_xcolumn *column,
		    struct ws_xvector *vector, uint64_t *const *col, size_t n)
{
	uint64_t *values =
		column->from >= WS_XF_INT && column->from < WS_XF_CALL ? col[column->source] : NULL;

	vector->valid = NULL;
	vector->nulls = 0;
	switch (column->from) {
	case WS_XF_MADE:
	case WS_XF_NULL:
		all_null(vector, n);
		break;
	case WS_XF_CONST:
		for (size_t i = 0; i < n; i++)
			((uint32_t *)vector->data)[i] = (uint32_t)column->value;
		break;
	case WS_XF_INT:
	case WS_XF_UINT:
	case WS_XF_REAL:
		narrow(vector, values, n);
		break;
	case WS_XF_UNLESS:
		narrow(vector, values, n);
		mark_nulls(vector, values, n, column->value);
		break;
	case WS_XF_ID:
		narrow(vector, values, n);
		mark_nulls(vector, values, n, 0);
		break;
	case WS_XF_TIME:
		shift_times(vector, values, n, export->base);
		break;
	case WS_XF_NTIME:
		shift_times(vector, values, n, export->base);
		mark_nulls(vector, values, n, WS_NO_TIME);
		break;
	case WS_XF_THREAD:
	case WS_XF_PROCESS:
		map_who(export, vector, values, n, column->from == WS_XF_THREAD);
		break;
	case WS_XF_BLOB:
	case WS_XF_TEXT:
	case WS_XF_STRING:
	case WS_XF_STRING0:
		map_strings(export, vector, values, n);
		if (column->from != WS_XF_STRING0)
			mark_nulls(vector, values, n, 0);
		if (column->from == WS_XF_BLOB && export->no_blobs)
			all_null(vector, n);
		break;
	case WS_XF_CALL:
		if (gate_is_shut(column, (const uint64_t *const *)col, n))
			all_null(vector, n);
		else
			call_cells(export, column, vector, (const uint64_t *const *)col, n);
		break;
	}
}

/* ---- a run ---- */

struct worker {
	struct ws_xbatch batch;
	size_t room; /* rows */
};

struct run {
	struct ws_export *export;
	const struct ws_xview *views;
	uint64_t wanted;
	const struct ws_xcolumns_user *user;
	struct worker *workers;
	pthread_mutex_t lock;
	pthread_cond_t next;
	size_t turn; /* block that is to be written */
	bool failed;
	uint64_t rows;
	struct ws_err *err;
};

static void make_room(struct run *run, struct worker *worker, size_t rows)
{
	if (rows <= worker->room)
		return;
	for (size_t i = 0; i < run->views->table.column_count; i++) {
		struct ws_xvector *vector = &worker->batch.col[i];

		if (!(run->wanted >> i & 1))
			continue;
		vector->type = ws_xcolumn_type(run->views, &run->views->table.columns[i]);
		vector->data = ws_realloc(vector->data, rows * 8);
		vector->bitmap = ws_realloc(vector->bitmap, (rows + 7) / 8 + 8);
	}
	worker->room = rows;
}

/* Drop rows that are not wanted, in place; returns how many stay. */
static size_t filter(struct run *run, size_t rows, uint64_t *const *col)
{
	uint64_t row[WS_MAX_COLUMNS] = {0};
	size_t n = 0;

	if (!run->views->keep && !(run->export->span_count && run->views->timed))
		return rows;
	for (size_t i = 0; i < rows; i++) {
		for (uint32_t k = 0; k < WS_MAX_COLUMNS; k++)
			if (col[k])
				row[k] = col[k][i];
		if (!ws_xview_keeps(run->export, run->views, row))
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

static int on_block(void *ctx, const struct ws_batch *batch)
{
	struct run *run = ctx;
	struct worker *worker = &run->workers[batch->worker];
	uint64_t *col[WS_MAX_COLUMNS];
	struct ws_err err = {""};
	bool ok = true;

	for (uint32_t k = 0; k < WS_MAX_COLUMNS; k++)
		col[k] = (uint64_t *)batch->col[k]; /* the worker's own buffers: changed in place */
	worker->batch.rows = batch->rows ? filter(run, batch->rows, col) : 0;
	make_room(run, worker, batch->rows);
	for (size_t i = 0; worker->batch.rows && i < run->views->table.column_count; i++)
		if (run->wanted >> i & 1)
			convert(run->export, &run->views->table.columns[i], &worker->batch.col[i],
				col, worker->batch.rows);
	if (worker->batch.rows)
		ok = run->user->make(run->user->ctx, &worker->batch, &err) == 0;
	if (!wait_turn(run, batch->block))
		return done(run, false);
	if (ok && ws_outfile_interrupted())
		ok = ws_fail(&err, "interrupted") == 0;
	if (ok && worker->batch.rows && run->user->put)
		ok = run->user->put(run->user->ctx, &worker->batch, &err) == 0;
	run->rows += worker->batch.rows;
	if (!ok)
		ws_fail(run->err, "%s", err.msg);
	ws_progress_step(run->user->put ? run->export->progress : NULL, batch->rows);
	return done(run, ok);
}

static uint64_t columns_read(const struct run *run)
{
	uint64_t reads = 0;

	for (size_t i = 0; i < run->views->table.column_count; i++)
		if (run->wanted >> i & 1)
			reads |= ws_xcolumn_reads(&run->views->table.columns[i]);
	if (run->views->keep || run->export->span_count) {
		struct ws_xview times = *run->views;

		times.table.column_count = 0;
		reads |= ws_xview_reads(&times);
	}
	return reads;
}

uint32_t ws_xcolumns_workers(void)
{
	struct ws_scan scan = {0};

	return ws_scan_workers(&scan);
}

int ws_xcolumns_run(struct ws_export *export, const struct ws_xview *view, uint64_t wanted,
		    const struct ws_xcolumns_user *user, uint64_t *rows, struct ws_err *err)
{
	struct run run = {.export = export,
			  .views = view,
			  .wanted = wanted,
			  .user = user,
			  .lock = PTHREAD_MUTEX_INITIALIZER,
			  .next = PTHREAD_COND_INITIALIZER,
			  .err = err};
	uint32_t workers = ws_xcolumns_workers();
	struct ws_scan scan = {.table = view->source,
			       .columns = columns_read(&run),
			       .time_max = UINT64_MAX,
			       .empty = true};
	uint64_t damaged = 0;
	int rc;

	run.workers = ws_calloc(workers, sizeof(*run.workers));
	for (uint32_t i = 0; i < workers; i++)
		run.workers[i].batch = (struct ws_xbatch){.view = view, .worker = i};
	export->ids_only = true;
	rc = ws_scan_run(export->report, &scan, on_block, &run, &damaged);
	export->ids_only = false;
	for (uint32_t i = 0; i < workers; i++) {
		for (size_t k = 0; k < WS_MAX_COLUMNS; k++) {
			free(run.workers[i].batch.col[k].data);
			free(run.workers[i].batch.col[k].bitmap);
		}
	}
	free(run.workers);
	if (rows)
		*rows = run.rows;
	if (user->put)
		export->damaged += damaged;
	return rc ? -1 : 0;
}
