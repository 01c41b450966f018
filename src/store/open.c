/*
 * open.c - opening a report: header, schema, the blocks by table, and, where no index closed the
 * file, the journal beside it.
 *
 * The content of the journal is encoded into blocks in memory here, so that they are treated like
 * blocks of the file from then on: the same code sorts, searches, decodes and copies them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/mem.h"
#include "base/choose.h"
#include "store/encode.h"
#include "store/file.h"
#include "store/journal.h"
#include "store/overview.h"
#include "store/report.h"

enum { MAX_DAMAGES = 100 };

typedef unsigned long long ull;

void ws_report_add_damage(struct ws_report *report, const char *fmt, ...)
{
	struct ws_err text;
	va_list ap;

	if (report->damages >= MAX_DAMAGES) {
		report->damages_unsaid++;
		return;
	}
	va_start(ap, fmt);
	vsnprintf(text.msg, sizeof(text.msg), fmt, ap);
	va_end(ap);
	ws_grow(report->damage, report->damage_cap, report->damages + 2);
	report->damage[report->damages++] = ws_strdup(text.msg);
}

static void count_unsaid_damages(struct ws_report *report)
{
	size_t more = report->damages_unsaid;

	if (!more)
		return;
	report->damage[report->damages++] =
		ws_format("%zu more things are wrong",
			  more); /* ws_report_add_damage kept space for one more */
}

/* ---- header ---- */

static int open_file(struct ws_report *report, struct ws_err *err)
{
	struct stat status;

	report->fd = open(report->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (report->fd < 0)
		return ws_fail_errno(err, "cannot open %s", report->path);
	if (fstat(report->fd, &status))
		return ws_fail_errno(err, "cannot look at %s", report->path);
	if (!S_ISREG(status.st_mode))
		return ws_fail(err, "%s is not a regular file", report->path);
	report->size = (uint64_t)status.st_size;
	return 0;
}

/* Reads and checks the file header. If it is broken but blocks follow, the file is still read. */
static int read_header(struct ws_report *report, struct ws_err *err)
{
	struct ws_file_header *header = &report->header;
	char magic[8] = {0};
	bool magic_ok, check_ok;

	if (!report->size)
		return ws_fail(err, "%s is empty", report->path);
	if (report->size < sizeof(*header) || ws_pread_all(report->fd, header, sizeof(*header), 0))
		return ws_fail(err, "%s is no warpsight report: it is too short", report->path);
	magic_ok = !memcmp(header->magic, WS_FILE_MAGIC, 8);
	check_ok = header->check == XXH3_64bits(header, offsetof(struct ws_file_header, check));
	if (magic_ok && check_ok && header->major > WS_FORMAT_MAJOR)
		return ws_fail(err,
			       "%s has format %u.%u; this warpsight reads up to format %u: use a "
			       "newer one",
			       report->path, header->major, header->minor, WS_FORMAT_MAJOR);
	if (magic_ok && check_ok)
		return 0;
	if (report->size >= sizeof(*header) + 8)
		ws_pread_all(report->fd, magic, 8, sizeof(*header));
	if (!magic_ok && memcmp(magic, WS_BLOCK_MAGIC, 8))
		return ws_fail(err, "%s is no warpsight report", report->path);
	ws_report_add_damage(report, "the file header is damaged");
	memset(header, 0, sizeof(*header));
	return 0;
}

/* ---- schema ---- */

static bool read_name(struct ws_cut *cut, char name[256])
{
	uint16_t length;

	if (cut->end - cut->bytes < 2)
		return false;
	memcpy(&length, cut->bytes, 2);
	cut->bytes += 2;
	if (length > 255 || length > cut->end - cut->bytes)
		return false;
	memcpy(name, cut->bytes, length);
	name[length] = 0;
	cut->bytes += length;
	return true;
}

static struct ws_file_table *new_table(struct ws_report *report, uint32_t number)
{
	if (number >= report->schema_tables) {
		report->schema = ws_realloc(report->schema, (number + 1) * sizeof(*report->schema));
		for (; report->schema_tables <= number; report->schema_tables++)
			report->schema[report->schema_tables] = (struct ws_file_table){.table = -1};
	}
	return &report->schema[number];
}

static void map_column(struct ws_report *report, struct ws_file_table *table, uint32_t number,
		       const char *name)
{
	int ours = -1;

	if (table->table >= 0)
		ours = ws_column_find((enum ws_table)table->table, name);
	table->column[number] = (int16_t)ours;
	if (ours >= 0)
		report->columns[table->table] |= UINT64_C(1) << ours;
}

static bool parse_schema(struct ws_report *report, struct ws_cut cut, uint32_t tables)
{
	char name[256];
	uint16_t head[2];

	for (uint32_t i = 0; i < tables; i++) {
		if (cut.end - cut.bytes < 4)
			return false;
		memcpy(head, cut.bytes, 4);
		cut.bytes += 4;
		if (head[0] >= WS_MAX_FILE_TABLES || head[1] > WS_MAX_FILE_COLUMNS ||
		    !read_name(&cut, name))
			return false;
		struct ws_file_table *table = new_table(report, head[0]);

		*table = (struct ws_file_table){.table = ws_table_find(name), .columns = head[1]};
		for (uint32_t column = 0; column < head[1]; column++) {
			if (!read_name(&cut, name))
				return false;
			map_column(report, table, column, name);
			/* The column's type: for readers that do not know the column. */
			if (!read_name(&cut, name))
				return false;
		}
	}
	return true;
}

static void set_own_schema(struct ws_report *report)
{
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++) {
		struct ws_file_table *table = new_table(report, t);

		*table = (struct ws_file_table){.table = (int)t,
						.columns = ws_tables[t].column_count};
		for (uint32_t column = 0; column < table->columns; column++)
			map_column(report, table, column, ws_tables[t].columns[column].name);
	}
}

static void clear_schema(struct ws_report *report)
{
	free(report->schema);
	report->schema = NULL;
	report->schema_tables = 0;
	memset(report->columns, 0, sizeof(report->columns));
}

/* The first intact schema block counts; without one, a file written by this very build needs none.
 */
void ws_report_read_schema(struct ws_report *report)
{
	struct ws_workspace *workspace = ws_take_workspace(report);
	bool found = false;

	for (size_t i = 0; i < report->all.count && !found; i++) {
		const struct ws_block *block = &report->all.blocks[i];
		const uint8_t *body;

		if (block->head.type != WS_BLOCK_SCHEMA)
			continue;
		body = ws_read_block_body(report, block, workspace, NULL);
		if (!body)
			continue;
		found = parse_schema(report, (struct ws_cut){body, body + block->head.body_bytes},
				     block->head.rows);
		if (!found)
			clear_schema(report);
	}
	ws_give_back_workspace(report, workspace);
	if (found)
		return;
	if (report->header.fingerprint == ws_hash_schema())
		set_own_schema(report);
	else
		ws_report_add_damage(
			report,
			"no description of the tables is intact, so that no rows can be read");
}

/* ---- blocks by table ---- */

static void append_block(struct ws_block_list *block_list, const struct ws_block *block)
{
	ws_grow(block_list->blocks, block_list->cap, block_list->count + 1);
	block_list->blocks[block_list->count++] = *block;
}

static uint64_t end_of_rows(const struct ws_block_list *block_list)
{
	const struct ws_block_head *last;

	if (!block_list->count)
		return 0;
	last = &block_list->blocks[block_list->count - 1].head;
	return last->first + last->rows;
}

static void say_gap(struct ws_report *report, const struct ws_block_list *block_list,
		    const struct ws_block *block, const char *what, uint64_t from)
{
	uint64_t expected = from;

	if (block_list->count)
		expected = end_of_rows(block_list);
	if (block->head.first > expected)
		ws_report_add_damage(report, "%llu %s are missing",
				     (ull)(block->head.first - expected), what);
}

/* The table (enum ws_table) that a block's rows belong to, or -1: only another version knows it. */
static int own_table(const struct ws_report *report, const struct ws_block *block)
{
	if (block->head.table >= report->schema_tables)
		return -1;
	return report->schema[block->head.table].table;
}

static void file_rows(struct ws_report *report, const struct ws_block *block)
{
	int own = own_table(report, block);
	char what[300];

	if (own < 0)
		return;
	if (block->head.first < end_of_rows(&report->table[own])) {
		ws_report_add_damage(
			report, "a block at offset %llu repeats rows of table %s and was left out",
			(ull)block->offset, ws_tables[own].name);
		return;
	}
	snprintf(what, sizeof(what), "rows of table %s", ws_tables[own].name);
	say_gap(report, &report->table[own], block, what, 0);
	append_block(&report->table[own], block);
}

static void file_strings(struct ws_report *report, const struct ws_block *block)
{
	if (block->head.first < end_of_rows(&report->strings)) {
		ws_report_add_damage(report,
				     "a block at offset %llu repeats strings and was left out",
				     (ull)block->offset);
		return;
	}
	say_gap(report, &report->strings, block, "strings", 1);
	append_block(&report->strings, block);
}

void ws_report_file_block(struct ws_report *report, const struct ws_block *block)
{
	if (block->head.type == WS_BLOCK_ROWS)
		file_rows(report, block);
	else if (block->head.type == WS_BLOCK_STRINGS)
		file_strings(report, block);
}

static const char *name_table(const struct ws_report *report, const struct ws_block *block)
{
	int own = own_table(report, block);

	if (own < 0)
		return "unknown to this version";
	return ws_tables[own].name;
}

static void say_damaged(struct ws_report *report, const struct ws_block *block)
{
	ull offset = block->offset, rows = block->head.rows;

	if (block->head.type == WS_BLOCK_ROWS)
		ws_report_add_damage(
			report,
			"the block at offset %llu is damaged: %llu rows of table %s are lost",
			offset, rows, name_table(report, block));
	else if (block->head.type == WS_BLOCK_STRINGS)
		ws_report_add_damage(report,
				     "the block at offset %llu is damaged: %llu strings are lost",
				     offset, rows);
	else
		ws_report_add_damage(
			report,
			"the %s block at offset %llu is damaged; nothing recorded is lost with it",
			ws_name_block_type(block->head.type), offset);
}

/*
 * Leaves out blocks whose body is damaged. Small files are checked in full; in others only the part
 * that an interrupted write can have torn, since the rest is checked when it is read. With `keep`
 * damaged blocks stay: the ids of strings are then known to be lost, not undefined.
 */
static void check_bodies(struct ws_report *report, struct ws_block_list *block_list, bool keep)
{
	struct ws_workspace *workspace = ws_take_workspace(report);
	size_t kept = 0;

	for (size_t i = 0; i < block_list->count; i++) {
		struct ws_block *block = &block_list->blocks[i];
		bool must_check =
			!block->memory && (report->size <= WS_CHECK_AT_OPEN ||
					   (!report->indexed && i + 1 == block_list->count));

		if (must_check && !ws_read_block_body(report, block, workspace, NULL)) {
			say_damaged(report, block);
			if (!keep)
				continue;
		}
		block_list->blocks[kept++] = *block;
	}
	block_list->count = kept;
	ws_give_back_workspace(report, workspace);
}

static void check_all_bodies(struct ws_report *report)
{
	struct ws_block_list other = {0};

	for (uint32_t table = 0; table < WS_TABLE_COUNT; table++)
		check_bodies(report, &report->table[table], false);
	check_bodies(report, &report->strings, true);
	for (size_t i = 0; i < report->all.count; i++)
		if (report->all.blocks[i].head.type != WS_BLOCK_ROWS &&
		    report->all.blocks[i].head.type != WS_BLOCK_STRINGS)
			append_block(&other, &report->all.blocks[i]);
	check_bodies(report, &other, false);
	free(other.blocks);
}

static void count_rows(struct ws_report *report)
{
	for (uint32_t table = 0; table < WS_TABLE_COUNT; table++)
		for (size_t i = 0; i < report->table[table].count; i++) {
			report->rows[table] += report->table[table].blocks[i].head.rows;
			report->bytes[table] += sizeof(struct ws_block_header) +
						report->table[table].blocks[i].head.body_bytes;
		}
}

/* ---- the journal ---- */

static void keep_encoded_block(struct ws_encoder *encoder, struct ws_block *block)
{
	struct ws_block_header header;

	memcpy(&header, encoder->out.bytes, sizeof(header));
	block->offset = 0;
	block->head = header.head;
	block->memory = ws_malloc(encoder->out.len);
	memcpy(block->memory, encoder->out.bytes, encoder->out.len);
}

/* The row or string number after the last one in the file: of strings (of any generation: *number
 * gets the last), or of rows of table *number. */
static uint64_t last_number_in_file(const struct ws_report *report, uint32_t type, uint32_t *number)
{
	uint64_t have = 0;

	for (size_t i = 0; i < report->all.count; i++) {
		const struct ws_block_head *head = &report->all.blocks[i].head;

		if (head->type != type || (type == WS_BLOCK_ROWS && head->table != *number) ||
		    head->first + head->rows <= have)
			continue;
		have = head->first + head->rows;
		*number = head->table;
	}
	return have;
}

static void add_journal_strings(struct ws_report *report, struct ws_encoder *encoder,
				const struct ws_journal_copy *copy)
{
	uint32_t skip = 0, generation = 0;
	uint64_t have = last_number_in_file(report, WS_BLOCK_STRINGS, &generation), bytes = 0;
	struct ws_block block;

	while (skip < copy->strings && copy->string_first + skip < have)
		bytes += copy->lengths[skip++];
	if (skip == copy->strings || copy->string_first + copy->strings > UINT32_MAX)
		return;
	/* A generation other than the file's, because it is not known here whether these strings
	 * repeat earlier ones. */
	ws_encode_strings(encoder,
			  &(struct ws_string_run){.first = copy->string_first + skip,
						  .count = copy->strings - skip,
						  .generation = generation + 1,
						  .lengths = copy->lengths + skip,
						  .text = copy->text + bytes,
						  .bytes = copy->text_bytes - bytes},
			  0);
	keep_encoded_block(encoder, &block);
	append_block(&report->all, &block);
}

static void add_journal_rows(struct ws_report *report, struct ws_encoder *encoder,
			     const struct ws_journal_copy *copy, enum ws_table table, uint64_t have)
{
	uint64_t first = copy->table[table].first;
	uint32_t rows = copy->table[table].n, skip;
	struct ws_block block;

	skip = (uint32_t)ws_min(have - ws_min(first, have), (uint64_t)rows);
	if (skip == rows)
		return;
	ws_encode_rows(encoder, table,
		       copy->table[table].rows + (size_t)skip * ws_tables[table].row_size,
		       rows - skip, first + skip, 0);
	keep_encoded_block(encoder, &block);
	append_block(&report->all, &block);
}

static void add_journal(struct ws_report *report, const struct ws_journal_copy *copy)
{
	struct ws_encoder encoder;
	uint32_t most = 1;

	for (uint32_t table = 0; table < WS_TABLE_COUNT; table++)
		most = ws_max(copy->table[table].n, most);
	ws_encoder_init(&encoder, most);
	add_journal_strings(report, &encoder, copy);
	for (uint32_t t = 0; t < WS_TABLE_COUNT; t++) {
		uint32_t number = t;

		if (copy->table[t].n)
			add_journal_rows(report, &encoder, copy, (enum ws_table)t,
					 last_number_in_file(report, WS_BLOCK_ROWS, &number));
	}
	ws_encoder_free(&encoder);
}

/* Drops a torn block at the end; the journal still holds its rows. */
void ws_report_drop_torn_blocks(struct ws_report *report, uint64_t whole)
{
	struct ws_workspace *workspace = ws_take_workspace(report);

	while (report->all.count && report->all.blocks[report->all.count - 1].offset >= whole &&
	       !ws_read_block_body(report, &report->all.blocks[report->all.count - 1], workspace,
				   NULL))
		report->all.count--;
	ws_give_back_workspace(report, workspace);
}

static void say_unfinished(struct ws_report *report, enum ws_journal_state state, uint32_t missing,
			   const struct ws_err *why)
{
	if (report->live) {
		ws_report_add_damage(
			report, "the recording is still running; this is what there was so far");
		return;
	}
	switch (state) {
	case WS_JOURNAL_COPIED:
		ws_report_add_damage(
			report, "the recorder was killed before it could close the report; what "
				"it had written and its journal are read");
		if (missing)
			ws_report_add_damage(
				report,
				"%u parts of its journal are cut off or damaged: events that they "
				"held are lost",
				missing);
		break;
	case WS_JOURNAL_BAD:
		ws_report_add_damage(
			report,
			"no index closes the report and its journal cannot be used (%s): "
			"events after the last block are lost",
			why->msg);
		break;
	default:
		ws_report_add_damage(
			report, "no index closes the report and no journal of it is there: events "
				"after the last block are lost");
	}
}

/* Adds the content of the journal to a report that was not closed. The journal is copied before the
 * file is walked, so that rows that leave it meanwhile are found in the file. */
static void read_open_end(struct ws_report *report, enum ws_journal_state state,
			  struct ws_journal_copy *copy, const struct ws_err *why)
{
	bool closed = report->all.count &&
		      report->all.blocks[report->all.count - 1].head.type == WS_BLOCK_INDEX;

	if (closed) {
		ws_report_add_damage(report, "the index of the report is damaged and was rebuilt");
		return;
	}
	if (state == WS_JOURNAL_COPIED) {
		ws_report_drop_torn_blocks(report, copy->report_bytes);
		if (report->size < copy->report_bytes)
			ws_report_add_damage(report, "the file is %llu bytes shorter than it was",
					     (ull)(copy->report_bytes - report->size));
		add_journal(report, copy);
	} else if (report->rest) {
		ws_report_add_damage(report, "%llu bytes at the end are an incomplete block",
				     (ull)report->rest);
	}
	say_unfinished(report, state, copy->missing, why);
}

void ws_report_refresh_size(struct ws_report *report)
{
	struct stat status;

	if (!fstat(report->fd, &status))
		report->size = (uint64_t)status.st_size;
}

static void read_blocks(struct ws_report *report)
{
	struct ws_journal_copy copy;
	struct ws_err why = {""};
	char *path = ws_journal_path(report->path);
	enum ws_journal_state state;

	report->live = ws_file_is_locked(report->fd);
	state = ws_journal_copy(path, report->header.uuid, NULL, &copy, &why);
	free(path);
	ws_report_refresh_size(report);
	ws_report_find_all_blocks(report);
	if (report->indexed)
		report->live = false;
	else
		read_open_end(report, state, &copy, &why);
	ws_journal_copy_free(&copy);
	ws_report_read_schema(report);
	for (size_t i = 0; i < report->all.count; i++)
		ws_report_file_block(report, &report->all.blocks[i]);
	check_all_bodies(report);
	count_rows(report);
	ws_report_prepare_strings(report);
}

/* ---- the interface ---- */

struct ws_report *(*ws_open_foreign_trace)(const char *path, struct ws_err *err);

/* Whether this file can be read and does not begin like a report. */
static bool is_other_trace(const char *path)
{
	char magic[8];
	struct stat status;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t length = 0;

	if (fd < 0)
		return false;
	if (!fstat(fd, &status) && S_ISREG(status.st_mode))
		length = pread(fd, magic, sizeof(magic), 0);
	close(fd);
	return length > 0 && memcmp(magic, WS_FILE_MAGIC, (size_t)length);
}

struct ws_report *ws_report_open(const char *path, struct ws_err *err)
{
	struct ws_err ignored;

	if (!ws_open_foreign_trace || !is_other_trace(path))
		return ws_report_open_plain(path, err);
	if (!err)
		err = &ignored;
	return ws_open_foreign_trace(path, err);
}

void ws_report_rename(struct ws_report *report, const char *path)
{
	free(report->path);
	report->path = ws_strdup(path);
}

struct ws_report *ws_report_open_header(const char *path, struct ws_err *err)
{
	struct ws_report *report = ws_calloc(1, sizeof(*report));

	report->fd = -1;
	report->path = ws_strdup(path);
	pthread_mutex_init(&report->lock, NULL);
	pthread_mutex_init(&report->key_lock, NULL);
	pthread_mutex_init(&report->text_lock, NULL);
	pthread_cond_init(&report->text_loaded, NULL);
	pthread_mutex_init(&report->group_lock, NULL);
	if (open_file(report, err) || read_header(report, err)) {
		ws_report_close(report);
		return NULL;
	}
	return report;
}

struct ws_report *ws_report_open_plain(const char *path, struct ws_err *err)
{
	struct ws_report *report = ws_report_open_header(path, err);

	if (!report)
		return NULL;
	read_blocks(report);
	count_unsaid_damages(report);
	return report;
}

void ws_report_close(struct ws_report *report)
{
	if (!report)
		return;
	ws_report_free_strings(report);
	ws_report_free_groups(report);
	for (size_t i = 0; i < report->all.count; i++)
		free(report->all.blocks[i].memory);
	free(report->all.blocks);
	for (uint32_t table = 0; table < WS_TABLE_COUNT; table++)
		free(report->table[table].blocks);
	free(report->strings.blocks);
	for (size_t i = 0; i < report->damages; i++)
		free(report->damage[i]);
	free(report->damage);
	while (report->pool) {
		struct ws_workspace *next = report->pool->next;

		ws_workspace_free(report->pool);
		report->pool = next;
	}
	free(report->schema);
	if (report->fd >= 0)
		close(report->fd);
	pthread_mutex_destroy(&report->lock);
	pthread_mutex_destroy(&report->key_lock);
	pthread_mutex_destroy(&report->text_lock);
	pthread_cond_destroy(&report->text_loaded);
	pthread_mutex_destroy(&report->group_lock);
	free(report->path);
	free(report);
}

const char *ws_report_path(const struct ws_report *report)
{
	return report->path;
}

bool ws_report_is_live(const struct ws_report *report)
{
	return report->live;
}

bool ws_report_is_complete(const struct ws_report *report)
{
	return report->indexed && !report->damages;
}

const char *ws_report_get_damage(const struct ws_report *report, size_t i)
{
	if (i >= report->damages)
		return NULL;
	return report->damage[i];
}

uint64_t ws_report_file_size(const struct ws_report *report)
{
	return report->size;
}

uint64_t ws_report_count_rows(const struct ws_report *report, enum ws_table table)
{
	return report->rows[table];
}

uint64_t ws_report_table_bytes(const struct ws_report *report, enum ws_table table)
{
	return report->bytes[table];
}

uint64_t ws_report_columns(const struct ws_report *report, enum ws_table table)
{
	return report->columns[table];
}

size_t ws_report_count_blocks(const struct ws_report *report, enum ws_table table)
{
	return report->table[table].count;
}

struct ws_block_info ws_report_block_info(const struct ws_report *report, enum ws_table table,
					  size_t i)
{
	const struct ws_block *block = &report->table[table].blocks[i];

	return (struct ws_block_info){
		.offset = block->offset,
		.bytes = sizeof(struct ws_block_header) + block->head.body_bytes,
		.rows = block->head.rows,
		.time_min = block->head.time_min,
		.time_max = block->head.time_max,
		.track_min = block->head.track_min,
		.track_max = block->head.track_max,
	};
}
