/*
 * test_cpython.c - reading CPython without CPython: images of the memory of 3.8 to 3.13 as they ran
 * a program that is known (images/app.py), memory made up here for 3.14 and for what goes wrong,
 * and line tables of each form.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "image.h"

static const char *folder;

/* ---- images ---- */

struct expected {
	const char *name, *qualname;
	int32_t line;
	bool entry_311, entry_312; /* before 3.11, every frame is */
};

static const struct expected thread_frames[] = {
	{"rec", "rec", 5, false, false}, {"rec", "rec", 4, false, false},
	{"rec", "rec", 4, false, false}, {"rec", "rec", 4, false, false},
	{"rec", "rec", 4, false, false}, {"rec", "rec", 4, true, true},
};
static const struct expected main_frames[] = {
	{"日本", "日本", 16, true, true},
	{"𠮷", "𠮷", 14, true, false},
	{"gen", "gen", 12, true, true},
	{"<lambda>", "Klasse.größe.<locals>.<lambda>", 8, true, true},
	{"größe", "Klasse.größe", 8, false, false},
	{"<module>", "<module>", 19, true, true},
	{"<module>", "<module>", 1, true, true},
};

static int32_t line_of(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
		       const struct ws_py_code *code, int32_t at)
{
	uint8_t *table = malloc(code->table_bytes + 1);
	int32_t line;

	assert_true(ws_py_read(memory, code->table, table, code->table_bytes));
	line = ws_py_find_line(layout->version, code->first_line, table, code->table_bytes, at);
	free(table);
	return line;
}

static void check_frames(const struct ws_py_layout *layout, const struct ws_py_memory *memory,
			 uint64_t state, const struct expected *want, size_t n)
{
	static struct ws_py_walk walk;
	static struct ws_py_code code;
	struct ws_py_frame frames[32];

	/* Twice: the second walk uses what the first has remembered. */
	for (int again = 0; again < 2; again++) {
		assert_int_equal(ws_py_walk(layout, memory, state, &walk, frames, WS_COUNT(frames)),
				 n);
		assert_false(walk.truncated);
		for (size_t i = 0; i < n; i++) {
			bool entry =
				layout->version < 0x030b ||
				(layout->version == 0x030b ? want[i].entry_311 : want[i].entry_312);

			assert_true(ws_py_read_code(layout, memory, frames[i].code, &code));
			code.name[code.name_len] = code.file[code.file_len] = 0;
			assert_string_equal(code.name, layout->version < 0x030b ? want[i].name
										: want[i].qualname);
			assert_string_equal(code.file, i == n - 1 && n == WS_COUNT(main_frames)
							       ? "<string>"
							       : "app.py");
			assert_int_equal(line_of(layout, memory, &code, frames[i].at),
					 want[i].line);
			assert_int_equal(frames[i].flags & WS_PY_ENTRY, entry);
			assert_false(code.shim);
		}
	}
	memset(&walk, 0, sizeof(walk));
	/* With less room: the innermost ones, and it is said. */
	assert_int_equal(ws_py_walk(layout, memory, state, &walk, frames, 3), 3);
	assert_true(walk.truncated);
}

static void test_image(const char *version, bool has_tid)
{
	char path[1024];
	struct image im;
	struct ws_py_memory memory = {image_read, &im};
	struct ws_py_layout layout;
	struct ws_py_thread thread[8];

	snprintf(path, sizeof(path), "%s/cpython-%s.img", folder, version);
	assert_true(image_load(path, &im));
	assert_true(image_layout(&im, &memory, &layout));
	assert_int_equal(layout.self_described, layout.version >= 0x030d);
	assert_false(layout.free_threaded);
	assert_true(ws_py_check_layout(&layout, &memory, im.runtime));
	assert_int_equal(ws_py_list_threads(&layout, &memory, im.runtime, thread, WS_COUNT(thread)),
			 2);
	assert_int_equal(ws_py_list_threads(&layout, &memory, im.runtime, thread, 1), 1);
	assert_int_equal(ws_py_list_threads(&layout, &memory, im.runtime, thread, WS_COUNT(thread)),
			 2);
	assert_int_equal(thread[0].tid != 0, has_tid);
	assert_true(thread[0].pthread && thread[1].pthread &&
		    thread[0].pthread != thread[1].pthread);
	assert_int_equal(ws_py_find_gil_holder(&layout, &memory, im.runtime), 0); /* both sleep */
	check_frames(&layout, &memory, thread[0].state, thread_frames, WS_COUNT(thread_frames));
	check_frames(&layout, &memory, thread[1].state, main_frames, WS_COUNT(main_frames));
	image_free(&im);
}

#define IMAGE(name, version, tid)             \
	static void test_##name(void **state) \
	{                                     \
		(void)state;                  \
		test_image(version, tid);     \
	}
IMAGE(3_8, "3.8", false)
IMAGE(3_9, "3.9", false)
IMAGE(3_10, "3.10", false)
IMAGE(3_11, "3.11", true)
IMAGE(3_12, "3.12", true)
IMAGE(3_13, "3.13", true)

/* ---- made-up memory ---- */

#define BASE UINT64_C(0x7f0000000000)
static struct image made;
static struct ws_py_memory memory = {image_read, &made};

static void start_image(void)
{
	image_free(&made);
	memset(&made, 0, sizeof(made));
	image_put(&made, BASE, 1 << 16);
}

static void put_value(uint64_t at, uint64_t value, size_t bytes)
{
	memcpy(made.piece[0].data + (at - BASE), &value, bytes);
}

/* A description as 3.14 has it, with offsets that no release has: what follows the version. */
/* clang-format off */
static const uint64_t offsets_314[] = {
	/* runtime */
	5000, 800, 904,
	/* interpreter */
	9000, 8, 16, 24, 32, 40, 48, 56, 64, 72, 200, 0, 216, 208, 80, 0,
	/* thread */
	400, 8, 16, 24, 40, 48, 56, 64, 72,
	/* frame */
	96, 8, 0, 48, 80, 72, 56, 0,
	/* code */
	240, 96, 104, 112, 120, 80, 52, 88, 90, 208, 0,
	/* object, type, tuple, list, set, dict, float, long */
	16, 8, 416, 24, 88, 168, 32, 24, 16, 40, 24, 16, 200, 24, 32, 40, 48, 32, 40, 24, 16, 32,
	16, 24,
	/* bytes, text */
	40, 16, 32, 64, 32, 16, 40,
};
/* clang-format on */

static void describe_314(uint32_t version)
{
	memcpy(made.piece[0].data, "xdebugpy", 8);
	put_value(BASE + 8, version, 8);
	put_value(BASE + 16, 0, 8);
	for (size_t i = 0; i < WS_COUNT(offsets_314); i++)
		put_value(BASE + 24 + 8 * i, offsets_314[i], 8);
}

static uint64_t make_text(uint64_t at, const char *ascii)
{
	put_value(at + 16, strlen(ascii), 8);
	put_value(at + 32, 1u << 2 | 1u << 5 | 1u << 6,
		  4); /* one byte a character, compact, ASCII */
	memcpy(made.piece[0].data + (at + 40 - BASE), ascii, strlen(ascii));
	return at;
}

#define RUNTIME BASE
#define INTERP (BASE + 0x2000)
#define THREAD (BASE + 0x5000)
#define FRAME(i) (BASE + 0x6000 + 0x60 * (i))
#define CODE(i) (BASE + 0x8000 + 0x200 * (i))
#define TEXT(i) (BASE + 0x9000 + 0x80 * (i))
#define TABLE (BASE + 0xa000)

static void make_code(int i, const char *name, const char *file)
{
	static const uint8_t table[] = {
		0x80 | 10 << 3 | 3, 0, 0,
		0x80 | 12 << 3 | 7, 0, 0}; /* 8 bytes of line 0, 16 of line 2 */

	put_value(CODE(i) + 96, make_text(TEXT(2 * i), file), 8);
	put_value(CODE(i) + 104, make_text(TEXT(2 * i + 1), name), 8);
	put_value(CODE(i) + 112, TEXT(2 * i + 1), 8);
	put_value(CODE(i) + 120, TABLE, 8);
	put_value(CODE(i) + 80, 100, 4);
	put_value(TABLE + 16, sizeof(table), 8);
	memcpy(made.piece[0].data + (TABLE + 32 - BASE), table, sizeof(table));
}

static void make_frame(int i, uint64_t previous, uint64_t code, uint32_t at, uint8_t owner)
{
	put_value(FRAME(i), code ? code | 1 : 0, 8); /* references are tagged */
	put_value(FRAME(i) + 8, previous, 8);
	put_value(FRAME(i) + 48, code + 208 + at, 8);
	put_value(FRAME(i) + 72, owner, 1);
}

static void make_314(void)
{
	start_image();
	describe_314(0x030e01f0);
	put_value(RUNTIME + 904, INTERP, 8);
	put_value(INTERP + 24, THREAD, 8);
	put_value(INTERP + 72, INTERP + 200, 8);
	put_value(INTERP + 216, 1, 4);
	put_value(INTERP + 208, THREAD, 8);
	put_value(THREAD + 24, INTERP, 8);
	put_value(THREAD + 40, FRAME(4), 8);
	put_value(THREAD + 48, 0x1234000, 8);
	put_value(THREAD + 56, 4711, 8);
	make_code(0, "outer", "a.py");
	make_code(1, "inner", "b.py");
	/* Two calls of the evaluator; the inner one has just begun a frame of its own. */
	make_frame(0, 0, 0, 0, 3);
	make_frame(1, FRAME(0), CODE(0), 4, 0);
	make_frame(2, FRAME(1), CODE(1), 10, 1);
	make_frame(3, FRAME(2), 0, 0, 3);
	make_frame(4, FRAME(3), CODE(1), 2, 0);
}

static void test_3_14(void **state)
{
	static struct ws_py_walk walk;
	static struct ws_py_code code;
	struct ws_py_layout layout;
	struct ws_py_thread thread[4];
	struct ws_py_frame frames[8];

	(void)state;
	make_314();
	assert_true(ws_py_read_layout(&memory, RUNTIME, &layout));
	assert_int_equal(layout.version, 0x030e);
	assert_int_equal(ws_py_list_threads(&layout, &memory, RUNTIME, thread, 4), 1);
	assert_int_equal(thread[0].tid, 4711);
	assert_int_equal(ws_py_find_gil_holder(&layout, &memory, RUNTIME), THREAD);
	put_value(INTERP + 216, 0, 4);
	assert_int_equal(ws_py_find_gil_holder(&layout, &memory, RUNTIME), 0);
	assert_int_equal(ws_py_walk(&layout, &memory, THREAD, &walk, frames, 8), 3);
	assert_false(walk.truncated);
	assert_int_equal(frames[0].code, CODE(1));
	assert_int_equal(frames[0].flags, WS_PY_ENTRY);
	assert_int_equal(frames[1].flags, 0);
	assert_int_equal(frames[2].code, CODE(0));
	assert_int_equal(frames[2].flags, WS_PY_ENTRY);
	assert_true(ws_py_read_code(&layout, &memory, frames[0].code, &code));
	assert_memory_equal(code.name, "inner", 5);
	assert_memory_equal(code.file, "b.py", 4);
	assert_int_equal(line_of(&layout, &memory, &code, frames[0].at), 100);
	assert_int_equal(line_of(&layout, &memory, &code, frames[1].at), 102);
	/* An evaluator that runs nothing yet has a place of its own. */
	put_value(THREAD + 40, FRAME(3), 8);
	assert_int_equal(ws_py_walk(&layout, &memory, THREAD, &walk, frames, 8), 3);
	assert_int_equal(frames[0].flags, WS_PY_ENTRY | WS_PY_NONE);
	assert_int_equal(frames[0].code, 0);
}

static void test_refused(void **state)
{
	struct ws_py_layout l;

	(void)state;
	assert_false(ws_py_get_layout(0x0307, &l));
	assert_false(ws_py_get_layout(0x030d, &l)); /* describes itself */
	make_314();
	describe_314(0x030f00a1);
	assert_false(ws_py_read_layout(&memory, RUNTIME, &l)); /* a version to come */
	describe_314(0x030c00f0);
	assert_false(ws_py_read_layout(&memory, RUNTIME, &l));
	make_314();
	put_value(RUNTIME, 0, 1);
	assert_false(ws_py_read_layout(&memory, RUNTIME, &l)); /* no description */
	for (int i = 5; i < 50; i++) {			       /* offsets that cannot be */
		make_314();
		for (int k = 5; k < 50; k++)
			put_value(RUNTIME + 8 * (uint64_t)i, UINT64_MAX / 2, 8);
		if (ws_py_read_layout(&memory, RUNTIME, &l)) {
#define X(field) assert_true(l.field < 1u << 20);
			WS_PY_FIELDS(X)
#undef X
		}
	}
}

/* Chains that run in circles, into nothing, or across. */
static void test_broken_chains(void **state)
{
	static struct ws_py_walk walk;
	struct ws_py_layout layout;
	struct ws_py_thread thread[8];
	struct ws_py_frame frames[64];

	(void)state;
	make_314();
	assert_true(ws_py_read_layout(&memory, RUNTIME, &layout));
	make_frame(1, FRAME(4), CODE(0), 4, 0);
	assert_int_equal(ws_py_walk(&layout, &memory, THREAD, &walk, frames, 64), 64);
	assert_true(walk.truncated);
	make_frame(0, FRAME(3), 0, 0, 3);
	make_frame(3, FRAME(0), 0, 0, 3); /* a circle of the evaluator's own frames */
	assert_true(ws_py_walk(&layout, &memory, THREAD, &walk, frames, 64) <= 64);
	assert_true(walk.truncated);
	make_frame(4, 0xdeadbeef00, CODE(1), 0, 0);
	assert_int_equal(ws_py_walk(&layout, &memory, THREAD, &walk, frames, 64), 1);
	assert_true(walk.truncated);
	put_value(THREAD + 40, 0x1001, 8);
	assert_int_equal(ws_py_walk(&layout, &memory, THREAD, &walk, frames, 64), 0);
	assert_true(walk.truncated);
	put_value(THREAD + 16, THREAD, 8); /* its own successor */
	assert_int_equal(ws_py_list_threads(&layout, &memory, RUNTIME, thread, 8), 8);
	put_value(THREAD + 24, INTERP + 8, 8); /* not of this interpreter */
	assert_int_equal(ws_py_list_threads(&layout, &memory, RUNTIME, thread, 8), 0);
}

static void test_keys(void **state)
{
	uint8_t raw[3 * WS_PY_KEY_BYTES];
	struct ws_py_code_key code_keys[3], again;
	struct ws_py_layout layout;
	const uint64_t code[] = {CODE(0), CODE(1), 0x1000};

	(void)state;
	make_314();
	assert_true(ws_py_read_layout(&memory, RUNTIME, &layout));
	assert_int_equal(ws_py_read_code_keys(&layout, &memory, code, 3, code_keys, raw),
			 2); /* the third is not there */
	assert_memory_not_equal(&code_keys[0], &code_keys[1], sizeof(code_keys[0]));
	assert_int_equal(ws_py_read_code_keys(&layout, &memory, &code[1], 1, &again, raw), 1);
	assert_memory_equal(&code_keys[1], &again, sizeof(again));
	put_value(CODE(1) + 80, 101, 4); /* another function lies there now */
	assert_int_equal(ws_py_read_code_keys(&layout, &memory, &code[1], 1, &again, raw), 1);
	assert_memory_not_equal(&code_keys[1], &again, sizeof(again));
	make_code(0, "x", "x");
	put_value(CODE(0) + 96, TEXT(1),
		  8); /* name and file are one object: the interpreter's own */
	{
		static struct ws_py_code py_code;

		assert_true(ws_py_read_code(&layout, &memory, CODE(0), &py_code));
		assert_true(py_code.shim);
	}
}

/* ---- texts ---- */

static int read_text(uint32_t state, const void *bytes, size_t size, uint64_t length, char *out,
		     size_t room)
{
	struct ws_py_layout layout;

	make_314();
	assert_true(ws_py_read_layout(&memory, RUNTIME, &layout));
	put_value(TEXT(0) + 16, length, 8);
	put_value(TEXT(0) + 32, state, 4);
	memcpy(made.piece[0].data + (TEXT(0) + (state >> 6 & 1 ? 40 : 56) - BASE), bytes, size);
	return ws_py_read_text(&layout, &memory, TEXT(0), out, room);
}

static void test_texts(void **state)
{
	static const uint16_t two[] = {0x65e5, 0x672c, 0xd800, 'x'};
	static const uint32_t four[] = {0x20bb7, 'y'};
	char out[64];

	(void)state;
	assert_int_equal(read_text(1u << 2 | 3u << 5, "plain", 5, 5, out, sizeof(out)), 5);
	assert_memory_equal(out, "plain", 5);
	assert_int_equal(read_text(1u << 2 | 1u << 5,
				   "gr\xf6\xdf"
				   "e",
				   5, 5, out, sizeof(out)),
			 7);
	assert_memory_equal(out, "größe", 7);
	assert_int_equal(read_text(2u << 2 | 1u << 5, two, sizeof(two), 4, out, sizeof(out)), 10);
	assert_memory_equal(out, "日本\xef\xbf\xbdx", 10);
	assert_int_equal(read_text(4u << 2 | 1u << 5, four, sizeof(four), 2, out, sizeof(out)), 5);
	assert_memory_equal(out, "𠮷y", 5);
	/* State behind a byte and behind two bytes, as builds without the GIL have it. */
	assert_int_equal(read_text(2u | 2u << 8 | 1u << 11, two, sizeof(two), 2, out, sizeof(out)),
			 6);
	assert_int_equal(read_text(2u << 16 | 1u << 19, two, sizeof(two), 2, out, sizeof(out)), 6);
	/* Cut between characters; not a text; longer than can be. */
	assert_int_equal(read_text(2u << 2 | 1u << 5, two, sizeof(two), 2, out, 5), 3);
	assert_int_equal(read_text(0, "x", 1, 1, out, sizeof(out)), -1);
	assert_int_equal(read_text(3u << 2 | 1u << 5, "x", 1, 1, out, sizeof(out)), -1);
	assert_int_equal(read_text(1u << 2 | 3u << 5, "x", 1, UINT64_MAX, out, sizeof(out)), -1);
}

/* ---- lines ---- */

static void test_lines(void **state)
{
	static const uint8_t lnotab[] = {6, 1, 8, 2, 255, 0, 10, 127, 0, 127, 4, (uint8_t)-5};
	static const uint8_t ranges[] = {6, 1, 4, (uint8_t)-128, 0, 10, 8, 2, 2, (uint8_t)-12};
	static const uint8_t locations[] = {
		0x80 | 15 << 3 | 1, /* 4 bytes: no line */
		0x80 | 3 << 3 | 0,
		0x21, /* 2: line 10, columns */
		0x80 | 11 << 3 | 2,
		5,
		9, /* 6: line 11 */
		0x80 | 13 << 3 | 0,
		0x40 | 33,
		3, /* 2: a step of -112, by 12 bits: (33 | 3 << 6) = 225 is odd */
		0x80 | 14 << 3 | 7,
		0x40 | 20,
		4,
		1,
		0x41,
		1,
		2, /* 16: a step of +138, then end line and columns */
		0x80 | 10 << 3 | 0,
		1, /* 2: the table ends in the middle of it */
	};

	(void)state;
	assert_int_equal(ws_py_find_line(0x0308, 10, lnotab, sizeof(lnotab), -1), 10);
	assert_int_equal(ws_py_find_line(0x0308, 10, lnotab, sizeof(lnotab), 0), 10);
	assert_int_equal(ws_py_find_line(0x0308, 10, lnotab, sizeof(lnotab), 5), 10);
	assert_int_equal(ws_py_find_line(0x0309, 10, lnotab, sizeof(lnotab), 6), 11);
	assert_int_equal(ws_py_find_line(0x0309, 10, lnotab, sizeof(lnotab), 14), 13);
	assert_int_equal(ws_py_find_line(0x0309, 10, lnotab, sizeof(lnotab), 278), 13);
	assert_int_equal(ws_py_find_line(0x0309, 10, lnotab, sizeof(lnotab), 279), 267);
	assert_int_equal(ws_py_find_line(0x0309, 10, lnotab, sizeof(lnotab), 1000), 262);
	assert_int_equal(ws_py_find_line(0x0309, 10, lnotab, 3, 100), 11);

	assert_int_equal(ws_py_find_line(0x030a, 10, ranges, sizeof(ranges), 0), 11);
	assert_int_equal(ws_py_find_line(0x030a, 10, ranges, sizeof(ranges), 6), 0);
	assert_int_equal(ws_py_find_line(0x030a, 10, ranges, sizeof(ranges), 10), 23);
	assert_int_equal(ws_py_find_line(0x030a, 10, ranges, sizeof(ranges), 18), 11);
	assert_int_equal(ws_py_find_line(0x030a, 10, ranges, sizeof(ranges), 20), 0);

	assert_int_equal(ws_py_find_line(0x030b, 10, locations, sizeof(locations), 0), 0);
	assert_int_equal(ws_py_find_line(0x030b, 10, locations, sizeof(locations), 4), 10);
	assert_int_equal(ws_py_find_line(0x030c, 10, locations, sizeof(locations), 6), 11);
	assert_int_equal(ws_py_find_line(0x030c, 200, locations, sizeof(locations), 12), 89);
	assert_int_equal(ws_py_find_line(0x030d, 200, locations, sizeof(locations), 14), 227);
	assert_int_equal(ws_py_find_line(0x030e, 200, locations, sizeof(locations), 29), 227);
	assert_int_equal(ws_py_find_line(0x030e, 200, locations, sizeof(locations), 30), 227);
	assert_int_equal(ws_py_find_line(0x030e, 200, locations, sizeof(locations), 32), 0);
	assert_int_equal(ws_py_find_line(0x030e, 200, NULL, 0, 0), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_3_8),	      cmocka_unit_test(test_3_9),
		cmocka_unit_test(test_3_10),	      cmocka_unit_test(test_3_11),
		cmocka_unit_test(test_3_12),	      cmocka_unit_test(test_3_13),
		cmocka_unit_test(test_3_14),	      cmocka_unit_test(test_refused),
		cmocka_unit_test(test_broken_chains), cmocka_unit_test(test_keys),
		cmocka_unit_test(test_texts),	      cmocka_unit_test(test_lines),
	};

	folder = argc > 1 ? argv[1] : ".";
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
