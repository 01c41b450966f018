/*
 * priority.c - see priority.h.
 *
 * A target that keeps every core busy must not starve the recorder, which empties its rings. But
 * while a thread of high priority works, the kernel counts its core as full several times over, and
 * leaves the target's threads crowded on the others for a tenth of a second, even if it worked only
 * for some milliseconds, as at the start of a recording. So the priority is raised once a second
 * round in a row finds more than it should, and given back when there has been little for a while.
 */
#include "record/priority.h"

#include <errno.h>
#include <sys/resource.h>

#define RAISED_NICE (-10)
#define RAISED_NS 1000000000u /* for this long after the last round that found much */

static void raise_priority(struct ws_priority *priority)
{
	errno = 0;
	priority->usual = getpriority(PRIO_PROCESS, 0);
	if (errno || priority->usual <= RAISED_NICE || setpriority(PRIO_PROCESS, 0, RAISED_NICE))
		priority->refused = true; /* it only helps, so this does not matter */
	else
		priority->raised = true;
}

void ws_priority_follow(struct ws_priority *priority, bool behind, uint64_t now)
{
	bool again = behind && priority->behind;

	priority->behind = behind;
	if (again && !priority->raised && !priority->refused)
		raise_priority(priority);
	if (behind)
		priority->until = now + RAISED_NS;
	if (!priority->raised || now < priority->until)
		return;
	setpriority(PRIO_PROCESS, 0, priority->usual);
	priority->raised = false;
}
