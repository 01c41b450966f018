/* layout.c - layouts by version, the description of 3.13 and later, and the lists of interpreters
 * and threads; see cpython.h. */
#include "cpython/cpython.h"

#include <string.h>

#define MOST_INTERPRETERS 16
#define MOST_OFFSET (1u << 20) /* _PyRuntime and PyInterpreterState are some hundred KiB */

bool ws_py_layout_of(uint16_t version, struct ws_py_layout *out)
{
	switch (version) {
#define WS_PY_LAYOUT(v, c, ...)                                                \
	case v:                                                                \
		*out = (struct ws_py_layout){v, c, false, false, __VA_ARGS__}; \
		return true;
#include "cpython/layout.def"
	default:
		return false;
	}
}

/* ---- what 3.13 and later say of themselves ---- */

/*
 * The description is a cookie, the version, whether the build has no GIL, and then groups of 64-bit
 * numbers, each group beginning with the size of its structure. 3.14 has more numbers in some
 * groups and one group more (sets) than 3.13: group[i] is where group i begins, in numbers.
 */
enum group {
	RUNTIME,
	INTERPRETER,
	THREAD,
	FRAME,
	CODE,
	OBJECT,
	TYPE,
	TUPLE,
	LIST,
	SET,
	DICT,
	FLOAT,
	LONG,
	BYTES,
	TEXT,
	GROUPS
};
static const uint8_t sizes_313[GROUPS] = {3, 13, 9, 6, 10, 2, 4, 3, 3, 0, 3, 2, 3, 3, 4};
static const uint8_t sizes_314[GROUPS] = {3, 16, 9, 8, 11, 2, 4, 3, 3, 4, 3, 2, 3, 3, 4};

static bool possible(const struct ws_py_layout *l)
{
#define X(field)                     \
	if (l->field >= MOST_OFFSET) \
		return false;
	WS_PY_FIELDS(X)
#undef X
	return l->thread_frame && l->frame_previous && l->frame_at && l->frame_owner < 120 &&
	       l->frame_previous < 120 && l->frame_code < 120 && l->frame_at < 120 &&
	       l->code_name && l->code_file && l->code_table && l->code_start && l->text_ascii;
}

static void fill(struct ws_py_layout *l, const uint64_t *v, const uint16_t *at, bool later)
{
#define N(group, i) \
	((uint32_t)(v[at[group] + (i)] > MOST_OFFSET ? MOST_OFFSET : v[at[group] + (i)]))
	unsigned more = later ? 1 : 0; /* 3.14 has the main thread before `gc` */

	l->runtime_interpreters = N(RUNTIME, 2);
	l->interp_next = N(INTERPRETER, 2);
	l->interp_threads = N(INTERPRETER, 3);
	l->interp_gil = N(INTERPRETER, 8 + more);
	l->gil_locked = N(INTERPRETER, 11 + more) - N(INTERPRETER, 9 + more);
	l->gil_holder = N(INTERPRETER, 12 + more) - N(INTERPRETER, 9 + more);
	l->thread_next = N(THREAD, 2);
	l->thread_interp = N(THREAD, 3);
	l->thread_frame = N(THREAD, 4);
	l->thread_pthread = N(THREAD, 5);
	l->thread_tid = N(THREAD, 6);
	l->frame_previous = N(FRAME, 1);
	l->frame_code = N(FRAME, 2);
	l->frame_at = N(FRAME, 3);
	l->frame_owner = N(FRAME, 5);
	l->code_file = N(CODE, 1);
	l->code_name = N(CODE, 2);
	l->code_qualname = N(CODE, 3);
	l->code_table = N(CODE, 4);
	l->code_first_line = N(CODE, 5);
	l->code_start = N(CODE, 9);
	l->bytes_size = N(BYTES, 1);
	l->bytes_data = N(BYTES, 2);
	l->text_state = N(TEXT, 1);
	l->text_length = N(TEXT, 2);
	l->text_ascii = N(TEXT, 3);
	l->text_compact = l->text_ascii + 16; /* utf8_length and utf8 follow */
#undef N
}

bool ws_py_layout_read(const struct ws_py_memory *m, uint64_t runtime, struct ws_py_layout *out)
{
	uint64_t v[WS_PY_OFFSETS_BYTES / 8];
	uint16_t at[GROUPS], n = 3;
	const uint8_t *sizes;

	if (!ws_py_read(m, runtime, v, sizeof(v)) || memcmp(v, "xdebugpy", 8) != 0 ||
	    v[1] >> 24 != 3 || v[1] >> 16 < 0x030d || v[1] >> 16 > 0x030e)
		return false;
	memset(out, 0, sizeof(*out));
	out->version = (uint16_t)(v[1] >> 16);
	out->chain = WS_PY_FRAMES;
	out->self_described = true;
	out->free_threaded = v[2] != 0;
	sizes = out->version == 0x030d ? sizes_313 : sizes_314;
	for (int g = 0; g < GROUPS; g++) {
		at[g] = n;
		n = (uint16_t)(n + sizes[g]);
	}
	if (n > sizeof(v) / 8)
		return false;
	fill(out, v, at, sizes == sizes_314);
	return possible(out);
}

/* ---- interpreters and threads ---- */

static uint64_t pointer(const struct ws_py_memory *m, uint64_t at)
{
	uint64_t p = 0;

	return ws_py_read(m, at, &p, sizeof(p)) && !(p & 7) ? p : 0;
}

static bool read_thread(const struct ws_py_layout *l, const struct ws_py_memory *m, uint64_t state,
			uint64_t interp, struct ws_py_thread *out, uint64_t *next)
{
	uint64_t owner = 0, tid = 0;
	struct ws_py_piece p[4] = {{state + l->thread_next, next, 8},
				   {state + l->thread_interp, &owner, 8},
				   {state + l->thread_pthread, &out->pthread, 8},
				   {state + l->thread_tid, &tid, 8}};
	size_t n = l->thread_tid ? 4 : 3;

	if (m->read(m->ctx, p, n) != n || owner != interp || *next & 7)
		return false;
	out->state = state;
	out->tid = tid <= UINT32_MAX ? (uint32_t)tid : 0;
	return true;
}

size_t ws_py_threads(const struct ws_py_layout *l, const struct ws_py_memory *m, uint64_t runtime,
		     struct ws_py_thread *out, size_t most)
{
	uint64_t interp = pointer(m, runtime + l->runtime_interpreters);
	size_t n = 0;

	for (int i = 0; interp && i < MOST_INTERPRETERS; i++) {
		uint64_t state = pointer(m, interp + l->interp_threads), next;

		while (state && n < most && read_thread(l, m, state, interp, &out[n], &next)) {
			n++;
			state = next;
		}
		interp = pointer(m, interp + l->interp_next);
	}
	return n;
}

static uint64_t gil_of(const struct ws_py_layout *l, const struct ws_py_memory *m, uint64_t runtime)
{
	uint64_t interp;

	if (l->runtime_gil)
		return runtime + l->runtime_gil;
	interp = pointer(m, runtime + l->runtime_interpreters);
	return interp ? pointer(m, interp + l->interp_gil) : 0;
}

uint64_t ws_py_gil_holder(const struct ws_py_layout *l, const struct ws_py_memory *m,
			  uint64_t runtime)
{
	uint64_t gil = gil_of(l, m, runtime), holder = 0;
	int32_t locked = 0;
	struct ws_py_piece p[2] = {{gil + l->gil_holder, &holder, 8},
				   {gil + l->gil_locked, &locked, 4}};

	if (!gil || m->read(m->ctx, p, 2) != 2)
		return 0;
	return locked == 1 && !(holder & 7) ? holder : 0;
}

bool ws_py_check(const struct ws_py_layout *l, const struct ws_py_memory *m, uint64_t runtime)
{
	struct ws_py_thread t;

	return ws_py_threads(l, m, runtime, &t, 1) == 1 && t.pthread;
}
