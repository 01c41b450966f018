/* cusolver.h - how much work cuSOLVER's calls are; used by libraries/cusolver.calls. */
#ifndef WS_INJECT_CUSOLVER_H
#define WS_INJECT_CUSOLVER_H

#include "inject/library.h"

/* The status of a call that failed. */
static inline int64_t ws_cusolver_error(int result)
{
	return result ? result : WS_LIBRARY_NONE;
}

/* Operations as LAPACK's users count them, by the leading terms; those of complex numbers count
 * four times. */
static inline int64_t ws_cusolver_round_flops(double flops, int type)
{
	if (type >= 4 && type <= 6)
		flops *= 4;
	if (flops < 0 || flops > 9e18)
		return WS_LIBRARY_NONE;
	return (int64_t)(flops + 0.5);
}

static inline int64_t ws_cusolver_lu_flops(int64_t m, int64_t n, int type)
{
	double rows = (double)m, columns = (double)n, least = m < n ? rows : columns;

	return ws_cusolver_round_flops(2 * rows * columns * least -
					       (rows + columns) * least * least +
					       2 * least * least * least / 3,
				       type);
}

static inline int64_t ws_cusolver_cholesky_flops(int64_t n, int type)
{
	return ws_cusolver_round_flops((double)n * (double)n * (double)n / 3, type);
}

static inline int64_t ws_cusolver_qr_flops(int64_t m, int64_t n, int type)
{
	double most = (double)(m > n ? m : n), least = (double)(m > n ? n : m);

	return ws_cusolver_round_flops(2 * least * least * (most - least / 3), type);
}

static inline int64_t ws_cusolver_solve_flops(int64_t n, int64_t columns, int type)
{
	return ws_cusolver_round_flops(2 * (double)n * (double)n * (double)columns, type);
}

#endif
