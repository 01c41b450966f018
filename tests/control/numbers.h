/* numbers.h - the file that numbers.c keeps. */
#ifndef WS_TEST_NUMBERS_H
#define WS_TEST_NUMBERS_H

#include <stdint.h>

enum { NUMBERS_MOST = 1 << 19, NUMBERS_THREADS = 4 };

struct numbers {
	volatile int stop, ready;
	struct numbers_thread {
		uint32_t count; /* ranges that have ended */
		struct {
			/* CLOCK_MONOTONIC_RAW: the range began and ended in between */
			uint64_t before_begin, after_begin, before_end, after_end;
		} range[NUMBERS_MOST];
	} thread[NUMBERS_THREADS];
};

#endif
