/*
 * osrt_path.c - which file is behind a descriptor. Asked only for calls that are recorded.
 *
 * close() is not traced, so descriptors are reused without our knowing: what is remembered of one is believed only if
 * device, inode and birth time are still the same (file systems reuse inode numbers too). That is one quick system call; the link in
 * /proc, which is a slow one, is read when it fails. Everything is a raw system call, for errno and for our own wrappers' sake.
 *
 * The memory is a table that the process's threads share without locks: a writer takes an entry by making its sequence odd, and
 * who finds it taken does without.
 */
#include <fcntl.h>
#include <linux/stat.h>
#include <string.h>
#include <sys/syscall.h>

#include "inject/osrt.h"

/* As much of the kernel's struct stat as is looked at: <sys/stat.h> has its own statx and does not mix with <linux/stat.h>. */
struct kernel_stat {
	uint64_t dev, ino;
	char rest[240];
};

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

static bool identify(struct ws_osrt_found *f)
{
	struct kernel_stat st;
	struct statx x;
	long r;

	if (!atomic_load_explicit(&no_statx, memory_order_relaxed)) {
		x.stx_btime.tv_sec = 0;
		x.stx_btime.tv_nsec = 0;
		r = ws_sys(SYS_statx, f->fd, (long)"", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO | STATX_BTIME, (long)&x, 0);
		if (!r) {
			f->dev = (uint64_t)x.stx_dev_major << 32 | x.stx_dev_minor;
			f->ino = x.stx_ino;
			f->born = x.stx_mask & STATX_BTIME ? (uint64_t)x.stx_btime.tv_sec * 1000000000u + x.stx_btime.tv_nsec : 0;
			return true;
		}
		if (r != -ENOSYS && r != -EPERM)
			return false;
		atomic_store_explicit(&no_statx, 1, memory_order_relaxed);
	}
	if (ws_sys(SYS_fstat, f->fd, (long)&st, 0, 0, 0, 0))
		return false;
	f->dev = st.dev;
	f->ino = st.ino;
	f->born = 0;
	return true;
}

/* Was the descriptor reused while its name was being asked for? */
static bool still_same(struct ws_osrt_found *f)
{
	uint64_t dev = f->dev, ino = f->ino, born = f->born;

	return identify(f) && f->dev == dev && f->ino == ino && f->born == born;
}

static uint32_t recall(const struct ws_osrt_found *f)
{
	struct entry *e = &entries[(unsigned)f->fd % ENTRIES];
	uint32_t sequence = atomic_load_explicit(&e->sequence, memory_order_acquire), handle;

	if (sequence & 1 || e->fd != f->fd || e->generation != ws_rt->generation || e->dev != f->dev || e->ino != f->ino ||
	    e->born != f->born)
		return 0;
	handle = e->handle;
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&e->sequence, memory_order_relaxed) == sequence ? handle : 0;
}

static void remember(const struct ws_osrt_found *f, uint32_t handle)
{
	struct entry *e = &entries[(unsigned)f->fd % ENTRIES];
	uint32_t sequence = atomic_load_explicit(&e->sequence, memory_order_relaxed);

	if (sequence & 1 || !atomic_compare_exchange_strong_explicit(&e->sequence, &sequence, sequence + 1, memory_order_acquire,
								     memory_order_relaxed))
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

/* "/proc/thread-self/fd/N"; thread-self because a thread may have descriptors of its own (unshare). */
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
	if (fd < 0 || atomic_load_explicit(&off, memory_order_relaxed) || !identify(f))
		return;
	f->handle = recall(f);
	if (f->handle)
		return;
	link_name(name, fd);
	f->len = ws_sys(SYS_readlinkat, AT_FDCWD, (long)name, (long)f->buf, sizeof(f->buf), 0, 0);
	if (f->len < 0 || !still_same(f))
		f->len = 0;
}

/* A path that does not fit the small buffer that stacks have room for: through one that all threads share, if it is free. */
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
	if (p.number && !p.local)
		remember(f, p.number);
	return p;
}
