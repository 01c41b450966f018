/*
 * many_streams.cu - eight arrays are normalised, each by three kernels: sums of parts, their sum,
 * and a division of every element.
 *
 *   many_streams one       all arrays in one stream
 *   many_streams eight     each array in a stream of its own: nine streams with the default one
 *
 * The kernels of eight streams run side by side, and a step takes nearly as long as before: each of
 * the large kernels fills the GPU by itself. See docs/tutorial/many-streams.md.
 */
#include "steps.h"

enum { ARRAYS = 8, FLOATS = 8 << 20, STEPS = 20, ROUNDS = 400, THREADS = 256, PARTS = 2112 };

struct Array {
	float *values, *parts, *sum;
	cudaStream_t stream;
};

static Array arrays[ARRAYS];

/* The sum of a block's values; known to its first thread. */
__device__ float add_up_block(float value)
{
	__shared__ float values[THREADS];

	values[threadIdx.x] = value;
	__syncthreads();
	for (int half = THREADS / 2; half; half /= 2) {
		if (threadIdx.x < half)
			values[threadIdx.x] += values[threadIdx.x + half];
		__syncthreads();
	}
	return values[0];
}

/* Each of PARTS blocks weighs its share of the array, in `rounds` rounds, and adds it up. */
__global__ void reduce_parts(const float *values, int n, int rounds, float *parts)
{
	float sum = 0;

	for (int i = blockIdx.x * THREADS + threadIdx.x; i < n; i += PARTS * THREADS) {
		float v = values[i];

		for (int r = 0; r < rounds; r++)
			v = v * 0.9999f + 0.0001f;
		sum += v;
	}
	sum = add_up_block(sum);
	if (!threadIdx.x)
		parts[blockIdx.x] = sum;
}

/* One block adds up what the others found. */
__global__ void add_parts(const float *parts, float *result)
{
	float sum = 0;

	for (int i = threadIdx.x; i < PARTS; i += THREADS)
		sum += parts[i];
	sum = add_up_block(sum);
	if (!threadIdx.x)
		*result = sum;
}

__global__ void divide_by(float *values, int n, const float *sum)
{
	int i = blockIdx.x * THREADS + threadIdx.x;

	if (i < n)
		values[i] = values[i] / *sum * (float)n;
}

static void normalise_arrays(int)
{
	for (auto &a : arrays) {
		reduce_parts<<<PARTS, THREADS, 0, a.stream>>>(a.values, FLOATS, ROUNDS, a.parts);
		add_parts<<<1, THREADS, 0, a.stream>>>(a.parts, a.sum);
		divide_by<<<(FLOATS + THREADS - 1) / THREADS, THREADS, 0, a.stream>>>(
			a.values, FLOATS, a.sum);
	}
	CHECK(cudaDeviceSynchronize());
}

__global__ void fill(float *values, int n, float value)
{
	int i = blockIdx.x * THREADS + threadIdx.x;

	if (i < n)
		values[i] = value;
}

static void make_arrays(int streams)
{
	for (int i = 0; i < ARRAYS; i++) {
		Array &a = arrays[i];

		CHECK(cudaMalloc(&a.values, FLOATS * sizeof(float)));
		CHECK(cudaMalloc(&a.parts, PARTS * sizeof(float)));
		CHECK(cudaMalloc(&a.sum, sizeof(float)));
		fill<<<FLOATS / THREADS, THREADS>>>(a.values, FLOATS, (float)(i + 1));
		if (i < streams)
			CHECK(cudaStreamCreateWithFlags(&a.stream, cudaStreamNonBlocking));
		else
			a.stream = arrays[i % streams].stream;
	}
	CHECK(cudaDeviceSynchronize());
}

int main(int argc, char **argv)
{
	const char *version = argc > 1 ? argv[1] : "";
	float first;

	if (strcmp(version, "one") && strcmp(version, "eight")) {
		fprintf(stderr, "usage: many_streams one|eight\n");
		return 2;
	}
	make_arrays(strcmp(version, "one") ? ARRAYS : 1);
	time_steps(version, STEPS, normalise_arrays);
	CHECK(cudaMemcpy(&first, arrays[0].values, sizeof(first), cudaMemcpyDeviceToHost));
	printf("the mean is %g\n", first);
	return 0;
}
