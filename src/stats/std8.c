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
#include "base/choose.h"
#include "base/sort.h"

enum { FEW = 16, AHEAD = 12 };

static int compare_text(const char *a, size_t m, const char *b, size_t n)
{
	size_t least = ws_min(m, n);
	int order = least ? memcmp(a, b, least) : 0;

	return order ? order : ws_compare(m, n);
}

/* Both with what they begin with. */
static int compare_names(const struct ws_std8_line *left, const struct ws_std8_line *right)
{
	size_t m = left->head_len + left->name_len, n = right->head_len + right->name_len,
	       least = ws_min(m, n);

	if (left->head_len == right->head_len &&
	    (left->head == right->head || !memcmp(left->head, right->head, left->head_len)))
		return compare_text(left->name, left->name_len, right->name, right->name_len);
	for (size_t i = 0; i < least; i++) {
		unsigned char a = (unsigned char)(i < left->head_len
							  ? left->head[i]
							  : left->name[i - left->head_len]),
			      b = (unsigned char)(i < right->head_len
							  ? right->head[i]
							  : right->name[i - right->head_len]);

		if (a != b)
			return a < b ? -1 : 1;
	}
	return ws_compare(m, n);
}

static int compare(const struct ws_std8_line *left, const struct ws_std8_line *right)
{
	int order = compare_names(left, right);

	if (!order && left->tail && right->tail)
		order = compare_text(left->tail, left->tail_len, right->tail, right->tail_len);
	if (!order)
		order = (left->tail != NULL) - (right->tail != NULL);
	if (!order && left->style && right->style)
		order = strcmp(left->style, right->style);
	return order || !left->style2 || !right->style2 ? order
							: strcmp(left->style2, right->style2);
}

/* Of lines of equal total. */
static int by_line(const void *first, const void *second, void *ctx)
{
	const struct ws_std8_lines *lines = ctx;
	struct ws_std8_line left, right;

	lines->line(lines->ctx, first, &left, NULL);
	lines->line(lines->ctx, second, &right, NULL);
	return compare(&left, &right);
}

/* Of lines of equal key, whose totals may differ beyond 64 bits. */
static int by_total(const void *first, const void *second, void *ctx)
{
	const struct ws_std8_lines *lines = ctx;
	struct ws_std8_line left, right;
	struct ws_std8 summary, std8;

	lines->line(lines->ctx, first, &left, &summary);
	lines->line(lines->ctx, second, &right, &std8);
	return left.summary->total < right.summary->total   ? 1
	       : left.summary->total > right.summary->total ? -1
							    : compare(&left, &right);
}

static int by_key(const void *first, const void *second)
{
	const struct ws_keyed_value *left = first, *right = second;

	return ws_compare(left->key, right->key);
}

static void fetch(const struct ws_std8_lines *lines, const struct ws_keyed_value *keyed, size_t n,
		  size_t i)
{
	for (unsigned step = 0; step < 3; step++)
		if (i + (3 - step) * AHEAD < n)
			lines->fetch(lines->ctx, keyed[i + (3 - step) * AHEAD].value, step);
}

/* Bytes of a name from `at` on; where it ends, zeros. */
static void bytes_at(const struct ws_std8_line *line, size_t at, char *to, size_t n)
{
	size_t head = line->head_len > at ? line->head_len - at : 0, rest, from;

	memset(to, 0, n);
	head = ws_min(head, n);
	if (head)
		memcpy(to, line->head + at, head);
	from = at + head - line->head_len;
	rest = head < n && line->name_len > from ? line->name_len - from : 0;
	if (rest)
		memcpy(to + head, line->name + from, rest < n - head ? rest : n - head);
}

/* Those from `at` on, so that they compare as numbers. */
static uint64_t eight(const struct ws_std8_line *line, size_t at)
{
	uint64_t v;

	if (ws_likely(at >= line->head_len && at - line->head_len + 8 <= line->name_len))
		memcpy(&v, line->name + (at - line->head_len), 8);
	else
		bytes_at(line, at, (char *)&v, 8);
	return __builtin_bswap64(v);
}

/* How many bytes from `from` on, `most` at most, two names have in common; a name that ends has no
 * more. */
static size_t in_common(const struct ws_std8_line *left, const struct ws_std8_line *right,
			size_t from, size_t most)
{
	size_t m = left->head_len + left->name_len - from,
	       n = right->head_len + right->name_len - from, k = 0;

	most = ws_min(m, most);
	most = ws_min(n, most);
	while (k + 8 <= most && eight(left, from + k) == eight(right, from + k))
		k += 8;
	for (char a, b; k < most; k++) {
		bytes_at(left, from + k, &a, 1);
		bytes_at(right, from + k, &b, 1);
		if (a != b)
			break;
	}
	return k;
}

/* By digits where these are fewer steps than comparing takes. */
static void sort_keys(struct ws_keyed_value *keyed, size_t n, struct ws_keyed_value *room)
{
	if (n < 512)
		qsort(keyed, n, sizeof(*keyed), by_key);
	else
		ws_sort_in_room(keyed, n, room);
}

/*
 * Keys of lines whose names share the first `skip` bytes: the eight bytes after those that all
 * share. How many these are is guessed from some of the lines; where one has fewer in common, all
 * are looked at once more.
 */
static size_t name_keys(struct ws_keyed_value *keyed, size_t n, const struct ws_std8_lines *lines,
			size_t skip)
{
	struct ws_std8_line first, line;
	size_t same = SIZE_MAX, step = n / 64 + 1;

	lines->line(lines->ctx, &keyed[0], &first, NULL);
	for (size_t i = 0; i < n && n >= 1024;
	     i += step) { /* fewer stay in the cache from the first look to the second */
		lines->line(lines->ctx, &keyed[i], &line, NULL);
		same = in_common(&first, &line, skip, same);
	}
	for (size_t least = same;; same = least) {
		for (size_t i = 0; i < n; i++) {
			fetch(lines, keyed, n, i);
			lines->line(lines->ctx, &keyed[i], &line, NULL);
			least = in_common(&first, &line, skip, least);
			keyed[i].key = eight(&line, skip + least);
		}
		if (least == same)
			break;
	}
	return skip + same;
}

/* Keys without the bits in which none of them differs: in digits of decimal numbers that is every
 * other four. */
static void squeeze(struct ws_keyed_value *keyed, size_t n)
{
	struct {
		uint64_t mask;
		unsigned shift;
	} run[12];
	uint64_t differ = 0;
	unsigned runs = 0, kept = 0;

	for (size_t i = 1; i < n; i++)
		differ |= keyed[i].key ^ keyed[0].key;
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
			key |= (keyed[i].key & run[r].mask) >> run[r].shift;
		keyed[i].key = key;
	}
}

/* Lines of equal total, whose names share the first `skip` bytes. Each step goes on with names that
 * share eight more. */
static void sort_names(struct ws_keyed_value *keyed, size_t n, const struct ws_std8_lines *lines,
		       size_t skip, struct ws_keyed_value *room)
{
	size_t same, next;

	if (n < 2)
		return;
	if (n <= FEW) {
		qsort_r(keyed, n, sizeof(*keyed), by_line, (void *)lines);
		return;
	}
	same = name_keys(keyed, n, lines, skip);
	squeeze(keyed, n);
	sort_keys(keyed, n, room);
	for (size_t i = 0; i < n; i = next) {
		for (next = i + 1; next < n && keyed[next].key == keyed[i].key;)
			next++;
		if (next - i ==
		    n) /* zeros are of the names, or of their ends: no way to tell apart */
			qsort_r(keyed, n, sizeof(*keyed), by_line, (void *)lines);
		else
			sort_names(keyed + i, next - i, lines, same, room);
	}
}

static int64_t whole(unsigned __int128 v)
{
	return v > INT64_MAX ? INT64_MAX : (int64_t)v;
}

/* Sort lines by key, then by what else tells them apart; with `room` for as many. */
static void sort_part(const struct ws_std8_lines *lines, struct ws_keyed_value *keyed, size_t n,
		      struct ws_keyed_value *room)
{
	sort_keys(keyed, n, room);
	for (size_t i = 0, next; i < n; i = next) {
		uint64_t key = keyed[i].key;

		for (next = i + 1; next < n && keyed[next].key == key;)
			next++;
		if (!key)
			qsort_r(keyed + i, next - i, sizeof(*keyed), by_total, (void *)lines);
		else if (next - i > 1)
			sort_names(keyed + i, next - i, lines, 0, room);
		for (size_t k = i; k < next; k++) /* which names had taken */
			keyed[k].key = key;
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
static void choose_limits(struct ordering *ordering)
{
	struct ws_keyed_value *keyed = ws_malloc((SAMPLES + WS_STD8_CHUNK) * sizeof(*keyed));
	size_t chunks = ordering->lines->chunks,
	       taken = chunks < SAMPLES / 256 ? chunks : SAMPLES / 256, n = 0;

	for (size_t i = 0; i < taken; i++) {
		size_t have = ordering->lines->chunk(ordering->lines->ctx, i * chunks / taken,
						     keyed + n),
		       step = have * taken / SAMPLES + 1;

		for (size_t k = 0; k * step < have; k++)
			keyed[n + k] = keyed[n + k * step];
		n += (have + step - 1) / step;
	}
	if (n)
		keyed = ws_sort_by_key(keyed, n);
	for (size_t i = 0; i < PARTS; i++)
		ordering->least[i] = n ? keyed[i * n / PARTS].key : 0;
	free(keyed);
}

/* The last part that begins at or before `key`: eight steps without a branch. */
static uint8_t part_of(const struct ordering *ordering, uint64_t key)
{
	size_t at = 0;

	for (size_t step = PARTS / 2; step; step /= 2)
		at += ordering->least[at + step] <= key ? step : 0;
	return (uint8_t)at;
}

static unsigned __int128 total_of(const struct ws_std8_lines *lines,
				  const struct ws_keyed_value *keyed)
{
	struct ws_std8_line line;
	struct ws_std8 summary;

	if (ws_likely(keyed->key))
		return ~keyed->key;
	lines->line(lines->ctx, keyed, &line, &summary);
	return line.summary->total;
}

static void count_chunk(void *ctx, unsigned worker, size_t chunk)
{
	struct ordering *ordering = ctx;
	struct ws_keyed_value *keyed = ordering->workers[worker].room;
	size_t n = ordering->lines->chunk(ordering->lines->ctx, chunk, keyed);
	unsigned __int128 sum = 0;

	for (size_t i = 0; i < n; i++) {
		ordering->at[chunk][part_of(ordering, keyed[i].key)]++;
		sum += total_of(ordering->lines, &keyed[i]);
	}
	ordering->workers[worker].sum += sum;
}

static void deal_chunk(void *ctx, unsigned worker, size_t chunk)
{
	struct ordering *ordering = ctx;
	struct ws_keyed_value *keyed = ordering->workers[worker].room;
	size_t n = ordering->lines->chunk(ordering->lines->ctx, chunk, keyed);

	for (size_t i = 0; i < n; i++)
		ordering->to[ordering->at[chunk][part_of(ordering, keyed[i].key)]++] = keyed[i];
}

static void order_part(void *ctx, unsigned worker, size_t part)
{
	struct ordering *ordering = ctx;
	struct order_worker *w = &ordering->workers[worker];
	size_t n = ordering->first[part + 1] - ordering->first[part];

	if (n < 2)
		return;
	ws_grow(w->room, w->cap, n);
	sort_part(ordering->lines, ordering->to + ordering->first[part], n, w->room);
}

static void place_parts(struct ordering *ordering)
{
	for (size_t p = 0; p < PARTS; p++) {
		ordering->first[p] = ordering->count;
		for (size_t c = 0; c < ordering->lines->chunks; c++) {
			size_t n = ordering->at[c][p];

			ordering->at[c][p] = ordering->count;
			ordering->count += n;
		}
	}
	ordering->first[PARTS] = ordering->count;
}

/* All lines in order, as `value`s; *sum gets that of their totals. */
static struct ws_keyed_value *order(const struct ws_std8_lines *lines, size_t *count,
				    unsigned __int128 *sum)
{
	unsigned workers = lines->chunks > 4 ? ws_parallel_workers() : 1;
	struct ordering ordering = {.lines = lines};

	ordering.workers = ws_calloc(workers, sizeof(*ordering.workers));
	for (unsigned w = 0; w < workers; w++)
		ws_grow(ordering.workers[w].room, ordering.workers[w].cap, WS_STD8_CHUNK);
	ordering.at = ws_calloc(lines->chunks, sizeof(*ordering.at));
	if (workers > 1) /* else all are of the first part */
		choose_limits(&ordering);
	else
		memset(ordering.least, 0xff, sizeof(ordering.least));
	ws_parallel(workers, lines->chunks, count_chunk, &ordering);
	place_parts(&ordering);
	ordering.to = ws_malloc(ordering.count * sizeof(*ordering.to));
	ws_parallel(workers, lines->chunks, deal_chunk, &ordering);
	ws_parallel(workers, PARTS, order_part, &ordering);
	*sum = 0;
	for (unsigned w = 0; w < workers; w++) {
		*sum += ordering.workers[w].sum;
		free(ordering.workers[w].room);
	}
	*count = ordering.count;
	free(ordering.workers);
	free(ordering.at);
	return ordering.to;
}

/* ---- lines that are there ---- */

struct there {
	const struct ws_std8_line *lines;
	size_t n;
};

static size_t there_chunk(const void *ctx, size_t chunk, struct ws_keyed_value *keyed)
{
	const struct there *there = ctx;
	size_t from = chunk * WS_STD8_CHUNK,
	       n = there->n - from < WS_STD8_CHUNK ? there->n - from : WS_STD8_CHUNK;

	for (size_t i = 0; i < n; i++) {
		if (i + AHEAD < n)
			__builtin_prefetch(there->lines[from + i + AHEAD].summary);
		keyed[i] = (struct ws_keyed_value){
			ws_std8_key(there->lines[from + i].summary->total), from + i};
	}
	return n;
}

static void there_line(const void *ctx, const struct ws_keyed_value *keyed,
		       struct ws_std8_line *line, struct ws_std8 *room)
{
	const struct there *there = ctx;

	(void)room;
	*line = there->lines[keyed->value];
}

static ws_fetching void there_fetch(const void *ctx, uint64_t number, unsigned step)
{
	const struct ws_std8_line *line = &((const struct there *)ctx)->lines[number];

	if (step < 2) {
		__builtin_prefetch(step ? (const char *)(line + 1) - 1 : (const char *)line);
		return;
	}
	__builtin_prefetch(line->summary);
	__builtin_prefetch((const char *)(line->summary + 1) - 1);
	__builtin_prefetch(line->name);
	__builtin_prefetch(line->name + 64);
}

static struct ws_std8_lines lines_there(const struct there *there)
{
	return (struct ws_std8_lines){there, (there->n + WS_STD8_CHUNK - 1) / WS_STD8_CHUNK,
				      there_chunk, there_line, there_fetch};
}

void ws_std8_sort(struct ws_std8_line *lines, size_t count)
{
	struct there there = {lines, count};
	struct ws_std8_lines from = lines_there(&there);
	unsigned __int128 sum;
	struct ws_keyed_value *keyed = order(&from, &count, &sum);
	struct ws_std8_line *sorted = ws_malloc(count * sizeof(*sorted));

	for (size_t i = 0; i < count; i++) {
		for (unsigned step = 0; step < 2 && i + AHEAD < count; step++)
			there_fetch(&there, keyed[i + AHEAD].value, step);
		sorted[i] = lines[keyed[i].value];
	}
	if (count)
		memcpy(lines, sorted, count * sizeof(*lines));
	free(sorted);
	free(keyed);
}

/* ---- printing ---- */

struct printing {
	const struct ws_std8_lines *lines;
	const struct ws_keyed_value *order;
	size_t count;
	long double sum; /* of all totals */
};

static struct ws_cell whole_name(const struct ws_std8_line *line, struct ws_text *text)
{
	if (!line->tail && !line->head_len)
		return ws_cell_text(line->name, line->name_len);
	ws_text_add(text, line->head, line->head_len);
	ws_text_add(text, line->name, line->name_len);
	if (line->tail) {
		ws_text_add(text, "/", 1);
		ws_text_add(text, line->tail, line->tail_len);
	}
	return ws_cell_text(text->text, text->len);
}

/* Cells 0 to 7. Returns how many were that already. */
static size_t figures(const struct printing *printing, const struct ws_std8 *summary,
		      struct ws_cell *cells)
{
	long double total = summary->total >> 63 ? (long double)summary->total
						 : (long double)(int64_t)summary->total;

	if (summary->count == 1 && cells[2].type == WS_CELL_INT && cells[2].i == 1 &&
	    !(summary->total >> 63) && cells[1].i == (int64_t)summary->total)
		return 8;
	cells[0] = ws_cell_real(printing->sum ? total * 100 / printing->sum : 0);
	cells[1] = ws_cell_int(whole(summary->total));
	cells[2] = ws_cell_int(whole(summary->count));
	cells[3] = ws_std8_mean_cell(summary);
	cells[4] = ws_std8_median_cell(summary);
	cells[5] = ws_cell_int(whole(summary->min));
	cells[6] = ws_cell_int(whole(summary->max));
	cells[7] = ws_std8_stddev_cell(summary);
	return 0;
}

static size_t make_row(const void *ctx, size_t i, struct ws_cell *cells, struct ws_text *text)
{
	const struct printing *printing = ctx;
	struct ws_std8_line line;
	struct ws_std8 room;
	size_t n = 8, same;

	fetch(printing->lines, printing->order, printing->count, i);
	printing->lines->line(printing->lines->ctx, &printing->order[i], &line, &room);
	same = figures(printing, line.summary, cells);
	if (line.style)
		cells[n++] = ws_cell_text(line.style, strlen(line.style));
	if (line.style2)
		cells[n++] = ws_cell_text(line.style2, strlen(line.style2));
	cells[n] = whole_name(&line, text);
	return same;
}

void ws_std8_print_lines(struct ws_stats *stats, const struct ws_std8_lines *lines)
{
	struct printing printing = {.lines = lines};
	unsigned __int128 sum;

	printing.order = order(lines, &printing.count, &sum);
	printing.sum = (long double)sum;
	stats->rows(stats, printing.count, make_row, &printing);
	free((void *)printing.order);
}

void ws_std8_print(struct ws_stats *stats, const struct ws_std8_line *lines, size_t count)
{
	struct there there = {lines, count};
	struct ws_std8_lines from = lines_there(&there);

	ws_std8_print_lines(stats, &from);
}
