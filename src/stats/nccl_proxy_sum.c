/*
 * nccl_proxy_sum.c - the work of NCCL's proxy on the network (--nccl-trace=proxy), by operation,
 * direction, peer and communicator: how long it took, how much it moved and what its transfers
 * waited for.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "schema/nccl.h"
#include "stats/rank_summary.h"

static const struct ws_column columns[] = {
	WS_SUMMARY_COLUMNS("Instances"), {"Operation", WS_KIND_TEXT},
	{"Direction", WS_KIND_TEXT},	 {"Peer", WS_KIND_ID},
	{"Bytes", WS_KIND_COUNT},	 {"Bandwidth", WS_KIND_RATE},
	{"Steps", WS_KIND_COUNT},	 {"GPU Wait", WS_KIND_TIME},
	{"Peer Wait", WS_KIND_TIME},	 {"Network Time", WS_KIND_TIME},
	{"Flush Time", WS_KIND_TIME},	 {"Channels", WS_KIND_COUNT},
	{"Communicator", WS_KIND_TEXT},	 {"Rank", WS_KIND_TEXT},
};

enum word { FUNCTION, GROUP, DIRECTION, PEER, PROCESS, WORDS };
enum amount { BYTES, STEPS, GPU_WAIT, PEER_WAIT, NETWORK, FLUSH, AMOUNTS };

struct proxy_key {
	uint64_t sums[AMOUNTS], channels; /* channels: bits by number, up to 64 */
	uint64_t busy, last;		  /* ns in which any of them was at work, up to `last` */
	bool knows_bytes;
};

struct proxy_sums {
	struct ws_keyed_dists durations;
	struct proxy_key *keys;
	size_t capacity;
};

/* Operations of several channels overlap. They come in the order of their starts. */
static void add_busy_time(struct proxy_key *key, uint64_t start, uint64_t end)
{
	uint64_t from = ws_max(start, key->last);

	if (end <= from)
		return;
	key->busy += end - from;
	key->last = end;
}

static void add_amounts(struct proxy_key *key, const uint64_t *values)
{
	const uint64_t amounts[AMOUNTS] = {
		values[ws_nccl_event_bytes],	values[ws_nccl_event_steps],
		values[ws_nccl_event_gpu_wait], values[ws_nccl_event_peer_wait],
		values[ws_nccl_event_network],	values[ws_nccl_event_flush],
	};

	key->knows_bytes |= amounts[BYTES] != WS_NO_U64;
	for (int i = 0; i < AMOUNTS; i++)
		if (amounts[i] != WS_NO_U64)
			key->sums[i] += amounts[i];
	if (values[ws_nccl_event_channel] < 64)
		key->channels |= UINT64_C(1) << values[ws_nccl_event_channel];
	add_busy_time(key, values[ws_nccl_event_start], values[ws_nccl_event_end]);
}

static void add_operation(const struct ws_stats *stats, struct proxy_sums *sums,
			  const uint64_t *values)
{
	const uint64_t key[WORDS] = {
		ws_report_string_key(stats->report, (uint32_t)values[ws_nccl_event_function]),
		ws_report_string_key(stats->report, (uint32_t)values[ws_nccl_event_group]),
		values[ws_nccl_event_direction],
		values[ws_nccl_event_peer],
		values[ws_nccl_event_process],
	};
	size_t known = sums->durations.count;

	ws_dist_add(ws_keyed_get(&sums->durations, key),
		    values[ws_nccl_event_end] - values[ws_nccl_event_start]);
	ws_grow(sums->keys, sums->capacity, sums->durations.count);
	if (sums->durations.count != known)
		sums->keys[sums->durations.last] = (struct proxy_key){0};
	add_amounts(&sums->keys[sums->durations.last], values);
}

static void read_operations(struct ws_stats *stats, void *sums)
{
	struct ws_cursor *cursor = ws_cursor_open(stats->report, WS_TABLE_nccl_event,
						  stats->time_min, stats->time_max);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		uint64_t start = values[ws_nccl_event_start], end = values[ws_nccl_event_end];

		if (values[ws_nccl_event_kind] != WS_NCCL_EVENT_PROXY_OP)
			continue;
		if (end < start)
			ws_count_left_out(end, &stats->unended, &stats->backwards);
		else
			add_operation(stats, sums, values);
	}
	ws_cursor_close(cursor);
}

static struct ws_cell make_direction_cell(uint64_t direction)
{
	return direction == 1 ? ws_cell_text("send", 4) : ws_cell_text("receive", 7);
}

static void print_operation(const struct ws_rank_line *line, const void *context)
{
	const struct proxy_sums *all = context;
	const struct proxy_key *sums = &all->keys[line->number];
	const uint64_t *key = line->key;
	struct ws_stats *stats = line->work->stats;
	long double busy = (long double)ws_max(sums->busy, UINT64_C(1));
	struct ws_text rank = {0};

	ws_put_gpu_process_name(line->work, (uint32_t)key[PROCESS], &rank);
	stats->row(stats, (struct ws_cell[]){
				  WS_SUMMARY_CELLS(line->summary, line->sum),
				  ws_make_report_text_cell(stats, key[FUNCTION]),
				  make_direction_cell(key[DIRECTION]),
				  ws_cell_int_if((int32_t)key[PEER] >= 0, (int32_t)key[PEER]),
				  ws_cell_int_if(sums->knows_bytes, (int64_t)sums->sums[BYTES]),
				  ws_cell_real_if(sums->knows_bytes,
						  (long double)sums->sums[BYTES] * 1e9L / busy),
				  ws_cell_int((int64_t)sums->sums[STEPS]),
				  ws_cell_int((int64_t)sums->sums[GPU_WAIT]),
				  ws_cell_int((int64_t)sums->sums[PEER_WAIT]),
				  ws_cell_int((int64_t)sums->sums[NETWORK]),
				  ws_cell_int((int64_t)sums->sums[FLUSH]),
				  ws_cell_int(__builtin_popcountll(sums->channels)),
				  ws_make_report_text_cell(stats, key[GROUP]),
				  ws_cell_text(rank.text, rank.len),
			  });
	ws_text_free(&rank);
}

static int make_nccl_proxy_sum_rows(struct ws_stats *stats, struct ws_err *err)
{
	static const struct ws_rank_summary summary = {read_operations, print_operation, FUNCTION};
	struct proxy_sums sums = {.durations = {.words = WORDS, .dists_per_key = 1}};
	int status = ws_make_rank_summary(stats, &summary, &sums.durations, &sums, err);

	free(sums.keys);
	return status;
}

const struct ws_stats_report ws_stat_nccl_proxy_sum = {
	.name = "nccl_proxy_sum",
	.title = "NCCL Network Summary",
	.about = "The proxy's work on the network (--nccl-trace=proxy,step) by operation, "
		 "direction, peer, communicator and rank. Each operation of the proxy is one "
		 "channel's part of a collective, a send or a receive. Waits are sums over its "
		 "transfers, which overlap, and need step; bandwidth is that of the time in "
		 "which any of them was at work",
	.what = "operations of NCCL's proxy",
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_nccl_proxy_sum_rows,
};
