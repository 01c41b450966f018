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
#include "text/text.h"
#include "lanes/row_tree.h"

/* ---- small tables by key ---- */

static struct ws_map load_map(const struct ws_report *r, enum ws_table t, int high, int low,
			      int value)
{
	struct ws_cursor *c = ws_cursor_open(r, t, 0, UINT64_MAX);
	struct ws_map m = {0};
	const uint64_t *v;

	while (ws_cursor_next(c, &v))
		ws_map_set(&m, (high >= 0 ? v[high] << 32 : 0) | (uint32_t)v[low], v[value]);
	ws_cursor_close(c);
	return m;
}

static uint64_t get(const struct ws_map *m, uint64_t high, uint64_t low, uint64_t fallback)
{
	bool found;
	uint64_t v = ws_map_get(m, high << 32 | (uint32_t)low, &found);

	return found ? v : fallback;
}

struct tree {
	struct ws_text *out;
	const struct ws_lanes *l;
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

static void row(const struct tree *t, const char *id, const char *parent, const char *type)
{
	ws_put_comma(t->out);
	ws_text_puts(t->out, "\n{");
	ws_put_string(t->out, "id", id);
	ws_put_string(t->out, "parent", parent);
	ws_put_string(t->out, "type", type);
}

static void end_row(const struct tree *t)
{
	ws_text_puts(t->out, "}");
}

static void lane_facts(const struct tree *t, uint32_t i)
{
	const struct ws_lane *n = t->l->lane[i];

	if (n->kind == WS_LANE_NVTX && n->key[2])
		ws_put_int(t->out, "loose", 1);
	if (n->kind == WS_LANE_OP && n->key[1])
		ws_put_int(t->out, "python", 1);
	ws_put_int(t->out, "lane", i);
	ws_put_int(t->out, "count",
		   (int64_t)(n->kind == WS_LANE_STATE && ws_lane_ready(n) && n->levels
				     ? n->level[0].n
				     : n->count));
	ws_put_int(t->out, "ready", ws_lane_ready(n));
	if (!ws_lane_ready(n))
		return;
	ws_put_int(t->out, "levels", n->levels);
	ws_put_int(t->out, "busy", (int64_t)n->busy);
	ws_put_int(t->out, "hidden", (int64_t)n->hidden);
	if (ws_lane_descs[n->kind].counter && n->levels && n->level[0].n) {
		double low, high;

		ws_level_extremes(&n->level[0], 0, n->level[0].n, &low, &high);
		ws_put_key(t->out, "low");
		ws_text_printf(t->out, "%.17g", low);
		ws_put_key(t->out, "high");
		ws_text_printf(t->out, "%.17g", high);
	}
}

static void lane_row(const struct tree *t, uint32_t i, const char *parent, const char *label,
		     size_t label_n)
{
	char id[16];

	snprintf(id, sizeof(id), "l%" PRIu32, i);
	row(t, id, parent, ws_lane_descs[t->l->lane[i]->kind].name);
	if (label)
		ws_put_text(t->out, "label", label, label_n);
	lane_facts(t, i);
	end_row(t);
}

static void string_lane_row(const struct tree *t, uint32_t i, const char *parent, uint32_t text)
{
	size_t n;
	const char *s = ws_report_string(t->l->r, text, &n);

	lane_row(t, i, parent, s, n);
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

static void thread_lane(const struct tree *t, uint32_t i, const char *parent)
{
	const struct ws_lane *n = t->l->lane[i];

	if (n->kind == WS_LANE_NVTX && n->key[1]) {
		uint64_t process = ws_who_thread(t->l->who, n->key[0])->process;

		string_lane_row(t, i, parent, (uint32_t)get(&t->l->domains, process, n->key[1], 0));
		return;
	}
	if (n->kind == WS_LANE_SLICE && n->key[1])
		string_lane_row(t, i, parent, n->key[1]);
	else
		lane_row(t, i, parent, NULL, 0);
}

static void thread_row(struct tree *t, uint32_t thread, const uint32_t *lanes, size_t n,
		       const char *parent)
{
	const struct ws_thread_info *w = ws_who_thread(t->l->who, thread);
	char id[16];

	snprintf(id, sizeof(id), "t%" PRIu32, thread);
	row(t, id, parent, "thread");
	ws_put_string(t->out, "label", w->name);
	ws_put_int(t->out, "tid", w->tid);
	ws_put_int(t->out, "main", w->tid == w->pid);
	ws_put_int(t->out, "count", (int64_t)ws_map_get(&t->events, thread, NULL));
	end_row(t);
	for (size_t k = 0; k < WS_COUNT(thread_order); k++)
		for (size_t i = 0; i < n; i++)
			if (t->l->lane[lanes[i]]->kind == thread_order[k])
				thread_lane(t, lanes[i], id);
}

/* ---- order ---- */

static uint64_t process_of(const struct tree *t, const struct ws_lane *n)
{
	if (of_thread(n->kind))
		return ws_who_thread(t->l->who, n->key[0])->process;
	return n->kind == WS_LANE_COLLECTIVE ? n->key[0] : UINT32_MAX;
}

static uint64_t events_of(const struct tree *t, uint64_t key)
{
	return ws_map_get(&t->events, key, NULL);
}

enum { PROCESS_BIT = 62 };

static bool is_main(const struct tree *t, uint32_t thread)
{
	return ws_who_thread(t->l->who, thread)->tid == ws_who_thread(t->l->who, thread)->pid;
}

static void add_to(struct ws_map *m, uint64_t key, uint64_t v)
{
	ws_map_set(m, key, ws_map_get(m, key, NULL) + v);
}

/*
 * A thread that hardly ran: it launches nothing, names nothing, and worked less than a twentieth of
 * its process's busiest thread. A share, not a time, so that it means the same in reports of a
 * second and of an hour.
 */
enum { HARDLY = 20 };
static bool is_quiet(const struct tree *t, uint32_t thread)
{
	uint64_t process = ws_who_thread(t->l->who, thread)->process | UINT64_C(1) << PROCESS_BIT;

	return !is_main(t, thread) && !ws_map_get(&t->launches, thread, NULL) &&
	       ws_map_get(&t->work, thread, NULL) < ws_map_get(&t->work, process, NULL) / HARDLY;
}

/* The main thread if it launches work, others that do, busy ones, those that hardly ran. */
static int by_thread(const struct tree *t, uint32_t a, uint32_t b)
{
	bool x = ws_map_get(&t->launches, a, NULL), y = ws_map_get(&t->launches, b, NULL);
	uint64_t m = ws_map_get(&t->work, a, NULL), n = ws_map_get(&t->work, b, NULL);

	if (x != y)
		return x ? -1 : 1;
	if (is_quiet(t, a) != is_quiet(t, b))
		return is_quiet(t, b) ? -1 : 1;
	if (is_main(t, a) != is_main(t, b))
		return is_main(t, a) ? -1 : 1;
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

static enum tier tier_of(const struct tree *t, uint64_t process)
{
	return (enum tier)ws_map_get(&t->tier, process, NULL);
}

/* The first two in order of their start, as ranks are; others by their work. */
static int by_process(const void *a, const void *b, void *ctx)
{
	const struct tree *t = ctx;
	uint64_t p = *(const uint64_t *)a, q = *(const uint64_t *)b;
	enum tier x = tier_of(t, p), y = tier_of(t, q);
	uint64_t m = ws_map_get(&t->load, p, NULL), n = ws_map_get(&t->load, q, NULL);

	if (x != y)
		return x < y ? -1 : 1;
	if (x == TIER_WORKS && m != n)
		return m > n ? -1 : 1;
	return p < q ? -1 : p > q;
}

static int by_owner(const void *a, const void *b, void *ctx)
{
	const struct tree *t = ctx;
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	const struct ws_lane *x = t->l->lane[i], *y = t->l->lane[j];
	uint64_t p = process_of(t, x), q = process_of(t, y);

	if (p != q && (p == UINT32_MAX || q == UINT32_MAX))
		return p < q ? -1 : 1;
	if (p != q)
		return ws_map_get(&t->place, p, NULL) < ws_map_get(&t->place, q, NULL) ? -1 : 1;
	if (of_thread(x->kind) != of_thread(y->kind))
		return of_thread(x->kind) ? -1 : 1;
	if (of_thread(x->kind) && x->key[0] != y->key[0])
		return by_thread(t, x->key[0], y->key[0]);
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	for (int k = 0; k < 4; k++)
		if (x->key[k] != y->key[k])
			return x->key[k] < y->key[k] ? -1 : 1;
	return 0;
}

static bool says_what(uint8_t kind)
{
	return kind == WS_LANE_NVTX || kind == WS_LANE_CUDA_API || kind == WS_LANE_OP ||
	       kind == WS_LANE_SLICE || kind == WS_LANE_COLLECTIVE;
}

/* What a lane has that no other has. */
static uint64_t own_count(const struct ws_lane *n)
{
	return n->uncounted ? 0 : n->count;
}

/* Time on cores counts once all lanes are read, all at once: rows change places no more than one
 * time. */
static void weigh(struct tree *t)
{
	bool placed = __atomic_load_n(&t->l->placed, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < t->l->n; i++)
		t->scheduled |=
			placed && t->l->lane[i]->kind == WS_LANE_STATE && !t->l->lane[i]->uncounted;
	for (uint32_t i = 0; i < t->l->n; i++) {
		const struct ws_lane *n = t->l->lane[i];

		if (!of_thread(n->kind))
			continue;
		if (says_what(n->kind))
			ws_map_set(&t->launches, n->key[0], 1);
		if (!t->scheduled)
			add_to(&t->work, n->key[0], own_count(n));
		else if (n->kind == WS_LANE_STATE)
			add_to(&t->work, n->key[0], n->busy);
	}
	for (uint32_t i = 0; i < t->l->n; i++) {
		const struct ws_lane *n = t->l->lane[i];
		uint64_t process = process_of(t, n) | UINT64_C(1) << PROCESS_BIT;

		if (of_thread(n->kind) &&
		    ws_map_get(&t->work, n->key[0], NULL) > ws_map_get(&t->work, process, NULL))
			ws_map_set(&t->work, process, ws_map_get(&t->work, n->key[0], NULL));
	}
}

/* Tiers and places of processes. */
static void sort_processes(struct tree *t)
{
	uint64_t *v = ws_malloc((t->l->n + 1) * sizeof(*v));
	size_t n = 0;

	for (uint32_t i = 0; i < t->l->n; i++) {
		const struct ws_lane *x = t->l->lane[i];
		uint64_t p = of_device(x->kind) ? x->key[0] : process_of(t, x);
		uint64_t tier = of_device(x->kind)   ? TIER_GPU
				: says_what(x->kind) ? TIER_NAMES
						     : TIER_QUIET;
		bool known;

		if (p == UINT32_MAX)
			continue;
		if (ws_map_get(&t->tier, p, &known) > tier || !known)
			ws_map_set(&t->tier, p, tier);
		if (!known)
			v[n++] = p;
		if (of_thread(x->kind) && (!t->scheduled || x->kind == WS_LANE_STATE))
			add_to(&t->load, p, t->scheduled ? x->busy : own_count(x));
		if (ws_map_get(&t->load, p, NULL) > t->busiest)
			t->busiest = ws_map_get(&t->load, p, NULL);
	}
	for (size_t i = 0; i < n; i++)
		if (tier_of(t, v[i]) == TIER_QUIET &&
		    ws_map_get(&t->load, v[i], NULL) >= t->busiest / HARDLY)
			ws_map_set(&t->tier, v[i], TIER_WORKS);
	qsort_r(v, n, sizeof(*v), by_process, t);
	for (size_t i = 0; i < n; i++)
		ws_map_set(&t->place, v[i], i + 1);
	free(v);
}

static void sort_lanes(struct tree *t)
{
	t->order = ws_malloc((t->l->n + 1) * sizeof(*t->order));
	for (uint32_t i = 0; i < t->l->n; i++) {
		const struct ws_lane *n = t->l->lane[i];
		uint64_t process = process_of(t, n);

		t->order[i] = i;
		if (of_thread(n->kind))
			ws_map_set(&t->events, n->key[0],
				   ws_map_get(&t->events, n->key[0], NULL) + own_count(n));
		if (process != UINT32_MAX) {
			process |= UINT64_C(1) << PROCESS_BIT;
			ws_map_set(&t->events, process,
				   ws_map_get(&t->events, process, NULL) + own_count(n));
		}
	}
	weigh(t);
	sort_processes(t);
	qsort_r(t->order, t->l->n, sizeof(*t->order), by_owner, t);
}

/* ---- GPUs ---- */

static void stream_row(const struct tree *t, uint32_t i, const char *parent)
{
	const uint32_t *key = t->l->lane[i]->key;
	char id[16];

	snprintf(id, sizeof(id), "l%" PRIu32, i);
	row(t, id, parent, "stream");
	ws_put_int(t->out, "context", key[2]);
	ws_put_int(t->out, "stream", key[3]);
	ws_put_int(t->out, "default",
		   get(&t->null_stream, key[0], key[2], UINT64_MAX) == key[3]);
	lane_facts(t, i);
	end_row(t);
}

static void projected_row(const struct tree *t, uint32_t i, const char *parent)
{
	const uint32_t *key = t->l->lane[i]->key;
	const struct ws_thread_info *w = ws_who_thread(t->l->who, key[2]);
	char id[16];

	snprintf(id, sizeof(id), "l%" PRIu32, i);
	row(t, id, parent, "projected");
	if (key[3]) {
		size_t n;
		const char *s = ws_report_string(
			t->l->r, (uint32_t)get(&t->l->domains, key[0], key[3], 0), &n);

		ws_put_text(t->out, "label", s, n);
	}
	ws_put_int(t->out, "tid", w->tid);
	ws_put_string(t->out, "process", w->name);
	lane_facts(t, i);
	end_row(t);
}

static void gpu_row(const struct tree *t, const uint32_t *key, const char *id, const char *parent)
{
	const struct ws_process_info *p = ws_who_process(t->l->who, key[0]);
	size_t n;
	const char *name =
		ws_report_string(t->l->r, (uint32_t)get(&t->device_name, key[0], key[1], 0), &n);

	row(t, id, parent, "gpu");
	ws_put_int(t->out, "device", key[1]);
	ws_put_text(t->out, "label", name, n);
	ws_put_string(t->out, "process", p->name);
	ws_put_int(t->out, "pid", p->pid);
	end_row(t);
}

static int by_device(const void *a, const void *b, void *ctx)
{
	const struct tree *t = ctx;
	const struct ws_lane *x = t->l->lane[*(const uint32_t *)a],
			     *y = t->l->lane[*(const uint32_t *)b];

	if (x->key[0] != y->key[0] || x->key[1] != y->key[1])
		return x->key[1] != y->key[1]  ? (x->key[1] < y->key[1] ? -1 : 1)
		       : x->key[0] < y->key[0] ? -1
					       : 1;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	return x->key[2] != y->key[2]  ? (x->key[2] < y->key[2] ? -1 : 1)
	       : x->key[3] < y->key[3] ? -1
				       : x->key[3] > y->key[3];
}

static size_t select_lanes(const struct tree *t, bool (*which)(uint8_t kind), uint32_t *out)
{
	size_t n = 0;

	for (uint32_t i = 0; i < t->l->n; i++)
		if (which(t->l->lane[i]->kind))
			out[n++] = i;
	return n;
}

/* GPUs as `process` used them, below its row `parent`; all that belong to no row yet with
 * UINT32_MAX. */
static void gpu_rows(const struct tree *t, uint32_t process, const char *parent)
{
	uint32_t *v = ws_malloc((t->l->n + 1) * sizeof(*v));
	size_t n = select_lanes(t, of_device, v);
	const struct ws_lane *last = NULL;
	char id[32];

	qsort_r(v, n, sizeof(*v), by_device, (void *)t);
	for (size_t i = 0; i < n; i++) {
		const struct ws_lane *x = t->l->lane[v[i]], *y = last;

		if ((x->kind == WS_LANE_PROJECTED && !ws_lane_ready(x)) ||
		    (process == UINT32_MAX ? ws_map_get(&t->shown, x->key[0], NULL) != 0
					   : x->key[0] != process))
			continue;
		snprintf(id, sizeof(id), "g%" PRIu32 ".%" PRIu32, x->key[0], x->key[1]);
		if (!y || x->key[0] != y->key[0] || x->key[1] != y->key[1])
			gpu_row(t, x->key, id, parent);
		last = x;
		if (x->kind == WS_LANE_PROJECTED)
			projected_row(t, v[i], id);
		else if (x->kind == WS_LANE_STREAM)
			stream_row(t, v[i], id);
		else if (x->kind == WS_LANE_GPU_BYTES)
			lane_row(t, v[i], id, "B", 1);
		else
			lane_row(t, v[i], id, NULL, 0);
	}
	free(v);
}

/* ---- processes ---- */

static void process_row(const struct tree *t, uint32_t process, const char *id, const char *parent)
{
	const struct ws_process_info *p = ws_who_process(t->l->who, process);
	uint64_t rank = get(&t->rank, 0, process, UINT64_MAX);

	row(t, id, parent, "process");
	ws_put_string(t->out, "label", p->name);
	ws_put_int(t->out, "pid", p->pid);
	ws_put_text(t->out, "cmdline", p->cmdline, strnlen(p->cmdline, 1000));
	if (rank != UINT64_MAX)
		ws_put_int(t->out, "rank", (int64_t)rank);
	if (p->start)
		ws_put_time(t->out, "start", t->l, p->start);
	if (p->end != WS_NO_TIME)
		ws_put_time(t->out, "end", t->l, p->end);
	ws_put_int(t->out, "count", (int64_t)events_of(t, process | UINT64_C(1) << PROCESS_BIT));
	end_row(t);
}

/* One row for the threads that hardly ran, which are at the end: lanes order[i] and on. Two or
 * fewer stay as they are. */
static bool quiet_row(const struct tree *t, size_t i, const char *process, char *id, size_t size)
{
	uint64_t owner = process_of(t, t->l->lane[t->order[i]]);
	uint32_t last = UINT32_MAX;
	int64_t n = 0;

	for (; i < t->l->n && of_thread(t->l->lane[t->order[i]]->kind) &&
	       process_of(t, t->l->lane[t->order[i]]) == owner;
	     i++) {
		n += t->l->lane[t->order[i]]->key[0] != last;
		last = t->l->lane[t->order[i]]->key[0];
	}
	if (n <= 2)
		return false;
	snprintf(id, size, "q%" PRIu64, owner);
	row(t, id, process, "threads");
	ws_put_int(t->out, "threads", n);
	end_row(t);
	return true;
}

/*
 * One row for the processes that hardly ran, which are at the end: lanes order[i] and on; it is
 * their parent. Two or fewer stay as they are.
 */
static const char *quiet_processes(const struct tree *t, size_t i)
{
	uint64_t last = UINT32_MAX;
	int64_t n = 0;

	for (; i < t->l->n && process_of(t, t->l->lane[t->order[i]]) != UINT32_MAX; i++) {
		n += process_of(t, t->l->lane[t->order[i]]) != last;
		last = process_of(t, t->l->lane[t->order[i]]);
	}
	if (n <= 2)
		return "";
	row(t, "processes", "", "processes");
	ws_put_int(t->out, "processes", n);
	end_row(t);
	return "processes";
}

/* GPUs come before the threads: what the program is there for stays in sight however many threads
 * there are. */
static void process_rows(struct tree *t)
{
	char id[24], quiet[24];
	const char *under = id; /* where threads go: the process or its row of quiet ones */
	const char *above = ""; /* where processes go */
	bool quiet_ones = false;

	for (size_t i = 0, to; i < t->l->n; i = to) {
		const struct ws_lane *n = t->l->lane[t->order[i]];
		uint64_t process = process_of(t, n);

		to = i + 1;
		if (process == UINT32_MAX)
			return;
		snprintf(id, sizeof(id), "p%" PRIu64, process);
		if (!ws_map_get(&t->shown, process, NULL)) {
			if (!quiet_ones && tier_of(t, process) == TIER_QUIET) {
				quiet_ones = true;
				above = quiet_processes(t, i);
			}
			ws_map_set(&t->shown, process, 1);
			process_row(t, (uint32_t)process, id, above);
			gpu_rows(t, (uint32_t)process, id);
			under = id;
		}
		if (!of_thread(n->kind)) {
			lane_row(t, t->order[i], id, NULL, 0);
			continue;
		}
		if (under == id && is_quiet(t, n->key[0]) &&
		    (!i || process_of(t, t->l->lane[t->order[i - 1]]) != process ||
		     !is_quiet(t, t->l->lane[t->order[i - 1]]->key[0])))
			under = quiet_row(t, i, id, quiet, sizeof(quiet)) ? quiet : id;
		while (to < t->l->n && of_thread(t->l->lane[t->order[to]]->kind) &&
		       t->l->lane[t->order[to]]->key[0] == n->key[0])
			to++;
		thread_row(t, n->key[0], t->order + i, to - i, under);
	}
}

/* ---- the rest ---- */

static void group_row(const struct tree *t, const char *id, bool *there)
{
	if (*there)
		return;
	*there = true;
	row(t, id, "", id);
	end_row(t);
}

static int by_number(const void *a, const void *b, void *ctx)
{
	const struct tree *t = ctx;
	const struct ws_lane *x = t->l->lane[*(const uint32_t *)a],
			     *y = t->l->lane[*(const uint32_t *)b];

	return x->key[0] != y->key[0] ? (x->key[0] < y->key[0] ? -1 : 1)
	       : x->kind < y->kind    ? -1
				      : x->kind > y->kind;
}

static bool is_core(uint8_t kind)
{
	return kind == WS_LANE_CPU || kind == WS_LANE_FTRACE;
}

static void core_rows(struct tree *t)
{
	uint32_t *v = ws_malloc((t->l->n + 1) * sizeof(*v));
	size_t n = select_lanes(t, is_core, v);
	bool there = false;
	char number[16];

	qsort_r(v, n, sizeof(*v), by_number, t);
	for (size_t i = 0; i < n; i++) {
		group_row(t, "cores", &there);
		snprintf(number, sizeof(number), "%" PRIu32, t->l->lane[v[i]]->key[0]);
		lane_row(t, v[i], "cores", number, strlen(number));
	}
	free(v);
}

static bool is_counter(uint8_t kind)
{
	return kind == WS_LANE_COUNTER;
}

/* A counter is under its group, which is a row too. */
static void counter_rows(struct tree *t)
{
	uint32_t *v = ws_malloc((t->l->n + 1) * sizeof(*v));
	size_t n = select_lanes(t, is_counter, v), len;
	struct ws_map groups = {0};
	bool there = false, known;
	char id[16], group[24];
	const char *s;

	qsort_r(v, n, sizeof(*v), by_number, t);
	for (size_t i = 0; i < n; i++) {
		uint32_t key = t->l->lane[v[i]]->key[0],
			 text = (uint32_t)get(&t->counter_group, 0, key, 0);

		group_row(t, "counters", &there);
		snprintf(group, sizeof(group), "cg%" PRIu32, ws_report_string_key(t->l->r, text));
		ws_map_get(&groups, ws_report_string_key(t->l->r, text), &known);
		if (!known) {
			ws_map_set(&groups, ws_report_string_key(t->l->r, text), 1);
			s = ws_report_string(t->l->r, text, &len);
			row(t, group, "counters", "counter_group");
			ws_put_text(t->out, "label", s, len);
			end_row(t);
		}
		snprintf(id, sizeof(id), "l%" PRIu32, v[i]);
		row(t, id, group, "counter");
		s = ws_report_string(t->l->r, (uint32_t)get(&t->counter_name, 0, key, 0), &len);
		ws_put_text(t->out, "label", s, len);
		s = ws_report_string(t->l->r, (uint32_t)get(&t->counter_unit, 0, key, 0), &len);
		ws_put_text(t->out, "unit", s, len);
		lane_facts(t, v[i]);
		end_row(t);
	}
	ws_map_free(&groups);
	free(v);
}

static bool is_track(uint8_t kind)
{
	return kind == WS_LANE_TRACK;
}

static void track_rows(struct tree *t)
{
	uint32_t *v = ws_malloc((t->l->n + 1) * sizeof(*v));
	size_t n = select_lanes(t, is_track, v);
	bool there = false;

	qsort_r(v, n, sizeof(*v), by_number, t);
	for (size_t i = 0; i < n; i++) {
		uint32_t key = t->l->lane[v[i]]->key[0];

		group_row(t, "tracks", &there);
		string_lane_row(t, v[i], "tracks", (uint32_t)get(&t->track_name, 0, key, 0));
	}
	free(v);
}

static bool is_session(uint8_t kind)
{
	return kind == WS_LANE_OUTPUT || kind == WS_LANE_DIAGNOSTIC;
}

static void session_rows(struct tree *t)
{
	uint32_t *v = ws_malloc((t->l->n + 1) * sizeof(*v));
	size_t n = select_lanes(t, is_session, v);

	for (size_t i = 0; i < n; i++)
		lane_row(t, v[i], "", NULL, 0);
	free(v);
}

void ws_put_row_tree(struct ws_text *out, const struct ws_lanes *l)
{
	const struct ws_report *r = l->r;
	struct tree t = {
		.out = out,
		.l = l,
		.device_name = load_map(r, WS_TABLE_cuda_device, ws_cuda_device_process,
					ws_cuda_device_id, ws_cuda_device_name),
		.null_stream = load_map(r, WS_TABLE_cuda_context, ws_cuda_context_process,
					ws_cuda_context_id, ws_cuda_context_null_stream),
		.rank = load_map(r, WS_TABLE_rank, -1, ws_rank_process, ws_rank_rank),
		.counter_name = load_map(r, WS_TABLE_counter, -1, ws_counter_id, ws_counter_name),
		.counter_group = load_map(r, WS_TABLE_counter, -1, ws_counter_id, ws_counter_group),
		.counter_unit = load_map(r, WS_TABLE_counter, -1, ws_counter_id, ws_counter_unit),
		.track_name = load_map(r, WS_TABLE_track, -1, ws_track_id, ws_track_name),
	};

	sort_lanes(&t);
	ws_text_puts(out, "{\"rows\":[");
	process_rows(&t);
	gpu_rows(&t, UINT32_MAX, "");
	core_rows(&t);
	counter_rows(&t);
	track_rows(&t);
	session_rows(&t);
	ws_text_puts(out, "]}");
	free(t.order);
	ws_map_free(&t.device_name);
	ws_map_free(&t.null_stream);
	ws_map_free(&t.rank);
	ws_map_free(&t.counter_name);
	ws_map_free(&t.counter_group);
	ws_map_free(&t.counter_unit);
	ws_map_free(&t.track_name);
	ws_map_free(&t.events);
	ws_map_free(&t.work);
	ws_map_free(&t.launches);
	ws_map_free(&t.load);
	ws_map_free(&t.tier);
	ws_map_free(&t.place);
	ws_map_free(&t.shown);
}
