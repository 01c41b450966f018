/*
 * read_again.c - a file that is read from its beginning to its end again and again.
 *
 * Calls that read say how far into the file they came. Where a thread's place in a file falls back,
 * it goes through it once more: a pass. Short calls are not recorded, so that some passes look like
 * several short ones: how often the file was opened says how many there are.
 */
#include <stdlib.h>

#include "analyze/rules/rules.h"
#include "analyze/stack_sums.h"
#include "base/choose.h"
#include "base/map.h"

enum { LEAST_PASSES = 8, MOST_READS = 2000000, LEAST_NS = 20000000 };
#define LEAST_SHARE 0.15
#define LEAST_READ 0.3	 /* of the file, each time: a search finds what it looks for half-way */
#define LEAST_OF_ALL 0.8 /* of what a process reads */
#define GAINED 0.85

struct read_call {
	uint64_t start, ns, position;
	uint32_t thread, path, stack;
};

struct reads {
	const struct ws_report *report;
	struct ws_map names; /* string: 1 more than what it does */
	struct ws_map opens; /* string of a path as it was given: how often it was opened */
	struct read_call *calls;
	size_t count, cap;
};

/* What is known of one file. */
struct reread_file {
	uint32_t path;
	uint64_t size, opens, processes;
	uint64_t bytes;	  /* read in all passes, as far as these show */
	uint64_t cost;	  /* on the path: in the processes that read it, or below `place` */
	uint32_t process; /* one that does nothing but read it; 0: the program itself reads it */
	struct ws_code_place place;
	struct ws_span span;
};

/* ---- which calls there are ---- */

enum file_call { OTHER_CALL, READS, OPENS };

static enum file_call classify_call(const char *name)
{
	static const char *const reads[] = {"read",	"pread*",   "readv",	"fread*",
					    "fgets*",	"getline",  "getdelim", "fgetc",
					    "getc",	"*fscanf",  "__read*",	"__fread*",
					    "__fgets*", "__pread*", "fgetws*",	NULL};
	static const char *const opens[] = {"open*", "fopen*", "__open*", "freopen*", NULL};

	if (ws_is_name_among(name, strlen(name), reads))
		return READS;
	return ws_is_name_among(name, strlen(name), opens) ? OPENS : OTHER_CALL;
}

static enum file_call find_call(struct reads *reads, uint32_t name)
{
	uint64_t known = ws_map_get(&reads->names, name, NULL);

	if (!known) {
		known = 1u + classify_call(ws_report_string(reads->report, name, NULL));
		ws_map_set(&reads->names, name, known);
	}
	return (enum file_call)(known - 1);
}

static void add_call(struct reads *reads, const struct ws_batch *batch, size_t i)
{
	uint64_t start = batch->col[ws_osrt_start][i];

	ws_grow(reads->calls, reads->cap, reads->count + 1);
	reads->calls[reads->count++] = (struct read_call){
		.start = start,
		.ns = batch->col[ws_osrt_end][i] - start,
		.position = batch->col[ws_osrt_position][i],
		.thread = (uint32_t)batch->col[ws_osrt_thread][i],
		.path = (uint32_t)batch->col[ws_osrt_path][i],
		.stack = (uint32_t)batch->col[ws_osrt_callchain][i],
	};
}

static int gather_calls(void *context, const struct ws_batch *batch)
{
	struct reads *reads = (struct reads *)context + batch->worker;

	for (size_t i = 0; i < batch->rows && reads->count < MOST_READS; i++) {
		uint64_t path = batch->col[ws_osrt_path][i],
			 position = batch->col[ws_osrt_position][i];
		enum file_call call;

		if (!path)
			continue;
		call = find_call(reads, (uint32_t)batch->col[ws_osrt_name][i]);
		if (call == READS && position && position != WS_NO_U64)
			add_call(reads, batch, i);
		else if (call == OPENS && !batch->col[ws_osrt_error][i])
			ws_map_set(&reads->opens, path, ws_map_get(&reads->opens, path, NULL) + 1);
	}
	return 0;
}

static int compare_calls(const void *first, const void *second)
{
	const struct read_call *left = first, *right = second;

	if (left->path != right->path)
		return ws_compare(left->path, right->path);
	if (left->thread != right->thread)
		return ws_compare(left->thread, right->thread);
	return ws_compare(left->start, right->start);
}

static void add_opens(struct ws_map *opens, const struct ws_map_slot *slot)
{
	ws_map_set(opens, slot->key, ws_map_get(opens, slot->key, NULL) + slot->value);
}

/* All calls that read files, by file, thread and time. Free `calls` and `opens`. */
static struct reads load_reads(struct ws_model *model)
{
	struct ws_scan scan = {
		.table = WS_TABLE_osrt,
		.columns = WS_COLUMN_BIT(osrt, start) | WS_COLUMN_BIT(osrt, end) |
			   WS_COLUMN_BIT(osrt, thread) | WS_COLUMN_BIT(osrt, name) |
			   WS_COLUMN_BIT(osrt, path) | WS_COLUMN_BIT(osrt, callchain) |
			   WS_COLUMN_BIT(osrt, position) | WS_COLUMN_BIT(osrt, error),
		.time_min = model->from,
		.time_max = model->to,
	};
	uint32_t workers = ws_count_scan_workers(&scan);
	struct reads *parts = ws_calloc(workers, sizeof(*parts)), all = {0};

	for (uint32_t i = 0; i < workers; i++)
		parts[i].report = model->report;
	ws_run_scan(model->report, &scan, gather_calls, parts, &model->damaged);
	for (uint32_t i = 0; i < workers; i++) {
		ws_grow(all.calls, all.cap, all.count + parts[i].count);
		if (parts[i].count)
			memcpy(all.calls + all.count, parts[i].calls,
			       parts[i].count * sizeof(*parts[i].calls));
		all.count += parts[i].count;
		for (size_t k = 0; k < parts[i].opens.size; k++)
			if (parts[i].opens.used[k])
				add_opens(&all.opens, &parts[i].opens.slots[k]);
		free(parts[i].calls);
		ws_map_free(&parts[i].names);
		ws_map_free(&parts[i].opens);
	}
	free(parts);
	for (size_t i = 0; i < all.count; i++)
		all.calls[i].path = ws_report_string_key(model->report, all.calls[i].path);
	if (all.count)
		qsort(all.calls, all.count, sizeof(*all.calls), compare_calls);
	return all;
}

/* ---- passes ---- */

/* How many calls from the first on are one pass. */
static size_t count_pass(const struct read_call *calls, size_t count)
{
	size_t i = 1;

	while (i < count && calls[i].path == calls[0].path && calls[i].thread == calls[0].thread &&
	       calls[i].position > calls[i - 1].position)
		i++;
	return i;
}

static uint32_t find_process(const struct ws_model *model, uint32_t thread)
{
	return ws_find_thread(model->who, thread)->process;
}

/* By process: how many bytes of files it has read, as far as its passes show. */
static void sum_bytes(const struct ws_model *model, const struct reads *reads, struct ws_map *bytes)
{
	for (size_t i = 0, pass; i < reads->count; i += pass) {
		uint32_t process = find_process(model, reads->calls[i].thread);

		pass = count_pass(&reads->calls[i], reads->count - i);
		ws_map_set(bytes, process,
			   ws_map_get(bytes, process, NULL) + reads->calls[i + pass - 1].position);
	}
}

/* One file's calls. */
struct file_reads {
	const struct ws_analysis *analysis;
	const struct reads *all;
	const struct read_call *calls;
	size_t count;
	const struct ws_map *bytes; /* by process: how many it has read of all files */
};

/* Paths may be given from the folder in which the program is. */
static bool is_path_of(const char *given, const char *path)
{
	size_t length, whole = strlen(path);

	while (!strncmp(given, "./", 2) || !strncmp(given, "../", 3))
		given = strchr(given, '/') + 1;
	length = strlen(given);
	return length && length <= whole && !strcmp(path + whole - length, given) &&
	       (length == whole || path[whole - length - 1] == '/');
}

static uint64_t count_opens(const struct file_reads *reads)
{
	const struct ws_report *report = reads->analysis->model->report;
	const char *path = ws_report_string(report, reads->calls[0].path, NULL);
	const struct ws_map *opens = &reads->all->opens;
	uint64_t count = 0;

	for (size_t i = 0; i < opens->size; i++)
		if (opens->used[i] &&
		    is_path_of(ws_report_string(report, (uint32_t)opens->slots[i].key, NULL), path))
			count += opens->slots[i].value;
	return count;
}

/* Whether a thread's passes of this file are most of what its process reads. */
static bool reads_little_else(const struct file_reads *reads, size_t at)
{
	uint32_t process = find_process(reads->analysis->model, reads->calls[at].thread);
	uint64_t here = 0, all = ws_map_get(reads->bytes, process, NULL);

	for (size_t i = at, pass;
	     i < reads->count && reads->calls[i].thread == reads->calls[at].thread; i += pass) {
		pass = count_pass(&reads->calls[i], reads->count - i);
		here += reads->calls[i + pass - 1].position;
	}
	return (double)here >= LEAST_OF_ALL * (double)all;
}

static uint64_t sum_process(const struct ws_analysis *analysis, uint32_t process)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < analysis->breakdown.count; i++) {
		const struct ws_breakdown_row *row = &analysis->breakdown.rows[i];

		if (row->thread && find_process(analysis->model, row->thread) == process)
			sum += row->ns;
	}
	return sum;
}

static void add_passes(const struct file_reads *reads, struct reread_file *file)
{
	uint32_t thread = 0;

	file->path = reads->calls[0].path;
	for (size_t i = 0; i < reads->count; i++)
		file->size = ws_max(file->size, reads->calls[i].position);
	for (size_t i = 0, pass; i < reads->count; i += pass) {
		const struct read_call *first = &reads->calls[i];
		uint32_t process = find_process(reads->analysis->model, first->thread);

		pass = count_pass(first, reads->count - i);
		file->bytes += first[pass - 1].position;
		if (first->thread == thread)
			continue;
		thread = first->thread;
		if (process == reads->analysis->model->process || !reads_little_else(reads, i))
			continue;
		file->processes++;
		file->process = process;
		file->cost += sum_process(reads->analysis, process);
	}
}

/* The function of the user's in which most of the time of the calls was spent. */
static struct ws_code_place find_place(const struct file_reads *reads)
{
	const struct ws_model *model = reads->analysis->model;
	struct ws_code_place most = {0};
	struct ws_map sums = {0};
	uint64_t longest = 0;

	for (size_t i = 0; i < reads->count; i++) {
		struct ws_code_place place;
		uint64_t sum;

		if (!reads->calls[i].stack || reads->calls[i].stack == WS_NO_U32)
			continue;
		place = ws_code_find_place(model, 0, reads->calls[i].stack);
		sum = ws_map_get(&sums, place.function, NULL) + reads->calls[i].ns;
		ws_map_set(&sums, place.function, sum);
		if (!place.users || sum <= longest)
			continue;
		longest = sum;
		most = place;
	}
	ws_map_free(&sums);
	return most;
}

/* ---- what a function of the program takes ---- */

static uint64_t is_below(const struct ws_model *model, const uint32_t *frames, size_t count,
			 void *context)
{
	const struct ws_code_place *wanted = context;

	for (size_t i = 0; i < count; i++) {
		const struct ws_frame_info *info = ws_stacks_get_frame(model->stacks, frames[i]);
		const struct ws_place *places = ws_stacks_get_places(model->stacks, info);

		for (uint32_t k = 0; k < info->count; k++)
			if (places[k].function == wanted->function)
				return 1;
	}
	return 0;
}

/* In the function that threads begin with, only the lines that read. */
static uint64_t is_at_line(const struct ws_model *model, const uint32_t *frames, size_t count,
			   void *context)
{
	const struct ws_code_place *wanted = context,
				   place = ws_code_place_frames(model, frames, count);

	return place.function == wanted->function && place.line == wanted->line;
}

static uint64_t sum_below(const struct ws_analysis *analysis, struct ws_code_place *place,
			  struct ws_span *span)
{
	struct ws_stack_sums sums;
	uint64_t ns = 0;

	ws_stack_sums_make(analysis->model, 0, is_below, place, &sums);
	if (sums.count && sums.sums[0].ns > sums.ns / 100 * 95 &&
	    ws_code_find_start(analysis->model, analysis->model->thread) == place->function) {
		ws_stack_sums_free(&sums);
		ws_stack_sums_make(analysis->model, 0, is_at_line, place, &sums);
	}
	if (sums.count) {
		ns = (uint64_t)((double)ws_analysis_cpu_on_path(analysis) *
				(double)sums.sums[0].ns / (double)sums.ns);
		*span = sums.sums[0].span;
	}
	ws_stack_sums_free(&sums);
	return ns;
}

/* ---- findings ---- */

static const char *find_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static void put_size(uint64_t bytes, struct ws_text *text)
{
	if (bytes >= 1000000)
		ws_text_printf(text, "%.3g MB", (double)bytes / 1e6);
	else
		ws_text_printf(text, "%.3g kB", (double)bytes / 1e3);
}

static void report_file(const struct ws_analysis *analysis, const struct reread_file *file,
			struct ws_findings *findings)
{
	struct ws_finding *finding =
		ws_findings_add_fault(analysis, findings, &ws_rule_read_again, file->cost,
				      (uint64_t)((double)file->cost * GAINED));
	struct ws_text who = {0}, size = {0};

	put_size(file->size, &size);
	if (file->process) {
		ws_text_printf(&who, ", by %llu processes (", (unsigned long long)file->processes);
		ws_put_command(ws_find_process(analysis->model->who, file->process)->cmdline, &who);
		ws_text_puts(&who, ")");
		if (ws_code_is_system_program(analysis->model, analysis->model->process) &&
		    !ws_runs_users_script(analysis->model, analysis->model->process))
			finding->level = WS_LEVEL_NOTE;
	} else {
		ws_put_at_place(analysis, &file->place, &who);
		ws_limit_to_users(analysis, finding, &file->place);
		ws_point_at(finding, &file->place);
		ws_finding_add_evidence(finding, "from the first sample in it to the last", NULL,
					file->span.start, file->span.end);
	}
	finding->title = ws_format(
		"The same file, %s (%s), is opened and read %llu times%s: %.0f %% "
		"of the time",
		find_base_name(ws_report_string(analysis->model->report, file->path, NULL)),
		size.text, (unsigned long long)file->opens, ws_text_or(who.text, ""),
		100 * ws_analysis_share(analysis, file->cost));
	finding->advice = ws_strdup(
		file->process
			? "Go through it once for all questions: in one process that keeps a table "
			  "(arrays of awk, sort and join, a dictionary), instead of in one for "
			  "each."
			: "Read it once, and keep what is needed of it (a table, a dictionary, the "
			  "object made of it); again only when it has changed (its time, "
			  "inotify).");
	finding->assumption = ws_strdup("it is read once");
	ws_text_free(&who);
	ws_text_free(&size);
}

/* Files of the system and of installed packages are read by libraries. */
static bool is_users_file(const char *path)
{
	static const char *const systems[] = {"/proc/*", "/sys/*", "/dev/*", "/etc/*", NULL};

	return *path == '/' && !ws_is_name_among(path, strlen(path), systems) &&
	       !ws_code_is_system_path(path);
}

/* Whether a file is read again and again, and what that costs. */
static bool judge_file(const struct file_reads *reads, struct reread_file *file)
{
	const struct ws_analysis *analysis = reads->analysis;

	if (!is_users_file(ws_report_string(analysis->model->report, reads->calls[0].path, NULL)))
		return false;
	add_passes(reads, file);
	if (file->bytes < LEAST_PASSES * file->size / 2)
		return false;
	file->opens = count_opens(reads);
	if (file->opens < LEAST_PASSES ||
	    (double)file->bytes < LEAST_READ * (double)file->size * (double)file->opens)
		return false;
	if (file->processes < LEAST_PASSES) {
		file->process = 0;
		file->place = find_place(reads);
		if (!file->place.users)
			return false;
		file->cost = sum_below(analysis, &file->place, &file->span);
	}
	return file->cost >= LEAST_NS && ws_analysis_share(analysis, file->cost) >= LEAST_SHARE;
}

static void check_files(const struct ws_analysis *analysis, struct ws_findings *findings)
{
	struct reads reads = load_reads(analysis->model);
	struct reread_file most = {0};
	struct ws_map bytes = {0};

	sum_bytes(analysis->model, &reads, &bytes);
	for (size_t i = 0, end; i < reads.count; i = end) {
		struct reread_file file = {0};

		for (end = i; end < reads.count && reads.calls[end].path == reads.calls[i].path;)
			end++;
		if (judge_file(&(struct file_reads){analysis, &reads, &reads.calls[i], end - i,
						    &bytes},
			       &file) &&
		    file.cost > most.cost)
			most = file;
	}
	if (most.cost)
		report_file(analysis, &most, findings);
	ws_map_free(&bytes);
	ws_map_free(&reads.opens);
	free(reads.calls);
}

static const char *find_obstacle(const struct ws_analysis *analysis)
{
	if (!ws_report_count_rows(analysis->model->report, WS_TABLE_osrt))
		return "calls that open and read files were not recorded (--trace=osrt)";
	return ws_need_samples(analysis);
}

const struct ws_rule ws_rule_read_again = {
	.name = "read-again",
	.title = "Files that are read again and again",
	.about =
		"A file that is not the system's is opened and read, a third of it on average, "
		"eight "
		"times or more, and the function that reads it, with all that it calls, or "
		"the processes that read hardly anything else, take 15 % of the critical path or "
		"more. Reading here and there in a file is not meant. A note where programs of the "
		"system do it for each other.",
	.find_obstacle = find_obstacle,
	.query = ws_proof_waits,
	.check = check_files,
};
