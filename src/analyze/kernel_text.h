/* kernel_text.h - what the source of a kernel shows that its launches do not: atomic operations of
 * all its threads on one address, and accesses of neighbouring threads that lie apart. */
#ifndef WS_ANALYZE_KERNEL_TEXT_H
#define WS_ANALYZE_KERNEL_TEXT_H

#include <stdbool.h>
#include <stdint.h>

struct ws_kernel_atomic {
	uint32_t line;
	char function[24]; /* "atomicAdd" */
	char target[64];   /* "sum", as the source has it */
	bool one_address;  /* the same for all threads */
};

/*
 * The first atomic operation in a kernel's body whose address is the same for all threads: a
 * parameter of the kernel or a variable outside it, as it is or with a constant index; where there
 * is none, the first on another place in what a parameter points to. Those that only some threads
 * do (if (threadIdx.x == 0)) do not count. False where there is none, the file does not define the
 * kernel, cannot be read or was changed after `until` (nanoseconds since 1970).
 */
bool ws_find_kernel_atomic(const char *path, const char *kernel, uint64_t until,
			   struct ws_kernel_atomic *out);

struct ws_kernel_stride {
	uint32_t line;
	char access[64]; /* "in[x * height + y]", as the source has it */
	char type[40];	 /* of a structure, few of whose values are used; "": a multiplied index */
	uint32_t used, values;
};

/*
 * The first access of a kernel to what a parameter points to that lies apart in neighbouring
 * threads: its index has a multiple of threadIdx.x or of a variable made from it, or it is of
 * structures of which half of the values or fewer are used. False as above.
 */
bool ws_find_kernel_stride(const char *path, const char *kernel, uint64_t until,
			   struct ws_kernel_stride *out);

#endif
