/*
 * open.c - other tools' files opened as if they were reports.
 *
 * Imported reports are kept in the user's cache, in warpsight/imports in XDG_CACHE_HOME or
 * ~/.cache. The name of each is made from the file's path, size and time of change and from this
 * build, so that a second command opens it at once. The folder is private and holds at most
 * MOST_BYTES; the reports unused for longest are deleted first. Where there can be no such folder,
 * the report is a temporary file that is gone when the command ends.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/choose.h"
#include "base/cleanup.h"
#include "base/mem.h"
#include "import/formats.h"
#include "import/import.h"
#include "store/store.h"

#define MOST_BYTES (UINT64_C(8) << 30)

bool ws_import_anew, ws_import_quiet;

/* Make a private folder, and its parents. 0, or -1 when it cannot be made. */
static int make_folder(char *path)
{
	for (char *at = path + 1; *at; at++) {
		if (*at != '/')
			continue;
		*at = 0;
		mkdir(path, 0700);
		*at = '/';
	}
	if (mkdir(path, 0700) && errno != EEXIST)
		return -1;
	return 0;
}

/* Path of the cache according to the environment; NULL when that names none. A home that does not
 * exist, as system users have, is not made. */
static char *name_cache_folder(void)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

	if (cache && *cache == '/')
		return ws_format("%s/warpsight/imports", cache);
	if (home && *home == '/' && !access(home, F_OK))
		return ws_format("%s/.cache/warpsight/imports", home);
	return NULL;
}

/* The path of the cache, made if needed: a folder that is ours and private. NULL when there can be
 * none. */
static char *find_cache_folder(void)
{
	char *path = name_cache_folder();
	struct stat st;

	if (path && (make_folder(path) || lstat(path, &st) || !S_ISDIR(st.st_mode) ||
		     st.st_uid != geteuid() || (st.st_mode & 022) || access(path, W_OK))) {
		free(path);
		path = NULL;
	}
	return path;
}

/* A time of change in nanoseconds. */
static uint64_t get_mtime_ns(const struct stat *st)
{
	return (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec;
}

/* The path of the report in the cache that belongs to a file as it is now. */
static char *name_cached_report(const char *folder, const char *path, const struct stat *st)
{
	char *real = realpath(path, NULL);
	uint64_t facts[] = {(uint64_t)st->st_dev,	   (uint64_t)st->st_ino,
			    (uint64_t)st->st_size,	   (uint64_t)st->st_mtim.tv_sec,
			    (uint64_t)st->st_mtim.tv_nsec, (uint64_t)st->st_ctim.tv_sec,
			    (uint64_t)st->st_ctim.tv_nsec};
	char *log = ws_format("%s-wal", path); /* where a database keeps its latest rows */
	struct stat self = {0}, beside = {0};
	XXH128_hash_t hash;
	uint64_t build[2], name;

	(void)!stat("/proc/self/exe", &self); /* another build may import better */
	build[0] = (uint64_t)self.st_size;
	build[1] = get_mtime_ns(&self);
	if (!stat(log, &beside))
		facts[2] ^= (uint64_t)beside.st_size << 32 ^ get_mtime_ns(&beside);
	free(log);
	hash = XXH3_128bits_withSeed(facts, sizeof(facts), XXH3_64bits(build, sizeof(build)));
	if (real)
		path = real;
	name = XXH3_64bits_withSeed(path, strlen(path), hash.high64);
	free(real);
	return ws_format("%s/%016" PRIx64 "%016" PRIx64 ".wsrep", folder, (uint64_t)hash.low64,
			 name);
}

/* ---- bounding the cache ---- */

struct cached_report {
	char *path;
	uint64_t bytes;
	struct timespec used;
};

static int compare_use_times(const void *first, const void *second)
{
	const struct cached_report *left = first, *right = second;

	if (left->used.tv_sec != right->used.tv_sec)
		return ws_compare(left->used.tv_sec, right->used.tv_sec);
	return ws_compare(left->used.tv_nsec, right->used.tv_nsec);
}

/* Delete the reports unused for longest until the rest is small enough; `keep` stays. */
static void trim_cache(const char *folder, const char *keep)
{
	DIR *dir = opendir(folder);
	struct cached_report *reports = NULL;
	size_t count = 0, capacity = 0;
	uint64_t total = 0;
	struct dirent *de;

	while (dir && (de = readdir(dir))) {
		size_t length = strlen(de->d_name);
		struct stat st;
		char *path;

		if (length != 38 || strcmp(de->d_name + 32, ".wsrep"))
			continue;
		path = ws_format("%s/%s", folder, de->d_name);
		if (lstat(path, &st) || !S_ISREG(st.st_mode)) {
			free(path);
			continue;
		}
		ws_grow(reports, capacity, count + 1);
		reports[count++] = (struct cached_report){path, (uint64_t)st.st_size, st.st_mtim};
		total += (uint64_t)st.st_size;
	}
	if (dir)
		closedir(dir);
	if (count)
		qsort(reports, count, sizeof(*reports), compare_use_times);
	for (size_t i = 0; i < count; i++) {
		if (total > MOST_BYTES && strcmp(reports[i].path, keep)) {
			unlink(reports[i].path);
			total -= reports[i].bytes;
		}
		free(reports[i].path);
	}
	free(reports);
}

/* ---- opening ---- */

char *ws_make_import_folder(void)
{
	const char *parent = getenv("TMPDIR");
	char *folder;

	if (!parent || !*parent)
		parent = "/tmp";
	folder = ws_format("%s/warpsight-import-XXXXXX", parent);
	if (mkdtemp(folder))
		return folder;
	free(folder);
	return NULL;
}

/* Open a report with the name of its source file. */
static struct ws_report *open_imported(const char *file, const char *path, struct ws_err *err)
{
	struct ws_report *report = ws_report_open_plain(file, err);

	if (report)
		ws_report_rename(report, path);
	return report;
}

static int import_file_to(const char *path, const char *output, struct ws_err *err)
{
	struct ws_import_request request = {.files = &path,
					    .count = 1,
					    .output = output,
					    .overwrite = true,
					    .progress = true,
					    .quiet = ws_import_quiet};

	return ws_import_files(&request, NULL, err);
}

/* Without a cache: import to a temporary file, which is deleted as soon as it is open. */
static struct ws_report *open_temporary(const char *path, struct ws_err *err)
{
	char *folder = ws_make_import_folder(), *file;
	struct ws_report *report = NULL;
	int litter;

	if (!folder) {
		ws_fail_errno(err, "cannot make a temporary folder for importing %s", path);
		return NULL;
	}
	litter = ws_cleanup_add_path(folder, true);
	file = ws_format("%s/import.wsrep", folder);
	if (!import_file_to(path, file, err))
		report = open_imported(file, path, err);
	unlink(file);
	rmdir(folder);
	ws_cleanup_forget(litter);
	free(file);
	free(folder);
	return report;
}

struct ws_report *ws_import_open(const char *path, struct ws_err *err)
{
	enum ws_import_format format = ws_import_format(path, err);
	struct ws_report *report = NULL;
	struct stat st;
	char *folder, *file;

	if (format == WS_FORMAT_UNKNOWN || format == WS_FORMAT_REPORT || stat(path, &st))
		return NULL;
	folder = find_cache_folder();
	if (!folder)
		return open_temporary(path, err);
	file = name_cached_report(folder, path, &st);
	if (!ws_import_anew && !access(file, R_OK)) {
		report = open_imported(file, path, err);
		utimensat(AT_FDCWD, file, NULL, 0);
	}
	if (!report && !import_file_to(path, file, err)) {
		report = open_imported(file, path, err);
		trim_cache(folder, file);
	}
	free(file);
	free(folder);
	return report;
}
