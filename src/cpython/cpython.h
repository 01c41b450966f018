/*
 * cpython.h - how CPython 3.8 to 3.14 keeps its threads, frames, code objects and texts in memory,
 * and reading them without its help.
 *
 * The interpreter is never called: everything is read through a function that the caller gives (its
 * own memory by a system call that cannot fault, another process's, or an image made by a test).
 * What is read may be garbage or change while it is read: every length is checked, every chain
 * bounded.
 *
 * Versions to 3.12 are known by a table of offsets each (layout.def), which hold for all of a minor
 * version's releases; from 3.13 on the interpreter describes itself at the start of _PyRuntime.
 * Builds whose objects have other heads (Py_TRACE_REFS) do not pass ws_py_check and are refused.
 *
 * Used by the hooks as well as by the recorder: nothing here allocates, locks or calls more of the
 * C library than memcpy.
 */
#ifndef WS_CPYTHON_H
#define WS_CPYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- memory ---- */

struct ws_py_piece {
	uint64_t from;
	void *to;
	size_t bytes;
};

struct ws_py_memory {
	/* Read pieces in order; returns how many were read whole before the first that was not. */
	size_t (*read)(void *ctx, const struct ws_py_piece *pieces, size_t n);
	void *ctx;
};
#define WS_PY_PIECES 64 /* at most so many in one call of read */

static inline bool ws_py_read(const struct ws_py_memory *memory, uint64_t from, void *to,
			      size_t bytes)
{
	struct ws_py_piece piece = {from, to, bytes};

	return memory->read(memory->ctx, &piece, 1) == 1;
}

/* ---- layout ---- */

enum ws_py_chain {
	WS_PY_OBJECTS, /* to 3.10: frame objects, one for each call of the evaluator */
	WS_PY_CFRAMES, /* 3.11, 3.12: interpreter frames, found through the innermost _PyCFrame */
	WS_PY_FRAMES,  /* from 3.13: interpreter frames, found through the thread state */
};

/* Offsets in bytes; those that a version does not have are 0. layout.def says what each is. */
#define WS_PY_FIELDS(X)                                                                    \
	X(runtime_interpreters)                                                            \
	X(runtime_gil)                                                                     \
	X(interp_next)                                                                     \
	X(interp_threads)                                                                  \
	X(interp_gil)                                                                      \
	X(gil_holder)                                                                      \
	X(gil_locked)                                                                      \
	X(thread_next) X(thread_interp) X(thread_frame) X(thread_pthread) X(thread_tid)    \
		X(cframe_frame) X(frame_previous) X(frame_code) X(frame_at) X(frame_owner) \
			X(code_name) X(code_qualname) X(code_file) X(code_first_line)      \
				X(code_table) X(code_start) X(bytes_size) X(bytes_data)    \
					X(text_length) X(text_state) X(text_ascii) X(text_compact)

struct ws_py_layout {
	uint16_t version; /* 0x030b for 3.11 */
	uint8_t chain;	  /* enum ws_py_chain */
	bool self_described, free_threaded;
#define X(field) uint32_t field;
	WS_PY_FIELDS(X)
#undef X
};

/* The layout of 3.8 to 3.12 by number; false for others. */
bool ws_py_layout_of(uint16_t version, struct ws_py_layout *out);
/* From what lies at _PyRuntime: 3.13 and later. False when it is no description, or one with
 * impossible offsets. */
#define WS_PY_OFFSETS_BYTES 800
bool ws_py_layout_read(const struct ws_py_memory *memory, uint64_t runtime,
		       struct ws_py_layout *out);

/* ---- the interpreter ---- */

struct ws_py_thread {
	uint64_t state;	  /* its PyThreadState */
	uint64_t pthread; /* as pthread_self gives it */
	uint32_t tid;	  /* 0 where the version does not keep it */
};

/* Its threads, at most `most`; the interpreters one after the other. 0 when there are none yet, or
 * nothing that can be one. */
size_t ws_py_threads(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
		     uint64_t runtime, struct ws_py_thread *out, size_t most);
/* The thread state that holds the GIL of the first interpreter; 0 when nobody does, or there is
 * none. */
uint64_t ws_py_gil_holder(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
			  uint64_t runtime);
/* Does what lies there look like an interpreter of this layout? False also while it is being made.
 */
bool ws_py_check(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
		 uint64_t runtime);

/* ---- frames ---- */

enum {
	WS_PY_ENTRY = 1 /* outermost of a call of the evaluator */,
	WS_PY_NONE = 2 /* of an evaluator that runs no function (yet): code is 0 */
};
struct ws_py_frame {
	uint64_t code;
	int32_t at; /* byte offset of the instruction in the code; -1 before the first */
	uint32_t flags;
};

#define WS_PY_WINDOW 6144
/* Room for one walk and what it remembers for the next of the same thread. Zero it before first
 * use. */
struct ws_py_walk {
	uint64_t window_at[2];
	size_t window_bytes[2];
	uint32_t seen_n;  /* frame objects of the walk before: they are read at once */
	uint32_t ready_n; /* of those, how many were read */
	uint64_t seen[WS_PY_PIECES];
	uint8_t ready[WS_PY_PIECES][128];
	uint8_t window[2][WS_PY_WINDOW];
};

/*
 * The frames of the thread whose state is at `state`, from the innermost outwards, at most `most`;
 * returns how many. *truncated is set when there are more, or when a frame could not be read.
 */
size_t ws_py_walk(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
		  uint64_t state, struct ws_py_walk *walk, struct ws_py_frame *out, size_t most,
		  bool *truncated);

/*
 * The frames that a walk makes of the steps along the chain, from the innermost on: `code` and `at`
 * as in struct ws_py_frame, `owner` as the frame has it. One step adds one frame at most.
 */
#define WS_PY_OWNER_INTERPRETER \
	3 /* and above, from 3.12 on: the frame that the evaluator pushes for itself */
struct ws_py_taken {
	struct ws_py_frame *out;
	size_t n, entry; /* zero to begin with */
};
void ws_py_take(const struct ws_py_layout *layout, struct ws_py_taken *taken, uint64_t code,
		int32_t at, uint32_t owner);
/* Byte offset of the instruction that a frame object (to 3.10) is at. */
int32_t ws_py_object_at(const struct ws_py_layout *layout, int32_t index);

/* ---- code objects ---- */

/* What tells one code object from another that later lies in the same place. */
struct ws_py_code_key {
	uint64_t name, file, table;
	uint64_t text[2]; /* length and hash of the name: when all of an object's parts are freed,
			     all may come to lie in the same places again. (Names of code are
			     interned, so their hash has been taken.) */
	int32_t first_line, spare;
};
/* Keys of `n` code objects (at most WS_PY_PIECES) in one read; returns how many came out. `raw` is
 * room for n * WS_PY_KEY_BYTES. */
#define WS_PY_KEY_BYTES 128
size_t ws_py_code_keys(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
		       const uint64_t *code, size_t n, struct ws_py_code_key *out, void *raw);

#define WS_PY_NAME_BYTES 512
#define WS_PY_FILE_BYTES 1024
#define WS_PY_TABLE_MOST (1u << 20)
struct ws_py_code {
	uint32_t name_len, file_len;
	int32_t first_line;
	uint64_t table; /* where its line table lies, and how long it is */
	uint32_t table_bytes;
	bool shim; /* made by the interpreter for itself (around __init__, say): Python shows it
		      nowhere */
	char name[WS_PY_NAME_BYTES]; /* UTF-8, qualified from 3.11 on; cut when longer */
	char file[WS_PY_FILE_BYTES];
};
/* False when there is no code object at `code`. */
bool ws_py_code_read(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
		     uint64_t code, struct ws_py_code *out);
/* A str object as UTF-8; cut at `room`. Returns its length, or -1 when there is none at `text`. */
int ws_py_text(const struct ws_py_layout *layout, const struct ws_py_memory *memory, uint64_t text,
	       char *out, size_t room);

/* The source line of the instruction at byte offset `at`; `first_line` before the first
 * instruction, 0 when the code has no line there. */
int32_t ws_py_line(uint16_t version, int32_t first_line, const uint8_t *table, size_t bytes,
		   int32_t at);

#endif
