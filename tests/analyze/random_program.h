/*
 * random_program.h - reports of made-up programs: threads that run, wait for each other and for
 * time, launch work on two streams of a GPU, wait for it, and mark their steps. What the report
 * says is consistent: work begins after its launch, streams run in order, and a thread that waits
 * for the GPU returns after the work is done.
 */
#ifndef WS_TESTS_RANDOM_PROGRAM_H
#define WS_TESTS_RANDOM_PROGRAM_H

#include <stdio.h>
#include <string.h>

#include "store/store.h"
#include "base/choose.h"
#include "../random.h"

enum { RANDOM_THREADS = 4, RANDOM_STREAMS = 2 };

struct random_program {
	struct ws_writer *writer;
	uint64_t state, now[RANDOM_THREADS + 1], began[RANDOM_THREADS + 1];
	uint32_t waker[RANDOM_THREADS + 1];
	uint64_t stream_end[RANDOM_STREAMS + 1];
	uint32_t correlation, names[6];
	bool steps;
};
enum { NAME_LAUNCH, NAME_SYNC, NAME_COPY, NAME_LONG, NAME_SHORT, NAME_STEP };

#define PROGRAM_ROW(program, table, ...) \
	ws_writer_add((program)->writer, WS_TABLE_##table, &(struct ws_row_##table){__VA_ARGS__})

static uint64_t draw_number(struct random_program *program, uint64_t below)
{
	return (random_star(&program->state) >> 24) % below;
}

static uint64_t find_gpu_end(const struct random_program *program)
{
	uint64_t end = 0;

	for (int i = 1; i <= RANDOM_STREAMS; i++)
		end = ws_max(end, program->stream_end[i]);
	return end;
}

/* The thread has run since it began to: a row of scheduling says so. */
static void end_run(struct random_program *program, uint32_t thread)
{
	PROGRAM_ROW(program, sched, .start = program->began[thread], .end = program->now[thread],
		    .thread = thread, .cpu = thread, .woken = program->began[thread] - 100,
		    .waker = program->waker[thread], .after = WS_AFTER_SLEEPING);
}

/* The thread leaves its core and comes back when another, or nothing recorded, has woken it. */
static void add_wait(struct random_program *program, uint32_t thread, uint64_t until,
		     uint32_t waker)
{
	uint64_t since = program->now[thread];

	if (since <= program->began[thread])
		return;
	end_run(program, thread);
	program->waker[thread] = waker;
	program->now[thread] = program->began[thread] = ws_max(until, since + 500);
}

static void add_launch(struct random_program *program, uint32_t thread)
{
	uint32_t stream = 1 + (uint32_t)draw_number(program, RANDOM_STREAMS),
		 name = NAME_LONG + (uint32_t)draw_number(program, 2);
	uint64_t start = program->now[thread], end = start + 1000 + draw_number(program, 9000),
		 begin = ws_max(end + 500 + draw_number(program, 4000),
				program->stream_end[stream] + draw_number(program, 2000));
	uint64_t length = 1000 + draw_number(program, name == NAME_LONG ? 200000 : 5000);

	PROGRAM_ROW(program, cuda_api, .start = start, .end = end, .thread = thread,
		    .correlation = ++program->correlation, .name = program->names[NAME_LAUNCH],
		    .callchain = WS_NO_U32);
	PROGRAM_ROW(program, cuda_kernel, .start = begin, .end = begin + length, .stream = stream,
		    .correlation = program->correlation, .process = 1, .name = program->names[name],
		    .demangled = program->names[name], .grid_x = 1, .grid_y = 1, .grid_z = 1,
		    .block_x = 32, .block_y = 1, .block_z = 1, .graph_node = WS_NO_U64,
		    .graph = WS_NO_U32);
	program->stream_end[stream] = begin + length;
	program->now[thread] = end;
}

static void add_synchronisation(struct random_program *program, uint32_t thread)
{
	uint64_t start = program->now[thread],
		 end = ws_max(start, find_gpu_end(program)) + 2000 + draw_number(program, 3000);

	PROGRAM_ROW(program, cuda_api, .start = start, .end = end, .thread = thread,
		    .correlation = ++program->correlation, .name = program->names[NAME_SYNC],
		    .callchain = WS_NO_U32);
	program->now[thread] = end;
}

static void do_something(struct random_program *program, uint32_t thread)
{
	uint32_t other = 1 + (uint32_t)draw_number(program, RANDOM_THREADS);

	switch (draw_number(program, 8)) {
	case 0:
		add_synchronisation(program, thread);
		break;
	case 1:
		add_wait(program, thread, program->now[thread] + draw_number(program, 300000), 0);
		break;
	case 2:
		add_wait(program, thread, program->now[other], other);
		break;
	case 3:
	case 4:
		program->now[thread] += draw_number(program, 50000);
		break;
	default:
		add_launch(program, thread);
	}
}

static void name_things(struct random_program *program)
{
	static const char *const names[] = {"cudaLaunchKernel_v7000", "cudaDeviceSynchronize_v3020",
					    "cudaMemcpyAsync_v3020",  "long_kernel",
					    "short_kernel",	      "step"};

	for (size_t i = 0; i < WS_COUNT(names); i++)
		program->names[i] = ws_writer_string(program->writer, names[i], strlen(names[i]));
}

static void describe_session(struct random_program *program)
{
	uint32_t name = ws_writer_string(program->writer, "made-up", 7);

	PROGRAM_ROW(program, process, .id = 1, .pid = 100, .start = 1000000, .name = name,
		    .origin = WS_ORIGIN_TARGET);
	for (uint32_t id = 1; id <= RANDOM_THREADS; id++) {
		PROGRAM_ROW(program, thread, .id = id, .process = 1, .tid = 99 + id,
			    .start = 1000000);
		program->now[id] = program->began[id] = 1000000 + 1000 * id;
	}
}

/* Write a program that does `count` things; `seed` is not 0. Returns 0, or -1 with a message. */
static int write_random_program(const char *path, uint64_t seed, unsigned count, bool steps,
				struct ws_err *err)
{
	struct ws_writer_opts options = {.overwrite = true, .block_rows = 16384};
	struct random_program program = {.state = seed, .steps = steps};
	uint64_t step_start = 0, last = 0;

	program.writer = ws_writer_create(path, &options, err);
	if (!program.writer)
		return -1;
	name_things(&program);
	describe_session(&program);
	for (unsigned i = 0; i < count; i++) {
		if (program.steps && i % 40 == 0) {
			if (step_start)
				PROGRAM_ROW(&program, nvtx, .start = step_start,
					    .end = program.now[1], .thread = 1,
					    .text = program.names[NAME_STEP],
					    .type = WS_NVTX_PUSHPOP);
			step_start = program.now[1];
		}
		do_something(&program, 1 + (uint32_t)(i % RANDOM_THREADS));
	}
	for (uint32_t id = 1; id <= RANDOM_THREADS; id++) {
		program.now[id] += 1000;
		end_run(&program, id);
		last = ws_max(last, program.now[id]);
	}
	last = ws_max(last, find_gpu_end(&program));
	PROGRAM_ROW(&program, collection, .start = 1000000, .end = last + 1);
	if (ws_writer_close(program.writer, err) < 0)
		return -1;
	return 0;
}

#endif
