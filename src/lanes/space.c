/*
 * space.c - memory for events: mappings of unlinked files, so that the kernel can write out and
 * drop pages that are not in use. Room in the file is allocated before it is mapped: a full disk
 * must not kill the server while it writes to memory.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "lanes/lane.h"
#include "base/choose.h"

enum { SMALL = 1 << 20 };

static int new_file(size_t bytes)
{
	const char *dirs[] = {getenv("TMPDIR"), "/var/tmp"};

	for (size_t i = 0; i < WS_COUNT(dirs); i++) {
		int fd = dirs[i] && *dirs[i] ? open(dirs[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)
					     : -1;

		if (fd >= 0 && !posix_fallocate(fd, 0, (off_t)bytes))
			return fd;
		if (fd >= 0)
			close(fd);
	}
	return -1;
}

enum { FREE_SHARE = 4 };
static const uint64_t MOST_ROOM = UINT64_C(8) << 30, LEAST_ROOM = UINT64_C(256) << 20;

uint64_t ws_measure_free_space(void)
{
	const char *dirs[] = {getenv("TMPDIR"), "/var/tmp"};
	uint64_t room = LEAST_ROOM;

	for (size_t i = 0; i < WS_COUNT(dirs); i++) {
		struct statvfs statvfs_v;
		uint64_t some =
			dirs[i] && *dirs[i] && !statvfs(dirs[i], &statvfs_v)
				? (uint64_t)statvfs_v.f_bavail * statvfs_v.f_frsize / FREE_SHARE
				: 0;

		room = ws_max(some, room);
	}
	return ws_min(room, MOST_ROOM);
}

void *ws_allocate_space(size_t bytes)
{
	void *memory = MAP_FAILED;
	int fd;

	if (bytes < SMALL)
		return ws_calloc(1, bytes ? bytes : 1);
	fd = new_file(bytes);
	if (fd >= 0) {
		memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		close(fd);
	}
	if (memory == MAP_FAILED)
		memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			      0);
	if (memory == MAP_FAILED) {
		ws_say("out of memory for the events of the time line");
		exit(1);
	}
	return memory;
}

void ws_free_space(void *memory, size_t bytes)
{
	if (bytes < SMALL)
		free(memory);
	else
		munmap(memory, bytes);
}
