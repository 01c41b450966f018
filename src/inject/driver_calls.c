/*
 * driver_calls.c - see driver_calls.h. Each call has a wrapper of its name, which is found instead
 * of the driver's where a program is linked with libcuda. Our dlsym and our cuGetProcAddress return
 * the wrapper in place of the driver's function, which they recognise by its address: names do not
 * tell, since cuGetProcAddress chooses among versions and forms of a call.
 */
#include "inject/driver_calls.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "inject/dlsym_jump.h"

typedef uint64_t word;
typedef int driver_fn(word, word, word, word, word, word, word, word, word, word, word);

#define TAKEN word a, word b, word c, word d, word e, word f, word g, word h, word i, word j, word k
#define PASSED a, b, c, d, e, f, g, h, i, j, k

enum {
#define X(name) CALL_##name,
#include "inject/driver_calls.def"
#undef X
	CALLS
};

#define X(name) WS_EXPORT int name(TAKEN);
#include "inject/driver_calls.def"
#undef X
/* Both have the same parameters but for the last, which the older one lacks. */
WS_EXPORT int cuGetProcAddress(const char *name, void **function, word version, word flags);
WS_EXPORT int cuGetProcAddress_v2(const char *name, void **function, word version, word flags,
				  word found);

static const char *const names[] = {
#define X(name) #name,
#include "inject/driver_calls.def"
#undef X
};

static driver_fn *const wrappers[] = {
#define X(name) name,
#include "inject/driver_calls.def"
#undef X
};

static driver_fn *_Atomic reals[CALLS]; /* the driver's; NULL: not known (yet) */
static _Atomic(void *) real_finders[2]; /* cuGetProcAddress, and its second version */
static _Atomic bool resolved;
static ws_dlsym_fn *real_dlsym;
static const struct ws_driver_listener *_Atomic listener;
static char gap[128]; /* why calls may go unseen */
static _Atomic bool has_gap;

/* ---- the driver's functions ---- */

static void *find_symbol(void *library, const char *name)
{
	if (!real_dlsym)
		real_dlsym = ws_find_next_dlsym();
	return real_dlsym ? real_dlsym(library, name) : NULL;
}

/* Once the program has loaded it. */
static bool resolve(void)
{
	void *(*open_lib)(const char *, int), *lib;

	if (atomic_load_explicit(&resolved, memory_order_acquire))
		return true;
	open_lib = (void *(*)(const char *, int))find_symbol(RTLD_DEFAULT, "dlopen");
	lib = open_lib ? open_lib("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) : NULL;
	if (!lib)
		return false;
	for (size_t i = 0; i < CALLS; i++)
		atomic_store(&reals[i], (driver_fn *)find_symbol(lib, names[i]));
	atomic_store(&real_finders[0], find_symbol(lib, "cuGetProcAddress"));
	atomic_store(&real_finders[1], find_symbol(lib, "cuGetProcAddress_v2"));
	atomic_store_explicit(&resolved, true, memory_order_release);
	return true;
}

static int find_name(const char *name)
{
	size_t from = 0, to = CALLS;

	while (from < to) {
		size_t middle = (from + to) / 2;
		int order = strcmp(name, names[middle]);

		if (!order)
			return (int)middle;
		if (order < 0)
			to = middle;
		else
			from = middle + 1;
	}
	return -1;
}

/* The wrapper of a function of the driver's; other functions are returned as they are. */
static void *find_wrapper(void *function)
{
	void *ours[] = {(void *)cuGetProcAddress, (void *)cuGetProcAddress_v2};

	for (size_t i = 0; i < 2 && function; i++)
		if (function == atomic_load_explicit(&real_finders[i], memory_order_relaxed))
			return ours[i];
	for (size_t i = 0; i < CALLS && function; i++)
		if (function == (void *)atomic_load_explicit(&reals[i], memory_order_relaxed))
			return (void *)wrappers[i];
	return function;
}

static void *strip(void *function)
{
	for (size_t i = 0; i < CALLS && function; i++)
		if (function == (void *)wrappers[i])
			return (void *)atomic_load(&reals[i]);
	return function;
}

/* ---- calls ---- */

enum { NOT_FOUND = 500 }; /* CUDA_ERROR_NOT_FOUND */

/* The listener is asked for once: calls that it has been told of end with it. */
static inline __attribute__((always_inline)) int make_call(unsigned call, TAKEN)
{
	const struct ws_driver_listener *told =
		atomic_load_explicit(&listener, memory_order_acquire);
	driver_fn *real = atomic_load_explicit(&reals[call], memory_order_relaxed);
	word words[] = {PASSED};
	int result;

	if (!real) {
		resolve();
		real = atomic_load(&reals[call]);
	}
	if (!real)
		return NOT_FOUND;
	if (!told)
		return real(PASSED);
	told->enter(call, words);
	result = real(PASSED);
	told->leave(call, words, result);
	return result;
}

#define X(name)                                        \
	int name(TAKEN)                                \
	{                                              \
		return make_call(CALL_##name, PASSED); \
	}
#include "inject/driver_calls.def"
#undef X

/* Whether a call of that name, in one of its versions or forms, is one of ours. */
static bool is_ours(const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < CALLS; i++)
		if (!strncmp(names[i], name, n) &&
		    (!names[i][n] || !strncmp(names[i] + n, "_v2", 3) ||
		     !strncmp(names[i] + n, "_pt", 3)))
			return true;
	return false;
}

static void note_gap(const char *name)
{
	static const char text[] = "the driver gives programs another function than its symbol ";

	if (atomic_load(&has_gap) || strlen(name) + sizeof(text) > sizeof(gap))
		return;
	strcpy(stpcpy(gap, text), name);
	atomic_store(&has_gap, true);
}

/* What the driver has found for a program. */
static void replace(const char *name, void **function)
{
	void *wrapper;

	if (!function || !*function || !name)
		return;
	wrapper = find_wrapper(*function);
	if (wrapper == *function && is_ours(name))
		note_gap(name);
	*function = wrapper;
}

int cuGetProcAddress(const char *name, void **function, word version, word flags)
{
	int (*real)(const char *, void **, word, word);
	void *found;
	int result;

	resolve();
	found = atomic_load(&real_finders[0]);
	if (!found)
		return NOT_FOUND;
	memcpy(&real, &found, sizeof(real));
	result = real(name, function, version, flags);
	if (!result)
		replace(name, function);
	return result;
}

int cuGetProcAddress_v2(const char *name, void **function, word version, word flags, word state)
{
	int (*real)(const char *, void **, word, word, word);
	void *found;
	int result;

	resolve();
	found = atomic_load(&real_finders[1]);
	if (!found)
		return NOT_FOUND;
	memcpy(&real, &found, sizeof(real));
	result = real(name, function, version, flags, state);
	if (!result)
		replace(name, function);
	return result;
}

/* ---- dlsym ---- */

static bool is_wrapped(const char *name)
{
	return !strncmp(name, "cu", 2) &&
	       (!strncmp(name, "cuGetProcAddress", 16) || find_name(name) >= 0);
}

/* The default scope has ours first, which must not seem to be there where the driver is not. */
__attribute__((visibility("hidden"), used)) void *ws_dlsym_driver(void *handle, const char *name)
{
	void *theirs = find_symbol(handle, name);

	if (!theirs || !resolve())
		return handle == RTLD_DEFAULT ? NULL : theirs;
	return strip(theirs) ? find_wrapper(theirs) : NULL;
}

__attribute__((visibility("hidden"), used)) ws_dlsym_fn *ws_dlsym_whose(void *handle,
									const char *name)
{
	if (name && handle != RTLD_NEXT && is_wrapped(name))
		return ws_dlsym_driver;
	if (!real_dlsym)
		real_dlsym = ws_find_next_dlsym();
	return real_dlsym;
}

WS_DLSYM_JUMP

/* ---- the kernel hook ---- */

static void listen(const struct ws_driver_listener *wanted)
{
	resolve();
	atomic_store_explicit(&listener, wanted, memory_order_release);
}

static const char *find_gap(void)
{
	if (!resolve())
		return "the driver is not there under its name libcuda.so.1";
	if (!atomic_load(&reals[CALL_cuLaunchKernel]))
		return "the driver has no cuLaunchKernel";
	return atomic_load(&has_gap) ? gap : NULL;
}

const struct ws_driver_calls *ws_driver_calls(void)
{
	static const struct ws_driver_calls calls = {CALLS, names, listen, strip, find_gap};

	return &calls;
}
