/*
 * syscalls.h - what the programs that record system calls (syscalls.bpf.c) share with the recorder.
 * Compiled for both sides.
 */
#ifndef WS_RECORD_BPF_SYSCALLS_H
#define WS_RECORD_BPF_SYSCALLS_H

#include <stdint.h>

/* The first word of a record, distinct from WS_WAIT_CALL and enum ws_py_kernel_record. */
#define WS_SYSCALL_RECORD 16u

struct ws_syscall_record { /* written when a call returns, at the time of the perf record */
	uint32_t kind, number;
	uint64_t duration; /* nanoseconds */
	int64_t result;
};

/* A call that a thread has begun. */
struct ws_syscall_begun {
	uint64_t start; /* CLOCK_MONOTONIC */
	uint64_t number;
};

/* How many calls a core has made in the window that began at `start`, and how many were left out so
 * far. */
struct ws_syscall_rate {
	uint64_t start, count, left_out;
};

#define WS_SYSCALL_WINDOW_NS 50000000u
#define WS_SYSCALL_WINDOW_MOST 5000u

/* Maps: processes: those that are recorded; begun: calls, by thread; rates: one for each core;
 * output: where records go, by core. */
#define WS_SYSCALLS_MAPS(X) X(processes) X(begun) X(rates) X(output)
/* ns_device, ns_inode: of the recorder's pid namespace; inode 0: the initial one. target: the first
 * process, by its id there. child_at: the offset of the child's id in the arguments of the fork
 * tracepoint. */
#define WS_SYSCALLS_CONSTANTS(X) X(ns_device) X(ns_inode) X(target) X(child_at)

enum ws_syscalls_symbol {
#define X(name) WS_SYSCALLS_map_##name,
	WS_SYSCALLS_MAPS(X)
#undef X
#define X(name) WS_SYSCALLS_const_##name,
		WS_SYSCALLS_CONSTANTS(X)
#undef X
			WS_SYSCALLS_SYMBOLS
};

#endif
