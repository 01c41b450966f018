/*
 * phases.c - see phases.h.
 *
 * Spans marked by names come first; an inner span takes precedence over the one around it. The rest
 * is filled by evidence: moments at which something of a phase happened. The time since the
 * previous moment belongs to the phase too, because code prepares what it launches.
 */
#include "analyze/phases.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/code.h"
#include "analyze/launches.h"
#include "base/choose.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/search.h"

const char *ws_name_phase(enum ws_phase phase)
{
	static const char *const names[WS_PHASES] = {[WS_PHASE_DATA] = "data",
						     [WS_PHASE_FORWARD] = "forward",
						     [WS_PHASE_BACKWARD] = "backward",
						     [WS_PHASE_OPTIMISER] = "optimiser",
						     [WS_PHASE_COMMUNICATION] = "communication",
						     [WS_PHASE_OTHER] = "other"};

	return names[phase];
}

/* ---- names ---- */

/* Words in lower case: '=' before one for the whole name, '^' for its beginning, else any part. */
static const struct {
	enum ws_phase phase;
	const char *words[24];
} range_words[] = {
	{WS_PHASE_COMMUNICATION,
	 {"allreduce", "all_reduce", "all-reduce", "allgather", "all_gather", "reduce_scatter",
	  "nccl", "communication", "=comm", "sync_grad", "grad_sync", "c10d::"}},
	{WS_PHASE_OPTIMISER,
	 {"optimizer", "optimiser", "zero_grad", "=optim", "^optim_", "^optim ", "=opt", "^opt_",
	  "^opt ", "opt.step", "opt_step", "update_weights", "weight_update", "weight update",
	  "clip_grad", "=update"}},
	{WS_PHASE_BACKWARD, {"backward", "^bwd", "=grad", "autograd::engine"}},
	{WS_PHASE_DATA,
	 {"dataloader", "=data",      "^data_",	   "^data ",	"load_data",  "load data",
	  "load_batch", "load batch", "get_batch", "get batch", "next_batch", "next batch",
	  "next(",	"h2d",	      "htod",	   "to_device", "to device",  "to_gpu",
	  "fetch",	"^loading",   "=load",	   "=batch"}},
	{WS_PHASE_FORWARD,
	 {"^forward", "forward_", ".forward", " forward", "_forward", "^fwd", "=model", "=loss",
	  "^loss", "criterion", "inference"}},
};

static const char *const optimiser_kernels[] = {"multi_tensor_apply",
						"adam",
						"foreach",
						"FusedSgd",
						"fused_sgd",
						"Lamb",
						"lamb_",
						"rmsprop",
						"adagrad",
						"FusedOptimizer",
						"fused_optimi",
						NULL};

static bool matches_word(const char *name, const char *word)
{
	if (*word == '=')
		return !strcmp(name, word + 1);
	if (*word == '^')
		return !strncmp(name, word + 1, strlen(word + 1));
	return strstr(name, word) != NULL;
}

/* WS_PHASE_OTHER where the name indicates no phase. */
static enum ws_phase classify_range(const char *name)
{
	char lower[256];
	size_t i = 0;

	for (; name[i] && i + 1 < sizeof(lower); i++)
		lower[i] = (char)tolower((unsigned char)name[i]);
	lower[i] = 0;
	for (size_t k = 0; k < WS_COUNT(range_words); k++)
		for (const char *const *word = range_words[k].words; *word; word++)
			if (matches_word(lower, *word))
				return range_words[k].phase;
	return WS_PHASE_OTHER;
}

static bool is_optimiser_kernel(const char *name)
{
	for (const char *const *part = optimiser_kernels; *part; part++)
		if (strcasestr(name, *part))
			return true;
	return false;
}

/* ---- what is found ---- */

/* A copy counts as loading data where nothing was launched before it in the step. */
enum { COPY = WS_PHASES };

struct moment {
	uint64_t at;
	unsigned phase; /* enum ws_phase or COPY */
};

struct search {
	const struct ws_model *model;
	struct ws_phases *phases;
	uint64_t end;		    /* of the last step */
	struct ws_phase_span *open; /* marked spans that are open */
	size_t depth, open_cap;
	struct moment *moments;
	size_t moment_count, moment_cap;
	struct ws_map range_names, kernel_names; /* by string: phase + 1 */
	struct ws_map stacks;			 /* of samples: 2 loads data, 1 does not */
	unsigned marked;			 /* bits of phases that names indicate */
};

static enum ws_phase look_up_range(struct search *search, uint32_t string)
{
	uint64_t known = ws_map_get(&search->range_names, string, NULL);

	if (!known) {
		known = 1 + (uint64_t)classify_range(
				    ws_report_string(search->model->report, string, NULL));
		ws_map_set(&search->range_names, string, known);
	}
	return (enum ws_phase)(known - 1);
}

static bool look_up_kernel(struct search *search, uint32_t string)
{
	uint64_t known = ws_map_get(&search->kernel_names, string, NULL);

	if (!known) {
		known = 1 + (uint64_t)is_optimiser_kernel(
				    ws_report_string(search->model->report, string, NULL));
		ws_map_set(&search->kernel_names, string, known);
	}
	return known == 2;
}

static void add_span(struct search *search, uint64_t start, uint64_t end, enum ws_phase phase)
{
	struct ws_phases *phases = search->phases;

	start = ws_max(start, search->model->from);
	end = ws_min(end, search->end);
	if (end <= start)
		return;
	ws_grow(phases->spans, phases->cap, phases->count + 1);
	phases->spans[phases->count++] = (struct ws_phase_span){start, end, phase};
}

static void add_moment(struct search *search, uint64_t at, unsigned phase)
{
	if (at <= search->model->from || at > search->end)
		return;
	ws_grow(search->moments, search->moment_cap, search->moment_count + 1);
	search->moments[search->moment_count++] = (struct moment){at, phase};
}

/* ---- marked spans ---- */

/* The innermost open span up to `until`; closes those that end before. Spans come by start, outer
 * first, so that spans are emitted in order of time. */
static void close_spans(struct search *search, uint64_t *at, uint64_t until)
{
	while (search->depth) {
		struct ws_phase_span *top = &search->open[search->depth - 1];
		uint64_t end = ws_min(top->end, until);

		if (end > *at) {
			add_span(search, *at, end, top->phase);
			*at = end;
		}
		if (top->end > until)
			return;
		search->depth--;
	}
	*at = ws_max(*at, until);
}

static void mark_rows(struct search *search, const struct ws_rows *rows, const int *columns)
{
	uint64_t at = search->model->from;

	for (size_t i = 0; i < rows->rows; i++) {
		uint64_t start = rows->col[columns[0]][i], end = rows->col[columns[1]][i];
		enum ws_phase phase;

		if (rows->col[columns[2]][i] != search->model->thread || end == WS_NO_TIME ||
		    end <= search->model->from || start >= search->end)
			continue;
		phase = look_up_range(search, (uint32_t)rows->col[columns[3]][i]);
		if (phase == WS_PHASE_OTHER)
			continue;
		close_spans(search, &at, ws_max(start, search->model->from));
		ws_grow(search->open, search->open_cap, search->depth + 1);
		search->open[search->depth++] = (struct ws_phase_span){start, end, phase};
		search->marked |= 1u << phase;
	}
	close_spans(search, &at, search->end);
	search->depth = 0;
}

/* ---- evidence ---- */

/* Operators of the steps' thread are its forward pass unless another phase is marked around them;
 * those of an autograd engine on other threads the backward pass. */
static void note_operators(struct search *search, const struct ws_rows *rows)
{
	const struct ws_model *model = search->model;

	for (size_t i = 0; i < rows->rows; i++) {
		uint64_t end = rows->col[ws_op_end][i];
		uint32_t thread = (uint32_t)rows->col[ws_op_thread][i];

		if (rows->col[ws_op_kind][i] != WS_OP_CPU || end == WS_NO_TIME)
			continue;
		if (thread == model->thread)
			add_moment(search, end, WS_PHASE_FORWARD);
		else if (look_up_range(search, (uint32_t)rows->col[ws_op_name][i]) ==
				 WS_PHASE_BACKWARD &&
			 ws_find_thread(model->who, thread)->process == model->process)
			add_moment(search, end, WS_PHASE_BACKWARD);
	}
}

/* Whether the steps' thread waits at this moment, as far as was recorded. */
static bool is_waiting(const struct ws_model *model, uint64_t at)
{
	const struct ws_model_state *state = ws_model_find_state(model, model->thread, at);

	if (!model->has_scheduling)
		return ws_model_find_call(model, model->thread, at) == WS_NO_CALL;
	return state && state->end >= at && state->doing != WS_DOING_RUN;
}

static void note_launch(struct search *search, const struct ws_work_op *op)
{
	const struct ws_model *model = search->model;
	uint32_t call = ws_calls_find(&model->calls, op->process, op->correlation), thread;
	unsigned phase = WS_PHASE_FORWARD;
	uint64_t at;

	if (call == WS_NO_CALL || op->process != model->process)
		return;
	at = model->calls.rows.col[ws_cuda_api_end][call];
	thread = (uint32_t)model->calls.rows.col[ws_cuda_api_thread][call];
	if (at == WS_NO_TIME || at <= model->from || at > search->end)
		return;
	if (op->class == WS_WORK_COMM)
		phase = WS_PHASE_COMMUNICATION;
	else if (op->class == WS_WORK_MEMORY)
		phase = COPY;
	else if (look_up_kernel(search, op->name))
		phase = WS_PHASE_OPTIMISER;
	if (phase == COPY && op->set)
		return;
	if (thread != model->thread) {
		if (phase == COPY || !is_waiting(model, at))
			return;
		/* Collectives of the backward pass run in parallel with it: its time is not counted
		 * as theirs. */
		phase = WS_PHASE_BACKWARD;
	}
	add_moment(search, at, phase);
}

/* Calls `note` with the work that runs in the steps, or soon after: it may have been launched in
 * them. */
static void walk_work(struct search *search,
		      void (*note)(struct search *search, const struct ws_work_op *op))
{
	enum { MOST_LATER = 4096 };
	const struct ws_work *work = &search->model->work;

	for (size_t gpu = 0; gpu < work->gpus; gpu++) {
		size_t last = ws_model_find_op_after(&work->gpu[gpu], search->end) + MOST_LATER;

		last = ws_min(last, work->gpu[gpu].count);
		for (size_t i = ws_model_find_op_after(&work->gpu[gpu], search->model->from);
		     i < last; i++)
			note(search, &work->gpu[gpu].op[i]);
	}
}

/* The same stacks come repeatedly, so what is known of a stack is kept. */
static bool is_loading(struct search *search, uint32_t frame, uint32_t callers)
{
	uint64_t key = (uint64_t)frame << 32 | callers,
		 known = ws_map_get(&search->stacks, key, NULL);

	if (!known) {
		known = 1 + (uint64_t)ws_code_find_place(search->model, frame, callers).loader;
		ws_map_set(&search->stacks, key, known);
	}
	return known == 2;
}

/* Samples in a data loader, waits that it called, and waits for files. */
static void note_loading(struct search *search)
{
	const struct ws_model *model = search->model;
	const struct ws_model_thread *thread = &model->threads[model->thread];
	const struct ws_samples *samples = &model->samples;

	for (size_t i = thread->first_sample; i < thread->end_sample; i++)
		if (samples->frame[i] && samples->start[i] > model->from &&
		    samples->start[i] <= search->end &&
		    is_loading(search, samples->frame[i], samples->callers[i]))
			add_moment(search, samples->start[i], WS_PHASE_DATA);
	for (size_t i = 0; i < thread->count; i++) {
		const struct ws_model_state *state = &thread->states[i];
		uint32_t stack = ws_model_get_call(model, state)->callchain;

		if (state->doing == WS_DOING_WAIT && stack && stack != WS_NO_U32 &&
		    state->end > model->from && state->start < search->end &&
		    is_loading(search, 0, stack))
			add_moment(search, state->end, WS_PHASE_DATA);
	}
}

/* A wait for the GPU belongs to no phase: the work launched after it did not take that long to
 * prepare. */
static void note_waits(struct search *search)
{
	enum { LEAST_NS = 20000 };
	const struct ws_model_thread *thread = &search->model->threads[search->model->thread];

	for (size_t i = 0; i < thread->count; i++)
		if (thread->states[i].wait == WS_WAIT_GPU &&
		    thread->states[i].end - thread->states[i].start >= LEAST_NS)
			add_moment(search, thread->states[i].end, WS_PHASE_OTHER);
}

static int compare_moments(const void *first, const void *second)
{
	const struct moment *left = first, *right = second;

	if (left->at != right->at)
		return ws_compare(left->at, right->at);
	return ws_compare(left->phase, right->phase);
}

/* ---- filling ---- */

struct filling {
	struct search *search;
	struct ws_phase_span *marked;
	size_t marked_count, next_marked;
	uint64_t at;
};

/* Up to `until` the thread is in `phase`, where nothing is marked. */
static void fill(struct filling *filling, uint64_t until, enum ws_phase phase)
{
	while (filling->next_marked < filling->marked_count && filling->at < until) {
		const struct ws_phase_span *marked = &filling->marked[filling->next_marked];

		if (marked->start >= until)
			break;
		add_span(filling->search, filling->at, marked->start, phase);
		filling->at = ws_max(filling->at, marked->start);
		add_span(filling->search, filling->at, ws_min(marked->end, until), marked->phase);
		filling->at = ws_max(filling->at, ws_min(marked->end, until));
		if (marked->end > until)
			return;
		filling->next_marked++;
	}
	add_span(filling->search, filling->at, until, phase);
	filling->at = ws_max(filling->at, until);
}

/* Where names mark the forward or the backward pass, unmarked time is neither. */
static enum ws_phase choose_phase(const struct search *search, enum ws_phase phase)
{
	const unsigned passes = 1u << WS_PHASE_FORWARD | 1u << WS_PHASE_BACKWARD;

	if ((search->marked & passes) == passes &&
	    (phase == WS_PHASE_FORWARD || phase == WS_PHASE_BACKWARD ||
	     phase == WS_PHASE_OPTIMISER))
		return WS_PHASE_OTHER;
	return phase;
}

/* What a step's thread itself launches after the last piece of the backward pass prepares the
 * optimiser's work: norms of gradients, clipping, single operations. */
static uint64_t find_end_of_backward(const struct search *search, size_t moment, uint64_t until)
{
	uint64_t last = UINT64_MAX;

	for (; moment < search->moment_count && search->moments[moment].at <= until; moment++)
		if (search->moments[moment].phase == WS_PHASE_BACKWARD)
			last = search->moments[moment].at;
	return last;
}

/* Fills a step from its moments, starting with number `moment`; returns the number of the first
 * moment after the step. */
static size_t fill_step(struct filling *filling, const struct ws_step *step, size_t moment)
{
	const struct search *search = filling->search;
	uint64_t backward = find_end_of_backward(search, moment, step->end);
	bool launched = false;

	for (; moment < search->moment_count && search->moments[moment].at <= step->end; moment++) {
		unsigned phase = search->moments[moment].phase;

		if (phase == COPY && launched)
			continue;
		if (phase == COPY)
			phase = WS_PHASE_DATA;
		else if (phase == WS_PHASE_FORWARD && search->moments[moment].at > backward)
			phase = WS_PHASE_OPTIMISER;
		launched |= phase != WS_PHASE_DATA && phase != WS_PHASE_OTHER;
		fill(filling, search->moments[moment].at,
		     choose_phase(search, (enum ws_phase)phase));
	}
	fill(filling, step->end, WS_PHASE_OTHER);
	return moment;
}

static void fill_by_moments(struct search *search)
{
	struct ws_phases *phases = search->phases;
	const struct ws_model *model = search->model;
	struct filling filling = {.search = search,
				  .marked = phases->spans,
				  .marked_count = phases->count,
				  .at = model->from};
	size_t moment = 0;

	phases->spans = NULL;
	phases->count = phases->cap = 0;
	if (search->moment_count)
		qsort(search->moments, search->moment_count, sizeof(*search->moments),
		      compare_moments);
	for (size_t i = model->first_step; i < model->first_step + phases->steps; i++) {
		const struct ws_step *step = &model->steps.steps[i];

		/* Work before a step whose only evidence is of data loading. */
		for (; moment < search->moment_count && search->moments[moment].at <= step->start;
		     moment++)
			if (search->moments[moment].phase == WS_PHASE_DATA)
				fill(&filling, search->moments[moment].at, WS_PHASE_DATA);
		fill(&filling, step->start, WS_PHASE_OTHER);
		moment = fill_step(&filling, step, moment);
	}
	free(filling.marked);
}

static void sum_work(struct search *search, const struct ws_work_op *op)
{
	const struct ws_model *model = search->model;
	uint32_t call = ws_calls_find(&model->calls, op->process, op->correlation);
	uint64_t at;

	if (call == WS_NO_CALL || op->process != model->process)
		return;
	at = model->calls.rows.col[ws_cuda_api_start][call];
	if (at >= model->from && at < search->end)
		search->phases->gpu_ns[ws_phases_at(search->phases, at)] += op->end - op->start;
}

static void sum_phases(struct search *search)
{
	struct ws_phases *phases = search->phases;
	const struct ws_model *model = search->model;
	unsigned found = 0;

	for (size_t i = 0; i < phases->count; i++)
		phases->ns[phases->spans[i].phase] += phases->spans[i].end - phases->spans[i].start;
	if (phases->steps == ws_model_count_steps(model))
		phases->ns[WS_PHASE_OTHER] += model->to - search->end;
	walk_work(search, sum_work);
	for (int phase = 0; phase < WS_PHASES; phase++) {
		phases->total += phases->ns[phase];
		found += phase != WS_PHASE_OTHER && phases->ns[phase];
	}
	phases->marked = __builtin_popcount(search->marked) >= 2;
	/* A program that only launches and waits is not a training loop. */
	phases->known = found >= 2;
}

static void load_marks(struct search *search)
{
	static const int nvtx[] = {ws_nvtx_start, ws_nvtx_end, ws_nvtx_thread, ws_nvtx_text},
			 op[] = {ws_op_start, ws_op_end, ws_op_thread, ws_op_name};
	struct ws_scan ranges = {.table = WS_TABLE_nvtx,
				 .columns = WS_COLUMN_BIT(nvtx, start) | WS_COLUMN_BIT(nvtx, end) |
					    WS_COLUMN_BIT(nvtx, thread) | WS_COLUMN_BIT(nvtx, text),

				 .time_min = search->model->from,
				 .time_max = search->end},
		       operators = {.table = WS_TABLE_op,
				    .columns = WS_COLUMN_BIT(op, start) | WS_COLUMN_BIT(op, end) |
					       WS_COLUMN_BIT(op, thread) | WS_COLUMN_BIT(op, name) |
					       WS_COLUMN_BIT(op, kind),

				    .time_min = search->model->from,
				    .time_max = search->end};
	struct ws_rows rows;
	struct ws_err err;

	if (!ws_rows_load(search->model->report, &ranges, &rows, &err))
		mark_rows(search, &rows, nvtx);
	ws_rows_free(&rows);
	if (ws_rows_load(search->model->report, &operators, &rows, &err)) {
		ws_rows_free(&rows);
		return;
	}
	/* Annotations of a framework mark phases where NVTX ranges do not. */
	if (!search->marked)
		mark_rows(search, &rows, op);
	note_operators(search, &rows);
	ws_rows_free(&rows);
}

void ws_phases_find(const struct ws_model *model, struct ws_phases *phases)
{
	struct search search = {.model = model, .phases = phases};

	memset(phases, 0, sizeof(*phases));
	if (model->step_source == WS_STEPS_NONE || !model->thread)
		return;
	search.end = ws_model_choose_part(model, WS_PHASES_WORK, &phases->steps);
	search.end =
		ws_min(search.end, model->steps.steps[model->first_step + phases->steps - 1].end);
	load_marks(&search);
	note_loading(&search);
	walk_work(&search, note_launch);
	note_waits(&search);
	fill_by_moments(&search);
	sum_phases(&search);
	ws_map_free(&search.range_names);
	ws_map_free(&search.kernel_names);
	ws_map_free(&search.stacks);
	free(search.open);
	free(search.moments);
}

void ws_phases_free(struct ws_phases *phases)
{
	free(phases->spans);
	memset(phases, 0, sizeof(*phases));
}

enum ws_phase ws_phases_at(const struct ws_phases *phases, uint64_t at)
{
	size_t low = ws_find_first_not(0, phases->count, middle, phases->spans[middle].end <= at);

	if (low == phases->count)
		return WS_PHASE_OTHER;
	return phases->spans[low].phase;
}
