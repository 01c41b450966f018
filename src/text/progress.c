/* progress.c - see progress.h. The line appears after a second, so that short work stays silent,
 * and changes ten times a second at most. */
#include "text/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

enum { FIRST_SHOWN_MS = 1000, UPDATE_INTERVAL_MS = 100, STEPS_PER_CHECK = 20000 };

struct ws_progress {
	const char *title;
	uint64_t total, done, checked;
	int64_t next_update; /* ms */
	int shown;
	int busy; /* a thread is writing the line */
};

static int64_t read_clock_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
	return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

struct ws_progress *ws_begin_progress(const char *title, uint64_t total)
{
	struct ws_progress *progress;

	if (!title || !total || !isatty(STDERR_FILENO))
		return NULL;
	progress = ws_calloc(1, sizeof(*progress));
	progress->title = title;
	progress->total = total;
	progress->next_update = read_clock_ms() + FIRST_SHOWN_MS;
	return progress;
}

static void show_percent(struct ws_progress *progress, uint64_t done)
{
	int64_t now = read_clock_ms();
	uint64_t percent =
		99; /* at most: several tables may come from one, so `done` may pass `total` */

	if (now < progress->next_update)
		return;
	if (done < progress->total)
		percent = done * 100 / progress->total;
	progress->next_update = now + UPDATE_INTERVAL_MS;
	progress->shown = 1;
	fprintf(stderr, "\r%s: %" PRIu64 " %%", progress->title, percent);
}

void ws_step_progress(struct ws_progress *progress, uint64_t steps)
{
	uint64_t done;

	if (!progress)
		return;
	done = __atomic_add_fetch(&progress->done, steps, __ATOMIC_RELAXED);
	if (done - __atomic_load_n(&progress->checked, __ATOMIC_RELAXED) < STEPS_PER_CHECK ||
	    __atomic_exchange_n(&progress->busy, 1, __ATOMIC_ACQUIRE))
		return;
	__atomic_store_n(&progress->checked, done, __ATOMIC_RELAXED);
	show_percent(progress, done);
	__atomic_store_n(&progress->busy, 0, __ATOMIC_RELEASE);
}

void ws_end_progress(struct ws_progress *progress)
{
	if (progress && progress->shown)
		fputs("\r\x1b[K", stderr);
	free(progress);
}
