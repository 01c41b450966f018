/*
 * collective_sum.c - collectives by communicator, operation, size, type of elements and rank, with
 * the bytes they should move.
 *
 * A trace says how many elements went in and came out on each rank. What comes out follows from
 * what went in, the operation and the number of ranks; where the two differ, ranks disagree about
 * the message, or pieces are of unequal size. Traffic is what a rank sends at least when the ranks
 * form a ring, as NCCL's documentation of its tests reckons bus bandwidth: 2(n-1)/n of the data for
 * an all-reduce, (n-1)/n of the larger side for all-gather, reduce-scatter and all-to-all, all of
 * it otherwise.
 */
#include <stdlib.h>
#include <string.h>

#include "stats/gpu_work.h"
#include "base/choose.h"
#include "stats/keyed.h"
#include "stats/std8.h"

static const struct ws_column columns[] = {
	WS_STD8("Instances"),
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

struct group {
	uint64_t ranks; /* WS_NO_U32 when not known */
	uint32_t description;
};

struct sums {
	struct ws_keyed by;
	struct group *groups; /* of each key */
	size_t groups_cap;
};

static void load(struct ws_stats *stats, struct sums *sums)
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
		size_t had = sums->by.n;
		struct ws_dist *dist;

		if (end == WS_NO_TIME || end < start) {
			*(end == WS_NO_TIME ? &stats->unended : &stats->backwards) += 1;
			continue;
		}
		dist = ws_keyed_get(&sums->by, key);
		ws_dist_add(dist, end - start);
		ws_grow(sums->groups, sums->groups_cap, sums->by.n);
		if (sums->by.n != had)
			sums->groups[had] =
				(struct group){values[ws_collective_group_size],
					       (uint32_t)values[ws_collective_description]};
	}
	ws_cursor_close(cursor);
}

/* Bytes of an element by the framework's name for its type; 0 when it is not known. */
static unsigned type_size(const char *name)
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
	return strncmp(name, "Float8", 6) ? 0 : 1;
}

enum pattern { OTHER, SAME /* out as in */, ALL_REDUCE, ALL_TO_ALL, ALL_GATHER, REDUCE_SCATTER };

/* allreduce, all_reduce, _allgather_base: frameworks write them in several ways. */
static enum pattern pattern_of(const char *name)
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
	size_t n = 0;

	for (; *name && n + 1 < sizeof(plain); name++)
		if (*name != '_')
			plain[n++] = *name >= 'A' && *name <= 'Z' ? (char)(*name + 32) : *name;
	plain[n] = 0;
	for (size_t i = 0; i < WS_COUNT(known); i++)
		if (strstr(plain, known[i].word))
			return known[i].pattern;
	return OTHER;
}

struct sizes {
	long double in, out, expected, traffic; /* bytes; negative when not known */
};

static struct sizes sizes_of(const struct ws_stats *stats, const uint64_t *key, uint64_t ranks)
{
	size_t len;
	unsigned size = type_size(ws_report_string(stats->report, (uint32_t)key[TYPE], &len));
	enum pattern pattern_p =
		pattern_of(ws_report_string(stats->report, (uint32_t)key[NAME], &len));
	long double n = ranks == WS_NO_U32 ? 0 : ranks, most;
	struct sizes sizes = {-1, -1, -1, -1};

	if (size && key[IN] != WS_NO_U64)
		sizes.in = (long double)key[IN] * size;
	if (size && key[OUT] != WS_NO_U64)
		sizes.out = (long double)key[OUT] * size;
	if (sizes.in < 0 || pattern_p == OTHER)
		return sizes;
	if (pattern_p == ALL_GATHER || pattern_p == REDUCE_SCATTER) {
		if (n < 1)
			return sizes;
		sizes.expected = pattern_p == ALL_GATHER ? sizes.in * n : sizes.in / n;
	} else {
		sizes.expected = sizes.in;
	}
	most = ws_max(sizes.expected, sizes.in);
	if (pattern_p == SAME)
		sizes.traffic = most;
	else if (n >= 1)
		sizes.traffic = most * (n - 1) / n * (pattern_p == ALL_REDUCE ? 2 : 1);
	return sizes;
}

static struct ws_cell bytes(long double v)
{
	return v < 0 ? ws_cell_null() : ws_cell_real(v);
}

static struct ws_cell string(const struct ws_stats *stats, uint64_t id)
{
	size_t len;
	const char *t = ws_report_string(stats->report, (uint32_t)id, &len);

	return len ? ws_cell_text(t, len) : ws_cell_null();
}

static void print(const struct ws_gpu_work *work, const struct ws_std8 *summary,
		  const uint64_t *key, const struct group *group, unsigned __int128 sum)
{
	struct ws_stats *stats = work->stats;
	struct sizes sizes = sizes_of(stats, key, group->ranks);
	long double mean = ws_std8_mean(summary);
	struct ws_text rank = {0};

	ws_gpu_work_process(work, (uint32_t)key[PROCESS], &rank);
	stats->row(stats,
		   (struct ws_cell[]){
			   ws_cell_real(sum ? (long double)summary->total * 100 / (long double)sum
					    : 0),
			   ws_cell_int((int64_t)summary->total),
			   ws_cell_int((int64_t)summary->count),
			   ws_cell_real(mean),
			   ws_cell_real(ws_std8_median(summary)),
			   ws_cell_int((int64_t)summary->min),
			   ws_cell_int((int64_t)summary->max),
			   ws_cell_real(summary->stddev),
			   string(stats, key[NAME]),
			   string(stats, key[TYPE]),
			   bytes(sizes.in),
			   bytes(sizes.out),
			   bytes(sizes.expected),
			   bytes(sizes.traffic),
			   sizes.traffic < 0 || mean <= 0
				   ? ws_cell_null()
				   : ws_cell_real(sizes.traffic * 1000000000 / mean),
			   string(stats, ws_report_string_key(stats->report, group->description)
						 ? group->description
						 : key[GROUP]),
			   group->ranks == WS_NO_U32 ? ws_cell_null()
						     : ws_cell_int((int64_t)group->ranks),
			   ws_cell_text(rank.text, rank.len),
		   });
	ws_text_free(&rank);
}

static void print_all(const struct ws_gpu_work *work, const struct sums *sums,
		      const struct ws_keyed_sums *all)
{
	struct ws_std8_line *lines = ws_calloc(all->n, sizeof(*lines));
	unsigned __int128 sum = 0;

	for (size_t i = 0; i < all->n; i++) {
		lines[i].summary = &all->summary[i];
		lines[i].name =
			ws_report_string(work->stats->report, (uint32_t)all->keys[i * WORDS + NAME],
					 &lines[i].name_len);
		sum += all->summary[i].total;
	}
	ws_std8_sort(lines, all->n);
	for (size_t i = 0; i < all->n; i++) {
		size_t at = (size_t)(lines[i].summary - all->summary);

		print(work, lines[i].summary, all->keys + at * WORDS, &sums->groups[at], sum);
	}
	free(lines);
}

static int run(struct ws_stats *stats, struct ws_err *err)
{
	struct ws_stats unsaid =
		*stats; /* what is wrong with other work on GPUs is not said here */
	struct sums sums = {.by = {.words = WORDS, .per = 1}};
	struct ws_keyed_sums all;
	struct ws_gpu_work work;
	int rc = ws_gpu_work_open(&unsaid, &work, err);

	work.stats = stats;
	load(stats, &sums);
	ws_keyed_merge(&sums.by, 1, NULL, NULL, &all);
	if (!rc)
		print_all(&work, &sums, &all);
	ws_keyed_sums_free(&all);
	free(sums.groups);
	ws_gpu_work_close(&work);
	return rc;
}

const struct ws_stat ws_stat_collective_sum = {
	.name = "collective_sum",
	.title = "Collective Communication Summary",
	.about = "Collectives by communicator, operation, size, type and rank, with the bytes that "
		 "went in and came out, those that should "
		 "come out, and what each rank sends at least in a ring",
	.what = "collectives",
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = run,
};
