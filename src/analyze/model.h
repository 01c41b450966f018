/*
 * model.h - a report as a program that ran: its steps, what each thread did, what ran on GPUs, and
 * what waited for what. It is built once; rules, the table of where time went, the critical path
 * and what-if use it and read no rows of their own.
 *
 * The model covers a window: the steps without those that warm up, or the whole run where there are
 * no steps. Times are nanoseconds on the session clock. Everything here is owned by the model and
 * lives as long as it.
 */
#ifndef WS_ANALYZE_MODEL_H
#define WS_ANALYZE_MODEL_H

#include "analyze/samples.h"
#include "analyze/scopes.h"
#include "base/map.h"
#include "query/correlate.h"
#include "query/stacks.h"
#include "query/states.h"
#include "query/steps.h"
#include "query/work.h"

/* What is known of the call that a thread waits in, as in query/states.h; 0 where there is none. */
struct ws_wait_call {
	uint32_t function, path, holder, callchain;
};

/* A thread's state, as in query/states.h, without the fields that the model does not need. Threads
 * that switch all the time have tens of millions, so it is small. */
struct ws_model_state {
	uint64_t start, end;
	uint32_t call; /* ws_model_get_call says more */
	uint32_t waker : 22, doing : 2, wait : 5, lost : 1;
};
enum { WS_MOST_THREADS = 1 << 22 }; /* ids are the file's: a damaged one may have any */

/* Calls that threads waited in are kept in chunks, which each worker fills by itself. */
enum { WS_CALLS_CHUNK = 1 << 14 };

struct ws_model_thread {
	struct ws_model_state *states; /* in order of time, without overlaps */
	size_t count, cap;
	size_t first_sample, end_sample; /* rows of `samples` */
	size_t first_call, end_call;	 /* rows of `calls` */
	uint64_t running, runnable;	 /* ns on cores, and waiting for one, within the window */
	uint32_t waits;			 /* what it ever waited for: a bit for each enum ws_wait */
};

struct ws_model_gpu {
	uint32_t *by_end;   /* operations in order of their end */
	uint32_t *previous; /* by operation: the one before it on its stream; WS_NO_OP for none */
};
#define WS_NO_OP UINT32_MAX

enum ws_step_source {
	WS_STEPS_NONE,
	WS_STEPS_MARKED,   /* annotations of a framework, or NVTX ranges */
	WS_STEPS_REPEATED, /* found because the sequence of launches repeats */
};

struct ws_model {
	const struct ws_report *report;
	struct ws_names_by_id *who;
	struct ws_stacks *stacks;
	_Atomic uint8_t *marks;	 /* by function of `stacks`: how code.c classified it; 0: not yet */
	_Atomic uint64_t *works; /* by function: what code.c keeps of works.h; 0: not yet */
	_Atomic uint8_t *headers; /* by string: whether a file is the system's, as code.c knows */
	struct ws_work work;
	struct ws_model_gpu *gpus; /* as many as work.gpus */
	struct ws_calls calls;
	struct ws_samples samples;
	struct ws_scopes scopes; /* loaded only where threads were not sampled */
	struct ws_model_thread *threads;
	struct ws_wait_call **wait_calls; /* chunks; the very first call is none */
	size_t wait_chunks, wait_cap;
	uint32_t thread_count; /* ids are 0 to this number less 1 */
	struct ws_thread_end { /* threads that did anything, by the time of their last activity */
		uint64_t at;
		uint32_t thread;
	} * ended;
	size_t ended_count;
	struct ws_map by_tid;  /* process << 32 | the system's number: id of the thread */
	struct ws_steps steps; /* of `process` only, those that warm up included */
	size_t first_step;     /* the first step that counts */
	enum ws_step_source step_source;
	uint32_t process,
		thread; /* the thread whose time is explained: that of the steps, or the target's */
	uint64_t from, to; /* the window */
	uint64_t damaged;  /* blocks that could not be read */
	bool has_scheduling, has_samples, has_cuda;
	bool python; /* `process` ran Python */
	bool (*is_cancelled)(
		void *context); /* from the options; the caller ends the analysis by NULL */
	void *context;
};

struct ws_model_options {
	const char *step_name; /* ranges of this name are the steps; NULL: ranges with the usual
				  names */
	uint64_t from, to;     /* cover only this part; 0 and UINT64_MAX for all */
	bool whole;	       /* cover the whole run, whatever steps it has */
	/* Called now and then while the report is analysed: returns whether to give up. NULL:
	 * never. */
	bool (*is_cancelled)(void *context);
	void *context;
};

/* Read what is needed of a report. Returns NULL with a message. */
struct ws_model *ws_model_open(const struct ws_report *report,
			       const struct ws_model_options *options, struct ws_err *err);
void ws_model_close(struct ws_model *model); /* NULL is fine */

/* The state of a thread just before a moment: the last that begins before it; NULL when there is
 * none. It may have ended long before. */
const struct ws_model_state *ws_model_find_state(const struct ws_model *model, uint32_t thread,
						 uint64_t at);
/* The call that a thread waits in, all zero when that is not known. */
static inline const struct ws_wait_call *ws_model_get_call(const struct ws_model *model,
							   const struct ws_model_state *state)
{
	return &model->wait_calls[state->call / WS_CALLS_CHUNK][state->call % WS_CALLS_CHUNK];
}
/* The call of CUDA that a thread was in just before a moment: its row in `calls`, the innermost, or
 * WS_NO_CALL. */
uint32_t ws_model_find_call(const struct ws_model *model, uint32_t thread, uint64_t at);
/* The thread with this number of the system in the process of thread `near`; 0 for none. */
uint32_t ws_model_find_thread(const struct ws_model *model, uint32_t near, uint32_t tid);
/* The first piece of work that begins after `at`: its number, or gpu->count. */
size_t ws_model_find_op_after(const struct ws_work_gpu *gpu, uint64_t at);
/* 0 while someone still wants the analysis; otherwise -1 with a message. */
int ws_model_check_cancelled(const struct ws_model *model, struct ws_err *err);
/* How many steps count; at least 1: a run without steps is one. */
size_t ws_model_count_steps(const struct ws_model *model);

#endif
