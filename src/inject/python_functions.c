/*
 * python_functions.c - records the Python functions that the user names (--python-functions-trace)
 * as ranges, in CPython 3.12 and later. sys.monitoring reports the start and the end of single code
 * objects at no cost for any other, which is why older versions are not supported: their means (a
 * profile function, another evaluator) make every call of every function slower. To find the code
 * objects, a watcher is notified of each function when it is created, before it can run, and
 * compares its module and qualified name. Exits by exceptions can only be requested for all code;
 * that event costs time only when exceptions are raised.
 *
 * All this is set up by a pending call, which the interpreter makes on its main thread at the first
 * opportunity after it has begun. Functions of the interpreter are used through its stable
 * interface, and only on threads that hold the GIL, called by itself.
 */
#include <string.h>

#include "inject/bind.h"
#include "inject/python.h"
#include "schema/schema.h"

typedef void object; /* PyObject */
typedef object *method(object *self, object *const *args, long n);

struct method_def { /* PyMethodDef */
	const char *name;
	method *fn;
	int flags;
	const char *doc;
};
#define FASTCALL 0x80

static struct {
	int (*AddPendingCall)(int (*)(void *), void *);
	object *(*SysGetObject)(const char *);
	object *(*CallMethod)(object *, const char *, const char *, ...);
	object *(*GetAttrString)(object *, const char *);
	long (*AsLong)(object *);
	object *(*NewFunction)(struct method_def *, object *, object *);
	int (*AddWatcher)(int (*)(int, object *, object *));
	object *(*GetModule)(object *);
	object *(*GetCode)(object *);
	const char *(*AsText)(object *);
	void (*Clear)(void);
	void (*DecRef)(object *);
	void (*IncRef)(object *);
} py;

static const struct {
	const char *name;
	void **where;
} symbols[] = {
	{"Py_AddPendingCall", (void **)&py.AddPendingCall},
	{"PySys_GetObject", (void **)&py.SysGetObject},
	{"PyObject_CallMethod", (void **)&py.CallMethod},
	{"PyObject_GetAttrString", (void **)&py.GetAttrString},
	{"PyLong_AsLong", (void **)&py.AsLong},
	{"PyCFunction_NewEx", (void **)&py.NewFunction},
	{"PyFunction_AddWatcher", (void **)&py.AddWatcher},
	{"PyFunction_GetModule", (void **)&py.GetModule},
	{"PyFunction_GetCode", (void **)&py.GetCode},
	{"PyUnicode_AsUTF8", (void **)&py.AsText},
	{"PyErr_Clear", (void **)&py.Clear},
	{"Py_DecRef", (void **)&py.DecRef},
	{"Py_IncRef", (void **)&py.IncRef},
};

#define MOST_FUNCTIONS 512u
static struct {
	const char *module, *name;
} wanted[MOST_FUNCTIONS];
static uint32_t wanted_n;

/* Code objects that are watched; they are kept alive, so that an address means one of them for
 * good. */
#define CODES 2048u
static struct {
	object *code;
	uint32_t function;
} codes[CODES];
static uint32_t codes_n;
static object *monitoring, *none;
static long tool, local_events;
static _Atomic uint32_t state; /* 0 nothing, 1 asked for, 2 done or given up */

/* Slot of `code`; its `code` is NULL when it is not watched. Under the GIL. */
static uint32_t find_function_slot(const object *code)
{
	uint32_t i = (uint32_t)((uintptr_t)code >> 4) * 0x9e3779b1u >> 21;

	while (codes[i].code && codes[i].code != code)
		i = (i + 1) % CODES;
	return i;
}

/* ---- ranges ---- */

static void write_range(uint32_t function, uint64_t start, uint64_t end)
{
	struct ws_thread *thread = ws_rt_enter();
	struct ws_rec_python_range *record;

	if (!thread)
		return;
	record = ws_rt_reserve(thread, sizeof(*record), WS_LOSS_PYTHON);
	if (record) {
		record->rec = ws_rec_head(WS_REC_PYTHON_RANGE, sizeof(*record), 0, function);
		record->start = start;
		record->end = end;
		ws_rt_commit(thread, record, sizeof(*record));
	}
	ws_rt_leave(thread);
}

static object *note_function_entry(object *self, object *const *args, long n)
{
	uint32_t i = n > 0 ? find_function_slot(args[0]) : 0;
	struct ws_python_thread *thread;

	(void)self;
	if (n <= 0 || !codes[i].code || !(thread = ws_python_this_thread()))
		return none;
	if (thread->open_n < WS_PYTHON_OPEN) {
		thread->open[thread->open_n].start = ws_rt_read_ticks();
		thread->open[thread->open_n].slot = i;
	} else {
		ws_rt_count_loss(ws_self, WS_LOSS_DEPTH, 1);
	}
	thread->open_n++;
	return none;
}

static object *note_function_exit(object *self, object *const *args, long n)
{
	uint32_t i = n > 0 ? find_function_slot(args[0]) : 0, level;
	struct ws_python_thread *thread;

	(void)self;
	if (n <= 0 || !codes[i].code || !(thread = ws_python_this_thread()) || !thread->open_n)
		return none;
	if (thread->open_n > WS_PYTHON_OPEN) {
		thread->open_n--;
		return none;
	}
	/* Ranges nested inside it have ended without an event (a generator that was closed), so
	 * they end here. */
	for (level = thread->open_n; level > 0 && thread->open[level - 1].slot != i; level--)
		;
	while (level && thread->open_n >= level) {
		thread->open_n--;
		write_range(codes[thread->open[thread->open_n].slot].function,
			    thread->open[thread->open_n].start, ws_rt_read_ticks());
	}
	return none;
}

/* ---- which functions ---- */

static object *read_qualified_name(const object *code)
{
	object *name;

	memcpy(&name, (const char *)code + ws_python.layout.code_qualname, sizeof(name));
	return name;
}

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
static bool is_meant(const char *module, const char *name, uint32_t w)
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

static int trace_made_function(int event, object *function, object *value)
{
	object *module, *code, *result;
	const char *module_text, *name;
	uint32_t i;

	(void)value;
	if (event || codes_n >= CODES / 2) /* PyFunction_EVENT_CREATE is 0 */
		return 0;
	code = py.GetCode(function);
	module = py.GetModule(function);
	if (!code || !module)
		return 0;
	name = py.AsText(read_qualified_name(code));
	module_text = name ? py.AsText(module) : NULL;
	if (!module_text) { /* it has a letter that has no UTF-8, or is no text */
		py.Clear();
		return 0;
	}
	for (uint32_t w = 0; w < wanted_n; w++) {
		if (!is_meant(module_text, name, w))
			continue;
		i = find_function_slot(code);
		if (codes[i].code)
			return 0;
		result = py.CallMethod(monitoring, "set_local_events", "lOl", tool, code,
				       local_events);
		if (!result) {
			py.Clear();
			return 0;
		}
		py.DecRef(result);
		py.IncRef(code);
		codes[i].function = w;
		codes[i].code = code;
		codes_n++;
		return 0;
	}
	return 0;
}

/* ---- setting up ---- */

static long event_of_code(object *events, const char *name)
{
	object *value = py.GetAttrString(events, name);
	long v = value ? py.AsLong(value) : 0;

	if (value)
		py.DecRef(value);
	else
		py.Clear();
	return v;
}

static bool check_result(object *result)
{
	if (!result) {
		py.Clear();
		return false;
	}
	py.DecRef(result);
	return true;
}

static long listen_to_code(object *events, const char *name, struct method_def *def)
{
	long event = event_of_code(events, name);
	object *fn = event ? py.NewFunction(def, NULL, NULL) : NULL;

	if (!fn ||
	    !check_result(py.CallMethod(monitoring, "register_callback", "llO", tool, event, fn)))
		return 0;
	return event;
}

static bool set_up_tracing(void)
{
	static struct method_def on_enter = {"entered", note_function_entry, FASTCALL, NULL},
				 on_leave = {"left", note_function_exit, FASTCALL, NULL};
	object *events = py.GetAttrString(monitoring, "events");
	long unwind;

	if (!events)
		return check_result(NULL);
	for (tool = 4; tool > 2; tool--) /* 0, 1, 2 and 5 have an owner by convention */
		if (check_result(py.CallMethod(monitoring, "use_tool_id", "ls", tool, "warpsight")))
			break;
	if (tool == 2)
		return false;
	local_events = listen_to_code(events, "PY_START", &on_enter) |
		       listen_to_code(events, "PY_RESUME", &on_enter) |
		       listen_to_code(events, "PY_RETURN", &on_leave) |
		       listen_to_code(events, "PY_YIELD", &on_leave);
	unwind = listen_to_code(events, "PY_UNWIND", &on_leave);
	py.DecRef(events);
	return local_events &&
	       check_result(py.CallMethod(monitoring, "set_events", "ll", tool, unwind)) &&
	       py.AddWatcher(trace_made_function) >= 0;
}

static int set_up_when_pending(void *arg)
{
	(void)arg;
	monitoring = py.SysGetObject("monitoring");
	if (!monitoring) { /* too early: the next thread that takes the GIL asks again */
		atomic_store(&state, 0);
		return 0;
	}
	if (!set_up_tracing())
		ws_rt_write_diagnostic(
			WS_WARNING, "python",
			"--python-functions-trace: sys.monitoring has no place left for "
			"another tool: no function is traced.");
	py.Clear();
	return 0;
}

static void read_wanted_functions(void)
{
	const char *at = ws_rt->arena->text + ws_rt->arena->text_functions;

	while (*at && wanted_n < MOST_FUNCTIONS) { /* module, name; ended by an empty one */
		wanted[wanted_n].module = at;
		at += strlen(at) + 1;
		wanted[wanted_n++].name = at;
		at += strlen(at) + 1;
	}
}

void ws_python_trace_functions(void)
{
	uint32_t idle = 0;

	if (ws_likely(atomic_load_explicit(&state, memory_order_relaxed)) || !ws_rt->arena ||
	    !ws_rt->arena->text_functions || !atomic_compare_exchange_strong(&state, &idle, 1))
		return;
	none = ws_python_find_symbol("_Py_NoneStruct");
	for (size_t i = 0; i < WS_COUNT(symbols); i++)
		*symbols[i].where = ws_python_find_symbol(symbols[i].name);
	if (ws_python.layout.version < 0x030c || !py.AddWatcher) {
		ws_rt_write_diagnostic(
			WS_WARNING, "python",
			"--python-functions-trace needs CPython 3.12 or later: with an "
			"older one, every call of every "
			"function would be slowed. No function is traced.");
		return;
	}
	for (size_t i = 0; i < WS_COUNT(symbols); i++)
		if (!*symbols[i].where)
			return;
	if (!wanted_n)
		read_wanted_functions();
	if (py.AddPendingCall(set_up_when_pending, NULL))
		atomic_store(&state, 0); /* the queue is full: later */
}
