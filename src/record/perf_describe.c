/*
 * perf_describe.c - what the report says about the events: how they were opened, what was refused
 * and what was lost.
 */
#include <stdio.h>
#include <string.h>

#include "record/perf_private.h"

void ws_perf_say(struct ws_perf *perf, enum ws_severity severity, const char *text)
{
	ws_sink_diagnostic(perf->main, severity, "perf", 0, ws_read_raw_ns(), text);
}

void ws_perf_say_refused(struct ws_perf *perf)
{
	char text[600], paranoid[16] = "";
	FILE *file = fopen("/proc/sys/kernel/perf_event_paranoid", "re");

	if (file && !fgets(paranoid, sizeof(paranoid), file))
		paranoid[0] = 0;
	if (file)
		fclose(file);
	paranoid[strcspn(paranoid, "\n")] = 0;
	snprintf(text, sizeof(text),
		 "perf events are refused (%s%s%s): %s%s. 'warpsight doctor' says what to do.",
		 strerror(perf->refused), *paranoid ? "; perf_event_paranoid is " : "", paranoid,
		 !perf->options.sample ? ""
		 : perf->options.signals
			 ? "CPU samples are taken by a timer signal in the program's threads"
			 : "the CPU is not sampled",
		 perf->options.switches ? perf->options.sample
						  ? ", and context switches are not recorded"
						  : "context switches are not recorded"
					: "");
	ws_perf_say(perf, WS_WARNING, text);
}

static const char *scope_name(enum ws_perf_scope scope)
{
	return scope == WS_SCOPE_SYSTEM ? "system-wide"
	       : scope == WS_SCOPE_TREE ? "process-tree"
					: "none";
}

static void describe_signals(const struct ws_perf *perf, struct ws_sink *sink)
{
	struct ws_row_perf_event row = {.id = 1,
					.type = PERF_TYPE_SOFTWARE,
					.config = PERF_COUNT_SW_TASK_CLOCK,
					.frequency = perf->options.frequency,
					.period = perf->options.period};

	row.name = ws_sink_string(sink, "timer-signal");
	ws_writer_add(sink->writer, WS_TABLE_perf_event, &row);
}

void ws_perf_describe(struct ws_perf *perf, struct ws_sink *sink)
{
	static const char *const backtraces[] = {"auto", "fp", "dwarf", "lbr", "none"};

	if (!perf || sink->perf_described)
		return;
	sink->perf_described = true;
	ws_sink_meta(sink, "session.sample", "%s", scope_name(perf->options.sample));
	ws_sink_meta(sink, "session.cpuctxsw", "%s",
		     perf->active ? scope_name(perf->options.switches) : "none");
	ws_sink_meta(sink, "session.backtrace", "%s", backtraces[perf->options.backtrace]);
	if (perf->active || perf->refused)
		ws_sink_meta(
			sink, "perf.scope", "%s",
			!perf->active ? "refused"
			: perf->set.wide
				? perf->by_thread
					  ? "every CPU; samples inherited by the target's threads"
					  : "every CPU"
				: "inherited by the target's threads");
	if (perf->active)
		ws_sink_meta(sink, "perf.ring_bytes", "%zu", perf->set.ring_bytes);
	if (perf->options.signals && !perf->active)
		describe_signals(perf, sink);
	for (size_t i = 0; i < perf->set.events_n; i++) {
		const struct ws_perf_event *ev = &perf->set.events[i];
		struct ws_row_perf_event row = {
			.id = ev->row, .type = ev->attr.type, .config = ev->attr.config};

		if (ev->role != WS_PERF_SAMPLE)
			continue;
		ev->attr.freq ? (row.frequency = ev->attr.sample_freq)
			      : (row.period = ev->attr.sample_period);
		row.name = ws_sink_string(sink, ev->name);
		ws_writer_add(sink->writer, WS_TABLE_perf_event, &row);
	}
}

void ws_perf_say_losses(struct ws_perf *perf)
{
	uint64_t left_out = ws_syscalls_take_left_out(perf->syscalls);

	if (left_out)
		ws_sink_loss(perf->main, 0, "system calls", left_out,
			     "more than 100,000 a second were made on a core: recording all would "
			     "slow the program down");
	if (perf->lost)
		ws_sink_loss(perf->main, 0, "CPU samples and context switches", perf->lost,
			     "perf's buffers were full: the recorder did not come round in time");
	if (perf->gaps_n)
		ws_perf_say(
			perf, WS_WARNING,
			"Records of what ran on the cores were lost. What a thread did from a loss "
			"until "
			"its next record is unknown; reports say how long that was. Fewer samples "
			"(--sampling-frequency) or smaller stacks (--backtrace=fp) lose less.");
	if (perf->set.bad)
		ws_sink_loss(perf->main, 0, "records of perf", perf->set.bad,
			     "they could not be read");
}
