/* gaps.c - see gaps.h. */
#include "query/gaps.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Gaps between merged intervals of work, into a new list. The intervals stay the caller's. */
static void add_list(struct ws_gaps *g, size_t *cap, const struct ws_gaps_request *q, char *name, uint64_t process,
		     const struct ws_interval *busy, size_t n)
{
	struct ws_gap_list *l;
	size_t kept = 0;

	while (n && busy[0].end <= q->time_min) {
		busy++;
		n--;
	}
	while (n && busy[n - 1].start >= q->time_max)
		n--;
	ws_grow(g->v, *cap, g->n + 1);
	l = &g->v[g->n++];
	*l = (struct ws_gap_list){.name = name, .process = process};
	if (!n)
		return;
	l->from = busy[0].start > q->time_min ? busy[0].start : q->time_min;
	l->to = busy[n - 1].end < q->time_max ? busy[n - 1].end : q->time_max;
	l->n = ws_intervals_between(busy, n, l->from, l->to, &l->v);
	for (size_t i = 0; i < l->n; i++) {
		if (l->v[i].end - l->v[i].start < q->shortest)
			continue;
		l->total += l->v[i].end - l->v[i].start;
		l->v[kept++] = l->v[i];
	}
	l->n = kept;
}

static int find_gpus(const struct ws_report *r, const struct ws_gaps_request *q, struct ws_gaps *out, struct ws_err *e)
{
	bool streams = q->resource == WS_RESOURCE_STREAM;
	struct ws_gpu_lanes lanes;
	size_t cap = 0;

	ws_gpu_lanes_load(r, streams, &lanes);
	out->damaged += lanes.damaged;
	for (size_t i = 0; i < lanes.n; i++) {
		const struct ws_gpu_lane *l = &lanes.v[i];

		if ((q->gpu != WS_NO_U32 && l->device != q->gpu) || (streams && q->stream != WS_NO_U32 && l->stream != q->stream))
			continue;
		add_list(out, &cap, q,
			 streams ? ws_format("GPU %u stream %u", l->device, l->stream) : ws_format("GPU %u", l->device), l->process,
			 l->busy, l->n);
	}
	ws_gpu_lanes_free(&lanes);
	if (out->n)
		return 0;
	if (streams && q->stream != WS_NO_U32)
		return ws_fail(e, "%s has no work in a stream %u%s", ws_report_path(r), q->stream,
			       q->gpu == WS_NO_U32 ? "" : " of that GPU");
	if (q->gpu != WS_NO_U32)
		return ws_fail(e, "%s has no work on a GPU %u", ws_report_path(r), q->gpu);
	return ws_fail(e, "%s has no work on GPUs", ws_report_path(r));
}

/* Spans on cores, of one thread or all. */
struct running {
	const struct ws_who *who;
	const struct ws_gaps_request *q;
	struct lane {
		struct ws_interval *v;
		size_t n, cap;
	} * workers;
	uint32_t thread; /* the one found, 0 for none */
};

static void take_run(void *ctx, uint32_t worker, const struct ws_state *st)
{
	struct running *x = ctx;
	struct lane *l = &x->workers[worker];

	if (x->q->resource == WS_RESOURCE_THREAD) {
		if (ws_who_thread(x->who, st->thread)->tid != x->q->thread)
			return;
		__atomic_store_n(&x->thread, st->thread, __ATOMIC_RELAXED);
	}
	if (st->doing != WS_DOING_RUN)
		return;
	if (l->n && st->start >= l->v[l->n - 1].start && st->start <= l->v[l->n - 1].end) {
		l->v[l->n - 1].end = st->end > l->v[l->n - 1].end ? st->end : l->v[l->n - 1].end;
		return;
	}
	ws_grow(l->v, l->cap, l->n + 1);
	l->v[l->n++] = (struct ws_interval){st->start, st->end};
}

static char *thread_name(const struct ws_who *who, uint32_t thread)
{
	const struct ws_thread_info *t = ws_who_thread(who, thread);

	return ws_format("thread %s%s%u%s", t->name, *t->name ? " (" : "", t->tid, *t->name ? ")" : "");
}

static int find_running(const struct ws_report *r, const struct ws_who *who, const struct ws_states *states,
			const struct ws_gaps_request *q, struct ws_gaps *out, struct ws_err *e)
{
	struct running x = {.who = who, .q = q};
	uint32_t workers = ws_states_workers(states);
	struct lane all = {0};
	size_t cap = 0;

	if (!ws_states_scheduled(states))
		return ws_fail(e, "%s has no context switches, which tell when threads ran", ws_report_path(r));
	x.workers = ws_calloc(workers, sizeof(*x.workers));
	ws_states_run(states, q->time_min, q->time_max, take_run, &x);
	for (uint32_t w = 0; w < workers; w++) {
		ws_grow(all.v, all.cap, all.n + x.workers[w].n);
		if (x.workers[w].n)
			memcpy(all.v + all.n, x.workers[w].v, x.workers[w].n * sizeof(*all.v));
		all.n += x.workers[w].n;
		free(x.workers[w].v);
	}
	free(x.workers);
	all.n = ws_intervals_merge(all.v, all.n);
	if (q->resource == WS_RESOURCE_CPU || x.thread)
		add_list(out, &cap, q, q->resource == WS_RESOURCE_CPU ? ws_strdup("all cores") : thread_name(who, x.thread), 0,
			 all.v, all.n);
	free(all.v);
	return out->n ? 0 : ws_fail(e, "%s has no scheduling of a thread %u", ws_report_path(r), q->thread);
}

int ws_gaps_find(const struct ws_report *r, const struct ws_who *who, const struct ws_states *states,
		 const struct ws_gaps_request *q, struct ws_gaps *out, struct ws_err *e)
{
	memset(out, 0, sizeof(*out));
	if (q->resource == WS_RESOURCE_GPU || q->resource == WS_RESOURCE_STREAM)
		return find_gpus(r, q, out, e);
	return find_running(r, who, states, q, out, e);
}

void ws_gaps_free(struct ws_gaps *g)
{
	for (size_t i = 0; i < g->n; i++) {
		free(g->v[i].name);
		free(g->v[i].v);
	}
	free(g->v);
	memset(g, 0, sizeof(*g));
}

uint64_t ws_gaps_overlap(const struct ws_gap_list *l, uint64_t start, uint64_t end, size_t *at, uint64_t *pieces)
{
	uint64_t sum = 0;

	while (*at < l->n && l->v[*at].end <= start)
		++*at;
	for (size_t i = *at; i < l->n && l->v[i].start < end; i++) {
		uint64_t from = l->v[i].start > start ? l->v[i].start : start, to = l->v[i].end < end ? l->v[i].end : end;

		if (from >= to)
			continue;
		sum += to - from;
		if (pieces)
			++*pieces;
	}
	return sum;
}
