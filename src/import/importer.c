/* importer.c - see importer.h. */
#include "import/importer.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/ticks.h"
#include "symbols/demangle.h"

/* How many notes with different texts are kept; further ones are counted as one. */
enum { MOST_NOTES = 200 };

void *ws_importer_add_row(struct ws_importer *importer, enum ws_table table)
{
	void *row;

	if (ws_unlikely(!importer->stages[table]))
		importer->stages[table] = ws_writer_stage(importer->writer, table);
	row = ws_writer_row(importer->writer, table, importer->stages[table]);
	memset(row, 0, importer->stages[table]->row_size);
	importer->rows++;
	return row;
}

uint32_t ws_importer_add_text(struct ws_importer *importer, const char *text)
{
	return text ? ws_importer_add_string(importer, text, strlen(text)) : 0;
}

int ws_importer_stop(struct ws_importer *importer, const char *fmt, ...)
{
	va_list ap;

	if (importer->stopped)
		return -1;
	importer->stopped = true;
	va_start(ap, fmt);
	vsnprintf(importer->problem.msg, sizeof(importer->problem.msg), fmt, ap);
	va_end(ap);
	return -1;
}

/* ---- processes and threads ---- */

uint32_t ws_importer_intern_process(struct ws_importer *importer, uint64_t key, uint32_t pid)
{
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&importer->process_ids, key, &found);

	if (found)
		return id;
	if (importer->process_count == WS_IMPORT_LIMIT) {
		ws_importer_stop(importer, "there are more than %d processes", WS_IMPORT_LIMIT);
		return 1;
	}
	ws_grow(importer->processes, importer->process_cap, importer->process_count + 1);
	importer->processes[importer->process_count++] = (struct ws_import_process){
		.pid = pid, .start = WS_NO_TIME, .origin = WS_ORIGIN_TARGET};
	id = (uint32_t)importer->process_count;
	ws_map_set(&importer->process_ids, key, id);
	return id;
}

struct ws_import_process *ws_importer_get_process(struct ws_importer *importer, uint32_t id)
{
	return &importer->processes[id - 1];
}

uint32_t ws_importer_intern_thread(struct ws_importer *importer, uint32_t process, uint64_t tid,
				   uint64_t start)
{
	uint64_t key = (uint64_t)process << 40 ^ tid;
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&importer->thread_ids, key, &found);
	struct ws_import_process *parent = &importer->processes[process - 1];

	if (found) {
		if (start < importer->threads[id - 1].start)
			importer->threads[id - 1].start = start;
		if (start < parent->start && !parent->start_known)
			parent->start = start;
		return id;
	}
	if (importer->thread_count == WS_IMPORT_LIMIT) {
		ws_importer_stop(importer, "there are more than %d threads", WS_IMPORT_LIMIT);
		return 1;
	}
	ws_grow(importer->threads, importer->thread_cap, importer->thread_count + 1);
	importer->threads[importer->thread_count++] =
		(struct ws_import_thread){.process = process, .tid = (uint32_t)tid, .start = start};
	if (start < parent->start && !parent->start_known)
		parent->start = start;
	id = (uint32_t)importer->thread_count;
	ws_map_set(&importer->thread_ids, key, id);
	return id;
}

struct ws_import_thread *ws_importer_get_thread(struct ws_importer *importer, uint32_t id)
{
	return &importer->threads[id - 1];
}

void ws_importer_name_thread(struct ws_importer *importer, uint32_t thread, const char *name,
			     size_t length, int32_t priority)
{
	struct ws_import_thread *target = &importer->threads[thread - 1];

	if (target->name && priority < target->priority)
		return;
	target->name = ws_importer_add_string(importer, name, length);
	target->priority = priority;
}

/* ---- tracks and counters ---- */

uint32_t ws_importer_intern_track(struct ws_importer *importer, uint32_t parent, uint32_t process,
				  uint32_t thread, const char *name, size_t length)
{
	uint32_t where[3] = {parent, process, thread};
	uint64_t key = XXH3_64bits_withSeed(name, length, XXH3_64bits(where, sizeof(where)));
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&importer->track_ids, key, &found);
	struct ws_row_track *row;

	if (found)
		return id;
	if (importer->track_count == WS_IMPORT_LIMIT) {
		ws_importer_stop(importer, "there are more than %d tracks", WS_IMPORT_LIMIT);
		return 1;
	}
	id = ++importer->track_count;
	row = ws_importer_add_row(importer, WS_TABLE_track);
	*row = (struct ws_row_track){.id = id,
				     .parent = parent,
				     .process = process,
				     .thread = thread,
				     .name = ws_importer_add_string(importer, name, length)};
	ws_map_set(&importer->track_ids, key, id);
	return id;
}

uint32_t ws_importer_intern_counter(struct ws_importer *importer,
				    const struct ws_import_counter *counter)
{
	uint32_t where[3] = {counter->process, counter->thread, counter->device};
	uint64_t key = XXH3_64bits_withSeed(counter->group, counter->group_length,
					    XXH3_64bits(where, sizeof(where)));
	bool found;
	uint32_t id;
	struct ws_row_counter *row;

	key = XXH3_64bits_withSeed(counter->name, counter->name_length, key);
	id = (uint32_t)ws_map_get(&importer->counter_ids, key, &found);
	if (found)
		return id;
	if (importer->counter_count == WS_IMPORT_LIMIT) {
		ws_importer_stop(importer, "there are more than %d counters", WS_IMPORT_LIMIT);
		return 1;
	}
	id = ++importer->counter_count;
	row = ws_importer_add_row(importer, WS_TABLE_counter);
	*row = (struct ws_row_counter){
		.id = id,
		.process = counter->process,
		.thread = counter->thread,
		.device = counter->device,
		.cpu = WS_NO_U32,
		.group = ws_importer_add_string(importer, counter->group, counter->group_length),
		.name = ws_importer_add_string(importer, counter->name, counter->name_length),
		.unit = ws_importer_add_text(importer, counter->unit),
		.identity = ws_importer_add_text(importer, counter->identity),
	};
	ws_map_set(&importer->counter_ids, key, id);
	return id;
}

/* ---- names of functions ---- */

void ws_importer_note_mangled(struct ws_importer *importer, uint32_t id, const char *text, size_t n)
{
	if (ws_map_get(&importer->mangled_names, id, NULL) ||
	    importer->mangled_count == WS_IMPORT_LIMIT)
		return;
	ws_grow(importer->mangled, importer->mangled_cap, importer->mangled_count + 1);
	importer->mangled[importer->mangled_count++] =
		(struct ws_import_mangled){.text = ws_strndup(text, n)};
	ws_map_set(&importer->mangled_names, id, importer->mangled_count);
}

static struct ws_import_mangled *find_mangled(struct ws_importer *importer, uint32_t name)
{
	uint64_t number = ws_map_get(&importer->mangled_names, name, NULL);

	return number ? &importer->mangled[number - 1] : NULL;
}

/* Does not use ws_importer_add_string: a name that stays mangled would be noted again. */
static uint32_t add_demangled(struct ws_importer *importer, const char *mangled,
			      char *(*demangle)(const char *mangled))
{
	char *text = demangle(mangled);
	uint32_t id = ws_writer_string(importer->writer, text, strlen(text));

	free(text);
	return id;
}

uint32_t ws_importer_demangle(struct ws_importer *importer, uint32_t name)
{
	struct ws_import_mangled *mangled = find_mangled(importer, name);

	if (!mangled)
		return name;
	if (!mangled->full)
		mangled->full = add_demangled(importer, mangled->text, ws_demangle);
	return mangled->full;
}

uint32_t ws_importer_demangle_short(struct ws_importer *importer, uint32_t name)
{
	struct ws_import_mangled *mangled = find_mangled(importer, name);

	if (!mangled)
		return name;
	if (!mangled->own)
		mangled->own = add_demangled(importer, mangled->text, ws_demangle_short);
	return mangled->own;
}

const char *ws_importer_get_mangled(struct ws_importer *importer, uint32_t name)
{
	struct ws_import_mangled *mangled = find_mangled(importer, name);

	return mangled ? mangled->text : NULL;
}

void ws_importer_demangle_kernel(struct ws_importer *importer, struct ws_row_cuda_kernel *kernel)
{
	uint32_t full = ws_importer_demangle(importer, kernel->demangled);

	if (full != kernel->demangled && !kernel->mangled)
		kernel->mangled = kernel->demangled;
	kernel->demangled = full;
	kernel->name = ws_importer_demangle_short(importer, kernel->name);
}

/* ---- code ---- */

static uint32_t intern_module(struct ws_importer *importer, uint32_t path, bool kernel)
{
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&importer->modules, path, &found);
	struct ws_row_module *row;

	if (found || !path)
		return id;
	id = ++importer->module_count;
	row = ws_importer_add_row(importer, WS_TABLE_module);
	*row = (struct ws_row_module){
		.id = id, .kind = kernel ? WS_MODULE_KERNEL : WS_MODULE_FILE, .path = path};
	ws_map_set(&importer->modules, path, id);
	return id;
}

uint32_t ws_importer_intern_frame(struct ws_importer *importer, uint32_t symbol, uint32_t module,
				  uint64_t address, bool kernel, uint8_t method)
{
	uint32_t name = ws_importer_demangle(importer, symbol), id, number;
	uint64_t facts[] = {(uint64_t)name << 32 | module, address, kernel},
		 key = XXH3_64bits(facts, sizeof(facts));
	bool found;
	struct ws_row_frame *row;
	struct ws_row_symbol *row_symbol;

	id = (uint32_t)ws_map_get(&importer->frames, key, &found);
	if (found)
		return id;
	if (importer->frame_count == WS_IMPORT_LIMIT * 4) {
		ws_importer_stop(importer, "there are more than %d frames", WS_IMPORT_LIMIT * 4);
		return 1;
	}
	number = intern_module(importer, module, kernel);
	id = ++importer->frame_count;
	row = ws_importer_add_row(importer, WS_TABLE_frame);
	*row = (struct ws_row_frame){.id = id,
				     .kind = kernel ? WS_FRAME_KERNEL : WS_FRAME_USER,
				     .method = method,
				     .module = number,
				     .address = address};
	row_symbol = ws_importer_add_row(importer, WS_TABLE_symbol);
	*row_symbol = (struct ws_row_symbol){.frame = id, .set = 1, .name = name};
	ws_map_set(&importer->frames, key, id);
	return id;
}

uint32_t ws_importer_intern_stack(struct ws_importer *importer, uint32_t parent, uint32_t frame)
{
	uint64_t key = (uint64_t)parent << 32 | frame;
	bool found;
	uint32_t id = (uint32_t)ws_map_get(&importer->stacks, key, &found);

	if (found)
		return id;
	if (importer->stack_count == WS_IMPORT_LIMIT * 4) {
		ws_importer_stop(importer, "there are more than %d different stacks",
				 WS_IMPORT_LIMIT * 4);
		return 1;
	}
	ws_grow(importer->stack_rows, importer->stack_cap, importer->stack_count + 1);
	id = importer->stack_count + 1;
	importer->stack_rows[importer->stack_count++] =
		(struct ws_row_stack){.id = id, .parent = parent, .frame = frame};
	*(struct ws_row_stack *)ws_importer_add_row(importer, WS_TABLE_stack) =
		importer->stack_rows[id - 1];
	ws_map_set(&importer->stacks, key, id);
	return id;
}

uint32_t ws_importer_intern_event(struct ws_importer *importer, uint32_t name)
{
	enum { MOST = 4096 };
	uint32_t id = (uint32_t)ws_map_get(&importer->events, name, NULL);
	struct ws_row_perf_event *row;

	if (id || !name || importer->events.count == MOST)
		return id;
	id = (uint32_t)importer->events.count + 1;
	ws_map_set(&importer->events, name, id);
	row = ws_importer_add_row(importer, WS_TABLE_perf_event);
	*row = (struct ws_row_perf_event){.id = id, .name = name};
	return id;
}

/* ---- notes ---- */

static void add_note(struct ws_importer *importer, uint64_t count, const char *text)
{
	size_t i = 0;

	while (i < importer->note_count && strcmp(importer->notes[i].text, text))
		i++;
	if (i == MOST_NOTES - 1)
		text = "Further things were left out.";
	if (i == MOST_NOTES)
		i--;
	if (i == importer->note_count) {
		ws_grow(importer->notes, importer->note_cap, importer->note_count + 1);
		importer->notes[importer->note_count++] =
			(struct ws_import_note){.text = ws_strdup(text)};
	}
	importer->notes[i].count += count;
}

void ws_importer_add_note(struct ws_importer *importer, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	add_note(importer, 1, text);
}

void ws_importer_add_notes(struct ws_importer *importer, uint64_t count, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	if (!count)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	add_note(importer, count, text);
}

/* Whether messages are shown. They are hidden when everything will be imported again, and when they
 * were shown before. */
static bool shows_messages(const struct ws_importer *importer)
{
	return !importer->quiet && !importer->import_again &&
	       importer->file >= importer->reported_files;
}

static void write_notes(struct ws_importer *importer)
{
	for (size_t i = 0; i < importer->note_count; i++) {
		struct ws_import_note *note = &importer->notes[i];
		struct ws_row_diagnostic *row = ws_importer_add_row(importer, WS_TABLE_diagnostic);
		char *text;

		if (note->count > 1)
			text = ws_format("%s (%" PRIu64 " times)", note->text, note->count);
		else
			text = ws_strdup(note->text);

		*row = (struct ws_row_diagnostic){.start = ws_importer_get_file_start(importer),
						  .severity = WS_WARNING,
						  .source =
							  ws_importer_add_text(importer, "import"),
						  .text = ws_importer_add_text(importer, text)};
		if (shows_messages(importer))
			ws_say("%s: %s", importer->path, text);
		free(text);
		free(note->text);
	}
	importer->note_count = 0;
}

void ws_importer_add_message(struct ws_importer *importer, const char *fmt, ...)
{
	const char *slash = strrchr(importer->path, '/'), *name = importer->path;
	struct ws_row_diagnostic *row;
	char text[512];
	char *full;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (slash)
		name = slash + 1;
	full = ws_format("%s: %s", name, text);
	row = ws_importer_add_row(importer, WS_TABLE_diagnostic);
	*row = (struct ws_row_diagnostic){.start = ws_importer_get_file_start(importer),
					  .severity = WS_INFO};
	row->source = ws_importer_add_text(importer, "import");
	row->text = ws_importer_add_text(importer, full);
	if (shows_messages(importer))
		ws_say("%s: %s", importer->path, text);
	free(full);
}

void ws_importer_add_fact(struct ws_importer *importer, const char *name, const char *value,
			  size_t length)
{
	struct ws_row_meta *row;
	uint32_t id = ws_importer_add_text(importer, name),
		 string = ws_importer_add_string(importer, value, length);

	row = ws_importer_add_row(importer, WS_TABLE_meta);
	*row = (struct ws_row_meta){.name = id, .value = string};
}

void ws_importer_show_progress(struct ws_importer *importer, uint64_t done, uint64_t all)
{
	uint64_t now;
	int percent = 0;

	if (!importer->progress)
		return;
	now = ws_read_raw_ns();
	if (now - importer->progress_shown < 200000000)
		return;
	importer->progress_shown = now;
	if (all)
		percent = (int)(100.0 * (double)done / (double)all);
	fprintf(stderr, "\r\033[Kwarpsight: importing %s: %d %%", importer->path, percent);
	fflush(stderr);
}

/* ---- a file ---- */

void ws_importer_begin_file(struct ws_importer *importer, const char *path)
{
	importer->path = path;
	importer->file_earliest = UINT64_MAX;
}

/* When a process or thread started: the file's first time where it does not say. */
static uint64_t choose_start(const struct ws_importer *importer, uint64_t start)
{
	return start != WS_NO_TIME ? start : ws_importer_get_file_start(importer);
}

static void write_process(struct ws_importer *importer, uint32_t id)
{
	const struct ws_import_process *process = &importer->processes[id - 1];
	struct ws_row_process *row = ws_importer_add_row(importer, WS_TABLE_process);

	*row = (struct ws_row_process){
		.id = id,
		.pid = process->pid,
		.vm = process->vm,
		.parent = process->parent,
		.ppid = process->ppid,
		.start = choose_start(importer, process->start),
		.origin = process->origin,
		.exe = process->exe,
		.cmdline = process->cmdline,
		.name = process->name,
	};
}

static void write_thread(struct ws_importer *importer, uint32_t id)
{
	const struct ws_import_thread *thread = &importer->threads[id - 1];
	uint64_t start = choose_start(importer, thread->start);
	struct ws_row_thread *row = ws_importer_add_row(importer, WS_TABLE_thread);

	*row = (struct ws_row_thread){
		.id = id, .process = thread->process, .tid = thread->tid, .start = start};
	if (thread->name) {
		struct ws_row_thread_name *name =
			ws_importer_add_row(importer, WS_TABLE_thread_name);

		*name = (struct ws_row_thread_name){.thread = id,
						    .start = start,
						    .name = thread->name,
						    .priority = thread->priority};
	}
}

void ws_importer_end_file(struct ws_importer *importer)
{
	if (importer->progress_shown)
		fputs("\r\033[K", stderr);
	importer->progress_shown = 0;
	while (importer->written_processes < importer->process_count)
		write_process(importer, (uint32_t)++importer->written_processes);
	while (importer->written_threads < importer->thread_count)
		write_thread(importer, (uint32_t)++importer->written_threads);
	write_notes(importer);
	ws_map_free(&importer->process_ids);
	ws_map_free(&importer->thread_ids);
	ws_map_free(&importer->track_ids);
	ws_map_free(&importer->counter_ids);
	importer->process_ids = importer->thread_ids = importer->track_ids = importer->counter_ids =
		(struct ws_map){0};
}

void ws_importer_free(struct ws_importer *importer)
{
	free(importer->processes);
	free(importer->threads);
	for (size_t i = 0; i < importer->note_count; i++)
		free(importer->notes[i].text);
	free(importer->notes);
	for (size_t i = 0; i < importer->mangled_count; i++)
		free(importer->mangled[i].text);
	free(importer->mangled);
	ws_map_free(&importer->mangled_names);
	ws_map_free(&importer->process_ids);
	ws_map_free(&importer->thread_ids);
	ws_map_free(&importer->track_ids);
	ws_map_free(&importer->counter_ids);
	ws_map_free(&importer->first_collectives);
	ws_map_free(&importer->clocks);
	ws_map_free(&importer->events);
	ws_map_free(&importer->frames);
	ws_map_free(&importer->stacks);
	ws_map_free(&importer->modules);
	free(importer->stack_rows);
}
