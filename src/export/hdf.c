/*
 * hdf.c - an HDF5 file, written by the HDF5 library, which is opened when it is needed: a group for
 * each table, in it a dataset of one dimension for each column, so that pandas accepts {name:
 * group[name][:]} from h5py directly.
 *
 * HDF5 has no null. Columns of numbers that may be null have an attribute null_value, the value
 * that represents null (the least signed, or the greatest unsigned number; NaN in columns of
 * reals); a text that is null is empty. Texts are UTF-8 of variable length; texts in StringIds are
 * numbers here, as in SQLite.
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

enum column_kind {
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

struct hdf_writer {
	struct ws_table_writer writer;
	struct hdf5 hdf5;
	hdf5_id file, group;
	hdf5_id text, blob; /* types */
	const char *path, *name;
	struct ws_cell_context *export;
	struct {
		hdf5_id dataset;
		enum column_kind kind;
	} column[WS_MAX_COLUMNS];
	size_t columns;
	hdf5_size rows;	 /* of the open table */
	hdf5_size chunk; /* rows that a column takes at least, so small tables have small chunks */
	void *scratch;	 /* a column of a batch */
	size_t scratch_size;
};

/* ---- the library ---- */

static void *find_hdf_library(void)
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

static int open_hdf_library(struct hdf5 *hdf5, struct ws_err *err)
{
	hdf5_id *id;

	hdf5->library = find_hdf_library();
	if (!hdf5->library)
		return ws_fail(err, "hdf needs the library of HDF5, 1.10 or newer (Debian: "
				    "libhdf5-103-1); install it, or give the "
				    "path of libhdf5.so "
				    "in WARPSIGHT_HDF5");
#define WS_HDF5(result, function, arguments)                                                       \
	*(void **)&hdf5->function = dlsym(hdf5->library, #function);                               \
	if (!hdf5->function)                                                                       \
		return ws_fail(err, "the HDF5 library has no %s: version 1.10 or newer is needed", \
			       #function);
	WS_HDF5_FUNCTIONS(WS_HDF5)
#undef WS_HDF5
	/* At exit, the library would try again to write what it could not write, and crash. */
	hdf5->H5dont_atexit();
	if (hdf5->H5open() < 0)
		return ws_fail(err, "the HDF5 library cannot be started");
	/* HDF5 would print errors that we report ourselves. */
	hdf5->H5Eset_auto2(0, NULL, NULL);
#define WS_ID(variable)                                                                            \
	id = dlsym(hdf5->library, #variable);                                                      \
	if (!id)                                                                                   \
		return ws_fail(err, "the HDF5 library has no %s: version 1.10 or newer is needed", \
			       #variable);                                                         \
	hdf5->variable = *id;
	WS_HDF5_IDS(WS_ID)
#undef WS_ID
	return 0;
}

static int fail_hdf_write(struct hdf_writer *hdf, struct ws_err *err)
{
	return ws_fail_errno(err, "cannot write %s through HDF5", hdf->name);
}

/* ---- types and attributes ---- */

static hdf5_id find_hdf_type(const struct hdf_writer *hdf, enum column_kind kind)
{
	const hdf5_id types[KINDS] = {[KIND_U8] = hdf->hdf5.H5T_NATIVE_UINT8_g,
				      [KIND_U32] = hdf->hdf5.H5T_NATIVE_UINT32_g,
				      [KIND_I32] = hdf->hdf5.H5T_NATIVE_INT32_g,
				      [KIND_U64] = hdf->hdf5.H5T_NATIVE_UINT64_g,
				      [KIND_I64] = hdf->hdf5.H5T_NATIVE_INT64_g,
				      [KIND_F64] = hdf->hdf5.H5T_NATIVE_DOUBLE_g,
				      [KIND_TEXT] = hdf->text,
				      [KIND_BLOB] = hdf->blob};

	return types[kind];
}

static size_t find_width(enum column_kind kind)
{
	static const size_t width[KINDS] = {
		1, 4, 4, 8, 8, 8, sizeof(char *), sizeof(struct hdf5_vlen)};

	return width[kind];
}

/* The bits that represent null. */
static uint64_t find_null_bits(enum column_kind kind)
{
	double nan_value = NAN;
	uint64_t bits;

	memcpy(&bits, &nan_value, 8);
	switch (kind) {
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

static void put_attribute(struct hdf_writer *hdf, hdf5_id object, const char *name, hdf5_id type,
			  const void *value)
{
	hdf5_id space = hdf->hdf5.H5Screate(SCALAR),
		attribute = hdf->hdf5.H5Acreate2(object, name, type, space, 0, 0);

	if (attribute >= 0) {
		hdf->hdf5.H5Awrite(attribute, type, value);
		hdf->hdf5.H5Aclose(attribute);
	}
	hdf->hdf5.H5Sclose(space);
}

static void put_text_attribute(struct hdf_writer *hdf, hdf5_id object, const char *name,
			       const char *text)
{
	if (text && *text)
		put_attribute(hdf, object, name, hdf->text, &text);
}

/* ---- tables ---- */

static int close_hdf_table(struct hdf_writer *hdf)
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

static hdf5_id create_dataset(struct hdf_writer *hdf, const char *name, enum column_kind kind)
{
	const hdf5_size none = 0, most = HDF5_UNLIMITED;
	hdf5_id space = hdf->hdf5.H5Screate_simple(1, &none, &most),
		properties = hdf->hdf5.H5Pcreate(hdf->hdf5.H5P_CLS_DATASET_CREATE_ID_g), id;

	hdf->hdf5.H5Pset_chunk(properties, 1, &hdf->chunk);
	if (kind < KIND_TEXT && hdf->hdf5.H5Zfilter_avail(HDF5_DEFLATE) > 0) {
		hdf->hdf5.H5Pset_shuffle(properties);
		hdf->hdf5.H5Pset_deflate(properties, 1);
	}
	id = hdf->hdf5.H5Dcreate2(hdf->group, name, find_hdf_type(hdf, kind), space, 0, properties,
				  0);
	hdf->hdf5.H5Pclose(properties);
	hdf->hdf5.H5Sclose(space);
	return id;
}

static int add_dataset(struct hdf_writer *hdf, const struct ws_view_column *column,
		       enum column_kind kind, struct ws_err *err)
{
	hdf5_id id = create_dataset(hdf, column->name, kind);
	uint64_t none = find_null_bits(kind);

	hdf->column[hdf->columns].dataset = id;
	hdf->column[hdf->columns++].kind = kind;
	if (id < 0)
		return fail_hdf_write(hdf, err);
	put_text_attribute(hdf, id, "description", column->doc);
	if (column->from == WS_FROM_TIME || column->from == WS_FROM_TIME_OR_NULL)
		put_text_attribute(hdf, id, "unit", "ns");
	if (!column->not_null && kind < KIND_TEXT)
		put_attribute(hdf, id, "null_value", find_hdf_type(hdf, kind), &none);
	return 0;
}

static int begin_hdf_table(struct hdf_writer *hdf, const struct ws_view_table *table,
			   struct ws_err *err)
{
	if (close_hdf_table(hdf) < 0)
		return fail_hdf_write(hdf, err);
	hdf->rows = 0;
	hdf->group = hdf->hdf5.H5Gcreate2(hdf->file, table->name, 0, 0, 0);
	if (hdf->group < 0)
		return fail_hdf_write(hdf, err);
	put_text_attribute(hdf, hdf->group, "description", table->doc);
	return 0;
}

static void *reserve_scratch(struct hdf_writer *hdf, size_t length)
{
	if (length > hdf->scratch_size) {
		hdf->scratch = ws_realloc(hdf->scratch, length);
		hdf->scratch_size = length;
	}
	return hdf->scratch;
}

/* Append `count` values to a column. */
static int append_values(struct hdf_writer *hdf, size_t column, const void *values, size_t rows,
			 struct ws_err *err)
{
	const hdf5_size extent = rows, size = hdf->rows + rows, from = hdf->rows;
	hdf5_id id = hdf->column[column].dataset, file, memory;
	bool bad;

	if (hdf->hdf5.H5Dset_extent(id, &size) < 0)
		return fail_hdf_write(hdf, err);
	file = hdf->hdf5.H5Dget_space(id);
	memory = hdf->hdf5.H5Screate_simple(1, &extent, NULL);
	bad = hdf->hdf5.H5Sselect_hyperslab(file, HDF5_SELECT_SET, &from, NULL, &extent, NULL) <
		      0 ||
	      hdf->hdf5.H5Dwrite(id, find_hdf_type(hdf, hdf->column[column].kind), memory, file, 0,
				 values) < 0;
	hdf->hdf5.H5Sclose(memory);
	hdf->hdf5.H5Sclose(file);
	if (bad)
		return fail_hdf_write(hdf, err);
	return 0;
}

/* ---- tables made row by row ---- */

static int begin_made_table(struct ws_table_writer *writer, const struct ws_view_table *xtable,
			    struct ws_err *err)
{
	static const enum column_kind kinds[] = {
		[WS_SHAPE_INT] = KIND_I64,   [WS_SHAPE_UINT] = KIND_I64,
		[WS_SHAPE_REAL] = KIND_F64,  [WS_SHAPE_STRING] = KIND_I64,
		[WS_SHAPE_TEXT] = KIND_TEXT, [WS_SHAPE_BLOB] = KIND_BLOB};
	struct hdf_writer *hdf = (struct hdf_writer *)writer;

	hdf->chunk = MADE_CHUNK;
	if (begin_hdf_table(hdf, xtable, err) < 0)
		return -1;
	for (size_t i = 0; i < xtable->column_count; i++) {
		const struct ws_view_column *column = &xtable->columns[i];

		if (add_dataset(hdf, column, kinds[ws_find_column_shape(column)], err) < 0)
			return -1;
	}
	return 0;
}

/* Append one column of rows of cells. Texts are copied with the final NUL that HDF5 requires; cells
 * contain no NULs. */
static int append_cells(struct hdf_writer *hdf, size_t column, const struct ws_view_cell *cells,
			size_t rows, struct ws_err *err)
{
	enum column_kind kind = hdf->column[column].kind;
	char *out = reserve_scratch(hdf, rows * find_width(kind)), **texts = (char **)out;
	struct hdf5_vlen *blobs = (struct hdf5_vlen *)out;
	int rc;

	for (size_t i = 0; i < rows; i++) {
		const struct ws_view_cell *cell = &cells[i * hdf->columns + column];
		uint64_t bits = ws_get_cell_bits(cell);
		struct hdf5_vlen text = {0, ""};

		if (cell->kind == WS_VIEW_NULL)
			bits = find_null_bits(kind);
		else if (kind >= KIND_TEXT)
			text = (struct hdf5_vlen){cell->n, cell->text};
		if (kind == KIND_TEXT)
			texts[i] = ws_strndup(text.bytes, text.length);
		else if (kind == KIND_BLOB)
			blobs[i] = text;
		else
			memcpy(out + i * 8, &bits, 8);
	}
	rc = append_values(hdf, column, out, rows, err);
	for (size_t i = 0; kind == KIND_TEXT && i < rows; i++)
		free(texts[i]);
	return rc;
}

static int write_hdf_rows(struct ws_table_writer *writer, const struct ws_view_cell *cells,
			  size_t count, struct ws_err *err)
{
	struct hdf_writer *hdf = (struct hdf_writer *)writer;

	for (size_t i = 0; i < hdf->columns; i++)
		if (append_cells(hdf, i, cells, count, err) < 0)
			return -1;
	hdf->rows += count;
	return 0;
}

/* ---- views ---- */

static enum column_kind choose_kind(const struct ws_table_view *view,
				    const struct ws_view_column *column)
{
	static const enum column_kind kinds[] = {
		[WS_VECTOR_NULL] = KIND_I64,  [WS_VECTOR_U8] = KIND_U8,
		[WS_VECTOR_U32] = KIND_U32,   [WS_VECTOR_I32] = KIND_I32,
		[WS_VECTOR_U64] = KIND_U64,   [WS_VECTOR_I64] = KIND_I64,
		[WS_VECTOR_F64] = KIND_F64,   [WS_VECTOR_STRING] = KIND_U32,
		[WS_VECTOR_TEXT] = KIND_TEXT, [WS_VECTOR_BLOB] = KIND_BLOB};
	enum ws_vector_type type = ws_find_vector_type(view, column);

	if (type == WS_VECTOR_NULL && *column->type == 'T')
		return KIND_TEXT;
	return kinds[type];
}

static int begin_hdf_view(struct hdf_writer *hdf, const struct ws_table_view *view,
			  struct ws_err *err)
{
	uint64_t rows = ws_report_count_rows(hdf->export->report, view->source);

	hdf->chunk = ws_max(ws_min(rows, (uint64_t)MOST_CHUNK), (uint64_t)LEAST_CHUNK);
	if (begin_hdf_table(hdf, &view->table, err) < 0)
		return -1;
	for (size_t i = 0; i < view->table.column_count; i++)
		if (add_dataset(hdf, &view->table.columns[i],
				choose_kind(view, &view->table.columns[i]), err) < 0)
			return -1;
	return 0;
}

static bool is_null(const struct ws_column_vector *vector, size_t row)
{
	return vector->valid && !(vector->valid[row >> 3] >> (row & 7) & 1);
}

/* Write the null value into the worker's own array, whose null rows hold arbitrary values. */
static void fill_nulls(struct ws_column_vector *vector, enum column_kind kind, size_t rows)
{
	uint64_t none = find_null_bits(kind);
	size_t width = find_width(kind);

	for (size_t i = 0; vector->valid && i < rows; i++)
		if (is_null(vector, i))
			memcpy((char *)vector->data + i * width, &none, width);
}

static int append_texts(struct hdf_writer *hdf, size_t column,
			const struct ws_column_vector *vector, size_t rows, struct ws_err *err)
{
	bool blob = hdf->column[column].kind == KIND_BLOB;
	void *out = reserve_scratch(hdf, rows * sizeof(struct hdf5_vlen));
	struct hdf5_vlen *blobs = out;
	const char **texts = out;
	const uint32_t *ids = vector->data;

	for (size_t i = 0; i < rows; i++) {
		uint32_t id = 0;
		size_t length;

		if (!is_null(vector, i) && vector->type != WS_VECTOR_NULL)
			id = ids[i];
		if (blob)
			blobs[i].bytes =
				ws_report_string(hdf->export->report, id, &blobs[i].length);
		else if (id)
			texts[i] = ws_find_valid_text(hdf->export, id, &length);
		else
			texts[i] = "";
	}
	return append_values(hdf, column, out, rows, err);
}

static int put_hdf_batch(void *context, const struct ws_column_batch *batch, struct ws_err *err)
{
	struct hdf_writer *hdf = context;

	if (!hdf->columns && begin_hdf_view(hdf, batch->view, err) < 0)
		return -1;
	for (size_t i = 0; i < hdf->columns; i++) {
		struct ws_column_vector *vector = (struct ws_column_vector *)&batch->columns[i];
		int rc;

		if (hdf->column[i].kind >= KIND_TEXT) {
			rc = append_texts(hdf, i, vector, batch->rows, err);
		} else {
			fill_nulls(vector, hdf->column[i].kind, batch->rows);
			rc = append_values(hdf, i, vector->data, batch->rows, err);
		}
		if (rc < 0)
			return -1;
	}
	hdf->rows += batch->rows;
	return 0;
}

static int write_hdf_view(struct ws_table_writer *writer, struct ws_cell_context *export,
			  const struct ws_table_view *xview, uint64_t *count, struct ws_err *err)
{
	struct hdf_writer *hdf = (struct hdf_writer *)writer;
	struct ws_column_consumer user = {.put_batch = put_hdf_batch, .context = hdf};

	hdf->export = export;
	if (close_hdf_table(hdf) < 0)
		return fail_hdf_write(hdf, err);
	if (ws_scan_columns(export, xview, UINT64_MAX, &user, count, err) < 0)
		return -1;
	if (!hdf->columns && !export->lazy)
		return begin_hdf_view(hdf, xview, err);
	return 0;
}

/* ---- opening and closing ---- */

static int close_hdf(struct ws_table_writer *writer, bool keep, struct ws_err *err)
{
	struct hdf_writer *hdf = (struct hdf_writer *)writer;
	int rc = close_hdf_table(hdf);

	if (hdf->text > 0)
		hdf->hdf5.H5Tclose(hdf->text);
	if (hdf->blob > 0)
		hdf->hdf5.H5Tclose(hdf->blob);
	if (hdf->file > 0 && hdf->hdf5.H5Fclose(hdf->file) < 0)
		rc = -1;
	if (rc < 0 && keep)
		fail_hdf_write(hdf, err);
	free(hdf->scratch);
	free(hdf);
	if (!keep)
		return 0;
	return rc;
}

static int open_hdf_file(struct hdf_writer *hdf, struct ws_err *err)
{
	if (open_hdf_library(&hdf->hdf5, err) < 0)
		return -1;
	hdf->text = hdf->hdf5.H5Tcopy(hdf->hdf5.H5T_C_S1_g);
	hdf->hdf5.H5Tset_size(hdf->text, HDF5_VARIABLE);
	hdf->hdf5.H5Tset_cset(hdf->text, HDF5_UTF8);
	hdf->blob = hdf->hdf5.H5Tvlen_create(hdf->hdf5.H5T_NATIVE_UINT8_g);
	hdf->file = hdf->hdf5.H5Fcreate(hdf->path, HDF5_TRUNCATE, 0, 0);
	if (hdf->file < 0)
		return fail_hdf_write(hdf, err);
	return 0;
}

struct ws_table_writer *ws_open_format_hdf(const struct ws_export_target *target,
					   struct ws_err *err)
{
	struct hdf_writer *hdf = ws_calloc(1, sizeof(*hdf));

	hdf->writer = (struct ws_table_writer){.begin_table = begin_made_table,
					       .write_rows = write_hdf_rows,
					       .close_writer = close_hdf,
					       .write_view = write_hdf_view};
	hdf->path = target->path;
	hdf->name = target->name;
	if (open_hdf_file(hdf, err) < 0) {
		close_hdf(&hdf->writer, false, NULL);
		return NULL;
	}
	return &hdf->writer;
}
