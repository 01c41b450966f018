/*
 * no_diag.c - preloaded into the server by test_guard.py: a kernel that does not say by sock_diag
 * whose connections are whose, and with WS_TEST_NO_PROC not by /proc/net/tcp either.
 */
#undef _FILE_OFFSET_BITS /* fopen and fopen64 are two here */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

__attribute__((visibility("default"))) int socket(int domain, int type, int protocol)
{
	int (*real)(int, int, int) = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");

	if (domain == AF_NETLINK) {
		errno = EPROTONOSUPPORT;
		return -1;
	}
	return real(domain, type, protocol);
}

static FILE *open_unless_hidden(const char *function, const char *path, const char *mode)
{
	FILE *(*real)(const char *, const char *) =
		(FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, function);

	if (getenv("WS_TEST_NO_PROC") && !strncmp(path, "/proc/net/", strlen("/proc/net/"))) {
		errno = ENOENT;
		return NULL;
	}
	return real(path, mode);
}

__attribute__((visibility("default"))) FILE *fopen(const char *path, const char *mode)
{
	return open_unless_hidden("fopen", path, mode);
}

#ifdef __GLIBC__
__attribute__((visibility("default"))) FILE *fopen64(const char *path, const char *mode)
{
	return open_unless_hidden("fopen64", path, mode);
}
#endif
