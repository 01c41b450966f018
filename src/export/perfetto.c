/*
 * perfetto.c - Perfetto's trace format: TracePackets with track events.
 *
 * Each thread, GPU stream and counter is a track under its process. A slice is two packets, so ends
 * are kept in a heap until time reaches them, and the file is in order of time. A track's slices
 * must nest: what crosses its neighbours goes to another track of the same name beside it, which
 * Perfetto shows as one. Names, categories and names of arguments are interned: written once, in
 * the packet that first needs them. A call and the work it caused share a flow; CPU samples are
 * PerfSamples with interned stacks.
 *
 * Times are those of the other exports, on Perfetto's boot-time clock; a clock snapshot says when
 * that was. What began before the collection begins at 0, since times have no sign.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export/formats.h"
#include "text/outfile.h"
#include "text/progress.h"
#include "export/proto.h"
#include "views/tables.h"
#include "text/text.h"
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

/* Categories, interned by number. */
enum cat {
	CAT_NVTX,
	CAT_OSRT,
	CAT_RUNTIME,
	CAT_DRIVER,
	CAT_KERNEL,
	CAT_MEMCPY,
	CAT_MEMSET,
	CAT_SYNC,
	CAT_OVERHEAD,
	CAT_OP,
	CAT_ANNOTATION,
	CAT_PYTHON,
	CAT_SLICE,
	CAT_SCHED,
	CAT_GIL,
	CAT_JIT,
	CATS
};
static const char *const cat_names[CATS] = {"nvtx",
					    "osrt",
					    "cuda_runtime",
					    "cuda_driver",
					    "kernel",
					    "gpu_memcpy",
					    "gpu_memset",
					    "cuda_sync",
					    "overhead",
					    "cpu_op",
					    "user_annotation",
					    "python_function",
					    "slice",
					    "sched",
					    "gil",
					    "cuda_jit"};

/* Names of arguments, interned by number. */
enum arg {
	ARG_CORRELATION,
	ARG_DEVICE,
	ARG_CONTEXT,
	ARG_STREAM,
	ARG_GRID,
	ARG_BLOCK,
	ARG_REGISTERS,
	ARG_SHARED,
	ARG_OCCUPANCY,
	ARG_WAVES,
	ARG_BYTES,
	ARG_RESULT,
	ARG_PATH,
	ARG_DOMAIN,
	ARG_EXTERNAL,
	ARG_SHAPES,
	ARG_SEQUENCE,
	ARG_ARGS,
	ARG_GRAPH,
	ARG_CATEGORY,
	ARGS
};
static const char *const arg_names[ARGS] = {"correlation",
					    "device",
					    "context",
					    "stream",
					    "grid",
					    "block",
					    "registers per thread",
					    "shared memory",
					    "theoretical occupancy",
					    "waves",
					    "bytes",
					    "return value",
					    "path",
					    "domain",
					    "External id",
					    "Input Dims",
					    "Sequence number",
					    "args",
					    "graph id",
					    "category"};

/* What a row is; with two numbers it is that row's key. */
enum kind {
	ROW_PROCESS = 1,
	ROW_THREAD,
	ROW_GPU,
	ROW_STREAM,
	ROW_TRACK,
	ROW_SCHED,
	ROW_GIL,
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
	struct ws_export *x;
	FILE *f;
	struct ws_text out, packet, event, part, interned, entry;
	struct ws_links links;
	struct ws_map rows; /* hash of kind and numbers -> row + 1 */
	struct row *row;
	size_t row_count, row_cap;
	struct ending *heap;
	size_t pending, heap_cap;
	uint64_t uuids;
	uint8_t *named; /* by string: its name is interned */
	uint32_t cats_said, args_said;
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

static uint64_t when(const struct perfetto *p, uint64_t t)
{
	int64_t at = (int64_t)(t - p->x->base);

	if ((int64_t)t < 0) /* no clock of a machine gets there: last, as it was sorted */
		return INT64_MAX;
	return at < 0 ? 0 : (uint64_t)at;
}

/* The packet in hand goes out, with what it was the first to need. */
static void end_packet(struct perfetto *p)
{
	if (p->interned.len)
		ws_proto_message(&p->packet, PACKET_INTERNED, &p->interned);
	ws_proto_number(&p->packet, PACKET_SEQUENCE, 1);
	ws_proto_number(&p->packet, PACKET_FLAGS,
			p->begun ? SEQUENCE_NEEDS_STATE : SEQUENCE_CLEARED);
	p->begun = true;
	ws_proto_message(&p->out, TRACE_PACKET, &p->packet);
}

static void end_event(struct perfetto *p, uint64_t at)
{
	ws_proto_number(&p->packet, PACKET_TIME, when(p, at));
	ws_proto_message(&p->packet, PACKET_EVENT, &p->event);
	end_packet(p);
}

static void begin_event(struct perfetto *p, unsigned type, uint64_t uuid)
{
	ws_proto_number(&p->event, EVENT_TYPE, type);
	ws_proto_number(&p->event, EVENT_TRACK, uuid);
}

static int flush(struct perfetto *p, size_t above, struct ws_err *e)
{
	if (p->out.len <= above)
		return 0;
	if (fwrite(p->out.s, 1, p->out.len, p->f) != p->out.len)
		return ws_fail_errno(e, "cannot write %s", ws_x_output(p->x));
	p->out.len = 0;
	return 0;
}

/* ---- interning ---- */

static void intern(struct perfetto *p, unsigned kind, uint64_t iid, const char *s, size_t n)
{
	ws_proto_number(&p->entry, 1, iid);
	ws_proto_bytes(&p->entry, 2, s, n);
	ws_proto_message(&p->interned, kind, &p->entry);
}

static void put_cat(struct perfetto *p, enum cat c)
{
	if (!(p->cats_said >> c & 1))
		intern(p, INTERNED_CATEGORY, c + 1u, cat_names[c], strlen(cat_names[c]));
	p->cats_said |= 1u << c;
	ws_proto_number(&p->event, EVENT_CATEGORY, c + 1u);
}

static void put_name(struct perfetto *p, uint64_t id)
{
	uint32_t key =
		id && id <= p->x->string_count ? ws_report_string_key(p->x->r, (uint32_t)id) : 0;

	if (!key || key > p->x->string_count) {
		ws_proto_text(&p->event, EVENT_INLINE_NAME, "(no name)");
		return;
	}
	if (!p->named[key]) {
		size_t n;
		const char *s = ws_x_bytes(p->x, key, &n);

		p->named[key] = 1;
		intern(p, INTERNED_NAME, key, s, n);
	}
	ws_proto_number(&p->event, EVENT_NAME, key);
}

static void begin_arg(struct perfetto *p, enum arg a)
{
	if (!(p->args_said >> a & 1))
		intern(p, INTERNED_ARG, a + 1u, arg_names[a], strlen(arg_names[a]));
	p->args_said |= 1u << a;
	ws_proto_number(&p->part, ARG_NAME, a + 1u);
}

static void arg_uint(struct perfetto *p, enum arg a, uint64_t v)
{
	begin_arg(p, a);
	ws_proto_number(&p->part, ARG_UINT, v);
	ws_proto_message(&p->event, EVENT_ARG, &p->part);
}

static void arg_double(struct perfetto *p, enum arg a, uint64_t bits)
{
	double v;

	memcpy(&v, &bits, 8);
	begin_arg(p, a);
	ws_proto_double(&p->part, ARG_DOUBLE, v);
	ws_proto_message(&p->event, EVENT_ARG, &p->part);
}

static void arg_text(struct perfetto *p, enum arg a, const char *s, size_t n)
{
	begin_arg(p, a);
	ws_proto_bytes(&p->part, ARG_TEXT, s, n);
	ws_proto_message(&p->event, EVENT_ARG, &p->part);
}

static void arg_string(struct perfetto *p, enum arg a, uint64_t id)
{
	size_t n;
	const char *s = ws_x_bytes(p->x, (uint32_t)id, &n);

	if (id)
		arg_text(p, a, s, n);
}

static void arg_u32(struct perfetto *p, enum arg a, uint64_t v)
{
	if (v != WS_NO_U32)
		arg_uint(p, a, v);
}

/* ---- tracks ---- */

static void describe(struct perfetto *p, uint64_t uuid, uint64_t parent, const char *name)
{
	struct ws_text clean = {0};

	ws_text_utf8(&clean, name, strlen(name));
	ws_proto_number(&p->part, TRACK_UUID, uuid);
	ws_proto_bytes(&p->part, TRACK_NAME, clean.s ? clean.s : "", clean.len);
	if (parent)
		ws_proto_number(&p->part, TRACK_PARENT, parent);
	ws_text_free(&clean);
}

static void end_track(struct perfetto *p)
{
	ws_proto_message(&p->packet, PACKET_TRACK, &p->part);
	end_packet(p);
}

/* The row of these numbers, and whether it is new: then its name and parent are the caller's to
 * set. */
static struct row *find_row(struct perfetto *p, enum kind kind, uint64_t a, uint64_t b,
			    bool *is_new)
{
	uint64_t key = ((uint64_t)kind << 60) ^ (a * UINT64_C(0x9e3779b97f4a7c15)) ^
		       (b * UINT64_C(0xc2b2ae3d27d4eb4f));
	uint64_t at = ws_map_get(&p->rows, key, NULL);

	*is_new = !at;
	if (!at) {
		ws_grow(p->row, p->row_cap, p->row_count + 1);
		p->row[p->row_count] = (struct row){0};
		at = ++p->row_count;
		ws_map_set(&p->rows, key, at);
	}
	return &p->row[at - 1];
}

static uint64_t add_lane(struct perfetto *p, struct row *r)
{
	uint64_t uuid = ++p->uuids;

	ws_grow(r->lanes, r->cap, r->n + 1);
	r->lanes[r->n++] = (struct lane){.uuid = uuid};
	return uuid;
}

static void put_proto_process(struct perfetto *p, const struct ws_process_info *info)
{
	ws_proto_number(&p->entry, 1, info->pid);
	ws_proto_text(&p->entry, 2, info->cmdline);
	ws_proto_text(&p->entry, 6, info->name);
	ws_proto_message(&p->part, TRACK_PROCESS, &p->entry);
}

static uint64_t process_uuid(struct perfetto *p, uint64_t process)
{
	const struct ws_process_info *info = ws_who_process(p->x->who, (uint32_t)process);
	bool is_new;
	struct row *r = find_row(p, ROW_PROCESS, info->pid, 0, &is_new);

	if (!is_new)
		return r->lanes[0].uuid;
	r->name = ws_strdup(info->name);
	describe(p, add_lane(p, r), 0, info->name);
	put_proto_process(p, info);
	end_track(p);
	return r->lanes[0].uuid;
}

static struct row *thread_row(struct perfetto *p, uint64_t thread)
{
	const struct ws_thread_info *t = ws_who_thread(p->x->who, (uint32_t)thread);
	const char *name = *t->name ? t->name : t->process_name;
	uint64_t process = process_uuid(p, t->process);
	bool is_new;
	struct row *r = find_row(p, ROW_THREAD, t->pid, t->tid, &is_new);

	if (!is_new)
		return r;
	r->name = ws_strdup(name);
	r->parent = process;
	describe(p, add_lane(p, r), process, name);
	ws_proto_number(&p->entry, 1, t->pid);
	ws_proto_number(&p->entry, 2, t->tid);
	ws_proto_text(&p->entry, 5, name);
	ws_proto_message(&p->part, TRACK_THREAD, &p->entry);
	end_track(p);
	return r;
}

/* A row that is nothing but a name under a parent. Takes the name. */
static struct row *plain_row(struct perfetto *p, struct row *r, uint64_t parent, char *name)
{
	r->name = name;
	r->parent = parent;
	describe(p, add_lane(p, r), parent, name);
	end_track(p);
	return r;
}

static struct row *gpu_row(struct perfetto *p, uint64_t process, uint64_t device)
{
	uint64_t parent = process_uuid(p, process);
	bool is_new;
	struct row *r = find_row(p, ROW_GPU, process, device, &is_new);

	return is_new ? plain_row(p, r, parent, ws_format("GPU %" PRIu64, device)) : r;
}

static struct row *stream_row(struct perfetto *p, uint64_t process, uint64_t device,
			      uint64_t stream)
{
	uint64_t parent = gpu_row(p, process, device)->lanes[0].uuid;
	bool is_new;
	struct row *r = find_row(p, ROW_STREAM, process << 32 | device, stream, &is_new);

	if (!is_new)
		return r;
	return plain_row(p, r, parent,
			 stream == WS_NO_U32 ? ws_strdup("Synchronization")
					     : ws_format("Stream %" PRIu64, stream));
}

/* A row under a thread's. */
static struct row *thread_part(struct perfetto *p, enum kind kind, uint64_t thread,
			       const char *name)
{
	uint64_t parent = thread_row(p, thread)->lanes[0].uuid;
	bool is_new;
	struct row *r = find_row(p, kind, thread, 0, &is_new);

	return is_new ? plain_row(p, r, parent, ws_strdup(name)) : r;
}

static struct row *track_row(struct perfetto *p, uint64_t thread, uint64_t track)
{
	uint64_t process = ws_map_get(&p->track_process, track, NULL);
	uint64_t parent;
	bool is_new;
	struct row *r;

	if (!track)
		return thread_row(p, thread);
	parent = process ? process_uuid(p, process) : 0;
	r = find_row(p, ROW_TRACK, track, 0, &is_new);
	if (!is_new)
		return r;
	return plain_row(
		p, r, parent,
		ws_strdup(ws_report_string(
			p->x->r, (uint32_t)ws_map_get(&p->track_name, track, NULL), NULL)));
}

static struct row *counter_row(struct perfetto *p, enum kind kind, uint64_t a, uint64_t b,
			       uint64_t parent, const char *name, const char *unit)
{
	bool is_new;
	struct row *r = find_row(p, kind, a, b, &is_new);

	if (!is_new)
		return r;
	r->name = ws_strdup(name);
	describe(p, add_lane(p, r), parent, name);
	if (!strcmp(unit, "B"))
		ws_proto_number(&p->entry, 3, UNIT_BYTES);
	else
		ws_proto_text(&p->entry, 6, unit);
	ws_proto_message(&p->part, TRACK_COUNTER, &p->entry);
	end_track(p);
	return r;
}

/* ---- slices ---- */

static bool before(const struct ending *a, const struct ending *b)
{
	return a->at < b->at;
}

static void add_ending(struct perfetto *p, struct ending x)
{
	size_t i = p->pending++;

	ws_grow(p->heap, p->heap_cap, p->pending);
	for (; i && before(&x, &p->heap[(i - 1) / 2]); i = (i - 1) / 2)
		p->heap[i] = p->heap[(i - 1) / 2];
	p->heap[i] = x;
}

static struct ending take_ending(struct perfetto *p)
{
	struct ending first = p->heap[0], x = p->heap[--p->pending];
	size_t i = 0;

	for (size_t k; (k = 2 * i + 1) < p->pending; i = k) {
		if (k + 1 < p->pending && before(&p->heap[k + 1], &p->heap[k]))
			k++;
		if (!before(&p->heap[k], &x))
			break;
		p->heap[i] = p->heap[k];
	}
	if (p->pending)
		p->heap[i] = x;
	return first;
}

/* Write the ends that are due before something that begins at `now`. */
static void end_slices(struct perfetto *p, uint64_t now)
{
	while (p->pending && p->heap[0].at <= now) {
		struct ending x = take_ending(p);
		struct lane *l = &p->row[x.row].lanes[x.lane];

		l->depth--;
		begin_event(p, SLICE_END, l->uuid);
		end_event(p, x.at);
	}
}

/* The first lane in which a slice to `end` nests; a new one when there is none. */
static size_t find_lane(struct perfetto *p, struct row *r, uint64_t end)
{
	for (size_t i = 0; i < r->n; i++)
		if (!r->lanes[i].depth || end <= r->lanes[i].ends[r->lanes[i].depth - 1])
			return i;
	describe(p, add_lane(p, r), r->parent, r->name);
	end_track(p);
	return r->n - 1;
}

/* Begin a slice; what follows are its category, name and arguments, then end_event(p, e->start). */
static void begin_slice(struct perfetto *p, struct row *r, const struct ws_event *e, enum cat c)
{
	uint64_t end = e->end == WS_NO_TIME ? UINT64_MAX : e->end > e->start ? e->end : e->start;
	size_t at = find_lane(p, r, end);
	struct lane *l = &r->lanes[at];

	ws_grow(l->ends, l->cap, l->depth + 1);
	l->ends[l->depth++] = end;
	if (end != UINT64_MAX) /* what never ended stays open */
		add_ending(p, (struct ending){end, (uint32_t)(r - p->row), (uint32_t)at});
	begin_event(p, SLICE_BEGIN, l->uuid);
	put_cat(p, c);
}

static void put_flow(struct perfetto *p, uint64_t process, uint64_t correlation)
{
	ws_proto_fixed64(&p->event, EVENT_FLOW, process << 32 | correlation);
}

/* ---- events ---- */

static void put_call(struct perfetto *p, const struct ws_event *e)
{
	const uint64_t *v = e->v;
	uint64_t process = ws_who_thread(p->x->who, (uint32_t)v[ws_cuda_api_thread])->process;
	size_t n;
	const char *name = ws_cuda_function(p->x->r, (uint32_t)v[ws_cuda_api_name], &n);
	struct ws_text clean = {0};

	begin_slice(p, thread_row(p, v[ws_cuda_api_thread]), e,
		    v[ws_cuda_api_class] == WS_CUDA_RUNTIME ? CAT_RUNTIME : CAT_DRIVER);
	ws_text_utf8(&clean, name, n);
	ws_proto_bytes(&p->event, EVENT_INLINE_NAME, clean.s ? clean.s : "", clean.len);
	ws_text_free(&clean);
	arg_u32(p, ARG_CORRELATION, v[ws_cuda_api_correlation]);
	if (v[ws_cuda_api_result])
		arg_uint(p, ARG_RESULT, v[ws_cuda_api_result]);
	if (ws_links_from(&p->links, process, v[ws_cuda_api_class], v[ws_cuda_api_correlation]))
		put_flow(p, process, v[ws_cuda_api_correlation]);
	end_event(p, e->start);
}

/* Kernels, copies, sets and graphs have these columns at the same places (chrome.c checks that). */
static void begin_work(struct perfetto *p, const struct ws_event *e, enum cat c)
{
	const uint64_t *v = e->v;

	begin_slice(p,
		    stream_row(p, v[ws_cuda_kernel_process], v[ws_cuda_kernel_device],
			       v[ws_cuda_kernel_stream]),
		    e, c);
	arg_u32(p, ARG_CORRELATION, v[ws_cuda_kernel_correlation]);
	arg_uint(p, ARG_DEVICE, v[ws_cuda_kernel_device]);
	arg_uint(p, ARG_CONTEXT, v[ws_cuda_kernel_context]);
	arg_uint(p, ARG_STREAM, v[ws_cuda_kernel_stream]);
	if (ws_links_to(&p->links, v[ws_cuda_kernel_process], v[ws_cuda_kernel_correlation]))
		put_flow(p, v[ws_cuda_kernel_process], v[ws_cuda_kernel_correlation]);
}

static void arg_size(struct perfetto *p, enum arg a, const uint64_t *xyz)
{
	char text[80];
	int n = snprintf(text, sizeof(text), "%" PRIu64 ", %" PRIu64 ", %" PRIu64, xyz[0], xyz[1],
			 xyz[2]);

	arg_text(p, a, text, (size_t)n);
}

static void put_kernel(struct perfetto *p, const struct ws_event *e)
{
	const uint64_t *v = e->v;

	begin_work(p, e, CAT_KERNEL);
	put_name(p, v[ws_cuda_kernel_demangled] ? v[ws_cuda_kernel_demangled]
						: v[ws_cuda_kernel_name]);
	arg_size(p, ARG_GRID, &v[ws_cuda_kernel_grid_x]);
	arg_size(p, ARG_BLOCK, &v[ws_cuda_kernel_block_x]);
	arg_uint(p, ARG_REGISTERS, v[ws_cuda_kernel_registers]);
	arg_uint(p, ARG_SHARED, v[ws_cuda_kernel_static_shared] + v[ws_cuda_kernel_dynamic_shared]);
	arg_double(p, ARG_OCCUPANCY, v[ws_cuda_kernel_occupancy]);
	arg_double(p, ARG_WAVES, v[ws_cuda_kernel_waves]);
	arg_u32(p, ARG_GRAPH, v[ws_cuda_kernel_graph]);
	end_event(p, e->start);
}

static void put_copy(struct perfetto *p, const struct ws_event *e)
{
	const uint64_t *v = e->v;
	char name[128];

	begin_work(p, e, CAT_MEMCPY);
	snprintf(name, sizeof(name), "%s (%s -> %s)", ws_copy_name(v[ws_cuda_memcpy_kind]),
		 ws_memory_name(v[ws_cuda_memcpy_src_kind]),
		 ws_memory_name(v[ws_cuda_memcpy_dst_kind]));
	ws_proto_text(&p->event, EVENT_INLINE_NAME, name);
	arg_uint(p, ARG_BYTES, v[ws_cuda_memcpy_bytes]);
	end_event(p, e->start);
}

static void put_set(struct perfetto *p, const struct ws_event *e)
{
	char name[64];

	begin_work(p, e, CAT_MEMSET);
	snprintf(name, sizeof(name), "Memset (%s)", ws_memory_name(e->v[ws_cuda_memset_mem_kind]));
	ws_proto_text(&p->event, EVENT_INLINE_NAME, name);
	arg_uint(p, ARG_BYTES, e->v[ws_cuda_memset_bytes]);
	end_event(p, e->start);
}

static void put_graph(struct perfetto *p, const struct ws_event *e)
{
	char name[64];

	begin_work(p, e, CAT_KERNEL);
	snprintf(name, sizeof(name), "CUDA graph %" PRIu64, e->v[ws_cuda_graph_trace_graph]);
	ws_proto_text(&p->event, EVENT_INLINE_NAME, name);
	arg_uint(p, ARG_GRAPH, e->v[ws_cuda_graph_trace_graph]);
	end_event(p, e->start);
}

static void put_wait(struct perfetto *p, const struct ws_event *e)
{
	const uint64_t *v = e->v;

	begin_slice(p, stream_row(p, v[ws_cuda_sync_process], v[ws_cuda_sync_device], WS_NO_U32), e,
		    CAT_SYNC);
	ws_proto_text(&p->event, EVENT_INLINE_NAME, ws_sync_name(v[ws_cuda_sync_type]));
	arg_u32(p, ARG_CORRELATION, v[ws_cuda_sync_correlation]);
	arg_u32(p, ARG_STREAM, v[ws_cuda_sync_stream]);
	end_event(p, e->start);
}

static void put_moment(struct perfetto *p, struct row *r, uint64_t name, uint64_t at, enum cat c)
{
	begin_event(p, INSTANT, r->lanes[0].uuid);
	put_cat(p, c);
	put_name(p, name);
	end_event(p, at);
}

static void put_nvtx(struct perfetto *p, const struct ws_event *e)
{
	const uint64_t *v = e->v;

	if (v[ws_nvtx_type] == WS_NVTX_MARK) {
		put_moment(p, thread_row(p, v[ws_nvtx_thread]), v[ws_nvtx_text], e->start,
			   CAT_NVTX);
		return;
	}
	if (v[ws_nvtx_type] != WS_NVTX_PUSHPOP && v[ws_nvtx_type] != WS_NVTX_STARTEND)
		return;
	begin_slice(p, thread_row(p, v[ws_nvtx_thread]), e, CAT_NVTX);
	put_name(p, v[ws_nvtx_text]);
	if (v[ws_nvtx_domain])
		arg_uint(p, ARG_DOMAIN, v[ws_nvtx_domain]);
	if (v[ws_nvtx_category])
		arg_uint(p, ARG_CATEGORY, v[ws_nvtx_category]);
	end_event(p, e->start);
}

static void put_osrt(struct perfetto *p, const struct ws_event *e)
{
	begin_slice(p, thread_row(p, e->v[ws_osrt_thread]), e, CAT_OSRT);
	put_name(p, e->v[ws_osrt_name]);
	arg_string(p, ARG_PATH, e->v[ws_osrt_path]);
	end_event(p, e->start);
}

static void put_op(struct perfetto *p, const struct ws_event *e)
{
	static const enum cat cats[] = {CAT_OP, CAT_OP, CAT_ANNOTATION, CAT_PYTHON, CAT_OP};
	const uint64_t *v = e->v;

	begin_slice(p, thread_row(p, v[ws_op_thread]), e,
		    cats[v[ws_op_kind] < WS_COUNT(cats) ? v[ws_op_kind] : 0]);
	put_name(p, v[ws_op_name]);
	if (v[ws_op_external] != WS_NO_U64)
		arg_uint(p, ARG_EXTERNAL, v[ws_op_external]);
	if (v[ws_op_sequence] != WS_NO_U64)
		arg_uint(p, ARG_SEQUENCE, v[ws_op_sequence]);
	arg_string(p, ARG_SHAPES, v[ws_op_shapes]);
	arg_string(p, ARG_ARGS, v[ws_op_args]);
	end_event(p, e->start);
}

static void put_slice(struct perfetto *p, const struct ws_event *e)
{
	const uint64_t *v = e->v;
	struct row *r = track_row(p, v[ws_slice_thread], v[ws_slice_track]);

	if (v[ws_slice_flags] & WS_SLICE_INSTANT) {
		put_moment(p, r, v[ws_slice_name], e->start, CAT_SLICE);
		return;
	}
	begin_slice(p, r, e, CAT_SLICE);
	put_name(p, v[ws_slice_name]);
	arg_string(p, ARG_CATEGORY, v[ws_slice_category]);
	arg_string(p, ARG_ARGS, v[ws_slice_args]);
	end_event(p, e->start);
}

static void put_named(struct perfetto *p, const struct ws_event *e, struct row *r, enum cat c,
		      uint64_t name)
{
	begin_slice(p, r, e, c);
	put_name(p, name);
	end_event(p, e->start);
}

static void put_sched(struct perfetto *p, const struct ws_event *e)
{
	char name[32];

	begin_slice(p, thread_part(p, ROW_SCHED, e->v[ws_sched_thread], "On a core"), e, CAT_SCHED);
	if (e->v[ws_sched_cpu] == WS_NO_U32)
		snprintf(name, sizeof(name), "running");
	else
		snprintf(name, sizeof(name), "core %" PRIu64, e->v[ws_sched_cpu]);
	ws_proto_text(&p->event, EVENT_INLINE_NAME, name);
	end_event(p, e->start);
}

static void put_gil(struct perfetto *p, const struct ws_event *e)
{
	begin_slice(p, thread_part(p, ROW_GIL, e->v[ws_gil_thread], "GIL"), e, CAT_GIL);
	ws_proto_text(&p->event, EVENT_INLINE_NAME,
		      e->v[ws_gil_state] == WS_GIL_WAITS ? "waits for the GIL" : "holds the GIL");
	end_event(p, e->start);
}

static void put_jit(struct perfetto *p, const struct ws_event *e)
{
	begin_slice(p, thread_row(p, e->v[ws_cuda_jit_thread]), e, CAT_JIT);
	ws_proto_text(&p->event, EVENT_INLINE_NAME, "CUDA JIT");
	end_event(p, e->start);
}

/* ---- counters ---- */

static void put_value(struct perfetto *p, struct row *r, uint64_t at, int64_t v)
{
	begin_event(p, COUNTER, r->lanes[0].uuid);
	ws_proto_number(&p->event, EVENT_INT, (uint64_t)v);
	end_event(p, at);
}

static void put_gpu_memory(struct perfetto *p, const struct ws_event *e)
{
	const uint64_t *v = e->v;
	uint64_t gpu =
		gpu_row(p, v[ws_cuda_memory_process], v[ws_cuda_memory_device])->lanes[0].uuid;
	char name[64];

	snprintf(name, sizeof(name), "GPU %" PRIu64 " memory (%s)", v[ws_cuda_memory_device],
		 ws_memory_name(v[ws_cuda_memory_kind]));
	put_value(p,
		  counter_row(p, ROW_MEMORY,
			      v[ws_cuda_memory_process] << 32 | v[ws_cuda_memory_device],
			      v[ws_cuda_memory_kind], gpu, name, "B"),
		  e->start, (int64_t)v[ws_cuda_memory_in_use]);
}

static void put_op_memory(struct perfetto *p, const struct ws_event *e)
{
	const uint64_t *v = e->v;
	uint64_t process = ws_who_thread(p->x->who, (uint32_t)v[ws_op_memory_thread])->process,
		 parent = process_uuid(p, process);
	char name[64];

	if (v[ws_op_memory_device_type])
		snprintf(name, sizeof(name), "Allocated, GPU %d", (int)v[ws_op_memory_device]);
	else
		snprintf(name, sizeof(name), "Allocated, CPU");
	put_value(p,
		  counter_row(p, ROW_OP_MEMORY, process,
			      v[ws_op_memory_device_type] << 32 | (uint32_t)v[ws_op_memory_device],
			      parent, name, "B"),
		  e->start, (int64_t)v[ws_op_memory_allocated]);
}

static void put_counter(struct perfetto *p, const struct ws_event *e)
{
	uint64_t id = e->v[ws_counter_value_counter],
		 process = ws_map_get(&p->counter_process, id, NULL);
	uint64_t parent = process ? process_uuid(p, process) : 0;
	const char *group =
		ws_report_string(p->x->r, (uint32_t)ws_map_get(&p->groups, id, NULL), NULL);
	const char *own =
		ws_report_string(p->x->r, (uint32_t)ws_map_get(&p->counters, id, NULL), NULL);
	char *name = *group ? ws_format("%s: %s", group, own) : ws_strdup(own);
	const char *unit =
		ws_report_string(p->x->r, (uint32_t)ws_map_get(&p->units, id, NULL), NULL);
	struct row *r = counter_row(p, ROW_COUNTER, id, 0, parent, name, unit);
	double value;

	memcpy(&value, &e->v[ws_counter_value_value], 8);
	begin_event(p, COUNTER, r->lanes[0].uuid);
	ws_proto_double(&p->event, EVENT_REAL, value);
	end_event(p, e->start);
	free(name);
}

/* ---- samples ---- */

/* Frames are interned by the number of their place, innermost inlined function first; mappings by
 * module + 1. */
static void intern_mapping(struct perfetto *p, uint32_t module)
{
	const struct ws_module_info *m = ws_stacks_module(p->stacks, module);
	struct ws_text path = {0};

	if (module <= p->mapping_most && p->mappings_said[module])
		return;
	if (module <= p->mapping_most)
		p->mappings_said[module] = 1;
	ws_text_utf8(&path, m->path, strlen(m->path));
	intern(p, INTERNED_PATH, module + 1u, path.s ? path.s : "", path.len);
	ws_proto_number(&p->entry, 1, module + 1u);
	ws_proto_number(&p->entry, 7, module + 1u);
	ws_proto_message(&p->interned, INTERNED_MAPPING, &p->entry);
	ws_text_free(&path);
}

static uint32_t intern_function(struct perfetto *p, uint32_t number, uint64_t address)
{
	const struct ws_function *fn = ws_stacks_function(p->stacks, number);
	struct ws_text name = {0};

	if (number <= p->frame_most && p->frames_said[number])
		return number + 1;
	if (number <= p->frame_most)
		p->frames_said[number] = 1;
	intern_mapping(p, fn->module);
	ws_text_utf8(&name, fn->name, fn->len);
	intern(p, INTERNED_FUNCTION, number + 1u, name.s ? name.s : "", name.len);
	ws_proto_number(&p->entry, 1, number + 1u);
	ws_proto_number(&p->entry, 2, number + 1u);
	ws_proto_number(&p->entry, 3, fn->module + 1u);
	ws_proto_number(&p->entry, 4, address);
	ws_proto_message(&p->interned, INTERNED_FRAME, &p->entry);
	ws_text_free(&name);
	return number + 1;
}

/* A callstack lists its frames from the outermost. */
static uint64_t intern_stack(struct perfetto *p, uint64_t frame, uint64_t callers)
{
	static uint32_t frames[WS_STACKS_DEEPEST];
	uint64_t key = frame << 32 | callers, iid = ws_map_get(&p->chains, key, NULL);
	struct ws_text chain = {0};
	size_t n;

	if (iid)
		return iid;
	iid = p->chains.n + 1;
	ws_map_set(&p->chains, key, iid);
	n = ws_stacks_walk(p->stacks, (uint32_t)frame, (uint32_t)callers, frames, WS_COUNT(frames));
	ws_proto_number(&chain, 1, iid);
	for (size_t i = n; i-- > 0;) {
		const struct ws_frame_info *f = ws_stacks_frame(p->stacks, frames[i]);
		const struct ws_place *places = ws_stacks_places(p->stacks, f);

		for (uint32_t k = f->count; k-- > 0;)
			ws_proto_number(&chain, 2,
					intern_function(p, places[k].function, f->address));
	}
	ws_proto_message(&p->interned, INTERNED_STACK, &chain);
	ws_text_free(&chain);
	return iid;
}

static void put_sample(struct perfetto *p, const struct ws_event *e)
{
	const uint64_t *v = e->v;
	const struct ws_thread_info *t = ws_who_thread(p->x->who, (uint32_t)v[ws_sample_thread]);
	uint64_t stack = intern_stack(p, v[ws_sample_frame], v[ws_sample_callers]);

	if (v[ws_sample_cpu] != WS_NO_U32)
		ws_proto_number(&p->event, 1, v[ws_sample_cpu]);
	ws_proto_number(&p->event, 2, t->pid);
	ws_proto_number(&p->event, 3, t->tid);
	ws_proto_number(&p->event, 4, stack);
	ws_proto_number(&p->event, 5, v[ws_sample_flags] & WS_SAMPLE_KERNEL ? 1 : 2);
	ws_proto_number(&p->packet, PACKET_TIME, when(p, e->start));
	ws_proto_message(&p->packet, PACKET_SAMPLE, &p->event);
	end_packet(p);
}

static void put_event(struct perfetto *p, const struct ws_event *e)
{
	switch (e->table) {
	case WS_TABLE_sched:
		put_sched(p, e);
		break;
	case WS_TABLE_gil:
		put_gil(p, e);
		break;
	case WS_TABLE_op:
		put_op(p, e);
		break;
	case WS_TABLE_op_memory:
		put_op_memory(p, e);
		break;
	case WS_TABLE_nvtx:
		put_nvtx(p, e);
		break;
	case WS_TABLE_osrt:
		put_osrt(p, e);
		break;
	case WS_TABLE_slice:
		put_slice(p, e);
		break;
	case WS_TABLE_cuda_api:
		put_call(p, e);
		break;
	case WS_TABLE_cuda_overhead:
		put_named(p, e, thread_row(p, e->v[ws_cuda_overhead_thread]), CAT_OVERHEAD,
			  e->v[ws_cuda_overhead_name]);
		break;
	case WS_TABLE_cuda_jit:
		put_jit(p, e);
		break;
	case WS_TABLE_cuda_kernel:
		put_kernel(p, e);
		break;
	case WS_TABLE_cuda_memcpy:
		put_copy(p, e);
		break;
	case WS_TABLE_cuda_memset:
		put_set(p, e);
		break;
	case WS_TABLE_cuda_graph_trace:
		put_graph(p, e);
		break;
	case WS_TABLE_cuda_sync:
		put_wait(p, e);
		break;
	case WS_TABLE_cuda_memory:
		put_gpu_memory(p, e);
		break;
	case WS_TABLE_counter_value:
		put_counter(p, e);
		break;
	case WS_TABLE_sample:
		put_sample(p, e);
		break;
	default:
		return;
	}
	p->x->rows++;
}

/* ---- all ---- */

static void put_clocks(struct perfetto *p)
{
	uint64_t epoch = ws_export_epoch(p->x);

	if (!epoch)
		return;
	for (int i = 0; i < 2; i++) {
		ws_proto_number(&p->entry, 1, i ? CLOCK_REAL : CLOCK_BOOT);
		ws_proto_number(&p->entry, 2, i ? epoch : when(p, p->x->zero));
		ws_proto_message(&p->part, 1, &p->entry);
	}
	ws_proto_number(&p->part, 2, CLOCK_BOOT);
	ws_proto_message(&p->packet, PACKET_CLOCKS, &p->part);
	end_packet(p);
}

static void load_names(struct perfetto *p)
{
	struct ws_cursor *k = ws_cursor_open(p->x->r, WS_TABLE_counter, 0, UINT64_MAX);
	const uint64_t *v;

	while (ws_cursor_next(k, &v)) {
		ws_map_set(&p->counters, v[ws_counter_id], v[ws_counter_name]);
		ws_map_set(&p->groups, v[ws_counter_id], v[ws_counter_group]);
		ws_map_set(&p->units, v[ws_counter_id], v[ws_counter_unit]);
		ws_map_set(&p->counter_process, v[ws_counter_id], v[ws_counter_process]);
	}
	ws_cursor_close(k);
	k = ws_cursor_open(p->x->r, WS_TABLE_track, 0, UINT64_MAX);
	while (ws_cursor_next(k, &v)) {
		ws_map_set(&p->track_name, v[ws_track_id], v[ws_track_name]);
		ws_map_set(&p->track_process, v[ws_track_id], v[ws_track_process]);
	}
	ws_cursor_close(k);
	p->stacks = ws_stacks_open(p->x->r, &p->x->damaged);
	p->frame_most = ws_stacks_functions(p->stacks);
	p->frames_said = ws_calloc((size_t)p->frame_most + 1, 1);
	p->mapping_most = (uint32_t)ws_report_rows(p->x->r, WS_TABLE_module);
	p->mappings_said = ws_calloc((size_t)p->mapping_most + 1, 1);
}

static int put_events(struct perfetto *p, struct ws_err *e)
{
	struct ws_timeline *t = ws_timeline_open(p->x);
	struct ws_event event;
	int rc = 0;

	while (!rc && ws_timeline_next(t, &event)) {
		end_slices(p, event.start);
		put_event(p, &event);
		ws_progress_step(p->x->progress, 1);
		rc = flush(p, 1 << 16, e);
	}
	ws_timeline_close(t);
	end_slices(p, UINT64_MAX);
	return !rc && ws_outfile_interrupted() ? ws_fail(e, "interrupted") : rc;
}

static void free_all(struct perfetto *p)
{
	struct ws_map *maps[] = {&p->rows,  &p->counters,   &p->groups,	       &p->counter_process,
				 &p->units, &p->track_name, &p->track_process, &p->chains};
	struct ws_text *texts[] = {&p->out,  &p->packet,   &p->event,
				   &p->part, &p->interned, &p->entry};

	for (size_t i = 0; i < p->row_count; i++) {
		for (size_t k = 0; k < p->row[i].n; k++)
			free(p->row[i].lanes[k].ends);
		free(p->row[i].lanes);
		free(p->row[i].name);
	}
	for (size_t i = 0; i < WS_COUNT(maps); i++)
		ws_map_free(maps[i]);
	for (size_t i = 0; i < WS_COUNT(texts); i++)
		ws_text_free(texts[i]);
	free(p->row);
	free(p->heap);
	free(p->named);
	free(p->frames_said);
	free(p->mappings_said);
	ws_stacks_close(p->stacks);
	ws_links_free(&p->links);
}

int ws_xformat_write_perfetto(struct ws_export *x, FILE *f, struct ws_err *e)
{
	struct perfetto p = {.x = x, .f = f};
	int rc;

	p.named = ws_calloc((size_t)x->string_count + 1, 1);
	ws_links_load(&p.links, x);
	load_names(&p);
	put_clocks(&p);
	rc = put_events(&p, e);
	if (!rc)
		rc = flush(&p, 0, e);
	free_all(&p);
	return rc;
}
