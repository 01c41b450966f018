/*
 * file.c - see file.h.
 *
 * The lock is flock on the report itself: it disappears with the recorder however that ends, and
 * leaves nothing behind. The file is made and locked under a temporary name and then put in place
 * without replacing anything (link semantics) or, with overwrite, by rename while the lock of the
 * old file is held: so two recorders cannot both get the same name.
 */
#include "store/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/ticks.h"

int ws_pread_all(int fd, void *to, size_t size, uint64_t at)
{
	char *next = to;

	while (size) {
		ssize_t got = pread(fd, next, size, (off_t)at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			if (!got)
				errno = EIO;
			return -1;
		}
		next += got;
		at += (uint64_t)got;
		size -= (size_t)got;
	}
	return 0;
}

/*
 * A write beyond RLIMIT_FSIZE raises SIGXFSZ, which kills the process. If the process ignored it,
 * the target would inherit that; so it is blocked in this thread during the write, and consumed if
 * it arrived.
 */
struct signal_guard {
	sigset_t set, old;
};

static void block_sigxfsz(struct signal_guard *guard)
{
	sigemptyset(&guard->set);
	sigaddset(&guard->set, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &guard->set, &guard->old);
}

static void unblock_sigxfsz(struct signal_guard *guard)
{
	struct timespec none = {0};
	int saved = errno;

	if (saved == EFBIG)
		sigtimedwait(&guard->set, NULL, &none);
	pthread_sigmask(SIG_SETMASK, &guard->old, NULL);
	errno = saved;
}

int ws_pwrite_all(int fd, const void *from, size_t size, uint64_t at)
{
	const char *next = from;
	struct signal_guard guard;
	int rc = 0;

	errno = 0;
	block_sigxfsz(&guard);
	while (size) {
		ssize_t written = pwrite(fd, next, size, (off_t)at);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0) {
			if (!written)
				errno = ENOSPC;
			rc = -1;
			break;
		}
		next += written;
		at += (uint64_t)written;
		size -= (size_t)written;
	}
	unblock_sigxfsz(&guard);
	return rc;
}

int ws_guarded_fallocate(int fd, int mode, uint64_t at, uint64_t size)
{
	struct signal_guard guard;
	int rc;

	errno = 0;
	block_sigxfsz(&guard);
	do
		rc = fallocate(fd, mode, (off_t)at, (off_t)size);
	while (rc && errno == EINTR);
	unblock_sigxfsz(&guard);
	return rc;
}

/* ---- locks ---- */

/* Where the file system has no locks at all (some network file systems), locking succeeds. */
int ws_lock_file(int fd)
{
	for (int attempt = 0;; attempt++) {
		struct timespec pause = {0, 2000000};

		if (!flock(fd, LOCK_EX | LOCK_NB))
			return 1;
		if (errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL)
			return 1;
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -1;
		if (attempt == 10) /* longer than a reader checking the lock takes */
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

bool ws_report_is_taken(const char *path)
{
	int old = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool locked = old >= 0 && ws_file_is_locked(old);

	if (old >= 0)
		close(old);
	return locked;
}

static int fail_exists(const char *path, int fd, struct ws_err *err)
{
	close(fd);
	if (ws_report_is_taken(path))
		return fail_taken(path, err);
	return ws_fail(err, "%s exists already; --force-overwrite=true (-f) replaces it", path);
}

/* Reserve the name with an empty file and then replace it: for file systems without hard links
 * (some FUSE ones, FAT). */
static int name_exclusively(const char *temp, const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return -1;
	close(fd);
	return rename(temp, path);
}

/* Whether two names refer to one file. */
static bool is_linked(const char *temp, const char *path)
{
	struct stat left, right;

	return !lstat(temp, &left) && !lstat(path, &right) && left.st_dev == right.st_dev &&
	       left.st_ino == right.st_ino;
}

/*
 * Give the file at `temp` the name `path` unless that exists: errno EEXIST then. Network file
 * systems lack RENAME_NOREPLACE; and if the answer to a link was lost and the request repeated,
 * their servers say that the name exists, though it is ours.
 */
static int name_new_file(const char *temp, const char *path)
{
	int error;

	if (!renameat2(AT_FDCWD, temp, AT_FDCWD, path, RENAME_NOREPLACE))
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -1;
	if (link(temp, path) && !is_linked(temp, path)) {
		error = errno;
		if (error == EPERM || error == EOPNOTSUPP) /* no hard links there either */
			return name_exclusively(temp, path);
		errno = error;
		return -1;
	}
	unlink(temp);
	return 0;
}

static bool is_same_file(int fd, const char *path)
{
	struct stat left, right;

	return !fstat(fd, &left) && !lstat(path, &right) && left.st_dev == right.st_dev &&
	       left.st_ino == right.st_ino;
}

/* Replace the open file `old`, which `path` named a moment ago. 0 done, 1 try again, -1 error. */
static int replace_locked(const char *temp, const char *path, int old, struct ws_err *err)
{
	int locked = ws_lock_file(old);

	if (!locked)
		return fail_taken(path, err);
	if (locked == 1 && !is_same_file(old, path))
		return 1;
	if (locked < 0 || rename(temp, path))
		return ws_fail_errno(err, "cannot replace %s", path);
	return 0;
}

/* NFS grants an exclusive lock only on a file that is open for writing. */
static int open_to_lock(const char *path)
{
	const int flags = O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW;
	int fd = open(path, O_RDWR | flags);

	if (fd < 0 && (errno == EACCES || errno == EROFS || errno == EPERM || errno == ETXTBSY))
		fd = open(path, O_RDONLY | flags);
	return fd;
}

/* Replace what is at `path`, holding its lock meanwhile so that no running recorder loses its file.
 * 0 done, 1 try again, -1 error. */
static int name_over_file(const char *temp, const char *path, struct ws_err *err)
{
	struct stat status;
	int old, rc;
	if (lstat(path, &status)) {
		if (errno != ENOENT)
			return ws_fail_errno(err, "cannot look at %s", path);
		if (!name_new_file(temp, path))
			return 0;
		if (errno == EEXIST)
			return 1;
		return ws_fail_errno(err, "cannot create %s", path);
	}
	if (!S_ISREG(status.st_mode))
		return ws_fail(err, "%s is not a regular file and will not be replaced", path);
	old = open_to_lock(path);
	if (old < 0 && errno == ENOENT)
		return 1;
	if (old < 0)
		return ws_fail_errno(err, "cannot open %s to see whether it is in use", path);
	rc = replace_locked(temp, path, old, err);
	close(old);
	return rc;
}

static int put_in_place(const char *temp, const char *path, bool overwrite, int fd,
			struct ws_err *err)
{
	int rc = 1;

	if (!overwrite) {
		if (!name_new_file(temp, path))
			return fd;
		if (errno == EEXIST)
			return fail_exists(path, fd, err);
		ws_fail_errno(err, "cannot create %s", path);
		close(fd);
		return -1;
	}
	for (int i = 0; i < 100 && rc == 1; i++)
		rc = name_over_file(temp, path, err);
	if (rc == 1)
		ws_fail(err, "cannot replace %s: it keeps changing", path);
	if (!rc)
		return fd;
	close(fd);
	return -1;
}

/* A unique name beside `path`: other hosts and containers that share the folder may have a process
 * with our pid. */
static char *make_temporary_name(const char *path)
{
	static _Atomic uint64_t count; /* several writers in one process */
	uint64_t number = 0;

	if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != (ssize_t)sizeof(number))
		number = ws_read_raw_ns() ^ (uint64_t)getpid() << 40;
	return ws_format("%s.%016" PRIx64 ".tmp", path, number + count++);
}

int ws_file_create(const char *path, bool overwrite, const void *start, size_t size,
		   struct ws_err *err)
{
	char *temp = make_temporary_name(path);
	struct stat status;
	int fd;

	if (!overwrite && !lstat(path, &status)) { /* the common case, without creating anything */
		free(temp);
		return fail_exists(path, -1, err);
	}
	fd = open(temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0) {
		ws_fail_errno(err, "cannot create %s", path);
		free(temp);
		return -1;
	}
	if (fchmod(fd, 0600) || ws_lock_file(fd) < 0 || ws_pwrite_all(fd, start, size, 0)) {
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
