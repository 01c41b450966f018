/*
 * level.c - from a lane's raw events to its levels.
 *
 * Events come block after block, each block in order of start. They are almost sorted, except for
 * ranges that were written when they ended, long after the events that they enclose. So ascending
 * events are left alone and the rest is sorted and merged in (sort_events). A walk in order of
 * (start, longer first) then gives each event the first level that is free at its start, and a
 * second one copies it there. Ranges projected on GPUs keep the depth of the original range: steps
 * overlap on a GPU, and the ranges inside a step stay below it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lanes/lane.h"
#include "base/choose.h"

/* ---- order ---- */

static bool starts_before(const struct ws_raw *left, const struct ws_raw *right)
{
	return left->start != right->start ? left->start < right->start
	       : left->end != right->end   ? left->end > right->end
					   : left->level < right->level;
}

static int compare_events(const void *first, const void *second)
{
	return starts_before(first, second) ? -1 : starts_before(second, first);
}

/* Merge the sorted rest back into the sorted events at the front of `v`; from the end, in place. */
static void merge_back(struct ws_raw *raw, size_t kept, const struct ws_raw *rest, size_t n)
{
	size_t to = kept + n;

	while (n)
		raw[--to] = kept && starts_before(&rest[n - 1], &raw[kept - 1]) ? raw[--kept]
										: rest[--n];
}

static void sort_events(struct ws_raw *raw, size_t n)
{
	struct ws_raw *rest = NULL;
	size_t kept = 0, out = 0, cap = 0;

	for (size_t i = 0; i < n; i++) {
		if (!kept || !starts_before(&raw[i], &raw[kept - 1])) {
			if (kept != i)
				raw[kept] = raw[i];
			kept++;
			continue;
		}
		/* Only one event may have come too early, and those after it may be in order. */
		if (kept > 1 && !starts_before(&raw[i], &raw[kept - 2]) && i + 1 < n &&
		    starts_before(&raw[i + 1], &raw[kept - 1])) {
			ws_grow(rest, cap, out + 1);
			rest[out++] = raw[kept - 1];
			raw[kept - 1] = raw[i];
			continue;
		}
		ws_grow(rest, cap, out + 1);
		rest[out++] = raw[i];
	}
	if (out > n / 2)
		qsort(rest, out, sizeof(*rest), compare_events);
	else if (out)
		sort_events(rest, out);
	merge_back(raw, kept, rest, out);
	free(rest);
}

/* ---- levels ---- */

struct slots {
	uint64_t until[WS_LEVELS_MOST]; /* end of the last event of each level */
	uint32_t n[WS_LEVELS_MOST];
	uint8_t depth[WS_LEVELS_MOST]; /* `level` of that event */
	uint32_t used;
};

/*
 * The first level that is free at the start of `e` and below the event that encloses it at the
 * depth before its own, or WS_LEVELS_MOST. A moment at the end of another event does not overlap
 * it.
 */
static inline uint32_t place_event(struct slots *slots, const struct ws_raw *raw)
{
	uint32_t i = raw->level;

	for (uint32_t k = i ? slots->used : 0; k--;)
		if (slots->depth[k] + 1 == raw->level && slots->until[k] >= raw->end) {
			i = k + 1;
			break;
		}
	while (i < slots->used && slots->until[i] > raw->start)
		i++;
	if (i == WS_LEVELS_MOST)
		return i;
	slots->used = i >= slots->used ? i + 1 : slots->used;
	slots->until[i] = raw->end;
	slots->depth[i] = raw->level;
	return i;
}

static void level_alloc(struct ws_level *level, uint32_t n)
{
	size_t pyramid = 0, at = 0, strides = n / WS_LEVEL_STRIDE + 2;
	char *from;

	for (uint32_t k = 0, m = n / WS_LEVEL_FAN; k < WS_LEVEL_PYRAMID && m;
	     k++, m /= WS_LEVEL_FAN)
		pyramid += m;
	level->n = n;
	level->bytes = (size_t)n * (8 + 4 + 4 + 4 + 1 + 1) + strides * 8 + pyramid * 4 + 64;
	from = level->memory = ws_allocate_space(level->bytes);
	level->start = (uint64_t *)from;
	level->busy = (uint64_t *)(from + (at += (size_t)n * 8));
	level->dur = (uint32_t *)(from + (at += strides * 8));
	level->name = (uint32_t *)(from + (at += (size_t)n * 4));
	level->ref = (uint32_t *)(from + (at += (size_t)n * 4));
	at += (size_t)n * 4;
	for (uint32_t k = 0, m = n / WS_LEVEL_FAN; k < WS_LEVEL_PYRAMID && m;
	     k++, m /= WS_LEVEL_FAN) {
		level->max[k] = (uint32_t *)(from + at);
		at += (size_t)m * 4;
	}
	level->src = (uint8_t *)(from + at);
	level->paint = level->src + n;
	level->n = 0;
}

static void level_push(struct ws_level *level, const struct ws_raw *raw)
{
	uint32_t i = level->n++;
	uint64_t dur = raw->end - raw->start;

	level->start[i] = raw->start;
	level->dur[i] = dur < UINT32_MAX ? (uint32_t)dur : UINT32_MAX;
	if (level->dur[i] == UINT32_MAX) {
		ws_grow(level->longs, level->long_cap, level->long_n + 1);
		level->longs[level->long_n++] = (struct ws_long){i, dur};
	}
	level->name[i] = raw->name;
	level->ref[i] = raw->ref;
	level->src[i] = raw->src;
	level->paint[i] = raw->paint;
}

static uint32_t most_of(const uint32_t *values)
{
	uint32_t m = values[0];

	for (uint32_t i = 1; i < WS_LEVEL_FAN; i++)
		m = ws_max(values[i], m);
	return m;
}

/* The sums and the pyramid of longest durations. */
static void level_sums(struct ws_level *level)
{
	const uint32_t *below = level->dur;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < level->n; i++) {
		if (!(i % WS_LEVEL_STRIDE))
			level->busy[i / WS_LEVEL_STRIDE] = sum;
		sum += ws_level_dur(level, i);
	}
	level->busy[(level->n + WS_LEVEL_STRIDE - 1) / WS_LEVEL_STRIDE] = sum;
	for (uint32_t k = 0, m = level->n / WS_LEVEL_FAN; k < WS_LEVEL_PYRAMID && m;
	     k++, m /= WS_LEVEL_FAN) {
		for (uint32_t i = 0; i < m; i++)
			level->max[k][i] = most_of(below + (size_t)i * WS_LEVEL_FAN);
		below = level->max[k];
	}
}

static void make_levels(struct ws_lane *lane)
{
	struct slots *slots = ws_calloc(1, sizeof(*slots));

	for (uint64_t i = 0; i < lane->filled; i++) {
		uint32_t k = place_event(slots, &lane->raw[i]);

		if (k < WS_LEVELS_MOST)
			slots->n[k]++;
		else
			lane->hidden++;
	}
	lane->levels = slots->used;
	lane->level = ws_calloc(slots->used ? slots->used : 1, sizeof(*lane->level));
	for (uint32_t k = 0; k < slots->used; k++) {
		level_alloc(&lane->level[k], slots->n[k]);
		slots->until[k] = 0;
	}
	slots->used = 0;
	for (uint64_t i = 0; i < lane->filled; i++) {
		uint32_t k = place_event(slots, &lane->raw[i]);

		if (k < WS_LEVELS_MOST)
			level_push(&lane->level[k], &lane->raw[i]);
	}
	free(slots);
	for (uint32_t k = 0; k < lane->levels; k++)
		level_sums(&lane->level[k]);
}

/* Go over the stretches with at least one event under way, and put them into `v` unless it is NULL.
 * Returns how many. */
static uint32_t covered_time(const struct ws_lane *lane, struct ws_level *level)
{
	struct ws_raw now = {0};
	uint32_t n = 0;

	for (uint64_t i = 0; i < lane->filled; i++) {
		const struct ws_raw *raw = &lane->raw[i];

		if (lane->kind == WS_LANE_STATE && !ws_state_runs(raw->ref))
			continue;
		if (n && raw->start <= now.end && lane->kind != WS_LANE_STATE) {
			now.end = ws_max(raw->end, now.end);
			continue;
		}
		if (n && level)
			level_push(level, &now);
		now = (struct ws_raw){.start = raw->start, .end = raw->end};
		n++;
	}
	if (n && level)
		level_push(level, &now);
	return n;
}

static void make_cover(struct ws_lane *lane)
{
	lane->cover = ws_calloc(1, sizeof(*lane->cover));
	level_alloc(lane->cover, covered_time(lane, NULL));
	covered_time(lane, lane->cover);
	level_sums(lane->cover);
}

/* ---- counters ---- */

static void counter_alloc(struct ws_level *level, uint32_t n)
{
	size_t pyramid = 0;
	double *p;

	for (uint32_t k = 0, m = n / WS_LEVEL_FAN; k < WS_LEVEL_PYRAMID && m;
	     k++, m /= WS_LEVEL_FAN)
		pyramid += m;
	level->n = n;
	level->bytes = ((size_t)n * 2 + pyramid * 2 + 1) * 8;
	level->memory = ws_allocate_space(level->bytes);
	level->start = level->memory;
	level->value = p = (double *)(level->start + n);
	p += n;
	for (uint32_t k = 0, m = n / WS_LEVEL_FAN; k < WS_LEVEL_PYRAMID && m;
	     k++, m /= WS_LEVEL_FAN) {
		level->value_max[k] = p;
		level->value_min[k] = p + m;
		p += (size_t)m * 2;
	}
}

/* Values that are not numbers mean that nothing is known, and do not count. */
static void fold_extremes(const double *low, const double *high, double *min, double *max)
{
	*min = low[0];
	*max = high[0];
	for (uint32_t i = 1; i < WS_LEVEL_FAN; i++) {
		*min = fmin(*min, low[i]);
		*max = fmax(*max, high[i]);
	}
}

static void make_counter(struct ws_lane *lane)
{
	struct ws_level *level = lane->level = ws_calloc(1, sizeof(*level));
	const double *low, *high;

	lane->levels = 1;
	counter_alloc(level, (uint32_t)lane->filled);
	for (uint32_t i = 0; i < level->n; i++) {
		level->start[i] = lane->raw[i].start;
		memcpy(&level->value[i], &lane->raw[i].end, 8);
	}
	low = high = level->value;
	for (uint32_t k = 0, m = level->n / WS_LEVEL_FAN; k < WS_LEVEL_PYRAMID && m;
	     k++, m /= WS_LEVEL_FAN) {
		for (uint32_t i = 0; i < m; i++)
			fold_extremes(low + (size_t)i * WS_LEVEL_FAN,
				      high + (size_t)i * WS_LEVEL_FAN, &level->value_min[k][i],
				      &level->value_max[k][i]);
		low = level->value_min[k];
		high = level->value_max[k];
	}
}

uint64_t ws_lane_own_time(const struct ws_lane *lane, const struct ws_level *level, uint32_t event,
			  int64_t t0, int64_t t1, uint32_t *below)
{
	const struct ws_level *inner = level + 1;
	uint64_t own = ws_level_clip(level, event, t0, t1), end = ws_level_end(level, event);

	if (inner == lane->level + lane->levels)
		return own;
	*below = ws_level_seek(inner, *below, inner->n, level->start[event]);
	for (uint32_t i = *below; i < inner->n && inner->start[i] < end; i++)
		if (ws_level_end(inner, i) <= end)
			own -= ws_level_clip(inner, i, t0, t1);
	return own;
}

/* ---- a lane ---- */

static void lane_extent(struct ws_lane *lane)
{
	lane->first = UINT64_MAX;
	for (uint32_t k = 0; k < lane->levels; k++) {
		const struct ws_level *level = &lane->level[k];
		uint64_t end;

		if (!level->n)
			continue;
		end = level->value ? level->start[level->n - 1] : ws_level_end(level, level->n - 1);
		lane->first = ws_min(level->start[0], lane->first);
		lane->last = ws_max(end, lane->last);
		if (!level->value)
			lane->busy = ws_level_busy(ws_lane_cover(lane), 0, ws_lane_cover(lane)->n);
	}
}

/* Rows of damaged blocks have a place, but no event. */
static void close_gaps(struct ws_lane *lane)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < lane->filled; i++)
		if (lane->raw[i].there)
			lane->raw[n++] = lane->raw[i];
	lane->filled = n;
}

void ws_make_lane_levels(struct ws_lanes *lanes, struct ws_lane *lane)
{
	bool counter = ws_lane_descs[lane->kind].counter;
	uint64_t bytes = lane->filled * sizeof(*lane->raw);

	/* Colours need the forms of names. They are made here, so that drawing a ready lane need
	 * not wait for them. */
	ws_fold_any(lanes->fold);
	if (lane->placed != lane->filled)
		close_gaps(lane);
	sort_events(lane->raw, lane->filled);
	if (counter)
		make_counter(lane);
	else
		make_levels(lane);
	if (!counter && (lane->levels > 1 || lane->kind == WS_LANE_STATE))
		make_cover(lane);
	lane_extent(lane);
	ws_free_space(lane->raw, bytes);
	lane->raw = NULL;
	if (lane->kind != WS_LANE_PROJECTED && !lane->uncounted)
		__atomic_fetch_add(&lanes->built_events, lane->count, __ATOMIC_RELAXED);
	__atomic_store_n(&lane->ready, 1, __ATOMIC_RELEASE);
}

void ws_forget_lane_levels(struct ws_lane *lane)
{
	__atomic_store_n(&lane->ready, 0, __ATOMIC_RELEASE);
	for (uint32_t k = 0; lane->level && k < lane->levels; k++) {
		ws_free_space(lane->level[k].memory, lane->level[k].bytes);
		free(lane->level[k].longs);
	}
	if (lane->cover) {
		ws_free_space(lane->cover->memory, lane->cover->bytes);
		free(lane->cover->longs);
		free(lane->cover);
	}
	free(lane->level);
	lane->level = lane->cover = NULL;
	lane->levels = 0;
	lane->filled = lane->placed = lane->hidden = lane->busy = 0;
}

void ws_lane_free(struct ws_lane *lane)
{
	if (lane->raw)
		ws_free_space(lane->raw, lane->filled * sizeof(*lane->raw));
	ws_forget_lane_levels(lane);
	free(lane);
}

/* ---- questions ---- */

uint32_t ws_level_seek(const struct ws_level *level, uint32_t from, uint32_t to, uint64_t t)
{
	uint64_t low = from, step = 1, high;

	if (from >= to || level->start[from] >= t)
		return from;
	while (low + step < to && level->start[low + step] < t) {
		low += step;
		step *= 2;
	}
	high = low + step < to ? low + step : to;
	while (low + 1 < high) {
		uint64_t mid = (low + high) / 2;

		if (level->start[mid] < t)
			low = mid;
		else
			high = mid;
	}
	return (uint32_t)high;
}

void ws_level_range(const struct ws_level *level, int64_t t0, int64_t t1, uint32_t *from,
		    uint32_t *to)
{
	uint64_t a = t0 < 0 ? 0 : (uint64_t)t0, b = t1 < 0 ? 0 : (uint64_t)t1;
	uint32_t i = ws_level_seek(level, 0, level->n, a);

	*to = ws_level_seek(level, i, level->n, b);
	if (i && (level->value ||
		  ws_level_end(level, i - 1) > a)) /* a counter's value holds until the next */
		i--;
	*from = i < *to ? i : *to;
}

uint64_t ws_level_busy(const struct ws_level *level, uint32_t from, uint32_t to)
{
	uint64_t sum = 0;
	uint32_t a = from / WS_LEVEL_STRIDE, b = to / WS_LEVEL_STRIDE;

	if (a != b) {
		sum = level->busy[b] - level->busy[a];
		for (uint32_t i = a * WS_LEVEL_STRIDE; i < from; i++)
			sum -= ws_level_dur(level, i);
		from = b * WS_LEVEL_STRIDE;
	}
	for (uint32_t i = from; i < to; i++)
		sum += ws_level_dur(level, i);
	return sum;
}

/* Which of from..to-1 is the longest: uses the pyramid for whole groups, and looks at single events
 * at the edges. */
uint32_t ws_level_longest(const struct ws_level *level_v, uint32_t from, uint32_t to)
{
	uint32_t best = from;

	for (uint32_t i = from; i < to;) {
		uint32_t k = 0, size = 1;

		while (k < WS_LEVEL_PYRAMID && level_v->max[k] && !(i % (size * WS_LEVEL_FAN)) &&
		       to - i >= size * WS_LEVEL_FAN) {
			size *= WS_LEVEL_FAN;
			k++;
		}
		if (k && level_v->max[k - 1][i / size] <=
				 level_v->dur[best]) { /* nothing longer in there */
			i += size;
			continue;
		}
		if (k) { /* it is in this group: look closer */
			uint32_t m = level_v->max[k - 1][i / size], at = i;

			for (uint32_t s = size / WS_LEVEL_FAN, level = k - 1; s;
			     s /= WS_LEVEL_FAN, level--)
				while ((level ? level_v->max[level - 1][at / s]
					      : level_v->dur[at]) != m)
					at += s;
			best = at;
			i += size;
			continue;
		}
		if (level_v->dur[i] > level_v->dur[best])
			best = i;
		i++;
	}
	return best;
}

void ws_level_extremes(const struct ws_level *level, uint32_t from, uint32_t to, double *low,
		       double *high)
{
	*low = *high = level->value[from];
	for (uint32_t i = from; i < to;) {
		uint32_t k = 0, size = 1;
		double a, b;

		while (k < WS_LEVEL_PYRAMID && level->value_max[k] &&
		       !(i % (size * WS_LEVEL_FAN)) && to - i >= size * WS_LEVEL_FAN) {
			size *= WS_LEVEL_FAN;
			k++;
		}
		a = k ? level->value_min[k - 1][i / size] : level->value[i];
		b = k ? level->value_max[k - 1][i / size] : level->value[i];
		*low = fmin(*low, a);
		*high = fmax(*high, b);
		i += size;
	}
}
