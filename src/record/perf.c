/*
 * perf.c - see perf.h: opening events, the rounds, and what the report says about them.
 */
#include "record/perf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/tracefs.h"
#include "record/closer.h"
#include "record/perf_private.h"
#include "record/python.h"

#define HORIZON_NS 2000000u /* records this old are certain to have reached their buffers */
#define IDLE_NS 20000000u
#define LEAST_NS 500000u /* between two rounds, unless a buffer gets full */
#define MANY_CPUS 64
#define FEW_CPUS 4
#define BRIEF_NS 50000000u     /* threads that live for less than this, */
#define BRIEF_MOST 20	       /* and that more of them than this */
#define BRIEF_SPAN 1000000000u /* within this time are not sampled by events of their own */
#define FULL_ENOUGH 64	       /* of 256: from here on the recorder comes back at once */

/* ---- choosing events ---- */

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

static void say(struct ws_perf *perf, enum ws_severity severity, const char *text)
{
	ws_sink_diagnostic(perf->main, severity, "perf", 0, ws_read_raw_ns(), text);
}

/* Find out what is permitted: each CPU as a whole or the target's threads, with the kernel or
 * without. 0, or the errno of the last refusal. */
static int find_scope(struct ws_perf *perf)
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
		say(perf, WS_WARNING,
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
		say(perf, WS_WARNING, text);
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
	say(perf, WS_INFO, text);
}

static void say_no_ftrace(struct ws_perf *perf, const char *name, const char *why)
{
	char text[1200];

	snprintf(text, sizeof(text), "--ftrace: %s is not recorded: %s.", name, why);
	say(perf, WS_WARNING, text);
}

static void say_refused_tracepoints(struct ws_perf *perf)
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
		say(perf, WS_WARNING, text);
		return;
	}
	ws_trace_expand(perf->tracefs, perf->options.ftrace, add_ftrace, perf);
	if (perf->ftrace_left_out) {
		snprintf(text, sizeof(text),
			 "--ftrace: %u events are not recorded: at most 256 are.",
			 perf->ftrace_left_out);
		say(perf, WS_WARNING, text);
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

static bool attach_python_to(struct ws_perf *perf, size_t sampler, size_t output)
{
	for (size_t i = 0; i < perf->set.rings_n; i++) {
		const struct ws_perf_ring *ring = &perf->set.rings[i];

		if (!ring->copy && ws_python_bpf_attach(perf->drain->python, ring->fds[sampler],
							ring->fds[output], ring->cpu))
			return false;
	}
	return true;
}

/* The program was loaded while the events were opened. */
static bool attach_python(struct ws_perf *perf, size_t output)
{
	const struct ws_perf_set *set = &perf->set;
	bool attached = !ws_python_bpf_open(perf->drain->python, perf->python_frequency);

	for (size_t i = 0; attached && i < set->events_n; i++)
		attached = !set->events[i].time || attach_python_to(perf, i, output);
	if (!attached)
		ws_python_bpf_close(perf->drain->python);
	return attached;
}

void ws_perf_start_calls(struct ws_perf *perf)
{
	if (perf->calls_on || !perf->wait_calls)
		return;
	perf->calls_on = true;
	ws_perf_switch(&perf->set, WS_PERF_CALLS, perf->from && !perf->over);
}

void ws_perf_stop_calls(struct ws_perf *perf)
{
	ws_perf_close_event(&perf->set, ws_perf_find_role(&perf->set, WS_PERF_CALLS));
	ws_wait_calls_close(perf->wait_calls);
	perf->wait_calls = NULL;
}

static bool attach_wait_calls(struct ws_perf *perf, size_t output)
{
	size_t counter = ws_perf_find_role(&perf->set, WS_PERF_CALLS);
	bool attached = counter < perf->set.events_n;

	for (size_t i = 0; attached && i < perf->set.rings_n; i++) {
		struct ws_perf_ring *ring = &perf->set.rings[i];

		if (ring->copy) {
			close(ring->fds[counter]);
			ring->fds[counter] = -1;
			continue;
		}
		attached = !ws_wait_calls_attach(perf->wait_calls, ring->fds[counter],
						 ring->fds[output], ring->cpu);
	}
	if (!attached)
		ws_perf_stop_calls(perf);
	return attached;
}

static void say_no_syscalls(struct ws_perf *perf, const char *why)
{
	char text[1400];

	snprintf(text, sizeof(text),
		 "--trace=syscall: system calls are not recorded: %s. It takes root, or the "
		 "capabilities BPF and PERFMON and a tracefs that can be read; --trace=osrt needs "
		 "no "
		 "rights. 'warpsight doctor' says what to do.",
		 why);
	say(perf, WS_WARNING, text);
	ws_syscalls_close(perf->syscalls);
	perf->syscalls = NULL;
}

static void open_syscalls(struct ws_perf *perf)
{
	struct ws_err err;

	perf->syscalls = ws_syscalls_open((uint32_t)perf->target, &err);
	if (!perf->syscalls)
		say_no_syscalls(perf, err.msg);
}

static bool attach_syscalls(struct ws_perf *perf, size_t output)
{
	struct ws_err err;
	int error = 0;

	if (!perf->syscalls)
		return false;
	for (size_t i = 0; !error && i < perf->set.rings_n; i++)
		if (!perf->set.rings[i].copy)
			error = ws_syscalls_attach(perf->syscalls, perf->set.rings[i].fds[output],
						   perf->set.rings[i].cpu);
	if (!error && !ws_syscalls_start(perf->syscalls, &err))
		return true;
	say_no_syscalls(perf, error ? strerror(-error) : err.msg);
	return false;
}

static void attach_programs(struct ws_perf *perf)
{
	size_t output = ws_perf_find_role(&perf->set, WS_PERF_OUTPUT);
	bool used = false;

	if (output == perf->set.events_n) {
		ws_python_bpf_close(perf->drain->python);
		ws_perf_stop_calls(perf);
		if (perf->syscalls)
			say_no_syscalls(perf, "the kernel gives programs no buffer");
		return;
	}
	used |= attach_python(perf, output);
	used |= attach_wait_calls(perf, output);
	used |= attach_syscalls(perf, output);
	if (!used)
		ws_perf_close_event(&perf->set, output);
}

static size_t count_cpus(void)
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
	size_t cpus = count_cpus();

	/* A target that runs already has threads that inherited nothing. */
	if (perf->options.sample != WS_SCOPE_TREE || perf->options.attach)
		return false;
	if (test && (!strcmp(test, "threads") || !strcmp(test, "wide")))
		return !strcmp(test, "threads");
	return cpus > FEW_CPUS && cpus <= MANY_CPUS;
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

static void forget_events(struct ws_perf *perf)
{
	for (size_t i = 0; i < perf->set.events_n; i++)
		ws_trace_free(perf->set.events[i].format);
	perf->set.events_n = 0;
}

static void choose_events(struct ws_perf *perf)
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

/* ---- messages ---- */

static void say_refused(struct ws_perf *perf)
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
	say(perf, WS_WARNING, text);
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

/* ---- counting ---- */

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
		say(perf, WS_WARNING, text);
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

static void open_counters(struct ws_perf *perf, const char *list, bool core)
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

static void count(struct ws_perf *perf, uint64_t now)
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

/* ---- opening ---- */

/* How long the recorder may sleep before a busy CPU's samples fill a quarter of its ring. */
static void choose_idle(struct ws_perf *perf)
{
	double bytes = 256, rate = 1;

	for (size_t i = 0; i < perf->set.events_n; i++) {
		const struct perf_event_attr *attr = &perf->set.events[i].attr;

		if (perf->set.events[i].role == WS_PERF_SAMPLE)
			rate += attr->freq ? (double)attr->sample_freq
					   : 1e9 / (double)attr->sample_period;
		if (attr->sample_stack_user + 600.0 > bytes)
			bytes = attr->sample_stack_user + 600.0;
	}
	rate = (double)perf->set.ring_bytes / 4 / (bytes * rate) * 1e9;
	perf->idle_ns = rate > IDLE_NS ? IDLE_NS : rate < 500000 ? 500000 : (uint64_t)rate;
}

/* If the limit falls after it was read and before the event is opened, opening fails. */
static void choose_and_open(struct ws_perf *perf)
{
	for (int tries = 0; tries < 3; tries++) {
		perf->limit = ws_perf_limit();
		ws_perf_limit_frequency(perf);
		forget_events(perf);
		choose_events(perf);
		perf->refused = ws_perf_open_set(&perf->set, perf->target, perf->options.attach);
		if (perf->refused != EINVAL || ws_perf_limit() >= perf->limit)
			return;
	}
}

static void open_all(struct ws_perf *perf)
{
	perf->refused = find_scope(perf);
	if (!perf->refused && perf->set.wide && perf->options.switches && !perf->options.attach &&
	    count_cpus() <= MANY_CPUS)
		perf->wait_calls = ws_wait_calls_open();
	if (!perf->refused && perf->options.syscalls)
		open_syscalls(perf);
	if (!perf->refused)
		choose_and_open(perf);
	if (perf->refused) {
		perf->set.events_n = 0;
		ws_python_bpf_close(perf->drain->python);
		if (perf->options.syscalls)
			say_no_syscalls(perf, "perf events are refused");
		say_refused(perf);
		return;
	}
	perf->active = true;
	say_refused_tracepoints(perf);
	attach_programs(perf);
	choose_idle(perf);
	if ((perf->options.sample == WS_SCOPE_SYSTEM ||
	     perf->options.switches == WS_SCOPE_SYSTEM) &&
	    !perf->set.wide) {
		say(perf, WS_WARNING,
		    "Nothing may be seen beyond the target's processes (perf_event_paranoid, see "
		    "'warpsight doctor'): the scope is "
		    "the process tree.");
		perf->options.sample = perf->options.sample ? WS_SCOPE_TREE : WS_SCOPE_NONE;
		perf->options.switches = perf->options.switches ? WS_SCOPE_TREE : WS_SCOPE_NONE;
	}
	if (perf->set.no_kernel)
		say(perf, WS_INFO,
		    "The kernel may not be looked into (perf_event_paranoid): samples are of user "
		    "space only.");
}

struct ws_perf *ws_perf_open(const struct ws_perf_opts *options, pid_t target,
			     struct ws_drain *drain, struct ws_sink *main)
{
	struct ws_perf *perf;

	if (!options->sample && !options->switches && !options->ftrace && !options->count_events &&
	    !options->syscalls && !options->core_metrics) {
		ws_sink_meta(main, "session.sample", "none");
		ws_sink_meta(main, "session.cpuctxsw", "none");
		return NULL;
	}
	perf = ws_calloc(1, sizeof(*perf));
	perf->options = *options;
	perf->drain = drain;
	perf->main = main;
	perf->target = target;
	perf->idle_ns = IDLE_NS;
	perf->has_ended = ws_perf_has_ended;
	perf->had_time = ws_proc_had_time;
	perf->wanted_frequency = options->frequency;
	if (!perf->options.stack_bytes)
		perf->options.stack_bytes = 8192;
	if (!perf->options.samples_per_backtrace)
		perf->options.samples_per_backtrace = 1;
	if (options->count_events) {
		open_counters(perf, options->core_events, true);
		open_counters(perf, options->os_events, false);
	}
	ws_perf_open_metrics(perf, options->core_metrics);
	if (options->sample || options->switches || options->ftrace || options->syscalls)
		open_all(perf);
	ws_perf_describe(perf, main);
	ws_perf_tree_init(perf);
	return perf;
}

/* The programs run on the events of the first process; attach them to those of the last one too. */
static void attach_programs_to_last(struct ws_perf *perf)
{
	size_t n = perf->set.events_n, output = ws_perf_find_role(&perf->set, WS_PERF_OUTPUT),
	       counter = ws_perf_find_role(&perf->set, WS_PERF_CALLS);

	for (size_t i = 0; output < n && i < perf->set.rings_n; i++) {
		const struct ws_perf_ring *ring = &perf->set.rings[i];
		const int *last = ring->fds + ring->fds_n - n;

		if (ring->copy || ring->fds[output] < 0)
			continue;
		if (perf->wait_calls && counter < n && last[counter] >= 0)
			ws_wait_calls_attach(perf->wait_calls, last[counter], ring->fds[output],
					     ring->cpu);
		for (size_t k = 0; ws_python_bpf_is_on(perf->drain->python) && k < n; k++)
			if (perf->set.events[k].time && last[k] >= 0)
				ws_python_bpf_attach(perf->drain->python, last[k],
						     ring->fds[output], ring->cpu);
	}
}

void ws_perf_add_root(struct ws_perf *perf, pid_t pid)
{
	if (!perf)
		return;
	if (perf->active) {
		ws_perf_open_more(&perf->set, pid);
		attach_programs_to_last(perf);
		if (perf->from && !perf->over)
			ws_perf_begin(perf, perf->from);
	}
	ws_syscalls_add(perf->syscalls, (uint32_t)pid);
	ws_perf_tree_add(perf, (uint32_t)pid);
}

bool ws_perf_wants_stack(const struct ws_perf *perf, uint32_t nth)
{
	return perf && perf->options.backtrace != WS_BACKTRACE_NONE &&
	       nth % perf->options.samples_per_backtrace == 0;
}

bool ws_perf_active(const struct ws_perf *perf)
{
	return perf && perf->active;
}

bool ws_perf_refused(void)
{
	struct ws_perf self = {0}; /* target 0: this process */

	return find_scope(&self) != 0;
}

/* ---- samples by CPU instead of by thread ---- */

bool ws_perf_shift(struct ws_perf *perf)
{
	size_t standby = ws_perf_find_role(&perf->set, WS_PERF_STANDBY);
	bool on_cores = perf->set.wide && !perf->by_thread;

	if ((standby == perf->set.events_n && !on_cores) || perf->over)
		return false;
	if (!perf->shifted) {
		perf->shifted = true;
		ws_perf_stop_calls(perf);
		if (on_cores)
			return true;
		ws_perf_close_event(&perf->set, standby - 1);
		ws_perf_switch(&perf->set, WS_PERF_STANDBY, perf->from != 0);
	}
	return true;
}

static void say_brief(struct ws_perf *perf)
{
	perf->shifted = true; /* as far as possible */
	if (perf->by_thread || !perf->set.wide)
		say(perf, WS_INFO,
		    "Many threads live for less than 50 ms. They and those that start them are "
		    "sampled by events of their own, "
		    "which "
		    "favour some of their code: read shares of theirs with care. A higher "
		    "--sampling-frequency helps; so do rights "
		    "to watch whole cores (see 'warpsight doctor').");
}

void ws_perf_lived(struct ws_perf *perf, uint64_t start, uint64_t end)
{
	if (perf->shifted || perf->over || !perf->options.sample || !perf->from || end < start ||
	    end - start > BRIEF_NS)
		return;
	if (end - perf->brief_since > BRIEF_SPAN) {
		perf->brief_since = end;
		perf->brief_n = 0;
	}
	if (++perf->brief_n > BRIEF_MOST && !ws_perf_shift(perf))
		say_brief(perf);
}

/* ---- rounds ---- */

static void take_one(void *ctx, struct ws_perf_ring *ring, const void *rec, size_t size)
{
	struct ws_perf *perf = ctx;

	if (perf->held_n)
		ws_perf_put_held(perf, ws_perf_time(rec, size));
	perf->ring = ring;
	if (ring->tail >= ring->full_at)
		ring->full_at = 0;
	ws_perf_record(perf, rec, size, false);
	ring->last = ws_perf_time(rec, size);
	perf->ring = NULL;
}

static void take(struct ws_perf *perf, uint64_t horizon, bool all)
{
	if (!perf->active || perf->over)
		return;
	ws_perf_note_full(perf);
	ws_perf_expect_held(perf, horizon);
	ws_perf_take(&perf->set, all ? UINT64_MAX : horizon, take_one, perf);
	if (perf->waiting)
		ws_perf_settle_waiting(perf, horizon, all);
	ws_perf_put_held(perf, all ? UINT64_MAX : horizon);
	/* threads that ended before this are not looked up any more */
	perf->drain->keep_from = horizon;
}

void ws_perf_begin(struct ws_perf *perf, uint64_t time)
{
	if (!perf)
		return;
	perf->from = time;
	if (!perf->active)
		return;
	if (!perf->combined)
		ws_perf_switch(&perf->set, WS_PERF_SAMPLE, true);
	if (perf->shifted)
		ws_perf_switch(&perf->set, WS_PERF_STANDBY, true);
	ws_perf_switch(&perf->set, WS_PERF_CALLS, perf->calls_on);
	ws_perf_switch(&perf->set, WS_PERF_WAKE, true);
	ws_perf_switch(&perf->set, WS_PERF_FTRACE, true);
}

static void close_span(struct ws_perf *perf, struct ws_perf_thread *thread, uint64_t time,
		       bool goes_on)
{
	uint64_t on;
	bool seen = thread->seen;

	ws_perf_pass_gaps(perf, thread, UINT64_MAX);
	on = thread->on;
	ws_perf_off(perf, thread, time, WS_AFTER_UNKNOWN);
	ws_perf_settle_time(perf, thread);
	if (!goes_on)
		return;
	/* The state before a first collection: it runs or does not, and nothing has been
	 * sampled. */
	thread->on = on;
	thread->seen = seen;
	thread->ran = thread->slack = 0;
	thread->sampled = false;
	thread->gaps = thread->pauses = 0;
}

static void close_spans(struct ws_perf *perf, uint64_t time, bool go_on)
{
	for (size_t i = 0; i < perf->threads.size; i++)
		if (perf->threads.used[i])
			close_span(perf, (void *)(uintptr_t)perf->threads.slots[i].value, time,
				   go_on);
}

/* Take everything that belongs to the collection that ends at `time`. */
static void take_rest(struct ws_perf *perf, uint64_t time, bool go_on)
{
	perf->to = time;
	take(perf, ws_read_raw_ns(), true);
	ws_perf_add_last_gaps(perf, time);
	ws_perf_find_ended(perf, time, true);
	ws_perf_resume_switches(perf, time);
	close_spans(perf, time, go_on);
	ws_perf_put_gaps(perf, perf->main);
	ws_perf_put_pauses(perf, perf->main);
}

void ws_perf_stop(struct ws_perf *perf, uint64_t time)
{
	if (perf && !perf->over)
		perf->to = time;
}

void ws_perf_end(struct ws_perf *perf, uint64_t time)
{
	if (!perf || perf->over)
		return;
	take_rest(perf, time, false);
	/* Events that are closed next are not turned off first, which would interrupt each core. */
	for (int role = WS_PERF_TRACK; perf->active && !perf->finishing && role <= WS_PERF_FTRACE;
	     role++)
		ws_perf_switch(&perf->set, (enum ws_perf_role)role, false);
	perf->over = true;
}

void ws_perf_round(struct ws_perf *perf, uint64_t since)
{
	if (!perf || perf->over)
		return;
	take(perf, since - HORIZON_NS, false);
	ws_perf_find_ended(perf, since - HORIZON_NS, false);
	count(perf, ws_read_raw_ns());
	ws_perf_pace_switches(perf, ws_read_raw_ns());
	if (perf->active)
		ws_perf_look_at_waits(perf, ws_read_raw_ns());
}

uint64_t ws_perf_patience(const struct ws_perf *perf)
{
	if (!perf || !perf->active || perf->over)
		return IDLE_NS;
	if (ws_perf_fullness(&perf->set) > FULL_ENOUGH)
		return 0;
	return ws_max(ws_min(perf->idle_ns, ws_perf_time_to_look(perf, ws_read_raw_ns())),
		      LEAST_NS);
}

static void say_losses(struct ws_perf *perf)
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
		say(perf, WS_WARNING,
		    "Records of what ran on the cores were lost. What a thread did from a loss "
		    "until "
		    "its next record is unknown; reports say how long that was. Fewer samples "
		    "(--sampling-frequency) or smaller stacks (--backtrace=fp) lose less.");
	if (perf->set.bad)
		ws_sink_loss(perf->main, 0, "records of perf", perf->set.bad,
			     "they could not be read");
}

void ws_perf_rest(struct ws_perf *perf, uint64_t time)
{
	/* What ws_perf_begin turns on. */
	static const enum ws_perf_role begun[] = {WS_PERF_SAMPLE, WS_PERF_STANDBY, WS_PERF_WAKE,
						  WS_PERF_FTRACE};

	bool paused;

	if (!perf || perf->over || !perf->from)
		return;
	paused = perf->resume != 0;
	take_rest(perf, time, true);
	if (paused) /* the next collection begins without a pause */
		ws_perf_end_pause(perf);
	say_losses(perf);
	ws_perf_say_pauses(perf);
	ws_perf_say_rate(perf);
	for (size_t i = 0; perf->active && i < WS_COUNT(begun); i++)
		if (begun[i] != WS_PERF_SAMPLE || !perf->combined)
			ws_perf_switch(&perf->set, begun[i], false);
	perf->from = perf->to = 0;
	perf->gaps_n = perf->gaps_checked = perf->pauses_n = 0;
	perf->lost = perf->set.bad = 0;
	perf->ran = perf->unsampled = 0;
}

void ws_perf_tell_open(struct ws_perf *perf, uint64_t time)
{
	if (perf && !perf->over && perf->from)
		close_spans(perf, time, true);
}

void ws_perf_finish(struct ws_perf *perf, uint64_t now)
{
	if (!perf)
		return;
	if (!perf->over &&
	    !perf->from) /* nothing is being collected, so there is nothing to report */
		perf->over = true;
	perf->finishing = true;
	ws_perf_end(perf, perf->to ? perf->to : now);
	say_losses(perf);
	ws_perf_say_pauses(perf);
	ws_perf_say_rate(perf);
}

struct ws_closer *ws_perf_free(struct ws_perf *perf)
{
	struct ws_closer *closer;

	if (!perf)
		return NULL;
	ws_perf_tree_free(perf);
	closer = ws_perf_close_later(&perf->set);
	ws_closer_join(perf->closer);
	ws_wait_calls_close(perf->wait_calls);
	ws_syscalls_close(perf->syscalls);
	forget_events(perf);
	free(perf->set.events);
	ws_perf_close_metrics(perf);
	for (size_t i = 0; i < perf->counters_n; i++)
		close(perf->counters[i].fd);
	free(perf->counters);
	free(perf->held);
	free(perf->gaps);
	free(perf->pauses);
	free(perf);
	return closer;
}
