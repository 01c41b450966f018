/*
 * repeat.c - see repeat.h.
 *
 * A step is recognised by an anchor: a kernel that occurs once in each. The distances between an
 * anchor's occurrences, counted in kernels, are nearly all equal, or grow from each to the next, as
 * in a program that keeps adding to its work. The name that occurs least often, but at least four
 * times, marks the longest sequence. Where every kernel occurs more often than once in each step,
 * as in layers of one kind, the distances themselves repeat, and each so many occurrences of a
 * kernel are a step. Where most work is done by CUDA graphs, their launches take the place of
 * kernels.
 */
#include "analyze/repeat.h"

#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/map.h"
#include "base/mem.h"

enum { LEAST_STEPS = 4, LEAST_GROWING = 12, MOST_NAMES = 4096, MOST_IN_STEP = 128 };
/* A pause is a tenth of all steps, or more, and takes 20 times as long as the others. */
enum { LONG_PART = 10, LONG_STEP = 20 };
#define GROWING_SHARE 0.95 /* share of distances that are not less than the one before */
#define REGULAR_SHARE 0.7  /* share of distances that are equal to the usual one */
#define COVERED_SHARE 0.5  /* share of all kernels that lie in steps */
#define SAME_SHARE 0.9	   /* share of distances that are the same in the step before */

/* A table of what is launched. */
struct launch_source {
	enum ws_table table;
	uint64_t columns;
	uint32_t process, correlation; /* columns */
	uint64_t (*find_key)(const struct ws_report *report, uint64_t *const *col, size_t row);
};

static uint64_t find_kernel_key(const struct ws_report *report, uint64_t *const *col, size_t row)
{
	uint64_t text = ws_or(col[ws_cuda_kernel_demangled][row], col[ws_cuda_kernel_name][row]);

	return ws_report_string_key(report, (uint32_t)text);
}

static uint64_t find_graph_key(const struct ws_report *report, uint64_t *const *col, size_t row)
{
	(void)report;
	return col[ws_cuda_graph_trace_graph][row];
}

static const struct launch_source kernel_source = {
	WS_TABLE_cuda_kernel,
	WS_COLUMN_BIT(cuda_kernel, start) | WS_COLUMN_BIT(cuda_kernel, process) |
		WS_COLUMN_BIT(cuda_kernel, correlation) | WS_COLUMN_BIT(cuda_kernel, demangled) |
		WS_COLUMN_BIT(cuda_kernel, name),
	ws_cuda_kernel_process, ws_cuda_kernel_correlation, find_kernel_key};

static const struct launch_source graph_source = {
	WS_TABLE_cuda_graph_trace,
	WS_COLUMN_BIT(cuda_graph_trace, start) | WS_COLUMN_BIT(cuda_graph_trace, process) |
		WS_COLUMN_BIT(cuda_graph_trace, correlation) |
		WS_COLUMN_BIT(cuda_graph_trace, graph),
	ws_cuda_graph_trace_process, ws_cuda_graph_trace_correlation, find_graph_key};

struct launch_sequence {
	const struct launch_source *source;
	uint32_t *name; /* by kernel in order of start: number of its name */
	uint64_t *row;	/* its row */
	size_t count;
	struct ws_rows rows;
	uint32_t *uses; /* by number of a name */
	uint32_t names;
};

/* The number of a text or id, from 1 in order of appearance. */
static uint32_t number_name(struct launch_sequence *sequence, struct ws_map *numbers, uint64_t key)
{
	uint64_t number = ws_map_get(numbers, key, NULL);

	if (!number) {
		number = ++sequence->names;
		ws_map_set(numbers, key, number);
	}
	return (uint32_t)number;
}

static int load_sequence(const struct ws_model *model, struct launch_sequence *sequence)
{
	struct ws_map numbers = {0};
	struct ws_err err;
	uint64_t *const *col = sequence->rows.col;
	struct ws_scan scan = {.table = sequence->source->table,
			       .columns = sequence->source->columns,
			       .time_max = UINT64_MAX};

	if (ws_rows_load(model->report, &scan, &sequence->rows, &err))
		return -1;
	sequence->name = ws_malloc(sequence->rows.rows * sizeof(*sequence->name) + 1);
	sequence->row = ws_malloc(sequence->rows.rows * sizeof(*sequence->row) + 1);
	sequence->uses = ws_calloc(sequence->rows.rows + 1, sizeof(*sequence->uses));
	for (size_t i = 0; i < sequence->rows.rows; i++) {
		uint32_t number;

		if (col[sequence->source->process][i] != model->process)
			continue;
		number = number_name(sequence, &numbers,
				     sequence->source->find_key(model->report, col, i));
		sequence->uses[number]++;
		sequence->name[sequence->count] = number;
		sequence->row[sequence->count++] = i;
	}
	ws_map_free(&numbers);
	return 0;
}

static void join_names(struct launch_sequence *sequence)
{
	for (size_t i = 0; i < sequence->count; i++)
		sequence->name[i] = 1;
	sequence->uses[1] = (uint32_t)sequence->count;
	sequence->names = 1;
}

/* Graphs that are made for one launch each have no two the same: they count as one. */
static void join_single_graphs(struct launch_sequence *sequence)
{
	if (sequence->source != &graph_source || sequence->names * 2 <= sequence->count)
		return;
	join_names(sequence);
}

/*
 * Where all kernels are one, what its thread does between two launches tells them apart: the first
 * after a copy, a wait or an allocation begins something.
 */
static bool split_single_kernel(const struct ws_model *model, struct launch_sequence *sequence)
{
	uint64_t *const *col = model->calls.rows.col;
	uint32_t last = WS_NO_CALL;

	if (sequence->source != &kernel_source || sequence->names != 1)
		return false;
	sequence->uses = ws_realloc(sequence->uses, 3 * sizeof(*sequence->uses));
	sequence->uses[1] = sequence->uses[2] = 0;
	for (size_t i = 0; i < sequence->count; i++) {
		uint32_t call = ws_calls_find(
			&model->calls, model->process,
			sequence->rows.col[sequence->source->correlation][sequence->row[i]]);
		bool follows = call != WS_NO_CALL && last != WS_NO_CALL && call == last + 1 &&
			       col[ws_cuda_api_thread][call] == col[ws_cuda_api_thread][last];

		sequence->name[i] = follows ? 1 : 2;
		sequence->uses[sequence->name[i]]++;
		last = call;
	}
	sequence->names = 2;
	return true;
}

static int compare_numbers(const void *first, const void *second)
{
	return ws_compare(*(const uint32_t *)first, *(const uint32_t *)second);
}

/* Whether distances, in order of time, grow all the while, to one and a half times the first. */
static bool is_growing(const uint32_t *distances, size_t count)
{
	size_t grown = 0;

	if (count < LEAST_GROWING)
		return false;
	for (size_t i = 1; i < count; i++)
		grown += distances[i] >= distances[i - 1];
	return (double)grown >= GROWING_SHARE * (double)(count - 1) &&
	       distances[count - 1] * 2 >= distances[0] * 3;
}

/* The distances between occurrences of `name`, in kernels; `count` gets their number. */
static uint32_t *list_distances(const struct launch_sequence *sequence, uint32_t name,
				size_t *count)
{
	uint32_t *distances = ws_malloc(sequence->uses[name] * sizeof(*distances) + 1);
	size_t last = SIZE_MAX;

	*count = 0;
	for (size_t i = 0; i < sequence->count; i++) {
		if (sequence->name[i] != name)
			continue;
		if (last != SIZE_MAX)
			distances[(*count)++] = (uint32_t)(i - last);
		last = i;
	}
	return distances;
}

/* The share of all kernels that lie between occurrences of `name` at the usual distance, or between
 * all of them where the distances grow; 0 when they are irregular. */
static double measure_regularity(const struct launch_sequence *sequence, uint32_t name)
{
	size_t count, regular = 0;
	uint32_t *distances = list_distances(sequence, name, &count), usual;
	double covered = 0;

	if (is_growing(distances, count)) {
		for (size_t i = 0; i < count; i++)
			covered += distances[i];
		free(distances);
		return covered / (double)sequence->count;
	}
	qsort(distances, count, sizeof(*distances), compare_numbers);
	usual = distances[count / 2];
	for (size_t i = 0; i < count; i++)
		if (distances[i] * 10 >= usual * 9 && distances[i] * 10 <= usual * 11) {
			regular++;
			covered += distances[i];
		}
	free(distances);
	if ((double)regular < REGULAR_SHARE * (double)count)
		return 0;
	return covered / (double)sequence->count;
}

/* How often `name` occurs in each step where its distances repeat, or 0. */
static uint32_t find_period(const struct launch_sequence *sequence, uint32_t name)
{
	size_t count;
	uint32_t *distances = list_distances(sequence, name, &count), found = 0;

	for (uint32_t period = 2; !found && period <= MOST_IN_STEP; period++) {
		double covered = 0, left = (1 - SAME_SHARE) * (double)count;

		if (count / period < LEAST_STEPS)
			break;
		for (size_t i = period; i < count && left >= 0; i++) {
			bool same = distances[i] == distances[i - period];

			left -= !same;
			covered += same * distances[i];
		}
		if (left >= 0 && covered >= COVERED_SHARE * (double)sequence->count)
			found = period;
	}
	free(distances);
	return found;
}

/* A kernel that begins a step: its name, and how often it occurs in each. */
struct anchor {
	uint32_t name, period;
};

/* How often a name occurs in each step, or 0 where it marks none. */
typedef uint32_t count_in_step(const struct launch_sequence *sequence, uint32_t name);

static uint32_t count_once(const struct launch_sequence *sequence, uint32_t name)
{
	return measure_regularity(sequence, name) >= COVERED_SHARE;
}

static struct anchor choose_anchor(const struct launch_sequence *sequence, count_in_step *counted)
{
	struct anchor best = {0};
	uint32_t tried = 0;

	for (size_t i = 0; i < sequence->count && tried < MOST_NAMES; i++) {
		uint32_t name = sequence->name[i], uses = sequence->uses[name], period;
		bool first = true;

		if (uses < LEAST_STEPS || (best.name && uses >= sequence->uses[best.name]))
			continue;
		for (size_t before = i; first && before-- > 0 && i - before < 512;)
			first = sequence->name[before] != name;
		if (!first)
			continue;
		tried++;
		period = counted(sequence, name);
		if (period)
			best = (struct anchor){name, period};
	}
	return best;
}

/* The start of the call that launched a kernel of the sequence; WS_NO_TIME where there is none. */
static uint64_t find_launch(const struct ws_model *model, const struct launch_sequence *sequence,
			    size_t kernel)
{
	uint64_t row = sequence->row[kernel];
	uint32_t call = ws_calls_find(&model->calls, model->process,
				      sequence->rows.col[sequence->source->correlation][row]);

	return call == WS_NO_CALL ? WS_NO_TIME : model->calls.rows.col[ws_cuda_api_start][call];
}

/* Which of the anchor's occurrences begins a step, 0 to period - 1: that before which nothing is
 * launched for longest, in most steps. */
static uint32_t find_phase(const struct ws_model *model, const struct launch_sequence *sequence,
			   const struct anchor *anchor)
{
	uint32_t votes[MOST_IN_STEP] = {0}, best = 0, at = 0, longest_at = 0;
	uint64_t longest = 0;

	for (size_t i = 1; i < sequence->count && anchor->period > 1; i++) {
		uint64_t start, before;

		if (sequence->name[i] != anchor->name)
			continue;
		start = find_launch(model, sequence, i);
		before = find_launch(model, sequence, i - 1);
		if (start != WS_NO_TIME && before < start && start - before > longest) {
			longest = start - before;
			longest_at = at;
		}
		if (++at < anchor->period)
			continue;
		votes[longest_at]++;
		longest = at = 0;
	}
	for (uint32_t i = 1; i < anchor->period; i++)
		if (votes[i] > votes[best])
			best = i;
	/* An occurrence with nothing before it is not counted above. */
	return best + (anchor->period > 1 && sequence->name[0] == anchor->name);
}

static void add_repeated_step(const struct ws_model *model, const struct launch_sequence *sequence,
			      size_t kernel, struct ws_steps *steps)
{
	uint64_t row = sequence->row[kernel];
	uint32_t call = ws_calls_find(&model->calls, model->process,
				      sequence->rows.col[sequence->source->correlation][row]);
	uint64_t start;

	if (call == WS_NO_CALL)
		return;
	start = model->calls.rows.col[ws_cuda_api_start][call];
	if (steps->count && steps->steps[steps->count - 1].start >= start)
		return;
	if (steps->count)
		steps->steps[steps->count - 1].end = start;
	ws_grow(steps->steps, steps->cap, steps->count + 1);
	steps->steps[steps->count] = (struct ws_step){
		.start = start,
		.end = start,
		.process = model->process,
		.thread = (uint32_t)model->calls.rows.col[ws_cuda_api_thread][call],
		.number = (uint32_t)steps->count};
	steps->count++;
}

/* Whether most work comes as whole graphs: then the few kernels beside them, such as those that ran
 * before the graph was captured, are not what repeats. */
static bool is_in_graphs(const struct ws_model *model)
{
	struct ws_cursor *cursor =
		ws_cursor_open(model->report, WS_TABLE_cuda_graph_trace, 0, UINT64_MAX);
	uint64_t graphs = 0, all = 0;
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values))
		if (values[ws_cuda_graph_trace_process] == model->process &&
		    values[ws_cuda_graph_trace_end] != WS_NO_TIME)
			graphs +=
				values[ws_cuda_graph_trace_end] - values[ws_cuda_graph_trace_start];
	ws_cursor_close(cursor);
	for (size_t i = 0; graphs && i < model->work.gpus; i++)
		for (size_t k = 0; k < model->work.gpu[i].count; k++)
			if (model->work.gpu[i].op[k].process == model->process)
				all += model->work.gpu[i].op[k].end -
				       model->work.gpu[i].op[k].start;
	return graphs && graphs * 2 > all;
}

static uint64_t measure_step(const struct ws_steps *steps, size_t i)
{
	return steps->steps[i].end - steps->steps[i].start;
}

/*
 * What is made ready before the loop may launch the same kernels: a model that is moved to the GPU.
 * Then comes a pause, such as an import, which would be one very long step. Steps begin after it,
 * where most of them do.
 */
static bool drop_preparation(struct ws_steps *steps)
{
	uint64_t total, longest;
	size_t at = 0;

	if (steps->count < 2 * LEAST_STEPS)
		return false;
	for (size_t i = 1; i < steps->count; i++)
		if (measure_step(steps, i) > measure_step(steps, at))
			at = i;
	total = steps->steps[steps->count - 1].end - steps->steps[0].start;
	longest = measure_step(steps, at);
	if (at >= steps->count / 2 || longest < total / LONG_PART ||
	    longest / LONG_STEP < (total - longest) / (steps->count - 1))
		return false;
	steps->count -= at + 1;
	memmove(steps->steps, steps->steps + at + 1, steps->count * sizeof(*steps->steps));
	for (size_t i = 0; i < steps->count; i++)
		steps->steps[i].number = (uint32_t)i;
	return true;
}

bool ws_find_repeated_steps(const struct ws_model *model, struct ws_steps *steps)
{
	struct launch_sequence sequence = {.source = &kernel_source};
	struct anchor anchor = {0};
	bool split = false;
	uint32_t phase, at = 0;

	if (is_in_graphs(model))
		sequence.source = &graph_source;
	if (!load_sequence(model, &sequence)) {
		join_single_graphs(&sequence);
		split = split_single_kernel(model, &sequence);
		anchor = choose_anchor(&sequence, count_once);
	}
	if (!anchor.name && split) {
		join_names(&sequence);
		anchor = choose_anchor(&sequence, count_once);
	}
	if (!anchor.name)
		anchor = choose_anchor(&sequence, find_period);
	phase = anchor.name ? find_phase(model, &sequence, &anchor) % anchor.period : 0;
	for (size_t i = 0; anchor.name && i < sequence.count; i++)
		if (sequence.name[i] == anchor.name && at++ % anchor.period == phase)
			add_repeated_step(model, &sequence, i, steps);
	/* Kernels after the last anchor are only part of a step. */
	if (steps->count)
		steps->count--;
	while (drop_preparation(steps))
		;
	ws_rows_free(&sequence.rows);
	free(sequence.name);
	free(sequence.row);
	free(sequence.uses);
	if (steps->count >= LEAST_STEPS - 1)
		return true;
	steps->count = 0;
	return false;
}
