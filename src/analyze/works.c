/* works.c - see works.h. Where several kinds match a function, the first one counts. */
#include "analyze/works.h"

#include <string.h>

#include "analyze/copying.h"
#include "analyze/works_private.h"

/* By its number from 0: those of Python come first. */
static const struct ws_work_kind *get_kind(uint8_t number)
{
	if (number < ws_python_work_kind_count)
		return &ws_python_work_kinds[number];
	return &ws_work_kinds[number - ws_python_work_kind_count];
}

static uint8_t count_kinds(void)
{
	return (uint8_t)(ws_python_work_kind_count + ws_work_kind_count);
}

static bool is_part(const struct ws_work_kind *kind)
{
	return kind->least > 0;
}

/* Whether `text` is `pattern`, in which '*' stands for any text. */
static bool is_match(const char *text, const char *pattern)
{
	const char *star = NULL, *again = NULL;

	while (*text) {
		if (*pattern == '*') {
			star = pattern++;
			again = text;
		} else if (*pattern == *text) {
			pattern++;
			text++;
		} else if (star) {
			pattern = star + 1;
			text = ++again;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}

static bool is_named(const char *name, const char *const *patterns)
{
	for (; *patterns; patterns++)
		if ((**patterns == '*' || **patterns == *name) && is_match(name, *patterns))
			return true;
	return false;
}

/* Parts of paths may hold a star, too. */
static bool is_from(const char *origin, const char *const *parts)
{
	for (; *parts; parts++) {
		size_t fixed = strcspn(*parts, "*");
		const char *at = origin;

		if (!(*parts)[fixed] && strstr(origin, *parts))
			return true;
		while ((*parts)[fixed] && (at = strstr(at, "/"))) {
			if (is_match(at, *parts))
				return true;
			at++;
		}
	}
	return false;
}

/* The interpreter, its library and the modules that come with it. */
static bool is_pythons_own(const char *origin)
{
	static const char *const parts[] = {"/libpython3", "/bin/python3", "/lib/python3",
					    "<frozen", NULL},
				 *const others[] = {"/site-packages/", "/dist-packages/", NULL};

	return is_from(origin, parts) && !is_from(origin, others);
}

static bool is_kind_of(const struct ws_work_kind *kind, const struct ws_function *function,
		       const char *origin)
{
	bool by_name =
		!function->unresolved && !(kind->is_native && function->kind == WS_FRAME_PYTHON);

	if (is_part(kind))
		return false;
	if (by_name && (is_named(function->name, kind->names) ||
			(kind->is_copying && ws_is_copy_constructor(function->name))))
		return true;
	return is_from(origin, kind->origins);
}

/* Parts of kinds say no kind by themselves. */
static struct ws_work_marks find_parts(const char *name)
{
	struct ws_work_marks marks = {0};
	unsigned part = 0;

	for (uint8_t i = 0; i < count_kinds(); i++) {
		if (!is_part(get_kind(i)))
			continue;
		if (is_named(name, get_kind(i)->inside))
			marks.inside |= (uint16_t)(1u << part);
		if (is_named(name, get_kind(i)->names))
			marks.around |= (uint16_t)(1u << part);
		part++;
	}
	return marks;
}

struct ws_work_marks ws_classify_work(const struct ws_stacks *stacks,
				      const struct ws_function *function)
{
	const char *origin = ws_stacks_get_origin(stacks, function);
	struct ws_work_marks marks = {0};

	if (function->kind == WS_FRAME_KERNEL)
		return marks;
	if (!function->unresolved)
		marks = find_parts(function->name);
	for (uint8_t i = is_pythons_own(origin) ? 0 : ws_python_work_kind_count;
	     i < count_kinds() && !marks.kind; i++)
		if (is_kind_of(get_kind(i), function, origin))
			marks.kind = (uint8_t)(i + 1);
	return marks;
}

uint8_t ws_find_work_part(uint16_t parts)
{
	for (uint8_t i = 0; i < count_kinds(); i++) {
		if (!is_part(get_kind(i)))
			continue;
		if (parts & 1)
			return (uint8_t)(i + 1);
		parts = (uint16_t)(parts >> 1);
	}
	return WS_WORK_NONE;
}

uint8_t ws_find_whole_work(uint8_t kind)
{
	while (kind > 1 && is_part(get_kind((uint8_t)(kind - 1))))
		kind--;
	return kind;
}

const struct ws_work_kind *ws_get_work_kind(uint8_t kind)
{
	return get_kind((uint8_t)(kind - 1));
}

uint8_t ws_count_work_kinds(void)
{
	return (uint8_t)(count_kinds() + 1);
}

bool ws_is_pythons_work(uint8_t kind)
{
	return kind != WS_WORK_NONE && kind <= ws_python_work_kind_count;
}

bool ws_is_comparing_work(uint8_t kind)
{
	return kind != WS_WORK_NONE && ws_get_work_kind(kind)->is_comparing;
}

bool ws_is_sorting(const struct ws_stacks *stacks, const struct ws_function *function)
{
	uint8_t kind = ws_classify_work(stacks, function).kind;

	return kind != WS_WORK_NONE && ws_get_work_kind(kind)->is_sorting;
}
