/*
 * import.c - recognising the format of a file, and making one report from one or several files.
 *
 * The report is written under a temporary name beside its final place and renamed once it is
 * complete. It needs no journal: a report that is lost can be imported again.
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

enum { HEAD = 64 << 10 }; /* bytes read to recognise a format */

/* ---- formats ---- */

/* The text after a byte order mark and any blanks. */
static const char *skip_blanks(const char *at, const char *end)
{
	if (end - at >= 3 && !memcmp(at, "\xef\xbb\xbf", 3))
		at += 3;
	while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
		at++;
	return at;
}

/* A protobuf Trace consists of TracePackets: the tag 0x0a, a length, and the packet's fields. */
static bool is_perfetto(const unsigned char *bytes, size_t count)
{
	uint64_t length = 0;
	size_t at = 1;

	if (count < 4 || bytes[0] != 0x0a)
		return false;
	for (int shift = 0; at < count && shift < 35; shift += 7) {
		length |= (uint64_t)(bytes[at] & 0x7f) << shift;
		if (!(bytes[at++] & 0x80))
			break;
	}
	if (at >= count || length < 2)
		return false;
	/* The tag of a packet's first field: wire type 0, 1, 2 or 5 and a field number. */
	return (bytes[at] & 7) <= 5 && (bytes[at] & 7) != 3 && (bytes[at] & 7) != 4 &&
	       bytes[at] >> 3;
}

/* Where the line at `line` ends: at its newline, or at `end`. */
static const char *find_line_end(const char *line, const char *end)
{
	const char *newline = memchr(line, '\n', (size_t)(end - line));

	return newline ? newline : end;
}

/* "comm pid[/tid] [cpu] seconds.micros:" in one of the first lines that are not comments. */
static bool is_perf_script(const char *at, const char *end)
{
	for (int lines = 0; at < end && lines < 50; lines++) {
		const char *line = at, *stop = find_line_end(at, end);
		bool digits = false, dot = false;

		at = stop + (stop < end);
		if (*line == '#' || line == stop || *line == '\t')
			continue;
		for (const char *p = line; p < stop; p++) {
			if (*p >= '0' && *p <= '9') {
				digits = true;
			} else if (*p == '.' && digits) {
				dot = true;
			} else if (*p == ':' && dot && digits && p[-1] >= '0' && p[-1] <= '9') {
				return true;
			} else {
				digits = dot = false;
				if ((unsigned char)*p < 0x20 && *p != '\t' && *p != '\r')
					return false;
			}
		}
	}
	return false;
}

/* A .nsys-rep begins with a line of text that names its kind; older ones are a QuadD container. */
static bool is_nsys_rep(const char *head, size_t length)
{
	return head && length > 64 &&
	       (memmem(head, ws_min(length, 4096), "QuadD", 5) ||
		memmem(head, ws_min(length, 4096), "NVIDIA Tegra Profiler", 21) ||
		memmem(head, ws_min(length, 4096), "Nsight Systems", 14));
}

/* The output of `ncu --csv`: a line of names, preceded by lines from ncu and the program. */
static bool is_ncu_csv(const char *head, size_t length)
{
	static const char names[] = "\"ID\",\"Process ID\",\"Process Name\",";

	return length && memmem(head, length, names, sizeof(names) - 1);
}

static enum ws_import_format identify_format(const char *buffer, size_t length)
{
	const char *at = skip_blanks(buffer, buffer + length);

	if (length >= 8 && !memcmp(buffer, WS_REPORT_MAGIC, 8))
		return WS_FORMAT_REPORT;
	if (length >= 16 && !memcmp(buffer, "SQLite format 3", 16))
		return WS_FORMAT_SQLITE;
	if (at < buffer + length && (*at == '{' || *at == '['))
		return WS_FORMAT_JSON;
	if (is_ncu_csv(buffer, length))
		return WS_FORMAT_NCU_CSV;
	if (is_nsys_rep(buffer, length))
		return WS_FORMAT_NSYS_REP;
	if (is_perfetto((const unsigned char *)buffer, length))
		return WS_FORMAT_PERFETTO;
	if (is_perf_script(buffer, buffer + length))
		return WS_FORMAT_PERF_SCRIPT;
	return WS_FORMAT_UNKNOWN;
}

enum ws_import_format ws_import_format(const char *path, struct ws_err *err)
{
	struct ws_input *source = ws_open_input(path, err);
	char *head;
	size_t length = 0, got;
	enum ws_import_format format = WS_FORMAT_UNKNOWN;

	if (!source)
		return format;
	head = ws_malloc(HEAD);
	while (length < HEAD && (got = ws_read_input(source, head + length, HEAD - length)))
		length += got;
	if (!length)
		ws_fail(err, "%s is empty", path);
	else
		format = identify_format(head, length);
	if (length >= 8 && !format && !memcmp(head, "PERFILE2", 8))
		ws_fail(err,
			"%s is a recording of perf, which only perf reads: run 'perf script -i %s "
			"> %s.txt' and import that text",
			path, path, path);
	else if (length && !format)
		ws_fail(err,
			"%s is no report and no trace that is known: an SQLite export of Nsight "
			"Systems, a JSON trace of PyTorch or "
			"Chrome (plain or .gz), a Perfetto trace, the text of perf script, or what "
			"ncu --csv --page raw prints (of a .ncu-rep: with --import FILE.ncu-rep)",
			path);
	free(head);
	ws_close_input(source);
	return format;
}

/* ---- the real time that a file's times count from ---- */

/* The value of baseTimeNanoseconds in a piece of a trace; 0 when it is not there. */
static uint64_t parse_base_time(const char *from, size_t length)
{
	static const char name[] = "\"baseTimeNanoseconds\"";
	const char *at = memmem(from, length, name, sizeof(name) - 1), *end = from + length;
	uint64_t base = 0;

	if (!at)
		return 0;
	for (at += sizeof(name) - 1; at < end && (*at == ':' || *at == ' '); at++)
		;
	for (; at < end && *at >= '0' && *at <= '9' && base < UINT64_MAX / 100; at++)
		base = base * 10 + (uint64_t)(*at - '0');
	return base;
}

/*
 * baseTimeNanoseconds of a trace, which is at its beginning or end; 0 when it has none. Only the
 * alignment of several files needs it before the trace is read; a compressed file is then
 * decompressed twice.
 */
static uint64_t find_base_time(const char *path)
{
	struct ws_input *source = ws_open_input(path, NULL);
	char *buffer = ws_malloc(2 * HEAD);
	size_t length = 0, got;
	uint64_t base = 0;
	bool first = true;

	while (source && (got = ws_read_input(source, buffer + length, 2 * HEAD - length))) {
		length += got;
		if (length < 2 * HEAD)
			continue;
		if (first)
			base = parse_base_time(buffer, length);
		if (base)
			break;
		first = false;
		memmove(buffer, buffer + HEAD, HEAD);
		length = HEAD;
	}
	if (!base)
		base = parse_base_time(buffer, length);
	free(buffer);
	ws_close_input(source);
	return base;
}

/* ---- files ---- */

static int import_stream(struct ws_importer *importer, const char *path,
			 enum ws_import_format format, struct ws_err *err)
{
	struct ws_input *source;
	uint64_t base = 0;
	int rc;

	if (format == WS_FORMAT_JSON && importer->file_count > 1)
		base = find_base_time(path);
	source = ws_open_input(path, err);

	if (!source)
		return -1;
	if (format == WS_FORMAT_JSON)
		rc = ws_import_trace(importer, source, base);
	else if (format == WS_FORMAT_PERFETTO)
		rc = ws_import_perfetto(importer, source);
	else if (format == WS_FORMAT_NCU_CSV)
		rc = ws_import_ncu_csv(importer, source);
	else
		rc = ws_import_perf_script(importer, source);
	ws_close_input(source);
	return rc;
}

static int import_nsys_rep(struct ws_importer *importer, const char *path)
{
	char *exported = NULL;
	int litter[2] = {-1, -1}, rc = ws_export_nsys_rep(importer, path, &exported, litter);

	if (!rc)
		rc = ws_import_sqlite(importer, exported);
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

static int import_file(struct ws_importer *importer, const char *path, struct ws_err *err)
{
	enum ws_import_format format = ws_import_format(path, err);
	int rc;

	if (format == WS_FORMAT_UNKNOWN)
		return -1;
	if (format == WS_FORMAT_REPORT)
		return ws_fail(err, "%s is a report already; only other tools' files are imported",
			       path);
	ws_importer_begin_file(importer, path);
	err->msg[0] = 0;
	if (format == WS_FORMAT_SQLITE)
		rc = ws_import_sqlite(importer, path);
	else if (format == WS_FORMAT_NSYS_REP)
		rc = import_nsys_rep(importer, path);
	else
		rc = import_stream(importer, path, format, err);
	ws_importer_end_file(importer);
	if (rc < 0 && importer->stopped)
		*err = importer->problem;
	if (!rc && ws_writer_error(importer->writer, err))
		rc = -1;
	return rc;
}

/* A trace that does not say when it was recorded counts as recorded from its first event to its
 * last. */
static void put_collection(struct ws_importer *importer)
{
	struct ws_row_collection *row;

	if (importer->has_collection || importer->earliest == UINT64_MAX)
		return;
	row = ws_importer_add_row(importer, WS_TABLE_collection);
	*row = (struct ws_row_collection){.start = importer->earliest, .end = importer->latest};
}

/* What the clock of each PyTorch trace showed when the session's time was 0: see query/doubles.h.
 */
static void put_clocks(struct ws_importer *importer)
{
	if (importer->has_collection || !importer->clocks.count)
		return;
	for (uint32_t id = 1; id <= importer->process_count; id++) {
		char name[40], value[24];
		bool found;
		uint64_t base = ws_map_get(&importer->clocks, id, &found);

		if (!found)
			continue;
		snprintf(name, sizeof(name), WS_DOUBLES_FACT "%" PRIu32, id);
		ws_importer_add_fact(importer, name, value,
				     (size_t)snprintf(value, sizeof(value), "%" PRId64,
						      (int64_t)(importer->earliest - base)));
	}
}

static int import_files(const struct ws_import_request *request, struct ws_importer *importer,
			struct ws_err *err)
{
	for (size_t i = 0; i < request->count; i++) {
		importer->file = (uint32_t)i;
		if (import_file(importer, request->files[i], err) < 0)
			return -1;
		if (importer->import_again)
			return 0;
	}
	put_collection(importer);
	put_clocks(importer);
	return 0;
}

/* ---- the report ---- */

/* Give the complete report its name; it is deleted when that fails. */
static int move_into_place(const char *temporary, const struct ws_import_request *request,
			   struct ws_err *err)
{
	int rc;

	if (request->overwrite) {
		rc = rename(temporary, request->output);
	} else {
		rc = renameat2(AT_FDCWD, temporary, AT_FDCWD, request->output, RENAME_NOREPLACE);
		if (rc &&
		    (errno == EINVAL || errno == ENOSYS)) { /* the file system has no such call */
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

static int import_to_temporary(const struct ws_import_request *request,
			       struct ws_importer *importer, const char *temporary,
			       struct ws_err *err)
{
	struct ws_writer_opts opts = {
		.no_journal = true, .overwrite = true, .segment_ns = UINT64_MAX};

	importer->writer = ws_writer_create(temporary, &opts, err);
	if (!importer->writer)
		return -1;
	return import_files(request, importer, err);
}

int ws_import_files(const struct ws_import_request *request, unsigned long long *rows,
		    struct ws_err *err)
{
	const struct ws_importer fresh = {.earliest = UINT64_MAX,
					  .file_count = (uint32_t)request->count,
					  .quiet = request->quiet,
					  .progress = request->progress && isatty(2)};
	struct ws_importer importer = fresh;
	char *temporary;
	int rc, litter;

	if (check_output(request, err) < 0)
		return -1;
	temporary = ws_format("%s.%ld.tmp", request->output, (long)getpid());
	litter = ws_cleanup_add_path(temporary, false);
	rc = import_to_temporary(request, &importer, temporary, err);
	/* At most twice for each file: the second pass knows what made it necessary. */
	while (!rc && importer.import_again) {
		struct ws_importer known = {.halves_shuffled = importer.halves_shuffled,
					    .early_times = importer.early_times,
					    .reported_files = importer.file};

		ws_writer_discard(importer.writer);
		ws_importer_free(&importer);
		importer = fresh;
		importer.halves_shuffled = known.halves_shuffled;
		importer.early_times = known.early_times;
		importer.reported_files = known.reported_files;
		rc = import_to_temporary(request, &importer, temporary, err);
	}
	if (rc < 0 && importer.writer)
		ws_writer_discard(importer.writer);
	else if (!rc && (rc = ws_writer_close(importer.writer, err)) < 0)
		unlink(temporary);
	else if (!rc)
		rc = move_into_place(temporary, request, err);
	ws_cleanup_forget(litter);
	if (rows)
		*rows = importer.rows;
	ws_importer_free(&importer);
	ws_map_free(&importer.early_times);
	free(temporary);
	return rc;
}
