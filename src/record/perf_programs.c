/*
 * perf_programs.c - attaches the programs that run in the kernel to the events on each core: Python
 * frames, calls that threads wait in, system calls.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "record/perf_private.h"
#include "record/python.h"

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

void ws_perf_refuse_syscalls(struct ws_perf *perf, const char *why)
{
	char text[1400];

	snprintf(text, sizeof(text),
		 "--trace=syscall: system calls are not recorded: %s. It takes root, or the "
		 "capabilities BPF and PERFMON and a tracefs that can be read; --trace=osrt needs "
		 "no "
		 "rights. 'warpsight doctor' says what to do.",
		 why);
	ws_perf_say(perf, WS_WARNING, text);
	ws_syscalls_close(perf->syscalls);
	perf->syscalls = NULL;
}

static void open_syscalls(struct ws_perf *perf)
{
	struct ws_err err;

	perf->syscalls = ws_syscalls_open((uint32_t)perf->target, &err);
	if (!perf->syscalls)
		ws_perf_refuse_syscalls(perf, err.msg);
}

void ws_perf_open_programs(struct ws_perf *perf)
{
	if (perf->set.wide && perf->options.switches && !perf->options.attach &&
	    ws_perf_count_cpus() <= WS_PERF_MANY_CPUS)
		perf->wait_calls = ws_wait_calls_open();
	if (perf->options.syscalls)
		open_syscalls(perf);
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
	ws_perf_refuse_syscalls(perf, error ? strerror(-error) : err.msg);
	return false;
}

void ws_perf_attach_programs(struct ws_perf *perf)
{
	size_t output = ws_perf_find_role(&perf->set, WS_PERF_OUTPUT);
	bool used = false;

	if (output == perf->set.events_n) {
		ws_python_bpf_close(perf->drain->python);
		ws_perf_stop_calls(perf);
		if (perf->syscalls)
			ws_perf_refuse_syscalls(perf, "the kernel gives programs no buffer");
		return;
	}
	used |= attach_python(perf, output);
	used |= attach_wait_calls(perf, output);
	used |= attach_syscalls(perf, output);
	if (!used)
		ws_perf_close_event(&perf->set, output);
}

/* The programs run on the events of the first process; attach them to those of the last one too. */
void ws_perf_attach_programs_to_last(struct ws_perf *perf)
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
