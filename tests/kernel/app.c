/*
 * app.c - a program whose kernels do not give the same result when they run twice, for the kernel
 * hook on stand-ins: app [WHAT]. It prints what its memory holds at the end, how often a kernel
 * found memory that it should not have found, and how many kernels have run. STANDIN_WAY says how
 * it gets the driver's functions for launches and memory: "dlsym", "address" (cuGetProcAddress), or
 * by default as symbols.
 *
 *   capture   one launch goes into a stream that is being captured
 *   nvtx      every launch lies in ranges of NVTX
 *   threads   four threads launch at once
 *   graph     a graph of two kernels is launched at the end, twice
 *   wrong     two launches at the end with one between them that the driver refuses
 *   same      an attribute is set to what it is before each of four launches at the end; how many
 *             passes CUPTI has made before the program's end, and how often its profiler was
 *             initialised, is printed
 *   other     the same with another value
 *   told      of how many launches CUPTI has told is printed
 *   nodes     a graph of two kernels with a node between them that sets memory is launched at the
 *             end, twice
 *   host      the same with a node that calls the host
 *   fork      a child is forked after the second round, and exits
 *   ranges    only the second round lies between cuProfilerStart and cuProfilerStop
 *   freed     four launches at the end each use memory that is freed after them
 *   repeat    another round at the end lies between cuProfilerStart and cuProfilerStop, with calls
 *             of other kinds
 *   allocate  memory is allocated in it as well
 *   started   the second round lies in a start/end range
 *   differs   the kernels of the last round are launched only in the first run of the program in
 *             the folder, where it leaves a file called "was-here"
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "standin.h"
#include "warpsight/annotate.h"

/* Not a multiple of the words in which memory is compared. */
enum { LENGTH = 100001, ROUNDS = 3 };

static struct {
	__typeof__(cuLaunchKernel) *launch;
	__typeof__(cuGraphLaunch) *launch_graph;
	__typeof__(cuMemAlloc_v2) *allocate;
	__typeof__(cuMemFree_v2) *release;
	__typeof__(cuMemAllocHost_v2) *allocate_host;
} driver = {cuLaunchKernel, cuGraphLaunch, cuMemAlloc_v2, cuMemFree_v2, cuMemAllocHost_v2};

/* As a library does that is not linked with the driver, or as CUDA's runtime does. */
static int find_driver(const char *way)
{
	static const char *const names[] = {"cuLaunchKernel", "cuGraphLaunch", "cuMemAlloc_v2",
					    "cuMemFree_v2", "cuMemAllocHost_v2"};
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *function;
	__typeof__(cuGetProcAddress_v2) *find;
	char name[32];

	if (!library)
		return 1;
	function = dlsym(library, "cuGetProcAddress_v2");
	memcpy(&find, &function, sizeof(find));
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(way, "dlsym")) {
			function = dlsym(library, names[i]);
		} else {
			snprintf(name, sizeof(name), "%s", names[i]);
			*(strstr(name, "_v2") ? strstr(name, "_v2") : name + strlen(name)) = 0;
			if (find(name, &function, 13000, 0, NULL))
				return 1;
		}
		memcpy((char *)&driver + i * sizeof(void *), &function, sizeof(function));
	}
	return 0;
}

static uint64_t vector, sums, far;
static int *host;
static uint32_t counter[3] __attribute__((aligned(16)));
static unsigned surprises;

static uint32_t *at(uint64_t address)
{
	return (uint32_t *)(uintptr_t)address;
}

/* c[i] += i, and one more in the far memory, which no argument points to. The program has written
 * there which round it is. */
static void run_accumulate(void **arguments)
{
	uint32_t *c = *(uint32_t **)arguments[0];

	surprises += c[1] != at(far)[0] || at(far)[LENGTH - 1] != at(far)[0];
	for (uint32_t i = 0; i < LENGTH; i++)
		c[i] += i;
	at(far)[LENGTH - 1]++;
}

static void run_count(void **arguments)
{
	counter[1]++;
	**(int **)arguments[0] += 1;
}

static void run_count_up(void **arguments)
{
	**(int **)arguments[0] += 1;
}

static void run_read(void **arguments)
{
	(void)arguments;
}

static const size_t one[] = {8, 0};
static struct standin_kernel accumulate = {"_Z10accumulatePj", run_accumulate, one},
			     count = {"_ZN4work5countILi4EEEvPi", run_count, one},
			     count_up = {"count_up", run_count_up, one},
			     read_only = {"plain_read", run_read, one},
			     wrong = {"(wrong)", run_read, one},
			     nccl = {"_Z27ncclDevKernel_AllReduce_SumP4Args", run_count, one};

static void run_in_graph(void **arguments)
{
	(void)arguments;
	at(far)[7]++;
}

static struct standin_kernel node = {"in_graph", run_in_graph, one};
static struct standin_kernel *graph[] = {&node, &node, NULL};

/* Between them, 5 is set where the second one leaves 9. */
static void run_first(void **arguments)
{
	(void)arguments;
	surprises += at(far)[8] == 5;
	at(far)[7]++;
}

static void run_set(void **arguments)
{
	(void)arguments;
	at(far)[8] = 5;
}

static void run_second(void **arguments)
{
	(void)arguments;
	surprises += at(far)[8] != 5;
	at(far)[7] *= 2;
	at(far)[8] = 9;
	counter[1]++;
}

static struct standin_kernel first = {"first_node", run_first, one},
			     second = {"second_node", run_second, one},
			     set = {"(set)", run_set, one}, calls_host = {"(host)", run_set, one};
static struct standin_kernel *nodes[] = {&first, &set, &second, NULL},
			     *host_nodes[] = {&first, &calls_host, &second, NULL};

static void launch_nodes(void *source)
{
	void *exec;

	standin_set_at = far + 4 * 8;
	standin_set_value = 5;
	cuGraphInstantiateWithFlags(&exec, source, 0);
	cuGraphLaunch(exec, (void *)7);
	cuGraphLaunch(exec, (void *)7);
}

static void launch(struct standin_kernel *kernel, void *argument, uintptr_t stream)
{
	void *arguments[] = {&argument};

	driver.launch(kernel, 4, 2, 1, 128, 1, 1, 64, (void *)stream, arguments, NULL);
}

static void make_round(unsigned round)
{
	at(far)[0] = round;
	launch(&accumulate, at(vector), 7);
	launch(&count, host, 7);
	launch(&read_only, at(vector), 7);
}

/* As a training loop names them: round N > forward, with one of another domain in between. */
static void make_named_round(ws_domain domain, unsigned round)
{
	char name[32];

	at(far)[0] = round;
	snprintf(name, sizeof(name), "round %u", round);
	ws_range_push(name);
	ws_range_push_in(domain, ws_string_register(domain, "library"));
	ws_range_push("forward");
	launch(&accumulate, at(vector), 7);
	launch(&count, host, 7);
	ws_range_pop();
	ws_range_pop_in(domain);
	launch(&read_only, at(vector), 7);
	ws_range_pop();
}

static void *launch_some(void *argument)
{
	for (int i = 0; i < 10; i++)
		launch(&count, argument, 7);
	return NULL;
}

static void launch_at_once(void)
{
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, launch_some, host);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
}

static void use_and_free(void)
{
	for (int i = 0; i < 4; i++) {
		uint64_t memory;

		driver.allocate(&memory, 4096);
		*at(memory) = 0;
		launch(&count_up, at(memory), 7);
		surprises += *at(memory) != 1;
		driver.release(memory);
	}
}

/* A range in which the host changes what it has sent, and what it has fetched. */
static void make_range(int allocates)
{
	uint32_t round = ROUNDS, seen = 0, *values;
	uint64_t memory, more;
	unsigned *event;

	driver.allocate(&memory, 4 * 1000);
	cuEventCreate((void **)&event, 0);
	memset(at(memory), 0, 4 * 1000);
	cuProfilerStart();
	if (allocates)
		driver.allocate(&more, 64);
	cuMemcpyHtoDAsync_v2(far, &round, 4, (void *)7);
	round = 99;
	launch(&accumulate, at(vector), 7);
	cuMemcpyDtoDAsync_v2(memory, vector, 4 * 100, (void *)7);
	cuMemsetD32Async(memory + 4, 7, 2, (void *)7);
	cuEventRecord(event, (void *)7);
	cuStreamWaitEvent((void *)9, event, 0);
	launch(&count_up, at(memory + 4), 9);
	cuMemcpyDtoHAsync_v2(&seen, memory + 4, 4, (void *)9);
	cuStreamSynchronize((void *)9);
	surprises += seen != 8;
	seen = 0;
	cuProfilerStop();
	values = at(memory);
	surprises += seen || *event != 1 || at(far)[0] != ROUNDS;
	surprises += values[0] || values[1] != 8 || values[2] != 7 || values[3] != 3 * 4;
}

static int is_first_run(void)
{
	FILE *file = fopen("was-here", "rx");
	int first = !file;

	if (file)
		fclose(file);
	file = fopen("was-here", "w");
	if (file)
		fclose(file);
	return first;
}

static void fork_child(void)
{
	int status = -1;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (!child)
		exit(0);
	waitpid(child, &status, 0);
	surprises += status != 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	uint64_t sum = 0;
	ws_range_id started = 0;
	unsigned rounds = !strcmp(what, "differs") && !is_first_run() ? ROUNDS - 1 : ROUNDS;

	if ((getenv("STANDIN_WAY") && find_driver(getenv("STANDIN_WAY"))) || cuInit(0) ||
	    driver.allocate(&vector, 4 * LENGTH) || driver.allocate(&sums, 64) ||
	    driver.allocate(&far, 4 * LENGTH) || driver.allocate_host((void **)&host, 16))
		return 1;
	driver.release(sums);
	standin_allocate_nothing();
	standin_global(&counter[1], sizeof(counter[1]));
	if (getenv("STANDIN_CUBIN"))
		standin_load(getenv("STANDIN_CUBIN"));
	memset(at(vector), 0, 4 * LENGTH);
	memset(at(far), 0, 4 * LENGTH);
	for (unsigned round = 0; round < rounds; round++) {
		if (round == 1 && !strcmp(what, "ranges"))
			cuProfilerStart();
		if (round == 1 && !strcmp(what, "started"))
			started = ws_range_start("middle");
		if (!strcmp(what, "nvtx"))
			make_named_round(ws_domain_create("lib"), round);
		else
			make_round(round);
		if (round == 1 && !strcmp(what, "ranges"))
			cuProfilerStop();
		if (round == 1 && !strcmp(what, "fork"))
			fork_child();
		if (started)
			ws_range_end(started);
		started = 0;
	}
	launch(&nccl, host, 9);
	if (!strcmp(what, "capture")) {
		standin_capture((void *)5);
		launch(&count, host, 5);
	}
	if (!strcmp(what, "threads"))
		launch_at_once();
	for (int i = 0; i < 3 && !strcmp(what, "wrong"); i++)
		launch(i == 1 ? &wrong : &read_only, at(vector), 7);
	for (int i = 0; i < 4 && (!strcmp(what, "same") || !strcmp(what, "other")); i++) {
		cuFuncSetAttribute(&read_only, 8, strcmp(what, "same") ? 81 : 80);
		launch(&read_only, at(vector), 7);
	}
	if (!strcmp(what, "same") || !strcmp(what, "other"))
		printf("passes %u, %u\n", standin_passes, standin_used);
	if (!strcmp(what, "told"))
		printf("told %u\n", standin_told);
	if (!strcmp(what, "freed"))
		use_and_free();
	if (!strcmp(what, "repeat") || !strcmp(what, "allocate"))
		make_range(!strcmp(what, "allocate"));
	if (!strcmp(what, "nodes") || !strcmp(what, "host"))
		launch_nodes(strcmp(what, "host") ? nodes : host_nodes);
	for (int i = 0; i < 2 && !strcmp(what, "graph"); i++)
		driver.launch_graph(graph, (void *)7);
	for (unsigned i = 0; i < LENGTH; i++)
		sum += at(vector)[i];
	printf("sum %llu far %u graph %u counter %u host %d surprises %u runs %u\n",
	       (unsigned long long)sum, at(far)[LENGTH - 1], at(far)[7], counter[1], *host,
	       surprises, standin_runs);
	return 0;
}
