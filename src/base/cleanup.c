/* cleanup.c - see cleanup.h. The list is of fixed size and the handler calls only what is safe in
 * one. */
#include "base/cleanup.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 8, LONGEST = 4096 };

static struct {
	volatile sig_atomic_t what; /* 0 free, 1 file, 2 folder, 3 program */
	volatile pid_t pid;
	char path[LONGEST];
} list[MOST];

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
static struct sigaction before[3];
static int listed;

static void on_signal(int sig)
{
	int kept = errno; /* the signal strikes only after the handler, and what it interrupts may
			     look */

	for (int i = MOST; i--;) {
		if (list[i].what == 1)
			unlink(list[i].path);
		else if (list[i].what == 2)
			rmdir(list[i].path);
		else if (list[i].what == 3)
			kill(list[i].pid, SIGTERM);
	}
	signal(sig, SIG_DFL);
	raise(sig);
	errno = kept;
}

static void watch(bool on)
{
	struct sigaction sa = {.sa_handler = on_signal};

	for (int i = 0; i < 3; i++) {
		sigaddset(&sa.sa_mask, signals[i]);
		if (!on)
			sigaction(signals[i], &before[i], NULL);
		else if (!sigaction(signals[i], NULL, &before[i]) &&
			 before[i].sa_handler != SIG_IGN)
			sigaction(signals[i], &sa, NULL);
	}
}

static int add(int what, const char *path, pid_t pid)
{
	int i = 0;

	while (i < MOST && list[i].what)
		i++;
	if (i == MOST || (path && strlen(path) >= LONGEST))
		return -1;
	if (path)
		strcpy(list[i].path, path);
	list[i].pid = pid;
	if (!listed++)
		watch(true);
	list[i].what = what;
	return i;
}

int ws_cleanup_path(const char *path, bool folder)
{
	return add(folder ? 2 : 1, path, 0);
}

int ws_cleanup_program(pid_t pid)
{
	return add(3, NULL, pid);
}

void ws_cleanup_forget(int handle)
{
	if (handle < 0)
		return;
	list[handle].what = 0;
	if (!--listed)
		watch(false);
}
