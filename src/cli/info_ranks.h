/* info_ranks.h - which ranks of a job a report has, for the command `info`. */
#ifndef WS_CLI_INFO_RANKS_H
#define WS_CLI_INFO_RANKS_H

#include "base/mem.h"
#include "query/query.h"

/* Print one line for each rank, with its processes; nothing where there is none. */
void ws_print_ranks(const struct ws_report *report, const struct ws_names_by_id *who);
/* Add the member "ranks" of a JSON object, one element for each process of a rank. */
void ws_add_json_ranks(const struct ws_report *report, const struct ws_names_by_id *who,
		       struct ws_text *text);

#endif
