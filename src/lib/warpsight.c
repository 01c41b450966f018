/*
 * warpsight.c - libwarpsight: the reading API over store/ and query/; see
 * include/warpsight/warpsight.h.
 *
 * Columns are decoded to 64-bit values, which is what Arrow's uint64, int64 and float64 are: a
 * batch's buffers are the decoded arrays, and freeing them is its release. Only the bitmap of what
 * is null is made besides, and only for columns that can be null. Reports are counted: every
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

static int fail(const char *format, const char *a, const char *b)
{
	snprintf(message, sizeof(message), format, a, b);
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

static struct warpsight_report *hold(struct warpsight_report *report)
{
	__atomic_fetch_add(&report->refs, 1, __ATOMIC_RELAXED);
	return report;
}

static void drop(struct warpsight_report *report)
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
		fail("%s%s", err.msg, "");
		return NULL;
	}
	report = ws_calloc(1, sizeof(*report));
	report->report = file;
	report->zero = ws_time_zero(file);
	report->last = ws_time_last(file);
	report->refs = 1;
	pthread_mutex_init(&report->lock, NULL);
	return report;
}

void warpsight_close(warpsight_report *report)
{
	if (report)
		drop(report);
}

int warpsight_complete(const warpsight_report *report)
{
	return ws_report_complete(report->report);
}

const char *warpsight_damage(const warpsight_report *report, size_t i)
{
	return ws_report_damage(report->report, i);
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
	return ws_meta(report->report, name);
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
	return i < WS_TABLE_COUNT ? ws_tables[i].name : NULL;
}

const char *warpsight_table_doc(const char *table)
{
	int t = ws_table_find(table);

	return t < 0 ? NULL : ws_tables[t].doc;
}

uint64_t warpsight_rows(const warpsight_report *report, const char *table)
{
	int t = ws_table_find(table);

	return t < 0 ? 0 : ws_report_rows(report->report, (enum ws_table)t);
}

static enum warpsight_type type_of(enum ws_type type)
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

static bool nullable(enum ws_type type)
{
	return type == WS_T_NTIME || type == WS_T_NU32 || type == WS_T_NU64 || type == WS_T_STR ||
	       type == WS_T_NTHREAD;
}

/* The value that stands for null. */
static uint64_t null_of(enum ws_type type)
{
	return type == WS_T_NU32			 ? WS_NO_U32
	       : type == WS_T_NTIME || type == WS_T_NU64 ? UINT64_MAX
							 : 0;
}

int warpsight_column(const char *table, size_t i, struct warpsight_column *out)
{
	int t = ws_table_find(table);
	const struct ws_column_desc *desc;

	if (t < 0)
		return fail("there is no table '%s'%s", table, "");
	if (i >= ws_tables[t].column_count)
		return fail("the table %s has no more columns%s", table, "");
	desc = &ws_tables[t].columns[i];
	*out = (struct warpsight_column){desc->name, desc->sqlite, desc->doc, type_of(desc->type),
					 nullable(desc->type)};
	return 0;
}

/* ---- schemas ---- */

static void release_schema(struct ArrowSchema *ArrowSchema)
{
	for (int64_t i = 0; i < ArrowSchema->n_children; i++) {
		if (ArrowSchema->children[i]->release)
			ArrowSchema->children[i]->release(ArrowSchema->children[i]);
		free(ArrowSchema->children[i]);
	}
	free(ArrowSchema->children);
	if (ArrowSchema->dictionary) {
		if (ArrowSchema->dictionary->release)
			ArrowSchema->dictionary->release(ArrowSchema->dictionary);
		free(ArrowSchema->dictionary);
	}
	ArrowSchema->release = NULL;
}

static void new_schema(struct ArrowSchema *ArrowSchema, const char *format, const char *name,
		       bool null)
{
	*ArrowSchema = (struct ArrowSchema){.format = format,
					    .name = name,
					    .flags = null ? ARROW_FLAG_NULLABLE : 0,
					    .release = release_schema};
}

/* ---- streams ---- */

struct stream {
	struct warpsight_report *of;
	enum ws_table table;
	unsigned flags;
	uint8_t column[WS_MAX_COLUMNS]; /* of the table, in the order wanted */
	uint32_t columns;
	uint64_t mask;
	struct ws_window window;
	size_t block;
	char error[sizeof(message)];
};

static bool as_dictionary(const struct stream *stream, enum ws_type type)
{
	return type == WS_T_STR && !(stream->flags & WARPSIGHT_NUMBERS);
}

static const char *format_of(const struct stream *stream, enum ws_type type)
{
	switch (type_of(type)) {
	case WARPSIGHT_TIME:
		return stream->flags & WARPSIGHT_FROM_ZERO ? "l" : "L";
	case WARPSIGHT_SIGNED:
		return "l";
	case WARPSIGHT_REAL:
		return "g";
	default:
		return as_dictionary(stream, type) ? "l" : "L";
	}
}

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
	const struct stream *stream_s = stream->private_data;

	new_schema(out, "+s", "", false);
	out->n_children = stream_s->columns;
	out->children = ws_calloc(stream_s->columns + 1, sizeof(*out->children));
	for (uint32_t i = 0; i < stream_s->columns; i++) {
		const struct ws_column_desc *desc =
			&ws_tables[stream_s->table].columns[stream_s->column[i]];

		out->children[i] = ws_malloc(sizeof(**out->children));
		new_schema(out->children[i], format_of(stream_s, desc->type), desc->name,
			   nullable(desc->type));
		if (as_dictionary(stream_s, desc->type)) {
			out->children[i]->dictionary = ws_malloc(sizeof(**out->children));
			new_schema(out->children[i]->dictionary, "U", "", true);
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

			if (ws_utf8_valid(text, len))
				ws_text_add(&all, text, len);
			else
				ws_text_utf8(&all, text, len);
			report->offsets[id + 1] = (int64_t)all.len;
		}
		report->text = all.text;
	}
	pthread_mutex_unlock(&report->lock);
}

/* ---- arrays ---- */

struct array { /* what one of ours holds */
	const void *buffers[3];
	void *owned[2];
	struct warpsight_report *of; /* of a dictionary */
};

static void release_array(struct ArrowArray *ArrowArray)
{
	struct array *array = ArrowArray->private_data;

	for (int64_t i = 0; i < ArrowArray->n_children; i++) {
		if (ArrowArray->children[i]->release)
			ArrowArray->children[i]->release(ArrowArray->children[i]);
		free(ArrowArray->children[i]);
	}
	free(ArrowArray->children);
	if (ArrowArray->dictionary) {
		if (ArrowArray->dictionary->release)
			ArrowArray->dictionary->release(ArrowArray->dictionary);
		free(ArrowArray->dictionary);
	}
	free(array->owned[0]);
	free(array->owned[1]);
	if (array->of)
		drop(array->of);
	free(array);
	ArrowArray->release = NULL;
}

static struct array *new_array(struct ArrowArray *ArrowArray, int64_t length, int64_t buffers)
{
	struct array *array = ws_calloc(1, sizeof(*array));

	*ArrowArray = (struct ArrowArray){.length = length,
					  .n_buffers = buffers,
					  .buffers = array->buffers,
					  .release = release_array,
					  .private_data = array};
	return array;
}

static struct ArrowArray *new_dictionary(struct warpsight_report *report)
{
	struct ArrowArray *ArrowArray = ws_malloc(sizeof(*ArrowArray));
	struct array *array;

	make_dictionary(report);
	array = new_array(ArrowArray, report->count, 3);
	array->of = hold(report);
	ArrowArray->null_count = 1;
	array->buffers[0] = report->valid;
	array->buffers[1] = report->offsets;
	array->buffers[2] = report->text;
	return ArrowArray;
}

/* Bits of what is not null; NULL when all is. */
static uint8_t *validity(const uint64_t *values, size_t rows, uint64_t null, int64_t *nulls)
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

/* Numbers that the dictionary does not have, of a damaged report, point to null. */
static void check_numbers(uint64_t *values, size_t rows, uint32_t count)
{
	for (size_t i = 0; i < rows; i++)
		values[i] = values[i] < count ? values[i] : 0;
}

static void fill_column(const struct stream *stream, struct ArrowArray *ArrowArray,
			enum ws_type type, uint64_t *values, size_t rows)
{
	struct array *array = new_array(ArrowArray, (int64_t)rows, 2);

	if (as_dictionary(stream, type)) {
		ArrowArray->dictionary = new_dictionary(stream->of);
		check_numbers(values, rows, stream->of->count);
	}
	if (nullable(type))
		array->owned[0] = validity(values, rows, null_of(type), &ArrowArray->null_count);
	if (type_of(type) == WARPSIGHT_TIME && stream->flags & WARPSIGHT_FROM_ZERO)
		for (size_t i = 0; i < rows; i++)
			values[i] -= stream->of->zero;
	array->owned[1] = values;
	array->buffers[0] = array->owned[0];
	array->buffers[1] = values;
}

static int decode(struct stream *stream, size_t i, uint64_t **col, size_t *rows)
{
	struct ws_block_info info = ws_report_block(stream->of->report, stream->table, i);
	struct ws_err err;

	for (uint64_t left = stream->window.columns; left; left &= left - 1)
		col[__builtin_ctzll(left)] = ws_malloc((size_t)info.rows * 8 + 8);
	if (ws_report_decode(stream->of->report, stream->table, i, stream->window.columns, col,
			     &err)) {
		snprintf(stream->error, sizeof(stream->error), "%s", err.msg);
		for (int c = 0; c < WS_MAX_COLUMNS; c++)
			free(col[c]);
		return EIO;
	}
	*rows = ws_window_filter(&stream->window, &info, col);
	return 0;
}

static void fill_batch(const struct stream *stream, uint64_t **col, size_t rows,
		       struct ArrowArray *out)
{
	bool taken[WS_MAX_COLUMNS] = {false};

	new_array(out, (int64_t)rows, 1); /* a struct: its bitmap alone, which there is none of */
	out->n_children = stream->columns;
	out->children = ws_calloc(stream->columns + 1, sizeof(*out->children));
	for (uint32_t i = 0; i < stream->columns; i++) {
		uint8_t c = stream->column[i];

		out->children[i] = ws_malloc(sizeof(**out->children));
		fill_column(stream, out->children[i], ws_tables[stream->table].columns[c].type,
			    col[c], rows);
		taken[c] = true;
	}
	for (int c = 0; c < WS_MAX_COLUMNS; c++)
		if (!taken[c])
			free(col[c]);
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
	struct stream *stream_s = stream->private_data;
	size_t blocks = ws_report_blocks(stream_s->of->report, stream_s->table);

	memset(out, 0, sizeof(*out));
	while (stream_s->block < blocks) {
		uint64_t *col[WS_MAX_COLUMNS] = {NULL};
		struct ws_block_info info =
			ws_report_block(stream_s->of->report, stream_s->table, stream_s->block);
		size_t rows;
		int rc;

		if (!ws_window_touches(&stream_s->window, info.time_min, info.time_max)) {
			stream_s->block++;
			continue;
		}
		rc = decode(stream_s, stream_s->block++, col, &rows);
		if (rc)
			return rc;
		if (rows) {
			fill_batch(stream_s, col, rows, out);
			return 0;
		}
		for (int c = 0; c < WS_MAX_COLUMNS; c++)
			free(col[c]);
	}
	return 0; /* released: the end */
}

static const char *get_last_error(struct ArrowArrayStream *stream)
{
	const struct stream *stream_s = stream->private_data;

	return *stream_s->error ? stream_s->error : NULL;
}

static void release_stream(struct ArrowArrayStream *stream)
{
	struct stream *stream_s = stream->private_data;

	drop(stream_s->of);
	free(stream_s);
	stream->release = NULL;
}

static int choose_columns(struct stream *stream, const struct warpsight_scan *scan)
{
	stream->columns = scan->column_count ? 0 : ws_tables[stream->table].column_count;
	for (uint32_t i = 0; i < stream->columns; i++)
		stream->column[i] = (uint8_t)i;
	for (size_t i = 0; i < scan->column_count; i++) {
		int c = ws_column_find(stream->table, scan->columns[i]);

		if (c < 0)
			return fail("the table %s has no column '%s'",
				    ws_tables[stream->table].name, scan->columns[i]);
		if (stream->mask >> c & 1)
			return fail("the column %s.%s is asked for twice",
				    ws_tables[stream->table].name, scan->columns[i]);
		stream->mask |= UINT64_C(1) << c;
		stream->column[stream->columns++] = (uint8_t)c;
	}
	for (uint32_t i = 0; i < stream->columns; i++)
		stream->mask |= UINT64_C(1) << stream->column[i];
	return 0;
}

int warpsight_stream(warpsight_report *report, const char *table, const struct warpsight_scan *scan,
		     struct ArrowArrayStream *out)
{
	struct warpsight_scan all = {.time_max = UINT64_MAX};
	int t = ws_table_find(table);
	struct stream *stream;

	memset(out, 0, sizeof(*out));
	if (t < 0)
		return fail("there is no table '%s'%s", table, "");
	if (scan) {
		if (scan->size < sizeof(all))
			return fail("warpsight_scan.size is not set%s%s", "", "");
		all = *scan;
	}
	if (all.flags & ~(unsigned)(WARPSIGHT_FROM_ZERO | WARPSIGHT_NUMBERS))
		return fail("warpsight_scan.flags has a bit that this version does not know%s%s",
			    "", "");
	stream = ws_calloc(1, sizeof(*stream));
	stream->table = (enum ws_table)t;
	stream->flags = all.flags;
	if (choose_columns(stream, &all) < 0) {
		free(stream);
		return -1;
	}
	stream->of = hold(report);
	stream->window = ws_window_new(stream->table, stream->mask, all.time_min, all.time_max);
	*out = (struct ArrowArrayStream){get_schema, get_next, get_last_error, release_stream,
					 stream};
	return 0;
}
