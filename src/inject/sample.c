/*
 * sample.c - CPU samples where perf events are refused: a timer on the CPU clock of each thread
 * sends it a signal, whose handler writes registers and stack into the thread's ring. A library of
 * its own, preloaded only then.
 *
 * The signal is SIGURG: its default is to be ignored, so that nothing happens to a program that
 * puts the default back, and programs that use it must expect it to arrive for no reason (Go's
 * runtime sends it to itself all the time). A program's own handler keeps working: sigaction and
 * signal are wrapped, ours stays in place and passes on what is not ours.
 *
 * The timer runs only while the thread uses the CPU, and the kernel looks at it in its tick: at
 * most some hundred samples a second. Each stands for the CPU time of its thread since the one
 * before, and what is left at the thread's end, or at exit, is recorded too. Current kernels
 * send the signal on the way back to user space, so that no system call is interrupted that would
 * not have been; SA_RESTART covers most of the others.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>

#include "inject/bind.h"
#include "base/choose.h"
#include "inject/ignored.h"
#include "inject/place.h"
#include "ring/sample_record.h"
#include "inject/stack.h"
#include "inject/traced.h"
#include "inject/unseen.h"
#include "schema/schema.h"

#define OURS SIGURG

static int (*next_sigaction)(int, const struct sigaction *, struct sigaction *);
static int (*next_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static char cookie; /* its address distinguishes our signals from others' */
static bool on;
static struct sigaction theirs = {.sa_handler = SIG_DFL}; /* the program's own */
static pthread_key_t key;
static int key_ok;
static bool said;
/* The thread's CPU time in ns that samples have accounted for. */
static __thread uint64_t reported_ns __attribute__((tls_model("initial-exec")));

/* Set aside in the thread by its key: timer + 1. A forked child has its parent's value, but not the
 * timer: the process is in it. */
struct own {
	uint32_t pid;
	uint32_t timer;
};

static uint32_t read_own_pid(void)
{
	return (uint32_t)ws_raw_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);
}

/* ---- a sample ---- */

#if defined(__x86_64__)
static void copy_registers(const ucontext_t *context, uint64_t regs[WS_STACK_REGS])
{
	static const int from[WS_STACK_REGS] = {REG_RIP, REG_RSP, REG_RBP, REG_RBX,
						REG_R12, REG_R13, REG_R14, REG_R15};

	for (int i = 0; i < WS_STACK_REGS; i++)
		regs[i] = (uint64_t)context->uc_mcontext.gregs[from[i]];
}
#else
static void copy_registers(const ucontext_t *u, uint64_t regs[WS_STACK_REGS])
{
	regs[0] = u->uc_mcontext.pc;
	regs[1] = u->uc_mcontext.sp;
	regs[2] = u->uc_mcontext.regs[29];
	regs[3] = u->uc_mcontext.regs[30];
	for (int i = 4; i < WS_STACK_REGS; i++)
		regs[i] = u->uc_mcontext.regs[19 + i - 4];
}
#endif

static uint32_t find_core(void)
{
	unsigned cpu;

	/* The C library's function, which uses the vDSO: no system call if there is one. */
	return ws_rt_is_sandboxed() || (cpu = (unsigned)sched_getcpu()) > 65535 ? WS_NO_U32 : cpu;
}

/* The thread's CPU time, ns; 0 when it cannot be read. */
static uint64_t read_cpu_time(void)
{
	struct timespec time;

	if (ws_rt_is_sandboxed() ||
	    ws_raw_syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, (long)&time, 0, 0, 0, 0))
		return 0;
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* CPU time since it was last asked for; `otherwise` when that is not known. */
static uint64_t take_time_since(uint64_t otherwise)
{
	uint64_t now = read_cpu_time(), since = now - reported_ns;

	if (!now || now < reported_ns)
		return otherwise;
	reported_ns = now;
	return since;
}

static void write_sample(struct ws_thread *thread, uint16_t left, uint64_t time, uint64_t weight,
			 uint64_t ip)
{
	struct ws_rec_sample *record = ws_rt_reserve(thread, sizeof(*record), WS_LOSS_SAMPLE);

	if (!record)
		return;
	record->rec = ws_rec_head(WS_REC_SAMPLE, sizeof(*record), left, find_core());
	record->time = time;
	record->weight = weight;
	record->ip = ip;
	ws_rt_commit(thread, record, sizeof(*record));
}

static void take_sample(const siginfo_t *info, const ucontext_t *context)
{
	const struct ws_sample_settings *settings = &ws_rt->arena->sample;
	uint64_t regs[WS_STACK_REGS], time = ws_rt_read_ticks();
	uint64_t weight = take_time_since(settings->period_ns *
					  (1 + (uint64_t)(ws_max(info->si_overrun, 0))));
	struct ws_thread *thread;

	if (ws_sample_hook && ws_sample_hook(time, weight, context)) /* with Python's frames */
		return;
	thread = ws_rt_enter();
	if (!thread)
		return;
	copy_registers(context, regs);
	ws_rt_write_stack_from(thread, WS_STACK_OF_SAMPLE, time, settings->stack_bytes, regs);
	write_sample(thread, 0, time, weight, regs[0]);
	ws_rt_leave(thread);
}

/* Records the CPU time that the calling thread has used since its last sample; it takes no further
 * samples. */
static void write_rest(void)
{
	uint64_t rest = take_time_since(0);
	struct ws_thread *thread;

	if (!rest || !ws_rt->arena || !ws_rt_is_collecting() || !(thread = ws_rt_enter()))
		return;
	write_sample(thread, WS_SAMPLE_LEFT, ws_rt_read_ticks(), rest, 0);
	ws_rt_leave(thread);
}

static void call_previous_handler(int sig, siginfo_t *info, void *context)
{
	struct sigaction to = theirs;

	if (to.sa_handler == SIG_DFL || to.sa_handler == SIG_IGN)
		return;
	/* The signals that it wants blocked while it runs; the earlier mask is restored when it
	 * returns. */
	if (!ws_rt_is_sandboxed())
		ws_raw_syscall(SYS_rt_sigprocmask, SIG_BLOCK, (long)&to.sa_mask, 0,
			       sizeof(uint64_t), 0, 0);
	if (to.sa_flags & SA_SIGINFO)
		to.sa_sigaction(sig, info, context);
	else
		to.sa_handler(sig);
}

bool ws_is_own_signal(const siginfo_t *info)
{
	return info->si_code == SI_TIMER && info->si_value.sival_ptr == &cookie;
}

WS_SIGNAL_ENTRY static void handle_timer_signal(int sig, siginfo_t *info, void *context)
{
	int error = errno;

	if (!ws_is_own_signal(info))
		call_previous_handler(sig, info, context);
	else if (ws_rt_is_collecting() && !(ws_self && ws_self->muted))
		take_sample(info, context);
	else
		take_time_since(0);
	errno = error;
}

/* ---- timers ---- */

static void stop_timer(void *value)
{
	struct own own;

	memcpy(&own, &value, sizeof(own));
	if (ws_rt_is_filtered() || own.pid != read_own_pid())
		return;
	ws_raw_syscall(SYS_timer_delete, (long)(own.timer - 1), 0, 0, 0, 0, 0);
	write_rest();
}

/* On the calling thread. */
static void start_timer(void)
{
	uint64_t period = ws_rt->arena->sample.period_ns;
	struct sigevent sigevent = {.sigev_notify = SIGEV_THREAD_ID,
				    .sigev_signo = OURS,
				    .sigev_value.sival_ptr = &cookie};
	struct itimerspec itimerspec = {
		.it_interval = {(time_t)(period / 1000000000), (long)(period % 1000000000)}};
	struct own own = {0};
	int timer = -1;
	void *value;

	if (ws_rt_is_filtered())
		return;
	own.pid = read_own_pid();
	sigevent._sigev_un._tid = (pid_t)ws_raw_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0);
	itimerspec.it_value = itimerspec.it_interval;
	if (ws_raw_syscall(SYS_timer_create, CLOCK_THREAD_CPUTIME_ID, (long)&sigevent, (long)&timer,
			   0, 0, 0) ||
	    ws_raw_syscall(SYS_timer_settime, timer, 0, (long)&itimerspec, 0, 0, 0)) {
		if (!said)
			ws_rt_write_diagnostic(
				WS_WARNING, "sample",
				"A thread cannot be sampled: the system has no timer for "
				"it (see ulimit -i).");
		said = true;
		return;
	}
	own.timer = (uint32_t)timer + 1;
	memcpy(&value, &own, sizeof(value));
	if (key_ok)
		ws_set_key_value(key, value);
}

static void *begin_sampled_thread(void *arg)
{
	struct ws_place_to_run *place_to_run = arg;
	void *(*run)(void *) = place_to_run->run;
	struct ws_thread *thread;

	arg = place_to_run->arg;
	ws_give_start_place(place_to_run);
	thread = ws_rt_enter(); /* done now rather than in the handler */
	if (thread)
		ws_rt_leave(thread);
	if (ws_rt->arena)
		start_timer();
	return run(arg);
}

WS_EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
			     void *arg);
int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	struct ws_place_to_run *place_to_run = on ? ws_take_start_place(run, arg) : NULL;
	int r;

	if (!next_create)
		next_create = (__typeof__(next_create))ws_find_next_symbol("pthread_create");
	r = place_to_run ? next_create(thread, attr, begin_sampled_thread, place_to_run)
			 : next_create(thread, attr, run, arg);
	if (r && place_to_run)
		ws_give_start_place(place_to_run);
	return r;
}

/* Called after the runtime's own handler, which registers the child. A fork leaves the child's one
 * thread without a timer. */
static void restart_in_child(void)
{
	reported_ns = 0; /* its clock starts again */
	if (on && ws_rt->arena)
		start_timer();
}

/* ---- the program's own use of the signal ---- */

WS_EXPORT int sigaction(int sig, const struct sigaction *act, struct sigaction *old);
int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	struct sigaction before = theirs;

	if (sig != OURS || !on) {
		if (!next_sigaction)
			next_sigaction =
				(__typeof__(next_sigaction))ws_find_next_symbol("sigaction");
		return next_sigaction(sig, act, old);
	}
	if (act)
		theirs = *act;
	ws_ignores_signal = theirs.sa_handler == SIG_IGN;
	if (old)
		*old = before;
	return 0;
}

WS_EXPORT sighandler_t signal(int sig, sighandler_t to);
sighandler_t signal(int sig, sighandler_t to)
{
	static sighandler_t (*next)(int, sighandler_t);
	struct sigaction act = {.sa_handler = to, .sa_flags = SA_RESTART}, old = {0};

	if (sig == OURS && on)
		return sigaction(sig, &act, &old) ? SIG_ERR : old.sa_handler;
	if (!next)
		next = (__typeof__(next))ws_find_next_symbol("signal");
	return next(sig, to);
}

/* ---- beginning ---- */

__attribute__((constructor(102))) static void begin_sampling(void)
{
	struct sigaction act = {.sa_sigaction = handle_timer_signal,
				.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};

	ws_rt_init();
	if (!ws_rt->arena || !(ws_rt->features & WS_FEATURE_SAMPLE))
		return;
	next_sigaction = (__typeof__(next_sigaction))ws_find_next_symbol("sigaction");
	if (!next_sigaction || next_sigaction(OURS, &act, &theirs))
		return;
	key_ok = ws_create_key(&key, stop_timer);
	on = true;
	ws_ignores_signal = theirs.sa_handler == SIG_IGN;
	ws_register_atfork(restart_in_child);
	start_timer();
}

/* For the main thread, or another that calls exit(); the CPU time of other threads is recorded when
 * they end. */
__attribute__((destructor)) static void write_last_rest(void)
{
	if (on)
		write_rest();
}
