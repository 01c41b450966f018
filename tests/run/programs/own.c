/*
 * own.c - a preload library such as a user may have: interposes usleep and notes each call in the
 * file OWN_LOG. A profiler's own preload must leave it working.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((visibility("default"))) int usleep(useconds_t us)
{
	int (*next)(useconds_t) = (int (*)(useconds_t))dlsym(RTLD_NEXT, "usleep");
	const char *log = getenv("OWN_LOG");
	int fd = log ? open(log, O_WRONLY | O_CREAT | O_APPEND, 0644) : -1;

	if (fd >= 0) {
		if (write(fd, "usleep\n", 7) != 7)
			abort();
		close(fd);
	}
	return next ? next(us) : -1;
}
