/*
 * enclose.h - which NVTX ranges enclose a call: those of its thread whose span includes the whole
 * call.
 *
 * The ranges around a call are a path of nodes, outermost first; calls between the same pushes and
 * pops share a path, so that sums by node need not be updated for each range. Push/pop ranges nest
 * and make one node each; start/end ranges, and ranges of different domains, may overlap in any way
 * and make more.
 */
#ifndef WS_QUERY_ENCLOSE_H
#define WS_QUERY_ENCLOSE_H

#include "query/correlate.h"
#include "query/helpers.h"

#define WS_NO_RANGE UINT32_MAX

/* NVTX ranges by (thread, start, longer first). */
struct ws_ranges {
	struct ws_rows
		rows;  /* start, end, thread, end_thread, text, domain, type of all NVTX rows */
	uint32_t *row; /* the rows that are ranges; everything else here counts ranges by their
			  position in this array */
	uint32_t count;
	uint64_t backwards; /* ranges that end before they start, left out */
};

/* Read push/pop and start/end ranges. A start/end range that ends on another thread encloses
 * nothing and is left out. Returns 0, or -1 with a message. Free with ws_ranges_free in any case.
 */
int ws_ranges_load(const struct ws_report *report, struct ws_ranges *ranges, struct ws_err *err);
/* The same for a framework's annotations (record_function), as push/pop ranges of the default
 * domain. */
int ws_ranges_load_annotations(const struct ws_report *report, struct ws_ranges *ranges,
			       struct ws_err *err);
void ws_ranges_free(struct ws_ranges *ranges);

static inline uint64_t ws_range_get(const struct ws_ranges *ranges, uint32_t range, int column)
{
	return ranges->rows.col[column][ranges->row[range]];
}

/*
 * The place of push/pop ranges in the nesting of their thread, whatever their domain: the innermost
 * range that spans a range is its parent, WS_NO_RANGE for none. Start/end ranges have no parent.
 * The arrays have an entry for each range; `level` may be NULL.
 */
void ws_ranges_find_parents(const struct ws_ranges *ranges, uint32_t *parent, uint32_t *level);

struct ws_enclose {
	uint32_t *node_of_call; /* node of each call: the innermost range around it; 0 for none */
	struct ws_enclose_node {
		uint32_t parent; /* the next node outwards, 0 for none; always a lower number */
		uint32_t range;
	} * node;
	uint32_t count; /* nodes, with the unused number 0 */
	/* With ws_enclose_helpers: by call, enum ws_helper_rule; NULL without. Nodes from `own` on
	 * are a helper's own ranges, below those of the thread that it works for. */
	uint8_t *helped;
	uint32_t own;
};

int ws_enclose_calls(const struct ws_ranges *ranges, const struct ws_calls *calls,
		     struct ws_enclose *out, struct ws_err *err);
/* Find out which threads work for those of the ranges (query/helpers.h). NULL with a message. */
struct ws_helpers *ws_find_range_helpers(const struct ws_report *report,
					 const struct ws_names_by_id *who, struct ws_ranges *ranges,
					 struct ws_err *err);
/*
 * Put the calls of helpers (query/helpers.h) also into the ranges of the threads that they work
 * for: into the innermost range that spans the call, around the helper's own ranges. A call within
 * a range of its own thread stays there if only a wait shows which thread it works for.
 */
int ws_enclose_helpers(const struct ws_ranges *ranges, const struct ws_calls *calls,
		       const struct ws_helpers *helpers, struct ws_enclose *enclose,
		       struct ws_err *err);
/* Whether a call is counted in the range of a node because its thread worked for the range's
 * thread. */
static inline bool ws_is_helped_node(const struct ws_enclose *enclose, uint32_t call, uint32_t node)
{
	return enclose->helped && enclose->helped[call] && node < enclose->own;
}
void ws_enclose_free(struct ws_enclose *enclose);

#endif
