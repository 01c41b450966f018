/*
 * from_library.c - converts calls of traced libraries into rows.
 *
 * A call is a row of `slice`, with the name of its table (MPI_P2P_EVENTS) as category and the
 * recorded arguments as a JSON object. Imported tables have the same form, so one reader serves
 * both, and exports make the table again (schema/foreign.h). Rows of other tables of a library are
 * rows of `foreign`. Most calls of a program repeat their arguments, and these share one text: the
 * last texts made are remembered by their values.
 *
 * Records come from memory that the target can overwrite: sizes and numbers are checked here,
 * handles where they are looked up.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/nvtx_libraries.h"
#include "record/libraries.h"
#include "record/proc.h"
#include "record/ranks.h"
#include "ring/library_record.h"
#include "schema/foreign.h"
#include "text/json.h"
#include "text/text.h"

enum kept_kind {
	WS_KEPT_INTEGER,
	WS_KEPT_UNSIGNED,
	WS_KEPT_REAL,
	WS_KEPT_TEXT,
	WS_KEPT_THREAD, /* the calling thread; no value in the record */
	WS_KEPT_NAMED	/* one of `names` */
};

struct named {
	int64_t number;
	const char *name; /* NULL ends the list */
};

struct kept {
	const char *name;
	enum kept_kind kind;
	const struct named *names;
	bool is_constant; /* it is always `constant`, which records do not repeat */
	int64_t constant;
};

struct library {
	const char *name, *title, *trace, *files;
	bool is_layer; /* its own loader loads the hooks */
};

struct table {
	const char *name, *fact;
	const struct kept *kept; /* of a row or span; NULL for a table of calls */
	unsigned count;
	bool is_spans;
	unsigned library; /* enum ws_library */
};

struct function {
	const char *name;
	unsigned table;	  /* enum ws_library_table */
	unsigned library; /* enum ws_library */
	const struct kept *kept;
	unsigned count;
};

#include "library_tables.h"

#define CACHED_WORDS 16u
#define CACHED_CALLS 512u
/* Of a process: one for a context or queue. */
#define MOST_TRACKS 4096u

/* The last text that was made of values with this hash. */
struct cached_text {
	uint32_t text; /* string id; 0: nothing yet */
	uint32_t function;
	int64_t words[CACHED_WORDS];
};

struct work { /* work that a call has begun */
	uint64_t start;
	uint32_t thread;
};

struct library_state {						     /* of a process */
	uint32_t names[WS_LIBRARY_CALLS], tables[WS_LIBRARY_TABLES]; /* string ids; 0: not yet */
	struct cached_text cached[CACHED_CALLS];
	struct ws_map begun[WS_LIBRARIES]; /* number of the work -> index in `work` + 1 */
	struct work *work;
	size_t work_count, work_capacity;
	uint32_t work_name;
	struct ws_map tracks; /* handle of the name -> id of the track */
	unsigned track_count;
	uint64_t seen; /* libraries with calls: bits */
};

static void free_library_state(void *slot)
{
	struct library_state *state = slot;

	if (!state)
		return;
	for (size_t i = 0; i < WS_LIBRARIES; i++)
		ws_map_free(&state->begun[i]);
	ws_map_free(&state->tracks);
	free(state->work);
	free(state);
}

static struct library_state *get_state(struct ws_stream *stream)
{
	void **slot = ws_proc_slot(stream->proc, WS_SLOT_LIBRARY, free_library_state);

	if (ws_unlikely(!*slot))
		*slot = ws_calloc(1, sizeof(struct library_state));
	return *slot;
}

static void report_damage(struct ws_stream *stream)
{
	ws_stream_diagnostic(stream, WS_ERROR, "libraries",
			     "Records of library calls were overwritten by the program itself (a "
			     "stray write into shared memory); they are left out.");
}

/* ---- names ---- */

static uint32_t intern_name(struct ws_stream *stream, uint32_t *slot, const char *name)
{
	if (ws_unlikely(!*slot))
		*slot = ws_stream_intern(stream, name, strlen(name));
	return *slot;
}

/* Write, once per report, which columns a table has. */
static void describe_table(struct ws_sink *sink, unsigned number, const char *name,
			   const char *columns)
{
	uint64_t *described = &sink->library_tables[number / 64];
	char fact[128];

	if (ws_likely(*described >> number % 64 & 1))
		return;
	*described |= UINT64_C(1) << number % 64;
	snprintf(fact, sizeof(fact), WS_FOREIGN_TABLE_FACT "%s", name);
	ws_sink_meta(sink, fact, "%s", columns);
}

/* The string id of a table's name. Its first use in a report says which columns it has. */
static uint32_t name_table(struct ws_stream *stream, unsigned table)
{
	describe_table(stream->sink, table, tables[table].name, tables[table].fact);
	return intern_name(stream, &get_state(stream)->tables[table], tables[table].name);
}

uint32_t ws_library_name_nvtx_table(struct ws_stream *stream, unsigned number, const char *name)
{
	_Static_assert(WS_LIBRARY_TABLES + WS_COUNT(ws_nvtx_libraries) <= WS_SINK_TABLES,
		       "a bit for each table");
	for (unsigned i = 0; i < WS_LIBRARY_TABLES; i++)
		if (!strcmp(tables[i].name, name))
			return name_table(stream, i);
	describe_table(stream->sink, WS_LIBRARY_TABLES + number, name,
		       "S start/s end/e globalTid/t nameId/@n");
	return ws_stream_intern(stream, name, strlen(name));
}

/* ---- recorded arguments ---- */

static const char *find_named(const struct named *names, int64_t number)
{
	while (names->name && names->number != number)
		names++;
	return names->name;
}

static void put_text_value(struct ws_stream *stream, struct ws_text *json, int64_t handle)
{
	size_t length = 0;
	const char *text = ws_stream_string_bytes(stream, (uint32_t)handle, &length);

	ws_text_puts(json, "\"");
	if (text)
		ws_put_escaped_json(json, text, length);
	ws_text_puts(json, "\"");
}

static void put_value(struct ws_stream *stream, struct ws_text *json, const struct kept *kept,
		      int64_t value)
{
	const char *name;
	double real;

	switch (kept->kind) {
	case WS_KEPT_UNSIGNED:
		ws_text_printf(json, "%" PRIu64, (uint64_t)value);
		return;
	case WS_KEPT_REAL:
		memcpy(&real, &value, sizeof(real));
		ws_text_printf(json, "%.17g", real);
		return;
	case WS_KEPT_TEXT:
		put_text_value(stream, json, value);
		return;
	case WS_KEPT_NAMED:
		name = find_named(kept->names, value);
		if (name) {
			ws_text_printf(json, "\"%s\"", name);
			return;
		}
		/* fallthrough */
	default:
		ws_text_printf(json, "%" PRId64, value);
	}
}

/* Whether there is a value to show: JSON has no NaN or infinity. */
static bool has_value(const struct kept *kept, int64_t value)
{
	double real;

	if (kept->kind == WS_KEPT_TEXT)
		return value != 0;
	if (kept->kind != WS_KEPT_REAL)
		return value != WS_LIBRARY_NONE;
	memcpy(&real, &value, sizeof(real));
	return real - real == 0;
}

static uint64_t make_global_thread(const struct ws_stream *stream)
{
	return (uint64_t)stream->proc->pid << 24 | (stream->tid & 0xffffff);
}

/* The values as a JSON object; its string id, 0 for an empty one. */
static uint32_t make_json(struct ws_stream *stream, const struct kept *kept, unsigned count,
			  const int64_t *words)
{
	struct ws_text json = {0};
	uint32_t id = 0;

	for (unsigned i = 0; i < count; i++) {
		int64_t value;

		if (kept[i].kind == WS_KEPT_THREAD)
			value = (int64_t)make_global_thread(stream);
		else if (kept[i].is_constant)
			value = kept[i].constant;
		else
			value = *words++;
		if (!has_value(&kept[i], value))
			continue;
		ws_text_printf(&json, "%s\"%s\":", json.len ? "," : "{", kept[i].name);
		put_value(stream, &json, &kept[i], value);
	}
	if (json.len) {
		ws_text_puts(&json, "}");
		id = ws_stream_intern(stream, json.text, json.len);
	}
	ws_text_free(&json);
	return id;
}

static uint64_t hash_words(uint32_t function, const int64_t *words, unsigned count)
{
	uint64_t hash = function;

	for (unsigned i = 0; i < count; i++)
		hash = (hash ^ (uint64_t)words[i]) * UINT64_C(0x9e3779b97f4a7c15),
		hash ^= hash >> 32;
	return hash;
}

static uint32_t make_call_json(struct ws_stream *stream, unsigned number, const int64_t *words,
			       unsigned count)
{
	const struct function *function = &functions[number];
	struct cached_text *cached;

	if (!function->count)
		return 0;
	if (count > CACHED_WORDS)
		return make_json(stream, function->kept, function->count, words);
	cached = &get_state(stream)->cached[hash_words(number, words, count) % CACHED_CALLS];
	if (!cached->text || cached->function != number ||
	    memcmp(cached->words, words, count * sizeof(*words)) != 0) {
		cached->text = make_json(stream, function->kept, function->count, words);
		cached->function = number;
		memcpy(cached->words, words, count * sizeof(*words));
	}
	return cached->text;
}

/* How many values a record of these has. */
static unsigned count_words(const struct kept *kept, unsigned count)
{
	unsigned words = 0;

	for (unsigned i = 0; i < count; i++)
		words += kept[i].kind != WS_KEPT_THREAD && !kept[i].is_constant;
	return words;
}

/* ---- rows ---- */

static void write_call(struct ws_stream *stream, unsigned number, uint64_t start, uint64_t end,
		       uint32_t args)
{
	uint32_t category = name_table(stream, functions[number].table);
	uint32_t name =
		intern_name(stream, &get_state(stream)->names[number], functions[number].name);
	struct ws_row_slice *row =
		ws_writer_row(stream->writer, WS_TABLE_slice, stream->stage[WS_TABLE_slice]);

	get_state(stream)->seen |= UINT64_C(1) << functions[number].library;
	stream->sink->libraries_seen |= UINT64_C(1) << functions[number].library;
	memset(row, 0, sizeof(*row));
	row->start = start;
	row->end = end;
	row->thread = stream->thread;
	row->name = name;
	row->category = category;
	row->args = args;
}

void ws_convert_library(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_library *record = (const void *)rec;
	unsigned number = rec->small;
	uint64_t start, end;

	if (number >= WS_LIBRARY_CALLS || rec->value > WS_LIBRARY_MOST_KEPT ||
	    ws_rec_bytes(rec) != sizeof(*record) + rec->value * sizeof(*record->kept) ||
	    rec->value != count_words(functions[number].kept, functions[number].count) ||
	    record->end < record->start) {
		report_damage(stream);
		return;
	}
	stream->domain_state[WS_SLOT_LIBRARY] = (void *)(uintptr_t)record->start;
	start = ws_stream_time(stream, record->start);
	end = ws_stream_time(stream, record->end);
	if (ws_stream_wants(stream, start, end))
		write_call(stream, number, start, end,
			   make_call_json(stream, number, record->kept, rec->value));
}

/* Note the rank of a process that got none from a launcher. The only process of a job has no
 * rank. */
static void note_rank(struct ws_stream *stream, int64_t rank, int64_t world)
{
	if (stream->proc->ranked || world < 2 || world > INT32_MAX || rank < 0 || rank >= world)
		return;
	ws_rank_write_of_mpi(stream->sink, stream->process, (uint32_t)rank, (uint32_t)world);
	stream->proc->ranked = true;
}

void ws_convert_library_row(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_library_row *record = (const void *)rec;
	unsigned table = rec->small;
	struct ws_row_foreign row;

	if (table >= WS_LIBRARY_TABLES || !tables[table].kept || tables[table].is_spans ||
	    rec->value > WS_LIBRARY_MOST_KEPT ||
	    ws_rec_bytes(rec) != sizeof(*record) + rec->value * sizeof(*record->kept) ||
	    rec->value != count_words(tables[table].kept, tables[table].count)) {
		report_damage(stream);
		return;
	}
	row.start = ws_stream_time(stream, record->time);
	row.table = name_table(stream, table);
	row.row = make_json(stream, tables[table].kept, tables[table].count, record->kept);
	ws_writer_add(stream->writer, WS_TABLE_foreign, &row);
	if (table == WS_LIBRARY_TABLE_MPI_RANKS)
		note_rank(stream, record->kept[0], record->kept[1]);
}

/* ---- spans ---- */

static uint32_t number_track(struct ws_stream *stream, uint32_t handle)
{
	struct library_state *state = get_state(stream);
	uint32_t id = (uint32_t)ws_map_get(&state->tracks, handle, NULL);
	struct ws_row_track row = {0};

	if (id || !handle || state->track_count == MOST_TRACKS)
		return id;
	state->track_count++;
	row.id = id = ++stream->sink->tracks;
	row.process = stream->process;
	row.name = ws_stream_string(stream, handle);
	ws_writer_add(stream->writer, WS_TABLE_track, &row);
	ws_map_set(&state->tracks, handle, id);
	return id;
}

static uint64_t read_span_time(struct ws_stream *stream, uint64_t anchor, int64_t time)
{
	if (!anchor)
		return ws_stream_time(stream, (uint64_t)time);
	return ws_stream_time(stream, anchor) + (uint64_t)time;
}

void ws_convert_library_span(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_library_span *record = (const void *)rec;
	unsigned table = rec->small;
	struct ws_row_slice row = {0};

	if (table >= WS_LIBRARY_TABLES || !tables[table].is_spans ||
	    rec->value > WS_LIBRARY_MOST_KEPT ||
	    ws_rec_bytes(rec) != sizeof(*record) + rec->value * sizeof(*record->kept) ||
	    rec->value != count_words(tables[table].kept, tables[table].count)) {
		report_damage(stream);
		return;
	}
	stream->sink->libraries_seen |= UINT64_C(1) << tables[table].library;
	row.start = read_span_time(stream, record->anchor, record->start);
	row.end = read_span_time(stream, record->anchor, record->end);
	if (row.end < row.start || !ws_stream_wants(stream, row.start, row.end))
		return;
	row.thread = stream->thread;
	row.track = number_track(stream, record->track);
	row.name = ws_stream_string(stream, record->name);
	row.category = name_table(stream, table);
	row.args = make_json(stream, tables[table].kept, tables[table].count, record->kept);
	ws_writer_add(stream->writer, WS_TABLE_slice, &row);
}

/* ---- work that one call begins and another ends ---- */

static void begin_work(struct ws_stream *stream, struct library_state *state, unsigned library,
		       uint64_t number, uint64_t start)
{
	uint64_t index = ws_map_get(&state->begun[library], number, NULL);

	if (!index) {
		ws_grow(state->work, state->work_capacity, state->work_count + 1);
		index = ++state->work_count;
		ws_map_set(&state->begun[library], number, index);
	}
	state->work[index - 1] = (struct work){start, stream->thread};
}

/* Write an arrow from the call that began the work. */
static void end_work(struct ws_stream *stream, struct library_state *state, unsigned library,
		     uint64_t number, uint64_t start)
{
	uint64_t index = ws_map_get(&state->begun[library], number, NULL);
	struct work *work = index ? &state->work[index - 1] : NULL;
	struct ws_row_flow row = {0};

	if (!work || !work->thread)
		return;
	row.start = work->start;
	row.end = start;
	row.from_thread = work->thread;
	row.to_thread = stream->thread;
	row.name = intern_name(stream, &state->work_name, "request");
	row.category = ws_stream_intern(stream, libraries[library].title,
					strlen(libraries[library].title));
	if (ws_stream_wants(stream, row.start, row.end))
		ws_writer_add(stream->writer, WS_TABLE_flow, &row);
	work->thread = 0;
}

void ws_convert_library_work(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_library_work *record = (const void *)rec;
	unsigned library = rec->small & ~WS_LIBRARY_BEGINS;
	struct library_state *state = get_state(stream);
	uint64_t start;

	if (library >= WS_LIBRARIES || rec->value > WS_LIBRARY_MOST_ENDED ||
	    ws_rec_bytes(rec) != sizeof(*record) + rec->value * sizeof(*record->work)) {
		report_damage(stream);
		return;
	}
	start = ws_stream_time(stream, record->start);
	for (uint32_t i = 0; i < rec->value; i++) {
		if (rec->small & WS_LIBRARY_BEGINS)
			begin_work(stream, state, library, record->work[i], start);
		else
			end_work(stream, state, library, record->work[i], start);
	}
}

/* ---- calls that never returned ---- */

void ws_convert_library_open(struct ws_stream *stream)
{
	const struct ws_ring *ring = stream->ring;

	if (!ring || atomic_load_explicit(&ring->closed, memory_order_acquire))
		return;
	for (unsigned i = 0; i < WS_OPEN_LIBRARY_CALLS; i++) {
		struct ws_open_library_call call;
		uint64_t start;

		ws_copy_out(&call, &ring->library_calls[i], sizeof(call));
		/* Without the comparison, a kill between writing a record and removing its note
		 * would show the call twice. */
		if (!call.start || call.function >= WS_LIBRARY_CALLS ||
		    call.start == (uint64_t)(uintptr_t)stream->domain_state[WS_SLOT_LIBRARY])
			continue;
		start = ws_stream_time(stream, call.start);
		if (ws_stream_wants(stream, start, UINT64_MAX))
			write_call(stream, call.function, start, WS_NO_TIME, 0);
	}
}

/* ---- which libraries there are ---- */

uint64_t ws_library_seen(struct ws_proc *process)
{
	const struct library_state *state = process->slot[WS_SLOT_LIBRARY];

	return state ? state->seen : 0;
}

enum ws_wrapping ws_library_wraps(const struct ws_stream *stream, const char *name)
{
	uint64_t traced = stream->proc->drain->ops.libraries, seen = ws_library_seen(stream->proc);
	enum ws_wrapping wrapping = WS_NOT_WRAPPED;

	for (unsigned i = 0; traced && i < WS_LIBRARY_CALLS; i++) {
		if (!(traced >> functions[i].library & 1) || strcmp(functions[i].name, name) != 0)
			continue;
		if (seen >> functions[i].library & 1)
			return WS_IS_WRAPPED;
		wrapping = WS_MAY_BE_WRAPPED;
	}
	return wrapping;
}

const char *ws_library_title(unsigned library)
{
	return libraries[library].title;
}

void ws_library_walk_functions(void (*each)(void *context, unsigned library, const char *name),
			       void *context)
{
	for (unsigned i = 0; i < WS_LIBRARY_CALLS; i++)
		each(context, functions[i].library, functions[i].name);
}

const char *ws_library_files(unsigned library)
{
	return libraries[library].files;
}

const char *ws_library_hook(unsigned library)
{
	return libraries[library].name;
}

bool ws_library_is_layer(unsigned library)
{
	return libraries[library].is_layer;
}

uint64_t ws_find_traced_libraries(bool (*is_wanted)(void *context, const char *trace),
				  void *context)
{
	uint64_t found = 0;

	for (unsigned i = 0; i < WS_LIBRARIES; i++)
		if (is_wanted(context, libraries[i].trace))
			found |= UINT64_C(1) << i;
	return found;
}
