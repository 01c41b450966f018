/*
 * kernel_names.h - what the program that names functions of the kernel (kernel_names.bpf.c) shares
 * with the recorder. Compiled for both sides.
 */
#ifndef WS_RECORD_BPF_KERNEL_NAMES_H
#define WS_RECORD_BPF_KERNEL_NAMES_H

#include <stdint.h>

#define WS_KERNEL_NAMES 64u /* addresses in a call */
#define WS_KERNEL_NAME 256u /* bytes of a name */
#define WS_KERNEL_FORMAT "%pS"

struct ws_kernel_questions {			    /* the only value of the map `questions` */
	uint64_t address[WS_KERNEL_NAMES];	    /* 0 after the last */
	char name[WS_KERNEL_NAMES][WS_KERNEL_NAME]; /* "function+0x10/0x40 [module]" */
};

struct ws_kernel_format { /* value of the map `format`, which the program must not be able to change
			   */
	char text[8];
};

enum ws_kernel_names_symbol {
	WS_KERNEL_NAMES_map_questions,
	WS_KERNEL_NAMES_map_format,
	WS_KERNEL_NAMES_SYMBOLS
};

#endif
