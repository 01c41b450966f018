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
	struct ws_report *r;
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

static struct warpsight_report *hold(struct warpsight_report *r)
{
	__atomic_fetch_add(&r->refs, 1, __ATOMIC_RELAXED);
	return r;
}

static void drop(struct warpsight_report *r)
{
	if (__atomic_sub_fetch(&r->refs, 1, __ATOMIC_ACQ_REL))
		return;
	ws_report_close(r->r);
	pthread_mutex_destroy(&r->lock);
	free(r->text);
	free(r->offsets);
	free(r->valid);
	free(r);
}

warpsight_report *warpsight_open(const char *path)
{
	struct warpsight_report *r;
	struct ws_err e;
	struct ws_report *file = ws_report_open(path, &e);

	if (!file) {
		fail("%s%s", e.msg, "");
		return NULL;
	}
	r = ws_calloc(1, sizeof(*r));
	r->r = file;
	r->zero = ws_time_zero(file);
	r->last = ws_time_last(file);
	r->refs = 1;
	pthread_mutex_init(&r->lock, NULL);
	return r;
}

void warpsight_close(warpsight_report *r)
{
	if (r)
		drop(r);
}

int warpsight_complete(const warpsight_report *r)
{
	return ws_report_complete(r->r);
}

const char *warpsight_damage(const warpsight_report *r, size_t i)
{
	return ws_report_damage(r->r, i);
}

uint64_t warpsight_time_zero(const warpsight_report *r)
{
	return r->zero;
}

uint64_t warpsight_time_last(const warpsight_report *r)
{
	return r->last;
}

const char *warpsight_fact(const warpsight_report *r, const char *name)
{
	return ws_meta(r->r, name);
}

const char *warpsight_string(const warpsight_report *r, uint32_t number, size_t *len)
{
	return ws_report_string(r->r, number, len);
}

uint32_t warpsight_strings(const warpsight_report *r)
{
	return ws_report_string_count(r->r);
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

uint64_t warpsight_rows(const warpsight_report *r, const char *table)
{
	int t = ws_table_find(table);

	return t < 0 ? 0 : ws_report_rows(r->r, (enum ws_table)t);
}

static enum warpsight_type type_of(enum ws_type t)
{
	switch (t) {
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

static bool nullable(enum ws_type t)
{
	return t == WS_T_NTIME || t == WS_T_NU32 || t == WS_T_NU64 || t == WS_T_STR ||
	       t == WS_T_NTHREAD;
}

/* The value that stands for null. */
static uint64_t null_of(enum ws_type t)
{
	return t == WS_T_NU32 ? WS_NO_U32 : t == WS_T_NTIME || t == WS_T_NU64 ? UINT64_MAX : 0;
}

int warpsight_column(const char *table, size_t i, struct warpsight_column *out)
{
	int t = ws_table_find(table);
	const struct ws_column_desc *d;

	if (t < 0)
		return fail("there is no table '%s'%s", table, "");
	if (i >= ws_tables[t].column_count)
		return fail("the table %s has no more columns%s", table, "");
	d = &ws_tables[t].columns[i];
	*out = (struct warpsight_column){d->name, d->sqlite, d->doc, type_of(d->type),
					 nullable(d->type)};
	return 0;
}

/* ---- schemas ---- */

static void release_schema(struct ArrowSchema *s)
{
	for (int64_t i = 0; i < s->n_children; i++) {
		if (s->children[i]->release)
			s->children[i]->release(s->children[i]);
		free(s->children[i]);
	}
	free(s->children);
	if (s->dictionary) {
		if (s->dictionary->release)
			s->dictionary->release(s->dictionary);
		free(s->dictionary);
	}
	s->release = NULL;
}

static void new_schema(struct ArrowSchema *s, const char *format, const char *name, bool null)
{
	*s = (struct ArrowSchema){.format = format,
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

static bool as_dictionary(const struct stream *s, enum ws_type t)
{
	return t == WS_T_STR && !(s->flags & WARPSIGHT_NUMBERS);
}

static const char *format_of(const struct stream *s, enum ws_type t)
{
	switch (type_of(t)) {
	case WARPSIGHT_TIME:
		return s->flags & WARPSIGHT_FROM_ZERO ? "l" : "L";
	case WARPSIGHT_SIGNED:
		return "l";
	case WARPSIGHT_REAL:
		return "g";
	default:
		return as_dictionary(s, t) ? "l" : "L";
	}
}

static int get_schema(struct ArrowArrayStream *stream, struct ArrowSchema *out)
{
	const struct stream *s = stream->private_data;

	new_schema(out, "+s", "", false);
	out->n_children = s->columns;
	out->children = ws_calloc(s->columns + 1, sizeof(*out->children));
	for (uint32_t i = 0; i < s->columns; i++) {
		const struct ws_column_desc *d = &ws_tables[s->table].columns[s->column[i]];

		out->children[i] = ws_malloc(sizeof(**out->children));
		new_schema(out->children[i], format_of(s, d->type), d->name, nullable(d->type));
		if (as_dictionary(s, d->type)) {
			out->children[i]->dictionary = ws_malloc(sizeof(**out->children));
			new_schema(out->children[i]->dictionary, "U", "", true);
		}
	}
	return 0;
}

/* ---- the dictionary ---- */

static void make_dictionary(struct warpsight_report *r)
{
	struct ws_text all = {0};

	pthread_mutex_lock(&r->lock);
	if (!r->offsets) {
		r->count = ws_report_string_count(r->r) + 1; /* number 0 is there too, as null */
		r->valid = ws_malloc(r->count / 8 + 1);
		memset(r->valid, 0xff, r->count / 8 + 1);
		r->valid[0] &= 0xfe;
		r->offsets = ws_calloc((size_t)r->count + 1, sizeof(*r->offsets));
		ws_text_puts(&all, "");
		for (uint32_t id = 1; id < r->count; id++) {
			size_t len;
			const char *s = ws_report_string(r->r, id, &len);

			if (ws_utf8_valid(s, len))
				ws_text_add(&all, s, len);
			else
				ws_text_utf8(&all, s, len);
			r->offsets[id + 1] = (int64_t)all.len;
		}
		r->text = all.s;
	}
	pthread_mutex_unlock(&r->lock);
}

/* ---- arrays ---- */

struct array { /* what one of ours holds */
	const void *buffers[3];
	void *owned[2];
	struct warpsight_report *of; /* of a dictionary */
};

static void release_array(struct ArrowArray *a)
{
	struct array *p = a->private_data;

	for (int64_t i = 0; i < a->n_children; i++) {
		if (a->children[i]->release)
			a->children[i]->release(a->children[i]);
		free(a->children[i]);
	}
	free(a->children);
	if (a->dictionary) {
		if (a->dictionary->release)
			a->dictionary->release(a->dictionary);
		free(a->dictionary);
	}
	free(p->owned[0]);
	free(p->owned[1]);
	if (p->of)
		drop(p->of);
	free(p);
	a->release = NULL;
}

static struct array *new_array(struct ArrowArray *a, int64_t length, int64_t buffers)
{
	struct array *p = ws_calloc(1, sizeof(*p));

	*a = (struct ArrowArray){.length = length,
				 .n_buffers = buffers,
				 .buffers = p->buffers,
				 .release = release_array,
				 .private_data = p};
	return p;
}

static struct ArrowArray *new_dictionary(struct warpsight_report *r)
{
	struct ArrowArray *a = ws_malloc(sizeof(*a));
	struct array *p;

	make_dictionary(r);
	p = new_array(a, r->count, 3);
	p->of = hold(r);
	a->null_count = 1;
	p->buffers[0] = r->valid;
	p->buffers[1] = r->offsets;
	p->buffers[2] = r->text;
	return a;
}

/* Bits of what is not null; NULL when all is. */
static uint8_t *validity(const uint64_t *v, size_t rows, uint64_t null, int64_t *nulls)
{
	uint8_t *bits = NULL;

	*nulls = 0;
	for (size_t i = 0; i < rows; i++) {
		if (v[i] != null)
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
static void check_numbers(uint64_t *v, size_t rows, uint32_t count)
{
	for (size_t i = 0; i < rows; i++)
		v[i] = v[i] < count ? v[i] : 0;
}

static void fill_column(const struct stream *s, struct ArrowArray *a, enum ws_type type,
			uint64_t *v, size_t rows)
{
	struct array *p = new_array(a, (int64_t)rows, 2);

	if (as_dictionary(s, type)) {
		a->dictionary = new_dictionary(s->of);
		check_numbers(v, rows, s->of->count);
	}
	if (nullable(type))
		p->owned[0] = validity(v, rows, null_of(type), &a->null_count);
	if (type_of(type) == WARPSIGHT_TIME && s->flags & WARPSIGHT_FROM_ZERO)
		for (size_t i = 0; i < rows; i++)
			v[i] -= s->of->zero;
	p->owned[1] = v;
	p->buffers[0] = p->owned[0];
	p->buffers[1] = v;
}

static int decode(struct stream *s, size_t i, uint64_t **col, size_t *rows)
{
	struct ws_block_info info = ws_report_block(s->of->r, s->table, i);
	struct ws_err e;

	for (uint64_t left = s->window.columns; left; left &= left - 1)
		col[__builtin_ctzll(left)] = ws_malloc((size_t)info.rows * 8 + 8);
	if (ws_report_decode(s->of->r, s->table, i, s->window.columns, col, &e)) {
		snprintf(s->error, sizeof(s->error), "%s", e.msg);
		for (int c = 0; c < WS_MAX_COLUMNS; c++)
			free(col[c]);
		return EIO;
	}
	*rows = ws_window_filter(&s->window, &info, col);
	return 0;
}

static void fill_batch(const struct stream *s, uint64_t **col, size_t rows, struct ArrowArray *out)
{
	bool taken[WS_MAX_COLUMNS] = {false};

	new_array(out, (int64_t)rows, 1); /* a struct: its bitmap alone, which there is none of */
	out->n_children = s->columns;
	out->children = ws_calloc(s->columns + 1, sizeof(*out->children));
	for (uint32_t i = 0; i < s->columns; i++) {
		uint8_t c = s->column[i];

		out->children[i] = ws_malloc(sizeof(**out->children));
		fill_column(s, out->children[i], ws_tables[s->table].columns[c].type, col[c], rows);
		taken[c] = true;
	}
	for (int c = 0; c < WS_MAX_COLUMNS; c++)
		if (!taken[c])
			free(col[c]);
}

static int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
	struct stream *s = stream->private_data;
	size_t blocks = ws_report_blocks(s->of->r, s->table);

	memset(out, 0, sizeof(*out));
	while (s->block < blocks) {
		uint64_t *col[WS_MAX_COLUMNS] = {NULL};
		struct ws_block_info info = ws_report_block(s->of->r, s->table, s->block);
		size_t rows;
		int rc;

		if (!ws_window_touches(&s->window, info.time_min, info.time_max)) {
			s->block++;
			continue;
		}
		rc = decode(s, s->block++, col, &rows);
		if (rc)
			return rc;
		if (rows) {
			fill_batch(s, col, rows, out);
			return 0;
		}
		for (int c = 0; c < WS_MAX_COLUMNS; c++)
			free(col[c]);
	}
	return 0; /* released: the end */
}

static const char *get_last_error(struct ArrowArrayStream *stream)
{
	const struct stream *s = stream->private_data;

	return *s->error ? s->error : NULL;
}

static void release_stream(struct ArrowArrayStream *stream)
{
	struct stream *s = stream->private_data;

	drop(s->of);
	free(s);
	stream->release = NULL;
}

static int choose_columns(struct stream *s, const struct warpsight_scan *scan)
{
	s->columns = scan->column_count ? 0 : ws_tables[s->table].column_count;
	for (uint32_t i = 0; i < s->columns; i++)
		s->column[i] = (uint8_t)i;
	for (size_t i = 0; i < scan->column_count; i++) {
		int c = ws_column_find(s->table, scan->columns[i]);

		if (c < 0)
			return fail("the table %s has no column '%s'", ws_tables[s->table].name,
				    scan->columns[i]);
		if (s->mask >> c & 1)
			return fail("the column %s.%s is asked for twice", ws_tables[s->table].name,
				    scan->columns[i]);
		s->mask |= UINT64_C(1) << c;
		s->column[s->columns++] = (uint8_t)c;
	}
	for (uint32_t i = 0; i < s->columns; i++)
		s->mask |= UINT64_C(1) << s->column[i];
	return 0;
}

int warpsight_stream(warpsight_report *r, const char *table, const struct warpsight_scan *scan,
		     struct ArrowArrayStream *out)
{
	struct warpsight_scan all = {.time_max = UINT64_MAX};
	int t = ws_table_find(table);
	struct stream *s;

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
	s = ws_calloc(1, sizeof(*s));
	s->table = (enum ws_table)t;
	s->flags = all.flags;
	if (choose_columns(s, &all) < 0) {
		free(s);
		return -1;
	}
	s->of = hold(r);
	s->window = ws_window_new(s->table, s->mask, all.time_min, all.time_max);
	*out = (struct ArrowArrayStream){get_schema, get_next, get_last_error, release_stream, s};
	return 0;
}
