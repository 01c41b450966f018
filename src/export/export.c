/* export.c - one export: checks the options, opens the output, writes it and gives it its name. */
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
#include "text/output_file.h"
#include "text/progress.h"
#include "views/tables.h"
#include "text/text.h"

static char *make_default_output(const char *path, const struct ws_export_format *format)
{
	size_t length = strlen(path);

	if (length > 6 && !strcmp(path + length - 6, ".wsrep"))
		length -= 6;
	return ws_format("%.*s%s", (int)length, path, format->extension);
}

static int write_tables(struct ws_cell_context *export, const struct ws_export_format *format,
			const struct ws_export_target *target, struct ws_err *err)
{
	int rc;

	export->writer = format->open(target, err);
	if (!export->writer)
		return -1;
	rc = ws_write_all_tables(export, err);
	if (!rc)
		rc = ws_write_string_table(export, err);
	if (!rc)
		rc = ws_end_table(export, err);
	if (export->writer->close_writer(export->writer, !rc, err) < 0)
		rc = -1;
	return rc;
}

static int write_output(struct ws_cell_context *export, const struct ws_export_format *format,
			struct ws_output_file *out, const struct ws_export_request *request,
			struct ws_err *err)
{
	struct ws_export_target target = {.path = out->temporary,
					  .name = export->output,
					  .append = export->append,
					  .separate_strings = request->separate_strings};

	if (format->flags & WS_FORMAT_PATH && out->file) { /* it opens the file by itself */
		fclose(out->file);
		out->file = NULL;
	}
	target.file = out->file;
	if (format->open)
		return write_tables(export, format, &target, err);
	return format->write(export, out->file, err);
}

/* The rows of all tables of the report: roughly how much work there is. */
static uint64_t count_all_rows(const struct ws_report *report)
{
	uint64_t rows = 0;

	for (int table = 0; table < WS_TABLE_COUNT; table++)
		rows += ws_report_count_rows(report, (enum ws_table)table);
	return rows;
}

static int open_output(struct ws_output_file *out, const struct ws_export_format *format,
		       const struct ws_export_request *request, const char *output,
		       struct ws_err *err)
{
	size_t length = strlen(output);
	const char *kind = "file";

	if (format->flags & WS_FORMAT_FOLDER)
		kind = "folder";
	if (!strcmp(output, "-") && !(format->flags & WS_FORMAT_STDOUT))
		return ws_fail(err, "%s cannot be written to standard output; name a %s with -o",
			       format->name, kind);
	if (format->flags & WS_FORMAT_FOLDER)
		return ws_open_output_folder(out, output, request->overwrite, request->append, err);
	if (request->append)
		return ws_open_output_copy(out, output, 0600, err);
	if (ws_open_output_file(out, output, 0600, request->overwrite, err) < 0)
		return -1;
	if (!(format->flags & WS_FORMAT_GZIP) || length < 3 ||
	    strcmp(output + length - 3, ".gz") != 0 || !ws_compress_output(out, err))
		return 0;
	ws_abort_output(out);
	return -1;
}

static void set_export_options(struct ws_cell_context *export,
			       const struct ws_export_format *format,
			       const struct ws_export_request *request, const char *output)
{
	export->type = format->name;
	export->output = output;
	export->lazy = request->lazy;
	export->no_blobs = !request->blobs;
	export->show = request->show;
	export->by = request->by;
	export->frames = request->frames;
	export->quiet = request->quiet;
	export->append = request->append;
	export->normalized = request->choice.normalize;
	export->all_strings = request->append || request->choice.table_count;
}

/* Choose what is exported, and open the output. */
static int prepare_export(struct ws_cell_context *export, struct ws_output_file *out,
			  const struct ws_export_format *format,
			  const struct ws_export_request *request, struct ws_err *err)
{
	uint64_t epoch = 0;

	if (request->choice.normalize)
		epoch = ws_find_start_epoch(export);
	if (ws_apply_choice(export, &request->choice, epoch, err) < 0)
		return -1;
	return open_output(out, format, request, export->output, err);
}

/* Give the output its name, or remove it after a failure. */
static int finish_output(struct ws_output_file *out, int rc, struct ws_err *err)
{
	int end;

	if (rc < 0 && out->path) {
		ws_abort_output(out);
		return rc;
	}
	/* For standard output, committing finds out whether the reader went away, even after a
	 * failure, whose message must be kept. */
	if (rc < 0)
		end = ws_commit_output(out, NULL);
	else
		end = ws_commit_output(out, err);
	return ws_min(end, rc);
}

static int export_report(const struct ws_report *report, const struct ws_export_format *format,
			 const struct ws_export_request *request, const char *output,
			 struct ws_err *err)
{
	const char *title = "export";
	struct ws_cell_context export;
	struct ws_output_file out;
	int rc;

	ws_open_cell_context(&export, report);
	set_export_options(&export, format, request, output);
	if (prepare_export(&export, &out, format, request, err) < 0) {
		ws_close_cell_context(&export);
		return -1;
	}
	if (request->quiet)
		title = NULL;
	ws_watch_interrupts();
	export.progress = ws_begin_progress(title, count_all_rows(report));
	rc = write_output(&export, format, &out, request, err);
	ws_end_progress(export.progress);
	rc = finish_output(&out, rc, err);
	if (export.damaged)
		ws_warn("%s: %" PRIu64 " blocks could not be read; their rows are missing",
			export.input, export.damaged);
	if (!rc && !request->quiet && strcmp(output, "-"))
		ws_say("wrote %s: %" PRIu64 " rows", output, export.rows);
	ws_close_cell_context(&export);
	return rc;
}

/* Refuse options that the format does not take, or that conflict. */
static int check_options(const struct ws_export_format *format,
			 const struct ws_export_request *request, struct ws_err *err)
{
	const struct {
		bool given;
		unsigned needs;
		const char *name;
	} options[] = {
		{request->choice.table_count > 0, WS_TAKES_TABLES, "--tables"},
		{request->choice.time_count > 0,
		 WS_TAKES_TABLES | WS_TAKES_TIMES | WS_TAKES_STACKS | WS_TAKES_SPAN, "--times"},
		{request->choice.shift != 0, WS_TAKES_TABLES | WS_TAKES_TIMES, "--ts-shift"},
		{request->choice.normalize, WS_TAKES_TABLES | WS_TAKES_TIMES, "--ts-normalize"},
		{request->append, WS_TAKES_APPEND, "--append"},
		{!request->blobs, WS_TAKES_BLOBS, "--include-blobs=false"},
		{request->separate_strings, WS_TAKES_STRINGS, "--separate-strings"},
		{!request->lazy, WS_TAKES_TABLES, "--lazy=false"},
		{request->show != NULL, WS_TAKES_STACKS, "--show"},
		{request->by != NULL, WS_TAKES_STACKS, "--by"},
		{request->frames != NULL, WS_TAKES_STACKS, "--frames"},
	};

	for (size_t i = 0; i < WS_COUNT(options); i++)
		if (options[i].given && !(format->takes & options[i].needs))
			return ws_fail(err, "%s means nothing to the type %s", options[i].name,
				       format->name);
	if (request->append && request->overwrite)
		return ws_fail(err,
			       "--append keeps what is there and --force-overwrite replaces it; "
			       "give one of them");
	return ws_check_choice(&request->choice, err);
}

int ws_export_report_file(const char *path, const struct ws_export_request *request)
{
	const struct ws_export_format *format = ws_find_export_format(request->type);
	char *file, *output;
	struct ws_report *report;
	struct ws_err err;
	int rc;

	if (check_options(format, request, &err) < 0) {
		ws_say("export: %s", err.msg);
		return WS_EXPORT_USAGE;
	}
	file = ws_find_operand_report(path);
	report = ws_report_open(file, &err);
	free(file);
	if (!report) {
		ws_say("%s", err.msg);
		return -1;
	}
	for (size_t i = 0; ws_report_get_damage(report, i); i++)
		ws_warn("%s: %s", ws_report_path(report), ws_report_get_damage(report, i));
	if (request->output)
		output = ws_strdup(request->output);
	else
		output = make_default_output(ws_report_path(report), format);
	rc = export_report(report, format, request, output, &err);
	ws_end_if_interrupted();
	if (rc == -1)
		ws_say("%s", err.msg);
	free(output);
	ws_report_close(report);
	return rc;
}
