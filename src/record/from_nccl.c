/*
 * from_nccl.c - see from_nccl.h. Also converts what NCCL tells its profiler plug-in (inject/nccl.c)
 * into rows.
 */
#include "record/from_nccl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/choose.h"
#include "record/nccl_channels.h"
#include "record/sink.h"
#include "ring/nccl_record.h"
#include "schema/nccl.h"

static void free_nccl_process(void *memory)
{
	ws_nccl_free(memory);
}

struct ws_nccl *ws_stream_nccl(struct ws_stream *stream)
{
	return *ws_proc_slot(stream->proc, WS_SLOT_NCCL, free_nccl_process);
}

struct ws_nccl *ws_stream_begin_nccl(struct ws_stream *stream)
{
	void **slot = ws_proc_slot(stream->proc, WS_SLOT_NCCL, free_nccl_process);

	if (!*slot)
		*slot = ws_nccl_new();
	return *slot;
}

static uint32_t intern_text(void *ctx, const char *text, size_t length)
{
	return ws_stream_intern(ctx, text, length);
}

static void put_row(void *ctx, struct ws_row_collective *row)
{
	struct ws_stream *stream = ctx;

	row->process = stream->process;
	if (row->event != WS_NO_U64 && row->correlation != WS_NO_U32)
		ws_note_nccl_kernel(stream, row);
	ws_writer_add(stream->writer, WS_TABLE_collective, row);
}

void ws_stream_put_collectives(struct ws_stream *stream, bool all)
{
	const struct ws_nccl_out out = {.ctx = stream, .intern = intern_text, .put = put_row};
	struct ws_nccl *nccl = ws_stream_nccl(stream);

	if (nccl)
		ws_nccl_put_rows(nccl, &out, all);
	ws_put_nccl_channels(stream, all);
}

/* ---- events of the plug-in ---- */

static uint32_t intern_name(struct ws_stream *stream, const char *name)
{
	return ws_stream_intern(stream, name, strlen(name));
}

static void copy_text(struct ws_stream *stream, uint32_t handle, char *text, size_t room)
{
	size_t length = 0;
	const char *bytes = handle ? ws_stream_string_bytes(stream, handle, &length) : NULL;

	snprintf(text, room, "%.*s", (int)ws_min(length, room - 1), ws_text_or(bytes, ""));
}

/* What the proxy's thread does between operations: NCCL's states 13 to 18. */
static const char *name_control(int32_t state)
{
	static const char *const names[] = {"Idle",	"Active",     "Sleeps",
					    "Wakes up", "Takes work", "Has taken work"};

	if (state < 13 || state >= 13 + (int32_t)WS_COUNT(names))
		return "Proxy thread";
	return names[state - 13];
}

static void name_event(const struct ws_rec_nccl *record, const char *function, char *name,
		       size_t room)
{
	static const char *const texts[] = {
#define WS_NCCL_EVENT(kind, word, text) text,
#include "schema/nccl_events.def"
#undef WS_NCCL_EVENT
	};
	static const char *const networks[] = {"Network", "InfiniBand", "Socket"};
	bool sends = record->rec.value & WS_NCCL_IS_SEND;

	switch (record->rec.small) {
	case WS_NCCL_EVENT_P2P:
		snprintf(name, room, "%s %s %" PRId32, function,
			 strcmp(function, "Recv") ? "to" : "from", record->peer);
		break;
	case WS_NCCL_EVENT_PROXY_OP:
		snprintf(name, room, "%s %" PRId32 "%s%s", sends ? "Send to" : "Receive from",
			 record->peer, *function ? ": " : "", function);
		break;
	case WS_NCCL_EVENT_PROXY_STEP:
		snprintf(name, room, "%s", sends ? "Send step" : "Receive step");
		break;
	case WS_NCCL_EVENT_PROXY_CONTROL:
		snprintf(name, room, "%s", name_control(record->state));
		break;
	case WS_NCCL_EVENT_NETWORK:
		snprintf(name, room, "%s",
			 networks[record->network < WS_COUNT(networks) ? record->network : 0]);
		break;
	default:
		snprintf(name, room, "%s", *function ? function : texts[record->rec.small]);
	}
}

/* Row of the time line: one for the operations of a communicator, one for each of its channels. */
static uint32_t intern_row(struct ws_stream *stream, const struct ws_rec_nccl *record,
			   const char *group)
{
	char text[160];
	int length;

	if (record->rec.small == WS_NCCL_EVENT_PROXY_CONTROL)
		return intern_name(stream, "NCCL proxy thread");
	length = snprintf(text, sizeof(text), "NCCL%s%s", *group ? " " : "", group);
	if (record->rec.value & WS_NCCL_KNOWS_RANK)
		length += snprintf(text + length, sizeof(text) - (size_t)length, " rank %" PRId32,
				   record->rank);
	if (record->rec.value & WS_NCCL_KNOWS_CHANNEL)
		snprintf(text + length, sizeof(text) - (size_t)length, " channel %02u",
			 record->channel);
	return intern_name(stream, text);
}

static uint64_t known_or_none(const struct ws_rec_nccl *record, uint32_t flag, uint64_t value)
{
	return record->rec.value & flag ? value : WS_NO_U64;
}

static void fill_proxy(struct ws_stream *stream, const struct ws_rec_nccl *record,
		       struct ws_row_nccl_event *row)
{
	uint64_t *waits[WS_NCCL_WAITS] = {&row->gpu_wait, &row->peer_wait, &row->network,
					  &row->flush};

	row->gpu_wait = row->peer_wait = row->network = row->flush = WS_NO_U64;
	row->steps = WS_NO_U32;
	row->chunk = WS_NO_U64;
	if (record->rec.small != WS_NCCL_EVENT_PROXY_OP &&
	    record->rec.small != WS_NCCL_EVENT_PROXY_STEP)
		return;
	for (int i = 0; i < WS_NCCL_WAITS; i++)
		*waits[i] = ws_stream_time(stream, record->start + record->waits[i]) -
			    ws_stream_time(stream, record->start);
	row->steps = (uint32_t)record->steps;
	if (record->rec.small == WS_NCCL_EVENT_PROXY_OP)
		row->chunk = (uint64_t)record->chunk;
	row->direction = 2;
	if (record->rec.value & WS_NCCL_IS_SEND)
		row->direction = 1;
}

static void fill_event_texts(struct ws_stream *stream, const struct ws_rec_nccl *record,
			     struct ws_row_nccl_event *row)
{
	char group[32], function[64], name[128];

	snprintf(group, sizeof(group), "0x%016" PRIx64, record->communicator);
	if (!record->communicator)
		*group = 0;
	copy_text(stream, record->function, function, sizeof(function));
	name_event(record, function, name, sizeof(name));
	row->name = intern_name(stream, name);
	row->row = intern_row(stream, record, group);
	row->group = *group ? intern_name(stream, group) : 0;
	row->group_name = ws_stream_string(stream, record->communicator_name);
	row->function = ws_stream_string(stream, record->function);
	row->dtype = ws_stream_string(stream, record->type);
	row->algorithm = ws_stream_string(stream, record->algorithm);
	row->protocol = ws_stream_string(stream, record->protocol);
}

static struct ws_row_nccl_event make_event_row(struct ws_stream *stream,
					       const struct ws_rec_nccl *record)
{
	struct ws_row_nccl_event row = {
		.start = ws_stream_time(stream, record->start),
		.end = ws_stream_time(stream, record->end),
		.thread = stream->thread,
		.process = stream->process,
		.kind = (uint8_t)record->rec.small,
		.number = record->number,
		.parent = ws_or(record->parent, WS_NO_U64),
		.operation = ws_or(record->operation, WS_NO_U64),
		.ranks = ws_or(record->ranks, WS_NO_U32),
		.nodes = ws_or(record->nodes, WS_NO_U32),
		.rank = record->rec.value & WS_NCCL_KNOWS_RANK ? record->rank : -1,
		.sequence = known_or_none(record, WS_NCCL_KNOWS_SEQUENCE, record->sequence),
		.elements = WS_NO_U64,
		.channels = ws_or((uint32_t)record->channels, WS_NO_U32),
		.warps = ws_or((uint32_t)record->warps, WS_NO_U32),
		.peer = record->rec.value & WS_NCCL_KNOWS_PEER ? record->peer : -1,
		.channel = WS_NO_U32,
		.bytes = known_or_none(record, WS_NCCL_KNOWS_BYTES, record->bytes),
		.gpu_start = WS_NO_U64,
		.gpu_end = WS_NO_U64,
		.state = record->state,
	};

	if (record->rec.value & WS_NCCL_KNOWS_CHANNEL)
		row.channel = record->channel;
	if (row.kind == WS_NCCL_EVENT_COLLECTIVE || row.kind == WS_NCCL_EVENT_P2P)
		row.elements = record->count;
	if (record->gpu_start && record->gpu_end >= record->gpu_start) {
		row.gpu_start = record->gpu_start;
		row.gpu_end = record->gpu_end;
	}
	fill_proxy(stream, record, &row);
	fill_event_texts(stream, record, &row);
	return row;
}

/* Have the joiner fill in how the operation was done. */
static void note_choice(struct ws_stream *stream, const struct ws_rec_nccl *record,
			const struct ws_row_nccl_event *row)
{
	char function[64];

	copy_text(stream, record->function, function, sizeof(function));
	ws_nccl_add_choice(
		ws_stream_begin_nccl(stream),
		&(struct ws_nccl_choice){
			.number = record->number,
			.communicator = record->communicator,
			.start = row->start,
			.rank = row->rank,
			.peer = row->kind == WS_NCCL_EVENT_P2P ? row->peer : -1,
			.algorithm = row->algorithm,
			.protocol = row->protocol,
			.channels = record->channels,
			.operation = (uint8_t)ws_nccl_find_operation(function, strlen(function)),
		});
}

void ws_convert_nccl(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_nccl *record = (const void *)rec;
	struct ws_row_nccl_event row;

	if (ws_rec_bytes(rec) != sizeof(*record) || rec->small >= WS_NCCL_EVENTS ||
	    record->end < record->start) {
		ws_stream_diagnostic(stream, WS_ERROR, "nccl",
				     "Records of NCCL were overwritten by the program itself (a "
				     "stray write into shared memory); they are left out.");
		return;
	}
	stream->sink->nccl_seen = true;
	row = make_event_row(stream, record);
	if (row.kind == WS_NCCL_EVENT_COLLECTIVE || row.kind == WS_NCCL_EVENT_P2P)
		note_choice(stream, record, &row);
	if (row.kind == WS_NCCL_EVENT_CHANNEL && row.operation != WS_NO_U64)
		ws_keep_nccl_channel(stream, &row);
	else if (ws_stream_wants(stream, row.start, row.end))
		ws_writer_add(stream->writer, WS_TABLE_nccl_event, &row);
}

void ws_nccl_say_absent(struct ws_sink *sink)
{
	if (!sink->nccl_seen)
		ws_sink_diagnostic(sink, WS_WARNING, "nccl", 0, ws_read_raw_ns(),
				   "--nccl-trace: NCCL has told nothing. No program has "
				   "communicated by NCCL 2.23 or later, or its NCCL could not load "
				   "the plug-in (NCCL_DEBUG=INFO says why).");
}
