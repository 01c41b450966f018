/* wait_calls.c - see wait_calls.h. */
#include "record/wait_calls.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/mem.h"
#include "record/wait_calls_private.h"

#define PROCESSES 4096u /* with hooks at a time; reports about further ones are ignored */

/* Offset of the first argument in struct pt_regs, which the number of the call follows. */
#if defined(__x86_64__)
#define REGISTERS_AT 112u
#else
#define REGISTERS_AT 272u
#endif

enum { MAPS = WS_WAIT_CALLS_const_ns_device };

struct ws_wait_calls {
	int maps[MAPS], program; /* descriptors; negative: none */
};

static bool load_program(struct ws_wait_calls *calls)
{
	struct ws_bpf_value values[WS_WAIT_CALLS_SYMBOLS] = {{0}};
	uint64_t device = 0;

	calls->maps[WS_WAIT_CALLS_map_hooked] = ws_bpf_map_new(BPF_MAP_TYPE_HASH, 4, 4, PROCESSES);
	calls->maps[WS_WAIT_CALLS_map_output] = ws_bpf_map_new(
		BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 4, (uint32_t)sysconf(_SC_NPROCESSORS_CONF));
	for (size_t i = 0; i < MAPS; i++) {
		if (calls->maps[i] < 0)
			return false;
		values[i] = (struct ws_bpf_value){(uint64_t)calls->maps[i], true};
	}
	values[WS_WAIT_CALLS_const_ns_inode].value = ws_bpf_pid_namespace(&device);
	values[WS_WAIT_CALLS_const_ns_device].value = device;
	values[WS_WAIT_CALLS_const_registers_at].value = REGISTERS_AT;
	calls->program =
		ws_bpf_load(ws_wait_calls_programs, BPF_PROG_TYPE_PERF_EVENT, values, NULL, 0);
	return calls->program >= 0;
}

struct ws_wait_calls *ws_wait_calls_open(void)
{
	const char *test = getenv("WARPSIGHT_WAIT_CALLS"); /* for tests: look */
	struct ws_wait_calls *calls;

	if (!ws_wait_calls_programs[0].name || (test && !strcmp(test, "look")))
		return NULL;
	calls = ws_calloc(1, sizeof(*calls));
	for (size_t i = 0; i < MAPS; i++)
		calls->maps[i] = -1;
	calls->program = -1;
	if (load_program(calls))
		return calls;
	ws_wait_calls_close(calls);
	return NULL;
}

void ws_wait_calls_close(struct ws_wait_calls *calls)
{
	if (!calls)
		return;
	if (calls->program >= 0)
		close(calls->program);
	for (size_t i = 0; i < MAPS; i++)
		if (calls->maps[i] >= 0)
			close(calls->maps[i]);
	free(calls);
}

int ws_wait_calls_attach(struct ws_wait_calls *calls, int counter, int output, uint32_t cpu)
{
	int error = ws_bpf_map_set(calls->maps[WS_WAIT_CALLS_map_output], &cpu, &output);

	if (error)
		return error;
	return ioctl(counter, PERF_EVENT_IOC_SET_BPF, calls->program) ? -errno : 0;
}

void ws_wait_calls_hook(struct ws_wait_calls *calls, uint32_t pid, bool hooked)
{
	static const uint32_t one = 1;

	if (!calls)
		return;
	if (hooked)
		ws_bpf_map_set(calls->maps[WS_WAIT_CALLS_map_hooked], &pid, &one);
	else
		ws_bpf_map_take(calls->maps[WS_WAIT_CALLS_map_hooked], &pid);
}

bool ws_wait_calls_read(const void *raw, size_t size, struct ws_wait_call *call)
{
	if (size < sizeof(*call))
		return false;
	memcpy(call, raw, sizeof(*call));
	return call->kind == WS_WAIT_CALL;
}
