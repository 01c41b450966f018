/* libraries.h - the libraries whose calls can be traced, as src/inject/libraries declares them. */
#ifndef WS_RECORD_LIBRARIES_H
#define WS_RECORD_LIBRARIES_H

#include <stdbool.h>
#include <stdint.h>

#include "library_numbers.h"

struct ws_proc;
struct ws_sink;
struct ws_stream;

/* The bits (1 << enum ws_library) of libraries for whose --trace word `is_wanted` returns true. */
uint64_t ws_find_traced_libraries(bool (*is_wanted)(void *context, const char *trace),
				  void *context);
/* The NAME in the name of its hook library, libwarpsight-lib-NAME.so. */
const char *ws_library_hook(unsigned library);
/* Whether its own loader loads the hook library, which is not to be preloaded. */
bool ws_library_is_layer(unsigned library);
/* The names of its files. */
const char *ws_library_files(unsigned library);
/* Its common name. */
const char *ws_library_title(unsigned library);
/* Call `each` for every function that is wrapped, with the number of its library. */
void ws_library_walk_functions(void (*each)(void *context, unsigned library, const char *name),
			       void *context);

/* The string id of the name of the table for calls that library `number` of ws_nvtx_libraries
 * reports by NVTX; from then on the report has the table. */
uint32_t ws_library_name_nvtx_table(struct ws_stream *stream, unsigned number, const char *name);
/* Whether calls of this function are recorded by the wrapper of a library that is traced: it may be
 * so as long as no call of that library has been recorded in this process. */
enum ws_wrapping { WS_NOT_WRAPPED, WS_MAY_BE_WRAPPED, WS_IS_WRAPPED };
enum ws_wrapping ws_library_wraps(const struct ws_stream *stream, const char *name);
/* The bits of libraries of which a call of this process was recorded. */
uint64_t ws_library_seen(struct ws_proc *process);
/* A process has ended: report it if a library that should be traced is linked into its program. */
void ws_library_note_process_end(struct ws_stream *stream);
/* Say which of `libraries` have nothing in the report. */
void ws_library_say_absent(struct ws_sink *sink, uint64_t libraries, bool attached);
/* The same for libraries that announce their calls by NVTX alone; `trace`: the words of --trace, or
 * NULL. */
void ws_library_say_silent(struct ws_sink *sink, const char *trace);

#endif
