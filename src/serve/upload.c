/*
 * upload.c - a file that the browser sends becomes a report of the page.
 *
 * A page cannot say where a file lies, so it sends the bytes. They go block by block to a file that
 * only this user can read, in a new folder that only this user can enter, in TMPDIR or /var/tmp;
 * nothing of them stays in memory. The file's name is never used as a path, only shown. A report is
 * then opened, a trace of another tool imported (jobs.c), and all names are removed: what is open
 * lives on without one, and is gone when the server is. (An unlinked file from the beginning would
 * not do: SQLite wants a name.)
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "text/text.h"
#include "import/import.h"
#include "serve/upload.h"

enum { MOST_NAME = 255 };

struct ws_upload {
	char *name; /* as shown */
	char *folder, *file, *report;
	uint64_t got;
	int fd;
	struct ws_err problem; /* why the rest is not kept */
	bool failed;
};

static char *new_folder(struct ws_err *e)
{
	const char *dirs[] = {getenv("TMPDIR"), "/var/tmp"};

	for (size_t i = 0; i < WS_COUNT(dirs); i++) {
		char *folder = dirs[i] && *dirs[i]
				       ? ws_format("%s/warpsight-upload-XXXXXX", dirs[i])
				       : NULL;

		if (folder && mkdtemp(folder))
			return folder;
		free(folder);
	}
	ws_fail_errno(e, "there is no temporary folder for the file");
	return NULL;
}

/* What follows the last slash, of either kind. */
static const char *last_part(const char *name)
{
	const char *a = strrchr(name, '/'), *b;

	name = a ? a + 1 : name;
	b = strrchr(name, '\\');
	return b ? b + 1 : name;
}

struct ws_upload *ws_upload_new(const char *name, uint64_t bytes, struct ws_err *e)
{
	struct ws_upload *u;
	char *folder;

	name = name ? last_part(name) : "";
	if (!*name || strlen(name) > MOST_NAME || !ws_utf8_valid(name, strlen(name))) {
		ws_fail(e, "the file's name must be text of 1 to %d bytes", MOST_NAME);
		return NULL;
	}
	if (bytes > WS_UPLOAD_MOST) {
		ws_fail(e,
			"%s has %" PRIu64 " bytes; a page can send up to %" PRIu64
			": name larger files on the command line",
			name, bytes, WS_UPLOAD_MOST);
		return NULL;
	}
	folder = new_folder(e);
	if (!folder)
		return NULL;
	u = ws_calloc(1, sizeof(*u));
	u->name = ws_strdup(name);
	u->folder = folder;
	u->file = ws_format("%s/file", folder);
	u->report = ws_format("%s/import.wsrep", folder);
	u->fd = open(u->file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (u->fd < 0) {
		ws_fail_errno(e, "cannot make a temporary file for %s", name);
		ws_upload_free(u);
		return NULL;
	}
	return u;
}

static void give_up(struct ws_upload *u)
{
	u->failed = true;
	(void)!ftruncate(u->fd, 0);
}

void ws_upload_write(struct ws_upload *u, const char *p, size_t n)
{
	if (u->failed)
		return;
	if (n > WS_UPLOAD_MOST - u->got) {
		ws_fail(&u->problem,
			"%s has more than %" PRIu64 " bytes: name larger files on the command line",
			u->name, WS_UPLOAD_MOST);
		give_up(u);
	}
	while (n && !u->failed) {
		ssize_t k = write(u->fd, p, n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0) {
			ws_fail_errno(&u->problem, "cannot keep %s in a temporary file", u->name);
			give_up(u);
			return;
		}
		p += k;
		n -= (size_t)k;
		u->got += (uint64_t)k;
	}
}

/* Messages name the file as the user knows it, not where its bytes lie for now. */
static void rename_in(struct ws_err *e, const char *path, const char *name)
{
	char *at = strstr(e->msg, path);
	struct ws_text t = {0};

	if (!at)
		return;
	ws_text_add(&t, e->msg, (size_t)(at - e->msg));
	ws_text_printf(&t, "%s%s", name, at + strlen(path));
	ws_fail(e, "%s", t.s);
	ws_text_free(&t);
}

void ws_upload_hide_path(const struct ws_upload *u, struct ws_err *e)
{
	rename_in(e, u->file, u->name);
}

static int add(struct ws_upload *u, const char *path, struct ws_view *view, struct ws_err *e)
{
	struct ws_report *r = ws_report_open_plain(path, e);

	if (!r) {
		rename_in(e, path, u->name);
		return -1;
	}
	ws_report_rename(r, u->name);
	return ws_view_add(view, r, u->name, e);
}

int ws_upload_finish(struct ws_upload *u, struct ws_view *view, bool *foreign, struct ws_err *e)
{
	struct ws_err ignored = {.msg = ""};

	*foreign = false;
	if (u->failed) {
		*e = u->problem;
		return -1;
	}
	if (!u->got)
		return ws_fail(e, "%s is empty", u->name);
	if (close(u->fd)) {
		u->fd = -1;
		return ws_fail_errno(e, "cannot keep %s in a temporary file", u->name);
	}
	u->fd = -1;
	switch (ws_import_format(u->file, &ignored)) {
	case WS_FORMAT_REPORT:
		return add(u, u->file, view, e);
	case WS_FORMAT_UNKNOWN:
		return ws_fail(e, "%s is neither a report nor a trace that can be imported",
			       u->name);
	default:
		*foreign = true;
		return 0;
	}
}

int ws_upload_open_imported(struct ws_upload *u, struct ws_view *view, struct ws_err *e)
{
	return add(u, u->report, view, e);
}

const char *ws_upload_name(const struct ws_upload *u)
{
	return u->name;
}

const char *ws_upload_path(const struct ws_upload *u)
{
	return u->file;
}

const char *ws_upload_report_path(const struct ws_upload *u)
{
	return u->report;
}

/* An import that was cancelled leaves files of names of its own. */
static void remove_folder(const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *d;

	while (dir && (d = readdir(dir)))
		if (strcmp(d->d_name, ".") && strcmp(d->d_name, ".."))
			unlinkat(dirfd(dir), d->d_name, 0);
	if (dir)
		closedir(dir);
	rmdir(folder);
}

void ws_upload_free(struct ws_upload *u)
{
	if (!u)
		return;
	if (u->fd >= 0)
		close(u->fd);
	remove_folder(u->folder);
	free(u->name);
	free(u->folder);
	free(u->file);
	free(u->report);
	free(u);
}
