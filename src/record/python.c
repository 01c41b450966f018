/*
 * python.c - opens an event for each thread that runs Python, which makes the kernel send it the
 * hook's signal; see python.h.
 *
 * The events are the recorder's, not the target's: the target has no descriptor of them that it
 * could close, and when the recorder dies they are gone. An event counts the CPU time that its
 * thread spends in user space, so it interrupts neither a waiting thread nor a system call: the
 * kernel sends the signal while the thread is in user space and delivers it before the next
 * instruction. Children do not inherit the event, and it ends with the image at an exec. A signal
 * that arrives after the exec is ignored, which is what SIGURG does by default.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "record/python_seek.h"

#define SWEEP_NS 500000000u
#define OWN_DESCRIPTORS 64 /* descriptors kept free for everything else */

struct ws_python *ws_python_new(struct ws_drain *drain, const struct ws_python_opts *options)
{
	struct ws_python *py = ws_calloc(1, sizeof(*py));

	py->drain = drain;
	py->options = *options;
	py->patience = UINT64_MAX;
	drain->python = py;
	return py;
}

void ws_python_free(struct ws_python *py)
{
	if (!py)
		return;
	for (size_t i = 0; i < py->events_n; i++)
		if (py->events[i].fd >= 0)
			close(py->events[i].fd);
	free(py->events);
	ws_py_decode_free(py);
	ws_py_seek_free(py->seek);
	ws_python_bpf_close(py);
	free(py->decode_stack.frame);
	free(py->decode_stack.entry);
	free(py->decode_stack.code);
	ws_map_free(&py->inner);
	ws_python_forget(py);
	ws_map_free(&py->by_tid);
	free(py);
}

const char *ws_python_seek(struct ws_python *py, int pid, struct ws_sink *sink)
{
	if (!py)
		return "no samples are taken";
	py->sought = pid;
	py->sought_in = sink;
	if (py->bpf)
		return NULL;
	if (py->bpf_error)
		return strerror(py->bpf_error);
	return "whole cores cannot be watched";
}

void ws_python_say_unseen(struct ws_python *py, struct ws_sink *sink)
{
	struct ws_text out = {0};
	size_t unseen = 0;

	for (size_t i = 0; py && i < py->options.function_n; i++)
		if (!py->options.functions[i].seen && !py->options.functions[i].optional &&
		    ++unseen <= 5)
			ws_text_printf(&out, "%s%s.%s", unseen > 1 ? ", " : "",
				       py->options.functions[i].module,
				       py->options.functions[i].name);
	if (unseen > 5)
		ws_text_printf(&out, " and %zu more", unseen - 5);
	if (unseen) {
		char *text = ws_format("--python-functions-trace: never called: %s. (A module "
				       "stands for those in it, too; methods are named as in "
				       "__qualname__.)",
				       out.text);

		ws_sink_diagnostic(sink, WS_WARNING, "python", 0, ws_read_raw_ns(), text);
		free(text);
	}
	ws_text_free(&out);
}

bool ws_python_covers(const struct ws_python *py, uint32_t tid, uint64_t time)
{
	uint64_t since = py ? ws_map_get(&py->by_tid, tid, NULL) : 0;

	return since && time >= since;
}

uint32_t ws_python_frequency(struct ws_python *py, uint32_t most)
{
	if (!py || !py->options.sampling || py->options.timers)
		return 0;
	if (most && py->options.frequency > most)
		py->options.frequency = most;
	return py->options.frequency;
}

uint64_t ws_python_patience(const struct ws_python *py)
{
	return py ? py->patience : UINT64_MAX;
}

/* ---- threads and their numbers ---- */

/* The last number of the line NSpid: the thread's number in its own namespace. */
static uint32_t inner_tid(int pid, uint32_t tid)
{
	char path[64], line[512];
	uint32_t inner = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%u/status", pid, tid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, "NSpid:", 6)) {
			char *last = strrchr(line, '\t');

			inner = last ? (uint32_t)strtoul(last + 1, NULL, 10) : 0;
			break;
		}
	if (file)
		fclose(file);
	return inner;
}

bool ws_py_is_thread_of(int pid, uint32_t tid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%u", pid, tid);
	return !access(path, F_OK);
}

/* The tid in our namespace; 0 when it is not known. */
static uint32_t outer_tid(const struct ws_proc *process, uint32_t tid)
{
	char path[64];
	struct dirent *entry;
	uint32_t found = 0;
	DIR *dir;

	if (process->host_pid <= 0)
		return 0;
	if (process->pid_ns == process->drain->area->pid_ns)
		return ws_py_is_thread_of(process->host_pid, tid) ? tid : 0;
	snprintf(path, sizeof(path), "/proc/%d/task", process->host_pid);
	dir = opendir(path);
	while (dir && !found && (entry = readdir(dir))) {
		uint32_t outer = (uint32_t)strtoul(entry->d_name, NULL, 10);

		if (outer && inner_tid(process->host_pid, outer) == tid)
			found = outer;
	}
	if (dir)
		closedir(dir);
	return found;
}

/* ---- events ---- */

static int open_event(const struct ws_python *py, uint32_t tid)
{
	struct f_owner_ex owner = {F_OWNER_TID, (pid_t)tid};
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
				       .size = sizeof(attr),
				       .config = PERF_COUNT_SW_TASK_CLOCK,
				       .disabled = 1,
				       .exclude_kernel = 1,
				       .exclude_hv = 1,
				       .wakeup_events = 1,
				       .remove_on_exec = 1};
	int fd, error;

	attr.sample_period = 1000000000u / py->options.frequency;
	fd = (int)syscall(SYS_perf_event_open, &attr, (pid_t)tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0 && errno == EINVAL) { /* before Linux 5.13 */
		attr.remove_on_exec = 0;
		fd = (int)syscall(SYS_perf_event_open, &attr, (pid_t)tid, -1, -1,
				  PERF_FLAG_FD_CLOEXEC);
	}
	if (fd < 0)
		return -errno;
	if (fcntl(fd, F_SETSIG, SIGURG) || fcntl(fd, F_SETOWN_EX, &owner) ||
	    fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK)) {
		error = -errno;
		close(fd);
		return error;
	}
	return fd;
}

static void more_descriptors(size_t wanted)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || wanted + OWN_DESCRIPTORS < limit.rlim_cur ||
	    limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit); /* affects us alone: the target already runs */
}

/*
 * Whether the thread blocks the signal: it would come much later, or sigwait would mistake it for
 * another. True also for a thread that the process does not have, since the tid comes from memory
 * that the target can overwrite.
 */
static bool blocks_signal(int pid, uint32_t tid)
{
	char path[64], line[256];
	bool blocked = true;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%u/status", pid, tid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, "SigBlk:", 7)) {
			blocked = strtoull(line + 7, NULL, 16) >> (SIGURG - 1) & 1;
			break;
		}
	if (file)
		fclose(file);
	return blocked;
}

static void refused(struct ws_python *py, struct ws_py_proc *process, int error, uint64_t now)
{
	char text[512];

	if (error == -ESRCH)
		return; /* it has ended */
	process->signals_failed = true;
	snprintf(text, sizeof(text),
		 "Python frames cannot be recorded at the moment of a sample: no perf event for "
		 "its threads (%s%s). They are read "
		 "from outside instead, as "
		 "samples of their own (python_sample).",
		 strerror(-error),
		 error == -EACCES || error == -EPERM
			 ? "; set /proc/sys/kernel/perf_event_paranoid to 2 or less"
			 : "");
	ws_sink_diagnostic(process->proc->sink, WS_INFO, "python", process->proc->id, now, text);
	(void)py;
}

static void close_event(struct ws_python *py, size_t i)
{
	struct ws_py_event *event = &py->events[i];

	if (event->fd < 0) {
		ws_py_bpf_leave(py->bpf, event->tid);
		ws_map_remove(&py->inner, event->tid, NULL);
	} else {
		close(event->fd);
		if (event->proc->proc->home)
			atomic_fetch_sub(&event->proc->proc->home->python_events, 1);
		ws_map_remove(&py->by_tid, event->tid, NULL);
	}
	py->events[i] = py->events[--py->events_n];
}

/* Whether it has an event. An event of an image that an exec has replaced is closed: the kernel has
 * taken it from the thread. */
static bool has_event(struct ws_python *py, const struct ws_py_proc *process, uint32_t tid)
{
	for (size_t i = 0; i < py->events_n; i++)
		if (py->events[i].tid == tid) {
			if (py->events[i].proc == process)
				return true;
			close_event(py, i);
			return false;
		}
	return false;
}

static void add_event(struct ws_python *py, struct ws_py_proc *process, uint32_t tid, int fd)
{
	ws_grow(py->events, py->events_cap, py->events_n + 1);
	py->events[py->events_n++] = (struct ws_py_event){tid, fd, ws_read_raw_ns(), process};
}

/* Make the program in the kernel read the thread's frames. */
static void look_into(struct ws_python *py, struct ws_py_proc *process, uint32_t outer,
		      uint32_t inner, const struct ws_rec_python_thread *record, uint64_t now)
{
	char text[256];
	bool had;
	int error;

	if (!py->bpf || (!process->laid_out && !ws_py_lay_out(process)))
		return;
	/* If there is an event already, an earlier thread had this tid and its end has not been
	 * seen yet. An event of another image is closed by this. */
	had = has_event(py, process, outer);
	ws_py_decode_begin(py, process, record->cookie);
	error = ws_py_bpf_watch(py->bpf, outer, inner, &process->layout, record->cookie,
				record->beacon);
	if (!error) {
		ws_map_set(&py->inner, outer, inner);
		if (!had)
			add_event(py, process, outer, -1);
		return;
	}
	process->looked_into = false;
	snprintf(text, sizeof(text),
		 "Python frames cannot be read by the program in the kernel (%s): they are read "
		 "from outside, as samples of their own "
		 "(python_sample).",
		 strerror(-error));
	ws_sink_diagnostic(process->proc->sink, WS_INFO, "python", process->proc->id, now, text);
}

void ws_python_thread(struct ws_python *py, struct ws_py_proc *process, uint32_t tid,
		      const struct ws_rec_python_thread *record, uint64_t now)
{
	uint32_t outer = outer_tid(process->proc, tid);
	int fd;

	if (!py->options.sampling || py->options.timers || process->signals_failed || !outer)
		return;
	if (process->looked_into) {
		look_into(py, process, outer, tid, record, now);
		return;
	}
	if (has_event(py, process, outer) || atomic_load(&process->proc->home->python_refused) ||
	    blocks_signal(process->proc->host_pid, outer))
		return;
	more_descriptors(py->events_n);
	fd = open_event(py, outer);
	if (fd < 0) {
		refused(py, process, fd, now);
		return;
	}
	add_event(py, process, outer, fd);
	atomic_fetch_add(&process->proc->home->python_events, 1);
	ws_map_set(&process->outer, tid, outer);
	ws_map_set(&py->by_tid, outer, py->events[py->events_n - 1].since);
	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
}

void ws_python_close_of(struct ws_python *py, const struct ws_py_proc *process)
{
	for (size_t i = py->events_n; i-- > 0;)
		if (py->events[i].proc == process)
			close_event(py, i);
}

/* From now on the process's threads have no samples by signal. */
static void end_signals(struct ws_python *py, struct ws_py_proc *process)
{
	process->signals = false;
	process->signals_failed = true;
	ws_python_close_of(py, process);
}

void ws_python_leave_signals(struct ws_python *py, uint64_t now)
{
	for (struct ws_py_proc *process = py ? py->procs : NULL; process; process = process->next) {
		if (!process->signals)
			continue;
		end_signals(py, process);
		process->switches_often = true;
		ws_sink_diagnostic(
			process->proc->sink, WS_INFO, "python", process->proc->id, now,
			"Threads switch so often that an event for each, which sends it the signal "
			"for a sample, would slow them down: from now on Python frames are read "
			"from outside, as samples of their own (python_sample).");
	}
}

static void sweep(struct ws_python *py)
{
	for (size_t i = py->events_n; i-- > 0;)
		if (syscall(SYS_tgkill, py->events[i].proc->proc->host_pid, py->events[i].tid, 0) &&
		    errno == ESRCH)
			close_event(py, i);
}

void ws_python_round(struct ws_python *py, uint64_t now)
{
	if (!py)
		return;
	for (struct ws_py_proc *process = py->procs; process; process = process->next)
		if (process->signals && process->proc->home &&
		    atomic_load(&process->proc->home->python_refused))
			end_signals(py, process);
	if (now >= py->next_sweep) {
		sweep(py);
		ws_py_decode_sweep(py, ws_read_raw_ns());
		py->next_sweep = now + SWEEP_NS;
	}
	ws_py_seek_round(py, now);
	ws_python_outside(py, now);
}
