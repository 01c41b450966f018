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

#include <string.h>

#define FRAME_BYTES 80 /* of an interpreter frame, as far as anything is read from it */
#define OBJECT_BYTES 112

static uint64_t load64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, 8);
	return v;
}

static int32_t load32(const uint8_t *p)
{
	int32_t v;

	memcpy(&v, p, 4);
	return v;
}

/* ---- interpreter frames ---- */

static const uint8_t *in_window(const struct ws_py_walk *w, uint64_t at)
{
	for (int i = 0; i < 2; i++)
		if (at >= w->window_at[i] &&
		    at - w->window_at[i] + FRAME_BYTES <= w->window_bytes[i])
			return w->window[i] + (at - w->window_at[i]);
	return NULL;
}

/* The frame at `at`: from a window, or by reading one that ends with it. The window that was filled
 * longer ago is given up. */
static const uint8_t *fetch(struct ws_py_walk *w, const struct ws_py_memory *m, uint64_t at,
			    int *last)
{
	const uint8_t *p = in_window(w, at);
	struct ws_py_piece pieces[2];
	size_t before = WS_PY_WINDOW - FRAME_BYTES, n;
	int i = !*last;

	if (p)
		return p;
	if (at < before + FRAME_BYTES || at & 7)
		return NULL;
	/* Not below its page and the one before: unmapped memory there is likely, and makes the
	 * whole read fail. */
	if (before > (at & 4095) + 4096)
		before = (at & 4095) + 4096;
	pieces[0] = (struct ws_py_piece){at, w->window[i] + before, FRAME_BYTES};
	pieces[1] = (struct ws_py_piece){at - before, w->window[i], before};
	n = m->read(m->ctx, pieces, 2);
	if (!n)
		return NULL;
	if (n == 1 && (at & 4095) >= 64) { /* the page before is not there */
		before = at & 4095;
		memmove(w->window[i] + before, pieces[0].to, FRAME_BYTES);
		pieces[1] = (struct ws_py_piece){at - before, w->window[i], before};
		n = m->read(m->ctx, &pieces[1], 1) == 1 ? 2 : 1;
	}
	if (n == 1) {
		memmove(w->window[i], w->window[i] + before, FRAME_BYTES);
		before = 0;
	}
	w->window_at[i] = at - before;
	w->window_bytes[i] = before + FRAME_BYTES;
	*last = i;
	return w->window[i] + before;
}

static uint64_t first_frame(const struct ws_py_layout *l, const struct ws_py_memory *m,
			    uint64_t state, bool *ok)
{
	uint64_t p = 0;

	*ok = ws_py_read(m, state + l->thread_frame, &p, 8);
	if (l->chain != WS_PY_CFRAMES || !*ok || !p)
		return p;
	*ok = ws_py_read(m, p + l->cframe_frame, &p, 8);
	return p;
}

void ws_py_take(const struct ws_py_layout *l, struct ws_py_taken *t, uint64_t code, int32_t at,
		uint32_t owner)
{
	uint32_t flags =
		l->chain == WS_PY_OBJECTS || (l->version == 0x030b && owner) ? WS_PY_ENTRY : 0;

	if (l->version < 0x030c || owner < WS_PY_OWNER_INTERPRETER) {
		t->out[t->n++] = (struct ws_py_frame){code, at, flags};
		return;
	}
	/* A frame that the evaluator pushes for itself ends the frames of one call of it. */
	if (t->n > t->entry)
		t->out[t->n - 1].flags |= WS_PY_ENTRY;
	else
		t->out[t->n++] = (struct ws_py_frame){.at = -1, .flags = WS_PY_ENTRY | WS_PY_NONE};
	t->entry = t->n;
}

static void take_frame(const struct ws_py_layout *l, const uint8_t *p, struct ws_py_taken *t)
{
	uint64_t code = load64(p + l->frame_code) & ~UINT64_C(7),
		 at = load64(p + l->frame_at); /* the low bits are tags, from 3.14 on */
	int64_t offset = (int64_t)(at - code - l->code_start);

	ws_py_take(l, t, code, offset >= 0 && offset < INT32_MAX ? (int32_t)offset : -1,
		   p[l->frame_owner]);
}

static size_t walk_frames(const struct ws_py_layout *l, const struct ws_py_memory *m,
			  uint64_t state, struct ws_py_walk *w, struct ws_py_frame *out,
			  size_t most, bool *truncated)
{
	struct ws_py_taken t = {.out = out};
	int last = 0;
	bool ok;
	uint64_t at = first_frame(l, m, state, &ok);

	*truncated = !ok;
	w->window_bytes[0] = w->window_bytes[1] = 0;
	/* Twice as many steps as frames: those that the evaluator pushes count too, and a chain
	 * that runs in circles must end. */
	for (size_t step = 0; at; step++) {
		const uint8_t *p = step < 2 * most ? fetch(w, m, at, &last) : NULL;

		if (!p || t.n >= most) {
			*truncated = true;
			break;
		}
		take_frame(l, p, &t);
		at = load64(p + l->frame_previous);
	}
	return t.n;
}

/* ---- frame objects ---- */

int32_t ws_py_object_at(const struct ws_py_layout *l, int32_t index)
{
	if (index < 0 || index > INT32_MAX / 2)
		return -1;
	return l->version >= 0x030a ? index * 2 : index;
}

static void read_ahead(const struct ws_py_memory *m, struct ws_py_walk *w)
{
	struct ws_py_piece p[WS_PY_PIECES];
	uint32_t n = w->seen_n;

	/* seen[] is from the innermost outwards; the outermost are the ones that last. */
	for (uint32_t i = 0; i < n; i++)
		p[i] = (struct ws_py_piece){w->seen[n - 1 - i], w->ready[n - 1 - i], OBJECT_BYTES};
	w->ready_n = n ? (uint32_t)m->read(m->ctx, p, n) : 0;
}

static const uint8_t *fetch_object(struct ws_py_walk *w, const struct ws_py_memory *m, uint64_t at,
				   uint32_t *hint, uint8_t *room)
{
	for (uint32_t i = *hint; i < w->seen_n; i++)
		if (w->seen[i] == at) {
			*hint = i + 1;
			if (i >= w->seen_n - w->ready_n)
				return w->ready[i];
			break;
		}
	return ws_py_read(m, at, room, OBJECT_BYTES) ? room : NULL;
}

static size_t walk_objects(const struct ws_py_layout *l, const struct ws_py_memory *m,
			   uint64_t state, struct ws_py_walk *w, struct ws_py_frame *out,
			   size_t most, bool *truncated)
{
	uint64_t at = 0, met[WS_PY_PIECES];
	uint32_t hint = 0, met_n = 0;
	uint8_t room[OBJECT_BYTES];
	size_t n = 0;

	*truncated = !ws_py_read(m, state + l->thread_frame, &at, 8);
	read_ahead(m, w);
	while (at) {
		const uint8_t *p =
			n < most && !(at & 7) ? fetch_object(w, m, at, &hint, room) : NULL;

		if (!p) {
			*truncated = true;
			break;
		}
		out[n++] = (struct ws_py_frame){load64(p + l->frame_code),
						ws_py_object_at(l, load32(p + l->frame_at)),
						WS_PY_ENTRY};
		/* The outermost ones are kept when there are too many. */
		met[met_n++ % WS_PY_PIECES] = at;
		at = load64(p + l->frame_previous);
	}
	w->seen_n = met_n < WS_PY_PIECES ? met_n : WS_PY_PIECES;
	for (uint32_t i = 0; i < w->seen_n; i++)
		w->seen[i] = met[(met_n - w->seen_n + i) % WS_PY_PIECES];
	return n;
}

size_t ws_py_walk(const struct ws_py_layout *l, const struct ws_py_memory *m, uint64_t state,
		  struct ws_py_walk *w, struct ws_py_frame *out, size_t most, bool *truncated)
{
	return l->chain == WS_PY_OBJECTS ? walk_objects(l, m, state, w, out, most, truncated)
					 : walk_frames(l, m, state, w, out, most, truncated);
}
