/* layout.c - the layouts of versions, the description that 3.13 and later have of themselves, and
 * the lists of interpreters and threads; see cpython.h. */
#include "cpython/cpython.h"

#include <string.h>

#define MOST_INTERPRETERS 16
#define MOST_OFFSET (1u << 20) /* _PyRuntime and PyInterpreterState are some hundred KiB */

bool ws_py_get_layout(uint16_t version, struct ws_py_layout *out)
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

/* ---- how 3.13 and later describe themselves ---- */

/*
 * The description consists of a cookie, the version, whether the build has no GIL, and groups of
 * 64-bit numbers, each of which begins with the size of its structure. 3.14 has more numbers in
 * some groups, and one group more (sets), than 3.13. sizes_3xx[i] is how many numbers group i has.
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

/* Whether all offsets are within bounds and those that are needed are there. */
static bool is_possible(const struct ws_py_layout *layout)
{
#define X(field)                          \
	if (layout->field >= MOST_OFFSET) \
		return false;
	WS_PY_FIELDS(X)
#undef X
	return layout->thread_frame && layout->frame_previous && layout->frame_at &&
	       layout->frame_owner < 120 && layout->frame_previous < 120 &&
	       layout->frame_code < 120 && layout->frame_at < 120 && layout->code_name &&
	       layout->code_file && layout->code_table && layout->code_start && layout->text_ascii;
}

/* at[group] is where a group begins, in numbers. */
static void fill_layout(struct ws_py_layout *layout, const uint64_t *numbers, const uint16_t *at,
			bool later)
{
#define N(group, i) ((uint32_t)(ws_py_min(numbers[at[group] + (i)], MOST_OFFSET)))
	unsigned more = later; /* 3.14 has the main thread's field before `gc` */

	layout->runtime_interpreters = N(RUNTIME, 2);
	layout->interp_next = N(INTERPRETER, 2);
	layout->interp_threads = N(INTERPRETER, 3);
	layout->interp_gil = N(INTERPRETER, 8 + more);
	layout->gil_locked = N(INTERPRETER, 11 + more) - N(INTERPRETER, 9 + more);
	layout->gil_holder = N(INTERPRETER, 12 + more) - N(INTERPRETER, 9 + more);
	layout->thread_next = N(THREAD, 2);
	layout->thread_interp = N(THREAD, 3);
	layout->thread_frame = N(THREAD, 4);
	layout->thread_pthread = N(THREAD, 5);
	layout->thread_tid = N(THREAD, 6);
	layout->frame_previous = N(FRAME, 1);
	layout->frame_code = N(FRAME, 2);
	layout->frame_at = N(FRAME, 3);
	layout->frame_owner = N(FRAME, 5);
	layout->code_file = N(CODE, 1);
	layout->code_name = N(CODE, 2);
	layout->code_qualname = N(CODE, 3);
	layout->code_table = N(CODE, 4);
	layout->code_first_line = N(CODE, 5);
	layout->code_start = N(CODE, 9);
	layout->bytes_size = N(BYTES, 1);
	layout->bytes_data = N(BYTES, 2);
	layout->text_state = N(TEXT, 1);
	layout->text_length = N(TEXT, 2);
	layout->text_ascii = N(TEXT, 3);
	layout->text_compact = layout->text_ascii + 16; /* utf8_length and utf8 follow */
#undef N
}

bool ws_py_read_layout(const struct ws_py_memory *memory, uint64_t runtime,
		       struct ws_py_layout *out)
{
	uint64_t numbers[WS_PY_OFFSETS_BYTES / 8];
	uint16_t at[GROUPS], next = 3;
	const uint8_t *sizes = sizes_314;

	if (!ws_py_read(memory, runtime, numbers, sizeof(numbers)) ||
	    memcmp(numbers, "xdebugpy", 8) != 0 || numbers[1] >> 24 != 3 ||
	    numbers[1] >> 16 < 0x030d || numbers[1] >> 16 > 0x030e)
		return false;
	memset(out, 0, sizeof(*out));
	out->version = (uint16_t)(numbers[1] >> 16);
	out->chain = WS_PY_FRAMES;
	out->self_described = true;
	out->free_threaded = numbers[2] != 0;
	if (out->version == 0x030d)
		sizes = sizes_313;
	for (int i = 0; i < GROUPS; i++) {
		at[i] = next;
		next = (uint16_t)(next + sizes[i]);
	}
	if (next > sizeof(numbers) / 8)
		return false;
	fill_layout(out, numbers, at, sizes == sizes_314);
	return is_possible(out);
}

/* ---- interpreters and threads ---- */

/* The pointer at an address; 0 when it cannot be read or is not aligned. */
static uint64_t read_pointer(const struct ws_py_memory *memory, uint64_t at)
{
	uint64_t value = 0;

	if (!ws_py_read(memory, at, &value, sizeof(value)) || value & 7)
		return 0;
	return value;
}

static bool read_thread(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
			uint64_t state, uint64_t interp, struct ws_py_thread *out, uint64_t *next)
{
	uint64_t owner = 0, tid = 0;
	struct ws_py_piece pieces[4] = {{state + layout->thread_next, next, 8},
					{state + layout->thread_interp, &owner, 8},
					{state + layout->thread_pthread, &out->pthread, 8},
					{state + layout->thread_tid, &tid, 8}};
	size_t count = 3 + (layout->thread_tid != 0);

	if (memory->read(memory->ctx, pieces, count) != count || owner != interp || *next & 7)
		return false;
	out->state = state;
	out->tid = 0;
	if (tid <= UINT32_MAX)
		out->tid = (uint32_t)tid;
	return true;
}

size_t ws_py_list_threads(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
			  uint64_t runtime, struct ws_py_thread *out, size_t most)
{
	uint64_t interp = read_pointer(memory, runtime + layout->runtime_interpreters);
	size_t count = 0;

	for (int i = 0; interp && i < MOST_INTERPRETERS; i++) {
		uint64_t state = read_pointer(memory, interp + layout->interp_threads), next;

		while (state && count < most &&
		       read_thread(layout, memory, state, interp, &out[count], &next)) {
			count++;
			state = next;
		}
		interp = read_pointer(memory, interp + layout->interp_next);
	}
	return count;
}

static uint64_t find_gil(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
			 uint64_t runtime)
{
	uint64_t interp;

	if (layout->runtime_gil)
		return runtime + layout->runtime_gil;
	interp = read_pointer(memory, runtime + layout->runtime_interpreters);
	if (!interp)
		return 0;
	return read_pointer(memory, interp + layout->interp_gil);
}

uint64_t ws_py_find_gil_holder(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
			       uint64_t runtime)
{
	uint64_t gil = find_gil(layout, memory, runtime), holder = 0;
	int32_t locked = 0;
	struct ws_py_piece pieces[2] = {{gil + layout->gil_holder, &holder, 8},
					{gil + layout->gil_locked, &locked, 4}};

	if (!gil || memory->read(memory->ctx, pieces, 2) != 2 || locked != 1 || holder & 7)
		return 0;
	return holder;
}

bool ws_py_check_layout(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
			uint64_t runtime)
{
	struct ws_py_thread thread;

	return ws_py_list_threads(layout, memory, runtime, &thread, 1) == 1 && thread.pthread;
}
