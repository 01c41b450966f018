/* metric_rows.c - turns what metrics/ has read from the machine into rows of counter and
 * counter_value. */
#include <stdio.h>
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

/* Write how often a GPU is sampled, with the first of its metrics. */
static void put_period(struct ws_sink *sink, const struct ws_metric *metric)
{
	char name[64];

	if (!metric->period || metric->number)
		return;
	snprintf(name, sizeof(name), "gpu_metrics.GPU %d.period", metric->device);
	ws_sink_meta(sink, name, "%llu", (unsigned long long)metric->period);
}

/* Add a row of counter for a metric; 0: it does not belong in the report. */
static uint32_t add_counter(const struct ws_session *session, struct ws_sink *sink,
			    const struct ws_metric *metric)
{
	const struct ws_proc *proc = NULL;
	struct ws_row_counter row;

	if (metric->pid) {
		proc = find_process(session, metric->pid);
		if (!proc || proc->sink != sink)
			return 0;
	}
	put_period(sink, metric);
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
	return row.id;
}

/* The place of the id of a metric in a report. */
static uint32_t *find_id(struct ws_metric_ids *ids, uint32_t index)
{
	size_t had = ids->capacity;

	ws_grow(ids->ids, ids->capacity, (size_t)index + 1);
	memset(ids->ids + had, 0, (ids->capacity - had) * sizeof(*ids->ids));
	return &ids->ids[index];
}

/* The value that holds at the beginning of the collection was read before that. */
static void put_value(const struct ws_session *session, struct ws_sink *sink,
		      const struct ws_metric_value *value, const struct ws_metric *metric,
		      uint32_t *id)
{
	struct ws_row_counter_value row = {.start = value->time, .value = value->value};
	uint64_t end = value->time + value->span;

	if (!session->collect_start || end < session->collect_start ||
	    (session->collect_end && value->time >= session->collect_end))
		return;
	row.start = ws_max(row.start, session->collect_start);
	if (metric->period && session->collect_end)
		end = ws_min(end, session->collect_end);
	row.span = value->span ? end - row.start : 0;
	if (!*id)
		*id = add_counter(session, sink, metric);
	row.counter = *id;
	if (row.counter)
		ws_writer_add(sink->writer, WS_TABLE_counter_value, &row);
}

static void put_machine_metrics(struct ws_session *session, bool last, uint64_t now)
{
	struct ws_metric_value *values;
	char *complaint;
	size_t n;

	if (!session->metrics)
		return;
	if (last)
		ws_metrics_settle(session->metrics);
	else
		tell_processes(session);
	ws_metrics_leave_links_out(session->metrics,
				   ws_gpu_sampling_find_links(session->gpu_metrics));
	values = ws_metrics_take(session->metrics, &n);
	for (struct ws_sink *sink = session->sinks; sink; sink = sink->next)
		for (size_t i = 0; i < n; i++)
			put_value(session, sink, &values[i],
				  ws_metrics_describe(session->metrics, values[i].metric),
				  find_id(&sink->metric_ids, values[i].metric));
	free(values);
	complaint = ws_metrics_take_complaint(session->metrics);
	if (complaint)
		ws_sink_diagnostic(session->main, WS_ERROR, "gpu", 0, now, complaint);
	free(complaint);
}

static void put_gpu_metrics(struct ws_session *session, bool last, uint64_t now)
{
	struct ws_gpu_sampling *gpu_metrics = session->gpu_metrics;
	struct ws_metric_value *values;
	char *complaint;
	size_t n;

	if (!gpu_metrics)
		return;
	if (last)
		ws_gpu_sampling_settle(gpu_metrics);
	values = ws_gpu_sampling_take(gpu_metrics, &n);
	for (struct ws_sink *sink = session->sinks; sink; sink = sink->next)
		for (size_t i = 0; i < n; i++)
			put_value(session, sink, &values[i],
				  ws_gpu_sampling_describe(gpu_metrics, values[i].metric),
				  find_id(&sink->gpu_metric_ids, values[i].metric));
	free(values);
	while ((complaint = ws_gpu_sampling_take_complaint(gpu_metrics))) {
		ws_sink_diagnostic(session->main, WS_WARNING, "gpu", 0, now, complaint);
		free(complaint);
	}
}

void ws_session_put_metrics(struct ws_session *session, bool last)
{
	uint64_t now = ws_read_raw_ns();

	if (!last && now - session->metrics_at < PUT_NS)
		return;
	session->metrics_at = now;
	put_machine_metrics(session, last, now);
	put_gpu_metrics(session, last, now);
}
