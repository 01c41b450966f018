/*
 * sink.h - one report being written: its writer, the numbers of its processes and threads, what it
 * has already said.
 *
 * Usually a session has one; %q{VAR} in the name with different values in different processes makes
 * several.
 */
#ifndef WS_RECORD_SINK_H
#define WS_RECORD_SINK_H

#include "record/clock.h"
#include "store/store.h"

#define WS_SINK_WARNINGS 4
#define WS_SINK_TABLES 256u /* of libraries, at most */

/* How often and how long the machine's limits held the program back so far: limits.h. */
struct ws_throttling {
	char group[512]; /* folder of the control group that has a quota; "" for none */
	uint64_t us, periods, heat;
};

struct ws_sink {
	struct ws_sink *next;
	char *next_path; /* of the snapshot of a flight recorder that is being written */
	char *path;	 /* NULL while no report is wanted (ws_writer_is_unnamed) */
	struct ws_writer *writer;
	struct ws_watch *watch; /* for triggers; NULL: there are none */
	struct ws_stage *stage[WS_TABLE_COUNT];
	struct ws_clock *clock;
	uint32_t processes, threads; /* ids given so far */
	uint32_t kernel_results;     /* the same */
	uint32_t tracks;	     /* the same */
	uint64_t events;	     /* records converted */
	bool keep_command_lines;     /* with the passwords that may be in them */
	bool python_described;	     /* the row of perf_event for samples by signal is written */
	bool cuda_seen;		     /* the facts about CUPTI are written */
	bool nccl_seen; /* NCCL has told its plug-in something, or it was said why not */
	/* Calls of these were recorded by NVTX: bits by place in ws_nvtx_libraries. */
	uint32_t announced;
	bool openmp_seen, openacc_seen; /* events were recorded, or it was said why not */
	uint64_t libraries_seen;	/* calls of them were recorded, or it was said why not */
	uint64_t library_tables[WS_SINK_TABLES / 64]; /* a bit each: its columns are described */
	uint64_t *said;				      /* hashes of diagnostics: each is said once */
	size_t said_n, said_cap;
	char *warnings[WS_SINK_WARNINGS]; /* the first ones, to be repeated at the end of the run */
	uint64_t warning_count;
	uint64_t lost;		  /* events counted in the loss table */
	uint64_t stacks_left_out; /* of calls of the OS runtime that came in numbers */
	uint64_t yields_left_out; /* calls of sched_yield that came in numbers */
	uint64_t wakes_left_out;  /* the same of pthread_cond_signal and pthread_cond_broadcast */
	bool perf_described;	  /* the facts about sampling are written */
	size_t gaps;		  /* so many rows of sched_gap are written */
	size_t pauses;		  /* and of those that pauses make */
	char *env; /* variables of the process that the report's name is made with; NULL: the
		      target's */
	size_t env_len;
	char *key;		/* what the template makes of them: the name of the first report */
	unsigned number;	/* of the report among those of this sink, from 1 */
	bool flight;		/* the writer is a flight recorder's */
	bool own;		/* between ws_sink_begin_own and the next report */
	size_t said_before_own; /* of `said`: what later reports have too */
	/* ids of counter, by the number of the metric; 0: none yet */
	struct ws_metric_ids {
		uint32_t *ids;
		size_t capacity;
	} metric_ids, gpu_metric_ids;
	uint32_t counters;		 /* ids given so far */
	uint32_t frames_looked_at;	 /* by ws_code_look_at_frames */
	uint32_t frames_named;		 /* so many frames have been looked up */
	struct ws_row_nvtx *definitions; /* of domains, categories, threads: each report has them */
	size_t definition_n, definition_cap;
	struct ws_throttling throttling; /* how things stood when the report began */
	struct ws_kernel_code *code;	 /* of measured kernels: kernel_code.h; NULL: not kept */
	struct ws_stackset *stacks;	 /* call stacks: stacks.h; NULL until there are any */
};

/* Take over `writer`; never fails. */
struct ws_sink *ws_sink_new(char *path, struct ws_writer *writer, struct ws_clock *clock);
uint32_t ws_sink_string(struct ws_sink *sink, const char *text);
void ws_sink_meta(struct ws_sink *sink, const char *name, const char *fmt, ...) WS_PRINTF(3, 4);
/* False when exactly this was said about this process before. */
bool ws_sink_diagnostic(struct ws_sink *sink, enum ws_severity severity, const char *source,
			uint32_t process, uint64_t time, const char *text);
void ws_sink_clock(struct ws_sink *sink, const struct ws_reading *reading);
void ws_sink_loss(struct ws_sink *sink, uint32_t thread, const char *kind, uint64_t events,
		  const char *reason);
/* A definition made through NVTX, which every later report is to have too. False when there are too
 * many. */
bool ws_sink_keep_definition(struct ws_sink *sink, const struct ws_row_nvtx *row);
/* What is written from here on is said of this report alone (ws_writer_begin_own). */
void ws_sink_begin_own(struct ws_sink *sink);
/* The writer has gone on to another report, with what lasts: add what else that is to have, and
 * begin its counts anew. `path` (owned by the sink from now on) is NULL while there is none. */
void ws_sink_next_report(struct ws_sink *sink, char *path);
/* A snapshot is being made of a flight recorder: the writer has left it, into the report `path`
 * (owned by the sink from now on). */
void ws_sink_leave_flight(struct ws_sink *sink, char *path);
/* For struct ws_flight_opts: definitions are kept. */
void ws_sink_hold_strings(const struct ws_sink *sink);
/* Free what is not the writer. */
void ws_sink_free(struct ws_sink *sink);
/* Close the writer (its message on failure) and free. */
int ws_sink_close(struct ws_sink *sink, struct ws_err *err);

#endif
