/*
 * gaps.c - see gaps.h.
 *
 * What kept a resource busy is gathered as a set of spans (intervals.h); gaps are what is left
 * between its first and its last.
 */
#include "query/gaps.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "query/work.h"

/* Gaps between spans of work, into a new list. Merges `busy` and cuts it to the window; frees it.
 */
static void add_list(struct ws_gaps *g, size_t *cap, const struct ws_gaps_request *q, char *name,
		     uint64_t process, struct ws_spans *busy)
{
	struct ws_spans all = {0};
	struct ws_gap_list *l;
	size_t kept = 0;

	ws_grow(g->v, *cap, g->n + 1);
	l = &g->v[g->n++];
	*l = (struct ws_gap_list){.name = name, .process = process};
	ws_spans_merge(busy);
	while (busy->n && busy->v[busy->n - 1].start >= q->time_max)
		busy->n--;
	for (size_t i = 0; i < busy->n && !l->from;
	     i++) /* the first that reaches into the window */
		if (busy->v[i].end > q->time_min)
			l->from = busy->v[i].start > q->time_min ? busy->v[i].start : q->time_min;
	if (busy->n && l->from) {
		l->to = busy->v[busy->n - 1].end < q->time_max ? busy->v[busy->n - 1].end
							       : q->time_max;
		ws_spans_add(&all, l->from, l->to);
		ws_spans_subtract(&all, busy, &l->gaps);
	}
	for (size_t i = 0; i < l->gaps.n; i++) {
		const struct ws_span *v = &l->gaps.v[i];

		if (v->end - v->start < q->shortest)
			continue;
		l->total += v->end - v->start;
		l->gaps.v[kept++] = *v;
	}
	l->gaps.n = kept;
	ws_spans_free(&all);
	ws_spans_free(busy);
}

/* One list for the GPU. */
static void add_gpu(const struct ws_work_gpu *g, const struct ws_gaps_request *q,
		    struct ws_gaps *out, size_t *cap)
{
	struct ws_spans busy = {0};

	for (size_t i = 0; i < g->n; i++)
		ws_spans_add(&busy, g->op[i].start, g->op[i].end);
	add_list(out, cap, q, ws_format("GPU %" PRIu64, g->device), g->process, &busy);
}

struct stream {
	uint32_t process, stream;
	struct ws_spans busy;
};

static int by_number(const void *a, const void *b)
{
	const struct stream *x = a, *y = b;

	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	return x->stream < y->stream ? -1 : x->stream > y->stream;
}

/* A list for each of its streams that is wanted. Streams of several processes are told apart by
 * pid. */
static void add_streams(const struct ws_work_gpu *g, const struct ws_who *who,
			const struct ws_gaps_request *q, struct ws_gaps *out, size_t *cap)
{
	struct ws_map numbers = {0};
	struct stream *v = NULL;
	size_t n = 0, v_cap = 0;
	bool several = false;

	for (size_t i = 0; i < g->n; i++) {
		const struct ws_work_op *op = &g->op[i];
		uint64_t key = (uint64_t)op->process << 32 | op->stream, number;

		several |= op->process != g->op[0].process;
		if (q->stream != WS_NO_U32 && op->stream != q->stream)
			continue;
		number = ws_map_get(&numbers, key, NULL);
		if (!number) {
			ws_grow(v, v_cap, n + 1);
			v[n++] = (struct stream){.process = op->process, .stream = op->stream};
			ws_map_set(&numbers, key, number = n);
		}
		ws_spans_add(&v[number - 1].busy, op->start, op->end);
	}
	if (n)
		qsort(v, n, sizeof(*v), by_number);
	for (size_t i = 0; i < n; i++) {
		char *name = ws_format("GPU %" PRIu64 " stream %u", g->device, v[i].stream),
		     *full = NULL;

		if (several)
			full = ws_format("%s of process %u", name,
					 ws_who_process(who, v[i].process)->pid);
		add_list(out, cap, q, several ? full : name, v[i].process, &v[i].busy);
		if (several)
			free(name);
	}
	ws_map_free(&numbers);
	free(v);
}

static int find_gpus(const struct ws_report *r, const struct ws_who *who,
		     const struct ws_gaps_request *q, struct ws_gaps *out, struct ws_err *e)
{
	bool streams = q->resource == WS_RESOURCE_STREAM;
	struct ws_work w;
	size_t cap = 0;
	int rc = ws_work_load(r, q->time_min, q->time_max, &w, e);

	out->damaged += w.damaged;
	for (size_t i = 0; !rc && i < w.gpus; i++) {
		if (q->gpu != WS_NO_U32 && w.gpu[i].device != q->gpu)
			continue;
		if (streams)
			add_streams(&w.gpu[i], who, q, out, &cap);
		else
			add_gpu(&w.gpu[i], q, out, &cap);
	}
	ws_work_free(&w);
	if (rc || out->n)
		return rc;
	if (streams && q->stream != WS_NO_U32)
		return ws_fail(e, "%s has no work in a stream %u%s", ws_report_path(r), q->stream,
			       q->gpu == WS_NO_U32 ? "" : " of that GPU");
	if (q->gpu != WS_NO_U32)
		return ws_fail(e, "%s has no work on a GPU %u", ws_report_path(r), q->gpu);
	return ws_fail(e, "%s has no work on GPUs", ws_report_path(r));
}

/*
 * Spans on cores, of one thread or all. Each thread's come in order: a list of them is merged with
 * those of threads before, shorter ones first, as in a merge sort. Where all cores are mostly busy
 * little is left after the first steps.
 */
struct lists {
	struct ws_spans *v; /* the last is being filled */
	size_t n, cap;
	uint32_t thread; /* whose are in the last */
} __attribute__((aligned(128)));

struct running {
	const struct ws_who *who;
	const struct ws_gaps_request *q;
	struct lists *workers;
	uint32_t thread; /* the one found, 0 for none */
};

static void merge_last_two(struct lists *l)
{
	struct ws_spans both = {0};

	ws_spans_union(&l->v[l->n - 2], &l->v[l->n - 1], &both);
	ws_spans_free(&l->v[--l->n]);
	ws_spans_free(&l->v[l->n - 1]);
	l->v[l->n - 1] = both;
}

static void add_spans(struct lists *l, struct ws_spans spans)
{
	while (l->n > 1 && l->v[l->n - 1].n * 2 >= l->v[l->n - 2].n)
		merge_last_two(l);
	ws_grow(l->v, l->cap, l->n + 1);
	l->v[l->n++] = spans;
}

static void take_run(void *ctx, uint32_t worker, const struct ws_state *st)
{
	struct running *x = ctx;
	struct lists *lists = &x->workers[worker];
	struct ws_spans *l;

	if (x->q->resource == WS_RESOURCE_THREAD) {
		if (ws_who_thread(x->who, st->thread)->tid != x->q->thread)
			return;
		__atomic_store_n(&x->thread, st->thread, __ATOMIC_RELAXED);
	}
	if (st->doing != WS_DOING_RUN)
		return;
	if (!lists->n || lists->thread != st->thread)
		add_spans(lists, (struct ws_spans){0});
	lists->thread = st->thread;
	l = &lists->v[lists->n - 1];
	if (l->n && st->start <= l->v[l->n - 1].end)
		l->v[l->n - 1].end = st->end > l->v[l->n - 1].end ? st->end : l->v[l->n - 1].end;
	else
		ws_spans_add(l, st->start, st->end);
}

/* All workers' as one list. */
static struct ws_spans all_lists(struct lists *workers, uint32_t count)
{
	struct lists all = {0};
	struct ws_spans spans = {0};

	for (uint32_t w = 0; w < count; w++) {
		for (size_t i = workers[w].n; i--;)
			add_spans(&all, workers[w].v[i]);
		free(workers[w].v);
	}
	while (all.n > 1)
		merge_last_two(&all);
	if (all.n)
		spans = all.v[0];
	free(all.v);
	return spans;
}

static char *thread_name(const struct ws_who *who, uint32_t thread)
{
	const struct ws_thread_info *t = ws_who_thread(who, thread);

	return ws_format("thread %s%s%u%s", t->name, *t->name ? " (" : "", t->tid,
			 *t->name ? ")" : "");
}

static int find_running(const struct ws_report *r, const struct ws_who *who,
			const struct ws_states *states, const struct ws_gaps_request *q,
			struct ws_gaps *out, struct ws_err *e)
{
	struct running x = {.who = who, .q = q};
	uint32_t workers = ws_states_workers(states);
	struct ws_spans all;
	size_t cap = 0;

	if (!ws_states_scheduled(states))
		return ws_fail(e, "%s has no context switches, which tell when threads ran",
			       ws_report_path(r));
	x.workers = aligned_alloc(128, workers * sizeof(*x.workers));
	if (!x.workers)
		return ws_fail(e, "out of memory");
	memset(x.workers, 0, workers * sizeof(*x.workers));
	ws_states_run(states, q->time_min, q->time_max, take_run, &x);
	all = all_lists(x.workers, workers);
	free(x.workers);
	if (q->resource == WS_RESOURCE_CPU || x.thread)
		add_list(out, &cap, q,
			 q->resource == WS_RESOURCE_CPU ? ws_strdup("all cores")
							: thread_name(who, x.thread),
			 0, &all);
	ws_spans_free(&all);
	return out->n ? 0
		      : ws_fail(e, "%s has no scheduling of a thread %u", ws_report_path(r),
				q->thread);
}

int ws_gaps_find(const struct ws_report *r, const struct ws_who *who,
		 const struct ws_states *states, const struct ws_gaps_request *q,
		 struct ws_gaps *out, struct ws_err *e)
{
	memset(out, 0, sizeof(*out));
	if (q->resource == WS_RESOURCE_GPU || q->resource == WS_RESOURCE_STREAM)
		return find_gpus(r, who, q, out, e);
	return find_running(r, who, states, q, out, e);
}

void ws_gaps_free(struct ws_gaps *g)
{
	for (size_t i = 0; i < g->n; i++) {
		free(g->v[i].name);
		ws_spans_free(&g->v[i].gaps);
	}
	free(g->v);
	memset(g, 0, sizeof(*g));
}

uint64_t ws_gaps_overlap(const struct ws_gap_list *l, uint64_t start, uint64_t end, size_t *at,
			 uint64_t *pieces)
{
	const struct ws_span *v = l->gaps.v;
	uint64_t sum = 0;

	while (*at < l->gaps.n && v[*at].end <= start)
		++*at;
	for (size_t i = *at; i < l->gaps.n && v[i].start < end; i++) {
		uint64_t from = v[i].start > start ? v[i].start : start,
			 to = v[i].end < end ? v[i].end : end;

		if (from >= to)
			continue;
		sum += to - from;
		if (pieces)
			++*pieces;
	}
	return sum;
}
