/*
 * osrt_path.c - which file is behind a descriptor. Asked only for calls that are recorded.
 *
 * close() is not traced, so descriptors are reused without our knowing: what is remembered about
 * one is used only if the file is provably the same, which one fast system call shows; otherwise
 * the link in /proc is read, which is slow. Device and inode do not suffice, since file systems
 * reuse inode numbers at once: the birth time must be the same too, and be past by more than its
 * resolution when it is first seen, so that no later file can have it. The paths of files without a
 * birth time, and of anonymous files, which share one inode, are read each time.
 *
 * Everything is a raw system call, for errno and for our own wrappers' sake. The memory is a table
 * that the process's threads share without locks: a writer takes an entry by making its sequence
 * odd, and a reader that finds it taken does not use the table.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "inject/osrt.h"

#define ENTRIES 1024u

static struct entry {
	_Atomic uint32_t sequence;
	uint32_t generation; /* of the process: a forked child's strings are its own */
	int fd;
	uint32_t handle;
	uint64_t dev, ino, born;
} entries[ENTRIES];

static _Atomic int no_statx;

/* Birth times come from a clock that ticks 100 times a second at least. */
#define SETTLED_NS UINT64_C(50000000)

/* Fills in what identifies the file; `ino` is 0 when nothing does. */
static void identify_file(struct ws_osrt_found *found)
{
	struct timespec now;
	struct statx statx;
	unsigned type;
	long r;

	found->ino = 0;
	if (atomic_load_explicit(&no_statx, memory_order_relaxed))
		return;
	statx.stx_mask = 0;
	r = ws_raw_syscall(SYS_statx, found->fd, (long)"", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
			   STATX_TYPE | STATX_INO | STATX_BTIME, (long)&statx, 0);
	if (r == -ENOSYS || r == -EPERM)
		atomic_store_explicit(&no_statx, 1, memory_order_relaxed);
	if (r || !(statx.stx_mask & STATX_INO))
		return;
	type = statx.stx_mode & S_IFMT;
	found->stream = type == S_IFIFO || type == S_IFSOCK;
	found->dev = (uint64_t)statx.stx_dev_major << 32 | statx.stx_dev_minor;
	found->born = 0;
	if (statx.stx_mask & STATX_BTIME) {
		found->born =
			(uint64_t)statx.stx_btime.tv_sec * 1000000000u + statx.stx_btime.tv_nsec;
		clock_gettime(CLOCK_REALTIME, &now);
		if (found->born + SETTLED_NS >
		    (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec)
			return;
	} else if (type != S_IFIFO && type != S_IFSOCK && type != S_IFCHR) {
		return;
	}
	found->ino = statx.stx_ino;
}

/* Whether it is still the same file: the descriptor may be reused while its name is read. */
static bool is_same_file(struct ws_osrt_found *found)
{
	uint64_t dev = found->dev, ino = found->ino, born = found->born;

	identify_file(found);
	return found->ino && found->dev == dev && found->ino == ino && found->born == born;
}

static uint32_t recall_path(const struct ws_osrt_found *found)
{
	struct entry *entry = &entries[(unsigned)found->fd % ENTRIES];
	uint32_t sequence = atomic_load_explicit(&entry->sequence, memory_order_acquire), handle;

	if (sequence & 1 || entry->fd != found->fd || entry->generation != ws_rt->generation ||
	    entry->dev != found->dev || entry->ino != found->ino || entry->born != found->born)
		return 0;
	handle = entry->handle;
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&entry->sequence, memory_order_relaxed) == sequence ? handle
											: 0;
}

static void remember_path(const struct ws_osrt_found *found, uint32_t handle)
{
	struct entry *entry = &entries[(unsigned)found->fd % ENTRIES];
	uint32_t sequence = atomic_load_explicit(&entry->sequence, memory_order_relaxed);

	if (sequence & 1 ||
	    !atomic_compare_exchange_strong_explicit(&entry->sequence, &sequence, sequence + 1,
						     memory_order_acquire, memory_order_relaxed))
		return;
	atomic_thread_fence(memory_order_release);
	entry->fd = found->fd;
	entry->generation = ws_rt->generation;
	entry->handle = handle;
	entry->dev = found->dev;
	entry->ino = found->ino;
	entry->born = found->born;
	atomic_store_explicit(&entry->sequence, sequence + 2, memory_order_release);
}

/* "/proc/thread-self/fd/N"; thread-self because a thread may have descriptors of its own (unshare).
 */
static void read_link_name(char *to, int fd)
{
	static const char folder[] = "/proc/thread-self/fd/";
	char digits[12];
	unsigned n = sizeof(digits) - 1, v = (unsigned)fd;

	digits[n] = 0;
	do
		digits[--n] = (char)('0' + v % 10);
	while (v /= 10);
	memcpy(to, folder, sizeof(folder) - 1);
	memcpy(to + sizeof(folder) - 1, digits + n, sizeof(digits) - n);
}

void ws_osrt_find_path(int fd, struct ws_osrt_found *found)
{
	char name[40];

	found->handle = 0;
	found->len = 0;
	found->stream = false;
	found->fd = fd;
	if (fd < 0 || ws_rt_is_sandboxed())
		return;
	identify_file(found);
	if (found->ino && (found->handle = recall_path(found)))
		return;
	read_link_name(name, fd);
	found->len = ws_raw_syscall(SYS_readlinkat, AT_FDCWD, (long)name, (long)found->buf,
				    sizeof(found->buf), 0, 0);
	if (found->len < 0)
		found->len = 0;
	if (found->ino && !is_same_file(found))
		found->ino = 0; /* the name belongs to one of the two files; it is not remembered */
}

/* For a path that does not fit the small buffer that stacks have room for: use one that all threads
 * share, if it is free. */
static struct ws_osrt_path read_long_path(struct ws_thread *thread,
					  const struct ws_osrt_found *found)
{
	static char buf[4096];
	static _Atomic int taken;
	struct ws_osrt_path path = {0};
	char name[40];
	long len;

	if (atomic_exchange_explicit(&taken, 1, memory_order_acquire))
		return path;
	read_link_name(name, found->fd);
	len = ws_raw_syscall(SYS_readlinkat, AT_FDCWD, (long)name, (long)buf, sizeof(buf), 0, 0);
	if (len > 0)
		path.number = ws_rt_write_string_or_text(thread, buf, (size_t)len, &path.local,
							 WS_LOSS_OSRT);
	atomic_store_explicit(&taken, 0, memory_order_release);
	return path;
}

struct ws_osrt_path ws_osrt_release_path(struct ws_thread *thread, struct ws_osrt_found *found)
{
	struct ws_osrt_path path = {found->handle, false};

	if (found->handle || found->len <= 0)
		return path;
	if (found->len == WS_OSRT_PATH_ROOM)
		path = read_long_path(thread, found);
	else
		path.number = ws_rt_write_string_or_text(thread, found->buf, (size_t)found->len,
							 &path.local, WS_LOSS_OSRT);
	if (path.number && !path.local && found->ino)
		remember_path(found, path.number);
	return path;
}
