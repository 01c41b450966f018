/*
 * ops.h - the PyTorch profiler's statistics of operators (key_averages), from what was imported or
 * recorded.
 *
 * Events are defined as PyTorch defines them (torch/autograd/profiler_util.py). Operators,
 * annotations and calls of CUDA nest by thread and time. Self CPU time is the time less that of the
 * direct children. A GPU event belongs to the operator whose number it is linked to. Device time of
 * an operator is that of its own GPU events and those of its children. A parent and its only child
 * of the same name are one event. Memory of an operator is what was allocated less what was freed
 * while it ran, on any thread of the process.
 */
#ifndef WS_OPS_OPS_H
#define WS_OPS_OPS_H

#include "base/map.h"
#include "base/choose.h"
#include "query/doubles.h"
#include "query/query.h"
#include "print/table.h"
#include "text/text_numbers.h"

enum ws_ops_kind {
	WS_OPS_CPU,
	WS_OPS_ANNOTATION,
	WS_OPS_PYTHON,
	WS_OPS_CALL,
	WS_OPS_GPU,
	WS_OPS_GPU_ANNOTATION,
	WS_OPS_MEMORY
};

#define WS_OPS_NONE UINT32_MAX

struct ws_ops_event {
	uint64_t start, end;
	uint64_t device_own, device_total;	/* in parts of a nanosecond (WS_DOUBLES_PARTS);
					   device_total of a GPU event is its length */
	uint64_t children_cpu, children_device; /* ns; parts of a nanosecond */
	int64_t cpu_mem, device_mem, children_cpu_mem, children_device_mem;
	uint64_t flops;
	uint32_t process, thread, name; /* name: key of a string */
	uint32_t parent, children;	/* parent: index or WS_OPS_NONE; children: how many */
	uint32_t shapes, stack;		/* strings */
	uint8_t kind;
	bool merged; /* it is merged into its parent, which has the same name */
	bool async;  /* it has a parent, whose self time and memory it does not reduce */
	bool loose;  /* a call that is linked to no operator */
};

struct ws_ops_memory {
	uint64_t time, address, allocated, reserved;
	int64_t bytes;
	uint32_t process, thread;
	int32_t device;
	uint8_t type; /* 0 CPU, 1 CUDA */
	bool inside;  /* it happened during an event */
};

struct ws_ops_step {
	uint64_t start, end, number;
	uint32_t process;
};

struct ws_ops_request {
	bool by_shape, python;
	enum ws_doubles_use doubles; /* for lengths of GPU work below operators */
	int64_t by_stack;	     /* frames, 0 for none */
	const char *sort;	     /* what to sort by, as PyTorch calls it, or NULL */
	int64_t limit;		     /* rows, 0 for all */
	double min_time_s; /* leave out rows whose CPU and device totals are both less than this;
			      seconds */
	const char *steps; /* "3", "2-4", "1,5", or NULL */
	const char *view;  /* ops, modules, memory, memory-events, steps */
	const char *format, *unit, *output;
	bool overwrite;
};

struct ws_ops {
	const struct ws_report *report;
	struct ws_names_by_id *who;
	const struct ws_ops_request *request;
	uint64_t zero;		     /* session time in ns that is shown as 0 */
	struct ws_ops_event *events; /* by (thread, start, longer first); GPU events at the end */
	size_t event_count, event_capacity, cpu_count;
	struct ws_ops_memory *memory; /* by (process, time) */
	size_t memory_count, memory_capacity;
	struct ws_ops_step *steps;
	size_t step_count, step_capacity;
	struct ws_map owner;	   /* process and external id -> event + 1 */
	struct ws_ops_main *mains; /* of each process, the thread that stopped the profiler */
	size_t main_count, main_capacity;
	struct ws_map main_index; /* process -> main + 1 */
	struct ws_map edges; /* bounds of GPU work, kept if annotations were written longer than
				they are */
	struct ws_text_numbers texts; /* names and shapes not in the report, each with its NUL */
	struct ws_text scratch;
	struct ws_doubles doubles;
	bool fraction;	  /* GPU times of operators were changed to those that doubles give */
	uint64_t gpu_own; /* time of all GPU work as counted for operators; parts of a nanosecond */
	uint64_t damaged; /* blocks */
};

/* load.c: read all events of the report, or of the steps asked for, nest and link them. Returns 0,
 * or -1 with a message. */
int ws_ops_load(struct ws_ops *ops, struct ws_err *err);
void ws_ops_free(struct ws_ops *ops);
/* A new, empty event; valid until the next one. */
struct ws_ops_event *ws_ops_add_event(struct ws_ops *ops);
/* The key in `owner` of an operator's number in a process. */
uint64_t ws_make_op_owner_key(uint64_t process, uint64_t external);
/* Whether the moment is in one of the steps asked for; always true when none was asked for. */
bool ws_is_in_op_steps(const struct ws_ops *ops, uint32_t process, uint64_t at);
/* Whether PyTorch leaves events of this name out. */
bool ws_ops_is_hidden(const char *name);
/* The key of the name with this string id: one for all steps, else that of the text. */
uint32_t ws_get_op_name_key(const struct ws_ops *ops, const char *name, uint32_t id);
/* ranges.c: whether NVTX ranges are used as operators, since the report has none. */
bool ws_are_ops_from_ranges(const struct ws_ops *ops);
/* ranges.c: read the steps, or the events and links (call -> event), from ranges. Return 0, or -1
 * with a message. */
int ws_ops_load_range_steps(struct ws_ops *ops, struct ws_err *err);
int ws_ops_load_ranges(struct ws_ops *ops, struct ws_map *links, struct ws_err *err);
/* The number of a text that is not a string of the report; it is above the ids of all strings. */
uint32_t ws_add_op_text(struct ws_ops *ops, const char *text, size_t length);
/* The text of a string id, or of a number from ws_add_op_text. */
const char *ws_get_op_text(const struct ws_ops *ops, uint32_t id);
/*
 * traced.c, for processes that PyTorch recorded: move calls that are linked to no operator to the
 * thread that PyTorch counts them on, and add overheads. Returns 0, or -1 with a message.
 */
int ws_ops_load_traced(struct ws_ops *ops, struct ws_err *err);
/* Read annotations as the GPU saw them. Returns 0, or -1 with a message. */
int ws_ops_load_gpu_annotations(struct ws_ops *ops, struct ws_err *err);
/* Note the start and end of a piece of GPU work, after the annotations have been read. */
void ws_note_gpu_edges(struct ws_ops *ops, uint64_t start, uint64_t end);
/* Restore the length of annotations that were written longer than they are. */
void ws_ops_trim_gpu_annotations(struct ws_ops *ops);
/* tree.c: find parents, merge duplicates, attribute memory, sum up. */
void ws_ops_nest(struct ws_ops *ops);

/* The views: each writes its table, and the lines below the table into `footer`. Return 0, or -1
 * with a message. */
int ws_print_op_averages(struct ws_ops *ops, struct ws_printer *printer, struct ws_text *footer,
			 struct ws_err *err);
int ws_print_op_modules(struct ws_ops *ops, struct ws_printer *printer, struct ws_text *footer,
			struct ws_err *err);
int ws_print_op_memory_devices(struct ws_ops *ops, struct ws_printer *printer,
			       struct ws_text *footer, struct ws_err *err);
int ws_print_op_memory_events(struct ws_ops *ops, struct ws_printer *printer,
			      struct ws_text *footer, struct ws_err *err);
int ws_print_op_steps(struct ws_ops *ops, struct ws_printer *printer, struct ws_text *footer,
		      struct ws_err *err);

/* The text of a key from ws_get_op_name_key: "ProfilerStep*" for all steps. */
const char *ws_get_op_name(const struct ws_ops *ops, uint32_t name);
/* Keys of names that are not strings of the report, above all others: those of copies and sets, by
 * the kinds of memory. */
enum {
	WS_OPS_SET = 15,
	WS_OPS_NO_MEMORY = 15,
	WS_OPS_MADE_NAMES = 1 << 12,
	WS_OPS_MEMORY_NAME = WS_OPS_MADE_NAMES
};

static inline uint32_t ws_make_op_copy_name(uint64_t kind, uint64_t from, uint64_t to)
{
	if (kind > WS_OPS_SET)
		kind = 0;
	from = ws_min(from, WS_OPS_NO_MEMORY);
	to = ws_min(to, WS_OPS_NO_MEMORY);
	return UINT32_MAX - 1 - (uint32_t)(kind << 8 | from << 4 | to);
}

#define WS_OPS_STEP_NAME UINT32_MAX /* the name of all steps */

/* Write the view of one file; messages go to stderr. Returns 0, -1 on failure, or
 * WS_OUTPUT_PIPE_CLOSED when the reader of standard output went away. */
int ws_print_ops_file(const char *path, const struct ws_ops_request *request);

#endif
