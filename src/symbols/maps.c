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
	struct ws_maps *maps = ws_calloc(1, sizeof(*maps));

	maps->modules = modules;
	return maps;
}

static void tell(struct ws_maps_process *process, struct ws_mapping *what)
{
	if (what->used && process->ended)
		process->ended(process->ctx, what);
	what->used = false;
}

static void tell_all(struct ws_maps_process *process)
{
	for (size_t i = 0; i < process->now_n; i++)
		tell(process, &process->now[i]);
	for (size_t i = 0; i < process->past_n; i++)
		tell(process, &process->past[i]);
}

static void free_process(struct ws_maps_process *process)
{
	tell_all(process);
	free(process->now);
	free(process->past);
	free(process);
}

void ws_maps_free(struct ws_maps *maps)
{
	if (!maps)
		return;
	for (size_t i = 0; i < maps->by_pid.size; i++)
		if (maps->by_pid.used[i])
			free_process(
				(struct ws_maps_process *)(uintptr_t)maps->by_pid.slots[i].value);
	ws_map_free(&maps->by_pid);
	free(maps);
}

struct ws_maps_process *ws_maps_of(struct ws_maps *maps, int pid)
{
	return (struct ws_maps_process *)(uintptr_t)ws_map_get(&maps->by_pid, (uint64_t)pid, NULL);
}

static void forget(struct ws_maps *maps, struct ws_maps_process *process)
{
	uint64_t value;

	for (size_t i = 0; i < MOST_GONE; i++)
		if (maps->gone[i] == process)
			maps->gone[i] = NULL;
	ws_map_take(&maps->by_pid, (uint64_t)process->pid, &value);
	free_process(process);
}

static struct ws_maps_process *process(struct ws_maps *maps, int pid)
{
	struct ws_maps_process *maps_process = ws_maps_of(maps, pid);

	if (maps_process && !maps_process->gone)
		return maps_process;
	if (maps_process) /* the pid is in use again */
		forget(maps, maps_process);
	maps_process = ws_calloc(1, sizeof(*maps_process));
	maps_process->maps = maps;
	maps_process->pid = pid;
	maps_process->version = ++maps->version;
	ws_map_set(&maps->by_pid, (uint64_t)pid, (uintptr_t)maps_process);
	return maps_process;
}

/* ---- changes ---- */

static void remember(struct ws_maps_process *process, const struct ws_mapping *what)
{
	struct ws_mapping *slot;

	if (process->past_n < MOST_PAST) {
		ws_grow(process->past, process->past_cap, process->past_n + 1);
		slot = &process->past[process->past_n++];
	} else {
		slot = &process->past[process->past_at++ % MOST_PAST];
		tell(process, slot);
	}
	*slot = *what;
}

/* The first mapping that ends above `address`. */
static size_t above(const struct ws_maps_process *process, uint64_t address)
{
	return ws_bisect(process->now_n, mid,
			 process->now[mid].base + (process->now[mid].size - 1) < address);
}

static void insert(struct ws_maps_process *process, size_t at, const struct ws_mapping *what)
{
	ws_grow(process->now, process->now_cap, process->now_n + 1);
	memmove(&process->now[at + 1], &process->now[at],
		(process->now_n - at) * sizeof(*process->now));
	process->now[at] = *what;
	process->now_n++;
}

static void drop(struct ws_maps_process *process, size_t at)
{
	memmove(&process->now[at], &process->now[at + 1],
		(process->now_n - at - 1) * sizeof(*process->now));
	process->now_n--;
}

static void touch(struct ws_maps_process *process, uint64_t time)
{
	process->version = ++process->maps->version;
	if (time > process->changed)
		process->changed = time;
}

/*
 * End what lies in [base, last], the last byte included; what sticks out on either side goes on.
 * False when something there was seen after `time`, which then stays: the news are older than what
 * is known.
 */
static bool clear(struct ws_maps_process *process, uint64_t time, uint64_t base, uint64_t last)
{
	size_t i = above(process, base);
	bool all = true;

	while (i < process->now_n && process->now[i].base <= last) {
		struct ws_mapping old = process->now[i], rest = old;
		uint64_t old_last = old.base + (old.size - 1);

		if (old.seen > time) {
			all = false;
			i++;
			continue;
		}
		touch(process, time);
		old.end = time;
		remember(process, &old);
		drop(process, i);
		rest.used = false;
		if (old.base < base) {
			rest.size = base - old.base;
			insert(process, i++, &rest);
		}
		if (old_last > last) {
			rest = old;
			rest.used = false;
			rest.end = WS_NO_TIME;
			rest.base = last + 1;
			rest.size = old_last - last;
			rest.offset = old.offset + (rest.base - old.base);
			insert(process, i++, &rest);
		}
	}
	return all;
}

static bool sane(uint64_t base, uint64_t size)
{
	return size && base + (size - 1) >= base;
}

/* `what` has been there since `start`, as was learnt at `time`. */
static void add(struct ws_maps_process *process, uint64_t start, uint64_t time, uint64_t seen,
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
	new.module = ws_modules_mapped(process->maps->modules, process->pid, what);
	if (new.module->kind == WS_MODULE_JIT)
		new.shift = 0;
	else
		new.shift =
			what->base -
			ws_module_address(new.module,
					  new.module->kind == WS_MODULE_VDSO ? 0 : what->offset);
	if (!clear(process, time, what->base, what->base + (what->size - 1)))
		return;
	insert(process, above(process, what->base), &new);
	touch(process, start);
}

void ws_maps_add(struct ws_maps *maps, int pid, uint64_t time, const struct ws_mapped *what)
{
	add(process(maps, pid), time, time, 0, what);
}

void ws_maps_remove(struct ws_maps *maps, int pid, uint64_t time, uint64_t base, uint64_t size)
{
	struct ws_maps_process *process = ws_maps_of(maps, pid);

	if (!process || !sane(base, size))
		return;
	clear(process, time, base, base + (size - 1));
}

void ws_maps_exec(struct ws_maps *maps, int pid, uint64_t time)
{
	struct ws_maps_process *maps_process = process(maps, pid);

	if (!clear(maps_process, time, 0,
		   UINT64_MAX)) /* the new image was looked at before this was told */
		return;
	tell_all(maps_process);
	maps_process->ended = NULL;
	maps_process->ctx = NULL;
	maps_process->scanned = 0;
}

void ws_maps_fork(struct ws_maps *maps, int parent, int child, uint64_t time)
{
	struct ws_maps_process *from = ws_maps_of(maps, parent), *maps_process;

	if (parent == child || !from)
		return;
	maps_process = ws_maps_of(maps, child);
	if (maps_process)
		forget(maps, maps_process);
	maps_process = process(maps, child);
	from = ws_maps_of(maps, parent);
	for (size_t i = 0; i < from->now_n; i++) {
		struct ws_mapping copy = from->now[i];

		copy.used = false;
		copy.start = time;
		insert(maps_process, maps_process->now_n, &copy);
	}
	maps_process->scanned = from->scanned;
}

void ws_maps_exit(struct ws_maps *maps, int pid, uint64_t time)
{
	struct ws_maps_process *process = ws_maps_of(maps, pid),
			       **slot = &maps->gone[maps->gone_n % MOST_GONE];

	if (!process || process->gone)
		return;
	for (size_t i = 0; i < process->now_n; i++)
		process->now[i].end = time;
	process->gone = true;
	if (*slot)
		forget(maps, *slot);
	*slot = process;
	maps->gone_n++;
}

/* ---- /proc/PID/maps ---- */

struct line {
	struct ws_mapped what;
	bool code;
	char path[4200];
};

static bool parse(struct line *line, const char *text, size_t n)
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
	snprintf(line->path, sizeof(line->path), "%s",
		 path >= 0 && buf[path] ? buf + path : "//anon");
	line->what = (struct ws_mapped){
		from,  to - from, offset, line->path, inode ? ws_device(major, minor) : 0,
		inode, NULL,	  0};
	line->code = strlen(perms) >= 3 && perms[2] == 'x';
	return true;
}

/* Is it known as it is? Then it is only noted that it was seen. */
static bool known(struct ws_maps_process *process, const struct ws_mapped *what, uint64_t time)
{
	size_t i = above(process, what->base);
	struct ws_mapping *have = i < process->now_n ? &process->now[i] : NULL;

	if (!have || have->base > what->base || have->base + have->size < what->base + what->size)
		return false;
	if (have->module->kind != WS_MODULE_FILE
		    ? have->module != ws_modules_mapped(process->maps->modules, process->pid, what)
		    : have->module->inode != what->inode ||
			      have->offset + (what->base - have->base) != what->offset)
		return false;
	if (time > have->seen)
		have->seen = time;
	return true;
}

void ws_maps_scan_text(struct ws_maps *maps, int pid, uint64_t since, uint64_t time,
		       const char *text, size_t n)
{
	struct ws_maps_process *maps_process = process(maps, pid);
	struct line *line = ws_malloc(sizeof(*line));
	uint64_t reached = 0;
	bool any = false;

	for (const char *end = text + n; text < end;) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));

		stop = stop ? stop : end;
		if (parse(line, text, (size_t)(stop - text)) && line->code &&
		    line->what.base >= reached) {
			any = true;
			if (line->what.base > reached && maps_process->now_n)
				ws_maps_remove(maps, pid, time, reached, line->what.base - reached);
			if (!known(maps_process, &line->what, time))
				add(maps_process, since, time, time, &line->what);
			reached = line->what.base + line->what.size;
		}
		text = stop + 1;
	}
	if (any && reached)
		ws_maps_remove(maps, pid, time, reached, UINT64_MAX - reached);
	maps_process->scanned = time;
	free(line);
}

int ws_maps_scan(struct ws_maps *maps, int pid, uint64_t since, uint64_t time)
{
	struct ws_text text = {0};
	char buf[16384], path[64];
	size_t n;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	file = fopen(path, "re");
	if (!file)
		return -1;
	while ((n = fread(buf, 1, sizeof(buf), file)))
		ws_text_add(&text, buf, n);
	fclose(file);
	if (text.len)
		ws_maps_scan_text(maps, pid, since, time, text.text, text.len);
	n = text.len;
	ws_text_free(&text);
	return n ? 0 : -1;
}

bool ws_maps_worth_scanning(struct ws_maps_process *process, uint64_t time)
{
	if (process->gone || time < process->scanned + SCAN_NS)
		return false;
	process->scanned = time;
	return true;
}

/* ---- lookups ---- */

static bool holds(const struct ws_mapping *mapping, uint64_t address)
{
	return address >= mapping->base && address - mapping->base < mapping->size;
}

struct ws_mapping *ws_maps_find(struct ws_maps_process *process, uint64_t time, uint64_t address)
{
	size_t i = above(process, address);
	struct ws_mapping *now = i < process->now_n && holds(&process->now[i], address)
					 ? &process->now[i]
					 : NULL,
			  *best = NULL;

	if (now && now->start <= time) {
		now->used = true;
		return now;
	}
	for (size_t k = 0; k < process->past_n; k++) {
		struct ws_mapping *old = &process->past[k];

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

uint64_t ws_maps_version(const struct ws_maps_process *process, uint64_t time)
{
	return time >= process->changed ? process->version : 0;
}

void ws_maps_bind(struct ws_maps_process *process,
		  void (*ended)(void *ctx, const struct ws_mapping *mapping), void *ctx)
{
	tell_all(process);
	process->ended = ended;
	process->ctx = ctx;
}

void *ws_maps_bound(const struct ws_maps_process *process)
{
	return process->ended ? process->ctx : NULL;
}
