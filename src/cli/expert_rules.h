/* expert_rules.h - the expert rules that users of Nsight Systems know, under their names and with
 * their columns, as queries that `analyze -r NAME` makes like reports of `stats`. */
#ifndef WS_CLI_EXPERT_RULES_H
#define WS_CLI_EXPERT_RULES_H

#include <stdbool.h>
#include <stdio.h>

/* Whether `spec` is the name of one, with or without arguments after a colon. */
bool ws_is_expert_rule(const char *spec);
/* List them, a line each. */
void ws_list_expert_rules(FILE *file);
/* Say what one does; false when there is none of this name. */
bool ws_explain_expert_rule(const char *name);
/* Make the tables of `specs` (`count`) for one report, on standard output or in `output`, in
 * `format` (NULL for column). Returns an exit status; messages go to standard error. */
int ws_make_expert_rules(const char *path, const char *const *specs, size_t count,
			 const char *format, const char *output, bool overwrite);

#endif
