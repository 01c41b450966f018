/*
 * facts.h - the calls, copies and kernels within the window, counted once for all rules.
 */
#ifndef WS_ANALYZE_FACTS_H
#define WS_ANALYZE_FACTS_H

#include "analyze/code.h"
#include "analyze/kernel_kinds.h"
#include "analyze/model.h"

enum { WS_SMALL_COPY_BYTES = 65536, WS_SHORT_KERNEL_NS = 10000 };

/* Calls of one function of CUDA. */
struct ws_call_fact {
	uint32_t name; /* string, with its version */
	uint64_t count, ns;
	struct ws_code_place place; /* place that most of their time was called from */
	uint64_t place_ns;	    /* time of the calls known to be from there */
	struct ws_span longest;
};

enum ws_copy_direction { WS_TO_DEVICE, WS_TO_HOST, WS_BETWEEN, WS_MIGRATED, WS_DIRECTIONS };
const char *ws_name_direction(enum ws_copy_direction direction); /* "to the GPU"... */

struct ws_copy_fact {
	uint64_t count, bytes, ns;
	uint64_t small, small_ns; /* of copies smaller than WS_SMALL_COPY_BYTES */
	uint64_t synchronous,
		synchronous_ns; /* of copies by calls that return when the copy is done */
	struct ws_span longest;
};

struct ws_kernel_fact {
	uint32_t name, demangled;  /* strings */
	uint64_t count, ns, brief; /* brief: less than WS_SHORT_KERNEL_NS */
	uint64_t blocks;	   /* of the longest run */
	uint64_t threads;	   /* threads per block, of the longest run */
	double occupancy, waves;   /* of the longest run; 0 when not known */
	uint8_t limiter;
	/* Registers per thread, bytes per block and local memory per thread; of the longest run. */
	uint32_t registers, shared, local;
	uint64_t reserved; /* local memory for all threads that fit on the GPU, bytes */
	struct ws_span longest;
};

/* GPU code that was generated or loaded while the program ran. */
struct ws_compile_fact {
	uint64_t count, ns; /* compiled just in time, and functions loaded when first used */
	struct ws_span longest;
};

struct ws_facts {
	struct ws_call_fact *calls; /* by time, most first */
	size_t call_count, call_cap;
	struct ws_copy_fact copies[WS_DIRECTIONS][2]; /* [1]: pageable memory of the host */
	struct ws_kernel_fact *kernels;		      /* by time, most first */
	size_t kernel_count, kernel_cap;
	struct ws_kernel_kind_fact kinds[WS_KERNEL_KINDS];
	uint64_t memsets, memset_ns, memset_bytes;
	struct ws_span longest_memset;
	uint64_t kernel_instances, kernel_ns, brief_kernels;
	uint64_t graph_launches, graph_ns; /* of graphs that were recorded as wholes */
	uint64_t streams;		   /* that kernels ran in */
	uint64_t multiprocessors;	   /* of the first GPU; 0 when not known */
	uint64_t resident;		   /* threads that fit on it at once; 0 when not known */
	uint64_t capability;	 /* compute capability of the first GPU, times ten; 0: unknown */
	uint64_t modules_loaded; /* within the window */
	uint64_t debug_modules;	 /* compiled for a debugger, without optimisation (nvcc -G) */
	struct ws_compile_fact compile;
	/* Processes that load data for the one that is explained: the most at once, and how many
	 * were started within the window. */
	uint64_t loader_workers, loader_starts;
};

/* Count. Free with ws_facts_free. */
void ws_facts_count(const struct ws_model *model, struct ws_facts *facts);
void ws_facts_free(struct ws_facts *facts);
/*
 * The calls whose name, without its version, is one of `names` (NULL-terminated) or begins with one
 * that ends with '*': `sum` gets their sum, and the place of the longest of them. False when there
 * is none.
 */
bool ws_facts_sum_calls(const struct ws_model *model, const struct ws_facts *facts,
			const char *const *names, struct ws_call_fact *sum);

/* Whether a name of `length` bytes is one of `names` (NULL-terminated), or begins with one of them
 * that ends with '*', the star left out. */
bool ws_is_name_among(const char *name, size_t length, const char *const *names);

#endif
