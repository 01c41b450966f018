/* file_use.c - see file_use.h. */
#include "query/file_use.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"

/* A transfer that begins within this many bytes of the last one's end is in order: calls between
 * may have been too short to be recorded, and the kernel reads this far ahead. */
enum { NEAR = 131072 };

enum call_kind {
	CALL_OTHER = 1,
	CALL_OPEN,
	CALL_READ,
	CALL_WRITE,
	CALL_COPY,  /* reads this file into another, from anywhere in it */
	CALL_STREAM /* takes letters or lines from a stream's buffer, which it may have to fill */
};

static const struct {
	const char *begin; /* longest function name */
	uint8_t kind;
} kinds[] = {
	{"open", CALL_OPEN},	{"creat", CALL_OPEN},	   {"fopen", CALL_OPEN},
	{"freopen", CALL_OPEN}, {"read", CALL_READ},	   {"pread", CALL_READ},
	{"fread", CALL_READ},	{"write", CALL_WRITE},	   {"pwrite", CALL_WRITE},
	{"fwrite", CALL_WRITE}, {"sendfile", CALL_COPY},   {"copy_file_range", CALL_COPY},
	{"splice", CALL_COPY},	{"fget", CALL_STREAM},	   {"getc", CALL_STREAM},
	{"getw", CALL_STREAM},	{"getdelim", CALL_STREAM}, {"getline", CALL_STREAM},
};

/* Other calls whose names begin like those of transfers. */
static const char *const exceptions[] = {"readlink",   "readdir", "readahead", "open_memstream",
					 "openlog",    "openpty", "opendir",   "getcwd",
					 "getcontext", "getcpu",  "fgetpos"};

struct open_note { /* an open that is counted under the name that the program used */
	size_t use;
	uint64_t ns;
};

struct loading {
	const struct ws_report *report;
	const struct ws_names_by_id *who;
	struct ws_file_use *uses;
	size_t count, capacity;
	struct ws_map by_key;	 /* process << 32 | path -> index in uses + 1 */
	struct ws_map functions; /* string id -> enum call_kind */
	struct ws_map places;	 /* thread << 32 | path -> position behind its last transfer */
	struct ws_map opened;	 /* thread << 32 | descriptor -> index in notes + 1 */
	struct open_note *notes;
	size_t note_count, note_capacity;
};

static uint8_t choose_kind(const char *name)
{
	for (size_t i = 0; i < WS_COUNT(exceptions); i++)
		if (!strncmp(name, exceptions[i], strlen(exceptions[i])))
			return CALL_OTHER;
	for (size_t i = 0; i < WS_COUNT(kinds); i++)
		if (!strncmp(name, kinds[i].begin, strlen(kinds[i].begin)))
			return kinds[i].kind;
	return CALL_OTHER;
}

static uint8_t find_kind(struct loading *loading, uint64_t function)
{
	uint64_t kind = ws_map_get(&loading->functions, function, NULL);

	if (!kind) {
		kind = choose_kind(ws_report_string(loading->report, (uint32_t)function, NULL));
		ws_map_set(&loading->functions, function, kind);
	}
	return (uint8_t)kind;
}

/* Pipes, sockets and the like have names such as pipe:[123]. */
static bool is_file(const char *path)
{
	const char *colon = strchr(path, ':');

	return *path && (*path == '/' || !colon || strchr(path, '/'));
}

static size_t find_use(struct loading *loading, uint32_t process, uint32_t path)
{
	uint64_t key = (uint64_t)process << 32 | path;
	uint64_t index = ws_map_get(&loading->by_key, key, NULL);

	if (index)
		return index - 1;
	ws_grow(loading->uses, loading->capacity, loading->count + 1);
	loading->uses[loading->count] = (struct ws_file_use){.process = process, .path = path};
	ws_map_set(&loading->by_key, key, ++loading->count);
	return loading->count - 1;
}

/* A program opens a file by a name of its own; other calls have the name that the system gives it.
 * Once both are known, the open is counted under the system's name. */
static void join_open(struct loading *loading, uint64_t thread, uint64_t descriptor, size_t use)
{
	const struct open_note *note;
	uint64_t index = 0;

	if (!ws_map_remove(&loading->opened, thread << 32 | (uint32_t)descriptor, &index))
		return;
	note = &loading->notes[index - 1];
	loading->uses[note->use].opens--;
	loading->uses[note->use].ns -= note->ns;
	loading->uses[use].opens++;
	loading->uses[use].ns += note->ns;
}

static void note_open(struct loading *loading, const uint64_t *values, size_t use, uint64_t ns)
{
	loading->uses[use].opens++;
	if (!values[ws_osrt_object])
		return;
	ws_grow(loading->notes, loading->note_capacity, loading->note_count + 1);
	loading->notes[loading->note_count++] = (struct open_note){use, ns};
	ws_map_set(&loading->opened,
		   values[ws_osrt_thread] << 32 | (uint32_t)values[ws_osrt_object],
		   loading->note_count);
}

static void note_place(struct loading *loading, struct ws_file_use *use, const uint64_t *values,
		       uint64_t bytes)
{
	uint64_t key = values[ws_osrt_thread] << 32 | use->path;
	uint64_t position = values[ws_osrt_position], start = position - bytes, last;
	bool known;

	if (position == WS_NO_U64 || position < bytes)
		return;
	last = ws_map_get(&loading->places, key, &known);
	if (known && start >= last && start - last <= NEAR)
		use->in_order++;
	else if (known)
		use->jumps++;
	ws_map_set(&loading->places, key, position);
}

static void count_read(struct ws_file_use *use, uint64_t bytes)
{
	use->reads++;
	use->read_bytes += bytes;
	use->small_reads += bytes < WS_SMALL_READ;
}

static void count_transfer(struct loading *loading, struct ws_file_use *use, uint8_t kind,
			   const uint64_t *values)
{
	int64_t result = (int64_t)values[ws_osrt_result];
	uint64_t bytes = 0;

	if (result > 0)
		bytes = (uint64_t)result;
	if (values[ws_osrt_item])
		bytes *= values[ws_osrt_item];
	if (kind == CALL_READ) {
		count_read(use, bytes);
	} else {
		use->writes++;
		use->written_bytes += bytes;
	}
	if (bytes)
		note_place(loading, use, values, bytes);
}

/* A call that filled the buffer moved the position in the file, by what was read. */
static void count_stream_read(struct loading *loading, struct ws_file_use *use,
			      const uint64_t *values)
{
	uint64_t key = values[ws_osrt_thread] << 32 | use->path,
		 position = values[ws_osrt_position],
		 last = ws_map_get(&loading->places, key, NULL);

	if (position != WS_NO_U64 && position < last) /* it was opened again */
		last = 0;
	if (position == WS_NO_U64 || position == last) {
		use->others++;
		return;
	}
	count_read(use, position - last);
	note_place(loading, use, values, position - last);
}

static void count_copy(struct ws_file_use *use, const uint64_t *values)
{
	int64_t result = (int64_t)values[ws_osrt_result];

	if (result < 0)
		use->others++;
	else
		count_read(use, (uint64_t)result);
}

static void add_call(struct loading *loading, const uint64_t *values)
{
	uint32_t path = (uint32_t)values[ws_osrt_path];
	uint8_t kind = find_kind(loading, values[ws_osrt_name]);
	const struct ws_thread_info *info =
		ws_find_thread(loading->who, (uint32_t)values[ws_osrt_thread]);
	uint64_t ns = 0;
	size_t index;

	if (!path || !is_file(ws_report_string(loading->report, path, NULL)))
		return;
	index = find_use(loading, info->process, ws_report_string_key(loading->report, path));
	if (values[ws_osrt_end] != WS_NO_TIME && values[ws_osrt_end] > values[ws_osrt_start])
		ns = values[ws_osrt_end] - values[ws_osrt_start];
	loading->uses[index].ns += ns;
	if (kind == CALL_OPEN) {
		note_open(loading, values, index, ns);
		return;
	}
	join_open(loading, values[ws_osrt_thread], values[ws_osrt_object], index);
	if (kind == CALL_OTHER)
		loading->uses[index].others++;
	else if (kind == CALL_COPY)
		count_copy(&loading->uses[index], values);
	else if (kind == CALL_STREAM)
		count_stream_read(loading, &loading->uses[index], values);
	else
		count_transfer(loading, &loading->uses[index], kind, values);
}

struct ws_file_use *ws_load_file_use(const struct ws_report *report,
				     const struct ws_names_by_id *who, uint64_t from, uint64_t to,
				     size_t *count)
{
	struct loading loading = {.report = report, .who = who};
	struct ws_cursor *cursor = ws_cursor_open(report, WS_TABLE_osrt, from, to);
	const uint64_t *values;

	while (ws_cursor_next(cursor, &values))
		add_call(&loading, values);
	ws_cursor_close(cursor);
	ws_map_free(&loading.by_key);
	ws_map_free(&loading.functions);
	ws_map_free(&loading.places);
	ws_map_free(&loading.opened);
	free(loading.notes);
	*count = loading.count;
	return loading.uses;
}
