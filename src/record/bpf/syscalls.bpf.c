/*
 * syscalls.bpf.c - records each system call of a process tree: its number, how long it took and
 * what it returned, in one record when it returns.
 *
 * `enter` and `leave` run at every system call of the machine, and first check whether the process
 * is in the tree. `fork` adds the children of those before they run, so that none of their calls is
 * missed. A core that makes too many calls stops recording for a while: calls left out are only
 * counted, which costs the program little. Compiled for BPF by clang, like python_frames.bpf.c,
 * which says how; syscalls.c loads it.
 */
#include <stddef.h>

#include "record/bpf/syscalls.h"

#define X(name) extern const char map_##name[] __attribute__((weak));
WS_SYSCALLS_MAPS(X)
#undef X
#define X(name) extern const char const_##name[] __attribute__((weak));
WS_SYSCALLS_CONSTANTS(X)
#undef X
#define CONSTANT(name) ((uint64_t)const_##name)
#define THIS_CPU 0xffffffffu /* BPF_F_CURRENT_CPU */
#define INLINE inline __attribute__((always_inline))

struct pid_in_namespace {
	uint32_t tid, pid; /* the kernel's names are pid and tgid */
};

/* The kernel's helpers, by their numbers in linux/bpf.h. */
static void *(*const look_up)(const void *map, const void *key) = (void *)1;
static long (*const update)(const void *map, const void *key, const void *value,
			    uint64_t flags) = (void *)2;
static long (*const remove)(const void *map, const void *key) = (void *)3;
static uint64_t (*const get_time)(void) = (void *)5;
static uint64_t (*const get_pid_tgid)(void) = (void *)14;
static long (*const write_out)(void *context, const void *map, uint64_t flags, const void *bytes,
			       uint64_t size) = (void *)25;
static long (*const read_kernel)(void *to, uint32_t size, const void *from) = (void *)113;
static long (*const get_pid_in_namespace)(uint64_t device, uint64_t inode,
					  struct pid_in_namespace *out,
					  uint64_t size) = (void *)120;

/* Whether the process is the first of the tree, which is then in the map. */
static INLINE int is_target(uint32_t pid)
{
	struct pid_in_namespace ids;
	uint32_t one = 1, seen = pid;

	if (CONSTANT(ns_inode)) {
		if (get_pid_in_namespace(CONSTANT(ns_device), CONSTANT(ns_inode), &ids,
					 sizeof(ids)))
			return 0;
		seen = ids.pid;
	}
	if (seen != CONSTANT(target))
		return 0;
	update(map_processes, &pid, &one, 0);
	return 1;
}

/* Whether the core may record one more call now. */
static INLINE int may_record(uint64_t now)
{
	uint32_t zero = 0;
	struct ws_syscall_rate *rate = look_up(map_rates, &zero);

	if (!rate)
		return 0;
	if (now - rate->start > WS_SYSCALL_WINDOW_NS) {
		rate->start = now;
		rate->count = 0;
	}
	if (rate->count++ < WS_SYSCALL_WINDOW_MOST)
		return 1;
	rate->left_out++;
	return 0;
}

__attribute__((section("program/enter"), used)) int enter(const uint64_t *arguments)
{
	uint64_t thread = get_pid_tgid();
	uint32_t pid = (uint32_t)(thread >> 32);
	struct ws_syscall_begun begun;

	if (!look_up(map_processes, &pid) && !is_target(pid))
		return 0;
	begun.number = arguments[1];
	begun.start = get_time();
	if (may_record(begun.start))
		update(map_begun, &thread, &begun, 0);
	return 0;
}

__attribute__((section("program/leave"), used)) int leave(uint64_t *arguments)
{
	uint64_t thread = get_pid_tgid();
	struct ws_syscall_begun *begun = look_up(map_begun, &thread);
	struct ws_syscall_record record = {.kind = WS_SYSCALL_RECORD};

	if (!begun)
		return 0;
	record.number = (uint32_t)begun->number;
	record.duration = get_time() - begun->start;
	record.result = (int64_t)arguments[1];
	remove(map_begun, &thread);
	write_out(arguments, map_output, THIS_CPU, &record, sizeof(record));
	return 0;
}

/* The ids of new threads are added too, which is harmless: no process has the same id. */
__attribute__((section("program/fork"), used)) int fork(const char *context)
{
	uint32_t pid = (uint32_t)(get_pid_tgid() >> 32), child, one = 1;

	if (!look_up(map_processes, &pid) && !is_target(pid))
		return 0;
	if (!read_kernel(&child, sizeof(child), context + CONSTANT(child_at)))
		update(map_processes, &child, &one, 0);
	return 0;
}
