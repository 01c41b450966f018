/*
 * decode.c - from a block's body back to columns of 64-bit numbers: the reverse of encode.c.
 * Everything read here may be hostile: every length is checked against what is there before it is
 * used.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "store/file.h"
#include "store/lattice.h"
#include "store/report.h"

/* ---- workspaces ---- */

struct ws_workspace *ws_workspace_take(const struct ws_report *r)
{
	struct ws_report *m =
		(struct ws_report *)r; /* the pool is no part of what const promises */
	struct ws_workspace *w;

	pthread_mutex_lock(&m->lock);
	w = m->pool;
	if (w)
		m->pool = w->next;
	pthread_mutex_unlock(&m->lock);
	if (!w) {
		w = ws_calloc(1, sizeof(*w));
		ws_unpacker_init(&w->unpacker);
	}
	return w;
}

void ws_workspace_give(const struct ws_report *r, struct ws_workspace *w)
{
	struct ws_report *m = (struct ws_report *)r;

	pthread_mutex_lock(&m->lock);
	w->next = m->pool;
	m->pool = w;
	pthread_mutex_unlock(&m->lock);
}

void ws_workspace_free(struct ws_workspace *w)
{
	ws_unpacker_free(&w->unpacker);
	ws_bytes_free(&w->block);
	free(w->spare[0]);
	free(w->spare[1]);
	free(w->bytes);
	free(w);
}

static void workspace_rows(struct ws_workspace *w, uint32_t rows)
{
	ws_unpacker_rows(&w->unpacker, rows);
	if (rows <= w->rows)
		return;
	for (int i = 0; i < 2; i++)
		w->spare[i] = ws_realloc(w->spare[i], (size_t)rows * 8);
	w->bytes = ws_realloc(w->bytes, (size_t)rows * 2);
	w->rows = rows;
}

const char *ws_block_type_name(uint32_t type)
{
	static const char *const names[] = {"",	    "segment", "schema",  "strings",
					    "rows", "index",   "overview"};

	return type < WS_COUNT(names) ? names[type] : "unknown";
}

const uint8_t *ws_block_body(const struct ws_report *r, const struct ws_block *b,
			     struct ws_workspace *w, struct ws_err *e)
{
	size_t n = sizeof(struct ws_block_header) + b->head.body_bytes;
	struct ws_block_header h;
	const uint8_t *p = b->memory;

	if (!p) {
		w->block.len = 0;
		p = ws_bytes_room(&w->block, n);
		if (ws_pread_all(r->fd, (void *)p, n, b->offset)) {
			ws_fail_errno(e, "%s: cannot read the block at offset %llu", r->path,
				      (unsigned long long)b->offset);
			return NULL;
		}
	}
	memcpy(&h, p, sizeof(h));
	if (memcmp(h.magic, WS_BLOCK_MAGIC, 8) || memcmp(&h.head, &b->head, sizeof(h.head)) ||
	    XXH3_64bits(p + sizeof(h), b->head.body_bytes) != b->head.body_check) {
		ws_fail(e, "%s: the %s block at offset %llu is damaged", r->path,
			ws_block_type_name(b->head.type), (unsigned long long)b->offset);
		return NULL;
	}
	return p + sizeof(h);
}

/* ---- columns ---- */

struct column {
	struct ws_column_head h;
	const uint8_t *at;
	uint64_t *value; /* where it is decoded to; NULL: not (yet) */
	bool done;
};

struct job {
	struct ws_workspace *w;
	struct column *c;
	uint32_t n, columns;
	uint32_t spares;
};

static uint64_t unzigzag(uint64_t u)
{
	return u >> 1 ^ (0 - (u & 1));
}

/* The numbers of a column with base and sign put back. `rest`: where the corrections of a SCALED
 * column go; without it, it is no such. */
static bool numbers(struct job *j, const struct column *c, struct ws_cut *cut, uint64_t *u,
		    uint8_t *rest)
{
	uint64_t base = c->h.base;

	if (!(c->h.flags & WS_CODEC_SCALED) != !rest ||
	    !ws_ints_get(&j->w->unpacker, cut, &c->h, u, j->n) ||
	    (rest && !ws_stream_get(j->w->unpacker.z, cut, rest, j->n)))
		return false;
	if (c->h.flags & WS_CODEC_ZIGZAG)
		for (uint32_t i = 0; i < j->n; i++)
			u[i] = unzigzag(u[i] + base);
	else if (base)
		for (uint32_t i = 0; i < j->n; i++)
			u[i] += base;
	return true;
}

static bool from_dict(struct job *j, const struct column *c, struct ws_cut *cut, uint64_t *u)
{
	uint64_t table[256] = {0}, over = 0;

	if (!c->h.dict || c->h.dict > 256 || c->h.width > 1 || c->h.patches || c->h.flags ||
	    !ws_stream_get(j->w->unpacker.z, cut, (uint8_t *)table, c->h.dict * 8u) ||
	    !ws_ints_get(&j->w->unpacker, cut, &c->h, u, j->n))
		return false;
	for (uint32_t i = 0; i < j->n; i++) {
		over |= u[i] >= c->h.dict;
		u[i] = table[u[i]];
	}
	return !over;
}

static struct column *find(const struct job *j, uint32_t number)
{
	for (uint32_t i = 0; i < j->columns; i++)
		if (j->c[i].h.column == number)
			return &j->c[i];
	return NULL;
}

static bool place(struct job *j, struct column *c)
{
	if (c->value)
		return true;
	if (j->spares == 2)
		return false;
	c->value = j->w->spare[j->spares++];
	return true;
}

static struct ws_cut cut_of(const struct column *c)
{
	return (struct ws_cut){c->at, c->at + c->h.bytes};
}

/* Starts, and unless it is NULL ends, in steps of the clock. */
static bool steps(struct job *j, struct column *start, struct column *end)
{
	struct ws_lattice l = {
		.scale = start->h.scale, .gaps = start->h.codec == WS_CODEC_GAP, .n = j->n};
	struct ws_cut a = cut_of(start), b;

	if ((start->h.codec != WS_CODEC_DELTA && !l.gaps) ||
	    (l.gaps && (!end || start->h.ref != end->h.column)) || !place(j, start))
		return false;
	l.start_steps = start->value;
	l.start_rest = j->w->bytes;
	if (!numbers(j, start, &a, start->value, l.start_rest))
		return false;
	if (end) {
		b = cut_of(end);
		if (end->h.codec != WS_CODEC_SPAN || end->h.ref != start->h.column ||
		    end->h.scale != l.scale || !place(j, end))
			return false;
		l.span_steps = end->value;
		l.span_rest = j->w->bytes + j->n;
		if (!numbers(j, end, &b, end->value, l.span_rest))
			return false;
		end->done = true;
	}
	ws_lattice_join(&l, start->h.first, start->value, end ? end->value : NULL);
	start->done = true;
	return true;
}

/* Starts as gaps since the end before, and ends as spans from the start: one needs the other, row
 * by row. */
static bool gaps_and_spans(struct job *j, struct column *start, struct column *end)
{
	struct ws_cut a = cut_of(start), b = cut_of(end);

	if (start->h.flags & WS_CODEC_SCALED)
		return steps(j, start, end);
	if (start->h.codec != WS_CODEC_GAP || start->h.ref != end->h.column ||
	    end->h.codec != WS_CODEC_SPAN || end->h.ref != start->h.column || !place(j, start) ||
	    !place(j, end) || !numbers(j, start, &a, start->value, NULL) ||
	    !numbers(j, end, &b, end->value, NULL))
		return false;
	uint64_t *s = start->value, *e = end->value, last = start->h.first;

	for (uint32_t i = 0; i < j->n; i++) {
		uint64_t now = i ? last + s[i] : last, span = e[i];

		s[i] = now;
		last = span ? now + span - 1 : now;
		e[i] = span ? last : WS_NO_TIME;
	}
	start->done = end->done = true;
	return true;
}

static bool decode_column(struct job *j, struct column *c);

static bool spans(struct job *j, struct column *c)
{
	struct column *start = find(j, c->h.ref);
	struct ws_cut cut = cut_of(c);

	if (!start || start == c || start->h.codec == WS_CODEC_SPAN)
		return false;
	if (start->h.codec == WS_CODEC_GAP || start->h.flags & WS_CODEC_SCALED)
		return gaps_and_spans(j, start, c);
	if (!place(j, start) || (!start->done && !decode_column(j, start)) ||
	    !numbers(j, c, &cut, c->value, NULL))
		return false;
	for (uint32_t i = 0; i < j->n; i++)
		c->value[i] = c->value[i] ? start->value[i] + c->value[i] - 1 : WS_NO_TIME;
	return true;
}

static bool deltas(struct job *j, struct column *c)
{
	struct ws_cut cut = cut_of(c);
	uint64_t sum = c->h.first;

	if (c->h.flags & WS_CODEC_SCALED)
		return steps(j, c, NULL);
	if (!numbers(j, c, &cut, c->value, NULL))
		return false;
	c->value[0] = sum;
	for (uint32_t i = 1; i < j->n; i++)
		c->value[i] = sum += c->value[i];
	return true;
}

static bool decode_column(struct job *j, struct column *c)
{
	struct ws_cut cut = cut_of(c);
	struct column *end;
	bool ok = true;

	switch (c->h.codec) {
	case WS_CODEC_CONST:
		for (uint32_t i = 0; i < j->n; i++)
			c->value[i] = c->h.base;
		break;
	case WS_CODEC_PLAIN:
		ok = numbers(j, c, &cut, c->value, NULL);
		break;
	case WS_CODEC_DELTA:
		ok = deltas(j, c);
		break;
	case WS_CODEC_DICT:
		ok = from_dict(j, c, &cut, c->value);
		break;
	case WS_CODEC_SPAN:
		ok = spans(j, c);
		break;
	case WS_CODEC_GAP:
		end = find(j, c->h.ref);
		ok = end && end != c && gaps_and_spans(j, c, end);
		break;
	default:
		ok = false;
	}
	c->done = ok;
	return ok;
}

/* Descriptors, and where each column's streams are. */
static bool cut_columns(struct job *j, const uint8_t *body, uint64_t bytes)
{
	uint64_t heads = (uint64_t)j->columns * sizeof(struct ws_column_head), at = heads;

	if (heads > bytes)
		return false;
	for (uint32_t i = 0; i < j->columns; i++) {
		struct column *c = &j->c[i];

		*c = (struct column){.at = body + at};
		memcpy(&c->h, body + (size_t)i * sizeof(c->h), sizeof(c->h));
		if (c->h.bytes > bytes - at)
			return false;
		at += c->h.bytes;
	}
	return true;
}

static bool decode_body(struct ws_workspace *w, const struct ws_file_table *map,
			const struct ws_block_head *h, const uint8_t *body, uint64_t columns,
			uint64_t *const *out)
{
	struct column c[WS_MAX_FILE_COLUMNS];
	struct job j = {.w = w, .c = c, .n = h->rows, .columns = h->columns};

	if (!cut_columns(&j, body, h->body_bytes))
		return false;
	for (uint32_t i = 0; i < j.columns; i++) {
		int ours = c[i].h.column < map->columns ? map->column[c[i].h.column] : -1;

		if (ours >= 0 && columns >> ours & 1) {
			c[i].value = out[ours];
			columns &= ~(UINT64_C(1) << ours);
		}
	}
	for (int spans_first = 1; spans_first >= 0;
	     spans_first--) /* they decode their starts along with them */
		for (uint32_t i = 0; i < j.columns; i++)
			if (c[i].value && !c[i].done &&
			    (c[i].h.codec == WS_CODEC_SPAN || !spans_first) &&
			    !decode_column(&j, &c[i]))
				return false;
	for (uint32_t k = 0; columns >> k; k++) /* not stored: all zero, or unknown to the file */
		if (columns >> k & 1)
			memset(out[k], 0, (size_t)h->rows * 8);
	return true;
}

int ws_report_decode(const struct ws_report *r, enum ws_table t, size_t i, uint64_t columns,
		     uint64_t *const *out, struct ws_err *e)
{
	const struct ws_block *b = &r->table[t].v[i];
	struct ws_workspace *w = ws_workspace_take(r);
	uint64_t *decoded = &((struct ws_report *)r)
				     ->decoded; /* of what was read, the report does not change */
	const uint8_t *body = ws_block_body(r, b, w, e);
	int rc = body ? 0 : -1;

	if (ws_tables[t].column_count < 64)
		columns &= (UINT64_C(1) << ws_tables[t].column_count) - 1;
	__atomic_fetch_add(decoded, 1, __ATOMIC_RELAXED);
	workspace_rows(w, b->head.rows);
	if (body && !decode_body(w, &r->schema[b->head.table], &b->head, body, columns, out))
		rc = ws_fail(e, "%s: the rows block at offset %llu cannot be decoded", r->path,
			     (unsigned long long)b->offset);
	ws_workspace_give(r, w);
	return rc;
}

uint64_t ws_report_decoded(const struct ws_report *r)
{
	return __atomic_load_n(&r->decoded, __ATOMIC_RELAXED);
}
