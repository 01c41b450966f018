/*
 * constant.h - reading what a process of the target holds where it cannot write: literals.
 */
#ifndef WS_RECORD_CONSTANT_H
#define WS_RECORD_CONSTANT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * The text at `address` in process `pid`, into `out` of `size` bytes, NUL-terminated; at most so
 * much of it. Its length; 0 when that memory is not there, can be written, or may not be read.
 */
size_t ws_read_constant(pid_t pid, uint64_t address, char *out, size_t size);

#endif
