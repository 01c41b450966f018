/*
 * maps.h - which module is where in the memory of each process, over time.
 *
 * Fed by the kernel's records (perf's MMAP2, COMM-exec, FORK and EXIT) and by /proc/PID/maps.
 * Samples and call stacks do not arrive in the order of mappings: a mapping that was unmapped or
 * replaced stays known for a while, with the time at which it ended, and lookups name a time. The
 * two sources report the same things at different times: what a scan has seen is not undone by
 * older records. Times are nanoseconds of the session clock; pids are as seen from the recorder.
 * To be used from one thread.
 */
#ifndef WS_SYMBOLS_MAPS_H
#define WS_SYMBOLS_MAPS_H

#include "symbols/module.h"

struct ws_mapping {
	uint64_t start, end; /* when it existed; end is WS_NO_TIME while it does, start is 0 when it
				did before the first scan */
	uint64_t seen; /* when it was last read from /proc/PID/maps, 0: never; older records of it
			  are stale */
	uint64_t base, size, offset;
	uint64_t shift; /* address in the module = address - shift; it may wrap around */
	struct ws_module *module;
	bool used; /* a lookup found it since the process was bound */
};

struct ws_maps;
struct ws_maps_process;

/* `modules` must outlive it. */
struct ws_maps *ws_maps_new(struct ws_modules *modules);
void ws_maps_free(struct ws_maps *maps);

/* An executable mapping appeared (MMAP2). The parts of older ones that it covers end. */
void ws_maps_add_mapping(struct ws_maps *maps, int pid, uint64_t time,
			 const struct ws_mapped_file *what);
/* [base, base + size) was unmapped. */
void ws_maps_remove_range(struct ws_maps *maps, int pid, uint64_t time, uint64_t base,
			  uint64_t size);
/* The process runs another image: all its mappings end, and it loses its binding. */
void ws_maps_record_exec(struct ws_maps *maps, int pid, uint64_t time);
/* `child` began as a copy of `parent`. */
void ws_maps_record_fork(struct ws_maps *maps, int parent, int child, uint64_t time);
/* The process ended. Its map is kept for records that come late, until some hundreds of others have
 * ended too. */
void ws_maps_record_exit(struct ws_maps *maps, int pid, uint64_t time);
/*
 * Read /proc/PID/maps: unknown mappings are added with the start `since` (0: always there), and
 * those that are gone end at `time`. 0, or -1 when it cannot be read (the process is gone, or it is
 * not permitted).
 */
int ws_maps_scan(struct ws_maps *maps, int pid, uint64_t since, uint64_t time);
/* The same from text in the form of /proc/PID/maps that was read elsewhere. Lines that do not parse
 * are left out. */
void ws_maps_scan_text(struct ws_maps *maps, int pid, uint64_t since, uint64_t time,
		       const char *text, size_t n);

/* The process's map, NULL when there is none. It stays valid until ws_maps_record_exit or
 * ws_maps_free. */
struct ws_maps_process *ws_maps_find_process(struct ws_maps *maps, int pid);
/*
 * The mapping that holds `address` at `time`; NULL for none. One that began a moment later also
 * counts if nothing was there before, since records of several cores are not in order. Valid until
 * the map changes.
 */
struct ws_mapping *ws_maps_find_mapping(struct ws_maps_process *process, uint64_t time,
					uint64_t address);
/*
 * For caches: a number that changes whenever lookups at `time` may give other results, never the
 * same for two processes. 0 for a time before the latest change: then a cache must neither be read
 * nor filled.
 */
uint64_t ws_maps_get_version(const struct ws_maps_process *process, uint64_t time);
/* Whether it is worth reading /proc/PID/maps again for an address that was not found. True at most
 * once in some milliseconds of `time`. */
bool ws_maps_is_worth_scanning(struct ws_maps_process *process, uint64_t time);

/*
 * Have `ended` called once, to write its row, for each mapping that a lookup used: when the mapping
 * or the process ends, or with end WS_NO_TIME when the maps are freed. `ctx` is passed on. A
 * process has one binding; a later one replaces it.
 */
void ws_maps_bind(struct ws_maps_process *process,
		  void (*ended)(void *ctx, const struct ws_mapping *mapping), void *ctx);
/* Call `tell` with the context of its process's binding for each mapping that a lookup used and
 * that has not ended (end WS_NO_TIME); they go on. */
void ws_maps_tell_live(struct ws_maps *maps,
		       void (*tell)(void *ctx, const struct ws_mapping *mapping));
/* The context of the binding, NULL without one. */
void *ws_maps_get_binding(const struct ws_maps_process *process);

#endif
