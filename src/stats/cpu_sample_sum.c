/* cpu_sample_sum.c - CPU samples by function: the flat table of the command `report` as a summary.
 */
#include <stdlib.h>
#include <string.h>

#include "query/absent.h"
#include "base/choose.h"
#include "stats/stats.h"
#include "stats/profile_view.h"

static const struct ws_column columns[] = {
	{"Time", WS_KIND_PERCENT},  {"Self Time", WS_KIND_TIME},  {"Self Samples", WS_KIND_COUNT},
	{"Total", WS_KIND_PERCENT}, {"Total Time", WS_KIND_TIME}, {"Total Samples", WS_KIND_COUNT},
	{"Name", WS_KIND_TEXT},	    {"Module", WS_KIND_TEXT},
};

static const char *const args[] = {"line", "module", "python", "native", NULL};

static void print(struct ws_stats *stats, const struct ws_profile *profile)
{
	size_t count;
	struct ws_profile_row *rows = ws_make_profile_rows(profile, 0, false, &count);

	for (size_t i = 0; i < count && (!stats->most_rows || i < stats->most_rows); i++) {
		const struct ws_cost *self = &rows[i].flat->self, *total = &rows[i].flat->total;
		const struct ws_unit_info *unit_info = &profile->tree.units[rows[i].flat->unit];
		const char *module = ws_calltree_get_module(&profile->tree, rows[i].flat->unit);

		if (unit_info->line)
			ws_text_printf(&rows[i].name, " %s:%u",
				       ws_report_string(stats->report, unit_info->file, NULL),
				       unit_info->line);
		stats->row(stats, (struct ws_cell[]){
					  ws_make_share_cell(self->weight, profile->total.weight),
					  ws_make_profile_time_cell(profile, self->ns),
					  ws_cell_int((int64_t)self->count),
					  ws_make_share_cell(total->weight, profile->total.weight),
					  ws_make_profile_time_cell(profile, total->ns),
					  ws_cell_int((int64_t)total->count),
					  ws_cell_text(ws_text_or(rows[i].name.text, ""),
						       rows[i].name.len),
					  ws_cell_text(module, strlen(module))});
	}
	ws_free_profile_rows(rows, count);
}

static int run(struct ws_stats *stats, struct ws_err *err)
{
	struct ws_profile_request request = {
		.kind = WS_PROFILE_ON_CPU,
		.time_min = stats->time_min,
		.time_max = stats->time_max,
		.unit = ws_get_stats_arg(stats, "line")	    ? WS_UNIT_LINE
			: ws_get_stats_arg(stats, "module") ? WS_UNIT_MODULE
							    : WS_UNIT_FUNCTION,
		.frames = ws_get_stats_arg(stats, "python")   ? WS_FRAMES_PYTHON
			  : ws_get_stats_arg(stats, "native") ? WS_FRAMES_NATIVE
							      : WS_FRAMES_ALL,
	};
	struct ws_profile profile;
	int rc = ws_profile_make(stats->report, stats->who, &request, &profile, err);

	stats->damaged += profile.damaged;
	if (!rc && !ws_profile_empty(&profile))
		print(stats, &profile);
	ws_profile_free(&profile);
	return rc;
}

const struct ws_stats_report ws_stat_cpu_sample_sum = {
	.name = "cpu_sample_sum",
	.title = "CPU Samples by Function",
	.about = "CPU samples by function: Time is the share of samples taken in the function "
		 "itself, Total that of samples taken in "
		 "it or in "
		 "what it called. :line splits functions by source line, :module sums up files, "
		 ":python and :native leave out the "
		 "frames of the "
		 "other kind.",
	.what = "CPU samples",
	.explain_absence = ws_explain_no_samples,
	.args = args,
	.shows_states = true,
	.without_gpu = true,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = run,
};
