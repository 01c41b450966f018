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

void *ws_into_row(struct ws_into *into, enum ws_table table)
{
	void *row;

	if (ws_unlikely(!into->stage[table]))
		into->stage[table] = ws_writer_stage(into->writer, table);
	row = ws_writer_row(into->writer, table, into->stage[table]);
	memset(row, 0, into->stage[table]->row_size);
	into->rows++;
	return row;
}

uint32_t ws_into_text(struct ws_into *into, const char *text)
{
	return text ? ws_writer_string(into->writer, text, strlen(text)) : 0;
}

int ws_into_stop(struct ws_into *into, const char *fmt, ...)
{
	va_list ap;

	if (into->full)
		return -1;
	into->full = true;
	va_start(ap, fmt);
	vsnprintf(into->problem.msg, sizeof(into->problem.msg), fmt, ap);
	va_end(ap);
	return -1;
}

/* ---- processes and threads ---- */

uint32_t ws_into_process(struct ws_into *into, uint64_t key, uint32_t pid)
{
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&into->process_ids, key, &found);

	if (found)
		return id;
	if (into->process_count == WS_INTO_MOST) {
		ws_into_stop(into, "there are more than %d processes", WS_INTO_MOST);
		return 1;
	}
	ws_grow(into->processes, into->process_cap, into->process_count + 1);
	into->processes[into->process_count++] = (struct ws_into_process){
		.pid = pid, .start = WS_NO_TIME, .origin = WS_ORIGIN_TARGET};
	id = (uint32_t)into->process_count;
	ws_map_set(&into->process_ids, key, id);
	return id;
}

struct ws_into_process *ws_into_process_of(struct ws_into *into, uint32_t id)
{
	return &into->processes[id - 1];
}

uint32_t ws_into_thread(struct ws_into *into, uint32_t process, uint64_t tid, uint64_t start)
{
	uint64_t key = (uint64_t)process << 40 ^ tid;
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&into->thread_ids, key, &found);
	struct ws_into_process *into_process = &into->processes[process - 1];

	if (found) {
		if (start < into->threads[id - 1].start)
			into->threads[id - 1].start = start;
		if (start < into_process->start && !into_process->told)
			into_process->start = start;
		return id;
	}
	if (into->thread_count == WS_INTO_MOST) {
		ws_into_stop(into, "there are more than %d threads", WS_INTO_MOST);
		return 1;
	}
	ws_grow(into->threads, into->thread_cap, into->thread_count + 1);
	into->threads[into->thread_count++] =
		(struct ws_into_thread){.process = process, .tid = (uint32_t)tid, .start = start};
	if (start < into_process->start && !into_process->told)
		into_process->start = start;
	id = (uint32_t)into->thread_count;
	ws_map_set(&into->thread_ids, key, id);
	return id;
}

struct ws_into_thread *ws_into_thread_of(struct ws_into *into, uint32_t id)
{
	return &into->threads[id - 1];
}

void ws_into_name_thread(struct ws_into *into, uint32_t thread, const char *name, size_t n,
			 int32_t priority)
{
	struct ws_into_thread *into_thread = &into->threads[thread - 1];

	if (into_thread->name && priority < into_thread->priority)
		return;
	into_thread->name = ws_into_string(into, name, n);
	into_thread->priority = priority;
}

/* ---- tracks and counters ---- */

uint32_t ws_into_track(struct ws_into *into, uint32_t parent, uint32_t process, uint32_t thread,
		       const char *name, size_t n)
{
	uint32_t where[3] = {parent, process, thread};
	uint64_t key = XXH3_64bits_withSeed(name, n, XXH3_64bits(where, sizeof(where)));
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&into->track_ids, key, &found);
	struct ws_row_track *row;

	if (found)
		return id;
	if (into->tracks == WS_INTO_MOST) {
		ws_into_stop(into, "there are more than %d tracks", WS_INTO_MOST);
		return 1;
	}
	id = ++into->tracks;
	row = ws_into_row(into, WS_TABLE_track);
	*row = (struct ws_row_track){.id = id,
				     .parent = parent,
				     .process = process,
				     .thread = thread,
				     .name = ws_into_string(into, name, n)};
	ws_map_set(&into->track_ids, key, id);
	return id;
}

uint32_t ws_into_counter(struct ws_into *into, uint32_t process, uint32_t thread, uint32_t device,
			 const char *group, size_t group_n, const char *name, size_t n,
			 const char *unit, const char *identity)
{
	uint32_t where[3] = {process, thread, device};
	uint64_t key = XXH3_64bits_withSeed(group, group_n, XXH3_64bits(where, sizeof(where)));
	bool found;
	uint32_t id;
	struct ws_row_counter *row;

	key = XXH3_64bits_withSeed(name, n, key);
	id = (uint32_t)ws_map_get(&into->counter_ids, key, &found);
	if (found)
		return id;
	if (into->counters == WS_INTO_MOST) {
		ws_into_stop(into, "there are more than %d counters", WS_INTO_MOST);
		return 1;
	}
	id = ++into->counters;
	row = ws_into_row(into, WS_TABLE_counter);
	*row = (struct ws_row_counter){
		.id = id,
		.process = process,
		.thread = thread,
		.device = device,
		.cpu = WS_NO_U32,
		.group = ws_into_string(into, group, group_n),
		.name = ws_into_string(into, name, n),
		.unit = ws_into_text(into, unit),
		.identity = ws_into_text(into, identity),
	};
	ws_map_set(&into->counter_ids, key, id);
	return id;
}

/* ---- code ---- */

static uint32_t module_of(struct ws_into *into, uint32_t path, bool kernel)
{
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&into->modules, path, &found);
	struct ws_row_module *row;

	if (found || !path)
		return id;
	id = ++into->module_count;
	row = ws_into_row(into, WS_TABLE_module);
	*row = (struct ws_row_module){
		.id = id, .kind = kernel ? WS_MODULE_KERNEL : WS_MODULE_FILE, .path = path};
	ws_map_set(&into->modules, path, id);
	return id;
}

uint32_t ws_into_frame(struct ws_into *into, uint32_t symbol, uint32_t module, uint64_t address,
		       bool kernel, uint8_t method)
{
	uint64_t facts[] = {(uint64_t)symbol << 32 | module, address, kernel},
		 key = XXH3_64bits(facts, sizeof(facts));
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&into->frames, key, &found), number;
	struct ws_row_frame *row;
	struct ws_row_symbol *name;

	if (found)
		return id;
	if (into->frame_count == WS_INTO_MOST * 4) {
		ws_into_stop(into, "there are more than %d frames", WS_INTO_MOST * 4);
		return 1;
	}
	number = module_of(into, module, kernel);
	id = ++into->frame_count;
	row = ws_into_row(into, WS_TABLE_frame);
	*row = (struct ws_row_frame){.id = id,
				     .kind = kernel ? WS_FRAME_KERNEL : WS_FRAME_USER,
				     .method = method,
				     .module = number,
				     .address = address};
	name = ws_into_row(into, WS_TABLE_symbol);
	*name = (struct ws_row_symbol){.frame = id, .set = 1, .name = symbol};
	ws_map_set(&into->frames, key, id);
	return id;
}

uint32_t ws_into_stack(struct ws_into *into, uint32_t parent, uint32_t frame)
{
	uint64_t key = (uint64_t)parent << 32 | frame;
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&into->stacks, key, &found);

	if (found)
		return id;
	if (into->stack_count == WS_INTO_MOST * 4) {
		ws_into_stop(into, "there are more than %d different stacks", WS_INTO_MOST * 4);
		return 1;
	}
	ws_grow(into->stack, into->stack_cap, into->stack_count + 1);
	id = into->stack_count + 1;
	into->stack[into->stack_count++] =
		(struct ws_row_stack){.id = id, .parent = parent, .frame = frame};
	*(struct ws_row_stack *)ws_into_row(into, WS_TABLE_stack) = into->stack[id - 1];
	ws_map_set(&into->stacks, key, id);
	return id;
}

uint32_t ws_into_event(struct ws_into *into, uint32_t name)
{
	enum { MOST = 4096 };
	uint32_t id = (uint32_t)ws_map_get(&into->events, name, NULL);
	struct ws_row_perf_event *row;

	if (id || !name || into->events.n == MOST)
		return id;
	id = (uint32_t)into->events.n + 1;
	ws_map_set(&into->events, name, id);
	row = ws_into_row(into, WS_TABLE_perf_event);
	*row = (struct ws_row_perf_event){.id = id, .name = name};
	return id;
}

/* ---- notes ---- */

static void add_note(struct ws_into *into, uint64_t count, const char *text)
{
	size_t i = 0;

	while (i < into->note_count && strcmp(into->notes[i].text, text))
		i++;
	if (i == MOST_NOTES - 1)
		text = "Further things were left out.";
	if (i == MOST_NOTES)
		i--;
	if (i == into->note_count) {
		ws_grow(into->notes, into->note_cap, into->note_count + 1);
		into->notes[into->note_count++] = (struct ws_into_note){.text = ws_strdup(text)};
	}
	into->notes[i].count += count;
}

void ws_into_note(struct ws_into *into, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	add_note(into, 1, text);
}

void ws_into_note_n(struct ws_into *into, uint64_t count, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	if (!count)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	add_note(into, count, text);
}

/* Are messages shown? Not when all will be imported anew, nor again. */
static bool says(const struct ws_into *into)
{
	return !into->quiet && !into->again && into->file >= into->told;
}

static void write_notes(struct ws_into *into)
{
	for (size_t i = 0; i < into->note_count; i++) {
		struct ws_into_note *note = &into->notes[i];
		char *text = note->count > 1
				     ? ws_format("%s (%" PRIu64 " times)", note->text, note->count)
				     : ws_strdup(note->text);
		struct ws_row_diagnostic *row = ws_into_row(into, WS_TABLE_diagnostic);

		*row = (struct ws_row_diagnostic){
			.start = into->file_first == UINT64_MAX ? 0 : into->file_first,
			.severity = WS_WARNING,
			.source = ws_into_text(into, "import"),
			.text = ws_into_text(into, text)};
		if (says(into))
			ws_say("%s: %s", into->path, text);
		free(text);
		free(note->text);
	}
	into->note_count = 0;
}

void ws_into_tell(struct ws_into *into, const char *fmt, ...)
{
	const char *name = strrchr(into->path, '/') ? strrchr(into->path, '/') + 1 : into->path;
	struct ws_row_diagnostic *row;
	char text[512];
	char *full;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	full = ws_format("%s: %s", name, text);
	row = ws_into_row(into, WS_TABLE_diagnostic);
	*row = (struct ws_row_diagnostic){
		.start = into->file_first == UINT64_MAX ? 0 : into->file_first,
		.severity = WS_INFO};
	row->source = ws_into_text(into, "import");
	row->text = ws_into_text(into, full);
	if (says(into))
		ws_say("%s: %s", into->path, text);
	free(full);
}

void ws_into_meta(struct ws_into *into, const char *name, const char *value, size_t n)
{
	struct ws_row_meta *row;
	uint32_t id = ws_into_text(into, name), text = ws_into_string(into, value, n);

	row = ws_into_row(into, WS_TABLE_meta);
	*row = (struct ws_row_meta){.name = id, .value = text};
}

void ws_into_progress(struct ws_into *into, uint64_t done, uint64_t all)
{
	uint64_t now;

	if (!into->progress)
		return;
	now = ws_raw_ns();
	if (now - into->shown < 200000000)
		return;
	into->shown = now;
	fprintf(stderr, "\r\033[Kwarpsight: importing %s: %d %%", into->path,
		all ? (int)(100.0 * (double)done / (double)all) : 0);
	fflush(stderr);
}

/* ---- a file ---- */

void ws_into_file_begin(struct ws_into *into, const char *path)
{
	into->path = path;
	into->file_first = UINT64_MAX;
}

static void write_process(struct ws_into *into, uint32_t id)
{
	const struct ws_into_process *process = &into->processes[id - 1];
	struct ws_row_process *row = ws_into_row(into, WS_TABLE_process);

	*row = (struct ws_row_process){
		.id = id,
		.pid = process->pid,
		.vm = process->vm,
		.parent = process->parent,
		.ppid = process->ppid,
		.start = process->start != WS_NO_TIME	  ? process->start
			 : into->file_first == UINT64_MAX ? 0
							  : into->file_first,
		.origin = process->origin,
		.exe = process->exe,
		.cmdline = process->cmdline,
		.name = process->name,
	};
}

static void write_thread(struct ws_into *into, uint32_t id)
{
	const struct ws_into_thread *thread = &into->threads[id - 1];
	uint64_t start = thread->start != WS_NO_TIME	  ? thread->start
			 : into->file_first == UINT64_MAX ? 0
							  : into->file_first;
	struct ws_row_thread *row = ws_into_row(into, WS_TABLE_thread);

	*row = (struct ws_row_thread){
		.id = id, .process = thread->process, .tid = thread->tid, .start = start};
	if (thread->name) {
		struct ws_row_thread_name *name = ws_into_row(into, WS_TABLE_thread_name);

		*name = (struct ws_row_thread_name){.thread = id,
						    .start = start,
						    .name = thread->name,
						    .priority = thread->priority};
	}
}

void ws_into_file_end(struct ws_into *into)
{
	if (into->shown)
		fputs("\r\033[K", stderr);
	into->shown = 0;
	while (into->written_processes < into->process_count)
		write_process(into, (uint32_t)++into->written_processes);
	while (into->written_threads < into->thread_count)
		write_thread(into, (uint32_t)++into->written_threads);
	write_notes(into);
	ws_map_free(&into->process_ids);
	ws_map_free(&into->thread_ids);
	ws_map_free(&into->track_ids);
	ws_map_free(&into->counter_ids);
	into->process_ids = into->thread_ids = into->track_ids = into->counter_ids =
		(struct ws_map){0};
}

void ws_into_free(struct ws_into *into)
{
	free(into->processes);
	free(into->threads);
	for (size_t i = 0; i < into->note_count; i++)
		free(into->notes[i].text);
	free(into->notes);
	ws_map_free(&into->process_ids);
	ws_map_free(&into->thread_ids);
	ws_map_free(&into->track_ids);
	ws_map_free(&into->counter_ids);
	ws_map_free(&into->met);
	ws_map_free(&into->clocks);
	ws_map_free(&into->events);
	ws_map_free(&into->frames);
	ws_map_free(&into->stacks);
	ws_map_free(&into->modules);
	free(into->stack);
}
