/*
 * stats.h - statistical reports: how a report is declared, and how the reports of a file are made.
 *
 * A report is one declaration in one file (nvtx_sum.c...): its name, its columns with the kind of
 * their values, and the function that computes its rows. reports.c lists them. Headers, units,
 * formats, --help-reports and the order of columns all come from the declaration.
 */
#ifndef WS_STATS_STATS_H
#define WS_STATS_STATS_H

#include "query/fold.h"
#include "query/query.h"
#include "print/table.h"

/* All files that a command was given, for reports that join them. They are opened when the first
 * such report is made. Zero it but for the first two members. */
struct ws_stats_files {
	const char *const *paths;
	size_t count;
	struct ws_mpi_source *sources;
	size_t open;
	struct ws_mpi_messages *messages; /* NULL until they are opened */
};

void ws_close_stats_files(struct ws_stats_files *files);

/* One report file being summarised. */
struct ws_stats {
	struct ws_stats_files *files; /* NULL: this one only */
	size_t file;		      /* its place among them */
	size_t most_rows;	      /* of reports that are made without being asked for; 0: all */
	const struct ws_report *report;
	struct ws_names_by_id *who;
	const struct ws_fold *fold;  /* groups names that summaries treat as one; NULL: none */
	uint64_t zero;		     /* session time in ns that is shown as 0 */
	uint64_t time_min, time_max; /* the window asked for, in ns on the session clock: rows
					whose span touches it count */
	bool windowed;		     /* a window was asked for */
	const char *args;   /* what the user wrote after the report's name, ":base:nvtx-name", or
			       "" */
	uint64_t damaged;   /* blocks that could not be read; rows in them are missing */
	uint64_t unended;   /* ranges or calls that never ended, which a summary leaves out */
	uint64_t backwards; /* rows whose end is before their start, left out */
	const char *lacks;  /* what an argument needs and the file lacks ("steps"), which messages
			       name instead of ws_stats_report.what; or NULL */
	/* Hand one row of the report being made to the output. */
	void (*row)(struct ws_stats *stats, const struct ws_cell *cells);
	/* Hand over many rows, which all cores compute; see ws_print_rows. */
	void (*rows)(struct ws_stats *stats, size_t count,
		     size_t (*make)(const void *context, size_t i, struct ws_cell *cells,
				    struct ws_text *text),
		     const void *context);
};

struct ws_stats_report {
	const char *name, *title, *about;
	const char *what; /* what its rows are made from, for messages: "NVTX ranges" */
	/* Why a file has none of these (see query/absent.h); NULL where no reason can be found. */
	const char *(*explain_absence)(const struct ws_report *report);
	bool shows_states;   /* whether rows come from threads whose records may have been lost */
	bool by_default;     /* made when no report is asked for */
	bool without_gpu;    /* also a default report for files without work on a GPU */
	const char *unended; /* how messages describe rows without an end; NULL for "never ended" */
	const char *const *args; /* arguments it takes, ended by NULL; one that ends in = takes a
				    number, one that ends in =* a text. NULL for none */
	const struct ws_column *columns;
	size_t column_count;
	const char *last_column_arg; /* without this argument the last column, which rows always
					have, is not shown; NULL: it always is */
	/* Compute the rows and hand them over. Returns 0, or -1 with a message. */
	int (*run)(struct ws_stats *stats, struct ws_err *err);
};

/* Count a row that is left out: its end is missing or before its start. */
static inline void ws_count_left_out(uint64_t end, uint64_t *unended, uint64_t *backwards)
{
	if (end == WS_NO_TIME)
		++*unended;
	else
		++*backwards;
}

/* The same, for counters shared by several threads. */
static inline void ws_count_left_out_shared(uint64_t end, uint64_t *unended, uint64_t *backwards)
{
	if (end == WS_NO_TIME)
		__atomic_fetch_add(unended, 1, __ATOMIC_RELAXED);
	else
		__atomic_fetch_add(backwards, 1, __ATOMIC_RELAXED);
}

extern const struct ws_stats_report *const ws_stats_list[]; /* ended by NULL */
/* The report of this name, which may be one that the reference tool used in the past; NULL when
 * there is none. */
const struct ws_stats_report *ws_find_stats_report(const char *name);
/* Why a report that only the reference tool has is not made here, as the end of a message "NAME
 * skipped: "; NULL for other names. */
const char *ws_get_stats_elsewhere_reason(const char *name);
/* The argument `name`, as the report declares it; NULL when it was not given. Of one that ends in =
 * or =*, the text after it, which ends at a colon or at the end; else "". */
const char *ws_get_stats_arg(const struct ws_stats *stats, const char *name);
/* The number of the argument `name`, which ends in =; `fallback` when it was not given. */
uint64_t ws_get_stats_arg_number(const struct ws_stats *stats, const char *name, uint64_t fallback);

struct ws_user_reports;

/* What to make of a file. Report i has format i and output i; the last format and the last output
 * also serve the reports after them. */
struct ws_stats_request {
	const char *const *reports,
		*const *formats, *const *outputs; /* without reports, the default ones are made */
	size_t report_count, format_count, output_count;
	const struct ws_timeunit *unit;	       /* NULL for ns */
	const char *filter_time, *filter_nvtx; /* or NULL */
	enum ws_fold_mode fold_names;
	bool quiet; /* no messages about skipped reports */
	bool overwrite;
	const struct ws_user_reports *user; /* reports written as queries, or NULL */
	bool verbose;			    /* say how much of the file each report read */
	struct ws_stats_files *files;	    /* or NULL */
	bool shares_outputs; /* several files share the outputs, whose names get the files' names */
};

/* Check what does not depend on a file: names of reports and formats, how many there are of each,
 * outputs. Returns 0, or -1 with a message. */
int ws_check_stats_request(const struct ws_stats_request *request, struct ws_err *err);
/*
 * Make the reports of one file, which is number `file` of those of the command; messages go to
 * stderr. Returns 0, -1 when a report could not be made, or WS_OUTPUT_PIPE_CLOSED when the reader
 * of standard output went away, after which the caller should write nothing more.
 */
int ws_make_file_stats(const char *path, size_t file, const struct ws_stats_request *request);

/* What summaries group names by, and what they call the group: names that differ only in numbers
 * may be one (query/fold.h). */
static inline uint32_t ws_get_name_key(const struct ws_stats *stats, uint32_t id)
{
	return ws_fold_key(stats->fold, stats->report, id);
}

static inline const char *ws_get_name(const struct ws_stats *stats, uint32_t id, size_t *length)
{
	return ws_fold_name(stats->fold, stats->report, id, length);
}

#endif
