/*
 * closer.h - closes, in a thread of its own, descriptors that take long to close.
 */
#ifndef WS_RECORD_CLOSER_H
#define WS_RECORD_CLOSER_H

#include <stddef.h>

struct ws_closer;

/* Add a descriptor, which then belongs to the closer. Makes a closer when given NULL. */
struct ws_closer *ws_closer_add(struct ws_closer *closer, int fd);
/* Unmap a buffer once the descriptors are closed. */
struct ws_closer *ws_closer_add_mapping(struct ws_closer *closer, void *address, size_t bytes);
/* Begin to close them; when no thread can be started, they are closed before this returns. */
void ws_closer_start(struct ws_closer *closer);
/* Wait until all are closed and free the closer. NULL is fine. */
void ws_closer_join(struct ws_closer *closer);

#endif
