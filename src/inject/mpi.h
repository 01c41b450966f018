/*
 * mpi.h - what the wrappers of MPI's functions keep of their arguments; used by
 * libraries/mpi.calls.
 *
 * No header of MPI is needed, and one set of wrappers serves both ABIs. A handle is a pointer in
 * Open MPI and an int in MPICH: passing it on as a word is right for both, since an int is in the
 * lower half of the register or stack slot. Which of the two is loaded decides how handles, arrays
 * of them, statuses and special values are read. We call only those MPI functions that look
 * something up, by their PMPI names and only after the program's call has succeeded, so that no
 * call of ours can trigger the program's error handler.
 */
#ifndef WS_INJECT_MPI_H
#define WS_INJECT_MPI_H

#include "inject/library.h"

typedef uintptr_t mpi_handle;

/* As large as any implementation's status. */
struct ws_mpi_status {
	int64_t words[8];
};

#define WS_MPI_HELD WS_LIBRARY_MOST_ENDED
struct ws_mpi_requests {
	unsigned count;
	uint64_t handle[WS_MPI_HELD];
};

#pragma GCC visibility push(hidden)

/* ---- handles and special values ---- */

/* What differs between the ABIs; see mpi.c. */
struct ws_mpi_abi {
	int proc_null, any_source, root;
	intptr_t in_place, status_ignore;
	int least_source; /* of a status that says at count_at how much there was */
	size_t source_at, tag_at, count_at; /* in a status */
	uint64_t handle_bits;		    /* those of a word that are the handle's */
	bool pointers;			    /* handles are pointers, not ints */
	bool asks_count; /* only the library knows where a status holds the size */
};

/* That of the library that is loaded; known before one of its functions is called. */
extern struct ws_mpi_abi ws_mpi_abi;
void ws_mpi_prepare(void);

static WS_ALWAYS_INLINE int64_t ws_mpi_handle(mpi_handle handle)
{
	return (int64_t)(handle & ws_mpi_abi.handle_bits);
}

int64_t ws_mpi_name_special_peer(int rank) WS_NOINLINE;
/* A rank: -1 for MPI_PROC_NULL, -2 for MPI_ANY_SOURCE, -3 for MPI_ROOT. */
static WS_ALWAYS_INLINE int64_t ws_mpi_peer(int rank)
{
	return ws_likely(rank >= 0) ? rank : ws_mpi_name_special_peer(rank);
}
/* The error that a call returned; not known when it succeeded. */
static inline int64_t ws_mpi_error(int result)
{
	return ws_unlikely(result) ? result : WS_LIBRARY_NONE;
}

/* ---- bytes; not known where `result` says that the call failed ---- */

/* By the handles of predefined types: handle << 16 | size. Nobody can free these types. */
#define WS_MPI_SIZES 64u
extern _Atomic uint64_t ws_mpi_sizes[WS_MPI_SIZES];
int64_t ws_mpi_find_size(mpi_handle type) WS_NOINLINE;
static inline unsigned ws_mpi_size_slot(mpi_handle type)
{
	return (unsigned)(type ^ type >> 9) % WS_MPI_SIZES;
}
static WS_ALWAYS_INLINE int64_t ws_mpi_bytes(int result, int64_t count, mpi_handle type)
{
	uint64_t known =
		atomic_load_explicit(&ws_mpi_sizes[ws_mpi_size_slot(type)], memory_order_relaxed);
	int64_t size = (int64_t)(known & UINT16_MAX);

	if (ws_unlikely(result || count < 0))
		return WS_LIBRARY_NONE;
	if (ws_unlikely(known >> 16 != type))
		size = ws_mpi_find_size(type);
	return ws_likely(size != WS_LIBRARY_NONE) ? count * size : size;
}
/* The same of a message: 0 where the peer is MPI_PROC_NULL. */
static WS_ALWAYS_INLINE int64_t ws_mpi_sent(int result, int64_t count, mpi_handle type, int peer)
{
	return ws_unlikely(peer == ws_mpi_abi.proc_null) ? 0 : ws_mpi_bytes(result, count, type);
}
/* Whether it is MPI_IN_PLACE: if so, the other buffer's arguments describe the data. */
bool ws_mpi_is_in_place(const void *buffer);
/* Bytes summed over all ranks that this rank sends to or receives from in the call. */
int64_t ws_mpi_sum(int result, mpi_handle comm, const int *counts, mpi_handle type);
int64_t ws_mpi_sum_typed(int result, mpi_handle comm, const int *counts, const void *types);
/* This rank's part of those bytes. */
int64_t ws_mpi_own_part(int result, mpi_handle comm, const int *counts, mpi_handle type);
/* Times the number of ranks. */
int64_t ws_mpi_times(mpi_handle comm, int64_t bytes);
bool ws_mpi_is_root(mpi_handle comm, int root);
/* Arguments that count only at the root; 0 on other ranks. */
int64_t ws_mpi_bytes_at_root(int result, mpi_handle comm, int root, int64_t count, mpi_handle type);
int64_t ws_mpi_sum_at_root(int result, mpi_handle comm, int root, const int *counts,
			   mpi_handle type);
static inline int64_t ws_mpi_if(bool condition, int64_t bytes)
{
	return condition ? bytes : 0;
}
static inline int64_t ws_mpi_at_root(mpi_handle comm, int root, int64_t bytes)
{
	return ws_mpi_if(ws_mpi_is_root(comm, root), bytes);
}

/* ---- statuses ---- */

/* The caller's status, or `own` if it passes none. */
static WS_ALWAYS_INLINE void *ws_mpi_choose_status(void *status, struct ws_mpi_status *own)
{
	return (intptr_t)status == ws_mpi_abi.status_ignore ? (void *)own : status;
}

static WS_ALWAYS_INLINE int ws_mpi_load_int(const void *at, size_t offset)
{
	int value;

	memcpy(&value, (const char *)at + offset, sizeof(value));
	return value;
}

/* Where a message came from, and with which tag: as requested, if the call failed. */
static WS_ALWAYS_INLINE int64_t ws_mpi_source(int result, const void *status, int source)
{
	if (ws_unlikely(result))
		return ws_mpi_peer(source);
	source = ws_mpi_load_int(status, ws_mpi_abi.source_at);
	return ws_likely(source >= ws_mpi_abi.least_source) ? source
							    : ws_mpi_name_special_peer(source);
}
static WS_ALWAYS_INLINE int64_t ws_mpi_tag(int result, const void *status, int tag)
{
	return ws_unlikely(result) ? tag : ws_mpi_load_int(status, ws_mpi_abi.tag_at);
}

static WS_ALWAYS_INLINE int64_t ws_mpi_load_count(const void *status)
{
	uint64_t bytes;

	memcpy(&bytes, (const char *)status + ws_mpi_abi.count_at, sizeof(bytes));
	/* MPICH: the lowest bit of the upper word says that the message was cancelled. */
	if (ws_unlikely(bytes >> 32) && !ws_mpi_abi.pointers)
		bytes = (bytes & UINT32_MAX) | bytes >> 33 << 32;
	return (int64_t)bytes;
}
int64_t ws_mpi_count_bytes(const void *status, int source) WS_NOINLINE;
static WS_ALWAYS_INLINE int64_t ws_mpi_received(int result, const void *status, int source)
{
	if (ws_unlikely(result))
		return WS_LIBRARY_NONE;
	/* Of MPI_PROC_NULL, or in an ABI that does not say where the size is. */
	if (ws_unlikely(ws_mpi_load_int(status, ws_mpi_abi.source_at) < ws_mpi_abi.least_source))
		return ws_mpi_count_bytes(status, source);
	return ws_mpi_load_count(status);
}

/* ---- requests ---- */

/* The handle behind a pointer to a request. */
int64_t ws_mpi_request(int result, const void *request);
/* Copy those of an array before the call changes them; returns the only one, if there is one. */
int64_t ws_mpi_hold(struct ws_mpi_requests *held, int count, const void *requests);
int64_t ws_mpi_get_held(const struct ws_mpi_requests *held, bool done, int index);
void ws_mpi_begin_work(const struct ws_library_call *call, int result, const void *request);
void ws_mpi_begin_all(const struct ws_library_call *call, int result, int count,
		      const void *requests);
void ws_mpi_end_one(const struct ws_library_call *call, bool done, int64_t request);
void ws_mpi_end_all(const struct ws_library_call *call, bool done,
		    const struct ws_mpi_requests *held);
void ws_mpi_end_some(const struct ws_library_call *call, bool done,
		     const struct ws_mpi_requests *held, int count, const int *indices);

/* ---- ranks and communicators: rows of their own, also while nothing is collected ---- */

void ws_mpi_note_start(int result);
void ws_mpi_note_comm(int result, mpi_handle parent, const void *comm);

#pragma GCC visibility pop
#endif
