/*
 * columns.h - reading a view column by column, for formats that store columns.
 *
 * Several threads decode and convert blocks of the report, and hand them over in order. Each column
 * arrives as an array of the narrowest type that its source promises, with a bitmap of what is not
 * null; texts arrive as ids of the report's strings.
 */
#ifndef WS_EXPORT_COLUMNS_H
#define WS_EXPORT_COLUMNS_H

#include "views/view.h"

enum ws_xtype {
	WS_XT_NULL, /* never filled */
	WS_XT_U8,
	WS_XT_U32,
	WS_XT_I32,
	WS_XT_U64,
	WS_XT_I64,
	WS_XT_F64,
	WS_XT_STRING, /* uint32_t: number in StringIds; 0 or null for none */
	WS_XT_TEXT,   /* uint32_t: the text of this number */
	WS_XT_BLOB,   /* uint32_t: the bytes of this string */
};

enum ws_xtype ws_xcolumn_type(const struct ws_xview *view, const struct ws_xcolumn *column);
/* Bytes of a value: 0 for NULL, 1, 4 or 8. */
unsigned ws_xtype_width(enum ws_xtype type);

/*
 * The name for the text of a column of StringIds numbers: the column's name without Id, or with
 * Value added where that name is taken or there is no Id. The caller frees it.
 */
char *ws_xcolumn_text_name(const struct ws_xtable *table, const struct ws_xcolumn *column);

struct ws_xvector {
	enum ws_xtype type;
	void *data;	/* a value for each row; those of null rows are arbitrary */
	uint8_t *valid; /* a bit for each row, lowest first; NULL when none is null */
	size_t nulls;
	uint8_t *bitmap; /* memory for `valid` */
};

struct ws_xbatch {
	const struct ws_xview *view;
	size_t rows; /* never 0 */
	struct ws_xvector col[WS_MAX_COLUMNS];
	uint32_t worker; /* 0 to ws_xcolumns_workers - 1 */
};

struct ws_xcolumns_user {
	/* Called in parallel: make what will be written, in memory of the worker. NULL: nothing. */
	int (*make)(void *ctx, const struct ws_xbatch *batch, struct ws_err *err);
	/* Called one at a time, in order of blocks: write it. May be NULL. */
	int (*put)(void *ctx, const struct ws_xbatch *batch, struct ws_err *err);
	void *ctx;
};

/* The most workers that ws_xcolumns_run uses. */
uint32_t ws_xcolumns_workers(void);
/*
 * Go through the view; only columns whose bits are set in `wanted` are made. Damaged blocks are
 * counted in export->damaged. *rows (may be NULL) gets the number of rows. Returns 0, or -1 with a
 * message.
 */
int ws_xcolumns_run(struct ws_export *export, const struct ws_xview *view, uint64_t wanted,
		    const struct ws_xcolumns_user *user, uint64_t *rows, struct ws_err *err);

#endif
