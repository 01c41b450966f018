/* copying.c - see copying.h. */
#include "analyze/copying.h"

#include <string.h>

#include "base/compiler.h"

static const char rust[] = " as core::clone::Clone>::clone";

static const struct {
	const char *beginning, *shown;
} containers[] = {{"std::map<", "std::map"},
		  {"std::set<", "std::set"},
		  {"std::multi", "std::multimap"},
		  {"std::unordered_map<", "std::unordered_map"},
		  {"std::unordered_set<", "std::unordered_set"},
		  {"std::deque<", "std::deque"},
		  {"std::vector<", "std::vector"},
		  {"std::list<", "std::list"},
		  {"std::__cxx11::list<", "std::list"},
		  {"std::function<", "std::function"},
		  {"std::__cxx11::basic_string<", "std::string"}};

static const char *find_container(const char *name)
{
	for (size_t i = 0; i < WS_COUNT(containers); i++)
		if (!strncmp(name, containers[i].beginning, strlen(containers[i].beginning)))
			return containers[i].shown;
	return NULL;
}

/* The length of the class in the name of a copy constructor; 0 for other functions. */
static size_t measure_class(const char *name)
{
	const char *bracket = strchr(name, '('), *last = bracket;
	size_t class;

	while (last && last > name && last[-1] != ':')
		last--;
	if (!last || last < name + 2)
		return 0;
	class = (size_t)(last - 2 - name);
	if (strncmp(bracket + 1, name, class) || strcmp(bracket + 1 + class, " const&)"))
		return 0;
	return class;
}

bool ws_is_copy_constructor(const char *name)
{
	if (*name == '<' && strstr(name, rust))
		return true;
	return measure_class(name) && (strncmp(name, "std::", 5) || find_container(name));
}

bool ws_put_copied_class(const char *name, struct ws_text *text)
{
	const char *shown = find_container(name), *clone = strstr(name, rust);

	if (!ws_is_copy_constructor(name))
		return false;
	if (shown)
		ws_text_puts(text, shown);
	else if (clone)
		ws_text_add(text, name + 1, (size_t)(clone - name - 1));
	else
		ws_text_add(text, name, measure_class(name));
	return true;
}
