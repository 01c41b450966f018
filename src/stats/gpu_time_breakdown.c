/*
 * gpu_time_breakdown.c - how GPUs spent their time: computing, communicating, moving memory, idle.
 *
 * Work comes in order of start, so that unions of spans can be computed in one pass
 * (query/intervals.h). A part is a GPU, one of its streams, a rank's share of it, a step, or the
 * ranges of one name. Work is added to each part that it belongs to:
 *
 * - stream or rank: the work that ran there or that it launched. The total lasts from the first
 *   start to the last end.
 * - step: the work that ran between the start and the end of the step, cut to these. The total is
 *   the length of the step.
 * - range: the work that was launched inside. The total is the sum over the ranges of the name,
 * each from the first start to the last end of its work.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "stats/gpu_work.h"
#include "base/choose.h"
#include "text/text_numbers.h"

static const struct ws_column columns[] = {
	{"GPU", WS_KIND_TEXT},
	{"Part", WS_KIND_TEXT},
	{"Total", WS_KIND_TIME},
	{"Busy", WS_KIND_TIME},
	{"Busy", WS_KIND_SHARE},
	{"Computation", WS_KIND_TIME},
	{"Computation", WS_KIND_SHARE},
	{"Communication", WS_KIND_TIME},
	{"Communication", WS_KIND_SHARE},
	{"Exposed Comm", WS_KIND_TIME},
	{"Exposed Comm", WS_KIND_SHARE},
	{"Memory", WS_KIND_TIME},
	{"Memory", WS_KIND_SHARE},
	{"Exposed Mem", WS_KIND_TIME},
	{"Exposed Mem", WS_KIND_SHARE},
	{"Idle", WS_KIND_TIME},
	{"Idle", WS_KIND_SHARE},
	{"Ops", WS_KIND_COUNT},
	{"Helper Ops", WS_KIND_COUNT},
};

enum part_kind { BY_GPU, BY_STREAM, BY_RANK, BY_STEP, BY_RANGE };

/* What a row shows: times in ns, or in parts of a nanosecond (see gpu_work.h), and operations. */
struct breakdown_line {
	uint64_t total, busy, compute, comm, exposed_comm, memory, exposed_memory, ops, helped;
};

struct breakdown {
	struct ws_stats *stats;
	struct ws_gpu_work work;
	enum part_kind kind;
	struct ws_launches *launches;
	struct ws_gpu_steps steps;
};

static void add_work_times(struct breakdown_line *line, const struct ws_work_times *times,
			   uint64_t total)
{
	line->total += total;
	line->busy += times->busy.length;
	line->compute += times->compute.length;
	line->comm += times->comm.length;
	line->exposed_comm += ws_work_measure_exposed_comm(times);
	line->memory += times->memory.length;
	line->exposed_memory += ws_work_measure_exposed_memory(times);
	line->ops += times->ops;
}

static void print_breakdown_line(struct breakdown *breakdown, const struct ws_work_gpu *gpu,
				 const char *part, size_t length, const struct breakdown_line *line)
{
	uint64_t idle = line->total - ws_min(line->total, line->busy);
	const uint64_t times[] = {line->busy,	line->compute,
				  line->comm,	line->exposed_comm,
				  line->memory, line->exposed_memory,
				  idle};
	struct ws_cell cells[WS_COUNT(columns)];
	struct ws_text name = {0};
	size_t cell_count = 0;

	ws_put_gpu_name(&breakdown->work, gpu, &name);
	cells[cell_count++] = ws_cell_text(name.text, name.len);
	cells[cell_count++] = ws_cell_text(part, length);
	cells[cell_count++] = ws_make_gpu_length_cell(&breakdown->work, line->total);
	for (size_t i = 0; i < WS_COUNT(times); i++) {
		cells[cell_count++] = ws_make_gpu_length_cell(&breakdown->work, times[i]);
		cells[cell_count++] = ws_cell_real(ws_compute_percent(times[i], line->total));
	}
	cells[cell_count++] = ws_cell_int((int64_t)line->ops);
	cells[cell_count] = ws_cell_int((int64_t)line->helped);
	breakdown->stats->row(breakdown->stats, cells);
	ws_text_free(&name);
}

/* ---- whole GPUs, streams and ranks ---- */

struct breakdown_part {
	uint32_t key; /* stream, or process */
	struct ws_work_times times;
};

struct breakdown_parts {
	struct breakdown_part *parts;
	size_t count, capacity, last;
};

/* The times of a part, which is added if it is new. */
static struct ws_work_times *find_part_times(struct breakdown_parts *parts, uint32_t key)
{
	if (parts->last < parts->count && parts->parts[parts->last].key == key)
		return &parts->parts[parts->last].times;
	for (parts->last = 0; parts->last < parts->count && parts->parts[parts->last].key != key;)
		parts->last++;
	if (parts->last == parts->count) {
		ws_grow(parts->parts, parts->capacity, parts->count + 1);
		parts->parts[parts->count++] = (struct breakdown_part){.key = key};
	}
	return &parts->parts[parts->last].times;
}

static int compare_part_keys(const void *first, const void *second)
{
	const struct breakdown_part *left = first, *right = second;

	return ws_compare(left->key, right->key);
}

static void print_part_line(struct breakdown *breakdown, const struct ws_work_gpu *gpu,
			    const struct breakdown_part *part)
{
	struct ws_text name = {0};
	struct breakdown_line line = {0};

	if (breakdown->kind == BY_GPU)
		ws_text_puts(&name, "all");
	else if (breakdown->kind == BY_STREAM)
		ws_text_printf(&name, "stream %" PRIu32, part->key);
	else
		ws_put_gpu_process_name(&breakdown->work, part->key, &name);
	add_work_times(&line, &part->times, part->times.last - part->times.first);
	print_breakdown_line(breakdown, gpu, name.text, name.len, &line);
	ws_text_free(&name);
}

static uint32_t get_part_key(const struct breakdown *breakdown, const struct ws_work_op *op)
{
	switch (breakdown->kind) {
	case BY_STREAM:
		return op->stream;
	case BY_RANK:
		return op->process;
	default:
		return 0;
	}
}

static void print_parts(struct breakdown *breakdown, const struct ws_work_gpu *gpu)
{
	struct breakdown_parts parts = {0};
	uint64_t start, end;

	for (size_t i = 0; i < gpu->count; i++)
		if (ws_cut_gpu_work(&breakdown->work, &gpu->op[i], &start, &end))
			ws_work_times_add(find_part_times(&parts,
							  get_part_key(breakdown, &gpu->op[i])),
					  gpu->op[i].class, start, end);
	if (parts.count)
		qsort(parts.parts, parts.count, sizeof(*parts.parts), compare_part_keys);
	for (size_t i = 0; i < parts.count; i++)
		print_part_line(breakdown, gpu, &parts.parts[i]);
	free(parts.parts);
}

/* ---- steps ---- */

static void add_work_to_steps(struct breakdown *breakdown, const struct ws_work_op *op,
			      struct ws_work_times *times)
{
	const struct ws_step *step = breakdown->steps.steps.steps;
	size_t i, last;

	ws_find_gpu_steps(&breakdown->steps, op->process, op->start, &i, &last);
	for (; i < last && (step[i].start < op->end || step[i].start == op->start); i++) {
		uint64_t start = ws_max(op->start, step[i].start),
			 end = ws_min(op->end, step[i].end);

		/* Work without length counts too; at the end of a step it belongs to what comes
		 * next. */
		if (end > start || (op->start == op->end && start < step[i].end && end == start))
			ws_work_times_add(&times[i], op->class, start, end);
	}
}

static void print_steps(struct breakdown *breakdown, const struct ws_work_gpu *gpu)
{
	const struct ws_steps *steps = &breakdown->steps.steps;
	struct ws_work_times *times = ws_calloc(steps->count + 1, sizeof(*times));

	ws_restart_gpu_steps(&breakdown->steps);
	for (size_t i = 0; i < gpu->count; i++)
		add_work_to_steps(breakdown, &gpu->op[i], times);
	for (size_t i = 0; i < steps->count; i++) {
		const struct ws_step *step = &steps->steps[i];
		struct ws_text name = {0};
		struct breakdown_line line = {0};

		if (!times[i].ops || step->end < breakdown->work.time_min ||
		    step->start > breakdown->work.time_max)
			continue;
		add_work_times(&line, &times[i], step->end - step->start);
		ws_put_gpu_step_name(&breakdown->work, step, &name);
		print_breakdown_line(breakdown, gpu, name.text, name.len, &line);
		ws_text_free(&name);
	}
	free(times);
}

/* ---- ranges ---- */

struct named_range {
	struct breakdown_line line;
	ws_range_key key;
};

static int compare_range_totals(const void *first, const void *second)
{
	const struct named_range *left = first, *right = second;

	if (left->line.total != right->line.total)
		return ws_compare(right->line.total, left->line.total);
	return ws_compare(left->key, right->key);
}

/* Add work to the ranges that it was launched in; `helped` counts work launched by helper
 * threads. */
static void add_work_to_ranges(struct breakdown *breakdown, const struct ws_work_op *op,
			       struct ws_work_times *times, uint64_t *helped)
{
	const struct ws_enclose *enclose = &breakdown->launches->enclose;
	uint32_t call = ws_find_launch_call(breakdown->launches, op->process, op->correlation);
	uint64_t start, end;

	if (call == WS_NO_CALL || !ws_cut_gpu_work(&breakdown->work, op, &start, &end))
		return;
	for (uint32_t node = enclose->node_of_call[call]; node; node = enclose->node[node].parent) {
		ws_work_times_add(&times[enclose->node[node].range], op->class, start, end);
		helped[enclose->node[node].range] += ws_is_helped_node(enclose, call, node);
	}
}

static void print_ranges(struct breakdown *breakdown, const struct ws_work_gpu *gpu)
{
	struct ws_work_times *times =
		ws_calloc((size_t)breakdown->launches->ranges.count + 1, sizeof(*times));
	uint64_t *helped =
		ws_calloc((size_t)breakdown->launches->ranges.count + 1, sizeof(*helped));
	struct ws_keyed_dists keys = {.words = 1};
	struct named_range *named;

	for (size_t i = 0; i < gpu->count; i++)
		add_work_to_ranges(breakdown, &gpu->op[i], times, helped);
	for (uint32_t i = 0; i < breakdown->launches->ranges.count; i++)
		if (times[i].ops)
			ws_keyed_get(&keys,
				     &(ws_range_key){ws_make_range_key(breakdown->launches, i) &
						     ~WS_RANGE_STARTEND});
	named = ws_calloc(keys.count + 1, sizeof(*named));
	for (uint32_t i = 0; i < breakdown->launches->ranges.count; i++) {
		if (!times[i].ops)
			continue;
		ws_keyed_get(&keys, &(ws_range_key){ws_make_range_key(breakdown->launches, i) &
						    ~WS_RANGE_STARTEND});
		named[keys.last].key = keys.keys[keys.last];
		add_work_times(&named[keys.last].line, &times[i], times[i].last - times[i].first);
		named[keys.last].line.helped += helped[i];
	}
	if (keys.count)
		qsort(named, keys.count, sizeof(*named), compare_range_totals);
	for (size_t i = 0; i < keys.count; i++) {
		size_t length;
		char *name = ws_make_range_name(breakdown->launches, named[i].key, &length);

		print_breakdown_line(breakdown, gpu, name, length, &named[i].line);
		free(name);
	}
	ws_keyed_free(&keys);
	free(named);
	free(times);
	free(helped);
}

/* ---- the report ---- */

/* Count memsets as computation, as other tools do: only copies are left as memory. */
static void count_sets_as_computation(struct breakdown *breakdown)
{
	for (size_t gpu = 0; gpu < breakdown->work.work.gpus; gpu++)
		for (size_t i = 0; i < breakdown->work.work.gpu[gpu].count; i++)
			if (breakdown->work.work.gpu[gpu].op[i].set)
				breakdown->work.work.gpu[gpu].op[i].class = WS_WORK_COMPUTE;
}

static void convert_to_doubles(struct breakdown *breakdown)
{
	ws_convert_gpu_work_to_doubles(&breakdown->work);
	for (size_t i = 0; i < breakdown->steps.steps.count && breakdown->work.parts > 1; i++) {
		struct ws_step *step = &breakdown->steps.steps.steps[i];

		step->start = ws_convert_gpu_work_time(&breakdown->work, step->start);
		step->end = ws_convert_gpu_work_time(&breakdown->work, step->end);
		breakdown->steps.latest[i] =
			ws_convert_gpu_work_time(&breakdown->work, breakdown->steps.latest[i]);
	}
}

static int make_gpu_time_breakdown_rows(struct ws_stats *stats, struct ws_err *err)
{
	static const char *const words[] = {[BY_STREAM] = "stream",
					    [BY_RANK] = "rank",
					    [BY_STEP] = "step",
					    [BY_RANGE] = "range"};
	struct breakdown breakdown = {.stats = stats};
	int status;

	for (int i = BY_STREAM; i <= BY_RANGE; i++)
		if (ws_get_stats_arg(stats, words[i]))
			breakdown.kind = (enum part_kind)i;
	if (ws_get_stats_arg(stats, "step=*"))
		breakdown.kind = BY_STEP;
	status = ws_gpu_work_open(stats, &breakdown.work, err);
	if (!status && breakdown.kind == BY_STEP)
		status = ws_gpu_steps_open(stats, ws_get_stats_arg(stats, "step=*"),
					   &breakdown.steps, err);
	if (!status && !ws_get_stats_arg(stats, "exact"))
		convert_to_doubles(&breakdown);
	if (!status && ws_get_stats_arg(stats, "copies"))
		count_sets_as_computation(&breakdown);
	if (!status && breakdown.kind == BY_RANGE &&
	    !(breakdown.launches = ws_launches_open(stats, WS_ANY_RANGES, err)))
		status = -1;
	if (!status && breakdown.launches)
		status = ws_put_helper_launches(stats, breakdown.launches, err);
	if (breakdown.launches)
		breakdown.launches->fold = stats->fold;
	for (size_t i = 0; !status && i < breakdown.work.work.gpus; i++) {
		if (breakdown.kind == BY_STEP)
			print_steps(&breakdown, &breakdown.work.work.gpu[i]);
		else if (breakdown.kind == BY_RANGE)
			print_ranges(&breakdown, &breakdown.work.work.gpu[i]);
		else
			print_parts(&breakdown, &breakdown.work.work.gpu[i]);
	}
	ws_launches_close(breakdown.launches);
	ws_gpu_steps_close(&breakdown.steps);
	ws_gpu_work_close(&breakdown.work);
	return status;
}

static const char *const args[] = {"stream", "rank",  "step",	     "step=*", "range",
				   "copies", "exact", WS_HELPER_ARG, NULL};

const struct ws_stats_report ws_stat_gpu_time_breakdown = {
	.name = "gpu_time_breakdown",
	.title = "GPU Time Breakdown",
	.about = "How each GPU spent the time from its first work to its last: busy, computing, "
		 "communicating (NCCL), moving memory, idle; "
		 "exposed "
		 "is what no computation hides (and, for memory, no communication either). "
		 ":stream, :rank, :step or :range show the parts; "
		 ":step=NAME takes NVTX ranges of that name as steps; with :range, :helper-threads "
		 "counts the work of threads that a range's thread waits for, like PyTorch's "
		 "backward pass, too, and says how much in the column Helper Ops. Memory is copies "
		 "and sets; "
		 ":copies counts sets as computation, as "
		 "TraceLens does. Times of PyTorch's traces are those that doubles of its "
		 "microseconds give, "
		 "to compare with other tools' tables; :exact has the nanoseconds as they are "
		 "written",
	.what = "CUDA operations on GPUs",
	.unended = "had no times",
	.args = args,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.last_column_arg = WS_HELPER_ARG,
	.run = make_gpu_time_breakdown_rows,
};
