/*
 * api_diff.c - two reports, or two windows of one, side by side: how often and how long each
 * kernel, call, range... ran on each side. Names are equal when their bytes are, whichever report
 * they are from.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "text/text.h"
#include "base/choose.h"
#include "serve/api.h"

enum { SIDES = 2, USUAL_PAIRS = 2000, MOST_PAIRS = 50000, MOST_NAME = 16384 };

struct side {
	struct ws_api_call call;
	struct ws_view_report *rep;
	int64_t t0, t1;
	struct ws_window_sums sums;
};

struct pair {
	struct ws_sum_group of[SIDES]; /* count 0: not there */
	uint64_t differs;	       /* by so much in total */
};

struct pairs {
	struct pair *pairs;
	size_t n;
	uint32_t *slots;
	size_t mask;
};

static const char *text_of(const struct side *side, const struct ws_sum_group *group, size_t *n)
{
	return ws_sum_group_name(side->call.lanes, group, n);
}

/* The pair of this kind and text, or a new one. */
static struct pair *pair_of(struct pairs *pairs, const struct side *sides, uint32_t side,
			    const struct ws_sum_group *group)
{
	size_t n, m;
	const char *text = text_of(&sides[side], group, &n), *t;

	for (size_t at = XXH3_64bits_withSeed(text, n, group->kind) & pairs->mask;;
	     at = (at + 1) & pairs->mask) {
		struct pair *pair = pairs->slots[at] ? &pairs->pairs[pairs->slots[at] - 1] : NULL;
		uint32_t k = pair && pair->of[0].count ? 0 : 1;

		if (!pair) {
			pairs->slots[at] = (uint32_t)++pairs->n;
			return &pairs->pairs[pairs->n - 1];
		}
		t = text_of(&sides[k], &pair->of[k], &m);
		if (pair->of[k].kind == group->kind && n == m && !memcmp(text, t, n))
			return pair;
	}
}

static int compare_differences(const void *first, const void *second)
{
	const struct pair *left = first, *right = second;

	return ws_compare(right->differs, left->differs);
}

/* Threads of one name are several groups of a report. */
static void add_to(struct ws_sum_group *group, const struct ws_sum_group *sum_group)
{
	if (!group->count) {
		*group = *sum_group;
		return;
	}
	group->count += sum_group->count;
	group->total += sum_group->total;
	group->min = ws_min(sum_group->min, group->min);
	group->max = ws_max(sum_group->max, group->max);
}

static void match(struct pairs *pairs, const struct side *sides)
{
	size_t all = sides[0].sums.n + sides[1].sums.n;

	for (pairs->mask = 64; pairs->mask < all * 2; pairs->mask *= 2)
		;
	pairs->slots = ws_calloc(pairs->mask, sizeof(*pairs->slots));
	pairs->mask--;
	pairs->pairs = ws_calloc(all + 1, sizeof(*pairs->pairs));
	for (uint32_t k = 0; k < SIDES; k++)
		for (size_t i = 0; i < sides[k].sums.n; i++)
			add_to(&pair_of(pairs, sides, k, &sides[k].sums.groups[i])->of[k],
			       &sides[k].sums.groups[i]);
	for (size_t i = 0; i < pairs->n; i++) {
		uint64_t a = pairs->pairs[i].of[0].total, b = pairs->pairs[i].of[1].total;

		pairs->pairs[i].differs = a > b ? a - b : b - a;
	}
	qsort(pairs->pairs, pairs->n, sizeof(*pairs->pairs), compare_differences);
}

static void put_side(struct ws_text *text, const char *key, const struct ws_sum_group *group)
{
	ws_put_json_key(text, key);
	ws_text_printf(text, "[%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]", group->count,
		       group->total, group->min, group->max);
}

static void put_pairs(struct ws_text *text, const struct pairs *pairs, const struct side *sides,
		      int64_t limit)
{
	ws_text_puts(text, "{\"pairs\":[");
	for (size_t i = 0; i < pairs->n && i < (size_t)limit; i++) {
		const struct pair *pair = &pairs->pairs[i];
		uint32_t k = pair->of[0].count ? 0 : 1;
		const char *name;
		size_t length;

		ws_put_json_comma(text);
		ws_text_puts(text, "{");
		ws_put_json_string(text, "kind", ws_lane_descs[pair->of[k].kind].name);
		name = text_of(&sides[k], &pair->of[k], &length);
		ws_put_json_text(text, "name", name, ws_min(length, MOST_NAME));
		put_side(text, "a", &pair->of[0]);
		put_side(text, "b", &pair->of[1]);
		ws_text_puts(text, "}");
	}
	ws_text_puts(text, "]");
	ws_put_json_int(text, "names", (int64_t)pairs->n);
	ws_put_json_int(text, "unread", sides[0].sums.unread + sides[1].sums.unread);
	ws_text_puts(text, "}");
}

static bool read_side(struct side *side, const struct ws_api_call *call, const char *report,
		      const char *from, const char *to, struct ws_err *err)
{
	int64_t r, most = INT64_MAX / 4;

	side->call = *call;
	if (!ws_param_int(call, report, ws_make_range(0, (int64_t)ws_view_count(call->view) - 1, 0),
			  &r, err) ||
	    !ws_param_int(call, from, ws_make_range(-most, most, -most), &side->t0, err) ||
	    !ws_param_int(call, to, ws_make_range(-most, most, most), &side->t1, err))
		return false;
	side->rep = &call->view->reports[r];
	return true;
}

/*
 * Locks the reports of both sides, which may be one, in the order in which the view has them, and
 * then what both show: two requests that name the same reports the other way round, while a third
 * waits to write, would wait for each other.
 */
static void hold(struct side sides[SIDES])
{
	bool swapped = sides[1].rep < sides[0].rep;
	struct side *first = &sides[swapped], *second = &sides[!swapped];

	pthread_rwlock_rdlock(&first->rep->use);
	if (second->rep != first->rep)
		pthread_rwlock_rdlock(&second->rep->use);
	for (int k = 0; k < SIDES; k++) {
		sides[k].call.rep = sides[k].rep;
		sides[k].call.lanes = sides[k].rep->lanes;
		ws_lanes_wait_census(sides[k].call.lanes);
	}
	pthread_rwlock_rdlock(&first->call.lanes->shown);
	if (second->rep != first->rep)
		pthread_rwlock_rdlock(&second->call.lanes->shown);
}

static void let_go(struct side sides[SIDES])
{
	for (int k = 0; k < SIDES; k++) {
		free(sides[k].sums.groups);
		if (k && sides[k].rep == sides[0].rep)
			break;
		pthread_rwlock_unlock(&sides[k].call.lanes->shown);
		pthread_rwlock_unlock(&sides[k].rep->use);
	}
}

int ws_api_diff(struct ws_api_call *call, struct ws_err *err)
{
	struct side sides[SIDES] = {0};
	struct pairs pairs = {0};
	int64_t limit;
	int status = 0;

	if (!ws_view_count(call->view)) {
		ws_fail(err, "There is no report yet.");
		return 400;
	}
	if (!ws_param_int(call, "limit", ws_make_range(1, MOST_PAIRS, USUAL_PAIRS), &limit, err) ||
	    !read_side(&sides[0], call, "a", "t0", "t1", err) ||
	    !read_side(&sides[1], call, "b", "u0", "u1", err))
		return 400;
	hold(sides);
	for (int k = 0; k < SIDES && !status; k++) {
		struct side *side = &sides[k];
		int64_t zero = (int64_t)side->call.lanes->zero;

		status = ws_sum_window(&side->call, side->t0 + zero, side->t1 + zero, &side->sums,
				       err);
	}
	if (!status) {
		match(&pairs, sides);
		put_pairs(call->out, &pairs, sides, limit);
	}
	let_go(sides);
	free(pairs.pairs);
	free(pairs.slots);
	return status;
}
