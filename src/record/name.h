/* name.h - the names of reports: %p %h %n %q{VAR} %% and the default. */
#ifndef WS_RECORD_NAME_H
#define WS_RECORD_NAME_H

#include <stdbool.h>

#include "base/err.h"
#include "base/mem.h"

#define WS_DEFAULT_NAME "report%n"
#define WS_FLIGHT_NAME "flight" /* of what a flight recorder writes */
#define WS_EXTENSION ".wsrep"

struct ws_name_context {
	int pid;	    /* %p */
	unsigned number;    /* %n */
	const char *suffix; /* added to the name, before its extension; NULL for none */
	const char *(*variable)(void *ctx,
				const char *name); /* value of %q{VAR}; NULL expands to nothing */
	void *ctx;
};

/*
 * Expand a template and add .wsrep unless the last path component has an extension of its own that
 * does not come from a placeholder. A folder (an existing one, or a name ending in /) gets the
 * default name inside it. The caller frees the result. NULL with a message when the template is
 * malformed.
 */
char *ws_report_name(const char *name, const struct ws_name_context *ctx, struct ws_err *err);
/* The same without an extension and without folders, for other names. */
char *ws_expand_name(const char *name, const struct ws_name_context *ctx, struct ws_err *err);
/* Whether the template itself makes names that differ from process to process (%p, %q{VAR}, %n), or
 * from host to host (%h too). */
bool ws_name_differs(const char *name, bool hosts);
/* Whether the template contains %n: when the number is taken, the next one is tried. */
bool ws_name_counts(const char *name);
/* Names of the %q{} variables, NUL-separated, ended by an empty one. */
void ws_name_variables(const char *name, struct ws_text *out);

#endif
