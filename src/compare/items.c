/*
 * items.c - see items.h.
 *
 * Tables are read block by block, in no order: the part of the run that a row belongs to follows
 * from its start.
 */
#include "compare/items.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/sort.h"
#include "query/fold.h"

/* The floors are standard deviations between runs of unchanged programs. docs/diff.md says how they
 * were measured. */
const struct ws_item_desc ws_item_descs[WS_ITEM_KINDS] = {
	[WS_ITEM_STEP] = {"step", "steps", 0.05, 0, 0, 0, 1},
	[WS_ITEM_OWN] = {"own", "steps without waiting for a core", 0.025, 0, 0, 0, 0.1},
	[WS_ITEM_RANGE] = {"range", "ranges", 0.03, 1000, 0.06, 0.005, 1},
	[WS_ITEM_KERNEL] = {"kernel", "kernels", 0.0075, 0, 0.01, 0.0002, 0},
	[WS_ITEM_COPY] = {"copy", "copies", 0.03, 0, 0.08, 0.001, 0},
	[WS_ITEM_API] = {"api", "API calls", 0.05, 3000, 0.06, 0.01, 1},
	[WS_ITEM_CALL] = {"os", "OS calls", 0.1, 1000, 0.06, 0.01, 1},
	[WS_ITEM_OPERATOR] = {"operator", "operators", 0.03, 1000, 0.06, 0.005, 1},
	[WS_ITEM_PYTHON] = {"python", "Python calls", 0.03, 1000, 0.06, 0.005, 1},
	[WS_ITEM_FUNCTION] = {"function", "functions", 0.04, 0, 0.04, 0.01, 0.15},
};

enum { LEAST_HASH = 8 }; /* digits of a possible hash */

struct collector {
	const struct ws_model *model;
	uint64_t *done; /* by step: when it was done, see find_done */
	struct ws_fold *fold;
	struct ws_items *items;
	struct ws_map index; /* kind << 32 | key: item + 1 */
};

/* ---- parts of the run ---- */

/* The step that the CPU was in. */
static size_t find_step(const struct ws_model *model, uint64_t at)
{
	const struct ws_step *steps = model->steps.steps + model->first_step;
	size_t count = ws_model_count_steps(model);
	size_t before = ws_bisect(count, i, steps[i].start <= at);

	return before - (before > 0);
}

/* The step that the program as a whole was in: the first that was not done yet. */
static size_t find_undone_step(const struct collector *collector, uint64_t at)
{
	size_t count = ws_model_count_steps(collector->model);

	return ws_min(ws_bisect(count, i, collector->done[i] <= at), count - 1);
}

static void note_work(const struct ws_model *model, const struct ws_work_op *op, uint64_t *done)
{
	uint32_t call = ws_calls_find(&model->calls, op->process, op->correlation);
	uint64_t start;
	size_t step;

	if (op->process != model->process || call == WS_NO_CALL)
		return;
	start = model->calls.rows.col[ws_cuda_api_start][call];
	if (start < model->from || start >= model->to)
		return;
	step = find_step(model, start);
	done[step] = ws_min(ws_max(done[step], op->end), model->to);
}

/*
 * When each step was done: when the next began or, if that is later, when the work that it and the
 * steps before it launched was done. A loop that does not wait for its GPU runs far ahead of it, so
 * its steps have the pace of the GPU work.
 */
static uint64_t *find_done(const struct ws_model *model)
{
	const struct ws_step *steps = model->steps.steps + model->first_step;
	size_t count = ws_model_count_steps(model);
	uint64_t *done = ws_malloc(count * sizeof(*done));

	if (model->step_source == WS_STEPS_NONE) {
		done[0] = model->to;
		return done;
	}
	for (size_t i = 0; i + 1 < count; i++)
		done[i] = steps[i + 1].start;
	done[count - 1] = model->to;
	for (size_t gpu = 0; gpu < model->work.gpus; gpu++)
		for (size_t i = 0; i < model->work.gpu[gpu].count; i++)
			note_work(model, &model->work.gpu[gpu].op[i], done);
	for (size_t i = 1; i < count; i++)
		done[i] = ws_max(done[i], done[i - 1]);
	return done;
}

/* CPU events belong to the part in which they began, GPU work to the step that waits for it. */
static size_t find_unit(const struct collector *collector, uint64_t at, bool on_gpu)
{
	const struct ws_model *model = collector->model;
	uint64_t span = ws_max(model->to - model->from, (uint64_t)1);
	size_t step;

	if (ws_is_cut_in_slices(model))
		return (size_t)((unsigned __int128)(at - model->from) * WS_UNITS / span);
	if (on_gpu)
		step = find_undone_step(collector, at);
	else
		step = find_step(model, at);
	return step * WS_UNITS / ws_model_count_steps(model);
}

bool ws_is_cut_in_slices(const struct ws_model *model)
{
	enum { LEAST_STEPS = 8 };

	return model->step_source == WS_STEPS_NONE || ws_model_count_steps(model) < LEAST_STEPS;
}

/* How many steps each part has: none where there are fewer steps than parts. */
static void measure_units(const struct ws_model *model, struct ws_series *nothing)
{
	size_t steps = ws_model_count_steps(model);
	bool slices = ws_is_cut_in_slices(model);

	for (size_t i = 0; i < steps && !slices; i++)
		nothing->length[i * WS_UNITS / steps]++;
	for (size_t i = 0; i < WS_UNITS && slices; i++)
		nothing->length[i] = (double)steps / WS_UNITS;
}

/* ---- items ---- */

/*
 * For a run that is not cut at steps: the instances of an item, as long as there are not too many.
 */
struct ws_instances {
	struct ws_keyed_value *list; /* start, ns */
	size_t count, cap;
};
enum { MOST_INSTANCES = 4096 };

/* Samples and waits come in bursts that do not show how often things happen, so they stay in slices
 * of time. */
static bool has_instances(const struct collector *collector, enum ws_item_kind kind)
{
	return ws_is_cut_in_slices(collector->model) && kind != WS_ITEM_STEP &&
	       kind != WS_ITEM_OWN && kind != WS_ITEM_CALL && kind != WS_ITEM_FUNCTION;
}

static struct ws_item *add_item(struct collector *collector, enum ws_item_kind kind,
				const char *name, size_t length)
{
	struct ws_items *items = collector->items;
	struct ws_item *item = ws_calloc(1, sizeof(*item));

	item->kind = kind;
	item->name = ws_strndup(name, length);
	item->length = strlen(item->name);
	item->series = items->nothing;
	if (has_instances(collector, kind))
		item->instances = ws_calloc(1, sizeof(*item->instances));
	ws_grow(items->items, items->cap, items->count + 1);
	items->items[items->count++] = item;
	return item;
}

/* The item of a kind and key; a new one is called `name`. */
static struct ws_item *find_or_add_item(struct collector *collector, enum ws_item_kind kind,
					uint32_t key, const char *name, size_t length)
{
	uint64_t at = (uint64_t)kind << 32 | key;
	uint64_t number = ws_map_get(&collector->index, at, NULL);

	if (number)
		return collector->items->items[number - 1];
	ws_map_set(&collector->index, at, collector->items->count + 1);
	return add_item(collector, kind, name, length);
}

/* ---- instances ---- */

static void free_instances(struct ws_item *item)
{
	free(item->instances->list);
	free(item->instances);
	item->instances = NULL;
}

static void note_instance(struct ws_item *item, uint64_t start, uint64_t ns)
{
	struct ws_instances *instances = item->instances;

	if (!instances)
		return;
	if (instances->count == MOST_INSTANCES) {
		free_instances(item);
		return;
	}
	ws_grow(instances->list, instances->cap, instances->count + 1);
	instances->list[instances->count++] = (struct ws_keyed_value){start, ns};
}

/* Divides the instances into parts by their order: the k-th of one run is mostly the same piece of
 * work as the k-th of another. */
static void spread_instances(struct ws_item *item)
{
	struct ws_instances *instances = item->instances;

	if (!instances)
		return;
	if (instances->count) {
		instances->list = ws_sort_by_key(instances->list, instances->count);
		memset(item->series.time, 0, sizeof(item->series.time));
		memset(item->series.count, 0, sizeof(item->series.count));
	}
	for (size_t i = 0; i < instances->count; i++) {
		item->series.time[i * WS_UNITS / instances->count] +=
			(double)instances->list[i].value;
		item->series.count[i * WS_UNITS / instances->count]++;
	}
	free_instances(item);
}

static bool is_on_gpu(enum ws_item_kind kind)
{
	return kind == WS_ITEM_KERNEL || kind == WS_ITEM_COPY;
}

static void add_event(const struct collector *collector, struct ws_item *item, uint64_t start,
		      uint64_t ns)
{
	size_t unit = find_unit(collector, start, is_on_gpu(item->kind));

	note_instance(item, start, ns);
	item->series.time[unit] += (double)ns;
	item->series.count[unit]++;
}

static void add_named_event(struct collector *collector, enum ws_item_kind kind, uint32_t text,
			    uint64_t start, uint64_t ns)
{
	const struct ws_report *report = collector->model->report;
	uint32_t key = ws_fold_key(collector->fold, report, text);
	size_t length;
	const char *name = ws_fold_name(collector->fold, report, text, &length);

	if (length)
		add_event(collector, find_or_add_item(collector, kind, key, name, length), start,
			  ns);
}

/* ---- tables of events ---- */

/* Where events of a kind come from: rows of a table whose `type` is one of the bits in `wanted`. */
struct event_source {
	enum ws_table table;
	enum ws_item_kind kind;
	int start, end, name, alias; /* alias: the name where it is not 0; -1 for none */
	int type;		     /* -1: all rows */
	uint64_t wanted;
};

static const struct event_source sources[] = {
	{WS_TABLE_nvtx, WS_ITEM_RANGE, ws_nvtx_start, ws_nvtx_end, ws_nvtx_text, -1, ws_nvtx_type,
	 UINT64_C(1) << WS_NVTX_PUSHPOP | UINT64_C(1) << WS_NVTX_STARTEND},
	{WS_TABLE_cuda_kernel, WS_ITEM_KERNEL, ws_cuda_kernel_start, ws_cuda_kernel_end,
	 ws_cuda_kernel_name, ws_cuda_kernel_demangled, -1, 0},
	{WS_TABLE_cuda_api, WS_ITEM_API, ws_cuda_api_start, ws_cuda_api_end, ws_cuda_api_name, -1,
	 -1, 0},
	{WS_TABLE_osrt, WS_ITEM_CALL, ws_osrt_start, ws_osrt_end, ws_osrt_name, -1, -1, 0},
	{WS_TABLE_op, WS_ITEM_OPERATOR, ws_op_start, ws_op_end, ws_op_name, -1, ws_op_kind,
	 1u << WS_OP_CPU},
	{WS_TABLE_op, WS_ITEM_RANGE, ws_op_start, ws_op_end, ws_op_name, -1, ws_op_kind,
	 1u << WS_OP_ANNOTATION},
	{WS_TABLE_op, WS_ITEM_PYTHON, ws_op_start, ws_op_end, ws_op_name, -1, ws_op_kind,
	 1u << WS_OP_PYTHON},
};

struct source_scan {
	struct collector *collector;
	const struct event_source *source;
};

static bool is_wanted(const struct event_source *source, const struct ws_batch *batch, size_t row)
{
	uint64_t type;

	if (source->type < 0)
		return true;
	type = batch->col[source->type][row];
	return type < 64 && source->wanted >> type & 1;
}

static bool is_in_window(const struct ws_model *model, uint64_t start, uint64_t end)
{
	return start >= model->from && start < model->to && end != WS_NO_TIME && end >= start;
}

static int collect_batch(void *context, const struct ws_batch *batch)
{
	struct source_scan *scan = context;
	const struct event_source *source = scan->source;

	for (size_t i = 0; i < batch->rows; i++) {
		uint64_t start = batch->col[source->start][i], end = batch->col[source->end][i];
		uint32_t name = (uint32_t)batch->col[source->name][i];

		if (!is_wanted(source, batch, i) ||
		    !is_in_window(scan->collector->model, start, end))
			continue;
		if (source->alias >= 0)
			name = ws_or((uint32_t)batch->col[source->alias][i], name);
		add_named_event(scan->collector, source->kind, name, start, end - start);
	}
	return 0;
}

static uint64_t column_bit(int column)
{
	return ws_bits_if(column >= 0, UINT64_C(1) << (column & 63));
}

static void scan_source(struct collector *collector, const struct event_source *source)
{
	struct source_scan context = {collector, source};
	struct ws_scan scan = {.table = source->table,
			       .columns = column_bit(source->start) | column_bit(source->end) |
					  column_bit(source->name) | column_bit(source->alias) |
					  column_bit(source->type),
			       .time_min = collector->model->from,
			       .time_max = collector->model->to,
			       .workers = 1};

	ws_run_scan(collector->model->report, &scan, collect_batch, &context, NULL);
}

/* ---- copies ---- */

static const char *name_copy(uint64_t kind)
{
	static const char *const names[] = {[WS_COPY_HTOD] = "host to device",
					    [WS_COPY_DTOH] = "device to host",
					    [WS_COPY_HTOA] = "host to array",
					    [WS_COPY_ATOH] = "array to host",
					    [WS_COPY_ATOA] = "array to array",
					    [WS_COPY_ATOD] = "array to device",
					    [WS_COPY_DTOA] = "device to array",
					    [WS_COPY_DTOD] = "device to device",
					    [WS_COPY_HTOH] = "host to host",
					    [WS_COPY_PTOP] = "between GPUs",
					    [WS_COPY_UM_HTOD] = "unified memory, host to device",
					    [WS_COPY_UM_DTOH] = "unified memory, device to host",
					    [WS_COPY_UM_DTOD] = "unified memory, between GPUs"};

	if (kind < WS_COUNT(names) && names[kind])
		return names[kind];
	return "other copies";
}

/* Work that has no name of its own: all rows of a table as one item. */
static const struct {
	enum ws_table table;
	enum ws_item_kind kind;
	int start, end;
	const char *name;
} unnamed_work[] = {
	{WS_TABLE_cuda_memset, WS_ITEM_COPY, ws_cuda_memset_start, ws_cuda_memset_end, "memset"},
	{WS_TABLE_cuda_graph_trace, WS_ITEM_KERNEL, ws_cuda_graph_trace_start,
	 ws_cuda_graph_trace_end, "CUDA graph as a whole"},
};

static void collect_unnamed_work(struct collector *collector, size_t number)
{
	struct ws_cursor *cursor =
		ws_cursor_open(collector->model->report, unnamed_work[number].table,
			       collector->model->from, collector->model->to);
	const char *name = unnamed_work[number].name;
	const uint64_t *row;

	while (ws_cursor_next(cursor, &row)) {
		uint64_t start = row[unnamed_work[number].start],
			 end = row[unnamed_work[number].end];

		if (is_in_window(collector->model, start, end))
			add_event(collector,
				  find_or_add_item(collector, unnamed_work[number].kind, UINT32_MAX,
						   name, strlen(name)),
				  start, end - start);
	}
	ws_cursor_close(cursor);
}

static void collect_copies(struct collector *collector)
{
	struct ws_cursor *cursor = ws_cursor_open(collector->model->report, WS_TABLE_cuda_memcpy,
						  collector->model->from, collector->model->to);
	const uint64_t *row;

	while (ws_cursor_next(cursor, &row)) {
		const char *name = name_copy(row[ws_cuda_memcpy_kind]);
		uint64_t start = row[ws_cuda_memcpy_start], end = row[ws_cuda_memcpy_end];

		if (is_in_window(collector->model, start, end))
			add_event(collector,
				  find_or_add_item(collector, WS_ITEM_COPY,
						   (uint32_t)row[ws_cuda_memcpy_kind], name,
						   strlen(name)),
				  start, end - start);
	}
	ws_cursor_close(cursor);
}

/* ---- functions ---- */

/* Interrupts hit any function of the kernel now and then, so all its functions are one item. */
static struct ws_item *find_function_item(struct collector *collector, uint32_t frame)
{
	const struct ws_stacks *stacks = collector->model->stacks;
	uint32_t number =
		ws_stacks_get_places(stacks, ws_stacks_get_frame(stacks, frame))->function;
	const struct ws_function *function = ws_stacks_get_function(stacks, number);

	if (function->kind == WS_FRAME_KERNEL)
		return find_or_add_item(collector, WS_ITEM_FUNCTION, 0, WS_KERNEL_ITEM,
					strlen(WS_KERNEL_ITEM));
	return find_or_add_item(collector, WS_ITEM_FUNCTION, number, function->name, function->len);
}

static void collect_functions(struct collector *collector)
{
	const struct ws_model *model = collector->model;
	const struct ws_samples *samples = &model->samples;

	for (uint32_t id = 0; id < model->thread_count; id++)
		for (size_t i = model->threads[id].first_sample; i < model->threads[id].end_sample;
		     i++) {
			uint64_t start = samples->start[i], time = ws_samples_get_time(samples, i);
			uint32_t frame = samples->frame[i];

			if (frame && time && start >= model->from && start < model->to)
				add_event(collector, find_function_item(collector, frame), start,
					  time);
		}
}

/* ---- forms of names ---- */

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

/* The length of a hash at the beginning of `text`, 0 for none: hexadecimal digits that include
 * letters and figures. */
static size_t measure_hash(const char *text)
{
	size_t length = 0, figures = 0;

	while (isxdigit((unsigned char)text[length]))
		figures += isdigit((unsigned char)text[length++]) != 0;
	if (length < LEAST_HASH || !figures || figures == length)
		return 0;
	return length;
}

void ws_put_name_form(struct ws_text *text, const char *name)
{
	struct ws_text bare = {0};

	for (const char *at = name; *at;) {
		size_t hash = 0;

		/* Also after the length or the "h" that mangling puts before a hash. */
		if (at == name || !is_word(at[-1]) || at[-1] == '_' || at[-1] == 'h')
			hash = measure_hash(at);
		if (hash)
			ws_text_puts(&bare, "0");
		else
			ws_text_add(&bare, at, 1);
		at += ws_max(hash, (size_t)1);
	}
	ws_put_folded(text, ws_text_or(bare.text, ""), bare.len, true);
	ws_text_free(&bare);
}

/* ---- steps ---- */

/* A step lasts from the end of the one before it until its own end, so that steps add up. */
static void collect_steps(struct collector *collector)
{
	const struct ws_model *model = collector->model;
	size_t count = ws_model_count_steps(model);
	struct ws_item *item = add_item(collector, WS_ITEM_STEP, "step", strlen("step"));
	uint64_t from = model->from;

	if (model->step_source == WS_STEPS_NONE) {
		for (size_t i = 0; i < WS_UNITS; i++) {
			item->series.time[i] = (double)(model->to - model->from) / WS_UNITS;
			item->series.count[i] = item->series.length[i];
		}
		return;
	}
	memset(item->series.length, 0, sizeof(item->series.length));
	for (size_t i = 0; i < count; i++) {
		item->series.time[i * WS_UNITS / count] += (double)(collector->done[i] - from);
		item->series.count[i * WS_UNITS / count]++;
		item->series.length[i * WS_UNITS / count]++;
		from = collector->done[i];
	}
}

/* Subtracts a wait for a core from the steps that it was in. */
static void take_out_wait(const struct collector *collector, const struct ws_piece *piece,
			  struct ws_series *series)
{
	size_t count = ws_model_count_steps(collector->model);
	uint64_t from = piece->start;

	if (collector->model->step_source == WS_STEPS_NONE) {
		for (size_t i = 0; i < WS_UNITS; i++)
			series->time[i] -= (double)(piece->end - piece->start) / WS_UNITS;
		return;
	}
	for (size_t step = find_undone_step(collector, from); from < piece->end; step++) {
		uint64_t end = piece->end;

		if (step + 1 < count)
			end = ws_min(end, collector->done[step]);
		series->time[step * WS_UNITS / count] -= (double)(end - from);
		from = end;
	}
}

static void collect_own_time(struct collector *collector, const struct ws_analysis *analysis)
{
	struct ws_series series = collector->items->items[0]->series; /* of the steps */
	struct ws_item *item = add_item(collector, WS_ITEM_OWN, "own", strlen("own"));

	for (size_t i = 0; i < analysis->path.count; i++)
		if (analysis->path.pieces[i].kind == WS_PIECE_RUNNABLE)
			take_out_wait(collector, &analysis->path.pieces[i], &series);
	item->series = series;
}

/* The steps are an item of their own, so this drops their ranges, which have the same form. */
static void drop_step_ranges(const char *step_form, struct ws_items *items)
{
	size_t kept = 0;

	for (size_t i = 0; i < items->count; i++) {
		struct ws_item *item = items->items[i];
		struct ws_text form = {0};
		bool step;

		ws_put_name_form(&form, item->name);
		step = item->kind == WS_ITEM_RANGE && !strcmp(ws_text_or(form.text, ""), step_form);
		ws_text_free(&form);
		if (!step) {
			items->items[kept++] = item;
			continue;
		}
		free(item->name);
		free(item);
	}
	items->count = kept;
}

char *ws_find_step_form(const struct ws_model *model)
{
	struct ws_text form = {0};
	uint32_t text;

	if (model->step_source == WS_STEPS_NONE)
		return NULL;
	if (model->step_source == WS_STEPS_MARKED) {
		text = model->steps.steps[model->first_step].text;
		ws_put_name_form(&form, ws_report_string(model->report, text, NULL));
	}
	if (!form.text)
		return ws_strdup("");
	return form.text;
}

void ws_items_collect(const struct ws_analysis *analysis, struct ws_items *items)
{
	char *step_form = ws_find_step_form(analysis->model);
	const struct ws_model *model = analysis->model;
	struct collector collector = {.model = model,
				      .items = items,
				      .done = find_done(model),
				      .fold = ws_fold_open(model->report, WS_FOLD_AUTO)};

	memset(items, 0, sizeof(*items));
	measure_units(model, &items->nothing);
	collect_steps(&collector);
	collect_own_time(&collector, analysis);
	for (size_t i = 0; i < WS_COUNT(sources); i++)
		scan_source(&collector, &sources[i]);
	collect_copies(&collector);
	for (size_t i = 0; i < WS_COUNT(unnamed_work); i++)
		collect_unnamed_work(&collector, i);
	collect_functions(&collector);
	for (size_t i = 0; i < items->count; i++)
		spread_instances(items->items[i]);
	if (step_form && *step_form)
		drop_step_ranges(step_form, items);
	free(step_form);
	ws_fold_close(collector.fold);
	ws_map_free(&collector.index);
	free(collector.done);
}

void ws_items_free(struct ws_items *items)
{
	for (size_t i = 0; i < items->count; i++) {
		free(items->items[i]->name);
		free(items->items[i]);
	}
	free(items->items);
	memset(items, 0, sizeof(*items));
}
