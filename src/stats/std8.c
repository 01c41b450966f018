/*
 * std8.c - see std8.h.
 *
 * A report whose names never repeat has millions of lines, and each is a miss of the cache or
 * several. So the order is found on small records, of a key made of the total and a number that
 * stands for the line: first by their digits, then names of equal total by the eight bytes after
 * those that all of them share. Many are first dealt out by total to 256 parts of about one size,
 * which all cores sort. Whatever goes from line to line asks the memory for what lines further on
 * need.
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

/* Both with what they begin with. */
static int compare_names(const struct ws_std8_line *x, const struct ws_std8_line *y)
{
	size_t m = x->head_len + x->name_len, n = y->head_len + y->name_len, least = m < n ? m : n;

	if (x->head_len == y->head_len &&
	    (x->head == y->head || !memcmp(x->head, y->head, x->head_len)))
		return compare_text(x->name, x->name_len, y->name, y->name_len);
	for (size_t i = 0; i < least; i++) {
		unsigned char a = (unsigned char)(i < x->head_len ? x->head[i]
								  : x->name[i - x->head_len]),
			      b = (unsigned char)(i < y->head_len ? y->head[i]
								  : y->name[i - y->head_len]);

		if (a != b)
			return a < b ? -1 : 1;
	}
	return m < n ? -1 : m > n;
}

static int compare(const struct ws_std8_line *x, const struct ws_std8_line *y)
{
	int order = compare_names(x, y);

	if (!order && x->tail && y->tail)
		order = compare_text(x->tail, x->tail_len, y->tail, y->tail_len);
	if (!order)
		order = (x->tail != NULL) - (y->tail != NULL);
	if (!order && x->style && y->style)
		order = strcmp(x->style, y->style);
	return order || !x->style2 || !y->style2 ? order : strcmp(x->style2, y->style2);
}

/* Of lines of equal total. */
static int by_line(const void *a, const void *b, void *ctx)
{
	const struct ws_std8_lines *lines = ctx;
	struct ws_std8_line x, y;

	lines->line(lines->ctx, a, &x, NULL);
	lines->line(lines->ctx, b, &y, NULL);
	return compare(&x, &y);
}

/* Of lines of equal key, whose totals may differ beyond 64 bits. */
static int by_total(const void *a, const void *b, void *ctx)
{
	const struct ws_std8_lines *lines = ctx;
	struct ws_std8_line x, y;
	struct ws_std8 s, t;

	lines->line(lines->ctx, a, &x, &s);
	lines->line(lines->ctx, b, &y, &t);
	return x.s->total < y.s->total ? 1 : x.s->total > y.s->total ? -1 : compare(&x, &y);
}

static int by_key(const void *a, const void *b)
{
	const struct ws_keyed_value *x = a, *y = b;

	return x->key < y->key ? -1 : x->key > y->key;
}

static void fetch(const struct ws_std8_lines *lines, const struct ws_keyed_value *v, size_t n,
		  size_t i)
{
	for (unsigned step = 0; step < 3; step++)
		if (i + (3 - step) * AHEAD < n)
			lines->fetch(lines->ctx, v[i + (3 - step) * AHEAD].value, step);
}

/* Bytes of a name from `at` on; where it ends, zeros. */
static void bytes_at(const struct ws_std8_line *l, size_t at, char *to, size_t n)
{
	size_t head = l->head_len > at ? l->head_len - at : 0, rest, from;

	memset(to, 0, n);
	head = head < n ? head : n;
	if (head)
		memcpy(to, l->head + at, head);
	from = at + head - l->head_len;
	rest = head < n && l->name_len > from ? l->name_len - from : 0;
	if (rest)
		memcpy(to + head, l->name + from, rest < n - head ? rest : n - head);
}

/* Those from `at` on, so that they compare as numbers. */
static uint64_t eight(const struct ws_std8_line *l, size_t at)
{
	uint64_t v;

	if (ws_likely(at >= l->head_len && at - l->head_len + 8 <= l->name_len))
		memcpy(&v, l->name + (at - l->head_len), 8);
	else
		bytes_at(l, at, (char *)&v, 8);
	return __builtin_bswap64(v);
}

/* How many bytes from `from` on, `most` at most, two names have in common; a name that ends has no
 * more. */
static size_t in_common(const struct ws_std8_line *x, const struct ws_std8_line *y, size_t from,
			size_t most)
{
	size_t m = x->head_len + x->name_len - from, n = y->head_len + y->name_len - from, k = 0;

	most = m < most ? m : most;
	most = n < most ? n : most;
	while (k + 8 <= most && eight(x, from + k) == eight(y, from + k))
		k += 8;
	for (char a, b; k < most; k++) {
		bytes_at(x, from + k, &a, 1);
		bytes_at(y, from + k, &b, 1);
		if (a != b)
			break;
	}
	return k;
}

/* By digits where these are fewer steps than comparing takes. */
static void sort_keys(struct ws_keyed_value *v, size_t n, struct ws_keyed_value *room)
{
	if (n < 512)
		qsort(v, n, sizeof(*v), by_key);
	else
		ws_sort_in_room(v, n, room);
}

/*
 * Keys of lines whose names share the first `skip` bytes: the eight bytes after those that all
 * share. How many these are is guessed from some of the lines; where one has fewer in common, all
 * are looked at once more.
 */
static size_t name_keys(struct ws_keyed_value *v, size_t n, const struct ws_std8_lines *lines,
			size_t skip)
{
	struct ws_std8_line first, l;
	size_t same = SIZE_MAX, step = n / 64 + 1;

	lines->line(lines->ctx, &v[0], &first, NULL);
	for (size_t i = 0; i < n && n >= 1024;
	     i += step) { /* fewer stay in the cache from the first look to the second */
		lines->line(lines->ctx, &v[i], &l, NULL);
		same = in_common(&first, &l, skip, same);
	}
	for (size_t least = same;; same = least) {
		for (size_t i = 0; i < n; i++) {
			fetch(lines, v, n, i);
			lines->line(lines->ctx, &v[i], &l, NULL);
			least = in_common(&first, &l, skip, least);
			v[i].key = eight(&l, skip + least);
		}
		if (least == same)
			break;
	}
	return skip + same;
}

/* Keys without the bits in which none of them differs: in digits of decimal numbers that is every
 * other four. */
static void squeeze(struct ws_keyed_value *v, size_t n)
{
	struct {
		uint64_t mask;
		unsigned shift;
	} run[12];
	uint64_t differ = 0;
	unsigned runs = 0, kept = 0;

	for (size_t i = 1; i < n; i++)
		differ |= v[i].key ^ v[0].key;
	while (differ && runs < WS_COUNT(run)) {
		unsigned from = (unsigned)__builtin_ctzll(differ),
			 bits = ~(differ >> from) ? (unsigned)__builtin_ctzll(~(differ >> from))
						  : 64;

		run[runs].mask = (bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX) << from;
		run[runs++].shift = from - kept;
		differ &= ~run[runs - 1].mask;
		kept += bits;
	}
	if (differ)
		return;
	for (size_t i = 0; i < n; i++) {
		uint64_t key = 0;

		for (unsigned r = 0; r < runs; r++)
			key |= (v[i].key & run[r].mask) >> run[r].shift;
		v[i].key = key;
	}
}

/* Lines of equal total, whose names share the first `skip` bytes. Each step goes on with names that
 * share eight more. */
static void sort_names(struct ws_keyed_value *v, size_t n, const struct ws_std8_lines *lines,
		       size_t skip, struct ws_keyed_value *room)
{
	size_t same, next;

	if (n < 2)
		return;
	if (n <= FEW) {
		qsort_r(v, n, sizeof(*v), by_line, (void *)lines);
		return;
	}
	same = name_keys(v, n, lines, skip);
	squeeze(v, n);
	sort_keys(v, n, room);
	for (size_t i = 0; i < n; i = next) {
		for (next = i + 1; next < n && v[next].key == v[i].key;)
			next++;
		if (next - i ==
		    n) /* zeros are of the names, or of their ends: no way to tell apart */
			qsort_r(v, n, sizeof(*v), by_line, (void *)lines);
		else
			sort_names(v + i, next - i, lines, same, room);
	}
}

static int64_t whole(unsigned __int128 v)
{
	return v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

/* Sort lines by key, then by what else tells them apart; with `room` for as many. */
static void sort_part(const struct ws_std8_lines *lines, struct ws_keyed_value *v, size_t n,
		      struct ws_keyed_value *room)
{
	sort_keys(v, n, room);
	for (size_t i = 0, next; i < n; i = next) {
		uint64_t key = v[i].key;

		for (next = i + 1; next < n && v[next].key == key;)
			next++;
		if (!key)
			qsort_r(v + i, next - i, sizeof(*v), by_total, (void *)lines);
		else if (next - i > 1)
			sort_names(v + i, next - i, lines, 0, room);
		for (size_t k = i; k < next; k++) /* which names had taken */
			v[k].key = key;
	}
}

enum { PARTS = 256, SAMPLES = 64 * PARTS };

struct ordering {
	const struct ws_std8_lines *lines;
	struct order_worker {
		struct ws_keyed_value *room; /* for a chunk, then for a part */
		size_t cap;
		unsigned __int128 sum; /* of totals */
	} * workers;
	size_t count;
	struct ws_keyed_value *to; /* dealt out */
	uint64_t least[PARTS];	   /* key of each part; the first takes all that is less */
	size_t (*at)[PARTS]; /* by chunk: how many are of each part; then where its next one goes */
	size_t first[PARTS + 1];
};

/* Limits of the parts, from lines taken here and there. */
static void choose_limits(struct ordering *o)
{
	struct ws_keyed_value *v = ws_malloc((SAMPLES + WS_STD8_CHUNK) * sizeof(*v));
	size_t chunks = o->lines->chunks, taken = chunks < SAMPLES / 256 ? chunks : SAMPLES / 256,
	       n = 0;

	for (size_t i = 0; i < taken; i++) {
		size_t have = o->lines->chunk(o->lines->ctx, i * chunks / taken, v + n),
		       step = have * taken / SAMPLES + 1;

		for (size_t k = 0; k * step < have; k++)
			v[n + k] = v[n + k * step];
		n += (have + step - 1) / step;
	}
	if (n)
		v = ws_sort_by_key(v, n);
	for (size_t i = 0; i < PARTS; i++)
		o->least[i] = n ? v[i * n / PARTS].key : 0;
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

static unsigned __int128 total_of(const struct ws_std8_lines *lines, const struct ws_keyed_value *v)
{
	struct ws_std8_line l;
	struct ws_std8 s;

	if (ws_likely(v->key))
		return ~v->key;
	lines->line(lines->ctx, v, &l, &s);
	return l.s->total;
}

static void count_chunk(void *ctx, unsigned worker, size_t chunk)
{
	struct ordering *o = ctx;
	struct ws_keyed_value *v = o->workers[worker].room;
	size_t n = o->lines->chunk(o->lines->ctx, chunk, v);
	unsigned __int128 sum = 0;

	for (size_t i = 0; i < n; i++) {
		o->at[chunk][part_of(o, v[i].key)]++;
		sum += total_of(o->lines, &v[i]);
	}
	o->workers[worker].sum += sum;
}

static void deal_chunk(void *ctx, unsigned worker, size_t chunk)
{
	struct ordering *o = ctx;
	struct ws_keyed_value *v = o->workers[worker].room;
	size_t n = o->lines->chunk(o->lines->ctx, chunk, v);

	for (size_t i = 0; i < n; i++)
		o->to[o->at[chunk][part_of(o, v[i].key)]++] = v[i];
}

static void order_part(void *ctx, unsigned worker, size_t part)
{
	struct ordering *o = ctx;
	struct order_worker *w = &o->workers[worker];
	size_t n = o->first[part + 1] - o->first[part];

	if (n < 2)
		return;
	ws_grow(w->room, w->cap, n);
	sort_part(o->lines, o->to + o->first[part], n, w->room);
}

static void place_parts(struct ordering *o)
{
	for (size_t p = 0; p < PARTS; p++) {
		o->first[p] = o->count;
		for (size_t c = 0; c < o->lines->chunks; c++) {
			size_t n = o->at[c][p];

			o->at[c][p] = o->count;
			o->count += n;
		}
	}
	o->first[PARTS] = o->count;
}

/* All lines in order, as `value`s; *sum gets that of their totals. */
static struct ws_keyed_value *order(const struct ws_std8_lines *lines, size_t *count,
				    unsigned __int128 *sum)
{
	unsigned workers = lines->chunks > 4 ? ws_parallel_workers() : 1;
	struct ordering o = {.lines = lines};

	o.workers = ws_calloc(workers, sizeof(*o.workers));
	for (unsigned w = 0; w < workers; w++)
		ws_grow(o.workers[w].room, o.workers[w].cap, WS_STD8_CHUNK);
	o.at = ws_calloc(lines->chunks, sizeof(*o.at));
	if (workers > 1) /* else all are of the first part */
		choose_limits(&o);
	else
		memset(o.least, 0xff, sizeof(o.least));
	ws_parallel(workers, lines->chunks, count_chunk, &o);
	place_parts(&o);
	o.to = ws_malloc(o.count * sizeof(*o.to));
	ws_parallel(workers, lines->chunks, deal_chunk, &o);
	ws_parallel(workers, PARTS, order_part, &o);
	*sum = 0;
	for (unsigned w = 0; w < workers; w++) {
		*sum += o.workers[w].sum;
		free(o.workers[w].room);
	}
	*count = o.count;
	free(o.workers);
	free(o.at);
	return o.to;
}

/* ---- lines that are there ---- */

struct there {
	const struct ws_std8_line *v;
	size_t n;
};

static size_t there_chunk(const void *ctx, size_t chunk, struct ws_keyed_value *v)
{
	const struct there *t = ctx;
	size_t from = chunk * WS_STD8_CHUNK,
	       n = t->n - from < WS_STD8_CHUNK ? t->n - from : WS_STD8_CHUNK;

	for (size_t i = 0; i < n; i++) {
		if (i + AHEAD < n)
			__builtin_prefetch(t->v[from + i + AHEAD].s);
		v[i] = (struct ws_keyed_value){ws_std8_key(t->v[from + i].s->total), from + i};
	}
	return n;
}

static void there_line(const void *ctx, const struct ws_keyed_value *v, struct ws_std8_line *l,
		       struct ws_std8 *room)
{
	const struct there *t = ctx;

	(void)room;
	*l = t->v[v->value];
}

static ws_fetching void there_fetch(const void *ctx, uint64_t number, unsigned step)
{
	const struct ws_std8_line *l = &((const struct there *)ctx)->v[number];

	if (step < 2) {
		__builtin_prefetch(step ? (const char *)(l + 1) - 1 : (const char *)l);
		return;
	}
	__builtin_prefetch(l->s);
	__builtin_prefetch((const char *)(l->s + 1) - 1);
	__builtin_prefetch(l->name);
	__builtin_prefetch(l->name + 64);
}

static struct ws_std8_lines lines_there(const struct there *t)
{
	return (struct ws_std8_lines){t, (t->n + WS_STD8_CHUNK - 1) / WS_STD8_CHUNK, there_chunk,
				      there_line, there_fetch};
}

void ws_std8_sort(struct ws_std8_line *lines, size_t count)
{
	struct there t = {lines, count};
	struct ws_std8_lines from = lines_there(&t);
	unsigned __int128 sum;
	struct ws_keyed_value *v = order(&from, &count, &sum);
	struct ws_std8_line *sorted = ws_malloc(count * sizeof(*sorted));

	for (size_t i = 0; i < count; i++) {
		for (unsigned step = 0; step < 2 && i + AHEAD < count; step++)
			there_fetch(&t, v[i + AHEAD].value, step);
		sorted[i] = lines[v[i].value];
	}
	if (count)
		memcpy(lines, sorted, count * sizeof(*lines));
	free(sorted);
	free(v);
}

/* ---- printing ---- */

struct printing {
	const struct ws_std8_lines *lines;
	const struct ws_keyed_value *order;
	size_t count;
	long double sum; /* of all totals */
};

static struct ws_cell whole_name(const struct ws_std8_line *l, struct ws_text *text)
{
	if (!l->tail && !l->head_len)
		return ws_cell_text(l->name, l->name_len);
	ws_text_add(text, l->head, l->head_len);
	ws_text_add(text, l->name, l->name_len);
	if (l->tail) {
		ws_text_add(text, "/", 1);
		ws_text_add(text, l->tail, l->tail_len);
	}
	return ws_cell_text(text->s, text->len);
}

/* Cells 0 to 7. Returns how many were that already. */
static size_t figures(const struct printing *p, const struct ws_std8 *v, struct ws_cell *cells)
{
	long double total = v->total >> 63 ? (long double)v->total : (long double)(int64_t)v->total;

	if (v->count == 1 && cells[2].type == WS_CELL_INT && cells[2].i == 1 && !(v->total >> 63) &&
	    cells[1].i == (int64_t)v->total)
		return 8;
	cells[0] = ws_cell_real(p->sum ? total * 100 / p->sum : 0);
	cells[1] = ws_cell_int(whole(v->total));
	cells[2] = ws_cell_int(whole(v->count));
	cells[3] = ws_std8_mean_cell(v);
	cells[4] = ws_std8_median_cell(v);
	cells[5] = ws_cell_int(whole(v->min));
	cells[6] = ws_cell_int(whole(v->max));
	cells[7] = ws_std8_stddev_cell(v);
	return 0;
}

static size_t make_row(const void *ctx, size_t i, struct ws_cell *cells, struct ws_text *text)
{
	const struct printing *p = ctx;
	struct ws_std8_line l;
	struct ws_std8 room;
	size_t n = 8, same;

	fetch(p->lines, p->order, p->count, i);
	p->lines->line(p->lines->ctx, &p->order[i], &l, &room);
	same = figures(p, l.s, cells);
	if (l.style)
		cells[n++] = ws_cell_text(l.style, strlen(l.style));
	if (l.style2)
		cells[n++] = ws_cell_text(l.style2, strlen(l.style2));
	cells[n] = whole_name(&l, text);
	return same;
}

void ws_std8_print_lines(struct ws_stats *s, const struct ws_std8_lines *lines)
{
	struct printing p = {.lines = lines};
	unsigned __int128 sum;

	p.order = order(lines, &p.count, &sum);
	p.sum = (long double)sum;
	s->rows(s, p.count, make_row, &p);
	free((void *)p.order);
}

void ws_std8_print(struct ws_stats *s, const struct ws_std8_line *lines, size_t count)
{
	struct there t = {lines, count};
	struct ws_std8_lines from = lines_there(&t);

	ws_std8_print_lines(s, &from);
}
