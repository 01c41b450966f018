/*
 * perf_choose.c - which events are opened: what is permitted, and which of them the options ask
 * for.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/tracefs.h"
#include "record/perf_private.h"
#include "record/python.h"

#define FEW_CPUS 4

static struct ws_perf_event *add_event(struct ws_perf *perf, enum ws_perf_role role, uint32_t type,
				       uint64_t config, const char *name)
{
	struct ws_perf_set *set = &perf->set;
	struct ws_perf_event *ev;

	ws_grow(set->events, set->events_cap, set->events_n + 1);
	ev = &set->events[set->events_n++];
	*ev = (struct ws_perf_event){.role = role};
	ws_perf_attr(&ev->attr, type, config, set->no_kernel);
	ev->attr.inherit = !set->wide || (role == WS_PERF_SAMPLE && perf->by_thread);
	snprintf(ev->name, sizeof(ev->name), "%s", name);
	return ev;
}

static void track_switches(struct ws_perf *perf, struct ws_perf_event *ev)
{
	/* Without context switches it is unknown how much time a sample stands for: perf_time.c. */
	ev->attr.context_switch = perf->options.switches || perf->options.sample;
}

/* The records that say who runs where. On whole CPUs, context switches have an event of their own,
 * which can be turned off for a while (perf_pause.c). */
static void track(struct ws_perf *perf, struct ws_perf_event *ev)
{
	ev->attr.mmap = ev->attr.mmap2 = ev->attr.comm = ev->attr.comm_exec = ev->attr.task = 1;
	if (!perf->set.wide)
		track_switches(perf, ev);
	ev->attr.enable_on_exec = ev->attr.disabled = !perf->set.wide && !perf->options.attach;
}

static void want_stacks(const struct ws_perf *perf, struct ws_perf_event *ev)
{
	if (perf->options.backtrace == WS_BACKTRACE_NONE)
		return;
	ev->attr.sample_type |= PERF_SAMPLE_CALLCHAIN;
	ev->attr.exclude_callchain_kernel = perf->set.no_kernel;
	if (perf->options.backtrace == WS_BACKTRACE_FP)
		return;
	ev->attr.sample_type |= PERF_SAMPLE_REGS_USER;
	ev->attr.sample_regs_user = WS_PERF_REGS;
	ev->regs = (unsigned)__builtin_popcountll(WS_PERF_REGS);
	if (perf->options.backtrace == WS_BACKTRACE_LBR) {
		ev->attr.sample_type |= PERF_SAMPLE_BRANCH_STACK;
		ev->attr.branch_sample_type =
			PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_CALL_STACK;
		return;
	}
	ev->attr.sample_type |= PERF_SAMPLE_STACK_USER;
	ev->attr.sample_stack_user = perf->options.stack_bytes;
}

static void pace(const struct ws_perf *perf, struct ws_perf_event *ev)
{
	if (perf->options.period && ev->attr.type != PERF_TYPE_TRACEPOINT) {
		ev->attr.sample_period = perf->options.period;
	} else {
		ev->attr.freq = 1;
		ev->attr.sample_freq = perf->options.frequency;
	}
}

static int try_on_cpu(const struct perf_event_attr *attr, pid_t pid)
{
	size_t n;
	uint32_t *cpus = ws_perf_cpus(&n);
	int error = ws_perf_try(attr, pid, (int)cpus[0]);

	free(cpus);
	return error;
}

static int try_attr(const struct ws_perf *perf, const struct perf_event_attr *attr)
{
	return try_on_cpu(attr, attr->inherit ? perf->target : -1);
}

/* Find out what is permitted: each CPU as a whole or the target's threads, with the kernel or
 * without. 0, or the errno of the last refusal. */
int ws_perf_find_scope(struct ws_perf *perf)
{
	const char *test = getenv("WARPSIGHT_PERF"); /* for tests: wide, threads, inherit, none */
	struct perf_event_attr attr;
	int error = EACCES;

	for (int step = test && !strcmp(test, "none")	   ? 3
			: test && !strcmp(test, "inherit") ? 1
							   : 0;
	     step < 3; step++) {
		perf->set.wide = step == 0;
		perf->set.no_kernel = step == 2;
		ws_perf_attr(&attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK,
			     perf->set.no_kernel);
		attr.inherit = !perf->set.wide;
		error = try_attr(perf, &attr);
		if (!error)
			return 0;
	}
	return error;
}

/* Add the event that paces the samples; false when the machine does not offer it. */
static bool add_pacer(struct ws_perf *perf, uint32_t type, uint64_t config, const char *name)
{
	struct ws_perf_event *ev = add_event(perf, WS_PERF_SAMPLE, type, config, name);

	ev->time = true;
	ev->clock = type == PERF_TYPE_SOFTWARE;
	pace(perf, ev);
	want_stacks(perf, ev);
	if (ev->clock || !try_attr(perf, &ev->attr))
		return true; /* the reason for refusing a clock is reported where all are opened */
	perf->set.events_n--;
	return false;
}

/*
 * Use the clock of the CPU, on machines that count cycles too. Its samples come at the times for
 * which they stand, whatever the processor's rate is, and a new event is right from its first
 * sample on. Only a counter gives records of branches.
 */
static void choose_pacer(struct ws_perf *perf)
{
	const char *test = getenv("WARPSIGHT_PERF_PACER"); /* for tests: cycles */
	bool lbr = perf->options.backtrace == WS_BACKTRACE_LBR;

	if ((lbr || (test && !strcmp(test, "cycles"))) &&
	    add_pacer(perf, PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, "cpu-cycles"))
		return;
	if (lbr) {
		ws_perf_say(
			perf, WS_WARNING,
			"--backtrace=lbr: this machine does not offer the processor's records of "
			"branches; backtraces are made as with "
			"--backtrace=auto.");
		perf->options.backtrace = WS_BACKTRACE_AUTO;
	}
	add_pacer(perf, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, "cpu-clock");
}

static void choose_named(struct ws_perf *perf, const char *list, bool core)
{
	char text[300];

	for (const char *at = list; at && *at;) {
		size_t n = strcspn(at, ",");
		const struct ws_perf_name *name = ws_perf_find_event(at, n, core);
		struct ws_perf_event *ev =
			name ? add_event(perf, WS_PERF_SAMPLE, name->type, name->config, name->name)
			     : NULL;
		int error;

		at += n + (at[n] == ',');
		if (!ev)
			continue;
		pace(perf, ev);
		want_stacks(perf, ev);
		error = try_attr(perf, &ev->attr);
		if (!error)
			continue;
		perf->set.events_n--;
		snprintf(text, sizeof(text), "--%s-events: %s cannot be sampled here: %s.",
			 core ? "cpu-core" : "os", name->name, strerror(error));
		ws_perf_say(perf, WS_WARNING, text);
	}
}

/*
 * Have the last event of the set follow tracepoint `name`. 0, or -1 with the reason, and the event
 * is removed. Whether the kernel permits it turns out when all events are opened
 * (say_refused_tracepoints): trying it here would take 40 ms, since the kernel is slow to release a
 * tracepoint.
 */
static int trace(struct ws_perf *perf, struct ws_perf_event *ev, const char *name,
		 struct ws_err *err)
{

	ev->format = perf->tracefs >= 0 ? ws_trace_open(perf->tracefs, name, err) : NULL;
	if (perf->tracefs < 0)
		snprintf(err->msg, sizeof(err->msg), "%s", perf->no_tracefs);
	if (ev->format) {
		ev->attr.config = ws_trace_id(ev->format);
		ev->attr.sample_type |= PERF_SAMPLE_RAW;
		ev->attr.sample_period = 1;
		ev->attr.exclude_idle = 0;
		return 0;
	}
	perf->set.events_n--;
	return -1;
}

static void say_no_wakeups(struct ws_perf *perf, const char *why)
{
	char text[1400];

	snprintf(text, sizeof(text),
		 "Wake-ups are not traced: %s. How long a thread that was woken waited for a core "
		 "('runnable') is not known and "
		 "counts as part of what it waited for; waits for a core after a preemption are "
		 "known. 'warpsight doctor' says "
		 "what to do.",
		 why);
	ws_perf_say(perf, WS_INFO, text);
}

static void say_no_ftrace(struct ws_perf *perf, const char *name, const char *why)
{
	char text[1200];

	snprintf(text, sizeof(text), "--ftrace: %s is not recorded: %s.", name, why);
	ws_perf_say(perf, WS_WARNING, text);
}

void ws_perf_say_tracepoints(struct ws_perf *perf)
{
	char why[300];

	for (size_t i = 0; i < perf->set.events_n; i++) {
		const struct ws_perf_event *ev = &perf->set.events[i];

		snprintf(why, sizeof(why), "tracepoint %s is refused (%s)", ev->name,
			 strerror(ev->refused));
		if (ev->refused && ev->role == WS_PERF_WAKE)
			say_no_wakeups(perf, why);
		else if (ev->refused)
			say_no_ftrace(perf, ev->name, why);
	}
}

static void choose_wakeups(struct ws_perf *perf)
{
	struct ws_err err;

	if (!perf->options.switches)
		return;
	if (!perf->set.wide)
		ws_fail(&err, "cores cannot be watched as a whole (perf_event_paranoid)");
	else if (!trace(perf,
			add_event(perf, WS_PERF_WAKE, PERF_TYPE_TRACEPOINT, 0,
				  "sched:sched_waking"),
			"sched/sched_waking", &err))
		return;
	say_no_wakeups(perf, err.msg);
}

static void add_ftrace(void *ctx, const char *name)
{
	struct ws_perf *perf = ctx;
	struct ws_err err;

	if (perf->set.events_n > 256)
		perf->ftrace_left_out++;
	else if (trace(perf, add_event(perf, WS_PERF_FTRACE, PERF_TYPE_TRACEPOINT, 0, name), name,
		       &err))
		say_no_ftrace(perf, name, err.msg);
}

static void choose_ftrace(struct ws_perf *perf)
{
	char text[1200];

	if (!perf->options.ftrace)
		return;
	if (perf->tracefs < 0) { /* once, not for each event */
		snprintf(text, sizeof(text),
			 "--ftrace: nothing is recorded: %s. 'warpsight doctor' says what to do.",
			 perf->no_tracefs);
		ws_perf_say(perf, WS_WARNING, text);
		return;
	}
	ws_trace_expand(perf->tracefs, perf->options.ftrace, add_ftrace, perf);
	if (perf->ftrace_left_out) {
		snprintf(text, sizeof(text),
			 "--ftrace: %u events are not recorded: at most 256 are.",
			 perf->ftrace_left_out);
		ws_perf_say(perf, WS_WARNING, text);
	}
}

static void choose_tracepoints(struct ws_perf *perf)
{
	struct ws_err err;

	perf->tracefs = ws_tracefs_open(NULL, &err);
	if (perf->tracefs < 0)
		perf->no_tracefs = ws_strdup(err.msg);
	choose_wakeups(perf);
	choose_ftrace(perf);
	if (perf->tracefs >= 0)
		close(perf->tracefs);
	free(perf->no_tracefs);
	perf->no_tracefs = NULL;
}

/*
 * A thread starts with a fresh event, which fires after a whole period; and when the kernel
 * switches from a thread to one that it has started, it may swap their events. So where threads or
 * processes are started all the time, samples hit the same places again and again: some code gets
 * several times its share and some none. Events on CPUs do not depend on threads. They are opened
 * too, disabled, and take over when many threads end young (ws_perf_lived).
 */
static void choose_standby(struct ws_perf *perf)
{
	struct ws_perf_event *ev;

	if (!perf->by_thread || !perf->set.wide)
		return;
	ws_grow(perf->set.events, perf->set.events_cap, perf->set.events_n + 1);
	ev = &perf->set.events[perf->set.events_n];
	*ev = perf->set.events[perf->set.events_n - 1];
	ev->role = WS_PERF_STANDBY;
	ev->attr.inherit = 0;
	if (!try_attr(perf, &ev->attr))
		perf->set.events_n++;
}

/* Python's frames come with the samples, where a program may be attached to them. */
static bool choose_python(struct ws_perf *perf)
{
	struct ws_python *py = perf->drain->python;
	uint32_t frequency = 0;

	for (size_t i = 0; i < perf->set.events_n; i++)
		if (perf->set.events[i].time)
			frequency = perf->set.events[i].attr.freq ? perf->options.frequency
				    : perf->set.events[i].clock
					    ? (uint32_t)(1000000000u / perf->options.period)
					    : 0;
	perf->python_frequency = frequency;
	return ws_python_bpf_suits(py, frequency);
}

/*
 * Another program reports in which calls threads wait. Where the target has no hooks, all of its
 * threads need it, and inherit its event for each core, as that of the samples. Threads with hooks
 * should inherit nothing, because exchanging events slows each of their switches: there the event
 * counts on whole cores, and only once a process without hooks has been found.
 */
static bool choose_wait_calls(struct ws_perf *perf)
{
	struct ws_perf_event *ev;

	if (!perf->wait_calls)
		return false;
	ev = add_event(perf, WS_PERF_CALLS, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES,
		       "calls");
	ev->attr.sample_period = 1;
	ev->attr.inherit = !perf->options.hooked;
	perf->calls_on = ev->attr.inherit;
	if (!try_attr(perf, &ev->attr))
		return true;
	perf->set.events_n--;
	return false;
}

/* Add the events that programs in the kernel are attached to, and those into which they write. */
static void choose_programs(struct ws_perf *perf)
{
	bool python = perf->options.sample && choose_python(perf), calls = choose_wait_calls(perf);
	struct ws_perf_event *ev;

	if (!python && !calls && !perf->syscalls)
		return;
	ev = add_event(perf, WS_PERF_OUTPUT, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_BPF_OUTPUT,
		       "programs");
	ev->attr.sample_type |= PERF_SAMPLE_RAW;
	ev->attr.sample_period = 1;
	ev->attr.inherit = 0;
	ev->attr.exclude_idle = 0;
	ev->attr.disabled = 0;
	if (!try_on_cpu(&ev->attr, -1))
		return;
	perf->set.events_n -= 1 + calls;
}

size_t ws_perf_find_role(const struct ws_perf_set *set, enum ws_perf_role role)
{
	size_t i = 0;

	while (i < set->events_n && set->events[i].role != role)
		i++;
	return i;
}

size_t ws_perf_count_cpus(void)
{
	size_t n;

	free(ws_perf_cpus(&n));
	return n;
}

/*
 * Whether to sample the target's threads by events of their own even where whole CPUs may be
 * observed. The clock of an event on a CPU goes on when the CPU is idle, which on a virtual machine
 * with many CPUs slows those that work (by 5 % on one of 16). But each new thread inherits such an
 * event for each CPU, which takes microseconds each, and so does exchanging them when threads are
 * switched. On a few CPUs that is the greater cost.
 */
static bool samples_by_thread(const struct ws_perf *perf)
{
	const char *test = getenv("WARPSIGHT_PERF"); /* for tests: threads, wide */
	size_t cpus = ws_perf_count_cpus();

	/* A target that runs already has threads that inherited nothing. */
	if (perf->options.sample != WS_SCOPE_TREE || perf->options.attach)
		return false;
	if (test && (!strcmp(test, "threads") || !strcmp(test, "wide")))
		return !strcmp(test, "threads");
	return cpus > FEW_CPUS && cpus <= WS_PERF_MANY_CPUS;
}

/* The events' ids in the table perf_event. */
static void number_events(struct ws_perf *perf)
{
	uint32_t row = 0;

	for (size_t i = 0; i < perf->set.events_n; i++) {
		struct ws_perf_event *ev = &perf->set.events[i];

		if (ev->role == WS_PERF_SAMPLE)
			ev->row = ++row;
		else if (ev->role ==
			 WS_PERF_STANDBY) /* the previous event, opened in another way */
			ev->row = row;
		if (ev->role != WS_PERF_SAMPLE || !ev->time)
			continue;
		perf->timer_row = ev->row;
		perf->timer_is_clock = ev->clock;
		perf->timer_ns = ev->attr.freq ? 1000000000u / ev->attr.sample_freq
				 : ev->clock   ? ev->attr.sample_period
					       : 0;
	}
}

void ws_perf_forget_events(struct ws_perf *perf)
{
	for (size_t i = 0; i < perf->set.events_n; i++)
		ws_trace_free(perf->set.events[i].format);
	perf->set.events_n = 0;
}

void ws_perf_choose_events(struct ws_perf *perf)
{
	perf->by_thread = samples_by_thread(perf);
	/* One more event costs nothing on a whole CPU, but microseconds for each thread that
	 * inherits it. */
	perf->combined = !perf->set.wide && perf->options.sample && !perf->options.later &&
			 !perf->options.attach;
	if (!perf->combined) {
		struct ws_perf_event *ev = add_event(perf, WS_PERF_TRACK, PERF_TYPE_SOFTWARE,
						     PERF_COUNT_SW_DUMMY, "track");

		ev->attr.exclude_kernel = perf->set.no_kernel;
		track(perf, ev);
	}
	if (perf->set.wide && (perf->options.switches || perf->options.sample)) {
		struct ws_perf_event *ev = add_event(perf, WS_PERF_SWITCHES, PERF_TYPE_SOFTWARE,
						     PERF_COUNT_SW_DUMMY, "switches");

		track_switches(perf, ev);
		ev->attr.disabled = 0;
	}
	if (perf->options.sample) {
		choose_pacer(perf);
		choose_standby(perf);
		if (perf->combined)
			track(perf, &perf->set.events[0]);
		if (!perf->options.count_events) {
			choose_named(perf, perf->options.core_events, true);
			choose_named(perf, perf->options.os_events, false);
		}
	}
	choose_programs(perf);
	if (perf->options.ftrace || perf->options.switches)
		choose_tracepoints(perf);
	number_events(perf);
}
