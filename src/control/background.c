/* background.c - see background.h. */
#include "control/background.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	READY = 3,
	MOST_FDS = 65536
}; /* READY: the number of the passed descriptor; MOST_FDS: for kernels without close_range */

static void close_from(int first)
{
	if (!syscall(SYS_close_range, first, ~0u, 0))
		return;
	for (int fd = first; fd < MOST_FDS; fd++)
		close(fd);
}

int ws_background_detach(int ready, const char *name)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	setsid();
	for (int fd = 0; fd < READY && null >= 0; fd++)
		dup2(null, fd);
	if (ready != READY)
		dup2(ready, READY);
	fcntl(READY, F_SETFD, FD_CLOEXEC);
	close_from(READY + 1);
	prctl(PR_SET_NAME, name);
	return READY;
}

void ws_background_ready(int ready, const char *message)
{
	if (message)
		(void)!write(ready, message, strlen(message));
	close(ready);
}

/* The intermediate process ends at once, so that nobody has to wait for the second one. */
static void fork_again(void (*run)(void *ctx, int ready), void *ctx, int ready)
{
	pid_t pid = fork();

	if (pid < 0)
		ws_background_ready(ready, "no process can be started");
	if (pid)
		_exit(0);
	run(ctx, ready);
	_exit(1);
}

int ws_background_start(void (*run)(void *ctx, int ready), void *ctx, char *said, size_t size,
			struct ws_err *err)
{
	int ready[2];
	ssize_t n;
	pid_t pid;

	*said = 0;
	if (pipe2(ready, O_CLOEXEC))
		return ws_fail_errno(err, "cannot make a pipe");
	pid = fork();
	if (!pid)
		fork_again(run, ctx, ready[1]);
	close(ready[1]);
	if (pid < 0) {
		close(ready[0]);
		return ws_fail_errno(err, "cannot start a process in the background");
	}
	waitpid(pid, NULL, 0);
	while ((n = read(ready[0], said, size - 1)) < 0 && errno == EINTR)
		;
	said[n > 0 ? n : 0] = 0;
	close(ready[0]);
	return 0;
}
