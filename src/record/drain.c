/* drain.c - see drain.h. Processes are in proc.c, the simple converters in from_process.c. */
#include "record/drain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/choose.h"
#include "record/proc.h"
#include "record/python.h"

#define TEXTS_MOST (1u << 20)

static void (*const converters[WS_REC_COUNT])(struct ws_stream *, const struct ws_rec *) = {
#define X(kind, fn) [WS_REC_##kind] = ws_convert_##fn,
	WS_RECORD_KINDS(X)
#undef X
};

static bool is_chunk_valid(const struct ws_drain *drain, uint32_t chunk)
{
	return chunk >= drain->arena->chunk_first &&
	       chunk < drain->arena->chunk_first + drain->arena->chunk_count;
}

struct ws_drain *ws_drain_new(struct ws_area *area, struct ws_clock *clock,
			      const struct ws_drain_ops *ops)
{
	struct ws_drain *drain = ws_calloc(1, sizeof(*drain));

	drain->area = area;
	drain->arena = area->arena;
	drain->clock = clock;
	drain->ops = *ops;
	drain->epoll = epoll_create1(EPOLL_CLOEXEC);
	drain->keep_from = UINT64_MAX;
	drain->by_chunk = ws_calloc(drain->arena->chunk_first + drain->arena->chunk_count,
				    sizeof(*drain->by_chunk));
	drain->left = ws_calloc(drain->arena->chunk_first + drain->arena->chunk_count,
				sizeof(*drain->left));
	drain->string_ids = ws_calloc(drain->arena->chunk_first + drain->arena->chunk_count,
				      sizeof(*drain->string_ids));
	return drain;
}

void ws_drain_perf(struct ws_drain *drain, struct ws_perf *perf)
{
	drain->perf = perf;
}

void ws_drain_target(struct ws_drain *drain, pid_t pid)
{
	drain->target = pid;
}

uint32_t ws_drain_registered(const struct ws_drain *drain)
{
	return drain->registered;
}

void ws_drain_each(struct ws_drain *drain, void (*fn)(void *ctx, int pid), void *ctx)
{
	for (struct ws_proc *process = drain->procs; process; process = process->next)
		if (!process->settled && process->host_pid > 0)
			fn(ctx, process->host_pid);
}

/* ---- finding rings ---- */

static void add_ring(struct ws_drain *drain, uint32_t slot, uint32_t chunk)
{
	struct ws_ring *ring = ws_chunk_at(drain->arena, chunk);
	struct ws_proc *process = ws_drain_process(drain, ring->process_home);
	struct ws_ring_state *ring_state;

	if (!process)
		return; /* not ready yet: next round */
	ring_state = ws_calloc(1, sizeof(*ring_state));
	ring_state->ring = ring;
	ring_state->home = ring_state->chunk = chunk;
	ring_state->slot = slot;
	ring_state->offset = WS_RING_DATA;
	ring_state->stream.clock = drain->clock;
	ring_state->stream.sink = process->sink;
	ring_state->stream.writer = process->sink->writer;
	ring_state->stream.proc = process;
	ring_state->stream.process = process->id;
	ring_state->stream.ring = ring;
	memcpy(ring_state->stream.stage, process->sink->stage, sizeof(ring_state->stream.stage));
	process->rings++;
	drain->slot[slot] = ring_state;
}

static void find_new_rings(struct ws_drain *drain)
{
	drain->slots_used = atomic_load_explicit(&drain->arena->dir_used, memory_order_acquire);
	if (drain->slots_used > WS_DIR_SLOTS)
		drain->slots_used = WS_DIR_SLOTS;
	for (uint32_t slot = 0; slot < drain->slots_used; slot++) {
		uint32_t chunk =
			atomic_load_explicit(&drain->arena->directory[slot], memory_order_acquire);
		const struct ws_chunk *chunk_c;

		if (!chunk || drain->slot[slot] || !is_chunk_valid(drain, chunk))
			continue;
		chunk_c = ws_chunk_at(drain->arena, chunk);
		if (chunk_c->kind == WS_CHUNK_PROCESS)
			ws_drain_process(drain, chunk);
		else if (chunk_c->kind == WS_CHUNK_RING)
			add_ring(drain, slot, chunk);
	}
}

/* ---- how far has it got ---- */

static void snapshot_rings(struct ws_drain *drain, struct ws_ring_state *ring_state)
{
	uint32_t chunk = ring_state->chunk, next, used = 0;

	for (uint32_t guard = 0; guard <= drain->arena->chunk_count; guard++) {
		struct ws_chunk *chunk_c = ws_chunk_at(drain->arena, chunk);

		next = atomic_load_explicit(&chunk_c->next, memory_order_acquire);
		used = atomic_load_explicit(&chunk_c->used, memory_order_acquire);
		if (next == WS_CHUNK_NONE || !is_chunk_valid(drain, next))
			break;
		chunk = next;
	}
	ring_state->snap_chunk = chunk;
	ring_state->snap_used = ws_min(used, WS_CHUNK_SIZE);
}

/* ---- converting ---- */

static void mark_ring_broken(struct ws_drain *drain, struct ws_ring_state *ring_state)
{
	if (!ring_state->broken)
		ws_sink_diagnostic(ring_state->stream.sink, WS_ERROR, "recorder",
				   ring_state->stream.process,
				   drain->clock->readings[drain->clock->n - 1].raw,
				   "A thread's recorded data was overwritten by the program itself "
				   "(a stray write into shared memory); part of "
				   "it is lost.");
	ring_state->broken = true;
	ring_state
		->lost[WS_LOSS_OTHER]--; /* makes the difference to the ring's own count one more */
}

static uint64_t convert_chunk(struct ws_drain *drain, struct ws_ring_state *ring_state,
			      uint32_t used)
{
	const char *base = ws_chunk_at(drain->arena, ring_state->chunk);
	uint32_t at = ring_state->offset, from = at;
	uint64_t n = 0;

	ring_state->stream.base = ((const struct ws_chunk *)base)->base;
	while (at < used) {
		const struct ws_rec *rec = (const void *)(base + at);
		uint32_t bytes = ws_rec_bytes(rec);

		if (ws_unlikely(bytes < sizeof(*rec) || bytes > used - at || !rec->kind ||
				rec->kind >= WS_REC_COUNT)) {
			mark_ring_broken(drain, ring_state);
			at = used;
			break;
		}
		converters[rec->kind](&ring_state->stream, rec);
		at += bytes;
		n++;
	}
	ring_state->offset = at;
	ring_state->stream.sink->events += n;
	return at - from;
}

static uint64_t convert_ring(struct ws_drain *drain, struct ws_ring_state *ring_state)
{
	uint64_t bytes = 0;

	if (!ring_state->stream.thread &&
	    (ring_state->chunk != ring_state->snap_chunk ||
	     ring_state->offset < ring_state->snap_used || ring_state->ending))
		ring_state->stream.thread =
			ws_proc_thread_at(ring_state->stream.proc, ring_state->ring->tid,
					  ws_clock_ns(drain->clock, ring_state->ring->start));
	while (ring_state->chunk != ring_state->snap_chunk) {
		struct ws_chunk *chunk = ws_chunk_at(drain->arena, ring_state->chunk);
		uint32_t used = atomic_load_explicit(&chunk->used, memory_order_acquire),
			 done = ring_state->chunk;

		bytes += convert_chunk(drain, ring_state, ws_min(used, WS_CHUNK_SIZE));
		ring_state->chunk = atomic_load_explicit(&chunk->next, memory_order_acquire);
		ring_state->offset = sizeof(struct ws_chunk);
		if (done != ring_state->home)
			ws_give_chunk(drain->arena, done);
		ws_area_feed(drain->area); /* a writer that outruns this must not have to allocate
					  for itself */
	}
	if (ring_state->offset < ring_state->snap_used)
		bytes += convert_chunk(drain, ring_state, ring_state->snap_used);
	return bytes;
}

/* ---- ends ---- */

static void open_events(struct ws_drain *drain, struct ws_ring_state *ring_state)
{
	uint32_t depth = atomic_load_explicit(&ring_state->ring->open_depth, memory_order_acquire),
		 level = 0;
	uint32_t more = atomic_load_explicit(&ring_state->ring->open_more, memory_order_acquire);

	for (; level < depth && level < WS_OPEN_DEPTH; level++)
		if (ring_state->ring->open[level].start)
			ws_convert_open(&ring_state->stream, &ring_state->ring->open[level]);
	while (level < depth && is_chunk_valid(drain, more)) {
		const struct ws_open_chunk *chunk = ws_chunk_at(drain->arena, more);

		for (uint32_t i = 0; i < WS_OPEN_PER_CHUNK && level < depth; i++, level++)
			if (chunk->open[i].start)
				ws_convert_open(&ring_state->stream, &chunk->open[i]);
		more = atomic_load_explicit(&chunk->chunk.next, memory_order_acquire);
	}
	ws_convert_osrt_open(&ring_state->stream);
}

static const char *const loss_names[WS_LOSS_KINDS] = {[WS_LOSS_NVTX] = "nvtx",
						      [WS_LOSS_OSRT] = "osrt",
						      [WS_LOSS_OTHER] = "other events",
						      [WS_LOSS_DEPTH] = "nvtx",
						      [WS_LOSS_CUDA] = "cuda",
						      [WS_LOSS_SAMPLE] = "CPU samples",
						      [WS_LOSS_PYTHON] = "Python samples"};

static void write_losses(struct ws_ring_state *ring_state)
{
	for (int k = 0; k < WS_LOSS_KINDS; k++) {
		uint64_t lost =
			atomic_load_explicit(&ring_state->ring->lost[k], memory_order_relaxed) -
			ring_state->lost[k];

		if (lost)
			ws_sink_loss(ring_state->stream.sink, ring_state->stream.thread,
				     ws_text_or(loss_names[k], "other events"), lost,
				     k == WS_LOSS_DEPTH	  ? "ranges nested too deep"
				     : ring_state->broken ? "shared memory was overwritten or full"
							  : "the memory for recording was full");
		ring_state->lost[k] += lost;
	}
}

static void settle_ring(struct ws_drain *drain, struct ws_ring_state *ring_state, bool memory_too)
{
	struct ws_proc *process = ring_state->stream.proc;
	uint32_t more = atomic_load(&ring_state->ring->open_more);

	if (!drain->open_done)
		open_events(drain, ring_state);
	ws_convert_nvtx_stream_end(&ring_state->stream);
	ws_convert_python_stream_end(&ring_state->stream);
	ws_convert_stack_stream_end(&ring_state->stream);
	write_losses(ring_state);
	if (ring_state->ring->nest == 0)
		ws_proc_thread_ended(process, ring_state->stream.thread);
	if (memory_too) {
		for (uint32_t guard = 0; guard < 64 && is_chunk_valid(drain, more); guard++) {
			uint32_t next = atomic_load(
				&((struct ws_chunk *)ws_chunk_at(drain->arena, more))->next);

			ws_give_chunk(drain->arena, more);
			more = next;
		}
		if (ring_state->chunk != ring_state->home)
			ws_give_chunk(drain->arena, ring_state->chunk);
		atomic_store_explicit(&drain->arena->directory[ring_state->slot], 0,
				      memory_order_release);
		ws_give_chunk(drain->arena, ring_state->home);
	}
	drain->slot[ring_state->slot] = NULL;
	process->rings--;
	free(ring_state->text_number);
	free(ring_state->text_id);
	free(ring_state->piece);
	free(ring_state);
}

/* ---- a round ---- */

static uint64_t drain_round(struct ws_drain *drain, bool last)
{
	uint64_t bytes = 0;

	atomic_store_explicit(&drain->arena->heartbeat,
			      drain->clock->mode == WS_CLOCK_COUNTER ? ws_read_counter()
								     : ws_read_raw_ns(),
			      memory_order_relaxed);
	ws_drain_poll_ends(drain);
	/*
	 * Who is known to have ended before the directory is read has all its rings in it. Who is
	 * found dead while it is read may have put one in a slot already passed: that process is
	 * settled a round later, when its rings have been seen.
	 */
	for (struct ws_proc *process = drain->procs; process; process = process->next)
		process->complete = process->ending;
	find_new_rings(drain);
	if (last)
		find_new_rings(drain);
	for (uint32_t i = 0; i < drain->slots_used; i++)
		if (drain->slot[i]) {
			struct ws_ring_state *ring_state = drain->slot[i];

			ring_state->ending = ring_state->stream.proc->ending ||
					     atomic_load_explicit(&ring_state->ring->closed,
								  memory_order_acquire);
			snapshot_rings(drain, ring_state);
		}
	ws_clock_read(drain->clock);
	/* What CUPTI hands back on its threads refers to what other threads wrote before: those
	 * first. */
	for (uint32_t k = 0; k < 2 * drain->slots_used; k++) {
		struct ws_ring_state *ring_state = drain->slot[k % drain->slots_used];

		if (!ring_state || ring_state->stream.late != (k >= drain->slots_used))
			continue;
		bytes += convert_ring(drain, ring_state);
		if (ring_state->ending || last)
			settle_ring(drain, ring_state,
				    ring_state->ending && (ring_state->stream.proc->host_pid ||
							   atomic_load(&ring_state->ring->closed)));
	}
	for (struct ws_proc *process = drain->procs, *next; process; process = next) {
		next = process->next;
		if ((process->complete || last) && !process->rings) {
			if (!process->ending)
				process->reason = WS_END_RUNNING;
			/* One that cannot be seen may have threads that write on after it said that
			 * it ends: its memory stays. */
			ws_drain_settle_process(drain, process,
						process->ending && process->host_pid);
		}
	}
	ws_drain_write_ends(drain, last);
	if (drain->started_n)
		ws_drain_check_started(drain, last);
	ws_python_round(drain->python, drain->clock->readings[drain->clock->n - 1].raw);
	return bytes;
}

uint64_t ws_drain_round(struct ws_drain *drain)
{
	return drain_round(drain, false);
}

void ws_drain_open_events(struct ws_drain *drain)
{
	for (uint32_t i = 0; i < drain->slots_used; i++)
		if (drain->slot[i]) {
			if (!drain->slot[i]->stream.thread)
				drain->slot[i]->stream.thread = ws_proc_thread(
					drain->slot[i]->stream.proc, drain->slot[i]->ring->tid,
					ws_clock_ns(drain->clock, drain->slot[i]->ring->start));
			open_events(drain, drain->slot[i]);
		}
	drain->open_done = true;
}

void ws_drain_finish(struct ws_drain *drain)
{
	drain_round(drain, true);
	for (uint32_t i = 0; i < GONE_BUCKETS; i++)
		while (drain->gone[i]) {
			struct ws_proc *process = drain->gone[i];

			drain->gone[i] = process->next;
			ws_proc_free(process);
		}
	for (uint32_t i = 0; i < drain->arena->chunk_first + drain->arena->chunk_count; i++)
		free(drain->string_ids[i]);
	free(drain->string_ids);
	free(drain->by_chunk);
	free(drain->left);
	free(drain->ends);
	free(drain->started);
	close(drain->epoll);
	free(drain);
}

/* ---- strings, for converters ---- */

static const struct ws_shared_string *read_shared_string(struct ws_drain *drain, uint32_t handle,
							 uint32_t *chunk)
{
	uint64_t offset = (uint64_t)handle * 8 % WS_CHUNK_SIZE;
	const struct ws_chunk *chunk_c;
	const struct ws_shared_string *string;

	*chunk = (uint32_t)((uint64_t)handle * 8 / WS_CHUNK_SIZE);
	if (!is_chunk_valid(drain, *chunk) || offset < sizeof(struct ws_chunk))
		return NULL;
	chunk_c = ws_chunk_at(drain->arena, *chunk);
	if (chunk_c->kind != WS_CHUNK_STRINGS && chunk_c->kind != WS_CHUNK_PROCESS)
		return NULL;
	string = ws_string_at(drain->arena, handle);
	if (offset + sizeof(*string) + string->len >= WS_CHUNK_SIZE)
		return NULL;
	return string;
}

uint32_t ws_stream_string(struct ws_stream *stream, uint32_t handle)
{
	struct ws_drain *drain = stream->proc->drain;
	const struct ws_shared_string *str;
	uint32_t chunk, *ids;

	if (!handle || !(str = read_shared_string(drain, handle, &chunk)))
		return 0;
	ids = drain->string_ids[chunk];
	if (!ids)
		ids = drain->string_ids[chunk] = ws_calloc(WS_CHUNK_SIZE / 8, sizeof(*ids));
	ids += handle % (WS_CHUNK_SIZE / 8);
	if (!*ids)
		*ids = ws_writer_string(stream->writer, str->bytes, str->len);
	return *ids;
}

const char *ws_stream_string_bytes(struct ws_stream *stream, uint32_t handle, size_t *len)
{
	uint32_t chunk;
	const struct ws_shared_string *str =
		handle ? read_shared_string(stream->proc->drain, handle, &chunk) : NULL;

	if (!str)
		return NULL;
	*len = str->len;
	return str->bytes;
}

uint32_t ws_stream_intern(struct ws_stream *stream, const void *bytes, size_t len)
{
	return ws_writer_string(stream->writer, bytes, len);
}

uint32_t ws_stream_thread(struct ws_stream *stream, uint32_t tid)
{
	if (stream->ring && tid == stream->ring->tid)
		return stream->thread;
	return ws_proc_thread(stream->proc, tid, stream->clock->readings[stream->clock->n - 1].raw);
}

/*
 * Local texts: numbers count up and are mostly forgotten in order, so a table indexed by their low
 * bits seldom collides. One that stays long (an outer range) is stepped over; only when many do is
 * the table doubled.
 */
#define TEXTS_FIRST 64
#define TEXTS_STEPS 64

static bool put_text(struct ws_ring_state *ring_state, uint32_t number, uint32_t id)
{
	for (uint32_t k = 0; ring_state->text_cap && k < TEXTS_STEPS; k++) {
		uint32_t i = (number + k) & (ring_state->text_cap - 1);

		if (!ring_state->text_number[i]) {
			ring_state->text_number[i] = number;
			ring_state->text_id[i] = id;
			return true;
		}
	}
	return false;
}

static void grow_texts(struct ws_ring_state *ring_state)
{
	uint32_t old_cap = ring_state->text_cap, *number = ring_state->text_number,
		 *id = ring_state->text_id;

	ring_state->text_cap = old_cap ? old_cap * 2 : TEXTS_FIRST;
	ring_state->text_number = ws_calloc(ring_state->text_cap, sizeof(*number));
	ring_state->text_id = ws_calloc(ring_state->text_cap, sizeof(*id));
	for (uint32_t i = 0; i < old_cap; i++)
		if (number[i] && !put_text(ring_state, number[i],
					   id[i])) { /* too many whose low bits are alike */
			ring_state->text_number[number[i] & (ring_state->text_cap - 1)] = number[i];
			ring_state->text_id[number[i] & (ring_state->text_cap - 1)] = id[i];
		}
	free(number);
	free(id);
}

static void keep_whole_text(struct ws_ring_state *ring_state, uint32_t number, uint32_t id)
{
	while (!put_text(ring_state, number, id)) {
		if (ring_state->text_cap >= TEXTS_MOST) {
			ring_state->text_number[number & (ring_state->text_cap - 1)] =
				0; /* the oldest is forgotten */
			continue;
		}
		grow_texts(ring_state);
	}
}

uint32_t ws_stream_text(struct ws_stream *stream, uint32_t number, bool last)
{
	struct ws_ring_state *ring_state = (struct ws_ring_state *)stream;

	if (!stream->ring || !number)
		return 0;
	for (uint32_t k = 0; ring_state->text_cap && k < TEXTS_STEPS; k++) {
		uint32_t i = (number + k) & (ring_state->text_cap - 1);

		if (ring_state->text_number[i] != number)
			continue;
		if (last)
			ring_state->text_number[i] = 0;
		return ring_state->text_id[i];
	}
	return 0;
}

void ws_convert_text(struct ws_stream *stream, const struct ws_rec *rec)
{
	struct ws_ring_state *ring_state = (struct ws_ring_state *)stream;
	const struct ws_rec_text *record = (const void *)rec;
	uint32_t bytes = ws_rec_bytes(rec);

	if (bytes < sizeof(*record) || record->len > bytes - sizeof(*record) || !record->number)
		return;
	if (ws_unlikely(ring_state->piece_len && ring_state->piece_number != record->number))
		ring_state->piece_len = 0; /* the rest of that one found no memory */
	if (ws_likely(!rec->small && !ring_state->piece_len)) {
		keep_whole_text(ring_state, record->number,
				ws_writer_string(stream->writer, record->bytes, record->len));
		return;
	}
	ws_grow(ring_state->piece, ring_state->piece_cap, ring_state->piece_len + record->len + 1);
	memcpy(ring_state->piece + ring_state->piece_len, record->bytes, record->len);
	ring_state->piece_len += record->len;
	ring_state->piece_number = record->number;
	if (rec->small)
		return;
	keep_whole_text(ring_state, record->number,
			ws_writer_string(stream->writer, ring_state->piece, ring_state->piece_len));
	ring_state->piece_len = 0;
	if (ring_state->piece_cap > 1 << 20) {
		free(ring_state->piece);
		ring_state->piece = NULL;
		ring_state->piece_cap = 0;
	}
}
