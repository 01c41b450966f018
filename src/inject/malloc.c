/*
 * malloc.c - the heap trace: a sample of the blocks that the program allocates, with the stacks
 * that asked for them, and when they are freed.
 *
 * Every WS_HEAP_INTERVAL bytes on average, at random distances, an allocation is sampled. The
 * choice does not depend on patterns in the program, and how much a sample stands for follows from
 * its size. Every other allocation costs a subtraction, and a free costs reading one byte of a
 * filter. Sampled blocks are kept in a lock-free table, which a fork or a signal cannot leave in an
 * inconsistent state.
 *
 * The wrappers call the allocator that the program would use without us: the C library's, or one
 * that it is linked to. If another preloaded library or the program itself defines malloc, ours is
 * never called, and a diagnostic says so.
 *
 * Finding these functions may allocate. Such requests are served from a small buffer of our own and
 * never freed.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "inject/bind.h"
#include "inject/rt.h"
#include "inject/stack.h"
#include "ring/heap_record.h"
#include "schema/schema.h"

enum {
	BLOCKS = 1 << 16, /* maximum number of sampled blocks at a time; a power of two */
	PROBES = 64,
	FILTER = 1 << 16,
	ROOM = 1 << 16, /* bytes */
	STACK = 8192,	/* bytes of a stack */
	BUSY = 1	/* address of a block that is being written */
};

typedef void *allocate_fn(size_t);
typedef void *align_fn(size_t, size_t);
typedef void *resize_fn(void *, size_t);

static struct {
	allocate_fn *malloc, *valloc, *pvalloc;
	align_fn *calloc, *aligned_alloc, *memalign;
	resize_fn *realloc;
	int (*posix_memalign)(void **, size_t, size_t);
	void (*free)(void *);
} next;

static struct block {
	_Atomic uintptr_t address; /* 0: free */
	uint64_t born, bytes;
} blocks[BLOCKS];
static _Atomic uint8_t filter[FILTER]; /* number of blocks whose addresses have this hash */

static __thread struct {
	int64_t left;	 /* bytes until the next sample */
	uint64_t random; /* 0: not begun */
} self __attribute__((tls_model("initial-exec")));

static _Alignas(16) char room[ROOM];
static _Atomic size_t room_used;
static _Atomic int finding; /* 0: not begun, 1: in progress, 2: found */

/* ---- the functions behind ---- */

static void find_next(void)
{
	static const struct {
		const char *name;
		void **where;
	} wanted[] = {
		{"malloc", (void **)&next.malloc},
		{"calloc", (void **)&next.calloc},
		{"realloc", (void **)&next.realloc},
		{"posix_memalign", (void **)&next.posix_memalign},
		{"aligned_alloc", (void **)&next.aligned_alloc},
		{"memalign", (void **)&next.memalign},
		{"valloc", (void **)&next.valloc},
		{"pvalloc", (void **)&next.pvalloc},
		{"free", (void **)&next.free},
	};
	int idle = 0;

	if (!atomic_compare_exchange_strong(&finding, &idle, 1))
		return;
	for (size_t i = sizeof(wanted) / sizeof(*wanted); i--;) {
		void *found = ws_find_next_symbol(wanted[i].name);

		__atomic_store_n(wanted[i].where, found, __ATOMIC_RELEASE);
	}
	atomic_store(&finding, 2);
}

static bool is_in_room(const void *block)
{
	return (const char *)block >= room && (const char *)block < room + ROOM;
}

/* A block of zeroes that is never freed, preceded by its size. */
static void *take_room(size_t bytes, size_t alignment)
{
	size_t at = atomic_load(&room_used), from;

	if (bytes > ROOM || alignment > ROOM)
		return NULL;
	do {
		from = (at + 16 + alignment - 1) & ~(alignment - 1);
		if (from + bytes > ROOM)
			return NULL;
	} while (!atomic_compare_exchange_weak(&room_used, &at, from + bytes));
	memcpy(room + from - sizeof(bytes), &bytes, sizeof(bytes));
	return room + from;
}

/* ---- which blocks are sampled ---- */

/* -ln(u) of a number u between 0 and 1, with 26 bits, to within 0.5 %. */
static double draw_exponential(uint64_t *random)
{
	uint64_t bits;
	double mantissa;
	int exponent;

	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	bits = (*random >> 38) + 1;
	exponent = 63 - __builtin_clzll(bits);
	mantissa = (double)bits / (double)(UINT64_C(1) << exponent) - 1;
	/* log2(1 + m), close to m + 0.34 m (1 - m) */
	return 0.6931471805599453 * (26 - exponent - mantissa - 0.3437 * mantissa * (1 - mantissa));
}

static void draw_distance(void)
{
	self.left = (int64_t)(draw_exponential(&self.random) * WS_HEAP_INTERVAL) + 1;
}

static size_t hash_address(uintptr_t address)
{
	return (size_t)((address >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 40);
}

static bool keep_block(uintptr_t address, uint64_t bytes, uint64_t born)
{
	size_t hash = hash_address(address);

	for (size_t i = 0; i < PROBES; i++) {
		struct block *block = &blocks[(hash + i) % BLOCKS];
		uintptr_t empty = 0;

		if (!atomic_compare_exchange_strong_explicit(&block->address, &empty, BUSY,
							     memory_order_acquire,
							     memory_order_relaxed))
			continue;
		block->bytes = bytes;
		block->born = born;
		atomic_fetch_add_explicit(&filter[hash % FILTER], 1, memory_order_relaxed);
		atomic_store_explicit(&block->address, address, memory_order_release);
		return true;
	}
	return false;
}

static inline bool may_be_sampled(const void *address)
{
	return ws_unlikely(atomic_load_explicit(&filter[hash_address((uintptr_t)address) % FILTER],
						memory_order_relaxed));
}

/* Take a block out of the table; false when it is not there. */
static bool take_block(uintptr_t address, uint64_t *bytes, uint64_t *born)
{
	size_t hash = hash_address(address);

	for (size_t i = 0; i < PROBES; i++) {
		struct block *block = &blocks[(hash + i) % BLOCKS];

		if (atomic_load_explicit(&block->address, memory_order_acquire) != address)
			continue;
		*bytes = block->bytes;
		*born = block->born;
		atomic_store_explicit(&block->address, 0, memory_order_release);
		atomic_fetch_sub_explicit(&filter[hash % FILTER], 1, memory_order_relaxed);
		return true;
	}
	return false;
}

/* ---- records ---- */

static bool write_record(struct ws_rec_heap made, bool freed)
{
	struct ws_thread *thread = ws_rt_enter();
	struct ws_rec_heap *record;

	if (!thread)
		return false;
	if (!freed)
		ws_rt_write_stack(thread, WS_STACK_OF_OSRT, made.time, STACK);
	record = ws_rt_reserve(thread, sizeof(*record), WS_LOSS_OTHER);
	if (record) {
		made.rec = ws_rec_head(WS_REC_HEAP, sizeof(made), freed, 0);
		*record = made;
		ws_rt_commit(thread, record, sizeof(*record));
	}
	ws_rt_leave(thread);
	return record != NULL;
}

static WS_NOINLINE void sample_block(void *address, size_t bytes)
{
	uint64_t now;

	if (!self.random) { /* the thread's first allocation: the first sample comes after a
			       distance */
		self.random = (ws_read_counter() ^ (uint64_t)(uintptr_t)&self) | 1;
		draw_distance();
		self.left -= (int64_t)bytes;
		if (self.left >= 0)
			return;
	}
	draw_distance();
	if (!address || !ws_rt_is_collecting() || !(ws_rt->features & WS_FEATURE_MALLOC))
		return;
	now = ws_rt_read_ticks();
	if (write_record((struct ws_rec_heap){.time = now,
					      .born = now,
					      .address = (uint64_t)(uintptr_t)address,
					      .bytes = bytes},
			 false) &&
	    !keep_block((uintptr_t)address, bytes, now))
		ws_rt_write_diagnostic(WS_INFO, "malloc",
				       "More sampled blocks lived at a time than are followed: of "
				       "some it is not known when they were freed.");
}

static inline void *count_block(void *address, size_t bytes)
{
	self.left -= (int64_t)bytes;
	if (ws_unlikely(self.left < 0))
		sample_block(address, bytes);
	return address;
}

static WS_NOINLINE void end_block(void *address)
{
	uint64_t bytes, born;

	if (take_block((uintptr_t)address, &bytes, &born))
		write_record((struct ws_rec_heap){.time = ws_rt_read_ticks(),
						  .born = born,
						  .address = (uint64_t)(uintptr_t)address,
						  .bytes = bytes},
			     true);
}

/* ---- the functions ---- */

#define FOUND(function) \
	ws_likely(__atomic_load_n(&next.function, __ATOMIC_RELAXED) || look(&next.function))

/* Look for the functions behind; false while that is in progress. */
static WS_NOINLINE bool look(const void *where)
{
	find_next();
	return *(void *const *)where != NULL;
}

WS_EXPORT void *malloc(size_t bytes);
void *malloc(size_t bytes)
{
	if (!FOUND(malloc))
		return take_room(bytes, 16);
	return count_block(next.malloc(bytes), bytes);
}

WS_EXPORT void *calloc(size_t n, size_t bytes);
void *calloc(size_t n, size_t bytes)
{
	size_t all;

	if (__builtin_mul_overflow(n, bytes, &all))
		all = SIZE_MAX / 2;
	if (!FOUND(calloc))
		return take_room(all, 16);
	return count_block(next.calloc(n, bytes), all);
}

WS_EXPORT void free(void *block);
void free(void *block)
{
	if (!block || is_in_room(block))
		return;
	if (may_be_sampled(block)) {
		int error = errno;

		end_block(block);
		errno = error;
	}
	if (FOUND(free))
		next.free(block);
}

static void *move_out_of_room(void *block, size_t bytes)
{
	size_t had;
	void *moved = malloc(bytes);

	memcpy(&had, (char *)block - sizeof(had), sizeof(had));
	if (moved)
		memcpy(moved, block, had < bytes ? had : bytes);
	return moved;
}

WS_EXPORT void *realloc(void *block, size_t bytes);
void *realloc(void *block, size_t bytes)
{
	uint64_t had, born;
	bool sampled = false;
	void *moved;

	if (block && is_in_room(block))
		return move_out_of_room(block, bytes);
	if (!FOUND(realloc))
		return take_room(bytes, 16);
	/* Before the call: after it the address may belong to another thread's block. */
	if (block && may_be_sampled(block))
		sampled = take_block((uintptr_t)block, &had, &born);
	moved = next.realloc(block, bytes);
	if (sampled && !moved && bytes)
		keep_block((uintptr_t)block, had, born);
	else if (sampled)
		write_record((struct ws_rec_heap){.time = ws_rt_read_ticks(),
						  .born = born,
						  .address = (uint64_t)(uintptr_t)block,
						  .bytes = had},
			     true);
	return count_block(moved, bytes);
}

WS_EXPORT void *reallocarray(void *block, size_t n, size_t bytes);
void *reallocarray(void *block, size_t n, size_t bytes)
{
	size_t all;

	if (__builtin_mul_overflow(n, bytes, &all)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(block, all);
}

WS_EXPORT int posix_memalign(void **out, size_t alignment, size_t bytes);
int posix_memalign(void **out, size_t alignment, size_t bytes)
{
	int error;

	if (!FOUND(posix_memalign)) {
		*out = take_room(bytes, alignment < 16 ? 16 : alignment);
		return *out ? 0 : ENOMEM;
	}
	error = next.posix_memalign(out, alignment, bytes);
	if (!error)
		count_block(*out, bytes);
	return error;
}

#define ALIGNED(name)                                                             \
	WS_EXPORT void *name(size_t alignment, size_t bytes);                     \
	void *name(size_t alignment, size_t bytes)                                \
	{                                                                         \
		if (!FOUND(name))                                                 \
			return take_room(bytes, alignment < 16 ? 16 : alignment); \
		return count_block(next.name(alignment, bytes), bytes);           \
	}
ALIGNED(aligned_alloc)
ALIGNED(memalign)

#define PAGES(name)                                          \
	WS_EXPORT void *name(size_t bytes);                  \
	void *name(size_t bytes)                             \
	{                                                    \
		if (!FOUND(name))                            \
			return take_room(bytes, 4096);       \
		return count_block(next.name(bytes), bytes); \
	}
PAGES(valloc)
PAGES(pvalloc)

/* ---- at the start ---- */

/* Ours, even if the program defines the name. */
__asm__(".hidden ws_own_malloc\n.set ws_own_malloc, malloc");
extern const char ws_own_malloc[] __attribute__((visibility("hidden")));

__attribute__((constructor(104))) static void begin_malloc(void)
{
	find_next();
	ws_rt_init();
	if (ws_rt->arena && ws_rt->features & WS_FEATURE_MALLOC &&
	    ws_find_symbol("malloc") != (const void *)ws_own_malloc)
		ws_rt_write_diagnostic(
			WS_WARNING, "malloc",
			"--trace=malloc: the program has an allocator of its own, or "
			"another library that is preloaded has: what it allocates is "
			"not recorded.");
}
