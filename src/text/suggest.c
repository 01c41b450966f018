/*
 * suggest.c - "did you mean": finds the nearest of the names that exist.
 *
 * Optimal string alignment distance (insert, delete, replace, swap of neighbours, each 1), which
 * keeps one more row than the plain edit distance because swaps are the most common typing errors.
 * A name that begins with what was typed is nearer than any typing error.
 */
#include <string.h>

#include "text/suggest.h"
#include "base/choose.h"

enum { MAX_NAME = 63, FAR = 1000 };

static int edit_distance(const char *typed, size_t typed_length, const char *name,
			 size_t name_length)
{
	int row[3][MAX_NAME + 1];
	int *before = row[0], *above = row[1], *current = row[2], *oldest;

	if (typed_length > MAX_NAME || name_length > MAX_NAME)
		return FAR;
	for (size_t column = 0; column <= name_length; column++)
		above[column] = (int)column;
	memset(row[0], 0, sizeof(row[0]));
	for (size_t row_number = 1; row_number <= typed_length; row_number++) {
		current[0] = (int)row_number;
		for (size_t at = 1; at <= name_length; at++) {
			current[at] =
				ws_min(ws_min(above[at] + 1, current[at - 1] + 1),
				       above[at - 1] + (typed[row_number - 1] != name[at - 1]));
			if (row_number > 1 && at > 1 && typed[row_number - 1] == name[at - 2] &&
			    typed[row_number - 2] == name[at - 1])
				current[at] = ws_min(current[at], before[at - 2] + 1);
		}
		oldest = before;
		before = above;
		above = current;
		current = oldest;
	}
	return above[name_length];
}

void ws_try_name(struct ws_nearest *nearest, const char *name, size_t len)
{
	size_t typed = strlen(nearest->word);
	int distance;

	if (typed >= 2 && typed < len && !strncmp(nearest->word, name, typed))
		distance = 0;
	else
		distance = edit_distance(nearest->word, typed, name, len);
	if (!nearest->best || distance < nearest->distance) {
		nearest->best = name;
		nearest->best_len = len;
		nearest->distance = distance;
	}
}

bool ws_has_near_name(const struct ws_nearest *nearest)
{
	int allowed = (int)strlen(nearest->word) / 3;

	return nearest->best && nearest->distance <= (ws_max(allowed, 1)) &&
	       nearest->distance < (int)nearest->best_len;
}
