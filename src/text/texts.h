/*
 * texts.h - numbers for texts, by which names that are made up here (a call without its version, a
 * range before a kernel) can be grouped.
 */
#ifndef WS_TEXT_TEXTS_H
#define WS_TEXT_TEXTS_H

#include <stddef.h>
#include <stdint.h>

/* Zero it to begin with. Text i lies at text + at[i] and has at[i + 1] - at[i] bytes. */
struct ws_texts {
	char *text;
	size_t len, cap;
	size_t *at, at_cap;
	uint32_t n;
	uint64_t *slots; /* number + 1: base/slots.h */
	size_t mask;
};

/* Number of the text, from 0; equal bytes have equal numbers. */
uint32_t ws_texts_number(struct ws_texts *texts, const char *text, size_t len);
/* The text with that number, *len bytes; valid until the next is added. */
const char *ws_texts_get(const struct ws_texts *texts, uint32_t number, size_t *len);
void ws_texts_free(struct ws_texts *texts);

#endif
