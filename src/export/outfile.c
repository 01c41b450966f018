/* outfile.c - see outfile.h. */
#include "export/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

static void forget(struct ws_outfile *o)
{
	free(o->path);
	free(o->temporary);
	memset(o, 0, sizeof(*o));
}

static int exists(const char *path, struct ws_err *e)
{
	return ws_fail(e, "%s exists already; give --force-overwrite to replace it", path);
}

static int check_target(const char *path, bool overwrite, struct ws_err *e)
{
	struct stat st;

	if (!*path)
		return ws_fail(e, "the name of the output file is empty");
	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : ws_fail_errno(e, "cannot write %s", path);
	if (S_ISDIR(st.st_mode))
		return ws_fail(e, "cannot write %s: it is a directory", path);
	if (!overwrite)
		return exists(path, e);
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return ws_fail(e, "cannot write %s: it is not a regular file", path);
	return 0;
}

int ws_outfile_open(struct ws_outfile *o, const char *path, mode_t mode, bool overwrite, struct ws_err *e)
{
	int fd;

	memset(o, 0, sizeof(*o));
	if (!strcmp(path, "-")) {
		o->f = stdout;
		return 0;
	}
	if (check_target(path, overwrite, e) < 0)
		return -1;
	o->path = ws_strdup(path);
	o->overwrite = overwrite;
	o->temporary = ws_format("%s.%ld.tmp", path, (long)getpid());
	unlink(o->temporary); /* of an earlier process with our number */
	fd = open(o->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
	if (fd < 0) {
		ws_fail_errno(e, "cannot write %s", path);
		forget(o);
		return -1;
	}
	o->f = fdopen(fd, "w");
	return 0;
}

/* Rename without replacing, where the file system can; else with a look beforehand. */
static int rename_new(const char *from, const char *to)
{
	if (!renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE))
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -1;
	if (!access(to, F_OK)) {
		errno = EEXIST;
		return -1;
	}
	return rename(from, to);
}

/* Is it a pipe or socket whose other end is closed? */
static bool no_reader(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLOUT};

	return poll(&p, 1, 0) > 0 && p.revents & POLLERR;
}

int ws_outfile_commit(struct ws_outfile *o, struct ws_err *e)
{
	const char *name = o->path ? o->path : "standard output";
	bool bad = false;

	if (o->f) {
		errno = 0;
		bad = fflush(o->f) != 0;
		if (ferror(o->f) && !bad) { /* an earlier write failed, and what with is forgotten */
			bad = true;
			errno = no_reader(fileno(o->f)) ? EPIPE : EIO;
		}
		if (o->path && fclose(o->f) != 0)
			bad = true;
		o->f = NULL;
	}
	if (bad && !o->path && errno == EPIPE) {
		clearerr(stdout);
		forget(o);
		return WS_OUTFILE_PIPE;
	}
	if (bad) {
		ws_fail_errno(e, "cannot write %s", name);
		ws_outfile_abort(o);
		return -1;
	}
	if (o->path && (o->overwrite ? rename(o->temporary, o->path) : rename_new(o->temporary, o->path)) < 0) {
		if (errno == EEXIST)
			exists(name, e);
		else
			ws_fail_errno(e, "cannot write %s", name);
		ws_outfile_abort(o);
		return -1;
	}
	forget(o);
	return 0;
}

void ws_outfile_abort(struct ws_outfile *o)
{
	if (o->f && o->path)
		fclose(o->f);
	if (o->temporary)
		unlink(o->temporary);
	forget(o);
}
