/*
 * standin_cublas.c - a stand-in for cuBLAS and cuBLASLt: functions that launch a kernel of the
 * stand-in driver's, and descriptors that can be asked. As cuBLAS does, it multiplies by way of
 * cuBLASLt, calling its own function.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "standin.h"

enum { STREAM = 13 };

struct layout {
	uint32_t type;
	uint64_t rows, columns;
	int32_t batch;
};

struct description {
	int32_t compute, trans_a, trans_b, epilogue;
};

STANDIN_EXPORT int cublasLtMatrixLayoutGetAttribute(const struct layout *layout, int attribute,
						    void *value, size_t size, size_t *written)
{
	const struct {
		const void *at;
		size_t size;
	} values[] = {{&layout->type, 4},    {NULL, 0}, {&layout->rows, 8},
		      {&layout->columns, 8}, {NULL, 0}, {&layout->batch, 4}};

	if (attribute < 0 || attribute > 5 || !values[attribute].at ||
	    size != values[attribute].size)
		return 7;
	memcpy(value, values[attribute].at, size);
	*written = size;
	return 0;
}

STANDIN_EXPORT int cublasLtMatmulDescGetAttribute(const struct description *description,
						  int attribute, void *value, size_t size,
						  size_t *written)
{
	const int32_t *values[] = {[0] = &description->compute,
				   [3] = &description->trans_a,
				   [4] = &description->trans_b,
				   [7] = &description->epilogue};

	if (attribute < 0 || attribute > 7 || !values[attribute] || size != 4)
		return 7;
	memcpy(value, values[attribute], size);
	*written = size;
	return 0;
}

STANDIN_EXPORT int cublasLtMatmul(void *handle, const struct description *description,
				  const void *alpha, const void *A, const struct layout *a,
				  const void *B, const struct layout *b, const void *beta,
				  const void *C, const struct layout *c, void *D,
				  const struct layout *d, const void *algo, void *workspace,
				  size_t size, void *stream)
{
	standin_launch("_Z4gemmPf", STREAM, 0);
	return 0;
}

STANDIN_EXPORT int cublasSgemm_v2(void *handle, int transa, int transb, int m, int n, int k,
				  const float *alpha, const float *A, int lda, const float *B,
				  int ldb, const float *beta, float *C, int ldc)
{
	if (m < 0)
		return 7;
	return cublasLtMatmul(handle, NULL, alpha, A, NULL, B, NULL, beta, C, NULL, C, NULL, NULL,
			      NULL, 0, NULL);
}

STANDIN_EXPORT int cublasGemmStridedBatchedEx(void *handle, int transa, int transb, int m, int n,
					      int k, const void *alpha, const void *A, int Atype,
					      int lda, long long sa, const void *B, int Btype,
					      int ldb, long long sb, const void *beta, void *C,
					      int Ctype, int ldc, long long sc, int batch,
					      int compute, int algo)
{
	standin_launch("_Z4gemmPf", STREAM, 0);
	standin_launch("_Z6splitKPf", STREAM, 0);
	return 0;
}
