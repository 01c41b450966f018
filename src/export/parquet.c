/*
 * parquet.c - a folder with a Parquet file for each table, written by DuckDB's library, which is
 * opened when it is needed.
 *
 * DuckDB pulls: a table function of ours gives it rows, and one COPY ... TO a file runs in a thread
 * of its own. We push: blocks of a view, or rows of a made table, one batch at a time, and wait
 * until it has been taken. So a batch is all that is in memory here, and a row group there. The
 * columns are those of the Arrow export.
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

struct field {
	char *name;
	int type;	/* of DuckDB */
	uint8_t column; /* it is made from */
	bool text;	/* VARCHAR */
};

struct parquet {
	struct ws_xwriter writer;
	struct duckdb duckdb;
	duckdb_handle db, connection;
	const char *path, *name;
	bool append;

	struct field fields[2 * WS_MAX_COLUMNS];
	size_t field_count, column_count;
	struct ws_export *export; /* of a view */

	/* The batch in hand: columns of a view, or cells of a made table. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	const struct ws_xbatch *batch;
	const struct ws_xcell *cells;
	size_t rows, at; /* of it, and how many are taken */
	bool busy, finished, failed;

	bool running; /* a COPY */
	pthread_t thread;
	char *sql, *error;
};

/* ---- the library ---- */

static int bind_functions(struct duckdb *d, struct ws_err *e)
{
#define WS_DUCKDB(result, function, arguments)                                                    \
	*(void **)&d->function = dlsym(d->library, #function);                                    \
	if (!d->function)                                                                         \
		return ws_fail(e, "the DuckDB library has no %s: version 1.0 or newer is needed", \
			       #function);
	WS_DUCKDB_FUNCTIONS(WS_DUCKDB)
#undef WS_DUCKDB
	return 0;
}

static int open_library(struct duckdb *duckdb, struct ws_err *err)
{
	const char *named = getenv("WARPSIGHT_DUCKDB");

	duckdb->library = dlopen(named && *named ? named : "libduckdb.so", RTLD_NOW | RTLD_LOCAL);
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

static int run_sql(struct parquet *parquet, const char *sql, struct ws_err *err)
{
	struct duckdb_result result = {{0}};
	int rc = parquet->duckdb.duckdb_query(parquet->connection, sql, &result);
	const char *why = rc ? parquet->duckdb.duckdb_result_error(&result) : NULL;

	if (rc)
		ws_fail(err, "DuckDB: %s", ws_text_or(why, "it does not say why"));
	parquet->duckdb.duckdb_destroy_result(&result);
	return rc ? -1 : 0;
}

/* ---- what DuckDB calls ---- */

static void on_bind(duckdb_handle info);
static void on_init(duckdb_handle info)
{
	(void)info;
}

/* The library's functions, for callbacks: one is open at a time. */
static struct duckdb *api;

static void on_bind(duckdb_handle info)
{
	struct parquet *parquet = api->duckdb_bind_get_extra_info(info);

	for (size_t i = 0; i < parquet->field_count; i++) {
		duckdb_handle type = api->duckdb_create_logical_type(parquet->fields[i].type);

		api->duckdb_bind_add_result_column(info, parquet->fields[i].name, type);
		api->duckdb_destroy_logical_type(&type);
	}
}

static uint64_t *writable_validity(duckdb_handle vector)
{
	api->duckdb_vector_ensure_validity_writable(vector);
	return api->duckdb_vector_get_validity(vector);
}

static void set_null(uint64_t *validity, size_t row)
{
	validity[row >> 6] &= ~(UINT64_C(1) << (row & 63));
}

static bool is_null(const struct ws_xvector *vector, size_t row)
{
	return vector->valid && !(vector->valid[row >> 3] >> (row & 7) & 1);
}

static void give_text(struct parquet *parquet, duckdb_handle vector,
		      const struct ws_xvector *xvector, size_t from, size_t n)
{
	const uint32_t *ids = xvector->data;
	uint64_t *validity = NULL;

	for (size_t i = 0; i < n; i++) {
		uint32_t id = ids[from + i];
		const char *text;
		size_t len;

		if (is_null(xvector, from + i) || !id) {
			validity = validity ? validity : writable_validity(vector);
			set_null(validity, i);
			continue;
		}
		text = xvector->type == WS_XT_BLOB
			       ? ws_report_string(parquet->export->report, id, &len)
			       : ws_x_bytes(parquet->export, id, &len);
		api->duckdb_vector_assign_string_element_len(vector, i, text, len);
	}
}

static void give_column(struct parquet *parquet, duckdb_handle vector, const struct field *field,
			size_t from, size_t n)
{
	const struct ws_xvector *xvector = &parquet->batch->col[field->column];
	unsigned width = ws_xtype_width(xvector->type);
	uint64_t *validity;

	if (field->text || xvector->type == WS_XT_BLOB) {
		give_text(parquet, vector, xvector, from, n);
		return;
	}
	if (width)
		memcpy(api->duckdb_vector_get_data(vector),
		       (const char *)xvector->data + from * width, n * width);
	if (!xvector->valid)
		return;
	validity = writable_validity(vector);
	for (size_t i = 0; i < n; i++)
		if (is_null(xvector, from + i))
			set_null(validity, i);
}

static void give_cells(struct parquet *parquet, duckdb_handle vector, const struct field *field,
		       size_t from, size_t n)
{
	uint64_t *validity = writable_validity(vector), *data = api->duckdb_vector_get_data(vector);

	for (size_t i = 0; i < n; i++) {
		const struct ws_xcell *cell =
			&parquet->cells[(from + i) * parquet->column_count + field->column];

		if (cell->kind == WS_X_NULL)
			set_null(validity, i);
		else if (field->text || field->type == DUCKDB_BLOB)
			api->duckdb_vector_assign_string_element_len(vector, i, cell->text,
								     cell->n);
		else
			data[i] = cell->kind == WS_X_STRING ? cell->id : (uint64_t)cell->i;
	}
}

/* The next rows, as many as fit a chunk; none at the end. */
static void on_rows(duckdb_handle info, duckdb_handle chunk)
{
	struct parquet *parquet = api->duckdb_function_get_extra_info(info);
	size_t n;

	pthread_mutex_lock(&parquet->lock);
	while (!parquet->busy && !parquet->finished)
		pthread_cond_wait(&parquet->changed, &parquet->lock);
	if (parquet->failed)
		api->duckdb_function_set_error(info, "given up");
	n = parquet->busy ? parquet->rows - parquet->at : 0;
	if (n > api->duckdb_vector_size())
		n = api->duckdb_vector_size();
	for (size_t i = 0; n && i < parquet->field_count; i++) {
		duckdb_handle vector = api->duckdb_data_chunk_get_vector(chunk, i);

		if (parquet->batch)
			give_column(parquet, vector, &parquet->fields[i], parquet->at, n);
		else
			give_cells(parquet, vector, &parquet->fields[i], parquet->at, n);
	}
	parquet->at += n;
	if (parquet->busy && parquet->at == parquet->rows) {
		parquet->busy = false;
		pthread_cond_broadcast(&parquet->changed);
	}
	pthread_mutex_unlock(&parquet->lock);
	api->duckdb_data_chunk_set_size(chunk, n);
}

/* ---- one COPY ---- */

static void *copy(void *arg)
{
	struct parquet *parquet = arg;
	struct ws_err err;

	if (run_sql(parquet, parquet->sql, &err) < 0)
		parquet->error = ws_strdup(err.msg);
	pthread_mutex_lock(&parquet->lock);
	parquet->finished = true; /* nobody takes rows any more */
	pthread_cond_broadcast(&parquet->changed);
	pthread_mutex_unlock(&parquet->lock);
	return NULL;
}

static int start(struct parquet *parquet, const char *table, struct ws_err *err)
{
	struct ws_text sql = {0};

	ws_text_puts(&sql, "COPY (SELECT * FROM warpsight_rows()) TO '");
	for (const char *text = parquet->path; *text; text++)
		ws_text_printf(&sql, *text == '\'' ? "''" : "%c", *text);
	ws_text_printf(&sql, "/%s.parquet' (FORMAT parquet, COMPRESSION zstd)", table);
	parquet->sql = sql.text;
	parquet->busy = parquet->finished = parquet->failed = false;
	parquet->running = !pthread_create(&parquet->thread, NULL, copy, parquet);
	return parquet->running ? 0 : ws_fail(err, "cannot start a thread");
}

/* No more rows: wait for the file. With `give_up`, it is not wanted. */
static int stop(struct parquet *parquet, bool give_up, struct ws_err *err)
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
		rc = give_up ? -1
			     : ws_fail(err, "cannot write %s: %s", parquet->name, parquet->error);
	free(parquet->error);
	parquet->error = NULL;
	return rc;
}

/* Hand over the batch in hand and wait until it is taken. */
static int hand_over(struct parquet *parquet, const struct ws_xbatch *batch,
		     const struct ws_xcell *cells, size_t rows, struct ws_err *err)
{
	bool gone;

	pthread_mutex_lock(&parquet->lock);
	parquet->batch = batch;
	parquet->cells = cells;
	parquet->rows = rows;
	parquet->at = 0;
	parquet->busy = !parquet->finished;
	pthread_cond_broadcast(&parquet->changed);
	while (parquet->busy && !parquet->finished)
		pthread_cond_wait(&parquet->changed, &parquet->lock);
	gone = parquet->busy || parquet->at < rows;
	pthread_mutex_unlock(&parquet->lock);
	if (!gone)
		return 0;
	return stop(parquet, false, err) < 0
		       ? -1
		       : ws_fail(err, "cannot write %s: DuckDB took no more rows", parquet->name);
}

/* ---- tables ---- */

static void clear_fields(struct parquet *parquet)
{
	while (parquet->field_count)
		free(parquet->fields[--parquet->field_count].name);
}

static void add_field(struct parquet *parquet, size_t column, char *name, int type)
{
	parquet->fields[parquet->field_count++] =
		(struct field){name, type, (uint8_t)column, type == DUCKDB_VARCHAR};
}

static int table(struct ws_xwriter *writer, const struct ws_xtable *xtable, struct ws_err *err)
{
	struct parquet *parquet = (struct parquet *)writer;

	if (stop(parquet, false, err) < 0)
		return -1;
	clear_fields(parquet);
	parquet->column_count = xtable->column_count;
	for (size_t i = 0; i < xtable->column_count; i++) {
		const char *type = xtable->columns[i].type;

		add_field(parquet, i, ws_strdup(xtable->columns[i].name),
			  *type == 'R'	 ? DUCKDB_DOUBLE
			  : *type == 'T' ? DUCKDB_VARCHAR
			  : *type == 'B' ? DUCKDB_BLOB
					 : DUCKDB_BIGINT);
	}
	return start(parquet, xtable->name, err);
}

static int rows(struct ws_xwriter *writer, const struct ws_xcell *cells, size_t count,
		struct ws_err *err)
{
	return hand_over((struct parquet *)writer, NULL, cells, count, err);
}

/* ---- views ---- */

static void add_view_field(struct parquet *parquet, const struct ws_xview *view, size_t i)
{
	static const int types[] = {[WS_XT_NULL] = DUCKDB_INTEGER, [WS_XT_U8] = DUCKDB_UTINYINT,
				    [WS_XT_U32] = DUCKDB_UINTEGER, [WS_XT_I32] = DUCKDB_INTEGER,
				    [WS_XT_U64] = DUCKDB_UBIGINT,  [WS_XT_I64] = DUCKDB_BIGINT,
				    [WS_XT_F64] = DUCKDB_DOUBLE,   [WS_XT_STRING] = DUCKDB_UINTEGER,
				    [WS_XT_TEXT] = DUCKDB_VARCHAR, [WS_XT_BLOB] = DUCKDB_BLOB};
	const struct ws_xcolumn *column = &view->table.columns[i];
	enum ws_xtype xtype = ws_xcolumn_type(view, column);

	add_field(parquet, i, ws_strdup(column->name),
		  xtype == WS_XT_NULL && *column->type == 'T' ? DUCKDB_VARCHAR : types[xtype]);
	parquet->fields[parquet->field_count - 1].text = xtype == WS_XT_TEXT;
	if (xtype == WS_XT_STRING)
		add_field(parquet, i, ws_xcolumn_text_name(&view->table, column), DUCKDB_VARCHAR);
}

static int nothing(void *ctx, const struct ws_xbatch *batch, struct ws_err *err)
{
	(void)ctx, (void)batch, (void)err;
	return 0;
}

static int put(void *ctx, const struct ws_xbatch *batch, struct ws_err *err)
{
	struct parquet *parquet = ctx;

	if (!parquet->running && start(parquet, batch->view->table.name, err) < 0)
		return -1;
	return hand_over(parquet, batch, NULL, batch->rows, err);
}

static int view(struct ws_xwriter *writer, struct ws_export *export, const struct ws_xview *xview,
		uint64_t *count, struct ws_err *err)
{
	struct parquet *parquet = (struct parquet *)writer;
	struct ws_xcolumns_user user = {.make = nothing, .put = put, .ctx = parquet};

	if (stop(parquet, false, err) < 0)
		return -1;
	clear_fields(parquet);
	parquet->export = export;
	for (size_t i = 0; i < xview->table.column_count; i++)
		add_view_field(parquet, xview, i);
	if (ws_xcolumns_run(export, xview, UINT64_MAX, &user, count, err) < 0)
		return -1;
	if (!parquet->running && !export->lazy && start(parquet, xview->table.name, err) < 0)
		return -1;
	return stop(parquet, false, err);
}

/* ---- all ---- */

static bool has(struct ws_xwriter *writer, const char *name)
{
	struct parquet *parquet = (struct parquet *)writer;
	char *path = ws_format("%s/%s.parquet", parquet->path, name);
	bool there = parquet->append && !access(path, F_OK);

	free(path);
	return there;
}

static int finish(struct ws_xwriter *writer, bool keep, struct ws_err *err)
{
	struct parquet *parquet = (struct parquet *)writer;
	int rc = stop(parquet, !keep, err);

	clear_fields(parquet);
	if (parquet->connection)
		parquet->duckdb.duckdb_disconnect(&parquet->connection);
	if (parquet->db)
		parquet->duckdb.duckdb_close(&parquet->db);
	pthread_cond_destroy(&parquet->changed);
	pthread_mutex_destroy(&parquet->lock);
	free(parquet); /* the library stays: its threads may still be ending */
	return keep ? rc : 0;
}

static int open_database(struct parquet *parquet, struct ws_err *err)
{
	duckdb_handle f;
	int rc;

	if (open_library(&parquet->duckdb, err) < 0)
		return -1;
	api = &parquet->duckdb;
	if (parquet->duckdb.duckdb_open(NULL, &parquet->db) ||
	    parquet->duckdb.duckdb_connect(parquet->db, &parquet->connection))
		return ws_fail(err, "DuckDB %s cannot be started",
			       parquet->duckdb.duckdb_library_version());
	if (run_sql(parquet,
		    "SET memory_limit = '512MB'; SET threads = 2; SET temp_directory = ''; SET "
		    "autoinstall_known_extensions = false",
		    err) < 0)
		return -1;
	f = parquet->duckdb.duckdb_create_table_function();
	parquet->duckdb.duckdb_table_function_set_name(f, "warpsight_rows");
	parquet->duckdb.duckdb_table_function_set_extra_info(f, parquet, NULL);
	parquet->duckdb.duckdb_table_function_set_bind(f, on_bind);
	parquet->duckdb.duckdb_table_function_set_init(f, on_init);
	parquet->duckdb.duckdb_table_function_set_function(f, on_rows);
	rc = parquet->duckdb.duckdb_register_table_function(parquet->connection, f);
	parquet->duckdb.duckdb_destroy_table_function(&f);
	return rc ? ws_fail(err, "DuckDB %s refuses a table function",
			    parquet->duckdb.duckdb_library_version())
		  : 0;
}

struct ws_xwriter *ws_xformat_open_parquetdir(const struct ws_xtarget *target, struct ws_err *err)
{
	struct parquet *parquet = ws_calloc(1, sizeof(*parquet));

	parquet->writer = (struct ws_xwriter){
		.table = table, .rows = rows, .close = finish, .view = view, .has = has};
	parquet->path = target->path;
	parquet->name = target->name;
	parquet->append = target->append;
	pthread_mutex_init(&parquet->lock, NULL);
	pthread_cond_init(&parquet->changed, NULL);
	if (open_database(parquet, err) < 0) {
		finish(&parquet->writer, false, NULL);
		return NULL;
	}
	return &parquet->writer;
}
