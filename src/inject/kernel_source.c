/*
 * kernel_source.c - see kernel_source.h. One pass samples program counters, another counts what
 * instructions do, a third samples the GPU's units: each changes how the kernel runs, so none
 * shares a pass with counters.
 */
#include <stdlib.h>

#include "inject/bind.h"
#include "inject/kernel_source.h"

enum { PLACES_MOST = 4 << 20, TEXTS_MOST = 1 << 16, TEXT_SLOTS = 2 * TEXTS_MOST };

enum { LOOK_SAMPLES, LOOK_COUNTS, LOOK_UNITS };

struct ws_kernel_details {
	struct ws_kernel_place *places;
	size_t count, capacity;
	bool lost; /* there were too many places */
	struct ws_kernel_moments *moments;
};
static struct ws_kernel_details *present; /* of the launch that is looked into */

static const struct {
	const char *name; /* in ws_kernel_settings.source, and in messages */
	int (*begin)(const struct ws_kernel_launch *launch, uint64_t duration, const char **what);
	int (*end)(const struct ws_kernel_launch *launch, const char **what);
	const char *loss; /* what a result lacks when the pass fails */
} passes[WS_KERNEL_LOOKS] = {
	[LOOK_SAMPLES] = {"sampling", ws_kernel_begin_sampling, ws_kernel_end_sampling,
			  "samples of program counters"},
	[LOOK_COUNTS] = {"sass", ws_kernel_begin_sass, ws_kernel_end_sass,
			 "counts of what single instructions do (SASS metrics)"},
	[LOOK_UNITS] = {"pm", ws_kernel_begin_pm, ws_kernel_end_pm,
			"metrics over their time (PM sampling)"},
};
static bool failed[WS_COUNT(passes)];

const char *ws_kernel_bind_functions(void *functions, const struct ws_kernel_binding *bindings,
				     size_t count)
{
	for (size_t i = 0; i < count; i++) {
		void *function = ws_find_symbol_in(ws_cupti.lib, bindings[i].name);

		if (!function)
			return bindings[i].name;
		memcpy((char *)functions + bindings[i].offset, &function, sizeof(function));
	}
	return NULL;
}

const char *ws_kernel_keep_text(const char *text)
{
	static char *texts[TEXT_SLOTS];
	static size_t count;
	uint32_t hash = 2166136261u;

	for (const char *at = text; *at; at++)
		hash = (hash ^ (uint8_t)*at) * 16777619u;
	for (uint32_t i = hash % TEXT_SLOTS;; i = (i + 1) % TEXT_SLOTS) {
		if (texts[i] && !strcmp(texts[i], text))
			return texts[i];
		if (texts[i])
			continue;
		if (count == TEXTS_MOST || !(texts[i] = strdup(text)))
			return "";
		count++;
		return texts[i];
	}
}

void ws_kernel_add_place(const struct ws_kernel_place *place)
{
	if (present->count == present->capacity) {
		size_t capacity = ws_max(2 * present->capacity, (size_t)512);
		struct ws_kernel_place *larger =
			capacity > PLACES_MOST
				? NULL
				: realloc(present->places, capacity * sizeof(*larger));

		present->lost |= !larger;
		if (!larger)
			return;
		present->places = larger;
		present->capacity = capacity;
	}
	present->places[present->count++] = *place;
}

void ws_kernel_keep_moments(struct ws_kernel_moments *moments)
{
	free(present->moments);
	present->moments = moments;
}

/* ---- passes ---- */

/* A graph's kernels run at once or in any order. */
bool ws_kernel_looks_into(const struct ws_kernel_launch *launch)
{
	return *ws_kernel_settings.source && launch->call != WS_KERNEL_LAUNCH_GRAPH;
}

bool ws_kernel_wants_look(size_t pass)
{
	return !failed[pass] && strstr(ws_kernel_settings.source, passes[pass].name);
}

bool ws_kernel_is_first_look(size_t pass)
{
	return pass == LOOK_UNITS;
}

bool ws_kernel_counts_first(const struct ws_kernel_launch *launch)
{
	return !ws_kernel_looks_into(launch) || !ws_kernel_wants_look(LOOK_UNITS);
}

static void note_failure(size_t pass, int rc, const char *what)
{
	if (!failed[pass])
		ws_kernel_report(WS_WARNING, "Kernels are measured without %s: %s: %s.",
				 passes[pass].loss, what, ws_kernel_explain(rc));
	failed[pass] = true;
}

void ws_kernel_ignore_functions(void)
{
	ws_kernel_disable_sampling();
}

void ws_kernel_watch_functions(void *context)
{
	static bool registered;
	const char *what = "";
	int rc;

	if (!ws_kernel_wants_look(LOOK_SAMPLES))
		return;
	rc = ws_kernel_enable_sampling(context, &what);
	if (rc)
		note_failure(LOOK_SAMPLES, rc, what);
	/* Before the driver's own end. */
	if (!registered)
		atexit(ws_kernel_ignore_functions);
	registered = true;
}

bool ws_kernel_begin_look(const struct ws_kernel_launch *launch, size_t pass, uint64_t duration,
			  struct ws_kernel_details **details)
{
	const char *what = "there is no memory left";
	int rc = CUPTI_ERR_OUT_OF_MEMORY;

	if (!*details)
		*details = calloc(1, sizeof(**details));
	present = *details;
	if (pass != LOOK_SAMPLES)
		ws_kernel_ignore_functions();
	if (present)
		rc = passes[pass].begin(launch, duration, &what);
	if (rc)
		note_failure(pass, rc, what);
	return !rc;
}

/* ---- records ---- */

static uint32_t find_handle(struct ws_thread *thread, const char *text)
{
	return ws_rt_find_string(thread, text, ws_min(strlen(text), (size_t)WS_STRING_MAX - 1));
}

/* One record: values of one function. */
static void write_places(struct ws_thread *thread, uint32_t result,
			 const struct ws_kernel_place *first, size_t count)
{
	size_t bytes =
		sizeof(struct ws_rec_kernel_source) + count * sizeof(struct ws_kernel_place_value);
	struct ws_kernel_place_value values[WS_KERNEL_VALUES];
	uint32_t function = find_handle(thread, first->function);
	struct ws_rec_kernel_source *record;

	for (size_t i = 0; i < count; i++)
		values[i] = (struct ws_kernel_place_value){.pc = first[i].pc,
							   .metric = find_handle(thread,
										 first[i].metric),
							   .value = first[i].value};
	record = ws_rt_reserve(thread, bytes, WS_LOSS_CUDA);
	if (!record)
		return;
	record->rec = (struct ws_rec){.kind = WS_REC_KERNEL_SOURCE, .value = (uint32_t)(bytes / 8)};
	record->result = result;
	record->count = (uint32_t)count;
	record->cubin = first->cubin;
	record->function = function;
	record->reserved = 0;
	memcpy(record->values, values, count * sizeof(values[0]));
	ws_rt_commit(thread, record, bytes);
}

/* The recorder reads the code of a function, which takes it a third of a second for a library's,
 * while counters are measured: a record without values names it. */
static void announce_functions(const struct ws_kernel_details *details)
{
	static const char *last; /* one launch is measured at a time */
	struct ws_thread *thread = ws_rt_enter();

	for (size_t i = 0; thread && i < details->count; i++) {
		if (details->places[i].function != last)
			write_places(thread, 0, &details->places[i], 0);
		last = details->places[i].function;
	}
	if (thread)
		ws_rt_leave(thread);
}

void ws_kernel_end_look(const struct ws_kernel_launch *launch, size_t pass)
{
	const char *what = "";
	int rc = passes[pass].end(launch, &what);

	if (rc)
		note_failure(pass, rc, what);
	announce_functions(present);
}

/* Wavefronts of shared memory beyond those that its bytes need, of all instructions; negative where
 * they were not counted. */
static double sum_excess(const struct ws_kernel_details *details)
{
	const struct ws_kernel_place *places = details->places;
	static const char counted[] = "smsp__sass_l1tex_pipe_lsu_wavefronts_mem_shared",
			  ideal[] = "smsp__sass_l1tex_pipe_lsu_wavefronts_mem_shared_ideal";
	double excess = 0;
	bool known = false;

	for (size_t i = 0; i < details->count; i++) {
		known |= !strncmp(places[i].metric, "smsp__sass_", 11);
		if (!strcmp(places[i].metric, counted))
			excess += places[i].value;
		else if (!strcmp(places[i].metric, ideal))
			excess -= places[i].value;
	}
	return known ? ws_max(excess, 0.0) : -1;
}

static void write_excess(struct ws_thread *thread, uint32_t result,
			 const struct ws_kernel_details *details)
{
	static const char name[] = "derived__memory_l1_wavefronts_shared_excessive";
	struct ws_kernel_value value = {find_handle(thread, name), 0, sum_excess(details)};

	if (value.value >= 0)
		ws_kernel_write_values(thread, result, &value, 1);
}

static void write_all_places(struct ws_thread *thread, uint32_t result,
			     const struct ws_kernel_place *places, size_t count)
{
	for (size_t i = 0, n; i < count; i += n) {
		for (n = 1; i + n < count && n < WS_KERNEL_VALUES &&
			    places[i + n].cubin == places[i].cubin &&
			    places[i + n].function == places[i].function;
		     n++)
			;
		write_places(thread, result, &places[i], n);
	}
}

void ws_kernel_write_details(struct ws_thread *thread, uint32_t result,
			     struct ws_kernel_details *details)
{
	if (!details)
		return;
	write_excess(thread, result, details);
	if (details->moments)
		ws_kernel_write_moments(thread, result, details->moments);
	write_all_places(thread, result, details->places, details->count);
	if (details->lost)
		ws_kernel_report(WS_WARNING, "A kernel has too many instructions: some of their "
					     "values were left out.");
	free(details->places);
	free(details->moments);
	free(details);
}
