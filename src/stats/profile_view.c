/*
 * profile_view.c - see profile_view.h.
 *
 * A tree is walked with a stack of its own, children in order of what they cost; nothing recurses,
 * because the file determines how deep stacks are. What limits leave out is counted and reported on
 * stderr.
 */
#include "stats/profile_view.h"
#include "base/choose.h"
#include "query/operand.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "text/output_file.h"
#include "query/absent.h"
#include "query/stack_faults.h"
#include "stats/filter.h"

/* ---- rows of the flat table ---- */

static int compare_text(const struct ws_text *left, const struct ws_text *right)
{
	size_t n = ws_min(left->len, right->len);
	int c = n ? memcmp(left->text, right->text, n) : 0;

	return c ? c : ws_compare(left->len, right->len);
}

/* Equal cost and name: by file, then by process and thread. */
static int by_place(const struct ws_calltree *calltree, const struct ws_flat *left,
		    const struct ws_flat *right)
{
	struct ws_text a = {0}, b = {0};
	int c = strcmp(ws_calltree_get_module(calltree, left->unit),
		       ws_calltree_get_module(calltree, right->unit));

	for (uint32_t i = left->root, k = right->root; !c && i && k;
	     i = calltree->nodes[i].parent, k = calltree->nodes[k].parent) {
		a.len = b.len = 0;
		ws_calltree_add_unit_name(calltree, calltree->nodes[i].unit, &a);
		ws_calltree_add_unit_name(calltree, calltree->nodes[k].unit, &b);
		c = compare_text(&a, &b);
	}
	ws_text_free(&a);
	ws_text_free(&b);
	return c ? c
		 : ws_compare(calltree->units[left->unit].line, calltree->units[right->unit].line);
}

struct order {
	const struct ws_calltree *calltree;
	bool by_total;
};

static int by_cost(const void *first, const void *second, void *ctx)
{
	const struct ws_profile_row *left = first, *right = second;
	const struct order *order = ctx;
	const struct ws_cost *p = order->by_total ? &left->flat->total : &left->flat->self,
			     *q = order->by_total ? &right->flat->total : &right->flat->self;
	int c;

	if (p->weight != q->weight)
		return p->weight > q->weight ? -1 : 1;
	if (left->flat->total.weight != right->flat->total.weight)
		return left->flat->total.weight > right->flat->total.weight ? -1 : 1;
	c = compare_text(&left->name, &right->name);
	return c ? c : by_place(order->calltree, left->flat, right->flat);
}

struct ws_profile_row *ws_make_profile_rows(const struct ws_profile *profile, uint32_t roots,
					    bool by_total, size_t *count)
{
	struct ws_flat *flat = ws_calltree_make_rows(&profile->tree, roots, count);
	struct ws_profile_row *rows = ws_calloc(*count + 1, sizeof(*rows));

	rows[*count].flat = flat; /* for freeing */
	for (size_t i = 0; i < *count; i++) {
		rows[i].flat = &flat[i];
		ws_calltree_add_unit_name(&profile->tree, flat[i].unit, &rows[i].name);
	}
	if (*count)
		qsort_r(rows, *count, sizeof(*rows), by_cost,
			&(struct order){&profile->tree, by_total});
	return rows;
}

void ws_free_profile_rows(struct ws_profile_row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++)
		ws_text_free(&rows[i].name);
	free((void *)rows[count].flat);
	free(rows);
}

/* ---- a table being written ---- */

enum { MOST_COLUMNS = 12 };

struct view {
	const struct ws_view_request *request;
	const struct ws_report *report;
	struct ws_profile profile;
	uint64_t time_min, time_max; /* session ns */
	struct ws_printer printer;
	struct ws_output_file out;
	struct ws_column columns[MOST_COLUMNS];
	size_t column_count;
	bool tree;
	uint64_t left_out;
	struct ws_text text[4]; /* of the cells of a row */
};

static const char *counted(const struct ws_view_request *request)
{
	switch (request->profile.kind) {
	case WS_PROFILE_OFF_CPU:
		return "Waits";
	case WS_PROFILE_GPU:
		return "Instances";
	default:
		return "Samples";
	}
}

static void column(struct view *view, const char *name, enum ws_kind kind)
{
	view->columns[view->column_count++] = (struct ws_column){name, kind};
}

/* Whether times come from samples. Waits and GPU work have measured times. */
static bool sampled(const struct ws_view_request *request)
{
	return request->profile.kind == WS_PROFILE_ON_CPU ||
	       request->profile.kind == WS_PROFILE_PYTHON;
}

static void choose_columns(struct view *view)
{
	const struct ws_view_request *request = view->request;
	enum ws_kind time = sampled(request) ? WS_KIND_SAMPLED : WS_KIND_TIME;

	column(view, view->tree || !request->units ? "Total" : "Self", WS_KIND_PERCENT);
	column(view, view->tree || !request->units ? "Total Time" : "Self Time", time);
	column(view, counted(request), WS_KIND_COUNT);
	if (request->units) {
		column(view, view->tree ? "Self" : "Total", WS_KIND_PERCENT);
		column(view, view->tree ? "Self Time" : "Total Time", time);
	}
	if (view->tree)
		column(view, "Lvl", WS_KIND_ID);
	if (!view->tree && request->profile.by_process)
		column(view, "Process", WS_KIND_TEXT);
	if (!view->tree && request->profile.by_thread)
		column(view, "Thread", WS_KIND_TEXT);
	if (request->units && request->profile.unit != WS_UNIT_MODULE)
		column(view, "Function", WS_KIND_TEXT);
	if (request->units && request->profile.unit == WS_UNIT_LINE)
		column(view, "Source", WS_KIND_TEXT);
	if (request->units)
		column(view, "Module", WS_KIND_TEXT);
}

static struct ws_cell cell(const struct ws_text *text)
{
	return ws_cell_text(ws_text_or(text->text, ""), text->len);
}

static struct ws_cell word(const char *text)
{
	return ws_cell_text(text, strlen(text));
}

/* "file:line", empty when not known. */
static void put_source(const struct view *view, uint32_t unit, struct ws_text *text)
{
	const struct ws_unit_info *unit_info = &view->profile.tree.units[unit];
	size_t len;
	const char *file = ws_report_string(view->report, unit_info->file, &len);

	ws_text_add(text, file, len);
	if (unit_info->line)
		ws_text_printf(text, ":%u", unit_info->line);
}

/* Append function, source and module of a row, for those that have columns; `indent` goes before
 * the first. */
static size_t put_names(struct view *view, struct ws_cell *cell_c, uint32_t unit, size_t indent)
{
	struct ws_text *name = &view->text[0], *source = &view->text[1];
	bool module = view->request->profile.unit == WS_UNIT_MODULE;
	size_t n = 0;

	name->len = source->len = 0;
	for (size_t i = 0; i < indent; i++)
		ws_text_puts(name, "  ");
	ws_calltree_add_unit_name(&view->profile.tree, unit, name);
	cell_c[n++] = cell(name);
	if (view->request->profile.unit == WS_UNIT_LINE) {
		put_source(view, unit, source);
		cell_c[n++] = cell(source);
	}
	if (!module)
		cell_c[n++] = word(ws_calltree_get_module(&view->profile.tree, unit));
	return n;
}

static struct ws_cell share(const struct view *view, const struct ws_cost *cost)
{
	return ws_make_share_cell(cost->weight, view->profile.total.weight);
}

static bool too_small(const struct view *view, const struct ws_cost *total)
{
	return (double)total->weight * 100 <
	       view->request->least * (double)view->profile.total.weight;
}

/* ---- flat ---- */

/* Append process and thread of the row below `root`, if they have columns. */
static size_t put_roots(struct view *view, struct ws_cell *cell_c, uint32_t root)
{
	const struct ws_calltree *calltree = &view->profile.tree;
	size_t n = view->profile.roots;

	for (size_t i = n; i-- && root; root = calltree->nodes[root].parent) {
		view->text[2 + i].len = 0;
		ws_calltree_add_unit_name(calltree, calltree->nodes[root].unit, &view->text[2 + i]);
		cell_c[i] = cell(&view->text[2 + i]);
	}
	return n;
}

static void print_flat(struct view *view)
{
	size_t count, shown = 0;
	struct ws_profile_row *rows = ws_make_profile_rows(&view->profile, view->profile.roots,
							   view->request->by_total, &count);

	for (size_t i = 0; i < count; i++) {
		const struct ws_flat *flat = rows[i].flat;
		struct ws_cell cells[MOST_COLUMNS] = {
			share(view, &flat->self),
			ws_make_profile_time_cell(&view->profile, flat->self.ns),
			ws_cell_int((int64_t)flat->self.count), share(view, &flat->total),
			ws_make_profile_time_cell(&view->profile, flat->total.ns)};
		size_t n = 5;

		if (too_small(view, &flat->total) ||
		    (view->request->limit && shown == view->request->limit)) {
			view->left_out++;
			continue;
		}
		n += put_roots(view, cells + n, flat->root);
		put_names(view, cells + n, flat->unit, 0);
		ws_print_row(&view->printer, cells);
		shown++;
	}
	ws_free_profile_rows(rows, count);
}

/* ---- trees ---- */

struct step {
	uint32_t node, level;
};

struct walk {
	struct view *views;
	const struct ws_calltree *calltree;
	struct ws_cost *total;
	uint32_t *first, *next;
	struct step *todo;
	size_t n, cap;
};

static int by_total(const void *first, const void *second, void *ctx)
{
	const struct walk *walk = ctx;
	uint32_t i = ((const struct step *)first)->node, k = ((const struct step *)second)->node;
	struct ws_text left = {0}, right = {0};
	int c;

	if (walk->total[i].weight !=
	    walk->total[k].weight) /* the largest is popped first, so it is pushed last */
		return walk->total[i].weight < walk->total[k].weight ? -1 : 1;
	ws_calltree_add_unit_name(walk->calltree, walk->calltree->nodes[i].unit, &left);
	ws_calltree_add_unit_name(walk->calltree, walk->calltree->nodes[k].unit, &right);
	c = compare_text(&right, &left);
	if (!c)
		c = strcmp(ws_calltree_get_module(walk->calltree, walk->calltree->nodes[k].unit),
			   ws_calltree_get_module(walk->calltree, walk->calltree->nodes[i].unit));
	ws_text_free(&left);
	ws_text_free(&right);
	return c;
}

/* Push those children of a node that are to be shown. */
static void push_children(struct walk *walk, uint32_t node, uint32_t level)
{
	const struct ws_view_request *request = walk->views->request;
	size_t from = walk->n, count;

	for (uint32_t c = walk->first[node]; c; c = walk->next[c]) {
		if (too_small(walk->views, &walk->total[c]) ||
		    (request->depth && level >= request->depth)) {
			walk->views->left_out++;
			continue;
		}
		ws_grow(walk->todo, walk->cap, walk->n + 1);
		walk->todo[walk->n++] = (struct step){c, level};
	}
	count = walk->n - from;
	if (count > 1)
		qsort_r(walk->todo + from, count, sizeof(*walk->todo), by_total, walk);
	if (request->limit && count > request->limit) {
		walk->views->left_out += count - request->limit;
		memmove(walk->todo + from, walk->todo + from + (count - request->limit),
			request->limit * sizeof(*walk->todo));
		walk->n = from + request->limit;
	}
}

static void print_node(struct walk *walk, const struct step *step)
{
	struct view *view = walk->views;
	const struct ws_node *node = &walk->calltree->nodes[step->node];
	const struct ws_cost *total = &walk->total[step->node];
	struct ws_cell cells[MOST_COLUMNS] = {share(view, total),
					      ws_make_profile_time_cell(&view->profile, total->ns),
					      ws_cell_int((int64_t)total->count),
					      share(view, &node->self),
					      ws_make_profile_time_cell(&view->profile,
									node->self.ns),
					      ws_cell_int(step->level)};

	put_names(view, cells + 6, node->unit, view->printer.format->titled ? step->level : 0);
	ws_print_row(&view->printer, cells);
}

static void print_tree(struct view *view, const struct ws_calltree *calltree)
{
	struct walk walk = {
		.views = view, .calltree = calltree, .total = ws_calltree_sum_totals(calltree)};

	ws_calltree_list_children(calltree, &walk.first, &walk.next);
	push_children(&walk, 0, 0);
	while (walk.n) {
		struct step step = walk.todo[--walk.n];

		print_node(&walk, &step);
		push_children(&walk, step.node, step.level + 1);
	}
	free(walk.total);
	free(walk.first);
	free(walk.next);
	free(walk.todo);
}

/* Print only processes or threads: the nodes below which stacks begin, with their totals. */
struct roots {
	const struct ws_calltree *calltree;
	struct ws_cost *total;
};

static int by_root(const void *first, const void *second, void *ctx)
{
	const struct roots *roots = ctx;
	uint32_t i = *(const uint32_t *)first, k = *(const uint32_t *)second,
		 unit = roots->calltree->nodes[i].unit;

	if (roots->total[i].weight != roots->total[k].weight)
		return roots->total[i].weight > roots->total[k].weight ? -1 : 1;
	return by_place(roots->calltree, &(struct ws_flat){.root = i, .unit = unit},
			&(struct ws_flat){.root = k, .unit = unit});
}

static void print_roots(struct view *view)
{
	const struct ws_calltree *calltree = &view->profile.tree;
	struct ws_cost *total = ws_calltree_sum_totals(calltree);
	uint32_t *roots = ws_malloc(calltree->count * sizeof(*roots)),
		 *depth = ws_calloc(calltree->count, sizeof(*depth));
	size_t n = 0;

	for (uint32_t i = 1; i < calltree->count; i++) {
		depth[i] = depth[calltree->nodes[i].parent] + 1;
		if (depth[i] == view->profile.roots)
			roots[n++] = i;
	}
	if (n)
		qsort_r(roots, n, sizeof(*roots), by_root, &(struct roots){calltree, total});
	for (size_t i = 0; i < n; i++) {
		const struct ws_cost *cost = &total[roots[i]];
		struct ws_cell cells[MOST_COLUMNS] = {
			share(view, cost), ws_make_profile_time_cell(&view->profile, cost->ns),
			ws_cell_int((int64_t)cost->count)};

		if (too_small(view, cost) || (view->request->limit && i >= view->request->limit)) {
			view->left_out++;
			continue;
		}
		put_roots(view, cells + 3, roots[i]);
		ws_print_row(&view->printer, cells);
	}
	free(total);
	free(roots);
	free(depth);
}

static void print_rows(struct view *view)
{
	struct ws_calltree inverted;

	if (!view->request->units) {
		print_roots(view);
	} else if (view->request->view == WS_VIEW_FLAT) {
		print_flat(view);
	} else if (view->request->view == WS_VIEW_TOP_DOWN) {
		print_tree(view, &view->profile.tree);
	} else {
		ws_calltree_invert(&view->profile.tree, view->profile.roots, &inverted);
		print_tree(view, &inverted);
		ws_calltree_free(&inverted);
	}
}

/* ---- one file ---- */

static const char *title(const struct ws_view_request *request)
{
	static const char *const titles[] = {[WS_PROFILE_ON_CPU] = "CPU Samples",
					     [WS_PROFILE_OFF_CPU] = "Time Off CPU",
					     [WS_PROFILE_PYTHON] = "Python Samples",
					     [WS_PROFILE_GPU] = "GPU Time"};

	return titles[request->profile.kind];
}

static const char *view_name(const struct ws_view_request *request)
{
	static const char *const names[] = {"flat", "top-down", "bottom-up"};

	return names[request->view];
}

/* Explain why there are no rows: because of what was asked for, or otherwise. */
static void say_nothing(const struct view *view, const char *what)
{
	const struct ws_view_request *request = view->request;
	enum ws_profile_kind kind = request->profile.kind;
	const char *file = ws_report_path(view->report);

	if (request->filter_time || request->filter_nvtx || request->profile.process ||
	    request->profile.thread)
		ws_say("%s: nothing to show: no %s of those asked for were recorded", file, what);
	else if (kind == WS_PROFILE_ON_CPU || kind == WS_PROFILE_OFF_CPU)
		ws_say("%s: nothing to show: no %s were recorded: %s", file, what,
		       kind == WS_PROFILE_ON_CPU ? ws_explain_no_samples(view->report)
						 : ws_explain_no_waits(view->report));
	else
		ws_say("%s: nothing to show: no %s were recorded", file, what);
}

static void say_gaps(const struct view *view)
{
	char *text = ws_describe_sched_gaps(view->report);

	if (text)
		ws_say("%s: %s", ws_report_path(view->report), text);
	free(text);
}

static bool has_python(const struct ws_stacks *stacks)
{
	for (uint32_t i = 1; i <= ws_stacks_count_functions(stacks); i++)
		if (ws_stacks_get_function(stacks, i)->kind == WS_FRAME_PYTHON)
			return true;
	return false;
}

/* Report for how much of the time off cores the Python frames are not known, and why. */
static void say_waits_without_python(const struct view *view)
{
	const struct ws_profile *profile = &view->profile;
	const char *why = "waits for a core, and threads that run no Python, have none; other "
			  "waits have those of the call that waited (--trace=osrt, "
			  "--osrt-backtrace-threshold) or those that were read meanwhile, some 20 "
			  "times a second";

	if (!profile->no_python.ns || !profile->total.ns)
		return;
	if (!has_python(profile->stacks))
		why = "the report has no Python code: the program ran none, it was not a CPython "
		      "that is known, or --python-sampling was off";
	ws_say("%s: %.1f %% of this time is without Python frames: %s",
	       ws_report_path(view->report),
	       100 * (double)profile->no_python.ns / (double)profile->total.ns, why);
}

/* Report why stacks are incomplete or functions have no names, and what helps. Shares are of all
 * samples, so they are left out for a part of the samples. */
static void say_stack_faults(const struct view *view)
{
	const struct ws_profile_request *request = &view->request->profile;
	struct ws_stack_faults faults;

	if (request->kind != WS_PROFILE_ON_CPU || request->event || request->process ||
	    request->thread || request->module)
		return;
	ws_find_stack_faults(view->report, view->profile.stacks, view->time_min, view->time_max,
			     &faults, NULL);
	for (size_t i = 0; i < faults.count; i++)
		ws_say("%s: %s", ws_report_path(view->report), faults.sentences[i]);
	ws_stack_faults_free(&faults);
}

static void notes(const struct view *view)
{
	static const char *const what[] = {[WS_PROFILE_ON_CPU] = "CPU samples",
					   [WS_PROFILE_OFF_CPU] = "waits of threads",
					   [WS_PROFILE_PYTHON] = "samples of Python",
					   [WS_PROFILE_GPU] = "work on GPUs"};
	const char *file = ws_report_path(view->report);

	if (view->profile.damaged)
		ws_warn("%s: rows of %" PRIu64
			" damaged block%s are missing; 'warpsight info --verify' says which",
			file, view->profile.damaged, ws_plural(view->profile.damaged));
	if (view->request->quiet)
		return;
	if (ws_profile_empty(&view->profile))
		say_nothing(view, what[view->request->profile.kind]);
	else if (!view->profile.total.count && view->request->profile.kind == WS_PROFILE_ON_CPU)
		ws_say("%s: no CPU samples were recorded, only how long threads ran: %s", file,
		       ws_explain_no_samples(view->report));
	if (view->request->profile.kind == WS_PROFILE_ON_CPU ||
	    view->request->profile.kind == WS_PROFILE_OFF_CPU)
		say_gaps(view);
	say_waits_without_python(view);
	if (view->profile.truncated)
		ws_say("%s: the stacks of %" PRIu64 " of %" PRIu64 " samples are incomplete", file,
		       view->profile.truncated, view->profile.total.count);
	say_stack_faults(view);
	if (view->left_out)
		ws_say("%s: %" PRIu64
		       " rows are below the limits and not shown (--limit, --depth, --min-percent)",
		       file, view->left_out);
}

static int write_table(struct view *view, struct ws_err *err)
{
	const struct ws_view_request *request = view->request;
	const char *output = ws_text_or(request->output, "-");
	char *spec = ws_strdup(request->format	     ? request->format
			       : strcmp(output, "-") ? "csv"
						     : "column");
	int rc;

	view->tree = request->units && request->view != WS_VIEW_FLAT;
	choose_columns(view);
	view->printer = (struct ws_printer){.unit = request->unit,
					    .title = title(request),
					    .name = view_name(request),
					    .sampled_digits =
						    ws_print_sampled_digits(view->profile.total.ns),
					    .columns = view->columns,
					    .column_count = view->column_count};
	view->printer.format = ws_find_format(spec, &view->printer.args, err);
	free(spec);
	if (!view->printer.format ||
	    ws_open_output_file(&view->out, output, 0666, request->overwrite, err) < 0)
		return -1;
	view->printer.file = view->out.file;
	ws_print_begin(&view->printer);
	print_rows(view);
	ws_print_end(&view->printer);
	rc = ws_commit_output(&view->out, err);
	for (size_t i = 0; i < WS_COUNT(view->text); i++)
		ws_text_free(&view->text[i]);
	return rc;
}

static int view_report(struct ws_stats *stats, const struct ws_view_request *request,
		       struct ws_err *err)
{
	struct view view = {.request = request, .report = stats->report};
	struct ws_profile_request profile_request = request->profile;
	int rc = 0;

	if (request->filter_time)
		rc = ws_apply_time_filter(stats, request->filter_time, err);
	if (!rc && request->filter_nvtx)
		rc = ws_apply_nvtx_filter(stats, request->filter_nvtx, request->quiet, err);
	profile_request.time_min = stats->time_min;
	profile_request.time_max = stats->time_max;
	view.time_min = stats->time_min;
	view.time_max = stats->time_max;
	if (!rc)
		rc = ws_profile_make(stats->report, stats->who, &profile_request, &view.profile,
				     err);
	if (!rc && !ws_profile_empty(&view.profile))
		rc = write_table(&view, err);
	if (rc != -1)
		notes(&view);
	if (view.profile.stacks)
		ws_profile_free(&view.profile);
	return rc;
}

int ws_print_profile_view(const char *path, const struct ws_view_request *request)
{
	struct ws_stats stats = {.time_max = UINT64_MAX};
	struct ws_err err;
	struct ws_report *report = ws_open_operand_report(path);
	int rc;

	if (!report)
		return -1;
	stats.report = report;
	stats.who = ws_who_open(report);
	stats.zero = ws_find_time_zero(report);
	rc = view_report(&stats, request, &err);
	if (rc == -1)
		ws_say("%s", err.msg);
	ws_who_close(stats.who);
	ws_report_close(report);
	return rc;
}
