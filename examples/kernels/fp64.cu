/*
 * fp64.cu - constants without an f turn a polynomial of floats into one of doubles.
 *
 * 0.11 is a double, so x is converted, all products and sums are made in double precision, and the
 * result is converted back. Repaired: 0.11f. The sums agree in their first digits.
 */
#include "example.h"

#ifdef REPAIRED
#define C(number) number##f
#else
#define C(number) number
#endif
enum { BLOCK = 256, TIMES = 48 };

__device__ float evaluate(float x)
{
	return C(0.11) +
	       x * (C(0.12) +
		    x * (C(0.13) +
			 x * (C(0.014) +
			      x * (C(0.015) +
				   x * (C(0.016) +
					x * (C(0.017) +
					     x * (C(0.018) +
						  x * (C(0.019) +
						       x * (C(0.021) +
							    x * (C(0.022) +
								 x * C(0.023)))))))))));
}

__global__ void iterate(float *values, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	float x;

	if (i >= n)
		return;
	x = values[i];
	for (int k = 0; k < TIMES; k++)
		x = evaluate(x) + values[i] * C(0.5);
	values[i] = x;
}

int main()
{
	const int n = 8 << 20;
	float *values = make_values<float>(n);

	LAUNCH_TWICE(iterate<<<n / BLOCK, BLOCK>>>(values, n));
	print_sum(values, n, 101);
	return 0;
}
