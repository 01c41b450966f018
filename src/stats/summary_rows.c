/*
 * summary_rows.c - see summary_rows.h.
 *
 * A report whose names never repeat has millions of lines, and reading one costs at least one cache
 * miss. So small records are sorted instead: a key made from the total, and a number that stands
 * for the line. A radix sort orders them by key; names of lines with equal totals are then ordered
 * by the eight bytes after those that all of them share. Long tables are first distributed by total
 * over 256 parts of about the same size, which all cores sort. Every loop over lines prefetches
 * what later lines need.
 */
#include "stats/summary_rows.h"

#include <stdlib.h>
#include <string.h>

#include "base/parallel.h"
#include "base/choose.h"
#include "base/sort.h"

enum {
	FEW = 16,  /* lines that are sorted by comparing them */
	AHEAD = 12 /* lines between two steps of prefetching */
};

int ws_compare_texts(const char *left, size_t left_len, const char *right, size_t right_len)
{
	size_t common = ws_min(left_len, right_len);
	int order = 0;

	if (common)
		order = memcmp(left, right, common);
	if (order)
		return order;
	return ws_compare(left_len, right_len);
}

/* The byte of a name at `at`, which is below its length. */
static inline unsigned char get_name_byte(const struct ws_summary_row *line, size_t at)
{
	if (at < line->head_length)
		return (unsigned char)line->head[at];
	return (unsigned char)line->name[at - line->head_length];
}

/* Compare names, each including its head. */
static int compare_names(const struct ws_summary_row *left, const struct ws_summary_row *right)
{
	size_t left_length = left->head_length + left->name_length,
	       right_length = right->head_length + right->name_length,
	       least = ws_min(left_length, right_length);

	if (left->head_length == right->head_length &&
	    (left->head == right->head || !memcmp(left->head, right->head, left->head_length)))
		return ws_compare_texts(left->name, left->name_length, right->name,
					right->name_length);
	for (size_t i = 0; i < least; i++) {
		unsigned char left_byte = get_name_byte(left, i),
			      right_byte = get_name_byte(right, i);

		if (left_byte != right_byte)
			return ws_compare(left_byte, right_byte);
	}
	return ws_compare(left_length, right_length);
}

static int compare_lines(const struct ws_summary_row *left, const struct ws_summary_row *right)
{
	int order = compare_names(left, right);

	if (!order && left->tail && right->tail)
		order = ws_compare_texts(left->tail, left->tail_length, right->tail,
					 right->tail_length);
	if (!order)
		order = (left->tail != NULL) - (right->tail != NULL);
	if (!order && left->style && right->style)
		order = strcmp(left->style, right->style);
	if (!order && left->second_style && right->second_style)
		order = strcmp(left->second_style, right->second_style);
	return order;
}

/* The order of lines of equal total. */
static int compare_equal_totals(const void *first, const void *second, void *context)
{
	const struct ws_summary_row_source *lines = context;
	struct ws_summary_row left, right;

	lines->make_line(lines->context, first, &left, NULL);
	lines->make_line(lines->context, second, &right, NULL);
	return compare_lines(&left, &right);
}

/* The order of lines of equal key, whose totals may differ beyond 64 bits. */
static int compare_equal_keys(const void *first, const void *second, void *context)
{
	const struct ws_summary_row_source *lines = context;
	struct ws_summary_row left, right;
	struct ws_summary summary, other;

	lines->make_line(lines->context, first, &left, &summary);
	lines->make_line(lines->context, second, &right, &other);
	if (left.summary->total != right.summary->total)
		return ws_compare(right.summary->total, left.summary->total);
	return compare_lines(&left, &right);
}

static int compare_keys(const void *first, const void *second)
{
	const struct ws_keyed_value *left = first, *right = second;

	return ws_compare(left->key, right->key);
}

/* Prefetch lines after line i, each in three steps. */
static void prefetch_lines(const struct ws_summary_row_source *lines,
			   const struct ws_keyed_value *keyed, size_t count, size_t i)
{
	for (unsigned step = 0; step < 3; step++)
		if (i + (3 - step) * AHEAD < count)
			lines->prefetch(lines->context, keyed[i + (3 - step) * AHEAD].value, step);
}

/* Copy `count` bytes of a name from `at` on; after its end, zeros. */
static void copy_name_bytes(const struct ws_summary_row *line, size_t at, char *to, size_t count)
{
	size_t head = line->head_length - ws_min(line->head_length, at), from;

	memset(to, 0, count);
	head = ws_min(head, count);
	if (head)
		memcpy(to, line->head + at, head);
	from = at + head - line->head_length;
	if (head < count && line->name_length > from)
		memcpy(to + head, line->name + from,
		       ws_min(line->name_length - from, count - head));
}

/* Eight bytes of a name from `at` on as a number, so that numbers compare as the names do. */
static uint64_t get_name_word(const struct ws_summary_row *line, size_t at)
{
	uint64_t word;

	if (ws_likely(at >= line->head_length && at - line->head_length + 8 <= line->name_length))
		memcpy(&word, line->name + (at - line->head_length), 8);
	else
		copy_name_bytes(line, at, (char *)&word, 8);
	return __builtin_bswap64(word);
}

/* How many bytes from `from` on two names have in common, `most` at most. */
static size_t count_common_bytes(const struct ws_summary_row *left,
				 const struct ws_summary_row *right, size_t from, size_t most)
{
	size_t left_length = left->head_length + left->name_length - from,
	       right_length = right->head_length + right->name_length - from, common = 0;

	most = ws_min(left_length, most);
	most = ws_min(right_length, most);
	while (common + 8 <= most &&
	       get_name_word(left, from + common) == get_name_word(right, from + common))
		common += 8;
	for (char left_byte, right_byte; common < most; common++) {
		copy_name_bytes(left, from + common, &left_byte, 1);
		copy_name_bytes(right, from + common, &right_byte, 1);
		if (left_byte != right_byte)
			break;
	}
	return common;
}

/* Sort by key; a radix sort pays off from some hundred records on. */
static void sort_by_key(struct ws_keyed_value *keyed, size_t count, struct ws_keyed_value *scratch)
{
	if (count < 512)
		qsort(keyed, count, sizeof(*keyed), compare_keys);
	else
		ws_sort_in_buffer(keyed, count, scratch);
}

/*
 * Set the keys of lines whose names share the first `skip` bytes to the eight bytes after those
 * that all of them share. How many they share is guessed from a sample of the lines; if one turns
 * out to share fewer, all keys are made again. Returns how many bytes all of them share.
 */
static size_t make_name_keys(struct ws_keyed_value *keyed, size_t count,
			     const struct ws_summary_row_source *lines, size_t skip)
{
	struct ws_summary_row first, line;
	size_t same = SIZE_MAX, step = count / 64 + 1;

	lines->make_line(lines->context, &keyed[0], &first, NULL);
	for (size_t i = 0; i < count && count >= 1024;
	     i += step) { /* fewer lines fit in the cache: no sample needed */
		lines->make_line(lines->context, &keyed[i], &line, NULL);
		same = count_common_bytes(&first, &line, skip, same);
	}
	for (size_t least = same;; same = least) {
		for (size_t i = 0; i < count; i++) {
			prefetch_lines(lines, keyed, count, i);
			lines->make_line(lines->context, &keyed[i], &line, NULL);
			least = count_common_bytes(&first, &line, skip, least);
			keyed[i].key = get_name_word(&line, skip + least);
		}
		if (least == same)
			break;
	}
	return skip + same;
}

/* How many of the lowest bits are 1 up to the first that is 0. */
static unsigned count_low_ones(uint64_t bits)
{
	if (bits == UINT64_MAX)
		return 64;
	return (unsigned)__builtin_ctzll(~bits);
}

/* Remove the bits in which the keys do not differ, which are half of all in decimal digits: shorter
 * keys are sorted in fewer passes. */
static void compress_keys(struct ws_keyed_value *keyed, size_t count)
{
	struct {
		uint64_t mask;
		unsigned shift;
	} run[12]; /* of neighbouring bits in which keys differ */
	uint64_t differ = 0;
	unsigned runs = 0, kept = 0;

	for (size_t i = 1; i < count; i++)
		differ |= keyed[i].key ^ keyed[0].key;
	while (differ && runs < WS_COUNT(run)) {
		unsigned from = (unsigned)__builtin_ctzll(differ),
			 bits = count_low_ones(differ >> from);

		run[runs].mask = UINT64_MAX >> (64 - bits) << from;
		run[runs++].shift = from - kept;
		differ &= ~run[runs - 1].mask;
		kept += bits;
	}
	if (differ)
		return;
	for (size_t i = 0; i < count; i++) {
		uint64_t key = 0;

		for (unsigned k = 0; k < runs; k++)
			key |= (keyed[i].key & run[k].mask) >> run[k].shift;
		keyed[i].key = key;
	}
}

/* Sort lines of equal total, whose names share the first `skip` bytes, by name. Names that share
 * eight bytes more are sorted by a recursive call. */
static void sort_by_name(struct ws_keyed_value *keyed, size_t count,
			 const struct ws_summary_row_source *lines, size_t skip,
			 struct ws_keyed_value *scratch)
{
	size_t same, next;

	if (count < 2)
		return;
	if (count <= FEW) {
		qsort_r(keyed, count, sizeof(*keyed), compare_equal_totals, (void *)lines);
		return;
	}
	same = make_name_keys(keyed, count, lines, skip);
	compress_keys(keyed, count);
	sort_by_key(keyed, count, scratch);
	for (size_t i = 0; i < count; i = next) {
		for (next = i + 1; next < count && keyed[next].key == keyed[i].key;)
			next++;
		if (next - i == count) /* zeros may be of a name or come after its end */
			qsort_r(keyed, count, sizeof(*keyed), compare_equal_totals, (void *)lines);
		else
			sort_by_name(keyed + i, next - i, lines, same, scratch);
	}
}

static int64_t clamp_to_int64(unsigned __int128 value)
{
	if (value > INT64_MAX)
		return INT64_MAX;
	return (int64_t)value;
}

/* Sort lines by key, then by total and name; `scratch` has space for as many records. */
static void sort_lines(const struct ws_summary_row_source *lines, struct ws_keyed_value *keyed,
		       size_t count, struct ws_keyed_value *scratch)
{
	sort_by_key(keyed, count, scratch);
	for (size_t i = 0, next; i < count; i = next) {
		uint64_t key = keyed[i].key;

		for (next = i + 1; next < count && keyed[next].key == key;)
			next++;
		if (!key)
			qsort_r(keyed + i, next - i, sizeof(*keyed), compare_equal_keys,
				(void *)lines);
		else if (next - i > 1)
			sort_by_name(keyed + i, next - i, lines, 0, scratch);
		for (size_t k = i; k < next; k++) /* sorting names has overwritten it */
			keyed[k].key = key;
	}
}

enum { PARTS = 256, SAMPLES = 64 * PARTS };

struct line_order {
	const struct ws_summary_row_source *lines;
	struct order_worker {
		struct ws_keyed_value *scratch; /* scratch space for a chunk, then for a part */
		size_t capacity;
		unsigned __int128 sum; /* of the totals of its chunks */
	} * workers;
	size_t count;
	struct ws_keyed_value *sorted; /* all lines, part after part */
	uint64_t least[PARTS];	       /* least key of each part; lesser keys are in the first */
	size_t (*next_index)[PARTS]; /* by chunk and part: how many lines the part gets; later, the
				index of the next of them */
	size_t first[PARTS + 1];     /* where each part begins */
};

/* Choose the limits of the parts from a sample of the lines. */
static void choose_part_limits(struct line_order *line_order)
{
	struct ws_keyed_value *keyed = ws_malloc((SAMPLES + WS_SUMMARY_CHUNK) * sizeof(*keyed));
	size_t chunks = line_order->lines->chunks, taken = ws_min(chunks, SAMPLES / 256), count = 0;

	for (size_t i = 0; i < taken; i++) {
		size_t have = line_order->lines->list_chunk(line_order->lines->context,
							    i * chunks / taken, keyed + count),
		       step = have * taken / SAMPLES + 1;

		for (size_t k = 0; k * step < have; k++)
			keyed[count + k] = keyed[count + k * step];
		count += (have + step - 1) / step;
	}
	if (count)
		keyed = ws_sort_by_key(keyed, count);
	for (size_t i = 0; count && i < PARTS; i++)
		line_order->least[i] = keyed[i * count / PARTS].key;
	free(keyed);
}

/* The last part that begins at or before `key`, in eight steps without a branch. */
static uint8_t find_part(const struct line_order *line_order, uint64_t key)
{
	size_t at = 0;

	for (size_t step = PARTS / 2; step; step /= 2)
		at += line_order->least[at + step] <= key ? step : 0;
	return (uint8_t)at;
}

static unsigned __int128 get_total(const struct ws_summary_row_source *lines,
				   const struct ws_keyed_value *keyed)
{
	struct ws_summary_row line;
	struct ws_summary summary;

	if (ws_likely(keyed->key))
		return ~keyed->key;
	lines->make_line(lines->context, keyed, &line, &summary);
	return line.summary->total;
}

static void count_chunk_lines(void *context, unsigned worker, size_t chunk)
{
	struct line_order *line_order = context;
	struct ws_keyed_value *keyed = line_order->workers[worker].scratch;
	size_t count = line_order->lines->list_chunk(line_order->lines->context, chunk, keyed);
	unsigned __int128 sum = 0;

	for (size_t i = 0; i < count; i++) {
		line_order->next_index[chunk][find_part(line_order, keyed[i].key)]++;
		sum += get_total(line_order->lines, &keyed[i]);
	}
	line_order->workers[worker].sum += sum;
}

static void distribute_chunk(void *context, unsigned worker, size_t chunk)
{
	struct line_order *line_order = context;
	struct ws_keyed_value *keyed = line_order->workers[worker].scratch;
	size_t count = line_order->lines->list_chunk(line_order->lines->context, chunk, keyed);

	for (size_t i = 0; i < count; i++)
		line_order->sorted[line_order->next_index[chunk]
							 [find_part(line_order, keyed[i].key)]++] =
			keyed[i];
}

static void sort_one_part(void *context, unsigned worker, size_t part)
{
	struct line_order *line_order = context;
	struct order_worker *self = &line_order->workers[worker];
	size_t count = line_order->first[part + 1] - line_order->first[part];

	if (count < 2)
		return;
	ws_grow(self->scratch, self->capacity, count);
	sort_lines(line_order->lines, line_order->sorted + line_order->first[part], count,
		   self->scratch);
}

static void place_parts(struct line_order *line_order)
{
	for (size_t part = 0; part < PARTS; part++) {
		line_order->first[part] = line_order->count;
		for (size_t chunk = 0; chunk < line_order->lines->chunks; chunk++) {
			size_t count = line_order->next_index[chunk][part];

			line_order->next_index[chunk][part] = line_order->count;
			line_order->count += count;
		}
	}
	line_order->first[PARTS] = line_order->count;
}

/* The numbers of all lines in order, as values; *sum gets the sum of their totals. */
static struct ws_keyed_value *order_lines(const struct ws_summary_row_source *lines, size_t *count,
					  unsigned __int128 *sum)
{
	struct line_order line_order = {.lines = lines};
	unsigned workers = 1;

	if (lines->chunks > 4)
		workers = ws_count_workers();

	line_order.workers = ws_calloc(workers, sizeof(*line_order.workers));
	for (unsigned i = 0; i < workers; i++)
		ws_grow(line_order.workers[i].scratch, line_order.workers[i].capacity,
			WS_SUMMARY_CHUNK);
	line_order.next_index = ws_calloc(lines->chunks, sizeof(*line_order.next_index));
	if (workers > 1) /* otherwise all lines are in the first part */
		choose_part_limits(&line_order);
	else
		memset(line_order.least, 0xff, sizeof(line_order.least));
	ws_run_parallel(workers, lines->chunks, count_chunk_lines, &line_order);
	place_parts(&line_order);
	line_order.sorted = ws_malloc(line_order.count * sizeof(*line_order.sorted));
	ws_run_parallel(workers, lines->chunks, distribute_chunk, &line_order);
	ws_run_parallel(workers, PARTS, sort_one_part, &line_order);
	*sum = 0;
	for (unsigned worker = 0; worker < workers; worker++) {
		*sum += line_order.workers[worker].sum;
		free(line_order.workers[worker].scratch);
	}
	*count = line_order.count;
	free(line_order.workers);
	free(line_order.next_index);
	return line_order.sorted;
}

/* ---- lines in an array ---- */

struct line_array {
	const struct ws_summary_row *lines;
	size_t count;
};

static size_t get_array_chunk(const void *context, size_t chunk, struct ws_keyed_value *keyed)
{
	const struct line_array *line_array = context;
	size_t from = chunk * WS_SUMMARY_CHUNK,
	       count = ws_min(line_array->count - from, WS_SUMMARY_CHUNK);

	for (size_t i = 0; i < count; i++) {
		if (i + AHEAD < count)
			__builtin_prefetch(line_array->lines[from + i + AHEAD].summary);
		keyed[i] = (struct ws_keyed_value){
			ws_make_total_key(line_array->lines[from + i].summary->total), from + i};
	}
	return count;
}

static void get_array_line(const void *context, const struct ws_keyed_value *keyed,
			   struct ws_summary_row *line, struct ws_summary *storage)
{
	const struct line_array *line_array = context;

	(void)storage;
	*line = line_array->lines[keyed->value];
}

static ws_fetching void prefetch_array_line(const void *context, uint64_t number, unsigned step)
{
	const struct ws_summary_row *line = &((const struct line_array *)context)->lines[number];

	if (step == 0) {
		__builtin_prefetch(line);
	} else if (step == 1) {
		__builtin_prefetch((const char *)(line + 1) - 1);
	} else {
		__builtin_prefetch(line->summary);
		__builtin_prefetch((const char *)(line->summary + 1) - 1);
		__builtin_prefetch(line->name);
		__builtin_prefetch(line->name + 64);
	}
}

static struct ws_summary_row_source make_array_lines(const struct line_array *line_array)
{
	return (struct ws_summary_row_source){
		line_array, (line_array->count + WS_SUMMARY_CHUNK - 1) / WS_SUMMARY_CHUNK,
		get_array_chunk, get_array_line, prefetch_array_line};
}

void ws_sort_summary_rows(struct ws_summary_row *lines, size_t count)
{
	struct line_array line_array = {lines, count};
	struct ws_summary_row_source from = make_array_lines(&line_array);
	unsigned __int128 sum;
	struct ws_keyed_value *keyed = order_lines(&from, &count, &sum);
	struct ws_summary_row *sorted = ws_malloc(count * sizeof(*sorted));

	for (size_t i = 0; i < count; i++) {
		for (unsigned step = 0; step < 2 && i + AHEAD < count; step++)
			prefetch_array_line(&line_array, keyed[i + AHEAD].value, step);
		sorted[i] = lines[keyed[i].value];
	}
	if (count)
		memcpy(lines, sorted, count * sizeof(*lines));
	free(sorted);
	free(keyed);
}

/* ---- printing ---- */

struct line_printing {
	const struct ws_summary_row_source *lines;
	const struct ws_keyed_value *order;
	size_t count;
	long double sum; /* of all totals */
};

/* The name with its head and tail, built in `text` where it has any. */
static struct ws_cell make_name_cell(const struct ws_summary_row *line, struct ws_text *text)
{
	if (!line->tail && !line->head_length)
		return ws_cell_text(line->name, line->name_length);
	ws_text_add(text, line->head, line->head_length);
	ws_text_add(text, line->name, line->name_length);
	if (line->tail) {
		ws_text_add(text, "/", 1);
		ws_text_add(text, line->tail, line->tail_length);
	}
	return ws_cell_text(text->text, text->len);
}

/* Set cells 0 to 7. Returns how many of them it left as they were, since they had these values. */
static size_t make_figure_cells(const struct line_printing *printing,
				const struct ws_summary *summary, struct ws_cell *cells)
{
	long double total;

	if (summary->count == 1 && cells[2].type == WS_CELL_INT && cells[2].i == 1 &&
	    !(summary->total >> 63) && cells[1].i == (int64_t)summary->total)
		return 8;
	if (summary->total >> 63)
		total = (long double)summary->total;
	else
		total = (long double)(int64_t)summary->total; /* one instruction */
	cells[0] = ws_cell_real(ws_compute_percent(total, printing->sum));
	cells[1] = ws_cell_int(clamp_to_int64(summary->total));
	cells[2] = ws_cell_int(clamp_to_int64(summary->count));
	cells[3] = ws_make_mean_cell(summary);
	cells[4] = ws_make_median_cell(summary);
	cells[5] = ws_cell_int(clamp_to_int64(summary->min));
	cells[6] = ws_cell_int(clamp_to_int64(summary->max));
	cells[7] = ws_make_stddev_cell(summary);
	return 0;
}

static size_t make_summary_row(const void *context, size_t i, struct ws_cell *cells,
			       struct ws_text *text)
{
	const struct line_printing *printing = context;
	struct ws_summary_row line;
	struct ws_summary storage;
	size_t cell_count = 8, same;

	prefetch_lines(printing->lines, printing->order, printing->count, i);
	printing->lines->make_line(printing->lines->context, &printing->order[i], &line, &storage);
	same = make_figure_cells(printing, line.summary, cells);
	if (line.style)
		cells[cell_count++] = ws_cell_text(line.style, strlen(line.style));
	if (line.second_style)
		cells[cell_count++] = ws_cell_text(line.second_style, strlen(line.second_style));
	cells[cell_count] = make_name_cell(&line, text);
	return same;
}

void ws_print_summary_source(struct ws_stats *stats, const struct ws_summary_row_source *lines)
{
	struct line_printing printing = {.lines = lines};
	unsigned __int128 total;

	printing.order = order_lines(lines, &printing.count, &total);
	printing.sum = (long double)total;
	stats->rows(stats, printing.count, make_summary_row, &printing);
	free((void *)printing.order);
}

void ws_print_summary_rows(struct ws_stats *stats, const struct ws_summary_row *lines, size_t count)
{
	struct line_array line_array = {lines, count};
	struct ws_summary_row_source from = make_array_lines(&line_array);

	ws_print_summary_source(stats, &from);
}

struct ws_summary_row *ws_list_keyed_rows(const struct ws_report *report,
					  const struct ws_keyed_sums *all, int name_word,
					  int tail_word, unsigned __int128 *total)
{
	struct ws_summary_row *lines = ws_calloc(all->count + 1, sizeof(*lines));

	*total = 0;
	for (size_t i = 0; i < all->count; i++) {
		const uint64_t *key = all->keys + i * all->words;

		lines[i].summary = &all->summaries[i];
		lines[i].name =
			ws_report_string(report, (uint32_t)key[name_word], &lines[i].name_length);
		if (tail_word != WS_NO_TAIL)
			lines[i].tail = ws_report_string(report, (uint32_t)key[tail_word],
							 &lines[i].tail_length);
		*total += all->summaries[i].total;
	}
	ws_sort_summary_rows(lines, all->count);
	return lines;
}
