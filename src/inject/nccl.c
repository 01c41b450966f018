/*
 * nccl.c - the deep trace of NCCL: a profiler plug-in that NCCL loads itself, because the recorder
 * names it in NCCL_PROFILER_PLUGIN. It has all versions of the interface that are described in
 * nccl_abi.h; NCCL takes the newest that it knows.
 *
 * An event is kept in a slot while it lasts and becomes one record when it is over. Slots are used
 * in turn, so what an event was can still be read for a while after its end: operations of the
 * proxy begin when the call that they belong to has long returned. Nothing here takes a lock. If
 * all slots are in use, the event gets no handle and is counted as lost.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "base/choose.h"
#include "base/compiler.h"
#include "inject/nccl_abi.h"
#include "inject/rt.h"
#include "ring/nccl_record.h"
#include "schema/nccl.h"

enum {
	SLOTS = 1 << 15,
	TRIES = 64, /* slots that are looked at for a free one */
	COMMUNICATORS = 512,
	NAME_ROOM = 64,
	VERSIONS = 5
};

struct nccl_slot {
	_Atomic uint64_t number; /* the handle; 0: never used, or being filled */
	_Atomic bool open;
	uint8_t kind, flags, channel, channels, warps, network, wait;
	uint64_t start, changed; /* ticks; changed: when the state `wait` began */
	uint64_t parent, operation, communicator, sequence, count;
	_Atomic uint64_t bytes;
	uint64_t gpu_start, gpu_end;
	_Atomic uint64_t waits[WS_NCCL_WAITS];
	const char *function, *type, *algorithm, *protocol;
	const struct nccl_communicator *owner;
	int32_t rank, peer, steps, chunk, state;
};

struct nccl_communicator { /* what a context points to */
	uint64_t hash;
	uint32_t ranks, nodes;
	int32_t rank;
	bool knows_rank;
	char name[NAME_ROOM];
};

static struct nccl_slot *_Atomic slots;
static _Atomic uint64_t numbers;
static struct nccl_communicator communicators[COMMUNICATORS]; /* the first is for those that find
								 no place */
static _Atomic uint32_t communicator_count;

/* ---- names that version 1 has as numbers ---- */

#define NAME(list, number) name_number(list, WS_COUNT(list), number)

static const char *name_number(const char *const *names, size_t count, unsigned number)
{
	return number < count ? names[number] : NULL;
}

static const char *const functions[] = {"Broadcast", "Reduce",	 "AllGather", "ReduceScatter",
					"AllReduce", "SendRecv", "Send",      "Recv"};
static const char *const algorithms[] = {
	"TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};
static const char *const protocols[] = {"LL", "LL128", "SIMPLE"};
static const char *const types[] = {"Int8",    "Uint8",	   "Int32",	 "Uint32",
				    "Int64",   "Uint64",   "Float16",	 "Float32",
				    "Float64", "Bfloat16", "Float8e4m3", "Float8e5m2"};

/* ---- slots ---- */

static struct nccl_slot *get_slots(void)
{
	struct nccl_slot *there = atomic_load_explicit(&slots, memory_order_acquire), *made;

	if (ws_likely(there != NULL))
		return there;
	made = (struct nccl_slot *)ws_raw_syscall(SYS_mmap, 0, SLOTS * sizeof(*made),
						  PROT_READ | PROT_WRITE,
						  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
						  0);
	if ((long)made <= 0)
		return NULL;
	if (atomic_compare_exchange_strong(&slots, &there, made))
		return made;
	ws_raw_syscall(SYS_munmap, (long)made, SLOTS * sizeof(*made), 0, 0, 0, 0);
	return there;
}

/* A slot for a new event, with its number; NULL when there is none. It is not open yet. */
static struct nccl_slot *claim_slot(uint64_t *number)
{
	struct nccl_slot *all = get_slots();

	for (int i = 0; all && i < TRIES; i++) {
		uint64_t count = atomic_fetch_add_explicit(&numbers, 1, memory_order_relaxed) + 1;
		struct nccl_slot *slot = &all[count % SLOTS];
		bool is_open = false;

		if (!atomic_compare_exchange_strong(&slot->open, &is_open, true))
			continue;
		*number = count;
		atomic_store_explicit(&slot->number, 0, memory_order_release);
		return slot;
	}
	return NULL;
}

/* The slot of an event that may be over; NULL when it has been used again. */
static struct nccl_slot *find_slot(const void *handle)
{
	struct nccl_slot *all = atomic_load_explicit(&slots, memory_order_acquire);
	uint64_t number = (uintptr_t)handle;
	struct nccl_slot *slot;

	if (!handle || !all)
		return NULL;
	slot = &all[number % SLOTS];
	if (atomic_load_explicit(&slot->number, memory_order_acquire) != number)
		return NULL;
	return slot;
}

static struct nccl_slot *find_open_slot(const void *handle)
{
	struct nccl_slot *slot = find_slot(handle);

	if (!slot || !atomic_load_explicit(&slot->open, memory_order_acquire))
		return NULL;
	return slot;
}

/* ---- communicators ---- */

static struct nccl_communicator *add_communicator(void)
{
	uint32_t number = atomic_fetch_add(&communicator_count, 1) + 1;

	if (number >= COMMUNICATORS)
		number = 0;
	return &communicators[number];
}

static bool is_wanted(uint8_t kind)
{
	return ws_rt->arena && ws_rt->arena->nccl_events >> kind & 1;
}

/* Which events NCCL should report: what is wanted, and the operations that they belong to. */
static int make_mask(void)
{
	uint32_t wanted = ws_rt->arena ? ws_rt->arena->nccl_events : 0;

	if (wanted & ~(1u << WS_NCCL_EVENT_PROXY_CONTROL))
		wanted |= 1u << WS_NCCL_EVENT_COLLECTIVE | 1u << WS_NCCL_EVENT_P2P;
	if (wanted & (1u << WS_NCCL_EVENT_PROXY_STEP | 1u << WS_NCCL_EVENT_NETWORK))
		wanted |= 1u << WS_NCCL_EVENT_PROXY_OP;
	return (int)wanted;
}

static int begin_old(void **context, int *mask)
{
	*context = add_communicator();
	*mask = make_mask();
	return 0;
}

static void describe_communicator(struct nccl_communicator *made, uint64_t hash, const char *name,
				  int nodes, int ranks)
{
	size_t length = name ? strnlen(name, NAME_ROOM - 1) : 0;

	if (made == communicators)
		return;
	made->hash = hash;
	made->nodes = (uint32_t)nodes;
	made->ranks = (uint32_t)ranks;
	if (length)
		memcpy(made->name, name, length);
}

static int begin_v4(void **context, int *mask, const char *name, uint64_t hash, int nodes,
		    int ranks, int rank, ws_nccl_abi_log *write_log)
{
	struct nccl_communicator *made;

	(void)write_log;
	begin_old(context, mask);
	made = *context;
	describe_communicator(made, hash, name, nodes, ranks);
	if (made != communicators) {
		made->rank = rank;
		made->knows_rank = true;
	}
	return 0;
}

static int begin_v5(void **context, uint64_t hash, int *mask, const char *name, int nodes,
		    int ranks, int rank, ws_nccl_abi_log *write_log)
{
	return begin_v4(context, mask, name, hash, nodes, ranks, rank, write_log);
}

static int finalize(void *context)
{
	(void)context; /* its name may still be wanted for events that are open */
	return 0;
}

/* ---- beginnings ---- */

#define FILL_TASK(slot, task)                             \
	do {                                              \
		(slot)->function = (task)->function;      \
		(slot)->type = skip_prefix((task)->type); \
		(slot)->count = (task)->count;            \
	} while (0)

#define FILL_COLLECTIVE(slot, coll)                    \
	do {                                           \
		FILL_TASK(slot, coll);                 \
		(slot)->sequence = (coll)->sequence;   \
		(slot)->peer = (coll)->root;           \
		(slot)->channels = (coll)->channels;   \
		(slot)->warps = (coll)->warps;         \
		(slot)->algorithm = (coll)->algorithm; \
		(slot)->protocol = (coll)->protocol;   \
	} while (0)

/* Types are called ncclFloat32. */
static const char *skip_prefix(const char *type)
{
	if (type && !strncmp(type, "nccl", 4))
		return type + 4;
	return type;
}

static void fill_collective_v1(struct nccl_slot *slot, const struct ws_nccl_abi_collective_v1 *coll)
{
	slot->communicator = coll->hash;
	slot->sequence = coll->sequence;
	slot->function = NAME(functions, coll->function);
	slot->type = NAME(types, coll->type);
	slot->count = coll->count;
	slot->peer = coll->root;
	slot->channels = coll->channels;
	slot->warps = coll->warps;
	slot->algorithm = NAME(algorithms, coll->algorithm);
	slot->protocol = NAME(protocols, coll->protocol);
}

static void fill_collective(struct nccl_slot *slot, const void *description, int version)
{
	slot->flags |= WS_NCCL_KNOWS_SEQUENCE | WS_NCCL_KNOWS_PEER;
	if (version == 1) {
		fill_collective_v1(slot, description);
	} else if (version == 2) {
		const struct ws_nccl_abi_collective_v2 *coll = description;

		FILL_COLLECTIVE(slot, coll);
		slot->communicator = coll->hash;
	} else if (version == 3) {
		const struct ws_nccl_abi_collective_v3 *coll = description;

		FILL_COLLECTIVE(slot, coll);
		slot->communicator = coll->hash;
	} else {
		const struct ws_nccl_abi_collective_v4 *coll = description;

		FILL_COLLECTIVE(slot, coll);
	}
}

static void fill_p2p(struct nccl_slot *slot, const void *description, int version)
{
	slot->flags |= WS_NCCL_KNOWS_PEER;
	if (version == 1) {
		const struct ws_nccl_abi_p2p_v1 *p2p = description;

		slot->communicator = p2p->hash;
		slot->function = NAME(functions, p2p->function);
		slot->type = NAME(types, p2p->type);
		slot->count = p2p->count;
		slot->peer = p2p->peer;
	} else if (version < 4) {
		const struct ws_nccl_abi_p2p_v2 *p2p = description;

		FILL_TASK(slot, p2p);
		slot->communicator = p2p->hash;
		slot->peer = p2p->peer;
	} else {
		const struct ws_nccl_abi_p2p_v4 *p2p = description;

		FILL_TASK(slot, p2p);
		slot->peer = p2p->peer;
		slot->channels = p2p->channels;
	}
}

static void fill_proxy_op(struct nccl_slot *slot, const struct ws_nccl_abi_proxy_op *op)
{
	slot->flags |= WS_NCCL_KNOWS_PEER | WS_NCCL_KNOWS_CHANNEL;
	if (op->is_send)
		slot->flags |= WS_NCCL_IS_SEND;
	slot->channel = op->channel;
	slot->peer = op->peer;
	slot->steps = op->steps;
	slot->chunk = op->chunk;
}

static void fill_network(struct nccl_slot *slot, const struct ws_nccl_abi_network *event)
{
	const struct ws_nccl_abi_socket_event *on_socket = event->data;
	const struct ws_nccl_abi_ib_event *on_ib = event->data;
	int64_t version = event->id & 0xffff;

	slot->network = (uint8_t)(event->id >> 16);
	if (version != 1 || !event->data)
		return;
	if (slot->network == WS_NCCL_NETWORK_IB) {
		slot->state = on_ib->opcode;
		slot->chunk = on_ib->queue_pair;
		slot->bytes = on_ib->length;
	} else if (slot->network == WS_NCCL_NETWORK_SOCKET) {
		slot->state = on_socket->operation;
		slot->chunk = on_socket->descriptor;
		slot->bytes = on_socket->length;
	} else {
		return;
	}
	slot->flags |= WS_NCCL_KNOWS_BYTES;
}

static void fill_details(struct nccl_slot *slot, const void *description, int version)
{
	const struct ws_nccl_abi_channel *channel = description;

	switch (slot->kind) {
	case WS_NCCL_EVENT_COLLECTIVE:
		fill_collective(slot, description, version);
		break;
	case WS_NCCL_EVENT_P2P:
		fill_p2p(slot, description, version);
		break;
	case WS_NCCL_EVENT_PROXY_OP:
		fill_proxy_op(slot, description);
		break;
	case WS_NCCL_EVENT_PROXY_STEP:
		slot->steps = ((const struct ws_nccl_abi_proxy_step *)description)->step;
		break;
	case WS_NCCL_EVENT_CHANNEL:
		slot->channel = channel->channel;
		slot->flags |= WS_NCCL_KNOWS_CHANNEL;
		if (version >= 4)
			slot->gpu_start = channel->gpu_start;
		break;
	case WS_NCCL_EVENT_NETWORK:
		fill_network(slot, description);
		break;
	default:
		break;
	}
}

/* What an event has of the one that it is part of. An operation of the proxy may be part of an
 * event in another process, whose handle means nothing here. */
static void inherit(struct nccl_slot *slot, const void *description)
{
	const struct ws_nccl_abi_proxy_op *op = description;
	struct nccl_slot *parent;

	if (slot->kind == WS_NCCL_EVENT_PROXY_OP &&
	    op->pid != (int)ws_raw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0))
		slot->parent = 0;
	parent = find_slot((const void *)(uintptr_t)slot->parent);
	if (!parent) {
		slot->parent = 0;
		return;
	}
	if (slot->kind == WS_NCCL_EVENT_COLLECTIVE || slot->kind == WS_NCCL_EVENT_P2P)
		return;
	slot->operation = parent->operation;
	slot->function = parent->function;
	slot->sequence = parent->sequence;
	slot->flags |= parent->flags & WS_NCCL_KNOWS_SEQUENCE;
	if (!slot->communicator)
		slot->communicator = parent->communicator;
	if (slot->kind == WS_NCCL_EVENT_PROXY_OP || slot->kind == WS_NCCL_EVENT_CHANNEL)
		return;
	slot->channel = parent->channel;
	slot->peer = parent->peer;
	slot->flags |=
		parent->flags & (WS_NCCL_IS_SEND | WS_NCCL_KNOWS_PEER | WS_NCCL_KNOWS_CHANNEL);
}

/* Zeroes what is kept of the event that had this slot before. */
static void clear_slot(struct nccl_slot *slot)
{
	memset(&slot->kind, 0, sizeof(*slot) - offsetof(struct nccl_slot, kind));
}

static void fill_slot(struct nccl_slot *slot, const struct nccl_communicator *owner,
		      const struct ws_nccl_abi_head *head, uint8_t kind, int version)
{
	slot->kind = kind;
	slot->owner = owner;
	slot->wait = WS_NCCL_WAIT_NONE;
	slot->state = -1;
	slot->parent = (uintptr_t)head->parent;
	if (owner) {
		slot->communicator = owner->hash;
		slot->rank = owner->rank;
		if (owner->knows_rank)
			slot->flags |= WS_NCCL_KNOWS_RANK;
	}
	if (version < 4 && kind != WS_NCCL_EVENT_GROUP && kind != WS_NCCL_EVENT_PROXY_CONTROL &&
	    kind != WS_NCCL_EVENT_CHANNEL) {
		slot->rank = head->rank;
		slot->flags |= WS_NCCL_KNOWS_RANK;
	}
	fill_details(slot, head, version);
	inherit(slot, head);
}

/* Up to version 3, only descriptions of operations say which communicator it is. */
static void learn_communicator(struct nccl_communicator *owner, const struct nccl_slot *slot)
{
	if (owner && owner != communicators && !owner->hash && slot->communicator) {
		owner->rank = slot->rank;
		owner->knows_rank = true;
		owner->hash = slot->communicator;
	}
}

static void count_lost_event(void)
{
	struct ws_thread *thread = ws_rt_enter();

	if (!thread)
		return;
	ws_rt_count_loss(thread, WS_LOSS_OTHER, 1);
	ws_rt_leave(thread);
}

static int begin_event(void *context, void **handle, const struct ws_nccl_abi_head *head,
		       int version)
{
	uint64_t type = version < 5 ? head->type & 0xff : head->type, number;
	struct nccl_slot *slot;

	*handle = NULL;
	if (!type || type >> WS_NCCL_EVENTS || !ws_rt_is_collecting())
		return 0;
	slot = claim_slot(&number);
	if (!slot) {
		count_lost_event();
		return 0;
	}
	clear_slot(slot);
	fill_slot(slot, context, head, (uint8_t)__builtin_ctzll(type), version);
	learn_communicator(context, slot);
	if (slot->kind == WS_NCCL_EVENT_COLLECTIVE || slot->kind == WS_NCCL_EVENT_P2P)
		slot->operation = number;
	slot->start = slot->changed = ws_rt_read_ticks();
	atomic_store_explicit(&slot->number, number, memory_order_release);
	*handle = (void *)(uintptr_t)number;
	return 0;
}

#define BEGINS(version)                                                                    \
	static int begin_event_v##version(void *context, void **handle, void *description) \
	{                                                                                  \
		return begin_event(context, handle, description, version);                 \
	}
BEGINS(1)
BEGINS(2)
BEGINS(3)
BEGINS(4)
BEGINS(5)

/* ---- changes ---- */

static uint8_t find_wait(int state)
{
	switch (state) {
	case WS_NCCL_STATE_SEND_GPU_WAIT:
	case WS_NCCL_STATE_RECV_GPU_WAIT:
		return WS_NCCL_WAIT_GPU;
	case WS_NCCL_STATE_SEND_PEER_WAIT:
		return WS_NCCL_WAIT_PEER;
	case WS_NCCL_STATE_SEND_WAIT:
	case WS_NCCL_STATE_RECV_WAIT:
		return WS_NCCL_WAIT_NETWORK;
	case WS_NCCL_STATE_RECV_FLUSH_WAIT:
		return WS_NCCL_WAIT_FLUSH;
	default:
		return WS_NCCL_WAIT_NONE;
	}
}

static void end_wait(struct nccl_slot *slot, uint64_t now)
{
	if (slot->wait < WS_NCCL_WAITS && now > slot->changed)
		slot->waits[slot->wait] += now - slot->changed;
	slot->changed = now;
	slot->wait = WS_NCCL_WAIT_NONE;
}

/* The size of a step is that of the last one until the data has been handed to the network, or has
 * come from there. Up to version 3, steps have none and operations say what they have moved. */
static void note_bytes(struct nccl_slot *slot, int state, uint64_t bytes)
{
	bool is_step =
		state == WS_NCCL_STATE_SEND_WAIT || state == WS_NCCL_STATE_RECV_FLUSH_WAIT ||
		(state == WS_NCCL_STATE_RECV_GPU_WAIT && !(slot->flags & WS_NCCL_KNOWS_BYTES));
	bool is_op = state <= WS_NCCL_STATE_RECEIVED + 2;

	if (slot->kind == WS_NCCL_EVENT_PROXY_STEP ? !is_step : !is_op)
		return;
	if (bytes >= slot->bytes)
		slot->bytes = bytes;
	if (bytes)
		slot->flags |= WS_NCCL_KNOWS_BYTES;
}

static int change_state(void *handle, int state, const union ws_nccl_abi_details *details,
			int version)
{
	struct nccl_slot *slot = find_open_slot(handle);

	if (!slot)
		return 0;
	if (slot->kind == WS_NCCL_EVENT_PROXY_STEP || slot->kind == WS_NCCL_EVENT_PROXY_OP) {
		end_wait(slot, ws_rt_read_ticks());
		slot->wait = find_wait(state);
		if (details && (version >= 4 || slot->kind == WS_NCCL_EVENT_PROXY_OP))
			note_bytes(slot, state, details->bytes);
	} else if (slot->kind == WS_NCCL_EVENT_CHANNEL && details &&
		   state == WS_NCCL_STATE_CHANNEL_STOP) {
		slot->gpu_end = details->gpu_end;
	} else if (slot->kind == WS_NCCL_EVENT_PROXY_CONTROL) {
		/* What it was asleep for, not that it woke up. */
		if (slot->state < 0)
			slot->state = state;
		if (details && state == WS_NCCL_STATE_APPEND_END)
			slot->count = (uint64_t)ws_max(details->appended, 0);
	}
	return 0;
}

static int change_state_old(void *handle, int state, union ws_nccl_abi_details *details)
{
	return change_state(handle, state, details, 1);
}

static int change_state_new(void *handle, int state, union ws_nccl_abi_details *details)
{
	return change_state(handle, state, details, 4);
}

/* ---- ends ---- */

static uint32_t find_text(struct ws_thread *thread, const char *text)
{
	if (!text || !*text)
		return 0;
	return ws_rt_find_string(thread, text, strlen(text));
}

static void fill_record(struct ws_thread *thread, struct ws_rec_nccl *record,
			const struct nccl_slot *slot)
{
	*record = (struct ws_rec_nccl){
		.rec = ws_rec_head(WS_REC_NCCL, sizeof(*record), slot->kind, slot->flags),
		.start = slot->start,
		.number = slot->number,
		.parent = slot->parent,
		.operation = slot->operation,
		.communicator = slot->communicator,
		.sequence = slot->sequence,
		.count = slot->count,
		.bytes = slot->bytes,
		.gpu_start = slot->gpu_start,
		.gpu_end = slot->gpu_end,
		.rank = slot->rank,
		.peer = slot->peer,
		.steps = slot->steps,
		.chunk = slot->chunk,
		.state = slot->state,
		.channel = slot->channel,
		.channels = slot->channels,
		.warps = slot->warps,
		.network = slot->network,
	};
	for (int i = 0; i < WS_NCCL_WAITS; i++)
		record->waits[i] = slot->waits[i];
	record->function = find_text(thread, slot->function);
	record->type = find_text(thread, slot->type);
	record->algorithm = find_text(thread, slot->algorithm);
	record->protocol = find_text(thread, slot->protocol);
	if (!slot->owner)
		return;
	record->ranks = slot->owner->ranks;
	record->nodes = slot->owner->nodes;
	record->communicator_name = find_text(thread, slot->owner->name);
}

static void write_event(const struct nccl_slot *slot, uint64_t end)
{
	struct ws_thread *thread = ws_rt_enter();
	struct ws_rec_nccl made, *record;

	if (!thread)
		return;
	fill_record(thread, &made, slot); /* strings first: they may need records of their own */
	made.end = end;
	record = ws_rt_reserve(thread, sizeof(*record), WS_LOSS_OTHER);
	if (record) {
		*record = made;
		ws_rt_commit(thread, record, sizeof(*record));
	}
	ws_rt_leave(thread);
}

/* A step adds what it has moved, and what it waited for, to its operation. */
static void add_step(const struct nccl_slot *slot)
{
	struct nccl_slot *op = find_open_slot((const void *)(uintptr_t)slot->parent);

	if (!op || op->kind != WS_NCCL_EVENT_PROXY_OP)
		return;
	for (int i = 0; i < WS_NCCL_WAITS; i++)
		op->waits[i] += slot->waits[i];
	if (slot->flags & WS_NCCL_KNOWS_BYTES) {
		op->bytes += slot->bytes;
		op->flags |= WS_NCCL_KNOWS_BYTES;
	}
}

static int end_event(void *handle)
{
	struct nccl_slot *slot = find_open_slot(handle);
	uint64_t now;

	if (!slot)
		return 0;
	now = ws_rt_read_ticks();
	end_wait(slot, now);
	if (slot->kind == WS_NCCL_EVENT_PROXY_STEP)
		add_step(slot);
	if (ws_rt_is_collecting() &&
	    (is_wanted(slot->kind) || slot->kind == WS_NCCL_EVENT_COLLECTIVE ||
	     slot->kind == WS_NCCL_EVENT_P2P))
		write_event(slot, now);
	atomic_store_explicit(&slot->open, false, memory_order_release);
	return 0;
}

/* ---- what NCCL looks for ---- */

#define PLUGIN(version, begin, change)                                  \
	WS_EXPORT struct ws_nccl_abi_plugin ncclProfiler_v##version = { \
		.name = "warpsight",                                    \
		.init = (void *)(uintptr_t)(begin),                     \
		.start = begin_event_v##version,                        \
		.stop = end_event,                                      \
		.set_state = (change),                                  \
		.finalize = finalize,                                   \
	}
extern struct ws_nccl_abi_plugin ncclProfiler_v1, ncclProfiler_v2, ncclProfiler_v3, ncclProfiler_v4,
	ncclProfiler_v5;
PLUGIN(1, begin_old, change_state_old);
PLUGIN(2, begin_old, change_state_old);
PLUGIN(3, begin_old, change_state_old);
PLUGIN(4, begin_v4, change_state_new);
PLUGIN(5, begin_v5, change_state_new);
