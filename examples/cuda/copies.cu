/*
 * copies.cu - a batch is copied to the GPU and computed on, in each step.
 *
 *   copies pageable     from ordinary memory: the driver copies it to its own memory first
 *   copies pinned       from page-locked memory, which the GPU reads itself
 *   copies overlapped   the next batch, on a stream of its own, while the GPU computes this one
 *
 * See docs/tutorial/copies.md.
 */
#include "steps.h"

enum { FLOATS = 16 << 20, STEPS = 20, ROUNDS = 3000 };

static const size_t bytes = FLOATS * sizeof(float);
static float *host, *batches[2];
static cudaStream_t computing, copying;

static void compute_batch(float *batch)
{
	compute<<<FLOATS / 256, 256, 0, computing>>>(batch, FLOATS, ROUNDS);
}

static void copy_then_compute(int)
{
	CHECK(cudaMemcpyAsync(batches[0], host, bytes, cudaMemcpyHostToDevice, computing));
	compute_batch(batches[0]);
	CHECK(cudaStreamSynchronize(computing));
}

static void copy_ahead(int step)
{
	CHECK(cudaMemcpyAsync(batches[(step + 1) % 2], host, bytes, cudaMemcpyHostToDevice,
			      copying));
	compute_batch(batches[step % 2]);
	CHECK(cudaDeviceSynchronize()); /* both, before they change places */
}

int main(int argc, char **argv)
{
	const char *version = argc > 1 ? argv[1] : "";

	if (strcmp(version, "pageable") && strcmp(version, "pinned") &&
	    strcmp(version, "overlapped")) {
		fprintf(stderr, "usage: copies pageable|pinned|overlapped\n");
		return 2;
	}
	if (!strcmp(version, "pageable"))
		host = (float *)malloc(bytes);
	else
		CHECK(cudaMallocHost(&host, bytes));
	memset(host, 0, bytes);
	for (auto &batch : batches)
		CHECK(cudaMalloc(&batch, bytes));
	CHECK(cudaStreamCreateWithFlags(&computing, cudaStreamNonBlocking));
	CHECK(cudaStreamCreateWithFlags(&copying, cudaStreamNonBlocking));
	if (!strcmp(version, "overlapped"))
		time_steps(version, STEPS, copy_ahead);
	else
		time_steps(version, STEPS, copy_then_compute);
	return 0;
}
