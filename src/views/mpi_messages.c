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
	int64_t rank, handle;
	uint32_t same; /* its number, the same on all its ranks */
	int64_t *members;
	size_t member_count;
	uint32_t text; /* of the members, in `names` */
	size_t before; /* index + 1 of an older one with the same hash of rank and handle */
};

/* A damaged report may claim any number of members. */
enum { MEMBERS_MOST = 1 << 24 };

struct ws_mpi_messages {
	const struct ws_report *report;
	const struct ws_names_by_id *who;
	struct ws_map ranks; /* process (global id >> 24) -> rank + 1 */
	struct ws_text_numbers names;
	struct communicator *communicators;
	size_t communicator_count, communicator_capacity;
	struct ws_map by_handle; /* hash of rank and handle -> index + 1 of the newest */
	size_t members;		 /* of all of them */
	struct ws_mpi_message *list;
	size_t count, capacity;
	struct ws_map unsure; /* communicator << 32 | receiver */
	struct ws_mpi_pair *pairs;
	size_t pair_count;
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

static uint64_t hash_handle(int64_t rank, int64_t handle)
{
	return (uint64_t)handle * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)rank;
}

static void add_communicator(struct ws_mpi_messages *messages, uint64_t since, uint64_t args)
{
	const struct ws_report *report = messages->report;
	struct communicator new = {.since = since};
	struct ws_text same = {0};
	char members[4096];
	int64_t uid = 0;

	if (!ws_read_slice_number(report, args, "rank", &new.rank) ||
	    !ws_read_slice_number(report, args, "commHandle", &new.handle) ||
	    !ws_read_slice_text(report, args, "members", members, sizeof(members)))
		return;
	ws_read_slice_number(report, args, "groupRootUid", &uid);
	ws_text_printf(&same, "%s#%lld", members, (long long)uid);
	new.same = ws_number_text(&messages->names, same.text, same.len);
	new.text = ws_number_text(&messages->names, members, strlen(members));
	ws_text_free(&same);
	parse_members(messages, &new, members);
	new.before = ws_map_get(&messages->by_handle, hash_handle(new.rank, new.handle), NULL);
	ws_grow(messages->communicators, messages->communicator_capacity,
		messages->communicator_count + 1);
	messages->communicators[messages->communicator_count++] = new;
	ws_map_set(&messages->by_handle, hash_handle(new.rank, new.handle),
		   messages->communicator_count);
}

static void read_foreign(struct ws_mpi_messages *messages)
{
	const struct ws_report *report = messages->report;
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_foreign, 0, UINT64_MAX);
	const uint64_t *values;
	int64_t thread, rank;

	while (ws_cursor_next(cursor, &values)) {
		const char *table =
			ws_report_string(report, (uint32_t)values[ws_foreign_table], NULL);
		uint64_t row = values[ws_foreign_row];

		if (!strcmp(table, "MPI_COMMUNICATORS"))
			add_communicator(messages, values[ws_foreign_start], row);
		if (!strcmp(table, "MPI_RANKS") &&
		    ws_read_slice_number(report, row, "globalTid", &thread) &&
		    ws_read_slice_number(report, row, "rank", &rank))
			ws_map_set(&messages->ranks, (uint64_t)thread >> 24, (uint64_t)rank + 1);
	}
	ws_cursor_close(cursor);
}

/* The latest communicator that the rank had under this handle at the time; NULL: none is known. */
static const struct communicator *find_communicator(const struct ws_mpi_messages *messages,
						    int64_t rank, int64_t handle, uint64_t time)
{
	size_t at = ws_map_get(&messages->by_handle, hash_handle(rank, handle), NULL);

	while (at) {
		const struct communicator *communicator = &messages->communicators[at - 1];

		if (communicator->rank == rank && communicator->handle == handle &&
		    communicator->since <= time)
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
	int64_t peer;

	message.side = RECEIVE;
	message.to = message.from;
	if (ws_read_slice_number(messages->report, args, "sourceRank", &peer) &&
	    ws_read_slice_number(messages->report, args, "recvTag", &message.tag) &&
	    ws_read_slice_number(messages->report, args, "recvSize", &message.size))
		add_message(messages, communicator, message, peer);
}

static void read_call(struct ws_mpi_messages *messages, const uint64_t *values, const char *name)
{
	const struct ws_report *report = messages->report;
	const struct call_name *call = find_call(name);
	const struct ws_thread_info *thread =
		ws_find_thread(messages->who, (uint32_t)values[ws_slice_thread]);
	uint64_t args = values[ws_slice_args],
		 rank = ws_map_get(&messages->ranks, thread->global_tid >> 24, NULL);
	struct ws_mpi_message message = {.start = values[ws_slice_start],
					 .end = values[ws_slice_end],
					 .thread = (uint32_t)values[ws_slice_thread],
					 .name = values[ws_slice_name]};
	const struct communicator *communicator;
	int64_t handle, peer = -2, error;

	if (!call || !rank || ws_read_slice_number(report, args, "error", &error) ||
	    !ws_read_slice_number(report, args, "commHandle", &handle))
		return;
	communicator = find_communicator(messages, (int64_t)rank - 1, handle, message.start);
	if (!communicator)
		return;
	message.side = (uint8_t)call->side;
	message.blocking = strncmp(name, "MPI_I", 5) != 0;
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

static void read_calls(struct ws_mpi_messages *messages)
{
	const struct ws_report *report = messages->report;
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_slice, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values))
		if (!strcmp(ws_report_string(report, (uint32_t)values[ws_slice_category], NULL),
			    WS_MPI_MESSAGE_TABLE))
			read_call(messages, values,
				  ws_report_string(report, (uint32_t)values[ws_slice_name], NULL));
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

static int compare_pairs(const void *a, const void *b)
{
	const struct ws_mpi_pair *left = a, *right = b;

	return ws_compare(left->send->start, right->send->start);
}

/* The pairs of a stream of messages: `sends` of them, then the receives. */
static void join_stream(const struct ws_mpi_messages *messages, const struct ws_mpi_message *first,
			size_t sends, size_t receives, struct ws_mpi_pair **pairs)
{
	const struct ws_mpi_message *receive = first + sends;

	if (ws_map_get(&messages->unsure, make_unsure_key(first->communicator, first->to), NULL))
		return;
	for (size_t i = 0, k = 0; i < sends && k < receives; i++, k++) {
		const struct ws_mpi_message *send = &first[i];

		/* its message was sent before the recording began */
		while (k < receives && receive[k].blocking && receive[k].end < send->start)
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

struct ws_mpi_messages *ws_join_mpi_messages(const struct ws_report *report,
					     const struct ws_names_by_id *who)
{
	struct ws_mpi_messages *messages = ws_calloc(1, sizeof(*messages));

	messages->report = report;
	messages->who = who;
	read_foreign(messages);
	if (messages->communicator_count)
		read_calls(messages);
	messages->pairs = ws_calloc(messages->count + 1, sizeof(*messages->pairs));
	messages->pair_count = join_messages(messages, messages->pairs);
	qsort(messages->pairs, messages->pair_count, sizeof(*messages->pairs), compare_pairs);
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

void ws_free_mpi_messages(struct ws_mpi_messages *messages)
{
	for (size_t i = 0; i < messages->communicator_count; i++)
		free(messages->communicators[i].members);
	free(messages->communicators);
	free(messages->list);
	free(messages->pairs);
	ws_map_free(&messages->ranks);
	ws_map_free(&messages->unsure);
	ws_map_free(&messages->by_handle);
	ws_free_text_numbers(&messages->names);
	free(messages);
}
