/*
 * paths.c - see paths.h.
 *
 * The relocatable tarball runs the program through its own loader, so that /proc/self/exe is the
 * loader; both lie in the folder of the hooks, which is the first place looked at.
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
	ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);
	char *slash;

	if (n < 0)
		return ws_fail_errno(err, "cannot tell where the program is: /proc/self/exe");
	out[n] = 0;
	slash = strrchr(out, '/');
	if (!slash)
		return ws_fail(err, "cannot tell where the program is: /proc/self/exe is '%s'",
			       out);
	slash[slash == out] = 0;
	return 0;
}

static int find(const char *dir, const char *lib, char out[PATH_MAX], struct ws_err *err)
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

static uint64_t hash(const char *text)
{
	uint64_t h = 14695981039346656037u;

	while (*text)
		h = (h ^ (unsigned char)*text++) * 1099511628211u;
	return h;
}

/* Is `link` a symbolic link of ours to `dir`? Someone else's could lead the target into their
 * library. */
static int link_is_ours(const char *link, const char *dir)
{
	struct stat st;
	char to[PATH_MAX];
	ssize_t n;

	if (lstat(link, &st) || !S_ISLNK(st.st_mode) || (st.st_uid != geteuid() && st.st_uid != 0))
		return 0;
	n = readlink(link, to, sizeof(to) - 1);
	if (n < 0)
		return 0;
	to[n] = 0;
	return !strcmp(to, dir);
}

/* A name for `dir` that LD_PRELOAD can hold. A few are tried, for a stranger may have taken the
 * first. */
static int alias(const char *dir, char *out, size_t n, struct ws_err *err)
{
	for (unsigned i = 0; i < 16; i++) {
		snprintf(out, n, "/tmp/.warpsight-%u-%016llx-%u", (unsigned)geteuid(),
			 (unsigned long long)hash(dir), i);
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

int ws_hook_path(const char *lib, char *out, size_t n, struct ws_err *err)
{
	char dir[PATH_MAX], path[PATH_MAX], link[128] = "";
	const char *base;

	if (program_dir(dir, err) || find(dir, lib, path, err))
		return -1;
	base = strrchr(path, '/') + 1;
	if (path[strcspn(path, " \t\n:$")]) {
		snprintf(dir, sizeof(dir), "%.*s", (int)(base - path - 1), path);
		if (alias(dir, link, sizeof(link), err))
			return -1;
	}
	if (snprintf(out, n, "%s%s%s", *link ? link : path, *link ? "/" : "", *link ? base : "") >=
	    (int)n)
		return ws_fail(err, "the path of %s is too long: %s", lib, path);
	return 0;
}

int ws_program_path(char *out, size_t n, struct ws_err *err)
{
	char dir[PATH_MAX], exe[PATH_MAX];
	ssize_t got = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	int len;

	if (got < 0 || program_dir(dir, err))
		return got < 0 ? ws_fail_errno(err,
					       "cannot tell where the program is: /proc/self/exe")
			       : -1;
	exe[got] = 0;
	if (!strncmp(exe + strlen(dir) + 1, "ld-", 3)) /* the tarball's loader, in lib/warpsight */
		len = snprintf(out, n, "%s/../../bin/warpsight", dir);
	else
		len = snprintf(
			out, n,
			"/proc/self/exe"); /* which runs though the file may have been replaced */
	return len < 0 || (size_t)len >= n
		       ? ws_fail(err, "the path of the program is too long: %s", exe)
		       : 0;
}

static void restore(const char *kept, const char *name)
{
	const char *value = getenv(kept);

	if (!value)
		return;
	setenv(name, value, 1);
	unsetenv(kept);
}

void ws_environment_restore(void)
{
	restore(WS_KEPT_PRELOAD, "LD_PRELOAD");
	restore(WS_KEPT_AUDIT, "LD_AUDIT");
}
