/* cpu_sample_sum.c - CPU samples by function: the flat table of the command `report` as a summary.
 */
#include <stdlib.h>
#include <string.h>

#include "query/absent.h"
#include "stats/stats.h"
#include "stats/view.h"

static const struct ws_column columns[] = {
	{"Time", WS_KIND_PERCENT},  {"Self Time", WS_KIND_TIME},  {"Self Samples", WS_KIND_COUNT},
	{"Total", WS_KIND_PERCENT}, {"Total Time", WS_KIND_TIME}, {"Total Samples", WS_KIND_COUNT},
	{"Name", WS_KIND_TEXT},	    {"Module", WS_KIND_TEXT},
};

static const char *const args[] = {"line", "module", "python", "native", NULL};

static void print(struct ws_stats *s, const struct ws_profile *p)
{
	size_t count;
	struct ws_view_row *rows = ws_view_rows(p, 0, false, &count);

	for (size_t i = 0; i < count; i++) {
		const struct ws_cost *self = &rows[i].f->self, *total = &rows[i].f->total;
		const struct ws_unit_info *u = &p->tree.units[rows[i].f->unit];
		const char *module = ws_calltree_module(&p->tree, rows[i].f->unit);

		if (u->line)
			ws_text_printf(&rows[i].name, " %s:%u",
				       ws_report_string(s->r, u->file, NULL), u->line);
		s->row(s,
		       (struct ws_cell[]){
			       ws_view_share(self->weight, p->total.weight),
			       ws_view_time(p, self->ns), ws_cell_int((int64_t)self->count),
			       ws_view_share(total->weight, p->total.weight),
			       ws_view_time(p, total->ns), ws_cell_int((int64_t)total->count),
			       ws_cell_text(rows[i].name.s ? rows[i].name.s : "", rows[i].name.len),
			       ws_cell_text(module, strlen(module))});
	}
	ws_view_rows_free(rows, count);
}

static int run(struct ws_stats *s, struct ws_err *e)
{
	struct ws_profile_request q = {
		.kind = WS_PROFILE_ON_CPU,
		.time_min = s->time_min,
		.time_max = s->time_max,
		.unit = ws_stats_arg(s, "line")	    ? WS_UNIT_LINE
			: ws_stats_arg(s, "module") ? WS_UNIT_MODULE
						    : WS_UNIT_FUNCTION,
		.frames = ws_stats_arg(s, "python")   ? WS_FRAMES_PYTHON
			  : ws_stats_arg(s, "native") ? WS_FRAMES_NATIVE
						      : WS_FRAMES_ALL,
	};
	struct ws_profile p;
	int rc = ws_profile_make(s->r, s->who, &q, &p, e);

	s->damaged += p.damaged;
	if (!rc && p.total.count)
		print(s, &p);
	ws_profile_free(&p);
	return rc;
}

const struct ws_stat ws_stat_cpu_sample_sum = {
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
	.why = ws_why_no_samples,
	.args = args,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = run,
};
