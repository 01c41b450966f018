/*
 * kernel_name.c - names of functions as people write them, for filters by name. The program's C++
 * library demangles them. CUDA programs without one are rare; their functions keep their mangled
 * names or get the plain name inside.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "inject/bind.h"
#include "inject/kernel.h"

typedef char *demangle_fn(const char *mangled, char *out, size_t *bytes, int *status);

static demangle_fn *find_demangler(void)
{
	void *(*open_lib)(const char *, int) = ws_find_symbol("dlopen");
	demangle_fn *found = ws_find_symbol("__cxa_demangle");
	void *lib = NULL;

	if (!found && open_lib)
		lib = open_lib("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
	if (lib)
		found = ws_find_symbol_in(lib, "__cxa_demangle");
	return found;
}

/* _Z5scalePffi becomes scale. */
static void copy_plain_name(const char *mangled, char *out, size_t room)
{
	const char *name = mangled;
	char *end;
	unsigned long length;

	if (strncmp(mangled, "_Z", 2) || mangled[2] < '1' || mangled[2] > '9') {
		snprintf(out, room, "%s", name);
		return;
	}
	length = strtoul(mangled + 2, &end, 10);
	if (length > strlen(end))
		snprintf(out, room, "%s", mangled);
	else
		snprintf(out, room, "%.*s", (int)length, end);
}

void ws_kernel_demangle(const char *mangled, char *out, size_t room)
{
	static demangle_fn *demangle;
	static bool searched;
	int status = -1;
	char *text = NULL;

	if (!searched)
		demangle = find_demangler();
	searched = true;
	if (demangle && !strncmp(mangled, "_Z", 2))
		text = demangle(mangled, NULL, NULL, &status);
	if (text && !status)
		snprintf(out, room, "%s", text);
	else
		copy_plain_name(mangled, out, room);
	free(text);
}

static bool ends_in_operator(const char *text, const char *at)
{
	while (at > text && strchr("<>=-", at[-1]))
		at--;
	return at - text >= 8 && !memcmp(at - 8, "operator", 8);
}

/* The part between the last "::" or blank and the arguments of the template or function. */
void ws_kernel_short_name(const char *demangled, char *out, size_t room)
{
	const char *begin = demangled, *end = NULL;
	int depth = 0;

	for (const char *at = demangled; *at; at++) {
		if ((*at == '<' || *at == '(') && !ends_in_operator(demangled, at)) {
			if (!strncmp(at, "(anonymous namespace)", 21)) {
				at += 20;
				continue;
			}
			if (!depth++ && !end)
				end = at;
		} else if (depth && (*at == '>' || *at == ')') && at[-1] != '-') {
			depth--;
		} else if (!depth && (at[0] == ' ' || (at[0] == ':' && at[1] == ':')) &&
			   !(end && *end == '(')) {
			at += at[0] == ':';
			begin = at + 1;
			end = NULL;
		}
	}
	if (!end || end <= begin)
		end = begin + strlen(begin);
	snprintf(out, room, "%.*s", (int)(end - begin), begin);
}
