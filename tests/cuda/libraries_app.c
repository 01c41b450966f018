/* libraries_app.c - a program that calls the stand-ins of standin_libraries.c. */
#include <stddef.h>

#include "standin.h"

int cufftXtMakePlanMany(int plan, int rank, long long *n, long long *inembed, long long istride,
			long long idist, int input, long long *onembed, long long ostride,
			long long odist, int output, long long batch, size_t *work, int execution);
int cufftPlan1d(int *plan, int nx, int type, int batch);
int cufftXtExec(int plan, void *input, void *output, int direction);
int cufftExecC2C(int plan, void *input, void *output, int direction);
int curandGenerateNormal(void *generator, void *output, size_t n, float mean, float deviation);
long cuFileRead(void *handle, void *memory, size_t size, long offset, long memory_offset);
int nvjpegDecode(void *handle, void *state, const void *data, size_t length, int format,
		 void *image, void *stream);

int main(void)
{
	enum { R32F = 0, C32F = 4, C2C = 0x29 };
	long long sizes[] = {64, 32};
	size_t work;
	int plan, failed;

	cuInit(0);
	cufftXtMakePlanMany(3, 2, sizes, NULL, 1, 1, R32F, NULL, 1, 1, C32F, 5, &work, C32F);
	cufftXtExec(3, NULL, NULL, -1);
	cufftPlan1d(&plan, 1024, C2C, 6);
	cufftExecC2C(plan, NULL, NULL, 1);
	cufftXtExec(99, NULL, NULL, -1);
	failed = curandGenerateNormal(NULL, NULL, 1000, 1.5f, 0.25f);
	cuFileRead((void *)0x10, NULL, 4096, 512, 0);
	cuFileRead((void *)0x10, NULL, 4096, -1, 0);
	nvjpegDecode(NULL, NULL, NULL, 12345, 0, NULL, NULL);
	return failed;
}
