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
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

struct ws_progress *ws_progress_begin(const char *what, uint64_t total)
{
	struct ws_progress *p;

	if (!what || !total || !isatty(STDERR_FILENO))
		return NULL;
	p = ws_calloc(1, sizeof(*p));
	p->what = what;
	p->total = total;
	p->next = now_ms() + FIRST_MS;
	return p;
}

static void show(struct ws_progress *p, uint64_t done)
{
	int64_t now = now_ms();
	uint64_t percent =
		done >= p->total ? 99 : done * 100 / p->total; /* several tables may come from one:
								  never past the end */

	if (now < p->next)
		return;
	p->next = now + BETWEEN_MS;
	p->shown = 1;
	fprintf(stderr, "\r%s: %" PRIu64 " %%", p->what, percent);
}

void ws_progress_step(struct ws_progress *p, uint64_t steps)
{
	uint64_t done;

	if (!p)
		return;
	done = __atomic_add_fetch(&p->done, steps, __ATOMIC_RELAXED);
	if (done - __atomic_load_n(&p->looked, __ATOMIC_RELAXED) < STEPS_A_LOOK ||
	    __atomic_exchange_n(&p->busy, 1, __ATOMIC_ACQUIRE))
		return;
	__atomic_store_n(&p->looked, done, __ATOMIC_RELAXED);
	show(p, done);
	__atomic_store_n(&p->busy, 0, __ATOMIC_RELEASE);
}

void ws_progress_end(struct ws_progress *p)
{
	if (p && p->shown)
		fputs("\r\x1b[K", stderr);
	free(p);
}
