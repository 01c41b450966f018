/*
 * profile.c - the command `profile`: run a program, record it, write a report when it ends.
 */
#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/choose.h"
#include "cli/cli.h"
#include "cli/python_functions.h"
#include "cli/symbol_dirs.h"
#include "cli/text.h"
#include "record/record.h"
#include "ring/ring.h"

struct options {
	const char *output, *trace, *wait, *kill, *run_as, *domain_include, *domain_exclude,
		*command_file, *export_to, *sample, *cpuctxsw, *backtrace, *core_events, *os_events,
		*event_sample, *ftrace, *threshold, *stack_threshold, *cuda_stacks,
		*cuda_stack_threshold, *python_sampling, *python_functions, *python_backtrace,
		*frequency_given, *period_given, *event_interval, *event_frequency, *cuda_graphs,
		*cuda_events, *cuda_apis;
	struct ws_list env, symbols, debug_symbols;
	const char *jit_names;
	int64_t sample_stack;
	struct ws_left_out left_out;
	double delay, duration, sync;
	int64_t ring_memory, cuda_flush, python_frequency, samples_per_backtrace, stack_depth,
		stack_size;
	bool overwrite, show_output, inherit, trace_forks, store_output, store_environment,
		keep_command_lines, lossless, resolve_symbols, source_info, stats, quiet, strict,
		cuda_memory, cuda_um_cpu, cuda_um_gpu, cuda_flush_stop, cuda_all;
};

#define AT(member) offsetof(struct options, member)
/* The types of `export`, "sqlite,jsonlines,...". */
#define WS_AND ","
#define WS_TABLES(id, name, extension, takes, flags, summary) name
#define WS_TIMELINE(id, name, extension, takes, flags, summary) name
static const char export_types[] =
#include "export/formats.def"
	",none|text,info";
#undef WS_AND
#undef WS_TABLES
#undef WS_TIMELINE

static const struct ws_opt opts[] = {
	{"output", 'o', WS_OPT_STRING, AT(output), "NAME", NULL,
	 "Name of the report. %p is the target's process id, %h the host's name, %q{VAR} the "
	 "environment variable VAR, %n the first number that "
	 "makes the name new, %% a percent sign. In a folder that exists, or with a trailing "
	 "slash, the default name is used inside it. '.wsrep' "
	 "is added unless the name has an extension. When processes of the target have different "
	 "values of VAR (the RANK that "
	 "torchrun sets), each value gets a report of its own.",
	 "report%n"},
	{"force-overwrite", 'f', WS_OPT_BOOL, AT(overwrite), NULL, NULL,
	 "Replace an existing report. The old one goes when the new collection has begun.",
	 "false"},
	{"trace", 't', WS_OPT_SET, AT(trace), "DOMAIN[,DOMAIN...]",
	 "cuda,nvtx,osrt,python-gil,none|cublas=cuda,cublas-verbose=cuda,cudnn=cuda,"
	 "cusparse=cuda,cusparse-verbose=cuda,cusolver=cuda,cusolver-verbose=cuda,cudla=cuda,"
	 "cudla-verbose=cuda,cuda-hw=cuda,openacc=cuda,nccl=cuda,tensorrt=cuda,openmp,mpi,oshmem,"
	 "ucx,gds,syscall,opengl,opengl-annotations,vulkan,vulkan-annotations,nvvideo,openxr,"
	 "openxr-annotations,dx11,dx11-annotations,dx12,dx12-annotations,wddm,"
	 "tegra-accelerators|cuda-sw=cuda",
	 "What to trace: CUDA calls, kernels and copies; NVTX ranges and marks; calls of the "
	 "operating system's runtime that block or take long; the times when Python threads hold "
	 "the "
	 "global interpreter lock or wait for it; or nothing.",
	 "cuda,nvtx,osrt,python-gil"},
	{"sample", 's', WS_OPT_ENUM, AT(sample), "SCOPE",
	 "process-tree,system-wide,none,cpu|xhv=process-tree,xhv-system-wide=system-wide",
	 "Whose CPU use to sample: that of the target and everything that it starts (cpu is the "
	 "same), of everything that runs on the machine, or nobody's. Context switches are "
	 "recorded "
	 "for the same processes.",
	 "process-tree"},
	{"sampling-frequency", 0, WS_OPT_STRING, AT(frequency_given), "HZ", NULL,
	 "Samples per second of each running thread, 1 to 100000. Default: 1000.", NULL},
	{"sampling-period", 0, WS_OPT_STRING, AT(period_given), "EVENTS", NULL,
	 "Take a sample every EVENTS nanoseconds of CPU time (cycles with --backtrace=lbr), "
	 "instead of by frequency; at least 10000.",
	 NULL},
	{"backtrace", 'b', WS_OPT_ENUM, AT(backtrace), "HOW", "auto,fp,dwarf,lbr,none",
	 "How to find the call stacks of samples: by whatever works for each module (auto), by "
	 "frame "
	 "pointers (fp), by call frame information from copied stacks (dwarf), by the processor's "
	 "records of branches (lbr), or not at all.",
	 "auto"},
	{"samples-per-backtrace", 0, WS_OPT_INT, AT(samples_per_backtrace), "N", NULL,
	 "Take a call stack with every Nth sample of a thread only.", "1"},
	{"sample-stack-size", 0, WS_OPT_INT, AT(sample_stack), "BYTES", NULL,
	 "How much of a thread's stack a sample copies to find callers, 1024 to 32768. Deeper "
	 "stacks are incomplete; more costs time with each sample.",
	 "8192"},
	{"cpuctxsw", 0, WS_OPT_ENUM, AT(cpuctxsw), "SCOPE", "process-tree,system-wide,none",
	 "Whose context switches to record. Has an effect only with --sample=none (the default is "
	 "then process-tree); otherwise --sample decides.",
	 NULL},
	{"cpu-core-events", 0, WS_OPT_STRING, AT(core_events), "EVENT[,EVENT...]|help", NULL,
	 "Sample on these events of the processor too, or count them with --event-sample; help "
	 "lists them.",
	 NULL},
	{"os-events", 0, WS_OPT_STRING, AT(os_events), "EVENT[,EVENT...]|help", NULL,
	 "Sample on these events of the kernel too, or count them with --event-sample; help lists "
	 "them.",
	 NULL},
	{"event-sampling-interval", 0, WS_OPT_STRING, AT(event_interval), "MS", NULL,
	 "Milliseconds between two readings of the counters of --event-sample, 1 to 1000. "
	 "Default: 20.",
	 NULL},
	{"event-sampling-frequency", 0, WS_OPT_STRING, AT(event_frequency), "HZ", NULL,
	 "The older form of --event-sampling-interval: readings per second, 1 to 1000.", NULL},
	{"event-sample", 0, WS_OPT_ENUM, AT(event_sample), "SCOPE", "system-wide,none",
	 "Count the events of --cpu-core-events and --os-events (by default instructions) on every "
	 "CPU over time instead of sampling on them.",
	 "none"},
	{"ftrace", 0, WS_OPT_STRING, AT(ftrace), "SUBSYSTEM/EVENT[,...]|help", NULL,
	 "Record these tracepoints of the kernel, on all CPUs where that is permitted; an event "
	 "may be *. help lists them.",
	 NULL},
	{"python-sampling", 0, WS_OPT_ENUM, AT(python_sampling), "BOOL", "true,false",
	 "Record the functions, files and lines of Python code in call stacks, in CPython 3.8 to "
	 "3.14. On by default unless --sample=none is given.",
	 NULL},
	{"python-sampling-frequency", 0, WS_OPT_INT, AT(python_frequency), "HZ", NULL,
	 "Samples per second of each running Python thread, 1 to 2000.", "1000"},
	{"python-backtrace", 0, WS_OPT_ENUM, AT(python_backtrace), "WHAT", "cuda,none,false",
	 "Include Python frames in the call stacks of CUDA calls; needs --cudabacktrace, which "
	 "chooses the calls.",
	 "none"},
	{"python-functions-trace", 0, WS_OPT_STRING, AT(python_functions), "FILE", NULL,
	 "Record each call of the functions that a JSON file names, [{\"module\": \"m\", "
	 "\"functions\": [\"f\", \"Class.method\"], \"domain\": \"d\"}], as a range, in "
	 "CPython 3.12 and later.",
	 NULL},
	{"delay", 'y', WS_OPT_SECONDS, AT(delay), "SECONDS", NULL,
	 "Start collecting this long after the target has started.", "0"},
	{"duration", 'd', WS_OPT_SECONDS, AT(duration), "SECONDS", NULL,
	 "Stop collecting after this long, then send the target the signal of --kill. 0: at the "
	 "target's end.",
	 "0"},
	{"kill", 0, WS_OPT_STRING, AT(kill), "SIGNAL", NULL,
	 "Signal to send to the target when the duration is over: none, sigterm, sigkill, another "
	 "name or a number. With none the target runs on unrecorded, and profile waits for it.",
	 "sigterm"},
	{"sync", 0, WS_OPT_SECONDS, AT(sync), "SECONDS", NULL,
	 "Have the disk hold what was recorded, this often and at the end, so that a power cut "
	 "loses no more than that. 0: the system writes when it likes; a kill of the recorder "
	 "loses 0.1 seconds at most either way.",
	 "0"},
	{"wait", 0, WS_OPT_ENUM, AT(wait), "WHOM", "primary,all",
	 "End when the target ends (primary), or when every process it has started has (all); an "
	 "interrupt ends the wait.",
	 "all"},
	{"env-var", 'e', WS_OPT_LIST, AT(env), "NAME=VALUE[,NAME=VALUE...]", NULL,
	 "Set variables in the target's environment.", NULL},
	{"inherit-environment", 'n', WS_OPT_BOOL, AT(inherit), NULL, NULL,
	 "Give the target this environment; with false it has only what --env-var sets, and what "
	 "recording needs.",
	 "true"},
	{"jit-names", 0, WS_OPT_SET, AT(jit_names), "RUNTIME[,RUNTIME...]", "none,java,node",
	 "Have Java or Node.js tell the names of the functions that they generate, by options in "
	 "the target's environment: JAVA_TOOL_OPTIONS (JDK 17 and later; Java then prints a line "
	 "'Picked up JAVA_TOOL_OPTIONS' on standard error) and NODE_OPTIONS (Node.js then writes a "
	 "file isolate*-v8.log into its folder). Frame pointers make Java a little slower.",
	 "none"},
	{"run-as", 0, WS_OPT_STRING, AT(run_as), "USER", NULL,
	 "Run the target as another user. Needs root.", NULL},
	{"show-output", 'w', WS_OPT_BOOL, AT(show_output), NULL, NULL,
	 "Let the target write to its standard output and error. With false, what it writes goes "
	 "only into the report.",
	 "true"},
	{"store-output", 0, WS_OPT_BOOL, AT(store_output), NULL, NULL,
	 "Also keep what the target writes in the report. Its output is then a pipe rather than a "
	 "terminal or file.",
	 "false"},
	{"store-environment", 0, WS_OPT_BOOL, AT(store_environment), NULL, NULL,
	 "Keep the target's whole environment in the report. Otherwise it has the values of "
	 "variables that launchers set and that are known to hold no secret (RANK, SLURM_PROCID, "
	 "CUDA_VISIBLE_DEVICES...), and of their others (SLURM_*, KUBERNETES_*) the names.",
	 "false"},
	{"keep-command-lines", 0, WS_OPT_BOOL, AT(keep_command_lines), NULL, NULL,
	 "Keep the command lines of processes in the report as they are. Otherwise what looks like "
	 "a password, a token or a key in them is stored as ***.",
	 "false"},
	{"osrt-threshold", 0, WS_OPT_STRING, AT(threshold), "TIME", NULL,
	 "Shortest call of the OS runtime that is recorded: nanoseconds, or with a unit (ns, us, "
	 "ms, s).",
	 "1000"},
	{"osrt-backtrace-threshold", 0, WS_OPT_STRING, AT(stack_threshold), "TIME", NULL,
	 "Shortest call of the OS runtime whose call stack is recorded: nanoseconds, or with a "
	 "unit.",
	 "80000"},
	{"osrt-backtrace-depth", 0, WS_OPT_INT, AT(stack_depth), "FRAMES", NULL,
	 "The most frames to record of the stack of a traced call, 0 to 1000; 0 records none.",
	 "24"},
	{"osrt-backtrace-stack-size", 0, WS_OPT_INT, AT(stack_size), "BYTES", NULL,
	 "How many bytes of the stack to copy for that, 0 to 65528; 0 records none.", "6144"},
	{"cudabacktrace", 0, WS_OPT_STRING, AT(cuda_stacks), "CALLS", NULL,
	 "Record the stacks of CUDA calls: all, none, or any of kernel, memory, sync and other, "
	 "separated by commas; each may be followed by a colon and the time in nanoseconds that a "
	 "call must last (by default 80000): kernel:0,sync. true means all, false none.",
	 "none"},
	{"cudabacktrace-threshold", 0, WS_OPT_STRING, AT(cuda_stack_threshold), "NS", NULL,
	 "The time in nanoseconds that a CUDA call must last for its stack, where --cudabacktrace "
	 "names none.",
	 NULL},
	{"nvtx-domain-include", 0, WS_OPT_STRING, AT(domain_include), "DOMAIN[,DOMAIN...]", NULL,
	 "Record only these NVTX domains; 'default' is the one without a name.", NULL},
	{"nvtx-domain-exclude", 0, WS_OPT_STRING, AT(domain_exclude), "DOMAIN[,DOMAIN...]", NULL,
	 "Record all NVTX domains but these.", NULL},
	{"cuda-graph-trace", 0, WS_OPT_ENUM, AT(cuda_graphs), "GRANULARITY",
	 "graph,node,graph:host-only,node:host-only|graph:host-and-device=graph,"
	 "node:host-and-device=node",
	 "Record each launch of a CUDA graph as one piece of work (graph), or each of its nodes, "
	 "which costs more (node). Only launches from the CPU are recorded; :host-only says so "
	 "explicitly.",
	 "graph"},
	{"cuda-memory-usage", 0, WS_OPT_BOOL, AT(cuda_memory), NULL, NULL,
	 "Record when GPU memory is allocated and freed, and how much is in use. Slows down "
	 "programs "
	 "that allocate often.",
	 "false"},
	{"cuda-um-cpu-page-faults", 0, WS_OPT_BOOL, AT(cuda_um_cpu), NULL, NULL,
	 "Record unified memory traffic and the CPU's page faults on it. Has a high overhead.",
	 "false"},
	{"cuda-um-gpu-page-faults", 0, WS_OPT_BOOL, AT(cuda_um_gpu), NULL, NULL,
	 "Record unified memory traffic and the GPU's page faults on it. Has a high overhead.",
	 "false"},
	{"cuda-event-trace", 0, WS_OPT_ENUM, AT(cuda_events), "WHAT", "auto,true,false,timestamps",
	 "Record CUDA events as they are recorded into streams; with timestamps also when the GPU "
	 "reached each.",
	 "auto"},
	{"cuda-flush-interval", 0, WS_OPT_INT, AT(cuda_flush), "MS", NULL,
	 "Take finished CUDA records from the driver's buffers this often, in milliseconds; 0: "
	 "only when a buffer is full.",
	 "100"},
	{"flush-on-cudaprofilerstop", 0, WS_OPT_BOOL, AT(cuda_flush_stop), NULL, NULL,
	 "Take all CUDA records when the program calls cudaProfilerStop.", "true"},
	{"cuda-api", 0, WS_OPT_STRING, AT(cuda_apis), "+NAME|-NAME[,...]", NULL,
	 "Trace more CUDA calls (+) or leave some out (-); a name may end in *. By default calls "
	 "are "
	 "traced that submit work to the GPU, move or allocate memory, wait, or build and load "
	 "code.",
	 NULL},
	{"cuda-trace-all-apis", 0, WS_OPT_BOOL, AT(cuda_all), NULL, NULL,
	 "Trace every call of the CUDA runtime and driver, including queries and driver calls "
	 "inside "
	 "runtime calls. Has a high overhead.",
	 "false"},
	{"trace-fork-before-exec", 0, WS_OPT_BOOL, AT(trace_forks), NULL, NULL,
	 "Record forked children that have not called exec.", "true"},
	{"lossless", 0, WS_OPT_BOOL, AT(lossless), NULL, NULL,
	 "Let the target wait when the memory for recording is full, instead of dropping and "
	 "counting events; and record every call stack and context switch, however much that slows "
	 "it.",
	 "false"},
	{"ring-memory", 0, WS_OPT_INT, AT(ring_memory), "MIB", NULL,
	 "The most memory for events that are recorded but not yet written, in MiB, for the whole "
	 "process tree.",
	 "256"},
	{"resolve-symbols", 0, WS_OPT_BOOL, AT(resolve_symbols), NULL, NULL,
	 "Find the names of the functions in call stacks at the end. With false, 'warpsight "
	 "symbolize' can do it later.",
	 "true"},
	{"symbols", 0, WS_OPT_LIST, AT(symbols), "DIR[,DIR...]", NULL,
	 "Also search these folders for symbols and separate debug files: by build id "
	 "(.build-id/xx/...debug) or by name; a file is used only if its build id is the recorded "
	 "one.",
	 NULL},
	{"debug-symbols", 0, WS_OPT_LIST, AT(debug_symbols), "DIR[:DIR...]", NULL,
	 "The same as --symbols, with colons between the folders.", NULL},
	{"show-source-info", 0, WS_OPT_BOOL, AT(source_info), NULL, NULL,
	 "Read debugging information for source files, lines and inlined functions.", "true"},
	{"stats", 0, WS_OPT_BOOL, AT(stats), NULL, NULL, "Print the default statistics at the end.",
	 "false"},
	{"export", 0, WS_OPT_SET, AT(export_to), "TYPE[,TYPE...]", export_types,
	 "Export the report at the end, as 'warpsight export' does.", "none"},
	{"command-file", 0, WS_OPT_STRING, AT(command_file), "FILE", NULL,
	 "Read further options, and the target if none is given, from a file: words as a shell "
	 "would split them, # comments. Options given "
	 "on the command line win.",
	 NULL},
	{"strict", 0, WS_OPT_BOOL, AT(strict), NULL, NULL,
	 "Refuse options that ask for what this version does not record, instead of warning and "
	 "recording the rest.",
	 "false"},
	{"quiet", 'q', WS_OPT_FLAG, AT(quiet), NULL, NULL, "Print nothing but errors at the end.",
	 NULL},
#define FLAG(name, letter, nothing, sentence) \
	{name, letter, WS_OPT_UNSUPPORTED, 0, NULL, nothing, sentence, NULL},
#define VALUE(name, letter, arg, nothing, sentence) \
	{name, letter, WS_OPT_UNSUPPORTED, 0, arg, nothing, sentence, NULL},
#define FLAG_MISLEADS(name, letter, nothing, sentence, consequence) \
	{name, letter, WS_OPT_UNSUPPORTED, 0, NULL, nothing, sentence, consequence},
#define VALUE_MISLEADS(name, letter, arg, nothing, sentence, consequence) \
	{name, letter, WS_OPT_UNSUPPORTED, 0, arg, nothing, sentence, consequence},
#define OLD(name, letter, option, values) \
	{name, letter, WS_OPT_ALIAS, 0, NULL, values, option, NULL},
#include "cli/nsys_options.def"
#undef FLAG
#undef VALUE
#undef FLAG_MISLEADS
#undef VALUE_MISLEADS
#undef OLD
	{NULL},
};

/* ---- reading options that need more than a type ---- */

static int parse_signal(const char *text, int *out, struct ws_err *err)
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

/* ---- the command file ---- */

/* Splits text into words as a shell does: blanks, quotes, backslashes, comments. Nothing is
 * expanded. */
static int split_words(const char *text, const char *file, struct ws_list *out, struct ws_err *err)
{
	const char *at = text;

	for (;;) {
		struct ws_text word = {0};
		char quote = 0;

		at += strspn(at, " \t\r\n");
		if (*at == '#') {
			at += strcspn(at, "\n");
			continue;
		}
		if (!*at)
			return 0;
		ws_text_add(&word, "", 0);
		for (; *at && (quote || !isspace((unsigned char)*at)); at++) {
			if (quote && *at == quote)
				quote = 0;
			else if (!quote && (*at == '"' || *at == '\''))
				quote = *at;
			else if (*at == '\\' && quote != '\'' && at[1] == '\n')
				at++;
			else if (*at == '\\' && quote != '\'' && at[1])
				ws_text_add(&word, ++at, 1);
			else
				ws_text_add(&word, at, 1);
		}
		if (quote) {
			ws_text_free(&word);
			return ws_fail(err, "%s: a quotation mark is not closed", file);
		}
		ws_grow(out->values, out->cap, out->count + 1);
		out->values[out->count++] = word.text;
	}
}

static int read_command_file(const char *file, struct ws_list *words, struct ws_err *err)
{
	FILE *stream = fopen(file, "re");
	struct ws_text text = {0};
	char buf[4096];
	size_t size;
	int rc;

	if (!stream)
		return ws_fail_errno(err, "--command-file: cannot read %s", file);
	while ((size = fread(buf, 1, sizeof(buf), stream)) > 0 && text.len < 1 << 20)
		ws_text_add(&text, buf, size);
	rc = 0;
	if (ferror(stream))
		rc = ws_fail_errno(err, "--command-file: cannot read %s", file);
	fclose(stream);
	if (!rc && text.text && strlen(text.text) != text.len)
		rc = ws_fail(err, "--command-file: %s is not text", file);
	if (!rc)
		rc = split_words(ws_text_or(text.text, ""), file, words, err);
	ws_text_free(&text);
	return rc;
}

extern const struct ws_command ws_cmd_profile;

/*
 * Applies the options of the file, then those of the command line over them. The command line is
 * parsed again on top, because only then is it known which of its options were given.
 */
static int apply_command_file(struct options *options, const char *file, int argc, char **argv,
			      char ***target, struct ws_err *err)
{
	struct ws_list words = {0};
	int first, given;
	char **joined;

	if (read_command_file(file, &words, err))
		return -1;
	ws_opts_free(&ws_cmd_profile, options);
	memset(options, 0, sizeof(*options));
	if (ws_opts_parse(&ws_cmd_profile, (int)words.count, (char **)words.values, options, &first,
			  err))
		return -1;
	if (options->command_file)
		return ws_fail(err, "--command-file: %s names another command file", file);
	/* argv is the command line's words before the target, then the target. */
	joined = ws_calloc(words.count + (size_t)argc + 1, sizeof(char *));
	memcpy(joined, words.values, (size_t)first * sizeof(char *));
	given = first;
	if (given && !strcmp(joined[given - 1], "--"))
		given--;
	memcpy(joined + given, argv, (size_t)argc * sizeof(char *));
	ws_opts_free(&ws_cmd_profile, options);
	memset(options, 0, sizeof(*options));
	if (ws_opts_parse(&ws_cmd_profile, given + argc, joined, options, &given, err))
		return -1;
	*target = joined + given;
	if (!joined[given]) { /* the target is the file's; end its list */
		ws_grow(words.values, words.cap, words.count + 1);
		words.values[words.count] = NULL;
		*target = (char **)words.values + first;
	}
	return 0;
}

/* ---- after the run ---- */

static void run_other_command(const char *command, const char *report, char **argv, int argc)
{
	const struct ws_command *found = ws_find_command(command);
	void *values;
	struct ws_err err;
	int first;

	if (!found) {
		ws_warn("%s: this build has no command '%s'", report, command);
		return;
	}
	values = ws_calloc(1, found->opts_size);
	if (ws_opts_parse(found, argc, argv, values, &first, &err))
		ws_warn("%s: %s", command, err.msg);
	else if (found->run(values, argc - first, argv + first))
		ws_warn("%s: '%s' did not succeed", report, command);
	ws_opts_free(found, values);
	free(values);
}

/* Export as each of the types in the list. */
static void export_all(const struct options *options, char *report)
{
	char type[64], force[] = "--force-overwrite=true";
	size_t length;

	for (const char *at = options->export_to; *at; at += length + (at[length] == ',')) {
		char *plain[] = {type, report, NULL}, *forced[] = {type, force, report, NULL};

		length = strcspn(at, ",");
		snprintf(type, sizeof(type), "--type=%.*s", (int)length, at);
		if (!strcmp(type, "--type=none"))
			continue;
		if (options->overwrite)
			run_other_command("export", report, forced, 3);
		else
			run_other_command("export", report, plain, 2);
	}
}

static void follow_up(const struct options *options, const struct ws_record_result *result)
{
	for (size_t i = 0; i < result->report_count; i++) {
		char *stats[] = {result->reports[i], NULL};

		if (options->stats)
			run_other_command("stats", result->reports[i], stats, 1);
		export_all(options, result->reports[i]);
	}
}

static void say_result(const struct options *options, const struct ws_record_result *result)
{
	if (result->lost)
		ws_warn("%llu rows could not be written", (unsigned long long)result->lost);
	if (options->quiet)
		return;
	for (size_t i = 0; i < result->report_count; i++)
		ws_say("Generated: %s", result->reports[i]);
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

static int fill_cuda_options(const struct options *options, struct ws_record_opts *record_opts,
			     struct ws_err *err)
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

static int fill_sampling_options(const struct options *options, struct ws_perf_opts *perf_opts,
				 struct ws_err *err)
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
static int fill_perf_options(const struct options *options, struct ws_perf_opts *perf_opts,
			     struct ws_err *err)
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
	perf_opts->ftrace = options->ftrace;
	perf_opts->later = options->delay > 0;
	if (options->core_events)
		option = "cpu-core-events";
	if (!perf_opts->sample && !perf_opts->count_events &&
	    (options->core_events || options->os_events))
		return ws_fail(err, "--%s: with --sample=none it needs --event-sample=system-wide",
			       option);
	if (ws_perf_check_events(perf_opts->core_events, true, "cpu-core-events", err) ||
	    ws_perf_check_events(perf_opts->os_events, false, "os-events", err))
		return -1;
	return fill_sampling_options(options, perf_opts, err);
}

static bool wants_cuda_stacks(const struct options *options)
{
	return strcmp(options->cuda_stacks, "none") && strcmp(options->cuda_stacks, "false");
}

static int fill_python_options(const struct options *options, struct ws_record_opts *record_opts,
			       struct ws_err *err)
{
	if (options->python_frequency < 1 || options->python_frequency > 2000)
		return ws_fail(err, "--python-sampling-frequency: give 1 to 2000 samples a second");
	record_opts->python.sampling = record_opts->perf.sample != WS_SCOPE_NONE;
	if (options->python_sampling)
		record_opts->python.sampling = !strcmp(options->python_sampling, "true");
	record_opts->python.frequency = (uint32_t)options->python_frequency;
	record_opts->python.gil = has_word(options->trace, "python-gil");
	record_opts->python.cuda_stacks = !strcmp(options->python_backtrace, "cuda");
	if (options->python_functions &&
	    ws_python_functions_read(options->python_functions, &record_opts->python, err))
		return -1;
	if (record_opts->python.cuda_stacks && !wants_cuda_stacks(options))
		return ws_fail(
			err,
			"--python-backtrace=cuda needs --cudabacktrace, which says of which calls");
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

static int fill_stack_options(const struct options *options, struct ws_record_opts *record_opts,
			      struct ws_err *err)
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
	    parse_cuda_stacks(options->cuda_stacks, threshold, record_opts->cuda_stack_ns, err))
		return -1;
	if (!record_opts->cuda && wants_cuda_stacks(options))
		return ws_fail(err, "--cudabacktrace needs --trace=cuda");
	return 0;
}

static int fill_record_options(const struct options *options, struct ws_record_opts *record_opts,
			       struct ws_list *env, struct ws_list *dirs, struct ws_err *err)
{
	if (options->output && strcmp(options->output, "report%n"))
		record_opts->output = options->output;
	record_opts->overwrite = options->overwrite;
	record_opts->nvtx = has_word(options->trace, "nvtx");
	record_opts->osrt = has_word(options->trace, "osrt");
	record_opts->cuda = has_word(options->trace, "cuda");
	if (has_word(options->trace, "none") &&
	    (record_opts->nvtx || record_opts->osrt || record_opts->cuda ||
	     has_word(options->trace, "python-gil")))
		return ws_fail(err, "--trace: none does not go with other words");
	if (fill_cuda_options(options, record_opts, err) ||
	    fill_perf_options(options, &record_opts->perf, err) ||
	    fill_python_options(options, record_opts, err))
		return -1;
	if (options->domain_include && options->domain_exclude)
		return ws_fail(
			err, "--nvtx-domain-include and --nvtx-domain-exclude do not go together");
	if (options->delay < 0)
		return ws_fail(err, "--delay: a time cannot be negative");
	if (options->duration < 0)
		return ws_fail(err, "--duration: a time cannot be negative");
	if (options->ring_memory < 1 || options->ring_memory > 4000)
		return ws_fail(err, "--ring-memory: give 1 to 4000 MiB");
	record_opts->nvtx_domains = ws_text_or(options->domain_include, options->domain_exclude);
	if (options->domain_include)
		record_opts->nvtx_filter = 1;
	else if (options->domain_exclude)
		record_opts->nvtx_filter = 2;
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
	    parse_signal(options->kill, &record_opts->kill_signal, err) ||
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

/* Says what was asked for and is not supported; with --strict that is an error. */
static int mention_left_out(const struct options *options, struct ws_record_opts *record_opts,
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

/* Prints the lists of --cpu-core-events=help, --os-events=help and --ftrace=help; returns an exit
 * status, or -1 when no list is asked for. */
static int list_events(const struct options *options)
{
	struct ws_text text = {0};
	struct ws_err err;
	int status = -1;

	if (asks_help(options->core_events) || asks_help(options->os_events) ||
	    asks_help(options->ftrace))
		status = WS_EXIT_OK;
	if (asks_help(options->core_events))
		ws_perf_list_events(&text, true);
	if (asks_help(options->os_events))
		ws_perf_list_events(&text, false);
	if (asks_help(options->ftrace) && ws_trace_list(&text, &err)) {
		ws_say("profile: --ftrace=help: tracepoints cannot be listed: %s", err.msg);
		status = WS_EXIT_FAIL;
	}
	if (text.len)
		fputs(text.text, stdout);
	ws_text_free(&text);
	return status;
}

static int run_profile(void *values, int argc, char **argv)
{
	struct options *options = values;
	struct ws_record_opts record_opts = {0};
	struct ws_record_result result = {0};
	struct ws_list env = {0}, dirs = {0};
	struct ws_err err;
	char **target = argv;
	int status;

	/* The words before the target lie before argv: the parser left them in place. */
	if (options->command_file) {
		char **words = ws_main_argv + 2;

		if (apply_command_file(options, options->command_file, (int)(argv + argc - words),
				       words, &target, &err)) {
			ws_say("profile: %s", err.msg);
			return WS_EXIT_USAGE;
		}
	}
	status = list_events(options);
	if (status >= 0)
		return status;
	if (!target[0]) {
		ws_say("profile: no program to run: warpsight profile [options] [--] APP [ARG...]");
		return WS_EXIT_USAGE;
	}
	if (fill_record_options(options, &record_opts, &env, &dirs, &err) ||
	    mention_left_out(options, &record_opts, &err)) {
		ws_say("profile: %s", err.msg);
		return WS_EXIT_USAGE;
	}
	record_opts.argv = target;
	record_opts.command_line = ws_main_argv;
	if (ws_record(&record_opts, &result, &err)) {
		ws_say("%s", err.msg);
		if (!result.started)
			return result.status;
		/* The message about a report that did not fit has been printed; the status stays
		 * the target's, which scripts act upon. */
	}
	say_result(options, &result);
	follow_up(options, &result);
	for (size_t i = 0; i < result.report_count; i++)
		free(result.reports[i]);
	free(result.reports);
	for (size_t i = 0; i < env.count; i++)
		free((char *)env.values[i]);
	free(env.values);
	for (size_t i = 0; i < dirs.count; i++)
		free((char *)dirs.values[i]);
	free(dirs.values);
	ws_python_functions_free(&record_opts.python);
	return result.status;
}

const struct ws_command ws_cmd_profile = {
	.name = "profile",
	.summary = "Run a program and record what it does into a report.",
	.usage = "[options] [--] APP [ARG...]",
	.details = "Runs APP as if it ran alone (same terminal, same streams, same exit status) "
		   "and records it and every process that it starts. "
		   "The report has its name from the start and can be read while the program runs, "
		   "and "
		   "after a crash.\n\n"
		   "The exit status is that of APP, 128 plus the signal when a signal ended it, "
		   "127 when APP was not found and 126 when it could not be "
		   "run. Messages go to standard error.",
	.opts = opts,
	.opts_size = sizeof(struct options),
	.left_out = AT(left_out),
	.stop_at_operand = true,
	.examples = "warpsight profile ./app input.dat\n"
		    "warpsight profile -t nvtx -o run.wsrep -f python3 train.py\n"
		    "warpsight profile -y 5 -d 10 --kill none ./server\n"
		    "warpsight profile -o 'rank%q{RANK}' torchrun --nproc-per-node 2 train.py\n"
		    "warpsight profile --stats=true make -j4",
	.run = run_profile,
};
