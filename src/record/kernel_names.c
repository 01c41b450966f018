/* kernel_names.c - see kernel_names.h. */
#include "record/kernel_names.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/mem.h"
#include "record/kernel_names_private.h"

struct ws_kernel_names {
	int maps[WS_KERNEL_NAMES_SYMBOLS], program; /* descriptors; negative: none */
	struct ws_kernel_questions questions;
};

/* Make the map with the format; its descriptor, or -errno. */
static int make_format(void)
{
	static const struct ws_kernel_format format = {WS_KERNEL_FORMAT};
	uint32_t key = 0;
	int map = ws_bpf_map_new_constant(sizeof(format)), error;

	if (map < 0)
		return map;
	error = ws_bpf_map_set(map, &key, &format);
	if (!error)
		error = ws_bpf_map_freeze(map);
	if (!error)
		return map;
	close(map);
	return error;
}

static bool load_program(struct ws_kernel_names *names)
{
	struct ws_bpf_value values[WS_KERNEL_NAMES_SYMBOLS];

	names->maps[WS_KERNEL_NAMES_map_questions] =
		ws_bpf_map_new(BPF_MAP_TYPE_ARRAY, 4, sizeof(names->questions), 1);
	names->maps[WS_KERNEL_NAMES_map_format] = make_format();
	for (size_t i = 0; i < WS_KERNEL_NAMES_SYMBOLS; i++) {
		if (names->maps[i] < 0)
			return false;
		values[i] = (struct ws_bpf_value){(uint64_t)names->maps[i], true};
	}
	names->program = ws_bpf_load(ws_kernel_names_programs, BPF_PROG_TYPE_RAW_TRACEPOINT, values,
				     NULL, 0);
	return names->program >= 0;
}

struct ws_kernel_names *ws_kernel_names_open(void)
{
	struct ws_kernel_names *names;

	if (!ws_kernel_names_programs[0].name)
		return NULL;
	names = ws_calloc(1, sizeof(*names));
	for (size_t i = 0; i < WS_KERNEL_NAMES_SYMBOLS; i++)
		names->maps[i] = -1;
	names->program = -1;
	if (load_program(names))
		return names;
	ws_kernel_names_close(names);
	return NULL;
}

void ws_kernel_names_close(struct ws_kernel_names *names)
{
	if (!names)
		return;
	if (names->program >= 0)
		close(names->program);
	for (size_t i = 0; i < WS_KERNEL_NAMES_SYMBOLS; i++)
		if (names->maps[i] >= 0)
			close(names->maps[i]);
	free(names);
}

/* Turn "function+0x10/0x40 [module]" into "function [module]" and the function's address. False
 * when the answer is a number: the address is in no function. */
static bool read_answer(char *answer, uint64_t address, uint64_t *begin)
{
	char *plus = strchr(answer, '+'), *end;

	if (!plus || plus == answer)
		return false;
	*begin = address - strtoull(plus + 1, &end, 16);
	end += strcspn(end, " ");
	memmove(plus, end, strlen(end) + 1);
	return true;
}

/* Ask for `n` names, at most WS_KERNEL_NAMES. */
static bool ask(struct ws_kernel_names *names, const uint64_t *address, size_t n)
{
	const int map = names->maps[WS_KERNEL_NAMES_map_questions];
	uint32_t key = 0;

	memset(&names->questions, 0, sizeof(names->questions));
	memcpy(names->questions.address, address, n * sizeof(*address));
	return !ws_bpf_map_set(map, &key, &names->questions) && !ws_bpf_call(names->program) &&
	       !ws_bpf_map_get(map, &key, &names->questions);
}

bool ws_kernel_names_find(void *context, const uint64_t *address, size_t n,
			  void (*found)(void *ctx, size_t i, const char *name, uint64_t begin),
			  void *ctx)
{
	struct ws_kernel_names *names = context;

	for (size_t from = 0, count; from < n; from += count) {
		count = ws_min(n - from, WS_KERNEL_NAMES);
		if (!ask(names, address + from, count))
			return from > 0;
		for (size_t i = 0; i < count; i++) {
			char *answer = names->questions.name[i];
			uint64_t begin;

			answer[WS_KERNEL_NAME - 1] = 0;
			if (read_answer(answer, address[from + i], &begin))
				found(ctx, from + i, answer, begin);
		}
	}
	return true;
}
