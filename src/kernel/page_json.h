/*
 * page_json.h - measured kernels as the page shows them: the page's server and the exported page
 * both send it. docs/viewer.md describes it.
 */
#ifndef WS_KERNEL_PAGE_JSON_H
#define WS_KERNEL_PAGE_JSON_H

#include "base/mem.h"
#include "kernel/launches.h"

/* Launches of the results in a report that is open alongside their report. */
struct ws_kernel_timeline {
	size_t report;			     /* its number on the page */
	struct ws_kernel_launches *launches; /* one entry per result */
	uint64_t busy_ns;		     /* of all its kernels */
};

struct ws_kernel_view {
	const struct ws_kernel_results *results;
	const struct ws_kernel_timeline *timelines;
	size_t timeline_count;
};

/* Append "results": one object per result, for the table of all. */
void ws_put_kernel_summaries(struct ws_text *out, const struct ws_kernel_view *view);
/* Append the members of one result, including those of its summary. `number` is its index. */
void ws_put_kernel_details(struct ws_text *out, const struct ws_kernel_view *view, size_t number);

#endif
