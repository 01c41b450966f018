/* slice_args.c - see slice_args.h. */
#include "views/slice_args.h"

#include <string.h>

bool ws_find_slice_arg(const struct ws_report *report, uint64_t args, const char *name,
		       struct ws_json_value *out)
{
	struct ws_json_value whole, key;
	struct ws_json_walk walk;
	size_t length;
	const char *json = ws_report_string(report, (uint32_t)args, &length);
	bool more = false;

	if (!length || !ws_read_json_value(json, json + length, &whole, &more) ||
	    whole.type != WS_JSON_OBJECT)
		return false;
	walk = ws_begin_json_walk(&whole);
	while (ws_next_json_member(&walk, &key, out))
		if (ws_is_json_string(&key, name))
			return out->type != WS_JSON_NULL;
	return false;
}

bool ws_read_slice_number(const struct ws_report *report, uint64_t args, const char *name,
			  int64_t *out)
{
	struct ws_json_value value;
	bool ok = false;

	if (!ws_find_slice_arg(report, args, name, &value) || value.type != WS_JSON_NUMBER)
		return false;
	*out = ws_parse_json_fixed(&value, 0, &ok);
	return ok;
}

bool ws_read_slice_text(const struct ws_report *report, uint64_t args, const char *name, char *out,
			size_t size)
{
	struct ws_json_value value;

	if (!ws_find_slice_arg(report, args, name, &value) || value.type != WS_JSON_STRING ||
	    value.escaped || value.length >= size)
		return false;
	memcpy(out, value.text, value.length);
	out[value.length] = 0;
	return true;
}
