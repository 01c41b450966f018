/* analyze.c - the command `analyze`: what slows a program down, what it costs, what to do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/analysis.h"
#include "analyze/finding.h"
#include "analyze/print.h"
#include "base/choose.h"
#include "cli/analyze.h"
#include "cli/cli.h"
#include "cli/expert_rules.h"
#include "cli/text.h"
#include "query/operand.h"
#include "text/output_file.h"

struct options {
	const char *step, *format, *output, *fail_on, *explain;
	struct ws_list rules, what_ifs;
	bool overwrite, list, checklist;
};

#define AT(member) offsetof(struct options, member)

static void add_rule_names(struct ws_text *out)
{
	for (size_t i = 0; ws_rules[i]; i++)
		ws_text_printf(out, "%s%s", i ? " " : "", ws_rules[i]->name);
}

static const struct ws_opt opts[] = {
	{"rule", 'r', WS_OPT_LIST, AT(rules), "RULE[,RULE...]", NULL,
	 "Apply only these rules; --list-rules names them. May be given several times.", NULL,
	 add_rule_names},
	{"format", 'f', WS_OPT_ENUM, AT(format), "FORMAT",
	 "text,json,markdown,html,sarif,column,table,csv,tsv",
	 "The form of the answer; column, table, csv and tsv are for expert rules.", "text"},
	{"output", 'o', WS_OPT_STRING, AT(output), "PATH", NULL,
	 "File to write; - is standard output (the default).", NULL},
	{"force-overwrite", 0, WS_OPT_BOOL, AT(overwrite), NULL, NULL,
	 "Replace the output file if it exists.", NULL},
	{"fail-on", 0, WS_OPT_ENUM, AT(fail_on), "SEVERITY", "note,warning,critical",
	 "End with status 1 when a finding is of this severity or above: for continuous "
	 "integration.",
	 NULL},
	{"step", 0, WS_OPT_STRING, AT(step), "NAME", NULL,
	 "NVTX ranges of this name, with or without a number behind it, are the steps. By default "
	 "the steps are annotations of a framework and ranges called step, iteration and the like; "
	 "where there are none, repetitions of a sequence of kernels.",
	 NULL},
	{"what-if", 0, WS_OPT_LIST, AT(what_ifs), "'KIND [NAME]*FACTOR'", NULL,
	 "Schedule the recorded work again and say how long a step would take if something cost "
	 "less: 'kernel gemm*0.5', 'launches*0', 'wait gpu*0', 'call cudaMalloc*0', 'range "
	 "loss*0.5', 'phase data*0', 'code decode*0', 'copies*0.3', 'gpu*0.5', 'cpu*0.8'. ' + ' "
	 "joins changes that apply together.",
	 NULL},
	{"checklist", 0, WS_OPT_BOOL, AT(checklist), NULL, NULL,
	 "Also assess the five points of a program that uses its GPUs well, and the eight "
	 "self-checks of a recording, each with a verdict, figures and where to look.",
	 NULL},
	{"explain", 0, WS_OPT_STRING, AT(explain), "RULE", NULL,
	 "Say what a rule looks for, from which threshold on, and why.", NULL, add_rule_names},
	{"list-rules", 0, WS_OPT_FLAG, AT(list), NULL, NULL, "List the rules.", NULL},
	{NULL},
};

static int explain_rule(const char *name)
{
	const struct ws_rule *rule = ws_find_rule(name);

	if (!rule && ws_explain_expert_rule(name))
		return WS_EXIT_OK;
	if (!rule) {
		ws_say("analyze: --explain: there is no rule '%s'; --list-rules names them", name);
		return WS_EXIT_USAGE;
	}
	printf("%s: %s\n\n%s\n", rule->name, rule->title, rule->about);
	return WS_EXIT_OK;
}

static int list_rules(void)
{
	for (size_t i = 0; ws_rules[i]; i++)
		printf("%-24s %s\n", ws_rules[i]->name, ws_rules[i]->title);
	ws_list_expert_rules(stdout);
	return WS_EXIT_OK;
}

/* The rules named on the command line, split at commas, ended by NULL; NULL for all. Freed by the
 * caller, with its one block of texts at the end. */
static const char **split_rules(const struct ws_list *list, char **texts, struct ws_err *err)
{
	struct ws_text joined = {0};
	const char **names;
	size_t count = 0;

	*texts = NULL;
	if (!list->count)
		return NULL;
	for (size_t i = 0; i < list->count; i++)
		ws_text_printf(&joined, "%s%s", i ? "," : "", list->values[i]);
	names = ws_calloc(joined.len + 2, sizeof(*names));
	*texts = joined.text;
	for (char *name = strtok(joined.text, ","); name; name = strtok(NULL, ",")) {
		if (!ws_find_rule(name)) {
			ws_fail(err, "--rule: there is no rule '%s'; --list-rules names them",
				name);
			free(names);
			return NULL;
		}
		names[count++] = name;
	}
	return names;
}

/* Whether each --what-if can be read: 0, or -1 with a message. */
static int check_what_ifs(const struct ws_list *questions, struct ws_err *err)
{
	int status = 0;

	for (size_t i = 0; i < questions->count && !status; i++) {
		struct ws_changes changes;

		status = ws_changes_parse(questions->values[i], &changes, err);
		ws_changes_free(&changes);
	}
	return status;
}

static enum ws_finding_level find_level(const char *name)
{
	for (int level = WS_LEVEL_NOTE; level <= WS_LEVEL_CRITICAL; level++)
		if (name && !strcmp(name, ws_name_level((enum ws_finding_level)level)))
			return (enum ws_finding_level)level;
	return WS_LEVEL_CRITICAL + 1;
}

struct request {
	const struct options *options;
	const struct ws_analysis_format *format;
	const char *const *rules;
	enum ws_finding_level fail_on;
	FILE *file;
	bool failed; /* a finding reached `fail_on` */
	struct ws_together *together;
};

struct answers {
	struct ws_what_if_answer *answers;
	size_t count;
};

/* Answer each --what-if. Returns 0, or -1 with a message. */
static int answer_what_ifs(const struct request *request, const struct ws_analysis *analysis,
			   struct answers *answers, struct ws_err *err)
{
	const struct ws_list *questions = &request->options->what_ifs;
	struct ws_graph graph;
	int status = 0;

	*answers = (struct answers){
		.answers = ws_calloc(questions->count + 1, sizeof(*answers->answers))};
	if (!questions->count)
		return 0;
	ws_graph_build(analysis->model, &graph);
	for (size_t i = 0; i < questions->count && !status; i++) {
		struct ws_what_if_answer *answer = &answers->answers[answers->count++];
		struct ws_changes changes;
		struct ws_text assumption = {0};

		answer->text = questions->values[i];
		status = ws_changes_parse(answer->text, &changes, err);
		if (!status)
			status = ws_what_if_schedule(&graph, &changes, &answer->result, err);
		ws_what_if_put_assumption(&graph, &changes, &assumption);
		answer->assumption = assumption.text;
		ws_changes_free(&changes);
	}
	ws_graph_free(&graph);
	return status;
}

static void free_answers(struct answers *answers)
{
	for (size_t i = 0; i < answers->count; i++)
		free(answers->answers[i].assumption);
	free(answers->answers);
}

/* Its answers come from all rules, whichever were asked for. */
static void make_checklist(const struct ws_analysis *analysis, struct ws_checklist *checklist)
{
	struct ws_findings all;

	ws_findings_make(analysis, NULL, &all);
	ws_checklist_make(analysis, &all, checklist);
	ws_findings_free(&all);
}

static void print_report(struct request *request, const struct ws_analysis *analysis,
			 const struct answers *answers, const char *path)
{
	struct ws_analysis_view view = {.analysis = analysis,
					.path = path,
					.what_ifs = answers->answers,
					.what_if_count = answers->count,
					.file = request->file};
	struct ws_findings findings;
	struct ws_checklist checklist;

	ws_findings_make(analysis, request->rules, &findings);
	view.findings = &findings;
	if (request->options->checklist) {
		make_checklist(analysis, &checklist);
		view.checklist = &checklist;
	}
	request->format->print(&view);
	if (view.checklist)
		ws_checklist_free(&checklist);
	for (size_t i = 0; i < findings.count; i++)
		request->failed |= findings.findings[i].level >= request->fail_on;
	ws_findings_free(&findings);
}

static int analyze_report(struct request *request, const char *path)
{
	struct ws_model_options model_options = {.step_name = request->options->step,
						 .to = UINT64_MAX};
	struct ws_report *report = ws_open_operand_report(path);
	struct ws_analysis *analysis;
	struct answers answers;
	struct ws_err err;
	int status = WS_EXIT_OK;

	if (!report)
		return WS_EXIT_FAIL;
	analysis = ws_analysis_open(report, &model_options, &err);
	if (!analysis) {
		ws_say("analyze: %s: %s", path, err.msg);
		ws_report_close(report);
		return WS_EXIT_FAIL;
	}
	if (answer_what_ifs(request, analysis, &answers, &err)) {
		ws_say("analyze: %s: %s", path, err.msg);
		status = WS_EXIT_FAIL;
	} else {
		print_report(request, analysis, &answers, path);
		ws_together_add(request->together, analysis, path);
	}
	free_answers(&answers);
	ws_analysis_close(analysis);
	ws_report_close(report);
	return status;
}

/* Reports of one rank each say more together. */
static void compare_ranks(struct request *request)
{
	ws_together_match_messages(request->together);
	if (!ws_together_compare(request->together))
		return;
	request->format->print_together(request->together, request->file);
	request->failed |= request->together->level >= request->fail_on;
}

static int analyze_all(struct request *request, int argc, char **argv)
{
	struct ws_together together = {0};
	int status = WS_EXIT_OK;
	bool first = true;

	request->together = &together;
	fputs(ws_text_or(request->format->begin, ""), request->file);
	for (int i = 0; i < argc; i++) {
		int one;

		if (!first)
			fputs(ws_text_or(request->format->between, ""), request->file);
		one = analyze_report(request, argv[i]);
		first &= one != WS_EXIT_OK;
		if (one)
			status = one;
	}
	if (!request->rules)
		compare_ranks(request);
	ws_together_free(&together);
	fputs(ws_text_or(request->format->end, ""), request->file);
	return status;
}

static int write_analysis(struct request *request, int argc, char **argv)
{
	const struct options *options = request->options;
	struct ws_output_file output;
	struct ws_err err;
	int status, committed;

	if (ws_open_output_file(&output, ws_text_or(options->output, "-"), 0666, options->overwrite,
				&err)) {
		ws_say("analyze: %s", err.msg);
		return WS_EXIT_FAIL;
	}
	request->file = output.file;
	status = analyze_all(request, argc, argv);
	committed = ws_commit_output(&output, &err);
	if (committed == WS_OUTPUT_PIPE_CLOSED)
		return WS_EXIT_PIPE_CLOSED;
	if (committed) {
		ws_say("analyze: %s", err.msg);
		return WS_EXIT_FAIL;
	}
	if (!status && request->failed)
		return WS_EXIT_FAIL;
	return status;
}

/* Expert rules are tables, in the formats that `stats` has. They come alone. */
static int make_tables(const struct options *options, int argc, char **argv)
{
	const char *format = strcmp(options->format, "text") ? options->format : NULL;
	struct ws_list specs = {0};
	char *words = NULL;
	int status = WS_EXIT_OK;

	for (size_t i = 0; i < options->rules.count; i++) {
		words = ws_strdup(options->rules.values[i]);
		for (char *word = strtok(words, ","); word; word = strtok(NULL, ",")) {
			if (!ws_is_expert_rule(word)) {
				ws_say("analyze: --rule: '%s' cannot be combined with %s, which "
				       "makes a table: ask for them one after the other",
				       word, options->rules.values[0]);
				return WS_EXIT_USAGE;
			}
			ws_grow(specs.values, specs.cap, specs.count + 1);
			specs.values[specs.count++] = word;
		}
	}
	for (int i = 0; i < argc && status == WS_EXIT_OK; i++)
		status = ws_make_expert_rules(argv[i], specs.values, specs.count, format,
					      options->output, options->overwrite);
	free(specs.values);
	free(words);
	return status;
}

static int run_analyze(void *values, int argc, char **argv)
{
	const struct options *options = values;
	struct request request = {.options = options,
				  .format = ws_find_analysis_format(options->format),
				  .fail_on = find_level(options->fail_on)};
	struct ws_err err = {""};
	char *texts;
	int status;

	if (options->explain)
		return explain_rule(options->explain);
	if (options->list)
		return list_rules();
	if (!argc) {
		ws_say("analyze: no report: warpsight analyze [options] REPORT...");
		return WS_EXIT_USAGE;
	}
	if (options->rules.count && ws_is_expert_rule(options->rules.values[0]))
		return make_tables(options, argc, argv);
	if (options->checklist && !strcmp(options->format, "sarif")) {
		ws_say("analyze: --checklist is for people and programs that read text, markdown, "
		       "html or json; sarif has no place for it");
		return WS_EXIT_USAGE;
	}
	if (!request.format) {
		ws_say("analyze: --format: %s is for expert rules, which are tables (-r gpu_gaps); "
		       "findings come as text, json, markdown, html or sarif",
		       options->format);
		return WS_EXIT_USAGE;
	}
	if (check_what_ifs(&options->what_ifs, &err)) {
		ws_say("analyze: %s", err.msg);
		return WS_EXIT_USAGE;
	}
	request.rules = split_rules(&options->rules, &texts, &err);
	if (*err.msg) {
		ws_say("analyze: %s", err.msg);
		free(texts);
		return WS_EXIT_USAGE;
	}
	status = write_analysis(&request, argc, argv);
	free((void *)request.rules);
	free(texts);
	return status;
}

/* Line by line, as all that we say in a program's standard error: what it says itself stays apart.
 */
static void say_findings(const struct ws_analysis_view *view)
{
	struct ws_analysis_view copy = *view;
	char *text = NULL, *rest;
	size_t length;

	copy.file = open_memstream(&text, &length);
	if (!copy.file)
		return;
	ws_print_analysis_text(&copy);
	fclose(copy.file);
	rest = text;
	for (char *line; (line = strsep(&rest, "\n"));)
		if (*line)
			ws_say("%s", line);
	free(text);
}

void ws_say_findings(const char *path)
{
	struct ws_model_options options = {.to = UINT64_MAX};
	struct ws_err err;
	struct ws_report *report = ws_report_open_plain(path, &err);
	struct ws_analysis *analysis = NULL;
	struct ws_findings findings;

	if (report)
		analysis = ws_analysis_open(report, &options, &err);
	if (analysis) {
		ws_findings_make(analysis, NULL, &findings);
		say_findings(&(struct ws_analysis_view){
			.analysis = analysis, .findings = &findings, .path = path, .brief = true});
		ws_findings_free(&findings);
	}
	ws_analysis_close(analysis);
	if (report)
		ws_report_close(report);
}

const struct ws_command ws_cmd_analyze = {
	.name = "analyze",
	.summary = "Say what slows a program down, what it costs and what to do.",
	.usage = "[options] REPORT...",
	.details = "Finds the steps of the program, walks the critical path through its threads "
		   "and GPUs, shows where the time went, and names what costs most, with what it "
		   "could gain and advice. Each finding is rated by the share of the time that it "
		   "could gain: critical from 25 %, warning from 5 %, else a note; ok says that "
		   "something is well done.",
	.opts = opts,
	.opts_size = sizeof(struct options),
	.examples =
		"warpsight analyze run.wsrep\n"
		"warpsight analyze --explain launch-bound\n"
		"warpsight analyze --what-if 'launches*0' --what-if 'kernel gemm*0.5' run.wsrep\n"
		"warpsight analyze -f json -o findings.json run.wsrep\n"
		"warpsight analyze --fail-on warning run.wsrep\n",
	.run = run_analyze,
};
