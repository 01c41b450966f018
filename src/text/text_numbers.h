/*
 * text_numbers.h - numbers for texts, by which names that are made up here (a call without its
 * version, a range before a kernel) can be grouped.
 */
#ifndef WS_TEXT_TEXT_NUMBERS_H
#define WS_TEXT_TEXT_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

/* Zero it to begin with. Text i lies at text + at[i] and has at[i + 1] - at[i] bytes. */
struct ws_text_numbers {
	char *text;
	size_t length, capacity;
	size_t *offsets, offset_capacity;
	uint32_t count;
	uint64_t *slots; /* number + 1: base/slots.h */
	size_t mask;
};

/* Number of the text, from 0; equal bytes have equal numbers. */
uint32_t ws_number_text(struct ws_text_numbers *texts, const char *text, size_t len);
/* The text with that number, *len bytes; valid until the next is added. */
const char *ws_get_numbered_text(const struct ws_text_numbers *texts, uint32_t number, size_t *len);
void ws_free_text_numbers(struct ws_text_numbers *texts);

#endif
