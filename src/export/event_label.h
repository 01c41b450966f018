/* event_label.h - the names of events in exports of timelines. */
#ifndef WS_EXPORT_EVENT_LABEL_H
#define WS_EXPORT_EVENT_LABEL_H

#include "export/timeline.h"
#include "text/text.h"

/*
 * The string of the report that is the event's name, 0 where that is empty. False when the name is
 * made from the row; use ws_event_put_label then.
 */
bool ws_event_name_string(const struct ws_timeline_event *event, uint32_t *id);

/* Append the name that is made from the row; its bytes may be those of the report, untrusted. */
void ws_event_put_label(const struct ws_cell_context *export, const struct ws_timeline_event *event,
			struct ws_text *text);

#endif
