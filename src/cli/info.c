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
	const struct ws_report *r;
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
	struct summary *s = ctx;

	ws_grow(s->damage, s->damage_cap, s->damages + 1);
	s->damage[s->damages++] = ws_strdup(sentence);
}

static void gather(const struct summary *s, enum ws_table t, int column, struct ids *ids)
{
	struct ws_cursor *c = ws_cursor_open(s->r, t, 0, UINT64_MAX);
	const uint64_t *v;

	while (ws_cursor_next(c, &v)) {
		ws_grow(ids->v, ids->cap, ids->n + 1);
		ids->v[ids->n++] = (uint32_t)v[column];
	}
	ws_cursor_close(c);
}

static uint64_t lost_events(const struct ws_report *r)
{
	struct ws_cursor *c = ws_cursor_open(r, WS_TABLE_loss, 0, UINT64_MAX);
	const uint64_t *v;
	uint64_t sum = 0;

	while (ws_cursor_next(c, &v))
		if (__builtin_add_overflow(sum, v[ws_loss_events], &sum))
			sum = UINT64_MAX;
	ws_cursor_close(c);
	return sum;
}

static uint64_t thread_count(const struct summary *s, uint32_t process)
{
	uint64_t n = 0;

	for (size_t i = 0; i < s->threads.n; i++)
		n += ws_who_thread(s->who, s->threads.v[i])->process == process;
	return n;
}

/* ---- text ---- */

/* A fact or name on a terminal: untrusted. */
static void put(const char *s, size_t n)
{
	struct ws_text t = {0};

	ws_text_terminal(&t, s, n);
	fwrite(t.s ? t.s : "", 1, t.len, stdout);
	ws_text_free(&t);
}

static void put_id(const struct summary *s, uint64_t id)
{
	size_t n;
	const char *text = ws_report_string(s->r, (uint32_t)id, &n);

	put(text, n);
}

static void put_seconds(uint64_t ns)
{
	printf("%" PRIu64 ".%06" PRIu64 " s", ns / 1000000000, ns / 1000 % 1000000);
}

static void print_file(const struct summary *s)
{
	printf("File:       ");
	put(ws_report_path(s->r), strlen(ws_report_path(s->r)));
	printf(" (%" PRIu64 " bytes, ", ws_report_file_size(s->r));
	if (!ws_report_complete(s->r))
		printf("not closed properly or damaged");
	else
		printf(s->lost ? "closed properly" : "complete");
	if (s->lost)
		printf("; %" PRIu64 " event%s lost: see below", s->lost,
		       s->lost == 1 ? " was" : "s were");
	printf(")\n");
	printf("Time span:  ");
	put_seconds(s->last > s->zero ? s->last - s->zero : 0);
	printf("\n");
}

static void print_facts(const struct summary *s)
{
	struct ws_cursor *c = ws_cursor_open(s->r, WS_TABLE_meta, 0, UINT64_MAX);
	const uint64_t *v;

	printf("\nSession:\n");
	while (ws_cursor_next(c, &v)) {
		printf("  ");
		put_id(s, v[ws_meta_name]);
		printf(" = ");
		put_id(s, v[ws_meta_value]);
		printf("\n");
	}
	ws_cursor_close(c);
}

enum { PROCESSES_SHOWN = 100 };

static void print_processes(const struct summary *s)
{
	printf("\nProcesses: %zu, threads: %zu\n", s->processes.n, s->threads.n);
	for (size_t i = 0; i < s->processes.n && i < PROCESSES_SHOWN; i++) {
		const struct ws_process_info *p = ws_who_process(s->who, s->processes.v[i]);
		uint64_t threads = thread_count(s, p->id);

		printf("  %7" PRIu32 "  ", p->pid);
		put(p->name, strlen(p->name));
		printf(", %" PRIu64 " thread%s, from ", threads, threads == 1 ? "" : "s");
		put_seconds(p->start > s->zero ? p->start - s->zero : 0);
		if (p->end != WS_NO_TIME) {
			printf(" to ");
			put_seconds(p->end > s->zero ? p->end - s->zero : 0);
		}
		printf(": ");
		put(p->cmdline, strnlen(p->cmdline, 200));
		printf("\n");
	}
	if (s->processes.n > PROCESSES_SHOWN)
		printf("  and %zu more; --json lists all\n", s->processes.n - PROCESSES_SHOWN);
}

static void print_tables(const struct summary *s)
{
	printf("\n%-20s %14s %14s %8s\n", "Table", "Rows", "Bytes", "Blocks");
	for (int t = 0; t < WS_TABLE_COUNT; t++)
		if (ws_report_rows(s->r, t))
			printf("%-20s %14" PRIu64 " %14" PRIu64 " %8zu\n", ws_tables[t].name,
			       ws_report_rows(s->r, t), ws_report_table_bytes(s->r, t),
			       ws_report_blocks(s->r, t));
	printf("%-20s %14" PRIu32 "\n", "(distinct strings)", ws_report_string_count(s->r));
}

static void print_losses(const struct summary *s)
{
	struct ws_cursor *c = ws_cursor_open(s->r, WS_TABLE_loss, 0, UINT64_MAX);
	const uint64_t *v;
	bool any = false;

	while (ws_cursor_next(c, &v)) {
		printf(any ? "" : "\nLost events:\n");
		any = true;
		printf("  %" PRIu64 " of ", v[ws_loss_events]);
		put_id(s, v[ws_loss_kind]);
		if (v[ws_loss_thread])
			printf(", thread %" PRIu32,
			       ws_who_thread(s->who, (uint32_t)v[ws_loss_thread])->tid);
		printf(": ");
		put_id(s, v[ws_loss_reason]);
		printf("\n");
	}
	ws_cursor_close(c);
	if (!any)
		printf("\nLost events: none\n");
}

static const char *severity(uint64_t v)
{
	return v == WS_ERROR ? "error" : v == WS_WARNING ? "warning" : "info";
}

static void print_diagnostics(const struct summary *s)
{
	struct ws_cursor *c = ws_cursor_open(s->r, WS_TABLE_diagnostic, 0, UINT64_MAX);
	const uint64_t *v;
	bool any = false;

	while (ws_cursor_next(c, &v)) {
		printf(any ? "" : "\nDiagnostics:\n");
		any = true;
		printf("  %s: ", severity(v[ws_diagnostic_severity]));
		put_id(s, v[ws_diagnostic_source]);
		printf(": ");
		put_id(s, v[ws_diagnostic_text]);
		if (v[ws_diagnostic_process])
			printf(" (process %" PRIu32 ")",
			       ws_who_process(s->who, (uint32_t)v[ws_diagnostic_process])->pid);
		printf("\n");
	}
	ws_cursor_close(c);
	if (!any)
		printf("Diagnostics: none\n");
}

static void print_damage(const struct summary *s)
{
	for (size_t i = 0; i < s->damages; i++) {
		printf(i ? "  " : "\nDamage:\n  ");
		put(s->damage[i], strlen(s->damage[i]));
		printf("\n");
	}
	if (!s->damages && s->verified)
		printf("\nEvery block checks out.\n");
}

/* ---- JSON ---- */

static void json_text(struct ws_text *t, const char *key, const char *s, size_t n)
{
	if (key)
		ws_text_printf(t, "\"%s\": ", key);
	ws_text_json(t, s, n);
}

static void json_id(const struct summary *s, struct ws_text *t, const char *key, uint64_t id)
{
	size_t n;
	const char *text = ws_report_string(s->r, (uint32_t)id, &n);

	json_text(t, key, text, n);
}

/* Begin an element of an array or object: the separator, and a new line. */
static void item(struct ws_text *t, bool *first)
{
	ws_text_puts(t, *first ? "\n    " : ",\n    ");
	*first = false;
}

static void json_facts(const struct summary *s, struct ws_text *t)
{
	struct ws_cursor *c = ws_cursor_open(s->r, WS_TABLE_meta, 0, UINT64_MAX);
	const uint64_t *v;
	bool first = true;

	ws_text_puts(t, "  \"session\": [");
	while (ws_cursor_next(c, &v)) {
		item(t, &first);
		ws_text_puts(t, "{");
		json_id(s, t, "name", v[ws_meta_name]);
		ws_text_puts(t, ", ");
		json_id(s, t, "value", v[ws_meta_value]);
		ws_text_puts(t, "}");
	}
	ws_cursor_close(c);
	ws_text_puts(t, "\n  ],\n");
}

static void json_processes(const struct summary *s, struct ws_text *t)
{
	bool first = true;

	ws_text_puts(t, "  \"processes\": [");
	for (size_t i = 0; i < s->processes.n; i++) {
		uint32_t id = s->processes.v[i];
		const struct ws_process_info *p = ws_who_process(s->who, id);

		item(t, &first);
		ws_text_printf(t,
			       "{\"id\": %" PRIu32 ", \"pid\": %" PRIu32 ", \"parent\": %" PRIu32
			       ", \"start_ns\": %" PRId64,
			       id, p->pid, p->parent, (int64_t)(p->start - s->zero));
		if (p->end != WS_NO_TIME)
			ws_text_printf(t, ", \"end_ns\": %" PRId64, (int64_t)(p->end - s->zero));
		ws_text_puts(t, ", ");
		json_text(t, "name", p->name, strlen(p->name));
		ws_text_puts(t, ", ");
		json_text(t, "exe", p->exe, strlen(p->exe));
		ws_text_puts(t, ", ");
		json_text(t, "command_line", p->cmdline, strlen(p->cmdline));
		ws_text_puts(t, "}");
	}
	first = true;
	ws_text_puts(t, "\n  ],\n  \"threads\": [");
	for (size_t i = 0; i < s->threads.n; i++) {
		uint32_t id = s->threads.v[i];
		const struct ws_thread_info *th = ws_who_thread(s->who, id);

		item(t, &first);
		ws_text_printf(t,
			       "{\"id\": %" PRIu32 ", \"process\": %" PRIu32 ", \"pid\": %" PRIu32
			       ", \"tid\": %" PRIu32 ", ",
			       id, th->process, th->pid, th->tid);
		json_text(t, "name", th->name, strlen(th->name));
		ws_text_puts(t, "}");
	}
	ws_text_puts(t, "\n  ],\n");
}

static void json_tables(const struct summary *s, struct ws_text *t)
{
	bool first = true;

	ws_text_puts(t, "  \"tables\": [");
	for (int i = 0; i < WS_TABLE_COUNT; i++) {
		item(t, &first);
		ws_text_printf(t,
			       "{\"name\": \"%s\", \"rows\": %" PRIu64 ", \"bytes\": %" PRIu64
			       ", \"blocks\": %zu}",
			       ws_tables[i].name, ws_report_rows(s->r, i),
			       ws_report_table_bytes(s->r, i), ws_report_blocks(s->r, i));
	}
	ws_text_printf(t, "\n  ],\n  \"strings\": %" PRIu32 ",\n", ws_report_string_count(s->r));
}

static void json_losses(const struct summary *s, struct ws_text *t)
{
	struct ws_cursor *c = ws_cursor_open(s->r, WS_TABLE_loss, 0, UINT64_MAX);
	const uint64_t *v;
	bool first = true;

	ws_text_puts(t, "  \"losses\": [");
	while (ws_cursor_next(c, &v)) {
		item(t, &first);
		ws_text_printf(t, "{\"events\": %" PRIu64 ", \"thread\": %" PRIu64 ", ",
			       v[ws_loss_events], v[ws_loss_thread]);
		json_id(s, t, "kind", v[ws_loss_kind]);
		ws_text_puts(t, ", ");
		json_id(s, t, "reason", v[ws_loss_reason]);
		ws_text_puts(t, "}");
	}
	ws_cursor_close(c);
	ws_text_puts(t, "\n  ],\n");
}

static void json_diagnostics(const struct summary *s, struct ws_text *t)
{
	struct ws_cursor *c = ws_cursor_open(s->r, WS_TABLE_diagnostic, 0, UINT64_MAX);
	const uint64_t *v;
	bool first = true;

	ws_text_puts(t, "  \"diagnostics\": [");
	while (ws_cursor_next(c, &v)) {
		item(t, &first);
		ws_text_printf(t,
			       "{\"time_ns\": %" PRId64
			       ", \"severity\": \"%s\", \"process\": %" PRIu64 ", ",
			       (int64_t)(v[ws_diagnostic_start] - s->zero),
			       severity(v[ws_diagnostic_severity]), v[ws_diagnostic_process]);
		json_id(s, t, "source", v[ws_diagnostic_source]);
		ws_text_puts(t, ", ");
		json_id(s, t, "text", v[ws_diagnostic_text]);
		ws_text_puts(t, "}");
	}
	ws_cursor_close(c);
	ws_text_puts(t, "\n  ],\n");
}

static void json(const struct summary *s)
{
	struct ws_text t = {0};
	bool first = true;

	ws_text_puts(&t, "{\n  ");
	json_text(&t, "file", ws_report_path(s->r), strlen(ws_report_path(s->r)));
	ws_text_printf(&t,
		       ",\n  \"bytes\": %" PRIu64
		       ",\n  \"complete\": %s,\n  \"closed\": %s,\n  \"lost_events\": %" PRIu64
		       ",\n  \"span_ns\": %" PRIu64 ",\n",
		       ws_report_file_size(s->r),
		       ws_report_complete(s->r) && !s->lost ? "true" : "false",
		       ws_report_complete(s->r) ? "true" : "false", s->lost,
		       s->last > s->zero ? s->last - s->zero : 0);
	json_facts(s, &t);
	json_processes(s, &t);
	json_tables(s, &t);
	json_losses(s, &t);
	json_diagnostics(s, &t);
	ws_text_printf(&t, "  \"verified\": %s,\n  \"damage\": [", s->verified ? "true" : "false");
	for (size_t i = 0; i < s->damages; i++) {
		item(&t, &first);
		json_text(&t, NULL, s->damage[i], strlen(s->damage[i]));
	}
	ws_text_puts(&t, "\n  ]\n}\n");
	fwrite(t.s, 1, t.len, stdout);
	ws_text_free(&t);
}

/* ---- the commands ---- */

static void show(const struct summary *s, bool as_json)
{
	if (as_json) {
		json(s);
		return;
	}
	print_file(s);
	print_facts(s);
	print_processes(s);
	print_tables(s);
	print_losses(s);
	print_diagnostics(s);
	print_damage(s);
}

static int info_run(void *values, int argc, char **argv)
{
	const struct options *o = values;
	struct summary s = {0};
	struct ws_report *r;
	struct ws_err e;
	char *file;
	int status;

	if (argc != 1) {
		ws_say(argc ? "info: one report file at a time, but %d are given"
			    : "info: no report file is given",
		       argc);
		return WS_EXIT_USAGE;
	}
	file = ws_report_operand(argv[0]);
	r = ws_report_open(file, &e);
	free(file);
	if (!r) {
		ws_say("%s", e.msg);
		return WS_EXIT_FAIL;
	}
	s.r = r;
	s.who = ws_who_open(r);
	s.zero = ws_time_zero(r);
	s.last = ws_time_last(r);
	s.lost = lost_events(r);
	s.verified = o->verify;
	gather(&s, WS_TABLE_process, ws_process_id, &s.processes);
	gather(&s, WS_TABLE_thread, ws_thread_id, &s.threads);
	for (size_t i = 0; ws_report_damage(r, i); i++)
		add_damage(&s, ws_report_damage(r, i));
	if (o->verify)
		ws_report_verify(r, add_damage, &s);
	show(&s, o->json);
	status = s.damages || !ws_report_complete(r) ? WS_EXIT_FAIL : WS_EXIT_OK;
	for (size_t i = 0; i < s.damages; i++)
		free(s.damage[i]);
	free(s.damage);
	free(s.processes.v);
	free(s.threads.v);
	ws_who_close(s.who);
	ws_report_close(r);
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
	const struct recover_options *o = values;
	struct ws_err e;
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
	if (o->output && !access(o->output, F_OK)) {
		ws_say("recover: %s exists already; name another file with -o", o->output);
		free(file);
		return WS_EXIT_FAIL;
	}
	rc = ws_report_recover(file, o->output, &rows, &e);
	if (rc < 0)
		ws_say("%s", e.msg);
	else
		ws_say("wrote %s: %" PRIu64 " rows", o->output ? o->output : file, rows);
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
