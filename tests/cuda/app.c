/*
 * app.c - a program that uses CUDA through the stand-in. What it does is said by its arguments, in
 * order:
 *
 *   init              cuInit
 *   work:N            N launches, each with a copy and a query, then a wait
 *   driver:N          N launches through the driver directly
 *   threads:T:N       T threads with N launches each
 *   memory, graph, stream, names, event, fail, reset
 *   inside            a launch that the runtime makes for itself, in a call that is not traced
 *   nodes:N           a launch of a graph with N kernels
 *   host              functions for CUDA to call
 *   hostexit          exit from a function that CUDA calls
 *   unified           unified memory
 *   streams:N, kernels:N    N streams; N kernels, each with a name of its own
 *   correlation:N     what the next call has
 *   replay:FILE       records of a real GPU
 *   fork              a child that exits, and one that works on
 *   kill, _exit, abort    end in that way
 *   sleep:MS
 *   start:WAY, stop:WAY     cudaProfilerStart, Stop: 0 from inside the runtime, 1 by its symbol, 2
 *                     by dlsym, 3 the driver's by cuGetProcAddress, as runtimes find them
 *   steps:N           steps of 12 kernels and a copy, without a mark
 *   training:N        steps of 111 kernels, most in loops over 16 layers, without a mark
 *   push:NAME, pop    NVTX ranges
 *   launch:N          kernels alone, without a copy and without waiting
 *   delay:NS          kernels run that much later than they are launched
 *   commands          reads such words from standard input, a line each, and says "done" after each
 *   enabled           prints at how many calls CUPTI records or calls back
 *   inner             profile itself as torch.profiler does; prints what it got
 */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../nvtx/loader.h"
#include "ring/cupti_abi.h"
#include "standin.h"

struct loader *loader_now;

#define KERNEL_A "_Z6vectorIfEvPT_S1_i"
#define KERNEL_B "_ZN5outer5inner4gemmILi4EfEEvPfS2_i"

static void work(int n)
{
	for (int i = 0; i < n; i++) {
		standin_launch(i % 2 ? KERNEL_A : KERNEL_B, 7, 0);
		standin_copy(1, 4096, 7);
		standin_query(7);
	}
	standin_wait(7);
}

static void *thread(void *arg)
{
	int n = *(int *)arg;

	for (int i = 0; i < n; i++)
		standin_launch(KERNEL_A, 13, 0);
	return NULL;
}

static void threads(int count, int n)
{
	pthread_t owner[64];

	for (int i = 0; i < count && i < 64; i++)
		pthread_create(&owner[i], NULL, thread, &n);
	for (int i = 0; i < count && i < 64; i++)
		pthread_join(owner[i], NULL);
}

static void forked(void)
{
	pid_t pid = fork();

	if (!pid)
		exit(0); /* runs exit handlers: CUPTI must be left alone */
	waitpid(pid, NULL, 0);
	work(5);
}

/* ---- a profiler inside ---- */

#if !defined(LINKED_TO_CUPTI) && !defined(FINDS_CUPTI)
/* Resolved by libcupti where that is linked in, or by whoever stands in front of it. */
#pragma weak cuptiActivityRegisterCallbacks
#pragma weak cuptiActivityRegisterTimestampCallback
#pragma weak cuptiActivityEnable
#pragma weak cuptiActivityDisable
#pragma weak cuptiActivityFlushAll
#pragma weak cuptiActivityGetNextRecord
#pragma weak cuptiSubscribe
#pragma weak cuptiEnableCallback
#pragma weak cuptiUnsubscribe
#endif

int cuptiActivityRegisterCallbacks(cupti_request_fn request, cupti_complete_fn complete);
int cuptiActivityRegisterTimestampCallback(cupti_clock_fn fn);
int cuptiActivityEnable(uint32_t kind);
int cuptiActivityDisable(uint32_t kind);
int cuptiActivityFlushAll(uint32_t flags);
int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, void **r);
int cuptiSubscribe(void **subscriber, cupti_callback_fn fn, void *data);
int cuptiEnableCallback(uint32_t enable, void *subscriber, uint32_t domain, uint32_t cbid);
int cuptiUnsubscribe(void *subscriber);

#ifdef FINDS_CUPTI
/* As XLA does it: the library opened, each function looked up by name. */
#define FUNCTIONS(X)                         \
	X(ActivityRegisterCallbacks)         \
	X(ActivityRegisterTimestampCallback) \
	X(ActivityEnable)                    \
	X(ActivityDisable)                   \
	X(ActivityFlushAll) X(ActivityGetNextRecord) X(Subscribe) X(EnableCallback) X(Unsubscribe)
#define X(name) static __typeof__(cupti##name) *found##name;
FUNCTIONS(X)
#undef X

static void find_cupti(void)
{
	void *lib = dlopen("libcupti.so.13", RTLD_NOW);

#define X(name) *(void **)&found##name = dlsym(lib, "cupti" #name);
	FUNCTIONS(X)
#undef X
	if (!foundSubscribe || !foundActivityEnable || dlsym(lib, "cuptiNoSuchFunction") ||
	    dlsym(RTLD_DEFAULT, "no_such_function"))
		exit(98);
}
#define cuptiActivityRegisterCallbacks foundActivityRegisterCallbacks
#define cuptiActivityRegisterTimestampCallback foundActivityRegisterTimestampCallback
#define cuptiActivityEnable foundActivityEnable
#define cuptiActivityDisable foundActivityDisable
#define cuptiActivityFlushAll foundActivityFlushAll
#define cuptiActivityGetNextRecord foundActivityGetNextRecord
#define cuptiSubscribe foundSubscribe
#define cuptiEnableCallback foundEnableCallback
#define cuptiUnsubscribe foundUnsubscribe
#endif

static long inner_kernels, inner_copies, inner_calls, inner_queries, inner_callbacks,
	inner_bad_times, inner_bad_names;
static uint64_t inner_from;

static uint64_t inner_clock(void) /* microseconds since a day of its own */
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000u + (uint64_t)time.tv_nsec / 1000 + 5000000000000u;
}

static void inner_request(uint8_t **buffer, size_t *size, size_t *most)
{
	*size = 8192;
	*buffer = malloc(*size);
	*most = 0;
}

static void inner_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size,
			   size_t valid)
{
	void *r = NULL;

	(void)context;
	(void)stream;
	(void)size;
	while (!cuptiActivityGetNextRecord(buffer, valid, &r)) {
		uint32_t kind = ((struct cupti_record *)r)->kind;
		const struct cupti_kernel *kernel = r;
		const struct cupti_api *api = r;

		inner_kernels += kind == CUPTI_KIND_CONCURRENT_KERNEL;
		inner_copies += kind == CUPTI_KIND_MEMCPY;
		inner_calls += kind == CUPTI_KIND_RUNTIME;
		if (kind == CUPTI_KIND_RUNTIME) {
			inner_queries += api->cbid == RT_QUERY;
			inner_bad_times += api->start < inner_from - 10 ||
					   api->end > inner_clock() + 10 || api->end < api->start;
		}
		if (kind == CUPTI_KIND_CONCURRENT_KERNEL)
			inner_bad_names +=
				strcmp(kernel->name, KERNEL_A) && strcmp(kernel->name, KERNEL_B);
	}
	free(buffer);
}

static void inner_callback(void *data, uint32_t domain, uint32_t cbid, const void *info)
{
	(void)data;
	(void)info;
	inner_callbacks += domain == CUPTI_DOMAIN_RUNTIME && cbid == RT_SYNC;
}

static void inner(void)
{
	void *subscriber;

#ifdef FINDS_CUPTI
	find_cupti();
#endif
	inner_from = inner_clock();
	if (cuptiSubscribe(&subscriber, inner_callback, NULL) ||
	    cuptiActivityRegisterTimestampCallback(inner_clock) ||
	    cuptiActivityRegisterCallbacks(inner_request, inner_complete))
		printf("inner: refused\n");
	cuptiEnableCallback(1, subscriber, CUPTI_DOMAIN_RUNTIME, RT_SYNC);
	cuptiActivityEnable(CUPTI_KIND_CONCURRENT_KERNEL);
	cuptiActivityEnable(CUPTI_KIND_RUNTIME);
	work(100);
	cuptiActivityDisable(CUPTI_KIND_CONCURRENT_KERNEL);
	cuptiActivityDisable(CUPTI_KIND_RUNTIME);
	cuptiActivityFlushAll(0);
	cuptiUnsubscribe(subscriber);
	work(10);
	cuptiActivityFlushAll(1);
	printf("inner: kernels %ld copies %ld calls %ld queries %ld callbacks %ld bad times %ld "
	       "bad names %ld\n",
	       inner_kernels, inner_copies, inner_calls, inner_queries, inner_callbacks,
	       inner_bad_times, inner_bad_names);
	fflush(stdout);
}

/* Names for the device, a stream that there is and one that there is not. */
static struct loader loader;

/* Whether somebody listens to NVTX. */
static int load_nvtx(void)
{
	const char *hook = getenv("NVTX_INJECTION64_PATH");

	if (loader_now)
		return 1;
	loader_init(&loader);
	return hook && loader_attach(&loader, dlopen(hook, RTLD_NOW));
}

static void name_things(void)
{
	if (!load_nvtx())
		return;
	CALL(&loader, NX_CUDART, NX_RT_DEVICE_A, void, (int, const char *), 0, "the device");
	CALL(&loader, NX_CUDART, NX_RT_STREAM_A, void, (void *, const char *), (void *)13,
	     "the copies");
	CALL(&loader, NX_CUDA, NX_CU_STREAM_A, void, (void *, const char *), (void *)14, "nothing");
}

void called_by_cuda(void *arg);
void called_by_cuda(void *arg)
{
	(void)arg;
}

static void leaves(void *arg)
{
	(void)arg;
	exit(3);
}

static void many_kernels(int n)
{
	char *names = malloc((size_t)n * 24);

	for (int i = 0; names && i < n; i++) {
		snprintf(names + (size_t)i * 24, 24, "kernel_%d", i);
		standin_launch(names + (size_t)i * 24, 7, 0);
	}
}

static void pause_ms(int ms)
{
	struct timespec time = {ms / 1000, ms % 1000 * 1000000L};

	nanosleep(&time, NULL);
}

static void launch_layers(const char *const *kernels, int count)
{
	for (int layer = 0; layer < 16; layer++)
		for (int i = 0; i < count; i++)
			standin_launch(kernels[i], 7, 0);
}

/* Steps that nothing marks, as of a model in training: the loops over its layers are even, too. */
static void make_training_steps(int n)
{
	static const char *const forward[] = {"_Z6linearv", "_Z4geluv"};
	static const char *const backward[] = {"_Z5geluBv", "_Z6linearv", "_Z6linearv", "_Z4biasv"};

	for (int i = 0; i < n; i++) {
		launch_layers(forward, 2);
		standin_launch("_Z4lossv", 7, 0);
		standin_launch("_Z5lossBv", 7, 0);
		launch_layers(backward, 4);
		for (int j = 0; j < 13; j++)
			standin_launch("_Z5adamwv", 7, 0);
		if (i % 10 == 3)
			standin_wait(7);
	}
}

/* Steps that nothing marks: in each twelve kernels, the first of which comes once, and a copy of
 * 1000 bytes and the step's number. */
static void make_steps(int n)
{
	for (int i = 0; i < 5; i++)
		standin_launch("_Z6weightv", 7, 0);
	for (int i = 0; i < n; i++) {
		standin_launch("_Z5embedv", 7, 0);
		standin_copy(1, 1000 + (uint64_t)i, 7);
		for (int layer = 0; layer < 5; layer++) {
			standin_launch("_Z4gemmv", 7, 0);
			standin_launch("_Z4reluv", 7, 0);
		}
		standin_launch("_Z4lossv", 7, 0);
		if (i % 10 == 3)
			standin_wait(7);
	}
}

static void turn_profiler(int way, int on)
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY), *symbol = NULL;
	int (*find)(const char *, void **, int, uint64_t, int *);

	if (way == 0) {
		standin_profiler(on);
	} else if (way == 1) {
		on ? cudaProfilerStart() : cudaProfilerStop();
	} else if (way == 2) {
		symbol = dlsym(driver, on ? "cudaProfilerStart" : "cudaProfilerStop");
	} else {
		find = (int (*)(const char *, void **, int, uint64_t,
				int *))dlsym(driver, "cuGetProcAddress_v2");
		find(on ? "cuProfilerStart" : "cuProfilerStop", &symbol, 12000, 0, NULL);
	}
	if (symbol)
		((int (*)(void))symbol)();
}

/* ---- words ---- */

/* What stands behind the colon, as text ("" without one) and as a number. */
typedef void word_fn(const char *arg, int n);

#define DO(name, ...)                            \
	static void name(const char *arg, int n) \
	{                                        \
		(void)arg;                       \
		(void)n;                         \
		__VA_ARGS__                      \
	}
DO(do_init, cuInit(0);)
DO(do_work, work(n);)
DO(do_driver, for (int i = 0; i < n; i++) standin_launch_driver(KERNEL_A, 7);)
DO(do_threads, threads(n, atoi(strchr(arg, ':') ? strrchr(arg, ':') + 1 : arg));)
DO(do_memory, standin_allocate(0x10000, 1000, 0); standin_allocate(0x20000, 500, 0);
   standin_allocate(0x10000, 1000, 1);)
DO(do_graph, standin_graph();)
DO(do_stream, standin_stream(13, -5);)
DO(do_names, name_things();)
DO(do_event, standin_event(5, 7); standin_wait_event(5, 13);)
DO(do_inside, standin_launch_untraced(KERNEL_A, 7);)
DO(do_nodes, standin_graph_launch(KERNEL_A, n);)
DO(do_host, standin_host(called_by_cuda, 13); standin_host_node(called_by_cuda);)
DO(do_hostexit, standin_run(leaves);)
DO(do_unified, standin_unified((uint64_t)(uintptr_t)called_by_cuda);)
DO(do_streams, for (int i = 0; i < n; i++) standin_stream(1000 + i, 0);)
DO(do_kernels, many_kernels(n);)
DO(do_correlation, standin_correlation((uint32_t)strtoul(arg, NULL, 0));)
DO(do_fail, standin_fail();)
DO(do_reset, standin_reset();)
DO(do_replay, standin_replay(arg);)
DO(do_fork, forked();)
DO(do_kill, raise(SIGKILL);)
DO(do_exit, _exit(0);)
DO(do_abort, abort();)
DO(do_sleep, pause_ms(n);)
DO(do_steps, make_steps(n);)
DO(do_training, make_training_steps(n);)
DO(do_launch, for (int i = 0; i < n; i++) standin_launch(KERNEL_A, 7, 0);)
DO(do_push, if (load_nvtx()) RangePushA(&loader, arg);)
DO(do_pop, if (load_nvtx()) RangePop(&loader);)
DO(do_start, turn_profiler(n, 1);)
DO(do_stop, turn_profiler(n, 0);)
DO(do_delay, standin_delay((uint64_t)n);)
DO(do_env, printf("%s is %s\n", arg, getenv(arg) ? "set" : "not set"); fflush(stdout);)
DO(do_inner, inner();)

static void do_enabled(const char *arg, int n)
{
	int records, callbacks;

	(void)arg;
	(void)n;
	standin_count(&records, &callbacks);
	printf("enabled: %d records, %d callbacks\n", records, callbacks);
	fflush(stdout);
}

static const struct {
	const char *word;
	word_fn *fn;
} words[] = {
	{"init", do_init},
	{"work", do_work},
	{"driver", do_driver},
	{"threads", do_threads},
	{"memory", do_memory},
	{"graph", do_graph},
	{"stream", do_stream},
	{"names", do_names},
	{"event", do_event},
	{"inside", do_inside},
	{"nodes", do_nodes},
	{"host", do_host},
	{"hostexit", do_hostexit},
	{"unified", do_unified},
	{"streams", do_streams},
	{"kernels", do_kernels},
	{"correlation", do_correlation},
	{"fail", do_fail},
	{"reset", do_reset},
	{"replay", do_replay},
	{"fork", do_fork},
	{"kill", do_kill},
	{"_exit", do_exit},
	{"abort", do_abort},
	{"sleep", do_sleep},
	{"steps", do_steps},
	{"training", do_training},
	{"launch", do_launch},
	{"push", do_push},
	{"pop", do_pop},
	{"start", do_start},
	{"stop", do_stop},
	{"delay", do_delay},
	{"env", do_env},
	{"inner", do_inner},
	{"enabled", do_enabled},
};

static void follow_word(const char *what)
{
	size_t length = strcspn(what, ":");
	const char *arg = what[length] ? what + length + 1 : "";

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strlen(words[i].word) == length && !strncmp(words[i].word, what, length)) {
			words[i].fn(arg, atoi(arg));
			return;
		}
	exit(99);
}

static void follow_commands(void)
{
	char line[256];

	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = 0;
		follow_word(line);
		printf("done\n");
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (strcmp(argv[i], "commands"))
			follow_word(argv[i]);
		else
			follow_commands();
	return 0;
}
