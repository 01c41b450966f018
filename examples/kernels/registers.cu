/*
 * registers.cu - a thread that keeps so much in registers that few warps fit.
 *
 * Each warp follows a chain through memory and mostly waits; only other warps could work meanwhile.
 * 160 sums, updated at each step, take so many registers that two blocks fill a multiprocessor.
 * Repaired: the eight values are kept, and the sums are made of them one after the other.
 */
#include "example.h"

enum { BLOCK = 128, SUMS = 160, STEPS = 8, LANES = 32 };

__global__ void __launch_bounds__(BLOCK) follow(const int *next, const float *values, float *result)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x, at = i / LANES, lane = i % LANES;
	float total = 0;

#ifdef REPAIRED
	float kept[STEPS];

#pragma unroll
	for (int step = 0; step < STEPS; step++) {
		at = next[at];
		kept[step] = values[at * LANES + lane];
	}
#pragma unroll 4
	for (int k = 0; k < SUMS; k++) {
		float sum = float(k);

#pragma unroll
		for (int step = 0; step < STEPS; step++)
			sum = sum * kept[step] + float(k);
		total += sum;
	}
#else
	float sums[SUMS];

#pragma unroll
	for (int k = 0; k < SUMS; k++)
		sums[k] = float(k);
#pragma unroll 1
	for (int step = 0; step < STEPS; step++) {
		at = next[at];
		float value = values[at * LANES + lane];

#pragma unroll
		for (int k = 0; k < SUMS; k++)
			sums[k] = sums[k] * value + float(k);
	}
#pragma unroll
	for (int k = 0; k < SUMS; k++)
		total += sums[k];
#endif
	result[i] = total;
}

__global__ void prepare(int *next, unsigned n)
{
	unsigned i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		next[i] = int((i * 1664525u + 1013904223u) % n);
}

int main()
{
	const int places = 1 << 20, n = LANES << 15;
	float *values = make_values<float>(size_t(places) * LANES), *result;
	int *next;

	CHECK(cudaMalloc(&next, places * sizeof(int)));
	CHECK(cudaMalloc(&result, n * sizeof(float)));
	prepare<<<places / 256, 256>>>(next, places);
	LAUNCH_TWICE(follow<<<n / BLOCK, BLOCK>>>(next, values, result));
	print_sum(result, n, 1);
	return 0;
}
