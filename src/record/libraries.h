/* libraries.h - the libraries whose calls can be traced, as src/inject/libraries declares them. */
#ifndef WS_RECORD_LIBRARIES_H
#define WS_RECORD_LIBRARIES_H

#include <stdbool.h>
#include <stdint.h>

#include "library_numbers.h"

/* The bits (1 << enum ws_library) of those whose word of --trace `is_wanted` says true to. */
uint64_t ws_find_traced_libraries(bool (*is_wanted)(void *context, const char *trace),
				  void *context);
/* The name in that of its hook library, libwarpsight-lib-NAME.so. */
const char *ws_library_hook(unsigned library);

#endif
