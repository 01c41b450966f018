/*
 * build.c - the events of lanes, read in the background.
 *
 * After the census two threads work. One reads what no one has asked for yet, source by source and
 * small lanes first, up to a limit: reports of usual sizes are then complete before the user first
 * moves. The other reads what someone looks at (ws_lanes_want); the first pauses meanwhile. To read
 * a set of lanes, the blocks that have rows of them are scanned on all cores into places that the
 * census determined; then each lane is finished (level.c). When the room for events is used up, the
 * lanes that no one has looked at for longest are dropped, and only their census data remains.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lanes/build.h"
#include "base/sort.h"
#include "base/choose.h"

/* Bytes of an event on its way, and once stored (with its share of sums). */
enum { BYTES_READING = sizeof(struct ws_raw) + 24, BYTES_READ = 24, UNASKED = 32 << 20 };
/* A lane with more events is large. Wanted lanes are read in groups of about this many events. */
enum { LARGE = 2 << 20, AT_A_TIME = 8 << 20 };

/* Names of NVTX domains, from the blocks in which the census saw some. */
static void name_domains(struct ws_lanes *lanes)
{
	size_t blocks = ws_report_count_blocks(lanes->report, WS_TABLE_nvtx);
	uint64_t *out[WS_MAX_COLUMNS] = {NULL},
		 columns = WS_COLUMN_BIT(nvtx, type) | WS_COLUMN_BIT(nvtx, thread) |
			   WS_COLUMN_BIT(nvtx, domain) | WS_COLUMN_BIT(nvtx, text);

	for (size_t i = 0; i < blocks; i++) {
		uint32_t rows = ws_report_block_info(lanes->report, WS_TABLE_nvtx, i).rows;

		if (!lanes->names_domains[i])
			continue;
		for (uint32_t k = 0; k < ws_nvtx_COLUMNS; k++)
			if (columns >> k & 1)
				out[k] = ws_realloc(out[k], (size_t)rows * 8);
		if (ws_report_decode_block(lanes->report, WS_TABLE_nvtx, i, columns, out, NULL))
			continue;
		for (uint32_t j = 0; j < rows; j++)
			if (out[ws_nvtx_type][j] == WS_NVTX_DOMAIN_CREATE)
				ws_map_set(&lanes->domains,
					   (uint64_t)ws_find_thread(
						   lanes->who, (uint32_t)out[ws_nvtx_thread][j])
								   ->process
							   << 32 |
						   (uint32_t)out[ws_nvtx_domain][j],
					   out[ws_nvtx_text][j]);
	}
	for (uint32_t k = 0; k < ws_nvtx_COLUMNS; k++)
		free(out[k]);
}

/* ---- the events ---- */

static uint8_t palette_index(struct ws_lanes *lanes, uint32_t argb)
{
	uint32_t n = __atomic_load_n(&lanes->palette_n, __ATOMIC_ACQUIRE), i;

	for (i = 1; i < n; i++)
		if (lanes->palette[i] == argb)
			return (uint8_t)i;
	pthread_mutex_lock(&lanes->lock);
	for (i = n; i < lanes->palette_n && lanes->palette[i] != argb; i++)
		;
	if (i == lanes->palette_n && i < WS_COUNT(lanes->palette)) {
		lanes->palette[i] = argb;
		__atomic_store_n(&lanes->palette_n, i + 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&lanes->lock);
	return i < WS_COUNT(lanes->palette) ? (uint8_t)i : 0;
}

/* The innermost function at a frame. */
static uint32_t function_of(const struct ws_stacks *stacks, uint32_t frame)
{
	return WS_NAME(WS_NAME_FUNCTION,
		       ws_stacks_get_places(stacks, ws_stacks_get_frame(stacks, frame))->function);
}

/* The short name, unless it stands for several full ones. */
static uint32_t string_name(const struct ws_lane_pass *pass, const struct ws_batch *batch, size_t i)
{
	const struct ws_report *report = pass->lanes->report;
	uint64_t name = batch->col[pass->kind->name][i], full;

	if (!pass->shared || name > ws_report_string_count(report) ||
	    !pass->shared[ws_report_string_key(report, (uint32_t)name)])
		return WS_NAME(WS_NAME_STRING, name);
	full = batch->col[pass->kind->full_name][i];
	return WS_NAME(WS_NAME_STRING, full ? full : name);
}

static uint32_t row_name(const struct ws_lane_pass *pass, const struct ws_batch *batch, size_t i)
{
	uint64_t v = batch->col[pass->kind->name][i];
	uint32_t caller;

	switch (pass->kind->naming) {
	case WS_NAMED_STR:
		return string_name(pass, batch, i);
	case WS_NAMED_THREAD:
		return WS_NAME(WS_NAME_THREAD, v);
	case WS_NAMED_FRAME:
		return function_of(pass->lanes->stacks, (uint32_t)v);
	case WS_NAMED_STACK:
		return function_of(pass->lanes->stacks,
				   ws_stacks_step_out(pass->lanes->stacks, (uint32_t)v, &caller));
	default:
		if (v >= pass->kind->own_n)
			v = 0;
		return WS_NAME(WS_NAME_OURS, pass->kind->own + v);
	}
}

/* Marks of NVTX and instants of other tools' traces have no end either, but they are not ranges
 * that never ended. */
static bool is_moment(const struct ws_event_kind *kind, const struct ws_batch *batch, size_t i)
{
	if (!kind->shaping)
		return !kind->end;
	return ws_shape_is_moment(ws_event_shape(kind, batch->col[kind->shaped_by][i]));
}

/* A counter has its value in place of an end. */
static void put_raw_value(const struct ws_event_kind *kind, uint64_t value, struct ws_raw *raw)
{
	double number = (double)value;

	if (kind->is_value_real)
		raw->end = value;
	else
		memcpy(&raw->end, &number, 8);
}

void ws_lane_raw_of_row(const struct ws_lane_pass *pass, const struct ws_batch *batch, size_t i,
			struct ws_raw *raw)
{
	const struct ws_event_kind *kind = pass->kind;

	*raw = (struct ws_raw){.start = batch->col[0][i],
			       .ref = (uint32_t)(pass->row_base[batch->block] + i),
			       .src = (uint8_t)pass->source};
	if (kind->value) {
		put_raw_value(kind, batch->col[kind->value][i], raw);
		return;
	}
	raw->name = row_name(pass, batch, i);
	raw->end = raw->start;
	if (kind->end)
		raw->end = batch->col[kind->end][i];
	if (is_moment(kind, batch, i)) {
		raw->end = raw->start;
		raw->src |= WS_EVENT_MOMENT;
	} else if (raw->end == WS_NO_TIME || raw->end < raw->start) {
		raw->end = ws_max(raw->start, pass->lanes->last);
		raw->src |= WS_EVENT_OPEN;
	}
	if (kind->color && batch->col[kind->color_flags][i] & WS_NVTX_HAS_COLOR)
		raw->paint = palette_index(pass->lanes, (uint32_t)batch->col[kind->color][i]);
}

/* The entries of a block are consecutive. */
static const struct ws_census_entry *block_entries(const struct ws_lane_pass *pass, uint32_t block,
						   size_t *n)
{
	size_t low = ws_bisect(pass->entries, mid, pass->first[mid].block < block);

	for (*n = 0; low + *n < pass->entries && pass->first[low + *n].block == block; ++*n)
		;
	return pass->first + low;
}

/* States of threads have no rows. */
static bool is_placed(const struct ws_lane_pass *pass, uint32_t lane)
{
	return pass->in_set[lane] && pass->lanes->lane[lane]->kind != WS_LANE_STATE;
}

static int place_batch(void *ctx, const struct ws_batch *batch)
{
	struct ws_lane_pass *pass = ctx;
	struct ws_lane_worker *worker = &pass->workers[batch->worker];
	size_t n;
	const struct ws_census_entry *entry = block_entries(pass, (uint32_t)batch->block, &n);
	struct ws_raw raw;

	pass->seen[batch->block] = 1;
	for (size_t i = 0; i < n; i++) {
		ws_lane_worker_need(worker, entry[i].lane);
		worker->at[entry[i].lane] = is_placed(pass, entry[i].lane) ? entry[i].at : 0;
		worker->end[entry[i].lane] =
			is_placed(pass, entry[i].lane) ? entry[i].at + entry[i].count : 0;
	}
	for (uint32_t f = 0; n && f < pass->kind->feeds; f++)
		for (size_t i = 0; i < batch->rows; i++) {
			uint32_t lane = ws_lane_of_row(pass, worker, f, batch, i);

			/* There are more rows than the census counted if a report is inconsistent
			 * or has changed. */
			if (lane == UINT32_MAX || lane >= worker->lanes ||
			    worker->at[lane] >= worker->end[lane])
				continue;
			ws_lane_raw_of_row(pass, batch, i, &raw);
			raw.there = 1;
			pass->lanes->lane[lane]->raw[worker->at[lane]++] = raw;
		}
	for (size_t i = 0; i < n; i++) {
		if (is_placed(pass, entry[i].lane))
			__atomic_fetch_add(&pass->lanes->lane[entry[i].lane]->placed,
					   worker->at[entry[i].lane] - entry[i].at,
					   __ATOMIC_RELAXED);
		worker->at[entry[i].lane] = worker->end[entry[i].lane] = 0;
	}
	while (pass->waits && __atomic_load_n(&pass->lanes->hurry, __ATOMIC_RELAXED) &&
	       !__atomic_load_n(&pass->lanes->stop, __ATOMIC_RELAXED))
		usleep(2000);
	return __atomic_load_n(&pass->lanes->stop, __ATOMIC_RELAXED);
}

uint64_t ws_lane_event_columns(const struct ws_event_kind *kind)
{
	const uint8_t used[] = {kind->end,   kind->value,	kind->name,	kind->shaped_by,
				kind->color, kind->color_flags, kind->full_name};
	uint64_t columns = ws_lane_key_columns(kind) | 1; /* the start */

	for (size_t i = 0; i < WS_COUNT(used); i++)
		columns |= UINT64_C(1) << used[i];
	return columns;
}

uint64_t *ws_lane_row_bases(const struct ws_report *report, enum ws_table table)
{
	size_t n = ws_report_count_blocks(report, table);
	uint64_t *base = ws_calloc(n + 1, sizeof(*base));

	for (size_t i = 0; i < n; i++)
		base[i + 1] = base[i] + ws_report_block_info(report, table, i).rows;
	return base;
}

/* ---- a set of lanes ---- */

struct set {
	struct ws_lanes *lanes;
	struct ws_lane_worker *workers;
	uint32_t worker_n;
	uint8_t *in; /* by lane */
	uint32_t next;
	pthread_t thread;
	bool waits;
};

/* Blocks that could not be read are reported once, however often lanes are read from them. */
static void count_damaged(struct ws_lanes *lanes, struct ws_census_entry *entry, size_t n,
			  const uint8_t *skip, const uint8_t *seen)
{
	for (size_t i = 0; i < n; i++) {
		bool first = !i || entry[i].block != entry[i - 1].block;

		if (skip[entry[i].block] || seen[entry[i].block] || !first || entry[i].bad)
			continue;
		entry[i].bad = true;
		__atomic_fetch_add(&lanes->damaged, 1, __ATOMIC_RELAXED);
	}
}

static void place_source(struct set *set, size_t first, size_t entries)
{
	struct ws_lanes *lanes = set->lanes;
	struct ws_lane_pass pass =
		ws_lane_pass_new(lanes, lanes->census[first].source, set->workers);
	size_t blocks = ws_report_count_blocks(lanes->report, pass.kind->table);
	uint8_t *skip = ws_malloc(blocks), *seen = ws_calloc(blocks, 1);
	uint64_t *base = ws_lane_row_bases(lanes->report, pass.kind->table);
	struct ws_scan sc = {.table = pass.kind->table,
			     .columns = ws_lane_event_columns(pass.kind),
			     .time_max = UINT64_MAX,
			     .skip = skip};
	bool any = false;

	memset(skip, 1, blocks);
	for (size_t i = first; i < first + entries; i++)
		if (set->in[lanes->census[i].lane] &&
		    lanes->lane[lanes->census[i].lane]->kind != WS_LANE_STATE)
			skip[lanes->census[i].block] = 0, any = true;
	pass.row_base = base;
	pass.first = lanes->census + first;
	pass.entries = entries;
	pass.in_set = set->in;
	pass.seen = seen;
	pass.waits = set->waits;
	if (any) {
		ws_lane_workers_forget(set->workers, set->worker_n);
		ws_run_scan(lanes->report, &sc, place_batch, &pass, NULL);
		if (!__atomic_load_n(&lanes->stop, __ATOMIC_RELAXED))
			count_damaged(lanes, lanes->census + first, entries, skip, seen);
	}
	free(base);
	free(skip);
	free(seen);
}

static void *finish_lanes(void *arg)
{
	struct set *set = arg;

	for (;;) {
		uint32_t i = __atomic_fetch_add(&set->next, 1, __ATOMIC_RELAXED);

		if (i >= set->lanes->n || __atomic_load_n(&set->lanes->stop, __ATOMIC_RELAXED))
			return NULL;
		if (set->in[i])
			ws_make_lane_levels(set->lanes, set->lanes->lane[i]);
	}
}

/* Handles two lanes at a time. */
static void finish_all(struct set *set)
{
	bool two = !pthread_create(&set->thread, NULL, finish_lanes, set);

	finish_lanes(set);
	if (two)
		pthread_join(set->thread, NULL);
}

static bool any_states(const struct set *set)
{
	for (uint32_t i = 0; i < set->lanes->n; i++)
		if (set->in[i] && set->lanes->lane[i]->kind == WS_LANE_STATE)
			return true;
	return false;
}

static void read_set(struct set *set)
{
	struct ws_lanes *lanes = set->lanes;

	for (uint32_t i = 0; i < lanes->n; i++)
		if (set->in[i] && lanes->lane[i]->kind != WS_LANE_STATE) {
			lanes->lane[i]->raw = ws_allocate_space(lanes->lane[i]->count *
								sizeof(*lanes->lane[i]->raw));
			lanes->lane[i]->filled = lanes->lane[i]->count;
		}
	for (size_t i = 0, to;
	     i < lanes->census_n && !__atomic_load_n(&lanes->stop, __ATOMIC_RELAXED); i = to) {
		for (to = i + 1;
		     to < lanes->census_n && lanes->census[to].source == lanes->census[i].source;
		     to++)
			;
		place_source(set, i, to - i);
	}
	if (any_states(set))
		ws_fill_states(lanes, set->in);
	set->next = 0;
	finish_all(set);
}

/* Changed under the lock; ws_lane_reading looks without it. */
static void set_state(struct ws_lane *lane, enum ws_lane_state state)
{
	__atomic_store_n(&lane->state, (uint8_t)state, __ATOMIC_RELAXED);
}

/* ---- room ---- */

static uint64_t multiply_capped(uint64_t n, uint64_t bytes)
{
	return n < UINT64_MAX / bytes ? n * bytes : UINT64_MAX;
}

/* Bytes of a lane. A span on a core makes up to three states, and time on a core is noted once
 * more. */
static uint64_t lane_bytes(const struct ws_lane *lane, uint64_t each)
{
	return multiply_capped(lane->count, lane->kind == WS_LANE_STATE ? 4 * each : each);
}

/* Drop the lane that no one has looked at for longest; false when there is none. Called under the
 * lock, which it releases meanwhile. */
static bool forget_one(struct ws_lanes *lanes)
{
	uint32_t now = __atomic_load_n(&lanes->clock, __ATOMIC_RELAXED), best = UINT32_MAX,
		 oldest = 0;

	for (uint32_t i = 0; i < lanes->n; i++) {
		uint32_t age = now - __atomic_load_n(&lanes->lane[i]->asked, __ATOMIC_RELAXED);

		if (lanes->lane[i]->state == WS_LANE_READ &&
		    lanes->lane[i]->kind != WS_LANE_PROJECTED && age >= oldest) {
			oldest = age;
			best = i;
		}
	}
	if (best == UINT32_MAX)
		return false;
	set_state(lanes->lane[best], WS_LANE_LEAVING);
	pthread_mutex_unlock(&lanes->lock); /* a thread that looks at levels may want the lock */
	pthread_rwlock_wrlock(&lanes->shown);
	ws_forget_lane_levels(lanes->lane[best]);
	pthread_rwlock_unlock(&lanes->shown);
	pthread_mutex_lock(&lanes->lock);
	set_state(lanes->lane[best], WS_LANE_IDLE);
	lanes->used -= lane_bytes(lanes->lane[best], BYTES_READ);
	if (!lanes->lane[best]->uncounted)
		__atomic_fetch_sub(&lanes->built_events, lanes->lane[best]->count,
				   __ATOMIC_RELAXED);
	return true;
}

/* Make room for one more lane, dropping others if `forget`. Under the lock. */
static bool reserve_space(struct ws_lanes *lanes, const struct ws_lane *lane, bool forget)
{
	uint64_t need = lane_bytes(lane, BYTES_READING);

	if (need > lanes->opts.room)
		return false;
	while (lanes->used + need > lanes->opts.room)
		if (!forget || !forget_one(lanes))
			return false;
	lanes->used += need;
	return true;
}

static void set_read(struct set *set)
{
	struct ws_lanes *lanes = set->lanes;

	pthread_mutex_lock(&lanes->lock);
	for (uint32_t i = 0; i < lanes->n; i++)
		if (set->in[i]) {
			set_state(lanes->lane[i], WS_LANE_READ);
			lanes->used -= lane_bytes(lanes->lane[i], BYTES_READING - BYTES_READ);
			lanes->busy--;
		}
	pthread_cond_broadcast(&lanes->changed);
	pthread_mutex_unlock(&lanes->lock);
}

static void add_to_set(struct set *set, uint32_t i)
{
	set->in[i] = 1;
	set->lanes->busy += set->lanes->lane[i]->state == WS_LANE_IDLE;
	set_state(set->lanes->lane[i], WS_LANE_READING);
}

/* ---- lanes that were asked for ---- */

struct sized {
	uint64_t count;
	uint32_t lane;
};

static int compare_sizes(const void *first, const void *second)
{
	const struct sized *left = first, *right = second;

	if (left->count != right->count)
		return ws_compare(left->count, right->count);
	return ws_compare(left->lane, right->lane);
}

/* The names of samples are functions. */
static bool needs_stacks(const struct set *set)
{
	for (uint32_t i = 0; i < set->lanes->n; i++)
		if (set->in[i] && ws_lane_names_functions(set->lanes->lane[i]->kind))
			return true;
	return false;
}

/* Some of the lanes that are wanted, small ones first, so that these are there at once whatever
 * else is wanted. Under the lock. */
static bool choose_wanted_lanes(struct set *set)
{
	struct sized *sized = ws_malloc((set->lanes->n + 1) * sizeof(*sized));
	uint64_t events = 0;
	bool any = false;
	size_t n = 0;

	memset(set->in, 0, set->lanes->n);
	for (uint32_t i = 0; i < set->lanes->n; i++)
		if (set->lanes->lane[i]->state == WS_LANE_WANTED)
			sized[n++] = (struct sized){set->lanes->lane[i]->count, i};
	qsort(sized, n, sizeof(*sized), compare_sizes);
	for (size_t k = 0; k < n && (!any || events + sized[k].count <= AT_A_TIME); k++) {
		struct ws_lane *lane = set->lanes->lane[sized[k].lane];

		if (reserve_space(set->lanes, lane, !any)) {
			add_to_set(set, sized[k].lane);
			events += sized[k].count;
			any = true;
		} else if (!any) { /* only its size is against it */
			set_state(lane, WS_LANE_TOO_MANY);
			set->lanes->busy--;
			pthread_cond_broadcast(&set->lanes->changed);
		}
	}
	free(sized);
	return any;
}

static struct set new_set(struct ws_lanes *lanes, bool waits)
{
	struct set set = {.lanes = lanes, .waits = waits, .in = ws_calloc(lanes->n + 1, 1)};

	set.workers = ws_lane_workers_new(&set.worker_n);
	return set;
}

static void free_set(struct set *set)
{
	ws_lane_workers_free(set->workers, set->worker_n);
	free(set->in);
}

static void *serve_wanted_lanes(void *arg)
{
	struct ws_lanes *lanes = arg;
	struct set set;
	bool any;

	ws_lanes_wait_census(lanes);
	set = new_set(lanes, false);
	pthread_mutex_lock(&lanes->lock);
	while (!lanes->stop) {
		any = choose_wanted_lanes(&set);
		__atomic_store_n(&lanes->hurry, any, __ATOMIC_RELAXED);
		if (!any) {
			pthread_cond_wait(&lanes->changed, &lanes->lock);
			continue;
		}
		pthread_mutex_unlock(&lanes->lock);
		if (needs_stacks(&set))
			ws_lanes_wait_stacks(lanes);
		read_set(&set);
		if (!__atomic_load_n(&lanes->stop, __ATOMIC_RELAXED))
			set_read(&set);
		pthread_mutex_lock(&lanes->lock);
	}
	pthread_mutex_unlock(&lanes->lock);
	free_set(&set);
	return NULL;
}

void ws_lanes_want(struct ws_lanes *lanes, uint32_t i)
{
	struct ws_lane *lane = lanes->lane[i];

	__atomic_store_n(&lane->asked, __atomic_add_fetch(&lanes->clock, 1, __ATOMIC_RELAXED),
			 __ATOMIC_RELAXED);
	if (ws_lane_ready(lane) || lane->kind == WS_LANE_PROJECTED)
		return;
	pthread_mutex_lock(&lanes->lock);
	if (lane->state == WS_LANE_IDLE && lanes->serving) {
		set_state(lane, WS_LANE_WANTED);
		lanes->busy++;
		pthread_cond_broadcast(&lanes->changed);
	}
	pthread_mutex_unlock(&lanes->lock);
}

void ws_lanes_want_at(struct ws_lanes *lanes, uint32_t i, uint64_t px)
{
	if (lanes->lane[i]->count <= LARGE || lanes->lane[i]->grain > px ||
	    ws_lane_ready(lanes->lane[i]))
		ws_lanes_want(lanes, i);
}

uint32_t ws_lanes_unread(struct ws_lanes *lanes, uint32_t *reading)
{
	uint32_t n = 0;

	pthread_mutex_lock(&lanes->lock);
	for (uint32_t i = 0; i < lanes->n; i++)
		n += lanes->lane[i]->kind != WS_LANE_PROJECTED && !ws_lane_ready(lanes->lane[i]);
	*reading = lanes->busy;
	pthread_mutex_unlock(&lanes->lock);
	return n;
}

/* ---- lanes that no one has asked for ---- */

/* The lanes of the set that are not read yet, up to the limit. Under the lock. */
static bool choose_unread_lanes(struct set *set, uint64_t *left)
{
	struct ws_lanes *lanes = set->lanes;
	struct sized *sized = ws_malloc((lanes->n + 1) * sizeof(*sized));
	size_t n = 0;
	bool any = false;

	for (uint32_t i = 0; i < lanes->n; i++)
		if (set->in[i] && lanes->lane[i]->state == WS_LANE_IDLE)
			sized[n++] = (struct sized){lanes->lane[i]->count, i};
	memset(set->in, 0, lanes->n);
	qsort(sized, n, sizeof(*sized), compare_sizes);
	for (size_t i = 0; i < n && sized[i].count <= *left; i++) {
		if (!reserve_space(lanes, lanes->lane[sized[i].lane], false))
			break;
		add_to_set(set, sized[i].lane);
		*left -= sized[i].count;
		any = true;
	}
	free(sized);
	return any;
}

/* Read those lanes of the set for which there is room. Called under the lock, which it releases. */
static void read_some(struct set *set, uint64_t *left)
{
	bool any = choose_unread_lanes(set, left);

	pthread_mutex_unlock(&set->lanes->lock);
	if (!any)
		return;
	read_set(set);
	if (!__atomic_load_n(&set->lanes->stop, __ATOMIC_RELAXED))
		set_read(set);
}

static void read_unasked(struct ws_lanes *lanes)
{
	struct set set = new_set(lanes, true);
	uint64_t left = lanes->opts.unasked;

	for (size_t i = 0, to;
	     i < lanes->census_n && !__atomic_load_n(&lanes->stop, __ATOMIC_RELAXED); i = to) {

		for (to = i + 1;
		     to < lanes->census_n && lanes->census[to].source == lanes->census[i].source;
		     to++)
			;
		pthread_mutex_lock(&lanes->lock);
		memset(set.in, 0, lanes->n);
		for (size_t k = i; k < to; k++)
			set.in[lanes->census[k].lane] = 1;
		read_some(&set, &left);
	}
	pthread_mutex_lock(&lanes->lock);
	for (uint32_t i = 0; i < lanes->n; i++)
		set.in[i] = lanes->lane[i]->kind == WS_LANE_STATE && lanes->lane[i]->uncounted;
	read_some(&set, &left);
	free_set(&set);
}

/* ---- the threads ---- */

bool ws_lanes_projects(const struct ws_lanes *lanes)
{
	return ws_report_count_rows(lanes->report, WS_TABLE_cuda_api) <= lanes->opts.unasked;
}

static void set_flag(struct ws_lanes *lanes, int *flag)
{
	pthread_mutex_lock(&lanes->lock);
	__atomic_store_n(flag, 1, __ATOMIC_RELEASE); /* some look without the lock */
	pthread_cond_broadcast(&lanes->changed);
	pthread_mutex_unlock(&lanes->lock);
}

/* Wait until nothing is being read that someone asked for: projecting needs the ranges. */
static void wait_idle(struct ws_lanes *lanes)
{
	pthread_mutex_lock(&lanes->lock);
	while (lanes->busy && !lanes->stop)
		pthread_cond_wait(&lanes->changed, &lanes->lock);
	pthread_mutex_unlock(&lanes->lock);
}

static void *build_lanes(void *arg)
{
	struct ws_lanes *lanes = arg;
	uint32_t n;
	struct ws_lane_worker *workers = ws_lane_workers_new(&n);

	ws_take_census(lanes, workers, n);
	ws_lane_workers_free(workers, n);
	name_domains(lanes);
	ws_project_lanes(lanes);
	ws_state_lanes(lanes);
	set_flag(lanes, &lanes->census_done);
	lanes->stacks = ws_stacks_open(lanes->report, NULL);
	set_flag(lanes, &lanes->stacks_done);
	read_unasked(lanes);
	wait_idle(lanes);
	set_flag(lanes, &lanes->placed);
	if (ws_lanes_projects(lanes))
		ws_project_ranges(lanes);
	set_flag(lanes, &lanes->built);
	return NULL;
}

/* The end of the recording, or of what is shown: tables whose rows may belong to no thread do not
 * count for the recording's end. */
static uint64_t last_of(const struct ws_report *report)
{
	uint64_t last = ws_find_time_last(report);

	for (size_t i = 0; i < WS_EVENT_KINDS; i++) {
		enum ws_table table = ws_event_kinds[i].table;

		if (!ws_event_has_lane(&ws_event_kinds[i]))
			continue;
		for (size_t k = 0; k < ws_report_count_blocks(report, table); k++) {
			uint64_t max = ws_report_block_info(report, table, k).time_max;

			if (max > last && max != UINT64_MAX)
				last = max;
		}
	}
	return last;
}

struct ws_lanes *ws_lanes_open(const struct ws_report *report, const struct ws_lanes_opts *opts)
{
	struct ws_lanes *lanes = ws_calloc(1, sizeof(*lanes));

	lanes->report = report;
	lanes->who = ws_who_open(report);
	lanes->fold = ws_fold_open(report, WS_FOLD_AUTO);
	lanes->zero = ws_find_time_zero(report);
	lanes->last = last_of(report);
	lanes->opts = opts ? *opts
			   : (struct ws_lanes_opts){.unasked = UNASKED,
						    .room = ws_measure_free_space(),
						    .to = UINT64_MAX};
	lanes->palette_n = 1;
	lanes->names_domains = ws_calloc(ws_report_count_blocks(report, WS_TABLE_nvtx) + 1, 1);
	pthread_mutex_init(&lanes->lock, NULL);
	pthread_mutex_init(&lanes->naming, NULL);
	pthread_cond_init(&lanes->changed, NULL);
	pthread_rwlock_init(&lanes->shown, NULL);
	for (size_t i = 0; lanes->opts.like && i < lanes->opts.like->n; i++)
		ws_make_lane(lanes, lanes->opts.like->lane[i]->kind,
			     lanes->opts.like->lane[i]->key);
	lanes->building = !pthread_create(&lanes->builder, NULL, build_lanes, lanes);
	lanes->serving =
		lanes->building && !pthread_create(&lanes->server, NULL, serve_wanted_lanes, lanes);
	if (!lanes->building)
		build_lanes(lanes);
	return lanes;
}

static void wait_for(struct ws_lanes *lanes, const int *flag)
{
	pthread_mutex_lock(&lanes->lock);
	while (!*flag && !lanes->stop)
		pthread_cond_wait(&lanes->changed, &lanes->lock);
	pthread_mutex_unlock(&lanes->lock);
}

void ws_lanes_wait_census(struct ws_lanes *lanes)
{
	wait_for(lanes, &lanes->census_done);
}

void ws_lanes_wait_stacks(struct ws_lanes *lanes)
{
	wait_for(lanes, &lanes->stacks_done);
}

void ws_lanes_wait(struct ws_lanes *lanes)
{
	wait_for(lanes, &lanes->built);
}

void ws_lanes_close(struct ws_lanes *lanes)
{
	if (!lanes)
		return;
	set_flag(lanes, &lanes->stop);
	if (lanes->building)
		pthread_join(lanes->builder, NULL);
	if (lanes->serving)
		pthread_join(lanes->server, NULL);
	for (size_t i = 0; i < lanes->n; i++)
		ws_lane_free(lanes->lane[i]);
	free(lanes->lane);
	free(lanes->slots);
	free(lanes->census);
	free(lanes->glimpse);
	free(lanes->names_domains);
	ws_map_free(&lanes->domains);
	for (size_t i = 0; i < WS_EVENT_KINDS; i++)
		free(lanes->shared[i].is_shared);
	pthread_mutex_destroy(&lanes->naming);
	ws_stacks_close(lanes->stacks);
	ws_fold_close(lanes->fold);
	ws_who_close(lanes->who);
	pthread_mutex_destroy(&lanes->lock);
	pthread_cond_destroy(&lanes->changed);
	pthread_rwlock_destroy(&lanes->shown);
	free(lanes);
}
