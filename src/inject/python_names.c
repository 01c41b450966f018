/*
 * python_names.c - what a code object is called, for versions whose code does not say so (up to
 * 3.10, where only function objects have a qualified name).
 *
 * A qualified name is a path: from the globals of the module through classes and functions to the
 * function. This walks the path that the user wrote and looks whether it leads to the code object.
 * Classes are searched for attributes. Functions may be hidden by what decorators put in their
 * place: static and class methods, properties, wrappers with __wrapped__ or with the function in
 * their closure. What is defined inside a function is found among the constants of its code.
 *
 * Nothing of the program's is run: attributes are read by the plain lookup, whatever the object's
 * class does itself, and only of types of the interpreter's own, __wrapped__ excepted.
 */
#include <string.h>

#include "inject/python_functions.h"

#define MOST_WRAPPERS 8
#define MOST_CELLS 16

struct name_search {
	const char *path; /* from the object that is looked at on */
	const ws_py_object *code;
};

static ws_py_object *get_type(const ws_py_object *it)
{
	ws_py_object *type;

	memcpy(&type, (const char *)it + sizeof(long), sizeof(type)); /* ob_type */
	return type;
}

/* A new reference, or NULL. */
static ws_py_object *get_attribute(ws_py_object *it, const char *name)
{
	ws_py_object *text = ws_py.InternText(name), *value = NULL;

	if (text) {
		value = ws_py.GenericGetAttr(it, text);
		ws_py.DecRef(text);
	}
	if (!value)
		ws_py.Clear();
	return value;
}

/* Length of the first part of a path. */
static size_t measure_part(const char *path)
{
	return strcspn(path, ".");
}

/* The path behind its first part and behind "<locals>"; "" at its end. */
static const char *skip_part(const char *path)
{
	static const char locals[] = "<locals>.";

	path += measure_part(path);
	path += *path == '.';
	if (!strncmp(path, locals, sizeof(locals) - 1))
		path += sizeof(locals) - 1;
	return path;
}

static bool is_part(const char *path, const char *name)
{
	size_t length = measure_part(path);

	return !strncmp(path, name, length) && !name[length];
}

/* Whether the path leads from `code`, which its first part must name, to the code searched for. */
static bool leads_from_code(ws_py_object *code, const struct name_search *search)
{
	const char *name = ws_python_read_code_text(code, ws_python.layout.code_name);
	struct name_search inner = {skip_part(search->path), search->code};
	ws_py_object *consts;
	bool found = false;

	if (!name || !is_part(search->path, name))
		return false;
	if (!*inner.path)
		return code == search->code;
	consts = get_attribute(code, "co_consts");
	for (long i = 0; consts && !found && i < ws_py.TupleSize(consts); i++) {
		ws_py_object *value = ws_py.TupleItem(consts, i);

		if (value && get_type(value) == get_type(code))
			found = leads_from_code(value, &inner);
	}
	if (consts)
		ws_py.DecRef(consts);
	return found;
}

static bool leads_from_object(ws_py_object *it, const struct name_search *search, int depth);

static bool leads_from_attribute(ws_py_object *it, const char *name,
				 const struct name_search *search, int depth)
{
	ws_py_object *value = get_attribute(it, name);
	bool found;

	if (!value)
		return false;
	found = leads_from_object(value, search, depth);
	ws_py.DecRef(value);
	return found;
}

/* The functions that a wrapper made by a decorator holds in its closure. */
static bool leads_from_closure(ws_py_object *function, const struct name_search *search, int depth)
{
	ws_py_object *cells = get_attribute(function, "__closure__");
	bool found = false;
	long n;

	if (!cells)
		return false;
	n = ws_py.TupleSize(cells); /* -1 for None */
	if (n < 0)
		ws_py.Clear();
	for (long i = 0; !found && i < n && i < MOST_CELLS; i++) {
		ws_py_object *value = get_attribute(ws_py.TupleItem(cells, i), "cell_contents");

		if (!value)
			continue;
		if (get_type(value) == ws_py.Function)
			found = leads_from_object(value, search, depth);
		ws_py.DecRef(value);
	}
	ws_py.DecRef(cells);
	return found;
}

static bool leads_from_function(ws_py_object *function, const struct name_search *search, int depth)
{
	ws_py_object *code = get_attribute(function, "__code__");
	bool found = false;

	if (code) {
		found = leads_from_code(code, search);
		ws_py.DecRef(code);
	}
	return found || leads_from_attribute(function, "__wrapped__", search, depth) ||
	       leads_from_closure(function, search, depth);
}

static bool leads_from_type(ws_py_object *type, const struct name_search *search, int depth)
{
	struct name_search inner = {skip_part(search->path), search->code};
	ws_py_object *dict, *key, *value = NULL;
	char name[256];
	size_t length = measure_part(inner.path);
	bool found;

	if (!length || length >= sizeof(name))
		return false;
	memcpy(name, inner.path, length);
	name[length] = 0;
	dict = get_attribute(type, "__dict__");
	key = dict ? ws_py.InternText(name) : NULL;
	if (key) {
		value = ws_py.GetItem(dict, key);
		ws_py.DecRef(key);
	}
	if (dict)
		ws_py.DecRef(dict);
	if (!value) {
		ws_py.Clear();
		return false;
	}
	found = leads_from_object(value, &inner, depth);
	ws_py.DecRef(value);
	return found;
}

/* Whether the path leads from `it`, which is what its first part names, to the code. */
static bool leads_from_object(ws_py_object *it, const struct name_search *search, int depth)
{
	const ws_py_object *type = get_type(it);

	if (--depth < 0)
		return false;
	if (type == ws_py.Function)
		return leads_from_function(it, search, depth);
	if (type == ws_py.StaticMethod || type == ws_py.ClassMethod)
		return leads_from_attribute(it, "__func__", search, depth);
	if (type == ws_py.Property)
		return leads_from_attribute(it, "fget", search, depth);
	if (ws_py.IsSubtype(get_type(it), ws_py.Type))
		return leads_from_type(it, search, depth);
	return leads_from_attribute(it, "__wrapped__", search, depth);
}

bool ws_python_is_named(ws_py_object *globals, const char *path, const ws_py_object *code)
{
	struct name_search search = {path, code};
	size_t length = measure_part(path);
	ws_py_object *it;
	char name[256];
	bool found;

	if (length >= sizeof(name))
		return false;
	memcpy(name, path, length);
	name[length] = 0;
	it = ws_py.DictItem(globals, name);
	if (!it) {
		ws_py.Clear();
		return false;
	}
	ws_py.IncRef(it);
	found = leads_from_object(it, &search, MOST_WRAPPERS);
	ws_py.DecRef(it);
	return found;
}
