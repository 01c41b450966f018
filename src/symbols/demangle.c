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
	char *s = NULL;

	if (strlen(mangled) <= LONGEST) {
		/* Old names of Rust are those of C++ with a hash at their end, which is left out.
		 */
		s = rust_demangle(mangled, options);
		if (!s)
			s = cplus_demangle_v3(mangled, options);
		if (!s && mangled[0] == '_' && mangled[1] == 'D')
			s = dlang_demangle(mangled, options);
	}
	return s ? s : ws_strdup(mangled);
}

char *ws_demangle(const char *mangled)
{
	return demangle(mangled, DMGL_PARAMS | DMGL_ANSI | DMGL_TYPES);
}

/* Is the character part of an operator's name: operator<<, operator()? */
static int is_operator(const char *s, const char *at)
{
	while (at > s && (at[-1] == '<' || at[-1] == '>' || at[-1] == '=' || at[-1] == '-'))
		at--;
	return at - s >= 8 && !memcmp(at - 8, "operator", 8);
}

/* Where the last component of a qualified name begins, and where its template arguments do. */
static void last_component(const char *s, const char **begin, const char **end)
{
	int depth = 0;

	*begin = s;
	*end = s + strlen(s);
	for (const char *p = s; *p; p++) {
		if ((*p == '<' || *p == '(') && !is_operator(s, p)) {
			if (!depth++ && *end > p)
				*end = p;
		} else if (depth && (*p == '>' || *p == ')') && p[-1] != '-') {
			depth--;
		} else if (!depth && (p[0] == ' ' || (p[0] == ':' && p[1] == ':')) &&
			   !(p[0] == ' ' && is_operator(s, p))) {
			*begin = p + (p[0] == ' ' ? 1 : 2);
			*end = s + strlen(s);
		}
	}
}

char *ws_demangle_short(const char *mangled)
{
	char *s = demangle(mangled, DMGL_NO_OPTS), *out;
	const char *begin, *end;

	last_component(s, &begin, &end);
	out = end > begin ? ws_strndup(begin, (size_t)(end - begin)) : ws_strdup(s);
	free(s);
	return out;
}
