/*
 * lane.h - a report as rows of a time line.
 *
 * A lane is one row: the events of one kind that belong to one thread, stream, core... A lane has
 * levels; on a level no two events overlap, so both starts and ends ascend, and every question
 * about a window takes two binary searches and a difference of running sums, whatever its size.
 * Nested ranges come out at their depth, concurrent ones on the first level that is free.
 *
 * First comes a census (census.c), which is cheap and gives the tree of rows with counts; then the
 * events are read in the background (build.c), starting with those that someone looks at. Until a
 * lane is ready, its tiles show what the report says about whole blocks.
 *
 * Events take 22 bytes each, in unlinked temporary files that are mapped (space.c): the kernel
 * drops what is not looked at, so that a report of any size can be open.
 */
#ifndef WS_LANES_LANE_H
#define WS_LANES_LANE_H

#include <pthread.h>

#include "base/map.h"
#include "base/mem.h"
#include "query/fold.h"
#include "query/stacks.h"
#include "query/states.h"
#include "schema/events.h"

/*
 * An event's name: a number of 30 bits, and in the two highest bits the kind of that number. Texts
 * of our own are listed in events.def.
 */
enum ws_name_space {
#define WS_NAME_SPACE(space, value) WS_NAME_##space = value,
#include "schema/tiles.def"
};
#define WS_NAME(space, id) ((uint32_t)(space) << 30 | ((uint32_t)(id)&0x3fffffff))

enum { WS_LEVEL_STRIDE = 64, WS_LEVEL_FAN = 16, WS_LEVEL_PYRAMID = 8, WS_LEVELS_MOST = 200 };
/* Events keep the number of their kind (ws_event_kinds), and flags. */
enum ws_event_bits {
#define WS_EVENT_BIT(name, value) WS_EVENT_##name = value,
#include "schema/tiles.def"
};
_Static_assert(WS_EVENT_KINDS <= WS_EVENT_SOURCE + 1, "the number of a kind fits");

/* A level: columns of n events, in order of time and not overlapping. */
struct ws_level {
	uint32_t n;
	uint64_t *start;
	uint32_t *dur;	      /* UINT32_MAX: see `longs` */
	uint32_t *name, *ref; /* ref: number of the row in its table */
	uint8_t *src, *paint; /* source and flags; colour: index in the palette, 0 by name */
	uint64_t *busy;	      /* sum of durations before every WS_LEVEL_STRIDE-th event */
	uint32_t *max[WS_LEVEL_PYRAMID]; /* longest duration of FAN, FAN^2... events */
	struct ws_long {
		uint32_t at;
		uint64_t dur;
	} * longs;
	size_t long_n, long_cap;
	double *value; /* counters: from `start` on; their dur, name, ref, src and paint are NULL */
	double *value_max[WS_LEVEL_PYRAMID], *value_min[WS_LEVEL_PYRAMID];
	void *memory;
	size_t bytes;
};

struct ws_raw { /* an event on its way to a level */
	uint64_t start, end;
	uint32_t name, ref;
	uint8_t src, paint;
	uint8_t level; /* its nesting depth where known, else 0: not above this level, and below the
			  event that encloses it */
	uint8_t there; /* its row was read */
};

struct ws_lane {
	uint8_t kind;
	uint32_t key[4];
	uint64_t count;
	uint64_t hidden; /* events nested deeper than WS_LEVELS_MOST */
	uint64_t first, last, busy;
	struct ws_level *level;
	uint32_t levels;
	struct ws_level *cover; /* stretches with at least one event under way, when there are
				   several levels; otherwise NULL: level 0. For states those on a
				   core, each separately */
	struct ws_raw *raw;
	uint64_t filled; /* places in `raw` */
	uint64_t
		placed; /* atomic: how many of these have an event; fewer when blocks are damaged */
	size_t glimpse, glimpses; /* its first glimpse, and how many it has */
	uint64_t grain; /* ns that a part of a glimpse spans, on average; UINT64_MAX: glimpses show
			   little */
	uint8_t state;	/* enum ws_lane_state, under the lock */
	uint32_t asked; /* atomic: when it was last asked for; a count, not a time */
	int ready;	/* atomic */
	bool uncounted; /* made after the census: `count` does not count rows of its own */
};

/*
 * The state of reading a lane's events. A lane with more events than there is room for keeps only
 * its glimpses; the lane that has not been asked for longest returns to IDLE when others need its
 * room.
 */
enum ws_lane_state {
	WS_LANE_IDLE,
	WS_LANE_WANTED,
	WS_LANE_READING,
	WS_LANE_READ,
	WS_LANE_LEAVING,
	WS_LANE_TOO_MANY
};

struct ws_census_entry { /* rows of one block that go to one lane */
	uint32_t source, block, lane, count;
	uint64_t at;
	bool bad; /* the block could not be read */
};

/* What the report says about a group of rows of a lane: how busy each part of first..last was
 * (store.h); `bins` may be NULL. */
struct ws_glimpse {
	uint64_t first, last;
	const uint8_t *bins;
	uint32_t lane, rows;
};

struct ws_lanes_opts {
	uint64_t unasked; /* events that are read before anyone asks for them: small lanes before
			     large ones */
	uint64_t room;	  /* bytes that events may take */
	const struct ws_lanes *like; /* their lanes come first, with the same numbers, whether they
					have events or not; or NULL */
	uint64_t from, to; /* blocks of rows before and after are left out; times of the session */
};

struct ws_lanes {
	const struct ws_report *report;
	struct ws_names_by_id *who;
	struct ws_fold *fold; /* names that differ only in numbers; made before a lane is ready */
	uint64_t zero, last;
	struct ws_lane **lane; /* by number; fixed once the census is taken */
	size_t n, cap;
	uint64_t *slots; /* lanes by kind and key: number + 1, base/slots.h */
	size_t slot_mask;
	struct ws_census_entry *census;
	size_t census_n, census_cap;
	uint32_t palette[256]; /* ARGB */
	uint32_t palette_n;
	struct ws_glimpse *glimpse; /* by lane and time */
	size_t glimpse_n, glimpse_cap;
	struct ws_lanes_opts opts;
	uint64_t used;	/* of opts.room; under the lock */
	uint32_t clock; /* atomic: of `asked` */
	uint32_t busy;	/* lanes that are wanted or being read; under the lock */
	int hurry;	/* atomic: someone waits for lanes that are being read */
	pthread_rwlock_t
		shown; /* held for reading while levels are in use, so that none is dropped */
	struct ws_stacks *stacks;
	uint8_t *names_domains; /* by block of nvtx: whether it names domains */
	struct ws_map domains;	/* process << 32 | NVTX domain: its name (a string id) */
	struct ws_shared_names {
		uint8_t *is_shared; /* by key of a string: it stands for several full names */
		bool known;
	} shared[WS_EVENT_KINDS]; /* of kinds with full names, once rows of them are read; under
				     `naming` */
	pthread_mutex_t naming;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t builder, server; /* one reads what nobody asked for, one what someone did */
	bool building, serving;
	int census_done, stacks_done, placed, built,
		stop; /* atomic; `placed`: all lanes except the projected ones are ready */
	uint64_t built_events, events, damaged;
};

/* Begin: takes the census in a thread, then reads events. `opts` may be NULL: reads what a page
 * needs in the available room. */
struct ws_lanes *ws_lanes_open(const struct ws_report *report, const struct ws_lanes_opts *opts);
/* Read all of a report, or of a stretch of it, whatever room it takes. */
#define WS_LANES_ALL_EVENTS                                                 \
	(struct ws_lanes_opts)                                              \
	{                                                                   \
		.unasked = UINT64_MAX, .room = UINT64_MAX, .to = UINT64_MAX \
	}
void ws_lanes_close(struct ws_lanes *lanes);
/* Whether a report has anything with a lane other than diagnostics and output. */
bool ws_lanes_have_rows(const struct ws_report *report);
/* Whether ranges are shown on GPUs: not where that would need more calls than are read without
 * being asked for. */
bool ws_lanes_projects(const struct ws_lanes *lanes);
void ws_lanes_wait_census(struct ws_lanes *lanes);
void ws_lanes_wait_stacks(struct ws_lanes *lanes); /* until `stacks` are there */
void ws_lanes_wait(
	struct ws_lanes *lanes); /* until everything is read that will be without being asked for */
/* Someone looks at this lane: have its events read if they are not. Call it after the census, under
 * `shown`. */
void ws_lanes_want(struct ws_lanes *lanes, uint32_t lane);
/* The same for drawing the lane at `px` ns a pixel: for a large lane, glimpses are enough where
 * they are fine enough. */
void ws_lanes_want_at(struct ws_lanes *lanes, uint32_t lane, uint64_t px);
/* How many lanes, except projected ones, are not read; *reading: how many of these will be. */
uint32_t ws_lanes_unread(struct ws_lanes *lanes, uint32_t *reading);
static inline bool ws_lane_ready(const struct ws_lane *lane)
{
	return __atomic_load_n(&lane->ready, __ATOMIC_ACQUIRE);
}

/* The lane is not ready, but will be. */
static inline bool ws_lane_reading(const struct ws_lane *lane)
{
	uint8_t state = __atomic_load_n(&lane->state, __ATOMIC_RELAXED);

	return state == WS_LANE_WANTED || state == WS_LANE_READING;
}

/* ---- levels (level.c) ---- */

/* Make the levels of a lane from its raw events, which are consumed. */
void ws_make_lane_levels(struct ws_lanes *lanes, struct ws_lane *lane);
void ws_lane_free(struct ws_lane *lane);
/* Undo ws_make_lane_levels: frees the lane's levels. */
void ws_forget_lane_levels(struct ws_lane *lane);

/* The level that shows how busy a lane is: one without overlaps that covers all its events; NULL
 * for a lane without any. */
static inline const struct ws_level *ws_lane_cover(const struct ws_lane *lane)
{
	return lane->cover ? lane->cover : lane->levels ? &lane->level[0] : NULL;
}

static inline uint64_t ws_level_dur(const struct ws_level *level, uint32_t i)
{
	if (ws_likely(level->dur[i] != UINT32_MAX))
		return level->dur[i];
	for (size_t low = 0, high = level->long_n; low < high;) {
		size_t mid = (low + high) / 2;

		if (level->longs[mid].at == i)
			return level->longs[mid].dur;
		if (level->longs[mid].at < i)
			low = mid + 1;
		else
			high = mid;
	}
	return UINT32_MAX;
}

static inline uint64_t ws_level_end(const struct ws_level *level, uint32_t i)
{
	return level->start[i] + ws_level_dur(level, i);
}

/* Events from..to-1 touch [t0, t1): they start before t1 and end after t0; an instant at t0 touches
 * it too. */
void ws_level_range(const struct ws_level *level, int64_t t0, int64_t t1, uint32_t *from,
		    uint32_t *to);
/* The first event in from..to-1 that starts at `t` or later. It is found quickly near `from`. */
uint32_t ws_level_seek(const struct ws_level *level, uint32_t from, uint32_t to, uint64_t t);
/* Whether events of a lane nest; start/end ranges of NVTX may overlap in any way. */
static inline bool ws_lane_nests(const struct ws_lane *lane)
{
	return ws_lane_descs[lane->kind].flags & WS_LANE_IS_NESTS &&
	       !(lane->kind == WS_LANE_NVTX && lane->key[2]);
}
/*
 * How much of t0..t1 (times of the session) an event takes without the events directly inside it,
 * which are on the level below. `below` is where the search for these begins: 0, or the value that
 * it was set to for an earlier event of the same level.
 */
uint64_t ws_lane_own_time(const struct ws_lane *lane, const struct ws_level *level, uint32_t event,
			  int64_t t0, int64_t t1, uint32_t *below);
/* How much of an event is in t0..t1. */
static inline uint64_t ws_level_clip(const struct ws_level *level, uint32_t event, int64_t t0,
				     int64_t t1)
{
	int64_t from = (int64_t)level->start[event], to = (int64_t)ws_level_end(level, event);

	from = from > t0 ? from : t0;
	to = to < t1 ? to : t1;
	return to > from ? (uint64_t)(to - from) : 0;
}
uint64_t ws_level_busy(const struct ws_level *level, uint32_t from,
		       uint32_t to); /* sum of durations */
uint32_t ws_level_longest(const struct ws_level *level, uint32_t from, uint32_t to);
/* The least and the greatest value of from..to-1; NAN where none is known. */
void ws_level_extremes(const struct ws_level *level, uint32_t from, uint32_t to, double *low,
		       double *high);

/*
 * Whether a category of slices means calls of a library. Imports name it after the table that the
 * calls were in, CUBLAS_EVENTS, CUDNN_EVENTS, MPI_P2P_EVENTS; other tools' categories are not
 * written this way.
 */
bool ws_lane_is_library(const char *category, size_t n);

/* ---- closeup.c ---- */

/*
 * The lanes that are not read, as far as t0..t1 (times of the session) shows them: by number, NULL
 * for the others and where this would touch too many blocks. `lanes` may name a lane twice.
 * Thread-safe after the census.
 */
struct ws_lane **ws_make_closeup(struct ws_lanes *lanes_l, const uint32_t *lanes, size_t n,
				 int64_t t0, int64_t t1);
void ws_free_closeup(struct ws_lanes *lanes_l, struct ws_lane **lanes);

/* ---- NVTX ranges projected on GPUs (project.c) ---- */

/* After the census: make the projected lanes that may exist. ws_project_ranges fills them and makes
 * them ready; a lane without events never becomes ready. */
void ws_project_lanes(struct ws_lanes *lanes);
void ws_project_ranges(struct ws_lanes *lanes);
/* Number of the lane, made if it is new; UINT32_MAX when there are too many. Before the census is
 * done only. */
uint32_t ws_make_lane(struct ws_lanes *lanes, uint8_t kind, const uint32_t key[4]);

/* ---- states of threads (thread_states.c) ---- */

/* The events whose colours the page uses for states. */
enum ws_state_class {
#define WS_STATE_CLASS(class, word) WS_STATE_##class,
#include "schema/tiles.def"
};

/* The `ref` of such an event, which is no row. */
static inline uint32_t ws_state_ref(uint32_t doing, uint32_t wait, uint32_t after)
{
	return doing | wait << 2 | after << 8;
}
static inline enum ws_doing ws_state_doing(uint32_t ref)
{
	return (enum ws_doing)(ref & 3);
}
static inline enum ws_wait ws_state_wait(uint32_t ref)
{
	return (enum ws_wait)(ref >> 2 & 0x3f);
}
static inline bool ws_state_runs(uint32_t ref)
{
	return ws_state_doing(ref) == WS_DOING_RUN;
}
uint8_t ws_state_class(uint32_t ref); /* enum ws_state_class */

/* What the details of a state show, as if the state were a row: columns and their values. A column
 * is a word, or a value of its type. */
enum { WS_STATE_COLUMNS = 10 };
extern const struct ws_column_desc ws_state_columns[WS_STATE_COLUMNS];
static inline bool ws_state_is_word(uint32_t column)
{
	return column < 2;
}
const char *ws_state_word(const struct ws_state *st, uint32_t column); /* NULL for none */
uint64_t ws_state_value(const struct ws_state *st, uint32_t column);

/* After the census: make the lanes of threads for which only calls are known. */
void ws_state_lanes(struct ws_lanes *lanes);
/* Raw events of the lanes that show states; `in` is by lane. */
void ws_fill_states(struct ws_lanes *lanes, const uint8_t *in);

/* ---- names (names.c) ---- */

/* Text of a name as bytes of the report, which are untrusted; valid as long as the report and `l`.
 */
const char *ws_lane_name(const struct ws_lanes *lanes, uint32_t name, size_t *len);
/* Names with equal texts have equal keys. */
uint32_t ws_lane_name_key(const struct ws_lanes *lanes, uint32_t name);

/* The same for names that are shown as one because they differ only in numbers (query/fold.h): the
 * key that all of them have, and the form that they are shown as. */
uint32_t ws_lane_fold_key(const struct ws_lanes *lanes, uint32_t name);
const char *ws_lane_fold_name(const struct ws_lanes *lanes, uint32_t name, size_t *len);
bool ws_lane_is_form(const struct ws_lanes *lanes, uint32_t name);

/* Whether the names of a kind's events say less than their full names: several full names have the
 * same short one. Reads the names of all rows the first time. Thread-safe. */
bool ws_lanes_share_names(struct ws_lanes *lanes, uint32_t kind);

/* ---- space.c ---- */

/*
 * Memory of a lane: small ones are allocated, large ones are a mapping of an unlinked file in
 * TMPDIR or /var/tmp (or anonymous memory when there is no room for that). Zeroed.
 */
void *ws_allocate_space(size_t bytes);
void ws_free_space(void *memory, size_t bytes);
/* How many bytes of such memory may be used: a part of the free memory. */
uint64_t ws_measure_free_space(void);

#endif
