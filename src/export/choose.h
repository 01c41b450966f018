/*
 * choose.h - what is exported of a report: which tables (--tables), which events (--times), on
 * which clock.
 */
#ifndef WS_EXPORT_CHOOSE_H
#define WS_EXPORT_CHOOSE_H

#include "export/export.h"

/*
 * Take the lists of patterns and of time ranges, and the shift, into x. Returns 0, or -1 with a
 * message that names the option. x->zero is set; `epoch` is the real time at that moment, 0 when
 * the report does not tell.
 */
int ws_choose(struct ws_export *x, const struct ws_export_request *q, uint64_t epoch,
	      struct ws_err *e);
void ws_choose_free(struct ws_export *x);
/* Check the same without a report. */
int ws_choose_check(const struct ws_export_request *q, struct ws_err *e);

#endif
