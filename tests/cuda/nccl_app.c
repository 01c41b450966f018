/*
 * nccl_app.c - a program that communicates through NCCL, as the hooks see it: NCCL's ranges with
 * the payloads of version 2.28, and the launches of its kernels through the stand-in.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../nvtx/loader.h"
#include "standin.h"
#include "standin_nccl.h"

struct loader *loader_now;

enum { SCHEMA = 1 << 24, REDUCTION = SCHEMA + 15 };
enum { U64 = 18, INT = 5, SIZE = 22 };
enum { STREAM = 20 };

struct made {
	uint64_t communicator;
	int32_t ranks, rank, device;
};

struct moved {
	uint64_t communicator;
	size_t bytes;
	int32_t number, reduction; /* root or peer, as the schema says */
};

static struct loader loader;
static void *domain;

static const struct nx_schema_entry made_entries[] = {
	{0, U64, "NCCL communicator ID", NULL, 0, 0, NULL, NULL},
	{0, INT, "No. of ranks", NULL, 0, 8, NULL, NULL},
	{0, INT, "Rank", NULL, 0, 12, NULL, NULL},
	{0, INT, "CUDA device", NULL, 0, 16, NULL, NULL},
};
#define MOVED                                                           \
	{0, U64, "NCCL communicator ID", NULL, 0, 0, NULL, NULL},       \
	{                                                               \
		0, SIZE, "Message size [bytes]", NULL, 0, 8, NULL, NULL \
	}
static const struct nx_schema_entry gather_entries[] = {MOVED};
static const struct nx_schema_entry reduce_entries[] = {MOVED,
							{0, INT, "Root", NULL, 0, 16, NULL, NULL},
							{0, REDUCTION, "Reduction operation", NULL,
							 0, 20, NULL, NULL}};
static const struct nx_schema_entry all_reduce_entries[] = {
	MOVED, {0, REDUCTION, "Reduction operation", NULL, 0, 20, NULL, NULL}};
static const struct nx_schema_entry root_entries[] = {MOVED,
						      {0, INT, "Root", NULL, 0, 16, NULL, NULL}};
static const struct nx_schema_entry peer_entries[] = {
	MOVED, {0, INT, "Peer rank", NULL, 0, 16, NULL, NULL}};

static void register_schema(uint64_t id, const struct nx_schema_entry *entries, size_t count,
			    size_t size)
{
	const struct nx_schema schema = {
		.fields = NX_SCHEMA_TYPE | NX_SCHEMA_ENTRIES | NX_SCHEMA_COUNT | NX_SCHEMA_SIZE |
			  NX_SCHEMA_ID,
		.type = NX_SCHEMA_STATIC,
		.entries = entries,
		.count = count,
		.size = size,
		.id = SCHEMA + id,
	};

	EXT(&loader, NX_P_SCHEMA, uint64_t, (void *, const struct nx_schema *), domain, &schema);
}

static void push(const char *name, uint64_t schema, const void *bytes, size_t size)
{
	const struct nx_payload payload = {SCHEMA + schema, size, bytes};
	struct nx_event event = event_registered(DomainRegisterStringA(&loader, domain, name));

	if (bytes) {
		event.payload_type = NX_PAYLOAD_EXT;
		event.payload_count = 1;
		event.payload = (uint64_t)(uintptr_t)&payload;
	}
	DomainPushEx(&loader, domain, &event);
}

static void pop(void)
{
	DomainPop(&loader, domain);
}

/* ---- what NCCL's profiler plug-in is told ---- */

static struct plugin_communicator communicators[] = {
	{.hash = 0xfeed0001, .ranks = 4, .rank = 2},
	{.hash = 0xfeed0002, .ranks = 2, .rank = 1},
	{.hash = 0xfeed0003, .ranks = 1},
};
static struct plugin_operation asked[8];
static int asked_count, depth;

static void ask_plugin(const char *name, const struct moved *moved)
{
	if (moved->communicator == 0xfeed0003) /* a copy does it */
		return;
	asked[asked_count++] = (struct plugin_operation){
		.communicator = &communicators[moved->communicator - 0xfeed0001],
		.name = name + strlen("nccl"),
		.count = moved->bytes / 4,
		.number = moved->number,
	};
}

static void tell_plugin(void)
{
	if (plugin && !depth && asked_count)
		plugin_operations(asked, asked_count);
	if (!depth)
		asked_count = 0;
}

/* Until the time that the stand-in gives to launches has moved on. */
static void launch(const char *kernel)
{
	standin_launch(kernel, STREAM, 0);
}

/* The communicator is known when the range ends. */
static void make_communicator(uint64_t communicator, int ranks, int rank)
{
	const struct made made = {communicator, ranks, rank, 0};
	const struct nx_payload payload = {SCHEMA + 2, sizeof(made), &made};

	push("ncclCommInitRankConfig", 0, NULL, 0);
	EXT(&loader, NX_P_POP, int, (void *, const struct nx_payload *, size_t), domain, &payload,
	    1);
}

static void call(const char *name, uint64_t schema, struct moved moved, const char *kernel)
{
	push(name, schema, &moved, sizeof(moved));
	ask_plugin(name, &moved);
	tell_plugin();
	if (kernel)
		launch(kernel);
	pop();
}

static void group_start(void)
{
	push("ncclGroupStart", 0, NULL, 0);
	depth++;
	pop();
}

static void group_end(const char *kernel, const char *second)
{
	push("ncclGroupEnd", 0, NULL, 0);
	depth--;
	tell_plugin();
	if (kernel)
		launch(kernel);
	if (second)
		launch(second);
	pop();
}

#define ALL_REDUCE "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
#define BROADCAST "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
#define ALL_GATHER "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
#define REDUCE_SCATTER \
	"ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
#define REDUCE "ncclDevKernel_Reduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
#define SEND_RECV "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"

static void communicate(void)
{
	const uint64_t world = 0xfeed0001, pair = 0xfeed0002;

	for (int i = 0; plugin && i < 3; i++)
		plugin_init(&communicators[i]);
	make_communicator(world, 4, 2);
	make_communicator(pair, 2, 1);
	/* Alone, and in a group as PyTorch calls it: ncclGroupEnd launches. */
	call("ncclAllReduce", 5, (struct moved){world, 4096, 0, 4}, ALL_REDUCE);
	group_start();
	call("ncclAllReduce", 5, (struct moved){world, 1 << 20, 0, 0}, NULL);
	group_end(ALL_REDUCE, NULL);
	/* Three by one kernel; two by a kernel each, the larger first; two operations. */
	group_start();
	group_start();
	for (int i = 1; i <= 3; i++)
		call("ncclAllReduce", 5, (struct moved){world, 1000u * (unsigned)i, 0, 2}, NULL);
	group_end(NULL, NULL);
	group_end(ALL_REDUCE, NULL);
	group_start();
	call("ncclReduceScatter", 7, (struct moved){pair, 64, 0, 0}, NULL);
	call("ncclReduceScatter", 7, (struct moved){pair, 8192, 0, 0}, NULL);
	group_end(REDUCE_SCATTER, REDUCE_SCATTER);
	group_start();
	call("ncclBroadcast", 6, (struct moved){world, 512, 3, 0}, NULL);
	call("ncclAllGather", 4, (struct moved){world, 256, 0, 0}, NULL);
	group_end(ALL_GATHER, BROADCAST);
	group_start();
	call("ncclSend", 9, (struct moved){pair, 128, 0, 0}, NULL);
	call("ncclRecv", 10, (struct moved){pair, 160, 0, 0}, NULL);
	group_end(SEND_RECV, NULL);
	call("ncclReduce", 8, (struct moved){world, 32, 1, 3}, REDUCE);
	/* One rank alone: no kernel. Kernels of a graph: no call. */
	call("ncclAllReduce", 5, (struct moved){0xfeed0003, 16, 0, 9}, NULL);
	standin_graph_launch(ALL_REDUCE, 2);
	launch("_Z6vectorIfEvPT_S1_i");
	for (int i = 0; plugin && i < 3; i++)
		plugin->finalize(communicators[i].context);
}

/* As cuBLAS does: at level 1 what computes, at level 2 every call. */
static void multiply(void)
{
	const char *level = getenv("CUBLAS_NVTX_LEVEL");

	if (getenv("CUDNN_NVTX_LEVEL")) {
		domain = DomainCreateA(&loader, "cuDNN");
		push("cudnnBackendExecute", 0, NULL, 0);
		pop();
	}

	if (!level)
		return;
	domain = DomainCreateA(&loader, "cuBLAS");
	if (*level == '2') {
		push("cublasSetStream_v2", 0, NULL, 0);
		pop();
		push("cublasSgemm_v2", 0, NULL, 0);
	}
	push("cublasLtSSSMatmul", 0, NULL, 0);
	launch("_Z4gemmPf");
	pop();
	if (*level == '2')
		pop();
}

int main(void)
{
	void *hook = dlopen(getenv("NVTX_INJECTION64_PATH"), RTLD_NOW);

	cuInit(0);
	plugin_load();
	loader_init(&loader);
	if (hook && loader_attach(&loader, hook) == 1 &&
	    loader_attach_extension(&loader, hook, NX_EXT_PAYLOAD, 0x104) == 1) {
		domain = DomainCreateA(&loader, "NCCL");
		register_schema(2, made_entries, 4, sizeof(struct made));
		register_schema(4, gather_entries, 2, 16);
		register_schema(5, all_reduce_entries, 3, sizeof(struct moved));
		register_schema(6, root_entries, 3, sizeof(struct moved));
		register_schema(7, all_reduce_entries, 3, sizeof(struct moved));
		register_schema(8, reduce_entries, 4, sizeof(struct moved));
		register_schema(9, peer_entries, 3, sizeof(struct moved));
		register_schema(10, peer_entries, 3, sizeof(struct moved));
		communicate();
		multiply();
		RangePushA(&loader, "step");
		RangePop(&loader);
		return 0;
	}
	fprintf(stderr, "no hook\n");
	return 1;
}
