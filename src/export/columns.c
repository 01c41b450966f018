/*
 * columns.c - see columns.h.
 *
 * A worker takes a block from the scan, drops the rows that --times or the view leave out, converts
 * column after column in tight loops, lets the format make its bytes, and then waits until all
 * blocks before its own are written. So the output does not depend on the number of threads, and
 * only as many blocks are in memory as there are workers.
 */
#include "export/columns.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "text/output_file.h"
#include "text/progress.h"

/* ---- types ---- */

static enum ws_vector_type choose_stored_type(const struct ws_table_view *view,
					      const struct ws_view_column *column)
{
	switch (ws_tables[view->source].columns[column->source].type) {
	case WS_T_U8:
		return WS_VECTOR_U8;
	case WS_T_I32:
		return WS_VECTOR_I32;
	case WS_T_I64:
		return WS_VECTOR_I64;
	case WS_T_U64:
	case WS_T_NU64:
		return WS_VECTOR_U64;
	case WS_T_F64:
		return WS_VECTOR_F64;
	default:
		return WS_VECTOR_U32;
	}
}

static enum ws_vector_type choose_shaped_type(enum ws_cell_shape shape)
{
	static const enum ws_vector_type types[] = {
		[WS_SHAPE_INT] = WS_VECTOR_I64,	  [WS_SHAPE_UINT] = WS_VECTOR_U64,
		[WS_SHAPE_REAL] = WS_VECTOR_F64,  [WS_SHAPE_STRING] = WS_VECTOR_STRING,
		[WS_SHAPE_TEXT] = WS_VECTOR_TEXT, [WS_SHAPE_BLOB] = WS_VECTOR_BLOB};

	return types[shape];
}

enum ws_vector_type ws_find_vector_type(const struct ws_table_view *view,
					const struct ws_view_column *column)
{
	switch (column->from) {
	case WS_FROM_ROWS:
	case WS_FROM_NULL:
		return WS_VECTOR_NULL;
	case WS_FROM_INT:
	case WS_FROM_UINT:
	case WS_FROM_REAL:
	case WS_FROM_UINT_UNLESS:
	case WS_FROM_ID:
		return choose_stored_type(view, column);
	case WS_FROM_FUNCTION:
		return choose_shaped_type(column->shape);
	case WS_FROM_CONST:
		return WS_VECTOR_I32;
	case WS_FROM_STRING:
	case WS_FROM_STRING_OR_ZERO:
		return WS_VECTOR_STRING;
	case WS_FROM_TEXT:
		return WS_VECTOR_TEXT;
	case WS_FROM_BLOB:
		return WS_VECTOR_BLOB;
	default:
		return WS_VECTOR_I64;
	}
}

unsigned ws_find_vector_width(enum ws_vector_type type)
{
	static const unsigned widths[] = {
		[WS_VECTOR_NULL] = 0, [WS_VECTOR_U8] = 1,     [WS_VECTOR_U32] = 4,
		[WS_VECTOR_I32] = 4,  [WS_VECTOR_U64] = 8,    [WS_VECTOR_I64] = 8,
		[WS_VECTOR_F64] = 8,  [WS_VECTOR_STRING] = 4, [WS_VECTOR_TEXT] = 4,
		[WS_VECTOR_BLOB] = 4};

	return widths[type];
}

static bool is_column_name(const struct ws_view_table *table, const char *name)
{
	for (size_t i = 0; i < table->column_count; i++)
		if (!strcmp(table->columns[i].name, name))
			return true;
	return false;
}

char *ws_make_text_column_name(const struct ws_view_table *table,
			       const struct ws_view_column *column)
{
	size_t length = strlen(column->name);
	char *name;

	if (length > 2 && !strcmp(column->name + length - 2, "Id")) {
		name = ws_strndup(column->name, length - 2);
		if (!is_column_name(table, name))
			return name;
		free(name);
	}
	return ws_format("%sValue", column->name);
}

/* ---- one column ---- */

static void narrow_values(struct ws_column_vector *vector, const uint64_t *values, size_t rows)
{
	uint32_t *words = vector->data;
	uint8_t *bytes = vector->data;

	switch (ws_find_vector_width(vector->type)) {
	case 8:
		memcpy(vector->data, values, rows * 8);
		break;
	case 4:
		for (size_t i = 0; i < rows; i++)
			words[i] = (uint32_t)values[i];
		break;
	default:
		for (size_t i = 0; i < rows; i++)
			bytes[i] = (uint8_t)values[i];
	}
}

/* Mark rows as null where the value is `none`. */
static void mark_nulls(struct ws_column_vector *vector, const uint64_t *values, size_t rows,
		       uint64_t none)
{
	size_t nulls = 0;

	for (size_t i = 0; i < rows; i++)
		nulls += values[i] == none;
	vector->nulls = nulls;
	if (!nulls)
		return;
	vector->valid = vector->bitmap;
	memset(vector->valid, 0, (rows + 7) / 8);
	for (size_t i = 0; nulls < rows && i < rows; i++)
		vector->valid[i >> 3] |= (uint8_t)((values[i] != none) << (i & 7));
}

static void shift_times(struct ws_column_vector *vector, const uint64_t *values, size_t rows,
			uint64_t base)
{
	uint64_t *times = vector->data;

	for (size_t i = 0; i < rows; i++)
		times[i] = values[i] - base;
}

static uint64_t find_global_number(const struct ws_cell_context *export, uint32_t id, bool thread)
{
	if (thread)
		return ws_find_thread(export->who, id)->global_tid;
	return ws_find_process(export->who, id)->global_pid;
}

static void map_global_numbers(struct ws_cell_context *export, struct ws_column_vector *vector,
			       const uint64_t *values, size_t rows, bool threads)
{
	uint64_t *numbers = vector->data, last = UINT64_MAX, global = 0;

	for (size_t i = 0; i < rows; i++) {
		if (values[i] != last) {
			last = values[i];
			global = find_global_number(export, (uint32_t)last, threads);
		}
		numbers[i] = global;
	}
	mark_nulls(vector, values, rows, 0);
}

/* Remember that StringIds needs the text. Several threads call this; nearly all texts have been
 * marked before, and then nothing is written. */
static void mark_string_used(struct ws_cell_context *export, uint32_t id)
{
	if (id <= export->string_count &&
	    !(__atomic_load_n(&export->strings[id], __ATOMIC_RELAXED) & WS_STRING_USED))
		__atomic_fetch_or(&export->strings[id], WS_STRING_USED, __ATOMIC_RELAXED);
}

/* The id that stands for all equal texts; 0 when the report does not define `id`. */
static inline uint32_t find_canonical_id(const struct ws_cell_context *export, uint32_t id)
{
	uint32_t key;

	if (id > export->string_count)
		return 0;
	key = ws_report_string_key(export->report, id);
	if (key > export->string_count)
		return id;
	return key;
}

/* Texts that the report does not define become 0, as in ws_make_string_cell. */
static void map_strings(struct ws_cell_context *export, struct ws_column_vector *vector,
			uint64_t *values, size_t rows)
{
	uint32_t *ids = vector->data;

	for (size_t i = 0; i < rows; i++) {
		uint32_t id = (uint32_t)values[i];

		if (id && vector->type != WS_VECTOR_BLOB)
			id = find_canonical_id(export, id);
		if (id && vector->type == WS_VECTOR_STRING)
			mark_string_used(export, id);
		values[i] = ids[i] = id;
	}
}

static void make_column_cells(struct ws_cell_context *export, const struct ws_view_column *column,
			      struct ws_column_vector *vector, const uint64_t *const *columns,
			      size_t rows)
{
	uint64_t row[WS_MAX_COLUMNS] = {0};
	unsigned reads[WS_MAX_COLUMNS], count = 0;
	size_t nulls = 0;

	for (unsigned k = 0; k < WS_MAX_COLUMNS; k++)
		if (column->needs >> k & 1)
			reads[count++] = k;
	vector->valid = vector->bitmap;
	memset(vector->valid, 0, (rows + 7) / 8);
	for (size_t i = 0; i < rows; i++) {
		struct ws_view_cell cell = {0};
		uint64_t bits;

		if (!column->gated || columns[column->source][i]) {
			for (unsigned k = 0; k < count; k++)
				row[reads[k]] = columns[reads[k]][i];
			cell = column->cell(export, row);
		}
		bits = ws_get_cell_bits(&cell);
		if (ws_find_vector_width(vector->type) == 8)
			((uint64_t *)vector->data)[i] = bits;
		else
			((uint32_t *)vector->data)[i] = (uint32_t)bits;
		if (cell.kind == WS_VIEW_STRING)
			mark_string_used(export, cell.id);
		vector->valid[i >> 3] |= (uint8_t)((cell.kind != WS_VIEW_NULL) << (i & 7));
		nulls += cell.kind == WS_VIEW_NULL;
	}
	vector->nulls = nulls;
	if (!nulls)
		vector->valid = NULL;
}

/* Whether all rows are null, found without making cells: this is so for most columns of payloads.
 * */
static bool is_gate_closed(const struct ws_view_column *column, const uint64_t *const *columns,
			   size_t rows)
{
	uint64_t any = 0;

	if (!column->gated)
		return false;
	for (size_t i = 0; i < rows; i++)
		any |= columns[column->source][i];
	return !any;
}

static void set_all_null(struct ws_column_vector *vector, size_t rows)
{
	vector->nulls = rows;
	vector->valid = vector->bitmap;
	memset(vector->valid, 0, (rows + 7) / 8);
	if (vector->data)
		memset(vector->data, 0, rows * ws_find_vector_width(vector->type));
}

static void convert_column(struct ws_cell_context *export, const struct ws_view_column *column,
			   struct ws_column_vector *vector, uint64_t *const *columns, size_t rows)
{
	uint64_t *values = NULL;

	if (column->from >= WS_FROM_INT && column->from < WS_FROM_FUNCTION)
		values = columns[column->source];
	vector->valid = NULL;
	vector->nulls = 0;
	switch (column->from) {
	case WS_FROM_ROWS:
	case WS_FROM_NULL:
		set_all_null(vector, rows);
		break;
	case WS_FROM_CONST:
		for (size_t i = 0; i < rows; i++)
			((uint32_t *)vector->data)[i] = (uint32_t)column->value;
		break;
	case WS_FROM_INT:
	case WS_FROM_UINT:
	case WS_FROM_REAL:
		narrow_values(vector, values, rows);
		break;
	case WS_FROM_UINT_UNLESS:
		narrow_values(vector, values, rows);
		mark_nulls(vector, values, rows, column->value);
		break;
	case WS_FROM_ID:
		narrow_values(vector, values, rows);
		mark_nulls(vector, values, rows, 0);
		break;
	case WS_FROM_TIME:
		shift_times(vector, values, rows, export->base);
		break;
	case WS_FROM_TIME_OR_NULL:
		shift_times(vector, values, rows, export->base);
		mark_nulls(vector, values, rows, WS_NO_TIME);
		break;
	case WS_FROM_THREAD:
	case WS_FROM_PROCESS:
		map_global_numbers(export, vector, values, rows, column->from == WS_FROM_THREAD);
		break;
	case WS_FROM_BLOB:
	case WS_FROM_TEXT:
	case WS_FROM_STRING:
	case WS_FROM_STRING_OR_ZERO:
		map_strings(export, vector, values, rows);
		if (column->from != WS_FROM_STRING_OR_ZERO)
			mark_nulls(vector, values, rows, 0);
		if (column->from == WS_FROM_BLOB && export->no_blobs)
			set_all_null(vector, rows);
		break;
	case WS_FROM_FUNCTION:
		if (is_gate_closed(column, (const uint64_t *const *)columns, rows))
			set_all_null(vector, rows);
		else
			make_column_cells(export, column, vector, (const uint64_t *const *)columns,
					  rows);
		break;
	}
}

/* ---- going through a view ---- */

struct scan_worker {
	struct ws_column_batch batch;
	size_t capacity; /* rows */
};

struct view_scan {
	struct ws_cell_context *export;
	const struct ws_table_view *view;
	uint64_t wanted;
	const struct ws_column_consumer *user;
	struct scan_worker *workers;
	pthread_mutex_t lock;
	pthread_cond_t next;
	size_t turn; /* block that is to be written */
	bool failed;
	uint64_t rows;
	struct ws_err *err;
};

static void reserve_rows(struct view_scan *run, struct scan_worker *worker, size_t rows)
{
	if (rows <= worker->capacity)
		return;
	for (size_t i = 0; i < run->view->table.column_count; i++) {
		struct ws_column_vector *vector = &worker->batch.columns[i];

		if (!(run->wanted >> i & 1))
			continue;
		vector->type = ws_find_vector_type(run->view, &run->view->table.columns[i]);
		vector->data = ws_realloc(vector->data, rows * 8);
		vector->bitmap = ws_realloc(vector->bitmap, (rows + 7) / 8 + 8);
	}
	worker->capacity = rows;
}

/* Drop rows that are not wanted, in place; returns how many stay. */
static size_t filter_rows(struct view_scan *run, size_t rows, uint64_t *const *columns)
{
	uint64_t row[WS_MAX_COLUMNS] = {0};
	size_t kept = 0;

	if (!run->view->keeps_row && !(run->export->span_count && run->view->timed))
		return rows;
	for (size_t i = 0; i < rows; i++) {
		for (uint32_t k = 0; k < WS_MAX_COLUMNS; k++)
			if (columns[k])
				row[k] = columns[k][i];
		if (!ws_keeps_view_row(run->export, run->view, row))
			continue;
		for (uint32_t k = 0; k < WS_MAX_COLUMNS; k++)
			if (columns[k])
				columns[k][kept] = columns[k][i];
		kept++;
	}
	return kept;
}

/* Wait for the blocks before this one; false when one of them failed. Returns with the lock held.
 */
static bool wait_for_turn(struct view_scan *run, size_t block)
{
	pthread_mutex_lock(&run->lock);
	while (run->turn != block && !run->failed)
		pthread_cond_wait(&run->next, &run->lock);
	return !run->failed;
}

/* Let the worker of the next block continue, and unlock. */
static int finish_block(struct view_scan *run, bool ok)
{
	run->failed |= !ok;
	run->turn++;
	pthread_cond_broadcast(&run->next);
	pthread_mutex_unlock(&run->lock);
	return -!ok;
}

static int convert_block(void *context, const struct ws_batch *batch)
{
	struct view_scan *run = context;
	struct scan_worker *worker = &run->workers[batch->worker];
	uint64_t *columns[WS_MAX_COLUMNS];
	struct ws_err err = {""};
	bool ok = true;

	for (uint32_t k = 0; k < WS_MAX_COLUMNS; k++)
		columns[k] =
			(uint64_t *)batch->col[k]; /* the worker's own buffers: changed in place */
	worker->batch.rows = filter_rows(run, batch->rows, columns);
	reserve_rows(run, worker, batch->rows);
	for (size_t i = 0; worker->batch.rows && i < run->view->table.column_count; i++)
		if (run->wanted >> i & 1)
			convert_column(run->export, &run->view->table.columns[i],
				       &worker->batch.columns[i], columns, worker->batch.rows);
	if (worker->batch.rows && run->user->make_batch)
		ok = run->user->make_batch(run->user->context, &worker->batch, &err) == 0;
	if (!wait_for_turn(run, batch->block))
		return finish_block(run, false);
	if (ok && ws_is_interrupted())
		ok = ws_fail(&err, "interrupted") == 0;
	if (ok && worker->batch.rows && run->user->put_batch)
		ok = run->user->put_batch(run->user->context, &worker->batch, &err) == 0;
	run->rows += worker->batch.rows;
	if (!ok)
		ws_fail(run->err, "%s", err.msg);
	if (run->user->put_batch)
		ws_step_progress(run->export->progress, batch->rows);
	return finish_block(run, ok);
}

static uint64_t find_columns_read(const struct view_scan *run)
{
	uint64_t reads = 0;

	for (size_t i = 0; i < run->view->table.column_count; i++)
		if (run->wanted >> i & 1)
			reads |= ws_find_column_reads(&run->view->table.columns[i]);
	if (run->view->keeps_row || run->export->span_count) {
		struct ws_table_view times = *run->view;

		times.table.column_count = 0;
		reads |= ws_find_view_reads(&times);
	}
	return reads;
}

uint32_t ws_count_column_workers(void)
{
	struct ws_scan scan = {0};

	return ws_count_scan_workers(&scan);
}

int ws_scan_columns(struct ws_cell_context *export, const struct ws_table_view *view,
		    uint64_t wanted, const struct ws_column_consumer *user, uint64_t *rows,
		    struct ws_err *err)
{
	struct view_scan run = {.export = export,
				.view = view,
				.wanted = wanted,
				.user = user,
				.lock = PTHREAD_MUTEX_INITIALIZER,
				.next = PTHREAD_COND_INITIALIZER,
				.err = err};
	uint32_t workers = ws_count_column_workers();
	struct ws_scan scan = {.table = view->source,
			       .columns = find_columns_read(&run),
			       .time_max = UINT64_MAX,
			       .empty = true};
	uint64_t damaged = 0;
	int rc;

	run.workers = ws_calloc(workers, sizeof(*run.workers));
	for (uint32_t i = 0; i < workers; i++)
		run.workers[i].batch = (struct ws_column_batch){.view = view, .worker = i};
	export->ids_only = true;
	rc = ws_run_scan(export->report, &scan, convert_block, &run, &damaged);
	export->ids_only = false;
	for (uint32_t i = 0; i < workers; i++) {
		for (size_t k = 0; k < WS_MAX_COLUMNS; k++) {
			free(run.workers[i].batch.columns[k].data);
			free(run.workers[i].batch.columns[k].bitmap);
		}
	}
	free(run.workers);
	if (rows)
		*rows = run.rows;
	if (user->put_batch)
		export->damaged += damaged;
	return -(rc != 0);
}
