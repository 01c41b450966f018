/*
 * steps_bench.cu - a program of marked steps on a GPU, for comparing runs of it.
 *
 *   steps_bench [SHARE [STEPS]]
 *
 * A step prepares data for some random time, copies it, and runs six kernels of different lengths.
 * With SHARE the kernel `attend` works that much longer: 0.05 for 5 %. nvcc -O2 -arch=native.
 */
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { FLOATS = 1 << 20, STEPS = 60 };

#define CHECK(call)                                                                          \
	do {                                                                                 \
		cudaError_t rc = (call);                                                     \
		if (rc != cudaSuccess) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(rc)); \
			exit(1);                                                             \
		}                                                                            \
	} while (0)

/* A kernel that computes `rounds` rounds on each float. */
#define KERNEL(name)                                              \
	__global__ void name(float *p, int rounds)                \
	{                                                         \
		int i = blockIdx.x * blockDim.x + threadIdx.x;    \
		float v = p[i];                                   \
                                                                  \
		for (int r = 0; r < rounds; r++)                  \
			v = v * 1.0001f + 0.5f;                   \
		p[i] = v;                                         \
	}

KERNEL(embed)
KERNEL(attend)
KERNEL(project)
KERNEL(activate)
KERNEL(normalise)
KERNEL(update)

static double read_ms()
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void prepare(float *host)
{
	double end = read_ms() + 0.1 + 0.3 * drand48();

	while (read_ms() < end)
		host[lrand48() % FLOATS] += 1;
}

int main(int argc, char **argv)
{
	double share = argc > 1 ? atof(argv[1]) : 0, start = 0;
	int steps = argc > 2 ? atoi(argv[2]) : STEPS;
	float *host, *p;
	char name[32];

	srand48(time(NULL) ^ (long)(read_ms() * 1e3));
	CHECK(cudaMallocHost(&host, FLOATS * sizeof(float)));
	CHECK(cudaMalloc(&p, FLOATS * sizeof(float)));
	for (int i = 0; i < steps; i++) {
		if (i == 4)
			start = read_ms();
		snprintf(name, sizeof(name), "step %d", i);
		nvtxRangePushA(name);
		prepare(host);
		CHECK(cudaMemcpyAsync(p, host, FLOATS * sizeof(float), cudaMemcpyHostToDevice));
		embed<<<FLOATS / 256, 256>>>(p, 300);
		attend<<<FLOATS / 256, 256>>>(p, (int)(4000 * (1 + share)));
		project<<<FLOATS / 256, 256>>>(p, 1500);
		activate<<<FLOATS / 256, 256>>>(p, 100);
		normalise<<<FLOATS / 256, 256>>>(p, 700);
		update<<<FLOATS / 256, 256>>>(p, 2500);
		CHECK(cudaDeviceSynchronize());
		nvtxRangePop();
	}
	printf("%.3f ms a step\n", (read_ms() - start) / (steps - 4));
	return 0;
}
