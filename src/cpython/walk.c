/*
 * walk.c - from a thread state to its frames; see cpython.h.
 *
 * Frame objects (to 3.10) lie all over the heap, so those of the walk before are read in one go
 * first, the outermost ones before the inner ones: most are there still. Interpreter frames
 * (from 3.11) lie one behind the other in the thread's data stack, callers below: a frame is read
 * together with what lies before it, and its callers are found there. Frames of generators lie in
 * the heap and take a window of their own.
 */
#include "cpython/cpython.h"
#include "base/choose.h"

#include <string.h>

#define FRAME_BYTES 80 /* of an interpreter frame, as far as anything is read from it */
#define OBJECT_BYTES 112

static uint64_t load64(const uint8_t *bytes)
{
	uint64_t v;

	memcpy(&v, bytes, 8);
	return v;
}

static int32_t load32(const uint8_t *bytes)
{
	int32_t v;

	memcpy(&v, bytes, 4);
	return v;
}

/* ---- interpreter frames ---- */

static const uint8_t *in_window(const struct ws_py_walk *walk, uint64_t at)
{
	for (int i = 0; i < 2; i++)
		if (at >= walk->window_at[i] &&
		    at - walk->window_at[i] + FRAME_BYTES <= walk->window_bytes[i])
			return walk->window[i] + (at - walk->window_at[i]);
	return NULL;
}

/* The frame at `at`: from a window, or by reading one that ends with it. The window that was filled
 * longer ago is given up. */
static const uint8_t *fetch(struct ws_py_walk *walk, const struct ws_py_memory *memory, uint64_t at,
			    int *last)
{
	const uint8_t *bytes = in_window(walk, at);
	struct ws_py_piece pieces[2];
	size_t before = WS_PY_WINDOW - FRAME_BYTES, n;
	int i = !*last;

	if (bytes)
		return bytes;
	if (at < before + FRAME_BYTES || at & 7)
		return NULL;
	/* Not below its page and the one before: unmapped memory there is likely, and makes the
	 * whole read fail. */
	if (before > (at & 4095) + 4096)
		before = (at & 4095) + 4096;
	pieces[0] = (struct ws_py_piece){at, walk->window[i] + before, FRAME_BYTES};
	pieces[1] = (struct ws_py_piece){at - before, walk->window[i], before};
	n = memory->read(memory->ctx, pieces, 2);
	if (!n)
		return NULL;
	if (n == 1 && (at & 4095) >= 64) { /* the page before is not there */
		before = at & 4095;
		memmove(walk->window[i] + before, pieces[0].to, FRAME_BYTES);
		pieces[1] = (struct ws_py_piece){at - before, walk->window[i], before};
		n = memory->read(memory->ctx, &pieces[1], 1) == 1 ? 2 : 1;
	}
	if (n == 1) {
		memmove(walk->window[i], walk->window[i] + before, FRAME_BYTES);
		before = 0;
	}
	walk->window_at[i] = at - before;
	walk->window_bytes[i] = before + FRAME_BYTES;
	*last = i;
	return walk->window[i] + before;
}

static uint64_t first_frame(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
			    uint64_t state, bool *ok)
{
	uint64_t p = 0;

	*ok = ws_py_read(memory, state + layout->thread_frame, &p, 8);
	if (layout->chain != WS_PY_CFRAMES || !*ok || !p)
		return p;
	*ok = ws_py_read(memory, p + layout->cframe_frame, &p, 8);
	return p;
}

void ws_py_take(const struct ws_py_layout *layout, struct ws_py_taken *taken, uint64_t code,
		int32_t at, uint32_t owner)
{
	uint32_t flags = layout->chain == WS_PY_OBJECTS || (layout->version == 0x030b && owner)
				 ? WS_PY_ENTRY
				 : 0;

	if (layout->version < 0x030c || owner < WS_PY_OWNER_INTERPRETER) {
		taken->out[taken->n++] = (struct ws_py_frame){code, at, flags};
		return;
	}
	/* A frame that the evaluator pushes for itself ends the frames of one call of it. */
	if (taken->n > taken->entry)
		taken->out[taken->n - 1].flags |= WS_PY_ENTRY;
	else
		taken->out[taken->n++] =
			(struct ws_py_frame){.at = -1, .flags = WS_PY_ENTRY | WS_PY_NONE};
	taken->entry = taken->n;
}

static void take_frame(const struct ws_py_layout *layout, const uint8_t *bytes,
		       struct ws_py_taken *taken)
{
	uint64_t code = load64(bytes + layout->frame_code) & ~UINT64_C(7),
		 at = load64(bytes + layout->frame_at); /* the low bits are tags, from 3.14 on */
	int64_t offset = (int64_t)(at - code - layout->code_start);

	ws_py_take(layout, taken, code, offset >= 0 && offset < INT32_MAX ? (int32_t)offset : -1,
		   bytes[layout->frame_owner]);
}

static size_t walk_frames(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
			  uint64_t state, struct ws_py_walk *walk, struct ws_py_frame *out,
			  size_t most, bool *truncated)
{
	struct ws_py_taken taken = {.out = out};
	int last = 0;
	bool ok;
	uint64_t at = first_frame(layout, memory, state, &ok);

	*truncated = !ok;
	walk->window_bytes[0] = walk->window_bytes[1] = 0;
	/* Twice as many steps as frames: those that the evaluator pushes count too, and a chain
	 * that runs in circles must end. */
	for (size_t step = 0; at; step++) {
		const uint8_t *bytes = step < 2 * most ? fetch(walk, memory, at, &last) : NULL;

		if (!bytes || taken.n >= most) {
			*truncated = true;
			break;
		}
		take_frame(layout, bytes, &taken);
		at = load64(bytes + layout->frame_previous);
	}
	return taken.n;
}

/* ---- frame objects ---- */

int32_t ws_py_object_at(const struct ws_py_layout *layout, int32_t index)
{
	if (index < 0 || index > INT32_MAX / 2)
		return -1;
	return layout->version >= 0x030a ? index * 2 : index;
}

static void read_ahead(const struct ws_py_memory *memory, struct ws_py_walk *walk)
{
	struct ws_py_piece pieces[WS_PY_PIECES];
	uint32_t n = walk->seen_n;

	/* seen[] is from the innermost outwards; the outermost are the ones that last. */
	for (uint32_t i = 0; i < n; i++)
		pieces[i] = (struct ws_py_piece){walk->seen[n - 1 - i], walk->ready[n - 1 - i],
						 OBJECT_BYTES};
	walk->ready_n = n ? (uint32_t)memory->read(memory->ctx, pieces, n) : 0;
}

static const uint8_t *fetch_object(struct ws_py_walk *walk, const struct ws_py_memory *memory,
				   uint64_t at, uint32_t *hint, uint8_t *room)
{
	for (uint32_t i = *hint; i < walk->seen_n; i++)
		if (walk->seen[i] == at) {
			*hint = i + 1;
			if (i >= walk->seen_n - walk->ready_n)
				return walk->ready[i];
			break;
		}
	return ws_py_read(memory, at, room, OBJECT_BYTES) ? room : NULL;
}

static size_t walk_objects(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
			   uint64_t state, struct ws_py_walk *walk, struct ws_py_frame *out,
			   size_t most, bool *truncated)
{
	uint64_t at = 0, met[WS_PY_PIECES];
	uint32_t hint = 0, met_n = 0;
	uint8_t room[OBJECT_BYTES];
	size_t n = 0;

	*truncated = !ws_py_read(memory, state + layout->thread_frame, &at, 8);
	read_ahead(memory, walk);
	while (at) {
		const uint8_t *bytes =
			n < most && !(at & 7) ? fetch_object(walk, memory, at, &hint, room) : NULL;

		if (!bytes) {
			*truncated = true;
			break;
		}
		out[n++] = (struct ws_py_frame){
			load64(bytes + layout->frame_code),
			ws_py_object_at(layout, load32(bytes + layout->frame_at)), WS_PY_ENTRY};
		/* The outermost ones are kept when there are too many. */
		met[met_n++ % WS_PY_PIECES] = at;
		at = load64(bytes + layout->frame_previous);
	}
	walk->seen_n = ws_min(met_n, WS_PY_PIECES);
	for (uint32_t i = 0; i < walk->seen_n; i++)
		walk->seen[i] = met[(met_n - walk->seen_n + i) % WS_PY_PIECES];
	return n;
}

size_t ws_py_walk(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
		  uint64_t state, struct ws_py_walk *walk, struct ws_py_frame *out, size_t most,
		  bool *truncated)
{
	return layout->chain == WS_PY_OBJECTS
		       ? walk_objects(layout, memory, state, walk, out, most, truncated)
		       : walk_frames(layout, memory, state, walk, out, most, truncated);
}
