/* standin_libraries.c - a stand-in for libraries of CUDA of which a few calls are kept: cuFFT,
 * cuRAND, cuFile and nvJPEG. */
#include <stddef.h>

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
