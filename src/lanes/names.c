/*
 * names.c - from the number that an event keeps as its name to a text.
 */
#include "lanes/names.h"

#include <string.h>

static const char *const own_texts[] = {
#define OWN_TEXTS(name, n, ...) __VA_ARGS__,
	WS_OWN_TEXTS(OWN_TEXTS)
#undef OWN_TEXTS
};
_Static_assert(WS_COUNT(own_texts) == WS_OWN_TEXT_COUNT,
	       "each list of texts has as many as it says");

const char *ws_own_name(uint32_t i)
{
	return i < WS_COUNT(own_texts) ? own_texts[i] : "";
}

static const char *thread_name(const struct ws_lanes *l, uint32_t id)
{
	const struct ws_thread_info *t = ws_who_thread(l->who, id);

	return t->name[0] ? t->name : t->process_name;
}

const char *ws_lane_name(const struct ws_lanes *l, uint32_t name, size_t *len)
{
	uint32_t id = name & 0x3fffffff;
	const char *s;

	if (name >> 30 == WS_NAME_STRING)
		return ws_report_string(l->r, id, len);
	if (name >> 30 == WS_NAME_FUNCTION) {
		*len = ws_stacks_function(l->stacks, id)->len;
		return ws_stacks_function(l->stacks, id)->name;
	}
	s = name >> 30 == WS_NAME_THREAD ? thread_name(l, id) : ws_own_name(id);
	*len = strlen(s);
	return s;
}

uint32_t ws_lane_name_key(const struct ws_lanes *l, uint32_t name)
{
	uint32_t id = name & 0x3fffffff;

	if (name >> 30 == WS_NAME_STRING)
		return WS_NAME(WS_NAME_STRING, ws_report_string_key(l->r, id));
	return name;
}
