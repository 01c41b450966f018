/* same_things.c - see same_things.h. */
#include "analyze/same_things.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/source_line.h"
#include "base/mem.h"

struct scope {
	char *text, **lines;
	size_t count;
	size_t first, last; /* the lines of the block, with its head */
};

static size_t measure_indent(const char *line)
{
	return strspn(line, " \t");
}

static bool is_blank(const char *line)
{
	line += measure_indent(line);
	return !*line || *line == '#' || *line == '\r';
}

static bool begins_with(const char *line, const char *const *words)
{
	line += measure_indent(line);
	for (; *words; words++)
		if (!strncmp(line, *words, strlen(*words)))
			return true;
	return false;
}

static bool is_head(const char *line, enum ws_scope scope)
{
	static const char *const functions[] = {"def ", "async def ", NULL};
	static const char *const loops[] = {"for ", "while ", "async for ", NULL};

	return begins_with(line, scope == WS_SCOPE_LOOP ? loops : functions);
}

static void close_scope(struct scope *scope)
{
	free(scope->lines);
	free(scope->text);
}

/* The innermost loop or function around a line (from 1). */
static bool open_scope(const char *path, uint32_t line, uint64_t until, enum ws_scope kind,
		       struct scope *scope)
{
	char *rest, *next;
	size_t indent, at = line - 1;

	*scope = (struct scope){.text = ws_read_source(path, until)};
	if (!scope->text)
		return false;
	scope->lines = ws_calloc(strlen(scope->text) + 1, sizeof(*scope->lines));
	rest = scope->text;
	while ((next = strsep(&rest, "\n")))
		scope->lines[scope->count++] = next;
	if (!line || line > scope->count)
		return false;
	indent = measure_indent(scope->lines[at]);
	while (at && (is_blank(scope->lines[at]) || measure_indent(scope->lines[at]) >= indent ||
		      !is_head(scope->lines[at], kind))) {
		if (measure_indent(scope->lines[at]) < indent &&
		    is_head(scope->lines[at], WS_SCOPE_FUNCTION))
			return false; /* loops around the function are not its own */
		if (!is_blank(scope->lines[at]))
			indent = ws_min(indent, measure_indent(scope->lines[at]));
		at--;
	}
	if (!is_head(scope->lines[at], kind) || measure_indent(scope->lines[at]) >= indent)
		return false;
	scope->first = at;
	indent = measure_indent(scope->lines[at]);
	scope->last = at + 1;
	while (scope->last < scope->count && (is_blank(scope->lines[scope->last]) ||
					      measure_indent(scope->lines[scope->last]) > indent))
		scope->last++;
	return true;
}

static bool is_name_part(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static const char *find_name(const char *line, const char *name, size_t length)
{
	for (const char *at = strstr(line, name); at; at = strstr(at + 1, name))
		if ((at == line || !is_name_part(at[-1])) && !is_name_part(at[length]))
			return at;
	return NULL;
}

/* for NAME in, name = ..., name: int = ..., as name, import name; parameters. */
static bool binds(const char *line, const char *name, bool parameters)
{
	static const char *const binding[] = {"for ",	    "import ", "from ",	  "def ",
					      "async def ", "global ", "lambda ", NULL};
	size_t length = strlen(name);

	for (const char *at = find_name(line, name, length); at;
	     at = find_name(at + length, name, length)) {
		const char *after = at + length + measure_indent(at + length);
		const char *equals = strchr(after, '=');

		if (begins_with(line, binding) && (parameters || !strstr(line, "def ")))
			return true;
		if (at > line + 3 && !strncmp(at - 3, "as ", 3))
			return true;
		if ((*after == '=' && after[1] != '=') || !strncmp(after, ":=", 2) ||
		    (*after && strchr("+-*/|&%,:", *after) && equals && equals[1] != '='))
			return true;
	}
	return false;
}

static bool is_bound(const struct scope *scope, const char *name)
{
	for (size_t i = scope->first; i < scope->last; i++) {
		char *line = scope->lines[i];

		if (!is_blank(line) && binds(line, name, i == scope->first))
			return true;
	}
	return false;
}

/* Names, with the attributes of self (self.items) as one; false for a call, a text with values or
 * where there is no name. */
static bool are_unbound(const struct scope *scope, const char *text, size_t length)
{
	bool some = false;

	for (size_t i = 0; i < length; i++) {
		size_t end = i;
		char *name;
		bool bound;

		if (strchr("(\"'{", text[i]))
			return false;
		if (!isalpha((unsigned char)text[i]) && text[i] != '_')
			continue;
		while (end < length && (is_name_part(text[end]) || text[end] == '.'))
			end++;
		name = ws_format("%.*s", (int)(end - i), text + i);
		if (strncmp(name, "self.", 5))
			name[strcspn(name, ".")] = 0; /* the object, whatever is taken of it */
		bound = is_bound(scope, name);
		free(name);
		if (bound)
			return false;
		some = true;
		i = end;
	}
	return some;
}

static bool takes_unbound(const struct scope *scope, const char *line, const char *call)
{
	const char *at = strstr(line, call), *from, *end;

	if (!at)
		return false;
	if (*call == '.') {
		for (from = at; from > line && (is_name_part(from[-1]) || from[-1] == '.');)
			from--;
		return are_unbound(scope, from, (size_t)(at - from));
	}
	if (at > line && is_name_part(at[-1]))
		return false;
	from = at + strlen(call);
	end = from + strcspn(from, ",)");
	return *end && are_unbound(scope, from, (size_t)(end - from));
}

bool ws_takes_same_things(const char *path, uint32_t line, uint64_t until, const char *const *calls,
			  enum ws_scope kind)
{
	struct scope scope;
	bool same = false;

	if (open_scope(path, line, until, kind, &scope))
		for (; *calls && !same; calls++)
			same = takes_unbound(&scope, scope.lines[line - 1], *calls);
	close_scope(&scope);
	return same;
}

/* n - 1, m: the sign of its steps; 0 for none, 2 where they are no plain numbers. */
static int read_step(const char *arguments, size_t length)
{
	int sign = 0;

	for (size_t i = 0; i < length; i++) {
		char c = arguments[i];

		if (c == '-' || c == '+') {
			int step = c == '-' ? -1 : 1;

			if (sign && sign != step)
				return 2;
			sign = step;
		} else if (!is_name_part(c) && c != ' ' && c != ',') {
			return 2;
		}
	}
	return sign;
}

/* How many calls of itself a line has, all with steps of one sign; `sign` is that of all. */
static unsigned count_steps(const char *line, const char *name, int *sign)
{
	size_t length = strlen(name);
	unsigned count = 0;

	for (const char *at = find_name(line, name, length); at;
	     at = find_name(at + length, name, length)) {
		const char *from = at + length + 1;
		int step;

		if (at[length] != '(')
			continue;
		step = read_step(from, strcspn(from, ")"));
		*sign = !*sign || *sign == step ? step : 2;
		count++;
	}
	return count;
}

bool ws_recurses_by_steps(const char *path, uint32_t line, uint64_t until, const char *name)
{
	struct scope scope;
	unsigned count = 0, combined = 0;
	int sign = 0;

	if (open_scope(path, line, until, WS_SCOPE_FUNCTION, &scope))
		for (size_t i = scope.first + 1; i < scope.last; i++) {
			unsigned calls = is_blank(scope.lines[i])
						 ? 0
						 : count_steps(scope.lines[i], name, &sign);

			count += calls;
			if (strstr(scope.lines[i], "return ") || strchr(scope.lines[i], '='))
				combined += calls;
		}
	close_scope(&scope);
	return count >= 2 && combined == count && (sign == 1 || sign == -1);
}
