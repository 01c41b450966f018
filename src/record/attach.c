/*
 * attach.c - see attach.h. Calls into the process are made on a thread that is at a place where the
 * loader may be called (safe_point.h): threads that wait for something are tried first, others are
 * stopped again and again until one happens to be at such a place.
 */
#include "record/attach.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/ticks.h"
#include "record/call_inside.h"
#include "record/safe_point.h"
#include "record/process_memory.h"
#include "record/process_stat.h"
#include "symbols/symtab.h"

#define PF_KTHREAD 0x00200000u
#define PATIENCE_NS UINT64_C(3000000000) /* time limit for finding a thread at a safe place */
#define CALL_SECONDS 5.0
#define SECCOMP_FILTERS 2 /* in /proc/PID/status: the mode with filters */
#define TRY_PAUSE_NS 3000000
#define ROUNDS_A_RANK 15

/* ---- looking ---- */

static bool read_status(int pid, struct ws_attach_target *target, int *group)
{
	char path[64], line[256];
	unsigned uid = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	if (!file)
		return false;
	while (fgets(line, sizeof(line), file)) {
		sscanf(line, "State: %c", &target->letter);
		sscanf(line, "Tgid: %d", group);
		sscanf(line, "TracerPid: %d", &target->tracer);
		sscanf(line, "Uid: %u", &uid);
		sscanf(line, "Seccomp: %d", &target->seccomp);
		sscanf(line, "Seccomp_filters: %d", &target->filters);
	}
	fclose(file);
	target->user = uid;
	return true;
}

static bool is_of_kernel(int pid)
{
	char line[WS_PROCESS_STAT];
	const char *after = ws_read_process_stat(pid, line);
	unsigned flags = 0;

	if (after)
		sscanf(after, ") %*c %*d %*d %*d %*d %*d %u", &flags);
	return flags & PF_KTHREAD;
}

int ws_attach_look(int pid, struct ws_attach_target *target, struct ws_err *err)
{
	int group = 0;

	*target = (struct ws_attach_target){.pid = pid, .pidfd = -1};
	if (pid <= 0 || !read_status(pid, target, &group))
		return ws_fail(err, "there is no process %d", pid);
	if (group != pid)
		return ws_fail(err, "%d is a thread of process %d: attach to that", pid, group);
	if (is_of_kernel(pid))
		return ws_fail(err, "%d is a thread of the kernel, which cannot be attached to",
			       pid);
	if (target->letter == 'Z' || target->letter == 'X')
		return ws_fail(err, "process %d has ended", pid);
	if (geteuid() && target->user != geteuid())
		return ws_fail(err, "process %d is another user's: only root may record it", pid);
	if (pid == (int)getpid())
		return ws_fail(err, "process %d is warpsight itself", pid);
	target->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	return 0;
}

bool ws_attach_has_ended(const struct ws_attach_target *target)
{
	struct pollfd end = {.fd = target->pidfd, .events = POLLIN};

	if (target->pidfd >= 0)
		return poll(&end, 1, 0) > 0;
	return kill(target->pid, 0) && errno == ESRCH;
}

void ws_attach_close(struct ws_attach_target *target)
{
	if (target->pidfd >= 0)
		close(target->pidfd);
	target->pidfd = -1;
}

/* ---- threads ---- */

/* Thread ids of the process, the ones that a stop disturbs least first. */
struct threads {
	struct thread {
		int tid, rank;
	} * list;
	size_t count, cap;
};

enum { RANK_PLAIN, RANK_TIMED, RANK_RUNNING, RANK_DELICATE };

/*
 * What a stop does to a thread that waits in this system call. The kernel restarts most of them;
 * for those that wait for a time it remembers the time; some it does not restart, and only we do.
 */
static int rank_call(long nr)
{
	static const long plain[] = {SYS_read, SYS_readv, SYS_wait4, SYS_waitid},
			  timed[] = {SYS_futex, SYS_nanosleep, SYS_clock_nanosleep, SYS_ppoll,
				     SYS_pselect6};

	for (size_t i = 0; i < WS_COUNT(plain); i++)
		if (plain[i] == nr)
			return RANK_PLAIN;
	for (size_t i = 0; i < WS_COUNT(timed); i++)
		if (timed[i] == nr)
			return RANK_TIMED;
	return RANK_DELICATE;
}

static int rank_thread(int pid, int tid)
{
	char path[64], word[16] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", pid, tid);
	file = fopen(path, "re");
	if (file && fscanf(file, "%15s", word) != 1)
		word[0] = 0;
	if (file)
		fclose(file);
	if (!isdigit((unsigned char)word[0]))
		return RANK_RUNNING;
	return rank_call(strtol(word, NULL, 10));
}

static int compare_ranks(const void *a, const void *b)
{
	const struct thread *left = a, *right = b;

	if (left->rank != right->rank)
		return ws_compare(left->rank, right->rank);
	return ws_compare(left->tid, right->tid);
}

static void list_threads(int pid, struct threads *threads)
{
	struct dirent *entry;
	char path[64];
	DIR *dir;

	threads->count = 0;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		int tid = atoi(entry->d_name);

		if (tid <= 0)
			continue;
		ws_grow(threads->list, threads->cap, threads->count + 1);
		threads->list[threads->count++] = (struct thread){tid, rank_thread(pid, tid)};
	}
	if (dir)
		closedir(dir);
	if (threads->count)
		qsort(threads->list, threads->count, sizeof(*threads->list), compare_ranks);
}

struct search {
	const struct ws_attach_target *target;
	struct ws_process_code *code;
	struct threads threads;
	uint64_t deadline;
	struct ws_inside_call call; /* the parts that all calls share */
};

/* 1 with *inside when the thread is at a safe place, 0 when it is not, -1 with a sentence when
 * going on is of no use. */
static int try_thread(struct search *search, int tid, struct ws_inside **inside, struct ws_err *err)
{
	switch (ws_inside_stop(search->target->pid, tid, inside, err)) {
	case WS_STOP_DONE:
		if (ws_is_safe_point(search->code, *inside, &search->call.stack_low))
			return 1;
		ws_inside_release(*inside);
		return 0;
	case WS_STOP_JOB:
		return ws_fail(err, "process %d is stopped (SIGSTOP or the like)",
			       search->target->pid);
	case WS_STOP_REFUSED:
		return -1;
	case WS_STOP_GONE:
	case WS_STOP_BUSY:
		break;
	}
	return 0;
}

/* Stop a thread at a safe place. NULL with a sentence when none was found in time. */
static struct ws_inside *find_thread(struct search *search, struct ws_err *err)
{
	struct timespec pause = {0, TRY_PAUSE_NS};
	struct ws_inside *inside;

	for (int round = 0; ws_read_raw_ns() < search->deadline; round++) {
		int most;

		list_threads(search->target->pid, &search->threads);
		if (!search->threads.count || ws_attach_has_ended(search->target)) {
			ws_fail(err, "process %d has ended", search->target->pid);
			return NULL;
		}
		/* Calls that a stop disturbs more are left alone for a while. */
		most = search->threads.list[0].rank + round / ROUNDS_A_RANK;
		for (size_t i = 0; i < search->threads.count; i++) {
			int found = search->threads.list[i].rank <= most
					    ? try_thread(search, search->threads.list[i].tid,
							 &inside, err)
					    : 0;

			if (found)
				return found > 0 ? inside : NULL;
		}
		nanosleep(&pause, NULL);
	}
	ws_fail(err, "no thread of process %d came to a place where libraries can be loaded",
		search->target->pid);
	return NULL;
}

/* ---- our library in the process ---- */

/* Where `library` is mapped in the process, as the offset to add to its addresses; 0 when it is not
 * mapped. */
static uint64_t find_bias(int pid, const char *library)
{
	char path[64], line[PATH_MAX + 128];
	struct stat st;
	uint64_t bias = 0;
	FILE *file;

	if (stat(library, &st))
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	file = fopen(path, "re");
	while (file && !bias && fgets(line, sizeof(line), file)) {
		unsigned long long from, offset, inode;

		if (sscanf(line, "%llx-%*x %*s %llx %*s %llu", &from, &offset, &inode) == 3 &&
		    !offset && inode == st.st_ino && strstr(line, "libwarpsight-hooks"))
			bias = from;
	}
	if (file)
		fclose(file);
	return bias; /* the library's first segment is at address 0 */
}

struct hooks {
	uint64_t attach, detach, state; /* addresses in the process; 0: the library is not there */
};

static bool find_hooks(int pid, const char *library, struct hooks *hooks)
{
	uint64_t bias = find_bias(pid, library);
	struct ws_elf elf;

	*hooks = (struct hooks){0};
	if (!bias || ws_elf_open(&elf, library, NULL))
		return false;
	hooks->attach = ws_symtab_find_exported(&elf, "ws_late_attach");
	hooks->detach = ws_symtab_find_exported(&elf, "ws_late_detach");
	hooks->state = ws_symtab_find_exported(&elf, "ws_late_state");
	ws_elf_close(&elf);
	if (!hooks->attach || !hooks->detach || !hooks->state)
		return false;
	hooks->attach += bias;
	hooks->detach += bias;
	hooks->state += bias;
	return true;
}

static bool read_state(int pid, const struct hooks *hooks, struct ws_late_state *state)
{
	return ws_process_memory_read(pid, state, hooks->state, sizeof(*state)) ==
		       (ssize_t)sizeof(*state) &&
	       state->version == WS_LATE_VERSION;
}

/* ---- whether it may be done ---- */

/* The process opens our files itself, so its paths must lead to the same files as ours. */
static int check_visible(const struct ws_attach_target *target, const char *path,
			 struct ws_err *err)
{
	char *theirs = ws_format("/proc/%d/root%s", target->pid, path);
	struct stat ours_st, theirs_st;
	bool same = !stat(path, &ours_st) && !stat(theirs, &theirs_st) &&
		    ours_st.st_dev == theirs_st.st_dev && ours_st.st_ino == theirs_st.st_ino;

	free(theirs);
	if (same)
		return 0;
	return ws_fail(err,
		       "process %d runs in a container or behind a chroot, where %s is not to be "
		       "seen",
		       target->pid, path);
}

static int check_shadow_stack(int pid, struct ws_err *err)
{
	char path[64], line[256];
	bool has = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		has |= !strncmp(line, "x86_Thread_features:", 20) && strstr(line, "shstk");
	if (file)
		fclose(file);
	if (has)
		return ws_fail(err, "process %d runs with a shadow stack, which forbids it", pid);
	return 0;
}

/* Whether the process may do less than we may. In a container all processes, ours too, have the
 * container's filter; older kernels do not say how many filters there are. */
static bool is_shut_in(const struct ws_attach_target *target)
{
	struct ws_attach_target ours = {.filters = 0};
	int group;

	if (!target->seccomp)
		return false;
	return target->seccomp != SECCOMP_FILTERS || !target->filters ||
	       !read_status((int)getpid(), &ours, &group) || target->filters > ours.filters;
}

/* Check, before anything is loaded, whether the process can load a library with its own C
 * library. */
static int check_loadable(const struct ws_attach_target *target, const char *library,
			  const char *session, struct ws_err *err)
{
	if (!ws_inside_is_supported())
		return ws_fail(err, "libraries can be loaded into running programs on x86-64 only");
	if (target->tracer)
		return ws_fail(err, "process %d is under a debugger (process %d)", target->pid,
			       target->tracer);
	if (target->letter == 'T')
		return ws_fail(err, "process %d is stopped (SIGSTOP or the like)", target->pid);
	if (is_shut_in(target))
		return ws_fail(err, "process %d has shut itself in with seccomp", target->pid);
	if (check_shadow_stack(target->pid, err) || check_visible(target, library, err) ||
	    check_visible(target, session, err))
		return -1;
	return 0;
}

static void explain_scope(struct ws_err *err)
{
	FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
	int scope = 0;
	size_t n = strlen(err->msg);

	if (file && fscanf(file, "%d", &scope) == 1 && scope && geteuid())
		snprintf(err->msg + n, sizeof(err->msg) - n,
			 " (kernel.yama.ptrace_scope is %d: root may, or set it to 0)", scope);
	if (file)
		fclose(file);
}

/* ---- loading ---- */

static int open_search(struct search *search, const struct ws_attach_target *target,
		       struct ws_err *err)
{
	*search = (struct search){.target = target, .deadline = ws_read_raw_ns() + PATIENCE_NS};
	search->code = ws_process_code_read(target->pid, err);
	if (!search->code)
		return -1;
	search->call.sigreturn = ws_process_code_sigreturn(search->code);
	search->call.seconds = CALL_SECONDS;
	return 0;
}

static void close_search(struct search *search)
{
	ws_process_code_free(search->code);
	free(search->threads.list);
}

/* The session's path and all libraries except the first, each with its NUL, and an empty text at
 * the end. */
static void make_request(struct ws_text *request, const char *libraries, const char *session)
{
	ws_text_add(request, session, strlen(session) + 1);
	for (const char *at = strchr(libraries, ':'); at;) {
		size_t n = strcspn(++at, ":");

		ws_text_add(request, at, n);
		ws_text_add(request, "", 1);
		at = at[n] ? at + n : NULL;
	}
	ws_text_add(request, "", 1);
}

static int call_function(struct search *search, struct ws_inside *inside, uint64_t address,
			 const struct ws_text *text, uint64_t number, struct ws_err *err)
{
	struct ws_inside_call call = search->call;

	call.address = address;
	call.text = text->text;
	call.size = text->len;
	call.number = number;
	return ws_inside_make_call(inside, &call, err);
}

static int open_hooks(struct search *search, struct ws_inside *inside, const char *library,
		      struct hooks *hooks, struct ws_err *err)
{
	struct ws_text path = {0};
	int rc;

	if (find_hooks(search->target->pid, library, hooks))
		return 0;
	ws_text_add(&path, library, strlen(library) + 1);
	rc = call_function(search, inside, ws_process_code_dlopen(search->code), &path,
			   (uint64_t)(int64_t)ws_process_code_dlopen_mode(search->code), err);
	ws_text_free(&path);
	if (rc)
		return rc;
	if (!find_hooks(search->target->pid, library, hooks))
		return ws_fail(err, "process %d could not load %s", search->target->pid, library);
	return 0;
}

static int explain_result(const struct ws_late_state *state, int pid, struct ws_err *err)
{
	switch (state->result) {
	case WS_LATE_OK:
		return 0;
	case WS_LATE_BUSY:
		return ws_fail(err, "process %d is being recorded by another warpsight", pid);
	}
	return ws_fail(err, "process %d cannot map the session's memory", pid);
}

static int load_on(struct search *search, struct ws_inside *inside, const char *libraries,
		   const char *session, struct ws_late_state *state, struct ws_err *err)
{
	int pid = search->target->pid, rc = -1;
	char *library = ws_strndup(libraries, strcspn(libraries, ":"));
	struct ws_late_state before = {0};
	struct ws_text request = {0};
	struct hooks hooks;

	make_request(&request, libraries, session);
	if (open_hooks(search, inside, library, &hooks, err))
		(void)0;
	else if (!read_state(pid, &hooks, &before))
		ws_fail(err, "process %d has loaded another version of %s", pid, library);
	else if (!call_function(search, inside, hooks.attach, &request, 0, err) &&
		 read_state(pid, &hooks, state))
		rc = explain_result(state, pid, err);
	ws_text_free(&request);
	free(library);
	return rc;
}

int ws_attach_load(const struct ws_attach_target *target, const char *libraries,
		   const char *session, struct ws_late_state *state, struct ws_err *err)
{
	char *library = ws_strndup(libraries, strcspn(libraries, ":"));
	struct ws_inside *inside = NULL;
	struct search search = {0};
	int rc = check_loadable(target, library, session, err);

	memset(state, 0, sizeof(*state));
	if (!rc && !(rc = open_search(&search, target, err))) {
		inside = find_thread(&search, err);
		rc = -1;
	}
	if (inside) {
		rc = load_on(&search, inside, libraries, session, state, err);
		ws_inside_release(inside);
	} else if (rc) {
		explain_scope(err);
	}
	close_search(&search);
	free(library);
	return rc;
}

int ws_attach_unload(const struct ws_attach_target *target, const char *libraries,
		     struct ws_err *err)
{
	char *library = ws_strndup(libraries, strcspn(libraries, ":"));
	struct ws_inside *inside = NULL;
	struct search search = {0};
	struct hooks hooks;
	struct ws_text nothing = {0};
	int rc = -1;

	if (ws_attach_has_ended(target))
		rc = 0;
	else if (!find_hooks(target->pid, library, &hooks))
		ws_fail(err, "the hooks are not found in process %d", target->pid);
	else if (!open_search(&search, target, err))
		inside = find_thread(&search, err);
	if (inside) {
		rc = call_function(&search, inside, hooks.detach, &nothing, 0, err);
		ws_inside_release(inside);
	}
	close_search(&search);
	free(library);
	return rc;
}
