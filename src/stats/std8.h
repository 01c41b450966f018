/*
 * std8.h - the eight columns that every summary begins with, and its order of rows.
 */
#ifndef WS_STATS_STD8_H
#define WS_STATS_STD8_H

#include "base/sort.h"
#include "stats/dist.h"
#include "stats/stats.h"

#define WS_STD8(count)                                                                   \
	{"Time", WS_KIND_PERCENT}, {"Total Time", WS_KIND_TIME}, {count, WS_KIND_COUNT}, \
		{"Avg", WS_KIND_MEAN}, {"Med", WS_KIND_MEAN}, {"Min", WS_KIND_TIME},     \
		{"Max", WS_KIND_TIME},                                                   \
	{                                                                                \
		"StdDev", WS_KIND_MEAN                                                   \
	}

/* Averages as cells, whole where they are. */
static inline struct ws_cell ws_std8_mean_cell(const struct ws_std8 *summary)
{
	return summary->count == 1 ? ws_cell_whole(summary->middle[0])
				   : ws_cell_real(ws_std8_mean(summary));
}

static inline struct ws_cell ws_std8_median_cell(const struct ws_std8 *summary)
{
	return summary->middle[0] == summary->middle[1] ? ws_cell_whole(summary->middle[0])
							: ws_cell_real(ws_std8_median(summary));
}

static inline struct ws_cell ws_std8_stddev_cell(const struct ws_std8 *summary)
{
	return summary->stddev != 0 ? ws_cell_real(summary->stddev) : ws_cell_whole(0);
}

struct ws_std8_line {
	const struct ws_std8 *summary;
	const char *style;  /* shown between the figures and the name; NULL for none */
	const char *style2; /* and another after it */
	const char *head;   /* what the name begins with, where that is not in `name` */
	size_t head_len;
	const char *name;
	size_t name_len;
	const char *tail; /* shown behind the name and a slash; NULL for none */
	size_t tail_len;
};

/*
 * Print every line with its share of the sum, in order of total, largest first, then of name, tail
 * and style. Lines stay where they are.
 */
void ws_std8_print(struct ws_stats *stats, const struct ws_std8_line *lines, size_t count);
/* Bring lines into that order. */
void ws_std8_sort(struct ws_std8_line *lines, size_t count);

/*
 * Lines that are made when they are wanted: where there are millions, they would take several times
 * the memory of what they are made from. All functions are called from several threads.
 */
enum { WS_STD8_CHUNK = 1 << 14 };
struct ws_std8_lines {
	const void *ctx;
	size_t chunks;
	/* The lines of a chunk, WS_STD8_CHUNK at most, each as its ws_std8_key and a number of the
	 * caller's own; returns how many. Is asked several times. */
	size_t (*chunk)(const void *ctx, size_t chunk, struct ws_keyed_value *keyed);
	/* The line of such a key and number; s may be put into `room`. Where that is NULL, the key
	 * is another and s not looked at.
	 */
	void (*line)(const void *ctx, const struct ws_keyed_value *keyed, struct ws_std8_line *line,
		     struct ws_std8 *room);
	/* Ask the memory for what `line` and its caller will touch: with step 0, some lines later
	 * 1, again later 2. */
	void (*fetch)(const void *ctx, uint64_t number, unsigned step);
};
void ws_std8_print_lines(struct ws_stats *stats, const struct ws_std8_lines *lines);

/* Ascends as totals descend; those beyond 64 bits share one. */
static inline uint64_t ws_std8_key(unsigned __int128 total)
{
	return ~(total > UINT64_MAX ? UINT64_MAX : (uint64_t)total);
}

#endif
