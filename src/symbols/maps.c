/*
 * maps.c - see maps.h.
 *
 * Two arrays a process: what is there, sorted by address, and what was. Nearly every lookup ends in
 * the first with a binary search; the second is searched only when the mapping there now began
 * after the time in question.
 */
#include "symbols/maps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/sort.h"

#define MOST_PAST 4096 /* ended mappings of a process that are remembered */
#define MOST_GONE 256  /* ended processes that are */
#define SCAN_NS \
	10000000u /* /proc/PID/maps is not read more often than this for what is not found */
#define LATE_NS 50000000u /* a mapping may be told this much later than it was used */

struct ws_maps_process {
	struct ws_maps *maps;
	int pid;
	bool gone;
	struct ws_mapping *now, *past;
	size_t now_n, now_cap, past_n, past_cap, past_at;
	uint64_t version, scanned,
		changed; /* changed: the latest time at which something began or ended */
	void (*ended)(void *ctx, const struct ws_mapping *mapping);
	void *ctx;
};

struct ws_maps {
	struct ws_modules *modules;
	struct ws_map by_pid; /* -> struct ws_maps_process * */
	struct ws_maps_process *gone[MOST_GONE];
	size_t gone_n;
	uint64_t version;
};

struct ws_maps *ws_maps_new(struct ws_modules *modules)
{
	struct ws_maps *m = ws_calloc(1, sizeof(*m));

	m->modules = modules;
	return m;
}

static void tell(struct ws_maps_process *p, struct ws_mapping *what)
{
	if (what->used && p->ended)
		p->ended(p->ctx, what);
	what->used = false;
}

static void tell_all(struct ws_maps_process *p)
{
	for (size_t i = 0; i < p->now_n; i++)
		tell(p, &p->now[i]);
	for (size_t i = 0; i < p->past_n; i++)
		tell(p, &p->past[i]);
}

static void free_process(struct ws_maps_process *p)
{
	tell_all(p);
	free(p->now);
	free(p->past);
	free(p);
}

void ws_maps_free(struct ws_maps *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->by_pid.size; i++)
		if (m->by_pid.used[i])
			free_process((struct ws_maps_process *)(uintptr_t)m->by_pid.slots[i].value);
	ws_map_free(&m->by_pid);
	free(m);
}

struct ws_maps_process *ws_maps_of(struct ws_maps *m, int pid)
{
	return (struct ws_maps_process *)(uintptr_t)ws_map_get(&m->by_pid, (uint64_t)pid, NULL);
}

static void forget(struct ws_maps *m, struct ws_maps_process *p)
{
	uint64_t value;

	for (size_t i = 0; i < MOST_GONE; i++)
		if (m->gone[i] == p)
			m->gone[i] = NULL;
	ws_map_take(&m->by_pid, (uint64_t)p->pid, &value);
	free_process(p);
}

static struct ws_maps_process *process(struct ws_maps *m, int pid)
{
	struct ws_maps_process *p = ws_maps_of(m, pid);

	if (p && !p->gone)
		return p;
	if (p) /* the pid is in use again */
		forget(m, p);
	p = ws_calloc(1, sizeof(*p));
	p->maps = m;
	p->pid = pid;
	p->version = ++m->version;
	ws_map_set(&m->by_pid, (uint64_t)pid, (uintptr_t)p);
	return p;
}

/* ---- changes ---- */

static void remember(struct ws_maps_process *p, const struct ws_mapping *what)
{
	struct ws_mapping *slot;

	if (p->past_n < MOST_PAST) {
		ws_grow(p->past, p->past_cap, p->past_n + 1);
		slot = &p->past[p->past_n++];
	} else {
		slot = &p->past[p->past_at++ % MOST_PAST];
		tell(p, slot);
	}
	*slot = *what;
}

/* The first mapping that ends above `address`. */
static size_t above(const struct ws_maps_process *p, uint64_t address)
{
	return ws_bisect(p->now_n, mid, p->now[mid].base + (p->now[mid].size - 1) < address);
}

static void insert(struct ws_maps_process *p, size_t at, const struct ws_mapping *what)
{
	ws_grow(p->now, p->now_cap, p->now_n + 1);
	memmove(&p->now[at + 1], &p->now[at], (p->now_n - at) * sizeof(*p->now));
	p->now[at] = *what;
	p->now_n++;
}

static void drop(struct ws_maps_process *p, size_t at)
{
	memmove(&p->now[at], &p->now[at + 1], (p->now_n - at - 1) * sizeof(*p->now));
	p->now_n--;
}

static void touch(struct ws_maps_process *p, uint64_t time)
{
	p->version = ++p->maps->version;
	if (time > p->changed)
		p->changed = time;
}

/*
 * End what lies in [base, last], the last byte included; what sticks out on either side goes on.
 * False when something there was seen after `time`, which then stays: the news are older than what
 * is known.
 */
static bool clear(struct ws_maps_process *p, uint64_t time, uint64_t base, uint64_t last)
{
	size_t i = above(p, base);
	bool all = true;

	while (i < p->now_n && p->now[i].base <= last) {
		struct ws_mapping old = p->now[i], rest = old;
		uint64_t old_last = old.base + (old.size - 1);

		if (old.seen > time) {
			all = false;
			i++;
			continue;
		}
		touch(p, time);
		old.end = time;
		remember(p, &old);
		drop(p, i);
		rest.used = false;
		if (old.base < base) {
			rest.size = base - old.base;
			insert(p, i++, &rest);
		}
		if (old_last > last) {
			rest = old;
			rest.used = false;
			rest.end = WS_NO_TIME;
			rest.base = last + 1;
			rest.size = old_last - last;
			rest.offset = old.offset + (rest.base - old.base);
			insert(p, i++, &rest);
		}
	}
	return all;
}

static bool sane(uint64_t base, uint64_t size)
{
	return size && base + (size - 1) >= base;
}

/* `what` has been there since `start`, as was learnt at `time`. */
static void add(struct ws_maps_process *p, uint64_t start, uint64_t time, uint64_t seen,
		const struct ws_mapped *what)
{
	struct ws_mapping new = {.start = start,
				 .seen = seen,
				 .end = WS_NO_TIME,
				 .base = what->base,
				 .size = what->size,
				 .offset = what->offset};

	if (!sane(what->base, what->size))
		return;
	new.module = ws_modules_mapped(p->maps->modules, p->pid, what);
	if (new.module->kind == WS_MODULE_JIT)
		new.shift = 0;
	else
		new.shift =
			what->base -
			ws_module_address(new.module,
					  new.module->kind == WS_MODULE_VDSO ? 0 : what->offset);
	if (!clear(p, time, what->base, what->base + (what->size - 1)))
		return;
	insert(p, above(p, what->base), &new);
	touch(p, start);
}

void ws_maps_add(struct ws_maps *m, int pid, uint64_t time, const struct ws_mapped *what)
{
	add(process(m, pid), time, time, 0, what);
}

void ws_maps_remove(struct ws_maps *m, int pid, uint64_t time, uint64_t base, uint64_t size)
{
	struct ws_maps_process *p = ws_maps_of(m, pid);

	if (!p || !sane(base, size))
		return;
	clear(p, time, base, base + (size - 1));
}

void ws_maps_exec(struct ws_maps *m, int pid, uint64_t time)
{
	struct ws_maps_process *p = process(m, pid);

	if (!clear(p, time, 0, UINT64_MAX)) /* the new image was looked at before this was told */
		return;
	tell_all(p);
	p->ended = NULL;
	p->ctx = NULL;
	p->scanned = 0;
}

void ws_maps_fork(struct ws_maps *m, int parent, int child, uint64_t time)
{
	struct ws_maps_process *from = ws_maps_of(m, parent), *p;

	if (parent == child || !from)
		return;
	p = ws_maps_of(m, child);
	if (p)
		forget(m, p);
	p = process(m, child);
	from = ws_maps_of(m, parent);
	for (size_t i = 0; i < from->now_n; i++) {
		struct ws_mapping copy = from->now[i];

		copy.used = false;
		copy.start = time;
		insert(p, p->now_n, &copy);
	}
	p->scanned = from->scanned;
}

void ws_maps_exit(struct ws_maps *m, int pid, uint64_t time)
{
	struct ws_maps_process *p = ws_maps_of(m, pid), **slot = &m->gone[m->gone_n % MOST_GONE];

	if (!p || p->gone)
		return;
	for (size_t i = 0; i < p->now_n; i++)
		p->now[i].end = time;
	p->gone = true;
	if (*slot)
		forget(m, *slot);
	*slot = p;
	m->gone_n++;
}

/* ---- /proc/PID/maps ---- */

struct line {
	struct ws_mapped what;
	bool code;
	char path[4200];
};

static bool parse(struct line *l, const char *text, size_t n)
{
	unsigned long long from, to, offset, inode;
	unsigned major, minor;
	char buf[4400], perms[8] = "";
	int path = -1;

	if (n >= sizeof(buf))
		return false;
	memcpy(buf, text, n);
	buf[n] = 0;
	if (sscanf(buf, "%llx-%llx %7s %llx %x:%x %llu %n", &from, &to, perms, &offset, &major,
		   &minor, &inode, &path) < 7 ||
	    to <= from)
		return false;
	snprintf(l->path, sizeof(l->path), "%s", path >= 0 && buf[path] ? buf + path : "//anon");
	l->what = (struct ws_mapped){
		from,  to - from, offset, l->path, inode ? ws_device(major, minor) : 0,
		inode, NULL,	  0};
	l->code = strlen(perms) >= 3 && perms[2] == 'x';
	return true;
}

/* Is it known as it is? Then it is only noted that it was seen. */
static bool known(struct ws_maps_process *p, const struct ws_mapped *what, uint64_t time)
{
	size_t i = above(p, what->base);
	struct ws_mapping *have = i < p->now_n ? &p->now[i] : NULL;

	if (!have || have->base > what->base || have->base + have->size < what->base + what->size)
		return false;
	if (have->module->kind != WS_MODULE_FILE
		    ? have->module != ws_modules_mapped(p->maps->modules, p->pid, what)
		    : have->module->inode != what->inode ||
			      have->offset + (what->base - have->base) != what->offset)
		return false;
	if (time > have->seen)
		have->seen = time;
	return true;
}

void ws_maps_scan_text(struct ws_maps *m, int pid, uint64_t since, uint64_t time, const char *text,
		       size_t n)
{
	struct ws_maps_process *p = process(m, pid);
	struct line *l = ws_malloc(sizeof(*l));
	uint64_t reached = 0;
	bool any = false;

	for (const char *end = text + n; text < end;) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));

		stop = stop ? stop : end;
		if (parse(l, text, (size_t)(stop - text)) && l->code && l->what.base >= reached) {
			any = true;
			if (l->what.base > reached && p->now_n)
				ws_maps_remove(m, pid, time, reached, l->what.base - reached);
			if (!known(p, &l->what, time))
				add(p, since, time, time, &l->what);
			reached = l->what.base + l->what.size;
		}
		text = stop + 1;
	}
	if (any && reached)
		ws_maps_remove(m, pid, time, reached, UINT64_MAX - reached);
	p->scanned = time;
	free(l);
}

int ws_maps_scan(struct ws_maps *m, int pid, uint64_t since, uint64_t time)
{
	struct ws_text text = {0};
	char buf[16384], path[64];
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fopen(path, "re");
	if (!f)
		return -1;
	while ((n = fread(buf, 1, sizeof(buf), f)))
		ws_text_add(&text, buf, n);
	fclose(f);
	if (text.len)
		ws_maps_scan_text(m, pid, since, time, text.s, text.len);
	n = text.len;
	ws_text_free(&text);
	return n ? 0 : -1;
}

bool ws_maps_worth_scanning(struct ws_maps_process *p, uint64_t time)
{
	if (p->gone || time < p->scanned + SCAN_NS)
		return false;
	p->scanned = time;
	return true;
}

/* ---- lookups ---- */

static bool holds(const struct ws_mapping *m, uint64_t address)
{
	return address >= m->base && address - m->base < m->size;
}

struct ws_mapping *ws_maps_find(struct ws_maps_process *p, uint64_t time, uint64_t address)
{
	size_t i = above(p, address);
	struct ws_mapping *now = i < p->now_n && holds(&p->now[i], address) ? &p->now[i] : NULL,
			  *best = NULL;

	if (now && now->start <= time) {
		now->used = true;
		return now;
	}
	for (size_t k = 0; k < p->past_n; k++) {
		struct ws_mapping *old = &p->past[k];

		if (holds(old, address) && old->start <= time && time < old->end &&
		    (!best || old->start > best->start))
			best = old;
	}
	if (!best && now && now->start - time <= LATE_NS)
		best = now;
	if (best)
		best->used = true;
	return best;
}

uint64_t ws_maps_version(const struct ws_maps_process *p, uint64_t time)
{
	return time >= p->changed ? p->version : 0;
}

void ws_maps_bind(struct ws_maps_process *p,
		  void (*ended)(void *ctx, const struct ws_mapping *mapping), void *ctx)
{
	tell_all(p);
	p->ended = ended;
	p->ctx = ctx;
}

void *ws_maps_bound(const struct ws_maps_process *p)
{
	return p->ended ? p->ctx : NULL;
}
