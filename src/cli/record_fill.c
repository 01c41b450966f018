/* record_fill.c - from the options of a command that records to what the recorder is asked for. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/choose.h"
#include "base/mem.h"
#include "base/nvtx_libraries.h"
#include "cli/python_functions.h"
#include "cli/record_options.h"
#include "cli/symbol_dirs.h"
#include "cli/text.h"
#include "record/attached.h"
#include "record/libraries.h"
#include "ring/ring.h"

#define LATE_NS UINT64_C(5000000000) /* after which a GPU is known to have been idle */

/* ---- reading options that need more than a type ---- */

int ws_parse_kill_signal(const char *text, int *out, struct ws_err *err)
{
	const char *given = text;
	char *end;
	long number;

	*out = 0;
	if (!strcasecmp(text, "none") || !strcmp(text, "0") || !strcmp(text, "false"))
		return 0;
	if (!strcmp(text, "true"))
		text = "sigterm";
	number = strtol(text, &end, 10);
	if (*text && !*end && number > 0 && number < NSIG) {
		*out = (int)number;
		return 0;
	}
	if (!strncasecmp(text, "sig", 3))
		text += 3;
	for (int i = 1; i < NSIG; i++) {
		const char *name = sigabbrev_np(i);

		if (name && !strcasecmp(name, text)) {
			*out = i;
			return 0;
		}
	}
	return ws_fail(err,
		       "--kill: '%s' is not a signal: give none, sigterm, sigkill or another name "
		       "or number",
		       given);
}

static int parse_threshold(const char *option, const char *text, double *seconds,
			   struct ws_err *err)
{
	static const struct {
		const char *unit;
		double factor;
	} units[] = {{"", 1e-9}, {"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
	char *end;
	double value = strtod(text, &end);

	for (size_t i = 0;
	     strspn(text, "0123456789.") && (text[1] | 32) != 'x' && i < WS_COUNT(units); i++)
		if (!strcmp(end, units[i].unit) && value >= 0 && value * units[i].factor < 1e6) {
			*seconds = value * units[i].factor;
			return 0;
		}
	return ws_fail(err,
		       "%s: '%s' is not a time: give nanoseconds, or a number with ns, us, ms or s",
		       option, text);
}

static bool has_word(const char *list, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',')
		if (!strncmp(at, word, length) && (at[length] == ',' || !at[length]))
			return true;
	return false;
}

/* Splits NAME=VALUE,NAME=VALUE: a comma separates when a name and '=' follow it, so that values may
 * hold commas. */
static int split_env(const struct ws_list *given, struct ws_list *out, struct ws_err *err)
{
	for (size_t i = 0; i < given->count; i++) {
		const char *at = given->values[i];

		while (*at) {
			const char *end = at;
			const char *eq = strchr(at, '=');

			if (!eq || eq == at)
				return ws_fail(err, "--env-var: '%s' is not NAME=VALUE", at);
			for (end = eq; *end; end++)
				if (*end == ',' &&
				    (isalpha((unsigned char)end[1]) || end[1] == '_') &&
				    end[1 + strspn(end + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijkl"
							    "mnopqrstuvwxyz0123456789_")] == '=')
					break;
			ws_grow(out->values, out->cap, out->count + 1);
			out->values[out->count++] = ws_strndup(at, (size_t)(end - at));
			at = end + (*end == ',');
		}
	}
	return 0;
}

static int check_apis(const char *list, struct ws_err *err)
{
	for (const char *at = list; at && *at;) {
		size_t length = strcspn(at, ",");

		if ((*at != '+' && *at != '-') || length < 2)
			return ws_fail(err, "--cuda-api: '%.*s' is neither +NAME nor -NAME",
				       (int)length, at);
		at += length + (at[length] == ',');
	}
	if (list && strlen(list) > 4000)
		return ws_fail(err, "--cuda-api: the list is too long");
	return 0;
}

static int fill_cuda_options(const struct ws_record_options *options,
			     struct ws_record_opts *record_opts, struct ws_err *err)
{
	const struct {
		bool on;
		uint32_t flag;
	} flags[] = {
		{!strncmp(options->cuda_graphs, "node", 4), WS_CUDA_GRAPH_NODES},
		{options->cuda_memory, WS_CUDA_MEMORY},
		{options->cuda_all, WS_CUDA_ALL_APIS},
		{strcmp(options->cuda_events, "false") != 0, WS_CUDA_EVENTS},
		{!strcmp(options->cuda_events, "timestamps"), WS_CUDA_EVENT_TIMES},
		{options->cuda_flush_stop, WS_CUDA_FLUSH_ON_STOP},
		{options->cuda_um_cpu, WS_CUDA_UM_CPU_FAULTS},
		{options->cuda_um_gpu, WS_CUDA_UM_GPU_FAULTS},
	};

	for (size_t i = 0; i < WS_COUNT(flags); i++)
		if (flags[i].on)
			record_opts->cuda_flags |= flags[i].flag;
	if (!record_opts->cuda &&
	    (options->cuda_memory || options->cuda_um_cpu || options->cuda_um_gpu ||
	     options->cuda_all || options->cuda_apis || strcmp(options->cuda_graphs, "graph") ||
	     strcmp(options->cuda_events, "auto")))
		return ws_fail(err, "the options --cuda-... need --trace=cuda");
	if (options->cuda_flush < 0 || options->cuda_flush > 3600000)
		return ws_fail(err, "--cuda-flush-interval: give 0 to 3600000 milliseconds");
	record_opts->cuda_flush_ms = (uint32_t)options->cuda_flush;
	record_opts->cuda_apis = options->cuda_apis;
	return check_apis(options->cuda_apis, err);
}

static enum ws_perf_scope parse_scope(const char *word)
{
	if (!strcmp(word, "none"))
		return WS_SCOPE_NONE;
	if (!strcmp(word, "system-wide"))
		return WS_SCOPE_SYSTEM;
	return WS_SCOPE_TREE;
}

struct number_range {
	int64_t least, most, fallback;
};

/* Reads a whole number from `range` as an option gives it; its `fallback` when it is not given. */
static int parse_number(const char *option, const char *text, struct number_range range,
			int64_t *out, struct ws_err *err)
{
	char *end;

	*out = range.fallback;
	if (!text)
		return 0;
	errno = 0;
	*out = strtoll(text, &end, 10);
	if (end == text || *end || errno || *out < range.least || *out > range.most)
		return ws_fail(err, "--%s: '%s' is not a whole number from %lld to %lld", option,
			       text, (long long)range.least, (long long)range.most);
	return 0;
}

static int fill_sampling_options(const struct ws_record_options *options,
				 struct ws_perf_opts *perf_opts, struct ws_err *err)
{
	int64_t frequency, period, interval, reading_frequency;

	static const struct number_range frequencies = {1, 100000, WS_PERF_FREQUENCY},
					 periods = {10000, INT64_C(1000000000000000), 0},
					 intervals = {1, 1000, 20}, readings = {1, 1000, 50};

	if (parse_number("sampling-frequency", options->frequency_given, frequencies, &frequency,
			 err) ||
	    parse_number("sampling-period", options->period_given, periods, &period, err) ||
	    parse_number("event-sampling-interval", options->event_interval, intervals, &interval,
			 err) ||
	    parse_number("event-sampling-frequency", options->event_frequency, readings,
			 &reading_frequency, err))
		return -1;
	if (options->event_frequency && options->event_interval)
		return ws_fail(err, "--event-sampling-frequency and --event-sampling-interval do "
				    "not go together");
	if (options->event_frequency)
		interval = 1000 / reading_frequency;
	if (options->frequency_given && options->period_given)
		return ws_fail(err,
			       "--sampling-frequency and --sampling-period do not go together: "
			       "either paces the samples");
	if (options->event_interval && !perf_opts->count_events)
		return ws_fail(err, "--event-sampling-interval needs --event-sample=system-wide");
	if (options->event_frequency && !perf_opts->count_events)
		return ws_fail(err, "--event-sampling-frequency needs --event-sample=system-wide");
	if (options->sample_stack < 1024 || options->sample_stack > 32768)
		return ws_fail(err, "--sample-stack-size: give 1024 to 32768 bytes");
	if (options->samples_per_backtrace < 1 || options->samples_per_backtrace > 1000000)
		return ws_fail(err, "--samples-per-backtrace: give 1 to 1000000");
	perf_opts->frequency = (uint32_t)frequency * !period;
	perf_opts->period = (uint64_t)period;
	perf_opts->count_ns = (uint64_t)interval * 1000000;
	perf_opts->stack_bytes = (uint32_t)options->sample_stack & ~7u;
	perf_opts->samples_per_backtrace = (uint32_t)options->samples_per_backtrace;
	return 0;
}

/* What is sampled, counted and followed through the kernel's events. */
static int fill_perf_options(const struct ws_record_options *options,
			     struct ws_perf_opts *perf_opts, struct ws_err *err)
{
	static const char *const backtraces[] = {"auto", "fp", "dwarf", "lbr", "none"};
	const char *option = "os-events";

	perf_opts->sample = parse_scope(options->sample);
	perf_opts->switches = WS_SCOPE_TREE;
	if (perf_opts->sample)
		perf_opts->switches = perf_opts->sample;
	else if (options->cpuctxsw)
		perf_opts->switches = parse_scope(options->cpuctxsw);
	if (options->cpuctxsw && perf_opts->switches != parse_scope(options->cpuctxsw))
		ws_warn("--cpuctxsw=%s does not count: --sample=%s decides (it counts with "
			"--sample=none)",
			options->cpuctxsw, options->sample);
	for (size_t i = 0; i < WS_COUNT(backtraces); i++)
		if (!strcmp(options->backtrace, backtraces[i]))
			perf_opts->backtrace = (enum ws_backtrace)i;
	perf_opts->count_events = strcmp(options->event_sample, "none") != 0;
	perf_opts->core_events = options->core_events;
	if (!options->core_events && !options->os_events && perf_opts->count_events)
		perf_opts->core_events = "instructions";
	perf_opts->os_events = options->os_events;
	perf_opts->core_metrics = options->core_metrics;
	if (options->core_metrics && !strcmp(options->core_metrics, "none"))
		perf_opts->core_metrics = NULL;
	perf_opts->ftrace = options->ftrace;
	perf_opts->later =
		options->delay > 0 || options->steps || strcmp(options->capture_range, "none") != 0;
	if (options->core_events)
		option = "cpu-core-events";
	if (!perf_opts->sample && !perf_opts->count_events &&
	    (options->core_events || options->os_events))
		return ws_fail(err, "--%s: with --sample=none it needs --event-sample=system-wide",
			       option);
	if (ws_perf_check_metrics(perf_opts->core_metrics, err) ||
	    ws_perf_check_events(perf_opts->core_events, true, "cpu-core-events", err) ||
	    ws_perf_check_events(perf_opts->os_events, false, "os-events", err))
		return -1;
	return fill_sampling_options(options, perf_opts, err);
}

/* nsys's switches for single groups: `word` is "true", "false" or NULL. */
static void choose_group(struct ws_metrics_opts *metrics, enum ws_metric_group group,
			 const char *word)
{
	if (!word)
		return;
	metrics->groups &= ~(1u << group);
	if (!strcmp(word, "true"))
		metrics->groups |= 1u << group;
}

static int fill_metrics_options(const struct ws_record_options *options,
				struct ws_metrics_opts *metrics, struct ws_err *err)
{
	const char *groups = ws_text_or(options->system_metrics, "all");

	if (options->system_metrics_hz < 1 || options->system_metrics_hz > WS_METRICS_HZ_MOST)
		return ws_fail(err, "--system-metrics-frequency: %" PRId64 " is not 1 to %u",
			       options->system_metrics_hz, WS_METRICS_HZ_MOST);
	metrics->hz = (uint32_t)options->system_metrics_hz;
	if (ws_metrics_parse_groups(groups, &metrics->groups, err))
		return -1;
	choose_group(metrics, WS_METRIC_NETWORK, options->nic_metrics);
	choose_group(metrics, WS_METRIC_DISK, options->storage_metrics);
	return 0;
}

static int fill_gpu_metrics_options(const struct ws_record_options *options,
				    struct ws_gpu_sampling_opts *gpu_metrics, struct ws_err *err)
{
	if (options->gpu_metrics_hz < WS_GPU_METRICS_HZ_LEAST ||
	    options->gpu_metrics_hz > WS_GPU_METRICS_HZ_MOST)
		return ws_fail(err, "--gpu-metrics-frequency: %" PRId64 " is not %u to %u",
			       options->gpu_metrics_hz, WS_GPU_METRICS_HZ_LEAST,
			       WS_GPU_METRICS_HZ_MOST);
	if (!strcmp(options->gpu_metrics_devices, "none") &&
	    (options->gpu_metrics_set || options->gpu_metrics_hz != WS_GPU_METRICS_HZ))
		ws_warn("--gpu-metrics-set and --gpu-metrics-frequency have no effect without "
			"--gpu-metrics-devices");
	*gpu_metrics = (struct ws_gpu_sampling_opts){.devices = options->gpu_metrics_devices,
						     .set = options->gpu_metrics_set,
						     .hz = (uint32_t)options->gpu_metrics_hz};
	return ws_gpu_sampling_check(gpu_metrics, err);
}

/* Calls whose stacks are wanted. If Python's frames are wanted in them and no calls are named, all
 * are meant.
 */
static const char *get_cuda_stacks(const struct ws_record_options *options)
{
	bool none = !strcmp(options->cuda_stacks, "none") || !strcmp(options->cuda_stacks, "false");

	if (none && !strcmp(options->python_backtrace, "cuda"))
		return "all";
	if (none)
		return "none";
	return options->cuda_stacks;
}

/* Python's samples are some of all, each manieth, so that the kernel can read their frames: as many
 * as there are, but no more than 1000 a second, and not too few of a rate that hardly divides. */
static int64_t choose_python_frequency(const struct ws_perf_opts *perf_opts)
{
	uint64_t all = perf_opts->period ? 1000000000u / perf_opts->period : perf_opts->frequency;
	uint64_t every = (all + 999) / 1000;

	while (every && all / every >= 250 && all % every)
		every++;
	return every && all % every == 0 ? (int64_t)(all / every) : 1000;
}

/* Which Python functions to trace: those of a file, and those of lists that are built in. */
static int read_function_lists(const struct ws_record_options *options, struct ws_python_opts *out,
			       struct ws_err *err)
{
	const char *lists[] = {
		options->python_functions,
		has_word(options->pytorch, "functions-trace") ? "pytorch" : NULL,
		has_word(options->dask, "functions-trace") ? "dask" : NULL,
	};

	for (size_t i = 0; i < WS_COUNT(lists); i++)
		if (lists[i] && ws_python_functions_read(lists[i], out, err))
			return -1;
	return 0;
}

static int fill_python_options(const struct ws_record_options *options,
			       struct ws_record_opts *record_opts, struct ws_err *err)
{
	struct number_range range = {1, 2000, choose_python_frequency(&record_opts->perf)};
	int64_t frequency;

	if (parse_number("python-sampling-frequency", options->python_frequency_given, range,
			 &frequency, err))
		return -1;
	record_opts->python.sampling = record_opts->perf.sample != WS_SCOPE_NONE;
	if (options->python_sampling)
		record_opts->python.sampling = !strcmp(options->python_sampling, "true");
	record_opts->python.frequency = (uint32_t)frequency;
	record_opts->python.gil = has_word(options->trace, "python-gil");
	record_opts->python.cuda_stacks = !strcmp(options->python_backtrace, "cuda");
	if (read_function_lists(options, &record_opts->python, err))
		return -1;
	if (record_opts->python.cuda_stacks && !record_opts->cuda)
		return ws_fail(err, "--python-backtrace=cuda needs --trace=cuda");
	return 0;
}

/* What NCCL should tell its profiler plug-in. */
static uint32_t find_nccl_events(const char *words)
{
	static const char *const events[] = {
#define WS_NCCL_EVENT(kind, word, text) word,
#include "schema/nccl_events.def"
#undef WS_NCCL_EVENT
	};
	uint32_t bits = 0;

	for (unsigned i = 0; i < WS_COUNT(events); i++)
		if (has_word(words, "all") || has_word(words, events[i]))
			bits |= 1u << i;
	return bits;
}

static int fill_nccl_options(const struct ws_record_options *options,
			     struct ws_record_opts *record_opts, struct ws_err *err)
{
	if (has_word(options->nccl_trace, "none") && strcmp(options->nccl_trace, "none") != 0)
		return ws_fail(err, "--nccl-trace: none does not go with other words");
	record_opts->nccl_events = find_nccl_events(options->nccl_trace);
	if (record_opts->nccl_events && options->attach)
		return ws_fail(err,
			       "--nccl-trace: NCCL loads a plug-in when it begins, so not in a "
			       "process that is already running");
	return 0;
}

/* --cudabacktrace: words, each with the shortest time, or without for `threshold`. */
static int parse_cuda_stacks(const char *list, int64_t threshold, int64_t out[4],
			     struct ws_err *err)
{
	static const char *const words[] = {"kernel", "memory", "sync", "other",
					    "all",    "true",	"none", "false"};

	for (int i = 0; i < 4; i++)
		out[i] = -1;
	for (const char *at = list; *at;) {
		size_t length = strcspn(at, ","), word_length = strcspn(at, ":,");
		int64_t ns = threshold;
		size_t kind = 0;
		char *end;

		while (kind < WS_COUNT(words) && (strlen(words[kind]) != word_length ||
						  strncmp(words[kind], at, word_length)))
			kind++;
		if (word_length < length) {
			ns = -1;
			if (isdigit((unsigned char)at[word_length + 1]))
				ns = strtoll(at + word_length + 1, &end, 10);
			if (ns < 0 || end != at + length || ns > INT64_C(1000000000000))
				return ws_fail(err,
					       "--cudabacktrace: '%.*s' is not a word with a time "
					       "in nanoseconds, such as kernel:80000",
					       (int)length, at);
		}
		if (kind == WS_COUNT(words) ||
		    (kind > 5 && (word_length < length || at != list || at[length])))
			return ws_fail(err,
				       "--cudabacktrace: '%.*s' is not all, none, kernel, memory, "
				       "sync or other",
				       (int)length, at);
		for (size_t i = 0; i < 4; i++)
			if (kind == i || kind == 4 || kind == 5)
				out[i] = ns;
		at += length + (at[length] == ',');
	}
	return 0;
}

static int fill_stack_options(const struct ws_record_options *options,
			      struct ws_record_opts *record_opts, struct ws_err *err)
{
	static const struct number_range thresholds = {0, INT64_C(1000000000000), 80000};
	int64_t threshold;

	if (options->stack_depth < 0 || options->stack_depth > 1000)
		return ws_fail(err, "--osrt-backtrace-depth: give 0 to 1000 frames");
	if (options->stack_size < 0 || options->stack_size > 65528)
		return ws_fail(err, "--osrt-backtrace-stack-size: give 0 to 65528 bytes");
	record_opts->stack_depth = (uint32_t)options->stack_depth;
	record_opts->stack_bytes = (uint32_t)options->stack_size;
	if (parse_threshold("--osrt-backtrace-threshold", options->stack_threshold,
			    &record_opts->stack_threshold, err) ||
	    parse_number("cudabacktrace-threshold", options->cuda_stack_threshold, thresholds,
			 &threshold, err) ||
	    parse_cuda_stacks(get_cuda_stacks(options), threshold, record_opts->cuda_stack_ns, err))
		return -1;
	if (!record_opts->cuda && strcmp(get_cuda_stacks(options), "none"))
		return ws_fail(err, "--cudabacktrace needs --trace=cuda");
	return 0;
}

/* RANGE[@DOMAIN], cut at the last @ that has no \ before it, into one allocation. */
static char *split_capture_range(const char *text, const char **domain)
{
	char *range = ws_malloc(strlen(text) + 2), *out = range;

	*domain = NULL;
	for (; *text; text++) {
		if (*text == '\\' && text[1] == '@')
			text++;
		else if (*text == '@' && !*domain) {
			*out++ = 0;
			*domain = out;
			continue;
		}
		*out++ = *text;
	}
	*out = 0;
	return range;
}

/* The range that is looked for, `given` by `option`. */
static int fill_range(const char *given, const char *option, struct ws_record_opts *record_opts,
		      struct ws_filled_options *filled, struct ws_err *err)
{
	filled->capture_range = split_capture_range(given, &record_opts->capture_domain);
	record_opts->capture_range = filled->capture_range;
	if (strlen(record_opts->capture_range) >= WS_CAPTURE_NAME ||
	    strlen(ws_text_or(record_opts->capture_domain, "")) >= WS_CAPTURE_NAME)
		return ws_fail(err, "--%s: a name may have %u bytes", option, WS_CAPTURE_NAME - 1);
	return 0;
}

static int fill_steps(const struct ws_record_options *options, struct ws_record_opts *record_opts,
		      struct ws_filled_options *filled, struct ws_err *err)
{
	struct ws_plan *plan = &record_opts->plan;

	if (plan->capture != WS_CAPTURE_NONE)
		return ws_fail(err, "--steps and --capture-range do not go together: steps are the "
				    "ranges");
	if (plan->range_end == WS_RANGE_END_REPEAT ||
	    plan->range_end == WS_RANGE_END_REPEAT_SHUTDOWN)
		return ws_fail(err, "--capture-range-end: with --steps there is one range");
	if (ws_plan_read_steps(options->steps, plan, err))
		return -1;
	if (options->step_range && !*options->step_range)
		return ws_fail(err, "--step-range: the name is empty");
	if (options->step_range &&
	    fill_range(options->step_range, "step-range", record_opts, filled, err))
		return -1;
	record_opts->capture_domain = ws_text_or(record_opts->capture_domain, "*");
	record_opts->nvtx = true;
	return 0;
}

static int fill_nvtx_capture(const struct ws_record_options *options,
			     struct ws_record_opts *record_opts, struct ws_filled_options *filled,
			     struct ws_err *err)
{
	if (!options->nvtx_capture || !*options->nvtx_capture)
		return ws_fail(err, "--capture-range=nvtx needs the range: --nvtx-capture=RANGE");
	record_opts->nvtx = true; /* what begins a collection is recorded, too */
	return fill_range(options->nvtx_capture, "nvtx-capture", record_opts, filled, err);
}

/* Options that say more about a range when there is none. */
static void warn_without_range(const struct ws_record_options *options, const struct ws_plan *plan)
{
	/* The range itself was left out, and that is said; or it comes with a `start`. */
	if (options->left_out.consequence || options->for_starts)
		return;
	if (options->nvtx_capture && plan->capture != WS_CAPTURE_NVTX)
		ws_warn("--nvtx-capture has no effect without --capture-range=nvtx");
	if (strcmp(options->hotkey_capture, WS_DEFAULT_KEY) && plan->capture != WS_CAPTURE_HOTKEY)
		ws_warn("--hotkey-capture has no effect without --capture-range=hotkey");
	if (options->step_range && plan->capture != WS_CAPTURE_STEPS)
		ws_warn("--step-range has no effect without --steps");
	if (options->capture_range_end && plan->capture == WS_CAPTURE_NONE)
		ws_warn("--capture-range-end has no effect without --capture-range or --steps");
}

static int fill_hotkey(const struct ws_record_options *options, struct ws_record_opts *record_opts,
		       struct ws_err *err)
{
	record_opts->capture_range = options->hotkey_capture;
	if (ws_plan_read_key(options->hotkey_capture))
		return 0;
	return ws_fail(err, "--hotkey-capture: '%s' is none of F1 to F12", options->hotkey_capture);
}

static int fill_capture_options(const struct ws_record_options *options,
				struct ws_record_opts *record_opts,
				struct ws_filled_options *filled, struct ws_err *err)
{
	struct ws_plan *plan = &record_opts->plan;
	int rc = 0;

	*plan = (struct ws_plan){.range_end = WS_RANGE_END_STOP_SHUTDOWN};
	if (ws_plan_read_capture(options->capture_range, &plan->capture, err))
		return -1;
	if (options->capture_range_end &&
	    ws_plan_read_range_end(options->capture_range_end, plan, err))
		return -1;
	if (options->steps)
		rc = fill_steps(options, record_opts, filled, err);
	else if (plan->capture == WS_CAPTURE_NVTX)
		rc = fill_nvtx_capture(options, record_opts, filled, err);
	else if (plan->capture == WS_CAPTURE_HOTKEY)
		rc = fill_hotkey(options, record_opts, err);
	if (!rc)
		warn_without_range(options, plan);
	return rc;
}

/* Calls that only set something are said by NVTX alone. */
static bool is_traced(void *list, const char *word)
{
	char verbose[64], annotations[64];

	snprintf(verbose, sizeof(verbose), "%s-verbose", word);
	snprintf(annotations, sizeof(annotations), "%s-annotations", word);
	return has_word(list, word) || has_word(list, verbose) || has_word(list, annotations);
}

/* What the hooks of graphics do besides annotations: WS_FEATURE_... */
static uint32_t choose_graphics(const struct ws_record_options *options)
{
	return ws_bits_if(has_word(options->trace, "opengl"), WS_FEATURE_OPENGL_CALLS) |
	       ws_bits_if(options->opengl_gpu, WS_FEATURE_OPENGL_GPU) |
	       ws_bits_if(has_word(options->trace, "vulkan"), WS_FEATURE_VULKAN_CALLS) |
	       ws_bits_if(strcmp(options->vulkan_gpu, "none") != 0, WS_FEATURE_VULKAN_GPU) |
	       ws_bits_if(!strcmp(options->vulkan_gpu, "individual"), WS_FEATURE_VULKAN_LABELS);
}

static bool traces_nvtx_library(const struct ws_record_options *options)
{
	for (size_t i = 0; i < WS_COUNT(ws_nvtx_libraries); i++)
		if (ws_get_nvtx_level(&ws_nvtx_libraries[i], options->trace))
			return true;
	return false;
}

/* Without the word nvtx, only the libraries' domains are recorded; with a list of domains, these
 * too. */
static void fill_nvtx_domains(const struct ws_record_options *options,
			      struct ws_record_opts *record_opts, struct ws_filled_options *filled)
{
	struct ws_text domains = {0};

	record_opts->nvtx_domains = ws_text_or(options->domain_include, options->domain_exclude);
	if (options->domain_include)
		record_opts->nvtx_filter = 1;
	else if (options->domain_exclude)
		record_opts->nvtx_filter = 2;
	if (!traces_nvtx_library(options) ||
	    (has_word(options->trace, "nvtx") && record_opts->nvtx_filter != 1))
		return;
	for (size_t i = 0; i < WS_COUNT(ws_nvtx_libraries); i++)
		if (ws_get_nvtx_level(&ws_nvtx_libraries[i], options->trace))
			ws_text_printf(&domains, "%s,", ws_nvtx_libraries[i].domain);
	if (has_word(options->trace, "nvtx"))
		ws_text_puts(&domains, options->domain_include);
	record_opts->nvtx_filter = 1;
	record_opts->nvtx_domains = filled->nvtx_domains = domains.text;
}

/* What --trace names. */
static int fill_traced_domains(const struct ws_record_options *options,
			       struct ws_record_opts *record_opts, struct ws_err *err)
{
	record_opts->nvtx = has_word(options->trace, "nvtx") || traces_nvtx_library(options);
	record_opts->trace = options->trace;
	record_opts->osrt = has_word(options->trace, "osrt");
	record_opts->cuda = has_word(options->trace, "cuda");
	record_opts->libraries = ws_find_traced_libraries(is_traced, (void *)options->trace);
	/* Of what is traced by default, only OpenGL needs a library of ours in the program. */
	if (!strcmp(options->trace, WS_DEFAULT_TRACE)) {
		record_opts->libraries_if_linked = record_opts->libraries;
		record_opts->libraries = 0;
	}
	record_opts->graphics = choose_graphics(options);
	record_opts->openmp = has_word(options->trace, "openmp");
	if (options->mpi_impl)
		record_opts->mpi = strcmp(options->mpi_impl, "mpich") ? WS_MPI_OPEN : WS_MPI_MPICH;
	record_opts->malloc = has_word(options->trace, "malloc");
	record_opts->openacc = has_word(options->trace, "openacc");
	record_opts->perf.syscalls = has_word(options->trace, "syscall");
	if (has_word(options->trace, "none") && strcmp(options->trace, "none") != 0)
		return ws_fail(err, "--trace: none does not go with other words");
	return 0;
}

int ws_fill_record_options(const struct ws_record_options *options,
			   struct ws_record_opts *record_opts, struct ws_filled_options *filled,
			   struct ws_err *err)
{
	struct ws_list *env = &filled->env, *dirs = &filled->dirs;

	if (options->output && strcmp(options->output, "report%n"))
		record_opts->output = options->output;
	record_opts->overwrite = options->overwrite;
	if (fill_traced_domains(options, record_opts, err) ||
	    fill_cuda_options(options, record_opts, err) ||
	    fill_perf_options(options, &record_opts->perf, err) ||
	    fill_python_options(options, record_opts, err) ||
	    fill_nccl_options(options, record_opts, err) ||
	    fill_metrics_options(options, &record_opts->metrics, err) ||
	    fill_gpu_metrics_options(options, &record_opts->gpu_metrics, err))
		return -1;
	if (options->domain_include && options->domain_exclude)
		return ws_fail(
			err, "--nvtx-domain-include and --nvtx-domain-exclude do not go together");
	if (options->delay < 0)
		return ws_fail(err, "--delay: a time cannot be negative");
	if (options->duration < 0)
		return ws_fail(err, "--duration: a time cannot be negative");
	if (fill_capture_options(options, record_opts, filled, err) ||
	    ws_fill_flight_options(options, record_opts, err))
		return -1;
	if (options->ring_memory < 1 || options->ring_memory > 4000)
		return ws_fail(err, "--ring-memory: give 1 to 4000 MiB");
	fill_nvtx_domains(options, record_opts, filled);
	if (options->sync < 0)
		return ws_fail(err, "--sync: a time cannot be negative");
	record_opts->sync = options->sync;
	record_opts->delay = options->delay;
	record_opts->duration = options->duration;
	record_opts->wait_all = strcmp(options->wait, "primary") != 0;
	record_opts->inherit_environment = options->inherit;
	record_opts->run_as = options->run_as;
	record_opts->trace_forks = options->trace_forks;
	record_opts->store_output = options->store_output;
	record_opts->hide_output = !options->show_output;
	record_opts->store_environment = options->store_environment;
	record_opts->keep_command_lines = options->keep_command_lines;
	record_opts->lossless = options->lossless;
	record_opts->quiet = options->quiet;
	record_opts->ring_bytes = (uint64_t)options->ring_memory << 20;
	if (fill_stack_options(options, record_opts, err))
		return -1;
	if (split_env(&options->env, env, err) ||
	    ws_parse_kill_signal(options->kill, &record_opts->kill_signal, err) ||
	    parse_threshold("--osrt-threshold", options->threshold, &record_opts->osrt_threshold,
			    err))
		return -1;
	record_opts->env = env->values;
	record_opts->env_count = env->count;
	record_opts->jit_names = options->jit_names;
	record_opts->resolve_symbols = options->resolve_symbols;
	record_opts->source_info = options->source_info;
	if (ws_split_symbol_dirs(&options->symbols, "--symbols", ",", dirs, err) ||
	    ws_split_symbol_dirs(&options->debug_symbols, "--debug-symbols", ":", dirs, err))
		return -1;
	record_opts->symbol_dirs = dirs->values;
	record_opts->symbol_dir_count = dirs->count;
	return 0;
}

/* Triggers, at commas. */
static int fill_triggers(const struct ws_record_options *options,
			 struct ws_record_opts *record_opts, struct ws_err *err)
{
	int rc = 0;

	for (size_t i = 0; i < options->triggers.count && !rc; i++) {
		const char *at = options->triggers.values[i];

		while (*at && !rc) {
			size_t length = strcspn(at, ",");
			char *one = ws_strndup(at, length);

			rc = ws_trigger_read(one, &record_opts->triggers, err);
			free(one);
			at += length + (at[length] == ',');
		}
	}
	return rc;
}

/* What triggers look at must be recorded, and still be held when they fire. */
static int check_triggers(struct ws_record_opts *record_opts, struct ws_err *err)
{
	for (size_t i = 0; i < record_opts->triggers.count; i++) {
		const struct ws_flight_trigger *trigger = &record_opts->triggers.triggers[i];

		if (trigger->kind == WS_TRIGGER_ON_XID)
			continue;
		if (trigger->kind != WS_TRIGGER_ON_GPU_IDLE)
			record_opts->nvtx = true;
		else if (!record_opts->cuda)
			return ws_fail(err, "--trigger: '%s' needs --trace=cuda", trigger->text);
		if (trigger->ns + LATE_NS > record_opts->plan.flight.keep &&
		    trigger->kind == WS_TRIGGER_ON_GPU_IDLE)
			return ws_fail(err,
				       "--trigger: '%s': this is known only some seconds later: "
				       "have the flight recorder keep 5 s more than that",
				       trigger->text);
	}
	return 0;
}

int ws_fill_flight_options(const struct ws_record_options *options,
			   struct ws_record_opts *record_opts, struct ws_err *err)
{
	const struct {
		bool given;
		const char *name;
	} about_one[] = {
		{options->steps, "--steps"},
		{record_opts->plan.capture != WS_CAPTURE_NONE, "--capture-range"},
		{options->duration > 0, "--duration"},
		{options->start_later, "--start-later"},
		{options->stats, "--stats"},
		{strcmp(ws_text_or(options->export_to, "none"), "none") != 0, "--export"},
	};

	if (!options->flight_recorder && options->triggers.count)
		return ws_fail(err, "--trigger needs --flight-recorder=TIME");
	if (!options->flight_recorder)
		return 0;
	for (size_t i = 0; i < WS_COUNT(about_one); i++)
		if (about_one[i].given)
			return ws_fail(err,
				       "%s does not go with --flight-recorder, which records "
				       "without end and writes snapshots",
				       about_one[i].name);
	if (ws_flight_read(options->flight_recorder, &record_opts->plan.flight, err) ||
	    fill_triggers(options, record_opts, err))
		return -1;
	return check_triggers(record_opts, err);
}

static void free_texts(struct ws_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free((char *)list->values[i]);
	free(list->values);
	*list = (struct ws_list){0};
}

void ws_free_filled_options(struct ws_record_opts *record_opts, struct ws_filled_options *filled)
{
	free_texts(&filled->env);
	free_texts(&filled->dirs);
	ws_python_functions_free(&record_opts->python);
	free(filled->nvtx_domains);
	free(filled->capture_range);
	ws_trigger_free(&record_opts->triggers);
}

int ws_mention_left_out(const struct ws_record_options *options, struct ws_record_opts *record_opts,
			struct ws_err *err)
{
	const struct ws_list *sentences = &options->left_out.sentences;

	if (sentences->count && options->strict)
		return ws_fail(err, "%s", sentences->values[0]);
	for (size_t i = 0; i < sentences->count; i++)
		ws_warn("%s", sentences->values[i]);
	record_opts->left_out = sentences->values;
	record_opts->left_out_count = sentences->count;
	record_opts->consequence = options->left_out.consequence;
	return 0;
}

static bool asks_help(const char *value)
{
	return value && !strcmp(value, "help");
}

/* `text` is freed. */
static void print_list(char *text)
{
	fputs(text, stdout);
	free(text);
}

int ws_list_events(const struct ws_record_options *options, const char *command)
{
	struct ws_text text = {0};
	struct ws_err err;
	int status = -1;

	if (asks_help(options->core_events) || asks_help(options->os_events) ||
	    asks_help(options->ftrace) || asks_help(options->core_metrics) ||
	    asks_help(options->gpu_metrics_devices) || asks_help(options->gpu_metrics_set))
		status = WS_EXIT_OK;
	if (asks_help(options->core_events))
		ws_perf_list_events(&text, true);
	if (asks_help(options->core_metrics))
		ws_perf_list_metrics(&text);
	if (asks_help(options->os_events))
		ws_perf_list_events(&text, false);
	if (asks_help(options->ftrace) && ws_trace_list(&text, &err)) {
		ws_say("%s: --ftrace=help: tracepoints cannot be listed: %s", command, err.msg);
		status = WS_EXIT_FAIL;
	}
	if (text.len)
		fputs(text.text, stdout);
	ws_text_free(&text);
	if (asks_help(options->gpu_metrics_devices))
		print_list(ws_gpu_sampling_list_devices());
	if (asks_help(options->gpu_metrics_set))
		print_list(ws_gpu_sampling_list_sets());
	return status;
}

/* ---- a process that runs already ---- */

int ws_check_attach(const struct ws_record_options *options, char **target, struct ws_err *err)
{
	const struct {
		bool given;
		const char *name;
	} about_start[] = {
		{options->env.count, "--env-var"},
		{options->run_as, "--run-as"},
		{options->store_output, "--store-output"},
		{!options->show_output, "--show-output"},
		{!options->inherit, "--inherit-environment"},
	};

	if (!options->attach)
		return 0;
	if (options->attach < 0 || options->attach > INT_MAX)
		return ws_fail(err, "--attach: %lld is no process id", (long long)options->attach);
	if (target[0])
		return ws_fail(err,
			       "--attach: process %lld runs already, so there is no program to "
			       "start, but '%s' is given",
			       (long long)options->attach, target[0]);
	for (size_t i = 0; i < WS_COUNT(about_start); i++)
		if (about_start[i].given)
			return ws_fail(err,
				       "%s is about starting a program, but with --attach it "
				       "runs already",
				       about_start[i].name);
	if (!strcmp(options->capture_range, "cudaProfilerApi") && !has_word(options->trace, "cuda"))
		return ws_fail(err, "--capture-range=cudaProfilerApi with --attach needs "
				    "--trace=cuda: CUPTI reports the calls");
	return 0;
}

char **ws_name_attached(const struct ws_record_options *options, struct ws_record_opts *record_opts)
{
	if (!options->attach)
		return NULL;
	record_opts->attach = (int)options->attach;
	return record_opts->argv = ws_attached_command(record_opts->attach);
}
