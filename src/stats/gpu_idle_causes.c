/*
 * gpu_idle_causes.c - the gaps between work on a GPU, or in parts of it, by what ended them.
 *
 * A gap lasts from the latest end so far to the start of the next work. Its cause follows from the
 * call that launched that work:
 *
 * - host: the call began after the gap did, so the GPU had nothing to do.
 * - launch: the call began before the gap, which is shorter than `delay`: the time that a GPU needs
 *   from one piece of work to the next.
 * - waiting: the call began before the gap, which is longer than `delay`: the work waited for an
 *   event, for another stream or for free resources of the GPU.
 * - unknown: the call was not recorded.
 *
 * By stream or rank, gaps are those between the work of each. By step, they are those of the rank,
 * cut to its steps. By range, a gap of the GPU belongs to all ranges in which the work that ended
 * it was launched: these are what the GPU waited for.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "stats/gpu_work.h"
#include "base/choose.h"
#include "stats/summary_rows.h"

enum { DEFAULT_DELAY = 30000 /* ns */ };

static const struct ws_column columns[] = {
	{"Time", WS_KIND_PERCENT}, {"Idle Time", WS_KIND_TIME}, {"Gaps", WS_KIND_COUNT},
	{"Avg", WS_KIND_MEAN},	   {"Med", WS_KIND_MEAN},	{"Min", WS_KIND_TIME},
	{"Max", WS_KIND_TIME},	   {"StdDev", WS_KIND_MEAN},	{"Cause", WS_KIND_TEXT},
	{"GPU", WS_KIND_TEXT},
};

enum cause { HOST, LAUNCH, WAITING, UNKNOWN };
static const char *const cause_names[] = {"host", "launch", "waiting", "unknown"};

enum part_kind { BY_GPU, BY_STREAM, BY_RANK, BY_STEP, BY_RANGE };
enum {
	KEY_GPU,
	KEY_PART,
	KEY_CAUSE,
	KEY_WORDS
}; /* the part is a stream, a process, the index of a step, or the key of a range */

struct idle_causes {
	struct ws_stats *stats;
	struct ws_gpu_work work;
	struct ws_launches *launches;
	struct ws_gpu_steps steps;
	enum part_kind kind;
	uint64_t delay;
	struct ws_keyed_dists gaps;
};

static enum cause find_cause(const struct idle_causes *idle, const struct ws_work_op *op,
			     uint64_t since, uint64_t until)
{
	uint32_t call = ws_find_launch_call(idle->launches, op->process, op->correlation);

	if (call == WS_NO_CALL)
		return UNKNOWN;
	if (idle->launches->calls.rows.col[ws_cuda_api_start][call] > since)
		return HOST;
	if (until - since < idle->delay)
		return LAUNCH;
	return WAITING;
}

static void add_gap(struct idle_causes *idle, size_t gpu, uint64_t part, enum cause cause,
		    uint64_t from, uint64_t to)
{
	if (to > from)
		ws_dist_add(ws_keyed_get(&idle->gaps, (uint64_t[KEY_WORDS]){gpu, part, cause}),
			    to - from);
}

static void add_gap_to_steps(struct idle_causes *idle, size_t gpu, uint32_t process,
			     enum cause cause, uint64_t from, uint64_t to)
{
	const struct ws_step *step = idle->steps.steps.steps;
	size_t i, last;

	ws_find_gpu_steps(&idle->steps, process, from, &i, &last);
	for (; i < last && step[i].start < to; i++)
		add_gap(idle, gpu, i, cause, ws_max(from, step[i].start), ws_min(to, step[i].end));
}

static void attribute_gap(struct idle_causes *idle, size_t gpu, const struct ws_work_op *op,
			  uint64_t since)
{
	uint64_t from = ws_max(since, idle->stats->time_min);
	uint64_t to = ws_min(op->start, idle->stats->time_max);
	enum cause cause = find_cause(idle, op, since, op->start);

	switch (idle->kind) {
	case BY_STEP:
		add_gap_to_steps(idle, gpu, op->process, cause, from, to);
		return;
	case BY_RANGE:
		for (uint32_t node =
			     ws_find_launch_node(idle->launches, op->process, op->correlation);
		     node; node = idle->launches->enclose.node[node].parent)
			add_gap(idle, gpu, ws_make_node_range_key(idle->launches, node), cause,
				from, to);
		return;
	case BY_STREAM:
		add_gap(idle, gpu, op->stream, cause, from, to);
		return;
	case BY_RANK:
		add_gap(idle, gpu, op->process, cause, from, to);
		return;
	case BY_GPU:
		add_gap(idle, gpu, 0, cause, from, to);
		return;
	}
}

static void find_gaps(struct idle_causes *idle, size_t gpu_index)
{
	const struct ws_work_gpu *gpu = &idle->work.work.gpu[gpu_index];
	bool streams = idle->kind == BY_STREAM,
	     processes = streams || idle->kind == BY_RANK || idle->kind == BY_STEP;
	struct {
		uint32_t process, stream;
		uint64_t until;
	} *last = NULL; /* until when there has been work, by process and stream */
	size_t part_count = 0, capacity = 0, part = 0;

	if (idle->kind == BY_STEP)
		ws_restart_gpu_steps(&idle->steps);
	for (size_t i = 0; i < gpu->count; i++) {
		const struct ws_work_op *op = &gpu->op[i];
		uint32_t process = op->process * processes, stream = op->stream * streams;

		if (part >= part_count || last[part].process != process ||
		    last[part].stream != stream)
			for (part = 0; part < part_count && (last[part].process != process ||
							     last[part].stream != stream);)
				part++;
		if (part == part_count) {
			ws_grow(last, capacity, part_count + 1);
			last[part_count].process = process;
			last[part_count].stream = stream;
			last[part_count++].until = op->end;
			continue;
		}
		if (op->start > last[part].until)
			attribute_gap(idle, gpu_index, op, last[part].until);
		last[part].until = ws_max(op->end, last[part].until);
	}
	free(last);
}

/* "NVIDIA H200 (0) stream 7" */
static void name_part(const struct idle_causes *idle, const uint64_t *key, struct ws_text *text)
{
	size_t length;
	char *range;

	ws_put_gpu_name(&idle->work, &idle->work.work.gpu[key[KEY_GPU]], text);
	if (idle->kind == BY_GPU)
		return;
	ws_text_puts(text, " ");
	if (idle->kind == BY_STREAM) {
		ws_text_printf(text, "stream %" PRIu64, key[KEY_PART]);
	} else if (idle->kind == BY_RANK) {
		ws_put_gpu_process_name(&idle->work, (uint32_t)key[KEY_PART], text);
	} else if (idle->kind == BY_STEP) {
		ws_put_gpu_step_name(&idle->work, &idle->steps.steps.steps[key[KEY_PART]], text);
	} else {
		range = ws_make_range_name(idle->launches, key[KEY_PART], &length);
		ws_text_add(text, range, length);
		free(range);
	}
}

static void print_idle_causes(struct idle_causes *idle)
{
	struct ws_keyed_sums sums;
	struct ws_summary_row *lines;
	struct ws_text *names;

	ws_keyed_merge(&idle->gaps, 1, NULL, NULL, &sums);
	lines = ws_calloc(sums.count + 1, sizeof(*lines));
	names = ws_calloc(sums.count + 1, sizeof(*names));
	for (size_t i = 0; i < sums.count; i++) {
		const uint64_t *key = sums.keys + i * KEY_WORDS;

		name_part(idle, key, &names[i]);
		lines[i] = (struct ws_summary_row){.summary = &sums.summaries[i],
						   .style = cause_names[key[KEY_CAUSE]],
						   .name = names[i].text,
						   .name_length = names[i].len};
	}
	ws_print_summary_rows(idle->stats, lines, sums.count);
	for (size_t i = 0; i < sums.count; i++)
		ws_text_free(&names[i]);
	free(names);
	free(lines);
	ws_keyed_sums_free(&sums);
}

static int make_gpu_idle_causes_rows(struct ws_stats *stats, struct ws_err *err)
{
	static const char *const words[] = {[BY_STREAM] = "stream",
					    [BY_RANK] = "rank",
					    [BY_STEP] = "step",
					    [BY_RANGE] = "range"};
	struct idle_causes idle = {.stats = stats,
				   .gaps = {.words = KEY_WORDS, .dists_per_key = 1},
				   .delay =
					   ws_get_stats_arg_number(stats, "delay=", DEFAULT_DELAY)};
	int ranges = false, status = ws_gpu_work_open(stats, &idle.work, err);

	for (int i = BY_STREAM; i <= BY_RANGE; i++)
		if (ws_get_stats_arg(stats, words[i]))
			idle.kind = (enum part_kind)i;
	if (ws_get_stats_arg(stats, "step=*"))
		idle.kind = BY_STEP;
	if (idle.kind == BY_RANGE)
		ranges = WS_ANY_RANGES;
	if (!status && !(idle.launches = ws_launches_open(stats, ranges, err)))
		status = -1;
	if (!status)
		idle.launches->fold = stats->fold;
	if (!status && idle.kind == BY_STEP)
		status = ws_gpu_steps_open(stats, ws_get_stats_arg(stats, "step=*"), &idle.steps,
					   err);
	if (!status) {
		for (size_t i = 0; i < idle.work.work.gpus; i++)
			find_gaps(&idle, i);
		print_idle_causes(&idle);
	}
	ws_gpu_steps_close(&idle.steps);
	ws_launches_close(idle.launches);
	ws_gpu_work_close(&idle.work);
	return status;
}

static const char *const args[] = {"stream", "rank", "step", "step=*", "range", "delay=", NULL};

const struct ws_stats_report ws_stat_gpu_idle_causes = {
	.name = "gpu_idle_causes",
	.title = "GPU Idle Time by Cause",
	.about =
		"Gaps between work on a GPU by what the next work says of them. host: it was "
		"launched only after the gap began; "
		"launch: it had been launched, and the gap is shorter than 30 us "
		"(:delay=NANOSECONDS); waiting: likewise, but longer; "
		"unknown: its call was not recorded. :stream, :rank, :step or :range look at parts",
	.what = "gaps between CUDA operations on GPUs",
	.unended = "had no times",
	.args = args,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_gpu_idle_causes_rows,
};
