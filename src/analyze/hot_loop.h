/*
 * hot_loop.h - what the loop is bound by in which a thread spends its time, as its machine code and
 * the addresses of samples show it. Only for x86-64, and where the program's file is on this
 * machine and unchanged.
 */
#ifndef WS_ANALYZE_HOT_LOOP_H
#define WS_ANALYZE_HOT_LOOP_H

#include "analyze/loop_state.h"
#include "analyze/usage.h"
#include "symbols/elf.h"

enum ws_loop_kind {
	WS_LOOP_UNKNOWN,
	WS_LOOP_ATOMIC,	  /* atomic instructions */
	WS_LOOP_CHASE,	  /* reads at an address that it has just read */
	WS_LOOP_STRIDE,	  /* reads or writes far from where it did before */
	WS_LOOP_DIVISION, /* divisions or square roots */
	WS_LOOP_PLACE,	  /* reads and writes the same place in each round */
	WS_LOOP_FLOAT,	  /* arithmetic on single floating-point numbers */
};

struct ws_hot_loop {
	enum ws_loop_kind kind;
	int64_t step; /* of STRIDE, bytes from round to round; 0: the code has it in a register */
	bool writes;  /* to memory other than the stack, not as taking a lock does */
	struct ws_loop_state state;
	uint64_t bytes; /* of machine code */
	double share;	/* of the row's samples, at the instructions that `kind` is about */
};

/* Look at the code of a row of usage of the kind WS_USAGE_CODE. False where there is no loop, or
 * its code cannot be read. */
bool ws_look_at_loop(const struct ws_model *model, const struct ws_usage_row *row,
		     struct ws_hot_loop *loop);
/* Append the name of a variable that the loop reads; false where none is known. */
bool ws_put_asked_variable(const struct ws_model *model, const struct ws_usage_row *row,
			   const struct ws_hot_loop *loop, struct ws_text *text);

/* A stretch of code with the time of the samples at each of its bytes. */
struct ws_sampled_code {
	const uint8_t *bytes;
	size_t left;	    /* bytes that may be read */
	uint64_t from;	    /* address of the first */
	const uint64_t *ns; /* `size` of them */
	size_t size;
};
/* The same for code that the caller has read. */
bool ws_judge_loop(const struct ws_sampled_code *code, struct ws_hot_loop *loop);

#endif
