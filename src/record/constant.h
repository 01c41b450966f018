/*
 * constant.h - reading literals from the read-only memory of a process of the target.
 */
#ifndef WS_RECORD_CONSTANT_H
#define WS_RECORD_CONSTANT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Copy the text at `address` in process `pid` into `out`, as far as it fits into `size` bytes,
 * NUL-terminated. Returns its length; 0 when that memory is not mapped, is writable, or may not be
 * read.
 */
size_t ws_read_constant(pid_t pid, uint64_t address, char *out, size_t size);

#endif
