/*
 * crowd.c - see crowd.h. The kernel counts the threads that want to run in the fourth field of
 * /proc/loadavg, "3/152", which costs two microseconds to read. Unlike the times of idle cores it
 * is about now, and is short on machines with many cores.
 */
#include "record/crowd.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void ws_crowd_begin(struct ws_crowd *crowd)
{
	crowd->cores = sysconf(_SC_NPROCESSORS_ONLN);
	crowd->fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
}

void ws_crowd_end(struct ws_crowd *crowd)
{
	if (crowd->fd >= 0)
		close(crowd->fd);
	crowd->fd = -1;
}

bool ws_crowd_is_full(const struct ws_crowd *crowd)
{
	char text[128];
	ssize_t length = crowd->fd < 0 ? -1 : pread(crowd->fd, text, sizeof(text) - 1, 0);
	char *slash;

	if (length <= 0 || crowd->cores < 1)
		return false;
	text[length] = 0;
	slash = strchr(text, '/');
	if (!slash)
		return false;
	*slash = 0;
	slash = strrchr(text, ' ');
	return slash && strtol(slash, NULL, 10) > crowd->cores;
}
