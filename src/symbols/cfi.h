/*
 * cfi.h - call frame information of an ELF file: how to find a function's caller from any address
 * in it.
 *
 * Reads .eh_frame through the binary search table of .eh_frame_hdr; where a file has no table, and
 * for .debug_frame, all entries are read once and sorted. It reads only the mapped file, allocates
 * little, and refuses whatever is not consistent.
 */
#ifndef WS_SYMBOLS_CFI_H
#define WS_SYMBOLS_CFI_H

#include "symbols/elf.h"
#include "symbols/regs.h"

enum ws_cfi_kind {
	WS_CFI_SAME = 0, /* it still holds the caller's value; also when nothing is said about it */
	WS_CFI_UNDEFINED,
	WS_CFI_OFFSET,	   /* saved at CFA + offset */
	WS_CFI_VALUE,	   /* its value is CFA + offset */
	WS_CFI_REGISTER,   /* its value is in register `offset` */
	WS_CFI_EXPRESSION, /* saved at the address that the expression gives */
	WS_CFI_VALUE_EXPRESSION,
};

struct ws_cfi_rule {
	uint8_t kind;
	uint16_t size; /* of the expression, bytes */
	int64_t offset;
	const uint8_t *code; /* the expression: in the mapped file */
};

struct ws_cfi_row {
	uint8_t cfa_kind; /* WS_CFI_VALUE: register cfa_register + cfa.offset; or
			     WS_CFI_VALUE_EXPRESSION */
	uint8_t cfa_register;
	bool signal; /* a signal handler returns here: the caller was interrupted, it did not call
		      */
	bool debug;  /* from .debug_frame */
	uint16_t return_register;
	uint64_t begin; /* where the function begins */
	struct ws_cfi_rule cfa;
	struct ws_cfi_rule reg[WS_REGS];
};

/* Open the information of a file; NULL when it has none. `elf` must stay open, and may be a
 * separate debug file, for .debug_frame. */
struct ws_cfi *ws_cfi_new(const struct ws_elf *elf);
void ws_cfi_free(struct ws_cfi *cfi);
/* Find the rules at an address of the file; false when it has none there. */
bool ws_cfi_find(struct ws_cfi *cfi, uint64_t address, struct ws_cfi_row *row);
/* Whether its functions keep frame pointers. Looks at some dozens of them. */
bool ws_cfi_keeps_fp(struct ws_cfi *cfi);

/* The thread that an expression is evaluated for. */
struct ws_cfi_thread {
	const struct ws_regs *regs;
	/* Gives `bytes` bytes at an address of its memory, or false when they are not available. */
	bool (*read)(void *ctx, uint64_t address, unsigned bytes, uint64_t *value);
	void *ctx;
};

/* Evaluate a DWARF expression. *first, if not NULL, is on the stack at the beginning. False when
 * the expression cannot be evaluated. */
bool ws_cfi_evaluate(const uint8_t *code, size_t size, const struct ws_cfi_thread *thread,
		     const uint64_t *first, uint64_t *result);

#endif
