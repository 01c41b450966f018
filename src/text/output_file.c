/* output_file.c - see output_file.h. */
#include "text/output_file.h"

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

#include "base/choose.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "schema/schema.h"

/* ---- interrupts ---- */

static volatile sig_atomic_t interrupted;

static void note_interrupt(int signal_number)
{
	interrupted = signal_number;
}

void ws_watch_interrupts(void)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
	/* The handler is reset, so that a second signal ends the program at once. */
	struct sigaction action = {.sa_handler = note_interrupt, .sa_flags = SA_RESETHAND}, old;

	for (size_t i = 0; i < WS_COUNT(signals); i++)
		if (!sigaction(signals[i], NULL, &old) && old.sa_handler == SIG_DFL)
			sigaction(signals[i], &action, NULL);
}

bool ws_is_interrupted(void)
{
	return interrupted != 0;
}

void ws_end_if_interrupted(void)
{
	if (!interrupted)
		return;
	signal((int)interrupted, SIG_DFL);
	raise((int)interrupted);
}

/* ---- files ---- */

static void free_paths(struct ws_output_file *outfile)
{
	if (outfile->temporary)
		ws_cleanup_forget(outfile->litter);
	free(outfile->path);
	free(outfile->temporary);
	memset(outfile, 0, sizeof(*outfile));
}

/* After lstat failed: a missing file is what a new one needs; anything else is an error. */
static int fail_unless_missing(const char *path, struct ws_err *err)
{
	if (errno == ENOENT)
		return 0;
	return ws_fail_errno(err, "cannot write %s", path);
}

static int fail_existing(const char *path, struct ws_err *err)
{
	return ws_fail(err, "%s exists already; give --force-overwrite to replace it", path);
}

/* Whether a report is there. What is made from reports must not replace one: that would be a typing
 * slip, and the recording would be lost. */
static bool is_report(const char *path)
{
	char head[sizeof(WS_REPORT_MAGIC) - 1];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool found = fd >= 0 && read(fd, head, sizeof(head)) == (ssize_t)sizeof(head) &&
		     !memcmp(head, WS_REPORT_MAGIC, sizeof(head));

	if (fd >= 0)
		close(fd);
	return found;
}

static int check_target(const char *path, bool overwrite, struct ws_err *err)
{
	struct stat status;

	if (!*path)
		return ws_fail(err, "the name of the output file is empty");
	if (lstat(path, &status) < 0)
		return fail_unless_missing(path, err);
	if (S_ISDIR(status.st_mode))
		return ws_fail(err, "cannot write %s: it is a directory", path);
	if (!overwrite)
		return fail_existing(path, err);
	if (!S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode))
		return ws_fail(err, "cannot write %s: it is not a regular file", path);
	if (is_report(path))
		return ws_fail(
			err,
			"cannot write %s: it is a report, which is not replaced by anything else",
			path);
	return 0;
}

/* Create the file under its temporary name. */
static int create_temporary(struct ws_output_file *outfile, const char *path, mode_t mode,
			    bool overwrite, struct ws_err *err)
{
	int fd;

	/* Running into a limit on the size of files (ulimit -f) is an error like any other. */
	signal(SIGXFSZ, SIG_IGN);
	outfile->path = ws_strdup(path);
	outfile->overwrite = overwrite;
	outfile->temporary = ws_format("%s.%ld.tmp", path, (long)getpid());
	outfile->litter = ws_cleanup_add_output(outfile->temporary);
	unlink(outfile->temporary); /* left by an earlier process with our pid */
	fd = open(outfile->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
	if (fd < 0) {
		ws_fail_errno(err, "cannot write %s", path);
		free_paths(outfile);
		return -1;
	}
	outfile->file = fdopen(fd, "w");
	if (!outfile->file) {
		ws_fail_errno(err, "cannot write %s", path);
		close(fd);
		ws_abort_output(outfile);
		return -1;
	}
	return 0;
}

int ws_open_output_file(struct ws_output_file *outfile, const char *path, mode_t mode,
			bool overwrite, struct ws_err *err)
{
	memset(outfile, 0, sizeof(*outfile));
	if (!strcmp(path, "-")) {
		outfile->file = stdout;
		return 0;
	}
	if (check_target(path, overwrite, err) < 0)
		return -1;
	return create_temporary(outfile, path, mode, overwrite, err);
}

/* ---- appending to what is there ---- */

static int copy_contents(FILE *from, FILE *to)
{
	char buffer[1 << 16];
	size_t n;

	while ((n = fread(buffer, 1, sizeof(buffer), from)))
		if (fwrite(buffer, 1, n, to) != n)
			return -1;
	if (ferror(from))
		return -1;
	return fflush(to);
}

int ws_open_output_copy(struct ws_output_file *outfile, const char *path, mode_t mode,
			struct ws_err *err)
{
	FILE *old = fopen(path, "re");

	memset(outfile, 0, sizeof(*outfile));
	if (!old && errno == ENOENT)
		return ws_open_output_file(outfile, path, mode, false, err);
	if (!old)
		return ws_fail_errno(err, "cannot read %s", path);
	if (check_target(path, true, err) < 0 ||
	    create_temporary(outfile, path, mode, true, err) < 0) {
		fclose(old);
		return -1;
	}
	if (copy_contents(old, outfile->file) < 0) {
		ws_fail_errno(err, "cannot copy %s", path);
		ws_abort_output(outfile);
		fclose(old);
		return -1;
	}
	fclose(old);
	return 0;
}

/* ---- compression ---- */

/* stdio passes far less than 2 GiB at once, so the length fits. Returns 0 on failure. */
static ssize_t write_gzip(void *gz, const char *bytes, size_t n)
{
	if (gzwrite(gz, bytes, (unsigned)n) != (int)n)
		return 0;
	return (ssize_t)n;
}

static int close_gzip(void *gz)
{
	return -(gzclose(gz) != Z_OK);
}

int ws_compress_output(struct ws_output_file *outfile, struct ws_err *err)
{
	int fd = dup(fileno(outfile->file));
	gzFile gz = NULL;

	if (fd >= 0)
		gz = gzdopen(fd, "wb6");
	if (!gz) {
		ws_fail_errno(err, "cannot compress %s", outfile->path);
		if (fd >= 0)
			close(fd);
		return -1;
	}
	gzbuffer(gz, 1 << 18);
	fclose(outfile->file);
	outfile->file = fopencookie(
		gz, "w", (cookie_io_functions_t){.write = write_gzip, .close = close_gzip});
	if (!outfile->file) {
		gzclose(gz);
		return ws_fail_errno(err, "cannot compress %s", outfile->path);
	}
	return 0;
}

/* ---- folders ---- */

/* Call `visit` for each file in the folder until it returns other than 0, which is returned; -1
 * when the folder cannot be read. */
static int visit_files(const char *folder,
		       int (*visit)(const char *path, const char *name, void *context),
		       void *context)
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
		rc = visit(path, entry->d_name, context);
		free(path);
	}
	closedir(dir);
	return rc;
}

static int is_not_regular_file(const char *path, const char *name, void *context)
{
	struct stat status;

	(void)name, (void)context;
	return lstat(path, &status) < 0 || !S_ISREG(status.st_mode);
}

static int link_into_folder(const char *path, const char *name, void *context)
{
	char *to = ws_format("%s/%s", (const char *)context, name);
	int rc = link(path, to);

	free(to);
	return rc < 0;
}

static int check_folder(const char *path, bool overwrite, bool append, struct ws_err *err)
{
	struct stat status;

	if (!*path)
		return ws_fail(err, "the name of the output folder is empty");
	if (lstat(path, &status) < 0)
		return fail_unless_missing(path, err);
	if (!S_ISDIR(status.st_mode))
		return ws_fail(err, "cannot write %s: it exists and is no folder", path);
	if (!overwrite && !append)
		return ws_fail(err,
			       "%s exists already; give --force-overwrite to replace it, or "
			       "--append to add what it lacks",
			       path);
	if (visit_files(path, is_not_regular_file, NULL))
		return ws_fail(err, "cannot write %s: it holds other things than files", path);
	return 0;
}

int ws_open_output_folder(struct ws_output_file *outfile, const char *path, bool overwrite,
			  bool append, struct ws_err *err)
{
	size_t n = strlen(path);

	memset(outfile, 0, sizeof(*outfile));
	while (n > 1 && path[n - 1] == '/')
		n--;
	outfile->path = ws_strndup(path, n);
	if (check_folder(outfile->path, overwrite, append, err) < 0) {
		free_paths(outfile);
		return -1;
	}
	signal(SIGXFSZ, SIG_IGN);
	outfile->folder = true;
	outfile->overwrite = overwrite || append;
	outfile->temporary = ws_format("%s.%ld.tmp", outfile->path, (long)getpid());
	outfile->litter = ws_cleanup_add_output(outfile->temporary);
	ws_remove_output(outfile->temporary);
	if (mkdir(outfile->temporary, 0700) < 0) {
		ws_fail_errno(err, "cannot write %s", path);
		free_paths(outfile);
		return -1;
	}
	if (append && !access(outfile->path, F_OK) &&
	    visit_files(outfile->path, link_into_folder, outfile->temporary)) {
		ws_fail(err, "cannot link the files of %s into a new folder beside it", path);
		ws_abort_output(outfile);
		return -1;
	}
	return 0;
}

/* Put the new folder in place of the old one, which is removed. */
static int replace_folder(struct ws_output_file *outfile)
{
	if (!renameat2(AT_FDCWD, outfile->temporary, AT_FDCWD, outfile->path, RENAME_EXCHANGE)) {
		ws_remove_output(outfile->temporary);
		return 0;
	}
	if (errno == EINVAL || errno == ENOSYS)
		ws_remove_output(outfile->path);
	return rename(outfile->temporary, outfile->path);
}

/* ---- the end ---- */

/* Rename without replacing anything: by the file system if it can, else by checking beforehand. */
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

/* Whether it is a pipe or socket whose other end is closed. */
static bool has_no_reader(int fd)
{
	struct pollfd descriptor = {.fd = fd, .events = POLLOUT};

	return poll(&descriptor, 1, 0) > 0 && descriptor.revents & POLLERR;
}

/*
 * Find out why an earlier write failed when its errno is lost (stdio and zlib write their buffers
 * on their own): a full disk is still full, so another write fails in the same way. What this
 * writes is removed with the file.
 */
static int repeat_write_error(const struct ws_output_file *outfile)
{
	static const char more[1 << 16];
	int fd = open(outfile->temporary, O_WRONLY | O_APPEND | O_CLOEXEC), error = EIO;

	if (fd >= 0 && write(fd, more, sizeof(more)) < 0)
		error = errno;
	if (fd >= 0)
		close(fd);
	return error;
}

static int rename_into_place(struct ws_output_file *outfile)
{
	if (!outfile->overwrite)
		return rename_new(outfile->temporary, outfile->path);
	if (outfile->folder)
		return replace_folder(outfile);
	return rename(outfile->temporary, outfile->path);
}

int ws_find_output_error(void)
{
	if (has_no_reader(STDOUT_FILENO))
		return EPIPE;
	if (write(STDOUT_FILENO, "\n", 1) < 0)
		return errno;
	return 0;
}

/* The errno of a write that failed some time ago. */
static int find_write_error(const struct ws_output_file *outfile)
{
	int error;

	if (outfile->path)
		return repeat_write_error(outfile);
	error = ws_find_output_error();
	return error ? error : EIO;
}

static bool output_is_over;

bool ws_is_output_over(void)
{
	return output_is_over;
}

int ws_commit_output(struct ws_output_file *outfile, struct ws_err *err)
{
	const char *name = ws_text_or(outfile->path, "standard output");
	bool bad = false;

	if (outfile->file) {
		errno = 0;
		bad = fflush(outfile->file) != 0;
		if (ferror(outfile->file) &&
		    !bad) { /* an earlier write failed; its errno is lost */
			bad = true;
			errno = find_write_error(outfile);
		}
		if (outfile->path && fclose(outfile->file) != 0)
			bad = true;
		outfile->file = NULL;
	}
	output_is_over |= bad && !outfile->path;
	if (bad && !outfile->path && errno == EPIPE) {
		clearerr(stdout);
		free_paths(outfile);
		return WS_OUTPUT_PIPE_CLOSED;
	}
	if (bad) {
		ws_fail_errno(err, "cannot write %s", name);
		ws_abort_output(outfile);
		return -1;
	}
	if (outfile->path && rename_into_place(outfile) < 0) {
		if (errno == EEXIST)
			fail_existing(name, err);
		else
			ws_fail_errno(err, "cannot write %s", name);
		ws_abort_output(outfile);
		return -1;
	}
	free_paths(outfile);
	return 0;
}

void ws_abort_output(struct ws_output_file *outfile)
{
	if (outfile->file && outfile->path)
		fclose(outfile->file);
	if (outfile->folder)
		ws_remove_output(outfile->temporary);
	else if (outfile->temporary)
		unlink(outfile->temporary);
	free_paths(outfile);
}
