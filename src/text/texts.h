/*
 * texts.h - numbers for texts: what groups names that are made up here (a call without its version,
 * a range before a kernel).
 */
#ifndef WS_TEXT_TEXTS_H
#define WS_TEXT_TEXTS_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed to begin with. Number i has its bytes at s + at[i], at[i + 1] - at[i] of them. */
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
const char *ws_texts_get(const struct ws_texts *texts, uint32_t number, size_t *len);
void ws_texts_free(struct ws_texts *texts);

#endif
