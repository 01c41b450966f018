/* demangle.c - see demangle.h. Names are bounded before: what a hostile report makes of the
 * demangler costs time and no more. */
#include "symbols/demangle.h"

#if WS_HAVE_IBERTY
#include <libiberty/demangle.h>
#endif
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define LONGEST 16000

/* Without libiberty (some cross builds) names stay as they are. */
#if !WS_HAVE_IBERTY
enum { DMGL_NO_OPTS, DMGL_PARAMS, DMGL_ANSI, DMGL_TYPES };

static char *cplus_demangle_v3(const char *mangled, int options)
{
	(void)mangled;
	(void)options;
	return NULL;
}
#define rust_demangle cplus_demangle_v3
#define dlang_demangle cplus_demangle_v3
#endif

static char *demangle(const char *mangled, int options)
{
	char *text = NULL;

	if (strlen(mangled) <= LONGEST) {
		/* Old names of Rust are those of C++ with a hash at their end, which is left out.
		 */
		text = rust_demangle(mangled, options);
		if (!text)
			text = cplus_demangle_v3(mangled, options);
		if (!text && mangled[0] == '_' && mangled[1] == 'D')
			text = dlang_demangle(mangled, options);
	}
	return text ? text : ws_strdup(mangled);
}

char *ws_demangle(const char *mangled)
{
	return demangle(mangled, DMGL_PARAMS | DMGL_ANSI | DMGL_TYPES);
}

/* Is the character part of an operator's name: operator<<, operator()? */
static int is_operator(const char *text, const char *at)
{
	while (at > text && (at[-1] == '<' || at[-1] == '>' || at[-1] == '=' || at[-1] == '-'))
		at--;
	return at - text >= 8 && !memcmp(at - 8, "operator", 8);
}

/* Where the last component of a qualified name begins, and where its template arguments do. */
static void last_component(const char *text, const char **begin, const char **end)
{
	int depth = 0;

	*begin = text;
	*end = text + strlen(text);
	for (const char *at = text; *at; at++) {
		if ((*at == '<' || *at == '(') && !is_operator(text, at)) {
			if (!depth++ && *end > at)
				*end = at;
		} else if (depth && (*at == '>' || *at == ')') && at[-1] != '-') {
			depth--;
		} else if (!depth && (at[0] == ' ' || (at[0] == ':' && at[1] == ':')) &&
			   !(at[0] == ' ' && is_operator(text, at))) {
			*begin = at + (at[0] == ' ' ? 1 : 2);
			*end = text + strlen(text);
		}
	}
}

char *ws_demangle_short(const char *mangled)
{
	char *text = demangle(mangled, DMGL_NO_OPTS), *out;
	const char *begin, *end;

	last_component(text, &begin, &end);
	out = end > begin ? ws_strndup(begin, (size_t)(end - begin)) : ws_strdup(text);
	free(text);
	return out;
}
