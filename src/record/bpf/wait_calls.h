/*
 * wait_calls.h - what the program that reports in which system call a thread leaves its core
 * (wait_calls.bpf.c) shares with the recorder. Compiled for both sides.
 */
#ifndef WS_RECORD_BPF_WAIT_CALLS_H
#define WS_RECORD_BPF_WAIT_CALLS_H

#include <stdint.h>

/* The first word of a record, distinct from enum ws_py_kernel_record. */
#define WS_WAIT_CALL 3u

struct ws_wait_call { /* a record, in the buffer of the switch that follows */
	uint32_t kind, number;
	uint64_t first; /* argument */
};

/* Maps: hooked: processes whose hooks report their waits, by id; output: where records go, by
 * CPU. */
#define WS_WAIT_CALLS_MAPS(X) X(hooked) X(output)
/* ns_device, ns_inode: of the pid namespace of those ids; inode 0: the initial one. registers_at:
 * where the first argument is in the registers that a system call saves; the call's number follows
 * it. */
#define WS_WAIT_CALLS_CONSTANTS(X) X(ns_device) X(ns_inode) X(registers_at)

enum ws_wait_calls_symbol {
#define X(name) WS_WAIT_CALLS_map_##name,
	WS_WAIT_CALLS_MAPS(X)
#undef X
#define X(name) WS_WAIT_CALLS_const_##name,
		WS_WAIT_CALLS_CONSTANTS(X)
#undef X
			WS_WAIT_CALLS_SYMBOLS
};

#endif
