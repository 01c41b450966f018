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
#include "base/choose.h"
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
	struct ws_xwriter writer;
	struct hdf5 hdf5;
	hdf5_id file, group;
	hdf5_id text, blob; /* types */
	const char *path, *name;
	struct ws_export *export;
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

static int cannot(struct hdf *hdf, struct ws_err *err)
{
	return ws_fail_errno(err, "cannot write %s through HDF5", hdf->name);
}

/* ---- types and attributes ---- */

static hdf5_id type_of(const struct hdf *hdf, enum kind kind_k)
{
	const hdf5_id types[KINDS] = {[KIND_U8] = hdf->hdf5.H5T_NATIVE_UINT8_g,
				      [KIND_U32] = hdf->hdf5.H5T_NATIVE_UINT32_g,
				      [KIND_I32] = hdf->hdf5.H5T_NATIVE_INT32_g,
				      [KIND_U64] = hdf->hdf5.H5T_NATIVE_UINT64_g,
				      [KIND_I64] = hdf->hdf5.H5T_NATIVE_INT64_g,
				      [KIND_F64] = hdf->hdf5.H5T_NATIVE_DOUBLE_g,
				      [KIND_TEXT] = hdf->text,
				      [KIND_BLOB] = hdf->blob};

	return types[kind_k];
}

static size_t width_of(enum kind kind_k)
{
	static const size_t width[KINDS] = {
		1, 4, 4, 8, 8, 8, sizeof(char *), sizeof(struct hdf5_vlen)};

	return width[kind_k];
}

/* The bits that stand for null. */
static uint64_t null_of(enum kind kind_k)
{
	double nan_value = NAN;
	uint64_t bits;

	memcpy(&bits, &nan_value, 8);
	switch (kind_k) {
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

static void put_attribute(struct hdf *hdf, hdf5_id at, const char *name, hdf5_id type,
			  const void *value)
{
	hdf5_id space = hdf->hdf5.H5Screate(SCALAR),
		a = hdf->hdf5.H5Acreate2(at, name, type, space, 0, 0);

	if (a >= 0) {
		hdf->hdf5.H5Awrite(a, type, value);
		hdf->hdf5.H5Aclose(a);
	}
	hdf->hdf5.H5Sclose(space);
}

static void put_text_attribute(struct hdf *hdf, hdf5_id at, const char *name, const char *text)
{
	if (text && *text)
		put_attribute(hdf, at, name, hdf->text, &text);
}

/* ---- tables ---- */

static int close_table(struct hdf *hdf)
{
	int rc = 0;

	for (size_t i = 0; i < hdf->columns; i++)
		if (hdf->column[i].dataset >= 0 && hdf->hdf5.H5Dclose(hdf->column[i].dataset) < 0)
			rc = -1;
	hdf->columns = 0;
	if (hdf->group > 0 && hdf->hdf5.H5Gclose(hdf->group) < 0)
		rc = -1;
	hdf->group = 0;
	return rc;
}

static hdf5_id create_dataset(struct hdf *hdf, const char *name, enum kind kind_k)
{
	const hdf5_size none = 0, most = HDF5_UNLIMITED;
	hdf5_id space = hdf->hdf5.H5Screate_simple(1, &none, &most),
		properties = hdf->hdf5.H5Pcreate(hdf->hdf5.H5P_CLS_DATASET_CREATE_ID_g), id;

	hdf->hdf5.H5Pset_chunk(properties, 1, &hdf->chunk);
	if (kind_k < KIND_TEXT && hdf->hdf5.H5Zfilter_avail(HDF5_DEFLATE) > 0) {
		hdf->hdf5.H5Pset_shuffle(properties);
		hdf->hdf5.H5Pset_deflate(properties, 1);
	}
	id = hdf->hdf5.H5Dcreate2(hdf->group, name, type_of(hdf, kind_k), space, 0, properties, 0);
	hdf->hdf5.H5Pclose(properties);
	hdf->hdf5.H5Sclose(space);
	return id;
}

static int add_column(struct hdf *hdf, const struct ws_xcolumn *column, enum kind kind_k,
		      struct ws_err *err)
{
	hdf5_id id = create_dataset(hdf, column->name, kind_k);
	uint64_t none = null_of(kind_k);

	hdf->column[hdf->columns].dataset = id;
	hdf->column[hdf->columns++].kind = kind_k;
	if (id < 0)
		return cannot(hdf, err);
	put_text_attribute(hdf, id, "description", column->doc);
	if (column->from == WS_XF_TIME || column->from == WS_XF_NTIME)
		put_text_attribute(hdf, id, "unit", "ns");
	if (!column->not_null && kind_k < KIND_TEXT)
		put_attribute(hdf, id, "null_value", type_of(hdf, kind_k), &none);
	return 0;
}

static int begin_table(struct hdf *hdf, const struct ws_xtable *table, struct ws_err *err)
{
	if (close_table(hdf) < 0)
		return cannot(hdf, err);
	hdf->rows = 0;
	hdf->group = hdf->hdf5.H5Gcreate2(hdf->file, table->name, 0, 0, 0);
	if (hdf->group < 0)
		return cannot(hdf, err);
	put_text_attribute(hdf, hdf->group, "description", table->doc);
	return 0;
}

static void *scratch(struct hdf *hdf, size_t n)
{
	if (n > hdf->scratch_size) {
		hdf->scratch = ws_realloc(hdf->scratch, n);
		hdf->scratch_size = n;
	}
	return hdf->scratch;
}

/* n values of a column behind those that are there. */
static int append(struct hdf *hdf, size_t column, const void *values, size_t n, struct ws_err *err)
{
	const hdf5_size count = n, size = hdf->rows + n, from = hdf->rows;
	hdf5_id id = hdf->column[column].dataset, file, memory;
	bool bad;

	if (hdf->hdf5.H5Dset_extent(id, &size) < 0)
		return cannot(hdf, err);
	file = hdf->hdf5.H5Dget_space(id);
	memory = hdf->hdf5.H5Screate_simple(1, &count, NULL);
	bad = hdf->hdf5.H5Sselect_hyperslab(file, HDF5_SELECT_SET, &from, NULL, &count, NULL) < 0 ||
	      hdf->hdf5.H5Dwrite(id, type_of(hdf, hdf->column[column].kind), memory, file, 0,
				 values) < 0;
	hdf->hdf5.H5Sclose(memory);
	hdf->hdf5.H5Sclose(file);
	return bad ? cannot(hdf, err) : 0;
}

/* ---- tables made row by row ---- */

static int table(struct ws_xwriter *writer, const struct ws_xtable *xtable, struct ws_err *err)
{
	struct hdf *hdf = (struct hdf *)writer;

	hdf->chunk = MADE_CHUNK;
	if (begin_table(hdf, xtable, err) < 0)
		return -1;
	for (size_t i = 0; i < xtable->column_count; i++) {
		const char *type = xtable->columns[i].type;

		if (add_column(hdf, &xtable->columns[i],
			       *type == 'R'   ? KIND_F64
			       : *type == 'T' ? KIND_TEXT
			       : *type == 'B' ? KIND_BLOB
					      : KIND_I64,
			       err) < 0)
			return -1;
	}
	return 0;
}

/* One column of rows of cells. Texts get an end: HDF5 wants them so, and cells hold no NULs. */
static int append_cells(struct hdf *hdf, size_t column, const struct ws_xcell *cells, size_t n,
			struct ws_err *err)
{
	enum kind kind_k = hdf->column[column].kind;
	char *out = scratch(hdf, n * width_of(kind_k)), **texts = (char **)out;
	struct hdf5_vlen *blobs = (struct hdf5_vlen *)out;
	int rc;

	for (size_t i = 0; i < n; i++) {
		const struct ws_xcell *cell = &cells[i * hdf->columns + column];
		bool none = cell->kind == WS_X_NULL;
		uint64_t bits = none			    ? null_of(kind_k)
				: cell->kind == WS_X_STRING ? cell->id
							    : (uint64_t)cell->i;

		if (kind_k == KIND_TEXT)
			texts[i] = ws_strndup(none ? "" : cell->text, none ? 0 : cell->n);
		else if (kind_k == KIND_BLOB)
			blobs[i] = (struct hdf5_vlen){none ? 0 : cell->n, none ? "" : cell->text};
		else
			memcpy(out + i * 8, &bits, 8);
	}
	rc = append(hdf, column, out, n, err);
	for (size_t i = 0; kind_k == KIND_TEXT && i < n; i++)
		free(texts[i]);
	return rc;
}

static int rows(struct ws_xwriter *writer, const struct ws_xcell *cells, size_t count,
		struct ws_err *err)
{
	struct hdf *hdf = (struct hdf *)writer;

	for (size_t i = 0; i < hdf->columns; i++)
		if (append_cells(hdf, i, cells, count, err) < 0)
			return -1;
	hdf->rows += count;
	return 0;
}

/* ---- views ---- */

static enum kind kind_of(const struct ws_xview *view, const struct ws_xcolumn *column)
{
	static const enum kind kinds[] = {
		[WS_XT_NULL] = KIND_I64, [WS_XT_U8] = KIND_U8,	    [WS_XT_U32] = KIND_U32,
		[WS_XT_I32] = KIND_I32,	 [WS_XT_U64] = KIND_U64,    [WS_XT_I64] = KIND_I64,
		[WS_XT_F64] = KIND_F64,	 [WS_XT_STRING] = KIND_U32, [WS_XT_TEXT] = KIND_TEXT,
		[WS_XT_BLOB] = KIND_BLOB};
	enum ws_xtype xtype = ws_xcolumn_type(view, column);

	return xtype == WS_XT_NULL && *column->type == 'T' ? KIND_TEXT : kinds[xtype];
}

static int begin_view(struct hdf *hdf, const struct ws_xview *view, struct ws_err *err)
{
	uint64_t all = ws_report_rows(hdf->export->report, view->source);

	hdf->chunk = all < LEAST_CHUNK ? LEAST_CHUNK : ws_min(all, MOST_CHUNK);
	if (begin_table(hdf, &view->table, err) < 0)
		return -1;
	for (size_t i = 0; i < view->table.column_count; i++)
		if (add_column(hdf, &view->table.columns[i], kind_of(view, &view->table.columns[i]),
			       err) < 0)
			return -1;
	return 0;
}

static bool is_null(const struct ws_xvector *vector, size_t row)
{
	return vector->valid && !(vector->valid[row >> 3] >> (row & 7) & 1);
}

/* Put what stands for null into the worker's own array, in which it may be anything. */
static void fill_nulls(struct ws_xvector *vector, enum kind kind_k, size_t n)
{
	uint64_t none = null_of(kind_k);
	size_t width = width_of(kind_k);

	for (size_t i = 0; vector->valid && i < n; i++)
		if (is_null(vector, i))
			memcpy((char *)vector->data + i * width, &none, width);
}

static int append_texts(struct hdf *hdf, size_t column, const struct ws_xvector *vector, size_t n,
			struct ws_err *err)
{
	bool blob = hdf->column[column].kind == KIND_BLOB;
	char *out = scratch(hdf, n * sizeof(struct hdf5_vlen));
	const uint32_t *ids = vector->data;

	for (size_t i = 0; i < n; i++) {
		uint32_t id = is_null(vector, i) || vector->type == WS_XT_NULL ? 0 : ids[i];
		size_t len;

		if (blob)
			((struct hdf5_vlen *)out)[i].bytes = ws_report_string(
				hdf->export->report, id, &((struct hdf5_vlen *)out)[i].n);
		else
			((const char **)out)[i] = id ? ws_x_bytes(hdf->export, id, &len) : "";
	}
	return append(hdf, column, out, n, err);
}

static int nothing(void *ctx, const struct ws_xbatch *batch, struct ws_err *err)
{
	(void)ctx, (void)batch, (void)err;
	return 0;
}

static int put(void *ctx, const struct ws_xbatch *batch, struct ws_err *err)
{
	struct hdf *hdf = ctx;

	if (!hdf->columns && begin_view(hdf, batch->view, err) < 0)
		return -1;
	for (size_t i = 0; i < hdf->columns; i++) {
		struct ws_xvector *vector = (struct ws_xvector *)&batch->col[i];
		int rc;

		if (hdf->column[i].kind >= KIND_TEXT) {
			rc = append_texts(hdf, i, vector, batch->rows, err);
		} else {
			fill_nulls(vector, hdf->column[i].kind, batch->rows);
			rc = append(hdf, i, vector->data, batch->rows, err);
		}
		if (rc < 0)
			return -1;
	}
	hdf->rows += batch->rows;
	return 0;
}

static int view(struct ws_xwriter *writer, struct ws_export *export, const struct ws_xview *xview,
		uint64_t *count, struct ws_err *err)
{
	struct hdf *hdf = (struct hdf *)writer;
	struct ws_xcolumns_user user = {.make = nothing, .put = put, .ctx = hdf};

	hdf->export = export;
	if (close_table(hdf) < 0)
		return cannot(hdf, err);
	if (ws_xcolumns_run(export, xview, UINT64_MAX, &user, count, err) < 0)
		return -1;
	return !hdf->columns && !export->lazy ? begin_view(hdf, xview, err) : 0;
}

/* ---- all ---- */

static int finish(struct ws_xwriter *writer, bool keep, struct ws_err *err)
{
	struct hdf *hdf = (struct hdf *)writer;
	int rc = close_table(hdf);

	if (hdf->text > 0)
		hdf->hdf5.H5Tclose(hdf->text);
	if (hdf->blob > 0)
		hdf->hdf5.H5Tclose(hdf->blob);
	if (hdf->file > 0 && hdf->hdf5.H5Fclose(hdf->file) < 0)
		rc = -1;
	if (rc < 0 && keep)
		cannot(hdf, err);
	free(hdf->scratch);
	free(hdf);
	return keep ? rc : 0;
}

static int open_file(struct hdf *hdf, struct ws_err *err)
{
	if (open_library(&hdf->hdf5, err) < 0)
		return -1;
	hdf->text = hdf->hdf5.H5Tcopy(hdf->hdf5.H5T_C_S1_g);
	hdf->hdf5.H5Tset_size(hdf->text, HDF5_VARIABLE);
	hdf->hdf5.H5Tset_cset(hdf->text, HDF5_UTF8);
	hdf->blob = hdf->hdf5.H5Tvlen_create(hdf->hdf5.H5T_NATIVE_UINT8_g);
	hdf->file = hdf->hdf5.H5Fcreate(hdf->path, HDF5_TRUNCATE, 0, 0);
	return hdf->file < 0 ? cannot(hdf, err) : 0;
}

struct ws_xwriter *ws_xformat_open_hdf(const struct ws_xtarget *target, struct ws_err *err)
{
	struct hdf *hdf = ws_calloc(1, sizeof(*hdf));

	hdf->writer =
		(struct ws_xwriter){.table = table, .rows = rows, .close = finish, .view = view};
	hdf->path = target->path;
	hdf->name = target->name;
	if (open_file(hdf, err) < 0) {
		finish(&hdf->writer, false, NULL);
		return NULL;
	}
	return &hdf->writer;
}
