/*
 * python_record.h - records of the Python hook. All of a thread's samples come in the ring of its
 * sampler (rt.h), so that code is described before frames refer to it.
 */
#ifndef WS_RING_PYTHON_RECORD_H
#define WS_RING_PYTHON_RECORD_H

#include "ring/record.h"

/* The process has an interpreter. Written once for each process image, and again by a forked child.
 */
struct ws_rec_python_seen {
	struct ws_rec rec; /* small: version, 0x030b for 3.11; value: enum ws_python_seen */
	uint64_t time, runtime;
};
enum ws_python_seen {
	WS_PYTHON_SIGNALS = 1,	     /* a signal to a thread makes it record its frames */
	WS_PYTHON_HANDLER_TAKEN = 2, /* not possible: the program handles that signal itself */
	WS_PYTHON_LOOKED_INTO =
		3, /* the kernel reads the frames at each sample, without a signal */
};

/* What the hook keeps about a thread for readers that inspect it while it runs. */
struct ws_python_beacon {
	uint64_t cookie; /* identifies the thread: other memory, or what lies here later, does not
			    contain it */
	uint64_t hold_start,
		wait_start; /* ticks since when it holds the GIL and waits for it; 0: it does not */
	uint64_t state;	    /* its PyThreadState, as it was when it last took or dropped the GIL; 0:
			       none */
};

/* The cookie of thread `tid` (as its own namespace calls it) of a process. */
static inline uint64_t ws_python_cookie(uint64_t process, uint32_t tid)
{
	return process ^ (uint64_t)tid << 32;
}

/* The thread took the GIL for the first time: from now on it may be signalled or inspected. */
struct ws_rec_python_thread {
	struct ws_rec rec; /* as above: a forked child runs the interpreter that its parent has
			      announced */
	uint64_t time, runtime;
	uint64_t cookie,
		beacon; /* of the process; where the thread's struct ws_python_beacon lies */
};

/* A code object seen for the first time: name, file, then its line table or the beginning of it. */
struct ws_rec_python_code {
	struct ws_rec rec; /* small: version; value used for size */
	uint32_t number;   /* from 1, in this ring */
	int32_t first_line;
	uint32_t table_bytes; /* of the whole table */
	uint16_t name_len, file_len;
	uint32_t shim,
		here; /* shim: Python never shows it; here: bytes of the table in this record */
	char bytes[];
};

/* More of the line table of the code described last. */
struct ws_rec_python_table {
	struct ws_rec rec; /* value used for size */
	uint32_t number, at, here, reserved;
	uint8_t bytes[];
};

/* Frames, innermost first. They belong to the record that follows in the ring. */
struct ws_rec_python_frames {
	struct ws_rec rec; /* value used for size */
	uint32_t count;
	uint32_t truncated;
	uint64_t frame[]; /* see below */
};
#define WS_PYTHON_FRAMES_MOST 1000u
/* The upper half is the number of the code. The lower half is the offset of the instruction + 1;
 * its top bit marks the outermost frame of a call of the evaluator. */
#define WS_PYTHON_ENTRY (UINT64_C(1) << 31)

#if defined(__x86_64__)
#define WS_PYTHON_REGS 17 /* numbered as DWARF does; the last is the instruction pointer */
#define WS_PYTHON_SP 7
#else
#define WS_PYTHON_REGS 33
#define WS_PYTHON_SP 31
#endif
#define WS_PYTHON_STACK_MOST 8192u

/* A sample: where the thread was stopped, and what lay on its stack from the stack pointer on. */
struct ws_rec_python_sample {
	struct ws_rec rec; /* value used for size */
	uint64_t time;
	uint64_t weight;	   /* nanoseconds of CPU time; 0: use the period of its event */
	uint16_t stack_bytes, gil; /* gil: enum ws_gil_state */
	uint32_t cpu;
	uint64_t regs[WS_PYTHON_REGS];
	uint8_t stack[];
};

/* A span in which the thread held the GIL or waited for it. */
struct ws_rec_gil {
	struct ws_rec rec; /* small: enum ws_gil_state */
	uint64_t start, end;
};

/* A named function ran. */
struct ws_rec_python_range {
	struct ws_rec rec; /* value: which, counted as in ws_arena.text_functions */
	uint64_t start, end;
	uint32_t place; /* handle of "LINE<tab>MODULE<tab>FILE" of its definition, or 0 */
	uint32_t padding;
};

#endif
