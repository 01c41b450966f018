/*
 * images.h - counter data images that were kept beside a report (--keep-counters): packed into one
 * file when the program has ended, and read again to evaluate further metrics.
 */
#ifndef WS_KERNEL_IMAGES_H
#define WS_KERNEL_IMAGES_H

#include "base/err.h"
#include "base/mem.h"
#include "kernel/result.h"

/* The file beside a report: its name with .counters in place of .wsrep. Owned by the caller. */
char *ws_kernel_name_images(const char *report);
/* Compress the images that the kernel hook left in the folder into the file beside the report.
 * Returns how many there were, or -1 with a message. */
int ws_kernel_pack_images(const char *folder, const char *report, struct ws_err *err);
/*
 * Evaluate metrics, as --metrics names them, from the images beside the report and add them to its
 * results. Metrics whose counters were not measured are left out and named in *missing, separated
 * by blanks. 0, or -1 with a message.
 */
int ws_kernel_add_metrics(struct ws_kernel_results *results, const char *report,
			  const char *metrics, struct ws_text *missing, struct ws_err *err);

#endif
