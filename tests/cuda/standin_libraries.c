/* standin_libraries.c - a stand-in for libraries of CUDA of which a few calls are kept: cuFFT,
 * cuRAND, cuFile, nvJPEG, cuDNN, cuSPARSE and cuSOLVER. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "standin.h"

STANDIN_EXPORT int cufftXtMakePlanMany(int plan, int rank, long long *n, long long *inembed,
				       long long istride, long long idist, int input,
				       long long *onembed, long long ostride, long long odist,
				       int output, long long batch, size_t *work, int execution)
{
	return 0;
}

STANDIN_EXPORT int cufftPlan1d(int *plan, int nx, int type, int batch)
{
	*plan = 7;
	return nx < 1 ? 8 : 0;
}

STANDIN_EXPORT int cufftXtExec(int plan, void *input, void *output, int direction)
{
	standin_launch("_Z9transformPf", 7, 0);
	return 0;
}

STANDIN_EXPORT int cufftExecC2C(int plan, void *input, void *output, int direction)
{
	standin_launch("_Z9transformPf", 7, 0);
	return 0;
}

STANDIN_EXPORT int curandGenerateNormal(void *generator, void *output, size_t n, float mean,
					float deviation)
{
	return mean == 1.5f && deviation == 0.25f ? 0 : 999;
}

STANDIN_EXPORT long cuFileRead(void *handle, void *memory, size_t size, long offset,
			       long memory_offset)
{
	return offset < 0 ? -1 : (long)size / 2;
}

STANDIN_EXPORT int nvjpegDecode(void *handle, void *state, const void *data, size_t length,
				int format, void *image, void *stream)
{
	return 0;
}

/* ---- cuDNN's graph interface: descriptors are only handed out ---- */

STANDIN_EXPORT int cudnnBackendCreateDescriptor(int type, void **descriptor)
{
	*descriptor = malloc(16);
	return 0;
}

STANDIN_EXPORT int cudnnBackendDestroyDescriptor(void *descriptor)
{
	free(descriptor);
	return 0;
}

STANDIN_EXPORT int cudnnBackendSetAttribute(void *descriptor, int attribute, int type,
					    int64_t count, const void *elements)
{
	return count < 0 ? 9 : 0;
}

STANDIN_EXPORT int cudnnBackendGetAttribute(void *descriptor, int attribute, int type,
					    int64_t requested, int64_t *count, void *elements)
{
	*count = requested;
	return 0;
}

STANDIN_EXPORT int cudnnBackendExecute(void *handle, void *plan, void *variants)
{
	standin_launch("_Z4convPf", 7, 0);
	return 0;
}

/* ---- cuDNN's older interface: a descriptor is an array of its sizes ---- */

STANDIN_EXPORT int cudnnGetTensorNdDescriptor(void *descriptor, int wanted, int *type, int *count,
					      int *sizes, int *strides)
{
	const int *from = descriptor;

	*type = 2;
	*count = from[0];
	memcpy(sizes, from + 1, (size_t)from[0] * sizeof(int));
	return 0;
}

STANDIN_EXPORT int cudnnGetFilterNdDescriptor(void *descriptor, int wanted, int *type, int *format,
					      int *count, int *sizes)
{
	*format = 0;
	return cudnnGetTensorNdDescriptor(descriptor, wanted, type, count, sizes, NULL);
}

STANDIN_EXPORT int cudnnGetConvolutionNdDescriptor(void *descriptor, int wanted, int *count,
						   int *paddings, int *strides, int *dilations,
						   int *mode, int *type)
{
	*count = 2;
	for (int i = 0; i < 2; i++) {
		paddings[i] = 1 + i;
		strides[i] = 2;
		dilations[i] = 1;
	}
	return 0;
}

STANDIN_EXPORT int cudnnConvolutionForward(void *handle, const void *alpha, void *x,
					   const void *x_data, void *filter, const void *w,
					   void *convolution, int algorithm, void *work,
					   size_t work_size, const void *beta, void *y,
					   void *y_data)
{
	return work_size == 4096 && beta ? 0 : 3;
}

/* ---- cuSPARSE and cuSOLVER ---- */

STANDIN_EXPORT int cusparseSpMatGetSize(void *matrix, int64_t *rows, int64_t *columns,
					int64_t *nonzeros)
{
	*rows = 100;
	*columns = 80;
	*nonzeros = 500;
	return 0;
}

STANDIN_EXPORT int cusparseDnMatGet(void *matrix, int64_t *rows, int64_t *columns, int64_t *leading,
				    void **values, int *type, int *order)
{
	*rows = 100;
	*columns = 30;
	return 0;
}

STANDIN_EXPORT int cusparseSpMM(void *handle, int op_a, int op_b, const void *alpha, void *a,
				void *b, const void *beta, void *c, int type, int algorithm,
				void *buffer)
{
	return algorithm == 4 ? 0 : 3;
}

STANDIN_EXPORT int cusolverDnDpotrf(void *handle, int uplo, int n, void *a, int lda, void *work,
				    int work_size, int *info)
{
	return work_size == 77 ? 0 : 3;
}

STANDIN_EXPORT int cusolverDnXgetrf(void *handle, void *params, int64_t m, int64_t n, int type,
				    void *a, int64_t lda, int64_t *pivots, int compute,
				    void *device, size_t device_size, void *host, size_t host_size,
				    int *info)
{
	return host_size == 99 && info ? 0 : 3;
}
