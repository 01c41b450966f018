/*
 * tile.h - a stretch of a lane as drawn at a scale.
 *
 * Tile `index` of scale `k` spans WS_TILE_PIXELS pixels of 2^k ns from time zero + index * span. An
 * event of at least a pixel is a rectangle of its own; shorter ones that start in the same pixel
 * are one rectangle that says how many there are, which is the longest, and how much of the pixel
 * is busy. Nothing is left out: a rectangle of its level covers every event that touches the tile,
 * and every rectangle ends where an event ends.
 */
#ifndef WS_LANES_TILE_H
#define WS_LANES_TILE_H

#include "lanes/lane.h"

enum {
#define WS_TILE_NUMBER(name, value) WS_##name = value,
#include "schema/tiles.def"
};
enum { WS_TILE_SCALES = 48, WS_TILE_BEYOND = 1 << 16 };

enum ws_rect_flags {
#define WS_RECT_FLAG(flag, value) WS_RECT_##flag = value,
#include "schema/tiles.def"
};

struct ws_rect {      /* as sent, little-endian */
	float x0, x1; /* pixels from the tile's start; outside of the tile where the event is, up to
			 WS_TILE_BEYOND */
	union {
		uint32_t event; /* its number on the level; for a group that of the longest */
		float high;	/* counters: most, least and last value */
	};
	union {
		uint32_t count;
		float low;
	};
	union {
		uint32_t name;
		float value;
	};
	uint8_t color; /* a hash of the name, or a number in the palette */
	uint8_t fill;  /* how busy it is; 255: all the time */
	uint8_t flags, src;
};
#define WS_RECT_FIELD(field, type, offset)                        \
	_Static_assert(offsetof(struct ws_rect, field) == offset, \
		       "the page reads " #field " elsewhere");
#include "schema/tiles.def"
_Static_assert(sizeof(struct ws_rect) == WS_RECT_BYTES, "the page takes rectangles for as large");

struct ws_rects {
	struct ws_rect *rects;
	size_t n, cap;
};

static inline int64_t ws_tile_start(const struct ws_lanes *lanes, int k, int64_t index)
{
	return (int64_t)lanes->zero + index * ((int64_t)WS_TILE_PIXELS << k);
}

/* Colour of an event that has none of its own: a hash of its name. */
uint8_t ws_choose_event_color(const struct ws_lanes *lanes, const struct ws_level *level,
			      uint32_t i);

/* Append the rectangles of level `level` of a lane; a lane that is not ready gives its preview on
 * level 0. */
void ws_draw_tile(const struct ws_lanes *lanes, const struct ws_lane *lane, uint32_t level, int k,
		  int64_t index, struct ws_rects *out);
/* With it, a name stands for all names that are shown as the same form. */
#define WS_TILE_FORM (UINT64_C(1) << 32)
/* The same with only the events that have one of these names. The lane must be ready; all events
 * that the tile spans are visited. */
struct ws_tile_names {
	int k; /* of the tile, with `index` */
	int64_t index;
	const uint64_t *names;
	size_t n;
};
void ws_draw_named_tile(const struct ws_lanes *lanes, const struct ws_lane *lane, uint32_t level,
			const struct ws_tile_names *tile, struct ws_rects *out);
/*
 * The sum of the first `parts` counters, as a counter: each level of a stack is drawn this way. The
 * lanes must be ready; a counter that has no value yet counts as 0, and where one has a gap so has
 * the sum. All values that the tile spans are visited.
 */
enum { WS_TILE_PARTS = 16 };
struct ws_tile_pile {
	int k; /* of the tile, with `index` */
	int64_t index;
	size_t parts;
};
void ws_draw_pile_tile(const struct ws_lanes *lanes, const struct ws_lane *const *parts,
		       const struct ws_tile_pile *tile, struct ws_rects *out);

#endif
