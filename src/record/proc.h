/* proc.h - what drain.c and from_process.c know about a process; private to record/. */
#ifndef WS_RECORD_PROC_H
#define WS_RECORD_PROC_H

#include <stddef.h>

#include "base/map.h"
#include "record/drain.h"
#include "record/chunks.h"

struct ws_started { /* a process that another one said it started, until it registers */
	int pid;
	uint64_t time;	      /* session ns, before the start */
	char *path;	      /* NULL for a fork */
	struct ws_sink *sink; /* the process that started it: its id there and its pid namespace */
	uint32_t by;
	uint64_t pid_ns;
	uid_t user;
	bool said;     /* it was reported that nothing was recorded in it */
	bool shut_out; /* it cannot read our files, so it was started without hooks */
	bool tight;    /* the same, because its address space is limited so much */
};

struct ws_thread_entry {
	uint32_t tid, id;
	bool ended;
	uint64_t start, end; /* session ns */
};
#define WS_THREADS_GONE                                                                            \
	256 /* how many ended threads of a process are kept, at least, because records of them may \
	       still come */

struct ws_proc {
	struct ws_proc *next;
	struct ws_drain *drain;
	struct ws_sink *sink;
	struct ws_process_home *home; /* NULL once settled; only its atomics are read */
	uint32_t home_chunk, origin;
	uint32_t strings; /* its last claimed chunk of strings; chunks has the others */
	uint64_t start_ticks;
	uint32_t id, pid;
	uint64_t pid_ns;
	/* its pid as seen from here; -1: it was gone when that was asked; 0: unknown */
	int host_pid;
	int pidfd; /* -1: gone already, unknown, or no descriptor was available: then we check now
		      and then whether it has ended */
	bool ending, settled, target;
	bool ranked; /* its row of rank is written */
	/* it had ended before the directory was last read, so all its rings are known */
	bool complete;
	enum ws_process_end_reason reason;
	/* when it ended, session ns, where that is known better than by our noticing it; else 0 */
	uint64_t ended;
	int32_t status;
	uint32_t rings;
	struct ws_thread_entry *threads;
	size_t threads_n, threads_cap;
	struct ws_map thread_index; /* tid -> index + 1 of the one that has not ended */
	struct ws_thread_entry
		*gone; /* ended threads, in a ring of gone_cap; NULL until one has ended */
	size_t gone_n, gone_cap;
	/* perf still needs its threads: they are kept, and it is not freed */
	bool held;
	bool forgotten; /* it would have been freed if it were not held */
	char *exe, *cmdline;
	void *slot[WS_SLOTS];
	void (*slot_free[WS_SLOTS])(void *);
};

/* One ring. The stream comes first: converters get a pointer to it. */
struct ws_ring_state {
	struct ws_stream stream;
	struct ws_ring *ring; /* only its atomics are read, and the open ranges and calls */
	uint32_t home, slot, nest;
	uint64_t start;		/* ticks */
	uint32_t chunk, offset; /* read so far */
	uint32_t snap_chunk, snap_used;
	bool ending, broken;
	bool cut;	/* the next chunk is unavailable: nothing more is read from this ring */
	uint64_t bunch; /* start of its bunch of library calls, ticks */
	uint64_t bunch_seen;	      /* when that was first seen, raw ns */
	uint64_t lost[WS_LOSS_KINDS]; /* by the thread's own count, as far as reported */
	uint64_t damaged;	      /* places where its records could not be read */
	/* Local texts: number -> string id, open addressing, size a power of two. */
	uint32_t *text_number, *text_id;
	uint32_t text_cap, text_n;
	char *piece; /* bytes of a text that comes in several records */
	uint32_t piece_number;
	size_t piece_len, piece_cap;
};

/* The end of a settled process, kept until perf's records have passed it: they may say more exactly
 * when and why it ended. */
struct ws_proc_end {
	struct ws_sink *sink;
	struct ws_row_process_end row;
};
#define WS_ENDS_MOST 4096 /* that wait */

#define GONE_BUCKETS 4096
/* ends remembered; the oldest are forgotten, or a million short processes would fill memory */
#define GONE_MOST 16384
struct ws_drain {
	struct ws_area *area;
	struct ws_arena *arena;
	struct ws_clock *clock;
	struct ws_drain_ops ops;
	int epoll;
	pid_t target;
	struct ws_proc *procs; /* live ones, newest first */
	/* settled processes, by pid: short notes of parents and children */
	struct ws_proc *gone[GONE_BUCKETS];
	struct ws_proc *gone_order[GONE_MOST]; /* the same in the order of their ends: a ring that
						  begins at gone_n */
	size_t gone_n;
	struct ws_proc_end *ends; /* in the order in which they were noticed */
	size_t ends_n, ends_cap;
	struct ws_chunks chunks;
	uint32_t parents; /* how many homes are being registered, each as the parent of the next */
	uint32_t **string_ids; /* chunk -> report string ids of the strings that begin in it, by
				  offset / 8 */
	struct ws_ring_state *slot[WS_DIR_SLOTS];
	uint32_t slots_used;
	uint32_t registered;
	uint32_t dropped_ranges; /* capture ranges that processes had open when they ended */
	struct ws_window window; /* see ws_drain_collect */
	bool collecting;
	bool over; /* nothing more will be collected: programs are started without hooks */
	uint64_t last_commit; /* raw ns */
	uint64_t last_asked;  /* when processes without a pidfd were last checked, session ns */
	bool open_done;	      /* the collection is over, and what was open then has its rows */
	struct ws_started *started;
	size_t started_n, started_cap;
	bool foreign;	      /* a process of another pid namespace was seen */
	struct ws_perf *perf; /* NULL when the kernel's events are not followed */
	/* threads that ended before this (session ns) are not needed any more */
	uint64_t keep_from;
	struct ws_python *python;  /* NULL when Python is not recorded */
	struct ws_map looked_into; /* hashes of paths: library_absent.c */
	/* Copies of what is being converted: records must not change between check and use. */
	_Alignas(16) char chunk[WS_CHUNK_SIZE + 64];
	char text[2][WS_CHUNK_SIZE]; /* see ws_stream_string_bytes */
	unsigned text_turn;
};

/* A copy of the numbers in a process's home and the texts after them. */
union ws_home_copy {
	struct ws_process_home home;
	char bytes[WS_CHUNK_SIZE];
};
#define WS_HOME_TEXT_ROOM (WS_CHUNK_SIZE - offsetof(struct ws_process_home, text))

/* The process whose home is `chunk`, registering it when it is new; NULL when the chunk holds none
 * yet. */
struct ws_proc *ws_drain_process(struct ws_drain *drain, uint32_t chunk);
/* Note the chunks in which the process has defined strings as its own. */
void ws_proc_claim_strings(struct ws_proc *process);
/* Mark the processes that have ended. */
void ws_drain_poll_ends(struct ws_drain *drain);
/* Make a stream for the process that belongs to no ring, for rows that are written at the end of
 * the process or of a collection. */
struct ws_stream ws_drain_make_stream(const struct ws_drain *drain, struct ws_proc *process);
/* Write the end of a process whose rings are settled. `memory_too` gives its chunks back: only when
 * it can no longer write to them. */
void ws_drain_settle_process(struct ws_drain *drain, struct ws_proc *process, bool memory_too);
/* Write the ends to which perf has nothing to add, or all. */
void ws_drain_write_ends(struct ws_drain *drain, bool all);
/* Note that perf has seen the image end at `time` (session ns), settled or not: an exec has
 * replaced it, or the process has ended. */
void ws_proc_ended(struct ws_proc *process, uint64_t time, enum ws_process_end_reason reason);
void ws_proc_thread_ended(struct ws_proc *process, uint32_t id);
/* Note a thread that already has a row. */
void ws_proc_thread_known(struct ws_proc *process, uint32_t tid, uint32_t id, uint64_t start_ns);
/*
 * The image that was the first to begin in [from, to] (session ns) in the process `host_pid` as
 * seen from here; NULL for none. Set `held` to keep it.
 */
struct ws_proc *ws_drain_find(struct ws_drain *drain, int host_pid, uint64_t from, uint64_t to);
/* Free a process that is settled and in no list; one that is held is freed when it is released. */
void ws_proc_free(struct ws_proc *process);
/* End the hold on the process. */
void ws_proc_release(struct ws_proc *process);
/* NUL-separated arguments as one line that a shell would split again, with secrets in them `masked`
 * (text/mask.h). The caller frees it. */
char *ws_proc_arguments(const char *args, size_t len, bool masked);
/* The thread table's id for `tid`; makes its row when it is new. */
uint32_t ws_proc_thread(struct ws_proc *process, uint32_t tid, uint64_t start_ns);
/* The same for a record that comes late: the thread that had `tid` at `time`, though it may have
 * ended since. */
uint32_t ws_proc_thread_at(struct ws_proc *process, uint32_t tid, uint64_t time);
/* Whether the process, as seen from here, has got so far that its hooks must have answered. False
 * for one that has gone: its records are still to be read. */
bool ws_proc_had_time(uint32_t pid);
/*
 * Note that process `by` started another: pid, time, path (whose ownership passes) and shut_out of
 * `started` are filled in. Reported later if it never registers.
 */
void ws_drain_note_started(struct ws_drain *drain, const struct ws_proc *by,
			   struct ws_started started);
/* Remove the note: the process registered, or the exec failed. */
void ws_drain_forget_started(struct ws_drain *drain, int pid);
/* Report why images that were started never registered; young ones are kept unless `all`. */
void ws_drain_check_started(struct ws_drain *drain, bool all);
/* One sentence on why the file at `path` cannot be recorded when `user` runs it, or NULL when it
 * looks recordable. In image.c. */
const char *ws_image_problem(const char *path, uid_t user, char *buf, size_t size);
/* The user who owns the process, whatever the rights of the program that it executes; our own user
 * when the process is gone. */
uid_t ws_image_user(int pid);

#endif
