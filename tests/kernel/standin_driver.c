/* standin_driver.c - see standin.h: the driver. */
#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "standin.h"

void (*standin_callback)(int site, const struct standin_call *call);
void (*standin_launched)(int program);
void (*standin_module)(const char *cubin, size_t bytes);
unsigned standin_runs, standin_passes, standin_used, standin_told;

enum { SLOW_US = 25000 };

static void *captured = (void *)-1;
static void *global;
static size_t global_bytes;
static struct standin_kernel flush = {"ws_flush_read", NULL, NULL},
			     compare = {"ws_compare", NULL, NULL},
			     compare_pieces = {"ws_compare_pieces", NULL, NULL},
			     read_pieces = {"ws_read_pieces", NULL, NULL};

int standin_fault(const char *name)
{
	const char *fault = getenv("STANDIN_FAULT");

	return fault && !strcmp(fault, name);
}

int cuInit(unsigned flags)
{
	const char *path = getenv("CUDA_INJECTION64_PATH");
	void *lib = path && *path ? dlopen(path, RTLD_NOW) : NULL;
	int (*begin)(void) = lib ? (int (*)(void))dlsym(lib, "InitializeInjection") : NULL;

	if (path && *path && !begin)
		fprintf(stderr, "standin: %s\n", dlerror());
	(void)flags;
	return begin && begin() != 1;
}

STANDIN_EXPORT int cuDriverGetVersion(int *version)
{
	*version = 13000;
	return 0;
}

static const char *waiting_cubin;
static size_t waiting_bytes;

/* As CUDA does, code is loaded when it is launched for the first time, or asked for. */
static void load_waiting(void)
{
	const char *cubin = waiting_cubin;

	waiting_cubin = NULL;
	if (cubin && standin_module)
		standin_module(cubin, waiting_bytes);
}

static void tell(int site, uint32_t cbid, const char *name, const void *params)
{
	struct standin_call call = {cbid, name, params, NULL};

	if (standin_callback)
		standin_callback(site, &call);
}

/* ---- memory: with a margin, as the driver's allocations are aligned ---- */

static struct {
	uint64_t base;
	size_t bytes;
} allocated[256];

/* Whether the driver would take part in this: not a byte beyond what was allocated. */
static int is_allocated(uint64_t at, size_t bytes)
{
	if (global && at >= (uint64_t)(uintptr_t)global &&
	    at + bytes <= (uint64_t)(uintptr_t)global + global_bytes)
		return 1;
	for (size_t i = 0; i < 256; i++)
		if (allocated[i].base && at >= allocated[i].base &&
		    at + bytes <= allocated[i].base + allocated[i].bytes)
			return 1;
	return 0;
}

static void note_memory(uint64_t from, uint64_t base, size_t bytes)
{
	for (size_t i = 0; i < 256; i++)
		if (allocated[i].base == from) {
			allocated[i].base = base;
			allocated[i].bytes = bytes;
			return;
		}
}

int cuMemAlloc_v2(uint64_t *out, size_t bytes)
{
	struct {
		uint64_t *out;
		size_t bytes;
	} params = {out, bytes};
	void *memory = NULL;
	static unsigned allocations;

	tell(0, CBID_ALLOCATE, "cuMemAlloc_v2", &params);
	if (posix_memalign(&memory, 512, (bytes + 511) / 512 * 512))
		return 2;
	memset(memory, (int)++allocations, bytes);
	*out = (uint64_t)(uintptr_t)memory;
	note_memory(0, *out, bytes);
	tell(1, CBID_ALLOCATE, "cuMemAlloc_v2", &params);
	return 0;
}

int standin_allocate_nothing(void)
{
	uint64_t address = 0x10000000;
	struct {
		uint64_t *out;
		size_t bytes;
	} params = {&address, 1 << 20};

	tell(1, CBID_ALLOCATE, "cuMemAlloc_v2", &params);
	return 0;
}

int cuMemFree_v2(uint64_t address)
{
	tell(0, CBID_FREE, "cuMemFree_v2", &address);
	note_memory(address, 0, 0);
	free((void *)(uintptr_t)address);
	tell(1, CBID_FREE, "cuMemFree_v2", &address);
	return 0;
}

int cuMemAllocHost_v2(void **out, size_t bytes)
{
	struct {
		void **out;
		size_t bytes;
	} params = {out, bytes};

	*out = calloc(1, bytes);
	tell(1, CBID_ALLOCATE_HOST, "cuMemAllocHost_v2", &params);
	return *out ? 0 : 2;
}

STANDIN_EXPORT int cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	*total = (size_t)1 << 33;
	*free_bytes = standin_fault("nomemory") ? 0 : (size_t)1 << 32;
	return 0;
}

STANDIN_EXPORT int cuMemGetAddressRange_v2(uint64_t *base, size_t *bytes, uint64_t address)
{
	(void)base;
	(void)bytes;
	(void)address;
	return 1;
}

/* Around a call with parameters of 64 bits each. */
static int end_call(uint32_t cbid, const char *name, const void *params, int result)
{
	tell(1, cbid, name, params);
	return result;
}

static int copy(uint32_t cbid, const char *name, uint64_t to, uint64_t from, size_t bytes,
		void *stream)
{
	uint64_t params[] = {to, from, bytes, (uint64_t)(uintptr_t)stream};
	int on_device = cbid == CBID_COPY;

	tell(0, cbid, name, params);
	if (((on_device || cbid == CBID_SEND) && !is_allocated(to, bytes)) ||
	    ((on_device || cbid == CBID_FETCH) && !is_allocated(from, bytes)))
		return end_call(cbid, name, params, 1);
	memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, bytes);
	return end_call(cbid, name, params, 0);
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream)
{
	standin_note_step("copy");
	return copy(CBID_COPY, "cuMemcpyDtoDAsync_v2", to, from, bytes, stream);
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream)
{
	return copy(CBID_FETCH, "cuMemcpyDtoHAsync_v2", (uint64_t)(uintptr_t)to, from, bytes,
		    stream);
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *stream)
{
	return copy(CBID_SEND, "cuMemcpyHtoDAsync_v2", to, (uint64_t)(uintptr_t)from, bytes,
		    stream);
}

STANDIN_EXPORT int cuMemsetD8Async(uint64_t at, unsigned char value, size_t bytes, void *stream)
{
	(void)stream;
	if (!(is_allocated(at, bytes)))
		return 1;
	memset((void *)(uintptr_t)at, value, bytes);
	return 0;
}

STANDIN_EXPORT int cuMemsetD16Async(uint64_t at, unsigned short value, size_t count, void *stream)
{
	(void)stream;
	if (!(is_allocated(at, 2 * count)))
		return 1;
	for (size_t i = 0; i < count; i++)
		((uint16_t *)(uintptr_t)at)[i] = value;
	return 0;
}

int cuMemsetD32Async(uint64_t at, unsigned value, size_t count, void *stream)
{
	uint64_t params[] = {at, value, count, (uint64_t)(uintptr_t)stream};

	tell(0, CBID_SET, "cuMemsetD32Async", params);
	if (!(is_allocated(at, 4 * count)))
		return end_call(CBID_SET, "cuMemsetD32Async", params, 1);
	for (size_t i = 0; i < count; i++)
		((uint32_t *)(uintptr_t)at)[i] = value;
	return end_call(CBID_SET, "cuMemsetD32Async", params, 0);
}

/* ---- events ---- */

int cuEventCreate(void **event, unsigned flags)
{
	uint64_t params[] = {(uint64_t)(uintptr_t)event, flags};

	tell(0, CBID_EVENT_CREATE, "cuEventCreate", params);
	*event = calloc(1, sizeof(unsigned));
	return end_call(CBID_EVENT_CREATE, "cuEventCreate", params, !*event);
}

STANDIN_EXPORT int cuEventDestroy_v2(void *event)
{
	free(event);
	return 0;
}

int cuEventRecord(void *event, void *stream)
{
	void *params[] = {event, stream};

	tell(0, CBID_EVENT_RECORD, "cuEventRecord", params);
	++*(unsigned *)event;
	return end_call(CBID_EVENT_RECORD, "cuEventRecord", params, 0);
}

/* What nothing will ever complete is an error here. */
int cuStreamWaitEvent(void *stream, void *event, unsigned flags)
{
	uint64_t params[] = {(uint64_t)(uintptr_t)stream, (uint64_t)(uintptr_t)event, flags};

	tell(0, CBID_EVENT_AWAIT, "cuStreamWaitEvent", params);
	return end_call(CBID_EVENT_AWAIT, "cuStreamWaitEvent", params, !*(unsigned *)event);
}

STANDIN_EXPORT int cuEventSynchronize(void *event)
{
	return !*(unsigned *)event;
}

/* ---- contexts, streams, functions ---- */

STANDIN_EXPORT int cuCtxSynchronize(void)
{
	return 0;
}
STANDIN_EXPORT int cuCtxGetDevice(int *device)
{
	*device = 0;
	return 0;
}
int cuStreamSynchronize(void *stream)
{
	tell(0, CBID_WAIT, "cuStreamSynchronize", &stream);
	return end_call(CBID_WAIT, "cuStreamSynchronize", &stream, 0);
}
STANDIN_EXPORT int cuStreamIsCapturing(void *stream, int *status)
{
	*status = stream == captured;
	return 0;
}
STANDIN_EXPORT int cuThreadExchangeStreamCaptureMode(int *mode)
{
	static __thread int now;
	int was = now;

	now = *mode;
	*mode = was;
	return 0;
}
STANDIN_EXPORT int cuModuleLoadData(void **module, const void *image)
{
	*module = (void *)(uintptr_t)image;
	return 0;
}
int cuModuleUnload(void *module)
{
	(void)module;
	return 0;
}
STANDIN_EXPORT int cuModuleGetFunction(void **function, void *module, const char *name)
{
	(void)module;
	*function = &flush;
	if (!strcmp(name, "ws_compare"))
		*function = &compare;
	else if (!strcmp(name, "ws_compare_pieces"))
		*function = &compare_pieces;
	else if (!strcmp(name, "ws_read_pieces"))
		*function = &read_pieces;
	return 0;
}
STANDIN_EXPORT int cuCtxPushCurrent_v2(void *context)
{
	return context != (void *)8;
}
STANDIN_EXPORT int cuCtxPopCurrent_v2(void **context)
{
	*context = (void *)8;
	return 0;
}
STANDIN_EXPORT int cuCtxGetCurrent(void **context)
{
	*context = (void *)8;
	return 0;
}
STANDIN_EXPORT int cuFuncGetModule(void **module, void *function)
{
	*module = function;
	return 0;
}
STANDIN_EXPORT int cuModuleGetGlobal_v2(uint64_t *address, size_t *bytes, void *module,
					const char *name)
{
	(void)module;
	if (!global || strcmp(name, "counter"))
		return 500;
	*address = (uint64_t)(uintptr_t)global;
	*bytes = global_bytes;
	return 0;
}
STANDIN_EXPORT int cuFuncGetAttribute(int *value, int which, void *function)
{
	(void)function;
	*value = which == 9 ? -1 : 10 * which;
	return 0;
}
int cuFuncSetAttribute(void *function, int which, int value)
{
	struct {
		void *function;
		int which, value;
	} params = {function, which, value};

	tell(0, CBID_SET_ATTRIBUTE, "cuFuncSetAttribute", &params);
	return end_call(CBID_SET_ATTRIBUTE, "cuFuncSetAttribute", &params, 0);
}
STANDIN_EXPORT int cuFuncGetParamInfo(void *function, size_t index, size_t *offset, size_t *bytes)
{
	const struct standin_kernel *kernel = function;

	for (size_t i = 0; i <= index; i++)
		if (!kernel->sizes[i])
			return 1;
	*offset = 8 * index;
	*bytes = kernel->sizes[index];
	return 0;
}
STANDIN_EXPORT int cuDeviceGetAttribute(int *value, int which, int device)
{
	(void)device;
	*value = which != 38 ? which : standin_fault("largecache") ? 1 << 26 : 1 << 16;
	return 0;
}
STANDIN_EXPORT int cuDeviceGetPCIBusId(char *text, int bytes, int device)
{
	const char *bus = getenv("STANDIN_BUS");

	(void)device;
	snprintf(text, (size_t)bytes, "%s", bus ? bus : "0000:17:00.0");
	return 0;
}
STANDIN_EXPORT int cuDeviceGetName(char *name, int bytes, int device)
{
	(void)device;
	tell(0, CBID_DEVICE_NAME, "cuDeviceGetName", NULL);
	snprintf(name, (size_t)bytes, "Stand-in GPU");
	return end_call(CBID_DEVICE_NAME, "cuDeviceGetName", NULL, 0);
}

/* ---- launches ---- */

static void run_compare_pieces(void **arguments)
{
	const char *now = *(const char **)arguments[0], *const *copies =
								*(const char ***)arguments[1];
	uint64_t bytes = 16 * *(uint64_t *)arguments[2];
	uint8_t *changed = *(uint8_t **)arguments[3];

	for (uint64_t i = 0; i < bytes; i++)
		if (now[i] != copies[i / 65536][i % 65536])
			changed[i / 65536] = 1;
}

static void run_compare(void **arguments)
{
	const char *a = *(const char **)arguments[0], *b = *(const char **)arguments[1];
	uint64_t bytes = 16 * *(uint64_t *)arguments[2];
	uint8_t *changed = *(uint8_t **)arguments[3];

	for (uint64_t i = 0; i < bytes; i++)
		if (a[i] != b[i])
			changed[i / 65536] = 1;
}

/* A kernel called (wrong) cannot be launched. */
STANDIN_EXPORT int cuFuncLoad(void *function)
{
	(void)function;
	load_waiting();
	return 0;
}

static int launch_kernel(const struct standin_call *call, const struct standin_kernel *kernel,
			 void *stream, void **arguments)
{
	int wrong = !strcmp(kernel->symbol, "(wrong)");

	if (standin_callback)
		standin_callback(0, call);
	if (kernel->run)
		load_waiting();
	if (standin_launched && stream != captured && !wrong)
		standin_launched(kernel->run != NULL);
	if (kernel == &compare_pieces) {
		run_compare_pieces(arguments);
	} else if (kernel == &compare) {
		run_compare(arguments);
	} else if (kernel->run && stream != captured && !wrong) {
		static int slow = -1;

		kernel->run(arguments);
		standin_runs++;
		if (slow < 0)
			slow = standin_fault("slow");
		if (slow)
			usleep(SLOW_US);
	}
	if (standin_callback)
		standin_callback(1, call);
	return wrong;
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
		   unsigned bz, unsigned shared, void *stream, void **arguments, void **extra)
{
	struct {
		void *function;
		unsigned grid[3], block[3], shared;
		void *stream, **arguments, **extra;
	} params = {function, {gx, gy, gz}, {bx, by, bz}, shared, stream, arguments, extra};
	const struct standin_kernel *kernel = function;
	struct standin_call call = {CBID_LAUNCH, "cuLaunchKernel", &params, kernel->symbol};

	return launch_kernel(&call, kernel, stream, arguments);
}

static int launch_otherwise(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
			    unsigned by, unsigned bz, unsigned shared, void *stream,
			    void **arguments, void **extra)
{
	return cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra);
}

/* CUlaunchConfig */
struct launch_config {
	unsigned grid[3], block[3], shared;
	void *stream;
	void *attributes;
	unsigned count;
};

STANDIN_EXPORT int cuLaunchKernelEx(const struct launch_config *config, void *function,
				    void **arguments, void **extra)
{
	const struct standin_kernel *kernel = function;
	const void *params[] = {config, function, arguments, extra};
	struct standin_call call = {CBID_LAUNCH_EX, "cuLaunchKernelEx", params, kernel->symbol};

	return launch_kernel(&call, kernel, config->stream, arguments);
}
int cuGraphLaunch(void *graph, void *stream)
{
	struct {
		void *graph, *stream;
	} params = {graph, stream};
	struct standin_kernel **kernels = graph;

	tell(0, CBID_LAUNCH_GRAPH, "cuGraphLaunch", &params);
	for (; *kernels; kernels++, standin_runs++) {
		if (standin_launched)
			standin_launched(1);
		(*kernels)->run(NULL);
	}
	tell(1, CBID_LAUNCH_GRAPH, "cuGraphLaunch", &params);
	return 0;
}

/* ---- graphs ---- */

uint64_t standin_set_at;
unsigned standin_set_value;

int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags)
{
	uint64_t params[] = {(uint64_t)(uintptr_t)exec, (uint64_t)(uintptr_t)graph, flags};

	tell(0, CBID_INSTANTIATE, "cuGraphInstantiateWithFlags", params);
	*exec = graph;
	return end_call(CBID_INSTANTIATE, "cuGraphInstantiateWithFlags", params, 0);
}

static size_t count_nodes(struct standin_kernel **graph)
{
	size_t n = 0;

	while (graph[n])
		n++;
	return n;
}

/* Nodes in no useful order. */
STANDIN_EXPORT int cuGraphGetNodes(struct standin_kernel **graph, void **nodes, size_t *count)
{
	size_t n = count_nodes(graph);

	for (size_t i = 0; nodes && i < n; i++)
		nodes[i] = &graph[n - 1 - i];
	*count = n;
	return 0;
}

STANDIN_EXPORT int cuGraphGetEdges(struct standin_kernel **graph, void **from, void **to,
				   size_t *count)
{
	size_t n = count_nodes(graph);

	for (size_t i = 0; from && i + 1 < n; i++) {
		from[i] = &graph[i];
		to[i] = &graph[i + 1];
	}
	*count = n - 1;
	return 0;
}

STANDIN_EXPORT int cuGraphNodeGetType(struct standin_kernel **node, int *type)
{
	*type = 0;
	if (!strcmp((*node)->symbol, "(set)"))
		*type = 2;
	else if (!strcmp((*node)->symbol, "(host)"))
		*type = 3;
	return 0;
}

STANDIN_EXPORT int cuGraphKernelNodeGetParams_v2(struct standin_kernel **node, void *params)
{
	static void *nothing, *arguments[] = {&nothing};
	struct {
		void *function;
		unsigned grid[3], block[3], shared;
		void **arguments, **extra;
		void *kernel, *context;
	} filled = {*node, {4, 2, 1}, {128, 1, 1}, 64, arguments, NULL, NULL, NULL};

	memcpy(params, &filled, sizeof(filled));
	return 0;
}

STANDIN_EXPORT int cuGraphMemsetNodeGetParams(struct standin_kernel **node, void *params)
{
	struct {
		uint64_t at;
		size_t pitch;
		unsigned value, bytes;
		size_t width, height;
	} filled = {standin_set_at, 0, standin_set_value, 4, 1, 1};

	(void)node;
	memcpy(params, &filled, sizeof(filled));
	return 0;
}

STANDIN_EXPORT int cuGraphMemcpyNodeGetParams(void *node, void *params)
{
	(void)node;
	(void)params;
	return 1;
}

STANDIN_EXPORT int cuMemcpy3DAsync_v2(const void *params, void *stream)
{
	(void)params;
	(void)stream;
	return 1;
}

STANDIN_EXPORT int cuMemsetD2D32Async(uint64_t at, size_t pitch, unsigned value, size_t width,
				      size_t height, void *stream)
{
	for (size_t i = 0; i < height; i++)
		if (cuMemsetD32Async(at + i * pitch, value, width, stream))
			return 1;
	return pitch < 4 * width;
}

STANDIN_EXPORT int cuMemsetD2D8Async(uint64_t at, size_t pitch, unsigned char value, size_t width,
				     size_t height, void *stream)
{
	for (size_t i = 0; i < height; i++)
		if (cuMemsetD8Async(at + i * pitch, value, width, stream))
			return 1;
	return 0;
}

STANDIN_EXPORT int cuMemsetD2D16Async(uint64_t at, size_t pitch, unsigned short value, size_t width,
				      size_t height, void *stream)
{
	for (size_t i = 0; i < height; i++)
		if (cuMemsetD16Async(at + i * pitch, value, width, stream))
			return 1;
	return 0;
}

STANDIN_EXPORT int cuFuncGetName(const char **name, void *function)
{
	*name = ((struct standin_kernel *)function)->symbol;
	return 0;
}

/* By the names without versions. */
int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *found)
{
	static const struct {
		const char *name;
		void *function;
	} functions[] = {{"cuLaunchKernel", (void *)cuLaunchKernel},
			 {"cuGraphLaunch", (void *)cuGraphLaunch},
			 {"cuMemAlloc", (void *)cuMemAlloc_v2},
			 {"cuMemFree", (void *)cuMemFree_v2},
			 {"cuMemAllocHost", (void *)cuMemAllocHost_v2},
			 {"cuGetProcAddress", (void *)cuGetProcAddress_v2}};

	(void)version;
	(void)flags;
	(void)found;
	*function = NULL;
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (!strcmp(functions[i].name, name))
			*function = functions[i].function;
	if (standin_fault("versions") && *function == (void *)cuLaunchKernel)
		*function = (void *)launch_otherwise;
	return *function ? 0 : 500;
}

int cuProfilerStart(void)
{
	tell(0, CBID_PROFILER_START, "cuProfilerStart", NULL);
	tell(1, CBID_PROFILER_START, "cuProfilerStart", NULL);
	return 0;
}

int cuProfilerStop(void)
{
	tell(0, CBID_PROFILER_STOP, "cuProfilerStop", NULL);
	tell(1, CBID_PROFILER_STOP, "cuProfilerStop", NULL);
	return 0;
}

void standin_capture(void *stream)
{
	captured = stream;
}

/* A cubin with one symbol in .nv.global. */
void standin_global(void *address, size_t bytes)
{
	static struct {
		Elf64_Ehdr head;
		Elf64_Shdr sections[4];
		Elf64_Sym symbols[2];
		char strings[64];
	} cubin = {.strings = "\0counter\0.nv.global\0.symtab\0.strtab"};

	memcpy(cubin.head.e_ident, ELFMAG, SELFMAG);
	cubin.head.e_ident[EI_CLASS] = ELFCLASS64;
	cubin.head.e_shentsize = sizeof(Elf64_Shdr);
	cubin.head.e_shoff = offsetof(__typeof__(cubin), sections);
	cubin.head.e_shnum = 4;
	cubin.head.e_shstrndx = 3;
	cubin.sections[1] = (Elf64_Shdr){.sh_name = 9, .sh_type = SHT_NOBITS};
	cubin.sections[2] = (Elf64_Shdr){.sh_name = 20,
					 .sh_type = SHT_SYMTAB,
					 .sh_offset = offsetof(__typeof__(cubin), symbols),
					 .sh_size = sizeof(cubin.symbols),
					 .sh_link = 3};
	cubin.sections[3] = (Elf64_Shdr){.sh_name = 28,
					 .sh_type = SHT_STRTAB,
					 .sh_offset = offsetof(__typeof__(cubin), strings),
					 .sh_size = sizeof(cubin.strings)};
	cubin.symbols[1] = (Elf64_Sym){.st_name = 1,
				       .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT),
				       .st_shndx = 1,
				       .st_size = bytes};
	global = address;
	global_bytes = bytes;
	waiting_bytes = sizeof(cubin);
	waiting_cubin = (const char *)&cubin;
}

void standin_load(const char *path)
{
	static char bytes[1 << 16];
	FILE *file = fopen(path, "rb");
	size_t n = file ? fread(bytes, 1, sizeof(bytes), file) : 0;

	if (file)
		fclose(file);
	load_waiting(); /* the samples are of what was loaded last */
	if (standin_module && n)
		standin_module(bytes, n);
}
