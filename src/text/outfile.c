/* outfile.c - see outfile.h. */
#include "text/outfile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/mem.h"
#include "base/choose.h"
#include "schema/schema.h"

/* ---- interrupts ---- */

static volatile sig_atomic_t interrupted;

static void note(int sig)
{
	interrupted = sig;
}

void ws_outfile_watch(void)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	struct sigaction sa = {.sa_handler = note, .sa_flags = SA_RESETHAND},
			 old; /* a second one ends the program at once */

	for (size_t i = 0; i < WS_COUNT(signals); i++)
		if (!sigaction(signals[i], NULL, &old) && old.sa_handler == SIG_DFL)
			sigaction(signals[i], &sa, NULL);
}

bool ws_outfile_interrupted(void)
{
	return interrupted != 0;
}

void ws_outfile_end_if_interrupted(void)
{
	if (!interrupted)
		return;
	signal((int)interrupted, SIG_DFL);
	raise((int)interrupted);
}

/* ---- files ---- */

static void forget(struct ws_outfile *outfile)
{
	free(outfile->path);
	free(outfile->temporary);
	memset(outfile, 0, sizeof(*outfile));
}

static int exists(const char *path, struct ws_err *err)
{
	return ws_fail(err, "%s exists already; give --force-overwrite to replace it", path);
}

/* Is a report there? What is made of reports must not take the place of one: that is a slip of the
 * pen, and what was recorded is gone. */
static bool is_report(const char *path)
{
	char head[sizeof(WS_REPORT_MAGIC) - 1];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool is = fd >= 0 && read(fd, head, sizeof(head)) == (ssize_t)sizeof(head) &&
		  !memcmp(head, WS_REPORT_MAGIC, sizeof(head));

	if (fd >= 0)
		close(fd);
	return is;
}

static int check_target(const char *path, bool overwrite, struct ws_err *err)
{
	struct stat st;

	if (!*path)
		return ws_fail(err, "the name of the output file is empty");
	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : ws_fail_errno(err, "cannot write %s", path);
	if (S_ISDIR(st.st_mode))
		return ws_fail(err, "cannot write %s: it is a directory", path);
	if (!overwrite)
		return exists(path, err);
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return ws_fail(err, "cannot write %s: it is not a regular file", path);
	if (is_report(path))
		return ws_fail(
			err,
			"cannot write %s: it is a report, which is not replaced by anything else",
			path);
	return 0;
}

/* A new file under the temporary name. */
static int create(struct ws_outfile *outfile, const char *path, mode_t mode, bool overwrite,
		  struct ws_err *err)
{
	int fd;

	signal(SIGXFSZ,
	       SIG_IGN); /* a limit on the size of files (ulimit -f) is an error like any other */
	outfile->path = ws_strdup(path);
	outfile->overwrite = overwrite;
	outfile->temporary = ws_format("%s.%ld.tmp", path, (long)getpid());
	unlink(outfile->temporary); /* of an earlier process with our number */
	fd = open(outfile->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
	if (fd < 0) {
		ws_fail_errno(err, "cannot write %s", path);
		forget(outfile);
		return -1;
	}
	outfile->file = fdopen(fd, "w");
	return 0;
}

int ws_outfile_open(struct ws_outfile *outfile, const char *path, mode_t mode, bool overwrite,
		    struct ws_err *err)
{
	memset(outfile, 0, sizeof(*outfile));
	if (!strcmp(path, "-")) {
		outfile->file = stdout;
		return 0;
	}
	return check_target(path, overwrite, err) < 0 ? -1
						      : create(outfile, path, mode, overwrite, err);
}

/* ---- going on with what is there ---- */

static int copy_bytes(FILE *from, FILE *to)
{
	char buf[1 << 16];
	size_t n;

	while ((n = fread(buf, 1, sizeof(buf), from)))
		if (fwrite(buf, 1, n, to) != n)
			return -1;
	return ferror(from) ? -1 : fflush(to);
}

int ws_outfile_open_copy(struct ws_outfile *outfile, const char *path, mode_t mode,
			 struct ws_err *err)
{
	FILE *old = fopen(path, "re");

	memset(outfile, 0, sizeof(*outfile));
	if (!old)
		return errno == ENOENT ? ws_outfile_open(outfile, path, mode, false, err)
				       : ws_fail_errno(err, "cannot read %s", path);
	if (check_target(path, true, err) < 0 || create(outfile, path, mode, true, err) < 0) {
		fclose(old);
		return -1;
	}
	if (copy_bytes(old, outfile->file) < 0) {
		ws_fail_errno(err, "cannot copy %s", path);
		ws_outfile_abort(outfile);
		fclose(old);
		return -1;
	}
	fclose(old);
	return 0;
}

/* ---- compression ---- */

static ssize_t gz_put(void *gz, const char *bytes, size_t n)
{
	return gzwrite(gz, bytes, (unsigned)n) == (int)n
		       ? (ssize_t)n
		       : 0; /* stdio gives far less than 2 GiB at once */
}

static int gz_end(void *gz)
{
	return gzclose(gz) == Z_OK ? 0 : -1;
}

int ws_outfile_gzip(struct ws_outfile *outfile, struct ws_err *err)
{
	int fd = dup(fileno(outfile->file));
	gzFile gz = fd < 0 ? NULL : gzdopen(fd, "wb6");

	if (!gz)
		return ws_fail_errno(err, "cannot compress %s", outfile->path);
	gzbuffer(gz, 1 << 18);
	fclose(outfile->file);
	outfile->file =
		fopencookie(gz, "w", (cookie_io_functions_t){.write = gz_put, .close = gz_end});
	return 0;
}

/* ---- folders ---- */

/* Call fn for each name in the folder until it gives other than 0, which is returned; -1 when the
 * folder cannot be read. */
static int each_name(const char *folder, int (*fn)(const char *path, const char *name, void *ctx),
		     void *ctx)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	int rc = 0;

	if (!dir)
		return -1;
	while (!rc && (entry = readdir(dir))) {
		char *path;

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		path = ws_format("%s/%s", folder, entry->d_name);
		rc = fn(path, entry->d_name, ctx);
		free(path);
	}
	closedir(dir);
	return rc;
}

static int is_foreign(const char *path, const char *name, void *ctx)
{
	struct stat st;

	(void)name, (void)ctx;
	return lstat(path, &st) < 0 || !S_ISREG(st.st_mode);
}

static int remove_file(const char *path, const char *name, void *ctx)
{
	(void)name, (void)ctx;
	unlink(path);
	return 0;
}

static void remove_folder(const char *folder)
{
	each_name(folder, remove_file, NULL);
	rmdir(folder);
}

static int link_file(const char *path, const char *name, void *ctx)
{
	char *to = ws_format("%s/%s", (const char *)ctx, name);
	int rc = link(path, to);

	free(to);
	return rc < 0;
}

static int check_folder(const char *path, bool overwrite, bool append, struct ws_err *err)
{
	struct stat st;

	if (!*path)
		return ws_fail(err, "the name of the output folder is empty");
	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0 : ws_fail_errno(err, "cannot write %s", path);
	if (!S_ISDIR(st.st_mode))
		return ws_fail(err, "cannot write %s: it is there and no folder", path);
	if (!overwrite && !append)
		return ws_fail(err,
			       "%s exists already; give --force-overwrite to replace it, or "
			       "--append to add what it lacks",
			       path);
	if (each_name(path, is_foreign, NULL))
		return ws_fail(err, "cannot write %s: it holds other things than files", path);
	return 0;
}

int ws_outfile_open_folder(struct ws_outfile *outfile, const char *path, bool overwrite,
			   bool append, struct ws_err *err)
{
	size_t n = strlen(path);

	memset(outfile, 0, sizeof(*outfile));
	while (n > 1 && path[n - 1] == '/')
		n--;
	outfile->path = ws_strndup(path, n);
	if (check_folder(outfile->path, overwrite, append, err) < 0) {
		forget(outfile);
		return -1;
	}
	signal(SIGXFSZ, SIG_IGN);
	outfile->folder = true;
	outfile->overwrite = overwrite || append;
	outfile->temporary = ws_format("%s.%ld.tmp", outfile->path, (long)getpid());
	remove_folder(outfile->temporary);
	if (mkdir(outfile->temporary, 0700) < 0) {
		ws_fail_errno(err, "cannot write %s", path);
		forget(outfile);
		return -1;
	}
	if (append && !access(outfile->path, F_OK) &&
	    each_name(outfile->path, link_file, outfile->temporary)) {
		ws_fail(err, "cannot link the files of %s into a new folder beside it", path);
		ws_outfile_abort(outfile);
		return -1;
	}
	return 0;
}

/* Put the new folder in place of the old one, which goes. */
static int replace_folder(struct ws_outfile *outfile)
{
	if (!renameat2(AT_FDCWD, outfile->temporary, AT_FDCWD, outfile->path, RENAME_EXCHANGE)) {
		remove_folder(outfile->temporary);
		return 0;
	}
	if (errno == EINVAL || errno == ENOSYS)
		remove_folder(outfile->path);
	return rename(outfile->temporary, outfile->path);
}

/* ---- the end ---- */

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

/*
 * Why an earlier write failed, when what it failed with is forgotten (buffers are written out of
 * sight, by zlib too): a full disk is still full, and says so again. What this writes goes with the
 * file.
 */
static int ask_again(const struct ws_outfile *outfile)
{
	static const char more[1 << 16];
	int fd = open(outfile->temporary, O_WRONLY | O_APPEND | O_CLOEXEC), error = EIO;

	if (fd >= 0 && write(fd, more, sizeof(more)) < 0)
		error = errno;
	if (fd >= 0)
		close(fd);
	return error;
}

static int put_in_place(struct ws_outfile *outfile)
{
	if (!outfile->overwrite)
		return rename_new(outfile->temporary, outfile->path);
	return outfile->folder ? replace_folder(outfile)
			       : rename(outfile->temporary, outfile->path);
}

int ws_outfile_commit(struct ws_outfile *outfile, struct ws_err *err)
{
	const char *name = ws_text_or(outfile->path, "standard output");
	bool bad = false;

	if (outfile->file) {
		errno = 0;
		bad = fflush(outfile->file) != 0;
		if (ferror(outfile->file) &&
		    !bad) { /* an earlier write failed, and what with is forgotten */
			bad = true;
			errno = outfile->path			   ? ask_again(outfile)
				: no_reader(fileno(outfile->file)) ? EPIPE
								   : EIO;
		}
		if (outfile->path && fclose(outfile->file) != 0)
			bad = true;
		outfile->file = NULL;
	}
	if (bad && !outfile->path && errno == EPIPE) {
		clearerr(stdout);
		forget(outfile);
		return WS_OUTFILE_PIPE;
	}
	if (bad) {
		ws_fail_errno(err, "cannot write %s", name);
		ws_outfile_abort(outfile);
		return -1;
	}
	if (outfile->path && put_in_place(outfile) < 0) {
		if (errno == EEXIST)
			exists(name, err);
		else
			ws_fail_errno(err, "cannot write %s", name);
		ws_outfile_abort(outfile);
		return -1;
	}
	forget(outfile);
	return 0;
}

void ws_outfile_abort(struct ws_outfile *outfile)
{
	if (outfile->file && outfile->path)
		fclose(outfile->file);
	if (outfile->folder)
		remove_folder(outfile->temporary);
	else if (outfile->temporary)
		unlink(outfile->temporary);
	forget(outfile);
}
