/* ops.c - one file's operators: open, choose the view, write it. */
#include "ops/ops.h"
#include "base/choose.h"
#include "query/operand.h"

#include <stdlib.h>
#include <string.h>

#include "text/output_file.h"

static const struct ops_view {
	const char *name, *title;
	int (*make)(struct ws_ops *ops, struct ws_printer *printer, struct ws_text *footer,
		    struct ws_err *err);
} views[] = {
	{"ops", "Operators", ws_print_op_averages},
	{"modules", "Modules", ws_print_op_modules},
	{"memory", "Memory by Device", ws_print_op_memory_devices},
	{"memory-events", "Memory Events", ws_print_op_memory_events},
	{"steps", "Steps", ws_print_op_steps},
};

static const struct ops_view *find_view(const char *name)
{
	for (size_t i = 0; i < WS_COUNT(views); i++)
		if (!strcmp(views[i].name, name))
			return &views[i];
	return NULL;
}

/* Write totals below a table for people; programs that read csv or json get only the table. */
static void write_footer(const struct ws_printer *printer, const struct ws_text *footer)
{
	if (footer->len && printer->format->titled && !strcmp(printer->format->extension, "txt"))
		fprintf(printer->file, "\n%s", footer->text);
}

static int write_view(struct ws_ops *ops, const struct ws_ops_request *request, struct ws_err *err)
{
	const struct ops_view *view = find_view(request->view);
	struct ws_printer printer = {
		.unit = ws_find_timeunit(request->unit), .title = view->title, .name = view->name};
	const char *format = request->format;
	struct ws_text footer = {0};
	struct ws_output_file out;
	int status;

	if (!format && !strcmp(request->output, "-"))
		format = "column";
	printer.format = ws_find_format(ws_text_or(format, "csv"), &printer.args, err);
	if (!printer.format || ws_ops_load(ops, err) < 0 ||
	    ws_open_output_file(&out, request->output, 0600, request->overwrite, err) < 0)
		return -1;
	printer.file = out.file;
	status = view->make(ops, &printer, &footer, err);
	if (status < 0) {
		ws_abort_output(&out);
	} else {
		write_footer(&printer, &footer);
		status = ws_commit_output(&out, err);
	}
	ws_text_free(&footer);
	if (ops->damaged)
		ws_warn("%s: damaged blocks could not be read; 'warpsight info --verify' says "
			"which",
			ws_report_path(ops->report));
	return status;
}

int ws_print_ops_file(const char *path, const struct ws_ops_request *request)
{
	struct ws_ops ops = {.request = request};
	struct ws_err err = {""};
	struct ws_report *report = ws_open_operand_report(path);
	int status;

	if (!report)
		return -1;
	ops.report = report;
	ops.who = ws_who_open(report);
	ops.zero = ws_find_time_zero(report);
	ws_doubles_open(&ops.doubles, report, request->doubles);
	status = write_view(&ops, request, &err);
	if (status == -1)
		ws_say("%s", err.msg);
	ws_ops_free(&ops);
	ws_doubles_close(&ops.doubles);
	ws_who_close(ops.who);
	ws_report_close(report);
	return status;
}
