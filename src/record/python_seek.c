/*
 * python_seek.c - see python_seek.h.
 *
 * An interpreter is found by its exported data, _PyRuntime, in the executable or in libpython, and
 * its version by its symbols or version text, as the hook does it. From then on its list of threads
 * is read ten times a second, with each thread's kernel tid, and the program in the kernel gets the
 * address of its state. The hook would name the state that a thread has right now; here it is the
 * one that the thread has in the interpreter's list, which differs only in threads that change
 * between interpreters.
 *
 * The state of a thread that ends may be another's before the list is read again: what the program
 * then reads is checked like anything else that it reads.
 */
#include "record/python_seek.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/choose.h"
#include "record/tree.h"
#include "symbols/symtab.h"

#define PROCESSES_NS UINT64_C(1000000000) /* between two looks for new processes */
#define THREADS_NS UINT64_C(100000000)
#define MOST_THREADS 4096u
#define MOST_PROCESSES 4096u

struct found {
	struct found *next;
	struct ws_proc proc; /* the parts needed to read its memory; it is in no list */
	struct ws_py_proc process;
	uint64_t cookie;
	struct ws_map states; /* tid -> state of the threads that are watched */
	bool python;	      /* false: it contains no interpreter, or none yet */
	/* When it is next examined, and how long to wait after that: a process that is not an
	 * interpreter rarely becomes one. */
	uint64_t next_look, pause;
};

struct ws_py_seek {
	struct found *found;
	size_t count;
	uint32_t cookies;
	uint64_t next_processes, next_threads;
	struct ws_py_thread threads[MOST_THREADS];
};

/* ---- finding the interpreter ---- */

/* A file that may contain an interpreter, and where its beginning is mapped. */
struct candidate {
	char path[PATH_MAX];
	uint64_t start, offset;
};

static bool may_hold_python(const char *path, const char *exe)
{
	const char *base = strrchr(path, '/');

	return base && (!strncmp(base, "/libpython", 10) || !strcmp(path, exe));
}

/* The next file in `maps` that may contain an interpreter; false after the last. */
static bool read_candidate(FILE *maps, const char *exe, struct candidate *candidate)
{
	char line[PATH_MAX + 200], last[PATH_MAX];

	snprintf(last, sizeof(last), "%s", candidate->path);
	while (fgets(line, sizeof(line), maps)) {
		unsigned long long start, offset;
		char *path = strchr(line, '/');

		if (!path || sscanf(line, "%llx-%*x %*s %llx", &start, &offset) != 2)
			continue;
		path[strcspn(path, "\n")] = 0;
		if (!strcmp(path, last) || !may_hold_python(path, exe))
			continue;
		snprintf(candidate->path, sizeof(candidate->path), "%s", path);
		candidate->start = start;
		candidate->offset = offset;
		return true;
	}
	return false;
}

/* The same as read_version of the hook (inject/python.c). */
static uint16_t read_version(const struct ws_elf *elf, const struct ws_py_memory *memory,
			     uint64_t bias)
{
	uint64_t at = ws_symtab_find_exported(elf, "Py_Version"); /* from 3.11 on */
	unsigned long version = 0;

	if (at && ws_py_read(memory, bias + at, &version, sizeof(version)))
		return (uint16_t)(version >> 16);
	if (ws_symtab_find_exported(elf, "PyObject_GetAIter"))
		return 0x030a;
	if (ws_symtab_find_exported(elf, "PyFrame_GetBack"))
		return 0x0309;
	return ws_symtab_find_exported(elf, "PyCode_NewWithPosOnlyArgs") ? 0x0308 : 0;
}

/* Whether the file is an interpreter; fills in where it is and which version. */
static bool look_into_file(struct found *found, const struct candidate *candidate)
{
	struct ws_py_memory memory = {ws_py_read_process, &found->proc};
	char path[PATH_MAX + 64];
	uint64_t runtime, address;
	struct ws_elf elf;
	struct ws_err err;

	snprintf(path, sizeof(path), "/proc/%d/root%s", found->proc.host_pid, candidate->path);
	if (ws_elf_open(&elf, path, &err))
		return false;
	runtime = ws_symtab_find_exported(&elf, "_PyRuntime");
	if (runtime && ws_elf_find_address(&elf, candidate->offset, &address)) {
		uint64_t bias = candidate->start - (address & ~UINT64_C(4095));

		found->process.runtime = bias + runtime;
		found->process.layout.version = read_version(&elf, &memory, bias);
	}
	ws_elf_close(&elf);
	return found->process.runtime && found->process.layout.version;
}

/* The interpreter of a process in another pid namespace knows its threads by other numbers. */
static bool is_in_our_namespace(int pid)
{
	struct stat ours, theirs;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", pid);
	return !stat("/proc/self/ns/pid", &ours) && !stat(path, &theirs) &&
	       ours.st_ino == theirs.st_ino;
}

static bool find_interpreter(struct found *found)
{
	struct candidate candidate = {.path = ""};
	char path[64], exe[PATH_MAX] = "";
	bool python = false;
	FILE *maps;

	if (!is_in_our_namespace(found->proc.host_pid))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/exe", found->proc.host_pid);
	if (readlink(path, exe, sizeof(exe) - 1) < 0)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/maps", found->proc.host_pid);
	maps = fopen(path, "re");
	while (maps && !python && read_candidate(maps, exe, &candidate))
		python = look_into_file(found, &candidate);
	if (maps)
		fclose(maps);
	return python && ws_py_lay_out(&found->process);
}

/* ---- processes ---- */

static struct found *find_process(const struct ws_py_seek *seek, uint32_t pid)
{
	struct found *found = seek->found;

	while (found && found->proc.pid != pid)
		found = found->next;
	return found;
}

static struct found *add_process(struct ws_python *py, uint32_t pid)
{
	struct found *found = ws_calloc(1, sizeof(*found));

	found->proc.drain = py->drain;
	found->proc.pid = pid;
	found->proc.host_pid = (int)pid;
	found->process.py = py;
	found->process.proc = &found->proc;
	found->cookie = (uint64_t)pid << 32 | ++py->seek->cookies;
	found->next = py->seek->found;
	py->seek->found = found;
	py->seek->count++;
	return found;
}

static void say_found(const struct ws_python *py, const struct found *found)
{
	char text[200];

	snprintf(text, sizeof(text),
		 "CPython %u.%u of process %u: frames are read in the kernel, with the samples of "
		 "the CPU; who holds the lock of the interpreter is not known.",
		 found->process.layout.version >> 8, found->process.layout.version & 255u,
		 found->proc.pid);
	ws_sink_diagnostic(py->sought_in, WS_INFO, "python", 0, ws_read_raw_ns(), text);
}

static void look_at_process(struct ws_python *py, uint32_t pid, uint64_t now)
{
	struct found *found = find_process(py->seek, pid);

	if (!found && py->seek->count >= MOST_PROCESSES)
		return;
	if (!found)
		found = add_process(py, pid);
	if (found->python || now < found->next_look)
		return;
	found->pause = ws_max(found->pause * 2, PROCESSES_NS);
	found->next_look = now + found->pause;
	if (!find_interpreter(found))
		return;
	found->python = true;
	ws_py_decode_begin(py, &found->process, found->cookie);
	say_found(py, found);
}

static void look_for_processes(struct ws_python *py, uint64_t now)
{
	struct ws_tree tree = {0};

	ws_tree_read(&tree, (uint32_t)py->sought);
	for (size_t i = 0; i < tree.process_count; i++)
		look_at_process(py, tree.processes[i].pid, now);
	ws_tree_free(&tree);
}

/* ---- threads ---- */

static void watch_thread(struct ws_python *py, struct found *found, uint32_t tid, uint64_t state)
{
	if (ws_map_get(&found->states, tid, NULL) == state)
		return;
	if (!ws_py_bpf_watch_state(py->bpf, tid, &found->process.layout, found->cookie, state))
		ws_map_set(&found->states, tid, state);
}

static bool is_listed(const struct ws_map *listed, uint32_t tid)
{
	return ws_map_get(listed, tid, NULL) != 0;
}

/* Stop watching threads that are no longer in the list. */
static void leave_threads(struct ws_python *py, struct found *found, const struct ws_map *listed)
{
	uint32_t *gone = NULL;
	size_t count = 0, cap = 0;

	for (size_t i = 0; i < found->states.size; i++) {
		uint32_t tid = (uint32_t)found->states.slots[i].key;

		if (!found->states.used[i] || is_listed(listed, tid))
			continue;
		ws_grow(gone, cap, count + 1);
		gone[count++] = tid;
	}
	for (size_t i = 0; i < count; i++) {
		ws_py_bpf_leave(py->bpf, gone[i]);
		ws_map_remove(&found->states, gone[i], NULL);
	}
	free(gone);
}

static void look_at_threads(struct ws_python *py, struct found *found)
{
	struct ws_py_memory memory = {ws_py_read_process, &found->proc};
	struct ws_py_thread *threads = py->seek->threads;
	size_t count = ws_py_list_threads(&found->process.layout, &memory, found->process.runtime,
					  threads, MOST_THREADS);
	struct ws_map listed = {0};

	for (size_t i = 0; i < count; i++) {
		uint32_t tid = ws_py_find_tid(&memory, &threads[i]);

		/* The number comes from the target's memory. */
		if (!tid || is_listed(&listed, tid) ||
		    !ws_py_is_thread_of(found->proc.host_pid, tid))
			continue;
		ws_map_set(&listed, tid, 1);
		watch_thread(py, found, tid, threads[i].state);
	}
	leave_threads(py, found, &listed);
	ws_map_free(&listed);
	if (!count) { /* it has ended, executes something else, or its pid is another's */
		found->python = false;
		found->process.runtime = 0;
		found->pause = found->next_look = 0;
	}
}

/* ---- without a program in the kernel ---- */

/* If the hooks have been loaded into the process, its stacks can be read from outside as samples of
 * their own, which need the thread ids that hooks report. */
static void look_from_outside(struct ws_python *py)
{
	struct ws_proc *proc = ws_drain_find(py->drain, py->sought, 0, UINT64_MAX);
	struct found found = {.proc = {.host_pid = py->sought}};
	struct ws_py_proc *process;
	char text[300];

	if (!proc || proc->ending || proc->settled || proc->slot[WS_SLOT_PYTHON])
		return;
	found.process.proc = &found.proc;
	if (!find_interpreter(&found))
		return;
	process = ws_py_proc_of(proc);
	process->runtime = found.process.runtime;
	process->layout = found.process.layout;
	process->laid_out = true;
	snprintf(text, sizeof(text),
		 "CPython %u.%u: frames are read from outside, as samples of their own "
		 "(python_sample).",
		 process->layout.version >> 8, process->layout.version & 255u);
	ws_sink_diagnostic(proc->sink, WS_INFO, "python", proc->id, ws_read_raw_ns(), text);
}

/* ---- rounds ---- */

void ws_py_seek_round(struct ws_python *py, uint64_t now)
{
	if (!py->sought)
		return;
	if (!py->seek)
		py->seek = ws_calloc(1, sizeof(*py->seek));
	if (!py->bpf && now >= py->seek->next_processes) {
		py->seek->next_processes =
			now + THREADS_NS; /* the hooks will be loaded in a moment */
		look_from_outside(py);
	}
	if (!py->bpf)
		return;
	if (now >= py->seek->next_processes) {
		py->seek->next_processes = now + PROCESSES_NS;
		look_for_processes(py, now);
	}
	if (now < py->seek->next_threads)
		return;
	py->seek->next_threads = now + THREADS_NS;
	for (struct found *found = py->seek->found; found; found = found->next)
		if (found->python)
			look_at_threads(py, found);
}

void ws_py_seek_free(struct ws_py_seek *seek)
{
	while (seek && seek->found) {
		struct found *found = seek->found;

		seek->found = found->next;
		ws_map_free(&found->states);
		ws_map_free(&found->process.counts);
		free(found);
	}
	free(seek);
}
