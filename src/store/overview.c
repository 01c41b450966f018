/*
 * overview.c - see overview.h.
 *
 * Rows fall into groups by the columns that schema.h names for their table (ws_table_groups). Each
 * group of a block is stored with its count, its first and last moment, the sum of its durations,
 * and how busy each of WS_GROUP_BINS equal parts of that time was. Two passes over the staged rows
 * take some nanoseconds per row. The first finds the group of each row, which is mostly that of the
 * previous row. The second fills the parts; an event costs the same whether it covers one or all
 * (sums of differences).
 *
 * A reader trusts nothing: if any number in a summary does not fit its block, the summary is
 * treated as missing.
 */
#include "store/overview.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/choose.h"
#include "base/slots.h"
#include "base/sort.h"

/* A block with more groups than this, or more than a sixteenth of its rows, is cheaper to read than
 * to sum up. */
enum { MAX_GROUPS = 4096, ALWAYS_GROUPS = 64, ROWS_PER_GROUP = 16, SLOTS = MAX_GROUPS * 4 };

struct summary_head {
	uint32_t table, rows;
	uint64_t first;
	uint16_t keys, columns[WS_GROUP_KEYS];
	uint16_t reserved;
	uint32_t groups;
};
struct summary_group { /* as stored; keys and bins follow all of them */
	uint64_t first, last, busy;
	uint32_t rows, reserved;
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

struct block_summary {
	struct ws_overview *overview;
	const char *rows;
	uint32_t count, size, keys, max_groups;
	uint16_t offset[WS_GROUP_KEYS];
	uint8_t bytes[WS_GROUP_KEYS];
	/* the keys once more as words of which these bits count, so that they are quickly compared
	 */
	uint16_t word[WS_GROUP_KEYS];
	uint32_t mask[WS_GROUP_KEYS];
	int start, end; /* offsets; end -1: moments */
};

static inline uint64_t read_time(const char *row, int offset)
{
	uint64_t time;

	memcpy(&time, row + offset, 8);
	return time;
}

static inline void read_key(const struct block_summary *summary, const char *row,
			    uint32_t key[WS_GROUP_KEYS])
{
	memset(key, 0, WS_GROUP_KEYS * sizeof(*key));
	for (uint32_t index = 0; index < summary->keys; index++)
		if (summary->bytes[index] == 1)
			key[index] = *(const uint8_t *)(row + summary->offset[index]);
		else
			memcpy(&key[index], row + summary->offset[index], 4);
}

static uint32_t *find_slot(struct ws_overview *overview, const uint32_t key[WS_GROUP_KEYS])
{
	uint64_t hash = 0;

	for (int index = 0; index < WS_GROUP_KEYS; index++)
		hash = ws_hash_word(hash, key[index]);
	for (size_t at = hash % SLOTS;; at = (at + 1) % SLOTS)
		if (!overview->slots[at] || !memcmp(overview->group[overview->slots[at] - 1].key,
						    key, sizeof(overview->group->key)))
			return &overview->slots[at];
}

/* Number of the group, or UINT32_MAX when there are too many. */
static uint32_t find_or_add_group(const struct block_summary *summary,
				  const uint32_t key[WS_GROUP_KEYS])
{
	struct ws_overview *overview = summary->overview;
	uint32_t *slot = find_slot(overview, key);

	if (*slot)
		return *slot - 1;
	if (overview->groups == summary->max_groups)
		return UINT32_MAX;
	ws_grow(overview->group, overview->group_cap, overview->groups + 1);
	overview->group[overview->groups] = (struct ws_overview_group){.first = UINT64_MAX};
	memcpy(overview->group[overview->groups].key, key, sizeof(overview->group->key));
	*slot = ++overview->groups;
	return *slot - 1;
}

/* When a row ended. A row that did not end, or ended before it began, counts as a moment. */
static inline uint64_t event_end(const struct block_summary *summary, const char *row,
				 uint64_t start)
{
	uint64_t end;

	if (summary->end < 0)
		return start;
	end = read_time(row, summary->end);
	if (end == WS_NO_TIME || end < start)
		return start;
	return end;
}

static inline uint32_t read_word(const char *row, uint16_t offset)
{
	uint32_t word;

	memcpy(&word, row + offset, sizeof(word));
	return word;
}

static inline bool have_same_key(const struct block_summary *summary, const char *row,
				 const char *other)
{
	uint32_t differences = 0;

	for (uint32_t index = 0; index < summary->keys; index++)
		differences |= (read_word(row, summary->word[index]) ^
				read_word(other, summary->word[index])) &
			       summary->mask[index];
	return !differences;
}

/* Add up the rows from `from` on that are of one group; returns the number of the row behind them.
 */
static uint32_t sum_run(const struct block_summary *summary, uint32_t from, uint32_t number)
{
	struct ws_overview_group *group = &summary->overview->group[number];
	const char *head = summary->rows + (size_t)from * summary->size, *row = head;
	uint64_t first = group->first, last = group->last, busy = 0;
	uint32_t at = from;

	do {
		uint64_t start = read_time(row, summary->start),
			 end = event_end(summary, row, start);

		summary->overview->of[at] = (uint16_t)number;
		first = ws_min(start, first);
		last = ws_max(end, last);
		busy += end - start;
		row += summary->size;
	} while (++at < summary->count && have_same_key(summary, row, head));
	group->rows += at - from;
	group->first = first;
	group->last = last;
	group->busy += busy;
	return at;
}

static bool find_groups(struct block_summary *summary)
{
	for (uint32_t at = 0; at < summary->count;) {
		uint32_t key[WS_GROUP_KEYS], number;

		read_key(summary, summary->rows + (size_t)at * summary->size, key);
		number = find_or_add_group(summary, key);
		if (number == UINT32_MAX)
			return false;
		at = sum_run(summary, at, number);
	}
	return true;
}

/* ---- how busy ---- */

struct busy_bins {
	double part[WS_GROUP_BINS];	  /* partly covered time, at the ends of events, ns */
	int32_t whole[WS_GROUP_BINS + 1]; /* differences of how many events cover a bin wholly */
	uint32_t starts[WS_GROUP_BINS];
	uint64_t first;
	double width;
	/* the bin of the last event, and which times lie in it */
	uint32_t bin;
	uint64_t bin_from, bin_to;
};

static void add_event(struct busy_bins *bins, uint64_t start, uint64_t end)
{
	double from = (double)(start - bins->first) / bins->width,
	       to = (double)(end - bins->first) / bins->width;
	uint32_t first_bin = (uint32_t)from, last_bin = (uint32_t)to;

	first_bin = ws_min(first_bin, WS_GROUP_BINS - 1u);
	last_bin = ws_min(last_bin, WS_GROUP_BINS - 1u);
	bins->starts[first_bin]++;
	bins->bin = last_bin;
	bins->bin_from = bins->first + (uint64_t)(last_bin * bins->width) + 1;
	bins->bin_to = bins->first + (uint64_t)((last_bin + 1) * bins->width);
	if (first_bin == last_bin) {
		bins->part[first_bin] += (double)(end - start);
		return;
	}
	bins->part[first_bin] += (first_bin + 1 - from) * bins->width;
	bins->part[last_bin] += (to - last_bin) * bins->width;
	bins->whole[first_bin + 1]++;
	bins->whole[last_bin]--;
}

/* Add the rows behind `from` that are of its group and lie in the bin in which that event ended, as
 * most do; returns the number of the row behind them. */
static uint32_t add_neighbours(const struct block_summary *summary, struct busy_bins *bins,
			       uint32_t from)
{
	const uint16_t *of = summary->overview->of;
	const char *row = summary->rows + (size_t)(from + 1) * summary->size;
	uint32_t at = from + 1;
	uint64_t busy = 0;

	for (; at < summary->count && of[at] == of[from]; at++, row += summary->size) {
		uint64_t start = read_time(row, summary->start),
			 end = event_end(summary, row, start);

		if (start < bins->bin_from || end > bins->bin_to)
			break;
		busy += end - start;
	}
	bins->starts[bins->bin] += at - from - 1;
	bins->part[bins->bin] += (double)busy;
	return at;
}

/* A bin in which an event lies or begins is not 0. */
static void put_bins(const struct busy_bins *bins, uint8_t *out)
{
	int64_t whole = 0;

	for (int i = 0; i < WS_GROUP_BINS; i++) {
		double busy;

		whole += bins->whole[i];
		busy = ws_min((bins->part[i] / bins->width + (double)whole) * 255, 255.0);
		if (busy >= 1)
			out[i] = (uint8_t)busy;
		else
			out[i] = busy > 0 || bins->starts[i];
	}
}

static void fill_bins(const struct block_summary *summary, uint8_t *out)
{
	struct busy_bins *bins = ws_calloc(summary->overview->groups, sizeof(*bins));

	for (uint32_t i = 0; i < summary->overview->groups; i++) {
		const struct ws_overview_group *group = &summary->overview->group[i];

		bins[i].first = group->first;
		bins[i].width = 1;
		bins[i].bin_from = UINT64_MAX;
		if (group->last > group->first)
			bins[i].width = (double)(group->last - group->first) / WS_GROUP_BINS;
	}
	for (uint32_t at = 0; at < summary->count;) {
		struct busy_bins *own = &bins[summary->overview->of[at]];
		const char *row = summary->rows + (size_t)at * summary->size;
		uint64_t start = read_time(row, summary->start);

		add_event(own, start, event_end(summary, row, start));
		at = add_neighbours(summary, own, at);
	}
	for (uint32_t i = 0; i < summary->overview->groups; i++)
		put_bins(&bins[i], out + (size_t)i * WS_GROUP_BINS);
	free(bins);
}

/* ---- a block ---- */

static void put_summary(struct block_summary *summary, enum ws_table table, const uint8_t *columns,
			uint64_t first)
{
	struct ws_overview *overview = summary->overview;
	struct summary_head summary_head = {.table = table,
					    .rows = summary->count,
					    .first = first,
					    .keys = (uint16_t)summary->keys,
					    .groups = overview->groups};
	size_t bins = (size_t)overview->groups * WS_GROUP_BINS;

	for (uint32_t index = 0; index < summary->keys; index++)
		summary_head.columns[index] = columns[index];
	ws_bytes_add(&overview->pending, &summary_head, sizeof(summary_head));
	for (uint32_t i = 0; i < overview->groups; i++) {
		const struct ws_overview_group *group = &overview->group[i];
		struct summary_group stored = {group->first, group->last, group->busy, group->rows,
					       0};

		ws_bytes_add(&overview->pending, &stored, sizeof(stored));
	}
	for (uint32_t i = 0; i < overview->groups; i++)
		ws_bytes_add(&overview->pending, overview->group[i].key,
			     summary->keys * sizeof(uint32_t));
	fill_bins(summary, ws_bytes_reserve(&overview->pending, bins));
	overview->pending.len += bins;
	overview->summaries++;
}

/* A word that holds the key: where it would reach beyond the row, the last one of the row. */
static void choose_word(struct block_summary *summary, uint32_t index)
{
	uint32_t offset = summary->offset[index],
		 word = ws_min(offset, summary->size - (uint32_t)sizeof(uint32_t));

	summary->word[index] = (uint16_t)word;
	summary->mask[index] = UINT32_MAX;
	if (summary->bytes[index] == 1) /* on a machine whose words begin with their lowest byte */
		summary->mask[index] = UINT32_C(0xff) << (8 * (offset - word));
}

static bool begin_summary(struct block_summary *summary, struct ws_overview *overview,
			  enum ws_table table, const void *rows, uint32_t count,
			  const uint8_t *columns)
{
	int start = ws_table_start(table), end = ws_table_end(table);
	uint32_t allowed = ws_max(count / ROWS_PER_GROUP, (uint32_t)ALWAYS_GROUPS);

	if (!summary->keys || start < 0)
		return false;
	summary->overview = overview;
	summary->rows = rows;
	summary->count = count;
	summary->size = ws_tables[table].row_size;
	summary->max_groups = ws_min(allowed, MAX_GROUPS);
	summary->start = ws_tables[table].columns[start].offset;
	summary->end = -1;
	if (end >= 0)
		summary->end = ws_tables[table].columns[end].offset;
	for (uint32_t index = 0; index < summary->keys; index++) {
		summary->offset[index] = ws_tables[table].columns[columns[index]].offset;
		summary->bytes[index] = (uint8_t)ws_tables[table].columns[columns[index]].size;
		choose_word(summary, index);
	}
	return true;
}

void ws_overview_add(struct ws_overview *overview, enum ws_table table, const void *rows,
		     uint32_t count, uint64_t first)
{
	uint8_t columns[WS_GROUP_KEYS];
	struct block_summary summary = {.keys = ws_table_groups(table, columns)};

	if (!begin_summary(&summary, overview, table, rows, count, columns))
		return;
	overview->groups = 0;
	if (!overview->slots)
		overview->slots = ws_malloc(SLOTS * sizeof(*overview->slots));
	memset(overview->slots, 0, SLOTS * sizeof(*overview->slots));
	ws_grow(overview->of, overview->of_cap, count);
	if (find_groups(&summary))
		put_summary(&summary, table, columns, first);
}

bool ws_overview_encode(struct ws_overview *overview, struct ws_encoder *encoder, uint64_t sequence)
{
	struct ws_block_head head = ws_make_block_head(WS_BLOCK_OVERVIEW, sequence);

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

void ws_overview_renumber(struct ws_bytes *sums, const uint64_t dropped[WS_TABLE_COUNT])
{
	struct summary_head head;

	for (size_t at = 0; at + sizeof(head) <= sums->len;) {
		memcpy(&head, sums->bytes + at, sizeof(head));
		head.first -= dropped[head.table];
		memcpy(sums->bytes + at, &head, sizeof(head));
		at += sizeof(head) +
		      (size_t)head.groups * (sizeof(struct summary_group) +
					     head.keys * sizeof(uint32_t) + WS_GROUP_BINS);
	}
}

/* ---- reading ---- */

/* No recording has more. The limit is needed because a few bytes of a hostile file may unpack to
 * gigabytes. */
static const uint64_t MAX_BYTES = UINT64_C(512) << 20;

struct ws_summaries { /* of a report, by table and block */
	struct ws_block_groups *groups[WS_TABLE_COUNT];
	uint8_t **memory; /* bytes of overview blocks, which bins point into */
	size_t memories;
	uint64_t bytes; /* of all of it */
};

/* The index of the block of this table that begins at row `first`, or -1. */
static ptrdiff_t find_block(const struct ws_report *report, enum ws_table table, uint64_t first)
{
	size_t low = ws_bisect(report->table[table].count, mid,
			       report->table[table].blocks[mid].head.first < first);

	if (low == report->table[table].count ||
	    report->table[table].blocks[low].head.first != first)
		return -1;
	return (ptrdiff_t)low;
}

/* The table (enum ws_table) of a summary whose groups are by the columns that this build groups by;
 * otherwise -1. */
static int find_own_table(const struct ws_report *report, const struct summary_head *summary_head)
{
	const struct ws_file_table *table;
	uint8_t columns[WS_GROUP_KEYS];

	if (summary_head->table >= report->schema_tables)
		return -1;
	table = &report->schema[summary_head->table];
	if (table->table < 0 ||
	    summary_head->keys != ws_table_groups((enum ws_table)table->table, columns))
		return -1;
	for (uint32_t index = 0; index < summary_head->keys; index++)
		if (summary_head->columns[index] >= table->columns ||
		    table->column[summary_head->columns[index]] != columns[index])
			return -1;
	return table->table;
}

static void add_summary(const struct ws_report *report, struct ws_summaries *summaries,
			const struct summary_head *summary_head, const uint8_t *body)
{
	int own = find_own_table(report, summary_head);
	ptrdiff_t block = -1;
	const uint8_t *keys = body + (size_t)summary_head->groups * sizeof(struct summary_group);
	const uint8_t *bins = keys + (size_t)summary_head->groups * summary_head->keys * 4;
	struct ws_block_group *group;
	uint64_t rows = 0;

	if (own >= 0)
		block = find_block(report, (enum ws_table)own, summary_head->first);
	if (block < 0 || report->table[own].blocks[block].head.rows != summary_head->rows ||
	    (summaries->groups[own] && summaries->groups[own][block].groups))
		return;
	group = ws_calloc(summary_head->groups, sizeof(*group));
	for (uint32_t index = 0; index < summary_head->groups; index++) {
		struct summary_group stored;

		memcpy(&stored, body + (size_t)index * sizeof(stored), sizeof(stored));
		group[index] = (struct ws_block_group){.rows = stored.rows,
						       .first = stored.first,
						       .last = stored.last,
						       .busy = stored.busy};
		memcpy(group[index].key, keys + (size_t)index * summary_head->keys * 4,
		       summary_head->keys * 4u);
		group[index].bins = bins + (size_t)index * WS_GROUP_BINS;
		rows += stored.rows;
		if (stored.last < stored.first || !stored.rows)
			rows = UINT64_MAX / 2;
	}
	if (rows != summary_head->rows) {
		free(group);
		return;
	}
	if (!summaries->groups[own])
		summaries->groups[own] =
			ws_calloc(report->table[own].count, sizeof(*summaries->groups[own]));
	summaries->groups[own][block] = (struct ws_block_groups){group, summary_head->groups};
}

static void add_summaries(const struct ws_report *report, struct ws_summaries *summaries,
			  const uint8_t *bytes, const uint8_t *end, uint32_t count)
{
	struct summary_head summary_head;

	for (; count && (size_t)(end - bytes) >= sizeof(summary_head); count--) {
		memcpy(&summary_head, bytes, sizeof(summary_head));
		bytes += sizeof(summary_head);
		if (summary_head.keys > WS_GROUP_KEYS || summary_head.groups > MAX_GROUPS ||
		    !summary_head.groups ||
		    (size_t)(end - bytes) / (sizeof(struct summary_group) + summary_head.keys * 4u +
					     WS_GROUP_BINS) <
			    summary_head.groups)
			return;
		add_summary(report, summaries, &summary_head, bytes);
		bytes += summary_head.groups *
			 (sizeof(struct summary_group) + summary_head.keys * 4u + WS_GROUP_BINS);
	}
}

static void load_overview_block(const struct ws_report *report, struct ws_summaries *summaries,
				const struct ws_block *block, struct ws_workspace *workspace)
{
	const uint8_t *body;
	struct ws_cut cut;
	uint8_t *bytes;

	if (block->head.raw > WS_MAX_TEXT || summaries->bytes + block->head.raw > MAX_BYTES)
		return;
	body = ws_read_block_body(report, block, workspace, NULL);
	if (!body)
		return;
	cut = (struct ws_cut){body, body + block->head.body_bytes};
	summaries->bytes += block->head.raw;
	bytes = ws_malloc(block->head.raw + 1);
	summaries->memory = ws_realloc(summaries->memory,
				       (summaries->memories + 1) * sizeof(*summaries->memory));
	summaries->memory[summaries->memories++] = bytes;
	if (ws_stream_get(workspace->unpacker.zstd, &cut, bytes, block->head.raw))
		add_summaries(report, summaries, bytes, bytes + block->head.raw, block->head.rows);
}

static struct ws_summaries *load_summaries(const struct ws_report *report)
{
	struct ws_summaries *summaries = ws_calloc(1, sizeof(*summaries));
	struct ws_workspace *workspace = ws_take_workspace(report);

	for (size_t i = 0; i < report->all.count; i++)
		if (report->all.blocks[i].head.type == WS_BLOCK_OVERVIEW)
			load_overview_block(report, summaries, &report->all.blocks[i], workspace);
	ws_give_back_workspace(report, workspace);
	return summaries;
}

struct ws_block_groups ws_report_block_groups(const struct ws_report *report, enum ws_table table,
					      size_t i)
{
	struct ws_report *writable =
		(struct ws_report *)report; /* only caches data, which does not change */

	pthread_mutex_lock(&writable->group_lock);
	if (!writable->summaries)
		writable->summaries = load_summaries(report);
	pthread_mutex_unlock(&writable->group_lock);
	if (!writable->summaries->groups[table])
		return (struct ws_block_groups){NULL, 0};
	return writable->summaries->groups[table][i];
}

void ws_report_free_groups(struct ws_report *report)
{
	struct ws_summaries *summaries = report->summaries;

	for (uint32_t table = 0; summaries && table < WS_TABLE_COUNT; table++) {
		for (size_t i = 0; summaries->groups[table] && i < report->table[table].count; i++)
			free((void *)summaries->groups[table][i].groups);
		free(summaries->groups[table]);
	}
	for (size_t i = 0; summaries && i < summaries->memories; i++)
		free(summaries->memory[i]);
	if (summaries)
		free(summaries->memory);
	free(summaries);
	report->summaries = NULL;
}
