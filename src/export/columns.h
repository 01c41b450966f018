/*
 * columns.h - reading a view column by column, for formats that store columns.
 *
 * Several threads decode and convert blocks of the report, and hand them over in order. Each column
 * arrives as an array of the narrowest type that its source promises, with a bitmap of the rows
 * that are not null; texts arrive as ids of the report's strings.
 */
#ifndef WS_EXPORT_COLUMNS_H
#define WS_EXPORT_COLUMNS_H

#include "views/view.h"

enum ws_vector_type {
	WS_VECTOR_NULL, /* never filled */
	WS_VECTOR_U8,
	WS_VECTOR_U32,
	WS_VECTOR_I32,
	WS_VECTOR_U64,
	WS_VECTOR_I64,
	WS_VECTOR_F64,
	WS_VECTOR_STRING, /* uint32_t: number in StringIds; 0 or null for none */
	WS_VECTOR_TEXT,	  /* uint32_t: the text of this number */
	WS_VECTOR_BLOB,	  /* uint32_t: the bytes of this string */
};

enum ws_vector_type ws_find_vector_type(const struct ws_table_view *view,
					const struct ws_view_column *column);
/* Bytes of a value: 0 for NULL, 1, 4 or 8. */
unsigned ws_find_vector_width(enum ws_vector_type type);

/*
 * The name for the text of a column of StringIds numbers: the column's name without Id, or with
 * Value added where that name is taken or there is no Id. The caller frees it.
 */
char *ws_make_text_column_name(const struct ws_view_table *table,
			       const struct ws_view_column *column);

struct ws_column_vector {
	enum ws_vector_type type;
	void *data;	/* a value for each row; those of null rows are arbitrary */
	uint8_t *valid; /* a bit for each row, lowest first; NULL when none is null */
	size_t nulls;
	uint8_t *bitmap; /* memory for `valid` */
};

struct ws_column_batch {
	const struct ws_table_view *view;
	size_t rows; /* never 0 */
	struct ws_column_vector columns[WS_MAX_COLUMNS];
	uint32_t worker; /* 0 to ws_count_column_workers - 1 */
};

struct ws_column_consumer {
	/* Called in parallel: make what will be written, in memory of the worker. NULL: nothing. */
	int (*make_batch)(void *ctx, const struct ws_column_batch *batch, struct ws_err *err);
	/* Called one at a time, in order of blocks: write it. May be NULL. */
	int (*put_batch)(void *ctx, const struct ws_column_batch *batch, struct ws_err *err);
	void *context;
};

/* The most workers that ws_scan_columns uses. */
uint32_t ws_count_column_workers(void);
/*
 * Go through the view; only columns whose bits are set in `wanted` are made. Damaged blocks are
 * counted in export->damaged. *rows (may be NULL) gets the number of rows. Returns 0, or -1 with a
 * message.
 */
int ws_scan_columns(struct ws_cell_context *export, const struct ws_table_view *view,
		    uint64_t wanted, const struct ws_column_consumer *user, uint64_t *rows,
		    struct ws_err *err);

#endif
