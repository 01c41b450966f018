/*
 * std8.c - see std8.h.
 *
 * A report whose names never repeat has millions of lines, and each is a miss of the cache or several. So the order is found on
 * small records: totals by their digits, then names of equal total by the eight bytes after those that all of them share. Many are
 * first dealt out by total to 256 parts of about one size, which all cores sort. Printing fetches what lines further on point to.
 */
#include "stats/std8.h"

#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "base/sort.h"

enum { FEW = 16, AHEAD = 12 };

static int compare_text(const char *a, size_t m, const char *b, size_t n)
{
	size_t least = m < n ? m : n;
	int order = least ? memcmp(a, b, least) : 0;

	return order ? order : m < n ? -1 : m > n;
}

/* Of lines of the same total. */
static int compare(const struct ws_std8_line *x, const struct ws_std8_line *y)
{
	int order;

	if (x->s->total != y->s->total) /* beyond 64 bits */
		return x->s->total < y->s->total ? 1 : -1;
	order = compare_text(x->name, x->name_len, y->name, y->name_len);
	if (!order && x->tail && y->tail)
		order = compare_text(x->tail, x->tail_len, y->tail, y->tail_len);
	if (!order)
		order = (x->tail != NULL) - (y->tail != NULL);
	if (!order && x->style && y->style)
		order = strcmp(x->style, y->style);
	return order || !x->style2 || !y->style2 ? order : strcmp(x->style2, y->style2);
}

static int by_line(const void *a, const void *b, void *lines)
{
	const struct ws_std8_line *l = lines;

	return compare(&l[((const struct ws_keyed_value *)a)->value], &l[((const struct ws_keyed_value *)b)->value]);
}

static int by_key(const void *a, const void *b)
{
	const struct ws_keyed_value *x = a, *y = b;

	return x->key < y->key ? -1 : x->key > y->key;
}

/* How many bytes all names begin with alike; *shortest gets the least length. */
static size_t shared(const struct ws_keyed_value *v, size_t n, const struct ws_std8_line *lines, size_t skip, size_t *shortest)
{
	const struct ws_std8_line *first = &lines[v[0].value];
	size_t same = first->name_len;

	*shortest = first->name_len;
	for (size_t i = 1; i < n; i++) {
		const struct ws_std8_line *l = &lines[v[i].value];
		size_t most = l->name_len < same ? l->name_len : same, k = skip;

		if (i + 2 * AHEAD < n)
			__builtin_prefetch(&lines[v[i + 2 * AHEAD].value].name);
		if (i + AHEAD < n)
			__builtin_prefetch(lines[v[i + AHEAD].value].name + skip);
		while (k < most && l->name[k] == first->name[k])
			k++;
		same = k;
		*shortest = l->name_len < *shortest ? l->name_len : *shortest;
	}
	return same;
}

/* The bytes of a name from `at` on, so that they compare as numbers; where it ends, zeros. */
static uint64_t eight(const struct ws_std8_line *l, size_t at)
{
	uint64_t v = 0;

	memcpy(&v, l->name + at, l->name_len - at < 8 ? l->name_len - at : 8);
	return __builtin_bswap64(v);
}

/* In place; by digits where these are fewer steps than comparing takes. */
static void sort_keys(struct ws_keyed_value *v, size_t n)
{
	struct ws_keyed_value *t;

	if (n < 512) {
		qsort(v, n, sizeof(*v), by_key);
		return;
	}
	t = ws_malloc(n * sizeof(*t));
	memcpy(t, v, n * sizeof(*t));
	t = ws_sort_by_key(t, n);
	memcpy(v, t, n * sizeof(*t));
	free(t);
}

/* Lines of equal total, whose names share the first `skip` bytes. Each step goes on with names that share eight more. */
static void sort_names(struct ws_keyed_value *v, size_t n, const struct ws_std8_line *lines, size_t skip)
{
	size_t shortest, same, next;

	if (n < 2)
		return;
	same = n > FEW ? shared(v, n, lines, skip, &shortest) : 0;
	if (n <= FEW || same == shortest) { /* names that end there may be equal */
		qsort_r(v, n, sizeof(*v), by_line, (void *)lines);
		return;
	}
	for (size_t i = 0; i < n; i++)
		v[i].key = eight(&lines[v[i].value], same);
	sort_keys(v, n);
	for (size_t i = 0; i < n; i = next) {
		for (next = i + 1; next < n && v[next].key == v[i].key;)
			next++;
		if (next - i == n) /* zeros are of the names, or of their ends: no way to tell apart */
			qsort_r(v, n, sizeof(*v), by_line, (void *)lines);
		else
			sort_names(v + i, next - i, lines, same);
	}
}

static int64_t whole(unsigned __int128 v)
{
	return v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

/* Ascending as totals descend; those beyond 64 bits share one. */
static uint64_t key_of(const struct ws_std8_line *l)
{
	return ~(l->s->total > UINT64_MAX ? UINT64_MAX : (uint64_t)l->s->total);
}

/* Sort lines by key, then by what else tells them apart. Returns where they are, as ws_sort_by_key. */
static struct ws_keyed_value *sort_part(const struct ws_std8_line *lines, struct ws_keyed_value *v, size_t n)
{
	v = ws_sort_by_key(v, n);
	for (size_t i = 0, next; i < n; i = next) {
		for (next = i + 1; next < n && v[next].key == v[i].key;)
			next++;
		if (~v[i].key == UINT64_MAX) /* their totals may differ beyond that */
			qsort_r(v + i, next - i, sizeof(*v), by_line, (void *)lines);
		else
			sort_names(v + i, next - i, lines, 0);
	}
	return v;
}

enum { PARTS = 256, SAMPLES = 64 * PARTS, CHUNK = 1 << 16 };

struct ordering {
	const struct ws_std8_line *lines;
	size_t count;
	struct ws_keyed_value *from, *to; /* lines as they are; dealt out */
	uint64_t least[PARTS];		  /* key of each part; the first takes all that is less */
	uint8_t *part;			  /* of each line */
	size_t (*at)[PARTS];		  /* by chunk: how many are of each part; then where its next one goes */
	size_t first[PARTS + 1];
};

/* Limits of the parts, from lines taken here and there. */
static void choose_limits(struct ordering *o)
{
	struct ws_keyed_value *v = ws_malloc(SAMPLES * sizeof(*v));

	for (size_t i = 0; i < SAMPLES; i++)
		v[i] = (struct ws_keyed_value){key_of(&o->lines[o->count / SAMPLES * i]), 0};
	v = ws_sort_by_key(v, SAMPLES);
	for (size_t i = 0; i < PARTS; i++)
		o->least[i] = v[i * (SAMPLES / PARTS)].key;
	free(v);
}

/* The last part that begins at or before `key`: eight steps without a branch. */
static uint8_t part_of(const struct ordering *o, uint64_t key)
{
	size_t at = 0;

	for (size_t step = PARTS / 2; step; step /= 2)
		at += o->least[at + step] <= key ? step : 0;
	return (uint8_t)at;
}

static void count_chunk(void *ctx, unsigned worker, size_t chunk)
{
	struct ordering *o = ctx;
	size_t end = o->count - chunk * CHUNK < CHUNK ? o->count : (chunk + 1) * CHUNK;

	(void)worker;
	for (size_t i = chunk * CHUNK; i < end; i++) {
		o->from[i] = (struct ws_keyed_value){key_of(&o->lines[i]), i};
		o->part[i] = part_of(o, o->from[i].key);
		o->at[chunk][o->part[i]]++;
	}
}

static void deal_chunk(void *ctx, unsigned worker, size_t chunk)
{
	struct ordering *o = ctx;
	size_t end = o->count - chunk * CHUNK < CHUNK ? o->count : (chunk + 1) * CHUNK;

	(void)worker;
	for (size_t i = chunk * CHUNK; i < end; i++)
		o->to[o->at[chunk][o->part[i]]++] = o->from[i];
}

static void order_part(void *ctx, unsigned worker, size_t part)
{
	struct ordering *o = ctx;
	size_t n = o->first[part + 1] - o->first[part];
	struct ws_keyed_value *v;

	(void)worker;
	if (n < 2)
		return;
	v = ws_malloc(n * sizeof(*v));
	memcpy(v, o->to + o->first[part], n * sizeof(*v));
	v = sort_part(o->lines, v, n);
	memcpy(o->to + o->first[part], v, n * sizeof(*v));
	free(v);
}

/* Many lines in order, as `value`s. */
static struct ws_keyed_value *order_many(const struct ws_std8_line *lines, size_t count)
{
	struct ordering o = {.lines = lines, .count = count};
	size_t chunks = (count + CHUNK - 1) / CHUNK, sum = 0;
	unsigned workers = ws_parallel_workers();

	o.from = ws_malloc(count * sizeof(*o.from));
	o.to = ws_malloc(count * sizeof(*o.to));
	o.part = ws_malloc(count);
	o.at = ws_calloc(chunks, sizeof(*o.at));
	choose_limits(&o);
	ws_parallel(workers, chunks, count_chunk, &o);
	for (size_t p = 0; p < PARTS; p++) {
		o.first[p] = sum;
		for (size_t c = 0; c < chunks; c++) {
			size_t n = o.at[c][p];

			o.at[c][p] = sum;
			sum += n;
		}
	}
	o.first[PARTS] = sum;
	ws_parallel(workers, chunks, deal_chunk, &o);
	free(o.from);
	free(o.part);
	free(o.at);
	ws_parallel(workers, PARTS, order_part, &o);
	return o.to;
}

static struct ws_keyed_value *order(const struct ws_std8_line *lines, size_t count)
{
	struct ws_keyed_value *v;

	if (count >= CHUNK)
		return order_many(lines, count);
	v = ws_malloc(count * sizeof(*v));
	for (size_t i = 0; i < count; i++)
		v[i] = (struct ws_keyed_value){key_of(&lines[i]), i};
	return sort_part(lines, v, count);
}

void ws_std8_sort(struct ws_std8_line *lines, size_t count)
{
	struct ws_keyed_value *v = order(lines, count);
	struct ws_std8_line *sorted = ws_malloc(count * sizeof(*sorted));

	for (size_t i = 0; i < count; i++) {
		if (i + AHEAD < count) {
			const char *next = (const char *)&lines[v[i + AHEAD].value];

			__builtin_prefetch(next);
			__builtin_prefetch(next + sizeof(*lines) - 1);
		}
		sorted[i] = lines[v[i].value];
	}
	if (count)
		memcpy(lines, sorted, count * sizeof(*lines));
	free(sorted);
	free(v);
}

/* ---- printing ---- */

struct printing {
	const struct ws_std8_line *lines;
	const struct ws_keyed_value *order;
	size_t count;
	unsigned __int128 sum; /* of all totals */
};

static const struct ws_std8_line *line_at(const struct printing *p, size_t i)
{
	return &p->lines[p->order[i].value];
}

/* Fetch what printing the lines after line i will touch. */
static ws_fetching void fetch(const struct printing *p, size_t i)
{
	const struct ws_std8_line *l;

	if (i + 2 * AHEAD < p->count) {
		l = line_at(p, i + 2 * AHEAD);
		__builtin_prefetch(l);
		__builtin_prefetch((const char *)(l + 1) - 1);
	}
	if (i + AHEAD >= p->count)
		return;
	l = line_at(p, i + AHEAD);
	__builtin_prefetch(l->s);
	__builtin_prefetch((const char *)(l->s + 1) - 1);
	__builtin_prefetch(l->name);
	__builtin_prefetch(l->name + 64);
}

static struct ws_cell whole_name(const struct ws_std8_line *l, struct ws_text *text)
{
	if (!l->tail)
		return ws_cell_text(l->name, l->name_len);
	ws_text_add(text, l->name, l->name_len);
	ws_text_add(text, "/", 1);
	ws_text_add(text, l->tail, l->tail_len);
	return ws_cell_text(text->s, text->len);
}

static void make_row(const void *ctx, size_t i, struct ws_cell *cells, struct ws_text *text)
{
	const struct printing *p = ctx;
	const struct ws_std8_line *l = line_at(p, i);
	const struct ws_std8 *v = l->s;
	size_t n = 8;

	fetch(p, i);
	cells[0] = ws_cell_real(p->sum ? (long double)v->total * 100 / (long double)p->sum : 0);
	cells[1] = ws_cell_int(whole(v->total));
	cells[2] = ws_cell_int(whole(v->count));
	cells[3] = ws_cell_real(ws_std8_mean(v));
	cells[4] = ws_cell_real(ws_std8_median(v));
	cells[5] = ws_cell_int(whole(v->min));
	cells[6] = ws_cell_int(whole(v->max));
	cells[7] = ws_cell_real(v->stddev);
	if (l->style)
		cells[n++] = ws_cell_text(l->style, strlen(l->style));
	if (l->style2)
		cells[n++] = ws_cell_text(l->style2, strlen(l->style2));
	cells[n] = whole_name(l, text);
}

void ws_std8_print(struct ws_stats *s, const struct ws_std8_line *lines, size_t count)
{
	struct printing p = {.lines = lines, .order = order(lines, count), .count = count};

	for (size_t i = 0; i < count; i++) {
		if (i + AHEAD < count)
			__builtin_prefetch(lines[i + AHEAD].s);
		p.sum += lines[i].s->total;
	}
	s->rows(s, count, make_row, &p);
	free((void *)p.order);
}
