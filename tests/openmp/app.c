/*
 * app.c - a program that does one of everything that OpenMP's runtimes tell of, in known numbers:
 * run.py compares them with the report. Built by clang for LLVM's runtime, by GCC for GNU's.
 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { THREADS = 3, ROUNDS = 5, TASKS = 20 };

static volatile double sink;

static void work(int n)
{
	double sum = 0;

	for (int i = 0; i < n; i++)
		sum += i * 0.5;
	sink = sum;
}

__attribute__((noinline)) void solve(void)
{
#pragma omp parallel num_threads(THREADS)
	{
#pragma omp for schedule(dynamic, 4)
		for (int i = 0; i < 64; i++)
			work(1000);
#pragma omp critical
		work(100);
#pragma omp barrier
#pragma omp master
		work(10);
	}
}

__attribute__((noinline)) void make_tasks(void)
{
#pragma omp parallel num_threads(THREADS)
#pragma omp single
	{
		for (int i = 0; i < TASKS; i++) {
#pragma omp task
			work(2000);
		}
#pragma omp taskwait
	}
}

__attribute__((noinline)) int add_up(void)
{
	int sum = 0;

#pragma omp parallel for num_threads(THREADS) reduction(+ : sum)
	for (int i = 0; i < 100; i++)
		sum += i;
	return sum;
}

int main(void)
{
	omp_lock_t lock;

	omp_init_lock(&lock);
	for (int i = 0; i < ROUNDS; i++)
		solve();
	make_tasks();
	omp_set_lock(&lock);
	usleep(2000);
	omp_unset_lock(&lock);
	omp_destroy_lock(&lock);
	printf("sum %d\n", add_up());
	return 0;
}
