/*
 * nvtx_pushpop_trace.c - every push/pop range in order of start, with its place in the nesting of
 * its thread.
 *
 * A range's parent is the innermost range of its thread that spans it, of whatever domain. All
 * ranges are read, since a child's time is known only from rows that come after its parent's; the
 * window then chooses which are printed, so that levels and ids do not depend on it. Ranges that
 * never ended are listed with empty end and duration.
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

struct trace {
	struct ws_stats *stats;
	struct ws_rows rows;
	struct ws_domains domains;
	struct ws_domain_table table;
	uint32_t *range; /* rows that are push/pop ranges, in the order of rows: (thread, start,
			    longer first) */
	uint32_t count;
	uint32_t *parent, *level, *children, *id,
		*prefix; /* by position in `range`; parent NONE for none */
	uint64_t *child_ns;
	uint32_t *order; /* positions by start */
};

static uint64_t value(const struct trace *trace, uint32_t at, int column)
{
	return trace->rows.col[column][trace->range[at]];
}

static void pick_ranges(struct trace *trace)
{
	const uint64_t *type = trace->rows.col[ws_nvtx_type];

	trace->range = ws_malloc(trace->rows.rows * sizeof(*trace->range));
	trace->prefix = ws_malloc(trace->rows.rows * sizeof(*trace->prefix));
	for (size_t i = 0; i < trace->rows.rows; i++) {
		uint64_t end = trace->rows.col[ws_nvtx_end][i];
		uint32_t thread = (uint32_t)trace->rows.col[ws_nvtx_thread][i],
			 domain = (uint32_t)trace->rows.col[ws_nvtx_domain][i];

		if (type[i] == WS_NVTX_DOMAIN_CREATE)
			ws_domains_name(&trace->domains, trace->stats->who, thread, domain,
					(uint32_t)trace->rows.col[ws_nvtx_text][i]);
		if (type[i] != WS_NVTX_PUSHPOP)
			continue;
		if (end < trace->rows.col[ws_nvtx_start][i]) {
			trace->stats->backwards++;
			continue;
		}
		trace->prefix[trace->count] =
			ws_domains_number(&trace->domains, trace->stats->who, thread, domain);
		trace->range[trace->count++] = (uint32_t)i;
	}
	ws_domain_table_make(&trace->table, trace->stats->report, &trace->domains, 1);
	for (uint32_t i = 0; i < trace->count; i++)
		trace->prefix[i] =
			trace->prefix[i] ? trace->table.canonical[0][trace->prefix[i]] : 0;
}

/*
 * Parents, levels and children's time, by walking each thread's ranges in order of start with the
 * stack of those still open. Ranges of two domains may overlap without nesting: one that ends
 * before a range that started inside of it leaves the stack then, since whatever starts later and
 * lies within it lies within the other too, which is nearer.
 */
static void nest(struct trace *trace)
{
	uint32_t *stack = NULL;
	size_t depth = 0, cap = 0;

	for (uint32_t i = 0; i < trace->count; i++) {
		uint64_t start = value(trace, i, ws_nvtx_start), end = value(trace, i, ws_nvtx_end);

		if (i && value(trace, i, ws_nvtx_thread) != value(trace, i - 1, ws_nvtx_thread))
			depth = 0;
		while (depth && (value(trace, stack[depth - 1], ws_nvtx_end) <= start ||
				 value(trace, stack[depth - 1], ws_nvtx_end) < end))
			depth--;
		trace->parent[i] = depth ? stack[depth - 1] : NONE;
		trace->level[i] = depth ? trace->level[stack[depth - 1]] + 1 : 0;
		if (depth) {
			trace->children[stack[depth - 1]]++;
			trace->child_ns[stack[depth - 1]] += end == WS_NO_TIME ? 0 : end - start;
		}
		ws_grow(stack, cap, depth + 1);
		stack[depth++] = i;
	}
	free(stack);
}

static int by_start(const void *first, const void *second, void *ctx)
{
	const struct trace *trace = ctx;
	uint32_t x = *(const uint32_t *)first, y = *(const uint32_t *)second;
	uint64_t sx = value(trace, x, ws_nvtx_start), sy = value(trace, y, ws_nvtx_start);

	if (sx != sy)
		return sx < sy ? -1 : 1;
	if (value(trace, x, ws_nvtx_thread) !=
	    value(trace, y,
		  ws_nvtx_thread)) /* the later thread first: so the reference tool numbers them */
		return x < y ? 1 : -1;
	return ws_compare(x, y); /* longer first */
}

static void number(struct trace *trace)
{
	for (uint32_t i = 0; i < trace->count; i++)
		trace->order[i] = i;
	if (trace->count)
		qsort_r(trace->order, trace->count, sizeof(*trace->order), by_start, trace);
	for (uint32_t i = 0; i < trace->count; i++)
		trace->id[trace->order[i]] = i + 1;
}

/* Levels shown of a nesting; deeper ones, which only a broken program or file has, would fill the
 * disk with dashes. */
enum { DEEPEST = 1000 };

/* ":1:5:6": the ids of the ranges around it and its own; of too deep ones, dots and the nearest. */
static void put_stack(const struct trace *trace, uint32_t i, struct ws_text *out)
{
	uint32_t ids[DEEPEST], depth = trace->level[i] < DEEPEST ? trace->level[i] + 1 : DEEPEST;

	if (trace->level[i] >= DEEPEST)
		ws_text_puts(out, ":...");
	for (uint32_t n = depth; n--; i = trace->parent[i])
		ids[n] = trace->id[i];
	for (uint32_t n = 0; n < depth; n++)
		ws_text_printf(out, ":%u", (unsigned)ids[n]);
}

static void print_range(struct trace *trace, uint32_t i, struct ws_text *tree,
			struct ws_text *stack)
{
	uint64_t start = value(trace, i, ws_nvtx_start), end = value(trace, i, ws_nvtx_end);
	const struct ws_thread_info *thread =
		ws_who_thread(trace->stats->who, (uint32_t)value(trace, i, ws_nvtx_thread));
	const struct ws_text *prefix = &trace->table.prefixes[trace->prefix[i]];
	uint32_t shown = ws_min(trace->level[i], DEEPEST);
	size_t len, dashes = (size_t)shown * 2;
	const char *text = ws_report_string(trace->stats->report,
					    (uint32_t)value(trace, i, ws_nvtx_text), &len);
	bool ended = end != WS_NO_TIME;

	tree->len = stack->len = 0;
	for (uint32_t n = 0; n < shown; n++)
		ws_text_add(tree, "--", 2);
	ws_text_add(tree, prefix->text, prefix->len);
	ws_text_add(tree, text, len);
	put_stack(trace, i, stack);
	trace->stats->row(
		trace->stats,
		(struct ws_cell[]){
			ws_cell_int((int64_t)(start - trace->stats->zero)),
			ended ? ws_cell_int((int64_t)(end - trace->stats->zero)) : ws_cell_null(),
			ended ? ws_cell_int((int64_t)(end - start)) : ws_cell_null(),
			ws_cell_int((int64_t)trace->child_ns[i]),
			ended ? ws_cell_int((int64_t)(end - start) - (int64_t)trace->child_ns[i])
			      : ws_cell_null(),
			ws_cell_text(tree->text + dashes, tree->len - dashes),
			ws_cell_int(thread->pid),
			ws_cell_int(thread->tid),
			ws_cell_int(trace->level[i]),
			ws_cell_int(trace->children[i]),
			ws_cell_int(trace->id[i]),
			trace->parent[i] == NONE ? ws_cell_null()
						 : ws_cell_int(trace->id[trace->parent[i]]),
			ws_cell_text(stack->text, stack->len),
			ws_cell_text(tree->text, tree->len),
		});
}

static void print(struct trace *trace)
{
	struct ws_text tree = {0}, stack = {0};

	for (uint32_t n = 0; n < trace->count; n++) {
		uint32_t i = trace->order[n];

		if (value(trace, i, ws_nvtx_start) <= trace->stats->time_max &&
		    value(trace, i, ws_nvtx_end) >= trace->stats->time_min)
			print_range(trace, i, &tree, &stack);
	}
	ws_text_free(&tree);
	ws_text_free(&stack);
}

static int run(struct ws_stats *stats, struct ws_err *err)
{
	struct ws_scan sc = {
		.table = WS_TABLE_nvtx,
		.columns = WS_COL(nvtx, start) | WS_COL(nvtx, end) | WS_COL(nvtx, thread) |
			   WS_COL(nvtx, text) | WS_COL(nvtx, domain) | WS_COL(nvtx, type),
		.time_max = UINT64_MAX,
	};
	struct trace trace = {.stats = stats};

	if (ws_report_rows(stats->report, WS_TABLE_nvtx) >= NONE)
		return ws_fail(err, "%s has more NVTX ranges than nvtx_pushpop_trace can list",
			       ws_report_path(stats->report));
	if (ws_rows_load(stats->report, &sc, &trace.rows, err) < 0)
		return -1;
	stats->damaged += trace.rows.damaged;
	pick_ranges(&trace);
	trace.parent = ws_malloc(trace.count * sizeof(*trace.parent));
	trace.level = ws_calloc(trace.count, sizeof(*trace.level));
	trace.children = ws_calloc(trace.count, sizeof(*trace.children));
	trace.child_ns = ws_calloc(trace.count, sizeof(*trace.child_ns));
	trace.id = ws_malloc(trace.count * sizeof(*trace.id));
	trace.order = ws_malloc(trace.count * sizeof(*trace.order));
	nest(&trace);
	number(&trace);
	print(&trace);
	free(trace.order);
	free(trace.id);
	free(trace.child_ns);
	free(trace.children);
	free(trace.level);
	free(trace.parent);
	free(trace.prefix);
	free(trace.range);
	ws_domain_table_free(&trace.table);
	ws_domains_free(&trace.domains);
	ws_rows_free(&trace.rows);
	return 0;
}

const struct ws_stat ws_stat_nvtx_pushpop_trace = {
	.name = "nvtx_pushpop_trace",
	.title = "NVTX Push/Pop Range Trace",
	.about = "Every push/pop range by start, with its children's time and its place in the "
		 "nesting of its thread. Ranges that "
		 "never ended "
		 "have no end and no duration.",
	.what = "NVTX push/pop ranges",
	.columns = columns,
	.column_count = WS_COUNT(columns),
	.run = run,
};
