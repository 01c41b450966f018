/*
 * opengl.h - what the wrappers of OpenGL's functions follow: which context is current on a thread,
 * its frames and its debug groups, and how long the GPU took (opengl_gpu.c). Used by
 * libraries/opengl.calls; no header of OpenGL is needed.
 *
 * Our own calls of OpenGL are made only where they cannot fail, so the program's errors and state
 * stay as they are.
 */
#ifndef WS_INJECT_OPENGL_H
#define WS_INJECT_OPENGL_H

#include "inject/library.h"

enum ws_opengl_interface { WS_OPENGL_GLX, WS_OPENGL_EGL };

enum {
	WS_OPENGL_CONTEXTS = 256, /* at once; calls of others have no context */
	WS_OPENGL_GROUPS = 64,	  /* nested debug groups, as many as OpenGL allows at least */
	WS_OPENGL_QUERIES = 2048,
	WS_OPENGL_SPANS = 1024,
	WS_OPENGL_BATCH = 512 /* calls that are measured as one piece of work, at most */
};

/* Values of GL's and KHR_debug's enumerations. */
enum { WS_OPENGL_APPLICATION = 0x824a };

/* A span on the GPU whose times are not known yet. */
struct ws_opengl_span {
	uint32_t begin, end; /* names of queries */
	enum ws_library_table table;
	uint32_t name;
	unsigned count;
	int64_t kept[6];
};

struct ws_opengl_group {
	uint64_t start; /* ticks; 0: nothing was collected then */
	uint32_t begin; /* query; 0: none */
	uint32_t name;
	int64_t source, id;
};

/* Functions of OpenGL that we call, as the context's own interface tells them. */
struct ws_opengl_functions {
	void (*generate)(int count, unsigned *queries);
	void (*count)(unsigned query, unsigned target);
	void (*get_number)(unsigned query, unsigned what, unsigned *value);
	void (*get_time)(unsigned query, unsigned what, uint64_t *value);
	void (*get_bits)(unsigned target, unsigned what, int *value);
	void (*get_now)(unsigned what, int64_t *value);
	void (*get_integer)(unsigned what, int *value);
	void (*bind_buffer)(unsigned target, unsigned buffer);
	const char *(*get_string)(unsigned what);
	const char *(*get_string_at)(unsigned what, unsigned i);
};

enum ws_opengl_timing { WS_OPENGL_UNKNOWN, WS_OPENGL_TIMED, WS_OPENGL_UNTIMED };

struct ws_opengl_context {
	_Atomic uintptr_t handle;  /* the program's; 0: this entry is free */
	_Atomic unsigned threads;  /* on which it is current: 0 or 1 */
	_Atomic bool is_destroyed; /* the entry is free once no thread has it */
	unsigned number;	   /* from 1 */
	enum ws_opengl_interface interface;
	bool in_between, in_list; /* glBegin and glEnd; glNewList and glEndList */
	bool uses_query_buffer;
	unsigned depth; /* groups that are open, more than are kept, too */
	struct ws_opengl_group groups[WS_OPENGL_GROUPS];
	int64_t frame;
	uint64_t frame_start;
	uint32_t frame_track, gpu_track;
	/* opengl_gpu.c */
	enum ws_opengl_timing timing;
	struct ws_opengl_functions call;
	uint64_t anchor_ticks, anchor_read;
	int64_t anchor_time;
	uint32_t free_queries[WS_OPENGL_QUERIES];
	unsigned free_count, made_count;
	struct ws_opengl_span spans[WS_OPENGL_SPANS]; /* a ring, in the order of their ends */
	unsigned first_span, span_count;
	uint32_t batch_begin;
	unsigned batch_calls, batch_first, batch_last; /* functions: their numbers */
	int64_t batch_number;			       /* from 1 in the process */
	int64_t begun_batch; /* that the call under way has begun; 0: none */
};

#pragma GCC visibility push(hidden)

extern __thread struct ws_opengl_context *ws_opengl_current
	__attribute__((tls_model("initial-exec")));

/* Number of the thread's context. */
static inline int64_t ws_opengl_number(void)
{
	return ws_likely(ws_opengl_current != NULL) ? ws_opengl_current->number : WS_LIBRARY_NONE;
}

/* Number of the piece of work that the call under way has begun. */
static inline int64_t ws_opengl_take_batch(void)
{
	struct ws_opengl_context *context = ws_opengl_current;
	int64_t number;

	if (ws_likely(!context || !context->begun_batch))
		return WS_LIBRARY_NONE;
	number = context->begun_batch;
	context->begun_batch = 0;
	return number;
}

/* ---- contexts ---- */

/* The handle is new: whatever had it before is gone. */
void ws_opengl_create(void *handle);
/* The thread is about to leave its context. */
void ws_opengl_leave(void);
/* The thread has another context, if the call did not fail. */
void ws_opengl_enter(bool done, void *handle, enum ws_opengl_interface interface);
void ws_opengl_destroy(void *handle);

/* The handle of `what` followed by the number. */
uint32_t ws_opengl_name_track(const char *what, unsigned number);

/* ---- frames ---- */

int64_t ws_opengl_frame(void);
/* Buffers are about to be swapped. */
void ws_opengl_swap(void);
/* They have been: `time` is when, in ticks. */
void ws_opengl_end_frame(uint64_t time);

/* ---- debug groups ---- */

/* A length below 0 says that the text ends with a NUL. */
void ws_opengl_push(unsigned source, unsigned id, int length, const char *text);
void ws_opengl_pop(void);
void ws_opengl_mark(unsigned source, unsigned id, int length, const char *text);
void ws_opengl_label(unsigned type, unsigned object, int length, const char *text);

/* ---- the GPU's times: opengl_gpu.c ---- */

void ws_opengl_set_between(bool on);
void ws_opengl_set_list(bool on);
void ws_opengl_note_buffer(unsigned target);
/* Have the GPU note the time when it gets here; 0 if it cannot. */
uint32_t ws_opengl_note_time(struct ws_opengl_context *context);
/* Give a query back that no span needs. */
void ws_opengl_free_query(struct ws_opengl_context *context, uint32_t query);
/* A span that began at the query `begin` ends here. */
void ws_opengl_end_span(struct ws_opengl_context *context, const struct ws_opengl_span *span);
/* Work that was given to the GPU since the last of these is one piece. */
void ws_opengl_end_batch(struct ws_opengl_context *context);
/* Record the times that the GPU has told meanwhile. Does not wait. */
void ws_opengl_read_times(void);
/* The same before the context is destroyed; waits if it is the thread's own. */
void ws_opengl_read_last(void *handle);

#pragma GCC visibility pop
#endif
