/*
 * gpu_idle_causes.c - the gaps between work on a GPU, or on each of its streams, by what ended them.
 *
 * A gap is from the latest end so far to the start of the next work, and its cause is read from that work's launch:
 *
 *   host      its call began after the gap did: the GPU had nothing to do
 *   launch    its call had begun before, and the gap is shorter than `delay`: what going from one to the next takes
 *   waiting   its call had begun before, and the gap is longer: it waited for an event, another stream, or room
 *   unknown   its call was not recorded
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "stats/gpu_work.h"
#include "stats/std8.h"

enum { DEFAULT_DELAY = 30000 /* ns */ };

static const struct ws_column columns[] = {
    {"Time", WS_KIND_PERCENT}, {"Idle Time", WS_KIND_TIME}, {"Gaps", WS_KIND_COUNT}, {"Avg", WS_KIND_MEAN},
    {"Med", WS_KIND_MEAN},     {"Min", WS_KIND_TIME},	    {"Max", WS_KIND_TIME},   {"StdDev", WS_KIND_MEAN},
    {"Cause", WS_KIND_TEXT},   {"GPU", WS_KIND_TEXT},
};

enum cause { HOST, LAUNCH, WAITING, UNKNOWN };
static const char *const causes[] = {"host", "launch", "waiting", "unknown"};

enum { KEY_GPU, KEY_STREAM, KEY_CAUSE, KEY_WORDS };

struct idle {
	struct ws_stats *s;
	struct ws_gpu_work w;
	struct ws_launches *l;
	bool streams;
	uint64_t delay;
	struct ws_keyed gaps;
};

static enum cause cause_of(const struct idle *d, const struct ws_work_op *op, uint64_t since, uint64_t until)
{
	uint32_t call = ws_launches_find(d->l, op->process, op->correlation);

	if (call == WS_NO_CALL)
		return UNKNOWN;
	if (d->l->calls.rows.col[ws_cuda_api_start][call] > since)
		return HOST;
	return until - since < d->delay ? LAUNCH : WAITING;
}

static void gap(struct idle *d, size_t gpu, const struct ws_work_op *op, uint64_t since)
{
	uint64_t from = since > d->s->time_min ? since : d->s->time_min;
	uint64_t to = op->start < d->s->time_max ? op->start : d->s->time_max;
	uint64_t key[KEY_WORDS] = {gpu, d->streams ? op->stream : 0, cause_of(d, op, since, op->start)};

	if (to > from)
		ws_dist_add(ws_keyed_get(&d->gaps, key), to - from);
}

static void gaps_of(struct idle *d, size_t number)
{
	const struct ws_work_gpu *g = &d->w.work.gpu[number];
	struct {
		uint32_t process, stream;
		uint64_t until;
	} *last = NULL;
	size_t n = 0, cap = 0, k = 0;

	for (size_t i = 0; i < g->n; i++) {
		const struct ws_work_op *op = &g->op[i];
		uint32_t process = d->streams ? op->process : 0, stream = d->streams ? op->stream : 0;

		if (k >= n || last[k].process != process || last[k].stream != stream)
			for (k = 0; k < n && (last[k].process != process || last[k].stream != stream);)
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

		ws_gpu_work_name(&d->w, &d->w.work.gpu[key[KEY_GPU]], &names[i]);
		if (d->streams)
			ws_text_printf(&names[i], " stream %" PRIu64, key[KEY_STREAM]);
		lines[i] = (struct ws_std8_line){
		    .s = &sums.s[i], .style = causes[key[KEY_CAUSE]], .name = names[i].s, .name_len = names[i].len};
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
	const char *delay = ws_stats_arg(s, "delay=");
	struct idle d = {.s = s, .streams = ws_stats_arg(s, "stream") != NULL, .gaps = {.words = KEY_WORDS, .per = 1}};
	int rc = ws_gpu_work_open(s, &d.w, e);

	d.delay = delay ? strtoull(delay, NULL, 10) : DEFAULT_DELAY;
	if (!rc)
		rc = (d.l = ws_launches_open(s, false, e)) ? 0 : -1;
	if (!rc) {
		for (size_t i = 0; i < d.w.work.gpus; i++)
			gaps_of(&d, i);
		print(&d);
	}
	ws_launches_close(d.l);
	ws_gpu_work_close(&d.w);
	return rc;
}

static const char *const args[] = {"stream", "delay=", NULL};

const struct ws_stat ws_stat_gpu_idle_causes = {
    .name = "gpu_idle_causes",
    .title = "GPU Idle Time by Cause",
    .about = "Gaps between work on a GPU by what the next work says of them. host: it was launched only after the gap began; "
	     "launch: it had been "
	     "launched, and the gap is shorter than 30 us (:delay=NANOSECONDS); waiting: likewise, but longer; unknown: its call "
	     "was not "
	     "recorded. :stream looks at each stream by itself",
    .what = "gaps between CUDA work on GPUs",
    .unended = "had no times",
    .args = args,
    .columns = columns,
    .column_count = WS_COUNT(columns),
    .run = run,
};
