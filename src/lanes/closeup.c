/*
 * closeup.c - a short stretch of lanes that are not read, as it is.
 *
 * Where a window touches few blocks of rows, these are decoded and what is in sight becomes levels
 * of lanes that live as long as the answer: a look at a microsecond of a hundred million events
 * costs milliseconds, and the picture is exact. Only the order of overlapping events on levels may
 * be another once all of the lane is read, so nothing can be asked about them by number.
 */
#include <stdlib.h>
#include <string.h>

#include "lanes/build.h"

/* Of a source: a million rows take some ten milliseconds. */
enum { MOST_BLOCKS = 8, MOST_ROWS = 2 << 20 };

struct closeup {
	struct ws_lanes *l;
	int64_t t0, t1;
	struct ws_lane **lane; /* by number; NULL: not asked for, or too much to read */
};

struct place {
	struct closeup *c;
	struct ws_lane_pass pass;
};

static bool in_sight(const struct closeup *c, uint64_t start, uint64_t end)
{
	return (int64_t)start < c->t1 &&
	       ((int64_t)end > c->t0 || (start == end && (int64_t)start >= c->t0));
}

static int place_batch(void *ctx, const struct ws_batch *b)
{
	struct place *p = ctx;
	struct ws_raw e;

	for (uint32_t f = 0; f < p->pass.s->feeds; f++)
		for (size_t i = 0; i < b->rows; i++) {
			uint32_t lane = ws_lane_of_row(&p->pass, p->pass.workers, f, b, i);
			struct ws_lane *to = lane == UINT32_MAX ? NULL : p->c->lane[lane];

			if (!to)
				continue;
			ws_lane_raw_of_row(&p->pass, b, i, &e);
			if (!ws_lane_descs[to->kind].counter && !in_sight(p->c, e.start, e.end))
				continue;
			ws_grow(to->raw, to->count, to->filled + 1);
			to->raw[to->filled++] = e;
		}
	return 0;
}

/* Which blocks of a source are in sight and have rows of the lanes; how many, or more than
 * MOST_BLOCKS when that is too much. */
static size_t choose_blocks(const struct closeup *c, const struct ws_census_entry *e, size_t n,
			    uint8_t *skip)
{
	size_t chosen = 0;
	uint64_t rows = 0;

	for (size_t i = 0; i < n; i++) {
		struct ws_block_info b;

		if (!skip[e[i].block] || !c->lane[e[i].lane])
			continue;
		b = ws_report_block(c->l->r, ws_sources[e[i].source].table, e[i].block);
		if ((int64_t)b.time_min >= c->t1 || (int64_t)b.time_max < c->t0)
			continue;
		skip[e[i].block] = 0;
		chosen++;
		rows += b.rows;
	}
	return rows > MOST_ROWS ? MOST_BLOCKS + 1 : chosen;
}

static void give_up(struct closeup *c, uint32_t lane)
{
	if (!c->lane[lane])
		return;
	free(c->lane[lane]->raw);
	free(c->lane[lane]);
	c->lane[lane] = NULL;
}

static void read_source(struct closeup *c, const struct ws_census_entry *e, size_t n,
			struct ws_lane_worker *worker)
{
	struct place p = {.c = c, .pass = ws_lane_pass_new(c->l, e->source, worker)};
	size_t blocks = ws_report_blocks(c->l->r, p.pass.s->table), chosen;
	uint8_t *skip = ws_malloc(blocks + 1);
	struct ws_scan sc = {.table = p.pass.s->table,
			     .columns = ws_lane_event_columns(p.pass.s),
			     .time_max = UINT64_MAX,
			     .workers = 1,
			     .skip = skip};
	uint64_t *base;

	memset(skip, 1, blocks);
	chosen = choose_blocks(c, e, n, skip);
	if (chosen > MOST_BLOCKS) {
		for (size_t i = 0; i < n; i++)
			if (!skip[e[i].block])
				give_up(c, e[i].lane);
	} else if (chosen) {
		base = ws_lane_row_bases(c->l->r, p.pass.s->table);
		p.pass.row_base = base;
		ws_lane_workers_forget(worker, 1);
		ws_scan_run(c->l->r, &sc, place_batch, &p, NULL);
		free(base);
	}
	free(skip);
}

/* The lane as level.c wants it: with its raw events where it frees them. */
static void finish(struct ws_lanes *l, struct ws_lane *lane)
{
	struct ws_raw *raw = ws_space_new(lane->filled * sizeof(*raw));

	if (lane->filled)
		memcpy(raw, lane->raw, lane->filled * sizeof(*raw));
	free(lane->raw);
	lane->raw = raw;
	lane->count = 0; /* they do not count as read */
	lane->placed = lane->filled;
	ws_lane_finish(l, lane);
}

struct ws_lane **ws_closeup_new(struct ws_lanes *l, const uint32_t *lanes, size_t n, int64_t t0,
				int64_t t1)
{
	struct closeup c = {
		.l = l, .t0 = t0, .t1 = t1, .lane = ws_calloc(l->n + 1, sizeof(*c.lane))};
	bool stacks = __atomic_load_n(&l->stacks_done, __ATOMIC_ACQUIRE);
	uint32_t workers;
	struct ws_lane_worker *w;
	size_t any = 0;

	for (size_t i = 0; i < n; i++) {
		const struct ws_lane *x = l->lane[lanes[i]];
		bool named = stacks || (x->kind != WS_LANE_SAMPLE && x->kind != WS_LANE_PYTHON);

		if (ws_lane_ready(x) || x->kind == WS_LANE_PROJECTED || x->kind == WS_LANE_STATE ||
		    !named || c.lane[lanes[i]])
			continue;
		c.lane[lanes[i]] = ws_calloc(1, sizeof(struct ws_lane));
		c.lane[lanes[i]]->kind = x->kind;
		any++;
	}
	if (!any)
		return c.lane;
	w = ws_lane_workers_new(&workers);
	for (size_t i = 0, to; i < l->census_n; i = to) {
		for (to = i + 1; to < l->census_n && l->census[to].source == l->census[i].source;
		     to++)
			;
		read_source(&c, l->census + i, to - i, w);
	}
	ws_lane_workers_free(w, workers);
	for (size_t i = 0; i < l->n; i++)
		if (c.lane[i])
			finish(l, c.lane[i]);
	return c.lane;
}

void ws_closeup_free(struct ws_lanes *l, struct ws_lane **lanes)
{
	for (size_t i = 0; i < l->n; i++)
		if (lanes[i])
			ws_lane_free(lanes[i]);
	free(lanes);
}
