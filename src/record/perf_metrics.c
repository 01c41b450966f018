/*
 * perf_metrics.c - metrics computed from processor events, on every CPU over time, as
 * --cpu-core-metrics takes them.
 *
 * The two events of a metric are one group: the kernel counts both or, while others share the
 * counters, neither, so that their ratio is right whatever part of the time they were counted.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/choose.h"
#include "record/perf_private.h"

/* The events are names of perf_events.c; without `below`, the metric is a rate a second. */
static const struct core_metric {
	const char *name, *title, *unit, *event, *below;
	double scale;
	const char *doc;
} metrics[] = {
	{"ipc", "Instructions per cycle", "", "instructions", "cpu-cycles", 1,
	 "Instructions retired in a cycle of the core"},
	{"llc-miss-rate", "Last-level cache misses", "%", "cache-misses", "cache-references", 100,
	 "Accesses to the last level of cache that missed it"},
	{"llc-mpki", "Last-level cache misses per 1000 instructions", "", "cache-misses",
	 "instructions", 1000, "Misses of the last level of cache for 1000 instructions"},
	{"branch-miss-rate", "Branch misses", "%", "branch-misses", "branch-instructions", 100,
	 "Branches that were predicted wrongly"},
	{"branch-mpki", "Branch misses per 1000 instructions", "", "branch-misses", "instructions",
	 1000, "Branches that were predicted wrongly, for 1000 instructions"},
	{"frontend-stalls", "Frontend stalls", "%", "stalled-cycles-frontend", "cpu-cycles", 100,
	 "Cycles in which no instruction was issued"},
	{"backend-stalls", "Backend stalls", "%", "stalled-cycles-backend", "cpu-cycles", 100,
	 "Cycles in which none was retired"},
	{"llc-miss-bandwidth", "Bandwidth of last-level cache misses", "B/s", "cache-misses", NULL,
	 64, "Lines of 64 bytes that misses fetch from memory, without what is prefetched"},
};

struct ws_perf_metric {
	const struct core_metric *metric;
	uint32_t row;	   /* id in the table counter */
	int leader, other; /* of `below`, and of `event`; without `below` the leader has `event` */
	uint64_t last[2], last_time;
	bool seen;
};

static const struct core_metric *find_metric(const char *word, size_t length)
{
	for (size_t i = 0; i < WS_COUNT(metrics); i++)
		if (strlen(metrics[i].name) == length && !memcmp(metrics[i].name, word, length))
			return &metrics[i];
	return NULL;
}

/* The first event of a metric that this machine lacks; NULL when it has them. */
static const char *find_lacking_event(const struct core_metric *metric)
{
	const char *const events[] = {metric->event, metric->below};

	for (size_t i = 0; i < WS_COUNT(events); i++) {
		const struct ws_perf_name *name;
		struct perf_event_attr attr;
		int error;

		if (!events[i])
			continue;
		name = ws_perf_find_event(events[i], strlen(events[i]), true);
		ws_perf_attr(&attr, name->type, name->config, true);
		error = ws_perf_try(&attr, 0, -1);
		if (error == ENOENT || error == ENODEV || error == EOPNOTSUPP)
			return events[i];
	}
	return NULL;
}

void ws_perf_list_metrics(struct ws_text *text)
{
	ws_text_puts(text, "Metrics computed from events of the processor, on every CPU.\n");
	for (size_t i = 0; i < WS_COUNT(metrics); i++) {
		const char *lacking = find_lacking_event(&metrics[i]);

		ws_text_printf(text, "  %-20s %s", metrics[i].name, metrics[i].doc);
		if (lacking)
			ws_text_printf(text, " (this machine does not count %s)", lacking);
		ws_text_puts(text, "\n");
	}
}

int ws_perf_check_metrics(const char *list, struct ws_err *err)
{
	static const char option[] = "cpu-core-metrics";

	if (list && !*list)
		return ws_fail(err, "--%s: no metric is named; --%s=help lists them", option,
			       option);
	for (const char *at = list; at && *at;) {
		size_t length = strcspn(at, ",");
		const struct core_metric *metric = find_metric(at, length);
		const char *lacking = NULL;

		if (!metric)
			return ws_fail(err, "--%s: '%.*s' is no metric; --%s=help lists them",
				       option, (int)length, at, option);
		lacking = find_lacking_event(metric);
		if (lacking)
			return ws_fail(err,
				       "--%s: %s cannot be computed: this machine does not count "
				       "%s (virtual machines often have no counters)",
				       option, metric->name, lacking);
		at += length + (at[length] == ',');
	}
	return 0;
}

/* ---- counting ---- */

static int open_event(const char *event, uint32_t cpu, int leader)
{
	const struct ws_perf_name *name = ws_perf_find_event(event, strlen(event), true);
	struct perf_event_attr attr = {.type = name->type,
				       .size = sizeof(attr),
				       .config = name->config,
				       .read_format = PERF_FORMAT_GROUP};

	return (int)syscall(SYS_perf_event_open, &attr, -1, (int)cpu, leader, PERF_FLAG_FD_CLOEXEC);
}

static void close_metric(struct ws_perf_metric *metric)
{
	if (metric->other >= 0)
		close(metric->other);
	if (metric->leader >= 0)
		close(metric->leader);
}

/* 0, or the errno with which the kernel refused. */
static int open_metric(const struct core_metric *known, uint32_t cpu, struct ws_perf_metric *metric)
{
	int error = 0;

	*metric = (struct ws_perf_metric){.metric = known, .leader = -1, .other = -1};
	metric->leader = open_event(ws_text_or(known->below, known->event), cpu, -1);
	if (metric->leader < 0)
		return errno;
	if (!known->below)
		return 0;
	metric->other = open_event(known->event, cpu, metric->leader);
	if (metric->other >= 0)
		return 0;
	error = errno;
	close_metric(metric);
	return error;
}

static void add_metric(struct ws_perf *perf, const struct core_metric *known, uint32_t cpu)
{
	struct ws_perf_metric metric;
	int error = open_metric(known, cpu, &metric);
	struct ws_row_counter row = {.cpu = cpu, .device = WS_NO_U32};
	char text[300];

	if (error) {
		snprintf(text, sizeof(text),
			 "--cpu-core-metrics: %s cannot be counted on CPU %u: %s.", known->name,
			 cpu, strerror(error));
		ws_sink_diagnostic(perf->main, WS_WARNING, "perf", 0, ws_read_raw_ns(), text);
		return;
	}
	metric.row = row.id = ++perf->main->counters;
	snprintf(text, sizeof(text), "%s, core %u", known->title, cpu);
	row.group = ws_sink_string(perf->main, "CPU metrics");
	row.name = ws_sink_string(perf->main, text);
	row.unit = ws_sink_string(perf->main, known->unit);
	ws_writer_add(perf->main->writer, WS_TABLE_counter, &row);
	ws_grow(perf->metrics, perf->metrics_cap, perf->metrics_n + 1);
	perf->metrics[perf->metrics_n++] = metric;
}

void ws_perf_open_metrics(struct ws_perf *perf, const char *list)
{
	size_t count;
	uint32_t *cpus = ws_perf_cpus(&count);

	for (const char *at = list; at && *at;) {
		size_t length = strcspn(at, ",");
		const struct core_metric *known = find_metric(at, length);

		for (size_t i = 0; known && i < count; i++)
			add_metric(perf, known, cpus[i]);
		at += length + (at[length] == ',');
	}
	free(cpus);
}

/* Write a value from what both events have counted since the last reading, unless that is
 * nothing. */
static void put_value(struct ws_perf *perf, struct ws_perf_metric *metric,
		      const uint64_t counted[2], uint64_t now)
{
	struct ws_row_counter_value row = {.start = metric->last_time,
					   .span = now - metric->last_time,
					   .counter = metric->row};
	double below = (double)(counted[0] - metric->last[0]),
	       events = (double)(counted[1] - metric->last[1]);

	if (!metric->metric->below) {
		events = below;
		below = (double)row.span * 1e-9;
	}
	if (below <= 0)
		return;
	row.value = events / below * metric->metric->scale;
	ws_writer_add(perf->main->writer, WS_TABLE_counter_value, &row);
}

void ws_perf_read_metrics(struct ws_perf *perf)
{
	for (size_t i = 0; i < perf->metrics_n; i++) {
		struct ws_perf_metric *metric = &perf->metrics[i];
		uint64_t read_values[3] = {0}; /* how many, and the values of the group */
		uint64_t now = ws_read_raw_ns();

		if (read(metric->leader, read_values, sizeof(read_values)) < 16)
			continue;
		if (metric->seen && now > metric->last_time)
			put_value(perf, metric, read_values + 1, now);
		metric->seen = true;
		metric->last_time = now;
		memcpy(metric->last, read_values + 1, sizeof(metric->last));
	}
}

void ws_perf_close_metrics(struct ws_perf *perf)
{
	for (size_t i = 0; i < perf->metrics_n; i++)
		close_metric(&perf->metrics[i]);
	free(perf->metrics);
}
