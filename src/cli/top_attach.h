/* top_attach.h - the recording that `top --attach` makes for itself. */
#ifndef WS_CLI_TOP_ATTACH_H
#define WS_CLI_TOP_ATTACH_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct ws_top_recording {
	pid_t recorder;
	char *folder, *report; /* of its own; both go at the end */
	int messages;	       /* what it says, a pipe */
	int litter[3];	       /* of base/cleanup.h */
};

/* Have another process of this program record `pid` into a report that is nobody's but ours;
 * returns when the report can be read. -1 with a message. */
int ws_top_begin_recording(struct ws_top_recording *recording, int64_t pid, struct ws_err *err);
/* End it and remove the report. A zeroed one is fine. */
void ws_top_end_recording(struct ws_top_recording *recording);

#endif
