/* example.h - what the examples of kernels share: errors, memory, and one launch to warm up before
 * the one to measure. A program prints a checksum: the fault and its repair print the same. */
#ifndef EXAMPLES_KERNELS_EXAMPLE_H
#define EXAMPLES_KERNELS_EXAMPLE_H

#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <vector>

#define CHECK(call)                                                        \
	do {                                                               \
		cudaError_t rc = (call);                                   \
		if (rc != cudaSuccess) {                                   \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, \
				cudaGetErrorString(rc));                   \
			exit(1);                                           \
		}                                                          \
	} while (0)

/* Device memory of `n` values, filled with small numbers that repeat. */
template <typename T> T *make_values(size_t n)
{
	std::vector<T> host(n);
	T *device;

	for (size_t i = 0; i < n; i++)
		host[i] = T((i * 7 + 3) % 101) / T(101);
	CHECK(cudaMalloc(&device, n * sizeof(T)));
	CHECK(cudaMemcpy(device, host.data(), n * sizeof(T), cudaMemcpyHostToDevice));
	return device;
}

/* Print the sum of every `step`th of `n` values. */
template <typename T> void print_sum(const T *device, size_t n, size_t step)
{
	std::vector<T> host(n);
	double sum = 0;

	CHECK(cudaMemcpy(host.data(), device, n * sizeof(T), cudaMemcpyDeviceToHost));
	for (size_t i = 0; i < n; i += step)
		sum += double(host[i]);
	printf("sum %.6g\n", sum);
}

/* Launch twice, as programs do; profilers take the second with --launch-skip 1. */
#define LAUNCH_TWICE(...)                          \
	do {                                       \
		for (int i = 0; i < 2; i++) {      \
			__VA_ARGS__;               \
			CHECK(cudaGetLastError()); \
		}                                  \
		CHECK(cudaDeviceSynchronize());    \
	} while (0)

#endif
