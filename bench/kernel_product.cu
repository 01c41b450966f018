// A product of matrices in tiles, one launch, for kernel_promises.py:
//
//     nvcc -O2 -lineinfo -o kernel_product bench/kernel_product.cu
#include <cuda_runtime.h>
#include <stdio.h>

enum { TILE = 32, SIZE = 1024, BYTES = 4 * SIZE * SIZE };

__global__ void multiply(float *c, const float *a, const float *b)
{
	__shared__ float from_a[TILE][TILE], from_b[TILE][TILE];
	int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + threadIdx.y;
	float sum = 0;

	for (int k = 0; k < SIZE; k += TILE) {
		from_a[threadIdx.y][threadIdx.x] = a[y * SIZE + k + threadIdx.x];
		from_b[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * SIZE + x];
		__syncthreads();
#pragma unroll
		for (int i = 0; i < TILE; i++)
			sum += from_a[threadIdx.y][i] * from_b[i][threadIdx.x];
		__syncthreads();
	}
	c[y * SIZE + x] = sum;
}

int main()
{
	float *a, *b, *c;

	cudaMalloc(&a, BYTES);
	cudaMalloc(&b, BYTES);
	cudaMalloc(&c, BYTES);
	cudaMemset(a, 0, BYTES);
	cudaMemset(b, 0, BYTES);
	multiply<<<dim3(SIZE / TILE, SIZE / TILE), dim3(TILE, TILE)>>>(c, a, b);
	return cudaDeviceSynchronize() != cudaSuccess;
}
