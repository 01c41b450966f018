/*
 * gpu_idle_causes.c - the gaps between work on a GPU, or in parts of it, by what ended them.
 *
 * A gap is from the latest end so far to the start of the next work, and its cause is read from
 * that work's launch:
 *
 *   host      its call began after the gap did: the GPU had nothing to do
 *   launch    its call had begun before, and the gap is shorter than `delay`: what going from one
 * to the next takes waiting   its call had begun before, and the gap is longer: it waited for an
 * event, another stream, or room unknown   its call was not recorded
 *
 * By stream or rank, gaps are those between the work there. By step, they are a rank's, cut to its
 * steps. By range, a gap on the GPU belongs to the ranges in which the work that ended it was
 * launched: what the GPU waited for.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "stats/gpu_work.h"
#include "stats/std8.h"

enum { DEFAULT_DELAY = 30000 /* ns */ };

static const struct ws_column columns[] = {
	{"Time", WS_KIND_PERCENT}, {"Idle Time", WS_KIND_TIME}, {"Gaps", WS_KIND_COUNT},
	{"Avg", WS_KIND_MEAN},	   {"Med", WS_KIND_MEAN},	{"Min", WS_KIND_TIME},
	{"Max", WS_KIND_TIME},	   {"StdDev", WS_KIND_MEAN},	{"Cause", WS_KIND_TEXT},
	{"GPU", WS_KIND_TEXT},
};

enum cause { HOST, LAUNCH, WAITING, UNKNOWN };
static const char *const causes[] = {"host", "launch", "waiting", "unknown"};

enum part_kind { BY_GPU, BY_STREAM, BY_RANK, BY_STEP, BY_RANGE };
enum {
	KEY_GPU,
	KEY_PART,
	KEY_CAUSE,
	KEY_WORDS
}; /* the part is a stream, a process, a step's place, a range's key */

struct idle {
	struct ws_stats *s;
	struct ws_gpu_work w;
	struct ws_launches *l;
	struct ws_gpu_steps steps;
	enum part_kind kind;
	uint64_t delay;
	struct ws_keyed gaps;
};

static enum cause cause_of(const struct idle *d, const struct ws_work_op *op, uint64_t since,
			   uint64_t until)
{
	uint32_t call = ws_launches_find(d->l, op->process, op->correlation);

	if (call == WS_NO_CALL)
		return UNKNOWN;
	if (d->l->calls.rows.col[ws_cuda_api_start][call] > since)
		return HOST;
	return until - since < d->delay ? LAUNCH : WAITING;
}

static void add(struct idle *d, size_t gpu, uint64_t part, enum cause cause, uint64_t from,
		uint64_t to)
{
	if (to > from)
		ws_dist_add(ws_keyed_get(&d->gaps, (uint64_t[KEY_WORDS]){gpu, part, cause}),
			    to - from);
}

static void add_to_steps(struct idle *d, size_t gpu, uint32_t process, enum cause cause,
			 uint64_t from, uint64_t to)
{
	const struct ws_step *v = d->steps.steps.v;
	size_t i, last;

	ws_gpu_steps_from(&d->steps, process, from, &i, &last);
	for (; i < last && v[i].start < to; i++)
		add(d, gpu, i, cause, from > v[i].start ? from : v[i].start,
		    to < v[i].end ? to : v[i].end);
}

static void gap(struct idle *d, size_t gpu, const struct ws_work_op *op, uint64_t since)
{
	uint64_t from = since > d->s->time_min ? since : d->s->time_min;
	uint64_t to = op->start < d->s->time_max ? op->start : d->s->time_max;
	enum cause cause = cause_of(d, op, since, op->start);

	switch (d->kind) {
	case BY_STEP:
		add_to_steps(d, gpu, op->process, cause, from, to);
		return;
	case BY_RANGE:
		for (uint32_t n = ws_launches_node(d->l, op->process, op->correlation); n;
		     n = d->l->enclose.node[n].parent)
			add(d, gpu, ws_launches_node_key(d->l, n), cause, from, to);
		return;
	default:
		add(d, gpu,
		    d->kind == BY_STREAM ? op->stream
		    : d->kind == BY_RANK ? op->process
					 : 0,
		    cause, from, to);
	}
}

static void gaps_of(struct idle *d, size_t number)
{
	const struct ws_work_gpu *g = &d->w.work.gpu[number];
	bool streams = d->kind == BY_STREAM,
	     processes = streams || d->kind == BY_RANK || d->kind == BY_STEP;
	struct {
		uint32_t process, stream;
		uint64_t until;
	} *last = NULL;
	size_t n = 0, cap = 0, k = 0;

	if (d->kind == BY_STEP)
		ws_gpu_steps_begin(&d->steps);
	for (size_t i = 0; i < g->n; i++) {
		const struct ws_work_op *op = &g->op[i];
		uint32_t process = processes ? op->process : 0, stream = streams ? op->stream : 0;

		if (k >= n || last[k].process != process || last[k].stream != stream)
			for (k = 0;
			     k < n && (last[k].process != process || last[k].stream != stream);)
				k++;
		if (k == n) {
			ws_grow(last, cap, n + 1);
			last[n].process = process;
			last[n].stream = stream;
			last[n++].until = op->end;
			continue;
		}
		if (op->start > last[k].until)
			gap(d, number, op, last[k].until);
		last[k].until = op->end > last[k].until ? op->end : last[k].until;
	}
	free(last);
}

/* "NVIDIA H200 (0) stream 7" */
static void name_part(const struct idle *d, const uint64_t *key, struct ws_text *t)
{
	size_t len;
	char *range;

	ws_gpu_work_name(&d->w, &d->w.work.gpu[key[KEY_GPU]], t);
	if (d->kind == BY_GPU)
		return;
	ws_text_puts(t, " ");
	if (d->kind == BY_STREAM) {
		ws_text_printf(t, "stream %" PRIu64, key[KEY_PART]);
	} else if (d->kind == BY_RANK) {
		ws_gpu_work_process(&d->w, (uint32_t)key[KEY_PART], t);
	} else if (d->kind == BY_STEP) {
		ws_gpu_steps_name(&d->w, &d->steps.steps.v[key[KEY_PART]], t);
	} else {
		range = ws_launches_range_name(d->l, key[KEY_PART], &len);
		ws_text_add(t, range, len);
		free(range);
	}
}

static void print(struct idle *d)
{
	struct ws_keyed_sums sums;
	struct ws_std8_line *lines;
	struct ws_text *names;

	ws_keyed_merge(&d->gaps, 1, NULL, NULL, &sums);
	lines = ws_calloc(sums.n + 1, sizeof(*lines));
	names = ws_calloc(sums.n + 1, sizeof(*names));
	for (size_t i = 0; i < sums.n; i++) {
		const uint64_t *key = sums.keys + i * KEY_WORDS;

		name_part(d, key, &names[i]);
		lines[i] = (struct ws_std8_line){.s = &sums.s[i],
						 .style = causes[key[KEY_CAUSE]],
						 .name = names[i].s,
						 .name_len = names[i].len};
	}
	ws_std8_print(d->s, lines, sums.n);
	for (size_t i = 0; i < sums.n; i++)
		ws_text_free(&names[i]);
	free(names);
	free(lines);
	ws_keyed_sums_free(&sums);
}

static int run(struct ws_stats *s, struct ws_err *e)
{
	static const char *const words[] = {[BY_STREAM] = "stream",
					    [BY_RANK] = "rank",
					    [BY_STEP] = "step",
					    [BY_RANGE] = "range"};
	const char *delay = ws_stats_arg(s, "delay=");
	struct idle d = {.s = s, .gaps = {.words = KEY_WORDS, .per = 1}};
	int rc = ws_gpu_work_open(s, &d.w, e);

	for (int i = BY_STREAM; i <= BY_RANGE; i++)
		if (ws_stats_arg(s, words[i]))
			d.kind = (enum part_kind)i;
	if (ws_stats_arg(s, "step=*"))
		d.kind = BY_STEP;
	d.delay = delay ? strtoull(delay, NULL, 10) : DEFAULT_DELAY;
	if (!rc)
		rc = (d.l = ws_launches_open(s, d.kind == BY_RANGE ? WS_ANY_RANGES : false, e))
			     ? 0
			     : -1;
	if (!rc && d.kind == BY_STEP)
		rc = ws_gpu_steps_open(s, ws_stats_arg(s, "step=*"), &d.steps, e);
	if (!rc) {
		for (size_t i = 0; i < d.w.work.gpus; i++)
			gaps_of(&d, i);
		print(&d);
	}
	ws_gpu_steps_close(&d.steps);
	ws_launches_close(d.l);
	ws_gpu_work_close(&d.w);
	return rc;
}

static const char *const args[] = {"stream", "rank", "step", "step=*", "range", "delay=", NULL};

const struct ws_stat ws_stat_gpu_idle_causes = {
	.name = "gpu_idle_causes",
	.title = "GPU Idle Time by Cause",
	.about =
		"Gaps between work on a GPU by what the next work says of them. host: it was "
		"launched only after the gap began; "
		"launch: it had been launched, and the gap is shorter than 30 us "
		"(:delay=NANOSECONDS); waiting: likewise, but longer; "
		"unknown: its call was not recorded. :stream, :rank, :step or :range look at parts",
	.what = "gaps between CUDA work on GPUs",
	.unended = "had no times",
	.args = args,
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = run,
};
