/*
 * gpu_pipe.h - the protocol between the recorder and the process that samples GPUs; private to
 * metrics/.
 *
 * Commands to it are single bytes, GPU_BEGIN and GPU_END; the end of the pipe ends it. It sends
 * messages: a head, followed by `bytes` bytes.
 */
#ifndef WS_METRICS_GPU_PIPE_H
#define WS_METRICS_GPU_PIPE_H

#include <stdbool.h>
#include <stdint.h>

#include "metrics/gpu_metrics.h"

enum { GPU_BEGIN = 'b', GPU_END = 'e' };

enum gpu_message {
	GPU_DEVICE,    /* struct gpu_device: there is a GPU with the number `gpu`, from 0 */
	GPU_METRIC,    /* struct gpu_row: the next metric of a GPU */
	GPU_READY,     /* everything is prepared; `count` GPUs are sampled */
	GPU_SAMPLES,   /* `count` times struct gpu_sample and a float for each metric */
	GPU_GAP,       /* struct gpu_sample: nothing is known about this time */
	GPU_COMPLAINT, /* text */
	GPU_STOPPED,   /* all samples of an ended collection have been sent */
	GPU_MESSAGES
};

struct gpu_head {
	uint32_t kind, gpu, count, bytes;
};

struct gpu_device {
	uint64_t period; /* ns between two samples */
	uint32_t number; /* number in NVML */
	char uuid[52], name[96], chip[24];
	char state[256]; /* how it is sampled, or why it is not */
};

struct gpu_row {
	char unit[8], name[248];
};

struct gpu_sample {
	uint64_t start, end; /* raw ns */
};

/* Which of CUDA's GPUs a process samples. */
struct ws_gpu_part {
	uint32_t first;
	bool rest; /* and all after it */
};

/* Run as the process that samples: reads commands, writes messages, and returns when there is
 * nothing more to do. */
void ws_gpu_child_serve(const struct ws_gpu_sampling_opts *opts, const struct ws_gpu_part *part,
			int commands, int messages);

#endif
