/*
 * uncoalesced.cu - an array of structures, of which the kernel uses one member.
 *
 * Neighbouring threads read addresses 32 bytes apart: each of them needs a sector of its own, of
 * which four bytes are used. Repaired: each member has an array of its own.
 */
#include "example.h"

struct Particle {
	float x, y, z, mass, vx, vy, vz, charge;
};

__global__ void weigh(const float *values, float *result, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i >= n)
		return;
#ifdef REPAIRED
	result[i] = values[i] * 9.81f;
#else
	result[i] = reinterpret_cast<const Particle *>(values)[i].x * 9.81f;
#endif
}

/* Give each particle the same mass in both layouts. */
__global__ void prepare(float *values, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i >= n)
		return;
#ifdef REPAIRED
	values[i] = float(i % 97);
#else
	reinterpret_cast<Particle *>(values)[i] = Particle{float(i % 97)};
#endif
}

int main()
{
	const int n = 16 << 20;
	float *values, *result;

	CHECK(cudaMalloc(&values, size_t(n) * sizeof(Particle)));
	CHECK(cudaMalloc(&result, size_t(n) * sizeof(float)));
	prepare<<<n / 256, 256>>>(values, n);
	LAUNCH_TWICE(weigh<<<n / 256, 256>>>(values, result, n));
	print_sum(result, n, 1);
	return 0;
}
