/*
 * perf.c - see perf.h: what is opened, the rounds, and what is said about it.
 */
#include "record/perf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/tracefs.h"
#include "record/perf_private.h"
#include "record/python.h"

#define HORIZON_NS 2000000u /* records this old are in their buffers for certain */
#define IDLE_NS 20000000u
#define MANY_CPUS 64
#define BRIEF_NS 50000000u     /* threads that live shorter, */
#define BRIEF_MOST 20	       /* and more of them than this */
#define BRIEF_SPAN 1000000000u /* in this time, are not sampled by events of their own */
#define FULL_ENOUGH 64	       /* of 256: the recorder comes back at once */

/* ---- choosing events ---- */

static struct ws_perf_event *add_event(struct ws_perf *p, enum ws_perf_role role, uint32_t type,
				       uint64_t config, const char *name)
{
	struct ws_perf_set *s = &p->set;
	struct ws_perf_event *ev;

	ws_grow(s->events, s->events_cap, s->events_n + 1);
	ev = &s->events[s->events_n++];
	*ev = (struct ws_perf_event){.role = role};
	ws_perf_attr(&ev->attr, type, config, s->no_kernel);
	ev->attr.inherit = !s->wide || (role == WS_PERF_SAMPLE && p->by_thread);
	snprintf(ev->name, sizeof(ev->name), "%s", name);
	return ev;
}

/* The records that tell who runs where. */
static void track(struct ws_perf *p, struct ws_perf_event *ev)
{
	ev->attr.mmap = ev->attr.mmap2 = ev->attr.comm = ev->attr.comm_exec = ev->attr.task = 1;
	/* Without them nobody knows what a sample stands for: perf_time.c. */
	ev->attr.context_switch = p->o.switches || p->o.sample;
	ev->attr.enable_on_exec = !p->set.wide;
}

static void want_stacks(const struct ws_perf *p, struct ws_perf_event *ev)
{
	if (p->o.backtrace == WS_BACKTRACE_NONE)
		return;
	ev->attr.sample_type |= PERF_SAMPLE_CALLCHAIN;
	ev->attr.exclude_callchain_kernel = p->set.no_kernel;
	if (p->o.backtrace == WS_BACKTRACE_FP)
		return;
	ev->attr.sample_type |= PERF_SAMPLE_REGS_USER;
	ev->attr.sample_regs_user = WS_PERF_REGS;
	ev->regs = (unsigned)__builtin_popcountll(WS_PERF_REGS);
	if (p->o.backtrace == WS_BACKTRACE_LBR) {
		ev->attr.sample_type |= PERF_SAMPLE_BRANCH_STACK;
		ev->attr.branch_sample_type =
			PERF_SAMPLE_BRANCH_USER | PERF_SAMPLE_BRANCH_CALL_STACK;
		return;
	}
	ev->attr.sample_type |= PERF_SAMPLE_STACK_USER;
	ev->attr.sample_stack_user = WS_PERF_STACK_BYTES;
}

static void pace(const struct ws_perf *p, struct ws_perf_event *ev)
{
	if (p->o.period && ev->attr.type != PERF_TYPE_TRACEPOINT) {
		ev->attr.sample_period = p->o.period;
	} else {
		ev->attr.freq = 1;
		ev->attr.sample_freq = p->o.frequency;
	}
}

static int try_on_cpu(const struct perf_event_attr *a, pid_t pid)
{
	size_t n;
	uint32_t *cpus = ws_perf_cpus(&n);
	int error = ws_perf_try(a, pid, (int)cpus[0]);

	free(cpus);
	return error;
}

static int try_attr(const struct ws_perf *p, const struct perf_event_attr *a)
{
	return try_on_cpu(a, a->inherit ? p->target : -1);
}

static void say(struct ws_perf *p, enum ws_severity severity, const char *text)
{
	ws_sink_diagnostic(p->main, severity, "perf", 0, ws_raw_ns(), text);
}

/* What is permitted: each CPU as a whole, or the target's threads, with the kernel or without. 0,
 * or the errno of the last refusal.
 */
static int find_scope(struct ws_perf *p)
{
	const char *test = getenv("WARPSIGHT_PERF"); /* for tests: wide, inherit, none */
	struct perf_event_attr a;
	int error = EACCES;

	for (int step = test && !strcmp(test, "none")	   ? 3
			: test && !strcmp(test, "inherit") ? 1
							   : 0;
	     step < 3; step++) {
		p->set.wide = step == 0;
		p->set.no_kernel = step == 2;
		ws_perf_attr(&a, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, p->set.no_kernel);
		a.inherit = !p->set.wide;
		error = try_attr(p, &a);
		if (!error)
			return 0;
	}
	return error;
}

/* Add the event that paces the samples; false when the machine does not offer it. */
static bool add_pacer(struct ws_perf *p, uint32_t type, uint64_t config, const char *name)
{
	struct ws_perf_event *ev = add_event(p, WS_PERF_SAMPLE, type, config, name);

	ev->time = true;
	ev->clock = type == PERF_TYPE_SOFTWARE;
	pace(p, ev);
	want_stacks(p, ev);
	if (ev->clock || !try_attr(p, &ev->attr))
		return true; /* why a clock is refused is told where all are opened */
	p->set.events_n--;
	return false;
}

/*
 * The clock of the CPU, on machines that count cycles too. Its samples come as the time does that
 * they stand for, whatever the processor's rate is, and each new event of it is right from its
 * first sample. Only records of branches come with a counter alone.
 */
static void choose_pacer(struct ws_perf *p)
{
	const char *test = getenv("WARPSIGHT_PERF_PACER"); /* for tests: cycles */
	bool lbr = p->o.backtrace == WS_BACKTRACE_LBR;

	if ((lbr || (test && !strcmp(test, "cycles"))) &&
	    add_pacer(p, PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, "cpu-cycles"))
		return;
	if (lbr) {
		say(p, WS_WARNING,
		    "--backtrace=lbr: this machine does not offer the processor's records of "
		    "branches; backtraces are made as with "
		    "--backtrace=auto.");
		p->o.backtrace = WS_BACKTRACE_AUTO;
	}
	add_pacer(p, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, "cpu-clock");
}

static void choose_named(struct ws_perf *p, const char *list, bool core)
{
	char text[300];

	for (const char *at = list; at && *at;) {
		size_t n = strcspn(at, ",");
		const struct ws_perf_name *name = ws_perf_find_event(at, n, core);
		struct ws_perf_event *ev =
			name ? add_event(p, WS_PERF_SAMPLE, name->type, name->config, name->name)
			     : NULL;
		int error;

		at += n + (at[n] == ',');
		if (!ev)
			continue;
		pace(p, ev);
		want_stacks(p, ev);
		error = try_attr(p, &ev->attr);
		if (!error)
			continue;
		p->set.events_n--;
		snprintf(text, sizeof(text), "--%s-events: %s cannot be sampled here: %s.",
			 core ? "cpu-core" : "os", name->name, strerror(error));
		say(p, WS_WARNING, text);
	}
}

/* The last event of the set is to follow tracepoint `name`. 0, or -1 with the reason, and the event
 * is gone. */
static int trace(struct ws_perf *p, struct ws_perf_event *ev, const char *name, struct ws_err *e)
{
	int error;

	ev->format = p->tracefs >= 0 ? ws_trace_open(p->tracefs, name, e) : NULL;
	if (p->tracefs < 0)
		snprintf(e->msg, sizeof(e->msg), "%s", p->no_tracefs);
	if (ev->format) {
		ev->attr.config = ws_trace_id(ev->format);
		ev->attr.sample_type |= PERF_SAMPLE_RAW;
		ev->attr.sample_period = 1;
		ev->attr.exclude_idle = 0;
		error = try_attr(p, &ev->attr);
		if (!error)
			return 0;
		ws_fail(e, "tracepoint %s is refused (%s)", name, strerror(error));
	}
	ws_trace_free(ev->format);
	p->set.events_n--;
	return -1;
}

static void choose_wakeups(struct ws_perf *p)
{
	struct ws_err e;
	char text[1400];

	if (!p->o.switches)
		return;
	if (!p->set.wide)
		ws_fail(&e, "cores cannot be watched as a whole (perf_event_paranoid)");
	else if (!trace(p,
			add_event(p, WS_PERF_WAKE, PERF_TYPE_TRACEPOINT, 0, "sched:sched_waking"),
			"sched/sched_waking", &e))
		return;
	snprintf(text, sizeof(text),
		 "Wake-ups are not traced: %s. How long a thread that was woken waited for a core "
		 "('runnable') is not known and "
		 "counts as part of what it waited for; waits for a core after a preemption are "
		 "known. 'warpsight doctor' says "
		 "what to do.",
		 e.msg);
	say(p, WS_INFO, text);
}

static void add_ftrace(void *ctx, const char *name)
{
	struct ws_perf *p = ctx;
	char text[1200];
	struct ws_err e;

	if (p->set.events_n > 256)
		p->ftrace_left_out++;
	else if (trace(p, add_event(p, WS_PERF_FTRACE, PERF_TYPE_TRACEPOINT, 0, name), name, &e)) {
		snprintf(text, sizeof(text), "--ftrace: %s is not recorded: %s.", name, e.msg);
		say(p, WS_WARNING, text);
	}
}

static void choose_ftrace(struct ws_perf *p)
{
	char text[1200];

	if (!p->o.ftrace)
		return;
	if (p->tracefs < 0) { /* once, not for each event */
		snprintf(text, sizeof(text),
			 "--ftrace: nothing is recorded: %s. 'warpsight doctor' says what to do.",
			 p->no_tracefs);
		say(p, WS_WARNING, text);
		return;
	}
	ws_trace_expand(p->tracefs, p->o.ftrace, add_ftrace, p);
	if (p->ftrace_left_out) {
		snprintf(text, sizeof(text),
			 "--ftrace: %u events are not recorded: at most 256 are.",
			 p->ftrace_left_out);
		say(p, WS_WARNING, text);
	}
}

static void choose_tracepoints(struct ws_perf *p)
{
	struct ws_err e;

	p->tracefs = ws_tracefs_open(NULL, &e);
	if (p->tracefs < 0)
		p->no_tracefs = ws_strdup(e.msg);
	choose_wakeups(p);
	choose_ftrace(p);
	if (p->tracefs >= 0)
		close(p->tracefs);
	free(p->no_tracefs);
	p->no_tracefs = NULL;
}

/*
 * A thread starts with a fresh event, which fires after a whole period; and a thread that starts
 * another may be given that one's for its own when the kernel switches between the two. So where
 * threads or processes are started all the time, samples fall at the same places again and again:
 * some code gets several times its share and some none. Events on CPUs have no such ties; they are
 * opened too, disabled, and take over when many threads end young (ws_perf_lived).
 */
static void choose_spare(struct ws_perf *p)
{
	struct ws_perf_event *ev;

	if (!p->by_thread || !p->set.wide)
		return;
	ws_grow(p->set.events, p->set.events_cap, p->set.events_n + 1);
	ev = &p->set.events[p->set.events_n];
	*ev = p->set.events[p->set.events_n - 1];
	ev->role = WS_PERF_SPARE;
	ev->attr.inherit = 0;
	if (!try_attr(p, &ev->attr))
		p->set.events_n++;
}

/* Python's frames come with the samples, where a program may be attached to them. */
static void choose_python(struct ws_perf *p)
{
	struct ws_python *py = p->drain->python;
	struct ws_perf_event *ev;
	uint32_t frequency = 0;
	int error;

	for (size_t i = 0; i < p->set.events_n; i++)
		if (p->set.events[i].time)
			frequency = p->set.events[i].attr.freq ? p->o.frequency
				    : p->set.events[i].clock ? (uint32_t)(1000000000u / p->o.period)
							     : 0;
	if (ws_python_bpf_open(py, frequency))
		return;
	ev = add_event(p, WS_PERF_PYTHON, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_BPF_OUTPUT, "python");
	ev->attr.sample_type |= PERF_SAMPLE_RAW;
	ev->attr.sample_period = 1;
	ev->attr.inherit = 0;
	ev->attr.exclude_idle = 0;
	error = try_on_cpu(&ev->attr, -1);
	if (!error)
		return;
	p->set.events_n--;
	ws_python_bpf_close(py);
}

static size_t event_of_role(const struct ws_perf_set *s, enum ws_perf_role role)
{
	size_t i = 0;

	while (i < s->events_n && s->events[i].role != role)
		i++;
	return i;
}

static bool attach_python_to(struct ws_perf *p, size_t sampler, size_t output)
{
	for (size_t i = 0; i < p->set.rings_n; i++) {
		const struct ws_perf_ring *r = &p->set.rings[i];

		if (ws_python_bpf_attach(p->drain->python, r->fds[sampler], r->fds[output], r->cpu))
			return false;
	}
	return true;
}

static void attach_python(struct ws_perf *p)
{
	struct ws_perf_set *s = &p->set;
	size_t output = event_of_role(s, WS_PERF_PYTHON);

	if (output == s->events_n)
		return;
	for (size_t i = 0; i < s->events_n; i++)
		if (s->events[i].time && !attach_python_to(p, i, output)) {
			ws_python_bpf_close(p->drain->python);
			return;
		}
	ws_perf_switch(s, WS_PERF_PYTHON, true);
}

/*
 * Samples of the target's threads by events of their own also where whole CPUs may be looked at?
 * The clock of an event on a CPU goes on when the CPU idles, and on a virtual machine of many CPUs
 * that slows those that work (by 5 % on one of 16). Such an event is inherited for each CPU by each
 * new thread, though, which takes microseconds each.
 */
static bool samples_by_thread(const struct ws_perf *p)
{
	size_t n;

	free(ws_perf_cpus(&n));
	return p->o.sample == WS_SCOPE_TREE && n <= MANY_CPUS;
}

/* Their ids in the table perf_event. */
static void number_events(struct ws_perf *p)
{
	uint32_t row = 0;

	for (size_t i = 0; i < p->set.events_n; i++) {
		struct ws_perf_event *ev = &p->set.events[i];

		if (ev->role == WS_PERF_SAMPLE)
			ev->row = ++row;
		else if (ev->role == WS_PERF_SPARE) /* the event before it, in another way */
			ev->row = row;
		if (ev->role != WS_PERF_SAMPLE || !ev->time)
			continue;
		p->timer_row = ev->row;
		p->timer_is_clock = ev->clock;
		p->timer_ns = ev->attr.freq ? 1000000000u / ev->attr.sample_freq
			      : ev->clock   ? ev->attr.sample_period
					    : 0;
	}
}

static void forget_events(struct ws_perf *p)
{
	for (size_t i = 0; i < p->set.events_n; i++)
		ws_trace_free(p->set.events[i].format);
	p->set.events_n = 0;
}

static void choose_events(struct ws_perf *p)
{
	p->by_thread = samples_by_thread(p);
	/* An event more costs nothing on a CPU as a whole, but microseconds for each thread that
	 * inherits it. */
	p->combined = !p->set.wide && p->o.sample && !p->o.later;
	if (!p->combined) {
		struct ws_perf_event *ev = add_event(p, WS_PERF_TRACK, PERF_TYPE_SOFTWARE,
						     PERF_COUNT_SW_DUMMY, "track");

		ev->attr.exclude_kernel = p->set.no_kernel;
		track(p, ev);
	}
	if (p->o.sample) {
		choose_pacer(p);
		choose_spare(p);
		if (p->combined)
			track(p, &p->set.events[0]);
		if (!p->o.count_events) {
			choose_named(p, p->o.core_events, true);
			choose_named(p, p->o.os_events, false);
		}
		choose_python(p);
	}
	if (p->o.ftrace || p->o.switches)
		choose_tracepoints(p);
	number_events(p);
}

/* ---- what is said ---- */

static void say_refused(struct ws_perf *p)
{
	char text[600], paranoid[16] = "";
	FILE *f = fopen("/proc/sys/kernel/perf_event_paranoid", "re");

	if (f && !fgets(paranoid, sizeof(paranoid), f))
		paranoid[0] = 0;
	if (f)
		fclose(f);
	paranoid[strcspn(paranoid, "\n")] = 0;
	snprintf(text, sizeof(text),
		 "perf events are refused (%s%s%s): %s%s. 'warpsight doctor' says what to do.",
		 strerror(p->refused), *paranoid ? "; perf_event_paranoid is " : "", paranoid,
		 !p->o.sample	? ""
		 : p->o.signals ? "CPU samples are taken by a timer signal in the program's threads"
				: "the CPU is not sampled",
		 p->o.switches ? p->o.sample ? ", and context switches are not recorded"
					     : "context switches are not recorded"
			       : "");
	say(p, WS_WARNING, text);
}

static const char *scope_name(enum ws_perf_scope s)
{
	return s == WS_SCOPE_SYSTEM ? "system-wide" : s == WS_SCOPE_TREE ? "process-tree" : "none";
}

static void describe_signals(const struct ws_perf *p, struct ws_sink *sink)
{
	struct ws_row_perf_event row = {.id = 1,
					.type = PERF_TYPE_SOFTWARE,
					.config = PERF_COUNT_SW_TASK_CLOCK,
					.frequency = p->o.frequency,
					.period = p->o.period};

	row.name = ws_sink_string(sink, "timer-signal");
	ws_writer_add(sink->writer, WS_TABLE_perf_event, &row);
}

void ws_perf_describe(struct ws_perf *p, struct ws_sink *sink)
{
	static const char *const backtraces[] = {"auto", "fp", "dwarf", "lbr", "none"};

	if (!p || sink->perf_described)
		return;
	sink->perf_described = true;
	ws_sink_meta(sink, "session.sample", "%s", scope_name(p->o.sample));
	ws_sink_meta(sink, "session.cpuctxsw", "%s",
		     p->active ? scope_name(p->o.switches) : "none");
	ws_sink_meta(sink, "session.backtrace", "%s", backtraces[p->o.backtrace]);
	if (p->active || p->refused)
		ws_sink_meta(
			sink, "perf.scope", "%s",
			!p->active ? "refused"
			: p->set.wide
				? p->by_thread
					  ? "every CPU; samples inherited by the target's threads"
					  : "every CPU"
				: "inherited by the target's threads");
	if (p->active)
		ws_sink_meta(sink, "perf.ring_bytes", "%zu", p->set.ring_bytes);
	if (p->o.signals && !p->active)
		describe_signals(p, sink);
	for (size_t i = 0; i < p->set.events_n; i++) {
		const struct ws_perf_event *ev = &p->set.events[i];
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

static void open_counter(struct ws_perf *p, const struct ws_perf_name *name, uint32_t cpu)
{
	struct perf_event_attr a = {.type = name->type, .size = sizeof(a), .config = name->config};
	int fd = (int)syscall(SYS_perf_event_open, &a, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);
	struct ws_row_counter row = {.cpu = cpu};
	char text[300];

	if (fd < 0) {
		snprintf(text, sizeof(text),
			 "--event-sample: %s cannot be counted on whole CPUs: %s.", name->name,
			 strerror(errno));
		say(p, WS_WARNING, text);
		return;
	}
	ws_grow(p->counters, p->counters_cap, p->counters_n + 1);
	row.id = (uint32_t)++p->counters_n;
	p->counters[p->counters_n - 1] = (struct ws_perf_counter){.fd = fd, .row = row.id};
	row.device = WS_NO_U32;
	row.group = ws_sink_string(p->main, "CPU events");
	row.name = ws_sink_string(p->main, name->name);
	row.unit = ws_sink_string(p->main, "1/s");
	ws_writer_add(p->main->writer, WS_TABLE_counter, &row);
}

static void open_counters(struct ws_perf *p, const char *list, bool core)
{
	size_t cpus_n;
	uint32_t *cpus = ws_perf_cpus(&cpus_n);

	for (const char *at = list; at && *at;) {
		size_t n = strcspn(at, ",");
		const struct ws_perf_name *name = ws_perf_find_event(at, n, core);

		for (size_t i = 0; name && i < cpus_n; i++)
			open_counter(p, name, cpus[i]);
		at += n + (at[n] == ',');
	}
	free(cpus);
}

static void count(struct ws_perf *p, uint64_t now)
{
	if (!p->counters_n || now - p->last_count < p->o.count_ns || !p->from)
		return;
	p->last_count = now;
	for (size_t i = 0; i < p->counters_n; i++) {
		struct ws_perf_counter *c = &p->counters[i];
		struct ws_row_counter_value row = {.start = c->last_time, .counter = c->row};
		uint64_t v;

		now = ws_raw_ns();
		if (read(c->fd, &v, sizeof(v)) != sizeof(v))
			continue;
		if (c->seen && now > c->last_time) {
			row.value = (double)(v - c->last) * 1e9 / (double)(now - c->last_time);
			ws_writer_add(p->main->writer, WS_TABLE_counter_value, &row);
		}
		c->seen = true;
		c->last = v;
		c->last_time = now;
	}
}

/* ---- opening ---- */

/* How long the recorder may stay away before a busy CPU's samples fill a quarter of its ring. */
static void choose_idle(struct ws_perf *p)
{
	double bytes = 256, rate = 1;

	for (size_t i = 0; i < p->set.events_n; i++) {
		const struct perf_event_attr *a = &p->set.events[i].attr;

		if (p->set.events[i].role == WS_PERF_SAMPLE)
			rate += a->freq ? (double)a->sample_freq : 1e9 / (double)a->sample_period;
		if (a->sample_stack_user + 600.0 > bytes)
			bytes = a->sample_stack_user + 600.0;
	}
	rate = (double)p->set.ring_bytes / 4 / (bytes * rate) * 1e9;
	p->idle_ns = rate > IDLE_NS ? IDLE_NS : rate < 500000 ? 500000 : (uint64_t)rate;
}

/* The limit may fall between the look at it and the opening, which then fails. */
static void choose_and_open(struct ws_perf *p)
{
	for (int tries = 0; tries < 3; tries++) {
		p->limit = ws_perf_limit();
		ws_perf_limit_frequency(p);
		forget_events(p);
		ws_python_bpf_close(p->drain->python);
		choose_events(p);
		p->refused = ws_perf_open_set(&p->set, p->target);
		if (p->refused != EINVAL || ws_perf_limit() >= p->limit)
			return;
	}
}

static void open_all(struct ws_perf *p)
{
	p->refused = find_scope(p);
	if (!p->refused)
		choose_and_open(p);
	if (p->refused) {
		p->set.events_n = 0;
		ws_python_bpf_close(p->drain->python);
		say_refused(p);
		return;
	}
	p->active = true;
	attach_python(p);
	choose_idle(p);
	if ((p->o.sample == WS_SCOPE_SYSTEM || p->o.switches == WS_SCOPE_SYSTEM) && !p->set.wide) {
		say(p, WS_WARNING,
		    "Nothing may be seen beyond the target's processes (perf_event_paranoid, see "
		    "'warpsight doctor'): the scope is "
		    "the process tree.");
		p->o.sample = p->o.sample ? WS_SCOPE_TREE : WS_SCOPE_NONE;
		p->o.switches = p->o.switches ? WS_SCOPE_TREE : WS_SCOPE_NONE;
	}
	if (p->set.no_kernel)
		say(p, WS_INFO,
		    "The kernel may not be looked into (perf_event_paranoid): samples are of user "
		    "space only.");
	if (p->set.wide)
		ws_perf_switch(&p->set, WS_PERF_TRACK, true);
}

struct ws_perf *ws_perf_open(const struct ws_perf_opts *o, pid_t target, struct ws_drain *drain,
			     struct ws_sink *main)
{
	struct ws_perf *p;

	if (!o->sample && !o->switches && !o->ftrace && !o->count_events) {
		ws_sink_meta(main, "session.sample", "none");
		ws_sink_meta(main, "session.cpuctxsw", "none");
		return NULL;
	}
	p = ws_calloc(1, sizeof(*p));
	p->o = *o;
	p->drain = drain;
	p->main = main;
	p->target = target;
	p->idle_ns = IDLE_NS;
	p->wanted_frequency = o->frequency;
	if (!p->o.samples_per_backtrace)
		p->o.samples_per_backtrace = 1;
	if (o->count_events) {
		open_counters(p, o->core_events, true);
		open_counters(p, o->os_events, false);
	}
	if (o->sample || o->switches || o->ftrace)
		open_all(p);
	ws_perf_describe(p, main);
	ws_perf_tree_init(p);
	return p;
}

bool ws_perf_wants_stack(const struct ws_perf *p, uint32_t nth)
{
	return p && p->o.backtrace != WS_BACKTRACE_NONE && nth % p->o.samples_per_backtrace == 0;
}

bool ws_perf_active(const struct ws_perf *p)
{
	return p && p->active;
}

bool ws_perf_refused(void)
{
	struct ws_perf self = {0}; /* target 0: this process */

	return find_scope(&self) != 0;
}

/* ---- samples by CPU instead of by thread ---- */

bool ws_perf_shift(struct ws_perf *p)
{
	size_t spare = event_of_role(&p->set, WS_PERF_SPARE);

	if (spare == p->set.events_n || p->over)
		return false;
	if (!p->shifted) {
		p->shifted = true;
		ws_perf_close_event(&p->set, spare - 1);
		ws_perf_switch(&p->set, WS_PERF_SPARE, p->from != 0);
	}
	return true;
}

static void say_brief(struct ws_perf *p)
{
	p->shifted = true; /* as far as it goes */
	if (p->by_thread || !p->set.wide)
		say(p, WS_INFO,
		    "Many threads live for less than 50 ms. They and those that start them are "
		    "sampled by events of their own, "
		    "which "
		    "favour some of their code: read shares of theirs with care. A higher "
		    "--sampling-frequency helps; so do rights "
		    "to watch whole cores (see 'warpsight doctor').");
}

void ws_perf_lived(struct ws_perf *p, uint64_t start, uint64_t end)
{
	if (p->shifted || p->over || !p->o.sample || !p->from || end < start ||
	    end - start > BRIEF_NS)
		return;
	if (end - p->brief_since > BRIEF_SPAN) {
		p->brief_since = end;
		p->brief_n = 0;
	}
	if (++p->brief_n > BRIEF_MOST && !ws_perf_shift(p))
		say_brief(p);
}

/* ---- rounds ---- */

static void take_one(void *ctx, struct ws_perf_ring *ring, const void *rec, size_t size)
{
	struct ws_perf *p = ctx;

	if (p->held_n)
		ws_perf_put_held(p, ws_perf_time(rec, size));
	p->ring = ring;
	ws_perf_record(p, rec, size, false);
	p->ring = NULL;
}

static void take(struct ws_perf *p, uint64_t horizon, bool all)
{
	if (!p->active || p->over)
		return;
	ws_perf_expect_held(p, horizon);
	ws_perf_take(&p->set, all ? UINT64_MAX : horizon, take_one, p);
	if (p->waiting)
		ws_perf_settle_waiting(p, horizon, all);
	ws_perf_put_held(p, all ? UINT64_MAX : horizon);
	p->drain->keep_from = horizon; /* threads that ended before are asked for no more */
}

void ws_perf_begin(struct ws_perf *p, uint64_t time)
{
	if (!p)
		return;
	p->from = time;
	if (!p->active)
		return;
	if (!p->combined)
		ws_perf_switch(&p->set, WS_PERF_SAMPLE, true);
	if (p->shifted)
		ws_perf_switch(&p->set, WS_PERF_SPARE, true);
	ws_perf_switch(&p->set, WS_PERF_WAKE, true);
	ws_perf_switch(&p->set, WS_PERF_FTRACE, true);
}

static void close_spans(struct ws_perf *p, uint64_t time)
{
	for (size_t i = 0; i < p->threads.size; i++) {
		struct ws_perf_thread *t =
			p->threads.used[i] ? (void *)(uintptr_t)p->threads.slots[i].value : NULL;

		if (!t)
			continue;
		ws_perf_off(p, t, time, WS_AFTER_UNKNOWN);
		ws_perf_settle_time(p, t);
	}
}

void ws_perf_end(struct ws_perf *p, uint64_t time)
{
	if (!p || p->over || p->to)
		return;
	p->to = time;
	take(p, ws_raw_ns(), true);
	close_spans(p, time);
	for (int role = WS_PERF_TRACK; p->active && role <= WS_PERF_FTRACE; role++)
		ws_perf_switch(&p->set, (enum ws_perf_role)role, false);
	p->over = true;
}

void ws_perf_round(struct ws_perf *p, uint64_t since)
{
	if (!p || p->over)
		return;
	take(p, since - HORIZON_NS, false);
	count(p, ws_raw_ns());
	if (p->active)
		ws_perf_look_at_waits(p, ws_raw_ns());
}

uint64_t ws_perf_patience(const struct ws_perf *p)
{
	if (!p || !p->active || p->over)
		return IDLE_NS;
	return ws_perf_fullness(&p->set) > FULL_ENOUGH ? 0 : p->idle_ns;
}

static void say_losses(struct ws_perf *p)
{
	if (p->lost)
		ws_sink_loss(p->main, 0, "CPU samples and context switches", p->lost,
			     "perf's buffers were full: the recorder did not come round in time");
	if (p->set.bad)
		ws_sink_loss(p->main, 0, "records of perf", p->set.bad, "they could not be read");
}

void ws_perf_finish(struct ws_perf *p, uint64_t now)
{
	if (!p)
		return;
	ws_perf_end(p, p->to ? p->to : now);
	say_losses(p);
	ws_perf_say_rate(p);
}

void ws_perf_free(struct ws_perf *p)
{
	if (!p)
		return;
	ws_perf_tree_free(p);
	ws_perf_close_set(&p->set);
	forget_events(p);
	free(p->set.events);
	for (size_t i = 0; i < p->counters_n; i++)
		close(p->counters[i].fd);
	free(p->counters);
	free(p->held);
	free(p);
}
