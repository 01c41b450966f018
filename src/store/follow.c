/*
 * follow.c - see follow.h.
 *
 * The journal is read first and the file's blocks after it, up to the end of the whole blocks by
 * the journal's head. Rows that left the journal meanwhile are thus found in blocks, and the row
 * numbers (`first`) show which have been delivered. Blocks are found by walking on from the last
 * one; their bodies are read only if they contain rows of a wanted table or a requested string.
 *
 * A block holds the rows of a stage in another order than the journal did. For rows that were
 * delivered from the journal, the follower therefore keeps hashes of the wanted columns (`early`),
 * with the number of rows for each, and skips as many rows when their block comes.
 */
#include "store/follow.h"

#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/slots.h"
#include "store/encode.h"
#include "store/file.h"
#include "store/journal.h"
#include "store/report.h"

/* Strings that wait in the journal for their block: their texts follow each other, each ended by a
 * NUL. */
struct waiting_strings {
	uint64_t first; /* id */
	uint32_t count;
	uint64_t bytes; /* of text in the journal, without NULs */
	size_t *at;
	size_t at_cap;
	char *text;
	size_t text_len, text_cap;
};

/* Texts of blocks that are kept decoded: names that never repeat would fill the memory. */
#define MOST_TEXT ((size_t)64 << 20)

struct ws_follow {
	struct ws_report *report;
	struct ws_follow_opts opts;
	char *journal;
	uint64_t walked; /* blocks that end by this offset are known */
	size_t filed;	 /* entries of report->all that are in the lists of their tables */
	size_t blocks_delivered[WS_TABLE_COUNT];
	uint64_t rows_delivered[WS_TABLE_COUNT]; /* rows delivered or passed over */
	uint64_t total[WS_TABLE_COUNT];		 /* rows that exist */
	struct ws_map early[WS_TABLE_COUNT];
	struct waiting_strings waiting;
	bool began, has_schema;
	uint64_t *memory[WS_MAX_COLUMNS]; /* of columns, `memory_rows` each */
	size_t memory_rows;
};

/* ---- strings ---- */

static void forget_waiting_strings(struct ws_follow *follow, uint64_t first)
{
	follow->waiting.first = first;
	follow->waiting.count = 0;
	follow->waiting.bytes = 0;
	follow->waiting.text_len = 0;
}

static void keep_waiting_strings(struct ws_follow *follow, const struct ws_journal_copy *copy)
{
	struct waiting_strings *waiting = &follow->waiting;
	const char *from = copy->text;

	if (waiting->first != copy->string_first)
		forget_waiting_strings(follow, copy->string_first);
	ws_grow(waiting->at, waiting->at_cap, waiting->count + (size_t)copy->strings + 1);
	ws_grow(waiting->text, waiting->text_cap,
		waiting->text_len + copy->text_bytes + copy->strings + 1);
	for (uint32_t i = 0; i < copy->strings; i++) {
		waiting->at[waiting->count++] = waiting->text_len;
		memcpy(waiting->text + waiting->text_len, from, copy->lengths[i]);
		waiting->text_len += copy->lengths[i];
		waiting->text[waiting->text_len++] = 0;
		from += copy->lengths[i];
	}
	waiting->at[waiting->count] = waiting->text_len;
	waiting->bytes += copy->text_bytes;
}

const char *ws_follow_string(const struct ws_follow *follow, uint32_t id, size_t *len)
{
	const struct waiting_strings *waiting = &follow->waiting;
	size_t i;

	if (!id || id < waiting->first || id - waiting->first >= waiting->count)
		return ws_report_string(follow->report, id, len);
	i = (size_t)(id - waiting->first);
	if (len)
		*len = waiting->at[i + 1] - waiting->at[i] - 1;
	return waiting->text + waiting->at[i];
}

/* ---- blocks ---- */

/*
 * Enter the new blocks into the lists of their tables: while a recorder writes, the blocks that end
 * by `whole`; later all blocks that a kill has not torn. False where the file has no blocks of
 * tables that can be understood.
 */
static bool file_new_blocks(struct ws_follow *follow, bool live, uint64_t whole)
{
	struct ws_report *report = follow->report;
	size_t strings = report->strings.count;

	ws_report_drop_texts(report, MOST_TEXT);
	ws_report_refresh_size(report);
	follow->walked = ws_report_walk_blocks(report, follow->walked,
					       live ? ws_min(whole, report->size) : report->size);
	if (!live)
		ws_report_drop_torn_blocks(report, whole);
	if (!follow->has_schema && report->all.count) {
		ws_report_read_schema(report);
		follow->has_schema = report->schema_tables > 0;
	}
	if (!follow->has_schema)
		return !report->all.count;
	for (; follow->filed < report->all.count; follow->filed++)
		ws_report_file_block(report, &report->all.blocks[follow->filed]);
	if (strings != report->strings.count || !report->text)
		ws_report_prepare_strings(report);
	return true;
}

static void reserve_columns(struct ws_follow *follow, size_t rows)
{
	if (rows <= follow->memory_rows)
		return;
	follow->memory_rows = rows;
	for (size_t i = 0; i < WS_MAX_COLUMNS; i++) {
		free(follow->memory[i]);
		follow->memory[i] = NULL;
	}
}

static void point_to_columns(struct ws_follow *follow, uint64_t columns)
{
	for (size_t i = 0; i < WS_MAX_COLUMNS; i++)
		if (columns >> i & 1 && !follow->memory[i])
			follow->memory[i] = ws_malloc(follow->memory_rows * sizeof(uint64_t));
}

typedef void deliver_fn(void *ctx, const struct ws_new_rows *rows);

static void deliver_columns(struct ws_follow *follow, enum ws_table table, size_t from, size_t to,
			    deliver_fn *fn, void *ctx)
{
	struct ws_new_rows rows = {.table = table, .count = to - from};

	if (from == to)
		return;
	for (uint32_t i = 0; i < ws_tables[table].column_count; i++)
		if (follow->opts.columns[table] >> i & 1)
			rows.column[i] = follow->memory[i] + from;
	fn(ctx, &rows);
}

static uint64_t hash_row(const struct ws_follow *follow, enum ws_table table, size_t row)
{
	uint64_t hash = 0;

	for (uint32_t c = 0; c < ws_tables[table].column_count; c++)
		if (follow->opts.columns[table] >> c & 1)
			hash = ws_hash_word(hash, follow->memory[c][row]);
	return hash;
}

static void copy_row(struct ws_follow *follow, enum ws_table table, size_t from, size_t to)
{
	for (uint32_t c = 0; c < ws_tables[table].column_count; c++)
		if (follow->opts.columns[table] >> c & 1)
			follow->memory[c][to] = follow->memory[c][from];
}

/* Take the rows that were delivered early out of the columns; returns how many stay. */
static size_t leave_out_early(struct ws_follow *follow, enum ws_table table, size_t rows)
{
	struct ws_map *early = &follow->early[table];
	size_t kept = 0;

	if (!early->count)
		return rows;
	for (size_t i = 0; i < rows; i++) {
		uint64_t hash = hash_row(follow, table, i), count = ws_map_get(early, hash, NULL);

		if (count)
			ws_map_set(early, hash, count - 1);
		else
			copy_row(follow, table, i, kept++);
	}
	return kept;
}

static void deliver_block(struct ws_follow *follow, enum ws_table table, size_t i, deliver_fn *fn,
			  void *ctx)
{
	const struct ws_block_head *head = &follow->report->table[table].blocks[i].head;

	reserve_columns(follow, head->rows);
	point_to_columns(follow, follow->opts.columns[table]);
	if (!ws_report_decode_block(follow->report, table, i, follow->opts.columns[table],
				    follow->memory, NULL))
		deliver_columns(follow, table, 0, leave_out_early(follow, table, head->rows), fn,
				ctx);
	follow->rows_delivered[table] =
		ws_max(head->first + head->rows, follow->rows_delivered[table]);
}

static void deliver_blocks(struct ws_follow *follow, enum ws_table table, deliver_fn *fn, void *ctx)
{
	const struct ws_block_list *list = &follow->report->table[table];

	if (follow->blocks_delivered[table] == list->count)
		return;
	for (; follow->blocks_delivered[table] < list->count; follow->blocks_delivered[table]++)
		deliver_block(follow, table, follow->blocks_delivered[table], fn, ctx);
	ws_map_free(&follow->early[table]); /* their stage is in blocks now */
}

/* ---- the journal ---- */

/* Rows of the table that are in blocks. */
static uint64_t count_block_rows(const struct ws_follow *follow, enum ws_table table)
{
	const struct ws_block_list *list = &follow->report->table[table];

	if (!list->count)
		return 0;
	return list->blocks[list->count - 1].head.first + list->blocks[list->count - 1].head.rows;
}

static void deliver_journal_rows(struct ws_follow *follow, enum ws_table table,
				 const struct ws_journal_copy *copy, deliver_fn *fn, void *ctx)
{
	const struct ws_table_desc *desc = &ws_tables[table];
	struct ws_map *early = &follow->early[table];
	uint32_t count = copy->table[table].n;

	/* If the head was read while only one of its parts was written, the stage may be in blocks
	 * already. */
	if (!count || copy->table[table].first < count_block_rows(follow, table))
		return;
	reserve_columns(follow, count);
	point_to_columns(follow, follow->opts.columns[table]);
	for (uint32_t c = 0; c < desc->column_count; c++)
		for (uint32_t i = 0; follow->opts.columns[table] >> c & 1 && i < count; i++)
			follow->memory[c][i] = ws_row_get(
				table, copy->table[table].rows + (size_t)i * desc->row_size, c);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t hash = hash_row(follow, table, i);

		ws_map_set(early, hash, ws_map_get(early, hash, NULL) + 1);
	}
	deliver_columns(follow, table, 0, count, fn, ctx);
	follow->rows_delivered[table] = copy->table[table].first + count;
}

static void ignore_rows(void *ctx, const struct ws_new_rows *rows)
{
	(void)ctx;
	(void)rows;
}

/* Rows from before the follower was opened are skipped, unless all are wanted. */
static void deliver_table(struct ws_follow *follow, enum ws_table table,
			  const struct ws_journal_copy *copy, deliver_fn *fn, void *ctx)
{
	if (!follow->began && !follow->opts.from_start[table]) {
		follow->blocks_delivered[table] = follow->report->table[table].count;
		fn = ignore_rows;
	}
	deliver_blocks(follow, table, fn, ctx);
	deliver_journal_rows(follow, table, copy, fn, ctx);
}

static void count_rows(struct ws_follow *follow, const struct ws_journal_copy *copy)
{
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++) {
		uint64_t total = copy->table[t].first + copy->table[t].n;

		total = ws_max(total, count_block_rows(follow, (enum ws_table)t));
		follow->total[t] = ws_max(total, follow->total[t]);
	}
}

static enum ws_journal_state copy_new(struct ws_follow *follow, struct ws_journal_copy *copy,
				      struct ws_err *err)
{
	struct ws_journal_have have = {.string_first = follow->waiting.first,
				       .strings = follow->waiting.count,
				       .text_bytes = follow->waiting.bytes};

	for (uint32_t table = 0; table < WS_TABLE_COUNT; table++)
		if (follow->opts.columns[table])
			have.rows[table] = follow->rows_delivered[table];
		else
			have.rows[table] = UINT64_MAX;
	return ws_journal_copy(follow->journal, follow->report->header.uuid, &have, copy, err);
}

enum ws_follow_state ws_follow_read(struct ws_follow *follow, deliver_fn *fn, void *ctx,
				    struct ws_err *err)
{
	struct ws_journal_copy copy;
	bool live = ws_file_is_locked(follow->report->fd);
	enum ws_journal_state state = copy_new(follow, &copy, err);
	uint64_t whole = state == WS_JOURNAL_COPIED ? copy.report_bytes : UINT64_MAX;

	if (live && state == WS_JOURNAL_BAD) {
		ws_journal_copy_free(&copy);
		return WS_FOLLOW_FAILED;
	}
	if (!file_new_blocks(follow, live, whole)) {
		ws_journal_copy_free(&copy);
		ws_fail(err, "%s: no description of its tables is intact", follow->report->path);
		return WS_FOLLOW_FAILED;
	}
	count_rows(follow, &copy);
	if (state == WS_JOURNAL_COPIED)
		keep_waiting_strings(follow, &copy);
	for (uint32_t table = 0; table < WS_TABLE_COUNT; table++)
		if (follow->opts.columns[table])
			deliver_table(follow, (enum ws_table)table, &copy, fn, ctx);
	follow->began = true;
	ws_journal_copy_free(&copy);
	return live ? WS_FOLLOW_LIVE : WS_FOLLOW_FINISHED;
}

struct ws_follow *ws_follow_open(const char *path, const struct ws_follow_opts *opts,
				 struct ws_err *err)
{
	struct ws_report *report = ws_report_open_header(path, err);
	struct ws_follow *follow;

	if (!report)
		return NULL;
	if (report->header.fingerprint != ws_hash_schema()) {
		ws_fail(err, "%s is written by another version of warpsight", path);
		ws_report_close(report);
		return NULL;
	}
	follow = ws_calloc(1, sizeof(*follow));
	follow->report = report;
	follow->opts = *opts;
	follow->journal = ws_journal_path(path);
	follow->walked = sizeof(struct ws_file_header);
	return follow;
}

uint64_t ws_follow_count_rows(const struct ws_follow *follow, enum ws_table table)
{
	return follow->total[table];
}

uint64_t ws_follow_file_size(const struct ws_follow *follow)
{
	return follow->report->size;
}

void ws_follow_close(struct ws_follow *follow)
{
	if (!follow)
		return;
	for (size_t i = 0; i < WS_MAX_COLUMNS; i++)
		free(follow->memory[i]);
	for (size_t i = 0; i < WS_TABLE_COUNT; i++)
		ws_map_free(&follow->early[i]);
	free(follow->waiting.at);
	free(follow->waiting.text);
	free(follow->journal);
	ws_report_close(follow->report);
	free(follow);
}
