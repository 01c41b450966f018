/* syscalls.c - see syscalls.h. */
#include "record/syscalls.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/choose.h"
#include "base/mem.h"
#include "base/tracefs.h"
#include "record/perf_private.h"
#include "record/syscalls_private.h"

enum {
	MAPS = WS_SYSCALLS_const_ns_device,
	PROCESSES = 16384,
	THREADS = 65536,
	PROGRAMS = 3,	  /* enter, leave, fork: in the order of the object */
	MOST_CORES = 8192 /* as many as Linux can be built for */
};

struct ws_syscalls {
	int maps[MAPS], programs[PROGRAMS], points[PROGRAMS]; /* descriptors; negative: none */
	uint64_t fork_id, child_at; /* of the tracepoint sched_process_fork */
	uint64_t left_out;	    /* at the last question */
	bool in_namespace;
};

/* ---- names ---- */

const char *ws_name_syscall(uint32_t number)
{
	static const struct {
		uint32_t number;
		const char *name;
	} names[] = {
#include "record/syscall_names.inc"
	};

	for (size_t i = 0; i < WS_COUNT(names); i++)
		if (names[i].number == number)
			return names[i].name;
	return NULL;
}

/* ---- loading ---- */

static int find_fork(struct ws_syscalls *calls, struct ws_err *err)
{
	int folder = ws_tracefs_open(NULL, err);
	struct ws_trace_format *format;
	uint32_t at = 0;

	if (folder < 0)
		return -1;
	format = ws_trace_open(folder, "sched/sched_process_fork", err);
	close(folder);
	if (!format)
		return -1;
	calls->fork_id = ws_trace_id(format);
	if (!ws_trace_offset(format, "child_pid", &at)) {
		ws_trace_free(format);
		return ws_fail(err, "tracepoint sched/sched_process_fork has no field child_pid");
	}
	calls->child_at = at;
	ws_trace_free(format);
	return 0;
}

static bool make_maps(struct ws_syscalls *calls)
{
	calls->maps[WS_SYSCALLS_map_processes] =
		ws_bpf_map_new(BPF_MAP_TYPE_LRU_HASH, 4, 4, PROCESSES);
	calls->maps[WS_SYSCALLS_map_begun] =
		ws_bpf_map_new(BPF_MAP_TYPE_LRU_HASH, 8, sizeof(struct ws_syscall_begun), THREADS);
	calls->maps[WS_SYSCALLS_map_rates] =
		ws_bpf_map_new(BPF_MAP_TYPE_PERCPU_ARRAY, 4, sizeof(struct ws_syscall_rate), 1);
	calls->maps[WS_SYSCALLS_map_output] = ws_bpf_map_new(
		BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 4, (uint32_t)sysconf(_SC_NPROCESSORS_CONF));
	for (size_t i = 0; i < MAPS; i++)
		if (calls->maps[i] < 0) {
			errno = -calls->maps[i];
			return false;
		}
	return true;
}

static int load_programs(struct ws_syscalls *calls, uint32_t target, struct ws_err *err)
{
	static const enum bpf_prog_type types[PROGRAMS] = {BPF_PROG_TYPE_RAW_TRACEPOINT,
							   BPF_PROG_TYPE_RAW_TRACEPOINT,
							   BPF_PROG_TYPE_TRACEPOINT};
	struct ws_bpf_value values[WS_SYSCALLS_SYMBOLS] = {{0}};
	uint64_t device = 0;

	if (!make_maps(calls))
		return ws_fail_errno(err, "the kernel makes no map for programs");
	for (size_t i = 0; i < MAPS; i++)
		values[i] = (struct ws_bpf_value){(uint64_t)calls->maps[i], true};
	values[WS_SYSCALLS_const_ns_inode].value = ws_bpf_pid_namespace(&device);
	values[WS_SYSCALLS_const_ns_device].value = device;
	values[WS_SYSCALLS_const_target].value = target;
	values[WS_SYSCALLS_const_child_at].value = calls->child_at;
	calls->in_namespace = values[WS_SYSCALLS_const_ns_inode].value != 0;
	for (size_t i = 0; i < PROGRAMS; i++) {
		calls->programs[i] =
			ws_bpf_load(&ws_syscalls_programs[i], types[i], values, NULL, 0);
		if (calls->programs[i] < 0) {
			errno = -calls->programs[i];
			return ws_fail_errno(err, "the kernel takes no program for tracepoints");
		}
	}
	return 0;
}

struct ws_syscalls *ws_syscalls_open(uint32_t target, struct ws_err *err)
{
	const char *test = getenv("WARPSIGHT_SYSCALLS"); /* for tests: none */
	struct ws_syscalls *calls;

	if (!ws_syscalls_programs[0].name || (test && !strcmp(test, "none"))) {
		ws_fail(err, "this build has no programs for the kernel (it was made without "
			     "clang)");
		return NULL;
	}
	calls = ws_calloc(1, sizeof(*calls));
	memset(calls->maps, -1, sizeof(calls->maps));
	memset(calls->programs, -1, sizeof(calls->programs));
	memset(calls->points, -1, sizeof(calls->points));
	if (!find_fork(calls, err) && !load_programs(calls, target, err))
		return calls;
	ws_syscalls_close(calls);
	return NULL;
}

static void close_each(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

void ws_syscalls_close(struct ws_syscalls *calls)
{
	if (!calls)
		return;
	close_each(calls->points, PROGRAMS);
	close_each(calls->programs, PROGRAMS);
	close_each(calls->maps, MAPS);
	free(calls);
}

/* ---- attaching ---- */

int ws_syscalls_attach(struct ws_syscalls *calls, int output, uint32_t cpu)
{
	return ws_bpf_map_set(calls->maps[WS_SYSCALLS_map_output], &cpu, &output);
}

/* A tracepoint event of any core has its program run on all. -errno on failure. */
static int attach_to_tracepoint(uint64_t id, int program)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_TRACEPOINT,
				       .size = sizeof(attr),
				       .config = id,
				       .sample_period = 1};
	int fd = (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	int error;

	if (fd < 0)
		return -errno;
	if (!ioctl(fd, PERF_EVENT_IOC_SET_BPF, program))
		return fd;
	error = -errno;
	close(fd);
	return error;
}

int ws_syscalls_start(struct ws_syscalls *calls, struct ws_err *err)
{
	static const char *const names[] = {"sys_enter", "sys_exit"};

	/* Forks first: a child of the tree is known before its first call. */
	calls->points[2] = attach_to_tracepoint(calls->fork_id, calls->programs[2]);
	for (size_t i = 0; i < WS_COUNT(names) && calls->points[2] >= 0; i++) {
		calls->points[i] = ws_bpf_open_raw_tracepoint(names[i], calls->programs[i]);
		if (calls->points[i] < 0) {
			errno = -calls->points[i];
			return ws_fail_errno(err, "no program can be attached to %s", names[i]);
		}
	}
	if (calls->points[2] >= 0)
		return 0;
	errno = -calls->points[2];
	return ws_fail_errno(err, "no program can be attached to sched_process_fork");
}

/* The programs know processes by their first numbers, which are not known in another namespace. */
void ws_syscalls_add(struct ws_syscalls *calls, uint32_t pid)
{
	static const uint32_t one = 1;

	if (calls && !calls->in_namespace)
		ws_bpf_map_set(calls->maps[WS_SYSCALLS_map_processes], &pid, &one);
}

uint64_t ws_syscalls_take_left_out(struct ws_syscalls *calls)
{
	static const uint32_t zero = 0;
	size_t cores = (size_t)ws_max(sysconf(_SC_NPROCESSORS_CONF), 1);
	struct ws_syscall_rate *rates;
	uint64_t now = 0, before;

	if (!calls)
		return 0;
	/* The kernel may know of more cores than the C library: it writes a value for each. */
	rates = ws_calloc(ws_max(cores, (size_t)MOST_CORES), sizeof(*rates));
	if (!ws_bpf_map_get(calls->maps[WS_SYSCALLS_map_rates], &zero, rates))
		for (size_t i = 0; i < ws_max(cores, (size_t)MOST_CORES); i++)
			now += rates[i].left_out;
	free(rates);
	before = calls->left_out;
	calls->left_out = now;
	return now - before;
}

bool ws_syscalls_read(const void *raw, size_t size, struct ws_syscall_record *record)
{
	if (size < sizeof(*record))
		return false;
	memcpy(record, raw, sizeof(*record));
	return record->kind == WS_SYSCALL_RECORD;
}
