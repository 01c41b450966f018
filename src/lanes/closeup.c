/*
 * closeup.c - exact events for a short stretch of lanes that are not read.
 *
 * Where a window touches few blocks of rows, these are decoded and the visible events become levels
 * of lanes that exist as long as the answer: a look at a microsecond of a hundred million events
 * costs milliseconds, and the picture is exact. Only the levels of overlapping events may differ
 * once all of the lane is read, so events cannot be asked for by number.
 */
#include <stdlib.h>
#include <string.h>

#include "lanes/build.h"

/* The limit for one source: a million rows take some ten milliseconds. */
enum { MOST_BLOCKS = 8, MOST_ROWS = 2 << 20 };

struct closeup {
	struct ws_lanes *lanes;
	int64_t t0, t1;
	struct ws_lane **lane; /* by number; NULL: not asked for, or too much to read */
};

struct place {
	struct closeup *closeup;
	struct ws_lane_pass pass;
};

static bool in_sight(const struct closeup *closeup, uint64_t start, uint64_t end)
{
	return (int64_t)start < closeup->t1 &&
	       ((int64_t)end > closeup->t0 || (start == end && (int64_t)start >= closeup->t0));
}

static int place_batch(void *ctx, const struct ws_batch *batch)
{
	struct place *place = ctx;
	struct ws_raw raw;

	for (uint32_t f = 0; f < place->pass.kind->feeds; f++)
		for (size_t i = 0; i < batch->rows; i++) {
			uint32_t lane =
				ws_lane_of_row(&place->pass, place->pass.workers, f, batch, i);
			struct ws_lane *to = lane == UINT32_MAX ? NULL : place->closeup->lane[lane];

			if (!to)
				continue;
			ws_lane_raw_of_row(&place->pass, batch, i, &raw);
			if (!ws_lane_descs[to->kind].counter &&
			    !in_sight(place->closeup, raw.start, raw.end))
				continue;
			ws_grow(to->raw, to->count, to->filled + 1);
			to->raw[to->filled++] = raw;
		}
	return 0;
}

/* Which blocks of a source are visible and have rows of the lanes. Returns how many, or more than
 * MOST_BLOCKS when there are too many. */
static size_t choose_blocks(const struct closeup *closeup, const struct ws_census_entry *entry,
			    size_t n, uint8_t *skip)
{
	size_t chosen = 0;
	uint64_t rows = 0;

	for (size_t i = 0; i < n; i++) {
		struct ws_block_info block_info;

		if (!skip[entry[i].block] || !closeup->lane[entry[i].lane])
			continue;
		block_info =
			ws_report_block_info(closeup->lanes->report,
					     ws_event_kinds[entry[i].source].table, entry[i].block);
		if ((int64_t)block_info.time_min >= closeup->t1 ||
		    (int64_t)block_info.time_max < closeup->t0)
			continue;
		skip[entry[i].block] = 0;
		chosen++;
		rows += block_info.rows;
	}
	return rows > MOST_ROWS ? MOST_BLOCKS + 1 : chosen;
}

static void give_up(struct closeup *closeup, uint32_t lane)
{
	if (!closeup->lane[lane])
		return;
	free(closeup->lane[lane]->raw);
	free(closeup->lane[lane]);
	closeup->lane[lane] = NULL;
}

static void read_source(struct closeup *closeup, const struct ws_census_entry *entry, size_t n,
			struct ws_lane_worker *worker)
{
	struct place place = {.closeup = closeup,
			      .pass = ws_lane_pass_new(closeup->lanes, entry->source, worker)};
	size_t blocks = ws_report_count_blocks(closeup->lanes->report, place.pass.kind->table),
	       chosen;
	uint8_t *skip = ws_malloc(blocks + 1);
	struct ws_scan sc = {.table = place.pass.kind->table,
			     .columns = ws_lane_event_columns(place.pass.kind),
			     .time_max = UINT64_MAX,
			     .workers = 1,
			     .skip = skip};
	uint64_t *base;

	memset(skip, 1, blocks);
	chosen = choose_blocks(closeup, entry, n, skip);
	if (chosen > MOST_BLOCKS) {
		for (size_t i = 0; i < n; i++)
			if (!skip[entry[i].block])
				give_up(closeup, entry[i].lane);
	} else if (chosen) {
		base = ws_lane_row_bases(closeup->lanes->report, place.pass.kind->table);
		place.pass.row_base = base;
		ws_lane_workers_forget(worker, 1);
		ws_run_scan(closeup->lanes->report, &sc, place_batch, &place, NULL);
		free(base);
	}
	free(skip);
}

/* The lane in the form that level.c needs: with its raw events, which level.c frees. */
static void finish_closeup(struct ws_lanes *lanes, struct ws_lane *lane)
{
	struct ws_raw *raw = ws_allocate_space(lane->filled * sizeof(*raw));

	if (lane->filled)
		memcpy(raw, lane->raw, lane->filled * sizeof(*raw));
	free(lane->raw);
	lane->raw = raw;
	lane->count = 0; /* they do not count as read */
	lane->placed = lane->filled;
	ws_make_lane_levels(lanes, lane);
}

struct ws_lane **ws_make_closeup(struct ws_lanes *lanes_l, const uint32_t *lanes, size_t n,
				 int64_t t0, int64_t t1)
{
	struct closeup closeup = {.lanes = lanes_l,
				  .t0 = t0,
				  .t1 = t1,
				  .lane = ws_calloc(lanes_l->n + 1, sizeof(*closeup.lane))};
	bool stacks = __atomic_load_n(&lanes_l->stacks_done, __ATOMIC_ACQUIRE);
	uint32_t workers;
	struct ws_lane_worker *worker;
	size_t any = 0;

	for (size_t i = 0; i < n; i++) {
		const struct ws_lane *lane = lanes_l->lane[lanes[i]];
		bool named = stacks || !ws_lane_names_functions(lane->kind);

		if (ws_lane_ready(lane) || lane->kind == WS_LANE_PROJECTED ||
		    lane->kind == WS_LANE_STATE || !named || closeup.lane[lanes[i]])
			continue;
		closeup.lane[lanes[i]] = ws_calloc(1, sizeof(struct ws_lane));
		closeup.lane[lanes[i]]->kind = lane->kind;
		any++;
	}
	if (!any)
		return closeup.lane;
	worker = ws_lane_workers_new(&workers);
	for (size_t i = 0, to; i < lanes_l->census_n; i = to) {
		for (to = i + 1; to < lanes_l->census_n &&
				 lanes_l->census[to].source == lanes_l->census[i].source;
		     to++)
			;
		read_source(&closeup, lanes_l->census + i, to - i, worker);
	}
	ws_lane_workers_free(worker, workers);
	for (size_t i = 0; i < lanes_l->n; i++)
		if (closeup.lane[i])
			finish_closeup(lanes_l, closeup.lane[i]);
	return closeup.lane;
}

void ws_free_closeup(struct ws_lanes *lanes_l, struct ws_lane **lanes)
{
	for (size_t i = 0; i < lanes_l->n; i++)
		if (lanes[i])
			ws_lane_free(lanes[i]);
	free(lanes);
}
