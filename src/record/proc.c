/*
 * proc.c - processes of a session: registering images and forked children, who is whose parent,
 * noticing ends, saying what could not be seen.
 */
#include "record/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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
#include "record/perf.h"

#define FORK_NOTE_NS 1000000000u
#define PATIENCE_NS 2000000000u /* how long an image may take from exec to registering */
#define ASK_NS 50000000u	/* between two looks at processes whose end no descriptor tells */

static bool needs_quotes(const char *s)
{
	return !*s || s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
				  "+=.,/:@%^")];
}

char *ws_proc_arguments(const char *args, size_t len)
{
	struct ws_text t = {0};

	for (size_t i = 0; i < len;) {
		size_t n = strnlen(args + i, len - i);
		char *one = ws_strndup(args + i, n);

		ws_text_puts(&t, t.len ? " " : "");
		if (needs_quotes(one)) {
			ws_text_puts(&t, "'");
			for (char *c = one; *c; c++)
				*c == '\'' ? ws_text_puts(&t, "'\\''") : ws_text_add(&t, c, 1);
			ws_text_puts(&t, "'");
		} else {
			ws_text_puts(&t, one);
		}
		free(one);
		i += n + 1;
	}
	return t.s ? t.s : ws_strdup("");
}

static struct ws_proc *find_live(struct ws_drain *d, uint32_t pid)
{
	for (struct ws_proc *p = d->procs; p; p = p->next)
		if (p->pid == pid && !p->settled)
			return p;
	return NULL;
}

static struct ws_proc *find_gone(struct ws_drain *d, uint32_t pid, uint64_t before)
{
	for (struct ws_proc *p = d->gone[pid % GONE_BUCKETS]; p; p = p->next)
		if (p->pid == pid && p->start_ticks <= before)
			return p;
	return NULL;
}

/*
 * Is it a process's home still? What a settled one's memory says stays there until another has
 * taken it; who believed it would settle that process again, and give back memory that is another's
 * by then.
 */
static bool in_directory(const struct ws_drain *d, uint32_t chunk)
{
	uint32_t slot = ((const struct ws_process_home *)ws_chunk_at(d->a, chunk))->slot;

	return slot < WS_DIR_SLOTS && atomic_load(&d->a->directory[slot]) == chunk;
}

static struct ws_proc *find_forker(struct ws_drain *d, const struct ws_process_home *h)
{
	const struct ws_process_home *home;
	struct ws_proc *p;

	if (h->parent_home >= d->a->chunk_first &&
	    h->parent_home < d->a->chunk_first + d->a->chunk_count) {
		home = ws_chunk_at(d->a, h->parent_home);
		p = d->by_chunk[h->parent_home];
		/* Both may be new, and the child may come first in the directory. */
		if (!p && home != h && home->start == h->parent_start &&
		    in_directory(d, h->parent_home))
			p = ws_drain_process(d, h->parent_home);
		if (p && p->start_ticks == h->parent_start)
			return p;
	}
	for (uint32_t i = 0; i < GONE_BUCKETS; i++)
		for (p = d->gone[i]; p; p = p->next)
			if (p->home_chunk == h->parent_home && p->start_ticks == h->parent_start)
				return p;
	return NULL;
}

static struct ws_proc *earlier(struct ws_proc *a, struct ws_proc *b, int host_pid, uint64_t from,
			       uint64_t to)
{
	uint64_t start = b->host_pid == host_pid ? ws_clock_ns(b->drain->clock, b->start_ticks) : 0;

	if (b->host_pid != host_pid || start < from || start > to)
		return a;
	return a && a->start_ticks <= b->start_ticks ? a : b;
}

struct ws_proc *ws_drain_find(struct ws_drain *d, int host_pid, uint64_t from, uint64_t to)
{
	struct ws_proc *best = NULL;

	for (struct ws_proc *p = d->procs; p; p = p->next)
		best = earlier(best, p, host_pid, from, to);
	/* Those of other pid namespaces are kept under the number they have there. */
	for (uint32_t i = d->foreign ? 0 : (uint32_t)host_pid % GONE_BUCKETS,
		      n = d->foreign ? GONE_BUCKETS : i + 1;
	     i < n; i++)
		for (struct ws_proc *p = d->gone[i]; p; p = p->next)
			best = earlier(best, p, host_pid, from, to);
	return best;
}

/* The parent of a new process: exactly, for a fork; the image before it in the same pid, for an
 * exec; by pid otherwise. */
static struct ws_proc *find_parent(struct ws_drain *d, const struct ws_process_home *h)
{
	struct ws_proc *p;

	if (h->origin == WS_ORIGIN_FORK)
		return find_forker(d, h);
	if ((p = find_live(d, h->pid)) && p->start_ticks <= h->start)
		return p;
	p = find_gone(d, h->pid, h->start);
	if (p && p->reason == WS_END_EXEC)
		return p;
	p = find_live(d, h->ppid);
	return p && p->start_ticks <= h->start ? p : find_gone(d, h->ppid, h->start);
}

/* Has a process gone? A zombie has: whoever should reap it may never do so, for the target's that
 * is us. */
static bool is_gone(int pid)
{
	char path[64], line[1024], *after = NULL, state = 0;
	long threads = 1;
	FILE *f;

	if (kill((pid_t)pid, 0))
		return errno == ESRCH;
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (f && fgets(line, sizeof(line), f))
		after = strrchr(line, ')');
	if (f)
		fclose(f);
	/* A first thread that has left while others run looks like a zombie, but for the count. */
	return after &&
	       sscanf(after,
		      ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld",
		      &state, &threads) == 2 &&
	       (state == 'Z' || state == 'X') && threads <= 1;
}

/* Is the process that we see as `host` the one that calls itself `pid` in the pid namespace `ns`?
 */
static bool calls_itself(const char *host, uint32_t pid, uint64_t ns)
{
	char path[300], line[1024], *last = NULL;
	struct stat st;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%s/ns/pid", host);
	if (stat(path, &st) || st.st_ino != ns)
		return false;
	snprintf(path, sizeof(path), "/proc/%s/status", host);
	f = fopen(path, "re");
	while (f && !last && fgets(line, sizeof(line), f))
		if (!strncmp(line, "NSpid:", 6))
			last = strrchr(line, '\t');
	if (f)
		fclose(f);
	return last && strtoul(last, NULL, 10) == pid;
}

/*
 * The pid here of a process of another pid namespace: namespaces below ours are seen in our /proc.
 * -1 when it is not there any more, 0 when that cannot be told because /proc is missing or shows
 * other processes than ours.
 */
static int find_host_pid(const struct ws_proc *p)
{
	char self[32] = "";
	struct dirent *e;
	int found = -1;
	DIR *dir;

	if (!p->pid_ns || readlink("/proc/self", self, sizeof(self) - 1) < 0 ||
	    atoi(self) != (int)getpid() || !(dir = opendir("/proc")))
		return 0;
	while (found < 0 && (e = readdir(dir)))
		if (e->d_name[0] >= '1' && e->d_name[0] <= '9' &&
		    calls_itself(e->d_name, p->pid, p->pid_ns))
			found = atoi(e->d_name);
	closedir(dir);
	return found;
}

static void watch(struct ws_drain *d, struct ws_proc *p)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.ptr = p};

	p->pidfd = -1;
	p->reason = WS_END_EXIT;
	d->foreign |= p->pid_ns != d->a->recorder_pid_ns;
	p->host_pid = p->pid_ns == d->a->recorder_pid_ns ? (int)p->pid : find_host_pid(p);
	if (p->host_pid <= 0) { /* one that cannot be seen is followed until it says that it ends,
				   but not waited for */
		p->ending = p->host_pid < 0;
		return;
	}
	p->pidfd = (int)syscall(SYS_pidfd_open, (pid_t)p->host_pid, 0);
	if (p->pidfd < 0) {
		p->ending = errno == ESRCH || is_gone(p->host_pid);
		return;
	}
	fcntl(p->pidfd, F_SETFD, FD_CLOEXEC);
	if (epoll_ctl(d->epoll, EPOLL_CTL_ADD, p->pidfd, &ev)) {
		close(p->pidfd);
		p->pidfd = -1;
	}
}

void ws_drain_forget_started(struct ws_drain *d, int pid)
{
	for (size_t i = 0; i < d->started_n;)
		if (d->started[i].pid == pid) {
			free(d->started[i].path);
			d->started[i] = d->started[--d->started_n];
		} else {
			i++;
		}
}

static void take_texts(struct ws_proc *p, const struct ws_process_home *h,
		       const struct ws_proc *parent)
{
	const size_t room = WS_CHUNK_SIZE - sizeof(*h);
	size_t exe = h->exe_len < room ? h->exe_len : room;
	size_t args = h->cmdline_len < room - exe ? h->cmdline_len : room - exe;

	if (h->origin == WS_ORIGIN_FORK && parent) {
		p->exe = ws_strdup(parent->exe);
		p->cmdline = ws_strdup(parent->cmdline);
		return;
	}
	p->exe = ws_strndup(h->text, exe);
	p->cmdline = ws_proc_arguments(h->text + exe, args);
}

static void write_row(struct ws_proc *p, const struct ws_process_home *h,
		      const struct ws_proc *parent)
{
	const char *base = strrchr(p->exe, '/');
	struct ws_row_process row = {
		.id = p->id,
		.pid = p->pid,
		.parent = parent && parent->sink == p->sink ? parent->id : 0,
		.ppid = h->ppid,
		.start = ws_clock_ns(p->drain->clock, h->start),
		.origin = p->target ? WS_ORIGIN_TARGET : (uint8_t)h->origin,
		.exe = ws_sink_string(p->sink, p->exe),
		.cmdline = ws_sink_string(p->sink, p->cmdline),
		.name = ws_sink_string(p->sink, base ? base + 1 : p->exe),
	};

	ws_writer_add(p->sink->writer, WS_TABLE_process, &row);
}

/*
 * Of two images in one pid the earlier is gone with the exec, and its memory with it. They may be
 * met in either order: what a program does that execs at once is often seen after what its
 * successor does. The one that lives must keep its home, for it writes there.
 */
static void replace_image(struct ws_proc *p, struct ws_proc *other)
{
	struct ws_proc *earlier = other && other->start_ticks > p->start_ticks ? p : other;

	if (!other || other->pid_ns != p->pid_ns ||
	    (earlier == other && p->home->origin == WS_ORIGIN_FORK))
		return;
	earlier->ending = true;
	earlier->reason = WS_END_EXEC;
	earlier->ended =
		ws_clock_ns(p->drain->clock, earlier == p ? other->start_ticks : p->start_ticks);
}

/* A new process has appeared in the directory. Its home stays where it is until the process is
 * settled. */
static struct ws_proc *register_process(struct ws_drain *d, uint32_t chunk)
{
	struct ws_process_home *h = ws_chunk_at(d->a, chunk);
	struct ws_proc *p, *parent, *other;
	char *env;
	size_t env_len, env_at;

	if (h->chunk.kind != WS_CHUNK_PROCESS ||
	    !atomic_load_explicit(&h->ready, memory_order_acquire))
		return NULL;
	ws_clock_read(d->clock); /* it began after the last reading */
	p = ws_calloc(1, sizeof(*p));
	p->drain = d;
	p->home = h;
	p->home_chunk = chunk;
	p->start_ticks = h->start;
	p->pid = h->pid;
	p->pid_ns = h->pid_ns;
	p->status = WS_NO_STATUS;
	parent = find_parent(d, h);
	other = find_live(d, h->pid);
	watch(d, p);
	replace_image(p, other);
	p->target = (pid_t)p->pid == d->target && h->origin != WS_ORIGIN_FORK &&
		    !(other && other->target);
	take_texts(p, h, parent);
	env_len = h->env_len;
	env_at = (size_t)h->exe_len + h->cmdline_len;
	if (env_at + env_len > WS_CHUNK_SIZE - sizeof(*h))
		env_at = env_len = 0;
	env = ws_malloc(env_len + 1); /* a copy: what is shared may lose the NUL at its end */
	memcpy(env, h->text + env_at, env_len);
	env[env_len] = 0;
	p->sink = d->ops.sink_for(d->ops.ctx, (int)p->pid, env, env_len,
				  parent ? parent->sink : NULL);
	free(env);
	ws_drain_forget_started(d, (int)p->pid);
	p->id = d->perf ? ws_perf_adopt(d->perf, p) : 0;
	if (!p->id) {
		p->id = ++p->sink->processes;
		write_row(p, h, parent);
	}
	if (h->flags & WS_PROC_TRUNCATED)
		ws_sink_diagnostic(p->sink, WS_INFO, "process", p->id,
				   ws_clock_ns(d->clock, h->start),
				   "The command line is longer than 4096 bytes and was cut.");
	p->next = d->procs;
	d->procs = p;
	d->by_chunk[chunk] = p;
	d->registered++;
	return p;
}

struct ws_proc *ws_drain_process(struct ws_drain *d, uint32_t chunk)
{
	if (chunk < d->a->chunk_first || chunk >= d->a->chunk_first + d->a->chunk_count ||
	    d->left[chunk])
		return NULL;
	return d->by_chunk[chunk] ? d->by_chunk[chunk] : register_process(d, chunk);
}

/* How our own child ended, without reaping it: that is launch.c's. */
static int32_t exit_status_of(pid_t pid)
{
	siginfo_t info = {0};

	if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid != pid)
		return WS_NO_STATUS;
	return info.si_code == CLD_EXITED ? info.si_status : -info.si_status;
}

/* Has a process without a pidfd ended? */
static bool has_ended(const struct ws_drain *d, const struct ws_proc *p, bool ask)
{
	if (!p->host_pid)
		return atomic_load_explicit(&p->home->ended, memory_order_acquire);
	if (!ask)
		return false;
	return p->host_pid == d->target ? exit_status_of(d->target) != WS_NO_STATUS
					: is_gone(p->host_pid);
}

void ws_drain_poll_ends(struct ws_drain *d)
{
	uint64_t now = d->clock->v[d->clock->n - 1].raw;
	struct epoll_event ev[64];
	bool ask;
	int n;

	while ((n = epoll_wait(d->epoll, ev, WS_COUNT(ev), 0)) > 0) {
		for (int i = 0; i < n; i++) {
			struct ws_proc *p = ev[i].data.ptr;

			epoll_ctl(d->epoll, EPOLL_CTL_DEL, p->pidfd, NULL);
			if (!p->ending) {
				p->ending = true;
				p->reason = WS_END_EXIT;
			}
		}
		if (n < (int)WS_COUNT(ev))
			break;
	}
	ask = now - d->last_asked >= ASK_NS;
	if (ask)
		d->last_asked = now;
	for (struct ws_proc *p = d->procs; p; p = p->next)
		if (!p->settled && !p->ending && p->pidfd < 0 && has_ended(d, p, ask)) {
			p->ending = true;
			p->reason = WS_END_EXIT;
		}
}

static void free_strings(struct ws_drain *d, struct ws_process_home *h)
{
	uint32_t chunk = (uint32_t)(atomic_load(&h->string_pos) >> 32), self = h->chunk.self;

	for (uint32_t guard = 0; guard < d->a->chunk_count && chunk != WS_CHUNK_NONE; guard++) {
		struct ws_chunk *c;
		uint32_t next;

		if (chunk < d->a->chunk_first || chunk >= d->a->chunk_first + d->a->chunk_count)
			break;
		c = ws_chunk_at(d->a, chunk);
		free(d->string_ids[chunk]);
		d->string_ids[chunk] = NULL;
		if (chunk == self || c->kind != WS_CHUNK_STRINGS)
			break;
		next = atomic_load(&c->next);
		ws_chunk_give(d->a, chunk);
		chunk = next;
	}
	free(d->string_ids[self]);
	d->string_ids[self] = NULL;
}

static void free_threads(struct ws_proc *p)
{
	free(p->gone);
	p->gone = NULL;
	p->gone_n = p->gone_cap = 0;
	free(p->threads);
	p->threads = NULL;
	p->threads_n = p->threads_cap = 0;
}

void ws_proc_free(struct ws_proc *p)
{
	p->forgotten = true;
	if (p->held)
		return;
	free_threads(p);
	free(p->exe);
	free(p->cmdline);
	free(p);
}

void ws_proc_release(struct ws_proc *p)
{
	p->held = false;
	if (p->forgotten)
		ws_proc_free(p);
	else if (p->settled)
		free_threads(p);
}

static void remember_gone(struct ws_drain *d, struct ws_proc *p)
{
	struct ws_proc **slot = &d->gone_order[d->gone_n++ % GONE_MOST], *old = *slot;

	for (struct ws_proc **at = &d->gone[old ? old->pid % GONE_BUCKETS : 0]; old && *at;
	     at = &(*at)->next)
		if (*at == old) {
			*at = old->next;
			ws_proc_free(old);
			break;
		}
	*slot = p;
	p->next = d->gone[p->pid % GONE_BUCKETS];
	d->gone[p->pid % GONE_BUCKETS] = p;
}

void ws_drain_write_ends(struct ws_drain *d, bool all)
{
	size_t n = 0;

	all |= !ws_perf_active(d->perf) || d->ends_n > WS_ENDS_MOST;
	for (; n < d->ends_n && (all || d->ends[n].row.end < d->keep_from); n++)
		ws_writer_add(d->ends[n].sink->writer, WS_TABLE_process_end, &d->ends[n].row);
	if (n)
		memmove(d->ends, d->ends + n, (d->ends_n - n) * sizeof(*d->ends));
	d->ends_n -= n;
}

void ws_proc_ended(struct ws_proc *p, uint64_t time, enum ws_process_end_reason reason)
{
	struct ws_drain *d = p->drain;

	if (!p->settled) {
		p->ended = time;
		if (reason == WS_END_EXEC) {
			p->ending = true;
			p->reason = reason;
		}
		return;
	}
	for (size_t i = 0; i < d->ends_n; i++) {
		struct ws_proc_end *e = &d->ends[i];

		if (e->sink != p->sink || e->row.process != p->id)
			continue;
		e->row.end = time;
		if (reason == WS_END_EXEC) {
			e->row.reason = (uint8_t)reason;
			e->row.status = WS_NO_STATUS;
		}
	}
}

void ws_drain_settle_process(struct ws_drain *d, struct ws_proc *p, bool memory_too)
{
	struct ws_row_process_end row = {
		.process = p->id, .reason = (uint8_t)p->reason, .status = p->status};
	struct ws_stream s = {.clock = d->clock,
			      .sink = p->sink,
			      .writer = p->sink->writer,
			      .proc = p,
			      .process = p->id};

	memcpy(s.stage, p->sink->stage, sizeof(s.stage));
	ws_convert_nvtx_process_end(&s);
	ws_convert_cuda_process_end(&s);
	if ((pid_t)p->pid == d->target && p->reason == WS_END_EXIT)
		row.status = exit_status_of((pid_t)p->pid);
	row.end = p->ended ? p->ended : d->clock->v[d->clock->n - 1].raw;
	ws_grow(d->ends, d->ends_cap, d->ends_n + 1);
	d->ends[d->ends_n++] = (struct ws_proc_end){p->sink, row};
	for (int i = 0; i < WS_SLOTS; i++)
		if (p->slot[i] && p->slot_free[i])
			p->slot_free[i](p->slot[i]);
	memset(p->slot, 0, sizeof(p->slot));
	if (p->pidfd >= 0)
		close(p->pidfd);
	p->pidfd = -1;
	d->by_chunk[p->home_chunk] = NULL;
	d->left[p->home_chunk] = !memory_too;
	if (memory_too) {
		uint32_t slot = p->home->slot;

		/* One killed between taking its slot and writing down which leaves it to be
		 * searched for. */
		if (slot >= WS_DIR_SLOTS || atomic_load(&d->a->directory[slot]) != p->home_chunk)
			for (slot = 0; slot < d->slots_used &&
				       atomic_load(&d->a->directory[slot]) != p->home_chunk;)
				slot++;
		if (slot < WS_DIR_SLOTS && atomic_load(&d->a->directory[slot]) == p->home_chunk)
			atomic_store(&d->a->directory[slot], 0);
		free_strings(d, p->home);
		ws_chunk_give(d->a, p->home_chunk);
	}
	if (!ws_perf_active(d->perf)) /* else its samples may come later */
		free_threads(p);
	p->home = NULL;
	p->settled = true;
	for (struct ws_proc **at = &d->procs; *at; at = &(*at)->next)
		if (*at == p) {
			*at = p->next;
			break;
		}
	remember_gone(d, p);
}

uint32_t ws_proc_thread(struct ws_proc *p, uint32_t tid, uint64_t start_ns)
{
	struct ws_row_thread row = {.process = p->id, .tid = tid, .start = start_ns};

	for (size_t i = p->threads_n; i--;)
		if (p->threads[i].tid == tid && !p->threads[i].ended)
			return p->threads[i].id;
	ws_grow(p->threads, p->threads_cap, p->threads_n + 1);
	row.id = ++p->sink->threads;
	p->threads[p->threads_n++] =
		(struct ws_thread_entry){.tid = tid, .id = row.id, .start = start_ns};
	ws_writer_add(p->sink->writer, WS_TABLE_thread, &row);
	return row.id;
}

uint32_t ws_proc_thread_at(struct ws_proc *p, uint32_t tid, uint64_t time)
{
	const struct ws_thread_entry *best = NULL;

	for (size_t i = 0; i < p->gone_n && i < p->gone_cap; i++)
		if (p->gone[i].tid == tid && time <= p->gone[i].end &&
		    (!best || p->gone[i].end < best->end))
			best = &p->gone[i];
	return best ? best->id : ws_proc_thread(p, tid, time);
}

/* Twice the room, the oldest first. */
static void grow_gone(struct ws_proc *p)
{
	size_t cap = p->gone_cap ? p->gone_cap * 2 : 16;
	struct ws_thread_entry *v = ws_malloc(cap * sizeof(*v));

	for (size_t i = 0; i < p->gone_cap; i++)
		v[i] = p->gone[(p->gone_n + i) % p->gone_cap];
	free(p->gone);
	p->gone = v;
	p->gone_n = p->gone_cap;
	p->gone_cap = cap;
}

static void remember_thread(struct ws_proc *p, struct ws_thread_entry t)
{
	bool full = p->gone_n >= p->gone_cap;

	if (full && (p->gone_cap < WS_THREADS_GONE ||
		     p->gone[p->gone_n % p->gone_cap].end >= p->drain->keep_from))
		grow_gone(p);
	t.end = p->drain->clock->v[p->drain->clock->n - 1].raw;
	p->gone[p->gone_n++ % p->gone_cap] = t;
}

void ws_proc_thread_known(struct ws_proc *p, uint32_t tid, uint32_t id, uint64_t start_ns)
{
	ws_grow(p->threads, p->threads_cap, p->threads_n + 1);
	p->threads[p->threads_n++] =
		(struct ws_thread_entry){.tid = tid, .id = id, .start = start_ns};
}

void ws_proc_thread_ended(struct ws_proc *p, uint32_t id)
{
	for (size_t i = p->threads_n; i--;)
		if (p->threads[i].id == id) {
			remember_thread(p, p->threads[i]);
			p->threads[i] = p->threads[--p->threads_n];
			return;
		}
}

void **ws_proc_slot(struct ws_proc *p, int domain, void (*free_fn)(void *))
{
	p->slot_free[domain] = free_fn;
	return &p->slot[domain];
}

/* ---- what was started and never registered ---- */

void ws_drain_note_started(struct ws_drain *d, struct ws_proc *by, int pid, uint64_t time,
			   const char *path, size_t len)
{
	const struct ws_proc *live = find_live(d, (uint32_t)pid),
			     *gone = find_gone(d, (uint32_t)pid, UINT64_MAX);
	/* A forked child may have registered before its parent wrote the note. */
	uint64_t since = path ? time : time - FORK_NOTE_NS;

	/* The new image may have registered, and even ended, before the note about it was read. */
	if ((live && ws_clock_ns(d->clock, live->start_ticks) >= since) ||
	    (gone && ws_clock_ns(d->clock, gone->start_ticks) >= since))
		return;
	/* The child's own note about its exec may come before its parent's about the fork. */
	for (size_t i = 0; !path && i < d->started_n; i++)
		if (d->started[i].pid == pid)
			return;
	ws_drain_forget_started(d, pid);
	ws_grow(d->started, d->started_cap, d->started_n + 1);
	d->started[d->started_n++] =
		(struct ws_started){.pid = pid,
				    .time = time,
				    .path = path ? ws_strndup(path, len) : NULL,
				    .sink = by->sink,
				    .by = by->id,
				    .pid_ns = by->pid_ns,
				    .user = ws_image_user(by->host_pid)};
}

uint32_t ws_drain_alive(const struct ws_drain *d)
{
	uint32_t expected = 0;

	for (const struct ws_proc *p = d->procs; p; p = p->next)
		expected += p->host_pid != 0;
	/* Announced by the process that started them and not registered yet, or never going to:
	 * they live as long as their pid does. */
	for (size_t i = 0; i < d->started_n; i++)
		expected += d->started[i].pid_ns == d->a->recorder_pid_ns &&
			    !is_gone(d->started[i].pid);
	return expected;
}

static void say_unseen(const struct ws_drain *d, const struct ws_started *s, uint64_t now)
{
	char why[5000], text[6000];
	const char *problem = ws_image_problem(s->path, s->user, why, sizeof(why));

	if (!problem && (s->time + PATIENCE_NS >= now || access(s->path, X_OK)))
		return;
	snprintf(text, sizeof(text), "%s %s: %s.",
		 ws_perf_active(d->perf)
			 ? "Only what the kernel tells (samples, context switches) was recorded of"
			 : "Nothing was recorded inside",
		 s->path, problem ? problem : "it was started but its hooks never answered");
	ws_sink_diagnostic(s->sink, WS_WARNING, "process", s->by, s->time, text);
}

void ws_drain_check_started(struct ws_drain *d, bool all)
{
	uint64_t now = d->clock->v[d->clock->n - 1].raw;

	for (size_t i = 0; i < d->started_n;) {
		struct ws_started *s = &d->started[i];
		bool gone;

		if (!all &&
		    now - s->time <
			    PATIENCE_NS /
				    100) { /* most register at once: no system calls about them */
			i++;
			continue;
		}
		gone = is_gone(s->pid);
		if (!all && !gone && now - s->time < PATIENCE_NS) {
			i++;
			continue;
		}
		if (s->path && !s->said)
			say_unseen(d, s, now);
		s->said = true;
		if (!all && !gone) { /* it cannot be seen, but it is waited for */
			i++;
			continue;
		}
		free(s->path);
		*s = d->started[--d->started_n];
	}
}
