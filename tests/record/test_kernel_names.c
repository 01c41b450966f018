/*
 * test_kernel_names.c - names that the kernel's own program gives against those of /proc/kallsyms.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "record/kernel_names.h"
#include "record/kernel_names_private.h"
#include "symbols/kallsyms.h"

#define EVERY 97 /* of the functions are looked up */

struct answer {
	char name[WS_KERNEL_NAME];
	uint64_t begin;
};

static void note_answer(void *ctx, size_t i, const char *name, uint64_t begin)
{
	struct answer *answer = (struct answer *)ctx + i;

	snprintf(answer->name, sizeof(answer->name), "%s", name);
	answer->begin = begin;
}

/* Addresses in functions, in ascending order, one byte behind where each begins. */
static uint64_t *choose_addresses(size_t *n)
{
	FILE *file = fopen("/proc/kallsyms", "re");
	unsigned long long address, last = 0;
	uint64_t *chosen = NULL;
	size_t cap = 0, seen = 0;
	char type, line[1024];

	*n = 0;
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%llx %c", &address, &type) != 2 || (type != 't' && type != 'T') ||
		    address <= last || seen++ % EVERY || strstr(line, "bpf_") ||
		    strstr(line, " _etext")) /* the end of the kernel's code: no function */
			continue;
		ws_grow(chosen, cap, *n + 1);
		chosen[(*n)++] = address + 1;
		last = address;
	}
	if (file)
		fclose(file);
	return chosen;
}

static void names_are_those_of_kallsyms(void **state)
{
	struct ws_kernel_names *names = ws_kernel_names_open();
	struct ws_kallsyms *symbols;
	size_t n, same = 0;
	uint64_t *address;
	struct answer *told, *wanted;

	(void)state;
	if (!names)
		skip(); /* not root, an older kernel, or a build without clang */
	address = choose_addresses(&n);
	if (!n) {
		ws_kernel_names_close(names);
		skip(); /* hidden */
	}
	told = ws_calloc(n, sizeof(*told));
	wanted = ws_calloc(n, sizeof(*wanted));
	assert_true(ws_kernel_names_find(names, address, n, note_answer, told));
	symbols = ws_kallsyms_start_reading();
	assert_true(ws_kallsyms_find(symbols, address, n, note_answer, wanted));
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(told[i].begin, wanted[i].begin);
		/* For a function with several names, any of them may be reported. */
		same += !strcmp(told[i].name, wanted[i].name);
	}
	assert_true(n > 100 && same > n * 9 / 10);
	ws_kallsyms_free(symbols);
	ws_kernel_names_close(names);
	free(told);
	free(wanted);
	free(address);
}

static void other_addresses_have_no_name(void **state)
{
	struct ws_kernel_names *names = ws_kernel_names_open();
	const uint64_t address[] = {0x1000, 0x7fff00000000, 0xffff800000000000};
	struct answer told[3] = {{""}};

	(void)state;
	if (!names)
		skip();
	assert_true(ws_kernel_names_find(names, address, 3, note_answer, told));
	for (int i = 0; i < 3; i++)
		assert_string_equal(told[i].name, "");
	ws_kernel_names_close(names);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(names_are_those_of_kallsyms),
					   cmocka_unit_test(other_addresses_have_no_name)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
