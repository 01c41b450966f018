/* messages.c - see messages.h. */
#include "analyze/messages.h"

#include "base/mem.h"

struct ws_messages ws_count_messages(const struct ws_model *model, const struct ws_work_gpu *gpu)
{
	struct ws_cursor *cursor =
		ws_cursor_open(model->report, WS_TABLE_collective, model->from, model->to);
	struct ws_messages messages = {0};
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		uint64_t start = values[ws_collective_start];

		if (values[ws_collective_bytes] == WS_NO_U64 || start < model->from ||
		    start > model->to)
			continue;
		if (gpu && (values[ws_collective_process] != gpu->process ||
			    values[ws_collective_device] != gpu->device))
			continue;
		messages.count++;
		messages.bytes += values[ws_collective_bytes];
	}
	ws_cursor_close(cursor);
	return messages;
}

char *ws_describe_message(const struct ws_messages *messages)
{
	static const char *const units[] = {"bytes", "KiB", "MiB", "GiB"};
	double size;
	size_t unit = 0;

	if (!messages->count)
		return ws_strdup("");
	size = (double)messages->bytes / (double)messages->count;
	while (size >= 1024 && unit + 1 < WS_COUNT(units)) {
		size /= 1024;
		unit++;
	}
	return ws_format(" and %.*f %s", unit ? 1 : 0, size, units[unit]);
}
