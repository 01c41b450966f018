/*
 * suggest.c - "did you mean": the nearest of the names that exist.
 *
 * Optimal string alignment distance (insert, delete, replace, swap of neighbours, each 1), with one
 * row of history more than the plain edit distance because a swap is the commonest slip. A name
 * that begins with what was typed is nearer than any typing error.
 */
#include <string.h>

#include "cli/text.h"
#include "base/choose.h"

enum { LONGEST = 63, FAR = 1000 };

static int least(int a, int b)
{
	return ws_min(a, b);
}

static int edit_distance(const char *a, size_t an, const char *b, size_t bn)
{
	int row[3][LONGEST + 1];
	int *before = row[0], *above = row[1], *now = row[2], *swap;

	if (an > LONGEST || bn > LONGEST)
		return FAR;
	for (size_t j = 0; j <= bn; j++)
		above[j] = (int)j;
	memset(row[0], 0, sizeof(row[0]));
	for (size_t i = 1; i <= an; i++) {
		now[0] = (int)i;
		for (size_t j = 1; j <= bn; j++) {
			now[j] = least(least(above[j] + 1, now[j - 1] + 1),
				       above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				now[j] = least(now[j], before[j - 2] + 1);
		}
		swap = before;
		before = above;
		above = now;
		now = swap;
	}
	return above[bn];
}

void ws_nearest_try(struct ws_nearest *nearest, const char *name, size_t len)
{
	size_t typed = strlen(nearest->word);
	int d;

	if (typed >= 2 && typed < len && !strncmp(nearest->word, name, typed))
		d = 0;
	else
		d = edit_distance(nearest->word, typed, name, len);
	if (!nearest->best || d < nearest->distance) {
		nearest->best = name;
		nearest->best_len = len;
		nearest->distance = d;
	}
}

bool ws_nearest_found(const struct ws_nearest *nearest)
{
	int allowed = (int)strlen(nearest->word) / 3;

	return nearest->best && nearest->distance <= (ws_max(allowed, 1)) &&
	       nearest->distance < (int)nearest->best_len;
}
