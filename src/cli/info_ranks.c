/* info_ranks.c - see info_ranks.h. */
#include "cli/info_ranks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "text/json_write.h"
#include "text/text.h"

enum { PROCESSES_NAMED = 8 };

struct rank_list {
	struct ws_row_rank *rows;
	size_t count, cap;
};

static void read_ranks(const struct ws_report *report, struct rank_list *list)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_rank, 0, UINT64_MAX);
	const uint64_t *values;

	*list = (struct rank_list){0};
	while (ws_cursor_next(cursor, &values)) {
		ws_grow(list->rows, list->cap, list->count + 1);
		list->rows[list->count++] =
			(struct ws_row_rank){.process = (uint32_t)values[ws_rank_process],
					     .rank = (uint32_t)values[ws_rank_rank],
					     .world = (uint32_t)values[ws_rank_world],
					     .local = (uint32_t)values[ws_rank_local],
					     .local_world = (uint32_t)values[ws_rank_local_world],
					     .host = (uint32_t)values[ws_rank_host],
					     .launcher = (uint32_t)values[ws_rank_launcher],
					     .gpus = (uint32_t)values[ws_rank_gpus]};
	}
	ws_cursor_close(cursor);
}

static int compare_ranks(const void *a, const void *b)
{
	const struct ws_row_rank *left = a, *right = b;

	if (left->rank != right->rank)
		return ws_compare(left->rank, right->rank);
	if (left->world != right->world)
		return ws_compare(left->world, right->world);
	if (left->launcher != right->launcher)
		return ws_compare(left->launcher, right->launcher);
	return ws_compare(left->process, right->process);
}

static bool is_same_rank(const struct ws_row_rank *left, const struct ws_row_rank *right)
{
	return left->rank == right->rank && left->world == right->world &&
	       left->launcher == right->launcher;
}

/* ---- text ---- */

/* `before` and a text of the report that a terminal can show; nothing where there is none. */
static void put_text(const struct ws_report *report, struct ws_text *out, const char *before,
		     uint32_t id)
{
	size_t length = 0;
	const char *text = id ? ws_report_string(report, id, &length) : "";

	if (!length)
		return;
	ws_text_puts(out, before);
	ws_put_terminal_text(out, text, length);
}

static void put_number(struct ws_text *out, const char *before, uint32_t number, uint32_t count)
{
	ws_text_printf(out, "%s%" PRIu32, before, number);
	if (count)
		ws_text_printf(out, " of %" PRIu32, count);
}

static void print_rank(const struct ws_report *report, const struct ws_names_by_id *who,
		       const struct ws_row_rank *rows, size_t count)
{
	struct ws_text out = {0};

	put_number(&out, "  rank ", rows->rank, rows->world);
	if (rows->local != WS_NO_U32)
		put_number(&out, ", local rank ", rows->local, rows->local_world);
	put_text(report, &out, ", on ", rows->host);
	put_text(report, &out, ", GPUs ", rows->gpus);
	put_text(report, &out, ", by ", rows->launcher);
	ws_text_printf(&out, ": process%s", count == 1 ? "" : "es");
	for (size_t i = 0; i < count && i < PROCESSES_NAMED; i++)
		ws_text_printf(&out, "%s %" PRIu32, i ? "," : "",
			       ws_find_process(who, rows[i].process)->pid);
	if (count > PROCESSES_NAMED)
		ws_text_printf(&out, " and %zu more", count - PROCESSES_NAMED);
	printf("%s\n", out.text);
	ws_text_free(&out);
}

void ws_print_ranks(const struct ws_report *report, const struct ws_names_by_id *who)
{
	struct rank_list list;

	read_ranks(report, &list);
	if (list.count) {
		qsort(list.rows, list.count, sizeof(*list.rows), compare_ranks);
		printf("\nRanks:\n");
	}
	for (size_t i = 0, end; i < list.count; i = end) {
		for (end = i + 1; end < list.count && is_same_rank(&list.rows[i], &list.rows[end]);
		     end++)
			;
		print_rank(report, who, &list.rows[i], end - i);
	}
	free(list.rows);
}

/* ---- JSON ---- */

static void add_text(const struct ws_report *report, struct ws_text *out, const char *name,
		     uint32_t id)
{
	size_t length = 0;
	const char *text = id ? ws_report_string(report, id, &length) : "";

	if (!length)
		return;
	ws_text_printf(out, ", \"%s\": ", name);
	ws_put_quoted_json(out, text, length);
}

static void add_rank(const struct ws_report *report, const struct ws_names_by_id *who,
		     const struct ws_row_rank *row, struct ws_text *text)
{
	ws_text_printf(text, "{\"process\": %" PRIu32 ", \"pid\": %" PRIu32 ", \"rank\": %" PRIu32,
		       row->process, ws_find_process(who, row->process)->pid, row->rank);
	if (row->world)
		ws_text_printf(text, ", \"world_size\": %" PRIu32, row->world);
	if (row->local != WS_NO_U32)
		ws_text_printf(text, ", \"local_rank\": %" PRIu32, row->local);
	if (row->local_world)
		ws_text_printf(text, ", \"local_world_size\": %" PRIu32, row->local_world);
	add_text(report, text, "host", row->host);
	add_text(report, text, "visible_gpus", row->gpus);
	add_text(report, text, "launcher", row->launcher);
	ws_text_puts(text, "}");
}

void ws_add_json_ranks(const struct ws_report *report, const struct ws_names_by_id *who,
		       struct ws_text *text)
{
	struct rank_list list;

	read_ranks(report, &list);
	ws_text_puts(text, "  \"ranks\": [");
	for (size_t i = 0; i < list.count; i++) {
		ws_text_puts(text, i ? ",\n    " : "\n    ");
		add_rank(report, who, &list.rows[i], text);
	}
	ws_text_puts(text, "\n  ],\n");
	free(list.rows);
}
