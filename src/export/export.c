/* export.c - one export: options, opening, and the file's way to its name. */
#include "export/export.h"
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

static char *default_output(const char *path, const struct ws_xformat *f)
{
	size_t n = strlen(path);

	if (n > 6 && !strcmp(path + n - 6, ".wsrep"))
		n -= 6;
	return ws_format("%.*s%s", (int)n, path, f->extension);
}

static int write_tables(struct ws_export *x, const struct ws_xformat *f, const struct ws_xtarget *t,
			struct ws_err *e)
{
	int rc;

	x->w = f->open(t, e);
	if (!x->w)
		return -1;
	rc = ws_export_tables(x, e);
	if (!rc)
		rc = ws_export_strings(x, e);
	if (!rc)
		rc = ws_export_table_end(x, e);
	if (x->w->close(x->w, !rc, e) < 0)
		rc = -1;
	return rc;
}

static int write_all(struct ws_export *x, const struct ws_xformat *f, struct ws_outfile *out,
		     const struct ws_export_request *q, struct ws_err *e)
{
	struct ws_xtarget t = {.path = out->temporary,
			       .name = x->output,
			       .append = x->append,
			       .separate_strings = q->separate_strings};

	if (f->flags & WS_FF_PATH && out->f) { /* it opens the file by itself */
		fclose(out->f);
		out->f = NULL;
	}
	t.f = out->f;
	return f->open ? write_tables(x, f, &t, e) : f->write(x, out->f, e);
}

/* The rows that the tables of the report have: how much work there is, about. */
static uint64_t all_rows(const struct ws_report *r)
{
	uint64_t n = 0;

	for (int t = 0; t < WS_TABLE_COUNT; t++)
		n += ws_report_rows(r, (enum ws_table)t);
	return n;
}

static int open_output(struct ws_outfile *out, const struct ws_xformat *f,
		       const struct ws_export_request *q, const char *output, struct ws_err *e)
{
	size_t n = strlen(output);

	if (!strcmp(output, "-") && !(f->flags & WS_FF_STDOUT))
		return ws_fail(e, "%s cannot be written to standard output; name a %s with -o",
			       f->name, f->flags & WS_FF_FOLDER ? "folder" : "file");
	if (f->flags & WS_FF_FOLDER)
		return ws_outfile_open_folder(out, output, q->overwrite, q->append, e);
	if (q->append)
		return ws_outfile_open_copy(out, output, 0600, e);
	if (ws_outfile_open(out, output, 0600, q->overwrite, e) < 0)
		return -1;
	if (!(f->flags & WS_FF_GZIP) || n < 3 || strcmp(output + n - 3, ".gz") != 0 ||
	    !ws_outfile_gzip(out, e))
		return 0;
	ws_outfile_abort(out);
	return -1;
}

static int export_report(const struct ws_report *r, const struct ws_xformat *f,
			 const struct ws_export_request *q, const char *output, struct ws_err *e)
{
	struct ws_export x;
	struct ws_outfile out;
	int rc;

	ws_export_begin(&x, r);
	x.type = f->name;
	x.output = output;
	x.lazy = q->lazy;
	x.no_blobs = !q->blobs;
	x.show = q->show;
	x.by = q->by;
	x.quiet = q->quiet;
	x.append = q->append;
	x.normalized = q->choice.normalize;
	x.all_strings = q->append || q->choice.table_count;
	if (ws_choose(&x, &q->choice, q->choice.normalize ? ws_export_epoch(&x) : 0, e) < 0 ||
	    open_output(&out, f, q, output, e) < 0) {
		ws_export_end(&x);
		return -1;
	}
	ws_outfile_watch();
	x.progress = ws_progress_begin(q->quiet ? NULL : "export", all_rows(r));
	rc = write_all(&x, f, &out, q, e);
	ws_progress_end(x.progress);
	if (rc < 0 && out.path) {
		ws_outfile_abort(&out);
	} else {
		struct ws_err *first = rc < 0 ? NULL : e; /* of standard output, this finds out
							     whether the reader went away */
		int end = ws_outfile_commit(&out, first);

		rc = end < rc ? end : rc;
	}
	if (x.damaged)
		ws_warn("%s: %" PRIu64 " blocks could not be read; their rows are missing", x.input,
			x.damaged);
	if (!rc && !q->quiet && strcmp(output, "-"))
		ws_say("wrote %s: %" PRIu64 " rows", output, x.rows);
	ws_export_end(&x);
	return rc;
}

/* Options that the format does not take. */
static int check_options(const struct ws_xformat *f, const struct ws_export_request *q,
			 struct ws_err *e)
{
	const struct {
		bool given;
		unsigned needs;
		const char *name;
	} options[] = {
		{q->choice.table_count > 0, WS_XO_TABLES, "--tables"},
		{q->choice.time_count > 0, WS_XO_TABLES | WS_XO_TIMES | WS_XO_STACKS | WS_XO_SPAN,
		 "--times"},
		{q->choice.shift != 0, WS_XO_TABLES | WS_XO_TIMES, "--ts-shift"},
		{q->choice.normalize, WS_XO_TABLES | WS_XO_TIMES, "--ts-normalize"},
		{q->append, WS_XO_APPEND, "--append"},
		{!q->blobs, WS_XO_BLOBS, "--include-blobs=false"},
		{q->separate_strings, WS_XO_STRINGS, "--separate-strings"},
		{!q->lazy, WS_XO_TABLES, "--lazy=false"},
		{q->show != NULL, WS_XO_STACKS, "--show"},
		{q->by != NULL, WS_XO_STACKS, "--by"},
	};

	for (size_t i = 0; i < WS_COUNT(options); i++)
		if (options[i].given && !(f->takes & options[i].needs))
			return ws_fail(e, "%s means nothing to the type %s", options[i].name,
				       f->name);
	if (q->append && q->overwrite)
		return ws_fail(e, "--append keeps what is there and --force-overwrite replaces it; "
				  "give one of them");
	return ws_choose_check(&q->choice, e);
}

int ws_export_file(const char *path, const struct ws_export_request *q)
{
	const struct ws_xformat *f = ws_xformat_find(q->type);
	char *file, *output;
	struct ws_report *r;
	struct ws_err e;
	int rc;

	if (check_options(f, q, &e) < 0) {
		ws_say("export: %s", e.msg);
		return WS_EXPORT_USAGE;
	}
	file = ws_report_operand(path);
	r = ws_report_open(file, &e);
	free(file);
	if (!r) {
		ws_say("%s", e.msg);
		return -1;
	}
	for (size_t i = 0; ws_report_damage(r, i); i++)
		ws_warn("%s: %s", ws_report_path(r), ws_report_damage(r, i));
	output = q->output ? ws_strdup(q->output) : default_output(ws_report_path(r), f);
	rc = export_report(r, f, q, output, &e);
	ws_outfile_end_if_interrupted();
	if (rc == -1)
		ws_say("%s", e.msg);
	free(output);
	ws_report_close(r);
	return rc;
}
