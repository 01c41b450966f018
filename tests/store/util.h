/*
 * util.h - what the store tests share: a folder of their own, random rows of any table, and the
 * order that the format promises.
 */
#ifndef WS_TEST_STORE_UTIL_H
#define WS_TEST_STORE_UTIL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "query/query.h"

uint64_t draw(void); /* the same sequence in every run, unless seeded */
void seed(uint64_t s);
uint64_t below(uint64_t n);

/* A temporary folder for this process, removed by end_folder with all that is in it. */
void make_folder(void);
void end_folder(void);
char *in_folder(const char *name); /* owned by the caller */

/* How the values of one column come out. */
enum profile {
	P_ZERO,
	P_SAME,
	P_FEW,
	P_STEPS,
	P_SMALL,
	P_WIDE,
	P_EXTREME,
	P_TIMES,
	P_NULLS,
	PROFILES
};

/* Fill `n` row structs, each column by a random profile, or by `all` unless it is negative. Padding
 * gets random bytes. */
char *random_rows(enum ws_table table, uint32_t n, int all);
/* The order that a block promises: stable by (track, start, longer first). */
void sort_as_promised(enum ws_table table, char *rows, uint32_t n);

/* Every column of a block against rows; fails the test on a difference. */
void expect_block(const struct ws_report *report, enum ws_table table, size_t block,
		  const char *rows, uint32_t n);

struct ws_report *open_or_fail(const char *path);
char *read_file(const char *path, size_t *n);
void write_file(const char *path, const void *memory, size_t n);

#endif
