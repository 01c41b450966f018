/*
 * profile.c - see profile.h.
 *
 * Samples are counted by (thread, frame, stack) in a hash a worker, so that a sample costs one
 * look-up; only then are the distinct ones put into the tree. Waits and work on GPUs take the same
 * way, with the name of what they are in place of the frame.
 */
#include "query/profile.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/slots.h"
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

static uint32_t hash(const struct item *k)
{
	uint64_t h = ((uint64_t)k->thread << 32 | k->frame) * UINT64_C(0x9e3779b97f4a7c15);

	h = (h ^ h >> 29 ^ ((uint64_t)k->label << 32 | k->stack)) * UINT64_C(0xbf58476d1ce4e5b9);
	return (uint32_t)(h ^ h >> 32);
}

static bool same(const struct item *a, const struct item *b)
{
	return a->thread == b->thread && a->frame == b->frame && a->stack == b->stack &&
	       a->label == b->label;
}

enum { GROUP = 32 };

static void count_hashed(struct counts *c, const struct item *k, uint32_t h)
{
	uint32_t i;
	size_t at;

	for (at = ws_slots_begin(&c->slots, &c->mask, c->n, 1024, h);
	     (i = ws_slots_next(c->slots, c->mask, h, &at)); at++)
		if (same(&c->items[i - 1], k)) {
			ws_cost_add(&c->items[i - 1].cost, &k->cost);
			return;
		}
	ws_grow(c->items, c->cap, c->n + 1);
	c->items[c->n++] = *k;
	c->slots[at] = ws_slot(h, (uint32_t)c->n);
}

static void count(struct counts *c, const struct item *k)
{
	count_hashed(c, k, hash(k));
}

/*
 * Count up to GROUP items. Distinct stacks may be many more than a cache holds, so each look-up
 * would wait for memory twice; asked for ahead, a group's come in together.
 */
static void count_group(struct counts *c, const struct item *k, size_t n)
{
	uint32_t h[GROUP];

	for (size_t i = 0; i < n; i++) {
		h[i] = hash(&k[i]);
		if (c->mask)
			__builtin_prefetch(&c->slots[h[i] & c->mask]);
	}
	for (size_t i = 0; i < n && c->mask; i++) {
		uint64_t slot = c->slots[h[i] & c->mask];

		if (!slot)
			continue;
		__builtin_prefetch(&c->items[(uint32_t)slot - 1], 1);
		__builtin_prefetch((const char *)&c->items[(uint32_t)slot] - 1,
				   1); /* it may lie in two lines of the cache */
	}
	for (size_t i = 0; i < n; i++)
		count_hashed(c, &k[i], h[i]);
}

/* ---- a profile being made ---- */

struct making {
	const struct ws_report *r;
	const struct ws_who *who;
	const struct ws_profile_request *q;
	struct ws_profile *p;
	struct counts *counts;
	uint32_t workers;
	bool *thread_out;	   /* by thread id: not wanted; NULL when all are */
	struct ws_samples samples; /* which count */
	uint64_t root_of;	   /* process << 32 | thread of the last root, and its node */
	uint32_t root;
	bool untimed; /* a sample stands for no known time */
	/* labels of waits, made by several workers */
	pthread_mutex_t lock;
	struct ws_text *labels;
	size_t label_count, label_cap;
	struct ws_map label_of;
};

/* "name (pid)" and, below, "name (tid)", as nodes and tables call them. */
static void process_label(const struct ws_process_info *p, struct ws_text *text)
{
	if (p->id)
		ws_text_printf(text, "%s (%u)", *p->name ? p->name : "process", p->pid);
	else
		ws_text_puts(text, "[no process]");
}

static void thread_label(const struct ws_thread_info *t, struct ws_text *text)
{
	if (t->id)
		ws_text_printf(text, "%s (%u)", *t->name ? t->name : "thread", t->tid);
	else
		ws_text_puts(text, "[no thread]");
}

static uint32_t made(struct making *m, uint32_t parent, struct ws_text *name)
{
	uint32_t node = ws_calltree_child(&m->p->tree, parent,
					  ws_calltree_made(&m->p->tree, name->s, name->len));

	name->len = 0;
	return node;
}

/* The node that stacks of a thread stand below. */
static uint32_t root_of(struct making *m, uint32_t process, uint32_t thread)
{
	struct ws_text name = {0};
	uint32_t node = 0;

	if (!m->p->roots)
		return 0;
	if (m->root && m->root_of == ((uint64_t)process << 32 | thread))
		return m->root;
	if (m->q->by_process) {
		process_label(ws_who_process(m->who, process), &name);
		node = made(m, node, &name);
	}
	if (m->q->by_thread) {
		thread_label(ws_who_thread(m->who, thread), &name);
		node = made(m, node, &name);
	}
	ws_text_free(&name);
	m->root_of = (uint64_t)process << 32 | thread;
	m->root = node;
	return node;
}

static bool module_wanted(const struct making *m, const struct item *k)
{
	const char *want = m->q->module;
	uint32_t frame = k->frame, caller;
	const struct ws_module_info *info;

	if (!want)
		return true;
	if (!frame && k->stack)
		frame = ws_stacks_step(m->p->stacks, k->stack, &caller);
	info = ws_stacks_module(m->p->stacks, ws_stacks_frame(m->p->stacks, frame)->module);
	return !strcmp(want, info->path) || !strcmp(want, info->name);
}

/* Returns the node that the item went to, 0 when it is not wanted. */
static uint32_t put(struct making *m, const struct item *k)
{
	static const char *const nothing[] = {[WS_FRAMES_ALL] = "[no stack]",
					      [WS_FRAMES_PYTHON] = "[not in Python]",
					      [WS_FRAMES_NATIVE] = "[only in Python]"};
	const char *none =
		nothing[m->q->kind == WS_PROFILE_PYTHON ? WS_FRAMES_PYTHON : m->q->frames];
	struct ws_calltree *t = &m->p->tree;
	uint32_t root, node;

	if (!module_wanted(m, k))
		return 0;
	root = root_of(m, ws_who_thread(m->who, k->thread)->process, k->thread);
	node = ws_calltree_node(t, root, k->frame, k->stack);
	if (k->label)
		node = made(m, node,
			    &(struct ws_text){m->labels[k->label - 1].s,
					      m->labels[k->label - 1].len, 0});
	if (node == root)
		node = ws_calltree_child(t, root, ws_calltree_made(t, none, strlen(none)));
	ws_cost_add(&t->nodes[node].self, &k->cost);
	ws_cost_add(&m->p->total, &k->cost);
	return node;
}

static void put_group(struct making *m, const struct item *k, size_t n)
{
	size_t fetched[GROUP];

	for (size_t i = 0; i < n; i++) {
		uint32_t root;

		fetched[i] = 0;
		if (!module_wanted(m, &k[i])) /* its nodes must not be made */
			continue;
		root = root_of(m, ws_who_thread(m->who, k[i].thread)->process, k[i].thread);
		fetched[i] = ws_calltree_fetch(&m->p->tree, root, k[i].frame, k[i].stack);
	}
	for (size_t i = 0; i < n; i++)
		ws_calltree_fetch_more(&m->p->tree, fetched[i]);
	for (size_t i = 0; i < n; i++)
		put(m, &k[i]);
}

static void put_all(struct making *m)
{
	for (uint32_t w = 0; w < m->workers; w++) {
		const struct counts *c = &m->counts[w];

		for (size_t i = 0; i < c->n; i += GROUP)
			put_group(m, c->items + i, c->n - i < GROUP ? c->n - i : GROUP);
		m->p->truncated += c->truncated;
	}
}

/* ---- what is asked for ---- */

static bool names(const char *want, uint32_t number, const char *name)
{
	char *end;
	unsigned long v = strtoul(want, &end, 10);

	return !strcmp(want, name) || (*want && !*end && v == number);
}

static int choose_threads(struct making *m, struct ws_err *e)
{
	const struct ws_profile_request *q = m->q;
	uint32_t count = ws_who_threads(m->who);
	bool process = !q->process, thread = !q->thread;

	if (process && thread)
		return 0;
	m->thread_out = ws_calloc(count + (size_t)1, sizeof(*m->thread_out));
	m->thread_out[0] = true;
	for (uint32_t i = 1; i <= count; i++) {
		const struct ws_thread_info *t = ws_who_thread(m->who, i);
		bool in = !q->process || names(q->process, t->pid, t->process_name),
		     it = !q->thread || names(q->thread, t->tid, t->name);

		process |= in;
		thread |= it;
		m->thread_out[i] = !in || !it;
	}
	if (!process)
		return ws_fail(e, "%s has no process '%s'; give a pid or a program's name",
			       ws_report_path(m->r), q->process);
	if (!thread)
		return ws_fail(e, "%s has no thread '%s'; give a thread id or a thread's name",
			       ws_report_path(m->r), q->thread);
	return 0;
}

static bool out(const struct making *m, uint64_t thread)
{
	return m->thread_out && (thread > ws_who_threads(m->who) || m->thread_out[thread]);
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

int ws_samples_choose(const struct ws_report *r, const char *name, struct ws_samples *s,
		      struct ws_err *e)
{
	struct ws_cursor *c = ws_cursor_open(r, WS_TABLE_perf_event, 0, UINT64_MAX);
	bool clock = true, other_clock = false;
	const uint64_t *v;

	*s = (struct ws_samples){.weight = "nanoseconds"};
	while (ws_cursor_next(c, &v)) {
		uint32_t id = (uint32_t)v[ws_perf_event_id];
		const char *called = ws_report_string(r, (uint32_t)v[ws_perf_event_name], NULL);

		other_clock |= is_clock(v);
		if (!id ||
		    (name ? s->event || strcmp(name, called) != 0 : s->event && id > s->event))
			continue;
		s->event = id;
		s->weight = *called ? called : "events";
		s->ns = v[ws_perf_event_frequency] ? 1000000000 / v[ws_perf_event_frequency] : 0;
		clock = is_clock(v);
	}
	ws_cursor_close(c);
	if (name && !s->event)
		return ws_fail(e,
			       "%s has no samples of an event '%s'; 'warpsight info' names those "
			       "there are",
			       ws_report_path(r), name);
	s->clocks = !name && (clock || s->ns);
	s->by_time = s->clocks && !clock && other_clock;
	return 0;
}

/* ---- the sources ---- */

/* Row i of `sample` as an item; false when it is not wanted. */
static bool sample_item(const struct making *m, const uint64_t *const *col, size_t i,
			struct item *k)
{
	uint64_t thread = col[ws_sample_thread][i], event = col[ws_sample_event][i],
		 weight = col[ws_sample_weight][i];

	if (!ws_samples_wanted(&m->samples, event, col[ws_sample_flags][i]) || out(m, thread))
		return false;
	*k = (struct item){(uint32_t)thread,
			   (uint32_t)col[ws_sample_frame][i],
			   (uint32_t)col[ws_sample_callers][i],
			   0,
			   {1, weight, 0}};
	k->cost.ns = col[ws_sample_flags][i] & WS_SAMPLE_CLOCK ? weight : m->samples.ns;
	if (m->samples.by_time)
		k->cost.weight = k->cost.ns;
	return true;
}

static bool incomplete(uint64_t flags)
{
	return flags & (WS_SAMPLE_TRUNCATED | WS_SAMPLE_BROKEN);
}

static int scan_samples(void *ctx, const struct ws_batch *b)
{
	struct making *m = ctx;
	struct counts *c = &m->counts[b->worker];
	bool apart = m->q->by_thread || m->q->by_process;
	struct item group[GROUP];
	size_t n = 0;

	for (size_t i = 0; i < b->rows; i++) {
		if (!sample_item(m, b->col, i, &group[n]))
			continue;
		if (!apart)
			group[n].thread = 0;
		c->truncated += incomplete(b->col[ws_sample_flags][i]);
		if (++n == GROUP) {
			count_group(c, group, n);
			n = 0;
		}
	}
	count_group(c, group, n);
	return 0;
}

static bool python_item(const struct making *m, const uint64_t *const *col, size_t i,
			struct item *k)
{
	uint64_t thread = col[ws_python_sample_thread][i], weight = col[ws_python_sample_weight][i];

	if (out(m, thread))
		return false;
	*k = (struct item){(uint32_t)thread,
			   0,
			   (uint32_t)col[ws_python_sample_stack][i],
			   0,
			   {1, weight, weight}};
	return true;
}

static int scan_python(void *ctx, const struct ws_batch *b)
{
	struct making *m = ctx;
	struct counts *c = &m->counts[b->worker];
	bool apart = m->q->by_thread || m->q->by_process;

	for (size_t i = 0; i < b->rows; i++) {
		struct item k;

		if (!python_item(m, b->col, i, &k))
			continue;
		if (!apart)
			k.thread = 0;
		count(c, &k);
	}
	return 0;
}

/* What a kind of samples is read by. */
struct kind {
	enum ws_table table;
	uint64_t columns;
	int (*scan)(void *ctx, const struct ws_batch *b);
	bool (*item)(const struct making *m, const uint64_t *const *col, size_t i, struct item *k);
	int flags; /* column */
};

static const struct kind samples = {WS_TABLE_sample,
				    WS_COL(sample, start) | WS_COL(sample, thread) |
					    WS_COL(sample, weight) | WS_COL(sample, frame) |
					    WS_COL(sample, callers) | WS_COL(sample, event) |
					    WS_COL(sample, flags),
				    scan_samples, sample_item, ws_sample_flags};
static const struct kind python_samples = {
	WS_TABLE_python_sample,
	WS_COL(python_sample, start) | WS_COL(python_sample, thread) |
		WS_COL(python_sample, stack) | WS_COL(python_sample, weight) |
		WS_COL(python_sample, flags),
	scan_python, python_item, ws_python_sample_flags};

static void add_step(struct ws_profile *p, size_t *cap, uint32_t thread, uint32_t node,
		     const struct ws_cost *cost)
{
	struct ws_profile_step *last = p->step_count ? &p->steps[p->step_count - 1] : NULL;

	if (last && last->thread == thread && last->node == node) {
		ws_cost_add(&last->cost, cost);
		return;
	}
	ws_grow(p->steps, *cap, p->step_count + 1);
	p->steps[p->step_count++] = (struct ws_profile_step){thread, node, *cost};
}

/* One sample after the other, in order of thread and time. */
static void in_order(struct making *m, const struct kind *k)
{
	struct ws_scan sc = {.table = k->table,
			     .columns = k->columns,
			     .time_min = m->q->time_min,
			     .time_max = m->q->time_max};
	struct ws_rows rows;
	size_t cap = 0;

	ws_rows_load(m->r, &sc, &rows, NULL);
	m->p->damaged += rows.damaged;
	for (size_t i = 0; i < rows.rows; i++) {
		struct item item;
		uint32_t node, thread;

		if (!k->item(m, (const uint64_t *const *)rows.col, i, &item))
			continue;
		m->p->truncated += incomplete(rows.col[k->flags][i]);
		m->untimed |= item.cost.weight && !item.cost.ns;
		thread = item.thread;
		node = put(m, &item);
		if (node)
			add_step(m->p, &cap, thread, node, &item.cost);
	}
	ws_rows_free(&rows);
}

static void from_rows(struct making *m, const struct kind *k)
{
	struct ws_scan sc = {.table = k->table,
			     .columns = k->columns,
			     .time_min = m->q->time_min,
			     .time_max = m->q->time_max};
	uint64_t damaged = 0;

	if (m->q->ordered) {
		in_order(m, k);
		return;
	}
	ws_scan_run(m->r, &sc, k->scan, m, &damaged);
	m->p->damaged += damaged;
}

/* "[lock: pthread_mutex_lock]", "[I/O: read /path]", "[GIL]": what stands for a wait in a stack. */
static void wait_label(const struct ws_report *r, const struct ws_state *st, struct ws_text *text)
{
	ws_text_printf(text, "[%s", ws_wait_name(st->wait));
	if (st->function) {
		size_t len;
		const char *name = ws_cuda_function(r, st->function, &len);

		ws_text_puts(text, ": ");
		ws_text_add(text, name, len);
		name = ws_report_string(r, st->path, &len);
		if (len) {
			ws_text_puts(text, " ");
			ws_text_add(text, name, len);
		}
	}
	ws_text_puts(text, "]");
}

/* Number + 1 of the label of a wait: one for each (reason, function, path). */
static uint32_t label(struct making *m, const struct ws_state *st)
{
	uint64_t path = ws_report_string_key(m->r, st->path),
		 function = ws_report_string_key(m->r, st->function);
	uint64_t key = path << 34 ^ function << 6 ^ st->wait;
	uint32_t known;

	pthread_mutex_lock(&m->lock);
	known = (uint32_t)ws_map_get(&m->label_of, key, NULL);
	if (!known) {
		ws_grow(m->labels, m->label_cap, m->label_count + 1);
		m->labels[m->label_count] = (struct ws_text){0};
		wait_label(m->r, st, &m->labels[m->label_count]);
		known = (uint32_t)++m->label_count;
		ws_map_set(&m->label_of, key, known);
	}
	pthread_mutex_unlock(&m->lock);
	return known;
}

static void take_wait(void *ctx, uint32_t worker, const struct ws_state *st)
{
	struct making *m = ctx;
	bool apart = m->q->by_thread || m->q->by_process;
	uint64_t ns = st->end - st->start;

	if ((st->doing != WS_DOING_WAIT && st->doing != WS_DOING_RUNNABLE) || out(m, st->thread))
		return;
	count(&m->counts[worker],
	      &(struct item){apart ? st->thread : 0, 0, st->callchain, label(m, st), {1, ns, ns}});
}

static void from_waits(struct making *m)
{
	struct ws_states_part all = {.to = UINT64_MAX, .brief = true};
	struct ws_states *s = ws_states_open_part(m->r, m->who, &all, &m->p->damaged);

	ws_states_run(s, m->q->time_min, m->q->time_max, take_wait, m);
	ws_states_close(s);
}

/* ---- work on GPUs ---- */

/* What launched work: calls and the ranges around them. */
struct launches {
	struct ws_calls calls;
	struct ws_ranges ranges;
	struct ws_enclose enclose;
};

struct gpu_scan {
	struct making *m;
	const struct launches *l;
	const struct ws_cuda_columns *c;
	enum ws_cuda_source source;
};

/* An item of GPU work: frame is the process, stack the node of the innermost range, label what it
 * is called (source, name). */
static int scan_gpu(void *ctx, const struct ws_batch *b)
{
	struct gpu_scan *g = ctx;

	for (size_t i = 0; i < b->rows; i++) {
		uint64_t start = b->col[g->c->start][i], end = b->col[g->c->end][i],
			 process = b->col[g->c->process][i];
		uint32_t call = ws_calls_find(&g->l->calls, process, b->col[g->c->correlation][i]);
		uint64_t thread =
			call == WS_NO_CALL ? 0 : g->l->calls.rows.col[ws_cuda_api_thread][call];
		uint64_t name = g->c->name < 0 ? 0 : b->col[g->c->name][i];
		struct item k = {.thread = (uint32_t)thread,
				 .frame = (uint32_t)process,
				 .cost = {1, end - start, end - start}};

		if (end == WS_NO_TIME || end < start || out(g->m, thread))
			continue;
		k.stack = call == WS_NO_CALL ? 0 : g->l->enclose.of[call];
		k.label = (uint32_t)(g->source == WS_CUDA_KERNEL
					     ? ws_report_string_key(g->m->r, (uint32_t)name)
					     : name)
				  << 3 |
			  g->source;
		count(&g->m->counts[b->worker], &k);
	}
	return 0;
}

/* The ranges from the outermost to that of `node`, below `at`. */
static uint32_t put_ranges(struct making *m, const struct launches *l, uint32_t at, uint32_t node)
{
	uint32_t path[WS_STACKS_DEEPEST], n = 0;

	for (; node && n < WS_STACKS_DEEPEST; node = l->enclose.node[node].parent)
		path[n++] = l->enclose.node[node].range;
	while (n--) {
		size_t len;
		const char *text = ws_report_string(
			m->r, (uint32_t)ws_range_get(&l->ranges, path[n], ws_nvtx_text), &len);

		at = ws_calltree_child(&m->p->tree, at, ws_calltree_made(&m->p->tree, text, len));
	}
	return at;
}

static void put_work(struct making *m, const struct launches *l, const struct item *k)
{
	enum ws_cuda_source source = k->label & 7;
	uint32_t node = put_ranges(m, l, root_of(m, k->frame, k->thread), k->stack);
	char buf[64];
	const char *name = buf;
	size_t len;

	if (source == WS_CUDA_KERNEL)
		name = ws_report_string(m->r, k->label >> 3, &len);
	else
		len = strlen(ws_cuda_op_name(source, k->label >> 3, buf, sizeof(buf)));
	node = ws_calltree_child(&m->p->tree, node, ws_calltree_made(&m->p->tree, name, len));
	ws_cost_add(&m->p->tree.nodes[node].self, &k->cost);
	ws_cost_add(&m->p->total, &k->cost);
}

static int from_gpu(struct making *m, struct ws_err *e)
{
	struct launches l = {0};
	struct gpu_scan g = {.m = m, .l = &l};
	int rc = -1;

	if (ws_calls_load(m->r, m->who, &l.calls, e) < 0 ||
	    ws_ranges_load(m->r, &l.ranges, e) < 0 ||
	    ws_enclose_calls(&l.ranges, &l.calls, &l.enclose, e) < 0)
		goto out;
	for (g.source = WS_CUDA_KERNEL; g.source < WS_CUDA_SOURCES; g.source++) {
		uint64_t columns, damaged = 0;

		g.c = &ws_cuda_columns[g.source];
		columns = UINT64_C(1) << g.c->start | UINT64_C(1) << g.c->end |
			  UINT64_C(1) << g.c->process | UINT64_C(1) << g.c->correlation;
		struct ws_scan sc = {.table = g.c->table,
				     .columns = columns |
						(g.c->name < 0 ? 0 : UINT64_C(1) << g.c->name),
				     .time_min = m->q->time_min,
				     .time_max = m->q->time_max};

		ws_scan_run(m->r, &sc, scan_gpu, &g, &damaged);
		m->p->damaged += damaged;
	}
	for (uint32_t w = 0; w < m->workers; w++)
		for (size_t i = 0; i < m->counts[w].n; i++)
			put_work(m, &l, &m->counts[w].items[i]);
	rc = 0;
out:
	ws_enclose_free(&l.enclose);
	ws_ranges_free(&l.ranges);
	ws_calls_free(&l.calls);
	return rc;
}

/* ---- the interface ---- */

static int gather(struct making *m, struct ws_err *e)
{
	switch (m->q->kind) {
	case WS_PROFILE_ON_CPU:
		if (ws_samples_choose(m->r, m->q->event, &m->samples, e) < 0)
			return -1;
		m->p->weight = m->samples.weight;
		from_rows(m, &samples);
		break;
	case WS_PROFILE_PYTHON:
		from_rows(m, &python_samples);
		break;
	case WS_PROFILE_OFF_CPU:
		from_waits(m);
		break;
	case WS_PROFILE_GPU:
		return from_gpu(m, e);
	}
	put_all(m);
	return 0;
}

static bool all_timed(const struct making *m)
{
	for (uint32_t w = 0; w < m->workers; w++)
		for (size_t i = 0; i < m->counts[w].n; i++)
			if (m->counts[w].items[i].cost.weight && !m->counts[w].items[i].cost.ns)
				return false;
	return true;
}

int ws_profile_make(const struct ws_report *r, const struct ws_who *who,
		    const struct ws_profile_request *q, struct ws_profile *p, struct ws_err *e)
{
	struct ws_scan any = {.table = WS_TABLE_sample};
	struct making m = {.r = r,
			   .who = who,
			   .q = q,
			   .p = p,
			   .lock = PTHREAD_MUTEX_INITIALIZER,
			   .workers = ws_scan_workers(&any)};
	int rc = -1;

	memset(p, 0, sizeof(*p));
	p->weight = "nanoseconds";
	p->stacks = ws_stacks_open(r, &p->damaged);
	ws_calltree_init(&p->tree, p->stacks, q->unit, q->frames);
	p->roots = (uint32_t)q->by_process + q->by_thread;
	m.counts = aligned_alloc(128, m.workers * sizeof(*m.counts));
	if (!m.counts)
		return ws_fail(e, "out of memory");
	memset(m.counts, 0, m.workers * sizeof(*m.counts));
	if (!choose_threads(&m, e))
		rc = gather(&m, e);
	if (!rc && q->module && !p->total.count)
		rc = ws_fail(e, "%s has no stack whose innermost function is in module '%s'",
			     ws_report_path(r), q->module);
	p->timed = !m.untimed && all_timed(&m);
	for (uint32_t w = 0; w < m.workers; w++) {
		free(m.counts[w].items);
		free(m.counts[w].slots);
	}
	for (size_t i = 0; i < m.label_count; i++)
		ws_text_free(&m.labels[i]);
	free(m.labels);
	ws_map_free(&m.label_of);
	free(m.thread_out);
	free(m.counts);
	return rc;
}

void ws_profile_free(struct ws_profile *p)
{
	free(p->steps);
	ws_calltree_free(&p->tree);
	ws_stacks_close(p->stacks);
	memset(p, 0, sizeof(*p));
}
