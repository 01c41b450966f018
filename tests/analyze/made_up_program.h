/*
 * made_up_program.h - reports of made-up programs with one fault each, of kinds that traces of
 * other tools cannot say and that no machine without GPUs can record; and their findings.
 */
#ifndef WS_TESTS_MADE_UP_PROGRAM_H
#define WS_TESTS_MADE_UP_PROGRAM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyze/analysis.h"
#include "analyze/finding.h"
#include "analyze/rules/rules.h"
#include "base/choose.h"
#include "store/store.h"
#include "../metrics/gpu_samples.h"

enum { STEPS = 12, GPUS = 2, US = 1000, MS = 1000000, BEGIN = 1000000 };

struct program {
	struct ws_writer *writer;
	uint64_t now, gpu_end[GPUS];
	uint64_t on_core_since; /* of a thread that has waited; 0: it has not */
	uint32_t correlation, launch, wait, step;
};

#define ROW(program, table, ...) \
	ws_writer_add((program)->writer, WS_TABLE_##table, &(struct ws_row_##table){__VA_ARGS__})

static inline uint32_t make_string(struct program *program, const char *text)
{
	return ws_writer_string(program->writer, text, strlen(text));
}

static inline void say_fact(struct program *program, const char *name, const char *value)
{
	ROW(program, meta, .name = make_string(program, name),
	    .value = make_string(program, value));
}

static inline void add_call(struct program *program, const char *name, uint64_t ns)
{
	ROW(program, cuda_api, .start = program->now, .end = program->now + ns, .thread = 1,
	    .correlation = ++program->correlation, .name = make_string(program, name),
	    .callchain = WS_NO_U32);
	program->now += ns;
}

/* Launches a kernel, of which the caller says what is special. */
static inline void add_kernel(struct program *program, uint32_t gpu, const char *name, uint64_t ns,
			      struct ws_row_cuda_kernel kernel)
{
	add_call(program, "cudaLaunchKernel_v7000", 5 * US);
	kernel.start = ws_max(program->gpu_end[gpu], program->now + 2 * US);
	kernel.end = program->gpu_end[gpu] = kernel.start + ns;
	kernel.name = kernel.demangled = make_string(program, name);
	kernel.device = gpu;
	kernel.stream = ws_or(kernel.stream, 7 + gpu);
	kernel.process = ws_or(kernel.process, 1u);
	kernel.correlation = program->correlation;
	kernel.grid_x = ws_or(kernel.grid_x, 4000u);
	kernel.block_x = ws_or(kernel.block_x, 256u);
	kernel.grid_y = kernel.grid_z = kernel.block_y = kernel.block_z = 1;
	kernel.graph_node = WS_NO_U64;
	kernel.graph = WS_NO_U32;
	ws_writer_add(program->writer, WS_TABLE_cuda_kernel, &kernel);
}

static inline void wait_for_gpus(struct program *program)
{
	uint64_t end = ws_max(program->gpu_end[0], program->gpu_end[1]);

	add_call(program, "cudaDeviceSynchronize_v3020",
		 ws_max(end, program->now) - program->now + 3 * US);
}

/* The compute capability of its GPUs; 0 where it is not known. */
static uint32_t capability;

/* What the report says of the machine beside that; ended by one without a name. */
static const struct fact {
	const char *name, *value;
} * facts;

static inline void describe_session(struct program *program)
{
	ROW(program, process, .id = 1, .pid = 100, .start = BEGIN,
	    .name = make_string(program, "made-up"),
	    .exe = make_string(program, "/home/user/made-up"), .origin = WS_ORIGIN_TARGET);
	ROW(program, thread, .id = 1, .process = 1, .tid = 100, .start = BEGIN);
	for (uint32_t gpu = 0; gpu < GPUS; gpu++) {
		char uuid[8];

		snprintf(uuid, sizeof(uuid), "GPU-%u", gpu);
		ROW(program, cuda_device, .process = 1, .start = BEGIN, .id = gpu, .sms = 132,
		    .major = capability, .uuid = make_string(program, uuid),
		    .bus = make_string(program, gpu ? "0000:00:07.0" : "0000:00:06.0"));
	}
	say_fact(program, "cpu.count", "8");
	for (const struct fact *fact = facts; fact && fact->name; fact++)
		say_fact(program, fact->name, fact->value);
}

/* What was sampled of each GPU over the whole run; NAN: nothing. NULL: of none. */
static const struct sampled {
	const char *row;
	double value[GPUS];
} * sampled;

/* The share of the run that the samples cover, from its beginning. */
static double covered = 1;

static inline void put_samples(struct program *program)
{
	uint64_t samples_kept =
		(uint64_t)((double)(program->now - BEGIN) * covered) / (10 * US) + 1;

	for (uint32_t gpu = 0; sampled && gpu < GPUS; gpu++) {
		char uuid[8];
		struct gpu_samples samples;

		snprintf(uuid, sizeof(uuid), "GPU-%u", gpu);
		samples = begin_gpu_samples(program->writer, 1 + 50 * gpu, gpu, uuid, 10 * US);
		for (const struct sampled *at = sampled; at->row; at++)
			if (!isnan(at->value[gpu]))
				put_gpu_sample(&samples, at->row, BEGIN, samples_kept,
					       at->value[gpu]);
	}
}

/* Whether the driver says that GPU 0 was slowed down for its power all the time. */
static bool slowed;

static inline void put_slowed(struct program *program)
{
	if (!slowed)
		return;
	ROW(program, counter, .id = 200, .device = WS_NO_U32, .cpu = WS_NO_U32,
	    .group = make_string(program, "GPU"),
	    .name = make_string(program, "Throttled by power, GPU 0"),
	    .identity = make_string(program, "GPU-0"));
	ROW(program, counter_value, .start = BEGIN, .counter = 200, .value = 1);
}

struct analysed {
	struct ws_analysis *analysis;
	struct ws_findings findings;
	struct ws_report *report;
	char path[64];
};

/* Queries can be given to `warpsight query` as they are: no times are left to fill in. */
static inline void check_queries(const struct ws_findings *findings)
{
	for (size_t i = 0; i < findings->count; i++)
		for (size_t k = 0; k < findings->findings[i].evidence_count; k++) {
			const char *query = findings->findings[i].evidence[k].query;

			assert_true(!query || (!strstr(query, ":from") && !strstr(query, ":to")));
		}
}

/* Whether the program marks its steps. */
static bool marked = true;

/* Record a program of which each step does `step`, and analyse it. */
static inline struct analysed analyse_program(void (*step)(struct program *program, int number))
{
	struct ws_writer_opts options = {.overwrite = true, .block_rows = 16384};
	struct ws_model_options all = {.to = UINT64_MAX};
	struct program program = {.now = BEGIN};
	struct ws_err err = {""};
	struct analysed out;

	snprintf(out.path, sizeof(out.path), "test_rules.%d.wsrep", (int)getpid());
	program.writer = ws_writer_create(out.path, &options, &err);
	assert_non_null(program.writer);
	describe_session(&program);
	for (int i = 0; i < STEPS; i++) {
		uint64_t start = program.now;

		step(&program, i);
		wait_for_gpus(&program);
		if (marked)
			ROW(&program, nvtx, .start = start, .end = program.now, .thread = 1,
			    .text = make_string(&program, "step"), .type = WS_NVTX_PUSHPOP);
	}
	ROW(&program, sched, .start = ws_max(BEGIN, program.on_core_since), .end = program.now,
	    .thread = 1, .cpu = 5);
	ROW(&program, collection, .start = BEGIN, .end = program.now);
	put_samples(&program);
	put_slowed(&program);
	assert_int_equal(ws_writer_close(program.writer, &err), 0);
	out.report = ws_report_open_plain(out.path, &err);
	assert_non_null(out.report);
	out.analysis = ws_analysis_open(out.report, &all, &err);
	assert_non_null(out.analysis);
	ws_findings_make(out.analysis, NULL, &out.findings);
	check_queries(&out.findings);
	return out;
}

static inline void forget_program(struct analysed *analysed)
{
	ws_findings_free(&analysed->findings);
	ws_analysis_close(analysed->analysis);
	ws_report_close(analysed->report);
	unlink(analysed->path);
}

/* The first finding of a program of which each step does `step`. */
static inline void check_first(void (*step)(struct program *program, int number), const char *rule,
			       const char *words)
{
	struct analysed analysed = analyse_program(step);
	struct ws_findings findings = analysed.findings;

	assert_true(findings.count > 0);
	if (strcmp(findings.findings[0].rule->name, rule) ||
	    !strstr(findings.findings[0].title, words))
		print_error("first: %s: %s\n", findings.findings[0].rule->name,
			    findings.findings[0].title);
	assert_string_equal(findings.findings[0].rule->name, rule);
	assert_non_null(strstr(findings.findings[0].title, words));
	if (findings.findings[0].level < WS_LEVEL_WARNING)
		print_error("only a note: %s\n", findings.findings[0].title);
	assert_true(findings.findings[0].level >= WS_LEVEL_WARNING);
	forget_program(&analysed);
}

/* The first finding of a rule, with these words in its title; NULL for none. */
static inline const struct ws_finding *find_finding(const struct analysed *analysed,
						    const char *rule, const char *words)
{
	for (size_t i = 0; i < analysed->findings.count; i++)
		if (!strcmp(analysed->findings.findings[i].rule->name, rule) &&
		    strstr(analysed->findings.findings[i].title, words))
			return &analysed->findings.findings[i];
	return NULL;
}

/* Its level; -1 for none. */
static inline int find_level(const struct analysed *analysed, const char *rule, const char *words)
{
	const struct ws_finding *finding = find_finding(analysed, rule, words);

	if (!finding)
		return -1;
	return (int)finding->level;
}

static const struct ws_row_cuda_kernel full = {
	.occupancy = 1, .waves = 30, .limiter = WS_OCCUPANCY_WARPS, .registers = 32};

#endif
