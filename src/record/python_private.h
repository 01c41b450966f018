/* python_private.h - what the files that record Python share. */
#ifndef WS_RECORD_PYTHON_PRIVATE_H
#define WS_RECORD_PYTHON_PRIVATE_H

#include "base/map.h"
#include "cpython/cpython.h"
#include "ring/python_record.h"
#include "record/code.h"
#include "record/proc.h"
#include "record/python.h"
#include "record/stacks.h"

#define WS_PY_LAST 64u
struct ws_py_proc { /* an interpreter: the slot WS_SLOT_PYTHON of a process */
	struct ws_py_proc *next;
	struct ws_python *py;
	struct ws_proc *proc;
	struct ws_maps_process *bound; /* its mappings' rows are written */
	uint64_t runtime;
	struct ws_py_layout layout;
	/* events may be opened; that was refused, or the program uses the signal itself */
	bool signals, signals_failed;
	bool looked_into;    /* the program in the kernel reads its frames */
	bool switches_often; /* too often for events of its threads: see ws_python_leave_signals */
	bool laid_out;	     /* `layout` is complete */
	uint64_t next_fast, next_slow; /* when stacks are next read from outside */
	uint64_t last_fast, last_slow; /* and when they were */
	uint64_t last_state; /* the thread that was read last, and its codes, outermost first */
	size_t last_n;
	uint64_t last_code[WS_PY_LAST];
	uint32_t turn;		      /* the next thread to read when there are many */
	struct ws_map outer;	      /* its threads with events: tid -> tid as seen from here */
	struct ws_map codes;	      /* read from outside: address -> struct ws_py_known * */
	struct ws_map frames;	      /* outside: hash of code and offset -> frame id */
	struct ws_map counts, looked; /* tid -> samples with its frames, in all and at the last look
					 from outside */
};

/* The interpreter of a process, made when there is none yet; NULL where Python is not recorded. */
struct ws_py_proc *ws_py_proc_of(struct ws_proc *proc);

/* Whether its threads have exact samples. */
static inline bool ws_py_is_exact(const struct ws_py_proc *process)
{
	return process->signals || process->looked_into;
}

struct ws_py_known { /* a code object */
	char *name, *file;
	int32_t first_line;
	uint16_t version;
	bool shim;
	uint32_t table_bytes, table_have;
	uint8_t *table;
	struct ws_py_code_key key; /* outside only */
};
void ws_py_known_free(struct ws_py_known *known);
/* The code object at `code`, whose key is `key`; never NULL: one that cannot be read is a shim,
 * which is shown nowhere. */
struct ws_py_known *ws_py_known_read(const struct ws_py_layout *layout,
				     const struct ws_py_memory *memory, uint64_t code,
				     const struct ws_py_code_key *key);
/* Reads the memory of a struct ws_proc, as struct ws_py_memory has it. */
size_t ws_py_read_process(void *proc, const struct ws_py_piece *piece, size_t n);
/* Id of the frame for the instruction at byte offset `at`. */
uint32_t ws_py_known_frame(struct ws_stackset *st, const struct ws_py_known *known, int32_t at);

struct ws_py_event {
	uint32_t tid;
	int fd;		/* -1: the program in the kernel serves the thread */
	uint64_t since; /* session ns */
	struct ws_py_proc *proc;
};

/* The last samples of a thread, used for its samples that hit the kernel. */
#define WS_PY_MOMENTS 64u
#define WS_PY_MOMENT_FRAMES 128u
#define WS_PY_MOMENT_EVALUATORS 32u
#define WS_PY_MOMENT_NS 300000000u
#define WS_PY_MOMENT_ALONE_NS 10000000u
struct ws_py_moment {
	uint64_t time; /* 0: none */
	size_t n, evaluators;
	bool cut;			      /* the native stack was cut at its outer end */
	uint64_t sp[WS_PY_MOMENT_EVALUATORS]; /* of the evaluators, innermost first */
	uint32_t frame[WS_PY_MOMENT_FRAMES], code[WS_PY_MOMENT_FRAMES];
	bool entry[WS_PY_MOMENT_FRAMES];
};
struct ws_py_history {
	struct ws_py_moment moment[WS_PY_MOMENTS];
	uint32_t next;
};

/* Python frames of one moment: ids, innermost first, and which ones are the outermost of a call of
 * the evaluator. */
struct ws_py_stack {
	uint32_t *frame; /* 0: the evaluator runs no function, or one that Python does not show */
	bool *entry;
	uint32_t *code; /* numbers of the functions; for ws_python_remember only */
	size_t n, cap;
	bool truncated;
};

struct ws_python {
	struct ws_map history; /* sink and thread id -> struct ws_py_history * */
	struct ws_drain *drain;
	struct ws_python_opts options;
	struct ws_py_proc *procs;
	struct ws_py_event *events;
	size_t events_n, events_cap;
	struct ws_map by_tid; /* tid -> since, of open events */
	uint64_t next_sweep;
	uint64_t patience;
	struct ws_py_walk walk;		   /* scratch of the outside reader */
	struct ws_py_bpf_loading *loading; /* NULL: nothing is being loaded */
	struct ws_py_bpf *bpf;		   /* NULL: there is no program in the kernel */
	int bpf_error;			   /* errno with which the kernel refused it */
	struct ws_py_decoded_image *decoded;
	struct ws_py_stack decode_stack;
	int sought;		   /* pid in whose tree we look for interpreters; 0: none */
	struct ws_sink *sought_in; /* the report in which they are */
	struct ws_py_seek *seek;
	struct ws_map inner; /* tid of threads that the program serves -> their tid in their own
				namespace */
};

/* The number of a thread in its interpreter's list; 0 when it cannot be read. */
uint32_t ws_py_find_tid(const struct ws_py_memory *memory, const struct ws_py_thread *thread);
/* Whether the process has this thread: the number comes from memory that the target can write to.
 */
bool ws_py_is_thread_of(int pid, uint32_t tid);

/* From now on, allow signalling or reading the thread that its own namespace calls `tid`. */
struct ws_rec_python_thread;
void ws_python_thread(struct ws_python *py, struct ws_py_proc *process, uint32_t tid,
		      const struct ws_rec_python_thread *record, uint64_t now);
void ws_python_close_of(struct ws_python *py, const struct ws_py_proc *process);
/* Read the stacks that are due. */
void ws_python_outside(struct ws_python *py, uint64_t now);
/* Complete the layout of `p`; false while its interpreter is being created, or cannot be read. */
bool ws_py_lay_out(struct ws_py_proc *process);

/* The frames that came in this ring for the current record; NULL for none. */
const struct ws_py_stack *ws_python_take_frames(struct ws_stream *stream);
/* Keep a complete sample for samples that hit the kernel. */
void ws_python_remember(struct ws_python *py, const struct ws_python_sampled *sampled,
			const struct ws_py_stack *st);
/* Free the kept samples, and what is known about modules. */
void ws_python_forget(struct ws_python *py);
/* Which part of the interpreter a native frame is. */
enum ws_py_part { WS_PY_OTHER, WS_PY_EVALUATOR, WS_PY_TRAMPOLINE };
enum ws_py_part ws_python_part(const struct ws_unwound_frame *place);

#endif
