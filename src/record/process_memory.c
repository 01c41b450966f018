/* process_memory.c - see process_memory.h. */
#include "record/process_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

static int open_memory(int pid, int how)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	return open(path, how | O_CLOEXEC);
}

static void close_memory(int fd)
{
	int kept = errno;

	close(fd);
	errno = kept;
}

static int is_call_refused(void)
{
	return errno == EPERM || errno == ENOSYS;
}

ssize_t ws_process_memory_read(int pid, void *to, uint64_t from, size_t size)
{
	struct iovec local = {to, size}, remote = {(void *)(uintptr_t)from, size};
	ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);
	int fd;

	if (n >= 0 || !is_call_refused())
		return n;
	fd = open_memory(pid, O_RDONLY);
	if (fd < 0)
		return -1;
	n = pread(fd, to, size, (off_t)from);
	close_memory(fd);
	return n;
}

int ws_process_memory_write(int pid, uint64_t to, const void *from, size_t size)
{
	struct iovec local = {(void *)(uintptr_t)from, size},
		     remote = {(void *)(uintptr_t)to, size};
	ssize_t n = process_vm_writev(pid, &local, 1, &remote, 1, 0);
	int fd;

	if (n < 0 && is_call_refused()) {
		fd = open_memory(pid, O_RDWR);
		if (fd < 0)
			return -1;
		n = pwrite(fd, from, size, (off_t)to);
		close_memory(fd);
	}
	if (n == (ssize_t)size)
		return 0;
	if (n >= 0)
		errno = EFAULT;
	return -1;
}
