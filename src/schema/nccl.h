/* nccl.h - the kinds of events of NCCL's profiler interface, as they are numbered by NCCL, in
 * records and in the report. */
#ifndef WS_SCHEMA_NCCL_H
#define WS_SCHEMA_NCCL_H

enum ws_nccl_event {
#define WS_NCCL_EVENT(kind, word, text) WS_NCCL_EVENT_##kind,
#include "schema/nccl_events.def"
#undef WS_NCCL_EVENT
	WS_NCCL_EVENTS
};

#endif
