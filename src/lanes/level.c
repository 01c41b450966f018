/*
 * level.c - from a lane's raw events to its levels.
 *
 * Events come block after block, each block in order of start: almost sorted, but for ranges that
 * were written when they ended, long after what they enclose. So what ascends is left alone and the
 * rest is sorted and merged in (sort_events). A walk in order of (start, longer first) then gives
 * each event the first level that is free at its start, and a second one copies it there. Ranges as
 * GPUs saw them have a depth from where they were made: steps overlap on a GPU, and what is inside
 * of one stays below it.
 */
#include <stdlib.h>
#include <string.h>

#include "lanes/lane.h"

/* ---- order ---- */

static bool before(const struct ws_raw *a, const struct ws_raw *b)
{
	return a->start != b->start ? a->start < b->start
	       : a->end != b->end   ? a->end > b->end
				    : a->level < b->level;
}

static int compare(const void *a, const void *b)
{
	return before(a, b) ? -1 : before(b, a);
}

/* Merge the sorted rest back into the sorted kept, which stand at the front of `v`; from the end,
 * in place. */
static void merge_back(struct ws_raw *v, size_t kept, const struct ws_raw *rest, size_t n)
{
	size_t to = kept + n;

	while (n)
		v[--to] = kept && before(&rest[n - 1], &v[kept - 1]) ? v[--kept] : rest[--n];
}

static void sort_events(struct ws_raw *v, size_t n)
{
	struct ws_raw *rest = NULL;
	size_t kept = 0, out = 0, cap = 0;

	for (size_t i = 0; i < n; i++) {
		if (!kept || !before(&v[i], &v[kept - 1])) {
			if (kept != i)
				v[kept] = v[i];
			kept++;
			continue;
		}
		/* One that came too early may be alone in that, and those after it right. */
		if (kept > 1 && !before(&v[i], &v[kept - 2]) && i + 1 < n &&
		    before(&v[i + 1], &v[kept - 1])) {
			ws_grow(rest, cap, out + 1);
			rest[out++] = v[kept - 1];
			v[kept - 1] = v[i];
			continue;
		}
		ws_grow(rest, cap, out + 1);
		rest[out++] = v[i];
	}
	if (out > n / 2)
		qsort(rest, out, sizeof(*rest), compare);
	else if (out)
		sort_events(rest, out);
	merge_back(v, kept, rest, out);
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
 * The first level that is free at the start of `e` and below what encloses it at the depth before
 * its own, or WS_LEVELS_MOST. A moment at the end of another event is beside it.
 */
static inline uint32_t place(struct slots *s, const struct ws_raw *e)
{
	uint32_t i = e->level;

	for (uint32_t k = i ? s->used : 0; k--;)
		if (s->depth[k] + 1 == e->level && s->until[k] >= e->end) {
			i = k + 1;
			break;
		}
	while (i < s->used && s->until[i] > e->start)
		i++;
	if (i == WS_LEVELS_MOST)
		return i;
	s->used = i >= s->used ? i + 1 : s->used;
	s->until[i] = e->end;
	s->depth[i] = e->level;
	return i;
}

static void level_alloc(struct ws_level *v, uint32_t n)
{
	size_t pyramid = 0, at = 0, strides = n / WS_LEVEL_STRIDE + 2;
	char *p;

	for (uint32_t k = 0, m = n / WS_LEVEL_FAN; k < WS_LEVEL_PYRAMID && m;
	     k++, m /= WS_LEVEL_FAN)
		pyramid += m;
	v->n = n;
	v->bytes = (size_t)n * (8 + 4 + 4 + 4 + 1 + 1) + strides * 8 + pyramid * 4 + 64;
	p = v->memory = ws_space_new(v->bytes);
	v->start = (uint64_t *)p;
	v->busy = (uint64_t *)(p + (at += (size_t)n * 8));
	v->dur = (uint32_t *)(p + (at += strides * 8));
	v->name = (uint32_t *)(p + (at += (size_t)n * 4));
	v->ref = (uint32_t *)(p + (at += (size_t)n * 4));
	at += (size_t)n * 4;
	for (uint32_t k = 0, m = n / WS_LEVEL_FAN; k < WS_LEVEL_PYRAMID && m;
	     k++, m /= WS_LEVEL_FAN) {
		v->max[k] = (uint32_t *)(p + at);
		at += (size_t)m * 4;
	}
	v->src = (uint8_t *)(p + at);
	v->paint = v->src + n;
	v->n = 0;
}

static void level_push(struct ws_level *v, const struct ws_raw *e)
{
	uint32_t i = v->n++;
	uint64_t dur = e->end - e->start;

	v->start[i] = e->start;
	v->dur[i] = dur < UINT32_MAX ? (uint32_t)dur : UINT32_MAX;
	if (v->dur[i] == UINT32_MAX) {
		ws_grow(v->longs, v->long_cap, v->long_n + 1);
		v->longs[v->long_n++] = (struct ws_long){i, dur};
	}
	v->name[i] = e->name;
	v->ref[i] = e->ref;
	v->src[i] = e->src;
	v->paint[i] = e->paint;
}

static uint32_t most_of(const uint32_t *v)
{
	uint32_t m = v[0];

	for (uint32_t i = 1; i < WS_LEVEL_FAN; i++)
		m = v[i] > m ? v[i] : m;
	return m;
}

/* The sums and the pyramid of longest durations. */
static void level_sums(struct ws_level *v)
{
	const uint32_t *below = v->dur;
	uint64_t sum = 0;

	for (uint32_t i = 0; i < v->n; i++) {
		if (!(i % WS_LEVEL_STRIDE))
			v->busy[i / WS_LEVEL_STRIDE] = sum;
		sum += ws_level_dur(v, i);
	}
	v->busy[(v->n + WS_LEVEL_STRIDE - 1) / WS_LEVEL_STRIDE] = sum;
	for (uint32_t k = 0, m = v->n / WS_LEVEL_FAN; k < WS_LEVEL_PYRAMID && m;
	     k++, m /= WS_LEVEL_FAN) {
		for (uint32_t i = 0; i < m; i++)
			v->max[k][i] = most_of(below + (size_t)i * WS_LEVEL_FAN);
		below = v->max[k];
	}
}

static void make_levels(struct ws_lane *lane)
{
	struct slots *s = ws_calloc(1, sizeof(*s));

	for (uint64_t i = 0; i < lane->filled; i++) {
		uint32_t k = place(s, &lane->raw[i]);

		if (k < WS_LEVELS_MOST)
			s->n[k]++;
		else
			lane->hidden++;
	}
	lane->levels = s->used;
	lane->level = ws_calloc(s->used ? s->used : 1, sizeof(*lane->level));
	for (uint32_t k = 0; k < s->used; k++) {
		level_alloc(&lane->level[k], s->n[k]);
		s->until[k] = 0;
	}
	s->used = 0;
	for (uint64_t i = 0; i < lane->filled; i++) {
		uint32_t k = place(s, &lane->raw[i]);

		if (k < WS_LEVELS_MOST)
			level_push(&lane->level[k], &lane->raw[i]);
	}
	free(s);
	for (uint32_t k = 0; k < lane->levels; k++)
		level_sums(&lane->level[k]);
}

/* Go over the stretches in which anything is under way; put them into `v` unless it is NULL.
 * Returns how many. */
static uint32_t covered(const struct ws_lane *lane, struct ws_level *v)
{
	struct ws_raw now = {0};
	uint32_t n = 0;

	for (uint64_t i = 0; i < lane->filled; i++) {
		const struct ws_raw *e = &lane->raw[i];

		if (lane->kind == WS_LANE_STATE && !ws_state_runs(e->ref))
			continue;
		if (n && e->start <= now.end && lane->kind != WS_LANE_STATE) {
			now.end = e->end > now.end ? e->end : now.end;
			continue;
		}
		if (n && v)
			level_push(v, &now);
		now = (struct ws_raw){.start = e->start, .end = e->end};
		n++;
	}
	if (n && v)
		level_push(v, &now);
	return n;
}

static void make_cover(struct ws_lane *lane)
{
	lane->cover = ws_calloc(1, sizeof(*lane->cover));
	level_alloc(lane->cover, covered(lane, NULL));
	covered(lane, lane->cover);
	level_sums(lane->cover);
}

/* ---- counters ---- */

static void counter_alloc(struct ws_level *v, uint32_t n)
{
	size_t pyramid = 0;
	double *p;

	for (uint32_t k = 0, m = n / WS_LEVEL_FAN; k < WS_LEVEL_PYRAMID && m;
	     k++, m /= WS_LEVEL_FAN)
		pyramid += m;
	v->n = n;
	v->bytes = ((size_t)n * 2 + pyramid * 2 + 1) * 8;
	v->memory = ws_space_new(v->bytes);
	v->start = v->memory;
	v->value = p = (double *)(v->start + n);
	p += n;
	for (uint32_t k = 0, m = n / WS_LEVEL_FAN; k < WS_LEVEL_PYRAMID && m;
	     k++, m /= WS_LEVEL_FAN) {
		v->value_max[k] = p;
		v->value_min[k] = p + m;
		p += (size_t)m * 2;
	}
}

static void fold_extremes(const double *low, const double *high, double *min, double *max)
{
	*min = low[0];
	*max = high[0];
	for (uint32_t i = 1; i < WS_LEVEL_FAN; i++) {
		*min = low[i] < *min ? low[i] : *min;
		*max = high[i] > *max ? high[i] : *max;
	}
}

static void make_counter(struct ws_lane *lane)
{
	struct ws_level *v = lane->level = ws_calloc(1, sizeof(*v));
	const double *low, *high;

	lane->levels = 1;
	counter_alloc(v, (uint32_t)lane->filled);
	for (uint32_t i = 0; i < v->n; i++) {
		v->start[i] = lane->raw[i].start;
		memcpy(&v->value[i], &lane->raw[i].end, 8);
	}
	low = high = v->value;
	for (uint32_t k = 0, m = v->n / WS_LEVEL_FAN; k < WS_LEVEL_PYRAMID && m;
	     k++, m /= WS_LEVEL_FAN) {
		for (uint32_t i = 0; i < m; i++)
			fold_extremes(low + (size_t)i * WS_LEVEL_FAN,
				      high + (size_t)i * WS_LEVEL_FAN, &v->value_min[k][i],
				      &v->value_max[k][i]);
		low = v->value_min[k];
		high = v->value_max[k];
	}
}

/* ---- a lane ---- */

static void lane_extent(struct ws_lane *lane)
{
	lane->first = UINT64_MAX;
	for (uint32_t k = 0; k < lane->levels; k++) {
		const struct ws_level *v = &lane->level[k];
		uint64_t end;

		if (!v->n)
			continue;
		end = v->value ? v->start[v->n - 1] : ws_level_end(v, v->n - 1);
		lane->first = v->start[0] < lane->first ? v->start[0] : lane->first;
		lane->last = end > lane->last ? end : lane->last;
		if (!v->value)
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

void ws_lane_finish(struct ws_lanes *l, struct ws_lane *lane)
{
	bool counter = ws_lane_descs[lane->kind].counter;
	uint64_t bytes = lane->filled * sizeof(*lane->raw);

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
	ws_space_free(lane->raw, bytes);
	lane->raw = NULL;
	if (lane->kind != WS_LANE_PROJECTED && !lane->uncounted)
		__atomic_fetch_add(&l->built_events, lane->count, __ATOMIC_RELAXED);
	__atomic_store_n(&lane->ready, 1, __ATOMIC_RELEASE);
}

void ws_lane_forget(struct ws_lane *lane)
{
	__atomic_store_n(&lane->ready, 0, __ATOMIC_RELEASE);
	for (uint32_t k = 0; lane->level && k < lane->levels; k++) {
		ws_space_free(lane->level[k].memory, lane->level[k].bytes);
		free(lane->level[k].longs);
	}
	if (lane->cover) {
		ws_space_free(lane->cover->memory, lane->cover->bytes);
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
		ws_space_free(lane->raw, lane->filled * sizeof(*lane->raw));
	ws_lane_forget(lane);
	free(lane);
}

/* ---- questions ---- */

uint32_t ws_level_seek(const struct ws_level *v, uint32_t from, uint32_t to, uint64_t t)
{
	uint64_t low = from, step = 1, high;

	if (from >= to || v->start[from] >= t)
		return from;
	while (low + step < to && v->start[low + step] < t) {
		low += step;
		step *= 2;
	}
	high = low + step < to ? low + step : to;
	while (low + 1 < high) {
		uint64_t mid = (low + high) / 2;

		if (v->start[mid] < t)
			low = mid;
		else
			high = mid;
	}
	return (uint32_t)high;
}

void ws_level_range(const struct ws_level *v, int64_t t0, int64_t t1, uint32_t *from, uint32_t *to)
{
	uint64_t a = t0 < 0 ? 0 : (uint64_t)t0, b = t1 < 0 ? 0 : (uint64_t)t1;
	uint32_t i = ws_level_seek(v, 0, v->n, a);

	*to = ws_level_seek(v, i, v->n, b);
	if (i &&
	    (v->value || ws_level_end(v, i - 1) > a)) /* a counter's value holds until the next */
		i--;
	*from = i < *to ? i : *to;
}

uint64_t ws_level_busy(const struct ws_level *v, uint32_t from, uint32_t to)
{
	uint64_t sum = 0;
	uint32_t a = from / WS_LEVEL_STRIDE, b = to / WS_LEVEL_STRIDE;

	if (a != b) {
		sum = v->busy[b] - v->busy[a];
		for (uint32_t i = a * WS_LEVEL_STRIDE; i < from; i++)
			sum -= ws_level_dur(v, i);
		from = b * WS_LEVEL_STRIDE;
	}
	for (uint32_t i = from; i < to; i++)
		sum += ws_level_dur(v, i);
	return sum;
}

/* Which of from..to-1 is the longest: down the pyramid where whole groups fit, else one by one. */
uint32_t ws_level_longest(const struct ws_level *v, uint32_t from, uint32_t to)
{
	uint32_t best = from;

	for (uint32_t i = from; i < to;) {
		uint32_t k = 0, size = 1;

		while (k < WS_LEVEL_PYRAMID && v->max[k] && !(i % (size * WS_LEVEL_FAN)) &&
		       to - i >= size * WS_LEVEL_FAN) {
			size *= WS_LEVEL_FAN;
			k++;
		}
		if (k && v->max[k - 1][i / size] <= v->dur[best]) { /* nothing longer in there */
			i += size;
			continue;
		}
		if (k) { /* it is in there: look closer */
			uint32_t m = v->max[k - 1][i / size], at = i;

			for (uint32_t s = size / WS_LEVEL_FAN, level = k - 1; s;
			     s /= WS_LEVEL_FAN, level--)
				while ((level ? v->max[level - 1][at / s] : v->dur[at]) != m)
					at += s;
			best = at;
			i += size;
			continue;
		}
		if (v->dur[i] > v->dur[best])
			best = i;
		i++;
	}
	return best;
}

void ws_level_extremes(const struct ws_level *v, uint32_t from, uint32_t to, double *low,
		       double *high)
{
	*low = *high = v->value[from];
	for (uint32_t i = from; i < to;) {
		uint32_t k = 0, size = 1;
		double a, b;

		while (k < WS_LEVEL_PYRAMID && v->value_max[k] && !(i % (size * WS_LEVEL_FAN)) &&
		       to - i >= size * WS_LEVEL_FAN) {
			size *= WS_LEVEL_FAN;
			k++;
		}
		a = k ? v->value_min[k - 1][i / size] : v->value[i];
		b = k ? v->value_max[k - 1][i / size] : v->value[i];
		*low = a < *low ? a : *low;
		*high = b > *high ? b : *high;
		i += size;
	}
}
