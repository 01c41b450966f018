/*
 * ranges.h - NVTX ranges by name, with the work on GPUs that was launched in them: how long they
 * took on the host, and whether that work continued after they had ended.
 */
#ifndef WS_ANALYZE_RANGES_H
#define WS_ANALYZE_RANGES_H

#include "analyze/model.h"

/* Ranges of one name, whatever numbers are in it, in which work was launched. */
struct ws_range_fact {
	uint32_t name;	   /* for ws_fold_name */
	uint64_t count;	   /* of ranges */
	uint64_t early;	   /* number of ranges that end before half of their work has been done */
	uint64_t host_ns;  /* from start to end, of these early ranges */
	uint64_t gpu_ns;   /* of the work that was launched in them */
	uint64_t first_ns; /* start of the first of them */
	uint64_t last_ns;  /* end of the last */
};

struct ws_range_facts {
	struct ws_fold *fold; /* names the ranges */
	struct ws_range_fact *ranges;
	size_t count, cap;
};

/* Look at all ranges of the report. Free with ws_range_facts_free. */
void ws_range_facts_count(const struct ws_model *model, struct ws_range_facts *facts);
void ws_range_facts_free(struct ws_range_facts *facts);

#endif
