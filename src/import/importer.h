/*
 * importer.h - a running import: the report that it writes, and what the importers of all formats
 * share. These are processes, threads, tracks and counters, found by the other tool's names, and
 * notes on what could not be imported.
 *
 * Several files become one report: each has its own processes, whatever their pids. The rows of
 * processes and threads are written once their file has been read, since traces name things at
 * their end.
 */
#ifndef WS_IMPORT_IMPORTER_H
#define WS_IMPORT_IMPORTER_H

#include "base/choose.h"
#include "base/map.h"
#include "base/mem.h"
#include "store/store.h"

/* A limit on everything that is kept in memory: no sane trace has more, and it bounds the cost of a
 * hostile one. */
enum { WS_IMPORT_LIMIT = 1 << 20 };

struct ws_import_process {
	uint32_t pid, vm, parent, ppid;
	uint32_t name, exe, cmdline; /* strings */
	uint64_t start;
	uint8_t origin;
	bool start_known; /* the file says when it started: its threads do not make it earlier */
};

struct ws_import_thread {
	uint32_t process, tid;
	uint32_t name; /* string */
	int32_t priority;
	uint64_t start;
};

/* A mangled name among the report's strings, and its demangled forms once they were asked for. */
struct ws_import_mangled {
	char *text;
	uint32_t full, own; /* strings; 0: not yet */
};

/* Something that was left out, and how often. */
struct ws_import_note {
	char *text;
	uint64_t count;
};

struct ws_importer {
	struct ws_writer *writer;
	struct ws_stage *stages[WS_TABLE_COUNT];
	struct ws_import_process *processes; /* id - 1 */
	struct ws_import_thread *threads;
	size_t process_count, process_cap, thread_count, thread_cap;
	size_t written_processes, written_threads;
	struct ws_map process_ids, thread_ids, track_ids, counter_ids; /* of this file */
	uint32_t track_count, counter_count;			       /* number in all files */
	/* Code in all files: (symbol, module, address) -> frame; (parent, frame) -> stack; path ->
	 * module. */
	struct ws_map frames, stacks, modules;
	struct ws_row_stack *stack_rows; /* id - 1 */
	size_t stack_cap;
	uint32_t frame_count, stack_count, module_count;
	/* Mangled names of functions: string -> number in `mangled`, from 1. */
	struct ws_map mangled_names;
	struct ws_import_mangled *mangled;
	size_t mangled_count, mangled_cap;
	uint32_t kernel_results; /* measured kernels in all files */
	struct ws_map events;	 /* name of a sampled counter (string) -> id of perf_event */
	struct ws_map first_collectives; /* collective of the first file -> when it ended */
	struct ws_import_note *notes;
	size_t note_count, note_cap;
	uint64_t earliest,
		latest; /* earliest and latest time in all files; UINT64_MAX and 0 when none */
	uint64_t file_earliest; /* earliest time in this file; UINT64_MAX when none */
	bool has_collection;	/* a file gives its time of recording: `collection` has rows */
	struct ws_map clocks;	/* process of a PyTorch trace -> session time that its clock counts
				   from */
	uint64_t rows;		/* number added */
	/* The file being read. */
	const char *path;
	uint32_t file; /* its number, from 0 */
	uint32_t file_count;
	bool halves_shuffled; /* halves of slices are not in time order: sort them before joining
				 them */
	struct ws_map
		early_times; /* file -> its earliest time, where that is not its first event's */
	bool import_again;   /* one of these was found while reading: import all files again */
	uint32_t reported_files; /* messages about the files before this one were shown already */
	bool stopped;		 /* a limit was reached: stop */
	struct ws_err problem;	 /* why it stopped */
	bool quiet, progress;	 /* print no messages; show the progress */
	uint64_t progress_shown; /* when the progress was last shown, ns */
};

/* Add a zeroed row to `table`, for the caller to fill before the next row is added to it. */
void *ws_importer_add_row(struct ws_importer *importer, enum ws_table table);

/* Keep the text of a string that looks like a mangled name, for ws_importer_demangle. */
void ws_importer_note_mangled(struct ws_importer *importer, uint32_t id, const char *text,
			      size_t n);

/* Strings of the report, by length or NUL-terminated; NULL is 0. */
static inline uint32_t ws_importer_add_string(struct ws_importer *importer, const char *text,
					      size_t n)
{
	uint32_t id;

	if (!text)
		return 0;
	id = ws_writer_string(importer->writer, text, n);
	/* The prefixes of C++, Rust and D. */
	if (ws_unlikely(n > 2 && text[0] == '_' &&
			(text[1] == 'Z' || text[1] == 'R' || text[1] == 'D')))
		ws_importer_note_mangled(importer, id, text, n);
	return id;
}
uint32_t ws_importer_add_text(struct ws_importer *importer, const char *text);

/*
 * The string of a function's name as people read it: with its arguments, or the function's own
 * name alone. The string itself where it is not mangled. For strings that
 * ws_importer_add_string made.
 */
uint32_t ws_importer_demangle(struct ws_importer *importer, uint32_t name);
uint32_t ws_importer_demangle_short(struct ws_importer *importer, uint32_t name);
/* The mangled name of a string that ws_importer_demangle changes; NULL of any other. */
const char *ws_importer_get_mangled(struct ws_importer *importer, uint32_t name);
/* Demangle the names of a kernel, whose mangled name is kept in the column for it. */
void ws_importer_demangle_kernel(struct ws_importer *importer, struct ws_row_cuda_kernel *kernel);

/* Widen the report's time span to include `time`, when something began or ended. */
static inline void ws_importer_include_time(struct ws_importer *importer, uint64_t time)
{
	importer->file_earliest = ws_min(importer->file_earliest, time);
	importer->earliest = ws_min(importer->earliest, time);
	importer->latest = ws_max(importer->latest, time);
}

/* The earliest time in the file so far; 0 when it has none. */
static inline uint64_t ws_importer_get_file_start(const struct ws_importer *importer)
{
	return importer->file_earliest == UINT64_MAX ? 0 : importer->file_earliest;
}

/* id of the process that the file calls `key`; a new one gets this pid. */
uint32_t ws_importer_intern_process(struct ws_importer *importer, uint64_t key, uint32_t pid);
/* The process or thread with an id; valid until the next one is made. */
struct ws_import_process *ws_importer_get_process(struct ws_importer *importer, uint32_t id);
struct ws_import_thread *ws_importer_get_thread(struct ws_importer *importer, uint32_t id);
/* id of the thread `tid` of a process (an id). `start` is a time at which it existed, WS_NO_TIME if
 * none is known; the earliest counts as its start. */
uint32_t ws_importer_intern_thread(struct ws_importer *importer, uint32_t process, uint64_t tid,
				   uint64_t start);
/* Name a thread; the name with the highest priority wins. */
void ws_importer_name_thread(struct ws_importer *importer, uint32_t thread, const char *name,
			     size_t n, int32_t priority);
/* id of the track called `name` below `parent` (an id or 0), of a process and a thread (ids or
 * 0). */
uint32_t ws_importer_intern_track(struct ws_importer *importer, uint32_t parent, uint32_t process,
				  uint32_t thread, const char *name, size_t n);
/* What identifies a counter: process and thread are ids or 0, device is WS_NO_U32 for none; unit
 * and identity may be NULL. */
struct ws_import_counter {
	uint32_t process, thread, device;
	const char *group, *name;
	size_t group_length, name_length;
	const char *unit, *identity;
};

/* id of a counter; those with the same process, thread, device, group and name are one. */
uint32_t ws_importer_intern_counter(struct ws_importer *importer,
				    const struct ws_import_counter *counter);

/*
 * id of a frame, which is a function (string) of a module (string of its path, or 0) at an address,
 * and of a stack, which is a frame called from `parent` (an id or 0). Equal frames or stacks share
 * an id.
 */
uint32_t ws_importer_intern_frame(struct ws_importer *importer, uint32_t symbol, uint32_t module,
				  uint64_t address, bool kernel, uint8_t method);
uint32_t ws_importer_intern_stack(struct ws_importer *importer, uint32_t parent, uint32_t frame);
/* id of the event that triggers samples, by its name (string); 0 when there are too many. */
uint32_t ws_importer_intern_event(struct ws_importer *importer, uint32_t name);

/*
 * Note that something could not be imported. Equal texts are counted together; at the end of the
 * file each becomes a row of `diagnostic` and, unless `quiet`, a line on standard error.
 */
void ws_importer_add_note(struct ws_importer *importer, const char *fmt, ...) WS_PRINTF(2, 3);
void ws_importer_add_notes(struct ws_importer *importer, uint64_t count, const char *fmt, ...)
	WS_PRINTF(3, 4);
/* Say how something was imported: a row of `diagnostic` with the severity WS_INFO and, unless
 * `quiet`, a line on standard error. */
void ws_importer_add_message(struct ws_importer *importer, const char *fmt, ...) WS_PRINTF(2, 3);
/* Add a fact about the session. */
void ws_importer_add_fact(struct ws_importer *importer, const char *name, const char *value,
			  size_t n);

/* Stop the import with a message (printf style); always returns -1. */
int ws_importer_stop(struct ws_importer *importer, const char *fmt, ...) WS_PRINTF(2, 3);

/* What importers return: 0, or -1 when the import was stopped. */
static inline int ws_importer_get_status(const struct ws_importer *importer)
{
	return importer->stopped ? -1 : 0;
}

/* If wanted, show how much of the file has been read, at most a few times a second. */
void ws_importer_show_progress(struct ws_importer *importer, uint64_t done, uint64_t all);

/* Begin and end a file. The end writes its processes, threads and notes. */
void ws_importer_begin_file(struct ws_importer *importer, const char *path);
void ws_importer_end_file(struct ws_importer *importer);
void ws_importer_free(struct ws_importer *importer);

#endif
