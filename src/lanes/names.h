/* names.h - texts of our own for events that have no name in the report, by number; and functions
 * of frames. */
#ifndef WS_LANES_NAMES_H
#define WS_LANES_NAMES_H

#include "lanes/lane.h"

/* WS_OWN_x and how many: what an enumeration's values are called, from 0 on. */
#define WS_OWN_TEXTS(T)                                                                         \
	T(COPY, 14, "Copy", "Copy host to device", "Copy device to host", "Copy host to array", \
	  "Copy array to host", "Copy array to array", "Copy array to device",                  \
	  "Copy device to array", "Copy device to device", "Copy host to host",                 \
	  "Copy peer to peer", "Migrate host to device", "Migrate device to host",              \
	  "Migrate device to device")                                                           \
	T(MEMSET, 1, "Memset")                                                                  \
	T(GRAPH, 1, "CUDA graph")                                                               \
	T(SYNC, 5, "Wait", "Wait for event", "Stream waits for event", "Wait for stream",       \
	  "Wait for context")                                                                   \
	T(FAULT, 5, "Page faults", "Page faults (read)", "Page faults (write)",                 \
	  "Page faults (atomic)", "Page faults (prefetch)")                                     \
	T(JIT, 4, "Compile for the GPU", "Found in the cache", "Stored in the cache",           \
	  "Compile for the GPU")                                                                \
	T(MODULE, 3, "Module", "Module loaded", "Module unloaded")                              \
	T(GIL, 4, "GIL", "Without the GIL", "Holds the GIL", "Waits for the GIL")               \
	T(STATE, 6, "On a core", "Ready to run", "Preempted", "Waits", "Waits for the GIL",     \
	  "In the kernel")

/* Each list takes n numbers; its first is WS_OWN_x. */
#define WS_OWN_NUMBERS(name, n, ...) WS_OWN_##name, WS_OWN_##name##_LAST = WS_OWN_##name + (n)-1,
enum ws_own_text { WS_OWN_TEXTS(WS_OWN_NUMBERS) WS_OWN_TEXT_COUNT };
#define WS_OWN_COUNTS(name, n, ...) WS_OWN_##name##_N = (n),
enum ws_own_counts { WS_OWN_TEXTS(WS_OWN_COUNTS) };

#endif
