/*
 * row_tree.c - the rows of a time line as a tree: processes with their threads and the threads'
 * activities, GPUs with kernels, copies and streams, cores, counters, tracks of other tools. Rows
 * come parents first, in the order they are shown.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/map.h"
#include "base/choose.h"
#include "text/text.h"
#include "query/gpu.h"
#include "lanes/row_tree.h"

/* ---- small tables by key ---- */

static struct ws_map load_map(const struct ws_report *report, enum ws_table table, int high,
			      int low, int value)
{
	struct ws_cursor *cursor = ws_cursor_open(report, table, 0, UINT64_MAX);
	struct ws_map map = {0};
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values))
		ws_map_set(&map, (high >= 0 ? values[high] << 32 : 0) | (uint32_t)values[low],
			   values[value]);
	ws_cursor_close(cursor);
	return map;
}

/* The devices of counters: where a counter has none, that of the GPU whose UUID it has. A reader
 * outside the program does not know in which order the program numbers its GPUs. */
static struct ws_map load_counter_devices(const struct ws_report *report)
{
	struct ws_map devices = load_map(report, WS_TABLE_counter, -1, ws_counter_id,
					 ws_counter_device),
		      numbers = {0};
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_cuda_device, 0, UINT64_MAX);
	const uint64_t *values;
	bool found;

	while (ws_cursor_next(cursor, &values))
		ws_map_set(&numbers,
			   ws_report_string_key(report, (uint32_t)values[ws_cuda_device_uuid]),
			   values[ws_cuda_device_id]);
	ws_cursor_close(cursor);
	cursor = ws_cursor_open(report, WS_TABLE_counter, 0, UINT64_MAX);
	while (ws_cursor_next(cursor, &values)) {
		uint32_t key = ws_report_string_key(report, (uint32_t)values[ws_counter_identity]);
		uint64_t number = ws_map_get(&numbers, key, &found);

		if (found && (uint32_t)values[ws_counter_device] == WS_NO_U32)
			ws_map_set(&devices, (uint32_t)values[ws_counter_id], number);
	}
	ws_cursor_close(cursor);
	ws_map_free(&numbers);
	return devices;
}

static uint64_t look_up(const struct ws_map *map, uint64_t high, uint64_t low, uint64_t fallback)
{
	bool found;
	uint64_t v = ws_map_get(map, high << 32 | (uint32_t)low, &found);

	return found ? v : fallback;
}

struct tree {
	struct ws_text *out;
	const struct ws_lanes *lanes;
	uint32_t *order; /* lanes by what they belong to */
	struct ws_map rank, rank_world, rank_local, rank_host, rank_gpus; /* by process */
	struct ws_map device_name, null_stream, counter_name, counter_group, counter_unit,
		track_name, track_process;
	/* By thread, and by process (high bit set): events, and its time on cores or, where that
	 * was not recorded, events. */
	struct ws_map events, work;
	struct ws_map launches; /* threads that launch work or name what they do */
	struct ws_map load;	/* of each process: the work of all its threads */
	struct ws_map tier;	/* of each process: enum tier */
	struct ws_map place;	/* by process: its place in the order, from 1 */
	uint64_t busiest;	/* the largest load */
	struct ws_map shown;	/* processes that have a row */
	struct ws_map counter_device, counter_process;
	struct ws_map gpu_row; /* process << 32 | device, and all ones << 32 | device: process of
				  its (first) row + 1 */
	bool scheduled;	       /* time on cores is known */
	uint8_t thread_order[WS_LANE_KINDS]; /* kinds of rows as they are shown below a thread */
	size_t thread_kinds;
};

/* ---- rows ---- */

static void begin_row(const struct tree *tree, const char *id, const char *parent, const char *type)
{
	ws_put_json_comma(tree->out);
	ws_text_puts(tree->out, "\n{");
	ws_put_json_string(tree->out, "id", id);
	ws_put_json_string(tree->out, "parent", parent);
	ws_put_json_string(tree->out, "type", type);
}

static void end_row(const struct tree *tree)
{
	ws_text_puts(tree->out, "}");
}

static void put_lane_facts(const struct tree *tree, uint32_t i)
{
	const struct ws_lane *lane = tree->lanes->lane[i];

	if (lane->kind == WS_LANE_NVTX && lane->key[2])
		ws_put_json_int(tree->out, "loose", 1);
	if (lane->kind == WS_LANE_OP && lane->key[1])
		ws_put_json_int(tree->out, "python", 1);
	ws_put_json_int(tree->out, "lane", i);
	ws_put_json_int(tree->out, "count",
			(int64_t)(lane->kind == WS_LANE_STATE && ws_lane_ready(lane) && lane->levels
					  ? lane->level[0].n
					  : lane->count));
	ws_put_json_int(tree->out, "ready", ws_lane_ready(lane));
	if (!ws_lane_ready(lane))
		return;
	ws_put_json_int(tree->out, "levels", lane->levels);
	ws_put_json_int(tree->out, "busy", (int64_t)lane->busy);
	ws_put_json_int(tree->out, "hidden", (int64_t)lane->hidden);
	if (ws_lane_descs[lane->kind].counter && lane->levels && lane->level[0].n) {
		double low, high;

		ws_level_extremes(&lane->level[0], 0, lane->level[0].n, &low, &high);
		if (isnan(low))
			return;
		ws_put_json_key(tree->out, "low");
		ws_text_printf(tree->out, "%.17g", low);
		ws_put_json_key(tree->out, "high");
		ws_text_printf(tree->out, "%.17g", high);
	}
}

static void put_lane_row(const struct tree *tree, uint32_t i, const char *parent, const char *label,
			 size_t label_n)
{
	char id[16];

	snprintf(id, sizeof(id), "l%" PRIu32, i);
	begin_row(tree, id, parent, ws_lane_descs[tree->lanes->lane[i]->kind].name);
	if (label)
		ws_put_json_text(tree->out, "label", label, label_n);
	put_lane_facts(tree, i);
	end_row(tree);
}

/* A row of an NVTX domain; a domain without a name is shown by its number. */
static void put_domain_row(const struct tree *tree, uint32_t i, const char *parent,
			   uint64_t process, uint32_t domain)
{
	size_t n;
	const char *name =
		ws_report_string(tree->lanes->report,
				 (uint32_t)look_up(&tree->lanes->domains, process, domain, 0), &n);
	char id[16];

	snprintf(id, sizeof(id), "l%" PRIu32, i);
	begin_row(tree, id, parent, ws_lane_descs[tree->lanes->lane[i]->kind].name);
	ws_put_json_text(tree->out, "label", name, n);
	ws_put_json_int(tree->out, "domain", domain);
	put_lane_facts(tree, i);
	end_row(tree);
}

static void put_string_lane_row(const struct tree *tree, uint32_t i, const char *parent,
				uint32_t text)
{
	size_t n;
	const char *word = ws_report_string(tree->lanes->report, text, &n);

	put_lane_row(tree, i, parent, word, n);
}

/* ---- threads ---- */

static bool is_below_thread(uint8_t kind)
{
	return ws_lane_descs[kind].place == WS_PLACE_THREAD;
}

static bool is_below_device(uint8_t kind)
{
	return ws_lane_descs[kind].place == WS_PLACE_DEVICE;
}

/* The order of the kinds of rows below a thread; returns how many there are. */
static size_t order_thread_lanes(uint8_t kinds[WS_LANE_KINDS])
{
	size_t n = 0;

	for (unsigned order = 0; order <= UINT8_MAX; order++)
		for (uint8_t kind = 0; kind < WS_LANE_KINDS; kind++)
			if (is_below_thread(kind) && ws_lane_descs[kind].order == order)
				kinds[n++] = kind;
	return n;
}

static void put_thread_lane(const struct tree *tree, uint32_t i, const char *parent)
{
	const struct ws_lane *lane = tree->lanes->lane[i];

	if (lane->kind == WS_LANE_NVTX && lane->key[1]) {
		uint64_t process = ws_find_thread(tree->lanes->who, lane->key[0])->process;

		put_domain_row(tree, i, parent, process, lane->key[1]);
		return;
	}
	if (lane->kind == WS_LANE_SLICE && lane->key[1])
		put_string_lane_row(tree, i, parent, lane->key[1]);
	else
		put_lane_row(tree, i, parent, NULL, 0);
}

static void put_thread_row(struct tree *tree, uint32_t thread, const uint32_t *lanes, size_t n,
			   const char *parent)
{
	const struct ws_thread_info *info = ws_find_thread(tree->lanes->who, thread);
	char id[16];

	snprintf(id, sizeof(id), "t%" PRIu32, thread);
	begin_row(tree, id, parent, "thread");
	ws_put_json_string(tree->out, "label", info->name);
	ws_put_json_int(tree->out, "tid", info->tid);
	ws_put_json_int(tree->out, "main", info->tid == info->pid);
	ws_put_json_int(tree->out, "count", (int64_t)ws_map_get(&tree->events, thread, NULL));
	end_row(tree);
	for (size_t k = 0; k < tree->thread_kinds; k++)
		for (size_t i = 0; i < n; i++)
			if (tree->lanes->lane[lanes[i]]->kind == tree->thread_order[k])
				put_thread_lane(tree, lanes[i], id);
}

/* ---- order ---- */

static uint64_t process_of(const struct tree *tree, const struct ws_lane *lane)
{
	if (is_below_thread(lane->kind))
		return ws_find_thread(tree->lanes->who, lane->key[0])->process;
	if (ws_lane_descs[lane->kind].place == WS_PLACE_PROCESS)
		return lane->key[0];
	return UINT32_MAX;
}

static uint64_t events_of(const struct tree *tree, uint64_t key)
{
	return ws_map_get(&tree->events, key, NULL);
}

enum { PROCESS_BIT = 62 };

static bool is_main(const struct tree *tree, uint32_t thread)
{
	return ws_find_thread(tree->lanes->who, thread)->tid ==
	       ws_find_thread(tree->lanes->who, thread)->pid;
}

static void add_to(struct ws_map *map, uint64_t key, uint64_t v)
{
	ws_map_set(map, key, ws_map_get(map, key, NULL) + v);
}

/*
 * A thread that hardly ran: it launches nothing, names nothing, and worked less than a twentieth of
 * its process's busiest thread. A share, not a time, so that it means the same in reports of a
 * second and of an hour.
 */
enum { HARDLY = 20 };
static bool is_quiet(const struct tree *tree, uint32_t thread)
{
	uint64_t process =
		ws_find_thread(tree->lanes->who, thread)->process | UINT64_C(1) << PROCESS_BIT;

	return !is_main(tree, thread) && !ws_map_get(&tree->launches, thread, NULL) &&
	       ws_map_get(&tree->work, thread, NULL) <
		       ws_map_get(&tree->work, process, NULL) / HARDLY;
}

/* The main thread if it launches work, other threads that do, busy ones, then those that hardly
 * ran. */
static int compare_threads(const struct tree *tree, uint32_t a, uint32_t b)
{
	bool x = ws_map_get(&tree->launches, a, NULL), y = ws_map_get(&tree->launches, b, NULL);
	uint64_t m = ws_map_get(&tree->work, a, NULL), n = ws_map_get(&tree->work, b, NULL);

	if (x != y)
		return x ? -1 : 1;
	if (is_quiet(tree, a) != is_quiet(tree, b))
		return is_quiet(tree, b) ? -1 : 1;
	if (is_main(tree, a) != is_main(tree, b))
		return is_main(tree, a) ? -1 : 1;
	if (m != n)
		return ws_compare(n, m);
	return ws_compare(a, b);
}

/*
 * The role of a process, most important first: it works on a GPU; it launches work or names what it
 * does; it computes; it hardly runs compared with the busiest (shells that start a program,
 * compilers that it looks for).
 */
enum tier { TIER_GPU, TIER_NAMES, TIER_WORKS, TIER_QUIET };

static enum tier tier_of(const struct tree *tree, uint64_t process)
{
	return (enum tier)ws_map_get(&tree->tier, process, NULL);
}

/*
 * Processes of the first two roles are sorted by their start, as ranks are; others by their work.
 */
static int compare_processes(const void *first, const void *second, void *ctx)
{
	const struct tree *tree = ctx;
	uint64_t p = *(const uint64_t *)first, q = *(const uint64_t *)second;
	enum tier left = tier_of(tree, p), right = tier_of(tree, q);
	uint64_t m = ws_map_get(&tree->load, p, NULL), n = ws_map_get(&tree->load, q, NULL);

	if (left != right)
		return ws_compare(left, right);
	if (left == TIER_WORKS && m != n)
		return ws_compare(n, m);
	return ws_compare(p, q);
}

static int compare_owners(const void *first, const void *second, void *ctx)
{
	const struct tree *tree = ctx;
	uint32_t i = *(const uint32_t *)first, j = *(const uint32_t *)second;
	const struct ws_lane *left = tree->lanes->lane[i], *right = tree->lanes->lane[j];
	uint64_t p = process_of(tree, left), q = process_of(tree, right);

	if (p != q && (p == UINT32_MAX || q == UINT32_MAX))
		return ws_compare(p, q);
	if (p != q)
		return ws_map_get(&tree->place, p, NULL) < ws_map_get(&tree->place, q, NULL) ? -1
											     : 1;
	if (is_below_thread(left->kind) != is_below_thread(right->kind))
		return is_below_thread(left->kind) ? -1 : 1;
	if (is_below_thread(left->kind) && left->key[0] != right->key[0])
		return compare_threads(tree, left->key[0], right->key[0]);
	if (left->kind != right->kind)
		return ws_compare(left->kind, right->kind);
	for (int k = 0; k < 4; k++)
		if (left->key[k] != right->key[k])
			return ws_compare(left->key[k], right->key[k]);
	return 0;
}

static bool names_its_work(uint8_t kind)
{
	return ws_lane_descs[kind].flags & WS_LANE_IS_SAYS_WHAT;
}

/* A key of a lane that no other lane has. */
static uint64_t count_own_events(const struct ws_lane *lane)
{
	return lane->uncounted ? 0 : lane->count;
}

/* Time on cores counts only once all lanes are read, so that rows change places at most once. */
static void weigh_threads(struct tree *tree)
{
	bool placed = __atomic_load_n(&tree->lanes->placed, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < tree->lanes->n; i++)
		tree->scheduled |= placed && tree->lanes->lane[i]->kind == WS_LANE_STATE &&
				   !tree->lanes->lane[i]->uncounted;
	for (uint32_t i = 0; i < tree->lanes->n; i++) {
		const struct ws_lane *lane = tree->lanes->lane[i];

		if (!is_below_thread(lane->kind))
			continue;
		if (names_its_work(lane->kind))
			ws_map_set(&tree->launches, lane->key[0], 1);
		if (!tree->scheduled)
			add_to(&tree->work, lane->key[0], count_own_events(lane));
		else if (lane->kind == WS_LANE_STATE)
			add_to(&tree->work, lane->key[0], lane->busy);
	}
	for (uint32_t i = 0; i < tree->lanes->n; i++) {
		const struct ws_lane *lane = tree->lanes->lane[i];
		uint64_t process = process_of(tree, lane) | UINT64_C(1) << PROCESS_BIT;

		if (is_below_thread(lane->kind) && ws_map_get(&tree->work, lane->key[0], NULL) >
							   ws_map_get(&tree->work, process, NULL))
			ws_map_set(&tree->work, process,
				   ws_map_get(&tree->work, lane->key[0], NULL));
	}
}

/* Tiers and places of processes. */
static void sort_processes(struct tree *tree)
{
	uint64_t *values = ws_malloc((tree->lanes->n + 1) * sizeof(*values));
	size_t n = 0;

	for (uint32_t i = 0; i < tree->lanes->n; i++) {
		const struct ws_lane *lane = tree->lanes->lane[i];
		uint64_t p = is_below_device(lane->kind) ? lane->key[0] : process_of(tree, lane);
		uint64_t tier = is_below_device(lane->kind)  ? TIER_GPU
				: names_its_work(lane->kind) ? TIER_NAMES
							     : TIER_QUIET;
		bool known;

		if (p == UINT32_MAX)
			continue;
		if (ws_map_get(&tree->tier, p, &known) > tier || !known)
			ws_map_set(&tree->tier, p, tier);
		if (!known)
			values[n++] = p;
		if (is_below_thread(lane->kind) &&
		    (!tree->scheduled || lane->kind == WS_LANE_STATE))
			add_to(&tree->load, p,
			       tree->scheduled ? lane->busy : count_own_events(lane));
		if (ws_map_get(&tree->load, p, NULL) > tree->busiest)
			tree->busiest = ws_map_get(&tree->load, p, NULL);
	}
	for (size_t i = 0; i < n; i++)
		if (tier_of(tree, values[i]) == TIER_QUIET &&
		    ws_map_get(&tree->load, values[i], NULL) >= tree->busiest / HARDLY)
			ws_map_set(&tree->tier, values[i], TIER_WORKS);
	qsort_r(values, n, sizeof(*values), compare_processes, tree);
	for (size_t i = 0; i < n; i++)
		ws_map_set(&tree->place, values[i], i + 1);
	free(values);
}

static void sort_lanes(struct tree *tree)
{
	tree->order = ws_malloc((tree->lanes->n + 1) * sizeof(*tree->order));
	for (uint32_t i = 0; i < tree->lanes->n; i++) {
		const struct ws_lane *lane = tree->lanes->lane[i];
		uint64_t process = process_of(tree, lane);

		tree->order[i] = i;
		if (is_below_thread(lane->kind))
			ws_map_set(&tree->events, lane->key[0],
				   ws_map_get(&tree->events, lane->key[0], NULL) +
					   count_own_events(lane));
		if (process != UINT32_MAX) {
			process |= UINT64_C(1) << PROCESS_BIT;
			ws_map_set(&tree->events, process,
				   ws_map_get(&tree->events, process, NULL) +
					   count_own_events(lane));
		}
	}
	weigh_threads(tree);
	sort_processes(tree);
	qsort_r(tree->order, tree->lanes->n, sizeof(*tree->order), compare_owners, tree);
}

/* ---- GPUs ---- */

static void put_stream_row(const struct tree *tree, uint32_t i, const char *parent)
{
	const uint32_t *key = tree->lanes->lane[i]->key;
	char id[16];

	snprintf(id, sizeof(id), "l%" PRIu32, i);
	begin_row(tree, id, parent, "stream");
	ws_put_json_int(tree->out, "context", key[2]);
	ws_put_json_int(tree->out, "stream", key[3]);
	ws_put_json_int(tree->out, "default",
			look_up(&tree->null_stream, key[0], key[2], UINT64_MAX) == key[3]);
	put_lane_facts(tree, i);
	end_row(tree);
}

static void put_projected_row(const struct tree *tree, uint32_t i, const char *parent)
{
	const uint32_t *key = tree->lanes->lane[i]->key;
	const struct ws_thread_info *info = ws_find_thread(tree->lanes->who, key[2]);
	char id[16];

	snprintf(id, sizeof(id), "l%" PRIu32, i);
	begin_row(tree, id, parent, "projected");
	if (key[3]) {
		size_t n;
		const char *text = ws_report_string(
			tree->lanes->report,
			(uint32_t)look_up(&tree->lanes->domains, key[0], key[3], 0), &n);

		ws_put_json_text(tree->out, "label", text, n);
		ws_put_json_int(tree->out, "domain", key[3]);
	}
	ws_put_json_int(tree->out, "tid", info->tid);
	ws_put_json_string(tree->out, "process", info->name);
	put_lane_facts(tree, i);
	end_row(tree);
}

/* Each kind of memory has a row. */
static void put_bytes_row(const struct tree *tree, uint32_t i, const char *parent)
{
	const char *kind = ws_name_memory_kind(tree->lanes->lane[i]->key[2]);

	put_lane_row(tree, i, parent, kind, strlen(kind));
}

/* Rows of a GPU that say more than their kind. */
static void (*const device_rows[WS_LANE_KINDS])(const struct tree *tree, uint32_t i,
						const char *parent) = {
	[WS_LANE_PROJECTED] = put_projected_row,
	[WS_LANE_STREAM] = put_stream_row,
	[WS_LANE_GPU_BYTES] = put_bytes_row,
};

/* Counters go below the row of a GPU: the process's row or, if there is none, the first of any
 * process. */
static void note_gpu_row(struct tree *tree, const uint32_t *key)
{
	uint64_t first = (uint64_t)UINT32_MAX << 32 | key[1];

	ws_map_set(&tree->gpu_row, (uint64_t)key[0] << 32 | key[1], (uint64_t)key[0] + 1);
	if (!ws_map_get(&tree->gpu_row, first, NULL))
		ws_map_set(&tree->gpu_row, first, (uint64_t)key[0] + 1);
}

static void put_gpu_row(struct tree *tree, const uint32_t *key, const char *id, const char *parent)
{
	const struct ws_process_info *info = ws_find_process(tree->lanes->who, key[0]);
	size_t n;
	const char *name = ws_report_string(
		tree->lanes->report, (uint32_t)look_up(&tree->device_name, key[0], key[1], 0), &n);

	note_gpu_row(tree, key);
	begin_row(tree, id, parent, "gpu");
	ws_put_json_int(tree->out, "device", key[1]);
	ws_put_json_text(tree->out, "label", name, n);
	ws_put_json_string(tree->out, "process", info->name);
	ws_put_json_int(tree->out, "pid", info->pid);
	end_row(tree);
}

static int compare_devices(const void *first, const void *second, void *ctx)
{
	const struct tree *tree = ctx;
	const struct ws_lane *left = tree->lanes->lane[*(const uint32_t *)first],
			     *right = tree->lanes->lane[*(const uint32_t *)second];

	if (left->key[1] != right->key[1])
		return ws_compare(left->key[1], right->key[1]);
	if (left->key[0] != right->key[0])
		return ws_compare(left->key[0], right->key[0]);
	if (left->kind != right->kind)
		return ws_compare(left->kind, right->kind);
	if (left->key[2] != right->key[2])
		return ws_compare(left->key[2], right->key[2]);
	return ws_compare(left->key[3], right->key[3]);
}

static size_t select_lanes(const struct tree *tree, bool (*which)(uint8_t kind), uint32_t *out)
{
	size_t n = 0;

	for (uint32_t i = 0; i < tree->lanes->n; i++)
		if (which(tree->lanes->lane[i]->kind))
			out[n++] = i;
	return n;
}

/* GPUs as `process` used them, below its row `parent`; with UINT32_MAX, all that belong to no row
 * yet. */
static void put_gpu_rows(struct tree *tree, uint32_t process, const char *parent)
{
	uint32_t *values = ws_malloc((tree->lanes->n + 1) * sizeof(*values));
	size_t n = select_lanes(tree, is_below_device, values);
	const struct ws_lane *last = NULL;
	char id[32];

	qsort_r(values, n, sizeof(*values), compare_devices, tree);
	for (size_t i = 0; i < n; i++) {
		const struct ws_lane *left = tree->lanes->lane[values[i]], *right = last;

		if ((left->kind == WS_LANE_PROJECTED && !ws_lane_ready(left)) ||
		    (process == UINT32_MAX ? ws_map_get(&tree->shown, left->key[0], NULL) != 0
					   : left->key[0] != process))
			continue;
		snprintf(id, sizeof(id), "g%" PRIu32 ".%" PRIu32, left->key[0], left->key[1]);
		if (!right || left->key[0] != right->key[0] || left->key[1] != right->key[1])
			put_gpu_row(tree, left->key, id, parent);
		last = left;
		if (device_rows[left->kind])
			device_rows[left->kind](tree, values[i], id);
		else
			put_lane_row(tree, values[i], id, NULL, 0);
	}
	free(values);
}

/* ---- processes ---- */

static void put_rank_text(const struct tree *tree, const char *key, const struct ws_map *texts,
			  uint32_t process)
{
	size_t length = 0;
	uint32_t id = (uint32_t)look_up(texts, 0, process, 0);
	const char *text = id ? ws_report_string(tree->lanes->report, id, &length) : "";

	if (length)
		ws_put_json_text(tree->out, key, text, length);
}

/* Which rank of a job the process is, and where it runs; nothing when it is not a rank. */
static void put_rank(const struct tree *tree, uint32_t process)
{
	uint64_t rank = look_up(&tree->rank, 0, process, UINT64_MAX),
		 world = look_up(&tree->rank_world, 0, process, 0),
		 local = look_up(&tree->rank_local, 0, process, WS_NO_U32);

	if (rank == UINT64_MAX)
		return;
	ws_put_json_int(tree->out, "rank", (int64_t)rank);
	if (world)
		ws_put_json_int(tree->out, "world", (int64_t)world);
	if (local != WS_NO_U32)
		ws_put_json_int(tree->out, "local_rank", (int64_t)local);
	put_rank_text(tree, "host", &tree->rank_host, process);
	put_rank_text(tree, "gpus", &tree->rank_gpus, process);
}

static void put_process_row(const struct tree *tree, uint32_t process, const char *id,
			    const char *parent)
{
	const struct ws_process_info *info = ws_find_process(tree->lanes->who, process);

	begin_row(tree, id, parent, "process");
	ws_put_json_string(tree->out, "label", info->name);
	ws_put_json_int(tree->out, "pid", info->pid);
	ws_put_json_text(tree->out, "cmdline", info->cmdline, strnlen(info->cmdline, 1000));
	put_rank(tree, process);
	if (info->start)
		ws_put_time(tree->out, "start", tree->lanes, info->start);
	if (info->end != WS_NO_TIME)
		ws_put_time(tree->out, "end", tree->lanes, info->end);
	ws_put_json_int(tree->out, "count",
			(int64_t)events_of(tree, process | UINT64_C(1) << PROCESS_BIT));
	end_row(tree);
}

/* One row for the threads that hardly ran, which are at the end: lanes order[i] and on. Where there
 * are two or fewer, they keep their own rows. */
static bool put_quiet_row(const struct tree *tree, size_t i, const char *process, char *id,
			  size_t size)
{
	uint64_t owner = process_of(tree, tree->lanes->lane[tree->order[i]]);
	uint32_t last = UINT32_MAX;
	int64_t n = 0;

	for (; i < tree->lanes->n && is_below_thread(tree->lanes->lane[tree->order[i]]->kind) &&
	       process_of(tree, tree->lanes->lane[tree->order[i]]) == owner;
	     i++) {
		n += tree->lanes->lane[tree->order[i]]->key[0] != last;
		last = tree->lanes->lane[tree->order[i]]->key[0];
	}
	if (n <= 2)
		return false;
	snprintf(id, size, "q%" PRIu64, owner);
	begin_row(tree, id, process, "threads");
	ws_put_json_int(tree->out, "threads", n);
	end_row(tree);
	return true;
}

/*
 * One row for the processes that hardly ran, which are at the end: lanes order[i] and on; it is
 * their parent. Where there are two or fewer, they stay as they are.
 */
static const char *put_quiet_processes(const struct tree *tree, size_t i)
{
	uint64_t last = UINT32_MAX;
	int64_t n = 0;

	for (; i < tree->lanes->n &&
	       process_of(tree, tree->lanes->lane[tree->order[i]]) != UINT32_MAX;
	     i++) {
		n += process_of(tree, tree->lanes->lane[tree->order[i]]) != last;
		last = process_of(tree, tree->lanes->lane[tree->order[i]]);
	}
	if (n <= 2)
		return "";
	begin_row(tree, "processes", "", "processes");
	ws_put_json_int(tree->out, "processes", n);
	end_row(tree);
	return "processes";
}

static bool is_track(uint8_t kind)
{
	return ws_lane_descs[kind].place == WS_PLACE_TRACK;
}

/* The row of the GPU that did the work of a track; false where the process used none, or several,
 * by CUDA: graphics number GPUs in another way. */
static bool find_gpu_of_track(const struct tree *tree, uint32_t process, const char *name, char *id,
			      size_t size)
{
	bool found = false, is_gpu = !strncmp(name, "OpenGL GPU,", strlen("OpenGL GPU,")) ||
				     !strncmp(name, "Vulkan GPU,", strlen("Vulkan GPU,"));

	for (size_t i = 0; is_gpu && i < tree->gpu_row.size; i++) {
		uint64_t key = tree->gpu_row.slots[i].key;

		if (!tree->gpu_row.used[i] || key >> 32 != process)
			continue;
		if (found)
			return false;
		found = true;
		snprintf(id, size, "g%" PRIu32 ".%" PRIu32, process, (uint32_t)key);
	}
	return found;
}

/* Tracks of a process, below its row or that of its GPU. */
static void put_process_tracks(const struct tree *tree, uint32_t process, const char *parent)
{
	for (uint32_t i = 0; i < tree->lanes->n; i++) {
		const struct ws_lane *lane = tree->lanes->lane[i];
		char gpu[32];
		uint32_t name;

		if (!is_track(lane->kind) ||
		    look_up(&tree->track_process, 0, lane->key[0], 0) != process)
			continue;
		name = (uint32_t)look_up(&tree->track_name, 0, lane->key[0], 0);
		if (find_gpu_of_track(tree, process,
				      ws_report_string(tree->lanes->report, name, NULL), gpu,
				      sizeof(gpu)))
			put_string_lane_row(tree, i, gpu, name);
		else
			put_string_lane_row(tree, i, parent, name);
	}
}

/* GPUs come before the threads, so that they stay visible however many threads there are. */
static void put_process_rows(struct tree *tree)
{
	char id[24], quiet[24];
	const char *under = id; /* where threads go: the process or its row of quiet ones */
	const char *above = ""; /* where processes go */
	bool quiet_ones = false;

	for (size_t i = 0, to; i < tree->lanes->n; i = to) {
		const struct ws_lane *lane = tree->lanes->lane[tree->order[i]];
		uint64_t process = process_of(tree, lane);

		to = i + 1;
		if (process == UINT32_MAX)
			return;
		snprintf(id, sizeof(id), "p%" PRIu64, process);
		if (!ws_map_get(&tree->shown, process, NULL)) {
			if (!quiet_ones && tier_of(tree, process) == TIER_QUIET) {
				quiet_ones = true;
				above = put_quiet_processes(tree, i);
			}
			ws_map_set(&tree->shown, process, 1);
			put_process_row(tree, (uint32_t)process, id, above);
			put_gpu_rows(tree, (uint32_t)process, id);
			put_process_tracks(tree, (uint32_t)process, id);
			under = id;
		}
		if (!is_below_thread(lane->kind)) {
			put_string_lane_row(tree, tree->order[i], id, lane->key[1]);
			continue;
		}
		if (under == id && is_quiet(tree, lane->key[0]) &&
		    (!i || process_of(tree, tree->lanes->lane[tree->order[i - 1]]) != process ||
		     !is_quiet(tree, tree->lanes->lane[tree->order[i - 1]]->key[0])))
			under = put_quiet_row(tree, i, id, quiet, sizeof(quiet)) ? quiet : id;
		while (to < tree->lanes->n &&
		       is_below_thread(tree->lanes->lane[tree->order[to]]->kind) &&
		       tree->lanes->lane[tree->order[to]]->key[0] == lane->key[0])
			to++;
		put_thread_row(tree, lane->key[0], tree->order + i, to - i, under);
	}
}

/* ---- the rest ---- */

static void put_group_row(const struct tree *tree, const char *id, bool *there)
{
	if (*there)
		return;
	*there = true;
	begin_row(tree, id, "", id);
	end_row(tree);
}

static int compare_numbers(const void *first, const void *second, void *ctx)
{
	const struct tree *tree = ctx;
	const struct ws_lane *left = tree->lanes->lane[*(const uint32_t *)first],
			     *right = tree->lanes->lane[*(const uint32_t *)second];

	if (left->key[0] != right->key[0])
		return ws_compare(left->key[0], right->key[0]);
	return ws_compare(left->kind, right->kind);
}

static bool is_core(uint8_t kind)
{
	return ws_lane_descs[kind].place == WS_PLACE_CORE;
}

static void put_core_rows(struct tree *tree)
{
	uint32_t *values = ws_malloc((tree->lanes->n + 1) * sizeof(*values));
	size_t n = select_lanes(tree, is_core, values);
	bool there = false;
	char number[16];

	qsort_r(values, n, sizeof(*values), compare_numbers, tree);
	for (size_t i = 0; i < n; i++) {
		put_group_row(tree, "cores", &there);
		snprintf(number, sizeof(number), "%" PRIu32, tree->lanes->lane[values[i]]->key[0]);
		put_lane_row(tree, values[i], "cores", number, strlen(number));
	}
	free(values);
}

static bool is_counter(uint8_t kind)
{
	return ws_lane_descs[kind].place == WS_PLACE_COUNTER;
}

/* The row of the GPU that a counter is about; "counters" for others. */
static void find_counter_parent(const struct tree *tree, uint32_t counter, char *id, size_t size)
{
	uint64_t device = look_up(&tree->counter_device, 0, counter, WS_NO_U32),
		 process = look_up(&tree->counter_process, 0, counter, 0), owner = 0;

	if (device != WS_NO_U32 && process)
		owner = look_up(&tree->gpu_row, process, device, 0);
	if (device != WS_NO_U32 && !owner)
		owner = look_up(&tree->gpu_row, UINT32_MAX, device, 0);
	if (owner)
		snprintf(id, size, "g%" PRIu64 ".%" PRIu64, owner - 1, device);
	else
		snprintf(id, size, "counters");
}

/* A counter is below the row of its group, in a GPU or in the report. `groups` and `there` say
 * which rows exist already. */
static void put_counter_group(const struct tree *tree, uint32_t counter, char *id, size_t size,
			      struct ws_map *groups, bool *there)
{
	uint32_t text = (uint32_t)look_up(&tree->counter_group, 0, counter, 0);
	uint32_t key = ws_report_string_key(tree->lanes->report, text);
	char parent[48];
	size_t n;
	const char *name = ws_report_string(tree->lanes->report, text, &n);
	bool known, top;

	find_counter_parent(tree, counter, parent, sizeof(parent));
	top = !strcmp(parent, "counters");
	if (top)
		snprintf(id, size, "cg%" PRIu32, key);
	else
		snprintf(id, size, "cg%" PRIu32 ".%s", key, parent);
	ws_map_get(groups, XXH3_64bits(id, strlen(id)), &known);
	if (known)
		return;
	if (top)
		put_group_row(tree, "counters", there);
	ws_map_set(groups, XXH3_64bits(id, strlen(id)), 1);
	begin_row(tree, id, parent, "counter_group");
	ws_put_json_text(tree->out, "label", name, n);
	end_row(tree);
}

/* Counters whose values add up, in the order in which they are stacked: by the beginnings of their
 * names, the longest first. */
static const struct {
	const char *name, *pile;
} piles[] = {
	{"DRAM Read", "DRAM"},
	{"DRAM Write", "DRAM"},
	{"Compute Warps in Flight", "SM Warp Occupancy"},
	{"Unallocated Warps in Active SMs", "SM Warp Occupancy"},
	{"NVLink RX Re", "NVLink RX"},
	{"NVLink TX Re", "NVLink TX"},
	{"In programs, all cores", "CPU"},
	{"In the kernel, all cores", "CPU"},
	{"Idle while I/O is waited for, all cores", "CPU"},
	{"Taken by the hypervisor, all cores", "CPU"},
};

static void put_pile(const struct tree *tree, const char *name)
{
	for (size_t i = 0; i < WS_COUNT(piles); i++)
		if (!strncmp(name, piles[i].name, strlen(piles[i].name))) {
			ws_put_json_string(tree->out, "pile", piles[i].pile);
			return;
		}
}

static void put_counter_rows(struct tree *tree)
{
	uint32_t *values = ws_malloc((tree->lanes->n + 1) * sizeof(*values));
	size_t n = select_lanes(tree, is_counter, values), len;
	struct ws_map groups = {0};
	bool there = false;
	char id[16], group[64];
	const char *word;

	qsort_r(values, n, sizeof(*values), compare_numbers, tree);
	for (size_t i = 0; i < n; i++) {
		uint32_t counter = tree->lanes->lane[values[i]]->key[0];

		put_counter_group(tree, counter, group, sizeof(group), &groups, &there);
		snprintf(id, sizeof(id), "l%" PRIu32, values[i]);
		begin_row(tree, id, group, "counter");
		word = ws_report_string(tree->lanes->report,
					(uint32_t)look_up(&tree->counter_name, 0, counter, 0),
					&len);
		ws_put_json_text(tree->out, "label", word, len);
		put_pile(tree, word);
		word = ws_report_string(tree->lanes->report,
					(uint32_t)look_up(&tree->counter_unit, 0, counter, 0),
					&len);
		ws_put_json_text(tree->out, "unit", word, len);
		put_lane_facts(tree, values[i]);
		end_row(tree);
	}
	ws_map_free(&groups);
	free(values);
}

/* Tracks that belong to no process that is shown. */
static void put_track_rows(struct tree *tree)
{
	uint32_t *values = ws_malloc((tree->lanes->n + 1) * sizeof(*values));
	size_t n = select_lanes(tree, is_track, values);
	bool there = false;

	qsort_r(values, n, sizeof(*values), compare_numbers, tree);
	for (size_t i = 0; i < n; i++) {
		uint32_t key = tree->lanes->lane[values[i]]->key[0];

		if (ws_map_get(&tree->shown, look_up(&tree->track_process, 0, key, 0), NULL))
			continue;
		put_group_row(tree, "tracks", &there);
		put_string_lane_row(tree, values[i], "tracks",
				    (uint32_t)look_up(&tree->track_name, 0, key, 0));
	}
	free(values);
}

static bool is_session(uint8_t kind)
{
	return ws_lane_descs[kind].place == WS_PLACE_SESSION;
}

static void put_session_rows(struct tree *tree)
{
	uint32_t *values = ws_malloc((tree->lanes->n + 1) * sizeof(*values));
	size_t n = select_lanes(tree, is_session, values);

	for (size_t i = 0; i < n; i++)
		put_lane_row(tree, values[i], "", NULL, 0);
	free(values);
}

void ws_put_row_tree(struct ws_text *out, const struct ws_lanes *lanes)
{
	const struct ws_report *report = lanes->report;
	struct tree tree = {
		.out = out,
		.lanes = lanes,
		.device_name = load_map(report, WS_TABLE_cuda_device, ws_cuda_device_process,
					ws_cuda_device_id, ws_cuda_device_name),
		.null_stream = load_map(report, WS_TABLE_cuda_context, ws_cuda_context_process,
					ws_cuda_context_id, ws_cuda_context_null_stream),
		.rank = load_map(report, WS_TABLE_rank, -1, ws_rank_process, ws_rank_rank),
		.rank_world = load_map(report, WS_TABLE_rank, -1, ws_rank_process, ws_rank_world),
		.rank_local = load_map(report, WS_TABLE_rank, -1, ws_rank_process, ws_rank_local),
		.rank_host = load_map(report, WS_TABLE_rank, -1, ws_rank_process, ws_rank_host),
		.rank_gpus = load_map(report, WS_TABLE_rank, -1, ws_rank_process, ws_rank_gpus),
		.counter_name =
			load_map(report, WS_TABLE_counter, -1, ws_counter_id, ws_counter_name),
		.counter_device = load_counter_devices(report),
		.counter_process =
			load_map(report, WS_TABLE_counter, -1, ws_counter_id, ws_counter_process),
		.counter_group =
			load_map(report, WS_TABLE_counter, -1, ws_counter_id, ws_counter_group),
		.counter_unit =
			load_map(report, WS_TABLE_counter, -1, ws_counter_id, ws_counter_unit),
		.track_name = load_map(report, WS_TABLE_track, -1, ws_track_id, ws_track_name),
		.track_process =
			load_map(report, WS_TABLE_track, -1, ws_track_id, ws_track_process),
	};

	tree.thread_kinds = order_thread_lanes(tree.thread_order);
	sort_lanes(&tree);
	ws_text_puts(out, "{\"rows\":[");
	put_process_rows(&tree);
	put_gpu_rows(&tree, UINT32_MAX, "");
	put_core_rows(&tree);
	put_counter_rows(&tree);
	put_track_rows(&tree);
	put_session_rows(&tree);
	ws_text_puts(out, "]}");
	free(tree.order);
	ws_map_free(&tree.device_name);
	ws_map_free(&tree.null_stream);
	ws_map_free(&tree.rank);
	ws_map_free(&tree.rank_world);
	ws_map_free(&tree.rank_local);
	ws_map_free(&tree.rank_host);
	ws_map_free(&tree.rank_gpus);
	ws_map_free(&tree.counter_name);
	ws_map_free(&tree.counter_group);
	ws_map_free(&tree.counter_device);
	ws_map_free(&tree.counter_process);
	ws_map_free(&tree.gpu_row);
	ws_map_free(&tree.counter_unit);
	ws_map_free(&tree.track_name);
	ws_map_free(&tree.track_process);
	ws_map_free(&tree.events);
	ws_map_free(&tree.work);
	ws_map_free(&tree.launches);
	ws_map_free(&tree.load);
	ws_map_free(&tree.tier);
	ws_map_free(&tree.place);
	ws_map_free(&tree.shown);
}
