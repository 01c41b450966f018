/*
 * kernel_image.h - how the kernel hook leaves counters for `warpsight kernel --keep-counters`.
 */
#ifndef WS_SCHEMA_KERNEL_IMAGE_H
#define WS_SCHEMA_KERNEL_IMAGE_H

#include <stdint.h>

/*
 * With --keep-counters, a file of the folder: this head, then `count` entries, then the counter
 * data image of CUPTI, as long as `bytes` says.
 */
#define WS_KERNEL_IMAGE_MAGIC UINT64_C(0x3165676d496b7377)
struct ws_kernel_image_head {
	uint64_t magic, bytes;
	uint32_t count, pid;
	char chip[40];
};
struct ws_kernel_image_entry {
	uint64_t launch; /* launchNumber of the result */
	uint64_t range;	 /* its range in the image */
};

#endif
