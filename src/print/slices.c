/*
 * slices.c - the rows of a long table made by all cores; see ws_print_slices in formats.h.
 *
 * Each slice is made in a printer of its own, which has no file. Slices are handed over in their
 * order by whichever worker finds the next one complete. A worker whose slice is not due yet leaves
 * it and goes on, unless it is far ahead: there are only a few printers for each worker.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/choose.h"
#include "base/parallel.h"
#include "print/formats.h"

enum { SLICE = 1024 }; /* rows */

struct slices {
	struct ws_printer *target, *printers; /* slice i is made in one[i % ones] */
	bool *made; /* made[i % ones]: slice i is complete and has not been handed over */
	size_t printer_count, rows, due; /* due: the next slice to hand over */
	bool is_taking;			 /* a worker is handing over slices */
	void (*make)(struct ws_printer *one, size_t from, size_t to, const void *ctx);
	void (*take)(struct ws_printer *printer, struct ws_printer *one);
	const void *ctx;
	pthread_mutex_t lock;
	pthread_cond_t turn;
};

/* Hand over the slices that are complete and due. The lock is held, except during `take`. */
static void take_due_slices(struct slices *slices)
{
	slices->is_taking = true;
	while (slices->made[slices->due % slices->printer_count]) {
		struct ws_printer *one = &slices->printers[slices->due % slices->printer_count];

		pthread_mutex_unlock(&slices->lock);
		slices->take(slices->target, one);
		one->line.len = one->kept.len = one->end_count = 0;
		pthread_mutex_lock(&slices->lock);
		slices->made[slices->due++ % slices->printer_count] = false;
		pthread_cond_broadcast(&slices->turn);
	}
	slices->is_taking = false;
}

static void make_slice(void *context, unsigned worker, size_t i)
{
	struct slices *slices = context;
	size_t from = i * SLICE, to = ws_min(slices->rows, from + SLICE);

	(void)worker;
	pthread_mutex_lock(&slices->lock);
	while (i >= slices->due + slices->printer_count) /* never true for the slice that is due */
		pthread_cond_wait(&slices->turn, &slices->lock);
	pthread_mutex_unlock(&slices->lock);
	slices->make(&slices->printers[i % slices->printer_count], from, to, slices->ctx);
	pthread_mutex_lock(&slices->lock);
	slices->made[i % slices->printer_count] = true;
	if (!slices->is_taking)
		take_due_slices(slices);
	pthread_mutex_unlock(&slices->lock);
}

void ws_print_slices(struct ws_printer *printer, size_t rows,
		     void (*make)(struct ws_printer *one, size_t from, size_t to,
				  const void *context),
		     void (*take)(struct ws_printer *printer, struct ws_printer *one),
		     const void *context)
{
	struct slices slices = {.target = printer,
				.printer_count = 1,
				.rows = rows,
				.make = make,
				.take = take,
				.ctx = context,
				.lock = PTHREAD_MUTEX_INITIALIZER,
				.turn = PTHREAD_COND_INITIALIZER};
	unsigned workers = 1;

	if (rows > SLICE)
		workers = ws_count_workers();
	if (workers > 1)
		slices.printer_count = 4 * (size_t)workers;
	slices.printers = ws_calloc(slices.printer_count, sizeof(*slices.printers));
	slices.made = ws_calloc(slices.printer_count, sizeof(*slices.made));
	for (size_t i = 0; i < slices.printer_count; i++)
		slices.printers[i] = (struct ws_printer){.format = printer->format,
							 .args = printer->args,
							 .unit = printer->unit,
							 .title = printer->title,
							 .name = printer->name,
							 .columns = printer->columns,
							 .column_count = printer->column_count,
							 .rows = printer->rows};
	ws_run_parallel(workers, rows / SLICE + (rows % SLICE != 0), make_slice, &slices);
	for (size_t i = 0; i < slices.printer_count; i++) {
		ws_text_free(&slices.printers[i].line);
		ws_text_free(&slices.printers[i].kept);
		free(slices.printers[i].ends);
		free(slices.printers[i].widths);
	}
	free(slices.printers);
	free(slices.made);
}
