/*
 * launches.cu - a program bound by launches, and the same work as a CUDA graph. Each step is twenty
 * small kernels; launched one by one the GPU waits for the CPU between them (see
 * cuda_kern_exec_sum: the queue times are near zero and the kernels shorter than the calls), as a
 * graph one call starts them all. With --cuda-graph-trace=node the kernels of the graph are
 * recorded one by one too.
 */
#include "common.h"

enum { N = 4096, KERNELS = 20, STEPS = 500 };

__global__ void small(float *p, float by)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < N)
		p[i] = p[i] * by + 1.0f;
}

static void step(float *p, cudaStream_t s)
{
	for (int i = 0; i < KERNELS; i++)
		small<<<N / 256, 256, 0, s>>>(p, 0.5f);
}

int main()
{
	cudaGraphExec_t exec;
	cudaGraph_t graph;
	cudaStream_t s;
	float *p;

	CHECK(cudaMalloc(&p, N * sizeof(float)));
	CHECK(cudaMemset(p, 0, N * sizeof(float)));
	CHECK(cudaStreamCreate(&s));
	step(p, s);
	CHECK(cudaStreamSynchronize(s));
	{
		Range range("one by one");

		for (int i = 0; i < STEPS; i++)
			step(p, s);
		CHECK(cudaStreamSynchronize(s));
	}
	CHECK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
	step(p, s);
	CHECK(cudaStreamEndCapture(s, &graph));
	CHECK(cudaGraphInstantiate(&exec, graph, 0));
	{
		Range range("as a graph");

		for (int i = 0; i < STEPS; i++)
			CHECK(cudaGraphLaunch(exec, s));
		CHECK(cudaStreamSynchronize(s));
	}
	return 0;
}
