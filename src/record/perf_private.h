/* perf_private.h - what the files perf*.c share. */
#ifndef WS_RECORD_PERF_PRIVATE_H
#define WS_RECORD_PERF_PRIVATE_H

#include "base/map.h"
#include "record/drain.h"
#include "record/perf.h"
#include "record/perf_parse.h"
#include "record/code.h"
#include "record/proc.h"
#include "record/stacks.h"
#include "record/syscalls.h"
#include "record/wait_calls.h"

#define WS_PERF_MORE_EVENTS 16 /* of each list of names */

/* ---- events and buffers (perf_open.c, perf_ring.c) ---- */

struct ws_perf_name {
	const char *name;
	uint32_t type;
	uint64_t config;
	const char *doc;
	bool hardware;
};
const struct ws_perf_name *ws_perf_find_event(const char *word, size_t len, bool core);

struct ws_trace_format; /* perf_trace.c */

enum ws_perf_role {
	WS_PERF_TRACK,
	WS_PERF_SAMPLE,
	/* samples of whole CPUs, kept ready in case inherited events do not suffice
	 * (perf_choose.c) */
	WS_PERF_STANDBY,
	WS_PERF_SWITCHES, /* context switches of whole CPUs, where they have an event of their own
			   */
	WS_PERF_CALLS, /* context switches, for the program that reports in which calls threads are
			  (wait_calls.h) */
	WS_PERF_WAKE,
	WS_PERF_FTRACE,
	WS_PERF_OUTPUT /* written by programs in the kernel */
};

struct ws_perf_event { /* one thing that is opened on each CPU */
	enum ws_perf_role role;
	struct perf_event_attr attr;
	unsigned regs; /* how many registers a sample has */
	uint32_t row;  /* id in the table perf_event; 0 when it makes no samples */
	bool clock;    /* weight is nanoseconds */
	bool time;     /* its samples stand for the time that the thread ran */
	int refused;   /* of a tracepoint: the errno with which the kernel refused it; else 0 */
	char name[64];
	struct ws_trace_format *format;
};

struct ws_perf_counter {   /* for --event-sample: counters that are read, not sampled */
	uint32_t cpu, row; /* id in the table counter */
	int fd;
	uint64_t last, last_time;
	bool seen;
};

struct ws_perf_span {
	uint64_t from, to; /* to: UINT64_MAX while it lasts */
};

struct ws_perf_spans { /* in the order of time, one after the other */
	struct ws_perf_span *span;
	size_t n, cap;
};

struct ws_perf_ring {
	uint32_t cpu;
	bool copy; /* a copy of another ring of the same core, for tests: it is not read */
	struct perf_event_mmap_page *page;
	const char *data;
	size_t bytes;
	uint64_t tail, head;   /* of this round */
	uint64_t time;	       /* of the record at `tail` */
	uint64_t last;	       /* time of the last record that was taken */
	uint64_t switches;     /* records of context switches since ws_perf_pace_switches counted */
	double allowance;      /* switches that may still be recorded before a pause */
	double switch_rate;    /* switches a second at the last look */
	uint64_t sparse_until; /* until when its samples are to be sparse; 0: they are not */
	struct ws_perf_spans sparse; /* when they were: perf_sparse.c */
	uint64_t full_at; /* the writer's position when it had no room for a record; 0: it had room
			   */
	int *fds; /* of the events in their order, repeated for each thread that was given its own
		     events */
	size_t fds_n, fds_cap;
	/* Python frames, kept until the sample that they belong to comes */
	void *python;
	size_t python_n, python_cap;
	uint32_t python_tid; /* 0: none */
	uint64_t python_time;
};

struct ws_perf_set { /* the open events */
	/* each CPU as a whole, except samples of the process tree; else events that the target's
	 * threads inherit */
	bool wide;
	bool no_kernel; /* only user space may be observed */
	struct ws_perf_event *events;
	size_t events_n, events_cap;
	struct ws_map by_id; /* the kernel's id of an event -> index in events + 1 */
	struct ws_perf_ring *rings;
	size_t rings_n;
	struct ws_perf_ring **heap; /* rings with a current record, the earliest first */
	size_t heap_n;
	char *scratch;	   /* for a record that wraps around the end of its ring */
	unsigned long bad; /* invalid records */
	size_t ring_bytes; /* of the smallest ring */
};

/* Open `attr` and close it again; returns the errno. */
int ws_perf_try(const struct perf_event_attr *attr, pid_t pid, int cpu);
void ws_perf_attr(struct perf_event_attr *attr, uint32_t type, uint64_t config, bool no_kernel);
/*
 * Open all of set->events on each CPU, those that are inherited for `pid` (with `tree`, for each
 * thread of it and of its descendants), others for all that runs there, and map the buffers.
 * Tracepoints that are refused are left out (event->refused). 0, or the errno of the first failure
 * that leaves nothing open; failures of single events are not reported.
 */
int ws_perf_open_set(struct ws_perf_set *set, pid_t pid, bool tree);
/* Give another process the events that are inherited. */
void ws_perf_open_more(struct ws_perf_set *set, pid_t pid);
void ws_perf_close_set(struct ws_perf_set *set);
/*
 * Close the events and give the buffers back. The kernel takes 40 ms to release a tracepoint, so a
 * thread closes the descriptors: ws_closer_join waits for it and frees the closer. NULL when there
 * was nothing to close.
 */
struct ws_closer *ws_perf_close_later(struct ws_perf_set *set);
/* Enable or disable all events of a role. */
void ws_perf_switch(struct ws_perf_set *set, enum ws_perf_role role, bool on);
/* The same for one of the events on one core. */
void ws_perf_switch_on(const struct ws_perf_set *set, const struct ws_perf_ring *ring, size_t event,
		       bool on);
/* Close one of the events on all CPUs. It must not be the first, which owns the buffers. What it
 * has written can still be read. */
void ws_perf_close_event(struct ws_perf_set *set, size_t event);
/* The same for all of a role that are for whole CPUs: hand them to `closer`, which closes them in a
 * thread once it is started. Returns the closer, which is made when it was NULL. */
struct ws_closer *ws_perf_close_role(struct ws_perf_set *set, enum ws_perf_role role,
				     struct ws_closer *closer);
/* Open them again. False when the kernel refuses some. */
bool ws_perf_reopen_role(struct ws_perf_set *set, enum ws_perf_role role);
/* Call `fn` with each record that is older than `until`, in the order of time. Pointers are valid
 * during the call. Returns the bytes taken. */
uint64_t ws_perf_take(struct ws_perf_set *set, uint64_t until,
		      void (*fn)(void *ctx, struct ws_perf_ring *ring, const void *rec,
				 size_t size),
		      void *ctx);
/* The fullest buffer, in 1/256 of its size. */
unsigned ws_perf_fullness(const struct ws_perf_set *set);
/* CPUs that are online; owned by the caller. */
uint32_t *ws_perf_cpus(size_t *n);

/* ---- tracepoints (perf_trace.c) ---- */

/* The kernel's number and format of subsystem/event, from the folder of ws_tracefs_open; NULL with
 * a sentence when it is not available. */
struct ws_trace_format *ws_trace_open(int folder, const char *name, struct ws_err *err);
uint64_t ws_trace_id(const struct ws_trace_format *format);
/* The offset of a field in a raw record; false when it has none of this name. */
bool ws_trace_offset(const struct ws_trace_format *format, const char *field, uint32_t *offset);
/* Value of an integer field of a raw record; false when it has none of this name. */
bool ws_trace_number(const struct ws_trace_format *format, const char *field, const void *raw,
		     size_t size, int64_t *value);
/* All fields as text: name=value, separated by blanks. */
void ws_trace_text(const struct ws_trace_format *format, const void *raw, size_t size,
		   struct ws_text *out);
/* For tests: the format from the text of its file. */
struct ws_trace_format *ws_trace_parse(const char *text, size_t n);
void ws_trace_free(struct ws_trace_format *format);
/* Call `fn` with each name that `list` (subsystem/event,...; an event may be *) stands for. */
void ws_trace_expand(int folder, const char *list, void (*fn)(void *ctx, const char *name),
		     void *ctx);

/* ---- processes and threads (perf_tree.c) ---- */

struct ws_perf_image { /* a program image in a process, or what a fork made of one */
	struct ws_perf_image *next_waiting;
	uint32_t pid, parent, id; /* parent and id in the table process; id 0: not known yet */
	struct ws_sink *sink;	  /* set with id */
	uint64_t start;
	uint64_t waiting_since; /* time of its first record that waits; 0: none waits */
	uint64_t exec_time;	/* time of the exec that began it; 0: not seen */
	uint32_t threads;	/* living */
	uint32_t parent_pid;
	bool exec;	      /* it has called exec, or ran before we looked */
	bool outside;	      /* not of the target's tree */
	bool end_lost;	      /* it has ended, and the time of that is a guess */
	bool ran_already;     /* it ran before the recording, so its hooks were not awaited */
	bool asked, no_hooks; /* asked: its file was examined; no_hooks: hooks cannot be loaded into
				 it */
	bool target, own_row; /* own_row: perf made its row, because no hook did */
	struct ws_sink *parent_sink; /* the previous image in the same process; may be NULL */
	struct ws_proc *proc;	     /* the process that its hooks announced; held, see proc.h */
	const struct ws_maps_process
		*bound; /* the map whose mappings are written as this image's */
	char *exe;	/* first executable mapping after exec; may be NULL */
	char *args;	/* its command line, read soon after exec; may be NULL */
	size_t args_n;
	char comm[16];
	char *waiting; /* records that wait for the id, one after the other */
	size_t waiting_n, waiting_cap;
};

struct ws_perf_thread {
	struct ws_perf_image *image;
	uint32_t tid, id; /* id in the table thread; 0: not known yet */
	uint64_t start;
	uint64_t found; /* when it was found already running; 0: its beginning was seen */
	uint64_t on;	/* since when it runs; 0: it does not run, or that is unknown */
	uint32_t cpu;
	uint64_t off;	    /* since when it waits; 0: it does not wait, or that is unknown */
	bool looked;	    /* the kernel was asked in which call it waits */
	bool named;	    /* the kernel reported in which call it waits, when it left its core */
	uint64_t call_time; /* when the kernel last reported; 0: that report has been used */
	struct ws_wait_call call;
	bool seen;	/* it has been switched in or out since the collection began */
	bool renamed;	/* since the collection began */
	uint64_t woken; /* made runnable; 0 not known */
	uint32_t waker; /* thread id */
	uint32_t samples;
	/* Time not yet given to a sample: perf_time.c. */
	uint64_t ran;	/* ns before `since` */
	uint64_t since; /* the current span is counted up to here */
	uint64_t slack; /* ns that a sample may leave to the next one; 0: a part of its period */
	bool strayed;	/* records were lost in which it may have been switched in */
	size_t gaps;	/* number of gaps already taken into account */
	size_t pauses;	/* the same for pauses */
	uint64_t doubt; /* time of a record of its end after which it still existed; 0: none */
	uint64_t heard; /* time of its last record; 0: there was none yet */
	uint64_t dead; /* when it was found to have ended without a record of its end; 0: it was not
			*/
	bool sampled;
	uint32_t last_frame, last_callers; /* of its last sample */
	char comm[16];
};

struct ws_perf_gap {	   /* records of a core were lost */
	uint64_t from, to; /* times of the last record before and of the first one after */
	uint32_t cpu;
	uint64_t events; /* 0: not known */
};

#define WS_PERF_SPARSE 4 /* periods for which a sparse sample stands */

struct ws_perf_held { /* a sample that the thread took of itself, until perf's records reach it */
	uint32_t tid; /* as seen from here */
	struct ws_sink *sink;
	struct ws_row_sample row;
};

struct ws_perf {
	struct ws_perf_opts options;
	struct ws_drain *drain;
	struct ws_sink *main;
	pid_t target;
	struct ws_perf_set set;
	bool active, over; /* over: the collection has ended, nothing more is recorded */
	bool finishing;	   /* the session ends with the collection */
	bool combined;	   /* one event both samples and tracks */
	bool by_thread;	   /* the target's threads inherit the samples, whatever else is opened */
	int refused;	   /* the errno with which the kernel refused everything; 0: it did not */
	bool signals;	   /* hooks take the samples */
	int tracefs; /* while events are chosen: the folder of tracepoints, or -1 and the reason */
	char *no_tracefs;
	uint32_t python_frequency; /* of the event to which Python's program is attached */
	unsigned ftrace_left_out;  /* events of --ftrace beyond what is opened */
	bool shifted;		   /* the standby events have taken over */
	/* number of threads that ended soon after their start, since brief_since */
	unsigned brief_n;
	struct ws_syscalls *syscalls;	  /* NULL: system calls are not recorded */
	struct ws_wait_calls *wait_calls; /* NULL: the recorder looks at waiting threads */
	bool calls_on;			  /* some process has no hooks, so the program is needed */
	struct ws_closer *closer; /* closes events that a long pause needs not; NULL: all open */
	uint64_t brief_since;
	uint64_t from, to;	   /* of the collection; `to` is 0 while it goes on */
	uint64_t now;		   /* time of the current record */
	struct ws_perf_ring *ring; /* ring that it came from; NULL: it waited */
	struct ws_map threads;	   /* tid -> struct ws_perf_thread * */
	struct ws_map images;	   /* pid -> the struct ws_perf_image * that runs there now */
	struct ws_map strangers; /* tids of threads that have ended, or do not belong to the tree */
	struct ws_perf_image *waiting; /* those with records that wait */
	struct ws_perf_counter *counters;
	size_t counters_n, counters_cap;
	struct ws_perf_metric *metrics; /* perf_metrics.c */
	size_t metrics_n, metrics_cap;
	uint64_t last_count;
	uint64_t lost, throttled, dropped;
	struct ws_perf_gap *gaps; /* by their ends */
	size_t gaps_n, gaps_cap;
	struct ws_perf_spans pauses; /* in which switches were not recorded, to make them cheaper */
	uint64_t counted_from;	     /* since when switches are counted; 0: they are not */
	double switch_rate;	     /* switches a second of the busiest core at the last look */
	uint64_t resume;	     /* when to record switches again; 0: they are being recorded */
	uint64_t look_at;	     /* when to check what is left of the allowances */
	unsigned busy;		     /* looks in a row that found many switches */
	size_t gaps_checked; /* their number when threads were last checked for being alive */
	uint64_t checked;    /* when that was */
	bool doubts;	     /* some threads may be in doubt */
	/* Whether the thread is gone. NULL: do not ask */
	bool (*has_ended)(uint32_t pid, uint32_t tid);
	/* Whether the process has had time to announce itself. NULL: assume that it has */
	bool (*had_time)(uint32_t pid);
	/* as asked for; o.frequency is the one that the kernel allowed */
	uint32_t wanted_frequency;
	uint32_t limit;	    /* perf_event_max_sample_rate at the start; 0: not known */
	uint32_t timer_row; /* id in the table perf_event of the event that paces samples */
	bool timer_is_clock;
	uint64_t timer_ns; /* its period, when it is a clock */
	uint64_t ran,
		unsampled; /* ns that threads with samples ran; that threads without samples ran */
	uint64_t known_cycles, known_ns; /* the time that samples of a counter stood for */
	struct ws_perf_held *held;
	size_t held_n, held_cap, held_done; /* held_done: how many of them are written */
	bool held_mixed;		    /* not in the order of time */
	uint64_t samples, switches;
	size_t look_next;    /* where the search of waiting threads continues */
	uint64_t looks_paid; /* the time up to which looks at them have used their allowance */
	uint64_t idle_ns;    /* how long the recorder may sleep */
};

/* ---- which events are opened (perf_choose.c) ---- */

#define WS_PERF_MANY_CPUS 64 /* on more, events for each core of each thread cost too much */
size_t ws_perf_count_cpus(void);
/* Find out what is permitted: each CPU as a whole or the target's threads, with the kernel or
 * without. 0, or the errno of the last refusal. */
int ws_perf_find_scope(struct ws_perf *perf);
/* Fill perf->set.events by the options. */
void ws_perf_choose_events(struct ws_perf *perf);
void ws_perf_forget_events(struct ws_perf *perf);
/* Once they have been opened: say which tracepoints were refused. */
void ws_perf_say_tracepoints(struct ws_perf *perf);

/* ---- programs in the kernel (perf_programs.c) ---- */

/* Load those that the options ask for, before events are chosen. */
void ws_perf_open_programs(struct ws_perf *perf);
/* Attach them to the open events; what cannot be attached is closed. */
void ws_perf_attach_programs(struct ws_perf *perf);
/* They run on the events of the first process: attach them to those of the last one too. */
void ws_perf_attach_programs_to_last(struct ws_perf *perf);
/* Say that system calls are not recorded, and give up. */
void ws_perf_refuse_syscalls(struct ws_perf *perf, const char *why);

/* ---- what the report says about events (perf_describe.c) ---- */

void ws_perf_say(struct ws_perf *perf, enum ws_severity severity, const char *text);
void ws_perf_say_refused(struct ws_perf *perf);
void ws_perf_say_losses(struct ws_perf *perf);

/* ---- counters that are read (perf_count.c) ---- */

/* Open those of the list on every CPU; read all, together with the metrics, when it is time. */
void ws_perf_open_counters(struct ws_perf *perf, const char *list, bool core);
void ws_perf_count(struct ws_perf *perf, uint64_t now);

/* ---- following processes and threads (perf_tree.c) ---- */

void ws_perf_tree_init(struct ws_perf *perf);
/* Add a process that has not called exec yet, whose whole tree is recorded. */
void ws_perf_tree_add(struct ws_perf *perf, uint32_t pid);
void ws_perf_tree_free(struct ws_perf *perf);
/* The thread that a record is about: one of the recorded tree or, with `any`, any thread. NULL when
 * it is not recorded. */
struct ws_perf_thread *ws_perf_thread(struct ws_perf *perf, uint32_t pid, uint32_t tid,
				      uint64_t time, bool any);
void ws_perf_fork(struct ws_perf *perf, const struct ws_perf_rec *record);
void ws_perf_exec(struct ws_perf *perf, const struct ws_perf_rec *record);
void ws_perf_rename(struct ws_perf *perf, const struct ws_perf_rec *record);
/*
 * Whether a record of the thread's end at `time` does not mean an end. The kernel writes one when a
 * process gains rights by an exec (set-user-ID) and takes the inherited events from it. A process
 * that is in the last steps of a real end looks the same, so it is checked again
 * (ws_perf_find_ended).
 */
bool ws_perf_false_end(const struct ws_perf *perf, const struct ws_perf_thread *thread,
		       uint64_t time);
/* Call it when the thread has ended and its rows are written. */
void ws_perf_gone(struct ws_perf *perf, struct ws_perf_thread *thread, uint64_t time);
/* Find out the image's id; with `force`, make a row for it if need be. */
bool ws_perf_resolve(struct ws_perf *perf, struct ws_perf_image *im, bool force);
/* Keep a record until the image's id is known. */
void ws_perf_wait(struct ws_perf *perf, struct ws_perf_image *im, const void *rec, size_t size,
		  uint64_t time);
/* Id of the thread; makes its row. Its image is resolved. */
uint32_t ws_perf_thread_id(struct ws_perf *perf, struct ws_perf_thread *thread);
/* Give rows to images that have waited for long; with `all`, to every one. */
void ws_perf_settle_waiting(struct ws_perf *perf, uint64_t horizon, bool all);

/* ---- where code lies, and call stacks (perf_stack.c) ---- */

void ws_perf_found_maps(struct ws_perf *perf, struct ws_perf_image *im, uint64_t time);
void ws_perf_fork_maps(struct ws_perf *perf, struct ws_perf_image *parent, struct ws_perf_image *im,
		       uint64_t time);
void ws_perf_exec_maps(struct ws_perf *perf, struct ws_perf_image *im, uint64_t time);
void ws_perf_end_maps(struct ws_perf *perf, struct ws_perf_image *im, uint64_t time);
void ws_perf_mapped(struct ws_perf *perf, const struct ws_perf_rec *record);
/* Fill frame, callers and flags of the row from a sample of thread `t`, whose image is resolved.
 * `python`: its frames; may be NULL. */
struct ws_py_stack;
void ws_perf_stack(struct ws_perf *perf, struct ws_perf_thread *thread,
		   const struct ws_perf_event *ev, const struct ws_perf_rec *record,
		   const struct ws_py_stack *python, struct ws_row_sample *row);

/* ---- samples by CPU instead of by thread (perf.c) ---- */

/* Take samples on CPUs from now on, whatever runs there; false where that is impossible. */
bool ws_perf_shift(struct ws_perf *perf);
/* Have the program report in which calls threads wait: a process without hooks was found. */
void ws_perf_start_calls(struct ws_perf *perf);
/* Stop that program for good: it costs too much now. */
void ws_perf_stop_calls(struct ws_perf *perf);
/* The place of the first event of the role in the set; events_n when there is none. */
size_t ws_perf_find_role(const struct ws_perf_set *set, enum ws_perf_role role);
/* Note that a thread of the tree which started at `start` has ended. */
void ws_perf_lived(struct ws_perf *perf, uint64_t start, uint64_t end);

/* ---- making rows of records (perf_rows.c) ---- */

/* Handle one record; `again` when it comes from an image's waiting ones. */
void ws_perf_record(struct ws_perf *perf, const void *rec, size_t size, bool again);
/* The thread stops running at `time`: a row of `sched`. */
void ws_perf_off(struct ws_perf *perf, struct ws_perf_thread *thread, uint64_t time,
		 enum ws_sched_after after);

/* ---- lost records (perf_gaps.c) ---- */

/* Note that `n` records (0: not known how many) of the ring were lost after its last one and before
 * `time`. */
void ws_perf_add_gap(struct ws_perf *perf, const struct ws_perf_ring *ring, uint64_t time,
		     uint64_t events);
/* Take into account what was lost before `time`, at which the thread has a record or ends. */
void ws_perf_pass_gaps(struct ws_perf *perf, struct ws_perf_thread *thread, uint64_t time);
/* The thread does something at `time` that only a running thread can do. If its state is unknown, a
 * span begins just before. */
void ws_perf_appear(struct ws_perf *perf, struct ws_perf_thread *thread, uint64_t time,
		    uint32_t cpu);
/* The thread runs elsewhere at `time`, or has ended, and the record of its switch was lost: its
 * span ends at the last moment at which it is known to have run. */
void ws_perf_lose_track(struct ws_perf *perf, struct ws_perf_thread *thread, uint64_t time);
/* The thread has a record of its own, on another core than the one on which it was thought to run,
 * if its switches in between were lost. */
void ws_perf_meet_on(struct ws_perf *perf, struct ws_perf_thread *thread,
		     const struct ws_perf_rec *record);
/* Before a round: note buffers that have no room for a record. */
void ws_perf_note_full(struct ws_perf *perf);
/* After the last round, which ended at `time`: what was lost at the end of full buffers. */
void ws_perf_add_last_gaps(struct ws_perf *perf, uint64_t time);
/* After a round that read records up to `horizon`: find threads that are gone and whose end was
 * lost or in doubt. With `all`, check every thread now, because no further round follows. */
void ws_perf_find_ended(struct ws_perf *perf, uint64_t horizon, bool all);
/* The assumed end of a thread whose end was lost: in the first gap after its last record, as far as
 * known, and at `time` at the latest. */
uint64_t ws_perf_guess_end(const struct ws_perf *perf, const struct ws_perf_thread *thread,
			   uint64_t time);
/* Write the gaps to a report that does not have them yet. */
void ws_perf_put_gaps(struct ws_perf *perf, struct ws_sink *sink);
bool ws_perf_has_ended(uint32_t pid, uint32_t tid);

/* ---- spans of time (perf_pause.c) ---- */

void ws_perf_begin_span(struct ws_perf_spans *spans, uint64_t time);
/* Nothing is done where none lasts. */
void ws_perf_end_span(struct ws_perf_spans *spans, uint64_t time);
bool ws_perf_span_lasts(const struct ws_perf_spans *spans);
/* Whether `time` is in one of them. Cheap where it is recent. */
bool ws_perf_is_in_span(const struct ws_perf_spans *spans, uint64_t time);
/* Their length up to `to`. */
uint64_t ws_perf_sum_spans(const struct ws_perf_spans *spans, uint64_t to);

/* ---- switches that come too fast (perf_pause.c) ---- */

/* Count what was recorded. When threads switch so often that recording it would slow them down,
 * record only a part of the time. `now`: ws_read_raw_ns. */
void ws_perf_pace_switches(struct ws_perf *perf, uint64_t now);
/* For how long the recorder may sleep until it should count again, in nanoseconds. */
uint64_t ws_perf_time_to_look(const struct ws_perf *perf, uint64_t now);
/* Note that switches are not recorded from `time` on, or are again. */
void ws_perf_pause_switches(struct ws_perf *perf, uint64_t time);
void ws_perf_resume_switches(struct ws_perf *perf, uint64_t time);
/* Have the kernel record switches again. */
void ws_perf_end_pause(struct ws_perf *perf);
/* Whether switches were not recorded at `time`. */
bool ws_perf_is_paused(const struct ws_perf *perf, uint64_t time);
/* Take into account pauses that began before `time`, at which the thread has a record or ends. */
void ws_perf_pass_pauses(struct ws_perf *perf, struct ws_perf_thread *thread, uint64_t time);
/* Write the pauses, as gaps of every core, into a report that does not have them yet. */
void ws_perf_put_pauses(struct ws_perf *perf, struct ws_sink *sink);
/* At the end: report for how long switches were not recorded. */
void ws_perf_say_pauses(struct ws_perf *perf);

/* ---- cores with fewer samples (perf_sparse.c) ---- */

/* Samples of the ring's core are to be sparse up to the raw time `until`. Changes nothing before
 * the next ws_perf_pace_samples. */
void ws_perf_want_sparse(struct ws_perf *perf, struct ws_perf_ring *ring, uint64_t until);
/* Threads switch `rate` times a second on the ring's core. `now`: ws_read_raw_ns, here and below.
 */
void ws_perf_note_rate(struct ws_perf *perf, struct ws_perf_ring *ring, double rate, uint64_t now);
/* Forget all about sparse samples: a collection ends, and others may follow. */
void ws_perf_take_all_samples(struct ws_perf *perf, uint64_t now);
/* Periods of the clock for which a sample of the core at `time` stands. */
unsigned ws_perf_count_periods(struct ws_perf *perf, uint32_t cpu, uint64_t time);
/* At the end: report for how long samples were sparse. */
void ws_perf_say_sparse(struct ws_perf *perf);

/* ---- how many samples a second the kernel allows (perf_rate.c) ---- */

/* Change o.frequency to one that the kernel accepts, and say so. */
void ws_perf_limit_frequency(struct ws_perf *perf);
/* At the end: report changes of the frequency, and threads without any sample. */
void ws_perf_say_rate(struct ws_perf *perf);

/* ---- how much time a sample stands for (perf_time.c) ---- */

/* If the thread runs, count its time up to `time`, for sums only. */
void ws_perf_ran(const struct ws_perf *perf, struct ws_perf_thread *thread, uint64_t until);
/* A thread of which no switch was seen yet does something that only a running thread can do: it has
 * run since the collection began. */
void ws_perf_must_run(const struct ws_perf *perf, struct ws_perf_thread *thread, uint32_t cpu);
/*
 * Nanoseconds that a sample at `time` stands for: what the thread has run since the previous one.
 * `period_ns`: what the event alone would say; 0 when it says nothing.
 */
uint64_t ws_perf_time_of(struct ws_perf *perf, struct ws_perf_thread *thread, uint64_t time,
			 uint32_t cpu, uint64_t period_ns);
void ws_perf_note_sample(struct ws_perf_thread *thread, const struct ws_row_sample *row);
/* When the thread or the collection ends: a row for what it ran since its last sample. */
void ws_perf_settle_time(struct ws_perf *perf, struct ws_perf_thread *thread);
/* Before a round reads records up to `horizon`: a thread with samples of its own has hooks, so
 * perf's records about it need not wait any longer. */
void ws_perf_expect_held(struct ws_perf *perf, uint64_t horizon);
/* Write the samples of ws_perf_hold_sample up to that time. */
void ws_perf_put_held(struct ws_perf *perf, uint64_t until);

/* ---- what threads wait in (perf_waits.c) ---- */

/* Note that the kernel reported at `time` in which call the thread is about to leave its core. */
void ws_perf_note_call(struct ws_perf_thread *thread, const struct ws_wait_call *call,
		       uint64_t time);
/* The thread left its core at `time` to wait: write in which call, if that is known. */
void ws_perf_put_call(struct ws_perf *perf, struct ws_perf_thread *thread, uint64_t time);
/* Ask the kernel about some threads that have waited for long, once for each wait. */
void ws_perf_look_at_waits(struct ws_perf *perf, uint64_t now);

/* Metrics computed from events (perf_metrics.c): open those of the list on every CPU, read what was
 * counted since the last time, close them. */
void ws_perf_open_metrics(struct ws_perf *perf, const char *list);
void ws_perf_read_metrics(struct ws_perf *perf);
void ws_perf_close_metrics(struct ws_perf *perf);

#endif
