/* slice_args.h - the arguments of a slice, or of a row of another tool's table: members of a JSON
 * object. */
#ifndef WS_VIEWS_SLICE_ARGS_H
#define WS_VIEWS_SLICE_ARGS_H

#include "query/query.h"
#include "text/json.h"

/* The member `name` of the object that the string `args` holds; false when it is missing or null.
 * The value points into the report. */
bool ws_find_slice_arg(const struct ws_report *report, uint64_t args, const char *name,
		       struct ws_json_value *out);
/* The same for a whole number, and for a text that needs no unescaping and fits into `size` bytes.
 * */
bool ws_read_slice_number(const struct ws_report *report, uint64_t args, const char *name,
			  int64_t *out);
bool ws_read_slice_text(const struct ws_report *report, uint64_t args, const char *name, char *out,
			size_t size);

#endif
