/*
 * warpsight.h - reading warpsight reports (.wsrep) from other programs: libwarpsight.
 *
 * A report holds tables; a table holds columns of numbers, times and texts. Rows come as Arrow
 * record batches through the Arrow C stream interface, which pyarrow, pandas, polars, DuckDB, R and
 * many more take without copying: the values of a batch are the very arrays that decoding made. One
 * batch is one block of the report (65,536 rows at most), decoded when it is asked for.
 *
 *     warpsight_report *r = warpsight_open("train.wsrep");
 *     struct ArrowArrayStream stream;
 *
 *     if (!r || warpsight_stream(r, "cuda_kernel", NULL, &stream))
 *             fprintf(stderr, "%s\n", warpsight_error());
 *
 * Link with -lwarpsight, or with the static library and what `pkg-config --static --libs warpsight`
 * adds.
 *
 * Threads: a report may be used by several threads at once; a stream, like every Arrow stream, by
 * one at a time. A stream and its batches hold on to the report: it may be closed before them.
 * Running out of memory ends the program.
 *
 * Versions: functions and struct members are only ever added, at the end, with a new
 * WARPSIGHT_API_VERSION; what would break a program changes the SONAME. Tables and columns are
 * those of the report format (docs/report-format.md), to which the same holds.
 */
#ifndef WARPSIGHT_H
#define WARPSIGHT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WARPSIGHT_API_VERSION 1

#if defined(__GNUC__)
#define WARPSIGHT_API __attribute__((visibility("default")))
#else
#define WARPSIGHT_API
#endif

/* ---- the Arrow C data and stream interfaces, as Arrow's specification gives them ---- */

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

struct ArrowSchema {
	const char *format;
	const char *name;
	const char *metadata;
	int64_t flags;
	int64_t n_children;
	struct ArrowSchema **children;
	struct ArrowSchema *dictionary;
	void (*release)(struct ArrowSchema *);
	void *private_data;
};

struct ArrowArray {
	int64_t length;
	int64_t null_count;
	int64_t offset;
	int64_t n_buffers;
	int64_t n_children;
	const void **buffers;
	struct ArrowArray **children;
	struct ArrowArray *dictionary;
	void (*release)(struct ArrowArray *);
	void *private_data;
};

#endif

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
	int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
	int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
	const char *(*get_last_error)(struct ArrowArrayStream *);
	void (*release)(struct ArrowArrayStream *);
	void *private_data;
};

#endif

/* ---- the library ---- */

/* WARPSIGHT_API_VERSION of the library that is there, which may be newer than this header; and its
 * version as text. */
WARPSIGHT_API int warpsight_api_version(void);
WARPSIGHT_API const char *warpsight_version(void);

/* What the last call that failed on this thread has to say: one sentence, good until the next
 * failure. */
WARPSIGHT_API const char *warpsight_error(void);

/* ---- reports ---- */

typedef struct warpsight_report warpsight_report;

/* Open a report, one that is still being recorded too (as far as it goes). NULL on failure. Close
 * it with warpsight_close. */
WARPSIGHT_API warpsight_report *warpsight_open(const char *path);
WARPSIGHT_API void warpsight_close(warpsight_report *report); /* NULL is fine */

/* Whether the file was closed properly, with nothing damaged; and sentences on what is missing,
 * NULL past the last. */
WARPSIGHT_API int warpsight_complete(const warpsight_report *report);
WARPSIGHT_API const char *warpsight_damage(const warpsight_report *report, size_t i);

/*
 * Times are nanoseconds on the clock of the session (CLOCK_MONOTONIC_RAW). What users see counts
 * from the start of the collection, `zero`; `last` is the end of the last event. A fact is a row of
 * the table meta, such as "host.name"; NULL when the report does not have it.
 */
WARPSIGHT_API uint64_t warpsight_time_zero(const warpsight_report *report);
WARPSIGHT_API uint64_t warpsight_time_last(const warpsight_report *report);
WARPSIGHT_API const char *warpsight_fact(const warpsight_report *report, const char *name);

/* ---- tables and columns ---- */

enum warpsight_type {
	WARPSIGHT_TIME = 1,   /* nanoseconds on the session clock */
	WARPSIGHT_NUMBER = 2, /* unsigned */
	WARPSIGHT_SIGNED = 3,
	WARPSIGHT_REAL = 4,
	WARPSIGHT_STRING = 5,  /* number of a text, 0 for none */
	WARPSIGHT_THREAD = 6,  /* id of a row of the table thread, 0 for none */
	WARPSIGHT_PROCESS = 7, /* id of a row of the table process, 0 for none */
};

struct warpsight_column {
	const char *name;
	const char *sql_name; /* in SQL and in the SQLite export; "" where that has it in another
				 form */
	const char *doc;
	enum warpsight_type type;
	int nullable;
};

/* Names of tables, NULL past the last; the same in every report. Rows are 0 when there is no such
 * table. */
WARPSIGHT_API const char *warpsight_table(size_t i);
WARPSIGHT_API const char *warpsight_table_doc(const char *table);
WARPSIGHT_API uint64_t warpsight_rows(const warpsight_report *report, const char *table);
/* Column i of a table into *out. Returns 0, or -1 past the last and where there is no such table.
 */
WARPSIGHT_API int warpsight_column(const char *table, size_t i, struct warpsight_column *out);

/* ---- rows ---- */

struct warpsight_scan {
	size_t size;		    /* sizeof(struct warpsight_scan): what the caller knows of it */
	const char *const *columns; /* their names, in the order wanted */
	size_t column_count;	    /* 0 for all */
	uint64_t time_min, time_max; /* only rows whose span touches this one; 0, UINT64_MAX for
					all. Blocks outside are not even read */
	unsigned flags;
};

enum {
	WARPSIGHT_FROM_ZERO = 1, /* times as signed nanoseconds from the start of the collection */
	WARPSIGHT_NUMBERS =
		2, /* texts as their numbers, not as a dictionary: warpsight_string tells them */
};

/*
 * Stream the rows of a table, each batch in order of (thread or process, start). `scan` NULL means
 * all columns of all rows, and no flags. Numbers, threads and processes are uint64, signed ones
 * int64, reals float64; times uint64, or int64 with WARPSIGHT_FROM_ZERO; texts are a dictionary of
 * int64 indices into large_utf8, in which broken UTF-8 has become U+FFFD. Null is null. A damaged
 * block ends the stream with an error (EIO). Returns 0, or -1 (then *out is released).
 */
WARPSIGHT_API int warpsight_stream(warpsight_report *report, const char *table,
				   const struct warpsight_scan *scan, struct ArrowArrayStream *out);

/* The bytes of a text by its number; "" for 0 and for numbers that there are not. Lives as long as
 * the report is open. */
WARPSIGHT_API const char *warpsight_string(const warpsight_report *report, uint32_t number,
					   size_t *len);
WARPSIGHT_API uint32_t warpsight_strings(const warpsight_report *report); /* the highest number */

#ifdef __cplusplus
}
#endif

#endif
