/*
 * gpm.h - what NVML tells of a GPU of Hopper or later without its counters being taken (GPM): the
 * most important metrics, some times a second. It needs no rights and shares the GPU with other
 * tools.
 */
#ifndef WS_METRICS_GPM_H
#define WS_METRICS_GPM_H

#include <stdbool.h>
#include <stdint.h>

#define WS_GPM_PERIOD_NS UINT64_C(100000000) /* between two readings, at least */

struct ws_gpm;

/* The GPU with this UUID; NULL where NVML or the GPU cannot do it. */
struct ws_gpm *ws_gpm_open(const char *uuid);
void ws_gpm_free(struct ws_gpm *gpm);
/* Its metrics: NULL after the last. */
const char *ws_gpm_name(unsigned index, const char **unit);
/* The first reading, or one more: true when `values` (one for each metric; not a number where the
 * GPU does not tell) have been filled with means since the reading before, which was at *since; raw
 * ns. */
bool ws_gpm_read(struct ws_gpm *gpm, float *values, uint64_t *since, uint64_t *now);
/* Forget the reading before. */
void ws_gpm_restart(struct ws_gpm *gpm);
/* The number of the GPU with this UUID in NVML; -1: not known. */
int ws_gpm_find_number(const char *uuid);

enum { WS_GPM_MOST = 16 };

#endif
