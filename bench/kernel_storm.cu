// What launches cost that are not measured, before, between and after two launches of `target`:
//
//     nvcc -O2 -o kernel_storm bench/kernel_storm.cu
//     warpsight kernel -k target -c 2 -- ./kernel_storm
//
// Prints the median of single launches of an empty kernel for each phase, in nanoseconds. The
// thread stays on one core meanwhile.
#include <cuda_runtime.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include <algorithm>
#include <vector>

enum { LAUNCHES = 20000, AT_ONCE = 500, THREADS = 256 };

__global__ void empty() {}

__global__ void target(float *p)
{
	p[blockIdx.x * blockDim.x + threadIdx.x] += 1;
}

static double now()
{
	timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

// On the core where the thread is, or, to end that, on all that it had.
static void stay(bool here)
{
	static cpu_set_t all;
	cpu_set_t one;

	if (here) {
		sched_getaffinity(0, sizeof(all), &all);
		CPU_ZERO(&one);
		CPU_SET(sched_getcpu(), &one);
	}
	sched_setaffinity(0, sizeof(all), here ? &one : &all);
}

static void measure(const char *phase)
{
	std::vector<double> spent;

	stay(true);
	for (int i = -AT_ONCE; i < LAUNCHES; i++) {
		double began = now();

		empty<<<1, 1>>>();
		if (i >= 0)
			spent.push_back(now() - began);
		if (i % AT_ONCE == 0)
			cudaDeviceSynchronize();
	}
	cudaDeviceSynchronize();
	stay(false);
	std::sort(spent.begin(), spent.end());
	printf("%s %.0f\n", phase, spent[spent.size() / 2]);
}

int main()
{
	float *p, sum = 0, host[THREADS];

	cudaMalloc(&p, sizeof(host));
	cudaMemset(p, 0, sizeof(host));
	measure("warm");
	measure("before");
	target<<<1, THREADS>>>(p);
	cudaDeviceSynchronize();
	measure("between");
	target<<<1, THREADS>>>(p);
	cudaDeviceSynchronize();
	measure("after");
	cudaMemcpy(host, p, sizeof(host), cudaMemcpyDeviceToHost);
	for (float x : host)
		sum += x;
	if (sum != 2 * THREADS || cudaGetLastError())
		return 1;
	return 0;
}
