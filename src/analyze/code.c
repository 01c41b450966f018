/* code.c - see code.h. */
#include "analyze/code.h"

#include <stdatomic.h>
#include <string.h>

#include "base/choose.h"

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

static bool is_system_path(const char *path)
{
	static const char *const beginnings[] = {"/lib",      "/usr/lib",	 "/usr/local/lib",
						 "/usr/bin/", "/usr/local/cuda", "/opt/conda",
						 "/bin/",     "/usr/sbin/",	 "/sbin/",
						 "["};
	static const char *const parts[] = {"/site-packages/", "/dist-packages/", "/lib/python3",
					    "/bin/python",     "libcuda",	  "libcublas",
					    "libcudnn",	       "libtorch",	  "libc10",
					    "libwarpsight",    "<frozen",	  "libpython"};

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
	bool found;
};

/* The innermost frames of each kind so far. */
struct frame_choices {
	struct frame_choice user_python, user_native, any_python;
};

/* The static runtime of CUDA is part of the program, but not the user's. */
static bool is_runtime_function(const char *name)
{
	return starts_with(name, "cuda") || starts_with(name, "libcudart_static") ||
	       starts_with(name, "__cuda") || starts_with(name, "__device_stub__");
}

/* Templates and inline functions of the C++ library are compiled into the user's program, but are
 * not the user's code. */
static bool is_system_header(const struct ws_model *model, uint32_t file)
{
	static const char *const parts[] = {"/include/c++/",   "/include/bits/",
					    "/usr/include/",   "/lib/gcc/",
					    "/include/cuda",   "/include/thrust/",
					    "/include/cub/",   "/cuda/include/",
					    "-linux/include/", NULL};

	return file && contains_any(ws_report_string(model->report, file, NULL), parts);
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
};

static uint8_t mark_library(const char *origin)
{
	static const char *const loaders[] = {"/torch/utils/data/", "/tensorflow/python/data/",
					      "/webdataset/",	    "/nvidia/dali/",
					      "/mxnet/gluon/data/", NULL};
	static const char *const packers[] = {"/multiprocessing/reduction.py",
					      "/multiprocessing/connection.py",
					      "/multiprocessing/queues.py", "/pickle.py", NULL};
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
						NULL};
	uint8_t marks = 0;

	if (contains_any(origin, loaders))
		marks |= MARK_LOADER;
	if (contains_any(origin, packers))
		marks |= MARK_PACKING;
	else if (contains_any(origin, compilers))
		marks |= MARK_COMPILING;
	return marks;
}

static uint8_t mark_function(const struct ws_model *model, const struct ws_function *function)
{
	const char *origin = ws_stacks_get_origin(model->stacks, function);
	uint8_t marks = MARK_KNOWN;

	if (function->kind == WS_FRAME_KERNEL)
		return marks;
	marks |= mark_library(origin);
	if (function->unresolved)
		return marks;
	if (is_loader_function(function->name))
		marks |= MARK_LOADER;
	if (!is_system_path(origin) && !is_runtime_function(function->name))
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

static void offer_frame(const struct ws_model *model, const struct ws_place *place,
			struct frame_choices *choices)
{
	const struct ws_function *function = ws_stacks_get_function(model->stacks, place->function);
	struct frame_choice *choice = &choices->user_native;

	if (function->kind == WS_FRAME_PYTHON) {
		choice = &choices->user_python;
		if (!choices->any_python.found)
			choices->any_python = (struct frame_choice){*place, true};
	}
	if (!choice->found && (get_marks(model, place->function) & MARK_USERS) &&
	    !is_system_header(model, place->file))
		*choice = (struct frame_choice){*place, true};
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
	}
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
	}
	if (!best->found)
		best = &choices.any_python;
	found.python = best->found;
	note_callers(model, frames, count, &found);
	if (!best->found)
		best = &choices.user_native;
	found.function = found.leaf;
	found.users = choices.user_python.found || choices.user_native.found;
	if (best->found) {
		found.function = best->place.function;
		found.file = best->place.file;
		found.line = best->place.line;
	}
	return found;
}

struct ws_code_place ws_code_find_place(const struct ws_model *model, uint32_t frame,
					uint32_t stack)
{
	uint32_t frames[WS_CODE_DEEPEST];
	size_t count = ws_stacks_list_frames(model->stacks, frame, stack, frames, WS_CODE_DEEPEST);

	return ws_code_place_frames(model, frames, count);
}

bool ws_code_is_users(const struct ws_model *model, const struct ws_code_place *place)
{
	const struct ws_function *function = ws_stacks_get_function(model->stacks, place->function);

	return place->users || (place->leaf && function->kind != WS_FRAME_KERNEL &&
				!is_system_path(ws_stacks_get_origin(model->stacks, function)));
}

bool ws_code_is_system_program(const struct ws_model *model, uint32_t process)
{
	const struct ws_process_info *info = ws_find_process(model->who, process);

	return is_system_path(info->exe) && strncmp(info->name, "python", 6) &&
	       strncmp(info->name, "pt_main", 7);
}

static const char *find_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (slash)
		return slash + 1;
	return path;
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
		function = ws_stacks_get_function(model->stacks, place->leaf);
		ws_text_puts(text, ", in ");
		ws_text_add(text, function->name, function->len);
	}
}
