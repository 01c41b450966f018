/*
 * watch.c - see watch.h.
 *
 * Names are compared when a string is defined, not when a row refers to it: most rows of ranges
 * cost a test of one bit. A median is taken over the last durations of everything that a trigger
 * names, and is computed once in a while.
 */
#include "record/watch.h"

#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/map.h"
#include "base/mem.h"
#include "schema/step_name.h"
#include "record/gpu_idle.h"

/* A median is known from the first few durations on, and worked out anew after as many more. */
enum { HISTORY = 64, MEDIAN_AFTER = 8 };
#define LOOK_AT_GPUS UINT64_C(250000000) /* this often, ns */

struct durations {
	uint64_t last[HISTORY], median;
	uint32_t count;
};

struct ws_watch {
	const struct ws_flight_triggers *list;
	uint64_t *named; /* a bit for each id of a string that some trigger names */
	size_t words;
	struct ws_map names;	     /* which triggers, a bit each, by such an id */
	struct durations *durations; /* by trigger */
	struct ws_gpu_idle *gpu;     /* NULL: no trigger is about it */
	uint64_t gpu_looked;	     /* session ns */
	struct ws_fired fired;
	uint32_t fired_count; /* since they were last taken */
};

/* ---- names ---- */

static bool names_string(const struct ws_flight_trigger *trigger, const char *text, size_t len)
{
	switch (trigger->kind) {
	case WS_TRIGGER_ON_RANGE:
		return ws_is_step_name(text, len, trigger->name);
	case WS_TRIGGER_ON_STEP:
		return ws_is_step_name(text, len, NULL);
	case WS_TRIGGER_ON_MARK:
		return len == strlen(trigger->name) && !memcmp(text, trigger->name, len);
	default:
		return false;
	}
}

static uint64_t find_naming(const struct ws_flight_triggers *list, const char *text, size_t len)
{
	uint64_t naming = 0;

	for (size_t i = 0; i < list->count; i++)
		if (names_string(&list->triggers[i], text, len))
			naming |= UINT64_C(1) << i;
	return naming;
}

static bool is_named(const struct ws_watch *watch, uint32_t id)
{
	return id / 64 < watch->words && watch->named[id / 64] >> id % 64 & 1;
}

static void set_named(struct ws_watch *watch, uint32_t id, bool named)
{
	size_t word = id / 64, old = watch->words;

	if (word >= watch->words && !named)
		return;
	if (word >= watch->words) {
		ws_grow(watch->named, watch->words, word + 1);
		memset(watch->named + old, 0, (watch->words - old) * sizeof(*watch->named));
	}
	watch->named[word] &= ~(UINT64_C(1) << id % 64);
	watch->named[word] |= (uint64_t)named << id % 64;
}

/* Ids are used again for other strings. */
static void see_string(void *ctx, uint32_t id, const char *bytes, size_t len)
{
	struct ws_watch *watch = ctx;
	uint64_t naming = find_naming(watch->list, bytes, len);

	if (is_named(watch, id))
		ws_map_remove(&watch->names, id, NULL);
	set_named(watch, id, naming != 0);
	if (naming)
		ws_map_set(&watch->names, id, naming);
}

/* ---- what fires ---- */

static void fire(struct ws_watch *watch, unsigned trigger, uint64_t time, uint64_t duration)
{
	if (watch->fired_count++)
		return;
	watch->fired = (struct ws_fired){.trigger = trigger, .time = time, .duration = duration};
}

static int compare_durations(const void *a, const void *b)
{
	return ws_compare(*(const uint64_t *)a, *(const uint64_t *)b);
}

static uint64_t find_median(const struct durations *durations)
{
	uint64_t sorted[HISTORY];
	uint32_t n = ws_min(durations->count, (uint32_t)HISTORY);

	memcpy(sorted, durations->last, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), compare_durations);
	return sorted[n / 2];
}

static void add_duration(struct durations *durations, uint64_t duration)
{
	durations->last[durations->count++ % HISTORY] = duration;
	if (durations->count % MEDIAN_AFTER == 0)
		durations->median = find_median(durations);
}

static bool is_too_long(const struct ws_watch *watch, unsigned i, uint64_t duration)
{
	const struct ws_flight_trigger *trigger = &watch->list->triggers[i];
	struct durations *durations = &watch->durations[i];
	bool too_long;

	if (trigger->ns)
		return duration > trigger->ns;
	too_long =
		durations->median && (double)duration > trigger->factor * (double)durations->median;
	add_duration(durations, duration);
	return too_long;
}

static void see_range(struct ws_watch *watch, unsigned i, const struct ws_row_nvtx *row)
{
	const struct ws_flight_trigger *trigger = &watch->list->triggers[i];
	bool is_range = row->type == WS_NVTX_PUSHPOP || row->type == WS_NVTX_STARTEND;

	if (trigger->kind == WS_TRIGGER_ON_MARK && row->type == WS_NVTX_MARK)
		fire(watch, i, row->start, 0);
	if (trigger->kind == WS_TRIGGER_ON_MARK || !is_range || row->end == WS_NO_TIME ||
	    row->end < row->start)
		return;
	if (is_too_long(watch, i, row->end - row->start))
		fire(watch, i, row->end, row->end - row->start);
}

static void see_ranges(struct ws_watch *watch, const struct ws_row_nvtx *rows, uint32_t count)
{
	for (uint32_t n = 0; n < count; n++) {
		uint64_t naming;

		if (ws_likely(!is_named(watch, rows[n].text)))
			continue;
		naming = ws_map_get(&watch->names, rows[n].text, NULL);
		for (unsigned i = 0; naming; i++, naming >>= 1)
			if (naming & 1)
				see_range(watch, i, &rows[n]);
	}
}

static void see_rows(void *ctx, enum ws_table table, const void *rows, uint32_t count)
{
	struct ws_watch *watch = ctx;

	if (table == WS_TABLE_nvtx)
		see_ranges(watch, rows, count);
	else
		ws_gpu_idle_see(watch->gpu, table, rows, count);
}

/* ---- the interface ---- */

static bool has_kind(const struct ws_flight_triggers *list, enum ws_flight_trigger_kind kind)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->triggers[i].kind == kind)
			return true;
	return false;
}

struct ws_watch *ws_watch_new(struct ws_writer *writer, const struct ws_flight_triggers *list)
{
	struct ws_watch *watch = ws_calloc(1, sizeof(*watch));
	struct ws_writer_watch seen = {.rows = see_rows, .string = see_string, .ctx = watch};

	watch->list = list;
	watch->durations = ws_calloc(list->count, sizeof(*watch->durations));
	seen.tables[WS_TABLE_nvtx] = true;
	if (has_kind(list, WS_TRIGGER_ON_GPU_IDLE)) {
		watch->gpu = ws_gpu_idle_new();
		ws_gpu_idle_tables(seen.tables);
	}
	ws_writer_watch(writer, &seen);
	return watch;
}

void ws_watch_free(struct ws_watch *watch)
{
	if (!watch)
		return;
	ws_map_free(&watch->names);
	ws_gpu_idle_free(watch->gpu);
	free(watch->durations);
	free(watch->named);
	free(watch);
}

static void look_at_gpus(struct ws_watch *watch, uint64_t now)
{
	uint64_t since, time;

	if (!watch->gpu || now < watch->gpu_looked + LOOK_AT_GPUS)
		return;
	watch->gpu_looked = now;
	for (unsigned i = 0; i < watch->list->count; i++) {
		const struct ws_flight_trigger *trigger = &watch->list->triggers[i];

		if (trigger->kind == WS_TRIGGER_ON_GPU_IDLE &&
		    ws_gpu_idle_find(watch->gpu, now, trigger->ns, &since, &time))
			fire(watch, i, time, time - since);
	}
	ws_gpu_idle_pass(watch->gpu, now);
}

bool ws_watch_take(struct ws_watch *watch, uint64_t now, struct ws_fired *fired, uint32_t *more)
{
	look_at_gpus(watch, now);
	*more = 0;
	if (!watch->fired_count)
		return false;
	*fired = watch->fired;
	*more = watch->fired_count - 1;
	watch->fired_count = 0;
	return true;
}
