/*
 * limits.h - what limits the processors: the quota of the control group and how long it was
 * throttled, throttling because of heat, and which cores and GPUs belong to which NUMA node. Rows
 * of the meta table:
 *
 *   cpu.quota            processors that the control group may use, such as 1.50
 *   cpu.throttled_us     how long it was throttled meanwhile, summed over processors
 *   cpu.throttled        in how many periods
 *   cpu.heat_throttles   how often processors were slowed down for their heat meanwhile
 *   cpu.nodes            cores of the nodes, "0-15;16-31"; only where there are several
 *   gpu.nodes            nodes of the GPUs, "0000:18:00.0=0;0000:86:00.0=1"
 */
#ifndef WS_RECORD_LIMITS_H
#define WS_RECORD_LIMITS_H

#include "record/sink.h"

/* Write what does not change, and note the current counts. */
void ws_limits_begin(struct ws_sink *sink, struct ws_throttling *begun);
/* Write the changes since then. */
void ws_limits_end(struct ws_sink *sink, const struct ws_throttling *begun);

#endif
