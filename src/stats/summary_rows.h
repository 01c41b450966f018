/*
 * summary_rows.h - rows of summaries: the eight columns that every summary begins with, and the
 * order of its rows.
 */
#ifndef WS_STATS_SUMMARY_ROWS_H
#define WS_STATS_SUMMARY_ROWS_H

#include "base/sort.h"
#include "stats/distribution.h"
#include "stats/keyed.h"
#include "stats/stats.h"

#define WS_SUMMARY_COLUMNS(count)                                                        \
	{"Time", WS_KIND_PERCENT}, {"Total Time", WS_KIND_TIME}, {count, WS_KIND_COUNT}, \
		{"Avg", WS_KIND_MEAN}, {"Med", WS_KIND_MEAN}, {"Min", WS_KIND_TIME},     \
		{"Max", WS_KIND_TIME},                                                   \
	{                                                                                \
		"StdDev", WS_KIND_MEAN                                                   \
	}

/* The cells of WS_SUMMARY_COLUMNS; `sum` is the total of all lines. */
#define WS_SUMMARY_CELLS(summary, sum)                                                        \
	ws_cell_real(ws_compute_percent((long double)(summary)->total, (long double)(sum))),  \
		ws_cell_int((int64_t)ws_min((summary)->total, (unsigned __int128)INT64_MAX)), \
		ws_cell_int((int64_t)(summary)->count),                                       \
		ws_cell_real(ws_compute_summary_mean(summary)),                               \
		ws_cell_real(ws_compute_summary_median(summary)),                             \
		ws_cell_int((int64_t)(summary)->min), ws_cell_int((int64_t)(summary)->max),   \
		ws_cell_real((summary)->stddev)

/* Averages as cells, as whole numbers where they are: those are printed faster. */
static inline struct ws_cell ws_make_mean_cell(const struct ws_summary *summary)
{
	if (summary->count == 1)
		return ws_cell_whole(summary->middle[0]);
	return ws_cell_real(ws_compute_summary_mean(summary));
}

static inline struct ws_cell ws_make_median_cell(const struct ws_summary *summary)
{
	if (summary->middle[0] == summary->middle[1])
		return ws_cell_whole(summary->middle[0]);
	return ws_cell_real(ws_compute_summary_median(summary));
}

static inline struct ws_cell ws_make_stddev_cell(const struct ws_summary *summary)
{
	if (summary->stddev != 0)
		return ws_cell_real(summary->stddev);
	return ws_cell_whole(0);
}

struct ws_summary_row {
	const struct ws_summary *summary;
	const char *style;	  /* shown between the figures and the name; NULL for none */
	const char *second_style; /* shown after `style`; NULL for none */
	const char *head;	  /* what the name begins with, where that is not in `name` */
	size_t head_length;
	const char *name;
	size_t name_length;
	const char *tail; /* shown after the name and a slash; NULL for none */
	size_t tail_length;
};

/* The order of two texts by bytes; of texts where one begins with the other, the shorter first. */
int ws_compare_texts(const char *left, size_t left_len, const char *right, size_t right_len);

/*
 * Print every line with its share of the sum, in order of total, largest first, then of name, tail
 * and style. The array is not changed.
 */
void ws_print_summary_rows(struct ws_stats *stats, const struct ws_summary_row *lines,
			   size_t count);
/* Sort lines into that order. */
void ws_sort_summary_rows(struct ws_summary_row *lines, size_t count);
/*
 * A line for each key of `all`, which has one distribution per key, sorted. Word `name_word` of a
 * key is the string that is the line's name, and word `tail_word` its tail (WS_NO_TAIL for none).
 * The summary's place in all->summaries is the number of the key. *total gets the sum of the
 * totals. Owned by the caller.
 */
enum { WS_NO_TAIL = -1 };
struct ws_summary_row *ws_list_keyed_rows(const struct ws_report *report,
					  const struct ws_keyed_sums *all, int name_word,
					  int tail_word, unsigned __int128 *total);

/*
 * Lines that are made on demand: millions of them would take several times the memory of what they
 * are made from. All functions are called from several threads.
 */
enum { WS_SUMMARY_CHUNK = 1 << 14 };
struct ws_summary_row_source {
	const void *context;
	size_t chunks;
	/* Set `keyed` to the lines of a chunk, WS_SUMMARY_CHUNK at most: the ws_make_total_key of
	 * each and a number by which `line` finds it. Returns how many there are. Called several
	 * times for each chunk. */
	size_t (*list_chunk)(const void *context, size_t chunk, struct ws_keyed_value *keyed);
	/* Set *line to the line of such a key and number; its summary may be stored in `storage`.
	 * Where `storage` is NULL, the key is not the line's and the summary is not read. */
	void (*make_line)(const void *context, const struct ws_keyed_value *keyed,
			  struct ws_summary_row *line, struct ws_summary *storage);
	/* Prefetch what `line` and its caller will read. It is called with step 0, some lines later
	 * with step 1, and again some lines later with step 2. */
	void (*prefetch)(const void *context, uint64_t number, unsigned step);
};
/* ws_print_summary_rows for lines that are made on demand. */
void ws_print_summary_source(struct ws_stats *stats, const struct ws_summary_row_source *lines);

/* A key that ascends as totals descend; totals beyond 64 bits share the key 0. */
static inline uint64_t ws_make_total_key(unsigned __int128 total)
{
	if (total > UINT64_MAX)
		return 0;
	return ~(uint64_t)total;
}

#endif
