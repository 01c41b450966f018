/* acc.c - a program with OpenACC's directives in known numbers, built by gcc -fopenacc. */
#include <stdio.h>

enum { N = 1000, ROUNDS = 4 };

static float numbers[N];

static void scale(void)
{
#pragma acc parallel loop copy(numbers)
	for (int i = 0; i < N; i++)
		numbers[i] = numbers[i] * 2 + 1;
}

int main(void)
{
	for (int i = 0; i < ROUNDS; i++)
		scale();
#pragma acc data copyin(numbers)
	{
#pragma acc update host(numbers)
	}
#pragma acc wait
	printf("%g\n", (double)numbers[0]);
	return 0;
}
