/*
 * ranges_bench.c - times NVTX ranges from inside the program: ranges_bench MODE PAIRS [THREADS];
 * prints nanoseconds a pair.
 *
 *   plain, registered (a string and a domain), names (64 names in a reused buffer), random (names
 * that never repeat) eighteen   3 M pairs plain and registered, three times over jitter     random
 * names out of 64 with work of random length inside clocks     two clock reads instead of a pair,
 * in threads like the next: what the machine itself takes more when its cores share their parts
 *   threads    PAIRS in each of THREADS threads; prints processor time a pair, so that threads
 * sharing a core do not count as slow
 *
 * What it takes to make up a name is measured first and taken off, so that modes compare.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/ticks.h"
#include "warpsight/annotate.h"

static ws_domain domain;
static ws_string registered;

static double read_clock(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static uint64_t next_random(uint64_t *s)
{
	*s ^= *s << 13;
	*s ^= *s >> 7;
	*s ^= *s << 17;
	return *s;
}

#define TIMES(n, body)                               \
	do {                                         \
		for (uint64_t i = 0; i < (n); i++) { \
			body;                        \
		}                                    \
	} while (0)

static void push_plain(uint64_t n)
{
	TIMES(n, ws_range_push("plain range"); ws_range_pop());
}

static void with_registered(uint64_t n)
{
	TIMES(n, ws_range_push_in(domain, registered); ws_range_pop_in(domain));
}

static void name_64(char *buf, uint64_t i)
{
	memcpy(buf, "layer 00 forward", 17);
	buf[6] = (char)('0' + i % 64 / 10);
	buf[7] = (char)('0' + i % 64 % 10);
	__asm__ volatile("" : : "r"(buf) : "memory");
}

static void name_new(char *buf, uint64_t i)
{
	static const char hex[] = "0123456789abcdef";

	memcpy(buf, "request ", 8);
	for (int k = 0; k < 8; k++)
		buf[8 + k] = hex[i >> (28 - 4 * k) & 15];
	buf[16] = 0;
	__asm__ volatile("" : : "r"(buf) : "memory");
}

static void push_names(uint64_t n, int with_ranges)
{
	char buf[32];

	if (with_ranges)
		TIMES(n, name_64(buf, i); ws_range_push(buf); ws_range_pop());
	else
		TIMES(n, name_64(buf, i));
}

static void new_names(uint64_t n, int with_ranges)
{
	char buf[32];

	if (with_ranges)
		TIMES(n, name_new(buf, i); ws_range_push(buf); ws_range_pop());
	else
		TIMES(n, name_new(buf, i));
}

static void push_jittered(uint64_t n)
{
	uint64_t seed = 88172645463325252u;
	char buf[32];

	TIMES(n, name_64(buf, next_random(&seed)); ws_range_push(buf);
	      for (unsigned w = (unsigned)(next_random(&seed) % 400); w > 0;
		   w--) __asm__ volatile("" ::
						 : "memory");
	      ws_range_pop());
}

static uint64_t pairs;
static int clocks_only;

static void read_clocks(uint64_t n)
{
	TIMES(n, ws_read_counter(); ws_read_counter());
}

static void *run_thread(void *cost)
{
	double begin;

	push_plain(1000);
	begin = read_clock(CLOCK_THREAD_CPUTIME_ID);
	if (clocks_only)
		read_clocks(pairs);
	else
		push_plain(pairs);
	*(double *)cost = (read_clock(CLOCK_THREAD_CPUTIME_ID) - begin) / (double)pairs;
	return NULL;
}

static double in_threads(int n)
{
	pthread_t owner[64];
	double cost[64], sum = 0;

	pairs /= (uint64_t)n;
	for (int i = 0; i < n; i++)
		if (pthread_create(&owner[i], NULL, run_thread, &cost[i]))
			exit(1);
	for (int i = 0; i < n; i++) {
		pthread_join(owner[i], NULL);
		sum += cost[i];
	}
	return sum / n;
}

static double timed_names(void (*fn)(uint64_t, int), uint64_t n)
{
	double a = read_clock(CLOCK_MONOTONIC), b, c;

	fn(n, 0);
	b = read_clock(CLOCK_MONOTONIC);
	fn(n, 1);
	c = read_clock(CLOCK_MONOTONIC);
	return (c - b - (b - a)) / (double)n;
}

static double time_calls(void (*fn)(uint64_t), uint64_t n)
{
	double a = read_clock(CLOCK_MONOTONIC);

	fn(n);
	return (read_clock(CLOCK_MONOTONIC) - a) / (double)n;
}

static void push_eighteen_millions(uint64_t n)
{
	for (int i = 0; i < 3; i++) {
		push_plain(n / 6);
		with_registered(n / 6);
	}
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	int threads = argc > 3 ? atoi(argv[3]) : 1;
	double ns;

	pairs = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000000;
	if (threads < 1 || threads > 64 || pairs < 1)
		return 2;
	domain = ws_domain_create("bench");
	registered = ws_string_register(domain, "registered range");
	push_plain(1); /* NVTX finds its tool at the first call */
	if (!strcmp(mode, "plain"))
		ns = time_calls(push_plain, pairs);
	else if (!strcmp(mode, "registered"))
		ns = time_calls(with_registered, pairs);
	else if (!strcmp(mode, "names"))
		ns = timed_names(push_names, pairs);
	else if (!strcmp(mode, "random"))
		ns = timed_names(new_names, pairs);
	else if (!strcmp(mode, "eighteen"))
		ns = time_calls(push_eighteen_millions, 18000000);
	else if (!strcmp(mode, "jitter"))
		ns = time_calls(push_jittered, pairs);
	else if (!strcmp(mode, "threads") || (clocks_only = !strcmp(mode, "clocks")))
		ns = in_threads(threads);
	else
		return 2;
	printf("%.2f\n", ns);
	return 0;
}
