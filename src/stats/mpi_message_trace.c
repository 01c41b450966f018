/*
 * mpi_message_trace.c - messages of MPI: each send with its matching receive, and which of the two
 * had to wait for the other.
 */
#include <stdlib.h>

#include "query/operand.h"
#include "stats/stats.h"
#include "views/mpi_messages.h"

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

static struct ws_cell make_name_cell(const struct ws_stats_files *files,
				     const struct ws_mpi_message *message)
{
	size_t length;
	const char *text = ws_report_string(files->sources[message->source].report,
					    (uint32_t)message->name, &length);

	return ws_cell_text(text, length);
}

static struct ws_cell make_length_cell(const struct ws_mpi_message *message)
{
	return ws_cell_int_if(message->end != WS_NO_TIME, (int64_t)(message->end - message->start));
}

static void print_pair(struct ws_stats *stats, const struct ws_stats_files *files,
		       const struct ws_mpi_pair *pair)
{
	const struct ws_mpi_messages *messages = files->messages;
	const struct ws_mpi_message *send = pair->send, *receive = pair->receive;
	struct ws_mpi_waits waits = ws_get_mpi_waits(messages, pair);
	uint64_t shift = (uint64_t)ws_shift_mpi_time(messages, receive->source, send->source);
	size_t length;
	const char *members = ws_get_mpi_members(messages, send, &length);

	stats->row(stats, (struct ws_cell[]){
				  ws_cell_int((int64_t)(send->start - stats->zero)),
				  make_length_cell(send),
				  ws_cell_int((int64_t)(receive->start + shift - stats->zero)),
				  make_length_cell(receive),
				  ws_cell_int((int64_t)waits.late_sender),
				  ws_cell_int((int64_t)waits.late_receiver),
				  ws_cell_int(send->from),
				  ws_cell_int(send->to),
				  ws_cell_int(send->tag),
				  ws_cell_int(send->size),
				  ws_cell_text(members, length),
				  make_name_cell(files, send),
				  make_name_cell(files, receive),
			  });
}

/* Open all files, and match their messages. Where one cannot be opened, the file that rows are made
 * of stands alone. */
static void open_files(struct ws_stats_files *files)
{
	struct ws_err err;

	if (files->messages)
		return;
	files->sources = ws_calloc(files->count + 1, sizeof(*files->sources));
	for (size_t i = 0; i < files->count; i++) {
		char *path = ws_find_operand_report(files->paths[i]);
		struct ws_report *report = ws_report_open(path, &err);

		free(path);
		if (!report)
			break;
		files->sources[files->open++] = (struct ws_mpi_source){report, ws_who_open(report)};
	}
	files->messages = ws_join_mpi_messages(files->sources, files->open);
}

void ws_close_stats_files(struct ws_stats_files *files)
{
	for (size_t i = 0; i < files->open; i++) {
		ws_who_close((struct ws_names_by_id *)files->sources[i].who);
		ws_report_close((struct ws_report *)files->sources[i].report);
	}
	if (files->messages)
		ws_free_mpi_messages(files->messages);
	free(files->sources);
}

static bool is_wanted(const struct ws_stats *stats, const struct ws_mpi_messages *messages,
		      const struct ws_mpi_pair *pair)
{
	uint64_t shift =
		(uint64_t)ws_shift_mpi_time(messages, pair->receive->source, pair->send->source);

	return (pair->receive->end == WS_NO_TIME ||
		pair->receive->end + shift >= stats->time_min) &&
	       pair->send->start <= stats->time_max;
}

static int make_mpi_message_rows(struct ws_stats *stats, struct ws_err *err)
{
	struct ws_mpi_source source = {stats->report, stats->who};
	struct ws_stats_files alone = {.sources = &source}, *files = &alone;
	const struct ws_mpi_pair *pairs;
	size_t count;

	(void)err;
	if (stats->files && stats->files->count > 1)
		open_files(stats->files);
	if (stats->files && stats->files->open > stats->file)
		files = stats->files;
	else
		alone.messages = ws_join_mpi_messages(&source, 1);
	pairs = ws_get_mpi_pairs(files->messages, &count);
	for (size_t i = 0; i < count; i++)
		if ((files == &alone || pairs[i].send->source == stats->file) &&
		    is_wanted(stats, files->messages, &pairs[i]))
			print_pair(stats, files, &pairs[i]);
	if (files == &alone)
		ws_free_mpi_messages(alone.messages);
	return 0;
}

const struct ws_stats_report ws_stat_mpi_message_trace = {
	.name = "mpi_message_trace",
	.title = "MPI Message Trace",
	.about = "Each message of MPI with its send and its receive, and how long one of the two "
		 "waited for the other, where the reports have both ranks. Of several reports of "
		 "one job, each has the messages that its ranks sent.",
	.what = "MPI messages whose ranks are both in the reports",
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_mpi_message_rows,
};
