/*
 * annotated_lib.c - a shared library that embeds annotations of its own; built twice, as LIB_NAME
 * one and two. It shares the domain "shared" by name, and has one of its own.
 */
#include "warpsight/annotate.h"

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
#define STR2(x) #x
#define STR(x) STR2(x)

__attribute__((visibility("default"))) void JOIN(annotated_, LIB_NAME)(void);

void JOIN(annotated_, LIB_NAME)(void)
{
	ws_domain shared = ws_domain_create("shared"), own = ws_domain_create("own " STR(LIB_NAME));
	ws_string s = ws_string_register(own, "registered in " STR(LIB_NAME));

	ws_range_push("default in " STR(LIB_NAME));
	ws_range_push_in(own, s);
	ws_event event = ws_event_text(shared, "shared in " STR(LIB_NAME));

	ws_range_push_event(&event);
	ws_range_pop_in(shared);
	ws_range_pop_in(own);
	ws_range_pop();
	ws_domain_destroy(shared);
}
