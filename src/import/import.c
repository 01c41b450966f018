/*
 * import.c - which format a file is, and one report of one or several files.
 *
 * The report is written under a temporary name beside its place and renamed when all has gone well.
 * Nothing needs a journal: what is lost can be made again.
 */
#include "import/import.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/mem.h"
#include "import/formats.h"
#include "import/trace.h"
#include "query/doubles.h"
#include "store/store.h"

enum { HEAD = 64 << 10 };

/* ---- formats ---- */

static const char *skip_blanks(const char *p, const char *end)
{
	if (end - p >= 3 && !memcmp(p, "\xef\xbb\xbf", 3))
		p += 3;
	while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
		p++;
	return p;
}

/* A field of a protobuf Trace is a TracePacket: tag 0x0a and its length, then fields of a packet.
 */
static bool is_perfetto(const unsigned char *p, size_t n)
{
	uint64_t length = 0;
	size_t at = 1;

	if (n < 4 || p[0] != 0x0a)
		return false;
	for (int shift = 0; at < n && shift < 35; shift += 7) {
		length |= (uint64_t)(p[at] & 0x7f) << shift;
		if (!(p[at++] & 0x80))
			break;
	}
	if (at >= n || length < 2)
		return false;
	/* The tag of a packet's first field: wire type 0, 1, 2 or 5 and a field number. */
	return (p[at] & 7) <= 5 && (p[at] & 7) != 3 && (p[at] & 7) != 4 && p[at] >> 3;
}

/* "comm pid[/tid] [cpu] seconds.micros:" in one of the first lines that are not comments. */
static bool is_perf_script(const char *p, const char *end)
{
	for (int lines = 0; p < end && lines < 50; lines++) {
		const char *line = p, *stop = memchr(p, '\n', (size_t)(end - p));
		bool digits = false, dot = false;

		p = stop ? stop + 1 : end;
		if (*line == '#' || line == stop || *line == '\t')
			continue;
		for (const char *s = line; s < (stop ? stop : end); s++) {
			if (*s >= '0' && *s <= '9') {
				digits = true;
			} else if (*s == '.' && digits) {
				dot = true;
			} else if (*s == ':' && dot && digits && s[-1] >= '0' && s[-1] <= '9') {
				return true;
			} else {
				digits = dot = false;
				if ((unsigned char)*s < 0x20 && *s != '\t' && *s != '\r')
					return false;
			}
		}
	}
	return false;
}

/* A .nsys-rep begins with a line of text that names its kind; older ones are a QuadD container. */
static bool is_nsys_rep(const char *p, size_t n)
{
	return p && n > 64 &&
	       (memmem(p, n < 4096 ? n : 4096, "QuadD", 5) ||
		memmem(p, n < 4096 ? n : 4096, "NVIDIA Tegra Profiler", 21) ||
		memmem(p, n < 4096 ? n : 4096, "Nsight Systems", 14));
}

static enum ws_import_format tell(const char *buffer, size_t n)
{
	const char *p = skip_blanks(buffer, buffer + n);

	if (n >= 8 && !memcmp(buffer, WS_REPORT_MAGIC, 8))
		return WS_FORMAT_REPORT;
	if (n >= 16 && !memcmp(buffer, "SQLite format 3", 16))
		return WS_FORMAT_SQLITE;
	if (p < buffer + n && (*p == '{' || *p == '['))
		return WS_FORMAT_JSON;
	if (is_nsys_rep(buffer, n))
		return WS_FORMAT_NSYS_REP;
	if (is_perfetto((const unsigned char *)buffer, n))
		return WS_FORMAT_PERFETTO;
	if (is_perf_script(buffer, buffer + n))
		return WS_FORMAT_PERF_SCRIPT;
	return WS_FORMAT_UNKNOWN;
}

enum ws_import_format ws_import_format(const char *path, struct ws_err *e)
{
	struct ws_source *s = ws_source_open(path, e);
	char *head;
	size_t n = 0, got;
	enum ws_import_format f = WS_FORMAT_UNKNOWN;

	if (!s)
		return f;
	head = ws_malloc(HEAD);
	while (n < HEAD && (got = ws_source_read(s, head + n, HEAD - n)))
		n += got;
	if (!n)
		ws_fail(e, "%s is empty", path);
	else
		f = tell(head, n);
	if (n >= 8 && !f && !memcmp(head, "PERFILE2", 8))
		ws_fail(e,
			"%s is a recording of perf, which only perf reads: run 'perf script -i %s "
			"> %s.txt' and import that text",
			path, path, path);
	else if (n && !f)
		ws_fail(e,
			"%s is no report and no trace that is known: an SQLite export of Nsight "
			"Systems, a JSON trace of PyTorch or "
			"Chrome (plain or .gz), a Perfetto trace, or the text of perf script",
			path);
	free(head);
	ws_source_close(s);
	return f;
}

/* ---- real time that a file's times count from ---- */

static uint64_t base_in(const char *p, size_t n)
{
	static const char name[] = "\"baseTimeNanoseconds\"";
	const char *at = memmem(p, n, name, sizeof(name) - 1), *end = p + n;
	uint64_t v = 0;

	if (!at)
		return 0;
	for (at += sizeof(name) - 1; at < end && (*at == ':' || *at == ' '); at++)
		;
	for (; at < end && *at >= '0' && *at <= '9' && v < UINT64_MAX / 100; at++)
		v = v * 10 + (uint64_t)(*at - '0');
	return v;
}

/*
 * baseTimeNanoseconds of a trace, which stands at its beginning or end. Needed before reading only
 * when several files are to line up: then a compressed one is read twice.
 */
static uint64_t find_base(const char *path)
{
	struct ws_source *s = ws_source_open(path, NULL);
	char *buffer = ws_malloc(2 * HEAD);
	size_t n = 0, got;
	uint64_t base = 0;
	bool first = true;

	while (s && (got = ws_source_read(s, buffer + n, 2 * HEAD - n))) {
		n += got;
		if (n < 2 * HEAD)
			continue;
		if (first)
			base = base_in(buffer, n);
		if (base)
			break;
		first = false;
		memmove(buffer, buffer + HEAD, HEAD);
		n = HEAD;
	}
	if (!base)
		base = base_in(buffer, n);
	free(buffer);
	ws_source_close(s);
	return base;
}

/* ---- files ---- */

static int import_stream(struct ws_into *o, const char *path, enum ws_import_format f,
			 struct ws_err *e)
{
	uint64_t base = f == WS_FORMAT_JSON && o->file_count > 1 ? find_base(path) : 0;
	struct ws_source *s = ws_source_open(path, e);
	int rc;

	if (!s)
		return -1;
	rc = f == WS_FORMAT_JSON       ? ws_trace_import(o, s, base)
	     : f == WS_FORMAT_PERFETTO ? ws_perfetto_import(o, s)
				       : ws_perf_script_import(o, s);
	ws_source_close(s);
	return rc;
}

static int import_nsys_rep(struct ws_into *o, const char *path)
{
	char *exported = NULL;
	int litter[2] = {-1, -1}, rc = ws_nsys_export(o, path, &exported, litter);

	if (!rc)
		rc = ws_sqlite_import(o, exported);
	if (exported) {
		char *folder = ws_strndup(exported, (size_t)(strrchr(exported, '/') - exported));

		unlink(exported);
		rmdir(folder);
		ws_cleanup_forget(litter[1]);
		ws_cleanup_forget(litter[0]);
		free(folder);
	}
	free(exported);
	return rc;
}

static int import_file(struct ws_into *o, const char *path, struct ws_err *e)
{
	enum ws_import_format f = ws_import_format(path, e);
	int rc;

	if (f == WS_FORMAT_UNKNOWN)
		return -1;
	if (f == WS_FORMAT_REPORT)
		return ws_fail(e, "%s is a report already; only other tools' files are imported",
			       path);
	ws_into_file_begin(o, path);
	e->msg[0] = 0;
	if (f == WS_FORMAT_SQLITE)
		rc = ws_sqlite_import(o, path);
	else if (f == WS_FORMAT_NSYS_REP)
		rc = import_nsys_rep(o, path);
	else
		rc = import_stream(o, path, f, e);
	ws_into_file_end(o);
	if (rc < 0 && o->full)
		*e = o->problem;
	if (!rc && ws_writer_error(o->w, e))
		rc = -1;
	return rc;
}

/* Traces that do not say when they were recorded were from their first event to their last. */
static void put_collection(struct ws_into *o)
{
	struct ws_row_collection *row;

	if (o->collected || o->first == UINT64_MAX)
		return;
	row = ws_into_row(o, WS_TABLE_collection);
	*row = (struct ws_row_collection){.start = o->first, .end = o->last};
}

/* What the clocks of PyTorch traces showed when the session's time was 0: see query/doubles.h. */
static void put_clocks(struct ws_into *o)
{
	for (uint32_t id = 1; id <= o->process_count && o->clocks.n && !o->collected; id++) {
		char name[40], value[24];
		bool found;
		uint64_t base = ws_map_get(&o->clocks, id, &found);

		if (!found)
			continue;
		snprintf(name, sizeof(name), WS_DOUBLES_FACT "%" PRIu32, id);
		ws_into_meta(o, name, value,
			     (size_t)snprintf(value, sizeof(value), "%" PRId64,
					      (int64_t)(o->first - base)));
	}
}

static int import_all(const struct ws_import_request *q, struct ws_into *o, struct ws_err *e)
{
	for (size_t i = 0; i < q->count; i++) {
		o->file = (uint32_t)i;
		if (import_file(o, q->files[i], e) < 0)
			return -1;
		if (o->again)
			return 0;
	}
	put_collection(o);
	put_clocks(o);
	return 0;
}

/* ---- the report ---- */

static int place(const char *temporary, const struct ws_import_request *q, struct ws_err *e)
{
	int rc;

	if (q->overwrite) {
		rc = rename(temporary, q->output);
	} else {
		rc = renameat2(AT_FDCWD, temporary, AT_FDCWD, q->output, RENAME_NOREPLACE);
		if (rc && (errno == EINVAL || errno == ENOSYS)) { /* a file system that cannot */
			rc = link(temporary, q->output);
			if (!rc)
				unlink(temporary);
		}
	}
	if (!rc)
		return 0;
	if (errno == EEXIST)
		ws_fail(e, "%s exists already; give --force-overwrite to replace it", q->output);
	else
		ws_fail_errno(e, "cannot write %s", q->output);
	unlink(temporary);
	return -1;
}

static int check_output(const struct ws_import_request *q, struct ws_err *e)
{
	struct stat st;

	if (lstat(q->output, &st) < 0)
		return 0;
	if (S_ISDIR(st.st_mode))
		return ws_fail(e, "cannot write %s: it is a directory", q->output);
	if (!q->overwrite)
		return ws_fail(e, "%s exists already; give --force-overwrite to replace it",
			       q->output);
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return ws_fail(e, "cannot write %s: it is not a regular file", q->output);
	return 0;
}

static int import_once(const struct ws_import_request *q, struct ws_into *o, const char *temporary,
		       struct ws_err *e)
{
	struct ws_writer_opts opts = {
		.no_journal = true, .overwrite = true, .segment_ns = UINT64_MAX};

	o->w = ws_writer_create(temporary, &opts, e);
	return o->w ? import_all(q, o, e) : -1;
}

int ws_import(const struct ws_import_request *q, unsigned long long *rows, struct ws_err *e)
{
	const struct ws_into fresh = {.first = UINT64_MAX,
				      .file_count = (uint32_t)q->count,
				      .quiet = q->quiet,
				      .progress = q->progress && isatty(2)};
	struct ws_into o = fresh;
	char *temporary;
	int rc, litter;

	if (check_output(q, e) < 0)
		return -1;
	temporary = ws_format("%s.%ld.tmp", q->output, (long)getpid());
	litter = ws_cleanup_path(temporary, false);
	rc = import_once(q, &o, temporary, e);
	while (!rc && o.again) { /* at most twice for each file: what was learned is known then */
		struct ws_into known = {.shuffled = o.shuffled, .least = o.least, .told = o.file};

		ws_writer_discard(o.w);
		ws_into_free(&o);
		o = fresh;
		o.shuffled = known.shuffled;
		o.least = known.least;
		o.told = known.told;
		rc = import_once(q, &o, temporary, e);
	}
	if (rc < 0 && o.w)
		ws_writer_discard(o.w);
	else if (!rc && (rc = ws_writer_close(o.w, e)) < 0)
		unlink(temporary);
	else if (!rc)
		rc = place(temporary, q, e);
	ws_cleanup_forget(litter);
	if (rows)
		*rows = o.rows;
	ws_into_free(&o);
	ws_map_free(&o.least);
	free(temporary);
	return rc;
}
