/*
 * tail.cu - a grid that is a few blocks larger than what the GPU holds at once.
 *
 * All blocks do the same work. The eight that find no room in the first wave run alone in a second,
 * while nearly all multiprocessors are idle. Repaired: as many blocks as there is room for, each of
 * which takes its share of the values.
 */
#include "example.h"

enum { BLOCK = 1024, CHAIN = 1024, EACH = 33 };

__global__ void iterate(float *values, int n)
{
	int step = gridDim.x * blockDim.x;

	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {
		float a = values[i];

		for (int k = 0; k < CHAIN; k++)
			a = a * 0.999f + 0.001f;
		values[i] = a;
	}
}

int main()
{
	int device, sms, resident;

	CHECK(cudaGetDevice(&device));
	CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
	CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, iterate, BLOCK, 0));
	int wave = sms * resident, blocks = wave + 8, n = blocks * BLOCK * EACH;
	float *values = make_values<float>(n);

#ifdef REPAIRED
	blocks = wave;
#endif
	LAUNCH_TWICE(iterate<<<blocks, BLOCK>>>(values, n));
	print_sum(values, n, 101);
	return 0;
}
