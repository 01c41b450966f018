/*
 * rt_open.c - a descriptor of the arena, for as long as something is mapped or allocated by it; see
 * ring/arena_name.h for the two ways. The second needs the recorder to answer: it waits a second at
 * most, and once there was no answer it does not try again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "inject/rt_state.h"
#include "ring/arena_name.h"

#define NONE (-1)

static long open_link(const struct ws_arena_name *name)
{
	char link[WS_ARENA_LINK], wanted[WS_ARENA_LINK], seen[WS_ARENA_LINK];
	long n;

	ws_write_arena_link(name, link, wanted);
	n = SYS4(SYS_readlinkat, AT_FDCWD, link, seen, sizeof(seen));
	if (n != (long)strlen(wanted) || memcmp(seen, wanted, (size_t)n))
		return NONE;
	return SYS4(SYS_openat, AT_FDCWD, link, O_RDWR | O_CLOEXEC, 0);
}

/* The number behind a word of /proc/self/status; UINT32_MAX when it is not there. */
static uint32_t find_status(const char *status, const char *word)
{
	const size_t n = strlen(word);
	uint32_t number = 0;

	for (const char *at = status; *at; at++) {
		if ((at > status && at[-1] != '\n') || strncmp(at, word, n))
			continue;
		for (at += n; *at == '\t' || *at == ' '; at++)
			;
		for (; *at >= '0' && *at <= '9'; at++)
			number = number * 10 + (uint32_t)(*at - '0');
		return number;
	}
	return UINT32_MAX;
}

/* Seccomp filters of this process; UINT32_MAX when it has some and the kernel does not count them.
 * Where /proc is not mounted nothing is known, and none are assumed. */
static uint32_t count_filters(void)
{
	char status[4096];
	long n, fd = SYS4(SYS_openat, AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC, 0);

	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return UINT32_MAX;
	n = SYS3(SYS_read, fd, status, sizeof(status) - 1);
	SYS1(SYS_close, fd);
	if (n <= 0)
		return UINT32_MAX;
	status[n] = 0;
	if (!find_status(status, "Seccomp:"))
		return 0;
	return find_status(status, "Seccomp_filters:");
}

static long receive_descriptor(long connection)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	char byte;
	struct iovec iovec = {&byte, 1};
	struct msghdr message = {.msg_iov = &iovec,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	long n;
	int fd = NONE;

	memset(&control, 0, sizeof(control));
	n = SYS3(SYS_recvmsg, connection, &message, MSG_CMSG_CLOEXEC);
	if (n == -EAGAIN)
		ws_rt_kept.unanswered = true;
	if (n == 1 && message.msg_controllen >= CMSG_LEN(sizeof(int)) &&
	    control.head.cmsg_level == SOL_SOCKET && control.head.cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(&control.head), sizeof(fd));
	return fd;
}

static void limit_wait(long connection, int which)
{
	const struct timeval patience = {.tv_sec = 1};

	ws_raw_syscall(SYS_setsockopt, connection, SOL_SOCKET, which, (long)&patience,
		       sizeof(patience), 0);
}

static long ask_recorder(const char *path, const struct ws_arena_name *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	long connection, result, fd = NONE;

	if (ws_rt_kept.unanswered || strlen(path) >= sizeof(address.sun_path) ||
	    count_filters() > name->filters)
		return NONE;
	strcpy(address.sun_path, path);
	connection = SYS3(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connection < 0)
		return NONE;
	limit_wait(connection, SO_SNDTIMEO); /* of connect */
	limit_wait(connection, SO_RCVTIMEO);
	result = SYS3(SYS_connect, connection, &address, sizeof(address));
	if (!result)
		fd = receive_descriptor(connection);
	else if (result == -EAGAIN)
		ws_rt_kept.unanswered = true;
	SYS1(SYS_close, connection);
	return fd;
}

long ws_rt_open_directly(void)
{
	struct ws_arena_name name;

	if (ws_read_arena_name(ws_rt_kept.path, &name) && name.sealed)
		return open_link(&name);
	return SYS4(SYS_openat, AT_FDCWD, ws_rt_kept.path, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
}

long ws_rt_open_arena(void)
{
	struct ws_arena_name name;
	long fd = ws_rt_open_directly();

	if (fd >= 0 || !ws_read_arena_name(ws_rt_kept.path, &name) || !name.sealed)
		return fd;
	return ask_recorder(ws_rt_kept.path, &name);
}
