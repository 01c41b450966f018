/*
 * scenario.h - a scenario is a function that does things to the OS-runtime hook, checks that they
 * behave as they do without it, and prints what must then be in the report. run.py runs each bare
 * and recorded.
 *
 *   want("name=read n=3 error=0 path=/x")   rows that must be there: n=3 exactly, n=3+ at least (1+
 * when not given); n=0 none. Fields: name nesting error result object path (a prefix when it ends
 * in *) tid min_us open (1: never returned) pid want0(...)                              the same,
 * in the recording that keeps every call however short CHECK(x)                                ends
 * the program with a message when x does not hold
 */
#ifndef SCENARIO_H
#define SCENARIO_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CHECK(x)                                                                          \
	do {                                                                              \
		errno_at = errno;                                                         \
		if (!(x)) {                                                               \
			fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #x, \
				errno_at);                                                \
			exit(99);                                                         \
		}                                                                         \
		errno = errno_at;                                                         \
	} while (0)

static int errno_at;

#define want(...) (printf("#want "), printf(__VA_ARGS__), printf("\n"))
#define want0(...) (printf("#want0 "), printf(__VA_ARGS__), printf("\n"))
/* A name that the thread must have been given: pid 0 for this process. */
#define want_name(tid, name) printf("#name %d %s\n", (int)(tid), name)

/*
 * Waits until thread `tid` of process `pid` sleeps in the kernel (S in its stat), for 10 ms at
 * least: however late a busy machine lets it get to where it is to wait. By raw system calls, of
 * which no hook knows.
 */
static inline void until_asleep(int pid, int tid)
{
	static const struct timespec pause = {0, 500000};
	char path[64], text[512], *end;
	int looks = 0;
	long fd, n;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	/* Several times running: a thread, or an emulator of one, may wait a moment for a lock. */
	while (looks < 20) {
		syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &pause, NULL);
		fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
		n = fd < 0 ? 0 : syscall(SYS_read, fd, text, sizeof(text) - 1);
		if (fd >= 0)
			syscall(SYS_close, fd);
		text[n > 0 ? n : 0] = 0;
		end = strrchr(text, ')');
		looks = end && strncmp(end, ") S", 3) == 0 ? looks + 1 : 0;
	}
}

struct scenario {
	const char *name;
	void (*run)(void);
};

static inline int run_scenario(const struct scenario *scenario, const char *name)
{
	for (; scenario->name; scenario++)
		if (!strcmp(scenario->name, name)) {
			scenario->run();
			fflush(stdout);
			return 0;
		}
	fprintf(stderr, "no scenario called %s\n", name);
	return 98;
}

static inline int list_scenarios(const struct scenario *scenario)
{
	for (; scenario->name; scenario++)
		puts(scenario->name);
	return 0;
}

#ifdef __cplusplus
}
#endif
#endif
