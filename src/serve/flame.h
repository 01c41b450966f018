/* flame.h - profiles that only the time line's lanes can make; ws_api_flame shows them like
 * query/profile.h's. */
#ifndef WS_SERVE_FLAME_H
#define WS_SERVE_FLAME_H

#include "query/profile.h"
#include "serve/api.h"

/*
 * Work on GPUs that touches t0..t1 (session times), below what was under way where it was launched:
 * ranges and operators, or with `by_stack` the launch's call stack where one was recorded, else
 * calls of Python and operators. 0, or non-zero with a sentence. *unread: rows that are being read,
 * without which the answer is. Free `p` with ws_profile_free in any case.
 */
int ws_flame_gpu(struct ws_api_call *call, int64_t t0, int64_t t1, bool by_stack,
		 struct ws_profile *profile, uint32_t *unread, struct ws_err *err);

#endif
