/*
 * paths.c - see paths.h.
 *
 * The relocatable tarball runs the program through its own loader, so that /proc/self/exe is the
 * loader; both lie in the folder of the hooks, which is the first place searched.
 */
#include "base/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Relative to the folder of the program. */
static const char *const places[] = {
	".",
	"src/inject", /* build tree */
	"../lib/warpsight",
	"../lib64/warpsight",
	"../lib/x86_64-linux-gnu/warpsight",
	"../lib/aarch64-linux-gnu/warpsight",
};

static int program_dir(char out[PATH_MAX], struct ws_err *err)
{
	ssize_t length = readlink("/proc/self/exe", out, PATH_MAX - 1);
	char *slash;

	if (length < 0)
		return ws_fail_errno(err, "cannot tell where the program is: /proc/self/exe");
	out[length] = 0;
	slash = strrchr(out, '/');
	if (!slash)
		return ws_fail(err, "cannot tell where the program is: /proc/self/exe is '%s'",
			       out);
	slash[slash == out] = 0;
	return 0;
}

static int find_hook_library(const char *dir, const char *lib, char out[PATH_MAX],
			     struct ws_err *err)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < WS_COUNT(places); i++) {
		if (snprintf(path, sizeof(path), "%s/%s/%s", dir, places[i], lib) >=
		    (int)sizeof(path))
			continue;
		if (!access(path, R_OK) && realpath(path, out))
			return 0;
	}
	return ws_fail(err,
		       "%s is missing: it is neither beside the program in %s nor in "
		       "../lib/warpsight from there; install warpsight again",
		       lib, dir);
}

static uint64_t hash_path(const char *text)
{
	uint64_t hash = 14695981039346656037u; /* FNV-1a */

	while (*text)
		hash = (hash ^ (unsigned char)*text++) * 1099511628211u;
	return hash;
}

/* Whether `link` is a symbolic link of ours to `dir`. A link that belongs to someone else could
 * make the target load their library. */
static int link_is_ours(const char *link, const char *dir)
{
	struct stat st;
	char target[PATH_MAX];
	ssize_t length;

	if (lstat(link, &st) || !S_ISLNK(st.st_mode) || (st.st_uid != geteuid() && st.st_uid != 0))
		return 0;
	length = readlink(link, target, sizeof(target) - 1);
	if (length < 0)
		return 0;
	target[length] = 0;
	return !strcmp(target, dir);
}

/* A name for `dir` that LD_PRELOAD can express. Several are tried, since another user may have
 * taken the first. */
static int make_link_to(const char *dir, char *out, size_t size, struct ws_err *err)
{
	for (unsigned i = 0; i < 16; i++) {
		snprintf(out, size, "/tmp/.warpsight-%u-%016llx-%u", (unsigned)geteuid(),
			 (unsigned long long)hash_path(dir), i);
		if (link_is_ours(out, dir) || !symlink(dir, out) ||
		    (errno == EEXIST && link_is_ours(out, dir)))
			return 0;
		if (errno != EEXIST)
			break;
	}
	return ws_fail_errno(err,
			     "the hooks lie in '%s', which LD_PRELOAD cannot name, and no link to "
			     "it can be made in /tmp",
			     dir);
}

int ws_find_hook_library(const char *lib, char *out, size_t size, struct ws_err *err)
{
	char dir[PATH_MAX], path[PATH_MAX], link[128];
	const char *base;
	int length;

	if (program_dir(dir, err) || find_hook_library(dir, lib, path, err))
		return -1;
	base = strrchr(path, '/') + 1;
	if (path[strcspn(path, " \t\n:$")]) {
		snprintf(dir, sizeof(dir), "%.*s", (int)(base - path - 1), path);
		if (make_link_to(dir, link, sizeof(link), err))
			return -1;
		length = snprintf(out, size, "%s/%s", link, base);
	} else {
		length = snprintf(out, size, "%s", path);
	}
	if (length >= (int)size)
		return ws_fail(err, "the path of %s is too long: %s", lib, path);
	return 0;
}

int ws_find_program(char *out, size_t size, struct ws_err *err)
{
	char dir[PATH_MAX], exe[PATH_MAX];
	ssize_t exe_length = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	int length;
	if (exe_length < 0)
		return ws_fail_errno(err, "cannot tell where the program is: /proc/self/exe");
	if (program_dir(dir, err))
		return -1;
	exe[exe_length] = 0;
	if (!strncmp(exe + strlen(dir) + 1, "ld-", 3)) /* the tarball's loader, in lib/warpsight */
		length = snprintf(out, size, "%s/../../bin/warpsight", dir);
	else /* this works even when the file has been replaced */
		length = snprintf(out, size, "/proc/self/exe");
	if (length < 0 || (size_t)length >= size)
		return ws_fail(err, "the path of the program is too long: %s", exe);
	return 0;
}

static void restore_variable(const char *kept, const char *name)
{
	const char *value = getenv(kept);

	if (!value)
		return;
	setenv(name, value, 1);
	unsetenv(kept);
}

void ws_restore_environment(void)
{
	restore_variable(WS_KEPT_PRELOAD, "LD_PRELOAD");
	restore_variable(WS_KEPT_AUDIT, "LD_AUDIT");
}
