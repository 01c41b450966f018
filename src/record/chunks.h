/*
 * chunks.h - which process each chunk of the arena belongs to, in memory that only the recorder can
 * write.
 *
 * The target writes to the arena, so nothing read from it is trusted: not which chunk follows
 * another, not which process a chunk belongs to, not where the arena ends. A chunk is claimed when
 * it is first met, by the process through whose memory it was met. Until it is given back, no other
 * process can claim it or give it back. The contents of a chunk are copied out once, and the copy
 * is checked and used.
 */
#ifndef WS_RECORD_CHUNKS_H
#define WS_RECORD_CHUNKS_H

#include <string.h>

#include "record/arena.h"

struct ws_proc;

enum ws_chunk_use {
	WS_USE_UNKNOWN = 0, /* free, or used by a writer and not seen yet */
	WS_USE_HOME,	    /* of a process */
	WS_USE_RING,	    /* home of a ring */
	WS_USE_DATA,	    /* of a ring */
	WS_USE_STRINGS,
	WS_USE_LEFT /* of a settled process that may still write there */
};

struct ws_chunk_owner {
	struct ws_proc *owner;
	uint32_t next; /* in the owner's list of chunks of strings; 0 ends it */
	uint8_t use;   /* enum ws_chunk_use */
};

struct ws_chunks {
	struct ws_arena *arena;
	struct ws_chunk_owner *entry; /* by number of the chunk */
	uint32_t first, end;
};

void ws_chunks_init(struct ws_chunks *chunks, const struct ws_area *area);
void ws_chunks_free(struct ws_chunks *chunks);

static inline bool ws_chunks_has(const struct ws_chunks *chunks, uint32_t chunk)
{
	return chunk >= chunks->first && chunk < chunks->end;
}

/* Whether `owner` holds the chunk, or nobody does yet. */
static inline bool ws_chunks_allows(const struct ws_chunks *chunks, uint32_t chunk,
				    const struct ws_proc *owner)
{
	return ws_chunks_has(chunks, chunk) &&
	       (chunks->entry[chunk].use == WS_USE_UNKNOWN || chunks->entry[chunk].owner == owner);
}

/* Record that `chunk` is `owner`'s. False when it is no chunk, or is claimed already. */
bool ws_chunks_claim(struct ws_chunks *chunks, uint32_t chunk, struct ws_proc *owner,
		     enum ws_chunk_use use);
/* Give a claimed chunk back to the writers; nothing happens when it is not `owner`'s. */
void ws_chunks_give(struct ws_chunks *chunks, uint32_t chunk, const struct ws_proc *owner);
/* Never give it back: the process that had it may still write there. */
void ws_chunks_leave(struct ws_chunks *chunks, uint32_t chunk, const struct ws_proc *owner);

/* Copy out of the arena. The compiler must not read the arena again where the copy is used. */
static inline void ws_copy_out(void *to, const void *shared, size_t n)
{
	memcpy(to, shared, n);
	__asm__ volatile("" ::: "memory");
}

/* The value of a plain integer in the arena, read once. */
#define ws_read_shared(x) (*(const volatile __typeof__(x) *)&(x))

#endif
