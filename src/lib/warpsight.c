/*
 * warpsight.c - libwarpsight: the reading API over store/ and query/; see
 * include/warpsight/warpsight.h.
 *
 * Columns are decoded to 64-bit values, which is what Arrow's uint64, int64 and float64 are: a
 * batch's buffers are the decoded arrays, and its release frees them. Only the bitmap of nulls is
 * made in addition, and only for columns that can be null. Reports are reference-counted: every
 * stream, batch and dictionary holds one reference.
 */
#include "warpsight/warpsight.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/text.h"
#include "query/query.h"
#include "query/window.h"

struct warpsight_report {
	struct ws_report *report;
	uint64_t zero, last;
	int refs;
	pthread_mutex_t lock;
	/* The dictionary of all texts, made when a stream first wants it. */
	char *text;
	int64_t *offsets;
	uint8_t *valid; /* all but number 0 */
	uint32_t count;
};

static __thread char message[1024];

static int set_error(const char *format, const char *first, const char *second)
{
	snprintf(message, sizeof(message), format, first, second);
	return -1;
}

const char *warpsight_error(void)
{
	return message;
}

int warpsight_api_version(void)
{
	return WARPSIGHT_API_VERSION;
}

const char *warpsight_version(void)
{
	return WS_VERSION;
}

/* ---- reports ---- */

static struct warpsight_report *add_reference(struct warpsight_report *report)
{
	__atomic_fetch_add(&report->refs, 1, __ATOMIC_RELAXED);
	return report;
}

static void drop_reference(struct warpsight_report *report)
{
	if (__atomic_sub_fetch(&report->refs, 1, __ATOMIC_ACQ_REL))
		return;
	ws_report_close(report->report);
	pthread_mutex_destroy(&report->lock);
	free(report->text);
	free(report->offsets);
	free(report->valid);
	free(report);
}

warpsight_report *warpsight_open(const char *path)
{
	struct warpsight_report *report;
	struct ws_err err;
	struct ws_report *file = ws_report_open(path, &err);

	if (!file) {
		set_error("%s%s", err.msg, "");
		return NULL;
	}
	report = ws_calloc(1, sizeof(*report));
	report->report = file;
	report->zero = ws_find_time_zero(file);
	report->last = ws_find_time_last(file);
	report->refs = 1;
	pthread_mutex_init(&report->lock, NULL);
	return report;
}

void warpsight_close(warpsight_report *report)
{
	if (report)
		drop_reference(report);
}

int warpsight_complete(const warpsight_report *report)
{
	return ws_report_is_complete(report->report);
}

const char *warpsight_damage(const warpsight_report *report, size_t i)
{
	return ws_report_get_damage(report->report, i);
}

uint64_t warpsight_time_zero(const warpsight_report *report)
{
	return report->zero;
}

uint64_t warpsight_time_last(const warpsight_report *report)
{
	return report->last;
}

const char *warpsight_fact(const warpsight_report *report, const char *name)
{
	return ws_find_meta(report->report, name);
}

const char *warpsight_string(const warpsight_report *report, uint32_t number, size_t *len)
{
	return ws_report_string(report->report, number, len);
}

uint32_t warpsight_strings(const warpsight_report *report)
{
	return ws_report_string_count(report->report);
}

/* ---- tables ---- */

const char *warpsight_table(size_t i)
{
	if (i >= WS_TABLE_COUNT)
		return NULL;
	return ws_tables[i].name;
}

const char *warpsight_table_doc(const char *table)
{
	int number = ws_table_find(table);

	if (number < 0)
		return NULL;
	return ws_tables[number].doc;
}

uint64_t warpsight_rows(const warpsight_report *report, const char *table)
{
	int number = ws_table_find(table);

	if (number < 0)
		return 0;
	return ws_report_count_rows(report->report, (enum ws_table)number);
}

static enum warpsight_type find_api_type(enum ws_type type)
{
	switch (type) {
	case WS_T_TIME:
	case WS_T_NTIME:
		return WARPSIGHT_TIME;
	case WS_T_I32:
	case WS_T_I64:
		return WARPSIGHT_SIGNED;
	case WS_T_F64:
		return WARPSIGHT_REAL;
	case WS_T_STR:
		return WARPSIGHT_STRING;
	case WS_T_THREAD:
	case WS_T_NTHREAD:
		return WARPSIGHT_THREAD;
	case WS_T_PROCESS:
		return WARPSIGHT_PROCESS;
	default:
		return WARPSIGHT_NUMBER;
	}
}

static bool is_nullable(enum ws_type type)
{
	return type == WS_T_NTIME || type == WS_T_NU32 || type == WS_T_NU64 || type == WS_T_STR ||
	       type == WS_T_NTHREAD;
}

/* The value that stands for null. */
static uint64_t null_value(enum ws_type type)
{
	if (type == WS_T_NU32)
		return WS_NO_U32;
	if (type == WS_T_NTIME || type == WS_T_NU64)
		return UINT64_MAX;
	return 0;
}

int warpsight_column(const char *table, size_t i, struct warpsight_column *out)
{
	int number = ws_table_find(table);
	const struct ws_column_desc *desc;

	if (number < 0)
		return set_error("there is no table '%s'%s", table, "");
	if (i >= ws_tables[number].column_count)
		return set_error("the table %s has no more columns%s", table, "");
	desc = &ws_tables[number].columns[i];
	*out = (struct warpsight_column){desc->name, desc->sqlite, desc->doc,
					 find_api_type(desc->type), is_nullable(desc->type)};
	return 0;
}

/* ---- schemas ---- */

static void release_schema(struct ArrowSchema *schema)
{
	for (int64_t i = 0; i < schema->n_children; i++) {
		if (schema->children[i]->release)
			schema->children[i]->release(schema->children[i]);
		free(schema->children[i]);
	}
	free(schema->children);
	if (schema->dictionary) {
		if (schema->dictionary->release)
			schema->dictionary->release(schema->dictionary);
		free(schema->dictionary);
	}
	schema->release = NULL;
}

static void fill_schema(struct ArrowSchema *schema, const char *format, const char *name, bool null)
{
	*schema = (struct ArrowSchema){.format = format, .name = name, .release = release_schema};
	if (null)
		schema->flags = ARROW_FLAG_NULLABLE;
}

/* ---- streams ---- */

struct report_stream {
	struct warpsight_report *report;
	enum ws_table table;
	unsigned flags;
	uint8_t column[WS_MAX_COLUMNS]; /* of the table, in the order wanted */
	uint32_t columns;
	uint64_t mask;
	struct ws_window window;
	size_t block;
	char error[sizeof(message)];
};

static bool is_dictionary(const struct report_stream *stream, enum ws_type type)
{
	return type == WS_T_STR && !(stream->flags & WARPSIGHT_NUMBERS);
}

static const char *find_arrow_format(const struct report_stream *stream, enum ws_type type)
{
	bool is_signed;

	switch (find_api_type(type)) {
	case WARPSIGHT_TIME:
		is_signed = stream->flags & WARPSIGHT_FROM_ZERO;
		break;
	case WARPSIGHT_SIGNED:
		is_signed = true;
		break;
	case WARPSIGHT_REAL:
		return "g";
	default:
		is_signed = is_dictionary(stream, type);
	}
	if (is_signed)
		return "l";
	return "L";
}

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
	const struct report_stream *own = stream->private_data;

	fill_schema(out, "+s", "", false);
	out->n_children = own->columns;
	out->children = ws_calloc(own->columns + 1, sizeof(*out->children));
	for (uint32_t i = 0; i < own->columns; i++) {
		const struct ws_column_desc *desc = &ws_tables[own->table].columns[own->column[i]];

		out->children[i] = ws_malloc(sizeof(**out->children));
		fill_schema(out->children[i], find_arrow_format(own, desc->type), desc->name,
			    is_nullable(desc->type));
		if (is_dictionary(own, desc->type)) {
			out->children[i]->dictionary = ws_malloc(sizeof(**out->children));
			fill_schema(out->children[i]->dictionary, "U", "", true);
		}
	}
	return 0;
}

/* ---- the dictionary ---- */

static void make_dictionary(struct warpsight_report *report)
{
	struct ws_text all = {0};

	pthread_mutex_lock(&report->lock);
	if (!report->offsets) {
		report->count = ws_report_string_count(report->report) +
				1; /* number 0 is there too, as null */
		report->valid = ws_malloc(report->count / 8 + 1);
		memset(report->valid, 0xff, report->count / 8 + 1);
		report->valid[0] &= 0xfe;
		report->offsets = ws_calloc((size_t)report->count + 1, sizeof(*report->offsets));
		ws_text_puts(&all, "");
		for (uint32_t id = 1; id < report->count; id++) {
			size_t len;
			const char *text = ws_report_string(report->report, id, &len);

			if (ws_is_valid_utf8(text, len))
				ws_text_add(&all, text, len);
			else
				ws_put_valid_utf8(&all, text, len);
			report->offsets[id + 1] = (int64_t)all.len;
		}
		report->text = all.text;
	}
	pthread_mutex_unlock(&report->lock);
}

/* ---- arrays ---- */

struct array_data { /* what one of ours holds */
	const void *buffers[3];
	void *owned[2];
	struct warpsight_report *report; /* of a dictionary */
};

static void release_array(struct ArrowArray *arrow)
{
	struct array_data *data = arrow->private_data;

	for (int64_t i = 0; i < arrow->n_children; i++) {
		if (arrow->children[i]->release)
			arrow->children[i]->release(arrow->children[i]);
		free(arrow->children[i]);
	}
	free(arrow->children);
	if (arrow->dictionary) {
		if (arrow->dictionary->release)
			arrow->dictionary->release(arrow->dictionary);
		free(arrow->dictionary);
	}
	free(data->owned[0]);
	free(data->owned[1]);
	if (data->report)
		drop_reference(data->report);
	free(data);
	arrow->release = NULL;
}

static struct array_data *fill_array(struct ArrowArray *arrow, int64_t length, int64_t buffers)
{
	struct array_data *data = ws_calloc(1, sizeof(*data));

	*arrow = (struct ArrowArray){.length = length,
				     .n_buffers = buffers,
				     .buffers = data->buffers,
				     .release = release_array,
				     .private_data = data};
	return data;
}

static struct ArrowArray *make_dictionary_array(struct warpsight_report *report)
{
	struct ArrowArray *arrow = ws_malloc(sizeof(*arrow));
	struct array_data *data;

	make_dictionary(report);
	data = fill_array(arrow, report->count, 3);
	data->report = add_reference(report);
	arrow->null_count = 1;
	data->buffers[0] = report->valid;
	data->buffers[1] = report->offsets;
	data->buffers[2] = report->text;
	return arrow;
}

/* The bitmap of what is not null; NULL when everything is. The caller frees it. */
static uint8_t *make_validity_bitmap(const uint64_t *values, size_t rows, uint64_t null,
				     int64_t *nulls)
{
	uint8_t *bits = NULL;

	*nulls = 0;
	for (size_t i = 0; i < rows; i++) {
		if (values[i] != null)
			continue;
		if (!bits) {
			bits = ws_malloc(rows / 8 + 1);
			memset(bits, 0xff, rows / 8 + 1);
		}
		bits[i / 8] &= (uint8_t) ~(1u << i % 8);
		++*nulls;
	}
	return bits;
}

/* Makes numbers that the dictionary does not have, of a damaged report, point to null. */
static void clear_bad_numbers(uint64_t *values, size_t rows, uint32_t count)
{
	for (size_t i = 0; i < rows; i++)
		if (values[i] >= count)
			values[i] = 0;
}

static void fill_column(const struct report_stream *stream, struct ArrowArray *arrow,
			enum ws_type type, uint64_t *values, size_t rows)
{
	struct array_data *data = fill_array(arrow, (int64_t)rows, 2);

	if (is_dictionary(stream, type)) {
		arrow->dictionary = make_dictionary_array(stream->report);
		clear_bad_numbers(values, rows, stream->report->count);
	}
	if (is_nullable(type))
		data->owned[0] =
			make_validity_bitmap(values, rows, null_value(type), &arrow->null_count);
	if (find_api_type(type) == WARPSIGHT_TIME && stream->flags & WARPSIGHT_FROM_ZERO)
		for (size_t i = 0; i < rows; i++)
			values[i] -= stream->report->zero;
	data->owned[1] = values;
	data->buffers[0] = data->owned[0];
	data->buffers[1] = values;
}

static int decode_columns(struct report_stream *stream, size_t i, uint64_t **col, size_t *rows)
{
	struct ws_block_info info = ws_report_block_info(stream->report->report, stream->table, i);
	struct ws_err err;

	for (uint64_t left = stream->window.columns; left; left &= left - 1)
		col[__builtin_ctzll(left)] = ws_malloc((size_t)info.rows * 8 + 8);
	if (ws_report_decode_block(stream->report->report, stream->table, i, stream->window.columns,
				   col, &err)) {
		snprintf(stream->error, sizeof(stream->error), "%s", err.msg);
		for (int column = 0; column < WS_MAX_COLUMNS; column++)
			free(col[column]);
		return EIO;
	}
	*rows = ws_window_filter(&stream->window, &info, col);
	return 0;
}

static void fill_batch(const struct report_stream *stream, uint64_t **col, size_t rows,
		       struct ArrowArray *out)
{
	bool taken[WS_MAX_COLUMNS] = {false};

	fill_array(out, (int64_t)rows, 1); /* a struct has only a bitmap, and this one needs none */
	out->n_children = stream->columns;
	out->children = ws_calloc(stream->columns + 1, sizeof(*out->children));
	for (uint32_t i = 0; i < stream->columns; i++) {
		uint8_t number = stream->column[i];

		out->children[i] = ws_malloc(sizeof(**out->children));
		fill_column(stream, out->children[i], ws_tables[stream->table].columns[number].type,
			    col[number], rows);
		taken[number] = true;
	}
	for (int place = 0; place < WS_MAX_COLUMNS; place++)
		if (!taken[place])
			free(col[place]);
}

static int get_next_batch(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
	struct report_stream *own = stream->private_data;
	size_t blocks = ws_report_count_blocks(own->report->report, own->table);

	memset(out, 0, sizeof(*out));
	while (own->block < blocks) {
		uint64_t *col[WS_MAX_COLUMNS] = {NULL};
		struct ws_block_info info =
			ws_report_block_info(own->report->report, own->table, own->block);
		size_t rows;
		int rc;

		if (!ws_window_touches(&own->window, info.time_min, info.time_max)) {
			own->block++;
			continue;
		}
		rc = decode_columns(own, own->block++, col, &rows);
		if (rc)
			return rc;
		if (rows) {
			fill_batch(own, col, rows, out);
			return 0;
		}
		for (int column = 0; column < WS_MAX_COLUMNS; column++)
			free(col[column]);
	}
	return 0; /* released: the end */
}

static const char *get_last_error(struct ArrowArrayStream *stream)
{
	const struct report_stream *own = stream->private_data;

	if (!*own->error)
		return NULL;
	return own->error;
}

static void release_stream(struct ArrowArrayStream *stream)
{
	struct report_stream *own = stream->private_data;

	drop_reference(own->report);
	free(own);
	stream->release = NULL;
}

static int choose_columns(struct report_stream *stream, const struct warpsight_scan *scan)
{
	if (!scan->column_count)
		stream->columns = ws_tables[stream->table].column_count;
	for (uint32_t i = 0; i < stream->columns; i++)
		stream->column[i] = (uint8_t)i;
	for (size_t i = 0; i < scan->column_count; i++) {
		int number = ws_column_find(stream->table, scan->columns[i]);

		if (number < 0)
			return set_error("the table %s has no column '%s'",
					 ws_tables[stream->table].name, scan->columns[i]);
		if (stream->mask >> number & 1)
			return set_error("the column %s.%s is asked for twice",
					 ws_tables[stream->table].name, scan->columns[i]);
		stream->mask |= UINT64_C(1) << number;
		stream->column[stream->columns++] = (uint8_t)number;
	}
	for (uint32_t i = 0; i < stream->columns; i++)
		stream->mask |= UINT64_C(1) << stream->column[i];
	return 0;
}

int warpsight_stream(warpsight_report *report, const char *table, const struct warpsight_scan *scan,
		     struct ArrowArrayStream *out)
{
	struct warpsight_scan all = {.time_max = UINT64_MAX};
	int number = ws_table_find(table);
	struct report_stream *stream;

	memset(out, 0, sizeof(*out));
	if (number < 0)
		return set_error("there is no table '%s'%s", table, "");
	if (scan) {
		if (scan->size < sizeof(all))
			return set_error("warpsight_scan.size is not set%s%s", "", "");
		all = *scan;
	}
	if (all.flags & ~(unsigned)(WARPSIGHT_FROM_ZERO | WARPSIGHT_NUMBERS))
		return set_error(
			"warpsight_scan.flags has a bit that this version does not know%s%s", "",
			"");
	stream = ws_calloc(1, sizeof(*stream));
	stream->table = (enum ws_table)number;
	stream->flags = all.flags;
	if (choose_columns(stream, &all) < 0) {
		free(stream);
		return -1;
	}
	stream->report = add_reference(report);
	stream->window = ws_make_window(stream->table, stream->mask, all.time_min, all.time_max);
	*out = (struct ArrowArrayStream){get_schema, get_next_batch, get_last_error, release_stream,
					 stream};
	return 0;
}
