/*
 * file.c - see file.h.
 *
 * The lock is flock on the report itself: it goes with the recorder however that dies, and leaves
 * nothing behind. The file is made and locked under a temporary name and then put in place without
 * replacing (link semantics) or, with overwrite, by rename while the lock of the old file is held:
 * so two recorders that want one name cannot both have it.
 */
#include "store/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

int ws_pread_all(int fd, void *to, size_t n, uint64_t at)
{
	char *from = to;

	while (n) {
		ssize_t got = pread(fd, from, n, (off_t)at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			if (!got)
				errno = EIO;
			return -1;
		}
		from += got;
		at += (uint64_t)got;
		n -= (size_t)got;
	}
	return 0;
}

/*
 * A write beyond RLIMIT_FSIZE raises SIGXFSZ, which kills. Ignoring it for the process would be
 * inherited by the target, so it is blocked in this thread for the moment of the write, and taken
 * off if it came.
 */
struct guard {
	sigset_t set, old;
};

static void guard_on(struct guard *guard)
{
	sigemptyset(&guard->set);
	sigaddset(&guard->set, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &guard->set, &guard->old);
}

static void guard_off(struct guard *guard)
{
	struct timespec none = {0};
	int saved = errno;

	if (saved == EFBIG)
		sigtimedwait(&guard->set, NULL, &none);
	pthread_sigmask(SIG_SETMASK, &guard->old, NULL);
	errno = saved;
}

int ws_pwrite_all(int fd, const void *from, size_t n, uint64_t at)
{
	const char *scan = from;
	struct guard guard;
	int rc = 0;

	errno = 0;
	guard_on(&guard);
	while (n) {
		ssize_t put = pwrite(fd, scan, n, (off_t)at);

		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0) {
			if (!put)
				errno = ENOSPC;
			rc = -1;
			break;
		}
		scan += put;
		at += (uint64_t)put;
		n -= (size_t)put;
	}
	guard_off(&guard);
	return rc;
}

int ws_guarded_fallocate(int fd, int mode, uint64_t at, uint64_t n)
{
	struct guard guard;
	int rc;

	errno = 0;
	guard_on(&guard);
	do
		rc = fallocate(fd, mode, (off_t)at, (off_t)n);
	while (rc && errno == EINTR);
	guard_off(&guard);
	return rc;
}

/* ---- locks ---- */

/* Where there are no locks at all (some network file systems), that is as good as locked. */
int ws_file_lock(int fd)
{
	for (int i = 0;; i++) {
		struct timespec pause = {0, 2000000};

		if (!flock(fd, LOCK_EX | LOCK_NB))
			return 1;
		if (errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL)
			return 1;
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -1;
		if (i == 10) /* longer than a reader's glance takes */
			return 0;
		nanosleep(&pause, NULL);
	}
}

bool ws_file_is_locked(int fd)
{
	if (flock(fd, LOCK_SH | LOCK_NB))
		return errno == EWOULDBLOCK;
	flock(fd, LOCK_UN);
	return false;
}

/* ---- making the file ---- */

static int fail_taken(const char *path, struct ws_err *err)
{
	return ws_fail(err, "%s is being written by another recorder", path);
}

static int fail_exists(const char *path, int fd, struct ws_err *err)
{
	int old = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool locked = old >= 0 && ws_file_is_locked(old);

	if (old >= 0)
		close(old);
	close(fd);
	if (locked)
		return fail_taken(path, err);
	return ws_fail(err, "%s exists already; --force-overwrite=true (-f) replaces it", path);
}

/* Give the file at `temp` the name `path` unless that exists: errno EEXIST then. */
static int name_new(const char *temp, const char *path)
{
	if (!renameat2(AT_FDCWD, temp, AT_FDCWD, path, RENAME_NOREPLACE))
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -1;
	if (link(temp, path))
		return -1;
	unlink(temp);
	return 0;
}

static bool same_file(int fd, const char *path)
{
	struct stat left, right;

	return !fstat(fd, &left) && !lstat(path, &right) && left.st_dev == right.st_dev &&
	       left.st_ino == right.st_ino;
}

/* Replace what is at `path`, holding its lock meanwhile so that no running recorder loses its file.
 * 0 done, 1 try again. */
static int name_over(const char *temp, const char *path, struct ws_err *err)
{
	struct stat st;
	int old, locked;

	if (lstat(path, &st)) {
		if (errno != ENOENT)
			return ws_fail_errno(err, "cannot look at %s", path);
		if (!name_new(temp, path))
			return 0;
		return errno == EEXIST ? 1 : ws_fail_errno(err, "cannot create %s", path);
	}
	if (!S_ISREG(st.st_mode))
		return ws_fail(err, "%s is not a regular file and will not be replaced", path);
	old = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	if (old < 0)
		return errno == ENOENT
			       ? 1
			       : ws_fail_errno(err, "cannot open %s to see whether it is in use",
					       path);
	locked = ws_file_lock(old);
	if (locked == 1 && !same_file(old, path)) {
		close(old);
		return 1;
	}
	if (locked == 1 && rename(temp, path))
		locked = -1;
	if (locked < 0)
		ws_fail_errno(err, "cannot replace %s", path);
	close(old);
	return locked == 1 ? 0 : locked == 0 ? fail_taken(path, err) : -1;
}

static int put_in_place(const char *temp, const char *path, bool overwrite, int fd,
			struct ws_err *err)
{
	int rc = 1;

	if (!overwrite) {
		if (!name_new(temp, path))
			return fd;
		if (errno == EEXIST)
			return fail_exists(path, fd, err);
		ws_fail_errno(err, "cannot create %s", path);
		close(fd);
		return -1;
	}
	for (int i = 0; i < 100 && rc == 1; i++)
		rc = name_over(temp, path, err);
	if (rc == 1)
		ws_fail(err, "cannot replace %s: it keeps changing", path);
	if (!rc)
		return fd;
	close(fd);
	return -1;
}

int ws_file_create(const char *path, bool overwrite, const void *start, size_t n,
		   struct ws_err *err)
{
	static unsigned count; /* several writers in one process */
	char *temp = ws_format("%s.%d-%u.tmp", path, (int)getpid(),
			       __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED));
	struct stat st;
	int fd;

	if (!overwrite && !lstat(path, &st)) { /* the plain case, without making anything */
		free(temp);
		return fail_exists(path, -1, err);
	}
	unlink(temp);
	fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) {
		ws_fail_errno(err, "cannot create %s", path);
		free(temp);
		return -1;
	}
	if (fchmod(fd, 0600) || ws_file_lock(fd) < 0 || ws_pwrite_all(fd, start, n, 0)) {
		ws_fail_errno(err, "cannot write %s", path);
		close(fd);
		fd = -1;
	} else {
		fd = put_in_place(temp, path, overwrite, fd, err);
	}
	if (fd < 0)
		unlink(temp);
	free(temp);
	return fd;
}
