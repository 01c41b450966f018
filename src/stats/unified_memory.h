/*
 * unified_memory.h - traffic and page faults of unified memory, for the reports that begin with
 * um_.
 */
#ifndef WS_STATS_UNIFIED_MEMORY_H
#define WS_STATS_UNIFIED_MEMORY_H

#include "stats/stats.h"

/* Sums for one address of one process, or over all. */
struct ws_unified_memory_sums {
	uint64_t process, address;
	uint64_t to_device, to_host; /* bytes */
	uint64_t bytes, ns; /* of all traffic that has times, including that between devices */
	uint64_t cpu_faults, gpu_faults;
	bool moved; /* there was traffic: the address belongs to pages that moved */
};

/*
 * Sums by process and address, in that order; page faults belong to the address that was accessed.
 * *count gets their number. Owned by the caller.
 */
struct ws_unified_memory_sums *ws_load_unified_memory(struct ws_stats *stats, size_t *count);

#endif
