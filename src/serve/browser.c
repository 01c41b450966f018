/* browser.c - see browser.h. */
#include "serve/browser.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

bool ws_browser_is_there(void)
{
	return getenv("DISPLAY") || getenv("WAYLAND_DISPLAY");
}

/* In a process of its own, which init waits for. Other threads were running: only what is safe in a
 * signal handler may be called before the exec. */
static void exec_browser(const char *address)
{
	sigset_t none;
	int null;

	if (fork())
		_exit(0);
	setsid();
	null = open("/dev/null", O_RDWR);
	if (null < 0)
		_exit(1);
	dup2(null, 0);
	dup2(null, 1);
	dup2(null, 2);
	syscall(SYS_close_range, 3u, ~0u, 0u);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execlp("xdg-open", "xdg-open", address, (char *)NULL);
	_exit(1);
}

void ws_browser_open(const char *address)
{
	pid_t pid = fork();

	if (!pid)
		exec_browser(address);
	if (pid > 0)
		waitpid(pid, NULL, 0);
}
