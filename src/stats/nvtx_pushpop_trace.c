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
	struct ws_stats *s;
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

static uint64_t value(const struct trace *t, uint32_t at, int column)
{
	return t->rows.col[column][t->range[at]];
}

static void pick_ranges(struct trace *t)
{
	const uint64_t *type = t->rows.col[ws_nvtx_type];

	t->range = ws_malloc(t->rows.rows * sizeof(*t->range));
	t->prefix = ws_malloc(t->rows.rows * sizeof(*t->prefix));
	for (size_t i = 0; i < t->rows.rows; i++) {
		uint64_t end = t->rows.col[ws_nvtx_end][i];
		uint32_t thread = (uint32_t)t->rows.col[ws_nvtx_thread][i],
			 domain = (uint32_t)t->rows.col[ws_nvtx_domain][i];

		if (type[i] == WS_NVTX_DOMAIN_CREATE)
			ws_domains_name(&t->domains, t->s->who, thread, domain,
					(uint32_t)t->rows.col[ws_nvtx_text][i]);
		if (type[i] != WS_NVTX_PUSHPOP)
			continue;
		if (end < t->rows.col[ws_nvtx_start][i]) {
			t->s->backwards++;
			continue;
		}
		t->prefix[t->count] = ws_domains_number(&t->domains, t->s->who, thread, domain);
		t->range[t->count++] = (uint32_t)i;
	}
	ws_domain_table_make(&t->table, t->s->r, &t->domains, 1);
	for (uint32_t i = 0; i < t->count; i++)
		t->prefix[i] = t->prefix[i] ? t->table.canonical[0][t->prefix[i]] : 0;
}

/*
 * Parents, levels and children's time, by walking each thread's ranges in order of start with the
 * stack of those still open. Ranges of two domains may overlap without nesting: one that ends
 * before a range that started inside of it leaves the stack then, since whatever starts later and
 * lies within it lies within the other too, which is nearer.
 */
static void nest(struct trace *t)
{
	uint32_t *stack = NULL;
	size_t depth = 0, cap = 0;

	for (uint32_t i = 0; i < t->count; i++) {
		uint64_t start = value(t, i, ws_nvtx_start), end = value(t, i, ws_nvtx_end);

		if (i && value(t, i, ws_nvtx_thread) != value(t, i - 1, ws_nvtx_thread))
			depth = 0;
		while (depth && (value(t, stack[depth - 1], ws_nvtx_end) <= start ||
				 value(t, stack[depth - 1], ws_nvtx_end) < end))
			depth--;
		t->parent[i] = depth ? stack[depth - 1] : NONE;
		t->level[i] = depth ? t->level[stack[depth - 1]] + 1 : 0;
		if (depth) {
			t->children[stack[depth - 1]]++;
			t->child_ns[stack[depth - 1]] += end == WS_NO_TIME ? 0 : end - start;
		}
		ws_grow(stack, cap, depth + 1);
		stack[depth++] = i;
	}
	free(stack);
}

static int by_start(const void *a, const void *b, void *ctx)
{
	const struct trace *t = ctx;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	uint64_t sx = value(t, x, ws_nvtx_start), sy = value(t, y, ws_nvtx_start);

	if (sx != sy)
		return sx < sy ? -1 : 1;
	if (value(t, x, ws_nvtx_thread) !=
	    value(t, y,
		  ws_nvtx_thread)) /* the later thread first: so the reference tool numbers them */
		return x < y ? 1 : -1;
	return x < y ? -1 : x > y; /* longer first */
}

static void number(struct trace *t)
{
	for (uint32_t i = 0; i < t->count; i++)
		t->order[i] = i;
	if (t->count)
		qsort_r(t->order, t->count, sizeof(*t->order), by_start, t);
	for (uint32_t i = 0; i < t->count; i++)
		t->id[t->order[i]] = i + 1;
}

/* Levels shown of a nesting; deeper ones, which only a broken program or file has, would fill the
 * disk with dashes. */
enum { DEEPEST = 1000 };

/* ":1:5:6": the ids of the ranges around it and its own; of too deep ones, dots and the nearest. */
static void put_stack(const struct trace *t, uint32_t i, struct ws_text *out)
{
	uint32_t ids[DEEPEST], depth = t->level[i] < DEEPEST ? t->level[i] + 1 : DEEPEST;

	if (t->level[i] >= DEEPEST)
		ws_text_puts(out, ":...");
	for (uint32_t n = depth; n--; i = t->parent[i])
		ids[n] = t->id[i];
	for (uint32_t n = 0; n < depth; n++)
		ws_text_printf(out, ":%u", (unsigned)ids[n]);
}

static void print_range(struct trace *t, uint32_t i, struct ws_text *tree, struct ws_text *stack)
{
	uint64_t start = value(t, i, ws_nvtx_start), end = value(t, i, ws_nvtx_end);
	const struct ws_thread_info *thread =
		ws_who_thread(t->s->who, (uint32_t)value(t, i, ws_nvtx_thread));
	const struct ws_text *prefix = &t->table.prefixes[t->prefix[i]];
	uint32_t shown = t->level[i] < DEEPEST ? t->level[i] : DEEPEST;
	size_t len, dashes = (size_t)shown * 2;
	const char *text = ws_report_string(t->s->r, (uint32_t)value(t, i, ws_nvtx_text), &len);
	bool ended = end != WS_NO_TIME;

	tree->len = stack->len = 0;
	for (uint32_t n = 0; n < shown; n++)
		ws_text_add(tree, "--", 2);
	ws_text_add(tree, prefix->s, prefix->len);
	ws_text_add(tree, text, len);
	put_stack(t, i, stack);
	t->s->row(t->s,
		  (struct ws_cell[]){
			  ws_cell_int((int64_t)(start - t->s->zero)),
			  ended ? ws_cell_int((int64_t)(end - t->s->zero)) : ws_cell_null(),
			  ended ? ws_cell_int((int64_t)(end - start)) : ws_cell_null(),
			  ws_cell_int((int64_t)t->child_ns[i]),
			  ended ? ws_cell_int((int64_t)(end - start) - (int64_t)t->child_ns[i])
				: ws_cell_null(),
			  ws_cell_text(tree->s + dashes, tree->len - dashes),
			  ws_cell_int(thread->pid),
			  ws_cell_int(thread->tid),
			  ws_cell_int(t->level[i]),
			  ws_cell_int(t->children[i]),
			  ws_cell_int(t->id[i]),
			  t->parent[i] == NONE ? ws_cell_null() : ws_cell_int(t->id[t->parent[i]]),
			  ws_cell_text(stack->s, stack->len),
			  ws_cell_text(tree->s, tree->len),
		  });
}

static void print(struct trace *t)
{
	struct ws_text tree = {0}, stack = {0};

	for (uint32_t n = 0; n < t->count; n++) {
		uint32_t i = t->order[n];

		if (value(t, i, ws_nvtx_start) <= t->s->time_max &&
		    value(t, i, ws_nvtx_end) >= t->s->time_min)
			print_range(t, i, &tree, &stack);
	}
	ws_text_free(&tree);
	ws_text_free(&stack);
}

static int run(struct ws_stats *s, struct ws_err *e)
{
	struct ws_scan sc = {
		.table = WS_TABLE_nvtx,
		.columns = WS_COL(nvtx, start) | WS_COL(nvtx, end) | WS_COL(nvtx, thread) |
			   WS_COL(nvtx, text) | WS_COL(nvtx, domain) | WS_COL(nvtx, type),
		.time_max = UINT64_MAX,
	};
	struct trace t = {.s = s};

	if (ws_report_rows(s->r, WS_TABLE_nvtx) >= NONE)
		return ws_fail(e, "%s has more NVTX ranges than nvtx_pushpop_trace can list",
			       ws_report_path(s->r));
	if (ws_rows_load(s->r, &sc, &t.rows, e) < 0)
		return -1;
	s->damaged += t.rows.damaged;
	pick_ranges(&t);
	t.parent = ws_malloc(t.count * sizeof(*t.parent));
	t.level = ws_calloc(t.count, sizeof(*t.level));
	t.children = ws_calloc(t.count, sizeof(*t.children));
	t.child_ns = ws_calloc(t.count, sizeof(*t.child_ns));
	t.id = ws_malloc(t.count * sizeof(*t.id));
	t.order = ws_malloc(t.count * sizeof(*t.order));
	nest(&t);
	number(&t);
	print(&t);
	free(t.order);
	free(t.id);
	free(t.child_ns);
	free(t.children);
	free(t.level);
	free(t.parent);
	free(t.prefix);
	free(t.range);
	ws_domain_table_free(&t.table);
	ws_domains_free(&t.domains);
	ws_rows_free(&t.rows);
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
