/*
 * python_functions.c - records the Python functions that the user names (--python-functions-trace)
 * as ranges: which functions they are, which code objects were found to be theirs, and the records.
 *
 * How calls are noticed depends on the version. From 3.12 on, sys.monitoring reports the start and
 * the end of single code objects (python_monitoring.c); before, frames are evaluated through a
 * function of ours (python_evaluator.c).
 *
 * All this is set up by a pending call, which the interpreter makes on its main thread at the first
 * opportunity after it has begun. Functions of the interpreter are used only on threads that hold
 * the GIL, called by itself.
 */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "inject/bind.h"
#include "inject/python_functions.h"
#include "schema/schema.h"

struct ws_python_api ws_py;

enum { BY_MONITORING = 1, BY_EVALUATOR = 2, BY_BOTH = 3 };

static const struct {
	const char *name;
	void **where;
	int needed; /* by which of the two ways */
} symbols[] = {
#define API(name, member, needed)                    \
	{                                            \
		name, (void **)&ws_py.member, needed \
	}
	API("Py_AddPendingCall", AddPendingCall, BY_BOTH),
	API("Py_IsInitialized", IsInitialized, BY_BOTH),
	API("PyUnicode_AsUTF8", AsText, BY_BOTH),
	API("PyErr_Clear", Clear, BY_BOTH),
	API("Py_DecRef", DecRef, BY_BOTH),
	API("Py_IncRef", IncRef, BY_BOTH),
	API("PyObject_GetAttrString", GetAttrString, BY_BOTH),
	API("PySys_GetObject", SysGetObject, BY_MONITORING),
	API("PyObject_CallMethod", CallMethod, BY_MONITORING),
	API("PyLong_AsLong", AsLong, BY_MONITORING),
	API("PyCFunction_NewEx", NewFunction, BY_MONITORING),
	API("PyFunction_AddWatcher", AddWatcher, BY_MONITORING),
	API("PyFunction_GetModule", GetModule, BY_MONITORING),
	API("PyFunction_GetCode", GetCode, BY_MONITORING),
	API("_Py_NoneStruct", None, BY_MONITORING),
	API("_PyEval_EvalFrameDefault", EvaluateFrame, BY_EVALUATOR),
	API("PyDict_GetItemString", DictItem, BY_EVALUATOR),
	API("PyObject_GetItem", GetItem, BY_EVALUATOR),
	API("PyObject_GenericGetAttr", GenericGetAttr, BY_EVALUATOR),
	API("PyUnicode_InternFromString", InternText, BY_EVALUATOR),
	API("PyTuple_Size", TupleSize, BY_EVALUATOR),
	API("PyTuple_GetItem", TupleItem, BY_EVALUATOR),
	API("PyType_IsSubtype", IsSubtype, BY_EVALUATOR),
	API("PyErr_Fetch", FetchError, BY_EVALUATOR),
	API("PyErr_Restore", RestoreError, BY_EVALUATOR),
	API("PyType_Type", Type, BY_EVALUATOR),
	API("PyFunction_Type", Function, BY_EVALUATOR),
	API("PyStaticMethod_Type", StaticMethod, BY_EVALUATOR),
	API("PyClassMethod_Type", ClassMethod, BY_EVALUATOR),
	API("PyProperty_Type", Property, BY_EVALUATOR),
	/* What a version has of these is used. */
	API("PyInterpreterState_Get", Interpreter, 0),
	API("_PyInterpreterState_Get", OldInterpreter, 0),
	API("_PyInterpreterState_GetEvalFrameFunc", GetEvaluator, 0),
	API("_PyInterpreterState_SetEvalFrameFunc", SetEvaluator, 0),
#undef API
};

#define MOST_FUNCTIONS 512u
static struct {
	const char *module, *name, *last; /* `last`: the name's last part */
} wanted[MOST_FUNCTIONS];
static uint32_t wanted_n;

struct ws_python_bound ws_python_bound[WS_PYTHON_BOUND];
static uint32_t bound_n;
static _Atomic uint32_t state; /* 0 nothing, 1 asked for, 2 done or given up */

/* Where functions are defined, for ranges: kept for good, as codes are. */
#define PLACE_BYTES (256u << 10)
static char *place_texts; /* NULL: there is no memory for them */
static uint32_t place_bytes;

void *ws_python_map_table(size_t bytes)
{
	long p = ws_raw_syscall(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p < 0 && p > -4096 ? NULL : (void *)p;
}

/* ---- ranges ---- */

void ws_python_write_range(uint32_t slot, uint64_t start, uint64_t end)
{
	const struct ws_python_bound *bound = &ws_python_bound[slot];
	struct ws_thread *thread = ws_rt_enter();
	struct ws_rec_python_range *record;
	uint32_t place;

	if (!thread)
		return;
	/* Before the record: a string may be defined in the ring. */
	place = bound->place ? ws_rt_find_string(thread, bound->place, bound->place_bytes) : 0;
	record = ws_rt_reserve(thread, sizeof(*record), WS_LOSS_PYTHON);
	if (record) {
		record->rec = ws_rec_head(WS_REC_PYTHON_RANGE, sizeof(*record), 0, bound->function);
		record->start = start;
		record->end = end;
		record->place = place;
		ws_rt_commit(thread, record, sizeof(*record));
	}
	ws_rt_leave(thread);
}

/* ---- which functions ---- */

/* Whether `module` is the one called by the first `length` bytes of `base`, or lies in it. */
static bool lies_in(const char *module, const char *base, size_t length)
{
	return !strncmp(module, base, length) && (!module[length] || module[length] == '.');
}

/*
 * Whether a function is one that the user means. Users name functions as they call them: a package
 * hands on what its modules define (cupy.dot is made in cupy.linalg._product), and a name may begin
 * with modules (random.random of cupy).
 */
bool ws_python_is_meant(const char *module, const char *name, uint32_t w)
{
	size_t base = strlen(wanted[w].module), all = strlen(wanted[w].name), own = strlen(name);
	const char *rest = module + base;

	if (all < own || strcmp(wanted[w].name + all - own, name))
		return false;
	if (!lies_in(module, wanted[w].module, base))
		return false;
	if (all == own)
		return true;
	/* The parts before the function's own name are modules. */
	return wanted[w].name[all - own - 1] == '.' && *rest == '.' &&
	       lies_in(rest + 1, wanted[w].name, all - own - 1);
}

uint32_t ws_python_count_wanted(void)
{
	return wanted_n;
}

const char *ws_python_get_wanted(uint32_t w, const char **last)
{
	*last = wanted[w].last;
	return wanted[w].name;
}

const char *ws_python_read_code_text(const ws_py_object *code, uint32_t offset)
{
	ws_py_object *text;
	const char *bytes;

	memcpy(&text, (const char *)code + offset, sizeof(text));
	bytes = ws_py.AsText(text);
	if (!bytes) /* it has a letter that has no UTF-8, or is no text */
		ws_py.Clear();
	return bytes;
}

uint32_t ws_python_find_bound(const ws_py_object *code)
{
	uint32_t i = (uint32_t)((uintptr_t)code >> 4) * 0x9e3779b1u >> 21;

	while (ws_python_bound[i].code && ws_python_bound[i].code != code)
		i = (i + 1) % WS_PYTHON_BOUND;
	return i;
}

/* "LINE<tab>MODULE<tab>FILE" of a code object, as ranges say it; without a file when there is no
 * room for it. */
static void note_place(struct ws_python_bound *bound, const char *module)
{
	const char *file = ws_python_read_code_text(bound->code, ws_python.layout.code_file);
	char *to = NULL;
	size_t room = PLACE_BYTES - place_bytes;
	int32_t line;
	int n;

	memcpy(&line, (const char *)bound->code + ws_python.layout.code_first_line, sizeof(line));
	bound->place = NULL;
	if (place_texts)
		to = place_texts + place_bytes;
	n = file && to ? snprintf(to, room, "%d\t%s\t%s", line, module, file) : -1;
	if (n < 0 || (size_t)n >= room || (size_t)n > WS_STRING_MAX)
		return;
	bound->place = to;
	bound->place_bytes = (uint32_t)n;
	place_bytes += (uint32_t)n + 1;
}

bool ws_python_bind_code(ws_py_object *code, uint32_t w, const char *module)
{
	uint32_t slot = ws_python_find_bound(code);
	struct ws_python_bound *bound = &ws_python_bound[slot];

	if (!bound->code) {
		if (bound_n >= WS_PYTHON_BOUND / 2)
			return false;
		bound_n++;
	}
	bound->function = w;
	bound->code = code;
	note_place(bound, module);
	return true;
}

/* ---- setting up ---- */

static int set_up_when_pending(void *arg)
{
	bool begun;

	(void)arg;
	if (ws_python.layout.version >= WS_PYTHON_MONITORS)
		begun = ws_python_monitor_functions();
	else
		begun = ws_python_evaluate_functions();
	if (!begun) /* too early: the next thread that takes the GIL asks again */
		atomic_store(&state, 0);
	return 0;
}

static void read_wanted_functions(void)
{
	const char *at = ws_rt->arena->text + ws_rt->arena->text_functions;

	while (*at && wanted_n < MOST_FUNCTIONS) { /* module, name; ended by an empty one */
		const char *dot;

		wanted[wanted_n].module = at;
		at += strlen(at) + 1;
		dot = strrchr(at, '.');
		wanted[wanted_n].last = dot ? dot + 1 : at;
		wanted[wanted_n++].name = at;
		at += strlen(at) + 1;
	}
}

/* Find the interpreter's functions that the way of this version needs. */
static bool bind_api(void)
{
	int way = BY_EVALUATOR;

	if (ws_python.layout.version >= WS_PYTHON_MONITORS)
		way = BY_MONITORING;
	for (size_t i = 0; i < WS_COUNT(symbols); i++) {
		*symbols[i].where = ws_python_find_symbol(symbols[i].name);
		if (!*symbols[i].where && symbols[i].needed & way)
			return false;
	}
	return true;
}

void ws_python_trace_functions(void)
{
	uint32_t idle = 0;

	if (ws_likely(atomic_load_explicit(&state, memory_order_relaxed)) || !ws_rt->arena ||
	    !ws_rt->arena->text_functions || !atomic_compare_exchange_strong(&state, &idle, 1))
		return;
	if (!bind_api()) {
		ws_rt_write_diagnostic(
			WS_WARNING, "python",
			"--python-functions-trace: this build of CPython does not export what is "
			"needed for it. No function is traced.");
		return;
	}
	if (!wanted_n)
		read_wanted_functions();
	if (!place_texts)
		place_texts = ws_python_map_table(PLACE_BYTES);
	/* 3.8 takes the GIL before it has a queue. */
	if (!ws_py.IsInitialized() || ws_py.AddPendingCall(set_up_when_pending, NULL))
		atomic_store(&state, 0); /* it is too early, or the queue is full: later */
}
