/*
 * activity.c - see activity.h.
 *
 * Rows are summed up by the ids of their names and threads. GPU work is kept as spans for a few
 * seconds, because it is reported late and in no order. How busy a GPU was is computed for a window
 * that ended LAG ago, as the union of the spans in it.
 */
#include "query/activity.h"

#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/sort.h"
#include "base/ticks.h"

#define LAG 300000000u /* ns after which most work of a GPU has been reported */
#define MOST_NAMES                                                                 \
	((size_t)1 << 20) /* different ids in a look; further ones share one entry \
			   */
#define MOST_ITEMS 200

struct sum {
	uint32_t string;
	uint64_t count, total, longest;
};

struct sums {
	struct sum *sums;
	size_t count, cap;
	struct ws_map by_string; /* index + 1 */
};

struct span {
	uint64_t start, end;
};

struct gpu {
	uint32_t process, device, name;
	struct span *spans;
	size_t count, cap;
	uint64_t kernels, copies, bytes;
};

struct thread {
	uint32_t process, tid, name, priority;
	uint64_t sampled, scheduled, waited, ranges;
	uint32_t call; /* string of the call that it spent most time in during this look */
	uint64_t call_time;
};

struct process {
	uint32_t pid, name;
};

struct ws_activity {
	struct ws_follow *follow;
	struct sums kernels, ranges, calls;
	struct thread *threads; /* by id */
	size_t thread_cap;
	struct process *processes; /* by id */
	size_t process_cap;
	struct gpu *gpus;
	size_t gpu_count, gpu_cap;
	uint64_t from, now; /* of this look, session ns */
	uint64_t rows;	    /* at the look before */
	uint64_t began, ended;
	uint64_t lost, warnings;
	uint32_t lost_what, lost_why, warning, command;
	bool samples, scheduling;
	struct ws_activity_gpu *out_gpus;
	struct ws_activity_thread *out_threads;
	size_t out_gpu_cap, out_thread_cap;
	char **names; /* returned by a look */
	size_t name_count, name_cap;
};

/* ---- sums ---- */

static void clear_sums(struct sums *sums)
{
	sums->count = 0;
	ws_map_free(&sums->by_string);
}

static void add_to_sums(struct sums *sums, uint32_t string, uint64_t time)
{
	uint64_t at = ws_map_get(&sums->by_string, string, NULL);
	struct sum *sum;

	if (!at) {
		if (sums->count >= MOST_NAMES)
			return;
		ws_grow(sums->sums, sums->cap, sums->count + 1);
		sums->sums[sums->count++] = (struct sum){.string = string};
		at = sums->count;
		ws_map_set(&sums->by_string, string, at);
	}
	sum = &sums->sums[at - 1];
	sum->count++;
	sum->total += time;
	sum->longest = ws_max(sum->longest, time);
}

static int compare_sums(const void *a, const void *b)
{
	const struct sum *left = a, *right = b;

	return ws_compare(right->total, left->total) ? ws_compare(right->total, left->total)
						     : ws_compare(right->count, left->count);
}

/* ---- rows ---- */

#define NUMBER_LIMIT (UINT32_C(1) << 22) /* higher ids are damaged */

static struct thread *find_thread(struct ws_activity *activity, uint64_t id)
{
	size_t had = activity->thread_cap;

	if (id >= NUMBER_LIMIT)
		id = 0;
	ws_grow(activity->threads, activity->thread_cap, id + 1);
	if (activity->thread_cap > had)
		memset(activity->threads + had, 0,
		       (activity->thread_cap - had) * sizeof(*activity->threads));
	return &activity->threads[id];
}

static struct process *find_process(struct ws_activity *activity, uint64_t id)
{
	size_t had = activity->process_cap;

	if (id >= NUMBER_LIMIT)
		id = 0;
	ws_grow(activity->processes, activity->process_cap, id + 1);
	if (activity->process_cap > had)
		memset(activity->processes + had, 0,
		       (activity->process_cap - had) * sizeof(*activity->processes));
	return &activity->processes[id];
}

static struct gpu *find_gpu(struct ws_activity *activity, uint32_t process, uint32_t device)
{
	for (size_t i = 0; i < activity->gpu_count; i++)
		if (activity->gpus[i].process == process && activity->gpus[i].device == device)
			return &activity->gpus[i];
	ws_grow(activity->gpus, activity->gpu_cap, activity->gpu_count + 1);
	activity->gpus[activity->gpu_count] = (struct gpu){.process = process, .device = device};
	return &activity->gpus[activity->gpu_count++];
}

static void add_gpu_span(struct gpu *gpu, uint64_t start, uint64_t end)
{
	if (end == WS_NO_TIME || end < start)
		return;
	ws_grow(gpu->spans, gpu->cap, gpu->count + 1);
	gpu->spans[gpu->count++] = (struct span){start, end};
}

static uint64_t duration_of(uint64_t start, uint64_t end)
{
	if (end == WS_NO_TIME || end < start)
		return 0;
	return end - start;
}

/* The part of a span that lies in this look; the part before was, or should have been, counted in
 * earlier looks. */
static uint64_t part_in_look(const struct ws_activity *activity, uint64_t start, uint64_t end)
{
	return duration_of(ws_max(start, activity->from),
			   ws_min(end, ws_max(activity->now, activity->from)));
}

#define VALUE(rows, table_name, column_name, i) ((rows)->column[ws_##table_name##_##column_name][i])

static void take_process(struct ws_activity *activity, const struct ws_new_rows *rows, size_t i)
{
	struct process *process = find_process(activity, VALUE(rows, process, id, i));

	process->pid = (uint32_t)VALUE(rows, process, pid, i);
	process->name = (uint32_t)VALUE(rows, process, name, i);
	if (VALUE(rows, process, origin, i) == WS_ORIGIN_TARGET)
		activity->command = (uint32_t)VALUE(rows, process, cmdline, i);
}

static void take_thread(struct ws_activity *activity, const struct ws_new_rows *rows, size_t i)
{
	struct thread *thread = find_thread(activity, VALUE(rows, thread, id, i));

	thread->process = (uint32_t)VALUE(rows, thread, process, i);
	thread->tid = (uint32_t)VALUE(rows, thread, tid, i);
}

static void take_thread_name(struct ws_activity *activity, const struct ws_new_rows *rows, size_t i)
{
	struct thread *thread = find_thread(activity, VALUE(rows, thread_name, thread, i));
	uint32_t priority = (uint32_t)VALUE(rows, thread_name, priority, i);

	if (priority < thread->priority)
		return;
	thread->priority = priority;
	thread->name = (uint32_t)VALUE(rows, thread_name, name, i);
}

static void take_collection(struct ws_activity *activity, const struct ws_new_rows *rows, size_t i)
{
	uint64_t start = VALUE(rows, collection, start, i), end = VALUE(rows, collection, end, i);

	if (!activity->began || start < activity->began)
		activity->began = start;
	activity->ended = end == WS_NO_TIME ? 0 : ws_max(activity->ended, end);
}

static void take_loss(struct ws_activity *activity, const struct ws_new_rows *rows, size_t i)
{
	activity->lost += VALUE(rows, loss, events, i);
	activity->lost_what = (uint32_t)VALUE(rows, loss, kind, i);
	activity->lost_why = (uint32_t)VALUE(rows, loss, reason, i);
}

static void take_diagnostic(struct ws_activity *activity, const struct ws_new_rows *rows, size_t i)
{
	if (VALUE(rows, diagnostic, severity, i) < WS_WARNING)
		return;
	activity->warnings++;
	activity->warning = (uint32_t)VALUE(rows, diagnostic, text, i);
}

static void take_device(struct ws_activity *activity, const struct ws_new_rows *rows, size_t i)
{
	struct gpu *gpu;

	if (!VALUE(rows, cuda_device, visible, i))
		return;
	gpu = find_gpu(activity, (uint32_t)VALUE(rows, cuda_device, process, i),
		       (uint32_t)VALUE(rows, cuda_device, id, i));
	gpu->name = (uint32_t)VALUE(rows, cuda_device, name, i);
}

static void take_kernel(struct ws_activity *activity, const struct ws_new_rows *rows, size_t i)
{
	uint64_t start = VALUE(rows, cuda_kernel, start, i), end = VALUE(rows, cuda_kernel, end, i);
	struct gpu *gpu = find_gpu(activity, (uint32_t)VALUE(rows, cuda_kernel, process, i),
				   (uint32_t)VALUE(rows, cuda_kernel, device, i));

	gpu->kernels++;
	add_gpu_span(gpu, start, end);
	add_to_sums(&activity->kernels, (uint32_t)VALUE(rows, cuda_kernel, name, i),
		    duration_of(start, end));
}

static void take_copy(struct ws_activity *activity, const struct ws_new_rows *rows, size_t i)
{
	struct gpu *gpu = find_gpu(activity, (uint32_t)VALUE(rows, cuda_memcpy, process, i),
				   (uint32_t)VALUE(rows, cuda_memcpy, device, i));

	gpu->copies++;
	gpu->bytes += VALUE(rows, cuda_memcpy, bytes, i);
	add_gpu_span(gpu, VALUE(rows, cuda_memcpy, start, i), VALUE(rows, cuda_memcpy, end, i));
}

static void take_memset(struct ws_activity *activity, const struct ws_new_rows *rows, size_t i)
{
	add_gpu_span(find_gpu(activity, (uint32_t)VALUE(rows, cuda_memset, process, i),
			      (uint32_t)VALUE(rows, cuda_memset, device, i)),
		     VALUE(rows, cuda_memset, start, i), VALUE(rows, cuda_memset, end, i));
}

static void take_graph(struct ws_activity *activity, const struct ws_new_rows *rows, size_t i)
{
	add_gpu_span(find_gpu(activity, (uint32_t)VALUE(rows, cuda_graph_trace, process, i),
			      (uint32_t)VALUE(rows, cuda_graph_trace, device, i)),
		     VALUE(rows, cuda_graph_trace, start, i),
		     VALUE(rows, cuda_graph_trace, end, i));
}

static void take_range(struct ws_activity *activity, const struct ws_new_rows *rows, size_t i)
{
	uint64_t type = VALUE(rows, nvtx, type, i);

	if (type != WS_NVTX_MARK && type != WS_NVTX_PUSHPOP && type != WS_NVTX_STARTEND)
		return;
	find_thread(activity, VALUE(rows, nvtx, thread, i))->ranges++;
	add_to_sums(&activity->ranges, (uint32_t)VALUE(rows, nvtx, text, i),
		    duration_of(VALUE(rows, nvtx, start, i), VALUE(rows, nvtx, end, i)));
}

static void add_wait(struct ws_activity *activity, uint64_t id, uint32_t name, uint64_t time)
{
	struct thread *thread = find_thread(activity, id);

	thread->waited += time;
	if (time < thread->call_time)
		return;
	thread->call_time = time;
	thread->call = name;
}

static void take_call(struct ws_activity *activity, const struct ws_new_rows *rows, size_t i)
{
	uint64_t start = VALUE(rows, osrt, start, i), end = VALUE(rows, osrt, end, i);
	uint32_t name = (uint32_t)VALUE(rows, osrt, name, i);

	add_to_sums(&activity->calls, name, duration_of(start, end));
	if (!VALUE(rows, osrt, nesting, i))
		add_wait(activity, VALUE(rows, osrt, thread, i), name,
			 part_in_look(activity, start, end));
}

static void take_sample(struct ws_activity *activity, const struct ws_new_rows *rows, size_t i)
{
	find_thread(activity, VALUE(rows, sample, thread, i))->sampled +=
		VALUE(rows, sample, time, i);
	activity->samples = true;
}

static void take_span(struct ws_activity *activity, const struct ws_new_rows *rows, size_t i)
{
	find_thread(activity, VALUE(rows, sched, thread, i))->scheduled +=
		part_in_look(activity, VALUE(rows, sched, start, i), VALUE(rows, sched, end, i));
	activity->scheduling = true;
}

/* The columns that are read of each table, and the function that takes its rows. */
#define BIT(table, column) (UINT64_C(1) << ws_##table##_##column)
static const struct source {
	enum ws_table table;
	bool from_start;
	uint64_t columns;
	void (*take)(struct ws_activity *activity, const struct ws_new_rows *rows, size_t i);
} sources[] = {
	{WS_TABLE_process, true,
	 BIT(process, id) | BIT(process, pid) | BIT(process, name) | BIT(process, origin) |
		 BIT(process, cmdline),
	 take_process},
	{WS_TABLE_thread, true, BIT(thread, id) | BIT(thread, process) | BIT(thread, tid),
	 take_thread},
	{WS_TABLE_thread_name, true,
	 BIT(thread_name, thread) | BIT(thread_name, priority) | BIT(thread_name, name),
	 take_thread_name},
	{WS_TABLE_collection, true, BIT(collection, start) | BIT(collection, end), take_collection},
	{WS_TABLE_loss, true, BIT(loss, events) | BIT(loss, kind) | BIT(loss, reason), take_loss},
	{WS_TABLE_diagnostic, true, BIT(diagnostic, severity) | BIT(diagnostic, text),
	 take_diagnostic},
	{WS_TABLE_cuda_device, true,
	 BIT(cuda_device, process) | BIT(cuda_device, id) | BIT(cuda_device, name) |
		 BIT(cuda_device, visible),
	 take_device},
	{WS_TABLE_cuda_kernel, false,
	 BIT(cuda_kernel, start) | BIT(cuda_kernel, end) | BIT(cuda_kernel, process) |
		 BIT(cuda_kernel, device) | BIT(cuda_kernel, name),
	 take_kernel},
	{WS_TABLE_cuda_memcpy, false,
	 BIT(cuda_memcpy, start) | BIT(cuda_memcpy, end) | BIT(cuda_memcpy, process) |
		 BIT(cuda_memcpy, device) | BIT(cuda_memcpy, bytes),
	 take_copy},
	{WS_TABLE_cuda_memset, false,
	 BIT(cuda_memset, start) | BIT(cuda_memset, end) | BIT(cuda_memset, process) |
		 BIT(cuda_memset, device),
	 take_memset},
	{WS_TABLE_cuda_graph_trace, false,
	 BIT(cuda_graph_trace, start) | BIT(cuda_graph_trace, end) |
		 BIT(cuda_graph_trace, process) | BIT(cuda_graph_trace, device),
	 take_graph},
	{WS_TABLE_nvtx, false,
	 BIT(nvtx, start) | BIT(nvtx, end) | BIT(nvtx, thread) | BIT(nvtx, text) | BIT(nvtx, type),
	 take_range},
	{WS_TABLE_osrt, false,
	 BIT(osrt, start) | BIT(osrt, end) | BIT(osrt, thread) | BIT(osrt, name) |
		 BIT(osrt, nesting),
	 take_call},
	{WS_TABLE_sample, false, BIT(sample, thread) | BIT(sample, time), take_sample},
	{WS_TABLE_sched, false, BIT(sched, start) | BIT(sched, end) | BIT(sched, thread),
	 take_span},
};

static void take_rows(void *ctx, const struct ws_new_rows *rows)
{
	struct ws_activity *activity = ctx;

	for (size_t s = 0; s < WS_COUNT(sources); s++)
		for (size_t i = 0; sources[s].table == rows->table && i < rows->count; i++)
			sources[s].take(activity, rows, i);
}

/* ---- results ---- */

/* A text that lives until the next look. */
static const char *keep_name(struct ws_activity *activity, uint32_t string)
{
	size_t len;
	const char *text = ws_follow_string(activity->follow, string, &len);

	ws_grow(activity->names, activity->name_cap, activity->name_count + 1);
	return activity->names[activity->name_count++] = ws_strndup(text, len);
}

static void free_names(struct ws_activity *activity)
{
	while (activity->name_count)
		free(activity->names[--activity->name_count]);
}

static void list_sums(struct ws_activity *activity, struct sums *sums,
		      struct ws_activity_list *list)
{
	if (sums->count)
		qsort(sums->sums, sums->count, sizeof(*sums->sums), compare_sums);
	list->names = sums->count;
	list->count = ws_min(sums->count, (size_t)MOST_ITEMS);
	ws_grow(list->items, list->cap, list->count);
	for (size_t i = 0; i < list->count; i++)
		list->items[i] =
			(struct ws_activity_item){.name = keep_name(activity, sums->sums[i].string),
						  .count = sums->sums[i].count,
						  .total = sums->sums[i].total,
						  .longest = sums->sums[i].longest};
}

static int compare_spans(const void *a, const void *b)
{
	const struct span *left = a, *right = b;

	return ws_compare(left->start, right->start);
}

/* Nanoseconds of from..to in which the GPU did anything. Drops spans that no later look needs. */
static uint64_t sum_busy(struct gpu *gpu, uint64_t from, uint64_t to)
{
	uint64_t busy = 0, reached = from;
	size_t kept = 0;

	if (gpu->count)
		qsort(gpu->spans, gpu->count, sizeof(*gpu->spans), compare_spans);
	for (size_t i = 0; i < gpu->count; i++) {
		uint64_t start = ws_max(gpu->spans[i].start, reached),
			 end = ws_min(gpu->spans[i].end, to);

		busy += duration_of(start, end);
		reached = ws_max(reached, end);
		if (gpu->spans[i].end > to)
			gpu->spans[kept++] = gpu->spans[i];
	}
	gpu->count = kept;
	return busy;
}

static void list_gpus(struct ws_activity *activity, struct ws_activity_look *look)
{
	uint64_t lag = ws_min(activity->from, LAG), from = activity->from - lag,
		 to = activity->now - lag;

	ws_grow(activity->out_gpus, activity->out_gpu_cap, activity->gpu_count);
	look->gpus = activity->out_gpus;
	look->gpu_count = activity->gpu_count;
	for (size_t i = 0; i < activity->gpu_count; i++) {
		struct gpu *gpu = &activity->gpus[i];

		look->gpus[i] = (struct ws_activity_gpu){.device = gpu->device,
							 .name = keep_name(activity, gpu->name),
							 .busy = (double)sum_busy(gpu, from, to) /
								 (double)ws_max(to - from, 1u),
							 .kernels = gpu->kernels,
							 .copies = gpu->copies,
							 .bytes = gpu->bytes};
		gpu->kernels = gpu->copies = gpu->bytes = 0;
	}
}

static int compare_threads(const void *a, const void *b)
{
	const struct ws_activity_thread *left = a, *right = b;

	if (left->cpu != right->cpu)
		return ws_compare(right->cpu, left->cpu);
	if (left->waited != right->waited)
		return ws_compare(right->waited, left->waited);
	return ws_compare(left->tid, right->tid);
}

/* For a thread that never leaves its core, samples are the better source, because its span is
 * recorded only at the end. */
static uint64_t choose_cpu_time(const struct ws_activity *activity, const struct thread *thread)
{
	uint64_t time = activity->samples ? thread->sampled : thread->scheduled;

	return ws_min(time, ws_max(activity->now, activity->from) - activity->from);
}

static void list_threads(struct ws_activity *activity, struct ws_activity_look *look)
{
	for (size_t i = 1; i < activity->thread_cap; i++) {
		struct thread *thread = &activity->threads[i];
		uint64_t cpu = choose_cpu_time(activity, thread);
		const struct process *process;

		if (!cpu && !thread->waited && !thread->ranges)
			continue;
		process = find_process(activity, thread->process);
		ws_grow(activity->out_threads, activity->out_thread_cap, look->thread_count + 1);
		activity->out_threads[look->thread_count++] =
			(struct ws_activity_thread){.pid = process->pid,
						    .tid = thread->tid,
						    .name = keep_name(activity, thread->name),
						    .process = keep_name(activity, process->name),
						    .cpu = cpu,
						    .waited = thread->waited,
						    .call = keep_name(activity, thread->call),
						    .ranges = thread->ranges};
		look->cpu += cpu;
		thread->sampled = thread->scheduled = thread->waited = thread->ranges = 0;
		thread->call_time = thread->call = 0;
	}
	look->threads = activity->out_threads;
	if (look->thread_count)
		qsort(look->threads, look->thread_count, sizeof(*look->threads), compare_threads);
}

static uint64_t count_all_rows(const struct ws_activity *activity)
{
	uint64_t rows = 0;

	for (uint32_t table = 0; table < WS_TABLE_COUNT; table++)
		rows += ws_follow_count_rows(activity->follow, (enum ws_table)table);
	return rows;
}

static void fill_facts(struct ws_activity *activity, struct ws_activity_look *look)
{
	uint64_t rows = count_all_rows(activity);

	look->seconds = (double)(activity->now - activity->from) / 1e9;
	look->events = rows - activity->rows;
	activity->rows = rows;
	look->collecting = activity->began && !activity->ended;
	if (activity->began)
		look->recording_ns =
			duration_of(activity->began, ws_or(activity->ended, activity->now));
	look->file_size = ws_follow_file_size(activity->follow);
	look->knows_cpu = activity->samples || activity->scheduling;
	look->lost = activity->lost;
	look->lost_what = keep_name(activity, activity->lost_what);
	look->lost_why = keep_name(activity, activity->lost_why);
	look->warnings = activity->warnings;
	look->warning = activity->warnings ? keep_name(activity, activity->warning) : NULL;
	look->command = keep_name(activity, activity->command);
}

bool ws_activity_look(struct ws_activity *activity, struct ws_activity_look *look,
		      struct ws_err *err)
{
	struct ws_activity_list kernels = look->kernels, ranges = look->ranges, calls = look->calls;

	*look = (struct ws_activity_look){.kernels = kernels, .ranges = ranges, .calls = calls};
	free_names(activity);
	activity->from = activity->now;
	activity->now = ws_read_raw_ns();
	look->state = ws_follow_read(activity->follow, take_rows, activity, err);
	if (look->state == WS_FOLLOW_FAILED)
		return false;
	list_sums(activity, &activity->kernels, &look->kernels);
	list_sums(activity, &activity->ranges, &look->ranges);
	list_sums(activity, &activity->calls, &look->calls);
	list_gpus(activity, look);
	list_threads(activity, look);
	fill_facts(activity, look);
	clear_sums(&activity->kernels);
	clear_sums(&activity->ranges);
	clear_sums(&activity->calls);
	return true;
}

struct ws_activity *ws_activity_open(const char *path, struct ws_err *err)
{
	struct ws_follow_opts opts = {0};
	struct ws_activity *activity;
	struct ws_follow *follow;

	for (size_t i = 0; i < WS_COUNT(sources); i++) {
		opts.columns[sources[i].table] = sources[i].columns;
		opts.from_start[sources[i].table] = sources[i].from_start;
	}
	follow = ws_follow_open(path, &opts, err);
	if (!follow)
		return NULL;
	activity = ws_calloc(1, sizeof(*activity));
	activity->follow = follow;
	activity->now = ws_read_raw_ns();
	return activity;
}

void ws_activity_free_look(struct ws_activity_look *look)
{
	free(look->kernels.items);
	free(look->ranges.items);
	free(look->calls.items);
}

static void free_sums(struct sums *sums)
{
	clear_sums(sums);
	free(sums->sums);
}

void ws_activity_close(struct ws_activity *activity)
{
	if (!activity)
		return;
	free_names(activity);
	free(activity->names);
	free_sums(&activity->kernels);
	free_sums(&activity->ranges);
	free_sums(&activity->calls);
	for (size_t i = 0; i < activity->gpu_count; i++)
		free(activity->gpus[i].spans);
	free(activity->gpus);
	free(activity->threads);
	free(activity->processes);
	free(activity->out_gpus);
	free(activity->out_threads);
	ws_follow_close(activity->follow);
	free(activity);
}
