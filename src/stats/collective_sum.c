/*
 * collective_sum.c - collectives by communicator, operation, size, type of elements and rank, with
 * the bytes they should move.
 *
 * A trace has the numbers of elements that went in and came out on each rank. The number that
 * should come out follows from what went in, the operation and the number of ranks; if the two
 * differ, ranks disagree about the message, or pieces are of unequal size. Expected traffic is the
 * least that a rank sends when the ranks form a ring, as the documentation of NCCL's tests computes
 * bus bandwidth: 2(n-1)/n of the data for an all-reduce, (n-1)/n of the larger side for all-gather,
 * reduce-scatter and all-to-all, and all of it otherwise.
 */
#include <stdlib.h>
#include <string.h>

#include "stats/gpu_work.h"
#include "base/choose.h"
#include "stats/keyed.h"
#include "stats/summary_rows.h"

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

struct communicator {
	uint64_t ranks; /* WS_NO_U32 when not known */
	uint32_t description;
};

struct collective_sums {
	struct ws_keyed_dists durations;
	struct communicator *communicators; /* of each key */
	size_t communicator_capacity;
};

static void read_collectives(struct ws_stats *stats, struct collective_sums *sums)
{
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

/* Bytes of an element by the framework's name for its type; 0 when it is not known. */
static unsigned get_type_size(const char *name)
{
	static const struct {
		const char *name;
		unsigned size;
	} types[] = {{"Float", 4}, {"Double", 8}, {"Half", 2},	       {"BFloat16", 2},
		     {"Int", 4},   {"Long", 8},	  {"Short", 2},	       {"Byte", 1},
		     {"Char", 1},  {"Bool", 1},	  {"ComplexFloat", 8}, {"ComplexDouble", 16}};

	for (size_t i = 0; i < WS_COUNT(types); i++)
		if (!strcmp(name, types[i].name))
			return types[i].size;
	return !strncmp(name, "Float8", 6);
}

enum pattern {
	OTHER,
	SAME, /* as much comes out as went in */
	ALL_REDUCE,
	ALL_TO_ALL,
	ALL_GATHER,
	REDUCE_SCATTER
};

/* The pattern of an operation; frameworks write names in several ways: allreduce, all_reduce,
 * _allgather_base. */
static enum pattern find_pattern(const char *name)
{
	static const struct {
		const char *word;
		enum pattern pattern;
	} known[] = {{"allreduce", ALL_REDUCE},
		     {"allgather", ALL_GATHER},
		     {"reducescatter", REDUCE_SCATTER},
		     {"alltoall", ALL_TO_ALL},
		     {"broadcast", SAME}};
	char plain[64];
	size_t length = 0;

	for (; *name && length + 1 < sizeof(plain); name++) {
		if (*name == '_')
			continue;
		plain[length] = *name;
		if (plain[length] >= 'A' && plain[length] <= 'Z')
			plain[length] = (char)(plain[length] + 'a' - 'A');
		length++;
	}
	plain[length] = 0;
	for (size_t i = 0; i < WS_COUNT(known); i++)
		if (strstr(plain, known[i].word))
			return known[i].pattern;
	return OTHER;
}

struct collective_sizes {
	long double in, out, expected, traffic; /* bytes; negative when not known */
};

static struct collective_sizes compute_sizes(const struct ws_stats *stats, const uint64_t *key,
					     uint64_t ranks)
{
	size_t length;
	unsigned size =
		get_type_size(ws_report_string(stats->report, (uint32_t)key[TYPE], &length));
	enum pattern pattern =
		find_pattern(ws_report_string(stats->report, (uint32_t)key[NAME], &length));
	struct collective_sizes sizes = {-1, -1, -1, -1};
	long double rank_count = 0, larger;

	if (ranks != WS_NO_U32)
		rank_count = ranks;

	if (size && key[IN] != WS_NO_U64)
		sizes.in = (long double)key[IN] * size;
	if (size && key[OUT] != WS_NO_U64)
		sizes.out = (long double)key[OUT] * size;
	if (sizes.in < 0 || pattern == OTHER)
		return sizes;
	if (rank_count < 1 && (pattern == ALL_GATHER || pattern == REDUCE_SCATTER))
		return sizes;
	sizes.expected = sizes.in;
	if (pattern == ALL_GATHER)
		sizes.expected *= rank_count;
	else if (pattern == REDUCE_SCATTER)
		sizes.expected /= rank_count;
	larger = ws_max(sizes.expected, sizes.in);
	if (pattern == SAME)
		sizes.traffic = larger;
	else if (rank_count >= 1)
		sizes.traffic = larger * (rank_count - 1) / rank_count;
	if (pattern == ALL_REDUCE && rank_count >= 1)
		sizes.traffic *=
			2; /* each piece goes around once to be reduced, once to be spread */
	return sizes;
}

static struct ws_cell make_size_cell(long double size)
{
	return ws_cell_real_if(size >= 0, size);
}

static struct ws_cell make_string_cell(const struct ws_stats *stats, uint64_t id)
{
	size_t length;
	const char *text = ws_report_string(stats->report, (uint32_t)id, &length);

	return ws_cell_text_if(length, text, length);
}

static void print_collective(const struct ws_gpu_work *work, const struct ws_summary *summary,
			     const uint64_t *key, const struct communicator *communicator,
			     unsigned __int128 sum)
{
	struct ws_stats *stats = work->stats;
	struct collective_sizes sizes = compute_sizes(stats, key, communicator->ranks);
	long double mean = ws_compute_summary_mean(summary), bandwidth = -1;
	uint64_t communicator_name = communicator->description;
	struct ws_text rank = {0};

	if (!ws_report_string_key(stats->report, communicator->description))
		communicator_name = key[GROUP];
	if (sizes.traffic >= 0 && mean > 0)
		bandwidth = sizes.traffic * 1000000000 / mean;

	ws_put_gpu_process_name(work, (uint32_t)key[PROCESS], &rank);
	stats->row(stats, (struct ws_cell[]){
				  ws_cell_real(ws_compute_percent((long double)summary->total,
								  (long double)sum)),
				  ws_cell_int((int64_t)summary->total),
				  ws_cell_int((int64_t)summary->count),
				  ws_cell_real(mean),
				  ws_cell_real(ws_compute_summary_median(summary)),
				  ws_cell_int((int64_t)summary->min),
				  ws_cell_int((int64_t)summary->max),
				  ws_cell_real(summary->stddev),
				  make_string_cell(stats, key[NAME]),
				  make_string_cell(stats, key[TYPE]),
				  make_size_cell(sizes.in),
				  make_size_cell(sizes.out),
				  make_size_cell(sizes.expected),
				  make_size_cell(sizes.traffic),
				  make_size_cell(bandwidth),
				  make_string_cell(stats, communicator_name),
				  ws_cell_int_if(communicator->ranks != WS_NO_U32,
						 (int64_t)communicator->ranks),
				  ws_cell_text(rank.text, rank.len),
			  });
	ws_text_free(&rank);
}

static void print_collectives(const struct ws_gpu_work *work, const struct collective_sums *sums,
			      const struct ws_keyed_sums *all)
{
	struct ws_summary_row *lines = ws_calloc(all->count, sizeof(*lines));
	unsigned __int128 sum = 0;

	for (size_t i = 0; i < all->count; i++) {
		lines[i].summary = &all->summaries[i];
		lines[i].name =
			ws_report_string(work->stats->report, (uint32_t)all->keys[i * WORDS + NAME],
					 &lines[i].name_length);
		sum += all->summaries[i].total;
	}
	ws_sort_summary_rows(lines, all->count);
	for (size_t i = 0; i < all->count; i++) {
		size_t index = (size_t)(lines[i].summary - all->summaries);

		print_collective(work, lines[i].summary, all->keys + index * WORDS,
				 &sums->communicators[index], sum);
	}
	free(lines);
}

static int make_collective_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	struct ws_stats unsaid =
		*stats; /* rows of other GPU work that are left out do not matter */
	struct collective_sums sums = {.durations = {.words = WORDS, .dists_per_key = 1}};
	struct ws_keyed_sums all;
	struct ws_gpu_work work;
	int status = ws_gpu_work_open(&unsaid, &work, err);

	work.stats = stats;
	read_collectives(stats, &sums);
	ws_keyed_merge(&sums.durations, 1, NULL, NULL, &all);
	if (!status)
		print_collectives(&work, &sums, &all);
	ws_keyed_sums_free(&all);
	free(sums.communicators);
	ws_gpu_work_close(&work);
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
