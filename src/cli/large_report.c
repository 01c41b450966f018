/*
 * large_report.c - what `profile` says about a report that has become large: what takes the space,
 * and which options would have kept it small.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/choose.h"
#include "cli/record_options.h"
#include "cli/text.h"
#include "query/query.h"

#define LARGE_BYTES UINT64_C(500000000)

/* What tables are about, and what records less of it. */
static const struct kind {
	const char *what, *advice;
	enum ws_table tables[4]; /* meta ends the list */
} kinds[] = {
	{"calls of the OS runtime",
	 "a higher --osrt-threshold (100us), or a --trace without osrt, makes that less",
	 {WS_TABLE_osrt}},
	{"CPU samples and their stacks",
	 "--sampling-frequency=200 or --samples-per-backtrace=5 makes that less",
	 {WS_TABLE_sample, WS_TABLE_stack, WS_TABLE_frame, WS_TABLE_python_sample}},
	{"context switches",
	 "--sample=none --cpuctxsw=none leaves them out",
	 {WS_TABLE_sched, WS_TABLE_blocked, WS_TABLE_sched_gap}},
	{"NVTX ranges",
	 "--nvtx-domain-include and --nvtx-domain-exclude choose among them",
	 {WS_TABLE_nvtx}},
	{"times of the Python lock",
	 "a --trace without python-gil leaves them out",
	 {WS_TABLE_gil}},
	{"tracepoints", "fewer events of --ftrace make that less", {WS_TABLE_ftrace}},
	{"CUDA calls", "--cuda-api=-NAME leaves some out", {WS_TABLE_cuda_api}},
	{"GPU work",
	 "--cuda-graph-trace=graph records graphs as a whole",
	 {WS_TABLE_cuda_kernel, WS_TABLE_cuda_memcpy, WS_TABLE_cuda_memset}},
	{"GPU memory", "leave --cuda-memory-usage out", {WS_TABLE_cuda_memory, WS_TABLE_cuda_pool}},
};

static uint64_t count_bytes(const struct ws_report *report, const struct kind *kind)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < WS_COUNT(kind->tables) && kind->tables[i] != WS_TABLE_meta; i++)
		bytes += ws_report_table_bytes(report, kind->tables[i]);
	return bytes;
}

static void say_large(const struct ws_report *report, const char *path)
{
	uint64_t all = ws_report_file_size(report), most = 0;
	const struct kind *largest = &kinds[0];

	for (size_t i = 0; i < WS_COUNT(kinds); i++) {
		uint64_t bytes = count_bytes(report, &kinds[i]);

		if (bytes > most)
			largest = &kinds[i];
		most = ws_max(most, bytes);
	}
	ws_say("%s has %.0f MB, %.0f %% of it %s: %s; a part of the run (-y 60 -d 30, or "
	       "--capture-range) is often enough",
	       path, (double)all / 1e6, 100.0 * (double)most / (double)all, largest->what,
	       largest->advice);
}

void ws_say_if_large(const char *path)
{
	const char *test = getenv("WARPSIGHT_LARGE_REPORT"); /* bytes, for tests */
	uint64_t limit = test ? strtoull(test, NULL, 10) : LARGE_BYTES;
	struct ws_report *report;
	struct stat status;
	struct ws_err err;

	if (stat(path, &status) || (uint64_t)status.st_size <= limit)
		return;
	report = ws_report_open_plain(path, &err);
	if (!report)
		return;
	say_large(report, path);
	ws_report_close(report);
}
