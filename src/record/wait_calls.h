/*
 * wait_calls.h - a program in the kernel (bpf/wait_calls.bpf.c) reports in which system call
 * recorded threads leave their cores, for processes whose hooks do not report what they wait for.
 *
 * It runs at each switch of a recorded thread. perf_waits.c makes rows of what it writes.
 */
#ifndef WS_RECORD_WAIT_CALLS_H
#define WS_RECORD_WAIT_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/bpf/wait_calls.h"

struct ws_wait_calls;

/* NULL when the kernel does not take the program. Freed by ws_wait_calls_close; NULL is fine. */
struct ws_wait_calls *ws_wait_calls_open(void);
void ws_wait_calls_close(struct ws_wait_calls *calls);
/* Attach it to `counter`, an event of context switches on `cpu`; it writes into the buffer of the
 * event `output`. 0 or -errno. */
int ws_wait_calls_attach(struct ws_wait_calls *calls, int counter, int output, uint32_t cpu);
/* Hooks tell of this process's waits from now on, or it has ended and its id may be another's. */
void ws_wait_calls_hook(struct ws_wait_calls *calls, uint32_t pid, bool hooked);
/* Copy what it wrote to `call`; false when `raw`, which may lie anywhere, is none of it. */
bool ws_wait_calls_read(const void *raw, size_t size, struct ws_wait_call *call);

#endif
