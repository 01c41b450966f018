/*
 * kernel_code.h - the code of measured kernels: which source line, PTX and SASS an instruction
 * belongs to. The kernel hook keeps cubins in a folder, named by their checksums; each function
 * that instructions were measured of is read once, and written to the tables kernel_instruction
 * and kernel_text.
 */
#ifndef WS_RECORD_KERNEL_CODE_H
#define WS_RECORD_KERNEL_CODE_H

#include "store/store.h"

struct ws_kernel_code;

/* Texts are ids of the report's strings; 0: not known. */
struct ws_kernel_instruction {
	uint32_t sass, file, line;
};

struct ws_kernel_code *ws_kernel_code_new(const char *folder);
void ws_kernel_code_free(struct ws_kernel_code *code);
/* The instruction at an offset of a function, which is of the cubin with this checksum. All zero
 * when nothing is known. */
struct ws_kernel_instruction ws_kernel_code_find(struct ws_kernel_code *code,
						 struct ws_writer *writer, uint64_t cubin,
						 const char *function, uint64_t pc);
/* Why instructions of the function that was read last have no text, as a sentence, once; owned by
 * the caller, NULL when there is nothing to say. */
char *ws_kernel_code_complaint(struct ws_kernel_code *code, enum ws_severity *severity);

#endif
