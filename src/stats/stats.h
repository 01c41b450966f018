/*
 * stats.h - statistical reports: what one is, and how a file's are made.
 *
 * A report is one declaration in one file (nvtx_sum.c...): name, columns with their meaning, the
 * function that computes its rows. reports.c lists them. Headers, units, formats, --help-reports
 * and the order of columns all come from the declaration.
 */
#ifndef WS_STATS_STATS_H
#define WS_STATS_STATS_H

#include "query/query.h"
#include "print/table.h"

/* One report file being summarised. */
struct ws_stats {
	const struct ws_report *report;
	struct ws_who *who;
	uint64_t zero;		     /* times shown count from here */
	uint64_t time_min, time_max; /* the window asked for, on the session clock: rows whose span
					touches it count */
	bool windowed;
	const char
		*args; /* what the user wrote after the report's name, ":base:nvtx-name", or "" */
	uint64_t damaged;   /* blocks that could not be read; rows in them are missing */
	uint64_t unended;   /* ranges or calls that never ended, which a summary leaves out */
	uint64_t backwards; /* rows whose end is before their start, left out */
	const char *lacks;  /* what is missing when an argument needs it ("steps"), instead of
			       ws_stat.what; or NULL */
	/* Hand one row of the report being made to the output. */
	void (*row)(struct ws_stats *stats, const struct ws_cell *cells);
	/* Many at once, made on all cores; see ws_print_rows. */
	void (*rows)(struct ws_stats *stats, size_t count,
		     size_t (*make)(const void *ctx, size_t i, struct ws_cell *cells,
				    struct ws_text *text),
		     const void *ctx);
};

struct ws_stat {
	const char *name, *title, *about;
	const char *what; /* what there is none of when it has no rows: "NVTX ranges" */
	const char *(*why)(
		const struct ws_report *report); /* why there is none: see query/absent.h;
					       NULL when nothing is known */
	bool by_default;			 /* among those made when none is asked for */
	const char *unended; /* what is said of rows without an end, after "of the WHAT: "; NULL for
				"never ended" */
	const char *const *args; /* arguments it takes, ended by NULL; one that ends in = takes a
				    number, in =* a text. NULL for none */
	const struct ws_column *columns;
	size_t column_count;
	int (*run)(struct ws_stats *stats, struct ws_err *err);
};

extern const struct ws_stat *const ws_stats_list[]; /* ended by NULL */
/* The report of this name, or the one that the reference tool once called so; NULL when there is
 * none. */
const struct ws_stat *ws_stat_find(const char *name);
/* Why a report that the reference tool has can have no rows here, as in "NAME skipped: ..."; NULL
 * for other names. */
const char *ws_stat_elsewhere(const char *name);
/* Was the argument given? For one that ends in = or =*, what stands after it, up to a colon or the
 * end; else "". NULL when it was not given. */
const char *ws_stats_arg(const struct ws_stats *stats, const char *name);

struct ws_user_reports;

/* What to make of a file. Lists pair up by position; the last format and output serve the remaining
 * reports. */
struct ws_stats_request {
	const char *const *reports,
		*const *formats, *const *outputs; /* reports may be empty: the defaults */
	size_t report_count, format_count, output_count;
	const struct ws_timeunit *unit;	       /* NULL for ns */
	const char *filter_time, *filter_nvtx; /* or NULL */
	bool quiet;			       /* no messages about skipped reports */
	bool overwrite;
	const struct ws_user_reports *user; /* reports written as queries, or NULL */
	bool verbose;			    /* say how much of the file each report read */
	bool several; /* several files share the outputs: their names go into the file names */
};

/* Check what does not depend on a file: names of reports and formats, counts, outputs. Returns 0,
 * or -1 with a message. */
int ws_stats_check(const struct ws_stats_request *request, struct ws_err *err);
/*
 * Make the reports of one file; messages go to stderr. Returns 0, -1 when anything asked for could
 * not be made, or WS_OUTFILE_PIPE when the reader of standard output went away (then nothing more
 * should be written).
 */
int ws_stats_file(const char *path, const struct ws_stats_request *request);

#endif
