/*
 * from_python.c - converts what the Python hook records: code objects, samples with their frames,
 * spans of the GIL.
 *
 * Samples are rows of `sample` like those of perf events: the copied stack is unwound, and Python's
 * frames replace the interpreter's. They have the flags SIGNAL and CLOCK. How much time they stand
 * for follows from perf's context switches (perf_time.c), or else from the period of their clock.
 */
#include <stdlib.h>
#include <string.h>

#include "base/choose.h"
#include "base/mem.h"
#include "record/python_bpf.h"
#include "text/json.h"

#define CODES_MOST (1u << 20)
#define FRAMES_MOST (1u << 20) /* kept per ring */

/* Per ring: codes by number, frames by code and offset, and the frames that belong to the next
 * record. */
struct stream_state {
	struct ws_map codes;  /* number -> struct ws_py_known * */
	struct ws_map frames; /* number << 32 | offset + 1 -> frame id */
	struct ws_py_stack stack;
	bool fresh; /* `stack` has not been used */
};

static struct stream_state *state_of(struct ws_stream *stream)
{
	if (!stream->domain_state[WS_SLOT_PYTHON])
		stream->domain_state[WS_SLOT_PYTHON] = ws_calloc(1, sizeof(struct stream_state));
	return stream->domain_state[WS_SLOT_PYTHON];
}

void ws_py_known_free(struct ws_py_known *known)
{
	if (known) {
		free(known->name);
		free(known->file);
		free(known->table);
		free(known);
	}
}

static void write_gil(struct ws_stream *stream, uint64_t start, uint64_t end, uint8_t state)
{
	struct ws_row_gil row = {
		.start = start, .end = end, .thread = stream->thread, .state = state};

	if (ws_stream_wants(stream, start, end))
		ws_writer_add(stream->writer, WS_TABLE_gil, &row);
}

void ws_convert_python_stream_end(struct ws_stream *stream)
{
	struct stream_state *st = stream->domain_state[WS_SLOT_PYTHON];

	if (!st)
		return;
	for (size_t i = 0; i < st->codes.size; i++)
		if (st->codes.used[i])
			ws_py_known_free((struct ws_py_known *)(uintptr_t)st->codes.slots[i].value);
	ws_map_free(&st->codes);
	free(st->stack.frame);
	free(st->stack.entry);
	free(st->stack.code);
	ws_map_free(&st->frames);
	free(st);
	stream->domain_state[WS_SLOT_PYTHON] = NULL;
}

/* ---- the interpreter and its threads ---- */

static void free_proc(void *slot)
{
	struct ws_py_proc *process = slot, **at;

	if (!process)
		return;
	ws_python_close_of(process->py, process);
	ws_py_decode_end(process->py, process);
	for (at = &process->py->procs; *at; at = &(*at)->next)
		if (*at == process) {
			*at = process->next;
			break;
		}
	for (size_t i = 0; i < process->codes.size; i++)
		if (process->codes.used[i])
			ws_py_known_free(
				(struct ws_py_known *)(uintptr_t)process->codes.slots[i].value);
	ws_map_free(&process->outer);
	ws_map_free(&process->codes);
	ws_map_free(&process->frames);
	ws_map_free(&process->counts);
	ws_map_free(&process->looked);
	free(process);
}

struct ws_py_proc *ws_py_proc_of(struct ws_proc *proc)
{
	void **slot = ws_proc_slot(proc, WS_SLOT_PYTHON, free_proc);
	struct ws_python *py = proc->drain->python;
	struct ws_py_proc *process = *slot;

	if (process || !py)
		return process;
	process = ws_calloc(1, sizeof(*process));
	process->py = py;
	process->proc = proc;
	process->next = py->procs;
	py->procs = process;
	*slot = process;
	return process;
}

/* Why there is no program in the kernel. */
static const char *why_no_program(const struct ws_python *py)
{
	if (!ws_python_bpf_is_built())
		return "this build was made without clang";
	return strerror(py->bpf_error);
}

static void say_seen(struct ws_stream *stream, uint16_t version, uint32_t how)
{
	const struct ws_python *py = stream->proc->drain->python;

	if (!py->options.sampling)
		return;
	if (how == WS_PYTHON_LOOKED_INTO)
		ws_stream_diagnostic(stream, WS_INFO, "python",
				     "CPython %u.%u: frames are read in the kernel, with the "
				     "samples of the CPU.",
				     version >> 8, version & 255u);
	if (how == WS_PYTHON_SIGNALS && py->bpf_error)
		ws_stream_diagnostic(
			stream, WS_INFO, "python",
			"CPython %u.%u: frames are recorded by a signal to its threads; reading "
			"them in the kernel would cost "
			"less, which is not to be had here (%s; see 'warpsight doctor').",
			version >> 8, version & 255u, why_no_program(py));
	if (how == WS_PYTHON_HANDLER_TAKEN)
		ws_stream_diagnostic(stream, WS_INFO, "python",
				     "CPython %u.%u: SIGURG has a handler already, so frames are "
				     "read from outside, as samples of "
				     "their own (python_sample).",
				     version >> 8, version & 255u);
}

static void fill_proc(struct ws_py_proc *process, uint64_t runtime, const struct ws_rec *rec)
{
	process->runtime = runtime;
	process->layout.version = rec->small;
	process->signals = rec->value == WS_PYTHON_SIGNALS && !process->signals_failed;
	process->looked_into = rec->value == WS_PYTHON_LOOKED_INTO && process->py->bpf;
}

void ws_convert_python_seen(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_python_seen *record = (const void *)rec;
	struct ws_py_proc *process;

	if (ws_rec_bytes(rec) < sizeof(*record) || !(process = ws_py_proc_of(stream->proc)))
		return;
	fill_proc(process, record->runtime, rec);
	say_seen(stream, rec->small, rec->value);
}

void ws_convert_python_thread(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_python_thread *record = (const void *)rec;
	struct ws_py_proc *process;

	if (ws_rec_bytes(rec) < sizeof(*record) || !(process = ws_py_proc_of(stream->proc)))
		return;
	fill_proc(process, record->runtime, rec);
	if (ws_py_is_exact(process))
		ws_python_thread(process->py, process, stream->tid, record,
				 stream->clock->readings[stream->clock->n - 1].raw);
}

/* ---- code ---- */

static struct ws_py_known *find_code(const struct stream_state *st, uint32_t number)
{
	return (struct ws_py_known *)(uintptr_t)ws_map_get(&st->codes, number, NULL);
}

void ws_convert_python_code(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_python_code *record = (const void *)rec;
	uint32_t bytes = ws_rec_bytes(rec);
	struct stream_state *st;
	struct ws_py_known *known;

	if (bytes < sizeof(*record) ||
	    (uint64_t)record->name_len + record->file_len + record->here >
		    bytes - sizeof(*record) ||
	    record->number >= CODES_MOST || record->table_bytes > WS_PY_TABLE_MOST ||
	    record->here > record->table_bytes)
		return;
	st = state_of(stream);
	ws_py_known_free(find_code(st, record->number));
	known = ws_calloc(1, sizeof(*known));
	ws_map_set(&st->codes, record->number, (uintptr_t)known);
	known->name = ws_strndup(record->bytes, record->name_len);
	known->file = ws_strndup(record->bytes + record->name_len, record->file_len);
	known->first_line = record->first_line;
	known->version = rec->small;
	known->shim = record->shim;
	known->table_bytes = record->table_bytes;
	known->table_have = record->here;
	known->table = ws_malloc(record->here + 1); /* it grows as its pieces come */
	memcpy(known->table, record->bytes + record->name_len + record->file_len, record->here);
}

void ws_convert_python_table(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_python_table *record = (const void *)rec;
	struct stream_state *st = stream->domain_state[WS_SLOT_PYTHON];
	struct ws_py_known *known;

	if (!st || ws_rec_bytes(rec) < sizeof(*record) ||
	    record->here > ws_rec_bytes(rec) - sizeof(*record) ||
	    !(known = find_code(st, record->number)) || record->at != known->table_have ||
	    record->here > known->table_bytes - known->table_have)
		return;
	known->table = ws_realloc(known->table, known->table_have + record->here + 1);
	memcpy(known->table + record->at, record->bytes, record->here);
	known->table_have += record->here;
}

uint32_t ws_py_known_frame(struct ws_stackset *st, const struct ws_py_known *known, int32_t at)
{
	int32_t line = ws_py_find_line(known->version, known->first_line, known->table,
				       known->table_have, at);

	return ws_stackset_python_frame(st, ws_max(line, 0), known->name, known->file);
}

static uint32_t frame_id(struct ws_stream *stream, struct stream_state *st, uint64_t packed)
{
	const struct ws_py_known *known = find_code(st, (uint32_t)(packed >> 32));
	uint64_t key = packed & ~WS_PYTHON_ENTRY;
	uint32_t id;

	if (!known || known->shim)
		return 0;
	id = (uint32_t)ws_map_get(&st->frames, key, NULL);
	if (!id) {
		id = ws_py_known_frame(ws_stackset_of(stream->sink), known,
				       (int32_t)(key & 0x7fffffff) - 1);
		if (st->frames.count >= FRAMES_MOST)
			ws_map_free(&st->frames);
		ws_map_set(&st->frames, key, id);
	}
	return id;
}

void ws_convert_python_frames(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_python_frames *record = (const void *)rec;
	struct stream_state *st = state_of(stream);
	size_t had = st->stack.cap;

	if (ws_rec_bytes(rec) < sizeof(*record) ||
	    record->count > (ws_rec_bytes(rec) - sizeof(*record)) / sizeof(record->frame[0]))
		return;
	ws_grow(st->stack.frame, st->stack.cap, record->count + 1u);
	if (st->stack.cap != had) {
		st->stack.entry =
			ws_realloc(st->stack.entry, st->stack.cap * sizeof(*st->stack.entry));
		st->stack.code =
			ws_realloc(st->stack.code, st->stack.cap * sizeof(*st->stack.code));
	}
	for (uint32_t i = 0; i < record->count; i++) {
		st->stack.frame[i] = frame_id(stream, st, record->frame[i]);
		st->stack.entry[i] = record->frame[i] & WS_PYTHON_ENTRY;
		st->stack.code[i] = (uint32_t)(record->frame[i] >> 32);
	}
	st->stack.n = record->count;
	st->stack.truncated = record->truncated;
	st->fresh = true;
}

/* ---- samples ---- */

static struct ws_maps_process *maps_of(struct ws_stream *stream, struct ws_py_proc *process,
				       uint64_t time)
{
	struct ws_maps *maps = stream->proc->drain->ops.code->maps;
	struct ws_maps_process *maps_process = ws_maps_find_process(maps, stream->proc->host_pid);

	if (!maps_process && stream->proc->host_pid > 0 &&
	    !ws_maps_scan(maps, stream->proc->host_pid, 0, time))
		maps_process = ws_maps_find_process(maps, stream->proc->host_pid);
	if (maps_process && process && maps_process != process->bound) {
		ws_stackset_bind(ws_stackset_of(stream->sink), maps_process, stream->process);
		process->bound = maps_process;
	}
	return maps_process;
}

static size_t unwind(struct ws_stream *stream, struct ws_maps_process *maps,
		     const struct ws_rec_python_sample *record, uint64_t time,
		     struct ws_unwound_frame out[static WS_UNWIND_DEEPEST], unsigned *flags)
{
	struct ws_code *code = stream->proc->drain->ops.code;
	struct ws_stopped_thread stop = {.maps = maps,
					 .time = time,
					 .stack = record->stack,
					 .stack_size = record->stack_bytes};

	_Static_assert(WS_PYTHON_REGS == WS_REGS && WS_PYTHON_SP == WS_REG_SP,
		       "the hook numbers registers as the unwinder does");
	memcpy(stop.regs.values, record->regs, sizeof(stop.regs.values));
	stop.regs.known = (UINT64_C(1) << WS_REGS) - 1;
	stop.stack_at = stop.regs.values[WS_REG_SP];
	if (!ws_maps_find_mapping(maps, time, stop.regs.values[WS_REG_IP]) &&
	    ws_maps_is_worth_scanning(maps, time))
		ws_maps_scan(code->maps, stream->proc->host_pid, 0, time);
	return ws_unwind_stack(code->unwinder, &stop, WS_MODE_AUTO, out, WS_UNWIND_DEEPEST, flags);
}

/* Write the event that took the samples, once per report. */
#define EVENT_ROW 1000000u /* after those that perf numbers */
static void describe(struct ws_stream *stream)
{
	struct ws_python *py = stream->proc->drain->python;
	struct ws_row_perf_event row = {.id = EVENT_ROW,
					.type = 1 /* software */,
					.config = 1 /* task clock */,
					.frequency = py->options.frequency};

	if (stream->sink->python_described)
		return;
	stream->sink->python_described = true;
	row.name = ws_sink_string(stream->sink, "task-clock (Python)");
	ws_writer_add(stream->writer, WS_TABLE_perf_event, &row);
}

void ws_convert_python_sample(struct ws_stream *stream, const struct ws_rec *rec)
{
	static struct ws_unwound_frame places[WS_UNWIND_DEEPEST];
	const struct ws_rec_python_sample *record = (const void *)rec;
	struct stream_state *st = stream->domain_state[WS_SLOT_PYTHON];
	struct ws_python *py = stream->proc->drain->python;
	struct ws_py_proc *process = ws_py_proc_of(stream->proc);
	struct ws_row_sample row = {
		.cpu = WS_NO_U32, .state = WS_STATE_RUNNING, .event = EVENT_ROW};
	struct ws_maps_process *maps;
	unsigned flags = 0;
	size_t frames = 0;
	uint32_t outer;

	if (ws_rec_bytes(rec) < sizeof(*record) ||
	    record->stack_bytes > ws_rec_bytes(rec) - sizeof(*record) || !st || !st->fresh || !py ||
	    !process)
		return;
	row.start = ws_stream_time(stream, record->time);
	maps = maps_of(stream, process, row.start);
	if (maps)
		frames = unwind(stream, maps, record, row.start, places, &flags);
	row.thread = stream->thread;
	row.weight = row.time =
		record->weight ? record->weight : 1000000000u / py->options.frequency;
	row.callers = ws_python_merge(ws_stackset_of(stream->sink), places, frames, &st->stack,
				      flags != 0, &row.frame);
	row.gil = (uint8_t)(record->gil <= WS_GIL_WAITS ? record->gil : WS_GIL_UNKNOWN);
	row.cpu = record->cpu;
	/* A native stack that was cut short is complete again when Python's is: all that is missing
	 * of it are frames of the interpreter. */
	row.flags = (uint8_t)(WS_SAMPLE_CLOCK | WS_SAMPLE_SIGNAL |
			      (st->stack.truncated ? WS_SAMPLE_TRUNCATED : 0) |
			      (st->stack.n ? 0 : flags));
	ws_python_remember(py,
			   &(struct ws_python_sampled){.sink = stream->sink,
						       .thread = stream->thread,
						       .time = row.start,
						       .places = places,
						       .n = frames,
						       .cut = flags != 0},
			   &st->stack);
	st->fresh = false;
	if (!ws_stream_wants(stream, row.start, row.start))
		return;
	describe(stream);
	outer = (uint32_t)ws_map_get(&process->outer, stream->tid, NULL);
	if (!outer || !ws_perf_hold_sample(stream->proc->drain->perf, outer, stream->sink, &row))
		ws_writer_add(stream->writer, WS_TABLE_sample, &row);
	ws_map_set(&process->counts, stream->tid,
		   ws_map_get(&process->counts, stream->tid, NULL) + 1);
}

const struct ws_py_stack *ws_python_take_frames(struct ws_stream *stream)
{
	struct stream_state *st = stream->domain_state[WS_SLOT_PYTHON];

	if (!st || !st->fresh)
		return NULL;
	st->fresh = false;
	return &st->stack;
}

/* ---- the GIL ---- */

void ws_convert_gil(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_gil *record = (const void *)rec;

	if (ws_rec_bytes(rec) < sizeof(*record) || record->end < record->start ||
	    (rec->small != WS_GIL_HOLDS && rec->small != WS_GIL_WAITS))
		return;
	write_gil(stream, ws_stream_time(stream, record->start),
		  ws_stream_time(stream, record->end), (uint8_t)rec->small);
}

/* ---- named functions ---- */

static void put_json_member(struct ws_text *out, const char *name, const char *text, size_t length)
{
	ws_text_printf(out, "\"%s\":\"", name);
	ws_put_escaped_json(out, text, length);
	ws_text_puts(out, "\"");
}

/* The members of a JSON object that say where a function is defined: `place` is its
 * "LINE<tab>MODULE<tab>FILE". */
static void put_place(struct ws_text *out, const char *place)
{
	const char *module = strchr(place, '\t'), *file = module ? strchr(module + 1, '\t') : NULL;

	if (!file)
		return;
	if (out->len)
		ws_text_puts(out, ",");
	put_json_member(out, "module", module + 1, (size_t)(file - module - 1));
	ws_text_puts(out, ",");
	put_json_member(out, "file", file + 1, strlen(file + 1));
	ws_text_printf(out, ",\"line\":%d", atoi(place));
}

/* What a range says of its function, as a JSON object: what the user's list says of it, and where
 * it is defined. 0 for nothing. */
static uint32_t make_range_args(struct ws_stream *stream, const struct ws_python_function *function,
				uint32_t handle)
{
	size_t length;
	const char *place = handle ? ws_stream_string_bytes(stream, handle, &length) : NULL;
	struct ws_text members = {0};
	uint32_t id = 0;
	char *object;

	if (function->args) /* without its braces */
		ws_text_add(&members, function->args + 1, strlen(function->args) - 2);
	if (place)
		put_place(&members, place);
	if (members.len) {
		object = ws_format("{%s}", members.text);
		id = ws_sink_string(stream->sink, object);
		free(object);
	}
	ws_text_free(&members);
	return id;
}

void ws_convert_python_range(struct ws_stream *stream, const struct ws_rec *rec)
{
	const struct ws_rec_python_range *record = (const void *)rec;
	struct ws_python *py = stream->proc->drain->python;
	struct ws_row_slice row = {.thread = stream->thread, .flags = WS_SLICE_PYTHON};
	struct ws_python_function *function;

	if (ws_rec_bytes(rec) < sizeof(*record) || record->end < record->start || !py ||
	    rec->value >= py->options.function_n)
		return;
	function = &py->options.functions[rec->value];
	function->seen = true;
	row.start = ws_stream_time(stream, record->start);
	row.end = ws_stream_time(stream, record->end);
	if (!ws_stream_wants(stream, row.start, row.end))
		return;
	row.name = ws_sink_string(stream->sink, function->name);
	row.category =
		ws_sink_string(stream->sink, ws_text_or(function->category, function->module));
	row.args = make_range_args(stream, function, record->place);
	ws_writer_add(stream->writer, WS_TABLE_slice, &row);
}
