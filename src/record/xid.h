/* xid.h - errors of GPUs that NVIDIA's driver reports in the kernel's log (Xid). */
#ifndef WS_RECORD_XID_H
#define WS_RECORD_XID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct ws_xid;

/* Follow the kernel's log from now on. NULL with a message when it cannot be read. */
struct ws_xid *ws_xid_open(struct ws_err *err);
void ws_xid_close(struct ws_xid *xid); /* NULL does nothing */
/* Whether an error has been reported since this was last called. Looks a few times a second at
 * most; `now` in ns. */
bool ws_xid_look(struct ws_xid *xid, uint64_t now);
/* The number of the error in a record of /dev/kmsg; -1 when it is no such record. */
int ws_xid_parse(const char *record, size_t len);

#endif
