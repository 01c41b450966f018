/* mpi.c - see mpi.h. */
#include "inject/mpi.h"

#include <limits.h>

#include "base/choose.h"
#include "schema/schema.h"

/* ---- which implementation ---- */

/* tests/libraries compares these with the headers. */

static const struct ws_mpi_abi open_mpi = {
	.proc_null = -2,
	.any_source = -1,
	.root = -4,
	.in_place = 1,
	.status_ignore = 0,
	.source_at = 0,
	.tag_at = 4,
	.count_at = 16,
	.handle_bits = UINT64_MAX,
	.pointers = true,
};

/* The ABI of MPI 5, which implementations provide in a separate library. */
static const struct ws_mpi_abi standard = {
	.proc_null = -3,
	.any_source = -1,
	.root = -4,
	.in_place = 1,
	.status_ignore = 0,
	.source_at = 0,
	.tag_at = 4,
	.least_source = INT_MAX,
	.handle_bits = UINT64_MAX,
	.pointers = true,
	.asks_count = true,
};

static const struct ws_mpi_abi mpich = {
	.proc_null = -1,
	.any_source = -2,
	.root = -3,
	.in_place = -1,
	.status_ignore = 1,
	.source_at = 8,
	.tag_at = 12,
	.handle_bits = UINT32_MAX,
};

enum { MPICH_WORLD = 0x44000000, MPICH_NO_COMM = 0x04000000 };
enum { STANDARD_WORLD = 0x101, STANDARD_NO_COMM = 0x100, STANDARD_BYTE = 0x247 };

typedef int ask_one(mpi_handle, int *);
typedef int ask_handle(mpi_handle, void *);
typedef int translate_ranks(mpi_handle, int, const int *, mpi_handle, int *);

static struct {
	ask_one *type_size, *comm_size, *comm_rank, *test_inter, *group_size;
	ask_handle *comm_group;
	translate_ranks *translate;
	int (*group_free)(void *);
	int (*get_count)(const void *, mpi_handle, int *);
	int (*envelope)(mpi_handle, int *, int *, int *, int *);
	mpi_handle world, no_comm;
} mpi;

/* Determine the ABI and the handles used to query it. */
static const struct ws_mpi_abi *choose_abi(void)
{
	void *world = ws_library_find_variable("ompi_mpi_comm_world");

	if (ws_library_is_in("PMPI_Init", "libmpi_abi.so")) {
		mpi.world = STANDARD_WORLD;
		mpi.no_comm = STANDARD_NO_COMM;
		return &standard;
	}
	if (world) {
		mpi.world = (mpi_handle)world;
		mpi.no_comm = (mpi_handle)ws_library_find_variable("ompi_mpi_comm_null");
		return &open_mpi;
	}
	mpi.world = MPICH_WORLD;
	mpi.no_comm = MPICH_NO_COMM;
	return &mpich;
}

/* --mpi-impl only says what the user expects. */
static void say_unexpected(const struct ws_mpi_abi *abi)
{
	uint32_t expected = ws_rt->arena ? ws_rt->arena->mpi : 0;

	if (expected == WS_MPI_OPEN && abi != &open_mpi)
		ws_rt_write_diagnostic(WS_WARNING, "mpi",
				       "--mpi-impl=openmpi: the program uses MPICH or a library "
				       "with its ABI, or that of MPI 5. Its calls are recorded.");
	if (expected == WS_MPI_MPICH && abi == &open_mpi)
		ws_rt_write_diagnostic(WS_WARNING, "mpi",
				       "--mpi-impl=mpich: the program uses Open MPI. Its calls are "
				       "recorded.");
}

struct ws_mpi_abi ws_mpi_abi;

void ws_mpi_prepare(void)
{
	static _Atomic bool prepared;
	const struct ws_mpi_abi *abi;

	if (atomic_load(&prepared))
		return;
	abi = choose_abi();
	mpi.type_size = ws_library_find("PMPI_Type_size");
	mpi.comm_size = ws_library_find("PMPI_Comm_size");
	mpi.comm_rank = ws_library_find("PMPI_Comm_rank");
	mpi.test_inter = ws_library_find("PMPI_Comm_test_inter");
	mpi.comm_group = ws_library_find("PMPI_Comm_group");
	mpi.group_size = ws_library_find("PMPI_Group_size");
	mpi.translate = ws_library_find("PMPI_Group_translate_ranks");
	mpi.group_free = ws_library_find("PMPI_Group_free");
	mpi.get_count = ws_library_find("PMPI_Get_count");
	mpi.envelope = ws_library_find("PMPI_Type_get_envelope");
	ws_mpi_abi = *abi;
	if (!atomic_exchange(&prepared, true))
		say_unexpected(abi);
}

static inline bool has_pointers(void)
{
	return ws_mpi_abi.pointers;
}

/* ---- handles and special values ---- */

/* Entry `i` of an array of handles. */
static mpi_handle load_handle(const void *handles, size_t i)
{
	uintptr_t pointer;

	if (!has_pointers())
		return (uint32_t)ws_mpi_load_int(handles, i * sizeof(int));
	memcpy(&pointer, (const char *)handles + i * sizeof(pointer), sizeof(pointer));
	return pointer;
}

int64_t ws_mpi_name_special_peer(int rank)
{
	if (rank == ws_mpi_abi.proc_null)
		return -1;
	if (rank == ws_mpi_abi.any_source)
		return -2;
	return rank == ws_mpi_abi.root ? -3 : rank;
}

bool ws_mpi_is_in_place(const void *buffer)
{
	return (intptr_t)buffer == ws_mpi_abi.in_place;
}

/* ---- bytes ---- */

/* The first entry is not that of handle 0. */
_Atomic uint64_t ws_mpi_sizes[WS_MPI_SIZES] = {1 << 16};

enum { OPEN_MPI_NAMED = 0 }; /* MPI_COMBINER_NAMED */

static bool is_predefined(mpi_handle type)
{
	int integers, addresses, types, combiner = -1;

	return has_pointers() && !ws_mpi_abi.asks_count && mpi.envelope &&
	       !mpi.envelope(type, &integers, &addresses, &types, &combiner) &&
	       combiner == OPEN_MPI_NAMED;
}

static void keep_size(mpi_handle type, int size)
{
	if (type && type >> 48 == 0 && size <= UINT16_MAX)
		atomic_store_explicit(&ws_mpi_sizes[ws_mpi_size_slot(type)],
				      (uint64_t)type << 16 | (uint64_t)size, memory_order_relaxed);
}

int64_t ws_mpi_find_size(mpi_handle type)
{
	int size = 0;

	/* MPICH encodes the sizes of its predefined types in their handles. */
	if (!has_pointers() && (type & 0xffff0000u) == 0x4c000000u)
		size = (int)(type >> 8 & 0xff);
	else if (!mpi.type_size || mpi.type_size(type, &size) || size < 0)
		return WS_LIBRARY_NONE;
	else if (!is_predefined(type))
		return size;
	keep_size(type, size);
	return size;
}

static int ask_comm(ask_one *question, mpi_handle comm)
{
	int answer = 0;

	return question && !question(comm, &answer) ? answer : 0;
}

static int count_ranks(mpi_handle comm)
{
	return ask_comm(mpi.comm_size, comm);
}

/* How many ranks a call of a collective addresses: for an intercommunicator, the size of the other
 * group. */
static int count_others(mpi_handle comm)
{
	static ask_one *remote_size;

	if (!ask_comm(mpi.test_inter, comm))
		return count_ranks(comm);
	if (!remote_size)
		remote_size = ws_library_find("PMPI_Comm_remote_size");
	return ask_comm(remote_size, comm);
}

int64_t ws_mpi_times(mpi_handle comm, int64_t bytes)
{
	return bytes > 0 ? bytes * count_others(comm) : bytes;
}

int64_t ws_mpi_sum(int result, mpi_handle comm, const int *counts, mpi_handle type)
{
	int64_t sum = 0;

	if (result || !counts)
		return WS_LIBRARY_NONE;
	for (int i = 0, n = count_others(comm); i < n; i++)
		sum += counts[i];
	return ws_mpi_bytes(result, sum, type);
}

int64_t ws_mpi_sum_typed(int result, mpi_handle comm, const int *counts, const void *types)
{
	int64_t sum = 0;

	if (result || !counts || !types)
		return WS_LIBRARY_NONE;
	for (int i = 0, n = count_others(comm); i < n; i++) {
		/* a null type is allowed where nothing is sent */
		int64_t bytes =
			counts[i] ? ws_mpi_bytes(0, counts[i], load_handle(types, (size_t)i)) : 0;

		if (bytes == WS_LIBRARY_NONE)
			return bytes;
		sum += bytes;
	}
	return sum;
}

int64_t ws_mpi_own_part(int result, mpi_handle comm, const int *counts, mpi_handle type)
{
	if (result || !counts)
		return WS_LIBRARY_NONE;
	return ws_mpi_bytes(result, counts[ask_comm(mpi.comm_rank, comm)], type);
}

bool ws_mpi_is_root(mpi_handle comm, int root)
{
	if (root < 0)
		return root == ws_mpi_abi.root;
	if (ask_comm(mpi.test_inter, comm))
		return false;
	return ask_comm(mpi.comm_rank, comm) == root;
}

int64_t ws_mpi_bytes_at_root(int result, mpi_handle comm, int root, int64_t count, mpi_handle type)
{
	return ws_mpi_is_root(comm, root) ? ws_mpi_bytes(result, count, type) : 0;
}

int64_t ws_mpi_sum_at_root(int result, mpi_handle comm, int root, const int *counts,
			   mpi_handle type)
{
	return ws_mpi_is_root(comm, root) ? ws_mpi_sum(result, comm, counts, type) : 0;
}

/* ---- statuses ---- */

int64_t ws_mpi_count_bytes(const void *status, int source)
{
	int bytes = 0;

	if (source == ws_mpi_abi.proc_null)
		return 0;
	if (!ws_mpi_abi.asks_count)
		return ws_mpi_load_count(status);
	if (!mpi.get_count || mpi.get_count(status, STANDARD_BYTE, &bytes) || bytes < 0)
		return WS_LIBRARY_NONE;
	return bytes;
}

/* ---- requests ---- */

int64_t ws_mpi_request(int result, const void *request)
{
	return result || !request ? WS_LIBRARY_NONE : (int64_t)load_handle(request, 0);
}

int64_t ws_mpi_hold(struct ws_mpi_requests *held, int count, const void *requests)
{
	held->count = requests ? (unsigned)ws_max(0, ws_min(count, (int)WS_MPI_HELD)) : 0;
	for (unsigned i = 0; i < held->count; i++)
		held->handle[i] = load_handle(requests, i);
	return count == 1 && held->count ? (int64_t)held->handle[0] : WS_LIBRARY_NONE;
}

int64_t ws_mpi_get_held(const struct ws_mpi_requests *held, bool done, int index)
{
	if (!done || index < 0 || (unsigned)index >= held->count)
		return WS_LIBRARY_NONE;
	return (int64_t)held->handle[index];
}

void ws_mpi_begin_work(const struct ws_library_call *call, int result, const void *request)
{
	uint64_t handle;

	if (result || !request)
		return;
	handle = load_handle(request, 0);
	ws_library_write_work(call, true, &handle, 1);
}

void ws_mpi_begin_all(const struct ws_library_call *call, int result, int count,
		      const void *requests)
{
	struct ws_mpi_requests held;

	if (result)
		return;
	ws_mpi_hold(&held, count, requests);
	ws_library_write_work(call, true, held.handle, held.count);
}

void ws_mpi_end_one(const struct ws_library_call *call, bool done, int64_t request)
{
	uint64_t handle = (uint64_t)request;

	if (done && request != WS_LIBRARY_NONE)
		ws_library_write_work(call, false, &handle, 1);
}

void ws_mpi_end_all(const struct ws_library_call *call, bool done,
		    const struct ws_mpi_requests *held)
{
	if (done)
		ws_library_write_work(call, false, held->handle, held->count);
}

void ws_mpi_end_some(const struct ws_library_call *call, bool done,
		     const struct ws_mpi_requests *held, int count, const int *indices)
{
	uint64_t ended[WS_MPI_HELD];
	unsigned n = 0;

	/* MPI_UNDEFINED, a negative number, when there was nothing to wait for */
	for (int i = 0; done && i < count && n < WS_MPI_HELD; i++)
		if (indices[i] >= 0 && (unsigned)indices[i] < held->count)
			ended[n++] = held->handle[indices[i]];
	ws_library_write_work(call, false, ended, n);
}

/* ---- ranks and communicators ---- */

/* Ranks as people write them: 0-3,7. The list ends with a comma if some did not fit. */
#define MEMBERS_ROOM 4000
#define MEMBERS_AT_ONCE 256

struct members {
	char text[MEMBERS_ROOM];
	size_t length;
	int first, last; /* the current stretch; first is -1 when there is none */
	int root;	 /* rank 0 in the world */
};

static void put_number(struct members *members, int number)
{
	char digits[12];
	size_t n = 0;

	do
		digits[n++] = (char)('0' + number % 10);
	while ((number /= 10) > 0);
	while (n)
		members->text[members->length++] = digits[--n];
}

static void put_stretch(struct members *members)
{
	if (members->first < 0 || members->length + 26 > MEMBERS_ROOM)
		return;
	if (members->length)
		members->text[members->length++] = ',';
	put_number(members, members->first);
	if (members->last > members->first) {
		members->text[members->length++] = '-';
		put_number(members, members->last);
	}
}

static void add_member(struct members *members, int rank)
{
	if (rank < 0) /* MPI_UNDEFINED: of another world */
		return;
	if (members->first >= 0 && rank == members->last + 1) {
		members->last = rank;
		return;
	}
	put_stretch(members);
	members->first = members->last = rank;
}

static void list_members(struct members *members, mpi_handle group, mpi_handle world_group, int n)
{
	int local[MEMBERS_AT_ONCE], global[MEMBERS_AT_ONCE];

	members->first = members->root = -1;
	members->length = 0;
	for (int from = 0; from < n; from += MEMBERS_AT_ONCE) {
		int count = ws_min(n - from, MEMBERS_AT_ONCE);

		for (int i = 0; i < count; i++)
			local[i] = from + i;
		if (mpi.translate(group, count, local, world_group, global))
			return;
		if (!from)
			members->root = global[0];
		for (int i = 0; i < count; i++)
			add_member(members, global[i]);
	}
	put_stretch(members);
	members->text[members->length] = 0;
}

/*
 * The number of this communicator among those with the same members. All members create these in
 * the same order, so the number is the same in each process. A slot holds a hash of the members and
 * a count.
 */
static int64_t number_alike(const struct members *members)
{
	static _Atomic uint64_t slots[1024];
	uint32_t hash = 5381;
	uint64_t old;

	for (size_t i = 0; i < members->length; i++)
		hash = hash * 33 + (unsigned char)members->text[i];
	for (unsigned i = 0; i < WS_COUNT(slots); i++) {
		_Atomic uint64_t *slot = &slots[(hash + i) % WS_COUNT(slots)];

		old = atomic_load_explicit(slot, memory_order_relaxed);
		while (!old || old >> 32 == hash)
			if (atomic_compare_exchange_weak(
				    slot, &old, ((uint64_t)hash << 32 | (uint32_t)old) + 1))
				return (int64_t)(uint32_t)old;
	}
	return WS_LIBRARY_NONE;
}

static void write_comm(mpi_handle comm, int64_t parent, const struct members *members)
{
	int64_t values[] = {
		ask_comm(mpi.comm_rank, mpi.world),
		0,
		ws_mpi_handle(comm),
		parent,
		ask_comm(mpi.comm_rank, comm),
		count_ranks(comm),
		members->root,
		number_alike(members),
		(int64_t)(uintptr_t)members->text,
	};

	ws_library_write_row(WS_LIBRARY_TABLE_MPI_COMMUNICATORS, values, WS_COUNT(values),
			     1u << (WS_COUNT(values) - 1));
}

static void note_comm(mpi_handle comm, int64_t parent)
{
	union {
		uintptr_t pointer;
		int number;
	} group = {0}, world_group = {0};
	struct members members;

	if (!mpi.comm_group || !mpi.translate || !mpi.group_free ||
	    mpi.comm_group(mpi.world, &world_group))
		return;
	if (!mpi.comm_group(comm, &group)) {
		list_members(&members, group.pointer, world_group.pointer, count_ranks(comm));
		write_comm(comm, parent, &members);
		mpi.group_free(&group);
	}
	mpi.group_free(&world_group);
}

void ws_mpi_note_start(int result)
{
	static _Atomic bool noted;
	int64_t values[2];

	if (result || !ws_rt->arena || atomic_exchange(&noted, true))
		return;
	values[0] = ask_comm(mpi.comm_rank, mpi.world);
	values[1] = count_ranks(mpi.world);
	ws_library_write_row(WS_LIBRARY_TABLE_MPI_RANKS, values, WS_COUNT(values), 0);
	note_comm(mpi.world, WS_LIBRARY_NONE);
}

void ws_mpi_note_comm(int result, mpi_handle parent, const void *comm)
{
	mpi_handle made;

	/* The outer call records this itself. */
	if (result || !comm || !ws_rt->arena || ws_library_is_inside())
		return;
	made = load_handle(comm, 0);
	if (made != mpi.no_comm)
		note_comm(made, ws_mpi_handle(parent));
}
