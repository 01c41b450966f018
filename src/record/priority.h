/* priority.h - the recorder's own priority: raised only while it has fallen behind. */
#ifndef WS_RECORD_PRIORITY_H
#define WS_RECORD_PRIORITY_H

#include <stdbool.h>
#include <stdint.h>

struct ws_priority {
	bool raised, refused;
	bool behind;	/* the last round left work for another one at once */
	int usual;	/* the nice value to go back to */
	uint64_t until; /* when it has been raised for long enough */
};

/* After each round, at `now` (ws_read_raw_ns): `behind` when there was so much to read that the
 * next round follows at once. Of the calling thread. */
void ws_priority_follow(struct ws_priority *priority, bool behind, uint64_t now);

#endif
