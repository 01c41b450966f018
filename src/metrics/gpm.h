/*
 * gpm.h - metrics that NVML provides for GPUs from Hopper on (GPM): the most important ones,
 * several times a second, without reserving the counters. It needs no rights and shares the GPU
 * with other tools.
 */
#ifndef WS_METRICS_GPM_H
#define WS_METRICS_GPM_H

#include <stdbool.h>
#include <stdint.h>

#define WS_GPM_PERIOD_NS UINT64_C(100000000) /* least time between two readings */

struct ws_gpm;

/* The GPU with this UUID; NULL when NVML or the GPU does not support this. */
struct ws_gpm *ws_gpm_open(const char *uuid);
void ws_gpm_free(struct ws_gpm *gpm);
/* Its metrics; the list ends with NULL. */
const char *ws_gpm_name(unsigned index, const char **unit);
/* Take a reading. True when `values` (one for each metric; NAN where the GPU does not provide it)
 * have been filled with means since the previous reading, which was at *since; raw ns. */
bool ws_gpm_read(struct ws_gpm *gpm, float *values, uint64_t *since, uint64_t *now);
/* Forget the previous reading. */
void ws_gpm_restart(struct ws_gpm *gpm);
/* The number of the GPU with this UUID in NVML; -1 when it is not known. */
int ws_gpm_find_number(const char *uuid);

enum { WS_GPM_MOST = 16 };
/* Whether the GPU with this UUID has NVLinks, none of which is active. The counters of such links
 * may say that they are fully used. */
bool ws_gpm_has_idle_links(const char *uuid);
/* How many of its NVLinks are active; 0 where that is not known. */
unsigned ws_gpm_count_links(const char *uuid);

#endif
