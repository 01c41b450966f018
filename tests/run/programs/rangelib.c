/* rangelib.c - a library that embeds NVTX by itself, for programs that load one (Python by ctypes)
 * or several. */
#include "warpsight/annotate.h"

__attribute__((visibility("default"))) void lib_push(const char *name)
{
	ws_range_push(name);
}
__attribute__((visibility("default"))) void lib_pop(void)
{
	ws_range_pop();
}
