/*
 * chrome.c - Chrome's trace events as JSON, in the dialect of PyTorch's profiler (Kineto), for
 * Perfetto, chrome://tracing, TensorBoard's plug-in and Holistic Trace Analysis.
 *
 * Threads are rows of their processes; work on a GPU is in a process of its own whose number is the
 * device's (another one where that is taken), with a row for each stream. Times are microseconds
 * with three decimals, from the start of the collection; baseTimeNanoseconds says when that was.
 * Calls and the work they caused are joined by flows "ac2g" and by args.correlation. Ranges that
 * may overlap without nesting (start/end ranges) are written as asynchronous events, so that
 * readers keep them. Flows "fwdbwd" lead from forward operators to their backward ones: the
 * recorded flows, or else flows made from the operators' sequence numbers.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export/chrome.h"
#include "export/chrome_samples.h"
#include "base/choose.h"
#include "export/formats.h"
#include "text/output_file.h"
#include "text/progress.h"
#include "views/tables.h"
#include "text/text.h"
#include "export/event_label.h"
#include "export/timeline.h"
#include "query/gpu.h"

enum {
	FIRST_OTHER_GPU = 8388608,
	FIRST_OTHER_PROCESS = 12582912,
	FIRST_TRACK = 8388608
}; /* above any pid or tid of Linux */

/* ---- pieces of JSON ---- */

static void put_us(struct ws_text *text, int64_t ns)
{
	uint64_t v = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;

	ws_text_printf(text, "%s%" PRIu64 ".%03u", ns < 0 ? "-" : "", v / 1000,
		       (unsigned)(v % 1000));
}

static int64_t time_of_export(const struct chrome *chrome, uint64_t t)
{
	return (int64_t)(t - chrome->export->base);
}

/* Write {"ph":"X","cat":"kernel","name": - the caller appends the name. */
static void open_event(struct chrome *chrome, const char *ph, const char *cat)
{
	ws_text_puts(&chrome->text, chrome->first ? "\n" : ",\n");
	chrome->first = false;
	ws_text_printf(&chrome->text, "{\"ph\":\"%s\",\"cat\":\"%s\",\"name\":", ph, cat);
}

static void put_place(struct chrome *chrome, int64_t pid, int64_t tid, uint64_t at)
{
	ws_text_printf(&chrome->text, ",\"pid\":%" PRId64 ",\"tid\":%" PRId64 ",\"ts\":", pid, tid);
	put_us(&chrome->text, time_of_export(chrome, at));
}

/* An event that never ended lasts to the end of the recording. */
static uint64_t end_of(const struct chrome *chrome, const struct ws_timeline_event *event)
{
	if (event->end == WS_NO_TIME)
		return chrome->export->last;
	return event->end;
}

/* Write the length and open the arguments; they mark events that never ended. */
static void put_length(struct chrome *chrome, const struct ws_timeline_event *event)
{
	uint64_t end = end_of(chrome, event);

	ws_text_puts(&chrome->text, ",\"dur\":");
	put_us(&chrome->text, end > event->start ? (int64_t)(end - event->start) : 0);
	ws_text_puts(&chrome->text,
		     event->end == WS_NO_TIME ? ",\"args\":{\"never ended\":true" : ",\"args\":{");
}

static void close_event(struct chrome *chrome)
{
	ws_text_puts(&chrome->text, "}}");
}

static int flush_text(struct chrome *chrome, size_t above, struct ws_err *err)
{
	if (chrome->text.len <= above)
		return 0;
	if (fwrite(chrome->text.text, 1, chrome->text.len, chrome->file) != chrome->text.len)
		return ws_fail_errno(err, "cannot write %s", ws_name_output(chrome->export));
	chrome->text.len = 0;
	return 0;
}

/* ---- the row of an event ---- */

struct row {
	int64_t pid, tid;
};

int64_t ws_chrome_number_process(const struct chrome *chrome, const struct ws_process_info *info)
{
	uint64_t other = ws_map_get(&chrome->others, info->global_pid, NULL);

	return other ? (int64_t)other : (int64_t)info->pid;
}

static struct row find_thread_row(struct chrome *chrome, uint64_t thread)
{
	const struct ws_thread_info *info = ws_find_thread(chrome->export->who, (uint32_t)thread);

	if (thread && thread <= ws_highest_thread_id(chrome->export->who))
		chrome->threads[thread] = 1;
	return (struct row){ws_chrome_number_process(chrome, ws_find_process(chrome->export->who,
									     info->process)),
			    info->tid};
}

static int64_t number_gpu(struct chrome *chrome, uint64_t process, uint64_t device)
{
	uint64_t key = process << 32 | (uint32_t)device,
		 at = ws_map_get(&chrome->gpu_at, key, NULL);
	int64_t pid = (int64_t)device;

	if (at)
		return chrome->gpus[at - 1].pid;
	if (device >= FIRST_OTHER_GPU || ws_map_get(&chrome->taken, device, NULL))
		pid = FIRST_OTHER_GPU + (int64_t)chrome->gpu_count;
	ws_map_set(&chrome->taken, (uint64_t)pid, 1);
	ws_grow(chrome->gpus, chrome->gpu_cap, chrome->gpu_count + 1);
	chrome->gpus[chrome->gpu_count++] = (struct gpu){process, device, pid};
	ws_map_set(&chrome->gpu_at, key, chrome->gpu_count);
	return pid;
}

static struct row find_stream_row(struct chrome *chrome, uint64_t process, uint64_t device,
				  uint64_t stream)
{
	struct row row = {number_gpu(chrome, process, device),
			  stream == WS_NO_U32 ? -1 : (int64_t)stream};

	ws_map_set(&chrome->rows, (uint64_t)row.pid << 32 | (uint32_t)row.tid, 1);
	return row;
}

static struct row find_track_row(struct chrome *chrome, uint64_t thread, uint64_t track)
{
	uint64_t process, on_gpu;

	if (!track)
		return find_thread_row(chrome, thread);
	process = ws_map_get(&chrome->track_process, track, NULL);
	on_gpu = ws_map_get(&chrome->track_row, track, NULL);
	if (on_gpu)
		return find_stream_row(chrome, process, (on_gpu - 1) >> 32,
				       (on_gpu - 1) & UINT32_MAX);
	return (struct row){ws_chrome_number_process(chrome, ws_find_process(chrome->export->who,
									     (uint32_t)process)),
			    FIRST_TRACK + (int64_t)track};
}

/* ---- flows ---- */

static void put_flow(struct chrome *chrome, const char *ph, const struct ws_timeline_event *event,
		     struct row row)
{
	uint64_t process = ws_event_process(chrome->export, event),
		 id = event->values[event->kind->correlation];

	if (process > 1)
		id |= (process - 1) << 32;
	open_event(chrome, ph, "ac2g");
	ws_text_printf(&chrome->text, "\"ac2g\",\"id\":%" PRIu64, id);
	put_place(chrome, row.pid, row.tid, event->start);
	ws_text_puts(&chrome->text, *ph == 'f' ? ",\"bp\":\"e\"}" : "}");
}

static void link_call(struct chrome *chrome, const struct ws_timeline_event *event, struct row row)
{
	if (ws_links_from(&chrome->links, ws_event_process(chrome->export, event),
			  event->values[event->kind->category_by],
			  event->values[event->kind->correlation]))
		put_flow(chrome, "s", event, row);
}

static void link_work(struct chrome *chrome, const struct ws_timeline_event *event, struct row row)
{
	if (ws_links_to(&chrome->links, ws_event_process(chrome->export, event),
			event->values[event->kind->correlation]))
		put_flow(chrome, "f", event, row);
}

/* One flow from a forward operator to its first backward one. */
static void put_backward(struct chrome *chrome, uint64_t key, const struct ws_timeline_event *event)
{
	uint64_t at = ws_map_get(&chrome->forwards, key, NULL), id;
	struct row from, to;

	if (!at || !chrome->forward[at - 1].thread)
		return;
	from = find_thread_row(chrome, chrome->forward[at - 1].thread);
	to = find_thread_row(chrome, event->values[ws_op_thread]);
	id = ++chrome->async;
	open_event(chrome, "s", "fwdbwd");
	ws_text_printf(&chrome->text, "\"fwdbwd\",\"id\":%" PRIu64, id);
	put_place(chrome, from.pid, from.tid, chrome->forward[at - 1].start);
	ws_text_puts(&chrome->text, "}");
	open_event(chrome, "f", "fwdbwd");
	ws_text_printf(&chrome->text, "\"fwdbwd\",\"id\":%" PRIu64, id);
	put_place(chrome, to.pid, to.tid, event->start);
	ws_text_puts(&chrome->text, ",\"bp\":\"e\"}");
	chrome->forward[at - 1].thread = 0;
}

/*
 * Autograd gives a forward operator and its backward one the same sequence number; the backward one
 * names the thread of the forward one, numbered from 1. Of nested forward operators the innermost
 * counts, and of nested backward ones the one inside the engine's own, as in the profiler's traces.
 */
static void link_operator(struct chrome *chrome, const struct ws_timeline_event *event,
			  struct row row)
{
	static const char engine[] = "autograd::engine::evaluate_function: ";
	enum { MOST = 1 << 20 }; /* forward operators that wait for their backward ones */
	uint64_t sequence = event->values[ws_op_sequence], at, key;

	(void)row;
	if (chrome->linked || event->values[ws_op_kind] != WS_OP_CPU || sequence == WS_NO_U64)
		return;
	key = (uint64_t)ws_find_thread(chrome->export->who, (uint32_t)event->values[ws_op_thread])
			      ->process
		      << 48 ^
	      sequence;
	if (event->values[ws_op_forward_thread] != WS_NO_U64 &&
	    event->values[ws_op_forward_thread]) {
		if (strncmp(ws_report_string(chrome->export->report,
					     (uint32_t)event->values[ws_op_name], NULL),
			    engine, sizeof(engine) - 1))
			put_backward(chrome, key, event);
		return;
	}
	at = ws_map_get(&chrome->forwards, key, NULL);
	if (!at && chrome->forward_count == MOST) { /* inference: they have no backward operators */
		ws_map_free(&chrome->forwards);
		chrome->forwards = (struct ws_map){0};
		chrome->forward_count = 0;
	}
	if (!at) {
		ws_grow(chrome->forward, chrome->forward_cap, chrome->forward_count + 1);
		at = ++chrome->forward_count;
		ws_map_set(&chrome->forwards, key, at);
	}
	chrome->forward[at - 1] =
		(struct forward){event->start, (uint32_t)event->values[ws_op_thread]};
}

static void (*const link_writers[WS_LINKS])(struct chrome *chrome,
					    const struct ws_timeline_event *event,
					    struct row row) = {
	[WS_LINK_CALL] = link_call,
	[WS_LINK_WORK] = link_work,
	[WS_LINK_OPERATOR] = link_operator,
};

/* ---- ordinary events ---- */

static struct row device_row(struct chrome *chrome, const struct ws_timeline_event *event)
{
	const struct ws_event_kind *kind = event->kind;
	uint64_t stream = WS_NO_U32;

	if (kind->stream)
		stream = event->values[kind->stream];
	return find_stream_row(chrome, event->values[kind->process], event->values[kind->device],
			       stream);
}

static struct row own_thread_row(struct chrome *chrome, const struct ws_timeline_event *event)
{
	return find_thread_row(chrome, event->values[event->kind->thread]);
}

static struct row own_track_row(struct chrome *chrome, const struct ws_timeline_event *event)
{
	return find_track_row(chrome, event->values[event->kind->thread],
			      event->values[event->kind->track]);
}

static struct row (*const row_finders[WS_ROWS])(struct chrome *chrome,
						const struct ws_timeline_event *event) = {
	[WS_ROW_THREAD] = own_thread_row, [WS_ROW_BELOW_THREAD] = own_thread_row,
	[WS_ROW_TRACK] = own_track_row,	  [WS_ROW_STREAM] = device_row,
	[WS_ROW_DEVICE] = device_row,
};

static void put_span(struct chrome *chrome, const struct ws_timeline_event *event,
		     const char *category, struct row row)
{
	open_event(chrome, "X", category);
	ws_chrome_put_label(chrome, event);
	put_place(chrome, row.pid, row.tid, event->start);
	put_length(chrome, event);
	ws_chrome_put_args(chrome, event);
	close_event(chrome);
}

/* A pair of asynchronous events, which may cross others. */
static void put_async(struct chrome *chrome, const struct ws_timeline_event *event,
		      const char *category, struct row row)
{
	uint64_t id = ++chrome->async, end = end_of(chrome, event);
	const uint64_t times[2] = {event->start, ws_max(end, event->start)};

	for (int half = 0; half < 2; half++) {
		open_event(chrome, half ? "e" : "b", category);
		ws_chrome_put_label(chrome, event);
		ws_text_printf(&chrome->text, ",\"id\":%" PRIu64, id);
		put_place(chrome, row.pid, row.tid, times[half]);
		ws_text_puts(&chrome->text, ",\"args\":{");
		if (!half && event->end == WS_NO_TIME)
			ws_text_puts(&chrome->text, "\"never ended\":true");
		if (!half)
			ws_chrome_put_args(chrome, event);
		close_event(chrome);
	}
}

static void put_moment(struct chrome *chrome, const struct ws_timeline_event *event,
		       const char *category, struct row row)
{
	open_event(chrome, "i", category);
	ws_chrome_put_label(chrome, event);
	put_place(chrome, row.pid, row.tid, event->start);
	ws_text_puts(&chrome->text, ",\"s\":\"t\",\"args\":{");
	ws_chrome_put_args(chrome, event);
	close_event(chrome);
}

static void (*const shape_writers[])(struct chrome *chrome, const struct ws_timeline_event *event,
				     const char *category, struct row row) = {
	[WS_SHAPE_SPAN] = put_span,	[WS_SHAPE_CROSSING] = put_async,
	[WS_SHAPE_MOMENT] = put_moment, [WS_SHAPE_CROSSING_MOMENT] = put_async,
	[WS_SHAPE_NONE] = NULL,
};

/* The category from the program, or else that of the kind; valid until `given` is freed. */
static const char *category_of(struct chrome *chrome, const struct ws_timeline_event *event,
			       struct ws_text *given)
{
	uint8_t column = event->kind->category_text;
	const char *text;
	size_t n = 0;

	if (column)
		text = ws_report_string(chrome->export->report, (uint32_t)event->values[column],
					&n);
	if (!n)
		return ws_category_names[ws_find_row_category(event)];
	ws_put_quoted_json(given, text, n);
	given->text[given->len - 1] = 0; /* without its quotes: open_event has them */
	return given->text + 1;
}

static void put_plain_event(struct chrome *chrome, const struct ws_timeline_event *event)
{
	const struct ws_event_kind *kind = event->kind;
	enum ws_event_shape shape = ws_find_row_shape(event);
	struct ws_text given = {0};
	struct row row;

	if (!shape_writers[shape])
		return;
	row = row_finders[kind->row](chrome, event);
	shape_writers[shape](chrome, event, category_of(chrome, event, &given), row);
	if (link_writers[kind->link])
		link_writers[kind->link](chrome, event, row);
	ws_text_free(&given);
}

/* ---- events of other forms ---- */

static void put_op_memory(struct chrome *chrome, const struct ws_timeline_event *event)
{
	const uint64_t *values = event->values;
	struct row row = find_thread_row(chrome, values[ws_op_memory_thread]);

	open_event(chrome, "i", "cpu_instant_event");
	ws_text_puts(&chrome->text, "\"[memory]\"");
	put_place(chrome, row.pid, row.tid, event->start);
	ws_text_printf(&chrome->text,
		       ",\"s\":\"t\",\"args\":{\"Total Reserved\":%" PRIu64
		       ",\"Total Allocated\":%" PRIu64 ",\"Bytes\":%" PRId64,
		       values[ws_op_memory_reserved], values[ws_op_memory_allocated],
		       (int64_t)values[ws_op_memory_bytes]);
	ws_text_printf(&chrome->text,
		       ",\"Addr\":%" PRIu64 ",\"Device Id\":%d,\"Device Type\":%" PRIu64,
		       values[ws_op_memory_address], (int)values[ws_op_memory_device],
		       values[ws_op_memory_device_type]);
	close_event(chrome);
}

/* One end of an arrow between rows. */
static void put_arrow_end(struct chrome *chrome, const struct ws_timeline_event *event,
			  const char *category, uint64_t id, bool is_end)
{
	const uint64_t *values = event->values;
	struct row row;

	if (is_end)
		row = find_track_row(chrome, values[ws_flow_to_thread], values[ws_flow_to_track]);
	else
		row = find_track_row(chrome, values[ws_flow_from_thread],
				     values[ws_flow_from_track]);
	open_event(chrome, is_end ? "f" : "s", category);
	ws_chrome_put_string(chrome, &chrome->text, values[ws_flow_name]);
	ws_text_printf(&chrome->text, ",\"id\":%" PRIu64, id);
	put_place(chrome, row.pid, row.tid, is_end ? event->end : event->start);
	ws_text_puts(&chrome->text, is_end ? ",\"bp\":\"e\"}" : "}");
}

static void put_arrow(struct chrome *chrome, const struct ws_timeline_event *event)
{
	uint64_t id = ++chrome->async;
	struct ws_text given = {0};
	const char *category;

	if (event->end == WS_NO_TIME)
		return;
	category = category_of(chrome, event, &given);
	put_arrow_end(chrome, event, category, id, false);
	put_arrow_end(chrome, event, category, id, true);
	ws_text_free(&given);
}

static void put_sample(struct chrome *chrome, const struct ws_timeline_event *event)
{
	static const char cat[] = "disabled-by-default-v8.cpu_profiler";
	uint64_t thread = event->values[ws_sample_thread];
	struct row row = find_thread_row(chrome, thread);

	if (ws_chrome_samples_new(chrome->samples, thread)) {
		open_event(chrome, "P", cat);
		ws_text_puts(&chrome->text, "\"Profile\"");
		put_place(chrome, row.pid, row.tid, event->start);
		ws_text_puts(&chrome->text, ",");
		ws_chrome_samples_begin(chrome->samples, &chrome->text, thread,
					time_of_export(chrome, event->start));
	}
	open_event(chrome, "P", cat);
	ws_text_puts(&chrome->text, "\"ProfileChunk\"");
	put_place(chrome, row.pid, row.tid, event->start);
	ws_text_puts(&chrome->text, ",");
	ws_chrome_samples_put(chrome->samples, &chrome->text, event->values,
			      time_of_export(chrome, event->start));
}

static void put_counter(struct chrome *chrome, const struct ws_timeline_event *event)
{
	uint64_t id = event->values[ws_counter_value_counter],
		 group = ws_map_get(&chrome->groups, id, NULL);
	uint64_t process = ws_map_get(&chrome->counter_process, id, NULL);
	double value = ws_chrome_read_real(event->values[ws_counter_value_value]);
	struct ws_text name = {0};

	if (group) {
		const char *text = ws_report_string(chrome->export->report, (uint32_t)group, NULL);

		ws_text_printf(&name, "%s: ", text);
	}
	ws_text_puts(&name,
		     ws_report_string(chrome->export->report,
				      (uint32_t)ws_map_get(&chrome->counters, id, NULL), NULL));
	open_event(chrome, "C", "counter");
	ws_put_quoted_json(&chrome->text, name.text, name.len);
	put_place(chrome,
		  ws_chrome_number_process(chrome,
					   ws_find_process(chrome->export->who, (uint32_t)process)),
		  0, event->start);
	ws_text_printf(&chrome->text, ",\"args\":{\"value\":%.17g",
		       value - value == 0 ? value : 0.0);
	close_event(chrome);
	ws_text_free(&name);
}

static void put_gpu_memory(struct chrome *chrome, const struct ws_timeline_event *event)
{
	const uint64_t *values = event->values;

	open_event(chrome, "C", "gpu_memory");
	ws_text_printf(&chrome->text, "\"GPU memory (%s)\"",
		       ws_name_memory_kind(values[ws_cuda_memory_kind]));
	put_place(chrome,
		  number_gpu(chrome, values[ws_cuda_memory_process], values[ws_cuda_memory_device]),
		  0, event->start);
	ws_text_printf(&chrome->text, ",\"args\":{\"bytes\":%" PRIu64,
		       values[ws_cuda_memory_in_use]);
	close_event(chrome);
}

static void (*const form_writers[WS_FORMS])(struct chrome *chrome,
					    const struct ws_timeline_event *event) = {
	[WS_FORM_EVENT] = put_plain_event,
	[WS_FORM_COUNTER] = put_counter,
	[WS_FORM_GPU_MEMORY] = put_gpu_memory,
	[WS_FORM_OP_MEMORY] = put_op_memory,
	[WS_FORM_FLOW] = put_arrow,
	[WS_FORM_SAMPLE] = put_sample,
};

/* ---- names of processes and threads ---- */

static void open_metadata(struct chrome *chrome, const char *what, int64_t pid, int64_t tid)
{
	ws_text_puts(&chrome->text, chrome->first ? "\n" : ",\n");
	chrome->first = false;
	ws_text_printf(&chrome->text,
		       "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%" PRId64 ",\"tid\":%" PRId64
		       ",\"ts\":0,\"args\":{",
		       what, pid, tid);
}

static void put_name(struct chrome *chrome, const char *what, int64_t pid, int64_t tid,
		     const char *name)
{
	open_metadata(chrome, what, pid, tid);
	ws_text_puts(&chrome->text, "\"name\":");
	ws_put_quoted_json(&chrome->text, name, strlen(name));
	close_event(chrome);
}

static void put_process(struct chrome *chrome, int64_t pid, const char *name, const char *label,
			int64_t order)
{
	put_name(chrome, "process_name", pid, 0, name);
	open_metadata(chrome, "process_labels", pid, 0);
	ws_text_puts(&chrome->text, "\"labels\":");
	ws_put_quoted_json(&chrome->text, label, strlen(label));
	close_event(chrome);
	open_metadata(chrome, "process_sort_index", pid, 0);
	ws_text_printf(&chrome->text, "\"sort_index\":%" PRId64, order);
	close_event(chrome);
}

/* A thread's name in the form of the PyTorch profiler, "thread 7 (name)", and its own name where
 * that differs, for importers of the trace. */
static void put_thread(struct chrome *chrome, const struct ws_thread_info *thread)
{
	const struct ws_process_info *process =
		ws_find_process(chrome->export->who, thread->process);
	char *name = ws_format("thread %u (", thread->tid);
	bool named = !strncmp(thread->name, name, strlen(name)); /* named by such a trace */

	free(name);
	open_metadata(chrome, "thread_name", ws_chrome_number_process(chrome, process),
		      (int64_t)thread->tid);
	ws_text_puts(&chrome->text, "\"name\":");
	if (named) {
		ws_put_quoted_json(&chrome->text, thread->name, strlen(thread->name));
	} else {
		const char *inner = *thread->name ? thread->name : thread->process_name;

		name = ws_format("thread %u (%s)", thread->tid, inner);
		ws_put_quoted_json(&chrome->text, name, strlen(name));
		ws_text_puts(&chrome->text, ",\"own name\":");
		ws_put_quoted_json(&chrome->text, thread->name, strlen(thread->name));
		free(name);
	}
	close_event(chrome);
}

static void put_who(struct chrome *chrome)
{
	const struct ws_names_by_id *who = chrome->export->who;
	struct ws_map named = {0};

	for (uint32_t i = ws_highest_process_id(who); i > 0;
	     i--) { /* the last image of a pid names it */
		const struct ws_process_info *info = ws_find_process(who, i);

		if (ws_map_get(&named, info->global_pid, NULL))
			continue;
		ws_map_set(&named, info->global_pid, 1);
		put_process(chrome, ws_chrome_number_process(chrome, info), info->name, "CPU",
			    ws_chrome_number_process(chrome, info));
	}
	ws_map_free(&named);
	for (uint32_t i = 1; i <= ws_highest_thread_id(who); i++)
		if (chrome->threads[i])
			put_thread(chrome, ws_find_thread(who, i));
}

static void put_gpus(struct chrome *chrome)
{
	char label[64];

	for (size_t i = 0; i < chrome->gpu_count; i++) {
		snprintf(label, sizeof(label), "GPU %" PRIu64, chrome->gpus[i].device);
		put_process(chrome, chrome->gpus[i].pid,
			    ws_find_process(chrome->export->who, (uint32_t)chrome->gpus[i].process)
				    ->name,
			    label, 5000000 + (int64_t)chrome->gpus[i].pid);
	}
	for (size_t i = 0; i < chrome->rows.size; i++) {
		int64_t pid = (int64_t)(chrome->rows.slots[i].key >> 32),
			tid = (int32_t)chrome->rows.slots[i].key;

		if (!chrome->rows.used[i])
			continue;
		snprintf(label, sizeof(label), tid < 0 ? "synchronization" : "stream %" PRId64,
			 tid);
		put_name(chrome, "thread_name", pid, tid, label);
	}
}

/* Tracks have rows of their own in their process. They come before their events, because importers
 * must know by then that these rows are not threads. */
static void put_tracks(struct chrome *chrome)
{
	struct ws_cursor *cursor =
		ws_cursor_open(chrome->export->report, WS_TABLE_track, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		uint64_t id = values[ws_track_id];
		struct row row;

		if (ws_map_get(&chrome->track_row, id, NULL))
			continue;
		row = find_track_row(chrome, 0, id);
		open_metadata(chrome, "thread_name", row.pid, row.tid);
		ws_text_puts(&chrome->text, "\"name\":");
		ws_chrome_put_string(chrome, &chrome->text, values[ws_track_name]);
		ws_chrome_put_number(chrome, "track", id);
		ws_chrome_put_number(chrome, "parent track", values[ws_track_parent]);
		ws_chrome_put_number(chrome, "of process", values[ws_track_process] != 0);
		close_event(chrome);
	}
	ws_cursor_close(cursor);
}

/* ---- the head ---- */

static void put_devices(struct chrome *chrome)
{
	struct ws_cursor *cursor =
		ws_cursor_open(chrome->export->report, WS_TABLE_cuda_device, 0, UINT64_MAX);
	struct ws_map seen = {0};
	const uint64_t *values;
	bool first = true;

	while (ws_cursor_next(cursor, &values)) {
		if (ws_map_get(&seen, values[ws_cuda_device_id], NULL))
			continue;
		ws_map_set(&seen, values[ws_cuda_device_id], 1);
		ws_text_printf(&chrome->text, "%s\n{\"id\":%" PRIu64 ",\"name\":", first ? "" : ",",
			       values[ws_cuda_device_id]);
		first = false;
		ws_chrome_put_string(chrome, &chrome->text, values[ws_cuda_device_name]);
		ws_text_printf(&chrome->text,
			       ",\"totalGlobalMem\":%" PRIu64 ",\"computeMajor\":%" PRIu64
			       ",\"computeMinor\":%" PRIu64,
			       values[ws_cuda_device_memory_bytes], values[ws_cuda_device_major],
			       values[ws_cuda_device_minor]);
		ws_text_printf(&chrome->text,
			       ",\"maxThreadsPerBlock\":%" PRIu64
			       ",\"maxThreadsPerMultiprocessor\":%" PRIu64,
			       values[ws_cuda_device_threads_block],
			       values[ws_cuda_device_warps_sm] * values[ws_cuda_device_warp]);
		ws_text_printf(&chrome->text,
			       ",\"regsPerBlock\":%" PRIu64 ",\"warpSize\":%" PRIu64
			       ",\"sharedMemPerBlock\":%" PRIu64,
			       values[ws_cuda_device_regs_block], values[ws_cuda_device_warp],
			       values[ws_cuda_device_shared_block]);
		ws_text_printf(&chrome->text,
			       ",\"numSms\":%" PRIu64 ",\"regsPerMultiprocessor\":%" PRIu64,
			       values[ws_cuda_device_sms], values[ws_cuda_device_regs_sm]);
		ws_text_printf(&chrome->text,
			       ",\"sharedMemPerBlockOptin\":%" PRIu64
			       ",\"sharedMemPerMultiprocessor\":%" PRIu64 "}",
			       values[ws_cuda_device_shared_block_optin],
			       values[ws_cuda_device_shared_sm]);
	}
	ws_cursor_close(cursor);
	ws_map_free(&seen);
}

static void put_rank(struct chrome *chrome)
{
	struct ws_cursor *cursor =
		ws_cursor_open(chrome->export->report, WS_TABLE_rank, 0, UINT64_MAX);
	uint64_t rank = 0, world = 0;
	const uint64_t *values;
	bool known = false, one = true;

	while (ws_cursor_next(cursor, &values)) {
		one &= !known || (rank == values[ws_rank_rank] && world == values[ws_rank_world]);
		known = true;
		rank = values[ws_rank_rank];
		world = values[ws_rank_world];
	}
	ws_cursor_close(cursor);
	if (known && one)
		ws_text_printf(&chrome->text,
			       "\"distributedInfo\":{\"rank\":%" PRIu64 ",\"world_size\":%" PRIu64
			       "},\n",
			       rank, world);
}

/* When the report was recorded, in ns on the clock of the events, so that a report made from the
 * trace covers the same time. */
static void put_collections(struct chrome *chrome)
{
	struct ws_cursor *cursor =
		ws_cursor_open(chrome->export->report, WS_TABLE_collection, 0, UINT64_MAX);
	const uint64_t *values;
	bool first = true;

	ws_text_puts(&chrome->text, "\"warpsight\":{\"collections\":[");
	while (ws_cursor_next(cursor, &values)) {
		ws_text_printf(&chrome->text, "%s[%" PRId64, first ? "" : ",",
			       time_of_export(chrome, values[ws_collection_start]));
		if (values[ws_collection_end] == WS_NO_TIME)
			ws_text_puts(&chrome->text, ",null]");
		else
			ws_text_printf(&chrome->text, ",%" PRId64 "]",
				       time_of_export(chrome, values[ws_collection_end]));
		first = false;
	}
	ws_cursor_close(cursor);
	ws_text_puts(&chrome->text, "]},\n");
}

static void put_head(struct chrome *chrome)
{
	ws_text_puts(&chrome->text, "{\n\"schemaVersion\":1,\n\"deviceProperties\":[");
	put_devices(chrome);
	ws_text_puts(&chrome->text, "],\n");
	put_rank(chrome);
	put_collections(chrome);
	ws_text_printf(&chrome->text,
		       "\"displayTimeUnit\":\"ms\",\n\"baseTimeNanoseconds\":%" PRIu64
		       ",\n\"traceEvents\":[",
		       chrome->export->normalized ? 0 : ws_find_start_epoch(chrome->export));
}

static void load_counters(struct chrome *chrome)
{
	struct ws_cursor *cursor =
		ws_cursor_open(chrome->export->report, WS_TABLE_counter, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		ws_map_set(&chrome->counters, values[ws_counter_id], values[ws_counter_name]);
		ws_map_set(&chrome->groups, values[ws_counter_id], values[ws_counter_group]);
		ws_map_set(&chrome->counter_process, values[ws_counter_id],
			   values[ws_counter_process]);
	}
	ws_cursor_close(cursor);
}

/* GPU annotations go to the row of their stream, as in the profiler's traces. */
static void load_tracks(struct chrome *chrome)
{
	struct ws_cursor *cursor =
		ws_cursor_open(chrome->export->report, WS_TABLE_track, 0, UINT64_MAX);
	unsigned device, stream;
	const uint64_t *values;
	int n;

	while (ws_cursor_next(cursor, &values)) {
		const char *name = ws_report_string(chrome->export->report,
						    (uint32_t)values[ws_track_name], NULL);

		ws_map_set(&chrome->track_name, values[ws_track_id], values[ws_track_name]);
		ws_map_set(&chrome->track_process, values[ws_track_id], values[ws_track_process]);
		n = 0;
		if (sscanf(name, "GPU %u stream %u annotations%n", &device, &stream, &n) == 2 &&
		    n && !name[n])
			ws_map_set(&chrome->track_row, values[ws_track_id],
				   ((uint64_t)device << 32 | stream) + 1);
	}
	ws_cursor_close(cursor);
}

static void load_collectives(struct chrome *chrome)
{
	struct ws_cursor *cursor =
		ws_cursor_open(chrome->export->report, WS_TABLE_collective, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		if (values[ws_collective_correlation] == WS_NO_U32)
			continue;
		ws_grow(chrome->collective, chrome->collective_cap, chrome->collective_count + 1);
		chrome->collective[chrome->collective_count++] = (struct ws_row_collective){
			.name = (uint32_t)values[ws_collective_name],
			.in_elements = values[ws_collective_in_elements],
			.out_elements = values[ws_collective_out_elements],
			.dtype = (uint32_t)values[ws_collective_dtype],
			.group_size = (uint32_t)values[ws_collective_group_size],
			.group = (uint32_t)values[ws_collective_group],
			.description = (uint32_t)values[ws_collective_description],
			.ranks = (uint32_t)values[ws_collective_ranks],
			.source = (int32_t)values[ws_collective_source],
			.destination = (int32_t)values[ws_collective_destination],
			.sequence = values[ws_collective_sequence],
		};
		ws_map_set(&chrome->collectives,
			   values[ws_collective_process] << 32 | values[ws_collective_correlation],
			   chrome->collective_count);
	}
	ws_cursor_close(cursor);
}

static int add_domains(void *ctx, const struct ws_batch *batch)
{
	struct chrome *chrome = ctx;

	for (size_t i = 0; i < batch->rows; i++)
		if (batch->col[ws_nvtx_type][i] == WS_NVTX_DOMAIN_CREATE) {
			uint64_t process = ws_find_thread(chrome->export->who,
							  (uint32_t)batch->col[ws_nvtx_thread][i])
						   ->process;

			ws_map_set(&chrome->domains, process << 32 | batch->col[ws_nvtx_domain][i],
				   batch->col[ws_nvtx_text][i]);
		}
	return 0;
}

static int find_links(void *ctx, const struct ws_batch *batch)
{
	struct chrome *chrome = ctx;
	size_t n;

	for (size_t i = 0; i < batch->rows && !chrome->linked; i++) {
		const char *text = ws_report_string(chrome->export->report,
						    (uint32_t)batch->col[ws_flow_category][i], &n);

		chrome->linked = n == 6 && !memcmp(text, "fwdbwd", 6);
	}
	return chrome->linked;
}

/* Images of one process share its pid. Processes of different files, such as ranks in containers,
 * may have the same pid by chance. */
static void number_processes(struct chrome *chrome)
{
	struct ws_map owner = {0}; /* pid -> its first globalPid, + 1 */

	for (uint32_t i = 1; i <= ws_highest_process_id(chrome->export->who); i++) {
		const struct ws_process_info *info = ws_find_process(chrome->export->who, i);
		uint64_t first = ws_map_get(&owner, info->pid, NULL);

		ws_map_set(&chrome->taken, info->pid, 1);
		if (!first)
			ws_map_set(&owner, info->pid, info->global_pid + 1);
		else if (first != info->global_pid + 1)
			ws_map_set(&chrome->others, info->global_pid, FIRST_OTHER_PROCESS + i);
	}
	chrome->several = owner.count + chrome->others.count > 1;
	ws_map_free(&owner);
}

/* Collect what must be known before the first event. */
static void load_chrome_tables(struct chrome *chrome)
{
	struct ws_scan domains = {.table = WS_TABLE_nvtx, .time_max = UINT64_MAX, .workers = 1};
	struct ws_scan flows = {.table = WS_TABLE_flow,
				.columns = WS_COLUMN_BIT(flow, category),
				.time_max = UINT64_MAX,
				.workers = 1};

	chrome->threads = ws_calloc((size_t)ws_highest_thread_id(chrome->export->who) + 1, 1);
	number_processes(chrome);
	domains.columns = WS_COLUMN_BIT(nvtx, type) | WS_COLUMN_BIT(nvtx, thread) |
			  WS_COLUMN_BIT(nvtx, domain) | WS_COLUMN_BIT(nvtx, text);
	ws_run_scan(chrome->export->report, &domains, add_domains, chrome, NULL);
	ws_run_scan(chrome->export->report, &flows, find_links, chrome, NULL);
	ws_links_load(&chrome->links, chrome->export);
	load_counters(chrome);
	load_tracks(chrome);
	load_collectives(chrome);
	chrome->samples = ws_chrome_samples_open(chrome->export);
}

static int put_events(struct chrome *chrome, struct ws_err *err)
{
	struct ws_timeline *timeline = ws_timeline_open(chrome->export, WS_IN_CHROME);
	struct ws_timeline_event event;
	int rc = 0;

	while (!rc && ws_timeline_next(timeline, &event)) {
		form_writers[event.kind->form](chrome, &event);
		chrome->export->rows++;
		ws_step_progress(chrome->export->progress, 1);
		rc = flush_text(chrome, 1 << 16, err);
	}
	ws_timeline_close(timeline);
	return !rc && ws_is_interrupted() ? ws_fail(err, "interrupted") : rc;
}

static int flush_some(void *ctx)
{
	return flush_text(ctx, 1 << 16, NULL);
}

static int put_end(struct chrome *chrome, struct ws_err *err)
{
	put_who(chrome);
	put_gpus(chrome);
	ws_text_puts(&chrome->text, "\n],\n\"stackFrames\":{");
	if (ws_chrome_samples_frames(chrome->samples, &chrome->text, flush_some, chrome))
		return ws_fail_errno(err, "cannot write %s", ws_name_output(chrome->export));
	ws_text_puts(&chrome->text, "},\n\"traceName\":");
	ws_put_quoted_json(&chrome->text, chrome->export->output, strlen(chrome->export->output));
	ws_text_puts(&chrome->text, "\n}\n");
	return flush_text(chrome, 0, err);
}

static void free_chrome_tables(struct chrome *chrome)
{
	ws_chrome_samples_close(chrome->samples);
	ws_links_free(&chrome->links);
	ws_map_free(&chrome->rows);
	ws_map_free(&chrome->gpu_at);
	ws_map_free(&chrome->taken);
	ws_map_free(&chrome->others);
	ws_map_free(&chrome->counters);
	ws_map_free(&chrome->groups);
	ws_map_free(&chrome->counter_process);
	ws_map_free(&chrome->track_name);
	ws_map_free(&chrome->track_process);
	ws_map_free(&chrome->track_row);
	ws_map_free(&chrome->domains);
	ws_map_free(&chrome->collectives);
	ws_map_free(&chrome->forwards);
	ws_text_free(&chrome->text);
	free(chrome->forward);
	free(chrome->collective);
	free(chrome->threads);
	free(chrome->gpus);
}

int ws_write_format_chrome(struct ws_cell_context *export, FILE *file, struct ws_err *err)
{
	struct chrome chrome = {.export = export, .file = file, .first = true};
	int rc;

	load_chrome_tables(&chrome);
	put_head(&chrome);
	put_tracks(&chrome);
	rc = put_events(&chrome, err);
	if (!rc)
		rc = put_end(&chrome, err);
	free_chrome_tables(&chrome);
	return rc;
}
