/*
 * nccl_sum.c - NCCL's operations by communicator, message size, type, reduction and rank, and by
 * how NCCL did them where --nccl-trace has it, with the bandwidths that NCCL's tests compute:
 * algorithm bandwidth is the message divided by the time, bus bandwidth the least that each rank
 * has to send divided by the time.
 *
 * The time of a kernel that does several operations of a group is divided among them by their
 * sizes. Sending and receiving overlap, so each direction has all of the kernel's time.
 */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "stats/collective.h"
#include "stats/rank_summary.h"

static const struct ws_column columns[] = {
	WS_SUMMARY_COLUMNS("Instances"),
	{"Operation", WS_KIND_TEXT},
	{"Message Bytes", WS_KIND_COUNT},
	{"Type", WS_KIND_TEXT},
	{"Reduction", WS_KIND_TEXT},
	{"Algorithm Bandwidth", WS_KIND_RATE},
	{"Bus Bandwidth", WS_KIND_RATE},
	{"Communicator", WS_KIND_TEXT},
	{"Ranks", WS_KIND_ID},
	{"Rank", WS_KIND_TEXT},
	{"Algorithm", WS_KIND_TEXT},
	{"Protocol", WS_KIND_TEXT},
	{"Channels", WS_KIND_ID},
};

/* HOW: the algorithm's name and, below, the protocol's. */
enum word { GROUP, NAME, TYPE, PROCESS, BYTES, REDUCTION, HOW, CHANNELS, WORDS };

struct operation {
	uint64_t key[WORDS];
	uint64_t duration, ranks, kernel; /* kernel: its process and correlation */
	struct ws_collective_work work;
	bool has_kernel, receives;
};

struct key_work {
	uint64_t ranks;
	long double algorithm, bus; /* sums; negative when not known */
};

struct nccl_sums {
	struct operation *operations;
	size_t count, capacity;
	struct ws_map kernels[2]; /* by direction: kernel -> place in `bytes` + 1 */
	long double *bytes;	  /* bytes that each kernel moves in a direction */
	size_t byte_count, byte_capacity;
	struct ws_keyed_dists durations;
	struct key_work *keys;
	size_t key_capacity;
};

static void add_kernel_bytes(struct nccl_sums *sums, const struct operation *operation)
{
	struct ws_map *kernels = &sums->kernels[operation->receives];
	uint64_t place = ws_map_get(kernels, operation->kernel, NULL);

	if (!place) {
		ws_grow(sums->bytes, sums->byte_capacity, sums->byte_count + 1);
		sums->bytes[sums->byte_count] = 0;
		place = ++sums->byte_count;
		ws_map_set(kernels, operation->kernel, place);
	}
	sums->bytes[place - 1] += ws_max(operation->work.algorithm, 0.0L);
}

static uint64_t make_how_key(const struct ws_stats *stats, const uint64_t *values)
{
	uint64_t algorithm =
		ws_report_string_key(stats->report, (uint32_t)values[ws_collective_algorithm]);

	return algorithm << 32 |
	       ws_report_string_key(stats->report, (uint32_t)values[ws_collective_protocol]);
}

static void add_operation(const struct ws_stats *stats, struct nccl_sums *sums,
			  const uint64_t *values)
{
	size_t length;
	const char *name =
		ws_report_string(stats->report, (uint32_t)values[ws_collective_name], &length);
	struct operation operation = {
		.key = {ws_report_string_key(stats->report, (uint32_t)values[ws_collective_group]),
			ws_report_string_key(stats->report, (uint32_t)values[ws_collective_name]),
			ws_report_string_key(stats->report, (uint32_t)values[ws_collective_dtype]),
			values[ws_collective_process], values[ws_collective_bytes],
			ws_report_string_key(stats->report,
					     (uint32_t)values[ws_collective_reduction]),
			make_how_key(stats, values), values[ws_collective_channels]},
		.duration = values[ws_collective_end] - values[ws_collective_start],
		.ranks = values[ws_collective_group_size],
		.kernel = values[ws_collective_process] << 32 | values[ws_collective_correlation],
		.has_kernel = values[ws_collective_correlation] != WS_NO_U32,
		.receives = !strcmp(name, "Recv"),
	};
	long double ranks = 0;

	if (operation.ranks != WS_NO_U32)
		ranks = (long double)operation.ranks;
	operation.work = ws_compute_collective_work(
		ws_find_collective_pattern(name), (long double)values[ws_collective_bytes], ranks);
	if (operation.has_kernel)
		add_kernel_bytes(sums, &operation);
	ws_grow(sums->operations, sums->capacity, sums->count + 1);
	sums->operations[sums->count++] = operation;
}

static void read_operations(struct ws_stats *stats, struct nccl_sums *sums)
{
	struct ws_cursor *cursor = ws_cursor_open(stats->report, WS_TABLE_collective,
						  stats->time_min, stats->time_max);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		uint64_t start = values[ws_collective_start], end = values[ws_collective_end];

		if (values[ws_collective_bytes] == WS_NO_U64)
			continue;
		if (end == WS_NO_TIME || end < start)
			ws_count_left_out(end, &stats->unended, &stats->backwards);
		else
			add_operation(stats, sums, values);
	}
	ws_cursor_close(cursor);
}

/* The part of its kernel's time that belongs to the operation. */
static uint64_t share_time(const struct nccl_sums *sums, const struct operation *operation)
{
	long double all = 0;

	if (operation->has_kernel)
		all = sums->bytes[ws_map_get(&sums->kernels[operation->receives], operation->kernel,
					     NULL) -
				  1];
	if (all <= 0)
		return operation->duration;
	return (uint64_t)((long double)operation->duration *
				  ws_max(operation->work.algorithm, 0.0L) / all +
			  0.5L);
}

static void add_part(long double *sum, long double part)
{
	if (part < 0 || *sum < 0)
		*sum = -1;
	else
		*sum += part;
}

static void add_up_operations(struct nccl_sums *sums)
{
	for (size_t i = 0; i < sums->count; i++) {
		const struct operation *operation = &sums->operations[i];
		size_t known = sums->durations.count;
		struct key_work *key;

		ws_dist_add(ws_keyed_get(&sums->durations, operation->key),
			    share_time(sums, operation));
		ws_grow(sums->keys, sums->key_capacity, sums->durations.count);
		key = &sums->keys[sums->durations.last];
		if (sums->durations.count != known)
			*key = (struct key_work){.ranks = operation->ranks};
		/* Without a kernel the time is that of a call, which says nothing about
		 * bandwidth. */
		add_part(&key->algorithm, operation->has_kernel ? operation->work.algorithm : -1);
		add_part(&key->bus, operation->has_kernel ? operation->work.bus : -1);
	}
}

/* ---- rows ---- */

static struct ws_cell make_rate_cell(long double bytes, const struct ws_summary *summary)
{
	long double total = (long double)summary->total;

	return ws_cell_real_if(bytes >= 0 && total > 0, bytes * 1e9L / ws_max(total, 1.0L));
}

static void print_operation(const struct ws_rank_line *line, const void *context)
{
	const struct nccl_sums *all = context;
	const struct key_work *sums = &all->keys[line->number];
	const uint64_t *key = line->key;
	struct ws_stats *stats = line->work->stats;
	struct ws_text rank = {0};

	ws_put_gpu_process_name(line->work, (uint32_t)key[PROCESS], &rank);
	stats->row(stats,
		   (struct ws_cell[]){
			   WS_SUMMARY_CELLS(line->summary, line->sum),
			   ws_make_report_text_cell(stats, key[NAME]),
			   ws_cell_int((int64_t)key[BYTES]),
			   ws_make_report_text_cell(stats, key[TYPE]),
			   ws_make_report_text_cell(stats, key[REDUCTION]),
			   make_rate_cell(sums->algorithm, line->summary),
			   make_rate_cell(sums->bus, line->summary),
			   ws_make_report_text_cell(stats, key[GROUP]),
			   ws_cell_int_if(sums->ranks != WS_NO_U32, (int64_t)sums->ranks),
			   ws_cell_text(rank.text, rank.len),
			   ws_make_report_text_cell(stats, key[HOW] >> 32),
			   ws_make_report_text_cell(stats, key[HOW] & UINT32_MAX),
			   ws_cell_int_if(key[CHANNELS] != WS_NO_U32, (int64_t)key[CHANNELS]),
		   });
	ws_text_free(&rank);
}

static void read_and_add_up(struct ws_stats *stats, void *sums)
{
	read_operations(stats, sums);
	add_up_operations(sums);
}

static int make_nccl_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	static const struct ws_rank_summary summary = {read_and_add_up, print_operation, NAME};
	struct nccl_sums sums = {.durations = {.words = WORDS, .dists_per_key = 1}};
	int status = ws_make_rank_summary(stats, &summary, &sums.durations, &sums, err);

	ws_map_free(&sums.kernels[0]);
	ws_map_free(&sums.kernels[1]);
	free(sums.operations);
	free(sums.bytes);
	free(sums.keys);
	return status;
}

const struct ws_stats_report ws_stat_nccl_sum = {
	.name = "nccl_sum",
	.title = "NCCL Summary",
	.about = "Operations of NCCL by communicator, message size, type, reduction and rank, with "
		 "algorithm and bus bandwidth as NCCL's tests define them",
	.what = "operations of NCCL with known sizes",
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_nccl_sum_rows,
};
