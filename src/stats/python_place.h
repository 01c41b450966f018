/* python_place.h - where Python functions are defined, as their ranges say. */
#ifndef WS_STATS_PYTHON_PLACE_H
#define WS_STATS_PYTHON_PLACE_H

#include "stats/stats.h"

struct ws_python_place {
	struct ws_text module, at; /* `at` is "FILE:LINE" */
};

/* Read it from the arguments of a range, a string id; *place must be zero. What is not known is
 * empty. ws_free_python_place frees it. */
void ws_read_python_place(const struct ws_report *report, uint64_t args,
			  struct ws_python_place *place);
void ws_free_python_place(struct ws_python_place *place);

#endif
