/* session_arena.c - what hooks get: the settings in the arena, and the list of libraries. */
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/mem.h"
#include "base/paths.h"
#include "record/facts.h"
#include "record/libraries.h"
#include "record/name.h"
#include "record/session.h"

/* bytes of the stack of a CUDA call: single frames of math libraries hold kernel arguments of
 * some KiB */
#define CUDA_STACK 32768u
#define SIGNAL_STACK                                                                               \
	7168u /* bytes of stack that a sample by signal copies: two such samples fill a chunk of a \
		 ring */

int ws_session_make_arena(struct ws_session *session, struct ws_err *err)
{
	uid_t owner = (uid_t)-1;

	if (session->options->attach && session->attached.target.user != geteuid())
		owner = session->attached.target.user;
	if (session->options->run_as) {
		struct passwd *pw = getpwnam(session->options->run_as);

		if (!pw)
			return ws_fail(err, "--run-as: there is no user '%s'",
				       session->options->run_as);
		if (geteuid() && pw->pw_uid != geteuid())
			return ws_fail(
				err,
				"--run-as needs root: only root can run a program as another user");
		owner = pw->pw_uid;
	}
	return ws_area_create(&session->area, session->options->ring_bytes, owner, err);
}

static uint32_t list_arenas(struct ws_session *session, struct ws_text *text)
{
	uint32_t at;

	ws_text_add(text, "", 1);
	at = ws_area_text(&session->area, text->text, text->len);
	ws_text_free(text);
	return at;
}

static void fill_domain_texts(struct ws_session *session)
{
	struct ws_text text = {0};

	for (const char *at = session->options->nvtx_domains; at && *at;) {
		size_t n = strcspn(at, ",");

		if (n) {
			ws_text_add(&text, at, n);
			ws_text_add(&text, "", 1);
		}
		at += n + (at[n] == ',');
	}
	session->area.arena->text_domains = list_arenas(session, &text);
}

bool ws_session_wants_python(const struct ws_record_opts *options)
{
	return !options->attach && (options->python.sampling || options->python.gil ||
				    options->python.cuda_stacks || options->python.function_n);
}

static void fill_stacks(const struct ws_record_opts *options, struct ws_arena *arena)
{
	struct ws_stack_settings *st = &arena->stacks;
	bool any = options->stack_depth && options->stack_bytes;

	st->osrt_threshold =
		any && options->stack_threshold >= 0
			? (uint64_t)(options->stack_threshold * (double)arena->ticks_per_second)
			: UINT64_MAX;
	for (int i = 0; i < 4; i++)
		st->cuda_threshold[i] = options->cuda_stack_ns[i] >= 0
						? (uint64_t)options->cuda_stack_ns[i]
						: UINT64_MAX;
	st->osrt_bytes = options->stack_bytes;
	st->osrt_pause =
		options->lossless ? 0 : ws_max(arena->ticks_per_second / WS_STACKS_A_SECOND, 1);
	st->osrt_long = arena->ticks_per_second / 1000 * WS_LONG_WAIT_MS;
	st->cuda_bytes = CUDA_STACK;
}

static void fill_sampling(const struct ws_session *session, struct ws_arena *arena)
{
	const struct ws_perf_opts *options = &session->perf_opts;

	if (!options->signals)
		return;
	arena->features |= WS_FEATURE_SAMPLE;
	arena->sample.period_ns =
		options->period ? options->period : 1000000000u / options->frequency;
	arena->sample.stack_bytes = options->backtrace == WS_BACKTRACE_NONE ? 8 : SIGNAL_STACK;
}

static uint32_t fill_function_texts(struct ws_session *session)
{
	struct ws_text text = {0};

	for (size_t i = 0; i < session->options->python.function_n; i++) {
		ws_text_add(&text, session->options->python.functions[i].module,
			    strlen(session->options->python.functions[i].module) + 1);
		ws_text_add(&text, session->options->python.functions[i].name,
			    strlen(session->options->python.functions[i].name) + 1);
	}
	return text.len ? list_arenas(session, &text) : 0;
}

/* Calls of cudaProfilerStart may begin collections: those of the program, where CUDA is not
 * recorded, too. */
static bool watches_profiler_calls(const struct ws_record_opts *options)
{
	return options->plan.capture == WS_CAPTURE_CUDA || options->plan.interactive;
}

static void fill_settings(struct ws_session *session)
{
	const struct ws_record_opts *options = session->options;
	struct ws_reading left = session->clock.readings[0], right;
	struct ws_text vars = {0};
	struct timespec pause = {0, 2000000};
	struct ws_arena *arena = session->area.arena;

	/* a rate for thresholds: 2 ms give it to within 1e-4, and times do not depend on it */
	nanosleep(&pause, NULL);
	right = ws_clock_read(&session->clock);
	arena->clock_mode = session->clock.mode;
	arena->ticks_per_second = (uint64_t)((double)(right.ticks - left.ticks) * 1e9 /
					     (double)(right.raw - left.raw));
	arena->nccl_events = options->nccl_events;
	arena->mpi = options->mpi;
	arena->osrt_threshold =
		(uint64_t)(options->osrt_threshold * (double)arena->ticks_per_second);
	if (!options->lossless && options->osrt_threshold > 0) {
		arena->yield_pause = arena->ticks_per_second / WS_YIELDS_A_SECOND;
		arena->period_wakes = WS_WAKES_A_SECOND / WS_PERIODS_A_SECOND;
	}
	arena->features =
		(options->nvtx ? WS_FEATURE_NVTX : 0u) | (options->osrt ? WS_FEATURE_OSRT : 0u) |
		(options->trace_forks ? WS_FEATURE_FORK_TRACE : 0u) |
		(options->cuda ? WS_FEATURE_CUDA : 0u) |
		ws_bits_if(options->openmp, WS_FEATURE_OPENMP) |
		ws_bits_if(options->openacc, WS_FEATURE_OPENACC) |
		ws_bits_if(options->malloc, WS_FEATURE_MALLOC) | options->graphics |
		(ws_session_wants_python(options) ? WS_FEATURE_PYTHON : 0u) |
		ws_bits_if(options->plan.capture == WS_CAPTURE_NVTX ||
				   options->plan.capture == WS_CAPTURE_STEPS ||
				   options->plan.interactive,
			   WS_FEATURE_CAPTURE) |
		ws_bits_if(watches_profiler_calls(options), WS_FEATURE_PROFILER_CALLS) |
		(options->python.gil ? WS_FEATURE_GIL : 0u) |
		(options->python.cuda_stacks ? WS_FEATURE_PYTHON_CUDA : 0u) |
		(options->osrt && options->python.sampling ? WS_FEATURE_PYTHON_OSRT : 0u) |
		(options->python.sampling ? WS_FEATURE_PYTHON_SAMPLES : 0u);
	arena->text_functions = fill_function_texts(session);
	fill_stacks(options, arena);
	fill_sampling(session, arena);
	arena->lossless = options->lossless;
	arena->nvtx_filter = (uint32_t)options->nvtx_filter;
	fill_domain_texts(session);
	for (const char *v = ws_launcher_variables; *v; v += strlen(v) + 1)
		ws_text_add(&vars, v, strlen(v) + 1);
	if (options->output)
		ws_name_variables(options->output, &vars);
	arena->text_report_vars = list_arenas(session, &vars);
	arena->text_preload =
		ws_area_text(&session->area, session->preload, strlen(session->preload));
	arena->text_nvtx = ws_area_text(&session->area, session->nvtx, strlen(session->nvtx));
	arena->text_cuda = ws_area_text(&session->area, session->cuda, strlen(session->cuda));
	if (options->kernel) {
		arena->features |= WS_FEATURE_KERNEL;
		arena->text_kernel =
			ws_area_text(&session->area, options->kernel, options->kernel_bytes);
	}
	arena->cuda.flags = options->cuda_flags;
	arena->cuda.flush_ms = options->cuda_flush_ms;
	arena->cuda.text_apis = options->cuda_apis && *options->cuda_apis
					? ws_area_text(&session->area, options->cuda_apis,
						       strlen(options->cuda_apis))
					: 0;
}

int ws_session_fill_arena(struct ws_session *session, struct ws_err *err)
{
	fill_settings(session);
	if (session->area.text_full)
		return ws_fail(err,
			       "the functions, NVTX domains and CUDA calls that are named on the "
			       "command line take more than %d KiB",
			       WS_ARENA_TEXT >> 10);
	return 0;
}

static int add_preload(struct ws_session *session, const char *library, struct ws_err *err)
{
	char path[PATH_MAX];
	size_t n = strlen(session->preload);

	if (ws_find_hook_library(library, path, sizeof(path), err))
		return -1;
	if (n + strlen(path) + 2 > sizeof(session->preload))
		return ws_fail(err, "the paths of the hooks are too long for LD_PRELOAD");
	snprintf(session->preload + n, sizeof(session->preload) - n, ":%s", path);
	return 0;
}

static int add_library_hooks(struct ws_session *session, struct ws_err *err)
{
	char name[128];

	for (unsigned i = 0; i < WS_LIBRARIES; i++) {
		if (!(session->libraries >> i & 1) || ws_library_is_layer(i))
			continue;
		snprintf(name, sizeof(name), "libwarpsight-lib-%s.so", ws_library_hook(i));
		if (add_preload(session, name, err))
			return -1;
	}
	return 0;
}

int ws_session_find_hooks(struct ws_session *session, struct ws_err *err)
{
	char hooks[PATH_MAX];

	if (ws_find_hook_library("libwarpsight-hooks.so", hooks, sizeof(hooks), err))
		return -1;
	snprintf(session->preload, sizeof(session->preload), "%s", hooks);
	snprintf(session->nvtx, sizeof(session->nvtx), "%s", session->options->nvtx ? hooks : "");
	if (ws_session_wants_python(session->options) &&
	    add_preload(session, "libwarpsight-python.so",
			err)) /* before the OS-runtime hook, which it calls */
		return -1;
	if (session->options->osrt && add_preload(session, "libwarpsight-osrt.so", err))
		return -1;
	if ((session->options->openmp || session->options->openacc) && !session->options->attach &&
	    add_preload(session, "libwarpsight-openmp.so", err))
		return -1;
	if (session->options->malloc && !session->options->attach &&
	    add_preload(session, "libwarpsight-malloc.so", err))
		return -1;
	session->perf_opts = session->options->perf;
	session->perf_opts.attach = session->options->attach != 0;
	session->perf_opts.all_switches = session->options->lossless;
	session->perf_opts.signals =
		session->options->perf.sample && !session->options->attach && ws_perf_refused();
	if (session->perf_opts.signals && add_preload(session, "libwarpsight-sample.so", err))
		return -1;
	if (session->options->attach && !session->options->cuda)
		return 0;
	if (session->options->attach)
		return ws_find_hook_library("libwarpsight-cuda.so", session->late_cuda,
					    sizeof(session->late_cuda), err);
	if (add_library_hooks(session, err))
		return -1;
	/* Preloaded, so that it stands between libcupti and a profiler inside the program, and
	 * before cudaProfilerStart; loaded by the driver, too, where CUDA is recorded. */
	if ((session->options->cuda || watches_profiler_calls(session->options)) &&
	    add_preload(session, "libwarpsight-cuda.so", err))
		return -1;
	if (session->options->cuda &&
	    ws_find_hook_library("libwarpsight-cuda.so", session->cuda, sizeof(session->cuda), err))
		return -1;
	if (session->options->kernel_driver_calls &&
	    add_preload(session, "libwarpsight-driver.so", err))
		return -1;
	if (session->options->kernel &&
	    ws_find_hook_library("libwarpsight-kernel.so", session->cuda, sizeof(session->cuda),
				 err))
		return -1;
	return 0;
}
