/* standin_cuda.c - the driver's stand-in; see standin.h. */
#include "standin.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ring/cupti_abi.h"

struct standin_hooks standin_hooks;
static _Atomic uint32_t correlations;
static int ready;

int standin_fault(const char *name)
{
	const char *faults = getenv("STANDIN_FAULT");

	return faults && strstr(faults, name) != NULL;
}

int cuDriverGetVersion(int *version)
{
	*version = 13000;
	return 0;
}

static const struct cupti_context context = {
	.kind = CUPTI_KIND_CONTEXT, .context = 1, .device = 0, .api = 1, .null_stream = 7};

static struct cupti_stream last_stream; /* that was made; its kind is 0 before */
static int has_unknown_graph;		/* made while nobody was subscribed */

static void describe_device(void)
{
	struct cupti_device device = {.kind = CUPTI_KIND_DEVICE,
				      .bandwidth = 4800000000,
				      .memory = UINT64_C(150000000000),
				      .constant = 65536,
				      .l2 = 52428800,
				      .warp = 32,
				      .clock = 1980000,
				      .engines = 3,
				      .sms = 132,
				      .max_ipc = 4,
				      .warps_sm = 64,
				      .blocks_sm = 32,
				      .shared_sm = 233472,
				      .regs_sm = 65536,
				      .regs_block = 65536,
				      .shared_block = 49152,
				      .threads_block = 1024,
				      .block_x = 1024,
				      .block_y = 1024,
				      .block_z = 64,
				      .grid_x = 2147483647,
				      .grid_y = 65535,
				      .grid_z = 65535,
				      .major = 9,
				      .minor = 0,
				      .name = "Stand-in H200",
				      .visible = 1};

	for (int i = 0; i < 16; i++)
		device.uuid[i] = (uint8_t)(i * 17);
	standin_hooks.record(&device, sizeof(device));
	standin_hooks.record(&context, sizeof(context));
}

int cuInit(unsigned flags)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	void *lib = path && strchr(path, '/') ? dlopen(path, RTLD_NOW) : NULL;
	int (*start)(void) = lib ? (int (*)(void))dlsym(lib, "InitializeInjection") : NULL;

	(void)flags;
	if (ready++)
		return 0;
	if (start && start() != 1)
		return 3;
	if (standin_hooks.record)
		describe_device();
	return 0;
}

/* A call around `work`, as CUPTI sees it. */
static __thread uint32_t inside; /* of this call: what it does inside has its correlation */

static int make_call(int domain, uint32_t cbid, const char *name, int result,
		     void (*work)(uint32_t correlation, void *arg), void *arg)
{
	uint32_t outer = inside,
		 correlation = outer ? outer : atomic_fetch_add(&correlations, 1) + 1;
	uint64_t start;

	if (!standin_hooks.now)
		return result;
	inside = correlation;
	start = standin_hooks.now();
	standin_hooks.enter(domain, cbid, name, correlation);
	if (work)
		work(correlation, arg);
	standin_hooks.call(domain, cbid, name, start, standin_hooks.now(), correlation, result);
	inside = outer;
	return result;
}

struct job {
	const char *name;
	int stream, kind, graph;
	uint64_t bytes, address;
};

static uint64_t delay = 2000;

void standin_delay(uint64_t ns)
{
	delay = ns;
}

static uint64_t spend_time(uint64_t *start)
{
	*start = standin_hooks.now() + delay;
	return *start + 1500;
}

static void run_kernel(uint32_t correlation, void *arg)
{
	const struct job *job = arg;
	struct cupti_kernel k = {.kind = CUPTI_KIND_CONCURRENT_KERNEL,
				 .cache_config = 0x10,
				 .registers = 32,
				 .device = 0,
				 .context = 1,
				 .stream = (uint32_t)job->stream,
				 .grid_x = 264,
				 .grid_y = 2,
				 .grid_z = 1,
				 .block_x = 256,
				 .block_y = 1,
				 .block_z = 1,
				 .static_shared = 1024,
				 .dynamic_shared = 0,
				 .correlation = correlation,
				 .grid_id = correlation,
				 .name = job->name,
				 .shared_executed = 32768,
				 .graph_node = job->graph ? 77 : 0,
				 .graph = (uint32_t)job->graph,
				 .local_total2 = 4096};

	k.end = spend_time(&k.start);
	standin_hooks.record(&k, sizeof(k));
}

static void run_copy(uint32_t correlation, void *arg)
{
	const struct job *job = arg;
	struct cupti_memcpy memcpy = {.kind = CUPTI_KIND_MEMCPY,
				      .copy_kind = (uint8_t)job->kind,
				      .src_kind = job->kind == 1 ? 1 : 3,
				      .dst_kind = job->kind == 1 ? 3 : 2,
				      .flags = 1,
				      .bytes = job->bytes,
				      .context = 1,
				      .stream = (uint32_t)job->stream,
				      .correlation = correlation,
				      .copies = 1};

	memcpy.end = spend_time(&memcpy.start);
	standin_hooks.record(&memcpy, sizeof(memcpy));
}

static void set_memory(uint32_t correlation, void *arg)
{
	const struct job *job = arg;
	struct cupti_memset memset = {.kind = CUPTI_KIND_MEMSET,
				      .bytes = job->bytes,
				      .context = 1,
				      .stream = (uint32_t)job->stream,
				      .correlation = correlation,
				      .memory_kind = 3};

	memset.end = spend_time(&memset.start);
	standin_hooks.record(&memset, sizeof(memset));
}

static void wait_for(uint32_t correlation, void *arg)
{
	struct timespec time = {0, 20000};

	(void)correlation;
	(void)arg;
	nanosleep(&time, NULL);
}

static void event_recorded(uint32_t correlation, void *arg)
{
	const struct job *job = arg;
	struct cupti_event event = {.kind = CUPTI_KIND_CUDA_EVENT,
				    .correlation = correlation,
				    .context = 1,
				    .stream = (uint32_t)job->stream,
				    .event = (uint32_t)job->address + 1000,
				    .event_sync = job->address + 2000};

	standin_hooks.record(&event, sizeof(event));
}

static void allocate_memory(uint32_t correlation, void *arg)
{
	const struct job *job = arg;
	struct cupti_memory memory = {.kind = CUPTI_KIND_MEMORY2,
				      .operation = job->kind ? 2 : 1,
				      .memory_kind = 3,
				      .correlation = correlation,
				      .address = job->address,
				      .bytes = job->bytes,
				      .time = standin_hooks.now(),
				      .context = 1};

	standin_hooks.record(&memory, sizeof(memory));
}

static void launch_graph(uint32_t correlation, void *arg)
{
	struct cupti_graph g = {.graph = (void *)0x1000, .node = (void *)0x2000};
	struct cupti_resource resource = {.descriptor = &g};

	(void)correlation;
	(void)arg;
	standin_hooks.resource(CUPTI_RESOURCE_GRAPH_CREATED, NULL, &resource);
	standin_hooks.resource(CUPTI_RESOURCE_GRAPHNODE_CREATED, NULL, &resource);
	g.node = (void *)0x2001;
	g.node_type = 1;
	standin_hooks.resource(CUPTI_RESOURCE_GRAPHNODE_CREATED, NULL, &resource);
	g.exec = (void *)0x3000;
	standin_hooks.resource(CUPTI_RESOURCE_GRAPHEXEC_CREATED, NULL, &resource);
}

static void stream_made(uint32_t correlation, void *arg)
{
	const struct job *job = arg;
	struct cupti_stream stream = {.kind = CUPTI_KIND_STREAM,
				      .context = 1,
				      .stream = (uint32_t)job->stream,
				      .priority = (uint32_t)job->kind,
				      .flag = 2,
				      .correlation = correlation};

	standin_hooks.record(&stream, sizeof(stream));
	struct cupti_resource resource = {(void *)1, (void *)(uintptr_t)job->stream, NULL};

	standin_hooks.resource(CUPTI_RESOURCE_STREAM_CREATED, NULL, &resource);
}

#define RUNTIME 2
#define DRIVER 1

/* The runtime does it through the driver. */
static void kernel_inside(uint32_t correlation, void *arg)
{
	(void)correlation;
	make_call(DRIVER, DR_LAUNCH, "cuLaunchKernel", 0, run_kernel, arg);
}

void standin_correlation(uint32_t next)
{
	atomic_store(&correlations, next - 1);
}

int standin_launch_untraced(const char *name, int stream)
{
	return make_call(RUNTIME, RT_FUNC_ATTRIBUTES, "cudaFuncGetAttributes", 0, kernel_inside,
			 &(struct job){.name = name, .stream = stream});
}

static void launch_nodes(uint32_t correlation, void *arg)
{
	struct job *job = arg;

	for (int i = 0; i < job->kind; i++)
		run_kernel(correlation, job);
}

int standin_graph_launch(const char *name, int n)
{
	if (has_unknown_graph && standin_hooks.whole_graphs && standin_hooks.whole_graphs())
		abort(); /* as CUPTI 13.0 */
	return make_call(RUNTIME, RT_GRAPH_LAUNCH, "cudaGraphLaunch", 0, launch_nodes,
			 &(struct job){.name = name, .stream = 7, .kind = n, .graph = 5});
}

static void host_inside(uint32_t correlation, void *arg)
{
	/* With a function of the runtime's own, as it does for callbacks. */
	const uintptr_t params[] = {*(uintptr_t *)arg, (uintptr_t)host_inside, 0};

	(void)correlation;
	standin_hooks.params(params);
	make_call(DRIVER, DR_HOST, "cuLaunchHostFunc", 0, NULL, NULL);
}

int standin_host(void (*fn)(void *), int stream)
{
	uintptr_t params[] = {(uintptr_t)stream, (uintptr_t)fn, 0};

	if (standin_hooks.params)
		standin_hooks.params(params);
	return make_call(RUNTIME, RT_HOST, "cudaLaunchHostFunc", 0, host_inside, params);
}

int standin_host_node(void (*fn)(void *))
{
	void *node = (void *)0x2002;
	uintptr_t function[] = {(uintptr_t)fn, 0},
		  params[] = {(uintptr_t)&node, 0x1000, 0, 0, (uintptr_t)function};

	if (standin_hooks.params)
		standin_hooks.params(params);
	return make_call(DRIVER, DR_HOST_NODE, "cuGraphAddHostNode", 0, NULL, NULL);
}

void standin_run(void (*fn)(void *))
{
	if (standin_hooks.run)
		standin_hooks.run(fn);
}

int standin_unified(uint64_t pc)
{
	struct cupti_um fault = {.kind = CUPTI_KIND_UNIFIED_MEMORY_COUNTER,
				 .counter = 3,
				 .value = pc,
				 .address = 0x7000000000},
			group = {.kind = CUPTI_KIND_UNIFIED_MEMORY_COUNTER,
				 .counter = 4,
				 .value = 9,
				 .address = 0x7000010000,
				 .flags = 2},
			copy_in = {.kind = CUPTI_KIND_UNIFIED_MEMORY_COUNTER,
				   .counter = 1,
				   .value = 65536,
				   .address = 0x7000010000,
				   .flags = 2};

	if (!standin_hooks.record)
		return 1;
	fault.start = standin_hooks.now();
	group.end = spend_time(&group.start);
	copy_in.end = spend_time(&copy_in.start);
	standin_hooks.record(&fault, sizeof(fault));
	standin_hooks.record(&group, sizeof(group));
	standin_hooks.record(&copy_in, sizeof(copy_in));
	return 0;
}

int standin_launch(const char *name, int stream, int graph_id)
{
	if (standin_hooks.symbol)
		standin_hooks.symbol(name);
	return make_call(RUNTIME, RT_LAUNCH, "cudaLaunchKernel", 0, kernel_inside,
			 &(struct job){.name = name, .stream = stream, .graph = graph_id});
}
int standin_launch_driver(const char *name, int stream)
{
	return make_call(DRIVER, DR_LAUNCH, "cuLaunchKernel", 0, run_kernel,
			 &(struct job){.name = name, .stream = stream});
}
int standin_copy(int kind, uint64_t bytes, int stream)
{
	return make_call(RUNTIME, RT_MEMCPY_ASYNC, "cudaMemcpyAsync", 0, run_copy,
			 &(struct job){.kind = kind, .bytes = bytes, .stream = stream});
}
int standin_set(uint64_t bytes, int stream)
{
	return make_call(RUNTIME, RT_MEMSET_ASYNC, "cudaMemsetAsync", 0, set_memory,
			 &(struct job){.bytes = bytes, .stream = stream});
}
int standin_query(int stream)
{
	(void)stream;
	return make_call(RUNTIME, RT_QUERY, "cudaStreamQuery", 0, NULL, NULL);
}
int standin_wait(int stream)
{
	const uintptr_t params[] = {(uintptr_t)stream};

	if (standin_hooks.params)
		standin_hooks.params(params);
	return make_call(RUNTIME, RT_SYNC, "cudaStreamSynchronize", 0, wait_for, NULL);
}
int standin_event(uint64_t event, int stream)
{
	const uintptr_t params[] = {event, (uintptr_t)stream};

	if (standin_hooks.params)
		standin_hooks.params(params);
	return make_call(RUNTIME, RT_EVENT, "cudaEventRecord", 0, event_recorded,
			 &(struct job){.address = event, .stream = stream});
}
int standin_wait_event(uint64_t event, int stream)
{
	const uintptr_t params[] = {(uintptr_t)stream, event, 0};

	if (standin_hooks.params)
		standin_hooks.params(params);
	return make_call(RUNTIME, RT_WAIT_EVENT, "cudaStreamWaitEvent", 0, NULL, NULL);
}
int standin_allocate(uint64_t address, uint64_t bytes, int freed)
{
	return make_call(RUNTIME, freed ? RT_FREE : RT_MALLOC, freed ? "cudaFree" : "cudaMalloc", 0,
			 allocate_memory,
			 &(struct job){.address = address, .bytes = bytes, .kind = freed});
}
int standin_fail(void)
{
	return make_call(RUNTIME, RT_MALLOC, "cudaMalloc", 2, NULL, NULL);
}
int standin_profiler(int on)
{
	return make_call(RUNTIME, on ? RT_PROFILER_START : RT_PROFILER_STOP,
			 on ? "cudaProfilerStart" : "cudaProfilerStop", 0, NULL, NULL);
}
static int start_driver_profiler(void)
{
	return make_call(DRIVER, DR_PROFILER_START, "cuProfilerStart", 0, NULL, NULL);
}
static int stop_driver_profiler(void)
{
	return make_call(DRIVER, DR_PROFILER_STOP, "cuProfilerStop", 0, NULL, NULL);
}
int cuGetProcAddress_v2(const char *name, void **entry, int version, uint64_t flags, int *status)
{
	(void)version;
	(void)flags;
	(void)status;
	*entry = !strcmp(name, "cuProfilerStart")  ? (void *)start_driver_profiler
		 : !strcmp(name, "cuProfilerStop") ? (void *)stop_driver_profiler
						   : NULL;
	return *entry ? 0 : 500;
}
int cudaProfilerStart(void)
{
	return standin_profiler(1);
}
int cudaProfilerStop(void)
{
	return standin_profiler(0);
}
int standin_reset(void)
{
	return make_call(RUNTIME, RT_RESET, "cudaDeviceReset", 0, NULL, NULL);
}
int standin_graph(void)
{
	if (!standin_hooks.subscribed || !standin_hooks.subscribed())
		has_unknown_graph = 1;
	return make_call(RUNTIME, RT_INSTANTIATE, "cudaGraphInstantiate", 0, launch_graph, NULL);
}
void standin_dump(uint32_t kind)
{
	if (kind == CUPTI_KIND_STREAM && last_stream.kind)
		standin_hooks.record(&last_stream, sizeof(last_stream));
	if (kind == CUPTI_KIND_CONTEXT && ready)
		describe_device(); /* the device's kind was enabled before */
}
int standin_stream(int stream, int priority)
{
	last_stream = (struct cupti_stream){.kind = CUPTI_KIND_STREAM,
					    .context = 1,
					    .stream = (uint32_t)stream,
					    .priority = (uint32_t)priority,
					    .flag = 2};
	return make_call(RUNTIME, RT_STREAM, "cudaStreamCreateWithPriority", 0, stream_made,
			 &(struct job){.stream = stream, .kind = priority});
}
int standin_replay(const char *file)
{
	return standin_hooks.replay ? standin_hooks.replay(file) : 1;
}

/* What the hook asks the driver about devices. */
STANDIN_EXPORT int cuDeviceGetCount(int *n);
STANDIN_EXPORT int cuDeviceGet(int *d, int i);
STANDIN_EXPORT int cuDeviceGetPCIBusId(char *text, int n, int d);
STANDIN_EXPORT int cuDeviceGetAttribute(int *v, int which, int d);
int cuDeviceGetCount(int *n)
{
	*n = 1;
	return 0;
}
int cuDeviceGet(int *d, int i)
{
	*d = i;
	return 0;
}
int cuDeviceGetPCIBusId(char *text, int n, int d)
{
	(void)d;
	strncpy(text, "0000:0A:00.0", (size_t)n - 1);
	return 0;
}
int cuDeviceGetAttribute(int *v, int which, int d)
{
	(void)d;
	*v = which == 97 ? 232448 : which == 111 ? 1024 : 0;
	return 0;
}

void standin_count(int *records, int *callbacks)
{
	*records = *callbacks = 0;
	if (standin_hooks.count)
		standin_hooks.count(records, callbacks);
}
