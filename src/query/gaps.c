/*
 * gaps.c - see gaps.h.
 *
 * The work that kept a resource busy is collected as a set of spans (intervals.h); gaps are the
 * time between them.
 */
#include "query/gaps.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/choose.h"
#include "base/mem.h"
#include "query/work.h"

/* Finds the gaps between spans of work, for a new list. Merges `busy`, cuts it to the window and
 * frees it. Takes ownership of `name`. */
static void add_list(struct ws_gaps *gaps, size_t *cap, const struct ws_gaps_request *request,
		     char *name, uint64_t process, struct ws_spans *busy)
{
	struct ws_spans all = {0};
	struct ws_gap_list *gap_list;
	size_t kept = 0;

	ws_grow(gaps->gap_lists, *cap, gaps->count + 1);
	gap_list = &gaps->gap_lists[gaps->count++];
	*gap_list = (struct ws_gap_list){.name = name, .process = process};
	ws_spans_merge(busy);
	while (busy->count && busy->spans[busy->count - 1].start >= request->time_max)
		busy->count--;
	/* the first span that reaches into the window */
	for (size_t i = 0; i < busy->count && !gap_list->from; i++)
		if (busy->spans[i].end > request->time_min)
			gap_list->from = ws_max(busy->spans[i].start, request->time_min);
	if (busy->count && gap_list->from) {
		gap_list->to = ws_min(busy->spans[busy->count - 1].end, request->time_max);
		ws_spans_add(&all, gap_list->from, gap_list->to);
		ws_spans_subtract(&all, busy, &gap_list->gaps);
	}
	for (size_t i = 0; i < gap_list->gaps.count; i++) {
		const struct ws_span *span = &gap_list->gaps.spans[i];

		if (span->end - span->start < request->shortest)
			continue;
		gap_list->total += span->end - span->start;
		gap_list->gaps.spans[kept++] = *span;
	}
	gap_list->gaps.count = kept;
	ws_spans_free(&all);
	ws_spans_free(busy);
}

/* One list for the GPU. */
static void add_gpu(const struct ws_work_gpu *gpu, const struct ws_gaps_request *request,
		    struct ws_gaps *out, size_t *cap)
{
	struct ws_spans busy = {0};

	for (size_t i = 0; i < gpu->count; i++)
		ws_spans_add(&busy, gpu->op[i].start, gpu->op[i].end);
	add_list(out, cap, request, ws_format("GPU %" PRIu64, gpu->device), gpu->process, &busy);
}

struct stream {
	uint32_t process, stream;
	struct ws_spans busy;
};

static int compare_streams(const void *first, const void *second)
{
	const struct stream *left = first, *right = second;

	if (left->process != right->process)
		return ws_compare(left->process, right->process);
	return ws_compare(left->stream, right->stream);
}

/* Adds a list for each of the GPU's streams that is wanted. Streams of several processes are
 * distinguished by pid. */
static void add_streams(const struct ws_work_gpu *gpu, const struct ws_names_by_id *who,
			const struct ws_gaps_request *request, struct ws_gaps *out, size_t *cap)
{
	struct ws_map numbers = {0};
	struct stream *stream = NULL;
	size_t count = 0, stream_cap = 0;
	bool several = false;

	for (size_t i = 0; i < gpu->count; i++) {
		const struct ws_work_op *op = &gpu->op[i];
		uint64_t key = (uint64_t)op->process << 32 | op->stream, number;

		several |= op->process != gpu->op[0].process;
		if (request->stream != WS_NO_U32 && op->stream != request->stream)
			continue;
		number = ws_map_get(&numbers, key, NULL);
		if (!number) {
			ws_grow(stream, stream_cap, count + 1);
			stream[count++] =
				(struct stream){.process = op->process, .stream = op->stream};
			ws_map_set(&numbers, key, number = count);
		}
		ws_spans_add(&stream[number - 1].busy, op->start, op->end);
	}
	if (count)
		qsort(stream, count, sizeof(*stream), compare_streams);
	for (size_t i = 0; i < count; i++) {
		char *name;

		if (several)
			name = ws_format("GPU %" PRIu64 " stream %u of process %u", gpu->device,
					 stream[i].stream,
					 ws_find_process(who, stream[i].process)->pid);
		else
			name = ws_format("GPU %" PRIu64 " stream %u", gpu->device,
					 stream[i].stream);
		add_list(out, cap, request, name, stream[i].process, &stream[i].busy);
	}
	ws_map_free(&numbers);
	free(stream);
}

static int find_gpus(const struct ws_report *report, const struct ws_names_by_id *who,
		     const struct ws_gaps_request *request, struct ws_gaps *out, struct ws_err *err)
{
	bool streams = request->resource == WS_RESOURCE_STREAM;
	const char *where = "";
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
	if (rc || out->count)
		return rc;
	if (request->gpu != WS_NO_U32)
		where = " of that GPU";
	if (streams && request->stream != WS_NO_U32)
		return ws_fail(err, "%s has no work in a stream %u%s", ws_report_path(report),
			       request->stream, where);
	if (request->gpu != WS_NO_U32)
		return ws_fail(err, "%s has no work on a GPU %u", ws_report_path(report),
			       request->gpu);
	return ws_fail(err, "%s has no work on GPUs", ws_report_path(report));
}

/*
 * Spans on cores, of one thread or all. Each thread's spans come in order. Its list is merged with
 * those of the threads before, shorter ones first, as in a merge sort. Where all cores are mostly
 * busy, the lists are short after the first merges.
 */
struct span_lists {
	struct ws_spans *spans; /* the last list is being filled */
	size_t count, cap;
	uint32_t thread; /* the thread of the last list */
} __attribute__((aligned(128)));

struct running_search {
	const struct ws_names_by_id *who;
	const struct ws_gaps_request *request;
	struct span_lists *workers;
	uint32_t thread; /* the one found, 0 for none */
};

static void merge_last_two(struct span_lists *lists)
{
	struct ws_spans both = {0};

	ws_spans_union(&lists->spans[lists->count - 2], &lists->spans[lists->count - 1], &both);
	ws_spans_free(&lists->spans[--lists->count]);
	ws_spans_free(&lists->spans[lists->count - 1]);
	lists->spans[lists->count - 1] = both;
}

static void add_spans(struct span_lists *lists, struct ws_spans spans)
{
	while (lists->count > 1 &&
	       lists->spans[lists->count - 1].count * 2 >= lists->spans[lists->count - 2].count)
		merge_last_two(lists);
	ws_grow(lists->spans, lists->cap, lists->count + 1);
	lists->spans[lists->count++] = spans;
}

static void add_running_span(void *ctx, uint32_t worker, const struct ws_state *state)
{
	struct running_search *running = ctx;
	struct span_lists *lists = &running->workers[worker];
	struct ws_spans *spans;

	if (running->request->resource == WS_RESOURCE_THREAD) {
		if (ws_find_thread(running->who, state->thread)->tid != running->request->thread)
			return;
		__atomic_store_n(&running->thread, state->thread, __ATOMIC_RELAXED);
	}
	if (state->doing != WS_DOING_RUN)
		return;
	if (!lists->count || lists->thread != state->thread)
		add_spans(lists, (struct ws_spans){0});
	lists->thread = state->thread;
	spans = &lists->spans[lists->count - 1];
	if (spans->count && state->start <= spans->spans[spans->count - 1].end)
		spans->spans[spans->count - 1].end =
			ws_max(state->end, spans->spans[spans->count - 1].end);
	else
		ws_spans_add(spans, state->start, state->end);
}

/* Merges the lists of all workers into one. */
static struct ws_spans merge_all_lists(struct span_lists *workers, uint32_t count)
{
	struct span_lists all = {0};
	struct ws_spans spans = {0};

	for (uint32_t worker = 0; worker < count; worker++) {
		for (size_t i = workers[worker].count; i--;)
			add_spans(&all, workers[worker].spans[i]);
		free(workers[worker].spans);
	}
	while (all.count > 1)
		merge_last_two(&all);
	if (all.count)
		spans = all.spans[0];
	free(all.spans);
	return spans;
}

static char *make_thread_name(const struct ws_names_by_id *who, uint32_t thread)
{
	const struct ws_thread_info *info = ws_find_thread(who, thread);

	if (!*info->name)
		return ws_format("thread %u", info->tid);
	return ws_format("thread %s (%u)", info->name, info->tid);
}

static int find_running(const struct ws_report *report, const struct ws_names_by_id *who,
			const struct ws_states *states, const struct ws_gaps_request *request,
			struct ws_gaps *out, struct ws_err *err)
{
	struct running_search running = {.who = who, .request = request};
	uint32_t workers = ws_count_state_workers(states);
	struct ws_spans all;
	size_t cap = 0;

	if (!ws_states_has_scheduling(states))
		return ws_fail(err, "%s has no context switches, which tell when threads ran",
			       ws_report_path(report));
	running.workers = aligned_alloc(128, workers * sizeof(*running.workers));
	if (!running.workers)
		return ws_fail(err, "out of memory");
	memset(running.workers, 0, workers * sizeof(*running.workers));
	ws_walk_states(states, request->time_min, request->time_max, add_running_span, &running);
	all = merge_all_lists(running.workers, workers);
	free(running.workers);
	if (request->resource == WS_RESOURCE_CPU)
		add_list(out, &cap, request, ws_strdup("all cores"), 0, &all);
	else if (running.thread)
		add_list(out, &cap, request, make_thread_name(who, running.thread), 0, &all);
	ws_spans_free(&all);
	if (!out->count)
		return ws_fail(err, "%s has no scheduling of a thread %u", ws_report_path(report),
			       request->thread);
	return 0;
}

int ws_gaps_find(const struct ws_report *report, const struct ws_names_by_id *who,
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
	for (size_t i = 0; i < gaps->count; i++) {
		free(gaps->gap_lists[i].name);
		ws_spans_free(&gaps->gap_lists[i].gaps);
	}
	free(gaps->gap_lists);
	memset(gaps, 0, sizeof(*gaps));
}

uint64_t ws_gaps_measure_overlap(const struct ws_gap_list *gap_list, uint64_t start, uint64_t end,
				 size_t *at, uint64_t *pieces)
{
	const struct ws_span *span = gap_list->gaps.spans;
	uint64_t sum = 0;

	while (*at < gap_list->gaps.count && span[*at].end <= start)
		++*at;
	for (size_t i = *at; i < gap_list->gaps.count && span[i].start < end; i++) {
		uint64_t from = ws_max(span[i].start, start), to = ws_min(span[i].end, end);

		if (from >= to)
			continue;
		sum += to - from;
		if (pieces)
			++*pieces;
	}
	return sum;
}
