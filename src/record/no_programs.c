/* no_programs.c - in a build without clang there are no programs for the kernel. */
#include "record/kernel_names_private.h"
#include "record/python_bpf.h"
#include "record/syscalls_private.h"
#include "record/wait_calls_private.h"

const struct ws_bpf_program ws_py_bpf_programs[] = {{0}};
const struct ws_bpf_program ws_kernel_names_programs[] = {{0}};
const struct ws_bpf_program ws_wait_calls_programs[] = {{0}};
const struct ws_bpf_program ws_syscalls_programs[] = {{0}};
