/* flops.h - floating-point operations of an operator, counted from the shapes of its inputs as the
 * PyTorch profiler counts them. */
#ifndef WS_IMPORT_FLOPS_H
#define WS_IMPORT_FLOPS_H

#include "text/json.h"

/*
 * `dims` is "Input Dims", `concrete` "Concrete Inputs"; the type of either may be WS_JSON_NONE. A
 * multiplication with its addition counts as two operations: mm and addmm are 2 M N K; bmm and
 * baddbmm are the same for each matrix of the batch; mul and add are one for each element of the
 * first input; conv2d is 2 N Ho Wo kh kw Cin Cout / groups. Returns 0 for other operators, and when
 * the shapes are not known.
 */
uint64_t ws_count_flops(const char *name, size_t n, const struct ws_json_value *dims,
			const struct ws_json_value *concrete);

#endif
