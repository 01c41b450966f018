/*
 * perf_open.c - opening perf events on every CPU and mapping their buffers.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "record/perf_private.h"

#define RING_MOST (8u << 20)
#define RING_LEAST (64u << 10)
#define RINGS_MOST (64u << 20) /* of all together, unless that leaves too little for one */
#define RING_GOOD (512u << 10)

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

void ws_perf_attr(struct perf_event_attr *a, uint32_t type, uint64_t config, bool no_kernel)
{
	*a = (struct perf_event_attr){
		.type = type,
		.size = sizeof(*a),
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
		.wakeup_watermark =
			RING_MOST, /* nobody waits for it: the recorder comes round by itself */
	};
}

uint32_t *ws_perf_cpus(size_t *n)
{
	FILE *f = fopen("/sys/devices/system/cpu/online", "re");
	uint32_t *v = NULL;
	size_t cap = 0;
	unsigned first, last;

	*n = 0;
	while (f && fscanf(f, "%u", &first) == 1 && first < 65536) {
		int c = fgetc(f);

		last = first;
		if (c == '-') {
			if (fscanf(f, "%u", &last) != 1 || last >= 65536)
				break;
			c = fgetc(f);
		}
		for (; first <= last; first++) {
			ws_grow(v, cap, *n + 1);
			v[(*n)++] = first;
		}
		if (c != ',')
			break;
	}
	if (f)
		fclose(f);
	if (!*n)
		for (long i = 0, count = sysconf(_SC_NPROCESSORS_ONLN); i < count; i++) {
			ws_grow(v, cap, *n + 1);
			v[(*n)++] = (uint32_t)i;
		}
	return v;
}

/* Descriptors: some for each CPU. The target was forked before and keeps its own limit. */
static void allow_descriptors(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur == r.rlim_max)
		return;
	r.rlim_cur = r.rlim_max < 65536 ? r.rlim_max : 65536;
	setrlimit(RLIMIT_NOFILE, &r);
}

/* How large a ring to try first: a power of two. */
static size_t first_size(size_t cpus)
{
	size_t bytes = RING_MOST;

	while (bytes > RING_GOOD && bytes * cpus > RINGS_MOST)
		bytes /= 2;
	return bytes;
}

/* Map the ring of the events of a CPU; without the right to lock as much memory, a smaller one. */
static bool map_ring(struct ws_perf_ring *r, int fd, size_t bytes)
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
	r->page = m;
	r->data = (const char *)m + page;
	r->bytes = bytes;
	return true;
}

static bool open_on(struct ws_perf_set *s, struct ws_perf_ring *r, pid_t pid, size_t bytes)
{
	for (size_t i = 0; i < s->events_n; i++) {
		int fd = open_event(&s->events[i].attr, s->events[i].attr.inherit ? pid : -1,
				    (int)r->cpu);
		uint64_t id;
		int error;

		if (fd < 0 && errno == ENODEV) /* the CPU has gone off line */
			return true;
		if (fd < 0)
			return false;
		if (!r->page ? !map_ring(r, fd, bytes)
			     : ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, r->fds[0]) != 0) {
			error = errno;
			close(fd);
			errno = error;
			return false;
		}
		ws_grow(r->fds, r->fds_cap, r->fds_n + 1);
		r->fds[r->fds_n++] = fd;
		if (!ioctl(fd, PERF_EVENT_IOC_ID, &id))
			ws_map_set(&s->by_id, id, i + 1);
	}
	return true;
}

int ws_perf_open_set(struct ws_perf_set *s, pid_t pid)
{
	size_t n, bytes;
	uint32_t *cpus = ws_perf_cpus(&n);
	int error = 0;

	allow_descriptors();
	bytes = first_size(n);
	s->rings = ws_calloc(n, sizeof(*s->rings));
	for (size_t i = 0; i < n && !error; i++) {
		struct ws_perf_ring *r = &s->rings[s->rings_n++];

		r->cpu = cpus[i];
		if (!open_on(s, r, pid, bytes))
			error = errno ? errno : EINVAL;
		else if (!r->page) /* off line */
			s->rings_n--;
		else
			bytes = r->bytes;
	}
	free(cpus);
	if (error || !s->rings_n) {
		ws_perf_close_set(s);
		return error ? error : ENODEV;
	}
	s->ring_bytes = bytes;
	s->heap = ws_calloc(s->rings_n, sizeof(*s->heap));
	s->scratch = ws_malloc(WS_PERF_MOST + 1);
	return 0;
}

void ws_perf_close_set(struct ws_perf_set *s)
{
	for (size_t i = 0; i < s->rings_n; i++) {
		struct ws_perf_ring *r = &s->rings[i];

		if (r->page)
			munmap(r->page, (size_t)sysconf(_SC_PAGESIZE) + r->bytes);
		for (size_t k = r->fds_n; k--;)
			if (r->fds[k] >= 0)
				close(r->fds[k]);
		free(r->fds);
		free(r->python);
	}
	free(s->rings);
	free(s->heap);
	free(s->scratch);
	ws_map_free(&s->by_id);
	s->rings = NULL;
	s->heap = NULL;
	s->scratch = NULL;
	s->rings_n = s->heap_n = 0;
}

void ws_perf_switch(struct ws_perf_set *s, enum ws_perf_role role, bool on)
{
	for (size_t i = 0; i < s->rings_n; i++)
		for (size_t k = 0; k < s->rings[i].fds_n; k++)
			if (s->events[k].role == role && s->rings[i].fds[k] >= 0)
				ioctl(s->rings[i].fds[k],
				      on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
}

void ws_perf_close_event(struct ws_perf_set *s, size_t event)
{
	for (size_t i = 0; i < s->rings_n; i++)
		if (event && event < s->rings[i].fds_n && s->rings[i].fds[event] >= 0) {
			close(s->rings[i].fds[event]);
			s->rings[i].fds[event] = -1;
		}
}
