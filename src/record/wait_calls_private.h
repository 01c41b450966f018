/* wait_calls_private.h - what the compiled program (bpf/wait_calls.bpf.c) and its loader share. */
#ifndef WS_RECORD_WAIT_CALLS_PRIVATE_H
#define WS_RECORD_WAIT_CALLS_PRIVATE_H

#include "record/bpf.h"
#include "record/bpf/wait_calls.h"

/* None in a build without clang. */
extern const struct ws_bpf_program ws_wait_calls_programs[];

#endif
