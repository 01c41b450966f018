/*
 * perf.h - CPU sampling and context switches by the kernel's perf events: the options that a
 * session passes and the functions that it calls.
 *
 * Where it is permitted, each CPU has one tracking event (mappings, names, forks, exits, context
 * switches) and one event for each thing that is sampled. They cover everything that runs there;
 * what does not belong to the target's process tree is dropped here. Events that every thread
 * inherits follow the tree without special rights, but cost the target microseconds for each CPU
 * whenever it creates a thread; they are used where events on CPUs are refused.
 *
 * Each CPU has one buffer, which its events share. A round reads everything but the newest records
 * from all buffers, in the order of time.
 */
#ifndef WS_RECORD_PERF_H
#define WS_RECORD_PERF_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/mem.h"

enum ws_perf_scope { WS_SCOPE_NONE, WS_SCOPE_TREE, WS_SCOPE_SYSTEM };
enum ws_backtrace {
	WS_BACKTRACE_AUTO,
	WS_BACKTRACE_FP,
	WS_BACKTRACE_DWARF,
	WS_BACKTRACE_LBR,
	WS_BACKTRACE_NONE
};

#define WS_PERF_FREQUENCY 1000u /* samples a second by default */

struct ws_perf_opts {
	enum ws_perf_scope sample, switches;
	enum ws_backtrace backtrace;
	uint32_t frequency;   /* samples a second of a running thread; 0 when a period is given */
	uint64_t period;      /* ns of the CPU clock (cycles with LBR) between samples; 0 when a
				 frequency is    given */
	uint32_t stack_bytes; /* of a thread's stack that a sample copies; a multiple of 8 */
	uint32_t samples_per_backtrace;	     /* every n-th sample of a thread has a call stack */
	const char *core_events, *os_events; /* names, comma-separated; NULL for none */
	const char *core_metrics;	     /* metrics to compute on every CPU, in the same form */
	bool count_events;  /* count those events on every CPU over time instead of sampling them */
	uint64_t count_ns;  /* between two readings of their counters */
	const char *ftrace; /* subsystem/event,..., or NULL */
	bool syscalls;	    /* record system calls */
	bool all_switches;  /* record all switches, however often threads switch */
	bool later;	    /* the collection does not begin with the target */
	bool signals;	    /* perf is refused, and hooks take the samples instead */
	bool attach;	    /* the target already runs: find its threads and descendants */
	bool hooked;	    /* the target's file takes our hooks */
};

struct ws_perf;
struct ws_perf_warmth;
struct ws_closer;
struct ws_drain;
struct ws_sink;
struct ws_proc;
struct ws_row_sample;

/*
 * The first event that follows thread switches makes the kernel change its code and wait until
 * every core has seen that, which takes 5 to 20 ms. A thread opens one while the session is still
 * being prepared. ws_perf_end_warm_up, after ws_perf_open, waits for it and closes it; NULL is
 * fine.
 */
struct ws_perf_warmth *ws_perf_warm_up(const struct ws_perf_opts *options);
void ws_perf_end_warm_up(struct ws_perf_warmth *warmth);
/*
 * Open what `o` asks for, for the process tree that begins with `target`: a child of this process
 * that has not called exec yet or, with `attach`, any process. Unavailable events are named in the
 * report `main`; this never fails. NULL when nothing was asked for. `drain` and `main` must outlive
 * it.
 */
struct ws_perf *ws_perf_open(const struct ws_perf_opts *options, pid_t target,
			     struct ws_drain *drain, struct ws_sink *main);
/* Follow another process, which has not called exec yet, and what it starts. `perf` may be NULL. */
void ws_perf_add_root(struct ws_perf *perf, pid_t pid);
/* Whether anything is sampled or followed. False when all was refused. */
bool ws_perf_active(const struct ws_perf *perf);
/*
 * Whether the kernel refuses events that this process asks for on itself. If so, ws_perf_open will
 * give nothing; this tells before there is a target. For tests, WARPSIGHT_PERF=none in the
 * environment simulates a refusal.
 */
bool ws_perf_refused(void);
/* Samples a second that the kernel allows now (perf_event_max_sample_rate); 0 when it does not say.
 */
uint32_t ws_perf_limit(void);
/* Whether a call stack is wanted with the nth sample of a thread, from 0. */
bool ws_perf_wants_stack(const struct ws_perf *perf, uint32_t nth);
/* The thread (its id outside of namespaces) calls a library without pause: its core takes fewer
 * samples for a while. `now`: ws_read_raw_ns. `perf` may be NULL. */
void ws_perf_note_storm(struct ws_perf *perf, uint32_t tid, uint64_t now);
/* Have each core take all of its samples, or sparse ones, as is wanted now. `perf` may be NULL. */
void ws_perf_pace_samples(struct ws_perf *perf, uint64_t now);
/* Write to a report, once, what was asked for and what came of it. `perf` may be NULL. */
void ws_perf_describe(struct ws_perf *perf, struct ws_sink *sink);

/* The collection begins at `time` (session ns): what happened before makes no rows. */
void ws_perf_begin(struct ws_perf *perf, uint64_t time);
/* The collection has ended at `time`; what happened before that is still to be read. */
void ws_perf_stop(struct ws_perf *perf, uint64_t time);
void ws_perf_end(struct ws_perf *perf, uint64_t time);
/* The same when another collection may follow: losses are reported, and running threads and
 * mappings are still followed. */
void ws_perf_rest(struct ws_perf *perf, uint64_t time);
/* Write what is under way at `time`, for a snapshot, in a process that has a copy of all this: the
 * events themselves are left alone. */
void ws_perf_tell_open(struct ws_perf *perf, uint64_t time);

/* Read what has arrived. Call it after the drain's round, which began at `since` (session ns): all
 * processes that had registered by then are known. */
void ws_perf_round(struct ws_perf *perf, uint64_t since);
/* How long the recorder may sleep before a buffer gets too full, in nanoseconds; 0: it should go on
 * at once. */
uint64_t ws_perf_patience(const struct ws_perf *perf);
/* The last round: reads everything, writes what is open, reports losses. Call it before the drain's
 * last round. */
void ws_perf_finish(struct ws_perf *perf, uint64_t now);
/* Free it. Returns the thread that closes the events, to be joined (closer.h); NULL when nothing
 * was open. */
struct ws_closer *ws_perf_free(struct ws_perf *perf);

/*
 * Keep a sample that a thread took of itself until it is known how much time it stands for. `row`
 * is complete except for `time`; its weight is the time that it stands for if nothing better
 * becomes known. `tid` as seen from here. False when the caller should write it.
 */
bool ws_perf_hold_sample(struct ws_perf *perf, uint32_t tid, struct ws_sink *sink,
			 const struct ws_row_sample *row);

/* Call it when a process image has registered. Returns the id in `sink` that its rows already have
 * because perf saw it first, or 0. */
uint32_t ws_perf_adopt(struct ws_perf *perf, struct ws_proc *proc);

/* The list behind --cpu-core-events=help and --os-events=help, with a remark on those that this
 * machine refuses. */
void ws_perf_list_events(struct ws_text *text, bool core);
/* The list behind --ftrace=help: one tracepoint a line. 0, or -1 with a sentence when they cannot
 * be read. */
int ws_trace_list(struct ws_text *out, struct ws_err *err);
/* Check a list of event names or numbers of that list. 0, or -1 with a message that names `option`.
 */
int ws_perf_check_events(const char *list, bool core, const char *option, struct ws_err *err);
/* The same for --cpu-core-metrics; metrics that this machine has no events for are refused too. */
void ws_perf_list_metrics(struct ws_text *text);
int ws_perf_check_metrics(const char *list, struct ws_err *err);

#endif
