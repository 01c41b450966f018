/*
 * ranges.cu - capture ranges of a program that has the runtime linked in: ranges N... launches that
 * many kernels by turns outside and inside of cudaProfilerStart and cudaProfilerStop, and waits for
 * none of them until its end. Each kernel runs for 0.2 ms, so that the GPU is far behind.
 */
#include <cstdio>
#include <cstdlib>
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>

__global__ void spin(long long cycles)
{
	long long from = clock64();

	while (clock64() - from < cycles)
		;
}

int main(int argc, char **argv)
{
	cudaFree(0);
	for (int i = 1; i < argc; i++) {
		if (i % 2 == 0)
			cudaProfilerStart();
		for (int n = atoi(argv[i]); n > 0; n--)
			spin<<<1, 32>>>(300000);
		if (i % 2 == 0)
			cudaProfilerStop();
	}
	cudaError_t error = cudaDeviceSynchronize();

	printf("%s\n", cudaGetErrorString(error));
	return error != cudaSuccess;
}
