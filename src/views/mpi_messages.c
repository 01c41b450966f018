/*
 * mpi_messages.c - see mpi_messages.h.
 *
 * Messages between two ranks with the same tag in the same communicator are received in the order
 * in which they were sent, so the n-th send matches the n-th receive. Communicators are recognised
 * by their members (MPI_COMMUNICATORS), since each rank has handles of its own. Where a receive
 * does not say which message it takes (MPI_Irecv of any source or tag), or messages belong to
 * prepared requests, the order is not known, and all messages that these could match are left out.
 * If the recording begins in the middle of the run, receives that ended before the first send began
 * are skipped.
 *
 * The ranks of a job may be in several reports. Where both reports have MPI_Init of their rank, no
 * message is missing, and times do not matter. Otherwise times decide which are missing, so that
 * the reports must be of one host, and the receiver's must have begun before the first send.
 */
#include "views/mpi_messages.h"

#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/map.h"
#include "base/mem.h"
#include "views/slice_args.h"
#include "text/text.h"
#include "text/text_numbers.h"

enum side { SEND, RECEIVE, UNSURE_SEND, UNSURE };

/* The part that a function plays in a message. */
static const struct call_name {
	const char *name;
	enum side side;
} call_names[] = {
	{"MPI_Send", SEND},
	{"MPI_Bsend", SEND},
	{"MPI_Ssend", SEND},
	{"MPI_Rsend", SEND},
	{"MPI_Isend", SEND},
	{"MPI_Ibsend", SEND},
	{"MPI_Issend", SEND},
	{"MPI_Irsend", SEND},
	{"MPI_Sendrecv", SEND},
	{"MPI_Recv", RECEIVE},
	{"MPI_Irecv", RECEIVE},
	{"MPI_Sendrecv_replace", SEND},
	{"MPI_Send_init", UNSURE_SEND},
	{"MPI_Bsend_init", UNSURE_SEND},
	{"MPI_Ssend_init", UNSURE_SEND},
	{"MPI_Rsend_init", UNSURE_SEND},
	{"MPI_Recv_init", UNSURE},
	{"MPI_Mrecv", UNSURE},
	{"MPI_Imrecv", UNSURE},
};

struct communicator {
	uint64_t since; /* session ns: handles are used again */
	uint32_t source;
	int64_t rank, handle;
	uint32_t same; /* its number, the same on all its ranks */
	int64_t *members;
	size_t member_count;
	uint32_t text; /* of the members, in `names` */
	size_t before; /* index + 1 of an older one with the same hash of source, rank, handle */
};

/* A damaged report may claim any number of members. */
enum { MEMBERS_MOST = 1 << 24 };

/* What is known of a report. */
struct source {
	const struct ws_report *report;
	const struct ws_names_by_id *who;
	int64_t offset; /* ns from its session clock to one that all share */
	uint32_t host;	/* number of what its host is called until it boots again; 0: unknown */
	uint64_t begin; /* session ns: when it began to collect */
	uint32_t job;	/* only sources of the same job are joined */
	struct ws_map ranks; /* process (global id >> 24) -> rank + 1 */
};

/* Where a request was completed: the call of this thread that began then. */
struct request_flow {
	uint64_t start;
	uint32_t thread;
};

struct ws_mpi_messages {
	struct source *sources;
	size_t source_count;
	struct ws_map begun; /* job << 32 | rank: MPI_Init of the rank was recorded */
	struct ws_text_numbers names;
	struct communicator *communicators;
	size_t communicator_count, communicator_capacity;
	struct ws_map by_handle; /* hash of source, rank, handle -> index + 1 of the newest */
	size_t members;		 /* of all of them */
	struct ws_mpi_message *list;
	size_t count, capacity;
	struct ws_map unsure; /* communicator << 32 | receiver */
	struct ws_mpi_pair *pairs;
	size_t pair_count;
	struct ws_mpi_collective *collectives;
	size_t collective_count, collective_capacity;
	struct ws_map numbers; /* communicator << 32 | rank -> collectives that it has begun */
	struct ws_map waits;   /* hash of source, thread, start of MPI_Wait... -> its end + 1 */
	struct ws_map flows;   /* hash of source, thread, start -> index + 1 of the flow */
	struct request_flow *requests;
	size_t request_count, request_capacity;
};

/* ---- communicators ---- */

/* Read "0-3,7". */
static void parse_members(struct ws_mpi_messages *messages, struct communicator *communicator,
			  const char *text)
{
	size_t capacity = 0;

	while (*text >= '0' && *text <= '9') {
		char *end;
		long first = strtol(text, &end, 10), last = first;

		if (*end == '-')
			last = strtol(end + 1, &end, 10);
		for (long rank = first; rank <= last && messages->members < MEMBERS_MOST;
		     rank++, messages->members++) {
			ws_grow(communicator->members, capacity, communicator->member_count + 1);
			communicator->members[communicator->member_count++] = rank;
		}
		text = end + (*end == ',');
	}
}

static uint64_t hash_handle(uint32_t source, int64_t rank, int64_t handle)
{
	return (uint64_t)handle * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)rank ^
	       (uint64_t)source << 40;
}

static void add_communicator(struct ws_mpi_messages *messages, uint32_t source, uint64_t since,
			     uint64_t args)
{
	const struct ws_report *report = messages->sources[source].report;
	struct communicator new = {.since = since, .source = source};
	struct ws_text same = {0};
	char members[4096];
	int64_t uid = 0;

	if (!ws_read_slice_number(report, args, "rank", &new.rank) ||
	    !ws_read_slice_number(report, args, "commHandle", &new.handle) ||
	    !ws_read_slice_text(report, args, "members", members, sizeof(members)))
		return;
	ws_read_slice_number(report, args, "groupRootUid", &uid);
	ws_text_printf(&same, "%s#%lld#%u", members, (long long)uid, messages->sources[source].job);
	new.same = ws_number_text(&messages->names, same.text, same.len);
	new.text = ws_number_text(&messages->names, members, strlen(members));
	ws_text_free(&same);
	parse_members(messages, &new, members);
	new.before =
		ws_map_get(&messages->by_handle, hash_handle(source, new.rank, new.handle), NULL);
	ws_grow(messages->communicators, messages->communicator_capacity,
		messages->communicator_count + 1);
	messages->communicators[messages->communicator_count++] = new;
	ws_map_set(&messages->by_handle, hash_handle(source, new.rank, new.handle),
		   messages->communicator_count);
}

/* ---- reports ---- */

static void add_rank(struct source *source, uint64_t args)
{
	int64_t thread, rank;

	if (ws_read_slice_number(source->report, args, "globalTid", &thread) &&
	    ws_read_slice_number(source->report, args, "rank", &rank))
		ws_map_set(&source->ranks, (uint64_t)thread >> 24, (uint64_t)rank + 1);
}

/* Read the ranks of a report, or else its communicators. */
static void read_foreign(struct ws_mpi_messages *messages, uint32_t source, bool ranks)
{
	const struct ws_report *report = messages->sources[source].report;
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_foreign, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		const char *table =
			ws_report_string(report, (uint32_t)values[ws_foreign_table], NULL);
		uint64_t row = values[ws_foreign_row];

		if (ranks && !strcmp(table, "MPI_RANKS"))
			add_rank(&messages->sources[source], row);
		if (!ranks && !strcmp(table, "MPI_COMMUNICATORS"))
			add_communicator(messages, source, values[ws_foreign_start], row);
	}
	ws_cursor_close(cursor);
}

static uint32_t read_host(struct ws_mpi_messages *messages, const struct ws_report *report)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_meta, 0, UINT64_MAX);
	const uint64_t *values;
	uint32_t host = 0;

	while (ws_cursor_next(cursor, &values)) {
		const char *name = ws_report_string(report, (uint32_t)values[ws_meta_name], NULL);
		size_t length;
		const char *id = ws_report_string(report, (uint32_t)values[ws_meta_value], &length);

		if (!strcmp(name, "host.boot_id") && length)
			host = ws_number_text(&messages->names, id, length) + 1;
	}
	ws_cursor_close(cursor);
	return host;
}

/* From the session clock to the time of day, by the first reading of both. */
static int64_t read_offset(const struct ws_report *report)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_clock, 0, UINT64_MAX);
	const uint64_t *values;
	int64_t offset = 0;

	if (ws_cursor_next(cursor, &values))
		offset = (int64_t)(values[ws_clock_realtime] - values[ws_clock_raw]);
	ws_cursor_close(cursor);
	return offset;
}

static void open_source(struct ws_mpi_messages *messages, const struct ws_mpi_source *given)
{
	struct source *source = &messages->sources[messages->source_count];

	*source = (struct source){.report = given->report,
				  .who = given->who,
				  .offset = read_offset(given->report),
				  .host = read_host(messages, given->report),
				  .begin = ws_find_time_zero(given->report)};
	/* one host has one session clock, which is more exact than the time of day */
	for (size_t i = 0; i < messages->source_count; i++)
		if (source->host && source->host == messages->sources[i].host)
			source->offset = messages->sources[i].offset;
	read_foreign(messages, (uint32_t)messages->source_count++, true);
}

/* Whether no rank is in two reports. */
static bool is_one_job(const struct ws_mpi_messages *messages)
{
	struct ws_map seen = {0};
	bool one = true;

	for (size_t i = 0; i < messages->source_count; i++)
		for (size_t k = 0; k < messages->sources[i].ranks.size; k++) {
			uint64_t rank = messages->sources[i].ranks.slots[k].value, in;

			if (!messages->sources[i].ranks.used[k])
				continue;
			in = ws_map_get(&seen, rank, NULL);
			one &= !in || in == i + 1;
			ws_map_set(&seen, rank, i + 1);
		}
	ws_map_free(&seen);
	return one;
}

/* The latest communicator that the rank had under this handle at the time; NULL: none is known. */
static const struct communicator *find_communicator(const struct ws_mpi_messages *messages,
						    const struct ws_mpi_message *message,
						    int64_t rank, int64_t handle)
{
	size_t at =
		ws_map_get(&messages->by_handle, hash_handle(message->source, rank, handle), NULL);

	while (at) {
		const struct communicator *communicator = &messages->communicators[at - 1];

		if (communicator->source == message->source && communicator->rank == rank &&
		    communicator->handle == handle && communicator->since <= message->start)
			return communicator;
		at = communicator->before;
	}
	return NULL;
}

/* ---- calls ---- */

static const struct call_name *find_call(const char *name)
{
	for (size_t i = 0; i < WS_COUNT(call_names); i++) {
		size_t length = strlen(call_names[i].name);

		/* MPI_Send_c is the same with larger counts */
		if (!strncmp(name, call_names[i].name, length) &&
		    (!name[length] || !strcmp(name + length, "_c")))
			return &call_names[i];
	}
	return NULL;
}

/* Collectives in which all wait for the last; MPI_Allgatherv and the like begin so, too. */
static bool is_waited_in(const char *name)
{
	static const char *const names[] = {"MPI_Barrier", "MPI_Allreduce", "MPI_Allgather",
					    "MPI_Alltoall", "MPI_Reduce_scatter"};

	for (size_t i = 0; i < WS_COUNT(names); i++)
		if (!strncmp(name, names[i], strlen(names[i])))
			return !strstr(name, "_init");
	return false;
}

static uint64_t make_unsure_key(uint32_t communicator, int64_t receiver)
{
	return (uint64_t)communicator << 32 | (uint32_t)receiver;
}

static void mark_unsure(struct ws_mpi_messages *messages, const struct communicator *communicator,
			int64_t receiver)
{
	ws_map_set(&messages->unsure, make_unsure_key(communicator->same, receiver), 1);
}

static void add_message(struct ws_mpi_messages *messages, const struct communicator *communicator,
			struct ws_mpi_message message, int64_t peer)
{
	if (peer < 0 || (size_t)peer >= communicator->member_count)
		return;
	if (message.side == SEND)
		message.to = communicator->members[peer];
	else
		message.from = communicator->members[peer];
	message.communicator = communicator->same;
	message.text = communicator->text;
	ws_grow(messages->list, messages->capacity, messages->count + 1);
	messages->list[messages->count++] = message;
}

/* The receive half of MPI_Sendrecv. */
static void add_second_half(struct ws_mpi_messages *messages,
			    const struct communicator *communicator, struct ws_mpi_message message,
			    uint64_t args)
{
	const struct ws_report *report = messages->sources[message.source].report;
	int64_t peer;

	message.side = RECEIVE;
	message.to = message.from;
	if (ws_read_slice_number(report, args, "sourceRank", &peer) &&
	    ws_read_slice_number(report, args, "recvTag", &message.tag) &&
	    ws_read_slice_number(report, args, "recvSize", &message.size))
		add_message(messages, communicator, message, peer);
}

/* The rank of a thread's process, counted from 1; 0 where it is not known. */
static uint64_t find_rank(const struct source *source, uint32_t thread)
{
	return ws_map_get(&source->ranks, ws_find_thread(source->who, thread)->global_tid >> 24,
			  NULL);
}

static uint64_t make_rank_key(uint32_t job, int64_t rank)
{
	return (uint64_t)job << 32 | (uint32_t)rank;
}

static void read_call(struct ws_mpi_messages *messages, uint32_t number, const uint64_t *values,
		      const char *name)
{
	const struct source *source = &messages->sources[number];
	const struct ws_report *report = source->report;
	const struct call_name *call = find_call(name);
	uint64_t args = values[ws_slice_args],
		 rank = find_rank(source, (uint32_t)values[ws_slice_thread]);
	struct ws_mpi_message message = {.start = values[ws_slice_start],
					 .end = values[ws_slice_end],
					 .thread = (uint32_t)values[ws_slice_thread],
					 .source = number,
					 .name = values[ws_slice_name]};
	const struct communicator *communicator;
	int64_t handle, peer = -2, error;

	if (!call || !rank || ws_read_slice_number(report, args, "error", &error) ||
	    !ws_read_slice_number(report, args, "commHandle", &handle))
		return;
	communicator = find_communicator(messages, &message, (int64_t)rank - 1, handle);
	if (!communicator)
		return;
	message.side = (uint8_t)call->side;
	message.blocking = strncmp(name, "MPI_I", 5) != 0;
	if (message.blocking) {
		message.wait_start = message.start;
		message.wait_end = message.end;
		message.wait_thread = message.thread;
	}
	message.from = message.to = (int64_t)rank - 1;
	message.tag = -1;
	ws_read_slice_number(report, args, "remoteRank", &peer);
	ws_read_slice_number(report, args, "tag", &message.tag);
	ws_read_slice_number(report, args, "size", &message.size);
	/* a receive from any source makes the order of all messages to this rank unknown */
	if (call->side == UNSURE || (call->side == RECEIVE && (peer == -2 || message.tag < 0)))
		mark_unsure(messages, communicator, (int64_t)rank - 1);
	else if (call->side != UNSURE_SEND)
		add_message(messages, communicator, message, peer);
	else if (peer >= 0 && (size_t)peer < communicator->member_count)
		mark_unsure(messages, communicator, communicator->members[peer]);
	if (call->side == SEND && !strncmp(name, "MPI_Sendrecv", 12))
		add_second_half(messages, communicator, message, args);
}

/* The n-th collective in a communicator is the same on all its ranks. */
static void read_collective(struct ws_mpi_messages *messages, uint32_t number,
			    const uint64_t *values, const char *name)
{
	const struct source *source = &messages->sources[number];
	int64_t rank = (int64_t)find_rank(source, (uint32_t)values[ws_slice_thread]) - 1, handle;
	struct ws_mpi_message call = {.start = values[ws_slice_start], .source = number};
	struct ws_mpi_collective *collective;
	const struct communicator *communicator;
	uint64_t key;

	if (rank < 0 || !ws_map_get(&messages->begun, make_rank_key(source->job, rank), NULL) ||
	    !ws_read_slice_number(source->report, values[ws_slice_args], "commHandle", &handle))
		return;
	communicator = find_communicator(messages, &call, rank, handle);
	if (!communicator)
		return;
	key = make_unsure_key(communicator->same, rank);
	ws_grow(messages->collectives, messages->collective_capacity,
		messages->collective_count + 1);
	collective = &messages->collectives[messages->collective_count++];
	*collective =
		(struct ws_mpi_collective){.start = call.start,
					   .end = values[ws_slice_end],
					   .number = ws_map_get(&messages->numbers, key, NULL),
					   .thread = (uint32_t)values[ws_slice_thread],
					   .source = number,
					   .communicator = communicator->same,
					   .waits = is_waited_in(name)};
	ws_map_set(&messages->numbers, key, collective->number + 1);
}

static uint64_t hash_call(uint32_t source, uint64_t thread, uint64_t start)
{
	return (start + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ thread << 8 ^ (uint64_t)source << 48;
}

/* Remember a call that blocks until requests are complete. */
static void read_wait(struct ws_mpi_messages *messages, uint32_t number, const uint64_t *values,
		      const char *name)
{
	if (!strncmp(name, "MPI_Wait", 8) && values[ws_slice_end] != WS_NO_TIME)
		ws_map_set(&messages->waits,
			   hash_call(number, values[ws_slice_thread], values[ws_slice_start]),
			   values[ws_slice_end] + 1);
}

/* Remember which call completed the request that a call began. */
static void read_requests(struct ws_mpi_messages *messages, uint32_t number)
{
	const struct source *source = &messages->sources[number];
	struct ws_cursor *cursor = ws_cursor_open(source->report, WS_TABLE_flow, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		const char *title =
			ws_report_string(source->report, (uint32_t)values[ws_flow_category], NULL);

		if (strcmp(title, "MPI") != 0)
			continue;
		ws_grow(messages->requests, messages->request_capacity,
			messages->request_count + 1);
		messages->requests[messages->request_count++] = (struct request_flow){
			values[ws_flow_end], (uint32_t)values[ws_flow_to_thread]};
		ws_map_set(&messages->flows,
			   hash_call(number, values[ws_flow_from_thread], values[ws_flow_start]),
			   messages->request_count);
	}
	ws_cursor_close(cursor);
}

/* Find the call that waited for the request of a message. */
static void find_wait(const struct ws_mpi_messages *messages, struct ws_mpi_message *message)
{
	uint64_t flow =
		ws_map_get(&messages->flows,
			   hash_call(message->source, message->thread, message->start), NULL);
	const struct request_flow *request;
	uint64_t end;

	if (!flow)
		return;
	request = &messages->requests[flow - 1];
	end = ws_map_get(&messages->waits,
			 hash_call(message->source, request->thread, request->start), NULL);
	if (!end)
		return;
	message->blocking = true;
	message->wait_start = request->start;
	message->wait_end = end - 1;
	message->wait_thread = request->thread;
}

static void read_calls(struct ws_mpi_messages *messages, uint32_t number)
{
	const struct source *source = &messages->sources[number];
	struct ws_cursor *cursor = ws_cursor_open(source->report, WS_TABLE_slice, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		const char *table = ws_report_string(source->report,
						     (uint32_t)values[ws_slice_category], NULL),
			   *name = ws_report_string(source->report, (uint32_t)values[ws_slice_name],
						    NULL);
		uint64_t rank;

		if (!strcmp(table, WS_MPI_MESSAGE_TABLE))
			read_call(messages, number, values, name);
		if (!strcmp(table, WS_MPI_COLLECTIVE_TABLE))
			read_collective(messages, number, values, name);
		if (!strcmp(table, "MPI_START_WAIT_EVENTS"))
			read_wait(messages, number, values, name);
		if (strcmp(table, "MPI_OTHER_EVENTS") != 0 || strncmp(name, "MPI_Init", 8) != 0)
			continue;
		rank = find_rank(source, (uint32_t)values[ws_slice_thread]);
		ws_map_set(&messages->begun, make_rank_key(source->job, (int64_t)rank - 1), 1);
	}
	ws_cursor_close(cursor);
}

/* ---- pairs ---- */

static int compare_streams(const struct ws_mpi_message *left, const struct ws_mpi_message *right)
{
	if (left->communicator != right->communicator)
		return ws_compare(left->communicator, right->communicator);
	if (left->from != right->from)
		return ws_compare(left->from, right->from);
	if (left->to != right->to)
		return ws_compare(left->to, right->to);
	return ws_compare(left->tag, right->tag);
}

static int compare_messages(const void *a, const void *b)
{
	const struct ws_mpi_message *left = a, *right = b;
	int order = compare_streams(left, right);

	if (order)
		return order;
	if (left->side != right->side)
		return ws_compare(left->side, right->side);
	return ws_compare(left->start, right->start);
}

int64_t ws_shift_mpi_time(const struct ws_mpi_messages *messages, uint32_t from, uint32_t to)
{
	const struct source *one = &messages->sources[from], *other = &messages->sources[to];

	if (!one->offset || !other->offset)
		return 0;
	return one->offset - other->offset;
}

static uint64_t make_common_time(const struct ws_mpi_messages *messages,
				 const struct ws_mpi_message *message, uint64_t time)
{
	if (time == WS_NO_TIME)
		return time;
	return time + (uint64_t)messages->sources[message->source].offset;
}

static int compare_pairs(const void *a, const void *b, void *context)
{
	const struct ws_mpi_pair *left = a, *right = b;

	return ws_compare(make_common_time(context, left->send, left->send->start),
			  make_common_time(context, right->send, right->send->start));
}

struct ws_mpi_waits ws_get_mpi_waits(const struct ws_mpi_messages *messages,
				     const struct ws_mpi_pair *pair)
{
	const struct ws_mpi_message *send = pair->send, *receive = pair->receive;
	uint64_t shift = (uint64_t)ws_shift_mpi_time(messages, receive->source, send->source),
		 ready = receive->start + shift, waits_from = receive->wait_start + shift;
	struct ws_mpi_waits waits = {0};

	if (receive->blocking && send->start > waits_from)
		waits.late_sender =
			ws_min(send->start - waits_from, receive->wait_end - receive->wait_start);
	if (send->blocking && ready > send->wait_start && send->wait_end >= ready)
		waits.late_receiver = ready - send->wait_start;
	return waits;
}

/* Whether the report has all messages of the rank. */
static bool has_begun(const struct ws_mpi_messages *messages, uint32_t source, int64_t rank)
{
	return ws_map_get(&messages->begun, make_rank_key(messages->sources[source].job, rank),
			  NULL);
}

/* How the messages of a stream are found to belong together. */
enum order {
	UNKNOWN,
	BY_NUMBER, /* none is missing */
	BY_TIME	   /* the first receives may be of messages that were sent before */
};

static enum order choose_order(const struct ws_mpi_messages *messages,
			       const struct ws_mpi_message *send,
			       const struct ws_mpi_message *receive)
{
	const struct source *from = &messages->sources[send->source],
			    *to = &messages->sources[receive->source];

	if (from == to)
		return BY_TIME;
	if (has_begun(messages, send->source, send->from) &&
	    has_begun(messages, receive->source, send->to))
		return BY_NUMBER;
	if (from->host && from->host == to->host && send->start >= to->begin)
		return BY_TIME;
	return UNKNOWN;
}

/* The pairs of a stream of messages: `sends` of them, then the receives. */
static void join_stream(const struct ws_mpi_messages *messages, const struct ws_mpi_message *first,
			size_t sends, size_t receives, struct ws_mpi_pair **pairs)
{
	const struct ws_mpi_message *receive = first + sends;
	enum order order;

	if (!sends || !receives ||
	    ws_map_get(&messages->unsure, make_unsure_key(first->communicator, first->to), NULL))
		return;
	order = choose_order(messages, first, receive);
	for (size_t i = 0, k = 0; order != UNKNOWN && i < sends && k < receives; i++, k++) {
		const struct ws_mpi_message *send = &first[i];

		while (order == BY_TIME && k < receives && receive[k].blocking &&
		       make_common_time(messages, &receive[k], receive[k].wait_end) <
			       make_common_time(messages, send, send->start))
			k++;
		if (k < receives)
			*(*pairs)++ = (struct ws_mpi_pair){send, &receive[k]};
	}
}

static size_t join_messages(struct ws_mpi_messages *messages, struct ws_mpi_pair *pairs)
{
	struct ws_mpi_pair *end = pairs;

	qsort(messages->list, messages->count, sizeof(*messages->list), compare_messages);
	for (size_t from = 0, to; from < messages->count; from = to) {
		const struct ws_mpi_message *first = &messages->list[from];
		size_t sends = 0;

		for (to = from;
		     to < messages->count && !compare_streams(first, &messages->list[to]); to++)
			sends += messages->list[to].side == SEND;
		join_stream(messages, first, sends, to - from - sends, &end);
	}
	return (size_t)(end - pairs);
}

struct ws_mpi_messages *ws_join_mpi_messages(const struct ws_mpi_source *sources, size_t count)
{
	struct ws_mpi_messages *messages = ws_calloc(1, sizeof(*messages));
	bool one;

	messages->sources = ws_calloc(count + 1, sizeof(*messages->sources));
	for (size_t i = 0; i < count; i++)
		open_source(messages, &sources[i]);
	one = is_one_job(messages);
	for (uint32_t i = 0; i < count; i++) {
		messages->sources[i].job = one ? 0 : i;
		read_foreign(messages, i, false);
	}
	for (uint32_t i = 0; messages->communicator_count && i < count; i++) {
		read_calls(messages, i);
		read_requests(messages, i);
	}
	for (size_t i = 0; i < messages->count; i++)
		if (!messages->list[i].blocking)
			find_wait(messages, &messages->list[i]);
	messages->pairs = ws_calloc(messages->count + 1, sizeof(*messages->pairs));
	messages->pair_count = join_messages(messages, messages->pairs);
	qsort_r(messages->pairs, messages->pair_count, sizeof(*messages->pairs), compare_pairs,
		messages);
	return messages;
}

const struct ws_mpi_pair *ws_get_mpi_pairs(const struct ws_mpi_messages *messages, size_t *count)
{
	*count = messages->pair_count;
	return messages->pairs;
}

const char *ws_get_mpi_members(const struct ws_mpi_messages *messages,
			       const struct ws_mpi_message *message, size_t *length)
{
	return ws_get_numbered_text(&messages->names, message->text, length);
}

const struct ws_mpi_collective *ws_get_mpi_collectives(const struct ws_mpi_messages *messages,
						       size_t *count)
{
	*count = messages->collective_count;
	return messages->collectives;
}

const char *ws_get_mpi_communicator(const struct ws_mpi_messages *messages,
				    const struct ws_mpi_collective *collective, size_t *length)
{
	return ws_get_numbered_text(&messages->names, collective->communicator, length);
}

void ws_free_mpi_messages(struct ws_mpi_messages *messages)
{
	for (size_t i = 0; i < messages->communicator_count; i++)
		free(messages->communicators[i].members);
	free(messages->communicators);
	free(messages->list);
	free(messages->pairs);
	free(messages->collectives);
	for (size_t i = 0; i < messages->source_count; i++)
		ws_map_free(&messages->sources[i].ranks);
	free(messages->sources);
	ws_map_free(&messages->begun);
	ws_map_free(&messages->numbers);
	ws_map_free(&messages->unsure);
	ws_map_free(&messages->by_handle);
	ws_map_free(&messages->waits);
	ws_map_free(&messages->flows);
	free(messages->requests);
	ws_free_text_numbers(&messages->names);
	free(messages);
}
