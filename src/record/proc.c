/*
 * proc.c - processes of a session: registering images and forked children, finding their parents,
 * noticing ends, reporting what could not be recorded.
 */
#include "record/from_nccl.h"
#include "record/libraries.h"
#include "record/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/choose.h"
#include "text/mask.h"
#include "record/perf.h"
#include "record/process_stat.h"
#include "record/ranks.h"

#define PATIENCE_NS 2000000000u /* how long an image may take from exec to registering */
#define LOADING_TICKS 20	/* of 10 ms */
#define ASK_NS 50000000u	/* between two looks at processes whose end no descriptor reports */
#define PARENTS_MOST 32u	/* processes in a line of forks that are all new at once */
#define STARTED_MOST 4096u	/* processes that were started and have not registered */
#define THREADS_MOST 65536u	/* of a process that have not ended */

static bool needs_quotes(const char *text)
{
	return !*text ||
	       text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
				 "+=.,/:@%^")];
}

char *ws_proc_arguments(const char *args, size_t len, bool masked)
{
	struct ws_text text = {0}, copy = {0}, without_secrets = {0};

	ws_text_add(&copy, args, len); /* the original may be in memory that the target can write */
	args = ws_text_or(copy.text, "");
	if (masked && len) {
		ws_mask_words(&without_secrets, args, len);
		args = without_secrets.text;
		len = without_secrets.len;
	}
	for (size_t i = 0; i < len;) {
		size_t n = strnlen(args + i, len - i);
		char *one = ws_strndup(args + i, n);

		ws_text_puts(&text, text.len ? " " : "");
		if (needs_quotes(one)) {
			ws_text_puts(&text, "'");
			for (char *c = one; *c; c++)
				*c == '\'' ? ws_text_puts(&text, "'\\''")
					   : ws_text_add(&text, c, 1);
			ws_text_puts(&text, "'");
		} else {
			ws_text_puts(&text, one);
		}
		free(one);
		i += n + 1;
	}
	ws_text_free(&without_secrets);
	ws_text_free(&copy);
	return ws_or(text.text, ws_strdup(""));
}

static struct ws_proc *find_live(struct ws_drain *drain, uint32_t pid)
{
	for (struct ws_proc *process = drain->procs; process; process = process->next)
		if (process->pid == pid && !process->settled)
			return process;
	return NULL;
}

/* The live process whose home the chunk is; NULL for none, or one that is being registered. */
static struct ws_proc *get_home_owner(const struct ws_drain *drain, uint32_t chunk)
{
	return drain->chunks.entry[chunk].use == WS_USE_HOME ? drain->chunks.entry[chunk].owner
							     : NULL;
}

static struct ws_proc *find_gone(struct ws_drain *drain, uint32_t pid, uint64_t before)
{
	for (struct ws_proc *process = drain->gone[pid % GONE_BUCKETS]; process;
	     process = process->next)
		if (process->pid == pid && process->start_ticks <= before)
			return process;
	return NULL;
}

/*
 * Whether the chunk is still the home of a process that began at `start`. The contents of a settled
 * process's memory stay there until another process takes the chunk. Trusting them would settle
 * that process again and give back memory that by then belongs to another.
 */
static bool is_new_home(const struct ws_drain *drain, uint32_t chunk, uint64_t start)
{
	const struct ws_process_home *home = ws_chunk_at(drain->arena, chunk);
	uint32_t slot = ws_read_shared(home->slot);

	return slot < WS_DIR_SLOTS && ws_read_shared(home->start) == start &&
	       atomic_load(&drain->arena->directory[slot]) == chunk;
}

static struct ws_proc *find_forker(struct ws_drain *drain,
				   const struct ws_process_home *process_home)
{
	uint32_t chunk = process_home->parent_home;
	struct ws_proc *process;

	if (ws_chunks_has(&drain->chunks, chunk)) {
		process = get_home_owner(drain, chunk);
		/* Both may be new, and the child may come first in the directory. */
		if (!process && drain->parents < PARENTS_MOST &&
		    is_new_home(drain, chunk, process_home->parent_start)) {
			drain->parents++;
			process = ws_drain_process(drain, chunk);
			drain->parents--;
		}
		if (process && process->start_ticks == process_home->parent_start)
			return process;
	}
	for (uint32_t i = 0; i < GONE_BUCKETS; i++)
		for (process = drain->gone[i]; process; process = process->next)
			if (process->home_chunk == process_home->parent_home &&
			    process->start_ticks == process_home->parent_start)
				return process;
	return NULL;
}

static struct ws_proc *started_earlier(struct ws_proc *left, struct ws_proc *right, int host_pid,
				       uint64_t from, uint64_t to)
{
	uint64_t start = right->host_pid == host_pid
				 ? ws_clock_ns(right->drain->clock, right->start_ticks)
				 : 0;

	if (right->host_pid != host_pid || start < from || start > to)
		return left;
	return left && left->start_ticks <= right->start_ticks ? left : right;
}

struct ws_proc *ws_drain_find(struct ws_drain *drain, int host_pid, uint64_t from, uint64_t to)
{
	struct ws_proc *best = NULL;

	for (struct ws_proc *process = drain->procs; process; process = process->next)
		best = started_earlier(best, process, host_pid, from, to);
	/* Processes of other pid namespaces are kept under their pid there. */
	for (uint32_t i = drain->foreign ? 0 : (uint32_t)host_pid % GONE_BUCKETS,
		      n = drain->foreign ? GONE_BUCKETS : i + 1;
	     i < n; i++)
		for (struct ws_proc *process = drain->gone[i]; process; process = process->next)
			best = started_earlier(best, process, host_pid, from, to);
	return best;
}

/* The parent of a new process: exactly, for a fork; the image before it in the same pid, for an
 * exec; by pid otherwise. */
static struct ws_proc *find_parent(struct ws_drain *drain, const struct ws_process_home *home)
{
	struct ws_proc *process;

	if (home->origin == WS_ORIGIN_FORK)
		return find_forker(drain, home);
	if ((process = find_live(drain, home->pid)) && process->start_ticks <= home->start)
		return process;
	process = find_gone(drain, home->pid, home->start);
	if (process && process->reason == WS_END_EXEC)
		return process;
	process = find_live(drain, home->ppid);
	return process && process->start_ticks <= home->start
		       ? process
		       : find_gone(drain, home->ppid, home->start);
}

/* What the kernel says about a process. */
struct process_state {
	char letter; /* as in /proc/PID/stat; 0 when that cannot be read */
	long threads;
	unsigned long ticks; /* of processor time */
};

static struct process_state read_process_state(int pid)
{
	struct process_state state = {0};
	char line[WS_PROCESS_STAT];
	const char *after = ws_read_process_stat(pid, line);
	unsigned long user = 0, system = 0;

	if (!after ||
	    sscanf(after,
		   ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %ld",
		   &state.letter, &user, &system, &state.threads) != 4)
		state.letter = 0;
	state.ticks = user + system;
	return state;
}

/* Whether a process has gone. A zombie counts as gone: its parent may never reap it, and the
 * target's parent is us. */
static bool is_gone(int pid)
{
	struct process_state state;

	if (kill((pid_t)pid, 0))
		return errno == ESRCH;
	state = read_process_state(pid);
	/* A first thread that ended while others run looks like a zombie, except for the count. */
	return (state.letter == 'Z' || state.letter == 'X') && state.threads <= 1;
}

/* Whether a process has got so far that its hooks must have answered: it waits for something of its
 * own, or has used the processor for longer than loading takes. */
static bool got_far(struct process_state state)
{
	return state.letter == 'S' || state.ticks >= LOADING_TICKS;
}

static bool has_run(int pid)
{
	return got_far(read_process_state(pid));
}

bool ws_proc_had_time(uint32_t pid)
{
	struct process_state state = read_process_state((int)pid);

	if (!state.letter)
		return !is_gone((int)pid); /* /proc does not say */
	return got_far(state);
}

/* Whether the process that we see as `host` is the one that calls itself `pid` in the pid namespace
 * `ns`. */
static bool calls_itself(const char *host, uint32_t pid, uint64_t ns)
{
	char path[300], line[1024], *last = NULL;
	struct stat st;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%s/ns/pid", host);
	if (stat(path, &st) || st.st_ino != ns)
		return false;
	snprintf(path, sizeof(path), "/proc/%s/status", host);
	file = fopen(path, "re");
	while (file && !last && fgets(line, sizeof(line), file))
		if (!strncmp(line, "NSpid:", 6))
			last = strrchr(line, '\t');
	if (file)
		fclose(file);
	return last && strtoul(last, NULL, 10) == pid;
}

/*
 * The pid here of a process of another pid namespace: namespaces below ours are visible in our
 * /proc. -1 when the process is gone, 0 when that is unknown because /proc is missing or shows
 * other processes than ours.
 */
static int find_host_pid(const struct ws_proc *process)
{
	char self[32] = "";
	struct dirent *entry;
	int found = -1;
	DIR *dir;

	if (!process->pid_ns || readlink("/proc/self", self, sizeof(self) - 1) < 0 ||
	    atoi(self) != (int)getpid() || !(dir = opendir("/proc")))
		return 0;
	while (found < 0 && (entry = readdir(dir)))
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' &&
		    calls_itself(entry->d_name, process->pid, process->pid_ns))
			found = atoi(entry->d_name);
	closedir(dir);
	return found;
}

/*
 * Whether the process may be inspected and signalled from here. Processes name their own pid, so
 * when another user's programs are recorded, a process that does not belong to that user is left
 * alone.
 */
static bool is_ours(const struct ws_drain *drain, int host_pid)
{
	return drain->area->owner == (uid_t)-1 || drain->area->owner == geteuid() ||
	       ws_image_user(host_pid) == drain->area->owner;
}

static void watch_process(struct ws_drain *drain, struct ws_proc *process)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = process};
	bool foreign = process->pid_ns != drain->area->pid_ns;

	process->pidfd = -1;
	process->reason = WS_END_EXIT;
	drain->foreign |= foreign;
	process->host_pid = foreign ? find_host_pid(process) : (int)process->pid;
	if (process->host_pid > 0 && !is_ours(drain, process->host_pid))
		process->host_pid = is_gone(process->host_pid) ? -1 : 0;
	if (!foreign && (int)process->pid <= 0)
		process->host_pid = 0;
	/* a process that cannot be seen is followed until it says that it ends, but not waited
	 * for */
	if (process->host_pid <= 0) {
		process->ending = process->host_pid < 0;
		return;
	}
	process->pidfd = (int)syscall(SYS_pidfd_open, (pid_t)process->host_pid, 0);
	if (process->pidfd < 0) {
		process->ending = errno == ESRCH || is_gone(process->host_pid);
		return;
	}
	fcntl(process->pidfd, F_SETFD, FD_CLOEXEC);
	if (epoll_ctl(drain->epoll, EPOLL_CTL_ADD, process->pidfd, &ev)) {
		close(process->pidfd);
		process->pidfd = -1;
	}
}

void ws_drain_forget_started(struct ws_drain *drain, int pid)
{
	for (size_t i = 0; i < drain->started_n;)
		if (drain->started[i].pid == pid) {
			free(drain->started[i].path);
			drain->started[i] = drain->started[--drain->started_n];
		} else {
			i++;
		}
}

static void read_process_texts(struct ws_proc *process, const struct ws_process_home *home,
			       const struct ws_proc *parent)
{
	const size_t room = WS_HOME_TEXT_ROOM;
	size_t exe = ws_min(home->exe_len, room);
	size_t args = ws_min(home->cmdline_len, room - exe);

	if (home->origin == WS_ORIGIN_FORK && parent) {
		process->exe = ws_strdup(parent->exe);
		process->cmdline = ws_strdup(parent->cmdline);
		return;
	}
	process->exe = ws_strndup(home->text, exe);
	process->cmdline =
		ws_proc_arguments(home->text + exe, args, !process->sink->keep_command_lines);
}

static void write_process_row(struct ws_proc *process, const struct ws_process_home *home,
			      const struct ws_proc *parent)
{
	const char *base = strrchr(process->exe, '/');
	struct ws_row_process row = {
		.id = process->id,
		.pid = process->pid,
		.parent = parent && parent->sink == process->sink ? parent->id : 0,
		.ppid = home->ppid,
		.start = ws_clock_ns(process->drain->clock, home->start),
		.origin = process->target ? WS_ORIGIN_TARGET : (uint8_t)home->origin,
		.exe = ws_sink_string(process->sink, process->exe),
		.cmdline = ws_sink_string(process->sink, process->cmdline),
		.name = ws_sink_string(process->sink, base ? base + 1 : process->exe),
	};

	ws_writer_add(process->sink->writer, WS_TABLE_process, &row);
}

/*
 * When two images have one pid, the exec has ended the earlier one and its memory. They may be met
 * in either order: if a program calls exec at once, its records are often seen after those of its
 * successor. The live image must keep its home, because it writes there.
 */
static void replace_process_image(struct ws_proc *process, struct ws_proc *other)
{
	struct ws_proc *earlier =
		other && other->start_ticks > process->start_ticks ? process : other;

	if (!other || other->pid_ns != process->pid_ns ||
	    (earlier == other && process->origin == WS_ORIGIN_FORK))
		return;
	earlier->ending = true;
	earlier->reason = WS_END_EXEC;
	earlier->ended =
		ws_clock_ns(process->drain->clock,
			    earlier == process ? other->start_ticks : process->start_ticks);
}

/* The variables that a process reports, NUL-terminated in memory for the caller to free; none when
 * the numbers in its home make no sense. */
static struct ws_variables copy_variables(const struct ws_process_home *home)
{
	size_t at = (size_t)home->exe_len + home->cmdline_len, length = home->env_len;
	char *text;

	if (at + length > WS_HOME_TEXT_ROOM)
		at = length = 0;
	text = ws_malloc(length + 1);
	memcpy(text, home->text + at, length);
	text[length] = 0;
	return (struct ws_variables){text, length};
}

static void fill_process(struct ws_drain *drain, struct ws_proc *process,
			 const struct ws_process_home *home)
{
	struct ws_proc *parent = find_parent(drain, home), *other = find_live(drain, home->pid);
	struct ws_variables variables = copy_variables(home);

	watch_process(drain, process);
	replace_process_image(process, other);
	process->target = (pid_t)process->pid == drain->target && home->origin != WS_ORIGIN_FORK &&
			  !(other && other->target);
	process->sink = drain->ops.sink_for(drain->ops.ctx, (int)process->pid, variables.text,
					    variables.length, parent ? parent->sink : NULL);
	read_process_texts(process, home, parent);
	ws_drain_forget_started(drain, (int)process->pid);
	process->id = drain->perf ? ws_perf_adopt(drain->perf, process) : 0;
	if (!process->id) {
		process->id = ++process->sink->processes;
		write_process_row(process, home, parent);
	}
	process->ranked = ws_rank_write(process->sink, process->id, variables);
	free((char *)variables.text);
	if (home->flags & WS_PROC_TRUNCATED)
		ws_sink_diagnostic(process->sink, WS_INFO, "process", process->id,
				   ws_clock_ns(drain->clock, home->start),
				   "The command line is longer than 4096 bytes and was cut.");
}

/* Register a new process that has appeared in the directory. Its home stays where it is until the
 * process is settled. */
static struct ws_proc *register_process(struct ws_drain *drain, uint32_t chunk)
{
	struct ws_process_home *home = ws_chunk_at(drain->arena, chunk);
	struct ws_proc *process;
	union ws_home_copy *copy;

	if (ws_read_shared(home->chunk.kind) != WS_CHUNK_PROCESS ||
	    !atomic_load_explicit(&home->ready, memory_order_acquire) ||
	    /* The home has no owner while it is being registered: no other process may name it as
	     * its parent then. */
	    !ws_chunks_claim(&drain->chunks, chunk, NULL, WS_USE_HOME))
		return NULL;
	ws_clock_read(drain->clock); /* it began after the last reading of the clocks */
	copy = ws_malloc(sizeof(*copy));
	ws_copy_out(copy, home, sizeof(*copy));
	process = ws_calloc(1, sizeof(*process));
	process->drain = drain;
	process->home = home;
	process->home_chunk = chunk;
	process->origin = copy->home.origin;
	process->start_ticks = copy->home.start;
	process->pid = copy->home.pid;
	process->pid_ns = copy->home.pid_ns;
	process->status = WS_NO_STATUS;
	fill_process(drain, process, &copy->home);
	free(copy);
	process->next = drain->procs;
	drain->procs = process;
	drain->chunks.entry[chunk].owner = process;
	drain->registered++;
	return process;
}

struct ws_proc *ws_drain_process(struct ws_drain *drain, uint32_t chunk)
{
	if (!ws_chunks_has(&drain->chunks, chunk))
		return NULL;
	return ws_or(get_home_owner(drain, chunk), register_process(drain, chunk));
}

/* How our own child ended, without reaping it: launch.c does that. */
static int32_t read_exit_status(pid_t pid)
{
	siginfo_t info = {0};

	if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid != pid)
		return WS_NO_STATUS;
	return info.si_code == CLD_EXITED ? info.si_status : -info.si_status;
}

/* Whether a process without a pidfd has ended. */
static bool has_process_ended(const struct ws_drain *drain, const struct ws_proc *process, bool ask)
{
	if (!process->host_pid)
		return atomic_load_explicit(&process->home->ended, memory_order_acquire);
	if (!ask)
		return false;
	return process->host_pid == drain->target ? read_exit_status(drain->target) != WS_NO_STATUS
						  : is_gone(process->host_pid);
}

void ws_drain_await_end(const struct ws_drain *drain, const struct timespec *longest)
{
	struct pollfd ends = {.fd = drain->epoll, .events = POLLIN};

	ppoll(&ends, 1, longest, NULL);
}

void ws_drain_poll_ends(struct ws_drain *drain)
{
	uint64_t now = drain->clock->readings[drain->clock->n - 1].raw;
	struct epoll_event ev[64];
	bool ask;
	int n;

	while ((n = epoll_wait(drain->epoll, ev, WS_COUNT(ev), 0)) > 0) {
		for (int i = 0; i < n; i++) {
			struct ws_proc *process = ev[i].data.ptr;

			epoll_ctl(drain->epoll, EPOLL_CTL_DEL, process->pidfd, NULL);
			if (!process->ending) {
				process->ending = true;
				process->reason = WS_END_EXIT;
			}
		}
		if (n < (int)WS_COUNT(ev))
			break;
	}
	ask = now - drain->last_asked >= ASK_NS;
	if (ask)
		drain->last_asked = now;
	for (struct ws_proc *process = drain->procs; process; process = process->next)
		if (!process->settled && !process->ending && process->pidfd < 0 &&
		    has_process_ended(drain, process, ask)) {
			process->ending = true;
			process->reason = WS_END_EXIT;
		}
}

void ws_proc_claim_strings(struct ws_proc *process)
{
	struct ws_drain *drain = process->drain;
	uint32_t chunk = (uint32_t)(atomic_load(&process->home->string_pos) >> 32),
		 last = process->strings, *link = &process->strings;

	/* Newest first: strings older than the last claimed one have been claimed too. */
	while (chunk != last && ws_chunks_has(&drain->chunks, chunk)) {
		const struct ws_chunk *shared = ws_chunk_at(drain->arena, chunk);

		if (ws_read_shared(shared->kind) != WS_CHUNK_STRINGS ||
		    !ws_chunks_claim(&drain->chunks, chunk, process, WS_USE_STRINGS))
			break;
		*link = chunk;
		link = &drain->chunks.entry[chunk].next;
		*link = last;
		chunk = atomic_load_explicit(&shared->next, memory_order_acquire);
	}
}

/* Forget the strings of a process, and give their chunks back if it can no longer write to them. */
static void free_strings(struct ws_drain *drain, struct ws_proc *process, bool memory_too)
{
	uint32_t chunk, next;

	ws_proc_claim_strings(process);
	for (chunk = process->strings; chunk; chunk = next) {
		next = drain->chunks.entry[chunk].next;
		free(drain->string_ids[chunk]);
		drain->string_ids[chunk] = NULL;
		if (memory_too) {
			ws_chunks_give(&drain->chunks, chunk, process);
			atomic_fetch_sub(&drain->arena->string_chunks, 1);
		} else {
			ws_chunks_leave(&drain->chunks, chunk, process);
		}
	}
	process->strings = 0;
	free(drain->string_ids[process->home_chunk]);
	drain->string_ids[process->home_chunk] = NULL;
}

/* Take the process's home out of the directory. */
static void leave_directory(struct ws_drain *drain, const struct ws_proc *process)
{
	uint32_t slot = ws_read_shared(process->home->slot);

	/* A process killed between taking its slot and writing down which one leaves it to be
	 * searched for. */
	if (slot >= WS_DIR_SLOTS ||
	    atomic_load(&drain->arena->directory[slot]) != process->home_chunk)
		for (slot = 0; slot < drain->slots_used &&
			       atomic_load(&drain->arena->directory[slot]) != process->home_chunk;)
			slot++;
	if (slot < WS_DIR_SLOTS &&
	    atomic_load(&drain->arena->directory[slot]) == process->home_chunk)
		atomic_store(&drain->arena->directory[slot], 0);
}

static void free_threads(struct ws_proc *process)
{
	free(process->gone);
	process->gone = NULL;
	process->gone_n = process->gone_cap = 0;
	ws_map_free(&process->thread_index);
	free(process->threads);
	process->threads = NULL;
	process->threads_n = process->threads_cap = 0;
}

void ws_proc_free(struct ws_proc *process)
{
	process->forgotten = true;
	if (process->held)
		return;
	free_threads(process);
	free(process->exe);
	free(process->cmdline);
	free(process);
}

void ws_proc_release(struct ws_proc *process)
{
	process->held = false;
	if (process->forgotten)
		ws_proc_free(process);
	else if (process->settled)
		free_threads(process);
}

static void remember_gone(struct ws_drain *drain, struct ws_proc *process)
{
	struct ws_proc **slot = &drain->gone_order[drain->gone_n++ % GONE_MOST], *old = *slot;

	for (struct ws_proc **at = &drain->gone[old ? old->pid % GONE_BUCKETS : 0]; old && *at;
	     at = &(*at)->next)
		if (*at == old) {
			*at = old->next;
			ws_proc_free(old);
			break;
		}
	*slot = process;
	process->next = drain->gone[process->pid % GONE_BUCKETS];
	drain->gone[process->pid % GONE_BUCKETS] = process;
}

void ws_drain_write_ends(struct ws_drain *drain, bool all)
{
	size_t n = 0;

	all |= !ws_perf_active(drain->perf) || drain->ends_n > WS_ENDS_MOST;
	for (; n < drain->ends_n && (all || drain->ends[n].row.end < drain->keep_from); n++)
		ws_writer_add(drain->ends[n].sink->writer, WS_TABLE_process_end,
			      &drain->ends[n].row);
	if (n)
		memmove(drain->ends, drain->ends + n, (drain->ends_n - n) * sizeof(*drain->ends));
	drain->ends_n -= n;
}

void ws_proc_ended(struct ws_proc *process, uint64_t time, enum ws_process_end_reason reason)
{
	struct ws_drain *drain = process->drain;

	if (!process->settled) {
		process->ended = time;
		if (reason == WS_END_EXEC) {
			process->ending = true;
			process->reason = reason;
		}
		return;
	}
	for (size_t i = 0; i < drain->ends_n; i++) {
		struct ws_proc_end *end = &drain->ends[i];

		if (end->sink != process->sink || end->row.process != process->id)
			continue;
		end->row.end = time;
		if (reason == WS_END_EXEC) {
			end->row.reason = (uint8_t)reason;
			end->row.status = WS_NO_STATUS;
		}
	}
}

static void say_limited(const struct ws_proc *process, uint64_t time)
{
	if (ws_read_shared(process->home->flags) & WS_PROC_LIMITED)
		ws_sink_diagnostic(process->sink, WS_WARNING, "process", process->id, time,
				   "The memory for recording could not grow in this process, "
				   "because its address space is limited (ulimit -v) or taken: "
				   "events that found no room were lost.");
}

struct ws_stream ws_drain_make_stream(const struct ws_drain *drain, struct ws_proc *process)
{
	struct ws_stream stream = {.clock = drain->clock,
				   .sink = process->sink,
				   .writer = process->sink->writer,
				   .proc = process,
				   .window = &drain->window,
				   .process = process->id};

	memcpy(stream.stage, process->sink->stage, sizeof(stream.stage));
	return stream;
}

void ws_drain_settle_process(struct ws_drain *drain, struct ws_proc *process, bool memory_too)
{
	struct ws_row_process_end row = {.process = process->id,
					 .reason = (uint8_t)process->reason,
					 .status = process->status};
	struct ws_stream stream = ws_drain_make_stream(drain, process);

	ws_convert_nvtx_process_end(&stream);
	ws_convert_cuda_process_end(&stream);
	ws_library_note_process_end(&stream);
	ws_stream_put_collectives(&stream, true);
	if ((pid_t)process->pid == drain->target && process->reason == WS_END_EXIT)
		row.status = read_exit_status((pid_t)process->pid);
	row.end = process->ended ? process->ended : drain->clock->readings[drain->clock->n - 1].raw;
	say_limited(process, row.end);
	drain->dropped_ranges += atomic_exchange(&process->home->ranges_open, 0);
	ws_grow(drain->ends, drain->ends_cap, drain->ends_n + 1);
	drain->ends[drain->ends_n++] = (struct ws_proc_end){process->sink, row};
	for (int i = 0; i < WS_SLOTS; i++)
		if (process->slot[i] && process->slot_free[i])
			process->slot_free[i](process->slot[i]);
	memset(process->slot, 0, sizeof(process->slot));
	if (process->pidfd >= 0)
		close(process->pidfd);
	process->pidfd = -1;
	free_strings(drain, process, memory_too);
	if (memory_too) {
		leave_directory(drain, process);
		ws_chunks_give(&drain->chunks, process->home_chunk, process);
	} else {
		ws_chunks_leave(&drain->chunks, process->home_chunk, process);
	}
	if (!ws_perf_active(drain->perf)) /* with perf, its samples may come later */
		free_threads(process);
	process->home = NULL;
	process->settled = true;
	for (struct ws_proc **at = &drain->procs; *at; at = &(*at)->next)
		if (*at == process) {
			*at = process->next;
			break;
		}
	remember_gone(drain, process);
}

uint32_t ws_proc_thread(struct ws_proc *process, uint32_t tid, uint64_t start_ns)
{
	struct ws_row_thread row = {.process = process->id, .tid = tid, .start = start_ns};
	size_t known = (size_t)ws_map_get(&process->thread_index, tid, NULL);

	if (known)
		return process->threads[known - 1].id;
	if (process->threads_n >= THREADS_MOST) /* made up, or we missed their ends */
		return 0;
	row.id = ++process->sink->threads;
	ws_proc_thread_known(process, tid, row.id, start_ns);
	ws_writer_add(process->sink->writer, WS_TABLE_thread, &row);
	return row.id;
}

uint32_t ws_proc_thread_at(struct ws_proc *process, uint32_t tid, uint64_t time)
{
	const struct ws_thread_entry *best = NULL;

	for (size_t i = 0; i < process->gone_n && i < process->gone_cap; i++)
		if (process->gone[i].tid == tid && time <= process->gone[i].end &&
		    (!best || process->gone[i].end < best->end))
			best = &process->gone[i];
	return best ? best->id : ws_proc_thread(process, tid, time);
}

/* Double the list, with the oldest thread first. */
static void grow_gone_list(struct ws_proc *process)
{
	size_t cap = process->gone_cap ? process->gone_cap * 2 : 16;
	struct ws_thread_entry *entry = ws_malloc(cap * sizeof(*entry));

	for (size_t i = 0; i < process->gone_cap; i++)
		entry[i] = process->gone[(process->gone_n + i) % process->gone_cap];
	free(process->gone);
	process->gone = entry;
	process->gone_n = process->gone_cap;
	process->gone_cap = cap;
}

static void remember_thread(struct ws_proc *process, struct ws_thread_entry entry)
{
	bool full = process->gone_n >= process->gone_cap;

	if (full &&
	    (process->gone_cap < WS_THREADS_GONE ||
	     process->gone[process->gone_n % process->gone_cap].end >= process->drain->keep_from))
		grow_gone_list(process);
	entry.end = process->drain->clock->readings[process->drain->clock->n - 1].raw;
	process->gone[process->gone_n++ % process->gone_cap] = entry;
}

void ws_proc_thread_known(struct ws_proc *process, uint32_t tid, uint32_t id, uint64_t start_ns)
{
	ws_grow(process->threads, process->threads_cap, process->threads_n + 1);
	process->threads[process->threads_n++] =
		(struct ws_thread_entry){.tid = tid, .id = id, .start = start_ns};
	ws_map_set(&process->thread_index, tid, process->threads_n);
}

/* Remove entry i, which has ended: the last one takes its place. */
static void remove_thread(struct ws_proc *process, size_t i)
{
	uint32_t tid = process->threads[i].tid;

	if (ws_map_get(&process->thread_index, tid, NULL) == i + 1)
		ws_map_remove(&process->thread_index, tid, NULL);
	process->threads[i] = process->threads[--process->threads_n];
	if (i < process->threads_n && ws_map_get(&process->thread_index, process->threads[i].tid,
						 NULL) == process->threads_n + 1)
		ws_map_set(&process->thread_index, process->threads[i].tid, i + 1);
}

void ws_proc_thread_ended(struct ws_proc *process, uint32_t id)
{
	for (size_t i = process->threads_n; i--;)
		if (process->threads[i].id == id) {
			remember_thread(process, process->threads[i]);
			remove_thread(process, i);
			return;
		}
}

void **ws_proc_slot(struct ws_proc *process, int domain, void (*free_fn)(void *))
{
	process->slot_free[domain] = free_fn;
	return &process->slot[domain];
}

/* ---- images that were started and never registered ---- */

/* Whether the image that the note is about has registered, and maybe even ended, before the note
 * was read. */
static bool is_later_image(const struct ws_drain *drain, const struct ws_proc *process,
			   const struct ws_started *started)
{
	return process->pid == (uint32_t)started->pid &&
	       ws_clock_ns(drain->clock, process->start_ticks) >= started->time;
}

/* Whether the image that the note is about had registered, and maybe ended, before the note was
 * read. Several images of one pid may be known, in any order. */
static bool has_registered(const struct ws_drain *drain, const struct ws_started *started)
{
	for (const struct ws_proc *process = drain->procs; process; process = process->next)
		if (is_later_image(drain, process, started))
			return true;
	for (const struct ws_proc *process = drain->gone[(uint32_t)started->pid % GONE_BUCKETS];
	     process; process = process->next)
		if (is_later_image(drain, process, started))
			return true;
	return false;
}

void ws_drain_note_started(struct ws_drain *drain, const struct ws_proc *by,
			   struct ws_started started)
{
	bool known = started.pid <= 0 || drain->started_n >= STARTED_MOST ||
		     has_registered(drain, &started);

	/* The child's own note about its exec may come before its parent's about the fork. */
	for (size_t i = 0; !started.path && i < drain->started_n; i++)
		known |= drain->started[i].pid == started.pid;
	if (known) {
		free(started.path);
		return;
	}
	if (drain->over) { /* it was started without hooks */
		free(started.path);
		started.path = NULL;
	}
	started.sink = by->sink;
	started.by = by->id;
	started.pid_ns = by->pid_ns;
	started.user = ws_image_user(by->host_pid);
	ws_drain_forget_started(drain, started.pid);
	ws_grow(drain->started, drain->started_cap, drain->started_n + 1);
	drain->started[drain->started_n++] = started;
}

uint32_t ws_drain_alive(const struct ws_drain *drain)
{
	uint32_t expected = 0;

	for (const struct ws_proc *process = drain->procs; process; process = process->next)
		expected += process->host_pid != 0;
	/* Processes announced by the one that started them and not registered yet, or never going
	 * to be: they live as long as their pid does. */
	for (size_t i = 0; i < drain->started_n; i++)
		expected += drain->started[i].pid_ns == drain->area->pid_ns &&
			    !is_gone(drain->started[i].pid);
	return expected;
}

/* Only of a live process do we know that it had time to answer: one that has gone may have ended
 * while it was being loaded. */
static void report_unseen(const struct ws_drain *drain, const struct ws_started *started,
			  bool silent)
{
	char why[5000], text[6000];
	const char *problem = ws_image_problem(started->path, started->user, why, sizeof(why));

	if (started->shut_out)
		problem = "its user, or its root folder, cannot read the hooks";
	if (started->tight)
		problem = "the hooks would take too much of its address space, which is limited "
			  "to less than 32 MiB (ulimit -v), or to 8 MiB of data (ulimit -d)";
	if (!problem && (!silent || access(started->path, X_OK)))
		return;
	snprintf(text, sizeof(text), "%s %s: %s.",
		 ws_perf_active(drain->perf)
			 ? "Only what the kernel tells (samples, context switches) was recorded of"
			 : "Nothing was recorded inside",
		 started->path, ws_text_or(problem, "it was started but its hooks never answered"));
	ws_sink_diagnostic(started->sink, WS_WARNING, "process", started->by, started->time, text);
}

void ws_drain_check_started(struct ws_drain *drain, bool all)
{
	uint64_t now = drain->clock->readings[drain->clock->n - 1].raw;

	for (size_t i = 0; i < drain->started_n;) {
		struct ws_started *started = &drain->started[i];
		uint64_t age = ws_max(now, started->time) - started->time;
		bool gone, known, late;

		if (!all && age < PATIENCE_NS / 100) { /* most register at once: no system calls
							  about them */
			i++;
			continue;
		}
		gone = is_gone(started->pid);
		known = started->pid_ns == drain->arena->recorder_pid_ns;
		late = age > PATIENCE_NS && (started->said || !known || has_run(started->pid));
		if (!all && !gone && !late) {
			i++;
			continue;
		}
		if (started->path && !started->said)
			report_unseen(drain, started, late && known && !gone);
		started->said = true;
		if (!all && !gone) { /* it cannot be seen, but we wait for it */
			i++;
			continue;
		}
		free(started->path);
		*started = drain->started[--drain->started_n];
	}
}
