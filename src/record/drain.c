/* drain.c - see drain.h. Processes are in proc.c, the simple converters in from_process.c. */
#include "record/drain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/mem.h"
#include "record/proc.h"
#include "record/python.h"

#define TEXTS_MOST (1u << 20)

static void (*const converters[WS_REC_COUNT])(struct ws_stream *, const struct ws_rec *) = {
#define X(kind, fn) [WS_REC_##kind] = ws_convert_##fn,
	WS_RECORD_KINDS(X)
#undef X
};

static bool chunk_ok(const struct ws_drain *d, uint32_t chunk)
{
	return chunk >= d->a->chunk_first && chunk < d->a->chunk_first + d->a->chunk_count;
}

struct ws_drain *ws_drain_new(struct ws_area *area, struct ws_clock *clock,
			      const struct ws_drain_ops *ops)
{
	struct ws_drain *d = ws_calloc(1, sizeof(*d));

	d->area = area;
	d->a = area->a;
	d->clock = clock;
	d->ops = *ops;
	d->epoll = epoll_create1(EPOLL_CLOEXEC);
	d->keep_from = UINT64_MAX;
	d->by_chunk = ws_calloc(d->a->chunk_first + d->a->chunk_count, sizeof(*d->by_chunk));
	d->left = ws_calloc(d->a->chunk_first + d->a->chunk_count, sizeof(*d->left));
	d->string_ids = ws_calloc(d->a->chunk_first + d->a->chunk_count, sizeof(*d->string_ids));
	return d;
}

void ws_drain_perf(struct ws_drain *d, struct ws_perf *perf)
{
	d->perf = perf;
}

void ws_drain_target(struct ws_drain *d, pid_t pid)
{
	d->target = pid;
}

uint32_t ws_drain_registered(const struct ws_drain *d)
{
	return d->registered;
}

void ws_drain_each(struct ws_drain *d, void (*fn)(void *ctx, int pid), void *ctx)
{
	for (struct ws_proc *p = d->procs; p; p = p->next)
		if (!p->settled && p->host_pid > 0)
			fn(ctx, p->host_pid);
}

/* ---- finding rings ---- */

static void new_ring(struct ws_drain *d, uint32_t slot, uint32_t chunk)
{
	struct ws_ring *ring = ws_chunk_at(d->a, chunk);
	struct ws_proc *p = ws_drain_process(d, ring->process_home);
	struct ws_ring_state *r;

	if (!p)
		return; /* not ready yet: next round */
	r = ws_calloc(1, sizeof(*r));
	r->ring = ring;
	r->home = r->chunk = chunk;
	r->slot = slot;
	r->offset = WS_RING_DATA;
	r->stream.clock = d->clock;
	r->stream.sink = p->sink;
	r->stream.writer = p->sink->writer;
	r->stream.proc = p;
	r->stream.process = p->id;
	r->stream.ring = ring;
	memcpy(r->stream.stage, p->sink->stage, sizeof(r->stream.stage));
	p->rings++;
	d->slot[slot] = r;
}

static void look_for_new(struct ws_drain *d)
{
	d->slots_used = atomic_load_explicit(&d->a->dir_used, memory_order_acquire);
	if (d->slots_used > WS_DIR_SLOTS)
		d->slots_used = WS_DIR_SLOTS;
	for (uint32_t slot = 0; slot < d->slots_used; slot++) {
		uint32_t chunk = atomic_load_explicit(&d->a->directory[slot], memory_order_acquire);
		const struct ws_chunk *c;

		if (!chunk || d->slot[slot] || !chunk_ok(d, chunk))
			continue;
		c = ws_chunk_at(d->a, chunk);
		if (c->kind == WS_CHUNK_PROCESS)
			ws_drain_process(d, chunk);
		else if (c->kind == WS_CHUNK_RING)
			new_ring(d, slot, chunk);
	}
}

/* ---- how far has it got ---- */

static void snapshot(struct ws_drain *d, struct ws_ring_state *r)
{
	uint32_t chunk = r->chunk, next, used = 0;

	for (uint32_t guard = 0; guard <= d->a->chunk_count; guard++) {
		struct ws_chunk *c = ws_chunk_at(d->a, chunk);

		next = atomic_load_explicit(&c->next, memory_order_acquire);
		used = atomic_load_explicit(&c->used, memory_order_acquire);
		if (next == WS_CHUNK_NONE || !chunk_ok(d, next))
			break;
		chunk = next;
	}
	r->snap_chunk = chunk;
	r->snap_used = used <= WS_CHUNK_SIZE ? used : WS_CHUNK_SIZE;
}

/* ---- converting ---- */

static void broken(struct ws_drain *d, struct ws_ring_state *r)
{
	if (!r->broken)
		ws_sink_diagnostic(r->stream.sink, WS_ERROR, "recorder", r->stream.process,
				   d->clock->v[d->clock->n - 1].raw,
				   "A thread's recorded data was overwritten by the program itself "
				   "(a stray write into shared memory); part of "
				   "it is lost.");
	r->broken = true;
	r->lost[WS_LOSS_OTHER]--; /* makes the difference to the ring's own count one more */
}

static uint64_t convert_chunk(struct ws_drain *d, struct ws_ring_state *r, uint32_t used)
{
	const char *base = ws_chunk_at(d->a, r->chunk);
	uint32_t at = r->offset, from = at;
	uint64_t n = 0;

	r->stream.base = ((const struct ws_chunk *)base)->base;
	while (at < used) {
		const struct ws_rec *rec = (const void *)(base + at);
		uint32_t bytes = ws_rec_bytes(rec);

		if (ws_unlikely(bytes < sizeof(*rec) || bytes > used - at || !rec->kind ||
				rec->kind >= WS_REC_COUNT)) {
			broken(d, r);
			at = used;
			break;
		}
		converters[rec->kind](&r->stream, rec);
		at += bytes;
		n++;
	}
	r->offset = at;
	r->stream.sink->events += n;
	return at - from;
}

static uint64_t convert_ring(struct ws_drain *d, struct ws_ring_state *r)
{
	uint64_t bytes = 0;

	if (!r->stream.thread &&
	    (r->chunk != r->snap_chunk || r->offset < r->snap_used || r->ending))
		r->stream.thread = ws_proc_thread_at(r->stream.proc, r->ring->tid,
						     ws_clock_ns(d->clock, r->ring->start));
	while (r->chunk != r->snap_chunk) {
		struct ws_chunk *c = ws_chunk_at(d->a, r->chunk);
		uint32_t used = atomic_load_explicit(&c->used, memory_order_acquire),
			 done = r->chunk;

		bytes += convert_chunk(d, r, used <= WS_CHUNK_SIZE ? used : WS_CHUNK_SIZE);
		r->chunk = atomic_load_explicit(&c->next, memory_order_acquire);
		r->offset = sizeof(struct ws_chunk);
		if (done != r->home)
			ws_chunk_give(d->a, done);
		ws_area_feed(d->area); /* a writer that outruns this must not have to allocate for
					  itself */
	}
	if (r->offset < r->snap_used)
		bytes += convert_chunk(d, r, r->snap_used);
	return bytes;
}

/* ---- ends ---- */

static void open_events(struct ws_drain *d, struct ws_ring_state *r)
{
	uint32_t depth = atomic_load_explicit(&r->ring->open_depth, memory_order_acquire),
		 level = 0;
	uint32_t more = atomic_load_explicit(&r->ring->open_more, memory_order_acquire);

	for (; level < depth && level < WS_OPEN_DEPTH; level++)
		if (r->ring->open[level].start)
			ws_convert_open(&r->stream, &r->ring->open[level]);
	while (level < depth && chunk_ok(d, more)) {
		const struct ws_open_chunk *c = ws_chunk_at(d->a, more);

		for (uint32_t i = 0; i < WS_OPEN_PER_CHUNK && level < depth; i++, level++)
			if (c->open[i].start)
				ws_convert_open(&r->stream, &c->open[i]);
		more = atomic_load_explicit(&c->chunk.next, memory_order_acquire);
	}
	ws_convert_osrt_open(&r->stream);
}

static const char *const loss_names[WS_LOSS_KINDS] = {[WS_LOSS_NVTX] = "nvtx",
						      [WS_LOSS_OSRT] = "osrt",
						      [WS_LOSS_OTHER] = "other events",
						      [WS_LOSS_DEPTH] = "nvtx",
						      [WS_LOSS_CUDA] = "cuda",
						      [WS_LOSS_SAMPLE] = "CPU samples",
						      [WS_LOSS_PYTHON] = "Python samples"};

static void write_losses(struct ws_ring_state *r)
{
	for (int k = 0; k < WS_LOSS_KINDS; k++) {
		uint64_t lost =
			atomic_load_explicit(&r->ring->lost[k], memory_order_relaxed) - r->lost[k];

		if (lost)
			ws_sink_loss(r->stream.sink, r->stream.thread,
				     loss_names[k] ? loss_names[k] : "other events", lost,
				     k == WS_LOSS_DEPTH ? "ranges nested too deep"
				     : r->broken	? "shared memory was overwritten or full"
							: "the memory for recording was full");
		r->lost[k] += lost;
	}
}

static void settle_ring(struct ws_drain *d, struct ws_ring_state *r, bool memory_too)
{
	struct ws_proc *p = r->stream.proc;
	uint32_t more = atomic_load(&r->ring->open_more);

	if (!d->open_done)
		open_events(d, r);
	ws_convert_nvtx_stream_end(&r->stream);
	ws_convert_python_stream_end(&r->stream);
	ws_convert_stack_stream_end(&r->stream);
	write_losses(r);
	if (r->ring->nest == 0)
		ws_proc_thread_ended(p, r->stream.thread);
	if (memory_too) {
		for (uint32_t guard = 0; guard < 64 && chunk_ok(d, more); guard++) {
			uint32_t next =
				atomic_load(&((struct ws_chunk *)ws_chunk_at(d->a, more))->next);

			ws_chunk_give(d->a, more);
			more = next;
		}
		if (r->chunk != r->home)
			ws_chunk_give(d->a, r->chunk);
		atomic_store_explicit(&d->a->directory[r->slot], 0, memory_order_release);
		ws_chunk_give(d->a, r->home);
	}
	d->slot[r->slot] = NULL;
	p->rings--;
	free(r->text_number);
	free(r->text_id);
	free(r->piece);
	free(r);
}

/* ---- a round ---- */

static uint64_t round_of(struct ws_drain *d, bool last)
{
	uint64_t bytes = 0;

	atomic_store_explicit(&d->a->heartbeat,
			      d->clock->mode == WS_CLOCK_COUNTER ? ws_counter() : ws_raw_ns(),
			      memory_order_relaxed);
	ws_drain_poll_ends(d);
	/*
	 * Who is known to have ended before the directory is read has all its rings in it. Who is
	 * found dead while it is read may have put one in a slot already passed: that process is
	 * settled a round later, when its rings have been seen.
	 */
	for (struct ws_proc *p = d->procs; p; p = p->next)
		p->complete = p->ending;
	look_for_new(d);
	if (last)
		look_for_new(d);
	for (uint32_t i = 0; i < d->slots_used; i++)
		if (d->slot[i]) {
			struct ws_ring_state *r = d->slot[i];

			r->ending = r->stream.proc->ending ||
				    atomic_load_explicit(&r->ring->closed, memory_order_acquire);
			snapshot(d, r);
		}
	ws_clock_read(d->clock);
	/* What CUPTI hands back on its threads refers to what other threads wrote before: those
	 * first. */
	for (uint32_t k = 0; k < 2 * d->slots_used; k++) {
		struct ws_ring_state *r = d->slot[k % d->slots_used];

		if (!r || r->stream.late != (k >= d->slots_used))
			continue;
		bytes += convert_ring(d, r);
		if (r->ending || last)
			settle_ring(d, r,
				    r->ending && (r->stream.proc->host_pid ||
						  atomic_load(&r->ring->closed)));
	}
	for (struct ws_proc *p = d->procs, *next; p; p = next) {
		next = p->next;
		if ((p->complete || last) && !p->rings) {
			if (!p->ending)
				p->reason = WS_END_RUNNING;
			/* One that cannot be seen may have threads that write on after it said that
			 * it ends: its memory stays. */
			ws_drain_settle_process(d, p, p->ending && p->host_pid);
		}
	}
	ws_drain_write_ends(d, last);
	if (d->started_n)
		ws_drain_check_started(d, last);
	ws_python_round(d->python, d->clock->v[d->clock->n - 1].raw);
	return bytes;
}

uint64_t ws_drain_round(struct ws_drain *d)
{
	return round_of(d, false);
}

void ws_drain_open_events(struct ws_drain *d)
{
	for (uint32_t i = 0; i < d->slots_used; i++)
		if (d->slot[i]) {
			if (!d->slot[i]->stream.thread)
				d->slot[i]->stream.thread = ws_proc_thread(
					d->slot[i]->stream.proc, d->slot[i]->ring->tid,
					ws_clock_ns(d->clock, d->slot[i]->ring->start));
			open_events(d, d->slot[i]);
		}
	d->open_done = true;
}

void ws_drain_finish(struct ws_drain *d)
{
	round_of(d, true);
	for (uint32_t i = 0; i < GONE_BUCKETS; i++)
		while (d->gone[i]) {
			struct ws_proc *p = d->gone[i];

			d->gone[i] = p->next;
			ws_proc_free(p);
		}
	for (uint32_t i = 0; i < d->a->chunk_first + d->a->chunk_count; i++)
		free(d->string_ids[i]);
	free(d->string_ids);
	free(d->by_chunk);
	free(d->left);
	free(d->ends);
	free(d->started);
	close(d->epoll);
	free(d);
}

/* ---- strings, for converters ---- */

static const struct ws_shared_string *shared_string(struct ws_drain *d, uint32_t handle,
						    uint32_t *chunk)
{
	uint64_t offset = (uint64_t)handle * 8 % WS_CHUNK_SIZE;
	const struct ws_chunk *c;
	const struct ws_shared_string *s;

	*chunk = (uint32_t)((uint64_t)handle * 8 / WS_CHUNK_SIZE);
	if (!chunk_ok(d, *chunk) || offset < sizeof(struct ws_chunk))
		return NULL;
	c = ws_chunk_at(d->a, *chunk);
	if (c->kind != WS_CHUNK_STRINGS && c->kind != WS_CHUNK_PROCESS)
		return NULL;
	s = ws_string_at(d->a, handle);
	if (offset + sizeof(*s) + s->len >= WS_CHUNK_SIZE)
		return NULL;
	return s;
}

uint32_t ws_stream_string(struct ws_stream *s, uint32_t handle)
{
	struct ws_drain *d = s->proc->drain;
	const struct ws_shared_string *str;
	uint32_t chunk, *ids;

	if (!handle || !(str = shared_string(d, handle, &chunk)))
		return 0;
	ids = d->string_ids[chunk];
	if (!ids)
		ids = d->string_ids[chunk] = ws_calloc(WS_CHUNK_SIZE / 8, sizeof(*ids));
	ids += handle % (WS_CHUNK_SIZE / 8);
	if (!*ids)
		*ids = ws_writer_string(s->writer, str->bytes, str->len);
	return *ids;
}

const char *ws_stream_string_bytes(struct ws_stream *s, uint32_t handle, size_t *len)
{
	uint32_t chunk;
	const struct ws_shared_string *str =
		handle ? shared_string(s->proc->drain, handle, &chunk) : NULL;

	if (!str)
		return NULL;
	*len = str->len;
	return str->bytes;
}

uint32_t ws_stream_intern(struct ws_stream *s, const void *bytes, size_t len)
{
	return ws_writer_string(s->writer, bytes, len);
}

uint32_t ws_stream_thread(struct ws_stream *s, uint32_t tid)
{
	if (s->ring && tid == s->ring->tid)
		return s->thread;
	return ws_proc_thread(s->proc, tid, s->clock->v[s->clock->n - 1].raw);
}

/*
 * Local texts: numbers count up and are mostly forgotten in order, so a table indexed by their low
 * bits seldom collides. One that stays long (an outer range) is stepped over; only when many do is
 * the table doubled.
 */
#define TEXTS_FIRST 64
#define TEXTS_STEPS 64

static bool put_text(struct ws_ring_state *r, uint32_t number, uint32_t id)
{
	for (uint32_t k = 0; r->text_cap && k < TEXTS_STEPS; k++) {
		uint32_t i = (number + k) & (r->text_cap - 1);

		if (!r->text_number[i]) {
			r->text_number[i] = number;
			r->text_id[i] = id;
			return true;
		}
	}
	return false;
}

static void grow_texts(struct ws_ring_state *r)
{
	uint32_t old_cap = r->text_cap, *number = r->text_number, *id = r->text_id;

	r->text_cap = old_cap ? old_cap * 2 : TEXTS_FIRST;
	r->text_number = ws_calloc(r->text_cap, sizeof(*number));
	r->text_id = ws_calloc(r->text_cap, sizeof(*id));
	for (uint32_t i = 0; i < old_cap; i++)
		if (number[i] &&
		    !put_text(r, number[i], id[i])) { /* too many whose low bits are alike */
			r->text_number[number[i] & (r->text_cap - 1)] = number[i];
			r->text_id[number[i] & (r->text_cap - 1)] = id[i];
		}
	free(number);
	free(id);
}

static void keep_text(struct ws_ring_state *r, uint32_t number, uint32_t id)
{
	while (!put_text(r, number, id)) {
		if (r->text_cap >= TEXTS_MOST) {
			r->text_number[number & (r->text_cap - 1)] =
				0; /* the oldest is forgotten */
			continue;
		}
		grow_texts(r);
	}
}

uint32_t ws_stream_text(struct ws_stream *s, uint32_t number, bool last)
{
	struct ws_ring_state *r = (struct ws_ring_state *)s;

	if (!s->ring || !number)
		return 0;
	for (uint32_t k = 0; r->text_cap && k < TEXTS_STEPS; k++) {
		uint32_t i = (number + k) & (r->text_cap - 1);

		if (r->text_number[i] != number)
			continue;
		if (last)
			r->text_number[i] = 0;
		return r->text_id[i];
	}
	return 0;
}

void ws_convert_text(struct ws_stream *s, const struct ws_rec *rec)
{
	struct ws_ring_state *r = (struct ws_ring_state *)s;
	const struct ws_rec_text *t = (const void *)rec;
	uint32_t bytes = ws_rec_bytes(rec);

	if (bytes < sizeof(*t) || t->len > bytes - sizeof(*t) || !t->number)
		return;
	if (ws_unlikely(r->piece_len && r->piece_number != t->number))
		r->piece_len = 0; /* the rest of that one found no memory */
	if (ws_likely(!rec->small && !r->piece_len)) {
		keep_text(r, t->number, ws_writer_string(s->writer, t->bytes, t->len));
		return;
	}
	ws_grow(r->piece, r->piece_cap, r->piece_len + t->len + 1);
	memcpy(r->piece + r->piece_len, t->bytes, t->len);
	r->piece_len += t->len;
	r->piece_number = t->number;
	if (rec->small)
		return;
	keep_text(r, t->number, ws_writer_string(s->writer, r->piece, r->piece_len));
	r->piece_len = 0;
	if (r->piece_cap > 1 << 20) {
		free(r->piece);
		r->piece = NULL;
		r->piece_cap = 0;
	}
}
