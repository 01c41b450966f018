/*
 * perfetto.c - Perfetto's trace format: TracePackets with track events.
 *
 * Each thread, GPU stream and counter is a track under its process. A slice is two packets, so ends
 * are kept in a heap until time reaches them, and the file is in order of time. A track's slices
 * must nest: a slice that crosses others goes to another track of the same name, and Perfetto shows
 * both as one. Names, categories and names of arguments are interned: written once, in the packet
 * that first needs them. A call and the work it caused share a flow; CPU samples are PerfSamples
 * with interned stacks.
 *
 * Times are those of the other exports, on Perfetto's boot-time clock; a clock snapshot says when
 * that was. Events from before the collection begin at 0, since times have no sign.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export/formats.h"
#include "base/choose.h"
#include "text/output_file.h"
#include "text/progress.h"
#include "export/proto.h"
#include "views/tables.h"
#include "text/text.h"
#include "export/event_label.h"
#include "export/timeline.h"
#include "query/gpu.h"
#include "query/stacks.h"

/* Numbers of fields in Perfetto's protos. */
enum { TRACE_PACKET = 1 };
enum {
	PACKET_CLOCKS = 6,
	PACKET_TIME = 8,
	PACKET_SEQUENCE = 10,
	PACKET_EVENT = 11,
	PACKET_INTERNED = 12,
	PACKET_FLAGS = 13,
	PACKET_TRACK = 60,
	PACKET_SAMPLE = 66
};
enum {
	EVENT_CATEGORY = 3,
	EVENT_ARG = 4,
	EVENT_TYPE = 9,
	EVENT_NAME = 10,
	EVENT_TRACK = 11,
	EVENT_INLINE_NAME = 23,
	EVENT_INT = 30,
	EVENT_REAL = 44,
	EVENT_FLOW = 47
};
enum { SLICE_BEGIN = 1, SLICE_END, INSTANT, COUNTER };
enum {
	INTERNED_CATEGORY = 1,
	INTERNED_NAME,
	INTERNED_ARG,
	INTERNED_FUNCTION = 5,
	INTERNED_FRAME,
	INTERNED_STACK,
	INTERNED_PATH = 17,
	INTERNED_MAPPING = 19
};
enum { ARG_NAME = 1, ARG_UINT = 3, ARG_DOUBLE = 5, ARG_TEXT };
enum { TRACK_UUID = 1, TRACK_NAME, TRACK_PROCESS, TRACK_THREAD, TRACK_PARENT, TRACK_COUNTER = 8 };
enum { CLOCK_REAL = 1, CLOCK_BOOT = 6 };
enum { UNIT_BYTES = 3 };
enum { SEQUENCE_CLEARED = 1, SEQUENCE_NEEDS_STATE = 2 };

/* The kind of a row; together with two numbers it is the row's key. */
enum kind {
	ROW_PROCESS = 1,
	ROW_THREAD,
	ROW_GPU,
	ROW_STREAM,
	ROW_TRACK,
	ROW_BELOW_THREAD,
	ROW_MEMORY,
	ROW_COUNTER,
	ROW_OP_MEMORY
};

struct lane {
	uint64_t uuid;
	uint64_t *ends; /* of the slices that are open, outermost first */
	size_t depth, cap;
};

struct row {
	uint64_t parent; /* uuid, 0 for none */
	char *name;
	struct lane *lanes;
	size_t n, cap;
};

struct ending {
	uint64_t at;
	uint32_t row, lane;
};

struct perfetto {
	struct ws_cell_context *export;
	FILE *file;
	struct ws_text out, packet, event, part, interned, entry;
	struct ws_links links;
	struct ws_map rows; /* hash of kind and numbers -> row + 1 */
	struct row *row;
	size_t row_count, row_cap;
	struct ending *heap;
	size_t pending, heap_cap;
	uint64_t uuids;
	uint8_t *named; /* by string: its name is interned */
	bool categories_said[WS_CATEGORIES], args_said[WS_ARGS];
	struct ws_map counters, groups, counter_process,
		units; /* by id of counter: strings and process */
	struct ws_map track_name, track_process;
	struct ws_stacks *stacks;
	struct ws_map chains; /* frame << 32 | callers -> interned */
	uint8_t *frames_said, *mappings_said;
	uint32_t frame_most, mapping_most;
	bool begun;
};

/* ---- packets ---- */

static uint64_t time_of_packet(const struct perfetto *perfetto, uint64_t t)
{
	int64_t at = (int64_t)(t - perfetto->export->base);

	if ((int64_t)t < 0) /* a time that no clock reaches: the packet was sorted to the end */
		return INT64_MAX;
	return at < 0 ? 0 : (uint64_t)at;
}

/* Write the current packet, with the texts that it was the first to need. */
static void end_packet(struct perfetto *perfetto)
{
	if (perfetto->interned.len)
		ws_put_proto_message(&perfetto->packet, PACKET_INTERNED, &perfetto->interned);
	ws_put_proto_number(&perfetto->packet, PACKET_SEQUENCE, 1);
	ws_put_proto_number(&perfetto->packet, PACKET_FLAGS,
			    perfetto->begun ? SEQUENCE_NEEDS_STATE : SEQUENCE_CLEARED);
	perfetto->begun = true;
	ws_put_proto_message(&perfetto->out, TRACE_PACKET, &perfetto->packet);
}

static void end_event(struct perfetto *perfetto, uint64_t at)
{
	ws_put_proto_number(&perfetto->packet, PACKET_TIME, time_of_packet(perfetto, at));
	ws_put_proto_message(&perfetto->packet, PACKET_EVENT, &perfetto->event);
	end_packet(perfetto);
}

static void begin_event(struct perfetto *perfetto, unsigned type, uint64_t uuid)
{
	ws_put_proto_number(&perfetto->event, EVENT_TYPE, type);
	ws_put_proto_number(&perfetto->event, EVENT_TRACK, uuid);
}

static int flush_packets(struct perfetto *perfetto, size_t above, struct ws_err *err)
{
	if (perfetto->out.len <= above)
		return 0;
	if (fwrite(perfetto->out.text, 1, perfetto->out.len, perfetto->file) != perfetto->out.len)
		return ws_fail_errno(err, "cannot write %s", ws_name_output(perfetto->export));
	perfetto->out.len = 0;
	return 0;
}

/* ---- interning ---- */

static void intern_text(struct perfetto *perfetto, unsigned kind, uint64_t iid, const char *text,
			size_t n)
{
	ws_put_proto_number(&perfetto->entry, 1, iid);
	ws_put_proto_bytes(&perfetto->entry, 2, text, n);
	ws_put_proto_message(&perfetto->interned, kind, &perfetto->entry);
}

static void put_category(struct perfetto *perfetto, enum ws_category category)
{
	const char *name = ws_category_names[category];

	if (!perfetto->categories_said[category])
		intern_text(perfetto, INTERNED_CATEGORY, category + 1u, name, strlen(name));
	perfetto->categories_said[category] = true;
	ws_put_proto_number(&perfetto->event, EVENT_CATEGORY, category + 1u);
}

static void put_name(struct perfetto *perfetto, uint64_t id)
{
	uint32_t key = id && id <= perfetto->export->string_count
			       ? ws_report_string_key(perfetto->export->report, (uint32_t)id)
			       : 0;

	if (!key || key > perfetto->export->string_count) {
		ws_put_proto_text(&perfetto->event, EVENT_INLINE_NAME, "(no name)");
		return;
	}
	if (!perfetto->named[key]) {
		size_t n;
		const char *text = ws_find_valid_text(perfetto->export, key, &n);

		perfetto->named[key] = 1;
		intern_text(perfetto, INTERNED_NAME, key, text, n);
	}
	ws_put_proto_number(&perfetto->event, EVENT_NAME, key);
}

static void begin_arg(struct perfetto *perfetto, enum ws_arg arg)
{
	if (!perfetto->args_said[arg])
		intern_text(perfetto, INTERNED_ARG, arg + 1u, ws_arg_names[arg],
			    strlen(ws_arg_names[arg]));
	perfetto->args_said[arg] = true;
	ws_put_proto_number(&perfetto->part, ARG_NAME, arg + 1u);
}

static void arg_uint(struct perfetto *perfetto, enum ws_arg arg, uint64_t v)
{
	begin_arg(perfetto, arg);
	ws_put_proto_number(&perfetto->part, ARG_UINT, v);
	ws_put_proto_message(&perfetto->event, EVENT_ARG, &perfetto->part);
}

static void arg_double(struct perfetto *perfetto, enum ws_arg arg, uint64_t bits)
{
	double v;

	memcpy(&v, &bits, 8);
	begin_arg(perfetto, arg);
	ws_put_proto_double(&perfetto->part, ARG_DOUBLE, v);
	ws_put_proto_message(&perfetto->event, EVENT_ARG, &perfetto->part);
}

static void arg_text(struct perfetto *perfetto, enum ws_arg arg, const char *text, size_t n)
{
	begin_arg(perfetto, arg);
	ws_put_proto_bytes(&perfetto->part, ARG_TEXT, text, n);
	ws_put_proto_message(&perfetto->event, EVENT_ARG, &perfetto->part);
}

static void arg_string(struct perfetto *perfetto, enum ws_arg arg, uint64_t id)
{
	size_t n;
	const char *text = ws_find_valid_text(perfetto->export, (uint32_t)id, &n);

	if (id)
		arg_text(perfetto, arg, text, n);
}

/* ---- tracks ---- */

static void describe_track(struct perfetto *perfetto, uint64_t uuid, uint64_t parent,
			   const char *name)
{
	struct ws_text clean = {0};

	ws_put_valid_utf8(&clean, name, strlen(name));
	ws_put_proto_number(&perfetto->part, TRACK_UUID, uuid);
	ws_put_proto_bytes(&perfetto->part, TRACK_NAME, ws_text_or(clean.text, ""), clean.len);
	if (parent)
		ws_put_proto_number(&perfetto->part, TRACK_PARENT, parent);
	ws_text_free(&clean);
}

static void end_track(struct perfetto *perfetto)
{
	ws_put_proto_message(&perfetto->packet, PACKET_TRACK, &perfetto->part);
	end_packet(perfetto);
}

/* The row of these numbers, and whether it is new: if so, the caller sets its name and parent. */
static struct row *find_row(struct perfetto *perfetto, enum kind kind, uint64_t a, uint64_t b,
			    bool *is_new)
{
	uint64_t key = ((uint64_t)kind << 60) ^ (a * UINT64_C(0x9e3779b97f4a7c15)) ^
		       (b * UINT64_C(0xc2b2ae3d27d4eb4f));
	uint64_t at = ws_map_get(&perfetto->rows, key, NULL);

	*is_new = !at;
	if (!at) {
		ws_grow(perfetto->row, perfetto->row_cap, perfetto->row_count + 1);
		perfetto->row[perfetto->row_count] = (struct row){0};
		at = ++perfetto->row_count;
		ws_map_set(&perfetto->rows, key, at);
	}
	return &perfetto->row[at - 1];
}

static uint64_t add_lane(struct perfetto *perfetto, struct row *row)
{
	uint64_t uuid = ++perfetto->uuids;

	ws_grow(row->lanes, row->cap, row->n + 1);
	row->lanes[row->n++] = (struct lane){.uuid = uuid};
	return uuid;
}

static void put_proto_process(struct perfetto *perfetto, const struct ws_process_info *info)
{
	ws_put_proto_number(&perfetto->entry, 1, info->pid);
	ws_put_proto_text(&perfetto->entry, 2, info->cmdline);
	ws_put_proto_text(&perfetto->entry, 6, info->name);
	ws_put_proto_message(&perfetto->part, TRACK_PROCESS, &perfetto->entry);
}

static uint64_t process_uuid(struct perfetto *perfetto, uint64_t process)
{
	const struct ws_process_info *info =
		ws_find_process(perfetto->export->who, (uint32_t)process);
	bool is_new;
	struct row *row = find_row(perfetto, ROW_PROCESS, info->pid, 0, &is_new);

	if (!is_new)
		return row->lanes[0].uuid;
	row->name = ws_strdup(info->name);
	describe_track(perfetto, add_lane(perfetto, row), 0, info->name);
	put_proto_process(perfetto, info);
	end_track(perfetto);
	return row->lanes[0].uuid;
}

static struct row *find_thread_row(struct perfetto *perfetto, uint64_t thread)
{
	const struct ws_thread_info *info = ws_find_thread(perfetto->export->who, (uint32_t)thread);
	const char *name = *info->name ? info->name : info->process_name;
	uint64_t process = process_uuid(perfetto, info->process);
	bool is_new;
	struct row *row = find_row(perfetto, ROW_THREAD, info->pid, info->tid, &is_new);

	if (!is_new)
		return row;
	row->name = ws_strdup(name);
	row->parent = process;
	describe_track(perfetto, add_lane(perfetto, row), process, name);
	ws_put_proto_number(&perfetto->entry, 1, info->pid);
	ws_put_proto_number(&perfetto->entry, 2, info->tid);
	ws_put_proto_text(&perfetto->entry, 5, name);
	ws_put_proto_message(&perfetto->part, TRACK_THREAD, &perfetto->entry);
	end_track(perfetto);
	return row;
}

/* A row that only has a name and a parent. Takes ownership of the name. */
static struct row *make_named_row(struct perfetto *perfetto, struct row *row, uint64_t parent,
				  char *name)
{
	row->name = name;
	row->parent = parent;
	describe_track(perfetto, add_lane(perfetto, row), parent, name);
	end_track(perfetto);
	return row;
}

static struct row *find_gpu_row(struct perfetto *perfetto, uint64_t process, uint64_t device)
{
	uint64_t parent = process_uuid(perfetto, process);
	bool is_new;
	struct row *row = find_row(perfetto, ROW_GPU, process, device, &is_new);

	return is_new ? make_named_row(perfetto, row, parent, ws_format("GPU %" PRIu64, device))
		      : row;
}

static struct row *find_stream_row(struct perfetto *perfetto, uint64_t process, uint64_t device,
				   uint64_t stream)
{
	uint64_t parent = find_gpu_row(perfetto, process, device)->lanes[0].uuid;
	bool is_new;
	struct row *row = find_row(perfetto, ROW_STREAM, process << 32 | device, stream, &is_new);

	if (!is_new)
		return row;
	return make_named_row(perfetto, row, parent,
			      stream == WS_NO_U32 ? ws_strdup("Synchronization")
						  : ws_format("Stream %" PRIu64, stream));
}

static struct row *find_track_row(struct perfetto *perfetto, uint64_t thread, uint64_t track)
{
	uint64_t process = ws_map_get(&perfetto->track_process, track, NULL);
	uint64_t parent;
	bool is_new;
	struct row *row;

	if (!track)
		return find_thread_row(perfetto, thread);
	parent = process ? process_uuid(perfetto, process) : 0;
	row = find_row(perfetto, ROW_TRACK, track, 0, &is_new);
	if (!is_new)
		return row;
	return make_named_row(
		perfetto, row, parent,
		ws_strdup(ws_report_string(perfetto->export->report,
					   (uint32_t)ws_map_get(&perfetto->track_name, track, NULL),
					   NULL)));
}

/* A counter's track: what distinguishes it from others of its kind, and how it is shown. */
struct counter_track {
	enum kind kind;
	uint64_t a, b;
	uint64_t parent; /* uuid of the track above it */
	const char *name, *unit;
};

static struct row *find_counter_row(struct perfetto *perfetto, const struct counter_track *track)
{
	bool is_new;
	struct row *row = find_row(perfetto, track->kind, track->a, track->b, &is_new);

	if (!is_new)
		return row;
	row->name = ws_strdup(track->name);
	describe_track(perfetto, add_lane(perfetto, row), track->parent, track->name);
	if (!strcmp(track->unit, "B"))
		ws_put_proto_number(&perfetto->entry, 3, UNIT_BYTES);
	else
		ws_put_proto_text(&perfetto->entry, 6, track->unit);
	ws_put_proto_message(&perfetto->part, TRACK_COUNTER, &perfetto->entry);
	end_track(perfetto);
	return row;
}

/* ---- slices ---- */

static bool ends_before(const struct ending *left, const struct ending *right)
{
	return left->at < right->at;
}

static void add_ending(struct perfetto *perfetto, struct ending ending)
{
	size_t i = perfetto->pending++;

	ws_grow(perfetto->heap, perfetto->heap_cap, perfetto->pending);
	for (; i && ends_before(&ending, &perfetto->heap[(i - 1) / 2]); i = (i - 1) / 2)
		perfetto->heap[i] = perfetto->heap[(i - 1) / 2];
	perfetto->heap[i] = ending;
}

static struct ending take_ending(struct perfetto *perfetto)
{
	struct ending first = perfetto->heap[0], ending = perfetto->heap[--perfetto->pending];
	size_t i = 0;

	for (size_t k; (k = 2 * i + 1) < perfetto->pending; i = k) {
		if (k + 1 < perfetto->pending &&
		    ends_before(&perfetto->heap[k + 1], &perfetto->heap[k]))
			k++;
		if (!ends_before(&perfetto->heap[k], &ending))
			break;
		perfetto->heap[i] = perfetto->heap[k];
	}
	if (perfetto->pending)
		perfetto->heap[i] = ending;
	return first;
}

/* Write the ends that are due before something that begins at `now`. */
static void end_slices(struct perfetto *perfetto, uint64_t now)
{
	while (perfetto->pending && perfetto->heap[0].at <= now) {
		struct ending ending = take_ending(perfetto);
		struct lane *lane = &perfetto->row[ending.row].lanes[ending.lane];

		lane->depth--;
		begin_event(perfetto, SLICE_END, lane->uuid);
		end_event(perfetto, ending.at);
	}
}

/* The first lane in which a slice to `end` nests; a new one when there is none. */
static size_t find_lane(struct perfetto *perfetto, struct row *row, uint64_t end)
{
	for (size_t i = 0; i < row->n; i++)
		if (!row->lanes[i].depth || end <= row->lanes[i].ends[row->lanes[i].depth - 1])
			return i;
	describe_track(perfetto, add_lane(perfetto, row), row->parent, row->name);
	end_track(perfetto);
	return row->n - 1;
}

/* Begin a slice; the caller adds its name and arguments, then calls end_event. */
static void begin_slice(struct perfetto *perfetto, struct row *row,
			const struct ws_timeline_event *event)
{
	uint64_t end = event->end == WS_NO_TIME ? UINT64_MAX : ws_max(event->end, event->start);
	size_t at = find_lane(perfetto, row, end);
	struct lane *lane = &row->lanes[at];

	ws_grow(lane->ends, lane->cap, lane->depth + 1);
	lane->ends[lane->depth++] = end;
	if (end != UINT64_MAX) /* an event that never ended stays open */
		add_ending(perfetto,
			   (struct ending){end, (uint32_t)(row - perfetto->row), (uint32_t)at});
	begin_event(perfetto, SLICE_BEGIN, lane->uuid);
	put_category(perfetto, ws_find_row_category(event));
}

/* ---- the arguments of an event ---- */

typedef void show_arg(struct perfetto *perfetto, const struct ws_timeline_event *event,
		      const struct ws_shown *shown);

static void show_number(struct perfetto *perfetto, const struct ws_timeline_event *event,
			const struct ws_shown *shown)
{
	arg_uint(perfetto, shown->arg, event->values[shown->column]);
}

static void show_known(struct perfetto *perfetto, const struct ws_timeline_event *event,
		       const struct ws_shown *shown)
{
	if (ws_event_is_known(event, shown->column))
		show_number(perfetto, event, shown);
}

static void show_not_zero(struct perfetto *perfetto, const struct ws_timeline_event *event,
			  const struct ws_shown *shown)
{
	if (event->values[shown->column])
		show_number(perfetto, event, shown);
}

static void show_real(struct perfetto *perfetto, const struct ws_timeline_event *event,
		      const struct ws_shown *shown)
{
	arg_double(perfetto, shown->arg, event->values[shown->column]);
}

static void show_sum(struct perfetto *perfetto, const struct ws_timeline_event *event,
		     const struct ws_shown *shown)
{
	arg_uint(perfetto, shown->arg, event->values[shown->column] + event->values[shown->second]);
}

static void show_sizes(struct perfetto *perfetto, const struct ws_timeline_event *event,
		       const struct ws_shown *shown)
{
	const uint64_t *sizes = &event->values[shown->column];
	char text[80];
	int n = snprintf(text, sizeof(text), "%" PRIu64 ", %" PRIu64 ", %" PRIu64, sizes[0],
			 sizes[1], sizes[2]);

	arg_text(perfetto, shown->arg, text, (size_t)n);
}

static void show_string(struct perfetto *perfetto, const struct ws_timeline_event *event,
			const struct ws_shown *shown)
{
	arg_string(perfetto, shown->arg, event->values[shown->column]);
}

/* Only other formats show the forms that are missing here. */
static show_arg *const arg_writers[WS_SHOW_FORMS] = {
	[WS_SHOW_NUMBER] = show_number,
	[WS_SHOW_IF_KNOWN] = show_known,
	[WS_SHOW_IF_NOT_ZERO] = show_not_zero,
	[WS_SHOW_SIGNED_IF_NOT_ZERO] = show_not_zero,
	[WS_SHOW_REAL] = show_real,
	[WS_SHOW_IF_POSITIVE] = show_real,
	[WS_SHOW_SUM] = show_sum,
	[WS_SHOW_SIZES] = show_sizes,
	[WS_SHOW_TEXT] = show_string,
	[WS_SHOW_JSON] = show_string,
	[WS_SHOW_MEMBERS] = show_string,
};

static void put_args(struct perfetto *perfetto, const struct ws_timeline_event *event,
		     const struct ws_shown *shown)
{
	for (; shown && shown->form != WS_SHOW_END; shown++)
		if (shown->exports & WS_IN_PERFETTO && arg_writers[shown->form])
			arg_writers[shown->form](perfetto, event, shown);
}

static void put_label(struct perfetto *perfetto, const struct ws_timeline_event *event)
{
	struct ws_text label = {0}, clean = {0};
	uint32_t id;

	if (ws_event_name_string(event, &id)) {
		put_name(perfetto, id);
		return;
	}
	ws_event_put_label(perfetto->export, event, &label);
	ws_put_valid_utf8(&clean, ws_text_or(label.text, ""), label.len);
	ws_put_proto_bytes(&perfetto->event, EVENT_INLINE_NAME, ws_text_or(clean.text, ""),
			   clean.len);
	ws_text_free(&label);
	ws_text_free(&clean);
}

/* ---- flows ---- */

static void put_flow(struct perfetto *perfetto, const struct ws_timeline_event *event)
{
	uint64_t process = ws_event_process(perfetto->export, event);

	ws_put_proto_fixed64(&perfetto->event, EVENT_FLOW,
			     process << 32 | event->values[event->kind->correlation]);
}

static void link_call(struct perfetto *perfetto, const struct ws_timeline_event *event)
{
	if (ws_links_from(&perfetto->links, ws_event_process(perfetto->export, event),
			  event->values[event->kind->category_by],
			  event->values[event->kind->correlation]))
		put_flow(perfetto, event);
}

static void link_work(struct perfetto *perfetto, const struct ws_timeline_event *event)
{
	if (ws_links_to(&perfetto->links, ws_event_process(perfetto->export, event),
			event->values[event->kind->correlation]))
		put_flow(perfetto, event);
}

/* The flow of work is written before its name, that of a call after its arguments. */
static void (*const flows_before_name[WS_LINKS])(struct perfetto *perfetto,
						 const struct ws_timeline_event *event) = {
	[WS_LINK_WORK] = link_work,
};
static void (*const flows_after_args[WS_LINKS])(struct perfetto *perfetto,
						const struct ws_timeline_event *event) = {
	[WS_LINK_CALL] = link_call,
};

/* ---- ordinary events ---- */

static struct row *own_thread_row(struct perfetto *perfetto, const struct ws_timeline_event *event)
{
	return find_thread_row(perfetto, event->values[event->kind->thread]);
}

/* A row below a thread's. */
static struct row *below_thread_row(struct perfetto *perfetto,
				    const struct ws_timeline_event *event)
{
	uint64_t thread = event->values[event->kind->thread],
		 parent = find_thread_row(perfetto, thread)->lanes[0].uuid;
	bool is_new;
	struct row *row = find_row(perfetto, ROW_BELOW_THREAD, thread,
				   (uint64_t)(event->kind - ws_event_kinds), &is_new);

	if (!is_new)
		return row;
	return make_named_row(perfetto, row, parent, ws_strdup(event->kind->row_name));
}

static struct row *own_track_row(struct perfetto *perfetto, const struct ws_timeline_event *event)
{
	return find_track_row(perfetto, event->values[event->kind->thread],
			      event->values[event->kind->track]);
}

static struct row *own_stream_row(struct perfetto *perfetto, const struct ws_timeline_event *event)
{
	const struct ws_event_kind *kind = event->kind;

	return find_stream_row(perfetto, event->values[kind->process], event->values[kind->device],
			       event->values[kind->stream]);
}

static struct row *device_row(struct perfetto *perfetto, const struct ws_timeline_event *event)
{
	const struct ws_event_kind *kind = event->kind;

	return find_stream_row(perfetto, event->values[kind->process], event->values[kind->device],
			       WS_NO_U32);
}

static struct row *(*const row_finders[WS_ROWS])(struct perfetto *perfetto,
						 const struct ws_timeline_event *event) = {
	[WS_ROW_THREAD] = own_thread_row, [WS_ROW_BELOW_THREAD] = below_thread_row,
	[WS_ROW_TRACK] = own_track_row,	  [WS_ROW_STREAM] = own_stream_row,
	[WS_ROW_DEVICE] = device_row,
};

static void put_moment(struct perfetto *perfetto, const struct ws_timeline_event *event,
		       struct row *row)
{
	begin_event(perfetto, INSTANT, row->lanes[0].uuid);
	put_category(perfetto, ws_find_row_category(event));
	put_label(perfetto, event);
	end_event(perfetto, event->start);
}

static void put_span(struct perfetto *perfetto, const struct ws_timeline_event *event,
		     struct row *row)
{
	const struct ws_event_kind *kind = event->kind;

	begin_slice(perfetto, row, event);
	put_args(perfetto, event, kind->common);
	if (flows_before_name[kind->link])
		flows_before_name[kind->link](perfetto, event);
	put_label(perfetto, event);
	put_args(perfetto, event, kind->shown);
	if (flows_after_args[kind->link])
		flows_after_args[kind->link](perfetto, event);
	end_event(perfetto, event->start);
}

static void put_plain_event(struct perfetto *perfetto, const struct ws_timeline_event *event)
{
	enum ws_event_shape shape = ws_find_row_shape(event);

	if (shape == WS_SHAPE_NONE)
		return;
	if (ws_shape_is_moment(shape))
		put_moment(perfetto, event, row_finders[event->kind->row](perfetto, event));
	else
		put_span(perfetto, event, row_finders[event->kind->row](perfetto, event));
}

/* ---- counters ---- */

static void put_value(struct perfetto *perfetto, struct row *row, uint64_t at, int64_t v)
{
	begin_event(perfetto, COUNTER, row->lanes[0].uuid);
	ws_put_proto_number(&perfetto->event, EVENT_INT, (uint64_t)v);
	end_event(perfetto, at);
}

static void put_gpu_memory(struct perfetto *perfetto, const struct ws_timeline_event *event)
{
	const uint64_t *values = event->values;
	uint64_t gpu = find_gpu_row(perfetto, values[ws_cuda_memory_process],
				    values[ws_cuda_memory_device])
			       ->lanes[0]
			       .uuid;
	char name[64];

	snprintf(name, sizeof(name), "GPU %" PRIu64 " memory (%s)", values[ws_cuda_memory_device],
		 ws_name_memory_kind(values[ws_cuda_memory_kind]));
	put_value(
		perfetto,
		find_counter_row(perfetto,
				 &(struct counter_track){.kind = ROW_MEMORY,
							 .a = values[ws_cuda_memory_process] << 32 |
							      values[ws_cuda_memory_device],
							 .b = values[ws_cuda_memory_kind],
							 .parent = gpu,
							 .name = name,
							 .unit = "B"}),
		event->start, (int64_t)values[ws_cuda_memory_in_use]);
}

static void put_op_memory(struct perfetto *perfetto, const struct ws_timeline_event *event)
{
	const uint64_t *values = event->values;
	uint64_t process = ws_find_thread(perfetto->export->who,
					  (uint32_t)values[ws_op_memory_thread])
				   ->process,
		 parent = process_uuid(perfetto, process);
	char name[64];

	if (values[ws_op_memory_device_type])
		snprintf(name, sizeof(name), "Allocated, GPU %d", (int)values[ws_op_memory_device]);
	else
		snprintf(name, sizeof(name), "Allocated, CPU");
	put_value(perfetto,
		  find_counter_row(
			  perfetto,
			  &(struct counter_track){.kind = ROW_OP_MEMORY,
						  .a = process,
						  .b = values[ws_op_memory_device_type] << 32 |
						       (uint32_t)values[ws_op_memory_device],
						  .parent = parent,
						  .name = name,
						  .unit = "B"}),
		  event->start, (int64_t)values[ws_op_memory_allocated]);
}

static void put_counter(struct perfetto *perfetto, const struct ws_timeline_event *event)
{
	uint64_t id = event->values[ws_counter_value_counter],
		 process = ws_map_get(&perfetto->counter_process, id, NULL);
	uint64_t parent = process ? process_uuid(perfetto, process) : 0;
	const char *group = ws_report_string(
		perfetto->export->report, (uint32_t)ws_map_get(&perfetto->groups, id, NULL), NULL);
	const char *own =
		ws_report_string(perfetto->export->report,
				 (uint32_t)ws_map_get(&perfetto->counters, id, NULL), NULL);
	char *name = *group ? ws_format("%s: %s", group, own) : ws_strdup(own);
	const char *unit = ws_report_string(perfetto->export->report,
					    (uint32_t)ws_map_get(&perfetto->units, id, NULL), NULL);
	struct counter_track track = {
		.kind = ROW_COUNTER, .a = id, .parent = parent, .name = name, .unit = unit};
	struct row *row = find_counter_row(perfetto, &track);
	double value;

	memcpy(&value, &event->values[ws_counter_value_value], 8);
	begin_event(perfetto, COUNTER, row->lanes[0].uuid);
	ws_put_proto_double(&perfetto->event, EVENT_REAL, value);
	end_event(perfetto, event->start);
	free(name);
}

/* ---- samples ---- */

/* Frames are interned by the number of their place, innermost inlined function first; mappings by
 * module + 1. */
static void intern_mapping(struct perfetto *perfetto, uint32_t module)
{
	const struct ws_module_info *module_info = ws_stacks_get_module(perfetto->stacks, module);
	struct ws_text path = {0};

	if (module <= perfetto->mapping_most && perfetto->mappings_said[module])
		return;
	if (module <= perfetto->mapping_most)
		perfetto->mappings_said[module] = 1;
	ws_put_valid_utf8(&path, module_info->path, strlen(module_info->path));
	intern_text(perfetto, INTERNED_PATH, module + 1u, ws_text_or(path.text, ""), path.len);
	ws_put_proto_number(&perfetto->entry, 1, module + 1u);
	ws_put_proto_number(&perfetto->entry, 7, module + 1u);
	ws_put_proto_message(&perfetto->interned, INTERNED_MAPPING, &perfetto->entry);
	ws_text_free(&path);
}

static uint32_t intern_function(struct perfetto *perfetto, uint32_t number, uint64_t address)
{
	const struct ws_function *fn = ws_stacks_get_function(perfetto->stacks, number);
	struct ws_text name = {0};

	if (number <= perfetto->frame_most && perfetto->frames_said[number])
		return number + 1;
	if (number <= perfetto->frame_most)
		perfetto->frames_said[number] = 1;
	intern_mapping(perfetto, fn->module);
	ws_put_valid_utf8(&name, fn->name, fn->len);
	intern_text(perfetto, INTERNED_FUNCTION, number + 1u, ws_text_or(name.text, ""), name.len);
	ws_put_proto_number(&perfetto->entry, 1, number + 1u);
	ws_put_proto_number(&perfetto->entry, 2, number + 1u);
	ws_put_proto_number(&perfetto->entry, 3, fn->module + 1u);
	ws_put_proto_number(&perfetto->entry, 4, address);
	ws_put_proto_message(&perfetto->interned, INTERNED_FRAME, &perfetto->entry);
	ws_text_free(&name);
	return number + 1;
}

/* A callstack lists its frames from the outermost. */
static uint64_t intern_stack(struct perfetto *perfetto, uint64_t frame, uint64_t callers)
{
	static uint32_t frames[WS_STACKS_DEEPEST];
	uint64_t key = frame << 32 | callers, iid = ws_map_get(&perfetto->chains, key, NULL);
	struct ws_text chain = {0};
	size_t n;

	if (iid)
		return iid;
	iid = perfetto->chains.count + 1;
	ws_map_set(&perfetto->chains, key, iid);
	n = ws_stacks_list_frames(perfetto->stacks, (uint32_t)frame, (uint32_t)callers, frames,
				  WS_COUNT(frames));
	ws_put_proto_number(&chain, 1, iid);
	for (size_t i = n; i-- > 0;) {
		const struct ws_frame_info *frame_info =
			ws_stacks_get_frame(perfetto->stacks, frames[i]);
		const struct ws_place *places = ws_stacks_get_places(perfetto->stacks, frame_info);

		for (uint32_t k = frame_info->count; k-- > 0;)
			ws_put_proto_number(&chain, 2,
					    intern_function(perfetto, places[k].function,
							    frame_info->address));
	}
	ws_put_proto_message(&perfetto->interned, INTERNED_STACK, &chain);
	ws_text_free(&chain);
	return iid;
}

static void put_sample(struct perfetto *perfetto, const struct ws_timeline_event *event)
{
	const uint64_t *values = event->values;
	const struct ws_thread_info *info =
		ws_find_thread(perfetto->export->who, (uint32_t)values[ws_sample_thread]);
	uint64_t stack;

	if (values[ws_sample_flags] & WS_SAMPLE_REST) /* the format counts only samples */
		return;
	stack = intern_stack(perfetto, values[ws_sample_frame], values[ws_sample_callers]);
	if (values[ws_sample_cpu] != WS_NO_U32)
		ws_put_proto_number(&perfetto->event, 1, values[ws_sample_cpu]);
	ws_put_proto_number(&perfetto->event, 2, info->pid);
	ws_put_proto_number(&perfetto->event, 3, info->tid);
	ws_put_proto_number(&perfetto->event, 4, stack);
	ws_put_proto_number(&perfetto->event, 5,
			    values[ws_sample_flags] & WS_SAMPLE_KERNEL ? 1 : 2);
	ws_put_proto_number(&perfetto->packet, PACKET_TIME, time_of_packet(perfetto, event->start));
	ws_put_proto_message(&perfetto->packet, PACKET_SAMPLE, &perfetto->event);
	end_packet(perfetto);
}

/* Forms without a writer are not in this format: their kinds are declared so (NOT_IN). */
static void (*const form_writers[WS_FORMS])(struct perfetto *perfetto,
					    const struct ws_timeline_event *event) = {
	[WS_FORM_EVENT] = put_plain_event,     [WS_FORM_COUNTER] = put_counter,
	[WS_FORM_GPU_MEMORY] = put_gpu_memory, [WS_FORM_OP_MEMORY] = put_op_memory,
	[WS_FORM_SAMPLE] = put_sample,
};

/* ---- all ---- */

static void put_clocks(struct perfetto *perfetto)
{
	uint64_t epoch = ws_find_start_epoch(perfetto->export);

	if (!epoch)
		return;
	for (int i = 0; i < 2; i++) {
		ws_put_proto_number(&perfetto->entry, 1, i ? CLOCK_REAL : CLOCK_BOOT);
		ws_put_proto_number(&perfetto->entry, 2,
				    i ? epoch : time_of_packet(perfetto, perfetto->export->zero));
		ws_put_proto_message(&perfetto->part, 1, &perfetto->entry);
	}
	ws_put_proto_number(&perfetto->part, 2, CLOCK_BOOT);
	ws_put_proto_message(&perfetto->packet, PACKET_CLOCKS, &perfetto->part);
	end_packet(perfetto);
}

static void load_names(struct perfetto *perfetto)
{
	struct ws_cursor *cursor =
		ws_cursor_open(perfetto->export->report, WS_TABLE_counter, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		ws_map_set(&perfetto->counters, values[ws_counter_id], values[ws_counter_name]);
		ws_map_set(&perfetto->groups, values[ws_counter_id], values[ws_counter_group]);
		ws_map_set(&perfetto->units, values[ws_counter_id], values[ws_counter_unit]);
		ws_map_set(&perfetto->counter_process, values[ws_counter_id],
			   values[ws_counter_process]);
	}
	ws_cursor_close(cursor);
	cursor = ws_cursor_open(perfetto->export->report, WS_TABLE_track, 0, UINT64_MAX);
	while (ws_cursor_next(cursor, &values)) {
		ws_map_set(&perfetto->track_name, values[ws_track_id], values[ws_track_name]);
		ws_map_set(&perfetto->track_process, values[ws_track_id], values[ws_track_process]);
	}
	ws_cursor_close(cursor);
	perfetto->stacks = ws_stacks_open(perfetto->export->report, &perfetto->export->damaged);
	perfetto->frame_most = ws_stacks_count_functions(perfetto->stacks);
	perfetto->frames_said = ws_calloc((size_t)perfetto->frame_most + 1, 1);
	perfetto->mapping_most =
		(uint32_t)ws_report_count_rows(perfetto->export->report, WS_TABLE_module);
	perfetto->mappings_said = ws_calloc((size_t)perfetto->mapping_most + 1, 1);
}

static int put_events(struct perfetto *perfetto, struct ws_err *err)
{
	struct ws_timeline *timeline = ws_timeline_open(perfetto->export, WS_IN_PERFETTO);
	struct ws_timeline_event event;
	int rc = 0;

	while (!rc && ws_timeline_next(timeline, &event)) {
		end_slices(perfetto, event.start);
		form_writers[event.kind->form](perfetto, &event);
		perfetto->export->rows++;
		ws_step_progress(perfetto->export->progress, 1);
		rc = flush_packets(perfetto, 1 << 16, err);
	}
	ws_timeline_close(timeline);
	end_slices(perfetto, UINT64_MAX);
	return !rc && ws_is_interrupted() ? ws_fail(err, "interrupted") : rc;
}

static void free_perfetto(struct perfetto *perfetto)
{
	struct ws_map *maps[] = {&perfetto->rows,	   &perfetto->counters,
				 &perfetto->groups,	   &perfetto->counter_process,
				 &perfetto->units,	   &perfetto->track_name,
				 &perfetto->track_process, &perfetto->chains};
	struct ws_text *texts[] = {&perfetto->out,  &perfetto->packet,	 &perfetto->event,
				   &perfetto->part, &perfetto->interned, &perfetto->entry};

	for (size_t i = 0; i < perfetto->row_count; i++) {
		for (size_t k = 0; k < perfetto->row[i].n; k++)
			free(perfetto->row[i].lanes[k].ends);
		free(perfetto->row[i].lanes);
		free(perfetto->row[i].name);
	}
	for (size_t i = 0; i < WS_COUNT(maps); i++)
		ws_map_free(maps[i]);
	for (size_t i = 0; i < WS_COUNT(texts); i++)
		ws_text_free(texts[i]);
	free(perfetto->row);
	free(perfetto->heap);
	free(perfetto->named);
	free(perfetto->frames_said);
	free(perfetto->mappings_said);
	ws_stacks_close(perfetto->stacks);
	ws_links_free(&perfetto->links);
}

int ws_write_format_perfetto(struct ws_cell_context *export, FILE *file, struct ws_err *err)
{
	struct perfetto perfetto = {.export = export, .file = file};
	int rc;

	perfetto.named = ws_calloc((size_t) export->string_count + 1, 1);
	ws_links_load(&perfetto.links, export);
	load_names(&perfetto);
	put_clocks(&perfetto);
	rc = put_events(&perfetto, err);
	if (!rc)
		rc = flush_packets(&perfetto, 0, err);
	free_perfetto(&perfetto);
	return rc;
}
