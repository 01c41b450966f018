/* facts.c - see facts.h. */
#include "analyze/facts.h"

#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/map.h"
#include "base/mem.h"
#include "query/gpu.h"

const char *ws_name_direction(enum ws_copy_direction direction)
{
	static const char *const names[] = {[WS_TO_DEVICE] = "to the GPU",
					    [WS_TO_HOST] = "from the GPU",
					    [WS_BETWEEN] = "on and between GPUs",
					    [WS_MIGRATED] = "of unified memory"};

	return names[direction];
}

static void note_longest(struct ws_span *longest, uint64_t start, uint64_t end)
{
	if (end - start > longest->end - longest->start)
		*longest = (struct ws_span){start, end};
}

static bool is_in_window(const struct ws_model *model, uint64_t start, uint64_t end)
{
	return end != WS_NO_TIME && end >= start && end > model->from && start < model->to;
}

/* ---- calls ---- */

/* Where calls came from, by (function of CUDA, place). */
struct call_places {
	struct ws_code_place *places;
	uint64_t *ns;
	uint32_t *fact;
	size_t count, cap, ns_cap, fact_cap;
};

/* The number of a place of a function's calls, which is added where it is not there yet. */
static size_t find_or_add_place(struct call_places *places, uint32_t fact,
				const struct ws_code_place *place)
{
	size_t i = 0;

	while (i < places->count &&
	       (places->fact[i] != fact || memcmp(&places->places[i], place, sizeof(*place))))
		i++;
	if (i == places->count) {
		ws_grow(places->places, places->cap, i + 1);
		ws_grow(places->ns, places->ns_cap, i + 1);
		ws_grow(places->fact, places->fact_cap, i + 1);
		places->places[i] = *place;
		places->fact[i] = fact;
		places->ns[i] = 0;
		places->count++;
	}
	return i;
}

static void add_call_place(struct call_places *places, uint32_t fact,
			   const struct ws_code_place *place, uint64_t ns)
{
	size_t i = find_or_add_place(places, fact, place);

	places->ns[i] += ns;
}

static void choose_call_places(struct ws_facts *facts, const struct call_places *places)
{
	for (size_t i = 0; i < places->count; i++) {
		struct ws_call_fact *fact = &facts->calls[places->fact[i]];

		if (places->ns[i] > fact->place_ns) {
			fact->place_ns = places->ns[i];
			fact->place = places->places[i];
		}
	}
}

struct call_count {
	const struct ws_model *model;
	struct ws_facts *facts;
	struct ws_map index; /* name: fact + 1 */
	struct call_places places;
	struct ws_map chains; /* function << 32 | call stack: number in `places` + 1 */
};

/* Many calls come from the same stack: its place is looked up once. */
static void add_chain(struct call_count *count, uint32_t fact, uint32_t chain, uint64_t ns)
{
	uint64_t key = (uint64_t)fact << 32 | chain, at = ws_map_get(&count->chains, key, NULL);

	if (!at) {
		struct ws_code_place place = ws_code_find_place(count->model, 0, chain);

		at = find_or_add_place(&count->places, fact, &place) + 1;
		ws_map_set(&count->chains, key, at);
	}
	count->places.ns[at - 1] += ns;
}

static void count_call(struct call_count *count, const uint64_t *values)
{
	struct ws_facts *facts = count->facts;
	uint64_t start = values[ws_cuda_api_start], end = values[ws_cuda_api_end],
		 name = ws_report_string_key(count->model->report,
					     (uint32_t)values[ws_cuda_api_name]),
		 at;
	struct ws_call_fact *fact;

	if (!is_in_window(count->model, start, end) ||
	    ws_find_thread(count->model->who, (uint32_t)values[ws_cuda_api_thread])->process !=
		    count->model->process)
		return;
	at = ws_map_get(&count->index, name, NULL);
	if (!at) {
		ws_grow(facts->calls, facts->call_cap, facts->call_count + 1);
		facts->calls[facts->call_count] = (struct ws_call_fact){.name = (uint32_t)name};
		at = ++facts->call_count;
		ws_map_set(&count->index, name, at);
	}
	fact = &facts->calls[at - 1];
	fact->count++;
	fact->ns += end - start;
	note_longest(&fact->longest, start, end);
	if (values[ws_cuda_api_callchain] && values[ws_cuda_api_callchain] != WS_NO_U32)
		add_chain(count, (uint32_t)(at - 1), (uint32_t)values[ws_cuda_api_callchain],
			  end - start);
}

static void place_by_sample(struct call_count *count, uint32_t thread, size_t i)
{
	const struct ws_model *model = count->model;
	const struct ws_samples *samples = &model->samples;
	uint32_t call;
	uint64_t fact;
	struct ws_code_place place;

	if (samples->start[i] < model->from || samples->start[i] > model->to || !samples->frame[i])
		return;
	call = ws_model_find_call(model, thread, samples->start[i]);
	if (call == WS_NO_CALL)
		return;
	fact = ws_map_get(
		&count->index,
		ws_report_string_key(model->report,
				     (uint32_t)model->calls.rows.col[ws_cuda_api_name][call]),
		NULL);
	if (!fact || count->facts->calls[fact - 1].place.users)
		return;
	place = ws_code_find_place(model, samples->frame[i], samples->callers[i]);
	if (!place.users)
		return;
	place.leaf = place.function;
	add_call_place(&count->places, (uint32_t)(fact - 1), &place,
		       ws_max(ws_samples_get_time(samples, i), (uint64_t)1));
}

/* Where calls were recorded without stacks, samples taken inside them show the place. */
static void place_by_samples(struct call_count *count)
{
	const struct ws_model *model = count->model;

	for (uint32_t id = 0; id < model->thread_count; id++)
		for (size_t i = model->threads[id].first_sample; i < model->threads[id].end_sample;
		     i++)
			place_by_sample(count, id, i);
}

static int compare_calls(const void *first, const void *second)
{
	const struct ws_call_fact *left = first, *right = second;

	if (left->ns != right->ns)
		return ws_compare(right->ns, left->ns);
	return ws_compare(left->name, right->name);
}

static void count_calls(const struct ws_model *model, struct ws_facts *facts)
{
	struct call_count count = {.model = model, .facts = facts};
	struct ws_cursor *cursor = ws_cursor_open_columns(
		model->report, WS_TABLE_cuda_api,
		WS_COLUMN_BIT(cuda_api, start) | WS_COLUMN_BIT(cuda_api, end) |
			WS_COLUMN_BIT(cuda_api, name) | WS_COLUMN_BIT(cuda_api, thread) |
			WS_COLUMN_BIT(cuda_api, callchain),
		model->from, model->to);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values))
		count_call(&count, values);
	ws_cursor_close(cursor);
	choose_call_places(facts, &count.places);
	count.places.count = 0;
	place_by_samples(&count);
	for (size_t i = 0; i < count.places.count; i++)
		facts->calls[count.places.fact[i]].place_ns = 0;
	choose_call_places(facts, &count.places);
	if (facts->call_count)
		qsort(facts->calls, facts->call_count, sizeof(*facts->calls), compare_calls);
	free(count.places.places);
	free(count.places.ns);
	free(count.places.fact);
	ws_map_free(&count.index);
	ws_map_free(&count.chains);
}

/* ---- copies ---- */

static enum ws_copy_direction find_direction(uint64_t kind)
{
	switch (kind) {
	case WS_COPY_HTOD:
	case WS_COPY_HTOA:
		return WS_TO_DEVICE;
	case WS_COPY_DTOH:
	case WS_COPY_ATOH:
		return WS_TO_HOST;
	case WS_COPY_UM_HTOD:
	case WS_COPY_UM_DTOH:
	case WS_COPY_UM_DTOD:
		return WS_MIGRATED;
	default:
		return WS_BETWEEN;
	}
}

static void count_copies(const struct ws_model *model, struct ws_facts *facts)
{
	enum { PAGEABLE = 0 }; /* of ENUM_CUDA_MEM_KIND */
	struct ws_cursor *cursor =
		ws_cursor_open(model->report, WS_TABLE_cuda_memcpy, model->from, model->to);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		uint64_t start = values[ws_cuda_memcpy_start], end = values[ws_cuda_memcpy_end],
			 host = values[ws_cuda_memcpy_src_kind];
		enum ws_copy_direction direction = find_direction(values[ws_cuda_memcpy_kind]);
		struct ws_copy_fact *fact;

		if (!is_in_window(model, start, end))
			continue;
		if (direction == WS_TO_HOST)
			host = values[ws_cuda_memcpy_dst_kind];
		fact = &facts->copies[direction][direction <= WS_TO_HOST && host == PAGEABLE];
		fact->count++;
		fact->bytes += values[ws_cuda_memcpy_bytes];
		fact->ns += end - start;
		if (values[ws_cuda_memcpy_bytes] < WS_SMALL_COPY_BYTES) {
			fact->small++;
			fact->small_ns += end - start;
		}
		if (!(values[ws_cuda_memcpy_flags] & WS_CUDA_ASYNC)) {
			fact->synchronous++;
			fact->synchronous_ns += end - start;
		}
		note_longest(&fact->longest, start, end);
	}
	ws_cursor_close(cursor);
}

static void count_memsets(const struct ws_model *model, struct ws_facts *facts)
{
	struct ws_cursor *cursor =
		ws_cursor_open(model->report, WS_TABLE_cuda_memset, model->from, model->to);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		uint64_t start = values[ws_cuda_memset_start], end = values[ws_cuda_memset_end];

		if (!is_in_window(model, start, end))
			continue;
		facts->memsets++;
		facts->memset_ns += end - start;
		note_longest(&facts->longest_memset, start, end);
		facts->memset_bytes += values[ws_cuda_memset_bytes];
	}
	ws_cursor_close(cursor);
}

/* ---- kernels ---- */

static void note_kernel(struct ws_kernel_fact *fact, const uint64_t *values)
{
	uint64_t start = values[ws_cuda_kernel_start], end = values[ws_cuda_kernel_end];
	union {
		uint64_t bits;
		double value;
	} occupancy = {values[ws_cuda_kernel_occupancy]}, waves = {values[ws_cuda_kernel_waves]};

	fact->count++;
	fact->ns += end - start;
	fact->brief += end - start < WS_SHORT_KERNEL_NS;
	if (end - start <= fact->longest.end - fact->longest.start)
		return;
	fact->longest = (struct ws_span){start, end};
	fact->blocks = values[ws_cuda_kernel_grid_x] * values[ws_cuda_kernel_grid_y] *
		       values[ws_cuda_kernel_grid_z];
	fact->threads = values[ws_cuda_kernel_block_x] * values[ws_cuda_kernel_block_y] *
			values[ws_cuda_kernel_block_z];
	fact->occupancy = occupancy.value;
	fact->waves = waves.value;
	fact->limiter = (uint8_t)values[ws_cuda_kernel_limiter];
	fact->registers = (uint32_t)values[ws_cuda_kernel_registers];
	fact->shared = (uint32_t)(values[ws_cuda_kernel_static_shared] +
				  values[ws_cuda_kernel_dynamic_shared]);
	fact->local = (uint32_t)values[ws_cuda_kernel_local_thread];
	fact->reserved = values[ws_cuda_kernel_local_total];
}

static int compare_kernels(const void *first, const void *second)
{
	const struct ws_kernel_fact *left = first, *right = second;

	if (left->ns != right->ns)
		return ws_compare(right->ns, left->ns);
	return ws_compare(left->name, right->name);
}

#define KERNEL(column) WS_COLUMN_BIT(cuda_kernel, column)
static const uint64_t kernel_columns =
	KERNEL(start) | KERNEL(end) | KERNEL(name) | KERNEL(demangled) | KERNEL(process) |
	KERNEL(device) | KERNEL(stream) | KERNEL(grid_x) | KERNEL(grid_y) | KERNEL(grid_z) |
	KERNEL(block_x) | KERNEL(block_y) | KERNEL(block_z) | KERNEL(occupancy) | KERNEL(waves) |
	KERNEL(limiter) | KERNEL(registers) | KERNEL(static_shared) | KERNEL(dynamic_shared) |
	KERNEL(local_thread) | KERNEL(local_total);

static void count_kernels(const struct ws_model *model, struct ws_facts *facts)
{
	struct ws_cursor *cursor = ws_cursor_open_columns(model->report, WS_TABLE_cuda_kernel,
							  kernel_columns, model->from, model->to);
	struct ws_map index = {0}, streams = {0}, devices = {0};
	struct ws_kind_counter counter = {0};
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		uint64_t name, at, start = values[ws_cuda_kernel_start],
				   end = values[ws_cuda_kernel_end];

		if (!is_in_window(model, start, end))
			continue;
		name = ws_or(values[ws_cuda_kernel_name], values[ws_cuda_kernel_demangled]);
		name = ws_report_string_key(model->report, (uint32_t)name);
		at = ws_map_get(&index, name, NULL);
		if (!at) {
			ws_grow(facts->kernels, facts->kernel_cap, facts->kernel_count + 1);
			facts->kernels[facts->kernel_count] = (struct ws_kernel_fact){
				.name = (uint32_t)name,
				.demangled = (uint32_t)values[ws_cuda_kernel_demangled]};
			at = ++facts->kernel_count;
			ws_map_set(&index, name, at);
		}
		note_kernel(&facts->kernels[at - 1], values);
		ws_kernel_kinds_count(model, &counter,
				      (uint32_t)ws_or(values[ws_cuda_kernel_demangled],
						      values[ws_cuda_kernel_name]),
				      (struct ws_span){start, end}, facts->kinds);
		facts->kernel_instances++;
		facts->kernel_ns += end - start;
		facts->brief_kernels += end - start < WS_SHORT_KERNEL_NS;
		ws_map_set(&streams,
			   values[ws_cuda_kernel_process] << 32 |
				   values[ws_cuda_kernel_device] << 24 |
				   values[ws_cuda_kernel_stream],
			   1);
		ws_map_set(&devices,
			   values[ws_cuda_kernel_process] << 32 | values[ws_cuda_kernel_device], 1);
	}
	ws_cursor_close(cursor);
	facts->streams = streams.count / ws_max(devices.count, (size_t)1);
	if (facts->kernel_count)
		qsort(facts->kernels, facts->kernel_count, sizeof(*facts->kernels),
		      compare_kernels);
	ws_map_free(&index);
	ws_map_free(&streams);
	ws_kind_counter_free(&counter);
	ws_map_free(&devices);
}

static void count_compile(struct ws_facts *facts, const struct ws_model *model, uint64_t start,
			  uint64_t end)
{
	if (!is_in_window(model, start, end))
		return;
	start = ws_max(start, model->from);
	end = ws_min(end, model->to);
	facts->compile.count++;
	facts->compile.ns += end - start;
	note_longest(&facts->compile.longest, start, end);
}

static void count_compiles(const struct ws_model *model, struct ws_facts *facts)
{
	struct ws_cursor *cursor =
		ws_cursor_open(model->report, WS_TABLE_cuda_jit, model->from, model->to);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values))
		count_compile(facts, model, values[ws_cuda_jit_start], values[ws_cuda_jit_end]);
	ws_cursor_close(cursor);
	cursor = ws_cursor_open(model->report, WS_TABLE_cuda_overhead, model->from, model->to);
	while (ws_cursor_next(cursor, &values)) {
		const char *name = ws_report_string(model->report,
						    (uint32_t)values[ws_cuda_overhead_name], NULL);

		if (strstr(name, "unction loading") || strstr(name, "ompiler"))
			count_compile(facts, model, values[ws_cuda_overhead_start],
				      values[ws_cuda_overhead_end]);
	}
	ws_cursor_close(cursor);
}

static void count_others(const struct ws_model *model, struct ws_facts *facts)
{
	struct ws_cursor *cursor =
		ws_cursor_open(model->report, WS_TABLE_cuda_module, 0, model->to);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		facts->modules_loaded += values[ws_cuda_module_start] > model->from;
		facts->debug_modules += values[ws_cuda_module_for_debugger] != 0;
	}
	ws_cursor_close(cursor);
	cursor = ws_cursor_open(model->report, WS_TABLE_cuda_graph_trace, model->from, model->to);
	while (ws_cursor_next(cursor, &values)) {
		uint64_t start = values[ws_cuda_graph_trace_start],
			 end = values[ws_cuda_graph_trace_end];

		facts->graph_launches++;
		if (is_in_window(model, start, end))
			facts->graph_ns += end - start;
	}
	ws_cursor_close(cursor);
	cursor = ws_cursor_open(model->report, WS_TABLE_cuda_device, 0, UINT64_MAX);
	while (ws_cursor_next(cursor, &values)) {
		facts->multiprocessors = ws_or(facts->multiprocessors, values[ws_cuda_device_sms]);
		facts->resident = ws_or(facts->resident, values[ws_cuda_device_sms] *
								 values[ws_cuda_device_warps_sm] *
								 values[ws_cuda_device_warp]);
		facts->capability = ws_or(facts->capability, values[ws_cuda_device_major] * 10 +
								     values[ws_cuda_device_minor]);
	}
	ws_cursor_close(cursor);
}

/* Whether other kernels than one ran before the window. */
static bool ran_others(const struct ws_model *model, uint32_t name)
{
	struct ws_cursor *cursor = ws_cursor_open_columns(model->report, WS_TABLE_cuda_kernel,
							  kernel_columns, 0, model->from);
	const uint64_t *values;
	bool others = false;

	while (!others && ws_cursor_next(cursor, &values))
		others = ws_report_string_key(model->report,
					      (uint32_t)ws_or(values[ws_cuda_kernel_name],
							      values[ws_cuda_kernel_demangled])) !=
			 name;
	ws_cursor_close(cursor);
	return others;
}

/*
 * Newer drivers say 0 for a thread's local memory, but still what they reserve for all threads that
 * fit on the GPU. That is never nothing: part of it is the same for all kernels, as the one with
 * the least shows. Of a program's only kernel it is taken to be what it is by default.
 */
static void find_local_memory(const struct ws_model *model, struct ws_facts *facts)
{
	enum { BY_DEFAULT = 576, LEAST_OF_ONE = 384 };
	uint64_t least = UINT64_MAX;

	if (!facts->resident || !facts->kernel_count)
		return;
	for (size_t i = 0; i < facts->kernel_count; i++)
		least = ws_min(least, facts->kernels[i].reserved / facts->resident);
	if (facts->kernel_count == 1 && least >= BY_DEFAULT + LEAST_OF_ONE &&
	    !ran_others(model, facts->kernels[0].name))
		least = BY_DEFAULT;
	for (size_t i = 0; i < facts->kernel_count; i++)
		if (!facts->kernels[i].local)
			facts->kernels[i].local =
				(uint32_t)(facts->kernels[i].reserved / facts->resident - least);
}

/*
 * Whether a thread was seen in a data loader in one of its first samples or waits, up to a limit.
 */
static bool is_seen_loading(const struct ws_model *model, const struct ws_model_thread *thread)
{
	enum { MOST_SAMPLES = 200, MOST_STATES = 1000 };
	size_t end = ws_min(thread->end_sample, thread->first_sample + MOST_SAMPLES);

	for (size_t i = thread->first_sample; i < end; i++)
		if (ws_code_find_place(model, model->samples.frame[i], model->samples.callers[i])
			    .loader)
			return true;
	end = ws_min(thread->count, (size_t)MOST_STATES);
	for (size_t i = 0; i < end; i++) {
		uint32_t stack = ws_model_get_call(model, &thread->states[i])->callchain;

		if (stack && stack != WS_NO_U32 && ws_code_find_place(model, 0, stack).loader)
			return true;
	}
	return false;
}

static bool is_loader_name(const char *name)
{
	return strstr(name, "data_worker") || strstr(name, "DataLoader");
}

/* Whether a process was started by the explained one, or by a child of it that only starts others,
 * such as multiprocessing's fork server. */
static bool is_started_by(const struct ws_model *model, uint32_t process)
{
	uint32_t parent = ws_find_process(model->who, process)->parent;

	return parent == model->process ||
	       ws_find_process(model->who, parent)->parent == model->process;
}

/* A loader begins or ends to have a worker. */
struct worker_change {
	uint64_t at;
	int by;
};

static int compare_changes(const void *first, const void *second)
{
	const struct worker_change *left = first, *right = second;

	if (left->at != right->at)
		return ws_compare(left->at, right->at);
	return ws_compare(left->by, right->by);
}

/* Processes whose first thread has the name of a framework's worker, or was seen to load data. */
static void count_loader_workers(const struct ws_model *model, struct ws_facts *facts)
{
	enum { MOST_LOOKED_AT = 256 }; /* a build has thousands of processes, a loader does not */
	struct worker_change *changes = NULL;
	size_t looked = 0, count = 0, cap = 0;
	int64_t workers = 0;

	for (uint32_t id = 1; id < model->thread_count; id++) {
		const struct ws_thread_info *info = ws_find_thread(model->who, id);
		const struct ws_model_thread *thread = &model->threads[id];
		const struct ws_process_info *process;

		if (info->tid != info->pid || !thread->running || info->process == model->process ||
		    !is_started_by(model, info->process))
			continue;
		if (!is_loader_name(info->name) &&
		    (looked++ >= MOST_LOOKED_AT || !is_seen_loading(model, thread)))
			continue;
		process = ws_find_process(model->who, info->process);
		facts->loader_starts += process->start >= model->from && process->start < model->to;
		ws_grow(changes, cap, count + 2);
		changes[count++] = (struct worker_change){process->start, 1};
		changes[count++] = (struct worker_change){process->end, -1};
	}
	if (count)
		qsort(changes, count, sizeof(*changes), compare_changes);
	for (size_t i = 0; i < count; i++) {
		workers += changes[i].by;
		facts->loader_workers =
			ws_max(facts->loader_workers, (uint64_t)ws_max(workers, (int64_t)0));
	}
	free(changes);
}

void ws_facts_count(const struct ws_model *model, struct ws_facts *facts)
{
	memset(facts, 0, sizeof(*facts));
	count_loader_workers(model, facts);
	if (!model->has_cuda)
		return;
	count_calls(model, facts);
	count_copies(model, facts);
	count_memsets(model, facts);
	count_kernels(model, facts);
	count_others(model, facts);
	find_local_memory(model, facts);
	count_compiles(model, facts);
}

void ws_facts_free(struct ws_facts *facts)
{
	free(facts->calls);
	free(facts->kernels);
	memset(facts, 0, sizeof(*facts));
}

bool ws_is_name_among(const char *name, size_t length, const char *const *names)
{
	for (; *names; names++) {
		size_t wanted = strlen(*names);

		if (wanted && (*names)[wanted - 1] == '*') {
			if (length >= wanted - 1 && !memcmp(name, *names, wanted - 1))
				return true;
		} else if (length == wanted && !memcmp(name, *names, wanted)) {
			return true;
		}
	}
	return false;
}

bool ws_facts_sum_calls(const struct ws_model *model, const struct ws_facts *facts,
			const char *const *names, struct ws_call_fact *sum)
{
	memset(sum, 0, sizeof(*sum));
	for (size_t i = 0; i < facts->call_count; i++) {
		const struct ws_call_fact *fact = &facts->calls[i];
		size_t length;
		const char *name = ws_get_cuda_function_name(model->report, fact->name, &length);

		if (!ws_is_name_among(name, length, names))
			continue;
		if (!sum->count || (fact->place.users && !sum->place.users)) {
			uint64_t count = sum->count, ns = sum->ns;

			*sum = *fact;
			sum->count = count;
			sum->ns = ns;
		}
		sum->count += fact->count;
		sum->ns += fact->ns;
	}
	return sum->count > 0;
}
