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

struct ws_workspace *ws_workspace_take(const struct ws_report *report)
{
	struct ws_report *report_m =
		(struct ws_report *)report; /* the pool is no part of what const promises */
	struct ws_workspace *workspace;

	pthread_mutex_lock(&report_m->lock);
	workspace = report_m->pool;
	if (workspace)
		report_m->pool = workspace->next;
	pthread_mutex_unlock(&report_m->lock);
	if (!workspace) {
		workspace = ws_calloc(1, sizeof(*workspace));
		ws_unpacker_init(&workspace->unpacker);
	}
	return workspace;
}

void ws_workspace_give(const struct ws_report *report, struct ws_workspace *workspace)
{
	struct ws_report *report_m = (struct ws_report *)report;

	pthread_mutex_lock(&report_m->lock);
	workspace->next = report_m->pool;
	report_m->pool = workspace;
	pthread_mutex_unlock(&report_m->lock);
}

void ws_workspace_free(struct ws_workspace *workspace)
{
	ws_unpacker_free(&workspace->unpacker);
	ws_bytes_free(&workspace->block);
	free(workspace->spare[0]);
	free(workspace->spare[1]);
	free(workspace->bytes);
	free(workspace);
}

static void workspace_rows(struct ws_workspace *workspace, uint32_t rows)
{
	ws_unpacker_rows(&workspace->unpacker, rows);
	if (rows <= workspace->rows)
		return;
	for (int i = 0; i < 2; i++)
		workspace->spare[i] = ws_realloc(workspace->spare[i], (size_t)rows * 8);
	workspace->bytes = ws_realloc(workspace->bytes, (size_t)rows * 2);
	workspace->rows = rows;
}

const char *ws_block_type_name(uint32_t type)
{
	static const char *const names[] = {"",	    "segment", "schema",  "strings",
					    "rows", "index",   "overview"};

	return type < WS_COUNT(names) ? names[type] : "unknown";
}

const uint8_t *ws_block_body(const struct ws_report *report, const struct ws_block *block,
			     struct ws_workspace *workspace, struct ws_err *err)
{
	size_t n = sizeof(struct ws_block_header) + block->head.body_bytes;
	struct ws_block_header header;
	const uint8_t *bytes = block->memory;

	if (!bytes) {
		workspace->block.len = 0;
		bytes = ws_bytes_room(&workspace->block, n);
		if (ws_pread_all(report->fd, (void *)bytes, n, block->offset)) {
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
			ws_block_type_name(block->head.type), (unsigned long long)block->offset);
		return NULL;
	}
	return bytes + sizeof(header);
}

/* ---- columns ---- */

struct column {
	struct ws_column_head head;
	const uint8_t *at;
	uint64_t *value; /* where it is decoded to; NULL: not (yet) */
	bool done;
};

struct job {
	struct ws_workspace *workspace;
	struct column *column;
	uint32_t n, columns;
	uint32_t spares;
};

static uint64_t unzigzag(uint64_t u)
{
	return u >> 1 ^ (0 - (u & 1));
}

/* The numbers of a column with base and sign put back. `rest`: where the corrections of a SCALED
 * column go; without it, it is no such. */
static bool numbers(struct job *job, const struct column *column, struct ws_cut *cut, uint64_t *u,
		    uint8_t *rest)
{
	uint64_t base = column->head.base;

	if (!(column->head.flags & WS_CODEC_SCALED) != !rest ||
	    !ws_ints_get(&job->workspace->unpacker, cut, &column->head, u, job->n) ||
	    (rest && !ws_stream_get(job->workspace->unpacker.z, cut, rest, job->n)))
		return false;
	if (column->head.flags & WS_CODEC_ZIGZAG)
		for (uint32_t i = 0; i < job->n; i++)
			u[i] = unzigzag(u[i] + base);
	else if (base)
		for (uint32_t i = 0; i < job->n; i++)
			u[i] += base;
	return true;
}

static bool from_dict(struct job *job, const struct column *column, struct ws_cut *cut, uint64_t *u)
{
	uint64_t table[256] = {0}, over = 0;

	if (!column->head.dict || column->head.dict > 256 || column->head.width > 1 ||
	    column->head.patches || column->head.flags ||
	    !ws_stream_get(job->workspace->unpacker.z, cut, (uint8_t *)table,
			   column->head.dict * 8u) ||
	    !ws_ints_get(&job->workspace->unpacker, cut, &column->head, u, job->n))
		return false;
	for (uint32_t i = 0; i < job->n; i++) {
		over |= u[i] >= column->head.dict;
		u[i] = table[u[i]];
	}
	return !over;
}

static struct column *find(const struct job *job, uint32_t number)
{
	for (uint32_t i = 0; i < job->columns; i++)
		if (job->column[i].head.column == number)
			return &job->column[i];
	return NULL;
}

static bool place(struct job *job, struct column *column)
{
	if (column->value)
		return true;
	if (job->spares == 2)
		return false;
	column->value = job->workspace->spare[job->spares++];
	return true;
}

static struct ws_cut cut_of(const struct column *column)
{
	return (struct ws_cut){column->at, column->at + column->head.bytes};
}

/* Starts, and unless it is NULL ends, in steps of the clock. */
static bool steps(struct job *job, struct column *start, struct column *end)
{
	struct ws_lattice lattice = {
		.scale = start->head.scale, .gaps = start->head.codec == WS_CODEC_GAP, .n = job->n};
	struct ws_cut left = cut_of(start), right;

	if ((start->head.codec != WS_CODEC_DELTA && !lattice.gaps) ||
	    (lattice.gaps && (!end || start->head.ref != end->head.column)) || !place(job, start))
		return false;
	lattice.start_steps = start->value;
	lattice.start_rest = job->workspace->bytes;
	if (!numbers(job, start, &left, start->value, lattice.start_rest))
		return false;
	if (end) {
		right = cut_of(end);
		if (end->head.codec != WS_CODEC_SPAN || end->head.ref != start->head.column ||
		    end->head.scale != lattice.scale || !place(job, end))
			return false;
		lattice.span_steps = end->value;
		lattice.span_rest = job->workspace->bytes + job->n;
		if (!numbers(job, end, &right, end->value, lattice.span_rest))
			return false;
		end->done = true;
	}
	ws_lattice_join(&lattice, start->head.first, start->value, end ? end->value : NULL);
	start->done = true;
	return true;
}

/* Starts as gaps since the end before, and ends as spans from the start: one needs the other, row
 * by row. */
static bool gaps_and_spans(struct job *job, struct column *start, struct column *end)
{
	struct ws_cut left = cut_of(start), right = cut_of(end);

	if (start->head.flags & WS_CODEC_SCALED)
		return steps(job, start, end);
	if (start->head.codec != WS_CODEC_GAP || start->head.ref != end->head.column ||
	    end->head.codec != WS_CODEC_SPAN || end->head.ref != start->head.column ||
	    !place(job, start) || !place(job, end) ||
	    !numbers(job, start, &left, start->value, NULL) ||
	    !numbers(job, end, &right, end->value, NULL))
		return false;
	uint64_t *s = start->value, *e = end->value, last = start->head.first;

	for (uint32_t i = 0; i < job->n; i++) {
		uint64_t now = i ? last + s[i] : last, span = e[i];

		s[i] = now;
		last = span ? now + span - 1 : now;
		e[i] = span ? last : WS_NO_TIME;
	}
	start->done = end->done = true;
	return true;
}

static bool decode_column(struct job *job, struct column *column);

static bool spans(struct job *job, struct column *column)
{
	struct column *start = find(job, column->head.ref);
	struct ws_cut cut = cut_of(column);

	if (!start || start == column || start->head.codec == WS_CODEC_SPAN)
		return false;
	if (start->head.codec == WS_CODEC_GAP || start->head.flags & WS_CODEC_SCALED)
		return gaps_and_spans(job, start, column);
	if (!place(job, start) || (!start->done && !decode_column(job, start)) ||
	    !numbers(job, column, &cut, column->value, NULL))
		return false;
	for (uint32_t i = 0; i < job->n; i++)
		column->value[i] =
			column->value[i] ? start->value[i] + column->value[i] - 1 : WS_NO_TIME;
	return true;
}

static bool deltas(struct job *job, struct column *column)
{
	struct ws_cut cut = cut_of(column);
	uint64_t sum = column->head.first;

	if (column->head.flags & WS_CODEC_SCALED)
		return steps(job, column, NULL);
	if (!numbers(job, column, &cut, column->value, NULL))
		return false;
	column->value[0] = sum;
	for (uint32_t i = 1; i < job->n; i++)
		column->value[i] = sum += column->value[i];
	return true;
}

static bool decode_column(struct job *job, struct column *column)
{
	struct ws_cut cut = cut_of(column);
	struct column *end;
	bool ok = true;

	switch (column->head.codec) {
	case WS_CODEC_CONST:
		for (uint32_t i = 0; i < job->n; i++)
			column->value[i] = column->head.base;
		break;
	case WS_CODEC_PLAIN:
		ok = numbers(job, column, &cut, column->value, NULL);
		break;
	case WS_CODEC_DELTA:
		ok = deltas(job, column);
		break;
	case WS_CODEC_DICT:
		ok = from_dict(job, column, &cut, column->value);
		break;
	case WS_CODEC_SPAN:
		ok = spans(job, column);
		break;
	case WS_CODEC_GAP:
		end = find(job, column->head.ref);
		ok = end && end != column && gaps_and_spans(job, column, end);
		break;
	default:
		ok = false;
	}
	column->done = ok;
	return ok;
}

/* Descriptors, and where each column's streams are. */
static bool cut_columns(struct job *job, const uint8_t *body, uint64_t bytes)
{
	uint64_t heads = (uint64_t)job->columns * sizeof(struct ws_column_head), at = heads;

	if (heads > bytes)
		return false;
	for (uint32_t i = 0; i < job->columns; i++) {
		struct column *column = &job->column[i];

		*column = (struct column){.at = body + at};
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
	struct column c[WS_MAX_FILE_COLUMNS];
	struct job job = {
		.workspace = workspace, .column = c, .n = head->rows, .columns = head->columns};

	if (!cut_columns(&job, body, head->body_bytes))
		return false;
	for (uint32_t i = 0; i < job.columns; i++) {
		int ours = c[i].head.column < map->columns ? map->column[c[i].head.column] : -1;

		if (ours >= 0 && columns >> ours & 1) {
			c[i].value = out[ours];
			columns &= ~(UINT64_C(1) << ours);
		}
	}
	for (int spans_first = 1; spans_first >= 0;
	     spans_first--) /* they decode their starts along with them */
		for (uint32_t i = 0; i < job.columns; i++)
			if (c[i].value && !c[i].done &&
			    (c[i].head.codec == WS_CODEC_SPAN || !spans_first) &&
			    !decode_column(&job, &c[i]))
				return false;
	for (uint32_t k = 0; columns >> k; k++) /* not stored: all zero, or unknown to the file */
		if (columns >> k & 1)
			memset(out[k], 0, (size_t)head->rows * 8);
	return true;
}

int ws_report_decode(const struct ws_report *report, enum ws_table table, size_t i,
		     uint64_t columns, uint64_t *const *out, struct ws_err *err)
{
	const struct ws_block *block = &report->table[table].blocks[i];
	struct ws_workspace *workspace = ws_workspace_take(report);
	uint64_t *decoded = &((struct ws_report *)report)
				     ->decoded; /* of what was read, the report does not change */
	const uint8_t *body = ws_block_body(report, block, workspace, err);
	int rc = body ? 0 : -1;

	if (ws_tables[table].column_count < 64)
		columns &= (UINT64_C(1) << ws_tables[table].column_count) - 1;
	__atomic_fetch_add(decoded, 1, __ATOMIC_RELAXED);
	workspace_rows(workspace, block->head.rows);
	if (body && !decode_body(workspace, &report->schema[block->head.table], &block->head, body,
				 columns, out))
		rc = ws_fail(err, "%s: the rows block at offset %llu cannot be decoded",
			     report->path, (unsigned long long)block->offset);
	ws_workspace_give(report, workspace);
	return rc;
}

uint64_t ws_report_decoded(const struct ws_report *report)
{
	return __atomic_load_n(&report->decoded, __ATOMIC_RELAXED);
}
