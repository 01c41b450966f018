/* folder.c - see folder.h. */
#include "control/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "text/text.h"

int ws_session_check_name(const char *name, struct ws_err *err)
{
	size_t length = strlen(name);

	if (!length)
		return ws_fail(err, "a session's name cannot be empty");
	if (length > WS_SESSION_NAME_MOST)
		return ws_fail(err, "a session's name has at most %d bytes, not %zu",
			       WS_SESSION_NAME_MOST, length);
	if (*name == '.' || *name == '-')
		return ws_fail(err, "a session's name cannot begin with '%c'", *name);
	for (const char *at = name; *at; at++)
		if (*at == '/' || (unsigned char)*at < ' ' || *at == 127)
			return ws_fail(err, "a session's name cannot hold slashes or control "
					    "characters");
	if (!ws_is_valid_utf8(name, length))
		return ws_fail(err, "a session's name must be valid UTF-8");
	return 0;
}

/* Write the i-th place to `path`; false when it must not be used or there are fewer places. */
static bool name_folder(unsigned i, char *path, size_t size)
{
	const char *runtime = getenv("XDG_RUNTIME_DIR"), *only = getenv("WS_TEST_SESSIONS");
	struct stat st;

	if (only && *only == '/')
		return !i && snprintf(path, size, "%s", only) < (int)size;
	if (i) {
		snprintf(path, size, "/tmp/warpsight-%u", (unsigned)geteuid());
		return true;
	}
	return runtime && *runtime == '/' && !stat(runtime, &st) && S_ISDIR(st.st_mode) &&
	       st.st_uid == geteuid() && snprintf(path, size, "%s/warpsight", runtime) < (int)size;
}

/* Open it if it is ours alone. */
static int open_private(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return -1;
	if (!fstat(fd, &st) && st.st_uid == geteuid() && (!(st.st_mode & 077) || !fchmod(fd, 0700)))
		return fd;
	close(fd);
	errno = EPERM;
	return -1;
}

int ws_session_make_folder(struct ws_err *err)
{
	char path[PATH_MAX];
	int fd = -1;

	for (unsigned i = 0; i < 2 && fd < 0; i++) {
		if (!name_folder(i, path, sizeof(path)))
			continue;
		mkdir(path, 0700);
		fd = open_private(path);
	}
	if (fd >= 0)
		return fd;
	if (errno == EPERM || errno == ENOTDIR || errno == ELOOP)
		return ws_fail(
			err,
			"%s is not a folder of yours: sessions need it, or a folder of yours "
			"in XDG_RUNTIME_DIR",
			path);
	return ws_fail_errno(err, "cannot make the folder of sessions, %s", path);
}

int ws_session_open_folder(unsigned i)
{
	char path[PATH_MAX];

	if (i > 1)
		return -2;
	return name_folder(i, path, sizeof(path)) ? open_private(path) : -1;
}

void ws_session_lock_folder(int folder)
{
	while (flock(folder, LOCK_EX) && errno == EINTR)
		;
}

void ws_session_unlock_folder(int folder)
{
	flock(folder, LOCK_UN);
}
