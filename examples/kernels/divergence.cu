/*
 * divergence.cu - each thread takes a branch by its number.
 *
 * The eight branches of neighbouring threads are executed one after the other, each with an eighth
 * of the threads. Repaired: the threads of a warp take the same branch.
 */
#include "example.h"

enum { BLOCK = 256, CHAIN = 256, KINDS = 8 };

__device__ float evaluate(int kind, float a)
{
	switch (kind) {
	case 0:
		for (int k = 0; k < CHAIN; k++)
			a = a * 0.5f + 0.5f;
		return a;
	case 1:
		for (int k = 0; k < CHAIN; k++)
			a = a * a * 0.25f + 0.125f;
		return a;
	case 2:
		for (int k = 0; k < CHAIN; k++)
			a = fabsf(a - 0.75f) * 0.5f;
		return a;
	case 3:
		for (int k = 0; k < CHAIN; k++)
			a = fmaxf(a * 0.9f, 0.1f) + 0.01f;
		return a;
	case 4:
		for (int k = 0; k < CHAIN; k++)
			a = (a + 0.1f) * (a + 0.2f) * 0.3f;
		return a;
	case 5:
		for (int k = 0; k < CHAIN; k++)
			a = fminf(a * 0.9f, 0.8f) + 0.05f;
		return a;
	case 6:
		for (int k = 0; k < CHAIN; k++)
			a = a * 0.25f - a * a * 0.125f + 0.5f;
		return a;
	default:
		for (int k = 0; k < CHAIN; k++)
			a = (1 - a) * 0.7f;
		return a;
	}
}

__global__ void branch(float *values, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x, kind;

	if (i >= n)
		return;
#ifdef REPAIRED
	kind = threadIdx.x / 32 % KINDS;
#else
	kind = threadIdx.x % KINDS;
#endif
	values[i] = evaluate(kind, values[i]);
}

int main()
{
	const int n = 8 << 20;
	float *values = make_values<float>(n);

	LAUNCH_TWICE(branch<<<n / BLOCK, BLOCK>>>(values, n));
	print_sum(values, n, 1);
	return 0;
}
