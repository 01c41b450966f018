/*
 * tracefs.c - see tracefs.h.
 *
 * Containers and small virtual machines seldom have tracefs mounted, and its numbers are all that
 * perf needs for a tracepoint. So it is mounted for this process alone: fsmount gives a descriptor
 * of a file system that has no path.
 */
#include "base/tracefs.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	FS_CREATE = 6, /* FSCONFIG_CMD_CREATE */
	FS_CLOEXEC = 1 /* FSOPEN_CLOEXEC and FSMOUNT_CLOEXEC */
};

/* The folder `events` of the file system, mounted nowhere; -1 with errno. */
static int open_detached_events(void)
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
		if (fd >= 0) {
			if (place)
				*place = places[i][0];
			return fd;
		}
		if (errno != ENOENT)
			error = errno;
	}
	if (place)
		*place = NULL;
	fd = open_detached_events();
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
