/*
 * record_options.h - the options of the commands that record: profile has all of them, launch those
 * about the program and what is seen of it, start those about a collection and its report. Each is
 * declared once, in record_options.c, with the commands that have it.
 */
#ifndef WS_CLI_RECORD_OPTIONS_H
#define WS_CLI_RECORD_OPTIONS_H

#include "cli/cli.h"
#include "record/record.h"

/* Bits of ws_opt.also and ws_command.part; the last: what is about the command itself. */
enum { WS_IN_LAUNCH = 1, WS_IN_START = 2, WS_IN_ALL = 4 };

/* What is traced without --trace; OpenGL only where the program is linked to it. */
#define WS_DEFAULT_TRACE "cuda,opengl,nvtx,osrt,python-gil"

struct ws_record_options {
	const char *vulkan_gpu, *output, *trace, *wait, *kill, *run_as, *domain_include,
		*domain_exclude, *command_file, *export_to, *sample, *cpuctxsw, *backtrace,
		*core_events, *core_metrics, *os_events, *event_sample, *ftrace, *threshold,
		*stack_threshold, *cuda_stacks, *cuda_stack_threshold, *python_sampling,
		*python_functions, *pytorch, *dask, *nccl_trace, *mpi_impl, *python_backtrace,
		*frequency_given, *python_frequency_given, *period_given, *event_interval,
		*event_frequency, *cuda_graphs, *cuda_events, *cuda_apis, *capture_range,
		*capture_range_end, *nvtx_capture, *hotkey_capture, *flight_recorder, *steps,
		*step_range, *system_metrics, *nic_metrics, *storage_metrics, *gpu_metrics_devices,
		*gpu_metrics_set;
	struct ws_list env, symbols, debug_symbols, triggers;
	const char *session, *session_new;
	const char *jit_names;
	int64_t sample_stack;
	struct ws_left_out left_out;
	double delay, duration, sync;
	int64_t attach, ring_memory, system_metrics_hz, gpu_metrics_hz, cuda_flush,
		samples_per_backtrace, stack_depth, stack_size;
	bool opengl_gpu, overwrite, show_output, inherit, trace_forks, store_output,
		store_environment, keep_command_lines, start_later, lossless, resolve_symbols,
		source_info, stats, quiet, strict, no_findings, cuda_memory, cuda_um_cpu,
		cuda_um_gpu, cuda_flush_stop, cuda_all, per_node;
	/* Of launch: the range and the key of starts that name none. */
	bool for_starts;
	const char *start_range, *start_key;
};

#define WS_RECORD_AT(member) offsetof(struct ws_record_options, member)

extern const struct ws_opt ws_record_option_table[];

/* What ws_fill_record_options allocates. */
struct ws_filled_options {
	struct ws_list env, dirs;
	char *capture_range; /* with its domain behind it */
	char *nvtx_domains;
};

/* What the options mean. -1 with a message. `filled` must live as long as `record_opts` is used;
 * free it with the next. */
int ws_fill_record_options(const struct ws_record_options *options,
			   struct ws_record_opts *record_opts, struct ws_filled_options *filled,
			   struct ws_err *err);
/* The plan of --flight-recorder, where that is given; refuses what does not go with it. -1 with a
 * message. */
int ws_fill_flight_options(const struct ws_record_options *options,
			   struct ws_record_opts *record_opts, struct ws_err *err);
/* Whether the options go together with --attach, where that is given: those about starting a
 * program do not. -1 with a message. */
int ws_check_attach(const struct ws_record_options *options, char **target, struct ws_err *err);
/* With --attach: what is recorded. To be freed afterwards; NULL without. */
char **ws_name_attached(const struct ws_record_options *options,
			struct ws_record_opts *record_opts);
void ws_free_filled_options(struct ws_record_opts *record_opts, struct ws_filled_options *filled);
/* Says what was asked for and is not supported; with --strict that is an error. */
int ws_mention_left_out(const struct ws_record_options *options, struct ws_record_opts *record_opts,
			struct ws_err *err);
/* Prints the lists of --cpu-core-events=help, --os-events=help, --ftrace=help and of GPU metrics;
 * returns an exit status, or -1 when no list is asked for. `command` is named in messages. */
int ws_list_events(const struct ws_record_options *options, const char *command);
/*
 * Where --command-file is given: applies the options of the file, then those of the command line
 * over them. `operands` are the command line's; *target gets the program and its arguments. -1 with
 * a message.
 */
int ws_apply_command_file(const struct ws_command *command, struct ws_record_options *options,
			  int argc, char **operands, char ***target, struct ws_err *err);
/* Statistics and exports of --stats and --export. */
void ws_follow_up_report(const struct ws_record_options *options, char *report);
/* Say in one line what takes the room of a report of more than 500 MB, and what makes that less. */
void ws_say_if_large(const char *path);
/* Reads the value of --kill: a signal's name or number; 0 for none. */
int ws_parse_kill_signal(const char *text, int *out, struct ws_err *err);

#endif
