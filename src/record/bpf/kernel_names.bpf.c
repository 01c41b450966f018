/*
 * kernel_names.bpf.c - has the kernel name its own functions: it prints an address as it does in
 * its own messages. That takes a microsecond for each, whereas reading /proc/kallsyms takes 50 ms.
 *
 * Compiled for BPF by clang, like python_frames.bpf.c, which says how; kernel_names.c loads it and
 * calls it. Needs Linux 5.13.
 */
#include <stddef.h>

#include "record/bpf/kernel_names.h"

extern const char map_questions[] __attribute__((weak));
extern const char map_format[] __attribute__((weak));

/* The kernel's helpers, by their numbers in linux/bpf.h. */
static void *(*const look_up)(const void *map, const void *key) = (void *)1;
static long (*const print)(char *to, uint32_t size, const char *format, const uint64_t *values,
			   uint32_t bytes) = (void *)165;

__attribute__((section("program/name_functions"), used)) int name_functions(void *context)
{
	uint32_t key = 0;
	struct ws_kernel_questions *questions = look_up(map_questions, &key);
	const struct ws_kernel_format *format = look_up(map_format, &key);

	(void)context;
	if (!questions || !format)
		return 0;
#pragma clang loop unroll(disable)
	for (uint32_t i = 0; i < WS_KERNEL_NAMES; i++)
		if (questions->address[i])
			print(questions->name[i], WS_KERNEL_NAME, format->text,
			      &questions->address[i], sizeof(uint64_t));
	return 0;
}
