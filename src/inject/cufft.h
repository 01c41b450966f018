/*
 * cufft.h - what the wrappers of cuFFT's functions keep; used by libraries/cufft.calls. A transform
 * call takes only a plan, so sizes are noted when plans are made.
 */
#ifndef WS_INJECT_CUFFT_H
#define WS_INJECT_CUFFT_H

#include "inject/library.h"

enum ws_cufft_field {
	WS_CUFFT_X,
	WS_CUFFT_Y,
	WS_CUFFT_Z,
	WS_CUFFT_BATCH,
	WS_CUFFT_TYPE,
	WS_CUFFT_FLOPS,
	WS_CUFFT_BYTES,
	WS_CUFFT_FIELDS
};

struct ws_cufft_sizes {
	int64_t x, y, z; /* 0: the plan has no such dimension */
};
#define WS_CUFFT_SIZES(x, y, z) ((struct ws_cufft_sizes){(x), (y), (z)})

#pragma GCC visibility push(hidden)

/* A plan was created, unless `result` is an error. */
void ws_cufft_note(int result, int plan, struct ws_cufft_sizes sizes, int type, int64_t batch);
static inline void ws_cufft_note_xt(int result, int plan, int rank, const long long *sizes,
				    int type, int64_t batch);
/* The first three of `rank` dimensions. */
struct ws_cufft_sizes ws_cufft_read_sizes(int rank, const int *sizes);
struct ws_cufft_sizes ws_cufft_read_long_sizes(int rank, const long long *sizes);
/* The cufftType for a pair of data types, or a number of our own if there is none. */
int ws_cufft_type(int input, int output);
/* What is known of a plan. */
int64_t ws_cufft_get(int plan, enum ws_cufft_field field);
/* The status of a call that failed. */
static inline int64_t ws_cufft_error(int result)
{
	return result ? result : WS_LIBRARY_NONE;
}

static inline void ws_cufft_note_xt(int result, int plan, int rank, const long long *sizes,
				    int type, int64_t batch)
{
	ws_cufft_note(result, plan, ws_cufft_read_long_sizes(rank, sizes), type, batch);
}

#pragma GCC visibility pop

#endif
