/* other.c - an allocator that a user preloads, as jemalloc and tcmalloc are: it hands on to the C
 * library's. */
#include <stddef.h>

__attribute__((visibility("default"))) void *malloc(size_t bytes);
void *__libc_malloc(size_t bytes);

void *malloc(size_t bytes)
{
	return __libc_malloc(bytes);
}
