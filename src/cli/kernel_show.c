/* kernel_show.c - see kernel_show.h. */
#include "cli/kernel_show.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/host.h"
#include "import/import.h"
#include "kernel/choose.h"
#include "kernel/explain.h"
#include "kernel/images.h"
#include "kernel/print.h"
#include "query/query.h"
#include "store/store.h"

enum { TEXT_WIDTH = 110 };

static bool is_equal(const char *text, const char *word)
{
	return text && !strcmp(text, word);
}

static struct ws_kernel_page_choice make_view(const struct ws_kernel_show *show)
{
	struct ws_kernel_page_choice view = {.csv = show->csv,
					     .json = show->json,
					     .no_rules = show->no_rules,
					     .width = TEXT_WIDTH};

	if (is_equal(show->page, "raw"))
		view.page = WS_KERNEL_RAW;
	else if (is_equal(show->page, "source"))
		view.page = WS_KERNEL_SOURCE;
	if (is_equal(show->body, "body"))
		view.body = WS_KERNEL_BODY;
	else if (is_equal(show->body, "all"))
		view.body = WS_KERNEL_ALL;
	if (is_equal(show->summary, "per-gpu"))
		view.grouping = WS_KERNEL_PER_GPU;
	else if (is_equal(show->summary, "per-kernel"))
		view.grouping = WS_KERNEL_PER_KERNEL;
	else if (is_equal(show->summary, "per-nvtx"))
		view.grouping = WS_KERNEL_PER_NVTX;
	return view;
}

/* A metric, or a form of it. */
static bool has_metric(const struct ws_kernel_results *results, const char *metric)
{
	size_t length = strlen(metric), count;
	bool found = false;

	for (size_t i = 0; i < results->count && !found; i++) {
		const char **names = ws_kernel_list_names(&results->results[i], &count);

		for (size_t k = 0; k < count && !found; k++)
			found = !strncmp(names[k], metric, length) &&
				(!names[k][length] || names[k][length] == '.');
		free(names);
	}
	return found;
}

static bool has_metrics(const struct ws_kernel_results *results, const char *metrics)
{
	char *copy = ws_strdup(metrics), *rest = copy, *metric;
	bool all = true;

	while (all && (metric = strsep(&rest, ",")))
		all = has_metric(results, metric);
	free(copy);
	return all;
}

/* Evaluate further metrics from the counters that were kept beside the report. */
static int add_metrics(struct ws_kernel_results *results, const char *path, const char *metrics,
		       struct ws_err *err)
{
	struct ws_text missing = {0};
	int rc = 0;

	if (metrics && !has_metrics(results, metrics))
		rc = ws_kernel_add_metrics(results, path, metrics, &missing, err);
	if (!rc && missing.len)
		ws_say("kernel: warning: the counters that were kept do not give these metrics: %s",
		       missing.text);
	ws_text_free(&missing);
	return rc;
}

/* The hook of every process that uses CUDA says why nothing was measured. */
static bool is_explained(const struct ws_report *report)
{
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_diagnostic, 0, UINT64_MAX);
	const uint64_t *values;
	bool explained = false;

	while (!explained && ws_cursor_next(cursor, &values)) {
		const char *source =
			ws_report_string(report, (uint32_t)values[ws_diagnostic_source], NULL);

		explained = !strcmp(ws_text_or(source, ""), "kernel");
	}
	ws_cursor_close(cursor);
	return explained;
}

static int fail_empty(const struct ws_report *report, const char *path, bool measured,
		      struct ws_err *err)
{
	if (!measured)
		return ws_fail(err,
			       "%s holds no measured kernels; 'warpsight stats -r "
			       "cuda_kern_launch_sum' shows occupancy and waves of the kernels "
			       "of a time line",
			       path);
	if (is_explained(report))
		return ws_fail(err, "%s: no kernels were measured", path);
	return ws_fail(err,
		       "%s: no kernels were measured: no process of the program has initialised "
		       "CUDA, or it was killed before it could say more",
		       path);
}

/* `measured`: this command has just made the report. */
static int show_view(const struct ws_kernel_page_choice *view, const char *path, bool measured,
		     const char *metrics, struct ws_err *err)
{
	struct ws_kernel_results results = {0};
	struct ws_report *report = ws_report_open(path, err);
	int rc;

	if (!report)
		return -1;
	ws_kernel_results_load(report, &results);
	if (results.count && add_metrics(&results, path, metrics, err))
		rc = -1;
	else if (results.count)
		rc = ws_kernel_print(&results, view, stdout, err);
	else
		rc = fail_empty(report, path, measured, err);
	ws_kernel_results_free(&results);
	ws_report_close(report);
	return rc;
}

static int show_report(const struct ws_kernel_show *show, const char *path, struct ws_err *err)
{
	struct ws_kernel_page_choice view = make_view(show);

	return show_view(&view, path, false, show->metrics, err);
}

/* ---- lists ---- */

static int list_chip_metrics(const struct ws_kernel_show *show, struct ws_text *text,
			     struct ws_err *err)
{
	struct ws_kernel_query query = {.metrics = show->metrics,
					.suffixes = is_equal(show->query_mode, "suffix"),
					.csv = show->csv};
	const struct ws_kernel_request request = {.metrics = show->metrics};
	char *list, *rest, *chip;
	size_t count;
	int rc = 0;

	if (ws_kernel_check_request(&request, err) || !ws_gpu_chips(&count, err))
		return -1;
	if (!show->chips[strspn(show->chips, ",")])
		return ws_fail(err, "--chips: '%s' names no chip", show->chips);
	if (is_equal(show->chips, "help"))
		return ws_kernel_print_chips(text, err);
	list = rest = ws_strdup(show->chips);
	ws_kernel_print_query_head(&query, text);
	while (!rc && (chip = strsep(&rest, ","))) {
		if (!*chip)
			continue;
		query.chip = chip;
		if (!show->csv)
			ws_text_printf(text, "Chip %s\n", chip);
		rc = ws_kernel_print_chip_metrics(&query, text, err);
	}
	free(list);
	return rc;
}

static int explain(const struct ws_kernel_show *show, struct ws_text *text, struct ws_err *err)
{
	enum ws_kernel_language language = is_equal(show->language, "zh") ? WS_CHINESE : WS_ENGLISH;

	if (!ws_kernel_explain(show->explain, language, text))
		return ws_fail(err, "nothing is known of a metric called %s", show->explain);
	ws_text_puts(text, "\n");
	return 0;
}

static int make_list(const struct ws_kernel_show *show, struct ws_text *text, struct ws_err *err)
{
	const struct ws_kernel_request request = {show->sets, show->sections, show->metrics};

	if (show->list_sets)
		ws_kernel_print_sets(text);
	if (show->list_sections)
		ws_kernel_print_sections(text);
	if (show->list_rules)
		ws_kernel_print_rules(text);
	if (show->list_metrics && ws_kernel_print_metrics(&request, text, err))
		return -1;
	if (show->query_metrics && list_chip_metrics(show, text, err))
		return -1;
	if (show->explain)
		return explain(show, text, err);
	return 0;
}

static bool wants_list(const struct ws_kernel_show *show)
{
	return show->list_sets || show->list_sections || show->list_rules || show->list_metrics ||
	       show->query_metrics || show->explain;
}

/* A file that cannot be read as results is no program either, if it is called like them: what is
 * wrong with it is said. */
static bool is_called_like_results(const char *path)
{
	static const char *const ends[] = {".wsrep", ".csv", ".csv.gz", ".ncu-rep"};
	size_t length = strlen(path);

	for (size_t i = 0; i < WS_COUNT(ends); i++) {
		size_t n = strlen(ends[i]);

		if (length > n && !strcmp(path + length - n, ends[i]))
			return access(path, X_OK) != 0;
	}
	return false;
}

bool ws_is_kernel_report(const char *path)
{
	struct ws_err err;
	enum ws_import_format format = ws_import_format(path, &err);

	return format == WS_FORMAT_REPORT || format == WS_FORMAT_NCU_CSV ||
	       is_called_like_results(path);
}

bool ws_wants_kernel_show(const struct ws_kernel_show *show, int argc, char **argv)
{
	if (wants_list(show) || show->import)
		return true;
	for (int i = 0; i < argc; i++)
		if (!ws_is_kernel_report(argv[i]))
			return false;
	return argc > 0;
}

int ws_run_kernel_show(const struct ws_kernel_show *show, int argc, char **argv)
{
	struct ws_text text = {0};
	struct ws_err err = {""};
	int rc = 0;

	ws_import_quiet = show->quiet;
	if (wants_list(show)) {
		rc = make_list(show, &text, &err);
		if (text.len)
			fwrite(text.text, 1, text.len, stdout);
	} else {
		if (show->import)
			rc = show_report(show, show->import, &err);
		for (int i = 0; i < argc && !rc; i++)
			rc = show_report(show, argv[i], &err);
	}
	ws_text_free(&text);
	if (!rc && fflush(stdout) && errno != EPIPE)
		rc = ws_fail_errno(&err, "cannot write to standard output");
	if (rc)
		ws_say("kernel: %s", err.msg);
	return rc ? WS_EXIT_FAIL : WS_EXIT_OK;
}

static bool asks_for_page(const struct ws_kernel_show *show)
{
	return show->page || show->summary || show->body || show->csv || show->json;
}

void ws_show_new_kernels(const struct ws_kernel_show *show, const char *report, bool brief)
{
	struct ws_err err = {""};
	struct ws_kernel_page_choice view = make_view(show);

	view.brief = brief && !asks_for_page(show);
	if (show_view(&view, report, true, NULL, &err))
		ws_say("kernel: %s", err.msg);
	fflush(stdout);
}
