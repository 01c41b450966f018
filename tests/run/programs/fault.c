/*
 * fault.c - loaded before the C library (LD_PRELOAD), it makes the n-th call of a kind fail in
 * warpsight, and in nothing that warpsight starts: it takes itself out of LD_PRELOAD.
 *
 * WS_FAULT is KIND:N, or KIND:N+ when every later call of the kind fails as well; KIND is a word of
 * `kinds`. WS_FAULT_COUNTS names a file of `KIND_COUNT` 64-bit numbers, in which calls are counted
 * by kind, over all threads and forked children. Calls that the C library makes of its own
 * functions do not come by here, but for allocations.
 *
 * With WS_FAULT_LIBRARY, a part of a file's name, calls are those of this library in the programs
 * that warpsight starts, and none of warpsight.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum kind { ALLOC, WRITE, MAP, OPEN, FORK, SYNC, RENAME, DWARF, CLOSE, SOCKET, KIND_COUNT };

static const struct {
	const char *name;
	int error;
} kinds[KIND_COUNT] = {
	[ALLOC] = {"alloc", ENOMEM},	[WRITE] = {"write", ENOSPC}, [MAP] = {"map", ENOMEM},
	[OPEN] = {"open", EMFILE},	[FORK] = {"fork", EAGAIN},   [SYNC] = {"sync", EIO},
	[RENAME] = {"rename", EIO},	[DWARF] = {"dwarf", ENOMEM}, [CLOSE] = {"close", EIO},
	[SOCKET] = {"socket", ENOBUFS},
};

static _Atomic uint64_t *counts; /* in the file; NULL: nothing is counted and nothing fails */
static int failing = -1;	 /* the kind that fails */
static uint64_t fails_at;
static bool fails_on;

/* Where libdw's code is: allocations that it makes are a kind of their own. */
static uintptr_t dwarf_from, dwarf_to;

static int find_dwarf(struct dl_phdr_info *info, size_t size, void *ctx)
{
	const char *name = strrchr(info->dlpi_name, '/');

	(void)size, (void)ctx;
	if (!name || strncmp(name, "/libdw", 6))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
			dwarf_from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
			dwarf_to = dwarf_from + info->dlpi_phdr[i].p_memsz;
		}
	return 1;
}

static const char *library; /* whose calls these are; NULL: all of this process */
static uintptr_t library_from, library_to;

static int find_library(struct dl_phdr_info *info, size_t size, void *ctx)
{
	(void)size, (void)ctx;
	if (!strstr(info->dlpi_name, library))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
			library_to = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr +
				     info->dlpi_phdr[i].p_memsz;
			library_from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
		}
	return 1;
}

/* It may be loaded at any time. */
static bool is_of_library(const void *caller)
{
	static __thread bool looking;

	if (!library_from && !looking) {
		looking = true;
		dl_iterate_phdr(find_library, NULL);
		looking = false;
	}
	return (uintptr_t)caller >= library_from && (uintptr_t)caller < library_to;
}

/* Count a call; true, with errno set, when it is to fail. */
static bool is_faulty_for(enum kind kind, const void *caller)
{
	uint64_t n;

	if (!counts || (library && !is_of_library(caller)))
		return false;
	if (kind == ALLOC && (uintptr_t)caller >= dwarf_from && (uintptr_t)caller < dwarf_to)
		kind = DWARF;
	n = atomic_fetch_add(&counts[kind], 1) + 1;
	if ((int)kind != failing || n < fails_at || (n > fails_at && !fails_on))
		return false;
	errno = kinds[kind].error;
	return true;
}

/* Of the function that calls this one's caller. */
#define is_faulty(kind) is_faulty_for((kind), __builtin_return_address(0))

/* ---- memory: these are called before anything could be looked up ---- */

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

void *malloc(size_t size)
{
	return is_faulty(ALLOC) ? NULL : __libc_malloc(size);
}

void *calloc(size_t count, size_t size)
{
	return is_faulty(ALLOC) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size)
{
	return is_faulty(ALLOC) ? NULL : __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
	return is_faulty(ALLOC) ? NULL : __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size)
{
	if (is_faulty(ALLOC))
		return ENOMEM;
	*memory = __libc_memalign(alignment, size);
	return *memory ? 0 : ENOMEM;
}

/* ---- the rest: a wrapper each ---- */

int __open64_2(const char *path, int flags);

/* `next`: the next function of this name, looked up at the first call. */
#define NEXT(name)                     \
	static __typeof__(name) *next; \
	if (!next)                     \
	*(void **)&next = dlsym(RTLD_NEXT, #name)

#define WRAP(kind, failure, type, name, parameters, ...) \
	type name parameters                             \
	{                                                \
		NEXT(name);                              \
		if (is_faulty(kind))                     \
			return failure;                  \
		return next(__VA_ARGS__);                \
	}

/* libmicrohttpd aborts where it cannot write to its own eventfd, which never lacks room. */
static bool is_exempt(const void *caller, int fd)
{
	Dl_info info;
	struct stat st;

	return !fstat(fd, &st) && !(st.st_mode & S_IFMT) && dladdr(caller, &info) &&
	       info.dli_fname && strstr(info.dli_fname, "/libmicrohttpd");
}

ssize_t write(int fd, const void *data, size_t size)
{
	NEXT(write);
	if (!is_exempt(__builtin_return_address(0), fd) && is_faulty(WRITE))
		return -1;
	return next(fd, data, size);
}

WRAP(WRITE, -1, ssize_t, pwrite64, (int fd, const void *data, size_t size, off64_t at), fd, data,
     size, at)
WRAP(WRITE, -1, ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), fd, data, size,
     at)
WRAP(WRITE, -1, ssize_t, copy_file_range,
     (int in, off64_t *from, int out, off64_t *to, size_t size, unsigned flags), in, from, out, to,
     size, flags)
/* The descriptor is free all the same, as where a disk could not write what was kept for it. */
int close(int fd)
{
	int rc;
	NEXT(close);
	rc = next(fd);
	return rc || !is_faulty(CLOSE) ? rc : -1;
}

WRAP(SOCKET, -1, int, socket, (int family, int type, int protocol), family, type, protocol)
WRAP(SOCKET, -1, int, socketpair, (int family, int type, int protocol, int fds[2]), family, type,
     protocol, fds)
WRAP(SOCKET, -1, int, bind, (int fd, const struct sockaddr *address, socklen_t size), fd, address,
     size)
WRAP(SOCKET, -1, int, listen, (int fd, int most), fd, most)
WRAP(SOCKET, -1, int, connect, (int fd, const struct sockaddr *address, socklen_t size), fd,
     address, size)
WRAP(SOCKET, -1, int, accept4, (int fd, struct sockaddr *address, socklen_t *size, int flags), fd,
     address, size, flags)
WRAP(SOCKET, -1, ssize_t, send, (int fd, const void *data, size_t size, int flags), fd, data, size,
     flags)
WRAP(SOCKET, -1, ssize_t, recv, (int fd, void *data, size_t size, int flags), fd, data, size, flags)
WRAP(SOCKET, -1, ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), fd, message,
     flags)
WRAP(SOCKET, -1, ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), fd, message, flags)
WRAP(MAP, MAP_FAILED, void *, mmap64,
     (void *at, size_t size, int protection, int flags, int fd, off64_t from), at, size, protection,
     flags, fd, from)
WRAP(MAP, MAP_FAILED, void *, mmap,
     (void *at, size_t size, int protection, int flags, int fd, off_t from), at, size, protection,
     flags, fd, from)
WRAP(OPEN, -1, int, __open64_2, (const char *path, int flags), path, flags)
WRAP(OPEN, NULL, FILE *, fopen64, (const char *path, const char *mode), path, mode)
WRAP(OPEN, NULL, FILE *, fopen, (const char *path, const char *mode), path, mode)
WRAP(OPEN, NULL, DIR *, opendir, (const char *path), path)
WRAP(OPEN, -1, int, mkostemp64, (char *path, int flags), path, flags)
WRAP(OPEN, -1, int, pipe2, (int fds[2], int flags), fds, flags)
WRAP(OPEN, -1, int, dup, (int fd), fd)
WRAP(OPEN, -1, int, epoll_create1, (int flags), flags)
WRAP(FORK, -1, pid_t, fork, (void), )
WRAP(FORK, EAGAIN, int, posix_spawnp,
     (pid_t * pid, const char *file, const posix_spawn_file_actions_t *actions,
      const posix_spawnattr_t *attributes, char *const *argv, char *const *envp),
     pid, file, actions, attributes, argv, envp)
WRAP(FORK, EAGAIN, int, pthread_create,
     (pthread_t * thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument),
     thread, attributes, start, argument)
WRAP(SYNC, -1, int, fsync, (int fd), fd)
WRAP(SYNC, -1, int, fdatasync, (int fd), fd)
WRAP(SYNC, -1, int, ftruncate64, (int fd, off64_t size), fd, size)
WRAP(SYNC, -1, int, ftruncate, (int fd, off_t size), fd, size)
WRAP(SYNC, -1, int, fallocate64, (int fd, int mode, off64_t from, off64_t size), fd, mode, from,
     size)
WRAP(SYNC, EIO, int, posix_fallocate64, (int fd, off64_t from, off64_t size), fd, from, size)
WRAP(RENAME, -1, int, rename, (const char *from, const char *to), from, to)
WRAP(RENAME, -1, int, renameat2,
     (int from_folder, const char *from, int to_folder, const char *to, unsigned flags),
     from_folder, from, to_folder, to, flags)
WRAP(RENAME, -1, int, link, (const char *from, const char *to), from, to)
WRAP(RENAME, -1, int, mkdir, (const char *path, mode_t mode), path, mode)
WRAP(RENAME, NULL, char *, mkdtemp, (char *path), path)

/* What is in the buffer is lost, as where the disk is full. */
static int fail_stream(FILE *stream)
{
	__fpurge(stream);
	stream->_flags |= 0x20; /* what ferror looks at */
	return EOF;
}

int fflush(FILE *stream)
{
	NEXT(fflush);
	if (stream && stream != stderr && __fpending(stream) && is_faulty(WRITE))
		return fail_stream(stream);
	return next(stream);
}

int fclose(FILE *stream)
{
	NEXT(fclose);
	if (stream != stderr && __fwriting(stream) && __fpending(stream) && is_faulty(WRITE)) {
		fail_stream(stream);
		next(stream);
		errno = kinds[WRITE].error;
		return EOF;
	}
	return next(stream);
}

#define WRAP_OPEN(name)                                                \
	int name(const char *path, int flags, ...)                     \
	{                                                              \
		va_list ap;                                            \
		mode_t mode;                                           \
		NEXT(name);                                            \
		va_start(ap, flags);                                   \
		mode = va_arg(ap, mode_t);                             \
		va_end(ap);                                            \
		return is_faulty(OPEN) ? -1 : next(path, flags, mode); \
	}

#define WRAP_OPENAT(name)                                                      \
	int name(int folder, const char *path, int flags, ...)                 \
	{                                                                      \
		va_list ap;                                                    \
		mode_t mode;                                                   \
		NEXT(name);                                                    \
		va_start(ap, flags);                                           \
		mode = va_arg(ap, mode_t);                                     \
		va_end(ap);                                                    \
		return is_faulty(OPEN) ? -1 : next(folder, path, flags, mode); \
	}

WRAP_OPEN(open)
WRAP_OPEN(open64)
WRAP_OPENAT(openat)
WRAP_OPENAT(openat64)

/* ---- what is asked for ---- */

static bool is_warpsight(void)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	const char *name;

	if (n < 0)
		return false;
	path[n] = 0;
	name = strrchr(path, '/');
	return name && !strcmp(name + 1, "warpsight");
}

static void read_fault(const char *text)
{
	size_t n = strcspn(text, ":");
	char *end;

	for (int i = 0; i < KIND_COUNT; i++)
		if (strlen(kinds[i].name) == n && !strncmp(kinds[i].name, text, n))
			failing = i;
	if (!text[n])
		return;
	fails_at = strtoull(text + n + 1, &end, 10);
	fails_on = *end == '+';
}

__attribute__((constructor)) static void start(void)
{
	const char *text = getenv("WS_FAULT"), *file = getenv("WS_FAULT_COUNTS");
	void *memory;
	int fd;

	if (!file || !is_warpsight() != (getenv("WS_FAULT_LIBRARY") != NULL))
		return;
	fd = (int)syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	memory = mmap(NULL, KIND_COUNT * sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		      0);
	syscall(SYS_close, fd);
	if (memory == MAP_FAILED)
		return;
	if (text)
		read_fault(text);
	library = getenv("WS_FAULT_LIBRARY");
	if (!library) {
		unsetenv("LD_PRELOAD");
		unsetenv("WS_FAULT");
		unsetenv("WS_FAULT_COUNTS");
	}
	dl_iterate_phdr(find_dwarf, NULL);
	counts = memory;
}
