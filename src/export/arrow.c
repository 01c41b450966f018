/*
 * arrow.c - tables as Arrow: a stream for each table, one after another (arrow), or a folder with a
 * file for each table (arrowdir).
 *
 * Columns are those of the SQLite export, in the narrowest type that their source promises; columns
 * that are never filled have the type null. Texts are dictionary-encoded, with one dictionary per
 * table: a first pass over the text columns finds which texts it needs. A column of StringIds
 * numbers stays numeric, so that queries for the other exports work. Its text follows in a column
 * named without Id (or with Value added, if that name is taken or there is no Id). Tables that are
 * made row by row have plain texts.
 *
 * Batches are the blocks of the report: rows are in order of start within a batch and thread, not
 * over the whole table.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "export/arrow_ipc.h"
#include "base/choose.h"
#include "export/formats.h"

enum { MOST_MADE_ROWS = 65536, MOST_MADE_BYTES = 32 << 20, MOST_DICTIONARY_BYTES = 64 << 20 };

/* A column of a table that is made row by row: the values that are not written yet. */
struct made_column {
	struct ws_text data, offsets, valid;
	int64_t nulls;
};

/* What a worker makes from a batch. */
struct made_batch {
	struct ws_arrow_batch batch;
	uint32_t *codes[2 * WS_MAX_COLUMNS]; /* of text fields */
	uint8_t *valid[2 * WS_MAX_COLUMNS];
	size_t capacity;					       /* rows */
	struct ws_text offsets[WS_MAX_COLUMNS], bytes[WS_MAX_COLUMNS]; /* of blobs */
};

struct arrow_writer {
	struct ws_table_writer writer;
	FILE *file;
	bool folder, append;
	const char *path, *name; /* of the folder; of the output, for messages */
	struct ws_arrow_output out;
	bool begun;

	struct ws_view_table
		copy; /* of the open table: the caller's copy may be gone when the file is closed */
	const struct ws_view_table *table;
	struct ws_arrow_field fields[2 * WS_MAX_COLUMNS];
	uint8_t column[2 * WS_MAX_COLUMNS]; /* of a field: the column it is made from */
	char *names[WS_MAX_COLUMNS];	    /* of text fields, ours to free */
	size_t field_count, name_count;

	struct made_column made[WS_MAX_COLUMNS];
	int64_t made_rows;
	struct ws_arrow_batch batch;

	struct ws_cell_context *export; /* of a view */
	struct made_batch *workers;
	uint32_t worker_count;
	uint32_t *text_codes; /* by string: its number in the dictionary of the table + 1 */
	uint32_t text_code_count;
};

static int fail_arrow_write(struct arrow_writer *arrow, struct ws_err *err)
{
	return ws_fail_errno(err, "cannot write %s", arrow->name);
}

/* ---- one table's stream or file ---- */

static char *make_table_path(const struct arrow_writer *arrow, const char *table)
{
	return ws_format("%s/%s.arrow", arrow->path, table);
}

static int open_table_file(struct arrow_writer *arrow, struct ws_err *err)
{
	char *path;
	int fd;

	if (!arrow->folder)
		return 0;
	path = make_table_path(arrow, arrow->table->name);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	free(path);
	if (fd < 0)
		return fail_arrow_write(arrow, err);
	arrow->file = fdopen(fd, "w");
	if (!arrow->file) {
		fail_arrow_write(arrow, err);
		close(fd);
		return -1;
	}
	return 0;
}

static void describe_table(const struct arrow_writer *arrow, const char **pairs)
{
	pairs[0] = "table_name";
	pairs[1] = arrow->table->name;
	pairs[2] = "description";
	pairs[3] = arrow->table->doc;
	pairs[4] = NULL;
}

static int begin_arrow(struct arrow_writer *arrow, struct ws_err *err)
{
	const char *pairs[5];

	if (open_table_file(arrow, err) < 0)
		return -1;
	describe_table(arrow, pairs);
	arrow->begun = true;
	if (ws_begin_arrow_stream(&arrow->out, arrow->file, arrow->folder, arrow->fields,
				  arrow->field_count, pairs) < 0)
		return fail_arrow_write(arrow, err);
	return 0;
}

static int end_arrow(struct arrow_writer *arrow, struct ws_err *err)
{
	const char *pairs[5];
	int rc;

	if (!arrow->begun)
		return 0;
	arrow->begun = false;
	describe_table(arrow, pairs);
	rc = ws_end_arrow_stream(&arrow->out, arrow->fields, arrow->field_count, pairs);
	if (arrow->folder && arrow->file) {
		if (fclose(arrow->file))
			rc = -1;
		arrow->file = NULL;
	}
	if (rc < 0)
		return fail_arrow_write(arrow, err);
	return 0;
}

/* ---- fields ---- */

static struct ws_arrow_field *add_arrow_field(struct arrow_writer *arrow, size_t column,
					      enum ws_arrow_kind kind, unsigned bits)
{
	const struct ws_view_column *description = &arrow->table->columns[column];
	struct ws_arrow_field *field = &arrow->fields[arrow->field_count];

	arrow->column[arrow->field_count++] = (uint8_t)column;
	*field = (struct ws_arrow_field){.name = description->name,
					 .doc = description->doc,
					 .kind = kind,
					 .bits = bits,
					 .not_null = description->not_null};
	return field;
}

static void clear_arrow_fields(struct arrow_writer *arrow)
{
	while (arrow->name_count)
		free(arrow->names[--arrow->name_count]);
	arrow->field_count = 0;
}

static void add_arrow_view_field(struct arrow_writer *arrow, const struct ws_table_view *view,
				 size_t i)
{
	const struct ws_view_column *column = &view->table.columns[i];
	struct ws_arrow_field *field;

	switch (ws_find_vector_type(view, column)) {
	case WS_VECTOR_NULL:
		add_arrow_field(arrow, i, WS_ARROW_NULL, 0);
		break;
	case WS_VECTOR_U8:
		add_arrow_field(arrow, i, WS_ARROW_UINT, 8);
		break;
	case WS_VECTOR_U32:
		add_arrow_field(arrow, i, WS_ARROW_UINT, 32);
		break;
	case WS_VECTOR_I32:
		add_arrow_field(arrow, i, WS_ARROW_INT, 32);
		break;
	case WS_VECTOR_U64:
		add_arrow_field(arrow, i, WS_ARROW_UINT, 64);
		break;
	case WS_VECTOR_I64:
		field = add_arrow_field(arrow, i, WS_ARROW_INT, 64);
		if (column->from == WS_FROM_TIME || column->from == WS_FROM_TIME_OR_NULL)
			field->unit = "ns";
		break;
	case WS_VECTOR_F64:
		add_arrow_field(arrow, i, WS_ARROW_DOUBLE, 0);
		break;
	case WS_VECTOR_TEXT:
		add_arrow_field(arrow, i, WS_ARROW_DICTIONARY, 0);
		break;
	case WS_VECTOR_BLOB:
		add_arrow_field(arrow, i, WS_ARROW_BINARY, 0);
		break;
	case WS_VECTOR_STRING:
		add_arrow_field(arrow, i, WS_ARROW_UINT, 32);
		field = add_arrow_field(arrow, i, WS_ARROW_DICTIONARY, 0);
		field->name = arrow->names[arrow->name_count++] =
			ws_make_text_column_name(&view->table, column);
		field->not_null = false;
		break;
	}
}

/* ---- tables made row by row ---- */

static void add_made_field(struct arrow_writer *arrow, size_t i)
{
	switch (*arrow->table->columns[i].type) {
	case 'R':
		add_arrow_field(arrow, i, WS_ARROW_DOUBLE, 0);
		break;
	case 'T':
		add_arrow_field(arrow, i, WS_ARROW_UTF8, 0);
		break;
	case 'B':
		add_arrow_field(arrow, i, WS_ARROW_BINARY, 0);
		break;
	default:
		add_arrow_field(arrow, i, WS_ARROW_INT, 64);
	}
}

static bool has_offsets(const struct ws_arrow_field *field)
{
	return field->kind == WS_ARROW_UTF8 || field->kind == WS_ARROW_BINARY;
}

static int flush_made(struct arrow_writer *arrow, struct ws_err *err)
{
	if (!arrow->made_rows)
		return 0;
	ws_clear_arrow_batch(&arrow->batch, arrow->made_rows);
	for (size_t i = 0; i < arrow->field_count; i++) {
		struct made_column *column = &arrow->made[i];

		const void *valid = NULL;

		if (column->nulls)
			valid = column->valid.text;
		ws_add_arrow_field(&arrow->batch, arrow->made_rows, column->nulls, valid);
		if (has_offsets(&arrow->fields[i])) {
			uint32_t last = (uint32_t)column->data.len;

			ws_text_add(&column->offsets, &last, 4);
			ws_add_arrow_buffer(&arrow->batch, column->offsets.text,
					    column->offsets.len);
		}
		ws_add_arrow_buffer(&arrow->batch, column->data.text, column->data.len);
	}
	ws_seal_arrow_batch(&arrow->batch, -1, false);
	if (ws_put_arrow_batch(&arrow->out, &arrow->batch, false) < 0)
		return fail_arrow_write(arrow, err);
	for (size_t i = 0; i < arrow->field_count; i++) {
		struct made_column *column = &arrow->made[i];

		column->data.len = column->offsets.len = column->valid.len = 0;
		column->nulls = 0;
	}
	arrow->made_rows = 0;
	return 0;
}

static int finish_arrow_table(struct arrow_writer *arrow, struct ws_err *err)
{
	if (flush_made(arrow, err) < 0)
		return -1;
	return end_arrow(arrow, err);
}

static int begin_arrow_table(struct ws_table_writer *writer, const struct ws_view_table *xtable,
			     struct ws_err *err)
{
	struct arrow_writer *arrow = (struct arrow_writer *)writer;

	if (finish_arrow_table(arrow, err) < 0)
		return -1;
	arrow->copy = *xtable;
	arrow->table = &arrow->copy;
	clear_arrow_fields(arrow);
	for (size_t i = 0; i < xtable->column_count; i++)
		add_made_field(arrow, i);
	return begin_arrow(arrow, err);
}

static void append_made_cell(struct made_column *column, const struct ws_arrow_field *field,
			     const struct ws_view_cell *cell, int64_t row)
{
	uint8_t bit = (uint8_t)(1 << (row & 7)), none = 0;
	uint64_t bits = ws_get_cell_bits(cell);
	uint32_t offset = (uint32_t)column->data.len;

	if (!(row & 7))
		ws_text_add(&column->valid, &none, 1);
	if (cell->kind == WS_VIEW_NULL)
		column->nulls++;
	else
		column->valid.text[row >> 3] = (char)(column->valid.text[row >> 3] | bit);
	if (!has_offsets(field)) {
		ws_text_add(&column->data, &bits, 8);
		return;
	}
	ws_text_add(&column->offsets, &offset, 4);
	if (cell->kind == WS_VIEW_TEXT || cell->kind == WS_VIEW_BLOB)
		ws_text_add(&column->data, cell->text, cell->n);
}

static int write_arrow_rows(struct ws_table_writer *writer, const struct ws_view_cell *cells,
			    size_t count, struct ws_err *err)
{
	struct arrow_writer *arrow = (struct arrow_writer *)writer;

	for (; count--; cells += arrow->field_count) {
		size_t most = 0;

		for (size_t i = 0; i < arrow->field_count; i++) {
			append_made_cell(&arrow->made[i], &arrow->fields[i], &cells[i],
					 arrow->made_rows);
			most = ws_max(arrow->made[i].data.len, most);
		}
		arrow->made_rows++;
		if ((arrow->made_rows == MOST_MADE_ROWS || most > MOST_MADE_BYTES) &&
		    flush_made(arrow, err) < 0)
			return -1;
	}
	return 0;
}

/* ---- the dictionary of a view ---- */

static int mark_texts(void *context, const struct ws_column_batch *batch, struct ws_err *err)
{
	struct arrow_writer *arrow = context;

	(void)err;
	for (size_t i = 0; i < arrow->table->column_count; i++) {
		const uint32_t *ids = batch->columns[i].data;

		if (batch->columns[i].type != WS_VECTOR_TEXT &&
		    batch->columns[i].type != WS_VECTOR_STRING)
			continue;
		for (size_t k = 0; k < batch->rows; k++)
			if (ids[k] < arrow->text_code_count &&
			    !__atomic_load_n(&arrow->text_codes[ids[k]], __ATOMIC_RELAXED))
				__atomic_store_n(&arrow->text_codes[ids[k]], 1, __ATOMIC_RELAXED);
	}
	return 0;
}

/* Number the texts that occur, in order of their ids. Returns 1, 0 when the table has no columns of
 * texts, or -1 with a message. */
static int number_texts(struct arrow_writer *arrow, const struct ws_table_view *view,
			struct ws_err *err)
{
	struct ws_column_consumer user = {.make_batch = mark_texts, .context = arrow};
	uint64_t wanted = 0;
	uint32_t count = 0;

	for (size_t i = 0; i < view->table.column_count; i++) {
		enum ws_vector_type xtype = ws_find_vector_type(view, &view->table.columns[i]);

		if (xtype == WS_VECTOR_TEXT || xtype == WS_VECTOR_STRING)
			wanted |= UINT64_C(1) << i;
	}
	if (!wanted)
		return 0;
	if (!arrow->text_codes)
		arrow->text_codes =
			ws_malloc((size_t)arrow->text_code_count * sizeof(*arrow->text_codes));
	memset(arrow->text_codes, 0, (size_t)arrow->text_code_count * sizeof(*arrow->text_codes));
	if (ws_scan_columns(arrow->export, view, wanted, &user, NULL, err) < 0)
		return -1;
	arrow->text_codes[0] = 0;
	for (uint32_t id = 1; id < arrow->text_code_count; id++)
		if (arrow->text_codes[id])
			arrow->text_codes[id] = ++count;
	return 1;
}

static int put_dictionary(struct arrow_writer *arrow, struct ws_text *offsets,
			  struct ws_text *bytes, int64_t count, bool delta, struct ws_err *err)
{
	uint32_t last = (uint32_t)bytes->len;

	ws_text_add(offsets, &last, 4);
	ws_clear_arrow_batch(&arrow->batch, count);
	ws_add_arrow_field(&arrow->batch, count, 0, NULL);
	ws_add_arrow_buffer(&arrow->batch, offsets->text, offsets->len);
	ws_add_arrow_buffer(&arrow->batch, bytes->text, bytes->len);
	ws_seal_arrow_batch(&arrow->batch, 0, delta);
	offsets->len = bytes->len = 0;
	if (ws_put_arrow_batch(&arrow->out, &arrow->batch, true) < 0)
		return fail_arrow_write(arrow, err);
	return 0;
}

/* Write the texts in pieces, so that a report with very many texts need not fit into memory. */
static int put_dictionaries(struct arrow_writer *arrow, struct ws_err *err)
{
	struct ws_text offsets = {0}, bytes = {0};
	int64_t count = 0;
	bool delta = false;
	int rc = 0;

	for (uint32_t id = 1; !rc && id < arrow->text_code_count; id++) {
		uint32_t offset = (uint32_t)bytes.len;
		const char *text;
		size_t length;

		if (!arrow->text_codes[id])
			continue;
		text = ws_find_valid_text(arrow->export, id, &length);
		ws_text_add(&offsets, &offset, 4);
		ws_text_add(&bytes, text, length);
		count++;
		if (bytes.len > MOST_DICTIONARY_BYTES) {
			rc = put_dictionary(arrow, &offsets, &bytes, count, delta, err);
			delta = true;
			count = 0;
		}
	}
	if (!rc && (count || !delta))
		rc = put_dictionary(arrow, &offsets, &bytes, count, delta, err);
	ws_text_free(&offsets);
	ws_text_free(&bytes);
	return rc;
}

/* ---- views ---- */

static void reserve_rows(struct arrow_writer *arrow, struct made_batch *batch, size_t rows)
{
	if (rows <= batch->capacity)
		return;
	for (size_t i = 0; i < arrow->field_count; i++) {
		if (arrow->fields[i].kind != WS_ARROW_DICTIONARY)
			continue;
		batch->codes[i] = ws_realloc(batch->codes[i], rows * 4);
		batch->valid[i] = ws_realloc(batch->valid[i], (rows + 7) / 8);
	}
	batch->capacity = rows;
}

static void add_texts(struct arrow_writer *arrow, struct made_batch *batch, size_t field,
		      const struct ws_column_vector *vector, size_t rows)
{
	const uint32_t *ids = vector->data;
	uint32_t *codes = batch->codes[field];
	uint8_t *valid = batch->valid[field];
	int64_t nulls = 0;

	memset(valid, 0, (rows + 7) / 8);
	for (size_t i = 0; i < rows; i++) {
		uint32_t code = 0;

		if (ids[i] < arrow->text_code_count)
			code = arrow->text_codes[ids[i]];
		codes[i] = code - (code != 0);
		valid[i >> 3] |= (uint8_t)((code != 0) << (i & 7));
		nulls += !code;
	}
	if (!nulls)
		valid = NULL;
	ws_add_arrow_field(&batch->batch, (int64_t)rows, nulls, valid);
	ws_add_arrow_buffer(&batch->batch, codes, rows * 4);
}

static int add_blobs(struct arrow_writer *arrow, struct made_batch *batch,
		     const struct ws_column_vector *vector, size_t column, size_t rows,
		     struct ws_err *err)
{
	struct ws_text *offsets = &batch->offsets[column], *bytes = &batch->bytes[column];
	const uint32_t *ids = vector->data;
	uint32_t offset = 0;

	offsets->len = bytes->len = 0;
	for (size_t i = 0; i < rows; i++) {
		const char *text = "";
		size_t length = 0;

		if (ids[i])
			text = ws_report_string(arrow->export->report, ids[i], &length);

		ws_text_add(offsets, &offset, 4);
		ws_text_add(bytes, text, length);
		if (bytes->len > INT32_MAX)
			return ws_fail(
				err, "cannot write %s: a block of %s has more than 2 GiB of bytes",
				arrow->name, arrow->table->name);
		offset = (uint32_t)bytes->len;
	}
	ws_text_add(offsets, &offset, 4);
	ws_add_arrow_field(&batch->batch, (int64_t)rows, (int64_t)vector->nulls, vector->valid);
	ws_add_arrow_buffer(&batch->batch, offsets->text, offsets->len);
	ws_add_arrow_buffer(&batch->batch, bytes->text, bytes->len);
	return 0;
}

static int make_arrow_batch(void *context, const struct ws_column_batch *batch, struct ws_err *err)
{
	struct arrow_writer *arrow = context;
	struct made_batch *made = &arrow->workers[batch->worker];

	reserve_rows(arrow, made, batch->rows);
	ws_clear_arrow_batch(&made->batch, (int64_t)batch->rows);
	for (size_t i = 0; i < arrow->field_count; i++) {
		const struct ws_column_vector *vector = &batch->columns[arrow->column[i]];

		if (arrow->fields[i].kind == WS_ARROW_DICTIONARY) {
			add_texts(arrow, made, i, vector, batch->rows);
		} else if (arrow->fields[i].kind == WS_ARROW_NULL) {
			ws_add_arrow_null_field(&made->batch, (int64_t)batch->rows);
		} else if (arrow->fields[i].kind == WS_ARROW_BINARY) {
			if (add_blobs(arrow, made, vector, arrow->column[i], batch->rows, err) < 0)
				return -1;
		} else {
			ws_add_arrow_field(&made->batch, (int64_t)batch->rows,
					   (int64_t)vector->nulls, vector->valid);
			ws_add_arrow_buffer(&made->batch, vector->data,
					    batch->rows * ws_find_vector_width(vector->type));
		}
	}
	ws_seal_arrow_batch(&made->batch, -1, false);
	return 0;
}

static int begin_arrow_view(struct arrow_writer *arrow, struct ws_err *err)
{
	bool texts = false;

	for (size_t i = 0; i < arrow->field_count; i++)
		texts |= arrow->fields[i].kind == WS_ARROW_DICTIONARY;
	if (begin_arrow(arrow, err) < 0)
		return -1;
	if (texts)
		return put_dictionaries(arrow, err);
	return 0;
}

static int put_arrow_batch(void *context, const struct ws_column_batch *batch, struct ws_err *err)
{
	struct arrow_writer *arrow = context;

	if (!arrow->begun && begin_arrow_view(arrow, err) < 0)
		return -1;
	if (ws_put_arrow_batch(&arrow->out, &arrow->workers[batch->worker].batch, false) < 0)
		return fail_arrow_write(arrow, err);
	return 0;
}

static void free_workers(struct arrow_writer *arrow)
{
	for (uint32_t i = 0; i < arrow->worker_count; i++) {
		struct made_batch *batch = &arrow->workers[i];

		for (size_t k = 0; k < WS_COUNT(batch->codes); k++) {
			free(batch->codes[k]);
			free(batch->valid[k]);
		}
		for (size_t k = 0; k < WS_COUNT(batch->offsets); k++) {
			ws_text_free(&batch->offsets[k]);
			ws_text_free(&batch->bytes[k]);
		}
		ws_free_arrow_batch(&batch->batch);
	}
	free(arrow->workers);
	arrow->workers = NULL;
}

static int write_arrow_view(struct ws_table_writer *writer, struct ws_cell_context *export,
			    const struct ws_table_view *xview, uint64_t *count, struct ws_err *err)
{
	struct arrow_writer *arrow = (struct arrow_writer *)writer;
	struct ws_column_consumer user = {
		.make_batch = make_arrow_batch, .put_batch = put_arrow_batch, .context = arrow};
	int rc;

	if (finish_arrow_table(arrow, err) < 0)
		return -1;
	arrow->table = &xview->table;
	arrow->export = export;
	arrow->text_code_count = export->string_count + 1;
	clear_arrow_fields(arrow);
	for (size_t i = 0; i < xview->table.column_count; i++)
		add_arrow_view_field(arrow, xview, i);
	if (number_texts(arrow, xview, err) < 0)
		return -1;
	arrow->worker_count = ws_count_column_workers();
	arrow->workers = ws_calloc(arrow->worker_count, sizeof(*arrow->workers));
	rc = ws_scan_columns(export, xview, UINT64_MAX, &user, count, err);
	free_workers(arrow);
	if (!rc && !arrow->begun && !export->lazy)
		rc = begin_arrow_view(arrow, err);
	if (rc < 0)
		return -1;
	return end_arrow(arrow, err);
}

/* ---- opening and closing ---- */

static bool has_arrow_file(struct ws_table_writer *writer, const char *name)
{
	struct arrow_writer *arrow = (struct arrow_writer *)writer;
	char *path = make_table_path(arrow, name);
	bool there = arrow->append && !access(path, F_OK);

	free(path);
	return there;
}

static int close_arrow(struct ws_table_writer *writer, bool keep, struct ws_err *err)
{
	struct arrow_writer *arrow = (struct arrow_writer *)writer;
	int rc = 0;

	if (keep)
		rc = finish_arrow_table(arrow, err);
	if (arrow->folder && arrow->file)
		fclose(arrow->file);
	for (size_t i = 0; i < WS_COUNT(arrow->made); i++) {
		ws_text_free(&arrow->made[i].data);
		ws_text_free(&arrow->made[i].offsets);
		ws_text_free(&arrow->made[i].valid);
	}
	clear_arrow_fields(arrow);
	ws_free_arrow_batch(&arrow->batch);
	ws_free_arrow_output(&arrow->out);
	free(arrow->text_codes);
	free(arrow);
	return rc;
}

static struct ws_table_writer *open_arrow(const struct ws_export_target *target, bool folder)
{
	struct arrow_writer *arrow = ws_calloc(1, sizeof(*arrow));

	arrow->writer = (struct ws_table_writer){.begin_table = begin_arrow_table,
						 .write_rows = write_arrow_rows,
						 .close_writer = close_arrow,
						 .write_view = write_arrow_view};
	if (folder)
		arrow->writer.has_table = has_arrow_file;
	else
		arrow->file = target->file;
	arrow->folder = folder;
	arrow->append = target->append;
	arrow->path = target->path;
	arrow->name = ws_name_target(target);
	return &arrow->writer;
}

struct ws_table_writer *ws_open_format_arrow(const struct ws_export_target *target,
					     struct ws_err *err)
{
	(void)err;
	return open_arrow(target, false);
}

struct ws_table_writer *ws_open_format_arrowdir(const struct ws_export_target *target,
						struct ws_err *err)
{
	(void)err;
	return open_arrow(target, true);
}
