/*
 * osrt_next.c - finds the functions behind ours: the next definition in load order, so that another
 * library that interposes the same function is still called. Nothing is remembered for a name that
 * nobody defines, since a library that defines it may be loaded later.
 */
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#include "inject/behind.h"
#include "inject/osrt.h"

void *ws_osrt_real[WS_OSRT_COUNT];

static const char *const symbols[WS_OSRT_COUNT] = {
#define WS_OSRT_ENTRY(symbol, shown, error, object) #symbol,
#include "ring/osrt_functions.def"
};

static void *find_next_function(const char *name, const struct link_map **owner)
{
	return ws_find_from_library(ws_find_first_behind(), name, owner);
}

void *ws_osrt_find_function(const char *name)
{
	return find_next_function(name, NULL);
}

void *ws_osrt_find_first_function(const char *name)
{
	return ws_find_from_library(_r_debug.r_map, name, NULL);
}

static bool is_c_library(const struct link_map *map)
{
	const char *base = strrchr(map->l_name, '/');

	base = base ? base + 1 : map->l_name;
	return !strncmp(base, "libc.so", 7) || !strncmp(base, "libpthread.so", 13);
}

void *ws_osrt_find_own_function(const char *name)
{
	const struct link_map *own = ws_find_own_map();
	struct ws_symbols library;

	if (!own || !ws_open_symbols(own, &library))
		return NULL;
	return ws_find_in_symbols(own, &library, name, ws_hash_symbol(name));
}

int ws_osrt_is_same_library(const char *a, const char *b)
{
	const struct link_map *of_a = NULL, *of_b = NULL;

	if (!find_next_function(a, &of_a) || !find_next_function(b, &of_b))
		return 0;
	return of_a == of_b || (is_c_library(of_a) && is_c_library(of_b));
}

/* ---- functions that this C library does not have ---- */

static long missing_errno(void)
{
	errno = ENOSYS;
	return -1;
}

static int missing_number(void)
{
	return ENOSYS;
}

static void *missing_pointer(void)
{
	errno = ENOSYS;
	return NULL;
}

static int fail_with(long ret)
{
	if (ret >= 0)
		return (int)ret;
	errno = (int)-ret;
	return -1;
}

static int missing_tgkill(pid_t group, pid_t tid, int sig)
{
	return fail_with(ws_raw_syscall(SYS_tgkill, group, tid, sig, 0, 0, 0));
}

#ifndef SYS_epoll_pwait2
#define SYS_epoll_pwait2 441
#endif
static int missing_epoll_pwait2(int ep, struct epoll_event *events, int n,
				const struct timespec *limit, const sigset_t *mask)
{
	return fail_with(ws_raw_syscall(SYS_epoll_pwait2, ep, (long)events, n, (long)limit,
					(long)mask, 8 /* bytes of a kernel sigset */));
}

static void *missing_function(unsigned fn)
{
	static const uint8_t errors[WS_OSRT_COUNT] = {
#define IS_ERRNO 0
#define IS_STREAM 0
#define IS_NONE 0
#define IS_NUMBER 1
#define IS_POINTER 2
#define WS_OSRT_ENTRY(symbol, shown, error, object) IS_##error,
#include "ring/osrt_functions.def"
	};

	if (fn == WS_OSRT_tgkill)
		return missing_tgkill;
	if (fn == WS_OSRT_epoll_pwait2)
		return missing_epoll_pwait2;
	return errors[fn] == 1	 ? (void *)missing_number
	       : errors[fn] == 2 ? (void *)missing_pointer
				 : (void *)missing_errno;
}

void *ws_osrt_resolve_function(unsigned fn)
{
	void *memory = find_next_function(symbols[fn], NULL);

	if (!memory)
		return missing_function(fn);
	__atomic_store_n(&ws_osrt_real[fn], memory, __ATOMIC_RELEASE);
	return memory;
}

/* Searches library by library for speed, since the start of every program waits for this. */
void ws_osrt_resolve_all(void)
{
	uint32_t hashes[WS_OSRT_COUNT];

	for (unsigned fn = 0; fn < WS_OSRT_COUNT; fn++)
		hashes[fn] = ws_hash_symbol(symbols[fn]);
	for (const struct link_map *map = ws_find_first_behind(); map; map = map->l_next) {
		struct ws_symbols library;

		if (!ws_open_symbols(map, &library))
			continue;
		for (unsigned fn = 0; fn < WS_OSRT_COUNT; fn++)
			if (!ws_osrt_real[fn])
				ws_osrt_real[fn] =
					ws_find_in_symbols(map, &library, symbols[fn], hashes[fn]);
	}
}
