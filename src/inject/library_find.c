/*
 * library_find.c - see library.h: finds the functions behind the wrappers, and gives the wrappers
 * to programs that look functions up. Hooks that are layers of a loader go without: it tells them.
 */
#include "inject/library.h"

#include <dlfcn.h>
#include <errno.h>

#include "base/choose.h"
#include "inject/behind.h"
#include "inject/bind.h"
#include "inject/dlsym_jump.h"

/* ---- the functions behind ---- */

/*
 * The library must not be unloaded while wrappers keep addresses in it: a program that closes and
 * opens it again may find it elsewhere.
 */
static void keep_library(const struct link_map *library)
{
	void *(*open)(const char *, int) = ws_find_symbol("dlopen");

	if (open && library->l_name && *library->l_name)
		open(library->l_name, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
}

static const char *get_file_name(const struct link_map *library)
{
	const char *base = library->l_name ? strrchr(library->l_name, '/') : NULL;

	if (base)
		return base + 1;
	return ws_text_or(library->l_name, "");
}

static bool is_library_file(const struct link_map *library)
{
	const char *name = get_file_name(library);

	for (const char *const *file = ws_library_files; *file; file++)
		if (!strncmp(name, *file, strlen(*file)))
			return true;
	return false;
}

/* Programs have variables with the names of OpenGL's functions, so its functions are looked for
 * only in its files. */
static void *find_behind(const char *name, const struct link_map **owner)
{
	const struct link_map *map = ws_find_first_behind();
	void *found;

	while ((found = ws_find_from_library(map, name, owner)) && ws_library_pointers &&
	       !is_library_file(*owner))
		map = (*owner)->l_next;
	return found;
}

void *ws_library_resolve(unsigned i)
{
	struct ws_library_behind *behind = &ws_library_behinds[i];
	const struct link_map *owner;
	int error = errno;
	void *real = find_behind(behind->name, &owner);

	if (real) {
		keep_library(owner);
		if (ws_library_prepare)
			ws_library_prepare();
		atomic_store_explicit(&behind->real, real, memory_order_release);
	}
	errno = error;
	return real;
}

void *ws_library_find(const char *name)
{
	const struct link_map *owner;

	return find_behind(name, &owner);
}

void *ws_library_find_once(void *_Atomic *known, const char *name)
{
	void *function = atomic_load_explicit(known, memory_order_relaxed);

	if (!function) {
		function = ws_library_find(name);
		atomic_store_explicit(known, function, memory_order_relaxed);
	}
	return function;
}

bool ws_library_is_in(const char *name, const char *file)
{
	const struct link_map *owner;

	return ws_find_from_library(ws_find_first_behind(), name, &owner) &&
	       !strncmp(get_file_name(owner), file, strlen(file));
}

void *ws_library_find_variable(const char *name)
{
	return ws_find_from_library(_r_debug.r_map, name, NULL);
}

/* ---- dlsym ---- */

static ws_dlsym_fn *real_dlsym;

static ws_dlsym_fn *find_real_dlsym(void)
{
	if (!real_dlsym)
		real_dlsym = ws_find_next_dlsym();
	return real_dlsym;
}

/* The wrapper of a pointer calls only what the pointer was when it was first seen. */
static void *wrap_pointer(struct ws_library_behind *behind, void *theirs)
{
	struct ws_library_behind *pointer = behind + 1;
	void *none = NULL;

	if (!theirs || theirs == behind->own || theirs == pointer->own)
		return theirs;
	if (atomic_compare_exchange_strong(&pointer->real, &none, theirs) || none == theirs)
		return pointer->own;
	return theirs;
}

void *ws_library_wrap_pointer(const char *name, void *theirs)
{
	struct ws_library_behind *behind = NULL;

	if (name && ws_library_pointers)
		behind = ws_library_find_wrapped(name);
	return behind ? wrap_pointer(behind, theirs) : theirs;
}

/*
 * Programs that look the library's functions up by name get the wrappers, too, unless the function
 * that they found is not the one that the wrapper calls. If the library is not there they find
 * nothing, as they would without us.
 */
__attribute__((used)) static void *find_wrapper(void *handle, const char *name)
{
	struct ws_library_behind *behind = ws_library_find_wrapped(name);
	void *theirs = find_real_dlsym()(handle, name), *real = NULL;

	if (!theirs)
		return NULL;
	/* ours was found first; theirs is expected in the same scope */
	if (theirs == behind->own)
		return ws_find_next_symbol(name) ? theirs : NULL;
	real = ws_library_find_behind((unsigned)(behind - ws_library_behinds));
	if (theirs == real)
		return behind->own;
	return ws_library_pointers ? wrap_pointer(behind, theirs) : theirs;
}

__attribute__((visibility("hidden"), used)) ws_dlsym_fn *ws_dlsym_whose(void *handle,
									const char *name)
{
	if (name && handle != RTLD_NEXT && ws_library_find_wrapped(name))
		return find_wrapper;
	return find_real_dlsym();
}

WS_DLSYM_JUMP
