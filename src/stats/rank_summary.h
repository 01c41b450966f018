/*
 * rank_summary.h - summaries of what ranks did together, by keys that include the process: how
 * their lines are made and what all of them begin with.
 */
#ifndef WS_STATS_RANK_SUMMARY_H
#define WS_STATS_RANK_SUMMARY_H

#include "stats/gpu_work.h"
#include "stats/keyed.h"
#include "stats/summary_rows.h"

/* One line: the key with its figures, and its number in the order in which keys were first met. */
struct ws_rank_line {
	const struct ws_gpu_work *work; /* names the process */
	const struct ws_summary *summary;
	const uint64_t *key;
	size_t number;
	unsigned __int128 sum; /* of all lines */
};

/* A string of the report; an empty cell for none. */
struct ws_cell ws_make_report_text_cell(const struct ws_stats *stats, uint64_t id);

struct ws_rank_summary {
	/* Fill the durations, which are part of `sums`. */
	void (*read)(struct ws_stats *stats, void *sums);
	void (*print)(const struct ws_rank_line *line, const void *sums);
	size_t name; /* the word of keys that orders lines of equal totals */
};

/* Make the lines and print them. Returns 0, or -1 with a message. */
int ws_make_rank_summary(struct ws_stats *stats, const struct ws_rank_summary *summary,
			 struct ws_keyed_dists *durations, void *sums, struct ws_err *err);

#endif
