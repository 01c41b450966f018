/* child.c - see child.h. */
#include "serve/child.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/paths.h"

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

int ws_child_start(char *const *argv, pid_t *pid, int *out, struct ws_err *err)
{
	char program[PATH_MAX];
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
	if (!*pid)
		exec_program(program, argv, null, ends[1]);
	close(null);
	close(ends[1]);
	*out = ends[0];
	if (*pid > 0)
		return 0;
	ws_fail_errno(err, "cannot start 'warpsight %s'", argv[1]);
	close(ends[0]);
	return -1;
}
