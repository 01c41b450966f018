/*
 * places.h - which line of a kernel's source a finding is about.
 */
#ifndef WS_KERNEL_PLACES_H
#define WS_KERNEL_PLACES_H

#include "kernel/rules.h"
#include "kernel/spots.h"

/* Add to each finding that concerns single instructions where most of it is; and a note of the line
 * where the kernel spends most of its time. */
void ws_kernel_place_findings(const struct ws_kernel_spots *spots,
			      struct ws_kernel_findings *findings);
/* Judge a result, and place its findings by what the report has of its instructions. */
void ws_kernel_judge_placed(const struct ws_report *report, const struct ws_kernel_result *result,
			    struct ws_kernel_findings *findings);

#endif
