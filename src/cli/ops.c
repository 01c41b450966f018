/* ops.c - the command `ops`: statistics of framework operators, as the PyTorch profiler gives them.
 */
#include <string.h>

#include "cli/cli.h"
#include "cli/tables.h"
#include "cli/text.h"
#include "text/output_file.h"
#include "ops/ops.h"
#include "stats/stats.h"

struct options {
	const char *view, *sort, *step, *format, *output, *timeunit;
	bool by_shape, python, doubles, exact, overwrite, wide;
	int64_t by_stack, limit;
	double min_time;
};

#define AT(member) offsetof(struct options, member)

static const struct ws_opt opts[] = {
	{"view", 0, WS_OPT_ENUM, AT(view), "VIEW", "ops,modules,memory,memory-events,steps",
	 "What to show: averages of operators, calls of CUDA and GPU work by name (ops); times by "
	 "path of nn.Module (modules); what the framework's allocator handed out, by device "
	 "(memory) "
	 "or record by record (memory-events); the steps of the training loop (steps).",
	 "ops"},
	{"sort", 's', WS_OPT_ENUM, AT(sort), "KEY",
	 "self_cpu_time_total,cpu_time_total,self_cuda_time_total,self_device_time_total,cuda_time_"
	 "total,device_time_total,"
	 "self_cpu_memory_usage,cpu_memory_usage,self_cuda_memory_usage,self_device_memory_usage,"
	 "cuda_memory_usage,device_memory_usage,"
	 "count,flops,cpu_time,cuda_time,device_time",
	 "Order of the rows, largest first; the words are those of PyTorch's sort_by. By default "
	 "by "
	 "GPU time, or by self CPU time where there is none.",
	 NULL},
	{"row-limit", 'n', WS_OPT_INT, AT(limit), "N", NULL,
	 "Show at most this many rows; 0 for all.", "0"},
	{"min-time", 0, WS_OPT_SECONDS, AT(min_time), "TIME", NULL,
	 "Only rows whose CPU total or GPU total is at least this, such as 10ms.", NULL},
	{"group-by-input-shape", 0, WS_OPT_FLAG, AT(by_shape), NULL, NULL,
	 "A row for each shape of the inputs (traces made with record_shapes=True).", NULL},
	{"group-by-stack", 0, WS_OPT_INT, AT(by_stack), "N", NULL,
	 "A row for each different N innermost frames of the Python stack (traces that hold \"Call "
	 "stack\").",
	 "0"},
	{"step", 0, WS_OPT_STRING, AT(step), "STEPS", NULL,
	 "Only what these steps (ProfilerStep#N) called: 3, 2-4 or 1,5.", NULL},
	{"python", 0, WS_OPT_FLAG, AT(python), NULL, NULL,
	 "With Python calls (with_stack=True) as operators of their own.", NULL},
	{"double-times", 0, WS_OPT_FLAG, AT(doubles), NULL, NULL,
	 "Compute GPU times of operators as tools do that keep a trace's microseconds in doubles "
	 "and "
	 "subtract them: up to a nanosecond off for each kernel, more where times count from 1970. "
	 "This is the default for PyTorch's traces where it stays within that nanosecond; the "
	 "option "
	 "asks for it in any trace or report.",
	 NULL},
	{"exact-times", 0, WS_OPT_FLAG, AT(exact), NULL, NULL,
	 "Compute GPU times of operators to the nanosecond that the trace has, as PyTorch itself "
	 "shows them; this is the default for other reports.",
	 NULL},
	{"format", 'f', WS_OPT_STRING, AT(format), "FORMAT[:ARG]", NULL,
	 "column, table, csv, tsv, json, html, htable or markdown, as for stats. By default column "
	 "for standard output and csv for a file.",
	 NULL, ws_add_format_names},
	WS_WIDE_OPTION(wide),
	{"output", 'o', WS_OPT_STRING, AT(output), "PATH", NULL,
	 "File to write; - is standard output.", "-"},
	{"timeunit", 0, WS_OPT_STRING, AT(timeunit), "UNIT", NULL,
	 "Unit of times: ns, us, ms or s.", "us"},
	{"force-overwrite", 0, WS_OPT_BOOL, AT(overwrite), NULL, NULL,
	 "Replace the file if it exists.", NULL},
	{NULL},
};

static int refuse_usage(const char *what)
{
	ws_say("ops: %s", what);
	return WS_EXIT_USAGE;
}

static enum ws_doubles_use choose_doubles(const struct options *options)
{
	if (options->doubles)
		return WS_DOUBLES_ALWAYS;
	if (options->exact || strcmp(options->view, "ops"))
		return WS_DOUBLES_NEVER;
	return WS_DOUBLES_AS_TRACED;
}

static int run_ops(void *values, int argc, char **argv)
{
	const struct options *options = values;
	struct ws_ops_request request = {
		.by_shape = options->by_shape,
		.python = options->python,
		.doubles = choose_doubles(options),
		.by_stack = options->by_stack,
		.sort = options->sort,
		.limit = options->limit,
		.min_time_s = options->min_time,
		.steps = options->step,
		.view = options->view,
		.format = options->format,
		.unit = options->timeunit,
		.output = options->output,
		.overwrite = options->overwrite,
	};
	int rc = 0;

	ws_print_wide = options->wide;
	if (!argc)
		return refuse_usage(
			"no report or trace file is given; 'warpsight ops FILE' shows its "
			"operators");
	if (argc > 1 && strcmp(options->output, "-"))
		return refuse_usage("--output: one file at a time can be written to a file");
	if (!ws_find_timeunit(options->timeunit))
		return refuse_usage("--timeunit: give one of ns, us, ms, s");
	if (options->limit < 0 || options->by_stack < 0)
		return refuse_usage("--row-limit and --group-by-stack must not be negative");
	if (strcmp(options->view, "ops") &&
	    (options->sort || options->by_shape || options->by_stack || options->doubles ||
	     options->exact || options->min_time > 0))
		return refuse_usage(
			"--sort, --min-time, --double-times, --exact-times and --group-by-... "
			"belong to --view=ops");
	if (options->doubles && options->exact)
		return refuse_usage("give one of --double-times and --exact-times");
	for (int i = 0; i < argc; i++) {
		int file_rc = ws_print_ops_file(argv[i], &request);

		if (file_rc == WS_OUTPUT_PIPE_CLOSED)
			return WS_EXIT_PIPE_CLOSED;
		rc |= file_rc;
		if (ws_is_output_over())
			break;
	}
	return ws_exit_status(rc);
}

const struct ws_command ws_cmd_ops = {
	.name = "ops",
	.summary = "Show statistics of framework operators.",
	.usage = "[options] FILE...",
	.details = "What torch.profiler's key_averages().table() shows, by its definitions, from a "
		   "trace of it (or a report imported from "
		   "one): "
		   "self time is the time less that of the direct children, device time that of "
		   "the GPU work an operator and its children "
		   "caused, memory what the allocator handed out less what it took back meanwhile. "
		   "Rows whose Device is CUDA are the GPU work "
		   "itself, always exact. Percentages are of the sums below the table; formats for "
		   "programs leave those out.\n\n"
		   "A report without operators has them from NVTX ranges, such as "
		   "torch.autograd.profiler.emit_nvtx writes.",
	.opts = opts,
	.opts_size = sizeof(struct options),
	.examples =
		"warpsight ops trace.json.gz\n"
		"warpsight ops --sort=cpu_time_total -n 10 trace.json\n"
		"warpsight ops --group-by-input-shape --min-time=10ms -f csv -o ops.csv run.wsrep\n"
		"warpsight ops --view=memory-events trace.json",
	.run = run_ops,
};
