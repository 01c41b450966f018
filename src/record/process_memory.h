/*
 * process_memory.h - the memory of another process.
 *
 * Seccomp profiles of containers (Docker's before 23.0) refuse process_vm_readv and its counterpart
 * though they permit ptrace; /proc/PID/mem then serves a process that may trace.
 */
#ifndef WS_RECORD_PROCESS_MEMORY_H
#define WS_RECORD_PROCESS_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* How many bytes at `from` could be read, at most `size`; -1 with errno when none. */
ssize_t ws_process_memory_read(int pid, void *to, uint64_t from, size_t size);
/* 0 when all was written; -1 with errno. */
int ws_process_memory_write(int pid, uint64_t to, const void *from, size_t size);

#endif
