/*
 * transfers.cu - what copies cost and how they overlap. Each part is an NVTX range; see `warpsight
 * stats -r nvtx_gpu_proj_sum` and the rows of the streams.
 *
 *   pageable      copies from memory that the driver must stage: the call returns late, and the
 * asynchronous ones are not pinned        the same from page-locked memory one stream    copy,
 * compute, copy back, one after another streams       the same in pieces on four streams: copies
 * and kernels overlap one handle    the same again with the classic mistake: four handles in the
 * source, one stream in truth synchronous   cudaMemcpy between the kernels: the GPU waits for the
 * CPU and the other way round
 */
#include "common.h"

enum { N = 16 << 20, PIECES = 4, ROUNDS = 5 };

__global__ void work(float *p, int n, int rounds)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	float v;

	if (i >= n)
		return;
	v = p[i];
	for (int r = 0; r < rounds; r++)
		v = v * 1.0001f + 0.5f;
	p[i] = v;
}

static float *device, *pinned, *pageable;

static void copy_from(const char *name, float *host)
{
	Range range(name);

	for (int i = 0; i < ROUNDS; i++) {
		CHECK(cudaMemcpyAsync(device, host, N * sizeof(float), cudaMemcpyHostToDevice));
		CHECK(cudaMemcpyAsync(host, device, N * sizeof(float), cudaMemcpyDeviceToHost));
	}
	CHECK(cudaDeviceSynchronize());
}

static void pipeline(const char *name, cudaStream_t *streams)
{
	Range range(name);
	const int piece = N / PIECES;

	for (int i = 0; i < ROUNDS; i++)
		for (int p = 0; p < PIECES; p++) {
			float *d = device + p * piece, *h = pinned + p * piece;

			CHECK(cudaMemcpyAsync(d, h, piece * sizeof(float), cudaMemcpyHostToDevice,
					      streams[p]));
			work<<<(piece + 255) / 256, 256, 0, streams[p]>>>(d, piece, 500);
			CHECK(cudaMemcpyAsync(h, d, piece * sizeof(float), cudaMemcpyDeviceToHost,
					      streams[p]));
		}
	CHECK(cudaDeviceSynchronize());
}

static void synchronous()
{
	Range range("synchronous");
	const int piece = N / PIECES;

	for (int i = 0; i < ROUNDS; i++)
		for (int p = 0; p < PIECES; p++) {
			float *d = device + p * piece, *h = pinned + p * piece;

			CHECK(cudaMemcpy(d, h, piece * sizeof(float), cudaMemcpyHostToDevice));
			work<<<(piece + 255) / 256, 256>>>(d, piece, 500);
			CHECK(cudaMemcpy(h, d, piece * sizeof(float), cudaMemcpyDeviceToHost));
		}
}

int main()
{
	cudaStream_t own[PIECES], one[PIECES];

	CHECK(cudaMalloc(&device, N * sizeof(float)));
	CHECK(cudaMallocHost(&pinned, N * sizeof(float)));
	pageable = new float[N]();
	for (auto &s : own)
		CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	for (auto &s : one)
		s = own[0]; /* meant to be four */
	copy_from("pageable", pageable);
	copy_from("pinned", pinned);
	synchronous();
	pipeline("one stream", one);
	pipeline("streams", own);
	{
		/* What it looks like in real code: the handle is created outside of the loop that
		 * should have created each. */
		cudaStream_t stream, handles[PIECES];

		CHECK(cudaStreamCreate(&stream));
		for (auto &h : handles)
			h = stream;
		pipeline("one handle", handles);
	}
	return 0;
}
