/* choose.h - what an export includes: which tables (--tables) and events (--times), and on which
 * clock. */
#ifndef WS_VIEWS_CHOOSE_H
#define WS_VIEWS_CHOOSE_H

#include "views/cells.h"

struct ws_export_choice {
	const char *const *tables, *const *times; /* comma-separated lists, as given */
	size_t table_count, time_count;
	int64_t shift;	/* ns */
	bool normalize; /* times are real times */
};

/*
 * Set the patterns, time ranges and the base of times of `export` from `choice`. Returns 0, or -1
 * with a message that names the option. export->zero must be set; `epoch` is the real time at that
 * moment (ns since 1970), 0 when it is not known. Free with ws_free_choice, after a failure too.
 */
int ws_apply_choice(struct ws_cell_context *export, const struct ws_export_choice *choice,
		    uint64_t epoch, struct ws_err *err);
void ws_free_choice(struct ws_cell_context *export);
/* Check the options alone, without a report. */
int ws_check_choice(const struct ws_export_choice *choice, struct ws_err *err);

#endif
