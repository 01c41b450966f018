/*
 * call_inside.c - see call_inside.h.
 *
 * When a thread is stopped in a system call, the kernel is about to restart that call (inside the
 * kernel, the call has returned one of the ERESTART numbers). The kernel does so when the thread
 * goes on from the place where it checks for signals, with the registers that the thread had there.
 * So we put the registers back at that place, and nothing of the call is lost: a sleep ends when it
 * would have. A few calls (such as epoll_wait) are not restarted but fail with EINTR although no
 * signal has come: we restart these by hand.
 *
 * The function is called on the thread's own stack, below the part in use. It returns into
 * rt_sigreturn, with a signal frame on the stack that holds the thread's state. We stop the thread
 * when it is about to make that call and put the state back ourselves, since we can do so exactly.
 * The frame is used only if our process is gone by then. All signals are blocked during the call.
 */
#include "record/call_inside.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/mem.h"
#include "base/ticks.h"
#include "record/process_memory.h"

#if defined(__x86_64__)

#ifndef PTRACE_SETSIGMASK
#define PTRACE_GETSIGMASK 0x420a
#define PTRACE_SETSIGMASK 0x420b
#endif
#define EVENT_STOP 128 /* PTRACE_EVENT_STOP */

enum {
	STOP_MS = 500,
	XSTATE_MOST = 16 << 10,
	RED_ZONE = 128,
	STACK_NEEDED = 96 << 10, /* the loader and our constructors use a tenth of it */
	ERESTARTSYS = 512,
	ERESTARTNOINTR = 513,
	ERESTARTNOHAND = 514,
	ERESTART_RESTARTBLOCK = 516,
};

struct ws_inside {
	pid_t pid, tid;
	struct user_regs_struct regs; /* to be restored */
	uint8_t xstate[XSTATE_MOST] __attribute__((aligned(64)));
	size_t xstate_size;
	uint64_t mask;
	bool restarted; /* `regs` are set to a system call that we restart by hand */
	bool changed;	/* the thread's state differs from the saved one */
	bool left;	/* it was left to return by itself */
};

bool ws_inside_is_supported(void)
{
	return true;
}

/* ---- waiting ---- */

static uint64_t deadline_after(double seconds)
{
	return ws_read_raw_ns() + (uint64_t)(seconds * 1e9);
}

/* Wait for the next stop of the thread: true with its status; false when it has ended (*status -1)
 * or the time is over. */
static bool wait_for_stop(pid_t tid, uint64_t deadline, int *status)
{
	struct timespec pause = {0, 20000};

	for (;;) {
		pid_t got = waitpid(tid, status, WNOHANG | __WALL);

		if (got == tid && WIFSTOPPED(*status))
			return true;
		if (got < 0 || got == tid) {
			*status = -1;
			return false;
		}
		if (ws_read_raw_ns() > deadline) {
			*status = 0;
			return false;
		}
		nanosleep(&pause, NULL);
		pause.tv_nsec = ws_min(pause.tv_nsec * 2, 1000000L);
	}
}

static bool is_event_stop(int status)
{
	return status >> 16 == EVENT_STOP;
}

static bool is_job_stop(int status)
{
	int sig = WSTOPSIG(status);

	return is_event_stop(status) &&
	       (sig == SIGSTOP || sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU);
}

/* ---- the thread's state ---- */

static bool has_pending_signal(pid_t tid)
{
	char path[64], line[256];
	unsigned long long own = 0, shared = 0, blocked = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		sscanf(line, "SigPnd: %llx", &own);
		sscanf(line, "ShdPnd: %llx", &shared);
		sscanf(line, "SigBlk: %llx", &blocked);
	}
	if (file)
		fclose(file);
	return (own | shared) & ~blocked;
}

/* The system call has failed with EINTR only because of our stop: make it again. */
static void restart_by_hand(struct ws_inside *inside)
{
	struct user_regs_struct *regs = &inside->regs;

	if ((long)regs->orig_rax < 0 || (long)regs->rax != -EINTR ||
	    has_pending_signal(inside->tid))
		return;
	regs->rax = regs->orig_rax;
	regs->orig_rax = UINT64_MAX;
	regs->rip -= 2; /* the instruction `syscall` */
	inside->restarted = true;
	/* At once: the program would see the failure if we were killed here. */
	ptrace(PTRACE_SETREGS, inside->tid, NULL, regs);
}

static int read_state(struct ws_inside *inside, struct ws_err *err)
{
	struct iovec xstate = {inside->xstate, sizeof(inside->xstate)};

	if (ptrace(PTRACE_GETREGS, inside->tid, NULL, &inside->regs) ||
	    ptrace(PTRACE_GETREGSET, inside->tid, (void *)NT_X86_XSTATE, &xstate) ||
	    ptrace(PTRACE_GETSIGMASK, inside->tid, (void *)sizeof(inside->mask), &inside->mask))
		return ws_fail_errno(err, "cannot read the registers of thread %d",
				     (int)inside->tid);
	inside->xstate_size = xstate.iov_len;
	if (inside->regs.cs != 0x33)
		return ws_fail(err, "thread %d runs 32-bit code", (int)inside->tid);
	restart_by_hand(inside);
	return 0;
}

/* Everything but the general registers. */
static void write_masks(struct ws_inside *inside)
{
	struct iovec xstate = {inside->xstate, inside->xstate_size};

	ptrace(PTRACE_SETREGSET, inside->tid, (void *)NT_X86_XSTATE, &xstate);
	ptrace(PTRACE_SETSIGMASK, inside->tid, (void *)sizeof(inside->mask), &inside->mask);
}

static void write_state(struct ws_inside *inside)
{
	write_masks(inside);
	ptrace(PTRACE_SETREGS, inside->tid, NULL, &inside->regs);
}

/* ---- stopping ---- */

static enum ws_stop_state stop_seized(struct ws_inside *inside)
{
	uint64_t deadline = deadline_after(STOP_MS / 1e3);
	int status;

	while (wait_for_stop(inside->tid, deadline, &status)) {
		if (is_job_stop(status))
			return WS_STOP_JOB;
		if (is_event_stop(status))
			return WS_STOP_DONE;
		/* A signal for the program: deliver it. */
		ptrace(PTRACE_CONT, inside->tid, NULL, (void *)(long)WSTOPSIG(status));
	}
	return status < 0 ? WS_STOP_GONE : WS_STOP_BUSY;
}

/* A thread can be let go only once it has stopped, so wait for it a little longer. */
static void let_go(struct ws_inside *inside)
{
	int status;

	if (ptrace(PTRACE_DETACH, inside->tid, NULL, NULL) && errno == ESRCH &&
	    wait_for_stop(inside->tid, deadline_after(STOP_MS / 1e3), &status))
		ptrace(PTRACE_DETACH, inside->tid, NULL, NULL);
}

static enum ws_stop_state explain_seize(pid_t pid, struct ws_err *err)
{
	if (errno == ESRCH)
		return WS_STOP_GONE;
	ws_fail_errno(err, "process %d may not be looked into by ptrace", (int)pid);
	return WS_STOP_REFUSED;
}

enum ws_stop_state ws_inside_stop(pid_t pid, pid_t tid, struct ws_inside **out, struct ws_err *err)
{
	struct ws_inside *inside;
	enum ws_stop_state state;

	if (ptrace(PTRACE_SEIZE, tid, NULL, (void *)PTRACE_O_TRACESYSGOOD))
		return explain_seize(pid, err);
	inside = aligned_alloc(64, WS_ALIGN_UP(sizeof(*inside), 64));
	if (!inside)
		inside = ws_calloc(1, SIZE_MAX / 2); /* end as ws_malloc would */
	memset(inside, 0, sizeof(*inside));
	inside->pid = pid;
	inside->tid = tid;
	ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
	state = stop_seized(inside);
	if (state == WS_STOP_DONE && read_state(inside, err))
		state = WS_STOP_REFUSED;
	if (state == WS_STOP_DONE) {
		*out = inside;
		return state;
	}
	let_go(inside);
	free(inside);
	return state;
}

void ws_inside_get_regs(const struct ws_inside *inside, struct ws_regs *out)
{
	const struct user_regs_struct *regs = &inside->regs;
	const uint64_t values[WS_REGS] = {regs->rax, regs->rdx, regs->rcx, regs->rbx, regs->rsi,
					  regs->rdi, regs->rbp, regs->rsp, regs->r8,  regs->r9,
					  regs->r10, regs->r11, regs->r12, regs->r13, regs->r14,
					  regs->r15, regs->rip};

	memcpy(out->values, values, sizeof(values));
	out->known = (UINT64_C(1) << WS_REGS) - 1;
}

long ws_inside_syscall(const struct ws_inside *inside)
{
	long result = (long)inside->regs.rax;

	if (inside->restarted)
		return (long)inside->regs.rax;
	if ((long)inside->regs.orig_rax < 0 ||
	    (result != -ERESTARTSYS && result != -ERESTARTNOINTR && result != -ERESTARTNOHAND &&
	     result != -ERESTART_RESTARTBLOCK))
		return -1;
	return (long)inside->regs.orig_rax;
}

void ws_inside_release(struct ws_inside *inside)
{
	if (inside->changed && !inside->left)
		write_state(inside);
	let_go(inside);
	free(inside);
}

/* ---- the frame ---- */

#define FP_MAGIC1 0x46505853u
#define FP_MAGIC2 0x46505845u
#define FP_SOFTWARE 464 /* offset of the bytes reserved for software in the state */

/* As the kernel lays it out for rt_sigreturn, which finds it at the stack pointer less 8. */
struct frame {
	uint64_t returns_to;
	uint64_t flags, link;
	stack_t stack;
	struct {
		uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx,
			rsp, rip, eflags;
		uint16_t cs, gs, fs, ss;
		uint64_t error, trap, old_mask, cr2, state, reserved[8];
	} context;
	uint64_t mask;
};

/* The registers with which the thread would go on by itself: a system call is restarted. */
static struct user_regs_struct regs_without_help(const struct ws_inside *inside)
{
	struct user_regs_struct regs = inside->regs;
	long nr = ws_inside_syscall(inside);

	regs.orig_rax = UINT64_MAX;
	if (nr < 0 || inside->restarted)
		return regs;
	regs.rax = (unsigned long long)nr;
	regs.rip -= 2;
	return regs;
}

static void fill_frame(const struct ws_inside *inside, struct frame *frame, uint64_t state_at)
{
	struct user_regs_struct regs = regs_without_help(inside);

	*frame = (struct frame){
		.flags = 7, /* extended state; ss is present and must be restored */
		.stack = {.ss_flags = 0x40}, /* an invalid flag, so that the alternate stack stays
						as it is */
		.context = {.r8 = regs.r8,
			    .r9 = regs.r9,
			    .r10 = regs.r10,
			    .r11 = regs.r11,
			    .r12 = regs.r12,
			    .r13 = regs.r13,
			    .r14 = regs.r14,
			    .r15 = regs.r15,
			    .rdi = regs.rdi,
			    .rsi = regs.rsi,
			    .rbp = regs.rbp,
			    .rbx = regs.rbx,
			    .rdx = regs.rdx,
			    .rax = regs.rax,
			    .rcx = regs.rcx,
			    .rsp = regs.rsp,
			    .rip = regs.rip,
			    .eflags = regs.eflags,
			    .cs = (uint16_t)regs.cs,
			    .ss = (uint16_t)regs.ss,
			    .state = state_at},
		.mask = inside->mask,
	};
}

/* The saved state says how long it is, so that the kernel takes all of it. */
static void mark_state(uint8_t *state, size_t size)
{
	struct {
		uint32_t magic, whole;
		uint64_t features;
		uint32_t size, padding[7];
	} software = {.magic = FP_MAGIC1, .whole = (uint32_t)size + 4, .size = (uint32_t)size};
	uint32_t magic = FP_MAGIC2;

	memcpy(&software.features, state + FP_SOFTWARE, sizeof(software.features));
	memcpy(state + FP_SOFTWARE, &software, sizeof(software));
	memcpy(state + size, &magic, sizeof(magic));
}

static int write_memory(pid_t pid, uint64_t to, const void *from, size_t size, struct ws_err *err)
{
	if (!ws_process_memory_write(pid, to, from, size))
		return 0;
	return ws_fail_errno(err, "cannot write into process %d", (int)pid);
}

/* Put text, state and frame below the part of the stack that the thread uses. Returns the address
 * of the frame, or 0 with a message. */
static uint64_t lay_out_stack(struct ws_inside *inside, const struct ws_inside_call *call,
			      uint64_t *text_at, struct ws_err *err)
{
	uint8_t state[XSTATE_MOST + 64];
	uint64_t top = (inside->regs.rsp - RED_ZONE) & ~UINT64_C(63), state_at, frame_at;
	struct frame frame;

	*text_at = (top - call->size) & ~UINT64_C(63);
	state_at = (*text_at - inside->xstate_size - 64) & ~UINT64_C(63);
	/* At a function's first instruction the stack pointer is 8 more than a multiple of 16. */
	frame_at = ((state_at - sizeof(frame)) & ~UINT64_C(15)) - 8;
	memcpy(state, inside->xstate, inside->xstate_size);
	mark_state(state, inside->xstate_size);
	fill_frame(inside, &frame, state_at);
	frame.returns_to = call->sigreturn;
	if (write_memory(inside->pid, *text_at, call->text, call->size, err) ||
	    write_memory(inside->pid, state_at, state, inside->xstate_size + 4, err) ||
	    write_memory(inside->pid, frame_at, &frame, sizeof(frame), err))
		return 0;
	return frame_at;
}

/* ---- calls ---- */

static int begin_call(struct ws_inside *inside, const struct ws_inside_call *call, uint64_t frame,
		      uint64_t text, struct ws_err *err)
{
	struct user_regs_struct regs = inside->regs;
	uint64_t all = UINT64_MAX;

	regs.rip = call->address;
	regs.rsp = frame;
	regs.rdi = text;
	regs.rsi = call->number;
	regs.rax = 0;
	regs.rbp = 0;
	regs.orig_rax = UINT64_MAX;
	regs.eflags &= ~UINT64_C(0x500); /* direction, single step */
	inside->changed = true;
	/* The mask comes last: if we are killed in between, the frame restores its own. */
	if (ptrace(PTRACE_SETREGS, inside->tid, NULL, &regs) ||
	    ptrace(PTRACE_SETSIGMASK, inside->tid, (void *)sizeof(all), &all))
		return ws_fail_errno(err, "cannot set the registers of thread %d",
				     (int)inside->tid);
	return 0;
}

/* Whether the thread is about to execute the rt_sigreturn that ends the call. */
static bool has_returned(const struct ws_inside *inside, int status, uint64_t frame)
{
	struct user_regs_struct regs;

	return WSTOPSIG(status) == (SIGTRAP | 0x80) &&
	       !ptrace(PTRACE_GETREGS, inside->tid, NULL, &regs) &&
	       regs.orig_rax == SYS_rt_sigreturn && regs.rsp == frame + 8;
}

/* Whether the signal is a fault of the function itself, which would end the program. */
static bool is_fault(int sig)
{
	return sig == SIGSEGV || sig == SIGBUS || sig == SIGILL || sig == SIGFPE ||
	       sig == SIGTRAP || sig == SIGSYS || sig == SIGABRT;
}

/*
 * Move the thread from a stop at the entry of a system call to the place where the kernel checks
 * for signals: there the state can be put back exactly. rt_sigreturn itself is not called, because
 * it would have the kernel forget how much time the interrupted call has left. What it would do is
 * done here, with the registers last and all at once, so that the thread may be left alone at any
 * moment.
 */
static int leave_syscall(struct ws_inside *inside, struct ws_err *err)
{
	struct user_regs_struct regs = regs_without_help(inside);
	int status;

	write_masks(inside);
	if (ptrace(PTRACE_SETREGS, inside->tid, NULL, &regs))
		return ws_fail_errno(err, "thread %d is gone", (int)inside->tid);
	ptrace(PTRACE_INTERRUPT, inside->tid, NULL, NULL);
	ptrace(PTRACE_CONT, inside->tid, NULL, NULL);
	while (wait_for_stop(inside->tid, deadline_after(STOP_MS / 1e3), &status)) {
		if (is_event_stop(status) && !is_job_stop(status))
			return 0;
		ptrace(PTRACE_CONT, inside->tid, NULL, NULL);
	}
	return ws_fail(err, "thread %d did not stop again", (int)inside->tid);
}

static int follow_call(struct ws_inside *inside, uint64_t frame, uint64_t deadline,
		       struct ws_err *err)
{
	int status;

	for (;;) {
		if (ptrace(PTRACE_SYSCALL, inside->tid, NULL, NULL))
			return ws_fail_errno(err, "process %d has ended", (int)inside->pid);
		if (!wait_for_stop(inside->tid, deadline, &status))
			break;
		if (has_returned(inside, status, frame))
			return leave_syscall(inside, err);
		if (!is_event_stop(status) && is_fault(WSTOPSIG(status))) {
			write_state(inside);
			inside->changed = false;
			return ws_fail(err,
				       "loading ended with signal %d inside process %d, "
				       "which goes on as before",
				       WSTOPSIG(status), (int)inside->pid);
		}
	}
	if (status < 0)
		return ws_fail(err, "process %d has ended", (int)inside->pid);
	return ws_fail(err, "loading took too long in process %d", (int)inside->pid);
}

/*
 * The time is over. A thread that waits for a lock (a futex) can be taken out of the wait, because
 * it does not hold the lock. Any other thread is left to finish: it returns by itself.
 */
static void give_up(struct ws_inside *inside, uint64_t frame, bool *lost)
{
	struct user_regs_struct regs;
	int status;

	ptrace(PTRACE_INTERRUPT, inside->tid, NULL, NULL);
	if (wait_for_stop(inside->tid, deadline_after(STOP_MS / 1e3), &status) &&
	    !ptrace(PTRACE_GETREGS, inside->tid, NULL, &regs)) {
		if (has_returned(inside, status, frame)) {
			struct ws_err ignored;

			leave_syscall(inside, &ignored);
			return;
		}
		if (is_event_stop(status) && regs.orig_rax == SYS_futex)
			return;
	}
	inside->left = *lost = true;
}

int ws_inside_make_call(struct ws_inside *inside, struct ws_inside_call *call, struct ws_err *err)
{
	uint64_t frame, text_at, deadline = deadline_after(call->seconds);

	call->lost = false;
	if (inside->regs.rsp < call->stack_low + STACK_NEEDED + call->size)
		return ws_fail(err, "the stack of thread %d is too small", (int)inside->tid);
	frame = lay_out_stack(inside, call, &text_at, err);
	if (!frame || begin_call(inside, call, frame, text_at, err))
		return -1;
	if (!follow_call(inside, frame, deadline, err))
		return 0;
	if (inside->changed && ws_read_raw_ns() > deadline)
		give_up(inside, frame, &call->lost);
	return -1;
}

#else

bool ws_inside_is_supported(void)
{
	return false;
}

enum ws_stop_state ws_inside_stop(pid_t pid, pid_t tid, struct ws_inside **inside,
				  struct ws_err *err)
{
	(void)pid, (void)tid, (void)inside;
	ws_fail(err, "libraries can be loaded into running programs on x86-64 only");
	return WS_STOP_REFUSED;
}

void ws_inside_get_regs(const struct ws_inside *inside, struct ws_regs *regs)
{
	(void)inside;
	regs->known = 0;
}

long ws_inside_syscall(const struct ws_inside *inside)
{
	(void)inside;
	return -1;
}

int ws_inside_make_call(struct ws_inside *inside, struct ws_inside_call *call, struct ws_err *err)
{
	(void)inside;
	call->lost = false;
	return ws_fail(err, "libraries can be loaded into running programs on x86-64 only");
}

void ws_inside_release(struct ws_inside *inside)
{
	(void)inside;
}

#endif
