/*
 * pm_library.h - finds the driver and a libcupti that samples performance monitors.
 */
#ifndef WS_METRICS_PM_LIBRARY_H
#define WS_METRICS_PM_LIBRARY_H

#include <stdbool.h>

#include "base/err.h"
#include "ring/pm_abi.h"

struct pm_library {
	struct pm_driver cuda;
	struct pm_functions cupti;
	int (*estimate)(struct pm_estimate *); /* NULL: the library is too old */
	struct pm_sums_functions sums;
	struct pm_evaluator_functions evaluator;
	bool has_sums, has_evaluator;
	char *path; /* of libcupti */
};

/* Open both libraries, which stay open until the process ends. Returns -1 with a message that says
 * what is missing. */
int ws_pm_library_open(struct pm_library *library, struct ws_err *err);
void ws_pm_library_free(struct pm_library *library);
/* What an error of CUPTI means to a user who asked for GPU metrics, and what to do about it: the
 * end of a sentence that begins with what failed. A constant. */
const char *ws_pm_explain(int error);

#endif
