/*
 * hookable.h - whether our libraries may be named in LD_PRELOAD for a program. Asked by the
 * recorder before the first exec and by the hooks before every later one, so safe in both: no
 * memory, no errno, no call that could be interposed.
 */
#ifndef WS_RING_HOOKABLE_H
#define WS_RING_HOOKABLE_H

#include <stdbool.h>

/*
 * False when the loader of the program at `path` would complain about our libraries or refuse to
 * start it: a program of another word size or processor, or one linked to another C library than
 * glibc. Follows #! lines. A file that cannot be read is taken for hookable, and so is a static
 * program: it has no loader, and what it starts inherits its environment.
 */
bool ws_is_hookable(const char *path);
/*
 * Whether the calling thread, with the rights and the root folder that it has now, can read every
 * library in `preload` (separated by colons) and write the arena at `session`.
 */
bool ws_can_read_hooks(const char *preload, const char *session);

#endif
