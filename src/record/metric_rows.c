/* metric_rows.c - what metrics/ has read of the machine becomes rows of counter and counter_value.
 */
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"
#include "record/proc.h"
#include "record/session.h"

#define PUT_NS 50000000u /* between two looks at what has been read */
#define MOST_PROCESSES 256u

static struct ws_proc *find_process(const struct ws_session *session, int pid)
{
	for (struct ws_proc *proc = session->drain->procs; proc; proc = proc->next)
		if (proc->host_pid == pid && !proc->settled)
			return proc;
	return NULL;
}

static void tell_processes(struct ws_session *session)
{
	int pids[MOST_PROCESSES];
	size_t n = 0;

	for (struct ws_proc *proc = session->drain->procs; proc && n < MOST_PROCESSES;
	     proc = proc->next)
		if (proc->host_pid > 0 && !proc->settled)
			pids[n++] = proc->host_pid;
	ws_metrics_set_processes(session->metrics, pids, n);
}

/* The id of a metric in a report. 0: it does not belong there. */
static uint32_t find_counter(const struct ws_session *session, struct ws_sink *sink, uint32_t index)
{
	const struct ws_metric *metric;
	const struct ws_proc *proc = NULL;
	size_t had = sink->metric_cap;
	struct ws_row_counter row;

	ws_grow(sink->metric_ids, sink->metric_cap, (size_t)index + 1);
	memset(sink->metric_ids + had, 0, (sink->metric_cap - had) * sizeof(*sink->metric_ids));
	if (sink->metric_ids[index])
		return sink->metric_ids[index];
	metric = ws_metrics_describe(session->metrics, index);
	if (metric->pid) {
		proc = find_process(session, metric->pid);
		if (!proc || proc->sink != sink)
			return 0;
	}
	row = (struct ws_row_counter){.id = ++sink->counters,
				      .process = proc ? proc->id : 0,
				      .device = WS_NO_U32,
				      .cpu = metric->cpu >= 0 ? (uint32_t)metric->cpu : WS_NO_U32,
				      .group = ws_sink_string(sink, metric->heading),
				      .name = ws_sink_string(sink, metric->name),
				      .unit = ws_sink_string(sink, metric->unit),
				      .identity = ws_sink_string(sink,
								 ws_text_or(metric->identity, ""))};
	ws_writer_add(sink->writer, WS_TABLE_counter, &row);
	sink->metric_ids[index] = row.id;
	return row.id;
}

/* A value that holds at the beginning of the collection was read before it. */
static void put_value(const struct ws_session *session, struct ws_sink *sink,
		      const struct ws_metric_value *value)
{
	struct ws_row_counter_value row = {.start = value->time, .value = value->value};
	uint64_t end = value->time + value->span;

	if (!session->collect_start || end < session->collect_start ||
	    (session->collect_end && value->time >= session->collect_end))
		return;
	row.start = ws_max(row.start, session->collect_start);
	row.span = value->span ? end - row.start : 0;
	row.counter = find_counter(session, sink, value->metric);
	if (row.counter)
		ws_writer_add(sink->writer, WS_TABLE_counter_value, &row);
}

void ws_session_put_metrics(struct ws_session *session, bool last)
{
	uint64_t now = ws_read_raw_ns();
	struct ws_metric_value *values;
	char *complaint;
	size_t n;

	if (!session->metrics || (!last && now - session->metrics_at < PUT_NS))
		return;
	session->metrics_at = now;
	if (last)
		ws_metrics_settle(session->metrics);
	else
		tell_processes(session);
	values = ws_metrics_take(session->metrics, &n);
	for (struct ws_sink *sink = session->sinks; sink; sink = sink->next)
		for (size_t i = 0; i < n; i++)
			put_value(session, sink, &values[i]);
	free(values);
	complaint = ws_metrics_take_complaint(session->metrics);
	if (complaint)
		ws_sink_diagnostic(session->main, WS_ERROR, "gpu", 0, now, complaint);
	free(complaint);
}
