/* mpi_messages.h - messages of MPI: each send of a report with the receive that got it. */
#ifndef WS_VIEWS_MPI_MESSAGES_H
#define WS_VIEWS_MPI_MESSAGES_H

#include "query/query.h"

/* The table of calls that send and receive; the category of their slices. */
#define WS_MPI_MESSAGE_TABLE "MPI_P2P_EVENTS"

/* One side of a message. */
struct ws_mpi_message {
	uint64_t start, end; /* of the call, session ns */
	int64_t from, to;    /* ranks of the world */
	int64_t tag, size;   /* size: bytes sent, or room for them */
	uint64_t name;	     /* string id of the function */
	uint32_t thread;     /* id of thread */
	uint32_t communicator, text;
	uint8_t side;
	bool blocking; /* it returns once the message has arrived, or its buffer may be reused */
};

struct ws_mpi_pair {
	const struct ws_mpi_message *send, *receive;
};

struct ws_mpi_messages;

/* Read the calls of a report and pair them. Never NULL; without calls there are no pairs. Reads all
 * slices of the report. */
struct ws_mpi_messages *ws_join_mpi_messages(const struct ws_report *report,
					     const struct ws_names_by_id *who);
/* The pairs, by the start of the send. */
const struct ws_mpi_pair *ws_get_mpi_pairs(const struct ws_mpi_messages *messages, size_t *count);
/* The ranks of the world that the message's communicator consists of, as "0-3,7". */
const char *ws_get_mpi_members(const struct ws_mpi_messages *messages,
			       const struct ws_mpi_message *message, size_t *length);
void ws_free_mpi_messages(struct ws_mpi_messages *messages);

#endif
