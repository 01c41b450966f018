/* demangle.c - see demangle.h. The length of names is bounded, so that a hostile report costs
 * the demangler no more than time. */
#include "symbols/demangle.h"

#if WS_HAVE_IBERTY
#include <libiberty/demangle.h>
#endif
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define LONGEST 16000

/* Without libiberty (some cross builds) names stay as they are. */
#if !WS_HAVE_IBERTY
enum { DMGL_NO_OPTS, DMGL_PARAMS, DMGL_ANSI };

static char *cplus_demangle_v3(const char *mangled, int options)
{
	(void)mangled;
	(void)options;
	return NULL;
}
#define rust_demangle cplus_demangle_v3
#define dlang_demangle cplus_demangle_v3
#endif

/* NULL when it is not mangled. */
static char *demangle_text(const char *mangled, int options)
{
	/* Rust's old names are those of C++ with a hash at the end, which is left out. */
	char *text = rust_demangle(mangled, options);

	if (!text)
		text = cplus_demangle_v3(mangled, options);
	if (!text && mangled[0] == '_' && mangled[1] == 'D')
		text = dlang_demangle(mangled, options);
	return text;
}

/*
 * Suffixes that tools append to symbol names: AMD's compiler appends ".kd" to the name of a
 * kernel's descriptor, which is left out; the linker appends "@plt" or "@@VERSION", which is kept.
 */
static size_t find_suffix(const char *mangled, const char **kept)
{
	size_t length = strlen(mangled), plain = strcspn(mangled, "@");

	*kept = mangled + plain;
	if (plain < length)
		return plain;
	if (length > 3 && !strcmp(mangled + length - 3, ".kd"))
		return length - 3;
	return length;
}

static char *demangle_name(const char *mangled, int options)
{
	const char *kept;
	char *symbol, *text = NULL, *whole;
	size_t length;

	if (mangled[0] != '_' || strlen(mangled) > LONGEST)
		return ws_strdup(mangled);
	length = find_suffix(mangled, &kept);
	symbol = ws_strndup(mangled, length);
	text = demangle_text(symbol, options);
	free(symbol);
	if (!text)
		return ws_strdup(mangled);
	if (!*kept)
		return text;
	whole = ws_malloc(strlen(text) + strlen(kept) + 1);
	strcpy(stpcpy(whole, text), kept);
	free(text);
	return whole;
}

/* Without DMGL_TYPES, which would read a C function `f` as the type float. */
char *ws_demangle(const char *mangled)
{
	return demangle_name(mangled, DMGL_PARAMS | DMGL_ANSI);
}

static int is_identifier_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

/* The length of an operator's name at `at`: "operator()", "operator<<", "operator " of a
 * conversion; 0 where there is none. Its signs open and close nothing. */
static size_t measure_operator(const char *text, const char *at)
{
	const char *end = at + 8;

	if (strncmp(at, "operator", 8) || (at > text && is_identifier_char(at[-1])) ||
	    is_identifier_char(*end))
		return 0;
	if (!strncmp(end, "()", 2) || !strncmp(end, "[]", 2))
		return 10;
	end += strspn(end, "<>=-+*/%!&|^~,");
	return (size_t)(end - at) + (*end == ' ');
}

/* Where the last component of a qualified name begins, and where it ends before its template
 * arguments. */
static void find_last_component(const char *text, const char **begin, const char **end)
{
	int depth = 0;

	*begin = text;
	*end = text + strlen(text);
	for (const char *at = text; *at; at++) {
		size_t operator_length = measure_operator(text, at);

		if (operator_length) {
			at += operator_length - 1;
		} else if (*at == '<' || *at == '(') {
			if (!depth++ && *end > at)
				*end = at;
		} else if (depth && (*at == '>' || *at == ')') && at[-1] != '-') {
			depth--;
		} else if (!depth && (at[0] == ' ' || (at[0] == ':' && at[1] == ':'))) {
			*begin = at + 1 + (at[0] == ':');
			*end = text + strlen(text);
		}
	}
	while (*end > *begin && (*end)[-1] == ' ') /* of "operator<< <int>" */
		--*end;
}

char *ws_demangle_short(const char *mangled)
{
	char *text = demangle_name(mangled, DMGL_NO_OPTS), *out;
	const char *begin, *end;

	find_last_component(text, &begin, &end);
	if (end > begin)
		out = ws_strndup(begin, (size_t)(end - begin));
	else
		out = ws_strdup(text);
	free(text);
	return out;
}
