/*
 * clocks.h - GPUs held at their base clock while kernels are measured (--clock-control base).
 */
#ifndef WS_METRICS_CLOCKS_H
#define WS_METRICS_CLOCKS_H

#include "base/err.h"

struct ws_clocks;

/*
 * Lock the clocks of the GPUs that the program may use (CUDA_VISIBLE_DEVICES) to their base clock.
 * A process of its own unlocks them: when told, or when this process has ended in whatever way.
 * NULL with a message when they cannot be locked; then none is.
 */
struct ws_clocks *ws_clocks_lock(struct ws_err *err);
/* Unlock them, and wait until that is done. */
void ws_clocks_unlock(struct ws_clocks *clocks);

#endif
