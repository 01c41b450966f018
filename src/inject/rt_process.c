/* rt_process.c - making this process, or a forked child of it, known to the recorder. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/choose.h"
#include "inject/rt_state.h"
#include "schema/schema.h"

extern char **environ;

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

/* The texts of a process home: executable, arguments, reported variables. Long command lines are
 * cut: the recorder says so. */
static uint32_t fill_texts(struct ws_arena *arena, struct ws_process_home *home, bool fork_child)
{
	char *end = (char *)home + WS_CHUNK_SIZE - 8, *at = home->text;
	long fd, n;

	if (!fork_child) { /* a forked child runs its parent's image: the recorder already has these
			      texts */
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

/* Of a child under a filter: its one thread has its number, and its parent is known. */
static void set_numbers(const struct ws_arena *arena, struct ws_process_home *home)
{
	const struct ws_process_home *parent;

	if (!ws_rt_kept.filtered) {
		home->pid = (uint32_t)ws_raw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
		home->ppid = (uint32_t)ws_raw_syscall(SYS_getppid, 0, 0, 0, 0, 0, 0);
		return;
	}
	parent = ws_chunk_at(arena, ws_rt_kept.parent_home);
	home->pid = ws_rt_find_tid();
	home->ppid = parent->pid;
}

/* Make this process known. Returns NULL when there is no memory for it. */
static struct ws_process_home *make_process_home(struct ws_arena *arena, bool fork_child)
{
	uint32_t index = ws_rt_get_chunk(arena), end;
	struct ws_process_home *home;
	int slot;

	if (index == WS_CHUNK_NONE)
		return NULL;
	home = ws_chunk_at(arena, index);
	memset((char *)home + sizeof(home->chunk), 0, sizeof(*home) - sizeof(home->chunk));
	home->chunk.kind = WS_CHUNK_PROCESS;
	set_numbers(arena, home);
	home->origin = WS_ORIGIN_EXEC;
	if (fork_child) {
		home->origin = WS_ORIGIN_FORK;
		home->parent_home = ws_rt_kept.parent_home;
		home->parent_start = ws_rt_kept.parent_start;
	}
	home->pid_ns = ws_rt_kept.pid_ns;
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

uint64_t ws_rt_find_pid_namespace(void)
{
	struct stat st;

	memset(&st, 0, sizeof(st));
#if defined(__x86_64__) || defined(__aarch64__)
	if (SYS4(SYS_newfstatat, AT_FDCWD, "/proc/self/ns/pid", &st, 0) < 0)
		return 0;
#endif
	return st.st_ino;
}

void ws_rt_enter_session(struct private_state *private_state, bool fork_child)
{
	struct ws_process_home *home = make_process_home(ws_rt_kept.arena, fork_child);

	if (!home) {
		atomic_fetch_add_explicit(&ws_rt_kept.arena->lost_registrations, 1,
					  memory_order_relaxed);
		return;
	}
	ws_rt_kept.parent_home = home->chunk.self;
	ws_rt_kept.parent_start = home->start;
	private_state->rt.home = home;
	private_state->rt.features = ws_rt_kept.arena->features;
	private_state->rt.clock_mode = ws_rt_kept.arena->clock_mode;
	private_state->rt.generation = ++ws_rt_kept.image;
	__atomic_store_n(&private_state->rt.arena, ws_rt_kept.arena, __ATOMIC_RELEASE);
}

/* Whether the child can say who it is. Under a filter, one that was not made by the C library has
 * its parent's number there. */
static bool is_child_known(void)
{
	const struct ws_process_home *parent;
	uint32_t tid;

	if (!ws_rt_kept.filtered)
		return true;
	parent = ws_chunk_at(ws_rt_kept.arena, ws_rt_kept.parent_home);
	tid = ws_rt_find_tid();
	return tid && tid != parent->pid;
}

void ws_rt_set_up_child(void)
{
	struct private_state *private_state = ws_rt_kept.state;
	uint32_t idle = 0;
	uint64_t ns;

	if (!private_state || ws_rt_kept.keep_in_child)
		return;
	if (private_state->rt.generation && !ws_rt_kept.filtered &&
	    (uint32_t)ws_raw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0) != private_state->rt.home->pid) {
		/* The kernel did not wipe the state, so do it by hand. The forking thread is the
		 * only one there is. */
		memset(private_state, 0, sizeof(*private_state));
		if (ws_self)
			memset(ws_self, 0, sizeof(*ws_self));
	}
	if (private_state->rt.generation ||
	    !atomic_compare_exchange_strong(&private_state->setting_up, &idle, 1))
		return;
	/* In a chroot without /proc it cannot be read; then it is the parent's, unless the parent
	 * is outside the namespace and has no number here. */
	if (!ws_rt_kept.filtered) {
		ns = ws_rt_find_pid_namespace();
		if (ns || !ws_raw_syscall(SYS_getppid, 0, 0, 0, 0, 0, 0))
			ws_rt_kept.pid_ns = ns;
	}
	if (ws_rt_kept.arena->features & WS_FEATURE_FORK_TRACE && is_child_known())
		ws_rt_enter_session(private_state, true);
	/* A process that is not recorded stays marked; otherwise every call would come here
	 * again. */
	if (private_state->rt.generation)
		atomic_store(&private_state->setting_up, 0);
}

static void advise_state(int advice)
{
	struct ws_thread *thread = ws_self;
	uintptr_t from = (uintptr_t)thread & ~(ws_rt_kept.page - 1),
		  end = (uintptr_t)thread + sizeof(*thread);

	SYS3(SYS_madvise, from, end - from, advice);
	SYS3(SYS_madvise, ws_rt_kept.state, sizeof(*ws_rt_kept.state), advice);
	if (thread->more_strings)
		SYS3(SYS_madvise, thread->more_strings,
		     WS_STRING_SLOTS_MORE * sizeof(*thread->more_strings), advice);
	if (thread->python)
		SYS3(SYS_madvise, thread->python, WS_PYTHON_THREAD_BYTES, advice);
}

bool ws_rt_before_fork(void)
{
	struct ws_thread *thread = ws_self;

	if (!thread || !ws_rt_kept.state || !(thread->busy || ws_rt_is_paused(thread)) ||
	    !ws_rt_is_own_thread(thread))
		return false;
	ws_rt_kept.keep_in_child = true;
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
		ws_rt_leave_session();
	ws_rt_kept.keep_in_child = false;
	if (!in_child)
		ws_rt_write_diagnostic(
			WS_WARNING, "process",
			"A signal handler that interrupted the recording of an event "
			"forked: its child is not recorded.");
}
