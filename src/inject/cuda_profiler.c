/*
 * cuda_profiler.c - cudaProfilerStart, cudaProfilerStop and the driver's two, seen without CUPTI:
 * they begin and end collections even where CUDA is not recorded or not present.
 *
 * Programs reach these functions in three ways. They use their symbols: this library is preloaded,
 * so those below come first. They call dlsym (ctypes, numba): cuda_dlsym.c returns functions of
 * this file. Or, like a statically linked runtime, they call the driver's cuGetProcAddress: such
 * look-up functions are interposed in the same way. Where CUPTI reports the same call, it still
 * counts once, since a process has its range either on or off.
 *
 * A start counts after the call has been made, a stop before it is made, so the collection holds
 * everything between them. The call's result does not matter: the program has said what it wants
 * collected.
 */
#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "inject/bind.h"
#include "inject/capture.h"
#include "inject/cuda.h"

typedef int profiler_fn(void);
/* The older cuGetProcAddress has no `status` and ignores that argument. */
typedef int entry_fn(const char *name, void **entry, int version, uint64_t flags, void *status);

/* cudaErrorNotSupported: the result if no library has the function that was called. */
enum { NOT_SUPPORTED = 801 };
enum { PLACES = 4, PATH_ROOM = 512 };
enum { START_RUNTIME, STOP_RUNTIME, START_DRIVER, STOP_DRIVER, CALLS };

static const char *const names[CALLS] = {"cudaProfilerStart", "cudaProfilerStop", "cuProfilerStart",
					 "cuProfilerStop"};

static bool starts(int call)
{
	return call == START_RUNTIME || call == START_DRIVER;
}

static int make_call(int call, profiler_fn *fn)
{
	int rc = NOT_SUPPORTED;

	if (!starts(call))
		ws_capture_turn_profiler(false);
	if (fn)
		rc = fn();
	if (starts(call))
		ws_capture_turn_profiler(true);
	return rc;
}

/* ---- functions that were looked up by name ---- */

/* A program may have several runtimes: each of their functions takes a place, and a function that
 * finds none is not replaced. */
static _Atomic(void *) found[CALLS][PLACES], finders[PLACES];

#define CALL(call, place)                                                  \
	static int call##_##place(void)                                    \
	{                                                                  \
		return make_call(call, (profiler_fn *)found[call][place]); \
	}
#define CALL_PLACES(call) CALL(call, 0) CALL(call, 1) CALL(call, 2) CALL(call, 3)
CALL_PLACES(START_RUNTIME)
CALL_PLACES(STOP_RUNTIME)
CALL_PLACES(START_DRIVER)
CALL_PLACES(STOP_DRIVER)

#define LIST(call)                                     \
	{                                              \
		call##_0, call##_1, call##_2, call##_3 \
	}
static profiler_fn *const callers[CALLS][PLACES] = {LIST(START_RUNTIME), LIST(STOP_RUNTIME),
						    LIST(START_DRIVER), LIST(STOP_DRIVER)};

static int find_entry(entry_fn *finder, const char *name, void **entry, int version, uint64_t flags,
		      void *status)
{
	int rc = finder(name, entry, version, flags, status);

	if (!rc && name && entry && *entry && ws_cuda_stands_before(name))
		*entry = ws_cuda_stand_before(name, *entry);
	return rc;
}

#define FINDER(place)                                                                          \
	static int finder_##place(const char *name, void **entry, int version, uint64_t flags, \
				  void *status)                                                \
	{                                                                                      \
		return find_entry((entry_fn *)finders[place], name, entry, version, flags,     \
				  status);                                                     \
	}
FINDER(0)
FINDER(1)
FINDER(2)
FINDER(3)
static entry_fn *const finder_callers[PLACES] = {finder_0, finder_1, finder_2, finder_3};

/* The place of `theirs`, which is assigned if it has none yet; PLACES when all are taken. */
static int find_place(_Atomic(void *) *places, void *theirs)
{
	for (int i = 0; i < PLACES; i++) {
		void *none = NULL;

		if (atomic_load(&places[i]) == theirs ||
		    atomic_compare_exchange_strong(&places[i], &none, theirs) || none == theirs)
			return i;
	}
	return PLACES;
}

static bool finds_entries(const char *name)
{
	return !strcmp(name, "cuGetProcAddress") || !strcmp(name, "cuGetProcAddress_v2");
}

static int find_call(const char *name)
{
	int call = 0;

	while (call < CALLS && strcmp(name, names[call]))
		call++;
	return call;
}

bool ws_cuda_stands_before(const char *name)
{
	if (name[0] != 'c' || name[1] != 'u' || !(ws_rt->features & WS_FEATURE_PROFILER_CALLS))
		return false;
	return finds_entries(name) || find_call(name) < CALLS;
}

/* ---- the symbols ---- */

static void *(*open_library)(const char *, int);
static int (*close_library)(void *);
static int (*find_address)(const void *, Dl_info *);

static void bind_loader(void)
{
	if (find_address)
		return;
	open_library = ws_find_symbol("dlopen");
	close_library = ws_find_symbol("dlclose");
	find_address = ws_find_symbol("dladdr");
}

static bool is_own_symbol(void *fn);

/* The function of that name in a loaded library or in one that it needs. */
static void *find_in_library(const char *path, const char *name)
{
	void *library = open_library(path, RTLD_LAZY | RTLD_NOLOAD), *fn = NULL;

	if (library) {
		fn = ws_cuda_find_symbol(library, name);
		close_library(library);
	}
	return fn && is_own_symbol(fn) ? NULL : fn;
}

static int note_cuda_library(struct dl_phdr_info *info, size_t size, void *arg)
{
	const char *slash = strrchr(info->dlpi_name, '/'),
		   *file = slash ? slash + 1 : info->dlpi_name;

	(void)size;
	if ((strncmp(file, "libcudart", 9) && strncmp(file, "libcuda.so", 10)) ||
	    strlen(info->dlpi_name) >= PATH_ROOM)
		return 0;
	strcpy(arg, info->dlpi_name);
	return strncmp(file, "libcudart", 9) == 0;
}

/*
 * The function that `caller` would have reached without us. Libraries that Python loads are not in
 * the scope that RTLD_NEXT searches, so the libraries that the caller's own library needs are
 * searched, too, and finally any loaded CUDA library.
 */
static profiler_fn *find_next(int call, const void *caller)
{
	char path[PATH_ROOM] = "";
	Dl_info info;
	void *fn = ws_cuda_find_symbol(RTLD_NEXT, names[call]);

	bind_loader();
	if (fn || !open_library || !close_library || !find_address)
		return (profiler_fn *)fn;
	if (caller && find_address(caller, &info) && info.dli_fname)
		fn = find_in_library(info.dli_fname, names[call]);
	if (!fn && dl_iterate_phdr(note_cuda_library, path))
		fn = find_in_library(path, names[call]);
	return (profiler_fn *)fn;
}

#define SYMBOL(name, call)                                                            \
	WS_EXPORT int name(void);                                                     \
	WS_EXPORT int name(void)                                                      \
	{                                                                             \
		return make_call(call, find_next(call, __builtin_return_address(0))); \
	}
SYMBOL(cudaProfilerStart, START_RUNTIME)
SYMBOL(cudaProfilerStop, STOP_RUNTIME)
SYMBOL(cuProfilerStart, START_DRIVER)
SYMBOL(cuProfilerStop, STOP_DRIVER)

static bool is_own_symbol(void *fn)
{
	return fn == (void *)cudaProfilerStart || fn == (void *)cudaProfilerStop ||
	       fn == (void *)cuProfilerStart || fn == (void *)cuProfilerStop;
}

void *ws_cuda_stand_before(const char *name, void *theirs)
{
	int call = find_call(name), place;

	if (!theirs)
		return NULL;
	/* The global scope always has ours, so the function exists only if another library has it.
	 */
	if (is_own_symbol(theirs))
		return find_next(call, NULL) ? theirs : NULL;
	place = find_place(call < CALLS ? found[call] : finders, theirs);
	if (place == PLACES)
		return theirs;
	return call < CALLS ? (void *)callers[call][place] : (void *)finder_callers[place];
}
