/*
 * api_sum.c - what happened in a window: sums by name, the events as a table, searching and
 * stepping. All of these walk the columns of levels between two searched ends; ten million events
 * take about a tenth of a second.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/choose.h"
#include "serve/api.h"
#include "serve/where.h"

/* A walk over the events of lanes that touch a window. */
struct walk {
	struct ws_lanes *lanes_l;
	uint32_t *lanes;
	size_t n;
	int64_t t0, t1;
	int64_t at_least, below; /* of durations in a table of events; 0, and -1: any */
	struct ws_where *where;	 /* what else a table of events asks for */
	uint32_t unread;	 /* how many of these lanes are still being read and not included */
};

/* Starts reading the lanes that are not read yet; this answer does not include them. */
static int walk_window(struct ws_api_call *call, enum ws_which_lanes which, bool want,
		       struct walk *walk, struct ws_err *err)
{
	walk->lanes_l = call->lanes;
	walk->unread = 0;
	if (!ws_param_lanes(call, which, &walk->lanes, &walk->n, err))
		return 400;
	for (size_t i = 0; i < walk->n; i++) {
		const struct ws_lane *lane = call->lanes->lane[walk->lanes[i]];

		if (want && lane->kind != WS_LANE_PROJECTED && !ws_lane_descs[lane->kind].counter)
			ws_lanes_want(call->lanes, walk->lanes[i]);
		walk->unread += ws_lane_reading(lane);
	}
	return 0;
}

static int walk_open(struct ws_api_call *call, enum ws_which_lanes which, bool want,
		     struct walk *walk, struct ws_err *err)
{
	return ws_param_window(call, &walk->t0, &walk->t1, err)
		       ? walk_window(call, which, want, walk, err)
		       : 400;
}

static bool walkable(const struct ws_lane *lane)
{
	return ws_lane_ready(lane) && !ws_lane_descs[lane->kind].counter;
}

/* How much of an event is in the window. */
static uint64_t clipped(const struct walk *walk, const struct ws_level *level, uint32_t i)
{
	return ws_level_clip(level, i, walk->t0, walk->t1);
}

/* ---- sums by name ---- */

enum { SUM_USUAL = 200, SUM_MOST = 50000, MOST_NAME = 16384 };

struct groups {
	struct ws_sum_group *groups;
	size_t n, cap;
	struct ws_map at;
};

static struct ws_sum_group *group_of(struct groups *groups, uint8_t kind, uint32_t name)
{
	uint64_t key = (uint64_t)kind << 32 | name;
	bool known;
	size_t i = ws_map_get(&groups->at, key, &known);

	if (known)
		return &groups->groups[i];
	ws_map_set(&groups->at, key, groups->n);
	ws_grow(groups->groups, groups->cap, groups->n + 1);
	groups->groups[groups->n] =
		(struct ws_sum_group){.name = name, .kind = kind, .min = UINT64_MAX};
	return &groups->groups[groups->n++];
}

static void sum_level(const struct walk *walk, struct groups *groups, uint32_t lane, uint32_t level)
{
	const struct ws_lane *lane_v = walk->lanes_l->lane[lane];
	const struct ws_level *level_v = &lane_v->level[level];
	bool nests = ws_lane_nests(lane_v);
	struct ws_sum_group *last = NULL;
	uint32_t from, to, below = 0;

	ws_level_range(level_v, walk->t0, walk->t1, &from, &to);
	for (uint32_t i = from; i < to; i++) {
		uint64_t d = i == from || i + 1 == to ? clipped(walk, level_v, i)
						      : ws_level_dur(level_v, i);

		if (!last || last->name != level_v->name[i])
			last = group_of(groups, lane_v->kind, level_v->name[i]);
		last->count++;
		last->total += d;
		last->self +=
			nests ? ws_lane_own_time(lane_v, level_v, i, walk->t0, walk->t1, &below)
			      : d;
		last->min = ws_min(d, last->min);
		if (d >= last->max) {
			last->max = d;
			last->longest = (struct ws_spot){lane, level, i};
		}
	}
}

/* Merge groups of names that have the same key. */
static void unify(const struct ws_lanes *lanes, struct groups *groups,
		  uint32_t (*key)(const struct ws_lanes *lanes, uint32_t name))
{
	struct groups out = {0};

	for (size_t i = 0; i < groups->n; i++) {
		const struct ws_sum_group *left = &groups->groups[i];
		struct ws_sum_group *right = group_of(&out, left->kind, key(lanes, left->name));

		right->names += left->names ? left->names : 1;
		right->count += left->count;
		right->total += left->total;
		right->self += left->self;
		right->min = ws_min(left->min, right->min);
		if (left->max >= right->max) {
			right->max = left->max;
			right->longest = left->longest;
		}
	}
	free(groups->groups);
	ws_map_free(&groups->at);
	*groups = out;
}

/* So many texts, whatever numbers they had, are one name each. */
static void count_texts(struct groups *groups)
{
	for (size_t i = 0; i < groups->n; i++)
		groups->groups[i].names = 1;
}

/* Sums of all events of the walk, by kind and text; with `fold` by form. */
static void sum_walk(const struct walk *walk, struct groups *groups, bool fold)
{
	for (size_t i = 0; i < walk->n; i++)
		for (uint32_t k = 0; walkable(walk->lanes_l->lane[walk->lanes[i]]) &&
				     k < walk->lanes_l->lane[walk->lanes[i]]->levels;
		     k++)
			sum_level(walk, groups, walk->lanes[i], k);
	unify(walk->lanes_l, groups, ws_lane_name_key);
	count_texts(groups);
	if (fold)
		unify(walk->lanes_l, groups, ws_lane_fold_key);
	for (size_t i = 0; i < groups->n; i++)
		groups->groups[i].folded =
			fold && ws_lane_is_form(walk->lanes_l, groups->groups[i].name);
}

bool ws_param_fold(const struct ws_api_call *call, bool *fold, struct ws_err *err)
{
	int64_t v;

	if (!ws_param_int(call, "fold", ws_make_range(0, 1, 0), &v, err))
		return false;
	*fold = v;
	return true;
}

const char *ws_sum_group_name(const struct ws_lanes *lanes, const struct ws_sum_group *group,
			      size_t *length)
{
	return group->folded ? ws_lane_fold_name(lanes, group->name, length)
			     : ws_lane_name(lanes, group->name, length);
}

int ws_sum_window(struct ws_api_call *call, int64_t t0, int64_t t1, struct ws_window_sums *sums,
		  struct ws_err *err)
{
	struct walk walk = {.t0 = t0, .t1 = t1};
	struct groups groups = {0};
	bool fold;

	if (!ws_param_fold(call, &fold, err) || walk_window(call, WS_LANES_ONCE, true, &walk, err))
		return 400;
	sum_walk(&walk, &groups, fold);
	ws_map_free(&groups.at);
	free(walk.lanes);
	*sums = (struct ws_window_sums){groups.groups, groups.n, walk.unread};
	return 0;
}

/* ---- their order ---- */

enum sum_sort { SUM_TOTAL, SUM_COUNT, SUM_AVERAGE, SUM_MIN, SUM_MAX, SUM_SELF, SUM_NAME };
static const char *const sum_sort_words[] = {
	[SUM_TOTAL] = "total", [SUM_COUNT] = "count", [SUM_AVERAGE] = "average", [SUM_MIN] = "min",
	[SUM_MAX] = "max",     [SUM_SELF] = "self",   [SUM_NAME] = "name"};

struct sum_order {
	const struct ws_lanes *lanes;
	enum sum_sort sort;
	bool down;
};

/* Compares two texts byte by byte. */
static int compare_names(const struct ws_lanes *lanes, uint32_t a, uint32_t b)
{
	size_t m, n;
	const char *text = ws_lane_name(lanes, a, &m), *t = ws_lane_name(lanes, b, &n);
	int order = memcmp(text, t, ws_min(m, n));

	return order ? order : ws_compare(m, n);
}

static int compare_averages(const struct ws_sum_group *left, const struct ws_sum_group *right)
{
	__uint128_t a = (__uint128_t)left->total * right->count,
		    b = (__uint128_t)right->total * left->count;

	return ws_compare(a, b);
}

static int compare_shown(const struct ws_lanes *lanes, const struct ws_sum_group *left,
			 const struct ws_sum_group *right)
{
	size_t m, n;
	const char *text = ws_sum_group_name(lanes, left, &m),
		   *t = ws_sum_group_name(lanes, right, &n);
	int order = memcmp(text, t, ws_min(m, n));

	return order ? order : ws_compare(m, n);
}

static int compare_by(const struct sum_order *order, const struct ws_sum_group *left,
		      const struct ws_sum_group *right)
{
	switch (order->sort) {
	case SUM_COUNT:
		return ws_compare(left->count, right->count);
	case SUM_AVERAGE:
		return compare_averages(left, right);
	case SUM_MIN:
		return ws_compare(left->min, right->min);
	case SUM_MAX:
		return ws_compare(left->max, right->max);
	case SUM_SELF:
		return ws_compare(left->self, right->self);
	case SUM_NAME:
		return compare_shown(order->lanes, left, right);
	default:
		return ws_compare(left->total, right->total);
	}
}

/* By kind, then as asked; equal ones in an order that is the same whenever it is asked for, so that
 * pages of one list fit together. */
static int compare_groups(const void *first, const void *second, void *context)
{
	const struct ws_sum_group *left = first, *right = second;
	const struct sum_order *order = context;
	int way;

	if (left->kind != right->kind)
		return ws_compare(left->kind, right->kind);
	way = compare_by(order, left, right);
	if (way)
		return order->down ? -way : way;
	if (left->total != right->total)
		return ws_compare(right->total, left->total);
	if (left->count != right->count)
		return ws_compare(right->count, left->count);
	return ws_compare(left->name, right->name);
}

static void sort_groups(const struct sum_order *order, struct groups *groups)
{
	if (groups->n)
		qsort_r(groups->groups, groups->n, sizeof(*groups->groups), compare_groups,
			(void *)order);
}

/* The number of the word that a parameter is; `fallback` when it is not given, -1 with a sentence
 * when it is another word. */
static int param_word(const struct ws_api_call *call, const char *name, const char *const *words,
		      size_t count, int fallback, struct ws_err *err)
{
	const char *given = ws_param(call, name);
	struct ws_text known = {0};

	if (!given)
		return fallback;
	for (size_t i = 0; i < count; i++)
		if (!strcmp(given, words[i]))
			return (int)i;
	for (size_t i = 0; i < count; i++)
		ws_text_printf(&known, "%s%s", i ? ", " : "", words[i]);
	ws_fail(err, "parameter %s must be one of %s", name, known.text);
	ws_text_free(&known);
	return -1;
}

static void put_group(struct ws_api_call *call, const struct ws_sum_group *group)
{
	size_t length;
	const char *name = ws_sum_group_name(call->lanes, group, &length);

	ws_put_json_comma(call->out);
	ws_text_puts(call->out, "{");
	ws_put_json_string(call->out, "kind", ws_lane_descs[group->kind].name);
	ws_put_json_text(call->out, "name", name, ws_min(length, MOST_NAME));
	if (group->folded) {
		ws_put_json_int(call->out, "form", group->name);
		ws_put_json_int(call->out, "names", group->names);
	}
	ws_put_json_int(call->out, "count", (int64_t)group->count);
	ws_put_json_int(call->out, "total", (int64_t)group->total);
	ws_put_json_int(call->out, "min", (int64_t)group->min);
	ws_put_json_int(call->out, "max", (int64_t)group->max);
	if (ws_lane_descs[group->kind].flags & WS_LANE_IS_NESTS)
		ws_put_json_int(call->out, "self", (int64_t)group->self);
	ws_put_json_key(call->out, "longest");
	ws_text_printf(call->out, "[%" PRIu32 ",%" PRIu32 ",%" PRIu32 "]", group->longest.lane,
		       group->longest.level, group->longest.event);
	ws_text_puts(call->out, "}");
}

/* How long anything was under way on a level in the window. */
static uint64_t busy_in(const struct walk *walk, const struct ws_level *level, uint32_t from,
			uint32_t to)
{
	uint64_t busy = ws_level_busy(level, from, to);

	busy -= ws_level_dur(level, from) - clipped(walk, level, from);
	if (to - 1 != from)
		busy -= ws_level_dur(level, to - 1) - clipped(walk, level, to - 1);
	return busy;
}

static void put_lanes(struct ws_api_call *call, const struct walk *walk)
{
	ws_put_json_key(call->out, "lanes");
	ws_text_puts(call->out, "[");
	for (size_t i = 0; i < walk->n; i++) {
		const struct ws_lane *lane = call->lanes->lane[walk->lanes[i]];
		const struct ws_level *level = walkable(lane) ? ws_lane_cover(lane) : NULL;
		uint32_t from, to;

		if (!level)
			continue;
		ws_level_range(level, walk->t0, walk->t1, &from, &to);
		ws_put_json_comma(call->out);
		ws_text_printf(call->out, "[%" PRIu32 ",%" PRIu64 ",%" PRIu32 "]", walk->lanes[i],
			       from < to ? busy_in(walk, level, from, to) : 0, to - from);
	}
	ws_text_puts(call->out, "]");
}

/* What of the sums is asked for: of each kind, or of one, `limit` groups from `offset` on. */
struct sum_part {
	struct sum_order order;
	int64_t names, offset, limit, form; /* form: only names of this form; -1: all */
	int kind;			    /* -1: all */
	bool fold;
};

static bool param_kind(const struct ws_api_call *call, int *kind, struct ws_err *err)
{
	const char *given = ws_param(call, "kind");

	*kind = -1;
	if (!given)
		return true;
	for (int i = 0; i < WS_LANE_KINDS; i++)
		if (!strcmp(given, ws_lane_descs[i].name)) {
			*kind = i;
			return true;
		}
	ws_fail(err, "parameter kind must be a kind of rows, such as kernels");
	return false;
}

static bool param_sum(struct ws_api_call *call, struct sum_part *part, struct ws_err *err)
{
	int64_t down;
	int sort;

	if (!ws_param_int(call, "names", ws_make_range(0, 1, 1), &part->names, err) ||
	    !ws_param_int(call, "offset", ws_make_range(0, UINT32_MAX, 0), &part->offset, err) ||
	    !ws_param_int(call, "limit", ws_make_range(0, SUM_MOST, SUM_USUAL), &part->limit,
			  err) ||
	    !ws_param_int(call, "form", ws_make_range(0, UINT32_MAX, -1), &part->form, err) ||
	    !ws_param_fold(call, &part->fold, err) ||
	    !ws_param_int(call, "down", ws_make_range(0, 1, 1), &down, err) ||
	    !param_kind(call, &part->kind, err))
		return false;
	sort = param_word(call, "sort", sum_sort_words, WS_COUNT(sum_sort_words), SUM_TOTAL, err);
	if (sort < 0)
		return false;
	part->order = (struct sum_order){call->lanes, (enum sum_sort)sort, down};
	return true;
}

/* Leave out all but the names of the form that was asked for. */
static void keep_form(const struct sum_part *part, struct groups *groups)
{
	const struct ws_lanes *lanes = part->order.lanes;
	uint32_t form = ws_lane_fold_key(lanes, (uint32_t)part->form);
	size_t n = 0;

	for (size_t i = 0; i < groups->n; i++)
		if (ws_lane_fold_key(lanes, groups->groups[i].name) == form)
			groups->groups[n++] = groups->groups[i];
	groups->n = n;
}

/* The groups that are asked for; they are sorted. */
static void put_groups(struct ws_api_call *call, const struct sum_part *part,
		       const struct groups *groups)
{
	int64_t in_kind = 0;

	ws_put_json_key(call->out, "groups");
	ws_text_puts(call->out, "[");
	for (size_t i = 0; i < groups->n; i++) {
		const struct ws_sum_group *group = &groups->groups[i];

		in_kind = i && group->kind == group[-1].kind ? in_kind + 1 : 0;
		if (in_kind >= part->offset && in_kind - part->offset < part->limit &&
		    (part->kind < 0 || group->kind == part->kind))
			put_group(call, group);
	}
	ws_text_puts(call->out, "]");
}

/* The totals of all groups of each kind, whichever groups are asked for. */
static void put_kinds(struct ws_api_call *call, const struct groups *groups)
{
	ws_put_json_key(call->out, "kinds");
	ws_text_puts(call->out, "[");
	for (size_t i = 0, next; i < groups->n; i = next) {
		uint64_t count = 0, total = 0;

		for (next = i;
		     next < groups->n && groups->groups[next].kind == groups->groups[i].kind;
		     next++) {
			count += groups->groups[next].count;
			total += groups->groups[next].total;
		}
		ws_put_json_comma(call->out);
		ws_text_puts(call->out, "{");
		ws_put_json_string(call->out, "kind", ws_lane_descs[groups->groups[i].kind].name);
		ws_put_json_int(call->out, "names", (int64_t)(next - i));
		ws_put_json_int(call->out, "count", (int64_t)count);
		ws_put_json_int(call->out, "total", (int64_t)total);
		ws_text_puts(call->out, "}");
	}
	ws_text_puts(call->out, "]");
}

int ws_api_sum(struct ws_api_call *call, struct ws_err *err)
{
	struct groups groups = {0};
	struct sum_part part;
	struct walk walk;

	if (!param_sum(call, &part, err) ||
	    walk_open(call, part.names ? WS_LANES_ONCE : WS_LANES_ALL, part.names, &walk, err))
		return 400;
	if (part.names)
		sum_walk(&walk, &groups, part.fold && part.form < 0);
	if (part.form >= 0)
		keep_form(&part, &groups);
	sort_groups(&part.order, &groups);
	ws_text_puts(call->out, "{");
	put_kinds(call, &groups);
	put_groups(call, &part, &groups);
	ws_put_json_int(call->out, "folds", ws_fold_any(call->lanes->fold));
	ws_put_json_int(call->out, "unread", part.names ? walk.unread : 0);
	put_lanes(call, &walk);
	ws_text_puts(call->out, "}");
	free(groups.groups);
	ws_map_free(&groups.at);
	free(walk.lanes);
	return 0;
}

/* ---- the events as a table ---- */

enum sort { BY_START, BY_DURATION, BY_NAME, BY_ROW, BY_COLUMN };
enum { MOST_PAGE = 1000, MOST_SORTED = 100000, RECENT_NAMES = 4096 };
static const char *const sort_words[] = {
	[BY_START] = "start", [BY_DURATION] = "duration", [BY_NAME] = "name", [BY_ROW] = "row"};

struct pick {
	uint64_t key; /* ascending; of names the first eight bytes */
	uint64_t start;
	struct ws_spot spot;
	uint32_t name;
	const char *text; /* of the column that is sorted by, where it is a text */
	size_t length;
	long double number; /* of that column, else 0 */
};

struct picks { /* a heap of the first `most`, the last of them on top */
	const struct ws_lanes *lanes;
	enum sort sort;
	struct ws_column *column; /* that is sorted by, where it is of a table */
	bool down;
	struct pick *picks;
	size_t n, most;
	struct {
		uint32_t name; /* + 1 */
		uint64_t key;
	} recent[RECENT_NAMES];
};

static int compare_texts(const struct pick *left, const struct pick *right)
{
	int order = memcmp(left->text, right->text, ws_min(left->length, right->length));

	return order ? order : ws_compare(left->length, right->length);
}

/* Rows that are equal in the sorted column are in order of time, whether that column ascends or
 * descends. */
static int compare_picks(const void *x, const void *y, void *ctx)
{
	const struct pick *left = x, *right = y;
	const struct picks *picks = ctx;
	int order;

	if (left->key != right->key)
		return ws_compare(left->key, right->key);
	if (picks->sort == BY_NAME && left->name != right->name &&
	    (order = compare_names(picks->lanes, left->name, right->name)))
		return picks->down ? -order : order;
	order = 0;
	if (left->text && right->text)
		order = compare_texts(left, right);
	else if (left->number != right->number) /* the key is a double, which has 53 bits */
		order = ws_compare(left->number, right->number);
	if (order)
		return picks->down ? -order : order;
	if (left->start != right->start)
		return ws_compare(left->start, right->start);
	if (left->spot.lane != right->spot.lane)
		return ws_compare(left->spot.lane, right->spot.lane);
	if (left->spot.level != right->spot.level)
		return ws_compare(left->spot.level, right->spot.level);
	return ws_compare(left->spot.event, right->spot.event);
}

static bool pick_less(struct picks *picks, const struct pick *left, const struct pick *right)
{
	return compare_picks(left, right, picks) < 0;
}

static void sift_down(struct picks *picks, size_t i)
{
	struct pick pick = picks->picks[i];

	for (size_t k; (k = 2 * i + 1) < picks->n; i = k) {
		if (k + 1 < picks->n && pick_less(picks, &picks->picks[k], &picks->picks[k + 1]))
			k++;
		if (!pick_less(picks, &pick, &picks->picks[k]))
			break;
		picks->picks[i] = picks->picks[k];
	}
	picks->picks[i] = pick;
}

static void offer(struct picks *picks, const struct pick *pick)
{
	if (picks->n < picks->most) {
		size_t i = picks->n++;

		for (; i && pick_less(picks, &picks->picks[(i - 1) / 2], pick); i = (i - 1) / 2)
			picks->picks[i] = picks->picks[(i - 1) / 2];
		picks->picks[i] = *pick;
	} else if (picks->n && pick_less(picks, pick, &picks->picks[0])) {
		picks->picks[0] = *pick;
		sift_down(picks, 0);
	}
}

/* The first bytes of a name as a number: it distinguishes most names without a look at their
 * texts. */
static uint64_t name_key(struct picks *picks, uint32_t name)
{
	size_t at = (name * 0x9e3779b1u) % RECENT_NAMES, n;
	uint64_t key = 0;
	const char *text;

	if (picks->recent[at].name == name + 1)
		return picks->recent[at].key;
	text = ws_lane_name(picks->lanes, name, &n);
	for (size_t i = 0; i < 8; i++)
		key = key << 8 | (i < n ? (uint8_t)text[i] : 0);
	picks->recent[at].name = name + 1;
	picks->recent[at].key = key;
	return key;
}

/* Whether an event has a requested duration; an event without one matches only when any is
 * requested. */
static bool is_as_long(const struct walk *walk, const struct ws_level *level, uint32_t i)
{
	uint64_t duration = ws_level_dur(level, i);

	if (walk->below < 0)
		return true;
	return !(level->src[i] & (WS_EVENT_OPEN | WS_EVENT_MOMENT)) &&
	       duration >= (uint64_t)walk->at_least && duration < (uint64_t)walk->below;
}

/* Ascending or descending in the column; rows without a value come last either way, after texts. */
static void key_by_column(struct picks *picks, const struct ws_level *level, uint32_t i,
			  struct pick *pick)
{
	struct ws_column_value value = ws_column_read(picks->column, level, i);

	if (value.is_null) {
		pick->key = UINT64_MAX;
		return;
	}
	pick->key = UINT64_MAX - 1;
	if (value.has_number) {
		pick->key = ws_column_key(&value);
		pick->key = picks->down ? ~pick->key : pick->key;
		pick->number = value.number;
		return;
	}
	pick->text = value.text;
	pick->length = value.length;
}

/* Offer the matching events of a level, which belongs to the `nth` lane asked for. Returns how many
 * there are. */
static uint64_t pick_level(const struct walk *walk, struct ws_matcher *matcher, struct picks *picks,
			   const struct ws_spot *at, size_t nth)
{
	const struct ws_level *level = &walk->lanes_l->lane[at->lane]->level[at->level];
	uint32_t from, to;
	uint64_t n = 0;

	ws_level_range(level, walk->t0, walk->t1, &from, &to);
	for (uint32_t i = from; i < to; i++) {
		struct pick pick = {.spot = {at->lane, at->level, i},
				    .start = level->start[i],
				    .name = level->name[i],
				    .key = nth};

		if (!ws_match_name(matcher, level->name[i]) || !is_as_long(walk, level, i) ||
		    !ws_where_holds(walk->where, level, i))
			continue;
		n++;
		if (picks->sort == BY_COLUMN) {
			key_by_column(picks, level, i, &pick);
			offer(picks, &pick);
			continue;
		}
		if (picks->sort != BY_ROW)
			pick.key = picks->sort == BY_START  ? pick.start
				   : picks->sort == BY_NAME ? name_key(picks, pick.name)
							    : ws_level_dur(level, i);
		pick.key = picks->down ? ~pick.key : pick.key;
		offer(picks, &pick);
	}
	return n;
}

/* Columns of tables that are shown of each event. */
enum { MOST_SHOWN = 32 };
struct shown {
	struct ws_column *columns[MOST_SHOWN];
	size_t n;
};

static void free_shown(struct shown *shown)
{
	for (size_t i = 0; i < shown->n; i++)
		ws_column_free(shown->columns[i]);
}

/* By parameter `columns`, names with commas between them. */
static int param_shown(struct ws_api_call *call, struct shown *shown, struct ws_err *err)
{
	const char *given = ws_text_or(ws_param(call, "columns"), "");
	char name[64];

	for (size_t length; *given; given += length + (given[length] == ',')) {
		length = strcspn(given, ",");
		if (shown->n == MOST_SHOWN || length >= sizeof(name))
			return ws_fail(err,
				       "parameter columns has too many names or too long ones");
		memcpy(name, given, length);
		name[length] = 0;
		shown->columns[shown->n] = ws_column_open(call, name);
		if (!shown->columns[shown->n])
			return ws_fail(err, "no events have a column %s", name);
		shown->n++;
	}
	return 0;
}

static void put_shown(struct ws_api_call *call, struct shown *shown, const struct ws_spot *spot)
{
	const struct ws_level *level = &call->lanes->lane[spot->lane]->level[spot->level];

	ws_put_json_key(call->out, "values");
	ws_text_puts(call->out, "[");
	for (size_t i = 0; i < shown->n; i++) {
		ws_put_json_comma(call->out);
		ws_text_puts(call->out, "{");
		ws_column_put(shown->columns[i], level, spot->event);
		ws_text_puts(call->out, "}");
	}
	ws_text_puts(call->out, "]");
}

static void put_picks(struct ws_api_call *call, struct picks *picks, struct shown *shown,
		      int64_t offset)
{
	if (picks->n)
		qsort_r(picks->picks, picks->n, sizeof(*picks->picks), compare_picks, picks);
	ws_text_puts(call->out, "{\"events\":[");
	for (size_t i = (size_t)offset; i < picks->n; i++) {
		ws_put_json_comma(call->out);
		ws_text_puts(call->out, "{");
		ws_put_spot(call->out, call->lanes, &picks->picks[i].spot);
		if (shown->n)
			put_shown(call, shown, &picks->picks[i].spot);
		ws_text_puts(call->out, "}");
	}
	ws_text_puts(call->out, "]");
}

/* Free the matcher; an error for the user when it left names out. */
static int finish_matching(struct ws_matcher *matcher, struct ws_err *err)
{
	bool expired = ws_is_matcher_expired(matcher, err);

	ws_matcher_free(matcher);
	if (expired)
		return WS_API_SAY;
	return 0;
}

/* What a table of events is asked for. */
struct event_table {
	int64_t offset, limit, down;
	struct ws_matcher *matcher;
	struct picks *picks;
	struct shown shown;
	struct walk walk;
};

static void free_table(struct event_table *table)
{
	free_shown(&table->shown);
	ws_where_free(table->walk.where);
	free(table->walk.lanes);
	if (!table->picks)
		return;
	ws_column_free(table->picks->column);
	free(table->picks->picks);
	free(table->picks);
}

/* By a word, or by a column of a table: `column` with its name. */
static int param_order(struct ws_api_call *call, struct event_table *table, struct ws_err *err)
{
	const char *column = ws_param(call, "column");
	int sort = param_word(call, "sort", sort_words, WS_COUNT(sort_words), BY_START, err);

	if (sort < 0)
		return 400;
	table->picks = ws_calloc(1, sizeof(*table->picks));
	table->picks->lanes = call->lanes;
	table->picks->sort = (enum sort)sort;
	table->picks->down = table->down;
	table->picks->most = (size_t)(table->offset + table->limit);
	table->picks->picks = ws_malloc(table->picks->most * sizeof(*table->picks->picks));
	if (!column)
		return 0;
	table->picks->sort = BY_COLUMN;
	table->picks->column = ws_column_open(call, column);
	if (table->picks->column)
		return 0;
	ws_fail(err, "no events have a column %s", column);
	return WS_API_SAY;
}

static int param_table(struct ws_api_call *call, struct event_table *table, struct ws_err *err)
{
	struct walk *walk = &table->walk;
	int status;

	if (!ws_param_int(call, "offset", ws_make_range(0, MOST_SORTED, 0), &table->offset, err) ||
	    !ws_param_int(call, "limit", ws_make_range(1, MOST_PAGE, 100), &table->limit, err) ||
	    !ws_param_int(call, "down", ws_make_range(0, 1, 0), &table->down, err) ||
	    !ws_param_int(call, "at_least", ws_make_range(0, INT64_MAX, 0), &walk->at_least, err) ||
	    !ws_param_int(call, "below", ws_make_range(0, INT64_MAX, -1), &walk->below, err))
		return 400;
	if (walk->at_least && walk->below < 0)
		walk->below = INT64_MAX;
	status = param_order(call, table, err);
	if (status)
		return status;
	walk->where = ws_make_where(call, err);
	if (!walk->where || param_shown(call, &table->shown, err))
		return WS_API_SAY;
	return walk_open(call, WS_LANES_ORIGINAL, true, walk, err);
}

static uint64_t pick_events(struct event_table *table)
{
	const struct walk *walk = &table->walk;
	uint64_t count = 0;

	for (size_t i = 0; i < walk->n; i++) {
		const struct ws_lane *lane = walk->lanes_l->lane[walk->lanes[i]];

		for (uint32_t k = 0; walkable(lane) && k < lane->levels; k++)
			count += pick_level(walk, table->matcher, table->picks,
					    &(struct ws_spot){walk->lanes[i], k, 0}, i);
	}
	return count;
}

/* Sorted by row: in the order in which `lanes` names them. */
int ws_api_events(struct ws_api_call *call, struct ws_err *err)
{
	struct event_table table = {0};
	uint64_t count;
	int status;

	table.matcher = ws_make_matcher(call, err);
	if (!table.matcher)
		return WS_API_SAY;
	status = param_table(call, &table, err);
	if (status) {
		ws_matcher_free(table.matcher);
		free_table(&table);
		return status;
	}
	count = pick_events(&table);
	put_picks(call, table.picks, &table.shown, table.offset);
	ws_put_json_int(call->out, "count", (int64_t)count);
	ws_put_json_int(call->out, "unread", table.walk.unread);
	ws_put_columns(call, table.walk.lanes, table.walk.n);
	ws_text_puts(call->out, "}");
	free_table(&table);
	return finish_matching(table.matcher, err);
}

/* ---- searching ---- */

/* How many events match, by name, the most first; and where. */
int ws_api_search(struct ws_api_call *call, struct ws_err *err)
{
	struct ws_matcher *matcher = ws_make_matcher(call, err);
	struct groups groups = {0};
	uint64_t count = 0;
	struct walk walk;
	size_t out = 0;

	if (!matcher)
		return WS_API_SAY;
	if (walk_open(call, WS_LANES_ORIGINAL, true, &walk, err)) {
		ws_matcher_free(matcher);
		return 400;
	}
	sum_walk(&walk, &groups, false);
	sort_groups(&(struct sum_order){call->lanes, SUM_TOTAL, true}, &groups);
	ws_text_puts(call->out, "{\"names\":[");
	for (size_t i = 0; i < groups.n; i++) {
		if (!ws_match_name(matcher, groups.groups[i].name))
			continue;
		count += groups.groups[i].count;
		if (out++ < SUM_USUAL)
			put_group(call, &groups.groups[i]);
	}
	ws_text_puts(call->out, "]");
	ws_put_json_int(call->out, "count", (int64_t)count);
	ws_put_json_int(call->out, "distinct", (int64_t)out);
	ws_put_json_int(call->out, "unread", walk.unread);
	ws_text_puts(call->out, "}");
	free(groups.groups);
	ws_map_free(&groups.at);
	free(walk.lanes);
	return finish_matching(matcher, err);
}

/* The first match of a level that starts at `t` or later, or with `back` the last that starts
 * before it. */
static bool step_level(const struct ws_level *level, struct ws_matcher *matcher, uint64_t t,
		       bool back, uint32_t *found)
{
	uint32_t i = ws_level_seek(level, 0, level->n, t);

	if (back) {
		while (i && !ws_match_name(matcher, level->name[i - 1]))
			i--;
		*found = i - 1;
		return i > 0;
	}
	while (i < level->n && !ws_match_name(matcher, level->name[i]))
		i++;
	*found = i;
	return i < level->n;
}

/* Where stepping goes on: events at `t` itself come after (lane, level), or before it, as their
 * lanes and levels do. */
struct step {
	int64_t t, back, lane, level;
};

static bool param_step(struct ws_api_call *call, struct step *step, struct ws_err *err)
{
	if (!ws_param_int(call, "t", ws_make_range(INT64_MIN / 4, INT64_MAX / 4, 0), &step->t,
			  err) ||
	    !ws_param_int(call, "back", ws_make_range(0, 1, 0), &step->back, err) ||
	    !ws_param_int(call, "lane", ws_make_range(0, UINT32_MAX, step->back ? 0 : UINT32_MAX),
			  &step->lane, err) ||
	    !ws_param_int(call, "level", ws_make_range(0, UINT32_MAX, step->back ? 0 : UINT32_MAX),
			  &step->level, err))
		return false;
	step->t += (int64_t)call->lanes->zero;
	return true;
}

/* The moment from which events of a level are behind the step's place; going back, until which they
 * are before it. */
static uint64_t step_from(const struct step *step, uint32_t lane, uint32_t level)
{
	bool later = lane != step->lane ? lane > step->lane : level > step->level,
	     earlier = lane != step->lane ? lane < step->lane : level < step->level;
	int64_t t = step->back ? step->t + earlier : step->t + !later;

	return t < 0 ? 0 : (uint64_t)t;
}

int ws_api_step(struct ws_api_call *call, struct ws_err *err)
{
	struct ws_spot best = {0};
	uint64_t best_start = 0;
	struct ws_matcher *matcher;
	bool any = false;
	struct step step;
	struct walk walk;

	if (!param_step(call, &step, err))
		return 400;
	matcher = ws_make_matcher(call, err);
	if (!matcher)
		return WS_API_SAY;
	if (walk_open(call, WS_LANES_ORIGINAL, true, &walk, err)) {
		ws_matcher_free(matcher);
		return 400;
	}
	for (size_t i = 0; i < walk.n; i++) {
		const struct ws_lane *lane = call->lanes->lane[walk.lanes[i]];

		for (uint32_t k = 0, at; walkable(lane) && k < lane->levels; k++) {
			if (!step_level(&lane->level[k], matcher,
					step_from(&step, walk.lanes[i], k), step.back, &at))
				continue;
			/* Of several events at one time take the first or, going back, the last. */
			if (any && (step.back ? lane->level[k].start[at] < best_start
					      : lane->level[k].start[at] >= best_start))
				continue;
			any = true;
			best = (struct ws_spot){walk.lanes[i], k, at};
			best_start = lane->level[k].start[at];
		}
	}
	ws_text_puts(call->out, "{");
	if (any)
		ws_put_spot(call->out, call->lanes, &best);
	ws_put_json_int(call->out, "unread", walk.unread);
	ws_text_puts(call->out, "}");
	free(walk.lanes);
	return finish_matching(matcher, err);
}
