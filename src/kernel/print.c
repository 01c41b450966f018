/* print.c - chooses the page that the view asks for. */
#include <stdlib.h>
#include <string.h>

#include "kernel/print.h"

static void print_details(const struct ws_kernel_results *results,
			  const struct ws_kernel_page_choice *view, struct ws_text *text)
{
	struct ws_kernel_judgement judgement;

	ws_kernel_judge_all(results, &judgement);
	if (view->csv) {
		ws_kernel_print_details_csv(results, &judgement, view, text);
	} else {
		if (!view->no_rules)
			ws_kernel_print_summary(&judgement, text);
		for (size_t i = 0; i < judgement.count && !view->brief; i++)
			ws_kernel_print_details(results->report, &judgement.judged[i], view, text);
	}
	ws_kernel_judgement_free(&judgement);
}

static void print_json(const struct ws_kernel_results *results, struct ws_text *text)
{
	struct ws_kernel_judgement judgement;

	ws_kernel_judge_all(results, &judgement);
	ws_kernel_print_json(results->report, &judgement, text);
	ws_kernel_judgement_free(&judgement);
}

static int make_page(const struct ws_kernel_results *results,
		     const struct ws_kernel_page_choice *view, struct ws_text *text,
		     struct ws_err *err)
{
	if (view->json)
		print_json(results, text);
	else if (view->grouping)
		ws_kernel_print_groups(results, view->grouping, text);
	else if (view->page == WS_KERNEL_SOURCE)
		return ws_kernel_print_source(results, view->csv, text, err);
	else if (view->page == WS_KERNEL_DETAILS)
		print_details(results, view, text);
	else if (view->csv)
		ws_kernel_print_raw_csv(results, text);
	else
		for (size_t i = 0; i < results->count; i++)
			ws_kernel_print_raw(&results->results[i], text);
	return 0;
}

int ws_kernel_print(const struct ws_kernel_results *results,
		    const struct ws_kernel_page_choice *view, FILE *file, struct ws_err *err)
{
	struct ws_text text = {0};
	int rc = make_page(results, view, &text, err);

	if (!rc && text.len)
		fwrite(text.text, 1, text.len, file);
	ws_text_free(&text);
	return rc;
}
