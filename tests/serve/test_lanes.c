/*
 * test_lanes.c - is what the time line draws true? Random reports are read as lanes; for random
 * windows and zooms, the events under given pixels must be those that a plain look at every row
 * finds, and rectangles must be where events are and nowhere else.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "serve/analyses.h"
#include "base/choose.h"
#include "lanes/tile.h"
#include "../random.h"

static uint64_t state = RANDOM_SEED;

static uint64_t next_random(void)
{
	return random_next(&state);
}

struct truth { /* a row as it was written */
	uint64_t start, end;
	uint32_t thread, kept; /* kept: number in its block order, found through the lane's refs */
	bool moment;
};

static struct truth *rows;
static size_t row_n;
static char path[64];

enum { ZERO = 1000000, SPAN = 5000000, THREADS = 3 };

static void add_range(struct ws_writer *writer, uint64_t start, uint64_t end, uint32_t thread,
		      bool moment)
{
	rows[row_n++] = (struct truth){start, end, thread, 0, moment};
	ws_writer_add(writer, WS_TABLE_nvtx,
		      &(struct ws_row_nvtx){.start = start,
					    .end = moment ? WS_NO_TIME : end,
					    .thread = thread,
					    .text = ws_writer_string(writer, "x", 1),
					    .type = moment ? WS_NVTX_MARK : WS_NVTX_PUSHPOP});
}

/* Nested ranges as programs make them: written when they end, so parents come after their children,
 * often blocks later. */
static uint64_t put_nested(struct ws_writer *writer, uint64_t t, uint32_t thread, int depth,
			   size_t most)
{
	uint64_t start = t;

	t += next_random() % 50;
	while (depth && row_n < most && next_random() % 4)
		t = put_nested(writer, t, thread, depth - 1, most) + next_random() % 30;
	t += next_random() % 200 == 0 ? next_random() % 100000 : next_random() % 60;
	add_range(writer, start, t, thread, false);
	return t;
}

static void fill_nested(struct ws_writer *writer, size_t n)
{
	uint64_t t = ZERO;

	while (row_n < n)
		t = put_nested(writer, t, 1, 6, n) + next_random() % 100;
}

/* Anything: overlapping, of no length, moments, very long. */
static void fill_wild(struct ws_writer *writer, size_t n)
{
	while (row_n < n) {
		uint64_t start = ZERO + next_random() % SPAN,
			 length = next_random() % 10 == 0   ? 0
				  : next_random() % 50 == 0 ? next_random() % SPAN
							    : next_random() % 300;

		add_range(writer, start, start + length, (uint32_t)(1 + next_random() % THREADS),
			  next_random() % 20 == 0);
		if (rows[row_n - 1].moment)
			rows[row_n - 1].end = start;
	}
}

static struct ws_report *make_report(void (*fill)(struct ws_writer *, size_t), size_t n)
{
	struct ws_writer_opts options = {.overwrite = true, .no_journal = true, .block_rows = 257};
	struct ws_err err;
	struct ws_writer *writer;
	struct ws_report *report;

	snprintf(path, sizeof(path), "/tmp/test_lanes.%d.wsrep", getpid());
	writer = ws_writer_create(path, &options, &err);
	assert_non_null(writer);
	row_n = 0;
	rows = realloc(rows, (n + 64) * sizeof(*rows));
	ws_writer_add(writer, WS_TABLE_collection,
		      &(struct ws_row_collection){.start = ZERO, .end = WS_NO_TIME});
	for (uint32_t i = 1; i <= THREADS; i++)
		ws_writer_add(
			writer, WS_TABLE_thread,
			&(struct ws_row_thread){.id = i, .process = 1, .tid = i, .start = ZERO});
	fill(writer, n);
	assert_int_equal(ws_writer_close(writer, &err), 0);
	report = ws_report_open(path, &err);
	assert_non_null(report);
	return report;
}

static bool touches_window(const struct truth *truth, int64_t t0, int64_t t1)
{
	return (int64_t)truth->start < t1 &&
	       ((int64_t)truth->end > t0 ||
		(truth->start == truth->end && (int64_t)truth->start >= t0));
}

/* Rows by (thread, start, end), to compare sets that may hold equal rows. */
static int by_row(const void *first, const void *second)
{
	const struct truth *left = first, *right = second;

	if (left->thread != right->thread)
		return left->thread < right->thread ? -1 : 1;
	if (left->start != right->start)
		return left->start < right->start ? -1 : 1;
	return ws_compare(left->end, right->end);
}

static size_t scan_brute_force(uint32_t thread, int64_t t0, int64_t t1, struct truth *out)
{
	size_t n = 0;

	for (size_t i = 0; i < row_n; i++)
		if (rows[i].thread == thread && touches_window(&rows[i], t0, t1))
			out[n++] = rows[i];
	qsort(out, n, sizeof(*out), by_row);
	return n;
}

static size_t by_levels(const struct ws_lane *lane, int64_t t0, int64_t t1, struct truth *out)
{
	size_t n = 0;

	for (uint32_t k = 0; k < lane->levels; k++) {
		uint32_t from, to;

		ws_level_range(&lane->level[k], t0, t1, &from, &to);
		for (uint32_t i = from; i < to; i++)
			out[n++] = (struct truth){.start = lane->level[k].start[i],
						  .end = ws_level_end(&lane->level[k], i),
						  .thread = lane->key[0]};
	}
	qsort(out, n, sizeof(*out), by_row);
	return n;
}

static void assert_same(const struct truth *left, size_t n, const struct truth *right, size_t m)
{
	assert_int_equal(n, m);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(by_row(&left[i], &right[i]), 0);
}

/* On a level starts ascend and nothing overlaps; sums and the longest are right. */
static void check_level(const struct ws_level *level)
{
	for (uint32_t i = 1; i < level->n; i++)
		assert_true(ws_level_end(level, i - 1) <= level->start[i]);
	for (int turn = 0; turn < 50 && level->n; turn++) {
		uint32_t from = (uint32_t)(next_random() % level->n),
			 to = from + 1 + (uint32_t)(next_random() % (level->n - from)),
			 longest = ws_level_longest(level, from, to);
		uint64_t sum = 0, most = 0;

		for (uint32_t i = from; i < to; i++) {
			sum += ws_level_dur(level, i);
			most = ws_level_dur(level, i) > most ? ws_level_dur(level, i) : most;
		}
		assert_int_equal(ws_level_busy(level, from, to), sum);
		assert_true(longest >= from && longest < to);
		assert_int_equal(ws_level_dur(level, longest), most);
	}
}

/*
 * Which pixels of a tile are painted by rectangles, and how many events they say there are; against
 * the events of the level, one by one.
 */
static void check_tile(const struct ws_lanes *lanes, const struct ws_lane *lane, uint32_t level,
		       int k, int64_t index)
{
	const struct ws_level *level_v = &lane->level[level];
	int64_t t0 = ws_tile_start(lanes, k, index), px = INT64_C(1) << k,
		t1 = t0 + WS_TILE_PIXELS * px;
	bool painted[WS_TILE_PIXELS] = {false}, truly[WS_TILE_PIXELS] = {false};
	struct ws_rects out = {0};
	uint64_t said = 0, there = 0;

	ws_draw_tile(lanes, lane, level, k, index, &out);
	for (size_t i = 0; i < out.n; i++) {
		int64_t a = (int64_t)(ws_max(out.rects[i].x0, 0)), b = (int64_t)out.rects[i].x1;

		if ((float)b == out.rects[i].x1 && out.rects[i].x1 > out.rects[i].x0)
			b--;
		for (int64_t p = a; p <= b && p < WS_TILE_PIXELS; p++)
			painted[p] = true;
		said += out.rects[i].count;
		assert_true(out.rects[i].event < level_v->n);
	}
	for (uint32_t i = 0; i < level_v->n; i++) {
		struct truth truth = {.start = level_v->start[i], .end = ws_level_end(level_v, i)};
		int64_t a = (int64_t)truth.start - t0, b = (int64_t)truth.end - t0;

		if (!touches_window(&truth, t0, t1))
			continue;
		there++;
		a = a < 0 ? 0 : a / px;
		b = b > 0 && truth.end > truth.start ? (b - 1) / px : b / px;
		for (int64_t p = a; p <= b && p < WS_TILE_PIXELS; p++)
			truly[p] = true;
	}
	assert_int_equal(said, there);
	/* A group may bridge a gap within its pixel and into the next one's beginning, where its
	 * last event ends: no pixel is left out, and none is painted that has no event. */
	for (int p = 0; p < WS_TILE_PIXELS; p++)
		if (painted[p] != truly[p])
			fail_msg("scale %d, tile %lld, pixel %d: painted %d, events %d", k,
				 (long long)index, p, painted[p], truly[p]);
	free(out.rects);
}

static int by_start(const void *first, const void *second)
{
	const struct truth *left = first, *right = second;

	return ws_compare(left->start, right->start);
}

/* How busy a lane is said to be, against the union of its rows. */
static void check_cover(const struct ws_lane *lane)
{
	struct truth *truth = malloc((row_n + 1) * sizeof(*truth));
	uint64_t sum = 0, end = 0;
	size_t n = 0;

	for (size_t i = 0; i < row_n; i++)
		if (rows[i].thread == lane->key[0])
			truth[n++] = rows[i];
	qsort(truth, n, sizeof(*truth), by_start);
	for (size_t i = 0; i < n; i++) {
		uint64_t from = ws_max(truth[i].start, end);

		sum += truth[i].end > from ? truth[i].end - from : 0;
		end = ws_max(truth[i].end, end);
	}
	assert_int_equal(ws_level_busy(ws_lane_cover(lane), 0, ws_lane_cover(lane)->n), sum);
	check_level(ws_lane_cover(lane));
	free(truth);
}

static void check_report(void (*fill)(struct ws_writer *, size_t), size_t n)
{
	struct ws_report *report = make_report(fill, n);
	struct ws_lanes *lanes = ws_lanes_open(report, NULL);
	struct truth *left = malloc((n + 64) * sizeof(*left)),
		     *right = malloc((n + 64) * sizeof(*right));
	uint64_t seen = 0;

	ws_lanes_wait(lanes);
	for (size_t i = 0; i < lanes->n; i++) {
		const struct ws_lane *lane = lanes->lane[i];
		uint64_t all = 0;

		for (uint32_t k = 0; k < lane->levels; k++) {
			check_level(&lane->level[k]);
			all += lane->level[k].n;
		}
		check_cover(lane);
		assert_int_equal(all + lane->hidden, lane->count);
		assert_int_equal(lane->hidden, 0);
		seen += all;
		for (int turn = 0; turn < 150; turn++) {
			int64_t t0 = ZERO + (int64_t)(next_random() % SPAN) - 1000,
				t1 = t0 + 1 + (int64_t)(next_random() % (turn % 3 ? 500 : SPAN));

			assert_same(left, by_levels(lane, t0, t1, left), right,
				    scan_brute_force(lane->key[0], t0, t1, right));
		}
		for (int turn = 0; turn < 60; turn++) {
			int k = (int)(next_random() % 15);
			int64_t tiles = ((int64_t)SPAN >> k) / WS_TILE_PIXELS + 3;

			check_tile(lanes, lane, (uint32_t)(next_random() % lane->levels), k,
				   (int64_t)(next_random() % (uint64_t)tiles) - 1);
		}
	}
	assert_int_equal(seen, row_n);
	free(left);
	free(right);
	ws_lanes_close(lanes);
	ws_report_close(report);
	unlink(path);
}

static void nested_ranges(void **unused)
{
	(void)unused;
	check_report(fill_nested, 20000);
}

static void wild_ranges(void **unused)
{
	(void)unused;
	check_report(fill_wild, 4000);
}

/* ---- lanes that are not read ---- */

/* What a report sums up of its blocks: nothing is left out, and no part of a lane with an event is
 * empty. */
static void check_groups(const struct ws_report *report)
{
	for (size_t i = 0; i < ws_report_count_blocks(report, WS_TABLE_nvtx); i++) {
		struct ws_block_groups groups = ws_report_block_groups(report, WS_TABLE_nvtx, i);
		uint32_t rows_n = 0;

		assert_non_null(groups.groups);
		for (size_t k = 0; k < groups.count; k++) {
			uint64_t busy = 0;

			for (size_t n = 0; n < WS_GROUP_BINS; n++)
				busy += groups.groups[k].bins[n];
			assert_true(busy > 0);
			assert_true(groups.groups[k].key[0] >= 1 &&
				    groups.groups[k].key[0] <= THREADS);
			rows_n += groups.groups[k].rows;
		}
		assert_int_equal(rows_n, ws_report_block_info(report, WS_TABLE_nvtx, i).rows);
	}
}

static void check_preview(const struct ws_lanes *lanes, const struct ws_lane *lane, int k,
			  int64_t index)
{
	int64_t t0 = ws_tile_start(lanes, k, index), px = INT64_C(1) << k,
		t1 = t0 + WS_TILE_PIXELS * px;
	bool painted[WS_TILE_PIXELS] = {false};
	struct ws_rects out = {0};

	ws_draw_tile(lanes, lane, 0, k, index, &out);
	for (size_t i = 0; i < out.n; i++) {
		assert_true(out.rects[i].flags & WS_RECT_PREVIEW && out.rects[i].fill);
		for (int p = (int)out.rects[i].x0; p < (int)out.rects[i].x1; p++)
			painted[p] = true;
	}
	for (size_t i = 0; i < row_n; i++) {
		int64_t a = (int64_t)rows[i].start - t0, b = (int64_t)rows[i].end - t0;

		if (rows[i].thread != lane->key[0] || !touches_window(&rows[i], t0, t1))
			continue;
		a = a < 0 ? 0 : a / px;
		b = b > 0 && rows[i].end > rows[i].start ? (b - 1) / px : b / px;
		for (int64_t p = a; p <= b && p < WS_TILE_PIXELS; p++)
			assert_true(painted[p]);
	}
	free(out.rects);
}

static void wait_until_read(struct ws_lanes *lanes, uint32_t lane)
{
	pthread_mutex_lock(&lanes->lock);
	while (ws_lane_reading(lanes->lane[lane]))
		pthread_cond_wait(&lanes->changed, &lanes->lock);
	pthread_mutex_unlock(&lanes->lock);
}

static void check_unread(void (*fill)(struct ws_writer *, size_t), size_t n)
{
	struct ws_report *report = make_report(fill, n);
	struct ws_lanes *lanes = ws_lanes_open(report, &(struct ws_lanes_opts){.room = UINT64_MAX,
									       .to = UINT64_MAX});
	uint64_t seen = 0;
	uint32_t reading;

	check_groups(report);
	ws_lanes_wait(lanes);
	assert_int_equal(ws_lanes_unread(lanes, &reading), lanes->n);
	assert_int_equal(reading, 0);
	for (uint32_t i = 0; i < lanes->n; i++) {
		seen += lanes->lane[i]->count;
		for (int turn = 0; turn < 40; turn++) {
			int k = (int)(next_random() % 15);

			check_preview(
				lanes, lanes->lane[i], k,
				(int64_t)(next_random() %
					  (uint64_t)(((int64_t)SPAN >> k) / WS_TILE_PIXELS + 3)) -
					1);
		}
	}
	assert_int_equal(seen, row_n);
	for (uint32_t i = 0; i < lanes->n; i++) {
		ws_lanes_want(lanes, i);
		wait_until_read(lanes, i);
		assert_true(ws_lane_ready(lanes->lane[i]));
		check_cover(lanes->lane[i]);
		assert_int_equal(ws_lanes_unread(lanes, &reading), lanes->n - i - 1);
	}
	ws_lanes_close(lanes);
	ws_report_close(report);
	unlink(path);
}

static void rows_that_no_one_asked_for(void **unused)
{
	(void)unused;
	check_unread(fill_wild, 3000);
	check_unread(fill_nested, 8000);
}

/* A short stretch is exact though no row is read. */
static void test_closeups(void **unused)
{
	enum { N = 1500 };
	struct ws_report *report = make_report(fill_wild, N);
	struct ws_lanes *lanes_l = ws_lanes_open(report, &(struct ws_lanes_opts){.room = UINT64_MAX,
										 .to = UINT64_MAX});
	struct truth *left = malloc((N + 64) * sizeof(*left)),
		     *right = malloc((N + 64) * sizeof(*right));
	const uint32_t lanes[] = {0, 2, 1, 2};

	(void)unused;
	ws_lanes_wait(lanes_l);
	for (int turn = 0; turn < 200; turn++) {
		int64_t t0 = ZERO + (int64_t)(next_random() % SPAN) - 1000,
			t1 = t0 + 1 + (int64_t)(next_random() % (turn % 3 ? 500 : SPAN));
		struct ws_lane **close = ws_make_closeup(lanes_l, lanes, WS_COUNT(lanes), t0, t1);

		for (size_t i = 0; i < lanes_l->n; i++) {
			assert_non_null(close[i]);
			close[i]->key[0] = lanes_l->lane[i]->key[0];
			assert_same(left, by_levels(close[i], t0, t1, left), right,
				    scan_brute_force(lanes_l->lane[i]->key[0], t0, t1, right));
			for (uint32_t k = 0; k < close[i]->levels; k++)
				check_level(&close[i]->level[k]);
			assert_false(ws_lane_ready(lanes_l->lane[i]));
		}
		ws_free_closeup(lanes_l, close);
	}
	free(left);
	free(right);
	ws_lanes_close(lanes_l);
	ws_report_close(report);
	unlink(path);
}

/* Of the rows that were read, those go first that were asked for least lately; what has no room at
 * all is not read. */
static void little_room(void **unused)
{
	struct ws_report *report = make_report(fill_wild, 3000);
	struct ws_lanes *lanes =
		ws_lanes_open(report, &(struct ws_lanes_opts){.room = 90000, .to = UINT64_MAX});
	uint32_t reading;

	(void)unused;
	ws_lanes_wait(lanes);
	assert_int_equal(lanes->n, THREADS);
	for (int turn = 0; turn < 20; turn++)
		for (uint32_t i = 0; i < lanes->n; i++) {
			uint32_t old = (i + 1) % THREADS;

			ws_lanes_want(lanes, i);
			wait_until_read(lanes, i);
			assert_true(ws_lane_ready(lanes->lane[i]));
			check_cover(lanes->lane[i]);
			if (turn)
				assert_false(ws_lane_ready(lanes->lane[old]));
			assert_true(lanes->used <= 90000);
		}
	ws_lanes_close(lanes);
	lanes = ws_lanes_open(report, &(struct ws_lanes_opts){.room = 1000,
							      .unasked = UINT64_MAX,
							      .to = UINT64_MAX});
	ws_lanes_wait(lanes);
	ws_lanes_want(lanes, 0);
	wait_until_read(lanes, 0);
	assert_false(ws_lane_ready(lanes->lane[0]));
	assert_int_equal(ws_lanes_unread(lanes, &reading), THREADS);
	assert_int_equal(reading, 0);
	ws_lanes_close(lanes);
	ws_report_close(report);
	unlink(path);
}

static void few_rows(void **unused)
{
	(void)unused;
	for (size_t n = 1; n < 40; n += 3)
		check_report(n % 2 ? fill_wild : fill_nested, n);
}

/* A counter's pixels have the least and the most of its values in them. */
static void test_counters(void **unused)
{
	enum { N = 5000 };
	struct ws_writer_opts options = {.overwrite = true, .no_journal = true, .block_rows = 300};
	struct ws_writer *writer;
	struct ws_report *report;
	struct ws_lanes *lanes;
	struct ws_err err;
	double *v = malloc(N * sizeof(*v));

	(void)unused;
	snprintf(path, sizeof(path), "/tmp/test_lanes.%d.wsrep", getpid());
	writer = ws_writer_create(path, &options, &err);
	assert_non_null(writer);
	for (uint32_t i = 0; i < N; i++) {
		v[i] = (double)(next_random() % 100000) / 7;
		ws_writer_add(writer, WS_TABLE_counter_value,
			      &(struct ws_row_counter_value){
				      .start = ZERO + i * 10, .counter = 1, .value = v[i]});
	}
	assert_int_equal(ws_writer_close(writer, &err), 0);
	report = ws_report_open(path, &err);
	assert_non_null(report);
	lanes = ws_lanes_open(report, NULL);
	ws_lanes_wait(lanes);
	assert_int_equal(lanes->n, 1);
	for (int turn = 0; turn < 300; turn++) {
		uint32_t from = (uint32_t)(next_random() % N),
			 to = from + 1 + (uint32_t)(next_random() % (N - from));
		double low, high, least = v[from], most = v[from];

		for (uint32_t i = from; i < to; i++) {
			least = ws_min(v[i], least);
			most = ws_max(v[i], most);
		}
		ws_level_extremes(&lanes->lane[0]->level[0], from, to, &low, &high);
		assert_true(low == least && high == most);
	}
	ws_lanes_close(lanes);
	ws_report_close(report);
	unlink(path);
	free(v);
}

/* ---- ranges projected to a GPU ---- */

static uint32_t put_text(struct ws_writer *writer, const char *text)
{
	return ws_writer_string(writer, text, strlen(text));
}

static void put_launch(struct ws_writer *writer, uint32_t thread, uint32_t id, uint64_t at)
{
	ws_writer_add(writer, WS_TABLE_cuda_api,
		      &(struct ws_row_cuda_api){.start = ZERO + at,
						.end = ZERO + at + 5,
						.thread = thread,
						.correlation = id,
						.name = put_text(writer, "cudaLaunchKernel"),
						.callchain = WS_NO_U32});
	ws_writer_add(writer, WS_TABLE_cuda_kernel,
		      &(struct ws_row_cuda_kernel){.start = ZERO + 9000000 + id * 1000,
						   .end = ZERO + 9000000 + id * 1000 + 500,
						   .correlation = id,
						   .process = 1,
						   .stream = 7,
						   .name = put_text(writer, "kernel")});
}

/* Thread 1 launches and waits in its range "backward", in which thread 2 launches; thread 3 does so
 * after that. By calls of the OS runtime, or by when it is on a core. */
static void put_helped(struct ws_writer *writer, bool osrt)
{
	for (uint32_t i = 1; i <= 3; i++)
		ws_writer_add(writer, WS_TABLE_thread,
			      &(struct ws_row_thread){.id = i, .process = 1, .tid = i});
	ws_writer_add(writer, WS_TABLE_process, &(struct ws_row_process){.id = 1, .pid = 1});
	ws_writer_add(writer, WS_TABLE_nvtx,
		      &(struct ws_row_nvtx){.start = ZERO + 100,
					    .end = ZERO + 5000000,
					    .thread = 1,
					    .text = put_text(writer, "backward"),
					    .type = WS_NVTX_PUSHPOP});
	put_launch(writer, 1, 1, 200);
	put_launch(writer, 2, 2, 1000);
	put_launch(writer, 2, 3, 2000000);
	put_launch(writer, 3, 4, 4500000);
	if (osrt) {
		ws_writer_add(writer, WS_TABLE_osrt,
			      &(struct ws_row_osrt){.start = ZERO + 900,
						    .end = ZERO + 3000000,
						    .thread = 1,
						    .name = put_text(writer, "pthread_cond_wait"),
						    .callchain = WS_NO_U32});
		return;
	}
	for (uint64_t i = 0; i < 2; i++)
		ws_writer_add(writer, WS_TABLE_sched,
			      &(struct ws_row_sched){.start = ZERO + i * 3000000,
						     .end = ZERO + 900 + i * 3000000,
						     .thread = 1,
						     .woken = WS_NO_TIME,
						     .after = WS_AFTER_SLEEPING});
}

/* A range is as long on the GPU as the work of the threads that it waits for. */
static void helped_ranges(void **unused)
{
	(void)unused;
	for (int osrt = 0; osrt < 2; osrt++) {
		struct ws_writer_opts options = {.overwrite = true, .no_journal = true};
		struct ws_writer *writer;
		struct ws_report *report;
		struct ws_lanes *lanes;
		struct ws_err err;
		int projected = 0;

		snprintf(path, sizeof(path), "/tmp/test_lanes.%d.wsrep", getpid());
		writer = ws_writer_create(path, &options, &err);
		assert_non_null(writer);
		put_helped(writer, osrt);
		assert_int_equal(ws_writer_close(writer, &err), 0);
		report = ws_report_open(path, &err);
		assert_non_null(report);
		lanes = ws_lanes_open(report, NULL);
		ws_lanes_wait(lanes);
		for (size_t i = 0; i < lanes->n; i++) {
			const struct ws_level *level = lanes->lane[i]->level;

			if (lanes->lane[i]->kind != WS_LANE_PROJECTED)
				continue;
			projected++;
			assert_int_equal(level->n, 1);
			assert_int_equal(level->start[0], ZERO + 9001000);
			assert_int_equal(ws_level_end(level, 0), ZERO + 9003500);
		}
		assert_int_equal(projected, 1);
		ws_lanes_close(lanes);
		ws_report_close(report);
		unlink(path);
	}
}

/* ---- the interface to the page ---- */

struct given {
	const char *pairs[16];
};

static const char *get_parameter(void *ctx, const char *name)
{
	const struct given *given = ctx;

	for (int i = 0; given->pairs[i]; i += 2)
		if (!strcmp(given->pairs[i], name))
			return given->pairs[i + 1];
	return NULL;
}

static int ask_view(struct ws_view *view, const char *what, struct ws_text *body,
		    struct given given)
{
	struct ws_params params = {get_parameter, &given};
	struct ws_answer answer = {0};
	int status = ws_api(view, what, &params, &answer);

	if (body)
		*body = answer.body;
	else
		ws_text_free(&answer.body);
	return status;
}

static bool is_always_gone(void *unused)
{
	(void)unused;
	return true;
}

/* Ask for findings as a client that has left already. Returns what the answer holds. */
static bool is_answered_to_nobody(struct ws_view *view, const char *words)
{
	struct given given = {{NULL}};
	struct ws_params params = {get_parameter, &given, is_always_gone};
	struct ws_answer answer = {0};
	bool has;

	assert_int_equal(ws_api(view, "findings", &params, &answer), 200);
	has = strstr(answer.body.text, words) != NULL;
	ws_text_free(&answer.body);
	return has;
}

/* An analysis that nobody waits for is given up; one that several wait for is made once. */
static void analyses_that_are_given_up(void **unused)
{
	struct ws_report *report = make_report(fill_wild, 300);
	struct ws_view view;
	struct ws_text text;
	struct ws_err err;

	(void)unused;
	ws_report_close(report);
	assert_int_equal(ws_view_open(&view, (const char *const[]){path}, 1, NULL, &err), 0);
	assert_true(is_answered_to_nobody(&view, "\"error\":\"the analysis was cancelled\""));
	assert_false(ws_analyses_have(view.analyses, &view.reports[0]));
	assert_int_equal(ask_view(&view, "findings", &text, (struct given){{NULL}}), 200);
	assert_non_null(strstr(text.text, "\"state\":\"made\""));
	ws_text_free(&text);
	assert_true(ws_analyses_have(view.analyses, &view.reports[0]));
	assert_true(is_answered_to_nobody(&view, "\"state\":\"made\""));
	ws_view_close(&view);
	unlink(path);
}

static void odd_parameters(void **unused)
{
	static const char *const odd[] = {"",
					  "-1",
					  "x",
					  "1e9",
					  "99999999999999999999",
					  "1,2,x",
					  "0,",
					  "9223372036854775807",
					  "-9223372036854775808",
					  "0x10",
					  " 1",
					  "0.99999999999",
					  "0.2~1~99999999999~x",
					  "0~4294967295",
					  "(((",
					  "[[:foo:]]"};
	static const char *const names[] = {"r",  "t0",	   "t1",    "lanes",  "k",     "i",
					    "n",  "lane",  "level", "event",  "limit", "q",
					    "re", "sort",  "down",  "offset", "t",     "back",
					    "up", "names", "case",  "kind",   "sums",  "cut"};
	static const char *const paths[] = {"session",	"tree",	  "tiles",    "at",	 "event",
					    "sum",	"events", "search",   "step",	 "flame",
					    "progress", "names",  "sql",      "../x",	 "",
					    "findings", "path",	  "counters", "kernels", "kernel",
					    "launch"};
	struct ws_report *report = make_report(fill_wild, 300);
	struct ws_view view;
	struct ws_text text;
	struct ws_err err;

	(void)unused;
	ws_report_close(report);
	assert_int_equal(ws_view_open(&view, (const char *const[]){path}, 1, NULL, &err), 0);
	ws_lanes_wait(view.reports[0].lanes);
	for (size_t i = 0; i < WS_COUNT(paths); i++)
		for (int turn = 0; turn < 400; turn++) {
			struct given given = {{names[next_random() % WS_COUNT(names)],
					       odd[next_random() % WS_COUNT(odd)],
					       names[next_random() % WS_COUNT(names)],
					       odd[next_random() % WS_COUNT(odd)],
					       names[next_random() % WS_COUNT(names)],
					       odd[next_random() % WS_COUNT(odd)]}};
			int status = ask_view(&view, paths[i], NULL, given);

			assert_true(status == 200 || status == 400 || status == 404);
		}
	assert_int_equal(ask_view(&view, "tree", NULL, (struct given){{"r", "1"}}), 400);
	assert_int_equal(ask_view(&view, "nothing", NULL, (struct given){{NULL}}), 404);
	assert_int_equal(ask_view(&view, "search", &text, (struct given){{"q", "(", "re", "1"}}),
			 200);
	assert_non_null(strstr(text.text, "{\"error\":\"the regular expression"));
	ws_text_free(&text);
	ws_view_close(&view);
	unlink(path);
}

/* The page asks from the first moment on, while rows are still being read: under TSan this shows
 * missing synchronisation between threads.
 */
static void asking_while_reading(void **unused)
{
	struct ws_report *report = make_report(fill_nested, 20000);
	struct ws_err err;

	(void)unused;
	ws_report_close(report);
	for (int turn = 0; turn < 10; turn++) {
		struct ws_view view;
		int done = 0;

		assert_int_equal(ws_view_open(&view, (const char *const[]){path}, 1, NULL, &err),
				 0);
		while (!done) {
			done = __atomic_load_n(&view.reports[0].lanes->built, __ATOMIC_ACQUIRE);
			assert_int_equal(ask_view(&view, "tree", NULL, (struct given){{NULL}}),
					 200);
			assert_int_equal(ask_view(&view, "tiles", NULL,
						  (struct given){{"lanes", "0.9", "k", "8"}}),
					 200);
			assert_int_equal(ask_view(&view, "sum", NULL, (struct given){{NULL}}), 200);
			assert_int_equal(ask_view(&view, "progress", NULL, (struct given){{NULL}}),
					 200);
		}
		ws_view_close(&view);
	}
	unlink(path);
}

static void test_searching(void **unused)
{
	struct ws_report *report = make_report(fill_wild, 500);
	struct ws_view view;
	struct ws_text text;
	struct ws_err err;
	char want[64];

	(void)unused;
	ws_report_close(report);
	assert_int_equal(ws_view_open(&view, (const char *const[]){path}, 1, NULL, &err), 0);
	ws_lanes_wait(view.reports[0].lanes);
	assert_int_equal(ask_view(&view, "search", &text, (struct given){{"q", "X"}}), 200);
	snprintf(want, sizeof(want), "\"count\":%zu,", row_n);
	assert_non_null(strstr(text.text, want));
	ws_text_free(&text);
	assert_int_equal(ask_view(&view, "search", &text, (struct given){{"q", "X", "case", "1"}}),
			 200);
	assert_non_null(strstr(text.text, "\"count\":0,"));
	ws_text_free(&text);
	assert_int_equal(
		ask_view(&view, "search", &text, (struct given){{"q", "^[w-z]$", "re", "1"}}), 200);
	assert_non_null(strstr(text.text, want));
	ws_text_free(&text);
	ws_view_close(&view);
	unlink(path);
}

static void open_view(struct ws_view *view)
{
	struct ws_err err;

	assert_int_equal(ws_view_open(view, (const char *const[]){path}, 1, NULL, &err), 0);
	ws_lanes_wait(view->reports[0].lanes);
}

enum { SPANS = 3 };

/* A span, an instant, and one that never ended, of a thread and of a track; the last is behind all
 * else. */
static void fill_slices(struct ws_writer *writer, size_t n)
{
	static const uint8_t flags[SPANS] = {0, WS_SLICE_INSTANT, WS_SLICE_LEFT_OPEN};
	uint32_t name = ws_writer_string(writer, "x", 1);

	(void)n;
	ws_writer_add(writer, WS_TABLE_track, &(struct ws_row_track){.id = 1, .name = name});
	for (uint32_t i = 0; i < SPANS; i++)
		for (uint32_t track = 0; track < 2; track++)
			ws_writer_add(writer, WS_TABLE_slice,
				      &(struct ws_row_slice){.start = ZERO + i * 100,
							     .end = flags[i] ? WS_NO_TIME
									     : ZERO + 90,
							     .thread = !track,
							     .track = track,
							     .name = name,
							     .flags = flags[i]});
	ws_writer_add(writer, WS_TABLE_slice,
		      &(struct ws_row_slice){.start = ZERO + 5000,
					     .end = WS_NO_TIME,
					     .track = 1,
					     .name = name,
					     .flags = WS_SLICE_INSTANT});
}

static void test_instants(void **unused)
{
	struct ws_report *report = make_report(fill_slices, 0);
	struct ws_view view;
	struct ws_text text;

	(void)unused;
	ws_report_close(report);
	open_view(&view);
	assert_int_equal(view.reports[0].lanes->last, ZERO + 5000);
	for (uint32_t i = 0, seen = 0; i < view.reports[0].lanes->n; i++, seen++) {
		char lane[8];

		snprintf(lane, sizeof(lane), "%" PRIu32, i);
		assert_int_equal(ask_view(&view, "at", &text,
					  (struct given){{"lane", lane, "level", "0", "t0", "100",
							  "t1", "101"}}),
				 200);
		assert_non_null(strstr(text.text, "\"start\":100,\"end\":100,\"flags\":128"));
		ws_text_free(&text);
		assert_int_equal(ask_view(&view, "at", &text,
					  (struct given){{"lane", lane, "level", "0", "t0", "200",
							  "t1", "201"}}),
				 200);
		assert_non_null(strstr(text.text, "\"start\":200,\"end\":5000,\"flags\":64"));
		ws_text_free(&text);
		assert_true(seen < 2);
	}
	assert_int_equal(ask_view(&view, "sum", &text, (struct given){{NULL}}), 200);
	assert_non_null(strstr(text.text, "\"kind\":\"track\""));
	ws_text_free(&text);
	ws_view_close(&view);
	unlink(path);
}

/* Process i + 1 has thread 10 + i with so many calls; the last but one names what it does, the last
 * has a GPU. */
static const int calls_of[] = {1, 2, 0, 900, 3, 60, 1, 1};

static void fill_processes(struct ws_writer *writer, size_t n)
{
	uint32_t name = ws_writer_string(writer, "read", 4);

	(void)n;
	for (uint32_t i = 0; i < WS_COUNT(calls_of); i++) {
		ws_writer_add(writer, WS_TABLE_process,
			      &(struct ws_row_process){.id = i + 1, .pid = i + 1, .start = ZERO});
		ws_writer_add(
			writer, WS_TABLE_thread,
			&(struct ws_row_thread){
				.id = 10 + i, .process = i + 1, .tid = 10 + i, .start = ZERO});
		for (int k = 0; k < calls_of[i]; k++)
			ws_writer_add(writer, WS_TABLE_osrt,
				      &(struct ws_row_osrt){.start = ZERO + (uint64_t)k * 10,
							    .end = ZERO + (uint64_t)k * 10 + 5,
							    .thread = 10 + i,
							    .name = name,
							    .callchain = WS_NO_U32});
	}
	add_range(writer, ZERO, ZERO + 50, 16, false);
	ws_writer_add(writer, WS_TABLE_cuda_kernel,
		      &(struct ws_row_cuda_kernel){
			      .start = ZERO, .end = ZERO + 9, .process = 8, .name = name});
}

/* First what works on a GPU, then what names its work, then the busy; those that hardly ran are in
 * a row of their own. */
static void processes_that_matter(void **unused)
{
	static const char *const order[] = {
		"\"id\":\"p8\",\"parent\":\"\"",	  "\"id\":\"p7\",\"parent\":\"\"",
		"\"id\":\"p4\",\"parent\":\"\"",	  "\"id\":\"p6\",\"parent\":\"\"",
		"\"id\":\"processes\",\"parent\":\"\"",	  "\"id\":\"p1\",\"parent\":\"processes\"",
		"\"id\":\"p2\",\"parent\":\"processes\"", "\"id\":\"p5\",\"parent\":\"processes\""};
	struct ws_report *report = make_report(fill_processes, 0);
	struct ws_view view;
	struct ws_text text;
	const char *at;

	(void)unused;
	ws_report_close(report);
	open_view(&view);
	assert_int_equal(ask_view(&view, "tree", &text, (struct given){{NULL}}), 200);
	at = text.text;
	for (size_t i = 0; i < WS_COUNT(order); i++) {
		at = strstr(at, order[i]);
		assert_non_null(at);
	}
	assert_null(strstr(text.text, "\"id\":\"p3\"")); /* has nothing to show */
	ws_text_free(&text);
	ws_view_close(&view);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nested_ranges),  cmocka_unit_test(wild_ranges),
		cmocka_unit_test(few_rows),	  cmocka_unit_test(rows_that_no_one_asked_for),
		cmocka_unit_test(test_closeups),  cmocka_unit_test(little_room),
		cmocka_unit_test(test_counters),  cmocka_unit_test(helped_ranges),
		cmocka_unit_test(odd_parameters), cmocka_unit_test(analyses_that_are_given_up),
		cmocka_unit_test(test_searching), cmocka_unit_test(asking_while_reading),
		cmocka_unit_test(test_instants),  cmocka_unit_test(processes_that_matter),
	};
	int rc = cmocka_run_group_tests(tests, NULL, NULL);

	free(rows);
	return rc;
}
