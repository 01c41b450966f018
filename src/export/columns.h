/*
 * columns.h - a view column by column: for formats that store columns.
 *
 * Blocks of the report are decoded and converted by several threads and handed over in order. Each
 * column arrives as an array of the narrowest type that its source promises, with a bitmap of what
 * is not null; texts arrive as numbers of the report's strings.
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
/* Bytes a value: 0 for NULL, 1, 4 or 8. */
unsigned ws_xtype_width(enum ws_xtype xtype);

/*
 * What the text of a column of StringIds numbers is called: the column's name without Id, or with
 * Value added where that is taken or there is no Id. Owned by the caller.
 */
char *ws_xcolumn_text_name(const struct ws_xtable *table, const struct ws_xcolumn *column);

struct ws_xvector {
	enum ws_xtype type;
	void *data;	/* rows values; what stands for null is arbitrary */
	uint8_t *valid; /* a bit a row, lowest first; NULL when none is null */
	size_t nulls;
	uint8_t *bitmap; /* room for `valid` */
};

struct ws_xbatch {
	const struct ws_xview *view;
	size_t rows; /* never 0 */
	struct ws_xvector col[WS_MAX_COLUMNS];
	uint32_t worker; /* 0 to ws_xcolumns_workers - 1 */
};

struct ws_xcolumns_user {
	/* In parallel: make what will be written, in memory of the worker. */
	int (*make)(void *ctx, const struct ws_xbatch *batch, struct ws_err *err);
	/* One at a time, in order of blocks: write it. May be NULL. */
	int (*put)(void *ctx, const struct ws_xbatch *batch, struct ws_err *err);
	void *ctx;
};

uint32_t ws_xcolumns_workers(void);
/*
 * Go through the view; only columns whose bits are set in `wanted` are made. Damaged blocks are
 * counted in x->damaged. *rows (may be NULL) gets how many rows there were. Returns 0, or -1 with a
 * message.
 */
int ws_xcolumns_run(struct ws_export *export, const struct ws_xview *view, uint64_t wanted,
		    const struct ws_xcolumns_user *user, uint64_t *rows, struct ws_err *err);

#endif
