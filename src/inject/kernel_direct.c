/*
 * kernel_direct.c - the program's calls are seen without CUPTI, by the library that stands before
 * the driver (driver_calls.h). CUPTI delays every launch of which it tells, and all launches after
 * its profiler was used; so it tells of modules only, whose variables nothing else names, and is
 * left and joined again after each batch. This is an experiment: WARPSIGHT_KERNEL_LAUNCHES=driver.
 */
#include <stdlib.h>

#include "inject/bind.h"
#include "inject/driver_calls.h"
#include "inject/kernel.h"
#include "schema/schema.h"

enum { CONTEXTS = 64 };

static const struct ws_driver_calls *library;
static struct ws_kernel_subject *subjects; /* of the library's calls */
static bool *unloads;			   /* which of them take functions away */
static bool direct;
static struct {
	void *handle;
	uint32_t uid; /* CUPTI's, as it was before CUPTI was left for the first time */
} contexts[CONTEXTS];
static size_t context_count;
static _Atomic uint32_t contexts_lock;

bool ws_kernel_is_direct(void)
{
	return direct;
}

static bool wants_library(void)
{
	return !strcmp(ws_kernel_settings.launches, "driver");
}

static const struct ws_driver_calls *find_library(void)
{
	const struct ws_driver_calls *(*get)(void);
	void *function = ws_find_symbol("ws_driver_calls");

	memcpy(&get, &function, sizeof(get));
	return get ? get() : NULL;
}

void *ws_kernel_strip(void *function)
{
	if (!library && wants_library())
		library = find_library();
	return library ? library->strip(function) : function;
}

/* ---- calls ---- */

/* The parameters as CUPTI's callbacks have them. */
struct packed {
	struct ws_launch_params launch;
	struct {
		void *function;
		int which, value;
	} function;
	struct {
		int which, value;
		void *kernel;
	} kernel;
};

static void *to_pointer(uint64_t word)
{
	return (void *)(uintptr_t)word;
}

static void pack_launch(struct ws_launch_params *params, const uint64_t *words, bool extra)
{
	params->function = to_pointer(words[0]);
	for (size_t i = 0; i < 3; i++) {
		params->grid[i] = (uint32_t)words[1 + i];
		params->block[i] = (uint32_t)words[4 + i];
	}
	params->shared = (uint32_t)words[7];
	params->stream = to_pointer(words[8]);
	params->arguments = to_pointer(words[9]);
	params->extra = extra ? to_pointer(words[10]) : NULL;
}

static const void *pack(const struct ws_kernel_subject *subject, const uint64_t *words,
			struct packed *packed)
{
	if (subject->what == CALL_LAUNCH && (subject->detail == WS_KERNEL_LAUNCH ||
					     subject->detail == WS_KERNEL_LAUNCH_COOPERATIVE)) {
		pack_launch(&packed->launch, words, subject->detail == WS_KERNEL_LAUNCH);
		return &packed->launch;
	}
	if (subject->what == CALL_END && subject->detail == OF_FUNCTION) {
		packed->function.function = to_pointer(words[0]);
		packed->function.which = (int)words[1];
		packed->function.value = (int)words[2];
		return &packed->function;
	}
	if (subject->what == CALL_END && subject->detail == OF_KERNEL) {
		packed->kernel.which = (int)words[0];
		packed->kernel.value = (int)words[1];
		packed->kernel.kernel = to_pointer(words[2]);
		return &packed->kernel;
	}
	return words;
}

/* NULL of a graph. */
static const char *find_symbol(const struct ws_kernel_subject *subject, const uint64_t *words)
{
	if (subject->what != CALL_LAUNCH || subject->detail == WS_KERNEL_LAUNCH_GRAPH)
		return NULL;
	return ws_kernel_find_name(to_pointer(words[subject->detail == WS_KERNEL_LAUNCH_EX]));
}

static bool ignores(const struct ws_kernel_subject *subject)
{
	if (!subject->what || ws_kernel_is_inside())
		return true;
	if (!atomic_load_explicit(&ws_rt->arena->closed, memory_order_relaxed))
		return false;
	ws_kernel_end_call();
	return true;
}

static void enter(unsigned call, const uint64_t *words)
{
	const struct ws_kernel_subject *subject = &subjects[call];
	struct cupti_callback callback = {.site = CUPTI_SITE_ENTER};
	struct packed packed;

	if (ignores(subject))
		return;
	callback.function = library->names[call];
	callback.params = pack(subject, words, &packed);
	callback.symbol = find_symbol(subject, words);
	ws_kernel_handle_call(subject, &callback);
}

static void leave(unsigned call, const uint64_t *words, int result)
{
	const struct ws_kernel_subject *subject = &subjects[call];
	struct cupti_callback callback = {.site = CUPTI_SITE_ENTER + 1,
					  .function = library->names[call],
					  .params = words,
					  .result = &result};

	if (unloads[call])
		ws_kernel_forget_names();
	if (!ignores(subject))
		ws_kernel_handle_call(subject, &callback);
}

/* The current one, as in CUPTI's callbacks. */
void ws_kernel_find_context(struct ws_kernel_launch *launch)
{
	size_t i = 0;

	if (ws_kernel_driver.get_context(&launch->context))
		return;
	ws_kernel_lock(&contexts_lock);
	while (i < context_count && contexts[i].handle != launch->context)
		i++;
	if (i == context_count && i < CONTEXTS) {
		contexts[i].handle = launch->context;
		if (ws_cupti.GetContextId(launch->context, &contexts[i].uid))
			contexts[i].uid = 0;
		context_count++;
	}
	launch->context_uid = i < CONTEXTS ? contexts[i].uid : 0;
	ws_kernel_unlock(&contexts_lock);
}

/* ---- beginning and ending ---- */

/* While CUPTI is left, no module may be loaded: it takes turns with measuring. */
static struct ws_kernel_subject find_subject(const char *name)
{
	static const char *const loading[] = {"cuModuleLoad",	     "cuModuleGetFunction",
					      "cuLibraryLoad",	     "cuLibraryGetKernel",
					      "cuKernelGetFunction", "cuFuncLoad"};
	struct ws_kernel_subject subject = ws_kernel_find_subject(false, name);

	for (size_t i = 0; i < WS_COUNT(loading); i++)
		if (!strncmp(name, loading[i], strlen(loading[i])))
			subject.what = CALL_WORK;
	return subject;
}

static bool takes_functions_away(const char *name)
{
	return !strcmp(name, "cuModuleUnload") || !strcmp(name, "cuLibraryUnload") ||
	       !strncmp(name, "cuCtxDestroy", 12) || !strncmp(name, "cuDevicePrimaryCtxRe", 20);
}

static const char *find_obstacle(void)
{
	if (!library)
		return "the program was started without the library that sees calls";
	if (!ws_kernel_driver.get_context || !ws_kernel_driver.name_function)
		return "the driver does not name functions (it is older than that of CUDA 12.3)";
	if (!ws_cupti.GetContextId)
		return "the CUPTI library does not number contexts";
	if (ws_kernel_has_runs() || ws_kernel_follows_graphs() || ws_kernel_measures_ranges() ||
	    ws_kernel_repeats_ranges())
		return "only single launches and whole graphs can be measured so";
	return library->find_gap();
}

void ws_kernel_prepare_direct(void)
{
	const char *obstacle;

	if (!wants_library())
		return;
	if (!library)
		library = find_library();
	obstacle = find_obstacle();
	if (!obstacle) {
		subjects = calloc(library->count, sizeof(*subjects));
		unloads = calloc(library->count, sizeof(*unloads));
		if (!subjects || !unloads)
			obstacle = "there is no memory left";
	}
	if (obstacle) {
		ws_kernel_report(WS_WARNING,
				 "Launches are seen by CUPTI, not before the driver: %s.",
				 obstacle);
		return;
	}
	for (size_t i = 0; i < library->count; i++) {
		subjects[i] = find_subject(library->names[i]);
		unloads[i] = takes_functions_away(library->names[i]);
	}
	direct = true;
}

void ws_kernel_begin_direct(void)
{
	static const struct ws_driver_listener listener = {enter, leave};

	if (direct)
		library->listen(&listener);
}

static bool may_leave(void)
{
	return direct && ws_kernel_owns_records() && ws_kernel_leave_cupti();
}

/* Passes that look into kernels need CUPTI to know each function from its first launch on. */
void ws_kernel_rest(void)
{
	if (ws_kernel_is_done() || *ws_kernel_settings.source || !may_leave())
		return;
	ws_kernel_forget_profiler();
	if (ws_kernel_join_cupti()) {
		ws_kernel_renew_records();
		return;
	}
	ws_kernel_report(WS_WARNING, "Kernels are not measured any more: CUPTI was left between "
				     "two batches, and refuses to be used again.");
	library->listen(NULL);
}

void ws_kernel_end_direct(void)
{
	library->listen(NULL);
	if (!may_leave())
		ws_kernel_ignore_modules();
}
