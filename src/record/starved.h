/*
 * starved.h - how a recording ends when the recorder runs out of memory (mem.h): the target must
 * not notice.
 */
#ifndef WS_RECORD_STARVED_H
#define WS_RECORD_STARVED_H

#include <sys/types.h>

struct ws_area;
struct ws_tee;

struct ws_starved {
	struct ws_area *area;
	struct ws_tee *tee;   /* that the target's output goes through; NULL: none */
	const char *report;   /* its path; NULL: there is none yet */
	const char *kept_old; /* another name of the report that it replaces; NULL: none */
	pid_t target;	      /* 0: not started */
	const int *status;    /* to exit with once the target has been waited for elsewhere */
};

/*
 * From now on, a failed allocation ends the program like this: before the target is started, what
 * was made is removed and the status is 1; afterwards hooks are turned off, the target is waited
 * for, and its status is passed on. The report is left as a killed recorder would leave it.
 * `starved` must stay; its members may change. NULL: allocations abort again.
 */
void ws_starved_watch(struct ws_starved *starved);

#endif
