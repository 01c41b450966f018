/*
 * profile_view.h - the tables of the command `report`: where time went by function, flat or as a
 * tree.
 */
#ifndef WS_STATS_PROFILE_VIEW_H
#define WS_STATS_PROFILE_VIEW_H

#include "query/profile.h"
#include "stats/stats.h"

enum ws_view { WS_VIEW_FLAT, WS_VIEW_TOP_DOWN, WS_VIEW_BOTTOM_UP };

struct ws_view_request {
	struct ws_profile_request profile; /* its window is filled in from the filters */
	enum ws_view view;
	bool units;    /* rows are functions, lines or modules; else only processes or threads */
	bool by_total; /* rows in order of total, not self */
	uint64_t depth,
		limit; /* levels of a tree; rows of a table or children of a node; 0 for all */
	double least;  /* leave out rows with a total below this percentage */
	const char *format, *output; /* as for `stats`; NULL for the defaults */
	const struct ws_timeunit *unit;
	const char *filter_time, *filter_nvtx; /* or NULL */
	bool quiet, overwrite;
};

/* Write the table of one file; messages go to stderr. Returns as ws_make_file_stats does. */
int ws_print_profile_view(const char *path, const struct ws_view_request *request);

/*
 * The flat table of a profile, in order of self (or total) weight, then of name.
 * ws_free_profile_rows frees the rows.
 */
struct ws_profile_row {
	const struct ws_flat *flat;
	struct ws_text name;
};
struct ws_profile_row *ws_make_profile_rows(const struct ws_profile *profile, uint32_t roots,
					    bool by_total, size_t *count);
void ws_free_profile_rows(struct ws_profile_row *rows, size_t count);

static inline struct ws_cell ws_make_share_cell(uint64_t part, uint64_t whole)
{
	return ws_cell_real(ws_compute_percent(part, whole));
}

static inline struct ws_cell ws_make_profile_time_cell(const struct ws_profile *profile,
						       uint64_t ns)
{
	return ws_cell_int_if(profile->timed, (int64_t)ns);
}

#endif
