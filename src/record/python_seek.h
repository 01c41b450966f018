/*
 * python_seek.h - Python in processes that have no hook of ours, because the recording was attached
 * to them: it looks for interpreters in their memory and tells the program in the kernel where the
 * state of each thread is. Private to the recording of Python.
 */
#ifndef WS_RECORD_PYTHON_SEEK_H
#define WS_RECORD_PYTHON_SEEK_H

#include "record/python_bpf.h"

struct ws_py_seek;

/* Look for new processes of the tree and new threads when due. `now` in session ns. */
void ws_py_seek_round(struct ws_python *py, uint64_t now);
void ws_py_seek_free(struct ws_py_seek *seek);

#endif
