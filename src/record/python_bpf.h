/*
 * python_bpf.h - reading Python's frames by a program in the kernel (bpf/python_frames.bpf.c):
 * python_bpf.c loads and controls it, python_decode.c reads what it writes. Private to the
 * recording of Python.
 *
 * The program runs before each sample of the main event. What it writes is in the same buffer
 * directly before that sample: a record of frames, and one for each code object that it meets for
 * the first time.
 */
#ifndef WS_RECORD_PYTHON_BPF_H
#define WS_RECORD_PYTHON_BPF_H

#include "record/bpf.h"
#include "record/bpf/python_frames.h"
#include "record/python_private.h"

/* ---- the program and its maps (python_bpf.c) ---- */

struct ws_py_bpf;
/* The programs of bpf/python_frames.bpf.c, compiled; none in a build without clang. */
extern const struct ws_bpf_program ws_py_bpf_programs[];
/* Record frames of this thread from now on, `tid` as seen from here and `inner` in its own
 * namespace; 0 or -errno. */
int ws_py_bpf_watch(struct ws_py_bpf *bpf, uint32_t tid, uint32_t inner,
		    const struct ws_py_layout *layout, uint64_t cookie, uint64_t beacon);
/* The same for a thread without a hook whose state is known. */
int ws_py_bpf_watch_state(struct ws_py_bpf *bpf, uint32_t tid, const struct ws_py_layout *layout,
			  uint64_t cookie, uint64_t state);
void ws_py_bpf_leave(struct ws_py_bpf *bpf, uint32_t tid);
void ws_py_bpf_free(struct ws_py_bpf *bpf);

/* ---- what it wrote (python_decode.c) ---- */

/* Announce the process `p`, whose records have this cookie. */
void ws_py_decode_begin(struct ws_python *py, struct ws_py_proc *process, uint64_t cookie);
/* Note that it has ended: what is known about it is needed for a while yet. */
void ws_py_decode_end(struct ws_python *py, const struct ws_py_proc *process);
void ws_py_decode_sweep(struct ws_python *py, uint64_t now);
void ws_py_decode_free(struct ws_python *py);

#endif
