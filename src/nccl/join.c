/*
 * join.c - NCCL's calls and the kernels that did them.
 *
 * Calls of a thread are collected into batches: a single call, or all calls of a group, from the
 * outermost ncclGroupStart to its ncclGroupEnd. A kernel belongs to the batch inside of which the
 * CUDA call that launched it began. In a batch, kernels and calls are matched by operation; NCCL
 * launches larger collectives of a group first, and may use one kernel for several calls.
 *
 * A communicator that does not block launches from a thread of NCCL's: a kernel that was launched
 * outside any batch belongs to the oldest batch before it that has calls of its operation and no
 * kernel.
 *
 * When a CUDA graph is captured, calls launch nothing but add nodes to the graph. The kernel of a
 * node does the calls of the batch inside of which the node was added, or that of the node which it
 * was copied from, each time the graph is launched. The calls as such have done nothing then.
 *
 * Ranges are reported when they end, launches and kernels when CUPTI hands them over. A kernel
 * waits until its launch is known and its thread has ended a range after that; a batch waits until
 * it has as many kernels as calls, or until many later batches have got kernels.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "nccl/choice.h"

enum {
	LAUNCHES = 1 << 17,	/* launches remembered, by correlation; a power of two */
	BATCHES_MOST = 4096,	/* waiting per thread; the oldest are put without kernels */
	WAITING_MOST = 1 << 14, /* kernels waiting */
	LATER_BATCHES = 16,	/* have kernels: then a batch has got all of its own */
	ROUNDS = 20, /* so often a kernel waits for a batch of its own thread, and a batch for
			what NCCL decided */
	THREADS_MOST = 1024,
	COMMUNICATORS_MOST = 4096,
	NODES_MOST = 1 << 20,
	COPIES_MOST = 16,     /* of copies of a node */
	CALLS_MOST = 1 << 16, /* calls per group */
};

struct operation_call {
	uint64_t start, end;
	uint64_t sequence;
	struct ws_nccl_facts facts;
	uint32_t kernel; /* number in the batch, from 1; 0: none */
	/* How it was done when its kernel ran first: for the next times that a graph runs it. */
	struct ws_nccl_choice choice;
	uint8_t operation;
};

struct batch {
	uint64_t start, end; /* end 0: the group is still open */
	struct operation_call *calls;
	size_t count, capacity;
	struct ws_nccl_kernel *kernels;
	size_t kernel_count, kernel_capacity;
	uint64_t number; /* the value of with_kernels when it got its first kernel */
	uint32_t rounds; /* so often it has waited for choices */
	bool done;	 /* its rows have been put */
	bool captured;	 /* its calls were added to a CUDA graph */
};

struct nccl_thread {
	uint32_t id;
	uint32_t depth; /* open groups */
	uint64_t last_end;
	struct batch *batches; /* in order of their starts */
	size_t first, count, capacity;
	uint64_t with_kernels; /* how many batches have got kernels so far */
};

struct launch {
	uint32_t correlation, thread;
	uint64_t start;
};

struct graph_node {
	uint32_t thread;
	uint64_t start, original;
};

struct waiting_kernel {
	struct ws_nccl_kernel kernel;
	uint32_t rounds;
};

/* One rank of a communicator in this process. */
struct communicator {
	uint64_t hash;
	uint32_t ranks, rank, device; /* WS_NO_U32: not known */
};

struct sequence {
	uint64_t hash, calls;
};

struct ws_nccl {
	struct ws_nccl_schemas schemas;
	struct ws_nccl_choices choices;
	bool has_choices;
	struct nccl_thread *threads;
	size_t thread_count, thread_capacity;
	struct launch *launches;
	struct ws_map node_numbers; /* by node: number in `nodes` + 1 */
	struct graph_node *nodes;
	size_t node_count, node_capacity;
	struct waiting_kernel *waiting;
	size_t waiting_count, waiting_capacity;
	struct communicator *communicators;
	size_t communicator_count, communicator_capacity;
	struct sequence *sequences;
	size_t sequence_count, sequence_capacity;
};

struct ws_nccl *ws_nccl_new(void)
{
	struct ws_nccl *nccl = ws_calloc(1, sizeof(*nccl));

	nccl->launches = ws_calloc(LAUNCHES, sizeof(*nccl->launches));
	return nccl;
}

static void free_batch(struct batch *batch)
{
	free(batch->calls);
	free(batch->kernels);
	*batch = (struct batch){0};
}

void ws_nccl_free(struct ws_nccl *nccl)
{
	if (!nccl)
		return;
	for (size_t i = 0; i < nccl->thread_count; i++) {
		struct nccl_thread *thread = &nccl->threads[i];

		for (size_t j = thread->first; j < thread->count; j++)
			free_batch(&thread->batches[j]);
		free(thread->batches);
	}
	free(nccl->threads);
	free(nccl->launches);
	free(nccl->nodes);
	ws_map_free(&nccl->node_numbers);
	free(nccl->waiting);
	free(nccl->communicators);
	free(nccl->sequences);
	ws_nccl_free_schemas(&nccl->schemas);
	ws_nccl_free_choices(&nccl->choices);
	free(nccl);
}

void ws_nccl_define_entry(struct ws_nccl *nccl, uint64_t schema, const char *name, uint64_t type,
			  uint64_t offset)
{
	ws_nccl_add_schema_entry(&nccl->schemas, schema, name, type, offset);
}

/* ---- communicators ---- */

static uint32_t get_number(const struct ws_nccl_facts *facts, enum ws_nccl_field field)
{
	return ws_nccl_knows(facts, field) ? (uint32_t)facts->values[field] : WS_NO_U32;
}

/* Notes the communicator that a call made. The same one may be reported twice. */
static void note_communicator(struct ws_nccl *nccl, const struct ws_nccl_facts *facts)
{
	struct communicator made = {
		.hash = facts->values[WS_NCCL_COMMUNICATOR],
		.ranks = get_number(facts, WS_NCCL_RANKS),
		.rank = get_number(facts, WS_NCCL_RANK),
		.device = get_number(facts, WS_NCCL_DEVICE),
	};

	if (!ws_nccl_knows(facts, WS_NCCL_COMMUNICATOR) || !made.hash || made.ranks == WS_NO_U32 ||
	    nccl->communicator_count == COMMUNICATORS_MOST)
		return;
	for (size_t i = 0; i < nccl->communicator_count; i++) {
		struct communicator *known = &nccl->communicators[i];

		if (known->hash == made.hash && known->rank == made.rank &&
		    known->device == made.device)
			return;
	}
	ws_grow(nccl->communicators, nccl->communicator_capacity, nccl->communicator_count + 1);
	nccl->communicators[nccl->communicator_count++] = made;
}

/* The rank that uses `device`; when the device is not known, the only rank of this process. */
static struct communicator find_communicator(const struct ws_nccl *nccl, uint64_t hash,
					     uint32_t device)
{
	struct communicator found = {hash, WS_NO_U32, WS_NO_U32, WS_NO_U32};
	size_t matches = 0;

	for (size_t i = nccl->communicator_count; i > 0; i--) {
		const struct communicator *known = &nccl->communicators[i - 1];

		if (known->hash != hash)
			continue;
		if (known->device == device && device != WS_NO_U32)
			return *known;
		if (!matches++)
			found = *known;
	}
	if (matches > 1)
		found.rank = found.device = WS_NO_U32;
	return found;
}

/* How many ranks of the communicator call from this process: each collective is called that
 * often. */
static uint64_t count_local_ranks(const struct ws_nccl *nccl, uint64_t hash)
{
	uint64_t count = 0;

	for (size_t i = 0; i < nccl->communicator_count; i++) {
		const struct communicator *known = &nccl->communicators[i];

		if (known->hash != hash)
			continue;
		if (known->rank == WS_NO_U32) /* ncclCommInitAll */
			return ws_max(known->ranks, 1u);
		count++;
	}
	return ws_max(count, (uint64_t)1);
}

/* The number of a collective in its communicator, from 0. */
static uint64_t count_collective(struct ws_nccl *nccl, uint64_t hash)
{
	size_t i = 0;

	while (i < nccl->sequence_count && nccl->sequences[i].hash != hash)
		i++;
	if (i == nccl->sequence_count) {
		if (i == COMMUNICATORS_MOST)
			return WS_NO_U64;
		ws_grow(nccl->sequences, nccl->sequence_capacity, i + 1);
		nccl->sequences[nccl->sequence_count++] = (struct sequence){.hash = hash};
	}
	return nccl->sequences[i].calls++ / count_local_ranks(nccl, hash);
}

/* ---- calls ---- */

static struct nccl_thread *find_thread(struct ws_nccl *nccl, uint32_t id)
{
	for (size_t i = 0; i < nccl->thread_count; i++)
		if (nccl->threads[i].id == id)
			return &nccl->threads[i];
	return NULL;
}

static struct nccl_thread *find_or_add_thread(struct ws_nccl *nccl, uint32_t id)
{
	struct nccl_thread *thread = find_thread(nccl, id);

	if (thread || nccl->thread_count == THREADS_MOST)
		return thread;
	ws_grow(nccl->threads, nccl->thread_capacity, nccl->thread_count + 1);
	nccl->threads[nccl->thread_count] = (struct nccl_thread){.id = id};
	return &nccl->threads[nccl->thread_count++];
}

static bool is_named(const struct ws_nccl_call *call, const char *name)
{
	return call->name_length == strlen(name) && !memcmp(call->name, name, call->name_length);
}

static enum ws_nccl_operation find_operation(const struct ws_nccl_call *call)
{
	if (call->name_length < 4 || memcmp(call->name, "nccl", 4) != 0)
		return WS_NCCL_NONE;
	return ws_nccl_find_operation(call->name + 4, call->name_length - 4);
}

static struct batch *get_last_batch(struct nccl_thread *thread)
{
	if (thread->count == thread->first)
		return NULL;
	return &thread->batches[thread->count - 1];
}

static struct batch *add_batch(struct nccl_thread *thread, uint64_t start)
{
	size_t kept = thread->count - thread->first;

	if (thread->first > 64 && thread->first > kept) {
		memmove(thread->batches, thread->batches + thread->first,
			kept * sizeof(*thread->batches));
		thread->first = 0;
		thread->count = kept;
	}
	ws_grow(thread->batches, thread->capacity, thread->count + 1);
	thread->batches[thread->count] = (struct batch){.start = start};
	return &thread->batches[thread->count++];
}

static void begin_group(struct nccl_thread *thread, const struct ws_nccl_call *call)
{
	if (!thread->depth++)
		add_batch(thread, call->start);
}

static void end_group(struct nccl_thread *thread, const struct ws_nccl_call *call)
{
	struct batch *batch = get_last_batch(thread);

	if (!thread->depth || --thread->depth || !batch)
		return;
	batch->end = call->end;
	if (!batch->count && !batch->kernel_count) /* an empty group */
		thread->count--;
}

static void add_operation(struct ws_nccl *nccl, struct nccl_thread *thread,
			  const struct ws_nccl_call *call, const struct ws_nccl_facts *facts)
{
	struct batch *batch = thread->depth ? get_last_batch(thread) : NULL;
	struct operation_call made = {
		.start = call->start,
		.end = call->end,
		.sequence = WS_NO_U64,
		.facts = *facts,
		.operation = (uint8_t)find_operation(call),
	};

	if (made.operation < WS_NCCL_SEND && ws_nccl_knows(facts, WS_NCCL_COMMUNICATOR))
		made.sequence = count_collective(nccl, facts->values[WS_NCCL_COMMUNICATOR]);
	if (!batch) {
		batch = add_batch(thread, call->start);
		batch->end = call->end;
	}
	if (batch->count == CALLS_MOST)
		return;
	ws_grow(batch->calls, batch->capacity, batch->count + 1);
	batch->calls[batch->count++] = made;
}

void ws_nccl_add_call(struct ws_nccl *nccl, const struct ws_nccl_call *call)
{
	struct ws_nccl_facts facts =
		ws_nccl_read_payload(&nccl->schemas, call->payload, call->payload_size);
	struct nccl_thread *thread = find_or_add_thread(nccl, call->thread);

	if (!thread)
		return;
	if (is_named(call, "ncclGroupStart"))
		begin_group(thread, call);
	else if (is_named(call, "ncclGroupEnd"))
		end_group(thread, call);
	else if (find_operation(call))
		add_operation(nccl, thread, call, &facts);
	else
		note_communicator(nccl, &facts);
	thread->last_end = ws_max(call->end, thread->last_end);
}

/* ---- kernels ---- */

void ws_nccl_add_launch(struct ws_nccl *nccl, uint32_t thread, uint32_t correlation, uint64_t start)
{
	nccl->launches[correlation % LAUNCHES] = (struct launch){correlation, thread, start};
}

void ws_nccl_add_kernel(struct ws_nccl *nccl, const struct ws_nccl_kernel *kernel)
{
	ws_grow(nccl->waiting, nccl->waiting_capacity, nccl->waiting_count + 1);
	nccl->waiting[nccl->waiting_count++] = (struct waiting_kernel){.kernel = *kernel};
}

void ws_nccl_add_node(struct ws_nccl *nccl, uint32_t thread, uint64_t node, uint64_t original,
		      uint64_t start)
{
	if (nccl->node_count == NODES_MOST)
		return;
	ws_grow(nccl->nodes, nccl->node_capacity, nccl->node_count + 1);
	nccl->nodes[nccl->node_count++] = (struct graph_node){thread, start, original};
	ws_map_set(&nccl->node_numbers, node, nccl->node_count);
}

/* The batch of the thread that was open at `time`. */
static struct batch *find_batch(const struct nccl_thread *thread, uint64_t time)
{
	size_t low = thread->first, high = thread->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (thread->batches[middle].start <= time)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == thread->first)
		return NULL;
	if (thread->batches[low - 1].end && thread->batches[low - 1].end < time)
		return NULL;
	return &thread->batches[low - 1];
}

static bool does_operation(const struct ws_nccl_kernel *kernel, uint8_t operation)
{
	switch (kernel->name.operation) {
	case WS_NCCL_NONE:
		return true;
	case WS_NCCL_SEND: /* any operation made of sends and receives */
		return operation >= WS_NCCL_ALL_TO_ALL;
	default:
		return operation == kernel->name.operation;
	}
}

static bool has_operation(const struct batch *batch, const struct ws_nccl_kernel *kernel)
{
	for (size_t i = 0; i < batch->count; i++)
		if (does_operation(kernel, batch->calls[i].operation))
			return true;
	return false;
}

/* The oldest batch before `time`, of any thread, that this kernel may belong to. */
static struct batch *find_any_batch(struct ws_nccl *nccl, const struct ws_nccl_kernel *kernel,
				    uint64_t time, struct nccl_thread **owner)
{
	struct batch *found = NULL;

	for (size_t i = 0; i < nccl->thread_count; i++) {
		struct nccl_thread *thread = &nccl->threads[i];

		for (size_t j = thread->first; j < thread->count; j++) {
			struct batch *batch = &thread->batches[j];

			if (batch->start > time || (found && found->start <= batch->start))
				break;
			if (batch->done || batch->kernel_count || !has_operation(batch, kernel))
				continue;
			found = batch;
			*owner = thread;
			break;
		}
	}
	return found;
}

static void attach_kernel(struct nccl_thread *thread, struct batch *batch,
			  const struct ws_nccl_kernel *kernel)
{
	if (!batch->kernel_count)
		batch->number = thread->with_kernels++;
	ws_grow(batch->kernels, batch->kernel_capacity, batch->kernel_count + 1);
	batch->kernels[batch->kernel_count++] = *kernel;
}

/* The node that this one was copied from in the first place, which it may be itself; NULL when it
 * is not known. */
static const struct graph_node *find_first_node(const struct ws_nccl *nccl, uint64_t node)
{
	for (int copies = 0; copies < COPIES_MOST; copies++) {
		uint64_t number = ws_map_get(&nccl->node_numbers, node, NULL);
		const struct graph_node *found = number ? &nccl->nodes[number - 1] : NULL;

		if (!found || !found->original)
			return found;
		node = found->original;
	}
	return NULL;
}

enum fate { ATTACHED, WAITS, CAPTURED, ALONE };

static enum fate place_graph_kernel(struct ws_nccl *nccl, const struct waiting_kernel *waiting,
				    bool last)
{
	const struct graph_node *first = find_first_node(nccl, waiting->kernel.node);
	const struct nccl_thread *thread = first ? find_thread(nccl, first->thread) : NULL;
	struct batch *batch = NULL;

	if (thread && thread->last_end >= first->start)
		batch = find_batch(thread, first->start);
	if (!batch || batch->done)
		return last || waiting->rounds >= ROUNDS ? ALONE : WAITS;
	batch->captured = true;
	return CAPTURED;
}

static enum fate place_kernel(struct ws_nccl *nccl, const struct waiting_kernel *waiting, bool last)
{
	const struct ws_nccl_kernel *kernel = &waiting->kernel;
	const struct launch *launch = &nccl->launches[kernel->correlation % LAUNCHES];
	bool is_known = launch->start && launch->correlation == kernel->correlation,
	     is_patient = !last && waiting->rounds < ROUNDS;
	struct nccl_thread *thread = is_known ? find_thread(nccl, launch->thread) : NULL;
	struct batch *batch = NULL;

	if (kernel->node != WS_NO_U64)
		return place_graph_kernel(nccl, waiting, last);
	/* Wait for the launching call to end, however long it lasts. */
	if (!last && thread && thread->last_end < launch->start)
		return WAITS;
	if (thread)
		batch = find_batch(thread, launch->start);
	if (!batch && is_patient)
		return WAITS;
	if (!batch && is_known)
		batch = find_any_batch(nccl, kernel, launch->start, &thread);
	if (!batch || batch->done)
		return ALONE;
	attach_kernel(thread, batch, kernel);
	return ATTACHED;
}

/* ---- calls and kernels of one batch ---- */

static uint64_t get_bytes(const struct operation_call *call)
{
	return ws_nccl_knows(&call->facts, WS_NCCL_BYTES) ? call->facts.values[WS_NCCL_BYTES] : 0;
}

static int compare_bytes(const void *first, const void *second)
{
	const struct operation_call *const *left = first, *const *right = second;

	if (get_bytes(*left) != get_bytes(*right))
		return ws_compare(get_bytes(*right), get_bytes(*left));
	return ws_compare(*left, *right); /* in the order of the calls */
}

/* Distribute the calls that a kind of kernel can do among its kernels. */
static void match_kind(struct batch *batch, uint8_t kind, struct operation_call **calls)
{
	const struct ws_nccl_kernel any = {.name.operation = kind};
	size_t count = 0, kernels = 0, number = 0;

	for (size_t i = 0; i < batch->kernel_count; i++)
		kernels += batch->kernels[i].name.operation == kind;
	for (size_t i = 0; i < batch->count; i++)
		if (!batch->calls[i].kernel && does_operation(&any, batch->calls[i].operation))
			calls[count++] = &batch->calls[i];
	if (!kernels || !count)
		return;
	qsort(calls, count, sizeof(*calls), compare_bytes);
	for (uint32_t i = 0; i < batch->kernel_count; i++) {
		if (batch->kernels[i].name.operation != kind)
			continue;
		for (size_t j = 0; j < count; j++)
			if (count > kernels ? j * kernels / count == number : j == number)
				calls[j]->kernel = i + 1;
		number++;
	}
}

static int compare_launches(const void *first, const void *second)
{
	const struct ws_nccl_kernel *left = first, *right = second;

	return ws_compare(left->correlation, right->correlation);
}

static void match_batch(struct batch *batch)
{
	struct operation_call **calls = ws_calloc(batch->count, sizeof(*calls));

	if (batch->kernel_count)
		qsort(batch->kernels, batch->kernel_count, sizeof(*batch->kernels),
		      compare_launches);
	for (unsigned kind = WS_NCCL_NONE + 1; kind < WS_NCCL_OPERATIONS; kind++)
		match_kind(batch, (uint8_t)kind, calls);
	match_kind(batch, WS_NCCL_NONE, calls); /* the rest belongs to kernels for anything */
	free(calls);
}

/* ---- rows ---- */

static uint32_t intern_text(const struct ws_nccl_out *out, const char *text)
{
	return text && *text ? out->intern(out->ctx, text, strlen(text)) : 0;
}

static struct ws_row_collective make_row(const struct ws_nccl_out *out,
					 const struct ws_nccl_kernel *kernel)
{
	struct ws_row_collective row = {
		.end = WS_NO_TIME,
		.correlation = WS_NO_U32,
		.external = WS_NO_U64,
		.in_elements = WS_NO_U64,
		.out_elements = WS_NO_U64,
		.group_size = WS_NO_U32,
		.source = -1,
		.destination = -1,
		.sequence = WS_NO_U64,
		.bytes = WS_NO_U64,
		.rank = -1,
		.device = WS_NO_U32,
		.context = WS_NO_U32,
		.stream = WS_NO_U32,
		.call_start = WS_NO_TIME,
		.call_end = WS_NO_TIME,
		.channels = WS_NO_U32,
		.event = WS_NO_U64,
	};

	if (!kernel)
		return row;
	row.start = kernel->start;
	row.end = kernel->end;
	row.correlation = kernel->correlation;
	row.device = kernel->device;
	row.context = kernel->context;
	row.stream = kernel->stream;
	row.dtype = intern_text(out, kernel->name.type);
	return row;
}

static void put_alone(const struct ws_nccl_kernel *kernel, const struct ws_nccl_out *out)
{
	struct ws_row_collective row = make_row(out, kernel);
	const char *name = ws_nccl_name_operation(kernel->name.operation);

	if (kernel->name.operation == WS_NCCL_SEND)
		name = "SendRecv";
	row.name = row.label = intern_text(out, *name ? name : "NCCL");
	out->put(out->ctx, &row);
}

static void fill_group(const struct ws_nccl *nccl, const struct operation_call *call,
		       const struct ws_nccl_out *out, struct ws_row_collective *row)
{
	struct communicator communicator;
	char text[32];

	if (!ws_nccl_knows(&call->facts, WS_NCCL_COMMUNICATOR))
		return;
	communicator =
		find_communicator(nccl, call->facts.values[WS_NCCL_COMMUNICATOR], row->device);
	snprintf(text, sizeof(text), "0x%016" PRIx64, communicator.hash);
	row->group = intern_text(out, text);
	row->group_size = communicator.ranks;
	if (communicator.rank <= INT32_MAX)
		row->rank = (int32_t)communicator.rank;
	if (row->device == WS_NO_U32)
		row->device = communicator.device;
}

static const char *name_reduction(uint64_t reduction)
{
	static const char *const reductions[] = {"Sum", "Prod", "Max", "Min", "Avg"};

	if (reduction < WS_COUNT(reductions))
		return reductions[reduction];
	return "PreMulSum"; /* the only reduction that programs define themselves */
}

/* Fill in the ranks between which data moves, for operations with a root or peer. */
static void fill_ends(const struct operation_call *call, struct ws_row_collective *row)
{
	const struct ws_nccl_facts *facts = &call->facts;
	int32_t root =
		ws_nccl_knows(facts, WS_NCCL_ROOT) ? (int32_t)facts->values[WS_NCCL_ROOT] : -1;
	int32_t peer =
		ws_nccl_knows(facts, WS_NCCL_PEER) ? (int32_t)facts->values[WS_NCCL_PEER] : -1;

	switch (call->operation) {
	case WS_NCCL_BROADCAST:
	case WS_NCCL_SCATTER:
		row->source = root;
		break;
	case WS_NCCL_REDUCE:
	case WS_NCCL_GATHER:
		row->destination = root;
		break;
	case WS_NCCL_SEND:
		row->source = row->rank;
		row->destination = peer;
		break;
	case WS_NCCL_RECV:
		row->source = peer;
		row->destination = row->rank;
		break;
	default:
		break;
	}
}

/* ---- what NCCL decided ---- */

void ws_nccl_add_choice(struct ws_nccl *nccl, const struct ws_nccl_choice *choice)
{
	nccl->has_choices = true;
	ws_nccl_keep_choice(&nccl->choices, choice);
}

/* What NCCL decided for a call of the batch: inside of it, or, `late`, at any time after its
 * beginning. NULL when nothing is known. */
static const struct ws_nccl_choice *find_choice(struct ws_nccl *nccl, const struct batch *batch,
						const struct operation_call *call, int32_t rank,
						bool late)
{
	const struct ws_nccl_facts *facts = &call->facts;
	struct ws_nccl_wanted wanted = {
		.communicator = facts->values[WS_NCCL_COMMUNICATOR],
		.from = batch->start,
		.to = batch->end,
		.rank = rank,
		.peer = -1,
		.operation = call->operation,
	};

	if (!nccl->has_choices || !ws_nccl_knows(facts, WS_NCCL_COMMUNICATOR))
		return NULL;
	if (ws_nccl_knows(facts, WS_NCCL_PEER))
		wanted.peer = (int32_t)facts->values[WS_NCCL_PEER];
	if (late)
		wanted.to = UINT64_MAX;
	return ws_nccl_find_choice(&nccl->choices, &wanted);
}

static void fill_choice(struct ws_nccl *nccl, const struct batch *batch,
			struct operation_call *call, struct ws_row_collective *row)
{
	const struct ws_nccl_choice *choice = find_choice(nccl, batch, call, row->rank, false);

	if (!choice && !batch->captured)
		choice = find_choice(nccl, batch, call, row->rank, true);
	if (choice) {
		row->event = choice->number;
		call->choice = *choice;
		ws_nccl_use_choice(&nccl->choices, choice);
	}
	row->algorithm = call->choice.algorithm;
	row->protocol = call->choice.protocol;
	if (call->choice.channels)
		row->channels = call->choice.channels;
}

/* Whether it is known how its calls were done, or nothing will be known. */
static bool has_choices(struct ws_nccl *nccl, struct batch *batch)
{
	if (!nccl->has_choices || batch->rounds++ >= ROUNDS)
		return true;
	for (size_t i = 0; i < batch->count; i++)
		if (!find_choice(nccl, batch, &batch->calls[i], -1, false))
			return false;
	return true;
}

/* The operation with its size: AllReduce 128 MiB. */
static uint32_t intern_label(const struct ws_nccl_out *out, const struct operation_call *call)
{
	const char *name = ws_nccl_name_operation(call->operation);
	char label[64];

	if (!ws_nccl_knows(&call->facts, WS_NCCL_BYTES))
		return intern_text(out, name);
	ws_nccl_write_label(label, sizeof(label), name, get_bytes(call));
	return intern_text(out, label);
}

struct asked { /* a call, and who made it */
	const struct nccl_thread *thread;
	const struct batch *batch;
	struct operation_call *call;
};

/* Put the row of a call that was done by `kernel`, NULL: by none. */
static void put_call(struct ws_nccl *nccl, const struct asked *asked,
		     const struct ws_nccl_kernel *kernel, const struct ws_nccl_out *out)
{
	struct operation_call *call = asked->call;
	struct ws_row_collective row = make_row(out, kernel);

	if (!kernel) {
		row.start = call->start;
		row.end = call->end;
	}
	row.name = intern_text(out, ws_nccl_name_operation(call->operation));
	row.label = intern_label(out, call);
	row.thread = asked->thread->id;
	row.call_start = call->start;
	row.call_end = call->end;
	if (!kernel || kernel->node == WS_NO_U64) /* a graph may be launched often */
		row.sequence = call->sequence;
	if (ws_nccl_knows(&call->facts, WS_NCCL_BYTES))
		row.bytes = call->facts.values[WS_NCCL_BYTES];
	if (ws_nccl_knows(&call->facts, WS_NCCL_REDUCTION))
		row.reduction =
			intern_text(out, name_reduction(call->facts.values[WS_NCCL_REDUCTION]));
	fill_group(nccl, call, out, &row);
	fill_ends(call, &row);
	fill_choice(nccl, asked->batch, call, &row);
	out->put(out->ctx, &row);
}

static void put_batch(struct ws_nccl *nccl, const struct nccl_thread *thread, struct batch *batch,
		      const struct ws_nccl_out *out)
{
	match_batch(batch);
	for (size_t i = 0; i < batch->count && !batch->captured; i++) {
		struct operation_call *call = &batch->calls[i];
		const struct ws_nccl_kernel *kernel =
			call->kernel ? &batch->kernels[call->kernel - 1] : NULL;

		put_call(nccl, &(struct asked){thread, batch, call}, kernel, out);
	}
	for (uint32_t i = 0; i < batch->kernel_count; i++) {
		bool used = false;

		for (size_t j = 0; j < batch->count && !used; j++)
			used = batch->calls[j].kernel == i + 1;
		if (!used)
			put_alone(&batch->kernels[i], out);
	}
	free_batch(batch);
	batch->done = true;
}

static bool is_of_batch(const struct graph_node *node, const struct graph_node *like,
			const struct batch *batch)
{
	return node->thread == like->thread && !node->original && node->start >= batch->start &&
	       (!batch->end || node->start <= batch->end);
}

/* How many kernels the batch has added to a graph, and, in *number, how many of them before this
 * one. They follow each other. */
static size_t count_nodes(const struct ws_nccl *nccl, const struct batch *batch,
			  const struct graph_node *node, size_t *number)
{
	const struct graph_node *from = node, *to = node + 1;

	while (from > nccl->nodes && is_of_batch(from - 1, node, batch))
		from--;
	while (to < nccl->nodes + nccl->node_count && is_of_batch(to, node, batch))
		to++;
	*number = (size_t)(node - from);
	return (size_t)(to - from);
}

/* Put the calls that the kernel of a graph does each time that it runs: as those of other kernels
 * of a batch, the larger come first. */
static void put_graph_kernel(struct ws_nccl *nccl, const struct ws_nccl_kernel *kernel,
			     const struct ws_nccl_out *out)
{
	const struct graph_node *node = find_first_node(nccl, kernel->node);
	const struct nccl_thread *thread = find_thread(nccl, node->thread);
	struct batch *batch = find_batch(thread, node->start);
	struct operation_call **calls = ws_calloc(batch->count + 1, sizeof(*calls));
	size_t number, nodes = count_nodes(nccl, batch, node, &number), count = 0, put = 0;

	for (size_t i = 0; i < batch->count; i++)
		if (does_operation(kernel, batch->calls[i].operation))
			calls[count++] = &batch->calls[i];
	if (count)
		qsort(calls, count, sizeof(*calls), compare_bytes);
	for (size_t i = 0; i < count; i++) {
		if (count > 1 && i * ws_max(nodes, (size_t)1) / ws_max(count, nodes) != number)
			continue;
		put_call(nccl, &(struct asked){thread, batch, calls[i]}, kernel, out);
		put++;
	}
	if (!put)
		put_alone(kernel, out);
	free(calls);
}

/* Whether the sizes of all communicators are known. NCCL reports some of them only when they are
 * destroyed. */
static bool knows_communicators(const struct ws_nccl *nccl, const struct batch *batch)
{
	for (size_t i = 0; i < batch->count; i++) {
		const struct ws_nccl_facts *facts = &batch->calls[i].facts;

		if (ws_nccl_knows(facts, WS_NCCL_COMMUNICATOR) &&
		    find_communicator(nccl, facts->values[WS_NCCL_COMMUNICATOR], WS_NO_U32).ranks ==
			    WS_NO_U32)
			return false;
	}
	return true;
}

static bool is_complete(struct ws_nccl *nccl, const struct nccl_thread *thread, struct batch *batch)
{
	if (!batch->end || !batch->kernel_count || !knows_communicators(nccl, batch))
		return false;
	if (batch->kernel_count < batch->count &&
	    thread->with_kernels <= batch->number + LATER_BATCHES)
		return false;
	return has_choices(nccl, batch);
}

static void put_thread(struct ws_nccl *nccl, struct nccl_thread *thread,
		       const struct ws_nccl_out *out, bool all)
{
	for (size_t i = thread->first; i < thread->count; i++) {
		struct batch *batch = &thread->batches[i];
		uint64_t start = batch->start, end = batch->end;

		if (batch->done)
			continue;
		if (!all && !is_complete(nccl, thread, batch) && thread->count - i <= BATCHES_MOST)
			continue;
		put_batch(nccl, thread, batch, out);
		batch->start = start; /* for the search */
		batch->end = end;
	}
	while (thread->first < thread->count && thread->batches[thread->first].done)
		thread->first++;
	if (all)
		thread->first = thread->count = thread->depth = 0;
}

void ws_nccl_put_rows(struct ws_nccl *nccl, const struct ws_nccl_out *out, bool all)
{
	size_t kept = 0;

	for (size_t i = 0; i < nccl->waiting_count; i++) {
		struct waiting_kernel waiting = nccl->waiting[i];
		bool crowded = nccl->waiting_count - i > WAITING_MOST;
		enum fate fate = place_kernel(nccl, &waiting, all || crowded);

		waiting.rounds++;
		if (fate == ALONE)
			put_alone(&waiting.kernel, out);
		else if (fate == CAPTURED)
			put_graph_kernel(nccl, &waiting.kernel, out);
		else if (fate == WAITS)
			nccl->waiting[kept++] = waiting;
	}
	nccl->waiting_count = kept;
	for (size_t i = 0; i < nccl->thread_count; i++)
		put_thread(nccl, &nccl->threads[i], out, all);
}
