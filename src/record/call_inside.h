/*
 * call_inside.h - calling a function inside a program that runs: stop one of its threads by ptrace,
 * have it call the function, and let it go on as if nothing had happened.
 *
 * If this process dies during a call, the kernel restores the thread: it returns from the function
 * into a signal frame that puts all its registers back.
 */
#ifndef WS_RECORD_CALL_INSIDE_H
#define WS_RECORD_CALL_INSIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "symbols/regs.h"

/* A thread that is stopped by us. */
struct ws_inside;

enum ws_stop_state {
	WS_STOP_DONE,
	WS_STOP_JOB,	 /* a signal has stopped the process (SIGSTOP, Ctrl-Z) */
	WS_STOP_GONE,	 /* the thread or process has ended */
	WS_STOP_BUSY,	 /* the kernel did not stop it in time */
	WS_STOP_REFUSED, /* ptrace is not permitted, or another tracer has it: *err says why */
};

/* Stop a thread of the process; on WS_STOP_DONE pass *inside to ws_inside_release. */
enum ws_stop_state ws_inside_stop(pid_t pid, pid_t tid, struct ws_inside **inside,
				  struct ws_err *err);
/* The thread's registers where it was stopped. */
void ws_inside_get_regs(const struct ws_inside *inside, struct ws_regs *regs);
/* The number of the system call that the stop interrupted and that will go on; -1 for none. */
long ws_inside_syscall(const struct ws_inside *inside);

/* A call, and the addresses in the program that it needs. */
struct ws_inside_call {
	uint64_t sigreturn; /* code that calls rt_sigreturn, as the C library has it */
	uint64_t stack_low; /* lowest address of the thread's stack that may be used */
	uint64_t address;   /* of the function */
	const void *text;   /* its first argument: `size` bytes, which are put onto the stack */
	size_t size;
	uint64_t number; /* its second argument */
	double seconds;	 /* time limit */
	/* Out: the thread could not be taken out of the call when the time was over, and comes back
	 * by itself: only ws_inside_release remains. */
	bool lost;
};
/* Have the thread make the call. 0; or -1 with a message, when the thread is where it was before.
 */
int ws_inside_make_call(struct ws_inside *inside, struct ws_inside_call *call, struct ws_err *err);

/* Let the thread go on where it was. Frees. */
void ws_inside_release(struct ws_inside *inside);

/* Whether this build can do that: on x86-64. */
bool ws_inside_is_supported(void);

#endif
