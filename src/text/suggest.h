/* suggest.h - "did you mean": the nearest of the names that exist. */
#ifndef WS_TEXT_SUGGEST_H
#define WS_TEXT_SUGGEST_H

#include <stdbool.h>
#include <stddef.h>

/* Keeps the nearest name seen so far. Start with {.word = what the user typed}. */
struct ws_nearest {
	const char *word;
	const char *best;
	size_t best_len;
	int distance;
};

/* Offer a candidate of `len` bytes. */
void ws_try_name(struct ws_nearest *nearest, const char *name, size_t len);
/* Whether the best one is close enough to be worth naming. */
bool ws_has_near_name(const struct ws_nearest *nearest);

#endif
