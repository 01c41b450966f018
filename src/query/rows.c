/*
 * rows.c - a scan's rows in memory, ordered by (track, start, longer first).
 *
 * Every block is in that order within itself, so a track's rows in a block are a sorted run; these
 * runs are merged. Runs that follow one another in time, the usual case, are moved as they are.
 * Where runs overlap (a parent range written long after its children), a heap of runs gives the
 * smallest row and all rows after it that come before every other run.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/mem.h"
#include "query/query.h"
#include "query/window.h"

struct row_piece { /* the next `n` decoded rows, from `from` on */
	size_t from, n;
};

struct row_run { /* sorted rows of one track in one block */
	size_t at, end;
	uint64_t track;
};

struct rows_loader {
	const struct ws_scan *scan;
	struct ws_rows *out;
	size_t *place;	       /* of each block's rows */
	size_t *rows_given;    /* rows that each block gave: none when it is damaged */
	const uint8_t *tracks; /* by track: whether it is wanted; NULL: all are */
	size_t track_count;
	int track_column;
	size_t capacity;			  /* rows that the columns have room for */
	const uint64_t *track, *start, *end_time; /* decoded columns; NULL where a table has none */
	struct row_run *runs;
	size_t run_count, run_cap;
	struct row_piece *pieces;
	size_t piece_count, piece_cap;
};

/* ---- big arrays ---- */

static uint64_t *new_column(size_t rows)
{
	size_t bytes = ws_max(rows, (size_t)1) * 8;
	uint64_t *column;

	if (bytes < (size_t)4 << 20)
		return ws_malloc(bytes);
	if (posix_memalign((void **)&column, (size_t)2 << 20, bytes))
		return ws_malloc(bytes);
	madvise(column, bytes, MADV_HUGEPAGE); /* otherwise page faults of 4 KiB each would take
						  most of the time of loading */
	return column;
}

void ws_rows_free(struct ws_rows *rows)
{
	for (uint32_t column = 0; column < WS_MAX_COLUMNS; column++)
		free(rows->col[column]);
	memset(rows, 0, sizeof(*rows));
}

void ws_rows_release(struct ws_rows *rows, size_t from, size_t to)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	for (uint32_t column = 0; column < WS_MAX_COLUMNS; column++) {
		uint64_t *values = rows->col[column];
		uintptr_t first = ((uintptr_t)(values + from) + page - 1) / page * page,
			  last = (uintptr_t)(values + to) / page * page;

		if (values && first < last)
			madvise((void *)first, last - first, MADV_DONTNEED);
	}
}

/* ---- decoding ---- */

static bool is_wanted(const struct rows_loader *loader, const struct ws_batch *batch, size_t i)
{
	uint64_t track = batch->col[loader->track_column][i];

	return track < loader->track_count && loader->tracks[track];
}

static int keep_wanted(struct rows_loader *loader, const struct ws_batch *batch)
{
	size_t kept = 0;

	for (size_t i = 0; i < batch->rows; i++) {
		if (!is_wanted(loader, batch, i))
			continue;
		for (uint32_t column = 0; column < WS_MAX_COLUMNS; column++)
			if (batch->col[column])
				loader->out->col[column][loader->place[batch->block] + kept] =
					batch->col[column][i];
		kept++;
	}
	loader->rows_given[batch->block] = kept;
	return 0;
}

static int keep_batch(void *ctx, const struct ws_batch *batch)
{
	struct rows_loader *loader = ctx;

	if (loader->tracks)
		return keep_wanted(loader, batch);
	for (uint32_t column = 0; column < WS_MAX_COLUMNS; column++)
		if (batch->col[column])
			memcpy(loader->out->col[column] + loader->place[batch->block],
			       batch->col[column], batch->rows * 8);
	loader->rows_given[batch->block] = batch->rows;
	return 0;
}

static int count_batch(void *ctx, const struct ws_batch *batch)
{
	struct rows_loader *loader = ctx;
	size_t kept = batch->rows;

	if (loader->tracks) {
		kept = 0;
		for (size_t i = 0; i < batch->rows; i++)
			kept += is_wanted(loader, batch, i);
	}
	loader->place[batch->block] = kept;
	return 0;
}

/* Finds where each block's rows go from how many rows it gives: known without a window, counted
 * with one. */
static size_t place_blocks(const struct ws_report *report, struct rows_loader *loader,
			   size_t blocks)
{
	const struct ws_scan *scan = loader->scan;
	struct ws_window window = ws_make_window(scan->table, 0, scan->time_min, scan->time_max);
	size_t *place = loader->place, sum = 0;

	if (window.set || loader->tracks) {
		struct ws_scan count = *scan;

		count.columns = 0;
		if (loader->tracks)
			count.columns = UINT64_C(1) << loader->track_column;
		ws_run_scan(report, &count, count_batch, loader, NULL);
	} else {
		for (size_t i = 0; i < blocks; i++)
			place[i] = ws_report_block_info(report, scan->table, i).rows;
	}
	for (size_t i = 0; i < blocks; i++) {
		size_t rows = place[i];

		place[i] = sum;
		sum += rows;
	}
	place[blocks] = sum;
	return sum;
}

/* ---- order ---- */

static int compare_rows(const struct rows_loader *loader, size_t a, size_t b)
{
	if (loader->start && loader->start[a] != loader->start[b])
		return ws_compare(loader->start[a], loader->start[b]);
	if (loader->end_time && loader->end_time[a] != loader->end_time[b])
		return ws_compare(loader->end_time[b], loader->end_time[a]);
	return 0;
}

static void find_runs(struct rows_loader *loader, size_t from, size_t to)
{
	for (size_t i = from; i < to;) {
		size_t end = to;
		uint64_t track = 0;

		if (loader->track)
			track = loader->track[i];
		if (loader->track && loader->track[to - 1] != loader->track[i])
			for (end = i + 1; loader->track[end] == loader->track[i];)
				end++;
		ws_grow(loader->runs, loader->run_cap, loader->run_count + 1);
		loader->runs[loader->run_count++] = (struct row_run){i, end, track};
		i = end;
	}
}

static int compare_heads(const void *first, const void *second, void *ctx)
{
	const struct row_run *left = first, *right = second;
	int order;

	if (left->track != right->track)
		return ws_compare(left->track, right->track);
	order = compare_rows(ctx, left->at, right->at);
	if (order)
		return order;
	return ws_compare(left->at, right->at);
}

static void add_piece(struct rows_loader *loader, size_t from, size_t rows)
{
	struct row_piece *last = NULL;

	if (loader->piece_count)
		last = &loader->pieces[loader->piece_count - 1];
	if (last && last->from + last->n == from) {
		last->n += rows;
		return;
	}
	ws_grow(loader->pieces, loader->piece_cap, loader->piece_count + 1);
	loader->pieces[loader->piece_count++] = (struct row_piece){from, rows};
}

static bool comes_before(const struct rows_loader *loader, const struct row_run *left,
			 const struct row_run *right)
{
	int order = compare_rows(loader, left->at, right->at);

	if (order)
		return order < 0;
	return left->at < right->at;
}

static void sift_down(const struct rows_loader *loader, struct row_run *heap, size_t runs,
		      size_t at)
{
	struct row_run moving = heap[at];

	for (size_t child; (child = 2 * at + 1) < runs; at = child) {
		if (child + 1 < runs && comes_before(loader, &heap[child + 1], &heap[child]))
			child++;
		if (!comes_before(loader, &heap[child], &moving))
			break;
		heap[at] = heap[child];
	}
	heap[at] = moving;
}

/* How many rows of `left` come before the head of `right`: exponential steps, then bisection. */
static size_t find_run_ahead(const struct rows_loader *loader, const struct row_run *left,
			     const struct row_run *right)
{
	size_t low = left->at, step = 1, high;

	while (low + step < left->end && compare_rows(loader, low + step, right->at) < 0) {
		low += step;
		step *= 2;
	}
	high = ws_min(low + step, left->end);
	while (low + 1 < high) {
		size_t mid = low + (high - low) / 2;

		if (compare_rows(loader, mid, right->at) < 0)
			low = mid;
		else
			high = mid;
	}
	return low + 1;
}

/* `run` has runs sorted by head, which makes it a heap. */
static void merge_runs(struct rows_loader *loader, struct row_run *run, size_t runs)
{
	while (runs > 1) {
		size_t second = 1 + (runs > 2 && comes_before(loader, &run[2], &run[1])),
		       stop = find_run_ahead(loader, &run[0], &run[second]);

		add_piece(loader, run[0].at, stop - run[0].at);
		run[0].at = stop;
		if (run[0].at == run[0].end)
			run[0] = run[--runs];
		sift_down(loader, run, runs, 0);
	}
	add_piece(loader, run[0].at, run[0].end - run[0].at);
}

/* Runs that overlap in a chain are merged together; the others are copied as they are. */
static void sort_runs(struct rows_loader *loader)
{
	if (!loader->run_count)
		return;
	qsort_r(loader->runs, loader->run_count, sizeof(*loader->runs), compare_heads, loader);
	for (size_t i = 0, end; i < loader->run_count; i = end) {
		size_t last = loader->runs[i].end - 1;

		for (end = i + 1;
		     end < loader->run_count && loader->runs[end].track == loader->runs[i].track;
		     end++) {
			if (compare_rows(loader, last, loader->runs[end].at) <= 0)
				break;
			if (compare_rows(loader, last, loader->runs[end].end - 1) < 0)
				last = loader->runs[end].end - 1;
		}
		merge_runs(loader, loader->runs + i, end - i);
	}
}

/* Orders some of the columns, one after the other. Each is written into the memory of the one
 * before, so that only the first needs new memory. */
struct column_mover {
	const struct rows_loader *load;
	uint64_t columns;
	pthread_t thread;
	bool started;
};

static void move_column(const struct rows_loader *loader, uint64_t *to, const uint64_t *from)
{
	size_t at = 0;

	for (size_t i = 0; i < loader->piece_count; i++) {
		const struct row_piece *piece = &loader->pieces[i];

		if (piece->n == 1)
			to[at] = from[piece->from];
		else
			memcpy(to + at, from + piece->from, piece->n * 8);
		at += piece->n;
	}
}

static void *move_columns(void *arg)
{
	const struct column_mover *move = arg;
	struct ws_rows *out = move->load->out;
	uint64_t *scratch = NULL;

	for (uint32_t column = 0; column < WS_MAX_COLUMNS; column++) {
		uint64_t *from;

		if (!(move->columns >> column & 1))
			continue;
		from = out->col[column];
		if (!scratch)
			scratch = new_column(move->load->capacity);
		move_column(move->load, scratch, from);
		out->col[column] = scratch;
		scratch = from;
	}
	free(scratch);
	return NULL;
}

static void move_rows(const struct rows_loader *loader)
{
	struct column_mover moves[2] = {{.load = loader}, {.load = loader}};
	uint32_t number = 0;

	for (uint32_t column = 0; column < WS_MAX_COLUMNS; column++)
		if (loader->out->col[column])
			moves[number++ % 2].columns |= UINT64_C(1) << column;
	moves[1].started = !pthread_create(&moves[1].thread, NULL, move_columns, &moves[1]);
	move_columns(&moves[0]);
	if (moves[1].started)
		pthread_join(moves[1].thread, NULL);
	else
		move_columns(&moves[1]);
}

/*
 * Whether blocks follow one another in track and time, so that rows are already in order, as for a
 * single thread's tight loop. Then the columns that rows are sorted by need not be decoded.
 */
static bool block_follows(const struct ws_block_info *left, const struct ws_block_info *right,
			  bool tracks)
{
	if (tracks && left->track_max < right->track_min)
		return true;
	if (tracks && (left->track_min != left->track_max || right->track_min != left->track_max ||
		       right->track_max != left->track_max))
		return false;
	return left->time_max < right->time_min;
}

static bool blocks_are_in_order(const struct ws_report *report, enum ws_table table)
{
	size_t blocks = ws_report_count_blocks(report, table);

	if (ws_table_start(table) < 0)
		return false;
	for (size_t i = 1; i < blocks; i++) {
		struct ws_block_info left = ws_report_block_info(report, table, i - 1),
				     right = ws_report_block_info(report, table, i);

		if (!block_follows(&left, &right, ws_table_track(table) >= 0))
			return false;
	}
	return true;
}

static void sort_rows(struct rows_loader *loader, size_t blocks, bool in_order)
{
	size_t rows = 0;

	for (size_t i = 0; i < blocks; i++) {
		if (in_order && loader->rows_given[i])
			add_piece(loader, loader->place[i], loader->rows_given[i]);
		else if (!in_order)
			find_runs(loader, loader->place[i],
				  loader->place[i] + loader->rows_given[i]);
		rows += loader->rows_given[i];
	}
	loader->out->rows = rows;
	sort_runs(loader);
	if (loader->piece_count > 1 || (loader->piece_count && loader->pieces[0].from))
		move_rows(loader);
	free(loader->runs);
	free(loader->pieces);
}

/* ---- the interface ---- */

static const uint64_t *sorting_column(const struct ws_rows *out, int column)
{
	if (column < 0)
		return NULL;
	return out->col[column];
}

void ws_rows_load_tracks(const struct ws_report *report, const struct ws_scan *request,
			 const uint8_t *tracks, size_t count, struct ws_rows *out)
{
	size_t blocks = ws_report_count_blocks(report, request->table);
	struct ws_scan scan = *request;
	struct rows_loader loader = {.scan = &scan,
				     .out = out,
				     .tracks = tracks,
				     .track_count = count,
				     .track_column = ws_table_track(request->table)};
	int key[3] = {ws_table_track(request->table), ws_table_start(request->table),
		      ws_table_end(request->table)};
	uint32_t columns = ws_tables[request->table].column_count;
	bool in_order = blocks_are_in_order(report, request->table);

	memset(out, 0, sizeof(*out));
	loader.place = ws_calloc(blocks + 1, sizeof(*loader.place));
	loader.rows_given = ws_calloc(blocks + 1, sizeof(*loader.rows_given));
	for (int i = 0; i < 3; i++)
		if (key[i] >= 0 && (!in_order || (tracks && !i)))
			scan.columns |= UINT64_C(1) << key[i];
	out->rows = loader.capacity = place_blocks(report, &loader, blocks);
	for (uint32_t column = 0; column < columns; column++)
		if (scan.columns >> column & 1)
			out->col[column] = new_column(out->rows);
	ws_run_scan(report, &scan, keep_batch, &loader, &out->damaged);
	loader.track = sorting_column(out, key[0]);
	loader.start = sorting_column(out, key[1]);
	if (loader.start)
		loader.end_time = sorting_column(out, key[2]);
	sort_rows(&loader, blocks, in_order);
	free(loader.place);
	free(loader.rows_given);
	for (uint32_t number = 0; number < columns; number++)
		if (!(request->columns >> number & 1)) {
			free(out->col[number]);
			out->col[number] = NULL;
		}
}

int ws_rows_load(const struct ws_report *report, const struct ws_scan *scan, struct ws_rows *out,
		 struct ws_err *err)
{
	(void)err; /* running out of memory ends the program; damage is counted */
	ws_rows_load_tracks(report, scan, NULL, 0, out);
	return 0;
}

/* ---- in parts ---- */

struct block_start {
	uint64_t time;
	uint32_t rows;
};

static int compare_block_starts(const void *first, const void *second)
{
	const struct block_start *a = first, *b = second;

	return ws_compare(a->time, b->time);
}

/* The blocks of a table by the time of their first row. Owned by the caller. */
static struct block_start *sort_block_starts(const struct ws_report *report, enum ws_table table,
					     size_t *count)
{
	struct block_start *starts;

	*count = ws_report_count_blocks(report, table);
	starts = ws_calloc(*count + 1, sizeof(*starts));
	for (size_t i = 0; i < *count; i++) {
		struct ws_block_info info = ws_report_block_info(report, table, i);

		starts[i] = (struct block_start){info.time_min, info.rows};
	}
	qsort(starts, *count, sizeof(*starts), compare_block_starts);
	return starts;
}

/* Keeps the rows that begin at `from` or later: earlier rows that the window touches were in a part
 * before. */
static void keep_rows_from(struct ws_rows *rows, int start, uint64_t from)
{
	size_t kept = 0;

	for (size_t i = 0; i < rows->rows; i++) {
		if (rows->col[start][i] < from)
			continue;
		for (size_t column = 0; column < WS_MAX_COLUMNS; column++)
			if (rows->col[column])
				rows->col[column][kept] = rows->col[column][i];
		kept++;
	}
	rows->rows = kept;
}

void ws_rows_load_parts(const struct ws_report *report, const struct ws_scan *request, size_t most,
			void (*fn)(void *context, const struct ws_rows *rows), void *context)
{
	size_t count;
	struct block_start *starts = sort_block_starts(report, request->table, &count);
	struct ws_scan part = *request;

	for (size_t i = 0; i < count;) {
		struct ws_rows rows;
		size_t gathered = 0;
		bool first = part.time_min == request->time_min;

		while (i < count && (gathered < most || starts[i].time <= part.time_min))
			gathered += starts[i++].rows;
		part.time_max = request->time_max;
		if (i < count)
			part.time_max = ws_min(request->time_max, starts[i].time - 1);
		ws_rows_load_tracks(report, &part, NULL, 0, &rows);
		if (!first)
			keep_rows_from(&rows, ws_table_start(request->table), part.time_min);
		fn(context, &rows);
		ws_rows_free(&rows);
		if (part.time_max == request->time_max)
			break;
		part.time_min = part.time_max + 1;
	}
	free(starts);
}
