/*
 * rt.c - the runtime that all hooks in a process share: start and end, pausing, notes for the
 * recorder. See rt.h for the rules that it keeps and rt_state.h for the files that it consists of.
 */
#include <string.h>
#include <sys/auxv.h>

#include "inject/bind.h"
#include "inject/rt_state.h"
#include "schema/schema.h"

static struct ws_rt no_session; /* arena NULL: everything is off */
struct ws_rt *ws_rt = &no_session;
void (*_Atomic ws_rt_cuda_numbers)(uint32_t, uint64_t, struct ws_cuda_numbers *);
struct rt_kept ws_rt_kept;
bool ws_rt_late;
__thread struct ws_thread *ws_self __attribute__((tls_model("initial-exec")));

bool ws_rt_is_sandboxed(void)
{
	return ws_rt_kept.sandboxed;
}

bool ws_rt_is_filtered(void)
{
	return ws_rt_kept.filtered;
}

/* The mutex is nobody else's, so that locking it takes no system call. */
uint32_t ws_rt_find_tid(void)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	uint32_t tid;

	if (!ws_rt_kept.filtered)
		return (uint32_t)SYS1(SYS_gettid, 0);
	if (!ws_rt_kept.lock_mutex || ws_rt_kept.lock_mutex(&mutex))
		return 0;
	tid = (uint32_t)mutex.__data.__owner;
	ws_rt_kept.unlock_mutex(&mutex);
	return tid;
}

/* The C library's idea of the number is that of the thread whose storage it is, so that under a
 * filter a child cannot be told from its parent. */
bool ws_rt_is_thread_of(const struct ws_thread *thread)
{
	return !ws_rt_kept.filtered && ws_rt_find_tid() == thread->tid;
}

bool ws_rt_share_thread(bool on)
{
	struct ws_thread *thread = ws_rt_enter();

	if (thread)
		ws_rt_leave(thread);
	thread = ws_self;
	ws_rt_kept.refuse_threads |= on && !thread && ws_rt_kept.state;
	if (!thread || on == ((thread->paused & WS_SHARED_THREAD) != 0))
		return false;
	if (!ws_rt_kept.filtered)
		thread->tid = ws_rt_find_tid();
	thread->paused ^= WS_SHARED_THREAD;
	return true;
}

void ws_rt_mute_thread(bool on)
{
	struct ws_thread *thread = ws_self;

	if (!ws_rt_kept.state || !thread || thread->muted == on || !ws_rt_is_own_thread(thread))
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

void ws_rt_wake_recorder(void)
{
	if (ws_rt_kept.arena)
		wake_recorder(ws_rt_kept.arena);
}

bool ws_rt_is_collecting_slow(void)
{
	struct private_state *private_state = ws_rt_kept.state;

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
	struct ws_arena *arena = ws_rt_kept.arena;
	uint32_t index;
	struct ws_chunk *chunk;

	if (bytes > WS_REC_MAX_BYTES || (index = ws_rt_get_chunk(arena)) == WS_CHUNK_NONE) {
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
	 * recorder makes its rounds anyway. */
	if (nest != &thread->nest[WS_NEST_SAMPLER] || !(++nest->repeats % 16))
		wake_reader(arena);
	return nest->cur;
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
	return ws_rt_kept.arena ? ws_rt_kept.path : "";
}

/* ---- beginning and end ---- */

extern char **environ;

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

/* The first session of this process. */
static bool begin_first_session(const char *path)
{
	struct private_state *private_state;

	if (!ws_rt_attach_arena(path))
		return false;
	private_state = ws_rt_map_private(sizeof(*private_state));
	if (!private_state)
		return false;
	ws_rt_kept.key_ok = ws_create_key(&ws_rt_kept.key, ws_rt_note_thread_end);
	ws_rt_kept.state = private_state;
	__atomic_store_n(&ws_rt, &private_state->rt, __ATOMIC_RELEASE);
	ws_rt_enter_session(private_state, false);
	ws_register_atfork(ws_rt_set_up_child);
	return true;
}

__attribute__((constructor(101))) void ws_rt_init(void)
{
	const char *path;
	int fresh = 0;

	if (!atomic_compare_exchange_strong(&ws_rt_kept.init, &fresh, 1))
		return;
	path = env_session();
	ws_rt_kept.pid_ns = ws_rt_find_pid_namespace();
	ws_rt_kept.page = getauxval(AT_PAGESZ);
	if (path && *path)
		begin_first_session(path);
	atomic_store_explicit(&ws_rt_kept.init, 2, memory_order_release);
}

/*
 * A further session. Threads may be anywhere: what they still write for the old one goes into
 * memory that only looks like its arena, and each sets itself up anew at its first event, because
 * its state no longer has a generation. Until rt.arena is the new arena, no thread is set up.
 */
static bool begin_next_session(struct private_state *private_state, const char *path)
{
	struct ws_arena *old = ws_rt_kept.arena;

	if (ws_rt_is_in_session())
		return false;
	ws_rt_leave_session();
	ws_rt_forget_mapping();
	if (!ws_rt_attach_arena(path)) {
		ws_rt_kept.arena = old;
		return false;
	}
	ws_rt_forget_threads();
	ws_rt_enter_session(private_state, false);
	return private_state->rt.arena != old;
}

bool ws_rt_join(const char *path)
{
	bool joined;

	ws_rt_init();
	if (atomic_load(&ws_rt_kept.init) != 2)
		return false;
	if (!ws_rt_kept.state)
		joined = begin_first_session(path);
	else
		joined = begin_next_session(ws_rt_kept.state, path);
	return joined && ws_rt_kept.state->rt.arena;
}

void ws_rt_end_session(void)
{
	if (ws_rt_kept.state && ws_rt_kept.arena)
		ws_rt_leave_session();
}

__attribute__((destructor(101))) static void note_process_end(void)
{
	if (ws_rt_kept.state && ws_rt_kept.state->rt.home && ws_rt_kept.state->rt.generation)
		atomic_store_explicit(&ws_rt_kept.state->rt.home->ended, 1, memory_order_release);
}
