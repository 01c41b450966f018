/* python_functions.h - the file of --python-functions-trace. */
#ifndef WS_CLI_PYTHON_FUNCTIONS_H
#define WS_CLI_PYTHON_FUNCTIONS_H

#include "base/err.h"
#include "record/python.h"

/*
 * Read the functions that `file` names, in JSON: a list of {"module": NAME, "functions": [NAME or
 * {"function": NAME, ...}, ...], "domain": NAME, "color": VALUE}. Appended to `out`, to be freed
 * with the next. 0, or -1 with a message.
 */
int ws_python_functions_read(const char *file, struct ws_python_opts *out, struct ws_err *err);
void ws_python_functions_free(struct ws_python_opts *options);

#endif
