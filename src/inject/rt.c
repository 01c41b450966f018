/*
 * rt.c - the runtime that all hooks in a process share; see rt.h for the rules it keeps.
 *
 * Memory: the arena is mapped from the session's file, from its start and only as far as this
 * process needs chunks: the mapping grows in place, for which it lies far below everything else.
 * Nothing is reserved, so that the program's limits and locks see a few MiB. Private state (struct
 * ws_rt, struct ws_thread) lives in anonymous pages marked MADV_WIPEONFORK. A forked child
 * therefore finds zeroes wherever the parent's state was, whichever way it was forked, while a
 * vfork child, which runs in the parent's memory with the parent stopped, finds the parent's. Where
 * the kernel does not know the advice, the fork handler wipes by hand.
 *
 * What must survive a fork (where the arena is mapped, the session's path) is in `kept`.
 */
#include "inject/rt.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/choose.h"
#include "inject/bind.h"
#include "ring/syscall.h"
#include "schema/schema.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#define MADV_KEEPONFORK 19
#endif

#define SLAB_THREADS 64u
#define SLABS (WS_DIR_SLOTS / SLAB_THREADS) /* more threads than that find no directory slot */

static struct ws_rt no_session; /* arena NULL: everything is off */
struct ws_rt *ws_rt = &no_session;
void (*_Atomic ws_rt_cuda_numbers)(uint32_t, uint64_t, struct ws_cuda_numbers *);
__thread struct ws_thread *ws_self __attribute__((tls_model("initial-exec")));

/* Thread states, mapped together. The links of the free list stand beside the states, so that a
 * racing reader of a stale link reads a number and never the state of a thread that runs. */
struct thread_slab {
	_Atomic uint32_t next_free[SLAB_THREADS]; /* number of a state, 0 at the end of the list */
	struct {
		_Alignas(64) struct ws_thread thread;
	} states[SLAB_THREADS];
};

/* Private state that a fork wipes, beside the public part. */
struct private_state {
	struct ws_rt rt;
	_Atomic uint64_t free_threads; /* tag << 32 | number of a thread state; number 0: none */
	_Atomic uint32_t threads_made; /* states up to this number have been handed out */
	_Atomic(struct thread_slab *) slabs[SLABS];
	_Atomic uint32_t setting_up;
};

static struct {
	struct ws_arena *arena;
	_Atomic uint64_t mapped;     /* bytes of it, from its start */
	_Atomic uint64_t map_failed; /* ticks when more of it could not be had; 0: never */
	_Atomic uint64_t stuck; /* sum_free_lists when all memory was held for good; 0: never */
	uint64_t buffers[WS_BUFFERS / 64]; /* bits: which of the arena's buffers are mapped */
	struct private_state *state;
	_Atomic int init; /* 0 not tried, 1 at work, 2 done */
	int key_ok;
	pthread_key_t key;
	uintptr_t page; /* bytes: 4, 16 or 64 KiB on aarch64 */
	uint32_t image; /* generations already used in this image */
	uint32_t parent_home;
	uint64_t parent_start;
	uint64_t pid_ns;
	bool sandboxed;
	bool locked;	     /* the program locks its memory */
	bool refuse_threads; /* a new state could be taken for that of a thread it is shared with */
	bool keep_in_child;  /* the fork under way comes from the middle of a hook */
	char path[512];
} kept;

#define SYS1(nr, a) ws_raw_syscall(nr, (long)(a), 0, 0, 0, 0, 0)
#define SYS3(nr, a, b, c) ws_raw_syscall(nr, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define SYS4(nr, a, b, c, d) ws_raw_syscall(nr, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

bool ws_rt_is_sandboxed(void)
{
	return kept.sandboxed;
}

bool ws_rt_share_thread(bool on)
{
	struct ws_thread *thread = ws_rt_enter();

	if (thread)
		ws_rt_leave(thread);
	thread = ws_self;
	kept.refuse_threads |= on && !thread && kept.state;
	if (!thread || on == ((thread->paused & WS_SHARED_THREAD) != 0))
		return false;
	thread->tid = (uint32_t)SYS1(SYS_gettid, 0);
	thread->paused ^= WS_SHARED_THREAD;
	return true;
}

void ws_rt_mute_thread(bool on)
{
	struct ws_thread *thread = ws_self;

	if (!kept.state || !thread || thread->muted == on || !ws_rt_is_own_thread(thread))
		return;
	thread->muted = on;
	if (on)
		thread->paused++;
	else
		thread->paused--;
}

long ws_raw_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	return ws_syscall(nr, a, b, c, d, e, f);
}

/* After mlockall(MCL_FUTURE) it would count as the program's. */
static void unlock_range(void *at, uint64_t bytes)
{
	if (kept.locked && !kept.sandboxed)
		SYS3(SYS_munlock, at, bytes, 0);
}

/* The kernel rounds `bytes` up to whole pages, here and in madvise and munmap. */
static void *map_private(size_t bytes)
{
	long p = ws_raw_syscall(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p < 0 && p > -4096)
		return NULL;
	SYS3(SYS_madvise, p, bytes, MADV_WIPEONFORK);
	if (!kept.sandboxed)
		SYS3(SYS_munlock, p, bytes,
		     0); /* after mlockall(MCL_FUTURE) it would count as the program's */
	return (void *)p;
}

static void wake_recorder(struct ws_arena *arena)
{
	if (atomic_load_explicit(&arena->sleeping, memory_order_relaxed) && !kept.sandboxed &&
	    atomic_exchange_explicit(&arena->sleeping, 0, memory_order_acq_rel))
		SYS3(SYS_futex, &arena->sleeping, FUTEX_WAKE, 1);
}

void ws_rt_wake_recorder(void)
{
	if (kept.arena)
		wake_recorder(kept.arena);
}

/* ---- the mapping ---- */

#define REGION_BYTES ((uint64_t)WS_REGION_CHUNKS * WS_CHUNK_SIZE)
#define BASE_DISTANCE (UINT64_C(256) << 30) /* between the arena and what the kernel maps next */
#define LIMITED_SHARE 64 /* of a limited address space no more than one part in so many is ours */
#define LIMITED_LEAST (4 * REGION_BYTES)

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

static bool is_error(long result)
{
	return result < 0 && result > -4096;
}

/* Map a part of the file at `address`, or wherever there is room when it is 0. Never over anything:
 * a kernel that does not know the flag may choose another place, which is given up. */
static long map_shared(uint64_t address, uint64_t bytes, long fd, uint64_t offset)
{
	long p = ws_raw_syscall(SYS_mmap, (long)address, (long)bytes, PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_NORESERVE | (address ? MAP_FIXED_NOREPLACE : 0),
				fd, (long)offset);

	if (is_error(p) || !address || p == (long)address)
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

		if (is_error(p))
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

static uint32_t count_mapped_chunks(void)
{
	return (uint32_t)(atomic_load_explicit(&kept.mapped, memory_order_acquire) / WS_CHUNK_SIZE);
}

/* Another thread may have mapped the last of it and not have said so yet. */
static bool wait_for_mapper(uint64_t old)
{
	struct timespec pause = {0, 20000};

	for (int i = 0; i < 5; i++) {
		if (atomic_load_explicit(&kept.mapped, memory_order_acquire) != old)
			return true;
		SYS3(SYS_nanosleep, &pause, NULL, 0);
	}
	return false;
}

/* Of several threads the one that is last to say how much is mapped may know the least. */
static void raise_mapped(uint64_t size)
{
	uint64_t mapped = atomic_load_explicit(&kept.mapped, memory_order_relaxed);

	while (mapped < size &&
	       !atomic_compare_exchange_weak_explicit(&kept.mapped, &mapped, size,
						      memory_order_release, memory_order_relaxed))
		;
}

/* In the process's home, for at its end there may be no room for a record. */
static void note_limit(void)
{
	struct ws_process_home *home = kept.state ? kept.state->rt.home : NULL;

	if (home && !(__atomic_load_n(&home->flags, __ATOMIC_RELAXED) & WS_PROC_LIMITED))
		__atomic_fetch_or(&home->flags, WS_PROC_LIMITED, __ATOMIC_RELAXED);
}

/* Each event that is lost comes here: the kernel is asked once a second. */
static bool has_just_failed(const struct ws_arena *arena)
{
	uint64_t failed = atomic_load_explicit(&kept.map_failed, memory_order_relaxed);

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
 * The other must not wait until that one has said so: it may have lost the processor, be what this
 * signal handler interrupted, or have been left behind by a fork. Sizes follow from one another, so
 * the next one is tried until the kernel says that the mapping does not reach so far (EFAULT).
 */
static bool map_more(struct ws_arena *arena)
{
	const uint64_t end = (uint64_t)(arena->chunk_first + arena->chunk_count) * WS_CHUNK_SIZE;
	const uint64_t known = atomic_load_explicit(&kept.mapped, memory_order_acquire);
	uint64_t allowance, size;

	if (known >= end || kept.sandboxed)
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
	atomic_store_explicit(&kept.map_failed, ws_rt_read_ticks(), memory_order_relaxed);
	note_limit();
	return false;
}

/* Whether there is memory behind what this process has not mapped. */
static bool has_more_to_map(const struct ws_arena *arena)
{
	return count_mapped_chunks() <
	       atomic_load_explicit(&arena->chunk_backed, memory_order_relaxed);
}

static bool map_buffer(struct ws_arena *arena, long fd, uint32_t i)
{
	uint64_t at = (uint64_t)ws_buffer_at(arena, i), bit = UINT64_C(1) << i % 64;

	if (ws_rt_is_buffer_mapped(i))
		return true;
	if (is_error(map_shared(at, WS_BUFFER_SIZE, fd, at - (uint64_t)arena)))
		return false;
	unlock_range((void *)at, WS_BUFFER_SIZE);
	__atomic_fetch_or(&kept.buffers[i / 64], bit, __ATOMIC_RELEASE);
	return true;
}

bool ws_rt_is_buffer_mapped(uint32_t i)
{
	return __atomic_load_n(&kept.buffers[i / 64], __ATOMIC_ACQUIRE) >> i % 64 & 1;
}

void ws_rt_unlock_memory(void)
{
	struct ws_arena *arena = kept.arena;

	if (!arena)
		return;
	kept.locked = true;
	unlock_range(arena, atomic_load(&kept.mapped));
	for (uint32_t i = 0; kept.state && i < SLABS && kept.state->slabs[i]; i++)
		unlock_range(kept.state->slabs[i], sizeof(struct thread_slab));
	for (uint32_t i = 0; i < WS_BUFFERS; i++)
		if (ws_rt_is_buffer_mapped(i))
			unlock_range(ws_buffer_at(arena, i), WS_BUFFER_SIZE);
}

/* What can be mapped now is: later there is no way. Enough for what one process records between two
 * rounds of the recorder. */
void ws_rt_enter_sandbox(void)
{
	const uint64_t enough = 32 * REGION_BYTES;

	while (kept.arena && !kept.sandboxed && atomic_load(&kept.mapped) < enough &&
	       has_more_to_map(kept.arena) && map_more(kept.arena))
		;
	kept.sandboxed = true;
}

/* ---- chunks ---- */

static bool recorder_gone(struct ws_arena *arena)
{
	if (atomic_load_explicit(&arena->closed, memory_order_acquire))
		return true;
	/* It beats many times a second: asking the kernel can wait until it has not for one. */
	if (ws_rt_read_ticks() - atomic_load_explicit(&arena->heartbeat, memory_order_relaxed) <
	    arena->ticks_per_second)
		return false;
	/* In another pid namespace its pid means nothing: then only `closed` tells. */
	return arena->recorder_pid_ns == kept.pid_ns &&
	       SYS3(SYS_kill, arena->recorder_pid, 0, 0) == -3 /* ESRCH */;
}

static int extend_arena(struct ws_arena *arena)
{
	long fd;
	int r;

	if (atomic_load_explicit(&arena->chunk_backed, memory_order_relaxed) >=
	    arena->chunk_first + arena->chunk_count)
		return -1; /* the budget is spent: the way of every event from now on, so no system
			      call */
	fd = SYS4(SYS_openat, AT_FDCWD, kept.path, O_RDWR | O_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	r = ws_extend_arena(arena, (int)fd, (1u << 20) / WS_CHUNK_SIZE);
	SYS1(SYS_close, fd);
	return r;
}

uint32_t ws_rt_take_chunk(void)
{
	struct ws_arena *arena = kept.arena;
	uint32_t chunk = ws_take_chunk(arena, count_mapped_chunks());

	while (chunk == WS_CHUNK_NONE && has_more_to_map(arena) && map_more(arena))
		chunk = ws_take_chunk(arena, count_mapped_chunks());
	return chunk;
}

/*
 * A writer that waits for memory waits for the recorder to give chunks back. It never gives back
 * those that threads and processes hold while they live: where these have taken all that there is
 * to be had (many threads, little memory or address space), the wait would be endless.
 */
struct patience {
	uint64_t sum, since; /* ticks since when no chunk has been taken or given back */
	uint64_t beat;	     /* of the recorder, last seen */
	uint32_t beats, polls;
};

#define POLLS_A_LOOK 64u /* some 16 ms */
#define ROUNDS_WAITED 8u

/* Another number whenever a chunk that this process could use has been taken or given back. */
static uint64_t sum_free_lists(const struct ws_arena *arena)
{
	uint32_t end = ws_min(count_mapped_chunks(), WS_MAX_CHUNKS) / WS_REGION_CHUNKS;
	uint64_t sum = atomic_load_explicit(&arena->chunk_next, memory_order_relaxed);

	for (uint32_t region = 0; region < end; region++)
		sum += atomic_load_explicit(&arena->free_heads[region], memory_order_relaxed) >> 32;
	return sum + 1;
}

/* Has the recorder gone round again and again for a second, and nothing came back? */
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
	if (sum == atomic_load_explicit(&kept.stuck, memory_order_relaxed))
		return true;
	if (sum != patience->sum) {
		*patience = (struct patience){.sum = sum, .since = now, .beat = beat, .polls = 1};
		return false;
	}
	if (patience->beats < ROUNDS_WAITED || now - patience->since < arena->ticks_per_second)
		return false;
	atomic_store_explicit(&kept.stuck, sum, memory_order_relaxed);
	return true;
}

/* A chunk, however it can be had; WS_CHUNK_NONE when the budget is spent or the recorder gone. */
static uint32_t get_chunk(struct ws_arena *arena)
{
	uint32_t chunk = ws_rt_take_chunk();
	struct patience patience = {0};

	while (chunk == WS_CHUNK_NONE) {
		struct timespec pause = {0, 200000};

		wake_recorder(arena);
		if (kept.sandboxed)
			break;
		if (!has_more_to_map(arena) && !extend_arena(arena)) {
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

static struct ws_ring *make_ring(struct ws_rt *rt, uint32_t tid, uint32_t nest)
{
	uint32_t index = get_chunk(rt->arena);
	struct ws_ring *ring;
	int slot;

	if (index == WS_CHUNK_NONE)
		return NULL;
	ring = ws_chunk_at(rt->arena, index);
	memset((char *)ring + sizeof(ring->chunk), 0, sizeof(*ring) - sizeof(ring->chunk));
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

/* ---- the process ---- */

static size_t append_text(char *to, size_t room, const char *text, size_t n)
{
	if (!room)
		return 0;
	n = ws_min(n, room - 1);
	memcpy(to, text, n);
	to[n] = 0;
	return n + 1;
}

static bool is_wanted_variable(const char *names, const char *entry, size_t name_len)
{
	for (; *names; names += strlen(names) + 1) {
		size_t n = strlen(names);

		if (names[n - 1] == '*' && name_len >= n - 1 && !strncmp(names, entry, n - 1))
			return true;
		if (name_len == n && !strncmp(names, entry, n))
			return true;
	}
	return false;
}

extern char **environ;

/* The texts of a process home: executable, arguments, reported variables. Long command lines are
 * cut: the recorder says so. */
static uint32_t fill_texts(struct ws_arena *arena, struct ws_process_home *home, bool fork_child)
{
	char *end = (char *)home + WS_CHUNK_SIZE - 8, *at = home->text;
	long fd, n;

	if (!fork_child) { /* a forked child runs its parent's image: the recorder knows these */
		n = SYS4(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", at, 2048);
		home->exe_len = (uint32_t)ws_max(n, 0L);
		at += home->exe_len;
		fd = SYS4(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC, 0);
		if (fd >= 0) {
			n = SYS3(SYS_read, fd, at, 4096);
			home->cmdline_len = (uint32_t)ws_max(n, 0L);
			if (n == 4096)
				home->flags |= WS_PROC_TRUNCATED;
			at += home->cmdline_len;
			SYS1(SYS_close, fd);
		}
	}
	if (!environ || !arena->text_report_vars || arena->text_report_vars >= WS_ARENA_TEXT)
		return (uint32_t)(at - (char *)home);
	for (char **e = environ; *e; e++) {
		const char *eq = strchr(*e, '=');

		if (eq && is_wanted_variable(arena->text + arena->text_report_vars, *e,
					     (size_t)(eq - *e))) {
			size_t used = append_text(at, (size_t)(end - at), *e, strlen(*e));

			home->env_len += (uint32_t)used;
			at += used;
		}
	}
	return (uint32_t)(at - (char *)home);
}

/* Make this process known. Returns NULL when there is no memory for it. */
static struct ws_process_home *make_process_home(struct ws_arena *arena, bool fork_child)
{
	uint32_t index = get_chunk(arena), end;
	struct ws_process_home *home;
	int slot;

	if (index == WS_CHUNK_NONE)
		return NULL;
	home = ws_chunk_at(arena, index);
	memset((char *)home + sizeof(home->chunk), 0, sizeof(*home) - sizeof(home->chunk));
	home->chunk.kind = WS_CHUNK_PROCESS;
	home->pid = (uint32_t)ws_raw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
	home->ppid = (uint32_t)ws_raw_syscall(SYS_getppid, 0, 0, 0, 0, 0, 0);
	home->origin = WS_ORIGIN_EXEC;
	if (fork_child) {
		home->origin = WS_ORIGIN_FORK;
		home->parent_home = kept.parent_home;
		home->parent_start = kept.parent_start;
	}
	home->pid_ns = kept.pid_ns;
	home->start = arena->clock_mode == WS_CLOCK_COUNTER ? ws_read_counter() : ws_read_raw_ns();
	end = WS_ALIGN_UP(fill_texts(arena, home, fork_child), 8u);
	atomic_store_explicit(&home->string_pos, (uint64_t)index << 32 | end, memory_order_relaxed);
	atomic_store_explicit(&home->ready, 1, memory_order_release);
	slot = ws_add_to_directory(arena, index);
	if (slot < 0) {
		ws_give_chunk(arena, index);
		return NULL;
	}
	home->slot = (uint32_t)slot;
	wake_recorder(arena);
	return home;
}

static uint64_t own_pid_ns(void)
{
	struct stat st;

	memset(&st, 0, sizeof(st));
#if defined(__x86_64__) || defined(__aarch64__)
	if (SYS4(SYS_newfstatat, AT_FDCWD, "/proc/self/ns/pid", &st, 0) < 0)
		return 0;
#endif
	return st.st_ino;
}

static void fill_rt(struct private_state *private_state, bool fork_child)
{
	struct ws_process_home *home = make_process_home(kept.arena, fork_child);

	if (!home) {
		atomic_fetch_add_explicit(&kept.arena->lost_registrations, 1, memory_order_relaxed);
		return;
	}
	kept.parent_home = home->chunk.self;
	kept.parent_start = home->start;
	private_state->rt.home = home;
	private_state->rt.features = kept.arena->features;
	private_state->rt.clock_mode = kept.arena->clock_mode;
	private_state->rt.generation = ++kept.image;
	__atomic_store_n(&private_state->rt.arena, kept.arena, __ATOMIC_RELEASE);
}

void ws_rt_set_up_child(void)
{
	struct private_state *private_state = kept.state;
	uint32_t idle = 0;
	uint64_t ns;

	if (!private_state || kept.keep_in_child)
		return;
	if (private_state->rt.generation &&
	    (uint32_t)ws_raw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0) != private_state->rt.home->pid) {
		/* The kernel did not wipe: do it by hand. The forking thread is the only one there
		 * is. */
		memset(private_state, 0, sizeof(*private_state));
		if (ws_self)
			memset(ws_self, 0, sizeof(*ws_self));
	}
	if (private_state->rt.generation ||
	    !atomic_compare_exchange_strong(&private_state->setting_up, &idle, 1))
		return;
	/* In a chroot without /proc it cannot be asked; then it is the parent's, unless the parent
	 * is outside: that has no number here. */
	ns = own_pid_ns();
	if (ns || !ws_raw_syscall(SYS_getppid, 0, 0, 0, 0, 0, 0))
		kept.pid_ns = ns;
	if (kept.arena->features & WS_FEATURE_FORK_TRACE)
		fill_rt(private_state, true);
	/* One that is not recorded stays marked: every call would come here again. */
	if (private_state->rt.generation)
		atomic_store(&private_state->setting_up, 0);
}

static void advise_state(int advice)
{
	struct ws_thread *thread = ws_self;
	uintptr_t from = (uintptr_t)thread & ~(kept.page - 1),
		  end = (uintptr_t)thread + sizeof(*thread);

	SYS3(SYS_madvise, from, end - from, advice);
	SYS3(SYS_madvise, kept.state, sizeof(*kept.state), advice);
	if (thread->more_strings)
		SYS3(SYS_madvise, thread->more_strings,
		     WS_STRING_SLOTS_MORE * sizeof(*thread->more_strings), advice);
	if (thread->python)
		SYS3(SYS_madvise, thread->python, WS_PYTHON_THREAD_BYTES, advice);
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
static void leave_session(void)
{
	struct ws_arena *arena = kept.arena;

	for (uint32_t i = 0; i < WS_BUFFERS; i++)
		if (ws_rt_is_buffer_mapped(i))
			replace_memory(ws_buffer_at(arena, i), WS_BUFFER_SIZE);
	replace_memory(arena, atomic_load(&kept.mapped));
	atomic_store(&arena->closed, 1);
}

bool ws_rt_before_fork(void)
{
	struct ws_thread *thread = ws_self;

	if (!thread || !kept.state || !(thread->busy || ws_rt_is_paused(thread)) ||
	    !ws_rt_is_own_thread(thread))
		return false;
	kept.keep_in_child = true;
	advise_state(MADV_KEEPONFORK);
	return true;
}

void ws_rt_after_fork(bool interrupted, bool in_child)
{
	if (!interrupted) {
		if (in_child)
			ws_rt_set_up_child(); /* usually done by the fork handler already */
		return;
	}
	advise_state(MADV_WIPEONFORK);
	if (in_child)
		leave_session();
	kept.keep_in_child = false;
	if (!in_child)
		ws_rt_write_diagnostic(
			WS_WARNING, "process",
			"A signal handler that interrupted the recording of an event "
			"forked: its child is not recorded.");
}

/* Map the head of the arena, whose file has `size` bytes; NULL when it is none of ours. */
static struct ws_arena *map_head(long fd, uint64_t size)
{
	uint64_t least = WS_ALIGN_UP(sizeof(struct ws_arena), REGION_BYTES), head;
	struct ws_arena *arena;
	long p;

	if (size <= sizeof(struct ws_arena))
		return NULL;
	head = ws_min(find_allowance() == UINT64_MAX ? 2 * least : least, size);
	p = map_shared(0, head, fd, 0);
	if (is_error(p))
		return NULL;
	arena = (struct ws_arena *)p;
	if (arena->magic != WS_ARENA_MAGIC || arena->version != WS_ARENA_VERSION ||
	    arena->size != size || atomic_load(&arena->closed)) {
		SYS3(SYS_munmap, p, head, 0);
		return NULL;
	}
	kept.mapped = head;
	return (struct ws_arena *)move_down(p, head, fd);
}

static bool attach_arena(const char *path)
{
	struct stat st;
	long fd;

	if (strlen(path) >= sizeof(kept.path))
		return false;
	strcpy(kept.path, path);
	fd = SYS4(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
	if (fd < 0)
		return false;
	memset(&st, 0, sizeof(st));
	if (!SYS3(SYS_fstat, fd, &st, 0))
		kept.arena = map_head(fd, (uint64_t)st.st_size);
	SYS1(SYS_close, fd);
	return kept.arena != NULL;
}

/* ---- threads ---- */

/*
 * The list of thread states that are free: a stack of numbers, from 1 on, whose head carries a tag
 * against ABA. Numbers, not addresses: those have 47 bits on one processor and up to 52 on another,
 * which leave too few for the tag. A forked child finds the whole list wiped and begins anew.
 */
static struct ws_thread *thread_at(struct private_state *state, uint32_t number)
{
	struct thread_slab *slab = atomic_load_explicit(&state->slabs[(number - 1) / SLAB_THREADS],
							memory_order_acquire);

	return &slab->states[(number - 1) % SLAB_THREADS].thread;
}

static _Atomic uint32_t *next_free_at(struct private_state *state, uint32_t number)
{
	struct thread_slab *slab = atomic_load_explicit(&state->slabs[(number - 1) / SLAB_THREADS],
							memory_order_acquire);

	return &slab->next_free[(number - 1) % SLAB_THREADS];
}

/* Put a state, which must be zero but for its number, on the free list. One that a fork wiped has
 * no number any more: it lies in its parent's slab and is left there. */
static void free_thread(struct ws_thread *thread)
{
	struct private_state *state = kept.state;
	uint32_t number = thread->number;
	uint64_t head = atomic_load_explicit(&state->free_threads, memory_order_relaxed), mine;

	if (!number)
		return;
	do {
		atomic_store_explicit(next_free_at(state, number), (uint32_t)head,
				      memory_order_relaxed);
		mine = ((head >> 32) + 1) << 32 | number;
	} while (!atomic_compare_exchange_weak_explicit(
		&state->free_threads, &head, mine, memory_order_acq_rel, memory_order_relaxed));
}

static uint32_t pop_free_thread(struct private_state *state)
{
	uint64_t head = atomic_load_explicit(&state->free_threads, memory_order_acquire);

	while ((uint32_t)head) {
		uint32_t number = (uint32_t)head;
		uint32_t next =
			atomic_load_explicit(next_free_at(state, number), memory_order_relaxed);

		if (atomic_compare_exchange_weak_explicit(
			    &state->free_threads, &head, ((head >> 32) + 1) << 32 | next,
			    memory_order_acq_rel, memory_order_acquire))
			return number;
	}
	return 0;
}

static bool map_slab(struct private_state *state, uint32_t slab_index)
{
	struct thread_slab *none = NULL, *slab;

	if (slab_index >= SLABS)
		return false;
	if (atomic_load_explicit(&state->slabs[slab_index], memory_order_acquire))
		return true;
	slab = map_private(sizeof(*slab));
	if (!slab)
		return false;
	if (!atomic_compare_exchange_strong_explicit(&state->slabs[slab_index], &none, slab,
						     memory_order_acq_rel, memory_order_acquire))
		SYS3(SYS_munmap, slab, sizeof(*slab), 0); /* another thread was faster */
	return true;
}

/* The number of a state that was never used, with memory behind it; 0 when there is none. */
static uint32_t make_thread(struct private_state *state)
{
	uint32_t made = atomic_load_explicit(&state->threads_made, memory_order_relaxed);

	do {
		if (!map_slab(state, made / SLAB_THREADS))
			return 0;
	} while (!atomic_compare_exchange_weak_explicit(
		&state->threads_made, &made, made + 1, memory_order_relaxed, memory_order_relaxed));
	return made + 1;
}

static struct ws_thread *take_thread(void)
{
	struct private_state *state = kept.state;
	uint32_t number = pop_free_thread(state);
	struct ws_thread *thread;

	if (!number)
		number = make_thread(state);
	if (!number)
		return NULL;
	thread = thread_at(state, number);
	thread->number = number;
	return thread;
}

static void close_thread(struct ws_thread *thread)
{
	uint32_t number = thread->number;

	for (int i = 0; i < WS_NESTS; i++)
		if (thread->nest[i].ring)
			atomic_store_explicit(&thread->nest[i].ring->closed, 1,
					      memory_order_release);
	if (thread->more_strings)
		SYS3(SYS_munmap, thread->more_strings,
		     WS_STRING_SLOTS_MORE * sizeof(*thread->more_strings), 0);
	if (thread->python)
		SYS3(SYS_munmap, thread->python, WS_PYTHON_THREAD_BYTES, 0);
	memset(thread, 0, sizeof(*thread));
	thread->number = number;
}

/* Destructors of other keys may still record after ours ran: ask for two more rounds before
 * closing. The state then serves the next thread that begins. */
static void note_thread_end(void *round)
{
	struct ws_thread *thread = ws_self;
	uintptr_t n = (uintptr_t)round;

	if (n < 3) {
		ws_set_key_value(kept.key, (void *)(n + 1));
		return;
	}
	if (!thread || !kept.state || thread->generation != kept.state->rt.generation)
		return;
	ws_self = NULL;
	close_thread(thread);
	free_thread(thread);
}

static bool open_nest(struct ws_thread *thread, uint32_t i)
{
	struct ws_nest *nest = &thread->nest[i];
	struct ws_ring *ring = make_ring(&kept.state->rt, thread->tid, i);

	if (!ring)
		return false;
	nest->chunk = &ring->chunk;
	nest->base = ring->chunk.base = ring->start;
	nest->cur = (char *)ring + WS_RING_DATA;
	nest->end = (char *)ring + WS_CHUNK_SIZE;
	nest->texts = 0;
	nest->ring = ring;
	return true;
}

static void name_thread(struct ws_thread *thread)
{
	struct ws_rec_thread_name *record;
	char name[17] = "";
	uint32_t handle;

	if (kept.sandboxed)
		return;
	SYS3(SYS_prctl, PR_GET_NAME, name, 0);
	handle = ws_rt_find_string(thread, name, strlen(name));
	if (!handle)
		return;
	record = ws_rt_reserve(thread, sizeof(*record), WS_LOSS_OTHER);
	if (!record)
		return;
	record->rec = ws_rec_head(WS_REC_THREAD_NAME, sizeof(*record), 0, handle);
	record->time = thread->nest[0].ring->start;
	record->tid = thread->tid;
	record->priority = 10;
	ws_rt_commit(thread, record, sizeof(*record));
}

/* First record of a thread, or of a forked child's only thread. */
static bool set_up_thread(struct ws_thread *thread)
{
	struct private_state *private_state = kept.state;

	if (!private_state->rt.generation)
		ws_rt_set_up_child();
	if (!private_state->rt.generation)
		return false;
	thread->tid = (uint32_t)ws_raw_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
	if (!open_nest(thread, 0))
		return false;
	thread->generation = private_state->rt.generation;
	if (kept.key_ok)
		ws_set_key_value(kept.key, (void *)1);
	thread->busy = 1;
	name_thread(thread);
	thread->busy = 0;
	return true;
}

/*
 * A handler that was left by longjmp while its thread was writing leaves `busy` too high. Each
 * nested enter notes where its stack stood: one that stood below where we stand now is gone, unless
 * it is on an alternate stack, of which nothing is known. What cannot be distinguished at all,
 * because every nest is taken, is given up after a few events: real handlers are not that deep.
 */
static bool on_alternate_stack(void)
{
	stack_t s = {.ss_flags = SS_DISABLE};

	return kept.sandboxed || SYS3(SYS_sigaltstack, NULL, &s, 0) || s.ss_flags & SS_ONSTACK;
}

static void drop_left_nests(struct ws_thread *thread, uintptr_t here)
{
	if (thread->busy < 2 || thread->nest_stack[thread->busy - 1] >= here ||
	    on_alternate_stack())
		return;
	while (thread->busy > 1 && thread->nest_stack[thread->busy - 1] < here)
		thread->busy--;
}

static struct ws_thread *lose_deep_nest(struct ws_thread *thread)
{
	ws_rt_count_loss(thread, WS_LOSS_OTHER, 1);
	if (++thread->nest[0].repeats >= 16) {
		thread->nest[0].repeats = 0;
		thread->busy = 0;
	}
	return NULL;
}

static struct ws_thread *count_lost_thread(bool count)
{
	if (count && atomic_load_explicit(&kept.arena->collecting, memory_order_relaxed))
		atomic_fetch_add_explicit(&kept.arena->lost_registrations, 1, memory_order_relaxed);
	return NULL;
}

/*
 * A handler that strikes while a ring is opened could not record: it waits those microseconds, once
 * a thread. Signals that tell of a fault of this very code are not held back. Returns the mask to
 * put back.
 */
static uint64_t hold_signals(void)
{
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
	uint64_t all = UINT64_MAX, was = 0;

	for (size_t i = 0; i < WS_COUNT(faults); i++)
		all &= ~(1ull << (faults[i] - 1));
	if (!kept.sandboxed)
		ws_raw_syscall(SYS_rt_sigprocmask, SIG_BLOCK, (long)&all, (long)&was, sizeof(was),
			       0, 0);
	return was;
}

static void release_signals(uint64_t was)
{
	if (!kept.sandboxed)
		ws_raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&was, 0, sizeof(was), 0, 0);
}

struct ws_thread *ws_rt_enter_slow(bool count)
{
	struct ws_thread *thread = ws_self;
	uint64_t mask;
	bool ok;

	if (ws_unlikely(!thread)) {
		if (atomic_load_explicit(&kept.init, memory_order_acquire) != 2)
			ws_rt_init();
		if (!kept.state || kept.refuse_threads || !(thread = take_thread()))
			return NULL;
		if (ws_self) { /* a signal handler was faster */
			free_thread(thread);
			thread = ws_self;
		} else {
			ws_self = thread;
		}
	}
	if (!ws_rt_is_own_thread(thread))
		return NULL;
	if (ws_rt_is_paused(thread)) /* a vfork child's events are nobody's; a handler's while the
			  runtime sets the thread up are lost, and counted */
		return thread->vfork_start || thread->muted ? NULL : count_lost_thread(count);
	if (!thread->generation) {
		if (!atomic_load_explicit(&kept.arena->collecting, memory_order_relaxed) &&
		    atomic_load_explicit(&kept.arena->closed, memory_order_relaxed))
			return NULL;
		thread->paused++;
		mask = hold_signals();
		ok = set_up_thread(thread);
		thread->paused--;
		release_signals(mask);
		if (!ok)
			return count_lost_thread(count);
	}
	drop_left_nests(thread, (uintptr_t)__builtin_frame_address(0));
	if (thread->busy >= WS_NESTS)
		return lose_deep_nest(thread);
	thread->nest_stack[thread->busy] = (uintptr_t)__builtin_frame_address(0);
	if (!thread->nest[thread->busy].ring) {
		thread->paused++;
		mask = hold_signals();
		ok = open_nest(thread, thread->busy);
		thread->paused--;
		release_signals(mask);
		if (!ok)
			return count_lost_thread(count);
	}
	thread->busy++;
	return thread;
}

bool ws_rt_enter_sampler(struct ws_thread *thread, uint32_t *was)
{
	bool ok = true;

	if (thread->busy > WS_NEST_SAMPLER || !ws_rt_is_own_thread(thread))
		return false;
	*was = thread->busy;
	if (!thread->nest[WS_NEST_SAMPLER].ring) {
		thread->paused++;
		ok = open_nest(thread, WS_NEST_SAMPLER);
		thread->paused--;
	}
	if (!ok)
		return false;
	thread->busy = WS_NEST_SAMPLER + 1;
	__asm__ volatile("" ::: "memory");
	return true;
}

bool ws_rt_is_collecting_slow(void)
{
	struct private_state *private_state = kept.state;

	if (!private_state)
		return false;
	if (!private_state->rt.generation &&
	    !atomic_load_explicit(&private_state->setting_up, memory_order_relaxed))
		ws_rt_set_up_child();
	return private_state->rt.arena &&
	       atomic_load_explicit(&private_state->rt.arena->collecting, memory_order_relaxed);
}

void *ws_rt_reserve_slow(struct ws_thread *thread, size_t bytes, enum ws_loss_kind loss)
{
	struct ws_nest *nest = &thread->nest[thread->busy - 1];
	struct ws_arena *arena = kept.arena;
	uint32_t index;
	struct ws_chunk *chunk;

	if (bytes > WS_REC_MAX_BYTES || (index = get_chunk(arena)) == WS_CHUNK_NONE) {
		ws_rt_count_loss(thread, loss, 1);
		return NULL;
	}
	chunk = ws_chunk_at(arena, index);
	nest->base = chunk->base = ws_rt_read_ticks();
	atomic_store_explicit(&nest->chunk->next, index, memory_order_release);
	nest->chunk = chunk;
	nest->cur = (char *)chunk + sizeof(*chunk);
	nest->end = (char *)chunk + WS_CHUNK_SIZE;
	/* A sample takes half a chunk: waking for each would cost more than the sample, and the
	 * recorder comes round by itself. */
	if (nest != &thread->nest[WS_NEST_SAMPLER] || !(++nest->repeats % 16))
		wake_recorder(arena);
	return nest->cur;
}

/* ---- strings ---- */

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
		fresh = get_chunk(kept.arena);
		if (fresh == WS_CHUNK_NONE)
			return 0;
		((struct ws_chunk *)ws_chunk_at(kept.arena, fresh))->kind = WS_CHUNK_STRINGS;
		/* Chained newest first behind the home, so that the recorder can free them all when
		 * the process is gone. */
		atomic_store_explicit(&((struct ws_chunk *)ws_chunk_at(kept.arena, fresh))->next,
				      chunk == home->chunk.self ? WS_CHUNK_NONE : chunk,
				      memory_order_relaxed);
		if (atomic_compare_exchange_strong_explicit(
			    &home->string_pos, &pos,
			    (uint64_t)fresh << 32 | (sizeof(struct ws_chunk) + bytes),
			    memory_order_acq_rel, memory_order_acquire))
			return (uint64_t)fresh * WS_CHUNK_SIZE + sizeof(struct ws_chunk);
		ws_give_chunk(kept.arena, fresh); /* another thread was faster: use its chunk */
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
	string = (struct ws_shared_string *)((char *)kept.arena + at);
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

static inline struct ws_string_slot *find_slot(struct ws_thread *thread, uint64_t hash,
					       const char *text, size_t len, bool *hit)
{
	struct ws_string_slot *slot = string_slot_pair(thread, hash);

	for (int way = 0; way < 2; way++)
		if (slot[way].hash == hash && slot[way].len == len &&
		    (!slot[way].handle ||
		     same_bytes(ws_string_at(kept.arena, slot[way].handle)->bytes, text, len))) {
			*hit = slot[way].handle != 0;
			return &slot[way];
		}
	*hit = false;
	slot[1] = slot[0];
	slot[0] = (struct ws_string_slot){.hash = hash, .len = (uint32_t)len};
	return slot;
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
 * Every 256 lookups: were many of them new? Then a larger cache; if that is there and most are
 * still new, texts, until that changes. A string seen twice is still defined.
 */
static bool prefers_inline_texts(struct ws_thread *thread, bool miss)
{
	thread->string_lookups++;
	thread->string_misses += miss;
	if (ws_unlikely((thread->string_lookups & 255) == 0)) {
		uint32_t misses = thread->string_misses & 0xffff;

		if (misses > 32 && !thread->more_strings && !kept.sandboxed)
			thread->more_strings =
				map_private(WS_STRING_SLOTS_MORE * sizeof(*thread->more_strings));
		thread->string_misses = (uint32_t)(misses > 128) << 16;
	}
	return thread->string_misses >> 16;
}

uint32_t ws_rt_write_string_or_text(struct ws_thread *thread, const char *text, size_t len,
				    bool *local, enum ws_loss_kind loss)
{
	*local = false;
	if (ws_likely(len <= WS_STRING_MAX / 8)) {
		uint64_t hash = hash_bytes(text, len);
		struct ws_string_slot *set = string_slot_pair(thread, hash), *slot;
		bool seen = set[0].hash == hash || set[1].hash == hash, hit;

		slot = find_slot(thread, hash, text, len, &hit);
		if (ws_likely(hit)) {
			prefers_inline_texts(thread, false);
			return slot->handle;
		}
		if (!prefers_inline_texts(thread, !seen) || seen) {
			slot->handle = ws_rt_define_string(text, len);
			if (slot->handle)
				return slot->handle;
		}
	}
	*local = true;
	return ws_rt_write_text(thread, text, len, loss);
}

/* ---- buffers ---- */

int ws_rt_take_buffer(void)
{
	struct ws_arena *arena = ws_rt->arena;
	long fd;
	int i;

	if (!arena || !ws_rt->home || kept.sandboxed)
		return -1;
	fd = SYS4(SYS_openat, AT_FDCWD, kept.path, O_RDWR | O_CLOEXEC, 0);
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

/* ---- notes and diagnostics ---- */

void ws_rt_write_process_note(int note, uint64_t time, const char *path, int pid, int error)
{
	struct ws_thread *thread = ws_self;
	uint32_t paused = thread ? thread->paused : 0;

	if ((!ws_rt->arena && !ws_rt_is_collecting_slow()) ||
	    (thread && !ws_rt_is_own_thread(thread)))
		return;
	if (thread)
		thread->paused &= WS_SHARED_THREAD; /* a vfork child runs on its parent's thread,
				  which waits: writing there is safe */
	thread = ws_rt_enter();
	if (thread) {
		uint32_t handle = path ? ws_rt_find_string(thread, path, strlen(path)) : 0;
		struct ws_rec_process_note *record =
			ws_rt_reserve(thread, sizeof(*record), WS_LOSS_OTHER);

		if (record) {
			record->rec = ws_rec_head(WS_REC_PROCESS_NOTE, sizeof(*record),
						  (uint16_t)note, handle);
			record->time = time;
			record->pid = pid;
			record->error = error;
			ws_rt_commit(thread, record, sizeof(*record));
		}
		ws_rt_leave(thread);
	}
	if (ws_self)
		ws_self->paused = paused;
}

void ws_rt_write_diagnostic(int severity, const char *source, const char *text)
{
	struct ws_thread *thread;

	if (!ws_rt->arena && !ws_rt_is_collecting_slow())
		return;
	thread = ws_rt_enter();
	if (!thread)
		return;
	uint32_t text_handle = ws_rt_find_string(thread, text, strlen(text)),
		 source_handle = ws_rt_find_string(thread, source, strlen(source));
	struct ws_rec_diagnostic *record = ws_rt_reserve(thread, sizeof(*record), WS_LOSS_OTHER);

	if (record) {
		record->rec = ws_rec_head(WS_REC_DIAGNOSTIC, sizeof(*record), (uint16_t)severity,
					  text_handle);
		record->time = ws_rt_read_ticks();
		record->source = source_handle;
		ws_rt_commit(thread, record, sizeof(*record));
	}
	ws_rt_leave(thread);
}

const char *ws_rt_session_path(void)
{
	return kept.arena ? kept.path : "";
}

/* ---- beginning and end ---- */

static const char *env_session(void)
{
	size_t n = strlen(WS_ENV_SESSION);

	if (!environ)
		return NULL;
	for (char **e = environ; *e; e++)
		if (!strncmp(*e, WS_ENV_SESSION, n) && (*e)[n] == '=')
			return *e + n + 1;
	return NULL;
}

__attribute__((constructor(101))) void ws_rt_init(void)
{
	const char *path;
	int fresh = 0;

	if (!atomic_compare_exchange_strong(&kept.init, &fresh, 1))
		return;
	path = env_session();
	kept.pid_ns = own_pid_ns();
	kept.page = getauxval(AT_PAGESZ);
	if (path && *path && attach_arena(path)) {
		struct private_state *private_state = map_private(sizeof(*private_state));

		if (private_state) {
			kept.key_ok = ws_create_key(&kept.key, note_thread_end);
			kept.state = private_state;
			ws_rt = &private_state->rt;
			fill_rt(private_state, false);
			ws_register_atfork(ws_rt_set_up_child);
		}
	}
	atomic_store_explicit(&kept.init, 2, memory_order_release);
}

__attribute__((destructor(101))) static void note_process_end(void)
{
	if (kept.state && kept.state->rt.home && kept.state->rt.generation)
		atomic_store_explicit(&kept.state->rt.home->ended, 1, memory_order_release);
}
