/*
 * test_cubin.c - a cubin that nvcc made of tests/kernel/cubin/sample.cu: lines, inlined calls and
 * PTX of its instructions.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "symbols/cubin.h"

static uint8_t bytes[1 << 16];
static struct ws_gpu_code cubin;

static int set_up(void **state)
{
	FILE *file = fopen(CUBIN, "rb");
	struct ws_err err;
	size_t n = file ? fread(bytes, 1, sizeof(bytes), file) : 0;

	(void)state;
	if (file)
		fclose(file);
	return ws_gpu_code_open(&cubin, bytes, n, &err);
}

static int tear_down(void **state)
{
	(void)state;
	ws_gpu_code_close(&cubin);
	return 0;
}

/* "file:line function < caller's file:line..." */
static char *describe(const struct ws_gpu_code_function *function, uint64_t pc)
{
	const struct ws_gpu_code_row *row = ws_gpu_code_find_row(function, pc);
	struct ws_text text = {0};

	for (; row; row = ws_gpu_code_find_caller(function, row)) {
		char *file = ws_gpu_code_file_name(function, row);

		ws_text_printf(&text, "%s%s:%u", text.len ? " < " : "", file, row->line);
		if (*row->function)
			ws_text_printf(&text, " %s", row->function);
		free(file);
	}
	return text.text;
}

static void check_place(const struct ws_gpu_code_function *function, uint64_t pc,
			const char *expected)
{
	char *text = describe(function, pc);

	assert_string_equal(text ? text : "", expected);
	free(text);
}

static void instructions_have_lines(void **state)
{
	struct ws_gpu_code_function small, strided;

	(void)state;
	assert_true(ws_gpu_code_find_function(&cubin, "_Z5smallPKfPfi", &small));
	assert_true(ws_gpu_code_find_function(&cubin, "_Z7stridedPKfPfi", &strided));
	assert_int_equal(small.bytes, 512);
	assert_int_equal(strided.bytes, 3072);
	check_place(&small, 0, "/src/sample.cu:11");
	check_place(&small, 0x10, "/src/sample.cu:13");
	check_place(&small, 0x70, "/src/sample.cu:14");
	check_place(&small, 0x110, "/src/sample.cu:16");
	check_place(&strided, 0x270, "/src/sample.cu:21");
	check_place(&strided, 0x330, "/src/sample.cu:22");
	check_place(&strided, 0x340, "/src/sample.cu:25");
	check_place(&strided, 0x6b0, "/src/sample.cu:9");
	ws_gpu_code_free_function(&small);
	ws_gpu_code_free_function(&strided);
}

static void inlined_calls_are_known(void **state)
{
	struct ws_gpu_code_function function;

	(void)state;
	assert_true(ws_gpu_code_find_function(&cubin, "_Z5smallPKfPfi", &function));
	check_place(&function, 0xc0, "/src/sample.cu:15");
	check_place(&function, 0xd0, "/src/sample.cu:5 _Z5scaleff < /src/sample.cu:15");
	check_place(&function, 0xe0, "/src/sample.cu:15");
	ws_gpu_code_free_function(&function);
}

static void instructions_have_ptx(void **state)
{
	struct ws_gpu_code_function function;
	uint32_t first, last, line;

	(void)state;
	assert_true(ws_gpu_code_find_function(&cubin, "_Z5smallPKfPfi", &function));
	line = ws_gpu_code_find_ptx(&function, 0xc0);
	assert_string_equal(cubin.ptx[line - 1], "ld.global.f32 \t%f1, [%rd5];");
	assert_true(ws_gpu_code_find_ptx_range(&cubin, "_Z5smallPKfPfi", &first, &last));
	assert_true(first < line && line < last);
	assert_string_equal(cubin.ptx[first - 1], ".visible .entry _Z5smallPKfPfi(");
	assert_string_equal(cubin.ptx[last - 1], "}");
	assert_false(ws_gpu_code_find_ptx_range(&cubin, "_Z5small", &first, &last));
	ws_gpu_code_free_function(&function);
}

static void what_is_not_there_is_not_found(void **state)
{
	struct ws_gpu_code_function function;
	struct ws_gpu_code other;
	struct ws_err err;

	(void)state;
	assert_false(ws_gpu_code_find_function(&cubin, "_Z5small", &function));
	assert_int_equal(ws_gpu_code_open(&other, "no cubin", 8, &err), -1);
	ws_gpu_code_close(&other);
	assert_int_equal(ws_gpu_code_open(&other, bytes, 100, &err), 0);
	assert_false(ws_gpu_code_find_function(&other, "_Z5smallPKfPfi", &function));
	ws_gpu_code_close(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(instructions_have_lines),
		cmocka_unit_test(inlined_calls_are_known),
		cmocka_unit_test(instructions_have_ptx),
		cmocka_unit_test(what_is_not_there_is_not_found),
	};

	return cmocka_run_group_tests_name("cubin", tests, set_up, tear_down);
}
