/*
 * choose.h - what is exported of a report: which tables (--tables), which events (--times), on
 * which clock.
 */
#ifndef WS_VIEWS_CHOOSE_H
#define WS_VIEWS_CHOOSE_H

#include "views/cells.h"

struct ws_choice {
	const char *const *tables, *const *times; /* each a comma-separated list, as given */
	size_t table_count, time_count;
	int64_t shift;	/* ns */
	bool normalize; /* times are real times */
};

/*
 * Take the lists of patterns and of time ranges, and the shift, into x. Returns 0, or -1 with a
 * message that names the option. x->zero is set; `epoch` is the real time at that moment, 0 when
 * the report does not tell.
 */
int ws_choose(struct ws_export *export, const struct ws_choice *choice, uint64_t epoch,
	      struct ws_err *err);
void ws_choose_free(struct ws_export *export);
/* Check the same without a report. */
int ws_choose_check(const struct ws_choice *choice, struct ws_err *err);

#endif
