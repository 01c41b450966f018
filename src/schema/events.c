/*
 * events.c - the descriptors that events.def expands to. The helpers below are what declarations
 * are written with; they spell out fields of struct ws_event_kind.
 */
#include "schema/events.h"

#include <string.h>

/* ---- rows of the time line ---- */

#define WS_LANE(kind, name, place, order, colors, flags) \
	{name, WS_PLACE_##place, order, flags, ((flags)&COUNTER) != 0},

enum {
	COUNTER = WS_LANE_IS_COUNTER,
	SAYS_WHAT = WS_LANE_IS_SAYS_WHAT,
	AGAIN = WS_LANE_IS_AGAIN,
	BY_NAME = WS_LANE_IS_BY_NAME,
	MOMENTS = WS_LANE_IS_MOMENTS,
	TAKES_ARROWS = WS_LANE_IS_TAKES_ARROWS,
	ENCLOSES = WS_LANE_IS_ENCLOSES,
	NESTS = WS_LANE_IS_NESTS,
};
const struct ws_lane_desc ws_lane_descs[WS_LANE_KINDS] = {
#include "schema/events.def"
};

/* ---- lists of texts ---- */

static const char *const own_texts[] = {
#define WS_OWN_TEXT(list, n, ...) __VA_ARGS__,
#include "schema/events.def"
};
_Static_assert(sizeof(own_texts) / sizeof(*own_texts) == WS_OWN_TEXT_COUNT,
	       "each list of texts has as many as it says");

const char *const ws_category_names[WS_CATEGORIES] = {
#define WS_CATEGORY(category, text) text,
#include "schema/events.def"
};

const char *const ws_arg_names[WS_ARGS] = {
#define WS_ARG(arg, text) text,
#include "schema/events.def"
};

const char *ws_get_own_text(uint32_t number)
{
	if (number >= WS_OWN_TEXT_COUNT)
		return "";
	return own_texts[number];
}

/* ---- kinds of events ---- */

#define SPAN(t) .end = ws_##t##_end
#define RANK(n) .rank = n
#define COMPUTED .is_computed = true
#define OF_THE_RECORDING .is_of_recording = true

#define NAMED(t, column) NAMED_AS(t, column, STR)
#define NAMED_AS(t, column, how) .naming = WS_NAMED_##how, .name = ws_##t##_##column
#define FULL_NAME(t, column) .full_name = ws_##t##_##column
/* Named by the values of a column. */
#define VALUED(t, column, list)                                                   \
	.naming = WS_NAMED_ENUM, .name = ws_##t##_##column, .own = WS_OWN_##list, \
	.own_n = WS_OWN_##list##_N
#define NUMBERED .is_numbered = true
#define COLORED(t) .color = ws_##t##_color, .color_flags = ws_##t##_flags
#define LABEL(how) .label = WS_LABEL_##how
#define LABEL_TEXT(text) .label = WS_LABEL_TEXT, .label_text = text
#define SHAPED(t, how, column) .shaping = WS_SHAPED_BY_##how, .shaped_by = ws_##t##_##column
#define COUNTS(t, column, how) .value = ws_##t##_##column, .is_value_real = VALUE_##how
enum { VALUE_WHOLE = 0, VALUE_REAL = 1 };

#define ON_THREAD(t) .thread = ws_##t##_thread
#define ON_TRACK(t) .track = ws_##t##_track, .row = WS_ROW_TRACK
#define ON_STREAM(t)                                                                         \
	.process = ws_##t##_process, .device = ws_##t##_device, .context = ws_##t##_context, \
	.stream = ws_##t##_stream, .correlation = ws_##t##_correlation
#define CORRELATED(t) .correlation = ws_##t##_correlation
#define FRAME(t, column) .frame = ws_##t##_##column
#define CALLCHAIN(t, column) .callchain = ws_##t##_##column
#define ROW(which) .row = WS_ROW_##which
#define ROW_BELOW_THREAD(text) .row = WS_ROW_BELOW_THREAD, .row_name = text
/* Kernels, copies and the like: on a stream, caused by a call. */
#define GPU_WORK(t)                                               \
	ON_STREAM(t), .row = WS_ROW_STREAM, .link = WS_LINK_WORK, \
		      .common = (const struct ws_shown[])         \
	{                                                         \
		WORK_SHOWN(t),                                    \
		{                                                 \
			0                                         \
		}                                                 \
	}
#define WORK_SHOWN(t)                                                                           \
	SHOW(t, CHROME, EXTERNAL_ID, EXTERNAL, correlation),                                    \
		SHOW(t, PERFETTO, CORRELATION, IF_KNOWN, correlation),                          \
		SHOW(t, BOTH, DEVICE, NUMBER, device), SHOW(t, BOTH, CONTEXT, NUMBER, context), \
		SHOW(t, BOTH, STREAM, NUMBER, stream),                                          \
		SHOW(t, CHROME, CORRELATION, IF_KNOWN, correlation),                            \
		SHOW(t, CHROME, PROCESS_ID, PROCESS, process)
#define LINK(which) .link = WS_LINK_##which
#define FORM(which) .form = WS_FORM_##which

#define FEEDS(...) .feed = {__VA_ARGS__}, .feeds = COUNT(__VA_ARGS__)
#define COUNT(...) sizeof((const struct ws_feed[]){__VA_ARGS__}) / sizeof(struct ws_feed)
#define FEED(lane, ...)                               \
	{                                             \
		.kind = WS_LANE_##lane, ##__VA_ARGS__ \
	}
#define KEYS1(t, a) .keys = 1, .key = {ws_##t##_##a}
#define KEYS2(t, a, b) .keys = 2, .key = {ws_##t##_##a, ws_##t##_##b}
#define KEYS3(t, a, b, c) .keys = 3, .key = {ws_##t##_##a, ws_##t##_##b, ws_##t##_##c}
#define KEYS4(t, a, b, c, d) \
	.keys = 4, .key = {ws_##t##_##a, ws_##t##_##b, ws_##t##_##c, ws_##t##_##d}
#define WHEN(t, how, column) .when = WS_FEED_##how, .test = ws_##t##_##column
#define SPLIT(t, how, column) .split = WS_SPLIT_##how, .split_by = ws_##t##_##column
#define FEED_THREAD(t, lane) FEED(lane, KEYS1(t, thread))
#define FEED_DEVICE(t, lane) FEED(lane, KEYS2(t, process, device))
#define FEED_STREAM(t) FEED(STREAM, KEYS4(t, process, device, context, stream))

#define SQL_TABLE(text) .sql_table = text
#define SQL_NAME(text) .sql_name = text
#define NAME_IS_ID .is_name_id = true
#define NO_SQL .is_not_queried = true

#define NOT_IN(which) .not_in = WS_IN_##which
#define CATEGORY_TEXT(t, column) .category_text = ws_##t##_##column
#define CATEGORIES(name) .category = {WS_CATEGORY_##name}, .categories = 1
#define CATEGORIES_BY(t, column, ...)                                             \
	.category_by = ws_##t##_##column, .category = {PREFIX_EACH(__VA_ARGS__)}, \
	.categories = sizeof((uint8_t[]){PREFIX_EACH(__VA_ARGS__)})
#define PREFIX_EACH(...) \
	PREFIX_PICK(__VA_ARGS__, PREFIX5, PREFIX4, PREFIX3, PREFIX2, PREFIX1)(__VA_ARGS__)
#define PREFIX_PICK(a, b, c, d, e, which, ...) which
#define PREFIX1(a) WS_CATEGORY_##a
#define PREFIX2(a, b) PREFIX1(a), PREFIX1(b)
#define PREFIX3(a, b, c) PREFIX2(a, b), PREFIX1(c)
#define PREFIX4(a, b, c, d) PREFIX3(a, b, c), PREFIX1(d)
#define PREFIX5(a, b, c, d, e) PREFIX4(a, b, c, d), PREFIX1(e)

#define SHOWN(...)                         \
	.shown = (const struct ws_shown[]) \
	{                                  \
		__VA_ARGS__,               \
		{                          \
			0                  \
		}                          \
	}
#define SHOW(t, exports, arg, form, column) SHOW2(t, exports, arg, form, column, start)
#define SHOW2(t, exports, arg, form, column, second)                              \
	{                                                                         \
		WS_SHOW_##form, WS_IN_##exports, WS_ARG_##arg, ws_##t##_##column, \
			ws_##t##_##second                                         \
	}

const struct ws_event_kind ws_event_kinds[WS_EVENT_KINDS] = {
#define WS_EVENT(kind, t, ...) [WS_KIND_##kind] = {.table = WS_TABLE_##t, __VA_ARGS__},
#include "schema/events.def"
};

#define WS_EVENT(kind, t, ...) \
	_Static_assert(ws_##t##_start == 0, "the first column of " #t " is its start");
#include "schema/events.def"

const struct ws_event_kind *ws_event_kind_of(enum ws_table table)
{
	for (size_t i = 0; i < WS_EVENT_KINDS; i++)
		if (ws_event_kinds[i].table == table && !ws_event_kinds[i].is_computed)
			return &ws_event_kinds[i];
	return NULL;
}

bool ws_lane_names_functions(uint8_t lane_kind)
{
	for (size_t i = 0; i < WS_EVENT_KINDS; i++) {
		const struct ws_event_kind *kind = &ws_event_kinds[i];

		if (kind->naming != WS_NAMED_FRAME && kind->naming != WS_NAMED_STACK)
			continue;
		for (uint32_t k = 0; k < kind->feeds; k++)
			if (kind->feed[k].kind == lane_kind)
				return true;
	}
	return false;
}

static enum ws_event_shape shape_of_nvtx(uint64_t type)
{
	switch (type) {
	case WS_NVTX_PUSHPOP:
		return WS_SHAPE_SPAN;
	case WS_NVTX_STARTEND:
		return WS_SHAPE_CROSSING;
	case WS_NVTX_MARK:
		return WS_SHAPE_MOMENT;
	default:
		return WS_SHAPE_NONE;
	}
}

static enum ws_event_shape shape_of_slice(uint64_t flags)
{
	static const uint8_t shapes[] = {
		[0] = WS_SHAPE_SPAN,
		[WS_SLICE_INSTANT] = WS_SHAPE_MOMENT,
		[WS_SLICE_ASYNC] = WS_SHAPE_CROSSING,
		[WS_SLICE_ASYNC | WS_SLICE_INSTANT] = WS_SHAPE_CROSSING_MOMENT,
	};

	return (enum ws_event_shape)shapes[flags & (WS_SLICE_ASYNC | WS_SLICE_INSTANT)];
}

enum ws_event_shape ws_event_shape(const struct ws_event_kind *kind, uint64_t value)
{
	if (kind->shaping == WS_SHAPED_BY_TYPE)
		return shape_of_nvtx(value);
	if (kind->shaping == WS_SHAPED_BY_FLAGS)
		return shape_of_slice(value);
	return kind->end ? WS_SHAPE_SPAN : WS_SHAPE_MOMENT;
}

enum ws_category ws_find_event_category(const struct ws_event_kind *kind, uint64_t value)
{
	if (!kind->categories)
		return WS_CATEGORY_OTHER;
	if (!kind->category_by)
		return (enum ws_category)kind->category[0];
	if (value >= kind->categories)
		value = kind->categories - 1u;
	return (enum ws_category)kind->category[value];
}

/* ---- the groups that reports sum up blocks by ---- */

struct groups {
	uint32_t n;
	uint8_t *columns;
};

static void add_group(struct groups *groups, uint8_t column)
{
	if (!memchr(groups->columns, column, groups->n) && groups->n < WS_GROUP_KEYS)
		groups->columns[groups->n++] = column;
}

static bool has_key(const struct ws_event_kind *kind, uint8_t column)
{
	for (uint32_t i = 0; i < kind->feeds; i++)
		if (memchr(kind->feed[i].key, column, kind->feed[i].keys))
			return true;
	return false;
}

/* What tells the lanes of a table apart; the column that rows are sorted by comes first. */
uint32_t ws_table_groups(enum ws_table table, uint8_t columns[WS_GROUP_KEYS])
{
	const struct ws_event_kind *kind = ws_event_kind_of(table);
	struct groups groups = {.columns = columns};
	int track = ws_table_track(table);

	memset(columns, 0, WS_GROUP_KEYS);
	if (!kind)
		return 0;
	if (track >= 0 && has_key(kind, (uint8_t)track))
		add_group(&groups, (uint8_t)track);
	for (uint32_t i = 0; i < kind->feeds; i++) {
		const struct ws_feed *feed = &kind->feed[i];

		for (uint32_t k = 0; k < feed->keys; k++)
			add_group(&groups, feed->key[k]);
		if (feed->when)
			add_group(&groups, feed->test);
		if (feed->split)
			add_group(&groups, feed->split_by);
	}
	return groups.n;
}
