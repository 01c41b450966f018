/*
 * python_bpf.h - Python's frames by a program in the kernel (python_bpf.c), and what it writes
 * (read by python_decode.c). Private to Python's recording.
 *
 * The program runs in front of each sample of the main event. What it writes stands in the same
 * buffer directly before that sample: a record of frames, and one for each code object that it has
 * met for the first time.
 */
#ifndef WS_RECORD_PYTHON_BPF_H
#define WS_RECORD_PYTHON_BPF_H

#include "record/python_private.h"

#define WS_PY_KERNEL_STEPS 512u
#define WS_PY_TOLD_HEAD 208u
#define WS_PY_TOLD_NAME 320u
#define WS_PY_TOLD_FILE 512u
#define WS_PY_TOLD_TABLE 12288u

enum ws_py_kernel_record { WS_PY_KERNEL_FRAMES = 1, WS_PY_KERNEL_CODE = 2 };

struct ws_py_step { /* of the chain of frames */
	uint64_t
		id; /* stands for the code; 0: the evaluator's own frame, 1: it could not be read */
	int32_t at; /* as in struct ws_py_frame; to 3.10 as the frame object has it */
	uint32_t owner;
};

struct ws_py_kernel_frames {
	uint32_t kind, count, truncated, spare;
	uint64_t cookie, hold, wait; /* of the process; of struct ws_python_beacon */
};				     /* `count` steps follow, innermost first */

/* A code object as it lay in memory when the sample was taken: pieces of it, of its texts and of
 * its line table. */
struct ws_py_kernel_code {
	uint32_t kind, spare;
	uint64_t cookie, id, code;
	uint64_t name, file, table, key_name; /* where the pieces begin; 0: it could not be read */
	uint32_t name_bytes, file_bytes, table_bytes, head_bytes;
	uint64_t key_text[2]; /* at `key_name` */
	uint8_t head[WS_PY_TOLD_HEAD], name_piece[WS_PY_TOLD_NAME], file_piece[WS_PY_TOLD_FILE];
	uint8_t table_piece[]; /* at most WS_PY_TOLD_TABLE */
};

/* ---- the program and its maps (python_bpf.c) ---- */

struct ws_py_bpf;
/* Frames of this thread, `tid` as seen from here and `inner` as it calls itself, from now on; 0 or
 * -errno. */
int ws_py_bpf_watch(struct ws_py_bpf *bpf, uint32_t tid, uint32_t inner,
		    const struct ws_py_layout *layout, uint64_t cookie, uint64_t beacon);
void ws_py_bpf_leave(struct ws_py_bpf *bpf, uint32_t tid);
void ws_py_bpf_free(struct ws_py_bpf *bpf);

/* ---- what it wrote (python_decode.c) ---- */

/* The process `p`, whose records have this cookie, is there. */
void ws_py_decode_begin(struct ws_python *py, struct ws_py_proc *process, uint64_t cookie);
/* It has ended: what is known of it is needed for a while yet. */
void ws_py_decode_end(struct ws_python *py, const struct ws_py_proc *process);
void ws_py_decode_sweep(struct ws_python *py, uint64_t now);
void ws_py_decode_free(struct ws_python *py);

#endif
