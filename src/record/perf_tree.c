/*
 * perf_tree.c - identifies the processes in perf's records: which belong to the target's tree,
 * which image each runs, and which rows images and threads have in the report.
 *
 * Hooks announce most images; perf sees all, and sees them first. So that an image has only one
 * row, its records wait here until its hooks have registered it: the first records after a fork or
 * exec usually wait for less than a round. A process counts as one without hooks, and perf makes
 * its row, when the hooks do not register within WAIT_NS although it had the processor, when its
 * file shows that they cannot, or when it ends. If the hooks come later nevertheless, they take
 * over that row (ws_perf_adopt). When a process has registered later than the records reach, its
 * records wait too: the next rounds show to which image they belong.
 *
 * A forked child that calls exec before its hooks report (posix_spawn, vfork) makes no image of its
 * own: what it did belongs to the new one.
 */
#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "record/perf_private.h"
#include "record/ranks.h"
#include "record/tree.h"
#include "base/choose.h"

#define WAIT_NS 100000000u
#define EXEC_NS 20000000u	    /* an exec takes less */
#define WAIT_BYTES (1u << 20)	    /* of records of one image */
#define WAIT_BYTES_MOST (16u << 20) /* of an image whose process has registered in the meantime */

static struct ws_perf_thread *thread_of(const struct ws_perf *perf, uint32_t tid)
{
	return (struct ws_perf_thread *)(uintptr_t)ws_map_get(&perf->threads, tid, NULL);
}

static struct ws_perf_image *image_of(const struct ws_perf *perf, uint32_t pid)
{
	return (struct ws_perf_image *)(uintptr_t)ws_map_get(&perf->images, pid, NULL);
}

/* ---- making them ---- */

static struct ws_perf_image *new_image(struct ws_perf *perf, uint32_t pid, uint64_t start)
{
	struct ws_perf_image *im = ws_calloc(1, sizeof(*im));

	im->pid = pid;
	im->start = start;
	ws_map_set(&perf->images, pid, (uintptr_t)im);
	return im;
}

static struct ws_perf_thread *new_thread(struct ws_perf *perf, struct ws_perf_image *im,
					 uint32_t tid, uint64_t start, const char *comm)
{
	struct ws_perf_thread *thread = thread_of(perf, tid);

	if (thread) { /* its end was lost */
		thread->image->end_lost = true;
		ws_perf_gone(perf, thread, ws_perf_guess_end(perf, thread, start));
	}
	thread = ws_calloc(1, sizeof(*thread));
	thread->image = im;
	thread->tid = tid;
	thread->start = start;
	thread->gaps = perf->gaps_n;
	thread->pauses = perf->pauses.n;
	thread->strayed = perf->pauses.n && start < perf->pauses.span[perf->pauses.n - 1].to;
	snprintf(thread->comm, sizeof(thread->comm), "%s", comm);
	im->threads++;
	ws_map_set(&perf->threads, tid, (uintptr_t)thread);
	return thread;
}

static void read_comm(uint32_t pid, uint32_t tid, char *out, size_t size)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%u/task/%u/comm", pid, tid);
	file = fopen(path, "re");
	if (!file || !fgets(out, (int)size, file))
		out[0] = 0;
	if (file)
		fclose(file);
	out[strcspn(out, "\n")] = 0;
}

/* A file or link of /proc/PID, at most 4096 bytes, NUL-terminated; owned by the caller. */
static char *read_proc(uint32_t pid, const char *file, size_t *n)
{
	char path[64], *text = ws_malloc(4097);
	ssize_t got = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/%s", pid, file);
	if (!strcmp(file, "exe"))
		got = readlink(path, text, 4096);
	else if ((fd = open(path, O_RDONLY | O_CLOEXEC)) >= 0) {
		got = read(fd, text, 4096);
		close(fd);
	}
	*n = got > 0 ? (size_t)got : 0;
	text[*n] = 0;
	return text;
}

/* A process that existed before we looked, or whose fork was lost. */
static struct ws_perf_image *found_image(struct ws_perf *perf, uint32_t pid, uint64_t time)
{
	struct ws_perf_image *im = new_image(perf, pid, perf->set.wide ? 0 : time);

	im->exec = true;
	im->outside = perf->set.wide;
	read_comm(pid, pid, im->comm, sizeof(im->comm));
	ws_perf_found_maps(perf, im, time);
	return im;
}

/* The parent of a process, 0 when it has none or is gone. */
static uint32_t parent_of(uint32_t pid)
{
	size_t n;
	char *stat = read_proc(pid, "stat", &n), *name_end = strrchr(stat, ')');
	unsigned parent = 0;

	if (!name_end || sscanf(name_end, ") %*c %u", &parent) != 1)
		parent = 0;
	free(stat);
	return parent;
}

/*
 * The image of a process whose fork may have been lost, if an ancestor of it belongs to the tree;
 * else NULL, and the thread is not looked up again.
 */
static struct ws_perf_image *find_lost_fork(struct ws_perf *perf, uint32_t pid, uint32_t tid,
					    uint64_t time)
{
	const struct ws_perf_image *ancestor = NULL;
	struct ws_perf_image *im;
	uint32_t parent, at;

	parent = at = parent_of(pid);
	for (int steps = 0; at > 1 && steps < 64 && !ancestor; steps++) {
		ancestor = image_of(perf, at);
		at = parent_of(at);
	}
	if (!ancestor || ancestor->outside) {
		ws_map_set(&perf->strangers, tid, 1);
		return NULL;
	}
	im = new_image(perf, pid, time);
	im->parent_pid = parent;
	im->exec = true;
	read_comm(pid, pid, im->comm, sizeof(im->comm));
	ws_perf_found_maps(perf, im, time);
	return im;
}

struct ws_perf_thread *ws_perf_thread(struct ws_perf *perf, uint32_t pid, uint32_t tid,
				      uint64_t time, bool any)
{
	struct ws_perf_thread *thread;
	struct ws_perf_image *im;
	char comm[16];

	if (!tid || !pid || pid > INT_MAX ||
	    tid > INT_MAX) /* the idle thread; one that is being released */
		return NULL;
	thread = thread_of(perf, tid);
	if (thread && thread->image->pid == pid)
		return any || !thread->image->outside ? thread : NULL;
	if (!any && ws_map_get(&perf->strangers, tid, NULL))
		return NULL;
	im = image_of(perf, pid);
	if (!im && (any || !perf->set.wide))
		im = found_image(perf, pid, time);
	else if (!im && perf->gaps_n)
		im = find_lost_fork(perf, pid, tid, time);
	if (!im || (im->outside && !any))
		return NULL;
	if (!im->outside &&
	    !perf->lost) /* its start was seen: it is in the last steps of its end */
		return NULL;
	read_comm(pid, tid, comm, sizeof(comm));
	if (im->outside && !*comm)
		return NULL;
	return new_thread(perf, im, tid, im->outside ? 0 : time, *comm ? comm : im->comm);
}

/* The image's end was lost, and its pid now belongs to another process, of the tree or not, which
 * must not be mistaken for it. */
static void drop_image(struct ws_perf *perf, struct ws_perf_image *im, uint64_t time)
{
	uint32_t pid = im->pid, *tids = NULL;
	size_t n = 0, cap = 0;

	im->end_lost = true;
	for (size_t i = 0; i < perf->threads.size; i++) {
		const struct ws_perf_thread *thread =
			perf->threads.used[i]
				? (const void *)(uintptr_t)perf->threads.slots[i].value
				: NULL;

		if (!thread || thread->image != im)
			continue;
		ws_grow(tids, cap, n + 1);
		tids[n++] = thread->tid;
	}
	for (size_t i = 0; i < n && image_of(perf, pid) == im;
	     i++) /* the image ends with its last thread */
		if (thread_of(perf, tids[i]) && thread_of(perf, tids[i])->image == im)
			ws_perf_gone(perf, thread_of(perf, tids[i]),
				     ws_perf_guess_end(perf, thread_of(perf, tids[i]), time));
	free(tids);
}

/* Whether the record is about a thread that was found when the tree was looked at, after that
 * record. */
static bool was_found(const struct ws_perf *perf, const struct ws_perf_rec *record)
{
	const struct ws_perf_thread *thread = thread_of(perf, record->tid);

	return thread && thread->image->pid == record->pid && record->time <= thread->found;
}

void ws_perf_fork(struct ws_perf *perf, const struct ws_perf_rec *record)
{
	const struct ws_perf_thread *by = thread_of(perf, record->task.ptid);
	struct ws_perf_image *parent = image_of(perf, record->task.ppid), *im = parent;

	if (was_found(perf, record))
		return;
	ws_map_remove(&perf->strangers, record->tid, NULL); /* the tid is reused */
	if (record->pid != record->task.ppid && image_of(perf, record->pid))
		drop_image(perf, image_of(perf, record->pid), record->time);
	if (!parent)
		return; /* not of the tree */
	if (record->pid != record->task.ppid) {
		im = new_image(perf, record->pid, record->time);
		im->parent_pid = parent->pid;
		im->outside = parent->outside;
		snprintf(im->comm, sizeof(im->comm), "%s", parent->comm);
		im->exe = parent->exe ? ws_strdup(parent->exe) : NULL;
	}
	new_thread(perf, im, record->tid, record->time, by ? by->comm : parent->comm);
	if (im != parent)
		ws_perf_fork_maps(perf, parent, im, record->time);
}

/* ---- ends ---- */

static void forget_waiting(struct ws_perf *perf, struct ws_perf_image *im)
{
	for (struct ws_perf_image **at = &perf->waiting; *at; at = &(*at)->next_waiting)
		if (*at == im) {
			*at = im->next_waiting;
			break;
		}
	im->waiting_since = 0;
}

static void end_image(struct ws_perf *perf, struct ws_perf_image *im, uint64_t time,
		      enum ws_process_end_reason reason)
{

	if (im->own_row && im->id) {
		struct ws_row_process_end row = {.process = im->id,
						 .end = time,
						 .reason = (uint8_t)reason,
						 .status = WS_NO_STATUS};

		ws_writer_add(im->sink->writer, WS_TABLE_process_end, &row);
	}
	if (im->proc) {
		ws_wait_calls_hook(perf->wait_calls, im->pid, false);
		if (reason != WS_END_RUNNING && !im->end_lost)
			ws_proc_ended(im->proc, time, reason);
		ws_proc_release(im->proc);
	}
	if (image_of(perf, im->pid) == im)
		ws_map_remove(&perf->images, im->pid, NULL);
	forget_waiting(perf, im);
	free(im->waiting);
	free(im->exe);
	free(im->args);
	free(im);
}

void ws_perf_gone(struct ws_perf *perf, struct ws_perf_thread *thread, uint64_t time)
{
	struct ws_perf_image *im = thread->image;
	uint32_t tid = thread->tid;

	if (im->waiting_n)
		/* writes the waiting records; this may recurse for a thread whose end waits, which
		 * is then gone */
		ws_perf_resolve(perf, im, true);
	if (thread_of(perf, tid) != thread)
		return;
	ws_perf_pass_gaps(perf, thread, time);
	ws_perf_lose_track(perf, thread, time);
	ws_perf_settle_time(perf, thread);
	ws_map_remove(&perf->threads, thread->tid, NULL);
	if (im->proc && thread->id)
		ws_proc_thread_ended(im->proc, thread->id);
	free(thread);
	if (!--im->threads) {
		ws_perf_end_maps(perf, im, time);
		end_image(perf, im, time, WS_END_EXIT);
	}
}

/* ---- exec and names ---- */

/* The values of a map from numbers to pointers; the caller frees the array. */
static void **values(const struct ws_map *map, size_t *n)
{
	void **v = ws_malloc((map->count + 1) * sizeof(*v));

	*n = 0;
	for (size_t i = 0; i < map->size; i++)
		if (map->used[i])
			v[(*n)++] = (void *)(uintptr_t)map->slots[i].value;
	return v;
}

static void set_comm(char *to, const char *comm)
{
	snprintf(to, 16, "%s", comm);
}

static void drop_thread(struct ws_perf *perf, struct ws_perf_thread *thread, uint64_t time)
{
	ws_perf_pass_gaps(perf, thread, time);
	ws_perf_off(perf, thread, time, WS_AFTER_DEAD);
	ws_perf_settle_time(perf, thread);
	ws_map_remove(&perf->threads, thread->tid, NULL);
	if (thread->image->proc && thread->id)
		ws_proc_thread_ended(thread->image->proc, thread->id);
	thread->image->threads--;
	free(thread);
}

/* After an exec one thread is left, whichever called it, and its tid is the pid. */
static void drop_threads(struct ws_perf *perf, struct ws_perf_image *im, uint64_t time)
{
	size_t n;
	void **v;

	if (im->threads && thread_of(perf, im->pid) && thread_of(perf, im->pid)->image == im)
		drop_thread(perf, thread_of(perf, im->pid), time);
	if (!im->threads)
		return;
	v = values(&perf->threads, &n);
	for (size_t i = 0; i < n; i++)
		if (((struct ws_perf_thread *)v[i])->image == im)
			drop_thread(perf, v[i], time);
	free(v);
}

/* The image already has a row, so a new image begins in the same process. */
static struct ws_perf_image *next_image(struct ws_perf *perf, struct ws_perf_image *old,
					uint64_t time)
{
	struct ws_perf_image *im;

	drop_threads(perf, old, time);
	ws_map_remove(&perf->images, old->pid, NULL);
	im = new_image(perf, old->pid, time);
	im->parent_pid = old->pid;
	im->parent = old->id;
	im->parent_sink = old->sink;
	im->outside = old->outside;
	end_image(perf, old, time, WS_END_EXEC);
	return im;
}

void ws_perf_exec(struct ws_perf *perf, const struct ws_perf_rec *record)
{
	struct ws_perf_image *im = image_of(perf, record->pid);
	struct ws_perf_thread *thread;

	if (!im)
		return;
	ws_perf_resolve(perf, im, im->exec);
	ws_perf_exec_maps(perf, im, record->time);
	if (im->id)
		im = next_image(perf, im, record->time);
	ws_map_remove(&perf->strangers, im->pid, NULL); /* row of the thread that had this tid */
	im->exec = true;
	im->exec_time = record->time;
	free(im->exe);
	im->exe = NULL;
	free(im->args);
	im->args = read_proc(im->pid, "cmdline", &im->args_n);
	set_comm(im->comm, record->comm);
	thread = thread_of(perf, record->pid);
	if (thread && thread->image == im)
		set_comm(thread->comm, record->comm);
	else
		thread = new_thread(perf, im, record->pid, record->time, record->comm);
	ws_perf_pass_gaps(perf, thread, record->time);
	thread->heard = record->time;
	thread->strayed = ws_perf_is_paused(perf, record->time);
	if (perf->options.switches && !thread->on &&
	    !thread->strayed) { /* a thread that calls exec is running */
		thread->on = thread->since = record->time;
		thread->seen = true;
		thread->cpu = record->cpu;
	}
}

bool ws_perf_false_end(const struct ws_perf *perf, const struct ws_perf_thread *thread,
		       uint64_t time)
{
	const struct ws_perf_image *im = thread->image;

	return thread->tid == im->pid && im->exec_time && time - im->exec_time <= EXEC_NS &&
	       perf->has_ended && !perf->has_ended(im->pid, thread->tid);
}

static void write_name(const struct ws_perf_thread *thread, uint64_t time)
{
	struct ws_row_thread_name row = {.thread = thread->id, .start = time, .priority = 10};

	row.name = ws_sink_string(thread->image->sink, thread->comm);
	ws_writer_add(thread->image->sink->writer, WS_TABLE_thread_name, &row);
}

void ws_perf_rename(struct ws_perf *perf, const struct ws_perf_rec *record)
{
	struct ws_perf_thread *thread = thread_of(perf, record->tid);

	if (!thread || !strcmp(thread->comm, record->comm))
		return;
	set_comm(thread->comm, record->comm);
	thread->renamed = true;
	if (record->tid == record->pid)
		set_comm(thread->image->comm, record->comm);
	if (thread->id)
		write_name(thread, record->time);
}

/* ---- rows ---- */

/* The tid of a thread in the pid namespace of its process; its hooks' rows have this one. */
static uint32_t own_tid(const struct ws_perf *perf, const struct ws_perf_thread *thread)
{
	char path[80], line[512], *last = NULL;
	uint32_t tid = thread->tid;
	FILE *file;

	if (thread->image->proc->pid_ns == perf->drain->area->pid_ns)
		return tid;
	if (thread->tid == thread->image->pid)
		return thread->image->proc->pid;
	snprintf(path, sizeof(path), "/proc/%u/task/%u/status", thread->image->pid, thread->tid);
	file = fopen(path, "re");
	while (file && !last && fgets(line, sizeof(line), file))
		if (!strncmp(line, "NSpid:", 6))
			last = strrchr(line, '\t');
	if (last)
		tid = (uint32_t)strtoul(last, NULL, 10);
	if (file)
		fclose(file);
	return tid;
}

uint32_t ws_perf_thread_id(struct ws_perf *perf, struct ws_perf_thread *thread)
{
	struct ws_perf_image *im = thread->image;
	uint32_t before = im->sink->threads;

	if (thread->id)
		return thread->id;
	if (im->proc) {
		thread->id = ws_proc_thread_at(im->proc, own_tid(perf, thread),
					       ws_max(thread->start, im->start));
	} else {
		struct ws_row_thread row = {.id = ++im->sink->threads,
					    .process = im->id,
					    .tid = thread->tid,
					    .start = thread->start};

		thread->id = row.id;
		ws_writer_add(im->sink->writer, WS_TABLE_thread, &row);
	}
	if (thread->comm[0] &&
	    (thread->renamed || im->sink->threads != before)) /* else its hooks have reported it */
		write_name(thread, thread->start);
	return thread->id;
}

/* An image that no hook announced: its row is made from /proc and perf. */
static void write_process(struct ws_perf_image *im, const struct ws_perf_image *parent)
{
	size_t exe_n, args_n;
	char *exe = read_proc(im->pid, "exe", &exe_n),
	     *args = im->args_n ? NULL : read_proc(im->pid, "cmdline", &args_n), *line;
	struct ws_row_process row = {.id = im->id,
				     .pid = im->pid,
				     .ppid = im->parent_pid,
				     .start = im->start,
				     .parent = im->parent};
	const char *path, *base;

	if (!row.parent && parent && parent->sink == im->sink)
		row.parent = parent->id;
	if (im->args_n)
		args_n = im->args_n;
	else if (im->exe &&
		 strcmp(im->exe, exe)) /* by now the pid belongs to another process, or to none */
		args_n = 0;
	path = im->exe ? im->exe : exe;
	line = args_n ? ws_proc_arguments(im->args_n ? im->args : args, args_n,
					  !im->sink->keep_command_lines)
		      : ws_strdup(path);
	base = strrchr(path, '/');
	row.origin = im->outside	      ? WS_ORIGIN_OTHER
		     : im->target && im->exec ? WS_ORIGIN_TARGET
		     : im->exec		      ? WS_ORIGIN_EXEC
					      : WS_ORIGIN_FORK;
	row.exe = ws_sink_string(im->sink, path);
	row.cmdline = ws_sink_string(im->sink, line);
	row.name = ws_sink_string(im->sink, *path ? base ? base + 1 : path : im->comm);
	ws_writer_add(im->sink->writer, WS_TABLE_process, &row);
	free(line);
	free(exe);
	free(args);
}

static void make_row(struct ws_perf *perf, struct ws_perf_image *im)
{
	struct ws_perf_image *parent =
		im->parent_pid != im->pid ? image_of(perf, im->parent_pid) : NULL;

	if (parent && !parent->id && parent->exec)
		/* if it had hooks, its child would have them too */
		ws_perf_resolve(perf, parent, true);
	im->sink = im->parent_sink	    ? im->parent_sink
		   : parent && parent->sink ? parent->sink
					    : perf->main;
	im->id = ++im->sink->processes;
	im->own_row = true;
	write_process(im, parent);
	if (!im->outside)
		ws_rank_write_of(im->sink, im->id, im->pid);
}

/* Write the records that waited, in their order. */
static void replay(struct ws_perf *perf, struct ws_perf_image *im)
{
	char *waiting = im->waiting;
	size_t n = im->waiting_n;
	uint64_t now = perf->now;

	forget_waiting(perf, im);
	im->waiting = NULL;
	im->waiting_n = im->waiting_cap = 0;
	for (size_t at = 0; at < n;) {
		const struct perf_event_header *header = (const void *)(waiting + at);
		size_t size = header->size;

		ws_perf_record(perf, header, size, true); /* the last may free the image */
		at += size;
	}
	perf->now = now;
	free(waiting);
}

bool ws_perf_resolve(struct ws_perf *perf, struct ws_perf_image *im, bool force)
{
	if (im->id)
		return true;
	if (!im->outside && (im->exec || !im->target))
		im->proc = ws_drain_find(perf->drain, (int)im->pid, im->start, perf->now);
	if (im->proc) {
		ws_wait_calls_hook(perf->wait_calls, im->pid, true);
		im->proc->held = true;
		im->id = im->proc->id;
		im->sink = im->proc->sink;
	} else if (force || im->outside || im->ran_already) {
		make_row(perf, im);
		if (im->exec && !im->outside)
			ws_perf_start_calls(perf);
	} else {
		return false;
	}
	if (im->waiting_n)
		replay(perf, im);
	return true;
}

/* Whether the process has registered, as this image or a later one, even if its records do not
 * reach that far yet. */
static bool has_registered(const struct ws_perf *perf, const struct ws_perf_image *im)
{
	return !im->outside && ws_drain_find(perf->drain, (int)im->pid, im->start, UINT64_MAX);
}

void ws_perf_wait(struct ws_perf *perf, struct ws_perf_image *im, const void *rec, size_t size,
		  uint64_t time)
{
	if (!im->waiting_since) {
		im->waiting_since = time;
		im->next_waiting = perf->waiting;
		perf->waiting = im;
	}
	ws_grow(im->waiting, im->waiting_cap, im->waiting_n + size);
	memcpy(im->waiting + im->waiting_n, rec, size);
	im->waiting_n += size;
	if (im->waiting_n > WAIT_BYTES_MOST ||
	    (im->waiting_n > WAIT_BYTES && !has_registered(perf, im)))
		ws_perf_resolve(perf, im, true);
}

/*
 * Whether no hook will ever report the image because of its file. Then there is nothing to wait
 * for, except its parent, which may have hooks that are about to register.
 */
static bool without_hooks(struct ws_perf *perf, struct ws_perf_image *im)
{
	const struct ws_perf_image *parent =
		im->parent_pid != im->pid ? image_of(perf, im->parent_pid) : NULL;
	char why[4200];

	if (!im->asked && im->exec && im->exe) {
		im->asked = true;
		im->no_hooks = ws_image_problem(im->exe, ws_image_user((int)im->pid), why,
						sizeof(why)) != NULL;
	}
	return im->no_hooks && (!parent || parent->id);
}

/* Whether the image's hooks will not report any more, at `horizon`. */
static bool is_overdue(struct ws_perf *perf, const struct ws_perf_image *im, uint64_t horizon)
{
	return horizon - im->waiting_since > WAIT_NS && !has_registered(perf, im) &&
	       (!perf->had_time || perf->had_time(im->pid));
}

void ws_perf_settle_waiting(struct ws_perf *perf, uint64_t horizon, bool all)
{
	uint32_t *pids = NULL;
	size_t n = 0, cap = 0;

	for (const struct ws_perf_image *im = perf->waiting; im;
	     im = im->next_waiting) { /* resolving removes or frees them */
		ws_grow(pids, cap, n + 1);
		pids[n++] = im->pid;
	}
	perf->now = horizon;
	for (size_t i = 0; i < n; i++) {
		struct ws_perf_image *im = image_of(perf, pids[i]);

		if (im && im->waiting_since)
			ws_perf_resolve(perf, im,
					all || is_overdue(perf, im, horizon) ||
						without_hooks(perf, im));
	}
	free(pids);
}

uint32_t ws_perf_adopt(struct ws_perf *perf, struct ws_proc *proc)
{
	struct ws_perf_image *im = perf->active && proc->host_pid > 0
					   ? image_of(perf, (uint32_t)proc->host_pid)
					   : NULL;

	if (!im || !im->own_row || im->proc || im->sink != proc->sink || !im->exe ||
	    strcmp(im->exe, proc->exe) != 0)
		return 0;
	im->proc = proc;
	ws_wait_calls_hook(perf->wait_calls, im->pid, true);
	im->own_row = false;
	proc->held = true;
	for (size_t i = 0; i < perf->threads.size; i++) {
		const struct ws_perf_thread *thread =
			perf->threads.used[i]
				? (const void *)(uintptr_t)perf->threads.slots[i].value
				: NULL;

		if (thread && thread->image == im && thread->id)
			ws_proc_thread_known(proc, own_tid(perf, thread), thread->id,
					     thread->start);
	}
	return im->id;
}

/* ---- beginning and end ---- */

/* Add a process of the tree that already runs. */
static void add_found_image(struct ws_perf *perf, const struct ws_tree_process *process,
			    uint64_t now)
{
	struct ws_perf_image *im = new_image(perf, process->pid, now);
	size_t n;

	im->target = process->pid == (uint32_t)perf->target;
	im->ran_already = true;
	im->exec = true;
	im->parent_pid = process->parent;
	im->exe = read_proc(im->pid, "exe", &n);
	im->args = read_proc(im->pid, "cmdline", &im->args_n);
	read_comm(im->pid, im->pid, im->comm, sizeof(im->comm));
	ws_perf_found_maps(perf, im, now);
}

/* Find the processes that already run; the events already record what comes later. */
static void find_tree(struct ws_perf *perf)
{
	struct ws_tree tree = {0};
	uint64_t now;
	char comm[16];

	ws_tree_read(&tree, (uint32_t)perf->target);
	now = ws_read_raw_ns();
	for (size_t i = 0; i < tree.process_count; i++)
		add_found_image(perf, &tree.processes[i], now);
	for (size_t i = 0; i < tree.thread_count; i++) {
		struct ws_perf_image *im = image_of(perf, tree.threads[i].pid);

		read_comm(im->pid, tree.threads[i].tid, comm, sizeof(comm));
		new_thread(perf, im, tree.threads[i].tid, now, *comm ? comm : im->comm)->found =
			now;
	}
	ws_tree_free(&tree);
}

void ws_perf_tree_add(struct ws_perf *perf, uint32_t pid)
{
	struct ws_perf_image *im = new_image(perf, pid, ws_read_raw_ns());

	im->target = true;
	/* If cores were already observed, the record of its fork is still to be read. */
	new_thread(perf, im, im->pid, im->start, "")->found = im->start;
}

void ws_perf_tree_init(struct ws_perf *perf)
{
	if (perf->options.attach)
		find_tree(perf);
	else
		ws_perf_tree_add(perf, (uint32_t)perf->target);
}

void ws_perf_tree_free(struct ws_perf *perf)
{
	size_t n;
	void **v = values(&perf->threads, &n);

	for (size_t i = 0; i < n; i++) {
		struct ws_perf_thread *thread = v[i];

		if (!--thread->image->threads &&
		    image_of(perf, thread->image->pid) != thread->image)
			end_image(perf, thread->image, perf->now, WS_END_RUNNING);
		free(thread);
	}
	free(v);
	v = values(&perf->images, &n);
	for (size_t i = 0; i < n; i++)
		end_image(perf, v[i], perf->now, WS_END_RUNNING);
	free(v);
	ws_map_free(&perf->threads);
	ws_map_free(&perf->images);
	ws_map_free(&perf->strangers);
}
