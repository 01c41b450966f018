/*
 * text.h - writing the names that the profiled program chose so that they are safe in each place.
 *
 * Names are untrusted bytes: any length, NULs, broken UTF-8, quotes, terminal escapes,
 * bidirectional overrides. Every writer of exports and tables passes them through one of these.
 */
#ifndef WS_TEXT_TEXT_H
#define WS_TEXT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"

/* Length in bytes of the valid UTF-8 sequence at `text` (`n` bytes are left), or 0; *code gets the
 * code point. Surrogates and overlong forms are invalid. */
size_t ws_decode_utf8(const char *text, size_t n, uint32_t *code);
/* Whether all of it is valid UTF-8 without a NUL. */
bool ws_is_valid_utf8(const char *text, size_t n);
/* Append with each invalid byte, and each NUL, replaced by U+FFFD. */
void ws_put_valid_utf8(struct ws_text *text, const char *word, size_t n);
/* Append as a JSON string, quotes included; invalid bytes become U+FFFD. */
void ws_put_quoted_json(struct ws_text *text, const char *word, size_t n);
/* Whether it is one JSON value and nothing else. Nesting beyond 64 levels is refused. */
bool ws_is_valid_json(const char *text, size_t n);
/* Append as HTML text (also right inside double-quoted attributes); controls and bidirectional
 * overrides are made visible. */
void ws_put_html_text(struct ws_text *text, const char *word, size_t n);
/*
 * Append for a terminal: control characters and bidirectional overrides appear as escapes (\n,
 * \x1b, \u202e), so that a name can neither move the cursor nor reorder the line. Invalid bytes
 * become U+FFFD.
 */
void ws_put_terminal_text(struct ws_text *text, const char *word, size_t n);
/* How many columns valid UTF-8 takes on a terminal: 2 for East Asian wide characters and emoji, 0
 * for combining marks, 1 for any other character. */
size_t ws_measure_utf8_width(const char *text, size_t n);
/* Length in bytes of the longest prefix that takes at most `width` columns. */
size_t ws_find_utf8_prefix(const char *text, size_t n, size_t width);

#endif
