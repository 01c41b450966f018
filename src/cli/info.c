/*
 * info.c - the commands `info`, which shows what a report holds, and `recover`, which rewrites one
 * with its index.
 *
 * `info` exits with 1 when anything is damaged or missing, so that scripts can tell; --verify reads
 * every block to find out.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/choose.h"
#include "query/absent.h"
#include "query/operand.h"
#include "query/stack_faults.h"
#include "cli/cli.h"
#include "cli/info_ranks.h"
#include "cli/text.h"
#include "text/text.h"
#include "query/query.h"
#include "stats/stats.h"

struct options {
	bool json, verify;
};

/* Everything that is shown of one report, collected once for both forms. */
struct summary {
	const struct ws_report *report;
	struct ws_names_by_id *who;
	uint64_t zero;
	struct {
		uint64_t start, end; /* of the first and the last; equal when there is none */
		uint64_t recorded, count;
	} collections;
	struct {
		uint64_t start, end; /* both 0 when there are none */
	} events;
	uint64_t lost; /* events that were recorded but are not in the report */
	struct id_list {
		uint32_t *ids;
		size_t count, cap;
	} processes, threads; /* processes and threads that have a row; ids are the file's and may
				 be any number */
	char **damage;	      /* sentences */
	size_t damages, damage_cap;
	bool verified;
};

static void add_damage(void *ctx, const char *sentence)
{
	struct summary *summary = ctx;

	ws_grow(summary->damage, summary->damage_cap, summary->damages + 1);
	summary->damage[summary->damages++] = ws_strdup(sentence);
}

static void gather_ids(const struct summary *summary, enum ws_table table, int column,
		       struct id_list *ids)
{
	struct ws_cursor *cursor = ws_cursor_open(summary->report, table, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		ws_grow(ids->ids, ids->cap, ids->count + 1);
		ids->ids[ids->count++] = (uint32_t)values[column];
	}
	ws_cursor_close(cursor);
}

static uint64_t count_lost_events(const struct ws_report *report)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_loss, 0, UINT64_MAX);
	const uint64_t *values;
	uint64_t sum = 0;

	while (ws_cursor_next(cursor, &values))
		if (__builtin_add_overflow(sum, values[ws_loss_events], &sum))
			sum = UINT64_MAX;
	ws_cursor_close(cursor);
	return sum;
}

static uint64_t count_threads(const struct summary *summary, uint32_t process)
{
	uint64_t count = 0;

	for (size_t i = 0; i < summary->threads.count; i++)
		count += ws_find_thread(summary->who, summary->threads.ids[i])->process == process;
	return count;
}

static void add_collection(struct summary *summary, uint64_t start, uint64_t end)
{
	if (end == WS_NO_TIME) /* it was never closed: it lasts to the last event */
		end = summary->events.end;
	end = ws_max(end, start);
	if (!summary->collections.count++)
		summary->collections.start = start;
	summary->collections.end = ws_max(end, summary->collections.end);
	summary->collections.recorded += end - start;
}

/* When the report was recorded. The recorder writes a row without an end when a collection begins,
 * and another with the same start when it has ended; rows come in order of start. */
static void find_collections(struct summary *summary)
{
	struct ws_cursor *cursor =
		ws_cursor_open(summary->report, WS_TABLE_collection, 0, UINT64_MAX);
	uint64_t start = 0, end = 0;
	const uint64_t *values;
	bool any = false;

	while (ws_cursor_next(cursor, &values)) {
		bool again = any && values[ws_collection_start] == start;

		if (any && !again)
			add_collection(summary, start, end);
		start = values[ws_collection_start];
		if (!again || values[ws_collection_end] != WS_NO_TIME)
			end = values[ws_collection_end];
		any = true;
	}
	if (any)
		add_collection(summary, start, end);
	ws_cursor_close(cursor);
}

static void find_spans(struct summary *summary)
{
	if (!ws_find_event_span(summary->report, &summary->events.start, &summary->events.end))
		summary->events.start = summary->events.end = 0;
	find_collections(summary);
	if (summary->collections.count)
		return;
	summary->collections.start = summary->events.start;
	summary->collections.end = summary->events.end;
}

/* Nanoseconds from the start of the collection to `time`; 0 for times before it. */
static uint64_t ns_since_zero(const struct summary *summary, uint64_t time)
{
	return ws_max(time, summary->zero) - summary->zero;
}

/* ---- text ---- */

/* Prints a fact or name on a terminal; it is not trusted. */
static void print_text(const char *text, size_t length)
{
	struct ws_text out = {0};

	ws_put_terminal_text(&out, text, length);
	fwrite(ws_text_or(out.text, ""), 1, out.len, stdout);
	ws_text_free(&out);
}

static void print_string(const struct summary *summary, uint64_t id)
{
	size_t length;
	const char *text = ws_report_string(summary->report, (uint32_t)id, &length);

	print_text(text, length);
}

static void print_seconds(uint64_t ns)
{
	printf("%" PRIu64 ".%06" PRIu64 " s", ns / 1000000000, ns / 1000 % 1000000);
}

/* A moment in seconds from the report's zero, which may lie behind it. */
static void print_moment(const struct summary *summary, uint64_t time)
{
	if (time < summary->zero)
		printf("-");
	print_seconds(time < summary->zero ? summary->zero - time : time - summary->zero);
}

/* How long the report was recorded for, and when its events are: the latter may be a small part of
 * the former, or begin before it. */
static void print_spans(const struct summary *summary)
{
	printf("Time span:  ");
	print_seconds(summary->collections.end - summary->collections.start);
	if (summary->collections.start != summary->zero) {
		printf(", from ");
		print_moment(summary, summary->collections.start);
	}
	if (summary->collections.count > 1) {
		printf(", of which ");
		print_seconds(summary->collections.recorded);
		printf(" were recorded in %" PRIu64 " collections", summary->collections.count);
	}
	printf("\n");
	if (!summary->events.end)
		return;
	printf("Events:     from ");
	print_moment(summary, summary->events.start);
	printf(" to ");
	print_moment(summary, summary->events.end);
	printf(" (");
	print_seconds(summary->events.end - summary->events.start);
	printf(")\n");
}

static void print_file(const struct summary *summary)
{
	printf("File:       ");
	print_text(ws_report_path(summary->report), strlen(ws_report_path(summary->report)));
	printf(" (%" PRIu64 " bytes, ", ws_report_file_size(summary->report));
	if (ws_report_is_live(summary->report))
		printf("still being recorded");
	else if (!ws_report_is_complete(summary->report))
		printf("not closed properly or damaged");
	else if (summary->lost)
		printf("closed properly");
	else
		printf("complete");
	if (summary->lost == 1)
		printf("; 1 event was lost: see below");
	else if (summary->lost)
		printf("; %" PRIu64 " events were lost: see below", summary->lost);
	printf(")\n");
	print_spans(summary);
}

static void print_facts(const struct summary *summary)
{
	struct ws_cursor *cursor = ws_cursor_open(summary->report, WS_TABLE_meta, 0, UINT64_MAX);
	const uint64_t *values;

	printf("\nSession:\n");
	while (ws_cursor_next(cursor, &values)) {
		printf("  ");
		print_string(summary, values[ws_meta_name]);
		printf(" = ");
		print_string(summary, values[ws_meta_value]);
		printf("\n");
	}
	ws_cursor_close(cursor);
}

enum { PROCESSES_SHOWN = 100 };

static void print_processes(const struct summary *summary)
{
	printf("\nProcesses: %zu, threads: %zu\n", summary->processes.count,
	       summary->threads.count);
	for (size_t i = 0; i < summary->processes.count && i < PROCESSES_SHOWN; i++) {
		const struct ws_process_info *info =
			ws_find_process(summary->who, summary->processes.ids[i]);
		uint64_t threads = count_threads(summary, info->id);

		printf("  %7" PRIu32 "  ", info->pid);
		print_text(info->name, strlen(info->name));
		printf(", %" PRIu64 " thread%s, from ", threads, ws_plural(threads));
		print_seconds(ns_since_zero(summary, info->start));
		if (info->end != WS_NO_TIME) {
			printf(" to ");
			print_seconds(ns_since_zero(summary, info->end));
		}
		printf(": ");
		print_text(info->cmdline, strnlen(info->cmdline, 200));
		printf("\n");
	}
	if (summary->processes.count > PROCESSES_SHOWN)
		printf("  and %zu more; --json lists all\n",
		       summary->processes.count - PROCESSES_SHOWN);
}

static void print_tables(const struct summary *summary)
{
	printf("\n%-20s %14s %14s %8s\n", "Table", "Rows", "Bytes", "Blocks");
	for (int table = 0; table < WS_TABLE_COUNT; table++)
		if (ws_report_count_rows(summary->report, table))
			printf("%-20s %14" PRIu64 " %14" PRIu64 " %8zu\n", ws_tables[table].name,
			       ws_report_count_rows(summary->report, table),
			       ws_report_table_bytes(summary->report, table),
			       ws_report_count_blocks(summary->report, table));
	printf("%-20s %14" PRIu32 "\n", "(distinct strings)",
	       ws_report_string_count(summary->report));
}

static void print_losses(const struct summary *summary)
{
	struct ws_cursor *cursor = ws_cursor_open(summary->report, WS_TABLE_loss, 0, UINT64_MAX);
	const uint64_t *values;
	bool any = false;

	while (ws_cursor_next(cursor, &values)) {
		if (!any)
			printf("\nLost events:\n");
		any = true;
		printf("  %" PRIu64 " of ", values[ws_loss_events]);
		print_string(summary, values[ws_loss_kind]);
		if (values[ws_loss_thread])
			printf(", thread %" PRIu32,
			       ws_find_thread(summary->who, (uint32_t)values[ws_loss_thread])->tid);
		printf(": ");
		print_string(summary, values[ws_loss_reason]);
		printf("\n");
	}
	ws_cursor_close(cursor);
	if (!any)
		printf("\nLost events: none\n");
}

static const char *name_severity(uint64_t severity)
{
	if (severity == WS_ERROR)
		return "error";
	if (severity == WS_WARNING)
		return "warning";
	return "info";
}

static void print_diagnostics(const struct summary *summary)
{
	struct ws_cursor *cursor =
		ws_cursor_open(summary->report, WS_TABLE_diagnostic, 0, UINT64_MAX);
	const uint64_t *values;
	bool any = false;

	while (ws_cursor_next(cursor, &values)) {
		if (!any)
			printf("\nDiagnostics:\n");
		any = true;
		printf("  %s: ", name_severity(values[ws_diagnostic_severity]));
		print_string(summary, values[ws_diagnostic_source]);
		printf(": ");
		print_string(summary, values[ws_diagnostic_text]);
		if (values[ws_diagnostic_process])
			printf(" (process %" PRIu32 ")",
			       ws_find_process(summary->who,
					       (uint32_t)values[ws_diagnostic_process])
				       ->pid);
		printf("\n");
	}
	ws_cursor_close(cursor);
	if (!any)
		printf("Diagnostics: none\n");
}

static void print_damage(const struct summary *summary)
{
	if (summary->damages)
		printf("\nDamage:\n");
	for (size_t i = 0; i < summary->damages; i++) {
		printf("  ");
		print_text(summary->damage[i], strlen(summary->damage[i]));
		printf("\n");
	}
	if (!summary->damages && summary->verified)
		printf("\nEvery block is intact.\n");
}

/* ---- JSON ---- */

static void add_json_text(struct ws_text *text, const char *key, const char *word, size_t length)
{
	if (key)
		ws_text_printf(text, "\"%s\": ", key);
	ws_put_quoted_json(text, word, length);
}

static void add_json_string(const struct summary *summary, struct ws_text *out, const char *key,
			    uint64_t id)
{
	size_t length;
	const char *text = ws_report_string(summary->report, (uint32_t)id, &length);

	add_json_text(out, key, text, length);
}

/* Begins an element of an array or object: the separator, and a new line. */
static void begin_json_item(struct ws_text *text, bool *first)
{
	if (!*first)
		ws_text_puts(text, ",");
	ws_text_puts(text, "\n    ");
	*first = false;
}

static void add_json_facts(const struct summary *summary, struct ws_text *text)
{
	struct ws_cursor *cursor = ws_cursor_open(summary->report, WS_TABLE_meta, 0, UINT64_MAX);
	const uint64_t *values;
	bool first = true;

	ws_text_puts(text, "  \"session\": [");
	while (ws_cursor_next(cursor, &values)) {
		begin_json_item(text, &first);
		ws_text_puts(text, "{");
		add_json_string(summary, text, "name", values[ws_meta_name]);
		ws_text_puts(text, ", ");
		add_json_string(summary, text, "value", values[ws_meta_value]);
		ws_text_puts(text, "}");
	}
	ws_cursor_close(cursor);
	ws_text_puts(text, "\n  ],\n");
}

static void add_json_processes(const struct summary *summary, struct ws_text *text)
{
	bool first = true;

	ws_text_puts(text, "  \"processes\": [");
	for (size_t i = 0; i < summary->processes.count; i++) {
		uint32_t id = summary->processes.ids[i];
		const struct ws_process_info *info = ws_find_process(summary->who, id);

		begin_json_item(text, &first);
		ws_text_printf(text,
			       "{\"id\": %" PRIu32 ", \"pid\": %" PRIu32 ", \"parent\": %" PRIu32
			       ", \"start_ns\": %" PRId64,
			       id, info->pid, info->parent, (int64_t)(info->start - summary->zero));
		if (info->end != WS_NO_TIME)
			ws_text_printf(text, ", \"end_ns\": %" PRId64,
				       (int64_t)(info->end - summary->zero));
		ws_text_puts(text, ", ");
		add_json_text(text, "name", info->name, strlen(info->name));
		ws_text_puts(text, ", ");
		add_json_text(text, "exe", info->exe, strlen(info->exe));
		ws_text_puts(text, ", ");
		add_json_text(text, "command_line", info->cmdline, strlen(info->cmdline));
		ws_text_puts(text, "}");
	}
	first = true;
	ws_text_puts(text, "\n  ],\n  \"threads\": [");
	for (size_t i = 0; i < summary->threads.count; i++) {
		uint32_t id = summary->threads.ids[i];
		const struct ws_thread_info *thread = ws_find_thread(summary->who, id);

		begin_json_item(text, &first);
		ws_text_printf(text,
			       "{\"id\": %" PRIu32 ", \"process\": %" PRIu32 ", \"pid\": %" PRIu32
			       ", \"tid\": %" PRIu32 ", ",
			       id, thread->process, thread->pid, thread->tid);
		add_json_text(text, "name", thread->name, strlen(thread->name));
		ws_text_puts(text, "}");
	}
	ws_text_puts(text, "\n  ],\n");
}

static void add_json_tables(const struct summary *summary, struct ws_text *text)
{
	bool first = true;

	ws_text_puts(text, "  \"tables\": [");
	for (int table = 0; table < WS_TABLE_COUNT; table++) {
		begin_json_item(text, &first);
		ws_text_printf(text,
			       "{\"name\": \"%s\", \"rows\": %" PRIu64 ", \"bytes\": %" PRIu64
			       ", \"blocks\": %zu}",
			       ws_tables[table].name, ws_report_count_rows(summary->report, table),
			       ws_report_table_bytes(summary->report, table),
			       ws_report_count_blocks(summary->report, table));
	}
	ws_text_printf(text, "\n  ],\n  \"strings\": %" PRIu32 ",\n",
		       ws_report_string_count(summary->report));
}

/* How much of the scheduling is unknown, where records of it were lost. */
static void print_gaps(const struct summary *summary)
{
	char *text = ws_describe_sched_gaps(summary->report);

	if (text)
		printf("  %s.\n", text);
	free(text);
}

static void add_json_losses(const struct summary *summary, struct ws_text *text)
{
	struct ws_cursor *cursor = ws_cursor_open(summary->report, WS_TABLE_loss, 0, UINT64_MAX);
	const uint64_t *values;
	bool first = true;

	ws_text_puts(text, "  \"losses\": [");
	while (ws_cursor_next(cursor, &values)) {
		begin_json_item(text, &first);
		ws_text_printf(text, "{\"events\": %" PRIu64 ", \"thread\": %" PRIu64 ", ",
			       values[ws_loss_events], values[ws_loss_thread]);
		add_json_string(summary, text, "kind", values[ws_loss_kind]);
		ws_text_puts(text, ", ");
		add_json_string(summary, text, "reason", values[ws_loss_reason]);
		ws_text_puts(text, "}");
	}
	ws_cursor_close(cursor);
	ws_text_puts(text, "\n  ],\n");
}

static void find_stack_faults(const struct summary *summary, struct ws_stack_faults *faults)
{
	uint64_t damaged = 0; /* said elsewhere */
	struct ws_stacks *stacks;

	*faults = (struct ws_stack_faults){0};
	if (!ws_report_count_rows(summary->report, WS_TABLE_sample))
		return;
	stacks = ws_stacks_open(summary->report, &damaged);
	ws_find_stack_faults(summary->report, stacks, 0, UINT64_MAX, faults, NULL);
	ws_stacks_close(stacks);
}

static void print_stack_faults(const struct summary *summary)
{
	struct ws_stack_faults faults;

	find_stack_faults(summary, &faults);
	if (faults.count)
		printf("\nCall stacks:\n");
	for (size_t i = 0; i < faults.count; i++)
		printf("  %s.\n", faults.sentences[i]);
	ws_stack_faults_free(&faults);
}

static void add_json_stack_faults(const struct summary *summary, struct ws_text *text)
{
	struct ws_stack_faults faults;
	bool first = true;

	find_stack_faults(summary, &faults);
	ws_text_puts(text, "  \"call_stacks\": [");
	for (size_t i = 0; i < faults.count; i++) {
		begin_json_item(text, &first);
		add_json_text(text, NULL, faults.sentences[i], strlen(faults.sentences[i]));
	}
	ws_text_puts(text, "\n  ],\n");
	ws_stack_faults_free(&faults);
}

static void add_json_diagnostics(const struct summary *summary, struct ws_text *text)
{
	struct ws_cursor *cursor =
		ws_cursor_open(summary->report, WS_TABLE_diagnostic, 0, UINT64_MAX);
	const uint64_t *values;
	bool first = true;

	ws_text_puts(text, "  \"diagnostics\": [");
	while (ws_cursor_next(cursor, &values)) {
		begin_json_item(text, &first);
		ws_text_printf(text,
			       "{\"time_ns\": %" PRId64
			       ", \"severity\": \"%s\", \"process\": %" PRIu64 ", ",
			       (int64_t)(values[ws_diagnostic_start] - summary->zero),
			       name_severity(values[ws_diagnostic_severity]),
			       values[ws_diagnostic_process]);
		add_json_string(summary, text, "source", values[ws_diagnostic_source]);
		ws_text_puts(text, ", ");
		add_json_string(summary, text, "text", values[ws_diagnostic_text]);
		ws_text_puts(text, "}");
	}
	ws_cursor_close(cursor);
	ws_text_puts(text, "\n  ],\n");
}

static void add_json_spans(const struct summary *summary, struct ws_text *text)
{
	ws_text_printf(text, "  \"span_start_ns\": %" PRId64 ",\n  \"collections\": %" PRIu64 ",\n",
		       (int64_t)(summary->collections.start - summary->zero),
		       summary->collections.count);
	if (summary->events.end)
		ws_text_printf(text,
			       "  \"events_start_ns\": %" PRId64 ",\n  \"events_end_ns\": %" PRId64
			       ",\n",
			       (int64_t)(summary->events.start - summary->zero),
			       (int64_t)(summary->events.end - summary->zero));
}

static void print_json(const struct summary *summary)
{
	struct ws_text text = {0};
	bool first = true;

	ws_text_puts(&text, "{\n  ");
	add_json_text(&text, "file", ws_report_path(summary->report),
		      strlen(ws_report_path(summary->report)));
	ws_text_printf(&text,
		       ",\n  \"bytes\": %" PRIu64
		       ",\n  \"complete\": %s,\n  \"closed\": %s,\n  \"lost_events\": %" PRIu64
		       ",\n  \"span_ns\": %" PRIu64 ",\n",
		       ws_report_file_size(summary->report),
		       ws_json_bool(ws_report_is_complete(summary->report) && !summary->lost),
		       ws_json_bool(ws_report_is_complete(summary->report)), summary->lost,
		       summary->collections.end - summary->collections.start);
	add_json_spans(summary, &text);
	add_json_facts(summary, &text);
	ws_add_json_ranks(summary->report, summary->who, &text);
	add_json_processes(summary, &text);
	add_json_tables(summary, &text);
	add_json_losses(summary, &text);
	add_json_diagnostics(summary, &text);
	add_json_stack_faults(summary, &text);
	ws_text_printf(&text, "  \"verified\": %s,\n  \"damage\": [",
		       ws_json_bool(summary->verified));
	for (size_t i = 0; i < summary->damages; i++) {
		begin_json_item(&text, &first);
		add_json_text(&text, NULL, summary->damage[i], strlen(summary->damage[i]));
	}
	ws_text_puts(&text, "\n  ]\n}\n");
	fwrite(text.text, 1, text.len, stdout);
	ws_text_free(&text);
}

/* ---- the commands ---- */

static void print_summary(const struct summary *summary, bool as_json)
{
	if (as_json) {
		print_json(summary);
		return;
	}
	print_file(summary);
	print_facts(summary);
	ws_print_ranks(summary->report, summary->who);
	print_processes(summary);
	print_tables(summary);
	print_losses(summary);
	print_gaps(summary);
	print_diagnostics(summary);
	print_stack_faults(summary);
	print_damage(summary);
}

static int run_info(void *values, int argc, char **argv)
{
	const struct options *options = values;
	struct summary summary = {0};
	struct ws_report *report;
	struct ws_err err;
	char *file;
	int status;

	if (!ws_check_one_report("info", argc))
		return WS_EXIT_USAGE;
	file = ws_find_operand_report(argv[0]);
	report = ws_report_open(file, &err);
	free(file);
	if (!report) {
		ws_say("%s", err.msg);
		return WS_EXIT_FAIL;
	}
	summary.report = report;
	summary.who = ws_who_open(report);
	summary.zero = ws_find_time_zero(report);
	find_spans(&summary);
	summary.lost = count_lost_events(report);
	summary.verified = options->verify;
	gather_ids(&summary, WS_TABLE_process, ws_process_id, &summary.processes);
	gather_ids(&summary, WS_TABLE_thread, ws_thread_id, &summary.threads);
	for (size_t i = 0; ws_report_get_damage(report, i); i++)
		add_damage(&summary, ws_report_get_damage(report, i));
	if (options->verify)
		ws_report_verify(report, add_damage, &summary);
	print_summary(&summary, options->json);
	status = ws_exit_status(summary.damages || !ws_report_is_complete(report));
	for (size_t i = 0; i < summary.damages; i++)
		free(summary.damage[i]);
	free(summary.damage);
	free(summary.processes.ids);
	free(summary.threads.ids);
	ws_who_close(summary.who);
	ws_report_close(report);
	return status;
}

static const struct ws_opt info_opts[] = {
	{"json", 0, WS_OPT_FLAG, offsetof(struct options, json), NULL, NULL,
	 "Print JSON, with every process and thread.", NULL},
	{"verify", 0, WS_OPT_FLAG, offsetof(struct options, verify), NULL, NULL,
	 "Read every block and check it.", NULL},
	{NULL},
};

const struct ws_command ws_cmd_info = {
	.name = "info",
	.summary = "Show what a report holds, and whether it is intact.",
	.usage = "[options] FILE",
	.details = "Shows facts about the session, processes, tables with their rows and bytes, "
		   "how long the recording lasted, when its events happened, lost events and "
		   "diagnostics. Exits with 1 when the report is damaged or was not closed "
		   "properly; 'warpsight recover' repairs the latter. A report is complete when it "
		   "is neither, and no events were lost.",
	.opts = info_opts,
	.opts_size = sizeof(struct options),
	.examples = "warpsight info report1.wsrep\n"
		    "warpsight info --verify report1.wsrep",
	.run = run_info,
};

struct recover_options {
	const char *output;
};

static int run_recover(void *values, int argc, char **argv)
{
	const struct recover_options *options = values;
	struct ws_err err;
	uint64_t rows;
	char *file;
	int rc;

	if (!ws_check_one_report("recover", argc))
		return WS_EXIT_USAGE;
	file = ws_find_operand_report(argv[0]);
	if (options->output && !access(options->output, F_OK)) {
		ws_say("recover: %s exists already; name another file with -o", options->output);
		free(file);
		return WS_EXIT_FAIL;
	}
	rc = ws_report_recover(file, options->output, &rows, &err);
	if (rc < 0)
		ws_say("%s", err.msg);
	else
		ws_say("wrote %s: %" PRIu64 " rows", ws_text_or(options->output, file), rows);
	free(file);
	return ws_exit_status(rc);
}

static const struct ws_opt recover_opts[] = {
	{"output", 'o', WS_OPT_STRING, offsetof(struct recover_options, output), "PATH", NULL,
	 "Report to write. By default the report itself is replaced once the new one is complete.",
	 NULL},
	{NULL},
};

const struct ws_command ws_cmd_recover = {
	.name = "recover",
	.summary = "Rewrite a report whose recorder died, with its index.",
	.usage = "[options] FILE",
	.details = "Adds what the journal beside the report holds and leaves out what is damaged. "
		   "Reports can be opened without this too, only more slowly. A report that is "
		   "still being recorded is refused.",
	.opts = recover_opts,
	.opts_size = sizeof(struct recover_options),
	.examples = "warpsight recover report1.wsrep",
	.run = run_recover,
};
