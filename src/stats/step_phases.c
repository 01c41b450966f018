/*
 * step_phases.c - what the steps of a training loop consist of: the ranges directly inside of them,
 * and what none of these covers.
 *
 * Ranges and steps of a thread are walked together in order of start (outer first); a range counts
 * when it lies in a step and in no other range within that step. Where steps are a framework's
 * annotations, so are the phases.
 */
#include <stdlib.h>
#include <string.h>

#include "query/steps.h"
#include "stats/keyed.h"
#include "stats/std8.h"

static const struct ws_column columns[] = {WS_STD8("Instances"), {"Phase", WS_KIND_TEXT}};

static const char rest_name[] = "[rest of the step]";

struct phases {
	struct ws_stats *s;
	struct ws_steps steps;
	struct ws_keyed times; /* by string key + 1; 0 is the rest */
	uint64_t *covered;     /* by step: what its phases took */
};

static int by_thread(const void *a, const void *b)
{
	const struct ws_step *x = a, *y = b;

	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return x->start < y->start ? -1 : x->start > y->start;
}

static bool counts(const struct phases *p, const struct ws_step *step)
{
	return step->end >= p->s->time_min && step->start <= p->s->time_max;
}

static void add(struct phases *p, uint64_t key, uint64_t ns)
{
	ws_dist_add(ws_keyed_get(&p->times, &key), ns);
}

struct source {
	enum ws_table table;
	int start, end, thread, name, type;
	uint64_t type_is, or_is;
};

static const struct source sources[] = {
	{WS_TABLE_op, ws_op_start, ws_op_end, ws_op_thread, ws_op_name, ws_op_kind,
	 WS_OP_ANNOTATION, WS_OP_ANNOTATION},
	{WS_TABLE_nvtx, ws_nvtx_start, ws_nvtx_end, ws_nvtx_thread, ws_nvtx_text, ws_nvtx_type,
	 WS_NVTX_PUSHPOP, WS_NVTX_STARTEND},
};

/* Rows of one table: spans by (thread, start, longer first). Returns how many counted. */
static size_t walk(struct phases *p, const struct source *k, const struct ws_rows *rows)
{
	uint64_t *const *col = rows->col, inside = 0; /* the end of the phase that we are in */
	size_t step = 0, n = 0;

	for (size_t i = 0; i < rows->rows; i++) {
		uint64_t thread = col[k->thread][i], start = col[k->start][i], end = col[k->end][i];
		const struct ws_step *s;

		if ((col[k->type][i] != k->type_is && col[k->type][i] != k->or_is) ||
		    end == WS_NO_TIME || end < start)
			continue;
		while (step < p->steps.n &&
		       (p->steps.v[step].thread < thread ||
			(p->steps.v[step].thread == thread && p->steps.v[step].end <= start))) {
			step++;
			inside = 0;
		}
		s = &p->steps.v[step];
		if (step == p->steps.n || s->thread != thread || start < s->start || end > s->end ||
		    start < inside || !counts(p, s) || (start == s->start && end == s->end))
			continue;
		inside = end;
		add(p, (uint64_t)ws_report_string_key(p->s->r, (uint32_t)col[k->name][i]) + 1,
		    end - start);
		p->covered[step] += end - start;
		n++;
	}
	return n;
}

static int read_phases(struct phases *p, struct ws_err *e)
{
	for (size_t i = 0; i < WS_COUNT(sources); i++) {
		const struct source *k = &sources[i];
		struct ws_scan sc = {.table = k->table,
				     .columns = UINT64_C(1) << k->start | UINT64_C(1) << k->end |
						UINT64_C(1) << k->thread | UINT64_C(1) << k->name |
						UINT64_C(1) << k->type,
				     .time_max = UINT64_MAX};
		struct ws_rows rows;
		size_t n;

		if (ws_rows_load(p->s->r, &sc, &rows, e) < 0)
			return -1;
		p->s->damaged += rows.damaged;
		n = walk(p, k, &rows);
		ws_rows_free(&rows);
		if (n)
			break;
	}
	return 0;
}

static void print(struct phases *p)
{
	struct ws_keyed_sums sums;
	struct ws_std8_line *lines;

	for (size_t i = 0; i < p->steps.n; i++) {
		uint64_t took = p->steps.v[i].end - p->steps.v[i].start;

		if (counts(p, &p->steps.v[i]))
			add(p, 0, took - p->covered[i]);
	}
	ws_keyed_merge(&p->times, 1, NULL, NULL, &sums);
	lines = ws_calloc(sums.n + 1, sizeof(*lines));
	for (size_t i = 0; i < sums.n; i++) {
		lines[i].s = &sums.s[i];
		lines[i].name = rest_name;
		lines[i].name_len = strlen(rest_name);
		if (sums.keys[i])
			lines[i].name = ws_report_string(p->s->r, (uint32_t)(sums.keys[i] - 1),
							 &lines[i].name_len);
	}
	ws_std8_print(p->s, lines, sums.n);
	free(lines);
	ws_keyed_sums_free(&sums);
}

static int run(struct ws_stats *s, struct ws_err *e)
{
	const char *name = ws_stats_arg(s, "step=*");
	char *wanted = name ? ws_strndup(name, strcspn(name, ":")) : NULL;
	struct phases p = {.s = s, .times = {.words = 1, .per = 1}};
	int rc = ws_steps_load(s->r, s->who, wanted, &p.steps, e);

	free(wanted);
	s->damaged += p.steps.damaged;
	if (p.steps.n)
		qsort(p.steps.v, p.steps.n, sizeof(*p.steps.v), by_thread);
	p.covered = ws_calloc(p.steps.n + 1, sizeof(*p.covered));
	if (!rc && p.steps.n)
		rc = read_phases(&p, e);
	if (!rc && p.steps.n)
		print(&p);
	ws_steps_free(&p.steps);
	free(p.covered);
	return rc;
}

static const char *const args[] = {"step=*", NULL};

const struct ws_stat ws_stat_step_phases = {
	.name = "step_phases",
	.title = "Phases of Training Steps",
	.about = "The ranges directly inside of steps, by name, with their share of the steps' "
		 "time on the CPU, and what no range "
		 "covers. Steps are "
		 "annotations ProfilerStep#N, or NVTX ranges called step, iteration and the like; "
		 ":step=NAME names others",
	.what = "steps",
	.args = args,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = run,
};
