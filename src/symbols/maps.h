/*
 * maps.h - which module lies where in the memory of each process, over time.
 *
 * Fed by what the kernel tells (perf's MMAP2, COMM-exec, FORK and EXIT records) and by
 * /proc/PID/maps. Samples and call stacks arrive in other orders than mappings: what was unmapped
 * or replaced stays known for a while, with the time it ended, and lookups name a time. The two
 * sources tell the same things at different times: what a scan has seen is not undone by news that
 * are older. Times are nanoseconds of the session clock; pids are as seen from the recorder. Used
 * from one thread.
 */
#ifndef WS_SYMBOLS_MAPS_H
#define WS_SYMBOLS_MAPS_H

#include "symbols/module.h"

struct ws_mapping {
	uint64_t start, end; /* when it was there; end is WS_NO_TIME while it is, start 0 when it
				was there before we looked */
	uint64_t seen; /* when it was last read from /proc/PID/maps; 0: never. Older news of it are
			  stale */
	uint64_t base, size, offset;
	uint64_t shift; /* address in the module = address - shift; what wraps around, wraps back */
	struct ws_module *module;
	bool used; /* a lookup met it since the process was bound */
};

struct ws_maps;
struct ws_maps_process;

/* `modules` must outlive it. */
struct ws_maps *ws_maps_new(struct ws_modules *modules);
void ws_maps_free(struct ws_maps *maps);

/* An executable mapping appeared: MMAP2. What it covers of older ones ends. */
void ws_maps_add(struct ws_maps *maps, int pid, uint64_t time, const struct ws_mapped *what);
/* [base, base + size) was unmapped. */
void ws_maps_remove(struct ws_maps *maps, int pid, uint64_t time, uint64_t base, uint64_t size);
/* The process runs another image: everything before ends. Loses the binding. */
void ws_maps_exec(struct ws_maps *maps, int pid, uint64_t time);
/* `child` has begun as a copy of `parent`. */
void ws_maps_fork(struct ws_maps *maps, int parent, int child, uint64_t time);
/* The process is gone. Its map is kept for records that come late, until some hundreds of others
 * have ended too. */
void ws_maps_exit(struct ws_maps *maps, int pid, uint64_t time);
/*
 * Read /proc/PID/maps: mappings that were not known are added, as from `since` (0: from ever),
 * those that are gone end at `time`. 0, or -1 when it cannot be read (gone, or not permitted).
 */
int ws_maps_scan(struct ws_maps *maps, int pid, uint64_t since, uint64_t time);
/* The same from text in the form of /proc/PID/maps that was read elsewhere; never fails: lines that
 * do not parse are left out. */
void ws_maps_scan_text(struct ws_maps *maps, int pid, uint64_t since, uint64_t time,
		       const char *text, size_t n);

/* The process's map, or NULL when nothing is known of it. Stays valid until ws_maps_exit and
 * ws_maps_free. */
struct ws_maps_process *ws_maps_of(struct ws_maps *maps, int pid);
/*
 * The mapping that holds `address` at `time`; NULL for none. A mapping that began a moment later
 * also counts when nothing was there before: records of several cores are not in order. Valid until
 * the map changes.
 */
struct ws_mapping *ws_maps_find(struct ws_maps_process *process, uint64_t time, uint64_t address);
/*
 * For caches: a number that stands for everything lookups at `time` may give, never the same for
 * two processes; 0 for a time before the latest change, when nothing must be taken from a cache or
 * put into it.
 */
uint64_t ws_maps_version(const struct ws_maps_process *process, uint64_t time);
/* May /proc/PID/maps be worth reading again for an address that was not found? Says yes at most
 * once in some milliseconds of `time`. */
bool ws_maps_worth_scanning(struct ws_maps_process *process, uint64_t time);

/*
 * Have `ended` called for each mapping that was used by a lookup, once, when it ends, or when the
 * process does, or with end WS_NO_TIME when the maps are freed: to write its row. `ctx` is passed
 * on; one binding a process, a later one replaces it.
 */
void ws_maps_bind(struct ws_maps_process *process,
		  void (*ended)(void *ctx, const struct ws_mapping *mapping), void *ctx);
/* The context of the binding, NULL without one. */
void *ws_maps_bound(const struct ws_maps_process *process);

#endif
