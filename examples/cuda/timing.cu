/*
 * timing.cu - how long does a kernel take?
 *
 *   timing wrong   the host's clock is read around the launch, which returns at once
 *   timing right   it is read when the GPU has nothing left to do, before and after
 *
 * See docs/tutorial/timing.md.
 */
#include "steps.h"

enum { FLOATS = 16 << 20, TIMES = 20, ROUNDS = 3000 };

static float *data;

static void wait_for_gpu(bool wait)
{
	if (wait)
		CHECK(cudaDeviceSynchronize());
}

static double time_kernel(bool wait)
{
	double start;

	wait_for_gpu(wait);
	Range range("timed kernel");
	start = read_ms();
	compute<<<FLOATS / 256, 256>>>(data, FLOATS, ROUNDS);
	wait_for_gpu(wait);
	return read_ms() - start;
}

int main(int argc, char **argv)
{
	const char *version = argc > 1 ? argv[1] : "";
	bool wait = !strcmp(version, "right");
	double sum = 0, start;

	if (!wait && strcmp(version, "wrong")) {
		fprintf(stderr, "usage: timing wrong|right\n");
		return 2;
	}
	CHECK(cudaMalloc(&data, FLOATS * sizeof(float)));
	CHECK(cudaMemset(data, 0, FLOATS * sizeof(float)));
	time_kernel(true);
	start = read_ms();
	for (int i = 0; i < TIMES; i++)
		sum += time_kernel(wait);
	CHECK(cudaDeviceSynchronize());
	printf("%s: %.3f ms a kernel by the host's clock, %.3f ms in truth\n", version, sum / TIMES,
	       (read_ms() - start) / TIMES);
	return 0;
}
