/*
 * slices.c - the rows of a long table made by all cores; see ws_print_slices in formats.h.
 *
 * Each slice is made in a printer of its own, which has no file, and handed over in its order by
 * whoever finds it due. Who has finished one that is not due yet leaves it there and goes on,
 * unless it is far ahead: there are a few printers a worker.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/parallel.h"
#include "print/formats.h"

enum { SLICE = 1024 }; /* rows */

struct slices {
	struct ws_printer *printer, *one; /* slice i is made in one[i % ones] */
	bool *made;			  /* likewise: it waits to be handed over */
	size_t ones, rows, due;
	bool taking; /* by some worker */
	void (*make)(struct ws_printer *one, size_t from, size_t to, const void *ctx);
	void (*take)(struct ws_printer *printer, struct ws_printer *one);
	const void *ctx;
	pthread_mutex_t lock;
	pthread_cond_t turn;
};

/* Hand over what is due, under the lock but while `take` works. */
static void take_due(struct slices *slices)
{
	slices->taking = true;
	while (slices->made[slices->due % slices->ones]) {
		struct ws_printer *one = &slices->one[slices->due % slices->ones];

		pthread_mutex_unlock(&slices->lock);
		slices->take(slices->printer, one);
		one->line.len = one->kept.len = one->ends_count = 0;
		pthread_mutex_lock(&slices->lock);
		slices->made[slices->due++ % slices->ones] = false;
		pthread_cond_broadcast(&slices->turn);
	}
	slices->taking = false;
}

static void one_slice(void *ctx, unsigned worker, size_t i)
{
	struct slices *slices = ctx;
	size_t from = i * SLICE, to = slices->rows - from < SLICE ? slices->rows : from + SLICE;

	(void)worker;
	pthread_mutex_lock(&slices->lock);
	while (i >= slices->due + slices->ones) /* which the due one never is */
		pthread_cond_wait(&slices->turn, &slices->lock);
	pthread_mutex_unlock(&slices->lock);
	slices->make(&slices->one[i % slices->ones], from, to, slices->ctx);
	pthread_mutex_lock(&slices->lock);
	slices->made[i % slices->ones] = true;
	if (!slices->taking)
		take_due(slices);
	pthread_mutex_unlock(&slices->lock);
}

void ws_print_slices(struct ws_printer *printer, size_t rows,
		     void (*make)(struct ws_printer *one, size_t from, size_t to, const void *ctx),
		     void (*take)(struct ws_printer *printer, struct ws_printer *one),
		     const void *ctx)
{
	unsigned workers = rows > SLICE ? ws_parallel_workers() : 1;
	size_t ones = workers > 1 ? 4 * (size_t)workers : 1;
	struct slices slices = {.printer = printer,
				.one = ws_calloc(ones, sizeof(*slices.one)),
				.made = ws_calloc(ones, sizeof(*slices.made)),
				.ones = ones,
				.rows = rows,
				.make = make,
				.take = take,
				.ctx = ctx,
				.lock = PTHREAD_MUTEX_INITIALIZER,
				.turn = PTHREAD_COND_INITIALIZER};

	for (size_t i = 0; i < ones; i++)
		slices.one[i] = (struct ws_printer){.format = printer->format,
						    .args = printer->args,
						    .unit = printer->unit,
						    .title = printer->title,
						    .name = printer->name,
						    .columns = printer->columns,
						    .column_count = printer->column_count,
						    .rows = printer->rows};
	ws_parallel(workers, rows / SLICE + (rows % SLICE != 0), one_slice, &slices);
	for (size_t i = 0; i < ones; i++) {
		ws_text_free(&slices.one[i].line);
		ws_text_free(&slices.one[i].kept);
		free(slices.one[i].ends);
		free(slices.one[i].widths);
	}
	free(slices.one);
	free(slices.made);
}
