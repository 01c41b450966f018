/* export.c - one export: options, opening, and the file's way to its name. */
#include "export/export.h"
#include "base/choose.h"
#include "query/operand.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "views/choose.h"
#include "text/outfile.h"
#include "text/progress.h"
#include "views/tables.h"
#include "text/text.h"

static char *default_output(const char *path, const struct ws_xformat *format)
{
	size_t n = strlen(path);

	if (n > 6 && !strcmp(path + n - 6, ".wsrep"))
		n -= 6;
	return ws_format("%.*s%s", (int)n, path, format->extension);
}

static int write_tables(struct ws_export *export, const struct ws_xformat *format,
			const struct ws_xtarget *target, struct ws_err *err)
{
	int rc;

	export->writer = format->open(target, err);
	if (!export->writer)
		return -1;
	rc = ws_export_tables(export, err);
	if (!rc)
		rc = ws_export_strings(export, err);
	if (!rc)
		rc = ws_export_table_end(export, err);
	if (export->writer->close(export->writer, !rc, err) < 0)
		rc = -1;
	return rc;
}

static int write_all(struct ws_export *export, const struct ws_xformat *format,
		     struct ws_outfile *out, const struct ws_export_request *request,
		     struct ws_err *err)
{
	struct ws_xtarget target = {.path = out->temporary,
				    .name = export->output,
				    .append = export->append,
				    .separate_strings = request->separate_strings};

	if (format->flags & WS_FF_PATH && out->file) { /* it opens the file by itself */
		fclose(out->file);
		out->file = NULL;
	}
	target.file = out->file;
	return format->open ? write_tables(export, format, &target, err)
			    : format->write(export, out->file, err);
}

/* The rows that the tables of the report have: how much work there is, about. */
static uint64_t all_rows(const struct ws_report *report)
{
	uint64_t n = 0;

	for (int t = 0; t < WS_TABLE_COUNT; t++)
		n += ws_report_rows(report, (enum ws_table)t);
	return n;
}

static int open_output(struct ws_outfile *out, const struct ws_xformat *format,
		       const struct ws_export_request *request, const char *output,
		       struct ws_err *err)
{
	size_t n = strlen(output);

	if (!strcmp(output, "-") && !(format->flags & WS_FF_STDOUT))
		return ws_fail(err, "%s cannot be written to standard output; name a %s with -o",
			       format->name, format->flags & WS_FF_FOLDER ? "folder" : "file");
	if (format->flags & WS_FF_FOLDER)
		return ws_outfile_open_folder(out, output, request->overwrite, request->append,
					      err);
	if (request->append)
		return ws_outfile_open_copy(out, output, 0600, err);
	if (ws_outfile_open(out, output, 0600, request->overwrite, err) < 0)
		return -1;
	if (!(format->flags & WS_FF_GZIP) || n < 3 || strcmp(output + n - 3, ".gz") != 0 ||
	    !ws_outfile_gzip(out, err))
		return 0;
	ws_outfile_abort(out);
	return -1;
}

static int export_report(const struct ws_report *report, const struct ws_xformat *format,
			 const struct ws_export_request *request, const char *output,
			 struct ws_err *err)
{
	struct ws_export export;
	struct ws_outfile out;
	int rc;

	ws_export_begin(&export, report);
	export.type = format->name;
	export.output = output;
	export.lazy = request->lazy;
	export.no_blobs = !request->blobs;
	export.show = request->show;
	export.by = request->by;
	export.quiet = request->quiet;
	export.append = request->append;
	export.normalized = request->choice.normalize;
	export.all_strings = request->append || request->choice.table_count;
	if (ws_choose(&export, &request->choice,
		      request->choice.normalize ? ws_export_epoch(&export) : 0, err) < 0 ||
	    open_output(&out, format, request, output, err) < 0) {
		ws_export_end(&export);
		return -1;
	}
	ws_outfile_watch();
	export.progress = ws_progress_begin(request->quiet ? NULL : "export", all_rows(report));
	rc = write_all(&export, format, &out, request, err);
	ws_progress_end(export.progress);
	if (rc < 0 && out.path) {
		ws_outfile_abort(&out);
	} else {
		struct ws_err *first = rc < 0 ? NULL : err; /* of standard output, this finds out
							     whether the reader went away */
		int end = ws_outfile_commit(&out, first);

		rc = ws_min(end, rc);
	}
	if (export.damaged)
		ws_warn("%s: %" PRIu64 " blocks could not be read; their rows are missing",
			export.input, export.damaged);
	if (!rc && !request->quiet && strcmp(output, "-"))
		ws_say("wrote %s: %" PRIu64 " rows", output, export.rows);
	ws_export_end(&export);
	return rc;
}

/* Options that the format does not take. */
static int check_options(const struct ws_xformat *format, const struct ws_export_request *request,
			 struct ws_err *err)
{
	const struct {
		bool given;
		unsigned needs;
		const char *name;
	} options[] = {
		{request->choice.table_count > 0, WS_XO_TABLES, "--tables"},
		{request->choice.time_count > 0,
		 WS_XO_TABLES | WS_XO_TIMES | WS_XO_STACKS | WS_XO_SPAN, "--times"},
		{request->choice.shift != 0, WS_XO_TABLES | WS_XO_TIMES, "--ts-shift"},
		{request->choice.normalize, WS_XO_TABLES | WS_XO_TIMES, "--ts-normalize"},
		{request->append, WS_XO_APPEND, "--append"},
		{!request->blobs, WS_XO_BLOBS, "--include-blobs=false"},
		{request->separate_strings, WS_XO_STRINGS, "--separate-strings"},
		{!request->lazy, WS_XO_TABLES, "--lazy=false"},
		{request->show != NULL, WS_XO_STACKS, "--show"},
		{request->by != NULL, WS_XO_STACKS, "--by"},
	};

	for (size_t i = 0; i < WS_COUNT(options); i++)
		if (options[i].given && !(format->takes & options[i].needs))
			return ws_fail(err, "%s means nothing to the type %s", options[i].name,
				       format->name);
	if (request->append && request->overwrite)
		return ws_fail(err,
			       "--append keeps what is there and --force-overwrite replaces it; "
			       "give one of them");
	return ws_choose_check(&request->choice, err);
}

int ws_export_file(const char *path, const struct ws_export_request *request)
{
	const struct ws_xformat *format = ws_xformat_find(request->type);
	char *file, *output;
	struct ws_report *report;
	struct ws_err err;
	int rc;

	if (check_options(format, request, &err) < 0) {
		ws_say("export: %s", err.msg);
		return WS_EXPORT_USAGE;
	}
	file = ws_report_operand(path);
	report = ws_report_open(file, &err);
	free(file);
	if (!report) {
		ws_say("%s", err.msg);
		return -1;
	}
	for (size_t i = 0; ws_report_damage(report, i); i++)
		ws_warn("%s: %s", ws_report_path(report), ws_report_damage(report, i));
	output = request->output ? ws_strdup(request->output)
				 : default_output(ws_report_path(report), format);
	rc = export_report(report, format, request, output, &err);
	ws_outfile_end_if_interrupted();
	if (rc == -1)
		ws_say("%s", err.msg);
	free(output);
	ws_report_close(report);
	return rc;
}
