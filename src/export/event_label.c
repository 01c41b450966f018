/* event_label.c - the names of events in exports of timelines: the name in the report, or a label
 * made from the row in the way that the event's descriptor says. */
#include "export/event_label.h"

#include <inttypes.h>

#include "query/gpu.h"

typedef void put_label(const struct ws_cell_context *export, const struct ws_timeline_event *event,
		       struct ws_text *text);

static void put_own_text(const struct ws_cell_context *export,
			 const struct ws_timeline_event *event, struct ws_text *text)
{
	const struct ws_event_kind *kind = event->kind;
	uint64_t value = event->values[kind->name];

	(void)export;
	if (value >= kind->own_n)
		value = 0;
	ws_text_puts(text, ws_get_own_text((uint32_t)(kind->own + value)));
}

static void put_text_label(const struct ws_cell_context *export,
			   const struct ws_timeline_event *event, struct ws_text *text)
{
	(void)export;
	ws_text_puts(text, event->kind->label_text);
}

static void put_call_label(const struct ws_cell_context *export,
			   const struct ws_timeline_event *event, struct ws_text *text)
{
	size_t length;
	const char *name = ws_get_cuda_function_name(
		export->report, (uint32_t)event->values[event->kind->name], &length);

	ws_text_add(text, name, length);
}

static void put_copy_label(const struct ws_cell_context *export,
			   const struct ws_timeline_event *event, struct ws_text *text)
{
	(void)export;
	ws_text_printf(text, "%s (%s -> %s)", ws_name_copy_kind(event->values[ws_cuda_memcpy_kind]),
		       ws_name_memory_kind(event->values[ws_cuda_memcpy_src_kind]),
		       ws_name_memory_kind(event->values[ws_cuda_memcpy_dst_kind]));
}

static void put_memset_label(const struct ws_cell_context *export,
			     const struct ws_timeline_event *event, struct ws_text *text)
{
	(void)export;
	ws_text_printf(text, "Memset (%s)",
		       ws_name_memory_kind(event->values[ws_cuda_memset_mem_kind]));
}

static void put_graph_label(const struct ws_cell_context *export,
			    const struct ws_timeline_event *event, struct ws_text *text)
{
	(void)export;
	ws_text_printf(text, "CUDA graph %" PRIu64, event->values[ws_cuda_graph_trace_graph]);
}

static void put_sync_label(const struct ws_cell_context *export,
			   const struct ws_timeline_event *event, struct ws_text *text)
{
	(void)export;
	ws_text_puts(text, ws_name_sync_type(event->values[ws_cuda_sync_type]));
}

static void put_core_label(const struct ws_cell_context *export,
			   const struct ws_timeline_event *event, struct ws_text *text)
{
	(void)export;
	if (event->values[ws_sched_cpu] == WS_NO_U32)
		ws_text_puts(text, "running");
	else
		ws_text_printf(text, "core %" PRIu64, event->values[ws_sched_cpu]);
}

static void put_gil_label(const struct ws_cell_context *export,
			  const struct ws_timeline_event *event, struct ws_text *text)
{
	bool waits = event->values[ws_gil_state] == WS_GIL_WAITS;

	(void)export;
	ws_text_puts(text, waits ? "waits for the GIL" : "holds the GIL");
}

static put_label *const labels[WS_LABELS] = {
	[WS_LABEL_NAME] = put_own_text,	      [WS_LABEL_TEXT] = put_text_label,
	[WS_LABEL_CALL] = put_call_label,     [WS_LABEL_COPY] = put_copy_label,
	[WS_LABEL_MEMSET] = put_memset_label, [WS_LABEL_GRAPH] = put_graph_label,
	[WS_LABEL_SYNC] = put_sync_label,     [WS_LABEL_CORE] = put_core_label,
	[WS_LABEL_GIL] = put_gil_label,
};

bool ws_event_name_string(const struct ws_timeline_event *event, uint32_t *id)
{
	const struct ws_event_kind *kind = event->kind;

	if (kind->label != WS_LABEL_NAME || kind->naming != WS_NAMED_STR)
		return false;
	*id = 0;
	if (kind->full_name)
		*id = (uint32_t)event->values[kind->full_name];
	if (!*id)
		*id = (uint32_t)event->values[kind->name];
	return true;
}

void ws_event_put_label(const struct ws_cell_context *export, const struct ws_timeline_event *event,
			struct ws_text *text)
{
	labels[event->kind->label](export, event, text);
}
