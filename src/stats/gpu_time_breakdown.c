/*
 * gpu_time_breakdown.c - how GPUs spent their time: computing, communicating, moving memory, idle.
 *
 * Work comes in order of start, so every length is that of a union made on the way
 * (query/intervals.h). A part is a GPU, one of its streams, a rank's share of it, a step, or the
 * ranges of a name; work is added to each part that it belongs to:
 *
 *   stream, rank   by what launched it or where it ran; the total is from the first start to the
 * last end in the part step           what ran between the step's start and its end, cut to that;
 * the total is the step range          what was launched inside; the totals of a range's instances,
 * each from the first start to the last end, are added up
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "stats/gpu_work.h"
#include "base/choose.h"
#include "text/texts.h"

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
};

enum part_kind { BY_GPU, BY_STREAM, BY_RANK, BY_STEP, BY_RANGE };

/* What a line shows: sums over one or more of ws_work_times. */
struct line {
	uint64_t total, busy, compute, comm, exposed_comm, memory, exposed_memory, ops;
};

struct breakdown {
	struct ws_stats *stats;
	struct ws_gpu_work work;
	enum part_kind kind;
	struct ws_launches *launches;
	struct ws_gpu_steps steps;
};

static void add_times(struct line *line, const struct ws_work_times *times, uint64_t total)
{
	line->total += total;
	line->busy += times->busy.length;
	line->compute += times->compute.length;
	line->comm += times->comm.length;
	line->exposed_comm += ws_work_exposed_comm(times);
	line->memory += times->memory.length;
	line->exposed_memory += ws_work_exposed_memory(times);
	line->ops += times->ops;
}

static void print(struct breakdown *breakdown, const struct ws_work_gpu *gpu, const char *part,
		  size_t len, const struct line *line)
{
	uint64_t idle = line->total > line->busy ? line->total - line->busy : 0;
	const uint64_t times[] = {line->busy,	line->compute,
				  line->comm,	line->exposed_comm,
				  line->memory, line->exposed_memory,
				  idle};
	struct ws_cell cells[WS_COUNT(columns)];
	struct ws_text name = {0};
	size_t n = 0;

	ws_gpu_work_name(&breakdown->work, gpu, &name);
	cells[n++] = ws_cell_text(name.text, name.len);
	cells[n++] = ws_cell_text(part, len);
	cells[n++] = ws_gpu_work_length(&breakdown->work, line->total);
	for (size_t i = 0; i < WS_COUNT(times); i++) {
		cells[n++] = ws_gpu_work_length(&breakdown->work, times[i]);
		cells[n++] =
			ws_cell_real(line->total ? (long double)times[i] * 100 / line->total : 0);
	}
	cells[n] = ws_cell_int((int64_t)line->ops);
	breakdown->stats->row(breakdown->stats, cells);
	ws_text_free(&name);
}

/* ---- whole GPUs, streams and ranks ---- */

struct part {
	uint32_t key; /* stream, or process */
	struct ws_work_times times;
};

struct parts {
	struct part *parts;
	size_t n, cap, last;
};

static struct ws_work_times *part_of(struct parts *parts, uint32_t key)
{
	if (parts->last < parts->n && parts->parts[parts->last].key == key)
		return &parts->parts[parts->last].times;
	for (parts->last = 0; parts->last < parts->n && parts->parts[parts->last].key != key;)
		parts->last++;
	if (parts->last == parts->n) {
		ws_grow(parts->parts, parts->cap, parts->n + 1);
		parts->parts[parts->n++] = (struct part){.key = key};
	}
	return &parts->parts[parts->last].times;
}

static int by_key(const void *first, const void *second)
{
	const struct part *left = first, *right = second;

	return ws_compare(left->key, right->key);
}

static void print_part(struct breakdown *breakdown, const struct ws_work_gpu *gpu,
		       const struct part *part)
{
	struct ws_text name = {0};
	struct line line = {0};

	if (breakdown->kind == BY_GPU)
		ws_text_puts(&name, "all");
	else if (breakdown->kind == BY_STREAM)
		ws_text_printf(&name, "stream %" PRIu32, part->key);
	else
		ws_gpu_work_process(&breakdown->work, part->key, &name);
	add_times(&line, &part->times, part->times.last - part->times.first);
	print(breakdown, gpu, name.text, name.len, &line);
	ws_text_free(&name);
}

static void by_place(struct breakdown *breakdown, const struct ws_work_gpu *gpu)
{
	struct parts parts = {0};
	uint64_t start, end;

	for (size_t i = 0; i < gpu->n; i++)
		if (ws_gpu_work_cut(&breakdown->work, &gpu->op[i], &start, &end))
			ws_work_times_add(part_of(&parts, breakdown->kind == BY_GPU ? 0
							  : breakdown->kind == BY_STREAM
								  ? gpu->op[i].stream
								  : gpu->op[i].process),
					  gpu->op[i].class, start, end);
	if (parts.n)
		qsort(parts.parts, parts.n, sizeof(*parts.parts), by_key);
	for (size_t i = 0; i < parts.n; i++)
		print_part(breakdown, gpu, &parts.parts[i]);
	free(parts.parts);
}

/* ---- steps ---- */

static void add_to_steps(struct breakdown *breakdown, const struct ws_work_op *op,
			 struct ws_work_times *times)
{
	const struct ws_step *step = breakdown->steps.steps.steps;
	size_t i, last;

	ws_gpu_steps_from(&breakdown->steps, op->process, op->start, &i, &last);
	for (; i < last && (step[i].start < op->end || step[i].start == op->start); i++) {
		uint64_t start = ws_max(op->start, step[i].start),
			 end = ws_min(op->end, step[i].end);

		/* Work without length is work all the same; that at the end of a step belongs to
		 * what comes next. */
		if (end > start || (op->start == op->end && start < step[i].end && end == start))
			ws_work_times_add(&times[i], op->class, start, end);
	}
}

static void by_step(struct breakdown *breakdown, const struct ws_work_gpu *gpu)
{
	const struct ws_steps *steps = &breakdown->steps.steps;
	struct ws_work_times *times = ws_calloc(steps->n + 1, sizeof(*times));

	ws_gpu_steps_begin(&breakdown->steps);
	for (size_t i = 0; i < gpu->n; i++)
		add_to_steps(breakdown, &gpu->op[i], times);
	for (size_t i = 0; i < steps->n; i++) {
		const struct ws_step *step = &steps->steps[i];
		struct ws_text name = {0};
		struct line line = {0};

		if (!times[i].ops || step->end < breakdown->work.time_min ||
		    step->start > breakdown->work.time_max)
			continue;
		add_times(&line, &times[i], step->end - step->start);
		ws_gpu_steps_name(&breakdown->work, step, &name);
		print(breakdown, gpu, name.text, name.len, &line);
		ws_text_free(&name);
	}
	free(times);
}

/* ---- ranges ---- */

struct named {
	struct line line;
	ws_range_key key;
};

static int by_total(const void *first, const void *second)
{
	const struct named *left = first, *right = second;

	if (left->line.total != right->line.total)
		return left->line.total > right->line.total ? -1 : 1;
	return ws_compare(left->key, right->key);
}

static void by_range(struct breakdown *breakdown, const struct ws_work_gpu *gpu)
{
	const struct ws_enclose_node *node = breakdown->launches->enclose.node;
	struct ws_work_times *times =
		ws_calloc((size_t)breakdown->launches->ranges.n + 1, sizeof(*times));
	struct ws_keyed keys = {.words = 1};
	struct named *named;

	for (size_t i = 0; i < gpu->n; i++) {
		uint32_t n = ws_launches_node(breakdown->launches, gpu->op[i].process,
					      gpu->op[i].correlation);
		uint64_t start, end;

		for (; n && ws_gpu_work_cut(&breakdown->work, &gpu->op[i], &start, &end);
		     n = node[n].parent)
			ws_work_times_add(&times[node[n].range], gpu->op[i].class, start, end);
	}
	for (uint32_t i = 0; i < breakdown->launches->ranges.n; i++)
		if (times[i].ops)
			ws_keyed_get(&keys,
				     &(ws_range_key){ws_launches_key(breakdown->launches, i) &
						     ~WS_RANGE_STARTEND});
	named = ws_calloc(keys.n + 1, sizeof(*named));
	for (uint32_t i = 0; i < breakdown->launches->ranges.n; i++) {
		if (!times[i].ops)
			continue;
		ws_keyed_get(&keys, &(ws_range_key){ws_launches_key(breakdown->launches, i) &
						    ~WS_RANGE_STARTEND});
		named[keys.last].key = keys.keys[keys.last];
		add_times(&named[keys.last].line, &times[i], times[i].last - times[i].first);
	}
	if (keys.n)
		qsort(named, keys.n, sizeof(*named), by_total);
	for (size_t i = 0; i < keys.n; i++) {
		size_t len;
		char *name = ws_launches_range_name(breakdown->launches, named[i].key, &len);

		print(breakdown, gpu, name, len, &named[i].line);
		free(name);
	}
	ws_keyed_free(&keys);
	free(named);
	free(times);
}

/* ---- the report ---- */

/* Memory sets as computation, memory as copies alone: as other tools have it. */
static void take_sets(struct breakdown *breakdown)
{
	for (size_t g = 0; g < breakdown->work.work.gpus; g++)
		for (size_t i = 0; i < breakdown->work.work.gpu[g].n; i++)
			if (breakdown->work.work.gpu[g].op[i].set)
				breakdown->work.work.gpu[g].op[i].class = WS_WORK_COMPUTE;
}

static void in_doubles(struct breakdown *breakdown)
{
	ws_gpu_work_in_doubles(&breakdown->work);
	for (size_t i = 0; i < breakdown->steps.steps.n && breakdown->work.parts > 1; i++) {
		struct ws_step *step = &breakdown->steps.steps.steps[i];

		step->start = ws_gpu_work_moment(&breakdown->work, step->start);
		step->end = ws_gpu_work_moment(&breakdown->work, step->end);
		breakdown->steps.latest[i] =
			ws_gpu_work_moment(&breakdown->work, breakdown->steps.latest[i]);
	}
}

static int run(struct ws_stats *stats, struct ws_err *err)
{
	static const char *const words[] = {[BY_STREAM] = "stream",
					    [BY_RANK] = "rank",
					    [BY_STEP] = "step",
					    [BY_RANGE] = "range"};
	struct breakdown breakdown = {.stats = stats};
	int rc;

	for (int i = BY_STREAM; i <= BY_RANGE; i++)
		if (ws_stats_arg(stats, words[i]))
			breakdown.kind = (enum part_kind)i;
	if (ws_stats_arg(stats, "step=*"))
		breakdown.kind = BY_STEP;
	rc = ws_gpu_work_open(stats, &breakdown.work, err);
	if (!rc && breakdown.kind == BY_STEP)
		rc = ws_gpu_steps_open(stats, ws_stats_arg(stats, "step=*"), &breakdown.steps, err);
	if (!rc && !ws_stats_arg(stats, "exact"))
		in_doubles(&breakdown);
	if (!rc && ws_stats_arg(stats, "copies"))
		take_sets(&breakdown);
	if (!rc && breakdown.kind == BY_RANGE)
		rc = (breakdown.launches = ws_launches_open(stats, WS_ANY_RANGES, err)) ? 0 : -1;
	for (size_t i = 0; !rc && i < breakdown.work.work.gpus; i++) {
		if (breakdown.kind == BY_STEP)
			by_step(&breakdown, &breakdown.work.work.gpu[i]);
		else if (breakdown.kind == BY_RANGE)
			by_range(&breakdown, &breakdown.work.work.gpu[i]);
		else
			by_place(&breakdown, &breakdown.work.work.gpu[i]);
	}
	ws_launches_close(breakdown.launches);
	ws_gpu_steps_close(&breakdown.steps);
	ws_gpu_work_close(&breakdown.work);
	return rc;
}

static const char *const args[] = {"stream", "rank",   "step",	"step=*",
				   "range",  "copies", "exact", NULL};

const struct ws_stat ws_stat_gpu_time_breakdown = {
	.name = "gpu_time_breakdown",
	.title = "GPU Time Breakdown",
	.about = "How each GPU spent the time from its first work to its last: busy, computing, "
		 "communicating (NCCL), moving memory, idle; "
		 "exposed "
		 "is what no computation hides (and, for memory, no communication either). "
		 ":stream, :rank, :step or :range show the parts; "
		 ":step=NAME takes NVTX ranges of that name as steps. Memory is copies and sets; "
		 ":copies counts sets as computation, as "
		 "TraceLens does. Times of PyTorch's traces are those that doubles of its "
		 "microseconds give, "
		 "to compare with other tools' tables; :exact has the nanoseconds as they are "
		 "written",
	.what = "CUDA work on GPUs",
	.unended = "had no times",
	.args = args,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = run,
};
