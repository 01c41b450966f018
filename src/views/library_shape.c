/* library_shape.c - see library_shape.h. */
#include "views/library_shape.h"

#include "text/json.h"

struct ws_library_shape ws_read_library_shape(const struct ws_report *report, uint32_t args)
{
	struct ws_library_shape shape = {.flops = -1, .bytes = -1};
	struct ws_json_value object = {0}, key, value;
	struct ws_json_walk walk;
	size_t length;
	const char *text = ws_report_string(report, args, &length);
	bool more, ok;

	if (!args || !ws_read_json_value(text, text + length, &object, &more) ||
	    object.type != WS_JSON_OBJECT)
		return shape;
	walk = ws_begin_json_walk(&object);
	while (ws_next_json_member(&walk, &key, &value)) {
		if (ws_is_json_string(&key, "flops"))
			shape.flops = ws_parse_json_double(&value, &ok);
		else if (ws_is_json_string(&key, "bytes"))
			shape.bytes = ws_parse_json_double(&value, &ok);
		else
			ws_text_printf(&shape.text, "%s%.*s=%.*s", shape.text.len ? " " : "",
				       (int)key.length, key.text, (int)value.length, value.text);
	}
	return shape;
}
