/*
 * names.c - from the number that an event keeps as its name to a text, and which short names stand
 * for several full ones, so that events must be called by their full names.
 */
#include "lanes/build.h"

#include <stdlib.h>
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

/* ---- short names that several full ones share ---- */

struct sharing {
	const struct ws_report *report;
	const struct ws_event_kind *kind;
	uint32_t *full; /* by key of a short name: key of the first full name, 0 none */
	uint8_t *is_shared;
	uint64_t strings;
};

static void note_full_name(struct sharing *sharing, uint64_t name, uint64_t full)
{
	uint32_t first = 0, key;

	if (!name || !full || name > sharing->strings || full > sharing->strings)
		return;
	name = ws_report_string_key(sharing->report, (uint32_t)name);
	key = ws_report_string_key(sharing->report, (uint32_t)full);
	if (!__atomic_compare_exchange_n(&sharing->full[name], &first, key, false, __ATOMIC_RELAXED,
					 __ATOMIC_RELAXED) &&
	    first != key)
		__atomic_store_n(&sharing->is_shared[name], 1, __ATOMIC_RELAXED);
}

/* Kernels are often launched many times in a row, so only rows that differ from the one before are
 * examined. */
static int note_full_names(void *ctx, const struct ws_batch *batch)
{
	struct sharing *sharing = ctx;
	const uint64_t *name = batch->col[sharing->kind->name],
		       *full = batch->col[sharing->kind->full_name];

	for (size_t i = 0; i < batch->rows; i++)
		if (!i || name[i] != name[i - 1] || full[i] != full[i - 1])
			note_full_name(sharing, name[i], full[i]);
	return 0;
}

static void find_shared_names(struct ws_lanes *lanes, const struct ws_event_kind *kind,
			      struct ws_shared_names *shared)
{
	uint64_t strings = ws_report_string_count(lanes->report);
	struct sharing sharing = {.report = lanes->report,
				  .kind = kind,
				  .full = ws_calloc(strings + 1, sizeof(*sharing.full)),
				  .is_shared = ws_calloc(strings + 1, 1),
				  .strings = strings};
	struct ws_scan scan = {.table = kind->table,
			       .columns = UINT64_C(1) << kind->name | UINT64_C(1)
									      << kind->full_name,
			       .time_max = UINT64_MAX};

	ws_run_scan(lanes->report, &scan, note_full_names, &sharing, NULL);
	free(sharing.full);
	if (memchr(sharing.is_shared, 1, strings + 1)) {
		shared->is_shared = sharing.is_shared;
		return;
	}
	free(sharing.is_shared);
}

const uint8_t *ws_lane_shared_names(struct ws_lanes *lanes, uint32_t kind)
{
	struct ws_shared_names *shared = &lanes->shared[kind];

	if (!ws_event_kinds[kind].full_name)
		return NULL;
	pthread_mutex_lock(&lanes->naming);
	if (!shared->known)
		find_shared_names(lanes, &ws_event_kinds[kind], shared);
	shared->known = true;
	pthread_mutex_unlock(&lanes->naming);
	return shared->is_shared;
}

bool ws_lanes_share_names(struct ws_lanes *lanes, uint32_t kind)
{
	return ws_lane_shared_names(lanes, kind) != NULL;
}
