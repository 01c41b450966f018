/* python_place.c - see python_place.h. */
#include "stats/python_place.h"

#include "text/json.h"

static void put_member(const struct ws_json_value *key, const struct ws_json_value *value,
		       struct ws_python_place *place)
{
	struct ws_text scratch = {0}, *to = NULL;
	const char *bytes;
	size_t n;

	if (ws_is_json_string(key, "line"))
		ws_text_printf(&place->at, ":%lld", (long long)ws_parse_json_fixed(value, 0, NULL));
	if (ws_is_json_string(key, "module"))
		to = &place->module;
	if (ws_is_json_string(key, "file"))
		to = &place->at;
	if (!to || value->type != WS_JSON_STRING)
		return;
	bytes = ws_unescape_json_text(value, &scratch, &n);
	ws_text_add(to, bytes, n);
	ws_text_free(&scratch);
}

void ws_read_python_place(const struct ws_report *report, uint64_t args,
			  struct ws_python_place *place)
{
	size_t length;
	const char *text = ws_report_string(report, (uint32_t)args, &length);
	struct ws_json_value object, key, value;
	struct ws_json_walk walk;
	bool more;

	ws_text_puts(&place->module, "");
	ws_text_puts(&place->at, "");
	if (!ws_read_json_value(text, text + length, &object, &more) ||
	    object.type != WS_JSON_OBJECT)
		return;
	walk = ws_begin_json_walk(&object);
	while (ws_next_json_member(&walk, &key, &value))
		put_member(&key, &value, place);
}

void ws_free_python_place(struct ws_python_place *place)
{
	ws_text_free(&place->module);
	ws_text_free(&place->at);
}
