/*
 * rt_map.c - the arena in this process's memory: attaching it, mapping more of it, its buffers, and
 * how the program's limits, locked memory and sandbox affect that.
 *
 * The arena is mapped from the session's file, from its start and only as far as this process needs
 * chunks. The mapping grows in place, so it lies far below everything else. Nothing is reserved:
 * the program's limits and locks see a few MiB.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/choose.h"
#include "inject/rt_state.h"
#include "ring/arena_name.h"

#define REGION_BYTES ((uint64_t)WS_REGION_CHUNKS * WS_CHUNK_SIZE)
#define BASE_DISTANCE (UINT64_C(256) << 30) /* between the arena and what the kernel maps next */
#define LIMITED_SHARE 64 /* of a limited address space we use at most one part in this many */
#define LIMITED_LEAST (4 * REGION_BYTES)

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* After mlockall(MCL_FUTURE) it would count as the program's locked memory. */
static void unlock_range(void *at, uint64_t bytes)
{
	if (ws_rt_kept.locked && !ws_rt_kept.sandboxed)
		SYS3(SYS_munlock, at, bytes, 0);
}

/* The kernel rounds `bytes` up to whole pages, here and in madvise and munmap. */
void *ws_rt_map_private(size_t bytes)
{
	long p = ws_raw_syscall(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p < 0 && p > -4096)
		return NULL;
	SYS3(SYS_madvise, p, bytes, MADV_WIPEONFORK);
	if (!ws_rt_kept.sandboxed)
		SYS3(SYS_munlock, p, bytes,
		     0); /* after mlockall(MCL_FUTURE) it would count as the program's */
	return (void *)p;
}

/* Map a part of the file at `address`, or wherever there is room when it is 0. Never over an
 * existing mapping. A kernel that does not know the flag may choose another place, which is then
 * unmapped. */
static long map_shared(uint64_t address, uint64_t bytes, long fd, uint64_t offset)
{
	long p = ws_raw_syscall(SYS_mmap, (long)address, (long)bytes, PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_NORESERVE | (address ? MAP_FIXED_NOREPLACE : 0),
				fd, (long)offset);

	if (is_syscall_error(p) || !address || p == (long)address)
		return p;
	SYS3(SYS_munmap, p, bytes, 0);
	return -17; /* EEXIST */
}

/*
 * The kernel places mappings side by side, downwards from the stack. Ours goes so far below them
 * that it can grow; if it cannot after all, what does not fit is lost.
 */
static long move_down(long from, uint64_t bytes, long fd)
{
	uint64_t distance = ws_min(BASE_DISTANCE, (uint64_t)from / 8);

	for (int i = 4; i >= 1; i--) {
		uint64_t at = ((uint64_t)from - distance / 4 * (uint64_t)i) & ~(REGION_BYTES - 1);
		long p = map_shared(at, bytes, fd, 0);

		if (is_syscall_error(p))
			continue;
		SYS3(SYS_munmap, from, bytes, 0);
		return p;
	}
	return from;
}

/* How much of the arena this process may map: of a limited address space only a small part. */
static uint64_t find_allowance(void)
{
	struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};

	SYS4(SYS_prlimit64, 0, RLIMIT_AS, NULL, &limit);
	if (limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	return ws_max((uint64_t)limit.rlim_cur / LIMITED_SHARE, LIMITED_LEAST);
}

uint32_t ws_rt_count_mapped_chunks(void)
{
	return (uint32_t)(atomic_load_explicit(&ws_rt_kept.mapped, memory_order_acquire) /
			  WS_CHUNK_SIZE);
}

/* Another thread may have mapped the rest but not yet published that. */
static bool wait_for_mapper(uint64_t old)
{
	struct timespec pause = {0, 20000};

	for (int i = 0; i < 5; i++) {
		if (atomic_load_explicit(&ws_rt_kept.mapped, memory_order_acquire) != old)
			return true;
		SYS3(SYS_nanosleep, &pause, NULL, 0);
	}
	return false;
}

/* When several threads publish how much is mapped, the last to do so may have the smallest value.
 */
static void raise_mapped(uint64_t size)
{
	uint64_t mapped = atomic_load_explicit(&ws_rt_kept.mapped, memory_order_relaxed);

	while (mapped < size &&
	       !atomic_compare_exchange_weak_explicit(&ws_rt_kept.mapped, &mapped, size,
						      memory_order_release, memory_order_relaxed))
		;
}

/* Noted in the process's home, since at its end there may be no room for a record. */
static void note_limit(void)
{
	struct ws_process_home *home = ws_rt_kept.state ? ws_rt_kept.state->rt.home : NULL;

	if (home && !(__atomic_load_n(&home->flags, __ATOMIC_RELAXED) & WS_PROC_LIMITED))
		__atomic_fetch_or(&home->flags, WS_PROC_LIMITED, __ATOMIC_RELAXED);
}

/* Each event that is lost comes here: the kernel is asked once a second. */
static bool has_just_failed(const struct ws_arena *arena)
{
	uint64_t failed = atomic_load_explicit(&ws_rt_kept.map_failed, memory_order_relaxed);

	return failed && ws_rt_read_ticks() - failed < arena->ticks_per_second;
}

static uint64_t find_next_size(uint64_t mapped, uint64_t end)
{
	return ws_min(mapped + ws_max(mapped / 8 & ~(REGION_BYTES - 1), REGION_BYTES), end);
}

/*
 * Map more of the arena, in place: this takes no descriptor, so that it works in a program that has
 * changed its root or its user, or has no descriptor left. The kernel refuses when the mapping's
 * size is not what we say, so that of two threads one grows it.
 *
 * The other must not wait for the first to publish the new size: that thread may have lost the
 * processor, be what this signal handler interrupted, or have been left behind by a fork. Sizes
 * follow from one another, so the next one is tried until the kernel says that the mapping does not
 * reach so far (EFAULT).
 */
bool ws_rt_map_more(struct ws_arena *arena)
{
	const uint64_t end = (uint64_t)(arena->chunk_first + arena->chunk_count) * WS_CHUNK_SIZE;
	const uint64_t known = atomic_load_explicit(&ws_rt_kept.mapped, memory_order_acquire);
	uint64_t allowance, size;

	if (known >= end || ws_rt_kept.sandboxed)
		return false;
	if (has_just_failed(arena)) {
		note_limit();
		return false;
	}
	allowance = find_allowance();
	for (uint64_t old = known; old < end; old = size) {
		long result = -12; /* ENOMEM */

		size = find_next_size(old, end);
		if (size <= allowance)
			result = ws_raw_syscall(SYS_mremap, (long)arena, (long)old, (long)size, 0,
						0, 0);
		if (result == (long)arena) {
			raise_mapped(size);
			return true;
		}
		if (result != -12 || size > allowance)
			break;
	}
	if (wait_for_mapper(known))
		return true;
	atomic_store_explicit(&ws_rt_kept.map_failed, ws_rt_read_ticks(), memory_order_relaxed);
	note_limit();
	return false;
}

/* Whether there is memory behind what this process has not mapped. */
bool ws_rt_has_more_to_map(const struct ws_arena *arena)
{
	return ws_rt_count_mapped_chunks() <
	       atomic_load_explicit(&arena->chunk_backed, memory_order_relaxed);
}

static bool map_buffer(struct ws_arena *arena, long fd, uint32_t i)
{
	uint64_t at = (uint64_t)ws_buffer_at(arena, i), bit = UINT64_C(1) << i % 64;

	if (ws_rt_is_buffer_mapped(i))
		return true;
	if (is_syscall_error(map_shared(at, WS_BUFFER_SIZE, fd, at - (uint64_t)arena)))
		return false;
	unlock_range((void *)at, WS_BUFFER_SIZE);
	__atomic_fetch_or(&ws_rt_kept.buffers[i / 64], bit, __ATOMIC_RELEASE);
	return true;
}

bool ws_rt_is_buffer_mapped(uint32_t i)
{
	return __atomic_load_n(&ws_rt_kept.buffers[i / 64], __ATOMIC_ACQUIRE) >> i % 64 & 1;
}

void ws_rt_unlock_memory(void)
{
	struct ws_arena *arena = ws_rt_kept.arena;

	if (!arena)
		return;
	ws_rt_kept.locked = true;
	unlock_range(arena, atomic_load(&ws_rt_kept.mapped));
	for (uint32_t i = 0; ws_rt_kept.state && i < SLABS && ws_rt_kept.state->slabs[i]; i++)
		unlock_range(ws_rt_kept.state->slabs[i], sizeof(struct thread_slab));
	for (uint32_t i = 0; i < WS_BUFFERS; i++)
		if (ws_rt_is_buffer_mapped(i))
			unlock_range(ws_buffer_at(arena, i), WS_BUFFER_SIZE);
}

/* Map now what can be mapped, since it will not be possible later: enough for what one process
 * records between two rounds of the recorder. */
void ws_rt_enter_sandbox(void)
{
	const uint64_t enough = 32 * REGION_BYTES;

	while (ws_rt_kept.arena && !ws_rt_kept.sandboxed &&
	       atomic_load(&ws_rt_kept.mapped) < enough &&
	       ws_rt_has_more_to_map(ws_rt_kept.arena) && ws_rt_map_more(ws_rt_kept.arena))
		;
	ws_rt_kept.sandboxed = true;
}

void ws_rt_enter_filter(bool allows_memory)
{
	ws_rt_map_threads_ahead();
	ws_rt_kept.no_memory = !allows_memory;
	ws_rt_kept.filtered = true;
}

void ws_rt_leave_filter(void)
{
	ws_rt_kept.filtered = ws_rt_kept.no_memory = false;
}

int ws_rt_take_buffer(void)
{
	struct ws_arena *arena = ws_rt->arena;
	long fd;
	int i;

	if (!arena || !ws_rt->home || ws_rt_kept.sandboxed)
		return -1;
	fd = ws_rt_open_arena();
	if (fd < 0)
		return -1;
	i = ws_take_buffer(arena, (int)fd, ws_rt->home->chunk.self);
	if (i >= 0 && !map_buffer(arena, fd, (uint32_t)i)) {
		atomic_store_explicit(&arena->buffers[i].owner, 0, memory_order_release);
		i = -1;
	}
	SYS1(SYS_close, fd);
	return i;
}

/* Map the head of the arena, whose file has `size` bytes; NULL when it is not one of ours. */
static struct ws_arena *map_head(long fd, uint64_t size)
{
	uint64_t least = WS_ALIGN_UP(sizeof(struct ws_arena), REGION_BYTES), head;
	struct ws_arena *arena;
	long p;

	if (size <= sizeof(struct ws_arena))
		return NULL;
	head = ws_min(find_allowance() == UINT64_MAX ? 2 * least : least, size);
	p = map_shared(0, head, fd, 0);
	if (is_syscall_error(p))
		return NULL;
	arena = (struct ws_arena *)p;
	if (arena->magic != WS_ARENA_MAGIC || arena->version != WS_ARENA_VERSION ||
	    arena->size != size || atomic_load(&arena->closed)) {
		SYS3(SYS_munmap, p, head, 0);
		return NULL;
	}
	ws_rt_kept.mapped = head;
	return (struct ws_arena *)move_down(p, head, fd);
}

bool ws_rt_attach_arena(const char *path)
{
	struct stat st;
	long fd;

	if (strlen(path) >= sizeof(ws_rt_kept.path))
		return false;
	strcpy(ws_rt_kept.path, path);
	fd = ws_rt_open_arena();
	if (fd < 0)
		return false;
	memset(&st, 0, sizeof(st));
	if (!SYS3(SYS_fstat, fd, &st, 0))
		ws_rt_kept.arena = map_head(fd, (uint64_t)st.st_size);
	SYS1(SYS_close, fd);
	return ws_rt_kept.arena != NULL;
}

static void replace_memory(void *at, uint64_t bytes)
{
	ws_raw_syscall(SYS_mmap, (long)at, (long)bytes, PROT_READ | PROT_WRITE,
		       MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/*
 * The child of such a fork returns into the hook with pointers into its parent's rings in its
 * registers. So its state stays as it is, and what it still writes goes into memory that only looks
 * like the arena: a closed one, in which nothing more is recorded.
 */
void ws_rt_leave_session(void)
{
	struct ws_arena *arena = ws_rt_kept.arena;

	for (uint32_t i = 0; i < WS_BUFFERS; i++)
		if (ws_rt_is_buffer_mapped(i))
			replace_memory(ws_buffer_at(arena, i), WS_BUFFER_SIZE);
	replace_memory(arena, atomic_load(&ws_rt_kept.mapped));
	atomic_store(&arena->closed, 1);
}

/* A sealed arena can only come from its recorder; a file, which a recorder may leave behind, is
 * locked by its recorder.
 */
bool ws_rt_is_in_session(void)
{
	struct ws_arena_name name;
	bool lives;
	long fd;

	if (!ws_rt_kept.arena || atomic_load(&ws_rt_kept.arena->closed))
		return false;
	fd = ws_rt_open_arena();
	if (fd < 0)
		return false;
	lives = (ws_read_arena_name(ws_rt_kept.path, &name) && name.sealed) ||
		SYS3(SYS_flock, fd, LOCK_SH | LOCK_NB, 0) != 0;
	SYS1(SYS_close, fd);
	return lives;
}

void ws_rt_forget_mapping(void)
{
	memset(ws_rt_kept.buffers, 0, sizeof(ws_rt_kept.buffers));
	atomic_store(&ws_rt_kept.mapped, 0);
	atomic_store(&ws_rt_kept.map_failed, 0);
	atomic_store(&ws_rt_kept.stuck, 0);
	ws_rt_kept.unanswered = false;
}
