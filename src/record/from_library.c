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
#include "record/perf.h"
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

struct library_state {			      /* of a process */
	uint32_t durations[WS_LIBRARY_CALLS]; /* of calls in bunches, ns: a running mean */
	uint32_t names[WS_LIBRARY_CALLS], tables[WS_LIBRARY_TABLES]; /* string ids; 0: not yet */
	struct cached_text cached[CACHED_CALLS];
	struct ws_map begun[WS_LIBRARIES]; /* number of the work -> index in `work` + 1 */
	struct work *work;
	size_t work_count, work_capacity;
	uint32_t work_name;
	struct ws_map tracks; /* handle of the name -> id of the track */
	unsigned track_count;
	uint64_t seen;		    /* libraries with calls: bits */
	const struct ws_sink *told; /* that calls were collected in bunches */
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

/* What the rows of calls of a function with the same values have in common. */
static struct ws_row_slice make_row(struct ws_stream *stream, unsigned number, uint32_t args)
{
	struct library_state *state = get_state(stream);

	state->seen |= UINT64_C(1) << functions[number].library;
	stream->sink->libraries_seen |= UINT64_C(1) << functions[number].library;
	return (struct ws_row_slice){
		.thread = stream->thread,
		.category = name_table(stream, functions[number].table),
		.name = intern_name(stream, &state->names[number], functions[number].name),
		.args = args,
	};
}

static void write_row(struct ws_stream *stream, const struct ws_row_slice *alike, uint64_t start,
		      uint64_t end)
{
	struct ws_row_slice *row =
		ws_writer_row(stream->writer, WS_TABLE_slice, stream->stage[WS_TABLE_slice]);

	*row = *alike;
	row->start = start;
	row->end = end;
}

static void write_call(struct ws_stream *stream, unsigned number, uint64_t start, uint64_t end,
		       uint32_t args)
{
	struct ws_row_slice alike = make_row(stream, number, args);

	write_row(stream, &alike, start, end);
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

/* ---- calls that were collected in bunches ---- */

struct shape {
	struct ws_row_slice alike;
	unsigned number; /* of the function */
	uint64_t likely; /* duration, ns */
};

/* A bunch whose calls are still to get rows. */
struct bunch {
	uint64_t start, end, first_end, last_start; /* session ns; last_start 0: not known */
	unsigned calls, done;			    /* `done` of them have rows */
	const uint8_t *call;
	struct shape shapes[WS_BUNCH_SHAPES + 1]; /* and that of a pending call */
};

/* Read the shapes; false where they are damaged. */
static bool read_shapes(struct ws_stream *stream, struct bunch *bunch, const int64_t *word,
			unsigned words)
{
	unsigned shapes = 0;

	for (unsigned at = 0; at < words; shapes++) {
		uint64_t number = (uint64_t)word[at] >> 32, count = (uint32_t)word[at];
		struct shape *shape = &bunch->shapes[shapes];

		if (shapes == WS_COUNT(bunch->shapes) || number >= WS_LIBRARY_CALLS ||
		    count != count_words(functions[number].kept, functions[number].count) ||
		    count > words - at - 1)
			return false;
		shape->number = (unsigned)number;
		shape->alike = make_row(stream, shape->number,
					make_call_json(stream, shape->number, word + at + 1,
						       (unsigned)count));
		at += 1 + (unsigned)count;
	}
	for (unsigned i = 0; i < bunch->calls; i++)
		if (bunch->call[i] >= shapes)
			return false;
	return bunch->calls > 0;
}

static void write_bunch_call(struct ws_stream *stream, const struct bunch *bunch, unsigned i,
			     uint64_t start, uint64_t end)
{
	if (ws_stream_wants(stream, start, end))
		write_row(stream, &bunch->shapes[bunch->call[i]].alike, start, end);
}

/*
 * Write calls from `from` to before `to`, one after the other between two times: each as long as
 * calls of its function usually are, and what is left evenly in front of each. Nothing overlaps.
 */
static void spread_calls(struct ws_stream *stream, const struct bunch *bunch, unsigned from,
			 unsigned to, uint64_t start, uint64_t end)
{
	double span = (double)(end - start), sum = 0, gap, scale = 1, at = 0;

	for (unsigned i = from; i < to; i++)
		sum += (double)bunch->shapes[bunch->call[i]].likely;
	if (sum > span * 15 / 16)
		scale = span * 15 / 16 / sum;
	gap = (span - sum * scale) / (to - from);
	for (unsigned i = from; i < to; i++) {
		uint64_t begin = start + (uint64_t)(at + gap);

		at += gap + scale * (double)bunch->shapes[bunch->call[i]].likely;
		write_bunch_call(stream, bunch, i, begin, i + 1 == to ? end : start + (uint64_t)at);
	}
}

/* Learn how long the function of the first call takes. */
static void note_duration(struct library_state *state, const struct bunch *bunch)
{
	uint32_t *mean = &state->durations[bunch->shapes[bunch->call[0]].number];
	int64_t took = (int64_t)ws_min(bunch->first_end - bunch->start, UINT64_C(1) << 30);

	*mean = (uint32_t)ws_max(*mean ? *mean + (took - (int64_t)*mean) / 8 : took, INT64_C(1));
}

static void write_bunch(struct ws_stream *stream, struct bunch *bunch)
{
	struct library_state *state = get_state(stream);
	uint64_t start = bunch->start, end = bunch->last_start ? bunch->last_start : bunch->end;
	unsigned from = bunch->done, to = bunch->calls - (bunch->last_start != 0);

	note_duration(state, bunch);
	for (unsigned i = 0; i < WS_COUNT(bunch->shapes); i++) {
		uint64_t mean = state->durations[bunch->shapes[i].number];

		bunch->shapes[i].likely = mean ? mean : (end - start) / bunch->calls / 2;
	}
	if (!from) {
		write_bunch_call(stream, bunch, from++, bunch->start, bunch->first_end);
		start = bunch->first_end;
	} else {
		start = ws_min(stream->bunch_until, end);
	}
	if (from < to)
		spread_calls(stream, bunch, from, to, start, end);
	if (from <= to && to < bunch->calls)
		write_bunch_call(stream, bunch, to, bunch->last_start, bunch->end);
}

static void say_dense(struct ws_stream *stream)
{
	if (ws_likely(stream->sink == get_state(stream)->told))
		return;
	get_state(stream)->told = stream->sink;
	ws_stream_diagnostic(
		stream, WS_INFO, "libraries",
		"Calls of MPI followed one another so fast that reading the clock twice for each "
		"would have slowed the program: of bunches of up to %u calls, only some times were "
		"measured, and the others are spread between these. Calls, their order, bytes, "
		"peers and tags are exact. --lossless measures all times.",
		WS_BUNCH_CALLS);
}

void ws_convert_library_bunch(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_library_bunch *record = (const void *)rec;
	struct bunch bunch = {.calls = rec->small, .call = record->call};

	if (rec->small > WS_BUNCH_CALLS || rec->value > WS_BUNCH_WORDS ||
	    ws_rec_bytes(rec) != sizeof(*record) + rec->value * sizeof(*record->word) ||
	    record->first_end < record->start || record->end < record->first_end ||
	    (record->last_start && (record->last_start < record->first_end ||
				    record->last_start > record->end || rec->small < 2)) ||
	    !read_shapes(stream, &bunch, record->word, rec->value)) {
		report_damage(stream);
		return;
	}
	stream->domain_state[WS_SLOT_LIBRARY] = (void *)(uintptr_t)record->start;
	bunch.done = record->start == stream->bunch_start ? stream->bunch_calls : 0;
	bunch.start = ws_stream_time(stream, record->start);
	bunch.end = ws_stream_time(stream, record->end);
	bunch.first_end = ws_stream_time(stream, record->first_end);
	if (record->last_start)
		bunch.last_start = ws_stream_time(stream, record->last_start);
	say_dense(stream);
	write_bunch(stream, &bunch);
}

/* Copy the words of an open bunch and, with a shape of its own, its pending call; returns how many
 * there are, 0 where they are damaged. */
static unsigned copy_words(struct ws_library_bunch *copy, struct bunch *bunch, int64_t *word)
{
	uint32_t pending = atomic_load_explicit(&copy->pending, memory_order_relaxed);

	bunch->calls = atomic_load_explicit(&copy->calls, memory_order_relaxed);
	/* otherwise it has been counted, just before the thread was killed */
	pending = pending >> WS_PENDING_SHIFT == bunch->calls ? (uint8_t)pending : 0;
	if (bunch->calls >= WS_BUNCH_CALLS || copy->words > WS_BUNCH_WORDS ||
	    copy->shapes > WS_BUNCH_SHAPES || pending > WS_SHAPE_WORDS)
		return 0;
	memcpy(word, copy->word, copy->words * sizeof(*word));
	if (pending) {
		copy->call[bunch->calls++] = (uint8_t)copy->shapes;
		memcpy(word + copy->words, copy->pending_word, pending * sizeof(*word));
	}
	return copy->words + pending;
}

/*
 * Write rows for the calls of a bunch that its thread has not written yet: it has been killed, or
 * the collection has ended. Returns when the last of them ended, in session ns, by what is known;
 * 0 without any.
 */
static uint64_t write_open_bunch(struct ws_stream *stream)
{
	struct ws_library_bunch copy;
	struct bunch bunch = {.call = copy.call};
	uint64_t now = stream->clock->readings[stream->clock->n - 1].ticks;
	int64_t word[WS_BUNCH_WORDS + WS_SHAPE_WORDS];
	unsigned words;

	ws_copy_out(&copy, &stream->ring->bunch, sizeof(copy));
	if (!atomic_load_explicit(&copy.calls, memory_order_relaxed) ||
	    copy.start == (uint64_t)(uintptr_t)stream->domain_state[WS_SLOT_LIBRARY])
		return 0;
	words = copy_words(&copy, &bunch, word);
	if (!words || copy.first_end < copy.start || copy.first_end > now ||
	    !read_shapes(stream, &bunch, word, words)) {
		report_damage(stream);
		return 0;
	}
	if (copy.start == stream->bunch_start)
		bunch.done = stream->bunch_calls;
	now = ws_min(now,
		     ws_max(copy.start + ws_min(copy.period, now) * bunch.calls, copy.first_end));
	bunch.start = ws_stream_time(stream, copy.start);
	bunch.first_end = ws_stream_time(stream, copy.first_end);
	bunch.end = ws_stream_time(stream, now);
	say_dense(stream);
	write_bunch(stream, &bunch);
	stream->bunch_start = copy.start;
	stream->bunch_calls = bunch.calls;
	stream->bunch_until = bunch.end;
	return bunch.end;
}

/* ---- other rows ---- */

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
	uint64_t after;

	if (!ring)
		return;
	after = write_open_bunch(stream);
	if (atomic_load_explicit(&ring->closed, memory_order_acquire))
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
		/* A call that would have been collected has the start of its bunch. */
		start = ws_stream_time(stream, call.start);
		if (after && call.start == stream->bunch_start)
			start = after;
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
