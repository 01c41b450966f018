/*
 * what_if.c - see what_if.h.
 *
 * Each change gives the nodes that it applies to another cost. Time to which it applies in part (a
 * stretch that lies half in a range, code with a third of its samples in a function) gets the mean
 * of both.
 */
#include "analyze/what_if.h"

#include <stdlib.h>
#include <string.h>

#include "analyze/code.h"
#include "analyze/facts.h"
#include "analyze/phases.h"
#include "base/choose.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/search.h"
#include "base/sort.h"
#include "query/gpu.h"

const struct ws_what_if_kind ws_what_if_kinds[WS_CHANGES] = {
	[WS_CHANGE_KERNEL] = {"kernel", "kernels whose name has NAME in it", true},
	[WS_CHANGE_COPIES] = {"copies", "copies and memsets on GPUs", false},
	[WS_CHANGE_GPU] = {"gpu", "all work on GPUs", false},
	[WS_CHANGE_CALL] = {"call", "calls of CUDA and of the OS whose name has NAME in it", true},
	[WS_CHANGE_LAUNCHES] = {"launches",
				"calls that launch kernels and graphs, and the latency after them",
				false},
	[WS_CHANGE_WAIT] = {"wait",
			    "waits for gpu, lock, sleep, I/O and so on, or in calls whose name has "
			    "NAME in it",
			    true},
	[WS_CHANGE_RANGE] = {"range",
			     "code in ranges and operators with NAME in their names, and the GPU "
			     "work launched there",
			     true},
	[WS_CHANGE_PHASE] = {"phase",
			     "code in the phase NAME of each step, and the GPU work launched there",
			     true},
	[WS_CHANGE_CODE] = {"code", "code of functions whose name has NAME in it, by samples",
			    true},
	[WS_CHANGE_CPU] = {"cpu", "all code and calls of CUDA on cores", false},
};

/* ---- grammar ---- */

static const char *skip_blanks(const char *text)
{
	return text + strspn(text, " \t");
}

static int find_kind(const char *text, size_t length)
{
	for (int kind = 0; kind < WS_CHANGES; kind++)
		if (strlen(ws_what_if_kinds[kind].word) == length &&
		    !strncmp(ws_what_if_kinds[kind].word, text, length))
			return kind;
	return -1;
}

static int fail_with_kinds(const char *text, struct ws_err *err)
{
	struct ws_text words = {0};

	for (int kind = 0; kind < WS_CHANGES; kind++)
		ws_text_printf(&words, "%s%s%s", kind ? ", " : "", ws_what_if_kinds[kind].word,
			       ws_what_if_kinds[kind].named ? " NAME" : "");
	ws_fail(err, "--what-if: '%s' is not one of %s, with *FACTOR behind it", text, words.text);
	ws_text_free(&words);
	return -1;
}

/* "KIND [NAME]*FACTOR": the factor follows the last star. */
static int parse_change(const char *text, struct ws_change *change, struct ws_err *err)
{
	const char *star = strrchr(text, '*'), *name;
	size_t word = strcspn(text, " \t*");
	int kind = find_kind(text, word);
	char *end;

	if (kind < 0 || !star)
		return fail_with_kinds(text, err);
	change->kind = (enum ws_change_kind)kind;
	change->factor = strtod(star + 1, &end);
	if (end == star + 1 || *skip_blanks(end) ||
	    !(change->factor >= 0 && change->factor <= 1000))
		return ws_fail(err, "--what-if: '%s' is no factor from 0 to 1000 (in '%s')",
			       star + 1, text);
	name = skip_blanks(text + word);
	while (star > name && (star[-1] == ' ' || star[-1] == '\t'))
		star--;
	if (!ws_what_if_kinds[kind].named && star > name)
		return ws_fail(err, "--what-if: %s takes no name (in '%s')",
			       ws_what_if_kinds[kind].word, text);
	if (ws_what_if_kinds[kind].named && star <= name)
		return ws_fail(err, "--what-if: %s needs a name: %s NAME*FACTOR (in '%s')",
			       ws_what_if_kinds[kind].word, ws_what_if_kinds[kind].word, text);
	if (star > name)
		change->name = ws_strndup(name, (size_t)(star - name));
	return 0;
}

int ws_changes_parse(const char *text, struct ws_changes *changes, struct ws_err *err)
{
	static const char joint[] = " + ";
	const char *end;

	memset(changes, 0, sizeof(*changes));
	do {
		char *one;
		int status;

		text = skip_blanks(text);
		end = strstr(text, joint);
		one = end ? ws_strndup(text, (size_t)(end - text)) : ws_strdup(text);
		ws_grow(changes->changes, changes->cap, changes->count + 1);
		changes->changes[changes->count] = (struct ws_change){.factor = 1};
		status = parse_change(one, &changes->changes[changes->count++], err);
		free(one);
		if (status)
			return -1;
		if (end)
			text = end + strlen(joint);
	} while (end);
	return 0;
}

void ws_changes_free(struct ws_changes *changes)
{
	for (size_t i = 0; i < changes->count; i++)
		free(changes->changes[i].name);
	free(changes->changes);
	memset(changes, 0, sizeof(*changes));
}

/* ---- what a change applies to ---- */

struct matching {
	const struct ws_graph *graph;
	const struct ws_change *change;
	struct ws_map known; /* by string: 1 includes the name, 2 does not */
	/* For RANGE: by thread and start, without overlaps. */
	struct ws_spans *ranges; /* by thread */
	/*
	 * For CODE: by node, how many samples it has, and to how many of them the change applies.
	 */
	uint32_t *samples, *concerned;
};

static bool has_name(struct matching *matching, uint32_t string)
{
	uint64_t known = ws_map_get(&matching->known, string, NULL);
	const char *text;

	if (!known) {
		text = ws_report_string(matching->graph->model->report, string, NULL);
		known = 2;
		if (string && strstr(text, matching->change->name))
			known = 1;
		ws_map_set(&matching->known, string, known);
	}
	return known == 1;
}

static uint32_t get_call_name(const struct ws_model *model, uint32_t call)
{
	if (call == WS_NO_CALL)
		return 0;
	return (uint32_t)model->calls.rows.col[ws_cuda_api_name][call];
}

static bool is_launch(struct matching *matching, uint32_t call)
{
	static const char *const names[] = {"cudaLaunch*", "cuLaunch*", "cudaGraphLaunch",
					    "cuGraphLaunch", NULL};
	const struct ws_model *model = matching->graph->model;
	uint32_t string = get_call_name(model, call);
	uint64_t known = ws_map_get(&matching->known, string, NULL);
	size_t length;
	const char *name;

	if (!string)
		return false;
	if (!known) {
		name = ws_get_cuda_function_name(model->report, string, &length);
		known = 2 - (uint64_t)ws_is_name_among(name, length, names);
		ws_map_set(&matching->known, string, known);
	}
	return known == 1;
}

static bool is_op_class(const struct ws_graph *graph, const struct ws_node *node, bool memory)
{
	return node->kind == WS_NODE_OP &&
	       (graph->model->work.gpu[node->gpu].op[node->op].class == WS_WORK_MEMORY) == memory;
}

static bool is_wait_for(const struct ws_node *node, const char *name)
{
	static const struct {
		const char *word;
		uint8_t wait;
	} words[] = {{"gpu", WS_WAIT_GPU},
		     {"io", WS_WAIT_IO},
		     {"gil", WS_WAIT_GIL},
		     {"lock", WS_WAIT_LOCK},
		     {"lock", WS_WAIT_FUTEX},
		     {"core", WS_WAIT_QUEUE},
		     {"child", WS_WAIT_CHILD},
		     {"barrier", WS_WAIT_BARRIER},
		     {"condition", WS_WAIT_CONDITION},
		     {"semaphore", WS_WAIT_SEMAPHORE},
		     {"thread", WS_WAIT_JOIN},
		     {"fault", WS_WAIT_FAULT},
		     {"sleep", WS_WAIT_SLEEP},
		     {"poll", WS_WAIT_POLL},
		     {"signal", WS_WAIT_SIGNAL}};
	uint8_t wait = node->wait;

	if (node->kind == WS_NODE_QUEUE)
		wait = WS_WAIT_QUEUE;
	for (size_t i = 0; i < WS_COUNT(words); i++)
		if (words[i].wait == wait && !strcasecmp(words[i].word, name))
			return true;
	return !strcasecmp(ws_name_wait((enum ws_wait)wait), name);
}

static bool is_any_wait(const struct ws_node *node)
{
	return node->kind == WS_NODE_WAIT || node->kind == WS_NODE_SYNC ||
	       node->kind == WS_NODE_QUEUE;
}

/* How much of [start, end) lies in a set of spans, 0 to 1. */
static double measure_inside(const struct ws_spans *spans, uint64_t start, uint64_t end)
{
	uint64_t inside = 0;
	size_t low = ws_find_first_not(0, spans->count, middle, spans->spans[middle].end <= start);

	for (; low < spans->count && spans->spans[low].start < end; low++)
		inside +=
			ws_min(spans->spans[low].end, end) - ws_max(spans->spans[low].start, start);
	if (end <= start)
		return 0;
	return (double)inside / (double)(end - start);
}

/* Whether another thread may work for this one at a moment, because it waits. */
static bool is_waiting(const struct ws_model *model, uint32_t thread, uint64_t at)
{
	const struct ws_model_state *state = ws_model_find_state(model, thread, at);

	if (!model->has_scheduling)
		return ws_model_find_call(model, thread, at) == WS_NO_CALL;
	return state && state->end >= at && state->doing == WS_DOING_WAIT;
}

/* How much of a thread's time lies in ranges: in its own, or in those of the steps' thread while
 * that thread waits, as it does for an autograd engine. */
static double measure_thread_inside(const struct matching *matching, uint32_t thread,
				    uint64_t start, uint64_t end)
{
	const struct ws_model *model = matching->graph->model;
	double own = measure_inside(&matching->ranges[thread], start, end);

	if (own > 0 || thread == model->thread ||
	    ws_find_thread(model->who, thread)->process != model->process ||
	    !is_waiting(model, model->thread, start + (end - start) / 2))
		return own;
	return measure_inside(&matching->ranges[model->thread], start, end);
}

static bool awaits(const struct ws_graph *graph, const struct ws_node *node)
{
	for (uint32_t i = 0; i < node->edge_count; i++)
		if (graph->edges[node->first_edge + i].kind == WS_EDGE_AWAIT &&
		    graph->edges[node->first_edge + i].from != WS_NO_NODE)
			return true;
	return false;
}

/* The share of a node that lies in the ranges; for GPU work, the share of the call that launched
 * it. Waits for other threads or the GPU end when these are done. */
static double measure_in_ranges(const struct matching *matching, const struct ws_node *node,
				uint64_t start)
{
	const struct ws_graph *graph = matching->graph;

	if (node->kind == WS_NODE_OP) {
		if (node->call == WS_NO_CALL)
			return 0;
		start = graph->model->calls.rows.col[ws_cuda_api_start][node->call];
		return measure_thread_inside(matching, node->thread, start, start + 1);
	}
	if (awaits(graph, node))
		return 0;
	return measure_thread_inside(matching, node->thread, start, node->at);
}

/* The share of the node that the change applies to, 0 to 1. */
static double measure_concern(struct matching *matching, uint32_t number)
{
	const struct ws_graph *graph = matching->graph;
	const struct ws_node *node = &graph->nodes[number];
	const char *name = matching->change->name;

	switch (matching->change->kind) {
	case WS_CHANGE_KERNEL:
		return is_op_class(graph, node, false) &&
		       has_name(matching, graph->model->work.gpu[node->gpu].op[node->op].name);
	case WS_CHANGE_COPIES:
		return is_op_class(graph, node, true);
	case WS_CHANGE_GPU:
		return node->kind == WS_NODE_OP;
	case WS_CHANGE_CALL:
		return node->kind != WS_NODE_OP &&
		       (has_name(matching, get_call_name(graph->model, node->call)) ||
			has_name(matching, node->function));
	case WS_CHANGE_LAUNCHES:
		return node->kind != WS_NODE_OP && is_launch(matching, node->call);
	case WS_CHANGE_WAIT:
		return is_any_wait(node) &&
		       (is_wait_for(node, name) || has_name(matching, node->function) ||
			(node->kind == WS_NODE_SYNC &&
			 has_name(matching, get_call_name(graph->model, node->call))));
	case WS_CHANGE_RANGE:
	case WS_CHANGE_PHASE:
		if (node->kind == WS_NODE_START)
			return 0;
		return measure_in_ranges(matching, node, graph->nodes[number - 1].at);
	case WS_CHANGE_CODE:
		if (!matching->samples[number])
			return 0;
		return (double)matching->concerned[number] / (double)matching->samples[number];
	default:
		return node->kind == WS_NODE_RUN;
	}
}

static uint64_t measure_time(const struct ws_graph *graph, uint32_t number)
{
	const struct ws_node *node = &graph->nodes[number];

	if (node->kind == WS_NODE_OP)
		return node->work;
	if (node->kind == WS_NODE_START)
		return 0;
	return node->at - graph->nodes[number - 1].at;
}

/* ---- ranges ---- */

struct range_source {
	enum ws_table table;
	int start, end, thread, name;
};

static const struct range_source range_sources[] = {
	{WS_TABLE_nvtx, ws_nvtx_start, ws_nvtx_end, ws_nvtx_thread, ws_nvtx_text},
	{WS_TABLE_op, ws_op_start, ws_op_end, ws_op_thread, ws_op_name},
};

static void load_ranges(struct matching *matching)
{
	const struct ws_model *model = matching->graph->model;
	const uint64_t *values;

	matching->ranges = ws_calloc(model->thread_count + 1, sizeof(*matching->ranges));
	for (size_t i = 0; i < WS_COUNT(range_sources); i++) {
		const struct range_source *source = &range_sources[i];
		struct ws_cursor *cursor =
			ws_cursor_open(model->report, source->table, model->from, model->to);

		while (ws_cursor_next(cursor, &values))
			if (values[source->end] != WS_NO_TIME &&
			    values[source->thread] < model->thread_count &&
			    has_name(matching, (uint32_t)values[source->name]))
				ws_spans_add(&matching->ranges[values[source->thread]],
					     values[source->start], values[source->end]);
		ws_cursor_close(cursor);
	}
	for (uint32_t id = 0; id < model->thread_count; id++)
		ws_spans_merge(&matching->ranges[id]);
}

/* The spans of a phase are ranges of the steps' thread. */
static void load_phase(struct matching *matching)
{
	const struct ws_model *model = matching->graph->model;
	struct ws_phases phases;

	matching->ranges = ws_calloc(model->thread_count + 1, sizeof(*matching->ranges));
	ws_phases_find(model, &phases);
	for (size_t i = 0; i < phases.count; i++)
		if (!strcmp(ws_name_phase(phases.spans[i].phase), matching->change->name))
			ws_spans_add(&matching->ranges[model->thread], phases.spans[i].start,
				     phases.spans[i].end);
	ws_spans_merge(&matching->ranges[model->thread]);
	ws_phases_free(&phases);
}

static void free_ranges(struct matching *matching)
{
	for (uint32_t id = 0; matching->ranges && id < matching->graph->model->thread_count; id++)
		ws_spans_free(&matching->ranges[id]);
	free(matching->ranges);
}

/* ---- code ---- */

static bool is_code_named(struct matching *matching, size_t sample)
{
	const struct ws_model *model = matching->graph->model;
	struct ws_code_place place = ws_code_find_place(model, model->samples.frame[sample],
							model->samples.callers[sample]);
	struct ws_text text = {0};
	bool named;

	ws_code_put_place(model, &place, &text);
	named = place.leaf && strstr(text.text, matching->change->name);
	ws_text_free(&text);
	return named;
}

/* Samples and nodes of a thread are both in order of time. A stretch without samples is treated
 * like the one before it. */
static void share_samples(struct matching *matching, uint32_t first, uint32_t last)
{
	const struct ws_graph *graph = matching->graph;
	const struct ws_model_thread *thread = &graph->model->threads[graph->nodes[first].thread];
	const uint64_t *start = graph->model->samples.start;
	size_t sample = thread->first_sample;
	uint32_t known = WS_NO_NODE;

	for (uint32_t i = first + 1; i < last; i++) {
		while (sample < thread->end_sample && start[sample] < graph->nodes[i - 1].at)
			sample++;
		for (; sample < thread->end_sample && start[sample] < graph->nodes[i].at;
		     sample++) {
			if (!graph->model->samples.frame[sample])
				continue;
			matching->samples[i]++;
			matching->concerned[i] += is_code_named(matching, sample);
		}
		if (graph->nodes[i].kind != WS_NODE_RUN)
			continue;
		if (matching->samples[i]) {
			known = i;
		} else if (known != WS_NO_NODE) {
			matching->samples[i] = matching->samples[known];
			matching->concerned[i] = matching->concerned[known];
		}
	}
}

static void load_code(struct matching *matching)
{
	const struct ws_graph *graph = matching->graph;

	matching->samples = ws_calloc(graph->count + 1, sizeof(*matching->samples));
	matching->concerned = ws_calloc(graph->count + 1, sizeof(*matching->concerned));
	for (uint32_t first = 0, last; first < graph->count; first = last) {
		last = first + 1;
		if (graph->nodes[first].kind == WS_NODE_OP)
			continue;
		while (last < graph->count &&
		       graph->nodes[last].thread == graph->nodes[first].thread &&
		       graph->nodes[last].kind != WS_NODE_OP)
			last++;
		share_samples(matching, first, last);
	}
}

/* ---- the schedule ---- */

static int fail_without_match(const struct ws_change *change, struct ws_err *err)
{
	if (change->name)
		return ws_fail(err, "--what-if: nothing on the steps is a %s with '%s' in its name",
			       ws_what_if_kinds[change->kind].word, change->name);
	return ws_fail(err, "--what-if: there are no %s on the steps",
		       ws_what_if_kinds[change->kind].word);
}

static int apply_change(const struct ws_graph *graph, const struct ws_change *change, float *work,
			double *latency, struct ws_what_if *result, struct ws_err *err)
{
	struct matching matching = {.graph = graph, .change = change};
	size_t matches = 0;

	if (change->kind == WS_CHANGE_RANGE)
		load_ranges(&matching);
	if (change->kind == WS_CHANGE_PHASE)
		load_phase(&matching);
	if (change->kind == WS_CHANGE_CODE)
		load_code(&matching);
	for (uint32_t i = 0; i < graph->count; i++) {
		double concern = measure_concern(&matching, i);

		if (concern <= 0)
			continue;
		work[i] *= (float)(1 - concern + concern * change->factor);
		result->changed += (uint64_t)(concern * (double)measure_time(graph, i));
		matches++;
	}
	if (change->kind == WS_CHANGE_LAUNCHES)
		*latency *= change->factor;
	ws_map_free(&matching.known);
	free_ranges(&matching);
	free(matching.samples);
	free(matching.concerned);
	result->matches += matches;
	if (!matches)
		return fail_without_match(change, err);
	return 0;
}

int ws_what_if_schedule(const struct ws_graph *graph, const struct ws_changes *changes,
			struct ws_what_if *result, struct ws_err *err)
{
	float *work = ws_malloc(graph->count * sizeof(*work) + 1);
	struct ws_costs costs = {.work = work, .launch_latency = 1};
	int status = 0;

	*result = (struct ws_what_if){.now = graph->to - graph->from, .steps = graph->steps};
	for (size_t i = 0; i < graph->count; i++)
		work[i] = 1;
	result->unchanged = ws_graph_schedule(graph, &costs, NULL);
	for (size_t i = 0; i < changes->count && !status; i++)
		status = apply_change(graph, &changes->changes[i], work, &costs.launch_latency,
				      result, err);
	result->then = ws_graph_schedule(graph, &costs, NULL);
	free(work);
	return status;
}

void ws_what_if_put_assumption(const struct ws_graph *graph, const struct ws_changes *changes,
			       struct ws_text *text)
{
	for (size_t i = 0; i < changes->count; i++) {
		const struct ws_change *change = &changes->changes[i];

		if (i)
			ws_text_puts(text, ", ");
		ws_text_puts(text, ws_what_if_kinds[change->kind].about);
		if (change->name)
			ws_text_printf(text, " (NAME: %s)", change->name);
		if (change->factor == 0)
			ws_text_puts(text, " cost nothing");
		else
			ws_text_printf(text, " take %g times as long", change->factor);
	}
	ws_text_puts(text, "; all else takes as long as recorded and waits for what it waited for");
	if (graph->to < graph->model->to)
		ws_text_printf(text, " (the first %zu step%s were scheduled again)", graph->steps,
			       ws_plural(graph->steps));
}
