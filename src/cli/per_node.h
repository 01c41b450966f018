/* per_node.h - `profile --per-node`: all ranks of a host are recorded into one report. */
#ifndef WS_CLI_PER_NODE_H
#define WS_CLI_PER_NODE_H

#include "cli/record_options.h"
#include "record/record.h"

/* Run the program of this rank, recorded by the host's recorder, which the first rank starts.
 * Prints messages and returns the exit status. */
int ws_record_per_node(const struct ws_record_options *options, struct ws_record_opts *record_opts);

#endif
