/*
 * view.c - see view.h.
 *
 * A tree is walked with a stack of its own, children in order of what they cost; nothing recurses,
 * because how deep stacks are is the file's to say. What limits leave out is counted and said on
 * stderr.
 */
#include "stats/view.h"
#include "query/operand.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "text/outfile.h"
#include "query/absent.h"
#include "stats/filter.h"

/* ---- rows of the flat table ---- */

static int compare_text(const struct ws_text *a, const struct ws_text *b)
{
	size_t n = a->len < b->len ? a->len : b->len;
	int c = n ? memcmp(a->s, b->s, n) : 0;

	return c ? c : a->len < b->len ? -1 : a->len > b->len;
}

/* Of equal cost and name: by file, then by process and thread. */
static int by_place(const struct ws_calltree *t, const struct ws_flat *x, const struct ws_flat *y)
{
	struct ws_text a = {0}, b = {0};
	int c = strcmp(ws_calltree_module(t, x->unit), ws_calltree_module(t, y->unit));

	for (uint32_t i = x->root, k = y->root; !c && i && k;
	     i = t->nodes[i].parent, k = t->nodes[k].parent) {
		a.len = b.len = 0;
		ws_calltree_name(t, t->nodes[i].unit, &a);
		ws_calltree_name(t, t->nodes[k].unit, &b);
		c = compare_text(&a, &b);
	}
	ws_text_free(&a);
	ws_text_free(&b);
	return c ? c
	       : t->units[x->unit].line < t->units[y->unit].line
		       ? -1
		       : t->units[x->unit].line > t->units[y->unit].line;
}

struct order {
	const struct ws_calltree *t;
	bool by_total;
};

static int by_cost(const void *a, const void *b, void *ctx)
{
	const struct ws_view_row *x = a, *y = b;
	const struct order *o = ctx;
	const struct ws_cost *p = o->by_total ? &x->f->total : &x->f->self,
			     *q = o->by_total ? &y->f->total : &y->f->self;
	int c;

	if (p->weight != q->weight)
		return p->weight > q->weight ? -1 : 1;
	if (x->f->total.weight != y->f->total.weight)
		return x->f->total.weight > y->f->total.weight ? -1 : 1;
	c = compare_text(&x->name, &y->name);
	return c ? c : by_place(o->t, x->f, y->f);
}

struct ws_view_row *ws_view_rows(const struct ws_profile *p, uint32_t roots, bool by_total,
				 size_t *count)
{
	struct ws_flat *flat = ws_calltree_flat(&p->tree, roots, count);
	struct ws_view_row *rows = ws_calloc(*count + 1, sizeof(*rows));

	rows[*count].f = flat; /* for freeing */
	for (size_t i = 0; i < *count; i++) {
		rows[i].f = &flat[i];
		ws_calltree_name(&p->tree, flat[i].unit, &rows[i].name);
	}
	if (*count)
		qsort_r(rows, *count, sizeof(*rows), by_cost, &(struct order){&p->tree, by_total});
	return rows;
}

void ws_view_rows_free(struct ws_view_row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++)
		ws_text_free(&rows[i].name);
	free((void *)rows[count].f);
	free(rows);
}

/* ---- a table being written ---- */

enum { MOST_COLUMNS = 12 };

struct view {
	const struct ws_view_request *q;
	const struct ws_report *r;
	struct ws_profile p;
	struct ws_printer printer;
	struct ws_outfile out;
	struct ws_column columns[MOST_COLUMNS];
	size_t column_count;
	bool tree;
	uint64_t left_out;
	struct ws_text text[4]; /* of the cells of a row */
};

static const char *counted(const struct ws_view_request *q)
{
	switch (q->profile.kind) {
	case WS_PROFILE_OFF_CPU:
		return "Waits";
	case WS_PROFILE_GPU:
		return "Instances";
	default:
		return "Samples";
	}
}

static void column(struct view *v, const char *name, enum ws_kind kind)
{
	v->columns[v->column_count++] = (struct ws_column){name, kind};
}

static void choose_columns(struct view *v)
{
	const struct ws_view_request *q = v->q;

	column(v, v->tree || !q->units ? "Total" : "Self", WS_KIND_PERCENT);
	column(v, v->tree || !q->units ? "Total Time" : "Self Time", WS_KIND_TIME);
	column(v, counted(q), WS_KIND_COUNT);
	if (q->units) {
		column(v, v->tree ? "Self" : "Total", WS_KIND_PERCENT);
		column(v, v->tree ? "Self Time" : "Total Time", WS_KIND_TIME);
	}
	if (v->tree)
		column(v, "Lvl", WS_KIND_ID);
	if (!v->tree && q->profile.by_process)
		column(v, "Process", WS_KIND_TEXT);
	if (!v->tree && q->profile.by_thread)
		column(v, "Thread", WS_KIND_TEXT);
	if (q->units && q->profile.unit != WS_UNIT_MODULE)
		column(v, "Function", WS_KIND_TEXT);
	if (q->units && q->profile.unit == WS_UNIT_LINE)
		column(v, "Source", WS_KIND_TEXT);
	if (q->units)
		column(v, "Module", WS_KIND_TEXT);
}

static struct ws_cell cell(const struct ws_text *t)
{
	return ws_cell_text(t->s ? t->s : "", t->len);
}

static struct ws_cell word(const char *s)
{
	return ws_cell_text(s, strlen(s));
}

/* "file:line", empty when not known. */
static void put_source(const struct view *v, uint32_t unit, struct ws_text *t)
{
	const struct ws_unit_info *u = &v->p.tree.units[unit];
	size_t len;
	const char *file = ws_report_string(v->r, u->file, &len);

	ws_text_add(t, file, len);
	if (u->line)
		ws_text_printf(t, ":%u", u->line);
}

/* Function, source and module of a row, as there are columns for them; `indent` goes before the
 * first. */
static size_t put_names(struct view *v, struct ws_cell *c, uint32_t unit, size_t indent)
{
	struct ws_text *name = &v->text[0], *source = &v->text[1];
	bool module = v->q->profile.unit == WS_UNIT_MODULE;
	size_t n = 0;

	name->len = source->len = 0;
	for (size_t i = 0; i < indent; i++)
		ws_text_puts(name, "  ");
	ws_calltree_name(&v->p.tree, unit, name);
	c[n++] = cell(name);
	if (v->q->profile.unit == WS_UNIT_LINE) {
		put_source(v, unit, source);
		c[n++] = cell(source);
	}
	if (!module)
		c[n++] = word(ws_calltree_module(&v->p.tree, unit));
	return n;
}

static struct ws_cell share(const struct view *v, const struct ws_cost *c)
{
	return ws_view_share(c->weight, v->p.total.weight);
}

static bool too_small(const struct view *v, const struct ws_cost *total)
{
	return (double)total->weight * 100 < v->q->least * (double)v->p.total.weight;
}

/* ---- flat ---- */

/* Process and thread of the row below `root`, as there are columns for them. */
static size_t put_roots(struct view *v, struct ws_cell *c, uint32_t root)
{
	const struct ws_calltree *t = &v->p.tree;
	size_t n = v->p.roots;

	for (size_t i = n; i-- && root; root = t->nodes[root].parent) {
		v->text[2 + i].len = 0;
		ws_calltree_name(t, t->nodes[root].unit, &v->text[2 + i]);
		c[i] = cell(&v->text[2 + i]);
	}
	return n;
}

static void print_flat(struct view *v)
{
	size_t count, shown = 0;
	struct ws_view_row *rows = ws_view_rows(&v->p, v->p.roots, v->q->by_total, &count);

	for (size_t i = 0; i < count; i++) {
		const struct ws_flat *f = rows[i].f;
		struct ws_cell c[MOST_COLUMNS] = {share(v, &f->self),
						  ws_view_time(&v->p, f->self.ns),
						  ws_cell_int((int64_t)f->self.count),
						  share(v, &f->total),
						  ws_view_time(&v->p, f->total.ns)};
		size_t n = 5;

		if (too_small(v, &f->total) || (v->q->limit && shown == v->q->limit)) {
			v->left_out++;
			continue;
		}
		n += put_roots(v, c + n, f->root);
		put_names(v, c + n, f->unit, 0);
		ws_print_row(&v->printer, c);
		shown++;
	}
	ws_view_rows_free(rows, count);
}

/* ---- trees ---- */

struct step {
	uint32_t node, level;
};

struct walk {
	struct view *v;
	const struct ws_calltree *t;
	struct ws_cost *total;
	uint32_t *first, *next;
	struct step *todo;
	size_t n, cap;
};

static int by_total(const void *a, const void *b, void *ctx)
{
	const struct walk *w = ctx;
	uint32_t i = ((const struct step *)a)->node, k = ((const struct step *)b)->node;
	struct ws_text x = {0}, y = {0};
	int c;

	if (w->total[i].weight !=
	    w->total[k].weight) /* the largest comes off the stack first: it goes last */
		return w->total[i].weight < w->total[k].weight ? -1 : 1;
	ws_calltree_name(w->t, w->t->nodes[i].unit, &x);
	ws_calltree_name(w->t, w->t->nodes[k].unit, &y);
	c = compare_text(&y, &x);
	if (!c)
		c = strcmp(ws_calltree_module(w->t, w->t->nodes[k].unit),
			   ws_calltree_module(w->t, w->t->nodes[i].unit));
	ws_text_free(&x);
	ws_text_free(&y);
	return c;
}

/* Put the children of a node on the stack, those that are to be shown. */
static void push_children(struct walk *w, uint32_t node, uint32_t level)
{
	const struct ws_view_request *q = w->v->q;
	size_t from = w->n, count;

	for (uint32_t c = w->first[node]; c; c = w->next[c]) {
		if (too_small(w->v, &w->total[c]) || (q->depth && level >= q->depth)) {
			w->v->left_out++;
			continue;
		}
		ws_grow(w->todo, w->cap, w->n + 1);
		w->todo[w->n++] = (struct step){c, level};
	}
	count = w->n - from;
	if (count > 1)
		qsort_r(w->todo + from, count, sizeof(*w->todo), by_total, w);
	if (q->limit && count > q->limit) {
		w->v->left_out += count - q->limit;
		memmove(w->todo + from, w->todo + from + (count - q->limit),
			q->limit * sizeof(*w->todo));
		w->n = from + q->limit;
	}
}

static void print_node(struct walk *w, const struct step *s)
{
	struct view *v = w->v;
	const struct ws_node *node = &w->t->nodes[s->node];
	const struct ws_cost *total = &w->total[s->node];
	struct ws_cell c[MOST_COLUMNS] = {share(v, total),
					  ws_view_time(&v->p, total->ns),
					  ws_cell_int((int64_t)total->count),
					  share(v, &node->self),
					  ws_view_time(&v->p, node->self.ns),
					  ws_cell_int(s->level)};

	put_names(v, c + 6, node->unit, v->printer.format->titled ? s->level : 0);
	ws_print_row(&v->printer, c);
}

static void print_tree(struct view *v, const struct ws_calltree *t)
{
	struct walk w = {.v = v, .t = t, .total = ws_calltree_totals(t)};

	ws_calltree_children(t, &w.first, &w.next);
	push_children(&w, 0, 0);
	while (w.n) {
		struct step s = w.todo[--w.n];

		print_node(&w, &s);
		push_children(&w, s.node, s.level + 1);
	}
	free(w.total);
	free(w.first);
	free(w.next);
	free(w.todo);
}

/* Only processes or threads: the nodes that stacks stand below, with all they hold. */
struct roots {
	const struct ws_calltree *t;
	struct ws_cost *total;
};

static int by_root(const void *a, const void *b, void *ctx)
{
	const struct roots *r = ctx;
	uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b, unit = r->t->nodes[i].unit;

	if (r->total[i].weight != r->total[k].weight)
		return r->total[i].weight > r->total[k].weight ? -1 : 1;
	return by_place(r->t, &(struct ws_flat){.root = i, .unit = unit},
			&(struct ws_flat){.root = k, .unit = unit});
}

static void print_roots(struct view *v)
{
	const struct ws_calltree *t = &v->p.tree;
	struct ws_cost *total = ws_calltree_totals(t);
	uint32_t *roots = ws_malloc(t->n * sizeof(*roots)),
		 *depth = ws_calloc(t->n, sizeof(*depth));
	size_t n = 0;

	for (uint32_t i = 1; i < t->n; i++) {
		depth[i] = depth[t->nodes[i].parent] + 1;
		if (depth[i] == v->p.roots)
			roots[n++] = i;
	}
	if (n)
		qsort_r(roots, n, sizeof(*roots), by_root, &(struct roots){t, total});
	for (size_t i = 0; i < n; i++) {
		const struct ws_cost *cost = &total[roots[i]];
		struct ws_cell c[MOST_COLUMNS] = {share(v, cost), ws_view_time(&v->p, cost->ns),
						  ws_cell_int((int64_t)cost->count)};

		if (too_small(v, cost) || (v->q->limit && i >= v->q->limit)) {
			v->left_out++;
			continue;
		}
		put_roots(v, c + 3, roots[i]);
		ws_print_row(&v->printer, c);
	}
	free(total);
	free(roots);
	free(depth);
}

static void print_rows(struct view *v)
{
	struct ws_calltree inverted;

	if (!v->q->units) {
		print_roots(v);
	} else if (v->q->view == WS_VIEW_FLAT) {
		print_flat(v);
	} else if (v->q->view == WS_VIEW_TOP_DOWN) {
		print_tree(v, &v->p.tree);
	} else {
		ws_calltree_invert(&v->p.tree, v->p.roots, &inverted);
		print_tree(v, &inverted);
		ws_calltree_free(&inverted);
	}
}

/* ---- one file ---- */

static const char *title(const struct ws_view_request *q)
{
	static const char *const titles[] = {[WS_PROFILE_ON_CPU] = "CPU Samples",
					     [WS_PROFILE_OFF_CPU] = "Time Off CPU",
					     [WS_PROFILE_PYTHON] = "Python Samples",
					     [WS_PROFILE_GPU] = "GPU Time"};

	return titles[q->profile.kind];
}

static const char *view_name(const struct ws_view_request *q)
{
	static const char *const names[] = {"flat", "top-down", "bottom-up"};

	return names[q->view];
}

/* There is no row: because of what was asked for, or why else. */
static void say_nothing(const struct view *v, const char *what)
{
	const struct ws_view_request *q = v->q;
	enum ws_profile_kind kind = q->profile.kind;
	const char *file = ws_report_path(v->r);

	if (q->filter_time || q->filter_nvtx || q->profile.process || q->profile.thread)
		ws_say("%s: nothing to show: no %s of those asked for were recorded", file, what);
	else if (kind == WS_PROFILE_ON_CPU || kind == WS_PROFILE_OFF_CPU)
		ws_say("%s: nothing to show: no %s were recorded: %s", file, what,
		       kind == WS_PROFILE_ON_CPU ? ws_why_no_samples(v->r) : ws_why_no_waits(v->r));
	else
		ws_say("%s: nothing to show: no %s were recorded", file, what);
}

static void notes(const struct view *v)
{
	static const char *const what[] = {[WS_PROFILE_ON_CPU] = "CPU samples",
					   [WS_PROFILE_OFF_CPU] = "waits of threads",
					   [WS_PROFILE_PYTHON] = "samples of Python",
					   [WS_PROFILE_GPU] = "work on GPUs"};
	const char *file = ws_report_path(v->r);

	if (v->p.damaged)
		ws_warn("%s: rows of %" PRIu64
			" damaged block%s are missing; 'warpsight info --verify' says which",
			file, v->p.damaged, v->p.damaged == 1 ? "" : "s");
	if (v->q->quiet)
		return;
	if (!v->p.total.count)
		say_nothing(v, what[v->q->profile.kind]);
	if (v->p.truncated)
		ws_say("%s: the stacks of %" PRIu64 " of %" PRIu64 " samples are incomplete", file,
		       v->p.truncated, v->p.total.count);
	if (v->left_out)
		ws_say("%s: %" PRIu64
		       " rows are below the limits and not shown (--limit, --depth, --min-percent)",
		       file, v->left_out);
}

static int write_table(struct view *v, struct ws_err *e)
{
	const struct ws_view_request *q = v->q;
	const char *output = q->output ? q->output : "-";
	char *spec = ws_strdup(q->format ? q->format : strcmp(output, "-") ? "csv" : "column");
	int rc;

	v->tree = q->units && q->view != WS_VIEW_FLAT;
	choose_columns(v);
	v->printer = (struct ws_printer){.unit = q->unit,
					 .title = title(q),
					 .name = view_name(q),
					 .columns = v->columns,
					 .column_count = v->column_count};
	v->printer.format = ws_format_find(spec, &v->printer.args, e);
	free(spec);
	if (!v->printer.format || ws_outfile_open(&v->out, output, 0666, q->overwrite, e) < 0)
		return -1;
	v->printer.f = v->out.f;
	ws_print_begin(&v->printer);
	print_rows(v);
	ws_print_end(&v->printer);
	rc = ws_outfile_commit(&v->out, e);
	for (size_t i = 0; i < WS_COUNT(v->text); i++)
		ws_text_free(&v->text[i]);
	return rc;
}

static int view_report(struct ws_stats *s, const struct ws_view_request *q, struct ws_err *e)
{
	struct view v = {.q = q, .r = s->r};
	struct ws_profile_request p = q->profile;
	int rc = 0;

	if (q->filter_time)
		rc = ws_filter_time(s, q->filter_time, e);
	if (!rc && q->filter_nvtx)
		rc = ws_filter_nvtx(s, q->filter_nvtx, q->quiet, e);
	p.time_min = s->time_min;
	p.time_max = s->time_max;
	if (!rc)
		rc = ws_profile_make(s->r, s->who, &p, &v.p, e);
	if (!rc && v.p.total.count)
		rc = write_table(&v, e);
	if (rc != -1)
		notes(&v);
	if (v.p.stacks)
		ws_profile_free(&v.p);
	return rc;
}

int ws_view_file(const char *path, const struct ws_view_request *q)
{
	struct ws_stats s = {.time_max = UINT64_MAX};
	struct ws_err e;
	struct ws_report *r = ws_report_of_operand(path);
	int rc;

	if (!r)
		return -1;
	s.r = r;
	s.who = ws_who_open(r);
	s.zero = ws_time_zero(r);
	rc = view_report(&s, q, &e);
	if (rc == -1)
		ws_say("%s", e.msg);
	ws_who_close(s.who);
	ws_report_close(r);
	return rc;
}
