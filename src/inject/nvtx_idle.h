/*
 * nvtx_idle.h - ranges while a session waits for its next collection.
 *
 * A program may run for days under `warpsight launch` before anybody starts a collection, so an
 * idle push or pop may cost no more than a few instructions: no clock, no string lookup, no busy
 * mark. A push notes in the thread's open-range stack the domain, the address of the text and its
 * first 16 bytes, and, as its start, the time of the recorder's last round, at most about 20 ms
 * earlier. If the range is popped inside a collection, its text is defined at that point
 * (nvtx_idle.c); if it is still open when the collection ends, the recorder defines it. All but the
 * simple case takes the usual path, which is correct while idle, too.
 *
 * A signal handler that strikes between the two stores of a push and pushes itself may leave its
 * text in the interrupted range; depths and levels stay right.
 */
#ifndef WS_NVTX_IDLE_H
#define WS_NVTX_IDLE_H

#include "inject/nvtx_state.h"

/* Whether nothing is collected, so that ranges must cost as little as possible; two words read at
 * once. */
static inline bool nvtx_is_idle(void)
{
	const struct ws_arena *arena = ws_rt->arena;

	return arena &&
	       __atomic_load_n((const uint64_t *)(const void *)&arena->idle, __ATOMIC_RELAXED) == 1;
}
_Static_assert(offsetof(struct ws_arena, collecting) == offsetof(struct ws_arena, idle) + 4 &&
		       __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "idle is the low half of a word, collecting the upper");

/* The ring of the calling thread, or NULL when the usual path must be taken: not set up, in a
 * signal handler that interrupted a hook, in a forked or vforked child, nested beyond the stack. */
static inline struct ws_ring *nvtx_idle_ring(void)
{
	struct ws_thread *thread = ws_self;

	if (ws_unlikely(!thread || !ws_rt_is_free(thread)))
		return NULL;
	return thread->idle_ring;
}

/* The last 8 bytes of struct ws_open are read and written as one word, the range's place. */
_Static_assert(offsetof(struct ws_open, domain) + 8 == sizeof(struct ws_open) &&
		       offsetof(struct ws_open, flags) == offsetof(struct ws_open, domain) + 2 &&
		       offsetof(struct ws_open, level) == offsetof(struct ws_open, domain) + 4,
	       "domain, flags, payload type, level and under are one word");
#define NVTX_PLACE_FLAGS_SHIFT 16
#define NVTX_PLACE_LEVEL_SHIFT 32
#define NVTX_PLACE_TYPES UINT64_C(0xffff0000)

static inline uint64_t nvtx_read_place(const struct ws_open *open)
{
	uint64_t place;

	memcpy(&place, &open->domain, sizeof(place));
	return place;
}

/* The place of a range of `domain` on top of `depth` others; false if finding it takes a search. */
static inline bool nvtx_find_idle_place(const struct ws_open *open, uint32_t depth,
					const struct nvtx_domain *domain, uint64_t *place)
{
	uint64_t below;

	*place = domain->number;
	if (!depth)
		return true;
	below = nvtx_read_place(open - 1);
	if (ws_likely((uint16_t)below == domain->number)) {
		*place = (below & ~NVTX_PLACE_TYPES) + (UINT64_C(1) << NVTX_PLACE_LEVEL_SHIFT);
		return true;
	}
	/* All open ranges form one run of another domain. */
	*place |= (uint64_t)depth << 48;
	return !(below >> 48);
}

/* Opens a range whose text is `head` and `address`, or the string `handle`; its level, or -1. */
static inline int nvtx_open_idle_range(const struct nvtx_domain *domain, const char *text,
				       uint32_t handle, unsigned flags)
{
	struct ws_ring *ring = nvtx_idle_ring();
	const struct ws_rt *rt = ws_rt;
	struct ws_open *open;
	uint32_t depth;
	uint64_t place;

	if (ws_unlikely(!ring || atomic_load_explicit(&domain->ready, memory_order_relaxed) !=
					 rt->generation))
		return -1;
	depth = atomic_load_explicit(&ring->open_depth, memory_order_relaxed);
	open = &ring->open[depth];
	if (ws_unlikely(depth >= WS_OPEN_DEPTH ||
			!nvtx_find_idle_place(open, depth, domain, &place)))
		return -1;
	if (text) {
		memcpy(open->head, text, sizeof(open->head));
		open->address = (uintptr_t)text;
	} else {
		open->text = handle;
	}
	place |= (uint64_t)flags << NVTX_PLACE_FLAGS_SHIFT;
	memcpy(&open->domain, &place, sizeof(place));
	open->start = atomic_load_explicit(&rt->arena->heartbeat, memory_order_relaxed) | 1;
	atomic_store_explicit(&ring->open_depth, depth + 1, memory_order_release);
	return (int)(uint16_t)(place >> NVTX_PLACE_LEVEL_SHIFT);
}

/* A push while idle: the range's level, or -1 when the usual path must be taken. */
static inline int nvtx_push_idle(const struct nvtx_domain *domain, const char *text)
{
	/* Sixteen bytes are read, whatever the text's length, so they must lie on its page. */
	if (ws_unlikely(!text || (uintptr_t)text % WS_SMALLEST_PAGE > WS_SMALLEST_PAGE - 16))
		return -1;
	return nvtx_open_idle_range(domain, text, 0, WS_OPEN_IDLE);
}

static inline int nvtx_push_idle_event(const struct nvtx_domain *domain,
				       const struct nx_event *event)
{
	uint64_t def;

	if (ws_unlikely(!event || event->size < sizeof(*event)))
		return -1;
	if (event->message_type == NX_MESSAGE_ASCII)
		return nvtx_push_idle(domain, event->message.ascii);
	if (event->message_type != NX_MESSAGE_REGISTERED || !event->message.registered)
		return -1;
	def = atomic_load_explicit(&((struct nvtx_string *)event->message.registered)->defined,
				   memory_order_relaxed);
	if (ws_unlikely(def >> 32 != ws_rt->generation))
		return -1;
	return nvtx_open_idle_range(domain, NULL, (uint32_t)def, WS_OPEN_REGISTERED);
}

/* A pop while idle: the range's level, or -1 when the usual path must be taken. */
static inline int nvtx_pop_idle(const struct nvtx_domain *domain)
{
	const unsigned special = WS_OPEN_EXTENDED | WS_OPEN_LOST | WS_OPEN_LOCAL_TEXT;
	struct ws_ring *ring = nvtx_idle_ring();
	const struct ws_open *open;
	uint32_t depth;
	uint64_t place;

	if (ws_unlikely(!ring))
		return -1;
	depth = atomic_load_explicit(&ring->open_depth, memory_order_relaxed);
	if (ws_unlikely(depth - 1 >= WS_OPEN_DEPTH)) /* none open, or too many */
		return -1;
	open = &ring->open[depth - 1];
	place = nvtx_read_place(open);
	if (ws_unlikely((uint16_t)place != domain->number ||
			place & (uint64_t)special << NVTX_PLACE_FLAGS_SHIFT ||
			(depth > 1 && !open[-1].start)))
		return -1;
	atomic_store_explicit(&ring->open_depth, depth - 1, memory_order_release);
	return (int)(uint16_t)(place >> NVTX_PLACE_LEVEL_SHIFT);
}

#endif
