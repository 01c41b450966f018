/*
 * kernel_record.h - what the kernel hook writes into rings: launches that were measured, the
 * metrics of each, and the devices that they ran on.
 *
 * The settings of the hook are texts of the arena (text_kernel): NAME=VALUE, NUL-separated, ended
 * by an empty one. WS_KERNEL_SETTINGS lists the names.
 */
#ifndef WS_RING_KERNEL_RECORD_H
#define WS_RING_KERNEL_RECORD_H

#include "ring/record.h"

/* X(member, name): a text, "" where nothing is set. */
#define WS_KERNEL_SETTINGS(X)                                                                    \
	X(metrics_file, "metrics-file") /* lines: chip or a prefix of its name, then metrics */  \
	X(kernel_name, "kernel-name")	/* NAME or regex:EXPRESSION */                           \
	X(name_base, "name-base")	/* function, demangled, mangled */                       \
	X(kernel_id, "kernel-id")	/* CONTEXT:STREAM:NAME:NTH */                            \
	X(skip, "launch-skip")		/* numbers */                                            \
	X(skip_before, "skip-before-match")                                                      \
	X(count, "launch-count") /* "" for no limit */                                           \
	X(devices, "devices")	 /* numbers, comma-separated */                                  \
	X(from_start, "from-start")                                                              \
	X(cache_control, "cache-control")                                                        \
	X(clock_control, "clock-control")                                                        \
	X(nvtx_include, "nvtx-include") /* separated by newlines */                              \
	X(nvtx_exclude, "nvtx-exclude")                                                          \
	X(replay, "replay-mode")                                                                 \
	X(folder, "pass-folder") /* of several runs of the program; "" for one */                \
	X(run, "run")		 /* its number, from 0 */                                        \
	X(runs, "runs")		 /* how many are needed; "" where that is not known */           \
	X(match, "app-replay-match")                                                             \
	X(only_application, "only-application")                                                  \
	X(batch, "replay-batch")     /* launches that are put off at most; "" for none */        \
	X(graphs, "graph-profiling") /* graph, node */                                           \
	X(kill, "kill")		     /* "yes": the process is ended after its last launch */     \
	X(keep, "keep-folder")	     /* where counters are kept; "" where they are not */        \
	X(sections, "sections")                                                                  \
	X(source, "source")		      /* passes: sampling, sass, pm */                   \
	X(pm_interval, "pm-interval")	      /* ns; "" for one that suits */                    \
	X(sampling_period, "sampling-period") /* the cycles' logarithm; "" for one that suits */ \
	X(code_folder, "code-folder")	      /* where code of modules is kept; "" not at all */ \
	X(launches, "launches")		      /* driver: they are seen without CUPTI */

struct ws_rec_kernel_result {
	struct ws_rec rec;	  /* value: number of the result in the process, from 0 */
	uint64_t start, duration; /* session ns; ns, 0 when not measured */
	uint64_t launch, instance;
	uint64_t graph_node; /* UINT64_MAX: none */
	uint32_t device, context, stream, correlation;
	uint32_t mangled, demangled, name; /* handles; 0: none */
	uint32_t nvtx, chip, error, sections, replay, cache_control, clock_control;
	uint32_t grid[3], block[3], cluster[3];
	uint32_t registers, static_shared, dynamic_shared, shared_percent, local_thread;
	uint32_t constant_bytes, cache_config, passes, cooperative, graph; /* UINT32_MAX: none */
	uint32_t thread;	  /* that launched it; 0: the one of the ring */
	uint32_t executed_shared; /* bytes on a multiprocessor; 0: not known */
};

struct ws_kernel_value {
	uint32_t name, unit; /* handles */
	double value;
};
struct ws_rec_kernel_metrics {
	struct ws_rec rec;	/* long form */
	uint32_t result, count; /* number of the result */
	struct ws_kernel_value values[];
};
enum { WS_KERNEL_VALUES = 512 }; /* in one record at most */

/* What instructions of a launch did. */
struct ws_kernel_place_value {
	uint32_t pc, metric; /* handle */
	double value;
};
struct ws_rec_kernel_source {
	struct ws_rec rec;		       /* long form */
	uint32_t result, count;		       /* number of the result; without values, none */
	uint64_t cubin;			       /* its checksum */
	uint32_t function, reserved;	       /* handle of its mangled name */
	struct ws_kernel_place_value values[]; /* WS_KERNEL_VALUES at most */
};

/* A metric over the time of a launch. Its times are ns since the kernel began. */
struct ws_kernel_moment {
	uint64_t start, end;
	double value;
};
struct ws_rec_kernel_samples {
	struct ws_rec rec;		   /* long form */
	uint32_t result, count;		   /* number of the result */
	uint32_t metric, unit;		   /* handles */
	struct ws_kernel_moment moments[]; /* WS_KERNEL_MOMENTS at most */
};
enum { WS_KERNEL_MOMENTS = 400 };

/* X(column of cuda_device, CUdevice_attribute) */
#define WS_KERNEL_DEVICE_ATTRIBUTES(X) \
	X(threads_block, 1)            \
	X(block_x, 2)                  \
	X(block_y, 3)                  \
	X(block_z, 4)                  \
	X(grid_x, 5)                   \
	X(grid_y, 6)                   \
	X(grid_z, 7)                   \
	X(shared_block, 8)             \
	X(constant_bytes, 9)           \
	X(warp, 10)                    \
	X(regs_block, 12)              \
	X(clock_rate, 13)              \
	X(sms, 16)                     \
	X(integrated, 18)              \
	X(ecc, 32)                     \
	X(memory_bandwidth, 37)        \
	X(l2_bytes, 38)                \
	X(warps_sm, 39)                \
	X(async_engines, 40)           \
	X(major, 75)                   \
	X(minor, 76)                   \
	X(shared_sm, 81)               \
	X(regs_sm, 82)                 \
	X(shared_block_optin, 97)      \
	X(blocks_sm, 106)              \
	X(shared_reserved, 111)
enum {
#define X(column, attribute) WS_KERNEL_DEVICE_##column,
	WS_KERNEL_DEVICE_ATTRIBUTES(X)
#undef X
		WS_KERNEL_DEVICE_VALUES
};

struct ws_rec_kernel_device {
	struct ws_rec rec; /* value: device number */
	uint64_t memory_bytes;
	uint32_t name, chip, bus, uuid;	 /* handles */
	uint32_t memory_clock, reserved; /* kHz */
	/* As the driver gives them: the clock is in kHz, the bandwidth field holds the width of the
	 * memory bus in bits, and the warps field holds the threads of a multiprocessor. */
	uint32_t values[WS_KERNEL_DEVICE_VALUES + WS_KERNEL_DEVICE_VALUES % 2];
};

#endif
