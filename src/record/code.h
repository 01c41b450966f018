/*
 * code.h - what a session knows about code: the modules, the address maps of the processes, and the
 * unwinder. There is one of each, for all sources of call stacks. At the end of a recording it also
 * resolves symbols.
 */
#ifndef WS_RECORD_CODE_H
#define WS_RECORD_CODE_H

#include "record/record.h"
#include "record/stacks.h"
#include "symbols/unwind.h"

struct ws_kernel_names;
struct ws_hotspot;

struct ws_code {
	struct ws_modules *modules;
	struct ws_maps *maps;
	struct ws_unwinder *unwinder;
	struct ws_kernel_names *kernel_names; /* NULL until they are needed */
	struct ws_hotspot *hotspot;	      /* what is known of machines of Java */
};

struct ws_code *ws_code_new(void);
/* Write the mappings that still exist to all reports that were bound to them. Call it before the
 * reports are closed; no lookup is possible afterwards. */
void ws_code_end(struct ws_code *code);
/*
 * Write the current mappings to all reports that were bound to them; the mappings go on. Each
 * report has mappings of its own; their modules, which last longer, must have been written before
 * (ws_code_tell_modules).
 */
void ws_code_tell_mappings(struct ws_code *code);
void ws_code_tell_modules(struct ws_code *code);
/* Call it in each round: reads what is gone when the program ends, of the frames of a report that
 * are new. */
void ws_code_look_at_frames(struct ws_code *code, struct ws_sink *sink);
/* Free it with its modules. Call it when no frame of any report is needed any more. */
void ws_code_free(struct ws_code *code);

/*
 * Name the frames of a report that have not been named yet, in rows of its table `symbol`, as
 * --resolve-symbols, --symbols and --show-source-info ask; says what could not be named. Takes at
 * most some seconds of processor time; with `progress` it says on a terminal how far it is.
 */
void ws_code_symbolise(struct ws_sink *sink, const struct ws_record_opts *options, uint64_t since_s,
		       struct ws_code *code, bool progress);

#endif
