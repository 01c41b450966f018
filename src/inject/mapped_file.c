/* mapped_file.c - see mapped_file.h. */
#include "inject/mapped_file.h"

#include <fcntl.h>
#include <string.h>

#include "inject/rt.h"

enum { MOST_PART = 64, PIECE = 2048 };

/* Pieces overlap, so that a part which lies across two of them is found. */
static bool contains_part(long fd, const char *part)
{
	size_t length = strlen(part), kept = 0;
	char piece[MOST_PART + PIECE + 1];
	long got;

	if (!length || length > MOST_PART)
		return false;
	while ((got = ws_raw_syscall(SYS_read, fd, (long)(piece + kept), PIECE, 0, 0, 0)) > 0) {
		size_t have = kept + (size_t)got;

		piece[have] = 0;
		if (strstr(piece, part))
			return true;
		kept = length - 1;
		if (have < kept)
			kept = have;
		memmove(piece, piece + have - kept, kept);
	}
	return false;
}

bool ws_is_file_mapped(const char *part)
{
	long fd = ws_raw_syscall(SYS_openat, AT_FDCWD, (long)"/proc/self/maps",
				 O_RDONLY | O_CLOEXEC, 0, 0, 0);
	bool found = fd >= 0 && contains_part(fd, part);

	if (fd >= 0)
		ws_raw_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
	return found;
}
