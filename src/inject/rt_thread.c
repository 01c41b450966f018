/* rt_thread.c - the states of threads: handing them out, setting them up, nests of handlers. */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "inject/bind.h"
#include "inject/rt_state.h"

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

/* Put a state, which must be zero except for its number, on the free list. A state that a fork
 * wiped has lost its number; it belongs to its parent's slab and is left there. */
static void free_thread(struct ws_thread *thread)
{
	struct private_state *state = ws_rt_kept.state;
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
	if (ws_rt_kept.no_memory)
		return false;
	slab = ws_rt_map_private(sizeof(*slab));
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
	struct private_state *state = ws_rt_kept.state;
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

/* Under a filter the memory is kept: it cannot be given back. */
static void free_thread_memory(struct ws_thread *thread)
{
	if (ws_rt_kept.filtered)
		return;
	if (thread->more_strings)
		SYS3(SYS_munmap, thread->more_strings,
		     WS_STRING_SLOTS_MORE * sizeof(*thread->more_strings), 0);
	if (thread->python)
		SYS3(SYS_munmap, thread->python, WS_PYTHON_THREAD_BYTES, 0);
}

static void close_thread(struct ws_thread *thread)
{
	uint32_t number = thread->number;

	for (int i = 0; i < WS_NESTS; i++)
		if (thread->nest[i].ring)
			atomic_store_explicit(&thread->nest[i].ring->closed, 1,
					      memory_order_release);
	free_thread_memory(thread);
	memset(thread, 0, sizeof(*thread));
	thread->number = number;
}

/* Destructors of other keys may still record after ours ran: ask for two more rounds before
 * closing. The state then serves the next thread that begins. */
void ws_rt_note_thread_end(void *round)
{
	struct ws_thread *thread = ws_self;
	uintptr_t n = (uintptr_t)round;

	if (n < 3) {
		ws_set_key_value(ws_rt_kept.key, (void *)(n + 1));
		return;
	}
	if (!thread || !ws_rt_kept.state ||
	    (thread->generation && thread->generation != ws_rt_kept.state->rt.generation))
		return;
	ws_self = NULL;
	close_thread(thread);
	free_thread(thread);
}

static bool open_nest(struct ws_thread *thread, uint32_t i)
{
	struct ws_nest *nest = &thread->nest[i];
	struct ws_ring *ring = ws_rt_make_ring(&ws_rt_kept.state->rt, thread->tid, i);

	if (!ring)
		return false;
	nest->chunk = &ring->chunk;
	nest->base = ring->chunk.base = ring->start;
	nest->cur = (char *)ring + WS_RING_DATA;
	nest->end = (char *)ring + WS_CHUNK_SIZE;
	nest->texts = 0;
	nest->ring = ring;
	if (!i)
		thread->idle_ring = ring;
	return true;
}

static void name_thread(struct ws_thread *thread)
{
	struct ws_rec_thread_name *record;
	char name[17] = "";
	uint32_t handle;

	if (ws_rt_kept.sandboxed)
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

/* One slab more than is in use. */
void ws_rt_map_threads_ahead(void)
{
	struct private_state *state = ws_rt_kept.state;

	if (state)
		map_slab(state, atomic_load(&state->threads_made) / SLAB_THREADS + 1);
}

void ws_rt_forget_threads(void)
{
	struct private_state *state = ws_rt_kept.state;
	uint32_t made = atomic_load(&state->threads_made);

	for (uint32_t number = 1; number <= made; number++)
		__atomic_store_n(&thread_at(state, number)->generation, 0, __ATOMIC_RELAXED);
}

/* Nothing from an earlier session may remain: its handles, rings and memory belong to its arena. */
static void forget_session(struct ws_thread *thread)
{
	uint32_t number = thread->number, paused = thread->paused;
	bool muted = thread->muted;

	free_thread_memory(thread);
	memset(thread, 0, sizeof(*thread));
	thread->number = number;
	thread->paused = paused;
	thread->muted = muted;
}

/* First record of a thread, or of a forked child's only thread, or in a further session. */
static bool set_up_thread(struct ws_thread *thread)
{
	struct private_state *private_state = ws_rt_kept.state;

	if (thread->tid) /* a fork wipes it */
		forget_session(thread);
	if (!private_state->rt.generation)
		ws_rt_set_up_child();
	if (!private_state->rt.generation)
		return false;
	thread->tid = ws_rt_find_tid();
	if (!thread->tid || !open_nest(thread, 0))
		return false;
	thread->generation = private_state->rt.generation;
	if (ws_rt_kept.key_ok)
		ws_set_key_value(ws_rt_kept.key, (void *)1);
	thread->busy = 1;
	name_thread(thread);
	thread->busy = 0;
	return true;
}

/*
 * A handler that was left by longjmp while its thread was writing leaves `busy` too high. Each
 * nested enter notes where its stack stood: a nest whose stack was below the present position is
 * gone, unless it is on an alternate stack, about which nothing is known. When every nest is taken
 * the cases cannot be distinguished, and the nests are given up after a few events: real handlers
 * are not that deep.
 */
static bool on_alternate_stack(void)
{
	stack_t s = {.ss_flags = SS_DISABLE};

	return ws_rt_kept.sandboxed || SYS3(SYS_sigaltstack, NULL, &s, 0) ||
	       s.ss_flags & SS_ONSTACK;
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
	if (count && atomic_load_explicit(&ws_rt_kept.arena->collecting, memory_order_relaxed))
		atomic_fetch_add_explicit(&ws_rt_kept.arena->lost_registrations, 1,
					  memory_order_relaxed);
	return NULL;
}

/*
 * A handler that runs while a ring is being opened could not record, so it is held back for those
 * microseconds, once per thread. Signals that report a fault in this very code are not held back.
 * Returns the mask to restore.
 */
static uint64_t hold_signals(void)
{
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
	uint64_t all = UINT64_MAX, was = 0;

	for (size_t i = 0; i < WS_COUNT(faults); i++)
		all &= ~(1ull << (faults[i] - 1));
	if (!ws_rt_kept.sandboxed)
		ws_raw_syscall(SYS_rt_sigprocmask, SIG_BLOCK, (long)&all, (long)&was, sizeof(was),
			       0, 0);
	return was;
}

static void release_signals(uint64_t was)
{
	if (!ws_rt_kept.sandboxed)
		ws_raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&was, 0, sizeof(was), 0, 0);
}

/*
 * A thread that is not set up, and cannot be now: the process is changing to another session, or
 * this handler has interrupted the thread while it wrote into the one before.
 */
static bool is_between_sessions(const struct ws_thread *thread)
{
	const struct ws_rt *rt = &ws_rt_kept.state->rt;

	return (rt->generation &&
		__atomic_load_n(&rt->arena, __ATOMIC_ACQUIRE) != ws_rt_kept.arena) ||
	       (thread->tid && thread->busy);
}

struct ws_thread *ws_rt_enter_slow(bool count)
{
	struct ws_thread *thread = ws_self;
	uint64_t mask;
	bool ok;

	if (ws_unlikely(!thread)) {
		if (atomic_load_explicit(&ws_rt_kept.init, memory_order_acquire) != 2)
			ws_rt_init();
		if (!ws_rt_kept.state || ws_rt_kept.refuse_threads)
			return NULL;
		thread = take_thread();
		if (!thread)
			return count_lost_thread(count);
		if (ws_self) { /* a signal handler was faster */
			free_thread(thread);
			thread = ws_self;
		} else {
			ws_self = thread;
		}
	}
	if (!ws_rt_is_own_thread(thread))
		return NULL;
	if (ws_rt_is_paused(thread)) /* a vfork child's events belong to nobody; a handler's while
					the runtime sets the thread up are lost, and counted */
		return thread->vfork_start || thread->muted ? NULL : count_lost_thread(count);
	if (!thread->generation) {
		if (is_between_sessions(thread))
			return NULL;
		if (!atomic_load_explicit(&ws_rt_kept.arena->collecting, memory_order_relaxed) &&
		    atomic_load_explicit(&ws_rt_kept.arena->closed, memory_order_relaxed))
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
