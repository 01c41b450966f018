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
#include "base/choose.h"
#include "base/mem.h"
#include "query/work.h"

/* Gaps between spans of work, into a new list. Merges `busy` and cuts it to the window; frees it.
 */
static void add_list(struct ws_gaps *gaps, size_t *cap, const struct ws_gaps_request *request,
		     char *name, uint64_t process, struct ws_spans *busy)
{
	struct ws_spans all = {0};
	struct ws_gap_list *gap_list;
	size_t kept = 0;

	ws_grow(gaps->gap_lists, *cap, gaps->n + 1);
	gap_list = &gaps->gap_lists[gaps->n++];
	*gap_list = (struct ws_gap_list){.name = name, .process = process};
	ws_spans_merge(busy);
	while (busy->n && busy->spans[busy->n - 1].start >= request->time_max)
		busy->n--;
	for (size_t i = 0; i < busy->n && !gap_list->from;
	     i++) /* the first that reaches into the window */
		if (busy->spans[i].end > request->time_min)
			gap_list->from = ws_max(busy->spans[i].start, request->time_min);
	if (busy->n && gap_list->from) {
		gap_list->to = ws_min(busy->spans[busy->n - 1].end, request->time_max);
		ws_spans_add(&all, gap_list->from, gap_list->to);
		ws_spans_subtract(&all, busy, &gap_list->gaps);
	}
	for (size_t i = 0; i < gap_list->gaps.n; i++) {
		const struct ws_span *span = &gap_list->gaps.spans[i];

		if (span->end - span->start < request->shortest)
			continue;
		gap_list->total += span->end - span->start;
		gap_list->gaps.spans[kept++] = *span;
	}
	gap_list->gaps.n = kept;
	ws_spans_free(&all);
	ws_spans_free(busy);
}

/* One list for the GPU. */
static void add_gpu(const struct ws_work_gpu *gpu, const struct ws_gaps_request *request,
		    struct ws_gaps *out, size_t *cap)
{
	struct ws_spans busy = {0};

	for (size_t i = 0; i < gpu->n; i++)
		ws_spans_add(&busy, gpu->op[i].start, gpu->op[i].end);
	add_list(out, cap, request, ws_format("GPU %" PRIu64, gpu->device), gpu->process, &busy);
}

struct stream {
	uint32_t process, stream;
	struct ws_spans busy;
};

static int by_number(const void *first, const void *second)
{
	const struct stream *left = first, *right = second;

	if (left->process != right->process)
		return left->process < right->process ? -1 : 1;
	return ws_compare(left->stream, right->stream);
}

/* A list for each of its streams that is wanted. Streams of several processes are told apart by
 * pid. */
static void add_streams(const struct ws_work_gpu *gpu, const struct ws_who *who,
			const struct ws_gaps_request *request, struct ws_gaps *out, size_t *cap)
{
	struct ws_map numbers = {0};
	struct stream *stream = NULL;
	size_t n = 0, v_cap = 0;
	bool several = false;

	for (size_t i = 0; i < gpu->n; i++) {
		const struct ws_work_op *op = &gpu->op[i];
		uint64_t key = (uint64_t)op->process << 32 | op->stream, number;

		several |= op->process != gpu->op[0].process;
		if (request->stream != WS_NO_U32 && op->stream != request->stream)
			continue;
		number = ws_map_get(&numbers, key, NULL);
		if (!number) {
			ws_grow(stream, v_cap, n + 1);
			stream[n++] = (struct stream){.process = op->process, .stream = op->stream};
			ws_map_set(&numbers, key, number = n);
		}
		ws_spans_add(&stream[number - 1].busy, op->start, op->end);
	}
	if (n)
		qsort(stream, n, sizeof(*stream), by_number);
	for (size_t i = 0; i < n; i++) {
		char *name = ws_format("GPU %" PRIu64 " stream %u", gpu->device, stream[i].stream),
		     *full = NULL;

		if (several)
			full = ws_format("%s of process %u", name,
					 ws_who_process(who, stream[i].process)->pid);
		add_list(out, cap, request, several ? full : name, stream[i].process,
			 &stream[i].busy);
		if (several)
			free(name);
	}
	ws_map_free(&numbers);
	free(stream);
}

static int find_gpus(const struct ws_report *report, const struct ws_who *who,
		     const struct ws_gaps_request *request, struct ws_gaps *out, struct ws_err *err)
{
	bool streams = request->resource == WS_RESOURCE_STREAM;
	struct ws_work work;
	size_t cap = 0;
	int rc = ws_work_load(report, request->time_min, request->time_max, &work, err);

	out->damaged += work.damaged;
	for (size_t i = 0; !rc && i < work.gpus; i++) {
		if (request->gpu != WS_NO_U32 && work.gpu[i].device != request->gpu)
			continue;
		if (streams)
			add_streams(&work.gpu[i], who, request, out, &cap);
		else
			add_gpu(&work.gpu[i], request, out, &cap);
	}
	ws_work_free(&work);
	if (rc || out->n)
		return rc;
	if (streams && request->stream != WS_NO_U32)
		return ws_fail(err, "%s has no work in a stream %u%s", ws_report_path(report),
			       request->stream, request->gpu == WS_NO_U32 ? "" : " of that GPU");
	if (request->gpu != WS_NO_U32)
		return ws_fail(err, "%s has no work on a GPU %u", ws_report_path(report),
			       request->gpu);
	return ws_fail(err, "%s has no work on GPUs", ws_report_path(report));
}

/*
 * Spans on cores, of one thread or all. Each thread's come in order: a list of them is merged with
 * those of threads before, shorter ones first, as in a merge sort. Where all cores are mostly busy
 * little is left after the first steps.
 */
struct lists {
	struct ws_spans *spans; /* the last is being filled */
	size_t n, cap;
	uint32_t thread; /* whose are in the last */
} __attribute__((aligned(128)));

struct running {
	const struct ws_who *who;
	const struct ws_gaps_request *request;
	struct lists *workers;
	uint32_t thread; /* the one found, 0 for none */
};

static void merge_last_two(struct lists *lists)
{
	struct ws_spans both = {0};

	ws_spans_union(&lists->spans[lists->n - 2], &lists->spans[lists->n - 1], &both);
	ws_spans_free(&lists->spans[--lists->n]);
	ws_spans_free(&lists->spans[lists->n - 1]);
	lists->spans[lists->n - 1] = both;
}

static void add_spans(struct lists *lists, struct ws_spans spans)
{
	while (lists->n > 1 && lists->spans[lists->n - 1].n * 2 >= lists->spans[lists->n - 2].n)
		merge_last_two(lists);
	ws_grow(lists->spans, lists->cap, lists->n + 1);
	lists->spans[lists->n++] = spans;
}

static void take_run(void *ctx, uint32_t worker, const struct ws_state *st)
{
	struct running *running = ctx;
	struct lists *lists = &running->workers[worker];
	struct ws_spans *spans;

	if (running->request->resource == WS_RESOURCE_THREAD) {
		if (ws_who_thread(running->who, st->thread)->tid != running->request->thread)
			return;
		__atomic_store_n(&running->thread, st->thread, __ATOMIC_RELAXED);
	}
	if (st->doing != WS_DOING_RUN)
		return;
	if (!lists->n || lists->thread != st->thread)
		add_spans(lists, (struct ws_spans){0});
	lists->thread = st->thread;
	spans = &lists->spans[lists->n - 1];
	if (spans->n && st->start <= spans->spans[spans->n - 1].end)
		spans->spans[spans->n - 1].end = ws_max(st->end, spans->spans[spans->n - 1].end);
	else
		ws_spans_add(spans, st->start, st->end);
}

/* All workers' as one list. */
static struct ws_spans all_lists(struct lists *workers, uint32_t count)
{
	struct lists all = {0};
	struct ws_spans spans = {0};

	for (uint32_t w = 0; w < count; w++) {
		for (size_t i = workers[w].n; i--;)
			add_spans(&all, workers[w].spans[i]);
		free(workers[w].spans);
	}
	while (all.n > 1)
		merge_last_two(&all);
	if (all.n)
		spans = all.spans[0];
	free(all.spans);
	return spans;
}

static char *thread_name(const struct ws_who *who, uint32_t thread)
{
	const struct ws_thread_info *info = ws_who_thread(who, thread);

	return ws_format("thread %s%s%u%s", info->name, *info->name ? " (" : "", info->tid,
			 *info->name ? ")" : "");
}

static int find_running(const struct ws_report *report, const struct ws_who *who,
			const struct ws_states *states, const struct ws_gaps_request *request,
			struct ws_gaps *out, struct ws_err *err)
{
	struct running running = {.who = who, .request = request};
	uint32_t workers = ws_states_workers(states);
	struct ws_spans all;
	size_t cap = 0;

	if (!ws_states_scheduled(states))
		return ws_fail(err, "%s has no context switches, which tell when threads ran",
			       ws_report_path(report));
	running.workers = aligned_alloc(128, workers * sizeof(*running.workers));
	if (!running.workers)
		return ws_fail(err, "out of memory");
	memset(running.workers, 0, workers * sizeof(*running.workers));
	ws_states_run(states, request->time_min, request->time_max, take_run, &running);
	all = all_lists(running.workers, workers);
	free(running.workers);
	if (request->resource == WS_RESOURCE_CPU || running.thread)
		add_list(out, &cap, request,
			 request->resource == WS_RESOURCE_CPU ? ws_strdup("all cores")
							      : thread_name(who, running.thread),
			 0, &all);
	ws_spans_free(&all);
	return out->n ? 0
		      : ws_fail(err, "%s has no scheduling of a thread %u", ws_report_path(report),
				request->thread);
}

int ws_gaps_find(const struct ws_report *report, const struct ws_who *who,
		 const struct ws_states *states, const struct ws_gaps_request *request,
		 struct ws_gaps *out, struct ws_err *err)
{
	memset(out, 0, sizeof(*out));
	if (request->resource == WS_RESOURCE_GPU || request->resource == WS_RESOURCE_STREAM)
		return find_gpus(report, who, request, out, err);
	return find_running(report, who, states, request, out, err);
}

void ws_gaps_free(struct ws_gaps *gaps)
{
	for (size_t i = 0; i < gaps->n; i++) {
		free(gaps->gap_lists[i].name);
		ws_spans_free(&gaps->gap_lists[i].gaps);
	}
	free(gaps->gap_lists);
	memset(gaps, 0, sizeof(*gaps));
}

uint64_t ws_gaps_overlap(const struct ws_gap_list *gap_list, uint64_t start, uint64_t end,
			 size_t *at, uint64_t *pieces)
{
	const struct ws_span *span = gap_list->gaps.spans;
	uint64_t sum = 0;

	while (*at < gap_list->gaps.n && span[*at].end <= start)
		++*at;
	for (size_t i = *at; i < gap_list->gaps.n && span[i].start < end; i++) {
		uint64_t from = ws_max(span[i].start, start), to = ws_min(span[i].end, end);

		if (from >= to)
			continue;
		sum += to - from;
		if (pieces)
			++*pieces;
	}
	return sum;
}
