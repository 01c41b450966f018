/*
 * perf_open.c - opening perf events on every CPU and mapping their buffers.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "record/closer.h"
#include "record/perf_private.h"
#include "record/tree.h"
#include "base/choose.h"
#include "base/mem.h"

#define RING_MOST (8u << 20)
#define RING_LEAST (64u << 10)
#define RINGS_MOST (64u << 20) /* bytes of all rings, unless that leaves too little for one */
#define RING_GOOD (512u << 10)
#define RINGS_SHARE 32 /* of a limited address space */
#define LOOKS_MOST 8   /* at the threads of a tree that grows */

static int open_event(const struct perf_event_attr *attr, pid_t pid, int cpu)
{
	return (int)syscall(SYS_perf_event_open, attr, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

int ws_perf_try(const struct perf_event_attr *attr, pid_t pid, int cpu)
{
	int fd = open_event(attr, pid, cpu);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

void ws_perf_attr(struct perf_event_attr *attr, uint32_t type, uint64_t config, bool no_kernel)
{
	*attr = (struct perf_event_attr){
		.type = type,
		.size = sizeof(*attr),
		.config = config,
		.sample_type = WS_PERF_SAMPLE_BASE,
		.disabled = 1,
		.exclude_kernel = no_kernel,
		.exclude_hv = no_kernel,
		.exclude_guest = 1,
		.exclude_idle = 1,
		.sample_id_all = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC_RAW,
		.watermark = 1,
		.wakeup_watermark = RING_MOST, /* nobody waits for these events: the recorder reads
						  them in its rounds */
	};
}

struct ws_perf_warmth {
	pthread_t thread;
	pid_t process;
	int fd;
};

static void *open_first_event(void *arg)
{
	struct ws_perf_warmth *warmth = arg;
	struct perf_event_attr attr;

	ws_perf_attr(&attr, PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY, true);
	attr.context_switch = 1;
	warmth->fd = open_event(&attr, warmth->process, -1);
	return NULL;
}

struct ws_perf_warmth *ws_perf_warm_up(const struct ws_perf_opts *options)
{
	struct ws_perf_warmth *warmth;

	if (!options->sample && !options->switches)
		return NULL;
	warmth = ws_calloc(1, sizeof(*warmth));
	warmth->process = getpid();
	if (!pthread_create(&warmth->thread, NULL, open_first_event, warmth))
		return warmth;
	free(warmth);
	return NULL;
}

void ws_perf_end_warm_up(struct ws_perf_warmth *warmth)
{
	if (!warmth)
		return;
	pthread_join(warmth->thread, NULL);
	if (warmth->fd >= 0)
		close(warmth->fd);
	free(warmth);
}

uint32_t *ws_perf_cpus(size_t *n)
{
	FILE *file = fopen("/sys/devices/system/cpu/online", "re");
	uint32_t *values = NULL;
	size_t cap = 0;
	unsigned first, last;

	*n = 0;
	while (file && fscanf(file, "%u", &first) == 1 && first < 65536) {
		int c = fgetc(file);

		last = first;
		if (c == '-') {
			if (fscanf(file, "%u", &last) != 1 || last >= 65536)
				break;
			c = fgetc(file);
		}
		for (; first <= last; first++) {
			ws_grow(values, cap, *n + 1);
			values[(*n)++] = first;
		}
		if (c != ',')
			break;
	}
	if (file)
		fclose(file);
	if (!*n)
		for (long i = 0, count = sysconf(_SC_NPROCESSORS_ONLN); i < count; i++) {
			ws_grow(values, cap, *n + 1);
			values[(*n)++] = (uint32_t)i;
		}
	return values;
}

/* Make room for descriptors: some for each CPU. The target was forked before and keeps its own
 * limit. */
static void allow_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = ws_min(limit.rlim_max, 65536);
	setrlimit(RLIMIT_NOFILE, &limit);
}

/* How large a ring to try first: a power of two. All of them take a small part of the address space
 * at most. */
static size_t first_size(size_t cpus)
{
	size_t bytes = RING_MOST, space = ws_address_space() / RINGS_SHARE;

	while (bytes > RING_GOOD && bytes * cpus > RINGS_MOST)
		bytes /= 2;
	while (bytes > RING_LEAST && bytes > space / cpus)
		bytes /= 2;
	return bytes;
}

/* Map the ring of a CPU's events; a smaller one if we may not lock that much memory. */
static bool map_ring(struct ws_perf_ring *ring, int fd, size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *m;

	for (;; bytes /= 2) {
		m = mmap(NULL, page + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (m != MAP_FAILED)
			break;
		if (bytes <= RING_LEAST || (errno != EPERM && errno != ENOMEM))
			return false;
	}
	ring->page = m;
	ring->data = (const char *)m + page;
	ring->bytes = bytes;
	return true;
}

static bool is_tracepoint(const struct ws_perf_event *ev)
{
	return ev->role == WS_PERF_WAKE || ev->role == WS_PERF_FTRACE;
}

static void add_descriptor(struct ws_perf_ring *ring, int fd)
{
	ws_grow(ring->fds, ring->fds_cap, ring->fds_n + 1);
	ring->fds[ring->fds_n++] = fd;
}

/* ---- on all cores ---- */

enum {
	MOST_WORKERS = 8,
	RINGS_A_WORKER = 8 /* at least: a thread costs as much as some events */
};

/* Rings that one thread opens. */
struct opening {
	pthread_t thread;
	bool threaded;
	struct ws_perf_set *set;
	pid_t pid;
	size_t from, to;
	size_t bytes; /* of a ring: less than asked for if not so much may be locked */
	int error;
};

/* Open the events on a CPU. The errno of the first failure that leaves nothing open, or 0. */
static int open_on(struct opening *opening, struct ws_perf_ring *ring)
{
	struct ws_perf_set *set = opening->set;

	for (size_t i = 0; i < set->events_n; i++) {
		struct ws_perf_event *ev = &set->events[i];
		int fd =
			open_event(&ev->attr, ev->attr.inherit ? opening->pid : -1, (int)ring->cpu);
		int error;

		if (fd < 0 && errno == ENODEV) /* the CPU has gone off line */
			return 0;
		if (fd < 0 && is_tracepoint(ev)) {
			__atomic_store_n(&ev->refused, errno, __ATOMIC_RELAXED);
			add_descriptor(ring, -1);
			continue;
		}
		if (fd < 0)
			return ws_or(errno, EINVAL);
		if (!ring->page ? !map_ring(ring, fd, opening->bytes)
				: ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring->fds[0]) != 0) {
			error = errno;
			close(fd);
			return ws_or(error, EINVAL);
		}
		add_descriptor(ring, fd);
	}
	return 0;
}

static void *open_rings(void *arg)
{
	struct opening *opening = arg;

	for (size_t i = opening->from; i < opening->to && !opening->error; i++) {
		struct ws_perf_ring *ring = &opening->set->rings[i];

		opening->error = open_on(opening, ring);
		if (ring->page)
			opening->bytes = ring->bytes;
	}
	return NULL;
}

/* Open the set on all cores, using several threads when there are many: each event interrupts its
 * core, which may take long when the core sleeps. Returns as ws_perf_open_set does. */
static int open_on_all(struct ws_perf_set *set, pid_t pid, size_t bytes)
{
	struct opening openings[MOST_WORKERS];
	size_t workers = ws_max(ws_min(set->rings_n / RINGS_A_WORKER, (size_t)MOST_WORKERS), 1);
	int error = 0;

	for (size_t i = 0; i < workers; i++) {
		openings[i] = (struct opening){.set = set,
					       .pid = pid,
					       .from = set->rings_n * i / workers,
					       .to = set->rings_n * (i + 1) / workers,
					       .bytes = bytes};
		openings[i].threaded = i + 1 < workers && !pthread_create(&openings[i].thread, NULL,
									  open_rings, &openings[i]);
		if (!openings[i].threaded)
			open_rings(&openings[i]);
	}
	set->ring_bytes = bytes;
	for (size_t i = 0; i < workers; i++) {
		if (openings[i].threaded)
			pthread_join(openings[i].thread, NULL);
		set->ring_bytes = ws_min(set->ring_bytes, openings[i].bytes);
		if (!error)
			error = openings[i].error;
	}
	return error;
}

/* Cores that have gone off line have no ring. */
static void forget_missing_rings(struct ws_perf_set *set)
{
	size_t kept = 0;

	for (size_t i = 0; i < set->rings_n; i++) {
		if (!set->rings[i].page)
			free(set->rings[i].fds);
		else
			set->rings[kept++] = set->rings[i];
	}
	set->rings_n = kept;
}

static void learn_ids(struct ws_perf_set *set)
{
	uint64_t id;

	for (size_t i = 0; i < set->rings_n; i++)
		for (size_t k = 0; k < set->rings[i].fds_n; k++)
			if (set->rings[i].fds[k] >= 0 &&
			    !ioctl(set->rings[i].fds[k], PERF_EVENT_IOC_ID, &id))
				ws_map_set(&set->by_id, id, k % set->events_n + 1);
}

/* For tests: the factor by which to multiply the number of cores. Rings of the copies are filled
 * but not read. */
static size_t count_copies(void)
{
	const char *test = getenv("WARPSIGHT_PERF_COPIES");

	return test ? ws_max(strtoul(test, NULL, 10), 1) : 1;
}

/* Open the events for another thread besides the first. A thread that has ended in the meantime, or
 * a lack of descriptors, leaves a hole. */
static void open_for_thread(struct ws_perf_set *set, struct ws_perf_ring *ring, pid_t tid)
{
	for (size_t i = 0; i < set->events_n; i++) {
		bool open = set->events[i].attr.inherit && ring->fds[i] >= 0;
		int fd = open ? open_event(&set->events[i].attr, tid, (int)ring->cpu) : -1;

		if (fd >= 0 && ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring->fds[0])) {
			close(fd);
			fd = -1;
		}
		add_descriptor(ring, fd);
	}
}

static bool has_inherited(const struct ws_perf_set *set)
{
	for (size_t i = 0; i < set->events_n; i++)
		if (set->events[i].attr.inherit)
			return true;
	return false;
}

/* Threads inherit from those that start them: a thread started by one that had no events yet is
 * found in the next look. */
static void open_for_tree(struct ws_perf_set *set, pid_t pid)
{
	struct ws_map known = {0};
	struct ws_tree tree = {0};
	bool more = has_inherited(set);

	ws_map_set(&known, (uint64_t)pid, 1);
	for (int looks = 0; more && looks < LOOKS_MOST; looks++) {
		more = false;
		ws_tree_read(&tree, (uint32_t)pid);
		for (size_t i = 0; i < tree.thread_count; i++) {
			uint32_t tid = tree.threads[i].tid;

			if (ws_map_get(&known, tid, NULL))
				continue;
			ws_map_set(&known, tid, 1);
			more = true;
			for (size_t k = 0; k < set->rings_n; k++)
				open_for_thread(set, &set->rings[k], (pid_t)tid);
		}
	}
	ws_tree_free(&tree);
	ws_map_free(&known);
}

void ws_perf_open_more(struct ws_perf_set *set, pid_t pid)
{
	for (size_t i = 0; i < set->rings_n; i++)
		open_for_thread(set, &set->rings[i], pid);
	learn_ids(set);
}

int ws_perf_open_set(struct ws_perf_set *set, pid_t pid, bool for_tree)
{
	size_t n, copies = count_copies();
	uint32_t *cpus = ws_perf_cpus(&n);
	int error;

	allow_descriptors();
	set->rings = ws_calloc(n * copies, sizeof(*set->rings));
	set->rings_n = n * copies;
	for (size_t i = 0; i < set->rings_n; i++) {
		set->rings[i].cpu = cpus[i % n];
		set->rings[i].copy = i >= n;
	}
	free(cpus);
	error = open_on_all(set, pid, first_size(set->rings_n));
	if (!error)
		forget_missing_rings(set);
	if (error || !set->rings_n) {
		ws_perf_close_set(set);
		return error ? error : ENODEV;
	}
	if (for_tree)
		open_for_tree(set, pid);
	learn_ids(set);
	set->heap = ws_calloc(set->rings_n, sizeof(*set->heap));
	set->scratch = ws_malloc(WS_PERF_MOST + 1);
	return 0;
}

struct ws_closer *ws_perf_close_later(struct ws_perf_set *set)
{
	struct ws_closer *closer = NULL;

	for (size_t i = 0; i < set->rings_n; i++) {
		struct ws_perf_ring *ring = &set->rings[i];

		if (ring->page)
			closer = ws_closer_add_mapping(closer, ring->page,
						       (size_t)sysconf(_SC_PAGESIZE) + ring->bytes);
		for (size_t k = ring->fds_n; k--;)
			if (ring->fds[k] >= 0)
				closer = ws_closer_add(closer, ring->fds[k]);
		free(ring->fds);
		free(ring->python);
		free(ring->sparse.span);
	}
	free(set->rings);
	free(set->heap);
	free(set->scratch);
	ws_map_free(&set->by_id);
	set->rings = NULL;
	set->heap = NULL;
	set->scratch = NULL;
	set->rings_n = set->heap_n = 0;
	ws_closer_start(closer);
	return closer;
}

void ws_perf_close_set(struct ws_perf_set *set)
{
	ws_closer_join(ws_perf_close_later(set));
}

void ws_perf_switch_on(const struct ws_perf_set *set, const struct ws_perf_ring *ring, size_t event,
		       bool on)
{
	for (size_t k = event; k < ring->fds_n; k += set->events_n)
		if (ring->fds[k] >= 0)
			ioctl(ring->fds[k], on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
}

void ws_perf_switch(struct ws_perf_set *set, enum ws_perf_role role, bool on)
{
	for (size_t i = 0; i < set->rings_n; i++)
		for (size_t k = 0; k < set->events_n; k++)
			if (set->events[k].role == role)
				ws_perf_switch_on(set, &set->rings[i], k, on);
}

struct ws_closer *ws_perf_close_role(struct ws_perf_set *set, enum ws_perf_role role,
				     struct ws_closer *closer)
{
	for (size_t i = 0; i < set->rings_n; i++) {
		struct ws_perf_ring *ring = &set->rings[i];

		for (size_t k = 0; k < ws_min(set->events_n, ring->fds_n); k++) {
			if (set->events[k].role != role || ring->fds[k] < 0)
				continue;
			closer = ws_closer_add(closer, ring->fds[k]);
			ring->fds[k] = -1;
		}
	}
	return closer;
}

static int reopen_event(const struct ws_perf_event *event, const struct ws_perf_ring *ring)
{
	int fd = open_event(&event->attr, -1, (int)ring->cpu);

	if (fd >= 0 && ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, ring->fds[0])) {
		close(fd);
		fd = -1;
	}
	return fd;
}

bool ws_perf_reopen_role(struct ws_perf_set *set, enum ws_perf_role role)
{
	bool all = true;

	for (size_t i = 0; i < set->rings_n; i++) {
		struct ws_perf_ring *ring = &set->rings[i];

		for (size_t k = 0; k < ws_min(set->events_n, ring->fds_n); k++) {
			if (set->events[k].role != role || set->events[k].refused)
				continue;
			ring->fds[k] = reopen_event(&set->events[k], ring);
			all &= ring->fds[k] >= 0;
		}
	}
	learn_ids(set);
	return all;
}

void ws_perf_close_event(struct ws_perf_set *set, size_t event)
{
	for (size_t i = 0; i < set->rings_n; i++)
		for (size_t k = event; event && k < set->rings[i].fds_n; k += set->events_n)
			if (set->rings[i].fds[k] >= 0) {
				close(set->rings[i].fds[k]);
				set->rings[i].fds[k] = -1;
			}
}
