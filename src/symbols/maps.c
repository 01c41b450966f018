/*
 * maps.c - see maps.h.
 *
 * Each process has two arrays: current mappings, sorted by address, and past ones. Nearly every
 * lookup is a binary search in the first; the second is searched only when the mapping that is
 * there now began after the wanted time.
 */
#include "symbols/maps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/sort.h"

#define MOST_PAST 4096 /* past mappings of a process that are kept */
#define MOST_GONE 256  /* ended processes that are kept */
/* /proc/PID/maps is not read more often than this for addresses that are not found. */
#define SCAN_NS 10000000u
#define LATE_NS 50000000u /* a mapping's record may come this much later than its use */

struct ws_maps_process {
	struct ws_maps *maps;
	int pid;
	bool gone;
	struct ws_mapping *now, *past;
	size_t now_count, now_capacity, past_count, past_capacity, oldest_past;
	uint64_t version, scanned;
	uint64_t changed; /* the latest time at which a mapping began or ended */
	void (*ended)(void *ctx, const struct ws_mapping *mapping);
	void *ctx;
};

struct ws_maps {
	struct ws_modules *modules;
	struct ws_map by_pid; /* -> struct ws_maps_process * */
	struct ws_maps_process *gone[MOST_GONE];
	size_t gone_count;
	uint64_t version;
};

struct ws_maps *ws_maps_new(struct ws_modules *modules)
{
	struct ws_maps *maps = ws_calloc(1, sizeof(*maps));

	maps->modules = modules;
	return maps;
}

/* Report a mapping that has ended, if a lookup used it. */
static void report_end(struct ws_maps_process *process, struct ws_mapping *what)
{
	if (what->used && process->ended)
		process->ended(process->ctx, what);
	what->used = false;
}

static void report_all_ends(struct ws_maps_process *process)
{
	for (size_t i = 0; i < process->now_count; i++)
		report_end(process, &process->now[i]);
	for (size_t i = 0; i < process->past_count; i++)
		report_end(process, &process->past[i]);
}

static void free_process(struct ws_maps_process *process)
{
	report_all_ends(process);
	free(process->now);
	free(process->past);
	free(process);
}

static void tell_process(const struct ws_maps_process *process,
			 void (*tell)(void *ctx, const struct ws_mapping *mapping))
{
	for (size_t i = 0; i < process->now_count; i++)
		if (process->now[i].used && process->ended)
			tell(process->ctx, &process->now[i]);
}

void ws_maps_tell_live(struct ws_maps *maps,
		       void (*tell)(void *ctx, const struct ws_mapping *mapping))
{
	for (size_t i = 0; i < maps->by_pid.size; i++)
		if (maps->by_pid.used[i])
			tell_process((const struct ws_maps_process *)(uintptr_t)maps->by_pid
					     .slots[i]
					     .value,
				     tell);
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

struct ws_maps_process *ws_maps_find_process(struct ws_maps *maps, int pid)
{
	return (struct ws_maps_process *)(uintptr_t)ws_map_get(&maps->by_pid, (uint64_t)pid, NULL);
}

static void forget_process(struct ws_maps *maps, struct ws_maps_process *process)
{
	uint64_t value;

	for (size_t i = 0; i < MOST_GONE; i++)
		if (maps->gone[i] == process)
			maps->gone[i] = NULL;
	ws_map_remove(&maps->by_pid, (uint64_t)process->pid, &value);
	free_process(process);
}

/* The map of a process that exists, made if it is new. */
static struct ws_maps_process *get_process(struct ws_maps *maps, int pid)
{
	struct ws_maps_process *maps_process = ws_maps_find_process(maps, pid);

	if (maps_process && !maps_process->gone)
		return maps_process;
	if (maps_process) /* the pid is in use again */
		forget_process(maps, maps_process);
	maps_process = ws_calloc(1, sizeof(*maps_process));
	maps_process->maps = maps;
	maps_process->pid = pid;
	maps_process->version = ++maps->version;
	ws_map_set(&maps->by_pid, (uint64_t)pid, (uintptr_t)maps_process);
	return maps_process;
}

/* ---- changes ---- */

/* Keep a mapping that has ended; the oldest one is dropped when there are too many. */
static void keep_past(struct ws_maps_process *process, const struct ws_mapping *what)
{
	struct ws_mapping *slot;

	if (process->past_count < MOST_PAST) {
		ws_grow(process->past, process->past_capacity, process->past_count + 1);
		slot = &process->past[process->past_count++];
	} else {
		slot = &process->past[process->oldest_past++ % MOST_PAST];
		report_end(process, slot);
	}
	*slot = *what;
}

/* The first mapping that ends above `address`. */
static size_t find_above(const struct ws_maps_process *process, uint64_t address)
{
	return ws_bisect(process->now_count, mid,
			 process->now[mid].base + (process->now[mid].size - 1) < address);
}

static void insert_mapping(struct ws_maps_process *process, size_t at,
			   const struct ws_mapping *what)
{
	ws_grow(process->now, process->now_capacity, process->now_count + 1);
	memmove(&process->now[at + 1], &process->now[at],
		(process->now_count - at) * sizeof(*process->now));
	process->now[at] = *what;
	process->now_count++;
}

static void remove_mapping(struct ws_maps_process *process, size_t at)
{
	memmove(&process->now[at], &process->now[at + 1],
		(process->now_count - at - 1) * sizeof(*process->now));
	process->now_count--;
}

static void mark_changed(struct ws_maps_process *process, uint64_t time)
{
	process->version = ++process->maps->version;
	process->changed = ws_max(process->changed, time);
}

/*
 * End mappings in [base, last], the last byte included; their parts outside of it go on. False when
 * a mapping there was seen after `time`: it stays, since the record is older than what is known.
 */
static bool end_range(struct ws_maps_process *process, uint64_t time, uint64_t base, uint64_t last)
{
	size_t i = find_above(process, base);
	bool all = true;

	while (i < process->now_count && process->now[i].base <= last) {
		struct ws_mapping old = process->now[i], rest = old;
		uint64_t old_last = old.base + (old.size - 1);

		if (old.seen > time) {
			all = false;
			i++;
			continue;
		}
		mark_changed(process, time);
		old.end = time;
		keep_past(process, &old);
		remove_mapping(process, i);
		rest.used = false;
		if (old.base < base) {
			rest.size = base - old.base;
			insert_mapping(process, i++, &rest);
		}
		if (old_last > last) {
			rest = old;
			rest.used = false;
			rest.end = WS_NO_TIME;
			rest.base = last + 1;
			rest.size = old_last - last;
			rest.offset = old.offset + (rest.base - old.base);
			insert_mapping(process, i++, &rest);
		}
	}
	return all;
}

static bool is_valid_range(uint64_t base, uint64_t size)
{
	return size && base + (size - 1) >= base;
}

/* Add a mapping that has existed since `start`, as was learnt at `time`. */
static void add_mapping(struct ws_maps_process *process, uint64_t start, uint64_t time,
			uint64_t seen, const struct ws_mapped_file *what)
{
	struct ws_mapping new = {.start = start,
				 .seen = seen,
				 .end = WS_NO_TIME,
				 .base = what->base,
				 .size = what->size,
				 .offset = what->offset};

	if (!is_valid_range(what->base, what->size))
		return;
	new.module = ws_modules_find_mapped(process->maps->modules, process->pid, what);
	if (new.module->kind == WS_MODULE_JIT)
		new.shift = 0;
	else if (new.module->kind == WS_MODULE_VDSO)
		new.shift = what->base - ws_module_get_address(new.module, 0);
	else
		new.shift = what->base - ws_module_get_address(new.module, what->offset);
	if (!end_range(process, time, what->base, what->base + (what->size - 1)))
		return;
	insert_mapping(process, find_above(process, what->base), &new);
	mark_changed(process, start);
}

void ws_maps_add_mapping(struct ws_maps *maps, int pid, uint64_t time,
			 const struct ws_mapped_file *what)
{
	add_mapping(get_process(maps, pid), time, time, 0, what);
}

void ws_maps_remove_range(struct ws_maps *maps, int pid, uint64_t time, uint64_t base,
			  uint64_t size)
{
	struct ws_maps_process *process = ws_maps_find_process(maps, pid);

	if (!process || !is_valid_range(base, size))
		return;
	end_range(process, time, base, base + (size - 1));
}

void ws_maps_record_exec(struct ws_maps *maps, int pid, uint64_t time)
{
	struct ws_maps_process *maps_process = get_process(maps, pid);

	if (!end_range(maps_process, time, 0, UINT64_MAX)) /* the new image was scanned before */
		return;
	report_all_ends(maps_process);
	maps_process->ended = NULL;
	maps_process->ctx = NULL;
	maps_process->scanned = 0;
}

void ws_maps_record_fork(struct ws_maps *maps, int parent, int child, uint64_t time)
{
	struct ws_maps_process *from = ws_maps_find_process(maps, parent), *maps_process;

	if (parent == child || !from)
		return;
	maps_process = ws_maps_find_process(maps, child);
	if (maps_process)
		forget_process(maps, maps_process);
	maps_process = get_process(maps, child);
	from = ws_maps_find_process(maps, parent);
	for (size_t i = 0; i < from->now_count; i++) {
		struct ws_mapping copy = from->now[i];

		copy.used = false;
		copy.start = time;
		insert_mapping(maps_process, maps_process->now_count, &copy);
	}
	maps_process->scanned = from->scanned;
}

void ws_maps_record_exit(struct ws_maps *maps, int pid, uint64_t time)
{
	struct ws_maps_process *process = ws_maps_find_process(maps, pid),
			       **slot = &maps->gone[maps->gone_count % MOST_GONE];

	if (!process || process->gone)
		return;
	for (size_t i = 0; i < process->now_count; i++)
		process->now[i].end = time;
	process->gone = true;
	if (*slot)
		forget_process(maps, *slot);
	*slot = process;
	maps->gone_count++;
}

/* ---- /proc/PID/maps ---- */

struct maps_line {
	struct ws_mapped_file what;
	bool executable; /* it is executable */
	char path[4200];
};

static bool parse_maps_line(struct maps_line *line, const char *text, size_t length)
{
	unsigned long long from, to, offset, inode;
	unsigned major, minor;
	char buf[4400], perms[8] = "";
	int path = -1;

	if (length >= sizeof(buf))
		return false;
	memcpy(buf, text, length);
	buf[length] = 0;
	if (sscanf(buf, "%llx-%llx %7s %llx %x:%x %llu %n", &from, &to, perms, &offset, &major,
		   &minor, &inode, &path) < 7 ||
	    to <= from)
		return false;
	if (path >= 0 && buf[path])
		snprintf(line->path, sizeof(line->path), "%s", buf + path);
	else
		snprintf(line->path, sizeof(line->path), "//anon");
	line->what = (struct ws_mapped_file){.base = from,
					     .size = to - from,
					     .offset = offset,
					     .path = line->path,
					     .inode = inode};
	if (inode)
		line->what.device = ws_make_device(major, minor);
	line->executable = strlen(perms) >= 3 && perms[2] == 'x';
	return true;
}

/* Whether a line of /proc/PID/maps shows the module of a known mapping at the same place in it. */
static bool shows_same_module(const struct ws_maps_process *process,
			      const struct ws_mapping *mapping, const struct ws_mapped_file *what)
{
	if (mapping->module->kind != WS_MODULE_FILE)
		return mapping->module ==
		       ws_modules_find_mapped(process->maps->modules, process->pid, what);
	return mapping->module->inode == what->inode &&
	       mapping->offset + (what->base - mapping->base) == what->offset;
}

/* Whether the mapping is known already. If so, only the time at which it was seen is updated. */
static bool is_known(struct ws_maps_process *process, const struct ws_mapped_file *what,
		     uint64_t time)
{
	size_t i = find_above(process, what->base);
	struct ws_mapping *have;

	if (i == process->now_count)
		return false;
	have = &process->now[i];
	if (have->base > what->base || have->base + have->size < what->base + what->size ||
	    !shows_same_module(process, have, what))
		return false;
	have->seen = ws_max(have->seen, time);
	return true;
}

void ws_maps_scan_text(struct ws_maps *maps, int pid, uint64_t since, uint64_t time,
		       const char *text, size_t n)
{
	struct ws_maps_process *maps_process = get_process(maps, pid);
	struct maps_line *line = ws_malloc(sizeof(*line));
	uint64_t reached = 0;
	bool any = false;

	for (const char *end = text + n; text < end;) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));

		if (!stop)
			stop = end;
		if (parse_maps_line(line, text, (size_t)(stop - text)) && line->executable &&
		    line->what.base >= reached) {
			any = true;
			if (line->what.base > reached && maps_process->now_count)
				ws_maps_remove_range(maps, pid, time, reached,
						     line->what.base - reached);
			if (!is_known(maps_process, &line->what, time))
				add_mapping(maps_process, since, time, time, &line->what);
			reached = line->what.base + line->what.size;
		}
		text = stop + 1;
	}
	if (any && reached)
		ws_maps_remove_range(maps, pid, time, reached, UINT64_MAX - reached);
	maps_process->scanned = time;
	free(line);
}

int ws_maps_scan(struct ws_maps *maps, int pid, uint64_t since, uint64_t time)
{
	struct ws_text text = {0};
	char buffer[16384], path[64];
	size_t size;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	file = fopen(path, "re");
	if (!file)
		return -1;
	while ((size = fread(buffer, 1, sizeof(buffer), file)))
		ws_text_add(&text, buffer, size);
	fclose(file);
	if (text.len)
		ws_maps_scan_text(maps, pid, since, time, text.text, text.len);
	size = text.len;
	ws_text_free(&text);
	return size ? 0 : -1;
}

bool ws_maps_is_worth_scanning(struct ws_maps_process *process, uint64_t time)
{
	if (process->gone || time < process->scanned + SCAN_NS)
		return false;
	process->scanned = time;
	return true;
}

/* ---- lookups ---- */

static bool contains_address(const struct ws_mapping *mapping, uint64_t address)
{
	return address >= mapping->base && address - mapping->base < mapping->size;
}

struct ws_mapping *ws_maps_find_mapping(struct ws_maps_process *process, uint64_t time,
					uint64_t address)
{
	size_t i = find_above(process, address);
	struct ws_mapping *now = NULL, *best = NULL;

	if (i < process->now_count && contains_address(&process->now[i], address))
		now = &process->now[i];
	if (now && now->start <= time) {
		now->used = true;
		return now;
	}
	for (size_t k = 0; k < process->past_count; k++) {
		struct ws_mapping *old = &process->past[k];

		if (contains_address(old, address) && old->start <= time && time < old->end &&
		    (!best || old->start > best->start))
			best = old;
	}
	if (!best && now && now->start - time <= LATE_NS)
		best = now;
	if (best)
		best->used = true;
	return best;
}

uint64_t ws_maps_get_version(const struct ws_maps_process *process, uint64_t time)
{
	return time >= process->changed ? process->version : 0;
}

void ws_maps_bind(struct ws_maps_process *process,
		  void (*ended)(void *ctx, const struct ws_mapping *mapping), void *ctx)
{
	report_all_ends(process);
	process->ended = ended;
	process->ctx = ctx;
}

void *ws_maps_get_binding(const struct ws_maps_process *process)
{
	return process->ended ? process->ctx : NULL;
}
