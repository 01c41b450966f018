/*
 * api_durations.c - how the durations of events are distributed: a histogram with buckets as wide
 * as their factor asks for, the median and high percentiles, all exact. Whole durations count, also
 * of events that are partly outside of the window; moments and what never ended have none.
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/choose.h"
#include "serve/api.h"
#include "serve/where.h"

enum { MOST_BUCKETS = 40, PARTS = 4096 };

struct durations {
	uint64_t *ns;
	size_t n, cap;
	uint64_t least, most, total, without;
};

static void add_duration(struct durations *durations, uint64_t ns)
{
	ws_grow(durations->ns, durations->cap, durations->n + 1);
	durations->ns[durations->n] = ns;
	durations->least = durations->n ? ws_min(durations->least, ns) : ns;
	durations->most = ws_max(durations->most, ns);
	durations->total += ns;
	durations->n++;
}

struct wanted {
	struct ws_matcher *matcher;
	struct ws_where *where;
	int64_t t0, t1;
};

static void add_level(struct durations *durations, const struct wanted *wanted,
		      const struct ws_level *level)
{
	uint32_t from, to;

	ws_level_range(level, wanted->t0, wanted->t1, &from, &to);
	for (uint32_t i = from; i < to; i++) {
		if (!ws_match_name(wanted->matcher, level->name[i]) ||
		    !ws_where_holds(wanted->where, level, i))
			continue;
		if (level->src[i] & (WS_EVENT_OPEN | WS_EVENT_MOMENT))
			durations->without++;
		else
			add_duration(durations, ws_level_dur(level, i));
	}
}

/* The nth shortest duration, from 0: the range that contains it is narrowed down to one number. */
static uint64_t find_nth(const struct durations *durations, uint64_t nth)
{
	uint64_t low = durations->least, high = durations->most;

	while (low < high) {
		uint64_t width = (high - low) / PARTS + 1, count[PARTS] = {0};
		size_t part = 0;

		for (size_t i = 0; i < durations->n; i++)
			if (durations->ns[i] >= low && durations->ns[i] <= high)
				count[(durations->ns[i] - low) / width]++;
		for (; nth >= count[part]; part++)
			nth -= count[part];
		low += part * width;
		high = ws_min(high, low + width - 1);
	}
	return low;
}

/* The least duration that at least this percentage of all do not exceed. */
static uint64_t find_percentile(const struct durations *durations, uint64_t percent)
{
	return find_nth(durations, (durations->n * percent + 99) / 100 - 1);
}

/* The median as statistics define it: for an even number of values, the mean of the two in the
 * middle. */
static double find_median(const struct durations *durations)
{
	uint64_t n = durations->n;

	return ((double)find_nth(durations, (n - 1) / 2) + (double)find_nth(durations, n / 2)) / 2;
}

/* Bounds of buckets, each a fixed multiple of the previous one, from the shortest duration to
 * beyond the longest; returns the number of buckets. */
static size_t make_bounds(const struct durations *durations, uint64_t bounds[MOST_BUCKETS + 1])
{
	double first = (double)ws_max(durations->least, 1), last = (double)durations->most + 1;
	size_t n = 0;

	bounds[0] = durations->least;
	for (size_t i = 1; i < MOST_BUCKETS; i++) {
		uint64_t bound =
			(uint64_t)llround(first * pow(last / first, (double)i / MOST_BUCKETS));

		if (bound > bounds[n] && bound <= durations->most)
			bounds[++n] = bound;
	}
	bounds[n + 1] = durations->most + 1;
	return n + 1;
}

static size_t find_bucket(const uint64_t *bounds, size_t n, uint64_t ns)
{
	size_t low = 0;

	while (n - low > 1) {
		size_t middle = (low + n) / 2;

		if (bounds[middle] <= ns)
			low = middle;
		else
			n = middle;
	}
	return low;
}

/* [from, to, how many are at least `from` and below `to`, their sum] of each. */
static void put_buckets(struct ws_text *out, const struct durations *durations)
{
	uint64_t bounds[MOST_BUCKETS + 1], count[MOST_BUCKETS] = {0}, total[MOST_BUCKETS] = {0};
	size_t n = make_bounds(durations, bounds);

	for (size_t i = 0; i < durations->n; i++) {
		size_t bucket = find_bucket(bounds, n, durations->ns[i]);

		count[bucket]++;
		total[bucket] += durations->ns[i];
	}
	for (size_t i = 0; i < n; i++) {
		ws_put_json_comma(out);
		ws_text_printf(out, "[%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]", bounds[i],
			       bounds[i + 1], count[i], total[i]);
	}
}

static void put_durations(struct ws_text *out, const struct durations *durations)
{
	ws_text_puts(out, "{");
	ws_put_json_int(out, "count", (int64_t)durations->n);
	ws_put_json_int(out, "without", (int64_t)durations->without);
	ws_put_json_int(out, "total", (int64_t)durations->total);
	if (durations->n) {
		ws_put_json_int(out, "min", (int64_t)durations->least);
		ws_put_json_int(out, "max", (int64_t)durations->most);
		ws_put_json_key(out, "median");
		ws_text_printf(out, "%.1f", find_median(durations));
		ws_put_json_int(out, "p90", (int64_t)find_percentile(durations, 90));
		ws_put_json_int(out, "p99", (int64_t)find_percentile(durations, 99));
	}
	ws_put_json_key(out, "buckets");
	ws_text_puts(out, "[");
	if (durations->n)
		put_buckets(out, durations);
	ws_text_puts(out, "]}");
}

/* Start reading lanes that are not read yet, and collect the requested durations from those that
 * are. */
static void gather_durations(struct ws_api_call *call, const struct wanted *wanted,
			     const uint32_t *lanes, size_t n, struct durations *durations)
{
	for (size_t i = 0; i < n; i++) {
		const struct ws_lane *lane = call->lanes->lane[lanes[i]];

		if (ws_lane_descs[lane->kind].counter)
			continue;
		if (lane->kind != WS_LANE_PROJECTED)
			ws_lanes_want(call->lanes, lanes[i]);
		for (uint32_t k = 0; ws_lane_ready(lane) && k < lane->levels; k++)
			add_level(durations, wanted, &lane->level[k]);
	}
}

static int answer_durations(struct ws_api_call *call, const struct wanted *wanted,
			    struct ws_err *err)
{
	struct durations durations = {0};
	uint32_t *lanes;
	size_t n;

	if (!ws_param_lanes(call, WS_LANES_ORIGINAL, &lanes, &n, err))
		return 400;
	gather_durations(call, wanted, lanes, n, &durations);
	put_durations(call->out, &durations);
	free(durations.ns);
	free(lanes);
	return ws_is_matcher_expired(wanted->matcher, err) ? WS_API_SAY : 0;
}

int ws_api_durations(struct ws_api_call *call, struct ws_err *err)
{
	struct wanted wanted = {0};
	int status = WS_API_SAY;

	if (!ws_param_window(call, &wanted.t0, &wanted.t1, err))
		return 400;
	wanted.matcher = ws_make_matcher(call, err);
	if (wanted.matcher)
		wanted.where = ws_make_where(call, err);
	if (wanted.where)
		status = answer_durations(call, &wanted, err);
	ws_matcher_free(wanted.matcher);
	ws_where_free(wanted.where);
	return status;
}
