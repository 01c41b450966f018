/*
 * standin_cupti.c - CUPTI's stand-in; see standin.h. Keeps to what CUPTI promises: buffers a
 * thread, records only of what is enabled, callbacks on a thread of its own, a flush without force
 * keeps back buffers that hold an incomplete record.
 *
 * A file for replay is a sequence of { uint32 bytes, uint32 text bytes, record, text }: the text is
 * what the record's pointer to a name pointed to.
 */
#include "standin.h"
#include "base/choose.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ring/cupti_abi.h"

enum { BUFFERS = 64, CBIDS = 1024 };

static cupti_request_fn request;
static cupti_complete_fn complete;
static cupti_clock_fn clock_fn;
static cupti_callback_fn callback;
static void *callback_data;
static uint64_t kinds;
static bool api[2][CBIDS], callbacks[8][CBIDS], system_tids;
static bool narrowed[2]; /* single calls were taken out of the whole kind */
static bool used;	 /* calls have been made: there is a context */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct buffer {
	uint8_t *at;
	size_t size, used;
	pthread_t owner;
	bool full, unfinished;
} buffers[BUFFERS];

static uint64_t read_clock(void)
{
	struct timespec time;

	if (clock_fn)
		return clock_fn();
	clock_gettime(CLOCK_REALTIME, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* ---- records ---- */

static uint32_t size_known(uint32_t kind)
{
	bool old = standin_fault("version12");

	switch (kind) {
	case CUPTI_KIND_CONCURRENT_KERNEL:
		return old ? 208 : sizeof(struct cupti_kernel);
	case CUPTI_KIND_MEMCPY:
		return old ? 88 : sizeof(struct cupti_memcpy);
	case CUPTI_KIND_MEMSET:
		return sizeof(struct cupti_memset);
	case CUPTI_KIND_RUNTIME:
	case CUPTI_KIND_DRIVER:
		return sizeof(struct cupti_api);
	case CUPTI_KIND_SYNCHRONIZATION:
		return old ? 40 : sizeof(struct cupti_sync);
	case CUPTI_KIND_DEVICE:
		return sizeof(struct cupti_device);
	case CUPTI_KIND_CONTEXT:
		return old ? 16 : sizeof(struct cupti_context);
	case CUPTI_KIND_STREAM:
		return sizeof(struct cupti_stream);
	case CUPTI_KIND_MEMORY2:
		return sizeof(struct cupti_memory);
	case CUPTI_KIND_MEMCPY2:
		return sizeof(struct cupti_memcpy_peer);
	case CUPTI_KIND_OVERHEAD:
		return sizeof(struct cupti_overhead);
	case CUPTI_KIND_CUDA_EVENT:
		return sizeof(struct cupti_event);
	case CUPTI_KIND_GRAPH_TRACE:
		return sizeof(struct cupti_graph_trace);
	case CUPTI_KIND_JIT:
		return sizeof(struct cupti_jit);
	case CUPTI_KIND_UNIFIED_MEMORY_COUNTER:
		return sizeof(struct cupti_um);
	case CUPTI_KIND_MEMORY_POOL:
		return sizeof(struct cupti_pool);
	default:
		return 0;
	}
}

enum { KIND_NEW = 60, MORE = 24 };

static uint32_t size_of(uint32_t kind)
{
	uint32_t size = size_known(kind);

	if (!standin_fault("future"))
		return size;
	return kind == KIND_NEW ? 72 : size ? size + MORE : 0;
}

/* The records of a buffer, last first. */
static void reverse_records(struct buffer *buffer)
{
	uint8_t *copy = malloc(buffer->size);
	size_t at = 0, to = buffer->used;

	memcpy(copy, buffer->at, buffer->used);
	while (at < buffer->used) {
		uint32_t bytes = size_of(((struct cupti_record *)(copy + at))->kind & 0xff);

		to -= bytes;
		memcpy(buffer->at + to, copy + at, bytes);
		at += bytes;
	}
	free(copy);
}

static void hand_over(struct buffer *buffer)
{
	struct buffer mine;

	if (standin_fault("unordered"))
		reverse_records(buffer);
	mine = *buffer;

	memset(buffer, 0, sizeof(*buffer));
	pthread_mutex_unlock(&lock);
	complete(NULL, 0, mine.at, mine.size, mine.used);
	pthread_mutex_lock(&lock);
}

/* A thread's buffer with room; the lock is held, but not while a full one is handed over. */
static struct buffer *buffer_for(uint32_t bytes)
{
	for (int i = 0; i < BUFFERS; i++) {
		struct buffer *buffer = &buffers[i];

		if (!buffer->at || buffer->full || !pthread_equal(buffer->owner, pthread_self()))
			continue;
		if (buffer->size - buffer->used >= bytes)
			return buffer;
		buffer->full = true;
		if (!buffer->unfinished)
			hand_over(buffer);
	}
	for (int i = 0; i < BUFFERS; i++) {
		struct buffer *buffer = &buffers[i];
		size_t most;

		if (buffer->at)
			continue;
		buffer->owner = pthread_self();
		request(&buffer->at, &buffer->size, &most);
		return buffer->at && buffer->size >= bytes ? buffer : NULL;
	}
	return NULL;
}

/* ---- work that runs later ---- */

/* Kernels that have been launched and not run yet: their records stand in the buffers without
 * times, and a buffer with such a record is handed over by force only. */
enum { WAITING = 256, SOON_NS = 1000000 };
static struct {
	struct buffer *buffer;
	struct cupti_kernel *record;
	uint64_t start, end;
} waiting[WAITING];

static void run_later(struct buffer *buffer, struct cupti_kernel *kernel)
{
	for (int i = 0; i < WAITING; i++) {
		if (waiting[i].record)
			continue;
		waiting[i].buffer = buffer;
		waiting[i].record = kernel;
		waiting[i].start = kernel->start;
		waiting[i].end = kernel->end;
		kernel->start = kernel->end = 0;
		kernel->kind |= (uint32_t)CUPTI_KIND_INCOMPLETE;
		buffer->unfinished = true;
		return;
	}
}

/* What has run by now has its times. The lock is held. */
static void finish_work(void)
{
	uint64_t now = read_clock();

	for (int i = 0; i < BUFFERS; i++)
		buffers[i].unfinished &= standin_fault("unfinished");
	for (int i = 0; i < WAITING; i++) {
		struct cupti_kernel *kernel = waiting[i].record;

		if (!kernel)
			continue;
		if (waiting[i].end > now) {
			waiting[i].buffer->unfinished = true;
			continue;
		}
		kernel->start = waiting[i].start;
		kernel->kind &= ~(uint32_t)CUPTI_KIND_INCOMPLETE;
		__atomic_store_n(&kernel->end, waiting[i].end, __ATOMIC_RELEASE);
		waiting[i].record = NULL;
	}
}

static void forget_work(const struct buffer *buffer)
{
	for (int i = 0; i < WAITING; i++)
		if (waiting[i].buffer == buffer)
			waiting[i].record = NULL;
}

static void put_record(const void *r, uint32_t bytes)
{
	uint32_t kind = ((const struct cupti_record *)r)->kind & 0xff, size = size_of(kind);
	struct buffer *buffer;
	uint8_t *at;

	if (!request)
		return;
	pthread_mutex_lock(&lock);
	buffer = buffer_for(size);
	if (buffer) {
		at = buffer->at + buffer->used;
		memcpy(at, r, ws_min(size, bytes));
		if (kind == CUPTI_KIND_CONCURRENT_KERNEL && standin_fault("notimes"))
			((struct cupti_kernel *)at)->start = ((struct cupti_kernel *)at)->end = 0;
		if (kind == CUPTI_KIND_CONCURRENT_KERNEL && standin_fault("unfinished")) {
			((struct cupti_record *)at)->kind |= (uint32_t)CUPTI_KIND_INCOMPLETE;
			((struct cupti_kernel *)at)->start = ((struct cupti_kernel *)at)->end = 0;
			buffer->unfinished = true;
		}
		if (kind == CUPTI_KIND_CONCURRENT_KERNEL &&
		    ((struct cupti_kernel *)at)->start > read_clock() + SOON_NS)
			run_later(buffer, (struct cupti_kernel *)at);
		buffer->used += size;
	}
	pthread_mutex_unlock(&lock);
}

static void emit_record(const void *r, uint32_t bytes)
{
	static const uint64_t unknown[9] = {KIND_NEW, 1, 2, 3, 4, 5, 6, 7, 8};

	if (standin_fault("future"))
		put_record(unknown, sizeof(unknown));
	if (kinds >> (((const struct cupti_record *)r)->kind & 0xff) & 1)
		put_record(r, bytes);
}

static __thread const void *next_params;
static __thread const char *next_symbol;
static __thread int deep;	   /* calls that the thread is in */
static __thread bool outer_traced; /* the outermost of them is */
static __thread const void *my_params[8];

static void note_symbol(const char *name)
{
	next_symbol = name;
}

static void fill_params(const void *memory)
{
	next_params = memory;
}

static void emit_call(int domain, uint32_t cbid, const char *name, uint64_t start, uint64_t end,
		      uint32_t correlation, int result)
{
	int driver = domain == CUPTI_DOMAIN_DRIVER;
	struct cupti_api a = {.kind = driver ? CUPTI_KIND_DRIVER : CUPTI_KIND_RUNTIME,
			      .cbid = cbid,
			      .start = start,
			      .end = end,
			      .process = (uint32_t)getpid(),
			      .correlation = correlation,
			      .result = (uint32_t)result};
	struct cupti_callback c = {.site = CUPTI_SITE_EXIT,
				   .function = name,
				   .result = &result,
				   .correlation = correlation,
				   .params = my_params[deep > 0 ? --deep : 0],
				   .context = (void *)1};

	a.thread =
		system_tids ? (uint32_t)syscall(SYS_gettid) : (uint32_t)(uintptr_t)pthread_self();
	if (callback && callbacks[domain][cbid])
		callback(callback_data, (uint32_t)domain, cbid, &c);
	/* A call inside of one that is traced is recorded when all calls are. */
	if (!api[driver][cbid] ||
	    (deep && outer_traced && (!(kinds >> a.kind & 1) || narrowed[driver])))
		return;
	put_record(&a, sizeof(a));
}

static void enter_call(int domain, uint32_t cbid, const char *name, uint32_t correlation)
{
	struct cupti_callback c = {.site = CUPTI_SITE_ENTER,
				   .function = name,
				   .correlation = correlation,
				   .params = next_params,
				   .symbol = next_symbol,
				   .context = (void *)1};

	used = true;
	if (!deep)
		outer_traced = api[domain == CUPTI_DOMAIN_DRIVER][cbid];
	my_params[deep++ & 7] = next_params;
	if (callback && callbacks[domain][cbid])
		callback(callback_data, (uint32_t)domain, cbid, &c);
}

static void count_enabled(int *records, int *called)
{
	for (int driver = 0; driver < 2; driver++)
		for (int cbid = 0; cbid < CBIDS; cbid++) {
			*records += api[driver][cbid];
			*called += callbacks[driver ? CUPTI_DOMAIN_DRIVER : CUPTI_DOMAIN_RUNTIME]
					    [cbid];
		}
}

static int is_subscribed(void)
{
	return callback != NULL;
}

static int records_whole_graphs(void)
{
	return kinds >> CUPTI_KIND_GRAPH_TRACE & 1;
}

static void *run_locked(void *fn)
{
	pthread_mutex_lock(&lock);
	((void (*)(void *))fn)(NULL);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void run_callback(void (*fn)(void *))
{
	pthread_t thread;

	if (!pthread_create(&thread, NULL, run_locked, (void *)fn))
		pthread_join(thread, NULL);
}

static void tell_resource(uint32_t cbid, void *context, void *descriptor)
{
	(void)context;
	if (callback && callbacks[CUPTI_DOMAIN_RESOURCE][cbid])
		callback(callback_data, CUPTI_DOMAIN_RESOURCE, cbid, descriptor);
}

/* Where a record of this kind has a pointer to a text; 0 for none. */
static size_t text_field(uint32_t kind)
{
	return kind == CUPTI_KIND_CONCURRENT_KERNEL ? offsetof(struct cupti_kernel, name)
	       : kind == CUPTI_KIND_DEVICE	    ? offsetof(struct cupti_device, name)
	       : kind == CUPTI_KIND_MEMORY2	    ? offsetof(struct cupti_memory, name)
	       : kind == CUPTI_KIND_JIT		    ? offsetof(struct cupti_jit, cache_path)
						    : 0;
}

static size_t start_field(uint32_t kind)
{
	switch (kind) {
	case CUPTI_KIND_RUNTIME:
	case CUPTI_KIND_DRIVER:
		return offsetof(struct cupti_api, start);
	case CUPTI_KIND_CONCURRENT_KERNEL:
		return offsetof(struct cupti_kernel, start);
	case CUPTI_KIND_MEMCPY:
		return offsetof(struct cupti_memcpy, start);
	case CUPTI_KIND_MEMSET:
		return offsetof(struct cupti_memset, start);
	case CUPTI_KIND_SYNCHRONIZATION:
		return offsetof(struct cupti_sync, start);
	case CUPTI_KIND_GRAPH_TRACE:
		return offsetof(struct cupti_graph_trace, start);
	case CUPTI_KIND_OVERHEAD:
		return offsetof(struct cupti_overhead, start);
	default:
		return 0;
	}
}

/* Times in the file are moved so that the first is now. */
static int replay_file(const char *file)
{
	FILE *f = fopen(file, "rb");
	uint32_t head[2];
	uint64_t shift = 0;

	if (!f)
		return 1;
	while (fread(head, sizeof(head), 1, f) == 1 && head[0] >= 8 && head[0] <= 4096 &&
	       head[1] <= 65536) {
		uint64_t buf[513];
		bool wanted;
		char *text = calloc(1, head[1] + 1);
		uint32_t kind;

		if (fread(buf, head[0], 1, f) != 1 || (head[1] && fread(text, head[1], 1, f) != 1))
			break;
		kind = (uint32_t)buf[0] & 0xff;
		wanted = kinds >> kind & 1;
		if (text_field(kind))
			*(const char **)((char *)buf + text_field(kind)) = head[1] ? text : NULL;
		if (kind == CUPTI_KIND_RUNTIME || kind == CUPTI_KIND_DRIVER) {
			struct cupti_api *a = (void *)buf;

			a->thread = (uint32_t)syscall(SYS_gettid);
			wanted |= a->cbid < CBIDS && api[kind == CUPTI_KIND_DRIVER][a->cbid];
		} else if (kind == CUPTI_KIND_OVERHEAD) {
			((struct cupti_overhead *)buf)->data = NULL;
		}
		if (start_field(kind)) {
			uint64_t *times =
				(uint64_t *)((char *)buf + start_field(kind)); /* start, then end */

			if (!shift)
				shift = read_clock() - times[0] +
					20000000; /* what comes first in the file
					      may not have begun first */
			times[0] += shift;
			times[1] += shift;
		}
		if (wanted)
			put_record(buf, head[0]);
	}
	fclose(f);
	return 0;
}

__attribute__((constructor)) static void announce_library(void)
{
	standin_hooks = (struct standin_hooks){emit_call,     enter_call,    emit_record,
					       tell_resource, fill_params,   note_symbol,
					       read_clock,    replay_file,   run_callback,
					       count_enabled, is_subscribed, records_whole_graphs};
}

/* ---- the interface ---- */

#define API(name, ...)                        \
	STANDIN_EXPORT int name(__VA_ARGS__); \
	STANDIN_EXPORT int name(__VA_ARGS__)

API(cuptiGetVersion, uint32_t *values)
{
	*values = standin_fault("toonew")      ? 140000
		  : standin_fault("older")     ? 17
		  : standin_fault("version12") ? CUPTI_12_4
					       : 130001;
	return 0;
}
API(cuptiGetResultString, int result, const char **text)
{
	*text = result == CUPTI_ERR_MULTIPLE_SUBSCRIBERS
			? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
			: "CUPTI_ERROR_STANDIN";
	return 0;
}
API(cuptiGetCallbackName, uint32_t domain, uint32_t cbid, const char **name)
{
	static const struct {
		uint32_t domain, cbid;
		const char *name;
	} names[] = {
		{2, RT_LAUNCH, "cudaLaunchKernel_v7000"},
		{2, RT_MEMCPY_ASYNC, "cudaMemcpyAsync_v3020"},
		{2, RT_MEMSET_ASYNC, "cudaMemsetAsync_v3020"},
		{2, RT_QUERY, "cudaStreamQuery_v3020"},
		{2, RT_SYNC, "cudaStreamSynchronize_v3020"},
		{2, RT_MALLOC, "cudaMalloc_v3020"},
		{2, 27, "cudaHostAlloc_v3020"},
		{2, 31, "cudaMemcpy_v3020"},
		{2, 49, "cudaMemset_v3020"},
		{2, 129, "cudaStreamCreate_v3020"},
		{2, 137, "cudaEventSynchronize_v3020"},
		{2, 165, "cudaDeviceSynchronize_v3020"},
		{2, 198, "cudaStreamCreateWithFlags_v5000"},
		{1, 678, "cuLibraryLoadData"},
		{2, RT_EVENT, "cudaEventRecord_v3020"},
		{2, RT_WAIT_EVENT, "cudaStreamWaitEvent_v3020"},
		{2, RT_FREE, "cudaFree_v3020"},
		{2, RT_RESET, "cudaDeviceReset_v3020"},
		{2, RT_INSTANTIATE, "cudaGraphInstantiate_v12000"},
		{2, RT_STREAM, "cudaStreamCreateWithPriority_v5050"},
		{2, RT_PROFILER_START, "cudaProfilerStart_v4000"},
		{2, RT_PROFILER_STOP, "cudaProfilerStop_v4000"},
		{2, RT_FUNC_ATTRIBUTES, "cudaFuncGetAttributes_v3020"},
		{2, RT_GRAPH_LAUNCH, "cudaGraphLaunch_v10000"},
		{2, RT_HOST, "cudaLaunchHostFunc_v10000"},
		{1, DR_HOST, "cuLaunchHostFunc"},
		{1, DR_HOST_NODE, "cuGraphAddHostNode"},
		{1, DR_LAUNCH, "cuLaunchKernel"},
		{1, DR_PROFILER_START, "cuProfilerStart"},
		{1, DR_PROFILER_STOP, "cuProfilerStop"},
		{1, DR_INIT, "cuInit"},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].domain == domain && names[i].cbid == cbid) {
			*name = names[i].name;
			return 0;
		}
	*name = "unused";
	return cbid < 700 ? 0 : CUPTI_ERR_INVALID_PARAMETER;
}
API(cuptiActivityRegisterCallbacks, cupti_request_fn r, cupti_complete_fn c)
{
	request = r;
	complete = c;
	return 0;
}
API(cuptiActivityEnable, uint32_t kind)
{
	if ((kind == CUPTI_KIND_JIT && standin_fault("nojit")) ||
	    (kind == CUPTI_KIND_MEMSET && standin_fault("nosets")))
		return CUPTI_ERR_NOT_COMPATIBLE;
	kinds |= UINT64_C(1) << kind;
	if (kind == CUPTI_KIND_RUNTIME || kind == CUPTI_KIND_DRIVER) {
		memset(api[kind == CUPTI_KIND_DRIVER], 1, CBIDS);
		narrowed[kind == CUPTI_KIND_DRIVER] = false;
	}
	return 0;
}
API(cuptiActivityEnableAndDump, uint32_t kind)
{
	int rc = cuptiActivityEnable(kind);

	if (!rc)
		standin_dump(kind);
	return rc;
}
API(cuptiActivityConfigureUnifiedMemoryCounter, struct cupti_um_config *config, uint32_t count)
{
	(void)config;
	return count && !standin_fault("nomanaged") ? 0 : CUPTI_ERR_NOT_SUPPORTED;
}
API(cuptiActivityDisable, uint32_t kind)
{
	kinds &= ~(UINT64_C(1) << kind);
	if (kind == CUPTI_KIND_RUNTIME || kind == CUPTI_KIND_DRIVER)
		memset(api[kind == CUPTI_KIND_DRIVER], 0, CBIDS);
	return 0;
}
static int one_call(int driver, uint32_t cbid, uint8_t enable)
{
	if (standin_fault("version12"))
		return CUPTI_ERR_NOT_SUPPORTED;
	if (kinds >> (driver ? CUPTI_KIND_DRIVER : CUPTI_KIND_RUNTIME) & 1)
		narrowed[driver] |= !enable;
	else if (used && enable) /* as CUPTI 13.0: accepted, and without effect */
		return 0;
	if (cbid < CBIDS)
		api[driver][cbid] = enable;
	return 0;
}
API(cuptiActivityEnableRuntimeApi, uint32_t cbid, uint8_t enable)
{
	return one_call(0, cbid, enable);
}
API(cuptiActivityEnableDriverApi, uint32_t cbid, uint8_t enable)
{
	return one_call(1, cbid, enable);
}
API(cuptiActivityFlushAll, uint32_t flags)
{
	if (standin_fault("hang"))
		for (;;)
			pause();
	if (standin_fault("contextgone")) {
		struct cupti_resource r = {(void *)1, NULL, NULL};

		tell_resource(CUPTI_RESOURCE_CONTEXT_DESTROY_STARTING, NULL, &r);
	}
	pthread_mutex_lock(&lock);
	finish_work();
	for (int i = 0; i < BUFFERS; i++)
		if (buffers[i].at && buffers[i].used && (flags || !buffers[i].unfinished)) {
			forget_work(&buffers[i]);
			hand_over(&buffers[i]);
		}
	pthread_mutex_unlock(&lock);
	return 0;
}
API(cuptiActivityGetNextRecord, uint8_t *buffer, size_t valid, void **r)
{
	uint8_t *at =
		*r ? (uint8_t *)*r + size_of(((struct cupti_record *)*r)->kind & 0xff) : buffer;

	/* As CUPTI does: it stops at a record that is not finished, and goes on from none. */
	if (at >= buffer + valid || !size_of(((struct cupti_record *)at)->kind & 0xff))
		return CUPTI_ERR_MAX_LIMIT_REACHED;
	if ((*r ? ((struct cupti_record *)*r)->kind : 0) & (uint32_t)CUPTI_KIND_INCOMPLETE ||
	    ((struct cupti_record *)at)->kind & (uint32_t)CUPTI_KIND_INCOMPLETE)
		return CUPTI_ERR_INVALID_KIND;
	*r = at;
	return 0;
}
API(cuptiActivityGetNumDroppedRecords, void *context, uint32_t stream, size_t *dropped)
{
	static _Atomic int once;

	(void)context;
	(void)stream;
	*dropped = standin_fault("dropped") && !atomic_fetch_add(&once, 1) ? 42 : 0;
	return 0;
}
API(cuptiActivitySetAttribute, uint32_t attribute, size_t *size, void *value)
{
	(void)attribute;
	(void)size;
	(void)value;
	return 0;
}
API(cuptiActivityRegisterTimestampCallback, cupti_clock_fn fn)
{
	clock_fn = fn;
	return 0;
}
API(cuptiSetThreadIdType, uint32_t type)
{
	system_tids = type == CUPTI_THREAD_ID_SYSTEM;
	return 0;
}
API(cuptiSubscribe, void **subscriber, cupti_callback_fn fn, void *data)
{
	if (standin_fault("taken"))
		return CUPTI_ERR_MULTIPLE_SUBSCRIBERS;
	if (standin_fault("refuse"))
		return CUPTI_ERR_NOT_INITIALIZED;
	if (callback)
		return CUPTI_ERR_MULTIPLE_SUBSCRIBERS;
	callback = fn;
	callback_data = data;
	*subscriber = &callback;
	return 0;
}
API(cuptiSubscribe_v2, void **subscriber, cupti_callback_fn fn, void *data,
    struct cupti_subscriber_params *params)
{
	if (standin_fault("taken"))
		snprintf(params->old_name, params->old_name_size, "CUPTI for someone else");
	return cuptiSubscribe(subscriber, fn, data);
}
API(cuptiUnsubscribe, void *subscriber)
{
	(void)subscriber;
	callback = NULL;
	return 0;
}
API(cuptiEnableCallback, uint32_t enable, void *subscriber, uint32_t domain, uint32_t cbid)
{
	(void)subscriber;
	if (domain < 8 && cbid < CBIDS)
		callbacks[domain][cbid] = enable;
	return 0;
}
static int id_of(const void *memory, uint32_t *id)
{
	*id = (uint32_t)((uintptr_t)memory >> 4);
	return 0;
}
API(cuptiGetGraphId, void *graph, uint32_t *id)
{
	return id_of(graph, id);
}
API(cuptiGetGraphExecId, void *exec, uint32_t *id)
{
	return id_of(exec, id);
}
API(cuptiGetGraphNodeId, void *node, uint64_t *id)
{
	*id = (uint64_t)(uintptr_t)node;
	return 0;
}
API(cuptiGetDeviceId, void *context, uint32_t *id)
{
	(void)context;
	*id = 0;
	return 0;
}
API(cuptiGetContextId, void *context, uint32_t *id)
{
	(void)context;
	*id = 1;
	return 0;
}
API(cuptiGetStreamIdEx, void *context, void *stream, uint8_t per_thread, uint32_t *id)
{
	(void)context;
	*id = (uint32_t)(uintptr_t)stream + per_thread;
	return 0;
}
