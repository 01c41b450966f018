/*
 * overview.h - a summary of a block of rows in a few numbers: how many rows each thread, stream,
 * core... has, when they were and how busy that time was. Written beside the blocks (overview
 * blocks), so that a report of any size can be shown without reading its rows. Private to store/;
 * store.h has what readers call.
 */
#ifndef WS_OVERVIEW_H
#define WS_OVERVIEW_H

#include "store/encode.h"
#include "store/report.h"

/* ---- writing ---- */

struct ws_overview_group {
	uint32_t key[WS_GROUP_KEYS];
	uint32_t rows;
	uint64_t first, last, busy;
};

struct ws_overview {
	struct ws_overview_group *group; /* of the block at hand */
	uint32_t groups, group_cap;
	uint32_t *slots; /* hash of groups: number + 1 */
	uint16_t *of;	 /* by row: its group */
	size_t of_cap;
	struct ws_bytes pending; /* summaries that are in no block yet */
	uint32_t summaries;
};

void ws_overview_free(struct ws_overview *overview);
/* Sum up a block: `count` rows of `table`, before which `first` are in the report. Blocks of tables
 * without groups, or with too many, are left out. */
void ws_overview_add(struct ws_overview *overview, enum ws_table table, const void *rows,
		     uint32_t count, uint64_t first);
/* Encode what is pending into encoder->out; false when there is nothing. */
bool ws_overview_encode(struct ws_overview *overview, struct ws_encoder *encoder,
			uint64_t sequence);

/* Renumber the pending sums after `dropped` rows of each table before their blocks have been
 * removed. */
void ws_overview_renumber(struct ws_bytes *sums, const uint64_t dropped[WS_TABLE_COUNT]);

/* ---- reading ---- */

void ws_report_free_groups(struct ws_report *report);

#endif
