/*
 * cpython.h - how CPython 3.8 to 3.14 keeps its threads, frames, code objects and texts in memory,
 * and how to read them without its help.
 *
 * The interpreter is never called: everything is read through a function that the caller provides
 * (its own memory through a system call that cannot fault, another process's memory, or an image
 * made by a test). What is read may be garbage or change meanwhile: every length is checked, and
 * every chain is bounded.
 *
 * Each version up to 3.12 has a table of offsets (layout.def), which hold for all releases of that
 * minor version; from 3.13 on the interpreter describes itself at the start of _PyRuntime. Builds
 * whose objects have different headers (Py_TRACE_REFS) fail ws_py_check_layout and are refused.
 *
 * The hooks use this as well as the recorder: nothing here allocates, takes locks or calls any C
 * library functions but memcpy and similar ones.
 */
#ifndef WS_CPYTHON_H
#define WS_CPYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline uint64_t ws_py_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t ws_py_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* ---- memory ---- */

/* Memory to read: from an address there to a buffer here. */
struct ws_py_piece {
	uint64_t from;
	void *to;
	size_t bytes;
};

struct ws_py_memory {
	/* Read pieces in order; returns how many were read completely before the first that was
	 * not. */
	size_t (*read)(void *ctx, const struct ws_py_piece *pieces, size_t n);
	void *ctx;
};
#define WS_PY_PIECES 64 /* maximum for one call of read */

static inline bool ws_py_read(const struct ws_py_memory *memory, uint64_t from, void *to,
			      size_t bytes)
{
	struct ws_py_piece piece = {from, to, bytes};

	return memory->read(memory->ctx, &piece, 1) == 1;
}

/* ---- layout ---- */

enum ws_py_chain {
	WS_PY_OBJECTS, /* up to 3.10: frame objects, one for each call of the evaluator */
	WS_PY_CFRAMES, /* 3.11, 3.12: interpreter frames, found through the innermost _PyCFrame */
	WS_PY_FRAMES,  /* from 3.13: interpreter frames, found through the thread state */
};

/* Offsets in bytes; those that a version does not have are 0. layout.def says what each one is. */
/* clang-format off */
#define WS_PY_FIELDS(X) \
	X(runtime_interpreters) X(runtime_gil) \
	X(interp_next) X(interp_threads) X(interp_gil) \
	X(gil_holder) X(gil_locked) \
	X(thread_next) X(thread_interp) X(thread_frame) X(thread_pthread) X(thread_tid) \
	X(cframe_frame) \
	X(frame_previous) X(frame_code) X(frame_at) X(frame_owner) \
	X(code_name) X(code_qualname) X(code_file) X(code_first_line) X(code_table) X(code_start) \
	X(bytes_size) X(bytes_data) \
	X(text_length) X(text_state) X(text_ascii) X(text_compact)
/* clang-format on */

struct ws_py_layout {
	uint16_t version; /* 0x030b for 3.11 */
	uint8_t chain;	  /* enum ws_py_chain */
	bool self_described, free_threaded;
#define X(field) uint32_t field;
	WS_PY_FIELDS(X)
#undef X
};

/* The layout of a version from 3.8 to 3.12; false for others. */
bool ws_py_get_layout(uint16_t version, struct ws_py_layout *out);
/* The layout that an interpreter from 3.13 on describes at _PyRuntime. False when there is no
 * description there, or one with impossible offsets. */
#define WS_PY_OFFSETS_BYTES 800
bool ws_py_read_layout(const struct ws_py_memory *memory, uint64_t runtime,
		       struct ws_py_layout *out);

/* ---- the interpreter ---- */

struct ws_py_thread {
	uint64_t state;	  /* its PyThreadState */
	uint64_t pthread; /* as pthread_self gives it */
	uint32_t tid;	  /* 0 where the version does not keep it */
};

/* List the threads of all interpreters, at most `most`; returns how many. 0 when there are none
 * yet, or when nothing there looks like a thread. */
size_t ws_py_list_threads(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
			  uint64_t runtime, struct ws_py_thread *out, size_t most);
/* The thread state that holds the GIL of the first interpreter; 0 when none does, or there is no
 * GIL. */
uint64_t ws_py_find_gil_holder(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
			       uint64_t runtime);
/* Whether the memory at `runtime` looks like an interpreter of this layout. False also while it is
 * being initialised. */
bool ws_py_check_layout(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
			uint64_t runtime);

/* ---- frames ---- */

enum {
	WS_PY_ENTRY = 1, /* the outermost frame of a call of the evaluator */
	WS_PY_NONE = 2,	 /* of an evaluator that does not run a function (yet): code is 0 */
};
struct ws_py_frame {
	uint64_t code;
	int32_t at; /* byte offset of the instruction in the code; -1 before the first */
	uint32_t flags;
};

#define WS_PY_WINDOW 6144 /* bytes */
/* Buffers of a walk, and what it keeps for the next walk of the same thread. Zero it before the
 * first use. */
struct ws_py_walk {
	bool truncated; /* the last walk had no room for all frames, or could not read one */
	uint64_t window_at[2];
	size_t window_bytes[2];
	uint32_t seen_count;  /* number of frame objects from the previous walk, which are read all
				 at once */
	uint32_t ready_count; /* how many of them could be read */
	uint64_t seen[WS_PY_PIECES];
	uint8_t ready[WS_PY_PIECES][128];
	uint8_t window[2][WS_PY_WINDOW];
};

/*
 * Read the frames of the thread whose state is at `state`, from the innermost outwards and at most
 * `most`; returns how many. walk->truncated says whether there are more, or one could not be read.
 */
size_t ws_py_walk(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
		  uint64_t state, struct ws_py_walk *walk, struct ws_py_frame *out, size_t most);

/*
 * The frames that a walk collects. The walk adds each step along the chain, innermost first: `code`
 * and `at` as in struct ws_py_frame, `owner` as the frame has it. A step adds one frame at most.
 */
/* From 3.12 on, this and higher owners are those of frames that the evaluator pushes for itself. */
#define WS_PY_OWNER_INTERPRETER 3
struct ws_py_frame_list {
	struct ws_py_frame *out;
	size_t count, entry; /* frames, and those of them whose call of the evaluator is complete;
			    start at 0 */
};
void ws_py_add_frame(const struct ws_py_layout *layout, struct ws_py_frame_list *taken,
		     uint64_t code, int32_t at, uint32_t owner);
/* Byte offset of an instruction, given its index as frame objects hold it (up to 3.10). */
int32_t ws_py_convert_index(const struct ws_py_layout *layout, int32_t index);

/* ---- code objects ---- */

/* What distinguishes a code object from another one that is later at the same address. */
struct ws_py_code_key {
	uint64_t name, file, table;
	uint64_t text[2]; /* Length and hash of the name: when all parts of an object are freed,
			     those of another may get the same addresses. (Names of code are
			     interned, so that their hash is known.) */
	int32_t first_line, padding;
};
/* Read the keys of `n` code objects (at most WS_PY_PIECES) at once; returns how many could be read.
 * `raw` is a buffer of n * WS_PY_KEY_BYTES. */
#define WS_PY_KEY_BYTES 128
size_t ws_py_read_code_keys(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
			    const uint64_t *code, size_t n, struct ws_py_code_key *out, void *raw);

#define WS_PY_NAME_BYTES 512
#define WS_PY_FILE_BYTES 1024
#define WS_PY_TABLE_MOST (1u << 20)
struct ws_py_code {
	uint32_t name_len, file_len;
	int32_t first_line;
	uint64_t table; /* address of its line table, and its length */
	uint32_t table_bytes;
	bool shim; /* made by the interpreter for itself, around __init__ for example: Python never
		      shows it */
	char name[WS_PY_NAME_BYTES]; /* UTF-8, qualified from 3.11 on; cut when longer */
	char file[WS_PY_FILE_BYTES];
};
/* Read the code object at `code`; false when there is none. */
bool ws_py_read_code(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
		     uint64_t code, struct ws_py_code *out);
/* Read a str object as UTF-8, cut after `capacity` bytes. Returns its length, or -1 when there is
 * none at `text`. */
int ws_py_read_text(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
		    uint64_t text, char *out, size_t capacity);

/* The source line of the instruction at byte offset `at` of code with this line table; `first_line`
 * before the first instruction, 0 when the code has no line there. */
int32_t ws_py_find_line(uint16_t version, int32_t first_line, const uint8_t *table, size_t bytes,
			int32_t at);

#endif
