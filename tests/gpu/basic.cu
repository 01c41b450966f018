/*
 * basic.cu - a bit of everything, in numbers that check.py knows: kernels on several streams,
 * copies of all kinds, memory sets, events, waits, a graph, calls that fail. Arguments: what to do
 * beyond that: kill, _exit, reset, threads, managed, hostfunc, green, forever.
 */
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <nvtx3/nvToolsExtCudaRt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nvtx.h"

#define CHECK(call)                                                                 \
	do {                                                                        \
		cudaError_t rc = (call);                                            \
		if (rc != cudaSuccess) {                                            \
			fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(rc)); \
			exit(3);                                                    \
		}                                                                   \
	} while (0)

namespace outer
{
template <typename T> __global__ void scale(T *p, int n, T by)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		p[i] *= by;
}
} // namespace outer

__global__ void spin(long long cycles)
{
	long long from = clock64();

	while (clock64() - from < cycles)
		;
}

__global__ void shared(float *p)
{
	__shared__ float s[1024];
	extern __shared__ float d[];

	s[threadIdx.x] = p[threadIdx.x];
	d[threadIdx.x] = s[threadIdx.x];
	__syncthreads();
	p[threadIdx.x] = d[blockDim.x - 1 - threadIdx.x];
}

enum { N = 1 << 20, LAUNCHES = 100 };
static float *device, *pinned, *pageable;
static cudaStream_t streams[3];

static void kernels(void)
{
	nvtx_push("kernels");
	for (int i = 0; i < LAUNCHES; i++)
		outer::scale<float><<<N / 256, 256, 0, streams[i % 3]>>>(device, N, 1.5f);
	shared<<<4, 1024, 8192, streams[0]>>>(device);
	for (int i = 0; i < 10; i++)
		spin<<<1, 1, 0, streams[1]>>>(200000);
	CHECK(cudaDeviceSynchronize());
	nvtx_pop();
}

static void copies(void)
{
	nvtx_push("copies");
	CHECK(cudaMemcpy(device, pageable, N * sizeof(float), cudaMemcpyHostToDevice));
	CHECK(cudaMemcpy(pageable, device, N * sizeof(float), cudaMemcpyDeviceToHost));
	for (int i = 0; i < 5; i++)
		CHECK(cudaMemcpyAsync(device, pinned, N * sizeof(float), cudaMemcpyHostToDevice,
				      streams[0]));
	CHECK(cudaMemcpyAsync(device + N, device, N * sizeof(float), cudaMemcpyDeviceToDevice,
			      streams[0]));
	CHECK(cudaMemsetAsync(device, 0x3f, 4096, streams[0]));
	CHECK(cudaMemset(device, 0, N * sizeof(float)));
	CHECK(cudaStreamSynchronize(streams[0]));
	nvtx_pop();
}

static void events(void)
{
	cudaEvent_t e;

	CHECK(cudaEventCreate(&e));
	CHECK(cudaEventRecord(e, streams[0]));
	CHECK(cudaStreamWaitEvent(streams[1], e, 0));
	CHECK(cudaEventSynchronize(e));
	CHECK(cudaEventDestroy(e));
}

static void graphs(int launches)
{
	cudaGraph_t graph;
	cudaGraphExec_t exec;

	CHECK(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeGlobal));
	for (int i = 0; i < 20; i++)
		outer::scale<double><<<4, 64, 0, streams[0]>>>((double *)device, 256, 1.0);
	CHECK(cudaMemcpyAsync(device + N, device, 4096, cudaMemcpyDeviceToDevice, streams[0]));
	CHECK(cudaStreamEndCapture(streams[0], &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	nvtx_push("graph");
	for (int i = 0; i < launches; i++)
		CHECK(cudaGraphLaunch(exec, streams[0]));
	CHECK(cudaStreamSynchronize(streams[0]));
	nvtx_pop();
	CHECK(cudaGraphExecDestroy(exec));
	CHECK(cudaGraphDestroy(graph));
}

static void failures(void)
{
	void *p;

	cudaMalloc(&p, (size_t)1 << 50); /* no machine has that */
	cudaGetLastError();
	outer::scale<float><<<1, 4096>>>(device, N, 1.0f); /* too many threads */
	cudaGetLastError();
}

static void *worker(void *)
{
	cudaStream_t s;

	CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	for (int i = 0; i < 500; i++)
		outer::scale<float><<<1, 32, 0, s>>>(device, 32, 1.0f);
	CHECK(cudaStreamSynchronize(s));
	return NULL;
}

static void threads(void)
{
	pthread_t t[8];

	for (int i = 0; i < 8; i++)
		pthread_create(&t[i], NULL, worker, NULL);
	for (int i = 0; i < 8; i++)
		pthread_join(t[i], NULL);
}

static void managed(void)
{
	float *p;

	CHECK(cudaMallocManaged(&p, 8 << 20));
	for (int i = 0; i < 2 << 20; i += 1024)
		p[i] = 1;
	outer::scale<float><<<(2 << 20) / 256, 256>>>(p, 2 << 20, 2.0f);
	CHECK(cudaDeviceSynchronize());
	if (p[1024] != 2)
		exit(4);
	CHECK(cudaFree(p));
}

static void CUDART_CB on_host(void *calls)
{
	++*(int *)calls;
}

static void host_functions(void)
{
	int calls = 0;

	for (int i = 0; i < 7; i++)
		CHECK(cudaLaunchHostFunc(streams[1], on_host, &calls));
	CHECK(cudaStreamSynchronize(streams[1]));
	if (calls != 7)
		exit(4);
}

/* Functions of the driver by name: nothing is linked to it. */
#define DRIVER(name) auto p_##name = (decltype(&name))dlsym(lib, #name)
#define DRIVER_CHECK(call)                                        \
	do {                                                      \
		if (call) {                                       \
			printf("no green contexts: %s\n", #call); \
			return;                                   \
		}                                                 \
	} while (0)

/* Kernels on a part of the multiprocessors. */
static void green(void)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);
	DRIVER(cuDeviceGetDevResource);
	DRIVER(cuDevSmResourceSplitByCount);
	DRIVER(cuDevResourceGenerateDesc);
	DRIVER(cuGreenCtxCreate);
	DRIVER(cuGreenCtxStreamCreate);
	CUdevResource all, part;
	CUdevResourceDesc description;
	CUgreenCtx context;
	CUstream stream;
	unsigned parts = 1;

	DRIVER_CHECK(!p_cuGreenCtxStreamCreate);
	DRIVER_CHECK(p_cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM));
	DRIVER_CHECK(p_cuDevSmResourceSplitByCount(&part, &parts, &all, NULL, 0, 16));
	DRIVER_CHECK(p_cuDevResourceGenerateDesc(&description, &part, 1));
	DRIVER_CHECK(p_cuGreenCtxCreate(&context, description, 0, CU_GREEN_CTX_DEFAULT_STREAM));
	DRIVER_CHECK(p_cuGreenCtxStreamCreate(&stream, context, CU_STREAM_NON_BLOCKING, 0));
	for (int i = 0; i < 10; i++)
		outer::scale<int><<<64, 64, 0, stream>>>((int *)device, 4096, 1);
	CHECK(cudaStreamSynchronize(stream));
	printf("green\n");
}

/* A steady stream of launches, for killing: prints how many were launched and waited for. */
static void forever(void)
{
	for (long i = 0;; i++) {
		outer::scale<float><<<1, 32, 0, streams[0]>>>(device, 32, 1.0f);
		if (i % 1000 == 999) {
			CHECK(cudaStreamSynchronize(streams[0]));
			printf("%ld\n", i + 1);
			fflush(stdout);
		}
	}
}

static void extra(const char *what)
{
	if (!strcmp(what, "kill")) {
		usleep(150000); /* what is lost is younger than 100 ms */
		raise(SIGKILL);
	} else if (!strcmp(what, "_exit"))
		_exit(0);
	else if (!strcmp(what, "reset"))
		CHECK(cudaDeviceReset());
	else if (!strcmp(what, "threads"))
		threads();
	else if (!strcmp(what, "managed"))
		managed();
	else if (!strcmp(what, "hostfunc"))
		host_functions();
	else if (!strcmp(what, "green"))
		green();
	else if (!strcmp(what, "forever"))
		forever();
	else if (!strcmp(what, "fork") && !fork())
		exit(0);
}

int main(int argc, char **argv)
{
	int low, high;

	CHECK(cudaDeviceGetStreamPriorityRange(&low, &high));
	CHECK(cudaStreamCreate(&streams[0]));
	CHECK(cudaStreamCreateWithFlags(&streams[1], cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithPriority(&streams[2], cudaStreamNonBlocking, high));
	nvtxNameCudaStreamA(streams[2], "urgent");
	CHECK(cudaMalloc(&device, 2 * N * sizeof(float)));
	CHECK(cudaMallocHost(&pinned, N * sizeof(float)));
	pageable = (float *)calloc(N, sizeof(float));
	kernels();
	copies();
	events();
	graphs(50);
	failures();
	for (int i = 1; i < argc; i++)
		extra(argv[i]);
	return 0;
}
