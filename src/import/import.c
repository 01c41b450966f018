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
#include "base/choose.h"
#include "base/mem.h"
#include "import/formats.h"
#include "import/trace.h"
#include "query/doubles.h"
#include "store/store.h"

enum { HEAD = 64 << 10 };

/* ---- formats ---- */

static const char *skip_blanks(const char *at, const char *end)
{
	if (end - at >= 3 && !memcmp(at, "\xef\xbb\xbf", 3))
		at += 3;
	while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
		at++;
	return at;
}

/* A field of a protobuf Trace is a TracePacket: tag 0x0a and its length, then fields of a packet.
 */
static bool is_perfetto(const unsigned char *bytes, size_t n)
{
	uint64_t length = 0;
	size_t at = 1;

	if (n < 4 || bytes[0] != 0x0a)
		return false;
	for (int shift = 0; at < n && shift < 35; shift += 7) {
		length |= (uint64_t)(bytes[at] & 0x7f) << shift;
		if (!(bytes[at++] & 0x80))
			break;
	}
	if (at >= n || length < 2)
		return false;
	/* The tag of a packet's first field: wire type 0, 1, 2 or 5 and a field number. */
	return (bytes[at] & 7) <= 5 && (bytes[at] & 7) != 3 && (bytes[at] & 7) != 4 &&
	       bytes[at] >> 3;
}

/* "comm pid[/tid] [cpu] seconds.micros:" in one of the first lines that are not comments. */
static bool is_perf_script(const char *at, const char *end)
{
	for (int lines = 0; at < end && lines < 50; lines++) {
		const char *line = at, *stop = memchr(at, '\n', (size_t)(end - at));
		bool digits = false, dot = false;

		at = stop ? stop + 1 : end;
		if (*line == '#' || line == stop || *line == '\t')
			continue;
		for (const char *text = line; text < (stop ? stop : end); text++) {
			if (*text >= '0' && *text <= '9') {
				digits = true;
			} else if (*text == '.' && digits) {
				dot = true;
			} else if (*text == ':' && dot && digits && text[-1] >= '0' &&
				   text[-1] <= '9') {
				return true;
			} else {
				digits = dot = false;
				if ((unsigned char)*text < 0x20 && *text != '\t' && *text != '\r')
					return false;
			}
		}
	}
	return false;
}

/* A .nsys-rep begins with a line of text that names its kind; older ones are a QuadD container. */
static bool is_nsys_rep(const char *at, size_t n)
{
	return at && n > 64 &&
	       (memmem(at, ws_min(n, 4096), "QuadD", 5) ||
		memmem(at, ws_min(n, 4096), "NVIDIA Tegra Profiler", 21) ||
		memmem(at, ws_min(n, 4096), "Nsight Systems", 14));
}

static enum ws_import_format tell(const char *buffer, size_t n)
{
	const char *at = skip_blanks(buffer, buffer + n);

	if (n >= 8 && !memcmp(buffer, WS_REPORT_MAGIC, 8))
		return WS_FORMAT_REPORT;
	if (n >= 16 && !memcmp(buffer, "SQLite format 3", 16))
		return WS_FORMAT_SQLITE;
	if (at < buffer + n && (*at == '{' || *at == '['))
		return WS_FORMAT_JSON;
	if (is_nsys_rep(buffer, n))
		return WS_FORMAT_NSYS_REP;
	if (is_perfetto((const unsigned char *)buffer, n))
		return WS_FORMAT_PERFETTO;
	if (is_perf_script(buffer, buffer + n))
		return WS_FORMAT_PERF_SCRIPT;
	return WS_FORMAT_UNKNOWN;
}

enum ws_import_format ws_import_format(const char *path, struct ws_err *err)
{
	struct ws_source *source = ws_source_open(path, err);
	char *head;
	size_t n = 0, got;
	enum ws_import_format format = WS_FORMAT_UNKNOWN;

	if (!source)
		return format;
	head = ws_malloc(HEAD);
	while (n < HEAD && (got = ws_source_read(source, head + n, HEAD - n)))
		n += got;
	if (!n)
		ws_fail(err, "%s is empty", path);
	else
		format = tell(head, n);
	if (n >= 8 && !format && !memcmp(head, "PERFILE2", 8))
		ws_fail(err,
			"%s is a recording of perf, which only perf reads: run 'perf script -i %s "
			"> %s.txt' and import that text",
			path, path, path);
	else if (n && !format)
		ws_fail(err,
			"%s is no report and no trace that is known: an SQLite export of Nsight "
			"Systems, a JSON trace of PyTorch or "
			"Chrome (plain or .gz), a Perfetto trace, or the text of perf script",
			path);
	free(head);
	ws_source_close(source);
	return format;
}

/* ---- real time that a file's times count from ---- */

static uint64_t base_in(const char *from, size_t n)
{
	static const char name[] = "\"baseTimeNanoseconds\"";
	const char *at = memmem(from, n, name, sizeof(name) - 1), *end = from + n;
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
	struct ws_source *source = ws_source_open(path, NULL);
	char *buffer = ws_malloc(2 * HEAD);
	size_t n = 0, got;
	uint64_t base = 0;
	bool first = true;

	while (source && (got = ws_source_read(source, buffer + n, 2 * HEAD - n))) {
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
	ws_source_close(source);
	return base;
}

/* ---- files ---- */

static int import_stream(struct ws_into *into, const char *path, enum ws_import_format format,
			 struct ws_err *err)
{
	uint64_t base = format == WS_FORMAT_JSON && into->file_count > 1 ? find_base(path) : 0;
	struct ws_source *source = ws_source_open(path, err);
	int rc;

	if (!source)
		return -1;
	rc = format == WS_FORMAT_JSON	    ? ws_trace_import(into, source, base)
	     : format == WS_FORMAT_PERFETTO ? ws_perfetto_import(into, source)
					    : ws_perf_script_import(into, source);
	ws_source_close(source);
	return rc;
}

static int import_nsys_rep(struct ws_into *into, const char *path)
{
	char *exported = NULL;
	int litter[2] = {-1, -1}, rc = ws_nsys_export(into, path, &exported, litter);

	if (!rc)
		rc = ws_sqlite_import(into, exported);
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

static int import_file(struct ws_into *into, const char *path, struct ws_err *err)
{
	enum ws_import_format format = ws_import_format(path, err);
	int rc;

	if (format == WS_FORMAT_UNKNOWN)
		return -1;
	if (format == WS_FORMAT_REPORT)
		return ws_fail(err, "%s is a report already; only other tools' files are imported",
			       path);
	ws_into_file_begin(into, path);
	err->msg[0] = 0;
	if (format == WS_FORMAT_SQLITE)
		rc = ws_sqlite_import(into, path);
	else if (format == WS_FORMAT_NSYS_REP)
		rc = import_nsys_rep(into, path);
	else
		rc = import_stream(into, path, format, err);
	ws_into_file_end(into);
	if (rc < 0 && into->full)
		*err = into->problem;
	if (!rc && ws_writer_error(into->writer, err))
		rc = -1;
	return rc;
}

/* Traces that do not say when they were recorded were from their first event to their last. */
static void put_collection(struct ws_into *into)
{
	struct ws_row_collection *row;

	if (into->collected || into->first == UINT64_MAX)
		return;
	row = ws_into_row(into, WS_TABLE_collection);
	*row = (struct ws_row_collection){.start = into->first, .end = into->last};
}

/* What the clocks of PyTorch traces showed when the session's time was 0: see query/doubles.h. */
static void put_clocks(struct ws_into *into)
{
	for (uint32_t id = 1; id <= into->process_count && into->clocks.n && !into->collected;
	     id++) {
		char name[40], value[24];
		bool found;
		uint64_t base = ws_map_get(&into->clocks, id, &found);

		if (!found)
			continue;
		snprintf(name, sizeof(name), WS_DOUBLES_FACT "%" PRIu32, id);
		ws_into_meta(into, name, value,
			     (size_t)snprintf(value, sizeof(value), "%" PRId64,
					      (int64_t)(into->first - base)));
	}
}

static int import_all(const struct ws_import_request *request, struct ws_into *into,
		      struct ws_err *err)
{
	for (size_t i = 0; i < request->count; i++) {
		into->file = (uint32_t)i;
		if (import_file(into, request->files[i], err) < 0)
			return -1;
		if (into->again)
			return 0;
	}
	put_collection(into);
	put_clocks(into);
	return 0;
}

/* ---- the report ---- */

static int place(const char *temporary, const struct ws_import_request *request, struct ws_err *err)
{
	int rc;

	if (request->overwrite) {
		rc = rename(temporary, request->output);
	} else {
		rc = renameat2(AT_FDCWD, temporary, AT_FDCWD, request->output, RENAME_NOREPLACE);
		if (rc && (errno == EINVAL || errno == ENOSYS)) { /* a file system that cannot */
			rc = link(temporary, request->output);
			if (!rc)
				unlink(temporary);
		}
	}
	if (!rc)
		return 0;
	if (errno == EEXIST)
		ws_fail(err, "%s exists already; give --force-overwrite to replace it",
			request->output);
	else
		ws_fail_errno(err, "cannot write %s", request->output);
	unlink(temporary);
	return -1;
}

static int check_output(const struct ws_import_request *request, struct ws_err *err)
{
	struct stat st;

	if (lstat(request->output, &st) < 0)
		return 0;
	if (S_ISDIR(st.st_mode))
		return ws_fail(err, "cannot write %s: it is a directory", request->output);
	if (!request->overwrite)
		return ws_fail(err, "%s exists already; give --force-overwrite to replace it",
			       request->output);
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return ws_fail(err, "cannot write %s: it is not a regular file", request->output);
	return 0;
}

static int import_once(const struct ws_import_request *request, struct ws_into *into,
		       const char *temporary, struct ws_err *err)
{
	struct ws_writer_opts opts = {
		.no_journal = true, .overwrite = true, .segment_ns = UINT64_MAX};

	into->writer = ws_writer_create(temporary, &opts, err);
	return into->writer ? import_all(request, into, err) : -1;
}

int ws_import(const struct ws_import_request *request, unsigned long long *rows, struct ws_err *err)
{
	const struct ws_into fresh = {.first = UINT64_MAX,
				      .file_count = (uint32_t)request->count,
				      .quiet = request->quiet,
				      .progress = request->progress && isatty(2)};
	struct ws_into into = fresh;
	char *temporary;
	int rc, litter;

	if (check_output(request, err) < 0)
		return -1;
	temporary = ws_format("%s.%ld.tmp", request->output, (long)getpid());
	litter = ws_cleanup_path(temporary, false);
	rc = import_once(request, &into, temporary, err);
	while (!rc &&
	       into.again) { /* at most twice for each file: what was learned is known then */
		struct ws_into known = {
			.shuffled = into.shuffled, .least = into.least, .told = into.file};

		ws_writer_discard(into.writer);
		ws_into_free(&into);
		into = fresh;
		into.shuffled = known.shuffled;
		into.least = known.least;
		into.told = known.told;
		rc = import_once(request, &into, temporary, err);
	}
	if (rc < 0 && into.writer)
		ws_writer_discard(into.writer);
	else if (!rc && (rc = ws_writer_close(into.writer, err)) < 0)
		unlink(temporary);
	else if (!rc)
		rc = place(temporary, request, err);
	ws_cleanup_forget(litter);
	if (rows)
		*rows = into.rows;
	ws_into_free(&into);
	ws_map_free(&into.least);
	free(temporary);
	return rc;
}
