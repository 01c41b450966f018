/*
 * parquet.c - a folder with a Parquet file for each table, written by the DuckDB library, which is
 * opened when it is needed.
 *
 * DuckDB pulls rows: a COPY ... TO a file runs in a thread of its own and calls our table function.
 * We push them, blocks of a view or rows of a made table, one batch at a time, and wait until
 * DuckDB has taken it. So only one batch is in memory here, and one row group there. The columns
 * are those of the Arrow export.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "export/columns.h"
#include "base/choose.h"
#include "export/duckdb_abi.h"
#include "export/formats.h"

struct duckdb {
	void *library;
#define WS_DUCKDB(result, name, arguments) result(*name) arguments;
	WS_DUCKDB_FUNCTIONS(WS_DUCKDB)
#undef WS_DUCKDB
};

struct parquet_field {
	char *name;
	int type;	/* of DuckDB */
	uint8_t column; /* that the field is made from */
	bool text;	/* VARCHAR */
};

struct parquet_writer {
	struct ws_table_writer writer;
	struct duckdb duckdb;
	duckdb_handle database, connection;
	const char *path, *name;
	bool append;

	struct parquet_field fields[2 * WS_MAX_COLUMNS];
	size_t field_count, column_count;
	struct ws_cell_context *export; /* of a view */

	/* The batch being written: columns of a view, or cells of a made table. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	const struct ws_column_batch *batch;
	const struct ws_view_cell *cells;
	size_t rows, rows_taken; /* of it, and how many of them DuckDB has taken */
	bool busy, finished, failed;

	bool running; /* a COPY */
	pthread_t thread;
	char *sql, *error;
};

/* ---- the library ---- */

static int bind_functions(struct duckdb *duckdb, struct ws_err *err)
{
#define WS_DUCKDB(result, function, arguments)                                                 \
	*(void **)&duckdb->function = dlsym(duckdb->library, #function);                       \
	if (!duckdb->function)                                                                 \
		return ws_fail(err,                                                            \
			       "the DuckDB library has no %s: version 1.0 or newer is needed", \
			       #function);
	WS_DUCKDB_FUNCTIONS(WS_DUCKDB)
#undef WS_DUCKDB
	return 0;
}

static int open_duckdb_library(struct duckdb *duckdb, struct ws_err *err)
{
	const char *named = getenv("WARPSIGHT_DUCKDB");

	if (!named || !*named)
		named = "libduckdb.so";
	duckdb->library = dlopen(named, RTLD_NOW | RTLD_LOCAL);
	if (!duckdb->library)
		return ws_fail(err,
			       "parquetdir needs the library of DuckDB (%s). Unpack "
			       "libduckdb-linux-*.zip from a release of "
			       "DuckDB, or the npm "
			       "package @duckdb/node-bindings-linux-x64, and give the path of "
			       "libduckdb.so in WARPSIGHT_DUCKDB; "
			       "arrowdir needs "
			       "nothing",
			       dlerror());
	return bind_functions(duckdb, err);
}

static int run_duckdb_sql(struct parquet_writer *parquet, const char *sql, struct ws_err *err)
{
	struct duckdb_result result = {{0}};
	int rc = parquet->duckdb.duckdb_query(parquet->connection, sql, &result);

	if (rc) {
		const char *reason = parquet->duckdb.duckdb_result_error(&result);

		ws_fail(err, "DuckDB: %s", ws_text_or(reason, "it does not say why"));
	}
	parquet->duckdb.duckdb_destroy_result(&result);
	return -(rc != 0);
}

/* ---- what DuckDB calls ---- */

static void init_scan(duckdb_handle info)
{
	(void)info;
}

/* The library's functions, for callbacks, which get no context; one writer is open at a time. */
static struct duckdb *api;

static void declare_columns(duckdb_handle info)
{
	struct parquet_writer *parquet = api->duckdb_bind_get_extra_info(info);

	for (size_t i = 0; i < parquet->field_count; i++) {
		duckdb_handle type = api->duckdb_create_logical_type(parquet->fields[i].type);

		api->duckdb_bind_add_result_column(info, parquet->fields[i].name, type);
		api->duckdb_destroy_logical_type(&type);
	}
}

static uint64_t *make_validity_writable(duckdb_handle vector)
{
	api->duckdb_vector_ensure_validity_writable(vector);
	return api->duckdb_vector_get_validity(vector);
}

static void set_null(uint64_t *validity, size_t row)
{
	validity[row >> 6] &= ~(UINT64_C(1) << (row & 63));
}

static bool is_null(const struct ws_column_vector *vector, size_t row)
{
	return vector->valid && !(vector->valid[row >> 3] >> (row & 7) & 1);
}

static void give_texts(struct parquet_writer *parquet, duckdb_handle vector,
		       const struct ws_column_vector *xvector, size_t first, size_t rows)
{
	const uint32_t *ids = xvector->data;
	uint64_t *validity = NULL;

	for (size_t i = 0; i < rows; i++) {
		uint32_t id = ids[first + i];
		const char *text;
		size_t length;

		if (is_null(xvector, first + i) || !id) {
			if (!validity)
				validity = make_validity_writable(vector);
			set_null(validity, i);
			continue;
		}
		if (xvector->type == WS_VECTOR_BLOB)
			text = ws_report_string(parquet->export->report, id, &length);
		else
			text = ws_find_valid_text(parquet->export, id, &length);
		api->duckdb_vector_assign_string_element_len(vector, i, text, length);
	}
}

static void give_column(struct parquet_writer *parquet, duckdb_handle vector,
			const struct parquet_field *field, size_t first, size_t rows)
{
	const struct ws_column_vector *xvector = &parquet->batch->columns[field->column];
	unsigned width = ws_find_vector_width(xvector->type);
	uint64_t *validity;

	if (field->text || xvector->type == WS_VECTOR_BLOB) {
		give_texts(parquet, vector, xvector, first, rows);
		return;
	}
	if (width)
		memcpy(api->duckdb_vector_get_data(vector),
		       (const char *)xvector->data + first * width, rows * width);
	if (!xvector->valid)
		return;
	validity = make_validity_writable(vector);
	for (size_t i = 0; i < rows; i++)
		if (is_null(xvector, first + i))
			set_null(validity, i);
}

static void give_cells(struct parquet_writer *parquet, duckdb_handle vector,
		       const struct parquet_field *field, size_t first, size_t rows)
{
	uint64_t *validity = make_validity_writable(vector),
		 *data = api->duckdb_vector_get_data(vector);

	for (size_t i = 0; i < rows; i++) {
		const struct ws_view_cell *cell =
			&parquet->cells[(first + i) * parquet->column_count + field->column];

		if (cell->kind == WS_VIEW_NULL)
			set_null(validity, i);
		else if (field->text || field->type == DUCKDB_BLOB)
			api->duckdb_vector_assign_string_element_len(vector, i, cell->text,
								     cell->n);
		else
			data[i] = ws_get_cell_bits(cell);
	}
}

/* Give DuckDB the next rows, as many as fit into a chunk; none at the end. */
static void give_rows(duckdb_handle info, duckdb_handle chunk)
{
	struct parquet_writer *parquet = api->duckdb_function_get_extra_info(info);
	size_t rows = 0;

	pthread_mutex_lock(&parquet->lock);
	while (!parquet->busy && !parquet->finished)
		pthread_cond_wait(&parquet->changed, &parquet->lock);
	if (parquet->failed)
		api->duckdb_function_set_error(info, "given up");
	if (parquet->busy)
		rows = ws_min(parquet->rows - parquet->rows_taken, api->duckdb_vector_size());
	for (size_t i = 0; rows && i < parquet->field_count; i++) {
		duckdb_handle vector = api->duckdb_data_chunk_get_vector(chunk, i);

		if (parquet->batch)
			give_column(parquet, vector, &parquet->fields[i], parquet->rows_taken,
				    rows);
		else
			give_cells(parquet, vector, &parquet->fields[i], parquet->rows_taken, rows);
	}
	parquet->rows_taken += rows;
	if (parquet->busy && parquet->rows_taken == parquet->rows) {
		parquet->busy = false;
		pthread_cond_broadcast(&parquet->changed);
	}
	pthread_mutex_unlock(&parquet->lock);
	api->duckdb_data_chunk_set_size(chunk, rows);
}

/* ---- one COPY ---- */

static void *run_copy(void *argument)
{
	struct parquet_writer *parquet = argument;
	struct ws_err err;

	if (run_duckdb_sql(parquet, parquet->sql, &err) < 0)
		parquet->error = ws_strdup(err.msg);
	pthread_mutex_lock(&parquet->lock);
	parquet->finished = true; /* DuckDB takes no more rows */
	pthread_cond_broadcast(&parquet->changed);
	pthread_mutex_unlock(&parquet->lock);
	return NULL;
}

static int start_copy(struct parquet_writer *parquet, const char *table, struct ws_err *err)
{
	struct ws_text sql = {0};

	ws_text_puts(&sql, "COPY (SELECT * FROM warpsight_rows()) TO '");
	for (const char *letter = parquet->path; *letter; letter++) {
		if (*letter == '\'')
			ws_text_puts(&sql, "'");
		ws_text_add(&sql, letter, 1);
	}
	ws_text_printf(&sql, "/%s.parquet' (FORMAT parquet, COMPRESSION zstd)", table);
	parquet->sql = sql.text;
	parquet->busy = parquet->finished = parquet->failed = false;
	parquet->running = !pthread_create(&parquet->thread, NULL, run_copy, parquet);
	if (!parquet->running)
		return ws_fail(err, "cannot start a thread");
	return 0;
}

/* Tell DuckDB that there are no more rows, and wait for the file. With `give_up`, the file is not
 * wanted. */
static int finish_copy(struct parquet_writer *parquet, bool give_up, struct ws_err *err)
{
	int rc = 0;

	if (!parquet->running)
		return 0;
	pthread_mutex_lock(&parquet->lock);
	parquet->finished = true;
	parquet->failed = give_up;
	parquet->busy = parquet->busy && !give_up;
	pthread_cond_broadcast(&parquet->changed);
	pthread_mutex_unlock(&parquet->lock);
	pthread_join(parquet->thread, NULL);
	parquet->running = false;
	free(parquet->sql);
	parquet->sql = NULL;
	if (parquet->error)
		rc = -1;
	if (parquet->error && !give_up)
		ws_fail(err, "cannot write %s: %s", parquet->name, parquet->error);
	free(parquet->error);
	parquet->error = NULL;
	return rc;
}

/* Hand over a batch and wait until DuckDB has taken it. */
static int pass_batch(struct parquet_writer *parquet, const struct ws_column_batch *batch,
		      const struct ws_view_cell *cells, size_t rows, struct ws_err *err)
{
	bool gone;

	pthread_mutex_lock(&parquet->lock);
	parquet->batch = batch;
	parquet->cells = cells;
	parquet->rows = rows;
	parquet->rows_taken = 0;
	parquet->busy = !parquet->finished;
	pthread_cond_broadcast(&parquet->changed);
	while (parquet->busy && !parquet->finished)
		pthread_cond_wait(&parquet->changed, &parquet->lock);
	gone = parquet->busy || parquet->rows_taken < rows;
	pthread_mutex_unlock(&parquet->lock);
	if (!gone)
		return 0;
	if (finish_copy(parquet, false, err) < 0)
		return -1;
	return ws_fail(err, "cannot write %s: DuckDB took no more rows", parquet->name);
}

/* ---- tables ---- */

static void clear_parquet_fields(struct parquet_writer *parquet)
{
	while (parquet->field_count)
		free(parquet->fields[--parquet->field_count].name);
}

static void add_parquet_field(struct parquet_writer *parquet, size_t column, char *name, int type)
{
	parquet->fields[parquet->field_count++] =
		(struct parquet_field){name, type, (uint8_t)column, type == DUCKDB_VARCHAR};
}

static int begin_parquet_table(struct ws_table_writer *writer, const struct ws_view_table *xtable,
			       struct ws_err *err)
{
	static const int types[] = {
		[WS_SHAPE_INT] = DUCKDB_BIGINT,	  [WS_SHAPE_UINT] = DUCKDB_BIGINT,
		[WS_SHAPE_REAL] = DUCKDB_DOUBLE,  [WS_SHAPE_STRING] = DUCKDB_BIGINT,
		[WS_SHAPE_TEXT] = DUCKDB_VARCHAR, [WS_SHAPE_BLOB] = DUCKDB_BLOB};
	struct parquet_writer *parquet = (struct parquet_writer *)writer;

	if (finish_copy(parquet, false, err) < 0)
		return -1;
	clear_parquet_fields(parquet);
	parquet->column_count = xtable->column_count;
	for (size_t i = 0; i < xtable->column_count; i++) {
		const struct ws_view_column *column = &xtable->columns[i];

		add_parquet_field(parquet, i, ws_strdup(column->name),
				  types[ws_find_column_shape(column)]);
	}
	return start_copy(parquet, xtable->name, err);
}

static int write_parquet_rows(struct ws_table_writer *writer, const struct ws_view_cell *cells,
			      size_t count, struct ws_err *err)
{
	return pass_batch((struct parquet_writer *)writer, NULL, cells, count, err);
}

/* ---- views ---- */

static void add_parquet_view_field(struct parquet_writer *parquet, const struct ws_table_view *view,
				   size_t i)
{
	static const int types[] = {
		[WS_VECTOR_NULL] = DUCKDB_INTEGER, [WS_VECTOR_U8] = DUCKDB_UTINYINT,
		[WS_VECTOR_U32] = DUCKDB_UINTEGER, [WS_VECTOR_I32] = DUCKDB_INTEGER,
		[WS_VECTOR_U64] = DUCKDB_UBIGINT,  [WS_VECTOR_I64] = DUCKDB_BIGINT,
		[WS_VECTOR_F64] = DUCKDB_DOUBLE,   [WS_VECTOR_STRING] = DUCKDB_UINTEGER,
		[WS_VECTOR_TEXT] = DUCKDB_VARCHAR, [WS_VECTOR_BLOB] = DUCKDB_BLOB};
	const struct ws_view_column *column = &view->table.columns[i];
	enum ws_vector_type column_type = ws_find_vector_type(view, column);
	int type = types[column_type];

	if (column_type == WS_VECTOR_NULL && *column->type == 'T')
		type = DUCKDB_VARCHAR;
	add_parquet_field(parquet, i, ws_strdup(column->name), type);
	parquet->fields[parquet->field_count - 1].text = column_type == WS_VECTOR_TEXT;
	if (column_type == WS_VECTOR_STRING)
		add_parquet_field(parquet, i, ws_make_text_column_name(&view->table, column),
				  DUCKDB_VARCHAR);
}

static int put_parquet_batch(void *context, const struct ws_column_batch *batch, struct ws_err *err)
{
	struct parquet_writer *parquet = context;

	if (!parquet->running && start_copy(parquet, batch->view->table.name, err) < 0)
		return -1;
	return pass_batch(parquet, batch, NULL, batch->rows, err);
}

static int write_parquet_view(struct ws_table_writer *writer, struct ws_cell_context *export,
			      const struct ws_table_view *xview, uint64_t *count,
			      struct ws_err *err)
{
	struct parquet_writer *parquet = (struct parquet_writer *)writer;
	struct ws_column_consumer user = {.put_batch = put_parquet_batch, .context = parquet};

	if (finish_copy(parquet, false, err) < 0)
		return -1;
	clear_parquet_fields(parquet);
	parquet->export = export;
	for (size_t i = 0; i < xview->table.column_count; i++)
		add_parquet_view_field(parquet, xview, i);
	if (ws_scan_columns(export, xview, UINT64_MAX, &user, count, err) < 0)
		return -1;
	if (!parquet->running && !export->lazy && start_copy(parquet, xview->table.name, err) < 0)
		return -1;
	return finish_copy(parquet, false, err);
}

/* ---- opening and closing ---- */

static bool has_parquet_file(struct ws_table_writer *writer, const char *name)
{
	struct parquet_writer *parquet = (struct parquet_writer *)writer;
	char *path = ws_format("%s/%s.parquet", parquet->path, name);
	bool there = parquet->append && !access(path, F_OK);

	free(path);
	return there;
}

static int close_parquet(struct ws_table_writer *writer, bool keep, struct ws_err *err)
{
	struct parquet_writer *parquet = (struct parquet_writer *)writer;
	int rc = finish_copy(parquet, !keep, err);

	clear_parquet_fields(parquet);
	if (parquet->connection)
		parquet->duckdb.duckdb_disconnect(&parquet->connection);
	if (parquet->database)
		parquet->duckdb.duckdb_close(&parquet->database);
	pthread_cond_destroy(&parquet->changed);
	pthread_mutex_destroy(&parquet->lock);
	free(parquet); /* the library stays: its threads may still be ending */
	if (!keep)
		return 0;
	return rc;
}

static int open_database(struct parquet_writer *parquet, struct ws_err *err)
{
	duckdb_handle function;
	int rc;

	if (open_duckdb_library(&parquet->duckdb, err) < 0)
		return -1;
	api = &parquet->duckdb;
	if (parquet->duckdb.duckdb_open(NULL, &parquet->database) ||
	    parquet->duckdb.duckdb_connect(parquet->database, &parquet->connection))
		return ws_fail(err, "DuckDB %s cannot be started",
			       parquet->duckdb.duckdb_library_version());
	if (run_duckdb_sql(
		    parquet,
		    "SET memory_limit = '512MB'; SET threads = 2; SET temp_directory = ''; SET "
		    "autoinstall_known_extensions = false",
		    err) < 0)
		return -1;
	function = parquet->duckdb.duckdb_create_table_function();
	parquet->duckdb.duckdb_table_function_set_name(function, "warpsight_rows");
	parquet->duckdb.duckdb_table_function_set_extra_info(function, parquet, NULL);
	parquet->duckdb.duckdb_table_function_set_bind(function, declare_columns);
	parquet->duckdb.duckdb_table_function_set_init(function, init_scan);
	parquet->duckdb.duckdb_table_function_set_function(function, give_rows);
	rc = parquet->duckdb.duckdb_register_table_function(parquet->connection, function);
	parquet->duckdb.duckdb_destroy_table_function(&function);
	if (rc)
		return ws_fail(err, "DuckDB %s refuses a table function",
			       parquet->duckdb.duckdb_library_version());
	return 0;
}

struct ws_table_writer *ws_open_format_parquetdir(const struct ws_export_target *target,
						  struct ws_err *err)
{
	struct parquet_writer *parquet = ws_calloc(1, sizeof(*parquet));

	parquet->writer = (struct ws_table_writer){.begin_table = begin_parquet_table,
						   .write_rows = write_parquet_rows,
						   .close_writer = close_parquet,
						   .write_view = write_parquet_view,
						   .has_table = has_parquet_file};
	parquet->path = target->path;
	parquet->name = target->name;
	parquet->append = target->append;
	pthread_mutex_init(&parquet->lock, NULL);
	pthread_cond_init(&parquet->changed, NULL);
	if (open_database(parquet, err) < 0) {
		close_parquet(&parquet->writer, false, NULL);
		return NULL;
	}
	return &parquet->writer;
}
