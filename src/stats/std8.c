/*
 * std8.c - see std8.h.
 *
 * A report whose names never repeat has millions of lines, and each is a miss of the cache or several. So the order is found on
 * small records: totals by their digits, then names of equal total by the eight bytes after those that all of them share. Printing
 * fetches what lines further on point to.
 */
#include "stats/std8.h"

#include <stdlib.h>
#include <string.h>

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

/* Lines of equal total, whose names share the first `skip` bytes. Each step goes on with names that share eight more. */
static void sort_names(struct ws_keyed_value *v, size_t n, struct ws_std8_line *lines, size_t skip)
{
	size_t shortest, same, next;

	if (n < 2)
		return;
	same = n > FEW ? shared(v, n, lines, skip, &shortest) : 0;
	if (n <= FEW || same == shortest) { /* names that end there may be equal */
		qsort_r(v, n, sizeof(*v), by_line, lines);
		return;
	}
	for (size_t i = 0; i < n; i++)
		v[i].key = eight(&lines[v[i].value], same);
	qsort(v, n, sizeof(*v), by_key);
	for (size_t i = 0; i < n; i = next) {
		for (next = i + 1; next < n && v[next].key == v[i].key;)
			next++;
		if (next - i == n) /* zeros are of the names, or of their ends: no way to tell apart */
			qsort_r(v, n, sizeof(*v), by_line, lines);
		else
			sort_names(v + i, next - i, lines, same);
	}
}

/* Bring lines into the order of `v`. */
static void put_in_order(struct ws_std8_line *lines, const struct ws_keyed_value *v, size_t n)
{
	struct ws_std8_line *sorted = ws_malloc(n * sizeof(*sorted));

	for (size_t i = 0; i < n; i++) {
		if (i + AHEAD < n) {
			const char *next = (const char *)&lines[v[i + AHEAD].value];

			__builtin_prefetch(next);
			__builtin_prefetch(next + sizeof(*lines) - 1);
		}
		sorted[i] = lines[v[i].value];
	}
	memcpy(lines, sorted, n * sizeof(*lines));
	free(sorted);
}

static int64_t whole(unsigned __int128 v)
{
	return v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

void ws_std8_sort(struct ws_std8_line *lines, size_t count)
{
	struct ws_keyed_value *v;
	size_t next;

	if (count < 2)
		return;
	v = ws_malloc(count * sizeof(*v));
	for (size_t i = 0; i < count; i++) {
		unsigned __int128 total = lines[i].s->total;

		v[i] = (struct ws_keyed_value){~(total > UINT64_MAX ? UINT64_MAX : (uint64_t)total), i};
	}
	v = ws_sort_by_key(v, count);
	for (size_t i = 0; i < count; i = next) {
		for (next = i + 1; next < count && v[next].key == v[i].key;)
			next++;
		if (~v[i].key == UINT64_MAX) /* their totals may differ beyond that */
			qsort_r(v + i, next - i, sizeof(*v), by_line, lines);
		else
			sort_names(v + i, next - i, lines, 0);
	}
	put_in_order(lines, v, count);
	free(v);
}

void ws_std8_print(struct ws_stats *s, struct ws_std8_line *lines, size_t count)
{
	ws_std8_sort(lines, count);
	ws_std8_print_sorted(s, lines, count);
}

/* What printing line i will touch. */
static void fetch(const struct ws_std8_line *lines, size_t i, size_t count)
{
	if (i >= count)
		return;
	__builtin_prefetch(lines[i].s);
	__builtin_prefetch((const char *)lines[i].s + 64);
	__builtin_prefetch(lines[i].name);
	__builtin_prefetch(lines[i].name + 64);
}

static struct ws_cell whole_name(const struct ws_std8_line *l, struct ws_text *text)
{
	if (!l->tail)
		return ws_cell_text(l->name, l->name_len);
	text->len = 0;
	ws_text_add(text, l->name, l->name_len);
	ws_text_add(text, "/", 1);
	ws_text_add(text, l->tail, l->tail_len);
	return ws_cell_text(text->s, text->len);
}

void ws_std8_print_sorted(struct ws_stats *s, const struct ws_std8_line *lines, size_t count)
{
	unsigned __int128 sum = 0;
	struct ws_text text = {0};

	for (size_t i = 0; i < count; i++) {
		if (i + AHEAD < count)
			__builtin_prefetch(lines[i + AHEAD].s);
		sum += lines[i].s->total;
	}
	for (size_t i = 0; i < count; i++) {
		const struct ws_std8 *v = lines[i].s;
		struct ws_cell cells[11] = {
		    ws_cell_real(sum ? (long double)v->total * 100 / (long double)sum : 0),
		    ws_cell_int(whole(v->total)),
		    ws_cell_int(whole(v->count)),
		    ws_cell_real(ws_std8_mean(v)),
		    ws_cell_real(ws_std8_median(v)),
		    ws_cell_int(whole(v->min)),
		    ws_cell_int(whole(v->max)),
		    ws_cell_real(v->stddev),
		};
		size_t n = 8;

		fetch(lines, i + AHEAD, count);
		if (lines[i].style)
			cells[n++] = ws_cell_text(lines[i].style, strlen(lines[i].style));
		if (lines[i].style2)
			cells[n++] = ws_cell_text(lines[i].style2, strlen(lines[i].style2));
		cells[n] = whole_name(&lines[i], &text);
		s->row(s, cells);
	}
	ws_text_free(&text);
}
