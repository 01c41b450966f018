/*
 * kernel_keep.c - counter data images kept in files (--keep-counters), so that further metrics can
 * be evaluated later, on any machine with CUPTI's host library.
 */
#include <fcntl.h>
#include <stdio.h>

#include "inject/kernel.h"

enum { PATH_ROOM = 1100 };

static bool write_bytes(int fd, const void *data, size_t bytes)
{
	const char *at = data;

	while (bytes) {
		ssize_t n = ws_raw_syscall(SYS_write, fd, (long)at, (long)bytes, 0, 0, 0);

		if (n <= 0)
			return false;
		at += n;
		bytes -= (size_t)n;
	}
	return true;
}

bool ws_kernel_keeps_images(void)
{
	return *ws_kernel_settings.keep != 0;
}

void ws_kernel_keep_image(const uint8_t *image, size_t bytes, uint32_t device,
			  const struct ws_kernel_image_entry *entries, size_t count)
{
	static unsigned sequence; /* one launch is measured at a time */
	long pid = ws_raw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
	struct ws_kernel_image_head head = {.magic = WS_KERNEL_IMAGE_MAGIC,
					    .bytes = bytes,
					    .count = (uint32_t)count,
					    .pid = (uint32_t)pid};
	char path[PATH_ROOM];
	int fd;

	if (!ws_kernel_keeps_images() || !count)
		return;
	snprintf(head.chip, sizeof(head.chip), "%s", ws_kernel_chip((int)device));
	snprintf(path, sizeof(path), "%s/image-%ld-%u", ws_kernel_settings.keep, pid, sequence++);
	fd = (int)ws_raw_syscall(SYS_openat, AT_FDCWD, (long)path,
				 O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600, 0, 0);
	if (fd < 0 || !write_bytes(fd, &head, sizeof(head)) ||
	    !write_bytes(fd, entries, count * sizeof(*entries)) || !write_bytes(fd, image, bytes))
		ws_kernel_report(WS_WARNING, "Counters could not be kept: %s cannot be written.",
				 path);
	if (fd >= 0)
		ws_raw_syscall(SYS_close, fd, 0, 0, 0, 0, 0);
}

void ws_kernel_keep_one(const struct ws_kernel_counters *counters,
			const struct ws_kernel_launch *launch, const uint8_t *image, size_t range)
{
	struct ws_kernel_image_entry entry = {launch->number, range};
	size_t bytes;

	ws_kernel_get_image(counters, &bytes);
	ws_kernel_keep_image(image, bytes, launch->device, &entry, 1);
}
