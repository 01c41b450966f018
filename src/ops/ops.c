/* ops.c - one file's operators: open, choose the view, write it. */
#include "ops/ops.h"
#include "query/operand.h"

#include <stdlib.h>
#include <string.h>

#include "text/outfile.h"

static const struct view {
	const char *name, *title;
	int (*make)(struct ws_ops *o, struct ws_printer *p, struct ws_text *footer,
		    struct ws_err *e);
} views[] = {
	{"ops", "Operators", ws_ops_averages},
	{"modules", "Modules", ws_ops_modules},
	{"memory", "Memory by Device", ws_ops_memory_devices},
	{"memory-events", "Memory Events", ws_ops_memory_events},
	{"steps", "Steps", ws_ops_steps},
};

static const struct view *find_view(const char *name)
{
	for (size_t i = 0; i < WS_COUNT(views); i++)
		if (!strcmp(views[i].name, name))
			return &views[i];
	return NULL;
}

/* Totals stand below a table for people; programs that read csv or json get the table alone. */
static void write_footer(const struct ws_printer *p, const struct ws_text *footer)
{
	if (footer->len && p->format->titled && !strcmp(p->format->extension, "txt"))
		fprintf(p->f, "\n%s", footer->s);
}

static int make(struct ws_ops *o, const struct ws_ops_request *q, struct ws_err *e)
{
	const struct view *view = find_view(q->view);
	struct ws_printer p = {
		.unit = ws_timeunit_find(q->unit), .title = view->title, .name = view->name};
	struct ws_text footer = {0};
	struct ws_outfile out;
	int rc;

	p.format = ws_format_find(q->format		    ? q->format
				  : !strcmp(q->output, "-") ? "column"
							    : "csv",
				  &p.args, e);
	if (!p.format || ws_ops_load(o, e) < 0 ||
	    ws_outfile_open(&out, q->output, 0600, q->overwrite, e) < 0)
		return -1;
	p.f = out.f;
	rc = view->make(o, &p, &footer, e);
	if (rc < 0) {
		ws_outfile_abort(&out);
	} else {
		write_footer(&p, &footer);
		rc = ws_outfile_commit(&out, e);
	}
	ws_text_free(&footer);
	if (o->damaged)
		ws_warn("%s: damaged blocks could not be read; 'warpsight info --verify' says "
			"which",
			ws_report_path(o->r));
	return rc;
}

int ws_ops_file(const char *path, const struct ws_ops_request *q)
{
	struct ws_ops o = {.q = q};
	struct ws_err e = {""};
	struct ws_report *r = ws_report_of_operand(path);
	int rc;

	if (!r)
		return -1;
	o.r = r;
	o.who = ws_who_open(r);
	o.zero = ws_time_zero(r);
	ws_doubles_open(&o.doubles, r, q->doubles);
	rc = make(&o, q, &e);
	if (rc == -1)
		ws_say("%s", e.msg);
	ws_ops_free(&o);
	ws_doubles_close(&o.doubles);
	ws_who_close(o.who);
	ws_report_close(r);
	return rc;
}
