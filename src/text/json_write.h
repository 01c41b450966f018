/*
 * json_write.h - writing JSON member by member into a text; commas are put where they belong.
 */
#ifndef WS_TEXT_JSON_WRITE_H
#define WS_TEXT_JSON_WRITE_H

#include <stdint.h>

#include "base/mem.h"

/* Each appends "key":value, with a comma before it unless it is the first of its object. */
void ws_put_json_key(struct ws_text *text, const char *key);
void ws_put_json_text(struct ws_text *text, const char *key, const char *word, size_t length);
void ws_put_json_string(struct ws_text *text, const char *key, const char *word);
void ws_put_json_int(struct ws_text *text, const char *key, int64_t number);
void ws_put_json_comma(struct ws_text *text); /* between the elements of an array */

#endif
