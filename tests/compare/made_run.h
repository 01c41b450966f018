/*
 * made_run.h - reports of a made-up training program on a noisy machine: steps that copy, launch
 * kernels and wait for them, with an operator and a range around each part. The noise is what real
 * runs have: the whole run is faster or slower than the next (the GPU's clock, the CPU's), each
 * kernel has a small shift of its own from run to run, the run drifts, neighbouring steps are alike
 * (autoregressive), and a few instances take several times as long.
 */
#ifndef WS_TESTS_MADE_RUN_H
#define WS_TESTS_MADE_RUN_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/choose.h"
#include "store/store.h"
#include "../random.h"

enum { MADE_KERNELS = 12, MADE_LAUNCHES = 4 };

struct made_run {
	uint64_t seed;	  /* of the noise */
	uint32_t steps;	  /* 0: 100 */
	uint32_t kernels; /* how many different ones; 0: MADE_KERNELS */
	bool unmarked;	  /* no ranges mark the steps */
	double noise;	  /* 1, or 0: that of a usual machine; 2: twice as much */
	double slower;	  /* kernel `kernel` takes so much longer: 0.05 */
	uint32_t kernel;
	double all_slower;	 /* every kernel takes so much longer */
	const char *gpu;	 /* its name; NULL for the usual one */
	const char *step_name;	 /* printf with the step's number; NULL: "step %u" */
	const char *kernel_name; /* printf with the kernel's number; NULL: "kernel_a"... */
	double copy_call;	 /* ns of the call that copies; 0: 6000 */
	double call_noise;	 /* by how much that call differs from run to run besides: 0.15 */
	bool without_last;	 /* the last kernel is not launched */
	bool odd;		 /* the first is launched twice as often */
	bool ahead;		 /* steps do not wait for the GPU */
};

struct run_maker {
	struct made_run plan;
	const struct made_run *run;
	struct ws_writer *writer;
	uint64_t state, now, gpu;
	uint32_t correlation;
	double step_noise; /* of the steps so far */
	double gpu_speed, cpu_speed, call_speed, kernel_speed[MADE_KERNELS];
};

#define MADE_ROW(maker, table, ...) \
	ws_writer_add((maker)->writer, WS_TABLE_##table, &(struct ws_row_##table){__VA_ARGS__})

static double draw_uniform(struct run_maker *maker)
{
	return ((double)(random_star(&maker->state) >> 11) + 0.5) / 9007199254740992.0;
}

/* Box and Muller. */
static double draw_normal(struct run_maker *maker)
{
	double first = draw_uniform(maker), second = draw_uniform(maker);

	return sqrt(-2 * log(first)) * cos(6.283185307179586 * second);
}

static uint32_t put_string(struct run_maker *maker, const char *text)
{
	return ws_writer_string(maker->writer, text, strlen(text));
}

/* What an instance takes: lognormal, and one in a hundred several times as long. */
static uint64_t draw_duration(struct run_maker *maker, double usual, double deviation)
{
	double noise = maker->run->noise;
	double value = usual * exp(noise * (deviation * draw_normal(maker) + maker->step_noise));

	if (draw_uniform(maker) < 0.01 * noise)
		value *= 1 + pow(draw_uniform(maker), -0.5);
	return (uint64_t)value + 1;
}

static void choose_speeds(struct run_maker *maker)
{
	double noise = maker->run->noise;

	for (int i = 0; i < 20; i++)
		(void)draw_normal(maker);
	maker->gpu_speed = exp(0.01 * noise * draw_normal(maker));
	maker->cpu_speed = exp(0.08 * noise * draw_normal(maker));
	for (int i = 0; i < MADE_KERNELS; i++)
		maker->kernel_speed[i] = exp(0.003 * noise * draw_normal(maker));
	maker->call_speed = 1;
	if (maker->run->call_noise > 0)
		maker->call_speed = exp(maker->run->call_noise * draw_normal(maker));
}

static void put_made_call(struct run_maker *maker, const char *name, double usual)
{
	uint64_t length = draw_duration(maker, usual * maker->cpu_speed, 0.15);

	MADE_ROW(maker, cuda_api, .start = maker->now, .end = maker->now + length, .thread = 1,
		 .correlation = ++maker->correlation, .name = put_string(maker, name),
		 .callchain = WS_NO_U32);
	maker->now += length;
}

static void put_made_kernel(struct run_maker *maker, uint32_t number)
{
	const struct made_run *run = maker->run;
	double usual = (20e3 + 25e3 * number) * maker->gpu_speed * maker->kernel_speed[number] *
		       (1 + run->all_slower);
	uint64_t length;
	char name[64];

	if (number == run->kernel)
		usual *= 1 + run->slower;
	length = draw_duration(maker, usual, 0.02);
	snprintf(name, sizeof(name), "kernel_%c", 'a' + number);
	if (run->kernel_name)
		snprintf(name, sizeof(name), run->kernel_name, number);
	put_made_call(maker, "cudaLaunchKernel_v7000", 5e3);
	maker->gpu = ws_max(maker->gpu + 900, maker->now + 1500);
	MADE_ROW(maker, cuda_kernel, .start = maker->gpu, .end = maker->gpu + length, .context = 1,
		 .green_context = WS_NO_U32, .stream = 7, .correlation = maker->correlation,
		 .process = 1, .name = put_string(maker, name),
		 .demangled = put_string(maker, name));
	maker->gpu += length;
}

static void put_made_copy(struct run_maker *maker)
{
	uint64_t length = draw_duration(maker, 60e3 * maker->cpu_speed, 0.05);

	put_made_call(maker, "cudaMemcpyAsync_v3020", maker->plan.copy_call * maker->call_speed);
	maker->gpu = ws_max(maker->gpu + 900, maker->now + 1500);
	MADE_ROW(maker, cuda_memcpy, .start = maker->gpu, .end = maker->gpu + length, .context = 1,
		 .green_context = WS_NO_U32, .stream = 7, .correlation = maker->correlation,
		 .process = 1, .bytes = 1 << 20, .kind = WS_COPY_HTOD);
	maker->gpu += length;
}

static void put_made_range(struct run_maker *maker, uint64_t start, const char *name)
{
	MADE_ROW(maker, nvtx, .start = start, .end = maker->now, .thread = 1,
		 .text = put_string(maker, name), .type = WS_NVTX_PUSHPOP);
}

static void put_made_wait(struct run_maker *maker, uint64_t since)
{
	maker->now = ws_max(maker->now, maker->gpu) + 2000;
	MADE_ROW(maker, cuda_api, .start = since, .end = maker->now, .thread = 1,
		 .correlation = ++maker->correlation,
		 .name = put_string(maker, "cudaStreamSynchronize_v3020"), .callchain = WS_NO_U32);
}

static void put_made_step(struct run_maker *maker, uint32_t number)
{
	const struct made_run *run = maker->run;
	uint32_t kernels = ws_or(run->kernels, MADE_KERNELS) - run->without_last;
	uint64_t start = maker->now, part;
	char name[64];

	put_made_copy(maker);
	part = maker->now;
	for (uint32_t i = 0; i < MADE_LAUNCHES; i++)
		for (uint32_t kernel = 0; kernel < kernels; kernel++)
			put_made_kernel(maker, kernel);
	for (uint32_t i = 0; i < MADE_LAUNCHES && run->odd; i++)
		put_made_kernel(maker, 0);
	put_made_range(maker, part, "forward");
	MADE_ROW(maker, op, .start = part, .end = maker->now, .thread = 1, .kind = WS_OP_CPU,
		 .name = put_string(maker, "aten::forward"));
	part = maker->now;
	MADE_ROW(maker, osrt, .start = part, .end = part + draw_duration(maker, 80e3, 0.5),
		 .thread = 2, .name = put_string(maker, "read"), .callchain = WS_NO_U32);
	if (!run->ahead)
		put_made_wait(maker, part);
	maker->now += draw_duration(maker, 30e3 * maker->cpu_speed, 0.1);
	snprintf(name, sizeof(name), run->step_name, number);
	if (!run->unmarked)
		put_made_range(maker, start, name);
	maker->now += 500;
}

static void put_made_process(struct run_maker *maker)
{
	MADE_ROW(maker, collection, .start = 1000, .end = WS_NO_TIME);
	MADE_ROW(maker, process, .id = 1, .pid = 100, .start = 1000, .origin = WS_ORIGIN_TARGET,
		 .name = put_string(maker, "train"), .cmdline = put_string(maker, "./train"));
	MADE_ROW(maker, thread, .id = 1, .process = 1, .tid = 100, .start = 1000);
	MADE_ROW(maker, thread, .id = 2, .process = 1, .tid = 101, .start = 1000);
	MADE_ROW(maker, cuda_device, .process = 1, .id = 0,
		 .name = put_string(maker, maker->run->gpu), .sms = 132);
}

/* 0, or -1 with a message. */
static int make_run(const char *path, const struct made_run *run, struct ws_err *err)
{
	struct ws_writer_opts opts = {.overwrite = true};
	struct run_maker maker = {.plan = *run,
				  .state = run->seed * RANDOM_SEED,
				  .now = 100000,
				  .writer = ws_writer_create(path, &opts, err)};
	uint32_t steps = ws_or(run->steps, 100u);
	double alike = 0;

	if (!maker.writer)
		return -1;
	maker.plan.noise = ws_or(run->noise, 1.0);
	maker.plan.copy_call = ws_or(run->copy_call, 6e3);
	maker.plan.gpu = ws_text_or(run->gpu, "NVIDIA H100");
	maker.plan.step_name = ws_text_or(run->step_name, "step %u");
	maker.run = &maker.plan;
	choose_speeds(&maker);
	put_made_process(&maker);
	for (uint32_t i = 0; i < steps; i++) {
		double drift = 0.02 * ((double)i / steps - 0.5);

		alike = 0.8 * alike + 0.006 * draw_normal(&maker);
		maker.step_noise = alike + drift;
		put_made_step(&maker, i);
	}
	return ws_writer_close(maker.writer, err);
}

#endif
