/*
 * nsys_rep.c - .nsys-rep files: their format is not documented, so an installed nsys exports them
 * to SQLite. It is started directly, without a shell; what it prints goes to standard error.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "import/formats.h"

/* Whether there is a program of this name in PATH. */
static bool is_in_path(const char *name)
{
	const char *path = getenv("PATH");
	bool found = false;

	while (path && *path && !found) {
		size_t length = strcspn(path, ":");
		char *full = ws_format("%.*s/%s", (int)length, path, name);

		found = length && !access(full, X_OK);
		free(full);
		path += length + (path[length] == ':');
	}
	return found;
}

/* Run nsys and wait for it. 0, or -1 when it cannot be started or fails. */
static int run_nsys(const char *path, const char *output)
{
	const char *argv[] = {
		"nsys", "export", "--type=sqlite", "--force-overwrite=true", "--output", output,
		path,	NULL};
	int status, program = -1;
	sigset_t all, before;
	pid_t pid;

	sigfillset(&all);
	/* Until the program is registered: a signal in between would leave it running. */
	sigprocmask(SIG_BLOCK, &all, &before);
	pid = fork();
	if (!pid) {
		sigprocmask(SIG_SETMASK, &before, NULL);
		dup2(2, 1);
		execvp(argv[0], (char *const *)argv);
		_exit(127);
	}
	if (pid > 0)
		program = ws_cleanup_add_program(pid);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (pid < 0)
		return -1;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR) {
			ws_cleanup_forget(program);
			return -1;
		}
	ws_cleanup_forget(program);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		return -1;
	return 0;
}

int ws_export_nsys_rep(struct ws_importer *importer, const char *path, char **out, int litter[2])
{
	char *folder, *absolute;

	if (!is_in_path("nsys"))
		return ws_importer_stop(
			importer,
			"%s is a report of Nsight Systems, which only its own program "
			"reads, and no nsys is installed "
			"here; where there is "
			"one, run 'nsys export --type=sqlite %s' and import the "
			".sqlite file that it writes",
			path, path);
	folder = ws_make_import_folder();
	if (!folder)
		return ws_importer_stop(importer, "cannot make a temporary folder: %s",
					strerror(errno));
	absolute = realpath(path, NULL); /* so that a leading dash does not make an option */
	*out = ws_format("%s/export.sqlite", folder);
	litter[0] = ws_cleanup_add_path(folder, true);
	litter[1] = ws_cleanup_add_path(*out, false);
	free(folder);
	if (run_nsys(ws_text_or(absolute, path), *out) < 0 || access(*out, R_OK))
		ws_importer_stop(importer,
				 "'nsys export' could not export %s; what it says stands above",
				 path);
	free(absolute);
	return ws_importer_get_status(importer);
}
