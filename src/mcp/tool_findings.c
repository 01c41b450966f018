/* tool_findings.c - the tools that say what is slow, and what the rules look for. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/print.h"
#include "mcp/tools.h"
#include "text/json_write.h"

enum { MOST_RULES = 64 };

/* Splits `list` in place. -1 with a message when a name is no rule's. */
static int split_rules(char *list, const char *names[MOST_RULES + 1], struct ws_err *err)
{
	size_t count = 0;
	char *rest = NULL;

	for (char *name = strtok_r(list, ", ", &rest); name; name = strtok_r(NULL, ", ", &rest)) {
		if (!ws_find_rule(name))
			return ws_fail(err, "there is no rule '%.100s'", name);
		if (count == MOST_RULES)
			return ws_fail(err, "more than %d rules", (int)MOST_RULES);
		names[count++] = name;
	}
	names[count] = NULL;
	return 0;
}

static int print_findings(struct ws_mcp_call *call, const struct ws_mcp_report *report,
			  const struct ws_analysis *analysis, const char *const *rules,
			  struct ws_err *err)
{
	struct ws_findings findings;
	char *text = NULL;
	size_t n = 0;
	FILE *file = open_memstream(&text, &n);

	if (!file)
		return ws_fail_errno(err, "findings");
	ws_findings_make(analysis, rules, &findings);
	ws_print_analysis_json(&(struct ws_analysis_view){
		.analysis = analysis, .findings = &findings, .path = report->path, .file = file});
	fclose(file);
	ws_text_add(call->out, text, n);
	free(text);
	ws_findings_free(&findings);
	return 0;
}

int ws_mcp_findings(struct ws_mcp_call *call, struct ws_err *err)
{
	struct ws_mcp_report *report = ws_mcp_get_report(call, 0, err);
	struct ws_model_options options = {.step_name = call->texts[2], .to = UINT64_MAX};
	const char *names[MOST_RULES + 1], *const *rules = NULL;
	struct ws_analysis *analysis;
	int rc;

	if (!report || (call->texts[1] && split_rules(call->texts[1], names, err)))
		return -1;
	if (call->texts[1])
		rules = names;
	analysis = ws_analysis_open(report->report, &options, err);
	if (!analysis)
		return -1;
	rc = print_findings(call, report, analysis, rules, err);
	ws_analysis_close(analysis);
	return rc;
}

/* Add what a report says of its ranks. */
static int add_rank(struct ws_together *together, const struct ws_mcp_report *report,
		    const struct ws_model_options *options, struct ws_err *err)
{
	struct ws_analysis *analysis = ws_analysis_open(report->report, options, err);

	if (!analysis)
		return -1;
	ws_together_add(together, analysis, report->path);
	ws_analysis_close(analysis);
	return 0;
}

int ws_mcp_ranks(struct ws_mcp_call *call, struct ws_err *err)
{
	struct ws_model_options options = {.step_name = call->texts[1], .to = UINT64_MAX};
	struct ws_together together = {0};
	char *rest = NULL;
	int rc = 0;

	for (char *id = strtok_r(call->texts[0], ", ", &rest); id && !rc;
	     id = strtok_r(NULL, ", ", &rest)) {
		const struct ws_mcp_report *report = ws_mcp_find_report(call->server, id, err);

		rc = -1;
		if (report)
			rc = add_rank(&together, report, &options, err);
	}
	if (!rc) {
		ws_together_match_messages(&together);
		if (ws_together_compare(&together))
			ws_put_together_json(&together, call->out);
		else
			rc = ws_fail(err, "these reports have no collectives or messages of "
					  "several ranks of one job");
	}
	ws_together_free(&together);
	return rc;
}

int ws_mcp_explain(struct ws_mcp_call *call, struct ws_err *err)
{
	const struct ws_rule *rule = ws_find_rule(call->texts[0]);
	struct ws_text names = {0};

	for (size_t i = 0; !rule && ws_rules[i]; i++)
		ws_text_printf(&names, " %s", ws_rules[i]->name);
	if (!rule) {
		ws_fail(err, "there is no rule '%.100s'; there are%s", call->texts[0], names.text);
		ws_text_free(&names);
		return -1;
	}
	ws_text_puts(call->out, "{");
	ws_put_json_string(call->out, "rule", rule->name);
	ws_put_json_string(call->out, "title", rule->title);
	ws_put_json_string(call->out, "about", rule->about);
	ws_text_puts(call->out, "}");
	return 0;
}
