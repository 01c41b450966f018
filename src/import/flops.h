/* flops.h - floating-point operations of an operator, counted from the shapes of its inputs as the
 * PyTorch profiler counts them. */
#ifndef WS_IMPORT_FLOPS_H
#define WS_IMPORT_FLOPS_H

#include "text/json.h"

/*
 * `dims` is "Input Dims", `concrete` "Concrete Inputs" (either may be WS_J_NONE). Formulas, with a
 * multiplication and an addition as two operations: mm, addmm 2 M N K; bmm, baddbmm the same for
 * each of the batch; mul, add one for each element of the first input; conv2d 2 N Ho Wo kh kw Cin
 * Cout / groups. 0 for other operators, and when the shapes do not tell.
 */
uint64_t ws_flops(const char *name, size_t n, const struct ws_json_value *dims,
		  const struct ws_json_value *concrete);

#endif
