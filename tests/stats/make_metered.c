/*
 * make_metered.c - write a report with metrics of GPUs: make_metered KIND FILE.
 *
 * small   one GPU with a few kernels, ranges and steps, sampled every 100 us for 10 ms, with a gap
 * two     two GPUs, one of which does nearly nothing
 * waves   2 s of steps, with a peak of one sample and a gap
 * large   22 metrics at 10 kHz for 10 s and a million kernels: for measuring
 */
#include <stdlib.h>

#include "../metrics/gpu_samples.h"
#include "base/choose.h"

#define ZERO UINT64_C(1000000000000)
#define PERIOD UINT64_C(100000)

static struct ws_writer *writer;

static uint32_t put_string(const char *text)
{
	return samples_string(writer, text);
}

#define ADD(table, ...) \
	ws_writer_add(writer, WS_TABLE_##table, &(struct ws_row_##table){__VA_ARGS__})

static void put_session(uint64_t length)
{
	ADD(collection, .start = ZERO, .end = ZERO + length);
	ADD(clock, .raw = ZERO, .realtime = UINT64_C(1700000000000000000), .ticks = 1);
	ADD(process, .id = 1, .pid = 600, .start = ZERO, .name = put_string("train"));
	ADD(thread, .id = 1, .process = 1, .tid = 600, .start = ZERO);
}

static void put_device(uint32_t id, const char *uuid)
{
	ADD(cuda_device, .process = 1, .start = ZERO, .id = id, .name = put_string("Some GPU"),
	    .uuid = put_string(uuid), .chip = put_string("GX100"), .visible = 1,
	    .memory_bytes = 80000000000, .memory_bandwidth = UINT64_C(3350000000000), .sms = 132,
	    .warp = 32, .major = 9);
}

/* A kernel, launched by a call 400 us before. Times are in us. */
static void put_kernel(uint32_t device, const char *name, uint64_t start, uint64_t length)
{
	static uint32_t correlation;

	correlation++;
	ADD(cuda_api, .start = ZERO + start * 1000 - 400000, .end = ZERO + start * 1000 - 395000,
	    .thread = 1, .correlation = correlation, .name = put_string("cudaLaunchKernel_v7000"),
	    .callchain = WS_NO_U32);
	ADD(cuda_kernel, .start = ZERO + start * 1000, .end = ZERO + (start + length) * 1000,
	    .device = device, .context = 1, .green_context = WS_NO_U32, .stream = 7,
	    .correlation = correlation, .process = 1, .demangled = put_string(name),
	    .name = put_string(name), .grid_x = 1000, .grid_y = 1, .grid_z = 1, .block_x = 128,
	    .block_y = 1, .block_z = 1, .graph_node = WS_NO_U64, .graph = WS_NO_U32,
	    .cluster_policy = WS_NO_U32, .max_cluster = WS_NO_U32, .active_clusters = WS_NO_U32,
	    .shared_percent = WS_NO_U32);
}

/* A call of cuBLAS around a launch, with 2 billion operations. Times are in us. */
static void put_library_call(uint64_t start, uint64_t end)
{
	ADD(slice, .start = ZERO + start * 1000, .end = ZERO + end * 1000, .thread = 1,
	    .name = put_string("cublasGemmEx"), .category = put_string("CUBLAS_EVENTS"),
	    .args = put_string("{\"m\":1000,\"n\":1000,\"k\":1000,\"flops\":2000000000}"));
}

static void put_range(const char *text, uint64_t start, uint64_t end)
{
	ADD(nvtx, .start = ZERO + start * 1000, .end = ZERO + end * 1000, .thread = 1,
	    .text = put_string(text), .type = WS_NVTX_PUSHPOP);
}

static void put_power(uint32_t id, const char *uuid, double watts, uint64_t ns)
{
	ADD(counter, .id = id, .device = WS_NO_U32, .cpu = WS_NO_U32, .group = put_string("GPU"),
	    .name = put_string("Mean power by energy, GPU 0"), .unit = put_string("W"),
	    .identity = put_string(uuid));
	ADD(counter_value, .start = ZERO, .counter = id, .value = watts, .span = ns);
}

/* SM Active is the number of the sample; a gap in Tensor Active; DRAM is busy from 7 ms on. */
static void put_small_samples(void)
{
	struct gpu_samples samples = begin_gpu_samples(writer, 1, 3, "GPU-a", PERIOD);

	for (uint64_t i = 0; i < 100; i++)
		put_gpu_sample(&samples, "SM Active", ZERO + i * PERIOD, 1, (double)i);
	put_gpu_sample(&samples, "Tensor Active", ZERO, 50, 64);
	put_gpu_sample(&samples, "Tensor Active", ZERO + 50 * PERIOD, 0, NAN);
	put_gpu_sample(&samples, "Tensor Active", ZERO + 60 * PERIOD, 40, 20);
	put_gpu_sample(&samples, "DRAM Read Bandwidth", ZERO, 70, 10);
	put_gpu_sample(&samples, "DRAM Read Bandwidth", ZERO + 70 * PERIOD, 30, 80);
	put_gpu_sample(&samples, "NVLink RX Requests User Data", ZERO, 100, 3);
	put_gpu_sample(&samples, "NVLink RX Responses User Data", ZERO, 100, 4);
	put_power(100, "GPU-a", 500, 100 * PERIOD);
}

/* A card that receives 1 MB/s for 2 ms, then 3 MB/s, and one that is idle. */
static void put_network(void)
{
	static const char *const cards[] = {"eth0", "mlx5_0"};
	char name[64];

	for (uint32_t i = 0; i < 4; i++) {
		snprintf(name, sizeof(name), "%s, %s", i % 2 ? "Sent" : "Received", cards[i / 2]);
		ADD(counter, .id = 200 + i, .device = WS_NO_U32, .cpu = WS_NO_U32,
		    .group = put_string("Network"), .name = put_string(name),
		    .unit = put_string("B/s"), .identity = put_string(cards[i / 2]));
	}
	ADD(counter_value, .start = ZERO, .counter = 200, .value = 1e6, .span = 2000000);
	ADD(counter_value, .start = ZERO + 2000000, .counter = 200, .value = 3e6, .span = 1000000);
	ADD(counter_value, .start = ZERO, .counter = 203, .value = 5e6, .span = 1000000);
}

/* The peak is at 4 ms: 3 GB, of which 2 GB in two pieces in the range "forward" of step 0. */
static void put_memory(uint64_t at, uint64_t address, uint64_t megabytes, bool freed,
		       uint32_t correlation)
{
	ADD(cuda_memory, .start = ZERO + at * 1000, .process = 1, .context = 1, .address = address,
	    .bytes = megabytes * 1000000, .kind = 2, .operation = freed, .correlation = correlation,
	    .pool = WS_NO_U64, .pool_threshold = WS_NO_U64, .pool_size = WS_NO_U64,
	    .pool_used = WS_NO_U64, .imported_pool = WS_NO_U64, .imported_process = WS_NO_U64,
	    .stream = WS_NO_U32);
}

static void put_allocation_call(uint64_t at, uint32_t correlation)
{
	ADD(cuda_api, .start = ZERO + at * 1000, .end = ZERO + at * 1000 + 500, .thread = 1,
	    .correlation = correlation, .name = put_string("cudaMalloc_v3020"),
	    .callchain = WS_NO_U32);
}

static void put_allocations(void)
{
	put_allocation_call(560, 900);
	put_allocation_call(570, 901);
	put_allocation_call(3500, 902);
	put_memory(560, 0x1000, 1500, false, 900);
	put_memory(570, 0x2000, 500, false, 901);
	put_memory(580, 0x3000, 200, false, WS_NO_U32);
	put_memory(600, 0x3000, 200, true, WS_NO_U32);
	put_memory(4000, 0x4000, 1000, false, 902);
	put_memory(5000, 0x1000, 1500, true, WS_NO_U32);
	put_memory(6000, 0x5000, 700, false, WS_NO_U32);
	ADD(counter, .id = 300, .device = WS_NO_U32, .cpu = WS_NO_U32, .group = put_string("GPU"),
	    .name = put_string("Memory used, GPU 0"), .unit = put_string("B"),
	    .identity = put_string("GPU-a"));
	ADD(counter_value, .start = ZERO, .counter = 300, .value = 3.4e9);
}

static void make_small(void)
{
	put_session(100 * PERIOD);
	put_device(0, "GPU-a");
	put_small_samples();
	put_network();
	put_allocations();
	put_range("step 0", 500, 3000);
	put_range("forward", 550, 700);
	put_range("step 1", 5000, 7500);
	put_range("forward", 5050, 5200);
	put_library_call(595, 610);
	put_kernel(0, "matmul", 1000, 1000);
	put_library_call(5095, 5110);
	put_kernel(0, "matmul", 5500, 1000);
	for (uint64_t i = 0; i < 3; i++)
		put_kernel(0, "tiny", 3000 + i * 20, 10);
	put_kernel(0, "copy", 7050, 300);
}

static void make_two(void)
{
	struct gpu_samples samples;

	put_session(1000 * PERIOD);
	put_device(0, "GPU-a");
	put_device(1, "GPU-b");
	for (uint32_t gpu = 0; gpu < 2; gpu++) {
		samples = begin_gpu_samples(writer, 1 + gpu * 50, gpu, gpu ? "GPU-b" : "GPU-a",
					    PERIOD);
		put_gpu_sample(&samples, "SM Active", ZERO, 1000, gpu ? 8 : 90);
		put_kernel(gpu, "work", 1000, gpu ? 9000 : 90000);
	}
}

static void make_large(void)
{
	enum { SAMPLES = 100000, KERNELS = 1000000 };
	struct gpu_samples samples;
	char name[32];

	put_session(SAMPLES * PERIOD);
	put_device(0, "GPU-a");
	samples = begin_gpu_samples(writer, 1, 0, "GPU-a", PERIOD);
	for (uint64_t i = 0; i < SAMPLES; i++)
		for (uint32_t row = 0; row < samples.count; row++)
			ADD(counter_value, .start = ZERO + i * PERIOD, .counter = 1 + row,
			    .value = (double)((i * 7919 + row * 31) % 12800) / 128, .span = PERIOD);
	for (uint64_t i = 0; i < KERNELS; i++) {
		snprintf(name, sizeof(name), "kernel_%d", (int)(i % 100));
		put_kernel(0, name, 500 + i * 9, 7);
	}
}

/* What looks like training for 2 s: steps of 40 ms with a part that uses tensor cores, one that
 * copies, and idle time; a peak of a single sample, and a gap. */
static void make_waves(void)
{
	enum { SAMPLES = 20000 };
	static const char *const rows[] = {"SM Active",
					   "SM Issue",
					   "Tensor Active",
					   "DRAM Read Bandwidth",
					   "DRAM Write Bandwidth",
					   "Compute Warps in Flight",
					   "Unallocated Warps in Active SMs",
					   "PCIe RX Throughput"};
	static const double phases[4][WS_COUNT(rows)] = {{95, 30, 80, 20, 10, 40, 30, 1},
							 {90, 20, 60, 35, 25, 50, 25, 2},
							 {70, 10, 0, 45, 40, 30, 50, 4},
							 {0, 0, 0, 0, 0, 0, 0, 30}};
	struct gpu_samples samples;

	put_session(SAMPLES * PERIOD);
	put_device(0, "GPU-a");
	samples = begin_gpu_samples(writer, 1, 0, "GPU-a", PERIOD);
	for (uint64_t i = 0; i < SAMPLES; i++) {
		for (size_t row = 0; row < WS_COUNT(rows) && (i < 12000 || i >= 12800); row++) {
			double value = phases[i % 400 / 100][row];

			value += value * 0.1 * (double)(i * 7919 % 100) / 100;
			put_gpu_sample(&samples, rows[row], ZERO + i * PERIOD, 1,
				       ws_min(value, 100.0));
		}
		if (i == 12000)
			for (size_t row = 0; row < WS_COUNT(rows); row++)
				put_gpu_sample(&samples, rows[row], ZERO + i * PERIOD, 0, NAN);
	}
	put_gpu_sample(&samples, "NVLink RX Requests User Data", ZERO, 5001, 0);
	put_gpu_sample(&samples, "NVLink RX Requests User Data", ZERO + 5001 * PERIOD, 1, 90);
	put_gpu_sample(&samples, "NVLink RX Requests User Data", ZERO + 5002 * PERIOD, 14998, 0);
	for (uint64_t i = 0; i < 50; i++) {
		put_range("step", 500 + i * 40000, 500 + i * 40000 + 39000);
		put_kernel(0, "matmul", 1000 + i * 40000, 19000);
		put_kernel(0, "copy", 20500 + i * 40000, 9000);
	}
	put_network();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*make)(void);
	} kinds[] = {{"small", make_small},
		     {"two", make_two},
		     {"large", make_large},
		     {"waves", make_waves}};
	struct ws_writer_opts opts = {.overwrite = true};
	struct ws_err err;

	for (size_t i = 0; argc == 3 && i < WS_COUNT(kinds); i++) {
		if (strcmp(kinds[i].name, argv[1]))
			continue;
		writer = ws_writer_create(argv[2], &opts, &err);
		if (!writer)
			break;
		kinds[i].make();
		return ws_writer_close(writer, &err) < 0;
	}
	fprintf(stderr, "make_metered KIND FILE\n");
	return 1;
}
