/*
 * perf_count.c - --event-sample: counters of whole CPUs that are read at times instead of sampled.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "record/perf_private.h"

static void open_counter(struct ws_perf *perf, const struct ws_perf_name *name, uint32_t cpu)
{
	struct perf_event_attr attr = {
		.type = name->type, .size = sizeof(attr), .config = name->config};
	int fd = (int)syscall(SYS_perf_event_open, &attr, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);
	struct ws_row_counter row = {.cpu = cpu};
	char text[300];

	if (fd < 0) {
		snprintf(text, sizeof(text),
			 "--event-sample: %s cannot be counted on whole CPUs: %s.", name->name,
			 strerror(errno));
		ws_perf_say(perf, WS_WARNING, text);
		return;
	}
	ws_grow(perf->counters, perf->counters_cap, perf->counters_n + 1);
	row.id = ++perf->main->counters;
	perf->counters[perf->counters_n++] = (struct ws_perf_counter){.fd = fd, .row = row.id};
	row.device = WS_NO_U32;
	row.group = ws_sink_string(perf->main, "CPU events");
	row.name = ws_sink_string(perf->main, name->name);
	row.unit = ws_sink_string(perf->main, "1/s");
	ws_writer_add(perf->main->writer, WS_TABLE_counter, &row);
}

void ws_perf_open_counters(struct ws_perf *perf, const char *list, bool core)
{
	size_t cpus_n;
	uint32_t *cpus = ws_perf_cpus(&cpus_n);

	for (const char *at = list; at && *at;) {
		size_t n = strcspn(at, ",");
		const struct ws_perf_name *name = ws_perf_find_event(at, n, core);

		for (size_t i = 0; name && i < cpus_n; i++)
			open_counter(perf, name, cpus[i]);
		at += n + (at[n] == ',');
	}
	free(cpus);
}

void ws_perf_count(struct ws_perf *perf, uint64_t now)
{
	if ((!perf->counters_n && !perf->metrics_n) || !perf->from ||
	    now - perf->last_count < perf->options.count_ns)
		return;
	perf->last_count = now;
	ws_perf_read_metrics(perf);
	for (size_t i = 0; i < perf->counters_n; i++) {
		struct ws_perf_counter *counter = &perf->counters[i];
		struct ws_row_counter_value row = {.start = counter->last_time,
						   .counter = counter->row};
		uint64_t v;

		now = ws_read_raw_ns();
		if (read(counter->fd, &v, sizeof(v)) != sizeof(v))
			continue;
		if (counter->seen && now > counter->last_time) {
			row.value = (double)(v - counter->last) * 1e9 /
				    (double)(now - counter->last_time);
			ws_writer_add(perf->main->writer, WS_TABLE_counter_value, &row);
		}
		counter->seen = true;
		counter->last = v;
		counter->last_time = now;
	}
}
