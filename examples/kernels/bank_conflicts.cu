/*
 * bank_conflicts.cu - a transposition through shared memory.
 *
 * A column of a tile of 32 x 32 floats lies in one bank of 32: its 32 values are read one after the
 * other. Repaired: rows are one float longer, so that a column lies in all banks.
 */
#include "example.h"

#ifdef REPAIRED
enum { TILE = 32, ROW = TILE + 1 };
#else
enum { TILE = 32, ROW = TILE };
#endif

__global__ void transpose(const float *in, float *out, int n)
{
	__shared__ float tile[TILE][ROW];
	int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;

	for (int i = 0; i < TILE; i += 8)
		tile[threadIdx.y + i][threadIdx.x] = in[size_t(y + i) * n + x];
	__syncthreads();
	x = blockIdx.y * TILE + threadIdx.x;
	y = blockIdx.x * TILE + threadIdx.y;
	for (int i = 0; i < TILE; i += 8)
		out[size_t(y + i) * n + x] = tile[threadIdx.x][threadIdx.y + i];
}

int main()
{
	const int n = 4096;
	float *in = make_values<float>(size_t(n) * n), *out;
	dim3 grid(n / TILE, n / TILE), block(TILE, 8);

	CHECK(cudaMalloc(&out, size_t(n) * n * sizeof(float)));
	LAUNCH_TWICE(transpose<<<grid, block>>>(in, out, n));
	print_sum(out, size_t(n) * n, 3);
	return 0;
}
