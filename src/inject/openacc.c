/*
 * openacc.c - the OpenACC trace, by the profiling interface that OpenACC defines. A runtime (GCC's
 * libgomp, NVIDIA's) calls acc_register_library of the libraries that ACC_PROFLIB names when it
 * starts (some call that of a preloaded library) and is given a callback for each event.
 *
 * A thread remembers when its open events began. The record is written at the end, when everything
 * that the runtime knows about the event is available.
 */
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "inject/openacc_abi.h"
#include "inject/rt.h"
#include "ring/openacc_record.h"
#include "schema/openacc.h"

enum { MOST_OPEN = 32 };

struct open_events {
	uint32_t generation, opened;
	struct {
		uint64_t start;
		int32_t event;
	} open[MOST_OPEN];
};

static __thread struct open_events *open_events __attribute__((tls_model("initial-exec")));

/* The kind of an event, by its number; 0 if there is none. */
static const uint8_t sorts[WS_OPENACC_EVENTS] = {
#define WS_OPENACC(start, end, sort, text) [start] = WS_OPENACC_##sort,
#include "schema/openacc.def"
#undef WS_OPENACC
};

/* Whether another event ends this one, by its number. */
static const bool lasts[WS_OPENACC_EVENTS] = {
#define WS_OPENACC(start, end, sort, text) [start] = (end) != 0,
#include "schema/openacc.def"
#undef WS_OPENACC
};

#define WS_OPENACC(start, end, sort, text) \
	_Static_assert(!(end) || (end) == (start) + 1, "an end follows its start");
#include "schema/openacc.def"
#undef WS_OPENACC

/* The event that this one ends; 0 for none. */
static int32_t find_start(int32_t event)
{
	if (lasts[event - 1])
		return event - 1;
	return 0;
}

/* ---- the thread's open events ---- */

static struct open_events *find_open_events(void)
{
	if (!open_events) {
		long at = ws_raw_syscall(SYS_mmap, 0, sizeof(*open_events), PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (at <= 0)
			return NULL;
		open_events = (struct open_events *)at;
	}
	if (open_events->generation != ws_rt->generation)
		open_events->opened = 0;
	open_events->generation = ws_rt->generation;
	return open_events;
}

static void begin_event(int32_t event)
{
	struct open_events *events = find_open_events();

	if (!events)
		return;
	if (events->opened == MOST_OPEN)
		memmove(events->open, events->open + 1, --events->opened * sizeof(*events->open));
	events->open[events->opened].event = event;
	events->open[events->opened++].start = ws_rt_read_ticks();
}

/* When the innermost such event began; closes it with everything inside it. 0: not known. */
static uint64_t end_event(int32_t event)
{
	struct open_events *events = find_open_events();

	for (uint32_t i = events ? events->opened : 0; i; i--)
		if (events->open[i - 1].event == event) {
			events->opened = i - 1;
			return events->open[i - 1].start;
		}
	return 0;
}

/* ---- records ---- */

#define HAS(info, field)                \
	((size_t)(info)->valid_bytes >= \
	 (size_t)((const char *)(&(info)->field + 1) - (const char *)(info)))

static uint32_t find_text(struct ws_thread *thread, const char *text)
{
	if (!text || !*text)
		return 0;
	return ws_rt_find_string(thread, text, strnlen(text, WS_STRING_MAX));
}

static void fill_place(struct ws_thread *thread, const struct ws_acc_prof_info *prof,
		       struct ws_rec_openacc *record)
{
	record->queue = -1;
	if (HAS(prof, device_number)) {
		record->device_type = (uint32_t)prof->device_type;
		record->device = (uint32_t)prof->device_number;
	}
	if (HAS(prof, async_queue))
		record->queue = prof->async_queue;
	if (HAS(prof, func_name)) {
		record->file = find_text(thread, prof->src_file);
		record->function = find_text(thread, prof->func_name);
	}
	if (HAS(prof, line_no) && prof->line_no > 0)
		record->rec.value = (uint32_t)prof->line_no;
}

static void fill_event(struct ws_thread *thread, const struct ws_acc_event_info *event,
		       struct ws_rec_openacc *record)
{
	uint8_t sort = sorts[record->rec.small];

	if (HAS(event, implicit)) {
		record->construct = (uint32_t)event->parent_construct;
		record->implicit = event->implicit != 0;
	}
	if (sort == WS_OPENACC_DATA && HAS(event, data.bytes)) {
		record->item = find_text(thread, event->data.var_name);
		record->bytes = event->data.bytes;
	} else if (sort == WS_OPENACC_LAUNCH && HAS(event, launch.vector_length)) {
		record->item = find_text(thread, event->launch.kernel_name);
		record->gangs = event->launch.num_gangs;
		record->workers = event->launch.num_workers;
		record->vector_length = event->launch.vector_length;
	}
}

/* Define texts before reserving the record: defining one may take a chunk. */
static void write_event(struct ws_rec_openacc record, const struct ws_acc_prof_info *prof,
			const struct ws_acc_event_info *event)
{
	struct ws_thread *thread = ws_rt_enter();
	struct ws_rec_openacc *room;

	if (!thread)
		return;
	fill_place(thread, prof, &record);
	if (event)
		fill_event(thread, event, &record);
	room = ws_rt_reserve(thread, sizeof(*room), WS_LOSS_OTHER);
	if (room) {
		record.rec = ws_rec_head(WS_REC_OPENACC, sizeof(record), record.rec.small,
					 record.rec.value);
		*room = record;
		ws_rt_commit(thread, room, sizeof(*room));
	}
	ws_rt_leave(thread);
}

static void see_event(struct ws_acc_prof_info *prof, struct ws_acc_event_info *event, void *api)
{
	struct ws_rec_openacc record = {0};
	uint64_t now = ws_rt_read_ticks();
	int32_t type, began;

	(void)api;
	if (!prof || !HAS(prof, event_type) || prof->event_type <= 0 ||
	    prof->event_type >= WS_OPENACC_EVENTS)
		return;
	type = prof->event_type;
	if (lasts[type]) {
		begin_event(type);
		return;
	}
	began = find_start(type);
	record.start = record.end = now;
	record.rec.small = (uint16_t)type;
	if (began) {
		record.start = end_event(began);
		record.rec.small = (uint16_t)began;
	}
	if (record.start && ws_rt_is_collecting())
		write_event(record, prof, event);
}

WS_EXPORT void acc_register_library(ws_acc_register *reg, ws_acc_register *unregister,
				    ws_acc_lookup *lookup);
void acc_register_library(ws_acc_register *reg, ws_acc_register *unregister, ws_acc_lookup *lookup)
{
	static bool registered; /* a runtime may find this library twice, in different ways */

	(void)unregister, (void)lookup;
	ws_rt_init();
	if (!ws_rt->arena || !(ws_rt->features & WS_FEATURE_OPENACC) || registered)
		return;
	registered = true;
	for (int event = 1; event < WS_OPENACC_EVENTS; event++)
		if (sorts[event] || find_start(event))
			reg(event, see_event, 0);
}
