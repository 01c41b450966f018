/*
 * into.h - the report that an import writes, and what all importers share: processes, threads,
 * tracks and counters by the other tool's names for them, and the notes on what could not be taken
 * over.
 *
 * Several files become one report: each has its own processes, whatever their pids. A process's or
 * thread's row is written when its file has been read, since traces name things at their end.
 */
#ifndef WS_IMPORT_INTO_H
#define WS_IMPORT_INTO_H

#include "base/map.h"
#include "base/mem.h"
#include "store/store.h"

/* Of each: no sane trace has more, and what a hostile one may cost is bounded. */
enum { WS_INTO_MOST = 1 << 20 };

struct ws_into_process {
	uint32_t pid, vm, parent, ppid;
	uint32_t name, exe, cmdline; /* strings */
	uint64_t start;
	uint8_t origin;
	bool told; /* the file told its start: threads do not make it earlier */
};

struct ws_into_thread {
	uint32_t process, tid, name; /* name: string */
	int32_t priority;
	uint64_t start;
};

/* A kind of thing that was left out, and how often. */
struct ws_into_note {
	char *text;
	uint64_t count;
};

struct ws_into {
	struct ws_writer *writer;
	struct ws_stage *stage[WS_TABLE_COUNT];
	struct ws_into_process *processes; /* id - 1 */
	struct ws_into_thread *threads;
	size_t process_count, process_cap, thread_count, thread_cap, written_processes,
		written_threads;
	struct ws_map process_ids, thread_ids, track_ids, counter_ids; /* of this file */
	uint32_t tracks, counters;				       /* so far, in all files */
	/* code, of all files: (symbol, module, address) -> frame; (parent, frame) -> stack; path ->
	 * module */
	struct ws_map frames, stacks, modules;
	struct ws_row_stack *stack; /* by id - 1 */
	size_t stack_cap;
	uint32_t frame_count, stack_count, module_count;
	struct ws_map events; /* name of a counter that was sampled (string) -> id of perf_event */
	struct ws_map met;    /* of the first file: collective -> when it ended */
	struct ws_into_note *notes;
	size_t note_count, note_cap;
	uint64_t first, last; /* times met in all files; first UINT64_MAX when none */
	uint64_t file_first;  /* and in this one */
	bool collected;	      /* a file said when it was recorded: `collection` has rows */
	struct ws_map clocks; /* process of a PyTorch trace -> the time here that its own clock
				 counts from */
	uint64_t rows;	      /* added */
	/* of the file in hand */
	const char *path;
	uint32_t file; /* its number, from 0 */
	uint32_t file_count;
	bool shuffled; /* halves of slices are not in order of time: they are sorted before they are
			  joined */
	struct ws_map least;   /* file -> its earliest time, where that is not its first event's */
	bool again;	       /* one of these turned out so: all is imported anew */
	uint32_t told;	       /* of files before this, messages have been shown already */
	bool full;	       /* a bound was reached: stop */
	struct ws_err problem; /* why */
	bool quiet, progress;
	uint64_t shown; /* when progress was last shown, ns */
};

/* A place for a row of table `t`, zeroed. */
void *ws_into_row(struct ws_into *into, enum ws_table table);

static inline uint32_t ws_into_string(struct ws_into *into, const char *text, size_t n)
{
	return text ? ws_writer_string(into->writer, text, n) : 0;
}
uint32_t ws_into_text(struct ws_into *into, const char *text);

/* Take note of a time that something began or ended at. */
static inline void ws_into_time(struct ws_into *into, uint64_t t)
{
	if (t < into->file_first)
		into->file_first = t;
	if (t < into->first)
		into->first = t;
	if (t > into->last)
		into->last = t;
}

/* id of the process that the file calls `key`, made with this pid when it is new. */
uint32_t ws_into_process(struct ws_into *into, uint64_t key, uint32_t pid);
struct ws_into_process *ws_into_process_of(struct ws_into *into, uint32_t id);
/* id of the thread `tid` of a process (an id). `start` is when it was met. */
uint32_t ws_into_thread(struct ws_into *into, uint32_t process, uint64_t tid, uint64_t start);
struct ws_into_thread *ws_into_thread_of(struct ws_into *into, uint32_t id);
/* Name a thread; a higher priority wins. */
void ws_into_name_thread(struct ws_into *into, uint32_t thread, const char *name, size_t n,
			 int32_t priority);
/* id of a track by its name below `parent` (an id or 0), of a process and thread (or 0). */
uint32_t ws_into_track(struct ws_into *into, uint32_t parent, uint32_t process, uint32_t thread,
		       const char *name, size_t n);
/* id of a counter; device WS_NO_U32 for none. */
uint32_t ws_into_counter(struct ws_into *into, uint32_t process, uint32_t thread, uint32_t device,
			 const char *group, size_t group_n, const char *name, size_t n,
			 const char *unit, const char *identity);

/*
 * id of a frame: a function (string) of a module (string of its path, or 0) at an address, with a
 * symbol; of a stack: that frame called from `parent` (an id or 0). Equal ones are one.
 */
uint32_t ws_into_frame(struct ws_into *into, uint32_t symbol, uint32_t module, uint64_t address,
		       bool kernel, uint8_t method);
uint32_t ws_into_stack(struct ws_into *into, uint32_t parent, uint32_t frame);
/* id of what fired for a sample, by its name (string); 0 when there are too many. */
uint32_t ws_into_event(struct ws_into *into, uint32_t name);

/*
 * Note that something could not be taken over. Equal texts are counted together; at the end of a
 * file each is a row of `diagnostic` and, unless `quiet`, a line on standard error.
 */
void ws_into_note(struct ws_into *into, const char *fmt, ...) WS_PRINTF(2, 3);
void ws_into_note_n(struct ws_into *into, uint64_t count, const char *fmt, ...) WS_PRINTF(3, 4);
/* Tell how something was taken over: a row of `diagnostic` of no severity and, unless `quiet`, a
 * line on standard error. */
void ws_into_tell(struct ws_into *into, const char *fmt, ...) WS_PRINTF(2, 3);
/* A fact about the session. */
void ws_into_meta(struct ws_into *into, const char *name, const char *value, size_t n);

/* Stop with a message (printf style); always returns -1. */
int ws_into_stop(struct ws_into *into, const char *fmt, ...) WS_PRINTF(2, 3);

/* Show how far it is, at most a few times a second, on a terminal. */
void ws_into_progress(struct ws_into *into, uint64_t done, uint64_t all);

/* Begin and end a file. The end writes its processes, threads and notes. */
void ws_into_file_begin(struct ws_into *into, const char *path);
void ws_into_file_end(struct ws_into *into);
void ws_into_free(struct ws_into *into);

#endif
