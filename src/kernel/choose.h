/*
 * choose.h - which metrics to measure: what the options --set, --section and --metrics ask for, on
 * a chip.
 */
#ifndef WS_KERNEL_CHOOSE_H
#define WS_KERNEL_CHOOSE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/mem.h"

struct ws_kernel_request {
	/* The value of each option: names separated by commas; NULL when the option was not given.
	 * Sections may be regex:EXPRESSION; metrics regex:EXPRESSION, breakdown:METRIC, or a base
	 * name that stands for all its forms, or the beginning of some (sm__warps_active.avg.pct);
	 * pmsampling:METRIC is sampled over the kernel's time. Without any option, the set basic is
	 * chosen. `sets` may be "none". */
	const char *sets, *sections, *metrics;
};

struct ws_kernel_choice {
	char **names; /* what CUPTI is to measure, sorted, without duplicates */
	size_t count, capacity;
	struct ws_kernel_sampled {
		char **names; /* what is to be sampled over the kernel's time, in their order */
		size_t count, capacity;
	} sampled;
	bool checked;		 /* the host library knows the chip */
	struct ws_text sections; /* identifiers, separated by commas */
	struct ws_text dropped;	 /* metrics that the chip does not have, separated by ", " */
};

/*
 * Check a request without a chip: unknown sets and sections, expressions that do not compile.
 * Returns 0, or -1 with a message.
 */
int ws_kernel_check_request(const struct ws_kernel_request *request, struct ws_err *err);

/*
 * The metrics to measure on a chip such as GH100. libcupti's host library checks the names; without
 * it, the metrics declared for the chip are used, and expressions and base names fail. `choice` is
 * zeroed by the caller. Returns 0, or -1 with a message.
 */
int ws_kernel_choose(const struct ws_kernel_request *request, const char *chip,
		     struct ws_kernel_choice *choice, struct ws_err *err);
/* Put the names into the order in which CUPTI is to spread them over passes. */
void ws_kernel_order_passes(struct ws_kernel_choice *choice);
void ws_kernel_choice_free(struct ws_kernel_choice *choice);

#endif
