/*
 * two_gpus.cu - two GPUs that compute a batch each in every step; the CPU prepares the batches.
 *
 *   two_gpus one-thread    one thread prepares and launches for both, one after the other
 *   two_gpus two-threads   each GPU has a thread of its own
 *
 * See docs/tutorial/two-gpus.md.
 */
#include <thread>

#include "steps.h"

enum { FLOATS = 4 << 20, GPUS = 2, STEPS = 20, ROUNDS = 12000, PREPARED = 1 << 20 };

struct Gpu {
	int number;
	float *host, *device;
};

static Gpu gpus[GPUS];

static void make_gpu(int number)
{
	Gpu *gpu = &gpus[number];

	gpu->number = number;
	CHECK(cudaSetDevice(number));
	CHECK(cudaMallocHost(&gpu->host, FLOATS * sizeof(float)));
	CHECK(cudaMalloc(&gpu->device, FLOATS * sizeof(float)));
	memset(gpu->host, 0, FLOATS * sizeof(float));
}

static void prepare_batch(float *host)
{
	for (int i = 0; i < PREPARED; i++)
		host[i] = host[i] * 0.5f + (float)(i % 7) / (1.0f + host[(i * 31) % PREPARED]);
}

/* One batch on one GPU. */
static void feed_gpu(Gpu *gpu)
{
	CHECK(cudaSetDevice(gpu->number));
	prepare_batch(gpu->host);
	CHECK(cudaMemcpyAsync(gpu->device, gpu->host, FLOATS * sizeof(float),
			      cudaMemcpyHostToDevice));
	compute<<<FLOATS / 256, 256>>>(gpu->device, FLOATS, ROUNDS);
	CHECK(cudaDeviceSynchronize());
}

static void feed_in_turn(int)
{
	for (auto &gpu : gpus)
		feed_gpu(&gpu);
}

static void feed_at_once()
{
	std::thread other([] {
		for (int i = 0; i < STEPS + 4; i++)
			feed_gpu(&gpus[1]);
	});

	time_steps("two-threads", STEPS, [](int) { feed_gpu(&gpus[0]); });
	other.join();
}

int main(int argc, char **argv)
{
	const char *version = argc > 1 ? argv[1] : "";
	int count = 0;

	if (strcmp(version, "one-thread") && strcmp(version, "two-threads")) {
		fprintf(stderr, "usage: two_gpus one-thread|two-threads\n");
		return 2;
	}
	CHECK(cudaGetDeviceCount(&count));
	if (count < GPUS) {
		fprintf(stderr, "two_gpus: this machine has %d GPU, the example needs %d\n", count,
			GPUS);
		return 77;
	}
	for (int i = 0; i < GPUS; i++)
		make_gpu(i);
	if (!strcmp(version, "one-thread"))
		time_steps(version, STEPS, feed_in_turn);
	else
		feed_at_once();
	return 0;
}
