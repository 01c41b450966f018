/* gpu_work.c - see gpu_work.h. */
#include "stats/gpu_work.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/choose.h"

static void read_ranks(struct ws_gpu_work *work)
{
	struct ws_cursor *cursor =
		ws_cursor_open(work->stats->report, WS_TABLE_rank, 0, UINT64_MAX);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values)) {
		ws_map_set(&work->ranks, values[ws_rank_process], values[ws_rank_rank] + 1);
		work->ranked = true;
	}
	ws_cursor_close(cursor);
}

int ws_gpu_work_open(struct ws_stats *stats, struct ws_gpu_work *work, struct ws_err *err)
{
	int status;

	*work = (struct ws_gpu_work){.stats = stats,
				     .parts = 1,
				     .time_min = stats->time_min,
				     .time_max = stats->time_max};
	status = ws_work_load(stats->report, stats->time_min, stats->time_max, &work->work, err);
	work->devices = ws_cuda_devices_open(stats->report);
	read_ranks(work);
	stats->damaged += work->work.damaged;
	stats->unended += work->work.unended;
	stats->backwards += work->work.backwards;
	return status;
}

void ws_gpu_work_close(struct ws_gpu_work *work)
{
	ws_work_free(&work->work);
	ws_cuda_devices_close(work->devices);
	ws_map_free(&work->ranks);
}

/* ---- times as doubles ---- */

uint64_t ws_convert_gpu_work_time(const struct ws_gpu_work *work, uint64_t time)
{
	uint64_t past = time - ws_min(time, work->origin);

	if (past >= UINT64_MAX / work->parts)
		return UINT64_MAX;
	return past * work->parts;
}

/* Whether rounding to doubles would move any work; if so, sets the origin of times. */
static bool is_moved_by_doubles(struct ws_gpu_work *work, const struct ws_doubles *doubles)
{
	uint64_t first = UINT64_MAX;
	bool any = false;

	for (size_t gpu = 0; gpu < work->work.gpus; gpu++)
		for (size_t i = 0; i < work->work.gpu[gpu].count; i++) {
			const struct ws_work_op *op = &work->work.gpu[gpu].op[i];
			struct ws_doubles_shift shift =
				ws_doubles_find_shift(doubles, op->process, op->start, op->end);

			any |= shift.start || shift.end;
			first = ws_min(op->start, first);
		}
	work->origin = 0;
	if (any && first)
		work->origin = first - 1; /* doubles move work by less than a nanosecond */
	return any;
}

void ws_convert_gpu_work_to_doubles(struct ws_gpu_work *work)
{
	struct ws_doubles doubles;

	ws_doubles_open(&doubles, work->stats->report, WS_DOUBLES_AS_TRACED);
	if (doubles.clocks.count && is_moved_by_doubles(work, &doubles)) {
		work->parts = WS_DOUBLES_PARTS;
		work->time_min = ws_convert_gpu_work_time(work, work->time_min);
		work->time_max = ws_convert_gpu_work_time(work, work->time_max);
		for (size_t gpu = 0; gpu < work->work.gpus; gpu++)
			for (size_t i = 0; i < work->work.gpu[gpu].count; i++) {
				struct ws_work_op *op = &work->work.gpu[gpu].op[i];
				struct ws_doubles_shift shift = ws_doubles_find_shift(
					&doubles, op->process, op->start, op->end);

				op->start = ws_convert_gpu_work_time(work, op->start) +
					    (uint64_t)shift.start;
				op->end = ws_convert_gpu_work_time(work, op->end) +
					  (uint64_t)shift.end;
			}
	}
	ws_doubles_close(&doubles);
}

void ws_put_gpu_name(const struct ws_gpu_work *work, const struct ws_work_gpu *gpu,
		     struct ws_text *text)
{
	char label[128];

	ws_format_cuda_device(work->devices, gpu->process, gpu->device, label, sizeof(label));
	ws_text_puts(text, label);
	/* GPUs of several processes may have the same number. */
	for (size_t i = 0; i < work->work.gpus; i++)
		if (&work->work.gpu[i] != gpu && work->work.gpu[i].device == gpu->device) {
			ws_text_puts(text, " of ");
			ws_put_gpu_process_name(work, (uint32_t)gpu->process, text);
			return;
		}
}

void ws_put_gpu_process_name(const struct ws_gpu_work *work, uint32_t process, struct ws_text *text)
{
	uint64_t rank = ws_map_get(&work->ranks, process, NULL);

	if (rank)
		ws_text_printf(text, "rank %" PRIu64, rank - 1);
	else
		ws_text_printf(text, "pid %" PRIu32,
			       ws_find_process(work->stats->who, process)->pid);
}

/* ---- steps ---- */

int ws_gpu_steps_open(struct ws_stats *stats, const char *name, struct ws_gpu_steps *gpu_steps,
		      struct ws_err *err)
{
	struct ws_steps *steps = &gpu_steps->steps;
	char *wanted = NULL;
	int status;

	if (name)
		wanted = ws_strndup(name, strcspn(name, ":"));
	*gpu_steps = (struct ws_gpu_steps){.processes = ws_highest_process_id(stats->who) + 1};
	status = ws_steps_load(stats->report, stats->who, wanted, steps, err);
	free(wanted);
	if (status < 0)
		return -1;
	stats->damaged += steps->damaged;
	if (!steps->count && ws_report_count_rows(stats->report, WS_TABLE_cuda_kernel) +
				     ws_report_count_rows(stats->report, WS_TABLE_cuda_memcpy) +
				     ws_report_count_rows(stats->report, WS_TABLE_cuda_memset)) {
		stats->lacks = "steps";
		if (name && *name)
			stats->lacks = "ranges of that name";
	}
	gpu_steps->places = ws_calloc(gpu_steps->processes, sizeof(*gpu_steps->places));
	gpu_steps->latest = ws_malloc((steps->count + 1) * sizeof(*gpu_steps->latest));
	for (size_t i = 0; i < steps->count; i++) {
		gpu_steps->latest[i] = steps->steps[i].end;
		if (i && steps->steps[i].process == steps->steps[i - 1].process)
			gpu_steps->latest[i] =
				ws_max(gpu_steps->latest[i - 1], steps->steps[i].end);
	}
	return 0;
}

void ws_gpu_steps_close(struct ws_gpu_steps *steps)
{
	ws_steps_free(&steps->steps);
	free(steps->latest);
	free(steps->places);
	*steps = (struct ws_gpu_steps){0};
}

void ws_restart_gpu_steps(struct ws_gpu_steps *steps)
{
	memset(steps->places, 0, steps->processes * sizeof(*steps->places));
}

void ws_find_gpu_steps(struct ws_gpu_steps *steps, uint32_t process, uint64_t start, size_t *first,
		       size_t *last)
{
	const struct ws_steps *loaded = &steps->steps;
	struct ws_gpu_step_place *place = &steps->places[process * (process < steps->processes)];

	if (!place->known) {
		while (place->first < loaded->count &&
		       loaded->steps[place->first].process != process)
			place->first++;
		for (place->last = place->first;
		     place->last < loaded->count && loaded->steps[place->last].process == process;)
			place->last++;
		place->known = true;
	}
	/* Later work starts no earlier, so these steps are done. */
	while (place->first < place->last && steps->latest[place->first] <= start)
		place->first++;
	*first = place->first;
	*last = place->last;
}

void ws_put_gpu_step_name(const struct ws_gpu_work *work, const struct ws_step *step,
			  struct ws_text *out)
{
	size_t length;
	const char *text = ws_report_string(work->stats->report, step->text, &length);

	if (work->ranked) {
		ws_put_gpu_process_name(work, step->process, out);
		ws_text_puts(out, " ");
	}
	ws_text_add(out, text, length);
	if (!length || text[length - 1] < '0' || text[length - 1] > '9')
		ws_text_printf(out, " %" PRIu32, step->number);
}
