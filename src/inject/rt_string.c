/* rt_string.c - strings of records: the thread's cache, shared definitions, texts in the ring. */
#include <string.h>

#include "inject/rt_state.h"

static inline uint64_t load_8_bytes(const char *at)
{
	uint64_t v;

	memcpy(&v, at, 8);
	return v;
}

static inline uint64_t load_short_bytes(const char *text, size_t len) /* len < 8 */
{
	uint64_t v = 0;

	if (len >= 4) {
		uint32_t a, b;

		memcpy(&a, text, 4);
		memcpy(&b, text + len - 4, 4);
		return (uint64_t)a << 32 | b;
	}
	if (len)
		v = (uint64_t)(uint8_t)text[0] << 16 | (uint64_t)(uint8_t)text[len / 2] << 8 |
		    (uint8_t)text[len - 1];
	return v;
}

/* Quick, not strong: a hit is always verified by content. */
static inline uint64_t hash_bytes(const char *text, size_t len)
{
	const uint64_t k = UINT64_C(0x9e3779b97f4a7c15);
	uint64_t h = len * k;

	if (len < 8) {
		h = (h ^ load_short_bytes(text, len)) * k;
	} else {
		size_t i = 0;

		for (; i + 8 < len; i += 8)
			h = (h ^ load_8_bytes(text + i)) * k, h ^= h >> 29;
		h = (h ^ load_8_bytes(text + len - 8)) * k;
	}
	return (h ^ h >> 32) | 1; /* 0 marks an empty slot */
}

static inline bool same_bytes(const char *a, const char *b, size_t len)
{
	if (len < 8)
		return load_short_bytes(a, len) == load_short_bytes(b, len);
	for (size_t i = 0; i + 8 < len; i += 8)
		if (load_8_bytes(a + i) != load_8_bytes(b + i))
			return false;
	return load_8_bytes(a + len - 8) == load_8_bytes(b + len - 8);
}

/* Room for `bytes` in the process's string area, moving on to a new chunk when the last is full. 0
 * without memory. */
static uint64_t reserve_string_space(struct ws_process_home *home, uint32_t bytes)
{
	uint64_t pos = atomic_load_explicit(&home->string_pos, memory_order_acquire);

	for (;;) {
		uint32_t chunk = (uint32_t)(pos >> 32), offset = (uint32_t)pos, fresh;

		if (offset + bytes + 8 <=
		    WS_CHUNK_SIZE) { /* 8: ws_rt_find_known_string reads a little past the end */
			if (atomic_compare_exchange_weak_explicit(&home->string_pos, &pos,
								  pos + bytes, memory_order_acq_rel,
								  memory_order_acquire))
				return (uint64_t)chunk * WS_CHUNK_SIZE + offset;
			continue;
		}
		fresh = ws_rt_get_chunk(ws_rt_kept.arena);
		if (fresh == WS_CHUNK_NONE)
			return 0;
		((struct ws_chunk *)ws_chunk_at(ws_rt_kept.arena, fresh))->kind = WS_CHUNK_STRINGS;
		/* Chained newest first behind the home, so that the recorder can free them all when
		 * the process is gone. */
		atomic_store_explicit(
			&((struct ws_chunk *)ws_chunk_at(ws_rt_kept.arena, fresh))->next,
			chunk == home->chunk.self ? WS_CHUNK_NONE : chunk, memory_order_relaxed);
		if (atomic_compare_exchange_strong_explicit(
			    &home->string_pos, &pos,
			    (uint64_t)fresh << 32 | (sizeof(struct ws_chunk) + bytes),
			    memory_order_acq_rel, memory_order_acquire)) {
			atomic_fetch_add_explicit(&ws_rt_kept.arena->string_chunks, 1,
						  memory_order_relaxed);
			return (uint64_t)fresh * WS_CHUNK_SIZE + sizeof(struct ws_chunk);
		}
		ws_give_chunk(ws_rt_kept.arena,
			      fresh); /* another thread was faster: use its chunk */
	}
}

uint32_t ws_rt_define_string(const char *text, size_t len)
{
	struct ws_process_home *home;
	struct ws_shared_string *string;
	uint64_t at;

	if (len > WS_STRING_MAX)
		return 0;
	if (ws_unlikely(!ws_rt->arena) && !ws_rt_is_collecting_slow() && !ws_rt->arena)
		return 0;
	home = ws_rt->home;
	at = reserve_string_space(home, (uint32_t)WS_ALIGN_UP(sizeof(*string) + len + 1, 8));
	if (!at)
		return 0;
	string = (struct ws_shared_string *)((char *)ws_rt_kept.arena + at);
	memcpy(string->bytes, text, len);
	string->bytes[len] = 0;
	__atomic_store_n(&string->len, (uint32_t)len, __ATOMIC_RELEASE);
	return (uint32_t)(at / 8);
}

static inline struct ws_string_slot *string_slot_pair(struct ws_thread *thread, uint64_t hash)
{
	if (thread->more_strings)
		return &thread->more_strings[(hash >> 8) % (WS_STRING_SLOTS_MORE / 2) * 2];
	return &thread->strings[(hash >> 8) % (WS_STRING_SLOTS / 2) * 2];
}

/* The cache slot of a text, which holds no handle until the text is defined; NULL when there is no
 * slot for it. */
static inline struct ws_string_slot *find_known_slot(struct ws_string_slot *pair, uint64_t hash,
						     const char *text, size_t len)
{
	for (int way = 0; way < 2; way++)
		if (pair[way].hash == hash && pair[way].len == len &&
		    (!pair[way].handle ||
		     same_bytes(ws_string_at(ws_rt_kept.arena, pair[way].handle)->bytes, text,
				len)))
			return &pair[way];
	return NULL;
}

static inline struct ws_string_slot *find_slot(struct ws_thread *thread, uint64_t hash,
					       const char *text, size_t len, bool *hit)
{
	struct ws_string_slot *pair = string_slot_pair(thread, hash),
			      *slot = find_known_slot(pair, hash, text, len);

	if (slot) {
		*hit = slot->handle != 0;
		return slot;
	}
	*hit = false;
	pair[1] = pair[0];
	pair[0] = (struct ws_string_slot){.hash = hash, .len = (uint32_t)len};
	return pair;
}

uint32_t ws_rt_find_string(struct ws_thread *thread, const char *text, size_t len)
{
	struct ws_string_slot *slot;
	bool hit;

	if (ws_unlikely(len > WS_STRING_MAX))
		return 0;
	slot = find_slot(thread, hash_bytes(text, len), text, len, &hit);
	if (ws_likely(hit))
		return slot->handle;
	slot->handle = ws_rt_define_string(text, len);
	return slot->handle;
}

static uint32_t write_text_piece(struct ws_thread *thread, uint32_t number, const char *text,
				 size_t len, bool more, enum ws_loss_kind loss)
{
	size_t bytes = WS_ALIGN_UP(sizeof(struct ws_rec_text) + len, 8);
	struct ws_rec_text *record = ws_rt_reserve(thread, bytes, loss);

	if (!record)
		return 0;
	record->rec = ws_rec_head(WS_REC_TEXT, bytes, more, (uint32_t)(bytes / 8));
	if (bytes / 8 > 255)
		record->rec.words = 0;
	record->number = number;
	record->len = (uint32_t)len;
	memcpy(record->bytes, text, len);
	ws_rt_commit(thread, record, bytes);
	return number;
}

uint32_t ws_rt_write_text(struct ws_thread *thread, const char *text, size_t len,
			  enum ws_loss_kind loss)
{
	const size_t most = WS_REC_MAX_BYTES - sizeof(struct ws_rec_text) - 8;
	struct ws_nest *nest = &thread->nest[thread->busy - 1];
	uint32_t number = ++nest->texts;

	while (len > most) {
		if (!write_text_piece(thread, number, text, most, true, loss))
			return 0;
		text += most;
		len -= most;
	}
	return write_text_piece(thread, number, text, len, false, loss);
}

/*
 * Every 256 lookups, check whether many were new. If so, use a larger cache; if there is one
 * already and most are still new, write texts until that changes. A string seen twice is still
 * defined.
 */
static bool prefers_inline_texts(struct ws_thread *thread, bool miss)
{
	thread->string_lookups++;
	thread->string_misses += miss;
	if (ws_unlikely((thread->string_lookups & 255) == 0)) {
		uint32_t misses = thread->string_misses & 0xffff;

		if (misses > 32 && !thread->more_strings && !ws_rt_kept.sandboxed)
			thread->more_strings = ws_rt_map_private(WS_STRING_SLOTS_MORE *
								 sizeof(*thread->more_strings));
		thread->string_misses = (uint32_t)(misses > 128) << 16;
	}
	return thread->string_misses >> 16;
}

/*
 * Defined strings stay for as long as their process lives. A program that keeps making up names
 * would eventually fill the arena with them, so beyond a certain share of it texts are written
 * inline; those defined by then stay in the cache.
 */
static bool has_room_for_strings(void)
{
	const struct ws_arena *arena = ws_rt_kept.arena;

	return atomic_load_explicit(&arena->string_chunks, memory_order_relaxed) <
	       arena->chunk_count / WS_STRINGS_SHARE;
}

/* The handle of a short text, defined if need be; 0 when it is better written inline. */
static uint32_t find_or_define(struct ws_thread *thread, const char *text, size_t len)
{
	uint64_t hash = hash_bytes(text, len);
	struct ws_string_slot *pair = string_slot_pair(thread, hash),
			      *slot = find_known_slot(pair, hash, text, len);
	bool seen = pair[0].hash == hash || pair[1].hash == hash, hit;

	if (ws_likely(slot && slot->handle)) {
		prefers_inline_texts(thread, false);
		return slot->handle;
	}
	if (ws_unlikely(!has_room_for_strings()))
		return 0;
	slot = find_slot(thread, hash, text, len, &hit);
	/* The kernel hook reads the names of open ranges, so with it all names are defined. */
	if (!prefers_inline_texts(thread, !seen) || seen || ws_rt->features & WS_FEATURE_KERNEL)
		slot->handle = ws_rt_define_string(text, len);
	return slot->handle;
}

uint32_t ws_rt_write_string_or_text(struct ws_thread *thread, const char *text, size_t len,
				    bool *local, enum ws_loss_kind loss)
{
	uint32_t handle = 0;

	if (ws_likely(len <= WS_STRING_MAX / 8))
		handle = find_or_define(thread, text, len);
	*local = !handle;
	if (ws_likely(handle))
		return handle;
	return ws_rt_write_text(thread, text, len, loss);
}
