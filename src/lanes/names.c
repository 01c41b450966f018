/*
 * names.c - from the number that an event keeps as its name to a text.
 */
#include "lanes/lane.h"

#include <string.h>

static const char *thread_name(const struct ws_lanes *lanes, uint32_t id)
{
	const struct ws_thread_info *info = ws_find_thread(lanes->who, id);

	return info->name[0] ? info->name : info->process_name;
}

const char *ws_lane_name(const struct ws_lanes *lanes, uint32_t name, size_t *len)
{
	uint32_t id = name & 0x3fffffff;
	const char *text;

	if (name >> 30 == WS_NAME_STRING)
		return ws_report_string(lanes->report, id, len);
	if (name >> 30 == WS_NAME_FUNCTION) {
		*len = ws_stacks_get_function(lanes->stacks, id)->len;
		return ws_stacks_get_function(lanes->stacks, id)->name;
	}
	text = name >> 30 == WS_NAME_THREAD ? thread_name(lanes, id) : ws_get_own_text(id);
	*len = strlen(text);
	return text;
}

uint32_t ws_lane_name_key(const struct ws_lanes *lanes, uint32_t name)
{
	uint32_t id = name & 0x3fffffff;

	if (name >> 30 == WS_NAME_STRING)
		return WS_NAME(WS_NAME_STRING, ws_report_string_key(lanes->report, id));
	return name;
}

uint32_t ws_lane_fold_key(const struct ws_lanes *lanes, uint32_t name)
{
	uint32_t id = name & 0x3fffffff;

	if (name >> 30 == WS_NAME_STRING)
		return WS_NAME(WS_NAME_STRING, ws_fold_key(lanes->fold, lanes->report, id));
	return name;
}

const char *ws_lane_fold_name(const struct ws_lanes *lanes, uint32_t name, size_t *len)
{
	if (name >> 30 == WS_NAME_STRING)
		return ws_fold_name(lanes->fold, lanes->report, name & 0x3fffffff, len);
	return ws_lane_name(lanes, name, len);
}

bool ws_lane_is_form(const struct ws_lanes *lanes, uint32_t name)
{
	return name >> 30 == WS_NAME_STRING && ws_fold_is_form(lanes->fold, name & 0x3fffffff);
}
