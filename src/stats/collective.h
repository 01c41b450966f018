/*
 * collective.h - what collectives move: the sizes that follow from an operation's name and its
 * message, and the bandwidths that NCCL's tests compute from them.
 */
#ifndef WS_STATS_COLLECTIVE_H
#define WS_STATS_COLLECTIVE_H

#include <stdint.h>

enum ws_collective_pattern {
	WS_COLLECTIVE_OTHER,
	WS_COLLECTIVE_SAME, /* input and output have the same size */
	WS_COLLECTIVE_ALL_REDUCE,
	WS_COLLECTIVE_ALL_TO_ALL,
	WS_COLLECTIVE_ALL_GATHER,
	WS_COLLECTIVE_REDUCE_SCATTER,
	WS_COLLECTIVE_ROOTED, /* one rank gathers from all, or scatters to all */
};

/* Bytes per element, from the framework's name for its type; 0 when it is not known. */
unsigned ws_get_collective_type_size(const char *name);
/* The pattern of an operation. Frameworks write names in several ways: allreduce, all_reduce,
 * _allgather_base. */
enum ws_collective_pattern ws_find_collective_pattern(const char *name);

/* Sizes as NCCL's tests count them, in bytes. */
struct ws_collective_work {
	long double algorithm; /* the whole message, which algorithm bandwidth refers to */
	long double bus;       /* least that each rank sends; negative when not known */
};
/* `bytes` is the message as NCCL counts it (tables.def); `ranks` 0 when not known. */
struct ws_collective_work ws_compute_collective_work(enum ws_collective_pattern pattern,
						     long double bytes, long double ranks);

#endif
