/*
 * osrt_calls.c - the wrappers that osrt_functions.def describes completely: one line there is one
 * function here. System headers give the prototypes, so that a line that does not fit does not
 * compile.
 */
#include <features.h>
#undef __USE_EXTERN_INLINES /* the functions, not what headers make of them */

#include <aio.h>
#include <fcntl.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/ptrace.h>
#include <sys/reboot.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>
#if defined(__x86_64__)
#include <sys/io.h>
#endif

#include "inject/osrt.h"
#include "inject/stack.h"

/* Exported by libc and declared nowhere, or only for fortified programs. */
ssize_t __read_chk(int fd, void *buf, size_t n, size_t room);
ssize_t __pread_chk(int fd, void *buf, size_t n, off_t at, size_t room);
ssize_t __pread64_chk(int fd, void *buf, size_t n, off64_t at, size_t room);
ssize_t __recv_chk(int fd, void *buf, size_t n, size_t room, int flags);
ssize_t __recvfrom_chk(int fd, void *buf, size_t n, size_t room, int flags, __SOCKADDR_ARG addr,
		       socklen_t *len);
int __poll_chk(struct pollfd *fds, nfds_t n, int limit, size_t room);
int __ppoll_chk(struct pollfd *fds, nfds_t n, const struct timespec *limit, const sigset_t *mask,
		size_t room);
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);
int __openat64_2(int dir, const char *path, int flags);
size_t __fread_chk(void *to, size_t room, size_t size, size_t n, FILE *file);
size_t __fread_unlocked_chk(void *to, size_t room, size_t size, size_t n, FILE *file);
char *__fgets_chk(char *to, size_t room, int n, FILE *file);
char *__fgets_unlocked_chk(char *to, size_t room, int n, FILE *file);
wchar_t *__fgetws_chk(wchar_t *to, size_t room, int n, FILE *file);
wchar_t *__fgetws_unlocked_chk(wchar_t *to, size_t room, int n, FILE *file);
int pivot_root(const char *root, const char *old);
#if defined(__x86_64__)
int arch_prctl(int code, unsigned long addr);
int uselib(const char *path);
long nfsservctl(int cmd, void *arg, void *result);
#endif

/* Stack copying must know about new code. */
static inline int ws_osrt_prot(int prot)
{
	if (ws_unlikely(prot & PROT_EXEC))
		ws_rt_note_maps_changed();
	return prot;
}

#define WS_OSRT(symbol, shown, ret, params, args, error, object, value)                 \
	WS_EXPORT ret symbol params;                                                    \
	ret symbol params                                                               \
	{                                                                               \
		WS_OSRT_BODY(WS_OSRT_##symbol, ret, WS_OSRT_REAL(symbol), args, value); \
	}

/*
 * Arguments behind `...` are words in registers, or on the stack, where reading one too many does
 * no harm; so they are read without knowing how many there are, and passed on.
 */
#define WS_OSRT_VARIADIC(symbol, shown, ret, params, last, args, error, object, value)  \
	WS_EXPORT ret symbol params;                                                    \
	ret symbol params                                                               \
	{                                                                               \
		long a1, a2, a3, a4;                                                    \
		va_list ap;                                                             \
                                                                                        \
		va_start(ap, last);                                                     \
		a1 = va_arg(ap, long);                                                  \
		a2 = va_arg(ap, long);                                                  \
		a3 = va_arg(ap, long);                                                  \
		a4 = va_arg(ap, long);                                                  \
		va_end(ap);                                                             \
		(void)a1, (void)a2, (void)a3, (void)a4;                                 \
		WS_OSRT_BODY(WS_OSRT_##symbol, ret, WS_OSRT_REAL(symbol), args, value); \
	}
#include "ring/osrt_functions.def"

WS_EXPORT void sync(void);
void sync(void)
{
	__typeof__(&sync) real = WS_OSRT_REAL(sync);
	struct ws_call call;

	if (!ws_osrt_begin(&call, WS_OSRT_sync, 0)) {
		real();
		return;
	}
	real();
	ws_osrt_end(&call, WS_OSRT_sync, 0, 0);
}

/*
 * Threads that wait for a word in memory, such as ranks of MPI that share a core, yield hundreds of
 * thousands of times a second. Each call lasts as long as others run, and recording them all took
 * half as long again. So a thread's calls are recorded with a pause after each, and counted
 * meanwhile.
 */
static bool is_yield_left_out(const struct ws_call *call, uint64_t end)
{
	struct ws_thread *thread = ws_self;
	uint64_t pause = ws_rt->arena->yield_pause;

	if (end - call->start >= pause || end - thread->yielded >= pause) {
		thread->yielded = end;
		return false;
	}
	ws_rt_count_loss(thread, WS_LOSS_YIELD, 1);
	return true;
}

static int yield(unsigned fn)
{
	int (*real)(void) = (int (*)(void))ws_osrt_real_of(fn), result;
	struct ws_call call;
	uint64_t end;

	if (!ws_osrt_begin(&call, fn, 0))
		return real();
	WS_OSRT_UNWINDABLE();
	result = real();
	end = ws_rt_read_ticks();
	if (!ws_osrt_over(&call, end))
		return result;
	if (is_yield_left_out(&call, end))
		ws_osrt_pop(&call);
	else
		ws_osrt_record_call(fn, &call, end, result, 0);
	return result;
}

WS_EXPORT int sched_yield(void);
int sched_yield(void)
{
	return yield(WS_OSRT_sched_yield);
}

/* <pthread.h> declares this one as another name of sched_yield. */
WS_EXPORT int ws_pthread_yield(void) __asm__("pthread_yield");
int ws_pthread_yield(void)
{
	return yield(WS_OSRT_pthread_yield);
}
