/*
 * askers.h - of two sides that talk to each other, the one that asks: whose code sends something
 * and waits for the answer. The other side, which answers, waits as often, but is only what it was
 * made for. Also which code starts other processes.
 */
#ifndef WS_ANALYZE_ASKERS_H
#define WS_ANALYZE_ASKERS_H

#include "analyze/code.h"
#include "analyze/path.h"

struct ws_asker {
	struct ws_code_place place; /* the line that asks */
	const char *by;		    /* by what: "a proxy of multiprocessing.Manager" */
	double share;		    /* of all samples */
	const char *advice;	    /* what to do about that; NULL where there is nothing special */
};

/* The line of the user's Python with most samples in calls that send and receive, but not below a
 * server's loop. False where there is none. */
bool ws_find_asker(const struct ws_model *model, struct ws_asker *asker);
/* The line of the user's Python with most samples in calls that start processes; zeroed for none.
 */
struct ws_code_place ws_find_process_starter(const struct ws_model *model);
/* Where a thread waited longest in code of the user's, by stacks of its waits; zeroed for nowhere.
 */
struct ws_code_place ws_find_longest_wait(const struct ws_model *model, uint32_t thread);
/* How often the path goes on in another process. */
uint64_t ws_count_crossings(const struct ws_model *model, const struct ws_path *path);
/* How often the program calls one of these functions (NULL-terminated) of the OS runtime; with
 * `piped`, for pipes and sockets only. */
uint64_t ws_count_calls_of(const struct ws_model *model, const char *const *names, bool piped);

#endif
