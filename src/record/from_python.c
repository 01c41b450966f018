/*
 * from_python.c - converts what the Python hook records: code objects, samples with their frames,
 * spans of the GIL.
 *
 * Samples are rows of `sample` like those of perf events: the copied stack is unwound and Python's
 * frames are put in place of the interpreter's. They carry the flags SIGNAL and CLOCK; their weight
 * is the period of the thread's clock.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "record/python_bpf.h"

#define CODES_MOST (1u << 20)

/* Per ring: codes by number, frames by code and offset, and the frames that the next record refers
 * to. */
struct stream_state {
	struct ws_py_known **code;
	size_t code_cap;
	struct ws_map frames; /* number << 32 | offset + 1 -> frame id */
	struct ws_py_stack stack;
	bool fresh; /* `stack` has not been used */
};

static struct stream_state *state_of(struct ws_stream *s)
{
	if (!s->domain_state[WS_SLOT_PYTHON])
		s->domain_state[WS_SLOT_PYTHON] = ws_calloc(1, sizeof(struct stream_state));
	return s->domain_state[WS_SLOT_PYTHON];
}

void ws_py_known_free(struct ws_py_known *k)
{
	if (k) {
		free(k->name);
		free(k->file);
		free(k->table);
		free(k);
	}
}

static void write_gil(struct ws_stream *s, uint64_t start, uint64_t end, uint8_t state)
{
	struct ws_row_gil row = {.start = start, .end = end, .thread = s->thread, .state = state};

	ws_writer_add(s->writer, WS_TABLE_gil, &row);
}

void ws_convert_python_stream_end(struct ws_stream *s)
{
	struct stream_state *st = s->domain_state[WS_SLOT_PYTHON];

	if (!st)
		return;
	for (size_t i = 0; i < st->code_cap; i++)
		ws_py_known_free(st->code[i]);
	free(st->code);
	free(st->stack.frame);
	free(st->stack.entry);
	free(st->stack.code);
	ws_map_free(&st->frames);
	free(st);
	s->domain_state[WS_SLOT_PYTHON] = NULL;
}

/* ---- the interpreter and its threads ---- */

static void free_proc(void *slot)
{
	struct ws_py_proc *p = slot, **at;

	if (!p)
		return;
	ws_python_close_of(p->py, p);
	ws_py_told_end(p->py, p);
	for (at = &p->py->procs; *at; at = &(*at)->next)
		if (*at == p) {
			*at = p->next;
			break;
		}
	for (size_t i = 0; i < p->codes.size; i++)
		if (p->codes.used[i])
			ws_py_known_free((struct ws_py_known *)(uintptr_t)p->codes.slots[i].value);
	ws_map_free(&p->codes);
	ws_map_free(&p->frames);
	ws_map_free(&p->counts);
	ws_map_free(&p->looked);
	free(p);
}

static struct ws_py_proc *proc_of(struct ws_stream *s, bool make)
{
	void **slot = ws_proc_slot(s->proc, WS_SLOT_PYTHON, free_proc);
	struct ws_python *py = s->proc->drain->python;
	struct ws_py_proc *p = *slot;

	if (p || !make || !py)
		return p;
	p = ws_calloc(1, sizeof(*p));
	p->py = py;
	p->proc = s->proc;
	p->next = py->procs;
	py->procs = p;
	*slot = p;
	return p;
}

static void say_seen(struct ws_stream *s, uint16_t version, uint32_t how)
{
	const struct ws_python *py = s->proc->drain->python;

	if (!py->o.sampling)
		return;
	if (how == WS_PYTHON_LOOKED_INTO)
		ws_stream_diagnostic(s, WS_INFO, "python",
				     "CPython %u.%u: frames are read in the kernel, with the "
				     "samples of the CPU.",
				     version >> 8, version & 255u);
	if (how == WS_PYTHON_SIGNALS && py->bpf_error)
		ws_stream_diagnostic(
			s, WS_INFO, "python",
			"CPython %u.%u: frames are recorded by a signal to its threads; reading "
			"them in the kernel would cost "
			"less, which is not to be had here (%s; see 'warpsight doctor').",
			version >> 8, version & 255u, strerror(py->bpf_error));
	if (how == WS_PYTHON_HANDLER_TAKEN)
		ws_stream_diagnostic(s, WS_INFO, "python",
				     "CPython %u.%u: SIGURG has a handler already, so frames are "
				     "read from outside, as samples of "
				     "their own (python_sample).",
				     version >> 8, version & 255u);
}

static void fill_proc(struct ws_py_proc *p, uint64_t runtime, const struct ws_rec *rec)
{
	p->runtime = runtime;
	p->layout.version = rec->small;
	p->signals = rec->value == WS_PYTHON_SIGNALS && !p->signals_failed;
	p->looked_into = rec->value == WS_PYTHON_LOOKED_INTO && p->py->bpf;
}

void ws_convert_python_seen(struct ws_stream *s, const struct ws_rec *rec)
{
	const struct ws_rec_python_seen *n = (const void *)rec;
	struct ws_py_proc *p;

	if (ws_rec_bytes(rec) < sizeof(*n) || !(p = proc_of(s, true)))
		return;
	fill_proc(p, n->runtime, rec);
	say_seen(s, rec->small, rec->value);
}

void ws_convert_python_thread(struct ws_stream *s, const struct ws_rec *rec)
{
	const struct ws_rec_python_thread *n = (const void *)rec;
	struct ws_py_proc *p;

	if (ws_rec_bytes(rec) < sizeof(*n) || !(p = proc_of(s, true)))
		return;
	fill_proc(p, n->runtime, rec);
	if (ws_py_is_exact(p))
		ws_python_thread(p->py, p, s->ring->tid, n, s->clock->v[s->clock->n - 1].raw);
}

/* ---- code ---- */

void ws_convert_python_code(struct ws_stream *s, const struct ws_rec *rec)
{
	const struct ws_rec_python_code *c = (const void *)rec;
	uint32_t bytes = ws_rec_bytes(rec);
	struct stream_state *st;
	struct ws_py_known *k;
	size_t old;

	if (bytes < sizeof(*c) ||
	    (uint64_t)c->name_len + c->file_len + c->here > bytes - sizeof(*c) ||
	    c->number >= CODES_MOST || c->table_bytes > WS_PY_TABLE_MOST ||
	    c->here > c->table_bytes)
		return;
	st = state_of(s);
	old = st->code_cap;
	ws_grow(st->code, st->code_cap, c->number + 1u);
	memset(st->code + old, 0, (st->code_cap - old) * sizeof(*st->code));
	ws_py_known_free(st->code[c->number]);
	k = st->code[c->number] = ws_calloc(1, sizeof(*k));
	k->name = ws_strndup(c->bytes, c->name_len);
	k->file = ws_strndup(c->bytes + c->name_len, c->file_len);
	k->first_line = c->first_line;
	k->version = rec->small;
	k->shim = c->shim;
	k->table_bytes = c->table_bytes;
	k->table_have = c->here;
	k->table = ws_calloc(1, c->table_bytes + 1);
	memcpy(k->table, c->bytes + c->name_len + c->file_len, c->here);
}

void ws_convert_python_table(struct ws_stream *s, const struct ws_rec *rec)
{
	const struct ws_rec_python_table *t = (const void *)rec;
	struct stream_state *st = s->domain_state[WS_SLOT_PYTHON];
	struct ws_py_known *k;

	if (!st || ws_rec_bytes(rec) < sizeof(*t) || t->here > ws_rec_bytes(rec) - sizeof(*t) ||
	    t->number >= st->code_cap || !(k = st->code[t->number]) || t->at != k->table_have ||
	    t->here > k->table_bytes - k->table_have)
		return;
	memcpy(k->table + t->at, t->bytes, t->here);
	k->table_have += t->here;
}

uint32_t ws_py_known_frame(struct ws_stackset *st, const struct ws_py_known *k, int32_t at)
{
	int32_t line = ws_py_line(k->version, k->first_line, k->table, k->table_have, at);

	return ws_stackset_frame(st, WS_FRAME_PYTHON, WS_UNWIND_UNKNOWN, NULL,
				 line > 0 ? (uint64_t)line : 0, k->name, k->file);
}

static uint32_t frame_id(struct ws_stream *s, struct stream_state *st, uint64_t packed)
{
	uint32_t number = (uint32_t)(packed >> 32);
	const struct ws_py_known *k = number < st->code_cap ? st->code[number] : NULL;
	uint64_t key = packed & ~WS_PYTHON_ENTRY;
	uint32_t id;

	if (!k || k->shim)
		return 0;
	id = (uint32_t)ws_map_get(&st->frames, key, NULL);
	if (!id) {
		id = ws_py_known_frame(ws_stackset_of(s->sink), k, (int32_t)(key & 0x7fffffff) - 1);
		ws_map_set(&st->frames, key, id);
	}
	return id;
}

void ws_convert_python_frames(struct ws_stream *s, const struct ws_rec *rec)
{
	const struct ws_rec_python_frames *f = (const void *)rec;
	struct stream_state *st = state_of(s);
	size_t had = st->stack.cap;

	if (ws_rec_bytes(rec) < sizeof(*f) ||
	    f->count > (ws_rec_bytes(rec) - sizeof(*f)) / sizeof(f->frame[0]))
		return;
	ws_grow(st->stack.frame, st->stack.cap, f->count + 1u);
	if (st->stack.cap != had) {
		st->stack.entry =
			ws_realloc(st->stack.entry, st->stack.cap * sizeof(*st->stack.entry));
		st->stack.code =
			ws_realloc(st->stack.code, st->stack.cap * sizeof(*st->stack.code));
	}
	for (uint32_t i = 0; i < f->count; i++) {
		st->stack.frame[i] = frame_id(s, st, f->frame[i]);
		st->stack.entry[i] = f->frame[i] & WS_PYTHON_ENTRY;
		st->stack.code[i] = (uint32_t)(f->frame[i] >> 32);
	}
	st->stack.n = f->count;
	st->stack.truncated = f->truncated;
	st->fresh = true;
}

/* ---- samples ---- */

static struct ws_maps_process *maps_of(struct ws_stream *s, struct ws_py_proc *p, uint64_t time)
{
	struct ws_maps *maps = s->proc->drain->ops.code->maps;
	struct ws_maps_process *m = ws_maps_of(maps, s->proc->host_pid);

	if (!m && s->proc->host_pid > 0 && !ws_maps_scan(maps, s->proc->host_pid, 0, time))
		m = ws_maps_of(maps, s->proc->host_pid);
	if (m && p && m != p->bound) {
		ws_stackset_bind(ws_stackset_of(s->sink), m, s->process);
		p->bound = m;
	}
	return m;
}

static size_t unwind(struct ws_stream *s, struct ws_maps_process *maps,
		     const struct ws_rec_python_sample *n, uint64_t time, struct ws_caller *out,
		     size_t most, unsigned *flags)
{
	struct ws_code *c = s->proc->drain->ops.code;
	struct ws_stop stop = {
		.maps = maps, .time = time, .stack = n->stack, .stack_size = n->stack_bytes};

	_Static_assert(WS_PYTHON_REGS == WS_REGS && WS_PYTHON_SP == WS_REG_SP,
		       "the hook numbers registers as the unwinder does");
	memcpy(stop.regs.r, n->regs, sizeof(stop.regs.r));
	stop.regs.known = (UINT64_C(1) << WS_REGS) - 1;
	stop.stack_at = stop.regs.r[WS_REG_SP];
	if (!ws_maps_find(maps, time, stop.regs.r[WS_REG_IP]) && ws_maps_worth_scanning(maps, time))
		ws_maps_scan(c->maps, s->proc->host_pid, 0, time);
	return ws_unwind(c->unwinder, &stop, WS_MODE_AUTO, out, most, flags);
}

/* What the samples were taken by, once a report. */
#define EVENT_ROW 1000000u /* beyond the ones that perf numbers */
static void describe(struct ws_stream *s)
{
	struct ws_python *py = s->proc->drain->python;
	struct ws_row_perf_event row = {.id = EVENT_ROW,
					.type = 1 /* software */,
					.config = 1 /* task clock */,
					.frequency = py->o.frequency};

	if (s->sink->python_described)
		return;
	s->sink->python_described = true;
	row.name = ws_sink_string(s->sink, "task-clock (Python)");
	ws_writer_add(s->writer, WS_TABLE_perf_event, &row);
}

void ws_convert_python_sample(struct ws_stream *s, const struct ws_rec *rec)
{
	static struct ws_caller places[WS_UNWIND_DEEPEST];
	const struct ws_rec_python_sample *n = (const void *)rec;
	struct stream_state *st = s->domain_state[WS_SLOT_PYTHON];
	struct ws_python *py = s->proc->drain->python;
	struct ws_py_proc *p = proc_of(s, true);
	struct ws_row_sample row = {
		.cpu = WS_NO_U32, .state = WS_STATE_RUNNING, .event = EVENT_ROW};
	struct ws_maps_process *maps;
	unsigned flags = 0;
	size_t frames = 0;

	if (ws_rec_bytes(rec) < sizeof(*n) || n->stack_bytes > ws_rec_bytes(rec) - sizeof(*n) ||
	    !st || !st->fresh || !py || !p)
		return;
	row.start = ws_stream_time(s, n->time);
	maps = maps_of(s, p, row.start);
	if (maps)
		frames = unwind(s, maps, n, row.start, places, WS_COUNT(places), &flags);
	row.thread = s->thread;
	row.weight = n->weight ? n->weight : 1000000000u / py->o.frequency;
	row.callers = ws_python_merge(ws_stackset_of(s->sink), places, frames, &st->stack,
				      flags != 0, &row.frame);
	row.gil = (uint8_t)(n->gil <= WS_GIL_WAITS ? n->gil : WS_GIL_UNKNOWN);
	row.cpu = n->cpu;
	/* A native stack that was cut short is whole again when Python's is: all of it that is
	 * missing are frames of the interpreter. */
	row.flags = (uint8_t)(WS_SAMPLE_CLOCK | WS_SAMPLE_SIGNAL |
			      (st->stack.truncated ? WS_SAMPLE_TRUNCATED : 0) |
			      (st->stack.n ? 0 : flags));
	ws_python_remember(py, s->sink, s->thread, row.start, places, frames, flags != 0,
			   &st->stack);
	st->fresh = false;
	describe(s);
	ws_writer_add(s->writer, WS_TABLE_sample, &row);
	ws_map_set(&p->counts, s->ring->tid, ws_map_get(&p->counts, s->ring->tid, NULL) + 1);
}

const struct ws_py_stack *ws_python_take_frames(struct ws_stream *s)
{
	struct stream_state *st = s->domain_state[WS_SLOT_PYTHON];

	if (!st || !st->fresh)
		return NULL;
	st->fresh = false;
	return &st->stack;
}

/* ---- the GIL ---- */

void ws_convert_gil(struct ws_stream *s, const struct ws_rec *rec)
{
	const struct ws_rec_gil *n = (const void *)rec;

	if (ws_rec_bytes(rec) < sizeof(*n) || n->end < n->start ||
	    (rec->small != WS_GIL_HOLDS && rec->small != WS_GIL_WAITS))
		return;
	write_gil(s, ws_stream_time(s, n->start), ws_stream_time(s, n->end), (uint8_t)rec->small);
}

/* ---- named functions ---- */

void ws_convert_python_range(struct ws_stream *s, const struct ws_rec *rec)
{
	const struct ws_rec_python_range *n = (const void *)rec;
	struct ws_python *py = s->proc->drain->python;
	struct ws_row_slice row = {.thread = s->thread};
	struct ws_python_function *f;

	if (ws_rec_bytes(rec) < sizeof(*n) || n->end < n->start || !py ||
	    rec->value >= py->o.function_n)
		return;
	f = &py->o.functions[rec->value];
	f->seen = true;
	row.start = ws_stream_time(s, n->start);
	row.end = ws_stream_time(s, n->end);
	row.name = ws_sink_string(s->sink, f->name);
	row.category = ws_sink_string(s->sink, f->category ? f->category : f->module);
	row.args = f->args ? ws_sink_string(s->sink, f->args) : 0;
	ws_writer_add(s->writer, WS_TABLE_slice, &row);
}
