/*
 * library_shape.h - the arguments of a library call in few words, as reports and the page show
 * them.
 */
#ifndef WS_VIEWS_LIBRARY_SHAPE_H
#define WS_VIEWS_LIBRARY_SHAPE_H

#include "base/mem.h"
#include "query/query.h"

struct ws_library_shape {
	struct ws_text text; /* "m=500 n=300": what is not below; free with ws_text_free */
	double flops, bytes; /* of the call; negative when not known */
};

/* `args`: a string of the report with the arguments as JSON (column args of `slice`); 0 or another
 * text: nothing is known. */
struct ws_library_shape ws_read_library_shape(const struct ws_report *report, uint32_t args);

#endif
