/*
 * wait_calls.bpf.c - reports in which system call a thread leaves its core, so that even waits of a
 * tenth of a millisecond have a name in programs without hooks.
 *
 * It runs on the event that counts context switches of the recorded threads, in the thread that
 * leaves its core. Compiled for BPF by clang, like python_frames.bpf.c, which says how;
 * wait_calls.c loads it. Needs Linux 5.15 with type descriptions (BTF).
 */
#include <stddef.h>

#include "record/bpf/wait_calls.h"

#define X(name) extern const char map_##name[] __attribute__((weak));
WS_WAIT_CALLS_MAPS(X)
#undef X
#define X(name) extern const char const_##name[] __attribute__((weak));
WS_WAIT_CALLS_CONSTANTS(X)
#undef X
#define CONSTANT(name) ((uint64_t)const_##name)
#define THIS_CPU 0xffffffffu /* BPF_F_CURRENT_CPU */

struct pid_in_namespace {
	uint32_t tid, pid; /* the kernel's names are pid and tgid */
};

struct call_registers {
	uint64_t first;
	int32_t number; /* negative outside of system calls */
	uint32_t rest;
};

/* The kernel's helpers, by their numbers in linux/bpf.h. */
static void *(*const look_up)(const void *map, const void *key) = (void *)1;
static uint64_t (*const get_pid_tgid)(void) = (void *)14;
static long (*const write_out)(void *context, const void *map, uint64_t flags, const void *bytes,
			       uint64_t size) = (void *)25;
static long (*const read_kernel)(void *to, uint32_t size, const void *from) = (void *)113;
static long (*const get_pid_in_namespace)(uint64_t device, uint64_t inode,
					  struct pid_in_namespace *out,
					  uint64_t size) = (void *)120;
static void *(*const get_current_task)(void) = (void *)158;
static const char *(*const get_registers)(void *task) = (void *)175;

static inline __attribute__((always_inline)) int is_hooked(void)
{
	struct pid_in_namespace ids;
	uint32_t pid = (uint32_t)(get_pid_tgid() >> 32);

	if (CONSTANT(ns_inode)) {
		if (get_pid_in_namespace(CONSTANT(ns_device), CONSTANT(ns_inode), &ids,
					 sizeof(ids)))
			return 0;
		pid = ids.pid;
	}
	return look_up(map_hooked, &pid) != NULL;
}

/* The event itself makes no record: the kernel's own record of the switch follows. */
__attribute__((section("program/leave"), used)) int leave(void *context)
{
	struct ws_wait_call call = {.kind = WS_WAIT_CALL};
	struct call_registers registers;

	if (is_hooked())
		return 0;
	if (read_kernel(&registers, sizeof(registers),
			get_registers(get_current_task()) + CONSTANT(registers_at)) ||
	    registers.number < 0)
		return 0;
	call.number = (uint32_t)registers.number;
	call.first = registers.first;
	write_out(context, map_output, THIS_CPU, &call, sizeof(call));
	return 0;
}
