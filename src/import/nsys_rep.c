/*
 * nsys_rep.c - .nsys-rep files: their format is not documented, so an installed nsys exports them
 * to SQLite. It is started directly, without a shell, and what it prints goes to standard error.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "import/formats.h"

/* Is there a program of this name in PATH? */
static bool in_path(const char *name)
{
	const char *path = getenv("PATH");
	bool found = false;

	for (const char *at = path; at && !found;
	     at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL) {
		char *full = ws_format("%.*s/%s", (int)strcspn(at, ":"), at, name);

		found = *at && *at != ':' && !access(full, X_OK);
		free(full);
	}
	return found;
}

static int run_nsys(const char *path, const char *output)
{
	const char *argv[] = {
		"nsys", "export", "--type=sqlite", "--force-overwrite=true", "--output", output,
		path,	NULL};
	int status, program;
	sigset_t all, before;
	pid_t pid;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all,
		    &before); /* until it is listed: a signal between would leave it running */
	pid = fork();
	if (!pid) {
		sigprocmask(SIG_SETMASK, &before, NULL);
		dup2(2, 1);
		execvp(argv[0], (char *const *)argv);
		_exit(127);
	}
	program = pid > 0 ? ws_cleanup_program(pid) : -1;
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (pid < 0)
		return -1;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR) {
			ws_cleanup_forget(program);
			return -1;
		}
	ws_cleanup_forget(program);
	return WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -1;
}

int ws_nsys_export(struct ws_into *into, const char *path, char **out, int litter[2])
{
	const char *tmp = getenv("TMPDIR");
	char *folder, *absolute;

	if (!in_path("nsys"))
		return ws_into_stop(into,
				    "%s is a report of Nsight Systems, which only its own program "
				    "reads, and no nsys is installed "
				    "here; where there is "
				    "one, run 'nsys export --type=sqlite %s' and import the "
				    ".sqlite file that it writes",
				    path, path);
	folder = ws_format("%s/warpsight-import-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(folder)) {
		free(folder);
		return ws_into_stop(into, "cannot make a temporary folder: %s", strerror(errno));
	}
	absolute = realpath(path, NULL); /* a name that begins with a dash is no option then */
	*out = ws_format("%s/export.sqlite", folder);
	litter[0] = ws_cleanup_path(folder, true);
	litter[1] = ws_cleanup_path(*out, false);
	free(folder);
	if (run_nsys(absolute ? absolute : path, *out) < 0 || access(*out, R_OK))
		ws_into_stop(into, "'nsys export' could not export %s; what it says stands above",
			     path);
	free(absolute);
	return into->full ? -1 : 0;
}
