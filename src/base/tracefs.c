/*
 * tracefs.c - see tracefs.h.
 *
 * Containers and small virtual machines seldom have tracefs mounted, and its numbers are all that
 * perf needs for a tracepoint. So it is mounted for this process alone: fsmount gives a descriptor
 * of a file system that stands at no path.
 */
#include "base/tracefs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	FS_CREATE = 6,
	FS_CLOEXEC = 1
}; /* FSCONFIG_CMD_CREATE; FSOPEN_CLOEXEC and FSMOUNT_CLOEXEC */

/* The file system, mounted nowhere; -1 with errno. */
static int detached(void)
{
	int fs = (int)syscall(SYS_fsopen, "tracefs", FS_CLOEXEC), root = -1, events = -1, error;

	if (fs >= 0 && !syscall(SYS_fsconfig, fs, FS_CREATE, NULL, NULL, 0))
		root = (int)syscall(SYS_fsmount, fs, FS_CLOEXEC, 0);
	if (root >= 0)
		events = openat(root, "events", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	error = errno;
	if (root >= 0)
		close(root);
	if (fs >= 0)
		close(fs);
	errno = error;
	return events;
}

int ws_tracefs_open(const char **place, struct ws_err *err)
{
	static const char *const places[][2] = {
		{"/sys/kernel/tracing", "/sys/kernel/tracing/events"},
		{"/sys/kernel/debug/tracing", "/sys/kernel/debug/tracing/events"}};
	int fd, error = ENOENT;

	for (size_t i = 0; i < WS_COUNT(places); i++) {
		fd = open(places[i][1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (place)
			*place = fd >= 0 ? places[i][0] : NULL;
		if (fd >= 0)
			return fd;
		if (errno != ENOENT)
			error = errno;
	}
	fd = detached();
	if (fd >= 0)
		return fd;
	if (error != ENOENT) {
		ws_fail(err, "tracefs cannot be read (%s)", strerror(error));
	} else if (errno == ENODEV || errno == ENOENT) {
		error = errno;
		ws_fail(err, "the kernel has no tracefs");
	} else {
		ws_fail(err, "tracefs is not mounted, and mounting it is refused (%s)",
			strerror(errno));
	}
	errno = error;
	return -1;
}
