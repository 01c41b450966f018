/*
 * hook_case.h - running a case against the hook library: each in a process of its own with an arena
 * made for it, whose records it then reads straight from the rings. TAP on standard output.
 */
#ifndef TEST_NVTX_HOOK_CASE_H
#define TEST_NVTX_HOOK_CASE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "ring/nvtx_record.h"
#include "record/arena.h"
#include "tests/nvtx/loader.h"

#define CHECK(cond, ...)                                                    \
	do {                                                                \
		if (!(cond)) {                                              \
			printf("# %s:%d: " #cond ": ", __FILE__, __LINE__); \
			printf(" " __VA_ARGS__);                            \
			printf("\n");                                       \
			fflush(stdout);                                     \
			_exit(1);                                           \
		}                                                           \
	} while (0)

struct env {
	struct ws_area area;
	void *lib;
	struct loader loader;
	/* what the rings held, in order, ring after ring */
	struct got {
		const struct ws_rec *rec;
		struct ws_ring *ring;
	} * gots;
	size_t n, cap;
};

struct setup {
	uint64_t budget;     /* bytes; 0: plenty */
	uint32_t filter;     /* 1 include, 2 exclude */
	const char *domains; /* "a\0b\0": NUL-separated */
	size_t domains_len;
	bool idle;    /* not collecting at first */
	bool waiting; /* and waiting for a command, as under launch: only names are kept */
	bool no_session;
};

/* Make the arena, load the hook library into this process, attach one loader with the payload
 * extension. */
void env_open(struct env *env, const struct setup *setup);
void env_collect(struct env *env, bool on);
/* Copy everything committed so far; call again for a fresh look at all of it. */
void env_read(struct env *env);
/* The i-th record of a kind (a sub-kind too, for EVENT and DEFINE, unless 0); NULL past the last.
 */
const void *env_find(struct env *env, int kind, int sub, size_t i);
size_t env_count(struct env *env, int kind, int sub);
struct ws_ring *env_ring_of(struct env *env, const void *rec);
/* Bytes of a text: by what `small` says, a string or a local text of the ring of `rec`. */
const char *env_text(struct env *env, const void *rec, size_t *len);
/* The blob with this number in the ring of `rec`, pieces joined; its length in *len. */
const char *env_blob(struct env *env, const void *rec, uint32_t number, size_t *len);
uint64_t env_lost(struct env *env, int kind);

struct test_case {
	const char *name;
	struct setup setup;
	void (*run)(struct env *env);
};
/* Run each in a process of its own; the exit status for main. argv[1] is the hook library. */
int run_cases(const struct test_case *cases, size_t n, int argc, char **argv);

#endif
