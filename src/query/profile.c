/*
 * profile.c - see profile.h.
 *
 * Each worker counts samples by (thread, frame, stack) in a hash, so that a sample costs one
 * look-up; only distinct ones are put into the tree. Waits and work on GPUs are handled in the same
 * way, with a name in place of the frame.
 */
#include "query/profile.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/slots.h"
#include "base/sort.h"
#include "query/enclose.h"
#include "query/gpu.h"

/* ---- counting by key ---- */

struct item {
	uint32_t thread, frame, stack, label; /* label: of a wait, its number in `labels` + 1 */
	struct ws_cost cost;
};

struct counts { /* one worker's */
	struct item *items;
	size_t n, cap, mask;
	uint64_t *slots; /* number of the item + 1: base/slots.h */
	uint64_t truncated;
} __attribute__((aligned(128)));

static uint32_t hash(const struct item *item)
{
	uint64_t h = ((uint64_t)item->thread << 32 | item->frame) * UINT64_C(0x9e3779b97f4a7c15);

	h = (h ^ h >> 29 ^ ((uint64_t)item->label << 32 | item->stack)) *
	    UINT64_C(0xbf58476d1ce4e5b9);
	return (uint32_t)(h ^ h >> 32);
}

static bool same(const struct item *left, const struct item *right)
{
	return left->thread == right->thread && left->frame == right->frame &&
	       left->stack == right->stack && left->label == right->label;
}

enum { GROUP = 32 };

static void count_hashed(struct counts *counts, const struct item *item, uint32_t h)
{
	uint32_t i;
	size_t at;

	for (at = ws_begin_slot_search(&counts->slots, &counts->mask, counts->n, 1024, h);
	     (i = ws_next_in_slots(counts->slots, counts->mask, h, &at)); at++)
		if (same(&counts->items[i - 1], item)) {
			ws_cost_add(&counts->items[i - 1].cost, &item->cost);
			return;
		}
	ws_grow(counts->items, counts->cap, counts->n + 1);
	counts->items[counts->n++] = *item;
	counts->slots[at] = ws_make_slot(h, (uint32_t)counts->n);
}

static void count(struct counts *counts, const struct item *item)
{
	count_hashed(counts, item, hash(item));
}

/*
 * Count up to GROUP items. There may be many more distinct stacks than fit into a cache, so each
 * look-up would wait for memory twice. Prefetching a group overlaps these waits.
 */
static void count_group(struct counts *counts, const struct item *item, size_t n)
{
	uint32_t h[GROUP];

	for (size_t i = 0; i < n; i++) {
		h[i] = hash(&item[i]);
		if (counts->mask)
			__builtin_prefetch(&counts->slots[h[i] & counts->mask]);
	}
	for (size_t i = 0; i < n && counts->mask; i++) {
		uint64_t slot = counts->slots[h[i] & counts->mask];

		if (!slot)
			continue;
		__builtin_prefetch(&counts->items[(uint32_t)slot - 1], 1);
		__builtin_prefetch((const char *)&counts->items[(uint32_t)slot] - 1,
				   1); /* it may span two lines of the cache */
	}
	for (size_t i = 0; i < n; i++)
		count_hashed(counts, &item[i], h[i]);
}

/* ---- a profile in the making ---- */

struct making {
	const struct ws_report *report;
	const struct ws_names_by_id *who;
	const struct ws_profile_request *request;
	struct ws_profile *profile;
	struct counts *counts;
	uint32_t workers;
	bool *thread_out;	   /* by thread id: not wanted; NULL when all threads are */
	struct ws_samples samples; /* which samples count */
	uint64_t root_of;	   /* process << 32 | thread of the last root, and its node */
	uint32_t root;
	bool untimed; /* samples do not stand for a known time */
	/* labels of waits, made by several workers */
	pthread_mutex_t lock;
	struct ws_text *labels;
	size_t label_count, label_cap;
	struct ws_map label_of;
	struct ws_rows read; /* of python_sample: stacks read from outside the process */
};

/* Names of nodes as tables show them: "name (pid)" and, below it, "name (tid)". */
static void process_label(const struct ws_process_info *info, struct ws_text *text)
{
	if (info->id)
		ws_text_printf(text, "%s (%u)", *info->name ? info->name : "process", info->pid);
	else
		ws_text_puts(text, "[no process]");
}

static void thread_label(const struct ws_thread_info *info, struct ws_text *text)
{
	if (info->id)
		ws_text_printf(text, "%s (%u)", *info->name ? info->name : "thread", info->tid);
	else
		ws_text_puts(text, "[no thread]");
}

static uint32_t made(struct making *making, uint32_t parent, struct ws_text *name)
{
	uint32_t node = ws_calltree_find_or_add_child(
		&making->profile->tree, parent,
		ws_calltree_add_made_unit(&making->profile->tree, name->text, name->len));

	name->len = 0;
	return node;
}

/* The node below which the stacks of a thread are. */
static uint32_t root_of(struct making *making, uint32_t process, uint32_t thread)
{
	struct ws_text name = {0};
	uint32_t node = 0;

	if (!making->profile->roots)
		return 0;
	if (making->root && making->root_of == ((uint64_t)process << 32 | thread))
		return making->root;
	if (making->request->by_process) {
		process_label(ws_find_process(making->who, process), &name);
		node = made(making, node, &name);
	}
	if (making->request->by_thread) {
		thread_label(ws_find_thread(making->who, thread), &name);
		node = made(making, node, &name);
	}
	ws_text_free(&name);
	making->root_of = (uint64_t)process << 32 | thread;
	making->root = node;
	return node;
}

static bool module_wanted(const struct making *making, const struct item *item)
{
	const char *want = making->request->module;
	uint32_t frame = item->frame, caller;
	const struct ws_module_info *info;

	if (!want)
		return true;
	if (!frame && item->stack)
		frame = ws_stacks_step_out(making->profile->stacks, item->stack, &caller);
	info = ws_stacks_get_module(making->profile->stacks,
				    ws_stacks_get_frame(making->profile->stacks, frame)->module);
	return !strcmp(want, info->path) || !strcmp(want, info->name);
}

/* Returns the item's node, 0 when the item is not wanted. */
static uint32_t put(struct making *making, const struct item *item)
{
	static const char *const nothing[] = {[WS_FRAMES_ALL] = "[no stack]",
					      [WS_FRAMES_PYTHON] = "[not in Python]",
					      [WS_FRAMES_NATIVE] = "[only in Python]"};
	const char *none =
		nothing[making->request->kind == WS_PROFILE_PYTHON ? WS_FRAMES_PYTHON
								   : making->request->frames];
	struct ws_calltree *calltree = &making->profile->tree;
	uint32_t root, node;

	if (!module_wanted(making, item))
		return 0;
	root = root_of(making, ws_find_thread(making->who, item->thread)->process, item->thread);
	node = ws_calltree_find_node(calltree, root, item->frame, item->stack);
	if (item->label && node == root && making->request->frames == WS_FRAMES_PYTHON)
		ws_cost_add(&making->profile->no_python, &item->cost);
	if (item->label)
		node = made(making, node,
			    &(struct ws_text){making->labels[item->label - 1].text,
					      making->labels[item->label - 1].len, 0});
	if (node == root)
		node = ws_calltree_find_or_add_child(
			calltree, root, ws_calltree_add_made_unit(calltree, none, strlen(none)));
	ws_cost_add(&calltree->nodes[node].self, &item->cost);
	ws_cost_add(&making->profile->total, &item->cost);
	return node;
}

static void put_group(struct making *making, const struct item *item, size_t n)
{
	size_t fetched[GROUP];

	for (size_t i = 0; i < n; i++) {
		uint32_t root;

		fetched[i] = 0;
		if (!module_wanted(making, &item[i])) /* its nodes must not be made */
			continue;
		root = root_of(making, ws_find_thread(making->who, item[i].thread)->process,
			       item[i].thread);
		fetched[i] = ws_calltree_prefetch_slot(&making->profile->tree, root, item[i].frame,
						       item[i].stack);
	}
	for (size_t i = 0; i < n; i++)
		ws_calltree_prefetch_node(&making->profile->tree, fetched[i]);
	for (size_t i = 0; i < n; i++)
		put(making, &item[i]);
}

static void put_all(struct making *making)
{
	for (uint32_t w = 0; w < making->workers; w++) {
		const struct counts *counts = &making->counts[w];

		for (size_t i = 0; i < counts->n; i += GROUP)
			put_group(making, counts->items + i,
				  counts->n - i < GROUP ? counts->n - i : GROUP);
		making->profile->truncated += counts->truncated;
	}
}

/* ---- options ---- */

static bool names(const char *want, uint32_t number, const char *name)
{
	char *end;
	unsigned long v = strtoul(want, &end, 10);

	return !strcmp(want, name) || (*want && !*end && v == number);
}

static int choose_threads(struct making *making, struct ws_err *err)
{
	const struct ws_profile_request *request = making->request;
	uint32_t count = ws_highest_thread_id(making->who);
	bool process = !request->process, thread = !request->thread;

	if (process && thread)
		return 0;
	making->thread_out = ws_calloc(count + (size_t)1, sizeof(*making->thread_out));
	making->thread_out[0] = true;
	for (uint32_t i = 1; i <= count; i++) {
		const struct ws_thread_info *info = ws_find_thread(making->who, i);
		bool in = !request->process ||
			  names(request->process, info->pid, info->process_name),
		     it = !request->thread || names(request->thread, info->tid, info->name);

		process |= in;
		thread |= it;
		making->thread_out[i] = !in || !it;
	}
	if (!process)
		return ws_fail(err, "%s has no process '%s'; give a pid or a program's name",
			       ws_report_path(making->report), request->process);
	if (!thread)
		return ws_fail(err, "%s has no thread '%s'; give a thread id or a thread's name",
			       ws_report_path(making->report), request->thread);
	return 0;
}

static bool out(const struct making *making, uint64_t thread)
{
	return making->thread_out &&
	       (thread > ws_highest_thread_id(making->who) || making->thread_out[thread]);
}

enum {
	SOFTWARE = 1,
	CPU_CLOCK = 0,
	TASK_CLOCK = 1
}; /* of perf_event_attr: type, and two of its configs */

static bool is_clock(const uint64_t *event)
{
	return event[ws_perf_event_type] == SOFTWARE && (event[ws_perf_event_config] == CPU_CLOCK ||
							 event[ws_perf_event_config] == TASK_CLOCK);
}

/* Whether the recorder stored how much time samples of this event stand for. */
static bool has_times(const struct ws_report *report, uint32_t event)
{
	struct ws_cursor *cursor;
	const uint64_t *values;
	bool found = false;

	if (!(ws_report_columns(report, WS_TABLE_sample) & WS_COLUMN_BIT(sample, time)))
		return false;
	cursor = ws_cursor_open(report, WS_TABLE_sample, 0, UINT64_MAX);
	for (size_t i = 0; !found && i < 1000 && ws_cursor_next(cursor, &values); i++)
		found = values[ws_sample_event] == event && values[ws_sample_time];
	ws_cursor_close(cursor);
	return found;
}

int ws_samples_choose(const struct ws_report *report, const char *name, struct ws_samples *samples,
		      struct ws_err *err)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_perf_event, 0, UINT64_MAX);
	bool clock = true;
	const uint64_t *values;

	*samples = (struct ws_samples){.weight = "nanoseconds"};
	while (ws_cursor_next(cursor, &values)) {
		uint32_t id = (uint32_t)values[ws_perf_event_id];
		const char *called =
			ws_report_string(report, (uint32_t)values[ws_perf_event_name], NULL);

		if (!id || (name ? samples->event || strcmp(name, called) != 0
				 : samples->event && id > samples->event))
			continue;
		samples->event = id;
		samples->weight = *called ? called : "events";
		clock = is_clock(values);
	}
	ws_cursor_close(cursor);
	if (name && !samples->event)
		return ws_fail(err,
			       "%s has no samples of an event '%s'; 'warpsight info' names those "
			       "there are",
			       ws_report_path(report), name);
	samples->counted = name && !clock;
	samples->by_time = !name && samples->event && (clock || has_times(report, samples->event));
	samples->clocks = !name && (samples->by_time || !samples->event);
	return 0;
}

/* ---- the sources ---- */

/* The time that a sample stands for. Imported and old reports have this for clocks only. */
static uint64_t time_of(uint64_t weight, uint64_t time, uint64_t flags)
{
	return !time && flags & WS_SAMPLE_CLOCK ? weight : time;
}

/* Row i of `sample` as an item; false when it is not wanted. */
static bool sample_item(const struct making *making, const uint64_t *const *col, size_t i,
			struct item *item)
{
	uint64_t thread = col[ws_sample_thread][i], event = col[ws_sample_event][i],
		 weight = col[ws_sample_weight][i], flags = col[ws_sample_flags][i];

	if (!ws_samples_wanted(&making->samples, event, flags) || out(making, thread))
		return false;
	*item = (struct item){(uint32_t)thread,
			      (uint32_t)col[ws_sample_frame][i],
			      (uint32_t)col[ws_sample_callers][i],
			      0,
			      {1, weight, 0}};
	if (flags & WS_SAMPLE_REST)
		item->cost.count = 0;
	if (!making->samples.counted)
		item->cost.ns = time_of(weight, col[ws_sample_time][i], flags);
	if (making->samples.by_time && item->cost.ns)
		item->cost.weight = item->cost.ns;
	return true;
}

static bool incomplete(uint64_t flags)
{
	return flags & (WS_SAMPLE_TRUNCATED | WS_SAMPLE_BROKEN);
}

static int scan_samples(void *ctx, const struct ws_batch *batch)
{
	struct making *making = ctx;
	struct counts *counts = &making->counts[batch->worker];
	bool apart = making->request->by_thread || making->request->by_process;
	struct item group[GROUP];
	size_t n = 0;

	for (size_t i = 0; i < batch->rows; i++) {
		if (!sample_item(making, batch->col, i, &group[n]))
			continue;
		if (!apart)
			group[n].thread = 0;
		counts->truncated += incomplete(batch->col[ws_sample_flags][i]);
		if (++n == GROUP) {
			count_group(counts, group, n);
			n = 0;
		}
	}
	count_group(counts, group, n);
	return 0;
}

static bool python_item(const struct making *making, const uint64_t *const *col, size_t i,
			struct item *item)
{
	uint64_t thread = col[ws_python_sample_thread][i], weight = col[ws_python_sample_weight][i];

	if (out(making, thread))
		return false;
	*item = (struct item){(uint32_t)thread,
			      0,
			      (uint32_t)col[ws_python_sample_stack][i],
			      0,
			      {1, weight, weight}};
	return true;
}

static int scan_python(void *ctx, const struct ws_batch *batch)
{
	struct making *making = ctx;
	struct counts *counts = &making->counts[batch->worker];
	bool apart = making->request->by_thread || making->request->by_process;

	for (size_t i = 0; i < batch->rows; i++) {
		struct item item;

		if (!python_item(making, batch->col, i, &item))
			continue;
		if (!apart)
			item.thread = 0;
		count(counts, &item);
	}
	return 0;
}

/* How one kind of samples is read. */
struct kind {
	enum ws_table table;
	uint64_t columns;
	int (*scan)(void *ctx, const struct ws_batch *batch);
	bool (*item)(const struct making *making, const uint64_t *const *col, size_t i,
		     struct item *item);
	int flags; /* column */
};

static const struct kind samples = {
	WS_TABLE_sample,
	WS_COLUMN_BIT(sample, start) | WS_COLUMN_BIT(sample, thread) |
		WS_COLUMN_BIT(sample, weight) | WS_COLUMN_BIT(sample, frame) |
		WS_COLUMN_BIT(sample, callers) | WS_COLUMN_BIT(sample, event) |
		WS_COLUMN_BIT(sample, flags) | WS_COLUMN_BIT(sample, time),
	scan_samples, sample_item, ws_sample_flags};
static const struct kind python_samples = {
	WS_TABLE_python_sample,
	WS_COLUMN_BIT(python_sample, start) | WS_COLUMN_BIT(python_sample, thread) |
		WS_COLUMN_BIT(python_sample, stack) | WS_COLUMN_BIT(python_sample, weight) |
		WS_COLUMN_BIT(python_sample, flags),
	scan_python, python_item, ws_python_sample_flags};

static void add_step(struct ws_profile *profile, size_t *cap, uint32_t thread, uint32_t node,
		     const struct ws_cost *cost)
{
	struct ws_profile_step *last =
		profile->step_count ? &profile->steps[profile->step_count - 1] : NULL;

	if (last && last->thread == thread && last->node == node) {
		ws_cost_add(&last->cost, cost);
		return;
	}
	ws_grow(profile->steps, *cap, profile->step_count + 1);
	profile->steps[profile->step_count++] = (struct ws_profile_step){thread, node, *cost};
}

/* Takes samples one by one, in order of thread and time. */
static void in_order(struct making *making, const struct kind *kind)
{
	struct ws_scan sc = {.table = kind->table,
			     .columns = kind->columns,
			     .time_min = making->request->time_min,
			     .time_max = making->request->time_max};
	struct ws_rows rows;
	size_t cap = 0;

	ws_rows_load(making->report, &sc, &rows, NULL);
	making->profile->damaged += rows.damaged;
	for (size_t i = 0; i < rows.rows; i++) {
		struct item item;
		uint32_t node, thread;

		if (!kind->item(making, (const uint64_t *const *)rows.col, i, &item))
			continue;
		making->profile->truncated += incomplete(rows.col[kind->flags][i]);
		making->untimed |= item.cost.weight && !item.cost.ns;
		thread = item.thread;
		node = put(making, &item);
		if (node)
			add_step(making->profile, &cap, thread, node, &item.cost);
	}
	ws_rows_free(&rows);
}

static void from_rows(struct making *making, const struct kind *kind)
{
	struct ws_scan sc = {.table = kind->table,
			     .columns = kind->columns,
			     .time_min = making->request->time_min,
			     .time_max = making->request->time_max};
	uint64_t damaged = 0;

	if (making->request->ordered) {
		in_order(making, kind);
		return;
	}
	ws_run_scan(making->report, &sc, kind->scan, making, &damaged);
	making->profile->damaged += damaged;
}

/* "[lock: pthread_mutex_lock]", "[I/O: read /path]", "[GIL]": the label of a wait in a stack. */
static void wait_label(const struct ws_report *report, const struct ws_state *st,
		       struct ws_text *text)
{
	ws_text_printf(text, "[%s", ws_name_wait(st->wait));
	if (st->function) {
		size_t len;
		const char *name = ws_get_cuda_function_name(report, st->function, &len);

		ws_text_puts(text, ": ");
		ws_text_add(text, name, len);
		name = ws_report_string(report, st->path, &len);
		if (len) {
			ws_text_puts(text, " ");
			ws_text_add(text, name, len);
		}
	}
	ws_text_puts(text, "]");
}

/* Number + 1 of the label of a wait: one for each (reason, function, path). */
static uint32_t label(struct making *making, const struct ws_state *st)
{
	uint64_t path = ws_report_string_key(making->report, st->path),
		 function = ws_report_string_key(making->report, st->function);
	uint64_t key = path << 34 ^ function << 6 ^ st->wait;
	uint32_t known;

	pthread_mutex_lock(&making->lock);
	known = (uint32_t)ws_map_get(&making->label_of, key, NULL);
	if (!known) {
		ws_grow(making->labels, making->label_cap, making->label_count + 1);
		making->labels[making->label_count] = (struct ws_text){0};
		wait_label(making->report, st, &making->labels[making->label_count]);
		known = (uint32_t)++making->label_count;
		ws_map_set(&making->label_of, key, known);
	}
	pthread_mutex_unlock(&making->lock);
	return known;
}

/*
 * The Python stack that was read from outside while the thread waited; 0 for none. A waiting thread
 * runs no Python, so this is the stack of the whole wait.
 */
static uint32_t find_read_stack(const struct making *making, const struct ws_state *st)
{
	const struct ws_rows *read = &making->read;
	const uint64_t *thread = read->col[ws_python_sample_thread],
		       *start = read->col[ws_python_sample_start],
		       *stack = read->col[ws_python_sample_stack];
	size_t from, to;

	if (!read->rows || st->doing != WS_DOING_WAIT)
		return 0;
	from = ws_lower_bound(thread, read->rows, st->thread);
	to = ws_lower_bound(thread, read->rows, st->thread + UINT64_C(1));
	for (from += ws_lower_bound(start + from, to - from, st->start);
	     from < to && start[from] < st->end; from++)
		if (stack[from])
			return (uint32_t)stack[from];
	return 0;
}

static void take_wait(void *ctx, uint32_t worker, const struct ws_state *st)
{
	struct making *making = ctx;
	bool apart = making->request->by_thread || making->request->by_process;
	uint64_t ns = st->end - st->start;
	uint32_t stack = st->callchain;

	if ((st->doing != WS_DOING_WAIT && st->doing != WS_DOING_RUNNABLE) ||
	    out(making, st->thread))
		return;
	if (!stack)
		stack = find_read_stack(making, st);
	count(&making->counts[worker],
	      &(struct item){apart ? st->thread : 0, 0, stack, label(making, st), {1, ns, ns}});
}

static void from_waits(struct making *making)
{
	struct ws_states_part all = {.to = UINT64_MAX, .brief = true};
	struct ws_scan read = {.table = WS_TABLE_python_sample,
			       .columns = WS_COLUMN_BIT(python_sample, start) |
					  WS_COLUMN_BIT(python_sample, thread) |
					  WS_COLUMN_BIT(python_sample, stack),
			       .time_min = making->request->time_min,
			       .time_max = making->request->time_max};
	struct ws_states *states =
		ws_states_open_part(making->report, making->who, &all, &making->profile->damaged);

	ws_rows_load(making->report, &read, &making->read, NULL);
	making->profile->damaged += making->read.damaged;
	ws_walk_states(states, making->request->time_min, making->request->time_max, take_wait,
		       making);
	ws_states_close(states);
	ws_rows_free(&making->read);
}

/* ---- work on GPUs ---- */

/* What launched work: calls and the ranges around them. */
struct launches {
	struct ws_calls calls;
	struct ws_ranges ranges;
	struct ws_enclose enclose;
};

struct gpu_scan {
	struct making *making;
	const struct launches *launches;
	const struct ws_cuda_columns *columns;
	enum ws_cuda_source source;
};

/* An item of GPU work: frame is the process, stack the node of the innermost range, label the name
 * of the work (source, name). */
static int scan_gpu(void *ctx, const struct ws_batch *batch)
{
	struct gpu_scan *scan = ctx;

	for (size_t i = 0; i < batch->rows; i++) {
		uint64_t start = batch->col[scan->columns->start][i],
			 end = batch->col[scan->columns->end][i],
			 process = batch->col[scan->columns->process][i];
		uint32_t call = ws_calls_find(&scan->launches->calls, process,
					      batch->col[scan->columns->correlation][i]);
		uint64_t thread =
			call == WS_NO_CALL
				? 0
				: scan->launches->calls.rows.col[ws_cuda_api_thread][call];
		uint64_t name = scan->columns->name < 0 ? 0 : batch->col[scan->columns->name][i];
		struct item item = {.thread = (uint32_t)thread,
				    .frame = (uint32_t)process,
				    .cost = {1, end - start, end - start}};

		if (end == WS_NO_TIME || end < start || out(scan->making, thread))
			continue;
		item.stack = call == WS_NO_CALL ? 0 : scan->launches->enclose.node_of_call[call];
		item.label = (uint32_t)(scan->source == WS_CUDA_KERNEL
						? ws_fold_key(scan->making->request->fold,
							      scan->making->report, (uint32_t)name)
						: name)
				     << 3 |
			     scan->source;
		count(&scan->making->counts[batch->worker], &item);
	}
	return 0;
}

/* The ranges from the outermost to that of `node`, below `at`. */
static uint32_t put_ranges(struct making *making, const struct launches *launches, uint32_t at,
			   uint32_t node)
{
	uint32_t path[WS_STACKS_DEEPEST], n = 0;

	for (; node && n < WS_STACKS_DEEPEST; node = launches->enclose.node[node].parent)
		path[n++] = launches->enclose.node[node].range;
	while (n--) {
		size_t len;
		const char *text = ws_fold_name(
			making->request->fold, making->report,
			(uint32_t)ws_range_get(&launches->ranges, path[n], ws_nvtx_text), &len);

		at = ws_calltree_find_or_add_child(&making->profile->tree, at,
						   ws_calltree_add_made_unit(&making->profile->tree,
									     text, len));
	}
	return at;
}

static void put_work(struct making *making, const struct launches *launches,
		     const struct item *item)
{
	enum ws_cuda_source source = item->label & 7;
	uint32_t node = put_ranges(making, launches, root_of(making, item->frame, item->thread),
				   item->stack);
	char buf[64];
	const char *name = buf;
	size_t len;

	if (source == WS_CUDA_KERNEL)
		name = ws_fold_name(making->request->fold, making->report, item->label >> 3, &len);
	else
		len = strlen(ws_format_cuda_op_name(source, item->label >> 3, buf, sizeof(buf)));
	node = ws_calltree_find_or_add_child(&making->profile->tree, node,
					     ws_calltree_add_made_unit(&making->profile->tree, name,
								       len));
	ws_cost_add(&making->profile->tree.nodes[node].self, &item->cost);
	ws_cost_add(&making->profile->total, &item->cost);
}

static int from_gpu(struct making *making, struct ws_err *err)
{
	struct launches launches = {0};
	struct gpu_scan scan = {.making = making, .launches = &launches};
	int rc = -1;

	if (ws_calls_load(making->report, making->who, 0, &launches.calls, err) < 0 ||
	    ws_ranges_load(making->report, &launches.ranges, err) < 0 ||
	    ws_enclose_calls(&launches.ranges, &launches.calls, &launches.enclose, err) < 0)
		goto out;
	for (scan.source = WS_CUDA_KERNEL; scan.source < WS_CUDA_SOURCES; scan.source++) {
		uint64_t columns, damaged = 0;

		scan.columns = &ws_cuda_columns[scan.source];
		columns = UINT64_C(1) << scan.columns->start | UINT64_C(1) << scan.columns->end |
			  UINT64_C(1) << scan.columns->process |
			  UINT64_C(1) << scan.columns->correlation;
		struct ws_scan sc = {
			.table = scan.columns->table,
			.columns = columns |
				   (scan.columns->name < 0 ? 0 : UINT64_C(1) << scan.columns->name),
			.time_min = making->request->time_min,
			.time_max = making->request->time_max};

		ws_run_scan(making->report, &sc, scan_gpu, &scan, &damaged);
		making->profile->damaged += damaged;
	}
	for (uint32_t w = 0; w < making->workers; w++)
		for (size_t i = 0; i < making->counts[w].n; i++)
			put_work(making, &launches, &making->counts[w].items[i]);
	rc = 0;
out:
	ws_enclose_free(&launches.enclose);
	ws_ranges_free(&launches.ranges);
	ws_calls_free(&launches.calls);
	return rc;
}

/* ---- the interface ---- */

static int gather(struct making *making, struct ws_err *err)
{
	switch (making->request->kind) {
	case WS_PROFILE_ON_CPU:
		if (ws_samples_choose(making->report, making->request->event, &making->samples,
				      err) < 0)
			return -1;
		making->profile->weight =
			making->samples.by_time ? "nanoseconds" : making->samples.weight;
		from_rows(making, &samples);
		break;
	case WS_PROFILE_PYTHON:
		from_rows(making, &python_samples);
		break;
	case WS_PROFILE_OFF_CPU:
		from_waits(making);
		break;
	case WS_PROFILE_GPU:
		return from_gpu(making, err);
	}
	put_all(making);
	return 0;
}

static bool all_timed(const struct making *making)
{
	for (uint32_t w = 0; w < making->workers; w++)
		for (size_t i = 0; i < making->counts[w].n; i++)
			if (making->counts[w].items[i].cost.weight &&
			    !making->counts[w].items[i].cost.ns)
				return false;
	return true;
}

int ws_profile_make(const struct ws_report *report, const struct ws_names_by_id *who,
		    const struct ws_profile_request *request, struct ws_profile *profile,
		    struct ws_err *err)
{
	struct ws_scan any = {.table = WS_TABLE_sample};
	struct making making = {.report = report,
				.who = who,
				.request = request,
				.profile = profile,
				.lock = PTHREAD_MUTEX_INITIALIZER,
				.workers = ws_count_scan_workers(&any)};
	int rc = -1;

	memset(profile, 0, sizeof(*profile));
	profile->weight = "nanoseconds";
	profile->stacks = ws_stacks_open(report, &profile->damaged);
	ws_calltree_init(&profile->tree, profile->stacks, request->unit, request->frames);
	profile->roots = (uint32_t)request->by_process + request->by_thread;
	making.counts = aligned_alloc(128, making.workers * sizeof(*making.counts));
	if (!making.counts)
		return ws_fail(err, "out of memory");
	memset(making.counts, 0, making.workers * sizeof(*making.counts));
	if (!choose_threads(&making, err))
		rc = gather(&making, err);
	if (!rc && request->module && ws_profile_empty(profile))
		rc = ws_fail(err, "%s has no stack whose innermost function is in module '%s'",
			     ws_report_path(report), request->module);
	profile->timed = !making.untimed && all_timed(&making);
	for (uint32_t w = 0; w < making.workers; w++) {
		free(making.counts[w].items);
		free(making.counts[w].slots);
	}
	for (size_t i = 0; i < making.label_count; i++)
		ws_text_free(&making.labels[i]);
	free(making.labels);
	ws_map_free(&making.label_of);
	free(making.thread_out);
	free(making.counts);
	return rc;
}

void ws_profile_free(struct ws_profile *profile)
{
	free(profile->steps);
	ws_calltree_free(&profile->tree);
	ws_stacks_close(profile->stacks);
	memset(profile, 0, sizeof(*profile));
}
