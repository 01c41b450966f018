/*
 * decode.c - from a block's body back to columns of 64-bit numbers: the reverse of encode.c.
 * Everything read here may be hostile: every length is checked against what is there before it is
 * used.
 */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "store/file.h"
#include "store/lattice.h"
#include "store/report.h"

/* ---- workspaces ---- */

struct ws_workspace *ws_take_workspace(const struct ws_report *report)
{
	struct ws_report *writable =
		(struct ws_report *)report; /* `const` does not cover the pool */
	struct ws_workspace *workspace;

	pthread_mutex_lock(&writable->lock);
	workspace = writable->pool;
	if (workspace)
		writable->pool = workspace->next;
	pthread_mutex_unlock(&writable->lock);
	if (!workspace) {
		workspace = ws_calloc(1, sizeof(*workspace));
		ws_unpacker_init(&workspace->unpacker);
	}
	return workspace;
}

void ws_give_back_workspace(const struct ws_report *report, struct ws_workspace *workspace)
{
	struct ws_report *writable = (struct ws_report *)report;

	pthread_mutex_lock(&writable->lock);
	workspace->next = writable->pool;
	writable->pool = workspace;
	pthread_mutex_unlock(&writable->lock);
}

void ws_workspace_free(struct ws_workspace *workspace)
{
	ws_unpacker_free(&workspace->unpacker);
	ws_bytes_free(&workspace->block);
	free(workspace->scratch[0]);
	free(workspace->scratch[1]);
	free(workspace->bytes);
	free(workspace);
}

static void reserve_workspace(struct ws_workspace *workspace, uint32_t rows)
{
	ws_unpacker_reserve(&workspace->unpacker, rows);
	if (rows <= workspace->rows)
		return;
	for (int i = 0; i < 2; i++)
		workspace->scratch[i] = ws_realloc(workspace->scratch[i], (size_t)rows * 8);
	workspace->bytes = ws_realloc(workspace->bytes, (size_t)rows * 2);
	workspace->rows = rows;
}

const char *ws_name_block_type(uint32_t type)
{
	static const char *const names[] = {"",	    "segment", "schema",  "strings",
					    "rows", "index",   "overview"};

	if (type >= WS_COUNT(names))
		return "unknown";
	return names[type];
}

const uint8_t *ws_read_block_body(const struct ws_report *report, const struct ws_block *block,
				  struct ws_workspace *workspace, struct ws_err *err)
{
	size_t size = sizeof(struct ws_block_header) + block->head.body_bytes;
	struct ws_block_header header;
	const uint8_t *bytes = block->memory;

	if (!bytes) {
		workspace->block.len = 0;
		bytes = ws_bytes_reserve(&workspace->block, size);
		if (ws_pread_all(report->fd, (void *)bytes, size, block->offset)) {
			ws_fail_errno(err, "%s: cannot read the block at offset %llu", report->path,
				      (unsigned long long)block->offset);
			return NULL;
		}
	}
	memcpy(&header, bytes, sizeof(header));
	if (memcmp(header.magic, WS_BLOCK_MAGIC, 8) ||
	    memcmp(&header.head, &block->head, sizeof(header.head)) ||
	    XXH3_64bits(bytes + sizeof(header), block->head.body_bytes) != block->head.body_check) {
		ws_fail(err, "%s: the %s block at offset %llu is damaged", report->path,
			ws_name_block_type(block->head.type), (unsigned long long)block->offset);
		return NULL;
	}
	return bytes + sizeof(header);
}

/* ---- columns ---- */

struct column {
	struct ws_column_head head;
	const uint8_t *streams;
	uint64_t *values; /* where it is decoded to; NULL: not (yet) */
	bool done;
};

struct block_decoder {
	struct ws_workspace *workspace;
	struct column *columns;
	uint32_t rows, column_count;
	uint32_t scratch_used;
};

static uint64_t decode_zigzag(uint64_t number)
{
	return number >> 1 ^ (0 - (number & 1));
}

/* Reads the numbers of a column and puts base and sign back. `rest` gets the corrections of a
 * SCALED column; NULL for any other column. */
static bool read_numbers(struct block_decoder *decoder, const struct column *column,
			 struct ws_cut *cut, uint64_t *values, uint8_t *rest)
{
	uint64_t base = column->head.base;

	if (!(column->head.flags & WS_CODEC_SCALED) != !rest ||
	    !ws_ints_get(&decoder->workspace->unpacker, cut, &column->head, values,
			 decoder->rows) ||
	    (rest && !ws_stream_get(decoder->workspace->unpacker.zstd, cut, rest, decoder->rows)))
		return false;
	if (column->head.flags & WS_CODEC_ZIGZAG)
		for (uint32_t i = 0; i < decoder->rows; i++)
			values[i] = decode_zigzag(values[i] + base);
	else if (base)
		for (uint32_t i = 0; i < decoder->rows; i++)
			values[i] += base;
	return true;
}

static bool decode_dict(struct block_decoder *decoder, const struct column *column,
			struct ws_cut *cut, uint64_t *values)
{
	uint64_t table[256] = {0}, out_of_range = 0;

	if (!column->head.dict || column->head.dict > 256 || column->head.width > 1 ||
	    column->head.patches || column->head.flags ||
	    !ws_stream_get(decoder->workspace->unpacker.zstd, cut, (uint8_t *)table,
			   column->head.dict * 8u) ||
	    !ws_ints_get(&decoder->workspace->unpacker, cut, &column->head, values, decoder->rows))
		return false;
	for (uint32_t i = 0; i < decoder->rows; i++) {
		out_of_range |= values[i] >= column->head.dict;
		values[i] = table[values[i]];
	}
	return !out_of_range;
}

static struct column *find_column(const struct block_decoder *decoder, uint32_t number)
{
	for (uint32_t i = 0; i < decoder->column_count; i++)
		if (decoder->columns[i].head.column == number)
			return &decoder->columns[i];
	return NULL;
}

static bool give_place(struct block_decoder *decoder, struct column *column)
{
	if (column->values)
		return true;
	if (decoder->scratch_used == 2)
		return false;
	column->values = decoder->workspace->scratch[decoder->scratch_used++];
	return true;
}

static struct ws_cut column_cut(const struct column *column)
{
	return (struct ws_cut){column->streams, column->streams + column->head.bytes};
}

/* Decodes starts and, unless `end` is NULL, ends that are counted in steps of the clock. */
static bool decode_steps(struct block_decoder *decoder, struct column *start, struct column *end)
{
	struct ws_lattice lattice = {.scale = start->head.scale,
				     .gaps = start->head.codec == WS_CODEC_GAP,
				     .rows = decoder->rows};
	struct ws_cut left = column_cut(start), right;
	uint64_t *ends = NULL;

	if ((start->head.codec != WS_CODEC_DELTA && !lattice.gaps) ||
	    (lattice.gaps && (!end || start->head.ref != end->head.column)) ||
	    !give_place(decoder, start))
		return false;
	lattice.start_steps = start->values;
	lattice.start_rest = decoder->workspace->bytes;
	if (!read_numbers(decoder, start, &left, start->values, lattice.start_rest))
		return false;
	if (end) {
		right = column_cut(end);
		if (end->head.codec != WS_CODEC_SPAN || end->head.ref != start->head.column ||
		    end->head.scale != lattice.scale || !give_place(decoder, end))
			return false;
		lattice.span_steps = end->values;
		lattice.span_rest = decoder->workspace->bytes + decoder->rows;
		if (!read_numbers(decoder, end, &right, end->values, lattice.span_rest))
			return false;
		ends = end->values;
		end->done = true;
	}
	ws_join_times(&lattice, start->head.first, start->values, ends);
	start->done = true;
	return true;
}

/* A span is the duration + 1, or 0 for an end that is not known. */
static inline uint64_t span_end(uint64_t start, uint64_t span)
{
	if (!span)
		return WS_NO_TIME;
	return start + span - 1;
}

/* Decodes starts stored as gaps since the previous end, and ends stored as spans from the start:
 * each needs the other, row by row. */
static bool decode_gaps_and_spans(struct block_decoder *decoder, struct column *start,
				  struct column *end)
{
	struct ws_cut left = column_cut(start), right = column_cut(end);

	if (start->head.flags & WS_CODEC_SCALED)
		return decode_steps(decoder, start, end);
	if (start->head.codec != WS_CODEC_GAP || start->head.ref != end->head.column ||
	    end->head.codec != WS_CODEC_SPAN || end->head.ref != start->head.column ||
	    !give_place(decoder, start) || !give_place(decoder, end) ||
	    !read_numbers(decoder, start, &left, start->values, NULL) ||
	    !read_numbers(decoder, end, &right, end->values, NULL))
		return false;
	uint64_t *starts = start->values, *ends = end->values, last = start->head.first;
	starts[0] = 0; /* `last` is the first start */
	for (uint32_t i = 0; i < decoder->rows; i++) {
		uint64_t span = ends[i];
		last += starts[i];
		starts[i] = last;
		ends[i] = span_end(last, span);
		last += span - (span != 0);
	}
	start->done = end->done = true;
	return true;
}

static bool decode_column(struct block_decoder *decoder, struct column *column);

static bool decode_spans(struct block_decoder *decoder, struct column *column)
{
	struct column *start = find_column(decoder, column->head.ref);
	struct ws_cut cut = column_cut(column);

	if (!start || start == column || start->head.codec == WS_CODEC_SPAN)
		return false;
	if (start->head.codec == WS_CODEC_GAP || start->head.flags & WS_CODEC_SCALED)
		return decode_gaps_and_spans(decoder, start, column);
	if (!give_place(decoder, start) || (!start->done && !decode_column(decoder, start)) ||
	    !read_numbers(decoder, column, &cut, column->values, NULL))
		return false;
	for (uint32_t i = 0; i < decoder->rows; i++)
		column->values[i] = span_end(start->values[i], column->values[i]);
	return true;
}

static bool decode_deltas(struct block_decoder *decoder, struct column *column)
{
	struct ws_cut cut = column_cut(column);
	uint64_t sum = column->head.first;

	if (column->head.flags & WS_CODEC_SCALED)
		return decode_steps(decoder, column, NULL);
	if (!read_numbers(decoder, column, &cut, column->values, NULL))
		return false;
	column->values[0] = sum;
	for (uint32_t i = 1; i < decoder->rows; i++)
		column->values[i] = sum += column->values[i];
	return true;
}

static bool decode_column(struct block_decoder *decoder, struct column *column)
{
	struct ws_cut cut = column_cut(column);
	struct column *end;
	bool ok = true;

	switch (column->head.codec) {
	case WS_CODEC_CONST:
		for (uint32_t i = 0; i < decoder->rows; i++)
			column->values[i] = column->head.base;
		break;
	case WS_CODEC_PLAIN:
		ok = read_numbers(decoder, column, &cut, column->values, NULL);
		break;
	case WS_CODEC_DELTA:
		ok = decode_deltas(decoder, column);
		break;
	case WS_CODEC_DICT:
		ok = decode_dict(decoder, column, &cut, column->values);
		break;
	case WS_CODEC_SPAN:
		ok = decode_spans(decoder, column);
		break;
	case WS_CODEC_GAP:
		end = find_column(decoder, column->head.ref);
		ok = end && end != column && decode_gaps_and_spans(decoder, column, end);
		break;
	default:
		ok = false;
	}
	column->done = ok;
	return ok;
}

/* Reads the descriptors and finds where each column's streams are. */
static bool cut_columns(struct block_decoder *decoder, const uint8_t *body, uint64_t bytes)
{
	uint64_t heads = (uint64_t)decoder->column_count * sizeof(struct ws_column_head),
		 at = heads;

	if (heads > bytes)
		return false;
	for (uint32_t i = 0; i < decoder->column_count; i++) {
		struct column *column = &decoder->columns[i];

		*column = (struct column){.streams = body + at};
		memcpy(&column->head, body + (size_t)i * sizeof(column->head),
		       sizeof(column->head));
		if (column->head.bytes > bytes - at)
			return false;
		at += column->head.bytes;
	}
	return true;
}

static bool decode_body(struct ws_workspace *workspace, const struct ws_file_table *map,
			const struct ws_block_head *head, const uint8_t *body, uint64_t columns,
			uint64_t *const *out)
{
	struct column decoded[WS_MAX_FILE_COLUMNS];
	struct block_decoder decoder = {.workspace = workspace,
					.columns = decoded,
					.rows = head->rows,
					.column_count = head->columns};

	if (!cut_columns(&decoder, body, head->body_bytes))
		return false;
	for (uint32_t i = 0; i < decoder.column_count; i++) {
		int ours = -1;

		if (decoded[i].head.column < map->columns)
			ours = map->column[decoded[i].head.column];
		if (ours >= 0 && columns >> ours & 1) {
			decoded[i].values = out[ours];
			columns &= ~(UINT64_C(1) << ours);
		}
	}
	/* Spans first: they decode their starts along with them. */
	for (int spans_first = 1; spans_first >= 0; spans_first--)
		for (uint32_t i = 0; i < decoder.column_count; i++)
			if (decoded[i].values && !decoded[i].done &&
			    (decoded[i].head.codec == WS_CODEC_SPAN || !spans_first) &&
			    !decode_column(&decoder, &decoded[i]))
				return false;
	for (uint32_t missing = 0; columns >> missing;
	     missing++) /* not stored: all zero, or unknown to the file */
		if (columns >> missing & 1)
			memset(out[missing], 0, (size_t)head->rows * 8);
	return true;
}

int ws_report_decode_block(const struct ws_report *report, enum ws_table table, size_t i,
			   uint64_t columns, uint64_t *const *out, struct ws_err *err)
{
	const struct ws_block *block = &report->table[table].blocks[i];
	struct ws_workspace *workspace = ws_take_workspace(report);
	/* Only a counter: the content of the report does not change. */
	uint64_t *decoded = &((struct ws_report *)report)->decoded;
	const uint8_t *body = ws_read_block_body(report, block, workspace, err);
	int rc = 0;

	if (ws_tables[table].column_count < 64)
		columns &= (UINT64_C(1) << ws_tables[table].column_count) - 1;
	__atomic_fetch_add(decoded, 1, __ATOMIC_RELAXED);
	reserve_workspace(workspace, block->head.rows);
	if (!body)
		rc = -1;
	else if (!decode_body(workspace, &report->schema[block->head.table], &block->head, body,
			      columns, out))
		rc = ws_fail(err, "%s: the rows block at offset %llu cannot be decoded",
			     report->path, (unsigned long long)block->offset);
	ws_give_back_workspace(report, workspace);
	return rc;
}

uint64_t ws_report_count_decoded(const struct ws_report *report)
{
	return __atomic_load_n(&report->decoded, __ATOMIC_RELAXED);
}
