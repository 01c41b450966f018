/*
 * tlsuser.c - eats the loader's reserve of static TLS, then uses NVTX: tlsuser LIBRARY. The
 * library, which holds 256 bytes of initial-exec TLS, is copied to new names and opened until the
 * loader refuses; a hook that is opened then must need no more than a pointer.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "warpsight/annotate.h"

static int copy(const char *from, const char *to)
{
	char buf[65536];
	FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
	size_t n;

	if (!in || !out)
		return -1;
	while ((n = fread(buf, 1, sizeof(buf), in)) > 0)
		if (fwrite(buf, 1, n, out) != n)
			return -1;
	fclose(in);
	return fclose(out);
}

int main(int argc, char **argv)
{
	char name[64];
	int i;

	if (argc < 2)
		return 98;
	for (i = 0; i < 1000; i++) {
		void *h;

		snprintf(name, sizeof(name), "./tls%d.so", i);
		if (copy(argv[1], name))
			return 99;
		h = dlopen(name, RTLD_NOW);
		unlink(name);
		if (!h)
			break;
	}
	for (int k = 0; k < 10; k++) {
		ws_range_push("late");
		ws_range_pop();
	}
	puts(i < 1000 ? "exhausted" : "never exhausted");
	return 0;
}
