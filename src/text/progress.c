/* progress.c - see progress.h. The line appears after a second, so that short work stays silent,
 * and changes ten times a second at most. */
#include "text/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

enum { FIRST_MS = 1000, BETWEEN_MS = 100, STEPS_A_LOOK = 20000 };

struct ws_progress {
	const char *what;
	uint64_t total, done, looked;
	int64_t next; /* ms */
	int shown;
	int busy; /* a thread is writing the line */
};

static int64_t now_ms(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
	return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

struct ws_progress *ws_progress_begin(const char *what, uint64_t total)
{
	struct ws_progress *progress;

	if (!what || !total || !isatty(STDERR_FILENO))
		return NULL;
	progress = ws_calloc(1, sizeof(*progress));
	progress->what = what;
	progress->total = total;
	progress->next = now_ms() + FIRST_MS;
	return progress;
}

static void show(struct ws_progress *progress, uint64_t done)
{
	int64_t now = now_ms();
	uint64_t percent = done >= progress->total
				   ? 99
				   : done * 100 / progress->total; /* several tables may come from
							one: never past the end */

	if (now < progress->next)
		return;
	progress->next = now + BETWEEN_MS;
	progress->shown = 1;
	fprintf(stderr, "\r%s: %" PRIu64 " %%", progress->what, percent);
}

void ws_progress_step(struct ws_progress *progress, uint64_t steps)
{
	uint64_t done;

	if (!progress)
		return;
	done = __atomic_add_fetch(&progress->done, steps, __ATOMIC_RELAXED);
	if (done - __atomic_load_n(&progress->looked, __ATOMIC_RELAXED) < STEPS_A_LOOK ||
	    __atomic_exchange_n(&progress->busy, 1, __ATOMIC_ACQUIRE))
		return;
	__atomic_store_n(&progress->looked, done, __ATOMIC_RELAXED);
	show(progress, done);
	__atomic_store_n(&progress->busy, 0, __ATOMIC_RELEASE);
}

void ws_progress_end(struct ws_progress *progress)
{
	if (progress && progress->shown)
		fputs("\r\x1b[K", stderr);
	free(progress);
}
