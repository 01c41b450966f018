/*
 * record.h - recording a program: the options that `profile` passes and the result that it gets.
 */
#ifndef WS_RECORD_RECORD_H
#define WS_RECORD_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "control/mailbox.h"
#include "control/trigger.h"
#include "metrics/gpu_metrics.h"
#include "metrics/metrics.h"
#include "record/perf.h"
#include "record/python.h"

struct ws_record_opts {
	char **argv; /* the target and its arguments, NULL-terminated */
	int attach;  /* pid of a process that already runs and is recorded instead of starting
			`argv`, which then holds its command; 0: none */
	bool gather; /* several ranks of this host join, each with a program that it starts itself
			(gathered.h); `argv` is the first one's */
	unsigned gather_expected; /* how many; 0: not known */
	const char *output;	  /* template of the report's name; NULL for the default */
	bool overwrite;
	bool nvtx, osrt, cuda, openmp, openacc, malloc; /* what to trace */
	uint32_t mpi;		      /* enum ws_mpi_implementation that is expected; 0: any */
	uint32_t nccl_events;	      /* what NCCL should tell its profiler plug-in: bits 1 << enum
					 ws_nccl_event; 0: no plug-in */
	uint64_t libraries;	      /* libraries whose calls to trace: bits by enum ws_library */
	uint64_t libraries_if_linked; /* likewise, but only if the target is linked to them, and
					 without a word if none of their calls was recorded */
	uint32_t graphics;	      /* WS_FEATURE_OPENGL_... and WS_FEATURE_VULKAN_... */
	const char *trace;	      /* the words of --trace; NULL: none */
	/* The kernel hook sees calls before the driver, not by CUPTI. */
	bool kernel_driver_calls;
	/* Kernels are measured with counters instead of traced, by these settings of the kernel
	 * hook: NAME=VALUE, NUL-separated, ended by an empty one; NULL: none are. */
	const char *kernel;
	size_t kernel_bytes;
	const char *kernel_code; /* folder where the hook keeps the code of modules; NULL: the
				    report gets no code of kernels */
	struct ws_plan plan;	 /* what begins and ends collections; delay, duration and kill are
				    filled in from the members below */
	const char *capture_range, *capture_domain; /* of WS_CAPTURE_NVTX; a domain "*": any;
							   of WS_CAPTURE_HOTKEY: the key */
	struct ws_flight_triggers triggers;	    /* of a flight recorder */
	struct ws_mailbox *mailbox; /* through which other threads control the session; NULL: none
				     */
	double delay, duration;	    /* seconds; duration 0 for no limit */
	double sync;		    /* seconds between writes to the disk itself; 0: none */
	int kill_signal;	    /* sent to the target when the duration is over; 0 for none */
	bool machine_only;	    /* the target only waits: its status and its end are no news */
	bool wait_all; /* wait for every process of the tree, not for the target alone */
	bool inherit_environment;
	const char *const *env; /* NAME=VALUE, added to the target's environment */
	size_t env_count;
	/* runtimes (words of ws_jit_runtimes, separated by commas) that should report the names
	 * of the code that they generate; or NULL */
	const char *jit_names;
	const char *run_as;	/* user name, or NULL */
	double osrt_threshold;	/* seconds */
	double stack_threshold; /* seconds that an OS-runtime call must last for its stack to be
				   recorded; negative: none */
	uint32_t stack_depth, stack_bytes; /* most frames of such a stack; bytes copied of it */
	int64_t cuda_stack_ns[4]; /* the same for CUDA calls by enum ws_cuda_calls, in nanoseconds;
				     negative: none */
	int nvtx_filter;	  /* 0 all, 1 only `nvtx_domains`, 2 all but them */
	const char *nvtx_domains; /* comma-separated */
	uint32_t cuda_flags;	  /* enum ws_cuda_setting (ring.h) */
	uint32_t cuda_flush_ms;	  /* time between flushes of CUPTI's buffers; 0: only when full */
	const char *cuda_apis;	  /* +name,-name,... or NULL */
	bool trace_forks;	  /* record forked children that have not called exec */
	bool store_output;	  /* tee the target's output into the report */
	bool hide_output;	  /* ...and do not show it */
	bool store_environment;
	bool keep_command_lines; /* passwords and tokens in them are not masked */
	bool resolve_symbols,
		source_info; /* name functions at the end; read debugging information for it */
	const char *const *symbol_dirs;
	size_t symbol_dir_count;
	bool lossless;
	bool quiet;		  /* say nothing but errors and warnings */
	uint64_t ring_bytes;	  /* memory budget of the rings */
	struct ws_perf_opts perf; /* CPU samples and context switches */
	struct ws_python_opts python;
	struct ws_metrics_opts metrics; /* metrics of the machine */
	struct ws_gpu_sampling_opts gpu_metrics;
	char **command_line; /* warpsight's own, for the report */
	/* For the report's diagnostics: what was requested and is not recorded, one sentence each,
	 * and a sentence on what the report holds instead (or NULL). */
	const char *const *left_out;
	size_t left_out_count;
	const char *consequence;
};

struct ws_record_result {
	/* exit status to use: the target's, 128 + signal, 126 or 127 when it could not be
	 * started */
	int status;
	bool started;
	char **reports; /* paths of the reports, owned by the caller */
	size_t report_count;
	uint64_t events; /* recorded */
	uint64_t lost;	 /* rows that could not be written */
	bool write_failed;
};

/*
 * Run the target and record it until it ends. Messages about progress go to stderr through ws_say.
 * 0, or -1 with a message when the recording could not begin or the report could not be finished;
 * either way `result` holds what is known.
 */
int ws_record(const struct ws_record_opts *options, struct ws_record_result *result,
	      struct ws_err *err);

#endif
