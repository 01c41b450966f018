/* child.c - see child.h. */
#include "serve/child.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/paths.h"

/* The kernel sends the signal also where the server is killed. A server that is gone already sends
 * none any more. */
static void follow_server(pid_t server, enum ws_child_end end)
{
	static const int signals[] = {[WS_CHILD_INTERRUPTED] = SIGINT, [WS_CHILD_KILLED] = SIGKILL};

	prctl(PR_SET_PDEATHSIG, signals[end]);
	if (getppid() != server)
		_exit(127);
}

/* The kernel then ends this process, and not the server, when there is no memory left. */
static void offer_memory(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	(void)!write(fd, "1000", 4);
	close(fd);
}

/* In the child, where only what is safe in a signal handler may be called: other threads were
 * running. */
static void exec_program(const char *program, char *const *argv, int null, int out)
{
	static const char lost[] = "warpsight: cannot run itself\n";
	sigset_t none;

	setpgid(0, 0);
	dup2(null, 0);
	dup2(out, 1);
	dup2(out, 2);
	syscall(SYS_close_range, 3u, ~0u, 0u);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execv(program, argv);
	(void)!write(2, lost, sizeof(lost) - 1);
	_exit(127);
}

int ws_child_start(char *const *argv, enum ws_child_end end, pid_t *pid, int *out,
		   struct ws_err *err)
{
	char program[PATH_MAX];
	pid_t server = getpid();
	int ends[2], null;

	if (ws_find_program(program, sizeof(program), err) < 0)
		return -1;
	null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (null < 0 || pipe2(ends, O_CLOEXEC)) {
		ws_fail_errno(err, "cannot start 'warpsight %s'", argv[1]);
		if (null >= 0)
			close(null);
		return -1;
	}
	*pid = fork();
	if (!*pid) {
		follow_server(server, end);
		if (end == WS_CHILD_KILLED)
			offer_memory();
		exec_program(program, argv, null, ends[1]);
	}
	close(null);
	close(ends[1]);
	*out = ends[0];
	if (*pid > 0)
		return 0;
	ws_fail_errno(err, "cannot start 'warpsight %s'", argv[1]);
	close(ends[0]);
	return -1;
}
