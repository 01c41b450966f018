/*
 * cuda_bench.c - write a report of a training loop on GPUs straight through the writer, for timing
 * what reads it.
 *
 *   cuda_bench FILE [same|unique|sparse|wide] [EVENTS]
 *
 * Two processes, one GPU each. A step is a range; in it 12 layers with 3 operations each, which are
 * ranges that launch 4 kernels, then two copies, a memset and a wait. same: names of operations
 * repeat; unique: each has a number of its own, as emit_nvtx writes them; sparse: correlation ids
 * are far apart, as when most calls are not recorded; wide: 25 processes, each with a GPU of its
 * own. The default is 10 M rows.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/store.h"

enum { PROCESSES = 25, LAYERS = 12, OPS = 3, KERNELS = 4, NAMES = 40 };

static uint64_t state = 88172645463325252u;

static inline uint64_t next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

struct side { /* one process */
	uint32_t id;
	uint64_t cpu, gpu; /* now */
	uint32_t correlation;
};

static struct ws_writer *w;
static struct side sides[PROCESSES];
static uint32_t processes = 2;
static uint32_t kernels[NAMES], bases[NAMES], calls[5], step_text, layer_texts[LAYERS],
	op_texts[OPS];
static uint32_t apart = 1;
static bool unique;
static uint64_t rows;

#define ADD(table, ...) \
	(rows++, ws_writer_add(w, WS_TABLE_##table, &(struct ws_row_##table){__VA_ARGS__}))

static uint32_t put_text(const char *format, unsigned long long n)
{
	char s[256];

	return ws_writer_string(w, s, (size_t)snprintf(s, sizeof(s), format, n));
}

static void begin_report(void)
{
	static const char *const functions[] = {"cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020",
						"cudaMemsetAsync_v3020",
						"cudaStreamSynchronize_v3020",
						"cudaLaunchKernelExC_v11060"};

	ADD(collection, .start = 1000000, .end = WS_NO_TIME);
	for (uint32_t i = 0; i < processes; i++) {
		sides[i] = (struct side){i + 1, 1000000, 1000000, 1000 * i};
		ADD(process, .id = i + 1, .pid = 4242 + i, .start = 1000000,
		    .origin = WS_ORIGIN_TARGET, .name = put_text("bench", 0));
		ADD(thread, .id = i + 1, .process = i + 1, .tid = 4242 + i, .start = 1000000);
	}
	for (int i = 0; i < 5; i++)
		calls[i] = put_text(functions[i], 0);
	for (unsigned i = 0; i < NAMES; i++) {
		kernels[i] = put_text("void some::library::elementwise_kernel<(int)%llu, "
				      "some::Functor<float, float>>(int, float *)",
				      i);
		bases[i] = put_text("elementwise_kernel_%llu", i / 2);
	}
	step_text = put_text("train step", 0);
	for (unsigned i = 0; i < LAYERS; i++)
		layer_texts[i] = put_text("layer %llu", i);
	for (unsigned i = 0; i < OPS; i++)
		op_texts[i] = put_text("operation %llu", i);
}

static uint32_t put_call(struct side *side, uint32_t function, uint64_t ns)
{
	side->correlation += apart;
	ADD(cuda_api, .start = side->cpu, .end = side->cpu + ns, .thread = side->id,
	    .correlation = side->correlation, .name = calls[function], .callchain = WS_NO_U32);
	side->cpu += ns + 400 + next_random() % 300;
	return side->correlation;
}

static uint64_t put_runtime_call(struct side *side, uint64_t ns)
{
	uint64_t start = side->gpu > side->cpu ? side->gpu : side->cpu + 1500;

	side->gpu = start + ns + 900;
	return start;
}

static void put_kernel(struct side *side, unsigned name)
{
	uint32_t correlation = put_call(side, name & 1 ? 4 : 0, 3000 + next_random() % 2000);
	uint64_t ns = 1500 + name * 700 + next_random() % 512 +
		      (next_random() % 100 ? 0 : next_random() % 5000000),
		 start = put_runtime_call(side, ns);

	ADD(cuda_kernel, .start = start, .end = start + ns, .device = 0, .context = 1,
	    .green_context = WS_NO_U32, .stream = 7, .correlation = correlation,
	    .process = side->id, .demangled = kernels[name], .name = bases[name], .launch_type = 1,
	    .registers = 32 + name, .grid_x = 1 + name * 8, .grid_y = 1, .grid_z = 1,
	    .block_x = 128, .block_y = 1, .block_z = 1, .grid_id = correlation,
	    .executed_shared = 102400, .graph_node = WS_NO_U64, .shared_limit = 0,
	    .graph = WS_NO_U32, .cluster_policy = WS_NO_U32, .max_cluster = WS_NO_U32,
	    .active_clusters = WS_NO_U32, .shared_percent = WS_NO_U32, .occupancy = 0.5,
	    .waves = 1.25, .blocks_per_sm = 8, .limiter = WS_OCCUPANCY_WARPS);
}

static void put_range(struct side *side, uint32_t name, uint64_t start)
{
	ADD(nvtx, .start = start, .end = side->cpu, .thread = side->id, .text = name,
	    .type = WS_NVTX_PUSHPOP);
	side->cpu += 60;
}

static void put_copy(struct side *side, int kind)
{
	uint64_t bytes = 1000000 + next_random() % 4096, ns = bytes / 25, start;
	uint32_t correlation = put_call(side, 1, 2500 + next_random() % 1000);

	start = put_runtime_call(side, ns);
	ADD(cuda_memcpy, .start = start, .end = start + ns, .context = 1,
	    .green_context = WS_NO_U32, .stream = 7, .correlation = correlation,
	    .process = side->id, .bytes = bytes, .kind = (uint8_t)kind, .src_kind = 1,
	    .dst_kind = 2, .src_device = WS_NO_U32, .src_context = WS_NO_U32,
	    .dst_device = WS_NO_U32, .dst_context = WS_NO_U32, .migration_cause = WS_NO_U32,
	    .graph_node = WS_NO_U64, .address = WS_NO_U64, .copies = 1, .graph = WS_NO_U32);
}

static void put_step(struct side *side)
{
	uint64_t started = side->cpu, start;
	uint32_t correlation;

	for (unsigned l = 0; l < LAYERS; l++) {
		uint64_t layer = side->cpu;

		for (unsigned o = 0; o < OPS; o++) {
			uint64_t op = side->cpu;

			for (unsigned k = 0; k < KERNELS; k++)
				put_kernel(side, (l * 5 + o * KERNELS + k) % NAMES);
			put_range(side,
				  unique ? put_text("aten::operation, op_id = %llu", rows)
					 : op_texts[o],
				  op);
		}
		put_range(side, layer_texts[l], layer);
	}
	put_copy(side, WS_COPY_HTOD);
	put_copy(side, WS_COPY_DTOH);
	correlation = put_call(side, 2, 2000);
	start = put_runtime_call(side, 1300);
	ADD(cuda_memset, .start = start, .end = start + 1300, .context = 1,
	    .green_context = WS_NO_U32, .stream = 7, .correlation = correlation,
	    .process = side->id, .bytes = 4096, .graph_node = WS_NO_U64, .mem_kind = 2,
	    .graph = WS_NO_U32);
	put_call(side, 3, side->gpu > side->cpu ? side->gpu - side->cpu : 1000);
	put_range(side, step_text, started);
}

int main(int argc, char **argv)
{
	uint64_t want = argc > 3 ? strtoull(argv[3], NULL, 10) : 10000000;
	struct ws_writer_opts options = {.overwrite = true};
	const char *kind = argc > 2 ? argv[2] : "same";
	struct ws_err err;

	unique = !strcmp(kind, "unique");
	apart = strcmp(kind, "sparse") ? 1 : 37;
	processes = strcmp(kind, "wide") ? 2 : PROCESSES;
	if (argc < 2 || (!unique && apart == 1 && processes == 2 && strcmp(kind, "same"))) {
		fprintf(stderr, "usage: cuda_bench FILE [same|unique|sparse|wide] [EVENTS]\n");
		return 2;
	}
	w = ws_writer_create(argv[1], &options, &err);
	if (!w) {
		ws_say("%s", err.msg);
		return 1;
	}
	begin_report();
	while (rows < want) {
		for (uint32_t i = 0; i < processes; i++)
			put_step(&sides[i]);
		ws_writer_commit(w);
	}
	if (ws_writer_close(w, &err) < 0) {
		ws_say("%s", err.msg);
		return 1;
	}
	return 0;
}
