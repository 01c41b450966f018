/* std8.c - see std8.h. */
#include "stats/std8.h"

#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b)
{
	const struct ws_std8_line *x = a, *y = b;
	size_t n = x->name_len < y->name_len ? x->name_len : y->name_len;
	int order;

	if (x->total != y->total)
		return x->total < y->total ? 1 : -1;
	if (x->total == UINT64_MAX && x->s->total != y->s->total)
		return x->s->total < y->s->total ? 1 : -1;
	order = n ? memcmp(x->name, y->name, n) : 0;
	if (order)
		return order;
	if (x->name_len != y->name_len)
		return x->name_len < y->name_len ? -1 : 1;
	order = x->style && y->style ? strcmp(x->style, y->style) : 0;
	return order || !x->style2 || !y->style2 ? order : strcmp(x->style2, y->style2);
}

static int64_t whole(unsigned __int128 v)
{
	return v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

void ws_std8_sort(struct ws_std8_line *lines, size_t count)
{
	for (size_t i = 0; i < count; i++)
		lines[i].total = lines[i].s->total > UINT64_MAX ? UINT64_MAX : (uint64_t)lines[i].s->total;
	if (count)
		qsort(lines, count, sizeof(*lines), compare);
}

void ws_std8_print(struct ws_stats *s, struct ws_std8_line *lines, size_t count)
{
	ws_std8_sort(lines, count);
	ws_std8_print_sorted(s, lines, count);
}

void ws_std8_print_sorted(struct ws_stats *s, const struct ws_std8_line *lines, size_t count)
{
	unsigned __int128 sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += lines[i].s->total;
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

		if (lines[i].style)
			cells[n++] = ws_cell_text(lines[i].style, strlen(lines[i].style));
		if (lines[i].style2)
			cells[n++] = ws_cell_text(lines[i].style2, strlen(lines[i].style2));
		cells[n] = ws_cell_text(lines[i].name, lines[i].name_len);
		s->row(s, cells);
	}
}
