/* facts.h - what a report says about the machine, the run and the environment: rows of the meta
 * table. */
#ifndef WS_RECORD_FACTS_H
#define WS_RECORD_FACTS_H

#include "record/record.h"
#include "record/sink.h"

/* Variables that launchers set, which every process reports: NUL-separated. Their values are stored
 * by default; for variables that match only a pattern (ending in '*'), just the names are
 * stored. */
extern const char ws_launcher_variables[];

void ws_facts_write(struct ws_sink *sink, const struct ws_record_opts *options, int target_pid,
		    char **target_env);

#endif
