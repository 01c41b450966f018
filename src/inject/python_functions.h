/*
 * python_functions.h - what the files that trace named Python functions share.
 *
 * python_functions.c   which functions are meant, which code objects are theirs, the records
 * python_monitoring.c  calls from CPython 3.12 on
 * python_evaluator.c   calls before
 * python_names.c       what a code object is called where it does not say so (up to 3.10)
 *
 * All of it runs on threads that hold the GIL.
 */
#ifndef WS_PYTHON_FUNCTIONS_H
#define WS_PYTHON_FUNCTIONS_H

#include "inject/python.h"

typedef void ws_py_object; /* PyObject */
typedef ws_py_object *ws_py_method(ws_py_object *self, ws_py_object *const *args, long n);

struct ws_py_method_def { /* PyMethodDef */
	const char *name;
	ws_py_method *fn;
	int flags;
	const char *doc;
};

/* Functions and types of the interpreter, named as there; NULL where it has none. */
struct ws_python_api {
	int (*AddPendingCall)(int (*)(void *), void *);
	int (*IsInitialized)(void);
	const char *(*AsText)(ws_py_object *);
	void (*Clear)(void);
	void (*DecRef)(ws_py_object *);
	void (*IncRef)(ws_py_object *);
	ws_py_object *(*GetAttrString)(ws_py_object *, const char *);

	ws_py_object *(*SysGetObject)(const char *);
	ws_py_object *(*CallMethod)(ws_py_object *, const char *, const char *, ...);
	long (*AsLong)(ws_py_object *);
	ws_py_object *(*NewFunction)(struct ws_py_method_def *, ws_py_object *, ws_py_object *);
	int (*AddWatcher)(int (*)(int, ws_py_object *, ws_py_object *));
	ws_py_object *(*GetModule)(ws_py_object *);
	ws_py_object *(*GetCode)(ws_py_object *);
	ws_py_object *None;

	void *EvaluateFrame;
	ws_py_object *(*DictItem)(ws_py_object *, const char *); /* borrowed */
	ws_py_object *(*GetItem)(ws_py_object *, ws_py_object *);
	ws_py_object *(*GenericGetAttr)(ws_py_object *, ws_py_object *);
	ws_py_object *(*InternText)(const char *);
	long (*TupleSize)(ws_py_object *);
	ws_py_object *(*TupleItem)(ws_py_object *, long); /* borrowed */
	int (*IsSubtype)(ws_py_object *, ws_py_object *);
	void (*FetchError)(ws_py_object **, ws_py_object **, ws_py_object **);
	void (*RestoreError)(ws_py_object *, ws_py_object *, ws_py_object *);
	ws_py_object *Type, *Function, *StaticMethod, *ClassMethod, *Property;
	void *(*Interpreter)(void), *(*OldInterpreter)(void);
	void *(*GetEvaluator)(void *);
	void (*SetEvaluator)(void *, void *);
};
extern struct ws_python_api ws_py WS_HIDDEN;

#define WS_PYTHON_MONITORS 0x030cu /* the first version with sys.monitoring */

/* Code objects that are traced, by address; one whose `code` is NULL is free. */
#define WS_PYTHON_BOUND 2048u
struct ws_python_bound {
	ws_py_object *code;
	uint32_t function; /* as in the list of wanted functions */
	uint32_t place_bytes;
	const char *place; /* "LINE<tab>MODULE<tab>FILE", or NULL */
};
extern struct ws_python_bound ws_python_bound[WS_PYTHON_BOUND] WS_HIDDEN;

/* Slot of `code` in ws_python_bound, free when it is not traced. */
uint32_t ws_python_find_bound(const ws_py_object *code) WS_HIDDEN;
/* Trace `code`, of a function of `module` that was found to be wanted function `w`. False when too
 * many are. */
bool ws_python_bind_code(ws_py_object *code, uint32_t w, const char *module) WS_HIDDEN;
/* Record one call of the code in `slot`, with ticks. */
void ws_python_write_range(uint32_t slot, uint64_t start, uint64_t end) WS_HIDDEN;

/* Memory of zeros that is never given back; NULL where a limit forbids it. Tables are not variables
 * because these would count in every program, traced or not, against its limits. */
void *ws_python_map_table(size_t bytes) WS_HIDDEN;

uint32_t ws_python_count_wanted(void) WS_HIDDEN;
/* Name of wanted function `w`, as the user wrote it; *last is its last part. */
const char *ws_python_get_wanted(uint32_t w, const char **last) WS_HIDDEN;
/* Whether a function with this qualified name, of this module, is wanted function `w`. */
bool ws_python_is_meant(const char *module, const char *name, uint32_t w) WS_HIDDEN;
/* The text that `code` points to at `offset`, in UTF-8; NULL for none. Lives as long as the code.
 */
const char *ws_python_read_code_text(const ws_py_object *code, uint32_t offset) WS_HIDDEN;

/* Whether `code`, which runs with these globals, is what `path` (of a qualified name's form) leads
 * to in them. Runs nothing of the program's, and leaves no error. */
bool ws_python_is_named(ws_py_object *globals, const char *path,
			const ws_py_object *code) WS_HIDDEN;

/* Begin to trace calls; false when it is too early. */
bool ws_python_monitor_functions(void) WS_HIDDEN;
bool ws_python_evaluate_functions(void) WS_HIDDEN;

#endif
