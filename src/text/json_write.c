/* json_write.c - see json_write.h. */
#include "text/json_write.h"

#include <inttypes.h>
#include <string.h>

#include "text/text.h"

void ws_put_json_comma(struct ws_text *text)
{
	if (text->len && !strchr("[{:,", text->text[text->len - 1]))
		ws_text_puts(text, ",");
}

void ws_put_json_key(struct ws_text *text, const char *key)
{
	ws_put_json_comma(text);
	ws_text_printf(text, "\"%s\":", key);
}

void ws_put_json_text(struct ws_text *text, const char *key, const char *word, size_t length)
{
	ws_put_json_key(text, key);
	ws_put_quoted_json(text, word, length);
}

void ws_put_json_string(struct ws_text *text, const char *key, const char *word)
{
	ws_put_json_text(text, key, word, strlen(word));
}

void ws_put_json_int(struct ws_text *text, const char *key, int64_t number)
{
	ws_put_json_key(text, key);
	ws_text_printf(text, "%" PRId64, number);
}
