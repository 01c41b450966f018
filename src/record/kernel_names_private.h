/* kernel_names_private.h - what the compiled program (bpf/kernel_names.bpf.c) and its loader share.
 */
#ifndef WS_RECORD_KERNEL_NAMES_PRIVATE_H
#define WS_RECORD_KERNEL_NAMES_PRIVATE_H

#include "record/bpf.h"
#include "record/bpf/kernel_names.h"

/* None in a build without clang. */
extern const struct ws_bpf_program ws_kernel_names_programs[];

#endif
