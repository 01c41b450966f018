/*
 * api_kernel.c - measured kernels: the table of all, one of them, and what a launch on a time line
 * has to do with them.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "kernel/page_json.h"
#include "serve/api.h"

struct kernel_answer {
	struct ws_kernel_results results;
	struct ws_kernel_timeline *timelines;
	struct ws_kernel_view view;
};

/* Launches of the results in each report that is open. The caller holds the one that was asked
 * about. */
static void add_timelines(const struct ws_api_call *call, struct kernel_answer *answer)
{
	size_t count = ws_view_count(call->view);

	answer->timelines = ws_calloc(count, sizeof(*answer->timelines));
	for (size_t i = 0; i < count; i++) {
		struct ws_view_report *report = &call->view->reports[i];
		struct ws_kernel_timeline *timeline = &answer->timelines[i];

		timeline->report = i;
		timeline->launches =
			ws_calloc(answer->results.count + 1, sizeof(*timeline->launches));
		if (report != call->rep)
			pthread_rwlock_rdlock(&report->use);
		timeline->busy_ns = ws_count_kernel_launches(report->report, &answer->results,
							     timeline->launches);
		if (report != call->rep)
			pthread_rwlock_unlock(&report->use);
	}
	answer->view.timelines = answer->timelines;
	answer->view.timeline_count = count;
}

static void load_results(const struct ws_api_call *call, struct kernel_answer *answer)
{
	*answer = (struct kernel_answer){.view.results = &answer->results};
	ws_kernel_results_load(call->rep->report, &answer->results);
}

static void free_answer(struct kernel_answer *answer)
{
	for (size_t i = 0; i < answer->view.timeline_count; i++)
		free(answer->timelines[i].launches);
	free(answer->timelines);
	ws_kernel_results_free(&answer->results);
}

/* Answers with a summary of each kernel of a report that was measured. */
int ws_api_kernels(struct ws_api_call *call, struct ws_err *err)
{
	struct kernel_answer answer;

	(void)err;
	load_results(call, &answer);
	if (answer.results.count)
		add_timelines(call, &answer);
	ws_text_puts(call->out, "{");
	ws_put_kernel_summaries(call->out, &answer.view);
	ws_text_puts(call->out, "}");
	free_answer(&answer);
	return 0;
}

/* Answers with one result, by its number `id`: sections with figures, charts, findings, source. */
int ws_api_kernel(struct ws_api_call *call, struct ws_err *err)
{
	const struct ws_kernel_result *result;
	struct kernel_answer answer;
	int64_t id;

	if (!ws_param_int(call, "id", ws_make_range(0, UINT32_MAX, -1), &id, err))
		return 400;
	load_results(call, &answer);
	result = id < 0 ? NULL : ws_find_kernel_result(&answer.results, (uint32_t)id);
	if (result) {
		ws_text_puts(call->out, "{");
		ws_put_kernel_details(call->out, &answer.view,
				      (size_t)(result - answer.results.results));
		ws_text_puts(call->out, "}");
	} else {
		ws_fail(err, "parameter id must be the number of a measured kernel of the report");
	}
	free_answer(&answer);
	return result ? 0 : 400;
}

/* Answers with the command that measures a launch of a time line: a kernel of this `name`, launched
 * by the process `pid`, with its `correlation`. */
int ws_api_launch(struct ws_api_call *call, struct ws_err *err)
{
	struct ws_kernel_launch launch = {.name = ws_param(call, "name")};
	int64_t pid, correlation;
	char *command;

	if (!ws_param_int(call, "pid", ws_make_range(0, UINT32_MAX, 0), &pid, err) ||
	    !ws_param_int(call, "correlation", ws_make_range(0, UINT32_MAX, 0), &correlation, err))
		return 400;
	if (!launch.name || !*launch.name) {
		ws_fail(err, "parameter name must be the name of a kernel");
		return 400;
	}
	launch.pid = (uint32_t)pid;
	launch.correlation = (uint32_t)correlation;
	command = ws_write_kernel_command(call->rep->report, &launch);
	ws_text_puts(call->out, "{");
	ws_put_json_string(call->out, "command", command);
	ws_text_puts(call->out, "}");
	free(command);
	return 0;
}
