/*
 * events.h - what events.def turns into: a descriptor of each kind of event and of each kind of row
 * of the time line. Who shows events walks these; code that differs between kinds is found by a
 * field of the descriptor, never by the table.
 */
#ifndef WS_EVENTS_H
#define WS_EVENTS_H

#include <stdbool.h>

#include "schema/schema.h"

/* ---- rows of the time line ---- */

enum ws_lane_kind {
#define WS_LANE(kind, name, place, order, colors, flags) WS_LANE_##kind,
#include "schema/events.def"
	WS_LANE_KINDS
};

/* What a row of the time line is below, and what its first keys are. */
enum ws_lane_place {
	WS_PLACE_THREAD,  /* thread */
	WS_PLACE_DEVICE,  /* process, device */
	WS_PLACE_PROCESS, /* process */
	WS_PLACE_CORE,	  /* core */
	WS_PLACE_COUNTER, /* counter */
	WS_PLACE_TRACK,	  /* track */
	WS_PLACE_SESSION, /* the report as a whole */
};

enum ws_lane_flags {
	WS_LANE_IS_COUNTER = 1,	  /* values, not events */
	WS_LANE_IS_SAYS_WHAT = 2, /* its process or thread launches work, or names what it does */
	WS_LANE_IS_AGAIN = 4,	  /* it shows again what other rows have */
	WS_LANE_IS_BY_NAME = 8,	  /* it opens to a row for each of its commonest names */
	WS_LANE_IS_MOMENTS = 16,  /* its events have no length */
	WS_LANE_IS_TAKES_ARROWS = 32, /* arrows of imported traces begin and end at its events */
	WS_LANE_IS_ENCLOSES = 64,     /* its events tell what a thread was doing at a moment */
	WS_LANE_IS_NESTS = 128, /* its events are inside of one another, as calls are: each has time
				   of its own */
};

struct ws_lane_desc {
	const char *name; /* in the interface to the page */
	enum ws_lane_place place;
	uint8_t order; /* among the rows of a thread */
	uint8_t flags; /* enum ws_lane_flags */
	bool counter;
};
extern const struct ws_lane_desc ws_lane_descs[WS_LANE_KINDS];

/* ---- texts of our own ---- */

/* Each list takes n numbers; its first is WS_OWN_x, and WS_OWN_x_N is how many it has. */
enum ws_own_text {
#define WS_OWN_TEXT(list, n, ...) WS_OWN_##list, WS_OWN_##list##_LAST = WS_OWN_##list + (n)-1,
#include "schema/events.def"
	WS_OWN_TEXT_COUNT
};
enum ws_own_counts {
#define WS_OWN_TEXT(list, n, ...) WS_OWN_##list##_N = (n),
#include "schema/events.def"
};

/* Texts of our own by number; "" beyond the last. */
const char *ws_get_own_text(uint32_t number);

/* ---- what exports show ---- */

enum ws_category {
#define WS_CATEGORY(category, text) WS_CATEGORY_##category,
#include "schema/events.def"
	WS_CATEGORIES
};
extern const char *const ws_category_names[WS_CATEGORIES];

enum ws_arg {
#define WS_ARG(arg, text) WS_ARG_##arg,
#include "schema/events.def"
	WS_ARGS
};
extern const char *const ws_arg_names[WS_ARGS];

enum ws_event_exports { WS_IN_CHROME = 1, WS_IN_PERFETTO = 2, WS_IN_BOTH = 3 };

/* How a column is shown as an argument of an exported event. */
enum ws_show_form {
	WS_SHOW_END, /* of the list */
	WS_SHOW_NUMBER,
	WS_SHOW_IF_KNOWN, /* a number, unless it is null */
	WS_SHOW_IF_NOT_ZERO,
	WS_SHOW_SIGNED_IF_NOT_ZERO,
	WS_SHOW_REAL,
	WS_SHOW_IF_POSITIVE, /* a real number */
	WS_SHOW_PERCENT,     /* a share; where it is 0 that of the second column */
	WS_SHOW_SUM,	     /* of both columns */
	WS_SHOW_SIZES,	     /* three columns from this one on: x, y, z */
	WS_SHOW_TEXT,
	WS_SHOW_JSON,	    /* a text that is JSON already */
	WS_SHOW_MEMBERS,    /* a JSON object, whose members join the other arguments */
	WS_SHOW_LABEL,	    /* what the event is called */
	WS_SHOW_RATE,	    /* bytes by the event's duration, GB/s */
	WS_SHOW_EXTERNAL,   /* the operator that a correlation id belongs to */
	WS_SHOW_PROCESS,    /* the process, where the row does not tell */
	WS_SHOW_DOMAIN,	    /* the name of an NVTX domain */
	WS_SHOW_COLLECTIVE, /* what the collective of a correlation id moved */
	WS_SHOW_FORMS
};

struct ws_shown {
	uint8_t form;	 /* enum ws_show_form */
	uint8_t exports; /* enum ws_event_exports: where it is shown */
	uint8_t arg;	 /* enum ws_arg: what it is called there */
	uint8_t column, second;
};

/* ---- kinds of events ---- */

/* What an event's name is in a lane. */
enum ws_event_naming {
	WS_NAMED_STR,	 /* a STR column */
	WS_NAMED_THREAD, /* the thread in a column */
	WS_NAMED_FRAME,	 /* the function of a frame */
	WS_NAMED_STACK,	 /* the function of the innermost frame of a stack */
	WS_NAMED_ENUM,	 /* texts of our own, from `own` on by the column's value, less than `own_n`
			  */
};

/* What it is called in exports, where that differs (export/event_label.c). */
enum ws_event_label {
	WS_LABEL_NAME, /* as in its lane */
	WS_LABEL_TEXT, /* `label_text` */
	WS_LABEL_CALL, /* the function without its version */
	WS_LABEL_COPY,
	WS_LABEL_MEMSET,
	WS_LABEL_GRAPH,
	WS_LABEL_SYNC,
	WS_LABEL_CORE,
	WS_LABEL_GIL,
	WS_LABELS
};

/* Which shape a row has: of all rows that same, or as a column says. */
enum ws_event_shaping { WS_SHAPED_ALIKE, WS_SHAPED_BY_TYPE, WS_SHAPED_BY_FLAGS };
enum ws_event_shape {
	WS_SHAPE_SPAN,	   /* it nests in those of its row */
	WS_SHAPE_CROSSING, /* a span that may cross others of its row */
	WS_SHAPE_MOMENT,
	WS_SHAPE_CROSSING_MOMENT, /* other tools say that it may cross others, which a moment cannot
				   */
	WS_SHAPE_NONE,		  /* the row is no event */
};

static inline bool ws_shape_is_moment(enum ws_event_shape shape)
{
	return shape == WS_SHAPE_MOMENT || shape == WS_SHAPE_CROSSING_MOMENT;
}

/* The row of an exported event. */
enum ws_event_row {
	WS_ROW_THREAD,
	WS_ROW_BELOW_THREAD, /* a row of its own, called `row_name`, below the thread's */
	WS_ROW_TRACK,	     /* the thread, or a track where the row names one */
	WS_ROW_STREAM,
	WS_ROW_DEVICE, /* beside the streams of the device */
	WS_ROWS
};

/* How it is exported: as an event like others, or by code of its own. */
enum ws_event_form {
	WS_FORM_EVENT,
	WS_FORM_COUNTER,
	WS_FORM_GPU_MEMORY,
	WS_FORM_OP_MEMORY,
	WS_FORM_FLOW,
	WS_FORM_SAMPLE,
	WS_FORMS
};

/* What it is tied to. */
enum ws_event_link {
	WS_LINK_NONE,
	WS_LINK_CALL,	  /* to the work it caused */
	WS_LINK_WORK,	  /* to the call that caused it */
	WS_LINK_WAIT,	  /* to its call and the work it waited for */
	WS_LINK_RANGE,	  /* to the work launched in it, and to itself as the GPU saw it */
	WS_LINK_OPERATOR, /* to the work launched in it, and its backward operator */
	WS_LINK_OS_CALL,  /* to who held the lock and who woke the thread */
	WS_LINK_GIL,	  /* to who held it */
	WS_LINK_MESSAGE,  /* of a library: to the work it caused; of MPI, to the call that received
			     or sent the message */
	WS_LINKS
};

enum ws_feed_when { WS_FEED_ALWAYS, WS_FEED_ZERO, WS_FEED_NONZERO, WS_FEED_NOT_NULL };

/* What tells lanes apart that have the same keys; it becomes the key behind them. */
enum ws_feed_split {
	WS_SPLIT_NONE,
	WS_SPLIT_LOOSE,	 /* start/end ranges overlap as they like: they would push nested ones about
			  */
	WS_SPLIT_PYTHON, /* deep stacks of Python would push operators out of sight */
	WS_SPLIT_LIBRARY, /* calls of a library have a row of their own */
};

/* Rows that go to lanes of a kind. */
struct ws_feed {
	uint8_t kind; /* enum ws_lane_kind */
	uint8_t keys;
	uint8_t key[4]; /* columns */
	uint8_t when;	/* enum ws_feed_when of column `test` */
	uint8_t test;
	uint8_t split; /* enum ws_feed_split by column `split_by` */
	uint8_t split_by;
};

enum { WS_MOST_FEEDS = 2, WS_MOST_CATEGORIES = 5 };

/*
 * Columns are numbers in `table`, 0 where there is none: column 0 of every event is its start. The
 * flags `is_computed` and on are false unless declared.
 */
struct ws_event_kind {
	enum ws_table table;
	uint8_t end; /* 0: moments */
	uint8_t thread, track, process, device, context, stream, correlation;
	uint8_t frame, callchain; /* of its call stack */
	uint8_t rank; /* encloses those of higher rank that have the same times; 0: last */

	uint8_t naming; /* enum ws_event_naming of column `name` */
	uint8_t name, full_name;
	uint16_t own, own_n;
	uint8_t label; /* enum ws_event_label */
	const char *label_text;
	uint8_t shaping, shaped_by; /* enum ws_event_shaping by a column */
	uint8_t color, color_flags; /* columns of nvtx: a colour, and whether there is one */

	uint8_t value;	      /* of a counter; others have none */
	bool is_value_real;   /* it is a double already */
	bool is_computed;     /* made from several tables: its rows are not those of `table` */
	bool is_of_recording; /* it is about the recording, not about the program */
	bool is_numbered;     /* names that differ in a number at their end have one colour */

	struct ws_feed feed[WS_MOST_FEEDS];
	uint8_t feeds;

	const char *sql_table, *sql_name; /* in queries, where they are not those of tables.def */
	bool is_name_id; /* the name is a number of StringIds, whatever its column is called */
	bool is_not_queried;

	uint8_t not_in; /* enum ws_event_exports */
	uint8_t form;	/* enum ws_event_form */
	uint8_t row;	/* enum ws_event_row */
	const char *row_name;
	uint8_t link;			      /* enum ws_event_link */
	uint8_t category[WS_MOST_CATEGORIES]; /* enum ws_category by the value of `category_by` */
	uint8_t categories, category_by;
	uint8_t category_text; /* STR column with the category that the program gave */
	const struct ws_shown *common, *shown; /* up to WS_SHOW_END; NULL for none */
};

/* Numbers of kinds: WS_KIND_nvtx and so on. */
enum ws_event_kind_number {
#define WS_EVENT(kind, table, ...) WS_KIND_##kind,
#include "schema/events.def"
	WS_EVENT_KINDS
};
extern const struct ws_event_kind ws_event_kinds[WS_EVENT_KINDS];

/* The kind of event that the rows of a table are; NULL for a table of no events. */
const struct ws_event_kind *ws_event_kind_of(enum ws_table table);

/* The shape of a row by its value in column `shaped_by`, and of all rows of kinds without. */
enum ws_event_shape ws_event_shape(const struct ws_event_kind *kind, uint64_t value);

/* The category of a row by its value in column `category_by`; unknown values have the last one. */
enum ws_category ws_find_event_category(const struct ws_event_kind *kind, uint64_t value);

/* Whether its table has rows that are not events, as column `shaped_by` shows. */
static inline bool ws_event_has_other_rows(const struct ws_event_kind *kind)
{
	return kind->shaping == WS_SHAPED_BY_TYPE;
}

/* Whether events in lanes of this kind are named after functions in stacks. */
bool ws_lane_names_functions(uint8_t lane_kind);

/* Whether there is a lane for events of this kind. */
static inline bool ws_event_has_lane(const struct ws_event_kind *kind)
{
	return kind->feeds || kind->is_computed;
}

#endif
