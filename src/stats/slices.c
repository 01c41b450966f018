/*
 * slices.c - the rows of a long table made by all cores; see ws_print_slices in formats.h.
 *
 * Each worker makes the text of a slice in a printer of its own, which has no file. Slices are handed over in their order: who has
 * finished one that is not due yet waits, so that there are never more texts than workers.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/parallel.h"
#include "stats/formats.h"

enum { SLICE = 1024 }; /* rows */

struct slices {
	struct ws_printer *o, *mine; /* of each worker */
	size_t rows, due;
	void (*make)(struct ws_printer *one, size_t from, size_t to, const void *ctx);
	void (*take)(struct ws_printer *o, struct ws_printer *one);
	const void *ctx;
	pthread_mutex_t lock;
	pthread_cond_t turn;
};

static void one_slice(void *ctx, unsigned worker, size_t i)
{
	struct slices *s = ctx;
	struct ws_printer *one = &s->mine[worker];
	size_t from = i * SLICE, to = s->rows - from < SLICE ? s->rows : from + SLICE;

	s->make(one, from, to, s->ctx);
	pthread_mutex_lock(&s->lock);
	while (s->due != i)
		pthread_cond_wait(&s->turn, &s->lock);
	s->take(s->o, one);
	s->due++;
	pthread_cond_broadcast(&s->turn);
	pthread_mutex_unlock(&s->lock);
	one->line.len = one->kept.len = one->ends_count = 0;
}

void ws_print_slices(struct ws_printer *o, size_t rows,
		     void (*make)(struct ws_printer *one, size_t from, size_t to, const void *ctx),
		     void (*take)(struct ws_printer *o, struct ws_printer *one), const void *ctx)
{
	unsigned workers = rows > SLICE ? ws_parallel_workers() : 1;
	struct slices s = {.o = o,
			   .mine = ws_calloc(workers, sizeof(*s.mine)),
			   .rows = rows,
			   .make = make,
			   .take = take,
			   .ctx = ctx,
			   .lock = PTHREAD_MUTEX_INITIALIZER,
			   .turn = PTHREAD_COND_INITIALIZER};

	for (unsigned w = 0; w < workers; w++)
		s.mine[w] = (struct ws_printer){.format = o->format,
						.args = o->args,
						.unit = o->unit,
						.title = o->title,
						.name = o->name,
						.columns = o->columns,
						.column_count = o->column_count,
						.rows = o->rows};
	ws_parallel(workers, rows / SLICE + (rows % SLICE != 0), one_slice, &s);
	for (unsigned w = 0; w < workers; w++) {
		ws_text_free(&s.mine[w].line);
		ws_text_free(&s.mine[w].kept);
		free(s.mine[w].ends);
		free(s.mine[w].widths);
	}
	free(s.mine);
}
