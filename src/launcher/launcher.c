/*
 * launcher.c - bin/warpsight of the relocatable tarball: starts the real program through the loader
 * and the libraries that are bundled with it.
 *
 * The tarball must run where the C library is older, newer or not glibc at all, so this one program
 * is static. It sets no variable that the profiled program could inherit: the library path goes to
 * the loader as an argument. Variables that would make the bundled loader load libraries meant for
 * the system's C library (LD_PRELOAD, LD_AUDIT) are renamed; main() restores their names before
 * anything else.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "base/paths.h"

extern char **environ;

static int fail(const char *what, const char *path)
{
	fprintf(stderr, "warpsight: %s: %s: %s\n", what, path, strerror(errno));
	return 127;
}

/* The folder above bin/, where this program is: found through /proc, or else through the path that
 * it was started with. */
static int find_root(char root[PATH_MAX])
{
	const char *started = (const char *)getauxval(AT_EXECFN);
	ssize_t n = readlink("/proc/self/exe", root, PATH_MAX - 1);

	if (n > 0)
		root[n] = 0;
	else if (!started || !realpath(started, root))
		return -1;
	for (int i = 0; i < 2; i++) {
		char *slash = strrchr(root, '/');

		if (!slash)
			return -1;
		*slash = 0;
	}
	return 0;
}

static void keep(const char *name, const char *kept)
{
	const char *value = getenv(name);

	if (!value || setenv(kept, value, 1))
		return;
	unsetenv(name);
}

static char *join(const char *a, const char *b)
{
	char *s;

	if (asprintf(&s, "%s%s", a, b) < 0)
		exit(127);
	return s;
}

int main(int argc, char **argv)
{
	char root[PATH_MAX], *lib, *loader, **words = calloc((size_t)argc + 8, sizeof(*words));
	int n = 0;

	if (!words || find_root(root))
		return fail("cannot tell where the program is", argc ? argv[0] : "");
	if (strpbrk(root, ":;")) {
		fprintf(stderr,
			"warpsight: its folder has a colon or semicolon in its path, which the "
			"loader cannot take; move it: %s\n",
			root);
		return 127;
	}
	lib = join(root, "/lib/warpsight");
	loader = join(lib, "/" WS_LOADER);
	words[n++] = loader;
	words[n++] = (char *)"--argv0";
	words[n++] = (char *)"warpsight";
	words[n++] = (char *)"--library-path";
	words[n++] = lib;
	words[n++] = join(lib, "/warpsight");
	for (int i = 1; i < argc; i++)
		words[n++] = argv[i];
	keep("LD_PRELOAD", WS_KEPT_PRELOAD);
	keep("LD_AUDIT", WS_KEPT_AUDIT);
	execve(loader, words, environ);
	return fail("cannot start", loader);
}
