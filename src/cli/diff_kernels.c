/* diff_kernels.c - see diff_kernels.h. */
#include "cli/diff_kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "cli/cli.h"
#include "kernel/compare.h"
#include "query/operand.h"
#include "text/output_file.h"

struct sides {
	struct ws_report *reports[WS_KERNEL_SIDES];
	struct ws_kernel_results results[WS_KERNEL_SIDES];
	struct ws_kernel_pairs pairs;
};

static bool has_only_results(const char *path)
{
	char *file = ws_find_operand_report(path);
	struct ws_err err;
	struct ws_report *report = ws_report_open(file, &err);
	bool only = false;

	free(file);
	if (!report)
		return false;
	only = ws_has_kernel_results(report) &&
	       !ws_report_count_rows(report, WS_TABLE_cuda_kernel) &&
	       !ws_report_count_rows(report, WS_TABLE_cuda_api) &&
	       !ws_report_count_rows(report, WS_TABLE_nvtx);
	ws_report_close(report);
	return only;
}

bool ws_have_only_kernel_results(const char *const paths[2])
{
	return has_only_results(paths[0]) && has_only_results(paths[1]);
}

static int open_sides(const struct ws_kernel_diff *diff, struct sides *sides)
{
	for (size_t i = 0; i < WS_KERNEL_SIDES; i++) {
		sides->reports[i] = ws_open_operand_report(diff->paths[i]);
		if (!sides->reports[i])
			return -1;
		ws_kernel_results_load(sides->reports[i], &sides->results[i]);
		if (sides->results[i].count)
			continue;
		ws_say("diff: %s has no measured kernels ('warpsight kernel' measures them)",
		       diff->paths[i]);
		return -1;
	}
	return 0;
}

/* The two results of "ID:ID". */
static int choose_pair(const struct ws_kernel_diff *diff, struct sides *sides)
{
	struct ws_kernel_pair pair = {0};
	unsigned ids[WS_KERNEL_SIDES];
	char rest;

	if (sscanf(diff->which, "%u:%u%c", &ids[0], &ids[1], &rest) != WS_KERNEL_SIDES) {
		ws_say("diff: --kernels: '%s' is neither all nor two numbers of results, such as "
		       "0:3",
		       diff->which);
		return -1;
	}
	for (size_t i = 0; i < WS_KERNEL_SIDES; i++) {
		pair.sides[i] = ws_find_kernel_result(&sides->results[i], ids[i]);
		if (pair.sides[i])
			continue;
		ws_say("diff: --kernels: %s has no result %u", diff->paths[i], ids[i]);
		return -1;
	}
	sides->pairs.pairs = ws_calloc(1, sizeof(pair));
	sides->pairs.pairs[sides->pairs.count++] = pair;
	return 0;
}

static int choose_pairs(const struct ws_kernel_diff *diff, struct sides *sides)
{
	if (diff->which && strcmp(diff->which, "all") != 0)
		return choose_pair(diff, sides);
	ws_pair_kernel_results(&sides->results[0], &sides->results[1], &sides->pairs);
	if (sides->pairs.count)
		return 0;
	ws_say("diff: no kernel was measured in both reports; --kernels ID:ID compares any two "
	       "results");
	return -1;
}

static int write_pairs(const struct ws_kernel_diff *diff, const struct ws_kernel_pairs *pairs)
{
	struct ws_output_file output;
	struct ws_text text = {0};
	struct ws_err err;
	int committed;

	if (ws_open_output_file(&output, ws_text_or(diff->output, "-"), 0666, diff->overwrite,
				&err)) {
		ws_say("diff: %s", err.msg);
		return WS_EXIT_FAIL;
	}
	if (!strcmp(diff->format, "json"))
		ws_put_kernel_pairs_json(pairs, &text);
	else
		ws_print_kernel_pairs(pairs, diff->all, &text);
	fwrite(text.text, 1, text.len, output.file);
	ws_text_free(&text);
	committed = ws_commit_output(&output, &err);
	if (committed == WS_OUTPUT_PIPE_CLOSED)
		return WS_EXIT_PIPE_CLOSED;
	if (committed) {
		ws_say("diff: %s", err.msg);
		return WS_EXIT_FAIL;
	}
	return WS_EXIT_OK;
}

int ws_diff_kernels(const struct ws_kernel_diff *diff)
{
	struct sides sides = {0};
	int status = WS_EXIT_FAIL;

	if (strcmp(diff->format, "text") != 0 && strcmp(diff->format, "json") != 0) {
		ws_say("diff: measured kernels are compared as text or json, not as %s",
		       diff->format);
		return WS_EXIT_USAGE;
	}
	if (!open_sides(diff, &sides) && !choose_pairs(diff, &sides))
		status = write_pairs(diff, &sides.pairs);
	free(sides.pairs.pairs);
	for (size_t i = 0; i < WS_KERNEL_SIDES; i++) {
		ws_kernel_results_free(&sides.results[i]);
		if (sides.reports[i])
			ws_report_close(sides.reports[i]);
	}
	return status;
}
