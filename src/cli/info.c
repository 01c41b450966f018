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
#include "query/operand.h"
#include "cli/cli.h"
#include "text/text.h"
#include "query/query.h"
#include "stats/stats.h"

struct options {
	bool json, verify;
};

/* All that is shown of one report, gathered once for both forms. */
struct summary {
	const struct ws_report *report;
	struct ws_who *who;
	uint64_t zero, last;
	uint64_t lost; /* events that were recorded and are not there */
	struct ids {
		uint32_t *v;
		size_t n, cap;
	} processes, threads; /* those that have a row; ids are the file's and may be anything */
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

static void gather(const struct summary *summary, enum ws_table table, int column, struct ids *ids)
{
	struct ws_cursor *cursor = ws_cursor_open(summary->report, table, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		ws_grow(ids->v, ids->cap, ids->n + 1);
		ids->v[ids->n++] = (uint32_t)values[column];
	}
	ws_cursor_close(cursor);
}

static uint64_t lost_events(const struct ws_report *report)
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

static uint64_t thread_count(const struct summary *summary, uint32_t process)
{
	uint64_t n = 0;

	for (size_t i = 0; i < summary->threads.n; i++)
		n += ws_who_thread(summary->who, summary->threads.v[i])->process == process;
	return n;
}

/* ---- text ---- */

/* A fact or name on a terminal: untrusted. */
static void put(const char *text, size_t n)
{
	struct ws_text out = {0};

	ws_text_terminal(&out, text, n);
	fwrite(ws_text_or(out.text, ""), 1, out.len, stdout);
	ws_text_free(&out);
}

static void put_id(const struct summary *summary, uint64_t id)
{
	size_t n;
	const char *text = ws_report_string(summary->report, (uint32_t)id, &n);

	put(text, n);
}

static void put_seconds(uint64_t ns)
{
	printf("%" PRIu64 ".%06" PRIu64 " s", ns / 1000000000, ns / 1000 % 1000000);
}

static void print_file(const struct summary *summary)
{
	printf("File:       ");
	put(ws_report_path(summary->report), strlen(ws_report_path(summary->report)));
	printf(" (%" PRIu64 " bytes, ", ws_report_file_size(summary->report));
	if (!ws_report_complete(summary->report))
		printf("not closed properly or damaged");
	else
		printf(summary->lost ? "closed properly" : "complete");
	if (summary->lost)
		printf("; %" PRIu64 " event%s lost: see below", summary->lost,
		       summary->lost == 1 ? " was" : "s were");
	printf(")\n");
	printf("Time span:  ");
	put_seconds(summary->last > summary->zero ? summary->last - summary->zero : 0);
	printf("\n");
}

static void print_facts(const struct summary *summary)
{
	struct ws_cursor *cursor = ws_cursor_open(summary->report, WS_TABLE_meta, 0, UINT64_MAX);
	const uint64_t *values;

	printf("\nSession:\n");
	while (ws_cursor_next(cursor, &values)) {
		printf("  ");
		put_id(summary, values[ws_meta_name]);
		printf(" = ");
		put_id(summary, values[ws_meta_value]);
		printf("\n");
	}
	ws_cursor_close(cursor);
}

enum { PROCESSES_SHOWN = 100 };

static void print_processes(const struct summary *summary)
{
	printf("\nProcesses: %zu, threads: %zu\n", summary->processes.n, summary->threads.n);
	for (size_t i = 0; i < summary->processes.n && i < PROCESSES_SHOWN; i++) {
		const struct ws_process_info *info =
			ws_who_process(summary->who, summary->processes.v[i]);
		uint64_t threads = thread_count(summary, info->id);

		printf("  %7" PRIu32 "  ", info->pid);
		put(info->name, strlen(info->name));
		printf(", %" PRIu64 " thread%s, from ", threads, ws_plural(threads));
		put_seconds(info->start > summary->zero ? info->start - summary->zero : 0);
		if (info->end != WS_NO_TIME) {
			printf(" to ");
			put_seconds(info->end > summary->zero ? info->end - summary->zero : 0);
		}
		printf(": ");
		put(info->cmdline, strnlen(info->cmdline, 200));
		printf("\n");
	}
	if (summary->processes.n > PROCESSES_SHOWN)
		printf("  and %zu more; --json lists all\n",
		       summary->processes.n - PROCESSES_SHOWN);
}

static void print_tables(const struct summary *summary)
{
	printf("\n%-20s %14s %14s %8s\n", "Table", "Rows", "Bytes", "Blocks");
	for (int t = 0; t < WS_TABLE_COUNT; t++)
		if (ws_report_rows(summary->report, t))
			printf("%-20s %14" PRIu64 " %14" PRIu64 " %8zu\n", ws_tables[t].name,
			       ws_report_rows(summary->report, t),
			       ws_report_table_bytes(summary->report, t),
			       ws_report_blocks(summary->report, t));
	printf("%-20s %14" PRIu32 "\n", "(distinct strings)",
	       ws_report_string_count(summary->report));
}

static void print_losses(const struct summary *summary)
{
	struct ws_cursor *cursor = ws_cursor_open(summary->report, WS_TABLE_loss, 0, UINT64_MAX);
	const uint64_t *values;
	bool any = false;

	while (ws_cursor_next(cursor, &values)) {
		printf(any ? "" : "\nLost events:\n");
		any = true;
		printf("  %" PRIu64 " of ", values[ws_loss_events]);
		put_id(summary, values[ws_loss_kind]);
		if (values[ws_loss_thread])
			printf(", thread %" PRIu32,
			       ws_who_thread(summary->who, (uint32_t)values[ws_loss_thread])->tid);
		printf(": ");
		put_id(summary, values[ws_loss_reason]);
		printf("\n");
	}
	ws_cursor_close(cursor);
	if (!any)
		printf("\nLost events: none\n");
}

static const char *severity(uint64_t v)
{
	return v == WS_ERROR ? "error" : v == WS_WARNING ? "warning" : "info";
}

static void print_diagnostics(const struct summary *summary)
{
	struct ws_cursor *cursor =
		ws_cursor_open(summary->report, WS_TABLE_diagnostic, 0, UINT64_MAX);
	const uint64_t *values;
	bool any = false;

	while (ws_cursor_next(cursor, &values)) {
		printf(any ? "" : "\nDiagnostics:\n");
		any = true;
		printf("  %s: ", severity(values[ws_diagnostic_severity]));
		put_id(summary, values[ws_diagnostic_source]);
		printf(": ");
		put_id(summary, values[ws_diagnostic_text]);
		if (values[ws_diagnostic_process])
			printf(" (process %" PRIu32 ")",
			       ws_who_process(summary->who, (uint32_t)values[ws_diagnostic_process])
				       ->pid);
		printf("\n");
	}
	ws_cursor_close(cursor);
	if (!any)
		printf("Diagnostics: none\n");
}

static void print_damage(const struct summary *summary)
{
	for (size_t i = 0; i < summary->damages; i++) {
		printf(i ? "  " : "\nDamage:\n  ");
		put(summary->damage[i], strlen(summary->damage[i]));
		printf("\n");
	}
	if (!summary->damages && summary->verified)
		printf("\nEvery block checks out.\n");
}

/* ---- JSON ---- */

static void json_text(struct ws_text *text, const char *key, const char *word, size_t n)
{
	if (key)
		ws_text_printf(text, "\"%s\": ", key);
	ws_text_json(text, word, n);
}

static void json_id(const struct summary *summary, struct ws_text *out, const char *key,
		    uint64_t id)
{
	size_t n;
	const char *text = ws_report_string(summary->report, (uint32_t)id, &n);

	json_text(out, key, text, n);
}

/* Begin an element of an array or object: the separator, and a new line. */
static void item(struct ws_text *text, bool *first)
{
	ws_text_puts(text, *first ? "\n    " : ",\n    ");
	*first = false;
}

static void json_facts(const struct summary *summary, struct ws_text *text)
{
	struct ws_cursor *cursor = ws_cursor_open(summary->report, WS_TABLE_meta, 0, UINT64_MAX);
	const uint64_t *values;
	bool first = true;

	ws_text_puts(text, "  \"session\": [");
	while (ws_cursor_next(cursor, &values)) {
		item(text, &first);
		ws_text_puts(text, "{");
		json_id(summary, text, "name", values[ws_meta_name]);
		ws_text_puts(text, ", ");
		json_id(summary, text, "value", values[ws_meta_value]);
		ws_text_puts(text, "}");
	}
	ws_cursor_close(cursor);
	ws_text_puts(text, "\n  ],\n");
}

static void json_processes(const struct summary *summary, struct ws_text *text)
{
	bool first = true;

	ws_text_puts(text, "  \"processes\": [");
	for (size_t i = 0; i < summary->processes.n; i++) {
		uint32_t id = summary->processes.v[i];
		const struct ws_process_info *info = ws_who_process(summary->who, id);

		item(text, &first);
		ws_text_printf(text,
			       "{\"id\": %" PRIu32 ", \"pid\": %" PRIu32 ", \"parent\": %" PRIu32
			       ", \"start_ns\": %" PRId64,
			       id, info->pid, info->parent, (int64_t)(info->start - summary->zero));
		if (info->end != WS_NO_TIME)
			ws_text_printf(text, ", \"end_ns\": %" PRId64,
				       (int64_t)(info->end - summary->zero));
		ws_text_puts(text, ", ");
		json_text(text, "name", info->name, strlen(info->name));
		ws_text_puts(text, ", ");
		json_text(text, "exe", info->exe, strlen(info->exe));
		ws_text_puts(text, ", ");
		json_text(text, "command_line", info->cmdline, strlen(info->cmdline));
		ws_text_puts(text, "}");
	}
	first = true;
	ws_text_puts(text, "\n  ],\n  \"threads\": [");
	for (size_t i = 0; i < summary->threads.n; i++) {
		uint32_t id = summary->threads.v[i];
		const struct ws_thread_info *th = ws_who_thread(summary->who, id);

		item(text, &first);
		ws_text_printf(text,
			       "{\"id\": %" PRIu32 ", \"process\": %" PRIu32 ", \"pid\": %" PRIu32
			       ", \"tid\": %" PRIu32 ", ",
			       id, th->process, th->pid, th->tid);
		json_text(text, "name", th->name, strlen(th->name));
		ws_text_puts(text, "}");
	}
	ws_text_puts(text, "\n  ],\n");
}

static void json_tables(const struct summary *summary, struct ws_text *text)
{
	bool first = true;

	ws_text_puts(text, "  \"tables\": [");
	for (int i = 0; i < WS_TABLE_COUNT; i++) {
		item(text, &first);
		ws_text_printf(text,
			       "{\"name\": \"%s\", \"rows\": %" PRIu64 ", \"bytes\": %" PRIu64
			       ", \"blocks\": %zu}",
			       ws_tables[i].name, ws_report_rows(summary->report, i),
			       ws_report_table_bytes(summary->report, i),
			       ws_report_blocks(summary->report, i));
	}
	ws_text_printf(text, "\n  ],\n  \"strings\": %" PRIu32 ",\n",
		       ws_report_string_count(summary->report));
}

static void json_losses(const struct summary *summary, struct ws_text *text)
{
	struct ws_cursor *cursor = ws_cursor_open(summary->report, WS_TABLE_loss, 0, UINT64_MAX);
	const uint64_t *values;
	bool first = true;

	ws_text_puts(text, "  \"losses\": [");
	while (ws_cursor_next(cursor, &values)) {
		item(text, &first);
		ws_text_printf(text, "{\"events\": %" PRIu64 ", \"thread\": %" PRIu64 ", ",
			       values[ws_loss_events], values[ws_loss_thread]);
		json_id(summary, text, "kind", values[ws_loss_kind]);
		ws_text_puts(text, ", ");
		json_id(summary, text, "reason", values[ws_loss_reason]);
		ws_text_puts(text, "}");
	}
	ws_cursor_close(cursor);
	ws_text_puts(text, "\n  ],\n");
}

static void json_diagnostics(const struct summary *summary, struct ws_text *text)
{
	struct ws_cursor *cursor =
		ws_cursor_open(summary->report, WS_TABLE_diagnostic, 0, UINT64_MAX);
	const uint64_t *values;
	bool first = true;

	ws_text_puts(text, "  \"diagnostics\": [");
	while (ws_cursor_next(cursor, &values)) {
		item(text, &first);
		ws_text_printf(text,
			       "{\"time_ns\": %" PRId64
			       ", \"severity\": \"%s\", \"process\": %" PRIu64 ", ",
			       (int64_t)(values[ws_diagnostic_start] - summary->zero),
			       severity(values[ws_diagnostic_severity]),
			       values[ws_diagnostic_process]);
		json_id(summary, text, "source", values[ws_diagnostic_source]);
		ws_text_puts(text, ", ");
		json_id(summary, text, "text", values[ws_diagnostic_text]);
		ws_text_puts(text, "}");
	}
	ws_cursor_close(cursor);
	ws_text_puts(text, "\n  ],\n");
}

static void json(const struct summary *summary)
{
	struct ws_text text = {0};
	bool first = true;

	ws_text_puts(&text, "{\n  ");
	json_text(&text, "file", ws_report_path(summary->report),
		  strlen(ws_report_path(summary->report)));
	ws_text_printf(&text,
		       ",\n  \"bytes\": %" PRIu64
		       ",\n  \"complete\": %s,\n  \"closed\": %s,\n  \"lost_events\": %" PRIu64
		       ",\n  \"span_ns\": %" PRIu64 ",\n",
		       ws_report_file_size(summary->report),
		       ws_report_complete(summary->report) && !summary->lost ? "true" : "false",
		       ws_report_complete(summary->report) ? "true" : "false", summary->lost,
		       summary->last > summary->zero ? summary->last - summary->zero : 0);
	json_facts(summary, &text);
	json_processes(summary, &text);
	json_tables(summary, &text);
	json_losses(summary, &text);
	json_diagnostics(summary, &text);
	ws_text_printf(&text, "  \"verified\": %s,\n  \"damage\": [",
		       summary->verified ? "true" : "false");
	for (size_t i = 0; i < summary->damages; i++) {
		item(&text, &first);
		json_text(&text, NULL, summary->damage[i], strlen(summary->damage[i]));
	}
	ws_text_puts(&text, "\n  ]\n}\n");
	fwrite(text.text, 1, text.len, stdout);
	ws_text_free(&text);
}

/* ---- the commands ---- */

static void show(const struct summary *summary, bool as_json)
{
	if (as_json) {
		json(summary);
		return;
	}
	print_file(summary);
	print_facts(summary);
	print_processes(summary);
	print_tables(summary);
	print_losses(summary);
	print_diagnostics(summary);
	print_damage(summary);
}

static int info_run(void *values, int argc, char **argv)
{
	const struct options *options = values;
	struct summary summary = {0};
	struct ws_report *report;
	struct ws_err err;
	char *file;
	int status;

	if (argc != 1) {
		ws_say(argc ? "info: one report file at a time, but %d are given"
			    : "info: no report file is given",
		       argc);
		return WS_EXIT_USAGE;
	}
	file = ws_report_operand(argv[0]);
	report = ws_report_open(file, &err);
	free(file);
	if (!report) {
		ws_say("%s", err.msg);
		return WS_EXIT_FAIL;
	}
	summary.report = report;
	summary.who = ws_who_open(report);
	summary.zero = ws_time_zero(report);
	summary.last = ws_time_last(report);
	summary.lost = lost_events(report);
	summary.verified = options->verify;
	gather(&summary, WS_TABLE_process, ws_process_id, &summary.processes);
	gather(&summary, WS_TABLE_thread, ws_thread_id, &summary.threads);
	for (size_t i = 0; ws_report_damage(report, i); i++)
		add_damage(&summary, ws_report_damage(report, i));
	if (options->verify)
		ws_report_verify(report, add_damage, &summary);
	show(&summary, options->json);
	status = summary.damages || !ws_report_complete(report) ? WS_EXIT_FAIL : WS_EXIT_OK;
	for (size_t i = 0; i < summary.damages; i++)
		free(summary.damage[i]);
	free(summary.damage);
	free(summary.processes.v);
	free(summary.threads.v);
	ws_who_close(summary.who);
	ws_report_close(report);
	return status;
}

static const struct ws_opt info_opts[] = {
	{"json", 0, WS_OPT_FLAG, offsetof(struct options, json), NULL, NULL,
	 "As JSON, with every process and thread.", NULL},
	{"verify", 0, WS_OPT_FLAG, offsetof(struct options, verify), NULL, NULL,
	 "Read every block and check it.", NULL},
	{NULL},
};

const struct ws_command ws_cmd_info = {
	.name = "info",
	.summary = "Show what a report holds, and whether it is intact.",
	.usage = "[options] FILE",
	.details = "Shows facts about the session, processes, tables with their rows and bytes, "
		   "the time span, lost events and "
		   "diagnostics. Exits "
		   "with 1 when the report is damaged or was not closed properly; 'warpsight "
		   "recover' mends the latter. A report is "
		   "complete when "
		   "it is neither, and no events were lost.",
	.opts = info_opts,
	.opts_size = sizeof(struct options),
	.examples = "warpsight info report1.wsrep\n"
		    "warpsight info --verify report1.wsrep",
	.run = info_run,
};

struct recover_options {
	const char *output;
};

static int recover_run(void *values, int argc, char **argv)
{
	const struct recover_options *options = values;
	struct ws_err err;
	uint64_t rows;
	char *file;
	int rc;

	if (argc != 1) {
		ws_say(argc ? "recover: one report file at a time, but %d are given"
			    : "recover: no report file is given",
		       argc);
		return WS_EXIT_USAGE;
	}
	file = ws_report_operand(argv[0]);
	if (options->output && !access(options->output, F_OK)) {
		ws_say("recover: %s exists already; name another file with -o", options->output);
		free(file);
		return WS_EXIT_FAIL;
	}
	rc = ws_report_recover(file, options->output, &rows, &err);
	if (rc < 0)
		ws_say("%s", err.msg);
	else
		ws_say("wrote %s: %" PRIu64 " rows", options->output ? options->output : file,
		       rows);
	free(file);
	return rc < 0 ? WS_EXIT_FAIL : WS_EXIT_OK;
}

static const struct ws_opt recover_opts[] = {
	{"output", 'o', WS_OPT_STRING, offsetof(struct recover_options, output), "PATH", NULL,
	 "Report to write. Without it, the report itself is replaced once the new one is complete.",
	 NULL},
	{NULL},
};

const struct ws_command ws_cmd_recover = {
	.name = "recover",
	.summary = "Rewrite a report whose recorder died, with its index.",
	.usage = "[options] FILE",
	.details = "Takes in the journal beside the report and leaves out what does not check out. "
		   "Reports open without this too, only more "
		   "slowly; it refuses while a recorder still writes the report.",
	.opts = recover_opts,
	.opts_size = sizeof(struct recover_options),
	.examples = "warpsight recover report1.wsrep",
	.run = recover_run,
};
