/*
 * capture.h - what hooks call when the program opens or closes a range that begins and ends
 * collections (struct ws_capture_state in ring.h). Never call these between ws_rt_enter and
 * ws_rt_leave: opening a range may wait.
 */
#ifndef WS_INJECT_CAPTURE_H
#define WS_INJECT_CAPTURE_H

#include "inject/rt.h"

/* Whether to look for such ranges; `trigger` is one of enum ws_trigger. */
WS_EXPORT bool ws_capture_wants(uint32_t trigger);
/* Whether a collection may begin, or has begun: none can before `start` has taken effect. */
WS_EXPORT bool ws_capture_is_armed(void);
/*
 * Open a range. If it is the first in all processes, a collection begins and is on when this
 * returns. While the previous collection is being read out this waits, WS_CAPTURE_WAIT_MS at most.
 */
WS_EXPORT void ws_capture_open(void);
/* Close the range. */
WS_EXPORT void ws_capture_close(void);
/* The same for a range that the process turns on and off any number of times; `open` holds its
 * state. */
WS_EXPORT void ws_capture_turn(_Atomic uint32_t *open, bool on);
/* Note a call of cudaProfilerStart or cudaProfilerStop; both CUPTI and an interposed symbol may
 * report it.
 */
WS_EXPORT void ws_capture_turn_profiler(bool on);
/* Set by the CUDA hook: called when collecting has been turned on or off by this process, before
 * the call that did so returns. */
WS_EXPORT extern void (*_Atomic ws_capture_switched)(bool on);

#endif
