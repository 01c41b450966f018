/*
 * shrink.h - mapped files that others may make shorter. Accessing a page beyond the new end would
 * raise SIGBUS; a handler maps zeros there instead. For the tool side: it installs a signal
 * handler.
 */
#ifndef WS_BASE_SHRINK_H
#define WS_BASE_SHRINK_H

#include <stdbool.h>
#include <stddef.h>

/*
 * From now on missing pages of this mapping, which begins on a page boundary, are replaced by
 * zeros; these pages can be written to if `writable`. Up to 8,192 mappings are protected; further
 * ones are not.
 */
void ws_guard_mapping(const void *data, size_t size, bool writable);
/* Before it is unmapped. */
void ws_unguard_mapping(const void *data);

#endif
