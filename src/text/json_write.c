/* json_write.c - see json_write.h. */
#include "text/json_write.h"

#include <inttypes.h>
#include <string.h>

#include "text/text.h"

void ws_put_comma(struct ws_text *t)
{
	if (t->len && !strchr("[{:,", t->s[t->len - 1]))
		ws_text_puts(t, ",");
}

void ws_put_key(struct ws_text *t, const char *key)
{
	ws_put_comma(t);
	ws_text_printf(t, "\"%s\":", key);
}

void ws_put_text(struct ws_text *t, const char *key, const char *s, size_t n)
{
	ws_put_key(t, key);
	ws_text_json(t, s, n);
}

void ws_put_string(struct ws_text *t, const char *key, const char *s)
{
	ws_put_text(t, key, s, strlen(s));
}

void ws_put_int(struct ws_text *t, const char *key, int64_t v)
{
	ws_put_key(t, key);
	ws_text_printf(t, "%" PRId64, v);
}
