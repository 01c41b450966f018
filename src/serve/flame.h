/* flame.h - profiles that only the time line's lanes can make; ws_api_flame shows them like
 * query/profile.h's. */
#ifndef WS_SERVE_FLAME_H
#define WS_SERVE_FLAME_H

#include "query/profile.h"
#include "serve/api.h"

struct ws_flame_window {
	int64_t t0, t1; /* session times */
	bool by_stack;
};

/*
 * Work on GPUs that touches a window, below what was under way where it was launched: ranges and
 * operators, or with `by_stack` the launch's call stack where one was recorded, else
 * calls of Python and operators. 0, or non-zero with a sentence. *unread: rows that are being read,
 * without which the answer is. Free `profile` with ws_profile_free in any case.
 */
int ws_flame_gpu(struct ws_api_call *call, const struct ws_flame_window *window,
		 struct ws_profile *profile, uint32_t *unread, struct ws_err *err);

#endif
