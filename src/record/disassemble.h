/*
 * disassemble.h - instructions of GPU code as text, by the CUDA toolkit's disassembler where the
 * machine has it. The code comes from the profiled program, so the disassembler runs as a process
 * of its own with bounded time, memory and output.
 */
#ifndef WS_RECORD_DISASSEMBLE_H
#define WS_RECORD_DISASSEMBLE_H

#include <stdbool.h>
#include <stdint.h>

/* The path of nvdisasm, from PATH, CUDA_HOME, CUDA_PATH or /usr/local/cuda; owned by the caller,
 * NULL when the machine has none. */
char *ws_find_disassembler(void);

/* Receives an instruction of a function (its mangled name) at an offset in bytes. */
typedef void (*ws_instruction_fn)(void *context, const char *function, uint64_t pc,
				  const char *text);
/* Disassemble the cubin in a file: the function of a symbol, by its number in the cubin's table, or
 * with 0 all of it, which takes seconds for a library's. NULL, or why that failed or took too long,
 * owned by the caller; what was understood by then has been handed over. */
char *ws_disassemble(const char *program, const char *cubin, uint32_t symbol,
		     ws_instruction_fn found, void *context);
/* Understand what the disassembler printed, a line. `function` (room for 4096) is the function that
 * the lines are in. */
void ws_read_disassembly(char *function, const char *line, ws_instruction_fn found, void *context);

#endif
