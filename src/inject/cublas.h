/*
 * cublas.h - what the wrappers of cuBLAS's functions keep of their arguments; used by
 * libraries/cublas.calls. Types, operations and attributes are numbered as in library_types.h,
 * cublas_api.h and cublasLt.h of the toolkit, which is not needed to build.
 */
#ifndef WS_INJECT_CUBLAS_H
#define WS_INJECT_CUBLAS_H

#include "inject/library.h"

enum ws_cublas_type { WS_CUBLAS_C32F = 4, WS_CUBLAS_C64F = 5, WS_CUBLAS_C16F = 6 };

struct ws_cublas_types {
	int a, b, c;
};
#define WS_CUBLAS_TYPES(a, b, c) ((struct ws_cublas_types){(a), (b), (c)})

/* What a cuBLASLt descriptor says; WS_LIBRARY_NONE for what it does not say. */
struct ws_cublas_matmul {
	int64_t trans_a, trans_b, m, n, k, batch, a, b, d, compute, epilogue, flops, bytes;
};

#pragma GCC visibility push(hidden)

/* The status of a call that failed. */
static inline int64_t ws_cublas_error(int result)
{
	return result ? result : WS_LIBRARY_NONE;
}

/* A computation's type; before CUDA 11 it was a data type. */
int64_t ws_cublas_compute(int type);
/* Operations of `batch` multiplications of m x k by k x n; not known for sizes that are not valid.
 */
int64_t ws_cublas_flops(int64_t m, int64_t n, int64_t k, int64_t batch, int type);
/* Bytes of operands and results, each counted once. */
int64_t ws_cublas_bytes(int64_t m, int64_t n, int64_t k, int64_t batch,
			struct ws_cublas_types types);
int64_t ws_cublas_group_batch(int groups, const int *sizes);
int64_t ws_cublas_group_batch_64(int64_t groups, const int64_t *sizes);
int64_t ws_cublas_group_flops(int groups, const int *sizes, const int *m, const int *n,
			      const int *k, int type);
int64_t ws_cublas_group_flops_64(int64_t groups, const int64_t *sizes, const int64_t *m,
				 const int64_t *n, const int64_t *k, int type);
void ws_cublas_read_matmul(struct ws_cublas_matmul *matmul, void *description, void *a, void *b,
			   void *d);
/* The number of the algorithm that was chosen; not known where the library chooses. */
int64_t ws_cublas_lt_algorithm(const void *algo);

#pragma GCC visibility pop

#endif
