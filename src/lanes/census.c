/*
 * census.c - which lanes there are, how many events each has, and roughly where these lie.
 *
 * The report already says this where its writer summed up blocks (ws_report_block_groups): then no
 * row is read. For other blocks, in reports that are not closed or are older, the columns that
 * distinguish lanes are decoded and rows are counted by lane.
 */
#include <stdlib.h>
#include <string.h>

#include "base/slots.h"
#include "base/choose.h"
#include "lanes/build.h"

/* ---- lanes by kind and key ---- */

static uint32_t hash_key(uint8_t kind, const uint32_t *key)
{
	uint64_t h = kind;

	for (int i = 0; i < 4; i++)
		h = ws_hash_word(h, key[i]);
	return (uint32_t)h;
}

enum { MOST_LANES = 1 << 20 }; /* a damaged file must not cost gigabytes */

/*
 * Number of the lane, made if it is new; UINT32_MAX when there are too many. After the census none
 * is made, even for rows that their block's groups did not announce. Under the lock.
 */
static uint32_t find_lane(struct ws_lanes *lanes, uint8_t kind, const uint32_t *key)
{
	uint32_t h = hash_key(kind, key), i;
	struct ws_lane *lane;
	size_t at;

	for (at = ws_begin_slot_search(&lanes->slots, &lanes->slot_mask, lanes->n, 256, h);
	     (i = ws_next_in_slots(lanes->slots, lanes->slot_mask, h, &at)); at++)
		if (lanes->lane[i - 1]->kind == kind &&
		    !memcmp(lanes->lane[i - 1]->key, key, sizeof(lane->key)))
			return i - 1;
	if (lanes->n == MOST_LANES || lanes->census_done)
		return UINT32_MAX;
	lane = ws_calloc(1, sizeof(*lane));
	lane->kind = kind;
	memcpy(lane->key, key, sizeof(lane->key));
	ws_grow(lanes->lane, lanes->cap, lanes->n + 1);
	lanes->lane[lanes->n++] = lane;
	lanes->slots[at] = ws_make_slot(h, (uint32_t)lanes->n);
	return (uint32_t)lanes->n - 1;
}

uint32_t ws_make_lane(struct ws_lanes *lanes, uint8_t kind, const uint32_t key[4])
{
	uint32_t i;

	pthread_mutex_lock(&lanes->lock);
	i = find_lane(lanes, kind, key);
	pthread_mutex_unlock(&lanes->lock);
	return i;
}

/* ---- rows to lanes ---- */

struct ws_lane_pass ws_lane_pass_new(struct ws_lanes *lanes, uint32_t source,
				     struct ws_lane_worker *workers)
{
	bool counted = __atomic_load_n(&lanes->census_done, __ATOMIC_ACQUIRE);

	return (struct ws_lane_pass){.lanes = lanes,
				     .kind = &ws_event_kinds[source],
				     .source = source,
				     .workers = workers,
				     .shared =
					     counted ? ws_lane_shared_names(lanes, source) : NULL};
}

struct ws_lane_worker *ws_lane_workers_new(uint32_t *n)
{
	struct ws_scan any = {0};
	struct ws_lane_worker *worker = NULL;

	*n = ws_count_scan_workers(&any);
	if (posix_memalign((void **)&worker, 128, *n * sizeof(*worker)))
		ws_give_up_for_memory();
	memset(worker, 0, *n * sizeof(*worker));
	return worker;
}

void ws_lane_workers_free(struct ws_lane_worker *worker, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		free(worker[i].at);
		free(worker[i].end);
		free(worker[i].touched);
		free(worker[i].out);
	}
	free(worker);
}

void ws_lane_workers_forget(struct ws_lane_worker *worker, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		memset(worker[i].cache, 0, sizeof(worker[i].cache));
}

void ws_lane_worker_need(struct ws_lane_worker *worker, uint32_t lane)
{
	size_t old = worker->lanes;

	if (lane < old)
		return;
	ws_grow(worker->at, worker->lanes, (size_t)lane + 1);
	worker->end = ws_realloc(worker->end, worker->lanes * sizeof(*worker->end));
	memset(worker->at + old, 0, (worker->lanes - old) * sizeof(*worker->at));
	memset(worker->end + old, 0, (worker->lanes - old) * sizeof(*worker->end));
}

static uint32_t lane_of(struct ws_lane_pass *pass, struct ws_lane_worker *worker, uint32_t feed,
			const uint32_t *key)
{
	const struct ws_feed *feed_f = &pass->kind->feed[feed];
	size_t i = (key[0] + key[1] * 7 + key[2] * 31 + key[3] * 13) % WS_LANE_CACHE;

	if (ws_likely(worker->cache[feed][i].set && !memcmp(worker->cache[feed][i].key, key, 16)))
		return worker->cache[feed][i].lane;
	pthread_mutex_lock(&pass->lanes->lock);
	worker->cache[feed][i].lane = find_lane(pass->lanes, feed_f->kind, key);
	pthread_mutex_unlock(&pass->lanes->lock);
	memcpy(worker->cache[feed][i].key, key, 16);
	worker->cache[feed][i].set = true;
	return worker->cache[feed][i].lane;
}

/* Blocks that name domains of NVTX are noted: their names are read later. */
static void note_domain(const struct ws_lane_pass *pass, const struct ws_batch *batch,
			uint64_t type)
{
	if (type == WS_NVTX_DOMAIN_CREATE)
		__atomic_store_n(&pass->lanes->names_domains[batch->block], 1, __ATOMIC_RELAXED);
}

static bool is_event(const struct ws_lane_pass *pass, const struct ws_batch *batch, size_t i)
{
	uint64_t value;

	if (!ws_event_has_other_rows(pass->kind))
		return true;
	value = batch->col[pass->kind->shaped_by][i];
	if (ws_likely(ws_event_shape(pass->kind, value) != WS_SHAPE_NONE))
		return true;
	note_domain(pass, batch, value);
	return false;
}

static bool is_fed(const struct ws_feed *feed, const struct ws_batch *batch, size_t i)
{
	switch (feed->when) {
	case WS_FEED_ZERO:
		return !batch->col[feed->test][i];
	case WS_FEED_NONZERO:
		return batch->col[feed->test][i] != 0;
	case WS_FEED_NOT_NULL:
		return batch->col[feed->test][i] != WS_NO_U32;
	default:
		return true;
	}
}

bool ws_lane_is_library(const char *category, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (category[i] != '_' && !(category[i] >= 'A' && category[i] <= 'Z') &&
		    !(category[i] >= '0' && category[i] <= '9'))
			return false;
	return memchr(category, '_', n) != NULL;
}

/* Calls of a library have a row of their own, by category; 0 for others. */
static uint32_t library_of(const struct ws_report *report, uint32_t category)
{
	size_t n;
	const char *text = category ? ws_report_string(report, category, &n) : NULL;

	return text && ws_lane_is_library(text, n) ? ws_report_string_key(report, category) : 0;
}

static uint32_t split_key(const struct ws_lane_pass *pass, const struct ws_feed *feed,
			  uint64_t value)
{
	switch (feed->split) {
	case WS_SPLIT_LOOSE:
		return value == WS_NVTX_STARTEND;
	case WS_SPLIT_PYTHON:
		return value == WS_OP_PYTHON;
	default:
		return library_of(pass->lanes->report, (uint32_t)value);
	}
}

uint32_t ws_lane_of_row(struct ws_lane_pass *pass, struct ws_lane_worker *worker,
			uint32_t feed_number, const struct ws_batch *batch, size_t i)
{
	const struct ws_feed *feed = &pass->kind->feed[feed_number];
	uint32_t key[4] = {0};

	if (!is_event(pass, batch, i) || !is_fed(feed, batch, i))
		return UINT32_MAX;
	for (uint32_t k = 0; k < feed->keys; k++)
		key[k] = (uint32_t)batch->col[feed->key[k]][i];
	if (feed->split)
		key[feed->keys] = split_key(pass, feed, batch->col[feed->split_by][i]);
	return lane_of(pass, worker, feed_number, key);
}

uint64_t ws_lane_key_columns(const struct ws_event_kind *kind)
{
	uint64_t columns = 0;

	if (ws_event_has_other_rows(kind))
		columns |= UINT64_C(1) << kind->shaped_by;
	for (uint32_t f = 0; f < kind->feeds; f++) {
		const struct ws_feed *feed = &kind->feed[f];

		for (uint32_t k = 0; k < feed->keys; k++)
			columns |= UINT64_C(1) << feed->key[k];
		if (feed->when)
			columns |= UINT64_C(1) << feed->test;
		if (feed->split)
			columns |= UINT64_C(1) << feed->split_by;
	}
	return columns;
}

/* ---- counting ---- */

static void count_rows(struct ws_lane_worker *worker, uint32_t lane, uint32_t rows)
{
	ws_lane_worker_need(worker, lane);
	if (!worker->at[lane]) {
		ws_grow(worker->touched, worker->cap, worker->n + 1);
		worker->touched[worker->n++] = lane;
	}
	worker->at[lane] += rows;
}

/* The counts of a block become entries. */
static void put_entries(const struct ws_lane_pass *pass, struct ws_lane_worker *worker,
			size_t block)
{
	for (size_t i = 0; i < worker->n; i++) {
		uint32_t lane = worker->touched[i];

		ws_grow(worker->out, worker->out_cap, worker->out_n + 1);
		worker->out[worker->out_n++] = (struct ws_census_entry){
			pass->source, (uint32_t)block, lane, (uint32_t)worker->at[lane], 0};
		worker->at[lane] = 0;
	}
	worker->n = 0;
}

static int count_batch(void *ctx, const struct ws_batch *batch)
{
	struct ws_lane_pass *pass = ctx;
	struct ws_lane_worker *worker = &pass->workers[batch->worker];

	for (uint32_t f = 0; f < pass->kind->feeds; f++)
		for (size_t i = 0; i < batch->rows; i++) {
			uint32_t lane = ws_lane_of_row(pass, worker, f, batch, i);

			if (lane != UINT32_MAX)
				count_rows(worker, lane, 1);
		}
	put_entries(pass, worker, batch->block);
	return __atomic_load_n(&pass->lanes->stop, __ATOMIC_RELAXED);
}

static void add_glimpse(struct ws_lanes *lanes, uint32_t lane, const struct ws_block_group *group)
{
	ws_grow(lanes->glimpse, lanes->glimpse_cap, lanes->glimpse_n + 1);
	lanes->glimpse[lanes->glimpse_n++] =
		(struct ws_glimpse){group->first, group->last, group->bins, lane, group->rows};
}

enum { BATCH = 256 };

/* Groups of a block, as a batch with a row for each. */
static void count_groups(struct ws_lane_pass *pass, size_t block,
			 const struct ws_block_groups *groups)
{
	uint64_t column[WS_GROUP_KEYS][BATCH];
	struct ws_batch batch = {.block = block};
	uint8_t columns[WS_GROUP_KEYS];
	uint32_t keys = ws_table_groups(pass->kind->table, columns);

	for (uint32_t k = 0; k < keys; k++)
		batch.col[columns[k]] = column[k];
	for (size_t from = 0; from < groups->count; from += BATCH) {
		batch.rows = groups->count - from < BATCH ? groups->count - from : BATCH;
		for (size_t i = 0; i < batch.rows; i++)
			for (uint32_t k = 0; k < keys; k++)
				column[k][i] = groups->groups[from + i].key[k];
		for (uint32_t f = 0; f < pass->kind->feeds; f++)
			for (size_t i = 0; i < batch.rows; i++) {
				uint32_t lane =
					ws_lane_of_row(pass, &pass->workers[0], f, &batch, i);

				if (lane == UINT32_MAX)
					continue;
				count_rows(&pass->workers[0], lane, groups->groups[from + i].rows);
				add_glimpse(pass->lanes, lane, &groups->groups[from + i]);
			}
	}
	put_entries(pass, &pass->workers[0], block);
}

/* Whether blocks are summed up by the columns that distinguish this source's lanes. */
static bool has_groups(const struct ws_event_kind *kind)
{
	uint8_t columns[WS_GROUP_KEYS];
	uint64_t have = 0;

	for (uint32_t k = ws_table_groups(kind->table, columns); k--;)
		have |= UINT64_C(1) << columns[k];
	return have && !(ws_lane_key_columns(kind) & ~have);
}

/* Whether a block is outside of the times that are asked for (ws_lanes_opts). */
static bool is_skipped(const struct ws_lanes *lanes, enum ws_table table, size_t block)
{
	struct ws_block_info block_info = ws_report_block_info(lanes->report, table, block);

	return block_info.time_max < lanes->opts.from || block_info.time_min > lanes->opts.to;
}

static void count_source(struct ws_lanes *lanes, uint32_t source, struct ws_lane_worker *workers,
			 uint32_t worker_n)
{
	struct ws_lane_pass pass = ws_lane_pass_new(lanes, source, workers);
	enum ws_table table = pass.kind->table;
	size_t blocks = ws_report_count_blocks(lanes->report, table);
	uint8_t *skip = ws_calloc(blocks + 1, 1);
	bool groups = has_groups(pass.kind);
	struct ws_scan sc = {.table = table,
			     .columns = ws_lane_key_columns(pass.kind),
			     .time_max = UINT64_MAX,
			     .skip = skip};

	ws_lane_workers_forget(workers, worker_n);
	for (size_t i = 0; i < blocks; i++) {
		struct ws_block_groups block_groups =
			groups ? ws_report_block_groups(lanes->report, table, i)
			       : (struct ws_block_groups){NULL, 0};

		skip[i] = block_groups.groups || is_skipped(lanes, table, i);
		if (block_groups.groups && !is_skipped(lanes, table, i))
			count_groups(&pass, i, &block_groups);
	}
	ws_run_scan(lanes->report, &sc, count_batch, &pass, NULL);
	free(skip);
}

/* ---- glimpses ---- */

/* For blocks without groups, it is only known that their lanes have events somewhere in the block's
 * time. */
static void glimpse_blocks(struct ws_lanes *lanes)
{
	for (size_t i = 0; i < lanes->census_n; i++) {
		const struct ws_census_entry *entry = &lanes->census[i];
		enum ws_table table = ws_event_kinds[entry->source].table;
		struct ws_block_info block_info =
			ws_report_block_info(lanes->report, table, entry->block);
		struct ws_block_group group = {.first = block_info.time_min,
					       .last = block_info.time_max,
					       .rows = entry->count};

		if (!has_groups(&ws_event_kinds[entry->source]) ||
		    !ws_report_block_groups(lanes->report, table, entry->block).groups)
			add_glimpse(lanes, entry->lane, &group);
	}
}

static int compare_glimpses(const void *first, const void *second)
{
	const struct ws_glimpse *left = first, *right = second;

	if (left->lane != right->lane)
		return ws_compare(left->lane, right->lane);
	return ws_compare(left->first, right->first);
}

static uint64_t measure_grain(const struct ws_lanes *lanes, const struct ws_lane *lane)
{
	double sum = 0;

	for (size_t i = lane->glimpse; i < lane->glimpse + lane->glimpses; i++) {
		if (!lanes->glimpse[i].bins)
			return UINT64_MAX;
		sum += (double)(lanes->glimpse[i].last - lanes->glimpse[i].first) / WS_GROUP_BINS;
	}
	return lane->glimpses ? (uint64_t)(sum / (double)lane->glimpses) : UINT64_MAX;
}

static void sort_glimpses(struct ws_lanes *lanes)
{
	size_t at = 0;

	if (lanes->glimpse_n)
		qsort(lanes->glimpse, lanes->glimpse_n, sizeof(*lanes->glimpse), compare_glimpses);
	for (size_t i = 0; i < lanes->n; i++) {
		lanes->lane[i]->glimpse = at;
		while (at < lanes->glimpse_n && lanes->glimpse[at].lane == i)
			at++;
		lanes->lane[i]->glimpses = at - lanes->lane[i]->glimpse;
		lanes->lane[i]->grain = measure_grain(lanes, lanes->lane[i]);
	}
}

/* ---- all of it ---- */

static int compare_entries(const void *first, const void *second)
{
	const struct ws_census_entry *left = first, *right = second;

	if (left->source != right->source)
		return ws_compare(left->source, right->source);
	if (left->block != right->block)
		return ws_compare(left->block, right->block);
	return ws_compare(left->lane, right->lane);
}

static void join_entries(struct ws_lanes *lanes, const struct ws_lane_worker *workers,
			 uint32_t worker_n)
{
	for (uint32_t i = 0; i < worker_n; i++) {
		ws_grow(lanes->census, lanes->census_cap, lanes->census_n + workers[i].out_n);
		if (workers[i].out_n)
			memcpy(lanes->census + lanes->census_n, workers[i].out,
			       workers[i].out_n * sizeof(*lanes->census));
		lanes->census_n += workers[i].out_n;
	}
	if (lanes->census_n)
		qsort(lanes->census, lanes->census_n, sizeof(*lanes->census), compare_entries);
	for (size_t i = 0; i < lanes->census_n; i++) {
		struct ws_census_entry *entry = &lanes->census[i];

		entry->at = lanes->lane[entry->lane]->count;
		lanes->lane[entry->lane]->count += entry->count;
		lanes->events += entry->count;
	}
}

void ws_take_census(struct ws_lanes *lanes, struct ws_lane_worker *workers, uint32_t worker_n)
{
	for (uint32_t s = 0; s < WS_EVENT_KINDS; s++) {
		uint64_t rows = ws_report_count_rows(lanes->report, ws_event_kinds[s].table);

		if (rows && rows < UINT32_MAX && ws_event_kinds[s].feeds)
			count_source(lanes, s, workers, worker_n);
	}
	join_entries(lanes, workers, worker_n);
	glimpse_blocks(lanes);
	sort_glimpses(lanes);
}

bool ws_lanes_have_rows(const struct ws_report *report)
{
	for (uint32_t s = 0; s < WS_EVENT_KINDS; s++)
		if (ws_event_kinds[s].feed[0].keys &&
		    ws_report_count_rows(report, ws_event_kinds[s].table))
			return true;
	return false;
}
