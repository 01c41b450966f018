/*
 * hdf.c - an HDF5 file, written by the library of HDF5, which is opened when it is needed: a group
 * for each table, in it a dataset of one dimension for each column, so that h5py gives {name:
 * group[name][:]} to pandas as it stands.
 *
 * HDF5 has no null. Columns of numbers that have some carry the attribute null_value, which stands
 * in their place (the least signed, or the greatest unsigned number; NaN in columns of reals); a
 * text that is null is empty. Texts are UTF-8 of variable length; texts that stand in StringIds are
 * numbers there as in SQLite.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "export/columns.h"
#include "export/formats.h"
#include "export/hdf5_abi.h"

enum { LEAST_CHUNK = 64, MADE_CHUNK = 512, MOST_CHUNK = 16384, SCALAR = 0 };

struct hdf5 {
	void *library;
#define WS_HDF5(result, name, arguments) result(*name) arguments;
	WS_HDF5_FUNCTIONS(WS_HDF5)
#undef WS_HDF5
#define WS_ID(name) hdf5_id name;
	WS_HDF5_IDS(WS_ID)
#undef WS_ID
};

enum kind {
	KIND_U8,
	KIND_U32,
	KIND_I32,
	KIND_U64,
	KIND_I64,
	KIND_F64,
	KIND_TEXT,
	KIND_BLOB,
	KINDS
};

struct hdf {
	struct ws_xwriter w;
	struct hdf5 h;
	hdf5_id file, group;
	hdf5_id text, blob; /* types */
	const char *path, *name;
	struct ws_export *x;
	struct {
		hdf5_id dataset;
		enum kind kind;
	} column[WS_MAX_COLUMNS];
	size_t columns;
	hdf5_size rows;	 /* of the table in hand */
	hdf5_size chunk; /* rows: what a column takes at least, so a small table has small ones */
	void *scratch;	 /* a column of a batch */
	size_t scratch_size;
};

/* ---- the library ---- */

static void *find_library(void)
{
	static const char *const names[] = {"libhdf5_serial.so.103", "libhdf5.so.103",
					    "libhdf5.so.200",	     "libhdf5.so.310",
					    "libhdf5.so.320",	     "libhdf5.so",
					    "libhdf5_serial.so",     "libhdf5_serial.so.310"};
	const char *named = getenv("WARPSIGHT_HDF5");
	void *library = NULL;

	if (named && *named)
		return dlopen(named, RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; !library && i < WS_COUNT(names); i++)
		library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	return library;
}

static int open_library(struct hdf5 *h, struct ws_err *e)
{
	hdf5_id *id;

	h->library = find_library();
	if (!h->library)
		return ws_fail(e, "hdf needs the library of HDF5, 1.10 or newer (Debian: "
				  "libhdf5-103-1); install it, or give the "
				  "path of libhdf5.so "
				  "in WARPSIGHT_HDF5");
#define WS_HDF5(result, function, arguments)                                                     \
	*(void **)&h->function = dlsym(h->library, #function);                                   \
	if (!h->function)                                                                        \
		return ws_fail(e, "the HDF5 library has no %s: version 1.10 or newer is needed", \
			       #function);
	WS_HDF5_FUNCTIONS(WS_HDF5)
#undef WS_HDF5
	h->H5dont_atexit(); /* what could not be written it would try to write again, and crash */
	if (h->H5open() < 0)
		return ws_fail(e, "the HDF5 library cannot be started");
	h->H5Eset_auto2(0, NULL, NULL); /* it would print what we say */
#define WS_ID(variable)                                                                          \
	id = dlsym(h->library, #variable);                                                       \
	if (!id)                                                                                 \
		return ws_fail(e, "the HDF5 library has no %s: version 1.10 or newer is needed", \
			       #variable);                                                       \
	h->variable = *id;
	WS_HDF5_IDS(WS_ID)
#undef WS_ID
	return 0;
}

static int cannot(struct hdf *d, struct ws_err *e)
{
	return ws_fail_errno(e, "cannot write %s through HDF5", d->name);
}

/* ---- types and attributes ---- */

static hdf5_id type_of(const struct hdf *d, enum kind k)
{
	const hdf5_id types[KINDS] = {[KIND_U8] = d->h.H5T_NATIVE_UINT8_g,
				      [KIND_U32] = d->h.H5T_NATIVE_UINT32_g,
				      [KIND_I32] = d->h.H5T_NATIVE_INT32_g,
				      [KIND_U64] = d->h.H5T_NATIVE_UINT64_g,
				      [KIND_I64] = d->h.H5T_NATIVE_INT64_g,
				      [KIND_F64] = d->h.H5T_NATIVE_DOUBLE_g,
				      [KIND_TEXT] = d->text,
				      [KIND_BLOB] = d->blob};

	return types[k];
}

static size_t width_of(enum kind k)
{
	static const size_t width[KINDS] = {
		1, 4, 4, 8, 8, 8, sizeof(char *), sizeof(struct hdf5_vlen)};

	return width[k];
}

/* The bits that stand for null. */
static uint64_t null_of(enum kind k)
{
	double nan_value = NAN;
	uint64_t bits;

	memcpy(&bits, &nan_value, 8);
	switch (k) {
	case KIND_I32:
		return (uint32_t)INT32_MIN;
	case KIND_I64:
		return (uint64_t)INT64_MIN;
	case KIND_F64:
		return bits;
	default:
		return UINT64_MAX;
	}
}

static void put_attribute(struct hdf *d, hdf5_id at, const char *name, hdf5_id type,
			  const void *value)
{
	hdf5_id space = d->h.H5Screate(SCALAR), a = d->h.H5Acreate2(at, name, type, space, 0, 0);

	if (a >= 0) {
		d->h.H5Awrite(a, type, value);
		d->h.H5Aclose(a);
	}
	d->h.H5Sclose(space);
}

static void put_text_attribute(struct hdf *d, hdf5_id at, const char *name, const char *text)
{
	if (text && *text)
		put_attribute(d, at, name, d->text, &text);
}

/* ---- tables ---- */

static int close_table(struct hdf *d)
{
	int rc = 0;

	for (size_t i = 0; i < d->columns; i++)
		if (d->column[i].dataset >= 0 && d->h.H5Dclose(d->column[i].dataset) < 0)
			rc = -1;
	d->columns = 0;
	if (d->group > 0 && d->h.H5Gclose(d->group) < 0)
		rc = -1;
	d->group = 0;
	return rc;
}

static hdf5_id create_dataset(struct hdf *d, const char *name, enum kind k)
{
	const hdf5_size none = 0, most = HDF5_UNLIMITED;
	hdf5_id space = d->h.H5Screate_simple(1, &none, &most),
		properties = d->h.H5Pcreate(d->h.H5P_CLS_DATASET_CREATE_ID_g), id;

	d->h.H5Pset_chunk(properties, 1, &d->chunk);
	if (k < KIND_TEXT && d->h.H5Zfilter_avail(HDF5_DEFLATE) > 0) {
		d->h.H5Pset_shuffle(properties);
		d->h.H5Pset_deflate(properties, 1);
	}
	id = d->h.H5Dcreate2(d->group, name, type_of(d, k), space, 0, properties, 0);
	d->h.H5Pclose(properties);
	d->h.H5Sclose(space);
	return id;
}

static int add_column(struct hdf *d, const struct ws_xcolumn *c, enum kind k, struct ws_err *e)
{
	hdf5_id id = create_dataset(d, c->name, k);
	uint64_t none = null_of(k);

	d->column[d->columns].dataset = id;
	d->column[d->columns++].kind = k;
	if (id < 0)
		return cannot(d, e);
	put_text_attribute(d, id, "description", c->doc);
	if (c->from == WS_XF_TIME || c->from == WS_XF_NTIME)
		put_text_attribute(d, id, "unit", "ns");
	if (!c->not_null && k < KIND_TEXT)
		put_attribute(d, id, "null_value", type_of(d, k), &none);
	return 0;
}

static int begin_table(struct hdf *d, const struct ws_xtable *t, struct ws_err *e)
{
	if (close_table(d) < 0)
		return cannot(d, e);
	d->rows = 0;
	d->group = d->h.H5Gcreate2(d->file, t->name, 0, 0, 0);
	if (d->group < 0)
		return cannot(d, e);
	put_text_attribute(d, d->group, "description", t->doc);
	return 0;
}

static void *scratch(struct hdf *d, size_t n)
{
	if (n > d->scratch_size) {
		d->scratch = ws_realloc(d->scratch, n);
		d->scratch_size = n;
	}
	return d->scratch;
}

/* n values of a column behind those that are there. */
static int append(struct hdf *d, size_t column, const void *values, size_t n, struct ws_err *e)
{
	const hdf5_size count = n, size = d->rows + n, from = d->rows;
	hdf5_id id = d->column[column].dataset, file, memory;
	bool bad;

	if (d->h.H5Dset_extent(id, &size) < 0)
		return cannot(d, e);
	file = d->h.H5Dget_space(id);
	memory = d->h.H5Screate_simple(1, &count, NULL);
	bad = d->h.H5Sselect_hyperslab(file, HDF5_SELECT_SET, &from, NULL, &count, NULL) < 0 ||
	      d->h.H5Dwrite(id, type_of(d, d->column[column].kind), memory, file, 0, values) < 0;
	d->h.H5Sclose(memory);
	d->h.H5Sclose(file);
	return bad ? cannot(d, e) : 0;
}

/* ---- tables made row by row ---- */

static int table(struct ws_xwriter *w, const struct ws_xtable *t, struct ws_err *e)
{
	struct hdf *d = (struct hdf *)w;

	d->chunk = MADE_CHUNK;
	if (begin_table(d, t, e) < 0)
		return -1;
	for (size_t i = 0; i < t->column_count; i++) {
		const char *type = t->columns[i].type;

		if (add_column(d, &t->columns[i],
			       *type == 'R'   ? KIND_F64
			       : *type == 'T' ? KIND_TEXT
			       : *type == 'B' ? KIND_BLOB
					      : KIND_I64,
			       e) < 0)
			return -1;
	}
	return 0;
}

/* One column of rows of cells. Texts get an end: HDF5 wants them so, and cells hold no NULs. */
static int append_cells(struct hdf *d, size_t column, const struct ws_xcell *cells, size_t n,
			struct ws_err *e)
{
	enum kind k = d->column[column].kind;
	char *out = scratch(d, n * width_of(k)), **texts = (char **)out;
	struct hdf5_vlen *blobs = (struct hdf5_vlen *)out;
	int rc;

	for (size_t i = 0; i < n; i++) {
		const struct ws_xcell *c = &cells[i * d->columns + column];
		bool none = c->kind == WS_X_NULL;
		uint64_t bits = none ? null_of(k) : c->kind == WS_X_STRING ? c->id : (uint64_t)c->i;

		if (k == KIND_TEXT)
			texts[i] = ws_strndup(none ? "" : c->s, none ? 0 : c->n);
		else if (k == KIND_BLOB)
			blobs[i] = (struct hdf5_vlen){none ? 0 : c->n, none ? "" : c->s};
		else
			memcpy(out + i * 8, &bits, 8);
	}
	rc = append(d, column, out, n, e);
	for (size_t i = 0; k == KIND_TEXT && i < n; i++)
		free(texts[i]);
	return rc;
}

static int rows(struct ws_xwriter *w, const struct ws_xcell *cells, size_t count, struct ws_err *e)
{
	struct hdf *d = (struct hdf *)w;

	for (size_t i = 0; i < d->columns; i++)
		if (append_cells(d, i, cells, count, e) < 0)
			return -1;
	d->rows += count;
	return 0;
}

/* ---- views ---- */

static enum kind kind_of(const struct ws_xview *v, const struct ws_xcolumn *c)
{
	static const enum kind kinds[] = {
		[WS_XT_NULL] = KIND_I64, [WS_XT_U8] = KIND_U8,	    [WS_XT_U32] = KIND_U32,
		[WS_XT_I32] = KIND_I32,	 [WS_XT_U64] = KIND_U64,    [WS_XT_I64] = KIND_I64,
		[WS_XT_F64] = KIND_F64,	 [WS_XT_STRING] = KIND_U32, [WS_XT_TEXT] = KIND_TEXT,
		[WS_XT_BLOB] = KIND_BLOB};
	enum ws_xtype t = ws_xcolumn_type(v, c);

	return t == WS_XT_NULL && *c->type == 'T' ? KIND_TEXT : kinds[t];
}

static int begin_view(struct hdf *d, const struct ws_xview *v, struct ws_err *e)
{
	uint64_t all = ws_report_rows(d->x->r, v->source);

	d->chunk = all < LEAST_CHUNK ? LEAST_CHUNK : all > MOST_CHUNK ? MOST_CHUNK : all;
	if (begin_table(d, &v->t, e) < 0)
		return -1;
	for (size_t i = 0; i < v->t.column_count; i++)
		if (add_column(d, &v->t.columns[i], kind_of(v, &v->t.columns[i]), e) < 0)
			return -1;
	return 0;
}

static bool is_null(const struct ws_xvector *v, size_t row)
{
	return v->valid && !(v->valid[row >> 3] >> (row & 7) & 1);
}

/* Put what stands for null into the worker's own array, in which it may be anything. */
static void fill_nulls(struct ws_xvector *v, enum kind k, size_t n)
{
	uint64_t none = null_of(k);
	size_t width = width_of(k);

	for (size_t i = 0; v->valid && i < n; i++)
		if (is_null(v, i))
			memcpy((char *)v->data + i * width, &none, width);
}

static int append_texts(struct hdf *d, size_t column, const struct ws_xvector *v, size_t n,
			struct ws_err *e)
{
	bool blob = d->column[column].kind == KIND_BLOB;
	char *out = scratch(d, n * sizeof(struct hdf5_vlen));
	const uint32_t *ids = v->data;

	for (size_t i = 0; i < n; i++) {
		uint32_t id = is_null(v, i) || v->type == WS_XT_NULL ? 0 : ids[i];
		size_t len;

		if (blob)
			((struct hdf5_vlen *)out)[i].bytes =
				ws_report_string(d->x->r, id, &((struct hdf5_vlen *)out)[i].n);
		else
			((const char **)out)[i] = id ? ws_x_bytes(d->x, id, &len) : "";
	}
	return append(d, column, out, n, e);
}

static int nothing(void *ctx, const struct ws_xbatch *b, struct ws_err *e)
{
	(void)ctx, (void)b, (void)e;
	return 0;
}

static int put(void *ctx, const struct ws_xbatch *b, struct ws_err *e)
{
	struct hdf *d = ctx;

	if (!d->columns && begin_view(d, b->view, e) < 0)
		return -1;
	for (size_t i = 0; i < d->columns; i++) {
		struct ws_xvector *v = (struct ws_xvector *)&b->col[i];
		int rc;

		if (d->column[i].kind >= KIND_TEXT) {
			rc = append_texts(d, i, v, b->rows, e);
		} else {
			fill_nulls(v, d->column[i].kind, b->rows);
			rc = append(d, i, v->data, b->rows, e);
		}
		if (rc < 0)
			return -1;
	}
	d->rows += b->rows;
	return 0;
}

static int view(struct ws_xwriter *w, struct ws_export *x, const struct ws_xview *v,
		uint64_t *count, struct ws_err *e)
{
	struct hdf *d = (struct hdf *)w;
	struct ws_xcolumns_user u = {.make = nothing, .put = put, .ctx = d};

	d->x = x;
	if (close_table(d) < 0)
		return cannot(d, e);
	if (ws_xcolumns_run(x, v, UINT64_MAX, &u, count, e) < 0)
		return -1;
	return !d->columns && !x->lazy ? begin_view(d, v, e) : 0;
}

/* ---- all ---- */

static int finish(struct ws_xwriter *w, bool keep, struct ws_err *e)
{
	struct hdf *d = (struct hdf *)w;
	int rc = close_table(d);

	if (d->text > 0)
		d->h.H5Tclose(d->text);
	if (d->blob > 0)
		d->h.H5Tclose(d->blob);
	if (d->file > 0 && d->h.H5Fclose(d->file) < 0)
		rc = -1;
	if (rc < 0 && keep)
		cannot(d, e);
	free(d->scratch);
	free(d);
	return keep ? rc : 0;
}

static int open_file(struct hdf *d, struct ws_err *e)
{
	if (open_library(&d->h, e) < 0)
		return -1;
	d->text = d->h.H5Tcopy(d->h.H5T_C_S1_g);
	d->h.H5Tset_size(d->text, HDF5_VARIABLE);
	d->h.H5Tset_cset(d->text, HDF5_UTF8);
	d->blob = d->h.H5Tvlen_create(d->h.H5T_NATIVE_UINT8_g);
	d->file = d->h.H5Fcreate(d->path, HDF5_TRUNCATE, 0, 0);
	return d->file < 0 ? cannot(d, e) : 0;
}

struct ws_xwriter *ws_xformat_open_hdf(const struct ws_xtarget *t, struct ws_err *e)
{
	struct hdf *d = ws_calloc(1, sizeof(*d));

	d->w = (struct ws_xwriter){.table = table, .rows = rows, .close = finish, .view = view};
	d->path = t->path;
	d->name = t->name;
	if (open_file(d, e) < 0) {
		finish(&d->w, false, NULL);
		return NULL;
	}
	return &d->w;
}
