/*
 * python_evaluator.c - calls of named Python functions before CPython 3.12: all frames are
 * evaluated through a function of ours, which the interpreter provides for (PEP 523). It looks up
 * what is known of the frame's code object and passes the frame on; around those of named functions
 * it takes the time. The kinder means of other tools, a profile function, would be the program's
 * own sys.setprofile, and would be called for each call of C as well.
 *
 * What is known is kept in a table without chains: an entry belongs to a code object as long as its
 * address, name, file and line are the same, so that one that was freed is not taken for the next
 * at its address. A code object without an entry is looked at: the end of its name first, then the
 * module, from the globals of the frame, then the qualified name (python_names.c up to 3.10).
 *
 * In 3.11 calls of Python functions take no room on the C stack, unless frames go through a
 * function of somebody's. A program that recurses deeply by that must not run out of its stack:
 * when a thread has used three quarters of it, the tracing ends, and calls are as they were.
 */
#include <pthread.h>
#include <string.h>

#include "inject/bind.h"
#include "inject/python_functions.h"
#include "schema/schema.h"

typedef ws_py_object *evaluate_frame(void *thread, void *frame, int throwing); /* from 3.9 on */
typedef ws_py_object *evaluate_frame_old(void *frame, int throwing);	       /* 3.8 */

#define FRAME_GLOBALS 48u /* of PyFrameObject */
/* Of 3.11's _PyInterpreterFrame and PyCodeObject. */
#define FRAME_GLOBALS_3_11 8u
#define FRAME_OWNER_3_11 69u
#define CODE_FLAGS_3_11 48u
#define MAKES_GENERATOR (0x20 | 0x80 | 0x200) /* or a coroutine, or an asynchronous generator */
#define KNOWN_CODES 16384u
#define NOT_WANTED (-1)
#define MOST_TRIES 8 /* of a code object whose function cannot be found (yet) */

struct known_code {
	const ws_py_object *code;
	const void *name, *file;
	int32_t first_line;
	int16_t slot; /* in ws_python_bound, or NOT_WANTED */
	uint8_t tries;
};
static struct known_code *known; /* mapped when functions are traced: it would count otherwise */
static void *next_evaluator;	 /* the interpreter's own, or that of who was there before us */
static void *interpreter;
static bool guards_stack; /* calls would take no stack without us: 3.11 */

static void *read_pointer(const void *at, uint32_t offset)
{
	void *value;

	memcpy(&value, (const char *)at + offset, sizeof(value));
	return value;
}

static int32_t read_first_line(const ws_py_object *code)
{
	int32_t line;

	memcpy(&line, (const char *)code + ws_python.layout.code_first_line, sizeof(line));
	return line;
}

static struct known_code *get_known_place(const ws_py_object *code)
{
	return &known[(uint32_t)((uintptr_t)code >> 4) * 0x9e3779b1u >> 18];
}
_Static_assert(KNOWN_CODES == 1u << (32 - 18), "the hash has as many values");

/* ---- which functions ---- */

static bool describes_code(const struct known_code *entry, const ws_py_object *code)
{
	return entry->code == code &&
	       entry->name == read_pointer(code, ws_python.layout.code_name) &&
	       entry->file == read_pointer(code, ws_python.layout.code_file) &&
	       entry->first_line == read_first_line(code);
}

static bool fits_qualified_name(const ws_py_object *code, const char *module, uint32_t w)
{
	const char *name = ws_python_read_code_text(code, ws_python.layout.code_qualname);

	return name && ws_python_is_meant(module, name, w);
}

/* Whether one of the ends of the wanted name, which may begin with modules, is the code's. */
static bool fits_path(const ws_py_object *code, ws_py_object *globals, const char *module,
		      uint32_t w)
{
	const char *last, *path = ws_python_get_wanted(w, &last);

	while (path) {
		if (ws_python_is_meant(module, path, w) && ws_python_is_named(globals, path, code))
			return true;
		path = strchr(path, '.');
		path += path != NULL;
	}
	return false;
}

static const char *get_module(ws_py_object *globals)
{
	ws_py_object *module = ws_py.DictItem(globals, "__name__");
	const char *text = module ? ws_py.AsText(module) : NULL;

	if (!text)
		ws_py.Clear();
	return text;
}

/* Look for the function that `code` is; sets *similar when one has its last name. */
static int find_wanted(const ws_py_object *code, const void *frame, bool *similar)
{
	const char *name = ws_python_read_code_text(code, ws_python.layout.code_name), *last,
		   *module = NULL;
	bool says = ws_python.layout.code_qualname;
	ws_py_object *globals = read_pointer(
		frame, ws_python.layout.version < 0x030b ? FRAME_GLOBALS : FRAME_GLOBALS_3_11);

	for (uint32_t w = 0; name && w < ws_python_count_wanted(); w++) {
		ws_python_get_wanted(w, &last);
		if (strcmp(last, name) != 0)
			continue;
		if (!module && !(module = get_module(globals)))
			return NOT_WANTED;
		*similar = true;
		if (says ? fits_qualified_name(code, module, w)
			 : fits_path(code, globals, module, w))
			return ws_python_bind_code((ws_py_object *)code, w, module)
				       ? (int)ws_python_find_bound(code)
				       : NOT_WANTED;
	}
	return NOT_WANTED;
}

/* Look at a code object for the first time, or again when it may have become reachable by name. */
static WS_NOINLINE int examine_code(const ws_py_object *code, const void *frame)
{
	struct known_code *entry = get_known_place(code);
	ws_py_object *type, *value, *trace;
	bool similar = false;
	int slot;

	if (!describes_code(entry, code))
		entry->tries = 0;
	ws_py.FetchError(&type, &value, &trace);
	slot = find_wanted(code, frame, &similar);
	ws_py.RestoreError(type, value, trace);
	entry->code = code;
	entry->name = read_pointer(code, ws_python.layout.code_name);
	entry->file = read_pointer(code, ws_python.layout.code_file);
	entry->first_line = read_first_line(code);
	entry->slot = (int16_t)slot;
	if (slot >= 0 || !similar || ws_python.layout.code_qualname)
		entry->tries = MOST_TRIES;
	else
		entry->tries++;
	return slot;
}

/* In 3.11 a call of a generator's function evaluates a frame too, which only makes the generator.
 */
static bool only_makes_generator(const ws_py_object *code, const void *frame)
{
	uint32_t flags;

	if (ws_python.layout.version < 0x030b)
		return false;
	memcpy(&flags, (const char *)code + CODE_FLAGS_3_11, sizeof(flags));
	return flags & MAKES_GENERATOR && !((const char *)frame)[FRAME_OWNER_3_11];
}

static inline int find_slot(const void *frame)
{
	const ws_py_object *code = read_pointer(frame, ws_python.layout.frame_code);
	const struct known_code *entry = get_known_place(code);

	if (ws_likely(describes_code(entry, code) &&
		      (entry->slot >= 0 || entry->tries >= MOST_TRIES)))
		return entry->slot;
	return examine_code(code, frame);
}

/* ---- evaluating ---- */

/* What stays on the stack during calls of named functions. Exported, so that the recorder knows
 * these frames by name and leaves them out of stacks (record/python_merge.c). */
WS_EXPORT ws_py_object *ws_python_evaluate_named(void *thread, void *frame, int throwing, int slot);
WS_EXPORT ws_py_object *ws_python_evaluate_named_old(void *frame, int throwing, int slot);

/* The program's stack is used up to here when the tracing ends; 0 where that is not watched. Every
 * address is below the first value. */
static __thread uintptr_t stack_guard = UINTPTR_MAX;

static evaluate_frame evaluate_new_frame;

static void stop_evaluating(void)
{
	if (ws_py.GetEvaluator(interpreter) != (void *)evaluate_new_frame)
		return;
	ws_py.SetEvaluator(interpreter, next_evaluator);
	ws_rt_write_diagnostic(
		WS_WARNING, "python",
		"--python-functions-trace: the program's recursion was about to use up a thread's "
		"stack, so the tracing of functions ended there. In CPython 3.11 it needs stack "
		"for every call.");
}

/* The thread's stack: its lowest address, or 0 where that is not to be had. */
static uintptr_t find_stack(size_t *bytes)
{
	int (*read)(pthread_t, pthread_attr_t *) = ws_find_symbol("pthread_getattr_np");
	int (*get)(const pthread_attr_t *, void **, size_t *) =
		ws_find_symbol("pthread_attr_getstack");
	int (*destroy)(pthread_attr_t *) = ws_find_symbol("pthread_attr_destroy");
	pthread_attr_t attributes;
	void *low = NULL;

	if (!read || !get || !destroy || ws_rt_is_sandboxed() || read(pthread_self(), &attributes))
		return 0;
	if (get(&attributes, &low, bytes))
		low = NULL;
	destroy(&attributes);
	return (uintptr_t)low;
}

/* The calling thread is where its guard is, or has none yet. */
static WS_NOINLINE void check_stack(uintptr_t here)
{
	size_t bytes = 0;
	uintptr_t low = find_stack(&bytes);

	if (!low || here - low >= bytes) /* or it is on a stack of the program's own making */
		stack_guard = 0;
	else if (stack_guard == UINTPTR_MAX && here - low > bytes / 4)
		stack_guard = low + bytes / 4;
	else
		stop_evaluating();
}

/* The end of a call of a named function that began at `start`; 0: nothing was collected then. */
static void end_call(int slot, uint64_t start)
{
	if (start && ws_rt_is_collecting())
		ws_python_write_range((uint32_t)slot, start, ws_rt_read_ticks());
}

static uint64_t begin_call(void)
{
	return ws_rt_is_collecting() ? ws_rt_read_ticks() : 0;
}

WS_NOINLINE ws_py_object *ws_python_evaluate_named(void *thread, void *frame, int throwing,
						   int slot)
{
	uint64_t start = begin_call();
	ws_py_object *result = ((evaluate_frame *)next_evaluator)(thread, frame, throwing);

	end_call(slot, start);
	return result;
}

static ws_py_object *evaluate_new_frame(void *thread, void *frame, int throwing)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	int slot = NOT_WANTED;

	if (ws_unlikely(guards_stack && here < stack_guard))
		check_stack(here);
	if (ws_likely(!throwing))
		slot = find_slot(frame);
	if (ws_likely(slot < 0) || only_makes_generator(ws_python_bound[slot].code, frame))
		/* leaves no frame of ours on the stack */
		return ((evaluate_frame *)next_evaluator)(thread, frame, throwing);
	return ws_python_evaluate_named(thread, frame, throwing, slot);
}

WS_NOINLINE ws_py_object *ws_python_evaluate_named_old(void *frame, int throwing, int slot)
{
	uint64_t start = begin_call();
	ws_py_object *result = ((evaluate_frame_old *)next_evaluator)(frame, throwing);

	end_call(slot, start);
	return result;
}

static ws_py_object *evaluate_old_frame(void *frame, int throwing)
{
	int slot = NOT_WANTED;

	if (ws_likely(!throwing))
		slot = find_slot(frame);
	if (ws_likely(slot < 0))
		return ((evaluate_frame_old *)next_evaluator)(frame, throwing);
	return ws_python_evaluate_named_old(frame, throwing, slot);
}

/* ---- setting up ---- */

/* 3.8 has no function for it: the evaluator is a member of the interpreter's state, which is found
 * by its value. */
#define STATE_BYTES 2048u

static bool replace_old_evaluator(void)
{
	void **member = ws_py.OldInterpreter();

	for (size_t i = 0; i < STATE_BYTES / sizeof(*member); i++)
		if (member[i] == ws_py.EvaluateFrame) {
			next_evaluator = ws_py.EvaluateFrame;
			member[i] = (void *)evaluate_old_frame;
			return true;
		}
	return false;
}

static bool replace_evaluator(void)
{
	if (ws_python.layout.version < 0x0309)
		return ws_py.OldInterpreter && replace_old_evaluator();
	if (!ws_py.Interpreter || !ws_py.GetEvaluator || !ws_py.SetEvaluator)
		return false;
	interpreter = ws_py.Interpreter();
	next_evaluator = ws_py.GetEvaluator(interpreter);
	guards_stack = ws_python.layout.version >= 0x030b && next_evaluator == ws_py.EvaluateFrame;
	ws_py.SetEvaluator(interpreter, (void *)evaluate_new_frame);
	return true;
}

bool ws_python_evaluate_functions(void)
{
	if (!known)
		known = ws_python_map_table(KNOWN_CODES * sizeof(*known));
	if (!known) {
		ws_rt_write_diagnostic(WS_WARNING, "python",
				       "--python-functions-trace: there is no memory for it (see "
				       "ulimit -v). No function is traced.");
		return true;
	}
	if (!replace_evaluator())
		ws_rt_write_diagnostic(
			WS_WARNING, "python",
			"--python-functions-trace: this build of CPython has no place for another "
			"evaluator of frames. No function is traced.");
	return true;
}
