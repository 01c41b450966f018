/* chrome_samples.h - CPU samples as Chrome's trace events. */
#ifndef WS_EXPORT_CHROME_SAMPLES_H
#define WS_EXPORT_CHROME_SAMPLES_H

#include "base/mem.h"
#include "export/export.h"

struct ws_chrome_samples;

struct ws_chrome_samples *ws_chrome_samples_open(struct ws_cell_context *export);
void ws_chrome_samples_close(struct ws_chrome_samples *samples);
/*
 * Write the rest of an event after its place, without the leading comma. An event of its own
 * ("Profile") announces the first sample of a thread: returns true when that is still to be
 * written. `at` is the sample's time as the trace shows it, ns.
 */
bool ws_chrome_samples_new(const struct ws_chrome_samples *samples, uint64_t thread);
void ws_chrome_samples_begin(struct ws_chrome_samples *samples, struct ws_text *text,
			     uint64_t thread, int64_t at);
void ws_chrome_samples_put(struct ws_chrome_samples *samples, struct ws_text *text,
			   const uint64_t *sample, int64_t at);
/* Write the functions of all stacks, as members of the object "stackFrames"; `flush` is called now
 * and then. Returns 0, or its failure. */
int ws_chrome_samples_frames(struct ws_chrome_samples *samples, struct ws_text *text,
			     int (*flush)(void *ctx), void *ctx);

#endif
