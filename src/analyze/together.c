/* together.c - see together.h. */
#include "analyze/together_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/print.h"
#include "base/choose.h"
#include "base/slots.h"
#include "query/query.h"
#include "text/json_write.h"

#define REPORTED_SHARE 0.03
#define USUAL_SHARE 0.1 /* by chance some rank comes last */

enum { LEAST_COLLECTIVES = 4 };

static int64_t find_rank(const struct ws_analysis *analysis, uint32_t process)
{
	struct ws_cursor *cursor =
		ws_cursor_open(analysis->model->report, WS_TABLE_rank, 0, UINT64_MAX);
	const uint64_t *values;
	int64_t rank = -1;

	while (ws_cursor_next(cursor, &values))
		if (values[ws_rank_process] == process)
			rank = (int64_t)values[ws_rank_rank];
	ws_cursor_close(cursor);
	return rank;
}

void ws_together_add_part(struct ws_together *together, struct ws_together_part part)
{
	ws_grow(together->parts, together->part_cap, together->part_count + 1);
	together->parts[together->part_count++] = part;
}

static uint64_t hash_text(const struct ws_report *report, uint64_t string, uint64_t hash)
{
	size_t length;
	const char *text = ws_report_string(report, (uint32_t)string, &length);

	for (size_t i = 0; i < length; i++)
		hash = ws_hash_word(hash, (unsigned char)text[i]);
	return hash;
}

/* A part of the present row. Collectives without a number are numbered by their operation in the
 * group, from the beginning of the report. */
static struct ws_together_part make_part(const struct ws_report *report, const uint64_t *values,
					 struct ws_map *counts)
{
	struct ws_together_part part = {.group = hash_text(report, values[ws_collective_group], 1),
					.number = values[ws_collective_sequence],
					.ns = values[ws_collective_end] -
					      values[ws_collective_start]};

	if (part.number != WS_NO_U64)
		return part;
	part.group = hash_text(report, values[ws_collective_name], part.group);
	part.number = ws_map_get(counts, part.group, NULL);
	ws_map_set(counts, part.group, part.number + 1);
	return part;
}

static void add_collectives(struct ws_together *together, const struct ws_analysis *analysis,
			    size_t rank)
{
	const struct ws_model *model = analysis->model;
	struct ws_cursor *cursor =
		ws_cursor_open(model->report, WS_TABLE_collective, 0, UINT64_MAX);
	struct ws_map counts = {0};
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		uint64_t start = values[ws_collective_start], end = values[ws_collective_end];
		struct ws_together_part part;

		if (values[ws_collective_process] != model->process)
			continue;
		part = make_part(model->report, values, &counts);
		if (start < model->from || end > model->to || end < start)
			continue;
		part.rank = rank;
		ws_together_add_part(together, part);
	}
	ws_map_free(&counts);
	ws_cursor_close(cursor);
}

static void fill_gpu_times(struct ws_together_rank *rank, const struct ws_analysis *analysis)
{
	size_t busiest = 0;

	for (size_t i = 1; i < analysis->model->work.gpus; i++)
		if (analysis->gpus[i].idle_total < analysis->gpus[busiest].idle_total)
			busiest = i;
	rank->compute = analysis->gpus[busiest].compute / analysis->steps;
	rank->exposed = analysis->gpus[busiest].exposed_comm / analysis->steps;
}

/* Add the rank that a process is, with the time of the analysis. */
static void add_rank(struct ws_together *together, const struct ws_analysis *analysis,
		     const char *path, uint32_t process)
{
	struct ws_together_rank *rank;

	ws_grow(together->ranks, together->cap, together->count + 1);
	rank = &together->ranks[together->count];
	*rank = (struct ws_together_rank){.path = ws_strdup(path),
					  .rank = find_rank(analysis, process),
					  .steps = analysis->steps,
					  .step = analysis->window / analysis->steps,
					  .source = together->sources};
	if (analysis->model->work.gpus)
		fill_gpu_times(rank, analysis);
	ws_together_add_mpi(together, analysis, together->count, process);
	if (process == analysis->model->process)
		add_collectives(together, analysis, together->count);
	together->count++;
}

/* Add the ranks of a report that call MPI. */
static void add_mpi_ranks(struct ws_together *together, const struct ws_analysis *analysis,
			  const char *path)
{
	struct ws_cursor *cursor =
		ws_cursor_open(analysis->model->report, WS_TABLE_rank, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		add_rank(together, analysis, path, (uint32_t)values[ws_rank_process]);
		if (!together->ranks[together->count - 1].calls_mpi)
			free(together->ranks[--together->count].path);
	}
	ws_cursor_close(cursor);
}

void ws_together_add(struct ws_together *together, const struct ws_analysis *analysis,
		     const char *path)
{
	size_t before = together->count;

	if (!analysis->model->work.gpus)
		add_mpi_ranks(together, analysis, path);
	if (together->count == before)
		add_rank(together, analysis, path, analysis->model->process);
	together->sources++;
}

static int compare_parts(const void *left, const void *right)
{
	const struct ws_together_part *one = left, *other = right;

	if (one->group != other->group)
		return ws_compare(one->group, other->group);
	if (one->number != other->number)
		return ws_compare(one->number, other->number);
	return ws_compare(one->rank, other->rank);
}

static bool is_same_collective(const struct ws_together_part *one,
			       const struct ws_together_part *other)
{
	return one->group == other->group && one->number == other->number;
}

/* Add up how long each rank waited in the collectives that all have. */
static void sum_waits(struct ws_together *together, uint64_t *waited)
{
	const struct ws_together_part *parts = together->parts;
	size_t end;

	for (size_t i = 0; i < together->part_count; i = end) {
		uint64_t least = parts[i].ns;

		for (end = i + 1;
		     end < together->part_count && is_same_collective(&parts[i], &parts[end]);
		     end++)
			least = ws_min(least, parts[end].ns);
		/* Each rank once: what has the same number twice cannot be told apart. */
		if (end - i != together->count ||
		    parts[end - 1].rank - parts[i].rank != end - i - 1)
			continue;
		together->collectives++;
		for (size_t k = i; k < end; k++)
			waited[parts[k].rank] += parts[k].ns - least;
	}
}

static void judge(struct ws_together *together)
{
	const struct ws_together_rank *late = &together->ranks[together->late];
	uint64_t others = 0, exposed = 0, steps = 0;

	for (size_t i = 0; i < together->count; i++)
		if (i != together->late) {
			others += together->ranks[i].waited;
			exposed += together->ranks[i].exposed;
			steps += together->ranks[i].step;
		}
	others /= together->count - 1;
	together->cost = others - ws_min(others, late->waited);
	together->cost = ws_min(together->cost, exposed / (together->count - 1));
	together->share = (double)together->cost * (double)(together->count - 1) /
			  (double)ws_max(steps, (uint64_t)1);
	if (together->collectives + together->messages >= LEAST_COLLECTIVES &&
	    together->share >= REPORTED_SHARE)
		together->level = WS_LEVEL_NOTE;
	if (together->level == WS_LEVEL_NOTE && together->share >= USUAL_SHARE)
		together->level = WS_LEVEL_WARNING;
	if (together->level == WS_LEVEL_WARNING && together->share >= WS_CRITICAL_SHARE)
		together->level = WS_LEVEL_CRITICAL;
}

bool ws_together_compare(struct ws_together *together)
{
	uint64_t *waited = ws_calloc(together->count + 1, sizeof(*waited));

	if (together->part_count)
		qsort(together->parts, together->part_count, sizeof(*together->parts),
		      compare_parts);
	if (together->count > 1)
		sum_waits(together, waited);
	for (size_t i = 0; i < together->count; i++) {
		waited[i] +=
			together->ranks[i].waited_senders + together->ranks[i].waited_receivers;
		together->ranks[i].waited = waited[i] / together->ranks[i].steps;
		if (together->ranks[i].waited < together->ranks[together->late].waited)
			together->late = i;
	}
	free(waited);
	together->level = WS_LEVEL_OK;
	if (together->collectives || together->messages)
		judge(together);
	return together->collectives || together->messages;
}

void ws_together_free(struct ws_together *together)
{
	for (size_t i = 0; i < together->count; i++)
		free(together->ranks[i].path);
	free(together->ranks);
	free(together->parts);
}

static double as_ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

void ws_put_together_number(const struct ws_together_rank *rank, struct ws_text *out)
{
	if (rank->rank >= 0)
		ws_text_printf(out, "%lld", (long long)rank->rank);
	else
		ws_text_puts(out, "-");
}

void ws_put_together_title(const struct ws_together *together, struct ws_text *text)
{
	const struct ws_together_rank *late = &together->ranks[together->late];

	if (late->rank >= 0)
		ws_text_printf(text, "Rank %lld (%s)", (long long)late->rank, late->path);
	else
		ws_text_puts(text, late->path);
	if (!together->messages) {
		ws_text_printf(text,
			       " comes last to collectives: the others wait for it in them for "
			       "%.0f %% of the time (%llu collectives)",
			       100 * together->share, (unsigned long long)together->collectives);
		return;
	}
	ws_text_printf(text,
		       " comes last to collectives and messages: the others wait for it in them "
		       "for %.0f %% of the time (%llu collectives, %llu messages)",
		       100 * together->share, (unsigned long long)together->collectives,
		       (unsigned long long)together->messages);
}

const char ws_together_advice[] =
	"Give all ranks the same work (equal batches, lengths, experts and layers), and see what "
	"slows this one down: its data, its CPU, its clocks.";

void ws_put_together_text(const struct ws_together *together, struct ws_text *out)
{
	ws_text_printf(
		out,
		"\nThe ranks together (%llu collectives that all of them have), ms a step:\n"
		"   rank      step  computing  communicating alone  waiting for ranks  report\n",
		(unsigned long long)together->collectives);
	for (size_t i = 0; i < together->count; i++) {
		const struct ws_together_rank *rank = &together->ranks[i];
		struct ws_text number = {0};

		ws_put_together_number(rank, &number);
		ws_text_printf(out, "%7s  %8.3f  %9.3f  %19.3f  %17.3f  %s\n", number.text,
			       as_ms(rank->step), as_ms(rank->compute), as_ms(rank->exposed),
			       as_ms(rank->waited), rank->path);
		ws_text_free(&number);
	}
	ws_put_together_messages(together, out);
	if (together->level == WS_LEVEL_OK)
		return;
	ws_text_printf(out, "%s: ", ws_name_level(together->level));
	ws_put_together_title(together, out);
	ws_text_printf(out, "\n   costs %.3f ms a step (%.1f %%)\n   %s\n", as_ms(together->cost),
		       100 * together->share, ws_together_advice);
}

static void put_rank(const struct ws_together_rank *rank, struct ws_text *out)
{
	ws_put_json_comma(out);
	ws_text_puts(out, "{");
	ws_put_json_string(out, "report", rank->path);
	if (rank->rank >= 0)
		ws_put_json_int(out, "rank", rank->rank);
	ws_put_json_int(out, "step_ns", (int64_t)rank->step);
	ws_put_json_int(out, "compute_ns", (int64_t)rank->compute);
	ws_put_json_int(out, "exposed_communication_ns", (int64_t)rank->exposed);
	ws_put_json_int(out, "waiting_for_ranks_ns", (int64_t)rank->waited);
	ws_put_json_int(out, "messages_sent", (int64_t)rank->sent);
	ws_put_json_int(out, "messages_received", (int64_t)rank->received);
	ws_put_json_int(out, "waiting_for_senders_ns",
			(int64_t)(rank->waited_senders / rank->steps));
	ws_put_json_int(out, "waiting_for_receivers_ns",
			(int64_t)(rank->waited_receivers / rank->steps));
	ws_text_puts(out, "}");
}

void ws_put_together_json(const struct ws_together *together, struct ws_text *out)
{
	struct ws_text title = {0};

	ws_text_puts(out, "{");
	ws_put_json_int(out, "collectives", (int64_t)together->collectives);
	ws_put_json_key(out, "ranks");
	ws_text_puts(out, "[");
	for (size_t i = 0; i < together->count; i++)
		put_rank(&together->ranks[i], out);
	ws_text_puts(out, "]");
	ws_put_json_key(out, "findings");
	ws_text_puts(out, "[");
	if (together->level != WS_LEVEL_OK) {
		ws_put_together_title(together, &title);
		ws_text_puts(out, "{");
		ws_put_json_string(out, "rule", "late-rank");
		ws_put_json_string(out, "severity", ws_name_level(together->level));
		ws_put_json_string(out, "title", title.text);
		ws_put_json_int(out, "cost_ns", (int64_t)together->cost);
		ws_put_json_string(out, "advice", ws_together_advice);
		ws_text_puts(out, "}");
	}
	ws_text_puts(out, "]}\n");
	ws_text_free(&title);
}
