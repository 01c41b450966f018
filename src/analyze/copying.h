/* copying.h - functions that copy objects, by their names; the compiler wrote most of them. */
#ifndef WS_ANALYZE_COPYING_H
#define WS_ANALYZE_COPYING_H

#include <stdbool.h>

#include "base/mem.h"

/* Of a class of C++, "Track::Track(Track const&)", or of Rust, "<Track as
 * core::clone::Clone>::clone"; of the standard library only those that copy all items. */
bool ws_is_copy_constructor(const char *name);
/* The same, and strings; append what is copied: "Track", "std::map". */
bool ws_put_copied_class(const char *name, struct ws_text *text);

#endif
