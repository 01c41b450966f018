/*
 * overview.c - see overview.h.
 *
 * Rows fall into groups by the columns that schema.h names for their table (ws_table_groups). Of
 * each group in a block stand its count, its first and last moment, the sum of its durations, and
 * that same time cut into WS_GROUP_BINS equal parts with how busy each was. Two passes over the
 * staged rows, some nanoseconds a row: the group of each, which mostly is that of the row before;
 * then the parts, where an event costs the same whether it covers one or all (sums of differences).
 *
 * A reader believes nothing: a summary that does not fit its block in every number is as good as
 * none.
 */
#include "store/overview.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/choose.h"
#include "base/slots.h"
#include "base/sort.h"

/* A block of more groups than that, or than a sixteenth of its rows, costs less to read than to sum
 * up. */
enum { MOST_GROUPS = 4096, ALWAYS_GROUPS = 64, ROWS_PER_GROUP = 16, SLOTS = MOST_GROUPS * 4 };

struct summary_head {
	uint32_t table, rows;
	uint64_t first;
	uint16_t keys, columns[WS_GROUP_KEYS];
	uint16_t spare;
	uint32_t groups;
};
struct summary_group { /* as stored; keys and bins stand after all of them */
	uint64_t first, last, busy;
	uint32_t rows, spare;
};

void ws_overview_free(struct ws_overview *overview)
{
	free(overview->group);
	free(overview->slots);
	free(overview->of);
	ws_bytes_free(&overview->pending);
	*overview = (struct ws_overview){0};
}

/* ---- groups of rows ---- */

struct sum {
	struct ws_overview *overview;
	const char *rows;
	uint32_t n, size, keys, most;
	uint16_t offset[WS_GROUP_KEYS];
	uint8_t bytes[WS_GROUP_KEYS];
	int start, end; /* offsets; end -1: moments */
};

static inline uint64_t time_at(const char *row, int offset)
{
	uint64_t v;

	memcpy(&v, row + offset, 8);
	return v;
}

static inline void key_of(const struct sum *sum, const char *row, uint32_t key[WS_GROUP_KEYS])
{
	memset(key, 0, WS_GROUP_KEYS * sizeof(*key));
	for (uint32_t k = 0; k < sum->keys; k++)
		if (sum->bytes[k] == 1)
			key[k] = *(const uint8_t *)(row + sum->offset[k]);
		else
			memcpy(&key[k], row + sum->offset[k], 4);
}

static uint32_t *slot_of(struct ws_overview *overview, const uint32_t key[WS_GROUP_KEYS])
{
	uint64_t h = 0;

	for (int k = 0; k < WS_GROUP_KEYS; k++)
		h = ws_hash_word(h, key[k]);
	for (size_t at = h % SLOTS;; at = (at + 1) % SLOTS)
		if (!overview->slots[at] || !memcmp(overview->group[overview->slots[at] - 1].key,
						    key, sizeof(overview->group->key)))
			return &overview->slots[at];
}

/* Number of the group, or UINT32_MAX when there are too many. */
static uint32_t group_of(const struct sum *sum, const uint32_t key[WS_GROUP_KEYS])
{
	struct ws_overview *overview = sum->overview;
	uint32_t *slot = slot_of(overview, key);

	if (*slot)
		return *slot - 1;
	if (overview->groups == sum->most)
		return UINT32_MAX;
	ws_grow(overview->group, overview->group_cap, overview->groups + 1);
	overview->group[overview->groups] = (struct ws_overview_group){.first = UINT64_MAX};
	memcpy(overview->group[overview->groups].key, key, sizeof(overview->group->key));
	*slot = ++overview->groups;
	return *slot - 1;
}

/* When a row ended; one that did not end, or before it began, counts as a moment. */
static inline uint64_t end_of(const struct sum *sum, const char *row, uint64_t start)
{
	uint64_t end = sum->end >= 0 ? time_at(row, sum->end) : start;

	return end == WS_NO_TIME || end < start ? start : end;
}

static bool find_groups(struct sum *sum)
{
	uint32_t last[WS_GROUP_KEYS] = {0}, key[WS_GROUP_KEYS], i = UINT32_MAX;
	const char *row = sum->rows;

	for (uint32_t n = 0; n < sum->n; n++, row += sum->size) {
		uint64_t start = time_at(row, sum->start), end = end_of(sum, row, start);
		struct ws_overview_group *group;

		key_of(sum, row, key);
		if (i == UINT32_MAX || memcmp(key, last, sizeof(key))) {
			i = group_of(sum, key);
			if (i == UINT32_MAX)
				return false;
			memcpy(last, key, sizeof(key));
		}
		sum->overview->of[n] = (uint16_t)i;
		group = &sum->overview->group[i];
		group->rows++;
		group->first = ws_min(start, group->first);
		group->last = ws_max(end, group->last);
		group->busy += end - start;
	}
	return true;
}

/* ---- how busy ---- */

struct bins {
	double part[WS_GROUP_BINS];	  /* of the time at the ends of events */
	int32_t whole[WS_GROUP_BINS + 1]; /* differences of how many events cover a bin wholly */
	uint32_t starts[WS_GROUP_BINS];
	uint64_t first;
	double width;
};

static inline void add_event(struct bins *bins, uint64_t start, uint64_t end)
{
	double x = (double)(start - bins->first) / bins->width,
	       y = (double)(end - bins->first) / bins->width;
	uint32_t i = (uint32_t)x, k = (uint32_t)y;

	i = i < WS_GROUP_BINS ? i : WS_GROUP_BINS - 1;
	k = k < WS_GROUP_BINS ? k : WS_GROUP_BINS - 1;
	bins->starts[i]++;
	if (i == k) {
		bins->part[i] += y - x;
		return;
	}
	bins->part[i] += i + 1 - x;
	bins->part[k] += y - k;
	bins->whole[i + 1]++;
	bins->whole[k]--;
}

/* A bin in which anything is, or begins, is not 0. */
static void put_bins(const struct bins *bins, uint8_t *out)
{
	int64_t whole = 0;

	for (int i = 0; i < WS_GROUP_BINS; i++) {
		double v;

		whole += bins->whole[i];
		v = (bins->part[i] + (double)whole) * 255;
		out[i] = v >= 255 ? 255 : v >= 1 ? (uint8_t)v : v > 0 || bins->starts[i] ? 1 : 0;
	}
}

static void fill_bins(const struct sum *sum, uint8_t *out)
{
	struct bins *bins = ws_calloc(sum->overview->groups, sizeof(*bins));
	const char *row = sum->rows;

	for (uint32_t i = 0; i < sum->overview->groups; i++) {
		const struct ws_overview_group *group = &sum->overview->group[i];

		bins[i].first = group->first;
		bins[i].width = group->last > group->first
					? (double)(group->last - group->first) / WS_GROUP_BINS
					: 1;
	}
	for (uint32_t n = 0; n < sum->n; n++, row += sum->size) {
		uint64_t start = time_at(row, sum->start);

		add_event(&bins[sum->overview->of[n]], start, end_of(sum, row, start));
	}
	for (uint32_t i = 0; i < sum->overview->groups; i++)
		put_bins(&bins[i], out + (size_t)i * WS_GROUP_BINS);
	free(bins);
}

/* ---- a block ---- */

static void put_summary(struct sum *sum, enum ws_table table, const uint8_t *columns,
			uint64_t first)
{
	struct ws_overview *overview = sum->overview;
	struct summary_head summary_head = {.table = table,
					    .rows = sum->n,
					    .first = first,
					    .keys = (uint16_t)sum->keys,
					    .groups = overview->groups};
	size_t bins = (size_t)overview->groups * WS_GROUP_BINS;

	for (uint32_t k = 0; k < sum->keys; k++)
		summary_head.columns[k] = columns[k];
	ws_bytes_add(&overview->pending, &summary_head, sizeof(summary_head));
	for (uint32_t i = 0; i < overview->groups; i++) {
		const struct ws_overview_group *group = &overview->group[i];
		struct summary_group x = {group->first, group->last, group->busy, group->rows, 0};

		ws_bytes_add(&overview->pending, &x, sizeof(x));
	}
	for (uint32_t i = 0; i < overview->groups; i++)
		ws_bytes_add(&overview->pending, overview->group[i].key,
			     sum->keys * sizeof(uint32_t));
	fill_bins(sum, ws_bytes_room(&overview->pending, bins));
	overview->pending.len += bins;
	overview->summaries++;
}

static bool sum_begin(struct sum *sum, struct ws_overview *overview, enum ws_table table,
		      const void *rows, uint32_t n, const uint8_t *columns)
{
	int start = ws_table_start(table), end = ws_table_end(table);
	uint32_t allowed = n / ROWS_PER_GROUP > ALWAYS_GROUPS ? n / ROWS_PER_GROUP : ALWAYS_GROUPS;

	if (!sum->keys || start < 0)
		return false;
	sum->overview = overview;
	sum->rows = rows;
	sum->n = n;
	sum->size = ws_tables[table].row_size;
	sum->most = ws_min(allowed, MOST_GROUPS);
	sum->start = ws_tables[table].columns[start].offset;
	sum->end = end >= 0 ? ws_tables[table].columns[end].offset : -1;
	for (uint32_t k = 0; k < sum->keys; k++) {
		sum->offset[k] = ws_tables[table].columns[columns[k]].offset;
		sum->bytes[k] = (uint8_t)ws_tables[table].columns[columns[k]].size;
	}
	return true;
}

void ws_overview_add(struct ws_overview *overview, enum ws_table table, const void *rows,
		     uint32_t n, uint64_t first)
{
	uint8_t columns[WS_GROUP_KEYS];
	struct sum sum = {.keys = ws_table_groups(table, columns)};

	if (!sum_begin(&sum, overview, table, rows, n, columns))
		return;
	overview->groups = 0;
	if (!overview->slots)
		overview->slots = ws_malloc(SLOTS * sizeof(*overview->slots));
	memset(overview->slots, 0, SLOTS * sizeof(*overview->slots));
	ws_grow(overview->of, overview->of_cap, n);
	if (find_groups(&sum))
		put_summary(&sum, table, columns, first);
}

bool ws_overview_encode(struct ws_overview *overview, struct ws_encoder *encoder, uint64_t sequence)
{
	struct ws_block_head head = ws_block_head_new(WS_BLOCK_OVERVIEW, sequence);

	if (!overview->summaries)
		return false;
	ws_block_begin(&encoder->out);
	ws_stream_put(&encoder->packer, &encoder->out, overview->pending.bytes,
		      overview->pending.len);
	head.rows = overview->summaries;
	head.raw = overview->pending.len;
	ws_block_end(&encoder->out, &head);
	overview->pending.len = 0;
	overview->summaries = 0;
	return true;
}

/* ---- reading ---- */

/* No recording has more; a few bytes of a hostile file may unpack to gigabytes. */
static const uint64_t MOST_BYTES = UINT64_C(512) << 20;

struct ws_summaries { /* of a report, by table and block */
	struct ws_block_groups *of[WS_TABLE_COUNT];
	uint8_t **memory; /* bytes of overview blocks, which bins point into */
	size_t memories;
	uint64_t bytes; /* of all of it */
};

/* The block of our table `t` that begins at row `first`, or -1. */
static ptrdiff_t block_at(const struct ws_report *report, enum ws_table table, uint64_t first)
{
	size_t low = ws_bisect(report->table[table].n, mid,
			       report->table[table].blocks[mid].head.first < first);

	return low < report->table[table].n && report->table[table].blocks[low].head.first == first
		       ? (ptrdiff_t)low
		       : -1;
}

/* Our table, when the summary's groups are by the columns that this build groups by; else -1. */
static int table_of(const struct ws_report *report, const struct summary_head *summary_head)
{
	const struct ws_file_table *table = summary_head->table < report->schema_tables
						    ? &report->schema[summary_head->table]
						    : NULL;
	uint8_t columns[WS_GROUP_KEYS];

	if (!table || table->table < 0 ||
	    summary_head->keys != ws_table_groups((enum ws_table)table->table, columns))
		return -1;
	for (uint32_t k = 0; k < summary_head->keys; k++)
		if (summary_head->columns[k] >= table->columns ||
		    table->column[summary_head->columns[k]] != columns[k])
			return -1;
	return table->table;
}

static void take_summary(const struct ws_report *report, struct ws_summaries *summaries,
			 const struct summary_head *summary_head, const uint8_t *body)
{
	int t = table_of(report, summary_head);
	ptrdiff_t i = t < 0 ? -1 : block_at(report, (enum ws_table)t, summary_head->first);
	const uint8_t *keys = body + (size_t)summary_head->groups * sizeof(struct summary_group);
	const uint8_t *bins = keys + (size_t)summary_head->groups * summary_head->keys * 4;
	struct ws_block_group *group;
	uint64_t rows = 0;

	if (i < 0 || report->table[t].blocks[i].head.rows != summary_head->rows ||
	    (summaries->of[t] && summaries->of[t][i].groups))
		return;
	group = ws_calloc(summary_head->groups, sizeof(*group));
	for (uint32_t k = 0; k < summary_head->groups; k++) {
		struct summary_group g;

		memcpy(&g, body + (size_t)k * sizeof(g), sizeof(g));
		group[k] = (struct ws_block_group){
			.rows = g.rows, .first = g.first, .last = g.last, .busy = g.busy};
		memcpy(group[k].key, keys + (size_t)k * summary_head->keys * 4,
		       summary_head->keys * 4u);
		group[k].bins = bins + (size_t)k * WS_GROUP_BINS;
		rows += g.rows;
		if (g.last < g.first || !g.rows)
			rows = UINT64_MAX / 2;
	}
	if (rows != summary_head->rows) {
		free(group);
		return;
	}
	if (!summaries->of[t])
		summaries->of[t] = ws_calloc(report->table[t].n, sizeof(*summaries->of[t]));
	summaries->of[t][i] = (struct ws_block_groups){group, summary_head->groups};
}

static void take_summaries(const struct ws_report *report, struct ws_summaries *summaries,
			   const uint8_t *bytes, const uint8_t *end, uint32_t n)
{
	struct summary_head summary_head;

	for (; n && (size_t)(end - bytes) >= sizeof(summary_head); n--) {
		memcpy(&summary_head, bytes, sizeof(summary_head));
		bytes += sizeof(summary_head);
		if (summary_head.keys > WS_GROUP_KEYS || summary_head.groups > MOST_GROUPS ||
		    !summary_head.groups ||
		    (size_t)(end - bytes) / (sizeof(struct summary_group) + summary_head.keys * 4u +
					     WS_GROUP_BINS) <
			    summary_head.groups)
			return;
		take_summary(report, summaries, &summary_head, bytes);
		bytes += summary_head.groups *
			 (sizeof(struct summary_group) + summary_head.keys * 4u + WS_GROUP_BINS);
	}
}

static void load_block(const struct ws_report *report, struct ws_summaries *summaries,
		       const struct ws_block *block, struct ws_workspace *workspace)
{
	bool fits =
		block->head.raw <= WS_MAX_TEXT && summaries->bytes + block->head.raw <= MOST_BYTES;
	const uint8_t *body = fits ? ws_block_body(report, block, workspace, NULL) : NULL;
	struct ws_cut cut = {body, body ? body + block->head.body_bytes : NULL};
	uint8_t *bytes;

	if (!body)
		return;
	summaries->bytes += block->head.raw;
	bytes = ws_malloc(block->head.raw + 1);
	summaries->memory = ws_realloc(summaries->memory,
				       (summaries->memories + 1) * sizeof(*summaries->memory));
	summaries->memory[summaries->memories++] = bytes;
	if (ws_stream_get(workspace->unpacker.z, &cut, bytes, block->head.raw))
		take_summaries(report, summaries, bytes, bytes + block->head.raw, block->head.rows);
}

static struct ws_summaries *load(const struct ws_report *report)
{
	struct ws_summaries *summaries = ws_calloc(1, sizeof(*summaries));
	struct ws_workspace *workspace = ws_workspace_take(report);

	for (size_t i = 0; i < report->all.n; i++)
		if (report->all.blocks[i].head.type == WS_BLOCK_OVERVIEW)
			load_block(report, summaries, &report->all.blocks[i], workspace);
	ws_workspace_give(report, workspace);
	return summaries;
}

struct ws_block_groups ws_report_block_groups(const struct ws_report *report, enum ws_table table,
					      size_t i)
{
	struct ws_report *report_m =
		(struct ws_report *)report; /* what is read of it does not change: only when */

	pthread_mutex_lock(&report_m->group_lock);
	if (!report_m->summaries)
		report_m->summaries = load(report);
	pthread_mutex_unlock(&report_m->group_lock);
	return report_m->summaries->of[table] ? report_m->summaries->of[table][i]
					      : (struct ws_block_groups){NULL, 0};
}

void ws_report_free_groups(struct ws_report *report)
{
	struct ws_summaries *summaries = report->summaries;

	for (uint32_t t = 0; summaries && t < WS_TABLE_COUNT; t++) {
		for (size_t i = 0; summaries->of[t] && i < report->table[t].n; i++)
			free((void *)summaries->of[t][i].groups);
		free(summaries->of[t]);
	}
	for (size_t i = 0; summaries && i < summaries->memories; i++)
		free(summaries->memory[i]);
	if (summaries)
		free(summaries->memory);
	free(summaries);
	report->summaries = NULL;
}
