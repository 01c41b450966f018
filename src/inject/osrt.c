/*
 * osrt.c - the OS-runtime trace: noting a call at its start, and writing its record when it returns
 * or is unwound. See osrt.h for how; the wrappers themselves are in osrt_calls.c (made from
 * osrt_functions.def), osrt_lock.c, osrt_stream.c and osrt_thread.c.
 */
#include "inject/osrt.h"

#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "inject/stack.h"
#include "inject/traced.h"

enum error_kind { ERROR_NONE, ERROR_ERRNO, ERROR_NUMBER, ERROR_POINTER, ERROR_STREAM };

static const struct {
	uint8_t error, object;
} kinds[WS_OSRT_COUNT] = {
#define WS_OSRT_ENTRY(symbol, shown, error, object) {ERROR_##error, WS_OSRT_OBJECT_##object},
#include "ring/osrt_functions.def"
};

/* ---- the thread ---- */

struct ws_thread *ws_osrt_thread_slow(void)
{
	struct ws_thread *t = ws_rt_enter();

	if (!t)
		return NULL;
	ws_rt_leave(t);
	return t->nest[0].ring ? t : NULL;
}

/* Is the wrapper's frame still there? Asked of the kernel, because the stack it stood on may not
 * be. */
static bool mark_stands(const struct ws_open_call *o)
{
	struct timespec now = {0, 0};

	/* Compares and returns at once: ETIMEDOUT when equal, EAGAIN when not, EFAULT when there is
	 * nothing. */
	return ws_sys(SYS_futex, (long)o->stack, FUTEX_WAIT | FUTEX_PRIVATE_FLAG,
		      (long)(uint32_t)o->start, (long)&now, 0, 0) == -ETIMEDOUT;
}

/*
 * Notes of calls that are still open below the one that begins at `stack`: a stack grows down, so
 * an enclosing call stands above. A note at or below was left by a longjmp, and one above, too,
 * when its frame has been overwritten. A handler on an alternate stack stands on another one, where
 * addresses cannot be compared: what is open on the thread's own stack encloses it, and once back
 * on the own stack, notes from the alternate one are stale.
 */
uint32_t ws_osrt_still_open(struct ws_ring *r, uint32_t depth, uintptr_t stack)
{
	stack_t alt = {.ss_flags = SS_DISABLE};
	uintptr_t from = 0, to = 0;
	bool on_alt;

	if (!ws_sys(SYS_sigaltstack, 0, (long)&alt, 0, 0, 0, 0) && !(alt.ss_flags & SS_DISABLE)) {
		from = (uintptr_t)alt.ss_sp;
		to = from + alt.ss_size;
	}
	on_alt = stack >= from && stack < to;
	if (depth > WS_OPEN_CALLS && mark_stands(&r->calls[WS_OPEN_CALLS - 1]))
		return depth;
	depth = depth < WS_OPEN_CALLS ? depth : WS_OPEN_CALLS;
	for (; depth; depth--) {
		const struct ws_open_call *o = &r->calls[depth - 1];
		bool note_on_alt = o->stack >= from && o->stack < to;

		if ((on_alt == note_on_alt ? o->stack > stack : on_alt) && mark_stands(o))
			break;
	}
	return depth;
}

/* ---- records ---- */

/* Error number of a call that failed, else 0. Reads errno, as the call left it. */
static int error_of(unsigned fn, int64_t result, uint64_t value)
{
	switch ((enum error_kind)kinds[fn].error) {
	case ERROR_ERRNO:
		return result == -1 ? errno : 0;
	case ERROR_NUMBER:
		return (int)result;
	case ERROR_POINTER:
		return result ? 0 : errno;
	case ERROR_STREAM: /* end of file is no error, and leaves errno as it was */
		return (result == 0 || (int)result == -1) && value &&
				       ((const FILE *)value)->_flags & _IO_ERR_SEEN
			       ? errno
			       : 0;
	case ERROR_NONE:
		break;
	}
	return 0;
}

/* Did the kernel read the path? A program may pass a bad pointer on purpose and must get its
 * EFAULT, not our fault. */
static bool path_was_read(int error)
{
	switch (error) {
	case 0:
	case ENOENT:
	case EACCES:
	case ENOTDIR:
	case EISDIR:
	case EEXIST:
	case ELOOP:
	case EROFS:
	case ETXTBSY:
	case ENXIO:
	case EBUSY:
	case ENOTEMPTY:
		return true;
	}
	return false;
}

struct about {
	uint64_t object;
	const char *path; /* of the program */
	int fd;		  /* whose path to find, or -1 */
};

static int fileno_of(uint64_t stream)
{
	return stream ? ((const FILE *)stream)->_fileno : -1;
}

static struct about about(unsigned fn, int64_t result, uint64_t value, int error)
{
	struct about a = {.fd = -1};

	switch ((enum ws_osrt_object)kinds[fn].object) {
	case WS_OSRT_OBJECT_NONE:
		break;
	case WS_OSRT_OBJECT_VALUE:
		a.object = value;
		break;
	case WS_OSRT_OBJECT_STREAM:
		value = (uint64_t)fileno_of(value);
		/* fallthrough */
	case WS_OSRT_OBJECT_FD:
		if ((int)value < 0 || error == EBADF)
			break;
		a.fd = (int)value;
		a.object = (uint64_t)a.fd;
		break;
	case WS_OSRT_OBJECT_FOPEN:
		result = result ? fileno_of((uint64_t)result) : -1;
		/* fallthrough */
	case WS_OSRT_OBJECT_OPEN:
	case WS_OSRT_OBJECT_RESULT:
		a.object = result > 0 ? (uint64_t)result : 0;
		if (kinds[fn].object == WS_OSRT_OBJECT_RESULT)
			break;
		/* fallthrough */
	case WS_OSRT_OBJECT_PATH:
		a.path = path_was_read(error) ? (const char *)value : NULL;
		break;
	}
	return a;
}

static void write_record(struct ws_thread *t, struct ws_rec_osrt call, uint32_t value,
			 uint64_t object, uint32_t holder, struct ws_osrt_path path)
{
	struct ws_rec_osrt_more *r;
	size_t bytes = object || path.number || holder ? sizeof(*r) : sizeof(r->call);

	if (call.end - call.start >= ws_rt->arena->stacks.osrt_threshold)
		ws_rt_stack(t, WS_STACK_OF_OSRT, call.start, ws_rt->arena->stacks.osrt_bytes);
	r = ws_rt_reserve(t, bytes, WS_LOSS_OSRT);
	if (!r)
		return;
	call.rec = ws_rec_head(bytes == sizeof(*r) ? WS_REC_OSRT_MORE : WS_REC_OSRT, bytes,
			       call.rec.small, value | (path.local ? WS_OSRT_LOCAL_PATH : 0));
	r->call = call;
	if (bytes == sizeof(*r)) {
		r->object = object;
		r->path = path.number;
		r->holder = holder;
	}
	ws_rt_commit(t, r, bytes);
}

static struct ws_rec_osrt call_of(unsigned fn, uint64_t start, uint64_t end, int64_t result)
{
	return (struct ws_rec_osrt){
		.rec.small = (uint16_t)fn, .start = start, .end = end, .result = result};
}

/* With the path of a descriptor; apart, for its buffer. */
static WS_NOINLINE void record_fd(struct ws_rec_osrt call, uint32_t value, int fd)
{
	struct ws_osrt_found found;
	struct ws_thread *t;

	ws_osrt_path_find(fd, &found);
	t = ws_rt_enter();
	if (!t)
		return;
	write_record(t, call, value, (uint64_t)fd, 0, ws_osrt_path_done(t, &found));
	ws_rt_leave(t);
}

static void record(struct ws_rec_osrt call, uint32_t value, uint64_t object, uint32_t holder,
		   const char *name)
{
	struct ws_thread *t = ws_rt_enter();
	struct ws_osrt_path path = {0};

	if (!t)
		return;
	if (name)
		path.number = ws_rt_string_or_text(t, name, strnlen(name, 4096), &path.local,
						   WS_LOSS_OSRT);
	write_record(t, call, value, object, holder, path);
	ws_rt_leave(t);
}

void ws_osrt_record(unsigned fn, const struct ws_call *c, uint64_t end, int64_t result,
		    uint64_t value)
{
	int error = error_of(fn, result, value);
	struct about a = about(fn, result, value, error);
	struct ws_rec_osrt call = call_of(fn, c->start, end, result);

	if (a.fd >= 0)
		record_fd(call, ws_osrt_value(0, c->depth, error), a.fd);
	else
		record(call, ws_osrt_value(0, c->depth, error), a.object, c->holder, a.path);
	ws_osrt_pop(c);
}

void ws_osrt_record_found(unsigned fn, const struct ws_call *c, uint64_t end, int64_t result,
			  struct ws_osrt_found *f)
{
	uint32_t value = ws_osrt_value(0, c->depth, error_of(fn, result, 0));
	struct ws_thread *t = ws_rt_enter();

	if (t) {
		write_record(t, call_of(fn, c->start, end, result), value,
			     f->fd > 0 ? (uint64_t)f->fd : 0, 0, ws_osrt_path_done(t, f));
		ws_rt_leave(t);
	}
	ws_osrt_pop(c);
}

/*
 * Personality of the wrappers: the unwinder is about to remove the frame of one. Which one cannot
 * be asked without the unwinder's own functions, and need not be: it is the innermost open call.
 * Never stops the unwinding.
 */
__attribute__((used)) WS_HIDDEN int ws_osrt_unwound(int version, int actions, uint64_t class,
						    void *exception, void *context);

static void record_unwound(struct ws_open_call o, uint32_t depth)
{
	uint64_t end = ws_rt_ticks();
	uint32_t value = ws_osrt_value(0, depth, ECANCELED);

	if (o.function >= WS_OSRT_COUNT || end - o.start < ws_rt->arena->osrt_threshold)
		return;
	if (kinds[o.function].object == WS_OSRT_OBJECT_FD && (int)o.object >= 0)
		record_fd(call_of(o.function, o.start, end, -1), value, (int)o.object);
	else
		record(call_of(o.function, o.start, end, -1), value,
		       kinds[o.function].object == WS_OSRT_OBJECT_VALUE ? o.object : 0, 0, NULL);
}

int ws_osrt_unwound(int version, int actions, uint64_t class, void *exception, void *context)
{
	enum { CLEANUP_PHASE = 2, CONTINUE_UNWIND = 8 };
	struct ws_thread *t = ws_self;
	struct ws_ring *r = t ? t->nest[0].ring : NULL;
	uint32_t depth = r ? atomic_load_explicit(&r->calls_open, memory_order_relaxed) : 0;

	(void)version, (void)class, (void)exception, (void)context;
	if (!(actions & CLEANUP_PHASE) || !depth)
		return CONTINUE_UNWIND;
	depth--;
	if (depth < WS_OPEN_CALLS)
		record_unwound(r->calls[depth], depth);
	atomic_store_explicit(&r->calls_open, depth, memory_order_release);
	return CONTINUE_UNWIND;
}

/* ---- calls that follow.c tells of ---- */

static void told(enum ws_traced which, uint64_t start, uint64_t end, int64_t result, int error)
{
	static const uint16_t functions[WS_TRACED_COUNT] = {
		[WS_TRACED_fork] = WS_OSRT_fork,
		[WS_TRACED_vfork] = WS_OSRT_vfork,
		[WS_TRACED_posix_spawn] = WS_OSRT_posix_spawn,
		[WS_TRACED_posix_spawnp] = WS_OSRT_posix_spawnp,
		[WS_TRACED_system] = WS_OSRT_system,
		[WS_TRACED_popen] = WS_OSRT_popen,
		[WS_TRACED_forkpty] = WS_OSRT_forkpty,
	};
	struct ws_thread *t = ws_osrt_thread();
	uint32_t depth;

	if (!t || which >= WS_TRACED_COUNT || end - start < ws_rt->arena->osrt_threshold)
		return;
	depth = atomic_load_explicit(&t->nest[0].ring->calls_open, memory_order_relaxed);
	if (depth)
		depth = ws_osrt_still_open(t->nest[0].ring, depth, (uintptr_t)&depth);
	record(call_of(functions[which], start, end, result), ws_osrt_value(0, depth, error), 0, 0,
	       NULL);
}

/* After the runtime's own constructor, before those of other libraries where the loader lets us. */
__attribute__((constructor(103))) static void start(void)
{
	ws_osrt_resolve_all();
	ws_osrt_locks_init();
	ws_traced_hook = told;
}
