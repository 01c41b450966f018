/*
 * syscalls.h - system calls of the recorded process tree (--trace=syscall), reported by programs in
 * the kernel (bpf/syscalls.bpf.c).
 */
#ifndef WS_RECORD_SYSCALLS_H
#define WS_RECORD_SYSCALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "record/bpf/syscalls.h"

struct ws_syscalls;

/*
 * Load the programs for the tree that begins with `target`, a process that has not called exec yet.
 * NULL with a sentence that says why not. Freed by ws_syscalls_close; NULL is fine.
 */
struct ws_syscalls *ws_syscalls_open(uint32_t target, struct ws_err *err);
void ws_syscalls_close(struct ws_syscalls *calls);
/* Have what happens on `cpu` written into the buffer of the event `output`. 0 or -errno. */
int ws_syscalls_attach(struct ws_syscalls *calls, int output, uint32_t cpu);
/* Begin, once all buffers are attached. -1 with a sentence. */
int ws_syscalls_start(struct ws_syscalls *calls, struct ws_err *err);
/* Another process is one of the tree. */
void ws_syscalls_add(struct ws_syscalls *calls, uint32_t pid);
/* How many calls were left out since the last question, because they came too fast. */
uint64_t ws_syscalls_take_left_out(struct ws_syscalls *calls);
/* Copy what they wrote to `record`; false when `raw`, which may lie anywhere, is none of it. */
bool ws_syscalls_read(const void *raw, size_t size, struct ws_syscall_record *record);
/* Name of a call by its number on this machine; NULL when it is not known. */
const char *ws_name_syscall(uint32_t number);

#endif
