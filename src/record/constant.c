/*
 * constant.c - see constant.h. The maps are read again for each text: a collection's end asks for
 * the ranges that were open before it began, which are few.
 */
#include "record/constant.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#include "base/choose.h"

/* How many bytes from `address` on the process can read but not write. */
static size_t measure_constant(FILE *maps, uint64_t address)
{
	char line[4200], rights[5];
	uint64_t low, high;

	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &low, &high, rights) != 3 ||
		    address < low || address >= high)
			continue;
		if (rights[0] == 'r' && rights[1] != 'w')
			return (size_t)(high - address);
		return 0;
	}
	return 0;
}

size_t ws_read_constant(pid_t pid, uint64_t address, char *out, size_t size)
{
	struct iovec local = {out, size - 1}, remote = {(void *)(uintptr_t)address, 0};
	char path[40];
	FILE *maps;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	if (!maps)
		return 0;
	remote.iov_len = ws_min(measure_constant(maps, address), size - 1);
	fclose(maps);
	local.iov_len = remote.iov_len;
	if (!remote.iov_len)
		return 0;
	n = process_vm_readv(pid, &local, 1, &remote, 1, 0);
	if (n <= 0)
		return 0;
	out[n] = 0;
	return strlen(out);
}
