/*
 * osrt_path.c - which file is behind a descriptor. Asked only for calls that are recorded.
 *
 * close() is not traced, so descriptors are reused without our knowing: what is remembered of one
 * is believed only if the file is provably the same, which one quick system call tells; else the
 * link in /proc is read, which is a slow one. Device and inode do not suffice, since file systems
 * reuse inode numbers at once: the birth time must be the same too, and be past by more than its
 * resolution when it is first seen, so that no later file can have it. Files without a birth time,
 * and anonymous ones, which share one inode, are asked for each time.
 *
 * Everything is a raw system call, for errno and for our own wrappers' sake. The memory is a table
 * that the process's threads share without locks: a writer takes an entry by making its sequence
 * odd, and who finds it taken does without.
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

static _Atomic int off, no_statx;

void ws_osrt_path_off(void)
{
	atomic_store_explicit(&off, 1, memory_order_relaxed);
}

/* Birth times come from a clock that ticks 100 times a second at least. */
#define SETTLED_NS UINT64_C(50000000)

/* Fills in what tells the file from others; `ino` 0 when nothing does. */
static void identify(struct ws_osrt_found *f)
{
	struct timespec now;
	struct statx x;
	unsigned type;
	long r;

	f->ino = 0;
	if (atomic_load_explicit(&no_statx, memory_order_relaxed))
		return;
	x.stx_mask = 0;
	r = ws_sys(SYS_statx, f->fd, (long)"", AT_EMPTY_PATH | AT_STATX_DONT_SYNC,
		   STATX_TYPE | STATX_INO | STATX_BTIME, (long)&x, 0);
	if (r == -ENOSYS || r == -EPERM)
		atomic_store_explicit(&no_statx, 1, memory_order_relaxed);
	if (r || !(x.stx_mask & STATX_INO))
		return;
	type = x.stx_mode & S_IFMT;
	f->dev = (uint64_t)x.stx_dev_major << 32 | x.stx_dev_minor;
	f->born = 0;
	if (x.stx_mask & STATX_BTIME) {
		f->born = (uint64_t)x.stx_btime.tv_sec * 1000000000u + x.stx_btime.tv_nsec;
		clock_gettime(CLOCK_REALTIME, &now);
		if (f->born + SETTLED_NS >
		    (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec)
			return;
	} else if (type != S_IFIFO && type != S_IFSOCK && type != S_IFCHR) {
		return;
	}
	f->ino = x.stx_ino;
}

/* Or was the descriptor reused while its name was being asked for? */
static bool still_same(struct ws_osrt_found *f)
{
	uint64_t dev = f->dev, ino = f->ino, born = f->born;

	identify(f);
	return f->ino && f->dev == dev && f->ino == ino && f->born == born;
}

static uint32_t recall(const struct ws_osrt_found *f)
{
	struct entry *e = &entries[(unsigned)f->fd % ENTRIES];
	uint32_t sequence = atomic_load_explicit(&e->sequence, memory_order_acquire), handle;

	if (sequence & 1 || e->fd != f->fd || e->generation != ws_rt->generation ||
	    e->dev != f->dev || e->ino != f->ino || e->born != f->born)
		return 0;
	handle = e->handle;
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&e->sequence, memory_order_relaxed) == sequence ? handle : 0;
}

static void remember(const struct ws_osrt_found *f, uint32_t handle)
{
	struct entry *e = &entries[(unsigned)f->fd % ENTRIES];
	uint32_t sequence = atomic_load_explicit(&e->sequence, memory_order_relaxed);

	if (sequence & 1 ||
	    !atomic_compare_exchange_strong_explicit(&e->sequence, &sequence, sequence + 1,
						     memory_order_acquire, memory_order_relaxed))
		return;
	atomic_thread_fence(memory_order_release);
	e->fd = f->fd;
	e->generation = ws_rt->generation;
	e->handle = handle;
	e->dev = f->dev;
	e->ino = f->ino;
	e->born = f->born;
	atomic_store_explicit(&e->sequence, sequence + 2, memory_order_release);
}

/* "/proc/thread-self/fd/N"; thread-self because a thread may have descriptors of its own (unshare).
 */
static void link_name(char *to, int fd)
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

void ws_osrt_path_find(int fd, struct ws_osrt_found *f)
{
	char name[40];

	f->handle = 0;
	f->len = 0;
	f->fd = fd;
	if (fd < 0 || atomic_load_explicit(&off, memory_order_relaxed))
		return;
	identify(f);
	if (f->ino && (f->handle = recall(f)))
		return;
	link_name(name, fd);
	f->len = ws_sys(SYS_readlinkat, AT_FDCWD, (long)name, (long)f->buf, sizeof(f->buf), 0, 0);
	if (f->len < 0)
		f->len = 0;
	if (f->ino && !still_same(f))
		f->ino = 0; /* the name is one of the two's; it is not remembered */
}

/* A path that does not fit the small buffer that stacks have room for: through one that all threads
 * share, if it is free. */
static struct ws_osrt_path long_path(struct ws_thread *t, const struct ws_osrt_found *f)
{
	static char buf[4096];
	static _Atomic int taken;
	struct ws_osrt_path p = {0};
	char name[40];
	long len;

	if (atomic_exchange_explicit(&taken, 1, memory_order_acquire))
		return p;
	link_name(name, f->fd);
	len = ws_sys(SYS_readlinkat, AT_FDCWD, (long)name, (long)buf, sizeof(buf), 0, 0);
	if (len > 0)
		p.number = ws_rt_string_or_text(t, buf, (size_t)len, &p.local, WS_LOSS_OSRT);
	atomic_store_explicit(&taken, 0, memory_order_release);
	return p;
}

struct ws_osrt_path ws_osrt_path_done(struct ws_thread *t, struct ws_osrt_found *f)
{
	struct ws_osrt_path p = {f->handle, false};

	if (f->handle || f->len <= 0)
		return p;
	if (f->len == WS_OSRT_PATH_ROOM)
		p = long_path(t, f);
	else
		p.number = ws_rt_string_or_text(t, f->buf, (size_t)f->len, &p.local, WS_LOSS_OSRT);
	if (p.number && !p.local && f->ino)
		remember(f, p.number);
	return p;
}
