/*
 * test_counters.c - is what is drawn of counters true? At every zoom no value may be higher or
 * lower than what is drawn where it holds, the highest must be there, nothing may cover a gap, and
 * piles must be the sums of their counters.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/choose.h"
#include "lanes/tile.h"
#include "serve/api.h"
#include "store/store.h"
#include "../random.h"

enum { VALUES = 20000, PERIOD = 1000, PARTS = 3, GAP_FROM = 7000, GAP_TO = 7777 };
#define ZERO UINT64_C(1000000)

static double value_of[PARTS][VALUES]; /* by time: what holds */
static char path[64];

static bool is_gap(size_t i)
{
	return i >= GAP_FROM && i < GAP_TO;
}

/* Values that are repeated are no rows; a single high one among low ones. */
static void write_counter(struct ws_writer *writer, uint32_t part, uint64_t *state)
{
	double value = 1, before = -1;

	ws_writer_add(writer, WS_TABLE_counter,
		      &(struct ws_row_counter){.id = part + 1,
					       .device = WS_NO_U32,
					       .cpu = WS_NO_U32,
					       .name = ws_writer_string(writer, "c", 1)});
	for (size_t i = 0; i < VALUES; i++) {
		if (random_next(state) % 3)
			value = (double)(random_next(state) % 50);
		value_of[part][i] = is_gap(i) ? NAN : i == 12345 ? 1000 : value;
		if (value_of[part][i] == before || (isnan(value_of[part][i]) && isnan(before)))
			continue;
		before = value_of[part][i];
		ws_writer_add(writer, WS_TABLE_counter_value,
			      &(struct ws_row_counter_value){.start = ZERO + i * PERIOD,
							     .counter = part + 1,
							     .value = before});
	}
}

static struct ws_report *make_counters(void)
{
	struct ws_writer_opts opts = {.overwrite = true};
	uint64_t state = RANDOM_SEED;
	struct ws_writer *writer;
	struct ws_err err;

	snprintf(path, sizeof(path), "/tmp/ws-counters-%d.wsrep", (int)getpid());
	writer = ws_writer_create(path, &opts, &err);
	assert_non_null(writer);
	ws_writer_add(writer, WS_TABLE_collection,
		      &(struct ws_row_collection){.start = ZERO, .end = ZERO + VALUES * PERIOD});
	for (uint32_t part = 0; part < PARTS; part++)
		write_counter(writer, part, &state);
	assert_int_equal(ws_writer_close(writer, &err), 0);
	return ws_report_open(path, &err);
}

/* What holds from value i on, of the first `parts` counters. */
static double sum_at(size_t i, size_t parts)
{
	double sum = 0;

	for (size_t part = 0; part < parts; part++)
		sum += value_of[part][i];
	return sum;
}

/* The rectangles of a tile against each value that holds somewhere in it. */
static double check_rects(const struct ws_rects *rects, int k, int64_t index, size_t parts)
{
	double px = ldexp(1, k), highest = 0;
	int64_t t0 = index * ((int64_t)WS_TILE_PIXELS << k);

	for (size_t r = 0; r < rects->n; r++) {
		const struct ws_rect *rect = &rects->rects[r];
		double from = (double)t0 + (double)rect->x0 * px,
		       to = (double)t0 + (double)rect->x1 * px, low = INFINITY, high = -INFINITY;
		size_t first = (size_t)fmax(0, floor(from / PERIOD + 0.01));

		for (size_t i = first; i < VALUES && (double)i * PERIOD < to - px * 0.001 - 0.5;
		     i++) {
			double value = sum_at(i, parts);

			if (isnan(value)) /* a pixel's rectangle may have a gap within it */
				continue;
			low = fmin(low, value);
			high = fmax(high, value);
		}
		assert_true(isfinite(high));
		assert_true(fabs(high - (double)rect->high) < 0.01);
		assert_true(fabs(low - (double)rect->low) < 0.01);
		highest = fmax(highest, (double)rect->high);
		if (to - from > 3 * px) /* one value */
			assert_false(from < GAP_FROM * PERIOD && to > GAP_TO * PERIOD);
	}
	return highest;
}

static void draw(const struct ws_lanes *lanes, size_t parts, int k, int64_t index,
		 struct ws_rects *rects)
{
	const struct ws_lane *lane[PARTS];

	rects->n = 0;
	for (size_t part = 0; part < PARTS; part++)
		lane[part] = lanes->lane[part];
	if (parts)
		ws_draw_pile_tile(lanes, lane, &(struct ws_tile_pile){k, index, parts}, rects);
	else
		ws_draw_tile(lanes, lane[0], 0, k, index, rects);
}

/* `parts` 0: a counter as it is. */
static void check_zooms(const struct ws_lanes *lanes, size_t parts)
{
	struct ws_rects rects = {0};

	for (int k = 4; k < 24; k++) {
		int64_t tiles = (VALUES * PERIOD >> k) / WS_TILE_PIXELS + 1;
		double highest = 0, found;

		for (int64_t i = 0; i<tiles; i += i> 2 && i < tiles - 3 ? tiles / 7 + 1 : 1) {
			draw(lanes, parts, k, i, &rects);
			found = check_rects(&rects, k, i, parts ? parts : 1);
			highest = fmax(highest, found);
		}
		if (tiles < 7) /* all of them were drawn */
			assert_true(highest == sum_at(12345, parts ? parts : 1));
	}
	free(rects.rects);
}

static void nothing_is_lost(void **unused)
{
	struct ws_report *report = make_counters();
	struct ws_lanes *lanes = ws_lanes_open(report, &WS_LANES_ALL_EVENTS);

	(void)unused;
	ws_lanes_wait(lanes);
	assert_int_equal(lanes->n, PARTS);
	check_zooms(lanes, 0);
	for (size_t parts = 1; parts <= PARTS; parts++)
		check_zooms(lanes, parts);
	ws_lanes_close(lanes);
	ws_report_close(report);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_lost)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
