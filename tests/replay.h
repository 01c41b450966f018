/*
 * replay.h - what makes a test of a fuzzer.
 *
 * Built by clang with -Dfuzz=true a fuzzer is a libFuzzer target. Built with FUZZ_REPLAY it is a
 * program that runs inputs of its own, always the same, or the files that it is given. Each input
 * is handed over in memory of exactly its size, so that the address sanitizer sees a byte too far.
 */
#ifndef WS_TESTS_REPLAY_H
#define WS_TESTS_REPLAY_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

#ifdef FUZZ_REPLAY
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>

#include "random.h"

enum { REPLAY_MOST = 1 << 20, REPLAY_MOST_SECONDS = 10 };

/*
 * What the inputs are made from: 0 for those that are always the same. `make torture` sets it to
 * the day, so that each day tries others.
 */
static inline uint64_t replay_seed(void)
{
	const char *text = getenv("WS_TEST_SEED");

	return text ? strtoull(text, NULL, 10) : 0;
}

static inline uint32_t replay_draw(void)
{
	static uint64_t state;

	if (!state)
		state = RANDOM_SEED ^ replay_seed() * UINT64_C(0x9e3779b97f4a7c15);
	if (!state)
		state = RANDOM_SEED;
	return (uint32_t)(random_next(&state) >> 16);
}

/* `n` bytes of anything; returns n. */
static inline size_t replay_fill(uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)replay_draw();
	return n;
}

/* Processor time, whatever else the machine does: beyond it SIGPROF ends the program. */
static inline void replay_limit_seconds(int seconds)
{
	struct itimerval limit = {.it_value.tv_sec = seconds};

	setitimer(ITIMER_PROF, &limit, NULL);
}

static inline void replay_bytes(const uint8_t *bytes, size_t n)
{
	uint8_t *copy = malloc(n ? n : 1);

	if (!copy)
		abort();
	memcpy(copy, bytes, n);
	replay_limit_seconds(REPLAY_MOST_SECONDS);
	LLVMFuzzerTestOneInput(copy, n);
	replay_limit_seconds(0);
	free(copy);
}

static inline void replay_file(const char *name, uint8_t *bytes)
{
	FILE *file = fopen(name, "rb");
	size_t n = file ? fread(bytes, 1, REPLAY_MOST, file) : 0;

	if (!file || ferror(file)) {
		perror(name);
		exit(1);
	}
	fclose(file);
	replay_bytes(bytes, n);
}

/* How many rounds for each of a test's own: `make torture` sets it. */
static inline int replay_times(void)
{
	const char *text = getenv("WS_TEST_TIMES");
	int times = text ? atoi(text) : 1;

	return times > 0 ? times : 1;
}

/*
 * Run the files named by the command line, or where there are none `rounds` inputs that `make`
 * writes to `bytes` (room for REPLAY_MOST), whose length it returns. Returns how many inputs that
 * were.
 */
static inline int replay(int argc, char **argv, int rounds,
			 size_t (*make)(uint8_t *bytes, int round))
{
	static uint8_t bytes[REPLAY_MOST];

	for (int i = 1; i < argc; i++)
		replay_file(argv[i], bytes);
	if (argc > 1)
		return argc - 1;
	rounds *= replay_times();
	for (int i = 0; i < rounds; i++)
		replay_bytes(bytes, make(bytes, i));
	return rounds;
}

/* The same as a whole test, in TAP. */
static inline int replay_test(int argc, char **argv, int rounds,
			      size_t (*make)(uint8_t *bytes, int round))
{
	int inputs = replay(argc, argv, rounds, make);
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	printf("1..1\nok 1 - %d inputs, seed %llu, %ld MiB of memory at most\n", inputs,
	       (unsigned long long)replay_seed(), usage.ru_maxrss >> 10);
	return 0;
}
#endif
#endif
