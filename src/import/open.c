/*
 * open.c - other tools' files opened as if they were reports.
 *
 * What was imported is kept in a folder of the user's (XDG_CACHE_HOME or ~/.cache, then
 * warpsight/imports), under a name made from the file's place, size and time of change and from
 * this build: a second command opens it at once. The folder is private and holds at most
 * MOST_BYTES, the longest unused go first. Where there is no such folder, the report is a temporary
 * file that is gone with the command.
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

#include "base/cleanup.h"
#include "base/mem.h"
#include "import/import.h"
#include "store/store.h"

#define MOST_BYTES (UINT64_C(8) << 30)

bool ws_import_anew, ws_import_quiet;

/* Make a folder with its parents, private. */
static int make_folder(char *path)
{
	for (char *at = path + 1; *at; at++) {
		if (*at != '/')
			continue;
		*at = 0;
		mkdir(path, 0700);
		*at = '/';
	}
	return mkdir(path, 0700) && errno != EEXIST ? -1 : 0;
}

/* The folder, ours and private; NULL when there can be none. A home that does not exist (of users
 * that are none) is not made. */
static char *cache_folder(void)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	char *path = cache && *cache == '/' ? ws_format("%s/warpsight/imports", cache)
		     : home && *home == '/' && !access(home, F_OK)
			     ? ws_format("%s/.cache/warpsight/imports", home)
			     : NULL;
	struct stat st;

	if (path && (make_folder(path) || lstat(path, &st) || !S_ISDIR(st.st_mode) ||
		     st.st_uid != geteuid() || (st.st_mode & 022) || access(path, W_OK))) {
		free(path);
		path = NULL;
	}
	return path;
}

static char *cached_name(const char *folder, const char *path, const struct stat *st)
{
	char *real = realpath(path, NULL);
	uint64_t facts[] = {(uint64_t)st->st_dev,	   (uint64_t)st->st_ino,
			    (uint64_t)st->st_size,	   (uint64_t)st->st_mtim.tv_sec,
			    (uint64_t)st->st_mtim.tv_nsec, (uint64_t)st->st_ctim.tv_sec,
			    (uint64_t)st->st_ctim.tv_nsec};
	char *log = ws_format("%s-wal", path); /* where a database has its latest rows */
	struct stat self = {0}, beside = {0};
	XXH128_hash_t h;
	uint64_t build[2], name;

	(void)!stat("/proc/self/exe", &self); /* another build may import better */
	build[0] = (uint64_t)self.st_size;
	build[1] = (uint64_t)self.st_mtim.tv_sec * 1000000000u + (uint64_t)self.st_mtim.tv_nsec;
	if (!stat(log, &beside))
		facts[2] ^= (uint64_t)beside.st_size << 32 ^
			    ((uint64_t)beside.st_mtim.tv_sec * 1000000000u +
			     (uint64_t)beside.st_mtim.tv_nsec);
	free(log);
	h = XXH3_128bits_withSeed(facts, sizeof(facts), XXH3_64bits(build, sizeof(build)));
	name = XXH3_64bits_withSeed(real ? real : path, strlen(real ? real : path), h.high64);
	free(real);
	return ws_format("%s/%016" PRIx64 "%016" PRIx64 ".wsrep", folder, (uint64_t)h.low64, name);
}

/* ---- bounding the cache ---- */

struct entry {
	char *path;
	uint64_t bytes;
	struct timespec used;
};

static int by_use(const void *first, const void *second)
{
	const struct entry *left = first, *right = second;

	return left->used.tv_sec != right->used.tv_sec
		       ? (left->used.tv_sec < right->used.tv_sec ? -1 : 1)
	       : left->used.tv_nsec != right->used.tv_nsec
		       ? (left->used.tv_nsec < right->used.tv_nsec ? -1 : 1)
		       : 0;
}

/* Delete the longest unused reports until the rest is small enough; `keep` stays. */
static void trim(const char *folder, const char *keep)
{
	DIR *dir = opendir(folder);
	struct entry *entry = NULL;
	size_t n = 0, cap = 0;
	uint64_t sum = 0;
	struct dirent *de;

	while (dir && (de = readdir(dir))) {
		size_t len = strlen(de->d_name);
		struct stat st;
		char *path;

		if (len != 38 || strcmp(de->d_name + 32, ".wsrep"))
			continue;
		path = ws_format("%s/%s", folder, de->d_name);
		if (lstat(path, &st) || !S_ISREG(st.st_mode)) {
			free(path);
			continue;
		}
		ws_grow(entry, cap, n + 1);
		entry[n++] = (struct entry){path, (uint64_t)st.st_size, st.st_mtim};
		sum += (uint64_t)st.st_size;
	}
	if (dir)
		closedir(dir);
	if (n)
		qsort(entry, n, sizeof(*entry), by_use);
	for (size_t i = 0; i < n; i++) {
		if (sum > MOST_BYTES && strcmp(entry[i].path, keep)) {
			unlink(entry[i].path);
			sum -= entry[i].bytes;
		}
		free(entry[i].path);
	}
	free(entry);
}

/* ---- opening ---- */

static struct ws_report *open_as(const char *file, const char *path, struct ws_err *err)
{
	struct ws_report *report = ws_report_open_plain(file, err);

	if (report)
		ws_report_rename(report, path);
	return report;
}

static int import_to(const char *path, const char *output, struct ws_err *err)
{
	struct ws_import_request request = {.files = &path,
					    .count = 1,
					    .output = output,
					    .overwrite = true,
					    .progress = true,
					    .quiet = ws_import_quiet};

	return ws_import(&request, NULL, err);
}

/* Without a cache: a file that has no name any more once it is open. */
static struct ws_report *open_temporary(const char *path, struct ws_err *err)
{
	const char *tmp = getenv("TMPDIR");
	char *folder = ws_format("%s/warpsight-import-XXXXXX", tmp && *tmp ? tmp : "/tmp"), *file;
	struct ws_report *report = NULL;
	int litter;

	if (!mkdtemp(folder)) {
		ws_fail_errno(err, "cannot make a temporary folder for importing %s", path);
		free(folder);
		return NULL;
	}
	litter = ws_cleanup_path(folder, true);
	file = ws_format("%s/import.wsrep", folder);
	if (!import_to(path, file, err))
		report = open_as(file, path, err);
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
	folder = cache_folder();
	if (!folder)
		return open_temporary(path, err);
	file = cached_name(folder, path, &st);
	if (!ws_import_anew && !access(file, R_OK)) {
		report = open_as(file, path, err);
		utimensat(AT_FDCWD, file, NULL, 0);
	}
	if (!report && !import_to(path, file, err)) {
		report = open_as(file, path, err);
		trim(folder, file);
	}
	free(file);
	free(folder);
	return report;
}
