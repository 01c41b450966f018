/*
 * ring.c - handing out chunks of the arena. Used on both sides: lock-free, async-signal-safe, no C
 * library beyond fallocate.
 *
 * The free lists, one per region, are stacks whose heads carry a tag against ABA; their links live
 * in the arena's header, not in the chunks, so that a racing reader of a stale link reads a number
 * and never someone's data. A process killed between taking a chunk and linking it loses that chunk
 * until the session ends: 16 KiB. In return, no process ever waits for another.
 */
#include "ring/ring.h"

#include <limits.h>
#include <linux/futex.h>

#include "ring/record.h"
#include "ring/syscall.h"

static uint32_t pop_free_chunk(struct ws_arena *arena, uint32_t region)
{
	_Atomic uint64_t *list = &arena->free_heads[region];
	uint64_t head = atomic_load_explicit(list, memory_order_acquire);

	for (;;) {
		uint32_t chunk = (uint32_t)head, next;

		if (chunk == WS_CHUNK_NONE || chunk / WS_REGION_CHUNKS != region)
			return WS_CHUNK_NONE;
		next = atomic_load_explicit(&arena->free_next[chunk], memory_order_relaxed);
		if (atomic_compare_exchange_weak_explicit(
			    list, &head, ((head >> 32) + 1) << 32 | next, memory_order_acq_rel,
			    memory_order_acquire))
			return chunk;
	}
}

static uint32_t take_free_chunk(struct ws_arena *arena, uint32_t end)
{
	uint32_t used = atomic_load_explicit(&arena->chunk_next, memory_order_relaxed);
	uint32_t chunk = WS_CHUNK_NONE;

	if (end > used)
		end = used;
	if (end > WS_MAX_CHUNKS)
		end = WS_MAX_CHUNKS;
	for (uint32_t region = arena->chunk_first / WS_REGION_CHUNKS;
	     !chunk && region * WS_REGION_CHUNKS < end; region++)
		if ((uint32_t)atomic_load_explicit(&arena->free_heads[region],
						   memory_order_relaxed))
			chunk = pop_free_chunk(arena, region);
	return chunk;
}

static uint32_t take_new_chunk(struct ws_arena *arena, uint32_t end)
{
	uint32_t next = atomic_load_explicit(&arena->chunk_next, memory_order_relaxed);

	while (next < end &&
	       next < atomic_load_explicit(&arena->chunk_backed, memory_order_acquire))
		if (atomic_compare_exchange_weak_explicit(&arena->chunk_next, &next, next + 1,
							  memory_order_relaxed,
							  memory_order_relaxed))
			return next;
	return WS_CHUNK_NONE;
}

uint32_t ws_take_chunk(struct ws_arena *arena, uint32_t end)
{
	uint32_t chunk = take_free_chunk(arena, end);
	struct ws_chunk *chunk_c;

	if (chunk == WS_CHUNK_NONE)
		chunk = take_new_chunk(arena, end);
	if (chunk == WS_CHUNK_NONE)
		return WS_CHUNK_NONE;
	chunk_c = ws_chunk_at(arena, chunk);
	atomic_store_explicit(&chunk_c->next, WS_CHUNK_NONE, memory_order_relaxed);
	atomic_store_explicit(&chunk_c->used, sizeof(*chunk_c), memory_order_relaxed);
	chunk_c->self = chunk;
	chunk_c->kind = WS_CHUNK_DATA;
	return chunk;
}

void ws_give_chunk(struct ws_arena *arena, uint32_t chunk)
{
	_Atomic uint64_t *list = &arena->free_heads[chunk / WS_REGION_CHUNKS % WS_REGIONS];
	uint64_t head = atomic_load_explicit(list, memory_order_relaxed);

	do {
		atomic_store_explicit(&arena->free_next[chunk], (uint32_t)head,
				      memory_order_relaxed);
	} while (!atomic_compare_exchange_weak_explicit(
		list, &head, ((head >> 32) + 1) << 32 | chunk, memory_order_acq_rel,
		memory_order_relaxed));
}

static long sys_fallocate(int fd, uint64_t offset, uint64_t len)
{
	return ws_syscall(SYS_fallocate, fd, 0, (long)offset, (long)len, 0, 0);
}

int ws_extend_arena(struct ws_arena *arena, int fd, uint32_t chunks)
{
	return ws_extend_arena_below(arena, fd, chunks, arena->chunk_first + arena->chunk_count);
}

void ws_raise_backed(struct ws_arena *arena, uint32_t backed, uint32_t want)
{
	/* If another process has advanced further meanwhile, its value stays. */
	while (backed < want &&
	       !atomic_compare_exchange_weak_explicit(&arena->chunk_backed, &backed, want,
						      memory_order_release, memory_order_acquire))
		;
}

int ws_extend_arena_below(struct ws_arena *arena, int fd, uint32_t chunks, uint32_t end)
{
	uint32_t backed = atomic_load_explicit(&arena->chunk_backed, memory_order_acquire);
	uint32_t want;

	if (backed >= end)
		return -1;
	want = end - backed < chunks ? end : backed + chunks;
	if (sys_fallocate(fd, (uint64_t)backed * WS_CHUNK_SIZE,
			  (uint64_t)(want - backed) * WS_CHUNK_SIZE))
		return -1;
	ws_raise_backed(arena, backed, want);
	return 0;
}

int ws_take_buffer(struct ws_arena *arena, int fd, uint32_t home)
{
	for (uint32_t i = 0; i < arena->buffer_count; i++) {
		uint32_t nobody = 0;

		if (atomic_load_explicit(&arena->buffers[i].owner, memory_order_relaxed) ||
		    !atomic_compare_exchange_strong_explicit(&arena->buffers[i].owner, &nobody,
							     home, memory_order_acq_rel,
							     memory_order_relaxed))
			continue;
		atomic_store_explicit(&arena->buffers[i].done, 0, memory_order_relaxed);
		/* Asking again for memory that is already allocated costs nothing. */
		if (!sys_fallocate(fd, ((uint64_t)arena->buffer_first + i) * WS_BUFFER_SIZE,
				   WS_BUFFER_SIZE))
			return (int)i;
		atomic_store_explicit(&arena->buffers[i].owner, 0, memory_order_release);
		return -1;
	}
	return -1;
}

int ws_add_to_directory(struct ws_arena *arena, uint32_t chunk)
{
	uint32_t used = atomic_load_explicit(&arena->dir_used, memory_order_relaxed);
	/* Slots become free in no order. Start at a place that depends on the chunk, so that many
	 * threads do not all begin at slot 0. */
	uint32_t from = used ? chunk % used : 0;

	for (uint32_t i = 0; i < used; i++) {
		uint32_t slot = (from + i) % used, empty = 0;

		if (!atomic_load_explicit(&arena->directory[slot], memory_order_relaxed) &&
		    atomic_compare_exchange_strong_explicit(&arena->directory[slot], &empty, chunk,
							    memory_order_release,
							    memory_order_relaxed))
			return (int)slot;
	}
	for (uint32_t slot = used; slot < WS_DIR_SLOTS; slot++) {
		uint32_t empty = 0;

		if (atomic_compare_exchange_strong_explicit(&arena->directory[slot], &empty, chunk,
							    memory_order_release,
							    memory_order_relaxed)) {
			uint32_t seen =
				atomic_load_explicit(&arena->dir_used, memory_order_relaxed);

			while (seen < slot + 1 &&
			       !atomic_compare_exchange_weak_explicit(
				       &arena->dir_used, &seen, slot + 1, memory_order_release,
				       memory_order_relaxed))
				;
			return (int)slot;
		}
	}
	return -1;
}

void ws_switch_collecting(struct ws_arena *arena, bool on)
{
	bool counter = arena->clock_mode == WS_CLOCK_COUNTER;

	if (!on)
		atomic_store_explicit(&arena->heartbeat,
				      counter ? ws_read_counter() : ws_read_raw_ns(),
				      memory_order_relaxed);
	atomic_store_explicit(&arena->collecting, on, memory_order_release);
	ws_syscall(SYS_futex, (long)&arena->collecting, FUTEX_WAKE, INT_MAX, 0, 0, 0);
}
