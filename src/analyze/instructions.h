/*
 * instructions.h - machine code of x86-64, as far as rules need it: where instructions end, which
 * memory they use and by which registers, and what makes some of them slow.
 */
#ifndef WS_ANALYZE_INSTRUCTIONS_H
#define WS_ANALYZE_INSTRUCTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ws_instruction_kind {
	WS_INSTRUCTION_OTHER,
	WS_INSTRUCTION_JUMP,	 /* to `value`, always or not */
	WS_INSTRUCTION_LOAD,	 /* of a whole register */
	WS_INSTRUCTION_STEP,	 /* adds `value` to register `target`, or (none) to memory */
	WS_INSTRUCTION_STEP_BY,	 /* adds register `source` to register `target` */
	WS_INSTRUCTION_DIVISION, /* or a square root */
	WS_INSTRUCTION_FLOAT,	 /* arithmetic on one floating-point number */
};

enum { WS_NO_REGISTER = 255 };

struct ws_instruction {
	uint64_t at;
	uint8_t length, kind;
	bool memory; /* an operand lies in memory, at the sum of `base`, `index` and `distance` */
	bool writes; /* to that memory */
	bool atomic;
	bool calls;		    /* another function, or the kernel */
	bool exchanges;		    /* as taking a lock does, perhaps under a condition */
	bool relative;		    /* `distance` counts from the next instruction */
	uint8_t base, index, scale; /* registers: WS_NO_REGISTER for none */
	int32_t distance;
	uint8_t source, target; /* of LOAD, STEP, STEP_BY; `source` also of others that have one */
	uint8_t changed;	/* a general register that it may change; WS_NO_REGISTER for none */
	bool sets;		/* what `changed`, or the memory, held before does not matter */
	bool copies;		/* `source`, or the operand in memory, to there */
	uint8_t other;		/* the other register that it names; WS_NO_REGISTER for none */
	bool conditional;	/* of JUMP */
	int64_t value;
};

/* Understand the instruction at the beginning of `bytes`; false where it is not one, or unknown. */
bool ws_read_instruction(const uint8_t *bytes, size_t left, uint64_t at,
			 struct ws_instruction *out);

#endif
