/*
 * collective_sum.c - collectives by communicator, operation, size, type of elements and rank, with
 * the bytes they should move.
 *
 * A trace has the numbers of input and output elements on each rank. The expected output follows
 * from the input, the operation and the number of ranks; if the recorded output differs, ranks
 * disagree about the message, or pieces are of unequal size. Expected traffic is the least that a
 * rank sends when the ranks form a ring, as the documentation of NCCL's tests computes bus
 * bandwidth: 2(n-1)/n of the data for an all-reduce, (n-1)/n of the larger side for all-gather,
 * reduce-scatter and all-to-all, and all of it otherwise.
 */
#include <stdlib.h>
#include <string.h>

#include "stats/collective.h"
#include "base/choose.h"
#include "stats/rank_summary.h"

static const struct ws_column columns[] = {
	WS_SUMMARY_COLUMNS("Instances"),
	{"Operation", WS_KIND_TEXT},
	{"Type", WS_KIND_TEXT},
	{"In", WS_KIND_SIZE},
	{"Out", WS_KIND_SIZE},
	{"Expected Out", WS_KIND_SIZE},
	{"Expected Traffic", WS_KIND_SIZE},
	{"Bandwidth", WS_KIND_RATE},
	{"Communicator", WS_KIND_TEXT},
	{"Ranks", WS_KIND_ID},
	{"Rank", WS_KIND_TEXT},
};

enum word { GROUP, NAME, TYPE, PROCESS, IN, OUT, WORDS };
#define IS_BYTES (UINT64_C(1) << 63) /* in IN and OUT: bytes, not elements */

struct communicator {
	uint64_t ranks; /* WS_NO_U32 when not known */
	uint32_t description;
};

struct collective_sums {
	struct ws_keyed_dists durations;
	struct communicator *communicators; /* of each key */
	size_t communicator_capacity;
};

/* NCCL gives sizes in bytes, and for one side only. */
static void fill_bytes(const struct ws_stats *stats, const uint64_t *values, uint64_t *key)
{
	uint64_t bytes = values[ws_collective_bytes], ranks = values[ws_collective_group_size];
	size_t length;
	enum ws_collective_pattern pattern = ws_find_collective_pattern(
		ws_report_string(stats->report, (uint32_t)values[ws_collective_name], &length));
	bool many_in =
		     pattern == WS_COLLECTIVE_REDUCE_SCATTER || pattern == WS_COLLECTIVE_ALL_TO_ALL,
	     many_out = pattern == WS_COLLECTIVE_ALL_GATHER || pattern == WS_COLLECTIVE_ALL_TO_ALL;

	if (bytes >= IS_BYTES || key[IN] != WS_NO_U64 || key[OUT] != WS_NO_U64)
		return;
	if (!many_in)
		key[IN] = bytes | IS_BYTES;
	else if (ranks != WS_NO_U32)
		key[IN] = bytes * ranks | IS_BYTES;
	if (!many_out)
		key[OUT] = bytes | IS_BYTES;
	else if (ranks != WS_NO_U32)
		key[OUT] = bytes * ranks | IS_BYTES;
}

static void read_collectives(struct ws_stats *stats, void *context)
{
	struct collective_sums *sums = context;
	struct ws_cursor *cursor = ws_cursor_open(stats->report, WS_TABLE_collective,
						  stats->time_min, stats->time_max);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		uint64_t start = values[ws_collective_start], end = values[ws_collective_end];
		uint64_t key[WORDS] = {
			ws_report_string_key(stats->report, (uint32_t)values[ws_collective_group]),
			ws_report_string_key(stats->report, (uint32_t)values[ws_collective_name]),
			ws_report_string_key(stats->report, (uint32_t)values[ws_collective_dtype]),
			values[ws_collective_process],
			values[ws_collective_in_elements],
			values[ws_collective_out_elements],
		};
		size_t known_count = sums->durations.count;
		struct ws_dist *dist;

		if (end == WS_NO_TIME || end < start) {
			ws_count_left_out(end, &stats->unended, &stats->backwards);
			continue;
		}
		fill_bytes(stats, values, key);
		dist = ws_keyed_get(&sums->durations, key);
		ws_dist_add(dist, end - start);
		ws_grow(sums->communicators, sums->communicator_capacity, sums->durations.count);
		if (sums->durations.count != known_count)
			sums->communicators[known_count] =
				(struct communicator){values[ws_collective_group_size],
						      (uint32_t)values[ws_collective_description]};
	}
	ws_cursor_close(cursor);
}

struct collective_sizes {
	long double in, out, expected, traffic; /* bytes; negative when not known */
};

/* Bytes of the input or output, from its key; negative when not known. */
static long double compute_side(uint64_t side, unsigned type_size)
{
	if (side == WS_NO_U64 || (!(side & IS_BYTES) && !type_size))
		return -1;
	if (side & IS_BYTES)
		return (long double)(side & ~IS_BYTES);
	return (long double)side * type_size;
}

static struct collective_sizes compute_sizes(const struct ws_stats *stats, const uint64_t *key,
					     uint64_t ranks)
{
	size_t length;
	unsigned size = ws_get_collective_type_size(
		ws_report_string(stats->report, (uint32_t)key[TYPE], &length));
	enum ws_collective_pattern pattern = ws_find_collective_pattern(
		ws_report_string(stats->report, (uint32_t)key[NAME], &length));
	struct collective_sizes sizes = {-1, -1, -1, -1};
	long double rank_count = 0, larger;

	if (ranks != WS_NO_U32)
		rank_count = ranks;

	sizes.in = compute_side(key[IN], size);
	sizes.out = compute_side(key[OUT], size);
	if (sizes.in < 0 || pattern == WS_COLLECTIVE_OTHER || pattern == WS_COLLECTIVE_ROOTED)
		return sizes;
	if (rank_count < 1 &&
	    (pattern == WS_COLLECTIVE_ALL_GATHER || pattern == WS_COLLECTIVE_REDUCE_SCATTER))
		return sizes;
	sizes.expected = sizes.in;
	if (pattern == WS_COLLECTIVE_ALL_GATHER)
		sizes.expected *= rank_count;
	else if (pattern == WS_COLLECTIVE_REDUCE_SCATTER)
		sizes.expected /= rank_count;
	larger = ws_max(sizes.expected, sizes.in);
	if (pattern == WS_COLLECTIVE_SAME)
		sizes.traffic = larger;
	else if (rank_count >= 1)
		sizes.traffic = larger * (rank_count - 1) / rank_count;
	if (pattern == WS_COLLECTIVE_ALL_REDUCE && rank_count >= 1)
		sizes.traffic *= 2; /* one round to reduce each piece, one to distribute it */
	return sizes;
}

static struct ws_cell make_size_cell(long double size)
{
	return ws_cell_real_if(size >= 0, size);
}

static void print_collective(const struct ws_rank_line *line, const void *context)
{
	const struct collective_sums *sums = context;
	const struct communicator *communicator = &sums->communicators[line->number];
	const uint64_t *key = line->key;
	struct ws_stats *stats = line->work->stats;
	struct collective_sizes sizes = compute_sizes(stats, key, communicator->ranks);
	long double mean = ws_compute_summary_mean(line->summary), bandwidth = -1;
	uint64_t communicator_name = communicator->description;
	struct ws_text rank = {0};

	if (!ws_report_string_key(stats->report, communicator->description))
		communicator_name = key[GROUP];
	if (sizes.traffic >= 0 && mean > 0)
		bandwidth = sizes.traffic * 1000000000 / mean;

	ws_put_gpu_process_name(line->work, (uint32_t)key[PROCESS], &rank);
	stats->row(stats, (struct ws_cell[]){
				  WS_SUMMARY_CELLS(line->summary, line->sum),
				  ws_make_report_text_cell(stats, key[NAME]),
				  ws_make_report_text_cell(stats, key[TYPE]),
				  make_size_cell(sizes.in),
				  make_size_cell(sizes.out),
				  make_size_cell(sizes.expected),
				  make_size_cell(sizes.traffic),
				  make_size_cell(bandwidth),
				  ws_make_report_text_cell(stats, communicator_name),
				  ws_cell_int_if(communicator->ranks != WS_NO_U32,
						 (int64_t)communicator->ranks),
				  ws_cell_text(rank.text, rank.len),
			  });
	ws_text_free(&rank);
}

static int make_collective_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	static const struct ws_rank_summary summary = {read_collectives, print_collective, NAME};
	struct collective_sums sums = {.durations = {.words = WORDS, .dists_per_key = 1}};
	int status = ws_make_rank_summary(stats, &summary, &sums.durations, &sums, err);

	free(sums.communicators);
	return status;
}

const struct ws_stats_report ws_stat_collective_sum = {
	.name = "collective_sum",
	.title = "Collective Communication Summary",
	.about = "Collectives by communicator, operation, size, type and rank, with the bytes that "
		 "went in and came out, those that should "
		 "come out, and what each rank sends at least in a ring",
	.what = "collectives",
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_collective_sum_rows,
};
