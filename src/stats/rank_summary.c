/* rank_summary.c - see rank_summary.h. */
#include "stats/rank_summary.h"

#include <stdlib.h>

struct ws_cell ws_make_report_text_cell(const struct ws_stats *stats, uint64_t id)
{
	size_t length;
	const char *text = ws_report_string(stats->report, (uint32_t)id, &length);

	return ws_cell_text_if(length, text, length);
}

static void print_lines(const struct ws_gpu_work *work, const struct ws_rank_summary *summary,
			struct ws_keyed_dists *durations, const void *sums)
{
	size_t words = durations->words;
	struct ws_rank_line line = {.work = work};
	struct ws_keyed_sums all;
	struct ws_summary_row *rows;

	ws_keyed_merge(durations, 1, NULL, NULL, &all);
	rows = ws_list_keyed_rows(work->stats->report, &all, summary->name, WS_NO_TAIL, &line.sum);
	for (size_t i = 0; i < all.count; i++) {
		line.summary = rows[i].summary;
		line.number = (size_t)(line.summary - all.summaries);
		line.key = all.keys + line.number * words;
		summary->print(&line, sums);
	}
	free(rows);
	ws_keyed_sums_free(&all);
}

int ws_make_rank_summary(struct ws_stats *stats, const struct ws_rank_summary *summary,
			 struct ws_keyed_dists *durations, void *sums, struct ws_err *err)
{
	struct ws_stats unsaid = *stats; /* left-out rows of other GPU work are not reported */
	struct ws_gpu_work work;
	int status = ws_gpu_work_open(&unsaid, &work, err);

	work.stats = stats;
	if (!status) {
		summary->read(stats, sums);
		print_lines(&work, summary, durations, sums);
	}
	ws_gpu_work_close(&work);
	return status;
}
