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
	struct ws_printer *o, *one; /* slice i is made in one[i % ones] */
	bool *made;		    /* likewise: it waits to be handed over */
	size_t ones, rows, due;
	bool taking; /* by some worker */
	void (*make)(struct ws_printer *one, size_t from, size_t to, const void *ctx);
	void (*take)(struct ws_printer *o, struct ws_printer *one);
	const void *ctx;
	pthread_mutex_t lock;
	pthread_cond_t turn;
};

/* Hand over what is due, under the lock but while `take` works. */
static void take_due(struct slices *s)
{
	s->taking = true;
	while (s->made[s->due % s->ones]) {
		struct ws_printer *one = &s->one[s->due % s->ones];

		pthread_mutex_unlock(&s->lock);
		s->take(s->o, one);
		one->line.len = one->kept.len = one->ends_count = 0;
		pthread_mutex_lock(&s->lock);
		s->made[s->due++ % s->ones] = false;
		pthread_cond_broadcast(&s->turn);
	}
	s->taking = false;
}

static void one_slice(void *ctx, unsigned worker, size_t i)
{
	struct slices *s = ctx;
	size_t from = i * SLICE, to = s->rows - from < SLICE ? s->rows : from + SLICE;

	(void)worker;
	pthread_mutex_lock(&s->lock);
	while (i >= s->due + s->ones) /* which the due one never is */
		pthread_cond_wait(&s->turn, &s->lock);
	pthread_mutex_unlock(&s->lock);
	s->make(&s->one[i % s->ones], from, to, s->ctx);
	pthread_mutex_lock(&s->lock);
	s->made[i % s->ones] = true;
	if (!s->taking)
		take_due(s);
	pthread_mutex_unlock(&s->lock);
}

void ws_print_slices(struct ws_printer *o, size_t rows,
		     void (*make)(struct ws_printer *one, size_t from, size_t to, const void *ctx),
		     void (*take)(struct ws_printer *o, struct ws_printer *one), const void *ctx)
{
	unsigned workers = rows > SLICE ? ws_parallel_workers() : 1;
	size_t ones = workers > 1 ? 4 * (size_t)workers : 1;
	struct slices s = {.o = o,
			   .one = ws_calloc(ones, sizeof(*s.one)),
			   .made = ws_calloc(ones, sizeof(*s.made)),
			   .ones = ones,
			   .rows = rows,
			   .make = make,
			   .take = take,
			   .ctx = ctx,
			   .lock = PTHREAD_MUTEX_INITIALIZER,
			   .turn = PTHREAD_COND_INITIALIZER};

	for (size_t i = 0; i < ones; i++)
		s.one[i] = (struct ws_printer){.format = o->format,
					       .args = o->args,
					       .unit = o->unit,
					       .title = o->title,
					       .name = o->name,
					       .columns = o->columns,
					       .column_count = o->column_count,
					       .rows = o->rows};
	ws_parallel(workers, rows / SLICE + (rows % SLICE != 0), one_slice, &s);
	for (size_t i = 0; i < ones; i++) {
		ws_text_free(&s.one[i].line);
		ws_text_free(&s.one[i].kept);
		free(s.one[i].ends);
		free(s.one[i].widths);
	}
	free(s.one);
	free(s.made);
}
