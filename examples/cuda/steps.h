/* steps.h - marked steps, their time, and a kernel that lasts as long as wanted; for the examples
 * that have a lesson in docs/tutorial. */
#ifndef EXAMPLES_STEPS_H
#define EXAMPLES_STEPS_H

#include <string.h>

#include <chrono>

#include "common.h"

/* A step of the program, marked for whoever looks at the report. */
struct Step : Range {
	explicit Step(int number) : Range(make_name(number))
	{
	}
	static const char *make_name(int number)
	{
		static char name[32];

		snprintf(name, sizeof(name), "step %d", number);
		return name;
	}
};

static double read_ms()
{
	using namespace std::chrono;

	return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

/* Computes on each of the `n` floats of `p` for `rounds` rounds. */
__global__ void compute(float *p, int n, int rounds)
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

/* Runs `step` for each number below `steps`, waits for the GPU at the end, and prints what a step
 * took; the first few, which load and allocate, are not counted. */
template <typename F> static void time_steps(const char *version, int steps, F step)
{
	const int warm_up = 4;
	double start = 0;

	for (int i = 0; i < warm_up + steps; i++) {
		if (i == warm_up) {
			CHECK(cudaDeviceSynchronize());
			start = read_ms();
		}
		Step mark(i);
		step(i);
	}
	CHECK(cudaDeviceSynchronize());
	printf("%s: %.3f ms a step\n", version, (read_ms() - start) / steps);
}

#endif
