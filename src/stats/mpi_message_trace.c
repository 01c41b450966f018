/*
 * mpi_message_trace.c - messages of MPI: each send with its matching receive, and which of the two
 * had to wait for the other.
 */
#include <string.h>

#include "views/mpi_messages.h"
#include "stats/stats.h"

static const struct ws_column columns[] = {
	{"Send Start", WS_KIND_TIME},
	{"Send Duration", WS_KIND_TIME},
	{"Recv Start", WS_KIND_TIME},
	{"Recv Duration", WS_KIND_TIME},
	{"Late Sender", WS_KIND_TIME},
	{"Late Receiver", WS_KIND_TIME},
	{"From", WS_KIND_ID},
	{"To", WS_KIND_ID},
	{"Tag", WS_KIND_ID},
	{"Size", WS_KIND_SIZE},
	{"Communicator", WS_KIND_TEXT},
	{"Send", WS_KIND_TEXT},
	{"Recv", WS_KIND_TEXT},
};

static struct ws_cell make_name_cell(const struct ws_stats *stats, uint64_t id)
{
	size_t length;
	const char *text = ws_report_string(stats->report, (uint32_t)id, &length);

	return ws_cell_text(text, length);
}

static struct ws_cell make_length_cell(const struct ws_mpi_message *message)
{
	return ws_cell_int_if(message->end != WS_NO_TIME, (int64_t)(message->end - message->start));
}

static void print_pair(struct ws_stats *stats, const struct ws_mpi_messages *messages,
		       const struct ws_mpi_pair *pair)
{
	const struct ws_mpi_message *send = pair->send, *receive = pair->receive;
	uint64_t late_sender = 0, late_receiver = 0;
	size_t length;
	const char *members = ws_get_mpi_members(messages, send, &length);

	/* A call that returns at once waits for nobody, and neither does a send that ends before
	 * the receive begins. */
	if (send->start > receive->start && receive->blocking)
		late_sender = send->start - receive->start;
	if (receive->start > send->start && send->blocking && send->end >= receive->start)
		late_receiver = receive->start - send->start;
	stats->row(stats, (struct ws_cell[]){
				  ws_cell_int((int64_t)(send->start - stats->zero)),
				  make_length_cell(send),
				  ws_cell_int((int64_t)(receive->start - stats->zero)),
				  make_length_cell(receive),
				  ws_cell_int((int64_t)late_sender),
				  ws_cell_int((int64_t)late_receiver),
				  ws_cell_int(send->from),
				  ws_cell_int(send->to),
				  ws_cell_int(send->tag),
				  ws_cell_int(send->size),
				  ws_cell_text(members, length),
				  make_name_cell(stats, send->name),
				  make_name_cell(stats, receive->name),
			  });
}

static int make_mpi_message_rows(struct ws_stats *stats, struct ws_err *err)
{
	struct ws_mpi_messages *messages = ws_join_mpi_messages(stats->report, stats->who);
	size_t count;
	const struct ws_mpi_pair *pairs = ws_get_mpi_pairs(messages, &count);

	(void)err;
	for (size_t i = 0; i < count; i++)
		if (pairs[i].receive->end >= stats->time_min &&
		    pairs[i].send->start <= stats->time_max)
			print_pair(stats, messages, &pairs[i]);
	ws_free_mpi_messages(messages);
	return 0;
}

const struct ws_stats_report ws_stat_mpi_message_trace = {
	.name = "mpi_message_trace",
	.title = "MPI Message Trace",
	.about = "Each message of MPI with its send and its receive, and how long one of the two "
		 "waited for the other, where the report has both ranks.",
	.what = "MPI messages whose ranks are both in the report",
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_mpi_message_rows,
};
