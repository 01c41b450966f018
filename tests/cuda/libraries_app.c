/* libraries_app.c - a program that calls the stand-ins of standin_libraries.c. */
#include <stddef.h>
#include <stdint.h>

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
int cudnnBackendCreateDescriptor(int type, void **descriptor);
int cudnnBackendDestroyDescriptor(void *descriptor);
int cudnnBackendSetAttribute(void *descriptor, int attribute, int type, int64_t count,
			     const void *elements);
int cudnnBackendGetAttribute(void *descriptor, int attribute, int type, int64_t requested,
			     int64_t *count, void *elements);
int cudnnBackendExecute(void *handle, void *plan, void *variants);
int cudnnConvolutionForward(void *handle, const void *alpha, void *x, const void *x_data,
			    void *filter, const void *w, void *convolution, int algorithm,
			    void *work, size_t work_size, const void *beta, void *y, void *y_data);
int cusparseSpMM(void *handle, int op_a, int op_b, const void *alpha, void *a, void *b,
		 const void *beta, void *c, int type, int algorithm, void *buffer);
int cusolverDnDpotrf(void *handle, int uplo, int n, void *a, int lda, void *work, int work_size,
		     int *info);
int cusolverDnXgetrf(void *handle, void *params, int64_t m, int64_t n, int type, void *a,
		     int64_t lda, int64_t *pivots, int compute, void *device, size_t device_size,
		     void *host, size_t host_size, int *info);

/* ---- cuDNN's graph interface, as its front end uses it ---- */

enum { TYPE = 1, INT64 = 3, DESCRIPTOR = 15 };

static void *make_descriptor(int type)
{
	void *made;

	cudnnBackendCreateDescriptor(type, &made);
	return made;
}

static void set_descriptor(void *of, int attribute, void *value)
{
	cudnnBackendSetAttribute(of, attribute, DESCRIPTOR, 1, &value);
}

static void set_sizes(void *of, int attribute, int count, const int64_t *sizes)
{
	cudnnBackendSetAttribute(of, attribute, INT64, count, sizes);
}

static void *make_tensor(int type, const int64_t sizes[4])
{
	void *tensor = make_descriptor(17);

	cudnnBackendSetAttribute(tensor, 901, TYPE, 1, &type);
	set_sizes(tensor, 902, 4, sizes);
	return tensor;
}

/* A plan by way of a heuristic, as plans mostly are made, or of an engine. */
static void *make_plan(void *graph, int by_engine)
{
	void *config = make_descriptor(3), *plan = make_descriptor(5), *from;
	int64_t count;

	if (by_engine) {
		from = make_descriptor(2);
		set_descriptor(from, 1300, graph);
		set_descriptor(config, 300, from);
	} else {
		from = make_descriptor(4);
		set_descriptor(from, 201, graph);
		cudnnBackendGetAttribute(from, 202, DESCRIPTOR, 1, &count, &config);
	}
	set_descriptor(plan, 401, config);
	cudnnBackendDestroyDescriptor(from);
	cudnnBackendDestroyDescriptor(config);
	return plan;
}

static void *make_graph(void **operations, int count)
{
	void *graph = make_descriptor(15);

	cudnnBackendSetAttribute(graph, 801, DESCRIPTOR, count, operations);
	return graph;
}

static void convolve(void)
{
	const int64_t x[] = {8, 6, 32, 30}, w[] = {16, 3, 5, 3}, y[] = {8, 16, 16, 15};
	const int64_t stride[] = {2, 2}, padding[] = {2, 1}, dilation[] = {1, 1};
	void *tensors[] = {make_tensor(9, x), make_tensor(9, w), make_tensor(9, y)};
	void *convolution = make_descriptor(1), *operations[2], *plans[2], *graph;
	static const int sizes[][5] = {{4, 2, 3, 9, 9}, {4, 4, 3, 3, 3}, {4, 2, 4, 5, 6}};
	int one = 1;

	set_sizes(convolution, 103, 2, stride);
	set_sizes(convolution, 105, 2, padding);
	set_sizes(convolution, 102, 2, dilation);
	operations[0] = make_descriptor(10);
	operations[1] = make_descriptor(13);
	for (int i = 0; i < 3; i++)
		set_descriptor(operations[0], (const int[]){704, 703, 705}[i], tensors[i]);
	set_descriptor(operations[0], 702, convolution);
	set_descriptor(operations[1], 751, tensors[2]);
	graph = make_graph(operations, 2);
	for (int i = 0; i < 3; i++)
		cudnnBackendDestroyDescriptor(tensors[i]);
	for (int i = 0; i < 2; i++) {
		plans[i] = make_plan(graph, i);
		cudnnBackendDestroyDescriptor(i ? convolution : graph);
		if (!i)
			graph = make_graph(operations, 1);
	}
	for (int i = 0; i < 2; i++)
		cudnnBackendExecute(NULL, plans[i], NULL);
	cudnnBackendExecute(NULL, make_descriptor(5), NULL);
	cudnnConvolutionForward(NULL, NULL, (void *)sizes[0], NULL, (void *)sizes[1], NULL, &one, 1,
				NULL, 4096, &one, (void *)sizes[2], NULL);
}

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
	convolve();
	failed |= cusparseSpMM(NULL, 0, 1, NULL, &plan, &plan, NULL, &plan, 5, 4, NULL);
	failed |= cusolverDnDpotrf(NULL, 0, 300, NULL, 304, NULL, 77, NULL);
	failed |= cusolverDnXgetrf(NULL, NULL, 60, 30, 4, NULL, 64, NULL, 4, NULL, 0, NULL, 99,
				   &plan);
	return failed;
}
