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

	*w = (struct ws_gpu_work){.s = s};
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
