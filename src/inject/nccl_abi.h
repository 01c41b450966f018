/*
 * nccl_abi.h - the interface between NCCL and a profiler plug-in, as far as it is used here: the
 * versions 1 to 5, which NCCL 2.23 to 2.28 and later speak. NCCL looks for ncclProfiler_v5, then
 * for the older ones, in the library that NCCL_PROFILER_PLUGIN names.
 *
 * A plug-in is told when an event begins (with a description), when its state changes and when it
 * ends. It gives each event a handle; events refer to the one that they are part of by its handle.
 */
#ifndef WS_INJECT_NCCL_ABI_H
#define WS_INJECT_NCCL_ABI_H

#include <stddef.h>
#include <stdint.h>

enum ws_nccl_abi_state {
	WS_NCCL_STATE_SENT = 2,	    /* of a proxy operation, up to version 3 */
	WS_NCCL_STATE_RECEIVED = 5, /* likewise */
	WS_NCCL_STATE_SEND_GPU_WAIT = 8,
	WS_NCCL_STATE_SEND_WAIT = 9,
	WS_NCCL_STATE_RECV_WAIT = 10,
	WS_NCCL_STATE_RECV_FLUSH_WAIT = 11,
	WS_NCCL_STATE_RECV_GPU_WAIT = 12,
	WS_NCCL_STATE_IDLE = 13,
	WS_NCCL_STATE_APPEND_END = 18,
	WS_NCCL_STATE_SEND_PEER_WAIT = 20,
	WS_NCCL_STATE_CHANNEL_STOP = 22
};

/* What all versions begin with. Up to version 4, only the first byte of `type` is set. */
struct ws_nccl_abi_head {
	uint64_t type;
	void *parent;
	int rank;
};

struct ws_nccl_abi_collective_v1 {
	struct ws_nccl_abi_head head;
	const char *name;
	uint64_t hash, sequence;
	uint8_t function;
	const void *send;
	void *receive;
	size_t count;
	int root;
	uint8_t type;
	uint32_t reduction;
	size_t traffic;
	uint8_t channels, warps, algorithm, protocol;
	int is_collnet, is_nvls;
};

struct ws_nccl_abi_collective_v2 {
	struct ws_nccl_abi_head head;
	const char *name;
	uint64_t hash, sequence;
	const char *function;
	const void *send;
	void *receive;
	size_t count;
	int root;
	const char *type;
	size_t traffic;
	uint8_t channels, warps;
	const char *algorithm, *protocol;
};

struct ws_nccl_abi_collective_v3 {
	struct ws_nccl_abi_head head;
	const char *name;
	uint64_t hash, sequence;
	const char *function;
	const void *send;
	void *receive;
	size_t count;
	int root;
	const char *type;
	uint8_t channels, warps;
	const char *algorithm, *protocol;
};

/* Versions 4 and 5; the latter has one more pointer at its end. */
struct ws_nccl_abi_collective_v4 {
	struct ws_nccl_abi_head head;
	uint64_t sequence;
	const char *function;
	const void *send;
	void *receive;
	size_t count;
	int root;
	const char *type;
	uint8_t channels, warps;
	const char *algorithm, *protocol;
};

struct ws_nccl_abi_p2p_v1 {
	struct ws_nccl_abi_head head;
	const char *name;
	uint64_t hash;
	uint8_t function;
	void *buffer;
	uint8_t type;
	size_t count;
	int peer;
};

struct ws_nccl_abi_p2p_v2 { /* and version 3 */
	struct ws_nccl_abi_head head;
	const char *name;
	uint64_t hash;
	const char *function;
	void *buffer;
	const char *type;
	size_t count;
	int peer;
};

struct ws_nccl_abi_p2p_v4 { /* and version 5, as above */
	struct ws_nccl_abi_head head;
	const char *function;
	void *buffer;
	const char *type;
	size_t count;
	int peer;
	uint8_t channels;
};

struct ws_nccl_abi_proxy_op {
	struct ws_nccl_abi_head head;
	int pid; /* of the process whose event `parent` is */
	uint8_t channel;
	int peer, steps, chunk, is_send;
};

struct ws_nccl_abi_proxy_step {
	struct ws_nccl_abi_head head;
	int step;
};

struct ws_nccl_abi_channel { /* `gpu_start` from version 4 on */
	struct ws_nccl_abi_head head;
	uint8_t channel;
	uint64_t gpu_start; /* of the GPU's global timer: ns since 1970 */
};

struct ws_nccl_abi_network {
	struct ws_nccl_abi_head head;
	int64_t id; /* kind of plug-in << 16 | version of `data` */
	void *data;
};

enum ws_nccl_abi_network_kind { WS_NCCL_NETWORK_IB = 1, WS_NCCL_NETWORK_SOCKET = 2 };

struct ws_nccl_abi_ib_event { /* version 1 */
	uint8_t type;
	_Alignas(8) int device;
	uint64_t request;
	int opcode, queue_pair;
	size_t length;
};

struct ws_nccl_abi_socket_event { /* version 1 */
	uint8_t type;
	_Alignas(8) int descriptor;
	int operation;
	size_t length;
};

/* What comes with a change of state, by version and state. */
union ws_nccl_abi_details {
	size_t bytes; /* of a step; up to version 3, of an operation */
	int appended; /* operations that the proxy has got */
	uint64_t gpu_end;
};

typedef void ws_nccl_abi_log(int level, unsigned long flags, const char *file, int line,
			     const char *format, ...);

/* All versions have these five functions, and differ in what `init` and descriptions look like. A
 * function returns 0. */
struct ws_nccl_abi_plugin {
	const char *name;
	void *init;
	int (*start)(void *context, void **handle, void *description);
	int (*stop)(void *handle);
	int (*set_state)(void *handle, int state, union ws_nccl_abi_details *details);
	int (*finalize)(void *context);
};

#endif
