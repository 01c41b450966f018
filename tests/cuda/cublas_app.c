/* cublas_app.c - a program that multiplies matrices by the stand-in for cuBLAS. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "../nvtx/loader.h"
#include "standin.h"

struct loader *loader_now;

struct layout {
	uint32_t type;
	uint64_t rows, columns;
	int32_t batch;
};

struct description {
	int32_t compute, trans_a, trans_b, epilogue;
};

int cublasSgemm_v2(void *handle, int transa, int transb, int m, int n, int k, const float *alpha,
		   const float *A, int lda, const float *B, int ldb, const float *beta, float *C,
		   int ldc);
int cublasGemmStridedBatchedEx(void *handle, int transa, int transb, int m, int n, int k,
			       const void *alpha, const void *A, int Atype, int lda, long long sa,
			       const void *B, int Btype, int ldb, long long sb, const void *beta,
			       void *C, int Ctype, int ldc, long long sc, int batch, int compute,
			       int algo);
int cublasLtMatmul(void *handle, void *description, const void *alpha, const void *A, void *a,
		   const void *B, void *b, const void *beta, const void *C, void *c, void *D,
		   void *d, const void *algo, void *workspace, size_t size, void *stream);

static struct loader loader;
static void *domain;

static void open_domain(void)
{
	const char *path = getenv("NVTX_INJECTION64_PATH");
	void *hook = path ? dlopen(path, RTLD_NOW) : NULL;

	loader_init(&loader);
	if (hook && loader_attach(&loader, hook) == 1)
		domain = DomainCreateA(&loader, "cuBLAS");
}

/* What the library says of its calls from `first` on, all but the first of which the wrapper has
 * recorded, or will when they return. */
static void say_calls(int first)
{
	struct nx_event event;

	for (int i = first; domain && i < 3; i++) {
		event = event_registered(DomainRegisterStringA(
			&loader, domain, i ? "cublasSgemm_v2" : "cublasCreate_v2"));
		DomainPushEx(&loader, domain, &event);
		DomainPop(&loader, domain);
	}
}

int main(void)
{
	enum { FP16 = 2, BF16 = 14, FP32 = 0, COMPUTE_FP32 = 68, GELU_BIAS = 36 };
	struct layout a = {FP16, 512, 128, 1}, b = {FP16, 512, 33, 1}, d = {FP16, 128, 33, 1};
	struct description description = {COMPUTE_FP32, 1, 0, GELU_BIAS};
	float one = 1;
	int failed;

	cuInit(0);
	open_domain();
	say_calls(2);
	for (int i = 0; i < 3; i++)
		cublasSgemm_v2(NULL, 1, 0, 500, 300, 200, &one, NULL, 200, NULL, 200, &one, NULL,
			       500);
	cublasGemmStridedBatchedEx(NULL, 0, 2, 64, 32, 16, &one, NULL, BF16, 64, 1024, NULL, BF16,
				   32, 512, &one, NULL, FP32, 64, 2048, 7, COMPUTE_FP32, 99);
	cublasLtMatmul(NULL, &description, &one, NULL, &a, NULL, &b, &one, NULL, &d, NULL, &d, NULL,
		       NULL, 0, NULL);
	failed = cublasSgemm_v2(NULL, 0, 0, -1, 2, 3, &one, NULL, 1, NULL, 1, &one, NULL, 1);
	standin_launch("_Z6vectorIfEvPT_S1_i", 7, 0);
	say_calls(0);
	return failed != 7;
}
