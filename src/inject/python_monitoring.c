/*
 * python_monitoring.c - calls of named Python functions from CPython 3.12 on. sys.monitoring
 * reports the start and the end of single code objects at no cost for any other. To find the code
 * objects, a watcher is notified of each function when it is created, before it can run, and
 * compares its module and qualified name. Exits by exceptions can only be requested for all code;
 * that event costs time only when exceptions are raised.
 */
#include <string.h>

#include "inject/python_functions.h"
#include "schema/schema.h"

#define FASTCALL 0x80

static ws_py_object *monitoring;
static long tool, local_events;

/* ---- calls ---- */

static ws_py_object *note_function_entry(ws_py_object *self, ws_py_object *const *args, long n)
{
	uint32_t i = n > 0 ? ws_python_find_bound(args[0]) : 0;
	struct ws_python_thread *thread;

	(void)self;
	if (n <= 0 || !ws_python_bound[i].code || !(thread = ws_python_this_thread()))
		return ws_py.None;
	if (thread->open_n < WS_PYTHON_OPEN) {
		thread->open[thread->open_n].start = ws_rt_read_ticks();
		thread->open[thread->open_n].slot = i;
	} else {
		ws_rt_count_loss(ws_self, WS_LOSS_DEPTH, 1);
	}
	thread->open_n++;
	return ws_py.None;
}

static ws_py_object *note_function_exit(ws_py_object *self, ws_py_object *const *args, long n)
{
	uint32_t i = n > 0 ? ws_python_find_bound(args[0]) : 0, level;
	struct ws_python_thread *thread;

	(void)self;
	if (n <= 0 || !ws_python_bound[i].code || !(thread = ws_python_this_thread()) ||
	    !thread->open_n)
		return ws_py.None;
	if (thread->open_n > WS_PYTHON_OPEN) {
		thread->open_n--;
		return ws_py.None;
	}
	/* Ranges nested inside it have ended without an event (a generator that was closed), so
	 * they end here. */
	for (level = thread->open_n; level > 0 && thread->open[level - 1].slot != i; level--)
		;
	while (level && thread->open_n >= level) {
		thread->open_n--;
		ws_python_write_range(thread->open[thread->open_n].slot,
				      thread->open[thread->open_n].start, ws_rt_read_ticks());
	}
	return ws_py.None;
}

/* ---- which functions ---- */

/* Have the calls of `code`, which is wanted function `w`, reported. */
static void monitor_code(ws_py_object *code, uint32_t w, const char *module)
{
	ws_py_object *result;

	if (ws_python_bound[ws_python_find_bound(code)].code ||
	    !ws_python_bind_code(code, w, module))
		return;
	ws_py.IncRef(code); /* so that the address means this one for good */
	result = ws_py.CallMethod(monitoring, "set_local_events", "lOl", tool, code, local_events);
	if (result)
		ws_py.DecRef(result);
	else
		ws_py.Clear();
}

static int trace_made_function(int event, ws_py_object *function, ws_py_object *value)
{
	ws_py_object *module, *code;
	const char *module_text, *name;

	(void)value;
	if (event) /* PyFunction_EVENT_CREATE is 0 */
		return 0;
	code = ws_py.GetCode(function);
	module = ws_py.GetModule(function);
	if (!code || !module)
		return 0;
	name = ws_python_read_code_text(code, ws_python.layout.code_qualname);
	module_text = name ? ws_py.AsText(module) : NULL;
	if (!module_text) { /* it has a letter that has no UTF-8, or is no text */
		ws_py.Clear();
		return 0;
	}
	for (uint32_t w = 0; w < ws_python_count_wanted(); w++)
		if (ws_python_is_meant(module_text, name, w)) {
			monitor_code(code, w, module_text);
			break;
		}
	return 0;
}

/* ---- setting up ---- */

static long event_of_code(ws_py_object *events, const char *name)
{
	ws_py_object *value = ws_py.GetAttrString(events, name);
	long v = value ? ws_py.AsLong(value) : 0;

	if (value)
		ws_py.DecRef(value);
	else
		ws_py.Clear();
	return v;
}

static bool check_result(ws_py_object *result)
{
	if (!result) {
		ws_py.Clear();
		return false;
	}
	ws_py.DecRef(result);
	return true;
}

static long listen_to_code(ws_py_object *events, const char *name, struct ws_py_method_def *def)
{
	long event = event_of_code(events, name);
	ws_py_object *fn = event ? ws_py.NewFunction(def, NULL, NULL) : NULL;

	if (!fn || !check_result(ws_py.CallMethod(monitoring, "register_callback", "llO", tool,
						  event, fn)))
		return 0;
	return event;
}

static bool set_up_tracing(void)
{
	static struct ws_py_method_def on_enter = {"entered", note_function_entry, FASTCALL, NULL},
				       on_leave = {"left", note_function_exit, FASTCALL, NULL};
	ws_py_object *events = ws_py.GetAttrString(monitoring, "events");
	long unwind;

	if (!events)
		return check_result(NULL);
	for (tool = 4; tool > 2; tool--) /* 0, 1, 2 and 5 have an owner by convention */
		if (check_result(
			    ws_py.CallMethod(monitoring, "use_tool_id", "ls", tool, "warpsight")))
			break;
	if (tool == 2)
		return false;
	local_events = listen_to_code(events, "PY_START", &on_enter) |
		       listen_to_code(events, "PY_RESUME", &on_enter) |
		       listen_to_code(events, "PY_RETURN", &on_leave) |
		       listen_to_code(events, "PY_YIELD", &on_leave);
	unwind = listen_to_code(events, "PY_UNWIND", &on_leave);
	ws_py.DecRef(events);
	return local_events &&
	       check_result(ws_py.CallMethod(monitoring, "set_events", "ll", tool, unwind)) &&
	       ws_py.AddWatcher(trace_made_function) >= 0;
}

bool ws_python_monitor_functions(void)
{
	monitoring = ws_py.SysGetObject("monitoring");
	if (!monitoring)
		return false;
	if (!set_up_tracing())
		ws_rt_write_diagnostic(
			WS_WARNING, "python",
			"--python-functions-trace: sys.monitoring has no place left for "
			"another tool: no function is traced.");
	ws_py.Clear();
	return true;
}
