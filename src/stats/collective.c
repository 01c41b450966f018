/* collective.c - see collective.h. */
#include "stats/collective.h"

#include <string.h>

#include "base/compiler.h"

unsigned ws_get_collective_type_size(const char *name)
{
	static const struct {
		const char *name;
		unsigned size;
	} types[] = {{"Float", 4}, {"Double", 8}, {"Half", 2},	       {"BFloat16", 2},
		     {"Int", 4},   {"Long", 8},	  {"Short", 2},	       {"Byte", 1},
		     {"Char", 1},  {"Bool", 1},	  {"ComplexFloat", 8}, {"ComplexDouble", 16}};

	for (size_t i = 0; i < WS_COUNT(types); i++)
		if (!strcmp(name, types[i].name))
			return types[i].size;
	return !strncmp(name, "Float8", 6);
}

enum ws_collective_pattern ws_find_collective_pattern(const char *name)
{
	static const struct {
		const char *word;
		enum ws_collective_pattern pattern;
	} known[] = {{"allreduce", WS_COLLECTIVE_ALL_REDUCE},
		     {"allgather", WS_COLLECTIVE_ALL_GATHER},
		     {"reducescatter", WS_COLLECTIVE_REDUCE_SCATTER},
		     {"alltoall", WS_COLLECTIVE_ALL_TO_ALL},
		     {"broadcast", WS_COLLECTIVE_SAME},
		     {"gather", WS_COLLECTIVE_ROOTED},
		     {"scatter", WS_COLLECTIVE_ROOTED}};
	char plain[64];
	size_t length = 0;

	for (; *name && length + 1 < sizeof(plain); name++) {
		if (*name == '_')
			continue;
		plain[length] = *name;
		if (plain[length] >= 'A' && plain[length] <= 'Z')
			plain[length] = (char)(plain[length] + 'a' - 'A');
		length++;
	}
	plain[length] = 0;
	for (size_t i = 0; i < WS_COUNT(known); i++)
		if (strstr(plain, known[i].word))
			return known[i].pattern;
	return WS_COLLECTIVE_OTHER;
}

struct ws_collective_work ws_compute_collective_work(enum ws_collective_pattern pattern,
						     long double bytes, long double ranks)
{
	struct ws_collective_work work = {bytes, -1};

	if (pattern == WS_COLLECTIVE_SAME || pattern == WS_COLLECTIVE_OTHER) {
		work.bus = bytes;
		return work;
	}
	if (ranks < 1) {
		if (pattern != WS_COLLECTIVE_ALL_REDUCE)
			work.algorithm = -1;
		return work;
	}
	if (pattern != WS_COLLECTIVE_ALL_REDUCE) /* one piece for each rank */
		work.algorithm *= ranks;
	work.bus = work.algorithm * (ranks - 1) / ranks;
	if (pattern == WS_COLLECTIVE_ALL_REDUCE) /* one round to reduce, one to distribute */
		work.bus *= 2;
	return work;
}
