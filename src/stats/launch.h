/*
 * launch.h - the calls that launched work on GPUs and the NVTX ranges around them, with what a
 * report shows of these.
 */
#ifndef WS_STATS_LAUNCH_H
#define WS_STATS_LAUNCH_H

#include "query/enclose.h"
#include "stats/domains.h"
#include "stats/keyed.h"
#include "stats/stats.h"

/*
 * What ranges are grouped by: bit 63 for start/end ranges, bit 62 always, then the index of the
 * domain's prefix and the key of the text. 0 stands for no range.
 */
typedef uint64_t ws_range_key;
#define WS_RANGE_STARTEND (UINT64_C(1) << 63)
#define WS_RANGE_THERE (UINT64_C(1) << 62)

struct ws_launches {
	const struct ws_stats *stats;
	const struct ws_fold *fold; /* canonical names of ranges; NULL: names are unchanged.
				       Summaries set it before the first key is made */
	struct ws_calls calls;
	struct ws_ranges ranges;
	struct ws_enclose enclose;
	struct ws_domains domains;
	struct ws_domain_table table;
	uint32_t *prefix; /* by range: index of its domain's prefix */
	uint32_t *label;  /* by node: number of the name of its range, 0 for none; set by
			     ws_label_launches */
	struct ws_keyed_dists labels;
};

/* Number the names of the innermost ranges, so that work can be grouped by them. */
void ws_label_launches(struct ws_launches *launches);
/* The key of the range with this number; 0 for 0. Keys of start/end and of push/pop ranges are the
 * same. */
ws_range_key ws_get_launch_label_key(const struct ws_launches *launches, uint64_t label);

/* Which ranges to read: none (false), NVTX ranges (true), or NVTX ranges and, in a report without
 * any, a framework's annotations. */
enum { WS_ANY_RANGES = 2 };

/* Read calls and, with `ranges`, the ranges around them; damage is counted in `stats`. Returns NULL
 * with a message on failure. */
struct ws_launches *ws_launches_open(struct ws_stats *stats, int ranges, struct ws_err *err);
/* The argument of reports that count work launched by helper threads in the ranges of the threads
 * that wait for them, and its help text. */
#define WS_HELPER_ARG "helper-threads"
#define WS_HELPER_HELP                                                                       \
	"; :helper-threads also counts the work of threads that the range's own waits for, " \
	"like PyTorch's backward pass, and says how much in the column Helper Ops"
/* Count the calls of helper threads in the ranges of others, if the report's arguments ask for it.
 * Returns 0, or -1 with a message. */
int ws_put_helper_launches(struct ws_stats *stats, struct ws_launches *launches,
			   struct ws_err *err);
void ws_launches_close(struct ws_launches *launches); /* NULL is allowed */

static inline uint32_t ws_find_launch_call(const struct ws_launches *launches, uint64_t process,
					   uint64_t correlation)
{
	return ws_calls_find(&launches->calls, process, correlation);
}

/* Node of the innermost range around the call that has this correlation, 0 for none. */
static inline uint32_t ws_find_launch_node(const struct ws_launches *launches, uint64_t process,
					   uint64_t correlation)
{
	uint32_t call = ws_calls_find(&launches->calls, process, correlation);

	if (call == WS_NO_CALL)
		return 0;
	return launches->enclose.node_of_call[call];
}

ws_range_key ws_make_range_key(const struct ws_launches *launches, uint32_t range);
/* Key of the range of a node; 0 for node 0. Keys of start/end and of push/pop ranges are the
 * same. */
ws_range_key ws_make_node_range_key(const struct ws_launches *launches, uint32_t node);
/* "domain:text" of a key. Owned by the caller. */
char *ws_make_range_name(const struct ws_launches *launches, ws_range_key key, size_t *length);
/* The same without a copy when the domain has no prefix; otherwise the caller must free *owned,
 * which is left unchanged when there is no copy. */
const char *ws_get_range_name_text(const struct ws_launches *launches, ws_range_key key,
				   size_t *length, char **owned);
/* "range/name", or the name alone without a range. Owned by the caller; *length is the length of
 * the name on entry and of the result on return. */
char *ws_make_prefixed_name(const struct ws_launches *launches, ws_range_key key, const char *name,
			    size_t *length);

#endif
