/*
 * arrow.c - tables as Arrow: one stream a table, one after the other (arrow), or a file a table in
 * a folder (arrowdir).
 *
 * Columns are those of the SQLite export, in the narrowest type that their source promises;
 * NULL-only columns have the type null. Texts are dictionary-encoded, with one dictionary a table:
 * a first pass over the text columns finds which texts it needs. A column of StringIds numbers
 * stays a number, so that queries made for the other exports work, and is followed by its text
 * under the name without Id (or with Value added, where that is taken or there is no Id). Tables
 * that are made row by row have plain texts.
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
#include "export/formats.h"

enum { MADE_ROWS = 65536, MADE_BYTES = 32 << 20, DICTIONARY_BYTES = 64 << 20 };

/* A column of a table that is made row by row, as far as it is in memory. */
struct made_column {
	struct ws_text data, offsets, valid;
	int64_t nulls;
};

/* What a worker makes of a batch. */
struct made_batch {
	struct ws_arrow_batch batch;
	uint32_t *codes[2 * WS_MAX_COLUMNS]; /* of text fields */
	uint8_t *valid[2 * WS_MAX_COLUMNS];
	size_t room;						       /* rows */
	struct ws_text offsets[WS_MAX_COLUMNS], bytes[WS_MAX_COLUMNS]; /* of blobs */
};

struct arrow {
	struct ws_xwriter w;
	FILE *f;
	bool folder, append;
	const char *path, *name; /* of the folder; what the user calls the output */
	struct ws_arrow_out out;
	bool begun;

	struct ws_xtable
		copy; /* the table in hand: what was given may be gone when its file is closed */
	const struct ws_xtable *t;
	struct ws_arrow_field fields[2 * WS_MAX_COLUMNS];
	uint8_t column[2 * WS_MAX_COLUMNS]; /* of a field: the column it is made from */
	char *names[WS_MAX_COLUMNS];	    /* of text fields, ours to free */
	size_t field_count, name_count;

	struct made_column made[WS_MAX_COLUMNS];
	int64_t made_rows;
	struct ws_arrow_batch batch;

	struct ws_export *x; /* of a view */
	struct made_batch *workers;
	uint32_t worker_count;
	uint32_t *code; /* by string: its number in the dictionary of the table + 1 */
	uint32_t code_size;
};

static int cannot(struct arrow *a, struct ws_err *e)
{
	return ws_fail_errno(e, "cannot write %s", a->name);
}

/* ---- one table's stream or file ---- */

static char *table_path(const struct arrow *a, const char *table)
{
	return ws_format("%s/%s.arrow", a->path, table);
}

static int open_table(struct arrow *a, struct ws_err *e)
{
	char *path;
	int fd;

	if (!a->folder)
		return 0;
	path = table_path(a, a->t->name);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	free(path);
	if (fd < 0)
		return cannot(a, e);
	a->f = fdopen(fd, "w");
	return 0;
}

static void describe(const struct arrow *a, const char **pairs)
{
	pairs[0] = "table_name";
	pairs[1] = a->t->name;
	pairs[2] = "description";
	pairs[3] = a->t->doc;
	pairs[4] = NULL;
}

static int begin(struct arrow *a, struct ws_err *e)
{
	const char *pairs[5];

	if (open_table(a, e) < 0)
		return -1;
	describe(a, pairs);
	a->begun = true;
	return ws_arrow_begin(&a->out, a->f, a->folder, a->fields, a->field_count, pairs) < 0
		       ? cannot(a, e)
		       : 0;
}

static int end(struct arrow *a, struct ws_err *e)
{
	const char *pairs[5];
	int rc;

	if (!a->begun)
		return 0;
	a->begun = false;
	describe(a, pairs);
	rc = ws_arrow_end(&a->out, a->fields, a->field_count, pairs);
	if (a->folder && a->f) {
		if (fclose(a->f))
			rc = -1;
		a->f = NULL;
	}
	return rc < 0 ? cannot(a, e) : 0;
}

/* ---- fields ---- */

static struct ws_arrow_field *add_field(struct arrow *a, size_t column, enum ws_arrow_kind kind,
					unsigned bits)
{
	const struct ws_xcolumn *c = &a->t->columns[column];
	struct ws_arrow_field *f = &a->fields[a->field_count];

	a->column[a->field_count++] = (uint8_t)column;
	*f = (struct ws_arrow_field){.name = c->name,
				     .doc = c->doc,
				     .kind = kind,
				     .bits = bits,
				     .not_null = c->not_null};
	return f;
}

static void clear_fields(struct arrow *a)
{
	while (a->name_count)
		free(a->names[--a->name_count]);
	a->field_count = 0;
}

static void add_view_field(struct arrow *a, const struct ws_xview *v, size_t i)
{
	const struct ws_xcolumn *c = &v->t.columns[i];
	struct ws_arrow_field *f;

	switch (ws_xcolumn_type(v, c)) {
	case WS_XT_NULL:
		add_field(a, i, WS_ARROW_NULL, 0);
		break;
	case WS_XT_U8:
		add_field(a, i, WS_ARROW_UINT, 8);
		break;
	case WS_XT_U32:
		add_field(a, i, WS_ARROW_UINT, 32);
		break;
	case WS_XT_I32:
		add_field(a, i, WS_ARROW_INT, 32);
		break;
	case WS_XT_U64:
		add_field(a, i, WS_ARROW_UINT, 64);
		break;
	case WS_XT_I64:
		f = add_field(a, i, WS_ARROW_INT, 64);
		f->unit = c->from == WS_XF_TIME || c->from == WS_XF_NTIME ? "ns" : NULL;
		break;
	case WS_XT_F64:
		add_field(a, i, WS_ARROW_DOUBLE, 0);
		break;
	case WS_XT_TEXT:
		add_field(a, i, WS_ARROW_DICTIONARY, 0);
		break;
	case WS_XT_BLOB:
		add_field(a, i, WS_ARROW_BINARY, 0);
		break;
	case WS_XT_STRING:
		add_field(a, i, WS_ARROW_UINT, 32);
		f = add_field(a, i, WS_ARROW_DICTIONARY, 0);
		f->name = a->names[a->name_count++] = ws_xcolumn_text_name(&v->t, c);
		f->not_null = false;
		break;
	}
}

/* ---- tables made row by row ---- */

static void add_made_field(struct arrow *a, size_t i)
{
	switch (*a->t->columns[i].type) {
	case 'R':
		add_field(a, i, WS_ARROW_DOUBLE, 0);
		break;
	case 'T':
		add_field(a, i, WS_ARROW_UTF8, 0);
		break;
	case 'B':
		add_field(a, i, WS_ARROW_BINARY, 0);
		break;
	default:
		add_field(a, i, WS_ARROW_INT, 64);
	}
}

static bool has_offsets(const struct ws_arrow_field *f)
{
	return f->kind == WS_ARROW_UTF8 || f->kind == WS_ARROW_BINARY;
}

static int flush_made(struct arrow *a, struct ws_err *e)
{
	if (!a->made_rows)
		return 0;
	ws_arrow_batch_clear(&a->batch, a->made_rows);
	for (size_t i = 0; i < a->field_count; i++) {
		struct made_column *m = &a->made[i];

		ws_arrow_add(&a->batch, a->made_rows, m->nulls, m->nulls ? m->valid.s : NULL);
		if (has_offsets(&a->fields[i])) {
			uint32_t last = (uint32_t)m->data.len;

			ws_text_add(&m->offsets, &last, 4);
			ws_arrow_add_buffer(&a->batch, m->offsets.s, m->offsets.len);
		}
		ws_arrow_add_buffer(&a->batch, m->data.s, m->data.len);
	}
	ws_arrow_batch_seal(&a->batch, -1, false);
	if (ws_arrow_put(&a->out, &a->batch, false) < 0)
		return cannot(a, e);
	for (size_t i = 0; i < a->field_count; i++) {
		struct made_column *m = &a->made[i];

		m->data.len = m->offsets.len = m->valid.len = 0;
		m->nulls = 0;
	}
	a->made_rows = 0;
	return 0;
}

static int finish_table(struct arrow *a, struct ws_err *e)
{
	return flush_made(a, e) < 0 ? -1 : end(a, e);
}

static int table(struct ws_xwriter *w, const struct ws_xtable *t, struct ws_err *e)
{
	struct arrow *a = (struct arrow *)w;

	if (finish_table(a, e) < 0)
		return -1;
	a->copy = *t;
	a->t = &a->copy;
	clear_fields(a);
	for (size_t i = 0; i < t->column_count; i++)
		add_made_field(a, i);
	return begin(a, e);
}

static void add_made(struct made_column *m, const struct ws_arrow_field *f,
		     const struct ws_xcell *c, int64_t row)
{
	uint8_t bit = (uint8_t)(1 << (row & 7)), none = 0;
	uint64_t bits = c->kind == WS_X_NULL ? 0 : c->kind == WS_X_STRING ? c->id : (uint64_t)c->i;
	uint32_t offset = (uint32_t)m->data.len;

	if (!(row & 7))
		ws_text_add(&m->valid, &none, 1);
	if (c->kind == WS_X_NULL)
		m->nulls++;
	else
		m->valid.s[row >> 3] = (char)(m->valid.s[row >> 3] | bit);
	if (!has_offsets(f)) {
		ws_text_add(&m->data, &bits, 8);
		return;
	}
	ws_text_add(&m->offsets, &offset, 4);
	if (c->kind == WS_X_TEXT || c->kind == WS_X_BLOB)
		ws_text_add(&m->data, c->s, c->n);
}

static int rows(struct ws_xwriter *w, const struct ws_xcell *cells, size_t count, struct ws_err *e)
{
	struct arrow *a = (struct arrow *)w;

	for (; count--; cells += a->field_count) {
		size_t most = 0;

		for (size_t i = 0; i < a->field_count; i++) {
			add_made(&a->made[i], &a->fields[i], &cells[i], a->made_rows);
			most = a->made[i].data.len > most ? a->made[i].data.len : most;
		}
		a->made_rows++;
		if ((a->made_rows == MADE_ROWS || most > MADE_BYTES) && flush_made(a, e) < 0)
			return -1;
	}
	return 0;
}

/* ---- the dictionary of a view ---- */

static int mark_texts(void *ctx, const struct ws_xbatch *b, struct ws_err *e)
{
	struct arrow *a = ctx;

	(void)e;
	for (size_t i = 0; i < a->t->column_count; i++) {
		const uint32_t *id = b->col[i].data;

		if (b->col[i].type != WS_XT_TEXT && b->col[i].type != WS_XT_STRING)
			continue;
		for (size_t k = 0; k < b->rows; k++)
			if (id[k] < a->code_size &&
			    !__atomic_load_n(&a->code[id[k]], __ATOMIC_RELAXED))
				__atomic_store_n(&a->code[id[k]], 1, __ATOMIC_RELAXED);
	}
	return 0;
}

/* Number the texts that occur in order of their ids. Returns whether the table has texts at all. */
static int find_texts(struct arrow *a, const struct ws_xview *v, struct ws_err *e)
{
	struct ws_xcolumns_user u = {.make = mark_texts, .ctx = a};
	uint64_t wanted = 0;
	uint32_t n = 0;

	for (size_t i = 0; i < v->t.column_count; i++) {
		enum ws_xtype t = ws_xcolumn_type(v, &v->t.columns[i]);

		if (t == WS_XT_TEXT || t == WS_XT_STRING)
			wanted |= UINT64_C(1) << i;
	}
	if (!wanted)
		return 0;
	if (!a->code)
		a->code = ws_malloc((size_t)a->code_size * sizeof(*a->code));
	memset(a->code, 0, (size_t)a->code_size * sizeof(*a->code));
	if (ws_xcolumns_run(a->x, v, wanted, &u, NULL, e) < 0)
		return -1;
	a->code[0] = 0;
	for (uint32_t id = 1; id < a->code_size; id++)
		if (a->code[id])
			a->code[id] = ++n;
	return 1;
}

static int put_dictionary(struct arrow *a, struct ws_text *offsets, struct ws_text *bytes,
			  int64_t n, bool delta, struct ws_err *e)
{
	uint32_t last = (uint32_t)bytes->len;

	ws_text_add(offsets, &last, 4);
	ws_arrow_batch_clear(&a->batch, n);
	ws_arrow_add(&a->batch, n, 0, NULL);
	ws_arrow_add_buffer(&a->batch, offsets->s, offsets->len);
	ws_arrow_add_buffer(&a->batch, bytes->s, bytes->len);
	ws_arrow_batch_seal(&a->batch, 0, delta);
	offsets->len = bytes->len = 0;
	return ws_arrow_put(&a->out, &a->batch, true) < 0 ? cannot(a, e) : 0;
}

/* The texts, in pieces so that a report of nothing but texts does not lie in memory. */
static int put_texts(struct arrow *a, struct ws_err *e)
{
	struct ws_text offsets = {0}, bytes = {0};
	int64_t n = 0;
	bool delta = false;
	int rc = 0;

	for (uint32_t id = 1; !rc && id < a->code_size; id++) {
		uint32_t offset = (uint32_t)bytes.len;
		const char *s;
		size_t len;

		if (!a->code[id])
			continue;
		s = ws_x_bytes(a->x, id, &len);
		ws_text_add(&offsets, &offset, 4);
		ws_text_add(&bytes, s, len);
		n++;
		if (bytes.len > DICTIONARY_BYTES) {
			rc = put_dictionary(a, &offsets, &bytes, n, delta, e);
			delta = true;
			n = 0;
		}
	}
	if (!rc && (n || !delta))
		rc = put_dictionary(a, &offsets, &bytes, n, delta, e);
	ws_text_free(&offsets);
	ws_text_free(&bytes);
	return rc;
}

/* ---- views ---- */

static void make_room(struct arrow *a, struct made_batch *m, size_t rows)
{
	if (rows <= m->room)
		return;
	for (size_t i = 0; i < a->field_count; i++) {
		if (a->fields[i].kind != WS_ARROW_DICTIONARY)
			continue;
		m->codes[i] = ws_realloc(m->codes[i], rows * 4);
		m->valid[i] = ws_realloc(m->valid[i], (rows + 7) / 8);
	}
	m->room = rows;
}

static void add_texts(struct arrow *a, struct made_batch *m, size_t field,
		      const struct ws_xvector *v, size_t n)
{
	const uint32_t *id = v->data;
	uint32_t *codes = m->codes[field];
	uint8_t *valid = m->valid[field];
	int64_t nulls = 0;

	memset(valid, 0, (n + 7) / 8);
	for (size_t i = 0; i < n; i++) {
		uint32_t code = id[i] < a->code_size ? a->code[id[i]] : 0;

		codes[i] = code ? code - 1 : 0;
		valid[i >> 3] |= (uint8_t)((code != 0) << (i & 7));
		nulls += !code;
	}
	ws_arrow_add(&m->batch, (int64_t)n, nulls, nulls ? valid : NULL);
	ws_arrow_add_buffer(&m->batch, codes, n * 4);
}

static int add_blobs(struct arrow *a, struct made_batch *m, const struct ws_xvector *v,
		     size_t column, size_t n, struct ws_err *e)
{
	struct ws_text *offsets = &m->offsets[column], *bytes = &m->bytes[column];
	const uint32_t *id = v->data;
	uint32_t at = 0;

	offsets->len = bytes->len = 0;
	for (size_t i = 0; i < n; i++) {
		size_t len = 0;
		const char *s = id[i] ? ws_report_string(a->x->r, id[i], &len) : "";

		ws_text_add(offsets, &at, 4);
		ws_text_add(bytes, s, len);
		if (bytes->len > INT32_MAX)
			return ws_fail(
				e, "cannot write %s: a block of %s has more than 2 GiB of bytes",
				a->name, a->t->name);
		at = (uint32_t)bytes->len;
	}
	ws_text_add(offsets, &at, 4);
	ws_arrow_add(&m->batch, (int64_t)n, (int64_t)v->nulls, v->valid);
	ws_arrow_add_buffer(&m->batch, offsets->s, offsets->len);
	ws_arrow_add_buffer(&m->batch, bytes->s, bytes->len);
	return 0;
}

static int make(void *ctx, const struct ws_xbatch *b, struct ws_err *e)
{
	struct arrow *a = ctx;
	struct made_batch *m = &a->workers[b->worker];

	make_room(a, m, b->rows);
	ws_arrow_batch_clear(&m->batch, (int64_t)b->rows);
	for (size_t i = 0; i < a->field_count; i++) {
		const struct ws_xvector *v = &b->col[a->column[i]];

		if (a->fields[i].kind == WS_ARROW_DICTIONARY) {
			add_texts(a, m, i, v, b->rows);
		} else if (a->fields[i].kind == WS_ARROW_NULL) {
			ws_arrow_add_null(&m->batch, (int64_t)b->rows);
		} else if (a->fields[i].kind == WS_ARROW_BINARY) {
			if (add_blobs(a, m, v, a->column[i], b->rows, e) < 0)
				return -1;
		} else {
			ws_arrow_add(&m->batch, (int64_t)b->rows, (int64_t)v->nulls, v->valid);
			ws_arrow_add_buffer(&m->batch, v->data, b->rows * ws_xtype_width(v->type));
		}
	}
	ws_arrow_batch_seal(&m->batch, -1, false);
	return 0;
}

static int begin_view(struct arrow *a, struct ws_err *e)
{
	bool texts = false;

	for (size_t i = 0; i < a->field_count; i++)
		texts |= a->fields[i].kind == WS_ARROW_DICTIONARY;
	return begin(a, e) < 0 ? -1 : texts ? put_texts(a, e) : 0;
}

static int put(void *ctx, const struct ws_xbatch *b, struct ws_err *e)
{
	struct arrow *a = ctx;

	if (!a->begun && begin_view(a, e) < 0)
		return -1;
	return ws_arrow_put(&a->out, &a->workers[b->worker].batch, false) < 0 ? cannot(a, e) : 0;
}

static void free_workers(struct arrow *a)
{
	for (uint32_t i = 0; i < a->worker_count; i++) {
		struct made_batch *m = &a->workers[i];

		for (size_t k = 0; k < WS_COUNT(m->codes); k++) {
			free(m->codes[k]);
			free(m->valid[k]);
		}
		for (size_t k = 0; k < WS_COUNT(m->offsets); k++) {
			ws_text_free(&m->offsets[k]);
			ws_text_free(&m->bytes[k]);
		}
		ws_arrow_batch_free(&m->batch);
	}
	free(a->workers);
	a->workers = NULL;
}

static int view(struct ws_xwriter *w, struct ws_export *x, const struct ws_xview *v,
		uint64_t *count, struct ws_err *e)
{
	struct arrow *a = (struct arrow *)w;
	struct ws_xcolumns_user u = {.make = make, .put = put, .ctx = a};
	int rc;

	if (finish_table(a, e) < 0)
		return -1;
	a->t = &v->t;
	a->x = x;
	a->code_size = x->string_count + 1;
	clear_fields(a);
	for (size_t i = 0; i < v->t.column_count; i++)
		add_view_field(a, v, i);
	if (find_texts(a, v, e) < 0)
		return -1;
	a->worker_count = ws_xcolumns_workers();
	a->workers = ws_calloc(a->worker_count, sizeof(*a->workers));
	rc = ws_xcolumns_run(x, v, UINT64_MAX, &u, count, e);
	free_workers(a);
	if (!rc && !a->begun && !x->lazy)
		rc = begin_view(a, e);
	return rc < 0 ? -1 : end(a, e);
}

/* ---- all ---- */

static bool has(struct ws_xwriter *w, const char *name)
{
	struct arrow *a = (struct arrow *)w;
	char *path = table_path(a, name);
	bool there = a->append && !access(path, F_OK);

	free(path);
	return there;
}

static int finish(struct ws_xwriter *w, bool keep, struct ws_err *e)
{
	struct arrow *a = (struct arrow *)w;
	int rc = keep ? finish_table(a, e) : 0;

	if (a->folder && a->f)
		fclose(a->f);
	for (size_t i = 0; i < WS_COUNT(a->made); i++) {
		ws_text_free(&a->made[i].data);
		ws_text_free(&a->made[i].offsets);
		ws_text_free(&a->made[i].valid);
	}
	clear_fields(a);
	ws_arrow_batch_free(&a->batch);
	ws_arrow_free(&a->out);
	free(a->code);
	free(a);
	return rc;
}

static struct ws_xwriter *open_arrow(const struct ws_xtarget *t, bool folder)
{
	struct arrow *a = ws_calloc(1, sizeof(*a));

	a->w = (struct ws_xwriter){.table = table, .rows = rows, .close = finish, .view = view};
	if (folder)
		a->w.has = has;
	a->f = folder ? NULL : t->f;
	a->folder = folder;
	a->append = t->append;
	a->path = t->path;
	a->name = strcmp(t->name, "-") ? t->name : "standard output";
	return &a->w;
}

struct ws_xwriter *ws_xformat_open_arrow(const struct ws_xtarget *t, struct ws_err *e)
{
	(void)e;
	return open_arrow(t, false);
}

struct ws_xwriter *ws_xformat_open_arrowdir(const struct ws_xtarget *t, struct ws_err *e)
{
	(void)e;
	return open_arrow(t, true);
}
