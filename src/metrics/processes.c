/* processes.c - memory and I/O of the recorded processes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "metrics/source.h"

#define MOST_PROCESSES 256u /* at the same time: processes beyond this have no values */

enum { RESIDENT, READ, WRITTEN, KINDS };

static const struct {
	const char *name, *unit;
} kinds[KINDS] = {[RESIDENT] = {"Memory", "B"},
		  [READ] = {"Read from storage", "B/s"},
		  [WRITTEN] = {"Written to storage", "B/s"}};

struct process {
	int pid, memory, io; /* descriptors; -1: not there */
	uint32_t metric[KINDS];
	bool seen; /* seen in this reading */
};

struct processes {
	struct process *process;
	size_t count, cap;
	double page;
};

static void *open_processes(struct ws_metrics *metrics)
{
	struct processes *processes = ws_calloc(1, sizeof(*processes));

	(void)metrics;
	processes->page = (double)sysconf(_SC_PAGESIZE);
	return processes;
}

static int open_file(int pid, const char *file)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	return ws_metric_open(path);
}

static struct process *add_process(struct ws_metrics *metrics, struct processes *processes, int pid)
{
	struct process process = {
		.pid = pid, .memory = open_file(pid, "statm"), .io = open_file(pid, "io")};

	if (processes->count >= MOST_PROCESSES || (process.memory < 0 && process.io < 0)) {
		if (process.memory >= 0)
			close(process.memory);
		if (process.io >= 0)
			close(process.io);
		return NULL;
	}
	for (size_t i = 0; i < KINDS; i++)
		process.metric[i] =
			ws_metric_add(metrics, &(struct ws_metric){.group = WS_METRIC_PROCESS,
								   .name = (char *)kinds[i].name,
								   .unit = kinds[i].unit,
								   .device = -1,
								   .cpu = -1,
								   .pid = pid});
	ws_grow(processes->process, processes->cap, processes->count + 1);
	processes->process[processes->count] = process;
	return &processes->process[processes->count++];
}

static struct process *find_process(struct ws_metrics *metrics, struct processes *processes,
				    int pid)
{
	for (size_t i = 0; i < processes->count; i++)
		if (processes->process[i].pid == pid)
			return &processes->process[i];
	return add_process(metrics, processes, pid);
}

/* The number of a line "key: number" of /proc/PID/io. */
static bool find_word(const char *text, const char *key, unsigned long long *value)
{
	const char *at = strstr(text, key);

	return at && sscanf(at + strlen(key), "%llu", value) == 1;
}

static void read_process(struct ws_metrics *metrics, const struct processes *processes,
			 const struct process *process)
{
	char text[1024];
	unsigned long long all, resident, value;

	if (ws_metric_reread(process->memory, text, sizeof(text)) &&
	    sscanf(text, "%llu %llu", &all, &resident) == 2)
		ws_metric_put(metrics, process->metric[RESIDENT],
			      (double)resident * processes->page);
	if (!ws_metric_reread(process->io, text, sizeof(text)))
		return;
	if (find_word(text, "\nread_bytes:", &value))
		ws_metric_put_total(metrics, process->metric[READ], value, 1);
	if (find_word(text, "\nwrite_bytes:", &value))
		ws_metric_put_total(metrics, process->metric[WRITTEN], value, 1);
}

static void drop_process(struct process *process)
{
	if (process->memory >= 0)
		close(process->memory);
	if (process->io >= 0)
		close(process->io);
}

/* The open files still refer to the old process, so that a new process with its pid is not mistaken
 * for it. */
static void drop_ended(struct ws_metrics *metrics, struct processes *processes)
{
	size_t kept = 0;

	for (size_t i = 0; i < processes->count; i++) {
		struct process *process = &processes->process[i];

		if (process->seen) {
			processes->process[kept++] = *process;
			continue;
		}
		ws_metric_put(metrics, process->metric[RESIDENT], 0);
		drop_process(process);
	}
	processes->count = kept;
}

static void read_processes(struct ws_metrics *metrics, void *state)
{
	struct processes *processes = state;
	size_t n;
	int *pids = ws_metric_get_processes(metrics, &n);

	for (size_t i = 0; i < processes->count; i++)
		processes->process[i].seen = false;
	for (size_t i = 0; i < n; i++) {
		struct process *process = find_process(metrics, processes, pids[i]);

		if (process) {
			process->seen = true;
			read_process(metrics, processes, process);
		}
	}
	drop_ended(metrics, processes);
	free(pids);
}

static void close_processes(void *state)
{
	struct processes *processes = state;

	for (size_t i = 0; i < processes->count; i++)
		drop_process(&processes->process[i]);
	free(processes->process);
	free(processes);
}

const struct ws_metric_source ws_metric_processes = {.groups = 1u << WS_METRIC_PROCESS,
						     .open = open_processes,
						     .read = read_processes,
						     .close = close_processes};
