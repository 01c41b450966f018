/*
 * hookable.h - whether our libraries can be named in LD_PRELOAD for a program. The recorder asks
 * before the first exec and the hooks ask before every later one, so the code is safe in both: it
 * allocates no memory, leaves errno alone and makes no call that could be interposed.
 */
#ifndef WS_RING_HOOKABLE_H
#define WS_RING_HOOKABLE_H

#include <stdbool.h>

/* The layer that records Vulkan, as src/inject/vulkan_layer.json names it. */
#define WS_VULKAN_LAYER "VK_LAYER_WARPSIGHT_trace"

/*
 * False when the loader of the program at `path` would complain about our libraries or refuse to
 * start it: a program of another word size or processor, or one linked to a C library other than
 * glibc. Follows #! lines. A file that cannot be read counts as hookable, and so does a static
 * program, which has no loader but whose children inherit its environment.
 */
bool ws_is_hookable(const char *path);
/*
 * Whether the calling thread, with the rights, the root folder and the descriptors that it has now,
 * can read every library in `preload` (separated by colons) and write the arena at `session`.
 */
bool ws_can_read_hooks(const char *preload, const char *session);

#endif
