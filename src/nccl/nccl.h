/*
 * nccl.h - what NCCL was asked to do, and the kernels that did it.
 *
 * NCCL reports what it does through NVTX: each of its calls is a range in the domain "NCCL" whose
 * payload holds the communicator, the bytes, the root or peer and the reduction, laid out according
 * to a schema that NCCL registers. A call launches its kernel itself, or, inside a group, leaves
 * that to the ncclGroupEnd that closes the group, which may use one kernel for several calls. The
 * joiner of a process gets calls, launches and kernels, in any order, and puts rows of the table
 * `collective` that combine a call with its kernel.
 *
 * Payloads and schemas come from the profiled program: every read is checked against their
 * size.
 */
#ifndef WS_NCCL_H
#define WS_NCCL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "schema/schema.h"

#define WS_NCCL_DOMAIN "NCCL" /* the name of its NVTX domain */

/* The operation that a call asks for. */
enum ws_nccl_operation {
	WS_NCCL_NONE, /* of a kernel: it may do any operation; of a call: none of these */
	WS_NCCL_ALL_REDUCE,
	WS_NCCL_ALL_GATHER,
	WS_NCCL_REDUCE_SCATTER,
	WS_NCCL_BROADCAST,
	WS_NCCL_REDUCE,
	WS_NCCL_ALL_TO_ALL,
	WS_NCCL_GATHER,
	WS_NCCL_SCATTER,
	WS_NCCL_SEND,
	WS_NCCL_RECV,
	WS_NCCL_OPERATIONS
};

/* ---- kernel.c ---- */

/* What the name of an NCCL kernel says. */
struct ws_nccl_kernel_name {
	bool is_nccl;
	uint8_t operation; /* enum ws_nccl_operation; WS_NCCL_SEND: sends and receives */
	const char *type;  /* element type, as PyTorch calls it; NULL: not in the name */
};
struct ws_nccl_kernel_name ws_nccl_read_kernel_name(const char *name);

/* The name of an operation as rows have it, such as "AllReduce"; "" for none. */
const char *ws_nccl_name_operation(enum ws_nccl_operation operation);
/* An operation with its size, such as AllReduce 128 MiB. */
void ws_nccl_write_label(char *label, size_t room, const char *name, uint64_t bytes);

/* ---- join.c ---- */

/* One call of NCCL's interface: a range of its domain. */
struct ws_nccl_call {
	uint32_t thread;
	uint64_t start, end; /* session ns */
	const char *name;    /* the function, such as ncclAllReduce */
	size_t name_length;
	const void *payload; /* blobs as struct ws_nvtx_blob describes them; NULL: none */
	size_t payload_size;
};

struct ws_nccl_kernel {
	struct ws_nccl_kernel_name name;
	uint32_t correlation, device, context, stream;
	uint64_t node; /* of a CUDA graph, WS_NO_U64: none. The call was made when the graph was
			  captured. */
	uint64_t start, end; /* session ns */
};

/* How NCCL did an operation, as it tells its profiler plug-in. */
struct ws_nccl_choice {
	uint64_t number;	      /* of the event (column eventId of nccl_event) */
	uint64_t communicator;	      /* 0: not known */
	uint64_t start;		      /* when NCCL decided, session ns */
	int32_t rank, peer;	      /* -1: not known, or none */
	uint32_t algorithm, protocol; /* strings of the report; 0: not known */
	uint32_t channels;	      /* 0: not known */
	uint8_t operation;	      /* enum ws_nccl_operation */
	bool used;		      /* belongs to choice.c */
};

/* Where rows go. `row` need not be copied: the callee may change it. */
struct ws_nccl_out {
	void *ctx;
	uint32_t (*intern)(void *ctx, const char *text, size_t length);
	void (*put)(void *ctx, struct ws_row_collective *row);
};

struct ws_nccl; /* the joiner of one process */

/* Never fails. Free with ws_nccl_free; rows that have not been put by then are lost. */
struct ws_nccl *ws_nccl_new(void);
void ws_nccl_free(struct ws_nccl *nccl);

/* Adds an entry of a schema of NCCL's domain. `schema` and the rest are as NVTX has them. */
void ws_nccl_define_entry(struct ws_nccl *nccl, uint64_t schema, const char *name, uint64_t type,
			  uint64_t offset);
/* A call has ended. Calls of one thread come in the order of their ends. */
void ws_nccl_add_call(struct ws_nccl *nccl, const struct ws_nccl_call *call);
/* A call of CUDA that launches kernels began. */
void ws_nccl_add_launch(struct ws_nccl *nccl, uint32_t thread, uint32_t correlation,
			uint64_t start);
/* A kernel was added to a CUDA graph, or copied from the node `original` (0: not copied) into
 * another graph, `start` as for launches. */
void ws_nccl_add_node(struct ws_nccl *nccl, uint32_t thread, uint64_t node, uint64_t original,
		      uint64_t start);
/* A kernel of NCCL's has finished. */
void ws_nccl_add_kernel(struct ws_nccl *nccl, const struct ws_nccl_kernel *kernel);
/* NCCL decided how to do an operation. From then on, rows wait for what was decided. */
void ws_nccl_add_choice(struct ws_nccl *nccl, const struct ws_nccl_choice *choice);
/* The operation with this name, such as AllReduce; WS_NCCL_NONE for others. */
enum ws_nccl_operation ws_nccl_find_operation(const char *name, size_t length);
/* Put the rows of complete batches, or of all batches with `all`: calls whose kernels never came
 * then get rows without kernels. */
void ws_nccl_put_rows(struct ws_nccl *nccl, const struct ws_nccl_out *out, bool all);

/* ---- payload.c ---- */

/* The layouts of payloads, by schema. Zero-initialise; free with ws_nccl_free_schemas. */
struct ws_nccl_schemas {
	struct ws_nccl_schema *schemas;
	size_t count, capacity;
};

/* The fields that a payload may have. */
struct ws_nccl_facts {
	uint32_t known; /* bits 1 << enum ws_nccl_field */
	uint64_t values[8];
};
enum ws_nccl_field {
	WS_NCCL_COMMUNICATOR,
	WS_NCCL_BYTES,
	WS_NCCL_REDUCTION,
	WS_NCCL_ROOT,
	WS_NCCL_PEER,
	WS_NCCL_RANKS,
	WS_NCCL_RANK,
	WS_NCCL_DEVICE,
};

void ws_nccl_add_schema_entry(struct ws_nccl_schemas *schemas, uint64_t schema, const char *name,
			      uint64_t type, uint64_t offset);
void ws_nccl_free_schemas(struct ws_nccl_schemas *schemas);
struct ws_nccl_facts ws_nccl_read_payload(const struct ws_nccl_schemas *schemas,
					  const void *payload, size_t size);
static inline bool ws_nccl_knows(const struct ws_nccl_facts *facts, enum ws_nccl_field field)
{
	return facts->known >> field & 1;
}

#endif
