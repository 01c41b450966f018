/* schema.c - the descriptions that tables.def expands to, and generic access to rows. */
#include "schema/schema.h"

#include <string.h>

#define WS_TABLE(table, sqlite, doc) static const struct ws_column_desc columns_##table[] = {
#define WS_COLUMN(table, column, type, sqlite, doc) \
	{#column,                                   \
	 sqlite,                                    \
	 doc,                                       \
	 WS_T_##type,                               \
	 offsetof(struct ws_row_##table, column),   \
	 sizeof(((struct ws_row_##table *)0)->column)},
#define WS_END(table) \
	}             \
	;
#include "schema/tables.def"

#define WS_STAGED(table, rows) [WS_TABLE_##table] = rows,
const uint32_t ws_staged_rows[WS_TABLE_COUNT] = {
#include "schema/tables.def"
};

#define WS_LASTS(table) [WS_TABLE_##table] = true,
const bool ws_lasting_tables[WS_TABLE_COUNT] = {
#include "schema/tables.def"
};

#define WS_TABLE(table, sqlite, doc) \
	{#table, sqlite, doc, columns_##table, ws_##table##_COLUMNS, sizeof(struct ws_row_##table)},
const struct ws_table_desc ws_tables[WS_TABLE_COUNT] = {
#include "schema/tables.def"
};

const struct ws_type_desc ws_types[] = {
#define WS_TYPE(name, ctype, is_signed, doc) {#name, doc, sizeof(ctype), is_signed},
	WS_TYPES(WS_TYPE)
#undef WS_TYPE
};

int ws_table_track(enum ws_table table)
{
	for (uint32_t i = 0; i < ws_tables[table].column_count; i++) {
		enum ws_type type = ws_tables[table].columns[i].type;

		if (type == WS_T_THREAD || type == WS_T_PROCESS)
			return (int)i;
	}
	return -1;
}

int ws_table_start(enum ws_table table)
{
	int c = ws_column_find(table, "start");

	return c >= 0 ? c : ws_column_find(table, "raw");
}

int ws_table_end(enum ws_table table)
{
	return ws_column_find(table, "end");
}

uint64_t ws_row_get(enum ws_table table, const void *row, uint32_t c)
{
	const struct ws_column_desc *desc = &ws_tables[table].columns[c];
	const char *at = (const char *)row + desc->offset;

	switch (desc->size) {
	case 1:
		return *(const uint8_t *)at;
	case 4: {
		uint32_t v;

		memcpy(&v, at, 4);
		return ws_types[desc->type].is_signed ? (uint64_t)(int64_t)(int32_t)v : v;
	}
	default: {
		uint64_t v;

		memcpy(&v, at, 8);
		return v;
	}
	}
}

void ws_row_set(enum ws_table table, void *row, uint32_t c, uint64_t value)
{
	const struct ws_column_desc *desc = &ws_tables[table].columns[c];
	char *at = (char *)row + desc->offset;

	switch (desc->size) {
	case 1:
		*(uint8_t *)at = (uint8_t)value;
		break;
	case 4: {
		uint32_t v = (uint32_t)value;

		memcpy(at, &v, 4);
		break;
	}
	default:
		memcpy(at, &value, 8);
	}
}

int ws_table_find(const char *name)
{
	for (int t = 0; t < WS_TABLE_COUNT; t++)
		if (!strcmp(ws_tables[t].name, name))
			return t;
	return -1;
}

int ws_column_find(enum ws_table table, const char *name)
{
	for (uint32_t i = 0; i < ws_tables[table].column_count; i++)
		if (!strcmp(ws_tables[table].columns[i].name, name))
			return (int)i;
	return -1;
}
