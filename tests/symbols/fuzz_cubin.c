/*
 * fuzz_cubin.c - what reads cubins against hostile bytes: it may find nothing, and must not crash,
 * hang or read beyond what is there. The input is a list of edits of five bytes (a place, how, a
 * value) to a real cubin.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "symbols/cubin.h"
#include "../replay.h"

enum { MOST_FILE = 1 << 20 };

static uint8_t *base;
static size_t base_bytes;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	FILE *file = fopen(CUBIN, "rb");

	(void)argc;
	(void)argv;
	base = ws_malloc(MOST_FILE);
	if (!file || !(base_bytes = fread(base, 1, MOST_FILE, file)))
		abort();
	fclose(file);
	return 0;
}

/* Ask for everything about a function. */
static uint64_t read_function(const struct ws_gpu_code *cubin, const char *name)
{
	struct ws_gpu_code_function function;
	uint32_t first = 0, last = 0;
	uint64_t sum = ws_gpu_code_find_ptx_range(cubin, name, &first, &last);

	if (!ws_gpu_code_find_function(cubin, name, &function))
		return 0;
	for (uint64_t pc = 0; pc < function.bytes && pc < 4096; pc += 16) {
		const struct ws_gpu_code_row *row = ws_gpu_code_find_row(&function, pc);

		sum += ws_gpu_code_find_ptx(&function, pc);
		for (; row; row = ws_gpu_code_find_caller(&function, row)) {
			char *file = ws_gpu_code_file_name(&function, row);

			sum += strlen(file) + strlen(row->function) + row->line;
			free(file);
		}
	}
	ws_gpu_code_free_function(&function);
	return sum + first + last;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = ws_malloc(base_bytes);
	struct ws_gpu_code cubin;
	struct ws_err err;
	volatile uint64_t sum = 0;

	memcpy(copy, base, base_bytes);
	for (size_t at = 0; at + 5 <= size; at += 5) {
		size_t place = (data[at] | (size_t)data[at + 1] << 8) % base_bytes;

		if (data[at + 2] & 1)
			copy[place] = data[at + 3];
		else
			copy[place] ^= (uint8_t)(1 << (data[at + 3] & 7));
		if (data[at + 2] & 2 && place + 1 < base_bytes)
			copy[place + 1] = data[at + 4];
	}
	if (!ws_gpu_code_open(&cubin, copy, base_bytes, &err)) {
		sum += read_function(&cubin, "_Z5smallPKfPfi");
		sum += read_function(&cubin, "_Z7stridedPKfPfi");
	}
	ws_gpu_code_close(&cubin);
	free(copy);
	return 0;
}

#ifdef FUZZ_REPLAY
/* Half of the edits are in the line tables and the section headers. */
static size_t make_input(uint8_t *data, int round)
{
	size_t n = 5 * (1 + replay_draw() % (round % 4 ? 6 : 60));

	replay_fill(data, n);
	for (size_t at = 0; at < n; at += 5) {
		size_t place = replay_draw() % 2 ? 0x990 + replay_draw() % 0x268
						 : base_bytes - 1 - replay_draw() % 26 * 64;

		if (replay_draw() % 2) {
			data[at] = (uint8_t)place;
			data[at + 1] = (uint8_t)(place >> 8);
		}
	}
	return n;
}

int main(int argc, char **argv)
{
	LLVMFuzzerInitialize(&argc, &argv);
	return replay_test(argc, argv, 2000, make_input);
}
#endif
