/*
 * cusparse.h - what the wrappers of cuSPARSE's functions keep of descriptors; used by
 * libraries/cusparse.calls.
 */
#ifndef WS_INJECT_CUSPARSE_H
#define WS_INJECT_CUSPARSE_H

#include "inject/library.h"

/* Of a sparse matrix, and the columns of a dense one; WS_LIBRARY_NONE for what is not known. */
struct ws_cusparse_sizes {
	int64_t rows, columns, nonzeros, n;
};

#pragma GCC visibility push(hidden)

/* The status of a call that failed. */
static inline int64_t ws_cusparse_error(int result)
{
	return result ? result : WS_LIBRARY_NONE;
}

/* `dense`: the result, or NULL for none. */
struct ws_cusparse_sizes ws_cusparse_read(void *sparse, void *dense);
/* The sizes of a sparse result; n: the columns of its dense left factor, or its rows if that is
 * transposed. */
struct ws_cusparse_sizes ws_cusparse_read_product(void *sparse, void *left, int operation);
/* Two operations for each element of the sparse matrix and column of the dense one; of complex
 * numbers eight. */
int64_t ws_cusparse_flops(int64_t nonzeros, int64_t n, int type);

#pragma GCC visibility pop

#endif
