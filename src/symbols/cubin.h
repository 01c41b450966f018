/*
 * cubin.h - GPU code as CUDA loads it (an ELF file): its functions, and for each instruction its
 * source line, the inlined calls around it and its line of PTX.
 *
 * The line tables are DWARF's of version 2 to 4 with NVIDIA's extension for inlined functions:
 * every row may name the row of its call. Their addresses count from the beginning of the function,
 * which a relocation names. Cubins come from the profiled program: every offset is checked.
 */
#ifndef WS_SYMBOLS_CUBIN_H
#define WS_SYMBOLS_CUBIN_H

#include "symbols/elf.h"

struct ws_gpu_code {
	struct ws_elf elf;
	struct ws_gpu_code_table *lines, *ptx_lines; /* NULL where there is none */
	char **ptx;				     /* the lines of its PTX, from line 1 at [0] */
	size_t ptx_count;
	uint8_t *owned[4]; /* unpacked sections that the tables point into */
};

struct ws_gpu_code_row {
	uint64_t pc;	      /* offset in the section of the function, bytes */
	uint32_t file;	      /* number in the table; 0: none */
	uint32_t line;	      /* 0: no line */
	uint32_t context;     /* number of the row of the call, from 1; 0: not inlined */
	const char *function; /* the inlined function, mangled; "" where it is not inlined */
};

struct ws_gpu_code_file {
	const char *folder, *name; /* in the cubin */
};

/* A function, which its own section holds. */
struct ws_gpu_code_function {
	char *name;
	uint32_t section;
	uint64_t bytes; /* of code */
	/* In the order of the table, as `context` counts them; the last ends the function. */
	struct ws_gpu_code_row *rows, *ptx_rows;
	size_t row_count, ptx_row_count;
	struct ws_gpu_code_file *files; /* of the rows; number 1 is the first */
	size_t file_count;
	const struct ws_gpu_code *cubin;
};

/* Open a cubin in memory, which must stay until it is closed. 0, or -1 with a message. */
int ws_gpu_code_open(struct ws_gpu_code *cubin, const void *data, size_t size, struct ws_err *err);
void ws_gpu_code_close(struct ws_gpu_code *cubin);

/* Find a function by its mangled name; false when the cubin does not have it. Call
 * ws_gpu_code_free_function afterwards. */
bool ws_gpu_code_find_function(const struct ws_gpu_code *cubin, const char *name,
			       struct ws_gpu_code_function *out);
void ws_gpu_code_free_function(struct ws_gpu_code_function *function);

/* The number of the function's symbol in the cubin's table of symbols; 0 when it has none. */
uint32_t ws_gpu_code_find_symbol(const struct ws_gpu_code_function *function);
/* The row of the instruction at `pc`; NULL when no line is known. */
const struct ws_gpu_code_row *ws_gpu_code_find_row(const struct ws_gpu_code_function *function,
						   uint64_t pc);
/* The row of the call that inlined what `row` belongs to; NULL when it is not inlined. */
const struct ws_gpu_code_row *ws_gpu_code_find_caller(const struct ws_gpu_code_function *function,
						      const struct ws_gpu_code_row *row);
/* Its line in cubin->ptx, from 1; 0 when not known. */
uint32_t ws_gpu_code_find_ptx(const struct ws_gpu_code_function *function, uint64_t pc);
/* The path of a row's file; owned by the caller, "" where none is known. */
char *ws_gpu_code_file_name(const struct ws_gpu_code_function *function,
			    const struct ws_gpu_code_row *row);
/* The lines of PTX that make up the function: from *first to *last, counted from 1. False when
 * there are none. */
bool ws_gpu_code_find_ptx_range(const struct ws_gpu_code *cubin, const char *name, uint32_t *first,
				uint32_t *last);

#endif
