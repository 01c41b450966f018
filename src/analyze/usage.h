/*
 * usage.h - what the program's threads did on cores, by samples: system calls, page faults, calls
 * of libraries that wait by spinning, and which place in the user's code caused them.
 *
 * The critical path does not show a thread that polls in parallel and keeps a core busy. So these
 * sums cover all threads of the explained process and of those it started; the part on the path is
 * also given.
 */
#ifndef WS_ANALYZE_USAGE_H
#define WS_ANALYZE_USAGE_H

#include "analyze/code.h"
#include "analyze/model.h"
#include "analyze/path.h"

enum ws_usage_kind {
	WS_USAGE_CODE, /* code of the program or of libraries */
	WS_USAGE_POLL, /* calls that ask whether something has arrived, or let others run first */
	WS_USAGE_TRANSFER,   /* system calls that read, write, send or receive */
	WS_USAGE_FILE,	     /* system calls about files by name: open, stat, close... */
	WS_USAGE_MEMORY,     /* system calls that map and unmap memory */
	WS_USAGE_THREAD,     /* starting and ending threads and processes */
	WS_USAGE_LOCK,	     /* futexes; named by the function that takes the lock, if known */
	WS_USAGE_OTHER_CALL, /* any other system call */
	WS_USAGE_BARRIER,    /* a runtime of OpenMP, which waits for its threads by spinning */
	WS_USAGE_FAULT,	     /* page faults for new memory */
	WS_USAGE_FILE_FAULT, /* page faults that bring in pages of a file or of the swap space */
	WS_USAGE_SIGNAL, /* signals: the kernel delivers them (""), or a handler runs ("handler") */
	WS_USAGE_KINDS
};

struct ws_usage_row {
	uint8_t kind;
	const char *name; /* the call, "" where there is none; lives as long as the model */
	uint32_t thread;
	struct ws_code_place place; /* the leaf of the stack is the function itself */
	uint64_t ns;		    /* on cores */
	uint64_t path_ns;	    /* the part on the critical path */
	uint64_t copying_ns;	    /* spent on copying bytes within the kernel */
	uint64_t samples;
	uint64_t lowest,
		highest;     /* addresses of the innermost frame, of CODE of the function itself */
	uint32_t module;     /* of these addresses; 0: of several */
	struct ws_span span; /* from the first sample to the last */
};

struct ws_usage {
	struct ws_usage_row *rows; /* by time, most first */
	size_t count, cap;
	bool kernel; /* samples in the kernel were taken */
};

/* Whether a function of the C or C++ library allocates or frees memory; whether one takes locks,
 * for itself (allocators) or for who calls it. */
bool ws_is_allocator(const char *function);
bool ws_is_locking_function(const char *function);
/* Sum up the samples in the window. Free with ws_usage_free. */
void ws_usage_sum(const struct ws_model *model, const struct ws_path *path, struct ws_usage *usage);
void ws_usage_free(struct ws_usage *usage);

#endif
