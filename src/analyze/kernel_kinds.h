/*
 * kernel_kinds.h - kernels of which the name says what they do: move or convert data, or compute in
 * double precision. They are told apart by their full names, since a framework gives the same short
 * one to many.
 */
#ifndef WS_ANALYZE_KERNEL_KINDS_H
#define WS_ANALYZE_KERNEL_KINDS_H

#include "analyze/code.h"
#include "analyze/model.h"
#include "base/map.h"

enum ws_kernel_kind {
	WS_KERNEL_OTHER,
	WS_KERNEL_MOVES,  /* a framework's or library's kernel that copies, transposes or casts */
	WS_KERNEL_DOUBLE, /* computes in double precision */
	WS_KERNEL_UNALIGNED, /* a product of matrices whose rows do not begin at 16 bytes */
	WS_KERNEL_KINDS
};

/* All kernels of a kind in the window. */
struct ws_kernel_kind_fact {
	uint64_t count, ns;
	uint32_t name; /* full name (string) of the one with the longest run */
	struct ws_span longest;
};

/* What is known while kernels are counted; zero it before use. */
struct ws_kind_counter {
	struct ws_map kinds; /* full name: enum ws_kernel_kind + 1 */
};

/* Count one run of a kernel with the full name `name`, a string. */
void ws_kernel_kinds_count(const struct ws_model *model, struct ws_kind_counter *counter,
			   uint32_t name, struct ws_span run,
			   struct ws_kernel_kind_fact facts[WS_KERNEL_KINDS]);
void ws_kind_counter_free(struct ws_kind_counter *counter);

/* The calls that launched kernels of a kind within the window: rows of model->calls, plus 1. Reads
 * all kernels again. */
void ws_kernel_kind_calls(const struct ws_model *model, enum ws_kernel_kind kind,
			  struct ws_map *calls);

#endif
