/*
 * timeline.h - a report as one stream of events in order of start, for the timeline formats
 * (Chrome's JSON, Perfetto).
 *
 * Rows of all tables that have something to show are merged by cursors, so memory does not grow
 * with the report. Events with one start come longest first, and operators before calls before GPU
 * work, so that enclosing events come before those inside them.
 */
#ifndef WS_EXPORT_TIMELINE_H
#define WS_EXPORT_TIMELINE_H

#include "base/map.h"
#include "export/export.h"
#include "schema/events.h"

struct ws_timeline_event {
	const struct ws_event_kind *kind;
	const uint64_t *values; /* the row, by column number; valid until the next event */
	uint64_t start,
		end; /* session clock; end WS_NO_TIME for a moment and for what never ended */
};

/* Its value in a column of its table. */
static inline uint64_t ws_event_value(const struct ws_timeline_event *event, uint8_t column)
{
	return event->values[column];
}

/* Whether a column has a value and is not null. */
bool ws_event_is_known(const struct ws_timeline_event *event, uint8_t column);

/* The process it belongs to: the id in the report's table, 0 when its kind has none. */
uint32_t ws_event_process(const struct ws_cell_context *export,
			  const struct ws_timeline_event *event);

enum ws_event_shape ws_find_row_shape(const struct ws_timeline_event *event);

enum ws_category ws_find_row_category(const struct ws_timeline_event *event);

struct ws_timeline;
/* All kinds of events that one of these formats shows (enum ws_event_exports). */
struct ws_timeline *ws_timeline_open(struct ws_cell_context *export, uint8_t formats);
/* The next event that --times lets through; false at the end, or when the user interrupts
 * (ws_is_interrupted). */
bool ws_timeline_next(struct ws_timeline *timeline, struct ws_timeline_event *event);
void ws_timeline_close(struct ws_timeline *timeline);

/* ---- from calls to the work they caused ---- */

/* A set of (process, number), and a map from them: pages by number, since numbers are dense.
 * Zero-initialise. */
struct ws_pages {
	struct ws_map map;
	uint64_t **page;
	size_t n, cap;
};

bool ws_pages_has(const struct ws_pages *pages, uint64_t process, uint64_t number);
void ws_pages_add(struct ws_pages *pages, uint64_t process, uint64_t number);
/* The same as a map, in other pages; missing keys have the value 0. Do not use one object as both.
 * */
uint64_t ws_pages_get(const struct ws_pages *pages, uint64_t process, uint64_t number);
void ws_pages_set(struct ws_pages *pages, uint64_t process, uint64_t number, uint64_t value);
void ws_pages_free(struct ws_pages *pages);

/* The correlation ids that have both a call and work, so that arrows have two ends, and the
 * operator of each id. */
struct ws_links {
	struct ws_pages calls, runtime, work; /* calls: of any API; runtime: of the runtime API */
	struct ws_pages external;	      /* id of the operator */
};
void ws_links_load(struct ws_links *links, struct ws_cell_context *export);
void ws_links_free(struct ws_links *links);
/* Whether an arrow starts at this call; whether one ends at this work. */
bool ws_links_from(const struct ws_links *links, uint64_t process, uint64_t api_class,
		   uint64_t correlation);
bool ws_links_to(const struct ws_links *links, uint64_t process, uint64_t correlation);

#endif
