/* starved.c - see starved.h. Nothing here allocates. */
#include "record/starved.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "record/arena.h"
#include "record/signals.h"
#include "record/tee.h"

static struct ws_starved *watched;
static void (*handler_before)(void);

static void say_why(const char *what)
{
	char text[400], cause[100] = "";

	if (ws_address_space() != SIZE_MAX)
		snprintf(cause, sizeof(cause),
			 " (the address space is limited to %zu KiB: ulimit -v)",
			 ws_address_space() >> 10);
	snprintf(text, sizeof(text), "warpsight: out of memory%s: %s\n", cause, what);
	if (write(STDERR_FILENO, text, strlen(text)) < 0)
		return;
}

static void remove_traces(const struct ws_starved *starved)
{
	char journal[4200];

	if (starved->area->path[0])
		unlink(starved->area->path);
	if (!starved->report)
		return;
	unlink(starved->report);
	snprintf(journal, sizeof(journal), "%s.journal", starved->report);
	unlink(journal);
	if (starved->kept_old)
		rename(starved->kept_old, starved->report);
}

static int wait_for_target(const struct ws_starved *starved)
{
	bool mine = starved->tee && ws_tee_is_this_thread(starved->tee);
	int status, sig;
	pid_t got;

	while ((got = waitpid(starved->target, &status, mine ? WNOHANG : 0)) != starved->target) {
		if (got < 0 && errno != EINTR)
			return *starved->status;
		while ((sig = ws_signals_pending()))
			kill(starved->target, sig);
		if (mine)
			ws_tee_pass_on(starved->tee, 100);
	}
	while (mine && ws_tee_pass_on(starved->tee, 0))
		;
	if (starved->tee && !mine)
		ws_tee_copy_rest(starved->tee);
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void give_up(void)
{
	static atomic_flag entered = ATOMIC_FLAG_INIT;
	const struct ws_starved *starved = watched;
	int status;

	while (atomic_flag_test_and_set(&entered)) { /* another thread does it */
		if (starved->tee && ws_tee_is_this_thread(starved->tee))
			ws_tee_copy_on(starved->tee);
		pause();
	}
	if (starved->tee)
		ws_tee_forget(starved->tee);
	if (!starved->target) {
		say_why("nothing was run");
		remove_traces(starved);
		ws_cleanup_remove_scratch();
		_exit(1);
	}
	if (starved->area->arena)
		atomic_store(&starved->area->arena->closed, 1);
	say_why("the recording ends here, the target goes on");
	status = wait_for_target(starved);
	if (starved->area->path[0])
		unlink(starved->area->path);
	if (starved->kept_old)
		unlink(starved->kept_old);
	ws_cleanup_remove_scratch();
	_exit(status);
}

void ws_starved_watch(struct ws_starved *starved)
{
	watched = starved;
	if (starved) {
		handler_before = ws_out_of_memory;
		ws_out_of_memory = give_up;
	} else {
		ws_out_of_memory = handler_before;
	}
}
