/*
 * python_frames.h - what the kernel program that reads Python's frames (python_frames.bpf.c) shares
 * with the recorder: its maps, the constants that are set when it is loaded, and the records that
 * it writes. Compiled for both sides.
 */
#ifndef WS_RECORD_BPF_PYTHON_FRAMES_H
#define WS_RECORD_BPF_PYTHON_FRAMES_H

#include <stddef.h>
#include <stdint.h>

#include "cpython/cpython.h"
#include "ring/python_record.h"

/* ---- records, in the buffer of the sample that they belong to ---- */

#define WS_PY_KERNEL_STEPS 512u
#define WS_PY_TOLD_HEAD 208u
#define WS_PY_TOLD_NAME 320u
#define WS_PY_TOLD_FILE 512u
#define WS_PY_TOLD_TABLE 12288u

enum ws_py_kernel_record { WS_PY_KERNEL_FRAMES = 1, WS_PY_KERNEL_CODE = 2 };

struct ws_py_step { /* of the chain of frames */
	uint64_t
		id; /* stands for the code; 0: the evaluator's own frame, 1: it could not be read */
	int32_t at; /* as in struct ws_py_frame; up to 3.10 as the frame object has it */
	uint32_t owner;
};

struct ws_py_kernel_frames {
	uint32_t kind, count, truncated, blind; /* blind: `hold` and `wait` are not known */
	uint64_t cookie, hold, wait;		/* of the process; of struct ws_python_beacon */
};						/* `count` steps follow, innermost first */

/* A code object as it was in memory when the sample was taken: pieces of it, of its texts and of
 * its line table. */
struct ws_py_kernel_code {
	uint32_t kind, spare;
	uint64_t cookie, id, code;
	/* where the pieces begin; 0: the object could not be read */
	uint64_t name, file, table, key_name;
	uint32_t name_bytes, file_bytes, table_bytes, head_bytes;
	uint64_t key_text[2]; /* at `key_name` */
	uint8_t head[WS_PY_TOLD_HEAD], name_piece[WS_PY_TOLD_NAME], file_piece[WS_PY_TOLD_FILE];
	uint8_t table_piece[]; /* at most WS_PY_TOLD_TABLE */
};

/* ---- maps ---- */

#define WS_PY_BPF_KNOWN 1024u  /* codes that each CPU remembers to have reported: a power of two */
#define WS_PY_BPF_WINDOW 1024u /* bytes of the thread's stack of frames that are read at once */
#define WS_PY_BPF_FRAME 128u   /* bytes of a frame that are read, at most */
#define WS_PY_BPF_UNKNOWN 48u  /* codes reported at a sample at most: the rest at the next one */
/* Frames read by one call of the program, which then calls itself again: when a program is loaded,
 * the kernel follows every path through it step by step, and it allows 33 calls in a row. */
#define WS_PY_BPF_STEPS 24u
#define WS_PY_BPF_CODES 8u
_Static_assert(2 + WS_PY_KERNEL_STEPS / WS_PY_BPF_STEPS + WS_PY_BPF_UNKNOWN / WS_PY_BPF_CODES < 33,
	       "tail calls");

struct ws_py_bpf_thread { /* of the map `threads`, by thread id */
	/* cookie of the process, which the beacon must have; the beacon's address, or 0 */
	uint64_t cookie, mark, beacon;
	uint64_t state; /* the thread's, where there is no beacon (python_seek.c) */
	/* walk: index of its program in the map `programs`; skip: samples until the next with
	 * frames */
	uint32_t walk, skip;
};

struct ws_py_bpf_unknown {
	uint64_t id, code;
};

struct ws_py_bpf_scratch {	  /* of the map `scratch`: one for each CPU */
	uint32_t unknown_n, told; /* how many of `unknown` have been reported */
	uint64_t at;		  /* where the walk continues; 0: it has not begun */
	uint64_t last_code, last_id, id;
	uint64_t beacon, mark, state;
	uint64_t window_at,
		window_last; /* what `window` holds, and where in it the last frame begins */
	uint64_t known[WS_PY_BPF_KNOWN];
	uint64_t noted[WS_PY_BPF_KNOWN], sample; /* id + number of the sample at which it was put on
						    the list of unknown ones */
	uint8_t window[WS_PY_BPF_WINDOW];
	struct ws_py_bpf_unknown unknown[WS_PY_BPF_UNKNOWN];
	struct ws_py_kernel_frames out;
	struct ws_py_step step[WS_PY_KERNEL_STEPS];
};
_Static_assert(sizeof(struct ws_py_bpf_scratch) <= 32768,
	       "the kernel gives no more for a CPU at once");

/* ---- what is put into the instructions when a program is loaded ---- */

#define WS_PY_BPF_MAPS(X) X(threads) X(codes) X(scratch) X(text) X(output) X(programs)

/*
 * ns_device, ns_inode: of the pid namespace whose thread ids are keys of `threads`; inode 0: the
 * initial one. every: one in `every` samples of a thread has frames. self: the program's index in
 * `programs`; the next one describes code objects. objects, cframes, shims: whether the layout has
 * frame objects, frames behind a _PyCFrame, and frames that the evaluator pushes for itself.
 *
 * A part of each frame is read, and of each code object: *_from is where it begins in the object
 * and *_bytes its length; key_* are offsets in that part of a code object, from_* in that of a
 * frame. window_room: where in the window a frame's part may begin at most. The others are named as
 * in WS_PY_FIELDS; told_name is what the code is called, qualified where the version knows that.
 */
/* clang-format off */
#define WS_PY_BPF_CONSTANTS(X) \
	X(ns_device) X(ns_inode) X(every) X(self) \
	X(objects) X(cframes) X(shims) \
	X(thread_frame) X(cframe_frame) \
	X(frame_from) X(frame_bytes) X(window_room) \
	X(frame_previous) X(frame_code) X(frame_at) X(frame_owner) \
	X(code_from) X(key_bytes) X(key_first_line) X(key_name) X(key_file) X(key_table) \
	X(code_name) X(code_file) X(code_table) X(code_start) X(told_name) \
	X(text_length) X(bytes_size) X(table_before)
/* clang-format on */

enum ws_py_bpf_symbol {
#define X(name) WS_PY_BPF_map_##name,
	WS_PY_BPF_MAPS(X)
#undef X
#define X(name) WS_PY_BPF_const_##name,
		WS_PY_BPF_CONSTANTS(X)
#undef X
			WS_PY_BPF_SYMBOLS
};

#endif
