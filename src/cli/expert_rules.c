/*
 * expert_rules.c - see expert_rules.h.
 *
 * A rule is a query over the exported tables. Calls and work are joined by correlation id and
 * process. Arguments, such as rows=10, are the query's parameters.
 */
#include "cli/expert_rules.h"

#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "cli/cli.h"
#include "stats/stats.h"
#include "stats/user.h"

#define PID(column) "(" column " >> 24) & 0xffffff AS PID"
#define IN_WINDOW(table) "(" table ".start BETWEEN :start AND :end)"
#define CALLS                                                                   \
	"JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS call ON call.correlationId = "     \
	"work.correlationId AND (call.globalTid & ~0xffffff) = work.globalPid " \
	"JOIN StringIds AS name ON name.id = call.nameId "
#define LONGEST " ORDER BY work.end - work.start DESC LIMIT :rows"
#define COPY_COLUMNS                                                                             \
	"SELECT work.end - work.start AS \"Duration:dur_ns\", work.start AS "                    \
	"\"Start:ts_ns\", source.label AS \"Src Kind\", target.label AS \"Dst Kind\", "          \
	"work.bytes AS \"Bytes:mem_B\", " PID(                                                   \
		"work.globalPid") ", work.deviceId AS "                                          \
				  "\"Device ID\", work.contextId AS \"Context ID\", "            \
				  "work.greenContextId AS \"Green "                              \
				  "Context ID\", work.streamId AS \"Stream ID\", name.value AS " \
				  "\"API Name\" "                                                \
				  "FROM CUPTI_ACTIVITY_KIND_MEMCPY AS work " CALLS               \
				  "LEFT JOIN ENUM_CUDA_MEM_KIND AS source ON source.id = "       \
				  "work.srcKind "                                                \
				  "LEFT JOIN ENUM_CUDA_MEM_KIND AS target ON target.id = "       \
				  "work.dstKind "
/* All work on GPUs within the window. */
#define WORK                                                                                \
	"work AS (SELECT start, end, deviceId, contextId, globalPid FROM "                  \
	"CUPTI_ACTIVITY_KIND_KERNEL UNION ALL SELECT start, end, deviceId, contextId, "     \
	"globalPid FROM CUPTI_ACTIVITY_KIND_MEMCPY UNION ALL SELECT start, end, deviceId, " \
	"contextId, globalPid FROM CUPTI_ACTIVITY_KIND_MEMSET), wanted AS (SELECT * FROM "  \
	"work WHERE " IN_WINDOW("work") ") "

struct expert_rule {
	const char *name, *title, *about, *sql;
	const char *parameters[4]; /* ended by NULL */
};

static const struct expert_rule expert_rules[] = {
	{"cuda_memcpy_async",
	 "Asynchronous copies with pageable memory",
	 "Copies by cudaMemcpy...Async whose memory on the host is pageable: they wait as "
	 "synchronous ones do. Use pinned memory. :rows=50",
	 COPY_COLUMNS "WHERE name.value LIKE 'cudaMemcpy%Async%' AND (work.srcKind = 0 OR "
		      "work.dstKind = 0) AND " IN_WINDOW("work") LONGEST,
	 {"rows=50", NULL}},
	{"cuda_memcpy_sync",
	 "Synchronous copies",
	 "Copies by cudaMemcpy... that block the calling thread, but for those to the GPU of "
	 "64,000 bytes or less and those within a GPU. :rows=50",
	 COPY_COLUMNS
	 "WHERE name.value LIKE 'cudaMemcpy%' AND name.value NOT LIKE '%Async%' AND "
	 "NOT (work.copyKind = 1 AND work.bytes <= 64000) AND work.copyKind <> 8 AND " IN_WINDOW(
		 "work") LONGEST,
	 {"rows=50", NULL}},
	{"cuda_memset_sync",
	 "Synchronous memsets",
	 "Calls of cudaMemset... that are not asynchronous, on pinned or unified memory, which "
	 "block the calling thread. :rows=50",
	 "SELECT work.end - work.start AS \"Duration:dur_ns\", work.start AS \"Start:ts_ns\", "
	 "kind.label AS \"Memory Kind\", work.bytes AS \"Bytes:mem_B\", " PID(
		 "work.globalPid") ", work.deviceId AS \"Device ID\", work.contextId AS \"Context "
				   "ID\", "
				   "work.greenContextId AS \"Green Context ID\", work.streamId AS "
				   "\"Stream ID\", "
				   "name.value AS \"API Name\" FROM CUPTI_ACTIVITY_KIND_MEMSET AS "
				   "work " CALLS "LEFT JOIN ENUM_CUDA_MEM_KIND AS kind ON kind.id "
				   "= work.memKind WHERE name.value LIKE "
				   "'cudaMemset%' AND name.value NOT LIKE '%Async%' AND "
				   "work.memKind IN (1, 4) AND " IN_WINDOW("work") LONGEST,
	 {"rows=50", NULL}},
	{"cuda_api_sync",
	 "Calls that wait for the GPU",
	 "Calls of cudaDeviceSynchronize and cudaStreamSynchronize, which block the calling thread "
	 "until the GPU is done. :rows=50",
	 "SELECT work.end - work.start AS \"Duration:dur_ns\", work.start AS \"Start:ts_ns\", " PID(
		 "work.globalTid") ", work.globalTid & 0xffffff AS TID, name.value AS \"API Name\" "
				   "FROM CUPTI_ACTIVITY_KIND_RUNTIME AS work JOIN StringIds AS "
				   "name ON name.id = "
				   "work.nameId WHERE (name.value LIKE 'cudaDeviceSynchronize%' OR "
				   "name.value LIKE "
				   "'cudaStreamSynchronize%') AND " IN_WINDOW("work") LONGEST,
	 {"rows=50", NULL}},
	{"gpu_gaps",
	 "Gaps of a GPU",
	 "Times of :gap=500 milliseconds or more between two pieces of work of a process on a GPU. "
	 ":rows=50",
	 "WITH " WORK ", seen AS (SELECT *, max(end) OVER (PARTITION BY globalPid, deviceId ORDER "
	 "BY start, end ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS until FROM wanted) "
	 "SELECT row_number() OVER (ORDER BY start - until DESC) AS \"Row#\", start - until AS "
	 "\"Duration:dur_ns\", until AS \"Start:ts_ns\", " PID(
		 "globalPid") ", deviceId AS \"Device ID\", contextId AS \"Context ID\" FROM seen "
			      "WHERE start - until "
			      ">= :gap * 1000000 ORDER BY start - until DESC LIMIT :rows",
	 {"gap=500", "rows=50", NULL}},
	{"gpu_time_util",
	 "Stretches of low GPU utilisation",
	 "The time from the first to the last work of a process on a GPU, cut into :chunks=30 "
	 "equal parts: those used less than :threshold=50 per cent, neighbours put together. Work "
	 "of several streams is added up, so that more than 100 % is possible. :rows=50",
	 "WITH RECURSIVE " WORK ", span AS (SELECT globalPid, deviceId, min(contextId) AS "
	 "contextId, min(start) AS first, max(end) AS last FROM wanted GROUP BY globalPid, "
	 "deviceId), number(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM number WHERE i + 1 < "
	 ":chunks), chunk AS (SELECT globalPid, deviceId, contextId, i, first + (last - first) * i "
	 "/ :chunks AS since, first + (last - first) * (i + 1) / :chunks AS until FROM span, "
	 "number), used AS (SELECT chunk.*, (SELECT sum(min(wanted.end, chunk.until) - "
	 "max(wanted.start, chunk.since)) FROM wanted WHERE wanted.globalPid = chunk.globalPid AND "
	 "wanted.deviceId = chunk.deviceId AND wanted.end > chunk.since AND wanted.start < "
	 "chunk.until) AS busy FROM chunk), low AS (SELECT *, i - row_number() OVER (PARTITION BY "
	 "globalPid, deviceId ORDER BY i) AS island FROM used WHERE coalesce(busy, 0) * 100.0 < "
	 ":threshold * (until - since)) SELECT row_number() OVER (ORDER BY sum(until - since) "
	 "DESC) AS \"Row#\", sum(coalesce(busy, 0)) * 100.0 / sum(until - since) AS "
	 "\"In-Use:ratio_%\", "
	 "sum(until - since) AS \"Duration:dur_ns\", min(since) AS \"Start:ts_ns\", " PID(
		 "globalPid") ", deviceId AS \"Device ID\", contextId AS \"Context ID\" FROM low "
			      "GROUP BY globalPid, "
			      "deviceId, island ORDER BY sum(until - since) DESC LIMIT :rows",
	 {"chunks=30", "threshold=50", "rows=50", NULL}},
};

static const struct expert_rule *find_expert_rule(const char *spec)
{
	size_t length = strcspn(spec, ":");

	for (size_t i = 0; i < WS_COUNT(expert_rules); i++)
		if (strlen(expert_rules[i].name) == length &&
		    !memcmp(expert_rules[i].name, spec, length))
			return &expert_rules[i];
	return NULL;
}

bool ws_is_expert_rule(const char *spec)
{
	return find_expert_rule(spec) != NULL;
}

void ws_list_expert_rules(FILE *file)
{
	for (size_t i = 0; i < WS_COUNT(expert_rules); i++)
		fprintf(file, "%-24s %s (a table)\n", expert_rules[i].name, expert_rules[i].title);
}

bool ws_explain_expert_rule(const char *name)
{
	const struct expert_rule *rule = find_expert_rule(name);

	if (rule)
		printf("%s: %s\n\n%s\n", rule->name, rule->title, rule->about);
	return rule != NULL;
}

static void add_rule(struct ws_user_reports *reports, const struct expert_rule *rule)
{
	struct ws_user_report *report;

	ws_grow(reports->reports, reports->capacity, reports->count + 1);
	report = &reports->reports[reports->count++];
	*report = (struct ws_user_report){.name = ws_strdup(rule->name),
					  .title = ws_strdup(rule->title),
					  .about = ws_strdup(rule->about),
					  .sql = ws_strdup(rule->sql)};
	for (size_t i = 0; rule->parameters[i]; i++) {
		ws_grow(report->parameters, report->parameter_capacity,
			report->parameter_count + 1);
		report->parameters[report->parameter_count++] = ws_strdup(rule->parameters[i]);
	}
}

int ws_make_expert_rules(const char *path, const char *const *specs, size_t count,
			 const char *format, const char *output, bool overwrite)
{
	struct ws_user_reports user = {0};
	struct ws_stats_request request = {.reports = specs,
					   .report_count = count,
					   .formats = &format,
					   .format_count = format != NULL,
					   .outputs = &output,
					   .output_count = output != NULL,
					   .user = &user,
					   .overwrite = overwrite};
	struct ws_err err;
	int status = WS_EXIT_OK;

	for (size_t i = 0; i < WS_COUNT(expert_rules); i++)
		add_rule(&user, &expert_rules[i]);
	if (ws_check_stats_request(&request, &err)) {
		ws_say("analyze: %s", err.msg);
		status = WS_EXIT_USAGE;
	} else if (ws_make_file_stats(path, 0, &request)) {
		status = WS_EXIT_FAIL;
	}
	ws_user_reports_free(&user);
	return status;
}
