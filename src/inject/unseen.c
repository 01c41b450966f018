/*
 * unseen.c - hides the sampler's signal from sigwait and its relatives, and from sigpending. A
 * program that blocks all signals and takes them by sigwait, often in a separate thread, would
 * receive a SIGURG that has been pending since it was blocked. Signals sent by anyone else are
 * passed on.
 */
#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "inject/bind.h"
#include "base/choose.h"
#include "inject/rt.h"
#include "inject/unseen.h"

static int (*next_timed)(const sigset_t *, siginfo_t *, const struct timespec *);
static int (*next_info)(const sigset_t *, siginfo_t *);
static int (*next_wait)(const sigset_t *, int *);

static void bind_functions(void)
{
	if (!next_timed)
		next_timed = (__typeof__(next_timed))ws_find_next_symbol("sigtimedwait");
	if (!next_info)
		next_info = (__typeof__(next_info))ws_find_next_symbol("sigwaitinfo");
	if (!next_wait)
		next_wait = (__typeof__(next_wait))ws_find_next_symbol("sigwait");
}

static int64_t read_clock_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * (int64_t)1000000000 + time.tv_nsec;
}

/* A timeout that is invalid, or longer than anyone waits, is left to the kernel. */
static bool is_plain_time(const struct timespec *time)
{
	return time->tv_sec >= 0 && time->tv_sec < 1 << 30 && time->tv_nsec >= 0 &&
	       time->tv_nsec < 1000000000;
}

WS_EXPORT int sigtimedwait(const sigset_t *restrict set, siginfo_t *restrict info,
			   const struct timespec *restrict limit);
int sigtimedwait(const sigset_t *restrict set, siginfo_t *restrict info,
		 const struct timespec *restrict limit)
{
	struct timespec left;
	int64_t until = 0, ns;
	siginfo_t got;
	int r;

	bind_functions();
	if (sigismember(set, SIGURG) != 1)
		return next_timed(set, info, limit);
	if (limit && is_plain_time(limit))
		until = read_clock_ns() + limit->tv_sec * (int64_t)1000000000 + limit->tv_nsec;
	while ((r = next_timed(set, &got, limit)) == SIGURG && ws_is_own_signal(&got))
		if (until) {
			ns = until - read_clock_ns();
			ns = ws_max(ns, 0);
			left = (struct timespec){ns / 1000000000, ns % 1000000000};
			limit = &left;
		}
	if (r > 0 && info)
		*info = got;
	return r;
}

WS_EXPORT int sigwaitinfo(const sigset_t *restrict set, siginfo_t *restrict info);
int sigwaitinfo(const sigset_t *restrict set, siginfo_t *restrict info)
{
	siginfo_t got;
	int r;

	bind_functions();
	if (sigismember(set, SIGURG) != 1)
		return next_info(set, info);
	do
		r = next_info(set, &got);
	while (r == SIGURG && ws_is_own_signal(&got));
	if (r > 0 && info)
		*info = got;
	return r;
}

WS_EXPORT int sigwait(const sigset_t *restrict set, int *restrict sig);
int sigwait(const sigset_t *restrict set, int *restrict sig)
{
	int error = errno, r;
	siginfo_t got;

	bind_functions();
	if (sigismember(set, SIGURG) != 1)
		return next_wait(set, sig);
	do
		r = next_info(set, &got);
	while ((r < 0 && errno == EINTR) || (r == SIGURG && ws_is_own_signal(&got)));
	if (r < 0)
		return errno;
	errno = error;
	*sig = r;
	return 0;
}

/* Put a signal that was not ours back where it was: in the thread's queue, or the process's. */
static void send_again(siginfo_t *info)
{
	long process = ws_raw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);

	if (info->si_code == SI_TKILL)
		ws_raw_syscall(SYS_rt_tgsigqueueinfo, process,
			       ws_raw_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0), SIGURG, (long)info, 0,
			       0);
	else
		ws_raw_syscall(SYS_rt_sigqueueinfo, process, SIGURG, (long)info, 0, 0, 0);
}

/* Takes SIGURGs of ours out of the queues; returns whether one of somebody else's is left. */
static bool is_foreign_pending(void)
{
	struct timespec now = {0, 0};
	siginfo_t info;
	sigset_t urgent;

	sigemptyset(&urgent);
	sigaddset(&urgent, SIGURG);
	while (ws_raw_syscall(SYS_rt_sigtimedwait, (long)&urgent, (long)&info, (long)&now,
			      sizeof(uint64_t), 0, 0) == SIGURG)
		if (!ws_is_own_signal(&info)) {
			send_again(&info);
			return true;
		}
	return false;
}

WS_EXPORT int sigpending(sigset_t *set);
int sigpending(sigset_t *set)
{
	static int (*next)(sigset_t *);
	int r;

	if (!next)
		next = (__typeof__(next))ws_find_next_symbol("sigpending");
	r = next(set);
	if (!r && sigismember(set, SIGURG) == 1 && !ws_rt_is_sandboxed() && !is_foreign_pending())
		sigdelset(set, SIGURG);
	return r;
}
