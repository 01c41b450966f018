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
	struct ws_xwriter w;
	struct duckdb d;
	duckdb_handle db, connection;
	const char *path, *name;
	bool append;

	struct field fields[2 * WS_MAX_COLUMNS];
	size_t field_count, column_count;
	struct ws_export *x; /* of a view */

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

static int open_library(struct duckdb *d, struct ws_err *e)
{
	const char *named = getenv("WARPSIGHT_DUCKDB");

	d->library = dlopen(named && *named ? named : "libduckdb.so", RTLD_NOW | RTLD_LOCAL);
	if (!d->library)
		return ws_fail(e,
			       "parquetdir needs the library of DuckDB (%s). Unpack "
			       "libduckdb-linux-*.zip from a release of "
			       "DuckDB, or the npm "
			       "package @duckdb/node-bindings-linux-x64, and give the path of "
			       "libduckdb.so in WARPSIGHT_DUCKDB; "
			       "arrowdir needs "
			       "nothing",
			       dlerror());
	return bind_functions(d, e);
}

static int run_sql(struct parquet *p, const char *sql, struct ws_err *e)
{
	struct duckdb_result r = {{0}};
	int rc = p->d.duckdb_query(p->connection, sql, &r);
	const char *why = rc ? p->d.duckdb_result_error(&r) : NULL;

	if (rc)
		ws_fail(e, "DuckDB: %s", why ? why : "it does not say why");
	p->d.duckdb_destroy_result(&r);
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
	struct parquet *p = api->duckdb_bind_get_extra_info(info);

	for (size_t i = 0; i < p->field_count; i++) {
		duckdb_handle type = api->duckdb_create_logical_type(p->fields[i].type);

		api->duckdb_bind_add_result_column(info, p->fields[i].name, type);
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

static bool is_null(const struct ws_xvector *v, size_t row)
{
	return v->valid && !(v->valid[row >> 3] >> (row & 7) & 1);
}

static void give_text(struct parquet *p, duckdb_handle vector, const struct ws_xvector *v,
		      size_t from, size_t n)
{
	const uint32_t *ids = v->data;
	uint64_t *validity = NULL;

	for (size_t i = 0; i < n; i++) {
		uint32_t id = ids[from + i];
		const char *s;
		size_t len;

		if (is_null(v, from + i) || !id) {
			validity = validity ? validity : writable_validity(vector);
			set_null(validity, i);
			continue;
		}
		s = v->type == WS_XT_BLOB ? ws_report_string(p->x->r, id, &len)
					  : ws_x_bytes(p->x, id, &len);
		api->duckdb_vector_assign_string_element_len(vector, i, s, len);
	}
}

static void give_column(struct parquet *p, duckdb_handle vector, const struct field *f, size_t from,
			size_t n)
{
	const struct ws_xvector *v = &p->batch->col[f->column];
	unsigned width = ws_xtype_width(v->type);
	uint64_t *validity;

	if (f->text || v->type == WS_XT_BLOB) {
		give_text(p, vector, v, from, n);
		return;
	}
	if (width)
		memcpy(api->duckdb_vector_get_data(vector), (const char *)v->data + from * width,
		       n * width);
	if (!v->valid)
		return;
	validity = writable_validity(vector);
	for (size_t i = 0; i < n; i++)
		if (is_null(v, from + i))
			set_null(validity, i);
}

static void give_cells(struct parquet *p, duckdb_handle vector, const struct field *f, size_t from,
		       size_t n)
{
	uint64_t *validity = writable_validity(vector), *data = api->duckdb_vector_get_data(vector);

	for (size_t i = 0; i < n; i++) {
		const struct ws_xcell *c = &p->cells[(from + i) * p->column_count + f->column];

		if (c->kind == WS_X_NULL)
			set_null(validity, i);
		else if (f->text || f->type == DUCKDB_BLOB)
			api->duckdb_vector_assign_string_element_len(vector, i, c->s, c->n);
		else
			data[i] = c->kind == WS_X_STRING ? c->id : (uint64_t)c->i;
	}
}

/* The next rows, as many as fit a chunk; none at the end. */
static void on_rows(duckdb_handle info, duckdb_handle chunk)
{
	struct parquet *p = api->duckdb_function_get_extra_info(info);
	size_t n;

	pthread_mutex_lock(&p->lock);
	while (!p->busy && !p->finished)
		pthread_cond_wait(&p->changed, &p->lock);
	if (p->failed)
		api->duckdb_function_set_error(info, "given up");
	n = p->busy ? p->rows - p->at : 0;
	if (n > api->duckdb_vector_size())
		n = api->duckdb_vector_size();
	for (size_t i = 0; n && i < p->field_count; i++) {
		duckdb_handle vector = api->duckdb_data_chunk_get_vector(chunk, i);

		if (p->batch)
			give_column(p, vector, &p->fields[i], p->at, n);
		else
			give_cells(p, vector, &p->fields[i], p->at, n);
	}
	p->at += n;
	if (p->busy && p->at == p->rows) {
		p->busy = false;
		pthread_cond_broadcast(&p->changed);
	}
	pthread_mutex_unlock(&p->lock);
	api->duckdb_data_chunk_set_size(chunk, n);
}

/* ---- one COPY ---- */

static void *copy(void *arg)
{
	struct parquet *p = arg;
	struct ws_err e;

	if (run_sql(p, p->sql, &e) < 0)
		p->error = ws_strdup(e.msg);
	pthread_mutex_lock(&p->lock);
	p->finished = true; /* nobody takes rows any more */
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

static int start(struct parquet *p, const char *table, struct ws_err *e)
{
	struct ws_text sql = {0};

	ws_text_puts(&sql, "COPY (SELECT * FROM warpsight_rows()) TO '");
	for (const char *s = p->path; *s; s++)
		ws_text_printf(&sql, *s == '\'' ? "''" : "%c", *s);
	ws_text_printf(&sql, "/%s.parquet' (FORMAT parquet, COMPRESSION zstd)", table);
	p->sql = sql.s;
	p->busy = p->finished = p->failed = false;
	p->running = !pthread_create(&p->thread, NULL, copy, p);
	return p->running ? 0 : ws_fail(e, "cannot start a thread");
}

/* No more rows: wait for the file. With `give_up`, it is not wanted. */
static int stop(struct parquet *p, bool give_up, struct ws_err *e)
{
	int rc = 0;

	if (!p->running)
		return 0;
	pthread_mutex_lock(&p->lock);
	p->finished = true;
	p->failed = give_up;
	p->busy = p->busy && !give_up;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->thread, NULL);
	p->running = false;
	free(p->sql);
	p->sql = NULL;
	if (p->error)
		rc = give_up ? -1 : ws_fail(e, "cannot write %s: %s", p->name, p->error);
	free(p->error);
	p->error = NULL;
	return rc;
}

/* Hand over the batch in hand and wait until it is taken. */
static int hand_over(struct parquet *p, const struct ws_xbatch *batch, const struct ws_xcell *cells,
		     size_t rows, struct ws_err *e)
{
	bool gone;

	pthread_mutex_lock(&p->lock);
	p->batch = batch;
	p->cells = cells;
	p->rows = rows;
	p->at = 0;
	p->busy = !p->finished;
	pthread_cond_broadcast(&p->changed);
	while (p->busy && !p->finished)
		pthread_cond_wait(&p->changed, &p->lock);
	gone = p->busy || p->at < rows;
	pthread_mutex_unlock(&p->lock);
	if (!gone)
		return 0;
	return stop(p, false, e) < 0
		       ? -1
		       : ws_fail(e, "cannot write %s: DuckDB took no more rows", p->name);
}

/* ---- tables ---- */

static void clear_fields(struct parquet *p)
{
	while (p->field_count)
		free(p->fields[--p->field_count].name);
}

static void add_field(struct parquet *p, size_t column, char *name, int type)
{
	p->fields[p->field_count++] =
		(struct field){name, type, (uint8_t)column, type == DUCKDB_VARCHAR};
}

static int table(struct ws_xwriter *w, const struct ws_xtable *t, struct ws_err *e)
{
	struct parquet *p = (struct parquet *)w;

	if (stop(p, false, e) < 0)
		return -1;
	clear_fields(p);
	p->column_count = t->column_count;
	for (size_t i = 0; i < t->column_count; i++) {
		const char *type = t->columns[i].type;

		add_field(p, i, ws_strdup(t->columns[i].name),
			  *type == 'R'	 ? DUCKDB_DOUBLE
			  : *type == 'T' ? DUCKDB_VARCHAR
			  : *type == 'B' ? DUCKDB_BLOB
					 : DUCKDB_BIGINT);
	}
	return start(p, t->name, e);
}

static int rows(struct ws_xwriter *w, const struct ws_xcell *cells, size_t count, struct ws_err *e)
{
	return hand_over((struct parquet *)w, NULL, cells, count, e);
}

/* ---- views ---- */

static void add_view_field(struct parquet *p, const struct ws_xview *v, size_t i)
{
	static const int types[] = {[WS_XT_NULL] = DUCKDB_INTEGER, [WS_XT_U8] = DUCKDB_UTINYINT,
				    [WS_XT_U32] = DUCKDB_UINTEGER, [WS_XT_I32] = DUCKDB_INTEGER,
				    [WS_XT_U64] = DUCKDB_UBIGINT,  [WS_XT_I64] = DUCKDB_BIGINT,
				    [WS_XT_F64] = DUCKDB_DOUBLE,   [WS_XT_STRING] = DUCKDB_UINTEGER,
				    [WS_XT_TEXT] = DUCKDB_VARCHAR, [WS_XT_BLOB] = DUCKDB_BLOB};
	const struct ws_xcolumn *c = &v->t.columns[i];
	enum ws_xtype t = ws_xcolumn_type(v, c);

	add_field(p, i, ws_strdup(c->name),
		  t == WS_XT_NULL && *c->type == 'T' ? DUCKDB_VARCHAR : types[t]);
	p->fields[p->field_count - 1].text = t == WS_XT_TEXT;
	if (t == WS_XT_STRING)
		add_field(p, i, ws_xcolumn_text_name(&v->t, c), DUCKDB_VARCHAR);
}

static int nothing(void *ctx, const struct ws_xbatch *b, struct ws_err *e)
{
	(void)ctx, (void)b, (void)e;
	return 0;
}

static int put(void *ctx, const struct ws_xbatch *b, struct ws_err *e)
{
	struct parquet *p = ctx;

	if (!p->running && start(p, b->view->t.name, e) < 0)
		return -1;
	return hand_over(p, b, NULL, b->rows, e);
}

static int view(struct ws_xwriter *w, struct ws_export *x, const struct ws_xview *v,
		uint64_t *count, struct ws_err *e)
{
	struct parquet *p = (struct parquet *)w;
	struct ws_xcolumns_user u = {.make = nothing, .put = put, .ctx = p};

	if (stop(p, false, e) < 0)
		return -1;
	clear_fields(p);
	p->x = x;
	for (size_t i = 0; i < v->t.column_count; i++)
		add_view_field(p, v, i);
	if (ws_xcolumns_run(x, v, UINT64_MAX, &u, count, e) < 0)
		return -1;
	if (!p->running && !x->lazy && start(p, v->t.name, e) < 0)
		return -1;
	return stop(p, false, e);
}

/* ---- all ---- */

static bool has(struct ws_xwriter *w, const char *name)
{
	struct parquet *p = (struct parquet *)w;
	char *path = ws_format("%s/%s.parquet", p->path, name);
	bool there = p->append && !access(path, F_OK);

	free(path);
	return there;
}

static int finish(struct ws_xwriter *w, bool keep, struct ws_err *e)
{
	struct parquet *p = (struct parquet *)w;
	int rc = stop(p, !keep, e);

	clear_fields(p);
	if (p->connection)
		p->d.duckdb_disconnect(&p->connection);
	if (p->db)
		p->d.duckdb_close(&p->db);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
	free(p); /* the library stays: its threads may still be ending */
	return keep ? rc : 0;
}

static int open_database(struct parquet *p, struct ws_err *e)
{
	duckdb_handle f;
	int rc;

	if (open_library(&p->d, e) < 0)
		return -1;
	api = &p->d;
	if (p->d.duckdb_open(NULL, &p->db) || p->d.duckdb_connect(p->db, &p->connection))
		return ws_fail(e, "DuckDB %s cannot be started", p->d.duckdb_library_version());
	if (run_sql(p,
		    "SET memory_limit = '512MB'; SET threads = 2; SET temp_directory = ''; SET "
		    "autoinstall_known_extensions = false",
		    e) < 0)
		return -1;
	f = p->d.duckdb_create_table_function();
	p->d.duckdb_table_function_set_name(f, "warpsight_rows");
	p->d.duckdb_table_function_set_extra_info(f, p, NULL);
	p->d.duckdb_table_function_set_bind(f, on_bind);
	p->d.duckdb_table_function_set_init(f, on_init);
	p->d.duckdb_table_function_set_function(f, on_rows);
	rc = p->d.duckdb_register_table_function(p->connection, f);
	p->d.duckdb_destroy_table_function(&f);
	return rc ? ws_fail(e, "DuckDB %s refuses a table function", p->d.duckdb_library_version())
		  : 0;
}

struct ws_xwriter *ws_xformat_open_parquetdir(const struct ws_xtarget *t, struct ws_err *e)
{
	struct parquet *p = ws_calloc(1, sizeof(*p));

	p->w = (struct ws_xwriter){
		.table = table, .rows = rows, .close = finish, .view = view, .has = has};
	p->path = t->path;
	p->name = t->name;
	p->append = t->append;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->changed, NULL);
	if (open_database(p, e) < 0) {
		finish(&p->w, false, NULL);
		return NULL;
	}
	return &p->w;
}
