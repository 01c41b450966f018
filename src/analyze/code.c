/* code.c - see code.h. */
#include "analyze/code.h"

#include <stdatomic.h>
#include <string.h>

#include "analyze/copying.h"
#include "analyze/works.h"
#include "base/choose.h"
#include "base/slots.h"

static bool starts_with(const char *text, const char *beginning)
{
	return !strncmp(text, beginning, strlen(beginning));
}

static bool contains_any(const char *path, const char *const *parts)
{
	for (; *parts; parts++)
		if (strstr(path, *parts))
			return true;
	return false;
}

bool ws_code_is_system_path(const char *path)
{
	static const char *const beginnings[] = {"/lib",      "/usr/lib",	 "/usr/local/lib",
						 "/usr/bin/", "/usr/local/cuda", "/opt/conda",
						 "/bin/",     "/usr/sbin/",	 "/sbin/",
						 "["};
	static const char *const parts[] = {
		"/site-packages/", "/dist-packages/", "/lib/python3", "/bin/python",
		"libcuda",	   "libcublas",	      "libcudnn",     "libtorch",
		"libc10",	   "libwarpsight",    "<frozen",      "<__array_function__",
		"<decorator-gen",  "libpython"};

	for (size_t i = 0; i < WS_COUNT(beginnings); i++)
		if (starts_with(path, beginnings[i]))
			return true;
	for (size_t i = 0; i < WS_COUNT(parts); i++)
		if (strstr(path, parts[i]))
			return true;
	return !*path;
}

struct frame_choice {
	struct ws_place place;
	uint32_t called; /* the function that it called */
	uint8_t work;
	bool found;
};

/* The innermost frames of each kind so far. */
struct frame_choices {
	struct frame_choice user_python, made_python, user_native, any_python;
	uint32_t called; /* the outermost function so far that tells what is done; 0 for none */
	uint8_t work;	 /* of the outermost function so far that does work of a known kind, or of
			    an inner one that says more */
	uint8_t part;	 /* of a kind of work, that is shown by functions inside */
	uint16_t inside; /* parts whose inner functions were seen */
};

/* The static runtime of CUDA and that of Go are part of the program, but not the user's. */
static bool is_runtime_function(const char *name)
{
	static const char *const go[] = {"runtime.", "runtime/", "internal/", "sync.",
					 "sync/",    "syscall.", "reflect."};

	for (size_t i = 0; i < WS_COUNT(go); i++)
		if (starts_with(name, go[i]))
			return true;
	return starts_with(name, "cuda") || starts_with(name, "libcudart_static") ||
	       starts_with(name, "__cuda") || starts_with(name, "__device_stub__");
}

/* Generated code of Java: "void java.util.HashMap.resize()", and what has no class. */
static bool is_java_library(const char *name, const char *origin)
{
	static const char *const packages[] = {"java.",	   "javax.",  "jdk.",  "sun.",
					       "com.sun.", "kotlin.", "scala."};
	static const char *const parts[] = {
		"Interpreter", "StubRoutines",	     "ExceptionBlob",	     "I2C/C2I",
		"RuntimeStub", "DeoptimizationBlob", "vtable stub",	     "vtable chunks",
		"itable stub", "UncommonTrapBlob",   "MethodHandlesAdapter", "Runtime1 stub",
		NULL};
	const char *method = name, *end = name + strcspn(name, "(");

	if (!starts_with(origin, "/tmp/perf-"))
		return false;
	for (const char *at = name; at < end; at++)
		if (*at == ' ')
			method = at + 1;
	for (size_t i = 0; i < WS_COUNT(packages); i++)
		if (starts_with(method, packages[i]))
			return true;
	return contains_any(name, parts);
}

/* Templates and inline functions of the C++ library are compiled into the user's program, but are
 * not the user's code, nor are the libraries of Rust and Go. */
static bool find_system_header(const struct ws_model *model, uint32_t file)
{
	static const char *const parts[] = {"/include/c++/",
					    "/include/bits/",
					    "/usr/include/",
					    "/lib/gcc/",
					    "/include/cuda",
					    "/include/thrust/",
					    "/include/cub/",
					    "/cuda/include/",
					    "-linux/include/",
					    "/rustc/",
					    "/rustlib/src/",
					    "/.cargo/registry/",
					    "/usr/lib/go",
					    "/usr/local/go/src/",
					    "/usr/share/go",
					    "/go/pkg/mod/",
					    NULL};

	return contains_any(ws_report_string(model->report, file, NULL), parts);
}

/* The same file is asked about for each stack. */
static bool is_system_header(const struct ws_model *model, uint32_t file)
{
	enum { UNKNOWN, OTHER, HEADER };
	uint8_t known;

	if (!file || file > ws_report_string_count(model->report))
		return false;
	known = atomic_load_explicit(&model->headers[file], memory_order_relaxed);
	if (known == UNKNOWN) {
		known = find_system_header(model, file) ? HEADER : OTHER;
		atomic_store_explicit(&model->headers[file], known, memory_order_relaxed);
	}
	return known == HEADER;
}

/* Whether the function belongs to a class whose name ends with `ending`: "SlowDataset.get". Returns
 * the rest, "get"; NULL when it does not. */
static const char *skip_class(const char *name, const char *ending)
{
	const char *at = strstr(name, ending);

	if (!at || at > name + strcspn(name, "(<"))
		return NULL;
	at += strlen(ending);
	if (*at == '.')
		return at + 1;
	if (at[0] == ':' && at[1] == ':')
		return at + 2;
	return NULL;
}

/* A loader that the program brings itself is known by its name: a method of a ...DataLoader, or an
 * item of a ...Dataset. */
static bool is_loader_function(const char *name)
{
	static const char *const items[] = {"__getitem__", "__getitems__", "__next__", "__iter__"};
	const char *method = skip_class(name, "DataLoader");

	if (method)
		return true;
	method = ws_or(skip_class(name, "Dataset"), skip_class(name, "DataSet"));
	for (size_t i = 0; method && i < WS_COUNT(items); i++)
		if (!strcmp(method, items[i]))
			return true;
	return false;
}

/* What the names of a function and of its file say about it, whatever stack it is on. */
enum function_marks {
	MARK_KNOWN = 1, /* the others have been classified */
	MARK_USERS = 2,
	MARK_LOADER = 4,
	MARK_PACKING = 8,
	MARK_COMPILING = 16,
	MARK_LOOP = 32,
	MARK_TELLING = 64, /* its name says what is done */
	MARK_PYTHON = 128,
};

static uint8_t mark_library(const char *origin)
{
	static const char *const loaders[] = {"/torch/utils/data/", "/tensorflow/python/data/",
					      "/webdataset/",	    "/nvidia/dali/",
					      "/mxnet/gluon/data/", NULL};
	static const char *const packers[] = {"/multiprocessing/reduction.py",
					      "/multiprocessing/connection.py",
					      "/multiprocessing/queues.py", "/pickle.py", NULL};
	static const char *const loops[] = {"/asyncio/base_events.py", "/asyncio/events.py",
					    "/uvloop/", "/trio/_core/", NULL};
	/* Excludes code that only wraps compiled code while it runs. */
	static const char *const compilers[] = {"/torch/_dynamo/convert_frame",
						"/torch/_dynamo/symbolic_convert",
						"/torch/_inductor/graph.py",
						"/torch/_inductor/scheduler.py",
						"/torch/_inductor/codegen/",
						"/torch/_inductor/lowering",
						"/triton/compiler",
						"/numba/core/compiler",
						"/jax/_src/compiler",
						"/jax/_src/interpreters/mlir",
						"libnvrtc",
						"libnvJitLink",
						"libnvptxcompiler",
						"ptxjitcompiler",
						"libcudnn_engines_runtime_compiled",
						NULL};
	uint8_t marks = 0;

	if (contains_any(origin, loaders))
		marks |= MARK_LOADER;
	if (contains_any(origin, loops))
		marks |= MARK_LOOP;
	if (contains_any(origin, packers))
		marks |= MARK_PACKING;
	else if (contains_any(origin, compilers))
		marks |= MARK_COMPILING;
	return marks;
}

/* Functions by which interpreters call others say nothing of what is done. */
static bool is_telling(const struct ws_model *model, const struct ws_function *function)
{
	static const char *const glue[] = {"_PyObject_",   "PyObject_Call", "PyObject_Vector",
					   "_PyEval_",	   "PyEval_",	    "_PyFunction_",
					   "PyVectorcall", "cfunction_",    "method_vectorcall",
					   "slot_tp_",	   "vectorcall_",   "type_call",
					   "ws_",	   "_start",	    "__libc_start",
					   "entry_",	   "__do_sys_",	    "_Py_Run",
					   "RuntimeStub",  "StubRoutines",  "Interpreter"};

	static const char *const interpreters[] = {"/bin/python", "libpython", "warpsight", NULL};
	static const char *const wrappers[] = {"<__array_function__", "<decorator-gen", NULL};
	const char *origin = ws_stacks_get_origin(model->stacks, function);

	if (function->unresolved)
		return !contains_any(origin, interpreters);
	if (contains_any(origin, wrappers))
		return false;
	for (size_t i = 0; i < WS_COUNT(glue); i++)
		if (starts_with(function->name, glue[i]))
			return false;
	return true;
}

static uint8_t mark_function(const struct ws_model *model, const struct ws_function *function)
{
	const char *origin = ws_stacks_get_origin(model->stacks, function);
	uint8_t marks = MARK_KNOWN;

	if (function->kind == WS_FRAME_KERNEL)
		return marks;
	marks |= mark_library(origin);
	if (is_telling(model, function))
		marks |= MARK_TELLING;
	if (function->kind == WS_FRAME_PYTHON)
		marks |= MARK_PYTHON;
	if (function->unresolved)
		return marks;
	if (is_loader_function(function->name))
		marks |= MARK_LOADER;
	if (!ws_code_is_system_path(origin) && !is_runtime_function(function->name) &&
	    !is_java_library(function->name, origin) && !ws_is_copy_constructor(function->name))
		marks |= MARK_USERS;
	return marks;
}

/* Millions of stacks share few functions: each is classified once. Two threads that classify the
 * same one at the same time get the same result. */
static uint8_t get_marks(const struct ws_model *model, uint32_t number)
{
	uint8_t marks;

	if (number > ws_stacks_count_functions(model->stacks))
		number = 0;
	marks = atomic_load_explicit(&model->marks[number], memory_order_relaxed);
	if (!marks) {
		marks = mark_function(model, ws_stacks_get_function(model->stacks, number));
		atomic_store_explicit(&model->marks[number], marks, memory_order_relaxed);
	}
	return marks;
}

static struct ws_work_marks get_work(const struct ws_model *model, uint32_t number)
{
	struct ws_work_marks marks = {0};
	uint64_t packed;

	if (number > ws_stacks_count_functions(model->stacks))
		return marks;
	packed = atomic_load_explicit(&model->works[number], memory_order_relaxed);
	if (!packed) {
		marks = ws_classify_work(model->stacks,
					 ws_stacks_get_function(model->stacks, number));
		packed = 1 | (uint64_t)marks.kind << 8 | (uint64_t)marks.inside << 16 |
			 (uint64_t)marks.around << 32;
		atomic_store_explicit(&model->works[number], packed, memory_order_relaxed);
	}
	marks.kind = (uint8_t)(packed >> 8);
	marks.inside = (uint16_t)(packed >> 16);
	marks.around = (uint16_t)(packed >> 32);
	return marks;
}

/* The work of the functions so far, or the part of it that they show. */
static uint8_t find_work(const struct frame_choices *choices)
{
	if (choices->part && ws_find_whole_work(choices->part) == choices->work)
		return choices->part;
	return choices->work;
}

static void choose_frame(const struct frame_choices *choices, const struct ws_place *place,
			 struct frame_choice *choice)
{
	if (!choice->found)
		*choice = (struct frame_choice){*place, choices->called, find_work(choices), true};
}

static bool is_from_text(const struct ws_model *model, const struct ws_place *place)
{
	return !strcmp(ws_report_string(model->report, place->file, NULL), "<string>");
}

/* Whether the work of a function says what it is called for, rather than what it called: list() is
 * not what takes time where its items are read from a file. */
static bool says_more(const struct ws_model *model, const struct frame_choices *choices,
		      uint8_t kind)
{
	const struct ws_work_kind *inner = choices->work ? ws_get_work_kind(choices->work) : NULL;

	if (inner && (inner->is_inner || (kind && ws_get_work_kind(kind)->is_bare)))
		return false;
	if (!kind || !ws_get_work_kind(kind)->is_driver || choices->work == kind)
		return kind;
	if (inner)
		return inner->is_primitive;
	return !choices->called || !(get_marks(model, choices->called) & MARK_PYTHON);
}

static void offer_frame(const struct ws_model *model, const struct ws_place *place,
			struct frame_choices *choices)
{
	uint8_t marks = get_marks(model, place->function);
	struct ws_work_marks work;
	struct frame_choice *choice = &choices->user_native;

	if (marks & MARK_PYTHON) {
		choice = &choices->user_python;
		choose_frame(choices, place, &choices->any_python);
	}
	/* Code from a text may be the user's (python3 -c), or be made by a library (named tuples,
	 * managers): a file of the user's that calls it says more. */
	if ((marks & MARK_USERS) && (marks & MARK_PYTHON) && is_from_text(model, place)) {
		choose_frame(choices, place, &choices->made_python);
		return;
	}
	if ((marks & MARK_USERS) && !is_system_header(model, place->file)) {
		choose_frame(choices, place, choice);
		return;
	}
	work = get_work(model, place->function);
	choices->inside |= work.inside;
	if (choices->inside & work.around)
		choices->part = ws_find_work_part(choices->inside & work.around);
	if (says_more(model, choices, work.kind) ||
	    (choices->inside & work.around && ws_find_whole_work(choices->part) == work.kind))
		choices->work = work.kind;
	if (marks & MARK_TELLING)
		choices->called = place->function;
}

bool ws_code_is_users_function(const struct ws_model *model, const struct ws_place *place)
{
	return (get_marks(model, place->function) & MARK_USERS) &&
	       !is_system_header(model, place->file);
}

/* What the functions on a stack say about it. */
static void note_callers(const struct ws_model *model, const uint32_t *frames, size_t count,
			 struct ws_code_place *found)
{
	for (size_t i = 0; i < count; i++) {
		const struct ws_frame_info *info = ws_stacks_get_frame(model->stacks, frames[i]);
		uint8_t marks =
			get_marks(model, ws_stacks_get_places(model->stacks, info)->function);

		found->loader |= (marks & MARK_LOADER) != 0;
		if (marks & MARK_PACKING)
			found->library = WS_LIBRARY_PACKING;
		else if (marks & MARK_COMPILING)
			found->library = WS_LIBRARY_COMPILING;
		else if ((marks & MARK_LOOP) && !found->library)
			found->library = WS_LIBRARY_LOOP;
	}
}

static const char *find_last_part(const struct ws_function *function)
{
	const char *dot = strrchr(function->name, '.');

	return dot ? dot + 1 : function->name;
}

/* "read.<locals>.<lambda>", "Point.__eq__": functions that are mostly called back. */
static bool is_small_function(const struct ws_function *function)
{
	const char *name = find_last_part(function);

	return starts_with(name, "<lambda>") || starts_with(name, "<genexpr>") ||
	       (starts_with(name, "__") && strcmp(name, "__init__") && strcmp(name, "__call__"));
}

/*
 * Whether a function that was called back is a part of the work that called it. What only drives a
 * lambda or a generator expression (any, sum, sorted, filter) does not do what these ask for: other
 * well-known work, or functions of Python's libraries.
 */
static bool is_part_of_work(const struct ws_model *model, const struct frame_choice *called,
			    uint8_t work)
{
	const struct ws_function *function =
		ws_stacks_get_function(model->stacks, called->place.function);
	uint8_t calls = ws_get_work_kind(work)->calls;
	const char *name = find_last_part(function);
	bool yields = starts_with(name, "<genexpr>");

	if (calls == WS_CALLS_ANY)
		return true;
	if (calls == WS_CALLS_NONE || !is_small_function(function) ||
	    (yields && calls == WS_CALLS_COMPARING))
		return false;
	if (!yields && !starts_with(name, "<lambda>"))
		return true;
	return (!called->work || called->work == work) &&
	       !(get_marks(model, called->called) & MARK_PYTHON);
}

/*
 * The user's function that asked for work of which the innermost function of the user's is a part,
 * since the work calls it back: sorted() does so with a key, a list that is searched with __eq__.
 * `from` is the place of that function among the frames.
 */
static void look_behind_callback(const struct ws_model *model, const uint32_t *frames, size_t from,
				 size_t count, struct frame_choices *choices)
{
	struct frame_choices outer = {0};

	for (size_t i = from + 1; i < count && !outer.user_python.found && !outer.made_python.found;
	     i++) {
		const struct ws_frame_info *info = ws_stacks_get_frame(model->stacks, frames[i]);
		const struct ws_place *places = ws_stacks_get_places(model->stacks, info);

		for (uint32_t k = 0; k < info->count; k++)
			offer_frame(model, &places[k], &outer);
	}
	if (!outer.user_python.found || !outer.user_python.work)
		return;
	if (is_part_of_work(model, &choices->user_python, outer.user_python.work))
		choices->user_python = outer.user_python;
}

struct ws_code_place ws_code_place_frames(const struct ws_model *model, const uint32_t *frames,
					  size_t count)
{
	struct frame_choices choices = {0};
	const struct frame_choice *best = &choices.user_python;
	struct ws_code_place found = {0};

	for (size_t i = 0; i < count && !choices.user_python.found; i++) {
		const struct ws_frame_info *info = ws_stacks_get_frame(model->stacks, frames[i]);
		const struct ws_place *places = ws_stacks_get_places(model->stacks, info);

		if (!i)
			found.leaf = places[0].function;
		for (uint32_t k = 0; k < info->count; k++)
			offer_frame(model, &places[k], &choices);
		if (choices.user_python.found)
			look_behind_callback(model, frames, i, count, &choices);
	}
	if (!best->found)
		best = &choices.made_python;
	if (!best->found)
		best = &choices.any_python;
	found.python = best->found;
	note_callers(model, frames, count, &found);
	if (!best->found)
		best = &choices.user_native;
	found.function = found.leaf;
	found.users =
		choices.user_python.found || choices.made_python.found || choices.user_native.found;
	found.work = find_work(&choices);
	if (best->found) {
		found.function = best->place.function;
		found.file = best->place.file;
		found.line = best->place.line;
		found.called = best->called;
		found.work = best->work;
	}
	/* What ran below it may be any of a hundred functions. */
	if (found.called && found.leaf &&
	    ws_stacks_get_function(model->stacks, found.leaf)->kind != WS_FRAME_KERNEL)
		found.leaf = found.called;
	return found;
}

struct ws_code_place ws_code_find_place(const struct ws_model *model, uint32_t frame,
					uint32_t stack)
{
	uint32_t frames[WS_CODE_DEEPEST];
	size_t count = ws_stacks_list_frames(model->stacks, frame, stack, frames, WS_CODE_DEEPEST);

	return ws_code_place_frames(model, frames, count);
}

/* The outermost function of the user's on a stack; 0 for none. */
static uint32_t find_outermost(const struct ws_model *model, const uint32_t *frames, size_t count)
{
	while (count--) {
		const struct ws_frame_info *info =
			ws_stacks_get_frame(model->stacks, frames[count]);
		const struct ws_place *places = ws_stacks_get_places(model->stacks, info);

		for (uint32_t k = info->count; k--;)
			if ((get_marks(model, places[k].function) & MARK_USERS) &&
			    !is_system_header(model, places[k].file))
				return places[k].function;
	}
	return 0;
}

uint32_t ws_code_find_start(const struct ws_model *model, uint32_t thread)
{
	enum { TRIED = 100 };
	const struct ws_model_thread *facts = &model->threads[thread];
	const struct ws_samples *samples = &model->samples;
	uint32_t frames[WS_CODE_DEEPEST];

	for (size_t i = facts->first_sample;
	     i < facts->end_sample && i < facts->first_sample + TRIED; i++) {
		size_t count = ws_stacks_list_frames(model->stacks, samples->frame[i],
						     samples->callers[i], frames, WS_CODE_DEEPEST);
		uint32_t found = find_outermost(model, frames, count);

		if (found)
			return found;
	}
	return 0;
}

bool ws_code_is_users(const struct ws_model *model, const struct ws_code_place *place)
{
	const struct ws_function *function = ws_stacks_get_function(model->stacks, place->function);

	return place->users ||
	       (place->leaf && function->kind != WS_FRAME_KERNEL &&
		!ws_code_is_system_path(ws_stacks_get_origin(model->stacks, function)));
}

bool ws_code_is_system_program(const struct ws_model *model, uint32_t process)
{
	const struct ws_process_info *info = ws_find_process(model->who, process);

	return ws_code_is_system_path(info->exe) && strncmp(info->name, "python", 6) &&
	       strncmp(info->name, "pt_main", 7) && strcmp(info->name, "java") &&
	       strcmp(info->name, "node");
}

bool ws_code_is_same_place(const struct ws_code_place *left, const struct ws_code_place *right)
{
	return left->function == right->function && left->file == right->file &&
	       left->line == right->line && left->leaf == right->leaf &&
	       left->loader == right->loader && left->library == right->library &&
	       left->work == right->work;
}

static const char *find_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (slash)
		return slash + 1;
	return path;
}

/* "json" of "/usr/lib/python3.11/json/__init__.py". */
static void put_python_module(const char *path, struct ws_text *text)
{
	static const char *const roots[] = {"/site-packages/", "/dist-packages/"};
	const char *from = strstr(path, "/lib/python3"), *end = strstr(path, ".py");

	if (from)
		from = strchr(from + strlen("/lib/python3"), '/');
	for (size_t i = 0; i < WS_COUNT(roots); i++)
		if (strstr(path, roots[i]))
			from = strstr(path, roots[i]) + strlen(roots[i]) - 1;
	if (!from || !end || end <= from)
		return;
	if (starts_with(end - ws_min((size_t)(end - from), strlen("/__init__")), "/__init__"))
		end -= strlen("/__init__");
	for (const char *at = from + 1; at < end; at++)
		ws_text_add(text, *at == '/' ? "." : at, 1);
	ws_text_puts(text, ".");
}

/* The symbol of an operator ("<<", "->") is no bracket: what follows "operator". */
static const char *skip_operator(const char *at, const char *end)
{
	static const char *const symbols[] = {"<=>", "<<=", "<<", "<=", "<", "->*",
					      "->",  ">>=", ">>", ">=", ">", "()"};
	const char *word = "operator";

	if (!starts_with(at, word))
		return at;
	at += strlen(word);
	for (size_t i = 0; i < WS_COUNT(symbols); i++)
		if (starts_with(at, symbols[i]))
			return ws_min(at + strlen(symbols[i]), end);
	return ws_min(at, end);
}

/* Where the name of a C++ function begins, after what it returns, and where it ends. */
static void find_name(const char **name, const char **end)
{
	int depth = 0;

	for (const char *at = *name; at < *end; at++) {
		at = skip_operator(at, *end);
		if (at == *end)
			break;
		if (*at == '(' && !starts_with(at, "(anonymous namespace)") && !depth)
			*end = at;
		else if (*at == ' ' && at[1] != '<' && !depth)
			*name = at + 1;
		depth += (*at == '<') - (*at == '>');
	}
}

/* ---- stubs ---- */

/* Of a function's name alone: "drift" of "void body::drift<float>(float*, int)". */
static uint64_t hash_plain_name(const char *name, size_t len)
{
	const char *end = name + len, *bracket;
	uint64_t hash = 0;

	find_name(&name, &end);
	bracket = memchr(name, '<', (size_t)(end - name));
	if (bracket)
		end = bracket;
	for (const char *at = name; at < end; at++)
		if (*at == ':')
			name = at + 1;
	for (; name < end; name++)
		hash = ws_hash_word(hash, (uint8_t)*name);
	return hash;
}

static void list_kernels(const struct ws_model *model, struct ws_map *hashes)
{
	struct ws_map seen = {0};

	for (size_t gpu = 0; gpu < model->work.gpus; gpu++)
		for (size_t i = 0; i < model->work.gpu[gpu].count; i++) {
			uint32_t name = model->work.gpu[gpu].op[i].name;
			const char *text;

			if (!name || ws_map_get(&seen, name, NULL))
				continue;
			ws_map_set(&seen, name, 1);
			text = ws_report_string(model->report, name, NULL);
			ws_map_set(hashes, hash_plain_name(text, strlen(text)), 1);
		}
	ws_map_free(&seen);
}

void ws_code_pass_over_stubs(const struct ws_model *model)
{
	struct ws_map kernels = {0};

	list_kernels(model, &kernels);
	for (uint32_t i = 1; kernels.count && i <= ws_stacks_count_functions(model->stacks); i++) {
		const struct ws_function *function = ws_stacks_get_function(model->stacks, i);

		if (function->kind == WS_FRAME_USER && !function->unresolved &&
		    ws_map_get(&kernels, hash_plain_name(function->name, function->len), NULL))
			atomic_store_explicit(&model->marks[i], MARK_KNOWN, memory_order_relaxed);
	}
	ws_map_free(&kernels);
}

/* ---- texts ---- */

/* A C++ function without its parameters and those of its templates: "std::vector::erase". */
static void put_short_name(const struct ws_function *function, struct ws_text *text)
{
	const char *name = function->name, *end = name + function->len;
	int depth = 0;

	if (!strstr(name, "::") || *name == '<') {
		ws_text_add(text, name, function->len);
		return;
	}
	find_name(&name, &end);
	for (const char *at = name; at < end; at++) {
		const char *next = depth ? at : skip_operator(at, end);

		ws_text_add(text, at, (size_t)(next - at));
		at = next;
		if (at == end)
			break;
		depth += *at == '<';
		if (!depth && !starts_with(at, " <"))
			ws_text_add(text, at, 1);
		depth -= *at == '>';
	}
}

/* Which function the user's called says more than what ran in the kernel. */
static void put_leaf(const struct ws_model *model, const struct ws_code_place *place,
		     struct ws_text *text)
{
	const struct ws_function *function = ws_stacks_get_function(model->stacks, place->leaf);

	if (function->kind == WS_FRAME_KERNEL && place->called)
		function = ws_stacks_get_function(model->stacks, place->called);
	if (function->kind == WS_FRAME_PYTHON)
		put_python_module(ws_stacks_get_origin(model->stacks, function), text);
	put_short_name(function, text);
}

void ws_code_put_place(const struct ws_model *model, const struct ws_code_place *place,
		       struct ws_text *text)
{
	const struct ws_function *function = ws_stacks_get_function(model->stacks, place->function);

	if (!place->leaf) {
		ws_text_puts(text, "?");
		return;
	}
	ws_text_add(text, function->name, function->len);
	if (place->file) {
		ws_text_printf(text, " (%s",
			       find_base_name(ws_report_string(model->report, place->file, NULL)));
		if (place->line)
			ws_text_printf(text, ":%u", place->line);
		ws_text_puts(text, ")");
	}
	if (place->leaf != place->function) {
		ws_text_puts(text, ", in ");
		put_leaf(model, place, text);
	}
}
