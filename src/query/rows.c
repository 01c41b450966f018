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
	const struct ws_scan *s;
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

static bool wanted(const struct load *l, const struct ws_batch *b, size_t i)
{
	uint64_t track = b->col[l->track_column][i];

	return track < l->tracks_n && l->tracks[track];
}

static int keep_wanted(struct load *l, const struct ws_batch *b)
{
	size_t n = 0;

	for (size_t i = 0; i < b->rows; i++) {
		if (!wanted(l, b, i))
			continue;
		for (uint32_t c = 0; c < WS_MAX_COLUMNS; c++)
			if (b->col[c])
				l->out->col[c][l->place[b->block] + n] = b->col[c][i];
		n++;
	}
	l->got[b->block] = n;
	return 0;
}

static int keep_batch(void *ctx, const struct ws_batch *b)
{
	struct load *l = ctx;

	if (l->tracks)
		return keep_wanted(l, b);
	for (uint32_t c = 0; c < WS_MAX_COLUMNS; c++)
		if (b->col[c])
			memcpy(l->out->col[c] + l->place[b->block], b->col[c], b->rows * 8);
	l->got[b->block] = b->rows;
	return 0;
}

static int count_batch(void *ctx, const struct ws_batch *b)
{
	struct load *l = ctx;
	size_t n = 0;

	for (size_t i = 0; l->tracks && i < b->rows; i++)
		n += wanted(l, b, i);
	l->place[b->block] = l->tracks ? n : b->rows;
	return 0;
}

/* Rows that each block will give: known without a window, counted with one. */
static size_t place_blocks(const struct ws_report *r, struct load *l, size_t blocks)
{
	const struct ws_scan *s = l->s;
	struct ws_window w = ws_window_new(s->table, 0, s->time_min, s->time_max);
	size_t *place = l->place, sum = 0;

	if (w.set || l->tracks) {
		struct ws_scan count = *s;

		count.columns = l->tracks ? UINT64_C(1) << l->track_column : 0;
		ws_scan_run(r, &count, count_batch, l, NULL);
	} else {
		for (size_t i = 0; i < blocks; i++)
			place[i] = ws_report_block(r, s->table, i).rows;
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

static int compare(const struct load *l, size_t a, size_t b)
{
	if (l->start && l->start[a] != l->start[b])
		return l->start[a] < l->start[b] ? -1 : 1;
	if (l->end_time && l->end_time[a] != l->end_time[b])
		return l->end_time[a] > l->end_time[b] ? -1 : 1;
	return 0;
}

static void find_runs(struct load *l, size_t from, size_t to)
{
	for (size_t i = from; i < to;) {
		size_t end = to;

		if (l->track && l->track[to - 1] != l->track[i])
			for (end = i + 1; l->track[end] == l->track[i];)
				end++;
		ws_grow(l->runs, l->run_cap, l->run_count + 1);
		l->runs[l->run_count++] = (struct run){i, end, l->track ? l->track[i] : 0};
		i = end;
	}
}

static int by_head(const void *a, const void *b, void *ctx)
{
	const struct run *x = a, *y = b;
	int c;

	if (x->track != y->track)
		return x->track < y->track ? -1 : 1;
	c = compare(ctx, x->at, y->at);
	return c ? c : x->at < y->at ? -1 : 1;
}

static void add_piece(struct load *l, size_t from, size_t n)
{
	struct piece *last = l->piece_count ? &l->pieces[l->piece_count - 1] : NULL;

	if (last && last->from + last->n == from) {
		last->n += n;
		return;
	}
	ws_grow(l->pieces, l->piece_cap, l->piece_count + 1);
	l->pieces[l->piece_count++] = (struct piece){from, n};
}

static bool heap_less(const struct load *l, const struct run *a, const struct run *b)
{
	int c = compare(l, a->at, b->at);

	return c ? c < 0 : a->at < b->at;
}

static void sift_down(const struct load *l, struct run *h, size_t n, size_t i)
{
	struct run x = h[i];

	for (size_t k; (k = 2 * i + 1) < n; i = k) {
		if (k + 1 < n && heap_less(l, &h[k + 1], &h[k]))
			k++;
		if (!heap_less(l, &h[k], &x))
			break;
		h[i] = h[k];
	}
	h[i] = x;
}

/* How far `a` goes before `b`'s head comes first: exponential steps, then halving. */
static size_t ahead(const struct load *l, const struct run *a, const struct run *b)
{
	size_t low = a->at, step = 1, high;

	while (low + step < a->end && compare(l, low + step, b->at) < 0) {
		low += step;
		step *= 2;
	}
	high = low + step < a->end ? low + step : a->end;
	while (low + 1 < high) {
		size_t mid = low + (high - low) / 2;

		if (compare(l, mid, b->at) < 0)
			low = mid;
		else
			high = mid;
	}
	return low + 1;
}

/* `h` holds runs sorted by head, which is a heap. */
static void merge(struct load *l, struct run *h, size_t n)
{
	while (n > 1) {
		size_t second = n > 2 && heap_less(l, &h[2], &h[1]) ? 2 : 1,
		       stop = ahead(l, &h[0], &h[second]);

		add_piece(l, h[0].at, stop - h[0].at);
		h[0].at = stop;
		if (h[0].at == h[0].end)
			h[0] = h[--n];
		sift_down(l, h, n, 0);
	}
	add_piece(l, h[0].at, h[0].end - h[0].at);
}

/* Runs i.. that overlap in a chain belong together; the others go straight through. */
static void order(struct load *l)
{
	if (!l->run_count)
		return;
	qsort_r(l->runs, l->run_count, sizeof(*l->runs), by_head, l);
	for (size_t i = 0, e; i < l->run_count; i = e) {
		size_t last = l->runs[i].end - 1;

		for (e = i + 1; e < l->run_count && l->runs[e].track == l->runs[i].track; e++) {
			if (compare(l, last, l->runs[e].at) <= 0)
				break;
			if (compare(l, last, l->runs[e].end - 1) < 0)
				last = l->runs[e].end - 1;
		}
		merge(l, l->runs + i, e - i);
	}
}

/* Some of the columns, one after the other: each is put in order into the memory of the one before,
 * so that only the first needs memory of its own. */
struct move {
	const struct load *l;
	uint64_t columns;
	pthread_t thread;
	bool started;
};

static void move_column(const struct load *l, uint64_t *to, const uint64_t *from)
{
	size_t at = 0;

	for (size_t i = 0; i < l->piece_count; i++) {
		const struct piece *p = &l->pieces[i];

		if (p->n == 1)
			to[at] = from[p->from];
		else
			memcpy(to + at, from + p->from, p->n * 8);
		at += p->n;
	}
}

static void *move_columns(void *arg)
{
	const struct move *m = arg;
	struct ws_rows *out = m->l->out;
	uint64_t *spare = NULL;

	for (uint32_t c = 0; c < WS_MAX_COLUMNS; c++) {
		uint64_t *from;

		if (!(m->columns >> c & 1))
			continue;
		from = out->col[c];
		spare = spare ? spare : new_column(m->l->room);
		move_column(m->l, spare, from);
		out->col[c] = spare;
		spare = from;
	}
	free(spare);
	return NULL;
}

static void move_rows(const struct load *l)
{
	struct move m[2] = {{.l = l}, {.l = l}};
	uint32_t number = 0;

	for (uint32_t c = 0; c < WS_MAX_COLUMNS; c++)
		if (l->out->col[c])
			m[number++ % 2].columns |= UINT64_C(1) << c;
	m[1].started = !pthread_create(&m[1].thread, NULL, move_columns, &m[1]);
	move_columns(&m[0]);
	if (m[1].started)
		pthread_join(m[1].thread, NULL);
	else
		move_columns(&m[1]);
}

/*
 * Whether blocks follow one another in track and time, so that rows are in order as they stand: a
 * single thread's tight loop. Then the columns that would tell need not even be decoded.
 */
static bool follows(const struct ws_block_info *a, const struct ws_block_info *b, bool tracks)
{
	if (tracks && a->track_max < b->track_min)
		return true;
	if (tracks && (a->track_min != a->track_max || b->track_min != a->track_max ||
		       b->track_max != a->track_max))
		return false;
	return a->time_max < b->time_min;
}

static bool blocks_are_in_order(const struct ws_report *r, enum ws_table t)
{
	size_t blocks = ws_report_blocks(r, t);

	if (ws_table_start(t) < 0)
		return false;
	for (size_t i = 1; i < blocks; i++) {
		struct ws_block_info a = ws_report_block(r, t, i - 1), b = ws_report_block(r, t, i);

		if (!follows(&a, &b, ws_table_track(t) >= 0))
			return false;
	}
	return true;
}

static void sort_rows(struct load *l, size_t blocks, bool in_order)
{
	size_t rows = 0;

	for (size_t i = 0; i < blocks; i++) {
		if (in_order && l->got[i])
			add_piece(l, l->place[i], l->got[i]);
		else if (!in_order)
			find_runs(l, l->place[i], l->place[i] + l->got[i]);
		rows += l->got[i];
	}
	l->out->rows = rows;
	order(l);
	if (l->piece_count > 1 || (l->piece_count && l->pieces[0].from))
		move_rows(l);
	free(l->runs);
	free(l->pieces);
}

/* ---- the interface ---- */

static const uint64_t *sorting_column(const struct ws_rows *out, int c)
{
	return c >= 0 ? out->col[c] : NULL;
}

void ws_rows_load_tracks(const struct ws_report *r, const struct ws_scan *s, const uint8_t *tracks,
			 size_t n, struct ws_rows *out)
{
	size_t blocks = ws_report_blocks(r, s->table);
	struct ws_scan scan = *s;
	struct load l = {.s = &scan,
			 .out = out,
			 .tracks = tracks,
			 .tracks_n = n,
			 .track_column = ws_table_track(s->table)};
	int key[3] = {ws_table_track(s->table), ws_table_start(s->table), ws_table_end(s->table)};
	uint32_t columns = ws_tables[s->table].column_count;
	bool in_order = blocks_are_in_order(r, s->table);

	memset(out, 0, sizeof(*out));
	l.place = ws_calloc(blocks + 1, sizeof(*l.place));
	l.got = ws_calloc(blocks + 1, sizeof(*l.got));
	for (int i = 0; i < 3; i++)
		if (key[i] >= 0 && (!in_order || (tracks && !i)))
			scan.columns |= UINT64_C(1) << key[i];
	out->rows = l.room = place_blocks(r, &l, blocks);
	for (uint32_t c = 0; c < columns; c++)
		if (scan.columns >> c & 1)
			out->col[c] = new_column(out->rows);
	ws_scan_run(r, &scan, keep_batch, &l, &out->damaged);
	l.track = sorting_column(out, key[0]);
	l.start = sorting_column(out, key[1]);
	l.end_time = l.start ? sorting_column(out, key[2]) : NULL;
	sort_rows(&l, blocks, in_order);
	free(l.place);
	free(l.got);
	for (uint32_t c = 0; c < columns; c++)
		if (!(s->columns >> c & 1)) {
			free(out->col[c]);
			out->col[c] = NULL;
		}
}

int ws_rows_load(const struct ws_report *r, const struct ws_scan *s, struct ws_rows *out,
		 struct ws_err *e)
{
	(void)e; /* running out of memory ends the program; damage is counted */
	ws_rows_load_tracks(r, s, NULL, 0, out);
	return 0;
}
