/*
 * mpi_messages.h - messages of MPI: each send with the receive that got it, in one report or in
 * several reports of one job.
 */
#ifndef WS_VIEWS_MPI_MESSAGES_H
#define WS_VIEWS_MPI_MESSAGES_H

#include "query/query.h"

/* The tables of calls that send and receive, and of collectives; the categories of their slices. */
#define WS_MPI_MESSAGE_TABLE "MPI_P2P_EVENTS"
#define WS_MPI_COLLECTIVE_TABLE "MPI_COLLECTIVES_EVENTS"

/* A report whose calls are read. */
struct ws_mpi_source {
	const struct ws_report *report;
	const struct ws_names_by_id *who;
};

/* One side of a message. */
struct ws_mpi_message {
	uint64_t start, end; /* of the call, session ns of its report */
	int64_t from, to;    /* ranks of the world */
	int64_t tag, size;   /* size: bytes sent, or room for them */
	uint64_t name;	     /* string id of the function */
	uint32_t thread;     /* id of thread */
	uint32_t source;     /* which of the reports has the call */
	uint32_t communicator, text;
	uint8_t side;
	/* The call that returns once the message has arrived, or its buffer may be reused: the call
	 * itself, or the MPI_Wait, Waitall, Waitany or Waitsome that completed its request. */
	bool blocking;		       /* there is one */
	uint64_t wait_start, wait_end; /* session ns of its report; wait_start 0: none */
	uint32_t wait_thread;
};

struct ws_mpi_pair {
	const struct ws_mpi_message *send, *receive;
};

/* A call of a collective by a rank whose MPI_Init was recorded. */
struct ws_mpi_collective {
	uint64_t start, end; /* session ns of its report */
	uint64_t number;     /* in its communicator, the same on all ranks */
	uint32_t thread, source, communicator;
	bool waits; /* it blocks, and no rank can return before the last has come */
};

/* ns that one side waited for the other to come, in its call or in the one that waited for its
 * request. A request that MPI_Test found complete waited for nobody, and neither did a send that
 * ended before the receive began. One MPI_Waitall may wait for several messages at once. */
struct ws_mpi_waits {
	uint64_t late_sender, late_receiver;
};

struct ws_mpi_messages;

/*
 * Read the calls of the reports and pair them. Never NULL; without calls there are no pairs. Reads
 * all slices of the reports, which stay open as long as the result is used. Reports that both have
 * the same rank are not of one job: then each is joined by itself.
 */
struct ws_mpi_messages *ws_join_mpi_messages(const struct ws_mpi_source *sources, size_t count);
/* Nanoseconds to add to session times of report `from` to have those of report `to`; 0 where their
 * clocks are not known. */
int64_t ws_shift_mpi_time(const struct ws_mpi_messages *messages, uint32_t from, uint32_t to);
/* The pairs, by the start of the send. */
const struct ws_mpi_pair *ws_get_mpi_pairs(const struct ws_mpi_messages *messages, size_t *count);
/* By the clocks of their reports; of several hosts, no more exact than the time of day. */
struct ws_mpi_waits ws_get_mpi_waits(const struct ws_mpi_messages *messages,
				     const struct ws_mpi_pair *pair);
/* The ranks of the world that the message's communicator consists of, as "0-3,7". */
const char *ws_get_mpi_members(const struct ws_mpi_messages *messages,
			       const struct ws_mpi_message *message, size_t *length);
/* The collectives, by report and start. */
const struct ws_mpi_collective *ws_get_mpi_collectives(const struct ws_mpi_messages *messages,
						       size_t *count);
/* A text that names a communicator, the same in all reports of a job. */
const char *ws_get_mpi_communicator(const struct ws_mpi_messages *messages,
				    const struct ws_mpi_collective *collective, size_t *length);
void ws_free_mpi_messages(struct ws_mpi_messages *messages);

#endif
