/* gpu_work.c - see gpu_work.h. */
#include "stats/gpu_work.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"

static void read_ranks(struct ws_gpu_work *w)
{
	struct ws_cursor *c = ws_cursor_open(w->s->r, WS_TABLE_rank, 0, UINT64_MAX);
	const uint64_t *v;

	while (ws_cursor_next(c, &v)) {
		ws_map_set(&w->ranks, v[ws_rank_process], v[ws_rank_rank] + 1);
		w->ranked = true;
	}
	ws_cursor_close(c);
}

int ws_gpu_work_open(struct ws_stats *s, struct ws_gpu_work *w, struct ws_err *e)
{
	int rc;

	*w = (struct ws_gpu_work){
		.s = s, .parts = 1, .time_min = s->time_min, .time_max = s->time_max};
	rc = ws_work_load(s->r, s->time_min, s->time_max, &w->work, e);
	w->devices = ws_cuda_devices_open(s->r);
	read_ranks(w);
	s->damaged += w->work.damaged;
	s->unended += w->work.unended;
	s->backwards += w->work.backwards;
	return rc;
}

void ws_gpu_work_close(struct ws_gpu_work *w)
{
	ws_work_free(&w->work);
	ws_cuda_devices_close(w->devices);
	ws_map_free(&w->ranks);
}

/* ---- in doubles ---- */

uint64_t ws_gpu_work_moment(const struct ws_gpu_work *w, uint64_t time)
{
	uint64_t past = time > w->origin ? time - w->origin : 0;

	return past < UINT64_MAX / w->parts ? past * w->parts : UINT64_MAX;
}

/* Where work begins, and whether doubles would move any. */
static bool moves(struct ws_gpu_work *w, const struct ws_doubles *d)
{
	uint64_t first = UINT64_MAX;
	bool any = false;

	for (size_t g = 0; g < w->work.gpus; g++)
		for (size_t i = 0; i < w->work.gpu[g].n; i++) {
			const struct ws_work_op *op = &w->work.gpu[g].op[i];
			struct ws_doubles_shift by =
				ws_doubles_of(d, op->process, op->start, op->end);

			any |= by.start || by.end;
			first = op->start < first ? op->start : first;
		}
	w->origin = any && first ? first - 1
				 : 0; /* a nanosecond before: doubles may be earlier, by less */
	return any;
}

void ws_gpu_work_in_doubles(struct ws_gpu_work *w)
{
	struct ws_doubles d;

	ws_doubles_open(&d, w->s->r, WS_DOUBLES_AS_TRACED);
	if (d.clocks.n && moves(w, &d)) {
		w->parts = WS_DOUBLES_PARTS;
		w->time_min = ws_gpu_work_moment(w, w->time_min);
		w->time_max = ws_gpu_work_moment(w, w->time_max);
		for (size_t g = 0; g < w->work.gpus; g++)
			for (size_t i = 0; i < w->work.gpu[g].n; i++) {
				struct ws_work_op *op = &w->work.gpu[g].op[i];
				struct ws_doubles_shift by =
					ws_doubles_of(&d, op->process, op->start, op->end);

				op->start = ws_gpu_work_moment(w, op->start) + (uint64_t)by.start;
				op->end = ws_gpu_work_moment(w, op->end) + (uint64_t)by.end;
			}
	}
	ws_doubles_close(&d);
}

void ws_gpu_work_name(const struct ws_gpu_work *w, const struct ws_work_gpu *g, struct ws_text *t)
{
	char label[128];

	ws_cuda_device_label(w->devices, g->process, g->device, label, sizeof(label));
	ws_text_puts(t, label);
	for (size_t i = 0; i < w->work.gpus; i++) /* GPUs of several processes may share a number */
		if (&w->work.gpu[i] != g && w->work.gpu[i].device == g->device) {
			ws_text_puts(t, " of ");
			ws_gpu_work_process(w, (uint32_t)g->process, t);
			return;
		}
}

void ws_gpu_work_process(const struct ws_gpu_work *w, uint32_t process, struct ws_text *t)
{
	uint64_t rank = ws_map_get(&w->ranks, process, NULL);

	if (rank)
		ws_text_printf(t, "rank %" PRIu64, rank - 1);
	else
		ws_text_printf(t, "pid %" PRIu32, ws_who_process(w->s->who, process)->pid);
}

/* ---- steps ---- */

int ws_gpu_steps_open(struct ws_stats *s, const char *name, struct ws_gpu_steps *g,
		      struct ws_err *e)
{
	char *wanted = name ? ws_strndup(name, strcspn(name, ":")) : NULL;
	struct ws_steps *steps = &g->steps;
	int rc;

	*g = (struct ws_gpu_steps){.processes = ws_who_processes(s->who) + 1};
	rc = ws_steps_load(s->r, s->who, wanted, steps, e);
	free(wanted);
	if (rc < 0)
		return -1;
	s->damaged += steps->damaged;
	if (!steps->n && ws_report_rows(s->r, WS_TABLE_cuda_kernel) +
				 ws_report_rows(s->r, WS_TABLE_cuda_memcpy) +
				 ws_report_rows(s->r, WS_TABLE_cuda_memset))
		s->lacks = name && *name ? "ranges of that name" : "steps";
	g->places = ws_calloc(g->processes, sizeof(*g->places));
	g->latest = ws_malloc((steps->n + 1) * sizeof(*g->latest));
	for (size_t i = 0; i < steps->n; i++) {
		bool same = i && steps->v[i].process == steps->v[i - 1].process;

		g->latest[i] = same && g->latest[i - 1] > steps->v[i].end ? g->latest[i - 1]
									  : steps->v[i].end;
	}
	return 0;
}

void ws_gpu_steps_close(struct ws_gpu_steps *g)
{
	ws_steps_free(&g->steps);
	free(g->latest);
	free(g->places);
	*g = (struct ws_gpu_steps){0};
}

void ws_gpu_steps_begin(struct ws_gpu_steps *g)
{
	memset(g->places, 0, g->processes * sizeof(*g->places));
}

void ws_gpu_steps_from(struct ws_gpu_steps *g, uint32_t process, uint64_t start, size_t *first,
		       size_t *last)
{
	const struct ws_steps *s = &g->steps;
	struct ws_gpu_step_place *p = &g->places[process < g->processes ? process : 0];

	if (!p->known) {
		while (p->first < s->n && s->v[p->first].process != process)
			p->first++;
		for (p->last = p->first; p->last < s->n && s->v[p->last].process == process;)
			p->last++;
		p->known = true;
	}
	while (p->first < p->last &&
	       g->latest[p->first] <= start) /* what comes later starts no earlier */
		p->first++;
	*first = p->first;
	*last = p->last;
}

void ws_gpu_steps_name(const struct ws_gpu_work *w, const struct ws_step *step, struct ws_text *t)
{
	size_t len;
	const char *text = ws_report_string(w->s->r, step->text, &len);

	if (w->ranked) {
		ws_gpu_work_process(w, step->process, t);
		ws_text_puts(t, " ");
	}
	ws_text_add(t, text, len);
	if (!len || text[len - 1] < '0' || text[len - 1] > '9')
		ws_text_printf(t, " %" PRIu32, step->number);
}
