/*
 * from_stack.c - converts the hooks' copied stacks and address maps into rows of `frame` and
 * `stack`.
 *
 * The innermost frames are the hooks' own, and CUPTI's. They are left out, up to the last frame in
 * one of their libraries, so that a stack begins where the program made the call, or with the
 * driver's own frames. Addresses are looked up in the process's map: the one kept up to date by
 * perf's records if there are any, else /proc/PID/maps, else the one that the process wrote before
 * its first stack.
 */
#include "record/from_stack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/choose.h"
#include "base/mem.h"
#include "ring/sample_record.h"
#include "ring/stack_record.h"
#include "record/code.h"
#include "record/perf.h"
#include "record/python_private.h"
#include "record/proc.h"
#include "symbols/symbolise.h"

/* more than the hooks, and CUPTI when it calls them, ever have on the stack \ */
#define HOOK_FRAMES 24

struct stack_proc {	     /* of a process */
	struct ws_map cuda;  /* correlation -> stack */
	struct ws_text maps; /* so far */
	struct ws_map
		places;	     /* code address -> its function's string id, and its library's << 32 */
	struct ws_map texts; /* string id of a function -> its name (char *) */
	bool any_cuda;
};

struct stack_stream { /* of a ring */
	uint64_t key;
	uint32_t stack;	  /* of the call with this key, or below the innermost frame of a sample */
	uint32_t leaf;	  /* of a sample: the innermost frame */
	uint8_t flags;	  /* of a sample: enum ws_sample_flags */
	uint32_t samples; /* so far */
	bool sampled;
	uint32_t last_frame, last_callers; /* of its last sample */
	uint32_t have;			   /* bytes of a stack of which pieces are still to come */
	char *bytes;
};

static void free_function_texts(struct ws_map *texts)
{
	for (size_t i = 0; i < texts->size; i++)
		if (texts->used[i])
			free((char *)(uintptr_t)texts->slots[i].value);
	ws_map_free(texts);
}

static void free_stack_process(void *arg)
{
	struct stack_proc *process = arg;

	free_function_texts(&process->texts);
	ws_map_free(&process->cuda);
	ws_map_free(&process->places);
	ws_text_free(&process->maps);
	free(process);
}

static struct stack_proc *find_stack_process(struct ws_stream *stream)
{
	void **slot = ws_proc_slot(stream->proc, WS_SLOT_STACK, free_stack_process);

	if (!*slot)
		*slot = ws_calloc(1, sizeof(struct stack_proc));
	return *slot;
}

static struct stack_stream *find_stack_stream(struct ws_stream *stream)
{
	if (!stream->domain_state[WS_SLOT_STACK])
		stream->domain_state[WS_SLOT_STACK] = ws_calloc(1, sizeof(struct stack_stream));
	return stream->domain_state[WS_SLOT_STACK];
}

void ws_convert_stack_stream_end(struct ws_stream *stream)
{
	struct stack_stream *t = stream->domain_state[WS_SLOT_STACK];

	if (t)
		free(t->bytes);
	free(t);
	stream->domain_state[WS_SLOT_STACK] = NULL;
}

/* ---- address maps ---- */

/* The number by which the maps know the process: its pid as seen from here or, where that is
 * unknown, a number that no process has. */
static int make_stack_key(const struct ws_proc *process)
{
	return process->host_pid > 0 ? process->host_pid : -(int)(process->id + 1);
}

static struct ws_maps_process *find_maps(struct ws_stream *stream, uint64_t time)
{
	struct ws_code *code = stream->proc->drain->ops.code;
	int key = make_stack_key(stream->proc);
	struct ws_maps_process *process = ws_maps_find_process(code->maps, key);

	if (!process && key > 0 && !ws_maps_scan(code->maps, key, 0, time))
		process = ws_maps_find_process(code->maps, key);
	if (process)
		ws_stackset_bind(ws_stackset_of(stream->sink), process, stream->process);
	return process;
}

void ws_convert_maps(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_maps *record = (const void *)rec;
	struct stack_proc *process = find_stack_process(stream);
	struct ws_code *code = stream->proc->drain->ops.code;

	if (ws_rec_bytes(rec) < sizeof(*record) ||
	    record->bytes > ws_rec_bytes(rec) - sizeof(*record) || process->maps.len > (8u << 20))
		return;
	ws_text_add(&process->maps, record->text, record->bytes);
	if (rec->small)
		return;
	if (process->maps.len && code) {
		uint64_t time = ws_stream_time(stream, record->time);

		ws_maps_scan_text(code->maps, make_stack_key(stream->proc),
				  record->changed ? time : 0, time, process->maps.text,
				  process->maps.len);
	}
	ws_text_free(&process->maps);
	memset(&process->maps, 0, sizeof(process->maps));
}

/* ---- stacks ---- */

static bool is_hook(const struct ws_module *module)
{
	const char *name = module ? strrchr(module->path, '/') : NULL;

	return name && (!strncmp(name, "/libwarpsight-", 14) || !strncmp(name, "/libcupti.so", 12));
}

static void copy_registers(const struct ws_rec_stack *record, struct ws_regs *regs)
{
	static const uint8_t number[WS_STACK_REGS] = WS_STACK_REG_NUMBERS;

	memset(regs, 0, sizeof(*regs));
	for (unsigned i = 0; i < WS_STACK_REGS; i++) {
		regs->values[number[i]] = record->regs[i];
		regs->known |= UINT64_C(1) << number[i];
	}
}

/* The frames of a record. */
struct unwound_stack {
	struct ws_unwound_frame *places; /* room for `most` */
	size_t most;
	unsigned flags; /* why it is not complete */
};

/* How many frames were found. `bytes`: the `n` bytes of the stack that the record holds. */
static size_t unwind_record(struct ws_stream *stream, const struct ws_rec_stack *record,
			    const char *bytes, uint32_t n, struct unwound_stack *out)
{
	struct ws_code *code = stream->proc->drain->ops.code;
	struct ws_stopped_thread stop = {.time = ws_stream_time(stream, record->time),
					 .stack = (const uint8_t *)bytes,
					 .stack_size = n};
	size_t got = 0;

	out->flags = 0;
	stop.maps = find_maps(stream, stop.time);
	copy_registers(record, &stop.regs);
	stop.stack_at = stop.regs.values[WS_REG_SP];
	if (stop.maps)
		got = ws_unwind_stack(code->unwinder, &stop, WS_MODE_AUTO, out->places, out->most,
				      &out->flags);
	/* Read the map again, for a library that came since, while the process can be asked. */
	if (stop.maps && (out->flags & WS_SAMPLE_BROKEN) && make_stack_key(stream->proc) > 0 &&
	    ws_maps_is_worth_scanning(stop.maps, stop.time) &&
	    !ws_maps_scan(code->maps, make_stack_key(stream->proc), stop.time, stop.time))
		got = ws_unwind_stack(code->unwinder, &stop, WS_MODE_AUTO, out->places, out->most,
				      &out->flags);
	return got;
}

static uint32_t intern_stack(struct ws_stream *stream, const struct ws_rec_stack *record,
			     const char *bytes, uint32_t n, bool of_cuda)
{
	struct ws_unwound_frame places[WS_STACK_DEEPEST + HOOK_FRAMES];
	const struct ws_py_stack *python = ws_python_take_frames(stream);
	uint32_t depth = of_cuda ? WS_CUDA_STACK_DEPTH : stream->proc->drain->ops.stack_depth,
		 skip = 0;
	struct unwound_stack unwound = {.places = places};
	size_t got;

	depth = ws_min(depth, WS_STACK_DEEPEST);
	if (!depth)
		return WS_NO_U32;
	unwound.most = depth + HOOK_FRAMES;
	got = unwind_record(stream, record, bytes, n, &unwound);
	for (uint32_t i = 0; i < got && i < HOOK_FRAMES; i++)
		if (is_hook(places[i].module))
			skip = i + 1;
	if (skip >= got)
		return WS_NO_U32;
	got -= skip;
	got = ws_min(got, depth);
	if (python) {
		uint32_t leaf,
			below = ws_python_merge(ws_stackset_of(stream->sink), places + skip, got,
						python, unwound.flags || got == depth, &leaf);

		return ws_stackset_push(ws_stackset_of(stream->sink), below, leaf);
	}
	return ws_stackset_places(ws_stackset_of(stream->sink), places + skip, got, NULL);
}

/* A sample is taken where a signal arrived, so none of its frames is ours. */
static uint32_t add_sample_stack(struct ws_stream *stream, const struct ws_rec_stack *record,
				 const char *bytes, uint32_t n, struct stack_stream *t)
{
	struct ws_unwound_frame places[WS_STACK_DEEPEST];
	struct unwound_stack unwound = {.places = places, .most = WS_STACK_DEEPEST};
	size_t got = unwind_record(stream, record, bytes, n, &unwound);

	t->flags = (uint8_t)unwound.flags;
	return ws_stackset_places(ws_stackset_of(stream->sink), places, got, &t->leaf);
}

/* The time that a thread ran after its last sample counts towards that sample's stack. */
static void take_last_stack(struct ws_stream *stream, const struct stack_stream *t,
			    struct ws_row_sample *row)
{
	row->flags |= WS_SAMPLE_REST;
	row->frame = t && t->sampled ? t->last_frame
				     : ws_stackset_unsampled(ws_stackset_of(stream->sink));
	row->callers = t && t->sampled ? t->last_callers : 0;
}

void ws_convert_sample(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_sample *record = (const void *)rec;
	struct stack_stream *t = stream->domain_state[WS_SLOT_STACK];
	struct ws_row_sample row = {.state = WS_STATE_RUNNING,
				    .cpu = rec->value,
				    .event = 1,
				    .flags = WS_SAMPLE_CLOCK | WS_SAMPLE_SIGNAL};

	if (ws_rec_bytes(rec) < sizeof(*record))
		return;
	row.start = ws_stream_time(stream, record->time);
	row.thread = stream->thread;
	row.weight = row.time = record->weight;
	if (rec->small & WS_SAMPLE_LEFT) {
		take_last_stack(stream, t, &row);
	} else if (t && t->key == record->time) {
		row.frame = t->leaf;
		row.callers =
			ws_perf_wants_stack(stream->proc->drain->perf, t->samples++) ? t->stack : 0;
		row.flags |= t->flags;
		t->key = 0;
		t->sampled = true;
		t->last_frame = row.frame;
		t->last_callers = row.callers;
	}
	if (!ws_stream_wants(stream, row.start, row.start))
		return;
	ws_perf_describe(stream->proc->drain->perf, stream->sink);
	*(struct ws_row_sample *)ws_writer_row(stream->writer, WS_TABLE_sample,
					       stream->stage[WS_TABLE_sample]) = row;
}

void ws_convert_stack(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_stack *record = (const void *)rec;
	struct stack_stream *t;
	uint32_t of = rec->small & 0xff;

	if (ws_rec_bytes(rec) < sizeof(*record) ||
	    record->bytes > ws_rec_bytes(rec) - sizeof(*record) || !stream->proc->drain->ops.code)
		return;
	t = find_stack_stream(stream);
	if (record->offset != t->have || record->offset + record->bytes > WS_STACK_MOST) {
		t->have = 0; /* the pieces before were lost */
		if (record->offset)
			return;
	}
	if (!(rec->small & WS_STACK_LAST) || t->have) {
		if (!t->bytes)
			t->bytes = ws_malloc(WS_STACK_MOST);
		memcpy(t->bytes + t->have, record->stack, record->bytes);
		t->have += record->bytes;
	}
	if (!(rec->small & WS_STACK_LAST))
		return;
	if (of == WS_STACK_OF_SAMPLE)
		t->stack = add_sample_stack(stream, record, t->have ? t->bytes : record->stack,
					    ws_or(t->have, record->bytes), t);
	else
		t->stack = intern_stack(stream, record, t->have ? t->bytes : record->stack,
					ws_or(t->have, record->bytes), of == WS_STACK_OF_CUDA);
	t->key = record->key;
	t->have = 0;
	if (of == WS_STACK_OF_CUDA) {
		struct stack_proc *process = find_stack_process(stream);

		process->any_cuda = true;
		if (t->stack != WS_NO_U32 &&
		    process->cuda.count <
			    1u << 20) /* calls whose own record was lost leave their stack behind */
			ws_map_set(&process->cuda, record->key, t->stack);
		t->key = 0;
	}
}

uint32_t ws_stack_of_call(struct ws_stream *stream, uint64_t start)
{
	struct stack_stream *t = stream->domain_state[WS_SLOT_STACK];

	if (!t || !start || t->key != start)
		return WS_NO_U32;
	t->key = 0;
	return t->stack;
}

uint32_t ws_stack_of_correlation(struct ws_stream *stream, uint32_t correlation)
{
	struct stack_proc *process = find_stack_process(stream);
	uint64_t stack;

	return process->any_cuda && ws_map_remove(&process->cuda, correlation, &stack)
		       ? (uint32_t)stack
		       : WS_NO_U32;
}

/* ---- single addresses ---- */

enum { PLACES_NAMED = 512 }; /* in a process: each reads a symbol table */

struct place {
	struct ws_stream *stream;
	uint32_t name;
};

static void find_named_place(void *ctx, const struct ws_symbol *symbol)
{
	struct place *place = ctx;
	struct ws_map *texts = &find_stack_process(place->stream)->texts;

	if (!symbol->name)
		return;
	place->name = ws_stream_intern(place->stream, symbol->name, strlen(symbol->name));
	if (!ws_map_get(texts, place->name, NULL))
		ws_map_set(texts, place->name, (uint64_t)(uintptr_t)ws_strdup(symbol->name));
}

const char *ws_stack_function_text(struct ws_stream *stream, uint32_t name)
{
	const char *text =
		(const char *)(uintptr_t)ws_map_get(&find_stack_process(stream)->texts, name, NULL);

	return ws_text_or(text, "");
}

static struct ws_mapping *find_mapping(struct ws_stream *stream, uint64_t time, uint64_t address)
{
	struct ws_maps_process *maps =
		stream->proc->drain->ops.code ? find_maps(stream, time) : NULL;
	struct ws_mapping *mapping = maps ? ws_maps_find_mapping(maps, time, address) : NULL;

	if (!mapping && maps && make_stack_key(stream->proc) > 0 &&
	    ws_maps_is_worth_scanning(maps, time) &&
	    !ws_maps_scan(stream->proc->drain->ops.code->maps, make_stack_key(stream->proc), time,
			  time))
		mapping = ws_maps_find_mapping(maps, time, address);
	return mapping;
}

uint32_t ws_stack_function(struct ws_stream *stream, uint64_t time, uint64_t address,
			   uint32_t *library)
{
	struct stack_proc *process = find_stack_process(stream);
	struct place place = {stream, 0};
	struct ws_mapping *mapping = NULL;
	char hex[24];
	bool known;
	uint64_t v = ws_map_get(&process->places, address, &known);

	if (known) {
		*library = (uint32_t)(v >> 32);
		return (uint32_t)v;
	}
	*library = 0;
	if (process->places.count < PLACES_NAMED)
		mapping = find_mapping(stream, time, address);
	if (mapping) {
		struct ws_wanted wanted = {.module = mapping->module,
					   .address = address - mapping->shift,
					   .kind = WS_FRAME_USER};
		struct ws_symbol_opts opts = {0};
		struct ws_symbol_receiver receiver = {.emit = find_named_place, .ctx = &place};
		struct ws_symbol_result result = {0};

		*library = ws_stream_intern(stream, mapping->module->path,
					    strlen(mapping->module->path));
		ws_symbolise(&wanted, 1, &opts, &receiver, &result);
	}
	snprintf(hex, sizeof(hex), "0x%llx", (unsigned long long)address);
	if (!place.name)
		place.name = ws_stream_intern(stream, hex, strlen(hex));
	if (process->places.count < PLACES_NAMED)
		ws_map_set(&process->places, address, (uint64_t)*library << 32 | place.name);
	return place.name;
}
