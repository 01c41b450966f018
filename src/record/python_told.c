/*
 * python_told.c - from what the program in the kernel wrote (python_bpf.c) to Python frames.
 *
 * Code objects come with pieces of their memory as they were at the sample, from which name, file
 * and lines are read as anywhere else (cpython.h). What a piece does not hold, because it was too
 * long or its page was not there, is read from outside now, when the object there is still the same
 * one. All of it comes from the target's memory and is checked as such.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "record/python_bpf.h"

#define CODES_MOST 200000u
#define LINGER_NS 2000000000u /* the last samples of a process come after its end */

struct ws_py_told_image { /* what one cookie stands for */
	struct ws_py_told_image *next;
	struct ws_py_proc *p; /* NULL: it has ended */
	uint64_t cookie, ended;
	struct ws_py_layout layout;
	struct ws_map codes;  /* id -> struct ws_py_known * */
	struct ws_map frames; /* hash of id and offset -> frame id in `sink` */
	struct ws_sink *sink;
};

static struct ws_py_told_image *image_of(const struct ws_python *py, uint64_t cookie)
{
	struct ws_py_told_image *im = py->told;

	while (im && im->cookie != cookie)
		im = im->next;
	return im;
}

void ws_py_told_begin(struct ws_python *py, struct ws_py_proc *p, uint64_t cookie)
{
	struct ws_py_told_image *im = image_of(py, cookie);

	if (!im) {
		im = ws_calloc(1, sizeof(*im));
		im->cookie = cookie;
		im->next = py->told;
		py->told = im;
		im->p = p;
	}
	if (im->p == p) /* else another process says the same number: it is the first one's */
		im->layout = p->layout;
}

void ws_py_told_end(struct ws_python *py, const struct ws_py_proc *p)
{
	for (struct ws_py_told_image *im = py->told; im; im = im->next)
		if (im->p == p) {
			im->p = NULL;
			im->ended = ws_raw_ns();
		}
}

static void forget(struct ws_py_told_image *im)
{
	for (size_t i = 0; i < im->codes.size; i++)
		if (im->codes.used[i])
			ws_py_known_free((struct ws_py_known *)(uintptr_t)im->codes.slots[i].value);
	ws_map_free(&im->codes);
	ws_map_free(&im->frames);
}

void ws_py_told_sweep(struct ws_python *py, uint64_t now)
{
	for (struct ws_py_told_image **at = &py->told, *im; (im = *at);) {
		if (!im->ended || now < im->ended + LINGER_NS) {
			at = &im->next;
			continue;
		}
		*at = im->next;
		forget(im);
		free(im);
	}
}

void ws_py_told_free(struct ws_python *py)
{
	for (struct ws_py_told_image *im = py->told; im; im = im->next)
		im->ended = 1;
	ws_py_told_sweep(py, UINT64_MAX);
}

/* ---- code objects ---- */

struct piece {
	uint64_t from;
	const uint8_t *bytes;
	size_t n;
};

struct memory { /* pieces, and the process they came from */
	struct piece piece[6];
	size_t n;
	struct ws_proc *proc; /* NULL: only pieces */
	bool outside;	      /* something was read there */
};

static bool from_piece(const struct memory *m, const struct ws_py_piece *want)
{
	for (size_t i = 0; i < m->n; i++) {
		const struct piece *p = &m->piece[i];

		if (want->from >= p->from && want->from - p->from <= p->n &&
		    want->bytes <= p->n - (want->from - p->from)) {
			memcpy(want->to, p->bytes + (want->from - p->from), want->bytes);
			return true;
		}
	}
	return false;
}

static size_t read_pieces(void *ctx, const struct ws_py_piece *p, size_t n)
{
	struct memory *m = ctx;
	size_t done = 0;

	for (; done < n; done++) {
		if (from_piece(m, &p[done]))
			continue;
		if (!m->proc || ws_py_read_process(m->proc, &p[done], 1) != 1)
			break;
		m->outside = true;
	}
	return done;
}

static void add_piece(struct memory *m, uint64_t from, const void *bytes, size_t n)
{
	if (from && n && from + n > from)
		m->piece[m->n++] = (struct piece){from, bytes, n};
}

/* Is the object still the one that was there at the sample? */
static bool still_there(const struct ws_py_told_image *im, struct ws_proc *proc, uint64_t code,
			const struct ws_py_code_key *key)
{
	struct ws_py_memory m = {ws_py_read_process, proc};
	uint8_t raw[WS_PY_KEY_BYTES];
	struct ws_py_code_key now;

	return ws_py_code_keys(&im->layout, &m, &code, 1, &now, raw) == 1 &&
	       !memcmp(&now, key, sizeof(now));
}

static struct ws_py_known *read_code(const struct ws_py_told_image *im,
				     const struct ws_py_told_code *c)
{
	struct memory pieces = {.proc = im->p ? im->p->proc : NULL};
	struct ws_py_memory m = {read_pieces, &pieces};
	uint8_t raw[WS_PY_KEY_BYTES];
	struct ws_py_code_key key;
	struct ws_py_known *k;

	add_piece(&pieces, c->code, c->head, c->head_bytes);
	add_piece(&pieces, c->key_name, c->key_text, sizeof(c->key_text));
	add_piece(&pieces, c->name, c->name_piece, c->name_bytes);
	add_piece(&pieces, c->file, c->file_piece, c->file_bytes);
	add_piece(&pieces, c->table, c->table_piece, c->table_bytes);
	if (ws_py_code_keys(&im->layout, &m, &c->code, 1, &key, raw) != 1)
		return NULL;
	k = ws_py_known_read(&im->layout, &m, c->code, &key);
	if (pieces.outside && !still_there(im, pieces.proc, c->code, &key)) {
		ws_py_known_free(k);
		pieces.proc = NULL;
		k = ws_py_known_read(&im->layout, &m, c->code, &key);
	}
	return k;
}

static void told_code(struct ws_python *py, const void *raw, size_t size)
{
	struct ws_py_told_code *c;
	struct ws_py_told_image *im;
	struct ws_py_known *k;

	if (size < sizeof(*c))
		return;
	c = ws_malloc(size); /* a raw record lies 4 bytes beside where it should */
	memcpy(c, raw, size);
	im = image_of(py, c->cookie);
	if (!im || c->head_bytes > sizeof(c->head) || c->name_bytes > sizeof(c->name_piece) ||
	    c->file_bytes > sizeof(c->file_piece) || c->table_bytes > size - sizeof(*c) ||
	    im->codes.n >= CODES_MOST) {
		free(c);
		return;
	}
	k = read_code(im, c);
	if (k) {
		ws_py_known_free(
			(struct ws_py_known *)(uintptr_t)ws_map_get(&im->codes, c->id, NULL));
		ws_map_set(&im->codes, c->id, (uintptr_t)k);
	}
	free(c);
}

void ws_python_told(struct ws_python *py, const void *raw, size_t size)
{
	uint32_t kind = 0;

	if (size >= sizeof(kind))
		memcpy(&kind, raw, sizeof(kind));
	if (py && kind == WS_PY_TOLD_CODE)
		told_code(py, raw, size);
}

bool ws_python_told_frames(const void *raw, size_t size)
{
	uint32_t kind = 0;

	if (size >= sizeof(kind))
		memcpy(&kind, raw, sizeof(kind));
	return kind == WS_PY_TOLD_FRAMES;
}

/* ---- frames ---- */

static uint32_t frame_id(struct ws_py_told_image *im, struct ws_stackset *st, uint64_t id,
			 int32_t at)
{
	uint64_t hash = id * UINT64_C(0x9e3779b97f4a7c15) + (uint32_t)at;
	bool found;
	uint32_t frame = (uint32_t)ws_map_get(&im->frames, hash, &found);
	const struct ws_py_known *k;

	if (found)
		return frame;
	k = (const struct ws_py_known *)(uintptr_t)ws_map_get(&im->codes, id, NULL);
	if (!k) /* it may be told at the next sample */
		return ws_stackset_frame(st, WS_FRAME_PYTHON, WS_UNWIND_UNKNOWN, NULL, 0,
					 "[code not read]", "");
	frame = k->shim ? 0 : ws_py_known_frame(st, k, at);
	ws_map_set(&im->frames, hash, frame);
	return frame;
}

static void make_room(struct ws_py_stack *s, size_t n)
{
	size_t had = s->cap;

	ws_grow(s->frame, s->cap, n + 1);
	if (s->cap != had) {
		s->entry = ws_realloc(s->entry, s->cap * sizeof(*s->entry));
		s->code = ws_realloc(s->code, s->cap * sizeof(*s->code));
	}
}

static size_t take_steps(const struct ws_py_layout *l, const uint8_t *steps, size_t n,
			 struct ws_py_frame *out)
{
	struct ws_py_taken t = {.out = out};

	for (size_t i = 0; i < n; i++) {
		struct ws_py_step s;

		memcpy(&s, steps + i * sizeof(s), sizeof(s));
		ws_py_take(l, &t, s.id, l->chain == WS_PY_OBJECTS ? ws_py_object_at(l, s.at) : s.at,
			   s.owner);
	}
	return t.n;
}

const struct ws_py_stack *ws_python_told_stack(struct ws_python *py, struct ws_sink *sink,
					       uint32_t tid, const void *raw, size_t size,
					       uint8_t *gil)
{
	static struct ws_py_frame frame[WS_PY_TOLD_STEPS];
	struct ws_py_told_frames f;
	struct ws_py_told_image *im;
	struct ws_py_stack *s;
	size_t n;

	if (!py || !py->bpf || size < sizeof(f))
		return NULL;
	s = &py->told_stack;
	memcpy(&f, raw, sizeof(f));
	im = image_of(py, f.cookie);
	if (!im || f.count > WS_PY_TOLD_STEPS ||
	    f.count > (size - sizeof(f)) / sizeof(struct ws_py_step))
		return NULL;
	if (im->sink != sink) { /* frames have numbers in one report */
		ws_map_free(&im->frames);
		im->sink = sink;
	}
	*gil = f.wait ? WS_GIL_WAITS : f.hold ? WS_GIL_HOLDS : WS_GIL_NONE;
	if (im->p) {
		uint32_t inner = (uint32_t)ws_map_get(&py->inner, tid, NULL);

		ws_map_set(&im->p->counts, inner, ws_map_get(&im->p->counts, inner, NULL) + 1);
	}
	n = take_steps(&im->layout, (const uint8_t *)raw + sizeof(f), f.count, frame);
	make_room(s, n);
	for (size_t i = 0; i < n; i++) {
		s->frame[i] = frame[i].code > 1 ? frame_id(im, ws_stackset_of(sink), frame[i].code,
							   frame[i].at)
						: 0;
		s->entry[i] = frame[i].flags & WS_PY_ENTRY;
		s->code[i] = 0; /* nobody is to remember these */
	}
	s->n = n;
	s->truncated = f.truncated != 0;
	return s;
}
