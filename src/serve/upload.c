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
#include <sys/statvfs.h>
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

static char *new_folder(struct ws_err *err)
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
	ws_fail_errno(err, "there is no temporary folder for the file");
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

/* Others need the disk as well: a file that cannot fit does not fill it first. */
static int check_room(const struct ws_upload *upload, uint64_t bytes, struct ws_err *err)
{
	struct statvfs disk;
	uint64_t free_bytes;

	if (fstatvfs(upload->fd, &disk) || !disk.f_blocks) /* some file systems do not say */
		return 0;
	free_bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
	if (bytes <= free_bytes)
		return 0;
	return ws_fail(err,
		       "%s has %" PRIu64 " bytes, and where it would be kept %" PRIu64
		       " are free: TMPDIR chooses another place",
		       upload->name, bytes, free_bytes);
}

struct ws_upload *ws_upload_new(const char *name, uint64_t bytes, struct ws_err *err)
{
	struct ws_upload *upload;
	char *folder;

	name = name ? last_part(name) : "";
	if (!*name || strlen(name) > MOST_NAME || !ws_is_valid_utf8(name, strlen(name))) {
		ws_fail(err, "the file's name must be text of 1 to %d bytes", MOST_NAME);
		return NULL;
	}
	if (bytes > WS_UPLOAD_MOST) {
		ws_fail(err,
			"%s has %" PRIu64 " bytes; a page can send up to %" PRIu64
			": name larger files on the command line",
			name, bytes, WS_UPLOAD_MOST);
		return NULL;
	}
	folder = new_folder(err);
	if (!folder)
		return NULL;
	upload = ws_calloc(1, sizeof(*upload));
	upload->name = ws_strdup(name);
	upload->folder = folder;
	upload->file = ws_format("%s/file", folder);
	upload->report = ws_format("%s/import.wsrep", folder);
	upload->fd = open(upload->file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (upload->fd < 0) {
		ws_fail_errno(err, "cannot make a temporary file for %s", name);
		ws_upload_free(upload);
		return NULL;
	}
	if (check_room(upload, bytes, err)) {
		ws_upload_free(upload);
		return NULL;
	}
	return upload;
}

static void give_up(struct ws_upload *upload)
{
	upload->failed = true;
	(void)!ftruncate(upload->fd, 0);
}

void ws_upload_write(struct ws_upload *upload, const char *at, size_t n)
{
	if (upload->failed)
		return;
	if (n > WS_UPLOAD_MOST - upload->got) {
		ws_fail(&upload->problem,
			"%s has more than %" PRIu64 " bytes: name larger files on the command line",
			upload->name, WS_UPLOAD_MOST);
		give_up(upload);
	}
	while (n && !upload->failed) {
		ssize_t k = write(upload->fd, at, n);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0) {
			ws_fail_errno(&upload->problem, "cannot keep %s in a temporary file",
				      upload->name);
			give_up(upload);
			return;
		}
		at += k;
		n -= (size_t)k;
		upload->got += (uint64_t)k;
	}
}

/* Messages name the file as the user knows it, not where its bytes lie for now. */
static void rename_in(struct ws_err *err, const char *path, const char *name)
{
	char *at = strstr(err->msg, path);
	struct ws_text text = {0};

	if (!at)
		return;
	ws_text_add(&text, err->msg, (size_t)(at - err->msg));
	ws_text_printf(&text, "%s%s", name, at + strlen(path));
	ws_fail(err, "%s", text.text);
	ws_text_free(&text);
}

void ws_upload_hide_path(const struct ws_upload *upload, struct ws_err *err)
{
	rename_in(err, upload->file, upload->name);
}

static int add_bytes(struct ws_upload *upload, const char *path, struct ws_view *view,
		     struct ws_err *err)
{
	struct ws_report *report = ws_report_open_plain(path, err);

	if (!report) {
		rename_in(err, path, upload->name);
		return -1;
	}
	ws_report_rename(report, upload->name);
	return ws_view_add(view, report, upload->name, err);
}

int ws_upload_finish(struct ws_upload *upload, struct ws_view *view, bool *foreign,
		     struct ws_err *err)
{
	struct ws_err ignored = {.msg = ""};

	*foreign = false;
	if (upload->failed) {
		*err = upload->problem;
		return -1;
	}
	if (!upload->got)
		return ws_fail(err, "%s is empty", upload->name);
	if (close(upload->fd)) {
		upload->fd = -1;
		return ws_fail_errno(err, "cannot keep %s in a temporary file", upload->name);
	}
	upload->fd = -1;
	switch (ws_import_format(upload->file, &ignored)) {
	case WS_FORMAT_REPORT:
		return add_bytes(upload, upload->file, view, err);
	case WS_FORMAT_UNKNOWN:
		return ws_fail(err, "%s is neither a report nor a trace that can be imported",
			       upload->name);
	default:
		*foreign = true;
		return 0;
	}
}

int ws_upload_open_imported(struct ws_upload *upload, struct ws_view *view, struct ws_err *err)
{
	return add_bytes(upload, upload->report, view, err);
}

const char *ws_upload_name(const struct ws_upload *upload)
{
	return upload->name;
}

const char *ws_upload_path(const struct ws_upload *upload)
{
	return upload->file;
}

const char *ws_upload_report_path(const struct ws_upload *upload)
{
	return upload->report;
}

/* An import that was cancelled leaves files of names of its own. */
static void remove_folder(const char *folder)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			unlinkat(dirfd(dir), entry->d_name, 0);
	if (dir)
		closedir(dir);
	rmdir(folder);
}

void ws_upload_free(struct ws_upload *upload)
{
	if (!upload)
		return;
	if (upload->fd >= 0)
		close(upload->fd);
	remove_folder(upload->folder);
	free(upload->name);
	free(upload->folder);
	free(upload->file);
	free(upload->report);
	free(upload);
}
