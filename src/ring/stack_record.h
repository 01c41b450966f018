/*
 * stack_record.h - what hooks write so that the recorder can unwind the stack of a traced call:
 * registers and a copy of the stack, in one or more records that come directly before the call's
 * own record in the same ring; and the process's address map, once.
 */
#ifndef WS_RING_STACK_RECORD_H
#define WS_RING_STACK_RECORD_H

#include "ring/record.h"

#if defined(__x86_64__)
/* In this order: ip sp bp bx r12 r13 r14 r15, by their DWARF numbers. */
#define WS_STACK_REGS 8
#define WS_STACK_REG_NUMBERS                \
	{                                   \
		16, 7, 6, 3, 12, 13, 14, 15 \
	}
#else
/* pc sp x29 x30 x19..x28 */
#define WS_STACK_REGS 14
#define WS_STACK_REG_NUMBERS                                           \
	{                                                              \
		32, 31, 29, 30, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28 \
	}
#endif

enum ws_stack_of { WS_STACK_OF_OSRT = 1, WS_STACK_OF_CUDA = 2, WS_STACK_OF_SAMPLE = 3 };
#define WS_STACK_LAST 0x100 /* in rec.small: no further piece follows */

struct ws_rec_stack {	   /* always in the long form */
	struct ws_rec rec; /* small: enum ws_stack_of and WS_STACK_LAST */
	uint64_t key;	   /* start of the call in ticks; for CUDA its correlation */
	uint64_t time;	   /* ticks, when it was copied */
	uint64_t regs[WS_STACK_REGS];
	uint32_t offset, bytes; /* bytes of this piece; the copy starts at the stack pointer */
	char stack[];
};
#define WS_STACK_PIECE 10240u
#define WS_STACK_MOST 65536u /* bytes copied of one stack */

struct ws_rec_maps { /* long form; small: 1 when more follows */
	struct ws_rec rec;
	uint64_t time; /* ticks; since when the differences from an earlier map apply */
	uint32_t bytes;
	uint32_t changed; /* libraries were unloaded at that time; otherwise nothing was known there
			     before */
	char text[];	  /* executable lines of /proc/self/maps */
};

#endif
