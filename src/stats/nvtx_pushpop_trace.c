/*
 * nvtx_pushpop_trace.c - every push/pop range in order of start, with its place in the nesting of
 * its thread.
 *
 * The parent of a range is the innermost range of its thread around it, in any domain. All ranges
 * are read, since the rows of children come after that of their parent. The window then selects
 * which are printed, so that levels and ids do not depend on it. Ranges that never ended are listed
 * without end and duration.
 */
#include <stdlib.h>
#include <string.h>

#include "stats/domains.h"
#include "base/choose.h"
#include "stats/stats.h"

static const struct ws_column columns[] = {
	{"Start", WS_KIND_TIME},      {"End", WS_KIND_TIME},	     {"Duration", WS_KIND_TIME},
	{"DurChild", WS_KIND_TIME},   {"DurNonChild", WS_KIND_TIME}, {"Name", WS_KIND_TEXT},
	{"PID", WS_KIND_ID},	      {"TID", WS_KIND_ID},	     {"Lvl", WS_KIND_ID},
	{"NumChild", WS_KIND_COUNT},  {"RangeId", WS_KIND_ID},	     {"ParentId", WS_KIND_ID},
	{"RangeStack", WS_KIND_TEXT}, {"NameTree", WS_KIND_TEXT},
};

#define NONE UINT32_MAX

struct pushpop_trace {
	struct ws_stats *stats;
	struct ws_rows rows;
	struct ws_domains domains;
	struct ws_domain_table table;
	uint32_t *range; /* rows that are push/pop ranges, by (thread, start, longer first) */
	uint32_t count;
	/* By index in `range`; a parent of NONE means that there is none. */
	uint32_t *parent, *level, *children, *id, *prefix;
	uint64_t *child_ns; /* time of the children, ns */
	uint32_t *order;    /* indices in `range` by start */
};

static uint64_t get_range_value(const struct pushpop_trace *pushpop_trace, uint32_t range,
				int column)
{
	return pushpop_trace->rows.col[column][pushpop_trace->range[range]];
}

static void pick_ranges(struct pushpop_trace *pushpop_trace)
{
	const uint64_t *type = pushpop_trace->rows.col[ws_nvtx_type];

	pushpop_trace->range = ws_malloc(pushpop_trace->rows.rows * sizeof(*pushpop_trace->range));
	pushpop_trace->prefix =
		ws_malloc(pushpop_trace->rows.rows * sizeof(*pushpop_trace->prefix));
	for (size_t i = 0; i < pushpop_trace->rows.rows; i++) {
		uint64_t end = pushpop_trace->rows.col[ws_nvtx_end][i];
		uint32_t thread = (uint32_t)pushpop_trace->rows.col[ws_nvtx_thread][i],
			 domain = (uint32_t)pushpop_trace->rows.col[ws_nvtx_domain][i];

		if (type[i] == WS_NVTX_DOMAIN_CREATE)
			ws_domains_add_name(&pushpop_trace->domains, pushpop_trace->stats->who,
					    thread, domain,
					    (uint32_t)pushpop_trace->rows.col[ws_nvtx_text][i]);
		if (type[i] != WS_NVTX_PUSHPOP)
			continue;
		if (end < pushpop_trace->rows.col[ws_nvtx_start][i]) {
			pushpop_trace->stats->backwards++;
			continue;
		}
		pushpop_trace->prefix[pushpop_trace->count] = ws_domains_get_number(
			&pushpop_trace->domains, pushpop_trace->stats->who, thread, domain);
		pushpop_trace->range[pushpop_trace->count++] = (uint32_t)i;
	}
	ws_make_domain_table(&pushpop_trace->table, pushpop_trace->stats->report,
			     &pushpop_trace->domains, 1);
	for (uint32_t i = 0; i < pushpop_trace->count; i++)
		pushpop_trace->prefix[i] =
			pushpop_trace->table.canonical[0][pushpop_trace->prefix[i]];
}

/*
 * Find parents, levels and the time of children with a stack of open ranges, by going through each
 * thread's ranges in order of start. Ranges of two domains may overlap without nesting: one that
 * ends before a range that started inside it leaves the stack, since whatever starts later and lies
 * inside it also lies inside that other range, which is the nearer one.
 */
static void find_range_parents(struct pushpop_trace *pushpop_trace)
{
	uint32_t *stack = NULL;
	size_t depth = 0, capacity = 0;

	for (uint32_t i = 0; i < pushpop_trace->count; i++) {
		uint64_t start = get_range_value(pushpop_trace, i, ws_nvtx_start),
			 end = get_range_value(pushpop_trace, i, ws_nvtx_end);

		if (i && get_range_value(pushpop_trace, i, ws_nvtx_thread) !=
				 get_range_value(pushpop_trace, i - 1, ws_nvtx_thread))
			depth = 0;
		while (depth &&
		       (get_range_value(pushpop_trace, stack[depth - 1], ws_nvtx_end) <= start ||
			get_range_value(pushpop_trace, stack[depth - 1], ws_nvtx_end) < end))
			depth--;
		pushpop_trace->parent[i] = NONE;
		if (depth) {
			uint32_t parent = stack[depth - 1];

			pushpop_trace->parent[i] = parent;
			pushpop_trace->level[i] = pushpop_trace->level[parent] + 1;
			pushpop_trace->children[parent]++;
			if (end != WS_NO_TIME)
				pushpop_trace->child_ns[parent] += end - start;
		}
		ws_grow(stack, capacity, depth + 1);
		stack[depth++] = i;
	}
	free(stack);
}

static int compare_trace_starts(const void *first, const void *second, void *context)
{
	const struct pushpop_trace *pushpop_trace = context;
	uint32_t left = *(const uint32_t *)first, right = *(const uint32_t *)second;
	uint64_t left_start = get_range_value(pushpop_trace, left, ws_nvtx_start),
		 right_start = get_range_value(pushpop_trace, right, ws_nvtx_start);

	if (left_start != right_start)
		return ws_compare(left_start, right_start);
	/* The reference tool numbers ranges of the later thread first; of one thread, longer ones.
	 */
	if (get_range_value(pushpop_trace, left, ws_nvtx_thread) !=
	    get_range_value(pushpop_trace, right, ws_nvtx_thread))
		return ws_compare(right, left);
	return ws_compare(left, right);
}

static void number_ranges(struct pushpop_trace *pushpop_trace)
{
	for (uint32_t i = 0; i < pushpop_trace->count; i++)
		pushpop_trace->order[i] = i;
	if (pushpop_trace->count)
		qsort_r(pushpop_trace->order, pushpop_trace->count, sizeof(*pushpop_trace->order),
			compare_trace_starts, pushpop_trace);
	for (uint32_t i = 0; i < pushpop_trace->count; i++)
		pushpop_trace->id[pushpop_trace->order[i]] = i + 1;
}

/* How many nesting levels are shown. Only broken programs or files have more, and their dashes
 * would fill the disk. */
enum { DEEPEST = 1000 };

/* ":1:5:6": the ids of the ranges around range i and its own; if there are too many, "..." and the
 * innermost ones. */
static void put_id_stack(const struct pushpop_trace *pushpop_trace, uint32_t range,
			 struct ws_text *out)
{
	uint32_t ids[DEEPEST], depth = ws_min(pushpop_trace->level[range], DEEPEST - 1u) + 1;

	if (pushpop_trace->level[range] >= DEEPEST)
		ws_text_puts(out, ":...");
	for (uint32_t level = depth; level--; range = pushpop_trace->parent[range])
		ids[level] = pushpop_trace->id[range];
	for (uint32_t level = 0; level < depth; level++)
		ws_text_printf(out, ":%u", (unsigned)ids[level]);
}

static void print_pushpop_range(struct pushpop_trace *pushpop_trace, uint32_t range,
				struct ws_text *tree, struct ws_text *stack)
{
	uint64_t start = get_range_value(pushpop_trace, range, ws_nvtx_start),
		 end = get_range_value(pushpop_trace, range, ws_nvtx_end);
	const struct ws_thread_info *thread =
		ws_find_thread(pushpop_trace->stats->who,
			       (uint32_t)get_range_value(pushpop_trace, range, ws_nvtx_thread));
	const struct ws_text *prefix = &pushpop_trace->table.prefixes[pushpop_trace->prefix[range]];
	uint32_t shown = ws_min(pushpop_trace->level[range], DEEPEST);
	size_t length, dashes = (size_t)shown * 2;
	const char *text =
		ws_report_string(pushpop_trace->stats->report,
				 (uint32_t)get_range_value(pushpop_trace, range, ws_nvtx_text),
				 &length);
	bool ended = end != WS_NO_TIME;
	struct ws_cell parent = ws_cell_null();

	if (pushpop_trace->parent[range] != NONE)
		parent = ws_cell_int(pushpop_trace->id[pushpop_trace->parent[range]]);
	tree->len = stack->len = 0;
	for (uint32_t level = 0; level < shown; level++)
		ws_text_add(tree, "--", 2);
	ws_text_add(tree, prefix->text, prefix->len);
	ws_text_add(tree, text, length);
	put_id_stack(pushpop_trace, range, stack);
	pushpop_trace->stats->row(
		pushpop_trace->stats,
		(struct ws_cell[]){
			ws_cell_int((int64_t)(start - pushpop_trace->stats->zero)),
			ws_cell_int_if(ended, (int64_t)(end - pushpop_trace->stats->zero)),
			ws_cell_int_if(ended, (int64_t)(end - start)),
			ws_cell_int((int64_t)pushpop_trace->child_ns[range]),
			ws_cell_int_if(ended, (int64_t)(end - start) -
						      (int64_t)pushpop_trace->child_ns[range]),
			ws_cell_text(tree->text + dashes, tree->len - dashes),
			ws_cell_int(thread->pid),
			ws_cell_int(thread->tid),
			ws_cell_int(pushpop_trace->level[range]),
			ws_cell_int(pushpop_trace->children[range]),
			ws_cell_int(pushpop_trace->id[range]),
			parent,
			ws_cell_text(stack->text, stack->len),
			ws_cell_text(tree->text, tree->len),
		});
}

static void print_pushpop_ranges(struct pushpop_trace *pushpop_trace)
{
	struct ws_text tree = {0}, stack = {0};

	for (uint32_t position = 0; position < pushpop_trace->count; position++) {
		uint32_t range = pushpop_trace->order[position];

		if (get_range_value(pushpop_trace, range, ws_nvtx_start) <=
			    pushpop_trace->stats->time_max &&
		    get_range_value(pushpop_trace, range, ws_nvtx_end) >=
			    pushpop_trace->stats->time_min)
			print_pushpop_range(pushpop_trace, range, &tree, &stack);
	}
	ws_text_free(&tree);
	ws_text_free(&stack);
}

static int make_nvtx_pushpop_trace_rows(struct ws_stats *stats, struct ws_err *err)
{
	struct ws_scan scan = {
		.table = WS_TABLE_nvtx,
		.columns = WS_COLUMN_BIT(nvtx, start) | WS_COLUMN_BIT(nvtx, end) |
			   WS_COLUMN_BIT(nvtx, thread) | WS_COLUMN_BIT(nvtx, text) |
			   WS_COLUMN_BIT(nvtx, domain) | WS_COLUMN_BIT(nvtx, type),
		.time_max = UINT64_MAX,
	};
	struct pushpop_trace pushpop_trace = {.stats = stats};

	if (ws_report_count_rows(stats->report, WS_TABLE_nvtx) >= NONE)
		return ws_fail(err, "%s has more NVTX ranges than nvtx_pushpop_trace can list",
			       ws_report_path(stats->report));
	if (ws_rows_load(stats->report, &scan, &pushpop_trace.rows, err) < 0)
		return -1;
	stats->damaged += pushpop_trace.rows.damaged;
	pick_ranges(&pushpop_trace);
	pushpop_trace.parent = ws_malloc(pushpop_trace.count * sizeof(*pushpop_trace.parent));
	pushpop_trace.level = ws_calloc(pushpop_trace.count, sizeof(*pushpop_trace.level));
	pushpop_trace.children = ws_calloc(pushpop_trace.count, sizeof(*pushpop_trace.children));
	pushpop_trace.child_ns = ws_calloc(pushpop_trace.count, sizeof(*pushpop_trace.child_ns));
	pushpop_trace.id = ws_malloc(pushpop_trace.count * sizeof(*pushpop_trace.id));
	pushpop_trace.order = ws_malloc(pushpop_trace.count * sizeof(*pushpop_trace.order));
	find_range_parents(&pushpop_trace);
	number_ranges(&pushpop_trace);
	print_pushpop_ranges(&pushpop_trace);
	free(pushpop_trace.order);
	free(pushpop_trace.id);
	free(pushpop_trace.child_ns);
	free(pushpop_trace.children);
	free(pushpop_trace.level);
	free(pushpop_trace.parent);
	free(pushpop_trace.prefix);
	free(pushpop_trace.range);
	ws_free_domain_table(&pushpop_trace.table);
	ws_domains_free(&pushpop_trace.domains);
	ws_rows_free(&pushpop_trace.rows);
	return 0;
}

const struct ws_stats_report ws_stat_nvtx_pushpop_trace = {
	.name = "nvtx_pushpop_trace",
	.title = "NVTX Push/Pop Range Trace",
	.about = "Every push/pop range by start, with its children's time and its place in the "
		 "nesting of its thread. Ranges that "
		 "never ended "
		 "have no end and no duration.",
	.what = "NVTX push/pop ranges",
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = make_nvtx_pushpop_trace_rows,
};
