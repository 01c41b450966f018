/*
 * walk.c - from a thread state to its frames; see cpython.h.
 *
 * Frame objects (up to 3.10) are scattered over the heap, so those of the previous walk are read
 * first, all at once and from the outermost inwards: most still exist. Interpreter frames (from
 * 3.11) lie one after the other in the thread's data stack, callers at lower addresses: a frame is
 * read together with the memory before it, which holds its callers. Frames of generators are on the
 * heap, and each needs a window of its own.
 */
#include "cpython/cpython.h"

#include <string.h>

#define FRAME_BYTES 80	 /* of an interpreter frame, as far as it is used */
#define OBJECT_BYTES 112 /* of a frame object, likewise */

static uint64_t load_u64(const uint8_t *bytes)
{
	uint64_t value;

	memcpy(&value, bytes, 8);
	return value;
}

static int32_t load_i32(const uint8_t *bytes)
{
	int32_t value;

	memcpy(&value, bytes, 4);
	return value;
}

/* ---- interpreter frames ---- */

/* The frame at `at`, if a window holds it. */
static const uint8_t *find_in_window(const struct ws_py_walk *walk, uint64_t at)
{
	for (int i = 0; i < 2; i++)
		if (at >= walk->window_at[i] &&
		    at - walk->window_at[i] + FRAME_BYTES <= walk->window_bytes[i])
			return walk->window[i] + (at - walk->window_at[i]);
	return NULL;
}

/* The frame at `at`: from a window that holds it, or else by reading a new window that ends with it
 * and replaces the older of the two. NULL when it cannot be read. */
static const uint8_t *fetch_frame(struct ws_py_walk *walk, const struct ws_py_memory *memory,
				  uint64_t at, int *last)
{
	const uint8_t *bytes = find_in_window(walk, at);
	struct ws_py_piece pieces[2];
	size_t before = WS_PY_WINDOW - FRAME_BYTES, got;
	int which = !*last;

	if (bytes)
		return bytes;
	if (at < before + FRAME_BYTES || at & 7)
		return NULL;
	/* Do not read below the frame's page and the one before: memory there is likely to be
	 * unmapped, which would make the whole read fail. */
	if (before > (at & 4095) + 4096)
		before = (at & 4095) + 4096;
	pieces[0] = (struct ws_py_piece){at, walk->window[which] + before, FRAME_BYTES};
	pieces[1] = (struct ws_py_piece){at - before, walk->window[which], before};
	got = memory->read(memory->ctx, pieces, 2);
	if (!got)
		return NULL;
	if (got == 1 && (at & 4095) >= 64) { /* the page before is not mapped */
		before = at & 4095;
		memmove(walk->window[which] + before, pieces[0].to, FRAME_BYTES);
		pieces[1] = (struct ws_py_piece){at - before, walk->window[which], before};
		got = 1 + (memory->read(memory->ctx, &pieces[1], 1) == 1);
	}
	if (got == 1) {
		memmove(walk->window[which], walk->window[which] + before, FRAME_BYTES);
		before = 0;
	}
	walk->window_at[which] = at - before;
	walk->window_bytes[which] = before + FRAME_BYTES;
	*last = which;
	return walk->window[which] + before;
}

static uint64_t find_first_frame(const struct ws_py_layout *layout,
				 const struct ws_py_memory *memory, uint64_t state, bool *ok)
{
	uint64_t frame = 0;

	*ok = ws_py_read(memory, state + layout->thread_frame, &frame, 8);
	if (layout->chain != WS_PY_CFRAMES || !*ok || !frame)
		return frame;
	*ok = ws_py_read(memory, frame + layout->cframe_frame, &frame, 8);
	return frame;
}

void ws_py_add_frame(const struct ws_py_layout *layout, struct ws_py_frame_list *taken,
		     uint64_t code, int32_t at, uint32_t owner)
{
	uint32_t flags = 0;

	if (layout->chain == WS_PY_OBJECTS || (layout->version == 0x030b && owner))
		flags = WS_PY_ENTRY;

	if (layout->version < 0x030c || owner < WS_PY_OWNER_INTERPRETER) {
		taken->out[taken->count++] = (struct ws_py_frame){code, at, flags};
		return;
	}
	/* A frame that the evaluator pushes for itself ends the frames of a call of it. */
	if (taken->count > taken->entry)
		taken->out[taken->count - 1].flags |= WS_PY_ENTRY;
	else
		taken->out[taken->count++] =
			(struct ws_py_frame){.at = -1, .flags = WS_PY_ENTRY | WS_PY_NONE};
	taken->entry = taken->count;
}

static void add_interpreter_frame(const struct ws_py_layout *layout, const uint8_t *bytes,
				  struct ws_py_frame_list *taken)
{
	uint64_t code = load_u64(bytes + layout->frame_code) & ~UINT64_C(7),
		 at = load_u64(bytes + layout->frame_at); /* the low bits are tags, from 3.14 on */
	int64_t offset = (int64_t)(at - code - layout->code_start);

	if (offset < 0 || offset >= INT32_MAX)
		offset = -1;
	ws_py_add_frame(layout, taken, code, (int32_t)offset, bytes[layout->frame_owner]);
}

static size_t walk_interpreter_frames(const struct ws_py_layout *layout,
				      const struct ws_py_memory *memory, uint64_t state,
				      struct ws_py_walk *walk, struct ws_py_frame *out, size_t most)
{
	struct ws_py_frame_list taken = {.out = out};
	int last = 0;
	bool ok;
	uint64_t at = find_first_frame(layout, memory, state, &ok);

	walk->truncated = !ok;
	walk->window_bytes[0] = walk->window_bytes[1] = 0;
	/* At most twice as many steps as frames: frames that the evaluator pushes count as steps,
	 * too, and a circular chain must end. */
	for (size_t step = 0; at; step++) {
		const uint8_t *bytes = NULL;

		if (step < 2 * most)
			bytes = fetch_frame(walk, memory, at, &last);
		if (!bytes || taken.count >= most) {
			walk->truncated = true;
			break;
		}
		add_interpreter_frame(layout, bytes, &taken);
		at = load_u64(bytes + layout->frame_previous);
	}
	return taken.count;
}

/* ---- frame objects ---- */

int32_t ws_py_convert_index(const struct ws_py_layout *layout, int32_t index)
{
	if (index < 0 || index > INT32_MAX / 2)
		return -1;
	if (layout->version >= 0x030a)
		index *= 2; /* it counts instructions, not bytes */
	return index;
}

static void read_seen_objects(const struct ws_py_memory *memory, struct ws_py_walk *walk)
{
	struct ws_py_piece pieces[WS_PY_PIECES];
	uint32_t count = walk->seen_count;

	/* seen[] goes from the innermost outwards; the outermost frames live longest. */
	for (uint32_t i = 0; i < count; i++)
		pieces[i] = (struct ws_py_piece){walk->seen[count - 1 - i],
						 walk->ready[count - 1 - i], OBJECT_BYTES};
	walk->ready_count = 0;
	if (count)
		walk->ready_count = (uint32_t)memory->read(memory->ctx, pieces, count);
}

/* The frame object at `at`, read ahead or now (into `buffer`). *hint is the place in seen[] after
 * the last one found. */
static const uint8_t *fetch_object(struct ws_py_walk *walk, const struct ws_py_memory *memory,
				   uint64_t at, uint32_t *hint, uint8_t *buffer)
{
	for (uint32_t i = *hint; i < walk->seen_count; i++)
		if (walk->seen[i] == at) {
			*hint = i + 1;
			if (i >= walk->seen_count - walk->ready_count)
				return walk->ready[i];
			break;
		}
	if (!ws_py_read(memory, at, buffer, OBJECT_BYTES))
		return NULL;
	return buffer;
}

static size_t walk_frame_objects(const struct ws_py_layout *layout,
				 const struct ws_py_memory *memory, uint64_t state,
				 struct ws_py_walk *walk, struct ws_py_frame *out, size_t most)
{
	uint64_t at = 0, visited[WS_PY_PIECES];
	uint32_t hint = 0, visited_count = 0;
	uint8_t buffer[OBJECT_BYTES];
	size_t count = 0;

	walk->truncated = !ws_py_read(memory, state + layout->thread_frame, &at, 8);
	read_seen_objects(memory, walk);
	while (at) {
		const uint8_t *bytes = NULL;

		if (count < most && !(at & 7))
			bytes = fetch_object(walk, memory, at, &hint, buffer);
		if (!bytes) {
			walk->truncated = true;
			break;
		}
		out[count++] = (struct ws_py_frame){
			load_u64(bytes + layout->frame_code),
			ws_py_convert_index(layout, load_i32(bytes + layout->frame_at)),
			WS_PY_ENTRY};
		/* If there are too many, the outermost ones are kept. */
		visited[visited_count++ % WS_PY_PIECES] = at;
		at = load_u64(bytes + layout->frame_previous);
	}
	walk->seen_count = (uint32_t)ws_py_min(visited_count, WS_PY_PIECES);
	for (uint32_t i = 0; i < walk->seen_count; i++)
		walk->seen[i] = visited[(visited_count - walk->seen_count + i) % WS_PY_PIECES];
	return count;
}

size_t ws_py_walk(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
		  uint64_t state, struct ws_py_walk *walk, struct ws_py_frame *out, size_t most)
{
	if (layout->chain == WS_PY_OBJECTS)
		return walk_frame_objects(layout, memory, state, walk, out, most);
	return walk_interpreter_frames(layout, memory, state, walk, out, most);
}
