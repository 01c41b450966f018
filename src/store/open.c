/*
 * open.c - opening a report: header, schema, the blocks by table, and, where no index closed the
 * file, the journal beside it.
 *
 * What the journal holds is encoded into blocks in memory right here, so that from then on nothing
 * distinguishes them from blocks of the file: sorted, ranged, decoded and copied by the same code.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/mem.h"
#include "store/encode.h"
#include "store/file.h"
#include "store/journal.h"
#include "store/overview.h"
#include "store/report.h"

enum { MOST_DAMAGES = 100 };

typedef unsigned long long ull;

void ws_report_say(struct ws_report *r, const char *fmt, ...)
{
	struct ws_err text;
	va_list ap;

	if (r->damages >= MOST_DAMAGES) {
		r->damages_unsaid++;
		return;
	}
	va_start(ap, fmt);
	vsnprintf(text.msg, sizeof(text.msg), fmt, ap);
	va_end(ap);
	ws_grow(r->damage, r->damage_cap, r->damages + 2);
	r->damage[r->damages++] = ws_strdup(text.msg);
}

static void say_unsaid(struct ws_report *r)
{
	size_t more = r->damages_unsaid;

	if (!more)
		return;
	r->damage[r->damages++] =
		ws_format("%zu more things are wrong", more); /* there is room for one more */
}

/* ---- header ---- */

static int open_file(struct ws_report *r, struct ws_err *e)
{
	struct stat st;

	r->fd = open(r->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (r->fd < 0)
		return ws_fail_errno(e, "cannot open %s", r->path);
	if (fstat(r->fd, &st))
		return ws_fail_errno(e, "cannot look at %s", r->path);
	if (!S_ISREG(st.st_mode))
		return ws_fail(e, "%s is not a regular file", r->path);
	r->size = (uint64_t)st.st_size;
	return 0;
}

/* A broken header is no reason to give up when blocks follow. */
static int read_header(struct ws_report *r, struct ws_err *e)
{
	struct ws_file_header *h = &r->header;
	char magic[8] = {0};
	bool magic_ok, check_ok;

	if (!r->size)
		return ws_fail(e, "%s is empty", r->path);
	if (r->size < sizeof(*h) || ws_pread_all(r->fd, h, sizeof(*h), 0))
		return ws_fail(e, "%s is no warpsight report: it is too short", r->path);
	magic_ok = !memcmp(h->magic, WS_FILE_MAGIC, 8);
	check_ok = h->check == XXH3_64bits(h, offsetof(struct ws_file_header, check));
	if (magic_ok && check_ok && h->major > WS_FORMAT_MAJOR)
		return ws_fail(e,
			       "%s has format %u.%u; this warpsight reads up to format %u: use a "
			       "newer one",
			       r->path, h->major, h->minor, WS_FORMAT_MAJOR);
	if (magic_ok && check_ok)
		return 0;
	if (r->size >= sizeof(*h) + 8)
		ws_pread_all(r->fd, magic, 8, sizeof(*h));
	if (!magic_ok && memcmp(magic, WS_BLOCK_MAGIC, 8))
		return ws_fail(e, "%s is no warpsight report", r->path);
	ws_report_say(r, "the file header is damaged");
	memset(h, 0, sizeof(*h));
	return 0;
}

/* ---- schema ---- */

static bool get_name(struct ws_cut *c, char name[256])
{
	uint16_t n;

	if (c->end - c->p < 2)
		return false;
	memcpy(&n, c->p, 2);
	c->p += 2;
	if (n > 255 || n > c->end - c->p)
		return false;
	memcpy(name, c->p, n);
	name[n] = 0;
	c->p += n;
	return true;
}

static struct ws_file_table *new_table(struct ws_report *r, uint32_t number)
{
	if (number >= r->schema_tables) {
		r->schema = ws_realloc(r->schema, (number + 1) * sizeof(*r->schema));
		for (; r->schema_tables <= number; r->schema_tables++)
			r->schema[r->schema_tables] = (struct ws_file_table){.table = -1};
	}
	return &r->schema[number];
}

static void map_column(struct ws_report *r, struct ws_file_table *f, uint32_t c, const char *name)
{
	int ours = f->table >= 0 ? ws_column_find((enum ws_table)f->table, name) : -1;

	f->column[c] = (int16_t)ours;
	if (ours >= 0)
		r->columns[f->table] |= UINT64_C(1) << ours;
}

static bool parse_schema(struct ws_report *r, struct ws_cut c, uint32_t tables)
{
	char name[256];
	uint16_t head[2];

	for (uint32_t i = 0; i < tables; i++) {
		if (c.end - c.p < 4)
			return false;
		memcpy(head, c.p, 4);
		c.p += 4;
		if (head[0] >= WS_MAX_FILE_TABLES || head[1] > WS_MAX_FILE_COLUMNS ||
		    !get_name(&c, name))
			return false;
		struct ws_file_table *f = new_table(r, head[0]);

		*f = (struct ws_file_table){.table = ws_table_find(name), .columns = head[1]};
		for (uint32_t k = 0; k < head[1]; k++) {
			if (!get_name(&c, name))
				return false;
			map_column(r, f, k, name);
			if (!get_name(&c,
				      name)) /* its type: for readers that do not know the column */
				return false;
		}
	}
	return true;
}

static void own_schema(struct ws_report *r)
{
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++) {
		struct ws_file_table *f = new_table(r, t);

		*f = (struct ws_file_table){.table = (int)t, .columns = ws_tables[t].column_count};
		for (uint32_t c = 0; c < f->columns; c++)
			map_column(r, f, c, ws_tables[t].columns[c].name);
	}
}

static void forget_schema(struct ws_report *r)
{
	free(r->schema);
	r->schema = NULL;
	r->schema_tables = 0;
	memset(r->columns, 0, sizeof(r->columns));
}

/* The first intact schema block counts; without one, a file of this very build needs none. */
static void read_schema(struct ws_report *r)
{
	struct ws_workspace *w = ws_workspace_take(r);
	bool found = false;

	for (size_t i = 0; i < r->all.n && !found; i++) {
		const struct ws_block *b = &r->all.v[i];
		const uint8_t *body =
			b->head.type == WS_BLOCK_SCHEMA ? ws_block_body(r, b, w, NULL) : NULL;

		if (!body)
			continue;
		found = parse_schema(r, (struct ws_cut){body, body + b->head.body_bytes},
				     b->head.rows);
		if (!found)
			forget_schema(r);
	}
	ws_workspace_give(r, w);
	if (found)
		return;
	if (r->header.fingerprint == ws_schema_fingerprint())
		own_schema(r);
	else
		ws_report_say(
			r, "no description of the tables is intact, so that no rows can be read");
}

/* ---- blocks by table ---- */

static void add(struct ws_block_list *l, const struct ws_block *b)
{
	ws_grow(l->v, l->cap, l->n + 1);
	l->v[l->n++] = *b;
}

static uint64_t rows_end(const struct ws_block_list *l)
{
	return l->n ? l->v[l->n - 1].head.first + l->v[l->n - 1].head.rows : 0;
}

static void say_gap(struct ws_report *r, const struct ws_block_list *l, const struct ws_block *b,
		    const char *what, uint64_t from)
{
	uint64_t expected = l->n ? rows_end(l) : from;

	if (b->head.first > expected)
		ws_report_say(r, "%llu %s are missing", (ull)(b->head.first - expected), what);
}

static void file_rows(struct ws_report *r, const struct ws_block *b)
{
	int t = b->head.table < r->schema_tables ? r->schema[b->head.table].table : -1;
	char what[300];

	if (t < 0)
		return; /* a table that only another version knows */
	if (b->head.first < rows_end(&r->table[t])) {
		ws_report_say(r, "a block at offset %llu repeats rows of table %s and was left out",
			      (ull)b->offset, ws_tables[t].name);
		return;
	}
	snprintf(what, sizeof(what), "rows of table %s", ws_tables[t].name);
	say_gap(r, &r->table[t], b, what, 0);
	add(&r->table[t], b);
}

static void file_strings(struct ws_report *r, const struct ws_block *b)
{
	if (b->head.first < rows_end(&r->strings)) {
		ws_report_say(r, "a block at offset %llu repeats strings and was left out",
			      (ull)b->offset);
		return;
	}
	say_gap(r, &r->strings, b, "strings", 1);
	add(&r->strings, b);
}

static void file_block(struct ws_report *r, const struct ws_block *b)
{
	if (b->head.type == WS_BLOCK_ROWS)
		file_rows(r, b);
	else if (b->head.type == WS_BLOCK_STRINGS)
		file_strings(r, b);
}

static const char *table_name(const struct ws_report *r, const struct ws_block *b)
{
	int t = b->head.table < r->schema_tables ? r->schema[b->head.table].table : -1;

	return t < 0 ? "unknown to this version" : ws_tables[t].name;
}

static void say_damaged(struct ws_report *r, const struct ws_block *b)
{
	ull at = b->offset, n = b->head.rows;

	if (b->head.type == WS_BLOCK_ROWS)
		ws_report_say(r,
			      "the block at offset %llu is damaged: %llu rows of table %s are lost",
			      at, n, table_name(r, b));
	else if (b->head.type == WS_BLOCK_STRINGS)
		ws_report_say(r, "the block at offset %llu is damaged: %llu strings are lost", at,
			      n);
	else
		ws_report_say(
			r,
			"the %s block at offset %llu is damaged; nothing recorded is lost with it",
			ws_block_type_name(b->head.type), at);
}

/*
 * Leave out blocks whose body is damaged. Whole files when they are small; of others only what an
 * interrupted write can have torn, the rest being checked when it is read. Strings stay: their ids
 * are then known to be lost, not undefined.
 */
static void check_bodies(struct ws_report *r, struct ws_block_list *l, const bool *keep)
{
	struct ws_workspace *w = ws_workspace_take(r);
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++) {
		struct ws_block *b = &l->v[i];
		bool look = !b->memory &&
			    (r->size <= WS_CHECK_AT_OPEN || (!r->indexed && i + 1 == l->n));

		if (look && !ws_block_body(r, b, w, NULL)) {
			say_damaged(r, b);
			if (!*keep)
				continue;
		}
		l->v[n++] = *b;
	}
	l->n = n;
	ws_workspace_give(r, w);
}

static void check_all(struct ws_report *r)
{
	static const bool keep = true, drop = false;
	struct ws_block_list other = {0};

	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		check_bodies(r, &r->table[t], &drop);
	check_bodies(r, &r->strings, &keep);
	for (size_t i = 0; i < r->all.n; i++)
		if (r->all.v[i].head.type != WS_BLOCK_ROWS &&
		    r->all.v[i].head.type != WS_BLOCK_STRINGS)
			add(&other, &r->all.v[i]);
	check_bodies(r, &other, &drop);
	free(other.v);
}

static void count_rows(struct ws_report *r)
{
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		for (size_t i = 0; i < r->table[t].n; i++) {
			r->rows[t] += r->table[t].v[i].head.rows;
			r->bytes[t] +=
				sizeof(struct ws_block_header) + r->table[t].v[i].head.body_bytes;
		}
}

/* ---- the journal ---- */

static void keep_encoded(struct ws_encoder *enc, struct ws_block *b)
{
	struct ws_block_header h;

	memcpy(&h, enc->out.p, sizeof(h));
	b->offset = 0;
	b->head = h.head;
	b->memory = ws_malloc(enc->out.len);
	memcpy(b->memory, enc->out.p, enc->out.len);
}

/* Where the numbering of strings (whatever generation: *number gets the last), or of rows of table
 * *number, stands at the end of the file. */
static uint64_t in_file(const struct ws_report *r, uint32_t type, uint32_t *number)
{
	uint64_t have = 0;

	for (size_t i = 0; i < r->all.n; i++) {
		const struct ws_block_head *h = &r->all.v[i].head;

		if (h->type != type || (type == WS_BLOCK_ROWS && h->table != *number) ||
		    h->first + h->rows <= have)
			continue;
		have = h->first + h->rows;
		*number = h->table;
	}
	return have;
}

static void add_journal_strings(struct ws_report *r, struct ws_encoder *enc,
				const struct ws_journal_copy *c)
{
	uint32_t skip = 0, generation = 0;
	uint64_t have = in_file(r, WS_BLOCK_STRINGS, &generation), bytes = 0;
	struct ws_block b;

	while (skip < c->strings && c->string_first + skip < have)
		bytes += c->lengths[skip++];
	if (skip == c->strings || c->string_first + c->strings > UINT32_MAX)
		return;
	/* Another generation than the file's: whether these strings repeat earlier ones is not
	 * known here. */
	ws_encode_strings(enc, c->string_first + skip, c->strings - skip, c->lengths + skip,
			  c->text + bytes, c->text_bytes - bytes, generation + 1, 0);
	keep_encoded(enc, &b);
	add(&r->all, &b);
}

static void add_journal_rows(struct ws_report *r, struct ws_encoder *enc,
			     const struct ws_journal_copy *c, enum ws_table t, uint64_t have)
{
	uint64_t first = c->table[t].first;
	uint32_t n = c->table[t].n, skip;
	struct ws_block b;

	skip = have <= first ? 0 : have - first < n ? (uint32_t)(have - first) : n;
	if (skip == n)
		return;
	ws_encode_rows(enc, t, c->table[t].rows + (size_t)skip * ws_tables[t].row_size, n - skip,
		       first + skip, 0);
	keep_encoded(enc, &b);
	add(&r->all, &b);
}

static void add_journal(struct ws_report *r, const struct ws_journal_copy *c)
{
	struct ws_encoder enc;
	uint32_t most = 1;

	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		most = c->table[t].n > most ? c->table[t].n : most;
	ws_encoder_init(&enc, most);
	add_journal_strings(r, &enc, c);
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++) {
		uint32_t number = t;

		if (c->table[t].n)
			add_journal_rows(r, &enc, c, (enum ws_table)t,
					 in_file(r, WS_BLOCK_ROWS, &number));
	}
	ws_encoder_free(&enc);
}

/* A torn block at the end, which the journal makes up for. */
static void drop_torn(struct ws_report *r, uint64_t whole)
{
	struct ws_workspace *w = ws_workspace_take(r);

	while (r->all.n && r->all.v[r->all.n - 1].offset >= whole &&
	       !ws_block_body(r, &r->all.v[r->all.n - 1], w, NULL))
		r->all.n--;
	ws_workspace_give(r, w);
}

static void say_unfinished(struct ws_report *r, enum ws_journal_state state,
			   const struct ws_err *why)
{
	if (r->live) {
		ws_report_say(r, "the recording is still running; this is what there was so far");
		return;
	}
	switch (state) {
	case WS_JOURNAL_COPIED:
		ws_report_say(r, "the recorder was killed before it could close the report; what "
				 "it had written and its journal are read");
		break;
	case WS_JOURNAL_BAD:
		ws_report_say(r,
			      "no index closes the report and its journal cannot be used (%s): "
			      "events after the last block are lost",
			      why->msg);
		break;
	default:
		ws_report_say(r, "no index closes the report and no journal of it is there: events "
				 "after the last block are lost");
	}
}

/* An open end: take in the journal. It is copied before the file is walked, so that whatever leaves
 * it meanwhile is found in the file. */
static void read_open_end(struct ws_report *r, enum ws_journal_state state,
			  struct ws_journal_copy *c, const struct ws_err *why)
{
	bool closed = r->all.n && r->all.v[r->all.n - 1].head.type == WS_BLOCK_INDEX;

	if (closed) {
		ws_report_say(r, "the index of the report is damaged and was rebuilt");
		return;
	}
	if (state == WS_JOURNAL_COPIED) {
		drop_torn(r, c->report_bytes);
		if (r->size < c->report_bytes)
			ws_report_say(r, "the file is %llu bytes shorter than it was",
				      (ull)(c->report_bytes - r->size));
		add_journal(r, c);
	} else if (r->rest) {
		ws_report_say(r, "%llu bytes at the end are an incomplete block", (ull)r->rest);
	}
	say_unfinished(r, state, why);
}

static void refresh_size(struct ws_report *r)
{
	struct stat st;

	if (!fstat(r->fd, &st))
		r->size = (uint64_t)st.st_size;
}

static void read_blocks(struct ws_report *r)
{
	struct ws_journal_copy copy;
	struct ws_err why = {""};
	char *path = ws_journal_path(r->path);
	enum ws_journal_state state;

	r->live = ws_file_is_locked(r->fd);
	state = ws_journal_copy(path, r->header.uuid, &copy, &why);
	free(path);
	refresh_size(r);
	ws_report_find_blocks(r);
	if (r->indexed)
		r->live = false;
	else
		read_open_end(r, state, &copy, &why);
	ws_journal_copy_free(&copy);
	read_schema(r);
	for (size_t i = 0; i < r->all.n; i++)
		file_block(r, &r->all.v[i]);
	check_all(r);
	count_rows(r);
	ws_report_prepare_strings(r);
}

/* ---- the interface ---- */

struct ws_report *(*ws_report_foreign)(const char *path, struct ws_err *e);

/* A file that can be read and begins otherwise than a report. */
static bool begins_otherwise(const char *path)
{
	char magic[8];
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode)
			    ? pread(fd, magic, sizeof(magic), 0)
			    : 0;
	bool other = n > 0 && memcmp(magic, WS_FILE_MAGIC, (size_t)n);

	if (fd >= 0)
		close(fd);
	return other;
}

struct ws_report *ws_report_open(const char *path, struct ws_err *e)
{
	struct ws_err ignored;

	return ws_report_foreign && begins_otherwise(path)
		       ? ws_report_foreign(path, e ? e : &ignored)
		       : ws_report_open_plain(path, e);
}

void ws_report_rename(struct ws_report *r, const char *path)
{
	free(r->path);
	r->path = ws_strdup(path);
}

struct ws_report *ws_report_open_plain(const char *path, struct ws_err *e)
{
	struct ws_report *r = ws_calloc(1, sizeof(*r));

	r->fd = -1;
	r->path = ws_strdup(path);
	pthread_mutex_init(&r->lock, NULL);
	pthread_mutex_init(&r->key_lock, NULL);
	pthread_mutex_init(&r->text_lock, NULL);
	pthread_cond_init(&r->text_loaded, NULL);
	pthread_mutex_init(&r->group_lock, NULL);
	if (open_file(r, e) || read_header(r, e)) {
		ws_report_close(r);
		return NULL;
	}
	read_blocks(r);
	say_unsaid(r);
	return r;
}

void ws_report_close(struct ws_report *r)
{
	if (!r)
		return;
	ws_report_free_strings(r);
	ws_report_free_groups(r);
	for (size_t i = 0; i < r->all.n; i++)
		free(r->all.v[i].memory);
	free(r->all.v);
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++)
		free(r->table[t].v);
	free(r->strings.v);
	for (size_t i = 0; i < r->damages; i++)
		free(r->damage[i]);
	free(r->damage);
	while (r->pool) {
		struct ws_workspace *next = r->pool->next;

		ws_workspace_free(r->pool);
		r->pool = next;
	}
	free(r->schema);
	if (r->fd >= 0)
		close(r->fd);
	pthread_mutex_destroy(&r->lock);
	pthread_mutex_destroy(&r->key_lock);
	pthread_mutex_destroy(&r->text_lock);
	pthread_cond_destroy(&r->text_loaded);
	pthread_mutex_destroy(&r->group_lock);
	free(r->path);
	free(r);
}

const char *ws_report_path(const struct ws_report *r)
{
	return r->path;
}

bool ws_report_live(const struct ws_report *r)
{
	return r->live;
}

bool ws_report_complete(const struct ws_report *r)
{
	return r->indexed && !r->damages;
}

const char *ws_report_damage(const struct ws_report *r, size_t i)
{
	return i < r->damages ? r->damage[i] : NULL;
}

uint64_t ws_report_file_size(const struct ws_report *r)
{
	return r->size;
}

uint64_t ws_report_rows(const struct ws_report *r, enum ws_table t)
{
	return r->rows[t];
}

uint64_t ws_report_table_bytes(const struct ws_report *r, enum ws_table t)
{
	return r->bytes[t];
}

uint64_t ws_report_columns(const struct ws_report *r, enum ws_table t)
{
	return r->columns[t];
}

size_t ws_report_blocks(const struct ws_report *r, enum ws_table t)
{
	return r->table[t].n;
}

struct ws_block_info ws_report_block(const struct ws_report *r, enum ws_table t, size_t i)
{
	const struct ws_block *b = &r->table[t].v[i];

	return (struct ws_block_info){
		.offset = b->offset,
		.bytes = sizeof(struct ws_block_header) + b->head.body_bytes,
		.rows = b->head.rows,
		.time_min = b->head.time_min,
		.time_max = b->head.time_max,
		.track_min = b->head.track_min,
		.track_max = b->head.track_max,
	};
}
