/*
 * osrt.c - the OS-runtime trace: noting a call at its start, and writing its record when it returns
 * or is unwound. See osrt.h for how; the wrappers themselves are in osrt_calls.c (made from
 * osrt_functions.def), osrt_lock.c, osrt_stream.c and osrt_thread.c.
 */
#include "inject/osrt.h"
#include "base/choose.h"

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

struct ws_thread *ws_osrt_enter_slow(void)
{
	struct ws_thread *thread = ws_rt_enter();

	if (!thread)
		return NULL;
	ws_rt_leave(thread);
	return thread->nest[0].ring ? thread : NULL;
}

/* Whether the wrapper's frame is still there. The kernel is asked, because the stack it was on may
 * be gone. */
static bool mark_stands(const struct ws_open_call *call)
{
	struct timespec now = {0, 0};

	/* Compares and returns at once: ETIMEDOUT when equal, EAGAIN when not, EFAULT when there is
	 * nothing. */
	return ws_raw_syscall(SYS_futex, (long)call->stack, FUTEX_WAIT | FUTEX_PRIVATE_FLAG,
			      (long)(uint32_t)call->start, (long)&now, 0, 0) == -ETIMEDOUT;
}

/*
 * Notes of calls that are still open below the one that begins at `stack`: a stack grows down, so
 * an enclosing call has a higher address. A note at the same or a lower address was left by a
 * longjmp, and so was one at a higher address whose frame has been overwritten. Addresses cannot be
 * compared with those on an alternate stack, where a handler may run: calls open on the thread's
 * own stack enclose the handler, and once back on the own stack, notes from the alternate one are
 * stale.
 */
uint32_t ws_osrt_is_still_open(struct ws_ring *ring, uint32_t depth, uintptr_t stack)
{
	stack_t alt = {.ss_flags = SS_DISABLE};
	uintptr_t from = 0, to = 0;
	bool on_alt;

	if (!ws_raw_syscall(SYS_sigaltstack, 0, (long)&alt, 0, 0, 0, 0) &&
	    !(alt.ss_flags & SS_DISABLE)) {
		from = (uintptr_t)alt.ss_sp;
		to = from + alt.ss_size;
	}
	on_alt = stack >= from && stack < to;
	if (depth > WS_OPEN_CALLS && mark_stands(&ring->calls[WS_OPEN_CALLS - 1]))
		return depth;
	depth = ws_min(depth, WS_OPEN_CALLS);
	for (; depth; depth--) {
		const struct ws_open_call *call = &ring->calls[depth - 1];
		bool note_on_alt = call->stack >= from && call->stack < to;

		if ((on_alt == note_on_alt ? call->stack > stack : on_alt) && mark_stands(call))
			break;
	}
	return depth;
}

/* ---- records ---- */

/* Error number of a call that failed, otherwise 0. Reads errno, as the call left it. */
static int read_error(unsigned fn, int64_t result, uint64_t value)
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

/* Whether the kernel read the path. A program may pass a bad pointer on purpose and must get EFAULT
 * and not a fault in our code. */
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
	uint64_t offset;  /* offset in the file, if the program gives one; otherwise UINT64_MAX */
	uint32_t item;	  /* size of the items that the result counts; 0: it counts bytes */
};

static int read_fileno(uint64_t stream)
{
	return stream ? ((const FILE *)stream)->_fileno : -1;
}

static struct about describe_call(unsigned fn, int64_t result, uint64_t value, int error)
{
	struct about about_a = {.fd = -1, .offset = UINT64_MAX};

	switch ((enum ws_osrt_object)kinds[fn].object) {
	case WS_OSRT_OBJECT_NONE:
		break;
	case WS_OSRT_OBJECT_VALUE:
		about_a.object = value;
		break;
	case WS_OSRT_OBJECT_STREAM:
		value = (uint64_t)read_fileno(value);
		/* fallthrough */
	case WS_OSRT_OBJECT_FD_AT:
		if (kinds[fn].object == WS_OSRT_OBJECT_FD_AT)
			about_a.offset = value >> 32 << 9;
		/* fallthrough */
	case WS_OSRT_OBJECT_FD:
		if ((int)value < 0 || error == EBADF)
			break;
		about_a.fd = (int)value;
		about_a.object = (uint64_t)about_a.fd;
		break;
	case WS_OSRT_OBJECT_FOPEN:
		result = result ? read_fileno((uint64_t)result) : -1;
		/* fallthrough */
	case WS_OSRT_OBJECT_OPEN:
	case WS_OSRT_OBJECT_RESULT:
		about_a.object = result > 0 ? (uint64_t)result : 0;
		if (kinds[fn].object == WS_OSRT_OBJECT_RESULT)
			break;
		/* fallthrough */
	case WS_OSRT_OBJECT_PATH:
		about_a.path = path_was_read(error) ? (const char *)value : NULL;
		break;
	}
	return about_a;
}

/*
 * A stack costs the program and the recorder some 40 microseconds, and a program whose threads hand
 * a lock around waits a hundred thousand times a second. So the stacks that a process takes each
 * second are limited, with up to STACKS_SAVED at once after a quiet time. Long waits, of which
 * there cannot be many, have a limit of their own. Each word is the time up to which stacks are
 * paid for.
 *
 * While a thread's stack is taken, others wait for the lock that it is about to give back. Where
 * more than CROWD calls have gone without since the last stack, the next one therefore counts as
 * WS_STACK_CROWD_PRICE.
 */
#define STACKS_SAVED 100u
#define CROWD 40u

static _Atomic uint64_t paid_until[2];
static _Atomic uint32_t gone_without;

/* Every eighth call or so counts for eight, so that threads rarely share the counter. */
static void note_gone_without(uint64_t end)
{
	if (!(end >> 6 & 7))
		atomic_fetch_add_explicit(&gone_without, 8, memory_order_relaxed);
}

static uint64_t choose_price(uint64_t pause)
{
	if (atomic_exchange_explicit(&gone_without, 0, memory_order_relaxed) <= CROWD)
		return pause;
	return pause * WS_STACK_CROWD_PRICE;
}

static bool may_take_stack(uint64_t start, uint64_t end)
{
	const struct ws_stack_settings *settings = &ws_rt->arena->stacks;
	_Atomic uint64_t *paid = &paid_until[end - start >= settings->osrt_long];
	uint64_t until = atomic_load_explicit(paid, memory_order_relaxed), from, price,
		 saved = STACKS_SAVED * settings->osrt_pause;

	if (until > end) {
		note_gone_without(end);
		return false;
	}
	price = choose_price(settings->osrt_pause);
	do {
		from = ws_max(until, end > saved ? end - saved : 0);
		if (from > end)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(
		paid, &until, from + price, memory_order_relaxed, memory_order_relaxed));
	return true;
}

static void write_stack(struct ws_thread *thread, uint64_t start, uint64_t end)
{
	const struct ws_stack_settings *settings = &ws_rt->arena->stacks;

	if (settings->osrt_pause && !may_take_stack(start, end)) {
		ws_rt_count_loss(thread, WS_LOSS_STACK, 1);
		return;
	}
	if (ws_frames_hook && settings->osrt_bytes)
		ws_frames_hook(thread);
	ws_rt_write_stack(thread, WS_STACK_OF_OSRT, start, settings->osrt_bytes);
}

static void write_record(struct ws_thread *thread, struct ws_rec_osrt call, uint32_t value,
			 uint64_t object, uint32_t holder, struct ws_osrt_path path)
{
	struct ws_rec_osrt_more *record;
	size_t bytes = object || path.number || holder ? sizeof(*record) : sizeof(record->call);

	if (call.end - call.start >= ws_rt->arena->stacks.osrt_threshold ||
	    ws_osrt_is_lasting(call.rec.small))
		write_stack(thread, call.start, call.end);
	record = ws_rt_reserve(thread, bytes, WS_LOSS_OSRT);
	if (!record)
		return;
	call.rec = ws_rec_head(bytes == sizeof(*record) ? WS_REC_OSRT_MORE : WS_REC_OSRT, bytes,
			       call.rec.small, value | (path.local ? WS_OSRT_LOCAL_PATH : 0));
	record->call = call;
	if (bytes == sizeof(*record)) {
		record->object = object;
		record->path = path.number;
		record->holder = holder;
	}
	ws_rt_commit(thread, record, bytes);
}

static struct ws_rec_osrt make_call_record(unsigned fn, uint64_t start, uint64_t end,
					   int64_t result)
{
	return (struct ws_rec_osrt){
		.rec.small = (uint16_t)fn, .start = start, .end = end, .result = result};
}

/* The offset in the file after the bytes that a call moved; UINT64_MAX if the file has no offsets
 * or nothing was moved.
 */
static uint64_t find_position(const struct about *about_a, int64_t result)
{
	long position;

	if (result <= 0 || ws_rt_is_sandboxed())
		return UINT64_MAX;
	if (about_a->offset != UINT64_MAX)
		return about_a->offset + (uint64_t)result;
	position = ws_raw_syscall(SYS_lseek, about_a->fd, 0, SEEK_CUR, 0, 0, 0);
	if (position < 0)
		return UINT64_MAX;
	return (uint64_t)position;
}

static void write_file_record(struct ws_thread *thread, struct ws_rec_osrt call, uint32_t value,
			      const struct about *about_a, uint64_t position,
			      struct ws_osrt_path path)
{
	struct ws_rec_osrt_file *record;

	if (call.end - call.start >= ws_rt->arena->stacks.osrt_threshold)
		write_stack(thread, call.start, call.end);
	record = ws_rt_reserve(thread, sizeof(*record), WS_LOSS_OSRT);
	if (!record)
		return;
	call.rec = ws_rec_head(WS_REC_OSRT_FILE, sizeof(*record), call.rec.small,
			       value | (path.local ? WS_OSRT_LOCAL_PATH : 0));
	*record = (struct ws_rec_osrt_file){
		.more = {.call = call, .object = (uint64_t)about_a->fd, .path = path.number},
		.position = position,
		.item = about_a->item};
	ws_rt_commit(thread, record, sizeof(*record));
}

/* With the path of a descriptor; a separate function because of its buffer. */
static WS_NOINLINE void record_fd(struct ws_rec_osrt call, uint32_t value,
				  const struct about *about_a)
{
	struct ws_osrt_found found;
	struct ws_thread *thread;
	uint64_t position = UINT64_MAX;

	ws_osrt_find_path(about_a->fd, &found);
	if (!found.stream)
		position = find_position(about_a, call.result);
	thread = ws_rt_enter();
	if (!thread)
		return;
	if (position != UINT64_MAX || about_a->item)
		write_file_record(thread, call, value, about_a, position,
				  ws_osrt_release_path(thread, &found));
	else
		write_record(thread, call, value, (uint64_t)about_a->fd, 0,
			     ws_osrt_release_path(thread, &found));
	ws_rt_leave(thread);
}

static void record_call(struct ws_rec_osrt call, uint32_t value, uint64_t object, uint32_t holder,
			const char *name)
{
	struct ws_thread *thread = ws_rt_enter();
	struct ws_osrt_path path = {0};

	if (!thread)
		return;
	if (name)
		path.number = ws_rt_write_string_or_text(thread, name, strnlen(name, 4096),
							 &path.local, WS_LOSS_OSRT);
	write_record(thread, call, value, object, holder, path);
	ws_rt_leave(thread);
}

void ws_osrt_record_call(unsigned fn, const struct ws_call *call_c, uint64_t end, int64_t result,
			 uint64_t value)
{
	int error = read_error(fn, result, value);
	struct about about_a = describe_call(fn, result, value, error);
	struct ws_rec_osrt call = make_call_record(fn, call_c->start, end, result);

	if (kinds[fn].object == WS_OSRT_OBJECT_STREAM)
		about_a.item = call_c->holder;
	if (about_a.fd >= 0)
		record_fd(call, ws_osrt_value(0, call_c->depth, error), &about_a);
	else
		record_call(call, ws_osrt_value(0, call_c->depth, error), about_a.object,
			    call_c->holder, about_a.path);
	ws_osrt_pop(call_c);
}

void ws_osrt_record_call_of(unsigned fn, const struct ws_call *call, uint64_t end, int64_t result,
			    struct ws_osrt_found *found)
{
	uint32_t value = ws_osrt_value(0, call->depth, read_error(fn, result, 0));
	struct ws_thread *thread = ws_rt_enter();

	if (thread) {
		write_record(thread, make_call_record(fn, call->start, end, result), value,
			     found->fd > 0 ? (uint64_t)found->fd : 0, 0,
			     ws_osrt_release_path(thread, found));
		ws_rt_leave(thread);
	}
	ws_osrt_pop(call);
}

/*
 * Personality of the wrappers: the unwinder is about to remove the frame of one. Only the
 * unwinder's own functions could tell which one, but that is not needed: it is the innermost open
 * call. Never stops the unwinding.
 */
__attribute__((used)) WS_HIDDEN int ws_osrt_record_unwound(int version, int actions, uint64_t class,
							   void *exception, void *context);

static bool has_descriptor(unsigned fn)
{
	return kinds[fn].object == WS_OSRT_OBJECT_FD || kinds[fn].object == WS_OSRT_OBJECT_FD_AT;
}

static void record_unwound(struct ws_open_call call, uint32_t depth)
{
	uint64_t end = ws_rt_read_ticks();
	uint32_t value = ws_osrt_value(0, depth, ECANCELED);

	if (call.function >= WS_OSRT_COUNT || end - call.start < ws_rt->arena->osrt_threshold)
		return;
	if (has_descriptor(call.function) && (int)call.object >= 0)
		record_fd(make_call_record(call.function, call.start, end, -1), value,
			  &(struct about){.fd = (int)call.object, .offset = UINT64_MAX});
	else
		record_call(make_call_record(call.function, call.start, end, -1), value,
			    kinds[call.function].object == WS_OSRT_OBJECT_VALUE ? call.object : 0,
			    0, NULL);
}

int ws_osrt_record_unwound(int version, int actions, uint64_t class, void *exception, void *context)
{
	enum { CLEANUP_PHASE = 2, CONTINUE_UNWIND = 8 };
	struct ws_thread *thread = ws_self;
	struct ws_ring *ring = thread ? thread->nest[0].ring : NULL;
	uint32_t depth = ring ? atomic_load_explicit(&ring->calls_open, memory_order_relaxed) : 0;

	(void)version, (void)class, (void)exception, (void)context;
	if (!(actions & CLEANUP_PHASE) || !depth)
		return CONTINUE_UNWIND;
	depth--;
	if (depth < WS_OPEN_CALLS)
		record_unwound(ring->calls[depth], depth);
	atomic_store_explicit(&ring->calls_open, depth, memory_order_release);
	return CONTINUE_UNWIND;
}

/* ---- calls that follow.c reports ---- */

static void record_traced_call(enum ws_traced which, uint64_t start, uint64_t end, int64_t result,
			       int error)
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
	struct ws_thread *thread = ws_osrt_thread();
	uint32_t depth;

	if (!thread || which >= WS_TRACED_COUNT || end - start < ws_rt->arena->osrt_threshold)
		return;
	depth = atomic_load_explicit(&thread->nest[0].ring->calls_open, memory_order_relaxed);
	if (depth)
		depth = ws_osrt_is_still_open(thread->nest[0].ring, depth, (uintptr_t)&depth);
	record_call(make_call_record(functions[which], start, end, result),
		    ws_osrt_value(0, depth, error), 0, 0, NULL);
}

/* Runs after the runtime's own constructor and, if the loader allows, before those of other
 * libraries. */
__attribute__((constructor(103))) static void start_osrt(void)
{
	ws_osrt_resolve_all();
	ws_osrt_init_locks();
	ws_traced_hook = record_traced_call;
}
