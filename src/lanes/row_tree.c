/*
 * row_tree.c - the rows of a time line as a tree: processes with their threads and what these did,
 * GPUs with kernels, copies and streams, cores, counters, tracks of other tools. Rows come parents
 * first, in the order they are shown.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/choose.h"
#include "text/text.h"
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

static uint64_t get(const struct ws_map *map, uint64_t high, uint64_t low, uint64_t fallback)
{
	bool found;
	uint64_t v = ws_map_get(map, high << 32 | (uint32_t)low, &found);

	return found ? v : fallback;
}

struct tree {
	struct ws_text *out;
	const struct ws_lanes *lanes;
	uint32_t *order; /* lanes by what they belong to */
	struct ws_map device_name, null_stream, rank, counter_name, counter_group, counter_unit,
		track_name;
	/* Of each thread, and of each process (high bit set): events, and its time on cores or,
	 * where that was not recorded, events. */
	struct ws_map events, work;
	struct ws_map launches; /* threads that launch work or name what they do */
	struct ws_map load;	/* of each process: the work of all its threads */
	struct ws_map tier;	/* of each process: enum tier */
	struct ws_map place;	/* of each process: where it comes, from 1 */
	uint64_t busiest;	/* the largest load */
	struct ws_map shown;	/* processes that have a row */
	bool scheduled;		/* time on cores is known */
};

/* ---- rows ---- */

static void row(const struct tree *tree, const char *id, const char *parent, const char *type)
{
	ws_put_comma(tree->out);
	ws_text_puts(tree->out, "\n{");
	ws_put_string(tree->out, "id", id);
	ws_put_string(tree->out, "parent", parent);
	ws_put_string(tree->out, "type", type);
}

static void end_row(const struct tree *tree)
{
	ws_text_puts(tree->out, "}");
}

static void lane_facts(const struct tree *tree, uint32_t i)
{
	const struct ws_lane *lane = tree->lanes->lane[i];

	if (lane->kind == WS_LANE_NVTX && lane->key[2])
		ws_put_int(tree->out, "loose", 1);
	if (lane->kind == WS_LANE_OP && lane->key[1])
		ws_put_int(tree->out, "python", 1);
	ws_put_int(tree->out, "lane", i);
	ws_put_int(tree->out, "count",
		   (int64_t)(lane->kind == WS_LANE_STATE && ws_lane_ready(lane) && lane->levels
				     ? lane->level[0].n
				     : lane->count));
	ws_put_int(tree->out, "ready", ws_lane_ready(lane));
	if (!ws_lane_ready(lane))
		return;
	ws_put_int(tree->out, "levels", lane->levels);
	ws_put_int(tree->out, "busy", (int64_t)lane->busy);
	ws_put_int(tree->out, "hidden", (int64_t)lane->hidden);
	if (ws_lane_descs[lane->kind].counter && lane->levels && lane->level[0].n) {
		double low, high;

		ws_level_extremes(&lane->level[0], 0, lane->level[0].n, &low, &high);
		ws_put_key(tree->out, "low");
		ws_text_printf(tree->out, "%.17g", low);
		ws_put_key(tree->out, "high");
		ws_text_printf(tree->out, "%.17g", high);
	}
}

static void lane_row(const struct tree *tree, uint32_t i, const char *parent, const char *label,
		     size_t label_n)
{
	char id[16];

	snprintf(id, sizeof(id), "l%" PRIu32, i);
	row(tree, id, parent, ws_lane_descs[tree->lanes->lane[i]->kind].name);
	if (label)
		ws_put_text(tree->out, "label", label, label_n);
	lane_facts(tree, i);
	end_row(tree);
}

static void string_lane_row(const struct tree *tree, uint32_t i, const char *parent, uint32_t text)
{
	size_t n;
	const char *word = ws_report_string(tree->lanes->report, text, &n);

	lane_row(tree, i, parent, word, n);
}

/* ---- threads ---- */

static bool of_thread(uint8_t kind)
{
	return kind <= WS_LANE_PYTHON;
}

static bool of_device(uint8_t kind)
{
	return kind >= WS_LANE_PROJECTED && kind <= WS_LANE_GPU_BYTES;
}

/* Kinds in the order they are shown below a thread: what it was doing, from the machine up to the
 * program. */
static const uint8_t thread_order[] = {WS_LANE_STATE,	  WS_LANE_SAMPLE, WS_LANE_PYTHON,
				       WS_LANE_GIL,	  WS_LANE_OSRT,	  WS_LANE_NVTX,
				       WS_LANE_OP,	  WS_LANE_SLICE,  WS_LANE_CUDA_API,
				       WS_LANE_CUDA_OTHER};

static void thread_lane(const struct tree *tree, uint32_t i, const char *parent)
{
	const struct ws_lane *lane = tree->lanes->lane[i];

	if (lane->kind == WS_LANE_NVTX && lane->key[1]) {
		uint64_t process = ws_who_thread(tree->lanes->who, lane->key[0])->process;

		string_lane_row(tree, i, parent,
				(uint32_t)get(&tree->lanes->domains, process, lane->key[1], 0));
		return;
	}
	if (lane->kind == WS_LANE_SLICE && lane->key[1])
		string_lane_row(tree, i, parent, lane->key[1]);
	else
		lane_row(tree, i, parent, NULL, 0);
}

static void thread_row(struct tree *tree, uint32_t thread, const uint32_t *lanes, size_t n,
		       const char *parent)
{
	const struct ws_thread_info *info = ws_who_thread(tree->lanes->who, thread);
	char id[16];

	snprintf(id, sizeof(id), "t%" PRIu32, thread);
	row(tree, id, parent, "thread");
	ws_put_string(tree->out, "label", info->name);
	ws_put_int(tree->out, "tid", info->tid);
	ws_put_int(tree->out, "main", info->tid == info->pid);
	ws_put_int(tree->out, "count", (int64_t)ws_map_get(&tree->events, thread, NULL));
	end_row(tree);
	for (size_t k = 0; k < WS_COUNT(thread_order); k++)
		for (size_t i = 0; i < n; i++)
			if (tree->lanes->lane[lanes[i]]->kind == thread_order[k])
				thread_lane(tree, lanes[i], id);
}

/* ---- order ---- */

static uint64_t process_of(const struct tree *tree, const struct ws_lane *lane)
{
	if (of_thread(lane->kind))
		return ws_who_thread(tree->lanes->who, lane->key[0])->process;
	return lane->kind == WS_LANE_COLLECTIVE ? lane->key[0] : UINT32_MAX;
}

static uint64_t events_of(const struct tree *tree, uint64_t key)
{
	return ws_map_get(&tree->events, key, NULL);
}

enum { PROCESS_BIT = 62 };

static bool is_main(const struct tree *tree, uint32_t thread)
{
	return ws_who_thread(tree->lanes->who, thread)->tid ==
	       ws_who_thread(tree->lanes->who, thread)->pid;
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
		ws_who_thread(tree->lanes->who, thread)->process | UINT64_C(1) << PROCESS_BIT;

	return !is_main(tree, thread) && !ws_map_get(&tree->launches, thread, NULL) &&
	       ws_map_get(&tree->work, thread, NULL) <
		       ws_map_get(&tree->work, process, NULL) / HARDLY;
}

/* The main thread if it launches work, others that do, busy ones, those that hardly ran. */
static int by_thread(const struct tree *tree, uint32_t a, uint32_t b)
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
		return m > n ? -1 : 1;
	return a < b ? -1 : 1;
}

/*
 * What a process is for, those that matter first: it works on a GPU; it launches work or names what
 * it does; it computes; it hardly runs beside the busiest (shells that start a program, compilers
 * it looks for).
 */
enum tier { TIER_GPU, TIER_NAMES, TIER_WORKS, TIER_QUIET };

static enum tier tier_of(const struct tree *tree, uint64_t process)
{
	return (enum tier)ws_map_get(&tree->tier, process, NULL);
}

/* The first two in order of their start, as ranks are; others by their work. */
static int by_process(const void *first, const void *second, void *ctx)
{
	const struct tree *tree = ctx;
	uint64_t p = *(const uint64_t *)first, q = *(const uint64_t *)second;
	enum tier left = tier_of(tree, p), right = tier_of(tree, q);
	uint64_t m = ws_map_get(&tree->load, p, NULL), n = ws_map_get(&tree->load, q, NULL);

	if (left != right)
		return left < right ? -1 : 1;
	if (left == TIER_WORKS && m != n)
		return m > n ? -1 : 1;
	return ws_compare(p, q);
}

static int by_owner(const void *first, const void *second, void *ctx)
{
	const struct tree *tree = ctx;
	uint32_t i = *(const uint32_t *)first, j = *(const uint32_t *)second;
	const struct ws_lane *left = tree->lanes->lane[i], *right = tree->lanes->lane[j];
	uint64_t p = process_of(tree, left), q = process_of(tree, right);

	if (p != q && (p == UINT32_MAX || q == UINT32_MAX))
		return p < q ? -1 : 1;
	if (p != q)
		return ws_map_get(&tree->place, p, NULL) < ws_map_get(&tree->place, q, NULL) ? -1
											     : 1;
	if (of_thread(left->kind) != of_thread(right->kind))
		return of_thread(left->kind) ? -1 : 1;
	if (of_thread(left->kind) && left->key[0] != right->key[0])
		return by_thread(tree, left->key[0], right->key[0]);
	if (left->kind != right->kind)
		return left->kind < right->kind ? -1 : 1;
	for (int k = 0; k < 4; k++)
		if (left->key[k] != right->key[k])
			return left->key[k] < right->key[k] ? -1 : 1;
	return 0;
}

static bool says_what(uint8_t kind)
{
	return kind == WS_LANE_NVTX || kind == WS_LANE_CUDA_API || kind == WS_LANE_OP ||
	       kind == WS_LANE_SLICE || kind == WS_LANE_COLLECTIVE;
}

/* What a lane has that no other has. */
static uint64_t own_count(const struct ws_lane *lane)
{
	return lane->uncounted ? 0 : lane->count;
}

/* Time on cores counts once all lanes are read, all at once: rows change places no more than one
 * time. */
static void weigh(struct tree *tree)
{
	bool placed = __atomic_load_n(&tree->lanes->placed, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < tree->lanes->n; i++)
		tree->scheduled |= placed && tree->lanes->lane[i]->kind == WS_LANE_STATE &&
				   !tree->lanes->lane[i]->uncounted;
	for (uint32_t i = 0; i < tree->lanes->n; i++) {
		const struct ws_lane *lane = tree->lanes->lane[i];

		if (!of_thread(lane->kind))
			continue;
		if (says_what(lane->kind))
			ws_map_set(&tree->launches, lane->key[0], 1);
		if (!tree->scheduled)
			add_to(&tree->work, lane->key[0], own_count(lane));
		else if (lane->kind == WS_LANE_STATE)
			add_to(&tree->work, lane->key[0], lane->busy);
	}
	for (uint32_t i = 0; i < tree->lanes->n; i++) {
		const struct ws_lane *lane = tree->lanes->lane[i];
		uint64_t process = process_of(tree, lane) | UINT64_C(1) << PROCESS_BIT;

		if (of_thread(lane->kind) && ws_map_get(&tree->work, lane->key[0], NULL) >
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
		uint64_t p = of_device(lane->kind) ? lane->key[0] : process_of(tree, lane);
		uint64_t tier = of_device(lane->kind)	? TIER_GPU
				: says_what(lane->kind) ? TIER_NAMES
							: TIER_QUIET;
		bool known;

		if (p == UINT32_MAX)
			continue;
		if (ws_map_get(&tree->tier, p, &known) > tier || !known)
			ws_map_set(&tree->tier, p, tier);
		if (!known)
			values[n++] = p;
		if (of_thread(lane->kind) && (!tree->scheduled || lane->kind == WS_LANE_STATE))
			add_to(&tree->load, p, tree->scheduled ? lane->busy : own_count(lane));
		if (ws_map_get(&tree->load, p, NULL) > tree->busiest)
			tree->busiest = ws_map_get(&tree->load, p, NULL);
	}
	for (size_t i = 0; i < n; i++)
		if (tier_of(tree, values[i]) == TIER_QUIET &&
		    ws_map_get(&tree->load, values[i], NULL) >= tree->busiest / HARDLY)
			ws_map_set(&tree->tier, values[i], TIER_WORKS);
	qsort_r(values, n, sizeof(*values), by_process, tree);
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
		if (of_thread(lane->kind))
			ws_map_set(&tree->events, lane->key[0],
				   ws_map_get(&tree->events, lane->key[0], NULL) + own_count(lane));
		if (process != UINT32_MAX) {
			process |= UINT64_C(1) << PROCESS_BIT;
			ws_map_set(&tree->events, process,
				   ws_map_get(&tree->events, process, NULL) + own_count(lane));
		}
	}
	weigh(tree);
	sort_processes(tree);
	qsort_r(tree->order, tree->lanes->n, sizeof(*tree->order), by_owner, tree);
}

/* ---- GPUs ---- */

static void stream_row(const struct tree *tree, uint32_t i, const char *parent)
{
	const uint32_t *key = tree->lanes->lane[i]->key;
	char id[16];

	snprintf(id, sizeof(id), "l%" PRIu32, i);
	row(tree, id, parent, "stream");
	ws_put_int(tree->out, "context", key[2]);
	ws_put_int(tree->out, "stream", key[3]);
	ws_put_int(tree->out, "default",
		   get(&tree->null_stream, key[0], key[2], UINT64_MAX) == key[3]);
	lane_facts(tree, i);
	end_row(tree);
}

static void projected_row(const struct tree *tree, uint32_t i, const char *parent)
{
	const uint32_t *key = tree->lanes->lane[i]->key;
	const struct ws_thread_info *info = ws_who_thread(tree->lanes->who, key[2]);
	char id[16];

	snprintf(id, sizeof(id), "l%" PRIu32, i);
	row(tree, id, parent, "projected");
	if (key[3]) {
		size_t n;
		const char *text =
			ws_report_string(tree->lanes->report,
					 (uint32_t)get(&tree->lanes->domains, key[0], key[3], 0),
					 &n);

		ws_put_text(tree->out, "label", text, n);
	}
	ws_put_int(tree->out, "tid", info->tid);
	ws_put_string(tree->out, "process", info->name);
	lane_facts(tree, i);
	end_row(tree);
}

static void gpu_row(const struct tree *tree, const uint32_t *key, const char *id,
		    const char *parent)
{
	const struct ws_process_info *info = ws_who_process(tree->lanes->who, key[0]);
	size_t n;
	const char *name = ws_report_string(
		tree->lanes->report, (uint32_t)get(&tree->device_name, key[0], key[1], 0), &n);

	row(tree, id, parent, "gpu");
	ws_put_int(tree->out, "device", key[1]);
	ws_put_text(tree->out, "label", name, n);
	ws_put_string(tree->out, "process", info->name);
	ws_put_int(tree->out, "pid", info->pid);
	end_row(tree);
}

static int by_device(const void *first, const void *second, void *ctx)
{
	const struct tree *tree = ctx;
	const struct ws_lane *left = tree->lanes->lane[*(const uint32_t *)first],
			     *right = tree->lanes->lane[*(const uint32_t *)second];

	if (left->key[0] != right->key[0] || left->key[1] != right->key[1])
		return left->key[1] != right->key[1]  ? (left->key[1] < right->key[1] ? -1 : 1)
		       : left->key[0] < right->key[0] ? -1
						      : 1;
	if (left->kind != right->kind)
		return left->kind < right->kind ? -1 : 1;
	return left->key[2] != right->key[2] ? (left->key[2] < right->key[2] ? -1 : 1)
					     : ws_compare(left->key[3], right->key[3]);
}

static size_t select_lanes(const struct tree *tree, bool (*which)(uint8_t kind), uint32_t *out)
{
	size_t n = 0;

	for (uint32_t i = 0; i < tree->lanes->n; i++)
		if (which(tree->lanes->lane[i]->kind))
			out[n++] = i;
	return n;
}

/* GPUs as `process` used them, below its row `parent`; all that belong to no row yet with
 * UINT32_MAX. */
static void gpu_rows(const struct tree *tree, uint32_t process, const char *parent)
{
	uint32_t *values = ws_malloc((tree->lanes->n + 1) * sizeof(*values));
	size_t n = select_lanes(tree, of_device, values);
	const struct ws_lane *last = NULL;
	char id[32];

	qsort_r(values, n, sizeof(*values), by_device, (void *)tree);
	for (size_t i = 0; i < n; i++) {
		const struct ws_lane *left = tree->lanes->lane[values[i]], *right = last;

		if ((left->kind == WS_LANE_PROJECTED && !ws_lane_ready(left)) ||
		    (process == UINT32_MAX ? ws_map_get(&tree->shown, left->key[0], NULL) != 0
					   : left->key[0] != process))
			continue;
		snprintf(id, sizeof(id), "g%" PRIu32 ".%" PRIu32, left->key[0], left->key[1]);
		if (!right || left->key[0] != right->key[0] || left->key[1] != right->key[1])
			gpu_row(tree, left->key, id, parent);
		last = left;
		if (left->kind == WS_LANE_PROJECTED)
			projected_row(tree, values[i], id);
		else if (left->kind == WS_LANE_STREAM)
			stream_row(tree, values[i], id);
		else if (left->kind == WS_LANE_GPU_BYTES)
			lane_row(tree, values[i], id, "B", 1);
		else
			lane_row(tree, values[i], id, NULL, 0);
	}
	free(values);
}

/* ---- processes ---- */

static void process_row(const struct tree *tree, uint32_t process, const char *id,
			const char *parent)
{
	const struct ws_process_info *info = ws_who_process(tree->lanes->who, process);
	uint64_t rank = get(&tree->rank, 0, process, UINT64_MAX);

	row(tree, id, parent, "process");
	ws_put_string(tree->out, "label", info->name);
	ws_put_int(tree->out, "pid", info->pid);
	ws_put_text(tree->out, "cmdline", info->cmdline, strnlen(info->cmdline, 1000));
	if (rank != UINT64_MAX)
		ws_put_int(tree->out, "rank", (int64_t)rank);
	if (info->start)
		ws_put_time(tree->out, "start", tree->lanes, info->start);
	if (info->end != WS_NO_TIME)
		ws_put_time(tree->out, "end", tree->lanes, info->end);
	ws_put_int(tree->out, "count",
		   (int64_t)events_of(tree, process | UINT64_C(1) << PROCESS_BIT));
	end_row(tree);
}

/* One row for the threads that hardly ran, which are at the end: lanes order[i] and on. Two or
 * fewer stay as they are. */
static bool quiet_row(const struct tree *tree, size_t i, const char *process, char *id, size_t size)
{
	uint64_t owner = process_of(tree, tree->lanes->lane[tree->order[i]]);
	uint32_t last = UINT32_MAX;
	int64_t n = 0;

	for (; i < tree->lanes->n && of_thread(tree->lanes->lane[tree->order[i]]->kind) &&
	       process_of(tree, tree->lanes->lane[tree->order[i]]) == owner;
	     i++) {
		n += tree->lanes->lane[tree->order[i]]->key[0] != last;
		last = tree->lanes->lane[tree->order[i]]->key[0];
	}
	if (n <= 2)
		return false;
	snprintf(id, size, "q%" PRIu64, owner);
	row(tree, id, process, "threads");
	ws_put_int(tree->out, "threads", n);
	end_row(tree);
	return true;
}

/*
 * One row for the processes that hardly ran, which are at the end: lanes order[i] and on; it is
 * their parent. Two or fewer stay as they are.
 */
static const char *quiet_processes(const struct tree *tree, size_t i)
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
	row(tree, "processes", "", "processes");
	ws_put_int(tree->out, "processes", n);
	end_row(tree);
	return "processes";
}

/* GPUs come before the threads: what the program is there for stays in sight however many threads
 * there are. */
static void process_rows(struct tree *tree)
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
				above = quiet_processes(tree, i);
			}
			ws_map_set(&tree->shown, process, 1);
			process_row(tree, (uint32_t)process, id, above);
			gpu_rows(tree, (uint32_t)process, id);
			under = id;
		}
		if (!of_thread(lane->kind)) {
			lane_row(tree, tree->order[i], id, NULL, 0);
			continue;
		}
		if (under == id && is_quiet(tree, lane->key[0]) &&
		    (!i || process_of(tree, tree->lanes->lane[tree->order[i - 1]]) != process ||
		     !is_quiet(tree, tree->lanes->lane[tree->order[i - 1]]->key[0])))
			under = quiet_row(tree, i, id, quiet, sizeof(quiet)) ? quiet : id;
		while (to < tree->lanes->n && of_thread(tree->lanes->lane[tree->order[to]]->kind) &&
		       tree->lanes->lane[tree->order[to]]->key[0] == lane->key[0])
			to++;
		thread_row(tree, lane->key[0], tree->order + i, to - i, under);
	}
}

/* ---- the rest ---- */

static void group_row(const struct tree *tree, const char *id, bool *there)
{
	if (*there)
		return;
	*there = true;
	row(tree, id, "", id);
	end_row(tree);
}

static int by_number(const void *first, const void *second, void *ctx)
{
	const struct tree *tree = ctx;
	const struct ws_lane *left = tree->lanes->lane[*(const uint32_t *)first],
			     *right = tree->lanes->lane[*(const uint32_t *)second];

	return left->key[0] != right->key[0] ? (left->key[0] < right->key[0] ? -1 : 1)
					     : ws_compare(left->kind, right->kind);
}

static bool is_core(uint8_t kind)
{
	return kind == WS_LANE_CPU || kind == WS_LANE_FTRACE;
}

static void core_rows(struct tree *tree)
{
	uint32_t *values = ws_malloc((tree->lanes->n + 1) * sizeof(*values));
	size_t n = select_lanes(tree, is_core, values);
	bool there = false;
	char number[16];

	qsort_r(values, n, sizeof(*values), by_number, tree);
	for (size_t i = 0; i < n; i++) {
		group_row(tree, "cores", &there);
		snprintf(number, sizeof(number), "%" PRIu32, tree->lanes->lane[values[i]]->key[0]);
		lane_row(tree, values[i], "cores", number, strlen(number));
	}
	free(values);
}

static bool is_counter(uint8_t kind)
{
	return kind == WS_LANE_COUNTER;
}

/* A counter is under its group, which is a row too. */
static void counter_rows(struct tree *tree)
{
	uint32_t *values = ws_malloc((tree->lanes->n + 1) * sizeof(*values));
	size_t n = select_lanes(tree, is_counter, values), len;
	struct ws_map groups = {0};
	bool there = false, known;
	char id[16], group[24];
	const char *word;

	qsort_r(values, n, sizeof(*values), by_number, tree);
	for (size_t i = 0; i < n; i++) {
		uint32_t key = tree->lanes->lane[values[i]]->key[0],
			 text = (uint32_t)get(&tree->counter_group, 0, key, 0);

		group_row(tree, "counters", &there);
		snprintf(group, sizeof(group), "cg%" PRIu32,
			 ws_report_string_key(tree->lanes->report, text));
		ws_map_get(&groups, ws_report_string_key(tree->lanes->report, text), &known);
		if (!known) {
			ws_map_set(&groups, ws_report_string_key(tree->lanes->report, text), 1);
			word = ws_report_string(tree->lanes->report, text, &len);
			row(tree, group, "counters", "counter_group");
			ws_put_text(tree->out, "label", word, len);
			end_row(tree);
		}
		snprintf(id, sizeof(id), "l%" PRIu32, values[i]);
		row(tree, id, group, "counter");
		word = ws_report_string(tree->lanes->report,
					(uint32_t)get(&tree->counter_name, 0, key, 0), &len);
		ws_put_text(tree->out, "label", word, len);
		word = ws_report_string(tree->lanes->report,
					(uint32_t)get(&tree->counter_unit, 0, key, 0), &len);
		ws_put_text(tree->out, "unit", word, len);
		lane_facts(tree, values[i]);
		end_row(tree);
	}
	ws_map_free(&groups);
	free(values);
}

static bool is_track(uint8_t kind)
{
	return kind == WS_LANE_TRACK;
}

static void track_rows(struct tree *tree)
{
	uint32_t *values = ws_malloc((tree->lanes->n + 1) * sizeof(*values));
	size_t n = select_lanes(tree, is_track, values);
	bool there = false;

	qsort_r(values, n, sizeof(*values), by_number, tree);
	for (size_t i = 0; i < n; i++) {
		uint32_t key = tree->lanes->lane[values[i]]->key[0];

		group_row(tree, "tracks", &there);
		string_lane_row(tree, values[i], "tracks",
				(uint32_t)get(&tree->track_name, 0, key, 0));
	}
	free(values);
}

static bool is_session(uint8_t kind)
{
	return kind == WS_LANE_OUTPUT || kind == WS_LANE_DIAGNOSTIC;
}

static void session_rows(struct tree *tree)
{
	uint32_t *values = ws_malloc((tree->lanes->n + 1) * sizeof(*values));
	size_t n = select_lanes(tree, is_session, values);

	for (size_t i = 0; i < n; i++)
		lane_row(tree, values[i], "", NULL, 0);
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
		.counter_name =
			load_map(report, WS_TABLE_counter, -1, ws_counter_id, ws_counter_name),
		.counter_group =
			load_map(report, WS_TABLE_counter, -1, ws_counter_id, ws_counter_group),
		.counter_unit =
			load_map(report, WS_TABLE_counter, -1, ws_counter_id, ws_counter_unit),
		.track_name = load_map(report, WS_TABLE_track, -1, ws_track_id, ws_track_name),
	};

	sort_lanes(&tree);
	ws_text_puts(out, "{\"rows\":[");
	process_rows(&tree);
	gpu_rows(&tree, UINT32_MAX, "");
	core_rows(&tree);
	counter_rows(&tree);
	track_rows(&tree);
	session_rows(&tree);
	ws_text_puts(out, "]}");
	free(tree.order);
	ws_map_free(&tree.device_name);
	ws_map_free(&tree.null_stream);
	ws_map_free(&tree.rank);
	ws_map_free(&tree.counter_name);
	ws_map_free(&tree.counter_group);
	ws_map_free(&tree.counter_unit);
	ws_map_free(&tree.track_name);
	ws_map_free(&tree.events);
	ws_map_free(&tree.work);
	ws_map_free(&tree.launches);
	ws_map_free(&tree.load);
	ws_map_free(&tree.tier);
	ws_map_free(&tree.place);
	ws_map_free(&tree.shown);
}
