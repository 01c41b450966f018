/* same_things.h - whether a line of Python that runs again and again works on the same thing each
 * time, by the text around it. */
#ifndef WS_ANALYZE_SAME_THINGS_H
#define WS_ANALYZE_SAME_THINGS_H

#include <stdbool.h>
#include <stdint.h>

enum ws_scope { WS_SCOPE_LOOP, WS_SCOPE_FUNCTION };

/*
 * Whether a line calls one of `calls` (NULL-terminated) with names that are not bound within the
 * scope around it: ".sort(" takes what stands before it, "loads(" its first argument. Arguments
 * that are calls themselves, or texts with values in them, may be others each time. False where the
 * file cannot be read or was changed after `until`.
 */
bool ws_takes_same_things(const char *path, uint32_t line, uint64_t until, const char *const *calls,
			  enum ws_scope scope);

/* Whether the function around a line calls itself (by `name`) twice or more for smaller or larger
 * numbers, and what it returns is made of both: ways(n - 1) + ways(n - 2). */
bool ws_recurses_by_steps(const char *path, uint32_t line, uint64_t until, const char *name);

#endif
