/*
 * cuda_storm.cu - what CUDA calls cost: empty kernels with a wait every 256, pairs of
 * cudaGetLastError and cudaStreamQuery, small copies, launches of a graph. Prints one line of
 * nanoseconds for each, the best and the median of several rounds. Argument: launches a round
 * (default 20,480).
 */
#include <cuda_runtime.h>
#include <algorithm>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <vector>

__global__ void empty()
{
}

static double now()
{
	timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static cudaStream_t stream;
static char *device, *host;
static cudaGraphExec_t graph;

static void launches(int n)
{
	for (int i = 0; i < n; i++) {
		empty<<<1, 1, 0, stream>>>();
		if (i % 256 == 255)
			cudaStreamSynchronize(stream);
	}
	cudaStreamSynchronize(stream);
}

static void queries(int n)
{
	for (int i = 0; i < n; i++) {
		cudaGetLastError();
		cudaStreamQuery(stream);
	}
}

static void copies(int n)
{
	for (int i = 0; i < n; i++)
		cudaMemcpyAsync(device, host, 64, cudaMemcpyHostToDevice, stream);
	cudaStreamSynchronize(stream);
}

static void graphs(int n)
{
	for (int i = 0; i < n; i++)
		cudaGraphLaunch(graph, stream);
	cudaStreamSynchronize(stream);
}

static void measure(const char *name, void (*f)(int), int n)
{
	std::vector<double> v;

	f(n / 4);
	for (int round = 0; round < 12; round++) {
		double from = now();

		f(n);
		v.push_back((now() - from) / n);
	}
	std::sort(v.begin(), v.end());
	printf("%s %.1f %.1f\n", name, v[0], v[v.size() / 2]);
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 20480;
	cudaGraph_t g;

	cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
	cudaMalloc(&device, 4096);
	cudaMallocHost(&host, 4096);
	cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
	for (int i = 0; i < 20; i++)
		empty<<<1, 1, 0, stream>>>();
	cudaStreamEndCapture(stream, &g);
	cudaGraphInstantiate(&graph, g, 0);
	measure("launch", launches, n);
	measure("query", queries, n);
	measure("copy", copies, n / 4);
	measure("graph", graphs, n / 20);
	return 0;
}
