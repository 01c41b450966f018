/* chunks.c - see chunks.h. */
#include "record/chunks.h"

#include <stdlib.h>

#include "base/mem.h"

void ws_chunks_init(struct ws_chunks *chunks, const struct ws_area *area)
{
	chunks->arena = area->arena;
	chunks->first = area->chunk_first;
	chunks->end = area->chunk_end;
	chunks->entry = ws_calloc(chunks->end, sizeof(*chunks->entry));
}

void ws_chunks_free(struct ws_chunks *chunks)
{
	free(chunks->entry);
	chunks->entry = NULL;
	chunks->first = chunks->end = 0;
}

bool ws_chunks_claim(struct ws_chunks *chunks, uint32_t chunk, struct ws_proc *owner,
		     enum ws_chunk_use use)
{
	if (!ws_chunks_has(chunks, chunk) || chunks->entry[chunk].use != WS_USE_UNKNOWN)
		return false;
	chunks->entry[chunk] = (struct ws_chunk_owner){.owner = owner, .use = (uint8_t)use};
	return true;
}

static bool is_owned(const struct ws_chunks *chunks, uint32_t chunk, const struct ws_proc *owner)
{
	return ws_chunks_has(chunks, chunk) && chunks->entry[chunk].owner == owner &&
	       chunks->entry[chunk].use != WS_USE_UNKNOWN &&
	       chunks->entry[chunk].use != WS_USE_LEFT;
}

void ws_chunks_give(struct ws_chunks *chunks, uint32_t chunk, const struct ws_proc *owner)
{
	if (!is_owned(chunks, chunk, owner))
		return;
	chunks->entry[chunk] = (struct ws_chunk_owner){0};
	ws_give_chunk(chunks->arena, chunk);
}

void ws_chunks_leave(struct ws_chunks *chunks, uint32_t chunk, const struct ws_proc *owner)
{
	if (is_owned(chunks, chunk, owner))
		chunks->entry[chunk] = (struct ws_chunk_owner){.use = WS_USE_LEFT};
}
