/*
 * python.h - the Python hook: what its files share, all inside libwarpsight-python.so.
 *
 * python.c         finds the interpreter, watches threads take and drop the GIL
 * python_later.c   finds an interpreter that the program loads with dlopen
 * python_sample.c  the signal handler: the thread's frames, registers and stack into its ring
 * python_functions.c  named functions as ranges (with python_monitoring.c, python_evaluator.c,
 *                  python_names.c)
 * python_signal.c  keeps the signal ours without the program seeing it
 */
#ifndef WS_PYTHON_H
#define WS_PYTHON_H

#include <signal.h>

#include "cpython/cpython.h"
#include "ring/python_record.h"
#include "inject/rt.h"

#define WS_HIDDEN __attribute__((visibility("hidden")))

/*
 * The signal: it is ignored by default, so that one in flight when the program execs, or one that
 * reaches a child, does nothing. At most one is pending, so that no queue can overflow.
 */
#define WS_PYTHON_SIGNAL SIGURG

struct ws_python_code { /* of the table of codes that a thread has described */
	uint64_t code;
	struct ws_py_code_key key;
	uint32_t number; /* 0: it could not be read */
	uint32_t serial; /* of the sample that last checked it */
};
#define WS_PYTHON_CODES 2048u
#define WS_PYTHON_OPEN 1024u /* a recursion of named functions, up to its usual limit */

/* What the hook keeps for a thread; in pages of its own that a fork wipes. */
struct ws_python_thread {
	struct ws_python_beacon now;
	struct ws_python_thread *calls;	 /* of which frames of calls use `code` to `walk`, because
					    numbers of codes hold for one ring; NULL: none yet */
	const void *ring;		 /* of `calls`: the ring that its numbers hold for */
	uint64_t short_start, short_end; /* short holds, not recorded yet */
	uint32_t numbers, used, serial;	 /* codes described; slots taken; samples */
	uint32_t at_work;		 /* the sampler is writing */
	uint32_t silent, silent_wait; /* it took the GIL, and began to wait for it, when nothing was
					 recorded */
	uint32_t open_n; /* named functions under way; more than WS_PYTHON_OPEN are only counted */
	struct {
		uint64_t start;
		uint32_t slot;
	} open[WS_PYTHON_OPEN];
	uint64_t page[64]; /* pages that were found to be there, with the sample that found it */
	struct ws_python_code code[WS_PYTHON_CODES];
	struct ws_py_frame frame[WS_PYTHON_FRAMES_MOST];
	uint8_t raw[WS_PY_PIECES * WS_PY_KEY_BYTES];
	struct ws_py_code text;
	struct ws_py_walk walk;
};
_Static_assert(sizeof(struct ws_python_thread) <= WS_PYTHON_THREAD_BYTES,
	       "rt.h unmaps it when the thread ends");

struct ws_python { /* of the process; survives a fork, since the child runs the same interpreter */
	uint64_t runtime, runtime_bytes;
	struct ws_py_layout layout;
	void *(*gilstate_thread)(void); /* PyGILState_GetThisThreadState */
	void *(*current_thread)(
		void); /* the thread state that runs on this thread, from 3.12 on; else NULL */
	_Atomic uintptr_t gil_cond, gil_switch_cond;
	void *library; /* the interpreter's, where it was loaded by dlopen: its symbols are found
			  there. NULL: they are global */
	bool signals, timers; /* our handler is there; the sampling hook asks instead */
	bool looked_into;     /* neither: the kernel reads the frames */
	uint64_t cookie;      /* of process `cookie_pid`; see ws_python_cookie */
	uint64_t cookie_pid;
};
extern struct ws_python ws_python WS_HIDDEN;

/* A symbol of the interpreter, or NULL. */
void *ws_python_find_symbol(const char *name) WS_HIDDEN;

/* The calling thread's, made when it has none; NULL when nothing is recorded. Not in a signal
 * handler. */
struct ws_python_thread *ws_python_this_thread(void) WS_HIDDEN;
/* The GIL was taken: set up the tracing of named functions, if there are any and this has not
 * begun. */
void ws_python_trace_functions(void) WS_HIDDEN;

/* Reads the process's own memory (struct ws_py_memory); `ctx` is the thread's struct
 * ws_python_thread or NULL. Cannot fault. */
size_t ws_python_read_memory(void *ctx, const struct ws_py_piece *piece, size_t n) WS_HIDDEN;

/* Look for the interpreter, among global symbols or in ws_python.library, and begin; false when
 * there is none that is known. */
bool ws_python_begin_recording(void) WS_HIDDEN;

/* Install the handler; false when the program has one of its own. */
bool ws_python_take_signal(void) WS_HIDDEN;
void ws_python_handle_signal(int sig, siginfo_t *info, void *context) WS_HIDDEN;
/* The same for a sample that the sampling hook's timer requested: a ws_sample_fn. */
bool ws_python_start_timer(uint64_t time, uint64_t weight, const void *context) WS_HIDDEN;
/* The program wants the signal for itself: no more samples, and none under way when this returns.
 */
void ws_python_stop_sampling(void) WS_HIDDEN;

/* Write code objects, and the frames of the calling thread, into the sampler's ring. Called between
 * ws_rt_enter_sampler and its end. False when there is no room. */
bool ws_python_write_frames(struct ws_thread *thread,
			    struct ws_python_thread *python_thread) WS_HIDDEN;

/* A ws_stack_fn. */
bool ws_python_write_cuda_stack(uint32_t correlation, uint32_t bytes) WS_HIDDEN;
/* A ws_frames_fn. */
void ws_python_write_call_frames(struct ws_thread *thread) WS_HIDDEN;

#endif
