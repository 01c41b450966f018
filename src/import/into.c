/* into.c - see into.h. */
#include "import/into.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/ticks.h"

/* Notes with different texts that are kept; further ones are counted as one. */
enum { MOST_NOTES = 200 };

void *ws_into_row(struct ws_into *o, enum ws_table t)
{
	void *row;

	if (ws_unlikely(!o->stage[t]))
		o->stage[t] = ws_writer_stage(o->w, t);
	row = ws_writer_row(o->w, t, o->stage[t]);
	memset(row, 0, o->stage[t]->row_size);
	o->rows++;
	return row;
}

uint32_t ws_into_text(struct ws_into *o, const char *s)
{
	return s ? ws_writer_string(o->w, s, strlen(s)) : 0;
}

int ws_into_stop(struct ws_into *o, const char *fmt, ...)
{
	va_list ap;

	if (o->full)
		return -1;
	o->full = true;
	va_start(ap, fmt);
	vsnprintf(o->problem.msg, sizeof(o->problem.msg), fmt, ap);
	va_end(ap);
	return -1;
}

/* ---- processes and threads ---- */

uint32_t ws_into_process(struct ws_into *o, uint64_t key, uint32_t pid)
{
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&o->process_ids, key, &found);

	if (found)
		return id;
	if (o->process_count == WS_INTO_MOST) {
		ws_into_stop(o, "there are more than %d processes", WS_INTO_MOST);
		return 1;
	}
	ws_grow(o->processes, o->process_cap, o->process_count + 1);
	o->processes[o->process_count++] = (struct ws_into_process){
		.pid = pid, .start = WS_NO_TIME, .origin = WS_ORIGIN_TARGET};
	id = (uint32_t)o->process_count;
	ws_map_set(&o->process_ids, key, id);
	return id;
}

struct ws_into_process *ws_into_process_of(struct ws_into *o, uint32_t id)
{
	return &o->processes[id - 1];
}

uint32_t ws_into_thread(struct ws_into *o, uint32_t process, uint64_t tid, uint64_t start)
{
	uint64_t key = (uint64_t)process << 40 ^ tid;
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&o->thread_ids, key, &found);
	struct ws_into_process *p = &o->processes[process - 1];

	if (found) {
		if (start < o->threads[id - 1].start)
			o->threads[id - 1].start = start;
		if (start < p->start && !p->told)
			p->start = start;
		return id;
	}
	if (o->thread_count == WS_INTO_MOST) {
		ws_into_stop(o, "there are more than %d threads", WS_INTO_MOST);
		return 1;
	}
	ws_grow(o->threads, o->thread_cap, o->thread_count + 1);
	o->threads[o->thread_count++] =
		(struct ws_into_thread){.process = process, .tid = (uint32_t)tid, .start = start};
	if (start < p->start && !p->told)
		p->start = start;
	id = (uint32_t)o->thread_count;
	ws_map_set(&o->thread_ids, key, id);
	return id;
}

struct ws_into_thread *ws_into_thread_of(struct ws_into *o, uint32_t id)
{
	return &o->threads[id - 1];
}

void ws_into_name_thread(struct ws_into *o, uint32_t thread, const char *name, size_t n,
			 int32_t priority)
{
	struct ws_into_thread *t = &o->threads[thread - 1];

	if (t->name && priority < t->priority)
		return;
	t->name = ws_into_string(o, name, n);
	t->priority = priority;
}

/* ---- tracks and counters ---- */

uint32_t ws_into_track(struct ws_into *o, uint32_t parent, uint32_t process, uint32_t thread,
		       const char *name, size_t n)
{
	uint32_t where[3] = {parent, process, thread};
	uint64_t key = XXH3_64bits_withSeed(name, n, XXH3_64bits(where, sizeof(where)));
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&o->track_ids, key, &found);
	struct ws_row_track *row;

	if (found)
		return id;
	if (o->tracks == WS_INTO_MOST) {
		ws_into_stop(o, "there are more than %d tracks", WS_INTO_MOST);
		return 1;
	}
	id = ++o->tracks;
	row = ws_into_row(o, WS_TABLE_track);
	*row = (struct ws_row_track){.id = id,
				     .parent = parent,
				     .process = process,
				     .thread = thread,
				     .name = ws_into_string(o, name, n)};
	ws_map_set(&o->track_ids, key, id);
	return id;
}

uint32_t ws_into_counter(struct ws_into *o, uint32_t process, uint32_t thread, uint32_t device,
			 const char *group, size_t group_n, const char *name, size_t n,
			 const char *unit, const char *identity)
{
	uint32_t where[3] = {process, thread, device};
	uint64_t key = XXH3_64bits_withSeed(group, group_n, XXH3_64bits(where, sizeof(where)));
	bool found;
	uint32_t id;
	struct ws_row_counter *row;

	key = XXH3_64bits_withSeed(name, n, key);
	id = (uint32_t)ws_map_get(&o->counter_ids, key, &found);
	if (found)
		return id;
	if (o->counters == WS_INTO_MOST) {
		ws_into_stop(o, "there are more than %d counters", WS_INTO_MOST);
		return 1;
	}
	id = ++o->counters;
	row = ws_into_row(o, WS_TABLE_counter);
	*row = (struct ws_row_counter){
		.id = id,
		.process = process,
		.thread = thread,
		.device = device,
		.cpu = WS_NO_U32,
		.group = ws_into_string(o, group, group_n),
		.name = ws_into_string(o, name, n),
		.unit = ws_into_text(o, unit),
		.identity = ws_into_text(o, identity),
	};
	ws_map_set(&o->counter_ids, key, id);
	return id;
}

/* ---- code ---- */

static uint32_t module_of(struct ws_into *o, uint32_t path, bool kernel)
{
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&o->modules, path, &found);
	struct ws_row_module *row;

	if (found || !path)
		return id;
	id = ++o->module_count;
	row = ws_into_row(o, WS_TABLE_module);
	*row = (struct ws_row_module){
		.id = id, .kind = kernel ? WS_MODULE_KERNEL : WS_MODULE_FILE, .path = path};
	ws_map_set(&o->modules, path, id);
	return id;
}

uint32_t ws_into_frame(struct ws_into *o, uint32_t symbol, uint32_t module, uint64_t address,
		       bool kernel, uint8_t method)
{
	uint64_t facts[] = {(uint64_t)symbol << 32 | module, address, kernel},
		 key = XXH3_64bits(facts, sizeof(facts));
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&o->frames, key, &found), number;
	struct ws_row_frame *row;
	struct ws_row_symbol *name;

	if (found)
		return id;
	if (o->frame_count == WS_INTO_MOST * 4) {
		ws_into_stop(o, "there are more than %d frames", WS_INTO_MOST * 4);
		return 1;
	}
	number = module_of(o, module, kernel);
	id = ++o->frame_count;
	row = ws_into_row(o, WS_TABLE_frame);
	*row = (struct ws_row_frame){.id = id,
				     .kind = kernel ? WS_FRAME_KERNEL : WS_FRAME_USER,
				     .method = method,
				     .module = number,
				     .address = address};
	name = ws_into_row(o, WS_TABLE_symbol);
	*name = (struct ws_row_symbol){.frame = id, .set = 1, .name = symbol};
	ws_map_set(&o->frames, key, id);
	return id;
}

uint32_t ws_into_stack(struct ws_into *o, uint32_t parent, uint32_t frame)
{
	uint64_t key = (uint64_t)parent << 32 | frame;
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&o->stacks, key, &found);

	if (found)
		return id;
	if (o->stack_count == WS_INTO_MOST * 4) {
		ws_into_stop(o, "there are more than %d different stacks", WS_INTO_MOST * 4);
		return 1;
	}
	ws_grow(o->stack, o->stack_cap, o->stack_count + 1);
	id = o->stack_count + 1;
	o->stack[o->stack_count++] =
		(struct ws_row_stack){.id = id, .parent = parent, .frame = frame};
	*(struct ws_row_stack *)ws_into_row(o, WS_TABLE_stack) = o->stack[id - 1];
	ws_map_set(&o->stacks, key, id);
	return id;
}

uint32_t ws_into_event(struct ws_into *o, uint32_t name)
{
	enum { MOST = 4096 };
	uint32_t id = (uint32_t)ws_map_get(&o->events, name, NULL);
	struct ws_row_perf_event *row;

	if (id || !name || o->events.n == MOST)
		return id;
	id = (uint32_t)o->events.n + 1;
	ws_map_set(&o->events, name, id);
	row = ws_into_row(o, WS_TABLE_perf_event);
	*row = (struct ws_row_perf_event){.id = id, .name = name};
	return id;
}

/* ---- notes ---- */

static void add_note(struct ws_into *o, uint64_t count, const char *text)
{
	size_t i = 0;

	while (i < o->note_count && strcmp(o->notes[i].text, text))
		i++;
	if (i == MOST_NOTES - 1)
		text = "Further things were left out.";
	if (i == MOST_NOTES)
		i--;
	if (i == o->note_count) {
		ws_grow(o->notes, o->note_cap, o->note_count + 1);
		o->notes[o->note_count++] = (struct ws_into_note){.text = ws_strdup(text)};
	}
	o->notes[i].count += count;
}

void ws_into_note(struct ws_into *o, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	add_note(o, 1, text);
}

void ws_into_note_n(struct ws_into *o, uint64_t count, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	if (!count)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	add_note(o, count, text);
}

/* Are messages shown? Not when all will be imported anew, nor again. */
static bool says(const struct ws_into *o)
{
	return !o->quiet && !o->again && o->file >= o->told;
}

static void write_notes(struct ws_into *o)
{
	for (size_t i = 0; i < o->note_count; i++) {
		struct ws_into_note *n = &o->notes[i];
		char *text = n->count > 1 ? ws_format("%s (%" PRIu64 " times)", n->text, n->count)
					  : ws_strdup(n->text);
		struct ws_row_diagnostic *row = ws_into_row(o, WS_TABLE_diagnostic);

		*row = (struct ws_row_diagnostic){
			.start = o->file_first == UINT64_MAX ? 0 : o->file_first,
			.severity = WS_WARNING,
			.source = ws_into_text(o, "import"),
			.text = ws_into_text(o, text)};
		if (says(o))
			ws_say("%s: %s", o->path, text);
		free(text);
		free(n->text);
	}
	o->note_count = 0;
}

void ws_into_tell(struct ws_into *o, const char *fmt, ...)
{
	const char *name = strrchr(o->path, '/') ? strrchr(o->path, '/') + 1 : o->path;
	struct ws_row_diagnostic *row;
	char text[512];
	char *full;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	full = ws_format("%s: %s", name, text);
	row = ws_into_row(o, WS_TABLE_diagnostic);
	*row = (struct ws_row_diagnostic){.start = o->file_first == UINT64_MAX ? 0 : o->file_first,
					  .severity = WS_INFO};
	row->source = ws_into_text(o, "import");
	row->text = ws_into_text(o, full);
	if (says(o))
		ws_say("%s: %s", o->path, text);
	free(full);
}

void ws_into_meta(struct ws_into *o, const char *name, const char *value, size_t n)
{
	struct ws_row_meta *row;
	uint32_t id = ws_into_text(o, name), text = ws_into_string(o, value, n);

	row = ws_into_row(o, WS_TABLE_meta);
	*row = (struct ws_row_meta){.name = id, .value = text};
}

void ws_into_progress(struct ws_into *o, uint64_t done, uint64_t all)
{
	uint64_t now;

	if (!o->progress)
		return;
	now = ws_raw_ns();
	if (now - o->shown < 200000000)
		return;
	o->shown = now;
	fprintf(stderr, "\r\033[Kwarpsight: importing %s: %d %%", o->path,
		all ? (int)(100.0 * (double)done / (double)all) : 0);
	fflush(stderr);
}

/* ---- a file ---- */

void ws_into_file_begin(struct ws_into *o, const char *path)
{
	o->path = path;
	o->file_first = UINT64_MAX;
}

static void write_process(struct ws_into *o, uint32_t id)
{
	const struct ws_into_process *p = &o->processes[id - 1];
	struct ws_row_process *row = ws_into_row(o, WS_TABLE_process);

	*row = (struct ws_row_process){
		.id = id,
		.pid = p->pid,
		.vm = p->vm,
		.parent = p->parent,
		.ppid = p->ppid,
		.start = p->start != WS_NO_TIME	       ? p->start
			 : o->file_first == UINT64_MAX ? 0
						       : o->file_first,
		.origin = p->origin,
		.exe = p->exe,
		.cmdline = p->cmdline,
		.name = p->name,
	};
}

static void write_thread(struct ws_into *o, uint32_t id)
{
	const struct ws_into_thread *t = &o->threads[id - 1];
	uint64_t start = t->start != WS_NO_TIME	       ? t->start
			 : o->file_first == UINT64_MAX ? 0
						       : o->file_first;
	struct ws_row_thread *row = ws_into_row(o, WS_TABLE_thread);

	*row = (struct ws_row_thread){
		.id = id, .process = t->process, .tid = t->tid, .start = start};
	if (t->name) {
		struct ws_row_thread_name *name = ws_into_row(o, WS_TABLE_thread_name);

		*name = (struct ws_row_thread_name){
			.thread = id, .start = start, .name = t->name, .priority = t->priority};
	}
}

void ws_into_file_end(struct ws_into *o)
{
	if (o->shown)
		fputs("\r\033[K", stderr);
	o->shown = 0;
	while (o->written_processes < o->process_count)
		write_process(o, (uint32_t)++o->written_processes);
	while (o->written_threads < o->thread_count)
		write_thread(o, (uint32_t)++o->written_threads);
	write_notes(o);
	ws_map_free(&o->process_ids);
	ws_map_free(&o->thread_ids);
	ws_map_free(&o->track_ids);
	ws_map_free(&o->counter_ids);
	o->process_ids = o->thread_ids = o->track_ids = o->counter_ids = (struct ws_map){0};
}

void ws_into_free(struct ws_into *o)
{
	free(o->processes);
	free(o->threads);
	for (size_t i = 0; i < o->note_count; i++)
		free(o->notes[i].text);
	free(o->notes);
	ws_map_free(&o->process_ids);
	ws_map_free(&o->thread_ids);
	ws_map_free(&o->track_ids);
	ws_map_free(&o->counter_ids);
	ws_map_free(&o->met);
	ws_map_free(&o->clocks);
	ws_map_free(&o->events);
	ws_map_free(&o->frames);
	ws_map_free(&o->stacks);
	ws_map_free(&o->modules);
	free(o->stack);
}
