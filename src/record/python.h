/*
 * python.h - Python in a session: which threads are sampled how, and what the perf events' rows
 * need to know about that.
 *
 * A thread of an interpreter that the hook knows has an event of its own, which sends it the hook's
 * signal. Its samples come through the ring and are exact (from_python.c). Where that is
 * impossible, and for threads that wait, stacks are read from outside (python_outside.c) and marked
 * as separate.
 */
#ifndef WS_RECORD_PYTHON_H
#define WS_RECORD_PYTHON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ws_python_opts {
	bool sampling;
	uint32_t frequency;		      /* samples a second of a running thread */
	bool gil;			      /* spans of waiting for the GIL and of holding it */
	bool cuda_stacks;		      /* Python stacks with CUDA calls */
	struct ws_python_function *functions; /* to trace; owned by the caller */
	size_t function_n;
	bool timers; /* samples come from the timers of the sampling hook: no events are opened */
};

/* A Python function to be traced as a range (--python-functions-trace). */
struct ws_python_function {
	char *module, *name; /* qualified name in the module */
	char *category;	     /* of the slice; NULL for its default, the module */
	char *args;	     /* JSON object, or NULL */
	bool seen;	     /* it ran */
	bool optional;	     /* of a built-in list: it need not run */
};
#define WS_PYTHON_FUNCTIONS_MOST 512u

struct ws_python;
struct ws_py_stack;
struct ws_unwound_frame;
struct ws_stackset;
struct ws_drain;
struct ws_sink;

/* Begin; `d` must outlive it. */
struct ws_python *ws_python_new(struct ws_drain *drain, const struct ws_python_opts *options);
/* From now on, look for interpreters without a hook in the process and its descendants. `sink` gets
 * their samples. Returns NULL, or why stacks of samples will have no Python frames: then those of
 * the process itself are read from outside once it has registered. Call it once perf events are
 * open. */
const char *ws_python_seek(struct ws_python *py, int pid, struct ws_sink *sink);
/* Report which named functions never ran. Call it before the report is closed. */
void ws_python_say_unseen(struct ws_python *py, struct ws_sink *sink);
/* Close whatever is open, after the drain has finished. */
void ws_python_free(struct ws_python *py);
/* Call it after the records of a round were converted: closes events of threads that are gone, and
 * reads stacks from outside that are due. `now` is session time, ns. */
void ws_python_round(struct ws_python *py, uint64_t now);
/* An event for each thread costs a microsecond or two at each switch: from now on, threads sampled
 * by signal have no samples (this is reported) and are read from outside. `py` may be NULL. */
void ws_python_leave_signals(struct ws_python *py, uint64_t now);
/* How long the recorder may sleep before the next stack is due, nanoseconds. */
uint64_t ws_python_patience(const struct ws_python *py);

/* Whether the thread (as seen from here) has samples of its own at that time, so that further
 * samples of it in user space would count it twice. */
bool ws_python_covers(const struct ws_python *py, uint32_t tid, uint64_t time);

/* A sample's native stack. */
struct ws_python_sampled {
	struct ws_sink *sink;
	uint32_t thread; /* id in `sink` */
	uint64_t time;
	const struct ws_unwound_frame *places; /* innermost first */
	size_t n;
	bool cut; /* the outer end is missing */
};

/*
 * The stack of a sample that has no Python frames, as ws_stackset_places makes it. If the
 * interpreter's frames are at the same places as in the samples before and after it, it gets the
 * Python frames that those two share, and *flags gets WS_SAMPLE_SEPARATE. `py` may be NULL.
 */
uint32_t ws_python_attach(struct ws_python *py, const struct ws_python_sampled *sampled,
			  uint32_t *leaf, uint8_t *flags);

/*
 * The stack of native frames `places` (innermost first) with Python's in place of the evaluator's:
 * *leaf gets the innermost frame, the result is the stack of its callers. `cut`: the native frames
 * are incomplete at their outer end.
 */
uint32_t ws_python_merge(struct ws_stackset *st, const struct ws_unwound_frame *places, size_t n,
			 const struct ws_py_stack *py, bool cut, uint32_t *leaf);

/* The samples a second of Python's threads, which are at most `most` from now on (0: the requested
 * rate). 0 when no samples are taken by events. `py` may be NULL. */
uint32_t ws_python_frequency(struct ws_python *py, uint32_t most);

/* ---- a program in the kernel, on the event that samples everything (python_bpf.c) ---- */

/* Whether the program is part of this build, which needs clang. */
bool ws_python_bpf_is_built(void);

/*
 * Begin to load the program, in a thread of its own, because the kernel takes long to check it.
 * Nothing happens if it is not wanted or not part of this build. The target must already have been
 * forked, since this may raise our limit of locked memory.
 */
void ws_python_bpf_start(struct ws_python *py);
/* Whether it can serve an event of `frequency` samples a second (0: not a fixed rate), some of
 * which are Python's, so that ws_python_bpf_open may succeed. */
bool ws_python_bpf_suits(const struct ws_python *py, uint32_t frequency);
/* Wait until it is loaded, for an event of that frequency. 0, or the kernel's -errno; -ENOTSUP when
 * it is not being loaded, or does not suit. */
int ws_python_bpf_open(struct ws_python *py, uint32_t frequency);
/* Attach it to `sampler`, an event on `cpu`; it writes into the buffer of the event `output`. 0 or
 * -errno. */
int ws_python_bpf_attach(struct ws_python *py, int sampler, int output, uint32_t cpu);
bool ws_python_bpf_is_on(const struct ws_python *py);
/* Whether it knows threads of every pid namespace, not only those of this process's own. */
bool ws_python_bpf_any_ns(void);
/* A thread that it serves has frames with one in this many samples. */
uint32_t ws_python_bpf_every(const struct ws_python *py);
void ws_python_bpf_close(struct ws_python *py);

/* Read what it wrote, except frames. Call it in the order of time. */
void ws_python_decode(struct ws_python *py, const void *raw, size_t size);
/* Whether `raw` holds frames, which belong to the next sample. */
bool ws_python_decode_frames(const void *raw, size_t size);
/* Those frames, of thread `tid` (as seen from here), valid until the next call; NULL when they are
 * invalid. */
const struct ws_py_stack *ws_python_decode_stack(struct ws_python *py, struct ws_sink *sink,
						 uint32_t tid, const void *raw, size_t size,
						 uint8_t *gil);
bool ws_python_is_truncated(const struct ws_py_stack *st);
size_t ws_python_frames(const struct ws_py_stack *st);

#endif
