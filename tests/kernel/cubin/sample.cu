// small kernels for tests of source attribution: an inlined function, a loop, shared memory
#include <cstdio>
__device__ __forceinline__ float scale(float x, float f)
{
	return x * f + 1.0f;
}
__device__ __noinline__ float twist(float x)
{
	return __sinf(x) * x;
}
__global__ void small(const float *a, float *b, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		b[i] = scale(a[i], 2.0f);
}
__global__ void strided(const float *a, float *b, int n)
{
	__shared__ float tile[32][32];
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	tile[threadIdx.x % 32][threadIdx.x / 32] = a[(size_t)i * 8 % n];
	__syncthreads();
	float sum = 0;
	for (int j = 0; j < 32; j++)
		sum += tile[threadIdx.x % 32][j];
	if (threadIdx.x % 3 == 0)
		sum = twist(sum);
	b[i] = scale(sum, 3.0f);
}
int main()
{
	const int n = 1 << 22;
	float *a, *b;
	cudaMalloc(&a, n * 4);
	cudaMalloc(&b, n * 4);
	cudaMemset(a, 0, n * 4);
	for (int i = 0; i < 3; i++) {
		small<<<128, 256>>>(a, b, 32768);
		strided<<<n / 1024, 1024>>>(a, b, n);
	}
	float x = 0;
	cudaMemcpy(&x, b, 4, cudaMemcpyDeviceToHost);
	printf("%g %s\n", x, cudaGetErrorString(cudaDeviceSynchronize()));
}
