/* syscalls_private.h - what the compiled programs (bpf/syscalls.bpf.c) and their loader share. */
#ifndef WS_RECORD_SYSCALLS_PRIVATE_H
#define WS_RECORD_SYSCALLS_PRIVATE_H

#include "record/bpf.h"
#include "record/bpf/syscalls.h"

/* None in a build without clang. */
extern const struct ws_bpf_program ws_syscalls_programs[];

#endif
