/*
 * cuda_late.c - CUDA in a program that was attached to: its contexts and streams exist, and its
 * threads launch work at any time.
 *
 * The thread that the recorder stopped may hold locks of the driver, so nothing of CUDA is called
 * on it: it starts a thread of ours, which loads CUPTI, subscribes and enables it, flushes it while
 * the session lasts, and turns it off before the recorder leaves. cuptiFinalize is not called,
 * since other threads may be inside CUPTI: it stays loaded, with nothing enabled.
 *
 * A recorder that is killed cannot ask for that, so the thread looks every second whether it lives.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

#include "inject/cuda.h"
#include "inject/late.h"
#include "schema/schema.h"

enum { LOOK_NS = 1000000000, PREDECESSOR_MS = 10000 };

static _Atomic bool serving; /* a thread of ours uses CUPTI */
/* Of the session that it serves, or is to serve. */
static struct ws_arena *_Atomic mine;
static struct ws_process_home *_Atomic home;
static uint64_t looked;

static bool is_recorder_gone(const struct ws_arena *arena)
{
	uint64_t now = ws_read_raw_ns();

	if (now - looked < LOOK_NS)
		return false;
	looked = now;
	/* In another pid namespace the number says nothing. */
	if (arena->recorder_pid_ns != atomic_load(&home)->pid_ns)
		return false;
	return ws_raw_syscall(SYS_kill, arena->recorder_pid, 0, 0, 0, 0, 0) == -ESRCH;
}

bool ws_cuda_must_leave(void)
{
	struct ws_arena *arena = atomic_load(&mine);

	if (!ws_rt_late)
		return false;
	return ws_rt->arena != arena || atomic_load(&arena->closed) ||
	       atomic_load(&arena->leaving) || is_recorder_gone(arena);
}

/* The thread of the session before may still be at work. False when it does not end. */
static bool await_predecessor(void)
{
	struct timespec pause = {0, 5000000};

	for (int i = 0; i < PREDECESSOR_MS / 5; i++) {
		if (!atomic_exchange(&serving, true))
			return true;
		ws_raw_syscall(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
	}
	ws_cuda_report(
		WS_WARNING,
		"CUDA is not recorded: what recorded this process before has not come out of "
		"CUPTI.",
		"", "");
	return false;
}

static void say_on(void)
{
	ws_cuda_report(
		WS_INFO,
		"CUDA is recorded from here on. Of CUDA graphs each piece of work is recorded, not "
		"the graph as a whole. What was before is not known: allocations of memory, how "
		"graphs were made, modules.",
		"", "");
}

static void serve_session(void)
{
	ws_cuda_forget_session();
	atomic_store(&ws_cuda_state, WS_CUDA_STARTING);
	if (!ws_cuda_set_up()) {
		atomic_store(&ws_cuda_state, WS_CUDA_REFUSED);
		return;
	}
	atomic_store(&ws_cuda_context_seen, true);
	atomic_store_explicit(&ws_cuda_state, WS_CUDA_ON, memory_order_release);
	ws_cuda_flush_at_exit();
	say_on();
	ws_cuda_keep_flushing();
	atomic_store(&ws_cuda_state, WS_CUDA_IDLE);
	ws_cuda_tear_down();
}

static void *serve(void *arg)
{
	struct ws_process_home *own = atomic_load(&home);

	(void)arg;
	ws_cuda_become_own_thread();
	if (await_predecessor()) {
		if (!ws_cuda_must_leave())
			serve_session();
		atomic_store(&serving, false);
	}
	atomic_store(&own->gpu_flushes, 0);
	atomic_store_explicit(&own->late_cuda, 0, memory_order_release);
	return NULL;
}

WS_EXPORT void ws_late_begin(void);
void ws_late_begin(void)
{
	if (!(ws_rt->features & WS_FEATURE_CUDA) || !ws_rt->home)
		return;
	if (!ws_cuda_belongs_to_process()) {
		ws_cuda_report(
			WS_WARNING,
			"CUDA is not recorded: this process is a copy, made by fork, of one in "
			"which it was recorded.",
			"", "");
		return;
	}
	atomic_store(&mine, ws_rt->arena);
	atomic_store(&home, ws_rt->home);
	atomic_store(&ws_rt->home->late_cuda, 1);
	ws_late_state.cuda = 1;
	if (ws_cuda_start_thread(serve))
		return;
	ws_late_state.cuda = 2;
	atomic_store(&ws_rt->home->late_cuda, 0);
}
