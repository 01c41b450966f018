/*
 * together_mpi.c - what MPI says of ranks whose reports are compared: their collectives, the time
 * in its calls, and the messages between the reports.
 */
#include <stdlib.h>
#include <string.h>

#include "analyze/together_private.h"
#include "base/choose.h"
#include "base/map.h"
#include "base/slots.h"
#include "query/operand.h"
#include "views/mpi_messages.h"

static uint64_t hash_communicator(const struct ws_mpi_messages *messages,
				  const struct ws_mpi_collective *collective)
{
	uint64_t hash = 2; /* other than those of NCCL */
	size_t length;
	const char *text = ws_get_mpi_communicator(messages, collective, &length);

	for (size_t i = 0; i < length; i++)
		hash = ws_hash_word(hash, (unsigned char)text[i]);
	return hash;
}

static void add_collectives(struct ws_together *together, const struct ws_model *model,
			    uint32_t process, size_t rank)
{
	struct ws_mpi_source source = {model->report, model->who};
	struct ws_mpi_messages *messages = ws_join_mpi_messages(&source, 1);
	size_t count;
	const struct ws_mpi_collective *list = ws_get_mpi_collectives(messages, &count);

	for (size_t i = 0; i < count; i++)
		if (list[i].waits && list[i].start >= model->from && list[i].end <= model->to &&
		    list[i].end >= list[i].start &&
		    ws_find_thread(model->who, list[i].thread)->process == process)
			ws_together_add_part(
				together,
				(struct ws_together_part){hash_communicator(messages, &list[i]),
							  list[i].number, rank,
							  list[i].end - list[i].start, true});
	ws_free_mpi_messages(messages);
}

/* Time that the process spent in calls of MPI, by the thread that was in them longest. */
static uint64_t measure_calls(const struct ws_model *model, uint32_t process)
{
	struct ws_cursor *cursor =
		ws_cursor_open(model->report, WS_TABLE_slice, model->from, model->to);
	struct ws_map threads = {0};
	const uint64_t *values;
	uint64_t most = 0;

	while (ws_cursor_next(cursor, &values)) {
		uint32_t thread = (uint32_t)values[ws_slice_thread];
		uint64_t start = ws_max(values[ws_slice_start], model->from),
			 end = ws_min(values[ws_slice_end], model->to), sum;

		if (end <= start || ws_find_thread(model->who, thread)->process != process ||
		    strncmp(ws_report_string(model->report, (uint32_t)values[ws_slice_category],
					     NULL),
			    "MPI_", 4) != 0)
			continue;
		sum = ws_map_get(&threads, thread, NULL) + end - start;
		ws_map_set(&threads, thread, sum);
		most = ws_max(most, sum);
	}
	ws_map_free(&threads);
	ws_cursor_close(cursor);
	return most;
}

void ws_together_add_mpi(struct ws_together *together, const struct ws_analysis *analysis,
			 size_t rank, uint32_t process)
{
	struct ws_together_rank *known = &together->ranks[rank];
	uint64_t calls = measure_calls(analysis->model, process) / analysis->steps, idle;

	if (!calls)
		return;
	known->calls_mpi = true;
	add_collectives(together, analysis->model, process, rank);
	if (analysis->model->work.gpus) {
		/* calls while the GPU works cost nothing */
		idle = known->step - ws_min(known->step, known->compute + known->exposed);
		known->exposed += ws_min(calls, idle);
		return;
	}
	known->exposed = ws_min(calls, known->step);
	known->compute = known->step - known->exposed;
}

/* The rank that a message is of; NULL where it is none of those that are compared. */
static struct ws_together_rank *find_rank(struct ws_together *together, uint32_t source,
					  int64_t rank)
{
	for (size_t i = 0; i < together->count; i++)
		if (together->ranks[i].source == source && together->ranks[i].rank == rank)
			return &together->ranks[i];
	return NULL;
}

/* What a call waited for a message longer than for those before: one call may wait for several
 * requests, and its time counts once. */
static uint64_t count_wait_once(struct ws_map *counted, const struct ws_mpi_message *message,
				uint64_t waited)
{
	uint64_t key = ws_hash_word(ws_hash_word(message->source, message->wait_thread),
				    message->wait_start),
		 before = ws_map_get(counted, key, NULL);

	if (waited <= before)
		return 0;
	ws_map_set(counted, key, waited);
	return waited - before;
}

/* The time that one side of a message waited for the other. */
static void add_waits(struct ws_together *together, const struct ws_mpi_messages *messages,
		      const struct ws_mpi_pair *pair, struct ws_map *counted)
{
	struct ws_together_rank *from = find_rank(together, pair->send->source, pair->send->from);
	struct ws_together_rank *to = find_rank(together, pair->receive->source, pair->receive->to);
	struct ws_mpi_waits waits = ws_get_mpi_waits(messages, pair);

	if (!from || !to || from == to)
		return;
	together->messages++;
	from->sent++;
	to->received++;
	to->waited_senders += count_wait_once(counted, pair->receive, waits.late_sender);
	from->waited_receivers += count_wait_once(counted, pair->send, waits.late_receiver);
}

static void match_messages(struct ws_together *together, const struct ws_mpi_source *sources)
{
	struct ws_mpi_messages *messages = ws_join_mpi_messages(sources, together->sources);
	struct ws_map counted = {0};
	size_t count;
	const struct ws_mpi_pair *pairs = ws_get_mpi_pairs(messages, &count);

	for (size_t i = 0; i < count; i++)
		add_waits(together, messages, &pairs[i], &counted);
	ws_map_free(&counted);
	ws_free_mpi_messages(messages);
}

/* Whether the reports are of one job, as far as MPI says: no rank is there twice. */
static bool is_one_job(const struct ws_together *together)
{
	for (size_t i = 0; i < together->count; i++)
		for (size_t k = 0; k < i; k++)
			if (!together->ranks[i].calls_mpi || !together->ranks[k].calls_mpi ||
			    together->ranks[i].rank == together->ranks[k].rank)
				return false;
	return together->count > 1;
}

/* Open the reports, each once. False where one cannot be opened. */
static bool open_sources(const struct ws_together *together, struct ws_mpi_source *sources)
{
	struct ws_err err;

	for (size_t i = 0; i < together->count; i++) {
		struct ws_mpi_source *source = &sources[together->ranks[i].source];
		char *path;

		if (source->report)
			continue;
		path = ws_find_operand_report(together->ranks[i].path);
		source->report = ws_report_open(path, &err);
		free(path);
		if (!source->report)
			return false;
		source->who = ws_who_open(source->report);
	}
	return true;
}

static void drop_collectives(struct ws_together *together)
{
	size_t kept = 0;

	for (size_t i = 0; i < together->part_count; i++)
		if (!together->parts[i].is_mpi)
			together->parts[kept++] = together->parts[i];
	together->part_count = kept;
}

void ws_together_match_messages(struct ws_together *together)
{
	struct ws_mpi_source *sources = ws_calloc(together->sources + 1, sizeof(*sources));

	if (!is_one_job(together))
		drop_collectives(together);
	else if (open_sources(together, sources))
		match_messages(together, sources);
	for (size_t i = 0; i < together->sources && sources[i].report; i++) {
		ws_who_close((struct ws_names_by_id *)sources[i].who);
		ws_report_close((struct ws_report *)sources[i].report);
	}
	free(sources);
}

static double as_step_ms(const struct ws_together_rank *rank, uint64_t ns)
{
	return (double)ns / 1e6 / (double)rank->steps;
}

void ws_put_together_messages(const struct ws_together *together, struct ws_text *out)
{
	if (!together->messages)
		return;
	ws_text_printf(out,
		       "\nMessages of MPI between the ranks (%llu); waiting is ms a step:\n"
		       "   rank      sent  received  waiting for senders  waiting for receivers\n",
		       (unsigned long long)together->messages);
	for (size_t i = 0; i < together->count; i++) {
		const struct ws_together_rank *rank = &together->ranks[i];
		struct ws_text number = {0};

		ws_put_together_number(rank, &number);
		ws_text_printf(out, "%7s  %8llu  %8llu  %19.3f  %21.3f\n", number.text,
			       (unsigned long long)rank->sent, (unsigned long long)rank->received,
			       as_step_ms(rank, rank->waited_senders),
			       as_step_ms(rank, rank->waited_receivers));
		ws_text_free(&number);
	}
}
