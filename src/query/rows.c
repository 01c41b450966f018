/*
 * rows.c - a scan's rows in memory, ordered by (track, start, longer first).
 *
 * Every block is in that order within itself, so a track's rows of a block are a sorted run; what
 * is left is to merge runs. Runs that follow one another in time, the usual case, are moved as they
 * are; where they overlap (a parent range written long after its children), a heap of runs gives
 * out the smallest row, and as many after it as stay ahead of every other run.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "query/query.h"
#include "query/window.h"

struct piece { /* rows from..from+n-1 of the decoded order come next */
	size_t from, n;
};

struct run { /* sorted rows of one track in one block */
	size_t at, end;
	uint64_t track;
};

struct load {
	const struct ws_scan *scan;
	struct ws_rows *out;
	size_t *place;	       /* of each block's rows */
	size_t *got;	       /* rows that each block really gave: none when it is damaged */
	const uint8_t *tracks; /* by track: is it wanted? NULL: all are */
	size_t tracks_n;
	int track_column;
	size_t room;				  /* rows that columns have room for */
	const uint64_t *track, *start, *end_time; /* decoded columns; NULL where a table has none */
	struct run *runs;
	size_t run_count, run_cap;
	struct piece *pieces;
	size_t piece_count, piece_cap;
};

/* ---- big arrays ---- */

static uint64_t *new_column(size_t rows)
{
	size_t bytes = (rows ? rows : 1) * 8;
	uint64_t *p;

	if (bytes < (size_t)4 << 20)
		return ws_malloc(bytes);
	if (posix_memalign((void **)&p, (size_t)2 << 20, bytes))
		return ws_malloc(bytes);
	madvise(p, bytes, MADV_HUGEPAGE); /* half a gigabyte of 4 KiB page faults is what loading
					     would mostly consist of */
	return p;
}

void ws_rows_free(struct ws_rows *rows)
{
	for (uint32_t c = 0; c < WS_MAX_COLUMNS; c++)
		free(rows->col[c]);
	memset(rows, 0, sizeof(*rows));
}

/* ---- decoding ---- */

static bool wanted(const struct load *load, const struct ws_batch *batch, size_t i)
{
	uint64_t track = batch->col[load->track_column][i];

	return track < load->tracks_n && load->tracks[track];
}

static int keep_wanted(struct load *load, const struct ws_batch *batch)
{
	size_t n = 0;

	for (size_t i = 0; i < batch->rows; i++) {
		if (!wanted(load, batch, i))
			continue;
		for (uint32_t c = 0; c < WS_MAX_COLUMNS; c++)
			if (batch->col[c])
				load->out->col[c][load->place[batch->block] + n] = batch->col[c][i];
		n++;
	}
	load->got[batch->block] = n;
	return 0;
}

static int keep_batch(void *ctx, const struct ws_batch *batch)
{
	struct load *load = ctx;

	if (load->tracks)
		return keep_wanted(load, batch);
	for (uint32_t c = 0; c < WS_MAX_COLUMNS; c++)
		if (batch->col[c])
			memcpy(load->out->col[c] + load->place[batch->block], batch->col[c],
			       batch->rows * 8);
	load->got[batch->block] = batch->rows;
	return 0;
}

static int count_batch(void *ctx, const struct ws_batch *batch)
{
	struct load *load = ctx;
	size_t n = 0;

	for (size_t i = 0; load->tracks && i < batch->rows; i++)
		n += wanted(load, batch, i);
	load->place[batch->block] = load->tracks ? n : batch->rows;
	return 0;
}

/* Rows that each block will give: known without a window, counted with one. */
static size_t place_blocks(const struct ws_report *report, struct load *load, size_t blocks)
{
	const struct ws_scan *scan = load->scan;
	struct ws_window window = ws_window_new(scan->table, 0, scan->time_min, scan->time_max);
	size_t *place = load->place, sum = 0;

	if (window.set || load->tracks) {
		struct ws_scan count = *scan;

		count.columns = load->tracks ? UINT64_C(1) << load->track_column : 0;
		ws_scan_run(report, &count, count_batch, load, NULL);
	} else {
		for (size_t i = 0; i < blocks; i++)
			place[i] = ws_report_block(report, scan->table, i).rows;
	}
	for (size_t i = 0; i < blocks; i++) {
		size_t n = place[i];

		place[i] = sum;
		sum += n;
	}
	place[blocks] = sum;
	return sum;
}

/* ---- order ---- */

static int compare(const struct load *load, size_t a, size_t b)
{
	if (load->start && load->start[a] != load->start[b])
		return load->start[a] < load->start[b] ? -1 : 1;
	if (load->end_time && load->end_time[a] != load->end_time[b])
		return load->end_time[a] > load->end_time[b] ? -1 : 1;
	return 0;
}

static void find_runs(struct load *load, size_t from, size_t to)
{
	for (size_t i = from; i < to;) {
		size_t end = to;

		if (load->track && load->track[to - 1] != load->track[i])
			for (end = i + 1; load->track[end] == load->track[i];)
				end++;
		ws_grow(load->runs, load->run_cap, load->run_count + 1);
		load->runs[load->run_count++] =
			(struct run){i, end, load->track ? load->track[i] : 0};
		i = end;
	}
}

static int by_head(const void *first, const void *second, void *ctx)
{
	const struct run *left = first, *right = second;
	int c;

	if (left->track != right->track)
		return left->track < right->track ? -1 : 1;
	c = compare(ctx, left->at, right->at);
	return c ? c : left->at < right->at ? -1 : 1;
}

static void add_piece(struct load *load, size_t from, size_t n)
{
	struct piece *last = load->piece_count ? &load->pieces[load->piece_count - 1] : NULL;

	if (last && last->from + last->n == from) {
		last->n += n;
		return;
	}
	ws_grow(load->pieces, load->piece_cap, load->piece_count + 1);
	load->pieces[load->piece_count++] = (struct piece){from, n};
}

static bool heap_less(const struct load *load, const struct run *left, const struct run *right)
{
	int c = compare(load, left->at, right->at);

	return c ? c < 0 : left->at < right->at;
}

static void sift_down(const struct load *load, struct run *run_h, size_t n, size_t i)
{
	struct run run_x = run_h[i];

	for (size_t k; (k = 2 * i + 1) < n; i = k) {
		if (k + 1 < n && heap_less(load, &run_h[k + 1], &run_h[k]))
			k++;
		if (!heap_less(load, &run_h[k], &run_x))
			break;
		run_h[i] = run_h[k];
	}
	run_h[i] = run_x;
}

/* How far `a` goes before `b`'s head comes first: exponential steps, then halving. */
static size_t ahead(const struct load *load, const struct run *left, const struct run *right)
{
	size_t low = left->at, step = 1, high;

	while (low + step < left->end && compare(load, low + step, right->at) < 0) {
		low += step;
		step *= 2;
	}
	high = low + step < left->end ? low + step : left->end;
	while (low + 1 < high) {
		size_t mid = low + (high - low) / 2;

		if (compare(load, mid, right->at) < 0)
			low = mid;
		else
			high = mid;
	}
	return low + 1;
}

/* `h` holds runs sorted by head, which is a heap. */
static void merge(struct load *load, struct run *run, size_t n)
{
	while (n > 1) {
		size_t second = n > 2 && heap_less(load, &run[2], &run[1]) ? 2 : 1,
		       stop = ahead(load, &run[0], &run[second]);

		add_piece(load, run[0].at, stop - run[0].at);
		run[0].at = stop;
		if (run[0].at == run[0].end)
			run[0] = run[--n];
		sift_down(load, run, n, 0);
	}
	add_piece(load, run[0].at, run[0].end - run[0].at);
}

/* Runs i.. that overlap in a chain belong together; the others go straight through. */
static void order(struct load *load)
{
	if (!load->run_count)
		return;
	qsort_r(load->runs, load->run_count, sizeof(*load->runs), by_head, load);
	for (size_t i = 0, e; i < load->run_count; i = e) {
		size_t last = load->runs[i].end - 1;

		for (e = i + 1; e < load->run_count && load->runs[e].track == load->runs[i].track;
		     e++) {
			if (compare(load, last, load->runs[e].at) <= 0)
				break;
			if (compare(load, last, load->runs[e].end - 1) < 0)
				last = load->runs[e].end - 1;
		}
		merge(load, load->runs + i, e - i);
	}
}

/* Some of the columns, one after the other: each is put in order into the memory of the one before,
 * so that only the first needs memory of its own. */
struct move {
	const struct load *load;
	uint64_t columns;
	pthread_t thread;
	bool started;
};

static void move_column(const struct load *load, uint64_t *to, const uint64_t *from)
{
	size_t at = 0;

	for (size_t i = 0; i < load->piece_count; i++) {
		const struct piece *piece = &load->pieces[i];

		if (piece->n == 1)
			to[at] = from[piece->from];
		else
			memcpy(to + at, from + piece->from, piece->n * 8);
		at += piece->n;
	}
}

static void *move_columns(void *arg)
{
	const struct move *move = arg;
	struct ws_rows *out = move->load->out;
	uint64_t *spare = NULL;

	for (uint32_t c = 0; c < WS_MAX_COLUMNS; c++) {
		uint64_t *from;

		if (!(move->columns >> c & 1))
			continue;
		from = out->col[c];
		spare = spare ? spare : new_column(move->load->room);
		move_column(move->load, spare, from);
		out->col[c] = spare;
		spare = from;
	}
	free(spare);
	return NULL;
}

static void move_rows(const struct load *load)
{
	struct move moves[2] = {{.load = load}, {.load = load}};
	uint32_t number = 0;

	for (uint32_t c = 0; c < WS_MAX_COLUMNS; c++)
		if (load->out->col[c])
			moves[number++ % 2].columns |= UINT64_C(1) << c;
	moves[1].started = !pthread_create(&moves[1].thread, NULL, move_columns, &moves[1]);
	move_columns(&moves[0]);
	if (moves[1].started)
		pthread_join(moves[1].thread, NULL);
	else
		move_columns(&moves[1]);
}

/*
 * Whether blocks follow one another in track and time, so that rows are in order as they stand: a
 * single thread's tight loop. Then the columns that would tell need not even be decoded.
 */
static bool follows(const struct ws_block_info *left, const struct ws_block_info *right,
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
	size_t blocks = ws_report_blocks(report, table);

	if (ws_table_start(table) < 0)
		return false;
	for (size_t i = 1; i < blocks; i++) {
		struct ws_block_info left = ws_report_block(report, table, i - 1),
				     right = ws_report_block(report, table, i);

		if (!follows(&left, &right, ws_table_track(table) >= 0))
			return false;
	}
	return true;
}

static void sort_rows(struct load *load, size_t blocks, bool in_order)
{
	size_t rows = 0;

	for (size_t i = 0; i < blocks; i++) {
		if (in_order && load->got[i])
			add_piece(load, load->place[i], load->got[i]);
		else if (!in_order)
			find_runs(load, load->place[i], load->place[i] + load->got[i]);
		rows += load->got[i];
	}
	load->out->rows = rows;
	order(load);
	if (load->piece_count > 1 || (load->piece_count && load->pieces[0].from))
		move_rows(load);
	free(load->runs);
	free(load->pieces);
}

/* ---- the interface ---- */

static const uint64_t *sorting_column(const struct ws_rows *out, int c)
{
	return c >= 0 ? out->col[c] : NULL;
}

void ws_rows_load_tracks(const struct ws_report *report, const struct ws_scan *scan_s,
			 const uint8_t *tracks, size_t n, struct ws_rows *out)
{
	size_t blocks = ws_report_blocks(report, scan_s->table);
	struct ws_scan scan = *scan_s;
	struct load load = {.scan = &scan,
			    .out = out,
			    .tracks = tracks,
			    .tracks_n = n,
			    .track_column = ws_table_track(scan_s->table)};
	int key[3] = {ws_table_track(scan_s->table), ws_table_start(scan_s->table),
		      ws_table_end(scan_s->table)};
	uint32_t columns = ws_tables[scan_s->table].column_count;
	bool in_order = blocks_are_in_order(report, scan_s->table);

	memset(out, 0, sizeof(*out));
	load.place = ws_calloc(blocks + 1, sizeof(*load.place));
	load.got = ws_calloc(blocks + 1, sizeof(*load.got));
	for (int i = 0; i < 3; i++)
		if (key[i] >= 0 && (!in_order || (tracks && !i)))
			scan.columns |= UINT64_C(1) << key[i];
	out->rows = load.room = place_blocks(report, &load, blocks);
	for (uint32_t c = 0; c < columns; c++)
		if (scan.columns >> c & 1)
			out->col[c] = new_column(out->rows);
	ws_scan_run(report, &scan, keep_batch, &load, &out->damaged);
	load.track = sorting_column(out, key[0]);
	load.start = sorting_column(out, key[1]);
	load.end_time = load.start ? sorting_column(out, key[2]) : NULL;
	sort_rows(&load, blocks, in_order);
	free(load.place);
	free(load.got);
	for (uint32_t c = 0; c < columns; c++)
		if (!(scan_s->columns >> c & 1)) {
			free(out->col[c]);
			out->col[c] = NULL;
		}
}

int ws_rows_load(const struct ws_report *report, const struct ws_scan *scan, struct ws_rows *out,
		 struct ws_err *err)
{
	(void)err; /* running out of memory ends the program; damage is counted */
	ws_rows_load_tracks(report, scan, NULL, 0, out);
	return 0;
}
