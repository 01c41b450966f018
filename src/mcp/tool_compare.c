/* tool_compare.c - the tool that says what changed between runs. */
#include <stdlib.h>
#include <string.h>

#include "compare/print.h"
#include "mcp/tools.h"

/* Adds the reports of a list such as "r1,r3" to one side. */
static int add_side(struct ws_mcp_call *call, struct ws_comparison *comparison, size_t side,
		    struct ws_err *err)
{
	char *list = ws_strdup(call->texts[side]), *rest = NULL;
	int rc = 0, added = 0;

	for (char *id = strtok_r(list, ", ", &rest); id && !rc; id = strtok_r(NULL, ", ", &rest)) {
		const struct ws_mcp_report *report = ws_mcp_find_report(call->server, id, err);

		rc = report ? ws_comparison_add(comparison, side, report->report, report->path, err)
			    : -1;
		added++;
	}
	free(list);
	if (!added)
		return ws_fail(err, "compare: no report is named");
	return rc;
}

int ws_mcp_compare(struct ws_mcp_call *call, struct ws_err *err)
{
	struct ws_comparison_options options = {.step_name = call->texts[2]};
	struct ws_comparison comparison;
	int rc = -1;

	ws_comparison_begin(&comparison, &options);
	if (!add_side(call, &comparison, 0, err) && !add_side(call, &comparison, 1, err))
		rc = ws_comparison_finish(&comparison, err);
	if (!rc)
		ws_put_comparison_json(&(struct ws_comparison_view){.comparison = &comparison,
								    .all = true},
				       (size_t)call->numbers[3], call->out);
	ws_comparison_free(&comparison);
	return rc;
}
