/* no_programs.c - in a build without clang there are no programs for the kernel. */
#include "record/kernel_names_private.h"
#include "record/python_bpf.h"

const struct ws_bpf_program ws_py_bpf_programs[] = {{0}};
const struct ws_bpf_program ws_kernel_names_programs[] = {{0}};
