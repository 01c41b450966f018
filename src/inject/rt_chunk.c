/* rt_chunk.c - memory to write into: chunks of the arena, waiting for them, and rings. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "base/choose.h"
#include "inject/rt_state.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static bool recorder_gone(struct ws_arena *arena)
{
	if (atomic_load_explicit(&arena->closed, memory_order_acquire))
		return true;
	/* The recorder's heartbeat comes many times a second, so the kernel is asked only after a
	 * second without one. */
	if (ws_rt_read_ticks() - atomic_load_explicit(&arena->heartbeat, memory_order_relaxed) <
	    arena->ticks_per_second)
		return false;
	/* In another pid namespace its pid means nothing: then only `closed` tells. */
	return arena->recorder_pid_ns == ws_rt_kept.pid_ns &&
	       SYS3(SYS_kill, arena->recorder_pid, 0, 0) == -3 /* ESRCH */;
}

bool ws_rt_is_over(void)
{
	struct ws_arena *arena = ws_rt_kept.arena;

	if (atomic_load_explicit(&arena->over, memory_order_relaxed))
		return true;
	return ws_rt_kept.sandboxed ? atomic_load(&arena->closed) : recorder_gone(arena);
}

/* Put memory behind the next MiB without a descriptor: by what this process has mapped. */
static int populate_arena(struct ws_arena *arena)
{
	const uint32_t end = arena->chunk_first + arena->chunk_count;
	uint32_t backed = atomic_load_explicit(&arena->chunk_backed, memory_order_acquire);
	uint32_t want = ws_min(backed + WS_REGION_CHUNKS, end);

	while (ws_rt_count_mapped_chunks() < want && ws_rt_map_more(arena))
		;
	if (backed >= end || ws_rt_count_mapped_chunks() < want ||
	    SYS3(SYS_madvise, ws_chunk_at(arena, backed), (uint64_t)(want - backed) * WS_CHUNK_SIZE,
		 MADV_POPULATE_WRITE))
		return -1;
	ws_raise_backed(arena, backed, want);
	return 0;
}

static int extend_arena(struct ws_arena *arena)
{
	long fd;
	int r;

	if (atomic_load_explicit(&arena->chunk_backed, memory_order_relaxed) >=
	    arena->chunk_first + arena->chunk_count)
		return -1; /* the budget is spent: every event takes this path from now on, so no
			      system call */
	fd = ws_rt_open_directly();
	if (fd < 0)
		return populate_arena(arena);
	r = ws_extend_arena(arena, (int)fd, (1u << 20) / WS_CHUNK_SIZE);
	SYS1(SYS_close, fd);
	return r;
}

uint32_t ws_rt_take_chunk(void)
{
	struct ws_arena *arena = ws_rt_kept.arena;
	uint32_t chunk = ws_take_chunk(arena, ws_rt_count_mapped_chunks());

	while (chunk == WS_CHUNK_NONE && ws_rt_has_more_to_map(arena) && ws_rt_map_more(arena))
		chunk = ws_take_chunk(arena, ws_rt_count_mapped_chunks());
	return chunk;
}

/*
 * A writer that waits for memory waits for the recorder to give chunks back. It never gives back
 * the chunks that threads and processes hold while they live. If these have taken all available
 * chunks (many threads, little memory or address space), the wait would never end.
 */
struct patience {
	uint64_t sum, since; /* ticks since when no chunk has been taken or given back */
	uint64_t beat;	     /* of the recorder, last seen */
	uint32_t beats, polls;
};

#define POLLS_A_LOOK 64u /* some 16 ms */
#define ROUNDS_WAITED 8u

/* A number that changes whenever a chunk that this process could use has been taken or given back.
 */
static uint64_t sum_free_lists(const struct ws_arena *arena)
{
	uint32_t end = ws_min(ws_rt_count_mapped_chunks(), WS_MAX_CHUNKS) / WS_REGION_CHUNKS;
	uint64_t sum = atomic_load_explicit(&arena->chunk_next, memory_order_relaxed);

	for (uint32_t region = 0; region < end; region++)
		sum += atomic_load_explicit(&arena->free_heads[region], memory_order_relaxed) >> 32;
	return sum + 1;
}

/* Whether the recorder has made rounds for a second without giving a chunk back. */
static bool is_wait_useless(const struct ws_arena *arena, struct patience *patience)
{
	uint64_t beat = atomic_load_explicit(&arena->heartbeat, memory_order_relaxed);
	uint64_t sum, now;

	patience->beats += beat != patience->beat;
	patience->beat = beat;
	if (patience->polls++ % POLLS_A_LOOK)
		return false;
	sum = sum_free_lists(arena);
	now = ws_rt_read_ticks();
	if (sum == atomic_load_explicit(&ws_rt_kept.stuck, memory_order_relaxed))
		return true;
	if (sum != patience->sum) {
		*patience = (struct patience){.sum = sum, .since = now, .beat = beat, .polls = 1};
		return false;
	}
	if (patience->beats < ROUNDS_WAITED || now - patience->since < arena->ticks_per_second)
		return false;
	atomic_store_explicit(&ws_rt_kept.stuck, sum, memory_order_relaxed);
	return true;
}

/* Get a chunk by whatever means there is; WS_CHUNK_NONE when the budget is spent or the recorder
 * has gone. */
uint32_t ws_rt_get_chunk(struct ws_arena *arena)
{
	uint32_t chunk = ws_rt_take_chunk();
	struct patience patience = {0};

	while (chunk == WS_CHUNK_NONE) {
		struct timespec pause = {0, 200000};

		wake_recorder(arena);
		if (ws_rt_kept.sandboxed)
			break;
		if (!ws_rt_has_more_to_map(arena) && !extend_arena(arena)) {
			chunk = ws_rt_take_chunk();
			continue;
		}
		chunk = ws_rt_take_chunk();
		if (chunk != WS_CHUNK_NONE)
			break;
		if (recorder_gone(arena)) {
			/* Nobody will ever read this: stop every hook of the session. */
			atomic_store_explicit(&arena->collecting, 0, memory_order_relaxed);
			atomic_store_explicit(
				&arena->closed, 1,
				memory_order_release); /* no one need find out again */
			break;
		}
		if (!arena->lossless ||
		    !atomic_load_explicit(&arena->collecting, memory_order_relaxed) ||
		    is_wait_useless(arena, &patience))
			break;
		SYS3(SYS_nanosleep, &pause, NULL, 0);
		chunk = ws_rt_take_chunk();
	}
	return chunk;
}

struct ws_ring *ws_rt_make_ring(struct ws_rt *rt, uint32_t tid, uint32_t nest)
{
	uint32_t index = ws_rt_get_chunk(rt->arena);
	struct ws_ring *ring;
	int slot;

	if (index == WS_CHUNK_NONE)
		return NULL;
	ring = ws_chunk_at(rt->arena, index);
	memset((char *)ring + sizeof(ring->chunk), 0, sizeof(*ring) - sizeof(ring->chunk));
	ring->bunch.open = WS_BUNCH_NOT_OPEN;
	ring->chunk.kind = WS_CHUNK_RING;
	atomic_store_explicit(&ring->chunk.used, WS_RING_DATA, memory_order_relaxed);
	ring->process_home = rt->home->chunk.self;
	ring->pid = rt->home->pid;
	ring->tid = tid;
	ring->nest = nest;
	ring->start = ws_rt_read_ticks();
	slot = ws_add_to_directory(rt->arena, index);
	if (slot < 0) {
		ws_give_chunk(rt->arena, index);
		return NULL;
	}
	ring->slot = (uint32_t)slot;
	wake_recorder(rt->arena);
	return ring;
}
